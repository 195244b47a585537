/* SPDX-License-Identifier: MIT
 *
 * Kernels that launch kernels, copies and fills. What a kernel launches runs when its whole grid has ended, as part of the same
 * command: the program keeps its grant until all is done. One runs after the other, each followed by what it launched itself, and
 * then by its tail launches; so the order of every stream is kept, and every event that was recorded before a wait has come. Streams and
 * events are therefore numbers alone. Kernels that wait for what they have launched (before CUDA 12) are not there: their call
 * is unresolved.
 *
 * Each job has two lists, guarded by space->heap_lock: of what is prepared, from launch_prepare() until it is launched, and of
 * what its kernel has launched; and one of what is to run, which belongs to the thread that ends the kernel.
 */
#include "device/cpu/cpu.h"

#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "device/cpu/checking/checking.h"
#include "device/cpu/fault.h"
#include "gdev/error.h"

#define CHILD_MAGIC 0x6c617563u
#define CHILDREN_MAX 65536u     /* prepared or launched and not begun, of a command */
#define STREAM_TAIL 3u          /* cudaStreamTailLaunch */
#define UNIT_BYTES (256u << 10) /* of a row, which one thread moves at a time */

static const struct device_function *running_function(const struct cpu_job *job)
{
	return job->child ? job->child->launch.function : job->command->launch.function;
}

const struct device_launch *cpu_job_launched(
	const struct cpu_job *job, const struct device_command *command)
{
	return job->child ? &job->child->launch : &command->launch;
}

static struct device_function *function_at(const struct device_module *module, uint64_t address)
{
	const struct ptx_kernel *kernel = ptx_kernel_at_address(module->ptx, address);

	for (struct device_function *f = module->functions; kernel && f->kernel; f++)
		if (f->kernel == kernel)
			return f;
	return NULL;
}

struct cpu_child *cpu_child_alloc(size_t param_bytes)
{
	struct cpu_child *child;
	size_t bytes = sizeof *child + param_bytes;

	child = aligned_alloc(16, align_up(bytes, (size_t)16));
	if (child)
		memset(child, 0, bytes);
	return child;
}

/* Lock held. */
static struct cpu_child *child_create(struct cpu_job *job, size_t param_bytes)
{
	struct cpu_child *child =
		job->children < CHILDREN_MAX ? cpu_child_alloc(param_bytes) : NULL;

	if (child)
		job->children++;
	return child;
}

static struct cpu_child *prepare(struct cpu_job *job, struct device_function *function)
{
	struct cpu_child *child = child_create(job, function->kernel->param_bytes);

	if (!child)
		return NULL;
	child->magic = CHILD_MAGIC;
	child->launch.function = function;
	child->launch.params = child->params;
	child->launch.param_bytes = function->kernel->param_bytes;
	list_append(&job->prepared, &child->place);
	if (job->space->checking && child->launch.param_bytes)
		checking_add(job->space->checking, (uint64_t)(uintptr_t)child->params,
			child->launch.param_bytes, true);
	return child;
}

static __attribute__((noreturn)) void end_without_room(const struct ptx_launch *launch)
{
	cpu_end_with(launch, -GDEV_E_OUT_OF_RESOURCES,
		"a kernel has launched more kernels than can wait to run, 65536, or there is no memory for them");
}

void *cpu_child_prepare(const struct ptx_launch *launch, uint64_t address, const uint32_t grid[3],
	const uint32_t block[3], uint32_t shared_bytes)
{
	struct cpu_job *job = launch->owner;
	struct fault_guard *guard = fault_suspend();
	struct device_function *function = function_at(running_function(job)->module, address);
	struct cpu_child *child = NULL;

	if (function) {
		pthread_mutex_lock(&job->space->heap_lock);
		child = prepare(job, function);
		pthread_mutex_unlock(&job->space->heap_lock);
	}
	fault_resume(guard);
	if (!function)
		cpu_end_with(launch, -GDEV_E_ILLEGAL_ADDRESS,
			"a kernel launched what is no kernel of its module");
	if (!child)
		end_without_room(launch);
	memcpy(child->launch.grid, grid, sizeof child->launch.grid);
	memcpy(child->launch.block, block, sizeof child->launch.block);
	child->launch.shared_bytes = shared_bytes;
	return child->params;
}

uint32_t cpu_child_launch(const struct ptx_launch *launch, void *params, uint64_t stream)
{
	struct cpu_job *job = launch->owner;
	struct cpu_child *child =
		(struct cpu_child *)((char *)params - offsetof(struct cpu_child, params));
	struct fault_guard *guard;

	if (child->magic != CHILD_MAGIC) /* faults if there is no such memory */
		cpu_end_with(launch, -GDEV_E_ILLEGAL_ADDRESS,
			"a kernel launched with parameters that are none of a launch");
	guard = fault_suspend();
	pthread_mutex_lock(&job->space->heap_lock);
	child->magic = 0; /* launched once */
	if (job->space->checking)
		checking_remove(job->space->checking, (uint64_t)(uintptr_t)child->params);
	child->tail = stream == STREAM_TAIL;
	list_remove(&child->place);
	list_append(child->tail ? &job->tails : &job->launched, &child->place);
	pthread_mutex_unlock(&job->space->heap_lock);
	fault_resume(guard);
	return 0;
}

/* ---- copies and fills ---- */

/* `move` says what; its place in lists is its own. */
static void move_launch(
	const struct ptx_launch *launch, const struct cpu_child *move, uint64_t stream)
{
	struct cpu_job *job = launch->owner;
	struct fault_guard *guard = fault_suspend();
	struct cpu_child *child;

	pthread_mutex_lock(&job->space->heap_lock);
	child = child_create(job, 0);
	if (child) {
		*child = *move;
		child->tail = stream == STREAM_TAIL;
		list_append(child->tail ? &job->tails : &job->launched, &child->place);
	}
	pthread_mutex_unlock(&job->space->heap_lock);
	fault_resume(guard);
	if (!child)
		end_without_room(launch);
}

static void copy_launch(
	const struct ptx_launch *launch, const struct device_copy *copy, uint64_t stream)
{
	struct cpu_child move = {.kind = DEVICE_COPY, .copy = *copy};

	if (copy->width && copy->height)
		move_launch(launch, &move, stream);
}

static void fill_launch(
	const struct ptx_launch *launch, const struct device_fill *fill, uint64_t stream)
{
	struct cpu_child move = {.kind = DEVICE_FILL, .fill = *fill};

	if (fill->width && fill->height)
		move_launch(launch, &move, stream);
}

/* A unit is a part of a row. */
static uint64_t units_of_row(const struct cpu_child *child)
{
	uint64_t bytes = child->kind == DEVICE_COPY ? child->copy.width
						    : child->fill.width * child->fill.element_bytes;

	return (bytes + UNIT_BYTES - 1) / UNIT_BYTES;
}

static void run_unit(struct cpu_job *job, uint64_t row, uint64_t offset)
{
	const struct device_copy *c = &job->child->copy;
	const struct device_fill *f = &job->child->fill;
	uint64_t to, from, bytes;

	if (job->child->kind == DEVICE_COPY) {
		uint64_t y = row % c->height, z = row / c->height;

		to = c->destination + z * c->destination_slice + y * c->destination_pitch + offset;
		from = c->source + z * c->source_slice + y * c->source_pitch + offset;
		bytes = min_of(c->width - offset, (uint64_t)UNIT_BYTES);
		memmove((void *)(uintptr_t)to, (void *)(uintptr_t)from, bytes);
	} else {
		to = f->destination + row * f->pitch + offset;
		bytes = min_of(f->width * f->element_bytes - offset, (uint64_t)UNIT_BYTES);
		cpu_fill_elements(to, bytes / f->element_bytes, f->element_bytes, f->value);
	}
	if (job->space->checking)
		checking_define(job->space->checking, to, bytes);
}

static void run_units(struct cpu_job *job, struct cpu_slot *slot, uint64_t first, uint64_t end)
{
	uint64_t each = units_of_row(job->child);

	for (uint64_t i = first; i < end; i++)
		run_unit(job, i / each, i % each * UNIT_BYTES);
}

bool cpu_child_moves(struct cpu_job *job, struct device_command *command)
{
	const struct cpu_child *child = job->child;

	if (!child || child->kind == DEVICE_LAUNCH)
		return false;
	cpu_job_units(job, command, run_units,
		units_of_row(child) * (child->kind == DEVICE_COPY
						      ? child->copy.height * child->copy.depth
						      : child->fill.height));
	return true;
}

/* ---- the device runtime's functions ---- */

enum { CUDA_SUCCESS = 0, CUDA_INVALID_VALUE = 1, CUDA_MEMORY_ALLOCATION = 2 };

/* No other stream has such a number, and no event: programs may compare them. */
static uint64_t new_handle(void)
{
	static _Atomic uint64_t last = 1u << 16;

	return atomic_fetch_add(&last, 16);
}

uint32_t cpu_device_call(
	const struct ptx_launch *launch, uint32_t call, const uint64_t *a, void *memory)
{
	void *p;

	switch (call) {
	case PTX_CREATE:
		*(uint64_t *)(uintptr_t)a[0] = new_handle();
		return CUDA_SUCCESS;
	case PTX_COPY:
		copy_launch(launch,
			&(struct device_copy){.destination = a[0],
				.source = a[1],
				.width = a[2],
				.height = 1,
				.depth = 1},
			a[4]);
		return CUDA_SUCCESS;
	case PTX_COPY_2D:
		if (a[4] > a[1] || a[4] > a[3])
			return CUDA_INVALID_VALUE;
		copy_launch(launch,
			&(struct device_copy){.destination = a[0],
				.destination_pitch = a[1],
				.source = a[2],
				.source_pitch = a[3],
				.width = a[4],
				.height = a[5],
				.depth = 1},
			a[7]);
		return CUDA_SUCCESS;
	case PTX_FILL:
		fill_launch(launch,
			&(struct device_fill){.destination = a[0],
				.value = (uint8_t)a[1],
				.element_bytes = 1,
				.width = a[2],
				.height = 1},
			a[3]);
		return CUDA_SUCCESS;
	case PTX_FILL_2D:
		if (a[3] > a[1])
			return CUDA_INVALID_VALUE;
		fill_launch(launch,
			&(struct device_fill){.destination = a[0],
				.pitch = a[1],
				.value = (uint8_t)a[2],
				.element_bytes = 1,
				.width = a[3],
				.height = a[4]},
			a[5]);
		return CUDA_SUCCESS;
	case PTX_GRAPH_LAUNCH:
		return cpu_graph_launch(launch, a[0], a[1]);
	case PTX_ALLOCATE:
		p = cpu_runtime.allocate(launch, a[1]);
		*(uint64_t *)(uintptr_t)a[0] = (uintptr_t)p;
		return p ? CUDA_SUCCESS : CUDA_MEMORY_ALLOCATION;
	case PTX_RELEASE:
		cpu_runtime.release(launch, (void *)(uintptr_t)a[0]);
		return CUDA_SUCCESS;
	}
	return CUDA_SUCCESS;
}

/* ---- what follows ---- */

/* Moves all of one list before the other. */
static void splice(struct list *from, struct list *to)
{
	if (list_empty(from))
		return;
	from->prev->next = to->next;
	to->next->prev = from->prev;
	to->next = from->next;
	from->next->prev = to;
	list_init(from);
}

static void free_all(struct cpu_job *job, struct list *children)
{
	struct cpu_child *child, *next;

	list_for_each_safe (child, next, children, place) {
		if (job->space->checking)
			checking_remove(job->space->checking, (uint64_t)(uintptr_t)child->params);
		free(child);
		job->children--;
	}
	list_init(children);
}

static void drop_child(struct cpu_job *job)
{
	struct cpu_child *child = steal_pointer(&job->child);

	if (child && !child->kept)
		free(child);
}

bool cpu_children_next(struct cpu_job *job)
{
	if (!job->children && !job->child)
		return false;
	drop_child(job);
	free_all(job, &job->prepared);
	splice(&job->tails, &job->waiting);
	splice(&job->launched, &job->waiting);
	if (atomic_load(&job->error))
		return false;
	if (list_empty(&job->waiting))
		return cpu_graph_next(job);
	job->child = list_first(&job->waiting, struct cpu_child, place);
	list_remove(&job->child->place);
	job->children--;
	return true;
}

void cpu_children_init(struct cpu_job *job)
{
	list_init(&job->prepared);
	list_init(&job->launched);
	list_init(&job->tails);
	list_init(&job->waiting);
	list_init(&job->runs);
	list_init(&job->runs_all);
}

void cpu_children_finish(struct cpu_job *job)
{
	drop_child(job);
	if (job->run_of)
		cpu_graph_finish(job);
	if (!job->children)
		return;
	free_all(job, &job->prepared);
	free_all(job, &job->launched);
	free_all(job, &job->tails);
	free_all(job, &job->waiting);
}
