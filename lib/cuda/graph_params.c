/* SPDX-License-Identifier: MIT
 *
 * Nodes by the one structure that has the parameters of every kind: each is handed to the call of its kind.
 */
#include <string.h>

#include "lib/cuda/graph.h"

/* Structures of the same fields, in several versions. */
#define AS(type, params)                                                                           \
	({                                                                                         \
		type converted_;                                                                   \
		_Static_assert(sizeof converted_ == sizeof(params), "the same fields");            \
		memcpy(&converted_, &(params), sizeof converted_);                                 \
		converted_;                                                                        \
	})

static CUDA_MEMSET_NODE_PARAMS set_of(const CUDA_MEMSET_NODE_PARAMS_v2 *params)
{
	return (CUDA_MEMSET_NODE_PARAMS){params->dst, params->pitch, params->value,
		params->elementSize, params->width, params->height};
}

/* For nodes of a kind that there is in CUDA, and not here. */
static CUresult refuse(CUgraphNodeType type)
{
	return type == CU_GRAPH_NODE_TYPE_EXT_SEMAS_SIGNAL ||
			       type == CU_GRAPH_NODE_TYPE_EXT_SEMAS_WAIT
		       ? fail(CUDA_ERROR_NOT_SUPPORTED, "nodes of type %d are not there", (int)type)
		       : fail(CUDA_ERROR_INVALID_VALUE, "%d is no type of nodes", (int)type);
}

static CUresult add_copy(CUgraphNode *added, CUgraph graph, const CUgraphNode *dependencies,
	size_t count, const CUDA_MEMCPY_NODE_PARAMS *params)
{
	CUcontext context;

	if (params->flags)
		return fail(CUDA_ERROR_INVALID_VALUE, "flags must be 0");
	TRY(context_or_current(params->copyCtx, &context));
	return cuGraphAddMemcpyNode(
		added, graph, dependencies, count, &params->copyParams, context);
}

static CUresult add_set(CUgraphNode *added, CUgraph graph, const CUgraphNode *dependencies,
	size_t count, const CUDA_MEMSET_NODE_PARAMS_v2 *params)
{
	CUDA_MEMSET_NODE_PARAMS set = set_of(params);
	CUcontext context;

	TRY(context_or_current(params->ctx, &context));
	return cuGraphAddMemsetNode(added, graph, dependencies, count, &set, context);
}

static CUresult add_alloc(CUgraphNode *added, CUgraph graph, const CUgraphNode *dependencies,
	size_t count, CUDA_MEM_ALLOC_NODE_PARAMS_v2 *params)
{
	CUDA_MEM_ALLOC_NODE_PARAMS alloc = AS(CUDA_MEM_ALLOC_NODE_PARAMS, *params);

	TRY(cuGraphAddMemAllocNode(added, graph, dependencies, count, &alloc));
	params->dptr = alloc.dptr;
	return CUDA_SUCCESS;
}

static CUresult add(CUgraphNode *added, CUgraph graph, const CUgraphNode *dependencies,
	size_t count, CUgraphNodeParams *params)
{
	CUDA_BATCH_MEM_OP_NODE_PARAMS ops;
	CUDA_KERNEL_NODE_PARAMS_v2 kernel;
	CUDA_HOST_NODE_PARAMS host;

	switch (params->type) {
	case CU_GRAPH_NODE_TYPE_KERNEL:
		kernel = AS(CUDA_KERNEL_NODE_PARAMS_v2, params->kernel);
		return cuGraphAddKernelNode_v2(added, graph, dependencies, count, &kernel);
	case CU_GRAPH_NODE_TYPE_MEMCPY:
		return add_copy(added, graph, dependencies, count, &params->memcpy);
	case CU_GRAPH_NODE_TYPE_MEMSET:
		return add_set(added, graph, dependencies, count, &params->memset);
	case CU_GRAPH_NODE_TYPE_HOST:
		host = AS(CUDA_HOST_NODE_PARAMS, params->host);
		return cuGraphAddHostNode(added, graph, dependencies, count, &host);
	case CU_GRAPH_NODE_TYPE_GRAPH:
		if (params->graph.ownership != CU_GRAPH_CHILD_GRAPH_OWNERSHIP_CLONE)
			return fail(CUDA_ERROR_NOT_SUPPORTED,
				"a child graph can only be copied into its node");
		return cuGraphAddChildGraphNode(
			added, graph, dependencies, count, params->graph.graph);
	case CU_GRAPH_NODE_TYPE_CONDITIONAL:
		return node_add_conditional(
			added, graph, dependencies, count, &params->conditional);
	case CU_GRAPH_NODE_TYPE_EMPTY:
		return cuGraphAddEmptyNode(added, graph, dependencies, count);
	case CU_GRAPH_NODE_TYPE_WAIT_EVENT:
		return cuGraphAddEventWaitNode(
			added, graph, dependencies, count, params->eventWait.event);
	case CU_GRAPH_NODE_TYPE_EVENT_RECORD:
		return cuGraphAddEventRecordNode(
			added, graph, dependencies, count, params->eventRecord.event);
	case CU_GRAPH_NODE_TYPE_MEM_ALLOC:
		return add_alloc(added, graph, dependencies, count, &params->alloc);
	case CU_GRAPH_NODE_TYPE_MEM_FREE:
		return cuGraphAddMemFreeNode(added, graph, dependencies, count, params->free.dptr);
	case CU_GRAPH_NODE_TYPE_BATCH_MEM_OP:
		ops = AS(CUDA_BATCH_MEM_OP_NODE_PARAMS, params->memOp);
		return cuGraphAddBatchMemOpNode(added, graph, dependencies, count, &ops);
	default:
		return refuse(params->type);
	}
}

CUresult cuGraphAddNode_v2(CUgraphNode *added, CUgraph graph, const CUgraphNode *dependencies,
	const CUgraphEdgeData *data, size_t count, CUgraphNodeParams *params)
{
	TRY(graph_check(graph));
	if (!added || !params)
		return fail(
			CUDA_ERROR_INVALID_VALUE, "the pointer for the node, or params, is NULL");
	TRY(graph_check_edges(data, count));
	return add(added, graph, dependencies, count, params);
}

CUresult cuGraphAddNode(CUgraphNode *added, CUgraph graph, const CUgraphNode *dependencies,
	size_t count, CUgraphNodeParams *params)
{
	return cuGraphAddNode_v2(added, graph, dependencies, NULL, count, params);
}

/* The memory that a node allocates or frees, and its child graph, cannot change. */
static CUresult set(CUgraphNode node, const CUgraphNodeParams *params)
{
	CUcontext context;
	CUDA_BATCH_MEM_OP_NODE_PARAMS ops;
	CUDA_KERNEL_NODE_PARAMS_v2 kernel;
	CUDA_MEMSET_NODE_PARAMS fill;
	CUDA_HOST_NODE_PARAMS host;

	switch (params->type) {
	case CU_GRAPH_NODE_TYPE_KERNEL:
		kernel = AS(CUDA_KERNEL_NODE_PARAMS_v2, params->kernel);
		return cuGraphKernelNodeSetParams_v2(node, &kernel);
	case CU_GRAPH_NODE_TYPE_MEMCPY:
		TRY(context_or_current(params->memcpy.copyCtx, &context));
		TRY(node_set_home(node, context));
		return cuGraphMemcpyNodeSetParams(node, &params->memcpy.copyParams);
	case CU_GRAPH_NODE_TYPE_MEMSET:
		fill = set_of(&params->memset);
		TRY(context_or_current(params->memset.ctx, &context));
		TRY(node_set_home(node, context));
		return cuGraphMemsetNodeSetParams(node, &fill);
	case CU_GRAPH_NODE_TYPE_HOST:
		host = AS(CUDA_HOST_NODE_PARAMS, params->host);
		return cuGraphHostNodeSetParams(node, &host);
	case CU_GRAPH_NODE_TYPE_WAIT_EVENT:
		return cuGraphEventWaitNodeSetEvent(node, params->eventWait.event);
	case CU_GRAPH_NODE_TYPE_EVENT_RECORD:
		return cuGraphEventRecordNodeSetEvent(node, params->eventRecord.event);
	case CU_GRAPH_NODE_TYPE_BATCH_MEM_OP:
		ops = AS(CUDA_BATCH_MEM_OP_NODE_PARAMS, params->memOp);
		return cuGraphBatchMemOpNodeSetParams(node, &ops);
	default:
		return fail(CUDA_ERROR_NOT_SUPPORTED, "a node of type %d cannot be changed",
			(int)params->type);
	}
}

CUresult cuGraphNodeSetParams(CUgraphNode node, CUgraphNodeParams *params)
{
	TRY(initialised());
	if (!params)
		return fail(CUDA_ERROR_INVALID_VALUE, "params is NULL");
	TRY(graph_check_node(node, params->type));
	return set(node, params);
}

CUresult cuGraphExecNodeSetParams(CUgraphExec exec, CUgraphNode node, CUgraphNodeParams *params)
{
	CUgraphNode found;

	TRY(initialised());
	if (!params)
		return fail(CUDA_ERROR_INVALID_VALUE, "params is NULL");
	TRY(graph_check_node(node, params->type));
	if (params->type == CU_GRAPH_NODE_TYPE_GRAPH)
		return cuGraphExecChildGraphNodeSetParams(exec, node, params->graph.graph);
	TRY(exec_find_node(exec, node, &found));
	return set(found, params);
}
