/* SPDX-License-Identifier: MIT
 *
 * One connection of gdevd to a peer: a non-blocking SOCK_SEQPACKET socket that carries control
 * messages. The peer may be anybody: every message is checked before its owner sees it, descriptors
 * that nobody took are closed, and a peer that does not read what it is sent is dropped when the bounded
 * queue is full. Nothing here ever blocks.
 *
 * A stranger's message is looked at before it is received. If descriptors come with it, and its type may bring some, a
 * porter receives it (porters.h), and nothing more is received meanwhile; if its type brings none, the peer is dropped.
 * A porter also closes the socket of a stranger that has left descriptors unread.
 *
 * A worker's messages are received when they come, also while its user rests (users.h), but for those that wait until it
 * is its user's turn: what stands behind them in the same socket waits with them. All messages of a client wait for that,
 * and until it has read the answers to those before; what it asked before it hung up is not looked at.
 */
#ifndef GDEV_GDEVD_CONNECTION_H
#define GDEV_GDEVD_CONNECTION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include <uv.h>

#include "base/list.h"
#include "gdevd/users.h"
#include "proto/control.h"

struct connection;

#define CONTROL_BEGIN_BYTES sizeof(struct control_shm)

struct connection_ops {
	/* Required. A message whose length and type fit each other. The handler takes a descriptor by
	 * storing -1 in its place. Negative: the peer is malformed, and dropped. The handler may destroy
	 * the connection, and then returns 0. */
	int (*message)(struct connection *connection, const struct control_header *message,
		int *fds, size_t fd_count);
	/* Required. The peer is gone, or was dropped (error < 0). The owner destroys the connection,
	 * before it returns or later. */
	void (*closed)(struct connection *connection, int error);
	/* What a message that begins so may bring, of a stranger: `begin` has CONTROL_BEGIN_BYTES, with zeros behind a
	 * shorter message, and nothing of it has been checked. False, or NULL: no descriptors. */
	bool (*brings)(struct connection *connection, const struct control_header *begin,
		struct porter_limits *limits);
	/* Whether a message of a worker that a client has waits for its user's turn; `begin` as above. NULL: none does. */
	bool (*waits)(struct connection *connection, const struct control_header *begin);
};

struct connection {
	uv_poll_t poll;
	int fd;
	const struct connection_ops *ops;
	void *owner;
	struct user *user; /* NULL: a worker's */
	/* Of the descriptors in the queue, and of what the peer does; NULL: gdevd itself, for a worker that no client has had. */
	struct user *payer;
	enum errand_kind kind;
	struct porter_request porter; /* waits, while a porter has the socket */
	struct errand turn;           /* waits, while there is something to be received */
	struct list queue;            /* struct packet, to be sent */
	size_t queued_bytes, queued_packets, queued_fds;
	bool dead;      /* nothing is received or sent any more */
	bool destroyed; /* freed when libuv lets go */
	int drop_error; /* why, when a send made it dead: reported from the loop */
	/* From the kernel. */
	pid_t pid;
	uid_t uid;
	gid_t gid;
};

/* A worker's; `users` NULL: of one that no client has had. Takes `fd` over, also on failure. */
int connection_create(uv_loop_t *loop, int fd, const struct connection_ops *ops, void *owner,
	struct users *users, struct connection **connection);
/* A client's: its messages are errands of its user. */
int connection_create_client(uv_loop_t *loop, int fd, const struct connection_ops *ops, void *owner,
	struct users *users, enum errand_kind kind, struct connection **connection);
void connection_destroy(struct connection *connection);

/* From now on the descriptors that wait to be sent, and what the peer does, are that user's. */
void connection_charge_to(struct connection *connection, struct user *user);

/* Whether the peer has not closed its end; also of one that is dropped. */
bool connection_has_peer(const struct connection *connection);

/* Sends or queues a message (header.length must be set). The descriptors stay the caller's. A peer
 * that cannot take it is dropped: closed() follows, never from inside this call. NULL: the peer is gone, as is what is said
 * to it. */
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
