/* SPDX-License-Identifier: MIT
 *
 * A graph that another process owns: the rings that the two share, and waiting for the owner (proto/graph.h). The owner is not
 * believed either: what it answers is copied out once and checked.
 *
 * Waiting. One thread polls the bell and the socket, whose end says that the owner is gone; others wait for that thread, and
 * the next of them takes its place when it has what it wanted.
 */
#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <time.h>

#include "base/clock.h"
#include "base/fd.h"
#include "lib/ptask/bridge.h"
#include "lib/ptask/forks.h"
#include "lib/ptask/remote.h"

/* ---- errors ---- */

void remote_lose(struct gdev_graph *graph, int error)
{
	if (graph->error)
		return;
	graph->error = error;
	graph_complain(graph, error, "the process that owns graph %s: %s", graph->name,
		gdev_strerror(error));
	graph_changed(graph);
}

int remote_error(struct gdev_graph *graph)
{
	struct remote *remote = graph->remote;
	int error = __atomic_load_n(&remote->segment->error, __ATOMIC_ACQUIRE);

	if (!graph->error && error) {
		memcpy(graph->why, remote->segment->why, sizeof graph->why);
		graph->why[sizeof graph->why - 1] = '\0';
		graph->error = error < 0 && error >= -4095 ? error : -GDEV_E_PROTOCOL;
		graph_changed(graph);
	}
	return graph->error;
}

/* ---- answers ---- */

static void on_freed(struct gdev_graph *graph, const struct graph_answer *answer)
{
	struct remote *remote = graph->remote;
	struct gdev_datablock *block = answer->id < GRAPH_IDS ? remote->known[answer->id] : NULL;

	if (!block) {
		remote_lose(graph, -GDEV_E_PROTOCOL);
		return;
	}
	remote->known[answer->id] = NULL;
	block->slot = REMOTE_NO_SLOT;
	block_put(block);
}

/* Whether contents are where the owner says. */
static bool is_in_memory(const struct remote *remote, uint64_t offset, uint64_t bytes)
{
	return offset == GRAPH_NOWHERE ||
	       (bytes <= remote->theirs_bytes && offset <= remote->theirs_bytes - bytes);
}

static struct gdev_datablock *create_pulled(
	struct gdev_channel *channel, const struct graph_answer *answer)
{
	const struct gdev_template *tmpl = channel->tmpl;
	struct gdev_datablock *block = NULL;

	if (!template_allows(tmpl, answer->bytes) ||
		block_create(
			channel->graph, channel->tmpl, answer->bytes / tmpl->shape.stride, &block))
		return NULL;
	block->slot = answer->id;
	block->offset = answer->offset;
	block->channel = channel;
	block->wrapped = true;
	block->pushed = true;
	return block;
}

static void on_pulled(struct gdev_graph *graph, const struct graph_answer *answer)
{
	struct remote *remote = graph->remote;
	struct gdev_channel *channel =
		answer->end < remote->end_count ? remote->ends[answer->end] : NULL;
	struct gdev_datablock *block = NULL;

	/* That of a channel which was closed meanwhile is dropped below. */
	if (channel && !channel->remote->pushes && answer->id >= GRAPH_IDS &&
		answer->id < array_length(remote->known) && !remote->known[answer->id] &&
		(channel->remote->wanted || channel->remote->closed) &&
		is_in_memory(remote, answer->offset, answer->bytes))
		block = create_pulled(channel, answer);
	if (!block) {
		remote_lose(graph, -GDEV_E_PROTOCOL);
		return;
	}
	remote->known[answer->id] = block;
	remote->held++;
	if (channel->remote->closed) {
		block_put(block);
		return;
	}
	channel->remote->wanted--;
	remote->wanted--;
	channel->queue[(channel->first + channel->count++) % channel->capacity] = block;
}

static void on_brought(struct gdev_graph *graph, const struct graph_answer *answer)
{
	struct remote *remote = graph->remote;
	struct gdev_datablock *block =
		answer->id < array_length(remote->known) ? remote->known[answer->id] : NULL;

	if (!block || answer->id < GRAPH_IDS || answer->status > 0 ||
		!is_in_memory(remote, answer->offset, block->bytes)) {
		remote_lose(graph, -GDEV_E_PROTOCOL);
		return;
	}
	block->offset = answer->offset;
	block->brought = answer->status;
	if (!answer->status && answer->offset == GRAPH_NOWHERE)
		remote_lose(graph, -GDEV_E_PROTOCOL);
}

static void on_answer(struct gdev_graph *graph, const struct graph_answer *answer)
{
	switch (answer->type) {
	case GRAPH_FREED:
		on_freed(graph, answer);
		break;
	case GRAPH_PULLED:
		on_pulled(graph, answer);
		break;
	case GRAPH_BROUGHT:
		on_brought(graph, answer);
		break;
	default:
		remote_lose(graph, -GDEV_E_PROTOCOL);
	}
}

/* Those that are over have nothing more to come than what was answered before: so they are looked at first. */
static void look_at_ends(struct remote *remote)
{
	for (unsigned i = 0; i < remote->end_count; i++)
		remote->ends[i]->remote->over |= __atomic_load_n(&remote->segment->ends[i].state,
							 __ATOMIC_ACQUIRE) == GRAPH_END_OVER;
}

/* With a bridge both its thread and the program wait for the owner, and only one of them has heard the bell. */
static void tell_others(struct gdev_graph *graph)
{
	if (!graph->remote->bridge)
		return;
	bridge_wake(graph->remote->bridge);
	if (graph->refused)
		graph_changed(graph);
}

bool remote_drain(struct gdev_graph *graph)
{
	struct remote *remote = graph->remote;
	struct graph_segment *segment = remote->segment;
	struct graph_answer answer;
	uint32_t tail, changes;
	bool some = false;

	changes = __atomic_load_n(&segment->changes, __ATOMIC_ACQUIRE);
	if (changes != remote->changes)
		tell_others(graph);
	remote->changes = changes;
	look_at_ends(remote);
	tail = __atomic_load_n(&segment->answers_tail, __ATOMIC_ACQUIRE);
	if (tail - remote->answers_head > GRAPH_ANSWERS)
		remote_lose(graph, -GDEV_E_PROTOCOL);
	while (!graph->error && tail != remote->answers_head) {
		memcpy(&answer, &segment->answers[remote->answers_head % GRAPH_ANSWERS],
			sizeof answer);
		__atomic_store_n(&segment->answers_head, ++remote->answers_head, __ATOMIC_RELEASE);
		on_answer(graph, &answer);
		some = true;
	}
	return some;
}

/* ---- requests ---- */

static bool has_room(const struct remote *remote)
{
	uint32_t head = __atomic_load_n(&remote->segment->requests_head, __ATOMIC_ACQUIRE);

	return remote->requests_tail - head < GRAPH_REQUESTS;
}

/* The owner looks, if it sleeps. */
static void ring(struct remote *remote)
{
	uint32_t asleep;

	__atomic_thread_fence(__ATOMIC_SEQ_CST);
	asleep = __atomic_load_n(&remote->segment->asleep, __ATOMIC_RELAXED);
	if (asleep == remote->woken_for)
		return;
	remote->woken_for = asleep;
	bell_ring(remote->bell);
}

static void put_request(struct remote *remote, struct graph_request request)
{
	struct graph_segment *segment = remote->segment;

	segment->requests[remote->requests_tail % GRAPH_REQUESTS] = request;
	__atomic_store_n(&segment->requests_tail, ++remote->requests_tail, __ATOMIC_RELEASE);
}

static void flush_due(struct remote *remote)
{
	bool some = remote->due_count && has_room(remote);

	while (remote->due_count && has_room(remote))
		put_request(remote, (struct graph_request){.type = GRAPH_DROP,
					    .id = remote->due[--remote->due_count]});
	if (some)
		ring(remote);
}

int remote_ask(struct gdev_graph *graph, struct graph_request request, uint64_t deadline_ns)
{
	struct remote *remote = graph->remote;
	int error = remote_error(graph);

	flush_due(remote);
	while (!error && (remote->due_count || !has_room(remote))) {
		error = remote_wait(graph, deadline_ns);
		flush_due(remote);
	}
	if (error)
		return error;
	put_request(remote, request);
	ring(remote);
	return 0;
}

/* ---- waiting ---- */

/* The bell rings when something changes from now on. False: something has, since the caller looked. */
static bool listen_to_owner(struct gdev_graph *graph)
{
	struct remote *remote = graph->remote;
	uint32_t changes = remote->changes;

	__atomic_store_n(&remote->segment->waiting, ++remote->waiting, __ATOMIC_RELAXED);
	__atomic_thread_fence(__ATOMIC_SEQ_CST);
	return !remote_drain(graph) && !remote_error(graph) && remote->changes == changes;
}

/* What the bell, and the socket, have to say. */
struct heard {
	bool rang, gone;
};

static struct heard poll_owner(struct remote *remote, uint64_t deadline_ns)
{
	struct pollfd owner[] = {{.fd = remote->bell, .events = POLLIN}, {.fd = remote->socket}};
	uint64_t now_ns = clock_now_ns(), left_ns = deadline_ns > now_ns ? deadline_ns - now_ns : 0;
	struct timespec left = {(time_t)(left_ns / NS_PER_S), (long)(left_ns % NS_PER_S)};

	if (ppoll(owner, array_length(owner), deadline_ns == GDEV_FOREVER ? NULL : &left, NULL) <=
		0)
		return (struct heard){false, false};
	return (struct heard){owner[0].revents, owner[1].revents};
}

static bool is_gone(const struct remote *remote)
{
	struct pollfd owner = {.fd = remote->socket};

	return poll(&owner, 1, 0) > 0;
}

int remote_listen(struct gdev_graph *graph)
{
	struct remote *remote = graph->remote;
	/* That of a thread that polls, and perhaps still sleeps, is left to it. */
	bool broken = !remote->polling && bell_heard(remote->bell) < 0;

	if (!listen_to_owner(graph))
		return remote_error(graph);
	if (broken || is_gone(remote))
		remote_lose(graph, -GDEV_E_SESSION_LOST);
	return graph->error ? graph->error : -EAGAIN;
}

/* The program's descriptor is readable when the bell has rung. */
static int refuse(struct gdev_graph *graph)
{
	eventfd_t count;

	eventfd_read(graph->descriptor, &count);
	graph->refused = true;
	return remote_listen(graph);
}

static int wait_for_thread(struct gdev_graph *graph, uint64_t deadline_ns)
{
	struct timespec until = {(time_t)(deadline_ns / NS_PER_S), (long)(deadline_ns % NS_PER_S)};

	if (deadline_ns == GDEV_FOREVER)
		pthread_cond_wait(&graph->changed, &graph->lock);
	else
		pthread_cond_timedwait(&graph->changed, &graph->lock, &until);
	return remote_error(graph);
}

int remote_wait(struct gdev_graph *graph, uint64_t deadline_ns)
{
	struct remote *remote = graph->remote;
	struct heard heard;

	if (remote_error(graph))
		return graph->error;
	if (!deadline_ns)
		return refuse(graph);
	if (deadline_ns != GDEV_FOREVER && clock_now_ns() >= deadline_ns)
		return -ETIMEDOUT;
	if (remote->polling)
		return wait_for_thread(graph, deadline_ns);
	if (listen_to_owner(graph)) {
		remote->polling = true;
		pthread_mutex_unlock(&graph->lock);
		heard = poll_owner(remote, deadline_ns);
		pthread_mutex_lock(&graph->lock);
		remote->polling = false;
		if (heard.rang && bell_heard(remote->bell) < 0)
			heard.gone = true;
		if (!remote_drain(graph) && !remote_error(graph) && heard.gone)
			remote_lose(graph, -GDEV_E_SESSION_LOST);
	}
	graph_changed(graph);
	return remote_error(graph);
}

/* ---- datablocks that the program lets go of ---- */

/* With the graph's lock, when the program has no reference any more. */
static void let_go(struct gdev_datablock *block)
{
	struct remote *remote = block->graph->remote;
	uint32_t id = block->slot;

	if (id >= GRAPH_IDS) {
		remote->known[id] = NULL;
		remote->held--;
	}
	if (remote->due_count < array_length(remote->due)) /* else the owner uses ids twice */
		remote->due[remote->due_count++] = (uint16_t)id;
}

void remote_put(struct gdev_datablock *block)
{
	struct gdev_graph *graph = block->graph;

	pthread_mutex_lock(&graph->lock);
	/* What was given is the owner's until it says FREED. */
	if (block->slot < GRAPH_IDS && block->refs == 2 && !block->dropped) {
		block->dropped = true;
		let_go(block);
	}
	block_put(block);
	if (!graph->closed && !graph->error)
		flush_due(graph->remote);
	graph_release(graph);
}

void remote_forget(struct gdev_datablock *block)
{
	struct remote *remote = block->graph->remote;

	if (block->slot != REMOTE_NO_SLOT && block->slot >= GRAPH_IDS)
		let_go(block);
	else if (block->slot == REMOTE_NO_SLOT && !block->channel && block->offset != GRAPH_NOWHERE)
		pool_give(&remote->pool, block->offset, block->bytes);
}

int remote_descriptor(const struct gdev_graph *graph)
{
	return graph->remote->poll;
}

/* ---- the end ---- */

void remote_close_socket(int socket)
{
	if (socket >= 0 && fd_holds_descriptors(socket) <= 0)
		close(socket);
}

void remote_close(struct gdev_graph *graph)
{
	struct remote *remote = graph->remote;
	struct gdev_channel *channel;

	bridge_stop(remote->bridge);
	pthread_mutex_lock(&graph->lock);
	if (!graph->error)
		graph->error = -ECANCELED;
	/* The owner takes what is in the ring first, so all that was pushed is there. It hears of the end at once, though
	 * others may have the socket, too: gdevd does until a process of its own has closed it. */
	shutdown(remote->socket, SHUT_RDWR);
	forks_forget(remote->socket);
	remote_close_socket(steal_fd(&remote->socket));
	list_for_each (channel, &graph->channels, link)
		channel_drop_all(channel);
	for (unsigned i = 0; i < GRAPH_IDS; i++)
		if (remote->known[i])
			block_put(steal_pointer(&remote->known[i]));
	graph->closed = true;
	graph_release(graph);
}

void remote_free(struct gdev_graph *graph)
{
	struct remote *remote = graph->remote;
	struct gdev_channel *channel, *next;

	if (!remote)
		return;
	list_for_each_safe (channel, next, &graph->channels, link) {
		free(channel->remote);
		channel_free(channel);
	}
	remote_forget_parts(graph);
	bridge_free(remote->bridge);
	forks_forget(remote->socket);
	remote_close_socket(remote->socket);
	remote_close_socket(remote->bell);
	if (remote->poll >= 0)
		close(remote->poll);
	if (remote->segment)
		munmap(remote->segment, sizeof *remote->segment);
	if (remote->ours)
		munmap(remote->ours, remote->ours_bytes);
	if (remote->theirs)
		munmap(remote->theirs, remote->theirs_bytes);
	pool_finish(&remote->pool);
	pthread_mutex_destroy(&remote->asking);
	free(remote);
}
