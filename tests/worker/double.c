/* SPDX-License-Identifier: MIT
 *
 * The device double: the null backend, whose commands wait for the test. See harness.h. One thread.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "double.h"
#include "harness.h"

#define HELD_MAX 4096

static struct device_ops ops;
static const struct device_ops *null_ops;
static struct device_command *held[HELD_MAX];
static unsigned held_count, submitted;
static bool holding;
static uint64_t busy_ns = 100;

unsigned double_modules, double_chunks, double_refusals;
struct double_context double_context;

static uint64_t clock_ns = 1000;
static bool together, paused, quiet, follows_refused;
static unsigned followed;

static struct core *watched;

void double_watch(struct core *core)
{
	watched = core;
}

static void expect_unlocked(void)
{
	if (!watched)
		return;
	if (pthread_mutex_trylock(&watched->lock)) {
		print_error("the device is asked for something long, with the lock\n");
		abort(); /* no test could go on */
	}
	pthread_mutex_unlock(&watched->lock);
}

static void execute(struct device_command *command, int error)
{
	if (!error && command->kind == DEVICE_COPY) {
		const struct device_copy *c = &command->copy;
		for (uint64_t z = 0; z < c->depth; z++)
			for (uint64_t y = 0; y < c->height; y++)
				memmove((void *)(c->destination + z * c->destination_slice +
						 y * c->destination_pitch),
					(void *)(c->source + z * c->source_slice +
						 y * c->source_pitch),
					c->width);
	}
	if (!error && command->kind == DEVICE_FILL)
		for (uint64_t y = 0; y < command->fill.height; y++)
			for (uint64_t x = 0; x < command->fill.width; x++)
				memcpy((void *)(command->fill.destination +
						y * command->fill.pitch +
						x * command->fill.element_bytes),
					&command->fill.value, command->fill.element_bytes);
	if (!together)
		command->started_ns = clock_ns;
	clock_ns += busy_ns;
	command->finished_ns = clock_ns;
	command->busy_ns = busy_ns;
	if (error)
		command->fault_address = 0xdead;
	command->done(command, error);
}

static uint64_t overhead_bytes(struct device *device)
{
	return double_context.bytes;
}

static int free_bytes(struct device *device, uint64_t *bytes)
{
	expect_unlocked();
	*bytes = DOUBLE_FREE_BYTES;
	return 0;
}

static uint32_t keeps(struct device_space *space)
{
	return double_context.keeper;
}

static int retire(struct device_space *space)
{
	assert_false(double_context.retired);
	assert_int_equal(double_chunks, 0);
	assert_int_equal(held_count, 0);
	double_context.retired = !double_context.error;
	return double_context.error;
}

static int revive(struct device_space *space)
{
	assert_true(double_context.retired);
	double_context.retired = double_context.error;
	return double_context.error;
}

static void submit(struct device_queue *queue, struct device_command *command)
{
	assert_false(double_context.retired);
	assert_true(held_count < HELD_MAX);
	if (together)
		command->started_ns = clock_ns;
	held[held_count++] = command;
	submitted++;
}

static bool follow(struct device_queue *queue, struct device_queue *awaited)
{
	assert_ptr_not_equal(queue, awaited);
	if (follows_refused)
		return false;
	followed++;
	return true;
}

static struct device_command *take_oldest(void)
{
	struct device_command *oldest = held[0];

	held_count--;
	memmove(held, held + 1, held_count * sizeof *held);
	return oldest;
}

static bool work(struct device *device)
{
	if (holding || !held_count)
		return false;
	execute(take_oldest(), 0);
	return true;
}

static int module_load(struct device_space *space, const void *image, size_t length,
	struct device_log *log, struct device_module **module)
{
	int error;

	if (length >= 3 && !memcmp(image, "bad", 3)) {
		if (log && log->size)
			strncpy(log->text, "line 1: bad", log->size - 1);
		return -GDEV_E_INVALID_PTX;
	}
	error = null_ops->module_load(space, image, length, log, module);
	double_modules += !error;
	return error;
}

static void module_unload(struct device_module *module)
{
	expect_unlocked();
	double_modules--;
	null_ops->module_unload(module);
}

static uint64_t module_bytes(struct device_module *module)
{
	return 4096;
}

/* The variables of every module are managed, and lie where they were placed last. */
static uint64_t module_managed_bytes(struct device_module *module)
{
	return 64;
}

static int module_place(struct device_module *module, uint64_t address)
{
	expect_unlocked();
	memset((void *)(uintptr_t)address, 'v', 64);
	return 0;
}

static int chunk_create(struct device *device, uint64_t bytes, struct device_chunk **chunk)
{
	bool refuses = double_refusals && double_refusals--;
	int error = refuses ? -ENOMEM : null_ops->chunk_create(device, bytes, chunk);

	expect_unlocked();
	assert_false(double_context.retired);
	double_chunks += !error;
	return error;
}

static int chunk_import(struct device *device, int fd, uint64_t bytes, struct device_chunk **chunk)
{
	int error = null_ops->chunk_import(device, fd, bytes, chunk);

	double_chunks += !error;
	return error;
}

static void chunk_destroy(struct device_chunk *chunk)
{
	expect_unlocked();
	double_chunks--;
	null_ops->chunk_destroy(chunk);
}

static int function_get(
	struct device_module *module, const char *name, struct device_function **function)
{
	expect_unlocked();
	if (!strcmp(name, "nothing"))
		return -GDEV_E_SYMBOL_NOT_FOUND;
	return null_ops->function_get(module, name, function);
}

static void function_info(struct device_function *function, struct device_function_info *info)
{
	expect_unlocked();
	*info = (struct device_function_info){
		.param_count = 2,
		.param_bytes = 16,
		.max_threads = 1024,
		.registers = 32,
	};
}

static void function_param(
	struct device_function *function, unsigned index, uint32_t *offset, uint32_t *bytes)
{
	expect_unlocked();
	*offset = index * 8;
	*bytes = 8;
}

/* The variable "v" is 64 bytes somewhere outside of the arena. */
static uint8_t variable[64];

static int global_get(
	struct device_module *module, const char *name, uint64_t *address, uint64_t *bytes)
{
	expect_unlocked();
	if (strcmp(name, "v"))
		return -GDEV_E_SYMBOL_NOT_FOUND;
	*address = (uintptr_t)variable;
	*bytes = sizeof variable;
	return 0;
}

static uint32_t function_occupancy(
	struct device_function *function, uint32_t block_threads, uint32_t shared_bytes)
{
	expect_unlocked();
	return null_ops->function_occupancy(function, block_threads, shared_bytes);
}

static int queue_create(struct device_space *space, int priority, struct device_queue **queue)
{
	expect_unlocked();
	return null_ops->queue_create(space, priority, queue);
}

static void queue_destroy(struct device_queue *queue)
{
	expect_unlocked();
	null_ops->queue_destroy(queue);
}

static int map(
	struct device_space *space, uint64_t address, struct device_chunk *chunk, bool read_only)
{
	expect_unlocked();
	return null_ops->map(space, address, chunk, read_only);
}

static void unmap(struct device_space *space, uint64_t address, struct device_chunk *chunk)
{
	expect_unlocked();
	null_ops->unmap(space, address, chunk);
}

const struct device_ops *double_ops(void)
{
	null_ops = device_ops_find("null");
	ops = *null_ops;
	ops.timing.ahead_ns = 60000;
	ops.submit = submit;
	ops.work = work;
	ops.module_load = module_load;
	ops.module_unload = module_unload;
	ops.module_bytes = module_bytes;
	ops.module_managed_bytes = module_managed_bytes;
	ops.module_place = module_place;
	ops.chunk_create = chunk_create;
	ops.chunk_import = chunk_import;
	ops.chunk_destroy = chunk_destroy;
	ops.function_get = function_get;
	ops.function_info = function_info;
	ops.function_param = function_param;
	ops.global_get = global_get;
	ops.function_occupancy = function_occupancy;
	ops.queue_create = queue_create;
	ops.queue_destroy = queue_destroy;
	ops.map = map;
	ops.unmap = unmap;
	ops.overhead_bytes = overhead_bytes;
	ops.free_bytes = free_bytes;
	ops.keeps = keeps;
	ops.retire = retire;
	ops.revive = revive;
	holding = false;
	held_count = submitted = followed = 0;
	double_modules = double_chunks = 0;
	double_refusals = 0;
	busy_ns = 100;
	together = paused = false;
	return &ops;
}

void double_hold(bool hold)
{
	holding = hold;
}

void double_release(unsigned count, int error)
{
	for (unsigned i = 0; i < count; i++) {
		assert_true(held_count > 0);
		execute(take_oldest(), error);
	}
}

void double_release_newest(int error)
{
	assert_true(held_count > 0);
	execute(held[--held_count], error);
}

void double_follows(bool refuses)
{
	ops.follow = follow;
	follows_refused = refuses;
}

unsigned double_followed(void)
{
	return followed;
}

unsigned double_held(void)
{
	return held_count;
}

unsigned double_submitted(void)
{
	return submitted;
}

const struct device_command *double_oldest(void)
{
	return held_count ? held[0] : NULL;
}

void double_busy_ns(uint64_t ns)
{
	busy_ns = ns;
}

void double_together(void)
{
	together = true;
}

void double_looks(void)
{
	ops.timing.look_ns = 2000000;
}

static bool pause_compute(struct device *device, bool pause)
{
	paused = pause;
	return quiet;
}

void double_pausable(bool is_quiet)
{
	ops.pause = pause_compute;
	quiet = is_quiet;
}

bool double_paused(void)
{
	return paused;
}
