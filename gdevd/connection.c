/* SPDX-License-Identifier: MIT
 *
 * See connection.h.
 *
 * Life: create -> (dead: by end of file, error, or drop) -> closed() -> destroy -> freed by libuv's
 * close callback. While it is dead and not yet destroyed its owner may still look at it.
 */
#include "gdevd/connection.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/log.h"
#include "gdevd/closer.h"
#include "proto/check.h"

#define QUEUE_PACKETS_MAX 256
#define QUEUE_BYTES_MAX (1u << 20)
#define QUEUE_FDS_MAX (8 * FD_PASS_MAX) /* each is one of ours until it is sent */
#define MESSAGES_A_TURN 16              /* then the others' turn; 1 if its user rests */
#define COMPLAINTS_A_SECOND 20

struct packet {
	struct list link;
	size_t length, fd_count;
	int *fds; /* behind the bytes */
	_Alignas(8) char bytes[];
};

void complain(const char *format, ...)
{
	static uint64_t second_ns;
	static unsigned said;
	uint64_t now = clock_now_ns();
	char text[512];
	va_list args;

	if (now - second_ns > NS_PER_S) {
		second_ns = now;
		said = 0;
	}
	if (said++ >= COMPLAINTS_A_SECOND)
		return;
	va_start(args, format);
	vsnprintf(text, sizeof text, format, args);
	va_end(args);
	log_warning("%s", text);
}

static void packet_destroy(struct connection *connection, struct packet *packet)
{
	list_remove(&packet->link);
	connection->queued_bytes -= packet->length;
	connection->queued_packets--;
	connection->queued_fds -= packet->fd_count;
	user_release(connection->payer, packet->fd_count);
	closer_close(connection->payer, packet->fds, packet->fd_count);
	free(packet);
}

static void on_poll(uv_poll_t *poll, int status, int events);

static void watch_socket(struct connection *connection)
{
	bool answers = !list_empty(&connection->queue);
	int events = answers ? UV_WRITABLE : 0;

	if (connection->drop_error)
		events |= UV_READABLE;
	else if (!porter_request_waits(&connection->porter) && !errand_waits(&connection->turn) &&
		 (!connection->user || !answers))
		events |= UV_READABLE;
	if (events)
		uv_poll_start(&connection->poll, events, on_poll);
	else
		uv_poll_stop(&connection->poll);
}

static void mark_dead(struct connection *connection, int error)
{
	if (connection->dead)
		return;
	connection->dead = true;
	uv_poll_stop(&connection->poll);
	errand_cancel(&connection->turn);
	porter_request_cancel(&connection->porter);
	connection->ops->closed(connection, error == -EPIPE || error == -ECONNRESET ? 0 : error);
}

/* Sends what is queued; -errno when the peer is to be dropped. */
static int send_queue(struct connection *connection)
{
	struct packet *packet;

	while ((packet = list_first(&connection->queue, struct packet, link))) {
		int error = fd_send(connection->fd, packet->bytes, packet->length, packet->fds,
			packet->fd_count);
		if (error == -EAGAIN)
			return 0;
		if (error)
			return error;
		packet_destroy(connection, packet);
	}
	return 0;
}

/* Receives a message, and acts on it. */
static int receive(struct connection *connection)
{
	static _Alignas(8) char buffer[CONTROL_BYTES_MAX];
	int fds[FD_PASS_MAX], result;
	size_t fd_count = FD_PASS_MAX;
	ssize_t length = fd_receive(connection->fd, buffer, sizeof buffer, fds, &fd_count);

	if (length < 0)
		return (int)length;
	if (length == 0) {
		fd_close_all(fds, fd_count);
		return -EPIPE;
	}
	result = control_check(buffer, (size_t)length);
	if (!result)
		result = connection->ops->message(
			connection, (struct control_header *)buffer, fds, fd_count);
	fd_close_all(fds, fd_count);
	/* These two mean "no more messages" and "the end" to the caller. */
	return result == -EAGAIN || result == -EPIPE ? -EPROTO : result;
}

/* A porter has looked at the peer's message, or cannot. */
static void on_looked(struct porter_request *request, int error)
{
	struct connection *connection = container_of(request, struct connection, porter);

	if (!error)
		error = receive(connection);
	if (connection->dead)
		return;
	if (error == -EACCES) {
		complain("pid %d (uid %u) sent descriptors that gdevd does not take",
			(int)connection->pid, (unsigned)connection->payer->uid);
		error = -EPROTO;
	}
	if (error < 0)
		mark_dead(connection, error);
	else
		watch_socket(connection);
}

static void wait_for_turn(struct connection *connection)
{
	bool client = connection->user;

	errand_add(&connection->turn, connection->payer, client ? connection->kind : ERRAND_WORK);
	watch_socket(connection);
}

/* 1: a porter looks at the next message, or (unless it is to be received `now`) it waits for its user's turn. 0: it can be
 * received, and brings no descriptors. */
static int look_at_message(struct connection *connection, bool now)
{
	_Alignas(8) char begin[CONTROL_BEGIN_BYTES] = {0};
	struct porter_limits limits = {0};
	bool descriptors;
	ssize_t length = fd_peek(connection->fd, begin, sizeof begin, &descriptors);

	if (length < 0)
		return (int)length;
	if (!length && !descriptors)
		return -EPIPE;
	if (!now && connection->ops->waits &&
		connection->ops->waits(connection, (struct control_header *)begin)) {
		wait_for_turn(connection);
		return 1;
	}
	if (!descriptors)
		return 0;
	if (!connection->ops->brings ||
		!connection->ops->brings(connection, (struct control_header *)begin, &limits))
		return -EPROTO;
	porters_look(&connection->porter, connection->payer, connection->fd, &limits);
	watch_socket(connection);
	return 1;
}

static int receive_one(struct connection *connection, bool now)
{
	int error = connection->payer ? look_at_message(connection, now) : 0;

	if (error)
		return min_of(error, 0);
	return receive(connection);
}

/* Messages of a worker, up to `most`. With an error the rest of what it sent before it went away is received: BYE is such
 * a message. */
static int receive_some(struct connection *connection, int error, unsigned most)
{
	for (unsigned i = 0; i < most && !connection->dead; i++) {
		int received;
		if (porter_request_waits(&connection->porter) || errand_waits(&connection->turn))
			break;
		received = receive_one(connection, error != 0);
		if (received == -EAGAIN)
			break;
		if (received < 0)
			return error ? error : received;
	}
	return error;
}

/* What it says at once is its user's to pay for. Others may hang on it, so it does not wait until the user has rested. */
static int receive_and_pay(struct connection *connection, int error)
{
	struct user *payer = user_ref(connection->payer);
	unsigned most = !error && user_rests(payer, ERRAND_WORK) ? 1 : MESSAGES_A_TURN;
	uint64_t began_ns = clock_thread_cpu_ns();

	if (error)
		errand_cancel(&connection->turn);
	error = receive_some(connection, error, most);
	user_pay(payer, ERRAND_WORK, clock_thread_cpu_ns() - began_ns);
	user_put(payer);
	return error;
}

static void on_poll(uv_poll_t *poll, int status, int events)
{
	struct connection *connection = poll->data;
	int error = status < 0 ? -EPIPE : connection->drop_error;

	if (!error && (events & UV_WRITABLE)) {
		error = send_queue(connection);
		if (!error && list_empty(&connection->queue))
			watch_socket(connection);
	}
	if (connection->user && !error && (events & UV_READABLE)) {
		wait_for_turn(connection);
		return;
	}
	if (!connection->user && (error || (events & UV_READABLE)))
		error = receive_and_pay(connection, error);
	if (error && !connection->dead)
		mark_dead(connection, error);
}

/* It is the user's turn, and this connection's. */
static void on_turn(struct errand *turn)
{
	struct connection *connection = container_of(turn, struct connection, turn);
	int error = connection->drop_error;

	if (!error)
		error = !connection->user || connection_has_peer(connection)
				? receive_one(connection, true)
				: -EPIPE;
	if (connection->dead)
		return;
	if (error < 0 && error != -EAGAIN)
		mark_dead(connection, error);
	else
		watch_socket(connection);
}

/* Of a stranger, if `users` is given. */
static int create_connection(uv_loop_t *loop, int fd, const struct connection_ops *ops, void *owner,
	struct users *users, struct connection **result)
{
	struct ucred peer = {0};
	socklen_t length = sizeof peer;
	struct connection *connection = calloc(1, sizeof *connection);
	int error = -ENOMEM;

	if (!connection)
		goto err_close;
	if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &length)) {
		error = -errno;
		goto err_free;
	}
	connection->fd = fd;
	connection->ops = ops;
	connection->owner = owner;
	connection->pid = peer.pid;
	connection->uid = peer.uid;
	connection->gid = peer.gid;
	connection->poll.data = connection;
	list_init(&connection->queue);
	errand_init(&connection->turn, on_turn);
	porter_request_init(&connection->porter, on_looked);
	if (users && !(connection->payer = user_get(users, peer.uid)))
		goto err_free;
	error = uv_poll_init(loop, &connection->poll, fd); /* makes it non-blocking */
	if (error)
		goto err_put;
	*result = connection;
	return 0;

err_put:
	user_put(connection->payer);
err_free:
	free(connection);
err_close:
	users ? porters_close_of_peer(users, fd) : (void)close(fd);
	return error;
}

int connection_create(uv_loop_t *loop, int fd, const struct connection_ops *ops, void *owner,
	struct users *users, struct connection **connection)
{
	int error = create_connection(loop, fd, ops, owner, users, connection);

	if (!error)
		watch_socket(*connection);
	return error;
}

int connection_create_client(uv_loop_t *loop, int fd, const struct connection_ops *ops, void *owner,
	struct users *users, enum errand_kind kind, struct connection **connection)
{
	int error = create_connection(loop, fd, ops, owner, users, connection);

	if (error)
		return error;
	(*connection)->user = user_ref((*connection)->payer);
	(*connection)->kind = kind;
	watch_socket(*connection);
	return 0;
}

static void on_close(uv_handle_t *handle)
{
	free(handle->data);
}

void connection_destroy(struct connection *connection)
{
	struct packet *packet, *after;

	if (!connection || connection->destroyed)
		return;
	connection->dead = connection->destroyed = true;
	if (!connection->drop_error)
		send_queue(connection); /* a last word, if the socket takes it */
	list_for_each_safe (packet, after, &connection->queue, link)
		packet_destroy(connection, packet);
	errand_cancel(&connection->turn);
	porter_request_cancel(&connection->porter);
	uv_close((uv_handle_t *)&connection->poll, on_close);
	if (connection->payer)
		porters_close(connection->payer, connection->fd);
	else
		close(connection->fd);
	connection->fd = -1;
	user_put(connection->user);
	user_put(connection->payer);
}

void connection_charge_to(struct connection *connection, struct user *user)
{
	if (errand_waits(&connection->turn)) { /* for the turn of another */
		errand_cancel(&connection->turn);
		watch_socket(connection);
	}
	user_release(connection->payer, connection->queued_fds);
	user_put(connection->payer);
	connection->payer = user_ref(user);
	user_hold_anyway(user, connection->queued_fds);
}

bool connection_has_peer(const struct connection *connection)
{
	struct pollfd poll_fd = {.fd = connection->fd};

	return connection->fd >= 0 && poll(&poll_fd, 1, 0) == 0; /* else it has hung up */
}

void connection_drop(struct connection *connection, int error)
{
	if (connection->dead || connection->drop_error)
		return;
	connection->drop_error = error;
	shutdown(connection->fd, SHUT_RD); /* the loop hears of it, also when nothing can be sent */
	watch_socket(connection);
}

static int duplicate_fd(struct connection *connection, int fd)
{
	int copy;

	if (!user_hold(connection->payer, 1))
		return -ENOBUFS;
	copy = fcntl(fd, F_DUPFD_CLOEXEC, 0);
	if (copy >= 0)
		return copy;
	copy = -errno;
	user_release(connection->payer, 1);
	return copy;
}

static int queue_packet(struct connection *connection, const struct control_header *message,
	const int *fds, size_t fd_count)
{
	struct packet *packet;

	if (connection->queued_packets >= QUEUE_PACKETS_MAX ||
		connection->queued_bytes + message->length > QUEUE_BYTES_MAX ||
		connection->queued_fds + fd_count > QUEUE_FDS_MAX)
		return -ENOBUFS;
	packet = malloc(sizeof *packet + align_up(message->length, 8u) + fd_count * sizeof(int));
	if (!packet)
		return -ENOMEM;
	packet->length = message->length;
	packet->fds = (int *)(packet->bytes + align_up(message->length, 8u));
	packet->fd_count = 0;
	memcpy(packet->bytes, message, message->length);
	list_append(&connection->queue, &packet->link);
	connection->queued_bytes += packet->length;
	connection->queued_packets++;
	for (; packet->fd_count < fd_count; packet->fd_count++) {
		int copy = duplicate_fd(connection, fds[packet->fd_count]);
		if (copy < 0) {
			packet_destroy(connection, packet);
			return copy;
		}
		packet->fds[packet->fd_count] = copy;
		connection->queued_fds++;
	}
	watch_socket(connection);
	return 0;
}

void connection_send(
	struct connection *connection, const void *message, const int *fds, size_t fd_count)
{
	const struct control_header *header = message;
	int error = -EAGAIN;

	if (!connection || connection->dead || connection->drop_error)
		return;
	if (list_empty(&connection->queue))
		error = fd_send(connection->fd, message, header->length, fds, fd_count);
	if (error == -EAGAIN)
		error = queue_packet(connection, header, fds, fd_count);
	/* A peer that is gone: its end of file is coming through the loop. */
	if (error && error != -EPIPE && error != -ECONNRESET)
		connection_drop(connection, error);
}

void connection_answer(
	struct connection *connection, enum control_type type, uint32_t serial, int status)
{
	struct control_header header = {
		.length = sizeof header,
		.type = (uint16_t)type,
		.version = CONTROL_VERSION,
		.serial = serial,
		.status = status,
	};

	connection_send(connection, &header, NULL, 0);
}
