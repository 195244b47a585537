/* SPDX-License-Identifier: MIT
 *
 * Members of a named graph (proto/graph.h): the owner's side of their lives, of their sockets and of the memory that the two
 * share. What they ask by their rings is seen to in requests.c. A member that breaks a rule is left, and harms nobody else.
 */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>

#include "base/fd.h"
#include "lib/ptask/members.h"
#include "proto/control.h"

#define REQUESTS_A_TURN 64 /* of a member, then the others' turn */

/* ---- telling ---- */

static void ring(struct member *member)
{
	uint32_t waiting;

	member->changed = false;
	if (member->left || !member->joined)
		return;
	__atomic_thread_fence(__ATOMIC_SEQ_CST);
	waiting = __atomic_load_n(&member->segment->waiting, __ATOMIC_RELAXED);
	if (waiting == member->rung)
		return;
	member->rung = waiting;
	bell_ring(member->bell.fd);
}

void member_notify(struct member *member)
{
	if (member->left || !member->joined)
		return;
	__atomic_store_n(&member->segment->changes, ++member->changes, __ATOMIC_RELEASE);
	member->changed = true;
	member->untold = false;
	if (!member->graph->serving)
		ring(member);
}

void member_tell(struct member *member, bool soon)
{
	member->untold = true;
	if (soon || !member->graph->serving)
		member_notify(member);
}

void member_answer(struct member *member, struct graph_answer answer, bool soon)
{
	struct graph_segment *segment = member->segment;
	uint32_t head;

	if (member->left)
		return;
	head = __atomic_load_n(&segment->answers_head, __ATOMIC_ACQUIRE);
	if (member->answers_tail - head >= GRAPH_ANSWERS) {
		member_leave(member); /* it uses ids again before it has read the answers */
		return;
	}
	segment->answers[member->answers_tail % GRAPH_ANSWERS] = answer;
	__atomic_store_n(&segment->answers_tail, ++member->answers_tail, __ATOMIC_RELEASE);
	member_tell(member, soon);
}

void members_tell_error(struct gdev_graph *graph)
{
	struct publication *publication = graph->publication;
	int error = graph->error ? graph->error : graph->terminated ? -ECANCELED : 0;
	struct member *member;

	if (!error || publication->told)
		return;
	publication->told = true;
	list_for_each (member, &publication->members, link) {
		if (!member->joined || member->left)
			continue;
		memcpy(member->segment->why, graph->why, sizeof member->segment->why);
		__atomic_store_n(&member->segment->error, error, __ATOMIC_RELEASE);
		member_notify(member);
	}
}

/* ---- life ---- */

/* Those that have left, and of whose datablocks some are still here, count. */
static bool may_come(const struct publication *publication, uint32_t uid)
{
	const struct member *member;
	unsigned all = 0, same = 0;

	list_for_each (member, &publication->members, link) {
		all++;
		same += member->uid == uid;
	}
	return all < MEMBERS_MAX && (uid == publication->user || same < MEMBERS_A_STRANGER);
}

int member_create(struct gdev_graph *graph, int socket, uint32_t uid, int32_t pid, unsigned class)
{
	struct publication *publication = graph->publication;
	struct member *member = NULL;

	if (may_come(publication, uid) && class <= GRAPH_CLASS_OWNER)
		member = calloc(1, sizeof *member);
	if (!member) {
		close(socket); /* nobody has the other end */
		return -EUSERS;
	}
	member->graph = graph;
	member->uid = uid;
	member->pid = pid;
	member->proxy = whom_is(pid, 0).proxy;
	member->class = class;
	member->socket = (struct door){DOOR_SOCKET, socket, member};
	member->bell = (struct door){DOOR_BELL, -1, member};
	list_init(&member->pool.free);
	list_append(&publication->members, &member->link);
	if (door_open(publication, &member->socket))
		member_leave(member);
	return 0;
}

/* What the member knew, it lets go of. */
static void forget_all(struct member *member)
{
	for (unsigned i = 0; i < array_length(member->known); i++)
		if (member->known[i].block)
			block_put(steal_pointer(&member->known[i].block));
}

static void close_door(struct member *member, struct door *door)
{
	if (door->fd < 0)
		return;
	if (fd_holds_descriptors(door->fd) <= 0) {
		door_close(member->graph->publication, door);
		return;
	}
	member->stuck = true;
	door_leave(member->graph->publication, door);
}

void member_leave(struct member *member)
{
	if (member->left)
		return;
	member->left = true;
	close_door(member, &member->socket);
	close_door(member, &member->bell);
	forget_all(member);
	host_wake(member->graph); /* its ends close */
}

static void unmap(struct member *member)
{
	if (member->segment)
		munmap(member->segment, sizeof *member->segment);
	if (member->theirs)
		munmap(member->theirs, member->memory_bytes);
	if (member->ours)
		munmap(member->ours, member->memory_bytes);
	member->segment = NULL;
	member->theirs = member->ours = NULL;
}

void member_free(struct member *member)
{
	list_remove(&member->link);
	pool_finish(&member->pool);
	free(member->part.objects);
	for (unsigned i = 0; i < member->end_count; i++)
		free(member->ends[i].pending);
	unmap(member);
	free(member);
}

/* ---- joining ---- */

static int map_memory(const char *name, uint64_t bytes, void **memory)
{
	int fd = fd_shared_memory(name, bytes);
	void *got;

	if (fd < 0)
		return fd;
	got = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, fd, 0);
	if (got == MAP_FAILED) {
		int error = -errno;
		close(fd);
		return error;
	}
	madvise(got, bytes, MADV_DONTFORK);
	*memory = got;
	return fd;
}

/* The regions and the bell: descriptors for the member, in this order; `ours` can only be read. */
enum { JOIN_BELL = GRAPH_REGIONS, JOIN_FDS };

static int make_memory(struct member *member, int fds[JOIN_FDS])
{
	uint64_t bytes = member->memory_bytes = member->graph->publication->member_bytes;
	void *segment = NULL, *theirs = NULL, *ours = NULL;
	autoclose int written = -1;

	fds[GRAPH_REGION_SEGMENT] = map_memory("gdev-graph", sizeof *member->segment, &segment);
	if (fds[GRAPH_REGION_SEGMENT] < 0)
		return fds[GRAPH_REGION_SEGMENT];
	member->segment = segment;
	fds[GRAPH_REGION_MEMBER] = map_memory("gdev-graph-in", bytes, &theirs);
	if (fds[GRAPH_REGION_MEMBER] < 0)
		return fds[GRAPH_REGION_MEMBER];
	member->theirs = theirs;
	written = map_memory("gdev-graph-out", bytes, &ours);
	if (written < 0)
		return written;
	member->ours = ours;
	fds[GRAPH_REGION_OWNER] = fd_lend(written);
	if (fds[GRAPH_REGION_OWNER] < 0)
		return fds[GRAPH_REGION_OWNER];
	member->bell.fd = bell_create(&fds[JOIN_BELL]);
	return member->bell.fd < 0 ? member->bell.fd : pool_init(&member->pool, bytes);
}

static int join(struct member *member, struct graph_message *message, int fds[JOIN_FDS])
{
	int error;

	if (member->joined || message->version != GRAPH_VERSION)
		return -GDEV_E_PROTOCOL;
	error = make_memory(member, fds);
	if (error)
		return error;
	member->joined = true;
	for (uint32_t i = 0; i < GRAPH_REGIONS; i++)
		message->regions[i] = (struct graph_region){i, 0, 0,
			i == GRAPH_REGION_SEGMENT ? sizeof *member->segment : member->memory_bytes};
	member->graph->publication->told = false; /* it has not been */
	return door_open(member->graph->publication, &member->bell);
}

/* ---- the socket ---- */

static int respond(struct member *member, struct graph_message *message, size_t length,
	const int *fds, size_t count)
{
	return fd_send(member->socket.fd, message, length, fds, count);
}

static int show(struct member *member, struct graph_message *message)
{
	autofree struct graph_look *look = calloc(1, sizeof *look);

	if (!look)
		return -ENOMEM;
	look->message = *message;
	look->message.look.count = 0; /* of items that follow, whatever was asked */
	look->message.status = member->graph->mode >> member->class & 4 ? 0 : -EACCES;
	if (!look->message.status)
		look_at(member->graph, look);
	return respond(member, &look->message,
		offsetof(struct graph_look, items[look->message.look.count]), NULL, 0);
}

/* Something of its part; the words follow the message. */
static int build(struct member *member, const struct graph_message *message)
{
	autofree struct graph_built *built = calloc(1, sizeof *built);
	int error = member->joined ? 0 : -EPROTO;

	if (!built)
		return -ENOMEM;
	built->message = *message;
	if (!error)
		error = member_build(member, &built->message, built->text);
	return error ? error
		     : respond(member, &built->message,
			       offsetof(struct graph_built, text[built->message.build.text_bytes]),
			       NULL, 0);
}

static int hear(struct member *member, struct graph_message *message)
{
	int fds[JOIN_FDS], error;

	memset(fds, -1, sizeof fds);
	switch (message->type) {
	case GRAPH_JOIN:
		message->status = join(member, message, fds);
		error = respond(member, message, sizeof *message, fds,
			message->status ? 0 : (size_t)JOIN_FDS);
		for (unsigned i = 0; i < JOIN_FDS; i++)
			if (fds[i] >= 0)
				close(fds[i]);
		return message->status ? -EPROTO : error;
	case GRAPH_FIND:
		message->status = member->joined ? member_find_end(member, message) : -EPROTO;
		return respond(member, message, sizeof *message, NULL, 0);
	case GRAPH_BUILD:
		return build(member, message);
	}
	return message->type == GRAPH_LOOK ? show(member, message) : -EPROTO;
}

/* What it pushed before it died is there. */
static void member_lose(struct member *member)
{
	member_take_requests(member, GRAPH_REQUESTS);
	member_leave(member);
}

/* What it asks for is looked at anyway. */
void member_rang(struct member *member)
{
	if (bell_heard(member->bell.fd) < 0)
		member_lose(member);
}

void member_heard(struct member *member)
{
	struct graph_message message;
	bool descriptors = false;
	size_t none = 0;
	ssize_t length = fd_peek(member->socket.fd, &message, sizeof message, &descriptors);
	int error = 0;

	if (length == -EAGAIN)
		return;
	/* What a descriptor is, who closes it may wait for: one that comes is never received. */
	if (!descriptors)
		length = fd_receive(member->socket.fd, &message, sizeof message, NULL, &none);
	if (descriptors || length != (ssize_t)sizeof message)
		error = -EPROTO;
	if (!error)
		error = hear(member, &message);
	if (!error)
		return;
	member_lose(member);
}

/* ---- serving ---- */

/* What it asks for is done for it. */
static bool serve_member(struct member *member)
{
	int32_t before = gdev_submit_for(member->pid);
	bool some = member_take_requests(member, REQUESTS_A_TURN);

	some |= member_serve_ends(member);
	gdev_submit_for(before);
	return some;
}

static bool has_ends(const struct member *member)
{
	for (unsigned i = 0; i < member->end_count; i++)
		if (member->ends[i].channel)
			return true;
	return false;
}

bool members_serve(struct gdev_graph *graph)
{
	struct publication *publication = graph->publication;
	struct member *member, *next;
	bool some;

	if (!publication || graph->serving)
		return false;
	graph->serving = true;
	publication->turns++;
	some = doors_serve(graph);
	members_tell_error(graph);
	list_for_each (member, &publication->members, link)
		some |= serve_member(member);
	list_for_each_safe (member, next, &publication->members, link) {
		if (member->untold && publication->turns % TURNS_AWAKE == 0)
			member_notify(member);
		if (member->changed)
			ring(member);
		if (!member->left)
			continue;
		part_finish(member);
		if (has_ends(member))
			continue;
		part_leave(member);
		if (!member->busy && member->stuck)
			unmap(member);
		else if (!member->busy)
			member_free(member);
	}
	graph->serving = false;
	graph->members_turns += some;
	if (!list_empty(&graph->work))
		graph_flow(graph);
	return some;
}

/* ---- sleeping ---- */

void members_wake(struct gdev_graph *graph)
{
	if (graph->publication && !list_empty(&graph->publication->members))
		host_wake(graph);
}

bool members_sleep(struct gdev_graph *graph)
{
	struct member *member;
	bool quiet = true;

	/* Who serves looks again: its lock is not kept from it. */
	if (!graph->publication || graph->serving)
		return true;
	list_for_each (member, &graph->publication->members, link)
		if (!member_watch_ends(member))
			return false;
	list_for_each (member, &graph->publication->members, link) {
		if (member->untold)
			member_notify(member);
		if (member->joined && !member->left)
			__atomic_store_n(
				&member->segment->asleep, ++member->asleep, __ATOMIC_RELAXED);
	}
	__atomic_thread_fence(__ATOMIC_SEQ_CST);
	list_for_each (member, &graph->publication->members, link)
		quiet &= !member_has_requests(member);
	return quiet;
}
