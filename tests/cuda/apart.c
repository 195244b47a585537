/* SPDX-License-Identifier: MIT
 *
 * What waits for one device keeps nobody from another, nor from fork: `apart GDEVD` (apart.py). For each kind of call
 * a thread is in it on the first device, whose worker is stopped, or on one that is being opened, while gdevd is
 * stopped. Meanwhile the main thread does all kinds of things on the second device, and forks a child, which starts
 * anew. If that takes too long, what is stopped goes on: a call that has held it up is a failure, and no hang.
 */
#include <cuda.h>

#include <dirent.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define PATIENCE_S 60
#define MIB (1ull << 20)
#define LARGE (64 * MIB) /* no such memory is at hand */

extern const char kernels_ptx[];

/* What the program has on a device. */
struct side {
	CUdevice device;
	CUcontext context;
	CUstream stream;
	CUfunction empty;
	CUdeviceptr memory;
	CUmemoryPool pool;
	CUipcMemHandle handle; /* of memory, as if another process had made it */

	/* What one call makes and another ends. */
	CUdeviceptr mapped, opened, allocated;
	CUmemGenericAllocationHandle chunk;
	CUgraphExec exec;
	CUgraph graph;
	CUlibrary library;
	CUcontext other;
};

static struct side first, second;
static int count, failures;

static void fail_at(const char *what, int line, int code)
{
	fprintf(stderr, "apart: line %d: %s: %d\n", line, what, code);
	_exit(99);
}

#define must(call)                                                                                 \
	do {                                                                                       \
		int code_ = (call);                                                                \
		if (code_)                                                                         \
			fail_at(#call, __LINE__, code_);                                           \
	} while (0)

static void launch_on(const struct side *side)
{
	must(cuCtxSetCurrent(side->context));
	must(cuLaunchKernel(side->empty, 1, 1, 1, 1, 1, 1, 0, side->stream, NULL, NULL));
}

static void side_open(struct side *side, CUdevice device)
{
	CUmemPoolProps properties = {.allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
		.location = {CU_MEM_LOCATION_TYPE_DEVICE, device}};
	CUmodule module;

	side->device = device;
	must(cuCtxCreate(&side->context, NULL, 0, device));
	must(cuModuleLoadData(&module, kernels_ptx));
	must(cuModuleGetFunction(&side->empty, module, "empty"));
	must(cuStreamCreate(&side->stream, CU_STREAM_NON_BLOCKING));
	must(cuMemAlloc(&side->memory, 2 * MIB));
	must(cuMemPoolCreate(&side->pool, &properties));
	must(cuIpcGetMemHandle(&side->handle, side->memory));
	((uint64_t *)&side->handle)[1] ^= 1ull << 63; /* the session */
	launch_on(side);
	must(cuStreamSynchronize(side->stream));
}

/* ---- what is done on a device, which may wait for it; and its end ---- */

static void fill_pool(struct side *side)
{
	CUdeviceptr memory;

	must(cuMemAllocFromPoolAsync(&memory, LARGE, side->pool, side->stream));
	must(cuMemFreeAsync(memory, side->stream));
}

static void trim_pool(struct side *side)
{
	must(cuMemPoolTrimTo(side->pool, 0));
}

static void map_chunk(struct side *side)
{
	CUmemAllocationProp properties = {.type = CU_MEM_ALLOCATION_TYPE_PINNED,
		.location = {CU_MEM_LOCATION_TYPE_DEVICE, side->device}};
	CUmemAccessDesc access = {
		.location = properties.location, .flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE};

	must(cuMemCreate(&side->chunk, 2 * MIB, &properties, 0));
	must(cuMemAddressReserve(&side->mapped, 2 * MIB, 0, 0, 0));
	must(cuMemMap(side->mapped, 2 * MIB, 0, side->chunk, 0));
	must(cuMemSetAccess(side->mapped, 2 * MIB, &access, 1));
}

static void unmap_chunk(struct side *side)
{
	must(cuMemUnmap(side->mapped, 2 * MIB));
	must(cuMemAddressFree(side->mapped, 2 * MIB));
	must(cuMemRelease(side->chunk));
}

static void open_handle(struct side *side)
{
	must(cuIpcOpenMemHandle(&side->opened, side->handle, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS));
}

static void close_handle(struct side *side)
{
	must(cuIpcCloseMemHandle(side->opened));
}

static void run_graph(struct side *side)
{
	CUDA_MEM_ALLOC_NODE_PARAMS params = {.bytesize = LARGE};
	CUgraphNode node;

	params.poolProps.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
	params.poolProps.location = (CUmemLocation){CU_MEM_LOCATION_TYPE_DEVICE, side->device};
	must(cuGraphCreate(&side->graph, 0));
	must(cuGraphAddMemAllocNode(&node, side->graph, NULL, 0, &params));
	must(cuGraphInstantiate(&side->exec, side->graph, 0));
	must(cuGraphLaunch(side->exec, side->stream));
	side->allocated = params.dptr;
}

static void end_graph(struct side *side)
{
	must(cuMemFree(side->allocated));
	must(cuGraphExecDestroy(side->exec));
	must(cuGraphDestroy(side->graph));
}

static void load_library(struct side *side)
{
	CUkernel kernel;

	must(cuLibraryLoadData(&side->library, kernels_ptx, NULL, NULL, 0, NULL, NULL, 0));
	must(cuLibraryGetKernel(&kernel, side->library, "empty"));
	must(cuLaunchKernel((CUfunction)kernel, 1, 1, 1, 1, 1, 1, 0, side->stream, NULL, NULL));
}

static void unload_library(struct side *side)
{
	must(cuLibraryUnload(side->library));
}

static void wait_for_value(struct side *side)
{
	must(cuMemsetD32(side->memory, 0, 1));
	must(cuStreamWaitValue32(side->stream, side->memory, 1, CU_STREAM_WAIT_VALUE_EQ));
}

static void write_value(struct side *side)
{
	must(cuMemcpyHtoD(side->memory, &(uint32_t){1}, 4)); /* on another stream */
	must(cuStreamSynchronize(side->stream));
}

static void make_context(struct side *side)
{
	CUdeviceptr memory;

	must(cuCtxCreate(&side->other, NULL, 0, side->device));
	must(cuMemAlloc(&memory, 4096));
}

static void destroy_context(struct side *side)
{
	must(cuCtxDestroy(side->other));
}

static void retain_primary(struct side *side)
{
	CUcontext context;

	must(cuDevicePrimaryCtxRetain(&context, side->device));
}

static void release_primary(struct side *side)
{
	must(cuDevicePrimaryCtxRelease(side->device));
}

static const struct use {
	const char *name;
	void (*begin)(struct side *), (*end)(struct side *);
} uses[] = {
	{"a pool", fill_pool, trim_pool},
	{"memory that is mapped", map_chunk, unmap_chunk},
	{"memory of another process", open_handle, close_handle},
	{"memory of a graph", run_graph, end_graph},
	{"a library", load_library, unload_library},
	{"a value that a stream waits for", wait_for_value, write_value},
	{"a context", make_context, destroy_context},
	{"a primary context", retain_primary, release_primary},
};
#define USES (sizeof uses / sizeof *uses)
#define WITHOUT_GDEVD 6 /* from here on nothing of gdevd is needed */

static void use_from(struct side *side, size_t first_use)
{
	launch_on(side);
	for (size_t i = first_use; i < USES; i++) {
		uses[i].begin(side);
		uses[i].end(side);
	}
}

static void use_all(struct side *side)
{
	use_from(side, 0);
}

static void use_without_gdevd(struct side *side)
{
	CUdeviceptr memory;

	launch_on(side);
	must(cuStreamSynchronize(side->stream));
	must(cuMemAlloc(&memory, 4096));
	must(cuMemFree(memory));
	use_from(side, WITHOUT_GDEVD);
}

/* ---- children ---- */

static int sockets_at_first; /* which the program was started with */

/* A child must keep no connection to gdevd or a worker: those of its parent would seem to live on. */
static int sockets_open(void)
{
	char path[64], target[64];
	struct dirent *entry;
	DIR *directory = opendir("/proc/self/fd");
	int sockets = 0;

	while (directory && (entry = readdir(directory))) {
		snprintf(path, sizeof path, "/proc/self/fd/%.20s", entry->d_name);
		ssize_t length = readlink(path, target, sizeof target - 1);
		sockets += length > 6 && !memcmp(target, "socket", 6);
	}
	if (directory)
		closedir(directory);
	return sockets;
}

/* Forks a child that starts anew on the second device when gdevd may be asked: when the pipe ends. */
static pid_t fork_child(int ends[2])
{
	struct side anew;
	pid_t child;
	char byte;

	must(pipe(ends));
	child = fork();
	if (child)
		return child;
	alarm(5 * PATIENCE_S); /* it may hang */
	close(ends[1]);
	must(sockets_open() - sockets_at_first);
	must(cuCtxSynchronize() != CUDA_ERROR_NOT_INITIALIZED);
	while (read(ends[0], &byte, 1) > 0)
		;
	must(cuInit(0));
	side_open(&anew, 1);
	use_all(&anew);
	_exit(0);
}

static bool child_ends_well(pid_t child, int ends[2])
{
	int status;

	close(ends[0]);
	close(ends[1]);
	return waitpid(child, &status, 0) == child && status == 0;
}

/* ---- a call that waits, and the rest of the program ---- */

static pid_t stopped;
static atomic_bool is_late, is_over, is_done;

/* Lets go on what is stopped when its time has come. */
static void *watch(void *argument)
{
	for (int i = 0; i < PATIENCE_S * 100 && !is_over; i++)
		usleep(10000);
	is_late = !is_over;
	kill(stopped, SIGCONT);
	return NULL;
}

/* Stops all threads of the process, and returns when they stand still. */
static void stop(pid_t process)
{
	char path[64], line[200];
	struct dirent *entry;
	bool running = true;

	must(kill(process, SIGSTOP));
	snprintf(path, sizeof path, "/proc/%d/task", process);
	while (running) {
		DIR *directory = opendir(path);
		running = false;
		while (directory && (entry = readdir(directory))) {
			char file[128];
			snprintf(file, sizeof file, "%s/%.20s/stat", path, entry->d_name);
			FILE *stat = fopen(file, "re");
			running |= stat && fgets(line, sizeof line, stat) && !strstr(line, ") T ");
			if (stat)
				fclose(stat);
		}
		if (directory)
			closedir(directory);
	}
}

struct wait {
	void (*call)(struct side *side);
	struct side *side;
};

static void *call_and_wait(void *argument)
{
	const struct wait *wait = argument;

	if (wait->side->context)
		launch_on(wait->side); /* which frees wait for */
	wait->call(wait->side);
	is_done = true;
	return NULL;
}

static void check(
	const char *name, struct wait wait, pid_t victim, void (*meanwhile)(struct side *))
{
	pthread_t caller, watcher;
	bool waited, well;
	pid_t child;
	int ends[2];

	launch_on(&second); /* which holds the device from now on, without asking gdevd again */
	must(cuStreamSynchronize(second.stream));
	is_late = is_over = is_done = false;
	stopped = victim;
	stop(stopped);
	must(pthread_create(&watcher, NULL, watch, NULL));
	must(pthread_create(&caller, NULL, call_and_wait, &wait));
	usleep(100000); /* it is in the call; if not, less is tested */
	child = fork_child(ends);
	meanwhile(&second);
	waited = !is_done;
	is_over = true;
	must(pthread_join(watcher, NULL));
	must(pthread_join(caller, NULL));
	well = child_ends_well(child, ends);
	printf("%sok %d - %s%s%s%s\n", waited && !is_late && well ? "" : "not ", ++count, name,
		is_late ? ": others are held up" : "", waited ? "" : ": it does not wait",
		well ? "" : ": the child fails");
	fflush(stdout);
	failures += !waited || is_late || !well;
}

/* ---- the cases ---- */

static void ask_device(struct side *side)
{
	int value;

	must(cuDeviceGetAttribute(&value, CU_DEVICE_ATTRIBUTE_WARP_SIZE, side->device));
}

/* Either end of a use waits for the worker of the first device. */
static void check_use(const struct use *use, pid_t worker)
{
	char name[100];

	if (use->begin == wait_for_value) {
		launch_on(&first);
		use->begin(&first); /* which waits for nothing */
	} else {
		snprintf(name, sizeof name, "%s: its beginning", use->name);
		check(name, (struct wait){use->begin, &first}, worker, use_all);
	}
	snprintf(name, sizeof name, "%s: its end", use->name);
	check(name, (struct wait){use->end, &first}, worker, use_all);
}

static CUlibrary library;
static CUkernel known;

static void find_other(struct side *side)
{
	CUkernel kernel;

	must(cuLibraryGetKernel(&kernel, library, "other")); /* for which it is loaded */
}

static void find_known(struct side *side)
{
	CUkernel kernel;

	must(cuLibraryGetKernel(&kernel, library, "known"));
	must(kernel != known);
	use_all(side);
}

/* Who loads a library keeps nobody from what is known of it. */
static void check_library(pid_t worker)
{
	static const char two_ptx[] = ".version 6.0\n.target sm_50\n.address_size 64\n"
				      ".visible .entry known()\n{\nret;\n}\n"
				      ".visible .entry other()\n{\nret;\n}\n";

	must(cuLibraryLoadData(&library, two_ptx, NULL, NULL, 0, NULL, NULL, 0));
	must(cuCtxSetCurrent(NULL));
	must(cuLibraryGetKernel(&known, library, "known"));
	check("a kernel of a library", (struct wait){find_other, &first}, worker, find_known);
	must(cuLibraryUnload(library));
}

int main(int argc, char **argv)
{
	struct side third = {.device = 2};
	pid_t gdevd = argc > 1 ? (pid_t)atoi(argv[1]) : 0, worker;

	sockets_at_first = sockets_open();
	must(cuInit(0));
	side_open(&first, 0);
	side_open(&second, 1);
	use_all(&first);
	use_all(&second);
	printf("ready\n");
	fflush(stdout);
	must(gdevd <= 0 || scanf("%d", &worker) != 1);

	check("a device that is asked what it is", (struct wait){ask_device, &third}, gdevd,
		use_without_gdevd);
	check("a device that is opened", (struct wait){retain_primary, &third}, gdevd,
		use_without_gdevd);
	for (size_t i = 0; i < USES; i++)
		check_use(&uses[i], worker);
	check_library(worker);
	printf("1..%d\n", count);
	return failures != 0;
}
