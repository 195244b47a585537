/* SPDX-License-Identifier: MIT
 *
 * A client that turns on its worker: `hostile MODE SECONDS SEED` opens a session as any program does,
 * and then writes garbage into what it shares with the worker, while another of its threads goes on
 * launching and copying.
 *   bytes    random bytes, anywhere in any shared page
 *   words    small and huge numbers at 8-byte boundaries, which pass for counters, lengths and addresses
 *   header   the same in the first page of each mapping only, so that the ring stays plausible
 *   copying  says without end that it is copying by itself, and for how long
 * Whatever becomes of its own calls is fine; it never reports a failure of them.
 */
#include <cuda.h>

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "proto/session.h"

#define MAPPINGS_MAX 64
#define BYTES (1u << 20)

struct mapping {
	volatile unsigned char *at;
	size_t bytes;
};

static struct mapping mappings[MAPPINGS_MAX];
static unsigned mapping_count;
static uint64_t state;
static CUcontext context;
static CUdeviceptr memory;
static CUfunction kernel;
static unsigned char buffer[BYTES];

static const char ptx[] = ".version 6.0\n"
			  ".target sm_70\n"
			  ".address_size 64\n"
			  ".visible .entry empty()\n"
			  "{\n"
			  "	ret;\n"
			  "}\n";

static uint64_t next_random(void)
{
	state ^= state << 13;
	state ^= state >> 7;
	state ^= state << 17;
	return state;
}

/* Every writable mapping that is shared with somebody. */
static void find_mappings(void)
{
	FILE *maps = fopen("/proc/self/maps", "re");
	char line[512], access[5];
	unsigned long start, end;

	while (maps && mapping_count < MAPPINGS_MAX && fgets(line, sizeof(line), maps)) {
		if (sscanf(line, "%lx-%lx %4s", &start, &end, access) != 3 ||
			strcmp(access, "rw-s") != 0)
			continue;
		mappings[mapping_count++] =
			(struct mapping){(volatile unsigned char *)start, end - start};
	}
	if (maps)
		fclose(maps);
}

static void *scribble(void *mode_argument)
{
	static const uint64_t words[] = {0, 1, 7, 8, 4096, 65536, 1u << 20, UINT32_MAX, INT64_MAX,
		UINT64_MAX, UINT64_MAX - 7, 0x200000000000};
	const char *mode = mode_argument;

	for (;;) {
		struct mapping *m = &mappings[next_random() % mapping_count];
		size_t span = strcmp(mode, "header") == 0 && m->bytes > 4096 ? 4096 : m->bytes;
		size_t at = next_random() % span;

		if (strcmp(mode, "bytes") == 0) {
			m->at[at] = (unsigned char)next_random();
		} else {
			uint64_t word = words[next_random() % (sizeof(words) / sizeof(words[0]))];

			if (next_random() % 4 == 0)
				word = next_random() >> (next_random() % 64);
			*(volatile uint64_t *)(m->at + at / 8 * 8) = word;
		}
		/* Mostly fast, sometimes slow enough for the worker to act on what is there. */
		if (next_random() % 1024 == 0)
			usleep((useconds_t)(next_random() % 200));
	}
	return NULL;
}

/* The client's words about its direct copies, whatever is true. */
static void *pretend(void *unused)
{
	struct session_header *header = NULL;

	for (unsigned i = 0; i < mapping_count; i++)
		if (*(volatile uint32_t *)mappings[i].at == SESSION_MAGIC)
			header = (struct session_header *)mappings[i].at;
	while (header)
		for (int i = 0; i < SESSION_DIRECTIONS; i++) {
			__atomic_store_n(&header->direct_copying[i], 1 + next_random() % 3,
				__ATOMIC_RELAXED);
			__atomic_store_n(&header->direct_ns[i], next_random(), __ATOMIC_RELAXED);
			usleep((useconds_t)(next_random() % 200));
		}
	return unused;
}

/* May hang: what it waits for is what it destroys. */
static void *use(void *unused)
{
	CUstream stream;

	cuCtxSetCurrent(context);
	cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING);
	for (;;) {
		cuLaunchKernel(kernel, 1, 1, 1, 1, 1, 1, 0, stream, NULL, NULL);
		cuMemcpyHtoDAsync(memory, buffer, sizeof(buffer), stream);
		cuMemcpyDtoHAsync(buffer, memory, 64, stream);
		cuMemcpyHtoD(memory, buffer, sizeof(buffer));
		cuMemcpyDtoH(buffer, memory, sizeof(buffer));
	}
	return unused;
}

static bool open_session(void)
{
	CUdevice device;
	CUmodule module;

	return cuInit(0) == CUDA_SUCCESS && cuDeviceGet(&device, 0) == CUDA_SUCCESS &&
	       cuDevicePrimaryCtxRetain(&context, device) == CUDA_SUCCESS &&
	       cuCtxSetCurrent(context) == CUDA_SUCCESS &&
	       cuModuleLoadData(&module, ptx) == CUDA_SUCCESS &&
	       cuModuleGetFunction(&kernel, module, "empty") == CUDA_SUCCESS &&
	       cuMemAlloc(&memory, BYTES) == CUDA_SUCCESS &&
	       cuLaunchKernel(kernel, 1, 1, 1, 1, 1, 1, 0, NULL, NULL, NULL) == CUDA_SUCCESS &&
	       cuCtxSynchronize() == CUDA_SUCCESS;
}

int main(int argc, char **argv)
{
	struct timespec length = {0};
	pthread_t thread;

	if (argc != 4) {
		fprintf(stderr, "Usage: hostile bytes|words|header|copying SECONDS SEED\n");
		return 2;
	}
	length.tv_sec = atoi(argv[2]);
	state = strtoull(argv[3], NULL, 10) * 0x9E3779B97F4A7C15u + 1;
	if (!open_session()) {
		fprintf(stderr, "hostile: cannot open a session\n");
		return 2;
	}
	find_mappings();
	if (!mapping_count) {
		fprintf(stderr, "hostile: shares no writable memory with anybody\n");
		return 2;
	}
	printf("%u shared mappings\n", mapping_count);
	fflush(stdout);
	if (pthread_create(&thread, NULL, use, NULL) ||
		pthread_create(
			&thread, NULL, strcmp(argv[1], "copying") ? scribble : pretend, argv[1]))
		return 2;
	nanosleep(&length, NULL);
	_exit(0);
}
