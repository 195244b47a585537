/* SPDX-License-Identifier: MIT
 *
 * The process of a worker that is being started. A thread of libuv's waits until it runs the worker program, which may take
 * long on a busy machine. Until then the worker's pid is unknown. What becomes of it is in workers.c.
 */
#ifndef GDEV_GDEVD_WORKER_START_H
#define GDEV_GDEVD_WORKER_START_H

#include <sys/types.h>
#include <uv.h>

#include "base/paths.h"
#include "gdevd/worker_cgroup.h"

struct device;

struct worker_start {
	uv_work_t work;
	struct worker *worker; /* NULL: gdevd ends */
	int sockets[2];        /* gdevd's end and the worker's */
	int error;
	int unbounded; /* 0: it is in its cgroup, or needs none */
	pid_t pid;
	struct worker_cgroups cgroups;
	const char *arguments[32]; /* the last is NULL */
	size_t argument_count, text_bytes;
	char text[PATHS_MAX + 512]; /* of their values */
};

/* What the program is told, of the device and the configuration. */
void worker_start_fill(struct worker_start *start, const struct device *device);
/* On the thread: starts it, with the worker's socket. Leaves the pid, or the error. */
void worker_start_process(uv_work_t *work);

#endif
