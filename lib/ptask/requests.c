/* SPDX-License-Identifier: MIT
 *
 * What a member of a named graph asks by its ring (proto/graph.h): ends of channels, and the datablocks that it pushes and
 * pulls there. A request is copied out once and checked; a member that breaks a rule is left.
 *
 * Whoever pushes keeps the memory until the datablock is gone. A function's input is copied from there to the device. What
 * this process itself reads (callbacks, scalars, sizes, predicates) is copied first if the member is another user's: it
 * could change under the reader.
 */
#include <errno.h>
#include <string.h>

#include "lib/ptask/elsewhere.h"
#include "lib/ptask/members.h"

/* ---- ends of channels ---- */

static bool may(const struct member *member, const struct gdev_channel *channel, bool push)
{
	return channel->mode >> member->class & (push ? 2 : 4);
}

/* The nth channel at a port of a ptask that runs in the member's session. Whoever opened it there lets the member have it. */
static int find_at_port(
	const struct member *member, struct gdev_port *port, uint32_t nth, struct end *end)
{
	struct gdev_channel *channel;

	if (!port->ptask->elsewhere || port->ptask->ended)
		return -ENOENT;
	end->ptask = port->ptask;
	end->pushes = port->kind == GDEV_PORT_OUTPUT;
	end->sticky = port->kind == GDEV_PORT_STICKY;
	if (!end->pushes) {
		end->channel = nth ? NULL : port->channel;
	} else {
		list_for_each (channel, &port->channels, from_link)
			if (!nth--)
				end->channel = channel;
	}
	return end->channel ? 0 : -ENOENT;
}

/* By name, or one of its own part by its id. */
static int find_channel(
	const struct member *member, const struct graph_message *message, struct end *end)
{
	struct gdev_port *port = part_port(member, message->find.object);
	int error = 0;

	if (port)
		return find_at_port(member, port, message->find.nth, end);
	if (!message->find.object)
		error = channel_named(member->graph, message->find.name, &end->channel);
	else
		end->channel = part_channel(member, message->find.object);
	if (error)
		return error;
	if (!end->channel || (end->channel->from && end->channel->to))
		return -ENOENT;
	end->pushes = end->channel->to;
	return may(member, end->channel, end->pushes) ? 0 : -EACCES;
}

int member_find_end(struct member *member, struct graph_message *message)
{
	struct gdev_graph *graph = member->graph;
	struct end *end = &member->ends[member->end_count], found = {0};
	struct gdev_channel *channel;
	int error;

	message->find.name[sizeof message->find.name - 1] = '\0';
	if (!graph->running)
		return -EAGAIN;
	error = find_channel(member, message, &found);
	if (error)
		return error;
	channel = found.channel;
	if (member->end_count == GRAPH_ENDS_MAX)
		return -EMFILE;
	if (!channel->tmpl)
		return -EINVAL;
	found.pending = calloc(channel->capacity, sizeof(struct gdev_datablock *));
	if (!found.pending)
		return -ENOMEM;
	*end = found;
	list_init(&end->bare);
	end->pushes ? channel->pushers++ : channel->pullers++;
	if (end->ptask)
		elsewhere_open_end(end->ptask);
	message->find.end = member->end_count++;
	message->find.pushes = end->pushes;
	message->find.capacity = channel->capacity;
	message->find.layout = channel->tmpl->shape.layout;
	message->find.stride = channel->tmpl->shape.stride;
	memcpy(message->find.count, channel->tmpl->shape.count, sizeof message->find.count);
	message->find.bytes = channel->tmpl->bytes;
	return 0;
}

/* What it pushed before it died is as urgent as it was. */
static struct whom whom_now(struct member *member)
{
	struct whom whom = whom_is(member->pid, member->proxy);

	member->proxy = whom.proxy;
	return whom;
}

/* Whether it waits for a datablock may have changed. */
static void note_wait(struct member *member, struct end *end)
{
	/* A ptask that runs elsewhere is awaited by those behind it alone. */
	bool awaits =
		end->wanted && !end->ptask && !end->channel->count && !end->closed && !member->left;

	if (awaits == end->awaits)
		return;
	end->awaits = awaits;
	if (awaits)
		channel_await(end->channel, whom_now(member));
	else
		channel_await_no_more(end->channel);
}

/* As the end of a pipe: that of the last member. */
static void close_end(struct gdev_graph *graph, struct end *end)
{
	struct gdev_channel *channel = end->channel;

	end->channel = NULL;
	if (!end->pushes && !--channel->pullers && !channel->keep) {
		channel->broken = true;
		channel_drop_all(channel);
		if (channel->from)
			ptask_touch(channel->from->ptask);
	}
	if (end->pushes && !--channel->pushers && !channel->keep) {
		channel->ended = true;
		if (channel->to)
			ptask_touch(channel->to->ptask);
		else if (channel->feed)
			host_wake(graph);
	}
	if (end->ptask)
		elsewhere_close_end(end->ptask);
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
	member_answer(member,
		(struct graph_answer){.type = GRAPH_FREED, .id = (uint32_t)(known - member->known)},
		member->busy >= GRAPH_IDS / 2);
}

/* Another user's process may change it at any time, whoever pushes it on. */
static bool is_a_strangers(const struct gdev_datablock *block)
{
	const struct known *known = block->argument;

	return block->wrapped && block->release == on_freed &&
	       known->member->uid != block->graph->publication->user;
}

/* Whether this process itself may read what is pushed there, now or when a ptask has given it on. */
static bool is_read_here(const struct gdev_channel *channel)
{
	const struct gdev_port *to = channel->to;

	if (!to)
		return true; /* by the program, or for a descriptor */
	return to->ptask->callback || is_read_by_host(to) || to->changed_in_place;
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
	if (known->busy || known->block || !template_allows(tmpl, request->bytes) ||
		request->bytes > member->memory_bytes ||
		request->offset > member->memory_bytes - request->bytes ||
		request->bytes > member->memory_bytes - member->given)
		return -EPROTO;
	error = block_create(member->graph, tmpl, request->bytes / tmpl->shape.stride, &block);
	if (error)
		return error;
	known->member = member;
	known->block = block;
	known->busy = true;
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
	else
		list_remove(&known->link);
	known->offset = GRAPH_NOWHERE;
}

/* NULL: the member has no datablock of that id. */
static struct known *known_by(struct member *member, uint32_t id)
{
	struct known *known = id < array_length(member->known) ? &member->known[id] : NULL;

	return known && known->block && !known->landing ? known : NULL;
}

static int drop(struct member *member, uint32_t id)
{
	struct known *known = known_by(member, id);

	if (!known)
		return -EPROTO;
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
	if (error) {
		pool_give(&member->pool, offset, block->bytes);
	} else {
		list_remove(&known->link);
		known->offset = offset;
	}
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

static struct whom pushed_for(struct member *member, struct end *end)
{
	return end->ptask ? elsewhere_made(end->ptask, end->number++, whom_now(member))
			  : whom_now(member);
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
	known = known_by(member, request->id);
	if (!known || !template_fits(known->block->tmpl, end->channel->tmpl))
		return -EPROTO;
	if (is_a_strangers(known->block) && is_read_here(end->channel))
		error = make_private(known->block);
	if (error)
		return error;
	block_pushed_by(known->block, pushed_for(member, end));
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

	known = request->id < GRAPH_IDS ? NULL : known_by(member, request->id);
	if (!known)
		return -EPROTO;
	error = bring(member, known);
	member_answer(member,
		(struct graph_answer){.type = GRAPH_BROUGHT,
			.id = request->id,
			.status = error,
			.offset = known->offset},
		true);
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

bool member_has_requests(const struct member *member)
{
	return member->joined && !member->left &&
	       __atomic_load_n(&member->segment->requests_tail, __ATOMIC_ACQUIRE) !=
		       member->requests_head;
}

bool member_take_requests(struct member *member, unsigned most)
{
	struct graph_segment *segment = member->segment;
	struct graph_request request;
	unsigned count = 0;
	bool full = false;
	uint32_t tail;
	int error = 0;

	for (; count < most && member_has_requests(member) && !error; count++) {
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
		member_notify(member); /* it may wait for room */
	return count;
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

struct known *known_take(struct member *member, struct end *end, uint64_t offset)
{
	struct known *known = &member->known[free_id(member)];

	*known = (struct known){
		.member = member, .block = channel_take(end->channel), .offset = offset};
	if (offset == GRAPH_NOWHERE)
		list_append(&end->bare, &known->link);
	if (end->ptask && !end->sticky)
		elsewhere_took(end->ptask, end->number++, known->block->whom);
	member->held++;
	end->wanted--;
	member->wanted--;
	return known;
}

void known_tell(struct member *member, struct end *end, const struct known *known)
{
	member_answer(member,
		(struct graph_answer){.type = GRAPH_PULLED,
			.end = (uint32_t)(end - member->ends),
			.id = (uint32_t)(known - member->known),
			.offset = known->offset,
			.bytes = known->block->bytes},
		!end->wanted);
}

static bool may_give(const struct member *member, const struct end *end)
{
	const struct gdev_graph *graph = member->graph;

	return end->wanted && end->channel->count && !member->left && !graph->error &&
	       !graph->terminated;
}

/* Whether all that the member has of the end have contents. A later datablock gets none before: it would take the room that an
 * earlier one needs, and the member comes to it only after that one. Gives the lock up. */
static bool bring_earlier(struct member *member, struct end *end)
{
	while (!list_empty(&end->bare))
		if (bring(member, list_first(&end->bare, struct known, link)))
			return false;
	return true;
}

/* One datablock for the member, if there is one and it is complete, or will be; else we shall be told. */
static bool give_one(struct member *member, struct end *end)
{
	struct gdev_channel *channel = end->channel;
	struct gdev_graph *graph = member->graph;
	struct gdev_datablock *block;
	struct known *known;
	bool contents;

	if (!may_give(member, end))
		return false;
	contents = end->wants && bring_earlier(member, end);
	if (!may_give(member, end))
		return false;
	if (contents && landing_begin(member, end))
		return true;
	if (end->landing_count) /* they come in their order */
		return false;
	block = channel->queue[channel->first];
	end->late = !block_complete(block);
	if (end->late)
		return false;
	if (lanes_error(graph))
		return false;
	known = known_take(member, end, GRAPH_NOWHERE);
	if (contents)
		bring(member, known); /* else the member asks, and hears why not */
	if (!member->left)
		known_tell(member, end, known);
	return true;
}

/* What the member sees of its end. */
static void show_end(struct member *member, struct end *end, uint32_t before)
{
	const struct gdev_channel *channel = end->channel;
	struct graph_end *shown = &member->segment->ends[end - member->ends];
	bool empty = !channel->count && !end->landing_count;
	uint32_t state = channel->ended && (end->pushes || empty) ? GRAPH_END_OVER : GRAPH_END_OPEN;

	if (end->pushes && channel->broken)
		state = GRAPH_END_OVER;
	if (member->left || (end->taken == before && end->state == state))
		return;
	__atomic_store_n(&shown->taken, end->taken, __ATOMIC_RELEASE);
	__atomic_store_n(&shown->state, state, __ATOMIC_RELEASE);
	/* A member that waits for room is told when there is some for several, or nothing more happens for now. */
	member_tell(member, end->count <= channel->capacity / 2 || end->state != state);
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
	some |= landings_serve(member, end);
	end->late = false;
	while (!end->pushes && give_one(member, end)) {
		some = true;
		if (end->channel->pullers > 1)
			break; /* the others' turn */
	}
	note_wait(member, end);
	show_end(member, end, taken);
	if ((end->closed || member->left) && !end->count && !end->landing_count) {
		close_end(member->graph, end);
		some = true;
	}
	return some;
}

bool member_watch_ends(struct member *member)
{
	for (unsigned i = 0; i < member->end_count; i++) {
		struct end *end = &member->ends[i];
		struct gdev_datablock *block;

		if (!end->late || !end->channel || !end->channel->count)
			continue;
		block = end->channel->queue[end->channel->first];
		if (block_complete(block))
			return false;
		host_notice(member->graph, block_written(block), false);
		if (member->graph->error)
			return false; /* members are to hear of it */
	}
	return true;
}

bool member_serve_ends(struct member *member)
{
	bool some = false;

	for (unsigned i = 0; i < member->end_count; i++)
		some |= serve_end(member, &member->ends[i]);
	return some;
}
