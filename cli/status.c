/* SPDX-License-Identifier: MIT
 *
 * gdev status: who uses the GPU now, and who did lately.
 */
#include "cli/cli.h"

#include <stdio.h>
#include <string.h>

#include "gdev/session.h"

#define RECENT 10

static void cells_usage(struct table *table, const json_t *session)
{
	char text[TEXT_MAX];

	table_cell(table, "%s", text_ns(text, field_number(session, "wall_ns")));
	table_cell(table, "%s", text_ns(text, field_number(session, "compute_ns")));
	table_cell(table, "%lld", (long long)field_number(session, "launches"));
	table_cell(table, "%s", text_bytes(text, field_number(session, "to_device_bytes")));
	table_cell(table, "%s", text_bytes(text, field_number(session, "from_device_bytes")));
}

/* Whether it has one, and why one that nobody uses is not given back. */
static void cell_context(struct table *table, const json_t *session)
{
	const char *context = field_text(session, "context");
	const json_t *why = json_object_get(session, "kept_because");

	if (!strcmp(context, "open") && json_is_string(why))
		table_cell(table, "kept: %s", json_string_value(why));
	else
		table_cell(table, "%s", context);
}

void print_sessions(const json_t *sessions)
{
	static const char *const titles[] = {">PID", "PROGRAM", "VGPU", ">WALL", ">COMPUTE",
		">LAUNCHES", ">TO DEVICE", ">FROM DEVICE", ">MEMORY", ">PEAK", ">SWAPPED",
		"CONTEXT", NULL};
	struct table *table;
	char text[TEXT_MAX];
	size_t index;
	const json_t *session;

	if (!json_array_size(sessions)) {
		puts("no sessions");
		return;
	}
	table = table_create(titles);
	json_array_foreach(sessions, index, session)
	{
		table_cell(table, "%lld", (long long)field_number(session, "pid"));
		table_cell(table, "%s", field_text(session, "program"));
		table_cell(table, "%s", field_text(session, "vgpu"));
		cells_usage(table, session);
		table_cell(table, "%s", text_bytes(text, field_number(session, "memory_bytes")));
		table_cell(table, "%s", text_bytes(text, field_number(session, "peak_bytes")));
		table_cell(table, "%s%s", text_bytes(text, field_number(session, "swapped_bytes")),
			json_is_true(json_object_get(session, "suspended")) ? " suspended" : "");
		cell_context(table, session);
	}
	table_print(table);
}

/* Whose segments there are, which stay when their programs have gone. */
static void print_shared(const json_t *users)
{
	static const char *const titles[] = {"USER", "DEVICE", ">SEGMENTS", ">SHARED", ">OF", NULL};
	struct table *table;
	char text[TEXT_MAX];
	size_t index;
	const json_t *user;

	if (!json_array_size(users))
		return;
	table = table_create(titles);
	json_array_foreach(users, index, user)
	{
		table_cell_user(table, field_number(user, "uid"));
		table_cell(table, "%s", field_text(user, "device"));
		table_cell(table, "%lld", (long long)field_number(user, "segments"));
		table_cell(table, "%s", text_bytes(text, field_number(user, "bytes")));
		table_cell(table, "%s", text_bytes(text, field_number(user, "limit_bytes")));
	}
	puts("\nshared memory ('gdev shm list' shows more):");
	table_print(table);
}

static void print_ended(const json_t *ended, json_int_t count)
{
	static const char *const titles[] = {">PID", "PROGRAM", "VGPU", ">WALL", ">COMPUTE",
		">LAUNCHES", ">TO DEVICE", ">FROM DEVICE", ">PEAK", "END", NULL};
	struct table *table;
	char text[TEXT_MAX];
	size_t index;
	const json_t *session;

	if (!json_array_size(ended))
		return;
	table = table_create(titles);
	json_array_foreach(ended, index, session)
	{
		if (index == RECENT)
			break;
		table_cell(table, "%lld", (long long)field_number(session, "pid"));
		table_cell(table, "%s", field_text(session, "program"));
		table_cell(table, "%s", field_text(session, "vgpu"));
		cells_usage(table, session);
		table_cell(table, "%s", text_bytes(text, field_number(session, "peak_bytes")));
		table_cell(table, "%s", field_text(session, "reason"));
	}
	printf("\nended lately (of %lld):\n", (long long)count);
	table_print(table);
}

static void print_heading(const json_t *status)
{
	const json_t *workers = json_object_get(status, "workers");
	char used[TEXT_MAX], total[TEXT_MAX], warm[TEXT_MAX];
	size_t index;
	const json_t *device, *warning;

	printf("gdevd %s, pid %lld%s, in %s; workers: %lld of %lld, %lld warm (%s)\n",
		field_text(status, "version"), (long long)field_number(status, "pid"),
		json_is_true(json_object_get(status, "private")) ? ", private" : "",
		field_text(status, "runtime_dir"), (long long)field_number(workers, "total"),
		(long long)field_number(workers, "max"), (long long)field_number(workers, "warm"),
		text_bytes(warm, field_number(workers, "warm_bytes")));
	json_array_foreach(json_object_get(status, "warnings"), index, warning)
		printf("  %s\n", json_string_value(warning));
	json_array_foreach(json_object_get(status, "devices"), index, device)
	{
		printf("device %s: %s, %s of %s in use%s\n", field_text(device, "device"),
			json_is_true(json_object_get(device, "ready")) ? field_text(device, "name")
								       : "(starting)",
			text_bytes(used, field_number(device, "memory_used_bytes")),
			text_bytes(total, field_number(device, "memory_bytes")),
			json_is_true(json_object_get(device, "drained"))
				? "; drained, takes no new sessions"
				: "");
		if (field_number(device, "memory_others_bytes") > 0)
			printf("  %s of it by others than gdev\n",
				text_bytes(used, field_number(device, "memory_others_bytes")));
		print_swap(device);
		if (field_number(device, "failed_starts") > 0)
			printf("  %lld workers in a row could not open it (%s); the log of gdevd says why\n",
				(long long)field_number(device, "failed_starts"),
				field_text(device, "reason"));
		if (field_number(device, "losses") > 0)
			printf("  it has failed under %lld sessions\n",
				(long long)field_number(device, "losses"));
	}
	putchar('\n');
}

static int run(int argc, char **argv)
{
	int json, first = parse_json_option(&verb_status, argc, argv, &json), status, found;
	struct gdev_description guest;
	json_t *answer;

	if (first < 0)
		return -1 - first;
	if (first < argc)
		return usage(&verb_status, "what is \"%s\"?", argv[first]);
	found = guest_find(&guest);
	if (found)
		return found < 0 ? EXIT_FAILED : guest_status(&guest, json);
	answer = daemon_query("status", &status);
	if (!answer)
		return status;
	if (json) {
		print_json(answer);
	} else {
		print_heading(answer);
		print_sessions(json_object_get(answer, "sessions"));
		print_shared(json_object_get(answer, "shared"));
		print_ended(json_object_get(answer, "ended"), field_number(answer, "ended_count"));
	}
	json_decref(answer);
	return EXIT_OK;
}

const struct verb verb_status = {
	.name = "status",
	.summary = "show who uses the GPU, and who did",
	.help = "Usage: gdev status [--json]\n"
		"Shows gdevd, its devices and their memory, the sessions (one for each program and\n"
		"virtual GPU), whose shared memory there is, and the sessions that ended lately.\n"
		"\n"
		"  --json   everything, for programs: times in nanoseconds, sizes in bytes; up to 64\n"
		"           ended sessions\n",
	.run = run,
};
