/* SPDX-License-Identifier: MIT
 *
 * What device/cuda does beyond what every backend holds to (test_backends.c): what it asks of the driver for a launch or a copy,
 * and launches that go to the driver together. Over the driver library that is made for tests, or on a GPU.
 */
#include "harness.h"

#include <pthread.h>
#include <stdio.h>
#include <unistd.h>

static struct harness harness;

static int start(void **state)
{
	harness_start(&harness, device_ops_find("cuda"));
	return 0;
}

/* The tests ask the device themselves. */
static int start_alone(void **state)
{
	harness_start_with(&harness, device_ops_find("cuda"), 0);
	return 0;
}

static int stop(void **state)
{
	harness_stop(&harness);
	return 0;
}

static const char set_image[] = ".version 8.0\n.target sm_90\n.address_size 64\n"
				".visible .entry set(.param .u64 at, .param .u32 value)\n"
				"{\n.reg .u64 %a;\n.reg .u32 %v;\n"
				"ld.param.u64 %a, [at];\nld.param.u32 %v, [value];\n"
				"st.global.u32 [%a], %v;\nret;\n}\n";

#define BURST 600

struct __attribute__((packed)) set_params {
	uint64_t at;
	uint32_t value;
};

static struct submitted launch_set(
	struct device_function *function, const struct set_params *params)
{
	return (struct submitted){.command = {.kind = DEVICE_LAUNCH,
					  .launch = {.function = function,
						  .grid = {1 + params->value % 2, 1, 1},
						  .block = {1, 1, 1},
						  .params = params,
						  .param_bytes = 12}}};
}

static void submit_set_then(struct device_queue *queue, struct submitted *s,
	struct device_function *function, const struct set_params *params,
	void (*done)(struct device_command *command, int error))
{
	*s = launch_set(function, params);
	s->command.done = done;
	harness_submit(&harness, queue, s);
}

static void submit_set(struct device_queue *queue, struct submitted *s,
	struct device_function *function, const struct set_params *params)
{
	submit_set_then(queue, s, function, params, NULL);
}

static struct submitted bursts[BURST][2];
static uint32_t round_number; /* no two write the same */

/* Each stores its number in a word of its own, and in the first. */
static void submit_burst(struct device_queue *queue, struct device_function *const functions[2])
{
	static struct set_params params[BURST][2];

	round_number++;
	for (uint32_t i = 1; i < BURST; i++)
		for (uint32_t k = 0; k < 2; k++) {
			params[i][k] = (struct set_params){
				harness.base + (k ? 0 : i * 4), round_number * BURST + i};
			submit_set(queue, &bursts[i][k], functions[(i / 3 + k) % 2], &params[i][k]);
		}
}

static void check_burst(void)
{
	struct harness *h = &harness;
	uint32_t words[BURST];

	for (uint32_t i = 1; i < BURST; i++)
		for (int k = 0; k < 2; k++) {
			assert_int_equal(harness_wait(h, &bursts[i][k]), 0);
			assert_int_equal(bursts[i][k].done, 1);
		}
	harness_read(h, h->base, words, sizeof words);
	assert_int_equal(words[0], round_number * BURST + BURST - 1);
	for (uint32_t i = 1; i < BURST; i++)
		assert_int_equal(words[i], round_number * BURST + i);
}

static struct {
	struct device_queue *queue;
	struct device_function *function;
	struct submitted command;
} held;

static void *submit_held(void *argument)
{
	static struct set_params params;

	params.at = harness.base + BURST * 4;
	submit_set(held.queue, &held.command, held.function, &params);
	return NULL;
}

/* With a thread that is in the driver meanwhile: what is submitted waits until let_go(). False: not this driver. */
static bool hold(struct device_function *function, pthread_t *thread)
{
	if (harness_ask_driver("fake_hold_launch") <= 0)
		return false;
	held.queue = harness_queue(&harness);
	held.function = function;
	pthread_create(thread, NULL, submit_held, NULL);
	while (!harness_ask_driver("fake_launch_is_held"))
		usleep(100);
	return true;
}

static void let_go(pthread_t thread)
{
	harness_ask_driver("fake_let_go");
	pthread_join(thread, NULL);
	assert_int_equal(harness_wait(&harness, &held.command), 0);
	harness.ops->queue_destroy(held.queue);
}

/* Twice: on its own, and with a thread that is in the driver meanwhile, so that all wait together. */
static void burst(struct device_queue *queue, struct device_function *const functions[2])
{
	int graphs = harness_ask_driver("fake_graph_launches"),
	    made = harness_ask_driver("fake_graphs_made");
	pthread_t thread;

	submit_burst(queue, functions);
	check_burst();
	if (!hold(functions[0], &thread))
		return;
	submit_burst(queue, functions);
	let_go(thread);
	check_burst();
	assert_true(harness_ask_driver("fake_graph_launches") >= graphs + 8);
	assert_int_equal(harness_ask_driver("fake_graphs_made"), made); /* they were there */
}

/* They go to a driver several at a time. What they were stays of no concern: modules go, and the context. */
static void launches_that_wait_together_are_done_in_order(void **state)
{
	struct harness *h = &harness;
	struct device_queue *queue = harness_queue(h);
	struct device_module *modules[2];
	struct device_function *functions[2];
	struct device_chunk *chunk = harness_map(h, 0);

	for (int i = 0; i < 2; i++) {
		assert_int_equal(
			harness_module_load(h, set_image, sizeof set_image, NULL, &modules[i]), 0);
		assert_int_equal(h->ops->function_get(modules[i], "set", &functions[i]), 0);
	}
	burst(queue, functions);
	h->ops->module_unload(modules[1]);
	functions[1] = functions[0];
	burst(queue, functions);
	harness_unmap(h, 0, chunk);
	assert_int_equal(h->ops->retire(h->space), 0);
	assert_int_equal(h->ops->revive(h->space), 0);
	chunk = harness_map(h, 0);
	burst(queue, functions);
	harness_unmap(h, 0, chunk);
	h->ops->queue_destroy(queue);
	h->ops->module_unload(modules[0]);
}

#define BATCH_OF_FOUR 4
#define FOLLOWING 8 /* less than what makes a mark in any case */

/* How many marks launches get that follow each other while the device does nothing. All are seen to be done. */
static int marks_of_following(
	struct device_queue *queue, struct device_function *function, bool timed)
{
	static struct submitted launches[FOLLOWING];
	static struct set_params params[FOLLOWING];
	int before = harness_ask_driver("fake_write_count"), count;

	harness_ask_driver("fake_stop");
	for (uint32_t i = 0; i < FOLLOWING; i++) {
		params[i] = (struct set_params){harness.base + i * 4, i};
		launches[i] = launch_set(function, &params[i]);
		launches[i].command.timed = timed;
		harness_submit(&harness, queue, &launches[i]);
	}
	usleep(1000); /* for the issuing thread, if some were left to it */
	count = harness_ask_driver("fake_write_count") - before;
	harness_ask_driver("fake_go_on");
	for (uint32_t i = 0; i < FOLLOWING; i++)
		assert_int_equal(harness_wait(&harness, &launches[i]), 0);
	for (uint32_t i = 1; i < FOLLOWING; i++)
		assert_true(launches[i].command.finished_ns >= launches[i - 1].command.finished_ns);
	assert_true(launches[FOLLOWING - 1].command.finished_ns > launches[0].command.finished_ns);
	return count;
}

/* The device waits for each: a stream of short kernels has few. How short they are is measured, and on a busy machine
 * each is long now and then. */
static void what_follows_a_mark_is_marked_when_that_is_reached(void **state)
{
	struct harness *h = &harness;
	struct device_chunk *chunk = harness_map(h, 0);
	struct device_queue *queue = harness_queue(h);
	struct device_module *module;
	struct device_function *function;
	struct submitted one;
	struct set_params params = {h->base, 1};
	int marks = FOLLOWING;

	if (harness_ask_driver("fake_write_count") < 0) {
		printf("# it asks the driver that is made for tests\n");
		skip();
	}
	assert_int_equal(harness_module_load(h, set_image, sizeof set_image, NULL, &module), 0);
	assert_int_equal(h->ops->function_get(module, "set", &function), 0);
	for (int tries = 0; tries < 1000 && marks >= FOLLOWING; tries++) {
		for (int i = 0; i < 40; i++) {
			submit_set(queue, &one, function, &params);
			assert_int_equal(harness_wait(h, &one), 0);
		}
		marks = marks_of_following(queue, function, false);
	}
	assert_true(marks < FOLLOWING);
	/* But for those behind whose forerunner's end is asked for. */
	assert_true(marks_of_following(queue, function, true) >= FOLLOWING - 1);
	h->ops->queue_destroy(queue);
	h->ops->module_unload(module);
	harness_unmap(h, 0, chunk);
}

/* Who submits has the worker's lock: it makes at most so many calls. */
#define BRIEF 3

static void submit_briefly(struct device_queue *queue, struct submitted *s)
{
	int before = harness_ask_driver("fake_calls_here");

	harness_submit(&harness, queue, s);
	assert_true(harness_ask_driver("fake_calls_here") - before <= BRIEF);
}

/* What it says of itself, and whether it needs clusters; questions about parameters are not counted. */
#define LOOKED_UP 9

static void a_function_is_asked_for_what_it_needs(void **state)
{
	struct harness *h = &harness;
	struct device_module *module;
	struct device_function *function;
	struct device_function_info info;
	int before;

	assert_int_equal(harness_module_load(h, set_image, sizeof set_image, NULL, &module), 0);
	assert_int_equal(h->ops->function_get(module, "set", &function), 0);
	before = harness_ask_driver("fake_calls_here");
	h->ops->function_info(function, &info);
	assert_int_equal(info.max_threads, 1024);
	assert_int_equal(info.max_dynamic_shared_bytes, 227 << 10);
	assert_int_equal(info.param_count, 2);
	assert_true(harness_ask_driver("fake_calls_here") - before <= LOOKED_UP);
	h->ops->module_unload(module);
}

/* Planes that are no rows apart, which the driver does not copy with one call. */
static void a_copy_of_many_calls_is_not_its_submitters(void **state)
{
	struct harness *h = &harness;
	struct device_queue *queue = harness_queue(h);
	struct device_chunk *chunk = harness_map(h, 0);
	uint8_t planes[32 * 10], back[sizeof planes];
	struct submitted s = {.command = {.kind = DEVICE_COPY,
				      .copy = {.direction = COPY_TO_DEVICE,
					      .destination = h->base,
					      .source = (uintptr_t)planes,
					      .width = 2,
					      .height = 2,
					      .depth = 32,
					      .source_pitch = 4,
					      .destination_pitch = 4,
					      .source_slice = 10,
					      .destination_slice = 10}}};

	for (size_t i = 0; i < sizeof planes; i++)
		planes[i] = (uint8_t)i;
	submit_briefly(queue, &s);
	assert_int_equal(harness_wait(h, &s), 0);
	harness_read(h, h->base, back, sizeof back);
	for (size_t i = 0; i < sizeof planes; i++)
		assert_int_equal(back[i], i % 10 % 4 < 2 && i % 10 < 6 ? planes[i] : 0);
	harness_unmap(h, 0, chunk);
	h->ops->queue_destroy(queue);
}

#define ROW 50
#define SHORT_ROW 16 /* as long as what goes together by chance */

static struct submitted rows[ROW];
static struct set_params row_params[ROW];

/* The last one's submitter has a graph that is there launched, but makes none. */
static void submit_row_member(struct device_queue *queue, struct submitted *s)
{
	int made = harness_ask_driver("fake_graphs_made_here");

	harness_submit(&harness, queue, s);
	assert_int_equal(harness_ask_driver("fake_graphs_made_here"), made);
}

/* Each kernel stores its number, plus `more`, in a word of its own; the hint is given for all but the last. */
static void submit_row(struct device_queue *queue, struct device_function *const functions[2],
	uint32_t first, uint32_t count)
{
	for (uint32_t i = first; i < first + count; i++) {
		row_params[i].at = harness.base + i * 4;
		rows[i] = (struct submitted){.command = {.kind = DEVICE_LAUNCH,
						     .launch = {.function = functions[i % 2],
							     .grid = {1, 1, 1},
							     .block = {1, 1, 1},
							     .params = &row_params[i],
							     .param_bytes = 12,
							     .more = i + 1 < first + count}}};
		submit_row_member(queue, &rows[i]);
	}
}

static void check_rows(void)
{
	uint32_t words[ROW], none[ROW] = {0};

	for (uint32_t i = 0; i < ROW; i++)
		assert_int_equal(harness_wait(&harness, &rows[i]), 0);
	harness_read(&harness, harness.base, words, sizeof words);
	for (uint32_t i = 0; i < ROW; i++)
		assert_int_equal(words[i], row_params[i].value);
	harness_write(&harness, harness.base, none, sizeof none);
}

/* Two rows again and again, of which one changes once. */
static void replay_rows(struct device_queue *queue, struct device_function *const functions[2])
{
	for (int turn = 0; turn < 4; turn++) {
		int graphs = harness_ask_driver("fake_graph_launches");
		int changes = harness_ask_driver("fake_graph_changes");
		int made = harness_ask_driver("fake_graphs_made");
		pthread_t thread;
		bool told = hold(functions[0], &thread);
		row_params[3].value = turn == 2 ? 7 : 103;
		submit_row(queue, functions, 0, ROW - SHORT_ROW);
		submit_row(queue, functions, ROW - SHORT_ROW, SHORT_ROW);
		if (told)
			let_go(thread);
		check_rows();
		if (!told)
			continue;
		assert_int_equal(harness_ask_driver("fake_graph_launches"), graphs + 2);
		assert_int_equal(harness_ask_driver("fake_graph_changes"), changes + (turn >= 2));
		assert_int_equal(harness_ask_driver("fake_graphs_made"), made + (turn ? 0 : 2));
	}
}

/* A module takes them with it, and the next may lie where it was. */
static void a_row_of_launches_is_kept_as_it_is(void **state)
{
	struct harness *h = &harness;
	struct device_queue *queue = harness_queue(h);
	struct device_module *module;
	struct device_function *functions[2];
	struct device_chunk *chunk = harness_map(h, 0);

	for (uint32_t i = 0; i < ROW; i++)
		row_params[i].value = 100 + i;
	for (int round = 0; round < 3; round++) {
		assert_int_equal(
			harness_module_load(h, set_image, sizeof set_image, NULL, &module), 0);
		assert_int_equal(h->ops->function_get(module, "set", &functions[0]), 0);
		functions[1] = functions[0];
		replay_rows(queue, functions);
		h->ops->module_unload(module);
	}
	harness_unmap(h, 0, chunk);
	h->ops->queue_destroy(queue);
}

/* The client has ended, for instance, or may not launch more now. */
static void the_rest_of_a_row_need_not_come(void **state)
{
	struct harness *h = &harness;
	struct device_queue *queue = harness_queue(h), *other = harness_queue(h);
	struct device_module *module;
	struct device_function *functions[2];
	struct device_chunk *chunk = harness_map(h, 0);

	assert_int_equal(harness_module_load(h, set_image, sizeof set_image, NULL, &module), 0);
	assert_int_equal(h->ops->function_get(module, "set", &functions[0]), 0);
	functions[1] = functions[0];
	for (uint32_t i = 0; i < ROW; i++)
		row_params[i].value = 200 + i;
	for (uint32_t count = 1; count < ROW; count += 3) {
		submit_row(queue, functions, 0, count);
		submit_row(other, functions, count, ROW - count);
		check_rows();
		for (uint32_t i = 0; i < ROW; i++) {
			rows[i].command.launch.more = true;
			harness_submit(h, i < count ? queue : other, &rows[i]);
		}
		check_rows();
	}
	harness_unmap(h, 0, chunk);
	h->ops->queue_destroy(queue);
	h->ops->queue_destroy(other);
	h->ops->module_unload(module);
}

/* Launches of which each is followed by another one, and what they are of. */
static struct chain {
	struct device_queue *queue;
	struct device_function *function;
	struct set_params params;
	struct submitted first[FOLLOWING], second[FOLLOWING];
	unsigned done;
} chain;

static void second_done(struct device_command *command, int error)
{
	assert_int_equal(error, 0);
	chain.done++;
}

static void first_done(struct device_command *command, int error)
{
	struct submitted *s = (struct submitted *)command;

	second_done(command, error);
	if (s < chain.first + FOLLOWING)
		submit_set_then(chain.queue, chain.second + (s - chain.first), chain.function,
			&chain.params, second_done);
}

/* Waits for so many launches, of which all have been submitted. */
static void poll_until(unsigned count)
{
	while (chain.done < count)
		harness.ops->poll(harness.device);
	chain.done = 0;
}

/* It is taken to be a long one. */
static void launch_long(void)
{
	struct submitted s;

	harness_ask_driver("fake_stop");
	submit_set_then(chain.queue, &s, chain.function, &chain.params, second_done);
	usleep(5000);
	harness_ask_driver("fake_go_on");
	poll_until(1);
}

/* Several launches are done when the poller looks, and each is followed by another: how many graphs these go as. */
static int follow_those_done_together(void)
{
	struct submitted more;
	int before, graphs;

	for (int i = 0; i < FOLLOWING; i++)
		submit_set_then(
			chain.queue, &chain.first[i], chain.function, &chain.params, first_done);
	usleep(1000); /* for the issuing thread, which sleeps when it comes to them next */
	while (harness_ask_driver("fake_pending_count"))
		usleep(100);
	harness_ask_driver("fake_stop");
	submit_set_then(chain.queue, &more, chain.function, &chain.params, second_done);
	before = harness_ask_driver("fake_graph_launches");
	harness.ops->poll(harness.device);
	graphs = harness_ask_driver("fake_graph_launches") - before;
	harness_ask_driver("fake_go_on");
	poll_until(2 * FOLLOWING + 1);
	return graphs;
}

/* Not where they are so short that the device would wait for the first. On a busy machine the issuing thread may be
 * awake, and takes some of them first: then it is tried again. */
static void what_follows_launches_that_are_done_together_goes_together(void **state)
{
	struct harness *h = &harness;
	struct device_module *module;
	struct device_chunk *chunk = harness_map(h, 0);
	int graphs = 0;

	if (harness_ask_driver("fake_pending_count") < 0) {
		printf("# it asks the driver that is made for tests\n");
		skip();
	}
	chain = (struct chain){.queue = harness_queue(h), .params = {h->base, 1}};
	assert_int_equal(harness_module_load(h, set_image, sizeof set_image, NULL, &module), 0);
	assert_int_equal(h->ops->function_get(module, "set", &chain.function), 0);
	launch_long();
	for (int i = 0; i < 50 && graphs < FOLLOWING / BATCH_OF_FOUR; i++)
		graphs = follow_those_done_together();
	assert_int_equal(graphs, FOLLOWING / BATCH_OF_FOUR);
	h->ops->queue_destroy(chain.queue);
	h->ops->module_unload(module);
	harness_unmap(h, 0, chunk);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(
			a_copy_of_many_calls_is_not_its_submitters, start, stop),
		cmocka_unit_test_setup_teardown(a_function_is_asked_for_what_it_needs, start, stop),
		cmocka_unit_test_setup_teardown(
			launches_that_wait_together_are_done_in_order, start, stop),
		cmocka_unit_test_setup_teardown(a_row_of_launches_is_kept_as_it_is, start, stop),
		cmocka_unit_test_setup_teardown(the_rest_of_a_row_need_not_come, start, stop),
		cmocka_unit_test_setup_teardown(
			what_follows_a_mark_is_marked_when_that_is_reached, start, stop),
		cmocka_unit_test_setup_teardown(
			what_follows_launches_that_are_done_together_goes_together, start_alone,
			stop),
	};

	setvbuf(stdout, NULL, _IOLBF, 0);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
