/* SPDX-License-Identifier: MIT
 *
 * Work of one kind for the device: `charged KIND`. Says "ready" when all that it needs is made and has been used once,
 * and then, for each line that it reads with a number of times, does the work so often and prints how many nanoseconds
 * that was by events of the device. Ends with its standard input.
 *   launches     a kernel
 *   list         a graph of four kernels
 *   inside       a copy within the device
 *   memset       the same bytes filled
 *   together     a cooperative launch
 *   streams      a kernel on each of sixteen streams
 */
#include "program.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define BYTES ((size_t)16 << 20)
#define ROUNDS 3000000
#define STREAMS 16
#define NODES 4

/* It looks at no memory again and again: cooperative blocks of the software GPU would give way to each other there. */
static const char ptx[] = ".version 6.0\n"
			  ".target sm_70\n"
			  ".address_size 64\n"
			  ".visible .entry churn(.param .u64 at, .param .u32 rounds)\n"
			  "{\n"
			  "	.reg .u64 %a;\n"
			  "	.reg .u32 %n, %v;\n"
			  "	.reg .pred %p;\n"
			  "	ld.param.u64 %a, [at];\n"
			  "	ld.param.u32 %n, [rounds];\n"
			  "	mov.u32 %v, %n;\n"
			  "again:\n"
			  "	mad.lo.u32 %v, %v, 1664525, 1013904223;\n"
			  "	sub.u32 %n, %n, 1;\n"
			  "	setp.ne.u32 %p, %n, 0;\n"
			  "	@%p bra again;\n"
			  "	st.global.u32 [%a], %v;\n"
			  "	ret;\n"
			  "}\n";

static CUfunction churn;
static CUdeviceptr memory; /* twice BYTES */
static CUstream streams[STREAMS];
static CUgraphExec list;
static uint32_t rounds = ROUNDS;
static void *parameters[] = {&memory, &rounds};

static void launch(CUstream stream)
{
	must(cuLaunchKernel(churn, 2, 1, 1, 1, 1, 1, 0, stream, parameters, NULL), "launch");
}

static void make_list(void)
{
	CUgraph graph;
	CUstream stream = streams[0];

	must(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_GLOBAL), "begin a list");
	for (int i = 0; i < NODES; i++)
		launch(stream);
	must(cuStreamEndCapture(stream, &graph), "end the list");
	must(cuGraphInstantiate(&list, graph, 0), "make the list");
}

static void on_many_streams(void)
{
	for (int i = 0; i < STREAMS; i++)
		launch(streams[i]);
}

static void work(const char *kind)
{
	CUstream stream = streams[0];

	if (!strcmp(kind, "launches"))
		launch(stream);
	else if (!strcmp(kind, "list"))
		must(cuGraphLaunch(list, stream), "launch the list");
	else if (!strcmp(kind, "inside"))
		must(cuMemcpyDtoDAsync(memory + BYTES, memory, BYTES, stream), "copy");
	else if (!strcmp(kind, "memset"))
		must(cuMemsetD32Async(memory, 7, BYTES / 4, stream), "fill");
	else if (!strcmp(kind, "together"))
		must(cuLaunchCooperativeKernel(churn, 2, 1, 1, 1, 1, 1, 0, stream, parameters),
			"launch together");
	else if (!strcmp(kind, "streams"))
		on_many_streams();
	else
		exit(3);
}

/* By the device: from before the first to after the last of all streams. */
static double timed_ms(const char *kind, unsigned times)
{
	CUevent begin, end, joined;
	float ms;

	must(cuEventCreate(&begin, 0), "create an event");
	must(cuEventCreate(&end, 0), "create an event");
	must(cuEventCreate(&joined, CU_EVENT_DISABLE_TIMING), "create an event");
	must(cuEventRecord(begin, streams[0]), "record");
	for (int i = 1; i < STREAMS; i++)
		must(cuStreamWaitEvent(streams[i], begin, 0), "wait");
	for (unsigned i = 0; i < times; i++)
		work(kind);
	for (int i = 1; i < STREAMS; i++) {
		must(cuEventRecord(joined, streams[i]), "record");
		must(cuStreamWaitEvent(streams[0], joined, 0), "wait");
	}
	must(cuEventRecord(end, streams[0]), "record");
	must(cuCtxSynchronize(), "wait for all");
	must(cuEventElapsedTime(&ms, begin, end), "compare events");
	cuEventDestroy(begin);
	cuEventDestroy(end);
	cuEventDestroy(joined);
	return ms;
}

int main(int argc, char **argv)
{
	const char *kind = argc > 1 ? argv[1] : "";
	char line[32];

	churn = begin_with(ptx, "churn");
	must(cuMemAlloc(&memory, 2 * BYTES), "allocate");
	for (int i = 0; i < STREAMS; i++)
		must(cuStreamCreate(&streams[i], CU_STREAM_NON_BLOCKING), "create a stream");
	make_list();
	timed_ms(kind, 1);
	puts("ready");
	fflush(stdout);
	while (fgets(line, sizeof line, stdin)) {
		printf("%.0f\n", timed_ms(kind, (unsigned)atoi(line)) * 1e6);
		fflush(stdout);
	}
	return 0;
}
