/* SPDX-License-Identifier: MIT
 *
 * Launches.
 */
#include <errno.h>
#include <string.h>

#include "lib/cuda/exports.h"
#include "lib/cuda/internal.h"

/* Reads the `extra` list: a buffer of parameters as the kernel sees them. It may be shorter than they are, as CUDA's
 * driver takes it and NCCL gives it. */
static CUresult read_extra(void **extra, struct gdev_launch *launch)
{
	for (; *extra != CU_LAUNCH_PARAM_END; extra += 2) {
		if (*extra == CU_LAUNCH_PARAM_BUFFER_POINTER) {
			launch->params = extra[1];
		} else if (*extra == CU_LAUNCH_PARAM_BUFFER_SIZE) {
			size_t bytes = *(const size_t *)extra[1];
			if (bytes > UINT32_MAX)
				return fail(CUDA_ERROR_INVALID_VALUE,
					"%zu bytes of parameters are more than any kernel takes",
					bytes);
			launch->param_bytes = (uint32_t)bytes;
		} else {
			return fail(CUDA_ERROR_INVALID_VALUE,
				"the list of extras has an entry that is none");
		}
	}
	return launch->params || !launch->param_bytes
		       ? CUDA_SUCCESS
		       : fail(CUDA_ERROR_INVALID_VALUE,
				 "the list of extras has a size, and no buffer");
}

static CUresult read_params(
	CUfunction function, void **params, void **extra, struct gdev_launch *launch)
{
	if (params && extra)
		return fail(CUDA_ERROR_INVALID_VALUE,
			"parameters are given in both ways, as kernelParams and as extra");
	if (extra)
		return read_extra(extra, launch);
	launch->arguments = params;
	return params || !gdev_function_info(function->function)->param_count
		       ? CUDA_SUCCESS
		       : fail(CUDA_ERROR_INVALID_VALUE,
				 "the kernel takes %u parameters, and none are given",
				 gdev_function_info(function->function)->param_count);
}

static CUresult read_attributes(const CUlaunchConfig *config, struct gdev_launch *launch)
{
	static const char *const unsupported[] = {
		[CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_EVENT] =
			"cuLaunchKernelEx: CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_EVENT",
		[CU_LAUNCH_ATTRIBUTE_LAUNCH_COMPLETION_EVENT] =
			"cuLaunchKernelEx: CU_LAUNCH_ATTRIBUTE_LAUNCH_COMPLETION_EVENT",
		[CU_LAUNCH_ATTRIBUTE_DEVICE_UPDATABLE_KERNEL_NODE] =
			"cuLaunchKernelEx: CU_LAUNCH_ATTRIBUTE_DEVICE_UPDATABLE_KERNEL_NODE",
	};

	for (unsigned i = 0; i < config->numAttrs; i++) {
		const CUlaunchAttribute *attribute = &config->attrs[i];
		switch (attribute->id) {
		case CU_LAUNCH_ATTRIBUTE_COOPERATIVE:
			launch->cooperative = attribute->value.cooperative;
			break;
		case CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION:
			launch->cluster[0] = attribute->value.clusterDim.x;
			launch->cluster[1] = attribute->value.clusterDim.y;
			launch->cluster[2] = attribute->value.clusterDim.z;
			break;
		case CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_EVENT:
		case CU_LAUNCH_ATTRIBUTE_LAUNCH_COMPLETION_EVENT:
		case CU_LAUNCH_ATTRIBUTE_DEVICE_UPDATABLE_KERNEL_NODE:
			return not_supported(unsupported[attribute->id]);
		default: /* the others are hints */
			break;
		}
	}
	return CUDA_SUCCESS;
}

/* A cluster of one block is what every launch is; the kernel may say what it wants, or must have. */
static CUresult check_cluster(CUfunction function, struct gdev_launch *launch)
{
	const struct gdev_function_info *info = gdev_function_info(function->function);
	uint64_t blocks = 1;

	if (!launch->cluster[0] && !info->cluster[0] && function->cluster[0])
		for (int i = 0; i < 3; i++)
			launch->cluster[i] = (uint32_t)max_of(function->cluster[i], 1);
	if (!launch->cluster[0])
		return CUDA_SUCCESS;
	for (int i = 0; i < 3; i++) {
		if (!launch->cluster[i] || launch->cluster[i] > UINT16_MAX)
			return fail(CUDA_ERROR_INVALID_CLUSTER_SIZE,
				"a cluster of %ux%ux%u blocks is none", launch->cluster[0],
				launch->cluster[1], launch->cluster[2]);
		blocks *= launch->cluster[i];
	}
	if (blocks > PORTABLE_CLUSTER && !function->large_clusters)
		return fail(CUDA_ERROR_INVALID_CLUSTER_SIZE,
			"a cluster of %llu blocks must be allowed for the kernel first "
			"(NON_PORTABLE_CLUSTER_SIZE_ALLOWED)",
			(unsigned long long)blocks);
	if (blocks == 1 && !info->cluster[0] && !info->needs_cluster)
		memset(launch->cluster, 0, sizeof launch->cluster);
	return CUDA_SUCCESS;
}

CUresult launch_read(CUfunction function, const CUlaunchConfig *config, struct gdev_launch *launch)
{
	*launch = (struct gdev_launch){
		.function = function->function,
		.grid = {config->gridDimX, config->gridDimY, config->gridDimZ},
		.block = {config->blockDimX, config->blockDimY, config->blockDimZ},
		.shared_bytes = config->sharedMemBytes,
	};
	TRY(read_attributes(config, launch));
	return check_cluster(function, launch);
}

/* A grid is made of whole clusters, of the size that the kernel is compiled for, if it is. */
static CUresult check_clusters(CUfunction function, const struct gdev_launch *launch)
{
	const struct gdev_function_info *info = gdev_function_info(function->function);
	const uint32_t *cluster = launch->cluster[0] ? launch->cluster : info->cluster;

	for (int i = 0; i < 3 && cluster[0]; i++) {
		if (info->cluster[0] && max_of(cluster[i], 1u) != max_of(info->cluster[i], 1u))
			return fail(CUDA_ERROR_INVALID_CLUSTER_SIZE,
				"the kernel is compiled for clusters of %ux%ux%u blocks",
				info->cluster[0], info->cluster[1], info->cluster[2]);
		if (launch->grid[i] % max_of(cluster[i], 1u))
			return fail(CUDA_ERROR_INVALID_CLUSTER_SIZE,
				"%ux%ux%u blocks are no clusters of %ux%ux%u", launch->grid[0],
				launch->grid[1], launch->grid[2], cluster[0], cluster[1],
				cluster[2]);
	}
	return CUDA_SUCCESS;
}

/* All blocks of a cooperative launch must be on the stream's part of the device at once. */
static CUresult check_cooperative(
	CUfunction function, const struct gdev_launch *launch, CUstream stream)
{
	uint64_t grid = (uint64_t)launch->grid[0] * launch->grid[1] * launch->grid[2];
	uint64_t threads = (uint64_t)launch->block[0] * launch->block[1] * launch->block[2];
	CUdevice device = function->module->context->device;
	int supported, processors, blocks;

	TRY(device_attribute(device, CU_DEVICE_ATTRIBUTE_COOPERATIVE_LAUNCH, &supported));
	if (!supported)
		return fail(CUDA_ERROR_NOT_SUPPORTED, "the device has no cooperative launches");
	if (!grid || !threads || threads > INT32_MAX)
		return fail(CUDA_ERROR_INVALID_VALUE, "the grid has %llu blocks of %llu threads",
			(unsigned long long)grid, (unsigned long long)threads);
	TRY(cuOccupancyMaxActiveBlocksPerMultiprocessor(
		&blocks, function, (int)threads, launch->shared_bytes));
	TRY(device_attribute(device, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, &processors));
	if (stream->green)
		processors = (int)stream->green->part.count;
	return grid <= (uint64_t)blocks * (uint64_t)processors
		       ? CUDA_SUCCESS
		       : fail(CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE,
				 "a cooperative launch of %llu blocks cannot be on the device, "
				 "or its part, at once: it holds %d",
				 (unsigned long long)grid, blocks * processors);
}

static CUresult check_shared(CUfunction function, uint32_t bytes)
{
	int limit;

	if (!bytes)
		return CUDA_SUCCESS;
	TRY(function_attribute(function, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, &limit));
	return bytes <= (unsigned)limit
		       ? CUDA_SUCCESS
		       : fail(CUDA_ERROR_INVALID_VALUE,
				 "%u bytes of dynamic shared memory are asked for, and the "
				 "kernel may have %d",
				 bytes, limit);
}

/* What cuLaunchCooperativeKernel says is an attribute of a node. */
static CUresult capture_launch(CUstream stream, CUfunction handle, const CUlaunchConfig *config,
	void **params, void **extra, bool cooperative)
{
	CUlaunchAttribute attribute = {.id = CU_LAUNCH_ATTRIBUTE_COOPERATIVE};
	CUlaunchConfig wanted = *config;

	attribute.value.cooperative = 1;
	if (cooperative) {
		wanted.attrs = &attribute;
		wanted.numAttrs = 1;
	}
	return capture_kernel(stream, handle, &wanted, params, extra);
}

static CUresult refused(CUfunction function, const struct gdev_launch *launch, int error)
{
	const struct gdev_function_info *info = gdev_function_info(function->function);
	const uint32_t *grid = launch->grid, *block = launch->block;

	if (error == -EINVAL && !launch->arguments)
		return fail(cuda_result(error),
			"the kernel %s takes %u bytes of parameters, and none are given",
			info->name, info->param_bytes);
	return result_of(error,
		"%ux%ux%u blocks of %ux%ux%u threads with %u bytes of shared memory of the kernel %s, "
		"which can have %u threads a block",
		grid[0], grid[1], grid[2], block[0], block[1], block[2], launch->shared_bytes,
		info->name, info->max_threads);
}

CUresult launch(
	CUfunction handle, const CUlaunchConfig *config, void **params, void **extra, unsigned how)
{
	struct gdev_launch launch;
	CUfunction function;
	CUcontext context;
	CUgreenCtx green;
	CUstream stream;
	int error;

	TRY(current_and_green(&context, &green));
	TRY(before_launch(context, function_resolve(handle, &function)));
	if (function->module->context != context)
		return fail(CUDA_ERROR_INVALID_HANDLE,
			"the function is of another context than the current one");
	TRY(launch_read(function, config, &launch));
	TRY(check_clusters(function, &launch));
	launch.cooperative |= how & LAUNCH_COOPERATIVE;
	launch.more = how & LAUNCH_MORE;
	TRY(read_params(function, params, extra, &launch));
	TRY(check_shared(function, launch.shared_bytes));
	TRY(stream_record_in(config->hStream, context, green, &stream));
	if (stream->context != context)
		return fail(CUDA_ERROR_INVALID_HANDLE,
			"the stream is of another context than the current one");
	if (launch.cooperative)
		TRY(check_cooperative(function, &launch, stream));
	if (stream->capture)
		return capture_launch(
			stream, handle, config, params, extra, how & LAUNCH_COOPERATIVE);
	error = gdev_launch_async(stream->stream, &launch);
	return error ? refused(function, &launch, error) : CUDA_SUCCESS;
}

CUresult launch_read_whole(
	CUfunction handle, const CUlaunchConfig *config, void **extra, struct gdev_launch *launch)
{
	CUfunction function;
	CUcontext context;

	TRY(current_context(&context));
	TRY(before_launch(context, function_resolve(handle, &function)));
	TRY(launch_read(function, config, launch));
	TRY(check_clusters(function, launch));
	TRY(read_params(function, NULL, extra, launch));
	TRY(check_shared(function, launch->shared_bytes));
	return launch->cooperative ? check_cooperative(function, launch, context->legacy)
				   : CUDA_SUCCESS;
}

CUresult cuLaunchKernel(CUfunction function, unsigned int grid_x, unsigned int grid_y,
	unsigned int grid_z, unsigned int block_x, unsigned int block_y, unsigned int block_z,
	unsigned int shared_bytes, CUstream stream, void **params, void **extra)
{
	CUlaunchConfig config = {
		grid_x, grid_y, grid_z, block_x, block_y, block_z, shared_bytes, stream, NULL, 0};

	return launch(function, &config, params, extra, 0);
}

CUresult cuLaunchKernelEx(
	const CUlaunchConfig *config, CUfunction function, void **params, void **extra)
{
	TRY(initialised());
	if (!config || (config->numAttrs && !config->attrs))
		return fail(CUDA_ERROR_INVALID_VALUE,
			"config is NULL, or its attrs are and numAttrs is not 0");
	return launch(function, config, params, extra, 0);
}

CUresult cuLaunchCooperativeKernel(CUfunction function, unsigned int grid_x, unsigned int grid_y,
	unsigned int grid_z, unsigned int block_x, unsigned int block_y, unsigned int block_z,
	unsigned int shared_bytes, CUstream stream, void **params)
{
	CUlaunchConfig config = {
		grid_x, grid_y, grid_z, block_x, block_y, block_z, shared_bytes, stream, NULL, 0};

	return launch(function, &config, params, NULL, LAUNCH_COOPERATIVE);
}
