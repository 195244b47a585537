/* SPDX-License-Identifier: MIT
 *
 * The driver library that is made for tests (fake_cuda.c): code, and the device itself.
 */
#include <elf.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "fake_cuda.h"

static char context_made; /* its address is a context */

struct CUlinkState_st {
	char *text;
	char *log;
	size_t log_bytes;
};

/* ---- code ---- */

static CUresult check_ptx(const char *text, char *log, size_t log_bytes)
{
	if (!strstr(text, ".version"))
		return CUDA_ERROR_INVALID_PTX;
	if (strstr(text, ".version 99"))
		return CUDA_ERROR_UNSUPPORTED_PTX_VERSION;
	if (!strstr(text, "wrong"))
		return CUDA_SUCCESS;
	if (log)
		snprintf(log, log_bytes,
			"ptxas application ptx input, line 4; error: Not a name of any known "
			"instruction: 'wrong'");
	return CUDA_ERROR_INVALID_PTX;
}

static void find_log(
	unsigned count, const CUjit_option *options, void *const *values, char **log, size_t *bytes)
{
	*log = NULL;
	*bytes = 0;
	for (unsigned i = 0; i < count; i++) {
		if (options[i] == CU_JIT_ERROR_LOG_BUFFER)
			*log = values[i];
		if (options[i] == CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES)
			*bytes = (size_t)(uintptr_t)values[i];
	}
}

CUresult cuLinkCreate(unsigned int count, CUjit_option *options, void **values, CUlinkState *out)
{
	struct CUlinkState_st *state;

	ENTER();
	state = calloc(1, sizeof *state);
	find_log(count, options, values, &state->log, &state->log_bytes);
	*out = (CUlinkState)state;
	return CUDA_SUCCESS;
}

CUresult cuLinkAddData(CUlinkState handle, CUjitInputType type, void *data, size_t size,
	const char *name, unsigned int count, CUjit_option *options, void **values)
{
	struct CUlinkState_st *state = (struct CUlinkState_st *)handle;
	CUresult result;

	ENTER();
	if (strstr(data, ".version 1.")) /* as NVIDIA's linker, whose loader takes it */
		return CUDA_ERROR_INVALID_PTX;
	result = check_ptx(data, state->log, state->log_bytes);
	if (result)
		return result;
	if (asprintf(&state->text, "\177ELF sm_90 %s", (const char *)data) < 0)
		return CUDA_ERROR_OUT_OF_MEMORY;
	return CUDA_SUCCESS;
}

CUresult cuLinkComplete(CUlinkState handle, void **cubin, size_t *size)
{
	struct CUlinkState_st *state = (struct CUlinkState_st *)handle;

	ENTER();
	*cubin = state->text;
	*size = strlen(state->text) + 1;
	return CUDA_SUCCESS;
}

CUresult cuLinkDestroy(CUlinkState handle)
{
	struct CUlinkState_st *state = (struct CUlinkState_st *)handle;

	free(state->text);
	free(state);
	return fake_enter(__func__);
}

/* Words of device memory and arrays of them, 0 at first, with room for twice as much. */
static void add_variables(struct CUmod_st *module, const char *text)
{
	static const char *const declarations[] = {".global .u32 ", ".global .align 8 .u64 "};
	const char *from = text;

	for (unsigned i = 0; i < 2; i++, text = from)
		while (module->variable_count < FAKE_NAMES &&
			(text = strstr(text, declarations[i]))) {
			text += strlen(declarations[i]);
			unsigned count = 1;
			sscanf(text, "%63[a-zA-Z0-9_][%u]",
				module->variables[module->variable_count].name, &count);
			uint32_t *value = calloc(2 * count, sizeof *value);
			module->variables[module->variable_count++].value = value;
			fake_place((uintptr_t)value, 2 * count * sizeof *value, value);
		}
}

static void find_references(struct CUmod_st *module, const char *text)
{
	static const char *const declarations[] = {".global .texref ", ".global .surfref "};

	for (unsigned i = 0; i < 2; i++) {
		const char *at = strstr(text, declarations[i]);
		if (at)
			sscanf(at + strlen(declarations[i]), "%63[a-zA-Z0-9_]",
				module->references[i].name);
	}
}

static bool shares_load;

__attribute__((visibility("default"))) unsigned fake_share_next_load(void)
{
	shares_load = true;
	return 1;
}

CUresult cuModuleLoadDataEx(
	CUmodule *out, const void *image, unsigned int count, CUjit_option *options, void **values)
{
	const char *text = image, *entry = image;
	struct CUmod_st *module;
	size_t log_bytes;
	CUresult result;
	char *log;

	ENTER();
	if (!memcmp(text, "\177ELF\2", 5)) /* a real header is in front */
		entry = text += sizeof(Elf64_Ehdr);
	if (memcmp(image, "\177ELF", 4)) {
		find_log(count, options, values, &log, &log_bytes);
		result = strstr(text, ".version") ? check_ptx(text, log, log_bytes)
						  : CUDA_ERROR_INVALID_IMAGE;
		if (result)
			return result;
	} else if (!strstr(text, "sm_90")) {
		return CUDA_ERROR_NO_BINARY_FOR_GPU;
	}
	module = calloc(1, sizeof *module);
	module->context = fake_context_number();
	while (module->count < FAKE_NAMES && (entry = strstr(entry, ".entry "))) {
		entry += strlen(".entry ");
		module->functions[module->count].module = module;
		sscanf(entry, "%63[a-zA-Z0-9_]", module->functions[module->count++].name);
	}
	add_variables(module, text);
	find_references(module, text);
	if (shares_load)
		fake_take(1ul << 30);
	shares_load = false;
	*out = module;
	return CUDA_SUCCESS;
}

/* FAKE_CUDA_EAGER: all of a module is loaded with it. */
CUresult cuModuleGetLoadingMode(CUmoduleLoadingMode *mode)
{
	ENTER();
	*mode = getenv("FAKE_CUDA_EAGER") ? CU_MODULE_EAGER_LOADING : CU_MODULE_LAZY_LOADING;
	return CUDA_SUCCESS;
}

CUresult cuModuleUnload(CUmodule module)
{
	for (unsigned i = 0; i < module->variable_count; i++) {
		fake_unplace((uintptr_t)module->variables[i].value);
		free(module->variables[i].value);
	}
	free(module->kept);
	free(module);
	return fake_enter(__func__);
}

CUresult cuModuleGetFunction(CUfunction *function, CUmodule module, const char *name)
{
	ENTER();
	for (unsigned i = 0; i < module->count; i++)
		if (!strcmp(module->functions[i].name, name)) {
			*function = &module->functions[i];
			return CUDA_SUCCESS;
		}
	return CUDA_ERROR_NOT_FOUND;
}

CUresult cuModuleGetGlobal(CUdeviceptr *pointer, size_t *bytes, CUmodule module, const char *name)
{
	ENTER();
	for (unsigned i = 0; i < module->variable_count; i++)
		if (!strcmp(module->variables[i].name, name)) {
			*pointer = (uintptr_t)module->variables[i].value;
			*bytes = sizeof *module->variables[i].value;
			return CUDA_SUCCESS;
		}
	return CUDA_ERROR_NOT_FOUND;
}

CUresult cuFuncGetAttribute(int *value, CUfunction_attribute attribute, CUfunction function)
{
	ENTER();
	*value = attribute == CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK ? 1024 : 0;
	return CUDA_SUCCESS;
}

CUresult cuFuncSetAttribute(CUfunction function, CUfunction_attribute attribute, int value)
{
	ENTER();
	return value < 0 || value > 227 << 10 ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
}

CUresult cuModuleGetFunctionCount(unsigned int *count, CUmodule module)
{
	*count = 1;
	return CUDA_SUCCESS;
}

CUresult cuModuleEnumerateFunctions(CUfunction *functions, unsigned int count, CUmodule module)
{
	return cuModuleGetFunction(functions, module, "set");
}

CUresult cuFuncGetName(const char **name, CUfunction function)
{
	*name = function->name;
	return CUDA_SUCCESS;
}

CUresult cuFuncGetParamInfo(CUfunction function, size_t index, size_t *offset, size_t *size)
{
	static const struct {
		const char *name;
		size_t count,
			wide; /* parameters, of which the first have 8 bytes, and the others 4 */
	} kernels[] = {{"set", 2, 1}, {"step", 2, 1}, {"add", 3, 1}, {"spin", 1, 1}, {"gate", 1, 1},
		{"tally", 2, 1}, {"rounds", 3, 1}, {"fetch", 4, 2}, {"put", 5, 2}};

	for (size_t i = 0; i < sizeof kernels / sizeof *kernels; i++) {
		if (strcmp(function->name, kernels[i].name) || index >= kernels[i].count)
			continue;
		*offset = 4 * (index + (index < kernels[i].wide ? index : kernels[i].wide));
		*size = index < kernels[i].wide ? 8 : 4;
		return CUDA_SUCCESS;
	}
	return CUDA_ERROR_INVALID_VALUE;
}

CUresult cuOccupancyMaxActiveBlocksPerMultiprocessor(
	int *blocks, CUfunction function, int threads, size_t shared)
{
	ENTER();
	*blocks = 2048 / (threads ? threads : 1);
	return CUDA_SUCCESS;
}

/* ---- the device ---- */

CUresult cuInit(unsigned int flags)
{
	ENTER();
	return CUDA_SUCCESS;
}

CUresult cuDriverGetVersion(int *version)
{
	*version = CUDA_VERSION;
	return CUDA_SUCCESS;
}

CUresult cuGetErrorName(CUresult error, const char **name)
{
	static __thread char text[32];

	snprintf(text, sizeof text, "CUDA error %d", (int)error);
	*name = text;
	return CUDA_SUCCESS;
}

static int device_count(void)
{
	const char *count = getenv("FAKE_CUDA_DEVICES");

	return count ? atoi(count) : 1;
}

/* "ORDINAL:FILE": that device fails while there is the file. */
static bool is_out_of_order(CUdevice device)
{
	const char *wish = getenv("FAKE_CUDA_OUT_OF_ORDER"),
		   *file = wish ? strchr(wish, ':') : NULL;

	return file && atoi(wish) == device && !access(file + 1, F_OK);
}

CUresult cuDeviceGetCount(int *count)
{
	ENTER();
	*count = device_count();
	return CUDA_SUCCESS;
}

CUresult cuDeviceGet(CUdevice *device, int ordinal)
{
	ENTER();
	*device = ordinal;
	return ordinal < device_count() ? CUDA_SUCCESS : CUDA_ERROR_INVALID_DEVICE;
}

CUresult cuDeviceGetName(char *name, int length, CUdevice device)
{
	snprintf(name, (size_t)length, "a driver made for tests");
	return CUDA_SUCCESS;
}

CUresult cuDeviceGetUuid_v2(CUuuid *uuid, CUdevice device)
{
	memset(uuid, 7 + device, sizeof *uuid);
	return CUDA_SUCCESS;
}

/* FAKE_CUDA_PEERS: all cards reach each other's memory. */
CUresult cuDeviceCanAccessPeer(int *can, CUdevice device, CUdevice peer)
{
	*can = device != peer && getenv("FAKE_CUDA_PEERS");
	return CUDA_SUCCESS;
}

CUresult cuDeviceTotalMem(size_t *bytes, CUdevice device)
{
	*bytes = fake_device_bytes();
	return CUDA_SUCCESS;
}

/* As of compute capability 9.0. */
static int texture_limit(int attribute)
{
	static const struct {
		int attribute, limit;
	} limits[] = {
		{CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE1D_WIDTH, 131072},
		{CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE2D_WIDTH, 131072},
		{CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE2D_HEIGHT, 65536},
		{CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE3D_WIDTH, 16384},
		{CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE3D_HEIGHT, 16384},
		{CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE3D_DEPTH, 16384},
		{CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE1D_LAYERED_WIDTH, 32768},
		{CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE1D_LAYERED_LAYERS, 2048},
		{CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE2D_LAYERED_WIDTH, 32768},
		{CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE2D_LAYERED_HEIGHT, 32768},
		{CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE2D_LAYERED_LAYERS, 2048},
		{CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURECUBEMAP_WIDTH, 32768},
		{CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURECUBEMAP_LAYERED_WIDTH, 32768},
		{CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURECUBEMAP_LAYERED_LAYERS, 2046},
		{CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE2D_GATHER_WIDTH, 32768},
		{CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE2D_GATHER_HEIGHT, 32768},
		{CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE1D_LINEAR_WIDTH, 268435456},
		{CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE2D_LINEAR_WIDTH, 131072},
		{CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE2D_LINEAR_HEIGHT, 65000},
		{CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE2D_LINEAR_PITCH, 2097120},
		{CU_DEVICE_ATTRIBUTE_TEXTURE_ALIGNMENT, 512},
		{CU_DEVICE_ATTRIBUTE_TEXTURE_PITCH_ALIGNMENT, 32},
	};

	for (size_t i = 0; i < sizeof limits / sizeof *limits; i++)
		if (limits[i].attribute == attribute)
			return limits[i].limit;
	return 0;
}

CUresult cuDeviceGetAttribute(int *value, CUdevice_attribute attribute, CUdevice device)
{
	switch ((int)attribute) {
	case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR:
		*value = 9;
		break;
	case CU_DEVICE_ATTRIBUTE_WARP_SIZE:
		*value = 32;
		break;
	case CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK:
	case CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_X:
	case CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Y:
		*value = 1024;
		break;
	case CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Z:
		*value = 64;
		break;
	case CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_X:
		*value = INT32_MAX;
		break;
	case CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Y:
	case CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Z:
		*value = 65535;
		break;
	case CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN:
		*value = 227 << 10;
		break;
	case CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT:
		*value = 4;
		break;
	case CU_DEVICE_ATTRIBUTE_MANAGED_MEMORY:
	case CU_DEVICE_ATTRIBUTE_HOST_NATIVE_ATOMIC_SUPPORTED:
	case CU_DEVICE_ATTRIBUTE_PAGEABLE_MEMORY_ACCESS:
	case CU_DEVICE_ATTRIBUTE_CONCURRENT_MANAGED_ACCESS:
	case CU_DEVICE_ATTRIBUTE_PAGEABLE_MEMORY_ACCESS_USES_HOST_PAGE_TABLES:
	case CU_DEVICE_ATTRIBUTE_DIRECT_MANAGED_MEM_ACCESS_FROM_HOST:
	case CU_DEVICE_ATTRIBUTE_TENSOR_MAP_ACCESS_SUPPORTED:
		*value = 1;
		break;
	/* What gdev does not pass on, whatever a driver has. */
	case CU_DEVICE_ATTRIBUTE_CAN_FLUSH_REMOTE_WRITES:
	case CU_DEVICE_ATTRIBUTE_GENERIC_COMPRESSION_SUPPORTED:
	case CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_WITH_CUDA_VMM_SUPPORTED:
	case CU_DEVICE_ATTRIBUTE_SPARSE_CUDA_ARRAY_SUPPORTED:
	case CU_DEVICE_ATTRIBUTE_TIMELINE_SEMAPHORE_INTEROP_SUPPORTED:
	case CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_SUPPORTED:
	case CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_FLUSH_WRITES_OPTIONS:
	case CU_DEVICE_ATTRIBUTE_DEFERRED_MAPPING_CUDA_ARRAY_SUPPORTED:
	case CU_DEVICE_ATTRIBUTE_DMA_BUF_SUPPORTED:
	case CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_FABRIC_SUPPORTED:
	case CU_DEVICE_ATTRIBUTE_MULTICAST_SUPPORTED:
	case CU_DEVICE_ATTRIBUTE_HOST_NUMA_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED:
	case CU_DEVICE_ATTRIBUTE_HOST_NUMA_MEMORY_POOLS_SUPPORTED:
		*value = 1;
		break;
	default:
		*value = texture_limit((int)attribute);
	}
	return CUDA_SUCCESS;
}

CUresult cuDevicePrimaryCtxSetFlags(CUdevice device, unsigned int flags)
{
	ENTER();
	return CUDA_SUCCESS;
}

CUresult cuDevicePrimaryCtxRetain(CUcontext *context, CUdevice device)
{
	ENTER();
	if (is_out_of_order(device))
		return CUDA_ERROR_DEVICE_UNAVAILABLE;
	if (!fake_count_contexts(1, device))
		return CUDA_ERROR_OUT_OF_MEMORY;
	*context = (CUcontext)&context_made;
	return CUDA_SUCCESS;
}

CUresult cuDevicePrimaryCtxRelease(CUdevice device)
{
	fake_count_contexts(-1, device);
	return fake_enter(__func__);
}

CUresult cuCtxSetCurrent(CUcontext context)
{
	fake_set_current(context);
	return CUDA_SUCCESS;
}

static unsigned cluster_of(const CUlaunchConfig *config)
{
	for (unsigned i = 0; i < config->numAttrs; i++)
		if (config->attrs[i].id == CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION)
			return config->attrs[i].value.clusterDim.x *
			       config->attrs[i].value.clusterDim.y *
			       config->attrs[i].value.clusterDim.z;
	return 1;
}

CUresult cuOccupancyMaxActiveClusters(int *count, CUfunction function, const CUlaunchConfig *config)
{
	ENTER();
	*count = 64 / (int)cluster_of(config);
	return CUDA_SUCCESS;
}

CUresult cuOccupancyMaxPotentialClusterSize(
	int *size, CUfunction function, const CUlaunchConfig *config)
{
	ENTER();
	*size = 16;
	return CUDA_SUCCESS;
}

/* What was said is in it. */
CUresult cuTensorMapEncodeTiled(CUtensorMap *map, CUtensorMapDataType type, uint32_t rank,
	void *address, const uint64_t *dimensions, const uint64_t *strides, const uint32_t *box,
	const uint32_t *element_strides, CUtensorMapInterleave interleave,
	CUtensorMapSwizzle swizzle, CUtensorMapL2promotion promotion, CUtensorMapFloatOOBfill fill)
{
	ENTER();
	if ((uintptr_t)address % 16)
		return CUDA_ERROR_INVALID_VALUE;
	*map = (CUtensorMap){.opaque = {(uintptr_t)address, rank, dimensions[0], box[0], swizzle}};
	return CUDA_SUCCESS;
}

CUresult cuTensorMapEncodeIm2col(CUtensorMap *map, CUtensorMapDataType type, uint32_t rank,
	void *address, const uint64_t *dimensions, const uint64_t *strides, const int *lower,
	const int *upper, uint32_t channels, uint32_t pixels, const uint32_t *element_strides,
	CUtensorMapInterleave interleave, CUtensorMapSwizzle swizzle,
	CUtensorMapL2promotion promotion, CUtensorMapFloatOOBfill fill)
{
	ENTER();
	*map = (CUtensorMap){.opaque = {(uintptr_t)address, rank, (uint64_t)lower[0], channels}};
	return CUDA_SUCCESS;
}

CUresult cuTensorMapReplaceAddress(CUtensorMap *map, void *address)
{
	ENTER();
	if ((uintptr_t)address % 16)
		return CUDA_ERROR_INVALID_VALUE;
	map->opaque[0] = (uintptr_t)address;
	return CUDA_SUCCESS;
}
