/* SPDX-License-Identifier: MIT
 *
 * What a copy costs, from 64 bytes to 256 MiB, each way, from and to pageable memory; the baseline is
 * memcpy() of as many bytes. A time is that of a number of copies, until the last is done, over the
 * number.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "device.h"

#define REPETITIONS 7
#define BYTES_MAX ((size_t)256 << 20)
#define BYTES_A_REPETITION ((size_t)64 << 20)
#define COPIES_MAX 500

enum what { TO_DEVICE, FROM_DEVICE, MEMCPY, KINDS };

static unsigned char *near, *far;
static CUdeviceptr device_memory;

static double copy_us(enum what what, size_t bytes, unsigned copies)
{
	uint64_t start = bench_now_ns();

	for (unsigned i = 0; i < copies; i++) {
		if (what == TO_DEVICE)
			must(cuMemcpyHtoD(device_memory, near, bytes), "copy to the device");
		else if (what == FROM_DEVICE)
			must(cuMemcpyDtoH(near, device_memory, bytes), "copy from the device");
		else
			memcpy(far, near, bytes);
		/* Keeps the compiler from leaving copies out. */
		__asm__ volatile("" ::"r"(near), "r"(far) : "memory");
	}
	if (what != MEMCPY)
		must(cuCtxSynchronize(), "wait");
	return (double)(bench_now_ns() - start) / 1e3 / copies;
}

static void measure(size_t bytes)
{
	static struct samples samples[KINDS];
	size_t fit = BYTES_A_REPETITION / bytes;
	unsigned copies = (unsigned)(fit < 1 ? 1 : fit > COPIES_MAX ? COPIES_MAX : fit);
	char size[16], metric[64];

	for (int what = 0; what < KINDS; what++)
		samples[what].count = 0;
	for (int i = 0; i < REPETITIONS; i++)
		for (int what = 0; what < KINDS; what++)
			samples_add(&samples[what], copy_us((enum what)what, bytes, copies));
	if (bytes < 1024)
		snprintf(size, sizeof(size), "%zuB", bytes);
	else if (bytes < 1 << 20)
		snprintf(size, sizeof(size), "%zuKiB", bytes >> 10);
	else
		snprintf(size, sizeof(size), "%zuMiB", bytes >> 20);
	snprintf(metric, sizeof(metric), "to_device_%s", size);
	bench_report("copy", metric, "us", &samples[TO_DEVICE], &samples[MEMCPY]);
	snprintf(metric, sizeof(metric), "from_device_%s", size);
	bench_report("copy", metric, "us", &samples[FROM_DEVICE], &samples[MEMCPY]);
}

int main(void)
{
	open_device();
	near = malloc(BYTES_MAX);
	far = malloc(BYTES_MAX);
	bench_require(!near || !far, "allocate 512 MiB", "no memory");
	/* Touched before it is measured, as is the device's. */
	memset(near, 1, BYTES_MAX);
	memset(far, 2, BYTES_MAX);
	must(cuMemAlloc(&device_memory, BYTES_MAX), "allocate 256 MiB on the device");
	copy_us(TO_DEVICE, BYTES_MAX, 1);

	for (size_t bytes = 64; bytes <= BYTES_MAX; bytes *= 4)
		measure(bytes);
	return 0;
}
