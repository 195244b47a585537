/* SPDX-License-Identifier: MIT
 *
 * What a bystander of an attack notices: `victim opens COUNT` opens sessions, one after the other with a pause in which
 * a worker can start; `victim launches COUNT` launches a kernel of a fraction of a millisecond and waits for it, again
 * and again. Prints "ready" when it begins and, for each, how many microseconds it took. A COUNT of 0: launches without
 * breaks until its standard input ends, and prints nothing more.
 */
#include "program.h"

#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <gdev/session.h>

#define PAUSE_MS 40 /* between opens */
#define UNCOUNTED 5 /* launches, of which the first compiles */
#define BREAK_MS 2  /* between launches: then it has to ask for the device anew */

static double now_us(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (double)now.tv_sec * 1e6 + (double)now.tv_nsec / 1e3;
}

static void pause_ms(long ms)
{
	struct timespec pause = {.tv_nsec = ms * 1000000};

	nanosleep(&pause, NULL);
}

static void open_one(void)
{
	struct gdev_session *session;
	double start_us = now_us();
	int error = gdev_session_open(NULL, &session);

	if (error) {
		fprintf(stderr, "victim: cannot open a session: %s\n", gdev_strerror(error));
		exit(1);
	}
	printf("%.0f\n", now_us() - start_us);
	gdev_session_close(session);
	pause_ms(PAUSE_MS);
}

static void launch_one(CUfunction spin, CUdeviceptr word, int said)
{
	unsigned rounds = 100000;
	void *params[] = {&word, &rounds};
	double start_us = now_us();

	must(cuLaunchKernel(spin, 1, 1, 1, 1, 1, 1, 0, NULL, params, NULL), "launch");
	must(cuCtxSynchronize(), "wait");
	if (!said)
		return;
	printf("%.0f\n", now_us() - start_us);
	pause_ms(BREAK_MS);
}

static void launch(int count)
{
	struct pollfd input = {.fd = STDIN_FILENO, .events = POLLIN};
	CUfunction spin = begin_with(spin_ptx, "spin");
	CUdeviceptr word;

	must(cuMemAlloc(&word, 4), "allocate");
	puts("ready");
	fflush(stdout);
	for (int i = 0; count ? i < count + UNCOUNTED : !poll(&input, 1, 0); i++)
		launch_one(spin, word, count && i >= UNCOUNTED);
}

int main(int argc, char **argv)
{
	int count = argc == 3 ? atoi(argv[2]) : 0;

	if (argc == 3 && !strcmp(argv[1], "launches")) {
		launch(count);
		return 0;
	}
	puts("ready");
	for (int i = 0; i < count; i++)
		open_one();
	return 0;
}
