/* SPDX-License-Identifier: MIT
 *
 * Executable graphs: copies of graphs, and what can be changed in them. Launching them is in graph_run.c.
 */
#include <stdlib.h>

#include "lib/cuda/graph.h"

/* Guards the list of those whose names are the device's. */
static pthread_mutex_t *const lock = &process_locks[LOCK_EXECS];
static struct list aliases = {&aliases, &aliases};

static CUgraphExec find_alias(CUgraphExec name)
{
	CUgraphExec exec, found = NULL;

	pthread_mutex_lock(lock);
	list_for_each (exec, &aliases, alias)
		if (exec->name == name)
			found = exec;
	pthread_mutex_unlock(lock);
	return found;
}

CUresult exec_find(CUgraphExec name, CUgraphExec *exec)
{
	TRY(initialised());
	*exec = handle_is(HANDLE_EXEC, name) && name->name == name ? name : find_alias(name);
	return *exec ? CUDA_SUCCESS
		     : fail(CUDA_ERROR_INVALID_VALUE, "%p is no living executable graph",
			       (void *)name);
}

/* ---- life ---- */

/* What the device calls it may be what another one is called, on another device. */
static CUresult add_alias(CUgraphExec exec)
{
	bool taken = handle_is(HANDLE_EXEC, exec->name) || find_alias(exec->name);

	if (taken)
		return fail(CUDA_ERROR_OUT_OF_MEMORY,
			"the device calls the graph %p, and so is another one called",
			(void *)exec->name);
	pthread_mutex_lock(lock);
	list_append(&aliases, &exec->alias);
	pthread_mutex_unlock(lock);
	return CUDA_SUCCESS;
}

static void exec_destroy(CUgraphExec exec)
{
	pthread_mutex_lock(lock);
	list_remove(&exec->alias);
	pthread_mutex_unlock(lock);
	exec_take_back(exec);
	graph_close_lanes(exec->graph);
	graph_unclaim_memory(exec->graph);
	graph_release(exec->graph);
	pthread_mutex_destroy(&exec->lock);
	handle_destroy(HANDLE_EXEC, exec);
}

/* Takes the graph over, whatever comes of it. */
static CUresult exec_create(CUgraph graph, uint64_t flags, CUgraphExec *created)
{
	CUgraphExec exec = handle_create(HANDLE_EXEC, sizeof *exec);

	if (!exec) {
		graph_unclaim_memory(graph);
		graph_release(graph);
		return no_memory();
	}
	exec->graph = graph;
	exec->flags = flags;
	exec->name = exec;
	list_init(&exec->alias);
	pthread_mutex_init(&exec->lock, NULL);
	*created = exec;
	return CUDA_SUCCESS;
}

static CUresult exec_give_if_whole(CUgraphExec exec, const struct home *home)
{
	if (!home->context)
		return CUDA_SUCCESS;
	exec->whole_in = *home;
	TRY(exec_give(exec));
	return exec->name == exec ? CUDA_SUCCESS : add_alias(exec);
}

static CUresult check_flags(CUgraphExec *created, unsigned long long flags)
{
	const unsigned long long known = CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH |
					 CUDA_GRAPH_INSTANTIATE_FLAG_UPLOAD |
					 CUDA_GRAPH_INSTANTIATE_FLAG_DEVICE_LAUNCH |
					 CUDA_GRAPH_INSTANTIATE_FLAG_USE_NODE_PRIORITY;
	const unsigned long long apart = CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH |
					 CUDA_GRAPH_INSTANTIATE_FLAG_DEVICE_LAUNCH;

	if (!created || flags & ~known)
		return fail(CUDA_ERROR_INVALID_VALUE,
			"the pointer for the executable graph is NULL, or flags %#llx have "
			"bits that mean nothing",
			flags);
	if ((flags & apart) == apart)
		return fail(CUDA_ERROR_INVALID_VALUE,
			"a graph that kernels launch does not free memory when it is launched");
	return CUDA_SUCCESS;
}

static CUresult instantiate(CUgraphExec *created, CUgraph graph, unsigned long long flags,
	CUgraphInstantiateResult *reason, CUgraphNode *culprit)
{
	struct home home = {0};
	CUgraphExec exec;
	CUresult result;
	CUgraph copy;

	*reason = CUDA_GRAPH_INSTANTIATE_ERROR;
	TRY(graph_check(graph));
	TRY(check_flags(created, flags));
	if (flags & CUDA_GRAPH_INSTANTIATE_FLAG_DEVICE_LAUNCH)
		TRY(graph_check_for_device(graph, &home, reason, culprit));
	TRY(graph_copy_all(graph, &copy));
	copy->inner = true;
	result = graph_order(copy);
	if (result == CUDA_ERROR_INVALID_VALUE)
		*reason = CUDA_GRAPH_INSTANTIATE_INVALID_STRUCTURE;
	if (result == CUDA_SUCCESS)
		result = graph_claim_memory(copy);
	if (result != CUDA_SUCCESS) {
		graph_release(copy);
		return result;
	}
	if (!home.context)
		graph_launches_graphs(copy, &home);
	TRY(exec_create(copy, flags, &exec));
	result = exec_give_if_whole(exec, &home);
	if (result == CUDA_SUCCESS) {
		*created = exec->name;
		*reason = CUDA_GRAPH_INSTANTIATE_SUCCESS;
	} else {
		exec_destroy(exec);
	}
	return result;
}

CUresult cuGraphInstantiateWithFlags(CUgraphExec *created, CUgraph graph, unsigned long long flags)
{
	CUgraphInstantiateResult reason;
	CUgraphNode culprit;

	return instantiate(created, graph, flags, &reason, &culprit);
}

CUresult cuGraphInstantiateWithParams(
	CUgraphExec *exec, CUgraph graph, CUDA_GRAPH_INSTANTIATE_PARAMS *params)
{
	TRY(initialised());
	if (!params)
		return fail(CUDA_ERROR_INVALID_VALUE, "params is NULL");
	params->hErrNode_out = NULL;
	TRY(instantiate(exec, graph, params->flags, &params->result_out, &params->hErrNode_out));
	return params->flags & CUDA_GRAPH_INSTANTIATE_FLAG_UPLOAD
		       ? cuGraphUpload(*exec, params->hUploadStream)
		       : CUDA_SUCCESS;
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
	TRY(exec_find(exec, &exec));
	/* What conditional nodes run next is in the graph. */
	if (exec->stream_id && home_is_alive(&exec->home) && graph_has_conditions(exec->graph))
		gdev_fence_wait(exec->home.context->session, &exec->done);
	exec_destroy(exec);
	return CUDA_SUCCESS;
}

CUresult cuGraphExecGetFlags(CUgraphExec exec, uint64_t *flags)
{
	TRY(exec_find(exec, &exec));
	if (!flags)
		return fail(CUDA_ERROR_INVALID_VALUE, "flags is NULL");
	*flags = exec->flags;
	return CUDA_SUCCESS;
}

/* ---- launching ---- */

CUresult cuGraphUpload(CUgraphExec exec, CUstream handle)
{
	CUstream stream;

	TRY(exec_find(exec, &exec));
	TRY(stream_enter(handle, &stream));
	return graph_upload(exec, stream);
}

CUresult cuGraphLaunch(CUgraphExec exec, CUstream handle)
{
	CUstream stream;

	TRY(exec_find(exec, &exec));
	TRY(stream_record(handle, &stream));
	if (stream->capture)
		return capture_refuse(
			stream, fail(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED,
					"a graph that is launched cannot be captured"));
	return graph_launch(exec, stream);
}

/* ---- changing nodes ---- */

CUresult exec_find_node(CUgraphExec name, CUgraphNode node, CUgraphNode *found)
{
	CUgraphExec exec;

	TRY(exec_find(name, &exec));
	TRY(graph_find_copy(exec->graph, node, found));
	exec->changed = true;
	return CUDA_SUCCESS;
}

/* The same, of that type. */
static CUresult find(CUgraphExec exec, CUgraphNode node, CUgraphNodeType type, CUgraphNode *found)
{
	TRY(exec_find(exec, &exec));
	TRY(graph_check_node(node, type));
	return exec_find_node(exec->name, node, found);
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
	TRY(exec_find_node(exec, node, found));
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

	TRY(exec_find(exec, &exec));
	TRY(graph_check(graph));
	result = update(exec->graph, graph, &culprit);
	exec->changed = true;
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
