/* SPDX-License-Identifier: MIT
 *
 * See driver.h.
 */
#include "device/cuda/driver.h"

#include <dlfcn.h>
#include <errno.h>
#include <glob.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/log.h"
#include "gdev/error.h"

/* Absolute paths only. The last is how container runtimes mount it. */
static const char *const library_paths[] = {
	"/usr/lib/x86_64-linux-gnu/libcuda.so.1",
	"/usr/lib/x86_64-linux-gnu/nvidia/current/libcuda.so.1",
	"/usr/lib64/libcuda.so.1",
	"/usr/lib/aarch64-linux-gnu/libcuda.so.1",
	"/usr/lib/wsl/lib/libcuda.so.1",
	"/usr/local/nvidia/lib64/libcuda.so.1",
};

static struct driver driver;
static const char *failure;
static pthread_once_t once = PTHREAD_ONCE_INIT;

static const char *configured_path(void)
{
	return secure_getenv("GDEV_CUDA_DRIVER");
}

static void *open_library(void)
{
	const char *configured = configured_path();

	if (configured)
		return configured[0] == '/' ? dlopen(configured, RTLD_NOW | RTLD_LOCAL) : NULL;
	for (size_t i = 0; i < array_length(library_paths); i++) {
		void *library = dlopen(library_paths[i], RTLD_NOW | RTLD_LOCAL);
		/* Ours exports the shared memory calls of the Gdev paper; a vendor's does not. */
		if (library && !dlsym(library, "cuShmGet"))
			return library;
		if (library)
			dlclose(library);
	}
	return NULL;
}

static void load(void)
{
	static char text[320];
	void *library = open_library();
	int count = 0;

	failure = "no NVIDIA driver library (libcuda.so.1) in the system's library folders";
	if (!library && configured_path()) {
		const char *why = dlerror();
		snprintf(text, sizeof text, "GDEV_CUDA_DRIVER names no driver library: %s",
			why ? why : "it must be an absolute path");
		failure = text;
	}
	if (!library)
		return;
#define DRIVER_LOAD(member, symbol)                                                                \
	driver.member = (__typeof__(driver.member))dlsym(library, #symbol);                        \
	if (!driver.member) {                                                                      \
		failure = "the NVIDIA driver is too old: it lacks " #symbol;                       \
		return;                                                                            \
	}
	DRIVER_FUNCTIONS(DRIVER_LOAD)
#undef DRIVER_LOAD
	driver.has_references = true;
	driver.has_parts = true;
	driver.has_deferred = true;
#define DRIVER_LOAD(member, symbol, all)                                                           \
	driver.member = (__typeof__(driver.member))dlsym(library, #symbol);                        \
	driver.all &= driver.member != NULL;
#define DRIVER_LOAD_OLD(member, symbol) DRIVER_LOAD(member, symbol, has_references)
#define DRIVER_LOAD_PARTS(member, symbol) DRIVER_LOAD(member, symbol, has_parts)
#define DRIVER_LOAD_DEFERRED(member, symbol) DRIVER_LOAD(member, symbol, has_deferred)
	DRIVER_FUNCTIONS_OF_OLD(DRIVER_LOAD_OLD)
	DRIVER_FUNCTIONS_OF_PARTS(DRIVER_LOAD_PARTS)
	DRIVER_FUNCTIONS_OF_DEFERRED(DRIVER_LOAD_DEFERRED)
#undef DRIVER_LOAD_DEFERRED
#undef DRIVER_LOAD_PARTS
#undef DRIVER_LOAD_OLD
#undef DRIVER_LOAD
	CUresult result = driver.cuInit(0);
	if (result == CUDA_SUCCESS)
		result = driver.cuDeviceGetCount(&count);
	if (result != CUDA_SUCCESS || !count) {
		const char *name = "no device";
		driver.cuGetErrorName(result, &name);
		snprintf(text, sizeof text, "the NVIDIA driver finds no device: %s", name);
		failure = text;
		return;
	}
	failure = NULL;
}

static void load_once(void)
{
	log_init("gdev-cuda", LOG_LEVEL_WARNING); /* a plugin has a log of its own */
	load();
	if (failure)
		log_error("%s", failure);
}

const struct driver *driver_get(void)
{
	pthread_once(&once, load_once);
	return failure ? NULL : &driver;
}

int driver_error(CUresult result)
{
	switch (result) {
	case CUDA_SUCCESS:
		return 0;
	case CUDA_ERROR_OUT_OF_MEMORY:
		return -ENOMEM;
	case CUDA_ERROR_INVALID_VALUE:
		return -EINVAL;
	case CUDA_ERROR_INVALID_IMAGE:
		return -GDEV_E_INVALID_IMAGE;
	case CUDA_ERROR_INVALID_PTX:
		return -GDEV_E_INVALID_PTX;
	case CUDA_ERROR_UNSUPPORTED_PTX_VERSION:
		return -GDEV_E_UNSUPPORTED_PTX;
	case CUDA_ERROR_NO_BINARY_FOR_GPU:
		return -GDEV_E_NO_BINARY;
	case CUDA_ERROR_NOT_FOUND:
		return -GDEV_E_SYMBOL_NOT_FOUND;
	case CUDA_ERROR_NOT_READY:
		return -GDEV_E_NOT_READY;
	case CUDA_ERROR_INVALID_HANDLE:
		return -GDEV_E_INVALID_HANDLE;
	case CUDA_ERROR_INVALID_CLUSTER_SIZE:
		return -GDEV_E_INVALID_LAUNCH;
	case CUDA_ERROR_NOT_PERMITTED:
		return -EPERM;
	case CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES:
	case CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE:
		return -GDEV_E_OUT_OF_RESOURCES;
	case CUDA_ERROR_NOT_SUPPORTED:
		return -ENOTSUP;
	case CUDA_ERROR_LAUNCH_TIMEOUT:
		return -GDEV_E_LAUNCH_TIMEOUT;
	case CUDA_ERROR_ASSERT:
		return -GDEV_E_ASSERT;
	case CUDA_ERROR_ILLEGAL_ADDRESS:
	case CUDA_ERROR_MISALIGNED_ADDRESS:
	case CUDA_ERROR_INVALID_ADDRESS_SPACE:
		return -GDEV_E_ILLEGAL_ADDRESS;
	case CUDA_ERROR_LAUNCH_FAILED:
	case CUDA_ERROR_ILLEGAL_INSTRUCTION:
	case CUDA_ERROR_INVALID_PC:
	case CUDA_ERROR_HARDWARE_STACK_ERROR:
		return -GDEV_E_TRAP;
	default:
		return -GDEV_E_DEVICE_LOST;
	}
}
