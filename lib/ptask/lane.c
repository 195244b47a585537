/* SPDX-License-Identifier: MIT
 *
 * Lanes: the streams of a graph. What depends on a command of another lane is sent behind a wait for it; nobody waits on the
 * host. A lane remembers what it waits for already, so that a wait is sent once.
 *
 * Narrow graphs. On an NVIDIA GPU a wait for another lane costs up to 10 us, when the worker has to see the end of what is
 * awaited; kernels of one lane follow each other in less than one. That is more than short kernels gain by overlapping. So
 * all ptasks are in one lane as long as their kernels are short.
 */
#include <errno.h>

#include "lib/ptask/internal.h"

#define SMALL_BYTES 65536
#define LOOK_EVERY 64 /* invocations */
#define SHORT_NS 20000
#define LONG_NS 50000

int lane_create(struct gdev_graph *graph, unsigned lane)
{
	struct gdev_fence fence;
	int error;

	if (graph->lanes[lane].stream)
		return 0;
	error = gdev_stream_create(session_of(graph, lane), 0, &graph->lanes[lane].stream);
	if (error)
		return error;
	gdev_stream_fence(graph->lanes[lane].stream, &fence);
	graph->lanes[lane].timeline = fence.timeline;
	graph->lanes_used = max_of(graph->lanes_used, lane + 1);
	return 0;
}

unsigned lane_of_all(const struct gdev_graph *graph)
{
	return graph->ptask_lanes == 1 || graph->narrow ? LANE_FIRST : LANE_IN;
}

static uint64_t device_ns(const struct gdev_graph *graph)
{
	uint64_t sum = 0;

	for (unsigned i = 0; i < graph->lanes_used; i++)
		if (graph->lanes[i].stream && i % LANES_A_DEVICE != LANE_IN)
			sum += gdev_stream_device_ns(graph->lanes[i].stream);
	return sum;
}

/* What an invocation takes, of those since the last look. Kernels that overlap share their time. */
static void look_at_pace(struct gdev_graph *graph)
{
	uint64_t now_ns, each_ns;

	if (++graph->unlooked < LOOK_EVERY)
		return;
	now_ns = max_of(device_ns(graph), graph->looked_ns);
	each_ns = (now_ns - graph->looked_ns) / graph->unlooked;
	graph->looked_ns = now_ns;
	graph->unlooked = 0;
	if (each_ns > LONG_NS || each_ns < SHORT_NS)
		graph->narrow = each_ns < SHORT_NS;
}

unsigned lane_to_invoke(struct gdev_ptask *ptask, unsigned device)
{
	struct gdev_graph *graph = ptask->graph;

	if (graph->adapts)
		look_at_pace(graph);
	return device * LANES_A_DEVICE + (graph->narrow ? LANE_FIRST : ptask->lane);
}

unsigned lane_to_bring(struct gdev_graph *graph, unsigned lane, uint64_t bytes)
{
	const struct lane *wanted = &graph->lanes[lane];
	struct point kernel = {.lane = lane, .value = wanted->launched};

	if (graph->devices[device_of(lane)].direct || !wanted->stream ||
		(bytes > SMALL_BYTES && !point_reached(graph, kernel)))
		return lane_in(device_of(lane));
	return lane;
}

struct gdev_fence point_fence(const struct gdev_graph *graph, struct point point)
{
	return (struct gdev_fence){
		.timeline = graph->lanes[point.lane].timeline, .value = point.value};
}

int lane_follow(struct gdev_graph *graph, unsigned lane, struct point point)
{
	struct lane *follower = &graph->lanes[lane];
	struct gdev_fence fence = point_fence(graph, point);
	int error;

	if (point.lane == lane || follower->seen[point.lane] >= point.value)
		return 0;
	error = gdev_stream_wait_peer(follower->stream, session_of(graph, point.lane), &fence);
	if (!error)
		follower->seen[point.lane] = point.value;
	return error;
}

struct point lane_end(const struct gdev_graph *graph, unsigned lane)
{
	struct gdev_fence fence;

	gdev_stream_fence(graph->lanes[lane].stream, &fence);
	return (struct point){.lane = lane, .value = fence.value};
}

bool point_reached(struct gdev_graph *graph, struct point point)
{
	struct gdev_fence fence = point_fence(graph, point);

	return gdev_fence_query(session_of(graph, point.lane), &fence) == 0;
}

int lanes_error(struct gdev_graph *graph)
{
	int error = 0;

	for (unsigned i = 0; i < graph->device_count && !error; i++)
		error = gdev_session_error(graph->devices[i].session, NULL);
	for (unsigned i = 0; i < graph->lanes_used && !error; i++)
		if (graph->lanes[i].stream)
			error = gdev_stream_error(graph->lanes[i].stream);
	if (error)
		graph_fail(graph, error, NULL);
	return graph->error;
}
