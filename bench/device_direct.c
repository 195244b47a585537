/* SPDX-License-Identifier: MIT
 *
 * A device backend used directly, in one process: no daemon, no worker, no ring. What it measures is
 * the baseline for what being managed costs. The main thread submits and lends itself; one more
 * thread a processor sleeps until the device kicks.
 *
 *   bench_device_direct [DEVICE]        DEVICE as in the configuration: cpu (the default), null
 *
 * Baselines: the null device for launches, memcpy for copies, one thread of the pool for the kernel.
 */
#include "bench.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "device/ops.h"

#define ARENA_BASE 0x300000000000ull
#define ARENA_BYTES (1ull << 30)
#define LAUNCHES 1000
#define ELEMENTS (16u << 20)
#define THREADS_MAX 256

static const char add_ptx[] =
	".version 6.0\n.target sm_70\n.address_size 64\n"
	".visible .entry empty()\n{\n\tret;\n}\n"
	".visible .entry add(.param .u64 a, .param .u64 b, .param .u64 c)\n{\n"
	"\t.reg .u32 %r<5>;\n\t.reg .u64 %d<8>;\n\t.reg .f32 %f<4>;\n"
	"\tld.param.u64 %d1, [a];\n\tld.param.u64 %d2, [b];\n\tld.param.u64 %d3, [c];\n"
	"\tmov.u32 %r1, %ctaid.x;\n\tmov.u32 %r2, %ntid.x;\n\tmov.u32 %r3, %tid.x;\n"
	"\tmad.lo.u32 %r4, %r1, %r2, %r3;\n\tmul.wide.u32 %d4, %r4, 4;\n"
	"\tadd.u64 %d5, %d1, %d4;\n\tadd.u64 %d6, %d2, %d4;\n\tadd.u64 %d7, %d3, %d4;\n"
	"\tld.global.f32 %f1, [%d5];\n\tld.global.f32 %f2, [%d6];\n\tadd.f32 %f3, %f1, %f2;\n"
	"\tst.global.f32 [%d7], %f3;\n\tret;\n}\n";

struct direct {
	const struct device_ops *ops;
	struct device_host host;
	struct device *device;
	struct device_space *space;
	struct device_queue *queue;
	struct device_module *module;
	struct device_function *empty, *add;
	struct device_chunk *chunks[ARENA_BYTES / DEVICE_CHUNK_MAX];
	unsigned chunk_count;

	pthread_t threads[THREADS_MAX];
	unsigned thread_count;
	pthread_mutex_t lock; /* guards kicks and stopping */
	pthread_cond_t kicked;
	unsigned kicks;
	bool stopping;
};

struct command {
	struct device_command command;
	atomic_bool done;
	int error;
};

/* The submitting thread looks by itself: only kicks from inside work() are for others. */
static __thread bool submitting;

static void on_kick(void *owner)
{
	struct direct *d = owner;

	if (submitting)
		return;
	pthread_mutex_lock(&d->lock);
	d->kicks++;
	pthread_cond_signal(&d->kicked);
	pthread_mutex_unlock(&d->lock);
}

static void on_print(void *owner, const char *bytes, size_t length)
{
	fwrite(bytes, 1, length, stdout);
}

static void on_done(struct device_command *command, int error)
{
	struct command *c = (struct command *)command;

	c->error = error;
	atomic_store(&c->done, true);
}

static void *serve(void *argument)
{
	struct direct *d = argument;

	pthread_mutex_lock(&d->lock);
	while (!d->stopping) {
		if (!d->kicks) {
			pthread_cond_wait(&d->kicked, &d->lock);
			continue;
		}
		d->kicks--;
		pthread_mutex_unlock(&d->lock);
		while (d->ops->work(d->device))
			;
		pthread_mutex_lock(&d->lock);
	}
	pthread_mutex_unlock(&d->lock);
	return NULL;
}

static void direct_submit(struct direct *d, struct command *c)
{
	c->command.done = on_done;
	atomic_store(&c->done, false);
	submitting = true;
	d->ops->submit(d->queue, &c->command);
	submitting = false;
}

static void direct_wait(struct direct *d, struct command *c)
{
	while (!atomic_load(&c->done))
		d->ops->work(d->device);
	bench_require(c->error, "execute a command", "the device says no");
}

static void direct_run(struct direct *d, struct command *c)
{
	direct_submit(d, c);
	direct_wait(d, c);
}

static void direct_open(struct direct *d, const char *name, unsigned threads)
{
	struct device_config config = {.threads = threads, .memory_bytes = ARENA_BYTES};

	memset(d, 0, sizeof *d);
	bench_require(device_parse(name, &d->ops, &config.index), "open the device", name);
	d->host = (struct device_host){.owner = d, .kick = on_kick, .print = on_print};
	pthread_mutex_init(&d->lock, NULL);
	pthread_cond_init(&d->kicked, NULL);
	bench_require(d->ops->open(&config, &d->host, &d->device), "open the device", name);
	bench_require(d->ops->space_create(d->device, &d->space), "create a space", name);
	bench_require(d->ops->space_reserve(d->space, ARENA_BASE, ARENA_BYTES), "reserve addresses",
		name);
	for (uint64_t at = 0; at < ARENA_BYTES; at += DEVICE_CHUNK_MAX) {
		struct device_chunk **chunk = &d->chunks[d->chunk_count++];
		bench_require(
			d->ops->chunk_create(d->device, DEVICE_CHUNK_MAX, chunk), "allocate", name);
		bench_require(d->ops->map(d->space, ARENA_BASE + at, *chunk, false), "map", name);
	}
	bench_require(d->ops->queue_create(d->space, 0, &d->queue), "create a queue", name);
	bench_require(d->ops->module_load(d->space, add_ptx, sizeof add_ptx, NULL, &d->module),
		"load the kernels", name);
	if (d->ops->module_open)
		bench_require(d->ops->module_open(d->module, NULL), "open the module", name);
	bench_require(d->ops->function_get(d->module, "empty", &d->empty), "find empty", name);
	bench_require(d->ops->function_get(d->module, "add", &d->add), "find add", name);
	d->thread_count = threads - 1;
	for (unsigned i = 0; i < d->thread_count; i++)
		bench_require(
			pthread_create(&d->threads[i], NULL, serve, d), "start a thread", name);
}

static void direct_close(struct direct *d)
{
	pthread_mutex_lock(&d->lock);
	d->stopping = true;
	pthread_cond_broadcast(&d->kicked);
	pthread_mutex_unlock(&d->lock);
	for (unsigned i = 0; i < d->thread_count; i++)
		pthread_join(d->threads[i], NULL);
	d->ops->module_unload(d->module);
	d->ops->queue_destroy(d->queue);
	for (unsigned i = 0; i < d->chunk_count; i++) {
		d->ops->unmap(d->space, ARENA_BASE + i * DEVICE_CHUNK_MAX, d->chunks[i]);
		d->ops->chunk_destroy(d->chunks[i]);
	}
	d->ops->space_destroy(d->space);
	d->ops->close(d->device);
}

static void launch_init(struct command *c, struct device_function *function, uint32_t grid,
	uint32_t block, const void *params, uint32_t param_bytes)
{
	memset(c, 0, sizeof *c);
	c->command.kind = DEVICE_LAUNCH;
	c->command.launch = (struct device_launch){.function = function,
		.grid = {grid, 1, 1},
		.block = {block, 1, 1},
		.params = params,
		.param_bytes = param_bytes};
}

/* Nanoseconds a launch: waited for one by one, then queued all at once. */
static void measure_launches(struct direct *d, struct samples *one, struct samples *queued)
{
	static struct command commands[LAUNCHES];
	uint64_t begin;

	for (int i = 0; i < LAUNCHES; i++)
		launch_init(&commands[i], d->empty, 1, 1, "", 0);
	direct_run(d, &commands[0]);
	for (int sample = 0; sample < 21; sample++) {
		begin = bench_now_ns();
		for (int i = 0; i < LAUNCHES; i++)
			direct_run(d, &commands[i]);
		samples_add(one, (double)(bench_now_ns() - begin) / LAUNCHES);
		begin = bench_now_ns();
		for (int i = 0; i < LAUNCHES; i++)
			direct_submit(d, &commands[i]);
		direct_wait(d, &commands[LAUNCHES - 1]);
		samples_add(queued, (double)(bench_now_ns() - begin) / LAUNCHES);
	}
}

static void bench_launches(const char *name, unsigned threads)
{
	struct samples one = {0}, queued = {0}, null_one = {0}, null_queued = {0};
	struct direct d;

	direct_open(&d, "null", 1);
	measure_launches(&d, &null_one, &null_queued);
	direct_close(&d);
	direct_open(&d, name, threads);
	measure_launches(&d, &one, &queued);
	direct_close(&d);
	bench_report("device_direct", "launch_and_wait", "ns", &one, &null_one);
	bench_report("device_direct", "queued_launch", "ns", &queued, &null_queued);
}

/* GB/s of the copy engine beside memcpy's, over the same memory. */
static void bench_copy(struct direct *d, uint64_t bytes)
{
	uint64_t from = ARENA_BASE, to = ARENA_BASE + (512ull << 20), begin;
	unsigned repeat = bytes >= 64 << 20 ? 1 : (unsigned)((64 << 20) / bytes);
	struct samples engine = {0}, libc = {0};
	struct command c = {.command = {.kind = DEVICE_COPY,
				    .copy = {COPY_TO_DEVICE, to, from, bytes, 1, 1, 0, 0, 0, 0}}};
	char metric[64];

	repeat = repeat > 10000 ? 10000 : repeat;
	memset((void *)from, 1, bytes);
	memset((void *)to, 1, bytes);
	for (int sample = 0; sample < 11; sample++) {
		begin = bench_now_ns();
		for (unsigned i = 0; i < repeat; i++)
			direct_run(d, &c);
		samples_add(&engine, (double)(bytes * repeat) / (double)(bench_now_ns() - begin));
		begin = bench_now_ns();
		for (unsigned i = 0; i < repeat; i++) {
			memcpy((void *)to, (void *)from, bytes);
			__asm__ volatile("" : : : "memory");
		}
		samples_add(&libc, (double)(bytes * repeat) / (double)(bench_now_ns() - begin));
	}
	snprintf(metric, sizeof metric, "copy_%llu", (unsigned long long)bytes);
	bench_report("device_direct", metric, "GB/s", &engine, &libc);
}

static void bench_copies(const char *name, unsigned threads)
{
	struct direct d;

	direct_open(&d, name, threads);
	for (uint64_t bytes = 64; bytes <= 256ull << 20; bytes *= 16)
		bench_copy(&d, bytes);
	bench_copy(&d, 256ull << 20);
	direct_close(&d);
}

static void measure_add(const char *name, unsigned threads, struct samples *samples)
{
	uint64_t params[3] = {ARENA_BASE, ARENA_BASE + (256ull << 20), ARENA_BASE + (512ull << 20)};
	struct command c;
	struct direct d;

	direct_open(&d, name, threads);
	launch_init(&c, d.add, ELEMENTS / 256, 256, params, sizeof params);
	for (int sample = 0; sample < 12; sample++) {
		uint64_t begin = bench_now_ns();
		direct_run(&d, &c);
		if (sample) /* the first one compiles */
			samples_add(samples, 12.0 * ELEMENTS / (double)(bench_now_ns() - begin));
	}
	direct_close(&d);
}

static void bench_add(const char *name, unsigned threads)
{
	struct samples all = {0}, one = {0};

	measure_add(name, 1, &one);
	measure_add(name, threads, &all);
	bench_report("device_direct", "vector_add", "GB/s", &all, &one);
}

int main(int argc, char **argv)
{
	const char *name = argc > 1 ? argv[1] : "cpu";
	long processors = sysconf(_SC_NPROCESSORS_ONLN);
	unsigned threads = processors < 1             ? 1
			   : processors > THREADS_MAX ? THREADS_MAX
						      : (unsigned)processors;

	bench_launches(name, threads);
	bench_copies(name, threads);
	bench_add(name, threads);
	return 0;
}
