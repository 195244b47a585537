/* SPDX-License-Identifier: MIT
 *
 * gdev shm: lists and removes segments of shared device memory, as ipcs(1) and ipcrm(1) do for System V's.
 */
#include "cli/cli.h"

#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* All of them: gdevd tells a page at a time. */
static json_t *query_segments(const char *vgpu, int *status)
{
	json_t *all = json_array(), *answer, *segment;
	json_int_t after = 0;
	bool more = true;
	size_t index;

	while (more) {
		json_t *request = request_create("shm-list");
		json_object_set_new(request, "after", json_integer(after));
		answer = daemon_request(request, status);
		if (!answer) {
			json_decref(all);
			return NULL;
		}
		json_array_foreach(json_object_get(answer, "segments"), index, segment)
		{
			after = field_number(segment, "segment");
			if (!*vgpu || !strcmp(vgpu, field_text(segment, "vgpu")))
				json_array_append(all, segment);
		}
		more = index && json_is_true(json_object_get(answer, "more"));
		json_decref(answer);
	}
	return all;
}

static void cell_where(struct table *table, const json_t *segment)
{
	const char *where = field_text(segment, "where");

	table_cell(table, "%s%s%s%s", *where ? where : "-",
		json_is_true(json_object_get(segment, "moving")) ? ", moving" : "",
		json_is_true(json_object_get(segment, "transient")) ? ", transient" : "",
		json_is_true(json_object_get(segment, "removed")) ? ", removed" : "");
}

static void cell_pids(struct table *table, const json_t *pids)
{
	char text[48] = "";
	size_t index;
	const json_t *pid;

	json_array_foreach(pids, index, pid)
	{
		size_t at = strlen(text);
		snprintf(text + at, sizeof text - at, at ? " %lld" : "%lld",
			(long long)json_integer_value(pid));
		if (strlen(text) > sizeof text - 16)
			break;
	}
	table_cell(table, index < json_array_size(pids) ? "%s ..." : "%s", text);
}

static void print(const json_t *segments)
{
	static const char *const titles[] = {">ID", "KEY", "VGPU", "OWNER", "GROUP", "MODE",
		">SIZE", "WHERE", ">ATTACHED", "PIDS", NULL};
	struct table *table;
	char text[TEXT_MAX];
	size_t index;
	const json_t *segment;

	if (!json_array_size(segments)) {
		puts("no shared memory");
		return;
	}
	table = table_create(titles);
	json_array_foreach(segments, index, segment)
	{
		table_cell(table, "%lld", (long long)field_number(segment, "segment"));
		if (json_is_integer(json_object_get(segment, "key")))
			table_cell(table, "0x%08x", (unsigned)field_number(segment, "key"));
		else
			table_cell(table, "-");
		table_cell(table, "%s", field_text(segment, "vgpu"));
		table_cell_user(table, field_number(segment, "owner"));
		table_cell_group(table, field_number(segment, "group"));
		table_cell(table, "%s", field_text(segment, "mode"));
		table_cell(table, "%s", text_bytes(text, field_number(segment, "bytes")));
		cell_where(table, segment);
		table_cell(table, "%lld", (long long)field_number(segment, "attached"));
		cell_pids(table, json_object_get(segment, "pids"));
	}
	table_print(table);
}

static int list(const char *vgpu, bool json)
{
	int status;
	json_t *segments = query_segments(vgpu, &status);

	if (!segments)
		return status;
	if (json) {
		json_t *whole = json_pack("{s:O}", "segments", segments);
		print_json(whole);
		json_decref(whole);
	} else {
		print(segments);
	}
	json_decref(segments);
	return EXIT_OK;
}

/* "#12" is an id; a key is a number as C has them, also one that ipcs(1) or `gdev shm list` shows. */
static int parse_name(const char *text, json_t *request)
{
	const char *digits = text + (*text == '#');
	char *end;
	long long number;

	errno = 0;
	number = strtoll(digits, &end, *text == '#' ? 10 : 0);
	if (errno || end == digits || *end || number > UINT32_MAX || number < INT32_MIN ||
		(*text == '#' && number <= 0) || !number)
		return usage(&verb_shm, "\"%s\" is no key, and no '#ID'", text);
	json_object_set_new(request, *text == '#' ? "segment" : "key",
		json_integer(*text == '#' ? number : (int32_t)number));
	return 0;
}

static int remove_one(const char *text, const char *vgpu)
{
	json_t *request = request_create("shm-remove");
	int status = parse_name(text, request);

	json_object_set_new(request, "vgpu", json_string(vgpu));
	if (!status)
		return daemon_change(request);
	json_decref(request);
	return status;
}

static int remove_all(char *const *names, const char *vgpu)
{
	int worst = EXIT_OK, status;

	for (; *names; names++) {
		status = remove_one(*names, vgpu);
		worst = worst ? worst : status;
	}
	return worst;
}

static const struct option options[] = {
	{"vgpu", required_argument, NULL, 'v'},
	{"json", no_argument, NULL, 'j'},
	{"help", no_argument, NULL, 'h'},
	{NULL},
};

static int run(int argc, char **argv)
{
	const char *vgpu = "", *command;
	bool json = false;
	int option;

	while ((option = getopt_long(argc, argv, "h", options, NULL)) != -1) {
		if (option == 'h') {
			fputs(verb_shm.help, stdout);
			return EXIT_OK;
		}
		if (option != 'v' && option != 'j')
			return usage(&verb_shm, NULL);
		if (option == 'v')
			vgpu = optarg;
		json |= option == 'j';
	}
	command = optind < argc ? argv[optind++] : "";
	if (!strcmp(command, "list"))
		return optind < argc ? usage(&verb_shm, "what is \"%s\"?", argv[optind])
				     : list(vgpu, json);
	if (strcmp(command, "rm"))
		return usage(&verb_shm, *command ? "there is no \"gdev shm %s\"" : "list or rm?%s",
			command);
	if (json)
		return usage(&verb_shm, "--json is an option of list");
	if (optind == argc)
		return usage(&verb_shm,
			"which one? A key, or '#ID' in quotes: a # begins a comment of the shell");
	return remove_all(argv + optind, vgpu);
}

const struct verb verb_shm = {
	.name = "shm",
	.summary = "list and remove shared device memory",
	.help = "Usage: gdev shm list [--vgpu NAME] [--json]\n"
		"       gdev shm rm [--vgpu NAME] KEY|'#ID'...\n"
		"Lists and removes segments of device memory that programs share. One that was made by\n"
		"gshmget or cuShmGet stays until it is removed, also without a program. A transient one\n"
		"(CUDA's IPC handles, exported descriptors) ends with the programs that have it. The\n"
		"list says whose each is, where its contents are (device, host memory, or a swap file),\n"
		"how often it is attached, and by which processes.\n"
		"\n"
		"rm removes segments as ipcrm(1) does: nobody can attach one any more, and its memory\n"
		"is free when the last process has detached it. For its owner, root, and gdevd's user.\n"
		"\n"
		"  --vgpu NAME   of this virtual GPU: the same key may be one of several\n"
		"  --json        for programs: sizes in bytes\n"
		"\n"
		"  gdev shm list\n"
		"  gdev shm rm 0x1234\n"
		"  gdev shm rm '#12'\n",
	.run = run,
};
