/* SPDX-License-Identifier: MIT
 *
 * Kernels' printf on NVIDIA devices. The driver prints to this process's standard output when a stream is
 * synchronised. The worker has no other use for it: it becomes a pipe, from which the bytes go to
 * the client.
 */
#include "device/cuda/cuda.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

#define PIPE_BYTES (1 << 20)

int print_catch(struct device *device)
{
	int ends[2];

	if (pipe2(ends, O_CLOEXEC | O_NONBLOCK))
		return -errno;
	fcntl(ends[1], F_SETPIPE_SZ, PIPE_BYTES); /* best effort: what does not fit is dropped */
	if (dup2(ends[1], STDOUT_FILENO) < 0) {
		int error = -errno;
		close(ends[0]);
		close(ends[1]);
		return error;
	}
	close(ends[1]);
	device->print_pipe = ends[0];
	return 0;
}

void print_release(struct device *device)
{
	close(device->print_pipe);
}

void print_flush(struct device *device)
{
	char bytes[4096];
	ssize_t length;

	fflush(stdout);
	while ((length = read(device->print_pipe, bytes, sizeof bytes)) > 0)
		device->host->print(device->host->owner, bytes, (size_t)length);
}
