/* SPDX-License-Identifier: MIT
 *
 * Parts: other processes contribute kernels to a graph by its name, are refused, and die in the middle. This program is these
 * processes, too: with arguments it plays one of the roles of part_roles.c. That the calls say what they say in a graph of the
 * process's own is in test_build.c.
 */
#include "processes.h"
#include "roles.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
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

	good(graph, gdev_port_find(graph, name, in_seconds(PATIENCE_S), &port));
	return port;
}

static struct gdev_channel *connect(
	struct gdev_graph *graph, struct gdev_port *from, struct gdev_port *to)
{
	struct gdev_channel *channel;

	good(graph, gdev_channel_open(graph, from, to, NULL, &channel));
	return channel;
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
	run_gdev("graph show --json line", text, sizeof text);
	snprintf(wanted, sizeof wanted, "\"process\": %d", (int)middle.pid);
	assert_non_null(strstr(text, wanted));
	run_gdev("graph show line", text, sizeof text);
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
	/* Two are called so, and the owner's counts. */
	good(f->graph, gdev_port_find(f->graph, "scale.input", 0, &found));
	assert_int_equal(gdev_channel_open(f->graph, NULL, found, NULL, &result), -EEXIST);
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
	run_gdev("graph show dies", text, sizeof text);
	assert_non_null(strstr(text, "2 ptasks"));
	kill_it(stays);
	kill_it(goes);
	for (uint64_t until = in_seconds(PATIENCE_S); !gone && in_seconds(0) < until;) {
		run_gdev("graph show dies", text, sizeof text);
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
	kill(storms[0].pid, SIGKILL); /* its calls say by now that it cannot build any more */
	finish(storms[0]);
	assert_int_equal(finish(first), 0);
	assert_int_equal(finish(last), 0);
	assert_int_equal(finish(middle), 0);
	gdev_graph_close(graph);
}

/* ---- sessions of their own ---- */

#define STRANGER 54321
#define GROUP 23456

static void let_others_in(void)
{
	char path[512], text[1024];

	run_gdev("vgpu set gdev0 --mode 0666", text, sizeof text);
	snprintf(path, sizeof path, "%s/..", getenv("GDEV_RUNTIME_DIR"));
	assert_int_equal(chmod(path, 0711), 0);
}

/* The middle of the line is another user's, and runs in that user's session. */
static void line_with_stranger(const char *name, int uid, unsigned mode)
{
	char full[64], text[8192];
	struct process last, middle, first;
	struct gdev_graph *graph = open_named(name, mode);

	snprintf(full, sizeof full, "0/%s", name);
	last = start("last", name, "middle.out", 5, 100);
	middle = start("own-middle", full, "first.out", uid, 100);
	first = start("first", name, "-", 2, 100);
	find(graph, "last.out");
	snprintf(full, sizeof full, "graph show --json %s", name);
	run_gdev(full, text, sizeof text);
	assert_non_null(strstr(text, "\"elsewhere\""));
	good(graph, gdev_graph_run(graph));
	assert_int_equal(finish(first), 0);
	assert_int_equal(finish(last), 0);
	assert_int_equal(finish(middle), 0);
	gdev_graph_close(graph);
}

static void test_own_session(void **state)
{
	line_with_stranger("apart", 0, 0600);
	if (geteuid())
		return; /* only root can be somebody else */
	let_others_in();
	line_with_stranger("strange", STRANGER, 0666);
}

/* In one process: the owner's program is at both ends, an output has two channels, one input changes in place. */
static void test_own_session_ports(void **state)
{
	struct gdev_port_options in_out = {.name = "changed", .kind = GDEV_PORT_OUTPUT};
	struct gdev_ptask *increment;
	struct gdev_channel *in, *out[2];
	struct gdev_port *found, *values;
	struct gdev_datablock *block;
	struct fixture *f;

	fixture_setup_own((void **)&f);
	increment = function(f, "increment");
	in_out.in_out = values = input(increment, f->ints, 0);
	port(increment, in_out);
	assert_int_equal(gdev_graph_run(f->graph), -EINVAL); /* parameter 1 */
	good(f->graph, gdev_port_count(values, 1));
	good(f->graph, gdev_graph_run(f->graph));
	assert_int_equal(gdev_graph_run(f->graph), -EBUSY);
	good(f->owner, gdev_port_find(f->owner, "increment.input", 0, &found));
	in = connect(f->owner, NULL, found);
	good(f->owner, gdev_port_find(f->owner, "increment.changed", 0, &found));
	out[0] = connect(f->owner, found, NULL);
	out[1] = connect(f->owner, found, NULL);
	good(f->owner, gdev_graph_run(f->owner));
	for (int i = 0; i < 50; i++) {
		struct fixture owner = {.graph = f->owner};
		push_ints(&owner, in, i);
		pull_ints(&owner, out[0], i + 1, 1);
		pull_ints(&owner, out[1], i + 1, 1);
	}
	good(f->owner, gdev_channel_end(in));
	assert_int_equal(gdev_pull(out[1], in_seconds(PATIENCE_S), &block), -ENODATA);
	fixture_teardown((void **)&f);
}

/* The memory that both share has room for fewer datablocks than are on their way. */
static void test_own_session_little_memory(void **state)
{
	struct gdev_graph_options options = {
		.name = "little", .mode = 0600, .member_bytes = 3 * N * sizeof(int)};
	struct fixture owner = {0}, *f = calloc(1, sizeof *f);
	struct gdev_channel *in, *out;

	assert_non_null(f);
	good(NULL, gdev_graph_open(&options, &owner.graph));
	good(NULL, gdev_graph_attach_own("little", NULL, GDEV_FOREVER, &f->graph));
	good(f->graph, gdev_graph_load(f->graph, kernels_ptx, strlen(kernels_ptx) + 1, NULL, 0,
			       &f->module));
	f->ints = array_of(f, GDEV_LAYOUT_FIXED, N);
	scaler(f, 3);
	good(f->graph, gdev_graph_run(f->graph));
	in = connect(owner.graph, NULL, find(owner.graph, "scale.input"));
	out = connect(owner.graph, find(owner.graph, "scale.output"), NULL);
	good(owner.graph, gdev_graph_run(owner.graph));
	for (int i = 0; i < 60; i++) {
		push_ints(&owner, in, i);
		if (i >= 12)
			pull_ints(&owner, out, 3 * (i - 12), 3);
	}
	for (int i = 48; i < 60; i++)
		pull_ints(&owner, out, 3 * i, 3);
	fixture_teardown((void **)&f);
	gdev_graph_close(owner.graph);
}

/* As many ports as a process has ends. */
static void test_own_session_many_ports(void **state)
{
	enum { PTASKS = 31, BLOCKS = 40, AHEAD = 8 };
	struct scaler line[PTASKS];
	struct gdev_channel *in, *out;
	struct fixture *f;

	fixture_setup_own((void **)&f);
	for (int i = 0; i < PTASKS; i++) {
		line[i] = scaler(f, i ? 1 : 3);
		if (i)
			channel(f, line[i - 1].out, line[i].in);
	}
	in = channel(f, NULL, line[0].in);
	out = channel(f, line[PTASKS - 1].out, NULL);
	good(f->graph, gdev_graph_run(f->graph));
	good(f->owner, gdev_graph_run(f->owner));
	for (int i = 0; i < BLOCKS; i++) {
		push_ints(f, in, i);
		if (i >= AHEAD)
			pull_ints(f, out, 3 * (i - AHEAD), 3);
	}
	for (int i = BLOCKS - AHEAD; i < BLOCKS; i++)
		pull_ints(f, out, 3 * i, 3);
	fixture_teardown((void **)&f);
}

/* What one port makes lies in a long channel until another one's comes, for which it leaves ids of datablocks. */
static void test_own_session_leaves_ids(void **state)
{
	const struct gdev_graph_options options = {.name = "ids", .mode = 0600};
	struct fixture *owner = fixture_open(&options), *f = fixture_attach_own("ids");
	struct gdev_ptask *add = function(owner, "add"), *ptask;
	struct gdev_channel *in[2], *sum;
	int values[N] = {1}, error = 0;

	for (unsigned i = 0; i < 2; i++) {
		good(f->graph,
			gdev_ptask_open(f->graph, i ? "b" : "a", f->module, "scale", &ptask));
		output(ptask, f->ints, 0);
		input(ptask, f->ints, 1);
		argument(ptask, 2, i + 2);
		argument(ptask, 3, N);
	}
	good(f->graph, gdev_graph_run(f->graph));
	in[0] = connect(owner->graph, NULL, find(owner->graph, "a.input"));
	in[1] = connect(owner->graph, NULL, find(owner->graph, "b.input"));
	narrow_channel(owner, find(owner->graph, "a.output"), input(add, owner->ints, 1), 512);
	narrow_channel(owner, find(owner->graph, "b.output"), input(add, owner->ints, 2), 512);
	argument(add, 3, N);
	sum = channel(owner, output(add, owner->ints, 0), NULL);
	good(owner->graph, gdev_graph_run(owner->graph));
	for (int i = 0; i < 300 && !error; i++)
		error = gdev_push_bytes(in[0], values, sizeof values, in_seconds(1));
	assert_true(!error || error == -ETIMEDOUT);
	good(owner->graph, gdev_push_bytes(in[1], values, sizeof values, 0));
	good(owner->graph,
		gdev_pull_bytes(sum, values, sizeof values, in_seconds(PATIENCE_S), NULL));
	assert_int_equal(values[0], 5);
	fixture_teardown((void **)&f);
	fixture_teardown((void **)&owner);
}

/* The program of that process waits by the graph's descriptor, and is not left asleep by the thread that carries. */
static void test_own_session_descriptor(void **state)
{
	struct scaler part;
	struct gdev_channel *in, *out;
	struct gdev_datablock *block;
	struct pollfd readable;
	struct fixture *f;
	int error;

	fixture_setup_own((void **)&f);
	part = scaler(f, 3);
	in = channel(f, NULL, part.in);
	out = channel(f, part.out, NULL);
	good(f->graph, gdev_graph_run(f->graph));
	good(f->owner, gdev_graph_run(f->owner));
	readable = (struct pollfd){.fd = gdev_graph_descriptor(f->graph), .events = POLLIN};
	for (int i = 0; i < 200; i++) {
		push_ints(f, in, i);
		while ((error = gdev_pull(out, 0, &block)) == -EAGAIN)
			assert_int_equal(poll(&readable, 1, PATIENCE_MS), 1);
		good(f->graph, error);
		gdev_datablock_put(block);
	}
	fixture_teardown((void **)&f);
}

static int until_read(void *argument, const struct gdev_view *inputs, struct gdev_view *outputs)
{
	char byte;

	return read(*(int *)argument, &byte, 1) < 0 ? -EIO : 1;
}

/* The owner's thread is in a callback, and answers nobody: who closes the graph does not wait for it. */
static void test_own_session_closes(void **state)
{
	struct gdev_port_options made = {.kind = GDEV_PORT_OUTPUT};
	struct gdev_graph *graph = open_named("busy", 0600);
	struct process other = start("own-close", "busy", "far", 0, 0);
	struct gdev_shape shape = {.stride = 4, .count = {1}};
	struct gdev_ptask_info info = {0};
	struct gdev_ptask *busy;
	struct gdev_port *port;
	int ends[2];

	assert_int_equal(pipe(ends), 0);
	good(graph, gdev_ptask_open_host(graph, "busy", until_read, &ends[0], &busy));
	good(graph, gdev_template_open(graph, NULL, &shape, &made.tmpl));
	good(graph, gdev_port_open(busy, &made, &port));
	connect(graph, port, NULL);
	await_word(other);
	connect(graph, NULL, find(graph, "far.in"));
	connect(graph, find(graph, "far.out"), NULL);
	good(graph, gdev_graph_run(graph));
	while (info.state != GDEV_PTASK_EXECUTING)
		good(graph, gdev_ptask_query(busy, &info));
	usleep(50000); /* by now it asks for its ends */
	kill(other.pid, SIGUSR1);
	assert_int_equal(finish(other), 0);
	close(ends[1]);
	gdev_graph_close(graph);
	close(ends[0]);
}

/* Dies in the middle: what it feeds ends, what feeds it breaks. Before the graph runs: the same, at once. */
static void test_own_session_killed(void **state)
{
	for (int early = 0; early < 2; early++) {
		struct gdev_graph *graph = open_named("mourned", 0600);
		struct process other = start("own-leave", "mourned", "far", 0, 0);
		struct fixture owner = {.graph = graph};
		struct gdev_datablock *block;
		struct gdev_channel *in, *out;
		int values[N] = {0}, error = 0;

		await_word(other);
		in = connect(graph, NULL, find(graph, "far.in"));
		out = connect(graph, find(graph, "far.out"), NULL);
		if (early)
			kill_it(other);
		good(graph, gdev_graph_run(graph));
		if (!early) {
			push_ints(&owner, in, 1);
			pull_ints(&owner, out, 3, 3);
			kill_it(other);
		}
		while ((error = gdev_pull(out, in_seconds(PATIENCE_S), &block)) == 0)
			gdev_datablock_put(block);
		assert_int_equal(error, -ENODATA);
		for (int i = 0; i < 100 && error != -EPIPE; i++)
			error = gdev_push_bytes(in, values, sizeof values, in_seconds(PATIENCE_S));
		assert_int_equal(error, -EPIPE);
		gdev_graph_close(graph);
	}
}

/* What another user leaves unconnected keeps nobody from running the graph. */
static void test_own_session_loose(void **state)
{
	struct gdev_graph *graph;
	struct fixture owner;
	struct process other;
	struct gdev_channel *in, *out;
	struct gdev_port *port;

	if (geteuid())
		skip(); /* only root can be somebody else */
	let_others_in();
	owner.graph = graph = open_named("loose", 0666);
	other = start("own-loose", "0/loose", "-", STRANGER, 20);
	in = connect(graph, NULL, find(graph, "middle.in"));
	out = connect(graph, find(graph, "middle.out"), NULL);
	find(graph, "loose.out");
	good(graph, gdev_graph_run(graph));
	for (int i = 0; i < 20; i++) {
		push_ints(&owner, in, i);
		pull_ints(&owner, out, 3 * i, 3);
	}
	assert_int_equal(gdev_port_find(graph, "loose.out", 0, &port), -EBUSY);
	gdev_channel_end(in);
	assert_int_equal(finish(other), 0);
	gdev_graph_close(graph);
}

/* Killed at any time while datablocks go through it: what comes is right, and then it ends. */
static void test_own_session_storm(void **state)
{
	for (int round = 0; round < STORMS / 2; round++) {
		struct gdev_graph *graph = open_named("stormy", 0600);
		struct process other = start("own-leave", "stormy", "far", 0, 0);
		struct gdev_channel *in, *out;
		int values[N] = {0}, next = 0, error = 0;
		uint64_t bytes;

		await_word(other);
		in = connect(graph, NULL, find(graph, "far.in"));
		out = connect(graph, find(graph, "far.out"), NULL);
		good(graph, gdev_graph_run(graph));
		for (int i = 0; i < 20 && !error; i++) {
			values[0] = i;
			error = gdev_push_bytes(in, values, sizeof values, 0);
		}
		usleep((unsigned)rand() % 20000);
		kill_it(other);
		while (!(error = gdev_pull_bytes(
				 out, values, sizeof values, in_seconds(PATIENCE_S), &bytes)))
			assert_int_equal(values[0], 3 * next++);
		assert_int_equal(error, -ENODATA);
		gdev_graph_close(graph);
	}
}

/* Its kernel faults: the graph of the owner goes on without it, and the process hears why. */
static void test_own_session_fails(void **state)
{
	struct gdev_ptask *bad;
	struct gdev_channel *in, *out;
	struct gdev_port *found;
	struct gdev_datablock *block;
	struct gdev_ptask_info info;
	char why[GDEV_WHY_BYTES];
	struct fixture *f, owner;

	needs_faults();
	fixture_setup_own((void **)&f);
	owner = (struct fixture){.graph = f->owner};
	bad = function(f, "fault");
	input(bad, f->ints, 1);
	output(bad, f->ints, 0);
	good(f->graph, gdev_graph_run(f->graph));
	good(f->owner, gdev_port_find(f->owner, "fault.input", 0, &found));
	in = connect(f->owner, NULL, found);
	good(f->owner, gdev_port_find(f->owner, "fault.output", 0, &found));
	out = connect(f->owner, found, NULL);
	good(f->owner, gdev_graph_run(f->owner));
	push_ints(&owner, in, 1);
	assert_int_equal(gdev_pull(out, in_seconds(PATIENCE_S), &block), -ENODATA);
	assert_int_equal(gdev_ptask_query(bad, &info), -GDEV_E_ILLEGAL_ADDRESS);
	gdev_graph_why(f->graph, why);
	assert_true(strlen(why));
	gdev_graph_why(f->owner, why);
	assert_string_equal(why, "");
	fixture_teardown((void **)&f);
}

/* Work of a patient process is no more urgent for having gone through the session of another. */
static void test_own_session_for_whom(void **state)
{
	struct gdev_graph_options options = {
		.name = "patient", .mode = 0600, .schedule = GDEV_SCHEDULE_PRIORITY};
	struct gdev_channel_options in = {.name = "in", .keep = true};
	struct fixture *owner = fixture_open(&options), *f = fixture_attach_own("patient");
	struct gdev_ptask *add = function(owner, "add");
	struct gdev_channel *ignored;
	struct gdev_port *port;
	char text[8192], *said = NULL;

	scaler(f, 2);
	good(f->graph, gdev_graph_run(f->graph));
	good(owner->graph, gdev_port_find(owner->graph, "scale.input", 0, &port));
	good(owner->graph, gdev_channel_open(owner->graph, NULL, port, &in, &ignored));
	good(owner->graph, gdev_port_find(owner->graph, "scale.output", 0, &port));
	channel(owner, port, input(add, owner->ints, 1));
	channel(owner, NULL, input(add, owner->ints, 2)); /* for which it waits */
	argument(add, 3, N);
	channel(owner, output(add, owner->ints, 0), NULL);
	good(owner->graph, gdev_graph_run(owner->graph));
	assert_int_equal(finish(start("nice", "patient", "in", 7, 1)), 0);
	for (uint64_t until = in_seconds(PATIENCE_S); !said && in_seconds(0) < until;) {
		run_gdev("graph show --json patient", text, sizeof text);
		said = strstr(strstr(text, "\"add\""), "\"proxy\": -7,");
	}
	assert_non_null(said);
	fixture_teardown((void **)&f);
	fixture_teardown((void **)&owner);
}

/* ---- rights and bounds ---- */

static int tried(int uid, int group)
{
	return WEXITSTATUS(finish(start("stranger", "0/rights", "-", uid, group)));
}

static void test_rights(void **state)
{
	struct gdev_graph_options options = {.name = "rights", .mode = 0660, .group = GROUP};
	struct gdev_graph *graph;
	struct fixture *f;

	if (geteuid())
		skip(); /* only root can be somebody else */
	let_others_in();
	good(NULL, gdev_graph_open(&options, &graph));
	assert_int_equal(tried(STRANGER, GROUP), EPERM); /* another user's code */
	assert_int_equal(tried(0, 1), 0);
	gdev_graph_close(graph);
	options.mode = 0644;
	good(NULL, gdev_graph_open(&options, &graph));
	assert_int_equal(tried(STRANGER, GROUP), EACCES);
	gdev_graph_close(graph);
	options.mode = 0602;
	f = fixture_open(&options);
	channel(f, NULL, scaler(f, 2).in);
	assert_int_equal(
		WEXITSTATUS(finish(start("own-reader", "0/rights", "scale.output", STRANGER, 0))),
		EACCES);
	fixture_teardown((void **)&f);
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
		cmocka_unit_test(test_own_session),
		cmocka_unit_test(test_own_session_ports),
		cmocka_unit_test(test_own_session_little_memory),
		cmocka_unit_test(test_own_session_many_ports),
		cmocka_unit_test(test_own_session_leaves_ids),
		cmocka_unit_test(test_own_session_descriptor),
		cmocka_unit_test(test_own_session_closes),
		cmocka_unit_test(test_own_session_killed),
		cmocka_unit_test(test_own_session_loose),
		cmocka_unit_test(test_own_session_storm),
		cmocka_unit_test(test_own_session_fails),
		cmocka_unit_test(test_own_session_for_whom),
		cmocka_unit_test(test_rights),
		cmocka_unit_test(test_bounds),
	};

	if (argc == 6)
		return role_play(argv);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
