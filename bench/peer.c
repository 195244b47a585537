/* SPDX-License-Identifier: MIT
 *
 * Between two devices: `bench_peer memcpy|device`. Copies of 256 MiB one way and both ways at once, against memcpy() by
 * two threads, or against copies of the first device within its own memory; and a kernel on the second device's own
 * memory while it has access to the first one's, against the same without.
 *
 * `bench_peer alone` says what one device does within its own memory, for what another library is compared with.
 *
 * On hardware a copy is measured behind others of its kind: the first after a copy of another session of the card begins
 * with a change of the hardware's context, which two devices of one process without gdev do not have, and a client that
 * waits as long as it did the last two times wakes up in time. Copies both ways at once have these changes.
 */
#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "device.h"

#define REPETITIONS 15
#define BEHIND 3 /* others of its kind */
#define BYTES ((size_t)256 << 20)
#define WORDS (1u << 24)
#define BLOCK 256u

static const char add_ptx[] =
	".version 7.0\n.target sm_70\n.address_size 64\n"
	".visible .entry add(.param .u64 p)\n{\n.reg .u32 %r<5>;\n.reg .u64 %d<3>;\n"
	"ld.param.u64 %d0, [p];\nmov.u32 %r0, %ctaid.x;\nmov.u32 %r1, %ntid.x;\n"
	"mov.u32 %r2, %tid.x;\nmad.lo.u32 %r3, %r0, %r1, %r2;\nmul.wide.u32 %d1, %r3, 4;\n"
	"add.u64 %d2, %d0, %d1;\nld.global.u32 %r4, [%d2];\nadd.u32 %r4, %r4, 1;\n"
	"st.global.u32 [%d2], %r4;\nret;\n}\n";

/* What a device has; two vectors, so that copies both ways do not meet. */
struct side {
	CUcontext context;
	CUstream stream;
	CUdeviceptr memory[2];
};

static struct side sides[2];
static unsigned char *near, *far;

static void use(int i)
{
	must(cuCtxSetCurrent(sides[i].context), "use a device");
}

static void open_side(int i)
{
	must(cuDevicePrimaryCtxRetain(&sides[i].context, i),
		"open a device (two: devices = cpu:2, or two virtual GPUs of one)");
	use(i);
	must(cuStreamCreate(&sides[i].stream, CU_STREAM_NON_BLOCKING), "make a stream");
	for (int k = 0; k < 2; k++) {
		must(cuMemAlloc(&sides[i].memory[k], BYTES), "allocate 512 MiB on each device");
		must(cuMemsetD8(sides[i].memory[k], 1, BYTES), "touch it");
	}
	must(cuCtxSynchronize(), "wait");
}

static double rate(size_t bytes, uint64_t start)
{
	return (double)bytes / (double)(bench_now_ns() - start);
}

/* ---- copies; each gives the bytes a ns ---- */

static void send_copy(int from, int vector)
{
	use(!from);
	must(cuMemcpyPeerAsync(sides[!from].memory[vector], sides[!from].context,
		     sides[from].memory[vector], sides[from].context, BYTES, sides[!from].stream),
		"copy between the devices");
}

static double between(bool both)
{
	uint64_t start = bench_now_ns();

	send_copy(0, 0);
	if (both)
		send_copy(1, 1);
	for (int i = 0; i < 2; i++)
		must(cuStreamSynchronize(sides[i].stream), "wait");
	return rate(BYTES << both, start);
}

static double within(void)
{
	uint64_t start = bench_now_ns();

	use(0);
	must(cuMemcpyDtoDAsync(sides[0].memory[1], sides[0].memory[0], BYTES, sides[0].stream),
		"copy within a device");
	must(cuStreamSynchronize(sides[0].stream), "wait");
	return rate(BYTES, start);
}

/* In large pages where the system has them, as devices' memory is. */
static unsigned char *touched(int value)
{
	unsigned char *memory = aligned_alloc(2 << 20, BYTES);

	bench_require(!memory, "allocate 512 MiB", "no memory");
	madvise(memory, BYTES, MADV_HUGEPAGE);
	return memset(memory, value, BYTES);
}

static void *copy_half(void *offset)
{
	size_t at = (size_t)offset;

	memcpy(far + at, near + at, BYTES / 2);
	return NULL;
}

static double by_processors(void)
{
	uint64_t start = bench_now_ns();
	pthread_t other;

	bench_require(pthread_create(&other, NULL, copy_half, (void *)(BYTES / 2)),
		"start a thread", "the system has none left");
	copy_half(NULL);
	pthread_join(other, NULL);
	return rate(BYTES, start);
}

static double one_way(void)
{
	return between(false);
}

static double both_ways(void)
{
	return between(true);
}

static double behind(double (*copy)(void))
{
	for (int i = 0; i < BEHIND; i++)
		copy();
	return copy();
}

static void measure_copies(bool own)
{
	static struct samples one, both, base;

	between(true);
	for (int i = 0; i < REPETITIONS; i++) {
		samples_add(&one, own ? behind(one_way) : one_way());
		samples_add(&base, own ? behind(within) : by_processors());
		samples_add(&both, own ? behind(both_ways) : both_ways());
	}
	bench_report("peer", "copy_256M", "GB/s", &one, &base);
	bench_report("peer", "both_256M", "GB/s", &both, &base);
}

/* ---- a kernel ---- */

static CUfunction load_add(void)
{
	CUfunction add;
	CUmodule module;

	must(cuModuleLoadData(&module, add_ptx), "load the kernel");
	must(cuModuleGetFunction(&add, module, "add"), "find the kernel");
	return add;
}

static double kernel_ms(CUfunction add, CUdeviceptr memory)
{
	uint64_t start = bench_now_ns();

	for (int i = 0; i < 10; i++)
		must(cuLaunchKernel(add, WORDS / BLOCK, 1, 1, BLOCK, 1, 1, 0, NULL,
			     (void *[]){&memory}, NULL),
			"launch");
	must(cuCtxSynchronize(), "wait");
	return (double)(bench_now_ns() - start) / 1e7;
}

static void measure_access(void)
{
	static struct samples with, without;
	CUdeviceptr memory = sides[1].memory[0];
	CUfunction add;

	use(1);
	add = load_add();
	kernel_ms(add, memory);
	for (int i = 0; i < REPETITIONS; i++) {
		samples_add(&without, kernel_ms(add, memory));
		must(cuCtxEnablePeerAccess(sides[0].context, 0), "have access to the other device");
		samples_add(&with, kernel_ms(add, memory));
		must(cuCtxDisablePeerAccess(sides[0].context), "give up the access");
	}
	bench_report("peer", "access", "ms", &with, &without);
}

static void measure_pair(bool own)
{
	int can;

	for (int i = 0; i < 2; i++)
		open_side(i);
	if (!own) {
		near = touched(1);
		far = touched(2);
	}
	measure_copies(own);
	must(cuDeviceCanAccessPeer(&can, 1, 0), "ask whether the devices reach each other");
	if (can)
		measure_access();
}

static void measure_alone(void)
{
	static struct samples copy, kernel;
	CUfunction add;

	open_side(0);
	add = load_add();
	within();
	kernel_ms(add, sides[0].memory[0]);
	for (int i = 0; i < REPETITIONS; i++) {
		samples_add(&copy, behind(within));
		samples_add(&kernel, kernel_ms(add, sides[0].memory[0]));
	}
	bench_report("peer", "copy_256M", "GB/s", &copy, &copy);
	bench_report("peer", "access", "ms", &kernel, &kernel);
}

int main(int argc, char **argv)
{
	const char *baseline = argc > 1 ? argv[1] : "memcpy";

	must(cuInit(0), "initialise CUDA (is gdevd running?)");
	if (strcmp(baseline, "alone") == 0)
		measure_alone();
	else
		measure_pair(strcmp(baseline, "device") == 0);
	return 0;
}
