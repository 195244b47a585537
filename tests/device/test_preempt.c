/* SPDX-License-Identifier: MIT
 *
 * device/cuda where kernels leave between blocks, and in the middle of one: over the driver library that is made for tests, or on a GPU.
 */
#include "harness.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "device/cuda/cuda.h"
#include "device/preempt/preempt.h"
#include "gdev/error.h"

#define BLOCKS 1000
#define LAUNCHES 3

static struct harness harness;

static const char image[] =
	".version 7.0\n.target sm_70\n.address_size 64\n"
	".visible .entry tally(.param .u64 at, .param .u32 us)\n{\n"
	".reg .pred %p<3>; .reg .b32 %r<9>; .reg .b64 %d<9>;\n"
	"ld.param.u64 %d1, [at]; ld.param.u32 %r1, [us]; mov.u32 %r2, %tid.x;\n"
	"setp.ne.u32 %p1, %r2, 0; @%p1 ret;\n"
	"mov.u32 %r3, %ctaid.x; mov.u32 %r4, %ctaid.y; mov.u32 %r5, %nctaid.x;\n"
	"mad.lo.u32 %r3, %r4, %r5, %r3; mul.wide.u32 %d2, %r3, 4; add.u64 %d1, %d1, %d2;\n"
	"red.global.add.u32 [%d1], 1;\n"
	"mov.u64 %d3, %globaltimer; mul.wide.u32 %d4, %r1, 1000; add.u64 %d4, %d4, %d3;\n"
	"L: mov.u64 %d3, %globaltimer; setp.lt.u64 %p2, %d3, %d4; @%p2 bra L;\nret;\n}\n"
	".visible .entry rounds(.param .u64 at, .param .u32 us, .param .u32 n)\n{\n"
	".reg .pred %p<4>; .reg .b32 %r<9>; .reg .b64 %d<9>;\n"
	"ld.param.u64 %d1, [at]; ld.param.u32 %r1, [us]; ld.param.u32 %r4, [n]; mov.u32 %r2, %tid.x;\n"
	"setp.ne.u32 %p1, %r2, 0; mov.u32 %r3, %ctaid.x; mul.wide.u32 %d2, %r3, 4; add.u64 %d1, %d1, %d2;\n"
	"mul.wide.u32 %d5, %r1, 1000; mov.u32 %r5, 0; setp.eq.u32 %p3, %r4, 0; @%p3 ret;\n"
	"R: bar.sync 0; @%p1 bra E; red.global.add.u32 [%d1], 1;\n"
	"mov.u64 %d3, %globaltimer; add.u64 %d4, %d5, %d3;\n"
	"L: mov.u64 %d3, %globaltimer; setp.lt.u64 %p2, %d3, %d4; @%p2 bra L;\n"
	"E: add.u32 %r5, %r5, 1; setp.lt.u32 %p3, %r5, %r4; @%p3 bra R;\nret;\n}\n"
	".visible .entry gate(.param .u64 at)\n{\n"
	".reg .pred %p<2>; .reg .b32 %r<2>; .reg .b64 %d<2>;\n"
	"ld.param.u64 %d1, [at];\n"
	"M: ld.volatile.u8 %r1, [%d1]; setp.eq.u32 %p1, %r1, 0; @%p1 bra M;\nret;\n}\n"
	".visible .entry trap()\n{\ntrap;\nret;\n}\n";

/* What a block is to take: the driver made for tests runs them one after the other. */
static uint32_t block_us(uint32_t us)
{
	return getenv("GDEV_CUDA_DRIVER") ? us : 10000;
}

static int start(void **state)
{
	harness_start(&harness, device_ops_find("cuda"));
	assert_int_equal(harness.ops->preempt(harness.space, true), 0);
	return 0;
}

static int stop(void **state)
{
	harness_stop(&harness);
	return 0;
}

/* ---- what is submitted ---- */

struct __attribute__((packed)) tally_params {
	uint64_t at;
	uint32_t us;
};

static struct device_module *load(struct device_function **tally)
{
	struct device_module *module;

	assert_int_equal(harness_module_load(&harness, image, sizeof image, NULL, &module), 0);
	assert_int_equal(harness.ops->function_get(module, "tally", tally), 0);
	return module;
}

static void launch(struct device_queue *queue, struct submitted *s,
	struct device_function *function, uint32_t blocks, uint32_t threads, const void *params,
	uint32_t bytes)
{
	*s = (struct submitted){.command = {.kind = DEVICE_LAUNCH,
					.launch = {.function = function,
						.grid = {blocks / 2, 2, 1},
						.block = {threads, 1, 1},
						.params = params,
						.param_bytes = bytes}}};
	harness_submit(&harness, queue, s);
}

/* Adds 1,000,000 to what a word says only if it comes behind the launches: it overwrites. */
static void fill(struct device_queue *queue, struct submitted *s, uint64_t at)
{
	*s = (struct submitted){.command = {.kind = DEVICE_FILL,
					.fill = {.destination = at,
						.width = 1,
						.height = 1,
						.element_bytes = 4,
						.value = 77}}};
	harness_submit(&harness, queue, s);
}

static void wait_quiet(unsigned quiets)
{
	while (__atomic_load_n(&harness.quiets, __ATOMIC_SEQ_CST) == quiets)
		usleep(50);
}

/* Until what was launched is the driver's, or has ended. On a GPU that is soon. */
static void wait_issued(struct submitted *s)
{
	while (!harness_ask_driver("fake_pending_count") && !harness_is_done(&harness, s))
		usleep(50);
	usleep(1000);
}

/* Pauses: waits until nothing runs. */
static void pause_it(void)
{
	unsigned quiets = harness.quiets;

	if (!harness.ops->pause(harness.device, true))
		wait_quiet(quiets);
}

/* ---- tests ---- */

static void check_counts(uint64_t at, uint32_t count)
{
	static uint32_t words[BLOCKS];

	harness_read(&harness, at, words, sizeof words);
	for (uint32_t i = 0; i < BLOCKS; i++)
		if (words[i] != count)
			fail_msg("block %u was done %u times, and not %u", i, words[i], count);
}

/* Each time after another while, in the middle of some launch; slices are of 256 blocks in the driver made for tests. */
static void each_block_is_done_once_however_often_it_is_stopped(void **state)
{
	struct harness *h = &harness;
	struct device_function *tally;
	struct device_module *module = load(&tally);
	struct device_queue *queues[2] = {harness_queue(h), harness_queue(h)};
	struct device_chunk *chunk = harness_map(h, 0);
	struct submitted s[2][LAUNCHES], behind;
	struct tally_params params[2];
	static const uint32_t zeros[2 * BLOCKS];
	unsigned stops = 0, rounds = 0;

	harness_write(h, h->base, zeros, sizeof zeros);
	for (int q = 0; q < 2; q++)
		params[q] = (struct tally_params){
			h->base + (uint64_t)q * sizeof zeros / 2, block_us(2)};
	for (; stops <= 3; rounds++) { /* a busy machine stops them seldom */
		for (int q = 0; q < 2; q++)
			for (int i = 0; i < LAUNCHES; i++)
				launch(queues[q], &s[q][i], tally, BLOCKS, 1024, &params[q],
					sizeof params[q]);
		fill(queues[0], &behind, h->base);
		while (!harness_is_done(h, &behind) || !harness_is_done(h, &s[1][LAUNCHES - 1])) {
			usleep(100 + 1777 * (stops % 7));
			pause_it();
			stops++;
			if (stops % 3) /* it stays so for a while */
				usleep(500);
			h->ops->pause(h->device, false);
		}
		for (int q = 0; q < 2; q++)
			for (int i = 0; i < LAUNCHES; i++) {
				assert_int_equal(harness_wait(h, &s[q][i]), 0);
				assert_int_equal(s[q][i].done, 1);
			}
	}
	print_message("# stopped %u times in %u rounds\n", stops, rounds);
	assert_int_equal(harness_word(h, h->base), 77); /* in its order */
	harness_set_word(h, h->base, rounds * LAUNCHES);
	check_counts(h->base, rounds * LAUNCHES);
	check_counts(params[1].at, rounds * LAUNCHES);
	harness_unmap(h, 0, chunk);
	h->ops->module_unload(module);
	h->ops->queue_destroy(queues[0]);
	h->ops->queue_destroy(queues[1]);
}

static void nothing_runs_in_a_pause(void **state)
{
	struct harness *h = &harness;
	struct device_function *tally;
	struct device_module *module = load(&tally);
	struct device_queue *queue = harness_queue(h);
	struct device_chunk *chunk = harness_map(h, 0);
	struct tally_params params = {h->base, block_us(50)};
	static uint32_t words[2][BLOCKS];
	struct submitted s[2];
	uint32_t count = 0;

	memset(words, 0, sizeof words);
	harness_write(h, h->base, words[0], sizeof words[0]);
	for (;;) { /* until it is in the middle: on a busy machine it may have come to its end */
		launch(queue, &s[0], tally, BLOCKS, 1024, &params, sizeof params);
		usleep(3000);
		pause_it();
		harness_read(h, h->base, words[0], sizeof words[0]);
		if (words[0][BLOCKS - 1] == count++)
			break;
		h->ops->pause(h->device, false);
		assert_int_equal(harness_wait(h, &s[0]), 0);
	}
	assert_true(h->ops->pause(h->device, true)); /* it is paused */
	launch(queue, &s[1], tally, BLOCKS, 1024, &params, sizeof params);
	harness_read(h, h->base, words[0], sizeof words[0]);
	usleep(5000);
	harness_read(h, h->base, words[1], sizeof words[1]);
	assert_memory_equal(words[0], words[1], sizeof words[0]);
	assert_false(harness_is_done(h, &s[0]));
	h->ops->pause(h->device, false);
	assert_int_equal(harness_wait(h, &s[0]), 0);
	assert_int_equal(harness_wait(h, &s[1]), 0);
	check_counts(h->base, count + 1);
	/* A pause that is over before it has come. */
	launch(queue, &s[0], tally, BLOCKS, 1024, &params, sizeof params);
	usleep(1000);
	h->ops->pause(h->device, true);
	h->ops->pause(h->device, false);
	assert_int_equal(harness_wait(h, &s[0]), 0);
	check_counts(h->base, count + 2);
	harness_unmap(h, 0, chunk);
	h->ops->module_unload(module);
	h->ops->queue_destroy(queue);
}

#define ROUNDS 20
#define FEW 6 /* blocks, of which each has a word */

struct __attribute__((packed)) rounds_params {
	uint64_t at;
	uint32_t us, rounds;
};

static void launch_rounds(struct device_queue *queue, struct submitted *s,
	struct device_function *function, const struct rounds_params *params, uint32_t threads)
{
	*s = (struct submitted){.command = {.kind = DEVICE_LAUNCH,
					.launch = {.function = function,
						.grid = {FEW, 1, 1},
						.block = {threads, 1, 1},
						.params = params,
						.param_bytes = sizeof *params}}};
	harness_submit(&harness, queue, s);
}

/* Two queues, with launches behind each other: what one keeps is nothing of another's. */
static void blocks_leave_in_the_middle_and_go_on_there(void **state)
{
	struct harness *h = &harness;
	struct device_function *tally, *rounds;
	struct device_module *module = load(&tally);
	struct device_queue *queues[2] = {harness_queue(h), harness_queue(h)};
	struct device_chunk *chunk = harness_map(h, 0);
	struct rounds_params params[2];
	struct submitted s[2][LAUNCHES];
	static const uint32_t zeros[128];
	uint32_t words[128];
	unsigned stops = 0, in_the_middle = 0, turns = 0;

	assert_int_equal(h->ops->function_get(module, "rounds", &rounds), 0);
	harness_write(h, h->base, zeros, sizeof zeros);
	for (int q = 0; q < 2; q++)
		params[q] = (struct rounds_params){h->base + 256u * (unsigned)q, 500, ROUNDS};
	for (; !in_the_middle; turns++) { /* a busy machine stops them seldom */
		for (int q = 0; q < 2; q++)
			for (int i = 0; i < LAUNCHES; i++)
				launch_rounds(queues[q], &s[q][i], rounds, &params[q], 64);
		while (!harness_is_done(h, &s[0][LAUNCHES - 1]) ||
			!harness_is_done(h, &s[1][LAUNCHES - 1])) {
			usleep(1000 + 1777 * (stops % 7));
			pause_it();
			harness_read(h, h->base, words, sizeof words);
			in_the_middle +=
				words[0] % ROUNDS || words[64] % ROUNDS || words[FEW - 1] % ROUNDS;
			stops++;
			h->ops->pause(h->device, false);
		}
		for (int q = 0; q < 2; q++)
			for (int i = 0; i < LAUNCHES; i++) {
				assert_int_equal(harness_wait(h, &s[q][i]), 0);
				assert_int_equal(s[q][i].done, 1);
			}
	}
	harness_read(h, h->base, words, sizeof words);
	for (int i = 0; i < FEW; i++) {
		assert_int_equal(words[i], turns * LAUNCHES * ROUNDS);
		assert_int_equal(words[64 + i], turns * LAUNCHES * ROUNDS);
	}
	print_message("# stopped %u times, %u in the middle of a block\n", stops, in_the_middle);
	harness_unmap(h, 0, chunk);
	h->ops->module_unload(module);
	h->ops->queue_destroy(queues[0]);
	h->ops->queue_destroy(queues[1]);
}

static void what_blocks_keep_is_paid_for(void **state)
{
	struct harness *h = &harness;
	struct device_function *tally;
	struct device_module *module = load(&tally);

	assert_true(h->ops->module_bytes(module) >= 32u << 20);
	h->ops->module_unload(module);
}

static void what_is_not_rewritten_comes_to_its_end(void **state)
{
	struct harness *h = &harness;
	struct device_function *tally, *gate;
	struct device_module *module = load(&tally);
	struct device_queue *queue = harness_queue(h);
	struct device_chunk *chunk = harness_map(h, 0);
	uint64_t open = h->base + 4096;
	struct submitted s;
	unsigned quiets;

	assert_int_equal(h->ops->function_get(module, "gate", &gate), 0);
	harness_set_word(h, open, 0);
	launch(queue, &s, gate, 2, 1, &open, sizeof open);
	wait_issued(&s);
	quiets = h->quiets;
	assert_false(h->ops->pause(h->device, true));
	usleep(5000);
	assert_int_equal(h->quiets, quiets);
	harness_set_word(h, open, 1); /* copies go on */
	wait_quiet(quiets);
	assert_int_equal(harness_wait(h, &s), 0);
	h->ops->pause(h->device, false);
	harness_unmap(h, 0, chunk);
	h->ops->module_unload(module);
	h->ops->queue_destroy(queue);
}

static void nobody_sees_the_hidden_parameter(void **state)
{
	struct device_function_info info;
	struct device_function *tally;
	struct device_module *module = load(&tally);
	char name[128];
	unsigned index = 0;

	harness.ops->function_info(tally, &info);
	assert_int_equal(info.param_count, 2);
	assert_int_equal(info.param_bytes, 12);
	while (!harness.ops->function_name(module, index++, name, sizeof name)) {
		assert_null(strstr(name, PREEMPT_SUFFIX));
		assert_null(strstr(name, PREEMPT_LOOPS_SUFFIX));
	}
	harness.ops->module_unload(module);
}

/* The compiler refuses it as it is rewritten with loops, and without. It has none of it from before. */
static void what_the_driver_does_not_take_rewritten_goes_as_it_is(void **state)
{
	struct harness *h = &harness;
	struct device_function *tally;
	struct device_module *module;
	struct device_queue *queue = harness_queue(h);
	struct device_chunk *chunk = harness_map(h, 0);
	struct tally_params params = {h->base, block_us(50)};
	static const uint32_t zeros[BLOCKS];
	struct submitted s;

	harness_let_fail("cuLinkAddData:222@1,cuLinkAddData:222@2");
	module = load(&tally);
	harness_let_fail(NULL);
	harness_write(h, h->base, zeros, sizeof zeros);
	launch(queue, &s, tally, BLOCKS, 1024, &params, sizeof params);
	wait_issued(&s);
	pause_it();
	if (getenv("GDEV_CUDA_DRIVER")) /* nothing of it has left */
		assert_true(harness_is_done(h, &s));
	h->ops->pause(h->device, false);
	assert_int_equal(harness_wait(h, &s), 0);
	check_counts(h->base, 1);
	harness_unmap(h, 0, chunk);
	h->ops->module_unload(module);
	h->ops->queue_destroy(queue);
}

/* Once the module has been made lighter, or the driver has refused what it was: its kernels still leave between blocks. */
static void there_may_be_no_room_to_leave_in_the_middle(void **state)
{
	struct harness *h = &harness;
	struct device_module *module;
	struct device_function *tally;

	assert_int_equal(h->ops->module_load(h->space, image, sizeof image, NULL, &module), 0);
	assert_int_equal(h->ops->module_lighten(module), 0);
	assert_true(h->ops->module_bytes(module) < 32u << 20);
	assert_int_equal(h->ops->module_lighten(module), -ENOENT);
	assert_int_equal(h->ops->module_open(module, NULL), 0);
	assert_int_equal(h->ops->function_get(module, "tally", &tally), 0);
	assert_non_null(tally->second);
	assert_null(tally->third);
	h->ops->module_unload(module);

	if (!harness_let_fail("cuModuleLoadDataEx:2@1"))
		skip();
	module = load(&tally);
	harness_let_fail(NULL);
	assert_non_null(tally->second);
	assert_null(tally->third);
	assert_true(h->ops->module_bytes(module) < 32u << 20);
	h->ops->module_unload(module);
}

static void a_launch_that_the_driver_refuses_is_refused(void **state)
{
	struct harness *h = &harness;
	struct device_function *tally;
	struct device_module *module = load(&tally);
	struct device_queue *queue = harness_queue(h);
	struct tally_params params = {h->base, 0};
	static const struct {
		uint32_t grid[3], shared_bytes;
	} cases[] = {{{1, 65536, 1}}, {{1, 1, 65536}}, {{1u << 31, 1u << 31, 4}},
		{{1u << 31, 1, 1}}, {{1, 1, 1}, UINT32_MAX}};
	struct submitted s;

	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		s = (struct submitted){.command = {.kind = DEVICE_LAUNCH,
					       .launch = {.function = tally,
						       .block = {1, 1, 1},
						       .shared_bytes = cases[i].shared_bytes,
						       .params = &params,
						       .param_bytes = sizeof params}}};
		memcpy(s.command.launch.grid, cases[i].grid, sizeof cases[i].grid);
		harness_submit(h, queue, &s);
		assert_int_not_equal(harness_wait(h, &s), 0);
	}
	h->ops->module_unload(module);
	h->ops->queue_destroy(queue);
}

/* What follows it in its stream would take others' numbers for its own. */
static void a_slice_that_the_driver_refuses_ends_the_session(void **state)
{
	struct harness *h = &harness;
	struct device_function *tally;
	struct device_module *module = load(&tally);
	struct device_queue *queue = harness_queue(h);
	struct device_chunk *chunk = harness_map(h, 0);
	struct tally_params params = {h->base, block_us(5)};
	struct submitted s[2];

	if (!harness_let_fail("cuLaunchKernel:701@1+"))
		skip();
	launch(queue, &s[0], tally, BLOCKS, 1024, &params, sizeof params);
	assert_int_not_equal(harness_wait(h, &s[0]), 0);
	harness_let_fail(NULL);
	launch(queue, &s[1], tally, BLOCKS, 1024, &params, sizeof params);
	assert_int_not_equal(harness_wait(h, &s[1]), 0);
	harness_unmap(h, 0, chunk);
	h->ops->module_unload(module);
	h->ops->queue_destroy(queue);
}

static void it_lasts_when_the_context_is_given_back(void **state)
{
	struct harness *h = &harness;
	struct device_function *tally;
	struct device_module *module = load(&tally);
	struct device_queue *queue = harness_queue(h);
	static const uint32_t zeros[BLOCKS];
	struct device_chunk *chunk;
	struct tally_params params = {h->base, block_us(5)};
	struct submitted s;

	for (int i = 0; i < 2; i++) {
		chunk = harness_map(h, 0);
		harness_write(h, h->base, zeros, sizeof zeros);
		launch(queue, &s, tally, BLOCKS, 1024, &params, sizeof params);
		usleep(1000);
		pause_it();
		h->ops->pause(h->device, false);
		assert_int_equal(harness_wait(h, &s), 0);
		check_counts(h->base, 1);
		harness_unmap(h, 0, chunk);
		if (i)
			break;
		assert_int_equal(h->ops->retire(h->space), 0);
		assert_int_equal(h->ops->revive(h->space), 0);
	}
	h->ops->module_unload(module);
	h->ops->queue_destroy(queue);
}

/* Last: the device is of no use behind it. */
static void a_trap_ends_what_is_stopped(void **state)
{
	struct harness *h = &harness;
	struct device_function *tally, *trap;
	struct device_module *module = load(&tally);
	struct device_queue *queues[2] = {harness_queue(h), harness_queue(h)};
	struct device_chunk *chunk = harness_map(h, 0);
	struct tally_params params = {h->base, block_us(50)};
	struct submitted s[3];

	assert_int_equal(h->ops->function_get(module, "trap", &trap), 0);
	launch(queues[0], &s[0], tally, BLOCKS, 1024, &params, sizeof params);
	usleep(1000);
	pause_it();
	launch(queues[0], &s[1], tally, BLOCKS, 1024, &params, sizeof params);
	launch(queues[1], &s[2], trap, 2, 1, NULL, 0);
	h->ops->pause(h->device, false);
	assert_int_not_equal(harness_wait(h, &s[2]), 0);
	for (int i = 0; i < 2; i++) {
		int error = harness_wait(h, &s[i]);
		/* A GPU goes on with what it has; and its driver finds out after that. */
		assert_true(error || !getenv("GDEV_CUDA_DRIVER"));
	}
	pause_it();
	h->ops->pause(h->device, false);
	harness_unmap(h, 0, chunk);
	h->ops->module_unload(module);
	h->ops->queue_destroy(queues[0]);
	h->ops->queue_destroy(queues[1]);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(
			each_block_is_done_once_however_often_it_is_stopped, start, stop),
		cmocka_unit_test_setup_teardown(nothing_runs_in_a_pause, start, stop),
		cmocka_unit_test_setup_teardown(
			blocks_leave_in_the_middle_and_go_on_there, start, stop),
		cmocka_unit_test_setup_teardown(what_blocks_keep_is_paid_for, start, stop),
		cmocka_unit_test_setup_teardown(
			what_is_not_rewritten_comes_to_its_end, start, stop),
		cmocka_unit_test_setup_teardown(nobody_sees_the_hidden_parameter, start, stop),
		cmocka_unit_test_setup_teardown(
			what_the_driver_does_not_take_rewritten_goes_as_it_is, start, stop),
		cmocka_unit_test_setup_teardown(
			there_may_be_no_room_to_leave_in_the_middle, start, stop),
		cmocka_unit_test_setup_teardown(
			a_launch_that_the_driver_refuses_is_refused, start, stop),
		cmocka_unit_test_setup_teardown(
			a_slice_that_the_driver_refuses_ends_the_session, start, stop),
		cmocka_unit_test_setup_teardown(
			it_lasts_when_the_context_is_given_back, start, stop),
		cmocka_unit_test_setup_teardown(a_trap_ends_what_is_stopped, start, stop),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
