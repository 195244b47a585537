/* SPDX-License-Identifier: MIT
 *
 * See deadlines.h. A sorted list: there are few at a time, and most are set last.
 */
#include "gdevd/deadlines.h"

#include <errno.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "base/clock.h"

/* A timer that is set for something earlier fires for nothing, and is set again then: most deadlines are put off
 * before they come, which so costs no system call. */
static void arm_timer(struct deadlines *deadlines)
{
	const struct deadline *first = list_first(&deadlines->pending, struct deadline, link);
	struct itimerspec when = {0};

	if (!first || deadlines->armed_ns <= first->at_ns)
		return;
	deadlines->armed_ns = first->at_ns;
	when.it_value.tv_sec = (time_t)(first->at_ns / NS_PER_S);
	when.it_value.tv_nsec = (long)(first->at_ns % NS_PER_S);
	if (!first->at_ns) /* which would stop it */
		when.it_value.tv_nsec = 1;
	timerfd_settime(deadlines->fd, TFD_TIMER_ABSTIME, &when, NULL);
}

static void on_timer(uv_poll_t *poll, int status, int events)
{
	struct deadlines *deadlines = poll->data;
	uint64_t now = clock_now_ns(), times;
	struct deadline *first;

	if (read(deadlines->fd, &times, sizeof times) < 0)
		return; /* set again meanwhile: it has not expired */
	deadlines->armed_ns = UINT64_MAX;
	while ((first = list_first(&deadlines->pending, struct deadline, link)) &&
		first->at_ns <= now) {
		list_remove(&first->link);
		first->expired(first, now);
	}
	arm_timer(deadlines);
}

int deadlines_init(struct deadlines *deadlines, uv_loop_t *loop)
{
	int error;

	list_init(&deadlines->pending);
	deadlines->armed_ns = UINT64_MAX;
	deadlines->poll.data = deadlines;
	deadlines->fd = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
	if (deadlines->fd < 0)
		return -errno;
	error = uv_poll_init(loop, &deadlines->poll, deadlines->fd);
	if (!error)
		error = uv_poll_start(&deadlines->poll, UV_READABLE, on_timer);
	return error;
}

void deadlines_finish(struct deadlines *deadlines)
{
	uv_close((uv_handle_t *)&deadlines->poll, NULL);
	close(deadlines->fd);
	deadlines->fd = -1;
}

void deadline_init(
	struct deadline *deadline, void (*expired)(struct deadline *deadline, uint64_t now_ns))
{
	list_init(&deadline->link);
	deadline->expired = expired;
}

void deadline_set(struct deadlines *deadlines, struct deadline *deadline, uint64_t at_ns)
{
	struct list *position;

	list_remove(&deadline->link);
	if (at_ns == UINT64_MAX)
		return;
	deadline->at_ns = at_ns;
	for (position = deadlines->pending.prev; position != &deadlines->pending;
		position = position->prev)
		if (list_entry(position, struct deadline, link)->at_ns <= at_ns)
			break;
	list_insert(position, &deadline->link);
	if (deadlines->pending.next == &deadline->link)
		arm_timer(deadlines);
}

void deadline_cancel(struct deadline *deadline)
{
	list_remove(&deadline->link);
}
