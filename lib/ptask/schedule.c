/* SPDX-License-Identifier: MIT
 *
 * Scheduling (section 5.1): ptasks that have their inputs wait in one queue for a device, and a policy picks. A device has a
 * few invocations ahead, so that it does not idle until the host has heard of an end; while all have as many, the next look is
 * when one of them ends. With one device and first-available there is no queue: what is ready is sent.
 */
#include "base/clock.h"
#include "lib/ptask/internal.h"
#include "lib/ptask/policy.h"

#define DECAY 8 /* an average moves by an eighth of the difference */

static const struct policy *const policies[] = {
	[GDEV_SCHEDULE_FIRST_AVAILABLE] = &policy_fifo,
	[GDEV_SCHEDULE_FIFO] = &policy_fifo,
	[GDEV_SCHEDULE_PRIORITY] = &policy_priority,
	[GDEV_SCHEDULE_DATA_AWARE] = &policy_data_aware,
};

bool schedule_queues(const struct gdev_graph *graph)
{
	return graph->device_count > 1 || graph->schedule != GDEV_SCHEDULE_FIRST_AVAILABLE;
}

void schedule_add(struct gdev_ptask *ptask)
{
	ptask->ready_ns = clock_now_ns();
	ptask->waits_for_device = true;
	list_append(&ptask->graph->ready, &ptask->work);
}

/* ---- what devices have done ---- */

static void move_average(double *average, double value)
{
	*average = *average ? *average + (value - *average) / DECAY : value;
}

static void note_run(struct gdev_ptask *ptask, double ms)
{
	move_average(&ptask->average_run_ms, ms);
	move_average(&ptask->graph->average_run_ms, ms);
}

/* Invocations of a device end in any order, as lanes overlap. A run is from when the one before it ended. */
static void retire(struct device *device, uint64_t now_ns)
{
	unsigned kept = 0;

	for (unsigned i = 0; i < device->ahead_count; i++) {
		struct invocation *invocation = &device->ahead[i];
		if (!point_reached(device->graph, invocation->point)) {
			device->ahead[kept++] = *invocation;
			continue;
		}
		uint64_t began = max_of(invocation->began_ns, device->ended_ns);
		note_run(invocation->ptask, (double)(now_ns - began) / NS_PER_MS);
		device->ended_ns = now_ns;
	}
	device->ahead_count = kept;
}

static unsigned look_at_devices(struct gdev_graph *graph, struct place *places, uint64_t now_ns)
{
	unsigned available = 0;

	for (unsigned i = 0; i < graph->device_count; i++) {
		struct device *device = &graph->devices[i];
		retire(device, now_ns);
		places[i] = (struct place){.available = device->ahead_count < AHEAD,
			.strength = device->strength,
			.ahead = device->ahead_count};
		available += places[i].available;
	}
	return available;
}

/* ---- picking ---- */

/* Until a run has ended, one takes at least as long as the oldest one has so far. */
static double expected_run_ms(const struct gdev_ptask *ptask, uint64_t now_ns)
{
	const struct gdev_graph *graph = ptask->graph;
	uint64_t longest_ns = 0;

	if (ptask->average_run_ms || graph->average_run_ms)
		return ptask->average_run_ms ? ptask->average_run_ms : graph->average_run_ms;
	for (unsigned i = 0; i < graph->device_count; i++)
		if (graph->devices[i].ahead_count)
			longest_ns =
				max_of(longest_ns, now_ns - graph->devices[i].ahead[0].began_ns);
	return (double)longest_ns / NS_PER_MS;
}

static void describe(struct gdev_ptask *ptask, uint64_t now_ns, struct candidate *candidate)
{
	const struct gdev_port *port;

	*candidate = (struct candidate){
		.priority = ptask->priority,
		.proxy = ptask_proxy(ptask),
		.wait_ms = (double)(now_ns - ptask->ready_ns) / NS_PER_MS,
		.average_wait_ms = ptask->average_wait_ms,
		.average_run_ms = expected_run_ms(ptask, now_ns),
	};
	for (unsigned i = 0; i < ptask->graph->device_count; i++)
		candidate->unfit[i] = !ptask->fits[i];
	list_for_each (port, &ptask->inputs, link)
		for (unsigned i = 0; i < ptask->graph->device_count; i++)
			if (!is_read_by_host(port) && port->block->views[i].current)
				candidate->bytes_on[i] += port->block->bytes;
}

/* NULL: none goes now. */
static struct gdev_ptask *pick(struct gdev_graph *graph, unsigned *device)
{
	struct gdev_ptask *ptasks[CANDIDATES_MAX], *ptask;
	struct candidate candidates[CANDIDATES_MAX];
	struct place places[DEVICES_MAX];
	struct choice choice;
	uint64_t now_ns = clock_now_ns();
	unsigned count = 0;

	if (!look_at_devices(graph, places, now_ns))
		return NULL;
	list_for_each (ptask, &graph->ready, work) {
		if (count == CANDIDATES_MAX)
			break;
		describe(ptask, now_ns, &candidates[count]);
		ptasks[count++] = ptask;
	}
	if (!policies[graph->schedule]->choose(
		    candidates, count, places, graph->device_count, &choice))
		return NULL;
	ptask = ptasks[choice.candidate];
	move_average(&ptask->average_wait_ms, candidates[choice.candidate].wait_ms);
	*device = choice.place;
	return ptask;
}

/* An end of any invocation may let one that waits go. */
static void ask_for_notice(struct gdev_graph *graph)
{
	for (unsigned i = 0; i < graph->device_count; i++)
		for (unsigned k = 0; k < graph->devices[i].ahead_count; k++)
			host_notice(graph, graph->devices[i].ahead[k].point, false);
	host_start(graph);
}

static bool reaches(const struct gdev_ptask *ptask, unsigned device)
{
	const struct gdev_port *port;
	bool all = true;

	list_for_each (port, &ptask->inputs, link)
		all &= is_read_by_host(port) || block_reaches(port->block, device);
	return all;
}

static void send(struct gdev_ptask *ptask, unsigned index)
{
	struct device *device = &ptask->graph->devices[index];
	uint64_t before = ptask->invocations;

	ptask_invoke(ptask, index);
	if (ptask->invocations == before) /* skipped, or failed */
		return;
	device->ahead[device->ahead_count++] = (struct invocation){
		.ptask = ptask, .point = ptask->last, .began_ns = clock_now_ns()};
}

bool schedule_next(struct gdev_graph *graph)
{
	struct gdev_ptask *ptask;
	unsigned device;

	if (graph->error || graph->terminated || list_empty(&graph->ready))
		return false;
	ptask = pick(graph, &device);
	if (!ptask) {
		ask_for_notice(graph);
		return false;
	}
	list_remove(&ptask->work);
	ptask->waits_for_device = false;
	ptask->staged = !reaches(ptask, device);
	if (ptask->staged)
		ptask_needs_host(ptask);
	else
		send(ptask, device);
	return true;
}
