/* SPDX-License-Identifier: MIT
 *
 * Launches of a run. The kernel is launched, and serves its blocks until each has left (gloop.cuh). Then it is launched again: at
 * once if a block yielded, when an answer is there if all wait. A block that has ended leaves again at once.
 */
#include <errno.h>

#include "base/cleanup.h"
#include "lib/gloop/run.h"

/* A launch lasts so long at most. Each block that leaves waits for the last one: a callback or a slice, about half a millisecond. */
#define LAUNCH_NS (100 * NS_PER_MS)
/* So long if it is known that something waits for the kernel's end in this session, or not known who waits. */
#define AWAITED_NS (10 * NS_PER_MS)

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
	error = run_error(run, cuLaunchKernel(run->kernel, s->grid[0], s->grid[1], s->grid[2],
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

	return result == CUDA_ERROR_NOT_READY ? 0
	       : result == CUDA_SUCCESS       ? 1
					      : run_error(run, result);
}

static bool is_to_leave(const struct run *run)
{
	uint64_t age_ns = clock_now_ns() - run->launched_ns;
	int revoked = CU_GDEV_AWAITED;

	if (run->leaves || age_ns >= LAUNCH_NS)
		return true;
	if (run->host.get_revoked && run->host.get_revoked(&revoked) != CUDA_SUCCESS)
		return true;
	return revoked == CU_GDEV_AWAITED ? age_ns >= AWAITED_NS : revoked;
}

/* The revocation, as blocks see it at the ends of their slices. */
void run_tell_to_leave(struct run *run)
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
			run_tell_to_leave(run);
		if (!busy)
			answered = serve_events(
				run, clock_now_ns() - run->active_ns < LOOK_NS ? 0 : PAUSE_NS);
	}
	return answered;
}

/* Does what is to be done, and waits for nothing. 0 or -errno. */
static int look(struct run *run)
{
	serve_requests(run);
	return min_of(serve_events(run, 0), 0);
}

/* Blocking: sleeps until the kernel has ended, but for two looks a slice. A kernel that is to leave gets no more answers, which would
 * keep it on the device: they need not be there before its next launch. What it asks for is begun. */
static int sleep_beside_kernel(struct run *run)
{
	for (;;) {
		CUresult result = run->host.wait(run->stream, run->grid.slice_ns / 2);
		int error;

		if (result != CUDA_ERROR_NOT_READY)
			return run_error(run, result);
		if (!run->told && is_to_leave(run))
			run_tell_to_leave(run);
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
			       : run_error(run, cuStreamSynchronize(run->stream));
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
		answered = run->busy ? serve_events(run, NS_PER_S) : -EDEADLK;
		if (answered < 0)
			return answered;
	}
}

/* If a block yielded, what others have asked for is done when the kernel is launched again, so that the device need not wait. */
int run_launches(struct run *run)
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
		serve_held(run);
		next = serve_answers(run);
		run->report->between_ns += clock_now_ns() - end_ns;
	} while (next >= NEXT_LAUNCH);
	return next;
}
