/* SPDX-License-Identifier: MIT
 *
 * A program of a guest, which counts what it costs: a burst of launches, launches that are waited for one by one, copies of
 * pageable and of page-locked memory.
 * It checks the results, and prints the counts of its session (struct vm_counts) as JSON. It says "launches" when the burst has
 * begun.
 *
 * usage: counted [launches] [MiB]; without end if 0: SIGTERM ends the burst.
 */
#include <cuda.h>

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <unistd.h>

#include "proto/vm.h"

#define WAITS 100
#define PAUSE_US 2000 /* long enough for everybody to sleep */

static const char ptx[] = ".version 7.0\n.target sm_70\n.address_size 64\n"
			  ".visible .entry count(.param .u64 at)\n"
			  "{\n"
			  ".reg .u64 %rd<3>;\n.reg .u32 %r<2>;\n"
			  "ld.param.u64 %rd1, [at];\n"
			  "cvta.to.global.u64 %rd2, %rd1;\n"
			  "atom.global.add.u32 %r1, [%rd2], 1;\n"
			  "ret;\n"
			  "}\n";

static void must(CUresult result, const char *what)
{
	const char *text = "?";

	if (result == CUDA_SUCCESS)
		return;
	cuGetErrorString(result, &text);
	fprintf(stderr, "counted: %s: %s\n", what, text);
	exit(1);
}

static void check(int right, const char *what)
{
	if (right)
		return;
	fprintf(stderr, "counted: wrong: %s (errno %d)\n", what, errno);
	exit(1);
}

/* The library's file of the device: of this process, the one that has a session. */
static struct vm_counts counts(void)
{
	struct vm_counts found = {0};
	DIR *files = opendir("/proc/self/fd");
	struct dirent *file;

	while (files && (file = readdir(files))) {
		char path[64];
		ssize_t length = readlinkat(dirfd(files), file->d_name, path, sizeof path - 1);
		if (length < 0)
			continue;
		path[length] = '\0';
		if (!strncmp(path, "/dev/gdev", 9))
			ioctl(atoi(file->d_name), VM_IOCTL_COUNTS, &found);
	}
	closedir(files);
	return found;
}

static volatile sig_atomic_t told;

static void be_told(int signal)
{
	told = signal;
}

/* launches: until SIGTERM if 0. */
static void launch(CUfunction function, CUdeviceptr word, unsigned launches)
{
	void *parameters[] = {&word};
	unsigned launched = 0, counted;

	must(cuMemsetD32(word, 0, 1), "cuMemsetD32");
	do {
		must(cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, NULL, parameters, NULL),
			"cuLaunchKernel");
		launched++;
	} while (launches ? launched < launches : !told);
	must(cuCtxSynchronize(), "cuCtxSynchronize");
	must(cuMemcpyDtoH(&counted, word, sizeof counted), "cuMemcpyDtoH");
	check(counted == launched, "the kernel has not run as often as it was launched");
}

static void launch_and_wait(CUfunction function, CUdeviceptr word)
{
	void *parameters[] = {&word};

	for (unsigned i = 0; i < WAITS; i++) {
		must(cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, NULL, parameters, NULL),
			"cuLaunchKernel");
		must(cuCtxSynchronize(), "cuCtxSynchronize");
		usleep(PAUSE_US);
	}
}

static void fill(uint32_t *words, size_t bytes, uint32_t seed)
{
	for (size_t i = 0; i < bytes / 4; i++)
		words[i] = (uint32_t)i * 2654435761u + seed;
}

static void copy(CUdeviceptr device, size_t bytes)
{
	uint32_t *from = malloc(bytes), *to = calloc(1, bytes), *locked;
	CUstream stream;

	fill(from, bytes, 1);
	must(cuMemcpyHtoD(device, from, bytes), "cuMemcpyHtoD");
	must(cuMemcpyDtoH(to, device, bytes), "cuMemcpyDtoH");
	check(!memcmp(from, to, bytes), "pageable memory");
	must(cuMemHostAlloc((void **)&locked, bytes, 0), "cuMemHostAlloc");
	must(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING), "cuStreamCreate");
	fill(locked, bytes, 2);
	must(cuMemcpyHtoDAsync(device, locked, bytes, stream), "cuMemcpyHtoDAsync");
	must(cuStreamSynchronize(stream), "cuStreamSynchronize");
	memset(locked, 0, bytes);
	must(cuMemcpyDtoHAsync(locked, device, bytes, stream), "cuMemcpyDtoHAsync");
	must(cuStreamSynchronize(stream), "cuStreamSynchronize");
	fill(from, bytes, 2);
	check(!memcmp(from, locked, bytes), "page-locked memory");
	must(cuMemFreeHost(locked), "cuMemFreeHost");
	must(cuStreamDestroy(stream), "cuStreamDestroy");
	free(from);
	free(to);
}

/* Rows that begin in the store, each further into the pages behind it: more of both than a request has entries. And rows
 * that become one run: a request has no more of them. None finds the device's side, and the session goes on. */
static void list_is_bounded(void)
{
	const size_t page = 4096, locked = 2 << 20, bytes = locked + VM_ENTRIES_MAX * page;
	struct vm_counts before, after;
	struct vm_open opened = {0};
	int file = open("/dev/gdev0", O_RDWR | O_CLOEXEC);
	uint8_t *memory =
		mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	struct vm_copy copy = {.device = page,
		.host = (uint64_t)memory,
		.width = locked / 2,
		.rows = (bytes - locked / 2) / page,
		.device_pitch = locked / 2,
		.host_pitch = page,
		.direction = VM_TO_DEVICE};

	check(file >= 0 && memory != MAP_FAILED && !ioctl(file, VM_IOCTL_OPEN, &opened) &&
			mmap(memory, locked, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, file,
				VM_MAP_STORE + VM_STORE_BASE) == memory,
		"a session of our own");
	for (int i = 0; i < 2; i++)
		check(ioctl(file, VM_IOCTL_COPY, &copy) && errno == EINVAL,
			"rows of page-locked and of other memory");
	copy.width = copy.host_pitch = copy.device_pitch = 1;
	copy.rows = locked;
	check(!ioctl(file, VM_IOCTL_COUNTS, &before) && ioctl(file, VM_IOCTL_COPY, &copy) &&
			errno == EINVAL && !ioctl(file, VM_IOCTL_COUNTS, &after) &&
			after.bytes - before.bytes == VM_ENTRIES_MAX,
		"rows of a byte");
	munmap(memory, bytes);
	close(file);
}

int main(int argc, char **argv)
{
	unsigned launches = argc > 1 ? (unsigned)atoi(argv[1]) : 1000;
	size_t bytes = (argc > 2 ? (size_t)atoi(argv[2]) : 4) << 20;
	struct vm_counts before, burst, waited, end;
	CUfunction function;
	CUdeviceptr device;
	CUcontext context;
	CUmodule module;

	signal(SIGTERM, be_told);
	must(cuInit(0), "cuInit");
	must(cuDevicePrimaryCtxRetain(&context, 0), "cuDevicePrimaryCtxRetain");
	must(cuCtxSetCurrent(context), "cuCtxSetCurrent");
	must(cuModuleLoadData(&module, ptx), "cuModuleLoadData");
	must(cuModuleGetFunction(&function, module, "count"), "cuModuleGetFunction");
	must(cuMemAlloc(&device, bytes), "cuMemAlloc");
	launch(function, device, 1); /* compiles it */
	before = counts();
	puts("launches");
	fflush(stdout);
	launch(function, device, launches);
	burst = counts();
	launch_and_wait(function, device);
	usleep(PAUSE_US); /* the proxy counts when it rests */
	waited = counts();
	copy(device, bytes);
	end = counts();
	list_is_bounded();
	printf("{\"launches\": %llu, \"burst_doorbells\": %llu, \"burst_interrupts\": %llu, \"asked_bytes\": %llu, "
	       "\"copied_bytes\": %llu, \"waits\": %u, \"wait_doorbells\": %llu, "
	       "\"wait_interrupts\": %llu}\n",
		(unsigned long long)(burst.launches - before.launches),
		(unsigned long long)(burst.doorbells - before.doorbells),
		(unsigned long long)(burst.interrupts - before.interrupts),
		(unsigned long long)(end.bytes - waited.bytes),
		(unsigned long long)(end.bytes_copied - waited.bytes_copied), WAITS,
		(unsigned long long)(waited.doorbells - burst.doorbells),
		(unsigned long long)(waited.interrupts - burst.interrupts));
	return 0;
}
