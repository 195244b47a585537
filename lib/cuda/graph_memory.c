/* SPDX-License-Identifier: MIT
 *
 * Memory of graphs: what their nodes allocate and free. An allocation's address is known when its node is made,
 * so its memory is had then, and is held until the graph, its executable graph, and the allocation are gone. A
 * launch only says that it is allocated, from where on the program may free it as memory of a pool; and the node
 * of the next launch waits for the point at which it was freed. Memory that is free behind a node is used again
 * by nodes behind that.
 */
#include <stdlib.h>
#include <string.h>

#include "lib/cuda/graph.h"

#define GRANULE 512

struct graph_memory {
	struct list link;             /* of all; not when `refs` is 0 */
	unsigned refs;                /* nodes, and the allocation */
	CUcontext context;            /* NULL: it is gone, and the memory with it */
	struct gdev_session *session; /* the context's */
	uint64_t base, bytes;
	bool allocated;          /* by a launch, and not freed yet */
	bool used;               /* by a launch, and not trimmed since */
	bool claimed;            /* by an executable graph */
	struct gdev_fence freed; /* reached when the last allocation of it is not used any more */
};

/* Of a device, in bytes: the highest since the program has reset it. */
struct usage {
	uint64_t used, reserved;
};

/* Guards what follows, and each of them. Memory is allocated before it is in the list, and freed when it is not any
 * more. */
static pthread_mutex_t *const lock = &process_locks[LOCK_GRAPH_MEMORY];
static struct list memories = {&memories, &memories};
static struct usage highest[DEVICES_MAX];

/* Nodes may still have some of it, whose contexts are gone. */
void graph_memory_forget(void)
{
	struct graph_memory *memory, *next;

	list_for_each_safe (memory, next, &memories, link) {
		memory->context = NULL;
		list_init(&memory->link);
	}
	list_init(&memories);
	memset(highest, 0, sizeof highest);
}

/* ---- with the lock ---- */

static struct usage usage_of(CUdevice device)
{
	struct graph_memory *memory;
	struct usage usage = {0};

	list_for_each (memory, &memories, link) {
		if (!memory->context || memory->context->device != device)
			continue;
		usage.reserved += memory->bytes;
		usage.used += memory->used ? memory->bytes : 0;
	}
	return usage;
}

static void note_usage(CUdevice device)
{
	struct usage usage = usage_of(device), *high = &highest[device];

	high->used = max_of(high->used, usage.used);
	high->reserved = max_of(high->reserved, usage.reserved);
}

/* Drops a reference. If it was the last, returns the memory, which the caller gives to free_dropped() without the lock;
 * else NULL. The session stays open until then, because the context may go away meanwhile. */
static struct graph_memory *drop(struct graph_memory *memory)
{
	if (--memory->refs)
		return NULL;
	list_remove(&memory->link);
	if (memory->context)
		gdev_session_ref(memory->session);
	return memory;
}

static struct graph_memory *find_memory(uint64_t base)
{
	struct graph_memory *memory;

	list_for_each (memory, &memories, link)
		if (memory->context && memory->base == base)
			return memory;
	return NULL;
}

static CUresult set_allocated(struct graph_memory *memory)
{
	TRY(memory_remember(memory->context, memory->base, memory->bytes, ALLOCATION_GRAPH, 0));
	memory->allocated = memory->used = true;
	memory->refs++;
	note_usage(memory->context->device);
	return CUDA_SUCCESS;
}

/* The program or a node frees it: it may be used again behind what is on the stream now, or at once for NULL. Returns
 * what drop() does. */
static struct graph_memory *set_free(struct graph_memory *memory, CUstream stream)
{
	struct allocation allocation;

	memory_forget(memory->base, &allocation);
	memory->allocated = false;
	memory->freed = (struct gdev_fence){0};
	if (stream)
		gdev_stream_fence(stream->stream, &memory->freed);
	return drop(memory);
}

/* ---- without the lock ---- */

/* Waits for the device. NULL is fine. */
static void free_dropped(struct graph_memory *memory)
{
	if (memory && memory->context) {
		gdev_memory_free(memory->session, memory->base);
		gdev_session_close(memory->session);
	}
	free(memory);
}

static CUresult memory_create(CUcontext context, uint64_t bytes, struct graph_memory **created)
{
	struct graph_memory *memory = calloc(1, sizeof *memory);
	CUresult result;

	if (!memory)
		return no_memory();
	result = result_of(gdev_memory_alloc(context->session, bytes, &memory->base),
		"%llu bytes of device memory cannot be had", (unsigned long long)bytes);
	if (result != CUDA_SUCCESS) {
		free(memory);
		return result;
	}
	memory->refs = 1;
	memory->context = context;
	memory->session = context->session;
	memory->bytes = bytes;
	pthread_mutex_lock(lock);
	list_append(&memories, &memory->link);
	note_usage(context->device);
	pthread_mutex_unlock(lock);
	*created = memory;
	return CUDA_SUCCESS;
}

/* ---- contexts, and frees that are no nodes ---- */

/* Takes an allocation from a context that goes away, for the caller to free; false: there is none. Nodes may still refer
 * to its struct graph_memory. */
static bool take_from(CUcontext context, uint64_t *base)
{
	struct graph_memory *memory, *dropped = NULL;
	bool found = false;

	pthread_mutex_lock(lock);
	list_for_each (memory, &memories, link)
		if (memory->context == context) {
			found = true;
			*base = memory->base;
			memory->context = NULL;
			break;
		}
	if (found && memory->allocated)
		dropped = set_free(memory, NULL);
	pthread_mutex_unlock(lock);
	free_dropped(dropped);
	return found;
}

void graph_memory_leave_context(CUcontext context)
{
	uint64_t base;

	while (take_from(context, &base))
		gdev_memory_free(context->session, base);
}

/* Memory that is allocated there, and that the stream (or NULL) may free. With the lock. */
static CUresult find_allocated(uint64_t base, CUstream stream, struct graph_memory **memory)
{
	*memory = find_memory(base);
	return *memory && (*memory)->allocated && (!stream || stream->context == (*memory)->context)
		       ? CUDA_SUCCESS
		       : fail(CUDA_ERROR_INVALID_VALUE,
				 "%#llx is no memory that a graph has allocated in the stream's "
				 "context, or it is freed",
				 (unsigned long long)base);
}

/* Waits for all work of the memory's session, which may use it. */
static CUresult await_use(uint64_t base)
{
	struct gdev_session *session = NULL;
	struct graph_memory *memory;
	CUresult result;

	pthread_mutex_lock(lock);
	result = find_allocated(base, NULL, &memory);
	if (result == CUDA_SUCCESS) {
		session = memory->session;
		gdev_session_ref(session);
	}
	pthread_mutex_unlock(lock);
	if (result == CUDA_SUCCESS)
		result = result_of(gdev_session_sync(session), "the work before failed");
	gdev_session_close(session);
	return result;
}

CUresult graph_memory_free(uint64_t base, CUstream stream)
{
	struct graph_memory *memory, *dropped = NULL;
	CUresult awaited = stream ? CUDA_SUCCESS : await_use(base), result;

	pthread_mutex_lock(lock);
	result = find_allocated(base, stream, &memory); /* it may have been freed meanwhile */
	if (result == CUDA_SUCCESS)
		dropped = set_free(memory, stream);
	pthread_mutex_unlock(lock);
	free_dropped(dropped);
	return result == CUDA_SUCCESS ? awaited : result;
}

/* ---- nodes ---- */

bool graph_has_memory(CUgraph graph)
{
	CUgraphNode node;

	list_for_each (node, &graph->nodes, link)
		if (node->memory)
			return true;
	return false;
}

void node_drop_memory(CUgraphNode node)
{
	struct graph_memory *dropped;

	if (!node->memory)
		return;
	pthread_mutex_lock(lock);
	dropped = drop(node->memory);
	pthread_mutex_unlock(lock);
	free_dropped(dropped);
	node->memory = NULL;
}

void node_share_memory(CUgraphNode node, CUgraphNode other)
{
	pthread_mutex_lock(lock);
	other->memory->refs++;
	pthread_mutex_unlock(lock);
	node_drop_memory(node);
	node->memory = other->memory;
	node->alloc = other->alloc;
}

/* Marks, by `placed`, all that come before the node. Dependencies mostly are older: then one pass does. */
static void mark_before(CUgraphNode node)
{
	struct list *nodes = &node->graph->nodes, *at;
	bool more = true;

	for (at = nodes->next; at != nodes; at = at->next)
		list_entry(at, struct CUgraphNode_st, link)->placed = false;
	node->placed = true;
	while (more) {
		more = false;
		for (at = nodes->prev; at != nodes; at = at->prev) {
			CUgraphNode marked = list_entry(at, struct CUgraphNode_st, link);
			for (size_t i = 0; marked->placed && i < marked->dependency_count; i++) {
				more |= !marked->dependencies[i]->placed;
				marked->dependencies[i]->placed = true;
			}
		}
	}
	node->placed = false;
}

/* Whether all that the graph allocates of it is freed by nodes that are marked. */
static bool is_free_behind_marked(CUgraph graph, const struct graph_memory *memory)
{
	int allocations = 0;
	CUgraphNode node;

	list_for_each (node, &graph->nodes, link) {
		if (node->memory != memory)
			continue;
		if (node->type == CU_GRAPH_NODE_TYPE_MEM_ALLOC)
			allocations++;
		else if (node->placed)
			allocations--;
		else
			return false;
	}
	return !allocations;
}

/* Memory of the graph that is free where the node is, or NULL. With the lock. */
static struct graph_memory *find_free(CUgraphNode node, CUcontext context, uint64_t bytes)
{
	struct graph_memory *found = NULL, *memory;
	CUgraphNode before;

	mark_before(node);
	list_for_each (before, &node->graph->nodes, link) {
		memory = before->type == CU_GRAPH_NODE_TYPE_MEM_ALLOC ? before->memory : NULL;
		if (!found && memory && memory->context == context && memory->bytes == bytes &&
			is_free_behind_marked(node->graph, memory))
			found = memory;
	}
	list_for_each (before, &node->graph->nodes, link)
		before->placed = false;
	if (found)
		found->refs++;
	return found;
}

/* `context`: that of a stream that captures, or NULL. */
static CUresult check_alloc(const CUDA_MEM_ALLOC_NODE_PARAMS *params, CUcontext *context)
{
	const CUmemPoolProps *pool = &params->poolProps;
	struct device *device;

	if (!params->bytesize || (params->accessDescCount && !params->accessDescs) ||
		pool->allocType != CU_MEM_ALLOCATION_TYPE_PINNED ||
		pool->location.type != CU_MEM_LOCATION_TYPE_DEVICE)
		return fail(CUDA_ERROR_INVALID_VALUE,
			"the size is 0, a list of rights is missing, or the memory is not "
			"page-locked memory of a device");
	if (pool->handleTypes != CU_MEM_HANDLE_TYPE_NONE)
		return fail(CUDA_ERROR_NOT_SUPPORTED,
			"memory of a graph cannot leave the process: handleTypes must be none");
	if (device_find(pool->location.id, &device))
		return fail(CUDA_ERROR_INVALID_VALUE, "there is no device %d", pool->location.id);
	for (size_t i = 0; i < params->accessDescCount; i++)
		if (params->accessDescs[i].location.type != CU_MEM_LOCATION_TYPE_DEVICE ||
			params->accessDescs[i].location.id != pool->location.id)
			return fail(CUDA_ERROR_INVALID_DEVICE,
				"virtual GPUs do not reach each other's memory: rights can be "
				"given to the device %d alone",
				pool->location.id);
	TRY(context_or_current(*context, context));
	return (*context)->device == pool->location.id
		       ? CUDA_SUCCESS
		       : fail(CUDA_ERROR_NOT_SUPPORTED,
				 "the memory is to be on another device than the current context");
}

CUresult node_set_alloc(CUgraphNode node, CUDA_MEM_ALLOC_NODE_PARAMS *params)
{
	CUresult result = CUDA_SUCCESS;
	CUcontext context = node->home.context;
	struct graph_memory *memory;

	TRY(check_alloc(params, &context));
	if (params->bytesize > UINT64_MAX - GRANULE)
		return fail(CUDA_ERROR_OUT_OF_MEMORY, "%zu bytes are more than any device has",
			params->bytesize);
	uint64_t bytes = align_up(params->bytesize, (size_t)GRANULE);
	pthread_mutex_lock(lock);
	memory = find_free(node, context, bytes);
	pthread_mutex_unlock(lock);
	if (!memory)
		result = memory_create(context, bytes, &memory);
	if (result != CUDA_SUCCESS)
		return result;
	params->dptr = memory->base;
	node->home = home_of(context);
	node->memory = memory;
	node->alloc.params = *params;
	if (params->accessDescCount) /* all say the same */
		node->alloc.access = params->accessDescs[0];
	return CUDA_SUCCESS;
}

/* The allocation's nodes in the graph, of either type. */
static int count_nodes(CUgraph graph, const struct graph_memory *memory, CUgraphNodeType type)
{
	int count = 0;
	CUgraphNode node;

	list_for_each (node, &graph->nodes, link)
		count += node->type == type && node->memory == memory;
	return count;
}

/* Memory that another graph allocates may be freed here as well, once for each time that it is allocated. */
CUresult node_set_free(CUgraphNode node, CUdeviceptr pointer)
{
	struct graph_memory *memory;
	int allocations, frees;

	pthread_mutex_lock(lock);
	memory = find_memory(pointer);
	if (memory) {
		allocations = count_nodes(node->graph, memory, CU_GRAPH_NODE_TYPE_MEM_ALLOC);
		frees = count_nodes(node->graph, memory, CU_GRAPH_NODE_TYPE_MEM_FREE);
		if (frees >= max_of(allocations, 1))
			memory = NULL;
	}
	if (memory) {
		memory->refs++;
		node->home = home_of(memory->context);
	}
	pthread_mutex_unlock(lock);
	node->memory = memory;
	return memory ? CUDA_SUCCESS
		      : fail(CUDA_ERROR_INVALID_VALUE,
				"%#llx is no memory that a graph allocates, or it is freed already",
				(unsigned long long)pointer);
}

CUresult node_run_alloc(CUgraphNode node, CUstream stream)
{
	struct graph_memory *memory = node->memory;
	struct gdev_fence freed;
	CUresult result;

	pthread_mutex_lock(lock);
	freed = memory->freed;
	if (memory->context != stream->context || memory->allocated)
		result = fail(CUDA_ERROR_INVALID_VALUE,
			"memory of the graph is of another context, or is allocated and not "
			"freed since");
	else
		result = set_allocated(memory);
	pthread_mutex_unlock(lock);
	/* A stream cannot wait only where its session has failed, and with it all that the graph does. */
	return result == CUDA_SUCCESS ? result_of(gdev_stream_wait(stream->stream, &freed),
						"the stream cannot wait")
				      : result;
}

CUresult node_run_free(CUgraphNode node, CUstream stream)
{
	struct graph_memory *memory = node->memory, *dropped = NULL;
	CUresult result = CUDA_SUCCESS;

	pthread_mutex_lock(lock);
	if (memory->context == stream->context && memory->allocated)
		dropped = set_free(memory, stream);
	else
		result = fail(CUDA_ERROR_INVALID_VALUE,
			"memory of the graph is of another context, or is not allocated");
	pthread_mutex_unlock(lock);
	free_dropped(dropped);
	return result;
}

/* ---- executable graphs ---- */

static void set_claimed(CUgraph graph, bool claimed)
{
	CUgraphNode node;

	list_for_each (node, &graph->nodes, link)
		if (node->type == CU_GRAPH_NODE_TYPE_MEM_ALLOC)
			node->memory->claimed = claimed;
}

CUresult graph_claim_memory(CUgraph graph)
{
	CUresult result = CUDA_SUCCESS;
	CUgraphNode node;

	pthread_mutex_lock(lock);
	list_for_each (node, &graph->nodes, link)
		if (node->type == CU_GRAPH_NODE_TYPE_MEM_ALLOC && node->memory->claimed)
			result = fail(CUDA_ERROR_NOT_SUPPORTED,
				"memory of the graph belongs to another executable graph, as "
				"in CUDA one at a time");
	if (result == CUDA_SUCCESS)
		set_claimed(graph, true);
	pthread_mutex_unlock(lock);
	return result;
}

void graph_unclaim_memory(CUgraph graph)
{
	pthread_mutex_lock(lock);
	set_claimed(graph, false);
	pthread_mutex_unlock(lock);
}

CUresult graph_settle_memory(CUgraph graph, bool free_it)
{
	CUresult result = CUDA_SUCCESS;
	struct graph_memory *memory;
	CUgraphNode node;

	pthread_mutex_lock(lock);
	list_for_each (node, &graph->nodes, link) {
		memory = node->type == CU_GRAPH_NODE_TYPE_MEM_ALLOC ? node->memory : NULL;
		if (!memory || !memory->allocated)
			continue;
		/* Launches follow each other, and so does its next use. The node keeps a reference. */
		if (free_it)
			set_free(memory, NULL);
		else
			result = fail(CUDA_ERROR_INVALID_VALUE,
				"memory that the launch before allocated was not freed");
	}
	pthread_mutex_unlock(lock);
	return result;
}

/* ---- the calls ---- */

CUresult cuGraphMemAllocNodeGetParams(CUgraphNode node, CUDA_MEM_ALLOC_NODE_PARAMS *params)
{
	TRY(graph_check_node(node, CU_GRAPH_NODE_TYPE_MEM_ALLOC));
	if (!params)
		return fail(CUDA_ERROR_INVALID_VALUE, "params is NULL");
	*params = node->alloc.params;
	params->accessDescs = params->accessDescCount ? &node->alloc.access : NULL;
	params->accessDescCount = params->accessDescCount ? 1 : 0;
	return CUDA_SUCCESS;
}

CUresult cuGraphMemFreeNodeGetParams(CUgraphNode node, CUdeviceptr *pointer)
{
	TRY(graph_check_node(node, CU_GRAPH_NODE_TYPE_MEM_FREE));
	if (!pointer)
		return fail(CUDA_ERROR_INVALID_VALUE, "pointer is NULL");
	*pointer = node->memory->base;
	return CUDA_SUCCESS;
}

CUresult cuDeviceGraphMemTrim(CUdevice device)
{
	struct graph_memory *memory;
	struct device *found;

	TRY(device_find(device, &found));
	pthread_mutex_lock(lock);
	list_for_each (memory, &memories, link) /* nothing is kept that no graph has */
		if (memory->context && memory->context->device == device)
			memory->used = memory->allocated;
	pthread_mutex_unlock(lock);
	return CUDA_SUCCESS;
}

CUresult cuDeviceGetGraphMemAttribute(CUdevice device, CUgraphMem_attribute attribute, void *value)
{
	struct device *found;
	struct usage usage, high;

	TRY(device_find(device, &found));
	if (!value || (unsigned)attribute > CU_GRAPH_MEM_ATTR_RESERVED_MEM_HIGH)
		return fail(CUDA_ERROR_INVALID_VALUE, "value is NULL, or %d is no attribute",
			(int)attribute);
	pthread_mutex_lock(lock);
	usage = usage_of(device);
	high = highest[device];
	pthread_mutex_unlock(lock);
	*(uint64_t *)value = attribute == CU_GRAPH_MEM_ATTR_USED_MEM_CURRENT       ? usage.used
			     : attribute == CU_GRAPH_MEM_ATTR_USED_MEM_HIGH        ? high.used
			     : attribute == CU_GRAPH_MEM_ATTR_RESERVED_MEM_CURRENT ? usage.reserved
										   : high.reserved;
	return CUDA_SUCCESS;
}

/* The highest can only be reset. */
CUresult cuDeviceSetGraphMemAttribute(CUdevice device, CUgraphMem_attribute attribute, void *value)
{
	struct device *found;
	struct usage usage;

	TRY(device_find(device, &found));
	if (!value || *(const uint64_t *)value ||
		(attribute != CU_GRAPH_MEM_ATTR_USED_MEM_HIGH &&
			attribute != CU_GRAPH_MEM_ATTR_RESERVED_MEM_HIGH))
		return fail(CUDA_ERROR_INVALID_VALUE,
			"value is NULL or not 0, or %d is no attribute that can be reset",
			(int)attribute);
	pthread_mutex_lock(lock);
	usage = usage_of(device);
	if (attribute == CU_GRAPH_MEM_ATTR_USED_MEM_HIGH)
		highest[device].used = usage.used;
	else
		highest[device].reserved = usage.reserved;
	pthread_mutex_unlock(lock);
	return CUDA_SUCCESS;
}
