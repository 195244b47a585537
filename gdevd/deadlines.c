/* SPDX-License-Identifier: MIT
 *
 * See deadlines.h. A sorted list: there are few at a time, and most are set last.
 */
#include "gdevd/deadlines.h"

#include "base/clock.h"

static void arm(struct deadlines *deadlines);

static void on_timer(uv_timer_t *timer)
{
	struct deadlines *deadlines = timer->data;
	struct deadline *first;
	uint64_t now = clock_now_ns();

	while ((first = list_first(&deadlines->pending, struct deadline, link)) &&
		first->at_ns <= now) {
		list_remove(&first->link);
		first->expired(first, now);
	}
	arm(deadlines);
}

static void arm(struct deadlines *deadlines)
{
	const struct deadline *first = list_first(&deadlines->pending, struct deadline, link);
	uint64_t now = clock_now_ns();
	uint64_t wait_ms = 0;

	if (!first) {
		uv_timer_stop(&deadlines->timer);
		return;
	}
	if (first->at_ns > now) /* rounded up: never early, at most a millisecond late */
		wait_ms = (first->at_ns - now + NS_PER_MS - 1) / NS_PER_MS;
	uv_update_time(deadlines->timer.loop);
	uv_timer_start(&deadlines->timer, on_timer, wait_ms, 0);
}

int deadlines_init(struct deadlines *deadlines, uv_loop_t *loop)
{
	list_init(&deadlines->pending);
	deadlines->timer.data = deadlines;
	return uv_timer_init(loop, &deadlines->timer);
}

void deadlines_finish(struct deadlines *deadlines)
{
	uv_close((uv_handle_t *)&deadlines->timer, NULL);
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
		arm(deadlines);
}

void deadline_cancel(struct deadline *deadline)
{
	list_remove(&deadline->link);
}
