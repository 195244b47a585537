/* SPDX-License-Identifier: MIT
 *
 * What needs the host: callbacks, sources, values and sizes that are known when the graph runs, predicates, ends, and graphs
 * without a thread.
 */
#include "fixture.h"

#include <errno.h>
#include <glob.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static struct gdev_ptask *callback(struct fixture *f, gdev_callback *called, void *argument)
{
	struct gdev_ptask *ptask;

	good(f->graph, gdev_ptask_open_host(f->graph, NULL, called, argument, &ptask));
	return ptask;
}

static int negate(void *argument, const struct gdev_view *inputs, struct gdev_view *outputs)
{
	const int *in = inputs[0].data;
	int *out = outputs[0].data;

	for (uint64_t i = 0; i < inputs[0].records; i++)
		out[i] = -in[i];
	return 0;
}

/* A callback between two functions. */
static void run_negation(struct fixture *f, void (*idle)(struct fixture *f))
{
	struct scaler a = scaler(f, 2), b = scaler(f, 3);
	struct gdev_ptask *minus = callback(f, negate, NULL);
	struct gdev_channel *in = channel(f, NULL, a.in), *out;
	struct gdev_datablock *block;
	int values[N];

	channel(f, a.out, input(minus, f->ints, 0));
	channel(f, output(minus, f->ints, 0), b.in);
	out = channel(f, b.out, NULL);
	good(f->graph, gdev_graph_run(f->graph));
	for (int turn = 0; turn < 50; turn++) {
		int error;
		push_ints(f, in, turn);
		push_ints(f, in, turn);
		for (int i = 0; i < 2; i++) {
			while ((error = gdev_pull(out, idle ? 0 : GDEV_FOREVER, &block)) == -EAGAIN)
				idle(f);
			good(f->graph, error);
			good(f->graph, gdev_datablock_read(block, 0, values, sizeof values));
			gdev_datablock_put(block);
			for (int k = 0; k < N; k++)
				assert_int_equal(values[k], -6 * (turn + k));
		}
	}
}

static void test_callback(void **state)
{
	run_negation(*state, NULL);
}

static void poll_and_advance(struct fixture *f)
{
	struct pollfd ready = {.fd = gdev_graph_descriptor(f->graph), .events = POLLIN};

	assert_int_equal(poll(&ready, 1, PATIENCE_MS), 1);
	good(f->graph, gdev_graph_advance(f->graph));
}

static int threads_of_process(void)
{
	char line[200];
	FILE *status = fopen("/proc/self/status", "r");
	int threads = 0;

	assert_non_null(status);
	while (fgets(line, sizeof line, status))
		sscanf(line, "Threads: %d", &threads);
	fclose(status);
	return threads;
}

/* The program's own loop runs everything; the one thread is that of libgdev. */
static void test_manual(void **state)
{
	struct fixture *f = fixture_open(&(struct gdev_graph_options){.manual = true});
	int before = threads_of_process();

	run_negation(f, poll_and_advance);
	assert_in_range(threads_of_process(), 1, before + 1);
	fixture_teardown((void **)&f);
}

/* Functions alone need no thread at all. */
static void test_no_thread(void **state)
{
	struct fixture *f = *state;
	struct scaler a = scaler(f, 2);
	struct gdev_channel *in = channel(f, NULL, a.in), *out = channel(f, a.out, NULL);
	int before = threads_of_process();

	good(f->graph, gdev_graph_run(f->graph));
	push_ints(f, in, 1);
	pull_ints(f, out, 2, 2);
	assert_int_equal(threads_of_process(), before);
}

/* ---- sources, sinks and ends ---- */

static int count_up(void *argument, const struct gdev_view *inputs, struct gdev_view *outputs)
{
	int *turn = argument, *out = outputs[0].data;

	if (*turn == 40)
		return 1;
	for (int i = 0; i < N; i++)
		out[i] = *turn + i;
	++*turn;
	return 0;
}

static int check_and_count(
	void *argument, const struct gdev_view *inputs, struct gdev_view *outputs)
{
	const int *in = inputs[0].data;
	int *seen = argument;

	for (int i = 0; i < N; i++)
		if (in[i] != 2 * (*seen + i))
			return -EILSEQ;
	++*seen;
	return 0;
}

/* A source runs until it ends; the end comes through behind the last datablock. */
static void test_source_and_sink(void **state)
{
	struct fixture *f = *state;
	int made = 0, seen = 0;
	struct scaler a = scaler(f, 2);
	struct gdev_ptask *source = callback(f, count_up, &made),
			  *sink = callback(f, check_and_count, &seen);
	struct gdev_datablock *block;
	struct gdev_channel *copy;
	struct gdev_ptask_info info;
	int count = 0, error;

	channel(f, output(source, f->ints, 0), a.in);
	channel(f, a.out, input(sink, f->ints, 0));
	copy = channel(f, a.out, NULL);
	good(f->graph, gdev_graph_run(f->graph));
	while (!(error = gdev_pull(copy, GDEV_FOREVER, &block))) {
		gdev_datablock_put(block);
		count++;
	}
	assert_int_equal(error, -ENODATA);
	assert_int_equal(count, 40);
	do
		good(f->graph, gdev_ptask_query(sink, &info));
	while (!info.ended);
	assert_int_equal(info.invocations, 40);
	assert_int_equal(seen, 40);
}

static int count_calls(void *argument, const struct gdev_view *inputs, struct gdev_view *outputs)
{
	memset(outputs[0].data, 0, outputs[0].bytes);
	++*(int *)argument;
	return 0;
}

/* A source ends when nobody can get what it makes any more. */
static void test_source_in_vain(void **state)
{
	struct fixture *f = *state;
	int made = 0, ends[2];
	struct gdev_ptask *source = callback(f, count_calls, &made);
	struct gdev_channel *sink;
	struct gdev_ptask_info info = {0};

	assert_int_equal(pipe(ends), 0);
	good(f->graph,
		gdev_channel_open_sink(f->graph, output(source, f->ints, 0), ends[1], NULL, &sink));
	close(ends[1]);
	good(f->graph, gdev_graph_run(f->graph));
	close(ends[0]);
	for (int i = 0; i < PATIENCE_MS && !info.ended; i++) {
		good(f->graph, gdev_ptask_query(source, &info));
		usleep(1000);
	}
	assert_true(info.ended);
	assert_in_range(made, 1, 1000);
}

/* ---- a worker that does not run ---- */

/* Of the one session that there is when those of earlier tests have ended. */
static pid_t find_worker(void)
{
	char command[600], line[400];
	int pid = 0, count = 0;
	FILE *status;

	snprintf(command, sizeof command, "%s/cli/gdev status --json", getenv("GDEV_BUILD"));
	while (count != 1) {
		status = popen(command, "r");
		assert_non_null(status);
		count = 0;
		while (fgets(line, sizeof line, status))
			if (strstr(line, "\"worker_pid\"")) {
				pid = atoi(strchr(strstr(line, "\"worker_pid\""), ':') + 1);
				count++;
			}
		assert_int_equal(pclose(status), 0);
	}
	assert_in_range(pid, 2, INT_MAX);
	return pid;
}

/* Stops all threads of the process, and returns when they stand still. */
static void stop(pid_t process)
{
	char path[64], line[400];
	glob_t threads;
	bool running = true;

	assert_int_equal(kill(process, SIGSTOP), 0);
	snprintf(path, sizeof path, "/proc/%d/task/*/stat", process);
	while (running) {
		running = false;
		assert_int_equal(glob(path, 0, NULL, &threads), 0);
		for (size_t i = 0; i < threads.gl_pathc; i++) {
			FILE *stat = fopen(threads.gl_pathv[i], "r");
			running |= stat && fgets(line, sizeof line, stat) && !strstr(line, ") T ");
			if (stat)
				fclose(stat);
		}
		globfree(&threads);
	}
}

/* A push without a deadline does not wait for the worker either; what was pushed flows when that goes on. */
static void test_stopped_worker(void **state)
{
	struct fixture *f = *state;
	struct gdev_ptask *ptask = function(f, "increment");
	struct gdev_channel *in = channel(f, NULL, input(ptask, f->ints, 0));
	struct gdev_ptask_info info = {0};
	struct gdev_datablock *block;
	pid_t worker = find_worker();
	uint64_t pushed = 0;
	int error = 0;

	argument(ptask, 1, N);
	good(f->graph, gdev_graph_run(f->graph));
	good(f->graph, gdev_datablock_create(f->graph, f->ints, 0, &block));
	good(f->graph, gdev_push(in, block, GDEV_FOREVER)); /* its memory is there from here on */
	pushed++;
	alarm(PATIENCE_S);
	stop(worker);
	while (!error && pushed < 100000) {
		error = gdev_push(in, block, 0);
		pushed += !error;
	}
	kill(worker, SIGCONT);
	assert_int_equal(error, -EAGAIN);
	assert_in_range(pushed, 1000, 99999);
	while (info.invocations < pushed) {
		good(f->graph, gdev_ptask_query(ptask, &info));
		usleep(1000);
	}
	alarm(0);
	gdev_datablock_put(block);
}

/* ---- values that are known when the graph runs ---- */

/* How many are not negative is counted on the device, sizes the output, and is what the next one is told. */
static void test_size_at_run_time(void **state)
{
	struct fixture *f = *state;
	struct gdev_ptask *count = function(f, "count"), *pick = function(f, "pick"),
			  *scale = function(f, "scale");
	struct gdev_template *some = array_of(f, GDEV_LAYOUT_RECORDS, N);
	struct gdev_port *total = output(count, f->size, 0), *picked, *scaled, *in, *size[2];
	struct gdev_channel *values[2], *out, *told;
	const uint32_t one[3] = {1, 1, 1};

	values[0] = channel(f, NULL, input(count, f->ints, 1));
	values[1] = channel(f, NULL, input(pick, f->ints, 1));
	argument(count, 2, N);
	argument(pick, 2, N);
	good(f->graph, gdev_ptask_set_geometry(count, one, one, 0));
	good(f->graph, gdev_ptask_set_geometry(pick, one, one, 0));
	for (int i = 0; i < 2; i++) {
		size[i] = port(i ? scale : pick,
			(struct gdev_port_options){.binding = GDEV_BIND_META, .tmpl = f->size});
		channel(f, total, size[i]);
	}
	told = channel(f, total, NULL);
	picked = port(pick, (struct gdev_port_options){
				    .kind = GDEV_PORT_OUTPUT, .tmpl = some, .size = size[0]});
	scaled = port(scale, (struct gdev_port_options){
				     .kind = GDEV_PORT_OUTPUT, .tmpl = some, .size = size[1]});
	in = input(scale, some, 1);
	good(f->graph, gdev_port_count(in, 3));
	argument(scale, 2, 10);
	channel(f, picked, in);
	out = channel(f, scaled, NULL);
	good(f->graph, gdev_graph_run(f->graph));
	for (int turn = 0; turn < 40; turn++) {
		int numbers[N], result[N], expected = 0;
		uint64_t bytes, found;
		struct gdev_datablock *block;
		for (int i = 0; i < N; i++)
			numbers[i] = turn && i % (turn + 1) == 0 ? i : -1;
		good(f->graph, gdev_datablock_create(f->graph, f->ints, 0, &block));
		good(f->graph, gdev_datablock_write(block, 0, numbers, sizeof numbers));
		for (int i = 0; i < 2; i++)
			good(f->graph, gdev_push(values[i], block, GDEV_FOREVER));
		gdev_datablock_put(block);
		good(f->graph, gdev_pull_bytes(out, result, sizeof result, GDEV_FOREVER, &bytes));
		for (int i = 0; i < N; i++)
			if (numbers[i] >= 0)
				assert_int_equal(result[expected++], 10 * numbers[i]);
		assert_int_equal(bytes, expected * sizeof(int));
		good(f->graph, gdev_pull_bytes(told, &found, 8, GDEV_FOREVER, NULL));
		assert_int_equal(found, expected);
	}
}

/* More than the template has is an error, and not memory of somebody else. */
static void test_size_too_large(void **state)
{
	struct fixture *f = *state;
	struct gdev_ptask *pick = function(f, "pick");
	struct gdev_template *some = array_of(f, GDEV_LAYOUT_RECORDS, N);
	struct gdev_port *size =
		port(pick, (struct gdev_port_options){.binding = GDEV_BIND_META, .tmpl = f->size});
	struct gdev_channel *in = channel(f, NULL, input(pick, f->ints, 1));
	struct gdev_channel *sizes = channel(f, NULL, size);
	uint64_t many = N + 1;
	char why[GDEV_WHY_BYTES];
	int values[N] = {0};

	channel(f,
		port(pick,
			(struct gdev_port_options){
				.kind = GDEV_PORT_OUTPUT, .tmpl = some, .size = size}),
		NULL);
	argument(pick, 2, 0);
	good(f->graph, gdev_graph_run(f->graph));
	good(f->graph, gdev_push_bytes(sizes, &many, sizeof many, 0));
	assert_int_equal(gdev_push_bytes(in, values, sizeof values, 0), -EPROTOTYPE);
	gdev_graph_why(f->graph, why);
	assert_non_null(strstr(why, "ptask pick"));
}

/* The unrolled loop of section 3.3: four steps, of which as many run as the predicates say. */
static void test_predicates(void **state)
{
	struct fixture *f = *state;
	struct gdev_channel *in = NULL, *out, *goes_on[4];
	struct gdev_port *before = NULL;
	struct gdev_ptask *steps[4];
	struct gdev_ptask_info info;
	unsigned skipped = 0;

	for (int i = 0; i < 4; i++) {
		struct gdev_port *from;
		steps[i] = function(f, "increment");
		from = input(steps[i], f->ints, 0);
		argument(steps[i], 1, N);
		if (before)
			channel(f, before, from);
		else
			in = channel(f, NULL, from);
		before = port(steps[i],
			(struct gdev_port_options){.kind = GDEV_PORT_OUTPUT, .in_out = from});
		goes_on[i] = channel(f, NULL,
			port(steps[i], (struct gdev_port_options){
					       .binding = GDEV_BIND_PREDICATE, .tmpl = f->one}));
	}
	out = channel(f, before, NULL);
	good(f->graph, gdev_graph_run(f->graph));
	for (int turn = 0; turn <= 4; turn++) {
		for (int i = 0; i < 4; i++) {
			int yes = i < turn;
			good(f->graph, gdev_push_bytes(goes_on[i], &yes, sizeof yes, GDEV_FOREVER));
		}
		push_ints(f, in, 5);
		pull_ints(f, out, 5 + turn, 1);
	}
	for (int i = 0; i < 4; i++) {
		good(f->graph, gdev_ptask_query(steps[i], &info));
		skipped += (unsigned)info.skipped;
	}
	assert_int_equal(skipped, 10);
}

/* ---- failure ---- */

static int fail_with(void *argument, const struct gdev_view *inputs, struct gdev_view *outputs)
{
	return *(int *)argument;
}

static void test_callback_fails(void **state)
{
	struct fixture *f = *state;
	int error = -EIO;
	struct gdev_ptask *bad;
	struct gdev_channel *in, *out;
	struct gdev_datablock *block;
	char why[GDEV_WHY_BYTES];
	int values[N] = {0};

	good(f->graph, gdev_ptask_open_host(f->graph, "broken", fail_with, &error, &bad));
	in = channel(f, NULL, input(bad, f->ints, 0));
	out = channel(f, output(bad, f->ints, 0), NULL);
	good(f->graph, gdev_graph_run(f->graph));
	good(f->graph, gdev_push_bytes(in, values, sizeof values, 0));
	assert_int_equal(gdev_pull(out, GDEV_FOREVER, &block), -EIO);
	gdev_graph_why(f->graph, why);
	assert_non_null(strstr(why, "ptask broken"));
}

/* A worker that dies under a graph with a callback that waits for it: an error, and nothing hangs. */
static void test_worker_dies(void **state)
{
	struct fixture *f = *state;
	struct gdev_ptask *fault = function(f, "fault"), *minus = callback(f, negate, NULL);
	struct gdev_channel *in = channel(f, NULL, input(fault, f->ints, 1)), *out;
	struct gdev_datablock *block;
	int values[N] = {0}, error;

	channel(f, output(fault, f->ints, 0), input(minus, f->ints, 0));
	out = channel(f, output(minus, f->ints, 0), NULL);
	good(f->graph, gdev_graph_run(f->graph));
	error = gdev_push_bytes(in, values, sizeof values, 0);
	assert_true(error == 0 || error == -GDEV_E_ILLEGAL_ADDRESS);
	assert_int_equal(gdev_pull(out, GDEV_FOREVER, &block), -GDEV_E_ILLEGAL_ADDRESS);
}

#define with_graph(test) cmocka_unit_test_setup_teardown(test, fixture_setup, fixture_teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		with_graph(test_no_thread),
		with_graph(test_callback),
		cmocka_unit_test(test_manual),
		with_graph(test_source_and_sink),
		with_graph(test_source_in_vain),
		with_graph(test_stopped_worker),
		with_graph(test_size_at_run_time),
		with_graph(test_size_too_large),
		with_graph(test_predicates),
		with_graph(test_callback_fails),
		with_graph(test_worker_dies),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
