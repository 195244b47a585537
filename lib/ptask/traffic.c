/* SPDX-License-Identifier: MIT
 *
 * Pushing into, and pulling from, the channels of a graph that another process owns. A push is one request, without an
 * answer: `taken` says how many have come into the channel, and a process has as many on their way as the channel holds.
 * A pull is answered by a datablock; contents are asked for when the program looks at them, and from then on with each pull.
 */
#include <errno.h>
#include <string.h>

#include "base/clock.h"
#include "lib/ptask/remote.h"

static int enter(struct gdev_graph *graph)
{
	int error;

	if (!graph_is_ours(graph))
		return -GDEV_E_SESSION_LOST;
	pthread_mutex_lock(&graph->lock);
	error = remote_error(graph);
	if (error)
		pthread_mutex_unlock(&graph->lock);
	return error;
}

/* ---- datablocks ---- */

int remote_create(struct gdev_graph *graph, struct gdev_template *tmpl, uint64_t records,
	struct gdev_datablock **created)
{
	struct remote *remote = graph->remote;
	struct gdev_datablock *block;
	int error = enter(graph);

	if (error)
		return error;
	remote_drain(graph); /* what was freed */
	error = block_create(graph, tmpl, records, &block);
	if (error) {
		graph_leave(graph);
		return error;
	}
	block->slot = REMOTE_NO_SLOT;
	block->wrapped = block->host_current = true;
	error = pool_take(&remote->pool, block->bytes, &block->offset);
	if (error) {
		block->offset = GRAPH_NOWHERE;
		block_put(block);
	} else {
		block->host = remote->ours + block->offset;
		*created = block;
	}
	graph_leave(graph);
	return error;
}

/* The owner brings the contents. When it has not in time, the next call waits on; and when it could not be asked in time,
 * another thread that waits asks. */
static int bring(struct gdev_datablock *block, uint64_t deadline_ns)
{
	struct gdev_graph *graph = block->graph;
	struct graph_request request = {.type = GRAPH_BRING, .id = block->slot};
	int error = 0;

	if (block->channel)
		block->channel->remote->wants = true;
	if (block->brought < 0)
		block->brought = 0;
	while (!error && block->offset == GRAPH_NOWHERE && block->brought >= 0) {
		if (block->brought) {
			error = remote_wait(graph, deadline_ns);
			continue;
		}
		block->brought = 1;
		error = remote_ask(graph, request, deadline_ns);
		if (error)
			block->brought = 0;
	}
	return error || block->offset != GRAPH_NOWHERE ? error : block->brought;
}

int remote_map(struct gdev_datablock *block, bool write, void **data)
{
	struct gdev_graph *graph = block->graph;
	int error;

	if (write && block->pushed)
		return -EPERM;
	error = enter(graph);
	if (error)
		return error;
	if (!block->host_current) {
		error = bring(block, remote_answer_by(graph->remote, GDEV_FOREVER));
		if (!error) {
			block->host = graph->remote->theirs + block->offset;
			block->host_current = true;
		}
	}
	*data = error ? *data : block->host;
	graph_leave(graph);
	return error;
}

/* ---- push ---- */

static bool has_room(const struct gdev_channel *channel)
{
	const struct graph_segment *segment = channel->graph->remote->segment;
	uint32_t taken =
		__atomic_load_n(&segment->ends[channel->remote->index].taken, __ATOMIC_ACQUIRE);

	return channel->remote->pushed - taken < channel->remote->window;
}

/* -ENODEV: none is free. */
static int find_slot(const struct remote *remote, uint32_t *slot)
{
	for (*slot = 0; *slot < GRAPH_IDS; ++*slot)
		if (!remote->known[*slot])
			return 0;
	return -ENODEV;
}

static int wait_to_push(struct gdev_channel *channel, const struct gdev_datablock *block,
	uint64_t deadline_ns, uint32_t *slot)
{
	struct gdev_graph *graph = channel->graph;
	struct remote_end *end = channel->remote;
	int error = 0;

	remote_drain(graph);
	while (!error && !end->over && !end->closed) {
		*slot = block->slot;
		if (has_room(channel) &&
			(*slot != REMOTE_NO_SLOT || !find_slot(graph->remote, slot)))
			return remote_error(graph);
		error = remote_wait(graph, deadline_ns);
	}
	return error ? error : -EPIPE;
}

static int push(struct gdev_channel *channel, struct gdev_datablock *block, uint64_t deadline_ns)
{
	struct gdev_graph *graph = channel->graph;
	struct remote *remote = graph->remote;
	struct graph_request request = {.type = GRAPH_PUSH, .end = channel->remote->index};
	int error = wait_to_push(channel, block, deadline_ns, &request.id);

	if (error)
		return error;
	if (block->slot == REMOTE_NO_SLOT) {
		request.flags = GRAPH_GIVES;
		request.offset = block->offset;
		request.bytes = block->bytes;
	}
	error = remote_ask(graph, request, deadline_ns);
	if (error)
		return error;
	if (block->slot == REMOTE_NO_SLOT) {
		block->slot = request.id;
		remote->known[request.id] = block;
		gdev_datablock_ref(block); /* until FREED */
	}
	block->pushed = true;
	channel->remote->pushed++;
	return 0;
}

int remote_push(struct gdev_channel *channel, struct gdev_datablock *block, uint64_t deadline_ns)
{
	struct gdev_graph *graph = channel->graph;
	int error = enter(graph);

	if (error)
		return error;
	error = remote_open_end(channel, deadline_ns);
	if (error) {
		graph_leave(graph);
		return error;
	}
	if (!channel->remote->pushes || block->graph != graph)
		error = graph_complain(graph, -EINVAL, "push into %s: %s", channel->name,
			channel->remote->pushes ? "the datablock is another graph's"
						: "a ptask fills it");
	else if (!template_fits(block->tmpl, channel->tmpl))
		error = graph_complain(graph, -EPROTOTYPE,
			"push into %s: a datablock of another template", channel->name);
	if (!error)
		error = push(channel, block, deadline_ns);
	graph_leave(graph);
	return error;
}

/* ---- pull ---- */

/* Each end may ask for one; what is asked ahead leaves an id for every other one's. */
static bool may_ask(const struct gdev_channel *channel)
{
	const struct remote *remote = channel->graph->remote;
	bool first = !channel->remote->wanted && !channel->count;

	return remote->held + remote->wanted < (first ? GRAPH_IDS : GRAPH_IDS - GRAPH_ENDS_MAX);
}

static int ask_for_more(struct gdev_channel *channel, uint64_t deadline_ns)
{
	struct remote_end *end = channel->remote;
	struct remote *remote = channel->graph->remote;
	struct graph_request request = {
		.type = GRAPH_PULL, .flags = end->wants ? GRAPH_WANTS : 0, .end = end->index};
	unsigned ahead = end->pulled ? end->ahead : 1;
	int error = 0;

	if (end->wanted + channel->count > ahead / 2) /* several at once */
		return 0;

	while (!error && !end->over && end->wanted + channel->count < ahead && may_ask(channel)) {
		error = remote_ask(channel->graph, request, deadline_ns);
		end->wanted += !error;
		remote->wanted += !error;
	}
	/* The program has them all. */
	return !error && !end->over && !end->wanted && !channel->count ? -ENOBUFS : error;
}

/* A datablock is there, if there is no error. */
static int wait_for_block(struct gdev_channel *channel, uint64_t deadline_ns)
{
	struct gdev_graph *graph = channel->graph;
	struct remote_end *end = channel->remote;
	int error;

	for (;;) {
		remote_drain(graph);
		error = remote_error(graph);
		if (!error && !end->closed)
			error = ask_for_more(channel, deadline_ns);
		if (error || channel->count)
			return error;
		if (end->over || end->closed)
			return -ENODATA;
		error = remote_wait(graph, deadline_ns);
		if (error)
			return error;
	}
}

/* It stays in the channel meanwhile, so that it is not lost if the contents do not come in time. *ours: no other thread has
 * taken it. */
static int bring_first(struct gdev_channel *channel, uint64_t deadline_ns, bool *ours)
{
	struct gdev_datablock *block = channel->queue[channel->first];
	uint64_t until_ns = deadline_ns;
	int error;

	if (deadline_ns)
		until_ns = remote_answer_by(channel->graph->remote, deadline_ns);
	gdev_datablock_ref(block);
	error = bring(block, until_ns);
	*ours = channel->count && channel->queue[channel->first] == block;
	block_put(block);
	return error;
}

/* `bytes`: with its contents. */
static int pull(struct gdev_channel *channel, bool bytes, uint64_t deadline_ns,
	struct gdev_datablock **pulled)
{
	bool ours;
	int error;

	do {
		ours = true;
		error = wait_for_block(channel, deadline_ns);
		if (!error && bytes)
			error = bring_first(channel, deadline_ns, &ours);
	} while (!error && !ours);
	if (error)
		return error;
	*pulled = channel_take(channel);
	channel->remote->pulled = true;
	return ask_for_more(channel, AT_ONCE) == -GDEV_E_PROTOCOL ? -GDEV_E_PROTOCOL : 0;
}

int remote_pull(struct gdev_channel *channel, bool bytes, uint64_t deadline_ns,
	struct gdev_datablock **block)
{
	struct gdev_graph *graph = channel->graph;
	int error = enter(graph);

	if (error)
		return error;
	error = remote_open_end(channel, deadline_ns);
	if (error) {
		graph_leave(graph);
		return error;
	}
	channel->remote->wants |= bytes;
	if (channel->remote->pushes)
		error = graph_complain(
			graph, -EINVAL, "pull from %s: a ptask empties it", channel->name);
	else
		error = pull(channel, bytes, deadline_ns, block);
	graph_leave(graph);
	return error;
}

int remote_end(struct gdev_channel *channel)
{
	struct gdev_graph *graph = channel->graph;
	struct graph_request request = {.type = GRAPH_END};
	struct remote_end *end;
	int error = enter(graph);

	if (error)
		return error;
	error = remote_open_end(channel, GDEV_FOREVER); /* what nobody has opened does not end */
	if (error) {
		graph_leave(graph);
		return error;
	}
	end = channel->remote;
	request.end = end->index;
	if (!end->closed)
		error = remote_ask(graph, request, remote_answer_by(graph->remote, GDEV_FOREVER));
	if (!error && !end->closed) {
		end->closed = true;
		graph->remote->wanted -= end->wanted;
		end->wanted = 0;
		channel_drop_all(channel);
	}
	graph_leave(graph);
	return error;
}
