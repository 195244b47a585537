/* SPDX-License-Identifier: MIT
 *
 * One connection of gdevd to a peer: a non-blocking SOCK_SEQPACKET socket that carries control
 * messages. The peer may be anybody: every message is checked before its owner sees it, descriptors
 * that nobody took are closed, and a peer that does not read what it is sent is dropped when the bounded
 * queue is full. Nothing here ever blocks.
 */
#ifndef GDEV_GDEVD_CONNECTION_H
#define GDEV_GDEVD_CONNECTION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include <uv.h>

#include "base/list.h"
#include "proto/control.h"

struct connection;

struct connection_ops {
	/* Required. A message whose length and type fit each other. The handler takes a descriptor by
	 * storing -1 in its place. Negative: the peer is malformed, and dropped. The handler may destroy
	 * the connection, and then returns 0. */
	int (*message)(struct connection *connection, const struct control_header *message,
		int *fds, size_t fd_count);
	/* Required. The peer is gone, or was dropped (error < 0). The owner destroys the connection,
	 * before it returns or later. */
	void (*closed)(struct connection *connection, int error);
};

struct connection {
	uv_poll_t poll;
	int fd;
	const struct connection_ops *ops;
	void *owner;
	struct list queue; /* struct packet, to be sent */
	size_t queued_bytes, queued_packets, queued_fds;
	bool dead;      /* nothing is received or sent any more */
	bool destroyed; /* freed when libuv lets go */
	int drop_error; /* why, when a send made it dead: reported from the loop */
	/* From the kernel. */
	pid_t pid;
	uid_t uid;
	gid_t gid;
};

/* Takes `fd` over, also on failure. */
int connection_create(uv_loop_t *loop, int fd, const struct connection_ops *ops, void *owner,
	struct connection **connection);
void connection_destroy(struct connection *connection);

/* Whether the peer has not closed its end; also of one that is dropped. */
bool connection_has_peer(const struct connection *connection);

/* Sends or queues a message (header.length must be set). The descriptors stay the caller's. A peer
 * that cannot take it is dropped: closed() follows, never from inside this call. */
void connection_send(
	struct connection *connection, const void *message, const int *fds, size_t fd_count);

/* An answer that is a header alone, with `request`'s serial. */
void connection_answer(
	struct connection *connection, enum control_type type, uint32_t serial, int status);

/* As a malformed message would: closed() is called from the loop. */
void connection_drop(struct connection *connection, int error);

/* Fills in the header of a message of gdevd's. */
#define control_fill(message, message_type, message_serial)                                        \
	((message)->header = (struct control_header){                                              \
		 .length = sizeof *(message),                                                      \
		 .type = (message_type),                                                           \
		 .version = CONTROL_VERSION,                                                       \
		 .serial = (message_serial),                                                       \
	 })

/* Warns of peers' misbehaviour, at most some lines a second: a flood of it must not become a flood of
 * log lines. */
void complain(const char *format, ...) __attribute__((format(printf, 1, 2)));

#endif
