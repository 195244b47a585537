/* SPDX-License-Identifier: MIT
 *
 * Ends and beginnings of processes: `processes CASE`, a case a process (processes.py). Exit status 0, or the
 * case's own, says that nothing went wrong; a crash or a hang is what they are for.
 */
#include <cuda.h>

#include <dlfcn.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define THREADS 8

extern const char kernels_ptx[];

static CUcontext context;
static CUfunction add;

static void must(CUresult result, const char *what)
{
	if (!result)
		return;
	fprintf(stderr, "processes: cannot %s: %d\n", what, result);
	_exit(99);
}

static void start(void)
{
	CUmodule module;

	must(cuInit(0), "initialise");
	must(cuCtxCreate(&context, NULL, 0, 0), "create a context");
	must(cuModuleLoadData(&module, kernels_ptx), "load");
	must(cuModuleGetFunction(&add, module, "add"), "find the function");
}

static atomic_int launches;
static atomic_bool over;

/* Launches, copies, and waits on a stream of its own, so many times or until it is over. */
static void *work(void *argument)
{
	long rounds = (long)argument;
	uint32_t n = 256, v = 1, got = 0;
	CUdeviceptr words;
	CUstream stream;
	void *params[] = {&words, &n, &v};

	if (cuCtxSetCurrent(context) || cuStreamCreate(&stream, 0) || cuMemAlloc(&words, 1024) ||
		cuMemsetD32Async(words, 0, 256, stream))
		return (void *)1;
	for (long i = 1; i <= rounds || (!rounds && !over); i++) {
		if (cuLaunchKernel(add, 1, 1, 1, 256, 1, 1, 0, stream, params, NULL) ||
			cuMemcpyDtoHAsync(&got, words, 4, stream) || cuStreamSynchronize(stream) ||
			got != i)
			return (void *)2;
		launches++;
	}
	return cuMemFree(words) || cuStreamDestroy(stream) ? (void *)3 : NULL;
}

static void run_threads(pthread_t threads[THREADS], long rounds)
{
	for (int i = 0; i < THREADS; i++)
		if (pthread_create(&threads[i], NULL, work, (void *)rounds))
			_exit(98);
}

/* exit() while threads launch. */
static int exit_under_way(void)
{
	pthread_t threads[THREADS];

	start();
	run_threads(threads, 0);
	while (launches < 20)
		usleep(100);
	exit(7);
}

static __attribute__((noreturn)) void *exit_now(void *argument)
{
	exit(8);
}

/* The same, from another thread than main, which waits in CUDA. */
static int exit_from_a_thread(void)
{
	pthread_t threads[THREADS], one;

	start();
	run_threads(threads, 0);
	while (launches < 20)
		usleep(100);
	pthread_create(&one, NULL, exit_now, NULL);
	while (cuCtxSynchronize() == CUDA_SUCCESS)
		;
	return 97;
}

/* A handler that calls CUDA works as before, whether registered before cuInit or after. */
static void use_at_exit(void)
{
	CUdeviceptr words;

	must(cuCtxSetCurrent(context), "set the context at exit");
	must(cuMemAlloc(&words, 4096), "allocate at exit");
	must(cuMemsetD32(words, 1, 1024), "fill at exit");
	must(cuCtxSynchronize(), "wait at exit");
	must(cuMemFree(words), "free at exit");
	must(cuCtxDestroy(context), "destroy at exit");
}

static int call_at_exit(void)
{
	atexit(use_at_exit);
	start();
	exit(9);
}

/* Streams have work, and a host function waits to be called. */
static void slowly(void *argument)
{
	usleep(50000);
}

static int exit_with_work_queued(void)
{
	CUstream stream;

	start();
	must(cuStreamCreate(&stream, 0), "create a stream");
	for (int i = 0; i < 10; i++)
		must(cuLaunchHostFunc(stream, slowly, NULL), "enqueue");
	exit(10);
}

/* A child may start anew; the parent goes on, and so does a grandchild. */
static int fork_and_start_anew(void)
{
	int status;
	pid_t pid;

	start();
	pid = fork();
	if (!pid) {
		int count;
		if (cuDeviceGetCount(&count) != CUDA_ERROR_NOT_INITIALIZED)
			_exit(1);
		if (cuCtxSynchronize() != CUDA_ERROR_NOT_INITIALIZED)
			_exit(2);
		start();
		if (work((void *)10))
			_exit(3);
		exit(0);
	}
	if (work((void *)10))
		return 1;
	if (waitpid(pid, &status, 0) != pid || status)
		return 2;
	return work((void *)10) ? 3 : 0;
}

/* Forks while other threads of the parent are inside CUDA. */
static int fork_under_way(void)
{
	pthread_t threads[THREADS];
	void *result;
	int status;

	start();
	run_threads(threads, 0);
	for (int i = 0; i < 5; i++) {
		pid_t pid = fork();
		if (!pid) {
			CUdeviceptr words;
			_exit(cuMemAlloc(&words, 16) != CUDA_ERROR_NOT_INITIALIZED);
		}
		if (waitpid(pid, &status, 0) != pid || status)
			return 1;
	}
	over = true;
	for (int i = 0; i < THREADS; i++) {
		pthread_join(threads[i], &result);
		if (result)
			return 2;
	}
	return 0;
}

/* Contexts go from thread to thread by push and pop. */
static CUcontext floating[THREADS];

static void *take_turns(void *argument)
{
	CUcontext popped;

	for (int round = 0; round < 50; round++) {
		CUcontext mine = floating[((long)argument + round) % THREADS];
		CUdeviceptr words;
		if (cuCtxPushCurrent(mine) || cuMemAlloc(&words, 4096) ||
			cuMemsetD32(words, 1, 1024) || cuCtxSynchronize() || cuMemFree(words) ||
			cuCtxPopCurrent(&popped) || popped != mine)
			return (void *)1;
	}
	return NULL;
}

static int contexts_between_threads(void)
{
	pthread_t threads[THREADS];
	void *result;

	must(cuInit(0), "initialise");
	for (int i = 0; i < THREADS; i++) {
		must(cuCtxCreate(&floating[i], NULL, 0, 0), "create a context");
		must(cuCtxPopCurrent(NULL), "pop it");
	}
	for (long i = 0; i < THREADS; i++)
		pthread_create(&threads[i], NULL, take_turns, (void *)i);
	for (int i = 0; i < THREADS; i++) {
		pthread_join(threads[i], &result);
		if (result)
			return 1;
	}
	for (int i = 0; i < THREADS; i++)
		must(cuCtxDestroy(floating[i]), "destroy a context");
	return 0;
}

/* Many threads, each with a context of its own, made and destroyed again and again. */
static void *come_and_go(void *argument)
{
	for (int round = 0; round < 10; round++) {
		CUcontext mine;
		CUdeviceptr words;
		uint32_t got;
		if (cuCtxCreate(&mine, NULL, 0, 0) || cuMemAlloc(&words, 4096) ||
			cuMemsetD32(words, 5, 1024) || cuMemcpyDtoH(&got, words, 4) || got != 5 ||
			cuCtxDestroy(mine))
			return (void *)1;
	}
	return NULL;
}

static int many_contexts(void)
{
	pthread_t threads[THREADS];
	void *result;

	must(cuInit(0), "initialise");
	for (long i = 0; i < THREADS; i++)
		pthread_create(&threads[i], NULL, come_and_go, NULL);
	for (int i = 0; i < THREADS; i++) {
		pthread_join(threads[i], &result);
		if (result)
			return 1;
	}
	return 0;
}

/* The library is opened, used, closed, and opened again. */
static int open_and_close(void)
{
	for (int i = 0; i < 3; i++) {
		void *library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
		CUresult (*init)(unsigned) = library ? dlsym(library, "cuInit") : NULL;
		CUresult (*call)(CUstream, CUhostFn, void *) =
			library ? dlsym(library, "cuLaunchHostFunc") : NULL;
		if (!init || init(0) || !call)
			return 1;
		if (!i)
			start();
		if (call(NULL, slowly, NULL)) /* its thread runs on */
			return 2;
		dlclose(library);
	}
	must(cuCtxSynchronize(), "wait");
	return 0;
}

/* What CUDA_VISIBLE_DEVICES lets through: the number of devices and their names' last characters. */
static int show_devices(void)
{
	CUresult result = cuInit(0);
	int count = 0;

	if (result) {
		printf("%d\n", result);
		return 0;
	}
	must(cuDeviceGetCount(&count), "count");
	for (int i = 0; i < count; i++) {
		CUuuid uuid;
		must(cuDeviceGetUuid(&uuid, i), "get the UUID");
		printf("GPU-");
		for (int j = 0; j < 16; j++)
			printf(j == 4 || j == 6 || j == 8 || j == 10 ? "-%02x" : "%02x",
				(unsigned char)uuid.bytes[j]);
		printf("\n");
	}
	return 0;
}

/* What gdev run says of it. */
static int show_list(void)
{
	const char *list = getenv("CUDA_VISIBLE_DEVICES");

	puts(list ? list : "unset");
	return 0;
}

/* Assembles, and cannot be compiled. */
static const char calling_ptx[] = ".version 7.0\n.target sm_70\n.address_size 64\n"
				  ".extern .func nobody();\n"
				  ".visible .entry calling()\n{\ncall.uni nobody;\nret;\n}\n";

/* Has one kernel that the software GPU does not know, and one that it does. */
static const char partly_ptx[] = ".version 7.0\n.target sm_75\n.address_size 64\n"
				 ".visible .entry strange()\n{\n.reg .b32 %r<3>;\n"
				 "vmad.u32.u32.u32 %r1, %r1, %r1, %r1;\nret;\n}\n"
				 ".visible .entry plain()\n{\nret;\n}\n";

static bool kernels_are_refused_alone(void)
{
	char said[1000] = "";
	CUjit_option options[] = {CU_JIT_ERROR_LOG_BUFFER, CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES};
	void *values[] = {said, (void *)sizeof said};
	CUfunction function;
	CUmodule module;

	must(cuModuleLoadDataEx(&module, partly_ptx, 2, options, values), "load in part");
	must(cuModuleGetFunction(&function, module, "plain"), "find the plain one");
	must(cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, NULL, NULL, NULL), "launch it");
	must(cuCtxSynchronize(), "wait for it");
	return strstr(said, "line 7; error   : Instruction 'vmad") &&
	       cuModuleGetFunction(&function, module, "strange") ==
		       CUDA_ERROR_UNSUPPORTED_PTX_VERSION;
}

/* A call that gdev does not have, and so no header of its. */
CUresult CUDAAPI cuMulticastCreate(void *handle, const void *properties);

/* Calls that fail, of which GDEV_LOG says why. */
static int fail_in_all_ways(void)
{
	const CUuuid no_table = {{1, 2, 3}};
	CUdeviceptr nowhere = 4096;
	const void *table;
	CUfunction stray, calling;
	CUmodule module;

	start();
	if (cuModuleLoadData(&module, "words") != CUDA_ERROR_INVALID_IMAGE ||
		cuMulticastCreate(NULL, NULL) != CUDA_ERROR_NOT_SUPPORTED)
		return 1;
	must(cuModuleLoadData(&module, kernels_ptx), "load");
	must(cuModuleGetFunction(&stray, module, "stray"), "find the function");
	must(cuParamSetSize(stray, 4), "set the size of the parameters");
	if (cuLaunchGrid(stray, 1, 1) != CUDA_ERROR_INVALID_VALUE)
		return 2;
	if (cuGetExportTable(&table, &no_table) != CUDA_ERROR_INVALID_VALUE)
		return 3;
	if (!kernels_are_refused_alone())
		return 5;
	must(cuModuleLoadData(&module, calling_ptx), "load what cannot be compiled");
	must(cuModuleGetFunction(&calling, module, "calling"), "find its function");
	must(cuLaunchKernel(calling, 1, 1, 1, 1, 1, 1, 0, NULL, NULL, NULL), "launch it");
	if (cuCtxSynchronize() != CUDA_ERROR_UNSUPPORTED_PTX_VERSION)
		return 4;
	must(cuLaunchKernel(stray, 1, 1, 1, 1, 1, 1, 0, NULL, (void *[]){&nowhere}, NULL),
		"launch");
	return cuCtxSynchronize() != CUDA_ERROR_ILLEGAL_ADDRESS;
}

static const struct {
	const char *name;
	int (*run)(void);
} cases[] = {
	{"exit-under-way", exit_under_way},
	{"exit-from-a-thread", exit_from_a_thread},
	{"call-at-exit", call_at_exit},
	{"exit-with-work-queued", exit_with_work_queued},
	{"fork-and-start-anew", fork_and_start_anew},
	{"fork-under-way", fork_under_way},
	{"contexts-between-threads", contexts_between_threads},
	{"many-contexts", many_contexts},
	{"open-and-close", open_and_close},
	{"show-devices", show_devices},
	{"show-list", show_list},
	{"fail-in-all-ways", fail_in_all_ways},
};

int main(int argc, char **argv)
{
	for (size_t i = 0; argc == 2 && i < sizeof cases / sizeof *cases; i++)
		if (!strcmp(argv[1], cases[i].name))
			return cases[i].run();
	fprintf(stderr, "usage: processes CASE\n");
	return 100;
}
