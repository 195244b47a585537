/* SPDX-License-Identifier: MIT
 *
 * Nodes of graphs: what each kind holds, and does when the graph is launched. The calls on single nodes are
 * at the end, and for those of an executable graph in graph_exec.c.
 */
#include <stdlib.h>
#include <string.h>

#include "lib/cuda/graph.h"

/* ---- where the work is done ---- */

struct home home_of(CUcontext context)
{
	if (!handle_is(HANDLE_CONTEXT, context))
		return (struct home){0};
	if (context->green)
		context = context->green->primary;
	return (struct home){context, context->id};
}

bool same_home(const struct home *a, const struct home *b)
{
	return a->context == b->context && a->id == b->id;
}

CUresult node_set_home(CUgraphNode node, CUcontext context)
{
	struct home home = home_of(context);

	if (node->graph->order && !same_home(&node->home, &home))
		return fail(CUDA_ERROR_INVALID_VALUE,
			"what a node of an executable graph does stays in its context");
	node->home = home;
	return CUDA_SUCCESS;
}

/* What a CUkernel is depends on the current context. */
CUresult node_enter(CUcontext context, bool *entered)
{
	*entered = context && context != context_top();
	return *entered ? cuCtxPushCurrent(context) : CUDA_SUCCESS;
}

void node_leave(bool entered)
{
	if (entered)
		cuCtxPopCurrent(NULL);
}

/* ---- kernels ---- */

static CUresult keep_attributes(struct graph_kernel *kernel, const CUlaunchConfig *config)
{
	if (config->numAttrs > NODE_ATTRIBUTES_MAX)
		return fail(CUDA_ERROR_INVALID_VALUE, "%u attributes are more than a node keeps",
			config->numAttrs);
	for (unsigned i = 0; i < config->numAttrs; i++)
		kernel->attributes[i] = config->attrs[i];
	kernel->config = *config;
	kernel->config.attrs = NULL; /* the array may move with the node; see node_run */
	kernel->config.hStream = NULL;
	return CUDA_SUCCESS;
}

static CUresult keep_buffer(struct graph_kernel *kernel, void **extra)
{
	const void *buffer = NULL;
	size_t bytes = 0;

	for (; *extra != CU_LAUNCH_PARAM_END; extra += 2) {
		if (*extra == CU_LAUNCH_PARAM_BUFFER_POINTER)
			buffer = extra[1];
		else if (*extra == CU_LAUNCH_PARAM_BUFFER_SIZE)
			bytes = *(const size_t *)extra[1];
		else
			return fail(CUDA_ERROR_INVALID_VALUE,
				"the list of extras has an entry that is none");
	}
	if (!buffer || bytes > kernel->param_bytes)
		return fail(CUDA_ERROR_INVALID_VALUE,
			"the list of extras has no buffer, or one of %zu bytes for a kernel "
			"that takes %zu",
			bytes, kernel->param_bytes);
	memcpy(kernel->params, buffer, bytes);
	return CUDA_SUCCESS;
}

static CUresult keep_params(
	struct graph_kernel *kernel, CUfunction function, void **params, void **extra)
{
	const struct gdev_function_info *info = gdev_function_info(function->function);

	if ((params && extra) || (info->param_count && !params && !extra))
		return fail(CUDA_ERROR_INVALID_VALUE,
			"parameters are given in both ways, or the kernel takes %u and none are given",
			info->param_count);
	kernel->param_bytes = info->param_bytes;
	kernel->params = calloc(1, max_of(info->param_bytes, 1u));
	kernel->arguments = calloc(info->param_count + 1, sizeof *kernel->arguments);
	if (!kernel->params || !kernel->arguments)
		return no_memory();
	for (uint32_t i = 0; i < info->param_count; i++) {
		kernel->arguments[i] = (uint8_t *)kernel->params + info->params[i].offset;
		if (params)
			memcpy(kernel->arguments[i], params[i], info->params[i].size);
	}
	return extra ? keep_buffer(kernel, extra) : CUDA_SUCCESS;
}

CUresult node_set_kernel(CUgraphNode node, CUfunction handle, const CUlaunchConfig *config,
	void **params, void **extra)
{
	struct graph_kernel kernel = {.function = handle};
	CUfunction function;
	CUresult result;

	TRY(function_resolve(handle, &function));
	result = keep_attributes(&kernel, config);
	if (result == CUDA_SUCCESS)
		result = keep_params(&kernel, function, params, extra);
	if (result == CUDA_SUCCESS)
		result = node_set_home(node, function->module->context);
	if (result != CUDA_SUCCESS) {
		free(kernel.params);
		free(kernel.arguments);
		return result;
	}
	node_clear(node);
	node->kernel = kernel;
	return CUDA_SUCCESS;
}

static CUresult run_kernel(struct graph_kernel *kernel, CUstream stream, bool more)
{
	CUlaunchConfig config = kernel->config;
	void *extra[] = {CU_LAUNCH_PARAM_BUFFER_POINTER, kernel->params,
		CU_LAUNCH_PARAM_BUFFER_SIZE, &kernel->param_bytes, CU_LAUNCH_PARAM_END};

	config.attrs = kernel->attributes;
	config.hStream = stream;
	return launch(kernel->function, &config, NULL, extra, more ? LAUNCH_MORE : 0);
}

/* ---- the others ---- */

CUresult node_set_copy(CUgraphNode node, const CUDA_MEMCPY3D *params)
{
	struct gdev_copy copy;

	TRY(copy_shape(params, &copy));
	node->copy = (struct graph_copy){copy, *params};
	return CUDA_SUCCESS;
}

CUresult node_set_fill(CUgraphNode node, const CUDA_MEMSET_NODE_PARAMS *params)
{
	unsigned element = params->elementSize;

	if (!params->dst || (element != 1 && element != 2 && element != 4) || !params->width ||
		!params->height || (params->height > 1 && params->pitch < params->width * element))
		return fail(CUDA_ERROR_INVALID_VALUE,
			"the destination is NULL, a size 0, the element not of 1, 2 or 4 "
			"bytes, or the pitch less than a row");
	node->fill = *params;
	return CUDA_SUCCESS;
}

CUresult node_set_memops(CUgraphNode node, CUcontext context, const CUstreamBatchMemOpParams *ops,
	unsigned count, unsigned flags)
{
	CUstreamBatchMemOpParams *copy;
	CUresult result;

	if (!context)
		return fail(CUDA_ERROR_INVALID_VALUE, "the context is NULL");
	TRY(memops_check(ops, count, flags));
	copy = malloc(count * sizeof *copy);
	if (!copy)
		return no_memory();
	memcpy(copy, ops, count * sizeof *copy);
	result = node_set_home(node, context);
	if (result != CUDA_SUCCESS) {
		free(copy);
		return result;
	}
	node_clear(node);
	node->memops = (struct graph_memops){copy, count, context};
	return CUDA_SUCCESS;
}

static CUresult set_child(CUgraphNode node, CUgraph graph)
{
	CUgraph copy;

	if (graph_has_memory(graph))
		return fail(CUDA_ERROR_NOT_SUPPORTED,
			"as in CUDA, a graph that has memory of its own cannot be a child");
	TRY(graph_copy_all(graph, &copy));
	copy->inner = true;
	node_clear(node);
	node->child = copy;
	return CUDA_SUCCESS;
}

static CUresult set_kernel_like(CUgraphNode node, CUgraphNode other)
{
	CUlaunchConfig config = other->kernel.config;
	CUresult result;
	bool entered;

	config.attrs = other->kernel.attributes;
	TRY(node_enter(other->home.context, &entered));
	result = node_set_kernel(
		node, other->kernel.function, &config, other->kernel.arguments, NULL);
	node_leave(entered);
	return result;
}

CUresult node_set_like(CUgraphNode node, CUgraphNode other)
{
	if (!node->graph->order)
		node->home = other->home;
	switch (other->type) {
	case CU_GRAPH_NODE_TYPE_KERNEL:
		return set_kernel_like(node, other);
	case CU_GRAPH_NODE_TYPE_BATCH_MEM_OP:
		return node_set_memops(
			node, other->memops.context, other->memops.ops, other->memops.count, 0);
	case CU_GRAPH_NODE_TYPE_GRAPH:
		return set_child(node, other->child);
	case CU_GRAPH_NODE_TYPE_CONDITIONAL:
		return node_set_conditional_like(node, other);
	case CU_GRAPH_NODE_TYPE_MEMCPY:
		node->copy = other->copy;
		return CUDA_SUCCESS;
	case CU_GRAPH_NODE_TYPE_MEMSET:
		node->fill = other->fill;
		return CUDA_SUCCESS;
	case CU_GRAPH_NODE_TYPE_HOST:
		node->host = other->host;
		return CUDA_SUCCESS;
	case CU_GRAPH_NODE_TYPE_MEM_ALLOC:
	case CU_GRAPH_NODE_TYPE_MEM_FREE:
		node_share_memory(node, other);
		return CUDA_SUCCESS;
	default:
		node->event = other->event;
		return CUDA_SUCCESS;
	}
}

void node_clear(CUgraphNode node)
{
	switch (node->type) {
	case CU_GRAPH_NODE_TYPE_KERNEL:
		free(node->kernel.params);
		free(node->kernel.arguments);
		node->kernel = (struct graph_kernel){0};
		break;
	case CU_GRAPH_NODE_TYPE_BATCH_MEM_OP:
		free(node->memops.ops);
		node->memops = (struct graph_memops){0};
		break;
	case CU_GRAPH_NODE_TYPE_GRAPH:
		graph_release(node->child);
		node->child = NULL;
		break;
	case CU_GRAPH_NODE_TYPE_CONDITIONAL:
		node_clear_conditional(node);
		break;
	case CU_GRAPH_NODE_TYPE_MEM_ALLOC:
	case CU_GRAPH_NODE_TYPE_MEM_FREE:
		node_drop_memory(node);
		break;
	default:
		break;
	}
}

static CUresult run(CUgraphNode node, CUstream stream, bool more)
{
	const CUDA_MEMSET_NODE_PARAMS *set = &node->fill;

	switch (node->type) {
	case CU_GRAPH_NODE_TYPE_KERNEL:
		return run_kernel(&node->kernel, stream, more);
	case CU_GRAPH_NODE_TYPE_MEMCPY:
		return copy_send(stream, &node->copy.copy, false);
	case CU_GRAPH_NODE_TYPE_MEMSET:
		return fill(set->dst, set->pitch, set->value, set->elementSize, set->width,
			set->height, stream, false);
	case CU_GRAPH_NODE_TYPE_HOST:
		return stream_call(stream, node->host.fn, node->host.userData);
	case CU_GRAPH_NODE_TYPE_GRAPH:
		return graph_run(node->child, stream);
	case CU_GRAPH_NODE_TYPE_CONDITIONAL:
		return node_run_conditional(node, stream);
	case CU_GRAPH_NODE_TYPE_WAIT_EVENT:
		return cuStreamWaitEvent(stream, node->event, 0);
	case CU_GRAPH_NODE_TYPE_EVENT_RECORD:
		return cuEventRecord(node->event, stream);
	case CU_GRAPH_NODE_TYPE_BATCH_MEM_OP:
		return memops_run(stream, node->memops.ops, node->memops.count);
	case CU_GRAPH_NODE_TYPE_MEM_ALLOC:
		return node_run_alloc(node, stream);
	case CU_GRAPH_NODE_TYPE_MEM_FREE:
		return node_run_free(node, stream);
	default:
		return CUDA_SUCCESS;
	}
}

CUresult node_run(CUgraphNode node, CUstream stream, bool more)
{
	CUresult result;
	bool entered;

	if (node->disabled)
		return CUDA_SUCCESS;
	TRY(node_enter(stream->context, &entered));
	result = run(node, stream, more);
	node_leave(entered);
	return result;
}

/* ---- adding nodes: the node is there when its payload is ---- */

static CUresult finish_add(CUgraphNode node, CUresult result, CUgraphNode *added)
{
	if (result == CUDA_SUCCESS)
		*added = node;
	else
		graph_remove(node);
	return result;
}

static CUlaunchConfig config_of(const CUDA_KERNEL_NODE_PARAMS_v2 *params)
{
	return (CUlaunchConfig){params->gridDimX, params->gridDimY, params->gridDimZ,
		params->blockDimX, params->blockDimY, params->blockDimZ, params->sharedMemBytes,
		NULL, NULL, 0};
}

static CUfunction function_of(const CUDA_KERNEL_NODE_PARAMS_v2 *params)
{
	return params->func ? params->func : (CUfunction)params->kern;
}

/* The attributes, which are set by other calls, stay. */
static CUresult set_kernel(CUgraphNode node, const CUDA_KERNEL_NODE_PARAMS_v2 *params)
{
	CUlaunchConfig config = config_of(params);
	CUlaunchAttribute attributes[NODE_ATTRIBUTES_MAX];
	CUresult result;
	bool entered;

	memcpy(attributes, node->kernel.attributes, sizeof attributes);
	config.attrs = attributes;
	config.numAttrs = node->kernel.config.numAttrs;
	TRY(node_enter(params->func ? NULL : params->ctx, &entered));
	result = node_set_kernel(
		node, function_of(params), &config, params->kernelParams, params->extra);
	node_leave(entered);
	return result;
}

static CUDA_KERNEL_NODE_PARAMS_v2 newer(const CUDA_KERNEL_NODE_PARAMS_v1 *old)
{
	return (CUDA_KERNEL_NODE_PARAMS_v2){old->func, old->gridDimX, old->gridDimY, old->gridDimZ,
		old->blockDimX, old->blockDimY, old->blockDimZ, old->sharedMemBytes,
		old->kernelParams, old->extra, NULL, NULL};
}

CUresult cuGraphAddKernelNode_v2(CUgraphNode *added, CUgraph graph, const CUgraphNode *dependencies,
	size_t count, const CUDA_KERNEL_NODE_PARAMS_v2 *params)
{
	CUgraphNode node;

	TRY(graph_check(graph));
	if (!added || !params)
		return fail(
			CUDA_ERROR_INVALID_VALUE, "the pointer for the node, or params, is NULL");
	TRY(graph_add(graph, CU_GRAPH_NODE_TYPE_KERNEL, dependencies, count, &node));
	return finish_add(node, set_kernel(node, params), added);
}

CUresult cuGraphAddKernelNode(CUgraphNode *added, CUgraph graph, const CUgraphNode *dependencies,
	size_t count, const CUDA_KERNEL_NODE_PARAMS_v1 *params)
{
	CUDA_KERNEL_NODE_PARAMS_v2 converted;

	if (!params)
		return fail(CUDA_ERROR_INVALID_VALUE, "params is NULL");
	converted = newer(params);
	return cuGraphAddKernelNode_v2(added, graph, dependencies, count, &converted);
}

CUresult cuGraphAddMemcpyNode(CUgraphNode *added, CUgraph graph, const CUgraphNode *dependencies,
	size_t count, const CUDA_MEMCPY3D *params, CUcontext context)
{
	CUgraphNode node;

	TRY(graph_check(graph));
	if (!added || !params || !handle_is(HANDLE_CONTEXT, context))
		return fail(CUDA_ERROR_INVALID_VALUE,
			"the pointer for the node, or params, is NULL, or the context is none");
	TRY(graph_add(graph, CU_GRAPH_NODE_TYPE_MEMCPY, dependencies, count, &node));
	node->home = home_of(context);
	return finish_add(node, node_set_copy(node, params), added);
}

CUresult cuGraphAddMemsetNode(CUgraphNode *added, CUgraph graph, const CUgraphNode *dependencies,
	size_t count, const CUDA_MEMSET_NODE_PARAMS *params, CUcontext context)
{
	CUgraphNode node;

	TRY(graph_check(graph));
	if (!added || !params || !handle_is(HANDLE_CONTEXT, context))
		return fail(CUDA_ERROR_INVALID_VALUE,
			"the pointer for the node, or params, is NULL, or the context is none");
	TRY(graph_add(graph, CU_GRAPH_NODE_TYPE_MEMSET, dependencies, count, &node));
	node->home = home_of(context);
	return finish_add(node, node_set_fill(node, params), added);
}

CUresult cuGraphAddHostNode(CUgraphNode *added, CUgraph graph, const CUgraphNode *dependencies,
	size_t count, const CUDA_HOST_NODE_PARAMS *params)
{
	TRY(graph_check(graph));
	if (!added || !params || !params->fn)
		return fail(CUDA_ERROR_INVALID_VALUE,
			"the pointer for the node, params, or the function is NULL");
	TRY(graph_add(graph, CU_GRAPH_NODE_TYPE_HOST, dependencies, count, added));
	(*added)->host = *params;
	return CUDA_SUCCESS;
}

CUresult cuGraphAddChildGraphNode(CUgraphNode *added, CUgraph graph,
	const CUgraphNode *dependencies, size_t count, CUgraph child)
{
	CUgraphNode node;

	TRY(graph_check(graph));
	TRY(graph_check(child));
	if (!added || child == graph)
		return fail(CUDA_ERROR_INVALID_VALUE,
			"the pointer for the node is NULL, or the graph is to be its own child");
	TRY(graph_add(graph, CU_GRAPH_NODE_TYPE_GRAPH, dependencies, count, &node));
	return finish_add(node, set_child(node, child), added);
}

CUresult cuGraphAddEmptyNode(
	CUgraphNode *added, CUgraph graph, const CUgraphNode *dependencies, size_t count)
{
	TRY(graph_check(graph));
	if (!added)
		return fail(CUDA_ERROR_INVALID_VALUE, "the pointer for the node is NULL");
	return graph_add(graph, CU_GRAPH_NODE_TYPE_EMPTY, dependencies, count, added);
}

static CUresult add_event_node(CUgraphNodeType type, CUgraphNode *added, CUgraph graph,
	const CUgraphNode *dependencies, size_t count, CUevent event)
{
	TRY(graph_check(graph));
	if (!added || !handle_is(HANDLE_EVENT, event))
		return fail(CUDA_ERROR_INVALID_VALUE,
			"the pointer for the node is NULL, or %p is no living event",
			(void *)event);
	TRY(graph_add(graph, type, dependencies, count, added));
	if (type == CU_GRAPH_NODE_TYPE_EVENT_RECORD)
		(*added)->home = home_of(event->context);
	(*added)->event = event;
	return CUDA_SUCCESS;
}

CUresult cuGraphAddEventRecordNode(CUgraphNode *added, CUgraph graph,
	const CUgraphNode *dependencies, size_t count, CUevent event)
{
	return add_event_node(
		CU_GRAPH_NODE_TYPE_EVENT_RECORD, added, graph, dependencies, count, event);
}

CUresult cuGraphAddEventWaitNode(CUgraphNode *added, CUgraph graph, const CUgraphNode *dependencies,
	size_t count, CUevent event)
{
	return add_event_node(
		CU_GRAPH_NODE_TYPE_WAIT_EVENT, added, graph, dependencies, count, event);
}

CUresult cuGraphAddBatchMemOpNode(CUgraphNode *added, CUgraph graph,
	const CUgraphNode *dependencies, size_t count, const CUDA_BATCH_MEM_OP_NODE_PARAMS *params)
{
	CUgraphNode node;

	TRY(graph_check(graph));
	if (!added || !params)
		return fail(
			CUDA_ERROR_INVALID_VALUE, "the pointer for the node, or params, is NULL");
	TRY(graph_add(graph, CU_GRAPH_NODE_TYPE_BATCH_MEM_OP, dependencies, count, &node));
	return finish_add(node,
		node_set_memops(
			node, params->ctx, params->paramArray, params->count, params->flags),
		added);
}

CUresult cuGraphAddMemAllocNode(CUgraphNode *added, CUgraph graph, const CUgraphNode *dependencies,
	size_t count, CUDA_MEM_ALLOC_NODE_PARAMS *params)
{
	CUgraphNode node;

	TRY(graph_check(graph));
	if (!added || !params)
		return fail(
			CUDA_ERROR_INVALID_VALUE, "the pointer for the node, or params, is NULL");
	TRY(graph_add(graph, CU_GRAPH_NODE_TYPE_MEM_ALLOC, dependencies, count, &node));
	return finish_add(node, node_set_alloc(node, params), added);
}

CUresult cuGraphAddMemFreeNode(CUgraphNode *added, CUgraph graph, const CUgraphNode *dependencies,
	size_t count, CUdeviceptr pointer)
{
	CUgraphNode node;

	TRY(graph_check(graph));
	if (!added)
		return fail(CUDA_ERROR_INVALID_VALUE, "the pointer for the node is NULL");
	TRY(graph_add(graph, CU_GRAPH_NODE_TYPE_MEM_FREE, dependencies, count, &node));
	return finish_add(node, node_set_free(node, pointer), added);
}

/* ---- what nodes say, and changing it ---- */

CUresult cuGraphKernelNodeGetParams_v2(CUgraphNode node, CUDA_KERNEL_NODE_PARAMS_v2 *params)
{
	const CUlaunchConfig *config;

	TRY(graph_check_node(node, CU_GRAPH_NODE_TYPE_KERNEL));
	if (!params)
		return fail(CUDA_ERROR_INVALID_VALUE, "params is NULL");
	config = &node->kernel.config;
	*params = (CUDA_KERNEL_NODE_PARAMS_v2){node->kernel.function, config->gridDimX,
		config->gridDimY, config->gridDimZ, config->blockDimX, config->blockDimY,
		config->blockDimZ, config->sharedMemBytes, node->kernel.arguments, NULL, NULL,
		NULL};
	if (handle_is(HANDLE_KERNEL, node->kernel.function)) {
		params->func = NULL;
		params->kern = (CUkernel)node->kernel.function;
	}
	return CUDA_SUCCESS;
}

CUresult cuGraphKernelNodeGetParams(CUgraphNode node, CUDA_KERNEL_NODE_PARAMS_v1 *params)
{
	CUDA_KERNEL_NODE_PARAMS_v2 got;

	if (!params)
		return fail(CUDA_ERROR_INVALID_VALUE, "params is NULL");
	TRY(cuGraphKernelNodeGetParams_v2(node, &got));
	*params = (CUDA_KERNEL_NODE_PARAMS_v1){function_of(&got), got.gridDimX, got.gridDimY,
		got.gridDimZ, got.blockDimX, got.blockDimY, got.blockDimZ, got.sharedMemBytes,
		got.kernelParams, got.extra};
	return CUDA_SUCCESS;
}

CUresult cuGraphKernelNodeSetParams_v2(CUgraphNode node, const CUDA_KERNEL_NODE_PARAMS_v2 *params)
{
	TRY(graph_check_node(node, CU_GRAPH_NODE_TYPE_KERNEL));
	return params ? set_kernel(node, params) : fail(CUDA_ERROR_INVALID_VALUE, "params is NULL");
}

CUresult cuGraphKernelNodeSetParams(CUgraphNode node, const CUDA_KERNEL_NODE_PARAMS_v1 *params)
{
	CUDA_KERNEL_NODE_PARAMS_v2 converted;

	if (!params)
		return fail(CUDA_ERROR_INVALID_VALUE, "params is NULL");
	converted = newer(params);
	return cuGraphKernelNodeSetParams_v2(node, &converted);
}

static CUlaunchAttribute *find_attribute(CUgraphNode node, CUkernelNodeAttrID id)
{
	struct graph_kernel *kernel = &node->kernel;

	for (unsigned i = 0; i < kernel->config.numAttrs; i++)
		if (kernel->attributes[i].id == id)
			return &kernel->attributes[i];
	return NULL;
}

CUresult cuGraphKernelNodeGetAttribute(
	CUgraphNode node, CUkernelNodeAttrID id, CUkernelNodeAttrValue *value)
{
	const CUlaunchAttribute *attribute;

	TRY(graph_check_node(node, CU_GRAPH_NODE_TYPE_KERNEL));
	if (!value || (unsigned)id > CU_LAUNCH_ATTRIBUTE_NVLINK_UTIL_CENTRIC_SCHEDULING)
		return fail(CUDA_ERROR_INVALID_VALUE,
			"value is NULL, or %d is no attribute of launches", (int)id);
	attribute = find_attribute(node, id);
	if (attribute)
		*value = attribute->value;
	else
		memset(value, 0, sizeof *value);
	return CUDA_SUCCESS;
}

CUresult cuGraphKernelNodeSetAttribute(
	CUgraphNode node, CUkernelNodeAttrID id, const CUkernelNodeAttrValue *value)
{
	CUlaunchAttribute *attribute;

	TRY(graph_check_node(node, CU_GRAPH_NODE_TYPE_KERNEL));
	if (!value || (unsigned)id > CU_LAUNCH_ATTRIBUTE_NVLINK_UTIL_CENTRIC_SCHEDULING)
		return fail(CUDA_ERROR_INVALID_VALUE,
			"value is NULL, or %d is no attribute of launches", (int)id);
	attribute = find_attribute(node, id);
	if (!attribute) {
		if (node->kernel.config.numAttrs == NODE_ATTRIBUTES_MAX)
			return fail(CUDA_ERROR_INVALID_VALUE,
				"the node has %d attributes, which is all that it keeps",
				NODE_ATTRIBUTES_MAX);
		attribute = &node->kernel.attributes[node->kernel.config.numAttrs++];
		attribute->id = id;
	}
	attribute->value = *value;
	return CUDA_SUCCESS;
}

CUresult cuGraphKernelNodeCopyAttributes(CUgraphNode to, CUgraphNode from)
{
	TRY(graph_check_node(to, CU_GRAPH_NODE_TYPE_KERNEL));
	TRY(graph_check_node(from, CU_GRAPH_NODE_TYPE_KERNEL));
	memcpy(to->kernel.attributes, from->kernel.attributes, sizeof to->kernel.attributes);
	to->kernel.config.numAttrs = from->kernel.config.numAttrs;
	return CUDA_SUCCESS;
}

CUresult cuGraphMemcpyNodeGetParams(CUgraphNode node, CUDA_MEMCPY3D *params)
{
	TRY(graph_check_node(node, CU_GRAPH_NODE_TYPE_MEMCPY));
	if (!params)
		return fail(CUDA_ERROR_INVALID_VALUE, "params is NULL");
	*params = node->copy.params;
	return CUDA_SUCCESS;
}

CUresult cuGraphMemcpyNodeSetParams(CUgraphNode node, const CUDA_MEMCPY3D *params)
{
	TRY(graph_check_node(node, CU_GRAPH_NODE_TYPE_MEMCPY));
	return params ? node_set_copy(node, params)
		      : fail(CUDA_ERROR_INVALID_VALUE, "params is NULL");
}

CUresult cuGraphMemsetNodeGetParams(CUgraphNode node, CUDA_MEMSET_NODE_PARAMS *params)
{
	TRY(graph_check_node(node, CU_GRAPH_NODE_TYPE_MEMSET));
	if (!params)
		return fail(CUDA_ERROR_INVALID_VALUE, "params is NULL");
	*params = node->fill;
	return CUDA_SUCCESS;
}

CUresult cuGraphMemsetNodeSetParams(CUgraphNode node, const CUDA_MEMSET_NODE_PARAMS *params)
{
	TRY(graph_check_node(node, CU_GRAPH_NODE_TYPE_MEMSET));
	return params ? node_set_fill(node, params)
		      : fail(CUDA_ERROR_INVALID_VALUE, "params is NULL");
}

CUresult cuGraphHostNodeGetParams(CUgraphNode node, CUDA_HOST_NODE_PARAMS *params)
{
	TRY(graph_check_node(node, CU_GRAPH_NODE_TYPE_HOST));
	if (!params)
		return fail(CUDA_ERROR_INVALID_VALUE, "params is NULL");
	*params = node->host;
	return CUDA_SUCCESS;
}

CUresult cuGraphHostNodeSetParams(CUgraphNode node, const CUDA_HOST_NODE_PARAMS *params)
{
	TRY(graph_check_node(node, CU_GRAPH_NODE_TYPE_HOST));
	if (!params || !params->fn)
		return fail(CUDA_ERROR_INVALID_VALUE, "params, or the function in it, is NULL");
	node->host = *params;
	return CUDA_SUCCESS;
}

CUresult cuGraphChildGraphNodeGetGraph(CUgraphNode node, CUgraph *graph)
{
	TRY(graph_check_node(node, CU_GRAPH_NODE_TYPE_GRAPH));
	if (!graph)
		return fail(CUDA_ERROR_INVALID_VALUE, "graph is NULL");
	*graph = node->child;
	return CUDA_SUCCESS;
}

static CUresult get_event(CUgraphNode node, CUgraphNodeType type, CUevent *event)
{
	TRY(graph_check_node(node, type));
	if (!event)
		return fail(CUDA_ERROR_INVALID_VALUE, "event is NULL");
	*event = node->event;
	return CUDA_SUCCESS;
}

static CUresult set_event(CUgraphNode node, CUgraphNodeType type, CUevent event)
{
	TRY(graph_check_node(node, type));
	if (!handle_is(HANDLE_EVENT, event))
		return fail(CUDA_ERROR_INVALID_VALUE, "%p is no living event", (void *)event);
	if (type == CU_GRAPH_NODE_TYPE_EVENT_RECORD)
		TRY(node_set_home(node, event->context));
	node->event = event;
	return CUDA_SUCCESS;
}

CUresult cuGraphEventRecordNodeGetEvent(CUgraphNode node, CUevent *event)
{
	return get_event(node, CU_GRAPH_NODE_TYPE_EVENT_RECORD, event);
}

CUresult cuGraphEventRecordNodeSetEvent(CUgraphNode node, CUevent event)
{
	return set_event(node, CU_GRAPH_NODE_TYPE_EVENT_RECORD, event);
}

CUresult cuGraphEventWaitNodeGetEvent(CUgraphNode node, CUevent *event)
{
	return get_event(node, CU_GRAPH_NODE_TYPE_WAIT_EVENT, event);
}

CUresult cuGraphEventWaitNodeSetEvent(CUgraphNode node, CUevent event)
{
	return set_event(node, CU_GRAPH_NODE_TYPE_WAIT_EVENT, event);
}

CUresult cuGraphBatchMemOpNodeGetParams(CUgraphNode node, CUDA_BATCH_MEM_OP_NODE_PARAMS *params)
{
	TRY(graph_check_node(node, CU_GRAPH_NODE_TYPE_BATCH_MEM_OP));
	if (!params)
		return fail(CUDA_ERROR_INVALID_VALUE, "params is NULL");
	*params = (CUDA_BATCH_MEM_OP_NODE_PARAMS){
		node->memops.context, node->memops.count, node->memops.ops, 0};
	return CUDA_SUCCESS;
}

CUresult cuGraphBatchMemOpNodeSetParams(
	CUgraphNode node, const CUDA_BATCH_MEM_OP_NODE_PARAMS *params)
{
	TRY(graph_check_node(node, CU_GRAPH_NODE_TYPE_BATCH_MEM_OP));
	if (!params)
		return fail(CUDA_ERROR_INVALID_VALUE, "params is NULL");
	return node_set_memops(node, params->ctx, params->paramArray, params->count, params->flags);
}
