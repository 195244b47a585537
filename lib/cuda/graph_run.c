/* SPDX-License-Identifier: MIT
 *
 * Launching executable graphs. Their nodes have an order, which their dependencies allow, and are sent in it to
 * lanes: streams, of which the first is that of the launch, and the others are the graph's own. Branches are on
 * different lanes and overlap where the device can; a node waits for those of other lanes that it depends on, and
 * the launch's stream in the end for all. A graph without branches has the one lane. The nodes of a child graph
 * are sent to the lane of its node.
 *
 * Since nodes are sent in one order, what waits is always behind what it waits for. Which lane a node goes to is
 * therefore a question of speed alone.
 */
#include <stdlib.h>

#include "lib/cuda/graph.h"

#define ROW_MAX 64  /* kernels; more are several rows */
#define ROW_FIRST 8 /* the device has something to do while the rest comes */

/* ---- order ---- */

static bool may_go(CUgraphNode node)
{
	for (size_t i = 0; i < node->dependency_count; i++)
		if (!node->dependencies[i]->placed)
			return false;
	return true;
}

/* The lane of a node, given the last node of each: where the last is one that it depends on, so that it need
 * not wait; where the last has been followed, so that it need wait for little; a new one; the oldest. */
static unsigned choose_lane(CUgraph graph, CUgraphNode last[GRAPH_LANES], CUgraphNode node)
{
	unsigned oldest = 0;

	for (unsigned i = 0; i < graph->lanes; i++)
		if (node_depends(node, last[i]))
			return i;
	for (unsigned i = 0; i < graph->lanes; i++)
		if (last[i]->followed)
			return i;
	if (graph->lanes < GRAPH_LANES)
		return graph->lanes++;
	for (unsigned i = 1; i < graph->lanes; i++)
		if (last[i]->number < last[oldest]->number)
			oldest = i;
	return oldest;
}

static void place(CUgraph graph, CUgraphNode last[GRAPH_LANES], CUgraphNode node)
{
	node->lane = choose_lane(graph, last, node);
	last[node->lane] = node;
	for (size_t i = 0; i < node->dependency_count; i++) {
		node->dependencies[i]->followed = true;
		if (node->dependencies[i]->lane != node->lane)
			node->dependencies[i]->crosses = true;
	}
	node->placed = true;
}

/* Nodes are mostly created after what they depend on: then one pass does. A pass that places none has found
 * a circle. */
CUresult graph_order(CUgraph graph)
{
	CUgraphNode node, last[GRAPH_LANES];
	unsigned count = 0, before;

	graph->order = malloc((graph->node_count + 1) * sizeof *graph->order);
	if (!graph->order)
		return no_memory();
	do {
		before = count;
		list_for_each (node, &graph->nodes, link) {
			if (node->placed || !may_go(node))
				continue;
			place(graph, last, node);
			node->number = count;
			graph->order[count++] = node;
			if (node->type == CU_GRAPH_NODE_TYPE_GRAPH)
				TRY(graph_order(node->child));
		}
	} while (count < graph->node_count && count > before);
	return count == graph->node_count
		       ? CUDA_SUCCESS
		       : fail(CUDA_ERROR_INVALID_VALUE,
				 "nodes of the graph depend on each other in a circle");
}

CUresult graph_run(CUgraph graph, CUstream stream)
{
	for (size_t i = 0; i < graph->node_count; i++)
		TRY(node_run(graph->order[i], stream, false));
	return CUDA_SUCCESS;
}

/* ---- lanes ---- */

void graph_close_lanes(CUgraphExec exec)
{
	/* Streams of a context that is gone are gone with it. */
	if (handle_is(HANDLE_CONTEXT, exec->context) && exec->context->id == exec->context_id &&
		exec->context->session)
		for (unsigned i = 1; i < GRAPH_LANES; i++)
			if (exec->lanes[i])
				stream_release(exec->lanes[i]);
	for (unsigned i = 1; i < GRAPH_LANES; i++)
		exec->lanes[i] = NULL;
}

static CUresult open_lanes(CUgraphExec exec, CUstream stream)
{
	CUcontext context = stream->context;

	if (exec->context_id != context->id) {
		graph_close_lanes(exec);
		exec->context = context;
		exec->context_id = context->id;
		exec->stream_id = 0;
	}
	exec->lanes[0] = stream;
	for (unsigned i = 1; i < exec->graph->lanes; i++)
		if (!exec->lanes[i])
			TRY(stream_create(context, CU_STREAM_NON_BLOCKING, stream->priority, true,
				&exec->lanes[i]));
	return CUDA_SUCCESS;
}

/* A launch: what each lane has waited for of each other. */
struct run {
	CUstream *lanes;
	uint64_t seen[GRAPH_LANES][GRAPH_LANES];
};

static CUresult follow(
	struct run *run, unsigned later, unsigned earlier, const struct gdev_fence *fence)
{
	if (run->seen[later][earlier] >= fence->value)
		return CUDA_SUCCESS;
	TRY_GDEV(gdev_stream_wait(run->lanes[later]->stream, fence),
		"a stream of the graph cannot wait for another");
	run->seen[later][earlier] = fence->value;
	return CUDA_SUCCESS;
}

/* Whether the node after this one is the next of a row of kernels: on the same lane, with nothing sent between. A row
 * goes to the device as one, and where it ends must not differ from launch to launch. */
static bool continues(CUgraph graph, size_t i)
{
	CUgraphNode node = graph->order[i], next;

	if (i + 1 == graph->node_count || node->type != CU_GRAPH_NODE_TYPE_KERNEL || node->disabled)
		return false;
	next = graph->order[i + 1];
	if (next->type != CU_GRAPH_NODE_TYPE_KERNEL || next->disabled || next->lane != node->lane)
		return false;
	for (size_t k = 0; k < next->dependency_count; k++)
		if (next->dependencies[k]->lane != next->lane)
			return false;
	return true;
}

static CUresult run_node(
	struct run *run, CUgraphNode node, bool more, const struct gdev_fence *begin)
{
	CUstream lane = run->lanes[node->lane];

	for (size_t i = 0; i < node->dependency_count; i++) {
		CUgraphNode before = node->dependencies[i];
		if (before->lane != node->lane)
			TRY(follow(run, node->lane, before->lane, &before->done));
	}
	if (node->lane)
		TRY(follow(run, node->lane, 0, begin));
	TRY(node_run(node, lane, more));
	if (node->crosses)
		gdev_stream_fence(lane->stream, &node->done);
	return CUDA_SUCCESS;
}

static CUresult run_on_lanes(CUgraph graph, CUstream *lanes)
{
	struct run run = {.lanes = lanes};
	CUresult result = CUDA_SUCCESS, joined;
	struct gdev_fence fence;
	unsigned row = 0, row_max = ROW_FIRST;

	gdev_stream_fence(lanes[0]->stream, &fence);
	for (size_t i = 0; i < graph->node_count && result == CUDA_SUCCESS; i++) {
		bool more = continues(graph, i) && ++row < row_max;
		if (!more) {
			row = 0;
			row_max = ROW_MAX;
		}
		result = run_node(&run, graph->order[i], more, &fence);
	}
	for (unsigned i = 1; i < graph->lanes;
		i++) { /* what was sent is waited for, also after a failure */
		gdev_stream_fence(lanes[i]->stream, &fence);
		joined = follow(&run, 0, i, &fence);
		if (result == CUDA_SUCCESS)
			result = joined;
	}
	return result;
}

/* Launches of one executable graph follow each other, on whatever streams. With the lock. */
static CUresult launch_next(CUgraphExec exec, CUstream stream)
{
	bool free_first = exec->flags & CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH;
	CUresult result;

	TRY(open_lanes(exec, stream));
	if (exec->stream_id && exec->stream_id != stream->id)
		TRY_GDEV(gdev_stream_wait(stream->stream, &exec->done),
			"the stream cannot wait for the launch before");
	TRY(graph_settle_memory(exec->graph, free_first));
	result = run_on_lanes(exec->graph, exec->lanes);
	gdev_stream_fence(stream->stream, &exec->done);
	exec->stream_id = stream->id;
	return result;
}

CUresult graph_launch(CUgraphExec exec, CUstream stream)
{
	CUresult result;

	pthread_mutex_lock(&exec->lock);
	result = launch_next(exec, stream);
	pthread_mutex_unlock(&exec->lock);
	return result;
}
