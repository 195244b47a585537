/* SPDX-License-Identifier: MIT
 *
 * A run: what gloop_run() (gloop.c), its launches (launch.c) and its answers (serve.c) share. All of it is on the caller's thread.
 */
#ifndef GDEV_LIB_GLOOP_RUN_H
#define GDEV_LIB_GLOOP_RUN_H

#include "base/clock.h"
#include "lib/gloop/internal.h"

/* After the last request the host looks for more, without a pause; and later with pauses. */
#define LOOK_NS (50 * NS_PER_US)
#define PAUSE_NS (50 * NS_PER_US)

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

/* 0; or -errno, and the report has the result. */
int run_error(struct run *run, CUresult result);

/* ---- serve.c ---- */

/* Takes what blocks ask for, and answers what is done. Whether there was anything to do. */
bool serve_requests(struct run *run);
/* Sleeps until something happens, for `limit_ns` at most; 0: only looks. Returns whether requests were answered, or -errno. */
int serve_events(struct run *run, uint64_t limit_ns);
/* The kernel has left the device, which some waited for. */
void serve_held(struct run *run);

/* ---- launch.c ---- */

/* Until all blocks have ended. 0 or -errno: then the kernel may still be on the device. */
int run_launches(struct run *run);
/* As blocks see it at the ends of their slices. */
void run_tell_to_leave(struct run *run);

#endif
