/* SPDX-License-Identifier: MIT
 *
 * See closer.h. The thread is one of libuv's, which also start workers: the closer never has more than one of them.
 */
#include "gdevd/closer.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/fd.h"
#include "gdevd/users.h"

static struct {
	uv_loop_t *loop;
	uv_work_t work;
	struct list waiting;     /* struct closing */
	struct closing *current; /* the thread's; NULL: it has none */
} closer;

static void next(void);

static void close_fds(struct closing *closing)
{
	for (size_t i = 0; i < closing->count; i++)
		if (closing->fds[i] >= 0)
			close(steal_fd(&closing->fds[i]));
}

/* On the thread. */
static void close_current(uv_work_t *work)
{
	close_fds(closer.current);
}

static void end(struct closing *closing)
{
	user_release(closing->user, closing->count);
	user_put(closing->user);
	closing->closed(closing);
}

static void on_closed(uv_work_t *work, int status)
{
	struct closing *closing = closer.current;

	closer.current = NULL;
	end(closing);
	next();
}

static void next(void)
{
	if (closer.current || !(closer.current = list_first(&closer.waiting, struct closing, link)))
		return;
	list_remove(&closer.current->link);
	uv_queue_work(closer.loop, &closer.work, close_current, on_closed);
}

void closer_init(uv_loop_t *loop)
{
	closer.loop = loop;
	list_init(&closer.waiting);
}

void closer_stop(void)
{
	struct closing *closing;

	if (!closer.loop)
		return;
	if (closer.current)
		closer.current->user = NULL;
	list_for_each (closing, &closer.waiting, link)
		closing->user = NULL;
}

void closer_add(struct closing *closing)
{
	user_ref(closing->user);
	user_hold_anyway(closing->user, closing->count);
	list_append(&closer.waiting, &closing->link);
	next();
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
