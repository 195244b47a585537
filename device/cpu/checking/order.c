/* SPDX-License-Identifier: MIT
 *
 * What orders the accesses of a block's threads, and whether all came that must: barriers and fences.
 */
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "device/cpu/checking/checking.h"
#include "device/cpu/cpu.h"

static bool checks(const struct check_state *s, enum device_check check)
{
	return s->checking->checks >> check & 1;
}

static void advance(struct check_state *s)
{
	s->tick = atomic_fetch_add_explicit(&s->checking->tick, 1, memory_order_relaxed) + 1;
	s->quick.mark =
		s->tick << CELL_TICK | (uint64_t)s->slot << CELL_SLOT | CELL_BYTES << CELL_MASK;
}

/* ---- a pool thread's state ---- */

static int grow_cells(struct check_state *s, size_t count)
{
	struct check_cell *cells;

	if (count <= s->cell_capacity)
		return 0;
	cells = calloc(count, sizeof *cells);
	if (!cells)
		return -1;
	free(s->quick.cells);
	s->quick.cells = cells;
	s->cell_capacity = count;
	return 0;
}

void check_forget(struct check_state *s, unsigned seen)
{
	memset(s->quick.ranges, 0, sizeof s->quick.ranges);
	s->quick.seen = seen;
}

bool check_state_prepare(
	struct check_state **state, struct cpu_job *job, const struct ptx_scratch *scratch)
{
	const struct ptx_launch *l = &job->launch;
	struct check_state *s = *state;

	if (!s) {
		s = aligned_alloc(64, align_up(sizeof *s, 64));
		if (!s)
			return false;
		memset(s, 0, sizeof *s);
		*state = s;
	}
	s->checking = job->space->checking;
	s->quick.changes = &s->checking->changes;
	check_forget(s, __atomic_load_n(s->quick.changes, __ATOMIC_RELAXED));
	s->job = job;
	s->slot = scratch->pool_thread & 255;
	s->quick.launched = job->check_from;
	s->threads = l->block[0] * l->block[1] * l->block[2];
	s->quick.shared = (uint64_t)(uintptr_t)scratch->shared;
	s->quick.shared_bytes = l->total_shared_bytes;
	s->locals = (uint64_t)(uintptr_t)scratch->locals;
	s->local_bytes = job->code->local_bytes / s->threads;
	s->param_bytes = cpu_job_launched(job, job->command)->param_bytes;
	return !grow_cells(s, (s->quick.shared_bytes + 3) / 4);
}

void check_state_destroy(struct check_state *s)
{
	if (!s)
		return;
	free(s->quick.cells);
	free(s->copies);
	free(s);
}

/* ---- blocks and barriers ---- */

static void begin_block(struct check_state *s, uint64_t block)
{
	s->block = block;
	advance(s);
	s->quick.began = s->quick.since_barrier = s->since_warp = s->tick;
	s->since_fence = s->quick.launched;
	s->fenced = s->strong = false;
	s->expected = 0;
	s->copy_count = s->bulk_out = 0;
	memset(s->groups, 0, s->threads * sizeof *s->groups);
	memset(s->bulk_groups, 0, s->threads * sizeof *s->bulk_groups);
}

/* When all threads that come to the last barrier have come. */
static void judge_barrier(struct check_state *s)
{
	if (s->arrived && s->arrived < s->expected && checks(s, DEVICE_CHECK_SYNC))
		check_report(s, CHECK_BARRIER, s->barrier_line, s->arrived_last,
			"%u of the block's %u threads come to it together", s->arrived,
			s->expected);
	s->expected = 0;
}

static void begin_barrier(struct check_state *s, uint32_t line, uint32_t expected)
{
	judge_barrier(s);
	s->barrier_line = line;
	s->expected = expected;
	s->arrived = 0;
	advance(s);
	s->quick.since_barrier = s->since_warp = s->tick;
	check_copies_stay(s);
}

/* ---- fences ---- */

static void order_all(struct check_state *s)
{
	advance(s);
	s->quick.since_barrier = s->since_warp = s->since_fence = s->tick;
}

void check_strong(struct check_state *s)
{
	s->strong = true;
	if (s->fenced)
		order_all(s);
}

static void fence(struct check_state *s, bool waits)
{
	s->fenced = true;
	if (s->strong || waits)
		order_all(s);
}

void check_order(const struct ptx_launch *launch, const struct ptx_scratch *scratch, uint32_t order,
	uint32_t line, uint32_t thread, uint64_t value)
{
	struct check_state *s = scratch->checking;

	switch (order) {
	case PTX_BLOCK_BEGINS:
		begin_block(s, value);
		break;
	case PTX_BLOCK_ENDS:
		judge_barrier(s);
		check_copies_end(s);
		break;
	case PTX_BARRIER:
		begin_barrier(s, line, (uint32_t)value);
		break;
	case PTX_ARRIVED:
		s->arrived++;
		s->arrived_last = thread;
		break;
	case PTX_WARP_BARRIER:
		advance(s);
		s->since_warp = s->tick;
		break;
	case PTX_WARP_ARRIVED:
		if (!(value >> thread % 32 & 1) && checks(s, DEVICE_CHECK_SYNC))
			check_report(s, CHECK_WARP_BARRIER, line, thread,
				"lane %u waits, and the mask is 0x%08x", thread % 32,
				(uint32_t)value);
		break;
	case PTX_FENCE:
		fence(s, value);
		break;
	case PTX_COMMITTED:
		s->groups[thread]++;
		break;
	case PTX_AWAITED:
		check_copies_awaited(s, CHECK_COPY, thread, value);
		break;
	case PTX_BULK_COMMITTED:
		s->bulk_groups[thread]++;
		break;
	case PTX_BULK_AWAITED:
		check_copies_awaited(s, CHECK_BULK_OUT, thread, value);
		break;
	case PTX_PASSED:
		if (value)
			check_copies_counted(s, value);
		break;
	}
}
