/* SPDX-License-Identifier: MIT
 *
 * What a named graph is made of. gdevd brings us together with the process that owns the graph, which tells it
 * (proto/graph.h, GRAPH_LOOK). That process is a stranger: what it says is checked, and its names are made fit for terminals.
 */
#include "cli/graph_look.h"

#include <errno.h>
#include <poll.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/fd.h"
#include "cli/cli.h"
#include "gdev/ptask.h"
#include "proto/check.h"
#include "proto/control.h"

#define ANSWER_MS 5000
#define PARTS_MAX 1000000 /* of a graph */

struct looked {
	struct graph_message message;
	struct graph_item items[GRAPH_ITEMS_MAX];
};

/* ---- items ---- */

static json_t *name_of(const char bytes[GRAPH_NAME_MAX])
{
	char name[GRAPH_NAME_MAX];

	snprintf(name, sizeof name, "%.*s", GRAPH_NAME_MAX - 1, bytes);
	for (char *at = name; *at; at++)
		if (*at < ' ' || *at > '~')
			*at = '?';
	return json_string(name);
}

static json_t *number(uint64_t value)
{
	return json_integer((json_int_t)min_of(value, (uint64_t)INT64_MAX));
}

static json_t *describe_graph(const struct graph_item *item)
{
	static const char *const schedules[] = {
		[GDEV_SCHEDULE_FIRST_AVAILABLE] = "first-available",
		[GDEV_SCHEDULE_FIFO] = "fifo",
		[GDEV_SCHEDULE_PRIORITY] = "priority",
		[GDEV_SCHEDULE_DATA_AWARE] = "data-aware",
	};
	const char *schedule = item->graph.schedule < array_length(schedules)
				       ? schedules[item->graph.schedule]
				       : "?";

	return json_pack("{s:o,s:b,s:i,s:s,s:i,s:i,s:i,s:o,s:o}", "name", name_of(item->name),
		"running", item->graph.running != 0, "error", item->graph.error, "schedule",
		schedule, "ptasks", (int)item->graph.ptasks, "channels", (int)item->graph.channels,
		"members", (int)item->graph.members, "invocations", number(item->graph.invocations),
		"datablocks", number(item->graph.blocks));
}

static json_t *describe_ptask(const struct graph_item *item)
{
	static const char *const states[] = {
		[GDEV_PTASK_WAITING] = "waiting",
		[GDEV_PTASK_QUEUED] = "queued",
		[GDEV_PTASK_EXECUTING] = "executing",
		[GDEV_PTASK_COMPLETED] = "completed",
	};
	static const char *const kinds[] = {
		[GRAPH_KIND_FUNCTION] = "function",
		[GRAPH_KIND_HOST] = "host",
		[GRAPH_KIND_ELSEWHERE] = "elsewhere",
	};
	const char *kind = item->ptask.kind < array_length(kinds) ? kinds[item->ptask.kind] : "?";
	const char *state =
		item->ptask.state < array_length(states) ? states[item->ptask.state] : "?";

	return json_pack("{s:o,s:o,s:s,s:s,s:i,s:i,s:o,s:o,s:o}", "name", name_of(item->name),
		"process", item->ptask.process ? number(item->ptask.process) : json_null(), "kind",
		kind, "state", item->ptask.ended ? "ended" : state, "priority",
		item->ptask.priority, "proxy", item->ptask.proxy, "invocations",
		number(item->ptask.invocations), "skipped", number(item->ptask.skipped), "moved",
		number(item->ptask.moved));
}

/* A ptask by its index; null: none. */
static json_t *ptask_index(uint32_t index)
{
	return index == GRAPH_NOBODY ? json_null() : json_integer(index);
}

static json_t *describe_channel(const struct graph_item *item)
{
	return json_pack("{s:o,s:o,s:o,s:o,s:o,s:o,s:o,s:I,s:I,s:b,s:b,s:b,s:I}", "name",
		name_of(item->name), "from", ptask_index(item->channel.from), "from_port",
		name_of(item->channel.from_port), "to", ptask_index(item->channel.to), "to_port",
		name_of(item->channel.to_port), "template", name_of(item->channel.tmpl), "bytes",
		number(item->channel.bytes), "datablocks", (json_int_t)item->channel.count,
		"capacity", (json_int_t)item->channel.capacity, "ended", item->channel.ended != 0,
		"broken", item->channel.broken != 0, "descriptor", item->channel.feed != 0,
		"members", (json_int_t)item->channel.members);
}

/* The ptasks that channels name are there. */
static bool names_ptask(const json_t *look, uint32_t index)
{
	return index == GRAPH_NOBODY || index < json_array_size(json_object_get(look, "ptasks"));
}

int graph_look_add(json_t *look, const struct graph_item *items, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		const struct graph_item *item = &items[i];
		if (item->kind == GRAPH_ITEM_GRAPH)
			json_object_set_new(look, "graph", describe_graph(item));
		else if (item->kind == GRAPH_ITEM_PTASK)
			json_array_append_new(
				json_object_get(look, "ptasks"), describe_ptask(item));
		else if (item->kind == GRAPH_ITEM_CHANNEL &&
			 names_ptask(look, item->channel.from) &&
			 names_ptask(look, item->channel.to))
			json_array_append_new(
				json_object_get(look, "channels"), describe_channel(item));
		else
			return -EPROTO;
	}
	return 0;
}

json_t *graph_look_create(void)
{
	return json_pack("{s:[],s:[]}", "ptasks", "channels");
}

/* ---- asking ---- */

/* A message that fits `room`: its length, or -errno. */
static ssize_t receive(int socket, void *message, size_t room, int *fds, size_t *count)
{
	struct pollfd readable = {.fd = socket, .events = POLLIN};
	bool descriptors = false;
	ssize_t length;

	if (poll(&readable, 1, ANSWER_MS) <= 0)
		return -ETIMEDOUT;
	/* Who closes what a stranger has sent may have to wait: it is never received. */
	if (!fds && fd_peek(socket, message, room, &descriptors) >= 0 && descriptors)
		return -EPROTO;
	length = fd_receive(socket, message, room, fds, count);
	return length ? length : -EPIPE;
}

/* The socket to the owner, or -errno. */
static int reach(int gdevd, uint32_t uid, const char *name)
{
	struct control_graph request = {.header = {.length = sizeof request,
						.type = CONTROL_GRAPH_OPEN,
						.version = CONTROL_VERSION,
						.serial = 1},
				     .uid = uid},
			     answer;
	size_t count = 1;
	int fd = -1, error;
	ssize_t length;

	if (strlen(name) >= sizeof request.name)
		return -ENOENT;
	strcpy(request.name, name);
	error = fd_send(gdevd, &request, sizeof request, NULL, 0);
	if (error)
		return error;
	length = receive(gdevd, &answer, sizeof answer, &fd, &count);
	if (length < 0)
		return (int)length;
	if (control_check(&answer, (size_t)length) || answer.header.type != CONTROL_GRAPH_REPLY ||
		count != !answer.header.status) {
		fd_close_all(&fd, count);
		return -EPROTO;
	}
	return answer.header.status ? min_of(answer.header.status, -1) : fd;
}

/* Those from the `first` on; how many there are goes to *total. */
static int ask(int owner, uint32_t first, json_t *look, uint32_t *total, uint32_t *count)
{
	struct graph_message request = {.type = GRAPH_LOOK};
	autofree struct looked *looked = calloc(1, sizeof *looked);
	size_t none = 0;
	ssize_t length;
	int error;

	request.look.first = first;
	error = looked ? fd_send(owner, &request, sizeof request, NULL, 0) : -ENOMEM;
	if (error)
		return error;
	length = receive(owner, looked, sizeof *looked, NULL, &none);
	if (length < 0)
		return (int)length;
	if (length < (ssize_t)sizeof looked->message || looked->message.type != GRAPH_LOOK)
		return -EPROTO;
	if (looked->message.status)
		return min_of(looked->message.status, -1);
	*count = looked->message.look.count;
	*total = looked->message.look.total;
	if (*count > GRAPH_ITEMS_MAX || *total > PARTS_MAX ||
		(size_t)length != offsetof(struct looked, items[*count]))
		return -EPROTO;
	return graph_look_add(look, looked->items, *count);
}

int graph_look(int gdevd, uint32_t uid, const char *name, json_t **look)
{
	autoclose int owner = reach(gdevd, uid, name);
	uint32_t at = 0, total = 1, count = 1;
	json_t *all = graph_look_create();
	int error = min_of(owner, 0);

	for (; !error && at < total && count; at += count)
		error = ask(owner, at, all, &total, &count);
	if (!error && !json_object_get(all, "graph"))
		error = -EPROTO;
	if (error)
		json_decref(all);
	else
		*look = all;
	if (owner >= 0 && fd_holds_descriptors(owner) > 0)
		steal_fd(&owner); /* until the command ends */
	return error;
}

int graph_parse_name(const char *text, uint32_t *uid, const char **name)
{
	const char *slash = strchr(text, '/');
	const struct passwd *entry;
	char user[256], *end;
	unsigned long value;

	*name = slash ? slash + 1 : text;
	*uid = geteuid();
	if (!slash)
		return 0;
	snprintf(user, sizeof user, "%.*s", (int)min_of(slash - text, 255l), text);
	value = strtoul(user, &end, 10);
	if (*user >= '0' && *user <= '9' && !*end && value < UINT32_MAX) {
		*uid = (uint32_t)value;
		return 0;
	}
	entry = getpwnam(user);
	if (!entry)
		return -ENOENT;
	*uid = entry->pw_uid;
	return 0;
}
