/* SPDX-License-Identifier: MIT
 *
 * Members of a named graph, and what they ask (proto/graph.h): the owner's side of the memory that the two share. A request
 * is copied out once and checked; a member that breaks a rule is left, and harms nobody else.
 *
 * Whoever pushes keeps the memory until the datablock is gone. A function's input is copied from there to the device. What
 * this process itself reads (callbacks, scalars, sizes, predicates) is copied first if the member is another user's: it
 * could change under the reader.
 */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/eventfd.h>
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
	eventfd_write(member->bell, 1);
}

/* The member looks again, if it waits: at the end of a turn, so that it wakes up once for all that the turn has changed. */
static void notify(struct member *member)
{
	if (member->left || !member->joined)
		return;
	__atomic_store_n(&member->segment->changes, ++member->changes, __ATOMIC_RELEASE);
	member->changed = true;
	member->untold = false;
	if (!member->graph->serving)
		ring(member);
}

static void answer(struct member *member, struct graph_answer answer)
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
	notify(member);
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
		notify(member);
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

void member_create(struct gdev_graph *graph, int socket, uint32_t uid, int32_t pid, unsigned class)
{
	struct publication *publication = graph->publication;
	struct member *member = NULL;

	if (may_come(publication, uid) && class <= GRAPH_CLASS_OWNER)
		member = calloc(1, sizeof *member);
	if (!member) {
		close(socket); /* it hears of that */
		return;
	}
	member->graph = graph;
	member->uid = uid;
	member->pid = pid;
	member->class = class;
	member->socket = (struct door){DOOR_SOCKET, socket, member};
	member->wake = (struct door){DOOR_WAKE, -1, member};
	member->bell = -1;
	list_init(&member->pool.free);
	list_append(&publication->members, &member->link);
	if (door_open(publication, &member->socket))
		member_leave(member);
}

/* What the member knew, it lets go of. */
static void forget_all(struct member *member)
{
	for (unsigned i = 0; i < array_length(member->known); i++)
		if (member->known[i].block)
			block_put(steal_pointer(&member->known[i].block));
}

void member_leave(struct member *member)
{
	if (member->left)
		return;
	member->left = true;
	member->stuck = fd_holds_descriptors(member->socket.fd) > 0;
	if (member->stuck)
		door_leave(member->graph->publication, &member->socket);
	else
		door_close(member->graph->publication, &member->socket);
	door_close(member->graph->publication, &member->wake);
	if (member->bell >= 0)
		close(steal_fd(&member->bell));
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

/* The regions and the two eventfds: descriptors for the member, in this order; `ours` can only be read. */
enum { JOIN_WAKE = GRAPH_REGIONS, JOIN_BELL, JOIN_FDS };

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
	fds[JOIN_WAKE] = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	fds[JOIN_BELL] = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	return fds[JOIN_WAKE] < 0 || fds[JOIN_BELL] < 0 ? -errno : pool_init(&member->pool, bytes);
}

static int join(struct member *member, struct graph_message *message, int fds[JOIN_FDS])
{
	int error;

	if (member->joined || message->version != GRAPH_VERSION)
		return -GDEV_E_PROTOCOL;
	error = make_memory(member, fds);
	if (error)
		return error;
	/* The member may spoil its copies of these as it likes. */
	member->wake.fd = fcntl(fds[JOIN_WAKE], F_DUPFD_CLOEXEC, 0);
	member->bell = fcntl(fds[JOIN_BELL], F_DUPFD_CLOEXEC, 0);
	if (member->wake.fd < 0 || member->bell < 0)
		return -errno;
	member->joined = true;
	for (uint32_t i = 0; i < GRAPH_REGIONS; i++)
		message->regions[i] = (struct graph_region){i, 0, 0,
			i == GRAPH_REGION_SEGMENT ? sizeof *member->segment : member->memory_bytes};
	member->graph->publication->told = false; /* it has not been */
	return door_open(member->graph->publication, &member->wake);
}

/* ---- ends of channels ---- */

static bool may(const struct member *member, const struct gdev_channel *channel, bool push)
{
	return channel->mode >> member->class & (push ? 2 : 4);
}

static int find_end(struct member *member, struct graph_message *message)
{
	struct gdev_graph *graph = member->graph;
	struct gdev_channel *channel;
	struct end *end = &member->ends[member->end_count];
	int error;

	message->find.name[sizeof message->find.name - 1] = '\0';
	if (!graph->running)
		return -EAGAIN;
	error = channel_named(graph, message->find.name, &channel);
	if (error)
		return error;
	if (!may(member, channel, channel->to))
		return -EACCES;
	if (member->end_count == GRAPH_ENDS_MAX)
		return -EMFILE;
	if (!channel->tmpl)
		return -EINVAL;
	*end = (struct end){.channel = channel, .pushes = channel->to};
	end->pending = calloc(channel->capacity, sizeof(struct gdev_datablock *));
	if (!end->pending)
		return -ENOMEM;
	channel->to ? channel->pushers++ : channel->pullers++;
	message->find.end = member->end_count++;
	message->find.pushes = end->pushes;
	message->find.capacity = channel->capacity;
	message->find.layout = channel->tmpl->shape.layout;
	message->find.stride = channel->tmpl->shape.stride;
	memcpy(message->find.count, channel->tmpl->shape.count, sizeof message->find.count);
	message->find.bytes = channel->tmpl->bytes;
	return 0;
}

/* As the end of a pipe: that of the last member. */
static void close_end(struct gdev_graph *graph, struct end *end)
{
	struct gdev_channel *channel = end->channel;

	end->channel = NULL;
	if (!end->pushes && !--channel->pullers && !channel->keep) {
		channel->broken = true;
		channel_drop_all(channel);
		ptask_touch(channel->from->ptask);
	}
	if (end->pushes && !--channel->pushers && !channel->keep) {
		channel->ended = true;
		ptask_touch(channel->to->ptask);
	}
	graph_changed(graph);
}

static void drop_pending(struct end *end)
{
	for (; end->count; end->count--)
		block_put(end->pending[end->first++ % end->channel->capacity]);
}

void member_drop_pending(struct member *member)
{
	for (unsigned i = 0; i < member->end_count; i++)
		if (member->ends[i].channel)
			drop_pending(&member->ends[i]);
}

/* ---- datablocks ---- */

/* The last one who had it is gone. */
static void on_freed(void *argument)
{
	struct known *known = argument;
	struct member *member = known->member;

	known->busy = false;
	member->busy--;
	member->given -= known->bytes;
	answer(member, (struct graph_answer){
			       .type = GRAPH_FREED, .id = (uint32_t)(known - member->known)});
}

/* Whether this process itself may read what is pushed there, now or when a ptask has given it on. */
static bool is_read_here(const struct gdev_channel *channel)
{
	return channel->to->ptask->callback || is_read_by_host(channel->to) ||
	       channel->to->changed_in_place;
}

/* The contents are in memory of this process's own from now on. */
static int make_private(struct gdev_datablock *block)
{
	void *memory = malloc(max_of(block->bytes, (uint64_t)1));

	if (!memory)
		return -ENOMEM;
	memcpy(memory, block->host, block->bytes);
	block->host = memory;
	block->wrapped = false;
	return 0;
}

static bool has_bytes(const struct gdev_template *tmpl, uint64_t bytes)
{
	return tmpl->shape.layout == GDEV_LAYOUT_FIXED
		       ? bytes == tmpl->bytes
		       : bytes <= tmpl->bytes && bytes % tmpl->shape.stride == 0;
}

/* A datablock in the member's memory. */
static int take_given(
	struct member *member, struct gdev_channel *channel, const struct graph_request *request)
{
	struct gdev_template *tmpl = channel->tmpl;
	struct gdev_datablock *block;
	struct known *known;
	int error;

	if (request->id >= GRAPH_IDS)
		return -EPROTO;
	known = &member->known[request->id];
	if (known->busy || known->block || !has_bytes(tmpl, request->bytes) ||
		request->bytes > member->memory_bytes ||
		request->offset > member->memory_bytes - request->bytes ||
		request->bytes > member->memory_bytes - member->given)
		return -EPROTO;
	error = block_create(member->graph, tmpl, request->bytes / tmpl->shape.stride, &block);
	if (error)
		return error;
	known->member = member;
	known->block = block;
	known->busy = block->pushed = true;
	known->bytes = block->bytes;
	member->busy++;
	member->given += block->bytes;
	block->release = on_freed;
	block->argument = known;
	block->host = member->theirs + request->offset;
	block->wrapped = block->host_current = true;
	return 0;
}

/* The copy of it in the memory that the member reads is not needed any more. */
static void drop_copy(struct member *member, struct known *known)
{
	if (known->offset != GRAPH_NOWHERE)
		pool_give(&member->pool, known->offset, known->block->bytes);
	known->offset = GRAPH_NOWHERE;
}

static int drop(struct member *member, uint32_t id)
{
	struct known *known;

	if (id >= array_length(member->known) || !member->known[id].block)
		return -EPROTO;
	known = &member->known[id];
	if (id >= GRAPH_IDS) {
		drop_copy(member, known);
		member->held--;
	}
	block_put(steal_pointer(&known->block));
	return 0;
}

/* Gives the lock up: when it returns the member may have been left, and known->block be gone. */
static int bring(struct member *member, struct known *known)
{
	struct gdev_datablock *block = known->block;
	uint64_t offset;
	int error;

	if (known->offset != GRAPH_NOWHERE)
		return 0;
	if (pool_take(&member->pool, block->bytes, &offset))
		return -ENOMEM;
	gdev_datablock_ref(block);
	graph_leave(member->graph);
	error = block->bytes ? gdev_datablock_read(block, 0, member->ours + offset, block->bytes)
			     : 0;
	pthread_mutex_lock(&member->graph->lock);
	if (!error && member->left)
		error = -ECANCELED;
	if (error)
		pool_give(&member->pool, offset, block->bytes);
	else
		known->offset = offset;
	block_put(block);
	return error;
}

/* ---- requests ---- */

static struct end *end_of(struct member *member, const struct graph_request *request, bool pushes)
{
	struct end *end;

	if (request->end >= member->end_count)
		return NULL;
	end = &member->ends[request->end];
	return !end->closed && end->pushes == pushes ? end : NULL;
}

static int on_push(struct member *member, const struct graph_request *request)
{
	struct end *end = end_of(member, request, true);
	struct known *known;
	int error = 0;

	if (!end || request->id >= array_length(member->known) ||
		end->count == end->channel->capacity)
		return -EPROTO;
	if (request->flags & GRAPH_GIVES)
		error = take_given(member, end->channel, request);
	if (error)
		return error;
	known = &member->known[request->id];
	if (!known->block || !template_fits(known->block->tmpl, end->channel->tmpl))
		return -EPROTO;
	if (known->block->wrapped && request->id < GRAPH_IDS &&
		member->uid != member->graph->publication->user && is_read_here(end->channel))
		error = make_private(known->block);
	if (error)
		return error;
	gdev_datablock_ref(known->block);
	end->pending[(end->first + end->count++) % end->channel->capacity] = known->block;
	return request->flags & GRAPH_DROPS ? drop(member, request->id) : 0;
}

static int on_pull(struct member *member, const struct graph_request *request)
{
	struct end *end = end_of(member, request, false);

	if (!end || member->wanted + member->held >= GRAPH_IDS)
		return -EPROTO;
	end->wanted++;
	member->wanted++;
	end->wants = request->flags & GRAPH_WANTS;
	return 0;
}

static int on_bring(struct member *member, const struct graph_request *request)
{
	struct known *known;
	int error;

	if (request->id < GRAPH_IDS || request->id >= array_length(member->known))
		return -EPROTO;
	known = &member->known[request->id];
	if (!known->block)
		return -EPROTO;
	error = bring(member, known);
	answer(member, (struct graph_answer){.type = GRAPH_BROUGHT,
			       .id = request->id,
			       .status = error,
			       .offset = known->offset});
	return 0;
}

static int on_end(struct member *member, const struct graph_request *request)
{
	struct end *end = request->end < member->end_count ? &member->ends[request->end] : NULL;

	if (!end || end->closed)
		return -EPROTO;
	end->closed = true;
	member->wanted -= end->wanted;
	end->wanted = 0;
	return 0;
}

static int take(struct member *member, const struct graph_request *request)
{
	switch (request->type) {
	case GRAPH_PUSH:
		return on_push(member, request);
	case GRAPH_DROP:
		return drop(member, request->id);
	case GRAPH_PULL:
		return on_pull(member, request);
	case GRAPH_BRING:
		return on_bring(member, request);
	case GRAPH_END:
		return on_end(member, request);
	}
	return -EPROTO;
}

static bool has_requests(const struct member *member)
{
	return member->joined && !member->left &&
	       __atomic_load_n(&member->segment->requests_tail, __ATOMIC_ACQUIRE) !=
		       member->requests_head;
}

/* Up to so many. */
static bool take_requests(struct member *member, unsigned most)
{
	struct graph_segment *segment = member->segment;
	struct graph_request request;
	unsigned count = 0;
	bool full = false;
	uint32_t tail;
	int error = 0;

	for (; count < most && has_requests(member) && !error; count++) {
		tail = __atomic_load_n(&segment->requests_tail, __ATOMIC_ACQUIRE);
		if (tail - member->requests_head > GRAPH_REQUESTS) {
			error = -EPROTO;
			break;
		}
		full |= tail - member->requests_head >= GRAPH_REQUESTS / 2;
		memcpy(&request, &segment->requests[member->requests_head % GRAPH_REQUESTS],
			sizeof request);
		__atomic_store_n(
			&segment->requests_head, ++member->requests_head, __ATOMIC_RELEASE);
		error = take(member, &request);
	}
	if (error)
		member_leave(member);
	else if (full)
		notify(member); /* it may wait for room */
	return count;
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
		message->status = member->joined ? find_end(member, message) : -EPROTO;
		return respond(member, message, sizeof *message, NULL, 0);
	}
	return message->type == GRAPH_LOOK ? show(member, message) : -EPROTO;
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
	/* What it pushed before it died is there. */
	take_requests(member, GRAPH_REQUESTS);
	member_leave(member);
}

/* ---- flow ---- */

static bool has_room(const struct gdev_channel *channel)
{
	return channel->count < channel->capacity;
}

/* What is pending goes into the channel. */
static bool put_pending(struct end *end)
{
	struct gdev_channel *channel = end->channel;
	bool some = false;

	while (end->count && (channel->broken || channel->ended || has_room(channel))) {
		struct gdev_datablock *block = end->pending[end->first];
		end->first = (end->first + 1) % channel->capacity;
		end->count--;
		end->taken++;
		if (!channel->ended)
			channel_put(channel, block);
		block_put(block);
		some = true;
	}
	return some;
}

static uint32_t free_id(const struct member *member)
{
	uint32_t id = GRAPH_IDS;

	while (member->known[id].block)
		id++;
	return id;
}

/* One datablock for the member, if there is one and it is complete; else we shall be told. */
static bool give_one(struct member *member, struct end *end)
{
	struct gdev_channel *channel = end->channel;
	struct gdev_graph *graph = member->graph;
	struct gdev_datablock *block;
	struct known *known;
	uint32_t id;

	if (!end->wanted || !channel->count || graph->error || graph->terminated)
		return false;
	block = channel->queue[channel->first];
	if (!block_complete(block)) {
		host_notice(graph, block_written(block), false);
		return false;
	}
	if (lanes_error(graph))
		return false;
	id = free_id(member);
	known = &member->known[id];
	*known = (struct known){
		.member = member, .block = channel_take(channel), .offset = GRAPH_NOWHERE};
	member->held++;
	end->wanted--;
	member->wanted--;
	if (end->wants)
		bring(member, known); /* else the member asks, and hears why not */
	if (member->left)
		return true;
	answer(member, (struct graph_answer){.type = GRAPH_PULLED,
			       .end = (uint32_t)(end - member->ends),
			       .id = id,
			       .offset = known->offset,
			       .bytes = known->block->bytes});
	return true;
}

/* What the member sees of its end. */
static void show_end(struct member *member, struct end *end, uint32_t before)
{
	const struct gdev_channel *channel = end->channel;
	struct graph_end *shown = &member->segment->ends[end - member->ends];
	uint32_t state = channel->ended && (end->pushes || !channel->count) ? GRAPH_END_OVER
									    : GRAPH_END_OPEN;

	if (end->pushes && channel->broken)
		state = GRAPH_END_OVER;
	if (member->left || (end->taken == before && end->state == state))
		return;
	__atomic_store_n(&shown->taken, end->taken, __ATOMIC_RELEASE);
	__atomic_store_n(&shown->state, state, __ATOMIC_RELEASE);
	/* A member that waits for room is told when there is some for several, or nothing more happens for now. */
	if (end->count <= channel->capacity / 2 || end->state != state)
		notify(member);
	else
		member->untold = true;
	end->state = state;
}

static bool serve_end(struct member *member, struct end *end)
{
	uint32_t taken = end->taken;
	bool some = false;

	if (!end->channel)
		return false;
	if (member->graph->error || member->graph->terminated)
		drop_pending(end);
	if (end->pushes)
		some = put_pending(end);
	while (!end->pushes && !member->left && give_one(member, end)) {
		some = true;
		if (end->channel->pullers > 1)
			break; /* the others' turn */
	}
	show_end(member, end, taken);
	if ((end->closed || member->left) && !end->count) {
		close_end(member->graph, end);
		some = true;
	}
	return some;
}

static bool serve_member(struct member *member)
{
	bool some = take_requests(member, REQUESTS_A_TURN);

	for (unsigned i = 0; i < member->end_count; i++)
		some |= serve_end(member, &member->ends[i]);
	return some;
}

static bool is_gone(const struct member *member)
{
	if (!member->left || member->busy)
		return false;
	for (unsigned i = 0; i < member->end_count; i++)
		if (member->ends[i].channel)
			return false;
	return true;
}

bool members_serve(struct gdev_graph *graph)
{
	struct publication *publication = graph->publication;
	struct member *member, *next;
	bool some;

	if (!publication || graph->serving)
		return false;
	graph->serving = true;
	some = doors_serve(graph);
	members_tell_error(graph);
	list_for_each (member, &publication->members, link)
		some |= serve_member(member);
	list_for_each_safe (member, next, &publication->members, link) {
		if (member->changed)
			ring(member);
		if (is_gone(member) && member->stuck)
			unmap(member);
		else if (is_gone(member))
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

	if (!graph->publication)
		return true;
	list_for_each (member, &graph->publication->members, link) {
		if (member->untold)
			notify(member);
		if (member->joined && !member->left)
			__atomic_store_n(
				&member->segment->asleep, ++member->asleep, __ATOMIC_RELAXED);
	}
	__atomic_thread_fence(__ATOMIC_SEQ_CST);
	list_for_each (member, &graph->publication->members, link)
		quiet &= !has_requests(member);
	return quiet;
}
