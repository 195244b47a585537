/* SPDX-License-Identifier: MIT
 *
 * Kernels that launch kernels. What a kernel launches runs when its whole grid has ended, as part of the same command: the
 * program keeps its grant until all is done. One runs after the other, each followed by what it launched itself, and then by
 * its tail launches; so the order of every stream is kept, and nothing is promised beyond that. Kernels that wait for what
 * they have launched (before CUDA 12) are not there: their call is unresolved.
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

struct cpu_child {
	struct list place;
	uint32_t magic;
	bool tail;
	struct device_launch launch;
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

static struct cpu_child *prepare(struct cpu_job *job, struct device_function *function)
{
	struct cpu_child *child;
	size_t bytes = sizeof *child + function->kernel->param_bytes;

	child = job->children < CHILDREN_MAX ? aligned_alloc(16, align_up(bytes, (size_t)16))
					     : NULL;
	if (!child)
		return NULL;
	memset(child, 0, bytes);
	child->magic = CHILD_MAGIC;
	child->launch.function = function;
	child->launch.params = child->params;
	child->launch.param_bytes = function->kernel->param_bytes;
	job->children++;
	list_append(&job->prepared, &child->place);
	if (job->space->checking && child->launch.param_bytes)
		checking_add(job->space->checking, (uint64_t)(uintptr_t)child->params,
			child->launch.param_bytes, true);
	return child;
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
		cpu_end_with(launch, -GDEV_E_OUT_OF_RESOURCES,
			"a kernel has launched more kernels than can wait to run, 65536, or there is no memory for them");
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
