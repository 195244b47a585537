/* SPDX-License-Identifier: MIT
 *
 * gdev vgpu list: the virtual GPUs.
 */
#include "cli/cli.h"

#include <grp.h>
#include <pwd.h>
#include <string.h>

static void cell_user(struct table *table, json_int_t uid)
{
	const struct passwd *user = getpwuid((uid_t)uid);

	if (user)
		table_cell(table, "%s", user->pw_name);
	else
		table_cell(table, "%lld", (long long)uid);
}

static void cell_group(struct table *table, json_int_t gid)
{
	const struct group *group = getgrgid((gid_t)gid);

	if (group)
		table_cell(table, "%s", group->gr_name);
	else
		table_cell(table, "%lld", (long long)gid);
}

static void print(const json_t *vgpus)
{
	static const char *const titles[] = {
		"VGPU", "DEVICE", ">MEMORY", ">USED", ">SESSIONS", "OWNER", "GROUP", "MODE", NULL};
	struct table *table = table_create(titles);
	char text[TEXT_MAX];
	size_t index;
	const json_t *vgpu;

	json_array_foreach(vgpus, index, vgpu)
	{
		table_cell(table, "%s", field_text(vgpu, "vgpu"));
		table_cell(table, "%s", field_text(vgpu, "device"));
		table_cell(table, "%s", text_bytes(text, field_number(vgpu, "memory_bytes")));
		table_cell(table, "%s", text_bytes(text, field_number(vgpu, "memory_used_bytes")));
		table_cell(table, "%lld", (long long)field_number(vgpu, "sessions"));
		cell_user(table, field_number(vgpu, "owner"));
		cell_group(table, field_number(vgpu, "group"));
		table_cell(table, "%s", field_text(vgpu, "mode"));
	}
	table_print(table);
}

static int run(int argc, char **argv)
{
	int json, first = parse_json_option(&verb_vgpu, argc, argv, &json), status;
	json_t *answer;

	if (first < 0)
		return -1 - first;
	if (argc - first != 1 || strcmp(argv[first], "list"))
		return usage(&verb_vgpu,
			"'gdev vgpu list' is all there is; gdev.conf(5) makes virtual GPUs");
	answer = daemon_query("vgpus", &status);
	if (!answer)
		return status;
	if (json)
		print_json(answer);
	else
		print(json_object_get(answer, "vgpus"));
	json_decref(answer);
	return EXIT_OK;
}

const struct verb verb_vgpu = {
	.name = "vgpu",
	.summary = "list the virtual GPUs",
	.help = "Usage: gdev vgpu list [--json]\n"
		"Lists the virtual GPUs: their device, memory, sessions, and who may use them (the\n"
		"owner, group and mode of the socket). gdev.conf(5) tells how to make them.\n",
	.run = run,
};
