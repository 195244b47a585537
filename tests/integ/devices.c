/* SPDX-License-Identifier: MIT
 *
 * As many CUDA devices as the argument says, all used at once, each by a thread of its own and then all by one: their
 * memory and kernels are their own. Exit status 0: every word was right.
 */
#include "program.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define DEVICES_MAX 8
#define WORDS 65536
#define ROUNDS 20

static struct side {
	int number;
	CUcontext context;
	CUfunction step;
	CUdeviceptr at;
	pthread_t thread;
} sides[DEVICES_MAX];

static void open_side(struct side *side)
{
	CUmodule module;

	must(cuDevicePrimaryCtxRetain(&side->context, side->number), "make a context");
	must(cuCtxSetCurrent(side->context), "use it");
	must(cuModuleLoadData(&module, step_ptx), "load the kernel");
	must(cuModuleGetFunction(&side->step, module, "step"), "find the kernel");
	must(cuMemAlloc(&side->at, WORDS * 4), "allocate");
	must(cuMemsetD32(side->at, (unsigned)side->number, WORDS), "fill");
}

static void check_side(const struct side *side)
{
	static __thread uint32_t got[WORDS];

	must(cuCtxSetCurrent(side->context), "use a context");
	must(cuMemcpyDtoH(got, side->at, sizeof got), "copy");
	for (uint32_t i = 0; i < WORDS; i++) {
		uint32_t wanted = (uint32_t)side->number;
		for (unsigned round = 0; round < ROUNDS; round++)
			wanted = 3 * wanted + i;
		if (got[i] == wanted)
			continue;
		fprintf(stderr, "device %d: word %u is %u and not %u\n", side->number, i, got[i],
			wanted);
		exit(1);
	}
}

static void *run_side(void *arg)
{
	struct side *side = arg;

	open_side(side);
	for (unsigned i = 0; i < ROUNDS; i++)
		must(launch_step(side->step, side->at, WORDS), "launch");
	check_side(side);
	return NULL;
}

int main(int argc, char **argv)
{
	int count = argc > 1 ? atoi(argv[1]) : 2, found;
	CUuuid uuids[DEVICES_MAX];
	CUdevice current;

	must(cuInit(0), "start");
	must(cuDeviceGetCount(&found), "count devices");
	if (found != count || count > DEVICES_MAX) {
		fprintf(stderr, "%d devices, and not %d\n", found, count);
		return 1;
	}
	for (int i = 0; i < count; i++) {
		sides[i].number = i;
		must(cuDeviceGetUuid(&uuids[i], i), "ask for its UUID");
		for (int k = 0; k < i; k++)
			if (!memcmp(&uuids[i], &uuids[k], sizeof uuids[i]))
				return 1;
		if (pthread_create(&sides[i].thread, NULL, run_side, &sides[i]))
			return 1;
	}
	for (int i = 0; i < count; i++)
		pthread_join(sides[i].thread, NULL);
	/* From one thread, in turn. */
	for (int i = 0; i < count; i++) {
		must(cuCtxSetCurrent(sides[i].context), "use a context");
		must(cuMemsetD32(sides[i].at, (unsigned)i, WORDS), "fill");
	}
	for (unsigned round = 0; round < ROUNDS; round++)
		for (int i = 0; i < count; i++) {
			must(cuCtxSetCurrent(sides[i].context), "use a context");
			must(launch_step(sides[i].step, sides[i].at, WORDS), "launch");
		}
	for (int i = 0; i < count; i++) {
		check_side(&sides[i]);
		must(cuCtxGetDevice(&current), "ask for the device");
		if (current != i)
			return 1;
	}
	return 0;
}
