/* SPDX-License-Identifier: MIT
 *
 * Graphs of functions on one device: what flows, in which order, and what is refused.
 */
#include "fixture.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static uint64_t in_ms(unsigned ms)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec + ms * 1000000ull;
}

static void test_chain(void **state)
{
	struct fixture *f = *state;
	struct scaler a = scaler(f, 2), b = scaler(f, 3), c = scaler(f, 5);
	struct gdev_channel *in = channel(f, NULL, a.in), *out;
	struct gdev_ptask_info info;

	channel(f, a.out, b.in);
	channel(f, b.out, c.in);
	out = channel(f, c.out, NULL);
	good(f->graph, gdev_graph_run(f->graph));
	for (int i = 0; i < 100; i++) {
		push_ints(f, in, i);
		pull_ints(f, out, 30 * i, 30);
	}
	for (int i = 0; i < 8; i++)
		push_ints(f, in, i);
	for (int i = 0; i < 8; i++)
		pull_ints(f, out, 30 * i, 30);
	good(f->graph, gdev_ptask_query(b.ptask, &info));
	assert_int_equal(info.invocations, 108);
	assert_int_equal(info.state, GDEV_PTASK_WAITING);
}

/* (a + b) + (a + b), twice from one output, and what was pushed stays as it was. */
static void test_tree(void **state)
{
	struct fixture *f = *state;
	struct gdev_ptask *sum = function(f, "add"), *twice = function(f, "add");
	struct gdev_port *c = output(sum, f->ints, 0), *result = output(twice, f->ints, 0);
	struct gdev_channel *a = channel(f, NULL, input(sum, f->ints, 1));
	struct gdev_channel *b = channel(f, NULL, input(sum, f->ints, 2)), *out, *copy;

	argument(sum, 3, N);
	argument(twice, 3, N);
	channel(f, c, input(twice, f->ints, 1));
	channel(f, c, input(twice, f->ints, 2));
	copy = channel(f, c, NULL);
	out = channel(f, result, NULL);
	good(f->graph, gdev_graph_run(f->graph));
	for (int i = 0; i < 20; i++) {
		push_ints(f, a, i);
		push_ints(f, b, 7);
		pull_ints(f, out, 2 * (i + 7), 4);
		pull_ints(f, copy, i + 7, 2);
	}
}

/* One datablock in several channels, from memory of the program, which is let go when it is gone. */
static void let_go(void *flag)
{
	*(int *)flag = 1;
}

static void test_shared_datablock(void **state)
{
	struct fixture *f = *state;
	struct scaler a = scaler(f, 2), b = scaler(f, 3);
	struct gdev_channel *in[2] = {channel(f, NULL, a.in), channel(f, NULL, b.in)};
	struct gdev_channel *out[2] = {channel(f, a.out, NULL), channel(f, b.out, NULL)};
	int values[N], gone = 0;
	struct gdev_datablock *block;
	void *data;

	for (int i = 0; i < N; i++)
		values[i] = i;
	good(f->graph, gdev_graph_run(f->graph));
	good(f->graph, gdev_datablock_wrap(f->graph, f->ints, 0, values, let_go, &gone, &block));
	for (int i = 0; i < 2; i++)
		good(f->graph, gdev_push(in[i], block, 0));
	assert_int_equal(gdev_datablock_write(block, 0, values, 4), -EPERM);
	assert_int_equal(gdev_datablock_map(block, true, &data), -EPERM);
	assert_int_equal(gdev_datablock_read(block, sizeof values, data, 1), -EINVAL);
	pull_ints(f, out[0], 0, 2);
	pull_ints(f, out[1], 0, 3);
	assert_int_equal(gone, 0);
	gdev_datablock_put(block);
	assert_int_equal(gone, 1);
}

/* A datablock is written, mapped and read in parts; what the device has made is mapped once. */
static void test_datablock_access(void **state)
{
	struct fixture *f = *state;
	struct scaler a = scaler(f, 2);
	struct gdev_channel *in = channel(f, NULL, a.in), *out = channel(f, a.out, NULL);
	struct gdev_datablock *block, *result;
	int part[10], *mapped, *again;

	good(f->graph, gdev_graph_run(f->graph));
	good(f->graph, gdev_datablock_create(f->graph, f->ints, 0, &block));
	assert_int_equal(gdev_datablock_bytes(block), N * sizeof(int));
	for (int at = 0; at < N; at += 10) {
		for (int i = 0; i < 10; i++)
			part[i] = at + i;
		good(f->graph, gdev_datablock_write(block, (uint64_t)at * 4, part, sizeof part));
	}
	good(f->graph, gdev_datablock_map(block, true, (void **)&mapped));
	assert_int_equal(mapped[N - 1], N - 1);
	mapped[0] = 50;
	good(f->graph, gdev_push(in, block, GDEV_FOREVER));
	gdev_datablock_put(block);
	good(f->graph, gdev_pull(out, GDEV_FOREVER, &result));
	good(f->graph, gdev_datablock_read(result, 0, part, sizeof part));
	assert_int_equal(part[0], 100);
	assert_int_equal(part[9], 18);
	good(f->graph, gdev_datablock_map(result, false, (void **)&mapped));
	good(f->graph, gdev_datablock_map(result, false, (void **)&again));
	assert_ptr_equal(mapped, again);
	assert_int_equal(mapped[N - 1], 2 * (N - 1));
	gdev_datablock_put(result);
}

/* What a function changes in place was copied if others have it, and is not if nobody has. */
static void test_in_place(void **state)
{
	struct fixture *f = *state;
	struct gdev_ptask *first = function(f, "increment"), *second = function(f, "increment");
	struct gdev_port *in[2] = {input(first, f->ints, 0), input(second, f->ints, 0)}, *out[2];
	struct gdev_channel *from, *between, *to;
	struct gdev_datablock *block;
	int values[N];

	for (int i = 0; i < 2; i++) {
		argument(i ? second : first, 1, N);
		out[i] = port(i ? second : first,
			(struct gdev_port_options){.kind = GDEV_PORT_OUTPUT, .in_out = in[i]});
	}
	from = channel(f, NULL, in[0]);
	channel(f, out[0], in[1]);
	between = channel(f, out[0], NULL);
	to = channel(f, out[1], NULL);
	good(f->graph, gdev_graph_run(f->graph));
	for (int i = 0; i < N; i++)
		values[i] = i;
	for (int turn = 0; turn < 20; turn++) {
		good(f->graph, gdev_datablock_create(f->graph, f->ints, 0, &block));
		good(f->graph, gdev_datablock_write(block, 0, values, sizeof values));
		good(f->graph, gdev_push(from, block, GDEV_FOREVER));
		pull_ints(f, to, 2, 1);
		pull_ints(f, between, 1, 1);
		memset(values, 0, sizeof values);
		good(f->graph, gdev_datablock_read(block, 0, values, sizeof values));
		for (int i = 0; i < N; i++)
			assert_int_equal(values[i], i);
		gdev_datablock_put(block);
		push_ints(f, from, 5); /* nobody has this one */
		pull_ints(f, to, 7, 1);
		pull_ints(f, between, 6, 1);
		good(f->graph, gdev_datablock_create(f->graph, f->ints, 0, &block));
		good(f->graph, gdev_datablock_write(block, 0, values, sizeof values));
		assert_int_equal(gdev_push_give(to, block, 0), -EINVAL); /* it is ours still */
		good(f->graph, gdev_push_give(from, block, 0));
		pull_ints(f, to, 2, 1);
		pull_ints(f, between, 1, 1);
	}
}

/* A sticky port keeps its datablock; scalars are values, constants are copied into the variable. */
static void test_bindings(void **state)
{
	struct fixture *f = *state;
	struct gdev_ptask *scale = function(f, "scale"), *weigh = function(f, "weigh");
	struct gdev_template *four = array_of(f, GDEV_LAYOUT_FIXED, 4);
	struct gdev_port *scaled = output(scale, f->ints, 0), *weighed = output(weigh, f->ints, 0);
	struct gdev_channel *in = channel(f, NULL, input(scale, f->ints, 1)), *out, *factor,
			    *weight;

	factor = channel(f, NULL,
		port(scale, (struct gdev_port_options){.kind = GDEV_PORT_STICKY,
				    .binding = GDEV_BIND_SCALAR,
				    .tmpl = f->one,
				    .parameter = 2}));
	weight = channel(f, NULL,
		port(weigh, (struct gdev_port_options){.kind = GDEV_PORT_STICKY,
				    .binding = GDEV_BIND_CONSTANT,
				    .tmpl = four,
				    .variable = "weight"}));
	good(f->graph, gdev_port_count(scaled, 3));
	channel(f, scaled, input(weigh, f->ints, 1));
	argument(weigh, 2, N);
	out = channel(f, weighed, NULL);
	good(f->graph, gdev_graph_run(f->graph));
	for (int turn = 1; turn < 10; turn++) {
		good(f->graph, gdev_push_bytes(weight, (int[4]){turn, turn, turn, turn}, 16, 0));
		good(f->graph, gdev_push_bytes(factor, &turn, sizeof turn, 0));
		for (int i = 0; i < 3; i++) {
			push_ints(f, in, i);
			pull_ints(f, out, i * turn * turn, turn * turn);
		}
	}
}

/* Two ptasks, in different lanes, with one variable: each has its own weights. */
static void test_shared_variable(void **state)
{
	struct fixture *f = *state;
	struct gdev_template *four = array_of(f, GDEV_LAYOUT_FIXED, 4);
	struct gdev_channel *in[2], *out[2], *weight[2];

	for (int i = 0; i < 2; i++) {
		struct gdev_ptask *weigh = function(f, "weigh");
		out[i] = channel(f, output(weigh, f->ints, 0), NULL);
		in[i] = channel(f, NULL, input(weigh, f->ints, 1));
		argument(weigh, 2, N);
		weight[i] = channel(f, NULL,
			port(weigh, (struct gdev_port_options){.kind = GDEV_PORT_STICKY,
					    .binding = GDEV_BIND_CONSTANT,
					    .tmpl = four,
					    .variable = "weight"}));
	}
	good(f->graph, gdev_graph_run(f->graph));
	for (int i = 0; i < 2; i++)
		good(f->graph,
			gdev_push_bytes(weight[i], (int[4]){i + 2, i + 2, i + 2, i + 2}, 16, 0));
	for (int turn = 0; turn < 30; turn++) {
		for (int i = 0; i < 2; i++)
			push_ints(f, in[i], turn);
		for (int i = 0; i < 2; i++)
			pull_ints(f, out[i], turn * (i + 2), i + 2);
	}
}

/* Threads cover two and three dimensions. */
static void test_iteration_space(void **state)
{
	static const struct gdev_shape shapes[] = {
		{.stride = 4, .count = {33, 17}},
		{.stride = 4, .count = {9, 10, 5}},
		{.stride = 4, .count = {1000}},
	};

	for (unsigned s = 0; s < 3; s++) {
		struct fixture *f = fixture_open(NULL);
		const uint64_t *count = shapes[s].count;
		unsigned height = count[1] ? count[1] : 1, depth = count[2] ? count[2] : 1;
		size_t total = count[0] * height * depth;
		struct gdev_ptask *where = function(f, "where");
		struct gdev_template *tmpl;
		struct gdev_channel *in, *out;
		int *values = calloc(total, sizeof *values);

		good(f->graph, gdev_template_open(f->graph, NULL, &shapes[s], &tmpl));
		struct gdev_port *from = input(where, tmpl, 0);
		struct gdev_port *to = port(where,
			(struct gdev_port_options){.kind = GDEV_PORT_OUTPUT, .in_out = from});
		argument(where, 1, (unsigned)count[0]);
		argument(where, 2, height);
		argument(where, 3, depth);
		in = channel(f, NULL, from);
		out = channel(f, to, NULL);
		good(f->graph, gdev_graph_run(f->graph));
		good(f->graph, gdev_push_bytes(in, values, total * sizeof *values, 0));
		good(f->graph,
			gdev_pull_bytes(out, values, total * sizeof *values, GDEV_FOREVER, NULL));
		for (unsigned i = 0; i < total; i++)
			assert_int_equal(values[i], i % count[0] + 100 * (i / count[0] % height) +
							    10000 * (i / count[0] / height));
		free(values);
		fixture_teardown((void **)&f);
	}
}

/* ---- waiting ---- */

static void test_full_and_empty(void **state)
{
	struct fixture *f = *state;
	struct scaler a = scaler(f, 2);
	struct gdev_channel *in = narrow_channel(f, NULL, a.in, 1);
	struct gdev_channel *out = narrow_channel(f, a.out, NULL, 1);
	struct gdev_datablock *block;
	struct gdev_ptask_info info;
	int values[N] = {0}, pushed = 0;

	/* Before it runs, a channel takes what it has room for. */
	push_ints(f, in, 0);
	assert_int_equal(gdev_push_bytes(in, values, sizeof values, in_ms(20)), -ETIMEDOUT);
	assert_int_equal(gdev_pull(out, 0, &block), -EAGAIN);
	assert_int_equal(gdev_pull(out, in_ms(20), &block), -ETIMEDOUT);
	good(f->graph, gdev_graph_run(f->graph));
	/* In the output channel, in the output port, in the input port, and in the input channel. */
	while (!gdev_push_bytes(in, values, sizeof values, 0))
		pushed++;
	assert_int_equal(pushed, 3);
	good(f->graph, gdev_ptask_query(a.ptask, &info));
	while (info.state == GDEV_PTASK_EXECUTING)
		good(f->graph, gdev_ptask_query(a.ptask, &info));
	assert_int_equal(info.state, GDEV_PTASK_COMPLETED);
	pull_ints(f, out, 0, 2);
	good(f->graph, gdev_push_bytes(in, values, sizeof values, 0));
	assert_int_equal(gdev_push_bytes(in, values, sizeof values, 0), -EAGAIN);
}

static void *push_many(void *argument)
{
	struct gdev_channel *in = argument;
	int values[N];

	for (int turn = 0; turn < 200; turn++) {
		for (int i = 0; i < N; i++)
			values[i] = turn + i;
		if (gdev_push_bytes(in, values, sizeof values, GDEV_FOREVER))
			return argument;
	}
	return gdev_channel_end(in) ? argument : NULL;
}

/* One thread pushes, one pulls, until the end comes through. */
static void test_two_threads(void **state)
{
	struct fixture *f = *state;
	struct scaler a = scaler(f, 2), b = scaler(f, 3);
	struct gdev_channel *in = narrow_channel(f, NULL, a.in, 2);
	struct gdev_channel *out = narrow_channel(f, b.out, NULL, 2);
	struct gdev_datablock *block;
	struct gdev_ptask_info info;
	pthread_t thread;
	void *failed;

	channel(f, a.out, b.in);
	good(f->graph, gdev_graph_run(f->graph));
	assert_int_equal(pthread_create(&thread, NULL, push_many, in), 0);
	for (int turn = 0; turn < 200; turn++)
		pull_ints(f, out, 6 * turn, 6);
	assert_int_equal(gdev_pull(out, GDEV_FOREVER, &block), -ENODATA);
	pthread_join(thread, &failed);
	assert_null(failed);
	assert_int_equal(gdev_push_bytes(in, "", 0, 0), -EPIPE);
	good(f->graph, gdev_ptask_query(b.ptask, &info));
	assert_true(info.ended);
}

/* A thread polls the descriptor and never waits in a call. */
static void test_descriptor(void **state)
{
	struct fixture *f = *state;
	struct scaler a = scaler(f, 2);
	struct gdev_channel *in = narrow_channel(f, NULL, a.in, 2);
	struct gdev_channel *out = narrow_channel(f, a.out, NULL, 2);
	struct pollfd ready = {.fd = gdev_graph_descriptor(f->graph), .events = POLLIN};
	int values[N], pushed = 0, pulled = 0;

	good(f->graph, gdev_graph_run(f->graph));
	while (pulled < 50) {
		int error = -EAGAIN;
		for (int i = 0; i < N; i++)
			values[i] = pushed + i;
		if (pushed < 50)
			error = gdev_push_bytes(in, values, sizeof values, 0);
		if (!error) {
			pushed++;
			continue;
		}
		assert_int_equal(error, -EAGAIN);
		error = gdev_pull_bytes(out, values, sizeof values, 0, NULL);
		if (!error) {
			assert_int_equal(values[1], 2 * (pulled++ + 1));
			continue;
		}
		assert_int_equal(error, -EAGAIN);
		assert_int_equal(poll(&ready, 1, PATIENCE_MS), 1);
	}
}

/* While a kernel runs, a pull waits as long as it is told to, and the descriptor tells of the end. */
static void test_deadline(void **state)
{
	const uint32_t one[3] = {1, 1, 1};
	struct gdev_session *session;
	struct fixture *f;
	struct gdev_ptask *gate;
	struct gdev_channel *in, *out;
	struct gdev_datablock *block;
	struct gdev_ptask_info info;
	struct pollfd ready = {.events = POLLIN};
	void *flag;
	int value = 7;

	good(NULL, gdev_session_open(NULL, &session));
	good(NULL, gdev_host_alloc(session, 4096, &flag));
	f = fixture_open(&(struct gdev_graph_options){.session = session});
	gate = function(f, "gate");
	good(f->graph, gdev_ptask_set_geometry(gate, one, one, 0));
	good(f->graph, gdev_ptask_set_argument(gate, 2, &flag, sizeof flag));
	out = channel(f, output(gate, f->one, 0), NULL);
	in = channel(f, NULL, input(gate, f->one, 1));
	good(f->graph, gdev_graph_run(f->graph));
	good(f->graph, gdev_push_bytes(in, &value, sizeof value, 0));
	assert_int_equal(gdev_pull(out, in_ms(30), &block), -ETIMEDOUT);
	assert_int_equal(gdev_pull(out, 0, &block), -EAGAIN);
	good(f->graph, gdev_ptask_query(gate, &info));
	assert_int_equal(info.state, GDEV_PTASK_EXECUTING);
	ready.fd = gdev_graph_descriptor(f->graph);
	assert_int_equal(poll(&ready, 1, 30), 0);
	*(volatile int *)flag = 1;
	assert_int_equal(poll(&ready, 1, PATIENCE_MS), 1);
	value = 0;
	good(f->graph, gdev_pull_bytes(out, &value, sizeof value, 0, NULL));
	assert_int_equal(value, 7);
	fixture_teardown((void **)&f);
	good(NULL, gdev_memory_free(session, (uint64_t)flag));
	gdev_session_close(session);
}

/* Opens the gate: the argument is its flag. */
static int open_gate(void *flag, const struct gdev_view *inputs, struct gdev_view *outputs)
{
	*(volatile int *)flag = 1;
	return 0;
}

static int look(void *argument, const struct gdev_view *inputs, struct gdev_view *outputs)
{
	return 0;
}

static struct gdev_port *host_input(
	struct fixture *f, gdev_callback *callback, void *argument, struct gdev_template *tmpl)
{
	struct gdev_ptask *ptask;

	good(f->graph, gdev_ptask_open_host(f->graph, NULL, callback, argument, &ptask));
	return input(ptask, tmpl, 0);
}

/* A callback does not wait for a kernel of another lane, for which another callback waits. */
static void test_callback_beside_kernel(void **state)
{
	const uint32_t one[3] = {1, 1, 1};
	struct gdev_session *session;
	struct fixture *f;
	struct gdev_ptask *gate;
	struct gdev_port *to;
	struct gdev_channel *out, *in, *quick;
	struct scaler a;
	void *flag;
	int value = 7, error;

	good(NULL, gdev_session_open(NULL, &session));
	good(NULL, gdev_host_alloc(session, 4096, &flag));
	f = fixture_open(&(struct gdev_graph_options){.session = session});
	gate = function(f, "gate");
	good(f->graph, gdev_ptask_set_geometry(gate, one, one, 0));
	good(f->graph, gdev_ptask_set_argument(gate, 2, &flag, sizeof flag));
	to = output(gate, f->one, 0);
	out = channel(f, to, NULL);
	channel(f, to, host_input(f, look, NULL, f->one));
	in = channel(f, NULL, input(gate, f->one, 1));
	a = scaler(f, 2);
	quick = channel(f, NULL, a.in);
	channel(f, a.out, host_input(f, open_gate, flag, f->ints));
	good(f->graph, gdev_graph_run(f->graph));
	good(f->graph, gdev_push_bytes(in, &value, sizeof value, 0));
	usleep(30000); /* the graph's thread asks for a notice of the gate's end */
	push_ints(f, quick, 1);
	error = gdev_pull_bytes(out, &value, sizeof value, in_ms(60000), NULL);
	*(volatile int *)flag = 1; /* lest a failure waits for the gate */
	good(f->graph, error);
	fixture_teardown((void **)&f);
	good(NULL, gdev_memory_free(session, (uint64_t)flag));
	gdev_session_close(session);
}

/* Graphs that are closed while datablocks are under way, of a chunk each, leave nothing behind. The session keeps objects for reuse:
 * no more than were there at once, which is one for each of three channels and each datablock. */
static void test_closed_under_way(void **state)
{
	enum { TURNS = 60, PUSHED = 6, CHUNK = 2 << 20, MOST = (3 * PUSHED + 1) * CHUNK };
	static const int values[CHUNK / sizeof(int)];
	struct gdev_session *session;
	uint64_t bytes;

	good(NULL, gdev_session_open(NULL, &session));
	for (int turn = 0; turn < TURNS; turn++) {
		struct fixture *f = fixture_open(&(struct gdev_graph_options){.session = session});
		struct gdev_template *tmpl = array_of(f, GDEV_LAYOUT_FIXED, CHUNK / sizeof(int));
		struct scaler a = scaler_of(f, tmpl, 2), b = scaler_of(f, tmpl, 3);
		struct gdev_channel *in = channel(f, NULL, a.in);
		struct gdev_datablock *block = NULL;
		struct gdev_channel *out = channel(f, b.out, NULL);
		channel(f, a.out, b.in);
		good(f->graph, gdev_graph_run(f->graph));
		for (int i = 0; i < PUSHED; i++)
			good(f->graph, gdev_push_bytes(in, values, sizeof values, GDEV_FOREVER));
		if (turn % 2)
			good(f->graph, gdev_pull(out, GDEV_FOREVER, &block));
		fixture_teardown((void **)&f);
		gdev_datablock_put(block);
	}
	good(NULL, gdev_session_query(session, GDEV_QUERY_DEVICE_BYTES, &bytes));
	assert_in_range(bytes, 0, MOST);
	gdev_session_close(session);
}

static void *pull_one(void *argument)
{
	struct gdev_datablock *block;

	return (void *)(intptr_t)gdev_pull(argument, GDEV_FOREVER, &block);
}

static void test_terminate(void **state)
{
	struct fixture *f = *state;
	struct scaler a = scaler(f, 2);
	struct gdev_channel *in = channel(f, NULL, a.in), *out = channel(f, a.out, NULL);
	struct gdev_datablock *kept;
	pthread_t thread;
	void *result;
	int value;

	good(f->graph, gdev_graph_run(f->graph));
	push_ints(f, in, 0);
	good(f->graph, gdev_pull(out, GDEV_FOREVER, &kept));
	assert_int_equal(pthread_create(&thread, NULL, pull_one, out), 0);
	usleep(20000);
	good(f->graph, gdev_graph_terminate(f->graph));
	pthread_join(thread, &result);
	assert_int_equal((int)(intptr_t)result, -ECANCELED);
	assert_int_equal(gdev_push_bytes(in, "", 0, GDEV_FOREVER), -ECANCELED);
	/* A datablock that the program has outlives its graph. */
	gdev_graph_close(f->graph);
	assert_int_equal(gdev_datablock_read(kept, 0, &value, sizeof value), -ECANCELED);
	gdev_datablock_put(kept);
	good(NULL, gdev_graph_open(NULL, &f->graph));
}

/* ---- failure ---- */

/* A kernel that faults fails its graph, and no other. */
static void test_fault(void **state)
{
	needs_faults();

	struct fixture *f = *state, *other = fixture_open(NULL);
	struct gdev_ptask *fault = function(f, "fault");
	struct gdev_channel *out = channel(f, output(fault, f->ints, 0), NULL);
	struct gdev_channel *in = channel(f, NULL, input(fault, f->ints, 1)), *others[2];
	struct scaler a = scaler(other, 2);
	struct gdev_datablock *block;
	char why[GDEV_WHY_BYTES];
	int values[N] = {0};

	others[0] = channel(other, NULL, a.in);
	others[1] = channel(other, a.out, NULL);
	good(other->graph, gdev_graph_run(other->graph));
	good(f->graph, gdev_graph_run(f->graph));
	good(f->graph, gdev_push_bytes(in, values, sizeof values, 0));
	assert_int_equal(gdev_pull(out, GDEV_FOREVER, &block), -GDEV_E_ILLEGAL_ADDRESS);
	assert_int_equal(gdev_push_bytes(in, values, sizeof values, 0), -GDEV_E_ILLEGAL_ADDRESS);
	gdev_graph_why(f->graph, why);
	assert_non_null(strstr(why, "does not own"));
	push_ints(other, others[0], 1);
	pull_ints(other, others[1], 2, 2);
	fixture_teardown((void **)&other);
}

/* In a forked child nothing works, and nothing hangs. */
static void test_fork(void **state)
{
	struct fixture *f = *state;
	struct scaler a = scaler(f, 2);
	struct gdev_channel *in = channel(f, NULL, a.in), *out = channel(f, a.out, NULL);
	int status;
	pid_t child;

	good(f->graph, gdev_graph_run(f->graph));
	child = fork();
	if (!child) {
		int error = gdev_push_bytes(in, "", 0, GDEV_FOREVER);
		gdev_graph_close(f->graph);
		_exit(error == -GDEV_E_SESSION_LOST ? 0 : 1);
	}
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_int_equal(status, 0);
	push_ints(f, in, 1);
	pull_ints(f, out, 2, 2);
}

/* Two graphs of one session. */
static void test_given_session(void **state)
{
	struct gdev_session *session;
	struct fixture *f[2];

	good(NULL, gdev_session_open(NULL, &session));
	for (int i = 0; i < 2; i++) {
		f[i] = fixture_open(&(struct gdev_graph_options){.session = session});
		struct scaler a = scaler(f[i], 2 + i);
		struct gdev_channel *in = channel(f[i], NULL, a.in);
		struct gdev_channel *out = channel(f[i], a.out, NULL);
		good(f[i]->graph, gdev_graph_run(f[i]->graph));
		push_ints(f[i], in, 1);
		pull_ints(f[i], out, 2 + i, 2 + i);
	}
	for (int i = 0; i < 2; i++)
		fixture_teardown((void **)&f[i]);
	gdev_session_close(session);
}

#define with_graph(test) cmocka_unit_test_setup_teardown(test, fixture_setup, fixture_teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		with_graph(test_chain),
		with_graph(test_tree),
		with_graph(test_shared_datablock),
		with_graph(test_datablock_access),
		with_graph(test_in_place),
		with_graph(test_bindings),
		with_graph(test_shared_variable),
		cmocka_unit_test(test_iteration_space),
		with_graph(test_full_and_empty),
		with_graph(test_two_threads),
		with_graph(test_descriptor),
		cmocka_unit_test(test_deadline),
		cmocka_unit_test(test_callback_beside_kernel),
		cmocka_unit_test(test_closed_under_way),
		with_graph(test_terminate),
		with_graph(test_fault),
		with_graph(test_fork),
		cmocka_unit_test(test_given_session),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
