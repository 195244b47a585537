/* SPDX-License-Identifier: MIT
 *
 * The baseline of `scripts/bench table1`: a libcuda.so.1 that has what the examples call, and executes
 * it in the calling process, straight on a device backend ($GDEV_DIRECT_DEVICE, "cpu" if not set): no
 * gdevd, no worker, no ring, no checks. The same program binaries run on it, with LD_LIBRARY_PATH.
 *
 * One context, one in-order queue. The program has one thread; others only lend themselves to the
 * device, as a worker's do.
 */
#include <cuda.h>

#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/list.h"
#include "device/ops.h"
#include "gdev/error.h"

#define EXPORT __attribute__((visibility("default")))
#define ARENA_BASE 0x300000000000ull
#define ARENA_BYTES (1ull << 38)
#define THREADS_MAX 64

/* A run of chunks that is one allocation. */
struct allocation {
	struct allocation *next;
	uint64_t address;
	unsigned count;
	struct {
		uint64_t address;
		struct device_chunk *chunk;
	} chunks[];
};

struct submission {
	struct device_command command;
	unsigned char params[];
};

static const struct device_ops *ops;
static struct device *device;
static struct device_space *space;
static struct device_queue *queue;
static struct device_info info;
static uint64_t arena_next;
static struct allocation *allocations;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* guards the rest */
static pthread_cond_t kicked = PTHREAD_COND_INITIALIZER;
static unsigned kicks, pending, awake; /* awake: of the threads that lend() */
static int failure;                    /* the first, of a command */

static _Thread_local bool submitting;

static CUresult result_of(int error)
{
	switch (-error) {
	case 0:
		return CUDA_SUCCESS;
	case 12: /* ENOMEM */
		return CUDA_ERROR_OUT_OF_MEMORY;
	case GDEV_E_ILLEGAL_ADDRESS:
		return CUDA_ERROR_ILLEGAL_ADDRESS;
	case GDEV_E_INVALID_PTX:
		return CUDA_ERROR_INVALID_PTX;
	case GDEV_E_UNSUPPORTED_PTX:
		return CUDA_ERROR_UNSUPPORTED_PTX_VERSION;
	case GDEV_E_SYMBOL_NOT_FOUND:
		return CUDA_ERROR_NOT_FOUND;
	default:
		return CUDA_ERROR_UNKNOWN;
	}
}

/* ---- what a device wants of its owner ---- */

static void kick(void *owner)
{
	pthread_mutex_lock(&lock);
	kicks++;
	/* One more thread, whichever; one that is awake looks at what was submitted by itself. */
	if (!submitting || !awake)
		pthread_cond_signal(&kicked);
	pthread_mutex_unlock(&lock);
}

static void print(void *owner, const char *bytes, size_t length)
{
	fwrite(bytes, 1, length, stdout);
}

static const struct device_host host = {.kick = kick, .print = print};

static void *lend(void *unused)
{
	unsigned seen = 0;

	for (;;) {
		pthread_mutex_lock(&lock);
		while (seen == kicks)
			pthread_cond_wait(&kicked, &lock);
		awake++;
		seen = kicks;
		pthread_mutex_unlock(&lock);
		while (ops->work(device))
			;
		pthread_mutex_lock(&lock);
		awake--;
		pthread_mutex_unlock(&lock);
	}
	return unused;
}

static void done(struct device_command *command, int error)
{
	pthread_mutex_lock(&lock);
	if (error && !failure)
		failure = error;
	if (!--pending)
		pthread_cond_broadcast(&kicked); /* finish() is one of those that wait */
	pthread_mutex_unlock(&lock);
	free(container_of(command, struct submission, command));
}

static void submit(struct submission *submission)
{
	submission->command.done = done;
	pthread_mutex_lock(&lock);
	pending++;
	pthread_mutex_unlock(&lock);
	submitting = true;
	ops->submit(queue, &submission->command);
	submitting = false;
}

/* Waits for everything, and works meanwhile. */
static int finish(void)
{
	int error;

	pthread_mutex_lock(&lock);
	while (pending) {
		unsigned seen = kicks;

		pthread_mutex_unlock(&lock);
		while (ops->work && ops->work(device))
			;
		pthread_mutex_lock(&lock);
		if (pending && seen == kicks)
			pthread_cond_wait(&kicked, &lock);
	}
	error = failure;
	pthread_mutex_unlock(&lock);
	return error;
}

static int open_device(void)
{
	const char *name = getenv("GDEV_DIRECT_DEVICE");
	long processors = sysconf(_SC_NPROCESSORS_ONLN);
	struct device_config config = {0};
	pthread_t thread;
	int error = device_parse(name ? name : "cpu", &ops, &config.index);

	if (error)
		return error;
	if (ops->probe(&config, &info, 1) < 1)
		return -GDEV_E_DEVICE_LOST;
	arena_next = ARENA_BASE;
	error = ops->open(&config, &host, &device);
	if (!error)
		error = ops->space_create(device, &space);
	if (!error)
		error = ops->space_reserve(space, ARENA_BASE, ARENA_BYTES);
	if (!error)
		error = ops->queue_create(space, 0, &queue);
	/* The calling thread lends itself when it waits. */
	for (long i = 1; !error && ops->work && i < processors && i < THREADS_MAX; i++)
		if (!pthread_create(&thread, NULL, lend, NULL))
			pthread_detach(thread);
	return error;
}

/* ---- the calls ---- */

EXPORT CUresult cuInit(unsigned flags)
{
	return device ? CUDA_SUCCESS : result_of(open_device());
}

EXPORT CUresult cuGetErrorName(CUresult error, const char **name)
{
	static _Thread_local char text[32];

	snprintf(text, sizeof(text), "CUresult %d", (int)error);
	*name = text;
	return CUDA_SUCCESS;
}

EXPORT CUresult cuGetErrorString(CUresult error, const char **text)
{
	*text = "the direct run failed";
	return CUDA_SUCCESS;
}

EXPORT CUresult cuDeviceGetCount(int *count)
{
	*count = 1;
	return CUDA_SUCCESS;
}

EXPORT CUresult cuDeviceGet(CUdevice *found, int ordinal)
{
	*found = 0;
	return ordinal ? CUDA_ERROR_INVALID_DEVICE : CUDA_SUCCESS;
}

EXPORT CUresult cuDeviceGetName(char *name, int length, CUdevice of)
{
	snprintf(name, (size_t)length, "%s", info.name);
	return CUDA_SUCCESS;
}

EXPORT CUresult cuDevicePrimaryCtxRetain(CUcontext *context, CUdevice of)
{
	*context = (CUcontext)space;
	return CUDA_SUCCESS;
}

EXPORT CUresult cuDevicePrimaryCtxRelease(CUdevice of)
{
	return result_of(finish());
}

EXPORT CUresult cuCtxSetCurrent(CUcontext context)
{
	return CUDA_SUCCESS;
}

EXPORT CUresult cuCtxGetDevice(CUdevice *of)
{
	*of = 0;
	return CUDA_SUCCESS;
}

EXPORT CUresult cuCtxSynchronize(void)
{
	return result_of(finish());
}

EXPORT CUresult cuModuleLoadDataEx(
	CUmodule *module, const void *image, unsigned count, CUjit_option *options, void **values)
{
	struct device_log log = {0};
	unsigned i;

	for (i = 0; i < count; i++) {
		if (options[i] == CU_JIT_ERROR_LOG_BUFFER)
			log.text = values[i];
		else if (options[i] == CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES)
			log.size = (size_t)values[i];
	}
	return result_of(ops->module_load(
		space, image, strlen(image) + 1, &log, (struct device_module **)module));
}

EXPORT CUresult cuModuleLoadData(CUmodule *module, const void *image)
{
	return cuModuleLoadDataEx(module, image, 0, NULL, NULL);
}

EXPORT CUresult cuModuleUnload(CUmodule module)
{
	int error = finish();

	ops->module_unload((struct device_module *)module);
	return result_of(error);
}

EXPORT CUresult cuModuleGetFunction(CUfunction *function, CUmodule module, const char *name)
{
	return result_of(ops->function_get(
		(struct device_module *)module, name, (struct device_function **)function));
}

EXPORT CUresult cuMemFree(CUdeviceptr address)
{
	struct allocation **at = &allocations, *found;
	int error = finish();

	while (*at && (*at)->address != address)
		at = &(*at)->next;
	found = *at;
	if (!found)
		return CUDA_ERROR_INVALID_VALUE;
	*at = found->next;
	for (unsigned i = 0; i < found->count; i++) {
		ops->unmap(space, found->chunks[i].address, found->chunks[i].chunk);
		ops->chunk_destroy(found->chunks[i].chunk);
	}
	free(found);
	return result_of(error);
}

/* Addresses are not used twice: there are more than any example needs. */
EXPORT CUresult cuMemAlloc(CUdeviceptr *address, size_t bytes)
{
	uint64_t left = align_up((uint64_t)bytes, DEVICE_CHUNK_MIN);
	struct allocation *new =
		calloc(1, sizeof(*new) + (left / DEVICE_CHUNK_MAX + 8) * sizeof(new->chunks[0]));
	int error = new ? 0 : -12;

	if (error)
		return result_of(error);
	new->address = arena_next;
	new->next = allocations;
	allocations = new;
	while (left && !error) {
		uint64_t size = DEVICE_CHUNK_MAX;
		struct device_chunk *chunk;

		while (size > left)
			size /= 2;
		error = ops->chunk_create(device, size, &chunk);
		if (error)
			break;
		error = ops->map(space, arena_next, chunk, false);
		if (error) {
			ops->chunk_destroy(chunk);
			break;
		}
		new->chunks[new->count].address = arena_next;
		new->chunks[new->count++].chunk = chunk;
		arena_next += size;
		left -= size;
	}
	if (error)
		cuMemFree(new->address);
	else
		*address = new->address;
	arena_next = align_up(arena_next, DEVICE_CHUNK_MAX);
	return result_of(error);
}

EXPORT CUresult cuMemAllocHost(void **memory, size_t bytes)
{
	*memory = aligned_alloc(4096, align_up(bytes, (size_t)4096));
	return *memory ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

EXPORT CUresult cuMemFreeHost(void *memory)
{
	free(memory);
	return CUDA_SUCCESS;
}

static CUresult copy(
	uint64_t destination, uint64_t source, size_t bytes, enum copy_direction direction)
{
	struct submission *submission = calloc(1, sizeof(*submission));

	if (!submission)
		return CUDA_ERROR_OUT_OF_MEMORY;
	submission->command.kind = DEVICE_COPY;
	submission->command.copy = (struct device_copy){
		.direction = direction,
		.destination = destination,
		.source = source,
		.width = bytes,
		.height = 1,
		.depth = 1,
	};
	submit(submission);
	return result_of(finish());
}

EXPORT CUresult cuMemcpyHtoD(CUdeviceptr destination, const void *source, size_t bytes)
{
	return copy(destination, (uintptr_t)source, bytes, COPY_TO_DEVICE);
}

EXPORT CUresult cuMemcpyDtoH(void *destination, CUdeviceptr source, size_t bytes)
{
	return copy((uintptr_t)destination, source, bytes, COPY_FROM_DEVICE);
}

EXPORT CUresult cuMemsetD32(CUdeviceptr destination, unsigned value, size_t count)
{
	struct submission *submission = calloc(1, sizeof(*submission));

	if (!submission)
		return CUDA_ERROR_OUT_OF_MEMORY;
	submission->command.kind = DEVICE_FILL;
	submission->command.fill = (struct device_fill){
		.destination = destination,
		.width = count,
		.height = 1,
		.pitch = count * 4,
		.element_bytes = 4,
		.value = value,
	};
	submit(submission);
	return CUDA_SUCCESS;
}

EXPORT CUresult cuLaunchKernel(CUfunction handle, unsigned grid_x, unsigned grid_y, unsigned grid_z,
	unsigned block_x, unsigned block_y, unsigned block_z, unsigned shared_bytes,
	CUstream stream, void **params, void **extra)
{
	struct device_function *function = (struct device_function *)handle;
	struct device_function_info about;
	struct submission *submission;
	struct device_launch *launch;

	ops->function_info(function, &about);
	submission = calloc(1, sizeof(*submission) + about.param_bytes);
	if (!submission)
		return CUDA_ERROR_OUT_OF_MEMORY;
	for (unsigned i = 0; i < about.param_count; i++) {
		uint32_t offset, bytes;

		ops->function_param(function, i, &offset, &bytes);
		memcpy(submission->params + offset, params[i], bytes);
	}
	submission->command.kind = DEVICE_LAUNCH;
	launch = &submission->command.launch;
	launch->function = function;
	memcpy(launch->grid, (uint32_t[]){grid_x, grid_y, grid_z}, sizeof(launch->grid));
	memcpy(launch->block, (uint32_t[]){block_x, block_y, block_z}, sizeof(launch->block));
	launch->shared_bytes = shared_bytes;
	launch->params = submission->params;
	launch->param_bytes = about.param_bytes;
	submit(submission);
	return CUDA_SUCCESS;
}
