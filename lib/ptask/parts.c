/* SPDX-License-Identifier: MIT
 *
 * Parts: what members open in a named graph before it runs (proto/graph.h, GRAPH_BUILD): modules, templates, ptasks, ports,
 * channels. The calls are those of the owner itself, with the same errors and the same words; code is loaded in the graph's
 * session, and so in its worker, on its account.
 *
 * A part is all or nothing. Until it is complete nobody else sees its ports; a member that leaves before that, or a graph that
 * runs before that, takes it away. A complete part is the graph's, and stays when the member goes.
 *
 * Who may: a process that may write the graph. One of another user has no code loaded here: its ptasks have no function, and run in a
 * session of its own (elsewhere.c). What is bounded: objects and bytes of a part and of all parts of the graph.
 */
#include <errno.h>
#include <string.h>

#include "lib/ptask/elsewhere.h"
#include "lib/ptask/members.h"

#define GRAPH_PARTS_IMAGES (4 * GRAPH_IMAGE_MAX)

/* Objects of a part, and of all parts of a graph. Those of other users, which stay when they are complete, take none of the owner's user's. */
static const struct bounds {
	unsigned part, graph;
} bounds[OPENERS] = {
	[BY_USER] = {GRAPH_OBJECTS_MAX, 8 * GRAPH_OBJECTS_MAX},
	[BY_STRANGER] = {GRAPH_OBJECTS_MAX / 8, 2 * GRAPH_OBJECTS_MAX},
};

/* ---- objects ---- */

static void *object_of(const struct member *member, enum part_kind kind, uint32_t id)
{
	const struct part *part = &member->part;

	return id && id <= part->count && part->objects[id - 1].kind == kind
		       ? part->objects[id - 1].object
		       : NULL;
}

/* One that may be left out: false: there is none of that id. */
static bool find_optional(
	const struct member *member, enum part_kind kind, uint32_t id, void *object)
{
	*(void **)object = object_of(member, kind, id);
	return !id || *(void **)object;
}

struct gdev_channel *part_channel(const struct member *member, uint32_t id)
{
	return object_of(member, PART_CHANNEL, id);
}

/* A port of the part, and not one of others that was found. */
struct gdev_port *part_port(const struct member *member, uint32_t id)
{
	struct gdev_port *port = object_of(member, PART_PORT, id);

	return port && !member->part.objects[id - 1].found ? port : NULL;
}

static enum opener opener_of(const struct member *member)
{
	return member->uid == member->graph->publication->user ? BY_USER : BY_STRANGER;
}

/* Room for one more, so that keep() cannot fail. */
static int make_room(struct member *member)
{
	enum opener opener = opener_of(member);
	struct part *part = &member->part;
	struct part_object *objects;

	if (part->count == bounds[opener].part ||
		member->graph->publication->objects[opener] == bounds[opener].graph)
		return graph_complain(member->graph, -EDQUOT, "no more objects can be contributed");
	if (part->objects && part->count & (part->count - 1))
		return 0;
	objects = realloc(part->objects, max_of(2 * part->count, 1u) * sizeof *objects);
	if (!objects)
		return -ENOMEM;
	part->objects = objects;
	return 0;
}

static uint32_t keep(struct member *member, enum part_kind kind, void *object, bool found)
{
	struct part *part = &member->part;

	part->objects[part->count++] =
		(struct part_object){.kind = kind, .found = found, .object = object};
	member->graph->publication->objects[opener_of(member)]++;
	return part->count;
}

/* ---- what comes with a request, in the member's memory ---- */

static bool is_in_memory(const struct member *member, const struct graph_build *build)
{
	return build->bytes <= member->memory_bytes &&
	       build->offset <= member->memory_bytes - build->bytes;
}

/* A name, or a value: copied out, with a 0 behind it. -EPROTO. */
static int copy_word(
	const struct member *member, const struct graph_build *build, char word[GRAPH_WORD_MAX + 1])
{
	if (!is_in_memory(member, build) || build->bytes > GRAPH_WORD_MAX)
		return -EPROTO;
	memcpy(word, member->theirs + build->offset, build->bytes);
	word[build->bytes] = '\0';
	return 0;
}

static const char *name_of(const struct graph_build *build)
{
	return *build->name ? build->name : NULL;
}

/* ---- building: each returns what the member hears, or -EPROTO, for which it is left ---- */

/* Gives the lock up while the image is loaded. */
static int build_module(struct member *member, struct graph_build *build, char *text)
{
	struct gdev_graph *graph = member->graph;
	struct gdev_graph_module *module;
	struct gdev_image *image;
	int error;

	if (!is_in_memory(member, build) || build->bytes > GRAPH_IMAGE_MAX)
		return -EPROTO;
	if (build->bytes > GRAPH_PARTS_IMAGES - graph->publication->image_bytes)
		return graph_complain(graph, -EDQUOT, "no more code can be contributed");
	graph->aside = NULL; /* what the program's calls say meanwhile is theirs */
	graph_leave(graph);
	error = gdev_image_create(member->theirs + build->offset, build->bytes, &image);
	if (!error) {
		error = graph_load(graph, image, text, GRAPH_BUILD_TEXT_MAX, &module);
		gdev_image_destroy(image);
	}
	pthread_mutex_lock(&graph->lock);
	if (error)
		return error;
	if (graph->running || graph->error || graph->terminated || member->left) {
		graph_unload(graph, module);
		return graph->error ? graph->error : -ECANCELED;
	}
	graph->publication->image_bytes += build->bytes;
	member->part.image_bytes += build->bytes;
	build->id = keep(member, PART_MODULE, module, false);
	return 0;
}

static int build_template(struct member *member, struct graph_build *build, char *text)
{
	const struct gdev_shape shape = {.layout = build->layout,
		.stride = build->stride,
		.count = {build->count[0], build->count[1], build->count[2]}};
	struct gdev_template *tmpl;
	int error = template_create(member->graph, name_of(build), &shape, &tmpl);

	if (!error)
		build->id = keep(member, PART_TEMPLATE, tmpl, false);
	return error;
}

static int build_ptask(struct member *member, struct graph_build *build, char *text)
{
	struct gdev_graph_module *module;
	char function[GRAPH_WORD_MAX + 1];
	struct gdev_ptask *ptask;
	int error = find_optional(member, PART_MODULE, build->module, &module)
			    ? copy_word(member, build, function)
			    : -EPROTO;

	if (!error)
		error = module ? ptask_open(member->graph, name_of(build), module, function, &ptask)
			       : ptask_open_elsewhere(member->graph, name_of(build), &ptask);
	if (error)
		return error;
	ptask->process = member->pid;
	ptask->opener = opener_of(member);
	ptask->draft = true;
	build->id = keep(member, PART_PTASK, ptask, false);
	return 0;
}

static int build_argument(struct member *member, struct graph_build *build, char *text)
{
	struct gdev_ptask *ptask = object_of(member, PART_PTASK, build->ptask);
	char value[GRAPH_WORD_MAX + 1];
	int error = ptask ? copy_word(member, build, value) : -EPROTO;

	return error ? error : ptask_set_argument(ptask, build->parameter, value, build->bytes);
}

static int build_geometry(struct member *member, struct graph_build *build, char *text)
{
	struct gdev_ptask *ptask = object_of(member, PART_PTASK, build->ptask);
	bool grid = build->grid[0] | build->grid[1] | build->grid[2];

	return ptask ? ptask_set_geometry(
			       ptask, grid ? build->grid : NULL, build->block, build->shared_bytes)
		     : -EPROTO;
}

static int build_port(struct member *member, struct graph_build *build, char *text)
{
	struct gdev_ptask *ptask = object_of(member, PART_PTASK, build->ptask);
	struct gdev_port_options options = {
		.name = name_of(build),
		.kind = build->kind,
		.binding = build->binding,
		.parameter = build->parameter,
		.in_out = part_port(member, build->in_out),
		.size = part_port(member, build->size),
	};
	char variable[GRAPH_WORD_MAX + 1];
	struct gdev_port *port;
	int error = ptask ? copy_word(member, build, variable) : -EPROTO;

	if (error || !find_optional(member, PART_TEMPLATE, build->tmpl, &options.tmpl) ||
		(build->in_out && !options.in_out) || (build->size && !options.size))
		return -EPROTO;
	if (build->bytes)
		options.variable = variable;
	error = port_open(ptask, &options, &port);
	if (!error)
		build->id = keep(member, PART_PORT, port, false);
	return error;
}

static int build_count(struct member *member, struct graph_build *build, char *text)
{
	struct gdev_port *port = part_port(member, build->port);

	return port ? port_count(port, build->parameter) : -EPROTO;
}

/* Whether it is a port of others. */
static bool is_found(const struct member *member, uint32_t id)
{
	return id && member->part.objects[id - 1].found;
}

static int build_channel(struct member *member, struct graph_build *build, char *text)
{
	struct gdev_channel_options options = {.name = name_of(build),
		.capacity = build->capacity,
		.mode = build->mode,
		.keep = build->keep};
	struct gdev_port *from, *to;
	struct gdev_channel *channel;
	int error;

	if (!find_optional(member, PART_PORT, build->from, &from) ||
		!find_optional(member, PART_PORT, build->to, &to) ||
		!find_optional(member, PART_TEMPLATE, build->tmpl, &options.tmpl))
		return -EPROTO;
	if ((is_found(member, build->from) && !(member->graph->mode >> member->class & 4)) ||
		(is_found(member, build->to) && !(member->graph->mode >> member->class & 2)))
		return graph_complain(member->graph, -EACCES,
			"channel %s: the mode of the graph does not let this process have what flows at a port of another",
			build->name);
	if (options.capacity > GRAPH_CAPACITY_MAX)
		return graph_complain(member->graph, -EINVAL,
			"channel %s: its capacity is more than %d", build->name,
			GRAPH_CAPACITY_MAX);
	error = channel_open(member->graph, from, to, &options, &channel);
	if (error)
		return error;
	channel->opener = opener_of(member);
	build->id = keep(member, PART_CHANNEL, channel, false);
	if (!channel->tmpl)
		return 0;
	build->layout = channel->tmpl->shape.layout;
	build->stride = channel->tmpl->shape.stride;
	memcpy(build->count, channel->tmpl->shape.count, sizeof build->count);
	return 0;
}

static int build_find(struct member *member, struct graph_build *build, char *text)
{
	struct gdev_port *port;
	int error = port_named(member->graph, build->name, &port);

	if (!error)
		build->id = keep(member, PART_PORT, port, true);
	return error;
}

static int build_complete(struct member *member, struct graph_build *build, char *text)
{
	struct part *part = &member->part;
	int error = 0;

	for (unsigned i = 0; i < part->count && !error; i++)
		if (part->objects[i].kind == PART_PTASK)
			error = ptask_check(part->objects[i].object);
	if (error)
		return error;
	for (unsigned i = 0; i < part->count; i++)
		if (part->objects[i].kind == PART_PTASK)
			((struct gdev_ptask *)part->objects[i].object)->draft = false;
	part->complete = true;
	graph_changed(member->graph); /* gdev_port_find() waits for it */
	return 0;
}

/* ---- at any time ---- */

static int set_priority(struct member *member, struct graph_build *build)
{
	struct gdev_ptask *ptask = object_of(member, PART_PTASK, build->ptask);

	if (!ptask)
		return -EPROTO;
	ptask->priority = build->priority;
	ptask->proxy = build->proxy;
	return 0;
}

static int query(struct member *member, struct graph_build *build)
{
	struct gdev_ptask *ptask = object_of(member, PART_PTASK, build->ptask);
	struct gdev_ptask_info info;

	if (!ptask)
		return -EPROTO;
	ptask_describe(ptask, &info);
	build->state = info.state;
	build->ended = info.ended;
	build->numbers[0] = info.invocations;
	build->numbers[1] = info.skipped;
	build->numbers[2] = info.moved;
	return 0;
}

/* ---- requests ---- */

static const struct builder {
	int (*build)(struct member *member, struct graph_build *build, char *text);
	bool opens; /* an object, which gets an id */
	bool code;  /* for the owner's session */
} builders[] = {
	[GRAPH_BUILD_MODULE] = {build_module, true, true},
	[GRAPH_BUILD_TEMPLATE] = {build_template, true},
	[GRAPH_BUILD_PTASK] = {build_ptask, true},
	[GRAPH_BUILD_ARGUMENT] = {build_argument, false, true},
	[GRAPH_BUILD_GEOMETRY] = {build_geometry, false, true},
	[GRAPH_BUILD_PORT] = {build_port, true},
	[GRAPH_BUILD_COUNT] = {build_count, false, true},
	[GRAPH_BUILD_CHANNEL] = {build_channel, true},
	[GRAPH_BUILD_FIND] = {build_find, true},
	[GRAPH_BUILD_COMPLETE] = {build_complete},
};

static int may_build(struct member *member, bool code)
{
	struct gdev_graph *graph = member->graph;

	if (!(graph->mode >> member->class & 2))
		return graph_complain(graph, -EACCES,
			"graph %s: only who may write it contributes to it", graph->name);
	if (code && opener_of(member) == BY_STRANGER)
		return graph_complain(graph, -EPERM,
			"graph %s: code of another user does not run in its worker", graph->name);
	if (member->part.complete)
		return graph_complain(graph, -EBUSY,
			"graph %s: this part is complete, nothing can be opened in it any more",
			graph->name);
	return graph_may_build(graph);
}

static int serve(struct member *member, struct graph_build *build, char *text)
{
	const struct builder *builder;
	int error = graph_error(member->graph);

	build->name[sizeof build->name - 1] = '\0';
	if (error)
		return error;
	if (member->part.dropped)
		return graph_complain(member->graph, -ECANCELED,
			"graph %s: it was run before this part was complete", member->graph->name);
	if (build->what == GRAPH_BUILD_PRIORITY)
		return set_priority(member, build);
	if (build->what == GRAPH_BUILD_QUERY)
		return query(member, build);
	builder = build->what < array_length(builders) ? &builders[build->what] : NULL;
	if (!builder || !builder->build)
		return -EPROTO;
	error = may_build(member, builder->code);
	if (!error && builder->opens)
		error = make_room(member);
	return error ? error : builder->build(member, build, text);
}

int member_build(struct member *member, struct graph_message *message, char *text)
{
	struct gdev_graph *graph = member->graph;
	int error;

	*text = '\0';
	graph->aside = text;
	error = serve(member, &message->build, text);
	graph->aside = NULL;
	if (error == -EPROTO)
		return error;
	text[GRAPH_BUILD_TEXT_MAX - 1] = '\0';
	message->status = error;
	message->build.text_bytes = (uint32_t)strlen(text);
	return 0;
}

/* ---- the end of a part ---- */

/* Templates stay until the graph goes, and modules if the lock cannot be given up. */
static void drop(struct member *member, bool unload)
{
	struct publication *publication = member->graph->publication;
	struct part *part = &member->part;

	part->dropped |= part->count > 0;
	while (part->count) {
		const struct part_object *last = &part->objects[--part->count];
		publication->objects[opener_of(member)] -= last->kind != PART_TEMPLATE;
		if (last->kind == PART_CHANNEL)
			channel_close(last->object);
		else if (last->kind == PART_PTASK)
			ptask_free(last->object);
		else if (last->kind == PART_MODULE && unload)
			graph_unload(member->graph, last->object);
	}
	publication->image_bytes -= unload ? part->image_bytes : 0;
	part->image_bytes = 0;
}

void part_finish(struct member *member)
{
	if (!member->part.complete)
		drop(member, true);
}

void part_leave(struct member *member)
{
	struct part *part = &member->part;

	while (part->count) {
		const struct part_object *last = &part->objects[--part->count];
		const struct gdev_ptask *ptask = last->kind == PART_PTASK ? last->object : NULL;
		if (ptask && ptask->elsewhere)
			elsewhere_leave(last->object);
	}
}

void parts_drop_drafts(struct gdev_graph *graph)
{
	struct member *member;

	if (!graph->publication)
		return;
	list_for_each (member, &graph->publication->members, link)
		if (!member->part.complete)
			drop(member, false);
}
