/* SPDX-License-Identifier: MIT
 *
 * The part of builtins.c for emit_check.c: accesses to four bytes which are so plainly right that the runtime need not
 * see them. Each returns 0 when that is not so, and then has changed nothing.
 */
#include "quick.h"

static inline u32 quick_read(
	const struct check_quick *q, struct check_cell *cell, u64 since, u64 from, u32 thread)
{
	u64 w = cell->write, r = cell->read, mark = q->mark | thread << CELL_THREAD;
	u64 when = w >> CELL_TICK;

	if (when >= since || when < from || (w & (CELL_PENDING | CELL_BYTES)) != CELL_BYTES)
		return 0;
	if (r == mark || (r >> CELL_TICK == mark >> CELL_TICK &&
				 (r & (CELL_SEVERAL | CELL_STRONG | CELL_BYTES << CELL_MASK)) ==
					 (CELL_SEVERAL | CELL_BYTES << CELL_MASK)))
		return 1;
	if (r >> CELL_TICK >= since)
		return 0;
	cell->read = mark;
	return 1;
}

static inline u32 quick_write(
	const struct check_quick *q, struct check_cell *cell, u64 since, u32 thread)
{
	u64 mark = q->mark | thread << CELL_THREAD, r = cell->read;

	if (((cell->write ^ mark) >> CELL_MASK && cell->write >> CELL_TICK >= since) ||
		(r != mark && r >> CELL_TICK >= since))
		return 0;
	cell->write = mark | CELL_BYTES;
	return 1;
}

static inline struct check_cell *quick_shared(const struct check_quick *q, u64 address)
{
	u64 offset = address - q->shared;

	return offset < q->shared_bytes && !(address & 3) ? q->cells + offset / 4 : 0;
}

static inline struct check_cell *quick_global(const struct check_quick *q, u64 address, u32 line)
{
	const struct check_range *range = &q->ranges[line % QUICK_RANGES];
	u64 offset = address - range->base;

	return __atomic_load_n(q->changes, __ATOMIC_RELAXED) == q->seen && offset < range->bytes &&
			       range->bytes - offset >= 4 && !(address & 3)
		       ? range->cells + (address - (range->base & ~3ull)) / 4
		       : 0;
}

BUILTIN u32 ptx_quick_read_shared(struct check_quick *q, u64 address, u32 line, u32 thread)
{
	struct check_cell *cell = quick_shared(q, address);

	return cell ? quick_read(q, cell, q->since_barrier, q->began, thread) : 0;
}

BUILTIN u32 ptx_quick_write_shared(struct check_quick *q, u64 address, u32 line, u32 thread)
{
	struct check_cell *cell = quick_shared(q, address);

	return cell ? quick_write(q, cell, q->since_barrier, thread) : 0;
}

BUILTIN u32 ptx_quick_read_global(struct check_quick *q, u64 address, u32 line, u32 thread)
{
	struct check_cell *cell = quick_global(q, address, line);

	return cell ? quick_read(q, cell, q->launched, 0, thread) : 0;
}

BUILTIN u32 ptx_quick_write_global(struct check_quick *q, u64 address, u32 line, u32 thread)
{
	struct check_cell *cell = quick_global(q, address, line);

	return cell ? quick_write(q, cell, q->launched, thread) : 0;
}

BUILTIN u32 ptx_quick_read_generic(struct check_quick *q, u64 address, u32 line, u32 thread)
{
	return ptx_quick_read_shared(q, address, line, thread) ||
	       ptx_quick_read_global(q, address, line, thread);
}

BUILTIN u32 ptx_quick_write_generic(struct check_quick *q, u64 address, u32 line, u32 thread)
{
	return ptx_quick_write_shared(q, address, line, thread) ||
	       ptx_quick_write_global(q, address, line, thread);
}
