/* SPDX-License-Identifier: MIT
 *
 * Graphs that the device has as a whole: those that kernels may launch, and those whose kernels launch others. For what a
 * kernel launches is part of the graph that the kernel is of, and its tail follows all of that. The worker has their
 * nodes; what is changed in one goes to it with the next launch or upload. Other graphs are sent node by node.
 *
 * Child graphs are taken apart: their nodes are the graph's, after what the child is after, and before what is after it.
 */
#include <stdlib.h>
#include <string.h>

#include "lib/cuda/graph.h"

/* ---- what can be in one ---- */

/* A kernel cannot be found without its context. */
static bool launches_graphs(CUgraphNode node)
{
	CUfunction function = NULL;
	bool entered, launches = false;

	if (node_enter(node->home.context, &entered) != CUDA_SUCCESS)
		return false;
	if (function_resolve(node->kernel.function, &function) == CUDA_SUCCESS)
		launches = gdev_function_info(function->function)->launches_graphs;
	node_leave(entered);
	return launches;
}

static bool is_reached(CUcontext context, uint64_t address, uint64_t span)
{
	struct gdev_range range;

	gdev_memory_lookup(context->session, address, &range);
	return range.kind != GDEV_MEMORY_UNKNOWN && span <= range.bytes - (address - range.base);
}

/* Both sides are memory that the device reaches, and no arrays. */
static bool copies_memory(CUgraphNode node)
{
	const struct gdev_copy *copy = &node->copy.copy;
	uint64_t rows = copy->height - 1, planes = copy->depth - 1;

	return node->copy.params.srcMemoryType != CU_MEMORYTYPE_ARRAY &&
	       node->copy.params.dstMemoryType != CU_MEMORYTYPE_ARRAY && copy->width &&
	       is_reached(node->home.context, copy->destination,
		       planes * copy->destination_slice + rows * copy->destination_pitch +
			       copy->width) &&
	       is_reached(node->home.context, copy->source,
		       planes * copy->source_slice + rows * copy->source_pitch + copy->width);
}

static bool can_be_inside(CUgraphNode node)
{
	return node->type == CU_GRAPH_NODE_TYPE_KERNEL || node->type == CU_GRAPH_NODE_TYPE_MEMSET ||
	       node->type == CU_GRAPH_NODE_TYPE_GRAPH ||
	       (node->type == CU_GRAPH_NODE_TYPE_MEMCPY && copies_memory(node));
}

/* What nodes of a graph that can be in one have in common, and what keeps it from being one. */
struct look {
	struct home home;
	bool launches;       /* graphs */
	CUgraphNode misfit;  /* cannot be inside; empty nodes can, on this look */
	CUgraphNode foreign; /* is of another context than those before */
	bool empty_nodes;
};

static void look_at(CUgraph graph, struct look *look)
{
	CUgraphNode node;

	list_for_each (node, &graph->nodes, link) {
		if (node->type == CU_GRAPH_NODE_TYPE_EMPTY) {
			look->empty_nodes = true;
			continue;
		}
		if (node->type != CU_GRAPH_NODE_TYPE_GRAPH && !home_is_alive(&node->home))
			look->misfit = node;
		else if (!can_be_inside(node))
			look->misfit = node;
		if (look->misfit)
			return;
		if (node->type == CU_GRAPH_NODE_TYPE_GRAPH) {
			look_at(node->child, look);
			continue;
		}
		if (!look->home.context)
			look->home = node->home;
		else if (!same_home(&look->home, &node->home))
			look->foreign = node;
		look->launches |= node->type == CU_GRAPH_NODE_TYPE_KERNEL && !look->launches &&
				  launches_graphs(node);
	}
}

bool graph_launches_graphs(CUgraph graph, struct home *home)
{
	struct look look = {0};

	look_at(graph, &look);
	if (!look.launches || look.misfit || look.foreign)
		return false;
	*home = look.home;
	return true;
}

CUresult graph_check_for_device(
	CUgraph graph, struct home *home, CUgraphInstantiateResult *reason, CUgraphNode *culprit)
{
	struct look look = {0};

	look_at(graph, &look);
	*reason = CUDA_GRAPH_INSTANTIATE_NODE_OPERATION_NOT_SUPPORTED;
	*culprit = look.misfit;
	if (look.misfit || look.empty_nodes)
		return fail(CUDA_ERROR_INVALID_VALUE,
			"a graph that kernels launch has only kernels, fills, copies of memory that the "
			"device reaches, and child graphs of these");
	*reason = CUDA_GRAPH_INSTANTIATE_MULTIPLE_CTXS_NOT_SUPPORTED;
	*culprit = look.foreign;
	if (look.foreign)
		return fail(CUDA_ERROR_INVALID_VALUE,
			"the nodes of a graph that kernels launch are of one context");
	*reason = CUDA_GRAPH_INSTANTIATE_INVALID_STRUCTURE;
	if (!look.home.context)
		return fail(CUDA_ERROR_INVALID_VALUE,
			"a graph that kernels launch has a kernel, a copy or a fill");
	*home = look.home;
	return CUDA_SUCCESS;
}

/* ---- giving it ---- */

/* Numbers of nodes that were sent. */
struct numbers {
	uint32_t *list; /* malloc'ed */
	uint32_t count;
};

struct sending {
	struct gdev_device_graph *graph;
	uint32_t sent;
};

static CUresult add_numbers(struct numbers *to, const struct numbers *from)
{
	uint32_t *list = realloc(to->list, (to->count + from->count + 1u) * sizeof *list);
	uint32_t before = to->count;

	if (!list)
		return no_memory();
	to->list = list;
	for (uint32_t i = 0; i < from->count; i++) {
		uint32_t k = 0;

		while (k < before && list[k] != from->list[i])
			k++;
		if (k == before)
			list[to->count++] = from->list[i];
	}
	return CUDA_SUCCESS;
}

static CUresult send_kernel(
	struct sending *sending, struct graph_kernel *kernel, const struct numbers *after)
{
	void *extra[] = {CU_LAUNCH_PARAM_BUFFER_POINTER, kernel->params,
		CU_LAUNCH_PARAM_BUFFER_SIZE, &kernel->param_bytes, CU_LAUNCH_PARAM_END};
	CUlaunchConfig config = kernel->config;
	struct gdev_launch launch;

	config.attrs = kernel->attributes;
	TRY(launch_read_whole(kernel->function, &config, extra, &launch));
	return result_of(
		gdev_device_graph_launch(sending->graph, &launch, after->list, after->count),
		"the device does not take a kernel of the graph");
}

static CUresult send_copy(struct sending *sending, CUgraphNode node, const struct numbers *after)
{
	if (!copies_memory(node))
		return fail(CUDA_ERROR_INVALID_VALUE,
			"a copy in a graph that kernels launch is to and from memory that the device reaches");
	return result_of(
		gdev_device_graph_copy(sending->graph, &node->copy.copy, after->list, after->count),
		"the device does not take a copy of the graph");
}

static CUresult send_fill(
	struct sending *sending, const CUDA_MEMSET_NODE_PARAMS *set, const struct numbers *after)
{
	const struct gdev_fill wanted = {
		.destination = set->dst,
		.width = set->width,
		.height = set->height,
		.pitch = set->pitch,
		.element_bytes = set->elementSize,
		.value = set->value,
	};

	return result_of(gdev_device_graph_fill(sending->graph, &wanted, after->list, after->count),
		"the device does not take a fill of the graph");
}

static CUresult send_nodes(
	struct sending *sending, CUgraph graph, const struct numbers *first, struct numbers *last);

/* ends: what is to be done before a node that depends on this one. */
static CUresult send_node(struct sending *sending, CUgraphNode node, const struct numbers *after,
	struct numbers *ends)
{
	CUresult result;

	if (node->type == CU_GRAPH_NODE_TYPE_GRAPH)
		return send_nodes(sending, node->child, after, ends);
	if (node->disabled || node->type == CU_GRAPH_NODE_TYPE_EMPTY)
		return add_numbers(ends, after);
	if (node->type == CU_GRAPH_NODE_TYPE_KERNEL)
		TRY(send_kernel(sending, &node->kernel, after));
	else if (node->type == CU_GRAPH_NODE_TYPE_MEMCPY)
		TRY(send_copy(sending, node, after));
	else
		TRY(send_fill(sending, &node->fill, after));
	result = add_numbers(ends, &(struct numbers){&sending->sent, 1}); /* its number */
	sending->sent++;
	return result;
}

static CUresult send_next(struct sending *sending, CUgraphNode node, const struct numbers *first,
	struct numbers *ends)
{
	bool root = !node->dependency_count;
	struct numbers after = {0};
	CUresult result = root ? add_numbers(&after, first) : CUDA_SUCCESS;

	for (size_t i = 0; i < node->dependency_count && result == CUDA_SUCCESS; i++)
		result = add_numbers(&after, &ends[node->dependencies[i]->number]);
	if (result == CUDA_SUCCESS)
		result = send_node(sending, node, &after, &ends[node->number]);
	free(after.list);
	return result;
}

static CUresult send_nodes(
	struct sending *sending, CUgraph graph, const struct numbers *first, struct numbers *last)
{
	struct numbers *ends = calloc(graph->node_count + 1, sizeof *ends);
	CUresult result = ends ? CUDA_SUCCESS : no_memory();

	for (size_t i = 0; i < graph->node_count && result == CUDA_SUCCESS; i++)
		result = send_next(sending, graph->order[i], first, ends);
	for (size_t i = 0; i < graph->node_count && result == CUDA_SUCCESS; i++)
		if (!graph->order[i]->followed)
			result = add_numbers(last, &ends[i]);
	if (!graph->node_count && result == CUDA_SUCCESS)
		result = add_numbers(last, first);
	for (size_t i = 0; ends && i < graph->node_count; i++)
		free(ends[i].list);
	free(ends);
	return result;
}

static CUresult give(CUgraphExec exec, struct sending *sending)
{
	bool from_device = exec->flags & CUDA_GRAPH_INSTANTIATE_FLAG_DEVICE_LAUNCH;
	struct numbers none = {0}, last = {0};
	uint64_t handle = (uintptr_t)exec;
	CUresult result;

	TRY_GDEV(gdev_device_graph_begin(
			 exec->whole_in.context->session, from_device, handle, &exec->whole),
		"the device has no graphs as a whole");
	sending->graph = exec->whole;
	result = send_nodes(sending, exec->graph, &none, &last);
	free(last.list);
	TRY(result);
	TRY_GDEV(gdev_device_graph_end(exec->whole, &handle),
		"the device does not take the graph, or not as it is now");
	exec->name = (CUgraphExec)(uintptr_t)handle;
	exec->changed = false;
	return CUDA_SUCCESS;
}

CUresult exec_give(CUgraphExec exec)
{
	struct sending sending = {0};
	CUresult result;
	bool entered;

	TRY(node_enter(exec->whole_in.context, &entered));
	result = give(exec, &sending);
	node_leave(entered);
	return result;
}

/* ---- launching ---- */

CUresult exec_launch_whole(CUgraphExec exec, CUstream stream, bool upload)
{
	if (!home_is_alive(&exec->whole_in))
		return fail(CUDA_ERROR_INVALID_VALUE, "the context of the graph's nodes is gone");
	if (stream->context != exec->whole_in.context)
		return fail(CUDA_ERROR_INVALID_VALUE,
			"a graph that kernels launch, or whose kernels do, is launched in the context of "
			"its nodes");
	if (exec->changed) {
		if (exec->stream_id)
			gdev_fence_wait(stream->context->session, &exec->done);
		TRY(exec_give(exec));
	}
	return result_of(gdev_device_graph_launch_async(stream->stream, exec->whole, upload),
		"the graph cannot be launched");
}

void exec_take_back(CUgraphExec exec)
{
	gdev_device_graph_destroy(exec->whole, !home_is_alive(&exec->whole_in));
	exec->whole = NULL;
}
