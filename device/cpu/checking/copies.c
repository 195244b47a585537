/* SPDX-License-Identifier: MIT
 *
 * Asynchronous copies of a block, from where they begin until somebody has waited for them. The software GPU makes them at once; what
 * is found here is what would go wrong where they take their time. Meanwhile
 *   - the cells of shared memory that one fills are marked CELL_PENDING: nobody may read there,
 *   - what a bulk copy reads of shared memory counts as read by other threads as well, anew behind each barrier of the block: nobody
 *     may write there.
 */
#include <stdlib.h>
#include <string.h>

#include "device/cpu/checking/checking.h"
#include "device/cpu/cpu.h"

static void mark_read(struct check_state *s, const struct check_copy *copy, uint64_t others)
{
	uint64_t mark = s->quick.mark | copy->thread << CELL_THREAD | others;

	for (uint32_t k = copy->offset / 4; k < (copy->offset + copy->bytes) / 4; k++)
		s->quick.cells[k].read = mark;
}

void check_copy_begins(struct check_state *s, const struct check_copy *copy)
{
	struct check_copy *more;

	if (copy->offset > s->quick.shared_bytes ||
		copy->bytes > s->quick.shared_bytes - copy->offset)
		return; /* it goes wrong, and nobody is to be told so */
	if (s->copy_count == s->copy_capacity) {
		size_t capacity = s->copy_capacity ? 2 * s->copy_capacity : 256;

		more = realloc(s->copies, capacity * sizeof *more);
		if (!more)
			return; /* it is not looked after */
		s->copies = more;
		s->copy_capacity = capacity;
	}
	more = &s->copies[s->copy_count++];
	*more = *copy;
	more->group = (copy->kind == CHECK_COPY ? s->groups : s->bulk_groups)[copy->thread];
	if (copy->kind != CHECK_BULK_OUT)
		return;
	s->bulk_out++;
	mark_read(s, copy, CELL_SEVERAL | CELL_BYTES);
}

static void copy_is_there(struct check_state *s, const struct check_copy *copy)
{
	if (copy->kind == CHECK_BULK_OUT) {
		s->bulk_out--;
		mark_read(s, copy, 0);
		return;
	}
	for (uint32_t k = copy->offset / 4; k < (copy->offset + copy->bytes) / 4; k++)
		if (!(s->quick.cells[k].write & CELL_STRONG))
			s->quick.cells[k].write &= ~(uint64_t)CELL_PENDING;
}

void check_copies_awaited(
	struct check_state *s, enum check_copy_kind kind, uint32_t thread, uint64_t left)
{
	uint32_t groups = (kind == CHECK_COPY ? s->groups : s->bulk_groups)[thread];
	size_t kept = 0;

	for (size_t i = 0; i < s->copy_count; i++) {
		const struct check_copy *copy = &s->copies[i];

		if (copy->kind == kind && copy->thread == thread &&
			(left == UINT32_MAX || copy->group + left < groups))
			copy_is_there(s, copy);
		else
			s->copies[kept++] = *copy;
	}
	s->copy_count = kept;
}

void check_copies_counted(struct check_state *s, uint64_t barrier)
{
	size_t end = 0, kept = 0;

	/* The phase before has ended, too. */
	for (size_t i = 0; i < s->copy_count; i++)
		if (s->copies[i].kind == CHECK_BULK_IN && s->copies[i].barrier == barrier)
			end = i + 1;
	for (size_t i = 0; i < s->copy_count; i++) {
		const struct check_copy *copy = &s->copies[i];

		if (i < end && copy->kind == CHECK_BULK_IN && (copy->barrier ^ barrier) <= 1)
			copy_is_there(s, copy);
		else
			s->copies[kept++] = *copy;
	}
	s->copy_count = kept;
}

void check_copies_stay(struct check_state *s)
{
	for (size_t i = 0; s->bulk_out && i < s->copy_count; i++)
		if (s->copies[i].kind == CHECK_BULK_OUT)
			mark_read(s, &s->copies[i], CELL_SEVERAL | CELL_BYTES);
}

bool check_copy_reads(const struct check_state *s, uint32_t offset, uint32_t bytes)
{
	for (size_t i = 0; s->bulk_out && i < s->copy_count; i++)
		if (s->copies[i].kind == CHECK_BULK_OUT && s->copies[i].offset < offset + bytes &&
			offset < s->copies[i].offset + s->copies[i].bytes)
			return true;
	return false;
}

void check_copies_end(struct check_state *s)
{
	for (size_t i = 0; i < s->copy_count && s->checking->checks >> DEVICE_CHECK_SYNC & 1; i++)
		check_report(s, CHECK_COPY_LEFT, s->copies[i].line, s->copies[i].thread,
			"the block ends, and the copy of %u bytes %s offset 0x%x of its shared memory was not waited for",
			s->copies[i].bytes, s->copies[i].kind == CHECK_BULK_OUT ? "from" : "to",
			s->copies[i].offset);
	s->copy_count = s->bulk_out = 0;
}
