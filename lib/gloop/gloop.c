/* SPDX-License-Identifier: MIT
 *
 * gloop_run(): the beginning and the end of a run, and the memory that host and device share in it.
 */
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "lib/gloop/run.h"

#define SLICE_US 1000
#define BLOCKS_MAX (1u << 20)
/* Of the pages of all blocks: locking memory takes half a millisecond a MiB and more. */
#define PAGES_BYTES (8u << 20)
#define PAGES_MIN 2 /* of a block: one that is received into, and one for all else */
#define PAGES_MAX 16

int run_error(struct run *run, CUresult result)
{
	if (result == CUDA_SUCCESS)
		return 0;
	run->report->cuda = result;
	return result == CUDA_ERROR_OUT_OF_MEMORY ? -ENOMEM : -EIO;
}

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
	error = run_error(run, cuCtxGetCurrent(&run->host.context));
	if (!error)
		error = run_error(run, cuStreamCreate(&run->stream, CU_STREAM_DEFAULT));
	if (!error)
		engine_init(&run->engine, run->host.context, run->stream);
	if (!error)
		error = run_error(
			run, cuMemAlloc(&run->states, states + sizeof(struct gloop_crowd)));
	if (!error)
		error = run_error(run, cuMemsetD8Async(run->states, 0,
					       states + sizeof(struct gloop_crowd), run->stream));
	if (!error)
		error = run_error(run, area_take(run->host.context, areas + pages, &run->shared));
	if (!error)
		error = run_error(run, cuMemHostGetDevicePointer(&shared, run->shared.memory, 0));
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
	run->grid.fits = run->host.wait && fits(run);
	run->grid.stays = run->options->poll_us || run->grid.fits;
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
		error = run_launches(run);
	if (error && run->lines) /* it may still run, and wait for answers that do not come */
		run_tell_to_leave(run);
	if (run->stream)
		cuStreamSynchronize(run->stream);
	count_callbacks(run);
	finish(run);
	free(run);
	signals_let_go(&signals);
	return error;
}
