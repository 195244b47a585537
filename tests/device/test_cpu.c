/* SPDX-License-Identifier: MIT
 *
 * The software GPU's engine with the compiler's double: launches over the pool, code and its cache,
 * faults, limits, and that nobody waits for a kernel that does not end.
 */
#include "harness.h"

#include <dirent.h>
#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "gdev/error.h"
#include "ptx_double.h"

extern const struct device_ops gdev_device_backend;

static struct harness harness;
static struct device_module *module;
static struct device_queue *queue;
static struct device_chunk *memory; /* at harness.base, 2 MiB */
static bool started;

static void start(void)
{
	started = true;
	harness_start(&harness, &gdev_device_backend);
	assert_int_equal(
		harness_module_load(&harness, DOUBLE_PTX, strlen(DOUBLE_PTX), NULL, &module), 0);
	queue = harness_queue(&harness);
	memory = harness_map(&harness, 0);
}

static void stop(void)
{
	harness_unmap(&harness, 0, memory);
	harness.ops->queue_destroy(queue);
	harness.ops->module_unload(module);
	harness_stop(&harness);
	started = false;
}

static struct device_function *function(const char *name)
{
	struct device_function *f;

	assert_int_equal(harness.ops->function_get(module, name, &f), 0);
	return f;
}

/* One-dimensional; `params` must live until it is done. */
static struct submitted launch(
	const char *name, uint32_t grid, uint32_t block, const uint64_t *params)
{
	return (struct submitted){.command = {.kind = DEVICE_LAUNCH,
					  .launch = {.function = function(name),
						  .grid = {grid, 1, 1},
						  .block = {block, 1, 1},
						  .params = params,
						  .param_bytes = 24}}};
}

static int run(const char *name, uint32_t grid, uint32_t block, const uint64_t *params)
{
	struct submitted s = launch(name, grid, block, params);

	return harness_run(&harness, queue, &s);
}

static int copy_word(struct device_queue *on, uint64_t destination, uint64_t source)
{
	struct submitted s = {
		.command = {.kind = DEVICE_COPY,
			.copy = {COPY_WITHIN, destination, source, 4, 1, 1, 0, 0, 0, 0}}};

	return harness_run(&harness, on, &s);
}

static uint32_t word(uint64_t index)
{
	return __atomic_load_n((uint32_t *)harness.base + index, __ATOMIC_SEQ_CST);
}

static void every_block_runs_exactly_once_over_the_pool(void **state)
{
	enum { BLOCKS = 3000 };
	uint64_t params[3] = {harness.base, harness.base + (1 << 20), 10000};
	uint32_t sum = 0, used = 0;

	assert_int_equal(run("mark", BLOCKS, 1, params), 0);
	for (int i = 0; i < BLOCKS; i++)
		assert_int_equal(word(i), 1);
	for (int i = 0; i < 256; i++) {
		sum += word((1 << 18) + i);
		used += word((1 << 18) + i) > 0;
	}
	assert_int_equal(sum, BLOCKS);
	assert_true(used >= 2 && used <= HARNESS_POOL);
}

static void atomics_add_up_across_blocks_and_queues(void **state)
{
	enum { QUEUES = 4, LAUNCHES = 50 };
	uint64_t params[3] = {harness.base};
	struct device_queue *queues[QUEUES];
	static struct submitted s[QUEUES][LAUNCHES];

	for (int q = 0; q < QUEUES; q++)
		queues[q] = harness_queue(&harness);
	for (int i = 0; i < LAUNCHES; i++)
		for (int q = 0; q < QUEUES; q++) {
			s[q][i] = launch("count", 100, 32 + 32 * (unsigned)(i % 3), params);
			harness_submit(&harness, queues[q], &s[q][i]);
		}
	for (int q = 0; q < QUEUES; q++) {
		for (int i = 0; i < LAUNCHES; i++)
			assert_int_equal(harness_wait(&harness, &s[q][i]), 0);
		harness.ops->queue_destroy(queues[q]);
	}
	assert_int_equal(word(0), QUEUES * 100 * (17 * 32 + 17 * 64 + 16 * 96));
}

static void huge_grids_of_nothing_end(void **state)
{
	uint64_t params[3] = {0};

	assert_int_equal(run("empty", 0x7fffffff, 1024, params), 0);
}

/* ---- code ---- */

static void a_shape_is_compiled_once_however_many_wait_for_it(void **state)
{
	enum { QUEUES = 8 };
	unsigned before = atomic_load(&double_compiles);
	uint64_t params[3] = {harness.base};
	struct device_queue *queues[QUEUES];
	struct submitted s[QUEUES];

	for (int q = 0; q < QUEUES; q++) {
		queues[q] = harness_queue(&harness);
		s[q] = launch("count", 1, 7, params);
	}
	for (int q = 0; q < QUEUES; q++)
		harness_submit(&harness, queues[q], &s[q]);
	for (int q = 0; q < QUEUES; q++) {
		assert_int_equal(harness_wait(&harness, &s[q]), 0);
		harness.ops->queue_destroy(queues[q]);
	}
	assert_int_equal(word(0), QUEUES * 7);
	assert_int_equal(atomic_load(&double_compiles), before + 1);
	assert_int_equal(run("count", 1, 8, params), 0); /* another shape */
	assert_int_equal(atomic_load(&double_compiles), before + 2);
}

static void module_again(void)
{
	harness.ops->module_unload(module);
	assert_int_equal(
		harness_module_load(&harness, DOUBLE_PTX, strlen(DOUBLE_PTX), NULL, &module), 0);
}

static void code_comes_from_the_cache_and_what_is_none_is_compiled_again(void **state)
{
	uint64_t params[3] = {harness.base};
	unsigned before = atomic_load(&double_compiles);

	assert_int_equal(run("count", 1, 1, params), 0);
	assert_int_equal(harness.cached, 1);
	assert_int_equal(harness.cache_hits, 0);
	module_again();
	assert_int_equal(run("count", 1, 1, params), 0);
	assert_int_equal(harness.cache_hits, 1);
	assert_int_equal(atomic_load(&double_compiles), before + 1);
	harness.cache[0].length = 3;
	module_again();
	assert_int_equal(run("count", 1, 1, params), 0);
	assert_int_equal(atomic_load(&double_compiles), before + 2);
	assert_int_equal(word(0), 3);
}

static void code_that_does_not_compile_harms_its_launch_alone(void **state)
{
	uint64_t params[3] = {harness.base};

	assert_int_equal(run("uncompilable", 1, 1, params), -GDEV_E_UNSUPPORTED_PTX);
	assert_int_equal(run("uncompilable", 1, 1, params), -GDEV_E_UNSUPPORTED_PTX);
	assert_int_equal(run("count", 1, 1, params), 0);
}

static void modules_say_what_they_have(void **state)
{
	struct device_function_info info;
	struct device_function *f;
	uint64_t address, bytes;
	uint32_t offset, size;
	struct device_module *other;
	char text[64] = "";
	struct device_log log = {text, sizeof text};

	assert_int_equal(harness.ops->function_get(module, "nosuch", &f), -GDEV_E_SYMBOL_NOT_FOUND);
	assert_int_equal(
		harness.ops->global_get(module, "x", &address, &bytes), -GDEV_E_SYMBOL_NOT_FOUND);
	assert_int_equal(harness.ops->global_get(module, "answer", &address, &bytes), 0);
	assert_int_equal(*(uint32_t *)address, 42);
	assert_int_equal(bytes, 4);
	assert_true(harness.ops->module_bytes(module) >= 4);
	harness.ops->function_info(function("inspect"), &info);
	assert_int_equal(info.param_count, 1);
	assert_int_equal(info.shared_bytes, 100);
	assert_int_equal(info.max_dynamic_shared_bytes, (227 << 10) - 100);
	assert_int_equal(info.ptx_version, 75);
	harness.ops->function_param(function("mark"), 2, &offset, &size);
	assert_int_equal(offset, 16);
	assert_int_equal(size, 8);
	assert_int_equal(harness.ops->function_occupancy(function("inspect"), 1024, 0), 2);
	assert_int_equal(harness.ops->function_occupancy(function("inspect"), 32, 0), 32);
	assert_int_equal(harness.ops->function_occupancy(function("inspect"), 32, 200 << 10), 1);
	assert_int_equal(harness.ops->function_occupancy(function("small"), 256, 0), 0);
	assert_int_equal(
		harness_module_load(&harness, ".version 1", 10, &log, &other), -GDEV_E_INVALID_PTX);
	assert_string_equal(text, "no PTX of the double's");
	assert_int_equal(
		harness_module_load(&harness, "\177ELF", 4, &log, &other), -GDEV_E_NO_BINARY);
	assert_non_null(strstr(text, "PTX"));
}

/* ---- launches ---- */

static void limits_of_launches_are_checked(void **state)
{
	static const struct {
		const char *name;
		uint32_t grid[3], block[3], shared, param_bytes;
		bool cooperative;
		int error;
	} cases[] = {
		{"empty", {1, 1, 1}, {1024, 1, 1}, 0, 0, false, 0},
		{"empty", {1, 65535, 65535}, {1, 1, 1}, 0, 0, false, 0},
		{"empty", {1, 1, 1}, {1, 1, 64}, 227 << 10, 0, false, 0},
		{"empty", {0, 1, 1}, {1, 1, 1}, 0, 0, false, -GDEV_E_INVALID_LAUNCH},
		{"empty", {1, 1, 1}, {1, 0, 1}, 0, 0, false, -GDEV_E_INVALID_LAUNCH},
		{"empty", {0x80000000u, 1, 1}, {1, 1, 1}, 0, 0, false, -GDEV_E_INVALID_LAUNCH},
		{"empty", {1, 65536, 1}, {1, 1, 1}, 0, 0, false, -GDEV_E_INVALID_LAUNCH},
		{"empty", {1, 1, 1}, {1025, 1, 1}, 0, 0, false, -GDEV_E_INVALID_LAUNCH},
		{"empty", {1, 1, 1}, {1, 1, 65}, 0, 0, false, -GDEV_E_INVALID_LAUNCH},
		{"empty", {1, 1, 1}, {64, 32, 1}, 0, 0, false, -GDEV_E_INVALID_LAUNCH},
		{"empty", {1, 1, 1}, {1, 1, 1}, (227 << 10) + 1, 0, false, -GDEV_E_INVALID_LAUNCH},
		{"empty", {1, 1, 1}, {1, 1, 1}, 0xffffffff, 0, false, -GDEV_E_INVALID_LAUNCH},
		{"inspect", {1, 1, 1}, {1, 1, 1}, 227 << 10, 8, false, -GDEV_E_INVALID_LAUNCH},
		{"inspect", {1, 1, 1}, {1, 1, 1}, 0, 7, false, -GDEV_E_INVALID_LAUNCH},
		{"small", {1, 1, 1}, {129, 1, 1}, 0, 0, false, -GDEV_E_OUT_OF_RESOURCES},
		{"bounded", {1, 1, 1}, {16, 2, 1}, 0, 0, false, 0},
		{"bounded", {1, 1, 1}, {32, 1, 1}, 0, 0, false, -GDEV_E_INVALID_LAUNCH},
		{"empty", {1, 1, 1}, {1, 1, 1}, 0, 0, true, 0},
		{"empty", {2, 1, 1}, {1, 1, 1}, 0, 0, true, 0},
		{"empty", {1000000, 1, 1}, {1, 1, 1}, 0, 0, true, -GDEV_E_INVALID_LAUNCH},
	};

	for (size_t i = 0; i < array_length(cases); i++) {
		struct submitted s = {.command = {.kind = DEVICE_LAUNCH,
					      .launch = {.function = function(cases[i].name),
						      .shared_bytes = cases[i].shared,
						      .param_bytes = cases[i].param_bytes,
						      .cooperative = cases[i].cooperative,
						      .params = ""}}};
		memcpy(s.command.launch.grid, cases[i].grid, sizeof cases[i].grid);
		memcpy(s.command.launch.block, cases[i].block, sizeof cases[i].block);
		assert_int_equal(harness_run(&harness, queue, &s), cases[i].error);
	}
}

static void scratch_params_and_variables_are_as_promised(void **state)
{
	_Alignas(16) uint8_t unaligned[40];
	uint64_t where = harness.base;

	for (uint32_t shared = 0; shared <= 100000; shared += 50000) {
		struct submitted s = launch("inspect", 3, 1, NULL);
		memcpy(unaligned + 3, &where, 8);
		s.command.launch.params = unaligned + 3;
		s.command.launch.param_bytes = 8;
		s.command.launch.shared_bytes = shared;
		*(uint32_t *)harness.base = 0;
		assert_int_equal(harness_run(&harness, queue, &s), 0);
		assert_true(word(0) && word(1) && word(2));
	}
}

static void others_go_on_beside_a_kernel_that_does_not_end(void **state)
{
	struct device_queue *other = harness_queue(&harness);
	uint64_t params[3] = {harness.base + 64}, counter[3] = {harness.base + 128};
	struct submitted endless = launch("wait_for", 1, 1, params);

	harness_submit(&harness, queue, &endless);
	for (int i = 0; i < 20; i++) {
		struct submitted s = launch("count", 1, 1, counter);
		assert_int_equal(copy_word(other, harness.base + 4, harness.base), 0);
		assert_int_equal(harness_run(&harness, other, &s), 0);
	}
	assert_int_equal(word(32), 20);
	assert_false(harness_is_done(&harness, &endless));
	((uint32_t *)harness.base)[100] = 1;
	assert_int_equal(copy_word(other, harness.base + 64, harness.base + 400), 0);
	assert_int_equal(harness_wait(&harness, &endless), 0);
	harness.ops->queue_destroy(other);
}

static void pause_and_wait(void)
{
	unsigned before = __atomic_load_n(&harness.quiets, __ATOMIC_SEQ_CST);

	if (harness.ops->pause(harness.device, true))
		return;
	while (__atomic_load_n(&harness.quiets, __ATOMIC_SEQ_CST) == before)
		sched_yield();
}

static void begin_waiting(struct submitted *s)
{
	harness_submit(&harness, queue, s);
	while (!__atomic_load_n(&s->command.started_ns, __ATOMIC_RELAXED))
		sched_yield();
}

static void a_pause_stops_a_launch_between_blocks(void **state)
{
	uint64_t params[3] = {harness.base + 64}, counter[3] = {harness.base + 8192};
	/* More blocks than threads: some have not begun. */
	struct submitted s = launch("wait_for", 2 * HARNESS_POOL, 1, params);
	struct submitted next = launch("count", 1, 1, counter);
	struct device_queue *other = harness_queue(&harness), *third = harness_queue(&harness);

	begin_waiting(&s);
	assert_false(harness.ops->pause(harness.device, true));
	harness_submit(&harness, other, &next);
	((uint32_t *)harness.base)[100] = 1; /* copies do not notice, and let the blocks end */
	assert_int_equal(copy_word(third, harness.base + 64, harness.base + 400), 0);
	pause_and_wait();
	assert_true(harness.ops->pause(harness.device, true)); /* it is */
	assert_false(harness_is_done(&harness, &s));
	assert_false(harness_is_done(&harness, &next));
	harness.ops->pause(harness.device, false);
	assert_int_equal(harness_wait(&harness, &s), 0);
	assert_int_equal(harness_wait(&harness, &next), 0);
	harness.ops->queue_destroy(other);
	harness.ops->queue_destroy(third);
}

static void pauses_lose_no_block_and_repeat_none(void **state)
{
	enum { BLOCKS = 300 };
	uint64_t params[3] = {harness.base, harness.base + (1 << 20), 50000};
	struct submitted s = launch("mark", BLOCKS, 1, params);

	harness_submit(&harness, queue, &s);
	for (int i = 0; i < 20; i++) {
		pause_and_wait();
		harness.ops->pause(harness.device, false);
	}
	assert_int_equal(harness_wait(&harness, &s), 0);
	for (int i = 0; i < BLOCKS; i++)
		assert_int_equal(word(i), 1);
}

static struct device_presence presence(enum device_resource unit)
{
	struct device_presence presence;

	harness.ops->presence(harness.device, unit, &presence);
	return presence;
}

static void time_without_a_processor_is_told(void **state)
{
	enum { LONG_NS = 30000000 };
	uint64_t params[3] = {LONG_NS};

	assert_int_equal(presence(RESOURCE_COMPUTE).spent_ns, 0);
	assert_int_equal(run("doze", 1, 1, params), 0);
	assert_true(presence(RESOURCE_COMPUTE).spent_ns >= LONG_NS);
	assert_true(presence(RESOURCE_COMPUTE).lost_ns >= LONG_NS / 2);
	assert_true(presence(RESOURCE_COMPUTE).lost_ns <= presence(RESOURCE_COMPUTE).spent_ns);
	assert_int_equal(presence(RESOURCE_COPY_TO_DEVICE).spent_ns, 0);
}

static void threads_have_their_parts_of_the_devices_time(void **state)
{
	enum { LONG_NS = 30000000 };
	uint64_t params[3] = {LONG_NS}, begin_ns = clock_now_ns(), passed_ns;
	struct device_presence counted;

	assert_int_equal(run("doze", 2 * HARNESS_POOL, 1, params), 0);
	passed_ns = clock_now_ns() - begin_ns;
	counted = presence(RESOURCE_COMPUTE);
	/* Not the sum of what the threads were there. */
	assert_in_range(counted.spent_ns, LONG_NS, passed_ns);
	assert_in_range(counted.lost_ns, counted.spent_ns / 2, counted.spent_ns);
}

static void copies_are_told_apart(void **state)
{
	uint64_t before;

	assert_int_equal(copy_word(queue, harness.base + 4, harness.base), 0);
	before = presence(RESOURCE_COMPUTE).spent_ns;
	assert_true(before > 0);
	for (int unit = RESOURCE_COPY_TO_DEVICE; unit < RESOURCES; unit++) {
		struct submitted s = {
			.command = {.kind = DEVICE_COPY,
				.copy = {unit == RESOURCE_COPY_TO_DEVICE ? COPY_TO_DEVICE
									 : COPY_FROM_DEVICE,
					harness.base + 4, harness.base, 4, 1, 1, 0, 0, 0, 0}}};

		assert_int_equal(presence((enum device_resource)unit).spent_ns, 0);
		assert_int_equal(harness_run(&harness, queue, &s), 0);
		assert_true(presence((enum device_resource)unit).spent_ns > 0);
	}
	assert_int_equal(presence(RESOURCE_COMPUTE).spent_ns, before);
}

static void a_block_that_does_not_end_never_pauses(void **state)
{
	uint64_t params[3] = {harness.base + 64};
	struct submitted endless = launch("wait_for", 1, 1, params);
	struct device_queue *other = harness_queue(&harness);

	begin_waiting(&endless);
	assert_false(harness.ops->pause(harness.device, true));
	assert_false(harness.ops->pause(harness.device, true));
	harness.ops->pause(harness.device, false);
	((uint32_t *)harness.base)[100] = 1;
	assert_int_equal(copy_word(other, harness.base + 64, harness.base + 400), 0);
	assert_int_equal(harness_wait(&harness, &endless), 0);
	harness.ops->queue_destroy(other);
}

static void copies_go_on_when_kernels_have_the_whole_pool(void **state)
{
	struct device_queue *other = harness_queue(&harness);
	uint64_t params[3] = {harness.base + 64};
	struct device_queue *queues[HARNESS_POOL];
	struct submitted endless[HARNESS_POOL];

	((uint32_t *)harness.base)[100] = 1;
	for (int i = 0; i < HARNESS_POOL; i++) {
		queues[i] = harness_queue(&harness);
		endless[i] = launch("wait_for", 1, 1, params);
		harness_submit(&harness, queues[i], &endless[i]);
	}
	assert_int_equal(copy_word(other, harness.base + 8, harness.base + 400), 0);
	assert_int_equal(copy_word(other, harness.base + 64, harness.base + 400), 0);
	for (int i = 0; i < HARNESS_POOL; i++) {
		assert_int_equal(harness_wait(&harness, &endless[i]), 0);
		harness.ops->queue_destroy(queues[i]);
	}
	harness.ops->queue_destroy(other);
}

static void a_long_copy_lets_a_short_one_by(void **state)
{
	struct submitted big = {
		.command = {.kind = DEVICE_COPY,
			.copy = {COPY_TO_DEVICE, 0, 0, 32 << 20, 1, 1, 0, 0, 0, 0}}};
	struct submitted small = big;
	struct device_chunk *chunk;
	struct harness h;

	harness_start_with(&h, &gdev_device_backend, 0);
	assert_int_equal(h.ops->chunk_create(h.device, 32 << 20, &chunk), 0);
	assert_int_equal(h.ops->map(h.space, h.base, chunk, false), 0);
	assert_int_equal(h.ops->map(h.space, h.base + (32 << 20), chunk, false), 0);
	struct device_queue *first = harness_queue(&h), *second = harness_queue(&h);
	big.command.copy.source = small.command.copy.source = h.base;
	big.command.copy.destination = small.command.copy.destination = h.base + (32 << 20);
	small.command.copy.width = 100;
	harness_submit(&h, first, &big);
	harness_submit(&h, second, &small);
	for (int visits = 0; visits < 4 && !small.done; visits++)
		assert_true(h.ops->work(h.device));
	assert_true(small.done && !big.done);
	while (h.ops->work(h.device))
		;
	assert_true(big.done);
	h.ops->queue_destroy(first);
	h.ops->queue_destroy(second);
	h.ops->unmap(h.space, h.base, chunk);
	h.ops->unmap(h.space, h.base + (32 << 20), chunk);
	h.ops->chunk_destroy(chunk);
	harness_stop(&h);
}

static void large_copies_are_exact(void **state)
{
	const uint64_t size = 32 << 20, from = harness.base + size, to = harness.base + 2 * size;
	struct submitted s = {.command = {.kind = DEVICE_COPY,
				      .copy = {COPY_FROM_DEVICE, to + 13, from + 5, size - 1001, 1,
					      1, 0, 0, 0, 0}}};
	struct device_chunk *chunks[2];

	for (unsigned i = 0; i < 2; i++) {
		assert_int_equal(harness.ops->chunk_create(harness.device, size, &chunks[i]), 0);
		assert_int_equal(
			harness.ops->map(harness.space, from + i * size, chunks[i], false), 0);
	}
	for (uint64_t i = 0; i < size / 4; i++)
		((uint32_t *)from)[i] = (uint32_t)(i * 2654435761u);
	assert_int_equal(harness_run(&harness, queue, &s), 0);
	assert_memory_equal((void *)(to + 13), (void *)(from + 5), size - 1001);
	assert_int_equal(*(uint8_t *)(to + 12), 0);
	assert_int_equal(*(uint8_t *)(to + 13 + size - 1001), 0);
	for (unsigned i = 0; i < 2; i++) {
		harness.ops->unmap(harness.space, from + i * size, chunks[i]);
		harness.ops->chunk_destroy(chunks[i]);
	}
}

/* ---- a queue that its last command destroys ---- */

static void destroy_then_count(struct device_command *command, int error)
{
	struct submitted *s = (struct submitted *)command;

	s->harness->ops->queue_destroy((struct device_queue *)command->launch.params);
	pthread_mutex_lock(&s->harness->lock);
	s->done++;
	pthread_cond_broadcast(&s->harness->finished);
	pthread_mutex_unlock(&s->harness->lock);
}

static void a_queue_may_be_destroyed_from_done(void **state)
{
	for (int i = 0; i < 100; i++) {
		struct device_queue *mine = harness_queue(&harness);
		struct submitted s = launch("empty", 1, 1, (const uint64_t *)mine);
		s.command.launch.param_bytes = 0;
		s.command.done = destroy_then_count;
		assert_int_equal(harness_run(&harness, mine, &s), 0);
	}
}

/* ---- faults ---- */

static void a_wild_store_breaks_its_space_and_no_other(void **state)
{
	struct device_space *other_space;
	struct device_queue *other, *more = harness_queue(&harness);
	uint64_t wild[3] = {harness.base + (64 << 20) + 24, 1};

	assert_int_equal(harness.ops->space_create(harness.device, &other_space), 0);
	assert_int_equal(
		harness.ops->space_reserve(other_space, harness_free_range(64 << 20), 64 << 20), 0);
	assert_int_equal(harness.ops->queue_create(other_space, 0, &other), 0);
	struct submitted s = launch("store", 64, 1, wild);
	assert_int_equal(harness_run(&harness, queue, &s), -GDEV_E_ILLEGAL_ADDRESS);
	assert_int_equal(s.command.fault_address, wild[0]);
	assert_int_equal(run("empty", 1, 1, wild), -GDEV_E_SESSION_LOST);
	assert_int_equal(copy_word(more, harness.base, harness.base + 8), -GDEV_E_SESSION_LOST);
	assert_int_equal(copy_word(other, harness.base, harness.base + 8), 0);
	harness.ops->queue_destroy(more);
	harness.ops->queue_destroy(other);
	harness.ops->space_destroy(other_space);
}

static void what_was_queued_behind_a_fault_fails(void **state)
{
	uint64_t wild[3] = {16, 1}, counter[3] = {harness.base};
	struct submitted s[3] = {launch("store", 1, 1, wild), launch("count", 1, 1, counter),
		launch("count", 1, 1, counter)};

	for (int i = 0; i < 3; i++)
		harness_submit(&harness, queue, &s[i]);
	assert_int_equal(harness_wait(&harness, &s[2]), -GDEV_E_SESSION_LOST);
	assert_int_equal(s[0].error, -GDEV_E_ILLEGAL_ADDRESS);
	assert_int_equal(s[1].error, -GDEV_E_SESSION_LOST);
	assert_int_equal(word(0), 0);
}

static void a_division_and_a_stack_overflow_are_faults(void **state)
{
	uint64_t params[3] = {0};

#if defined(__x86_64__)
	assert_int_equal(run(*state, 1, 1, params), -GDEV_E_ILLEGAL_ADDRESS);
#endif
}

static void a_copy_of_unmapped_memory_is_an_illegal_address(void **state)
{
	struct submitted s = {.command = {.kind = DEVICE_COPY,
				      .copy = {COPY_TO_DEVICE, harness.base + (2 << 20) - 4096,
					      harness.base, 8192, 1, 1, 0, 0, 0, 0}}};

	assert_int_equal(harness_run(&harness, queue, &s), -GDEV_E_ILLEGAL_ADDRESS);
	assert_int_equal(s.command.fault_address, harness.base + (2 << 20));
}

static void a_fill_of_read_only_memory_is_an_illegal_address(void **state)
{
	struct submitted s = {.command = {.kind = DEVICE_FILL,
				      .fill = {harness.base + (4 << 20), 16, 1, 0, 4, 1}}};
	struct device_chunk *chunk;

	assert_int_equal(harness.ops->chunk_create(harness.device, 2 << 20, &chunk), 0);
	assert_int_equal(harness.ops->map(harness.space, harness.base + (4 << 20), chunk, true), 0);
	assert_int_equal(copy_word(queue, harness.base, harness.base + (4 << 20)), 0);
	assert_int_equal(harness_run(&harness, queue, &s), -GDEV_E_ILLEGAL_ADDRESS);
	harness.ops->unmap(harness.space, harness.base + (4 << 20), chunk);
	harness.ops->chunk_destroy(chunk);
}

static void trap_and_assert_have_their_own_errors(void **state)
{
	uint64_t params[3] = {0};

	if (!strcmp(*(const char **)state, "trap")) {
		assert_int_equal(run("trap", 4, 1, params), -GDEV_E_TRAP);
		assert_int_equal(run("empty", 1, 1, params), -GDEV_E_SESSION_LOST);
		return;
	}
	assert_int_equal(run("fail_assert", 1, 1, params), -GDEV_E_ASSERT);
	assert_string_equal(harness.printed,
		"a.cu:12: void f(int): block: [1,2,3], thread: [4,5,6] "
		"Assertion `x > 0` failed.\n");
}

static void threads_that_wait_in_vain_are_named(void **state)
{
	uint64_t params[3] = {0};

	assert_int_equal(run("deadlock", 1, 1, params), -GDEV_E_LAUNCH_TIMEOUT);
	assert_string_equal(harness.explained,
		"kernel deadlock, block (1,2,3): its threads wait for each other for ever: "
		"lanes 00000005 of warp 0 at line 7, lanes 00000002 of warp 0 at line 9, "
		"lanes 00000002 of warp 1 at line 11");
}

static void kernels_print_and_a_bad_string_is_a_fault(void **state)
{
	uint64_t good[3] = {(uint64_t)(uintptr_t) "%d and %s\n", 7, (uint64_t)(uintptr_t) "more"};
	uint64_t bad[3] = {(uint64_t)(uintptr_t) "%s %s\n", 4096, 0};

	assert_int_equal(run("print", 1, 1, good), 0);
	assert_string_equal(harness.printed, "7 and more\n");
	assert_int_equal(run("print", 1, 1, bad), -GDEV_E_ILLEGAL_ADDRESS);
}

static void kernels_allocate_and_a_wrong_free_is_a_trap(void **state)
{
	uint64_t params[3] = {harness.base, 1000}, huge[3] = {harness.base + 64, 1ull << 62};
	uint64_t twice[3];

	assert_int_equal(run("allocate", 1, 1, params), 0);
	assert_true(((uint64_t *)harness.base)[0] && ((uint64_t *)harness.base)[1]);
	assert_int_equal(run("allocate", 1, 1, huge), 0);
	assert_int_equal(((uint64_t *)harness.base)[8] | ((uint64_t *)harness.base)[9], 0);
	twice[0] = ((uint64_t *)harness.base)[1];
	assert_int_equal(run("release", 1, 1, twice), 0);
	assert_int_equal(run("release", 1, 1, twice), -GDEV_E_TRAP);
}

static void a_fault_outside_of_kernels_ends_the_process(void **state)
{
	static const int signals[] = {SIGSEGV, SIGBUS, SIGFPE};
	volatile uintptr_t nowhere = 16;
	int status;

	for (size_t i = 0; i < array_length(signals); i++) {
		pid_t child = fork();
		if (!child) {
			struct rlimit none = {0, 0};
			setrlimit(RLIMIT_CORE, &none);
			signal(signals[i], SIG_DFL);
			harness_start(&harness, &gdev_device_backend);
			if (i == 0)
				*(volatile int *)nowhere = 1;
			kill(getpid(), signals[i]);
			pause();
		}
		assert_int_equal(waitpid(child, &status, 0), child);
		assert_false(WIFEXITED(status) && WEXITSTATUS(status) == 0);
		if (WIFSIGNALED(status))
			assert_int_equal(WTERMSIG(status), signals[i]);
	}
}

struct test {
	void (*run)(void **state);
	const char *argument;
};

/* cmocka takes the signals of faults for the time of each function that it calls, so that the device
 * must be opened in the same one. */
static void with_device(void **state)
{
	const struct test *test = *state;
	void *argument = (void *)test->argument;

	start();
	test->run(&argument);
	stop();
}

/* A test that failed has left its device at work, and nobody can wait for that. */
static int setup(void **state)
{
	if (!started)
		return 0;
	fputs("the test before has failed: no others are run\n", stderr);
	exit(1);
}

#define TEST_WITH(name, value)                                                                     \
	{                                                                                          \
#name " " value, with_device, setup, NULL, &(struct test)                          \
		{                                                                                  \
			name, value                                                                \
		}                                                                                  \
	}
#define TEST(name) TEST_WITH(name, "")

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(
			a_fault_outside_of_kernels_ends_the_process), /* before any handler */
		TEST(every_block_runs_exactly_once_over_the_pool),
		TEST(atomics_add_up_across_blocks_and_queues),
		TEST(huge_grids_of_nothing_end),
		TEST(a_shape_is_compiled_once_however_many_wait_for_it),
		TEST(code_comes_from_the_cache_and_what_is_none_is_compiled_again),
		TEST(code_that_does_not_compile_harms_its_launch_alone),
		TEST(modules_say_what_they_have),
		TEST(limits_of_launches_are_checked),
		TEST(scratch_params_and_variables_are_as_promised),
		TEST(others_go_on_beside_a_kernel_that_does_not_end),
		TEST(a_pause_stops_a_launch_between_blocks),
		TEST(pauses_lose_no_block_and_repeat_none),
		TEST(time_without_a_processor_is_told),
		TEST(threads_have_their_parts_of_the_devices_time),
		TEST(copies_are_told_apart),
		TEST(a_block_that_does_not_end_never_pauses),
		TEST(copies_go_on_when_kernels_have_the_whole_pool),
		cmocka_unit_test(a_long_copy_lets_a_short_one_by),
		TEST(large_copies_are_exact),
		TEST(a_queue_may_be_destroyed_from_done),
		TEST(a_wild_store_breaks_its_space_and_no_other),
		TEST(what_was_queued_behind_a_fault_fails),
		TEST_WITH(a_division_and_a_stack_overflow_are_faults, "divide"),
#if !defined(                                                                                      \
	__SANITIZE_THREAD__) /* which keeps a stack of calls of its own, and that overflows first */
		TEST_WITH(a_division_and_a_stack_overflow_are_faults, "overflow"),
#endif
		TEST(a_copy_of_unmapped_memory_is_an_illegal_address),
		TEST(a_fill_of_read_only_memory_is_an_illegal_address),
		TEST_WITH(trap_and_assert_have_their_own_errors, "trap"),
		TEST_WITH(trap_and_assert_have_their_own_errors, "assert"),
		TEST(threads_that_wait_in_vain_are_named),
		TEST(kernels_print_and_a_bad_string_is_a_fault),
		TEST(kernels_allocate_and_a_wrong_free_is_a_trap),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
