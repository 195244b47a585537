/* SPDX-License-Identifier: MIT
 *
 * See closer.h. The thread is one of libuv's, which also start workers: the closer never has more than one of them.
 */
#include "gdevd/closer.h"

#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/fd.h"
#include "gdevd/users.h"

static struct {
	uv_loop_t *loop;
	uv_work_t work;
	struct list turns;          /* struct closer_queue: those in which something waits */
	struct closer_queue nobody; /* of no user */
	struct list taken;          /* struct closing: the thread's, while there are any */
} closer;

/* A turn closes one thing of a user's, or so many that are nobody's: each session that ends leaves one to nobody, and no
 * account bounds those. */
#define NOBODYS_MAX 64

static void begin_next(void);

/* On the thread. */
static void close_taken(uv_work_t *work)
{
	struct closing *closing;

	list_for_each (closing, &closer.taken, link)
		fd_close_all(closing->fds, closing->count);
}

static void end_closing(struct closing *closing)
{
	user_release(closing->user, closing->count);
	user_put(closing->user);
	closing->closed(closing);
}

static void on_closed(uv_work_t *work, int status)
{
	struct closing *closing;
	struct list ended;

	/* An end may bring others, which the thread takes at once. */
	list_init(&ended);
	while ((closing = list_first(&closer.taken, struct closing, link))) {
		list_remove(&closing->link);
		list_append(&ended, &closing->link);
	}
	while ((closing = list_first(&ended, struct closing, link))) {
		list_remove(&closing->link);
		end_closing(closing);
	}
	begin_next();
}

static void take_turn(struct closer_queue *queue)
{
	unsigned most = queue == &closer.nobody ? NOBODYS_MAX : 1;
	struct closing *closing;

	while (most-- && (closing = list_first(&queue->waiting, struct closing, link))) {
		list_remove(&closing->link);
		list_append(&closer.taken, &closing->link);
	}
}

static void begin_next(void)
{
	struct closer_queue *queue = list_first(&closer.turns, struct closer_queue, turn);

	if (!list_empty(&closer.taken) || !queue)
		return;
	take_turn(queue);
	list_remove(&queue->turn);
	if (!list_empty(&queue->waiting))
		list_append(&closer.turns, &queue->turn);
	uv_queue_work(closer.loop, &closer.work, close_taken, on_closed);
}

void closer_queue_init(struct closer_queue *queue)
{
	list_init(&queue->waiting);
	list_init(&queue->turn);
}

void closer_init(uv_loop_t *loop)
{
	closer.loop = loop;
	list_init(&closer.turns);
	list_init(&closer.taken);
	closer_queue_init(&closer.nobody);
}

static void add_closing(struct closer_queue *queue, struct closing *closing)
{
	list_append(&queue->waiting, &closing->link);
	if (list_empty(&queue->turn))
		list_append(&closer.turns, &queue->turn);
}

/* From now on it is nobody's. */
static void disown_closing(struct closing *closing)
{
	list_remove(&closing->link);
	closing->user = NULL;
	add_closing(&closer.nobody, closing);
}

void closer_stop(void)
{
	struct closer_queue *queue, *next_queue;
	struct closing *closing;

	if (!closer.loop)
		return;
	list_for_each (closing, &closer.taken, link)
		closing->user = NULL;
	list_for_each_safe (queue, next_queue, &closer.turns, turn) {
		if (queue == &closer.nobody)
			continue;
		list_remove(&queue->turn);
		while ((closing = list_first(&queue->waiting, struct closing, link)))
			disown_closing(closing);
	}
}

void closer_add(struct closing *closing)
{
	user_ref(closing->user);
	user_hold_anyway(closing->user, closing->count);
	add_closing(closing->user ? &closing->user->closings : &closer.nobody, closing);
	begin_next();
}

/* ---- that nobody waits for ---- */

struct simple {
	struct closing closing;
	int fds[];
};

static void free_simple(struct closing *closing)
{
	free(container_of(closing, struct simple, closing));
}

void closer_close(struct user *user, int *fds, size_t count)
{
	struct simple *simple =
		count && closer.loop ? malloc(sizeof *simple + count * sizeof *fds) : NULL;

	if (!simple) {
		fd_close_all(fds, count);
		return;
	}
	simple->closing = (struct closing){
		.user = user, .closed = free_simple, .count = count, .fds = simple->fds};
	memcpy(simple->fds, fds, count * sizeof *fds);
	memset(fds, -1, count * sizeof *fds);
	closer_add(&simple->closing);
}
