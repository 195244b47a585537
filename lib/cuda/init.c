/* SPDX-License-Identifier: MIT
 *
 * cuInit, versions, and finding functions by name.
 */
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "lib/cuda/exports.h"
#include "lib/cuda/internal.h"

atomic_bool is_initialised;

void init_forget(void)
{
	atomic_store(&is_initialised, false);
}

CUresult not_initialised(void)
{
	return fail(CUDA_ERROR_NOT_INITIALIZED,
		"cuInit was not called in this process; a forked child must call it itself");
}

static void begin_log(void)
{
	if (getenv("GDEV_LOG"))
		log_init("libcuda", LOG_LEVEL_WARNING); /* also with calls.c's words */
}

CUresult cuInit(unsigned int flags)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;

	if (flags)
		return fail(CUDA_ERROR_INVALID_VALUE, "flags must be 0");
	if (atomic_load(&is_initialised))
		return CUDA_SUCCESS;
	pthread_once(&once, begin_log);
	TRY(devices_init());
	atomic_store_explicit(&is_initialised, true, memory_order_release);
	return CUDA_SUCCESS;
}

CUresult cuDriverGetVersion(int *version)
{
	if (!version)
		return fail(CUDA_ERROR_INVALID_VALUE, "version is NULL");
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
			break;
		if (atomic_compare_exchange_strong(&said[i], &none, name)) {
			logs_say(CU_LOG_LEVEL_ERROR, name,
				"not supported; see docs/cuda-coverage.md");
			break;
		}
	}
	return fail(
		CUDA_ERROR_NOT_SUPPORTED, "gdev does not have %s; see docs/cuda-coverage.md", name);
}

/* These have no wrappers, as nobody knows their arguments. */
CUresult not_there(const char *symbol)
{
	CUresult result = not_supported(symbol);

	if (calls_logged)
		calls_say(symbol, result, NULL);
	return result;
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
		return fail(CUDA_ERROR_INVALID_VALUE,
			"symbol or address is NULL, or flags %#llx have bits that mean nothing",
			(unsigned long long)flags);
	*address = NULL;
	if (version < 0)
		return fail(CUDA_ERROR_INVALID_VALUE, "the version %d is none", version);
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
	return *address ? CUDA_SUCCESS
			: fail(CUDA_ERROR_NOT_FOUND, "%s is not there in version %d", symbol,
				  version);
}

/* ---- the profiler, of which there is none to start ---- */

CUresult cuProfilerInitialize(const char *config, const char *output, int mode)
{
	return fail(CUDA_ERROR_NOT_SUPPORTED, "the profiler of old has no configuration to read");
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
