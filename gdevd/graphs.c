/* SPDX-License-Identifier: MIT
 *
 * Graphs with names (proto/control.h, GRAPH_PUBLISH; docs/ptask.md). gdevd knows of a graph its name and who may reach it:
 * it brings a process that opens the graph together with the one that owns it, and then has no part in what the two do. The
 * one that opens gets its end of their socket when the owner has taken the other, so that an owner can refuse, and close a
 * socket into which nobody has put anything. A name lives as long as the connection that has published it. Names of different
 * users do not meet.
 */
#include "gdevd/daemon.h"

#include <errno.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "gdevd/process.h"
#include "proto/graph.h"

/* Each is one line of a list that is searched. */
#define GRAPHS_A_USER 256

static bool name_is_valid(const char name[GRAPH_NAME_MAX])
{
	size_t length = strnlen(name, GRAPH_NAME_MAX);

	return length && length < GRAPH_NAME_MAX && name[0] != '.' &&
	       strspn(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.-") ==
		       length;
}

static struct graph *find_graph(const struct daemon *daemon, uid_t uid, const char *name)
{
	struct graph *graph;

	list_for_each (graph, &daemon->graphs, link)
		if (graph->client->connection->uid == uid && !strcmp(graph->name, name))
			return graph;
	return NULL;
}

static bool is_of_group(const struct connection *connection, gid_t group)
{
	struct groups groups;

	if (connection->gid == group)
		return true;
	process_groups_of_peer(connection->fd, &groups);
	for (uint32_t i = 0; i < groups.count; i++)
		if (groups.ids[i] == group)
			return true;
	return false;
}

static void reply_status(
	struct client *client, uint32_t serial, int status, const struct graph *graph, int fd)
{
	struct control_graph message = {0};

	control_fill(&message, CONTROL_GRAPH_REPLY, serial);
	message.header.status = status;
	if (graph) {
		strcpy(message.name, graph->name);
		message.uid = graph->client->connection->uid;
		message.pid = graph->client->connection->pid;
	}
	connection_send(client->connection, &message, &fd, fd >= 0);
}

/* ---- publishing ---- */

const struct session *graph_session(const struct daemon *daemon, const struct graph *graph)
{
	const struct connection *owner = graph->client->connection;
	const struct session *session;

	list_for_each (session, &daemon->sessions, link)
		if (session->id == graph->session && session->pid == owner->pid &&
			session->uid == owner->uid)
			return session;
	return NULL;
}

static int add_graph(struct client *client, const struct control_graph *message)
{
	struct connection *connection = client->connection;
	struct graph *graph;

	if (!name_is_valid(message->name))
		return -EINVAL;
	if (client->graph)
		return -EALREADY;
	if (find_graph(client->daemon, connection->uid, message->name))
		return -EEXIST;
	if (connection->user->graphs >= GRAPHS_A_USER)
		return -EDQUOT;
	if (connection->uid && !is_of_group(connection, message->group))
		return -EPERM;
	graph = calloc(1, sizeof *graph);
	if (!graph)
		return -ENOMEM;
	strcpy(graph->name, message->name);
	graph->client = client;
	graph->session = message->session;
	graph->group = message->group;
	graph->mode = message->mode & 0777;
	list_init(&graph->openings);
	if (!graph_session(client->daemon, graph)) {
		free(graph);
		return -ENOENT;
	}
	list_append(&client->daemon->graphs, &graph->link);
	connection->user->graphs++;
	client->graph = graph;
	return 0;
}

int graph_publish(struct client *client, const struct control_graph *message)
{
	if (message->reserved)
		return -EPROTO;
	reply_status(client, message->header.serial, add_graph(client, message), NULL, -1);
	return 0;
}

/* ---- opening ---- */

static enum graph_class class_of(const struct graph *graph, const struct connection *connection)
{
	if (!connection->uid || connection->uid == graph->client->connection->uid)
		return GRAPH_CLASS_OWNER;
	return is_of_group(connection, graph->group) ? GRAPH_CLASS_GROUP : GRAPH_CLASS_OTHERS;
}

static struct opener *find_opener(struct graph *graph, pid_t process)
{
	for (unsigned i = 0; i < GRAPH_OPENERS; i++)
		if (graph->openers[i].started && graph->openers[i].pid == process)
			return &graph->openers[i];
	return NULL;
}

/* In place of one that has ended, if all places are taken. False: all others live, and each keeps its rank. */
static bool note_opener(struct graph *graph, const struct opener *opener)
{
	struct opener *place = find_opener(graph, opener->pid);

	for (unsigned i = 0; i < GRAPH_OPENERS && !place; i++)
		if (!graph->openers[i].started)
			place = &graph->openers[i];
	for (unsigned i = 0; i < GRAPH_OPENERS && !place; i++)
		if (process_started(graph->openers[i].pid) != graph->openers[i].started)
			place = &graph->openers[i];
	if (place)
		*place = *opener;
	return place;
}

static struct opener opener_of(const struct connection *connection)
{
	struct opener opener = {.pid = connection->pid,
		.uid = connection->uid,
		.started = process_started_of_peer(connection->fd, connection->pid)};

	errno = 0;
	opener.nice = getpriority(PRIO_PROCESS, (id_t)opener.pid);
	if (errno || opener.pid <= 0)
		opener.started = 0;
	return opener;
}

struct opener *graph_opener(
	const struct daemon *daemon, const struct session *session, pid_t process)
{
	struct opener *opener, *found = NULL;
	struct graph *graph;

	list_for_each (graph, &daemon->graphs, link) {
		if (graph->client->connection->pid != session->pid ||
			graph->client->connection->uid != session->uid)
			continue;
		opener = find_opener(graph, process);
		/* One graph may know an earlier process of that number. */
		if (opener && (!found || process_started(process) == opener->started))
			found = opener;
	}
	return found;
}

/* The one that opens hears how it ended; of the descriptors that it may hold one less is in use. */
static void opening_finish(struct graph *graph, int status)
{
	struct opening *opening = list_first(&graph->openings, struct opening, link);

	if (!status && opening->opener.started && !note_opener(graph, &opening->opener))
		status = -EUSERS;
	if (opening->client) {
		reply_status(opening->client, opening->serial, status, graph,
			status ? -1 : opening->socket);
		opening->client->opening = NULL;
	}
	list_remove(&opening->link);
	graph->pending--;
	user_release(opening->user, 1);
	/* The owner may have sent something by now, and the one that opens be gone. */
	porters_let_go(opening->user, opening->socket);
	user_put(opening->user);
	free(opening);
}

/* The owner gets one end of a socket, and the other one waits for its answer. */
static int join_graph(struct graph *graph, struct client *client, uint32_t serial)
{
	struct connection *connection = client->connection;
	struct control_graph message = {0};
	enum graph_class class = class_of(graph, connection);
	struct opening *opening;
	struct opener opener;
	int pair[2], ended;

	if (!(graph->mode >> class & 6))
		return -EACCES;
	ended = process_peer_ended(connection->fd);
	if (ended) /* how urgent who has the connection now is, nobody knows */
		return ended > 0 ? -ESRCH : ended;
	/* While there is a descriptor for it: the pair may take the last ones, and the process would be known as nobody's. */
	opener = opener_of(connection);
	if (graph->pending >= GRAPH_PENDING_MAX)
		return -EAGAIN;
	if (!user_hold(connection->user, 1))
		return -EUSERS;
	opening = calloc(1, sizeof *opening);
	if (!opening ||
		socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, pair)) {
		user_release(connection->user, 1);
		free(opening);
		return -EAGAIN;
	}
	*opening = (struct opening){.client = client,
		.user = user_ref(connection->user),
		.serial = serial,
		.socket = pair[1],
		.opener = opener};
	client->opening = opening;
	list_append(&graph->openings, &opening->link);
	graph->pending++;
	graph->opened++;
	control_fill(&message, CONTROL_GRAPH_JOIN, 0);
	strcpy(message.name, graph->name);
	message.uid = connection->uid;
	message.pid = connection->pid;
	message.mode = class;
	connection_send(graph->client->connection, &message, &pair[0], 1);
	close(pair[0]); /* nobody has the other one yet, so nothing lies in it */
	return 0;
}

int graph_open(struct client *client, const struct control_graph *message)
{
	struct graph *graph;
	int status = -ENOENT;

	if (message->reserved || client->opening)
		return -EPROTO;
	graph = name_is_valid(message->name)
			? find_graph(client->daemon, message->uid, message->name)
			: NULL;
	if (graph)
		status = join_graph(graph, client, message->header.serial);
	if (status)
		reply_status(client, message->header.serial, status, graph, -1);
	return 0;
}

int graph_joined(struct client *client, int status)
{
	if (!client->graph || !client->graph->pending || (status && status != -EUSERS))
		return -EPROTO;
	opening_finish(client->graph, status);
	return 0;
}

void graph_client_finish(struct client *client)
{
	struct graph *graph = steal_pointer(&client->graph);

	if (client->opening)
		client->opening->client = NULL;
	if (!graph)
		return;
	while (graph->pending)
		opening_finish(graph, -ENOENT);
	client->connection->user->graphs--;
	list_remove(&graph->link);
	free(graph);
}
