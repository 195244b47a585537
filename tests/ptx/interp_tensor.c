/* SPDX-License-Identifier: MIT
 *
 * Copies of boxes of tensors, one element at a time: where it is in the tensor, and where in shared memory.
 */
#include <string.h>

#include "device/cpu/ptx/tensor.h"
#include "interp_thread.h"

static const uint8_t types[] = {TYPE_u8, TYPE_u16, TYPE_u32, TYPE_s32, TYPE_u64, TYPE_s64, TYPE_f16,
	TYPE_f32, TYPE_f64, TYPE_bf16};

/* How many elements a box has along a dimension. */
static uint64_t extent(const struct tensor *m, unsigned d)
{
	if (m->mode == TENSOR_MAP_TILED)
		return d ? (m->box[d] + m->steps[d] - 1u) / m->steps[d] : m->box[0];
	return d == 0 ? m->channels : d == 1 ? m->pixels : 1;
}

/* Element n of the box, by the position of the instruction: coordinates. */
static void find_tiled(const struct tensor *m, const int64_t *at, uint64_t n, int64_t *where)
{
	for (unsigned d = 0; d < m->rank; d++) {
		where[d] = at[d] + (int64_t)(n % extent(m, d)) * m->steps[d];
		n /= extent(m, d);
	}
}

/* Pixels are counted through the box of positions, the whole of which each image has. */
static void find_pixel(const struct tensor *m, const int64_t *at, const int64_t *offsets,
	uint64_t n, int64_t *where)
{
	int64_t pixel = (int64_t)(n / m->channels), unit = 1, widths[RECORD_TENSOR_RANK] = {0};
	unsigned last = m->rank - 1u;

	where[0] = at[0] + (int64_t)(n % m->channels);
	for (unsigned d = 1; d < last; d++) {
		int64_t lower = m->lower[d - 1];
		int64_t upper = (int64_t)m->sizes[d] - 1 + m->upper[d - 1];

		widths[d] = (upper - lower) / m->steps[d] + 1;
		pixel += (at[d] - lower) / m->steps[d] * unit;
		unit *= widths[d];
	}
	for (unsigned d = 1; d < last; d++) {
		where[d] = m->lower[d - 1] + pixel % widths[d] * m->steps[d] + offsets[d - 1];
		pixel /= widths[d];
	}
	where[last] = at[last] + pixel;
}

/* NULL: the tensor has no such element. */
static uint8_t *find_element(const struct tensor *m, const int64_t *where)
{
	uint64_t address = m->address;

	for (unsigned d = 0; d < m->rank; d++) {
		if (where[d] < 0 || where[d] >= (int64_t)m->sizes[d])
			return NULL;
		address += (uint64_t)where[d] * m->strides[d];
	}
	return (uint8_t *)(uintptr_t)address;
}

/* Lines of 128 bytes are eight pieces of 16. A swizzle within 2, 4 or 8 pieces changes the lowest bits of a piece's number by
 * those of the line's. */
static uint64_t shuffled(const struct tensor *m, uint64_t at)
{
	uint64_t line = at / 128, piece = at / 16 % 8, pieces = 1u << m->swizzle;

	return line * 128 + (piece ^ line % pieces) * 16 + at % 16;
}

static void move_element(struct thread *t, const struct inst *i, unsigned bytes, unsigned type,
	uint8_t *shared, uint8_t *memory)
{
	struct inst update = *i;
	uint64_t old = 0, value = 0, result = 0;

	if (inst_has(i, MOD_mbarrier) && memory)
		memcpy(shared, memory, bytes);
	else if (inst_has(i, MOD_mbarrier))
		memset(shared, 0, bytes);
	if (inst_has(i, MOD_mbarrier) || !memory)
		return;
	memcpy(&old, memory, bytes);
	memcpy(&value, shared, bytes);
	update.types[0] = (uint8_t)type;
	result = value;
	if (inst_has(i, MOD_reduce) && !interp_combined(&update, old, value, 0, false, &result))
		thread_fails(t, INTERP_UNKNOWN, "a reduction");
	memcpy(memory, &result, bytes);
}

static void read_numbers(struct thread *t, const struct operand *o, int64_t *numbers)
{
	for (unsigned k = 0; k < o->count; k++)
		numbers[k] = (int32_t)thread_read(t, &o->elements[k], TYPE_s32);
}

uint32_t interp_tensor(struct thread *t, const struct inst *i)
{
	bool load = inst_has(i, MOD_mbarrier), im2col = inst_has(i, MOD_im2col);
	const struct operand *o = i->operands, *map = &o[load];
	int64_t at[RECORD_TENSOR_RANK] = {0}, offsets[RECORD_TENSOR_RANK] = {0}, where[8] = {0};
	uint8_t *box = thread_address_in(t, SPACE_SHARED, &o[load ? 0 : 2], 128);
	struct tensor m;
	uint64_t elements = 1;

	memcpy(&m, (const void *)(uintptr_t)thread_read(t, map, TYPE_b64), sizeof m);
	if (!box || m.magic != TENSOR_MAGIC || m.mode != im2col || m.rank != map[1].count) {
		thread_fails(t, INTERP_WRONG, "no such map, or no such place");
		return 0;
	}
	read_numbers(t, &map[1], at);
	if (im2col)
		read_numbers(t, &o[4], offsets);
	for (unsigned d = 0; d < m.rank; d++)
		elements *= extent(&m, d);
	unsigned bytes = ptx_type_bits[types[m.type]] / 8u;
	uint64_t start = (uint64_t)(box - t->block->shared);
	if (start + elements * bytes > t->block->shared_bytes)
		thread_fails(t, INTERP_WRONG, "the box does not fit");
	for (uint64_t n = 0; t->block->outcome == INTERP_RAN && n < elements; n++) {
		if (im2col)
			find_pixel(&m, at, offsets, n, where);
		else
			find_tiled(&m, at, n, where);
		move_element(t, i, bytes, types[m.type],
			t->block->shared + shuffled(&m, start + n * bytes),
			find_element(&m, where));
	}
	thread_wrote(t, box, elements * bytes);
	return (uint32_t)(elements * bytes);
}
