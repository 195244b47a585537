/* SPDX-License-Identifier: MIT
 *
 * Launching executable graphs. Their nodes have an order, which their dependencies allow, and are sent in it to
 * lanes: streams, each in a context. One is the launch's stream, if some nodes are of its context, and the others are the
 * graph's own. Branches are on different lanes and overlap where the device can; a node waits for those of other lanes
 * that it depends on, and the launch's stream in the end for all. A graph of one context without branches has the one
 * lane. The nodes of a child graph are sent to the lane of its node; those of several contexts to lanes of the child's
 * own, of which that lane is one or waits for all. Lanes of several devices are of several sessions, which wait for each
 * other through gdevd.
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

/* While a graph's nodes are placed. */
struct placing {
	CUgraph graph;
	struct home first;             /* of the nodes' homes */
	unsigned lanes_each;           /* of a home, at most */
	CUgraphNode last[GRAPH_LANES]; /* of each lane */
};

/* A node that may be anywhere goes where one is that it depends on. */
static struct home choose_home(const struct placing *placing, CUgraphNode node)
{
	if (node->home.context)
		return node->home;
	return node->dependency_count ? placing->graph->lane_homes[node->dependencies[0]->lane]
				      : placing->first;
}

/* The lane of a node in its home: where the last is one that it depends on, so that it need not wait; where the last has
 * been followed, so that it need wait for little; a new one; the oldest. */
static unsigned choose_lane(struct placing *placing, CUgraphNode node)
{
	struct home home = choose_home(placing, node);
	unsigned ours[GRAPH_LANES] = {0}, count = 0, oldest;
	CUgraph graph = placing->graph;
	CUgraphNode *last = placing->last;

	for (unsigned i = 0; i < graph->lanes; i++)
		if (same_home(&graph->lane_homes[i], &home))
			ours[count++] = i;
	for (unsigned i = 0; i < count; i++)
		if (node_depends(node, last[ours[i]]))
			return ours[i];
	for (unsigned i = 0; i < count; i++)
		if (last[ours[i]]->followed)
			return ours[i];
	if (count < placing->lanes_each) {
		graph->lane_homes[graph->lanes] = home;
		return graph->lanes++;
	}
	oldest = ours[0];
	for (unsigned i = 1; i < count; i++)
		if (last[ours[i]]->number < last[oldest]->number)
			oldest = ours[i];
	return oldest;
}

static void place(struct placing *placing, CUgraphNode node)
{
	node->lane = choose_lane(placing, node);
	placing->last[node->lane] = node;
	for (size_t i = 0; i < node->dependency_count; i++) {
		node->dependencies[i]->followed = true;
		if (node->dependencies[i]->lane != node->lane)
			node->dependencies[i]->crosses = true;
	}
	node->placed = true;
}

/* A child graph is done where the first of its nodes is. */
static CUresult settle_child(CUgraphNode node)
{
	CUgraph child = node->child;

	TRY(graph_order(child));
	if (child->lanes)
		node->home = child->lane_homes[0];
	return CUDA_SUCCESS;
}

/* Each home has some lanes, and all together not too many. */
static CUresult share_lanes(struct placing *placing)
{
	struct home homes[GRAPH_LANES];
	unsigned count = 0, i;
	CUgraphNode node;

	list_for_each (node, &placing->graph->nodes, link) {
		for (i = 0; i < count && !same_home(&homes[i], &node->home); i++)
			;
		if (i < count || !node->home.context)
			continue;
		if (count == GRAPH_LANES)
			return fail(CUDA_ERROR_NOT_SUPPORTED,
				"the nodes of a graph are of %d contexts at most", GRAPH_LANES);
		homes[count++] = node->home;
	}
	placing->first = count ? homes[0] : (struct home){0};
	placing->lanes_each = min_of(GRAPH_LANES_EACH, GRAPH_LANES / max_of(count, 1u));
	return CUDA_SUCCESS;
}

/* Nodes are mostly created after what they depend on: then one pass does. A pass that places none has found
 * a circle. */
CUresult graph_order(CUgraph graph)
{
	struct placing placing = {.graph = graph};
	unsigned count = 0, before;
	CUgraphNode node;

	list_for_each (node, &graph->nodes, link)
		if (node->type == CU_GRAPH_NODE_TYPE_GRAPH)
			TRY(settle_child(node));
		else if (node->type == CU_GRAPH_NODE_TYPE_CONDITIONAL)
			TRY(node_order_bodies(node));
	TRY(share_lanes(&placing));
	graph->order = malloc((graph->node_count + 1) * sizeof *graph->order);
	if (!graph->order)
		return no_memory();
	do {
		before = count;
		list_for_each (node, &graph->nodes, link) {
			if (node->placed || !may_go(node))
				continue;
			place(&placing, node);
			node->number = count;
			graph->order[count++] = node;
		}
	} while (count < graph->node_count && count > before);
	return count == graph->node_count
		       ? CUDA_SUCCESS
		       : fail(CUDA_ERROR_INVALID_VALUE,
				 "nodes of the graph depend on each other in a circle");
}

/* ---- lanes ---- */

bool home_is_alive(const struct home *home)
{
	return handle_is(HANDLE_CONTEXT, home->context) && home->context->id == home->id &&
	       home->context->session;
}

/* Streams of a context that is gone are gone with it. */
static void close_lane(struct own_lane *lane)
{
	if (lane->stream && home_is_alive(&lane->home))
		stream_release(lane->stream);
	*lane = (struct own_lane){0};
}

void graph_close_lanes(CUgraph graph)
{
	CUgraphNode node;

	for (unsigned i = 0; i < GRAPH_LANES; i++)
		close_lane(&graph->own[i]);
	list_for_each (node, &graph->nodes, link)
		if (node->type == CU_GRAPH_NODE_TYPE_GRAPH)
			graph_close_lanes(node->child);
		else if (node->type == CU_GRAPH_NODE_TYPE_CONDITIONAL)
			close_lane(&node->conditional.lane);
}

CUresult lane_open(struct own_lane *lane, const struct home *home, CUstream like)
{
	CUgreenCtx green = like->context == home->context ? like->green : NULL;

	if (!same_home(&lane->home, home) || !home_is_alive(home) ||
		(lane->stream && (lane->stream->detached || lane->stream->green != green)))
		close_lane(lane);
	if (lane->stream)
		return CUDA_SUCCESS;
	if (!home_is_alive(home))
		return fail(CUDA_ERROR_INVALID_VALUE,
			"a context in which nodes of the graph work is gone");
	TRY(stream_create(
		home->context, green, CU_STREAM_NON_BLOCKING, like->priority, true, &lane->stream));
	lane->home = *home;
	return CUDA_SUCCESS;
}

/* A launch: its streams, and what each has waited for of each other. */
struct run {
	CUstream lanes[GRAPH_LANES + 1];
	unsigned
		base; /* the launch's stream, which is a lane of its context, or behind all lanes */
	uint64_t seen[GRAPH_LANES + 1][GRAPH_LANES + 1];
};

static CUresult open_lanes(CUgraph graph, CUstream stream, struct run *run)
{
	const struct home here = home_of(stream->context);

	run->base = graph->lanes;
	for (unsigned i = 0; i < graph->lanes; i++) {
		const struct home *home =
			graph->lane_homes[i].context ? &graph->lane_homes[i] : &here;
		if (run->base == graph->lanes && same_home(home, &here)) {
			run->base = i;
			continue;
		}
		TRY(lane_open(&graph->own[i], home, stream));
		run->lanes[i] = graph->own[i].stream;
	}
	run->lanes[run->base] = stream;
	return CUDA_SUCCESS;
}

static CUresult follow(
	struct run *run, unsigned later, unsigned earlier, const struct gdev_fence *fence)
{
	if (run->seen[later][earlier] >= fence->value)
		return CUDA_SUCCESS;
	TRY_GDEV(gdev_stream_wait_peer(
			 run->lanes[later]->stream, run->lanes[earlier]->context->session, fence),
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
	if (node->lane != run->base)
		TRY(follow(run, node->lane, run->base, begin));
	TRY(node_run(node, lane, more));
	if (node->crosses)
		gdev_stream_fence(lane->stream, &node->done);
	return CUDA_SUCCESS;
}

static CUresult run_on_lanes(CUgraph graph, struct run *run)
{
	CUresult result = CUDA_SUCCESS, joined;
	struct gdev_fence fence;
	unsigned row = 0, row_max = ROW_FIRST;

	gdev_stream_fence(run->lanes[run->base]->stream, &fence);
	for (size_t i = 0; i < graph->node_count && result == CUDA_SUCCESS; i++) {
		bool more = continues(graph, i) && ++row < row_max;
		if (!more) {
			row = 0;
			row_max = ROW_MAX;
		}
		result = run_node(run, graph->order[i], more, &fence);
	}
	/* What was sent is waited for, also after a failure. */
	for (unsigned i = 0; i < graph->lanes; i++) {
		if (i == run->base)
			continue;
		gdev_stream_fence(run->lanes[i]->stream, &fence);
		joined = follow(run, run->base, i, &fence);
		if (result == CUDA_SUCCESS)
			result = joined;
	}
	return result;
}

static CUresult run_child_on_lanes(CUgraph graph, CUstream stream)
{
	struct run run = {0};

	TRY(open_lanes(graph, stream, &run));
	return run_on_lanes(graph, &run);
}

CUresult graph_run(CUgraph graph, CUstream stream)
{
	for (unsigned i = 1; i < graph->lanes; i++)
		if (!same_home(&graph->lane_homes[i], &graph->lane_homes[0]))
			return run_child_on_lanes(graph, stream);
	for (size_t i = 0; i < graph->node_count; i++)
		TRY(node_run(graph->order[i], stream, false));
	return CUDA_SUCCESS;
}

/* Launches of one executable graph follow each other, on whatever streams. With the lock. */
static CUresult wait_for_last(CUgraphExec exec, CUstream stream)
{
	if (!exec->stream_id || exec->stream_id == stream->id || !home_is_alive(&exec->home))
		return CUDA_SUCCESS;
	return result_of(
		gdev_stream_wait_peer(stream->stream, exec->home.context->session, &exec->done),
		"the stream cannot wait for the launch before");
}

static void note_last(CUgraphExec exec, CUstream stream)
{
	gdev_stream_fence(stream->stream, &exec->done);
	exec->stream_id = stream->id;
	exec->home = home_of(stream->context);
}

static CUresult launch_next(CUgraphExec exec, CUstream stream)
{
	bool free_first = exec->flags & CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH;
	struct run run = {0};
	CUresult result;

	TRY(open_lanes(exec->graph, stream, &run));
	TRY(wait_for_last(exec, stream));
	TRY(graph_settle_memory(exec->graph, free_first));
	TRY(graph_assign_conditions(exec->graph, stream));
	result = run_on_lanes(exec->graph, &run);
	note_last(exec, stream);
	return result;
}

static CUresult launch_whole(CUgraphExec exec, CUstream stream, bool upload)
{
	CUresult result;

	TRY(wait_for_last(exec, stream));
	result = exec_launch_whole(exec, stream, upload);
	note_last(exec, stream);
	return result;
}

CUresult graph_launch(CUgraphExec exec, CUstream stream)
{
	CUresult result;

	pthread_mutex_lock(&exec->lock);
	result = exec->whole_in.context ? launch_whole(exec, stream, false)
					: launch_next(exec, stream);
	pthread_mutex_unlock(&exec->lock);
	return result;
}

CUresult graph_upload(CUgraphExec exec, CUstream stream)
{
	CUresult result = CUDA_SUCCESS;

	pthread_mutex_lock(&exec->lock);
	if (exec->whole_in.context) /* else there is nothing to upload */
		result = launch_whole(exec, stream, true);
	pthread_mutex_unlock(&exec->lock);
	return result;
}
