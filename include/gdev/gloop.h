/* SPDX-License-Identifier: MIT
 *
 * GLoop: kernels that read and write files and sockets by callbacks, and that leave the device between two callbacks, so
 * that others get their turns (GLoop, MARS 2016). This is the host's side: gloop_run() launches such a kernel and serves it
 * until it has ended. The kernel's side is gdev/gloop.cuh; docs/gloop.md is the guide. It stands on the CUDA Driver API
 * alone.
 */
#ifndef GDEV_GLOOP_H
#define GDEV_GLOOP_H

#include <stdbool.h>
#include <stdint.h>

#include <cuda.h>

#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default)

struct gloop_shape {
	unsigned grid[3], block[3]; /* 0 counts as 1 */
	unsigned shared_bytes;      /* dynamic */
};

/* All zeros is what most want. */
struct gloop_options {
	/* How long a block for which nothing is ready waits on the device. 0 is the paper's blocking mode: it leaves at once,
	 * or when no other block of the kernel has anything to do, is launched again when an answer is there, and the host sleeps while the kernel runs, but for two looks in each slice_us. GLOOP_POLL is the polling mode:
	 * it waits as long as the kernel is on the device, and the host looks for requests all the time: without a pause for 50 us
	 * after the last one, then every 50 us. What is between is a bit of both. */
	uint32_t poll_us;
	/* After so long, at the first boundary of callbacks, a block leaves, so that others can have the device. 0: 1000. Only
	 * if others wait, if blocks of its own kernel do, if an answer is there for one that has left, or, in blocking mode, if one has left
	 * and waits; and after 100 ms, 10 if other threads of the program sleep until something is done. In blocking mode always, if the device cannot hold all blocks at once, or libcuda is not
	 * gdev's. The host looks twice in so long: of 20 us it takes a third of a processor, of 1000 some hundredths. */
	uint32_t slice_us;
	/* Of each of the 2 to 16 pages of a block, in page-locked memory: the most that one call of the kernel reads, writes,
	 * receives or sends. 0: 16384. A multiple of 64, 1 MiB at most. */
	uint32_t page_bytes;
	/* Descriptors that the kernel knows from the start, as 0, 1, …: regular files without O_APPEND, and TCP sockets with
	 * O_NONBLOCK. They stay the caller's: when the kernel closes one it closes a duplicate. At most 1024. */
	const int *descriptors;
	uint32_t descriptor_count;
	/* The kernel has these descriptors and what it accepts on them, and opens, connects and binds nothing: -EPERM. */
	bool confined;
};
#define GLOOP_POLL UINT32_MAX

struct gloop_report {
	uint64_t launches;  /* of the kernel: 1, and 1 for each time that it went on */
	uint64_t callbacks; /* as the kernel counted them */
	uint64_t requests;  /* that the host answered, */
	uint64_t refused;   /* and those of them that made no sense or were not allowed */
	/* Where the time went: memory that both sides use, before the first launch; with the kernel launched, its turn to
	 * come or on the device; between two launches. */
	uint64_t setup_ns, launched_ns, between_ns;
	CUresult cuda; /* with -EIO: what CUDA said */
};

/* Launches a kernel whose first parameter is a `gloop_grid` and whose body is gloop::run(), with the context that is
 * current, and returns when all of its blocks have ended. `parameters`, as cuLaunchKernel takes them: the first is for
 * gloop_run(), which fills it in; NULL, if the kernel has no other. Work that was submitted to the legacy default stream is
 * done before. The calling thread serves the kernel's requests; several threads may run kernels at once. Files that the
 * kernel has left open are closed.
 *
 * 0; or -EINVAL: an option, the shape, or the kernel's parameters; -ENOMEM; -EMFILE; -ENOBUFS: a block registered more than
 * 64 callbacks; -EPROTO: a block did not come through gloop::run(); -EDEADLK: callbacks wait, and nothing is asked for; -EIO:
 * CUDA failed, as `report->cuda` says. `report` may be NULL; it is filled in also on failure. */
int gloop_run(CUfunction kernel, const struct gloop_shape *shape, void **parameters,
	const struct gloop_options *options, struct gloop_report *report);

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif
#endif
