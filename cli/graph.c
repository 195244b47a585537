/* SPDX-License-Identifier: MIT
 *
 * gdev graph: named dataflow graphs (gdev-ptask(3)): which there are, what they are made of, what they do.
 */
#include "cli/cli.h"

#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "cli/graph_look.h"
#include "gdev/error.h"

#define SCREEN_CLEAR "\033[H\033[J"

struct options {
	bool json, dot, once;
	double seconds;
};

/* ---- list ---- */

/* All of them: gdevd tells a page at a time. */
static json_t *query_graphs(int *status)
{
	json_t *all = json_array(), *answer;
	bool more = true;

	while (more) {
		json_t *request = request_create("graph-list");
		json_object_set_new(
			request, "after", json_integer((json_int_t)json_array_size(all)));
		answer = daemon_request(request, status);
		if (!answer) {
			json_decref(all);
			return NULL;
		}
		json_array_extend(all, json_object_get(answer, "graphs"));
		more = json_is_true(json_object_get(answer, "more"));
		json_decref(answer);
	}
	return all;
}

static void print_list(const json_t *graphs)
{
	static const char *const titles[] = {
		"NAME", "OWNER", "GROUP", "MODE", ">PID", "PROGRAM", "VGPU", ">OPENED", NULL};
	struct table *table;
	size_t index;
	const json_t *graph;

	if (!json_array_size(graphs)) {
		puts("no named graphs");
		return;
	}
	table = table_create(titles);
	json_array_foreach(graphs, index, graph)
	{
		table_cell(table, "%s", field_text(graph, "name"));
		table_cell_user(table, field_number(graph, "owner"));
		table_cell_group(table, field_number(graph, "group"));
		table_cell(table, "%s", field_text(graph, "mode"));
		table_cell(table, "%lld", (long long)field_number(graph, "pid"));
		table_cell(table, "%s", field_text(graph, "program"));
		table_cell(table, "%s", field_text(graph, "vgpu"));
		table_cell(table, "%lld", (long long)field_number(graph, "opened"));
	}
	table_print(table);
}

static int list(const struct options *options)
{
	int status = EXIT_FAILED;
	json_t *graphs = query_graphs(&status), *whole;

	if (!graphs)
		return status;
	if (options->json) {
		whole = json_pack("{s:O}", "graphs", graphs);
		print_json(whole);
		json_decref(whole);
	} else {
		print_list(graphs);
	}
	json_decref(graphs);
	return EXIT_OK;
}

/* ---- show ---- */

static const char *ptask_name(const json_t *look, const json_t *index)
{
	return field_text(
		json_array_get(json_object_get(look, "ptasks"), (size_t)json_integer_value(index)),
		"name");
}

/* "ptask.port", or what is there instead of a ptask. */
static void cell_end(struct table *table, const json_t *look, const json_t *channel, bool from)
{
	const json_t *ptask = json_object_get(channel, from ? "from" : "to");

	if (json_is_integer(ptask))
		table_cell(table, "%s.%s", ptask_name(look, ptask),
			field_text(channel, from ? "from_port" : "to_port"));
	else if (json_is_true(json_object_get(channel, "descriptor")))
		table_cell(table, "(descriptor)");
	else
		table_cell(table, "(%lld processes)", (long long)field_number(channel, "members"));
}

/* That has contributed it; the owner's is not said. */
static void cell_process(struct table *table, const json_t *ptask)
{
	const json_t *process = json_object_get(ptask, "process");

	if (json_is_integer(process))
		table_cell(table, "%lld", (long long)json_integer_value(process));
	else
		table_cell(table, "-");
}

static void print_ptasks(const json_t *ptasks)
{
	static const char *const titles[] = {"PTASK", "KIND", ">PROCESS", "STATE", ">PRIORITY",
		">PROXY", ">INVOKED", ">SKIPPED", ">MOVED", NULL};
	struct table *table = table_create(titles);
	const json_t *ptask;
	size_t index;

	json_array_foreach(ptasks, index, ptask)
	{
		table_cell(table, "%s", field_text(ptask, "name"));
		table_cell(table, "%s", field_text(ptask, "kind"));
		cell_process(table, ptask);
		table_cell(table, "%s", field_text(ptask, "state"));
		table_cell(table, "%lld",
			(long long)json_integer_value(json_object_get(ptask, "priority")));
		table_cell(table, "%lld",
			(long long)json_integer_value(json_object_get(ptask, "proxy")));
		table_cell(table, "%lld", (long long)field_number(ptask, "invocations"));
		table_cell(table, "%lld", (long long)field_number(ptask, "skipped"));
		table_cell(table, "%lld", (long long)field_number(ptask, "moved"));
	}
	table_print(table);
}

static void print_channels(const json_t *look)
{
	static const char *const titles[] = {
		"CHANNEL", "FROM", "TO", ">DATABLOCKS", ">OF", "TEMPLATE", ">BYTES", "STATE", NULL};
	struct table *table = table_create(titles);
	const json_t *channel;
	char text[TEXT_MAX];
	size_t index;

	json_array_foreach(json_object_get(look, "channels"), index, channel)
	{
		table_cell(table, "%s", field_text(channel, "name"));
		cell_end(table, look, channel, true);
		cell_end(table, look, channel, false);
		table_cell(table, "%lld", (long long)field_number(channel, "datablocks"));
		table_cell(table, "%lld", (long long)field_number(channel, "capacity"));
		table_cell(table, "%s", field_text(channel, "template"));
		table_cell(table, "%s", text_bytes(text, field_number(channel, "bytes")));
		table_cell(table, "%s",
			json_is_true(json_object_get(channel, "broken"))  ? "broken"
			: json_is_true(json_object_get(channel, "ended")) ? "ended"
									  : "open");
	}
	table_print(table);
}

static void print_look(const json_t *look)
{
	const json_t *graph = json_object_get(look, "graph");
	json_int_t error = json_integer_value(json_object_get(graph, "error"));

	printf("%s: %s; schedule %s; %lld ptasks, %lld invocations; %lld datablocks; %lld other processes\n",
		field_text(graph, "name"),
		error                                             ? gdev_strerror((int)error)
		: json_is_true(json_object_get(graph, "running")) ? "runs"
								  : "does not run",
		field_text(graph, "schedule"), (long long)field_number(graph, "ptasks"),
		(long long)field_number(graph, "invocations"),
		(long long)field_number(graph, "datablocks"),
		(long long)field_number(graph, "members"));
	putchar('\n');
	print_ptasks(json_object_get(look, "ptasks"));
	putchar('\n');
	print_channels(look);
}

static void print_quoted(const char *text)
{
	putchar('"');
	for (; *text; text++) {
		if (*text == '"' || *text == '\\')
			putchar('\\');
		putchar(*text);
	}
	putchar('"');
}

/* An end of a channel that is no ptask is a node of its own. */
static void print_outside(const json_t *channel, size_t index, bool from)
{
	if (!json_is_null(json_object_get(channel, from ? "from" : "to")))
		return;
	printf("\tend%zu%s [shape=plaintext,label=", index, from ? "in" : "out");
	print_quoted(json_is_true(json_object_get(channel, "descriptor"))
			     ? "descriptor"
			     : field_text(channel, "name"));
	puts("]");
}

static void print_node(const json_t *channel, size_t index, bool from)
{
	const json_t *ptask = json_object_get(channel, from ? "from" : "to");

	if (json_is_integer(ptask))
		printf("p%lld", (long long)json_integer_value(ptask));
	else
		printf("end%zu%s", index, from ? "in" : "out");
}

/* For dot(1). */
static void print_dot(const json_t *look)
{
	const json_t *ptask, *channel;
	size_t index;

	printf("digraph ");
	print_quoted(field_text(json_object_get(look, "graph"), "name"));
	puts(" {\n\trankdir=LR\n\tnode [shape=box]");
	json_array_foreach(json_object_get(look, "ptasks"), index, ptask)
	{
		const char *kind = field_text(ptask, "kind");
		printf("\tp%zu [label=", index);
		print_quoted(field_text(ptask, "name"));
		puts(!strcmp(kind, "host")           ? ",style=rounded]"
			: !strcmp(kind, "elsewhere") ? ",style=dashed]"
						     : "]");
	}
	json_array_foreach(json_object_get(look, "channels"), index, channel)
	{
		print_outside(channel, index, true);
		print_outside(channel, index, false);
		putchar('\t');
		print_node(channel, index, true);
		printf(" -> ");
		print_node(channel, index, false);
		printf(" [taillabel=");
		print_quoted(field_text(channel, "from_port"));
		printf(",headlabel=");
		print_quoted(field_text(channel, "to_port"));
		printf(",label=\"%lld/%lld\"]\n", (long long)field_number(channel, "datablocks"),
			(long long)field_number(channel, "capacity"));
	}
	puts("}");
}

static int look_at(uint32_t uid, const char *name, json_t **look)
{
	char directory[PATHS_MAX];
	autoclose int gdevd = daemon_connect(directory);

	return gdevd < 0 ? gdevd : graph_look(gdevd, uid, name, look);
}

static int show(const char *text, const struct options *options)
{
	json_t *look;
	const char *name;
	uint32_t uid;
	int error = graph_parse_name(text, &uid, &name);

	if (!error)
		error = look_at(uid, name, &look);
	if (error == -ECONNREFUSED) {
		daemon_find(); /* says so */
		return EXIT_NO_DAEMON;
	}
	if (error) {
		say("%s: %s", text,
			error == -ENOENT   ? "there is no such graph; 'gdev graph list' shows them"
			: error == -EACCES ? "its mode does not let this user look"
			: error == -ETIMEDOUT ? "the process that owns it does not answer"
					      : strerror(-error));
		return EXIT_FAILED;
	}
	if (options->dot)
		print_dot(look);
	else if (options->json)
		print_json(look);
	else
		print_look(look);
	json_decref(look);
	return EXIT_OK;
}

/* ---- top ---- */

/* A graph at the beginning and at the end of an interval; NULL: it could not be looked at. */
struct watched {
	const json_t *graph; /* of the list */
	json_t *before, *after;
};

static void look_once(struct watched *watched, bool first)
{
	json_t *look = NULL;

	if (look_at((uint32_t)field_number(watched->graph, "owner"),
		    field_text(watched->graph, "name"), &look))
		look = NULL;
	*(first ? &watched->before : &watched->after) = look;
}

static double rate(const json_t *before, const json_t *after, double seconds)
{
	json_int_t more = field_number(after, "invocations") - field_number(before, "invocations");

	return more > 0 ? (double)more / seconds : 0;
}

static void row(struct table *table, const struct watched *watched, const char *ptask,
	double a_second, const json_t *after, const char *state)
{
	table_cell(table, "%s", field_text(watched->graph, "name"));
	table_cell_user(table, field_number(watched->graph, "owner"));
	table_cell(table, "%s", field_text(watched->graph, "vgpu"));
	table_cell(table, "%s", ptask);
	table_cell(table, "%.1f", a_second);
	table_cell(table, "%lld", (long long)field_number(after, "invocations"));
	table_cell(table, "%s", state);
}

static void print_top(const struct watched *all, size_t count, double seconds)
{
	static const char *const titles[] = {
		"GRAPH", "OWNER", "VGPU", "PTASK", ">INVOKED/S", ">INVOKED", "STATE", NULL};
	struct table *table = table_create(titles);
	const json_t *ptask;
	size_t index;

	for (size_t i = 0; i < count; i++) {
		const json_t *before = all[i].before, *after = all[i].after, *graph;
		if (!before || !after)
			continue;
		graph = json_object_get(after, "graph");
		row(table, &all[i], "(all)", rate(json_object_get(before, "graph"), graph, seconds),
			graph,
			json_is_true(json_object_get(graph, "running")) ? "runs" : "does not run");
		json_array_foreach(json_object_get(after, "ptasks"), index, ptask)
		{
			double a_second =
				rate(json_array_get(json_object_get(before, "ptasks"), index),
					ptask, seconds);
			if (a_second > 0)
				row(table, &all[i], field_text(ptask, "name"), a_second, ptask,
					field_text(ptask, "state"));
		}
	}
	table_print(table);
	fflush(stdout);
}

static void pause_for(double seconds)
{
	struct timespec time = {.tv_sec = (time_t)seconds};

	time.tv_nsec = (long)((seconds - (double)time.tv_sec) * 1e9);
	nanosleep(&time, NULL);
}

static int top_once(const struct options *options)
{
	int status = EXIT_FAILED;
	json_t *graphs = query_graphs(&status);
	size_t count = json_array_size(graphs);
	autofree struct watched *all = calloc(count + 1, sizeof *all);

	if (!graphs || !all) {
		json_decref(graphs);
		return status;
	}
	for (size_t i = 0; i < count; i++) {
		all[i].graph = json_array_get(graphs, i);
		look_once(&all[i], true);
	}
	pause_for(options->seconds);
	for (size_t i = 0; i < count; i++)
		look_once(&all[i], false);
	if (!options->once)
		fputs(SCREEN_CLEAR, stdout);
	print_top(all, count, options->seconds);
	for (size_t i = 0; i < count; i++) {
		json_decref(all[i].before);
		json_decref(all[i].after);
	}
	json_decref(graphs);
	return EXIT_OK;
}

static int top(struct options *options)
{
	int status;

	options->once |= !isatty(STDOUT_FILENO);
	do
		status = top_once(options);
	while (!status && !options->once);
	return status;
}

/* ---- the verb ---- */

static const struct option long_options[] = {
	{"json", no_argument, NULL, 'j'},
	{"dot", no_argument, NULL, 'd'},
	{"once", no_argument, NULL, '1'},
	{"interval", required_argument, NULL, 'i'},
	{"help", no_argument, NULL, 'h'},
	{NULL},
};

static int parse_interval(const char *text, double *seconds)
{
	char *end;

	*seconds = strtod(text, &end);
	return *text && !*end && *seconds >= 0.1 && *seconds <= 3600 ? 0 : -EINVAL;
}

static int run(int argc, char **argv)
{
	struct options options = {.seconds = 1};
	const char *command, *name;
	int option;

	while ((option = getopt_long(argc, argv, "h", long_options, NULL)) != -1) {
		if (option == 'h') {
			fputs(verb_graph.help, stdout);
			return EXIT_OK;
		}
		if (option == '?')
			return usage(&verb_graph, NULL);
		if (option == 'i' && parse_interval(optarg, &options.seconds))
			return usage(&verb_graph, "\"%s\" is no interval of 0.1 to 3600 seconds",
				optarg);
		options.json |= option == 'j';
		options.dot |= option == 'd';
		options.once |= option == '1';
	}
	command = optind < argc ? argv[optind++] : "";
	name = optind < argc ? argv[optind++] : NULL;
	if (optind < argc)
		return usage(&verb_graph, "what is \"%s\"?", argv[optind]);
	if (!strcmp(command, "show"))
		return name ? show(name, &options) : usage(&verb_graph, "which graph?");
	if (name)
		return usage(&verb_graph, "what is \"%s\"?", name);
	if (!strcmp(command, "list"))
		return list(&options);
	if (!strcmp(command, "top"))
		return top(&options);
	return usage(&verb_graph,
		*command ? "there is no \"gdev graph %s\"" : "list, show or top?%s", command);
}

const struct verb verb_graph = {
	.name = "graph",
	.summary = "list named dataflow graphs, and show what they are made of and do",
	.help = "Usage: gdev graph list [--json]\n"
		"       gdev graph show [--dot | --json] [USER/]NAME\n"
		"       gdev graph top [--once] [--interval SECONDS]\n"
		"Looks at dataflow graphs (gdev-ptask(3)) that programs have opened under a name. A name\n"
		"without a user is one of this user. show and top need the right to read the graph.\n"
		"\n"
		"  list   which there are: owner, group, mode, process, virtual GPU, and how often they\n"
		"         were opened\n"
		"  show   a graph's ptasks and channels: states, counts, how many datablocks wait, and which\n"
		"         process has contributed a ptask; elsewhere: it runs in that one's session\n"
		"  top    how often graphs and their ptasks are invoked, again and again\n"
		"\n"
		"  --dot                 as a picture: gdev graph show --dot NAME | dot -Tsvg > graph.svg\n"
		"  --json                for programs\n"
		"  --once                once, and not again and again\n"
		"  --interval SECONDS    so long (default 1)\n",
	.run = run,
};
