/* SPDX-License-Identifier: MIT
 *
 * A load for the benchmarks of scheduling, as load.c: one kernel with event loops that never ends by itself. A callback
 * takes what a block of load.c's kernel takes with as many rounds, and counts itself in page-locked memory, where the
 * host looks every few milliseconds. Protocol and report are load.c's.
 *
 *   bench_load_gloop --rounds N --kernel-ns NS [--blocks N] --threads N
 *
 * Blocks and threads are those with which bench_load was calibrated, since a round takes longer the more threads take turns.
 */
#include <getopt.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include <gdev/gloop.h>

#include "device.h"

#define BIN_NS 10000000u
#define LOOK_NS 2000000
#define CALIBRATE_NS 300000000
#define COUNTER_WORDS 8 /* a counter has a cache line of its own, */
#define STOP_WORD 4     /* with the word that ends its block */

extern const char kernels_ptx[];

static struct {
	unsigned long long rounds, kernel_ns;
	unsigned blocks, threads, seconds;
} options = {.threads = 1024};

static struct {
	CUcontext context;
	CUfunction kernel;
	volatile unsigned long long *counters; /* page-locked */
	atomic_bool over;
	unsigned slice_us; /* 0: the usual */
	int error;
	double *bins;
	uint64_t bin_count, begin_ns, end_ns;
} state;

static uint64_t real_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_REALTIME, &t);
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static void pause_ns(uint64_t ns)
{
	struct timespec t = {(time_t)(ns / 1000000000u), (long)(ns % 1000000000u)};

	nanosleep(&t, NULL);
}

static void open_all(void)
{
	CUdevice device;
	CUmodule module;
	int multiprocessors;
	void *memory;

	must(cuInit(0), "initialise CUDA (is gdevd running?)");
	must(cuDeviceGet(&device, 0), "find a device");
	must(cuDevicePrimaryCtxRetain(&state.context, device), "open the device");
	must(cuCtxSetCurrent(state.context), "use the context");
	must(cuModuleLoadData(&module, kernels_ptx), "load the kernel");
	must(cuModuleGetFunction(&state.kernel, module, "turns"), "find the kernel");
	must(cuDeviceGetAttribute(
		     &multiprocessors, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, device),
		"count multiprocessors");
	if (!options.blocks) /* as load.c */
		options.blocks = (unsigned)multiprocessors * 2;
	must(cuMemHostAlloc(&memory, options.blocks * COUNTER_WORDS * 8, CU_MEMHOSTALLOC_DEVICEMAP),
		"allocate counters");
	state.counters = memory;
}

static void set_stop(bool stop)
{
	for (unsigned i = 0; i < options.blocks; i++)
		state.counters[i * COUNTER_WORDS + STOP_WORD] = stop;
}

static void clear_counters(void)
{
	for (unsigned i = 0; i < options.blocks; i++)
		state.counters[i * COUNTER_WORDS] = 0;
}

static void *run_kernel(void *argument)
{
	struct gloop_shape shape = {.grid = {options.blocks}, .block = {options.threads}};
	CUdeviceptr counters = (CUdeviceptr)(uintptr_t)state.counters;
	struct gloop_options with = {.slice_us = state.slice_us};

	must(cuCtxSetCurrent(state.context), "use the context");
	state.error = gloop_run(
		state.kernel, &shape, (void *[]){NULL, &options.rounds, &counters}, &with, NULL);
	atomic_store(&state.over, true);
	return NULL;
}

static pthread_t start_kernel(void)
{
	pthread_t thread;

	atomic_store(&state.over, false);
	bench_require(pthread_create(&thread, NULL, run_kernel, NULL) != 0, "begin", "no thread");
	return thread;
}

static uint64_t counted(void)
{
	uint64_t sum = 0;

	for (unsigned i = 0; i < options.blocks; i++)
		sum += state.counters[i * COUNTER_WORDS];
	return sum;
}

/* Spread evenly over the time. */
static void add_work(uint64_t from_ns, uint64_t to_ns, double work)
{
	for (uint64_t at = from_ns; at < to_ns;) {
		uint64_t bin = (at - state.begin_ns) / BIN_NS,
			 next = state.begin_ns + (bin + 1) * BIN_NS;

		next = next < to_ns ? next : to_ns;
		if (bin < state.bin_count)
			state.bins[bin] += work * (double)(next - at) / (double)(to_ns - from_ns);
		at = next;
	}
}

static void follow(void)
{
	double unit_ns = (double)options.kernel_ns / options.blocks;
	uint64_t at_ns = state.begin_ns, count = counted();

	while (at_ns < state.end_ns && !atomic_load(&state.over)) {
		uint64_t now_ns, now;

		pause_ns(LOOK_NS);
		now_ns = real_ns();
		now = counted();
		add_work(at_ns, now_ns, (double)(now - count) * unit_ns);
		at_ns = now_ns;
		count = now;
	}
}

/* What a callback takes while all blocks are on the device and stay there: compilers make of a loop in a callback something else
 * than of the same loop in a kernel (on an H200 164 us for 200). The software GPU is not measured so, since a busy machine disturbs it for longer than this. */
static void calibrate(void)
{
	uint64_t begin_ns, begin;
	pthread_t thread;

	state.slice_us = 60000000;
	set_stop(false);
	clear_counters();
	thread = start_kernel();
	while (!counted() && !atomic_load(&state.over))
		pause_ns(LOOK_NS);
	pause_ns(CALIBRATE_NS / 10);
	begin = counted();
	begin_ns = real_ns();
	pause_ns(CALIBRATE_NS);
	options.kernel_ns = (real_ns() - begin_ns) * options.blocks / (counted() - begin + 1);
	set_stop(true);
	pthread_join(thread, NULL);
	bench_require(state.error, "run the kernel", "gloop_run");
	state.slice_us = 0;
}

static void report(void)
{
	printf("{\"bin_ns\": %u, \"begin_ns\": %" PRIu64 ", \"units\": %" PRIu64
	       ", \"unit_ns\": %.0f, \"bins\": [",
		BIN_NS, state.begin_ns, counted(), (double)options.kernel_ns / options.blocks);
	for (uint64_t i = 0; i < state.bin_count; i++)
		printf("%s%.0f", i ? "," : "", state.bins[i]);
	printf("]}\n");
}

static void parse(int argc, char **argv)
{
	static const struct option names[] = {
		{"rounds", required_argument, NULL, 'r'},
		{"kernel-ns", required_argument, NULL, 'k'},
		{"blocks", required_argument, NULL, 'b'},
		{"threads", required_argument, NULL, 't'},
		{"seconds", required_argument, NULL, 's'},
		{0},
	};
	int option;

	while ((option = getopt_long(argc, argv, "", names, NULL)) != -1) {
		unsigned long long value = optarg ? strtoull(optarg, NULL, 10) : 0;

		if (option == 'r')
			options.rounds = value;
		else if (option == 'k')
			options.kernel_ns = value;
		else if (option == 'b')
			options.blocks = (unsigned)value;
		else if (option == 't')
			options.threads = (unsigned)value;
		else if (option != 's')
			exit(2);
	}
	bench_require(!options.rounds || !options.kernel_ns, "begin", "--rounds and --kernel-ns");
}

int main(int argc, char **argv)
{
	pthread_t thread;

	parse(argc, argv);
	open_all();
	set_stop(true);
	run_kernel(NULL); /* compiles it */
	bench_require(state.error, "run the kernel", "gloop_run");
	if (options.threads > 1)
		calibrate();
	puts("ready");
	fflush(stdout);
	bench_require(scanf("%" SCNu64 " %" SCNu64, &state.begin_ns, &state.end_ns) != 2, "begin",
		"no times were given");
	state.bin_count = (state.end_ns - state.begin_ns) / BIN_NS;
	state.bins = calloc(state.bin_count + 1, sizeof(*state.bins));
	bench_require(!state.bins, "begin", "no memory");
	set_stop(false);
	clear_counters();
	while (real_ns() < state.begin_ns)
		pause_ns(100000);
	thread = start_kernel();
	follow();
	set_stop(true);
	pthread_join(thread, NULL);
	bench_require(state.error, "run the kernel", "gloop_run");
	report();
	return 0;
}
