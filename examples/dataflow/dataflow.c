/* SPDX-License-Identifier: MIT
 *
 * DATAFLOW: a graph of small tasks on matrices, done in three ways (section 7.4 of the Gdev paper, after
 * PTask's benchmarks):
 *   modular  each task is a process of its own; what one makes the next takes through the host
 *   shm      the same processes, but what they hand on stays on the device, in shared memory that both
 *            know by a key (cuShmGet)
 *   hand     one program that does it all, written for the purpose
 *
 * The time is from when all processes are ready until the results are in host memory. A task begins when
 * those before it are done: they say so in pages that all processes share, with a futex.
 */
#include <cuda.h>

#include <errno.h>
#include <getopt.h>
#include <linux/futex.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ipc.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "dataflow/graph.h"

enum { EXIT_VERIFIED = 0, EXIT_WRONG = 1, EXIT_FAILED = 2 };
enum variant { MODULAR, SHM, HAND };

#define TILE 16

/* The PTX of dataflow.cu, NUL-terminated, embedded by embed.S. */
extern const char kernels_ptx[];

static const char *const shapes[] = {"tree", "rectangle", NULL};
static const char *const operations[] = {"madd", "mmul", "mcopy", NULL};
static const char *const variants[] = {"modular", "shm", "hand", NULL};

static struct {
	unsigned shape, operation, variant, size, seed, repeat;
	bool json, no_check;
	unsigned warm_up; /* rounds before those that count: 0 or 1 */
} options = {.size = 1024, .seed = 1, .repeat = 1};

static struct graph graph;
static size_t bytes; /* of a matrix */
static int key_base; /* of this run's shared segments */

/* What all processes share. */
static struct shared {
	atomic_uint done[MATRICES_MAX]; /* how often the matrix has been made */
	atomic_uint ready;              /* processes */
	atomic_uint go;                 /* rounds that have begun */
} * shared;
static float *host[MATRICES_MAX]; /* matrices that go through the host, NULL: it does not */

static uint64_t now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

#define CHECK(call) require((call), #call, __LINE__)
static void require(CUresult result, const char *call, int line)
{
	const char *name = NULL, *text = NULL;

	if (result == CUDA_SUCCESS)
		return;
	cuGetErrorName(result, &name);
	cuGetErrorString(result, &text);
	fprintf(stderr,
		"dataflow: dataflow.c:%d: %s\ndataflow: %s (%s); run it under `gdev run`, "
		"with a virtual GPU that has the memory\n",
		line, call, text ? text : "unknown error", name ? name : "?");
	exit(EXIT_FAILED);
}

/* ---- waiting for other processes ---- */

static void wait_until(atomic_uint *word, unsigned value)
{
	unsigned seen;

	while ((seen = atomic_load(word)) < value)
		syscall(SYS_futex, word, FUTEX_WAIT, seen, NULL, NULL, 0);
}

static void post(atomic_uint *word)
{
	atomic_fetch_add(word, 1);
	syscall(SYS_futex, word, FUTEX_WAKE, INT32_MAX, NULL, NULL, 0);
}

static void *share_pages(size_t length)
{
	void *pages = mmap(NULL, length, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	if (pages == MAP_FAILED) {
		fprintf(stderr, "dataflow: no memory for %zu bytes; choose a smaller SIZE\n",
			length);
		exit(EXIT_FAILED);
	}
	memset(pages, 0, length);
	return pages;
}

/* ---- the device ---- */

static CUmodule module;

static CUfunction open_device(void)
{
	CUfunction kernel;
	CUcontext context;
	CUdevice device;

	CHECK(cuInit(0));
	CHECK(cuDeviceGet(&device, 0));
	CHECK(cuDevicePrimaryCtxRetain(&context, device));
	CHECK(cuCtxSetCurrent(context));
	CHECK(cuModuleLoadData(&module, kernels_ptx));
	CHECK(cuModuleGetFunction(&kernel, module, operations[options.operation]));
	return kernel;
}

static void launch(CUfunction kernel, CUdeviceptr c, CUdeviceptr a, CUdeviceptr b)
{
	void *parameters[] = {&c, &a, &b, &graph.n};
	unsigned blocks = graph.n / TILE;

	CHECK(cuLaunchKernel(kernel, blocks, blocks, 1, TILE, TILE, 1, 0, NULL, parameters, NULL));
}

/* Only gdev has these: a vendor's library does not. */
static struct {
	CUresult (*get)(int *id, int key, size_t size, int flags);
	CUresult (*at)(CUdeviceptr *pointer, int id, int flags);
	CUresult (*ctl)(int id, int command, CUshmInfo *buffer);
} shm;

static void find_shm(void)
{
	struct {
		const char *name;
		void **function;
	} wanted[] = {{"cuShmGet", (void **)&shm.get}, {"cuShmAt", (void **)&shm.at},
		{"cuShmCtl", (void **)&shm.ctl}};

	for (size_t i = 0; i < sizeof(wanted) / sizeof(wanted[0]); i++)
		if (cuGetProcAddress(wanted[i].name, wanted[i].function, CUDA_VERSION, 0, NULL) !=
				CUDA_SUCCESS ||
			!*wanted[i].function) {
			fprintf(stderr,
				"dataflow: this libcuda has no %s: --variant=shm is for "
				"gdev's\n",
				wanted[i].name);
			exit(EXIT_FAILED);
		}
}

static bool is_result(unsigned matrix)
{
	for (unsigned i = 0; i < graph.result_count; i++)
		if (graph.results[i] == matrix)
			return true;
	return false;
}

/* The matrix as this process has it on the device. */
static CUdeviceptr device_matrix(unsigned matrix)
{
	CUdeviceptr memory;
	int id;

	if (options.variant == SHM && matrix >= graph.sources && !is_result(matrix)) {
		CHECK(shm.get(&id, key_base + (int)matrix, bytes, IPC_CREAT | 0600));
		CHECK(shm.at(&memory, id, 0));
	} else {
		CHECK(cuMemAlloc(&memory, bytes));
	}
	return memory;
}

/* Goes with the last process that is attached. */
static void remove_segments(void)
{
	int id;

	for (unsigned i = 0; i < graph.task_count; i++) {
		unsigned matrix = graph.tasks[i].output;
		if (!is_result(matrix) &&
			shm.get(&id, key_base + (int)matrix, 0, 0) == CUDA_SUCCESS)
			CHECK(shm.ctl(id, IPC_RMID, NULL));
	}
}

/* ---- a process a task ---- */

static void do_task(CUfunction kernel, const struct task *task, unsigned round,
	const CUdeviceptr *inputs, CUdeviceptr output)
{
	for (unsigned i = 0; i < graph.inputs; i++) {
		unsigned matrix = task->input[i];
		wait_until(&shared->done[matrix], round);
		if (host[matrix])
			CHECK(cuMemcpyHtoD(inputs[i], host[matrix], bytes));
	}
	launch(kernel, output, inputs[0], inputs[1]);
	if (host[task->output])
		CHECK(cuMemcpyDtoH(host[task->output], output, bytes));
	else
		CHECK(cuCtxSynchronize());
	post(&shared->done[task->output]);
}

static void run_module(unsigned index)
{
	const struct task *task = &graph.tasks[index];
	CUfunction kernel = open_device();
	CUdeviceptr inputs[2] = {0}, output;

	if (options.variant == SHM)
		find_shm();
	for (unsigned i = 0; i < graph.inputs; i++)
		inputs[i] = device_matrix(task->input[i]);
	output = device_matrix(task->output);
	if (graph.inputs == 1)
		inputs[1] = inputs[0];
	post(&shared->ready);
	for (unsigned round = 1; round <= options.repeat + options.warm_up; round++) {
		wait_until(&shared->go, round);
		do_task(kernel, task, round, inputs, output);
	}
	/* Everybody is done with what is shared before anybody removes it. */
	if (options.variant == SHM && index == graph.task_count - 1)
		remove_segments();
	exit(0);
}

static void start_modules(pid_t *children)
{
	for (unsigned i = 0; i < graph.task_count; i++) {
		children[i] = fork();
		if (children[i] == 0) {
			prctl(PR_SET_PDEATHSIG, SIGKILL);
			run_module(i);
		}
		if (children[i] < 0) {
			perror("dataflow: fork");
			exit(EXIT_FAILED);
		}
	}
}

/* Ends with a module that did not come through; the others die with this process. */
static void look_at_modules(const pid_t *children, bool wait)
{
	int status;

	for (unsigned i = 0; i < graph.task_count; i++)
		if (waitpid(children[i], &status, wait ? 0 : WNOHANG) == children[i] && status)
			exit(EXIT_FAILED);
}

static uint64_t run_modules(void)
{
	pid_t children[MATRICES_MAX];
	uint64_t start, total = 0;

	start_modules(children);
	while (atomic_load(&shared->ready) < graph.task_count) {
		look_at_modules(children, false);
		usleep(1000);
	}
	for (unsigned round = 1; round <= options.repeat + options.warm_up; round++) {
		start = now_ns();
		for (unsigned i = 0; i < graph.sources; i++)
			atomic_store(&shared->done[i], round);
		post(&shared->go);
		for (unsigned i = 0; i < graph.result_count; i++)
			while (atomic_load(&shared->done[graph.results[i]]) < round)
				syscall(SYS_futex, &shared->done[graph.results[i]], FUTEX_WAIT,
					round - 1, &(struct timespec){.tv_sec = 1}, NULL, 0);
		if (round > options.warm_up)
			total += now_ns() - start;
	}
	look_at_modules(children, true);
	return total;
}

/* ---- one program ---- */

static uint64_t run_by_hand(void)
{
	CUfunction kernel = open_device();
	CUdeviceptr memory[MATRICES_MAX];
	unsigned matrices = graph.sources + graph.task_count;
	uint64_t start, total = 0;

	for (unsigned i = 0; i < matrices; i++)
		memory[i] = device_matrix(i);
	for (unsigned round = 1; round <= options.repeat + options.warm_up; round++) {
		start = now_ns();
		for (unsigned i = 0; i < graph.sources; i++)
			CHECK(cuMemcpyHtoD(memory[i], host[i], bytes));
		for (unsigned i = 0; i < graph.task_count; i++) {
			const struct task *task = &graph.tasks[i];
			launch(kernel, memory[task->output], memory[task->input[0]],
				memory[task->input[1]]);
		}
		for (unsigned i = 0; i < graph.result_count; i++)
			CHECK(cuMemcpyDtoH(
				host[graph.results[i]], memory[graph.results[i]], bytes));
		if (round > options.warm_up)
			total += now_ns() - start;
	}
	for (unsigned i = 0; i < matrices; i++)
		CHECK(cuMemFree(memory[i]));
	return total;
}

/* ---- the command line ---- */

static void usage(FILE *out)
{
	fprintf(out,
		"Usage: dataflow [OPTION]... [SIZE]\n"
		"Runs a graph of tasks on matrices, as programs that hand on data.\n\n"
		"  SIZE               rows and columns of the matrices (default 1024)\n"
		"  --variant=NAME     modular: a process a task, copies through the host (default);\n"
		"                     shm: the same with shared device memory;\n"
		"                     hand: one process\n"
		"  --shape=NAME       tree: 6 levels of 32 to 1 tasks (default); rectangle: 10 of 6\n"
		"  --task=NAME        madd (default), mmul, mcopy\n"
		"  --seed=N           of the random input (default 1)\n"
		"  --repeat=N         run it N times; the time is the total (default 1)\n"
		"  --warm-up          run it once before, which is not counted\n"
		"  --no-check         do not compute it on the CPU as well\n"
		"  --json             report in one line of JSON\n"
		"  --help\n\n"
		"Exit status: 0 the result is right (or not checked), 1 it is wrong,\n"
		"2 the command line is, or a CUDA call failed.\n");
}

static unsigned choose(const char *text, const char *const *names, const char *what)
{
	for (unsigned i = 0; names[i]; i++)
		if (strcmp(text, names[i]) == 0)
			return i;
	fprintf(stderr, "dataflow: there is no %s '%s'; see --help\n", what, text);
	exit(EXIT_FAILED);
}

static unsigned number(const char *text, const char *what, unsigned max)
{
	char *end;
	unsigned long value;

	errno = 0;
	value = strtoul(text, &end, 10);
	if (errno || *end || end == text || *text == '-' || value < 1 || value > max) {
		fprintf(stderr, "dataflow: %s is a number from 1 to %u, not '%s'; see --help\n",
			what, max, text);
		exit(EXIT_FAILED);
	}
	return (unsigned)value;
}

static void parse(int argc, char **argv)
{
	static const struct option names[] = {
		{"variant", required_argument, NULL, 'v'},
		{"shape", required_argument, NULL, 's'},
		{"task", required_argument, NULL, 't'},
		{"seed", required_argument, NULL, 'r'},
		{"repeat", required_argument, NULL, 'n'},
		{"warm-up", no_argument, NULL, 'w'},
		{"no-check", no_argument, NULL, 'c'},
		{"json", no_argument, NULL, 'j'},
		{"help", no_argument, NULL, 'h'},
		{0},
	};
	int option;

	while ((option = getopt_long(argc, argv, "", names, NULL)) != -1) {
		if (option == 'v')
			options.variant = choose(optarg, variants, "variant");
		else if (option == 's')
			options.shape = choose(optarg, shapes, "shape");
		else if (option == 't')
			options.operation = choose(optarg, operations, "task");
		else if (option == 'r')
			options.seed = number(optarg, "--seed", UINT32_MAX);
		else if (option == 'n')
			options.repeat = number(optarg, "--repeat", 1000000);
		else if (option == 'w')
			options.warm_up = 1;
		else if (option == 'c')
			options.no_check = true;
		else if (option == 'j')
			options.json = true;
		else {
			usage(option == 'h' ? stdout : stderr);
			exit(option == 'h' ? EXIT_VERIFIED : EXIT_FAILED);
		}
	}
	if (optind < argc)
		options.size = number(argv[optind++], "SIZE", 16384);
	if (optind < argc) {
		usage(stderr);
		exit(EXIT_FAILED);
	}
	options.size = (options.size + TILE - 1) / TILE * TILE;
}

/* Which matrices go through the host: sources and results always do. */
static void make_host_matrices(void)
{
	unsigned matrices = graph.sources + graph.task_count;

	shared = share_pages(sizeof(*shared));
	for (unsigned i = 0; i < matrices; i++)
		if (i < graph.sources || is_result(i) || options.variant == MODULAR)
			host[i] = share_pages(bytes);
	for (unsigned i = 0; i < graph.sources; i++)
		graph_source(&graph, i, options.seed, host[i]);
}

static bool check(void)
{
	bool good = true;

	for (unsigned i = 0; i < graph.result_count; i++)
		good = graph_check(&graph, i, options.seed, host[graph.results[i]]) && good;
	return good;
}

static void report(uint64_t ns, const char *verdict, const char *word)
{
	const char *shape = shapes[options.shape], *task = operations[options.operation],
		   *variant = variants[options.variant];

	if (options.json)
		printf("{\"program\": \"dataflow\", \"shape\": \"%s\", \"task\": \"%s\", "
		       "\"variant\": \"%s\", \"size\": %u, \"seed\": %u, \"repeat\": %u, "
		       "\"verified\": %s, \"run_ms\": %.3f}\n",
			shape, task, variant, options.size, options.seed, options.repeat, verdict,
			ns / 1e6);
	else
		printf("dataflow %s %s %s %u: %s; %.1f ms\n", variant, task, shape, options.size,
			word, ns / 1e6);
}

int main(int argc, char **argv)
{
	bool good = true;
	uint64_t ns;

	parse(argc, argv);
	graph_make(
		&graph, (enum shape)options.shape, (enum operation)options.operation, options.size);
	bytes = (size_t)graph.n * graph.n * sizeof(float);
	key_base = (int)((unsigned)getpid() << 8 | 0x40000000u) & INT32_MAX;
	make_host_matrices();
	ns = options.variant == HAND ? run_by_hand() : run_modules();
	if (!options.no_check)
		good = check();
	report(ns,
		options.no_check ? "null"
		: good           ? "true"
				 : "false",
		options.no_check ? "not checked"
		: good           ? "verified"
				 : "WRONG");
	return good ? EXIT_VERIFIED : EXIT_WRONG;
}
