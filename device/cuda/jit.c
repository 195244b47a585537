/* SPDX-License-Identifier: MIT
 *
 * PTX to machine code through the driver's linker, kept in the worker's compile cache: one a user,
 * handed out by gdevd, so that no client's code reaches another's.
 */
#include "device/cuda/cuda.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <xxhash.h>

struct jit_log {
	struct device_log *log;
	CUjit_option options[2];
	void *values[2];
	unsigned count;
};

static void cache_key(
	struct device *device, const struct jit_source *source, uint8_t key[CODE_KEY_BYTES])
{
	XXH128_canonical_t canonical;
	XXH3_state_t *state = XXH3_createState();
	int driver_version = 0, length;
	char target[64];

	device->driver->cuDriverGetVersion(&driver_version);
	length = snprintf(
		target, sizeof target, "cuda %d sm_%u", driver_version, device->capability);
	if (!state) {
		memset(key, 0, 16);
		return;
	}
	XXH3_128bits_reset(state);
	XXH3_128bits_update(state, target, (size_t)length);
	XXH3_128bits_update(state, source->ptx, strlen(source->ptx));
	XXH3_128bits_update(state, source->runtime, source->runtime_bytes);
	XXH128_canonicalFromHash(&canonical, XXH3_128bits_digest(state));
	memcpy(key, canonical.digest, 16);
	XXH3_freeState(state);
}

static void log_options(struct device_log *log, struct jit_log *jit)
{
	*jit = (struct jit_log){.log = log};
	if (!log || !log->text || !log->size)
		return;
	log->text[0] = '\0';
	jit->options[0] = CU_JIT_ERROR_LOG_BUFFER;
	jit->values[0] = log->text;
	jit->options[1] = CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES;
	jit->values[1] = (void *)(uintptr_t)log->size;
	jit->count = 2;
}

CUresult jit_link(const struct driver *driver, const struct jit_source *source,
	struct device_log *log, void **code, size_t *bytes)
{
	struct jit_log jit;
	CUlinkState state;
	void *linked;
	CUresult result;

	log_options(log, &jit);
	result = driver->cuLinkCreate(jit.count, jit.options, jit.values, &state);
	if (result)
		return result;
	result = driver->cuLinkAddData(state, CU_JIT_INPUT_PTX, (void *)source->ptx,
		strlen(source->ptx) + 1, "module", 0, NULL, NULL);
	if (!result && source->runtime)
		result = driver->cuLinkAddData(state, CU_JIT_INPUT_CUBIN, (void *)source->runtime,
			source->runtime_bytes, "runtime", 0, NULL, NULL);
	if (!result)
		result = driver->cuLinkComplete(state, &linked, bytes);
	if (!result) {
		*code = malloc(*bytes);
		if (*code)
			memcpy(*code, linked, *bytes);
		else
			result = CUDA_ERROR_OUT_OF_MEMORY;
	}
	driver->cuLinkDestroy(state);
	return result;
}

CUresult jit_load(
	const struct driver *driver, const char *ptx, struct device_log *log, CUmodule *module)
{
	struct jit_log jit;

	log_options(log, &jit);
	return driver->cuModuleLoadDataEx(module, ptx, jit.count, jit.options, jit.values);
}

CUresult jit_compile(struct device *device, const struct jit_source *source, bool cached,
	struct device_log *log, void **code, size_t *bytes)
{
	const struct device_host *host = device->host;
	uint8_t key[CODE_KEY_BYTES];
	CUresult result;

	cache_key(device, source, key);
	if (cached && host->cache_load && !host->cache_load(host->owner, key, code, bytes))
		return CUDA_SUCCESS;
	result = jit_link(device->driver, source, log, code, bytes);
	if (!result && host->cache_store)
		host->cache_store(host->owner, key, *code, *bytes);
	return result;
}
