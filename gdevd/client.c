/* SPDX-License-Identifier: MIT
 *
 * Connections from outside: clients, on the sockets of virtual GPUs, and administrators, on
 * control.sock. A client says HELLO within ten seconds and then waits until there is a worker for it; its
 * connection stays as long as its session does. An administrator may ask any number of things, or hold
 * the connection only to keep a private daemon alive.
 */
#include "gdevd/daemon.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/fd.h"
#include "base/log.h"
#include "gdev/error.h"
#include "gdevd/process.h"
#include "proto/check.h"
#include "proto/session.h"

#define HELLO_TIMEOUT_NS (10 * NS_PER_S)
#define WORKER_TIMEOUT_NS (30 * NS_PER_S)
#define CONNECTIONS_A_UID 1024
#define REFUSALS_MAX 16 /* on one connection, which may try again */
#define ARENA_END (1ull << 47)

static int on_message(struct connection *connection, const struct control_header *message, int *fds,
	size_t fd_count);
static void on_closed(struct connection *connection, int error);

/* No message from here brings any descriptors. */
static const struct connection_ops client_connection_ops = {
	.message = on_message,
	.closed = on_closed,
};

static uint64_t rounds; /* each is later than those before */

/* The client whose turn it is: of those that are not `passed` in this round or a later one, the first of the user that was
 * given a worker least lately. */
static struct client *next_waiting(struct device *device, uint64_t round)
{
	struct client *client, *next = NULL;

	list_for_each (client, &device->daemon->waiting, waiting)
		if (client->vgpu->device == device && (!round || client->passed < round) &&
			(!next || client->connection->user->given < next->connection->user->given))
			next = client;
	return next;
}

struct client *client_waiting(struct device *device)
{
	return next_waiting(device, 0);
}

unsigned client_waiting_count(const struct device *device, const struct vgpu *vgpu)
{
	const struct client *client;
	unsigned count = 0;

	list_for_each (client, &device->daemon->waiting, waiting)
		count += vgpu ? client->vgpu == vgpu : client->vgpu->device == device;
	return count;
}

void client_waits_no_more(struct client *client)
{
	if (list_empty(&client->waiting))
		return;
	list_remove(&client->waiting);
	client->connection->user->waiting--;
}

void clients_serve(struct device *device)
{
	uint64_t round = ++rounds;
	struct client *client;
	struct worker *worker;

	while ((client = next_waiting(device, round)) && (worker = workers_take_warm(device))) {
		client->passed = round; /* it may have to wait on for room */
		session_begin(client, worker);
	}
	if (client)
		workers_adjust(device);
}

static void on_deadline(struct deadline *deadline, uint64_t now_ns)
{
	struct client *client = container_of(deadline, struct client, deadline);
	uint64_t since_ns = client->vgpu->device->workers.ready_ns;

	if (list_empty(&client->waiting)) {
		complain("pid %d connected to %s and said nothing", (int)client->connection->pid,
			client->vgpu->config->name);
		client_destroy(client);
		return;
	}
	/* While workers come, its turn does. */
	if (since_ns + WORKER_TIMEOUT_NS > now_ns) {
		deadline_set(&client->daemon->deadlines, &client->deadline,
			since_ns + WORKER_TIMEOUT_NS);
		return;
	}
	if (!workers_take_warm(client->vgpu->device) &&
		memory_room(&client->vgpu->device->memory) < client->vgpu->device->overhead_bytes)
		client_refuse(client, -ENOMEM,
			"the device had no memory for another context for %llu s: those who hold it use it; "
			"'gdev status' shows them",
			WORKER_TIMEOUT_NS / NS_PER_S);
	else if (client->vgpu->device->workers.starting)
		client_refuse(client, -EAGAIN,
			"the workers of device \"%s\" take longer than %llu s to start; 'gdev device list' shows "
			"whether it works",
			client->vgpu->device->served->name, WORKER_TIMEOUT_NS / NS_PER_S);
	else
		client_refuse(client, -EAGAIN,
			"no worker became free: %u are in use (max_workers is %u in gdev.conf); 'gdev status' "
			"shows them",
			client->daemon->session_count,
			(unsigned)client->daemon->config.max_workers);
	client_destroy(client);
}

/* A worker that its client has taken over could open sessions as the workers' user, which no limit of the client's user
 * counts. Whoever may come holds a descriptor. */
static bool may_come(const struct client *client)
{
	const struct connection *connection = client->connection;
	struct user *user = connection->user;

	if (workers_include(client->daemon, connection->pid, connection->uid)) {
		complain(
			"pid %d (uid %u) is a worker, or of the workers' user, and may not be a client of %s",
			(int)connection->pid, (unsigned)connection->uid,
			client->vgpu ? client->vgpu->config->name : "gdevd");
		return false;
	}
	if (user->connections < CONNECTIONS_A_UID && user_hold(user, 1))
		return true;
	complain("uid %u has %u connections, and %zu descriptors of gdevd's; another is refused",
		(unsigned)user->uid, user->connections, user->descriptors);
	return false;
}

/* False: gdevd has no descriptor to look with. A session of a process that is not known would not find the memory of the
 * process's other sessions. So the connection ends as one that cannot be accepted does, and the client comes again. */
static bool learn_process(struct client *client)
{
	const struct connection *connection = client->connection;

	client->process_started = process_started_of_peer(connection->fd, connection->pid);
	return client->process_started || process_peer_ended(connection->fd) != -EAGAIN;
}

void client_accept(struct daemon *daemon, int fd, struct vgpu *vgpu)
{
	struct client *client = calloc(1, sizeof *client);

	if (!client) {
		porters_close_of_peer(&daemon->users, fd);
		return;
	}
	client->daemon = daemon;
	client->vgpu = vgpu;
	client->peer = -1;
	list_init(&client->waiting);
	deadline_init(&client->deadline, on_deadline);
	if (connection_create_client(&daemon->loop, fd, &client_connection_ops, client,
		    &daemon->users, vgpu ? ERRAND_OPEN : ERRAND_ASK, &client->connection)) {
		free(client);
		return;
	}
	if ((vgpu && !learn_process(client)) || !may_come(client)) {
		connection_destroy(client->connection);
		free(client);
		return;
	}
	list_append(&daemon->clients, &client->link);
	client->connection->user->connections++;
	daemon->visited = true;
	if (vgpu)
		deadline_set(
			&daemon->deadlines, &client->deadline, clock_now_ns() + HELLO_TIMEOUT_NS);
}

void client_destroy(struct client *client)
{
	struct daemon *daemon = client->daemon;
	struct session *session = client->session;

	list_remove(&client->link);
	client_waits_no_more(client);
	trace_client_finish(client);
	graph_client_finish(client);
	client->connection->user->connections--;
	user_release(client->connection->user, 1);
	deadline_cancel(&client->deadline);
	fd_close_all(&client->peer, 1);
	connection_destroy(client->connection);
	free(client);
	if (session)
		session_client_left(session);
	daemon_maybe_leave(daemon);
}

/* It may ask again on this connection, soon. */
static void answer_client(struct client *client, const void *message)
{
	client_waits_no_more(client);
	client->describing = false;
	connection_send(client->connection, message, NULL, 0);
	deadline_set(
		&client->daemon->deadlines, &client->deadline, clock_now_ns() + HELLO_TIMEOUT_NS);
}

void client_refuse(struct client *client, int status, const char *format, ...)
{
	struct control_refused message = {0};
	va_list args;

	control_fill(&message, CONTROL_REFUSED, client->serial);
	message.header.status = status;
	va_start(args, format);
	vsnprintf(message.text, sizeof message.text, format, args);
	va_end(args);
	fd_close_all(&client->peer, 1);
	answer_client(client, &message);
	if (++client->refusals > REFUSALS_MAX)
		connection_drop(client->connection, -ETOOMANYREFS);
}

static void describe_device(struct client *client)
{
	const struct device *device = client->vgpu->device;
	struct control_description message = {
		.memory_bytes = memory_total(&client->vgpu->memory),
		.peers = device->peers,
	};

	control_fill(&message, CONTROL_DESCRIPTION, client->serial);
	strcpy(message.vgpu, client->vgpu->config->name);
	memcpy(message.device_name, device->name, sizeof message.device_name);
	memcpy(message.device_uuid, device->uuid, sizeof message.device_uuid);
	vgpu_properties(client->vgpu, message.properties);
	answer_client(client, &message);
}

void clients_describe(struct device *device)
{
	struct client *client, *after;

	list_for_each_safe (client, after, &device->daemon->waiting, waiting)
		if (client->describing && client->vgpu->device == device)
			describe_device(client);
}

/* No session can begin on its device: then the client is told. */
static bool refuse_closed(struct client *client)
{
	struct device *device = client->vgpu->device;

	if (device->drained)
		device_refuse_drained(client);
	else if (device->workers.hopeless && !workers_take_warm(device))
		client_refuse(client, -GDEV_E_DEVICE_LOST,
			"device \"%s\" cannot be opened (%s); the log of gdevd says why",
			device->served->name, device->workers.why);
	else
		return false;
	return true;
}

void client_wait(struct client *client)
{
	struct daemon *daemon = client->daemon;
	struct device *device;
	struct worker *worker;

	if (client->vgpu->device->workers.hopeless || client->vgpu->device->drained)
		client_place(client); /* another device may take it */
	device = client->vgpu->device;
	if (refuse_closed(client))
		return;
	if (client->describing && device->known) { /* it was moved to that one */
		describe_device(client);
		return;
	}
	worker = workers_take_warm(device);
	if (list_empty(&client->waiting)) {
		list_append(&daemon->waiting, &client->waiting);
		client->connection->user->waiting++;
	}
	deadline_set(&daemon->deadlines, &client->deadline, clock_now_ns() + WORKER_TIMEOUT_NS);
	if (!worker)
		workers_adjust(device);
	else
		session_begin(client, worker);
}

void clients_wait_anew(struct device *device)
{
	uint64_t round = ++rounds;
	struct client *client;

	/* Serving one may end the waiting of any other. */
	while ((client = next_waiting(device, round))) {
		client->passed = round; /* it may go on waiting for room beside a warm worker */
		client_wait(client);
	}
}

/* What is wrong with a HELLO: 0, or a status with a sentence. */
static int check_hello(struct client *client, const struct control_hello *hello, const char **text)
{
	uint64_t end;

	*text = "client and gdevd speak no common version; update the older one";
	if (session_version_choose(hello->version_min, hello->version_max, &client->version))
		return -GDEV_E_PROTOCOL;
	for (unsigned i = 0; i < array_length(hello->reserved); i++)
		if (hello->reserved[i])
			return -GDEV_E_PROTOCOL;
	*text = "the arena must be a range of whole 2 MiB pages below 2^47";
	if (hello->arena_base == 0 || hello->arena_bytes == 0 || hello->arena_base % ARENA_ALIGN ||
		hello->arena_bytes % ARENA_ALIGN ||
		__builtin_add_overflow(hello->arena_base, hello->arena_bytes, &end) ||
		end > ARENA_END)
		return -EINVAL;
	return 0;
}

static int on_hello(struct client *client, const struct control_hello *hello)
{
	struct daemon *daemon = client->daemon;
	const struct user *user = client->connection->user;
	const char *text;
	int status;

	if (client->session || !list_empty(&client->waiting))
		return -EPROTO;
	client->serial = hello->header.serial;
	client->hello = *hello;
	status = check_hello(client, hello, &text);
	if (status) {
		client_refuse(client, status, "%s", text);
		return 0;
	}
	if (user->sessions + user->waiting >= daemon->config.sessions_per_uid) {
		client_refuse(client, -EUSERS,
			"uid %u has %u sessions, which is all it may have (sessions_per_user in gdev.conf)",
			(unsigned)user->uid, (unsigned)daemon->config.sessions_per_uid);
		return 0;
	}
	client->tries = 0;
	client_place(client);
	client_wait(client);
	return 0;
}

/* Takes no worker; one has to start only where none ever was ready. */
static int on_describe(struct client *client, const struct control_header *message)
{
	if (client->session || !list_empty(&client->waiting))
		return -EPROTO;
	client->serial = message->serial;
	client_place(client);
	if (refuse_closed(client))
		return 0;
	if (client->vgpu->device->known) {
		describe_device(client);
		return 0;
	}
	client->describing = true;
	client_wait(client);
	return 0;
}

static int on_client_message(struct client *client, const struct control_header *message)
{
	switch (message->type) {
	case CONTROL_HELLO:
		return on_hello(client, (const struct control_hello *)message);
	case CONTROL_DESCRIBE:
		return on_describe(client, message);
	default:
		return -EPROTO;
	}
}

/* On control.sock. */
static int on_admin_message(struct client *client, const struct control_header *message)
{
	switch (message->type) {
	case CONTROL_ADMIN:
		if (message->length > sizeof *message + CONTROL_ADMIN_BYTES_MAX)
			return -EMSGSIZE;
		admin_request(client->daemon, client->connection, message);
		return 0;
	case CONTROL_TRACE:
		return trace_request(client, (const struct control_trace *)message);
	case CONTROL_GRAPH_PUBLISH:
		return graph_publish(client, (const struct control_graph *)message);
	case CONTROL_GRAPH_OPEN:
		return graph_open(client, (const struct control_graph *)message);
	case CONTROL_GRAPH_JOINED:
		return graph_joined(client, message->status);
	default:
		return -EPROTO;
	}
}

static int on_message(struct connection *connection, const struct control_header *message, int *fds,
	size_t fd_count)
{
	struct client *client = connection->owner;

	return client->vgpu ? on_client_message(client, message)
			    : on_admin_message(client, message);
}

static void on_closed(struct connection *connection, int error)
{
	struct client *client = connection->owner;

	if (error)
		complain("dropped pid %d (uid %u): %s", (int)connection->pid,
			(unsigned)connection->uid, strerror(-error));
	client_destroy(client);
}
