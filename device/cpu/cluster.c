/* SPDX-License-Identifier: MIT
 *
 * Launches with clusters. A thread of the pool takes a whole cluster. Its blocks take turns on that thread, each on a stack of
 * its own, so that what one does to another's shared memory needs no more order than what its own threads do. A block gives its
 * turn to the others where it waits for all of them (cluster_meet), where it looks at memory again and again
 * (cluster_give_way), and when it ends. One that ends has come to every barrier of the cluster. When one fails, the others
 * are left where they are.
 */
#include <errno.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <ucontext.h>

#include "base/cleanup.h"
#include "device/cpu/cpu.h"
#include "device/cpu/fault.h"
#include "gdev/error.h"

#define STACK_BYTES (512u << 10)
#define GUARD_BYTES (64u << 10) /* at the low end of a stack: nobody may access it */

struct member {
	ucontext_t context;
	struct ptx_scratch scratch; /* parts of that of the pool's thread */
	uint64_t block;             /* in the grid's linear order */
	uint64_t waits;             /* how often it has come to the cluster's barrier */
	bool waiting, ended;
	void *stack;
};

struct cluster {
	struct cpu_job *job;
	struct member members[CLUSTER_MAX];
	unsigned count, at;
	ucontext_t back; /* of the pool's thread */
};

/* That the calling thread runs. initial-exec: see fault.c. */
static __thread struct cluster *current __attribute__((tls_model("initial-exec")));

/* ---- shapes ---- */

bool cpu_cluster_shape(const struct device_launch *launch, uint32_t shape[3])
{
	const uint32_t *from =
		launch->cluster[0] ? launch->cluster : launch->function->kernel->cluster;

	for (unsigned k = 0; k < 3; k++)
		shape[k] = from[0] ? max_of(from[k], 1u) : 0;
	return from[0];
}

int cpu_cluster_check(const struct device_launch *launch)
{
	uint32_t shape[3];
	uint64_t blocks = 1;

	if (!cpu_cluster_shape(launch, shape))
		return 0;
	for (unsigned k = 0; k < 3; k++) {
		if (launch->function->kernel->cluster[0] &&
			shape[k] != max_of(launch->function->kernel->cluster[k], 1u))
			return -GDEV_E_INVALID_LAUNCH;
		if (shape[k] > CLUSTER_MAX || launch->grid[k] % shape[k])
			return -GDEV_E_INVALID_LAUNCH;
		blocks *= shape[k];
	}
	if (blocks > CLUSTER_MAX)
		return -GDEV_E_INVALID_LAUNCH;
	if (blocks > 1 && (launch->cooperative || launch->function->module->space->checking))
		return -ENOTSUP;
	return 0;
}

unsigned cpu_cluster_blocks(const struct ptx_launch *launch)
{
	return launch->cluster[0] ? launch->cluster[0] * launch->cluster[1] * launch->cluster[2]
				  : 1;
}

int cpu_function_clusters(
	struct device_function *function, const struct device_launch *launch, uint32_t *count)
{
	uint32_t threads = launch->block[0] * launch->block[1] * launch->block[2];
	uint32_t shape[3], each = cpu_function_occupancy(function, threads, launch->shared_bytes);

	*count = CLUSTER_MAX;
	if (!launch->cluster[0])
		return 0;
	*count = 0;
	if ((uint64_t)launch->cluster[0] * launch->cluster[1] * launch->cluster[2] > CLUSTER_MAX)
		return 0; /* libraries ask until there are none */
	if (cpu_cluster_check(launch))
		return -GDEV_E_INVALID_LAUNCH;
	cpu_cluster_shape(launch, shape);
	*count = each ? function->module->space->device->threads * each /
				 (shape[0] * shape[1] * shape[2])
		      : 0;
	return 0;
}

/* ---- turns ---- */

static void run_member(void *argument)
{
	const struct member *m = argument;
	const struct cpu_job *job = current->job;

	job->code->run(&job->launch, &m->scratch, m->block, m->block + 1);
}

/* The first function on a member's stack. It does not return: another turn would have no stack to go back to. */
static void member_begins(void)
{
	struct member *m = &current->members[current->at];

	uint64_t address = 0;
	int error = fault_run(run_member, m, &address);

	if (error)
		cpu_job_fail(current->job, error, address);
	m->ended = true;
	swapcontext(&m->context, &current->back);
	abort();
}

/* Until it gets its next turn. The thread's guard against faults is the member's own. */
static void leave_turn(void)
{
	struct member *m = &current->members[current->at];
	struct fault_guard *guard = fault_suspend();

	swapcontext(&m->context, &current->back);
	fault_resume(guard);
}

void cpu_cluster_meet(const struct ptx_launch *launch, void *memory)
{
	struct member *m = &current->members[current->at];

	m->waits++;
	m->waiting = true;
	leave_turn();
	m->waiting = false;
}

void cpu_cluster_give_way(const struct ptx_launch *launch, void *memory)
{
	leave_turn();
}

static bool may_run(const struct cluster *c, const struct member *m)
{
	if (m->ended)
		return false;
	for (unsigned k = 0; m->waiting && k < c->count; k++)
		if (!c->members[k].ended && c->members[k].waits < m->waits)
			return false;
	return true;
}

static bool has_failed(const struct cpu_job *job)
{
	return atomic_load_explicit(&job->error, memory_order_relaxed) ||
	       atomic_load_explicit(&job->space->broken, memory_order_relaxed);
}

/* A member that waits least may always run, so that the round ends only when all have ended, or one has failed. */
static void take_turns(struct cluster *c)
{
	bool again = true;

	while (again && !has_failed(c->job)) {
		again = false;
		for (c->at = 0; c->at < c->count && !has_failed(c->job); c->at++) {
			struct member *m = &c->members[c->at];

			if (!may_run(c, m))
				continue;
			swapcontext(&c->back, &m->context);
			again = true;
		}
	}
}

/* ---- a cluster ---- */

/* The block of that rank, in the grid's linear order. */
static uint64_t block_of(const struct ptx_launch *l, uint64_t cluster, unsigned rank)
{
	uint64_t x = l->grid[0] / l->cluster[0], y = l->grid[1] / l->cluster[1];
	uint64_t at[3] = {cluster % x, cluster / x % y, cluster / x / y};
	uint32_t in[3] = {rank % l->cluster[0], rank / l->cluster[0] % l->cluster[1],
		rank / l->cluster[0] / l->cluster[1]};

	for (unsigned k = 0; k < 3; k++)
		at[k] = at[k] * l->cluster[k] + in[k];
	return (at[2] * l->grid[1] + at[1]) * l->grid[0] + at[0];
}

static void member_prepare(struct cluster *c, const struct cpu_slot *slot, unsigned rank)
{
	struct member *m = &c->members[rank];
	const struct cpu_job *job = c->job;
	uint64_t shared = cpu_cluster_part(job->launch.total_shared_bytes);

	m->scratch = slot->scratch;
	m->scratch.shared = (char *)slot->scratch.shared + rank * shared;
	m->scratch.locals =
		(char *)slot->scratch.locals + rank * cpu_cluster_part(job->code->local_bytes);
	m->scratch.saved =
		(char *)slot->scratch.saved + rank * cpu_cluster_part(job->code->saved_bytes);
	m->scratch.stack_end = (uint64_t)(uintptr_t)m->stack + 2 * GUARD_BYTES;
	m->scratch.cluster_rank = rank;
	m->scratch.cluster_stride = (uint32_t)shared;
}

static void member_start(struct cluster *c, unsigned rank, uint64_t block)
{
	struct member *m = &c->members[rank];

	m->block = block;
	m->waits = 0;
	m->waiting = m->ended = false;
	getcontext(&m->context);
	m->context.uc_stack.ss_sp = (char *)m->stack + GUARD_BYTES;
	m->context.uc_stack.ss_size = STACK_BYTES - GUARD_BYTES;
	m->context.uc_link = NULL;
	makecontext(&m->context, member_begins, 0);
}

void cpu_cluster_run(struct cpu_job *job, struct cpu_slot *slot, uint64_t first, uint64_t end)
{
	struct cluster *c = slot->cluster;
	struct fault_guard *guard = fault_suspend();

	c->job = job;
	c->count = cpu_cluster_blocks(&job->launch);
	for (unsigned rank = 0; rank < c->count; rank++)
		member_prepare(c, slot, rank);
	current = c;
	for (uint64_t k = first; k < end && !has_failed(job); k++) {
		for (unsigned rank = 0; rank < c->count; rank++)
			member_start(c, rank, block_of(&job->launch, k, rank));
		take_turns(c);
	}
	current = NULL;
	fault_resume(guard);
}

int cpu_cluster_prepare(struct cpu_slot *slot, unsigned blocks)
{
	if (!slot->cluster)
		slot->cluster = calloc(1, sizeof *slot->cluster);
	if (!slot->cluster)
		return -ENOMEM;
	for (unsigned k = 0; k < blocks; k++) {
		struct member *m = &slot->cluster->members[k];
		void *stack;

		if (m->stack)
			continue;
		stack = mmap(NULL, STACK_BYTES, PROT_READ | PROT_WRITE,
			MAP_PRIVATE | MAP_ANONYMOUS | MAP_STACK | MAP_NORESERVE, -1, 0);
		if (stack == MAP_FAILED)
			return -ENOMEM;
		if (mprotect(stack, GUARD_BYTES, PROT_NONE)) {
			munmap(stack, STACK_BYTES);
			return -ENOMEM;
		}
		m->stack = stack;
	}
	return 0;
}

void cpu_cluster_finish(struct cpu_slot *slot)
{
	for (unsigned k = 0; slot->cluster && k < CLUSTER_MAX; k++)
		if (slot->cluster->members[k].stack)
			munmap(slot->cluster->members[k].stack, STACK_BYTES);
	free(slot->cluster);
}
