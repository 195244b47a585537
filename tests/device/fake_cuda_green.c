/* SPDX-License-Identifier: MIT
 *
 * The driver library that is made for tests (fake_cuda.c): green contexts. Its four multiprocessors make one group of three,
 * and one is left. What a split gives has its number among all splits behind its sizes.
 */
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "fake_cuda.h"

#define ALL 4
#define GROUP 3

struct CUdevResourceDesc_st {
	unsigned multiprocessors;
};

struct CUgreenCtx_st {
	unsigned multiprocessors, context;
};

static atomic_uint splits, alive;

static CUdevResource resource_of(unsigned count, unsigned split)
{
	CUdevResource resource = {.type = CU_DEV_RESOURCE_TYPE_SM, .sm = {count, GROUP, GROUP}};

	memcpy(resource._internal_padding, &split, sizeof split);
	return resource;
}

/* These two want no context. */
CUresult cuDeviceGetDevResource(CUdevice device, CUdevResource *resource, CUdevResourceType type)
{
	*resource = resource_of(ALL, 0);
	return CUDA_SUCCESS;
}

CUresult cuDevSmResourceSplitByCount(CUdevResource *result, unsigned int *count,
	const CUdevResource *input, CUdevResource *rest, unsigned int flags, unsigned int least)
{
	unsigned split = atomic_fetch_add(&splits, 1) + 1;

	if (input->sm.smCount != ALL || least > GROUP)
		return CUDA_ERROR_INVALID_RESOURCE_CONFIGURATION;
	if (result && *count) {
		result[0] = resource_of(GROUP, split);
		*rest = resource_of(ALL - GROUP, split);
	}
	*count = 1;
	return CUDA_SUCCESS;
}

CUresult cuDevResourceGenerateDesc(
	CUdevResourceDesc *description, CUdevResource *resources, unsigned int count)
{
	struct CUdevResourceDesc_st made = {0};

	ENTER();
	for (unsigned i = 0; i < count; i++) {
		if (memcmp(resources[i]._internal_padding, resources[0]._internal_padding,
			    sizeof(unsigned)))
			return CUDA_ERROR_INVALID_RESOURCE_CONFIGURATION;
		made.multiprocessors += resources[i].sm.smCount;
	}
	/* Nothing ever frees one: so they are few, and all there from the start. */
	static struct CUdevResourceDesc_st descriptions[ALL + 1];
	descriptions[made.multiprocessors] = made;
	*description = &descriptions[made.multiprocessors];
	return CUDA_SUCCESS;
}

CUresult cuGreenCtxCreate(
	CUgreenCtx *green, CUdevResourceDesc description, CUdevice device, unsigned int flags)
{
	ENTER();
	if (flags != CU_GREEN_CTX_DEFAULT_STREAM)
		return CUDA_ERROR_INVALID_VALUE;
	*green = calloc(1, sizeof **green);
	**green = (struct CUgreenCtx_st){description->multiprocessors, fake_context_number()};
	atomic_fetch_add(&alive, 1);
	return CUDA_SUCCESS;
}

/* Those of a context that is gone are gone. */
CUresult cuGreenCtxDestroy(CUgreenCtx green)
{
	if (green->context != fake_context_number())
		return CUDA_ERROR_INVALID_CONTEXT;
	atomic_fetch_sub(&alive, 1);
	free(green);
	return fake_enter(__func__);
}

CUresult cuGreenCtxStreamCreate(
	CUstream *stream, CUgreenCtx green, unsigned int flags, int priority)
{
	ENTER();
	if (flags != CU_STREAM_NON_BLOCKING || green->context != fake_context_number())
		return CUDA_ERROR_INVALID_VALUE;
	return fake_stream_create(stream, green->multiprocessors);
}

__attribute__((visibility("default"))) unsigned fake_green_count(void)
{
	return alive;
}
