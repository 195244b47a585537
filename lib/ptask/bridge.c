/* SPDX-License-Identifier: MIT
 *
 * Ptasks that run in this process's own session, in a graph that another process owns (gdev_graph_attach_own()). This process has
 * a graph of its own, on a session of its own, with these ptasks alone; the owner knows their ports (elsewhere.c). A thread carries
 * datablocks over: what comes to a port of the owner's graph is pulled there and pushed here, and what is made goes back.
 *
 *   owner's graph ──▶ channel ──▶ pull, wrap, push ──▶ [ptask] ──▶ pull, write, push ──▶ channel ──▶ owner's graph
 *
 * Inputs are not copied in this process: the datablock here is the memory that the owner writes for this one. The thread waits
 * for both graphs at once, and in a call only for contents that it has asked the owner for.
 *
 * Memory. Both directions have a memory of a fixed size, and ids of datablocks, that all ports share. If a port could take all of them,
 * another one, for which the ptask waits, would get none: so each has a share, in datablocks, and contents come along unasked only
 * where memory has room for many.
 *
 * Ends go over, too. If the graph here fails, the owner's is left, and so hears of the end of all that is made here; calls of this
 * process return why. Locks: that of the graph here, then that of the owner's.
 */
#include "lib/ptask/bridge.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <time.h>

#include "base/clock.h"
#include "lib/ptask/remote.h"

#define AGAIN_NS                                                                                   \
	NS_PER_MS /* memory that both share is full: until the owner has taken some of it */
#define PLENTY 32 /* datablocks: the share of a port whose contents come along unasked */
#define START_NS (10 * NS_PER_MS) /* between looks whether the owner's graph runs */

/* A port. */
struct link {
	struct gdev_port *port; /* as the owner's graph has it */
	bool input, over;
	struct gdev_channel *here;
	struct gdev_channel **there;
	unsigned there_count, next; /* the next one into which `there_block` is to be pushed */
	struct gdev_datablock *here_block, *there_block; /* on their way */
	struct bridge *bridge;
	unsigned limit; /* datablocks of it that may be in use here, or there */
	bool plenty;    /* contents come along unasked */
	atomic_uint held;
	atomic_bool waits; /* for one of them to go */
};

struct bridge {
	struct gdev_graph *graph, *here;
	struct link *links;
	unsigned link_count;
	int wake; /* eventfd */
	atomic_bool stopping;
	bool threaded, again;
	pthread_t thread;
};

struct gdev_graph *bridge_graph(const struct bridge *bridge)
{
	return bridge->here;
}

int bridge_result(struct bridge *bridge, int error)
{
	char why[GDEV_WHY_BYTES];

	if (!error)
		return 0;
	gdev_graph_why(bridge->here, why);
	pthread_mutex_lock(&bridge->graph->lock);
	graph_complain(bridge->graph, error, "%s", why);
	pthread_mutex_unlock(&bridge->graph->lock);
	return error;
}

void bridge_wake(struct bridge *bridge)
{
	eventfd_write(bridge->wake, 1);
}

/* ---- into this process ---- */

/* The datablock here is gone, and its memory is the owner's again. */
static void on_release(void *argument)
{
	gdev_datablock_put(argument);
}

/* A datablock of a port is in the shared memory from here on, until it is gone. */
static void on_gone(void *argument)
{
	struct link *link = argument;

	atomic_fetch_sub(&link->held, 1);
	if (atomic_exchange(&link->waits, false))
		bridge_wake(link->bridge);
}

static void hold(struct link *link, struct gdev_datablock *block)
{
	atomic_fetch_add(&link->held, 1);
	block->release = on_gone;
	block->argument = link;
}

/* Whether its share has room; else the thread is woken when it has. */
static bool has_room(struct link *link)
{
	if (link->held < link->limit)
		return true;
	link->waits = true;
	return link->held < link->limit;
}

/* What both share has no room for it just now; or the program has all ids. */
static int later(struct bridge *bridge, int error)
{
	if (error != -ENOMEM && error != -ENOBUFS)
		return error == -EAGAIN || error == -ETIMEDOUT ? 0 : error;
	bridge->again = true;
	return 0;
}

static int end_input(struct link *link)
{
	int error = gdev_channel_end(link->here);

	link->over = true;
	return error ? error : gdev_channel_end(link->there[0]);
}

static int wrap(struct bridge *bridge, struct link *link)
{
	struct gdev_datablock *block = link->there_block;
	void *data;
	int error;

	if (!has_room(link))
		return 0;
	error = gdev_datablock_map(block, false, &data);
	link->there[0]->remote->wants =
		link->plenty; /* it says by now that this looks at contents */
	if (error)
		return later(bridge, error);
	error = gdev_datablock_wrap(bridge->here, gdev_channel_template(link->here), block->records,
		data, on_release, block, &link->here_block);
	if (!error)
		hold(link, steal_pointer(&link->there_block));
	return error;
}

static int carry_in(struct bridge *bridge, struct link *link, bool *some)
{
	int error = 0;

	if (!link->there_block && !link->here_block)
		error = gdev_pull(link->there[0], AT_ONCE, &link->there_block);
	if (error == -ENODATA)
		return end_input(link);
	if (!error && !link->here_block)
		error = wrap(bridge, link);
	if (error || !link->here_block)
		return later(bridge, error);
	error = gdev_push_give(link->here, link->here_block, 0);
	if (!error || error == -EPIPE) {
		if (error)
			gdev_datablock_put(link->here_block);
		link->here_block = NULL;
		*some = true;
	}
	return error == -EPIPE ? end_input(link) : later(bridge, error);
}

/* ---- out of it ---- */

static int end_output(struct link *link)
{
	int error = 0;

	link->over = true;
	for (unsigned i = 0; i < link->there_count && !error; i++)
		error = gdev_channel_end(link->there[i]);
	return error;
}

/* In the memory that this process writes and the owner reads. */
static int copy_out(struct bridge *bridge, struct link *link)
{
	struct gdev_datablock *from = link->here_block, *to;
	void *data;
	int error;

	if (!has_room(link))
		return 0;
	error = gdev_datablock_create(
		bridge->graph, gdev_channel_template(link->there[0]), from->records, &to);
	if (error)
		return later(bridge, error);
	hold(link, to);
	error = gdev_datablock_map(to, true, &data);
	if (!error)
		error = gdev_datablock_read(from, 0, data, from->bytes);
	if (error) {
		gdev_datablock_put(to);
		return error;
	}
	gdev_datablock_put(steal_pointer(&link->here_block));
	link->there_block = to;
	link->next = 0;
	return 0;
}

static int push_out(struct link *link, bool *some)
{
	int error = 0;

	for (; link->next < link->there_count; link->next++) {
		error = gdev_push(link->there[link->next], link->there_block, AT_ONCE);
		if (error && error != -EPIPE) /* of that one nobody takes anything any more */
			return error;
	}
	gdev_datablock_put(steal_pointer(&link->there_block));
	*some = true;
	return 0;
}

static int carry_out(struct bridge *bridge, struct link *link, bool *some)
{
	int error = 0;

	if (!link->there_block && !link->here_block)
		error = gdev_pull(link->here, 0, &link->here_block);
	if (error == -ENODATA)
		return end_output(link);
	if (!error && !link->there_block)
		error = copy_out(bridge, link);
	if (!error && link->there_block)
		error = push_out(link, some);
	return later(bridge, error);
}

/* ---- the thread ---- */

/* Whether datablocks of one graph are what the other takes: the owner may say anything of its channel. */
static bool fits(const struct link *link, const struct gdev_channel *found)
{
	const struct gdev_template *here = gdev_channel_template(link->here);

	return link->input ? template_fits(found->tmpl, here) : template_fits(here, found->tmpl);
}

/* Of the memory, and of the ids: half for what is in use, and a quarter of the ids for what is asked for ahead. */
static void share(struct link *link)
{
	const struct remote *remote = link->bridge->graph->remote;
	struct remote_end *end = link->there[0]->remote;
	unsigned links = link->bridge->link_count, ids = GRAPH_IDS / 2 / links;
	uint64_t bytes = link->input ? remote->theirs_bytes : remote->ours_bytes;
	uint64_t room = bytes / 2 / links / gdev_channel_template(link->there[0])->bytes;

	link->limit = (unsigned)max_of(min_of(room, (uint64_t)ids), (uint64_t)1);
	link->plenty = link->input && room >= PLENTY;
	end->ahead = min_of(max_of(ids / 2, 1u), end->ahead);
	end->wants = link->plenty;
}

/* Of the part, when the owner's graph runs. */
static int open_ends(struct bridge *bridge, struct link *link)
{
	static const struct timespec pause = {.tv_nsec = START_NS};
	struct gdev_channel *found, **more;
	int error = 0;

	while (!error && !bridge->stopping) {
		error = remote_find_at_port(link->port, link->there_count, &found);
		if (error == -EAGAIN) {
			nanosleep(&pause, NULL);
			error = 0;
			continue;
		}
		if (!error && (found->remote->pushes == link->input || !fits(link, found)))
			error = -GDEV_E_PROTOCOL;
		if (error)
			break;
		more = realloc(link->there, (link->there_count + 1) * sizeof(*more));
		if (!more)
			return -ENOMEM;
		link->there = more;
		link->there[link->there_count++] = found;
	}
	if (error != -ENOENT)
		return error;
	if (link->there_count)
		share(link);
	link->over = !link->there_count; /* its ptask was not connected, and has ended */
	return link->over && link->input ? gdev_channel_end(link->here) : 0;
}

static void wait_for_more(struct bridge *bridge)
{
	static const struct timespec moment = {.tv_nsec = AGAIN_NS};
	const struct remote *remote = bridge->graph->remote;
	struct pollfd told[] = {{.fd = bridge->wake, .events = POLLIN},
		{.fd = gdev_graph_descriptor(bridge->here), .events = POLLIN},
		{.fd = remote->bell, .events = POLLIN}, {.fd = remote->socket}}; /* its end */
	eventfd_t count;

	if (bridge->again)
		nanosleep(&moment, NULL);
	else
		poll(told, array_length(told), -1);
	eventfd_read(bridge->wake, &count);
}

/* What the owner has answered: what is free again, also if nothing is asked just now. */
static int listen_to_owner(struct gdev_graph *graph)
{
	int error;

	pthread_mutex_lock(&graph->lock);
	error = remote_listen(graph);
	pthread_mutex_unlock(&graph->lock);
	return error == -EAGAIN ? 0 : error;
}

static bool all_over(const struct bridge *bridge)
{
	for (unsigned i = 0; i < bridge->link_count; i++)
		if (!bridge->links[i].over)
			return false;
	return true;
}

static int carry(struct bridge *bridge)
{
	int error = 0;

	for (unsigned i = 0; i < bridge->link_count && !error; i++)
		error = open_ends(bridge, &bridge->links[i]);
	while (!error && !bridge->stopping && !all_over(bridge)) {
		bool some = false;
		bridge->again = false;
		error = listen_to_owner(bridge->graph);
		if (!error)
			error = gdev_graph_advance(bridge->here);
		for (unsigned i = 0; i < bridge->link_count && !error; i++) {
			struct link *link = &bridge->links[i];
			if (!link->over)
				error = link->input ? carry_in(bridge, link, &some)
						    : carry_out(bridge, link, &some);
		}
		if (!error && !some)
			wait_for_more(bridge);
	}
	return error;
}

/* The owner hears of the end of this process's ends, and calls of this process, also those that wait for the owner, of why. */
static void leave(struct bridge *bridge, int error)
{
	struct gdev_graph *graph = bridge->graph;
	char why[GDEV_WHY_BYTES];

	gdev_graph_why(bridge->here, why);
	pthread_mutex_lock(&graph->lock);
	if (!graph->error) {
		graph->error = error;
		graph_complain(graph, error, "%s", *why ? why : gdev_strerror(error));
		graph_changed(graph);
	}
	shutdown(graph->remote->socket, SHUT_RDWR);
	pthread_mutex_unlock(&graph->lock);
}

static void *run(void *argument)
{
	struct bridge *bridge = argument;
	int error;

	pthread_setname_np(pthread_self(), "gdev-bridge");
	error = carry(bridge);
	if (error && !bridge->stopping)
		leave(bridge, error);
	return NULL;
}

int bridge_start(struct bridge *bridge)
{
	sigset_t all, before;
	int error;

	if (!bridge->link_count)
		return 0;
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	error = -pthread_create(&bridge->thread, NULL, run, bridge);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	bridge->threaded = !error;
	return error;
}

/* ---- building ---- */

static bool has_link(const struct bridge *bridge, const struct gdev_port *port)
{
	for (unsigned i = 0; i < bridge->link_count; i++)
		if (bridge->links[i].port == port)
			return true;
	return false;
}

/* Once: a part that was not complete may be tried again. */
static int add_link(struct bridge *bridge, struct gdev_port *port, bool input)
{
	struct link *links =
		realloc(bridge->links, (bridge->link_count + 1) * sizeof *bridge->links);
	struct gdev_channel *here;
	int error;

	if (!links)
		return -ENOMEM;
	bridge->links = links;
	if (has_link(bridge, port))
		return 0;
	error = gdev_channel_open(
		bridge->here, input ? NULL : port->here, input ? port->here : NULL, NULL, &here);
	if (!error)
		links[bridge->link_count++] =
			(struct link){.port = port, .input = input, .here = here, .bridge = bridge};
	return error;
}

int bridge_run(struct bridge *bridge)
{
	struct gdev_ptask *ptask;
	struct gdev_port *port;
	int error = graph_enter(bridge->here);

	if (!error) {
		error = graph_may_build(bridge->here);
		graph_leave(bridge->here);
	}
	if (error)
		return bridge_result(bridge, error);
	list_for_each (ptask, &bridge->graph->ptasks, link) {
		if (!ptask->here)
			continue; /* somebody else's, of which a port was found */
		list_for_each (port, &ptask->inputs, link)
			error = error ? error : add_link(bridge, port, true);
		list_for_each (port, &ptask->outputs, link)
			error = error ? error : add_link(bridge, port, false);
	}
	return bridge_result(bridge, error ? error : gdev_graph_run(bridge->here));
}

/* ---- life ---- */

int bridge_create(struct gdev_graph *graph, const char *vgpu, struct bridge **created)
{
	struct gdev_graph_options options = {.name = graph->name, .vgpu = vgpu, .manual = true};
	struct bridge *bridge = calloc(1, sizeof *bridge);
	int error;

	if (!bridge)
		return -ENOMEM;
	bridge->graph = graph;
	bridge->wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	error = bridge->wake < 0 ? -errno : gdev_graph_open(&options, &bridge->here);
	if (error)
		bridge_free(bridge);
	else
		*created = bridge;
	return error;
}

void bridge_stop(struct bridge *bridge)
{
	if (!bridge)
		return;
	bridge->stopping = true;
	leave(bridge, -ECANCELED); /* an owner that is stopped does not hold up this process */
	if (bridge->wake >= 0)
		eventfd_write(bridge->wake, 1);
	if (bridge->threaded)
		pthread_join(bridge->thread, NULL);
	for (unsigned i = 0; i < bridge->link_count; i++) {
		gdev_datablock_put(bridge->links[i].here_block);
		gdev_datablock_put(bridge->links[i].there_block);
	}
	gdev_graph_close(bridge->here);
	bridge->here = NULL;
}

void bridge_free(struct bridge *bridge)
{
	if (!bridge)
		return;
	if (bridge->wake >= 0)
		close(bridge->wake);
	for (unsigned i = 0; i < bridge->link_count; i++)
		free(bridge->links[i].there);
	free(bridge->links);
	free(bridge);
}
