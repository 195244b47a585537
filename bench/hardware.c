/* SPDX-License-Identifier: MIT
 *
 * One side of a comparison of gdev with the vendor's library: `hardware PART`, run with the one and with the
 * other, prints what it measured as {"metric": …, "value": …, "unit": …}, a line each. scripts/hardware
 * runs both sides in turn and reports them together.
 *   copy    256 MiB and small, pageable and page-locked, each way
 *   launch  an empty kernel: the caller's time, launch and wait, launches a second; a long one: launch and wait
 *   alloc   allocating and freeing device memory
 *   first   everything from the start of the program to its first kernel done
 *   graph   a CUDA graph of 51 kernels, as a small step of training is: launch and wait; and one behind the other
 *   pair    a kernel of 20 us, wait, the next, for two seconds: kernels a second. Meant to be run twice
 *           at once
 * And two that measure nothing, whose whole run the script takes the time of:
 *   start SALT  a small program: its kernel, which has the number in its code, writes it
 *   ask         a program that only asks what the device is
 */
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "device.h"

#define REPETITIONS 9
#define BIG ((size_t)256 << 20)
#define SMALL_COPIES 1000
#define REPEATED_COPIES 1000
#define PAIR_NS 2000000000u
#define PAIR_KERNEL_NS 20000
#define GRAPH_KERNELS 51

static const char spin_ptx[] = ".version 6.0\n"
			       ".target sm_70\n"
			       ".address_size 64\n"
			       ".visible .entry spin(.param .u64 ns)\n"
			       "{\n"
			       "	.reg .u64 %t<4>;\n"
			       "	.reg .pred %p;\n"
			       "	ld.param.u64 %t1, [ns];\n"
			       "	mov.u64 %t2, %globaltimer;\n"
			       "again:\n"
			       "	mov.u64 %t3, %globaltimer;\n"
			       "	sub.u64 %t3, %t3, %t2;\n"
			       "	setp.lt.u64 %p, %t3, %t1;\n"
			       "	@%p bra again;\n"
			       "	ret;\n"
			       "}\n";

static void report(const char *metric, double value, const char *unit)
{
	printf("{\"metric\": \"%s\", \"value\": %.6g, \"unit\": \"%s\"}\n", metric, value, unit);
	fflush(stdout);
}

static void report_median(const char *metric, struct samples *samples, const char *unit)
{
	report(metric, samples_median(samples), unit);
	samples->count = 0;
}

/* ---- copies ---- */

static void big_copies(void *host, CUdeviceptr memory, const char *kind)
{
	static struct samples to, from;
	char metric[64];

	for (int i = 0; i <= REPETITIONS; i++) {
		uint64_t start = bench_now_ns(), middle, end;
		must(cuMemcpyHtoD(memory, host, BIG), "copy to the device");
		must(cuCtxSynchronize(), "wait");
		middle = bench_now_ns();
		must(cuMemcpyDtoH(host, memory, BIG), "copy from the device");
		end = bench_now_ns();
		if (!i)
			continue; /* pages, pipelines */
		samples_add(&to, BIG / (double)(middle - start));
		samples_add(&from, BIG / (double)(end - middle));
	}
	snprintf(metric, sizeof metric, "copy.h2d_%s_256M", kind);
	report_median(metric, &to, "GB/s");
	snprintf(metric, sizeof metric, "copy.d2h_%s_256M", kind);
	report_median(metric, &from, "GB/s");
}

/* One right after the other. */
static void repeated_copies(void *host, CUdeviceptr memory, size_t bytes, const char *name)
{
	static struct samples samples;
	char metric[64];

	for (int i = 0; i <= REPETITIONS; i++) {
		uint64_t start = bench_now_ns(), end;
		for (int k = 0; k < REPEATED_COPIES; k++)
			must(cuMemcpyHtoD(memory, host, bytes), "copy to the device");
		end = bench_now_ns();
		must(cuCtxSynchronize(), "wait");
		if (i)
			samples_add(&samples, (double)(end - start) / 1e3 / REPEATED_COPIES);
	}
	snprintf(metric, sizeof metric, "copy.h2d_%s_repeated_us", name);
	report_median(metric, &samples, "us");
}

/* The time of the call, on an idle device. */
static void small_copies(void *host, CUdeviceptr memory, size_t bytes, const char *name)
{
	static struct samples to, from;
	char metric[64];

	for (int i = 0; i < SMALL_COPIES; i++) {
		uint64_t start = bench_now_ns(), middle, end;
		must(cuMemcpyHtoD(memory, host, bytes), "copy to the device");
		end = bench_now_ns();
		must(cuCtxSynchronize(), "wait");
		samples_add(&to, (double)(end - start) / 1e3);
		middle = bench_now_ns();
		must(cuMemcpyDtoH(host, memory, bytes), "copy from the device");
		samples_add(&from, (double)(bench_now_ns() - middle) / 1e3);
	}
	snprintf(metric, sizeof metric, "copy.h2d_%s_us", name);
	report_median(metric, &to, "us");
	snprintf(metric, sizeof metric, "copy.d2h_%s_us", name);
	report_median(metric, &from, "us");
	repeated_copies(host, memory, bytes, name);
}

static void copy(void)
{
	CUdeviceptr memory;
	void *pageable, *pinned;

	open_device();
	must(cuMemAlloc(&memory, BIG), "allocate on the device");
	pageable = malloc(BIG);
	bench_require(!pageable, "allocate 256 MiB", "no memory");
	memset(pageable, 1, BIG);
	must(cuMemAllocHost(&pinned, BIG), "allocate page-locked memory");
	memset(pinned, 2, BIG);
	big_copies(pageable, memory, "pageable");
	big_copies(pinned, memory, "pinned");
	small_copies(pageable, memory, 64, "64");
	small_copies(pageable, memory, 1 << 10, "1K");
	small_copies(pageable, memory, 4 << 10, "4K");
	small_copies(pageable, memory, 16 << 10, "16K");
	small_copies(pageable, memory, 64 << 10, "64K");
}

/* ---- launches ---- */

static CUfunction load_spin(void)
{
	CUmodule module;
	CUfunction spin;

	must(cuModuleLoadData(&module, spin_ptx), "load");
	must(cuModuleGetFunction(&spin, module, "spin"), "find the kernel");
	return spin;
}

static void spin_and_wait(CUfunction spin, unsigned long long ns)
{
	void *arguments[] = {&ns};

	must(cuLaunchKernel(spin, 1, 1, 1, 1, 1, 1, 0, NULL, arguments, NULL), "launch");
	must(cuCtxSynchronize(), "wait");
}

/* Who does not look all the time is late. */
static void long_waits(void)
{
	static const struct {
		const char *name;
		unsigned long long ns;
		unsigned count;
	} lengths[] = {{"2ms", 2100000, 30}, {"5ms", 4500000, 20}, {"20ms", 20000000, 5}};
	static struct samples samples;
	CUfunction spin = load_spin();
	char metric[64];

	for (size_t k = 0; k < sizeof lengths / sizeof *lengths; k++) {
		for (int i = 0; i <= REPETITIONS; i++) {
			uint64_t start = bench_now_ns();
			for (unsigned n = 0; n < lengths[k].count; n++)
				spin_and_wait(spin, lengths[k].ns);
			if (i)
				samples_add(&samples,
					(double)(bench_now_ns() - start) / 1e3 / lengths[k].count);
		}
		snprintf(metric, sizeof metric, "launch.wait_%s_us", lengths[k].name);
		report_median(metric, &samples, "us");
	}
}

static void launches(void)
{
	static struct samples async, wait, rate;
	CUfunction empty = open_device();

	for (int i = 0; i <= REPETITIONS; i++) {
		uint64_t start = bench_now_ns(), end;
		for (int k = 0; k < 200; k++)
			launch(empty);
		end = bench_now_ns();
		must(cuCtxSynchronize(), "wait");
		if (i)
			samples_add(&async, (double)(end - start) / 1e3 / 200);
		start = bench_now_ns();
		for (int k = 0; k < 500; k++) {
			launch(empty);
			must(cuCtxSynchronize(), "wait");
		}
		if (i)
			samples_add(&wait, (double)(bench_now_ns() - start) / 1e3 / 500);
		start = bench_now_ns();
		for (int k = 0; k < 50000; k++)
			launch(empty);
		must(cuCtxSynchronize(), "wait");
		if (i)
			samples_add(&rate, 50000e9 / (double)(bench_now_ns() - start));
	}
	report_median("launch.async_us", &async, "us");
	report_median("launch.wait_us", &wait, "us");
	report_median("launch.per_second", &rate, "1/s");
	long_waits();
}

/* ---- allocations ---- */

static void allocations(size_t bytes, const char *name)
{
	static struct samples times;
	CUdeviceptr memory;
	char metric[64];

	for (int i = 0; i <= REPETITIONS; i++) {
		uint64_t start = bench_now_ns();
		for (int k = 0; k < 100; k++) {
			must(cuMemAlloc(&memory, bytes), "allocate");
			must(cuMemFree(memory), "free");
		}
		if (i)
			samples_add(&times, (double)(bench_now_ns() - start) / 1e3 / 100);
	}
	snprintf(metric, sizeof metric, "alloc.%s_us", name);
	report_median(metric, &times, "us");
}

static void alloc(void)
{
	open_device();
	allocations(4 << 10, "4K");
	allocations(1 << 20, "1M");
	allocations(16 << 20, "16M");
	allocations(64 << 20, "64M");
}

/* ---- whole programs ---- */

/* The script says when it started this process, by the clock that all processes share. */
static void first(void)
{
	const char *started = getenv("BENCH_START_NS");
	CUfunction empty = open_device();

	launch(empty);
	must(cuCtxSynchronize(), "wait");
	bench_require(!started, "read BENCH_START_NS", "run it through scripts/hardware");
	report("start.first_kernel_ms",
		(double)(bench_now_ns() - strtoull(started, NULL, 10)) / 1e6, "ms");
}

static void start(const char *salt)
{
	char ptx[512];
	uint32_t number = (uint32_t)strtoul(salt, NULL, 10), word = 0;
	CUdeviceptr memory;
	CUfunction kernel;
	CUmodule module;
	void *params[] = {&memory};

	snprintf(ptx, sizeof ptx,
		".version 6.0\n.target sm_70\n.address_size 64\n"
		".visible .entry salt(.param .u64 out)\n{\n"
		"	.reg .u64 %%a;\n	.reg .u32 %%v;\n"
		"	ld.param.u64 %%a, [out];\n	mov.u32 %%v, %u;\n"
		"	st.global.u32 [%%a], %%v;\n	ret;\n}\n",
		number);
	open_device();
	must(cuModuleLoadData(&module, ptx), "load");
	must(cuModuleGetFunction(&kernel, module, "salt"), "find the kernel");
	must(cuMemAlloc(&memory, sizeof word), "allocate");
	must(cuLaunchKernel(kernel, 1, 1, 1, 1, 1, 1, 0, NULL, params, NULL), "launch");
	must(cuMemcpyDtoH(&word, memory, sizeof word), "copy from the device");
	bench_require(word != number, "read what the kernel wrote", "the result is wrong");
}

static void ask(void)
{
	char name[64];
	size_t bytes;
	int value;

	must(cuInit(0), "begin");
	must(cuDeviceGetName(name, sizeof name, 0), "ask for the name");
	must(cuDeviceTotalMem(&bytes, 0), "ask for the memory");
	for (int i = 1; i < 100; i++)
		must(cuDeviceGetAttribute(&value, (CUdevice_attribute)i, 0),
			"ask for an attribute");
}

/* As long as so many cycles of the multiprocessor, which is finer than %globaltimer. */
static const char cycles_ptx[] = ".version 6.0\n"
				 ".target sm_70\n"
				 ".address_size 64\n"
				 ".visible .entry cycles(.param .u64 count, .param .u64 number)\n"
				 "{\n"
				 "	.reg .u64 %t<4>;\n"
				 "	.reg .pred %p;\n"
				 "	ld.param.u64 %t1, [count];\n"
				 "	mov.u64 %t2, %clock64;\n"
				 "again:\n"
				 "	mov.u64 %t3, %clock64;\n"
				 "	sub.u64 %t3, %t3, %t2;\n"
				 "	setp.lt.u64 %p, %t3, %t1;\n"
				 "	@%p bra again;\n"
				 "	ret;\n"
				 "}\n";

/* Its kernels differ, by their parameters. */
static CUgraphExec make_graph(CUfunction kernel, unsigned long long cycles)
{
	CUDA_KERNEL_NODE_PARAMS node = {.func = kernel,
		.gridDimX = 1,
		.gridDimY = 1,
		.gridDimZ = 1,
		.blockDimX = 1,
		.blockDimY = 1,
		.blockDimZ = 1};
	CUgraphNode nodes[GRAPH_KERNELS];
	CUgraphExec exec;
	CUgraph graph;

	must(cuGraphCreate(&graph, 0), "make a graph");
	for (unsigned long long i = 0; i < GRAPH_KERNELS; i++) {
		void *arguments[] = {&cycles, &i};
		node.kernelParams = arguments;
		must(cuGraphAddKernelNode(
			     &nodes[i], graph, i ? &nodes[i - 1] : NULL, i != 0, &node),
			"add a kernel");
	}
	must(cuGraphInstantiateWithFlags(&exec, graph, 0), "make the graph executable");
	must(cuGraphDestroy(graph), "let the graph go");
	return exec;
}

static double replays_us(CUgraphExec graph, CUstream stream, int count, bool each)
{
	uint64_t start = bench_now_ns();

	for (int i = 0; i < count; i++) {
		must(cuGraphLaunch(graph, stream), "launch the graph");
		if (each)
			must(cuStreamSynchronize(stream), "wait");
	}
	must(cuStreamSynchronize(stream), "wait");
	return (double)(bench_now_ns() - start) / 1e3 / count;
}

static void graphs(void)
{
	static const struct {
		const char *name;
		unsigned long long cycles; /* at 1.98 GHz: */
	} lengths[] = {{"empty", 0}, {"3us", 4000}, {"8us", 14000}};
	static struct samples wait, rate;
	CUfunction kernel;
	CUmodule module;
	CUstream stream;

	open_device();
	must(cuModuleLoadData(&module, cycles_ptx), "load");
	must(cuModuleGetFunction(&kernel, module, "cycles"), "find the kernel");
	must(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING), "make a stream");
	for (size_t k = 0; k < sizeof lengths / sizeof *lengths; k++) {
		CUgraphExec graph = make_graph(kernel, lengths[k].cycles);
		char metric[64];
		for (int i = 0; i <= REPETITIONS; i++) {
			double waiting = replays_us(graph, stream, 20, true);
			double busy = replays_us(graph, stream, 20, false);
			if (i) { /* the first make what is used again */
				samples_add(&wait, waiting);
				samples_add(&rate, busy);
			}
		}
		snprintf(metric, sizeof metric, "graph.%s_wait_us", lengths[k].name);
		report_median(metric, &wait, "us");
		snprintf(metric, sizeof metric, "graph.%s_us", lengths[k].name);
		report_median(metric, &rate, "us");
		must(cuGraphExecDestroy(graph), "destroy the graph");
	}
}

static void pair(void)
{
	uint64_t start, count = 0;
	CUfunction spin;

	open_device();
	spin = load_spin();
	spin_and_wait(spin, PAIR_KERNEL_NS);
	start = bench_now_ns();
	while (bench_now_ns() - start < PAIR_NS) {
		spin_and_wait(spin, PAIR_KERNEL_NS);
		count++;
	}
	report("pair.throughput", (double)count * 1e9 / (double)(bench_now_ns() - start), "1/s");
}

int main(int argc, char **argv)
{
	static const struct {
		const char *name;
		void (*run)(void);
	} parts[] = {{"copy", copy}, {"launch", launches}, {"alloc", alloc}, {"first", first},
		{"graph", graphs}, {"pair", pair}, {"ask", ask}};

	for (size_t i = 0; argc == 2 && i < sizeof parts / sizeof *parts; i++)
		if (!strcmp(argv[1], parts[i].name)) {
			parts[i].run();
			return 0;
		}
	if (argc == 3 && !strcmp(argv[1], "start")) {
		start(argv[2]);
		return 0;
	}
	fputs("Usage: hardware copy|launch|alloc|first|graph|pair|ask|start SALT\n", stderr);
	return 2;
}
