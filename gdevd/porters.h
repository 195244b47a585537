/* SPDX-License-Identifier: MIT
 *
 * Porters: processes that take strangers' descriptors in hand, so that gdevd never does.
 *
 * Whoever drops the last reference to a file waits for it: closing a socket may linger, closing a file of a FUSE mount
 * asks its server, which need not answer. So gdevd receives no descriptor that it has not been told is harmless, and
 * closes no socket in which descriptors lie unread. It starts a porter (porter.c), which inherits copies of the
 * sockets in question and of nothing else, and
 *   - looks at one message with copies of its descriptors, and says if they are what such a message may bring: then gdevd
 *     receives it, while the porter has the copies; or
 *   - only outlives gdevd's copies of the sockets, so that the last one is not gdevd's.
 * A porter that hangs costs its user alone: a user has a few at a time, and what waits for one fails after a time.
 */
#ifndef GDEV_GDEVD_PORTERS_H
#define GDEV_GDEVD_PORTERS_H

#include <stddef.h>
#include <stdint.h>

#include "base/list.h"
#include "base/paths.h"
#include "gdevd/deadlines.h"

struct users;

/* What is known of all. */
struct porters {
	struct list all;       /* struct porter */
	char path[PATHS_MAX];  /* of gdev-porter */
	struct deadline again; /* when one could not be started */
	int spare; /* given up to look at a socket when there are no descriptors left; -1 */
};

/* What a user has of them. */
struct porting {
	struct list requests; /* struct porter_request: those that wait for a porter */
	unsigned count;       /* porters that have not ended */
	int *closing;         /* sockets that a porter is to close, */
	size_t closing_count, closing_room;
};

/* What a message may bring. */
struct porter_limits {
	unsigned fds;    /* at most */
	uint64_t memory; /* bytes of a memfd, at most */
	uint64_t device,
		inode; /* of the one other file that may come, which is gdevd's own; 0: none */
};

struct porter_request {
	struct list link;      /* porting.requests */
	struct porter *porter; /* that does it; NULL: none yet, or it is done */
	struct user *user;
	int socket; /* stays the caller's */
	struct porter_limits limits;
	struct deadline late;
	/* Once. 0: the message can be received from its socket now; -EACCES: it must not. */
	void (*answered)(struct porter_request *request, int error);
};

void porters_init(struct users *users);
/* Where the program is: `path`, or beside this program if that is NULL. -errno. */
int porters_find(struct users *users, const char *path);
/* The end: nobody is answered any more. */
void porters_stop(struct users *users);
/* A child of gdevd's has ended. */
void porters_reap(struct users *users);

void porter_request_init(struct porter_request *request,
	void (*answered)(struct porter_request *request, int error));
/* Has the next message of a socket of `user`, who refers to the request's owner, looked at. */
void porters_look(struct porter_request *request, struct user *user, int socket,
	const struct porter_limits *limits);
bool porter_request_waits(const struct porter_request *request);
void porter_request_cancel(struct porter_request *request);

/* Closes a stranger's socket, or has it closed. */
void porters_close(struct user *user, int socket);
/* The same, of a socket that others go on using. */
void porters_let_go(struct user *user, int socket);
/* As porters_close(), if all that is known is whose its peer is. */
void porters_close_of_peer(struct users *users, int socket);
/* Before somebody else closes a socket: a porter will close it last. -errno: it is not to be closed now. */
int porters_outlive(struct user *user, int socket);

#endif
