/* SPDX-License-Identifier: MIT
 *
 * Jobs of the compute unit: a launch or a fill as blocks that threads take in pieces. How long a
 * piece gets is decided from what the blocks before it took: long enough that taking it costs
 * nothing, short enough that the threads finish together.
 */
#include "device/cpu/cpu.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "device/cpu/checking/checking.h"
#include "device/cpu/fault.h"
#include "gdev/error.h"

#define PIECE_MIN_NS (10 * NS_PER_US)
#define PIECE_MAX_NS (500 * NS_PER_US)
#define WAKE_WORTH_NS (20.0 * NS_PER_US)
#define FILL_BLOCK_BYTES (256u << 10)

/* All blocks must be on the device at once. */
static int check_cooperative(const struct device_launch *launch, uint32_t threads, unsigned slots)
{
	uint64_t blocks = (uint64_t)launch->grid[0] * launch->grid[1] * launch->grid[2];
	uint32_t each = cpu_function_occupancy(launch->function, threads, launch->shared_bytes);

	return blocks <= (uint64_t)each * slots ? 0 : -GDEV_E_INVALID_LAUNCH;
}

int cpu_launch_check(const struct device_launch *launch, unsigned slots)
{
	static const uint32_t grid_max[3] = {0x7fffffff, 65535, 65535};
	static const uint32_t block_max[3] = {1024, 1024, 64};
	const struct ptx_kernel *kernel = launch->function->kernel;
	uint64_t threads = 1;
	int error;

	for (int i = 0; i < 3; i++) {
		if (!launch->grid[i] || launch->grid[i] > grid_max[i])
			return -GDEV_E_INVALID_LAUNCH;
		if (!launch->block[i] || launch->block[i] > block_max[i])
			return -GDEV_E_INVALID_LAUNCH;
		if (kernel->required_block[0] &&
			launch->block[i] != max_of(kernel->required_block[i], 1u))
			return -GDEV_E_INVALID_LAUNCH;
		threads *= launch->block[i];
	}
	if (threads > 1024 || launch->param_bytes < kernel->param_bytes)
		return -GDEV_E_INVALID_LAUNCH;
	if (threads > kernel->max_threads)
		return -GDEV_E_OUT_OF_RESOURCES;
	if ((uint64_t)kernel->shared_bytes + launch->shared_bytes > SHARED_BYTES_MAX)
		return -GDEV_E_INVALID_LAUNCH;
	error = cpu_cluster_check(launch);
	if (error)
		return error;
	return launch->cooperative ? check_cooperative(launch, (uint32_t)threads, slots) : 0;
}

static int grow(void **memory, size_t *size, size_t wanted)
{
	void *larger;

	if (wanted <= *size)
		return 0;
	wanted = align_up(wanted, SCRATCH_ALIGN);
	larger = aligned_alloc(SCRATCH_ALIGN, wanted);
	if (!larger)
		return -ENOMEM;
	free(*memory);
	*memory = larger;
	*size = wanted;
	return 0;
}

static void explain_no_memory(const struct cpu_job *job)
{
	const struct device_host *host = job->space->device->host;
	char sentence[512];

	snprintf(sentence, sizeof sentence, "kernel %s: %s",
		cpu_job_launched(job, job->command)->function->kernel->name, CPU_NO_MEMORY);
	if (host->explain)
		host->explain(host->owner, sentence);
}

int cpu_slot_prepare(struct cpu_slot *slot, struct cpu_job *job)
{
	unsigned blocks = cpu_cluster_blocks(&job->launch);
	int error = grow(&slot->scratch.shared, &slot->shared_bytes,
		blocks * cpu_cluster_part(job->launch.total_shared_bytes));

	if (!error)
		error = grow(&slot->scratch.locals, &slot->locals_bytes,
			blocks * cpu_cluster_part(job->code->local_bytes));
	if (!error)
		error = grow(&slot->scratch.saved, &slot->saved_bytes,
			blocks * cpu_cluster_part(job->code->saved_bytes));
	if (!error && blocks > 1)
		error = cpu_cluster_prepare(slot, blocks);
	if (!error && job->space->checking &&
		!check_state_prepare(&slot->checking, job, &slot->scratch))
		error = -ENOMEM;
	slot->scratch.checking = slot->checking;
	if (!error)
		return 0;
	explain_no_memory(job);
	return -GDEV_E_OUT_OF_RESOURCES;
}

void cpu_slot_finish(struct cpu_slot *slot)
{
	free(slot->scratch.shared);
	free(slot->scratch.locals);
	free(slot->scratch.saved);
	cpu_cluster_finish(slot);
	check_state_destroy(slot->checking);
}

/* Sixteen times the limit: a GPU keeps a call's values in registers and in a frame of some 32 bytes, where native code takes
 * hundreds. */
static void run_launch(struct cpu_job *job, struct cpu_slot *slot, uint64_t first, uint64_t end)
{
	slot->scratch.stack_end = cpu_stack_end(16 * atomic_load(&job->space->stack_bytes));
	if (slot->checking)
		slot->checking->stack = (uint64_t)(uintptr_t)__builtin_frame_address(0);
	job->code->run(&job->launch, &slot->scratch, first, end);
}

static void job_reset(
	struct cpu_job *job, struct device_command *command, cpu_job_run run, uint64_t count)
{
	job->run = run;
	job->command = command;
	job->count = count;
	atomic_store_explicit(&job->next, 0, memory_order_relaxed);
	atomic_store_explicit(&job->blocks_done, 0, memory_order_relaxed);
	atomic_store_explicit(&job->ns_done, 0, memory_order_relaxed);
	atomic_store_explicit(&job->error, 0, memory_order_relaxed);
	job->ns_guess = 0;
	job->running = 0;
	job->ended_ns = 0;
	job->shape = NULL;
	job->code = NULL;
	job->together = false;
}

void cpu_job_units(
	struct cpu_job *job, struct device_command *command, cpu_job_run run, uint64_t units)
{
	job_reset(job, command, run, units);
}

void cpu_job_empty(struct cpu_job *job, struct device_command *command)
{
	job_reset(job, command, NULL, 0);
}

int cpu_job_launch(struct cpu_job *job, struct device_command *command, struct cpu_shape *shape)
{
	const struct device_launch *l = cpu_job_launched(job, command);
	struct device_module *module = l->function->module;
	int error = grow(&job->params, &job->params_size, max_of(l->param_bytes, 1u));

	if (error)
		return error;
	memcpy(job->params, l->params, l->param_bytes); /* for its alignment */
	job_reset(job, command, run_launch, (uint64_t)l->grid[0] * l->grid[1] * l->grid[2]);
	job->shape = shape;
	job->code = shape->code;
	job->ns_guess = shape->ns_per_block;
	job->launch = (struct ptx_launch){
		.params = job->params,
		.globals = __atomic_load_n(&module->globals, __ATOMIC_ACQUIRE),
		.grid = {l->grid[0], l->grid[1], l->grid[2]},
		.block = {l->block[0], l->block[1], l->block[2]},
		.dynamic_shared_bytes = l->shared_bytes,
		.total_shared_bytes = l->function->kernel->shared_bytes + l->shared_bytes,
		.grid_id = module->space->device->grids++,
		.runtime = &cpu_runtime,
		.owner = job,
		.graph = cpu_graph_current(job),
	};
	if (cpu_cluster_shape(l, job->launch.cluster) && cpu_cluster_blocks(&job->launch) > 1) {
		job->run = cpu_cluster_run;
		job->count /= cpu_cluster_blocks(&job->launch);
	}
	if (module->space->checking)
		job->check_from = atomic_fetch_add(&module->space->checking->tick, 1) + 1;
	if (l->cooperative) {
		job->together = job->count > 1;
		job->workspace[0] = 0;
		job->launch.workspace = (uint64_t)(uintptr_t)job->workspace;
	}
	return 0;
}

/* ---- fills ---- */

typedef uint16_t unaligned_16 __attribute__((aligned(1)));
typedef uint32_t unaligned_32 __attribute__((aligned(1)));

void cpu_fill_elements(uint64_t destination, uint64_t count, uint32_t element_bytes, uint32_t value)
{
	void *at = (void *)(uintptr_t)destination;

	switch (element_bytes) {
	case 1:
		memset(at, (int)value, count);
		break;
	case 2:
		for (uint64_t i = 0; i < count; i++)
			((unaligned_16 *)at)[i] = (unaligned_16)value;
		break;
	default:
		for (uint64_t i = 0; i < count; i++)
			((unaligned_32 *)at)[i] = value;
	}
}

static void fill(struct cpu_job *job, uint64_t destination, uint64_t count)
{
	const struct device_fill *f = &job->command->fill;

	cpu_fill_elements(destination, count, f->element_bytes, f->value);
	if (job->space->checking)
		checking_define(job->space->checking, destination, count * f->element_bytes);
}

/* One row: a block is FILL_BLOCK_BYTES of it. */
static void run_fill_flat(struct cpu_job *job, struct cpu_slot *slot, uint64_t first, uint64_t end)
{
	const struct device_fill *f = &job->command->fill;
	uint64_t block = FILL_BLOCK_BYTES / f->element_bytes;
	uint64_t from = first * block, to = min_of(end * block, f->width * f->height);

	fill(job, f->destination + from * f->element_bytes, to - from);
}

/* Rows apart from each other: a block is a row. */
static void run_fill_rows(struct cpu_job *job, struct cpu_slot *slot, uint64_t first, uint64_t end)
{
	const struct device_fill *f = &job->command->fill;

	for (uint64_t y = first; y < end; y++)
		fill(job, f->destination + y * f->pitch, f->width);
}

void cpu_job_fill(struct cpu_job *job, struct device_command *command)
{
	const struct device_fill *f = &command->fill;
	uint64_t bytes = f->width * f->height * f->element_bytes;

	if (f->height <= 1 || f->pitch == f->width * f->element_bytes)
		job_reset(job, command, run_fill_flat,
			(bytes + FILL_BLOCK_BYTES - 1) / FILL_BLOCK_BYTES);
	else
		job_reset(job, command, run_fill_rows, f->width ? f->height : 0);
}

/* ---- pieces ---- */

double cpu_job_ns_per_block(const struct cpu_job *job)
{
	uint64_t blocks = atomic_load_explicit(&job->blocks_done, memory_order_relaxed);
	uint64_t ns = atomic_load_explicit(&job->ns_done, memory_order_relaxed);

	return blocks ? (double)ns / (double)blocks : job->ns_guess;
}

double cpu_job_left_ns(const struct cpu_job *job)
{
	uint64_t next = atomic_load_explicit(&job->next, memory_order_relaxed);
	double ns = cpu_job_ns_per_block(job);

	return next >= job->count ? 0 : ns > 0 ? (double)(job->count - next) * ns : INFINITY;
}

void cpu_job_lost(struct cpu_job *job, uint64_t lost_ns)
{
	uint64_t ns = atomic_load_explicit(&job->ns_done, memory_order_relaxed);

	while (!atomic_compare_exchange_weak_explicit(&job->ns_done, &ns, ns - min_of(ns, lost_ns),
		memory_order_relaxed, memory_order_relaxed))
		;
}

unsigned cpu_job_wants(const struct cpu_job *job)
{
	uint64_t next = atomic_load_explicit(&job->next, memory_order_relaxed);
	double worth;

	if (next >= job->count)
		return 0;
	if (job->space->checking)
		return 1;
	worth = (double)(job->count - next) * cpu_job_ns_per_block(job) / WAKE_WORTH_NS;
	worth = min_of(worth, (double)min_of(job->count - next, (uint64_t)CPU_THREADS_MAX));
	return 1 + (unsigned)worth;
}

/* One more thread is worth waking when those that are at it have enough left for long enough. */
bool cpu_job_open(const struct cpu_job *job)
{
	uint64_t next = atomic_load_explicit(&job->next, memory_order_relaxed);

	if (next >= job->count || !job->running)
		return next < job->count;
	if (job->space->checking) /* one thread at a time: checking.h */
		return false;
	return (double)(job->count - next) * cpu_job_ns_per_block(job) >
	       WAKE_WORTH_NS * job->running;
}

bool cpu_job_begins_short(const struct cpu_job *job)
{
	return !job->together && job->ns_guess > 0 && job->ns_guess < (double)PIECE_MIN_NS &&
	       !atomic_load_explicit(&job->next, memory_order_relaxed);
}

/* How many blocks to take next; one when nothing is known about them. */
static uint64_t piece_blocks(const struct cpu_job *job, unsigned threads)
{
	uint64_t next = atomic_load_explicit(&job->next, memory_order_relaxed);
	double ns = cpu_job_ns_per_block(job), least, most, fair;

	if (next >= job->count || ns <= 0)
		return 1;
	least = (double)PIECE_MIN_NS / ns;
	most = (double)PIECE_MAX_NS / ns;
	fair = (double)(job->count - next) / (4.0 * threads);
	fair = next ? min_of(max_of(fair, least), most) : least;
	return fair < 1 ? 1 : (uint64_t)min_of(fair, (double)job->count);
}

struct piece {
	struct cpu_job *job;
	struct cpu_slot *slot;
	uint64_t first, end;
};

static void run_piece(void *argument)
{
	struct piece *piece = argument;

	piece->job->run(piece->job, piece->slot, piece->first, piece->end);
}

/* The first error is the job's; nobody takes more of it. */
void cpu_job_fail(struct cpu_job *job, int error, uint64_t address)
{
	int none = 0;

	if (atomic_compare_exchange_strong(&job->error, &none, error))
		atomic_store_explicit(&job->fault_address, address, memory_order_relaxed);
	atomic_store_explicit(&job->next, job->count, memory_order_relaxed);
}

void cpu_job_run_blocks(struct cpu_job *job, struct cpu_slot *slot, uint64_t first, uint64_t end)
{
	struct piece piece = {.job = job, .slot = slot, .first = first, .end = end};
	uint64_t address = 0;
	int error = fault_run(run_piece, &piece, &address);

	if (error)
		cpu_job_fail(job, error, address);
}

bool cpu_job_piece(struct cpu_job *job, struct cpu_slot *slot, unsigned threads, uint64_t *now_ns)
{
	uint64_t blocks = job->together ? job->count : piece_blocks(job, threads);
	uint64_t first, end, started;
	int error = 0;

	if (atomic_load_explicit(&job->space->device->paused, memory_order_relaxed))
		return false;
	first = atomic_fetch_add_explicit(&job->next, blocks, memory_order_relaxed);
	if (first >= job->count)
		return false;
	end = min_of(first + blocks, job->count);
	if (atomic_load_explicit(&job->space->broken, memory_order_relaxed))
		error = -GDEV_E_SESSION_LOST;
	else if (job->code)
		error = cpu_slot_prepare(slot, job);
	started = clock_now_ns();
	if (error)
		cpu_job_fail(job, error, 0);
	else if (job->together)
		cpu_job_together(job, slot);
	else
		cpu_job_run_blocks(job, slot, first, end);
	*now_ns = clock_now_ns();
	atomic_fetch_add_explicit(&job->ns_done, *now_ns - started, memory_order_relaxed);
	atomic_fetch_add_explicit(&job->blocks_done, end - first, memory_order_relaxed);
	return true;
}
