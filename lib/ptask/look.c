/* SPDX-License-Identifier: MIT
 *
 * What a named graph is made of, for those who look at it (`gdev graph`): the graph, its ptasks, its channels, in this order.
 */
#include <errno.h>
#include <string.h>

#include "lib/ptask/members.h"

/* Those items that the message has room for, from the first that is wanted. */
struct writer {
	struct graph_look *look;
	uint32_t at;
};

/* NULL: it is not wanted. */
static struct graph_item *next(
	struct writer *writer, enum graph_item_kind kind, uint32_t index, const char *name)
{
	struct graph_message *message = &writer->look->message;
	struct graph_item *item = NULL;

	if (writer->at++ >= message->look.first && message->look.count < GRAPH_ITEMS_MAX)
		item = &writer->look->items[message->look.count++];
	if (!item)
		return NULL;
	item->kind = kind;
	item->index = index;
	memcpy(item->name, name, sizeof item->name);
	return item;
}

static uint32_t number_ptasks(struct gdev_graph *graph)
{
	struct gdev_ptask *ptask;
	uint32_t count = 0;

	list_for_each (ptask, &graph->ptasks, link)
		ptask->index = count++;
	return count;
}

static uint32_t count_of(const struct list *list)
{
	uint32_t count = 0;

	for (const struct list *link = list->next; link != list; link = link->next)
		count++;
	return count;
}

static void show_graph(struct writer *writer, struct gdev_graph *graph, uint32_t ptasks)
{
	struct graph_item *item = next(writer, GRAPH_ITEM_GRAPH, 0, graph->name);
	const struct gdev_ptask *ptask;

	if (!item)
		return;
	item->graph.running = graph->running && !graph->terminated;
	item->graph.ptasks = ptasks;
	item->graph.channels = count_of(&graph->channels);
	item->graph.members = count_of(&graph->publication->members) - 1; /* and who looks */
	item->graph.error = graph->error;
	item->graph.schedule = graph->schedule;
	item->graph.blocks = count_of(&graph->blocks);
	list_for_each (ptask, &graph->ptasks, link)
		item->graph.invocations += ptask->invocations;
}

static void show_ptask(struct writer *writer, struct gdev_ptask *ptask)
{
	struct graph_item *item = next(writer, GRAPH_ITEM_PTASK, ptask->index, ptask->name);

	if (!item)
		return;
	item->ptask.state = ptask_state(ptask);
	item->ptask.ended = ptask->ended;
	item->ptask.kind = ptask->elsewhere  ? GRAPH_KIND_ELSEWHERE
			   : ptask->callback ? GRAPH_KIND_HOST
					     : GRAPH_KIND_FUNCTION;
	item->ptask.process = (uint32_t)ptask->process;
	item->ptask.priority = ptask->priority;
	item->ptask.proxy = ptask_proxy(ptask);
	item->ptask.invocations = ptask->invocations;
	item->ptask.skipped = ptask->skipped;
	item->ptask.moved = ptask->moved;
}

static void show_channel(struct writer *writer, const struct gdev_channel *channel, uint32_t index)
{
	struct graph_item *item = next(writer, GRAPH_ITEM_CHANNEL, index, channel->name);
	const struct gdev_port *from = channel->from, *to = channel->to;

	if (!item)
		return;
	item->channel.from = from ? from->ptask->index : GRAPH_NOBODY;
	item->channel.to = to ? to->ptask->index : GRAPH_NOBODY;
	item->channel.capacity = channel->capacity;
	item->channel.count = channel->count;
	item->channel.ended = channel->ended;
	item->channel.broken = channel->broken;
	item->channel.feed = channel->feed != NULL;
	item->channel.members = channel->pushers + channel->pullers;
	if (from)
		memcpy(item->channel.from_port, from->name, sizeof from->name);
	if (to)
		memcpy(item->channel.to_port, to->name, sizeof to->name);
	if (!channel->tmpl)
		return;
	memcpy(item->channel.tmpl, channel->tmpl->name, sizeof channel->tmpl->name);
	item->channel.bytes = channel->tmpl->bytes;
}

void look_at(struct gdev_graph *graph, struct graph_look *look)
{
	struct writer writer = {look, 0};
	struct gdev_channel *channel;
	struct gdev_ptask *ptask;
	uint32_t index = 0;

	look->message.look.count = 0;
	show_graph(&writer, graph, number_ptasks(graph));
	list_for_each (ptask, &graph->ptasks, link)
		show_ptask(&writer, ptask);
	list_for_each (channel, &graph->channels, link)
		show_channel(&writer, channel, index++);
	look->message.look.total = writer.at;
}

/* ---- channels by name ---- */

static bool is_at_port(const struct gdev_channel *channel, const char *name)
{
	const struct gdev_port *port = channel->to ? channel->to : channel->from;
	size_t length = strlen(port->ptask->name);

	return !strncmp(name, port->ptask->name, length) && name[length] == '.' &&
	       !strcmp(name + length + 1, port->name);
}

bool found_before(unsigned counts[OPENERS], enum opener opener)
{
	unsigned before = 0;

	for (unsigned i = 0; i <= opener; i++)
		before += counts[i];
	counts[opener]++;
	return before;
}

int found_one(const unsigned counts[OPENERS])
{
	for (unsigned i = 0; i < OPENERS; i++)
		if (counts[i])
			return counts[i] == 1 ? 0 : -ENOTUNIQ;
	return -ENOENT;
}

int channel_named(struct gdev_graph *graph, const char *name, struct gdev_channel **named)
{
	unsigned counts[OPENERS] = {0};
	struct gdev_channel *channel;

	list_for_each (channel, &graph->channels, link) {
		if ((channel->from && channel->to) || channel->feed ||
			(strcmp(channel->name, name) && !is_at_port(channel, name)))
			continue;
		if (!found_before(counts, channel->opener))
			*named = channel;
	}
	return found_one(counts);
}
