/* SPDX-License-Identifier: MIT
 *
 * See config_lines.h.
 */
#include "gdevd/config_lines.h"

#include <errno.h>
#include <string.h>
#include <sys/types.h>

static char *stop(struct config_lines *lines, int error, const char *reason)
{
	lines->error = error;
	lines->reason = reason;
	return NULL;
}

/* If somebody wants to know of sections, the line's is told; libinih reads it again. */
static int tell_section(struct config_lines *lines, char *line)
{
	char *name = line + strspn(line, " \t") + 1, *end = strchr(name, ']');
	int error;

	if (!end)
		return 0; /* libinih says so */
	*end = '\0';
	error = lines->section(lines->owner, name);
	*end = ']';
	return error;
}

char *config_next_line(char *line, int room, void *stream)
{
	struct config_lines *lines = stream;
	ssize_t length;
	char first;

	errno = 0;
	length = getline(&lines->line, &lines->room, lines->file);
	if (length < 0)
		return feof(lines->file) ? NULL : stop(lines, errno ? -errno : -EIO, NULL);
	lines->number++;
	if (strlen(lines->line) != (size_t)length)
		return stop(lines, -EINVAL, "a byte that is 0: this is no text");
	first = lines->line[strspn(lines->line, " \t\r\n")];
	if (!first || first == '#' || first == ';')
		return strcpy(line, "\n");
	if (length >= room)
		return stop(lines, -EINVAL, "this line is too long");
	if (first == '[') {
		int error = tell_section(lines, lines->line);
		if (error)
			return stop(lines, error, NULL);
	}
	return memcpy(line, lines->line, (size_t)length + 1);
}
