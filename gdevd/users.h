/* SPDX-License-Identifier: MIT
 *
 * Users (uids), and what each has of gdevd: the one place in which that is counted. A user is there as long as a
 * connection, a session or a segment of shared memory refers to it.
 *
 * Descriptors that gdevd holds for users come from one table, of which some are kept for itself. A user other than root and
 * gdevd's own may have a third of the rest, and all of these together seven eighths. For a user there are held: one
 * for each connection; four for each session (its worker's connection, its trace segment, its swap file, and the end of its
 * socket until it is welcome); one for each chunk of a segment and two for its host copies; one for each request of
 * the cache; and those in messages that its clients and workers have not taken yet. What is bounded otherwise, as scrapes of
 * metrics and workers that nobody has, comes from what is kept.
 *
 * And whose turn it is. What clients ask (HELLO, status, metrics, traces) is an errand, which waits in the queue of its
 * user; so is what workers ask, but for what hands the device over (dispatch.c). Between two looks at its sockets gdevd
 * does one errand at most, so what hands the device over waits for one errand at most. Users take turns, and so do the
 * connections of a user. The errands of one user get a part of gdevd's processor, by their kind: so however much one
 * asks, the rest is the other users'. What its workers say without waiting for a turn is paid for too: what they ask waits
 * the longer. Where the user has used its part up gdevd takes one such message of each worker between two looks at its
 * sockets. A message that stands behind one that waits, in the same socket, waits with it.
 */
#ifndef GDEV_GDEVD_USERS_H
#define GDEV_GDEVD_USERS_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>
#include <uv.h>

#include "base/list.h"
#include "gdevd/closer.h"
#include "gdevd/config.h"
#include "gdevd/deadlines.h"
#include "gdevd/porters.h"

struct users {
	struct list all;
	struct list turns; /* struct budget: those with errands that may be done now */
	uv_idle_t idle;    /* runs while there are such */
	struct deadlines *deadlines;
	uint64_t workers_given;              /* ever */
	size_t descriptors, descriptors_max; /* that are held for users, and may be */
	struct porters porters;
};

/* Of clients: HELLO; all else. Of workers. Errands of one kind do not wait for those of another. */
enum errand_kind { ERRAND_OPEN, ERRAND_ASK, ERRAND_WORK, ERRAND_KINDS };

/* What a user may have of gdevd's processor for one kind of errands. */
struct budget {
	struct user *user;
	struct list errands;
	struct list turn;     /* users.turns */
	uint64_t paid_ns;     /* when it has paid for its errands */
	struct deadline rest; /* until then; also keeps a user that is gone and has not paid yet */
};

struct user {
	struct list link; /* users.all */
	struct users *users;
	uid_t uid;
	unsigned references;
	/* What the user has. A file that counts something more bounds it there. */
	unsigned connections; /* of clients: client.c */
	unsigned sessions;
	size_t descriptors;
	unsigned waiting;  /* clients that wait for a worker */
	unsigned scrapes;  /* of metrics */
	unsigned tracers;  /* connections that want to read traces */
	unsigned graphs;   /* that it has published */
	unsigned segments; /* of shared memory, which it has created; */
	struct user_share {
		unsigned segments;
		uint64_t bytes;       /* of those that do not end with sessions */
	} shares[CONFIG_DEVICES_MAX]; /* by device_index() */
	uint64_t given;               /* users.workers_given when it was given a worker last */
	struct porting porting;
	struct closer_queue closings;
	struct budget budgets[ERRAND_KINDS];
};

struct errand {
	struct list link; /* budget.errands */
	/* May free the errand, and what it is part of. */
	void (*run)(struct errand *errand);
};

/* RLIMIT_NOFILE is what it will be. */
void users_init(struct users *users, uv_loop_t *loop, struct deadlines *deadlines);
/* There are no users left, but some that have not paid. */
void users_finish(struct users *users);

/* One reference, for user_put(). NULL: no memory. */
struct user *user_get(struct users *users, uid_t uid);
/* NULL is fine. */
void user_put(struct user *user);

/* One reference more; NULL is fine. */
struct user *user_ref(struct user *user);

/* The user holds so many descriptors more; false: it may not have them. NULL: they are gdevd's own. */
bool user_hold(struct user *user, size_t count);
/* As user_hold(), for descriptors that are there already, whatever the limit is. */
void user_hold_anyway(struct user *user, size_t count);
void user_release(struct user *user, size_t count);

void errand_init(struct errand *errand, void (*run)(struct errand *errand));
/* From now on it waits for its turn; it is no more waiting when it runs. The user must be there as long as it waits. */
void errand_add(struct errand *errand, struct user *user, enum errand_kind kind);
bool errand_waits(const struct errand *errand);
void errand_cancel(struct errand *errand);

/* What the user had done without an errand took so much of gdevd's processor. NULL: gdevd itself. */
void user_pay(struct user *user, enum errand_kind kind, uint64_t used_ns);
/* Whether it has to wait for its turn, as its part is used up. */
bool user_rests(const struct user *user, enum errand_kind kind);

#endif
