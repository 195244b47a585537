/* SPDX-License-Identifier: MIT
 *
 * gloop_run(): memory that host and device share, launches, and the host event loop between them. Everything here runs on
 * the caller's thread.
 *
 * The kernel is launched, and serves its blocks until each has left (gloop.cuh). Then it is launched again: at once if a
 * block yielded, when an answer is there if all wait. A block that has ended leaves again at once.
 */
#include "lib/gloop/internal.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"

#define SLICE_US 1000
#define LOOK_NS                                                                                    \
	(50 * NS_PER_US) /* after the last request the host looks for more, without a pause */
#define PAUSE_NS (50 * NS_PER_US) /* between two looks, later */
/* A launch lasts so long at most: what waits for the kernel's end in this session waits no longer. */
#define LAUNCH_NS (10 * NS_PER_MS)
#define BLOCKS_MAX (1u << 20)
/* Of the pages of all blocks: locking memory takes half a millisecond a MiB and more. */
#define PAGES_BYTES (8u << 20)
#define PAGES_MIN 2 /* of a block: one that is received into, and one for all else */
#define PAGES_MAX 16
#define EVENTS 64 /* that are taken at once */

struct block {
	uint64_t posted;  /* of its line, as it was last looked at */
	uint64_t answers; /* so far */
};

struct run {
	struct host host;
	const struct gloop_options *options;
	struct gloop_report *report;
	CUfunction kernel;
	struct gloop_shape shape;
	void **parameters;
	uint32_t blocks;

	CUstream stream;
	struct engine engine;
	bool had_turn; /* an engine's */
	CUdeviceptr states;
	struct area shared; /* page-locked: lines, rpcs, pages */
	struct gloop_line *lines;
	struct gloop_rpc *rpcs;
	struct gloop_grid grid;

	struct request *requests; /* a slot's each */
	struct block *block;      /* each */
	struct list timers;       /* requests that wait for time */
	uint64_t waiters;         /* how many wait for descriptors */
	struct list fetching;     /* requests whose pages are being filled */
	struct list held;     /* requests that are answered when the kernel has left the device */
	struct list late;     /* what waits for the end of `holds`: answers, and pages to fill */
	uint64_t launched_ns; /* the last launch */
	bool leaves;          /* a request needs that it ends, */
	bool told;            /* and its blocks are told so; */
	bool holds;           /* until it has, nothing is answered */
	uint32_t busy;        /* requests that are not answered */
	uint64_t active_ns;   /* when the kernel last asked for something */

	struct ring *ring; /* NULL: not needed yet, or there is no io_uring here */
	bool ring_tried;
	struct pool *pool;
	int wake; /* an eventfd: one of the two has done something */
};

static int cuda(struct run *run, CUresult result)
{
	if (result == CUDA_SUCCESS)
		return 0;
	run->report->cuda = result;
	return result == CUDA_ERROR_OUT_OF_MEMORY ? -ENOMEM : -EIO;
}

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

/* Whether there was anything to do. */
static bool serve_requests(struct run *run)
{
	bool asked = take_requests(run);

	return take_answers(run) || asked;
}

static void answer_held(struct run *run)
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

/* Sleeps until something happens, for `limit_ns` at most; 0: only looks. Returns whether requests were answered, or
 * -errno. */
static int wait_for_events(struct run *run, uint64_t limit_ns)
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

/* ---- launches ---- */

static int launch(struct run *run)
{
	const struct gloop_shape *s = &run->shape;
	int error;

	/* Where the process does not reach device memory a block has copied to a page sooner. */
	run->grid.fetches = !run->options->poll_us && (run->host.reaches || !run->had_turn);
	run->grid.launch = (uint32_t)run->report->launches + 1;
	run->leaves = run->told = false;
	run->launched_ns = clock_now_ns();
	run->parameters[0] = &run->grid;
	error = cuda(run, cuLaunchKernel(run->kernel, s->grid[0], s->grid[1], s->grid[2],
				  s->block[0], s->block[1], s->block[2], s->shared_bytes,
				  run->stream, run->parameters, NULL));
	run->parameters[0] = NULL;
	if (error)
		return error;
	run->report->launches++;
	run->engine.kernel_runs = true;
	return 0;
}

/* 1: it has; or -errno. */
static int has_ended(struct run *run)
{
	CUresult result = cuStreamQuery(run->stream);

	return result == CUDA_ERROR_NOT_READY ? 0 : result == CUDA_SUCCESS ? 1 : cuda(run, result);
}

static bool is_to_leave(const struct run *run)
{
	int revoked = 0;

	if (run->leaves || clock_now_ns() - run->launched_ns >= LAUNCH_NS)
		return true;
	if (!run->host.get_revoked)
		return false;
	return run->host.get_revoked(&revoked) != CUDA_SUCCESS || revoked;
}

/* The revocation, as blocks see it at the ends of their slices. */
static void tell_to_leave(struct run *run)
{
	for (uint32_t block = 0; block < run->blocks; block++)
		__atomic_store_n(&run->lines[block].leave, run->grid.launch, __ATOMIC_RELAXED);
	run->told = true;
}

/* Polling: serves the kernel until it has ended. The kernel can wake nobody. */
static int serve_kernel(struct run *run)
{
	int answered = 0;

	while (answered >= 0) {
		int ended = has_ended(run);
		bool busy;

		if (ended)
			return min_of(ended, 0);
		busy = serve_requests(run);
		if (!run->told && is_to_leave(run))
			tell_to_leave(run);
		if (!busy)
			answered = wait_for_events(
				run, clock_now_ns() - run->active_ns < LOOK_NS ? 0 : PAUSE_NS);
	}
	return answered;
}

/* Does what is to be done, and waits for nothing. 0 or -errno. */
static int look(struct run *run)
{
	serve_requests(run);
	return min_of(wait_for_events(run, 0), 0);
}

/* Blocking: sleeps until the kernel has ended, but for two looks a slice. A kernel that is to leave gets no more answers, which would
 * keep it on the device: they need not be there before its next launch. What it asks for is begun. */
static int sleep_beside_kernel(struct run *run)
{
	for (;;) {
		CUresult result = run->host.wait(run->stream, run->grid.slice_ns / 2);
		int error;

		if (result != CUDA_ERROR_NOT_READY)
			return cuda(run, result);
		if (!run->told && is_to_leave(run))
			tell_to_leave(run);
		run->holds = run->told;
		error = look(run);
		if (error)
			return error;
	}
}

static int serve_launch(struct run *run)
{
	if (run->options->poll_us)
		return serve_kernel(run);
	return run->grid.stays ? sleep_beside_kernel(run)
			       : cuda(run, cuStreamSynchronize(run->stream));
}

enum next { NEXT_NOTHING, NEXT_WAIT, NEXT_LAUNCH, NEXT_GO_ON };

/* By how the blocks left: what is next, or -errno. */
static int what_next(struct run *run)
{
	int next = NEXT_NOTHING;

	for (uint32_t block = 0; block < run->blocks; block++) {
		struct gloop_line *line = &run->lines[block];
		bool answered;

		switch (__atomic_load_n(&line->left, __ATOMIC_ACQUIRE)) {
		case GLOOP_ENDED:
			break;
		case GLOOP_YIELDED:
			next = NEXT_GO_ON;
			break;
		case GLOOP_WAITS:
			answered = __atomic_load_n(&line->seen, __ATOMIC_RELAXED) !=
				   run->block[block].answers;
			next = max_of(next, (int)(answered ? NEXT_LAUNCH : NEXT_WAIT));
			break;
		case GLOOP_OVERFULL:
			return -ENOBUFS;
		default:
			return -EPROTO;
		}
	}
	return next;
}

/* The kernel is not on the device: until it has to be, or has ended. */
static int serve_answers(struct run *run)
{
	for (;;) {
		int next = what_next(run), answered;

		if (next != NEXT_WAIT)
			return next;
		if (serve_requests(run))
			continue;
		answered = run->busy ? wait_for_events(run, NS_PER_S) : -EDEADLK;
		if (answered < 0)
			return answered;
	}
}

/* If a block yielded, what others have asked for is done when the kernel is launched again, so that the device need not wait. */
static int serve(struct run *run)
{
	int next = NEXT_LAUNCH;

	do {
		uint64_t begin_ns = clock_now_ns(), end_ns;
		int error = launch(run);

		if (!error && next == NEXT_GO_ON)
			error = look(run);
		if (!error)
			error = serve_launch(run);
		end_ns = clock_now_ns();
		run->report->launched_ns += end_ns - begin_ns;
		if (error)
			return error;
		run->engine.kernel_runs = run->holds = false;
		answer_held(run);
		next = serve_answers(run);
		run->report->between_ns += clock_now_ns() - end_ns;
	} while (next >= NEXT_LAUNCH);
	return next;
}

/* ---- beginning and end ---- */

static uint64_t pick(uint32_t given, uint32_t otherwise)
{
	return given ? given : otherwise;
}

static int check(struct run *run, const struct gloop_shape *shape)
{
	const struct gloop_options *o = run->options;
	uint64_t blocks = 1;

	run->shape = *shape;
	for (int i = 0; i < 3; i++) {
		run->shape.grid[i] = (unsigned)pick(shape->grid[i], 1);
		run->shape.block[i] = (unsigned)pick(shape->block[i], 1);
		blocks *= run->shape.grid[i];
		if (blocks > BLOCKS_MAX)
			return -EINVAL;
	}
	run->blocks = (uint32_t)blocks;
	run->host.page_bytes = (uint32_t)pick(o->page_bytes, GLOOP_PAGE_BYTES);
	run->host.confined = o->confined;
	cuGetProcAddress("cuGdevMemRead", (void **)&run->host.read, CUDA_VERSION, 0, NULL);
	cuGetProcAddress("cuGdevMemWrite", (void **)&run->host.write, CUDA_VERSION, 0, NULL);
	cuGetProcAddress(
		"cuGdevCtxGetRevoked", (void **)&run->host.get_revoked, CUDA_VERSION, 0, NULL);
	cuGetProcAddress("cuGdevStreamWait", (void **)&run->host.wait, CUDA_VERSION, 0, NULL);
	if (run->host.page_bytes % 64 || run->host.page_bytes > GLOOP_PAGE_MAX)
		return -EINVAL;
	run->host.page_count = (uint32_t)max_of(
		PAGES_MIN, min_of(PAGES_MAX, PAGES_BYTES / blocks / run->host.page_bytes));
	return o->descriptor_count > TABLE_FILES ? -EINVAL : 0;
}

static int prepare_table(struct run *run)
{
	for (uint32_t i = 0; i < run->options->descriptor_count; i++) {
		int index = table_add_copy(&run->host.table, run->options->descriptors[i]);

		if (index < 0)
			return index;
	}
	return 0;
}

/* Whether the device can hold all blocks at once. If not, blocks leave for each other, and the host need not look. */
static bool fits(const struct run *run)
{
	const struct gloop_shape *s = &run->shape;
	int each = 0, multiprocessors = 0;
	CUdevice device;

	return cuCtxGetDevice(&device) == CUDA_SUCCESS &&
	       cuDeviceGetAttribute(&multiprocessors, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT,
		       device) == CUDA_SUCCESS &&
	       cuOccupancyMaxActiveBlocksPerMultiprocessor(&each, run->kernel,
		       (int)(s->block[0] * s->block[1] * s->block[2]),
		       s->shared_bytes) == CUDA_SUCCESS &&
	       (uint64_t)each * (uint64_t)multiprocessors >= run->blocks;
}

static int prepare_memory(struct run *run)
{
	size_t slots = (size_t)run->blocks * GLOOP_SLOTS;
	size_t areas = run->blocks * sizeof(struct gloop_line) + slots * sizeof(struct gloop_rpc);
	size_t states = run->blocks * sizeof(struct gloop_state);
	size_t pages = (size_t)run->blocks * run->host.page_count * run->host.page_bytes;
	CUdeviceptr shared;
	int error;

	run->requests = calloc(slots, sizeof(*run->requests));
	run->block = calloc(run->blocks, sizeof(*run->block));
	if (!run->requests || !run->block)
		return -ENOMEM;
	error = cuda(run, cuCtxGetCurrent(&run->host.context));
	if (!error)
		error = cuda(run, cuStreamCreate(&run->stream, CU_STREAM_DEFAULT));
	if (!error)
		engine_init(&run->engine, run->host.context, run->stream);
	if (!error)
		error = cuda(run, cuMemAlloc(&run->states, states + sizeof(struct gloop_crowd)));
	if (!error)
		error = cuda(run, cuMemsetD8Async(run->states, 0,
					  states + sizeof(struct gloop_crowd), run->stream));
	if (!error)
		error = cuda(run, area_take(run->host.context, areas + pages, &run->shared));
	if (!error)
		error = cuda(run, cuMemHostGetDevicePointer(&shared, run->shared.memory, 0));
	if (error)
		return error;
	memset(run->shared.memory, 0, areas);
	run->lines = run->shared.memory;
	run->rpcs = (void *)(run->lines + run->blocks);
	run->host.pages = (char *)run->shared.memory + areas;
	run->grid = (struct gloop_grid){
		.states = (void *)(uintptr_t)run->states,
		.lines = (void *)(uintptr_t)shared,
		.rpcs = (void *)((uintptr_t)shared + run->blocks * sizeof(struct gloop_line)),
		.pages = (void *)((uintptr_t)shared + areas),
		.page_bytes = run->host.page_bytes,
		.slice_ns = pick(run->options->slice_us, SLICE_US) * NS_PER_US,
		.poll_ns = run->options->poll_us * NS_PER_US,
		.page_count = run->host.page_count,
		.crowd = (void *)(uintptr_t)(run->states + states),
		.block_count = run->blocks,
	};
	run->grid.stays = run->options->poll_us || (run->host.wait && fits(run));
	for (size_t i = 0; i < slots; i++)
		run->requests[i] = (struct request){
			.rpc = &run->rpcs[i], .block = (uint32_t)(i / GLOOP_SLOTS), .made = -1};
	return 0;
}

/* After an error requests may be on the way. */
static void finish(struct run *run)
{
	ring_destroy(run->ring);
	pool_destroy(run->pool);
	for (size_t i = 0; run->requests && i < (size_t)run->blocks * GLOOP_SLOTS; i++) {
		if (run->requests[i].made >= 0)
			close(run->requests[i].made);
		if (run->requests[i].mapped)
			cuMemFree(run->requests[i].mapped);
	}
	table_finish(&run->host.table);
	engine_finish(&run->engine);
	maps_finish(&run->host);
	if (run->stream)
		cuStreamDestroy(run->stream);
	if (run->states)
		cuMemFree(run->states);
	area_give(&run->shared);
	free(run->requests);
	free(run->block);
	if (run->wake >= 0)
		close(run->wake);
}

static void count_callbacks(struct run *run)
{
	for (uint32_t block = 0; run->lines && block < run->blocks; block++)
		run->report->callbacks +=
			__atomic_load_n(&run->lines[block].callbacks, __ATOMIC_RELAXED);
}

/* Writing past the limit of a file's size (setrlimit(2)) is an error of the kernel's, and no end of the program: meanwhile the
 * signal of it does not come to this thread. The pool's have none. */
struct signals {
	sigset_t limit, before;
	bool pending; /* already */
};

static void signals_hold(struct signals *s)
{
	sigset_t pending;

	sigemptyset(&s->limit);
	sigaddset(&s->limit, SIGXFSZ);
	sigpending(&pending);
	s->pending = sigismember(&pending, SIGXFSZ);
	pthread_sigmask(SIG_BLOCK, &s->limit, &s->before);
}

static void signals_let_go(const struct signals *s)
{
	static const struct timespec now = {0};

	if (!s->pending)
		sigtimedwait(&s->limit, NULL, &now);
	pthread_sigmask(SIG_SETMASK, &s->before, NULL);
}

int gloop_run(CUfunction kernel, const struct gloop_shape *shape, void **parameters,
	const struct gloop_options *options, struct gloop_report *report)
{
	static const struct gloop_options defaults;
	struct gloop_report unseen;
	void *alone[1] = {NULL};
	struct run *run;
	struct signals signals;
	uint64_t begin_ns = clock_now_ns();
	int error;

	report = report ? report : &unseen;
	*report = (struct gloop_report){0};
	run = calloc(1, sizeof(*run));
	if (!run)
		return -ENOMEM;
	signals_hold(&signals);
	run->kernel = kernel;
	run->options = options ? options : &defaults;
	run->report = report;
	run->parameters = parameters ? parameters : alone;
	list_init(&run->timers);
	list_init(&run->fetching);
	list_init(&run->held);
	list_init(&run->late);
	list_init(&run->host.maps);
	error = table_init(&run->host.table);
	run->wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (!error && run->wake < 0)
		error = -errno;
	if (!error)
		error = check(run, shape);
	if (!error)
		error = prepare_table(run);
	if (!error)
		error = prepare_memory(run);
	if (!error)
		error = pool_create(&run->host, run->wake, &run->pool);
	report->setup_ns = clock_now_ns() - begin_ns;
	if (!error)
		error = serve(run);
	if (error && run->lines) /* it may still run, and wait for answers that do not come */
		tell_to_leave(run);
	if (run->stream)
		cuStreamSynchronize(run->stream);
	count_callbacks(run);
	finish(run);
	free(run);
	signals_let_go(&signals);
	return error;
}
