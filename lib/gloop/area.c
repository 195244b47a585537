/* SPDX-License-Identifier: MIT
 *
 * The page-locked memory of a run. Locking memory takes half a millisecond a MiB, and touching it for the first time about as
 * long, so one area of the process outlives its run and is the next run's. It is known by its context and by the number that
 * CUDA gives each allocation: if the context has ended meanwhile, so has the area, and its address may be another's.
 */
#include "lib/gloop/internal.h"

#include <pthread.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct area kept; /* with `lock` */

static unsigned long long number_of(const struct area *area)
{
	unsigned long long number;

	return area->memory && cuPointerGetAttribute(&number, CU_POINTER_ATTRIBUTE_BUFFER_ID,
				       (CUdeviceptr)(uintptr_t)area->memory) == CUDA_SUCCESS
		       ? number
		       : 0;
}

static bool is_there(const struct area *area)
{
	return area->number && number_of(area) == area->number;
}

static void swap(struct area *area)
{
	struct area other;

	pthread_mutex_lock(&lock);
	other = kept;
	kept = *area;
	pthread_mutex_unlock(&lock);
	*area = other;
}

CUresult area_take(CUcontext context, size_t bytes, struct area *area)
{
	CUresult result;

	*area = (struct area){0};
	swap(area);
	if (area->context == context && area->bytes >= bytes && is_there(area))
		return CUDA_SUCCESS;
	area_give(area);
	*area = (struct area){.context = context, .bytes = bytes};
	result = cuMemHostAlloc(&area->memory, bytes, CU_MEMHOSTALLOC_DEVICEMAP);
	if (result == CUDA_SUCCESS)
		area->number = number_of(area);
	return result;
}

void area_give(struct area *area)
{
	if (!area->memory)
		return;
	swap(area);
	if (is_there(area))
		cuMemFreeHost(area->memory);
	*area = (struct area){0};
}
