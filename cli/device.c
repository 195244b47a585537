/* SPDX-License-Identifier: MIT
 *
 * gdev device: lists the devices that gdevd serves, takes them out of service and back, and changes how they are
 * scheduled.
 */
#include "cli/cli.h"

#include <getopt.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/cleanup.h"

#define LOOK_NS 20000000 /* between two looks whether sessions have gone */

/* Those near to a card, "0-31 (node 0)"; those that a software GPU uses, "2 of 0-15". */
static void cell_processors(struct table *table, const json_t *device)
{
	const char *processors = field_text(device, "processors");
	json_int_t node = field_number(device, "node");

	if (!*processors)
		table_cell(table, "-");
	else if (node >= 0)
		table_cell(table, "%s (node %lld)", processors, (long long)node);
	else if (!strncmp(field_text(device, "device"), "cpu", 3))
		table_cell(table, "%lld of %s", (long long)field_number(device, "multiprocessors"),
			processors);
	else
		table_cell(table, "%s", processors);
}

static void print(const json_t *devices)
{
	static const char *const titles[] = {"DEVICE", "NAME", "HEALTH", ">SESSIONS", ">LOAD",
		">MEMORY", ">USED", "PROCESSORS", "POLICY", "UUID", NULL};
	struct table *table = table_create(titles);
	char text[TEXT_MAX], health[HEALTH_MAX];
	size_t index;
	const json_t *device;

	json_array_foreach(devices, index, device)
	{
		const char *name = field_text(device, "name");
		table_cell(table, "%s", field_text(device, "device"));
		table_cell(table, "%s", *name ? name : "(starting)");
		table_cell(table, "%s", text_health(health, device));
		table_cell(table, "%lld", (long long)field_number(device, "sessions"));
		table_cell(table, "%.0f %%", field_real(device, "load_1s_pct"));
		table_cell(table, "%s", text_bytes(text, field_number(device, "memory_bytes")));
		table_cell(
			table, "%s", text_bytes(text, field_number(device, "memory_used_bytes")));
		cell_processors(table, device);
		table_cell(table, "%s", field_text(device, "policy"));
		table_cell(table, "%s", field_text(device, "uuid"));
	}
	table_print(table);
}

static int list(int argc, char **argv)
{
	int json, first = parse_json_option(&verb_device, argc, argv, &json), status;
	json_t *answer;

	if (first < 0)
		return -1 - first;
	if (first < argc)
		return usage(&verb_device, "what is \"%s\"?", argv[first]);
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

/* "POLICY.SETTING=NUMBER" */
static int take_setting(json_t *keys, const char *text)
{
	const char *equals = strchr(text, '=');
	char key[64];

	if (!equals || !strchr(text, '.') || equals - text >= (int)sizeof key)
		return usage(&verb_device, "--set %s: it must be POLICY.SETTING=NUMBER", text);
	snprintf(key, sizeof key, "%.*s", (int)(equals - text), text);
	json_object_set_new(keys, key, json_string(equals + 1));
	return 0;
}

static int parse_set(int argc, char **argv, json_t *keys)
{
	static const struct option options[] = {
		{"policy", required_argument, NULL, 'p'},
		{"quantum", required_argument, NULL, 'q'},
		{"set", required_argument, NULL, 's'},
		{"help", no_argument, NULL, 'h'},
		{NULL},
	};
	int option, status = 0;

	while (!status && (option = getopt_long(argc, argv, "h", options, NULL)) != -1) {
		if (option == 'h') {
			fputs(verb_device.help, stdout);
			return -1;
		} else if (option == 'p') {
			json_object_set_new(keys, "policy", json_string(optarg));
		} else if (option == 'q') {
			json_object_set_new(keys, "quantum", json_string(optarg));
		} else if (option == 's') {
			status = take_setting(keys, optarg);
		} else {
			status = usage(&verb_device, NULL);
		}
	}
	if (!status && optind < argc)
		status = usage(&verb_device, "what is \"%s\"?", argv[optind]);
	if (!status && !json_object_size(keys))
		status = usage(&verb_device, "set what? For example --policy fair");
	return status;
}

static int set(int argc, char **argv)
{
	json_t *request = request_create("device-set"), *keys = json_object();
	int status = parse_set(argc, argv, keys);

	json_object_set_new(request, "keys", keys);
	if (!status)
		return daemon_change(request);
	json_decref(request);
	return status < 0 ? EXIT_OK : status;
}

/* Sets the request's device and options; 0, or a negative exit status - 1. */
static int parse_drain(int argc, char **argv, json_t *request, bool *json)
{
	static const struct option options[] = {
		{"move", no_argument, NULL, 'm'},
		{"json", no_argument, NULL, 'j'},
		{"help", no_argument, NULL, 'h'},
		{NULL},
	};
	int option;

	while ((option = getopt_long(argc, argv, "h", options, NULL)) != -1) {
		if (option == 'h') {
			fputs(verb_device.help, stdout);
			return -1 - EXIT_OK;
		} else if (option == 'm') {
			json_object_set_new(request, "move", json_true());
		} else if (option == 'j') {
			*json = true;
		} else {
			return -1 - usage(&verb_device, NULL);
		}
	}
	if (optind != argc - 1)
		return -1 - usage(&verb_device, "the name of one device is wanted, as 'gdev device "
						"list' shows it");
	json_object_set_new(request, "device", json_string(argv[optind]));
	return 0;
}

/* ---- sessions that go to another device ---- */

static const json_t *find_session(const json_t *sessions, json_int_t number)
{
	const json_t *session;
	size_t index;

	json_array_foreach(sessions, index,
		session) if (field_number(session, "session") == number) return session;
	return NULL;
}

/* Whether some of `drained` have not got anywhere yet. */
static bool any_changes(const json_t *drained, const json_t *sessions)
{
	const json_t *session, *now;
	size_t index;

	json_array_foreach(drained, index, session)
	{
		now = find_session(sessions, field_number(session, "session"));
		if (now && json_is_true(json_object_get(now, "changes_device")))
			return true;
	}
	return false;
}

/* Waits until all are where they will be: gdevd gives up after some seconds. How it is then, a new reference; NULL: it has
 * been said why that is not known. */
static json_t *wait_for_moves(const json_t *drained, int *status)
{
	const struct timespec pause = {.tv_nsec = LOOK_NS};
	json_t *answer;

	for (;;) {
		answer = daemon_query("status", status);
		if (!answer || !any_changes(drained, json_object_get(answer, "sessions")))
			return answer;
		json_decref(answer);
		nanosleep(&pause, NULL);
	}
}

/* Leaves those in the answer that are still on the device, and counts the others in "moved". */
static int see_moved(json_t *answer, const char *device)
{
	const json_t *drained = json_object_get(answer, "sessions"), *session, *now;
	json_t *stay = json_array(), *after;
	json_int_t moved = 0;
	size_t index;
	int status;

	after = wait_for_moves(drained, &status);
	if (!after) {
		json_decref(stay);
		return status;
	}
	json_array_foreach(drained, index, session)
	{
		now = find_session(
			json_object_get(after, "sessions"), field_number(session, "session"));
		if (!now)
			continue;
		if (!strcmp(field_text(now, "device"), device))
			json_array_append(stay, (json_t *)now);
		else
			moved++;
	}
	json_object_set_new(answer, "sessions", stay);
	json_object_set_new(answer, "moved", json_integer(moved));
	json_decref(after);
	return EXIT_OK;
}

static void print_stays(const json_t *sessions)
{
	const json_t *session;
	size_t index;

	json_array_foreach(sessions, index, session) if (*field_text(session, "stays_because"))
		printf("%lld (%s) stays: %s\n", (long long)field_number(session, "pid"),
			field_text(session, "program"), field_text(session, "stays_because"));
}

static void print_drained(const json_t *request, const json_t *answer)
{
	const json_t *sessions = json_object_get(answer, "sessions");
	json_int_t moved = field_number(answer, "moved");

	printf("%s takes no new sessions; ", field_text(request, "device"));
	if (json_object_get(answer, "moved"))
		printf("%lld session%s went to other devices; ", (long long)moved,
			moved == 1 ? "" : "s");
	if (json_array_size(sessions))
		puts("these go on until their programs end:");
	print_sessions(sessions); /* or says that there are none */
	if (json_object_get(answer, "moved"))
		print_stays(sessions);
}

static int drain(int argc, char **argv)
{
	json_t *request = request_create("device-drain"), *answer;
	bool json = false;
	int status = parse_drain(argc, argv, request, &json);

	if (status) {
		json_decref(request);
		return -1 - status;
	}
	answer = daemon_request(json_incref(request), &status);
	if (answer && *field_text(answer, "note"))
		say("%s", field_text(answer, "note"));
	if (answer && json_object_get(request, "move"))
		status = see_moved(answer, field_text(request, "device"));
	if (answer && json)
		print_json(answer);
	else if (answer)
		print_drained(request, answer);
	json_decref(request);
	json_decref(answer);
	return status;
}

static int undrain(int argc, char **argv)
{
	json_t *request;

	if (argc == 2 && *argv[1] != '-') {
		request = request_create("device-undrain");
		json_object_set_new(request, "device", json_string(argv[1]));
		return daemon_change(request);
	}
	if (argc == 2 && (!strcmp(argv[1], "--help") || !strcmp(argv[1], "-h"))) {
		fputs(verb_device.help, stdout);
		return EXIT_OK;
	}
	return usage(
		&verb_device, "the name of one device is wanted, as 'gdev device list' shows it");
}

static int run(int argc, char **argv)
{
	static const struct {
		const char *word;
		int (*run)(int argc, char **argv);
	} words[] = {{"list", list}, {"set", set}, {"drain", drain}, {"undrain", undrain}};

	for (size_t i = 0; argc > 1 && i < array_length(words); i++) {
		if (strcmp(argv[1], words[i].word))
			continue;
		argv[1] = argv[0]; /* what getopt complains with */
		return words[i].run(argc - 1, argv + 1);
	}
	if (argc > 1 && (!strcmp(argv[1], "--help") || !strcmp(argv[1], "-h"))) {
		fputs(verb_device.help, stdout);
		return EXIT_OK;
	}
	return usage(&verb_device,
		argc > 1 ? "there is no \"gdev device %s\"" : "list, set, drain or undrain?%s",
		argc > 1 ? argv[1] : "");
}

const struct verb verb_device = {
	.name = "device",
	.summary = "list the devices, take them out of service, change how they are scheduled",
	.help = "Usage: gdev device list [--json]\n"
		"       gdev device set [--policy NAME] [--quantum TIME] [--set POLICY.SETTING=N]...\n"
		"       gdev device drain DEVICE [--move] [--json]\n"
		"       gdev device undrain DEVICE\n"
		"Lists the devices that gdevd serves: whether they work, what they did in the last second,\n"
		"their memory, and how much of it is in use. Or\n"
		"changes, until gdevd is started again, who of several virtual GPUs is next: only root\n"
		"and the user that gdevd runs as may. gdev.conf(5) has the policies and their settings.\n"
		"A drained device takes no new sessions, also after a restart of gdevd, until it is\n"
		"undrained. Virtual GPUs of any device place programs elsewhere. What is on the device is\n"
		"listed, and goes on until its programs end. With --move what nothing keeps goes to another\n"
		"device of the same model, while its program runs, and the rest is listed with what keeps it;\n"
		"virtual GPUs with names of their own begin their programs on such a device meanwhile.\n"
		"\n"
		"  gdev device set --policy band --set band.wait_us=800\n"
		"  gdev device drain cuda:3 --move\n",
	.run = run,
};
