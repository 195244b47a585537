/* SPDX-License-Identifier: MIT
 *
 * What the owner of a graph says of it, as the command reads it.
 */
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "cli/graph_look.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t length);

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t length)
{
	size_t count = length / sizeof(struct graph_item);
	struct graph_item *items = calloc(count + 1, sizeof *items);
	json_t *look = graph_look_create();
	char *text;

	if (!items)
		return 0;
	memcpy(items, bytes, count * sizeof *items);
	if (!graph_look_add(look, items, count)) {
		text = json_dumps(look, 0);
		if (!text)
			abort(); /* a name that no terminal shows */
		free(text);
	}
	json_decref(look);
	free(items);
	return 0;
}
