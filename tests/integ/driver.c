/* SPDX-License-Identifier: MIT
 *
 * Does a little of everything and prints what came of it, a line a step: `driver [PTX]`. Goes on after errors
 * as long as that makes sense. `driver hold MIB` allocates so much and says how much it got. `driver burst N`
 * launches so many kernels one right after the other and says how many words they got wrong; `driver graph N` launches
 * a graph of 200 kernels so many times, with another of them changed each time.
 */
#include <cuda.h>

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char default_ptx[] = ".version 6.0\n"
				  ".target sm_70\n"
				  ".address_size 64\n"
				  ".visible .entry set(.param .u64 at, .param .u32 value)\n"
				  "{\n"
				  "	.reg .u64 %a;\n"
				  "	.reg .u32 %v;\n"
				  "	ld.param.u64 %a, [at];\n"
				  "	ld.param.u32 %v, [value];\n"
				  "	st.global.u32 [%a], %v;\n"
				  "	ret;\n"
				  "}\n";

static CUresult step(const char *name, CUresult result)
{
	const char *text = "?";

	cuGetErrorName(result, &text);
	printf("%s %s\n", name, text);
	fflush(stdout);
	return result;
}

static int hold(unsigned mib)
{
	CUcontext context;
	CUdeviceptr at;
	unsigned held = 0;

	if (step("init", cuInit(0)) || step("context", cuCtxCreate(&context, NULL, 0, 0)))
		return 1;
	while (held < mib && !cuMemAlloc(&at, 64 << 20))
		held += 64;
	printf("held %u\n", held);
	fflush(stdout);
	getchar();
	return 0;
}

#define WORDS 1024

static int burst(unsigned launches)
{
	static uint32_t words[WORDS];
	CUcontext context;
	CUmodule module;
	CUfunction set;
	CUdeviceptr memory;
	unsigned wrong = 0;

	if (step("init", cuInit(0)) || step("context", cuCtxCreate(&context, NULL, 0, 0)) ||
		step("load", cuModuleLoadData(&module, default_ptx)) ||
		step("function", cuModuleGetFunction(&set, module, "set")) ||
		step("alloc", cuMemAlloc(&memory, sizeof words)))
		return 1;
	for (uint32_t i = 0; i < launches; i++) {
		CUdeviceptr at = memory + i % WORDS * sizeof *words;
		void *params[] = {&at, &i};
		if (cuLaunchKernel(set, 1, 1, 1, 1, 1, 1, 0, NULL, params, NULL))
			return 1;
	}
	step("wait", cuCtxSynchronize());
	step("read", cuMemcpyDtoH(words, memory, sizeof words));
	for (uint32_t i = launches < WORDS ? 0 : launches - WORDS; i < launches; i++)
		wrong += words[i % WORDS] != i;
	printf("wrong %u\n", wrong);
	return 0;
}

#define KERNELS 200

static CUresult make_graph(CUfunction set, CUdeviceptr memory, CUgraphNode nodes[KERNELS],
	CUDA_KERNEL_NODE_PARAMS *node, CUgraphExec *exec)
{
	CUgraph graph;
	CUresult result = cuGraphCreate(&graph, 0);

	for (uint32_t i = 0; i < KERNELS && !result; i++) {
		CUdeviceptr at = memory + i * sizeof i;
		node->kernelParams = (void *[]){&at, &i};
		node->func = set;
		result = cuGraphAddKernelNode(
			&nodes[i], graph, i ? &nodes[i - 1] : NULL, i != 0, node);
	}
	return result ? result : cuGraphInstantiateWithFlags(exec, graph, 0);
}

static int replay(unsigned replays)
{
	CUDA_KERNEL_NODE_PARAMS node = {.gridDimX = 1,
		.gridDimY = 1,
		.gridDimZ = 1,
		.blockDimX = 1,
		.blockDimY = 1,
		.blockDimZ = 1};
	uint32_t words[KERNELS], expected[KERNELS], wrong = 0;
	CUgraphNode nodes[KERNELS];
	CUcontext context;
	CUmodule module;
	CUfunction set;
	CUdeviceptr memory;
	CUgraphExec exec;
	CUstream stream;

	if (step("init", cuInit(0)) || step("context", cuCtxCreate(&context, NULL, 0, 0)) ||
		step("load", cuModuleLoadData(&module, default_ptx)) ||
		step("function", cuModuleGetFunction(&set, module, "set")) ||
		step("alloc", cuMemAlloc(&memory, sizeof words)) ||
		step("stream", cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING)) ||
		step("graph", make_graph(set, memory, nodes, &node, &exec)))
		return 1;
	for (uint32_t i = 0; i < KERNELS; i++)
		expected[i] = i;
	for (uint32_t r = 0; r < replays; r++) {
		CUdeviceptr at = memory + r % KERNELS * sizeof r;
		node.kernelParams = (void *[]){&at, &expected[r % KERNELS]};
		expected[r % KERNELS] = 1000 + r;
		if (cuGraphExecKernelNodeSetParams(exec, nodes[r % KERNELS], &node) ||
			cuMemsetD8Async(memory, 0, sizeof words, stream) ||
			cuGraphLaunch(exec, stream) || cuGraphLaunch(exec, stream) ||
			cuMemcpyDtoHAsync(words, memory, sizeof words, stream) ||
			cuStreamSynchronize(stream))
			return 1;
		wrong += memcmp(words, expected, sizeof words) != 0;
	}
	printf("wrong %u\n", wrong);
	return 0;
}

int main(int argc, char **argv)
{
	const char *ptx = argc > 1 ? argv[1] : default_ptx;
	char log[512] = "";
	CUjit_option options[] = {CU_JIT_ERROR_LOG_BUFFER, CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES};
	void *values[] = {log, (void *)(uintptr_t)sizeof log};
	uint32_t value = 4711, got = 0;
	CUcontext context;
	CUmodule module;
	CUfunction set;
	CUdeviceptr at, more;
	void *params[] = {&at, &value};

	if (argc == 3 && !strcmp(argv[1], "hold"))
		return hold((unsigned)strtoul(argv[2], NULL, 10));
	if (argc == 3 && !strcmp(argv[1], "burst"))
		return burst((unsigned)strtoul(argv[2], NULL, 10));
	if (argc == 3 && !strcmp(argv[1], "graph"))
		return replay((unsigned)strtoul(argv[2], NULL, 10));
	if (step("init", cuInit(0)) || step("context", cuCtxCreate(&context, NULL, 0, 0)))
		return 1;
	if (step("load", cuModuleLoadDataEx(&module, ptx, 2, options, values))) {
		printf("log %s\n", log);
		return 1;
	}
	if (step("function", cuModuleGetFunction(&set, module, "set")) ||
		step("alloc", cuMemAlloc(&at, 4096)))
		return 1;
	step("memset", cuMemsetD8(at, 0, 4096));
	step("launch", cuLaunchKernel(set, 1, 1, 1, 1, 1, 1, 0, NULL, params, NULL));
	step("wait", cuCtxSynchronize());
	step("read", cuMemcpyDtoH(&got, at, sizeof got));
	printf("value %u\n", got);
	step("again", cuCtxSynchronize());
	step("more", cuMemAlloc(&more, 8 << 20));
	return 0;
}
