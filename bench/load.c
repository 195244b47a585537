/* SPDX-License-Identifier: MIT
 *
 * A load for the benchmarks of scheduling: kernels of a known length, or copies, on and on, and a log of
 * when each was really on the device, which is nobody's claim: every block of a kernel reads the
 * device's clock when it begins and when it ends, and the log keeps the first and the last. Copies are
 * timed by the host; what one takes alone, each load measures itself before it says "ready", and again after its
 * work: it says "over", and reads a line when the others are. How fast the software GPU copies is different in
 * each process (it depends on where its pages lie in the caches), and changes with what else the caches serve.
 *
 *   bench_load --calibrate US       how many rounds of the kernel's loop take so long, alone
 *   bench_load --rounds N ...       the load; says "ready", reads "BEGIN END" (CLOCK_REALTIME, ns) from its
 *                                   input, works from BEGIN to END, and reports one line of JSON
 *
 * The report has `bins`: work done in each 10 ms from BEGIN, in ns: a kernel or a copy counts as many as it
 * takes alone (`unit_ns`; a kernel's: --kernel-ns), spread evenly over the time it was on the device.
 * With --batch, also how long each batch took from its first launch to the end of the wait for it.
 */
#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "device.h"

#define BIN_NS 10000000u
#define STREAMS_MAX 64
#define DEPTH_NS 20000000u /* how much work is launched ahead */
#define DEPTH_MAX 512
#define LOG_MAX (4u << 20) /* kernels */
#define WAITS_MAX (1u << 20)
#define COPY_DEPTH 16    /* so that short copies follow each other, too */
#define CALIBRATIONS 100 /* runs without a better one are enough */
#define COPY_RUNS 400
#define COPY_TRIES 9       /* measurements of what a copy takes, */
#define COPY_AGREE 0.01    /* until three of them are so close together */
#define RUN_NS 1000000u    /* of what calibrates */
#define SHORT_NS 200000u   /* longer kernels are calculated */
#define SPIN_MAX_NS 60000u /* shorter pauses are not worth sleeping for */

/* red.max of the complement of the begin: so the log begins as zeros. The loop's result is used, or there
 * would be no loop. */
static const char spin_ptx[] = ".version 6.0\n"
			       ".target sm_70\n"
			       ".address_size 64\n"
			       ".visible .entry spin(.param .u64 p_rounds, .param .u64 p_log)\n"
			       "{\n"
			       "	.reg .u64 %t, %begin, %n, %x, %log;\n"
			       "	.reg .u32 %id;\n"
			       "	.reg .pred %p, %first;\n"
			       "	ld.param.u64 %log, [p_log];\n"
			       "	ld.param.u64 %n, [p_rounds];\n"
			       "	mov.u32 %id, %tid.x;\n"
			       "	setp.eq.u32 %first, %id, 0;\n"
			       "	mov.u64 %begin, %globaltimer;\n"
			       "	not.b64 %t, %begin;\n"
			       "	@%first red.global.max.u64 [%log], %t;\n"
			       "	cvt.u64.u32 %x, %id;\n"
			       "LOOP:\n"
			       "	mad.lo.u64 %x, %x, %x, 12345;\n"
			       "	sub.u64 %n, %n, 1;\n"
			       "	setp.ne.u64 %p, %n, 0;\n"
			       "	@%p bra LOOP;\n"
			       "	setp.eq.u64 %p, %x, 42;\n"
			       "	@%p st.global.u64 [%log], %x;\n"
			       "	bar.sync 0;\n"
			       "	mov.u64 %t, %globaltimer;\n"
			       "	@%first red.global.max.u64 [%log+8], %t;\n"
			       "	ret;\n"
			       "}\n";

struct entry {
	uint64_t not_begin, end; /* of the device's clock; 0: it has not run */
};

struct flow { /* a stream of kernels */
	CUstream stream;
	CUevent events[2];
	uint64_t launched;
};

struct wait {
	uint64_t begin_ns, end_ns;
};

static struct {
	uint64_t rounds, kernel_ns;
	unsigned calibrate_us, streams, batch, think_us, vary_us, blocks, threads, waves;
	uint64_t copy_bytes;
	bool copies_only, from_device, waits;
	const char *log, *batches;
} options = {.streams = 1, .threads = 1024, .waves = 1};

static struct {
	CUfunction spin;
	int multiprocessors;
	CUdeviceptr log, buffer;
	struct entry *entries;
	uint64_t capacity, launched;
	void *host;
	struct flow flows[STREAMS_MAX];
	uint64_t begin_ns, end_ns;
	int64_t clock_offset_ns; /* CLOCK_REALTIME less the device's clock */
	double unit_ns;          /* what a kernel, or a copy, takes alone */
	double *bins;
	uint64_t bin_count;
	struct wait *waits; /* of batches */
	uint64_t wait_count;
} state;

static uint64_t real_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_REALTIME, &t);
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static void sleep_until(uint64_t at_ns)
{
	struct timespec t = {(time_t)(at_ns / 1000000000u), (long)(at_ns % 1000000000u)};

	if (at_ns > real_ns() + SPIN_MAX_NS)
		while (clock_nanosleep(CLOCK_REALTIME, TIMER_ABSTIME, &t, NULL) == EINTR)
			;
	while (real_ns() < at_ns)
		;
}

static void *require_memory(size_t count, size_t size)
{
	void *memory = calloc(count, size);

	bench_require(!memory, "allocate memory for the log", "too long a run?");
	return memory;
}

/* ---- the device ---- */

static void open_all(void)
{
	CUdevice device;
	CUcontext context;
	CUmodule module;

	must(cuInit(0), "initialise CUDA (is gdevd running?)");
	must(cuDeviceGet(&device, 0), "find a device");
	must(cuDevicePrimaryCtxRetain(&context, device), "open the device");
	must(cuCtxSetCurrent(context), "use the context");
	must(cuModuleLoadData(&module, spin_ptx), "load the kernel");
	must(cuModuleGetFunction(&state.spin, module, "spin"), "find the kernel");
	must(cuDeviceGetAttribute(
		     &state.multiprocessors, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, device),
		"count multiprocessors");
	/* Fills the device, so that kernels of several streams do not overlap. */
	if (!options.blocks)
		options.blocks = (unsigned)state.multiprocessors * 2;
	options.blocks *= options.waves;
	options.kernel_ns *= options.waves;
	for (unsigned i = 0; i < options.streams; i++) {
		struct flow *flow = &state.flows[i];

		must(cuStreamCreate(&flow->stream, CU_STREAM_NON_BLOCKING), "make a stream");
		for (int e = 0; e < 2; e++)
			must(cuEventCreate(&flow->events[e],
				     CU_EVENT_DISABLE_TIMING | CU_EVENT_BLOCKING_SYNC),
				"make an event");
	}
}

static void make_log(uint64_t capacity)
{
	state.capacity = capacity < LOG_MAX ? capacity : LOG_MAX;
	state.entries = require_memory(state.capacity, sizeof(struct entry));
	must(cuMemAlloc(&state.log, state.capacity * sizeof(struct entry)), "allocate the log");
	must(cuMemsetD8(state.log, 0, state.capacity * sizeof(struct entry)), "clear the log");
	must(cuCtxSynchronize(), "wait");
}

static void launch_blocks(CUstream stream, unsigned blocks, uint64_t rounds)
{
	CUdeviceptr entry = state.log + state.launched * sizeof(struct entry);
	void *parameters[] = {&rounds, &entry};

	bench_require(state.launched >= state.capacity, "go on", "the log of kernels is full");
	must(cuLaunchKernel(
		     state.spin, blocks, 1, 1, options.threads, 1, 1, 0, stream, parameters, NULL),
		"launch");
	state.launched++;
}

static void launch_spin(CUstream stream, uint64_t rounds)
{
	launch_blocks(stream, options.blocks, rounds);
}

static void copy(CUstream stream, bool from_device)
{
	if (from_device)
		must(cuMemcpyDtoHAsync(state.host, state.buffer, options.copy_bytes, stream),
			"copy from the device");
	else
		must(cuMemcpyHtoDAsync(state.buffer, state.host, options.copy_bytes, stream),
			"copy to the device");
}

/* The program's own memory, of which the device knows nothing. */
static void copy_own(void)
{
	if (options.from_device)
		must(cuMemcpyDtoH(state.host, state.buffer, options.copy_bytes),
			"copy from the device");
	else
		must(cuMemcpyHtoD(state.buffer, state.host, options.copy_bytes),
			"copy to the device");
}

static void read_log(void)
{
	must(cuCtxSynchronize(), "wait");
	if (state.launched)
		must(cuMemcpyDtoH(state.entries, state.log, state.launched * sizeof(struct entry)),
			"read the log");
}

/* ---- calibrating ---- */

static int compare(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

/* What one of `count` kernels takes, launched one behind the other: from the first's begin to the last's
 * end. */
static double period_ns(uint64_t rounds, unsigned count)
{
	state.launched = 0;
	must(cuMemsetD8(state.log, 0, count * sizeof(struct entry)), "clear the log");
	must(cuCtxSynchronize(), "wait");
	for (unsigned i = 0; i < count; i++)
		launch_spin(state.flows[0].stream, rounds);
	read_log();
	return (double)(state.entries[count - 1].end - ~state.entries[0].not_begin) / count;
}

/* The least of many short runs: whatever else the machine does makes them longer, never shorter. */
static double best_period_ns(uint64_t rounds, double about_ns)
{
	unsigned count = about_ns < RUN_NS / 2 ? (unsigned)(RUN_NS / about_ns) : 2;
	double best = period_ns(rounds, count);

	for (unsigned tries = 0; tries < CALIBRATIONS; tries++) {
		double next = period_ns(rounds, count);

		if (next < best * 0.99)
			tries = 0;
		if (next < best)
			best = next;
	}
	return best;
}

/* What one more round adds to a kernel, of which `rounds` take SHORT_NS. A multiprocessor of the software GPU
 * runs one block at a time: there one block is measured, since on a busy machine all threads of the device
 * are hardly ever undisturbed at once. */
static double round_ns(double rounds)
{
	unsigned blocks = options.blocks;
	double slope;

	if (options.threads == 1) {
		options.blocks = 1;
		rounds *= blocks / 2; /* about as long */
	}
	slope = (best_period_ns((uint64_t)(3 * rounds), 3.0 * SHORT_NS) -
			best_period_ns((uint64_t)rounds, SHORT_NS)) /
		(2 * rounds);
	if (options.threads == 1)
		slope *= (double)blocks / state.multiprocessors;
	options.blocks = blocks;
	return slope;
}

/* Finds how many rounds take so long. A longer kernel is calculated: hardly one run of it would be
 * undisturbed. */
static void calibrate(void)
{
	double wanted = options.calibrate_us * 1e3;
	double near = wanted < SHORT_NS ? wanted : SHORT_NS, rounds = 1000, ns, none;

	make_log(RUN_NS / 500);
	period_ns(100, 2); /* compiles */
	/* What it takes with hardly any rounds is not the rounds'. */
	none = best_period_ns(1, 1000);
	ns = best_period_ns((uint64_t)rounds, near);
	for (int i = 0; i < 3; i++) {
		rounds *= near > 2 * none ? (near - none) / (ns > 1.1 * none ? ns - none : ns)
					  : near / ns;
		if (rounds < 1)
			rounds = 1;
		ns = best_period_ns((uint64_t)rounds, near);
	}
	if (wanted > near) {
		rounds = (wanted - none) / round_ns(rounds);
		ns = wanted;
	}
	printf("{\"rounds\": %.0f, \"kernel_ns\": %.0f}\n", rounds, ns);
}

/* What `count` copies take, issued one behind the other, with the wait for the last; or each waited for. */
static double copies_ns(unsigned count)
{
	uint64_t begin_ns = real_ns();

	for (unsigned i = 0; i < count; i++) {
		if (options.waits)
			copy_own();
		else
			copy(state.flows[0].stream, options.from_device);
	}
	must(cuStreamSynchronize(state.flows[0].stream), "wait");
	return (double)(real_ns() - begin_ns);
}

/* A good run, and not the best: what copies find in the caches of the software GPU varies when nothing
 * disturbs them. */
static double good_ns(double runs[COPY_RUNS])
{
	qsort(runs, COPY_RUNS, sizeof runs[0], compare);
	return runs[COPY_RUNS / 5];
}

/* What one more copy adds. Short and long runs take turns: what disturbs the ones disturbs the others. */
static double copy_ns_once(unsigned few)
{
	double some[COPY_RUNS], more[COPY_RUNS];
	unsigned many = 3 * few;

	for (unsigned i = 0; i < COPY_RUNS; i++) {
		some[i] = copies_ns(few);
		more[i] = copies_ns(many);
	}
	return (good_ns(more) - good_ns(some)) / (many - few);
}

/* The three of several measurements that agree best, or are the first to do so well: what disturbs a machine may last
 * longer than one of them. */
static double copy_ns(void)
{
	double some[COPY_RUNS], found[COPY_TRIES], apart = INFINITY, middle = 0;
	unsigned few, n = 0;

	for (unsigned i = 0; i < COPY_RUNS; i++)
		some[i] = copies_ns(1);
	few = (unsigned)(RUN_NS / 3 / good_ns(some)) + 1;
	while (n < COPY_TRIES && apart > COPY_AGREE) {
		found[n++] = copy_ns_once(few);
		qsort(found, n, sizeof found[0], compare);
		for (unsigned i = 2; i < n; i++) {
			if (found[i - 2] > 0 && found[i] / found[i - 2] - 1 < apart) {
				apart = found[i] / found[i - 2] - 1;
				middle = found[i - 1];
			}
		}
	}
	return middle;
}

/* ---- the log as bins ---- */

static void add_work(uint64_t from_ns, uint64_t to_ns, double work)
{
	double length = to_ns > from_ns ? (double)(to_ns - from_ns) : 1;

	for (uint64_t at = from_ns; at < to_ns || at == from_ns;) {
		uint64_t bin = at < state.begin_ns ? UINT64_MAX : (at - state.begin_ns) / BIN_NS;
		uint64_t next =
			at < state.begin_ns ? state.begin_ns : state.begin_ns + (bin + 1) * BIN_NS;

		if (next > to_ns)
			next = to_ns > at ? to_ns : at + 1;
		if (bin < state.bin_count)
			state.bins[bin] += work * (double)(next - at) / length;
		at = next;
	}
}

static void bin_kernels(void)
{
	for (uint64_t i = 0; i < state.launched; i++) {
		const struct entry *entry = &state.entries[i];
		uint64_t begin_ns = ~entry->not_begin + (uint64_t)state.clock_offset_ns;
		uint64_t end_ns = entry->end + (uint64_t)state.clock_offset_ns;

		if (entry->end)
			add_work(begin_ns, end_ns, state.unit_ns);
	}
}

static FILE *create_file(const char *path)
{
	FILE *file = fopen(path, "w");

	bench_require(!file, "write a log", strerror(errno));
	return file;
}

/* The begin and end of every kernel, as pairs of CLOCK_REALTIME. */
static void write_log(void)
{
	FILE *file = create_file(options.log);

	for (uint64_t i = 0; i < state.launched; i++) {
		uint64_t pair[2] = {~state.entries[i].not_begin + (uint64_t)state.clock_offset_ns,
			state.entries[i].end + (uint64_t)state.clock_offset_ns};

		fwrite(pair, sizeof pair, 1, file);
	}
	fclose(file);
}

static void write_batches(void)
{
	FILE *file = create_file(options.batches);

	fwrite(state.waits, sizeof *state.waits, state.wait_count, file);
	fclose(file);
}

static void print_bins(void)
{
	printf(", \"bins\": [");
	for (uint64_t i = 0; i < state.bin_count; i++)
		printf("%s%.0f", i ? "," : "", state.bins[i]);
	printf("]");
}

static void print_latencies(void)
{
	static const struct {
		const char *name;
		unsigned permille;
	} parts[] = {{"p50_us", 500}, {"p90_us", 900}, {"p99_us", 990}, {"p999_us", 999}};
	double *us = require_memory(state.wait_count, sizeof *us);
	uint64_t n = state.wait_count;

	for (uint64_t i = 0; i < n; i++)
		us[i] = (double)(state.waits[i].end_ns - state.waits[i].begin_ns) / 1e3;
	qsort(us, n, sizeof *us, compare);
	printf(", \"batches\": %llu", (unsigned long long)n);
	for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++)
		printf(", \"%s\": %.1f", parts[i].name, us[n * parts[i].permille / 1000]);
	printf(", \"max_us\": %.1f", us[n - 1]);
	free(us);
}

static void report(uint64_t units)
{
	printf("{\"bin_ns\": %u, \"begin_ns\": %llu, \"units\": %llu, \"unit_ns\": %.0f", BIN_NS,
		(unsigned long long)state.begin_ns, (unsigned long long)units, state.unit_ns);
	if (state.wait_count)
		print_latencies();
	print_bins();
	printf("}\n");
}

/* ---- the loads ---- */

/* Kernels on and on, on all streams; waits for what was launched some time ago. */
static void stream_kernels(void)
{
	uint64_t depth = DEPTH_NS / (options.kernel_ns + 1) / options.streams;

	depth = depth < 2 ? 2 : depth > DEPTH_MAX ? DEPTH_MAX : depth;
	while (real_ns() < state.end_ns) {
		for (unsigned i = 0; i < options.streams; i++) {
			struct flow *flow = &state.flows[i];
			uint64_t half = flow->launched / (depth / 2);

			launch_spin(flow->stream, options.rounds);
			if (++flow->launched % (depth / 2))
				continue;
			must(cuEventRecord(flow->events[half % 2], flow->stream), "record");
			if (half)
				must(cuEventSynchronize(flow->events[(half + 1) % 2]), "wait");
		}
	}
}

/* A program whose pauses are all alike would meet the same moment of others' turns again and again. */
static uint64_t think_ns(void)
{
	static uint64_t random = 88172645463325252ull;
	uint64_t vary_ns = options.vary_us * 1000ull;

	random ^= random << 13;
	random ^= random >> 7;
	random ^= random << 17;
	return options.think_us * 1000ull - vary_ns + (vary_ns ? random % (2 * vary_ns) : 0);
}

/* Batches: launch so many, perhaps with copies around them, wait, think. */
static void batch_kernels(void)
{
	CUstream stream = state.flows[0].stream;
	uint64_t now_ns = real_ns();

	while (now_ns < state.end_ns) {
		uint64_t begin_ns = now_ns;

		if (options.copy_bytes)
			copy(stream, false);
		for (unsigned i = 0; i < options.batch; i++)
			launch_spin(state.flows[i % options.streams].stream, options.rounds);
		if (options.copy_bytes)
			copy(stream, true);
		for (unsigned i = 0; i < options.streams; i++)
			must(cuStreamSynchronize(state.flows[i].stream), "wait");
		now_ns = real_ns();
		if (state.wait_count < WAITS_MAX)
			state.waits[state.wait_count++] = (struct wait){begin_ns, now_ns};
		if (options.think_us) {
			sleep_until(now_ns + think_ns());
			now_ns = real_ns();
		}
	}
}

/* Copies of the program's own memory on and on, each of them waited for. How many there were. */
static uint64_t single_copies(void)
{
	uint64_t count = 0, now_ns = real_ns();

	for (; now_ns < state.end_ns; count++) {
		uint64_t from_ns = now_ns;

		copy_own();
		now_ns = real_ns();
		add_work(from_ns, now_ns, state.unit_ns);
	}
	return count;
}

/* Copies on and on, a few ahead. How many there were. */
static uint64_t stream_copies(void)
{
	CUstream stream = state.flows[0].stream;
	uint64_t issued_ns[COPY_DEPTH], last_ns = 0, count = 0, done = 0;
	CUevent events[COPY_DEPTH];

	for (int i = 0; i < COPY_DEPTH; i++)
		must(cuEventCreate(&events[i], CU_EVENT_DISABLE_TIMING), "make an event");
	while (done < count || real_ns() < state.end_ns) {
		uint64_t now_ns, from_ns;

		while (count < done + COPY_DEPTH && real_ns() < state.end_ns) {
			issued_ns[count % COPY_DEPTH] = real_ns();
			copy(stream, options.from_device);
			must(cuEventRecord(events[count++ % COPY_DEPTH], stream), "record");
		}
		if (done == count)
			break;
		must(cuEventSynchronize(events[done % COPY_DEPTH]), "wait");
		now_ns = real_ns();
		from_ns = issued_ns[done++ % COPY_DEPTH];
		add_work(from_ns > last_ns ? from_ns : last_ns, now_ns, state.unit_ns);
		last_ns = now_ns;
	}
	return done;
}

/* ---- the run ---- */

/* The clocks are compared when a kernel has just ended: the least difference is the nearest. One of one block, lest those
 * of all blocks be taken for as short. */
static void warm_up(void)
{
	state.clock_offset_ns = INT64_MAX;
	for (int i = 0; i < 20; i++) {
		int64_t offset_ns;

		if (options.copy_bytes && !options.waits) {
			copy(state.flows[0].stream, false);
			copy(state.flows[0].stream, true);
		}
		launch_blocks(state.flows[i % options.streams].stream, i ? 1 : options.blocks,
			i ? 1 : options.rounds);
		must(cuCtxSynchronize(), "wait");
		offset_ns = (int64_t)real_ns();
		read_log();
		offset_ns -= (int64_t)state.entries[state.launched - 1].end;
		if (offset_ns < state.clock_offset_ns)
			state.clock_offset_ns = offset_ns;
	}
	must(cuMemsetD8(state.log, 0, state.launched * sizeof(struct entry)), "clear the log");
	must(cuCtxSynchronize(), "wait");
	state.launched = 0;
}

static void wait_for_start(void)
{
	char line[128];

	printf("ready\n");
	fflush(stdout);
	if (!fgets(line, sizeof line, stdin) ||
		sscanf(line, "%" SCNu64 " %" SCNu64, &state.begin_ns, &state.end_ns) != 2 ||
		state.end_ns <= state.begin_ns)
		bench_require(1, "start", "no \"BEGIN END\" on the input");
	state.bin_count = (state.end_ns - state.begin_ns) / BIN_NS;
	state.bins = require_memory(state.bin_count, sizeof *state.bins);
	sleep_until(state.begin_ns);
}

/* The work counts as what it takes alone, on average before and after it. */
static void measure_again(void)
{
	double before_ns = state.unit_ns;
	char line[8];

	printf("over\n");
	fflush(stdout);
	bench_require(!fgets(line, sizeof line, stdin), "measure again", "no line on the input");
	state.unit_ns = (before_ns + copy_ns()) / 2;
	for (uint64_t i = 0; i < state.bin_count; i++)
		state.bins[i] *= state.unit_ns / before_ns;
}

static uint64_t log_capacity(unsigned seconds)
{
	uint64_t each_ns = options.kernel_ns > 2000 ? options.kernel_ns : 2000;

	return options.copies_only ? 64 : seconds * 1000000000ull / each_ns * 5 / 4 + 8192;
}

static void run(unsigned seconds)
{
	uint64_t units;

	state.waits = require_memory(WAITS_MAX, sizeof *state.waits);
	if (options.copy_bytes) {
		must(cuMemAlloc(&state.buffer, options.copy_bytes), "allocate device memory");
		if (options.waits)
			state.host = require_memory(1, options.copy_bytes);
		else
			must(cuMemHostAlloc(&state.host, options.copy_bytes, 0),
				"allocate host memory");
	}
	make_log(log_capacity(seconds));
	warm_up();
	state.unit_ns = options.copies_only ? copy_ns() : (double)options.kernel_ns;
	wait_for_start();
	if (options.copies_only) {
		units = options.waits ? single_copies() : stream_copies();
		measure_again();
	} else {
		if (options.batch)
			batch_kernels();
		else
			stream_kernels();
		read_log();
		bin_kernels();
		if (options.log)
			write_log();
		if (options.batches)
			write_batches();
		units = state.launched;
	}
	report(units);
}

static const char usage[] =
	"Usage: bench_load --calibrate US [--blocks N --threads N]\n"
	"       bench_load --rounds N --kernel-ns NS --seconds S [OPTION]...\n"
	"       bench_load --copy to|from --bytes N --seconds S [--wait]\n"
	"  --streams N    kernels on so many streams (1)\n"
	"  --batch N      launch N, wait; without it kernels follow each other without end\n"
	"  --think-us US  pause after each batch\n"
	"  --vary-us US   … and by so much more or less\n"
	"  --bytes N      with --batch: copy so many in before and out after each\n"
	"  --wait         copies of the program's own memory, each of them waited for\n"
	"  --log FILE     write when each kernel began and ended\n"
	"  --batches FILE write when each batch was launched, and when the wait for it ended\n"
	"  --seconds S    the longest that a run may take\n"
	"  --blocks N, --threads N   shape of the kernel (twice the multiprocessors, 1024)\n"
	"  --waves N      so many times the blocks, and the time that they take\n";

/* False: there is nothing to run with them. */
static bool read_options(int argc, char **argv, unsigned *seconds)
{
	static const struct option names[] = {
		{"calibrate", required_argument, NULL, 'c'},
		{"rounds", required_argument, NULL, 'r'},
		{"kernel-ns", required_argument, NULL, 'k'},
		{"streams", required_argument, NULL, 's'},
		{"batch", required_argument, NULL, 'b'},
		{"think-us", required_argument, NULL, 't'},
		{"copy", required_argument, NULL, 'd'},
		{"bytes", required_argument, NULL, 'y'},
		{"wait", no_argument, NULL, 'w'},
		{"seconds", required_argument, NULL, 'l'},
		{"vary-us", required_argument, NULL, 'v'},
		{"log", required_argument, NULL, 'L'},
		{"batches", required_argument, NULL, 'W'},
		{"blocks", required_argument, NULL, 'B'},
		{"threads", required_argument, NULL, 'T'},
		{"waves", required_argument, NULL, 'N'},
		{0},
	};
	int option;

	while ((option = getopt_long(argc, argv, "", names, NULL)) != -1) {
		uint64_t value = optarg ? strtoull(optarg, NULL, 0) : 0;

		switch (option) {
		case 'c':
			options.calibrate_us = (unsigned)value;
			break;
		case 'r':
			options.rounds = value;
			break;
		case 'k':
			options.kernel_ns = value;
			break;
		case 's':
			options.streams = (unsigned)value;
			break;
		case 'b':
			options.batch = (unsigned)value;
			break;
		case 't':
			options.think_us = (unsigned)value;
			break;
		case 'd':
			options.copies_only = true;
			options.from_device = !strcmp(optarg, "from");
			break;
		case 'y':
			options.copy_bytes = value;
			break;
		case 'w':
			options.waits = true;
			break;
		case 'l':
			*seconds = (unsigned)value;
			break;
		case 'v':
			options.vary_us = (unsigned)value;
			break;
		case 'L':
			options.log = optarg;
			break;
		case 'W':
			options.batches = optarg;
			break;
		case 'B':
			options.blocks = (unsigned)value;
			break;
		case 'T':
			options.threads = (unsigned)value;
			break;
		case 'N':
			options.waves = (unsigned)value;
			break;
		default:
			return false;
		}
	}
	if (options.copies_only)
		options.rounds = 1;
	return (options.calibrate_us || (options.rounds && *seconds)) && options.streams &&
	       options.streams <= STREAMS_MAX && options.vary_us <= options.think_us &&
	       (!options.copies_only || options.copy_bytes);
}

int main(int argc, char **argv)
{
	unsigned seconds = 0;

	if (!read_options(argc, argv, &seconds)) {
		fputs(usage, stderr);
		return 2;
	}
	open_all();
	if (options.calibrate_us)
		calibrate();
	else
		run(seconds);
	return 0;
}
