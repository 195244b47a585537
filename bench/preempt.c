/* SPDX-License-Identifier: MIT
 *
 * How long it takes until a kernel has left the device, between two blocks, after it was told to. A backend by itself, in one
 * process, as in device_direct.c: no scheduler decides, and nobody else wants the device.
 *
 *   bench_preempt [DEVICE [BLOCK_US [THREADS]]]        cpu, 50 and 256, if nothing is said
 *
 * A kernel of KERNEL_MS, of blocks that take BLOCK_US each by the device's clock, is stopped ROUNDS times at random moments and
 * goes on. `gone` is from the call to when nothing runs any more, `goes_on` from the call that lets it go on to when the host
 * may submit again, `block` what a block takes: the least that `gone` could be on average is half of that. `lost` is how
 * much longer than without stops the kernel took, for each.
 *
 * It ends with an error when a wait has lasted for WAIT_S, and says which; and when the kernel was over before UNSTOPPED attempts
 * in a row to stop it, as it is where it has not been rewritten.
 */
#include "bench.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "device/ops.h"

#define ARENA_BASE 0x300000000000ull
#define ARENA_BYTES (64ull << 20)
#define KERNEL_MS 100
#define ROUNDS 400
#define RUN_US_MAX 6000
#define THREADS_MAX 256
#define WAIT_S 60
#define UNSTOPPED 20

static const char block_ptx[] =
	".version 6.0\n.target sm_70\n.address_size 64\n"
	".visible .entry block(.param .u64 ns)\n{\n"
	"\t.reg .pred %p;\n\t.reg .u64 %d<4>;\n"
	"\tld.param.u64 %d1, [ns];\n\tmov.u64 %d2, %globaltimer;\n\tadd.u64 %d1, %d1, %d2;\n"
	"AGAIN:\n\tmov.u64 %d2, %globaltimer;\n\tsetp.lt.u64 %p, %d2, %d1;\n\t@%p bra AGAIN;\n"
	"\tret;\n}\n";

static struct {
	const struct device_ops *ops;
	struct device *device;
	struct device_space *space;
	struct device_queue *queue;
	struct device_module *module;
	struct device_function *block;
	pthread_t threads[THREADS_MAX];
	unsigned thread_count;
	atomic_bool stopping;
	atomic_uint dones, quiets; /* commands that are done; pauses that have begun */
	FILE *results;             /* a backend takes stdout for what kernels print */
} state;

static uint64_t now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

/* The device's threads look for work all the time. */
static void on_kick(void *owner)
{
}

static void on_print(void *owner, const char *bytes, size_t length)
{
}

static void on_quiet(void *owner)
{
	atomic_fetch_add(&state.quiets, 1);
}

static void on_done(struct device_command *command, int error)
{
	bench_require(error, "run the kernel", "the device says no");
	atomic_fetch_add(&state.dones, 1);
}

static void wait_until_more(atomic_uint *count, unsigned than, const char *what)
{
	uint64_t begin_ns = now_ns();

	while (atomic_load(count) == than) {
		bench_require(
			now_ns() - begin_ns > WAIT_S * 1000000000ull, what, "it does not come");
		sched_yield(); /* the software GPU's threads need the processors */
	}
}

static void *serve(void *argument)
{
	while (!atomic_load(&state.stopping))
		if (!(state.ops->work ? state.ops->work(state.device)
				      : state.ops->poll(state.device)))
			sched_yield();
	return NULL;
}

static void open_all(const char *name)
{
	static const struct device_host host = {
		.kick = on_kick, .print = on_print, .quiet = on_quiet};
	struct device_config config = {.memory_bytes = ARENA_BYTES};
	const struct device_ops **ops = &state.ops;

	bench_require(device_parse(name, ops, &config.index), "open the device", name);
	bench_require(!state.ops->pause, "stop kernels", name);
	bench_require(state.ops->open(&config, &host, &state.device), "open the device", name);
	bench_require(state.ops->space_create(state.device, &state.space), "create a space", name);
	bench_require(state.ops->space_reserve(state.space, ARENA_BASE, ARENA_BYTES),
		"reserve addresses", name);
	if (state.ops->preempt)
		bench_require(state.ops->preempt(state.space, false), "have kernels leave", name);
	bench_require(
		state.ops->queue_create(state.space, 0, &state.queue), "create a queue", name);
	bench_require(state.ops->module_load(
			      state.space, block_ptx, sizeof block_ptx, NULL, &state.module),
		"load the kernel", name);
	if (state.ops->module_open)
		bench_require(state.ops->module_open(state.module, NULL), "open the module", name);
	bench_require(state.ops->function_get(state.module, "block", &state.block),
		"find the kernel", name);
	state.thread_count = state.ops->work ? (unsigned)sysconf(_SC_NPROCESSORS_ONLN) : 1;
	for (unsigned i = 0; i < state.thread_count; i++)
		bench_require(pthread_create(&state.threads[i], NULL, serve, NULL),
			"start a thread", name);
}

static void close_all(void)
{
	atomic_store(&state.stopping, true);
	for (unsigned i = 0; i < state.thread_count; i++)
		pthread_join(state.threads[i], NULL);
	state.ops->module_unload(state.module);
	state.ops->queue_destroy(state.queue);
	state.ops->space_destroy(state.space);
	state.ops->close(state.device);
}

static void submit(
	struct device_command *command, uint32_t blocks, uint32_t threads, const uint64_t *ns)
{
	*command = (struct device_command){.kind = DEVICE_LAUNCH,
		.done = on_done,
		.launch = {.function = state.block,
			.grid = {blocks, 1, 1},
			.block = {threads, 1, 1},
			.params = ns,
			.param_bytes = sizeof *ns}};
	state.ops->submit(state.queue, command);
}

static double run_ns(uint32_t blocks, uint32_t threads, uint64_t ns)
{
	struct device_command command;
	uint64_t begin_ns = now_ns();
	unsigned dones = atomic_load(&state.dones);

	submit(&command, blocks, threads, &ns);
	wait_until_more(&state.dones, dones, "wait for the end of a kernel that is not stopped");
	return (double)(now_ns() - begin_ns);
}

/* So many that they take KERNEL_MS together. */
static uint32_t count_blocks(uint32_t threads, uint64_t ns)
{
	double one_ns, many_ns;
	uint32_t many = 20000;

	run_ns(1, threads, ns); /* compiles */
	one_ns = run_ns(1, threads, ns);
	many_ns = run_ns(many, threads, ns) - one_ns;
	return (uint32_t)(many * (KERNEL_MS * 1e6 / many_ns)) + 1;
}

/* Stops what runs, and lets it go on. False: it was over before, as there are more commands done than `dones`. */
static bool stop_once(struct samples *gone, struct samples *goes_on, unsigned dones)
{
	unsigned quiets = atomic_load(&state.quiets);
	uint64_t begin_ns = now_ns(), gone_ns;

	if (!state.ops->pause(state.device, true))
		wait_until_more(&state.quiets, quiets, "wait until the kernel has left");
	gone_ns = now_ns();
	if (atomic_load(&state.dones) == dones)
		samples_add(gone, (double)(gone_ns - begin_ns) / 1e3);
	state.ops->pause(state.device, false);
	samples_add(goes_on, (double)(now_ns() - gone_ns) / 1e3);
	return atomic_load(&state.dones) == dones;
}

static int compare(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

static double percentile(struct samples *samples, double part)
{
	qsort(samples->values, samples->count, sizeof *samples->values, compare);
	return samples->values[(unsigned)((samples->count - 1) * part)];
}

static void report(const char *metric, double value, double baseline)
{
	fprintf(state.results,
		"{\"bench\": \"preempt\", \"metric\": \"preempt.%s\", \"value\": %.6g, \"unit\": "
		"\"us\", \"baseline\": %.6g, \"ratio\": %.6g}\n",
		metric, value, baseline, value / baseline);
}

int main(int argc, char **argv)
{
	const char *name = argc > 1 ? argv[1] : "cpu";
	uint64_t ns = 1000ull * (argc > 2 ? strtoull(argv[2], NULL, 10) : 50);
	uint32_t threads = argc > 3 ? (uint32_t)strtoul(argv[3], NULL, 10) : 256, blocks;
	struct samples gone = {0}, goes_on = {0}, whole = {0}, stopped = {0}, block = {0};
	unsigned stops = 0, unstopped = 0;

	state.results = fdopen(dup(STDOUT_FILENO), "w");
	bench_require(!state.results, "keep stdout", "no descriptor is left");
	open_all(name);
	blocks = count_blocks(threads, ns);
	for (int i = 0; i < 100; i++)
		samples_add(&block, run_ns(1, threads, ns) / 1e3);
	for (int i = 0; i < 5; i++)
		samples_add(&whole, run_ns(blocks, threads, ns) / 1e3);
	while (stops < ROUNDS) {
		struct device_command command;
		uint64_t begin_ns = now_ns();
		unsigned before = stops, dones = atomic_load(&state.dones);

		submit(&command, blocks, threads, &ns);
		do
			usleep(500 + (unsigned)random() % RUN_US_MAX);
		while (stop_once(&gone, &goes_on, dones) && ++stops);
		wait_until_more(
			&state.dones, dones, "wait for the end of a kernel that was stopped");
		unstopped = stops > before ? 0 : unstopped + 1;
		bench_require(unstopped == UNSTOPPED, "stop the kernel",
			"it was over before each time: it has not been rewritten, or is too short");
		if (stops > before)
			samples_add(&stopped,
				((double)(now_ns() - begin_ns) / 1e3 - samples_median(&whole)) /
					(stops - before));
	}
	close_all();
	report("gone_p99_us", percentile(&gone, 0.99), samples_median(&block));
	report("gone_p50_us", samples_median(&gone), samples_median(&block));
	report("block_us", samples_median(&block), (double)ns / 1e3);
	report("goes_on_us", samples_median(&goes_on), samples_median(&block));
	report("lost_us", samples_median(&stopped), samples_median(&block));
	return fclose(state.results) ? 1 : 0;
}
