/* SPDX-License-Identifier: MIT
 *
 * Textures, on whatever libcuda there is: scripts/hardware runs it with gdev and with the vendor's library.
 *   texture speed        fetches a second from a filtered array, from memory without rows, and of copies to an array;
 *                        prints {"metric": …, "value": …, "unit": …}, a line each
 *   texture random SEED  what random fetches of random textures gave, a fetch a line
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "device.h"

#define REPETITIONS 9
#define SIDE 2048 /* elements; of floats: 16 MiB */
#define COPY_BYTES (SIDE * SIDE * 4ul)
#define LINEAR (1u << 24)
#define BLOCKS 4096
#define THREADS 256
#define FETCHES 256 /* a thread; as in the kernels */
#define CASES 48
#define POSITIONS 64 /* a case */

static const char texture_ptx[] =
	".version 6.0\n"
	".target sm_70\n"
	".address_size 64\n"
	/* Rows of a warp are neighbours, and the next fetch is some rows below. */
	".visible .entry filtered(.param .u64 t, .param .u64 to)\n"
	"{\n"
	".reg .u64 %t, %to, %o; .reg .u32 %i, %n, %k; .reg .f32 %x, %y, %s, %f<4>; .reg .pred %p;\n"
	"ld.param.u64 %t, [t]; ld.param.u64 %to, [to];\n"
	"mov.u32 %i, %tid.x; mov.u32 %n, %ctaid.x; cvt.rn.f32.u32 %x, %i; cvt.rn.f32.u32 %y, %n;\n"
	"add.f32 %x, %x, 0f3E99999A; mov.f32 %s, 0f00000000; mov.u32 %k, 0;\n"
	"L: tex.2d.v4.f32.f32 {%f0, %f1, %f2, %f3}, [%t, {%x, %y}];\n"
	"add.f32 %s, %s, %f0; add.f32 %y, %y, 0f40A66666; add.u32 %k, %k, 1;\n"
	"setp.lt.u32 %p, %k, 256; @%p bra L;\n"
	"mad.lo.u32 %n, %n, 256, %i; mul.wide.u32 %o, %n, 4; add.u64 %to, %to, %o;\n"
	"st.global.f32 [%to], %s; ret;\n"
	"}\n"
	".visible .entry linear(.param .u64 t, .param .u64 to)\n"
	"{\n"
	".reg .u64 %t, %to, %o; .reg .u32 %i, %n, %k, %x; .reg .f32 %s, %f<4>; .reg .pred %p;\n"
	"ld.param.u64 %t, [t]; ld.param.u64 %to, [to];\n"
	"mov.u32 %i, %tid.x; mov.u32 %n, %ctaid.x; mad.lo.u32 %n, %n, 256, %i;\n"
	"mov.u32 %x, %n; mov.f32 %s, 0f00000000; mov.u32 %k, 0;\n"
	"L: tex.1d.v4.f32.s32 {%f0, %f1, %f2, %f3}, [%t, {%x}];\n"
	"add.f32 %s, %s, %f0; add.u32 %x, %x, 69664; and.b32 %x, %x, 16777215; add.u32 %k, %k, 1;\n"
	"setp.lt.u32 %p, %k, 256; @%p bra L;\n"
	"mul.wide.u32 %o, %n, 4; add.u64 %to, %to, %o; st.global.f32 [%to], %s; ret;\n"
	"}\n"
	/* A thread a position of 4 floats, and 4 floats for what is there. */
	".visible .entry flat(.param .u64 t, .param .u64 at, .param .u64 to)\n"
	"{\n"
	".reg .u64 %t, %at, %to, %o; .reg .u32 %i; .reg .f32 %x, %y, %f<4>;\n"
	"ld.param.u64 %t, [t]; ld.param.u64 %at, [at]; ld.param.u64 %to, [to];\n"
	"mov.u32 %i, %tid.x; mul.wide.u32 %o, %i, 16; add.u64 %at, %at, %o; add.u64 %to, %to, %o;\n"
	"ld.global.f32 %x, [%at]; ld.global.f32 %y, [%at+4];\n"
	"tex.2d.v4.f32.f32 {%f0, %f1, %f2, %f3}, [%t, {%x, %y}];\n"
	"st.global.v4.f32 [%to], {%f0, %f1, %f2, %f3}; ret;\n"
	"}\n"
	".visible .entry solid(.param .u64 t, .param .u64 at, .param .u64 to)\n"
	"{\n"
	".reg .u64 %t, %at, %to, %o; .reg .u32 %i; .reg .f32 %x, %y, %z, %f<4>;\n"
	"ld.param.u64 %t, [t]; ld.param.u64 %at, [at]; ld.param.u64 %to, [to];\n"
	"mov.u32 %i, %tid.x; mul.wide.u32 %o, %i, 16; add.u64 %at, %at, %o; add.u64 %to, %to, %o;\n"
	"ld.global.f32 %x, [%at]; ld.global.f32 %y, [%at+4]; ld.global.f32 %z, [%at+8];\n"
	"tex.3d.v4.f32.f32 {%f0, %f1, %f2, %f3}, [%t, {%x, %y, %z, %z}];\n"
	"st.global.v4.f32 [%to], {%f0, %f1, %f2, %f3}; ret;\n"
	"}\n";

static CUfunction find(CUmodule module, const char *name)
{
	CUfunction function;

	must(cuModuleGetFunction(&function, module, name), "find a kernel");
	return function;
}

static CUmodule begin(void)
{
	CUmodule module;

	open_device();
	must(cuModuleLoadData(&module, texture_ptx), "load");
	return module;
}

/* ---- speed ---- */

static void report(const char *metric, struct samples *samples, const char *unit)
{
	printf("{\"metric\": \"%s\", \"value\": %.6g, \"unit\": \"%s\"}\n", metric,
		samples_median(samples), unit);
	fflush(stdout);
	samples->count = 0;
}

static void time_fetches(CUfunction kernel, CUtexObject texture, CUdeviceptr to, const char *metric)
{
	static struct samples samples;
	void *params[] = {&texture, &to};

	for (int i = 0; i <= REPETITIONS; i++) {
		uint64_t start = bench_now_ns();
		must(cuLaunchKernel(kernel, BLOCKS, 1, 1, THREADS, 1, 1, 0, NULL, params, NULL),
			"launch");
		must(cuCtxSynchronize(), "wait");
		if (i)
			samples_add(&samples, (double)BLOCKS * THREADS * FETCHES /
						      (double)(bench_now_ns() - start));
	}
	report(metric, &samples, "1/ns");
}

static void time_copies(const char *metric, const CUDA_MEMCPY2D *copy)
{
	static struct samples samples;

	for (int i = 0; i <= REPETITIONS; i++) {
		uint64_t start = bench_now_ns();
		must(cuMemcpy2D(copy), "copy");
		must(cuCtxSynchronize(), "wait");
		if (i)
			samples_add(&samples, COPY_BYTES / (double)(bench_now_ns() - start));
	}
	report(metric, &samples, "GB/s");
}

/* From page-locked memory of the library's, and from memory of the program's that was registered, whose pages are small: to
 * the array, and to memory at the same pitch. */
static void copies(CUarray array, CUdeviceptr memory)
{
	CUDA_MEMCPY2D copy = {.srcMemoryType = CU_MEMORYTYPE_HOST,
		.srcPitch = SIDE * 4,
		.dstArray = array,
		.dstDevice = memory,
		.dstPitch = SIDE * 8,
		.WidthInBytes = SIDE * 4,
		.Height = SIDE};
	void *locked, *registered = aligned_alloc(4096, COPY_BYTES);

	must(cuMemAllocHost(&locked, COPY_BYTES), "allocate page-locked memory");
	if (registered)
		memset(registered, 0, COPY_BYTES);
	memset(locked, 0, COPY_BYTES);
	must(cuMemHostRegister(registered, COPY_BYTES, 0), "register memory");
	for (int i = 0; i < 2; i++) {
		copy.srcHost = i ? registered : locked;
		copy.dstMemoryType = CU_MEMORYTYPE_ARRAY;
		time_copies(
			i ? "texture.copy_registered_to_array" : "texture.copy_to_array", &copy);
		copy.dstMemoryType = CU_MEMORYTYPE_DEVICE;
		time_copies(i ? "texture.copy_registered_to_rows" : "texture.copy_to_rows", &copy);
	}
	must(cuMemHostUnregister(registered), "unregister memory");
	must(cuMemFreeHost(locked), "free page-locked memory");
	free(registered);
}

static void speed(void)
{
	CUmodule module = begin();
	CUDA_ARRAY_DESCRIPTOR shape = {SIDE, SIDE, CU_AD_FORMAT_FLOAT, 1};
	CUDA_RESOURCE_DESC array = {.resType = CU_RESOURCE_TYPE_ARRAY},
			   memory = {.resType = CU_RESOURCE_TYPE_LINEAR};
	CUDA_TEXTURE_DESC sampling = {.filterMode = CU_TR_FILTER_MODE_LINEAR}, plain = {0};
	CUtexObject filtered, linear;
	CUdeviceptr to;

	must(cuMemAlloc(&to, BLOCKS * THREADS * 4), "allocate");
	must(cuMemAlloc(&memory.res.linear.devPtr, LINEAR * 4ul), "allocate");
	must(cuMemsetD32(memory.res.linear.devPtr, 0, LINEAR), "fill");
	must(cuArrayCreate(&array.res.array.hArray, &shape), "make an array");
	copies(array.res.array.hArray, memory.res.linear.devPtr);
	memory.res.linear.format = CU_AD_FORMAT_FLOAT;
	memory.res.linear.numChannels = 1;
	memory.res.linear.sizeInBytes = LINEAR * 4ul;
	must(cuTexObjectCreate(&filtered, &array, &sampling, NULL), "make a texture of the array");
	must(cuTexObjectCreate(&linear, &memory, &plain, NULL), "make a texture of the memory");
	time_fetches(find(module, "filtered"), filtered, to, "texture.filtered");
	time_fetches(find(module, "linear"), linear, to, "texture.linear");
}

/* ---- random fetches ---- */

static uint64_t state;

static uint32_t draw(uint32_t below)
{
	state = state * 6364136223846793005ull + 1442695040888963407ull;
	return (uint32_t)((state >> 33) % below);
}

static float between(float low, float high)
{
	return low + (high - low) * (float)draw(1 << 20) / (1 << 20);
}

static const struct {
	CUarray_format format;
	unsigned bytes;
} formats[] = {{CU_AD_FORMAT_UNSIGNED_INT8, 1}, {CU_AD_FORMAT_SIGNED_INT8, 1},
	{CU_AD_FORMAT_UNSIGNED_INT16, 2}, {CU_AD_FORMAT_SIGNED_INT16, 2}, {CU_AD_FORMAT_HALF, 2},
	{CU_AD_FORMAT_FLOAT, 4}};

/* An array full of numbers, none of which is infinite. */
static CUarray random_array(CUDA_ARRAY3D_DESCRIPTOR *shape)
{
	unsigned f = draw(sizeof formats / sizeof *formats);
	size_t rows, planes, bytes;
	CUarray array;
	char *host;

	*shape = (CUDA_ARRAY3D_DESCRIPTOR){.Width = 1 + draw(40),
		.Height = 1 + draw(40),
		.Depth = draw(2) ? 1 + draw(9) : 0,
		.Format = formats[f].format,
		.NumChannels = 1u << draw(3)};
	rows = shape->Height;
	planes = shape->Depth ? shape->Depth : 1;
	bytes = shape->Width * shape->NumChannels * formats[f].bytes;
	host = malloc(bytes * rows * planes);
	bench_require(!host, "allocate", "no memory");
	for (size_t i = 0; i < bytes * rows * planes; i += formats[f].bytes) {
		float value = between(-1, 1);
		uint16_t word = (uint16_t)draw(1 << 16);
		if (shape->Format == CU_AD_FORMAT_HALF)
			word &= 0xbfff; /* less than 2 */
		memcpy(host + i, shape->Format == CU_AD_FORMAT_FLOAT ? (void *)&value : &word,
			formats[f].bytes);
	}
	must(cuArray3DCreate(&array, shape), "make an array");
	must(cuMemcpy3D(&(CUDA_MEMCPY3D){.srcMemoryType = CU_MEMORYTYPE_HOST,
		     .srcHost = host,
		     .srcPitch = bytes,
		     .srcHeight = rows,
		     .dstMemoryType = CU_MEMORYTYPE_ARRAY,
		     .dstArray = array,
		     .WidthInBytes = bytes,
		     .Height = rows,
		     .Depth = planes}),
		"copy to the array");
	free(host);
	return array;
}

static CUDA_TEXTURE_DESC random_sampling(void)
{
	CUDA_TEXTURE_DESC sampling = {.filterMode = (CUfilter_mode)draw(2),
		.flags = draw(2) ? CU_TRSF_NORMALIZED_COORDINATES : 0};

	for (int d = 0; d < 3; d++)
		sampling.addressMode[d] = (CUaddress_mode)draw(4);
	for (int k = 0; k < 4; k++)
		sampling.borderColor[k] = between(0, 1);
	return sampling;
}

static void random_case(
	unsigned number, const CUfunction kernels[2], CUdeviceptr at, CUdeviceptr to)
{
	float positions[POSITIONS][4], results[POSITIONS][4];
	CUDA_RESOURCE_DESC resource = {.resType = CU_RESOURCE_TYPE_ARRAY};
	CUDA_ARRAY3D_DESCRIPTOR shape;
	CUDA_TEXTURE_DESC sampling;
	CUtexObject texture;
	void *params[] = {&texture, &at, &to};

	resource.res.array.hArray = random_array(&shape);
	sampling = random_sampling();
	for (int i = 0; i < POSITIONS; i++) {
		size_t edges[] = {shape.Width, shape.Height, shape.Depth, 1};
		for (int d = 0; d < 4; d++)
			positions[i][d] =
				between(-1.5f, 2.5f) * (sampling.flags ? 1.0f : (float)edges[d]);
	}
	must(cuTexObjectCreate(&texture, &resource, &sampling, NULL), "make a texture");
	must(cuMemcpyHtoD(at, positions, sizeof positions), "copy positions");
	must(cuLaunchKernel(
		     kernels[shape.Depth != 0], 1, 1, 1, POSITIONS, 1, 1, 0, NULL, params, NULL),
		"launch");
	must(cuMemcpyDtoH(results, to, sizeof results), "copy results");
	for (int i = 0; i < POSITIONS; i++)
		printf("case %u, format %#x x %u, %s, modes %d %d %d, %g %g %g: %.9g %.9g %.9g %.9g\n",
			number, (unsigned)shape.Format, shape.NumChannels,
			sampling.filterMode ? "filtered" : "nearest", (int)sampling.addressMode[0],
			(int)sampling.addressMode[1], (int)sampling.addressMode[2],
			(double)positions[i][0], (double)positions[i][1], (double)positions[i][2],
			(double)results[i][0], (double)results[i][1], (double)results[i][2],
			(double)results[i][3]);
	must(cuTexObjectDestroy(texture), "destroy the texture");
	must(cuArrayDestroy(resource.res.array.hArray), "destroy the array");
}

static void random_fetches(void)
{
	CUmodule module = begin();
	const CUfunction kernels[] = {find(module, "flat"), find(module, "solid")};
	CUdeviceptr at, to;

	must(cuMemAlloc(&at, POSITIONS * 16), "allocate");
	must(cuMemAlloc(&to, POSITIONS * 16), "allocate");
	for (unsigned i = 0; i < CASES; i++)
		random_case(i, kernels, at, to);
}

int main(int argc, char **argv)
{
	if (argc == 2 && !strcmp(argv[1], "speed")) {
		speed();
	} else if (argc == 3 && !strcmp(argv[1], "random")) {
		state = strtoull(argv[2], NULL, 10);
		random_fetches();
	} else {
		fprintf(stderr, "usage: texture speed | random SEED\n");
		return 2;
	}
	return 0;
}
