/* SPDX-License-Identifier: MIT
 *
 * See tensor.h. A box is moved by rows, which follow its innermost dimension, and a row by pieces of 16 bytes: those are what
 * a swizzle gives other places.
 */
#include "device/cpu/ptx/half.h"
#include "device/cpu/ptx/tensor.h"

#include <errno.h>
#include <stdbool.h>
#include <string.h>

enum { PIECE = 16, BOX_MOST = 256, PIXELS_MOST = 1024, STEP_MOST = 8, ALIGN = 128 };

static const uint8_t element_bytes[TENSOR_TYPES] = {
	[TENSOR_U8] = 1,
	[TENSOR_U16] = 2,
	[TENSOR_U32] = 4,
	[TENSOR_S32] = 4,
	[TENSOR_U64] = 8,
	[TENSOR_S64] = 8,
	[TENSOR_F16] = 2,
	[TENSOR_F32] = 4,
	[TENSOR_F64] = 8,
	[TENSOR_BF16] = 2,
};

unsigned tensor_element_bytes(unsigned type)
{
	return element_bytes[type];
}

/* ---- maps ---- */

static bool sizes_are_valid(const struct record_tensor_map *r)
{
	for (unsigned d = 0; d < r->rank; d++) {
		if (!r->dimensions[d] || r->dimensions[d] > 1ull << 32)
			return false;
		if (!r->element_strides[d] || r->element_strides[d] > STEP_MOST)
			return false;
		if (d && (r->strides[d - 1] % PIECE || r->strides[d - 1] >= 1ull << 40))
			return false;
	}
	return !(r->address % PIECE);
}

static bool box_is_valid(const struct record_tensor_map *r)
{
	for (unsigned d = 0; d < r->rank; d++)
		if (!r->box[d] || r->box[d] > BOX_MOST)
			return false;
	return true;
}

/* The corners of im2col have 16, 8 or 5 bits, and something must lie between them. */
static bool corners_are_valid(const struct record_tensor_map *r)
{
	int32_t most = r->rank == 3 ? 1 << 15 : r->rank == 4 ? 1 << 7 : 1 << 4;

	if (r->rank < 3 || !r->channels || r->channels > BOX_MOST || !r->pixels ||
		r->pixels > PIXELS_MOST)
		return false;
	for (unsigned d = 0; d < r->rank - 2; d++)
		if (r->lower[d] < -most || r->lower[d] >= most || r->upper[d] < -most ||
			r->upper[d] >= most ||
			r->lower[d] >= (int64_t)r->dimensions[d + 1] + r->upper[d])
			return false;
	return true;
}

/* What is right, and not supported: interleaved layouts, NaN outside the tensor, other types and swizzles, and steps from image to
 * image. A row that is shorter than its swizzle's span is refused, as the manual does not say how such rows follow each other. */
static int check(const struct record_tensor_map *r)
{
	bool tiled = r->mode == TENSOR_MAP_TILED;
	unsigned row, span = r->swizzle ? (unsigned)PIECE << r->swizzle % 4 : 0;

	if (!sizes_are_valid(r) || !(tiled ? box_is_valid(r) : corners_are_valid(r)))
		return -EINVAL;
	if (r->data_type >= TENSOR_TYPES || r->interleave || r->swizzle > 3 || r->fill ||
		(!tiled && r->element_strides[r->rank - 1] != 1))
		return -ENOTSUP;
	row = (tiled ? r->box[0] : r->channels) * element_bytes[r->data_type];
	if (row % PIECE || (span && row > span))
		return -EINVAL;
	return span && row != span ? -ENOTSUP : 0;
}

int tensor_encode(const struct record_tensor_map *r, uint8_t map[TENSOR_MAP_BYTES])
{
	struct tensor t = {.magic = TENSOR_MAGIC,
		.mode = (uint8_t)r->mode,
		.type = (uint8_t)r->data_type,
		.rank = (uint8_t)r->rank,
		.swizzle = (uint8_t)r->swizzle,
		.address = r->address,
		.channels = (uint16_t)r->channels,
		.pixels = (uint16_t)r->pixels};
	int error = check(r);

	if (error)
		return error;
	for (unsigned d = 0; d < r->rank; d++) {
		t.sizes[d] = r->dimensions[d];
		t.strides[d] = d ? r->strides[d - 1] : element_bytes[t.type];
		t.box[d] = (uint16_t)r->box[d];
		t.steps[d] = (uint8_t)(d ? r->element_strides[d] : 1); /* the first is ignored */
	}
	for (unsigned d = 0; d + 2 < r->rank; d++) {
		t.lower[d] = (int16_t)r->lower[d];
		t.upper[d] = (int16_t)r->upper[d];
	}
	memcpy(map, &t, sizeof t);
	return 0;
}

/* ---- reductions ---- */

static float widened(uint16_t bits, unsigned type)
{
	uint32_t word = (uint32_t)bits << 16;
	float f;

	memcpy(&f, &word, 4);
	return type == TENSOR_F16 ? half_value(bits) : f;
}

/* To the nearest, ties to even. */
static uint16_t narrowed(float f, unsigned type)
{
	uint32_t word;

	memcpy(&word, &f, 4);
	if (f != f)
		return 0x7fff;
	if (type == TENSOR_F16)
		return half_of(f);
	return (uint16_t)((word + 0x7fff + (word >> 16 & 1)) >> 16);
}

/* Zero with its sign where the number is subnormal. */
static uint32_t flushed(uint32_t word)
{
	return word & 0x7f800000 ? word : word & 0x80000000;
}

static uint64_t float_sum(unsigned type, uint64_t old, uint64_t value)
{
	uint32_t a = flushed((uint32_t)old), b = flushed((uint32_t)value);
	double x, y;
	float f, g;

	if (type == TENSOR_F64) {
		memcpy(&x, &old, 8);
		memcpy(&y, &value, 8);
		x += y;
		memcpy(&old, &x, 8);
		return old;
	}
	if (type != TENSOR_F32)
		return narrowed(
			widened((uint16_t)old, type) + widened((uint16_t)value, type), type);
	memcpy(&f, &a, 4);
	memcpy(&g, &b, 4);
	f += g;
	memcpy(&a, &f, 4);
	return flushed(a);
}

static bool less(unsigned type, uint64_t a, uint64_t b)
{
	if (type == TENSOR_S32)
		return (int32_t)a < (int32_t)b;
	return type == TENSOR_S64 ? (int64_t)a < (int64_t)b : a < b;
}

static uint64_t combined(unsigned operation, unsigned type, uint64_t old, uint64_t value)
{
	switch (operation) {
	case TENSOR_ADD:
		return type < TENSOR_F16 ? old + value : float_sum(type, old, value);
	case TENSOR_MIN:
		return less(type, value, old) ? value : old;
	case TENSOR_MAX:
		return less(type, old, value) ? value : old;
	case TENSOR_INC:
		return old >= value ? 0 : old + 1;
	case TENSOR_DEC:
		return !old || old > value ? value : old - 1;
	case TENSOR_AND:
		return old & value;
	case TENSOR_OR:
		return old | value;
	default:
		return old ^ value;
	}
}

static bool can_reduce(unsigned operation, unsigned type)
{
	bool whole = type >= TENSOR_U32 && type <= TENSOR_S64;

	if (operation == TENSOR_ADD)
		return type >= TENSOR_U32;
	return operation == TENSOR_INC || operation == TENSOR_DEC ? type == TENSOR_U32 : whole;
}

/* Others may update the element at the same time. */
#define UPDATE(T)                                                                                  \
	static void update_##T(                                                                    \
		unsigned operation, unsigned type, uint8_t *memory, const uint8_t *value)          \
	{                                                                                          \
		T *at = (T *)memory, old = __atomic_load_n(at, __ATOMIC_RELAXED), new, with;       \
                                                                                                   \
		memcpy(&with, value, sizeof with);                                                 \
		do                                                                                 \
			new = (T)combined(operation, type, old, with);                             \
		while (!__atomic_compare_exchange_n(                                               \
			at, &old, new, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED));                \
	}

UPDATE(uint16_t)
UPDATE(uint32_t)
UPDATE(uint64_t)

static void update(unsigned operation, unsigned type, uint8_t *memory, const uint8_t *value)
{
	switch (element_bytes[type]) {
	case 2:
		update_uint16_t(operation, type, memory, value);
		break;
	case 4:
		update_uint32_t(operation, type, memory, value);
		break;
	default:
		update_uint64_t(operation, type, memory, value);
	}
}

/* ---- boxes ---- */

struct walk {
	const struct tensor *tensor;
	unsigned operation;
	uint64_t rows, row_bytes;
	/* Of the row at hand; after position last[d] comes first[d], in the next row along dimension d + 1. */
	int64_t position[RECORD_TENSOR_RANK], first[RECORD_TENSOR_RANK], last[RECORD_TENSOR_RANK];
	int64_t offsets[RECORD_TENSOR_RANK]; /* to where the row's elements are */
};

static void begin(struct walk *w, const int32_t *numbers)
{
	const struct tensor *t = w->tensor;
	bool tiled = t->mode == TENSOR_MAP_TILED;

	w->rows = tiled ? 1 : t->pixels;
	w->row_bytes = (uint64_t)(tiled ? t->box[0] : t->channels) * element_bytes[t->type];
	for (unsigned d = 0; d < t->rank; d++) {
		w->position[d] = w->first[d] = numbers[d];
		w->last[d] = w->first[d] + t->box[d] - 1;
		if (tiled && d)
			w->rows *= (t->box[d] + t->steps[d] - 1u) / t->steps[d];
	}
	for (unsigned d = 1; !tiled && d + 1 < t->rank; d++) {
		w->first[d] = t->lower[d - 1];
		w->last[d] = (int64_t)t->sizes[d] - 1 + t->upper[d - 1];
		w->offsets[d] = (uint32_t)numbers[TENSOR_OFFSETS + d - 1];
	}
}

static void next_row(struct walk *w)
{
	const struct tensor *t = w->tensor;

	for (unsigned d = 1; d < t->rank; d++) {
		w->position[d] += t->steps[d];
		if (w->position[d] <= w->last[d] || d + 1u == t->rank)
			return;
		w->position[d] = w->first[d];
	}
}

/* Where the row's first element would be; false: the row is outside of the tensor. */
static bool find_row(const struct walk *w, uint64_t *address)
{
	const struct tensor *t = w->tensor;

	*address = t->address + (uint64_t)w->position[0] * t->strides[0];
	for (unsigned d = 1; d < t->rank; d++) {
		uint64_t at = (uint64_t)(w->position[d] + w->offsets[d]);

		if (at >= t->sizes[d])
			return false;
		*address += at * t->strides[d];
	}
	return true;
}

/* Bytes [from, to) of a piece are within the tensor. */
static void move_piece(
	const struct walk *w, uint8_t *piece, uint64_t address, unsigned from, unsigned to)
{
	unsigned bytes = element_bytes[w->tensor->type];
	uint8_t *memory = (uint8_t *)(uintptr_t)address;

	if (w->operation == TENSOR_LOAD) {
		memset(piece, 0, from);
		memcpy(piece + from, memory + from, to - from);
		memset(piece + to, 0, PIECE - to);
	} else if (w->operation == TENSOR_STORE) {
		memcpy(memory + from, piece + from, to - from);
	} else {
		for (unsigned k = from; k < to; k += bytes)
			update(w->operation, w->tensor->type, memory + k, piece + k);
	}
}

/* Which byte of shared memory a swizzle puts there. */
static uint64_t swizzled(uint64_t at, unsigned swizzle)
{
	return at ^ ((at >> 7 & ((1u << swizzle) - 1)) << 4);
}

static unsigned within_piece(int64_t bytes)
{
	return bytes < 0 ? 0 : bytes > PIECE ? PIECE : (unsigned)bytes;
}

static void move_row(const struct walk *w, uint8_t *shared, uint64_t at)
{
	const struct tensor *t = w->tensor;
	int64_t bytes = element_bytes[t->type];
	int64_t before = -w->position[0] * bytes;
	int64_t end = ((int64_t)t->sizes[0] - w->position[0]) * bytes;
	uint64_t address;
	bool inside = find_row(w, &address);

	for (int64_t k = 0; k < (int64_t)w->row_bytes; k += PIECE) {
		unsigned to = inside ? within_piece(end - k) : 0, from = within_piece(before - k);

		move_piece(w, shared + swizzled(at + (uint64_t)k, t->swizzle),
			address + (uint64_t)k, from < to ? from : to, to);
	}
}

/* Maps are what the program has, or made itself. */
static bool is_tensor(const struct tensor *t, uint32_t word)
{
	if (t->magic != TENSOR_MAGIC || t->mode != tensor_mode(word) ||
		t->rank != tensor_rank(word) || !t->rank || t->rank > RECORD_TENSOR_RANK ||
		t->type >= TENSOR_TYPES || t->swizzle > 3)
		return false;
	for (unsigned d = 0; d < t->rank; d++)
		if (!t->steps[d] || t->box[d] > BOX_MOST || t->sizes[d] > 1ull << 32)
			return false;
	return true;
}

static enum tensor_outcome set_out(struct walk *w, struct tensor *tensor, uint32_t word,
	const void *map, const int32_t *numbers)
{
	memcpy(tensor, map, sizeof *tensor);
	*w = (struct walk){.tensor = tensor, .operation = tensor_operation(word)};
	if (!is_tensor(tensor, word))
		return TENSOR_NO_MAP;
	if (w->operation > TENSOR_STORE && !can_reduce(w->operation, tensor->type))
		return TENSOR_UNSUPPORTED;
	begin(w, numbers);
	if (tensor->swizzle && w->row_bytes != (unsigned)PIECE << tensor->swizzle)
		return TENSOR_NO_MAP; /* it would give pieces places outside of the box */
	return TENSOR_DONE;
}

enum tensor_outcome tensor_visit(uint32_t word, const void *map, const int32_t *numbers,
	uint64_t most, void (*row)(void *owner, uint64_t address, uint32_t bytes), void *owner,
	uint64_t *bytes)
{
	struct tensor tensor;
	struct walk w;
	enum tensor_outcome outcome = set_out(&w, &tensor, word, map, numbers);

	if (outcome != TENSOR_DONE)
		return outcome;
	*bytes = w.rows * w.row_bytes;
	for (uint64_t k = 0; k < w.rows && *bytes <= most; k++) {
		int64_t size = element_bytes[tensor.type];
		int64_t from = w.position[0] < 0 ? -w.position[0] * size : 0;
		int64_t to = ((int64_t)tensor.sizes[0] - w.position[0]) * size;
		uint64_t address;

		if (to > (int64_t)w.row_bytes)
			to = (int64_t)w.row_bytes;
		if (find_row(&w, &address) && from < to)
			row(owner, address + (uint64_t)from, (uint32_t)(to - from));
		next_row(&w);
	}
	return TENSOR_DONE;
}

enum tensor_outcome tensor_move(uint32_t word, const void *map, const int32_t *numbers,
	uint8_t *shared, uint64_t at, uint64_t room, uint32_t *bytes)
{
	struct tensor tensor;
	struct walk w;
	enum tensor_outcome outcome = set_out(&w, &tensor, word, map, numbers);

	if (outcome != TENSOR_DONE)
		return outcome;
	if (w.row_bytes % PIECE || at % ALIGN || at > room || w.rows * w.row_bytes > room - at)
		return TENSOR_OUTSIDE;
	for (uint64_t row = 0; row < w.rows; row++, at += w.row_bytes) {
		move_row(&w, shared, at);
		next_row(&w);
	}
	*bytes = (uint32_t)(w.rows * w.row_bytes);
	return TENSOR_DONE;
}
