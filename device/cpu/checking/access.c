/* SPDX-License-Identifier: MIT
 *
 * Judges an access of a kernel, before it is made: whether there is memory, whether it has a value, and whether another
 * thread accessed it without anything that orders the two.
 *
 * Ticks count what orders. An earlier access is ordered before that of the thread at hand, if
 *   - it is of an earlier launch, or, in shared memory, of an earlier block: it was before `launched`, or `began`,
 *   - it is of this block, and of the same thread, or before the last barrier of the block, or of the same warp and before the
 *     last barrier of a warp,
 *   - it is of another block, and before `since_fence`: since then this block has had a fence and a strong access, which is how
 *     blocks wait for one another. That does not look which block was waited for, so that it may excuse a race, and never
 *     invents one.
 * A store that finds its value there already races with nobody: threads that all set one flag are right.
 */
#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"
#include "device/cpu/checking/checking.h"
#include "device/cpu/cpu.h"

struct access {
	struct check_state *state;
	struct ptx_access is;
	uint64_t address, value;
	uint32_t bytes, line, thread;
	bool valued;    /* `value` is what is stored */
	bool shared;    /* memory of the block */
	bool defined;   /* has values from the beginning */
	bool unordered; /* a race was found */
	bool undefined, pending;
	uint64_t other; /* whom with */
	bool other_wrote;
};

static const char *kind_name(const struct ptx_access *is)
{
	static const char *const names[] = {
		"read", "written", "updated by an atomic operation", "copied to"};

	return names[is->kind];
}

/* ---- where there is no memory ---- */

static uint64_t refuse(struct access *a, const struct check_range *near)
{
	const char *how = kind_name(&a->is);

	if (!(a->state->checking->checks & 1u << DEVICE_CHECK_MEMORY))
		return a->address;
	if (a->shared)
		check_report(a->state, CHECK_OUT_OF_BOUNDS, a->line, a->thread,
			"%u bytes are %s at offset %lld of the block's shared memory, which has %llu bytes",
			a->bytes, how, (long long)(a->address - a->state->quick.shared),
			(unsigned long long)a->state->quick.shared_bytes);
	else if (!near || !near->bytes)
		check_report(a->state, CHECK_OUT_OF_BOUNDS, a->line, a->thread,
			"%u bytes are %s at 0x%llx, where nothing is", a->bytes, how,
			(unsigned long long)a->address);
	else
		check_report(a->state, CHECK_OUT_OF_BOUNDS, a->line, a->thread,
			"%u bytes are %s at 0x%llx, %lld bytes from the beginning of the nearest memory, "
			"which has %llu bytes at 0x%llx",
			a->bytes, how, (unsigned long long)a->address,
			(long long)(a->address - near->base), (unsigned long long)near->bytes,
			(unsigned long long)near->base);
	return (uint64_t)(uintptr_t)a->state->sink;
}

/* ---- cells ---- */

static bool ordered(const struct access *a, uint64_t mark, bool several)
{
	const struct check_state *s = a->state;
	uint64_t when = mark >> CELL_TICK;
	uint32_t thread = mark >> CELL_THREAD & 1023;
	uint32_t slot = s->slot;

	if (when < (a->shared ? s->quick.began : s->quick.launched))
		return true;
	if (when < s->quick.began || (mark >> CELL_SLOT & 255) != slot)
		return when < s->since_fence;
	return (thread == a->thread && !several) || when < s->quick.since_barrier ||
	       (thread / 32 == a->thread / 32 && when < s->since_warp);
}

static bool conflicts(const struct access *a, uint64_t mark, unsigned mask, bool several)
{
	return (mark >> CELL_MASK & mask) && !(a->is.strong && mark & CELL_STRONG) &&
	       !ordered(a, mark, several);
}

static uint64_t mark_of(const struct access *a, unsigned mask)
{
	return a->state->tick << CELL_TICK | (uint64_t)a->state->slot << CELL_SLOT |
	       a->thread << CELL_THREAD | mask << CELL_MASK | (a->is.strong ? CELL_STRONG : 0);
}

static void note_race(struct access *a, uint64_t mark, bool wrote)
{
	a->unordered = true;
	a->other = mark;
	a->other_wrote = wrote;
}

static unsigned defined_bytes(const struct access *a, const struct check_cell *cell)
{
	return a->shared && cell->write >> CELL_TICK < a->state->quick.began
		       ? 0
		       : cell->write & CELL_BYTES;
}

static bool is_pending(uint64_t write)
{
	return write & CELL_PENDING && !(write & CELL_STRONG);
}

/* Strong accesses of several threads, which do not race with each other, but with others. */
static bool by_several(uint64_t write)
{
	return write & CELL_SEVERAL && write & CELL_STRONG;
}

/* Whether the mark is of the thread at hand. */
static bool is_own(const struct access *a, uint64_t mark)
{
	return mark >> CELL_TICK >= a->state->quick.began &&
	       (mark >> CELL_SLOT & 255) == a->state->slot &&
	       (mark >> CELL_THREAD & 1023) == a->thread;
}

/* Which bytes others than the thread at hand have read. A read's mark is of the thread that was last, and its CELL_BYTES are those
 * that others have read. As the threads of a block run one after the other between two barriers, the thread at hand has
 * read nothing of a cell whose mark is another's. */
static unsigned read_by_others(const struct access *a, uint64_t read)
{
	return (is_own(a, read) ? read : read >> CELL_MASK) & CELL_BYTES;
}

/* What was read before and is ordered by nothing but that the same thread did it, and what others read. */
static uint64_t with_reads(const struct access *a, uint64_t mark, uint64_t read)
{
	uint64_t others = read_by_others(a, read);

	if (!((read ^ mark) & CELL_STRONG))
		mark |= read & CELL_BYTES << CELL_MASK;
	return mark | others << CELL_MASK | others | (others ? CELL_SEVERAL : 0);
}

/* The mark of strong writes of several threads keeps that of the first. */
static uint64_t with_others(uint64_t mark, uint64_t before)
{
	return (mark & ~(1023ull << CELL_THREAD)) | (before & 1023ull << CELL_THREAD) |
	       CELL_SEVERAL | (before & CELL_BYTES << CELL_MASK);
}

static void read_cell(struct access *a, struct check_cell *cell, unsigned mask)
{
	uint64_t read = cell->read, mark = mark_of(a, mask);

	a->undefined |= !a->defined && mask & ~defined_bytes(a, cell);
	a->pending |= a->shared && is_pending(cell->write) &&
		      cell->write >> CELL_TICK >= a->state->quick.began;
	if (conflicts(a, cell->write, mask, by_several(cell->write)))
		note_race(a, cell->write, true);
	if (read >> CELL_TICK && !ordered(a, read, true))
		mark = with_reads(a, mark, read);
	cell->read = mark;
}

/* same: memory has the value already. */
static void write_cell(struct access *a, struct check_cell *cell, unsigned mask, bool same)
{
	unsigned defined = defined_bytes(a, cell) | mask;
	uint64_t write = cell->write, mark = mark_of(a, mask);
	bool written = conflicts(a, write, mask, by_several(write));
	unsigned others = mask & read_by_others(a, cell->read);
	bool read = others && conflicts(a, cell->read, others, true);

	if (same && (written || read)) {
		cell->write |= mask;
		return;
	}
	if (written)
		note_race(a, cell->write, true);
	else if (read)
		note_race(a, cell->read, false);
	if (a->is.strong && write & CELL_STRONG && !ordered(a, write, by_several(write)))
		mark = with_others(mark, write);
	else if (a->is.kind == PTX_COPIES)
		mark |= CELL_PENDING;
	cell->write = mark | defined;
}

/* The cells of the access, the first of which is of the address rounded down to 4. */
static void visit_cells(struct access *a, struct check_cell *cell)
{
	uint64_t at = a->address, end = at + a->bytes;
	bool same = a->valued && a->is.kind == PTX_WRITES && a->bytes <= sizeof a->value &&
		    !memcmp((const void *)at, &a->value, a->bytes);

	for (; at < end; cell++) {
		unsigned first = at % 4, count = (unsigned)min_of(end - at, (uint64_t)(4 - first));
		unsigned mask = ((1u << count) - 1) << first;

		if (a->is.kind == PTX_READS || a->is.kind == PTX_UPDATES)
			read_cell(a, cell, mask);
		if (a->is.kind != PTX_READS)
			write_cell(a, cell, mask, same);
		at += count;
	}
}

static void report_race(const struct access *a)
{
	const struct check_state *s = a->state;
	const uint32_t *block = s->job->launch.block;
	uint32_t thread = a->other >> CELL_THREAD & 1023;
	bool here =
		a->other >> CELL_TICK >= s->quick.began && (a->other >> CELL_SLOT & 255) == s->slot;
	char who[80] = "another thread";

	if (a->other_wrote || !is_own(a, a->other))
		snprintf(who, sizeof who, "thread (%u,%u,%u)%s of %s block", thread % block[0],
			thread / block[0] % block[1], thread / block[0] / block[1],
			!a->other_wrote && a->other & CELL_SEVERAL ? ", or another," : "",
			here ? "the same" : "another");
	check_report(a->state, CHECK_RACE, a->line, a->thread,
		"%u bytes of %s memory are %s at %s%llx; %s has %s them, and nothing orders the two",
		a->bytes, a->shared ? "shared" : "global", kind_name(&a->is),
		a->shared ? "offset 0x" : "0x",
		(unsigned long long)(a->address - (a->shared ? s->quick.shared : 0)), who,
		a->other_wrote ? "written" : "read");
}

static void report_cells(const struct access *a)
{
	uint32_t checks = a->state->checking->checks;

	if (a->pending && checks & 1u << DEVICE_CHECK_SYNC)
		check_report(a->state, CHECK_COPY_READ, a->line, a->thread,
			"%u bytes of shared memory are read at offset 0x%llx", a->bytes,
			(unsigned long long)(a->address - a->state->quick.shared));
	if (a->undefined && checks & 1u << DEVICE_CHECK_INIT)
		check_report(a->state, CHECK_UNDEFINED, a->line, a->thread,
			"%u bytes of %s memory are read at %s%llx", a->bytes,
			a->shared ? "shared" : "global", a->shared ? "offset 0x" : "0x",
			(unsigned long long)(a->address -
					     (a->shared ? a->state->quick.shared : 0)));
	if (a->unordered && !a->other_wrote && a->shared &&
		check_copy_reads(
			a->state, (uint32_t)(a->address - a->state->quick.shared), a->bytes)) {
		if (checks & 1u << DEVICE_CHECK_SYNC)
			check_report(a->state, CHECK_COPY_WRITTEN, a->line, a->thread,
				"%u bytes of shared memory are %s at offset 0x%llx", a->bytes,
				kind_name(&a->is),
				(unsigned long long)(a->address - a->state->quick.shared));
	} else if (a->unordered && checks & 1u << DEVICE_CHECK_RACE) {
		report_race(a);
	}
}

/* ---- which memory it is ---- */

static bool inside(uint64_t address, uint64_t bytes, uint64_t base, uint64_t size)
{
	return address - base < size && bytes <= size - (address - base);
}

static uint64_t judge(struct access *a, struct check_cell *cell)
{
	visit_cells(a, cell);
	if (a->pending || a->undefined || a->unordered)
		report_cells(a);
	return a->address;
}

static uint64_t access_shared(struct access *a)
{
	struct check_state *s = a->state;

	a->shared = true;
	if (!inside(a->address, a->bytes, s->quick.shared, s->quick.shared_bytes))
		return refuse(a, NULL);
	return judge(a, &s->quick.cells[(a->address - s->quick.shared) / 4]);
}

static uint64_t access_local(struct access *a)
{
	const struct check_state *s = a->state;
	const struct check_range own = {
		.base = s->locals + a->thread * s->local_bytes, .bytes = s->local_bytes};

	return inside(a->address, a->bytes, own.base, own.bytes) ? a->address : refuse(a, &own);
}

static uint64_t access_global(struct access *a)
{
	struct check_state *s = a->state;
	struct check_range *range = &s->quick.ranges[a->line % QUICK_RANGES];
	unsigned changes = __atomic_load_n(s->quick.changes, __ATOMIC_RELAXED);

	if (changes != s->quick.seen)
		check_forget(s, changes);
	if (!inside(a->address, a->bytes, range->base, range->bytes) &&
		(!checking_find(s->checking, a->address, range) ||
			!inside(a->address, a->bytes, range->base, range->bytes)))
		return refuse(a, range);
	a->defined = range->defined;
	return judge(a, &range->cells[(a->address - (range->base & ~3ull)) / 4]);
}

static uint64_t look(
	struct access *a, const struct ptx_launch *launch, const struct ptx_scratch *scratch)
{
	struct check_state *s = a->state;
	uint64_t address = a->address;

	if (a->is.strong)
		check_strong(s);
	if (address & (a->is.align - 1u) && s->checking->checks & 1u << DEVICE_CHECK_MEMORY) {
		check_report(s, CHECK_MISALIGNED, a->line, a->thread,
			"%u bytes are %s at 0x%llx, which is no multiple of %u",
			max_of(a->bytes, (uint32_t)a->is.align), kind_name(&a->is),
			(unsigned long long)address, a->is.align);
		return (uint64_t)(uintptr_t)s->sink;
	}
	if (a->is.shared || address - s->quick.shared < s->quick.shared_bytes)
		return access_shared(a);
	if (address - s->locals < s->local_bytes * s->threads)
		return access_local(a);
	if (inside(address, a->bytes, (uint64_t)(uintptr_t)launch->params, s->param_bytes))
		return address;
	if (launch->workspace &&
		inside(address, a->bytes, launch->workspace, sizeof s->job->workspace))
		return address; /* the barrier of a cooperative grid */
	if (address >= scratch->stack_end && address < s->stack && a->bytes <= s->stack - address)
		return address;
	return access_global(a);
}

uint64_t check_access(const struct ptx_launch *launch, const struct ptx_scratch *scratch,
	uint64_t address, uint32_t access, uint32_t line, uint32_t thread, uint64_t value)
{
	struct check_state *s = scratch->checking;
	struct access a = {.state = s,
		.is = ptx_access_unpack(access),
		.address = address,
		.line = line,
		.thread = thread,
		.valued = true,
		.value = value};

	a.bytes = a.is.bytes;
	address = look(&a, launch, scratch);
	if (a.is.kind == PTX_COPIES && a.shared && address == a.address)
		check_copy_begins(s, &(struct check_copy){.kind = CHECK_COPY,
					     .thread = thread,
					     .offset = (uint32_t)(address - s->quick.shared),
					     .bytes = a.bytes,
					     .line = line});
	return address;
}

bool check_wide(const struct ptx_launch *launch, const struct ptx_scratch *scratch,
	uint64_t address, uint32_t bytes, struct ptx_access is, bool defined, uint32_t line,
	uint32_t thread)
{
	struct access a = {.state = scratch->checking,
		.is = is,
		.address = address,
		.bytes = bytes,
		.line = line,
		.thread = thread,
		.defined = defined};

	return !bytes || look(&a, launch, scratch) == address;
}
