/* SPDX-License-Identifier: MIT
 *
 * Conditional nodes of graphs: kernels call cudaGraphSetConditional(), which is the driver's own, with a handle of a graph of the
 * driver's. The handles of gdev's graphs are addresses of a word in device memory (lib/cuda/graph_conditional.c). So PTX gets a
 * function of that name that stores to it.
 */
#include "device/cuda/cuda.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define NAME "cudaGraphSetConditional"

static const char definition[] = ".func " NAME "(.param .b64 gdev_handle, .param .b32 gdev_value)\n"
				 "{\n"
				 ".reg .b64 %at;\n.reg .b32 %value;\n"
				 "ld.param.b64 %at, [gdev_handle];\n"
				 "ld.param.b32 %value, [gdev_value];\n"
				 "st.b32 [%at], %value;\n"
				 "ret;\n"
				 "}\n";

bool condition_is_set_by(const char *name)
{
	return !strcmp(name, NAME);
}

bool condition_is_set_in(const char *text)
{
	return strstr(text, NAME) != NULL;
}

/* The next declaration of the function, and what is behind its semicolon. NULL: there is none. */
static const char *next_declaration(const char *text, const char **end)
{
	static const char word[] = ".extern";

	for (const char *at = text; (at = strstr(at, word)); at++) {
		const char *name = at + sizeof word - 1;

		name += strspn(name, " \t\r\n");
		if (strncmp(name, ".func", 5))
			continue;
		name += 5;
		name += strspn(name, " \t\r\n");
		if (strncmp(name, NAME, sizeof NAME - 1) ||
			!strchr(" \t\r\n(", name[sizeof NAME - 1]))
			continue;
		*end = strchr(name, ';');
		if (!*end)
			return NULL;
		++*end;
		return at;
	}
	return NULL;
}

int conditions_define(const char *text, char **defined, size_t *length)
{
	char *out = calloc(1, strlen(text) + sizeof definition), *to = out;
	const char *at, *end, *what = definition;

	if (!out)
		return -ENOMEM;
	while ((at = next_declaration(text, &end))) {
		to = mempcpy(to, text, (size_t)(at - text));
		to = stpcpy(to, what);
		text = end;
		what = ""; /* one definition is enough */
	}
	strcpy(to, text);
	*defined = out;
	*length = strlen(out);
	return 0;
}
