/* SPDX-License-Identifier: MIT
 *
 * User objects: what a program wants to live as long as the graphs that use it. A counter and a function
 * that is called when it comes to 0.
 */
#include <stdlib.h>

#include "lib/cuda/graph.h"

struct CUuserObject_st {
	uint32_t handle_word;
	_Atomic unsigned refs;
	void *pointer;
	CUhostFn destroy;
};

static CUresult check(CUuserObject object, unsigned count)
{
	TRY(initialised());
	return handle_is(HANDLE_OBJECT, object) && count && count <= INT32_MAX
		       ? CUDA_SUCCESS
		       : fail(CUDA_ERROR_INVALID_VALUE,
				 "%p is no living object, or the count %u is none", (void *)object,
				 count);
}

CUresult cuUserObjectCreate(CUuserObject *created, void *pointer, CUhostFn destroy,
	unsigned int count, unsigned int flags)
{
	CUuserObject object;

	TRY(initialised());
	if (!created || !destroy || !count || count > INT32_MAX ||
		flags != CU_USER_OBJECT_NO_DESTRUCTOR_SYNC)
		return fail(CUDA_ERROR_INVALID_VALUE,
			"a pointer is NULL, the count %u none, or the flags are not "
			"CU_USER_OBJECT_NO_DESTRUCTOR_SYNC",
			count);
	object = handle_create(HANDLE_OBJECT, sizeof *object);
	if (!object)
		return no_memory();
	object->refs = count;
	object->pointer = pointer;
	object->destroy = destroy;
	*created = object;
	return CUDA_SUCCESS;
}

CUresult cuUserObjectRetain(CUuserObject object, unsigned int count)
{
	TRY(check(object, count));
	atomic_fetch_add(&object->refs, count);
	return CUDA_SUCCESS;
}

CUresult cuUserObjectRelease(CUuserObject object, unsigned int count)
{
	TRY(check(object, count));
	if (atomic_load(&object->refs) < count)
		return fail(
			CUDA_ERROR_INVALID_VALUE, "the object has fewer than %u references", count);
	if (atomic_fetch_sub(&object->refs, count) != count)
		return CUDA_SUCCESS;
	object->destroy(object->pointer);
	handle_destroy(HANDLE_OBJECT, object);
	return CUDA_SUCCESS;
}

/* ---- what graphs keep ---- */

static struct graph_object *find(CUgraph graph, CUuserObject object)
{
	struct graph_object *kept;

	list_for_each (kept, &graph->objects, link)
		if (kept->object == object)
			return kept;
	return NULL;
}

/* Takes over `count` references of the caller. */
static CUresult keep(CUgraph graph, CUuserObject object, unsigned count)
{
	struct graph_object *kept = find(graph, object);

	if (!kept) {
		kept = calloc(1, sizeof *kept);
		if (!kept)
			return no_memory();
		kept->object = object;
		list_append(&graph->objects, &kept->link);
	}
	kept->count += count;
	return CUDA_SUCCESS;
}

CUresult graph_keep_object(CUgraph graph, CUuserObject object, unsigned count)
{
	CUresult result;

	TRY(cuUserObjectRetain(object, count));
	result = keep(graph, object, count);
	if (result != CUDA_SUCCESS)
		cuUserObjectRelease(object, count);
	return result;
}

void graph_drop_objects(CUgraph graph)
{
	struct graph_object *kept, *next;

	list_for_each_safe (kept, next, &graph->objects, link) {
		cuUserObjectRelease(kept->object, kept->count);
		free(kept);
	}
	list_init(&graph->objects);
}

CUresult cuGraphRetainUserObject(
	CUgraph graph, CUuserObject object, unsigned int count, unsigned int flags)
{
	TRY(graph_check(graph));
	TRY(check(object, count));
	if (flags & ~(unsigned)CU_GRAPH_USER_OBJECT_MOVE)
		return fail(
			CUDA_ERROR_INVALID_VALUE, "flags %#x have bits that mean nothing", flags);
	return flags ? keep(graph, object, count) : graph_keep_object(graph, object, count);
}

CUresult cuGraphReleaseUserObject(CUgraph graph, CUuserObject object, unsigned int count)
{
	struct graph_object *kept;

	TRY(graph_check(graph));
	TRY(check(object, count));
	kept = find(graph, object);
	if (!kept || kept->count < count)
		return fail(CUDA_ERROR_INVALID_VALUE,
			"the graph has fewer than %u references to the object", count);
	kept->count -= count;
	if (!kept->count) {
		list_remove(&kept->link);
		free(kept);
	}
	return cuUserObjectRelease(object, count);
}
