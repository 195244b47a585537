/* SPDX-License-Identifier: MIT
 *
 * See run.h.
 */
#include "gloop/run.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void fail(const char *what, int error)
{
	fprintf(stderr, "%s: cannot %s: %s\n", program.name, what, strerror(error));
	exit(2);
}

uint32_t from_environment(const char *name, uint32_t otherwise)
{
	const char *text = getenv(name);

	return text ? (uint32_t)strtoul(text, NULL, 10) : otherwise;
}

static CUfunction kernel_of(const char *name)
{
	char whole[64];

#ifdef PLAIN
	snprintf(whole, sizeof(whole), "%s_plain", name);
#else
	snprintf(whole, sizeof(whole), "%s", name);
#endif
	return device_kernel(whole);
}

void run_loop(const char *kernel, struct shape shape, void **parameters,
	const struct gloop_options *given)
{
	struct gloop_shape whole = {.grid = {shape.grid_x, shape.grid_y, 1},
		.block = {shape.block_x, shape.block_y, 1}};
	struct gloop_options with = given ? *given : (struct gloop_options){0};
	struct gloop_report report;
	int error;

#if defined(PLAIN) || defined(POLLING)
	with.poll_us = GLOOP_POLL;
#endif
	with.poll_us = from_environment("GLOOP_POLL_US", with.poll_us);
	with.slice_us = from_environment("GLOOP_SLICE_US", with.slice_us);
	error = gloop_run(kernel_of(kernel), &whole, parameters, &with, &report);
	if (error == -EIO)
		CHECK(report.cuda);
	if (error)
		fail("run the kernel's loop", -error);
	if (getenv("GLOOP_REPORT"))
		fprintf(stderr,
			"%s: %llu launches, %llu callbacks, %llu requests; ms: setup %.3f, launched %.3f, between %.3f\n",
			program.name, (unsigned long long)report.launches,
			(unsigned long long)report.callbacks, (unsigned long long)report.requests,
			(double)report.setup_ns / 1e6, (double)report.launched_ns / 1e6,
			(double)report.between_ns / 1e6);
}

void run_persistent(const char *kernel, struct shape shape, void **parameters)
{
#ifdef PLAIN
	launch_kernel(kernel_of(kernel), shape, parameters + 1);
#else
	run_loop(kernel, shape, parameters, NULL);
#endif
}

int temporary_file(const void *bytes, size_t length)
{
	const char *folder = getenv("TMPDIR");
	int fd = open(folder ? folder : "/tmp", O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);

	if (fd < 0)
		fail("make a temporary file", errno);
	for (size_t at = 0; at < length;) {
		ssize_t n = write(fd, (const char *)bytes + at, length - at);

		if (n < 0)
			fail("write a temporary file", errno);
		at += (size_t)n;
	}
	return fd;
}

void cool_file(int fd)
{
	if (!getenv("GLOOP_COLD"))
		return;
	if (fdatasync(fd) < 0 || posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED))
		fail("have a file leave the page cache", errno);
}
