/* SPDX-License-Identifier: MIT
 *
 * The JIT linker. Of one input the result is that input, which a module load takes as it takes a linked image. Several
 * inputs have to be PTX, and become one text (link_text.h). Machine code is not linked to anything.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/link_text.h"
#include "lib/cuda/exports.h"
#include "lib/cuda/internal.h"

/* What nothing is linked to. */
static const char nothing[] = ".version 6.0\n.target sm_50\n.address_size 64\n";

struct CUlinkState_st {
	uint32_t handle_word;
	char **inputs; /* copies, each with a NUL behind */
	size_t count, bytes /* of the last */;
	bool text;    /* all are PTX */
	char *linked; /* the result of several */
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

static CUresult add(CUlinkState state, const void *data, size_t bytes, bool text)
{
	char **inputs = realloc(state->inputs, (state->count + 1) * sizeof *inputs);
	char *copy = malloc(bytes + 1);

	if (inputs)
		state->inputs = inputs;
	if (!inputs || !copy) {
		free(copy);
		return no_memory();
	}
	memcpy(copy, data, bytes);
	copy[bytes] = '\0';
	state->text = text;
	state->bytes = bytes;
	state->inputs[state->count++] = copy;
	return CUDA_SUCCESS;
}

CUresult cuLinkAddData_v2(CUlinkState state, CUjitInputType type, void *data, size_t size,
	const char *name, unsigned int count, CUjit_option *options, void **values)
{
	TRY(check(state));
	if (!data || !size || (unsigned)type >= CU_JIT_NUM_INPUT_TYPES)
		return fail(CUDA_ERROR_INVALID_VALUE,
			"data is NULL or empty, or %d is no type of input", (int)type);
	if (type > CU_JIT_INPUT_FATBINARY ||
		(state->count && !(state->text && type == CU_JIT_INPUT_PTX)))
		return fail(CUDA_ERROR_NOT_SUPPORTED,
			"inputs that are not PTX are linked to nothing, and none but PTX, machine "
			"code and fat binaries are taken (docs/cuda-coverage.md)");
	return add(state, data, size, type == CU_JIT_INPUT_PTX);
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
	char why[CALLS_REASON] = "";
	int error;

	TRY(check(state));
	if (!image)
		return fail(CUDA_ERROR_INVALID_VALUE, "image is NULL");
	if (state->count > 1 && !state->linked) {
		error = link_texts(state->inputs, state->count, &state->linked, &state->bytes, why,
			sizeof why);
		if (error == -ENOMEM)
			return no_memory();
		if (error)
			return fail(CUDA_ERROR_INVALID_PTX, "%s", why);
	}
	*image = state->linked ? state->linked : state->count ? state->inputs[0] : (void *)nothing;
	if (size)
		*size = state->count ? state->bytes : sizeof nothing;
	return CUDA_SUCCESS;
}

CUresult cuLinkDestroy(CUlinkState state)
{
	TRY(check(state));
	for (size_t i = 0; i < state->count; i++)
		free(state->inputs[i]);
	free(state->inputs);
	free(state->linked);
	handle_destroy(HANDLE_LINK, state);
	return CUDA_SUCCESS;
}
