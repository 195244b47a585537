/* SPDX-License-Identifier: MIT
 *
 * Does a little of everything and prints what came of it, a line a step: `driver [PTX]`. Goes on after errors
 * as long as that makes sense. `driver hold MIB` allocates so much and says how much it got. `driver burst N`
 * launches so many kernels one right after the other and says how many words they got wrong; `driver graph N` launches
 * a graph of 200 kernels so many times, with another of them changed each time. `driver managed` says what there is of
 * managed memory; `driver units` loads code that is not linked; `driver textures` reads and writes arrays and memory by
 * objects, and says how many elements were wrong; `driver arrays MIB` makes arrays of so much, says so, and ends at the end
 * of its input.
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

/* As nvcc -rdc makes it: nothing that is linked, and one unit that a driver would link. */
static int units(void)
{
	static const struct fatbin {
		uint32_t magic;
		uint16_t version, header_bytes;
		uint64_t bytes;
	} linked = {0xba55ed50, 1, sizeof linked, 0};
	static const void *const list[] = {&linked, NULL};
	struct {
		uint32_t magic, version;
		const void *data, *units;
	} wrapper = {0x466243b1, 2, &linked, list};
	CUlibrary library;
	CUcontext context;
	CUkernel kernel;
	CUmodule module;

	if (step("init", cuInit(0)) || step("context", cuCtxCreate(&context, NULL, 0, 0)))
		return 1;
	step("load", cuModuleLoadData(&module, &wrapper));
	step("library", cuLibraryLoadData(&library, &wrapper, NULL, NULL, 0, NULL, NULL, 0));
	step("kernel", cuLibraryGetKernel(&kernel, library, "any"));
	step("wait", cuCtxSynchronize());
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

/* What the device says of managed memory, and what becomes of a prefetch. */
static int managed(void)
{
	static const CUdevice_attribute attributes[] = {CU_DEVICE_ATTRIBUTE_MANAGED_MEMORY,
		CU_DEVICE_ATTRIBUTE_HOST_NATIVE_ATOMIC_SUPPORTED,
		CU_DEVICE_ATTRIBUTE_PAGEABLE_MEMORY_ACCESS,
		CU_DEVICE_ATTRIBUTE_CONCURRENT_MANAGED_ACCESS,
		CU_DEVICE_ATTRIBUTE_PAGEABLE_MEMORY_ACCESS_USES_HOST_PAGE_TABLES,
		CU_DEVICE_ATTRIBUTE_DIRECT_MANAGED_MEM_ACCESS_FROM_HOST};
	CUmemLocation here = {.type = CU_MEM_LOCATION_TYPE_DEVICE},
		      host = {.type = CU_MEM_LOCATION_TYPE_HOST};
	CUcontext context;
	CUdeviceptr at;
	int value;

	if (step("init", cuInit(0)) || step("context", cuCtxCreate(&context, NULL, 0, 0)))
		return 1;
	printf("says");
	for (size_t i = 0; i < sizeof attributes / sizeof *attributes; i++)
		printf(" %d", cuDeviceGetAttribute(&value, attributes[i], 0) ? -1 : value);
	puts("");
	if (step("alloc", cuMemAllocManaged(&at, 4096, CU_MEM_ATTACH_GLOBAL)))
		return 1;
	*(volatile int *)at = 7;
	step("prefetch", cuMemPrefetchAsync(at, 4096, here, 0, NULL));
	step("back", cuMemPrefetchAsync(at, 4096, host, 0, NULL));
	step("prefer", cuMemAdvise(at, 4096, CU_MEM_ADVISE_SET_PREFERRED_LOCATION, here));
	step("mostly", cuMemAdvise(at, 4096, CU_MEM_ADVISE_SET_READ_MOSTLY, here));
	step("attach", cuStreamAttachMemAsync(NULL, at, 0, CU_MEM_ATTACH_HOST));
	printf("kept %d\n", *(volatile int *)at);
	return 0;
}

/* ---- textures and surfaces, by kernels of the driver that is made for tests ---- */

#define SIDE 48 /* of a row no multiple of anything */

static const char texture_ptx[] =
	".version 6.0\n"
	".target sm_70\n"
	".address_size 64\n"
	".global .texref image;\n"
	".global .surfref area;\n"
	".visible .entry fetch(.param .u64 t, .param .u64 at, .param .u32 x, "
	".param .u32 y) { ret; }\n"
	".visible .entry put(.param .u64 s, .param .u64 none, .param .u32 x, "
	".param .u32 y, .param .u32 value) { ret; }\n";

struct textures {
	CUmodule module;
	CUfunction fetch, put;
	CUdeviceptr words; /* SIDE x SIDE, where fetches go */
};

/* Elements of an object of SIDE x rows that are not `first`, `first` + 1, …: all of them, if it cannot be read. */
static unsigned wrong_elements(
	const struct textures *t, unsigned long long object, unsigned rows, uint32_t first)
{
	static uint32_t words[SIDE * SIDE];
	unsigned wrong = 0;

	for (uint32_t y = 0; y < rows; y++)
		for (uint32_t x = 0; x < SIDE; x++) {
			CUdeviceptr at = t->words + (y * SIDE + x) * sizeof *words;
			void *params[] = {&object, &at, &x, &y};
			if (cuLaunchKernel(t->fetch, 1, 1, 1, 1, 1, 1, 0, NULL, params, NULL))
				return SIDE * rows;
		}
	if (cuMemcpyDtoH(words, t->words, sizeof words))
		return SIDE * rows;
	for (uint32_t i = 0; i < SIDE * rows; i++)
		wrong += words[i] != first + i;
	return wrong;
}

static CUresult put_elements(const struct textures *t, unsigned long long object, uint32_t first)
{
	unsigned long long none = 0;
	CUresult result = CUDA_SUCCESS;

	for (uint32_t y = 0; y < SIDE && !result; y++)
		for (uint32_t x = 0; x < SIDE && !result; x++) {
			uint32_t value = first + y * SIDE + x;
			void *params[] = {&object, &none, &x, &y, &value};
			result = cuLaunchKernel(t->put, 1, 1, 1, 1, 1, 1, 0, NULL, params, NULL);
		}
	return result ? result : cuCtxSynchronize();
}

static CUresult fill_array(CUarray array, uint32_t first)
{
	static uint32_t words[SIDE * SIDE];
	CUDA_MEMCPY2D copy = {.srcMemoryType = CU_MEMORYTYPE_HOST,
		.srcHost = words,
		.srcPitch = SIDE * sizeof *words,
		.dstMemoryType = CU_MEMORYTYPE_ARRAY,
		.dstArray = array,
		.WidthInBytes = SIDE * sizeof *words,
		.Height = SIDE};

	for (uint32_t i = 0; i < SIDE * SIDE; i++)
		words[i] = first + i;
	return cuMemcpy2D(&copy);
}

static void of_an_array(const struct textures *t)
{
	CUDA_ARRAY3D_DESCRIPTOR shape = {
		SIDE, SIDE, 0, CU_AD_FORMAT_UNSIGNED_INT32, 1, CUDA_ARRAY3D_SURFACE_LDST};
	CUDA_RESOURCE_DESC resource = {.resType = CU_RESOURCE_TYPE_ARRAY};
	CUDA_TEXTURE_DESC sampling = {.flags = CU_TRSF_READ_AS_INTEGER};
	CUtexObject image;
	CUsurfObject area;

	if (step("array", cuArray3DCreate(&resource.res.array.hArray, &shape)) ||
		step("fill", fill_array(resource.res.array.hArray, 100)) ||
		step("image", cuTexObjectCreate(&image, &resource, &sampling, NULL)) ||
		step("area", cuSurfObjectCreate(&area, &resource)))
		return;
	printf("array_wrong %u\n", wrong_elements(t, image, SIDE, 100));
	step("put", put_elements(t, area, 5000));
	printf("put_wrong %u\n", wrong_elements(t, image, SIDE, 5000));
	step("not_image", cuTexObjectDestroy(area + 1000));
	step("no_area", cuSurfObjectDestroy(area));
	step("no_image", cuTexObjectDestroy(image));
	step("gone", cuTexObjectGetResourceDesc(&resource, image));
	step("no_array", cuArrayDestroy(resource.res.array.hArray));
}

static void of_levels(const struct textures *t)
{
	CUDA_ARRAY3D_DESCRIPTOR shape = {2 * SIDE, 2 * SIDE, 0, CU_AD_FORMAT_UNSIGNED_INT32, 1, 0};
	CUDA_RESOURCE_DESC resource = {.resType = CU_RESOURCE_TYPE_ARRAY},
			   all = {.resType = CU_RESOURCE_TYPE_MIPMAPPED_ARRAY};
	CUDA_TEXTURE_DESC sampling = {
		.flags = CU_TRSF_READ_AS_INTEGER | CU_TRSF_NORMALIZED_COORDINATES};
	CUtexObject image, levels;

	if (step("levels", cuMipmappedArrayCreate(&all.res.mipmap.hMipmappedArray, &shape, 3)) ||
		step("level", cuMipmappedArrayGetLevel(&resource.res.array.hArray,
				      all.res.mipmap.hMipmappedArray, 1)) ||
		step("fill", fill_array(resource.res.array.hArray, 900)) ||
		step("of_level", cuTexObjectCreate(&image, &resource, &sampling, NULL)) ||
		step("of_levels", cuTexObjectCreate(&levels, &all, &sampling, NULL)))
		return;
	printf("level_wrong %u\n", wrong_elements(t, image, SIDE, 900));
	step("no_levels", cuMipmappedArrayDestroy(all.res.mipmap.hMipmappedArray));
}

static void of_memory(const struct textures *t)
{
	static uint32_t words[SIDE * SIDE];
	CUDA_RESOURCE_DESC linear = {.resType = CU_RESOURCE_TYPE_LINEAR},
			   rows = {.resType = CU_RESOURCE_TYPE_PITCH2D};
	CUDA_TEXTURE_DESC sampling = {.flags = CU_TRSF_READ_AS_INTEGER};
	CUtexObject image, area;
	CUdeviceptr memory;

	for (uint32_t i = 0; i < SIDE * SIDE; i++)
		words[i] = 7 + i;
	if (step("alloc", cuMemAlloc(&memory, sizeof words)) ||
		step("write", cuMemcpyHtoD(memory, words, sizeof words)))
		return;
	linear.res.linear.devPtr = rows.res.pitch2D.devPtr = memory;
	linear.res.linear.format = rows.res.pitch2D.format = CU_AD_FORMAT_UNSIGNED_INT32;
	linear.res.linear.numChannels = rows.res.pitch2D.numChannels = 1;
	linear.res.linear.sizeInBytes = sizeof words;
	rows.res.pitch2D.width = rows.res.pitch2D.height = SIDE;
	rows.res.pitch2D.pitchInBytes = SIDE * sizeof *words;
	if (step("linear", cuTexObjectCreate(&image, &linear, &sampling, NULL)) ||
		step("rows", cuTexObjectCreate(&area, &rows, &sampling, NULL)))
		return;
	printf("linear_wrong %u\n", wrong_elements(t, image, 1, 7));
	printf("rows_wrong %u\n", wrong_elements(t, area, SIDE, 7));
	step("no_linear", cuTexObjectDestroy(image));
}

static void of_references(const struct textures *t)
{
	CUDA_ARRAY3D_DESCRIPTOR shape = {
		SIDE, SIDE, 0, CU_AD_FORMAT_UNSIGNED_INT32, 1, CUDA_ARRAY3D_SURFACE_LDST};
	CUDA_ARRAY_DESCRIPTOR rows = {SIDE, SIDE, CU_AD_FORMAT_UNSIGNED_INT32, 1};
	static uint32_t words[SIDE * SIDE];
	CUarray array;
	CUtexref image, same;
	CUsurfref area;
	CUdeviceptr memory;
	size_t offset;

	for (uint32_t i = 0; i < SIDE * SIDE; i++)
		words[i] = 77 + i;
	if (step("texref", cuModuleGetTexRef(&image, t->module, "image")) ||
		step("surfref", cuModuleGetSurfRef(&area, t->module, "area")) ||
		step("texref_again", cuModuleGetTexRef(&same, t->module, "image")) ||
		step("ref_array", cuArray3DCreate(&array, &shape)) ||
		step("ref_fill", fill_array(array, 300)) ||
		step("bind", cuTexRefSetArray(image, array, CU_TRSA_OVERRIDE_FORMAT)) ||
		step("integers", cuTexRefSetFlags(image, CU_TRSF_READ_AS_INTEGER)) ||
		step("bind_area", cuSurfRefSetArray(area, array, 0)) ||
		step("memory", cuMemAlloc(&memory, sizeof words)) ||
		step("ref_write", cuMemcpyHtoD(memory, words, sizeof words)))
		return;
	printf("same %d\n", same == image);
	step("no_such", cuModuleGetTexRef(&same, t->module, "area"));
	printf("texref_wrong %u\n", wrong_elements(t, 0, SIDE, 300));
	step("ref_put", put_elements(t, 0, 6000));
	printf("surfref_wrong %u\n", wrong_elements(t, 0, SIDE, 6000));
	step("bind_rows", cuTexRefSetAddress2D(image, &rows, memory, SIDE * sizeof *words));
	printf("texref_rows_wrong %u\n", wrong_elements(t, 0, SIDE, 77));
	step("bind_linear", cuTexRefSetAddress(&offset, image, memory, sizeof words));
	printf("texref_linear_wrong %u\n", wrong_elements(t, 0, 1, 77));
}

static int textures(void)
{
	struct textures t;
	CUcontext context;

	if (step("init", cuInit(0)) || step("context", cuCtxCreate(&context, NULL, 0, 0)) ||
		step("load", cuModuleLoadData(&t.module, texture_ptx)) ||
		step("fetch", cuModuleGetFunction(&t.fetch, t.module, "fetch")) ||
		step("put", cuModuleGetFunction(&t.put, t.module, "put")) ||
		step("words", cuMemAlloc(&t.words, SIDE * SIDE * sizeof(uint32_t))))
		return 1;
	of_an_array(&t);
	of_levels(&t);
	of_memory(&t);
	of_references(&t);
	return step("wait", cuCtxSynchronize()) != CUDA_SUCCESS;
}

static int hold_arrays(unsigned mib)
{
	CUDA_ARRAY_DESCRIPTOR shape = {4096, 1024, CU_AD_FORMAT_FLOAT, 1}; /* 16 MiB */
	CUcontext context;
	CUarray array = NULL;
	unsigned held = 0;

	if (step("init", cuInit(0)) || step("context", cuCtxCreate(&context, NULL, 0, 0)))
		return 1;
	while (held < mib && !cuArrayCreate(&array, &shape))
		held += 16;
	printf("held %u\n", held);
	step("more", held < mib ? cuArrayCreate(&array, &shape) : CUDA_SUCCESS);
	getchar();
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

	if (argc == 2 && !strcmp(argv[1], "managed"))
		return managed();
	if (argc == 2 && !strcmp(argv[1], "units"))
		return units();
	if (argc == 2 && !strcmp(argv[1], "textures"))
		return textures();
	if (argc == 3 && !strcmp(argv[1], "arrays"))
		return hold_arrays((unsigned)strtoul(argv[2], NULL, 10));
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
