/* SPDX-License-Identifier: MIT
 *
 * Queues that are bound to a part of the multiprocessors. usage: test_device_parts BACKEND. The driver library that is made for
 * tests executes no kernels, and says instead where it was told to launch them.
 */
#include "harness.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/cleanup.h"

static const char image[] =
	".version 8.0\n.target sm_90\n.address_size 64\n"
	/* The bits of the multiprocessors that its blocks ran on. */
	".visible .entry where(.param .u64 at)\n"
	"{\n.reg .u64 %a;\n.reg .u32 %s, %b, %o;\n"
	"ld.param.u64 %a, [at];\nmov.u32 %s, %smid;\nand.b32 %s, %s, 31;\n"
	"mov.u32 %b, 1;\nshl.b32 %b, %b, %s;\natom.global.or.b32 %o, [%a], %b;\nret;\n}\n"
	".visible .entry await(.param .u64 at)\n"
	"{\n.reg .u64 %a;\n.reg .u32 %v;\n.reg .pred %p;\n"
	"ld.param.u64 %a, [at];\n"
	"again:\nld.volatile.global.u32 %v, [%a];\nsetp.eq.u32 %p, %v, 0;\n@%p bra again;\nret;\n}\n";

static struct harness harness;
static const char *backend;
static uint32_t step, all;

static int start(void **state)
{
	struct device_config config = {.threads = HARNESS_POOL};
	struct device_info info;

	harness_start(&harness, device_ops_find(backend));
	assert_true(harness.ops->probe(&config, &info, 1) > 0);
	step = (uint32_t)info.properties[PROPERTY_PART_STEP];
	all = (uint32_t)info.properties[PROPERTY_MULTIPROCESSORS];
	return 0;
}

static int stop(void **state)
{
	harness_stop(&harness);
	return 0;
}

static bool runs_kernels(void)
{
	return harness_ask_driver("fake_context_count") < 0;
}

static struct device_queue *bound_queue(uint32_t first, uint32_t count)
{
	struct device_queue *queue = harness_queue(&harness);

	assert_int_equal(harness.ops->queue_bind(queue, first, count), 0);
	return queue;
}

static struct submitted launch(
	struct device_function *function, uint32_t blocks, const uint64_t *address)
{
	return (struct submitted){.command = {.kind = DEVICE_LAUNCH,
					  .launch = {.function = function,
						  .grid = {blocks, 1, 1},
						  .block = {1, 1, 1},
						  .params = address,
						  .param_bytes = sizeof *address}}};
}

/* `part`: multiprocessors; 0: all. */
static void check_place(
	struct device_queue *queue, struct device_function *where, uint32_t first, uint32_t part)
{
	struct harness *h = &harness;
	struct submitted s = launch(where, 4 * all, &h->base);
	uint32_t bits;

	if (runs_kernels())
		harness_set_word(h, h->base, 0);
	assert_int_equal(harness_run(h, queue, &s), 0);
	if (!runs_kernels()) {
		assert_int_equal(harness_ask_driver("fake_launched_on"), part);
		return;
	}
	bits = harness_word(h, h->base);
	assert_int_not_equal(bits, 0);
	if (part && all <= 32) /* elsewhere the numbers are the hardware's */
		assert_int_equal(bits & ~(((1u << part) - 1) << first), 0);
	if (part && all > 32)
		assert_true((uint32_t)__builtin_popcount(bits) <= part);
}

static void launches_run_on_the_part_that_their_queue_is_bound_to(void **state)
{
	struct harness *h = &harness;
	struct device_queue *whole = harness_queue(h), *first, *same, *last;
	struct device_module *module;
	struct device_function *where;
	struct device_chunk *chunk;
	uint32_t rest = step + all % step; /* fewer than a step is no part */

	assert_int_equal(harness_module_load(h, image, sizeof image, NULL, &module), 0);
	assert_int_equal(h->ops->function_get(module, "where", &where), 0);
	first = bound_queue(0, step);
	same = bound_queue(0, step);
	last = bound_queue(all - rest, rest);
	for (int i = 0; i < 3; i++) {
		chunk = harness_map(h, 0);
		check_place(last, where, all - rest, rest);
		check_place(first, where, 0, step);
		check_place(same, where, 0, step);
		check_place(whole, where, 0, 0);
		if (!runs_kernels())
			assert_int_equal(harness_ask_driver("fake_green_count"), 2);
		harness_unmap(h, 0, chunk);
		if (!h->ops->retire || i == 2)
			continue;
		/* In the next context it is as it was. */
		if (h->ops->retire(h->space))
			break;
		assert_true(harness_ask_driver("fake_green_count") <= 0);
		assert_int_equal(h->ops->revive(h->space), 0);
	}
	h->ops->queue_destroy(first);
	h->ops->queue_destroy(same);
	h->ops->queue_destroy(last);
	h->ops->queue_destroy(whole);
	assert_true(harness_ask_driver("fake_green_count") <= 0);
	h->ops->module_unload(module);
}

static void what_is_no_part_is_refused(void **state)
{
	const uint32_t wrong[][2] = {{all, step}, {0, all + step}, {0, all + 1}, {UINT32_MAX, 2},
		{1, UINT32_MAX}, {0, UINT32_MAX}, {step > 1 ? 1 : all, step},
		{0, step > 1 ? step - 1 : all + 1}};
	struct device_queue *queue;

	for (size_t i = 0; i < array_length(wrong); i++) {
		queue = harness_queue(&harness);
		if (wrong[i][0] + wrong[i][1] != all || wrong[i][0] > all)
			assert_int_equal(
				harness.ops->queue_bind(queue, wrong[i][0], wrong[i][1]), -EINVAL);
		harness.ops->queue_destroy(queue);
	}
}

/* A launch that waits for one on another part does not keep that from its part; one on its own part comes after it. */
static void parts_do_not_wait_for_each_other(void **state)
{
	struct harness *h = &harness;
	struct device_queue *queues[3];
	struct device_module *module;
	struct device_function *where, *await;
	struct device_chunk *chunk;
	uint64_t flag = h->base, elsewhere = h->base + 64;
	struct submitted waits, behind, sets;

	if (!runs_kernels() || all < 2 * step)
		skip();
	assert_int_equal(harness_module_load(h, image, sizeof image, NULL, &module), 0);
	assert_int_equal(h->ops->function_get(module, "where", &where), 0);
	assert_int_equal(h->ops->function_get(module, "await", &await), 0);
	chunk = harness_map(h, 0);
	harness_set_word(h, flag, 0);
	harness_set_word(h, elsewhere, 0);
	queues[0] = bound_queue(step, step);
	queues[1] = bound_queue(step, step);
	queues[2] = bound_queue(0, step);
	waits = launch(await, 4 * step, &flag);
	behind = launch(where, 1, &elsewhere);
	sets = launch(where, 1, &flag);
	harness_submit(h, queues[0], &waits);
	harness_submit(h, queues[1], &behind);
	assert_int_equal(harness_run(h, queues[2], &sets), 0);
	assert_int_equal(harness_wait(h, &waits), 0);
	assert_int_equal(harness_wait(h, &behind), 0);
	harness_unmap(h, 0, chunk);
	for (int i = 0; i < 3; i++)
		h->ops->queue_destroy(queues[i]);
	h->ops->module_unload(module);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(
			launches_run_on_the_part_that_their_queue_is_bound_to, start, stop),
		cmocka_unit_test_setup_teardown(what_is_no_part_is_refused, start, stop),
		cmocka_unit_test_setup_teardown(parts_do_not_wait_for_each_other, start, stop),
	};

	backend = argc > 1 ? argv[1] : "cpu";
	return cmocka_run_group_tests_name("parts", tests, NULL, NULL);
}
