/* SPDX-License-Identifier: MIT
 *
 * Channels: queues of datablocks between ports, or between a port and the program (section 4).
 */
#include <errno.h>
#include <string.h>

#include "lib/ptask/internal.h"

/* ---- opening ---- */

static const char *end_name(const struct gdev_port *port)
{
	return port ? port->name : "the program";
}

static const char *end_ptask(const struct gdev_port *port)
{
	return port ? port->ptask->name : "-";
}

/* Marks what can be reached from `from`; whether `to` is among it. */
static bool reaches(struct gdev_ptask *from, const struct gdev_ptask *to)
{
	struct gdev_graph *graph = from->graph;
	struct gdev_ptask *top = from;
	uint64_t mark = ++graph->next_id;

	from->below = NULL;
	from->mark = mark;
	while (top) {
		struct gdev_ptask *ptask = top;
		struct gdev_channel *channel;
		struct gdev_port *port;

		if (ptask == to)
			return true;
		top = ptask->below;
		list_for_each (port, &ptask->outputs, link)
			list_for_each (channel, &port->channels, from_link) {
				struct gdev_ptask *next = channel->to ? channel->to->ptask : NULL;
				if (!next || next->mark == mark)
					continue;
				next->mark = mark;
				next->below = top;
				top = next;
			}
	}
	return false;
}

static int complain(struct gdev_graph *graph, int error, const struct gdev_port *from,
	const struct gdev_port *to, const char *what)
{
	return graph_complain(graph, error, "channel from %s.%s to %s.%s: %s", end_ptask(from),
		end_name(from), end_ptask(to), end_name(to), what);
}

static int complain_of_other(struct gdev_graph *graph, const struct gdev_port *from,
	const struct gdev_port *to, const struct gdev_port *other)
{
	return graph_complain(graph, -EEXIST,
		"channel from %s.%s to %s.%s: the input has a channel already, from %s.%s",
		end_ptask(from), end_name(from), end_ptask(to), end_name(to), end_ptask(other),
		end_name(other));
}

static int complain_of_templates(
	struct gdev_graph *graph, const struct gdev_port *from, const struct gdev_port *to)
{
	return graph_complain(graph, -EPROTOTYPE,
		"channel from %s.%s to %s.%s: the template of one is %s, and of the other %s",
		end_ptask(from), end_name(from), end_ptask(to), end_name(to), from->tmpl->name,
		to->tmpl->name);
}

static int check_ends(struct gdev_graph *graph, struct gdev_port *from, struct gdev_port *to,
	const struct gdev_template *tmpl)
{
	if (!from && !to)
		return complain(graph, -EINVAL, from, to, "it has no port at either end");
	if ((from && from->ptask->graph != graph) || (to && to->ptask->graph != graph) ||
		(tmpl && tmpl->graph != graph))
		return complain(graph, -EINVAL, from, to, "something of it is another graph's");
	if ((from && from->kind != GDEV_PORT_OUTPUT) || (to && to->kind == GDEV_PORT_OUTPUT))
		return complain(graph, -EINVAL, from, to, "it goes from an output to an input");
	if (to && to->channel)
		return complain_of_other(graph, from, to, to->channel->from);
	if (from && !template_fits(from->tmpl, tmpl))
		return complain(
			graph, -EPROTOTYPE, from, to, "its template is not that of the output");
	if (to && !template_fits(tmpl, to->tmpl))
		return complain(
			graph, -EPROTOTYPE, from, to, "its template is not that of the input");
	if (from && to && !template_fits(from->tmpl, to->tmpl))
		return complain_of_templates(graph, from, to);
	if (!from && !tmpl && !to->tmpl)
		return complain(
			graph, -EINVAL, from, to, "neither it nor the input has a template");
	if (from && to && reaches(to->ptask, from->ptask))
		return complain(graph, -ELOOP, from, to, "it closes a cycle");
	return 0;
}

static struct gdev_channel *channel_create(struct gdev_graph *graph, struct gdev_port *from,
	struct gdev_port *to, const struct gdev_channel_options *options)
{
	struct gdev_channel *channel = calloc(1, sizeof *channel);

	if (!channel)
		return NULL;
	channel->capacity = options->capacity ? options->capacity : CAPACITY_DEFAULT;
	channel->queue = calloc(channel->capacity, sizeof(struct gdev_datablock *));
	if (!channel->queue) {
		free(channel);
		return NULL;
	}
	copy_name(channel->name, options->name, "channel");
	channel->graph = graph;
	channel->from = from;
	channel->to = to;
	channel->tmpl = options->tmpl;
	channel->mode = options->mode ? options->mode & graph->mode : graph->mode;
	channel->keep = options->keep;
	if (!channel->tmpl)
		channel->tmpl = to && to->tmpl ? to->tmpl : from ? from->tmpl : NULL;
	return channel;
}

int channel_open(struct gdev_graph *graph, struct gdev_port *from, struct gdev_port *to,
	const struct gdev_channel_options *wanted, struct gdev_channel **opened)
{
	const struct gdev_channel_options options =
		wanted ? *wanted : (struct gdev_channel_options){0};
	struct gdev_channel *channel;
	int error = graph->running ? complain(graph, -EBUSY, from, to, "the graph runs")
				   : check_ends(graph, from, to, options.tmpl);

	if (error)
		return error;
	channel = channel_create(graph, from, to, &options);
	if (!channel)
		return -ENOMEM;
	list_append(&graph->channels, &channel->link);
	if (from)
		list_append(&from->channels, &channel->from_link);
	if (to)
		to->channel = channel;
	*opened = channel;
	return 0;
}

int gdev_channel_open(struct gdev_graph *graph, struct gdev_port *from, struct gdev_port *to,
	const struct gdev_channel_options *options, struct gdev_channel **channel)
{
	int error;

	if (graph->remote)
		return remote_channel_open(graph, from, to, options, channel);
	error = graph_enter(graph);
	if (error)
		return error;
	error = channel_open(graph, from, to, options, channel);
	graph_leave(graph);
	return error;
}

void channel_close(struct gdev_channel *channel)
{
	if (channel->from)
		list_remove(&channel->from_link);
	if (channel->to)
		channel->to->channel = NULL;
	channel_free(channel);
}

void channel_free(struct gdev_channel *channel)
{
	feed_free(channel->feed);
	channel_drop_all(channel);
	list_remove(&channel->link);
	free(channel->queue);
	free(channel);
}

struct gdev_template *gdev_channel_template(struct gdev_channel *channel)
{
	return channel->tmpl;
}

int gdev_channel_find(struct gdev_graph *graph, const char *name, uint64_t deadline_ns,
	struct gdev_channel **channel)
{
	int error;

	if (graph->remote)
		return remote_find(graph, name, deadline_ns, channel);
	error = graph_enter(graph);
	while (!error && !graph->running)
		error = graph_wait(graph, deadline_ns);
	if (error)
		return error;
	error = channel_named(graph, name, channel);
	graph_leave(graph);
	return error;
}

/* ---- the queue ---- */

void channel_put(struct gdev_channel *channel, struct gdev_datablock *block)
{
	if (channel->broken)
		return;
	gdev_datablock_ref(block);
	channel->queue[(channel->first + channel->count++) % channel->capacity] = block;
	if (port_is_here(channel->to))
		ptask_touch(channel->to->ptask);
	else if (channel->feed)
		host_wake(channel->graph);
	else
		graph_changed(channel->graph);
}

struct gdev_datablock *channel_take(struct gdev_channel *channel)
{
	struct gdev_datablock *block = channel->queue[channel->first];

	channel->first = (channel->first + 1) % channel->capacity;
	channel->count--;
	if (channel->owed)
		ptask_touch(channel->from->ptask);
	else if (!channel->from && channel->feed)
		host_wake(channel->graph);
	else if (!port_is_here(channel->from))
		graph_changed(channel->graph); /* also of those that push from elsewhere */
	return block;
}

void channel_drop_all(struct gdev_channel *channel)
{
	while (channel->count)
		block_put(channel_take(channel));
}

/* ---- push ---- */

/* Whether the device, and not the host, is what takes the datablock. */
static bool goes_to_device(const struct gdev_channel *channel)
{
	return channel->to && channel->to->ptask->info &&
	       (channel->to->binding == GDEV_BIND_GLOBAL ||
		       channel->to->binding == GDEV_BIND_CONSTANT);
}

static int wait_for_room(struct gdev_channel *channel, uint64_t deadline_ns)
{
	int error = 0;

	while (!error && channel->count == channel->capacity && !channel->ended && !channel->broken)
		error = graph_wait(channel->graph, deadline_ns);
	if (!error && (channel->ended || channel->broken))
		error = -EPIPE;
	return error;
}

static int check_push(struct gdev_channel *channel, const struct gdev_datablock *block)
{
	struct gdev_graph *graph = channel->graph;

	if (channel->from || channel->feed)
		return complain(graph, -EINVAL, channel->from, channel->to,
			"a ptask or a descriptor fills it");
	if (block->graph != graph)
		return complain(
			graph, -EINVAL, NULL, channel->to, "the datablock is another graph's");
	if (!template_fits(block->tmpl, channel->tmpl))
		return graph_complain(graph, -EPROTOTYPE,
			"push into %s.%s: a datablock of template %s, and not %s",
			end_ptask(channel->to), end_name(channel->to), block->tmpl->name,
			channel->tmpl->name);
	return 0;
}

static int push_here(struct gdev_channel *channel, struct gdev_datablock *block,
	uint64_t deadline_ns, bool *give)
{
	struct gdev_graph *graph = channel->graph;
	int error = graph_enter(graph);

	if (error)
		return error;
	error = check_push(channel, block);
	if (!error)
		error = wait_for_room(channel, deadline_ns);
	if (!error) {
		block_pushed_by(block, proxies_count(graph) ? whom_calls() : (struct whom){0});
		channel_put(channel, block);
		if (give) {
			block_put(block);
			*give = true;
		}
		graph_flow(graph);
		error = graph->error;
	}
	graph_leave(graph);
	return error;
}

/* `give` not NULL: the caller's reference goes with the datablock before anything is invoked; *give: it has. */
static int push(struct gdev_channel *channel, struct gdev_datablock *block, uint64_t deadline_ns,
	bool *give)
{
	uint64_t began_ns = span_begin();
	int error = channel->graph->remote ? remote_push(channel, block, deadline_ns)
					   : push_here(channel, block, deadline_ns, give);

	span_end(began_ns, "push", channel->name, error);
	return error;
}

int gdev_push(struct gdev_channel *channel, struct gdev_datablock *block, uint64_t deadline_ns)
{
	return push(channel, block, deadline_ns, NULL);
}

int gdev_push_give(struct gdev_channel *channel, struct gdev_datablock *block, uint64_t deadline_ns)
{
	bool given = false;
	int error = push(channel, block, deadline_ns, &given);

	if (!error && !given)
		gdev_datablock_put(block);
	return given ? 0 : error;
}

static int fill_block(struct gdev_channel *channel, struct gdev_datablock *block, const void *data)
{
	void *memory;
	int error;

	if (goes_to_device(channel))
		return gdev_datablock_write(block, 0, data, block->bytes);
	error = gdev_datablock_map(block, true, &memory);
	if (!error && block->bytes)
		memcpy(memory, data, block->bytes);
	return error;
}

int gdev_push_bytes(
	struct gdev_channel *channel, const void *data, uint64_t bytes, uint64_t deadline_ns)
{
	struct gdev_template *tmpl = channel->tmpl;
	struct gdev_graph *graph = channel->graph;
	struct gdev_datablock *block;
	bool given = false;
	int error = 0;

	if (!graph->remote)
		error = graph_enter(graph);
	if (error)
		return error;
	/* Before the bytes are copied. */
	if (!graph->remote) {
		error = channel->from || channel->feed || !tmpl
				? -EINVAL
				: wait_for_room(channel, deadline_ns);
		graph_leave(graph);
	}
	if (!error && (!tmpl || !template_allows(tmpl, bytes)))
		error = -EPROTOTYPE;
	if (!error)
		error = gdev_datablock_create(graph, tmpl, bytes / tmpl->shape.stride, &block);
	if (error)
		return error;
	error = fill_block(channel, block, data);
	if (!error)
		error = push(channel, block, deadline_ns, &given);
	if (!given)
		gdev_datablock_put(block);
	return error;
}

int gdev_channel_end(struct gdev_channel *channel)
{
	struct gdev_graph *graph = channel->graph;
	int error;

	if (graph->remote)
		return remote_end(channel);
	error = graph_enter(graph);
	if (error)
		return error;
	if (channel->from || channel->feed) {
		error = complain(graph, -EINVAL, channel->from, channel->to,
			"a ptask or a descriptor ends it");
	} else {
		channel->ended = true;
		ptask_touch(channel->to->ptask);
		graph_flow(graph);
		graph_changed(graph);
	}
	graph_leave(graph);
	return error;
}

/* ---- pull ---- */

/* Waits, with the lock, until a datablock is there. */
static int wait_for_block(struct gdev_channel *channel, uint64_t deadline_ns)
{
	bool awaits =
		deadline_ns && !channel->count && !channel->ended && proxies_count(channel->graph);
	int error = 0;

	if (awaits)
		channel_await(channel, whom_calls());
	while (!error && !channel->count && !channel->ended)
		error = graph_wait(channel->graph, deadline_ns);
	if (awaits)
		channel_await_no_more(channel);
	return !error && !channel->count ? -ENODATA : error;
}

/* Waits until the datablock is complete; gives the lock up meanwhile. */
static int wait_until_complete(
	struct gdev_graph *graph, struct gdev_datablock *block, uint64_t deadline_ns)
{
	struct gdev_session *session;
	struct gdev_fence fence;
	int error;

	if (block_complete(block))
		return lanes_error(graph);
	if (!deadline_ns) {
		error = graph_wait(graph, 0);
		host_notice(graph, block_written(block), true);
		return error;
	}
	fence = point_fence(graph, block_written(block));
	session = session_of(graph, block_written(block).lane);
	graph_leave(graph);
	error = gdev_fence_wait_until(session, &fence, deadline_ns);
	pthread_mutex_lock(&graph->lock);
	if (error == -GDEV_E_NOT_READY)
		return -ETIMEDOUT;
	if (error)
		graph_fail(graph, error, NULL);
	return lanes_error(graph);
}

/* Where the program wants the contents of what it pulls. */
struct reader {
	void *data; /* NULL: nowhere, for now */
	uint64_t room;
	bool done;
};

/* Whether a copy behind the kernel that makes the contents is behind no other: then the program waits once, and not for the
 * kernel first. Where it copies by itself, it waits once anyway. */
static bool is_last_of_lane(const struct gdev_graph *graph, const struct gdev_datablock *block)
{
	struct point written = block_written(block);

	return !block->host_current && written.value && block->bytes &&
	       graph->lanes[written.lane].launched == written.value &&
	       !graph->devices[device_of(written.lane)].direct;
}

/* Gives the lock up meanwhile. */
static int read_behind_kernel(
	struct gdev_graph *graph, struct gdev_datablock *block, struct reader *reader)
{
	struct point written = block_written(block);
	struct gdev_copy copy = gdev_copy_linear((uint64_t)reader->data,
		block->views[device_of(written.lane)].buffer->address,
		min_of(reader->room, block->bytes));
	int error;

	graph_leave(graph);
	error = gdev_copy(graph->lanes[written.lane].stream, &copy);
	pthread_mutex_lock(&graph->lock);
	if (error)
		graph_fail(graph, error, NULL);
	reader->done = true;
	return lanes_error(graph);
}

static int complete(struct gdev_graph *graph, struct gdev_datablock *block, uint64_t deadline_ns,
	struct reader *reader)
{
	reader->done = false;
	return reader->data && deadline_ns == GDEV_FOREVER && is_last_of_lane(graph, block)
		       ? read_behind_kernel(graph, block, reader)
		       : wait_until_complete(graph, block, deadline_ns);
}

static int pull_here(struct gdev_channel *channel, uint64_t deadline_ns, struct reader *reader,
	struct gdev_datablock **pulled)
{
	struct gdev_graph *graph = channel->graph;
	struct gdev_datablock *block;
	int error = graph_enter(graph);

	if (error)
		return error;
	if (channel->to || channel->feed)
		error = complain(graph, -EINVAL, channel->from, channel->to,
			"a ptask or a descriptor empties it");
	while (!error) {
		error = wait_for_block(channel, deadline_ns);
		if (error)
			break;
		block = channel->queue[channel->first];
		gdev_datablock_ref(block);
		error = complete(graph, block, deadline_ns, reader);
		if (!error && !graph->terminated && channel->count &&
			channel->queue[channel->first] == block) {
			block_put(channel_take(channel));
			graph_flow(graph);
			*pulled = block;
			break;
		}
		block_put(block); /* another thread was there first */
		if (!error && graph->terminated)
			error = -ECANCELED;
	}
	graph_leave(graph);
	return error;
}

static int pull(struct gdev_channel *channel, uint64_t deadline_ns, struct reader *reader,
	struct gdev_datablock **pulled)
{
	uint64_t began_ns = span_begin();
	int error = channel->graph->remote ? remote_pull(channel, reader->data, deadline_ns, pulled)
					   : pull_here(channel, deadline_ns, reader, pulled);

	span_end(began_ns, "pull", channel->name, error);
	return error;
}

int gdev_pull(struct gdev_channel *channel, uint64_t deadline_ns, struct gdev_datablock **block)
{
	struct reader nowhere = {0};

	return pull(channel, deadline_ns, &nowhere, block);
}

int gdev_pull_bytes(struct gdev_channel *channel, void *data, uint64_t room, uint64_t deadline_ns,
	uint64_t *bytes)
{
	struct reader reader = {.data = data, .room = room};
	struct gdev_datablock *block;
	int error = pull(channel, deadline_ns, &reader, &block);

	if (error)
		return error;
	if (bytes)
		*bytes = block->bytes;
	if (!reader.done)
		error = gdev_datablock_read(block, 0, data, min_of(room, block->bytes));
	gdev_datablock_put(block);
	return error;
}
