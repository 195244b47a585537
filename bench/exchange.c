/* SPDX-License-Identifier: MIT
 *
 * What two processes reach that exchange device memory over the driver alone, without gdev: one copies pieces of 32 MiB
 * to the host, unmaps and releases each, and the other, as soon as that has happened, makes and maps one and copies
 * into it. This is `swap-bandwidth.both` less gdev; each line leaves a part of it out. Run it with
 * the vendor's library:
 *
 *   LD_PRELOAD=/usr/lib/x86_64-linux-gnu/libcuda.so.1 bench_exchange [PIECES [VARIANT]...]
 *
 * JSON lines: GB/s, of both directions together. The baseline is both without any mapping, if that was among them.
 */
#include <cuda.h>

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define PIECE ((size_t)32 << 20)
#define PIECES_MAX 1024
#define HUGE_PAGE ((size_t)2 << 20)

struct variant {
	const char *name;
	bool drops;    /* what has left is unmapped and released */
	bool maps;     /* what comes in is made and mapped first */
	unsigned deep; /* so many copies from the device are submitted at a time */
};

static const struct variant variants[] = {
	{"copies", false, false, 1},
	{"maps", false, true, 1},
	{"drops", true, false, 1},
	{"drops_maps", true, true, 1},
	{"drops_maps_2_deep", true, true, 2},
};

/* Between the two. */
struct shared {
	atomic_uint ready, over, dropped;
	atomic_bool go;
};
static struct shared *shared;

static const struct variant *variant;
static unsigned pieces = 128;
static CUcontext context;
static CUstream stream;
static CUdeviceptr range, word_address;
static CUmemGenericAllocationHandle handles[PIECES_MAX];
static uint8_t *host;
static _Atomic uint64_t *word;
static atomic_uint copied;

#define MUST(call) must((call), #call)
static void must(CUresult result, const char *call)
{
	if (result == CUDA_SUCCESS)
		return;
	fprintf(stderr, "bench_exchange: %s: %d\n", call, (int)result);
	_exit(1);
}

static void make_piece(unsigned i)
{
	const CUmemAllocationProp properties = {
		.type = CU_MEM_ALLOCATION_TYPE_PINNED,
		.requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR,
		.location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = 0},
	};
	const CUmemAccessDesc access = {
		.location = properties.location, .flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE};

	MUST(cuMemCreate(&handles[i], PIECE, &properties, 0));
	MUST(cuMemMap(range + i * PIECE, PIECE, 0, handles[i], 0));
	MUST(cuMemSetAccess(range + i * PIECE, PIECE, &access, 1));
}

/* For each piece its own, as host swap is. */
static void make_host_memory(void)
{
	size_t bytes = pieces * PIECE;

	host = mmap(NULL, bytes + HUGE_PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
		-1, 0);
	if (host == MAP_FAILED)
		_exit(1);
	host += -(uintptr_t)host % HUGE_PAGE;
	madvise(host, bytes, MADV_HUGEPAGE); /* a wish */
	memset(host, 1, bytes);
	MUST(cuMemHostRegister(
		host, bytes, CU_MEMHOSTREGISTER_PORTABLE | CU_MEMHOSTREGISTER_DEVICEMAP));
}

static void begin(bool mapped)
{
	CUdevice device;
	void *page;

	MUST(cuInit(0));
	MUST(cuDeviceGet(&device, 0));
	MUST(cuDevicePrimaryCtxRetain(&context, device));
	MUST(cuCtxSetCurrent(context));
	MUST(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
	make_host_memory();
	MUST(cuMemHostAlloc(&page, 4096, CU_MEMHOSTALLOC_DEVICEMAP));
	MUST(cuMemHostGetDevicePointer(&word_address, page, 0));
	word = page;
	*word = 0;
	MUST(cuMemAddressReserve(&range, pieces * PIECE, 0, 0, 0));
	for (unsigned i = 0; mapped && i < pieces; i++)
		make_piece(i);
	shared->ready++;
	while (!shared->go)
		usleep(10);
}

static CUdeviceptr host_piece(unsigned i)
{
	return (uintptr_t)host + i * PIECE;
}

static void *drop(void *unused)
{
	MUST(cuCtxSetCurrent(context));
	for (unsigned i = 0; i < pieces; i++) {
		while (copied <= i)
			usleep(5);
		if (variant->drops) {
			MUST(cuMemUnmap(range + i * PIECE, PIECE));
			MUST(cuMemRelease(handles[i]));
		}
		shared->dropped = i + 1;
	}
	return NULL;
}

static void leave(void)
{
	unsigned submitted = 0, done = 0;
	pthread_t dropper;

	begin(true);
	if (pthread_create(&dropper, NULL, drop, NULL))
		_exit(1);
	while (done < pieces) {
		while (submitted < pieces && submitted - done < variant->deep) {
			MUST(cuMemcpyAsync(
				host_piece(submitted), range + submitted * PIECE, PIECE, stream));
			MUST(cuStreamWriteValue64(stream, word_address, ++submitted, 0));
		}
		done = (unsigned)*word;
		copied = done;
	}
	pthread_join(dropper, NULL);
	shared->over++;
}

static void come(void)
{
	begin(!variant->maps);
	for (unsigned i = 0; i < pieces; i++) {
		while (shared->dropped <= i)
			usleep(5);
		if (variant->maps)
			make_piece(i);
		MUST(cuMemcpyAsync(range + i * PIECE, host_piece(i), PIECE, stream));
	}
	MUST(cuStreamSynchronize(stream));
	shared->over++;
}

static pid_t start(void (*run)(void))
{
	pid_t pid = fork();

	if (!pid) {
		run();
		_exit(0);
	}
	return pid;
}

static double now(void)
{
	struct timespec time;

	clock_gettime(CLOCK_MONOTONIC, &time);
	return (double)time.tv_sec + (double)time.tv_nsec * 1e-9;
}

static bool wait_for(const atomic_uint *count, pid_t *pids)
{
	while (*count < 2)
		for (int i = 0; i < 2; i++) {
			int status;
			usleep(20);
			if (*count < 2 && waitpid(pids[i], &status, WNOHANG) == pids[i] && status)
				return false;
		}
	return true;
}

/* GB/s; 0: it did not work. */
static double measure(void)
{
	pid_t pids[2];
	double seconds = 0;
	bool right;

	*shared = (struct shared){0};
	fflush(stdout);
	pids[0] = start(leave);
	pids[1] = start(come);
	right = wait_for(&shared->ready, pids);
	if (right) {
		seconds = now();
		shared->go = true;
		right = wait_for(&shared->over, pids);
		seconds = now() - seconds;
	}
	shared->go = true;
	while (wait(NULL) > 0)
		;
	return right ? 2.0 * pieces * PIECE / 1e9 / seconds : 0;
}

static bool is_wanted(const char *name, int argc, char **argv)
{
	for (int i = 2; i < argc; i++)
		if (!strcmp(argv[i], name))
			return true;
	return argc <= 2;
}

int main(int argc, char **argv)
{
	double baseline = 0;

	if (argc > 1)
		pieces = (unsigned)strtoul(argv[1], NULL, 10);
	if (!pieces || pieces > PIECES_MAX) {
		fprintf(stderr, "Usage: exchange [PIECES [VARIANT]...]; at most %d pieces\n",
			PIECES_MAX);
		return 2;
	}
	shared = mmap(
		NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (shared == MAP_FAILED)
		return 1;
	for (size_t i = 0; i < sizeof variants / sizeof variants[0]; i++) {
		double rate;
		variant = &variants[i];
		if (!is_wanted(variant->name, argc, argv))
			continue;
		rate = measure();
		if (!rate)
			return 1;
		if (!baseline)
			baseline = rate;
		printf("{\"bench\": \"exchange\", \"metric\": \"exchange.%s\", \"value\": %.1f, \"unit\": "
		       "\"GB/s\", \"baseline\": %.1f, \"ratio\": %.3f}\n",
			variant->name, rate, baseline, rate / baseline);
	}
	return 0;
}
