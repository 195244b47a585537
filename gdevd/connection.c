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
#include "proto/check.h"

#define QUEUE_PACKETS_MAX 256
#define QUEUE_BYTES_MAX (1u << 20)
#define QUEUE_FDS_MAX (8 * FD_PASS_MAX) /* each is one of ours until it is sent */
#define MESSAGES_A_TURN 16              /* then the others' turn */
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
	fd_close_all(packet->fds, packet->fd_count);
	free(packet);
}

static void on_poll(uv_poll_t *poll, int status, int events);

static void watch(struct connection *connection)
{
	int events = UV_READABLE;

	if (!list_empty(&connection->queue))
		events |= UV_WRITABLE;
	uv_poll_start(&connection->poll, events, on_poll);
}

static void die(struct connection *connection, int error)
{
	if (connection->dead)
		return;
	connection->dead = true;
	uv_poll_stop(&connection->poll);
	connection->ops->closed(connection, error);
}

/* Sends what is queued; -errno when the peer is to be dropped. */
static int flush(struct connection *connection)
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

static int receive_one(struct connection *connection)
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
	for (size_t i = 0; i < fd_count; i++)
		if (fds[i] >= 0)
			close(fds[i]);
	/* These two mean "no more messages" and "the end" to the caller. */
	return result == -EAGAIN || result == -EPIPE ? -EPROTO : result;
}

static void on_poll(uv_poll_t *poll, int status, int events)
{
	struct connection *connection = poll->data;
	int error = status < 0 ? -EPIPE : connection->drop_error;

	if (!error && (events & UV_WRITABLE)) {
		error = flush(connection);
		if (!error && list_empty(&connection->queue))
			watch(connection);
	}
	/* What a peer sent before it went away is still received: BYE is such a message. */
	for (int i = 0; i < MESSAGES_A_TURN && (events & UV_READABLE) && !connection->dead; i++) {
		int received = receive_one(connection);
		if (received == -EAGAIN)
			break;
		if (received < 0) {
			error = error ? error : received;
			break;
		}
	}
	if (error && !connection->dead)
		die(connection, error == -EPIPE || error == -ECONNRESET ? 0 : error);
}

int connection_create(uv_loop_t *loop, int fd, const struct connection_ops *ops, void *owner,
	struct connection **result)
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
	error = uv_poll_init(loop, &connection->poll, fd); /* makes it non-blocking */
	if (error)
		goto err_free;
	watch(connection);
	*result = connection;
	return 0;

err_free:
	free(connection);
err_close:
	close(fd);
	return error;
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
		flush(connection); /* a last word, if the socket takes it */
	list_for_each_safe (packet, after, &connection->queue, link)
		packet_destroy(connection, packet);
	uv_close((uv_handle_t *)&connection->poll, on_close);
	close(connection->fd);
	connection->fd = -1;
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
}

static int enqueue(struct connection *connection, const struct control_header *message,
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
		int copy = fcntl(fds[packet->fd_count], F_DUPFD_CLOEXEC, 0);
		if (copy < 0) {
			int error = -errno;
			packet_destroy(connection, packet);
			return error;
		}
		packet->fds[packet->fd_count] = copy;
		connection->queued_fds++;
	}
	watch(connection);
	return 0;
}

void connection_send(
	struct connection *connection, const void *message, const int *fds, size_t fd_count)
{
	const struct control_header *header = message;
	int error = -EAGAIN;

	if (connection->dead || connection->drop_error)
		return;
	if (list_empty(&connection->queue))
		error = fd_send(connection->fd, message, header->length, fds, fd_count);
	if (error == -EAGAIN)
		error = enqueue(connection, header, fds, fd_count);
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
