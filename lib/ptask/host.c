/* SPDX-License-Identifier: MIT
 *
 * The host's part: callbacks, and values that the runtime itself reads (scalars, sizes, predicates). Here, and nowhere else,
 * the host waits for a producer on the device. A thread of the graph does it, which is started when it is first needed; in a
 * manual graph, gdev_graph_advance().
 *
 * Being told. A stream of the lane's own waits for the point and calls libgdev's host thread, which writes an eventfd. There is
 * one such notice a lane: when it comes, everything is looked at again, and what is not complete yet asks for another.
 */
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <time.h>

#include "lib/ptask/internal.h"

#define MEMBERS_TURNS 1024 /* in a row, then the program's */

/* ---- being told ---- */

/* On libgdev's thread. */
static void on_notice(void *argument, int error)
{
	struct notice *notice = argument;
	struct gdev_graph *graph = notice->graph;

	pthread_mutex_lock(&graph->notice_lock);
	eventfd_write(graph->wake, 1);
	if (notice->program || graph->manual)
		eventfd_write(graph->descriptor, 1);
	notice->armed = notice->program = false;
	pthread_cond_signal(&graph->noticed);
	pthread_mutex_unlock(&graph->notice_lock);
}

static int send_notice(struct gdev_graph *graph, struct notice *notice, struct point point)
{
	struct lane *lane = &graph->lanes[point.lane];
	struct gdev_fence fence = point_fence(graph, point);
	int error = 0;

	if (!lane->notify)
		error = gdev_stream_create(session_of(graph, point.lane), 0, &lane->notify);
	if (!error)
		error = gdev_stream_wait(lane->notify, &fence);
	return error ? error : gdev_stream_call(lane->notify, on_notice, notice);
}

void host_notice(struct gdev_graph *graph, struct point point, bool program)
{
	struct notice *notice = &graph->notices[point.lane];
	bool armed;
	int error;

	pthread_mutex_lock(&graph->notice_lock);
	armed = notice->armed;
	notice->graph = graph;
	notice->armed = true;
	notice->program |= program;
	pthread_mutex_unlock(&graph->notice_lock);
	if (armed)
		return;
	error = send_notice(graph, notice, point);
	if (!error)
		return;
	pthread_mutex_lock(&graph->notice_lock);
	notice->armed = false;
	pthread_mutex_unlock(&graph->notice_lock);
	graph_fail(graph, error, NULL);
}

static bool any_armed(const struct gdev_graph *graph)
{
	for (unsigned i = 0; i < LANES_MAX; i++)
		if (graph->notices[i].armed)
			return true;
	return false;
}

/* ---- callbacks ---- */

static int make_output(struct gdev_port *port, struct gdev_view *view)
{
	struct gdev_graph *graph = port->ptask->graph;
	struct gdev_datablock *block;
	int error = graph_enter(graph);

	if (error)
		return error;
	error = block_create(graph, port->tmpl, shape_elements(&port->tmpl->shape), &block);
	if (!error) {
		block->host = calloc(1, block->bytes);
		port->block = block;
		*view = (struct gdev_view){block->host, block->bytes, block->records};
		error = block->host ? 0 : -ENOMEM;
	}
	graph_leave(graph);
	return error;
}

static int prepare_call(
	struct gdev_ptask *ptask, struct gdev_view *inputs, struct gdev_view *outputs)
{
	struct gdev_port *port;
	unsigned i = 0;
	int error = 0;

	list_for_each (port, &ptask->inputs, link) {
		error = error ? error : block_to_host(port->block);
		inputs[i++] = (struct gdev_view){
			port->block->host, port->block->bytes, port->block->records};
	}
	i = 0;
	list_for_each (port, &ptask->outputs, link)
		error = error ? error : make_output(port, &outputs[i++]);
	return error;
}

static int take_outputs(struct gdev_ptask *ptask, const struct gdev_view *outputs)
{
	struct gdev_port *port;
	unsigned i = 0;

	list_for_each (port, &ptask->outputs, link) {
		struct gdev_datablock *block = port->block;
		uint64_t records = outputs[i++].records;
		bool fixed = block->tmpl->shape.layout == GDEV_LAYOUT_FIXED;

		if (fixed ? records != block->records : records > block->records)
			return -EPROTOTYPE;
		block->records = records;
		block->bytes = records * block->tmpl->shape.stride;
		block->host_current = true;
	}
	return 0;
}

/* Takes the lock. 1: the callback has ended. */
static int call(struct gdev_ptask *ptask)
{
	autofree struct gdev_view *views =
		calloc(ptask->input_count + ptask->output_count + 1, sizeof *views);
	struct gdev_view *outputs = views + ptask->input_count;
	uint64_t began_ns;
	int result;

	if (!views)
		return -ENOMEM;
	result = prepare_call(ptask, views, outputs);
	began_ns = span_begin();
	if (!result)
		result = ptask->callback(ptask->argument, views, outputs);
	span_end(began_ns, "ptask", ptask->name, min_of(result, 0));
	return result ? result : take_outputs(ptask, outputs);
}

/* ---- serving ---- */

/* Takes the lock. */
static int bring_values(struct gdev_ptask *ptask)
{
	struct gdev_port *port;
	int error = 0;

	list_for_each (port, &ptask->inputs, link)
		if (!error && (ptask->staged || is_read_by_host(port)))
			error = block_to_host(port->block);
	return error;
}

/* Whether what the host reads is complete; else we shall be told. */
static bool can_serve(struct gdev_ptask *ptask)
{
	struct gdev_port *port;

	list_for_each (port, &ptask->inputs, link)
		if ((ptask->callback || ptask->staged || is_read_by_host(port)) &&
			!block_complete(port->block)) {
			host_notice(ptask->graph, block_written(port->block), false);
			return false;
		}
	return true;
}

static void finish(struct gdev_ptask *ptask, int result)
{
	struct gdev_graph *graph = ptask->graph;

	ptask->calling = false;
	if (result < 0)
		graph_fail(graph, result, ptask);
	if (graph->error || graph->terminated) {
		ptask_drop_all(ptask);
	} else if (result) {
		ptask_end(ptask);
	} else if (ptask->callback) {
		ptask->invocations++;
		ptask_consume(ptask);
	} else {
		ptask_touch(ptask);
	}
}

static void serve(struct gdev_ptask *ptask)
{
	struct gdev_graph *graph = ptask->graph;
	int result;

	list_remove(&ptask->work);
	ptask->waits_for_host = false;
	ptask->calling = graph->serving = true;
	graph_leave(graph);
	result = ptask->callback ? call(ptask) : bring_values(ptask);
	pthread_mutex_lock(&graph->lock);
	graph->serving = false;
	members_waited(graph);
	finish(ptask, result);
	graph_flow(graph);
}

bool host_serve(struct gdev_graph *graph)
{
	struct gdev_ptask *ptask, *next;

	if (graph->serving || graph->error || graph->terminated)
		return false;
	list_for_each_safe (ptask, next, &graph->hosts, work)
		if (can_serve(ptask)) {
			serve(ptask);
			return true;
		} else if (graph->error) {
			return false;
		}
	return false;
}

/* The lock is given up meanwhile. Whether there may be more. */
static bool graph_serve(struct gdev_graph *graph)
{
	bool some;

	if (graph->serving) { /* another thread of the program: it looks again */
		graph->woken = true;
		return false;
	}
	graph->woken = false;
	some = host_serve(graph);
	some |= feeds_serve(graph);
	return members_serve(graph) || some || graph->woken;
}

/* ---- the thread ---- */

/* Members may ask without end, and the program's calls take the lock, too: a thread that waits for it wakes up in this time. */
static void give_way(struct gdev_graph *graph)
{
	static const struct timespec moment = {.tv_nsec = 50000};

	graph->members_turns = 0;
	pthread_mutex_unlock(&graph->lock);
	nanosleep(&moment, NULL);
	pthread_mutex_lock(&graph->lock);
}

static void *run_host(void *argument)
{
	struct gdev_graph *graph = argument;
	struct pollfd told[] = {{.fd = graph->wake, .events = POLLIN},
		{.fd = graph->watch, .events = POLLIN},
		{.fd = members_descriptor(graph), .events = POLLIN}};
	eventfd_t count;

	pthread_setname_np(pthread_self(), "gdev-graph");
	pthread_mutex_lock(&graph->lock);
	while (!graph->stopping) {
		graph_flow(graph);
		if (graph->members_turns >= MEMBERS_TURNS)
			give_way(graph);
		if (graph_serve(graph) || !members_sleep(graph))
			continue;
		graph->members_turns = 0;
		told[1].fd = graph->watch;
		graph->asleep = true;
		pthread_mutex_unlock(&graph->lock);
		poll(told, array_length(told), -1);
		if (told[0].revents)
			eventfd_read(graph->wake, &count);
		pthread_mutex_lock(&graph->lock);
		graph->asleep = false;
		members_knock(graph, told[2].revents);
	}
	pthread_mutex_unlock(&graph->lock);
	return NULL;
}

static int start_thread(struct gdev_graph *graph)
{
	sigset_t all, before;
	int error;

	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	error = -pthread_create(&graph->thread, NULL, run_host, graph);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	graph->threaded = !error;
	return error;
}

void host_start(struct gdev_graph *graph)
{
	int error = 0;

	if (!graph->manual && !graph->threaded && !graph->stopping && !graph->error &&
		!graph->terminated)
		error = start_thread(graph);
	if (error)
		graph_fail(graph, error, NULL);
}

void host_wake(struct gdev_graph *graph)
{
	graph->woken = true;
	if (graph->manual && !graph->advancing)
		eventfd_write(graph->descriptor, 1);
	host_start(graph);
	if (graph->asleep) {
		graph->asleep = false;
		eventfd_write(graph->wake, 1);
	}
}

void host_stop(struct gdev_graph *graph)
{
	pthread_mutex_lock(&graph->lock);
	graph->stopping = true;
	host_wake(graph);
	pthread_mutex_unlock(&graph->lock);
	if (graph->threaded)
		pthread_join(graph->thread, NULL);
	pthread_mutex_lock(&graph->notice_lock);
	while (any_armed(graph))
		pthread_cond_wait(&graph->noticed, &graph->notice_lock);
	pthread_mutex_unlock(&graph->notice_lock);
}

int gdev_graph_advance(struct gdev_graph *graph)
{
	eventfd_t count;
	int error = graph_enter(graph);

	if (error)
		return error;
	if (graph->manual) {
		eventfd_read(graph->descriptor, &count);
		graph->advancing = true;
		graph->members_turns = 0;
		members_knock(graph, true);
		graph_flow(graph);
		while (graph->members_turns < MEMBERS_TURNS &&
			(graph_serve(graph) || !members_sleep(graph)))
			;
		if (graph->members_turns == MEMBERS_TURNS) /* there is more to do */
			eventfd_write(graph->descriptor, 1);
		graph->advancing = false;
		error = graph->error;
	} else {
		error = -EINVAL;
	}
	graph_leave(graph);
	return error;
}
