/* SPDX-License-Identifier: MIT
 *
 * What the device's copy engines do for a run. While the kernel is not on the device, copies go to its stream: they are done
 * before its next launch, and are answered at once. While it is, they go beside it, and are answered when all that are on the
 * way there are done.
 *
 * A kernel names any addresses. Only memory that CUDA knows as the context's is touched, and only if all of it is one
 * allocation's.
 */
#include "lib/gloop/internal.h"

#include <errno.h>

/* A kernel has copied less sooner than a copy by an engine has begun. */
#define PLACE_BYTES 4096

void engine_init(struct engine *engine, CUcontext context, CUstream launches)
{
	*engine = (struct engine){.context = context, .launches = launches};
	list_init(&engine->copying);
}

void engine_finish(struct engine *engine)
{
	if (!engine->beside)
		return;
	cuStreamSynchronize(engine->beside); /* after an error copies may be on the way */
	cuStreamDestroy(engine->beside);
}

/* Whether it is memory of the context, and of this type or any (0). */
static bool is_known(const struct engine *engine, uint64_t address, uint64_t bytes, CUmemorytype of)
{
	CUpointer_attribute asked[] = {CU_POINTER_ATTRIBUTE_MEMORY_TYPE,
		CU_POINTER_ATTRIBUTE_CONTEXT, CU_POINTER_ATTRIBUTE_RANGE_START_ADDR,
		CU_POINTER_ATTRIBUTE_RANGE_SIZE};
	CUmemorytype type = 0;
	CUcontext context = NULL;
	CUdeviceptr base = 0;
	size_t size = 0;
	void *answers[] = {&type, &context, &base, &size};

	return cuPointerGetAttributes(4, asked, answers, address) == CUDA_SUCCESS && type &&
	       (!of || type == of) && context == engine->context && address >= base &&
	       address - base <= size && bytes <= size - (address - base);
}

bool engine_place(struct engine *engine, const struct request *r)
{
	return !engine->kernel_runs && r->destination && r->result >= PLACE_BYTES &&
	       is_known(engine, r->destination, (uint64_t)r->result, CU_MEMORYTYPE_DEVICE) &&
	       cuMemcpyHtoDAsync(r->destination, r->page, (size_t)r->result, engine->launches) ==
		       CUDA_SUCCESS;
}

bool engine_fetch(struct engine *engine, const struct request *r)
{
	return !engine->kernel_runs &&
	       is_known(engine, r->source, r->bytes, CU_MEMORYTYPE_DEVICE) &&
	       cuMemcpyDtoHAsync(r->page, r->source, r->bytes, engine->launches) == CUDA_SUCCESS;
}

static bool submit(struct engine *engine, const struct request *r)
{
	CUstream *stream = engine->kernel_runs ? &engine->beside : &engine->launches;

	return (*stream || cuStreamCreate(stream, CU_STREAM_NON_BLOCKING) == CUDA_SUCCESS) &&
	       cuMemcpyAsync(r->destination, r->source, r->offset, *stream) == CUDA_SUCCESS;
}

bool engine_copy(struct engine *engine, struct request *r)
{
	bool known = is_known(engine, r->destination, r->offset, 0) &&
		     is_known(engine, r->source, r->offset, 0);

	r->placed = true; /* nothing of it is in the page */
	r->result = known ? (int64_t)r->offset : -EFAULT;
	if (known && r->offset && !submit(engine, r))
		r->result = -EIO;
	if (r->result <= 0 || !engine->kernel_runs)
		return true;
	list_append(&engine->copying, &r->link);
	return false;
}

bool engine_is_busy(const struct engine *engine)
{
	return !list_empty(&engine->copying);
}

/* The first of those that are done, of which all are taken before the next copy begins. */
struct request *engine_take(struct engine *engine)
{
	struct request *r = list_first(&engine->copying, struct request, link);

	if (!r)
		return NULL;
	if (!engine->are_done) {
		CUresult result = cuStreamQuery(engine->beside);

		if (result == CUDA_ERROR_NOT_READY)
			return NULL;
		engine->are_done = true;
		engine->failed = result != CUDA_SUCCESS;
	}
	if (engine->failed)
		r->result = -EIO;
	list_remove(&r->link);
	engine->are_done = !list_empty(&engine->copying);
	return r;
}
