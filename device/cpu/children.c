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
#define CHILDREN_MAX 65536u /* prepared or launched and not begun, of a command */
#define STREAM_TAIL 3u      /* cudaStreamTailLaunch */

struct move { /* of rows of bytes */
	uint64_t destination, destination_pitch, source, source_pitch, width, height;
	bool fills;
	uint8_t value;
};

struct cpu_child {
	struct list place;
	uint32_t magic;
	bool tail, moves; /* moves: it is no launch */
	struct device_launch launch;
	struct move move;
	_Alignas(16) unsigned char params[];
};

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

/* Lock held. */
static struct cpu_child *child_create(struct cpu_job *job, size_t param_bytes)
{
	struct cpu_child *child;
	size_t bytes = sizeof *child + param_bytes;

	child = job->children < CHILDREN_MAX ? aligned_alloc(16, align_up(bytes, (size_t)16))
					     : NULL;
	if (!child)
		return NULL;
	memset(child, 0, bytes);
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

static void move_launch(const struct ptx_launch *launch, struct move move, uint64_t stream)
{
	struct cpu_job *job = launch->owner;
	struct fault_guard *guard;
	struct cpu_child *child;

	if (!move.width || !move.height)
		return;
	guard = fault_suspend();
	pthread_mutex_lock(&job->space->heap_lock);
	child = child_create(job, 0);
	if (child) {
		child->moves = true;
		child->move = move;
		child->tail = stream == STREAM_TAIL;
		list_append(child->tail ? &job->tails : &job->launched, &child->place);
	}
	pthread_mutex_unlock(&job->space->heap_lock);
	fault_resume(guard);
	if (!child)
		end_without_room(launch);
}

static void run_rows(struct cpu_job *job, struct cpu_slot *slot, uint64_t first, uint64_t end)
{
	const struct move *m = &job->child->move;

	for (uint64_t y = first; y < end; y++) {
		uint64_t at = m->destination + y * m->destination_pitch;
		void *to = (void *)(uintptr_t)at;

		if (m->fills)
			memset(to, m->value, m->width);
		else
			memmove(to, (void *)(uintptr_t)(m->source + y * m->source_pitch), m->width);
		if (job->space->checking)
			checking_define(job->space->checking, at, m->width);
	}
}

bool cpu_child_moves(struct cpu_job *job, struct device_command *command)
{
	if (!job->child || !job->child->moves)
		return false;
	cpu_job_rows(job, command, run_rows, job->child->move.height);
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
		move_launch(launch,
			(struct move){
				.destination = a[0], .source = a[1], .width = a[2], .height = 1},
			a[4]);
		return CUDA_SUCCESS;
	case PTX_COPY_2D:
		if (a[4] > a[1] || a[4] > a[3])
			return CUDA_INVALID_VALUE;
		move_launch(launch,
			(struct move){.destination = a[0],
				.destination_pitch = a[1],
				.source = a[2],
				.source_pitch = a[3],
				.width = a[4],
				.height = a[5]},
			a[7]);
		return CUDA_SUCCESS;
	case PTX_FILL:
		move_launch(launch,
			(struct move){.destination = a[0],
				.value = (uint8_t)a[1],
				.width = a[2],
				.height = 1,
				.fills = true},
			a[3]);
		return CUDA_SUCCESS;
	case PTX_FILL_2D:
		if (a[3] > a[1])
			return CUDA_INVALID_VALUE;
		move_launch(launch,
			(struct move){.destination = a[0],
				.destination_pitch = a[1],
				.value = (uint8_t)a[2],
				.width = a[3],
				.height = a[4],
				.fills = true},
			a[5]);
		return CUDA_SUCCESS;
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

bool cpu_children_next(struct cpu_job *job)
{
	if (!job->children && !job->child)
		return false;
	free(steal_pointer(&job->child));
	free_all(job, &job->prepared);
	splice(&job->tails, &job->waiting);
	splice(&job->launched, &job->waiting);
	if (list_empty(&job->waiting) || atomic_load(&job->error))
		return false;
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
}

void cpu_children_finish(struct cpu_job *job)
{
	if (!job->children && !job->child)
		return;
	free(steal_pointer(&job->child));
	free_all(job, &job->prepared);
	free_all(job, &job->launched);
	free_all(job, &job->tails);
	free_all(job, &job->waiting);
}
