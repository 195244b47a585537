/* SPDX-License-Identifier: MIT
 *
 * gdev device list: the devices that gdevd serves.
 */
#include "cli/cli.h"

#include <string.h>

static void print(const json_t *devices)
{
	static const char *const titles[] = {
		"DEVICE", "NAME", ">MEMORY", ">USED", "POLICY", "UUID", NULL};
	struct table *table = table_create(titles);
	char text[TEXT_MAX];
	size_t index;
	const json_t *device;

	json_array_foreach(devices, index, device)
	{
		const char *name = field_text(device, "name");
		table_cell(table, "%s", field_text(device, "device"));
		table_cell(table, "%s", *name ? name : "(starting)");
		table_cell(table, "%s", text_bytes(text, field_number(device, "memory_bytes")));
		table_cell(
			table, "%s", text_bytes(text, field_number(device, "memory_used_bytes")));
		table_cell(table, "%s", field_text(device, "policy"));
		table_cell(table, "%s", field_text(device, "uuid"));
	}
	table_print(table);
}

static int run(int argc, char **argv)
{
	int json, first = parse_json_option(&verb_device, argc, argv, &json), status;
	json_t *answer;

	if (first < 0)
		return -1 - first;
	if (argc - first != 1 || strcmp(argv[first], "list"))
		return usage(&verb_device, "'gdev device list' is all there is");
	answer = daemon_query("devices", &status);
	if (!answer)
		return status;
	if (json)
		print_json(answer);
	else
		print(json_object_get(answer, "devices"));
	json_decref(answer);
	return EXIT_OK;
}

const struct verb verb_device = {
	.name = "device",
	.summary = "list the devices",
	.help = "Usage: gdev device list [--json]\n"
		"Lists the devices that gdevd serves: their memory, and how much of it is in use.\n",
	.run = run,
};
