/* SPDX-License-Identifier: MIT
 *
 * cuInit, versions, and finding functions by name.
 *
 * Forks. A child starts as if cuInit had never been called: its calls fail with
 * CUDA_ERROR_NOT_INITIALIZED until it calls cuInit itself, and then it has sessions of its own.
 */
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "lib/cuda/exports.h"
#include "lib/cuda/internal.h"

static pthread_mutex_t init_lock = PTHREAD_MUTEX_INITIALIZER;
static atomic_bool is_initialised;

static void after_fork_in_child(void)
{
	pthread_mutex_init(&init_lock, NULL);
	atomic_store(&is_initialised, false);
	devices_forget();
	contexts_forget();
	ipc_forget();
	vmm_forget();
	captures_forget();
	memops_forget();
	pools_forget();
	graph_memory_forget();
	tensors_forget();
}

CUresult initialised(void)
{
	return atomic_load_explicit(&is_initialised, memory_order_acquire)
		       ? CUDA_SUCCESS
		       : CUDA_ERROR_NOT_INITIALIZED;
}

static CUresult init_once(void)
{
	static bool prepared;

	if (!prepared) {
		if (getenv("GDEV_LOG"))
			log_init("libcuda", LOG_LEVEL_WARNING); /* also with calls.c's words */
		pthread_atfork(NULL, NULL, after_fork_in_child);
		prepared = true;
	}
	TRY(devices_init());
	atomic_store_explicit(&is_initialised, true, memory_order_release);
	return CUDA_SUCCESS;
}

CUresult cuInit(unsigned int flags)
{
	CUresult result = CUDA_SUCCESS;

	if (flags)
		return CUDA_ERROR_INVALID_VALUE;
	pthread_mutex_lock(&init_lock);
	if (!atomic_load(&is_initialised))
		result = init_once();
	pthread_mutex_unlock(&init_lock);
	return result;
}

CUresult cuDriverGetVersion(int *version)
{
	if (!version)
		return CUDA_ERROR_INVALID_VALUE;
	*version = DRIVER_VERSION;
	return CUDA_SUCCESS;
}

CUresult not_supported(const char *name)
{
	static _Atomic(const char *) said[256];

	/* Once for each function; the names are literals, so their addresses tell them apart. */
	for (size_t i = 0; i < array_length(said); i++) {
		const char *none = NULL;
		if (atomic_load(&said[i]) == name)
			return CUDA_ERROR_NOT_SUPPORTED;
		if (atomic_compare_exchange_strong(&said[i], &none, name)) {
			logs_say(CU_LOG_LEVEL_ERROR, name,
				"not supported; see docs/cuda-coverage.md");
			break;
		}
	}
	return CUDA_ERROR_NOT_SUPPORTED;
}

/* ---- functions by name ---- */

/* The first entry whose name is not before `name`. */
static size_t lower_bound(const char *name)
{
	size_t low = 0, high = cuda_function_count;

	while (low < high) {
		size_t middle = (low + high) / 2;
		if (strcmp(cuda_functions[middle].name, name) < 0)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

/* The newest variant of `mode` that is not newer than `version`; *named: there are variants. */
static const struct cuda_function *find_variant(
	const char *name, unsigned version, unsigned mode, bool *named)
{
	const struct cuda_function *best = NULL;

	for (size_t i = lower_bound(name); i < cuda_function_count; i++) {
		const struct cuda_function *function = &cuda_functions[i];
		if (strcmp(function->name, name))
			break;
		if (function->mode != mode)
			continue;
		*named = true;
		if (function->version <= version)
			best = function;
	}
	return best;
}

static void set_status(CUdriverProcAddressQueryResult *status, CUdriverProcAddressQueryResult value)
{
	if (status)
		*status = value;
}

CUresult cuGetProcAddress_v2(const char *symbol, void **address, int version, uint64_t flags,
	CUdriverProcAddressQueryResult *status)
{
	const struct cuda_function *found = NULL;
	bool named = false;

	if (!symbol || !address || flags > CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM)
		return CUDA_ERROR_INVALID_VALUE;
	*address = NULL;
	if (version < 0)
		return CUDA_ERROR_INVALID_VALUE;
	if (flags == CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM)
		found = find_variant(symbol, (unsigned)version, (unsigned)flags, &named);
	if (!found)
		found = find_variant(symbol, (unsigned)version, 0, &named);
	if (found) {
		*address = found->address;
		set_status(status, CU_GET_PROC_ADDRESS_SUCCESS);
		return CUDA_SUCCESS;
	}
	set_status(status, named ? CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT
				 : CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND);
	return CUDA_SUCCESS; /* also without a status, as NVIDIA's driver does it */
}

CUresult cuGetProcAddress(const char *symbol, void **address, int version, uint64_t flags)
{
	TRY(cuGetProcAddress_v2(symbol, address, version, flags, NULL));
	return *address ? CUDA_SUCCESS : CUDA_ERROR_NOT_FOUND;
}

/* ---- the profiler, of which there is none to start ---- */

CUresult cuProfilerInitialize(const char *config, const char *output, int mode)
{
	return CUDA_ERROR_NOT_SUPPORTED;
}

CUresult cuProfilerStart(void)
{
	CUcontext context;

	return current_context(&context);
}

CUresult cuProfilerStop(void)
{
	CUcontext context;

	return current_context(&context);
}
