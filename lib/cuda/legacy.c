/* SPDX-License-Identifier: MIT
 *
 * Launching as in CUDA 2.0 to 4.0, the API of the Gdev paper: the block's shape and the parameters are
 * state of the function, set before cuLaunchGrid.
 */
#include <stdlib.h>
#include <string.h>

#include "lib/cuda/exports.h"
#include "lib/cuda/internal.h"

/* The function's state, with its module's lock held. */
static CUresult enter(CUfunction function, struct legacy_launch **state)
{
	TRY(initialised());
	if (!handle_is(HANDLE_FUNCTION, function))
		return fail(
			CUDA_ERROR_INVALID_HANDLE, "%p is no living function", (void *)function);
	pthread_mutex_lock(&function->module->lock);
	if (!function->legacy && (function->legacy = calloc(1, sizeof *function->legacy)))
		for (int i = 0; i < 3; i++)
			function->legacy->block[i] = 1;
	if (!function->legacy) {
		pthread_mutex_unlock(&function->module->lock);
		return no_memory();
	}
	*state = function->legacy;
	return CUDA_SUCCESS;
}

static CUresult leave(CUfunction function, CUresult result)
{
	pthread_mutex_unlock(&function->module->lock);
	return result;
}

CUresult cuFuncSetBlockShape(CUfunction function, int x, int y, int z)
{
	struct legacy_launch *state;

	TRY(enter(function, &state));
	if (x <= 0 || y <= 0 || z <= 0)
		return leave(function, fail(CUDA_ERROR_INVALID_VALUE,
					       "a block of %dx%dx%d threads is none", x, y, z));
	state->block[0] = (unsigned)x;
	state->block[1] = (unsigned)y;
	state->block[2] = (unsigned)z;
	return leave(function, CUDA_SUCCESS);
}

CUresult cuFuncSetSharedSize(CUfunction function, unsigned int bytes)
{
	struct legacy_launch *state;
	int limit;

	TRY(enter(function, &state));
	if (device_attribute(function->module->context->device,
		    CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK, &limit) ||
		bytes > (unsigned)limit)
		return leave(function,
			fail(CUDA_ERROR_INVALID_VALUE,
				"%u bytes of shared memory are more than a block has", bytes));
	state->shared_bytes = bytes;
	return leave(function, CUDA_SUCCESS);
}

CUresult cuParamSetSize(CUfunction function, unsigned int bytes)
{
	struct legacy_launch *state;

	TRY(enter(function, &state));
	if (bytes > LEGACY_PARAM_BYTES)
		return leave(function,
			fail(CUDA_ERROR_INVALID_VALUE,
				"%u bytes of parameters are more than the %d that there is room for",
				bytes, LEGACY_PARAM_BYTES));
	state->param_bytes = bytes;
	return leave(function, CUDA_SUCCESS);
}

CUresult cuParamSetv(CUfunction function, int offset, void *value, unsigned int bytes)
{
	struct legacy_launch *state;

	TRY(enter(function, &state));
	if (!value || offset < 0 || bytes > LEGACY_PARAM_BYTES ||
		(unsigned)offset > LEGACY_PARAM_BYTES - bytes)
		return leave(function,
			fail(CUDA_ERROR_INVALID_VALUE,
				"value is NULL, or %u bytes at %d do not fit into the %d that "
				"there is room for",
				bytes, offset, LEGACY_PARAM_BYTES));
	memcpy(state->params + offset, value, bytes);
	return leave(function, CUDA_SUCCESS);
}

CUresult cuParamSeti(CUfunction function, int offset, unsigned int value)
{
	return cuParamSetv(function, offset, &value, sizeof value);
}

CUresult cuParamSetf(CUfunction function, int offset, float value)
{
	return cuParamSetv(function, offset, &value, sizeof value);
}

CUresult cuLaunchGridAsync(CUfunction function, int width, int height, CUstream stream)
{
	struct legacy_launch *state, copy;

	TRY(enter(function, &state));
	copy = *state;
	leave(function, CUDA_SUCCESS);
	if (width <= 0 || height <= 0)
		return fail(
			CUDA_ERROR_INVALID_VALUE, "a grid of %dx%d blocks is none", width, height);
	size_t bytes = copy.param_bytes;
	const struct gdev_function_info *info = gdev_function_info(function->function);
	if (bytes < info->param_bytes)
		return fail(CUDA_ERROR_INVALID_VALUE,
			"the kernel %s takes %u bytes of parameters, and %zu are given", info->name,
			info->param_bytes, bytes);
	void *extra[] = {CU_LAUNCH_PARAM_BUFFER_POINTER, copy.params, CU_LAUNCH_PARAM_BUFFER_SIZE,
		&bytes, CU_LAUNCH_PARAM_END};
	CUlaunchConfig config = {(unsigned)width, (unsigned)height, 1, copy.block[0], copy.block[1],
		copy.block[2], copy.shared_bytes, stream, NULL, 0};
	return launch(function, &config, NULL, extra, 0);
}

CUresult cuLaunchGrid(CUfunction function, int width, int height)
{
	return cuLaunchGridAsync(function, width, height, NULL);
}

CUresult cuLaunch(CUfunction function)
{
	return cuLaunchGridAsync(function, 1, 1, NULL);
}
