/* SPDX-License-Identifier: MIT
 *
 * Keeps the device busy with kernels of a few milliseconds, always some of them queued, until its standard
 * input ends or has something. Prints "busy" when it is, and at the end how many it ran. `shares [ROUNDS]`: how
 * long a kernel is.
 */
#include "program.h"

#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define QUEUED 8

static int ordered_to_end(void)
{
	struct pollfd input = {.fd = STDIN_FILENO, .events = POLLIN};

	return poll(&input, 1, 0) != 0;
}

int main(int argc, char **argv)
{
	CUfunction spin = begin_with(spin_ptx, "spin");
	CUdeviceptr word;
	CUevent events[QUEUED];
	unsigned rounds = argc > 1 ? (unsigned)atoi(argv[1]) : 1000000;
	void *params[] = {&word, &rounds};
	unsigned long count = 0;

	must(cuMemAlloc(&word, 4), "allocate");
	for (int i = 0; i < QUEUED; i++)
		must(cuEventCreate(&events[i], CU_EVENT_DISABLE_TIMING), "create an event");
	for (; !ordered_to_end(); count++) {
		CUevent event = events[count % QUEUED];

		must(cuEventSynchronize(event), "wait for an earlier one");
		must(cuLaunchKernel(spin, 1, 1, 1, 1, 1, 1, 0, NULL, params, NULL), "launch");
		must(cuEventRecord(event, NULL), "record");
		if (count == QUEUED)
			puts("busy");
		fflush(stdout);
	}
	must(cuCtxSynchronize(), "synchronise");
	printf("%lu\n", count);
	for (int i = 0; i < QUEUED; i++)
		cuEventDestroy(events[i]);
	return 0;
}
