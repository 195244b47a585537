/* SPDX-License-Identifier: MIT
 *
 * Tensor maps. Only the device's driver, which is in the worker, knows their form. Libraries make one for each
 * matrix of each product, most of them again and again: what was asked for lately is kept, so that it costs
 * no message.
 */
#include <string.h>

#include "lib/cuda/exports.h"
#include "lib/cuda/internal.h"

#define KEPT 1024 /* a power of two */

static struct kept {
	unsigned long long context; /* its id; 0: nothing is here */
	struct gdev_tensor tensor;
	CUtensorMap map;
} kept[KEPT];
static pthread_mutex_t *const lock = &process_locks[LOCK_TENSORS]; /* guards kept */

void tensors_forget(void)
{
	memset(kept, 0, sizeof kept);
}

#define WORDS (sizeof(struct gdev_tensor) / sizeof(uint32_t))

/* A tensor as words. Its padding is zero. */
static const uint32_t *words_of(const struct gdev_tensor *tensor)
{
	return (const uint32_t *)tensor;
}

static bool same(const struct gdev_tensor *one, const struct gdev_tensor *other)
{
	return !memcmp(words_of(one), words_of(other), WORDS * sizeof(uint32_t));
}

/* FNV-1a, of words. */
static struct kept *place_of(const struct gdev_tensor *tensor)
{
	const uint32_t *words = words_of(tensor);
	uint64_t hash = 14695981039346656037ull;

	for (size_t i = 0; i < WORDS; i++)
		hash = (hash ^ words[i]) * 1099511628211ull;
	return &kept[(hash ^ hash >> 32) % KEPT];
}

static bool find(unsigned long long context, const struct gdev_tensor *tensor, CUtensorMap *map)
{
	struct kept *place = place_of(tensor);
	bool found;

	pthread_mutex_lock(lock);
	found = place->context == context && same(&place->tensor, tensor);
	if (found)
		*map = place->map;
	pthread_mutex_unlock(lock);
	return found;
}

static void keep(
	unsigned long long context, const struct gdev_tensor *tensor, const CUtensorMap *map)
{
	struct kept *place = place_of(tensor);

	pthread_mutex_lock(lock);
	place->context = context;
	memcpy(&place->tensor, tensor, sizeof *tensor);
	place->map = *map;
	pthread_mutex_unlock(lock);
}

/* What both kinds of maps say in the same words. */
struct form {
	CUtensorMapDataType type;
	CUtensorMapInterleave interleave;
	CUtensorMapSwizzle swizzle;
	CUtensorMapL2promotion promotion;
	CUtensorMapFloatOOBfill fill;
};

/* Reads it, with the shapes of a tensor, and that it can be one. */
static CUresult read_tensor(struct gdev_tensor *tensor, const struct form *form,
	const void *address, uint32_t rank, const uint64_t *dimensions, const uint64_t *strides,
	const uint32_t *element_strides)
{
	if (!rank || rank > GDEV_TENSOR_RANK || !dimensions || (rank > 1 && !strides) ||
		!element_strides)
		return fail(CUDA_ERROR_INVALID_VALUE,
			"the tensor has %u dimensions, or a list that it needs is NULL", rank);
	memset(tensor, 0, sizeof *tensor);
	tensor->data_type = form->type;
	tensor->interleave = form->interleave;
	tensor->swizzle = form->swizzle;
	tensor->l2_promotion = form->promotion;
	tensor->fill = form->fill;
	tensor->rank = rank;
	tensor->address = (uintptr_t)address;
	memcpy(tensor->dimensions, dimensions, rank * sizeof *dimensions);
	if (rank > 1)
		memcpy(tensor->strides, strides, (rank - 1) * sizeof *strides);
	memcpy(tensor->element_strides, element_strides, rank * sizeof *element_strides);
	return CUDA_SUCCESS;
}

static CUresult encode(const struct gdev_tensor *tensor, CUtensorMap *map)
{
	CUcontext context;
	CUtensorMap made;

	TRY(current_context(&context));
	if (!find(context->id, tensor, &made)) {
		TRY_GDEV(gdev_tensor_map(context->session, tensor, (uint8_t *)&made),
			"the device takes no such tensor");
		keep(context->id, tensor, &made);
	}
	memcpy(map, &made, sizeof made); /* the program's may lie anywhere */
	return CUDA_SUCCESS;
}

CUresult cuTensorMapEncodeTiled(CUtensorMap *map, CUtensorMapDataType type, uint32_t rank,
	void *address, const uint64_t *dimensions, const uint64_t *strides, const uint32_t *box,
	const uint32_t *element_strides, CUtensorMapInterleave interleave,
	CUtensorMapSwizzle swizzle, CUtensorMapL2promotion promotion,
	CUtensorMapFloatOOBfill fill_with)
{
	const struct form form = {type, interleave, swizzle, promotion, fill_with};
	struct gdev_tensor tensor;

	TRY(initialised());
	if (!map || !box)
		return fail(CUDA_ERROR_INVALID_VALUE, "map or box is NULL");
	TRY(read_tensor(&tensor, &form, address, rank, dimensions, strides, element_strides));
	tensor.mode = GDEV_TENSOR_TILED;
	memcpy(tensor.box, box, rank * sizeof *box);
	return encode(&tensor, map);
}

CUresult cuTensorMapEncodeIm2col(CUtensorMap *map, CUtensorMapDataType type, uint32_t rank,
	void *address, const uint64_t *dimensions, const uint64_t *strides, const int *lower,
	const int *upper, uint32_t channels, uint32_t pixels, const uint32_t *element_strides,
	CUtensorMapInterleave interleave, CUtensorMapSwizzle swizzle,
	CUtensorMapL2promotion promotion, CUtensorMapFloatOOBfill fill_with)
{
	const struct form form = {type, interleave, swizzle, promotion, fill_with};
	struct gdev_tensor tensor;

	TRY(initialised());
	if (!map || !lower || !upper || rank < 3)
		return fail(CUDA_ERROR_INVALID_VALUE,
			"a pointer is NULL, or the tensor has less than 3 dimensions");
	TRY(read_tensor(&tensor, &form, address, rank, dimensions, strides, element_strides));
	tensor.mode = GDEV_TENSOR_IM2COL;
	tensor.channels = channels;
	tensor.pixels = pixels;
	memcpy(tensor.lower, lower, (rank - 2) * sizeof *lower);
	memcpy(tensor.upper, upper, (rank - 2) * sizeof *upper);
	return encode(&tensor, map);
}

CUresult cuTensorMapReplaceAddress(CUtensorMap *map, void *address)
{
	uint8_t moved[GDEV_TENSOR_MAP_BYTES];
	CUcontext context;

	TRY(initialised());
	if (!map)
		return fail(CUDA_ERROR_INVALID_VALUE, "map is NULL");
	TRY(current_context(&context));
	memcpy(moved, map, sizeof moved);
	TRY_GDEV(gdev_tensor_map_move(context->session, (uintptr_t)address, moved),
		"that is no tensor map of the device's, or it can be at no such address");
	memcpy(map, moved, sizeof moved);
	return CUDA_SUCCESS;
}
