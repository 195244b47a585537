/* SPDX-License-Identifier: MIT
 *
 * What blocks ask for: taken, done by whom it is for, answered; and what the thread waits for meanwhile.
 */
#include <errno.h>
#include <poll.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>

#include "base/cleanup.h"
#include "lib/gloop/run.h"

#define EVENTS 64 /* that are taken at once */

/* ---- requests and answers ---- */

/* A copy engine has work for the session. Where the process reaches device memory in the session's turns, such a turn has come
 * when that is done, and what follows needs no engine. Whether it does shows after the first. */
static void await_turn(struct run *run)
{
	if (run->host.reaches || !run->had_turn)
		cuStreamSynchronize(run->stream);
	run->had_turn = true;
}

/* The other side sees the result before the numbers, and the slot's number before the line's. */
static void answer(struct run *run, struct request *r)
{
	enum gloop_placed placed;
	uint64_t answers;

	if (run->holds) {
		list_append(&run->late, &r->link);
		return;
	}
	answers = ++run->block[r->block].answers;
	request_finish(&run->host, r);
	if (!r->placed) {
		r->placed = engine_place(&run->engine, r);
		if (r->placed)
			await_turn(run);
	}
	placed = r->again ? GLOOP_FILL : r->placed ? GLOOP_PLACED : GLOOP_IN_PAGE;
	__atomic_store_n(&r->rpc->result, r->result, __ATOMIC_RELAXED);
	__atomic_store_n(&r->rpc->placed, placed, __ATOMIC_RELAXED);
	__atomic_store_n(&r->rpc->done, r->posted, __ATOMIC_RELEASE);
	__atomic_store_n(&run->lines[r->block].done, answers, __ATOMIC_RELEASE);
	r->busy = false;
	run->busy--;
	run->report->requests += !r->again;
	/* The block that waits for it may have left. */
	run->leaves |=
		__atomic_load_n(&run->lines[r->block].launch, __ATOMIC_RELAXED) == run->grid.launch;
}

/* The pool does what the ring does not. */
static void push(struct run *run, struct request *r)
{
	if (!run->ring_tried)
		ring_create(run->wake, &run->ring);
	run->ring_tried = true;
	if (r->unfilled || !ring_push(run->ring, r))
		pool_push(run->pool, r);
}

/* A copy engine does; or the block, which asks again. */
static void fill(struct run *run, struct request *r)
{
	if (run->holds) {
		list_append(&run->late, &r->link);
		return;
	}
	if (engine_fetch(&run->engine, r)) {
		list_append(&run->fetching, &r->link);
		await_turn(run);
		return;
	}
	r->again = true;
	r->result = 0;
	answer(run, r);
}

/* For time, or for a descriptor. */
static void await(struct run *run, struct request *r)
{
	int error;

	if (request_is_timer(r)) {
		list_append(&run->timers, &r->link);
		return;
	}
	error = request_wait(&run->host, r);
	if (error) {
		r->result = error;
		answer(run, r);
		return;
	}
	run->waiters++;
}

static void go_on(struct run *run, struct request *r)
{
	if (request_try(&run->host, r))
		answer(run, r);
	else if (request_needs_page(r))
		fill(run, r);
	else if (request_blocks(r))
		push(run, r);
	else
		await(run, r);
}

/* What it maps the launch did not know; to free what it unmaps waits for the kernel's end. */
static void hold(struct run *run, struct request *r)
{
	list_append(&run->held, &r->link);
	run->leaves = true;
}

static void start(struct run *run, struct request *r)
{
	int error = request_take(&run->host, r);

	r->busy = true;
	run->busy++;
	if (error) {
		r->result = error;
		run->report->refused++;
		answer(run, r);
	} else if (request_copies(r)) {
		if (engine_copy(&run->engine, r))
			answer(run, r);
	} else if (request_unmaps(r) && run->engine.kernel_runs) {
		hold(run, r);
	} else {
		go_on(run, r);
	}
}

static void take_requests_of(struct run *run, uint32_t block)
{
	for (uint32_t slot = 0; slot < GLOOP_SLOTS; slot++) {
		struct request *r = &run->requests[block * GLOOP_SLOTS + slot];
		uint64_t posted = __atomic_load_n(&r->rpc->posted, __ATOMIC_ACQUIRE);

		if (r->busy || posted == r->posted)
			continue;
		r->posted = posted;
		start(run, r);
	}
}

/* One wait for all: the copies are on the kernel's stream, and the kernel is not on the device. */
static void take_fetched(struct run *run)
{
	CUresult result = CUDA_SUCCESS;
	struct request *r;

	if (!list_empty(&run->fetching))
		result = cuStreamSynchronize(run->stream);
	while ((r = list_first(&run->fetching, struct request, link))) {
		list_remove(&r->link);
		r->unfilled = false;
		if (result == CUDA_SUCCESS) {
			go_on(run, r);
			continue;
		}
		r->result = -EIO;
		answer(run, r);
	}
}

/* Whether there were any. */
static bool take_requests(struct run *run)
{
	bool any = false;

	for (uint32_t block = 0; block < run->blocks; block++) {
		uint64_t posted = __atomic_load_n(&run->lines[block].posted, __ATOMIC_ACQUIRE);

		if (posted == run->block[block].posted)
			continue;
		run->block[block].posted = posted;
		take_requests_of(run, block);
		any = true;
	}
	if (any)
		run->active_ns = clock_now_ns();
	return any;
}

static bool take_answers(struct run *run)
{
	struct request *r;
	bool any = false;

	while ((r = engine_take(&run->engine))) {
		any = true;
		answer(run, r);
	}
	while ((r = ring_take(run->ring))) {
		any = true;
		if (r->result == -EAGAIN)
			pool_push(run->pool, r);
		else
			answer(run, r);
	}
	while ((r = pool_take(run->pool))) {
		any = true;
		if (request_needs_page(r))
			fill(run, r);
		else if (r->mapped && run->engine.kernel_runs)
			hold(run, r);
		else
			answer(run, r);
	}
	while (!run->holds && (r = list_first(&run->late, struct request, link))) {
		list_remove(&r->link);
		any = true;
		if (request_needs_page(r))
			fill(run, r);
		else
			answer(run, r);
	}
	take_fetched(run);
	return any;
}

bool serve_requests(struct run *run)
{
	bool asked = take_requests(run);

	return take_answers(run) || asked;
}

void serve_held(struct run *run)
{
	struct request *r;

	while ((r = list_first(&run->held, struct request, link))) {
		list_remove(&r->link);
		if (r->mapped)
			answer(run, r);
		else
			go_on(run, r);
	}
}

/* ---- waiting ---- */

static uint64_t next_deadline(const struct run *run)
{
	uint64_t deadline_ns = UINT64_MAX;
	struct request *r;

	list_for_each (r, &run->timers, link)
		deadline_ns = min_of(deadline_ns, r->deadline_ns);
	return deadline_ns;
}

static bool try_timers(struct run *run)
{
	struct request *r, *after;
	bool any = false;

	list_for_each_safe (r, after, &run->timers, link) {
		if (!request_try(&run->host, r))
			continue;
		list_remove(&r->link);
		answer(run, r);
		any = true;
	}
	return any;
}

/* Each in its turn, until one has to wait on. An answer may close the descriptor. */
static bool try_waiters(struct run *run, struct watch *watch, enum side side)
{
	bool any = false;

	while (watch->is_on) {
		struct request *r = list_first(&watch->waiters[side], struct request, link);

		if (!r || !request_try(&run->host, r))
			break;
		list_remove(&r->link);
		run->waiters--;
		answer(run, r);
		any = true;
	}
	return any;
}

/* Those whose descriptors have become ready, which each is told once. */
static bool try_ready(struct run *run)
{
	struct epoll_event events[EVENTS];
	bool any = false;
	int count;

	do {
		count = epoll_wait(run->host.table.epoll, events, EVENTS, 0);
		for (int i = 0; i < count; i++)
			for (enum side side = 0; side < SIDES; side++)
				any |= try_waiters(run, events[i].data.ptr, side);
	} while (count == EVENTS);
	return any;
}

int serve_events(struct run *run, uint64_t limit_ns)
{
	struct pollfd polled[] = {{run->wake, POLLIN, 0}, {run->host.table.epoll, POLLIN, 0}};
	uint64_t now_ns = clock_now_ns(), deadline_ns = next_deadline(run);
	struct timespec time;
	eventfd_t rung;
	bool any = false;

	if (engine_is_busy(&run->engine)) /* which wakes nobody */
		limit_ns = min_of(limit_ns, now_ns - run->active_ns < LOOK_NS ? 0 : PAUSE_NS);
	if (!limit_ns && !run->waiters && list_empty(&run->timers)) {
		cpu_relax();
		return 0;
	}
	if (deadline_ns != UINT64_MAX)
		limit_ns = min_of(limit_ns, deadline_ns > now_ns ? deadline_ns - now_ns : 0);
	time = (struct timespec){(time_t)(limit_ns / NS_PER_S), (long)(limit_ns % NS_PER_S)};
	if (ppoll(polled, array_length(polled), &time, NULL) < 0)
		return errno == EINTR ? 0 : -errno;
	if (polled[0].revents)
		eventfd_read(run->wake, &rung);
	if (polled[1].revents)
		any = try_ready(run);
	return try_timers(run) || any;
}
