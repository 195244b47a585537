/* SPDX-License-Identifier: MIT
 *
 * Parts: other processes contribute kernels to a graph by its name, are refused, and die in the middle. This program is these
 * processes, too: with arguments it plays one of the roles of part_roles.c. That the calls say what they say in a graph of the
 * process's own is in test_build.c.
 */
#include "processes.h"
#include "roles.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define STORMS 12

static struct gdev_graph *open_named(const char *name, unsigned mode)
{
	struct gdev_graph_options options = {.name = name, .mode = mode};
	struct gdev_graph *graph;

	good(NULL, gdev_graph_open(&options, &graph));
	return graph;
}

static struct gdev_port *find(struct gdev_graph *graph, const char *name)
{
	struct gdev_port *port;

	good(graph, gdev_port_find(graph, name, in_seconds(20), &port));
	return port;
}

static struct gdev_channel *connect(
	struct gdev_graph *graph, struct gdev_port *from, struct gdev_port *to)
{
	struct gdev_channel *channel;

	good(graph, gdev_channel_open(graph, from, to, NULL, &channel));
	return channel;
}

static void run_gdev(const char *arguments, char *output, size_t room)
{
	char command[600];
	FILE *pipe;
	size_t length;

	snprintf(command, sizeof command, "%s/cli/gdev graph %s", getenv("GDEV_BUILD"), arguments);
	pipe = popen(command, "r");
	assert_non_null(pipe);
	length = fread(output, 1, room - 1, pipe);
	output[length] = '\0';
	assert_int_equal(pclose(pipe), 0);
}

/* ---- a line of three processes, each with its own kernel ---- */

static void test_three_processes(void **state)
{
	struct process last = start("last", "line", "middle.out", 5, 100),
		       middle = start("middle", "line", "first.out", 3, 100),
		       first = start("first", "line", "-", 2, 100);
	struct gdev_graph *graph = open_named("line", 0600);
	char text[8192], wanted[64];

	find(graph, "last.out");
	run_gdev("show --json line", text, sizeof text);
	snprintf(wanted, sizeof wanted, "\"process\": %d", (int)middle.pid);
	assert_non_null(strstr(text, wanted));
	run_gdev("show line", text, sizeof text);
	snprintf(wanted, sizeof wanted, "%d", (int)first.pid);
	assert_non_null(strstr(text, wanted));
	good(graph, gdev_graph_run(graph));
	assert_int_equal(finish(first), 0);
	assert_int_equal(finish(last), 0);
	assert_int_equal(finish(middle), 0);
	gdev_graph_close(graph);
}

/* What is bound to variables, counts and sizes is bound so from elsewhere. */
static void test_bindings(void **state)
{
	struct fixture *f;
	struct gdev_port_options in_out = {.kind = GDEV_PORT_OUTPUT},
				 weight = {.kind = GDEV_PORT_STICKY,
					 .binding = GDEV_BIND_CONSTANT,
					 .variable = "weight"};
	const uint32_t block[3] = {64, 1, 1};
	struct gdev_ptask *increment, *weigh;
	struct gdev_port *in, *weights;
	struct gdev_channel *from, *by, *to;
	int values[N], four[4] = {1, 2, 3, 4};

	fixture_setup_attached((void **)&f);
	increment = function(f, "increment");
	in_out.in_out = in = input(increment, f->ints, 0);
	good(f->graph, gdev_port_count(in, 1));
	good(f->graph, gdev_ptask_set_geometry(increment, NULL, block, 0));
	weigh = function(f, "weigh");
	weight.tmpl = array_of(f, GDEV_LAYOUT_FIXED, 4);
	weights = port(weigh, weight);
	argument(weigh, 2, N);
	from = channel(f, NULL, in);
	by = channel(f, NULL, weights);
	channel(f, port(increment, in_out), input(weigh, f->ints, 1));
	to = channel(f, output(weigh, f->ints, 0), NULL);
	assert_int_equal(
		gdev_push_bytes(from, values, sizeof values, 0), -EAGAIN); /* it does not run */
	assert_non_null(gdev_channel_template(by));
	good(f->graph, gdev_graph_run(f->graph));
	good(f->owner, gdev_graph_run(f->owner));
	good(f->graph, gdev_push_bytes(by, four, sizeof four, GDEV_FOREVER));
	push_ints(f, from, 10);
	good(f->graph, gdev_pull_bytes(to, values, sizeof values, GDEV_FOREVER, NULL));
	for (int i = 0; i < N; i++)
		assert_int_equal(values[i], (11 + i) * (1 + i % 4));
	fixture_teardown((void **)&f);
}

/* Ports of the owner, and of the part, are connected by either. */
static void test_owner_connects(void **state)
{
	struct fixture *owner = fixture_open(
			       &(struct gdev_graph_options){.name = "both", .mode = 0600}),
		       *f;
	struct gdev_port_options out = {
		.name = "made", .kind = GDEV_PORT_OUTPUT, .tmpl = owner->ints};
	struct gdev_ptask *own = function(owner, "scale");
	struct gdev_channel *in, *result;
	struct gdev_port *found;
	struct scaler part;

	in = channel(owner, NULL, input(own, owner->ints, 1));
	port(own, out);
	argument(own, 2, 2);
	argument(own, 3, N);
	f = fixture_attach("both");
	part = scaler(f, 3);
	assert_int_equal(gdev_port_find(f->graph, "scale.none", 0, &found), -ENOENT);
	good(f->graph, gdev_port_find(f->graph, "scale.made", 0, &found));
	assert_int_equal(gdev_port_count(found, 3), -EPERM); /* it is the owner's */
	connect(f->graph, found, part.in);
	/* Nobody sees what is not complete. */
	assert_int_equal(gdev_port_find(owner->graph, "scale.output", 0, &found), -ENOENT);
	good(f->graph, gdev_graph_run(f->graph));
	assert_int_equal(gdev_graph_run(f->graph), -EBUSY);
	good(owner->graph, gdev_port_find(owner->graph, "scale.output", 0, &found));
	result = channel(owner, found, NULL);
	good(owner->graph, gdev_graph_run(owner->graph));
	push_ints(owner, in, 5);
	pull_ints(owner, result, 30, 6);
	good(f->graph, gdev_ptask_set_priority(part.ptask, 7, 1));
	fixture_teardown((void **)&f);
	fixture_teardown((void **)&owner);
}

/* ---- parts that are not complete ---- */

static void test_run_before_complete(void **state)
{
	struct fixture *owner = fixture_open(
			       &(struct gdev_graph_options){.name = "early", .mode = 0600}),
		       *f = fixture_attach("early");
	struct scaler own = scaler(owner, 2), part = scaler(f, 3);
	struct gdev_channel *in = channel(owner, NULL, own.in), *out;
	struct gdev_ptask_info info;
	char why[GDEV_WHY_BYTES];
	struct gdev_port *found;

	good(f->graph, gdev_port_find(f->graph, "scale.output", 0, &found));
	connect(f->graph, found, part.in);
	/* The channel of the part goes with it: the output has none. */
	assert_int_equal(gdev_graph_run(owner->graph), -EPIPE);
	out = channel(owner, own.out, NULL);
	good(owner->graph, gdev_graph_run(owner->graph));
	assert_int_equal(gdev_graph_run(f->graph), -ECANCELED);
	gdev_graph_why(f->graph, why);
	assert_non_null(strstr(why, "before this part was complete"));
	assert_int_equal(gdev_ptask_query(part.ptask, &info), -ECANCELED);
	push_ints(owner, in, 1);
	pull_ints(owner, out, 2, 2);
	fixture_teardown((void **)&f);
	fixture_teardown((void **)&owner);
}

/* ---- deaths ---- */

/* A complete part stays; of one that is not nothing is left. */
static void test_killed(void **state)
{
	struct gdev_graph *graph = open_named("dies", 0600);
	struct process stays = start("leave", "dies", "stays", 2, 1),
		       goes = start("leave", "dies", "goes", 3, 0);
	struct gdev_channel *in, *out;
	struct gdev_port *port;
	char text[8192];
	int values[N] = {21};
	bool gone = false;

	await_word(stays);
	await_word(goes);
	run_gdev("show dies", text, sizeof text);
	assert_non_null(strstr(text, "2 ptasks"));
	kill_it(stays);
	kill_it(goes);
	for (int i = 0; i < 1000 && !gone; i++) {
		run_gdev("show dies", text, sizeof text);
		gone = strstr(text, "1 ptasks") && strstr(text, "stays");
	}
	assert_true(gone);
	assert_int_equal(gdev_port_find(graph, "goes.in", 0, &port), -ENOENT);
	in = connect(graph, NULL, find(graph, "stays.in"));
	out = connect(graph, find(graph, "stays.out"), NULL);
	good(graph, gdev_graph_run(graph));
	good(graph, gdev_push_bytes(in, values, sizeof values, GDEV_FOREVER));
	good(graph, gdev_pull_bytes(out, values, sizeof values, GDEV_FOREVER, NULL));
	assert_int_equal(values[0], 42);
	gdev_graph_close(graph);
}

/* Processes that open and open are killed at any time; who is left builds what it wants, and it runs. */
static void test_storm(void **state)
{
	struct gdev_graph *graph = open_named("storm", 0600);
	struct process last, middle, first, storms[2];

	for (int i = 0; i < STORMS; i += 2) {
		for (int k = 0; k < 2; k++)
			storms[k] = start("storm", "storm", "-", 0, 0);
		for (int k = 0; k < 2; k++) {
			await_word(storms[k]);
			usleep((unsigned)rand() % 30000);
			kill_it(storms[k]);
		}
	}
	storms[0] = start("storm", "storm", "-", 0, 0);
	last = start("last", "storm", "middle.out", 5, 20);
	middle = start("middle", "storm", "first.out", 3, 20);
	first = start("first", "storm", "-", 2, 20);
	find(graph, "last.out");
	good(graph, gdev_graph_run(graph));
	kill_it(storms[0]);
	assert_int_equal(finish(first), 0);
	assert_int_equal(finish(last), 0);
	assert_int_equal(finish(middle), 0);
	gdev_graph_close(graph);
}

/* ---- rights and bounds ---- */

#define STRANGER 54321
#define GROUP 23456

static int tried(int uid, int group)
{
	return WEXITSTATUS(finish(start("stranger", "0/rights", "-", uid, group)));
}

static void test_rights(void **state)
{
	struct gdev_graph_options options = {.name = "rights", .mode = 0660, .group = GROUP};
	struct gdev_graph *graph;
	char path[512];

	if (geteuid())
		skip(); /* only root can be somebody else */
	snprintf(path, sizeof path, "%s/..", getenv("GDEV_RUNTIME_DIR"));
	assert_int_equal(chmod(path, 0711), 0);
	good(NULL, gdev_graph_open(&options, &graph));
	assert_int_equal(tried(STRANGER, GROUP), EPERM); /* another user's code */
	assert_int_equal(tried(0, 1), 0);
	gdev_graph_close(graph);
	options.mode = 0644;
	good(NULL, gdev_graph_open(&options, &graph));
	assert_int_equal(tried(STRANGER, GROUP), EACCES);
	gdev_graph_close(graph);
}

static void test_bounds(void **state)
{
	struct gdev_channel_options wide = {.capacity = 100000};
	struct gdev_template *tmpl;
	struct gdev_shape shape = {.stride = 4, .count = {1}};
	struct gdev_graph_module *module;
	struct gdev_channel *channel;
	struct fixture *f;
	char log[200], why[GDEV_WHY_BYTES];
	int error = 0, count = 0;

	fixture_setup_attached((void **)&f);
	assert_int_equal(gdev_graph_load(f->graph, "no code", 8, log, sizeof log, &module),
		-GDEV_E_INVALID_IMAGE);
	assert_int_equal(
		gdev_channel_open(f->graph, NULL, scaler(f, 2).in, &wide, &channel), -EINVAL);
	while (!error && count++ < 2000)
		error = gdev_template_open(f->graph, NULL, &shape, &tmpl);
	assert_int_equal(error, -EDQUOT);
	gdev_graph_why(f->graph, why);
	assert_non_null(strstr(why, "no more objects"));
	good(f->graph, gdev_graph_run(f->graph)); /* what there is goes on */
	fixture_teardown((void **)&f);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_three_processes),
		cmocka_unit_test(test_bindings),
		cmocka_unit_test(test_owner_connects),
		cmocka_unit_test(test_run_before_complete),
		cmocka_unit_test(test_killed),
		cmocka_unit_test(test_storm),
		cmocka_unit_test(test_rights),
		cmocka_unit_test(test_bounds),
	};

	if (argc == 6)
		return role_play(argv);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
