/* SPDX-License-Identifier: MIT
 *
 * What one queue of device/cuda waits for on the device, which another one has (ops->follow). Over the driver library that is
 * made for tests, or on a GPU.
 */
#include "harness.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "gdev/error.h"

static struct harness harness;

static const char image[] =
	".version 7.0\n.target sm_70\n.address_size 64\n"
	".visible .entry gate(.param .u64 at)\n{\n"
	".reg .pred %p<2>; .reg .b32 %r<2>; .reg .b64 %d<2>;\n"
	"ld.param.u64 %d1, [at];\n"
	"M: ld.volatile.u8 %r1, [%d1]; setp.eq.u32 %p1, %r1, 0; @%p1 bra M;\nret;\n}\n"
	".visible .entry set(.param .u64 at, .param .u32 value)\n{\n"
	".reg .b32 %r<2>; .reg .b64 %d<2>;\n"
	"ld.param.u64 %d1, [at]; ld.param.u32 %r1, [value]; st.global.u32 [%d1], %r1;\nret;\n}\n"
	".visible .entry trap()\n{\ntrap;\nret;\n}\n";

struct __attribute__((packed)) set_params {
	uint64_t at;
	uint32_t value;
};

static struct device_module *module;
static struct device_function *gate, *set, *trap;
static struct device_chunk *chunk;
static uint64_t
	flag; /* what opens the gate, and what is written behind it; in page-locked memory */

static void set_flag(bool open)
{
	__atomic_store_n((uint8_t *)flag, open, __ATOMIC_RELEASE);
}

static uint32_t locked_word(void)
{
	return __atomic_load_n((uint32_t *)harness.locked, __ATOMIC_ACQUIRE);
}

static int start(void **state)
{
	struct harness *h = &harness;

	harness_start(h, device_ops_find("cuda"));
	assert_int_equal(harness_module_load(h, image, sizeof image, NULL, &module), 0);
	assert_int_equal(h->ops->function_get(module, "gate", &gate), 0);
	assert_int_equal(h->ops->function_get(module, "set", &set), 0);
	assert_int_equal(h->ops->function_get(module, "trap", &trap), 0);
	chunk = harness_map(h, 0);
	harness_set_word(h, h->base, 0);
	flag = (uint64_t)h->locked + 4096;
	set_flag(false);
	return 0;
}

static int stop(void **state)
{
	harness_unmap(&harness, 0, chunk);
	harness.ops->module_unload(module);
	harness_stop(&harness);
	return 0;
}

static void launch(struct device_queue *queue, struct submitted *s,
	struct device_function *function, const void *params, uint32_t bytes)
{
	*s = (struct submitted){.command = {.kind = DEVICE_LAUNCH,
					.launch = {.function = function,
						.grid = {1, 1, 1},
						.block = {1, 1, 1},
						.params = params,
						.param_bytes = bytes}}};
	harness_submit(&harness, queue, s);
}

static void what_follows_begins_when_that_is_done(void **state)
{
	struct harness *h = &harness;
	struct device_queue *a = harness_queue(h), *b = harness_queue(h), *c = harness_queue(h);
	struct set_params params[] = {{h->base, 1}, {h->base, 2}, {h->base + 4, 3}};
	struct submitted opened, sets[3];

	launch(a, &opened, gate, &flag, sizeof flag);
	launch(a, &sets[0], set, &params[0], sizeof params[0]);
	assert_true(h->ops->follow(b, a));
	launch(b, &sets[1], set, &params[1], sizeof params[1]);
	assert_true(h->ops->follow(a, b)); /* and back: it is there already */
	launch(c, &sets[2], set, &params[2], sizeof params[2]);
	assert_int_equal(harness_wait(h, &sets[2]), 0); /* others do not wait */
	usleep(5000);
	assert_false(harness_is_done(h, &sets[1]));
	assert_int_equal(harness_word(h, h->base), 0);
	set_flag(true);
	assert_int_equal(harness_wait(h, &sets[1]), 0);
	assert_int_equal(harness_wait(h, &sets[0]), 0);
	assert_int_equal(harness_word(h, h->base), 2);
	params[0].value = 4;
	launch(a, &sets[0], set, &params[0], sizeof params[0]);
	assert_int_equal(harness_wait(h, &sets[0]), 0);
	assert_int_equal(harness_word(h, h->base), 4);
	h->ops->queue_destroy(a);
	h->ops->queue_destroy(b);
	h->ops->queue_destroy(c);
}

#define TIMES 300

/* Queues that others have followed go as soon as they are empty, and their words are others'. */
static void a_queue_that_was_followed_may_go(void **state)
{
	struct harness *h = &harness;

	for (uint32_t i = 1; i <= TIMES; i++) {
		struct device_queue *a = harness_queue(h), *b = harness_queue(h);
		struct set_params params[] = {{h->base, i}, {h->base, i + TIMES}};
		struct submitted sets[2];

		launch(a, &sets[0], set, &params[0], sizeof params[0]);
		assert_true(h->ops->follow(b, a));
		launch(b, &sets[1], set, &params[1], sizeof params[1]);
		assert_int_equal(harness_wait(h, &sets[0]), 0);
		h->ops->queue_destroy(a);
		assert_int_equal(harness_wait(h, &sets[1]), 0);
		if (i % 2) /* it has nothing behind what it follows, or nothing any more */
			assert_true(h->ops->follow(h->transfers, b));
		h->ops->queue_destroy(b);
		assert_int_equal(harness_word(h, h->base), i + TIMES);
	}
}

static void what_follows_a_fault_never_begins(void **state)
{
	struct harness *h = &harness;
	struct device_queue *a = harness_queue(h), *b = harness_queue(h);
	struct set_params params = {(uint64_t)h->locked, 7};
	struct submitted trapped, after;

	launch(a, &trapped, trap, NULL, 0);
	assert_true(h->ops->follow(b, a));
	launch(b, &after, set, &params, sizeof params);
	assert_true(harness_wait(h, &trapped) < 0);
	assert_true(harness_wait(h, &after) < 0);
	assert_int_equal(locked_word(), 0);
	h->ops->queue_destroy(a);
	h->ops->queue_destroy(b);
}

/* It would see what is not there yet. */
static void without_the_wait_nothing_follows(void **state)
{
	struct harness *h = &harness;
	struct device_queue *a = harness_queue(h), *b = harness_queue(h);
	struct set_params params = {(uint64_t)h->locked, 7};
	struct submitted opened, after;

	if (!harness_let_fail(NULL)) {
		printf("# it is the driver made for tests that refuses this\n");
		skip();
	}
	launch(a, &opened, gate, &flag, sizeof flag);
	harness_let_fail("cuStreamWaitValue64:801@1");
	h->ops->follow(b, a);
	launch(b, &after, set, &params, sizeof params);
	assert_int_equal(harness_wait(h, &after), -GDEV_E_SESSION_LOST);
	harness_let_fail(NULL);
	assert_int_equal(locked_word(), 0);
	set_flag(true);
	harness_wait(h, &opened);
	h->ops->queue_destroy(b);
	h->ops->queue_destroy(a);
}

/* Slices of a launch that was stopped come again behind the others. */
static void launches_that_can_be_stopped_are_not_followed(void **state)
{
	struct harness *h = &harness;
	struct device_queue *a, *b;
	struct submitted opened;

	harness_start(h, device_ops_find("cuda"));
	assert_int_equal(h->ops->preempt(h->space, false), 0);
	assert_int_equal(harness_module_load(h, image, sizeof image, NULL, &module), 0);
	assert_int_equal(h->ops->function_get(module, "gate", &gate), 0);
	chunk = harness_map(h, 0);
	flag = (uint64_t)h->locked + 4096;
	set_flag(false);
	a = harness_queue(h);
	b = harness_queue(h);
	launch(a, &opened, gate, &flag, sizeof flag);
	assert_false(h->ops->follow(b, a));
	set_flag(true);
	assert_int_equal(harness_wait(h, &opened), 0);
	h->ops->queue_destroy(a);
	h->ops->queue_destroy(b);
	stop(state);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(what_follows_begins_when_that_is_done, start, stop),
		cmocka_unit_test_setup_teardown(a_queue_that_was_followed_may_go, start, stop),
		cmocka_unit_test_setup_teardown(without_the_wait_nothing_follows, start, stop),
		cmocka_unit_test(launches_that_can_be_stopped_are_not_followed),
		/* The last one: the process is of no use afterwards. */
		cmocka_unit_test_setup_teardown(what_follows_a_fault_never_begins, start, stop),
	};

	setvbuf(stdout, NULL, _IOLBF, 0);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
