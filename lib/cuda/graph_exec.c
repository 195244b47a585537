/* SPDX-License-Identifier: MIT
 *
 * Executable graphs: copies of graphs, and what can be changed in them. Launching them is in graph_run.c.
 */
#include <stdlib.h>

#include "lib/cuda/graph.h"

static CUresult check(CUgraphExec exec)
{
	TRY(initialised());
	return handle_is(HANDLE_EXEC, exec)
		       ? CUDA_SUCCESS
		       : fail(CUDA_ERROR_INVALID_VALUE, "%p is no living executable graph",
				 (void *)exec);
}

/* ---- life ---- */

CUresult cuGraphInstantiateWithFlags(CUgraphExec *created, CUgraph graph, unsigned long long flags)
{
	const unsigned long long known = CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH |
					 CUDA_GRAPH_INSTANTIATE_FLAG_UPLOAD |
					 CUDA_GRAPH_INSTANTIATE_FLAG_USE_NODE_PRIORITY;
	CUgraphExec exec;
	CUresult result;
	CUgraph copy;

	TRY(graph_check(graph));
	if (flags & CUDA_GRAPH_INSTANTIATE_FLAG_DEVICE_LAUNCH)
		return fail(
			CUDA_ERROR_NOT_SUPPORTED, "launching graphs from the device is not there");
	if (!created || flags & ~known)
		return fail(CUDA_ERROR_INVALID_VALUE,
			"the pointer for the executable graph is NULL, or flags %#llx have "
			"bits that mean nothing",
			flags);
	TRY(graph_copy_all(graph, &copy));
	copy->inner = true;
	result = graph_order(copy);
	if (result == CUDA_SUCCESS)
		result = graph_claim_memory(copy);
	if (result != CUDA_SUCCESS)
		goto err_release;
	exec = handle_create(HANDLE_EXEC, sizeof *exec);
	if (!exec) {
		result = no_memory();
		goto err_unclaim;
	}
	exec->graph = copy;
	exec->flags = flags;
	pthread_mutex_init(&exec->lock, NULL);
	*created = exec;
	return CUDA_SUCCESS;

err_unclaim:
	graph_unclaim_memory(copy);
err_release:
	graph_release(copy);
	return result;
}

CUresult cuGraphInstantiateWithParams(
	CUgraphExec *exec, CUgraph graph, CUDA_GRAPH_INSTANTIATE_PARAMS *params)
{
	CUresult result;

	TRY(initialised());
	if (!params)
		return fail(CUDA_ERROR_INVALID_VALUE, "params is NULL");
	params->hErrNode_out = NULL;
	result = cuGraphInstantiateWithFlags(exec, graph, params->flags);
	params->result_out = result == CUDA_SUCCESS
				     ? CUDA_GRAPH_INSTANTIATE_SUCCESS
				     : (result == CUDA_ERROR_INVALID_VALUE
						       ? CUDA_GRAPH_INSTANTIATE_INVALID_STRUCTURE
						       : CUDA_GRAPH_INSTANTIATE_ERROR);
	return result;
}

CUresult cuGraphInstantiate_v2(
	CUgraphExec *exec, CUgraph graph, CUgraphNode *error_node, char *log, size_t log_bytes)
{
	if (error_node)
		*error_node = NULL;
	if (log && log_bytes)
		log[0] = '\0';
	return cuGraphInstantiateWithFlags(exec, graph, 0);
}

CUresult cuGraphInstantiate(
	CUgraphExec *exec, CUgraph graph, CUgraphNode *error_node, char *log, size_t log_bytes)
{
	return cuGraphInstantiate_v2(exec, graph, error_node, log, log_bytes);
}

CUresult cuGraphExecDestroy(CUgraphExec exec)
{
	TRY(check(exec));
	/* What conditional nodes run next is in the graph. */
	if (exec->stream_id && home_is_alive(&exec->home) && graph_has_conditions(exec->graph))
		gdev_fence_wait(exec->home.context->session, &exec->done);
	graph_close_lanes(exec->graph);
	graph_unclaim_memory(exec->graph);
	graph_release(exec->graph);
	pthread_mutex_destroy(&exec->lock);
	handle_destroy(HANDLE_EXEC, exec);
	return CUDA_SUCCESS;
}

CUresult cuGraphExecGetFlags(CUgraphExec exec, uint64_t *flags)
{
	TRY(check(exec));
	if (!flags)
		return fail(CUDA_ERROR_INVALID_VALUE, "flags is NULL");
	*flags = exec->flags;
	return CUDA_SUCCESS;
}

/* ---- launching ---- */

CUresult cuGraphUpload(CUgraphExec exec, CUstream handle)
{
	CUstream stream;

	TRY(check(exec));
	return stream_enter(handle, &stream); /* there is nothing to upload */
}

CUresult cuGraphLaunch(CUgraphExec exec, CUstream handle)
{
	CUstream stream;

	TRY(check(exec));
	TRY(stream_record(handle, &stream));
	if (stream->capture)
		return capture_refuse(
			stream, fail(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED,
					"a graph that is launched cannot be captured"));
	return graph_launch(exec, stream);
}

/* ---- changing nodes ---- */

/* The node of the executable graph that stands for `node`; of that type. */
static CUresult find(CUgraphExec exec, CUgraphNode node, CUgraphNodeType type, CUgraphNode *found)
{
	TRY(check(exec));
	TRY(graph_check_node(node, type));
	return graph_find_copy(exec->graph, node, found);
}

CUresult cuGraphExecKernelNodeSetParams_v2(
	CUgraphExec exec, CUgraphNode node, const CUDA_KERNEL_NODE_PARAMS_v2 *params)
{
	CUgraphNode found;

	TRY(find(exec, node, CU_GRAPH_NODE_TYPE_KERNEL, &found));
	return cuGraphKernelNodeSetParams_v2(found, params);
}

CUresult cuGraphExecKernelNodeSetParams(
	CUgraphExec exec, CUgraphNode node, const CUDA_KERNEL_NODE_PARAMS_v1 *params)
{
	CUgraphNode found;

	TRY(find(exec, node, CU_GRAPH_NODE_TYPE_KERNEL, &found));
	return cuGraphKernelNodeSetParams(found, params);
}

CUresult cuGraphExecMemcpyNodeSetParams(
	CUgraphExec exec, CUgraphNode node, const CUDA_MEMCPY3D *params, CUcontext context)
{
	CUgraphNode found;

	TRY(find(exec, node, CU_GRAPH_NODE_TYPE_MEMCPY, &found));
	if (!handle_is(HANDLE_CONTEXT, context))
		return fail(CUDA_ERROR_INVALID_VALUE, "%p is no living context", (void *)context);
	TRY(node_set_home(found, context));
	return cuGraphMemcpyNodeSetParams(found, params);
}

CUresult cuGraphExecMemsetNodeSetParams(CUgraphExec exec, CUgraphNode node,
	const CUDA_MEMSET_NODE_PARAMS *params, CUcontext context)
{
	CUgraphNode found;

	TRY(find(exec, node, CU_GRAPH_NODE_TYPE_MEMSET, &found));
	if (!handle_is(HANDLE_CONTEXT, context))
		return fail(CUDA_ERROR_INVALID_VALUE, "%p is no living context", (void *)context);
	TRY(node_set_home(found, context));
	return cuGraphMemsetNodeSetParams(found, params);
}

CUresult cuGraphExecHostNodeSetParams(
	CUgraphExec exec, CUgraphNode node, const CUDA_HOST_NODE_PARAMS *params)
{
	CUgraphNode found;

	TRY(find(exec, node, CU_GRAPH_NODE_TYPE_HOST, &found));
	return cuGraphHostNodeSetParams(found, params);
}

CUresult cuGraphExecEventRecordNodeSetEvent(CUgraphExec exec, CUgraphNode node, CUevent event)
{
	CUgraphNode found;

	TRY(find(exec, node, CU_GRAPH_NODE_TYPE_EVENT_RECORD, &found));
	return cuGraphEventRecordNodeSetEvent(found, event);
}

CUresult cuGraphExecEventWaitNodeSetEvent(CUgraphExec exec, CUgraphNode node, CUevent event)
{
	CUgraphNode found;

	TRY(find(exec, node, CU_GRAPH_NODE_TYPE_WAIT_EVENT, &found));
	return cuGraphEventWaitNodeSetEvent(found, event);
}

CUresult cuGraphExecBatchMemOpNodeSetParams(
	CUgraphExec exec, CUgraphNode node, const CUDA_BATCH_MEM_OP_NODE_PARAMS *params)
{
	CUgraphNode found;

	TRY(find(exec, node, CU_GRAPH_NODE_TYPE_BATCH_MEM_OP, &found));
	return cuGraphBatchMemOpNodeSetParams(found, params);
}

/* As CUDA: kernels, copies, and fills alone. */
static CUresult find_to_enable(CUgraphExec exec, CUgraphNode node, CUgraphNode *found)
{
	TRY(check(exec));
	TRY(graph_find_copy(exec->graph, node, found));
	return (*found)->type <= CU_GRAPH_NODE_TYPE_MEMSET
		       ? CUDA_SUCCESS
		       : fail(CUDA_ERROR_INVALID_VALUE,
				 "only kernels, copies and fills can be disabled");
}

CUresult cuGraphNodeSetEnabled(CUgraphExec exec, CUgraphNode node, unsigned int enabled)
{
	CUgraphNode found;

	TRY(find_to_enable(exec, node, &found));
	found->disabled = !enabled;
	return CUDA_SUCCESS;
}

CUresult cuGraphNodeGetEnabled(CUgraphExec exec, CUgraphNode node, unsigned int *enabled)
{
	CUgraphNode found;

	TRY(find_to_enable(exec, node, &found));
	if (!enabled)
		return fail(CUDA_ERROR_INVALID_VALUE, "enabled is NULL");
	*enabled = !found->disabled;
	return CUDA_SUCCESS;
}

/* ---- changing all nodes to those of a graph of the same shape ---- */

static bool same_dependencies(CUgraphNode ours, CUgraphNode theirs)
{
	if (ours->dependency_count != theirs->dependency_count)
		return false;
	for (size_t i = 0; i < ours->dependency_count; i++)
		if (theirs->dependencies[i]->twin != ours->dependencies[i])
			return false;
	return true;
}

/* Where a child graph is done is said by its nodes. */
static CUgraphExecUpdateResult compare_homes(CUgraphNode ours, CUgraphNode theirs)
{
	if (ours->type == CU_GRAPH_NODE_TYPE_GRAPH || same_home(&ours->home, &theirs->home))
		return CU_GRAPH_EXEC_UPDATE_SUCCESS;
	return ours->type == CU_GRAPH_NODE_TYPE_KERNEL
		       ? CU_GRAPH_EXEC_UPDATE_ERROR_UNSUPPORTED_FUNCTION_CHANGE
		       : CU_GRAPH_EXEC_UPDATE_ERROR_PARAMETERS_CHANGED;
}

/* Pairs the nodes in the order of their creation. */
static CUgraphExecUpdateResult pair(CUgraph ours, CUgraph theirs, CUgraphNode *culprit)
{
	struct list *at = ours->nodes.next;
	CUgraphExecUpdateResult result;
	CUgraphNode node, inner;

	*culprit = NULL;
	if (ours->node_count != theirs->node_count)
		return CU_GRAPH_EXEC_UPDATE_ERROR_TOPOLOGY_CHANGED;
	list_for_each (node, &theirs->nodes, link) {
		node->twin = list_entry(at, struct CUgraphNode_st, link);
		at = at->next;
		*culprit = node;
		if (node->twin->type != node->type)
			return CU_GRAPH_EXEC_UPDATE_ERROR_NODE_TYPE_CHANGED;
	}
	list_for_each (node, &theirs->nodes, link) {
		*culprit = node;
		if (!same_dependencies(node->twin, node))
			return CU_GRAPH_EXEC_UPDATE_ERROR_TOPOLOGY_CHANGED;
		if (node->memory != node->twin->memory ||
			node->type == CU_GRAPH_NODE_TYPE_CONDITIONAL)
			return CU_GRAPH_EXEC_UPDATE_ERROR_NOT_SUPPORTED;
		result = compare_homes(node->twin, node);
		if (result == CU_GRAPH_EXEC_UPDATE_SUCCESS &&
			node->type == CU_GRAPH_NODE_TYPE_GRAPH)
			result = pair(node->twin->child, node->child, &inner);
		if (result != CU_GRAPH_EXEC_UPDATE_SUCCESS)
			return result;
	}
	*culprit = NULL;
	return CU_GRAPH_EXEC_UPDATE_SUCCESS;
}

static CUresult take_over(CUgraph theirs)
{
	CUgraphNode node;

	list_for_each (node, &theirs->nodes, link) {
		if (node->type == CU_GRAPH_NODE_TYPE_GRAPH)
			TRY(take_over(node->child));
		else
			TRY(node_set_like(node->twin, node));
		node->twin->update = node->id;
	}
	return CUDA_SUCCESS;
}

static CUgraphExecUpdateResult update(CUgraph ours, CUgraph theirs, CUgraphNode *culprit)
{
	CUgraphExecUpdateResult result = pair(ours, theirs, culprit);

	if (result == CU_GRAPH_EXEC_UPDATE_SUCCESS && take_over(theirs) != CUDA_SUCCESS)
		result = CU_GRAPH_EXEC_UPDATE_ERROR;
	return result;
}

CUresult cuGraphExecUpdate_v2(
	CUgraphExec exec, CUgraph graph, CUgraphExecUpdateResultInfo *information)
{
	CUgraphExecUpdateResult result;
	CUgraphNode culprit;

	TRY(check(exec));
	TRY(graph_check(graph));
	result = update(exec->graph, graph, &culprit);
	if (information)
		*information =
			(CUgraphExecUpdateResultInfo){.result = result, .errorNode = culprit};
	return result == CU_GRAPH_EXEC_UPDATE_SUCCESS
		       ? CUDA_SUCCESS
		       : fail(CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE,
				 "the graph has not the nodes and edges of the executable one, "
				 "or what a node does cannot be taken over (result %d)",
				 (int)result);
}

CUresult cuGraphExecUpdate(
	CUgraphExec exec, CUgraph graph, CUgraphNode *error_node, CUgraphExecUpdateResult *outcome)
{
	CUgraphExecUpdateResultInfo information;
	CUresult result;

	if (!outcome)
		return fail(CUDA_ERROR_INVALID_VALUE, "outcome is NULL");
	result = cuGraphExecUpdate_v2(exec, graph, &information);
	if (result == CUDA_SUCCESS || result == CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE) {
		*outcome = information.result;
		if (error_node)
			*error_node = information.errorNode;
	}
	return result;
}

CUresult cuGraphExecChildGraphNodeSetParams(CUgraphExec exec, CUgraphNode node, CUgraph child)
{
	CUgraphNode found, culprit;

	TRY(find(exec, node, CU_GRAPH_NODE_TYPE_GRAPH, &found));
	TRY(graph_check(child));
	return update(found->child, child, &culprit) == CU_GRAPH_EXEC_UPDATE_SUCCESS
		       ? CUDA_SUCCESS
		       : fail(CUDA_ERROR_INVALID_VALUE,
				 "the child graph has not the nodes and edges of the one that "
				 "is there");
}
