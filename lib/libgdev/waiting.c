/* SPDX-License-Identifier: MIT
 *
 * Waiting: first spin, then sleep. A short wait costs no system call: the caller looks at the timeline for
 * up to transport.spin_ns, which the worker may have set, for a device that is worth it. How long depends on how
 * long waits took lately: when they take much longer than spinning does, it spins for a tenth only; when they take a
 * little longer, for twice as long, rather than to sleep just before the end. And where it may spin for as long as
 * waking up takes (WAKE_NS), a wait that is expected to take as long as the last two, which were alike, is slept
 * through until shortly before its end. On machines with few processors it yields while it spins, because the worker
 * may need this one; on others after a while, to any thread that wants this processor.
 *
 * Sleepers register the value that they need in the timeline's `want` word (proto/session.h has the
 * protocol). One of them, the leader, sleeps in poll() on the client's eventfd and on the peer socket; the
 * others sleep on condition variables. A leader that wakes up wakes those whose points are reached. A
 * leader that leaves while others stay hands the leadership to one of them. When the peer socket hangs up, the
 * session is lost and everybody leaves.
 */
#include "lib/libgdev/waiting.h"

#include <errno.h>
#include <poll.h>
#include <sched.h>
#include <stddef.h>
#include <sys/eventfd.h>
#include <sys/sysinfo.h>
#include <time.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "proto/timing.h"

#define LOOKS_BETWEEN_CLOCK_READS 32
#define YIELD_AFTER_NS (50 * NS_PER_US)
#define ALIKE_NS (150 * NS_PER_US) /* two waits that differ by less are followed by a third */

struct waiter {
	struct list link;
	const struct gdev_fence *points;
	unsigned count;
	const atomic_bool *cancel;
	bool is_patient; /* until a point is reached */
	pthread_cond_t wake;
};

int waiting_init(struct waiting *waiting, struct transport *transport, int wake_fd, int peer_fd)
{
	waiting->transport = transport;
	waiting->wake_fd = wake_fd;
	waiting->peer_fd = peer_fd;
	waiting->recent_ns = waiting->last_ns = 0;
	waiting->differed_ns = UINT64_MAX;
	waiting->few_processors = get_nprocs() <= FEW_PROCESSORS;
	waiting->polling = false;
	list_init(&waiting->waiters);
	return -pthread_mutex_init(&waiting->lock, NULL);
}

void waiting_finish(struct waiting *waiting)
{
	pthread_mutex_destroy(&waiting->lock);
}

/* The index of a reached point, or -GDEV_E_NOT_READY. */
static int find_reached(struct waiting *waiting, const struct gdev_fence *points, unsigned count)
{
	for (unsigned i = 0; i < count; i++)
		if (transport_reached(waiting->transport, &points[i]))
			return (int)i;
	return -GDEV_E_NOT_READY;
}

/* How long to look before the first sleep. */
static uint64_t patience_ns(struct waiting *waiting)
{
	uint64_t recent = atomic_load_explicit(&waiting->recent_ns, memory_order_relaxed);
	uint64_t spin_ns = waiting->transport->spin_ns;

	if (recent > 2 * spin_ns)
		return spin_ns / 10;
	return recent > spin_ns && !waiting->few_processors ? 2 * spin_ns : spin_ns;
}

/* How long the next wait is likely to take; 0: nobody knows, or it is not worth looking for its end. */
static uint64_t expected_ns(struct waiting *waiting)
{
	if (waiting->transport->spin_ns < WAKE_NS ||
		atomic_load_explicit(&waiting->differed_ns, memory_order_relaxed) > ALIKE_NS)
		return 0;
	return atomic_load_explicit(&waiting->last_ns, memory_order_relaxed);
}

static void remember_wait(struct waiting *waiting, uint64_t took_ns)
{
	uint64_t recent = atomic_load_explicit(&waiting->recent_ns, memory_order_relaxed);
	uint64_t last = atomic_load_explicit(&waiting->last_ns, memory_order_relaxed);

	atomic_store_explicit(
		&waiting->recent_ns, recent - recent / 8 + took_ns / 8, memory_order_relaxed);
	atomic_store_explicit(&waiting->differed_ns,
		took_ns > last ? took_ns - last : last - took_ns, memory_order_relaxed);
	atomic_store_explicit(&waiting->last_ns, took_ns, memory_order_relaxed);
}

static int spin(
	struct waiting *waiting, const struct waiter *waiter, uint64_t start_ns, uint64_t until_ns)
{
	uint64_t now = start_ns;

	while (now < until_ns) {
		for (int i = 0; i < LOOKS_BETWEEN_CLOCK_READS; i++) {
			int which = find_reached(waiting, waiter->points, waiter->count);
			if (which >= 0)
				return which;
			cpu_relax();
		}
		if (waiting->few_processors || now - start_ns > YIELD_AFTER_NS)
			sched_yield();
		now = clock_now_ns();
	}
	return -GDEV_E_NOT_READY;
}

/* ---- the want words; all under the lock ---- */

static void set_want(struct waiting *waiting, uint32_t timeline)
{
	struct session_segment *segment = waiting->transport->segment;
	uint64_t smallest = 0;
	struct waiter *waiter;

	list_for_each (waiter, &waiting->waiters, link)
		for (unsigned i = 0; i < waiter->count; i++) {
			const struct gdev_fence *point = &waiter->points[i];
			if (point->timeline == timeline && (!smallest || point->value < smallest))
				smallest = point->value;
		}
	if (timeline == POINT_RING)
		__atomic_store_n(&segment->header.ring_want, smallest != 0, __ATOMIC_SEQ_CST);
	else
		__atomic_store_n(&segment->timelines[timeline].want, smallest, __ATOMIC_SEQ_CST);
}

static void set_wants(struct waiting *waiting, const struct waiter *waiter)
{
	for (unsigned i = 0; i < waiter->count; i++)
		set_want(waiting, waiter->points[i].timeline);
	/* The store of want comes before the look at completed that follows. */
	atomic_thread_fence(memory_order_seq_cst);
}

/* ---- sleeping ---- */

static bool waiter_leaves(struct waiting *waiting, const struct waiter *waiter)
{
	return atomic_load(&waiting->transport->lost) ||
	       (waiter->cancel && atomic_load(waiter->cancel)) ||
	       find_reached(waiting, waiter->points, waiter->count) >= 0;
}

static void poll_once(struct waiting *waiting, uint64_t deadline_ns)
{
	struct pollfd fds[] = {{waiting->wake_fd, POLLIN, 0}, {waiting->peer_fd, POLLRDHUP, 0}};
	struct timespec timeout, *limit = NULL;
	eventfd_t count;

	if (deadline_ns != FOREVER) {
		uint64_t now = clock_now_ns(), left = deadline_ns > now ? deadline_ns - now : 0;
		timeout = (struct timespec){(time_t)(left / NS_PER_S), (long)(left % NS_PER_S)};
		limit = &timeout;
	}
	if (ppoll(fds, 2, limit, NULL) <= 0)
		return;
	if (fds[0].revents & POLLIN)
		eventfd_read(waiting->wake_fd, &count);
	if (fds[1].revents)
		atomic_store(&waiting->transport->lost, true);
}

/* Sleeps as the leader, and then wakes those that leave. */
static void sleep_as_leader(struct waiting *waiting, uint64_t deadline_ns)
{
	struct waiter *waiter;

	waiting->polling = true;
	pthread_mutex_unlock(&waiting->lock);
	poll_once(waiting, deadline_ns);
	pthread_mutex_lock(&waiting->lock);
	waiting->polling = false;
	list_for_each (waiter, &waiting->waiters, link)
		if (waiter_leaves(waiting, waiter))
			pthread_cond_signal(&waiter->wake);
}

static void sleep_as_follower(struct waiting *waiting, struct waiter *waiter, uint64_t deadline_ns)
{
	struct timespec until = {(time_t)(deadline_ns / NS_PER_S), (long)(deadline_ns % NS_PER_S)};

	if (deadline_ns == FOREVER)
		pthread_cond_wait(&waiter->wake, &waiting->lock);
	else
		pthread_cond_timedwait(&waiter->wake, &waiting->lock, &until);
}

static void sleep_until(struct waiting *waiting, struct waiter *waiter, uint64_t deadline_ns)
{
	pthread_condattr_t attributes;

	pthread_condattr_init(&attributes);
	pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
	pthread_cond_init(&waiter->wake, &attributes);
	pthread_condattr_destroy(&attributes);
	pthread_mutex_lock(&waiting->lock);
	list_append(&waiting->waiters, &waiter->link);
	waiting->transport->sleepers += waiter->is_patient;
	set_wants(waiting, waiter);
	while (!waiter_leaves(waiting, waiter)) {
		if (deadline_ns != FOREVER && clock_now_ns() >= deadline_ns)
			break;
		if (waiting->polling)
			sleep_as_follower(waiting, waiter, deadline_ns);
		else
			sleep_as_leader(waiting, deadline_ns);
	}
	list_remove(&waiter->link);
	waiting->transport->sleepers -= waiter->is_patient;
	set_wants(waiting, waiter);
	if (!waiting->polling && !list_empty(&waiting->waiters))
		pthread_cond_signal(&list_first(&waiting->waiters, struct waiter, link)->wake);
	pthread_mutex_unlock(&waiting->lock);
	pthread_cond_destroy(&waiter->wake);
}

static int outcome(struct waiting *waiting, const struct waiter *waiter)
{
	int which = find_reached(waiting, waiter->points, waiter->count);

	if (which >= 0)
		return which;
	if (atomic_load(&waiting->transport->lost))
		return transport_error(waiting->transport);
	if (waiter->cancel && atomic_load(waiter->cancel))
		return -ECANCELED;
	return -GDEV_E_NOT_READY;
}

/* Spins, and sleeps until shortly before the end if it is known, to spin then. -GDEV_E_NOT_READY: it took longer. */
static int look_and_nap(
	struct waiting *waiting, struct waiter *waiter, uint64_t start_ns, uint64_t deadline_ns)
{
	uint64_t look_ns = patience_ns(waiting), expected = expected_ns(waiting);
	int which = spin(waiting, waiter, start_ns, min_of(start_ns + look_ns, deadline_ns));

	if (which >= 0 || expected <= look_ns + WAKE_NS)
		return which;
	sleep_until(waiting, waiter, min_of(start_ns + expected - WAKE_NS, deadline_ns));
	if (atomic_load(&waiting->transport->lost)) /* long before that, maybe */
		return which;
	return spin(waiting, waiter, clock_now_ns(),
		min_of(start_ns + expected + WAKE_NS, deadline_ns));
}

int waiting_wait(struct waiting *waiting, const struct gdev_fence *points, unsigned count,
	uint64_t deadline_ns, const atomic_bool *cancel)
{
	struct waiter waiter = {.points = points,
		.count = count,
		.cancel = cancel,
		.is_patient = deadline_ns == FOREVER && !cancel};
	uint64_t start;
	int which;

	if (atomic_load(&waiting->transport->lost))
		return transport_error(waiting->transport);
	which = find_reached(waiting, points, count);
	if (which >= 0 || deadline_ns == 0)
		return which;
	start = clock_now_ns();
	which = cancel ? -GDEV_E_NOT_READY : look_and_nap(waiting, &waiter, start, deadline_ns);
	if (which < 0) {
		sleep_until(waiting, &waiter, deadline_ns);
		which = outcome(waiting, &waiter);
	}
	if (!cancel)
		remember_wait(waiting, clock_now_ns() - start);
	return which;
}

void waiting_cancel(struct waiting *waiting)
{
	struct waiter *waiter;

	pthread_mutex_lock(&waiting->lock);
	list_for_each (waiter, &waiting->waiters, link)
		if (waiter->cancel)
			pthread_cond_signal(&waiter->wake);
	pthread_mutex_unlock(&waiting->lock);
	eventfd_write(waiting->wake_fd, 1);
}
