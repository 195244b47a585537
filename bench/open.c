/* SPDX-License-Identifier: MIT
 *
 * What opening a virtual GPU costs: `open METRIC REPETITIONS PAUSE_MS`. Before each it pauses, in which
 * gdevd can make a worker ready. The baseline is starting a process that does nothing, and waiting for
 * it.
 */
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <time.h>

#include <gdev/gdev.h>

#include "bench.h"

static double open_ms(void)
{
	struct gdev_handle *handle;
	uint64_t start = bench_now_ns(), end;
	int error = gopen_name(NULL, &handle);

	end = bench_now_ns();
	bench_require(error, "open the virtual GPU", gdev_strerror(error));
	bench_require(gclose(handle), "close it", "");
	return (double)(end - start) / 1e6;
}

static double process_ms(void)
{
	char name[] = "true", *arguments[] = {name, NULL}, *environment[] = {NULL};
	uint64_t start = bench_now_ns();
	pid_t child;
	int status;

	bench_require(posix_spawn(&child, "/bin/true", NULL, NULL, arguments, environment),
		"start /bin/true", "is it there?");
	waitpid(child, &status, 0);
	return (double)(bench_now_ns() - start) / 1e6;
}

int main(int argc, char **argv)
{
	static struct samples opens, processes;
	int repetitions = argc == 4 ? atoi(argv[2]) : 0, pause_ms = argc == 4 ? atoi(argv[3]) : 0;
	struct timespec pause = {pause_ms / 1000, pause_ms % 1000 * 1000000};

	if (repetitions < 1) {
		fprintf(stderr, "Usage: open METRIC REPETITIONS PAUSE_MS\n");
		return 2;
	}
	open_ms();
	for (int i = 0; i < repetitions; i++) {
		nanosleep(&pause, NULL);
		samples_add(&opens, open_ms());
		samples_add(&processes, process_ms());
	}
	bench_report("open", argv[1], "ms", &opens, &processes);
	return 0;
}
