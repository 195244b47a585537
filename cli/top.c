/* SPDX-License-Identifier: MIT
 *
 * gdev top: who uses the device at the moment, and whether the shares hold. A terminal shows it again and
 * again (a few ANSI sequences do that, and no library); anything else gets it as text, or as JSON once.
 */
#include "cli/cli.h"

#include <errno.h>
#include <getopt.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <time.h>
#include <unistd.h>

#include "base/cleanup.h"

#define SECOND_NS 1000000000ll
#define SCREEN_BEGIN "\033[?1049h\033[?25l\033[?7l" /* another screen, no cursor, no wrapping */
#define SCREEN_END "\033[?7h\033[?25h\033[?1049l"
#define SCREEN_CLEAR "\033[H\033[J"

struct options {
	bool once, json;
	double seconds;
};

static volatile sig_atomic_t ended;

static void on_signal(int signal)
{
	ended = 1;
}

static const json_t *resource_of(const json_t *object, const char *resource)
{
	return json_object_get(json_object_get(object, "resources"), resource);
}

static const json_t *window_of(const json_t *object, const char *resource, const char *window)
{
	return json_object_get(resource_of(object, resource), window);
}

static void cell_percent(struct table *table, const json_t *window, const char *field)
{
	if (field_number(window, "over_ns") <= 0)
		table_cell(table, "-");
	else
		table_cell(table, "%.1f", field_real(window, field));
}

/* What it used of computing in a second and in ten, should have had, and waited; then the copies. */
static void cells_use(struct table *table, const json_t *object)
{
	const json_t *second = window_of(object, "compute", "last_1s");
	const json_t *ten = window_of(object, "compute", "last_10s");

	cell_percent(table, second, "used_pct");
	cell_percent(table, ten, "used_pct");
	cell_percent(table, ten, "expected_pct");
	if (field_number(ten, "over_ns") > 0)
		table_cell(table, "%+.1f", field_real(ten, "error_pct"));
	else
		table_cell(table, "-");
	cell_percent(table, second, "waited_pct");
	cell_percent(table, window_of(object, "to_device", "last_1s"), "used_pct");
	cell_percent(table, window_of(object, "from_device", "last_1s"), "used_pct");
}

/* What it costs the others that a kernel cannot be stopped. */
static void cells_longest(struct table *table, const json_t *object)
{
	const json_t *compute = resource_of(object, "compute");
	char text[TEXT_MAX];

	table_cell(table, "%lld", (long long)max_of(field_number(compute, "grants"), 0));
	table_cell(table, "%s", text_ns(text, field_number(compute, "longest_command_ns")));
	table_cell(table, "%s", text_ns(text, field_number(compute, "longest_over_ns")));
}

static void print_vgpus(const json_t *vgpus)
{
	static const char *const titles[] = {"VGPU", "DEVICE", ">SESSIONS", ">SHARE", ">USED",
		">10S", ">SHOULD", ">ERROR", ">WAITED", ">TO DEV", ">FROM DEV", ">MEMORY", ">OF",
		">SWAPPED", ">GRANTS", ">KERNEL", ">OVER", NULL};
	struct table *table = table_create(titles);
	char text[TEXT_MAX];
	size_t index;
	const json_t *vgpu;

	json_array_foreach(vgpus, index, vgpu)
	{
		table_cell(table, "%s", field_text(vgpu, "vgpu"));
		table_cell(table, "%s", field_text(vgpu, "device"));
		table_cell(table, "%lld", (long long)field_number(vgpu, "sessions"));
		table_cell(table, "%.4g%s", field_real(resource_of(vgpu, "compute"), "share_pct"),
			json_is_true(json_object_get(vgpu, "strict")) ? "!" : "");
		cells_use(table, vgpu);
		table_cell(table, "%s", text_bytes(text, field_number(vgpu, "memory_used_bytes")));
		table_cell(table, "%s", text_bytes(text, field_number(vgpu, "memory_bytes")));
		table_cell(table, "%s", text_bytes(text, field_number(vgpu, "swapped_bytes")));
		cells_longest(table, vgpu);
	}
	table_print(table);
}

static void print_uses(const json_t *sessions)
{
	static const char *const titles[] = {">PID", "PROGRAM", "VGPU", "DEVICE", ">NICE", ">USED",
		">10S", ">SHOULD", ">ERROR", ">WAITED", ">TO DEV", ">FROM DEV", ">MEMORY",
		">SWAPPED", ">GRANTS", ">KERNEL", ">OVER", "CONTEXT", NULL};
	struct table *table = table_create(titles);
	char text[TEXT_MAX];
	size_t index;
	const json_t *session;

	json_array_foreach(sessions, index, session)
	{
		table_cell(table, "%lld", (long long)field_number(session, "pid"));
		table_cell(table, "%s", field_text(session, "program"));
		table_cell(table, "%s", field_text(session, "vgpu"));
		table_cell(table, "%s", field_text(session, "device"));
		table_cell(table, "%lld",
			(long long)json_integer_value(json_object_get(session, "nice")));
		cells_use(table, session);
		table_cell(table, "%s", text_bytes(text, field_number(session, "memory_bytes")));
		table_cell(table, "%s", text_bytes(text, field_number(session, "swapped_bytes")));
		cells_longest(table, session);
		table_cell(table, "%s", field_text(session, "context"));
	}
	table_print(table);
}

static void print_resource(const json_t *device, const char *resource, const char *title)
{
	const json_t *usage = resource_of(device, resource);
	const json_t *second = json_object_get(usage, "last_1s");
	char over[TEXT_MAX];

	if (field_number(usage, "grants") <= 0)
		return;
	printf("  %-12s %5.1f %% used, %.1f %% lost while others waited; %lld handovers; longest stay "
	       "beyond its time %s, %lld overdue\n",
		title, field_real(second, "used_pct"), field_real(usage, "lost_1s_pct"),
		(long long)field_number(usage, "handovers"),
		text_ns(over, field_number(usage, "longest_over_ns")),
		(long long)field_number(usage, "overdue"));
}

static void print_device(const json_t *device)
{
	char used[TEXT_MAX], total[TEXT_MAX], quantum[TEXT_MAX], health[HEALTH_MAX];

	printf("%s: %s; %s; %s of %s; policy %s, quantum %s, %s\n", field_text(device, "device"),
		field_text(device, "name"), text_health(health, device),
		text_bytes(used, field_number(device, "memory_used_bytes")),
		text_bytes(total, field_number(device, "memory_bytes")),
		field_text(device, "policy"), text_ns(quantum, field_number(device, "quantum_ns")),
		field_text(device, "queues"));
	print_swap(device);
	print_resource(device, "compute", "compute");
	print_resource(device, "to_device", "to device");
	print_resource(device, "from_device", "from device");
}

static void print_all(const json_t *answer)
{
	const json_t *sessions = json_object_get(answer, "sessions"), *device;
	size_t index;

	json_array_foreach(json_object_get(answer, "devices"), index, device) print_device(device);
	putchar('\n');
	print_vgpus(json_object_get(answer, "vgpus"));
	putchar('\n');
	if (json_array_size(sessions))
		print_uses(sessions);
	else
		puts("no sessions");
	fflush(stdout);
}

static void pause_for(double seconds)
{
	struct timespec time = {.tv_sec = (time_t)seconds};

	time.tv_nsec = (long)((seconds - (double)time.tv_sec) * 1e9);
	nanosleep(&time, NULL); /* a signal ends it */
}

/* Asks; what is known of the last second is the last second's. */
static json_t *ask(int connection, bool first)
{
	json_t *request = request_create("top"), *answer = daemon_ask(connection, request);
	const json_t *device = json_array_get(json_object_get(answer, "devices"), 0);
	json_int_t over_ns = field_number(window_of(device, "compute", "last_1s"), "over_ns");

	if (answer && first && !ended && (over_ns < SECOND_NS || over_ns > 2 * SECOND_NS)) {
		/* gdevd counts as long as somebody uses the device or looks, and has begun now. */
		json_decref(answer);
		pause_for(1.1);
		answer = daemon_ask(connection, request);
	}
	json_decref(request);
	return answer;
}

/* The first lines of it, as many as the terminal has: more would scroll those away. */
static void print_screen(const json_t *answer, bool first)
{
	struct winsize size = {0};
	FILE *terminal = stdout;
	char *text = NULL, *line, *rest;
	size_t length;

	stdout = open_memstream(&text, &length);
	if (stdout) {
		print_all(answer);
		fclose(stdout);
	}
	stdout = terminal;
	ioctl(STDOUT_FILENO, TIOCGWINSZ, &size);
	fputs(first ? SCREEN_BEGIN SCREEN_CLEAR : SCREEN_CLEAR, stdout);
	rest = text;
	for (int row = 0; rest && *rest && (!size.ws_row || row < size.ws_row); row++) {
		line = strsep(&rest, "\n");
		printf("%s%s", row ? "\n" : "", line);
	}
	fflush(stdout);
	free(text);
}

static int show(int connection, const struct options *options)
{
	bool screen = !options->once && isatty(STDOUT_FILENO);
	int status = EXIT_OK;

	for (bool first = true; !ended; first = false) {
		json_t *answer = ask(connection, first);

		if (!answer) {
			status = ended ? EXIT_OK : EXIT_FAILED;
			break;
		}
		if (screen)
			print_screen(answer, first);
		else if (options->json)
			print_json(answer);
		else
			print_all(answer);
		json_decref(answer);
		if (options->once)
			break;
		pause_for(options->seconds);
		if (!screen && !ended)
			putchar('\n');
	}
	if (screen)
		fputs(SCREEN_END, stdout);
	return status;
}

static int parse(int argc, char **argv, struct options *chosen)
{
	static const struct option options[] = {
		{"once", no_argument, NULL, 'o'},
		{"json", no_argument, NULL, 'j'},
		{"seconds", required_argument, NULL, 's'},
		{"help", no_argument, NULL, 'h'},
		{NULL},
	};
	char *end;
	int option;

	while ((option = getopt_long(argc, argv, "h", options, NULL)) != -1) {
		switch (option) {
		case 'h':
			fputs(verb_top.help, stdout);
			return -1 - EXIT_OK;
		case 'o':
			chosen->once = true;
			break;
		case 'j':
			chosen->once = chosen->json = true;
			break;
		case 's':
			chosen->seconds = strtod(optarg, &end);
			if (*end || !(chosen->seconds >= 0.1 && chosen->seconds <= 3600))
				return -1 -
				       usage(&verb_top, "--seconds %s: from 0.1 to 3600", optarg);
			break;
		default:
			return -1 - usage(&verb_top, NULL);
		}
	}
	if (optind < argc)
		return -1 - usage(&verb_top, "what is \"%s\"?", argv[optind]);
	return 0;
}

static int run(int argc, char **argv)
{
	struct options options = {.seconds = 1};
	struct sigaction action = {.sa_handler = on_signal};
	int status = parse(argc, argv, &options);
	autoclose int connection = -1;

	if (status)
		return -1 - status;
	connection = daemon_find();
	if (connection < 0)
		return EXIT_NO_DAEMON;
	/* The terminal is to be left as it was. */
	sigaction(SIGINT, &action, NULL);
	sigaction(SIGTERM, &action, NULL);
	sigaction(SIGHUP, &action, NULL);
	return show(connection, &options);
}

const struct verb verb_top = {
	.name = "top",
	.summary = "show who uses the GPU now, and whether the shares hold",
	.help = "Usage: gdev top [--once | --json] [--seconds N]\n"
		"Shows, every second until Ctrl-C, what virtual GPUs and programs use of the device, in\n"
		"percent of its time:\n"
		"\n"
		"  SHARE      its share of computing; ! when it is strict\n"
		"  USED, 10S  what it used of computing in the last second, and in the last ten\n"
		"  SHOULD     what it should have had in these ten: its share, or what it could use\n"
		"  ERROR      the difference\n"
		"  WAITED     how much of the last second it waited to compute\n"
		"  TO DEV, FROM DEV  what it used of copying in the last second\n"
		"  SWAPPED    its memory that host memory keeps for the time being\n"
		"  KERNEL     its longest command, which nobody can interrupt on a GPU\n"
		"  OVER       how long it stayed after it was told to leave, at most\n"
		"  CONTEXT    whether a session has one, or it was given back while the session is idle\n"
		"\n"
		"  --once       show it once\n"
		"  --json       once, and everything, for programs\n"
		"  --seconds N  every N seconds\n",
	.run = run,
};
