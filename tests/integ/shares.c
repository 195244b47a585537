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

static const char ptx[] = ".version 6.0\n"
			  ".target sm_70\n"
			  ".address_size 64\n"
			  ".visible .entry spin(.param .u64 at, .param .u32 rounds)\n"
			  "{\n"
			  "	.reg .u64 %a;\n"
			  "	.reg .u32 %n, %v;\n"
			  "	.reg .pred %p;\n"
			  "	ld.param.u64 %a, [at];\n"
			  "	ld.param.u32 %n, [rounds];\n"
			  "again:\n"
			  "	ld.volatile.global.u32 %v, [%a];\n"
			  "	sub.u32 %n, %n, 1;\n"
			  "	setp.ne.u32 %p, %n, 0;\n"
			  "	@%p bra again;\n"
			  "	ret;\n"
			  "}\n";

static int ordered_to_end(void)
{
	struct pollfd input = {.fd = STDIN_FILENO, .events = POLLIN};

	return poll(&input, 1, 0) != 0;
}

int main(int argc, char **argv)
{
	CUfunction spin = begin_with(ptx, "spin");
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
