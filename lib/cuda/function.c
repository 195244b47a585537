/* SPDX-License-Identifier: MIT
 *
 * Functions: attributes, parameters, occupancy.
 */
#include <string.h>

#include "lib/cuda/exports.h"
#include "lib/cuda/internal.h"

CUresult function_resolve(CUfunction handle, CUfunction *function)
{
	TRY(initialised());
	if (handle_is(HANDLE_FUNCTION, handle)) {
		*function = handle;
		return CUDA_SUCCESS;
	}
	if (handle_is(HANDLE_KERNEL, handle))
		return kernel_function((CUkernel)handle, function);
	return fail(
		CUDA_ERROR_INVALID_HANDLE, "%p is no living function or kernel", (void *)handle);
}

static const struct gdev_function_info *info_of(CUfunction function)
{
	return gdev_function_info(function->function);
}

/* ---- attributes ---- */

/* Dynamic shared memory that a launch may ask for without more being set: what is left of the block's
 * normal share. */
static CUresult default_dynamic_shared(CUfunction function, int *bytes)
{
	int limit;

	TRY(device_attribute(function->module->context->device,
		CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK, &limit));
	*bytes = max_of(limit - (int)info_of(function)->shared_bytes, 0);
	return CUDA_SUCCESS;
}

CUresult function_attribute(CUfunction function, CUfunction_attribute attribute, int *value)
{
	const struct gdev_function_info *info = info_of(function);
	int axis;

	switch (attribute) {
	case CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK:
		*value = (int)info->max_threads;
		return CUDA_SUCCESS;
	case CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES:
		*value = (int)info->shared_bytes;
		return CUDA_SUCCESS;
	case CU_FUNC_ATTRIBUTE_CONST_SIZE_BYTES:
		*value = (int)info->const_bytes;
		return CUDA_SUCCESS;
	case CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES:
		*value = (int)info->local_bytes;
		return CUDA_SUCCESS;
	case CU_FUNC_ATTRIBUTE_NUM_REGS:
		*value = (int)info->registers;
		return CUDA_SUCCESS;
	case CU_FUNC_ATTRIBUTE_PTX_VERSION:
		*value = (int)info->ptx_version;
		return CUDA_SUCCESS;
	case CU_FUNC_ATTRIBUTE_BINARY_VERSION:
		*value = (int)info->binary_version;
		return CUDA_SUCCESS;
	case CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES:
		*value = function->max_dynamic_shared;
		return *value >= 0 ? CUDA_SUCCESS : default_dynamic_shared(function, value);
	case CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT:
		*value = function->carveout;
		return CUDA_SUCCESS;
	case CU_FUNC_ATTRIBUTE_CACHE_MODE_CA:
		*value = 0;
		return CUDA_SUCCESS;
	case CU_FUNC_ATTRIBUTE_CLUSTER_SIZE_MUST_BE_SET:
		*value = info->needs_cluster;
		return CUDA_SUCCESS;
	case CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_WIDTH:
	case CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_HEIGHT:
	case CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_DEPTH:
		axis = attribute - CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_WIDTH;
		*value = info->cluster[0] ? (int)info->cluster[axis] : function->cluster[axis];
		return CUDA_SUCCESS;
	case CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED:
		*value = function->large_clusters;
		return CUDA_SUCCESS;
	case CU_FUNC_ATTRIBUTE_CLUSTER_SCHEDULING_POLICY_PREFERENCE:
		*value = function->cluster_policy;
		return CUDA_SUCCESS;
	default:
		return fail(CUDA_ERROR_INVALID_VALUE, "%d is no attribute of functions",
			(int)attribute);
	}
}

static CUresult set_within(_Atomic int *attribute, int value, int least, int most)
{
	if (value < least || value > most)
		return fail(
			CUDA_ERROR_INVALID_VALUE, "%d is not from %d to %d", value, least, most);
	*attribute = value;
	return CUDA_SUCCESS;
}

/* An attribute that a kernel is compiled with cannot change. */
static CUresult set_cluster(CUfunction function, int axis, int value)
{
	if (info_of(function)->cluster[0])
		return fail(CUDA_ERROR_NOT_PERMITTED,
			"the kernel is compiled for clusters of one size");
	return set_within(&function->cluster[axis], value, 0, INT32_MAX);
}

CUresult function_set_attribute(CUfunction function, CUfunction_attribute attribute, int value)
{
	int limit, ordinary;

	switch (attribute) {
	case CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES:
		TRY(device_attribute(function->module->context->device,
			CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN, &limit));
		TRY(device_attribute(function->module->context->device,
			CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK, &ordinary));
		limit = max_of(limit, ordinary);
		if (value < 0 || value > limit - (int)info_of(function)->shared_bytes)
			return fail(CUDA_ERROR_INVALID_VALUE,
				"%d bytes are more dynamic shared memory than the device "
				"leaves a block of this kernel (%d)",
				value, limit - (int)info_of(function)->shared_bytes);
		function->max_dynamic_shared = value;
		return CUDA_SUCCESS;
	case CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT:
		return set_within(&function->carveout, value, CU_SHAREDMEM_CARVEOUT_DEFAULT,
			CU_SHAREDMEM_CARVEOUT_MAX_SHARED);
	case CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_WIDTH:
	case CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_HEIGHT:
	case CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_DEPTH:
		return set_cluster(
			function, attribute - CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_WIDTH, value);
	case CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED:
		function->large_clusters = value != 0;
		return CUDA_SUCCESS;
	case CU_FUNC_ATTRIBUTE_CLUSTER_SCHEDULING_POLICY_PREFERENCE:
		return set_within(&function->cluster_policy, value,
			CU_CLUSTER_SCHEDULING_POLICY_DEFAULT,
			CU_CLUSTER_SCHEDULING_POLICY_LOAD_BALANCING);
	default:
		return fail(CUDA_ERROR_INVALID_VALUE, "attribute %d cannot be set", (int)attribute);
	}
}

CUresult cuFuncGetAttribute(int *value, CUfunction_attribute attribute, CUfunction handle)
{
	CUfunction function;

	TRY(function_resolve(handle, &function));
	return value ? function_attribute(function, attribute, value)
		     : fail(CUDA_ERROR_INVALID_VALUE, "value is NULL");
}

CUresult cuFuncSetAttribute(CUfunction handle, CUfunction_attribute attribute, int value)
{
	CUfunction function;

	TRY(function_resolve(handle, &function));
	return function_set_attribute(function, attribute, value);
}

CUresult cuFuncSetCacheConfig(CUfunction handle, CUfunc_cache config)
{
	CUfunction function;

	TRY(function_resolve(handle, &function));
	return (unsigned)config <= CU_FUNC_CACHE_PREFER_EQUAL
		       ? CUDA_SUCCESS
		       : fail(CUDA_ERROR_INVALID_VALUE, "%d is no configuration of caches",
				 (int)config);
}

CUresult cuFuncSetSharedMemConfig(CUfunction handle, CUsharedconfig config)
{
	CUfunction function;

	TRY(function_resolve(handle, &function));
	return (unsigned)config <= CU_SHARED_MEM_CONFIG_EIGHT_BYTE_BANK_SIZE
		       ? CUDA_SUCCESS
		       : fail(CUDA_ERROR_INVALID_VALUE, "%d is no configuration of shared memory",
				 (int)config);
}

/* For calls to which, in CUDA, no handle is a wrong value. */
static CUresult resolve_value(CUfunction handle, CUfunction *function)
{
	CUresult result = function_resolve(handle, function);

	return !handle && result == CUDA_ERROR_INVALID_HANDLE
		       ? fail(CUDA_ERROR_INVALID_VALUE, "the function is NULL")
		       : result;
}

CUresult cuFuncGetModule(CUmodule *module, CUfunction handle)
{
	CUfunction function;

	TRY(resolve_value(handle, &function));
	if (!module)
		return fail(CUDA_ERROR_INVALID_VALUE, "module is NULL");
	*module = function->module;
	return CUDA_SUCCESS;
}

CUresult cuFuncGetName(const char **name, CUfunction handle)
{
	CUfunction function;

	TRY(resolve_value(handle, &function));
	if (!name)
		return fail(CUDA_ERROR_INVALID_VALUE, "name is NULL");
	*name = info_of(function)->name;
	return CUDA_SUCCESS;
}

CUresult cuFuncGetParamInfo(CUfunction handle, size_t index, size_t *offset, size_t *size)
{
	const struct gdev_function_info *info;
	CUfunction function;

	TRY(resolve_value(handle, &function));
	info = info_of(function);
	if (!offset || index >= info->param_count)
		return fail(CUDA_ERROR_INVALID_VALUE,
			"offset is NULL, or the kernel has only %u parameters", info->param_count);
	*offset = info->params[index].offset;
	if (size)
		*size = info->params[index].size;
	return CUDA_SUCCESS;
}

CUresult cuFuncIsLoaded(CUfunctionLoadingState *state, CUfunction handle)
{
	CUfunction function;

	TRY(function_resolve(handle, &function));
	if (!state)
		return fail(CUDA_ERROR_INVALID_VALUE, "state is NULL");
	*state = CU_FUNCTION_LOADING_STATE_LOADED;
	return CUDA_SUCCESS;
}

CUresult cuFuncLoad(CUfunction handle)
{
	CUfunction function;

	return function_resolve(handle, &function);
}

/* ---- occupancy ---- */

static CUresult active_blocks(
	CUfunction function, int block_size, size_t dynamic_bytes, int *blocks)
{
	uint32_t count = 0;
	int limit;

	if (block_size <= 0 || dynamic_bytes > UINT32_MAX)
		return fail(CUDA_ERROR_INVALID_VALUE,
			"a block of %d threads with %zu bytes of shared memory is none", block_size,
			dynamic_bytes);
	TRY(function_attribute(function, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, &limit));
	if ((uint32_t)block_size <= info_of(function)->max_threads &&
		dynamic_bytes <= (size_t)limit)
		TRY_GDEV(gdev_function_occupancy(function->function, (uint32_t)block_size,
				 (uint32_t)dynamic_bytes, &count),
			"the occupancy is not known");
	*blocks = (int)count;
	return CUDA_SUCCESS;
}

CUresult cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(
	int *blocks, CUfunction handle, int block_size, size_t dynamic_bytes, unsigned int flags)
{
	CUfunction function;

	TRY(function_resolve(handle, &function));
	if (!blocks || flags & ~(unsigned)CU_OCCUPANCY_DISABLE_CACHING_OVERRIDE)
		return fail(CUDA_ERROR_INVALID_VALUE,
			"blocks is NULL, or flags %#x have bits that mean nothing", flags);
	return active_blocks(function, block_size, dynamic_bytes, blocks);
}

CUresult cuOccupancyMaxActiveBlocksPerMultiprocessor(
	int *blocks, CUfunction handle, int block_size, size_t dynamic_bytes)
{
	return cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(
		blocks, handle, block_size, dynamic_bytes, CU_OCCUPANCY_DEFAULT);
}

/* The block size, in warps, that keeps most threads of a multiprocessor busy; the larger of equals. */
static CUresult best_block_size(CUfunction function, CUoccupancyB2DSize dynamic_of,
	size_t dynamic_bytes, int largest, int *best_size, int *best_blocks)
{
	int most = 0;

	*best_size = *best_blocks = 0;
	for (int size = largest; size > 0; size -= size % 32 ? size % 32 : 32) {
		int blocks;
		size_t bytes = dynamic_of ? dynamic_of(size) : dynamic_bytes;
		TRY(active_blocks(function, size, bytes, &blocks));
		if (blocks * size <= most)
			continue;
		most = blocks * size;
		*best_size = size;
		*best_blocks = blocks;
	}
	return CUDA_SUCCESS;
}

CUresult cuOccupancyMaxPotentialBlockSizeWithFlags(int *min_grid, int *block_size,
	CUfunction handle, CUoccupancyB2DSize dynamic_of, size_t dynamic_bytes, int limit,
	unsigned int flags)
{
	int size, blocks, processors;
	CUfunction function;

	TRY(function_resolve(handle, &function));
	if (!min_grid || !block_size || limit < 0 ||
		flags & ~(unsigned)CU_OCCUPANCY_DISABLE_CACHING_OVERRIDE)
		return fail(CUDA_ERROR_INVALID_VALUE,
			"a pointer for the answer is NULL, the limit negative, or flags %#x "
			"have bits that mean nothing",
			flags);
	int largest = (int)info_of(function)->max_threads;
	if (limit && limit < largest)
		largest = limit;
	TRY(best_block_size(function, dynamic_of, dynamic_bytes, largest, &size, &blocks));
	TRY(device_attribute(function->module->context->device,
		CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, &processors));
	*block_size = size;
	*min_grid = blocks * processors;
	return CUDA_SUCCESS;
}

CUresult cuOccupancyMaxPotentialBlockSize(int *min_grid, int *block_size, CUfunction handle,
	CUoccupancyB2DSize dynamic_of, size_t dynamic_bytes, int limit)
{
	return cuOccupancyMaxPotentialBlockSizeWithFlags(min_grid, block_size, handle, dynamic_of,
		dynamic_bytes, limit, CU_OCCUPANCY_DEFAULT);
}

CUresult cuOccupancyAvailableDynamicSMemPerBlock(
	size_t *bytes, CUfunction handle, int block_count, int block_size)
{
	CUfunction function;
	int total, limit, reserved;
	CUdevice device;

	TRY(function_resolve(handle, &function));
	if (!bytes || block_count <= 0 || block_size <= 0)
		return fail(CUDA_ERROR_INVALID_VALUE,
			"bytes is NULL, or a number of blocks or threads is not positive");
	device = function->module->context->device;
	TRY(device_attribute(
		device, CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_MULTIPROCESSOR, &total));
	TRY(device_attribute(
		device, CU_DEVICE_ATTRIBUTE_RESERVED_SHARED_MEMORY_PER_BLOCK, &reserved));
	TRY(function_attribute(function, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, &limit));
	int each = total / block_count - reserved - (int)info_of(function)->shared_bytes;
	*bytes = (size_t)min_of(max_of(each, 0), limit);
	return CUDA_SUCCESS;
}

/* ---- clusters ---- */

/* Reads the launch. *supported: whether the device has clusters; without, one block is all of them. */
static CUresult read_clusters(CUfunction function, const CUlaunchConfig *config,
	struct gdev_launch *launch, int *supported)
{
	if (config->numAttrs && !config->attrs)
		return fail(CUDA_ERROR_INVALID_VALUE, "attrs is NULL, and numAttrs is not 0");
	TRY(launch_read(function, config, launch));
	return device_attribute(
		function->module->context->device, CU_DEVICE_ATTRIBUTE_CLUSTER_LAUNCH, supported);
}

/* Whether the launch says how large its clusters are: one block is a size as well. */
static bool names_cluster(const CUlaunchConfig *config)
{
	for (unsigned i = 0; i < config->numAttrs; i++)
		if (config->attrs[i].id == CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION)
			return true;
	return false;
}

CUresult cuOccupancyMaxPotentialClusterSize(
	int *size, CUfunction handle, const CUlaunchConfig *config)
{
	struct gdev_launch launch;
	CUfunction function;
	uint32_t largest = 1;
	int supported;

	TRY(resolve_value(handle, &function));
	if (!size || !config)
		return fail(CUDA_ERROR_INVALID_VALUE, "size or config is NULL");
	TRY(read_clusters(function, config, &launch, &supported));
	memset(launch.cluster, 0, sizeof launch.cluster);
	if (supported)
		TRY_GDEV(gdev_launch_clusters(&launch, &largest),
			"the size of clusters is not known");
	*size = (int)(function->large_clusters ? largest
					       : min_of(largest, (uint32_t)PORTABLE_CLUSTER));
	return CUDA_SUCCESS;
}

CUresult cuOccupancyMaxActiveClusters(int *count, CUfunction handle, const CUlaunchConfig *config)
{
	struct gdev_launch launch;
	int supported, processors, blocks;
	CUfunction function;
	uint32_t clusters;

	TRY(resolve_value(handle, &function));
	if (!count || !config)
		return fail(CUDA_ERROR_INVALID_VALUE, "count or config is NULL");
	TRY(read_clusters(function, config, &launch, &supported));
	if (!launch.cluster[0] && !names_cluster(config)) {
		*count = 0;
		return CUDA_SUCCESS;
	}
	if (supported) {
		if (!launch.cluster[0])
			launch.cluster[0] = launch.cluster[1] = launch.cluster[2] = 1;
		TRY_GDEV(gdev_launch_clusters(&launch, &clusters),
			"the number of clusters is not known");
		*count = (int)clusters;
		return CUDA_SUCCESS;
	}
	if (launch.cluster[0])
		return fail(CUDA_ERROR_INVALID_CLUSTER_SIZE, "the device has no clusters");
	TRY(device_attribute(function->module->context->device,
		CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, &processors));
	TRY(active_blocks(function, (int)(launch.block[0] * launch.block[1] * launch.block[2]),
		launch.shared_bytes, &blocks));
	*count = blocks * processors; /* each block is a cluster */
	return CUDA_SUCCESS;
}
