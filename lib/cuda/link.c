/* SPDX-License-Identifier: MIT
 *
 * The JIT linker, for one input: what programs do that compile PTX at run time through it. The result is
 * the input, which a module load takes as it takes a linked image. Several inputs are not supported.
 */
#include <stdlib.h>
#include <string.h>

#include "lib/cuda/exports.h"
#include "lib/cuda/internal.h"

/* What nothing is linked to. */
static const char nothing[] = ".version 6.0\n.target sm_50\n.address_size 64\n";

struct CUlinkState_st {
	uint32_t handle_word;
	char *image;
	size_t bytes;
};

static CUresult check(CUlinkState state)
{
	CUcontext context;

	TRY(current_context(&context));
	return handle_is(HANDLE_LINK, state)
		       ? CUDA_SUCCESS
		       : fail(CUDA_ERROR_INVALID_HANDLE, "%p is no living linker", (void *)state);
}

CUresult cuLinkCreate_v2(
	unsigned int count, CUjit_option *options, void **values, CUlinkState *created)
{
	CUcontext context;
	CUlinkState state;

	TRY(current_context(&context));
	if (!created || (count && (!options || !values)))
		return fail(CUDA_ERROR_INVALID_VALUE,
			"the pointer for the linker is NULL, or options are and their count is not 0");
	state = handle_create(HANDLE_LINK, sizeof *state);
	if (!state)
		return no_memory();
	*created = state;
	return CUDA_SUCCESS;
}

CUresult cuLinkAddData_v2(CUlinkState state, CUjitInputType type, void *data, size_t size,
	const char *name, unsigned int count, CUjit_option *options, void **values)
{
	TRY(check(state));
	if (!data || !size || (unsigned)type >= CU_JIT_NUM_INPUT_TYPES)
		return fail(CUDA_ERROR_INVALID_VALUE,
			"data is NULL or empty, or %d is no type of input", (int)type);
	if (state->image || type > CU_JIT_INPUT_FATBINARY)
		return fail(CUDA_ERROR_NOT_SUPPORTED,
			"several inputs are not linked, nor anything but PTX, machine code and "
			"fat binaries (docs/cuda-coverage.md)");
	state->image = malloc(size + 1);
	if (!state->image)
		return no_memory();
	memcpy(state->image, data, size);
	state->image[size] = '\0';
	state->bytes = size;
	return CUDA_SUCCESS;
}

CUresult cuLinkAddFile_v2(CUlinkState state, CUjitInputType type, const char *path,
	unsigned int count, CUjit_option *options, void **values)
{
	autofree void *contents = NULL;
	size_t bytes;

	TRY(check(state));
	if (!path)
		return fail(CUDA_ERROR_INVALID_VALUE, "path is NULL");
	TRY(file_read(path, &contents, &bytes));
	return cuLinkAddData_v2(state, type, contents, bytes, path, count, options, values);
}

CUresult cuLinkComplete(CUlinkState state, void **image, size_t *size)
{
	TRY(check(state));
	if (!image)
		return fail(CUDA_ERROR_INVALID_VALUE, "image is NULL");
	*image = state->image ? state->image : (void *)nothing;
	if (size)
		*size = state->image ? state->bytes : sizeof nothing;
	return CUDA_SUCCESS;
}

CUresult cuLinkDestroy(CUlinkState state)
{
	TRY(check(state));
	free(state->image);
	handle_destroy(HANDLE_LINK, state);
	return CUDA_SUCCESS;
}
