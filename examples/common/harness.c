/* SPDX-License-Identifier: MIT
 *
 * The part of every example that is not about its computation: see harness.h. Times are wall time, by
 * phase: open (initialisation, context, module), copy, compute (launch until the wait that follows),
 * and for one round everything that compute() does.
 */
#include "common/harness.h"

#include <errno.h>
#include <getopt.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { EXIT_VERIFIED = 0, EXIT_WRONG = 1, EXIT_FAILED = 2 };

/* Allocations, given back at the end. A program has a handful. */
#define ALLOCATIONS_MAX 64

struct options options = {.seed = 1, .repeat = 1};

static struct {
	bool json, progress, no_check, warm_up, turns;
	unsigned devices, device;        /* how many there are, and the current one */
	CUcontext contexts[DEVICES_MAX]; /* NULL: not used yet */
	CUmodule modules[DEVICES_MAX];
	CUdeviceptr device_memory[ALLOCATIONS_MAX];
	void *host_memory[ALLOCATIONS_MAX];
	unsigned device_allocations, host_allocations;
	uint64_t random;
	uint64_t open_ns, load_ns, copy_ns, compute_ns; /* load: of modules, a part of open */
	uint64_t launched_ns; /* when the first launch was since the last wait; 0: none was */
	uint64_t to_device_bytes, from_device_bytes, launches;
	uint64_t progress_ns; /* when progress was last said */
	unsigned round;
	bool checked, wrong;
} state;

static uint64_t now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

/* ---- errors ---- */

/* What the user can do about it, for the errors that a user meets. */
static const char *advice(CUresult result)
{
	switch (result) {
	case CUDA_ERROR_NO_DEVICE:
	case CUDA_ERROR_NOT_INITIALIZED:
		return "run it under `gdev run`, or start gdevd";
	case CUDA_ERROR_OUT_OF_MEMORY:
		return "choose a smaller SIZE, or a virtual GPU with more memory (`gdev vgpu list`)";
	case CUDA_ERROR_INVALID_PTX:
	case CUDA_ERROR_UNSUPPORTED_PTX_VERSION:
		return "the JIT log above names the instruction";
	case CUDA_ERROR_ILLEGAL_ADDRESS:
		return "a kernel used memory that it does not own: a bug in the program";
	default:
		return "`gdev status` says what the device is doing";
	}
}

void harness_require(CUresult result, const char *call, const char *file, int line)
{
	const char *name = NULL, *text = NULL;

	if (result == CUDA_SUCCESS)
		return;
	cuGetErrorName(result, &name);
	cuGetErrorString(result, &text);
	fprintf(stderr, "%s: %s:%d: %s\n%s: %s (%s); %s\n", program.name, file, line, call,
		program.name, text ? text : "unknown error", name ? name : "?", advice(result));
	exit(EXIT_FAILED);
}

static void *require_memory(void *memory, size_t bytes)
{
	if (memory)
		return memory;
	fprintf(stderr, "%s: no memory for %zu bytes; choose a smaller SIZE\n", program.name,
		bytes);
	exit(EXIT_FAILED);
}

/* ---- the device ---- */

/* The current one. */
static void device_open(void)
{
	char log[4096] = "";
	CUjit_option names[] = {CU_JIT_ERROR_LOG_BUFFER, CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES};
	void *values[] = {log, (void *)sizeof(log)};
	CUdevice device;
	CUresult result;

	CHECK(cuDeviceGet(&device, (int)state.device));
	CHECK(cuDevicePrimaryCtxRetain(&state.contexts[state.device], device));
	CHECK(cuCtxSetCurrent(state.contexts[state.device]));
	uint64_t start = now_ns();
	result = cuModuleLoadDataEx(&state.modules[state.device], kernels_ptx, 2, names, values);
	state.load_ns += now_ns() - start;
	if (result != CUDA_SUCCESS && log[0])
		fprintf(stderr, "%s\n", log);
	CHECK(result);
}

static void devices_open(void)
{
	uint64_t start = now_ns();
	int count;

	CHECK(cuInit(0));
	CHECK(cuDeviceGetCount(&count));
	state.devices = count < DEVICES_MAX ? (unsigned)count : DEVICES_MAX;
	device_open();
	state.open_ns = now_ns() - start;
}

unsigned device_count(void)
{
	return state.devices;
}

void device_use(unsigned index)
{
	uint64_t start = now_ns();

	state.device = index;
	if (state.contexts[index]) {
		CHECK(cuCtxSetCurrent(state.contexts[index]));
		return;
	}
	device_open();
	state.open_ns += now_ns() - start;
}

CUcontext device_context(unsigned index)
{
	return state.contexts[index];
}

static void devices_close(void)
{
	while (state.device_allocations)
		CHECK(cuMemFree(state.device_memory[--state.device_allocations]));
	while (state.host_allocations)
		free(state.host_memory[--state.host_allocations]);
	for (unsigned i = 0; i < state.devices; i++) {
		if (!state.contexts[i])
			continue;
		device_use(i);
		CHECK(cuModuleUnload(state.modules[i]));
		CHECK(cuDevicePrimaryCtxRelease((CUdevice)i));
	}
}

CUdeviceptr device_alloc(size_t bytes)
{
	CUdeviceptr memory;

	if (state.device_allocations == ALLOCATIONS_MAX)
		harness_require(CUDA_ERROR_OUT_OF_MEMORY, "device_alloc", __FILE__, __LINE__);
	CHECK(cuMemAlloc(&memory, bytes));
	state.device_memory[state.device_allocations++] = memory;
	return memory;
}

CUfunction device_kernel(const char *name)
{
	CUfunction kernel;

	CHECK(cuModuleGetFunction(&kernel, state.modules[state.device], name));
	return kernel;
}

void copy_to_device(CUdeviceptr destination, const void *source, size_t bytes)
{
	uint64_t start = now_ns();

	CHECK(cuMemcpyHtoD(destination, source, bytes));
	state.copy_ns += now_ns() - start;
	state.to_device_bytes += bytes;
}

void copy_from_device(void *destination, CUdeviceptr source, size_t bytes)
{
	uint64_t start;

	device_wait();
	start = now_ns();
	CHECK(cuMemcpyDtoH(destination, source, bytes));
	state.copy_ns += now_ns() - start;
	state.from_device_bytes += bytes;
}

void launch_kernel(CUfunction kernel, struct shape shape, void **parameters)
{
	if (!state.launched_ns)
		state.launched_ns = now_ns();
	CHECK(cuLaunchKernel(kernel, shape.grid_x, shape.grid_y, 1, shape.block_x, shape.block_y, 1,
		0, NULL, parameters, NULL));
	state.launches++;
}

void device_wait(void)
{
	unsigned current = state.device;

	if (!state.launched_ns)
		return;
	for (unsigned i = 0; i < state.devices; i++) {
		if (!state.contexts[i])
			continue;
		device_use(i);
		CHECK(cuCtxSynchronize());
	}
	device_use(current);
	state.compute_ns += now_ns() - state.launched_ns;
	state.launched_ns = 0;
}

/* ---- data ---- */

void *host_alloc(size_t bytes)
{
	void *memory = require_memory(aligned_alloc(64, (bytes + 63) / 64 * 64), bytes);

	if (state.host_allocations == ALLOCATIONS_MAX)
		require_memory(NULL, bytes);
	state.host_memory[state.host_allocations++] = memory;
	return memory;
}

/* splitmix64: any seed gives a good sequence. */
uint32_t random_next(void)
{
	uint64_t z = (state.random += 0x9E3779B97F4A7C15u);

	z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
	z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
	return (uint32_t)((z ^ (z >> 31)) >> 32);
}

float random_float(float low, float high)
{
	return low + (high - low) * (float)(random_next() >> 8) * 0x1p-24f;
}

float *random_floats(size_t count, float low, float high)
{
	float *values = host_alloc(count * sizeof(*values));

	for (size_t i = 0; i < count; i++)
		values[i] = random_float(low, high);
	return values;
}

/* ---- progress and checking ---- */

void progress(unsigned done, unsigned total)
{
	uint64_t now = now_ns();
	double part = total ? (double)done / total : 1;

	if (!state.progress || now - state.progress_ns < 500000000u)
		return;
	state.progress_ns = now;
	fprintf(stderr, "%-6s %3.0f %%\n", program.name,
		100 * (state.round + part) / options.repeat);
}

void check_floats(
	const char *what, const float *got, const float *want, size_t count, float tolerance)
{
	size_t wrong = 0, first = 0;

	state.checked = true;
	for (size_t i = 0; i < count; i++) {
		float scale = fmaxf(1, fmaxf(fabsf(got[i]), fabsf(want[i])));

		/* Written so that a NaN is wrong. */
		if (!(fabsf(got[i] - want[i]) <= tolerance * scale) && !wrong++)
			first = i;
	}
	if (!wrong)
		return;
	state.wrong = true;
	fprintf(stderr,
		"%s: WRONG: %zu of %zu values of %s; the first is [%zu]: %.9g instead of %.9g\n",
		program.name, wrong, count, what, first, (double)got[first], (double)want[first]);
}

void check_ints(const char *what, const int *got, const int *want, size_t count)
{
	size_t wrong = 0, first = 0;

	state.checked = true;
	for (size_t i = 0; i < count; i++)
		if (got[i] != want[i] && !wrong++)
			first = i;
	if (!wrong)
		return;
	state.wrong = true;
	fprintf(stderr,
		"%s: WRONG: %zu of %zu values of %s; the first is [%zu]: %d instead of %d\n",
		program.name, wrong, count, what, first, got[first], want[first]);
}

/* In the order that uses caches well: the sum of the rows of the right matrix, weighted. */
void multiply_row(
	float *restrict product, const float *left, const float *restrict right, unsigned n)
{
	for (unsigned j = 0; j < n; j++)
		product[j] = 0;
	for (unsigned k = 0; k < n; k++) {
		const float *restrict row = right + (size_t)k * n;
		float weight = left[k];

		for (unsigned j = 0; j < n; j++)
			product[j] += weight * row[j];
	}
}

/* ---- the command line ---- */

static void usage(FILE *out)
{
	fprintf(out,
		"Usage: %s [OPTION]... [SIZE]\n"
		"%s\n\n"
		"  SIZE             %s (default %u)\n"
		"  --size=N         the same\n"
		"  --seed=N         of the random input (default 1)\n"
		"  --repeat=N       compute N times; times are totals (default 1)\n"
		"  --warm-up        compute once before, which is not counted\n"
		"  --turns          compute as often as each line of standard input says, and\n"
		"                   answer each with the milliseconds that it took, and those of\n"
		"                   them that kernels and that copies took\n"
		"  --no-check       do not compute it on the CPU as well\n"
		"  --progress       say on stderr how far it is\n"
		"  --json           report in one line of JSON\n"
		"  --help\n\n"
		"Exit status: 0 the result is right (or not checked), 1 it is wrong,\n"
		"2 the command line is, or a CUDA call failed.\n",
		program.name, program.summary, program.size_means, program.size);
}

static unsigned number(const char *text, const char *what, unsigned max)
{
	char *end;
	unsigned long value;

	errno = 0;
	value = strtoul(text, &end, 10);
	if (errno || *end || end == text || *text == '-' || value < 1 || value > max) {
		fprintf(stderr, "%s: %s is a number from 1 to %u, not '%s'; see --help\n",
			program.name, what, max, text);
		exit(EXIT_FAILED);
	}
	return (unsigned)value;
}

static void parse(int argc, char **argv)
{
	static const struct option names[] = {
		{"size", required_argument, NULL, 's'},
		{"seed", required_argument, NULL, 'r'},
		{"repeat", required_argument, NULL, 'n'},
		{"warm-up", no_argument, NULL, 'w'},
		{"turns", no_argument, NULL, 't'},
		{"no-check", no_argument, NULL, 'c'},
		{"progress", no_argument, NULL, 'p'},
		{"json", no_argument, NULL, 'j'},
		{"help", no_argument, NULL, 'h'},
		{0},
	};
	unsigned multiple = program.multiple ? program.multiple : 1;
	int option;

	options.size = program.size;
	while ((option = getopt_long(argc, argv, "", names, NULL)) != -1) {
		if (option == 's')
			options.size = number(optarg, "SIZE", program.size_max);
		else if (option == 'r')
			options.seed = number(optarg, "--seed", UINT32_MAX);
		else if (option == 'n')
			options.repeat = number(optarg, "--repeat", 1000000);
		else if (option == 'w')
			state.warm_up = true;
		else if (option == 't')
			state.turns = true;
		else if (option == 'c')
			state.no_check = true;
		else if (option == 'p')
			state.progress = true;
		else if (option == 'j')
			state.json = true;
		else {
			usage(option == 'h' ? stdout : stderr);
			exit(option == 'h' ? EXIT_VERIFIED : EXIT_FAILED);
		}
	}
	if (optind < argc)
		options.size = number(argv[optind++], "SIZE", program.size_max);
	if (optind < argc) {
		usage(stderr);
		exit(EXIT_FAILED);
	}
	options.size = (options.size + multiple - 1) / multiple * multiple;
}

static void report(uint64_t round_ns, uint64_t wall_ns)
{
	const char *verdict = state.wrong ? "false" : state.checked ? "true" : "null";

	if (state.json) {
		printf("{\"program\": \"%s\", \"size\": %u, \"seed\": %u, \"repeat\": %u, "
		       "\"verified\": %s, \"open_ms\": %.3f, \"load_ms\": %.3f, \"copy_ms\": %.3f, "
		       "\"compute_ms\": %.3f, \"run_ms\": %.3f, \"wall_ms\": %.3f, "
		       "\"to_device_bytes\": %llu, \"from_device_bytes\": %llu, \"launches\": %llu}\n",
			program.name, options.size, options.seed, options.repeat, verdict,
			state.open_ns / 1e6, state.load_ns / 1e6, state.copy_ns / 1e6,
			state.compute_ns / 1e6, round_ns / 1e6, wall_ns / 1e6,
			(unsigned long long)state.to_device_bytes,
			(unsigned long long)state.from_device_bytes,
			(unsigned long long)state.launches);
		return;
	}
	printf("%s %u: %s; open %.1f ms, copy %.1f ms, compute %.1f ms, wall %.1f ms\n",
		program.name, options.size,
		state.wrong     ? "WRONG"
		: state.checked ? "verified"
				: "not checked",
		state.open_ns / 1e6, state.copy_ns / 1e6, state.compute_ns / 1e6, wall_ns / 1e6);
}

static void forget_times(void)
{
	state.copy_ns = state.compute_ns = 0;
	state.to_device_bytes = state.from_device_bytes = state.launches = 0;
}

static uint64_t compute_rounds(unsigned rounds)
{
	uint64_t start = now_ns();

	for (state.round = 0; state.round < rounds; state.round++) {
		progress(0, 1);
		program.compute();
		device_wait();
	}
	return now_ns() - start;
}

/* Programs that are compared take turns of a few rounds each: what disturbs the machine disturbs all. */
static uint64_t compute_in_turns(void)
{
	uint64_t total_ns = 0, ns, compute_ns, copy_ns;
	char line[32];

	while (fgets(line, sizeof(line), stdin)) {
		line[strcspn(line, "\n")] = 0;
		compute_ns = state.compute_ns;
		copy_ns = state.copy_ns;
		ns = compute_rounds(number(line, "a turn", 1000000));
		printf("%.6f %.6f %.6f\n", ns / 1e6, (state.compute_ns - compute_ns) / 1e6,
			(state.copy_ns - copy_ns) / 1e6);
		fflush(stdout);
		total_ns += ns;
	}
	return total_ns;
}

int main(int argc, char **argv)
{
	uint64_t start = now_ns(), round_ns;

	parse(argc, argv);
	state.random = options.seed;
	devices_open();
	program.setup();
	if (state.warm_up) {
		program.compute();
		device_wait();
		forget_times();
	}
	round_ns = state.turns ? compute_in_turns() : compute_rounds(options.repeat);
	if (!state.no_check)
		program.check();
	devices_close();
	report(round_ns, now_ns() - start);
	return state.wrong ? EXIT_WRONG : EXIT_VERIFIED;
}
