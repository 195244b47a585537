/* SPDX-License-Identifier: MIT
 *
 * Texture and surface references of modules, as programs had them before there were objects: the driver's own, which newer
 * drivers may have no more. A launch reads by what they are bound to when it goes to the driver.
 */
#include "device/cuda/cuda.h"

#include <errno.h>

#include "gdev/error.h"
#include "proto/control.h"

static CUresult bind_resource(const struct driver *driver, CUtexref reference,
	const CUDA_RESOURCE_DESC *resource, const struct texture_words *words)
{
	CUDA_ARRAY_DESCRIPTOR rows = {.Width = words->width,
		.Height = words->height,
		.Format = resource->res.pitch2D.format,
		.NumChannels = words->channels};
	CUresult result;
	size_t offset;

	switch (words->source) {
	case TEXTURE_OF_ARRAY:
		return driver->cuTexRefSetArray(
			reference, resource->res.array.hArray, CU_TRSA_OVERRIDE_FORMAT);
	case TEXTURE_OF_LEVELS:
		return driver->cuTexRefSetMipmappedArray(
			reference, resource->res.mipmap.hMipmappedArray, CU_TRSA_OVERRIDE_FORMAT);
	case TEXTURE_OF_LINEAR:
		result = driver->cuTexRefSetFormat(
			reference, resource->res.linear.format, (int)words->channels);
		return result ? result
			      : driver->cuTexRefSetAddress(
					&offset, reference, words->address, words->bytes);
	default:
		return driver->cuTexRefSetAddress2D(reference, &rows, words->address, words->pitch);
	}
}

static CUresult set_levels(
	const struct driver *driver, CUtexref reference, const struct texture_words *words)
{
	CUresult result =
		driver->cuTexRefSetMipmapFilterMode(reference, (CUfilter_mode)words->level_filter);

	if (!result)
		result = driver->cuTexRefSetMipmapLevelBias(reference, words->bias);
	if (!result)
		result = driver->cuTexRefSetMipmapLevelClamp(
			reference, words->level_min, words->level_max);
	if (!result)
		result = driver->cuTexRefSetMaxAnisotropy(reference, words->anisotropy);
	return result;
}

static CUresult set_sampling(
	const struct driver *driver, CUtexref reference, const struct texture_words *words)
{
	CUresult result = driver->cuTexRefSetFlags(reference, words->flags);
	bool border = false;

	for (int d = 0; d < 3 && !result; d++) {
		border |= words->address_mode[d] == CU_TR_ADDRESS_MODE_BORDER;
		result = driver->cuTexRefSetAddressMode(
			reference, d, (CUaddress_mode)words->address_mode[d]);
	}
	if (!result)
		result = driver->cuTexRefSetFilterMode(reference, (CUfilter_mode)words->filter);
	if (!result && border)
		result = driver->cuTexRefSetBorderColor(reference, (float *)words->border);
	if (!result && words->source == TEXTURE_OF_LEVELS)
		result = set_levels(driver, reference, words);
	return result;
}

/* With space->making. */
static int set_texture(struct device_module *module, const char *name,
	const struct texture_words *words, bool bind)
{
	const struct driver *driver = device_enter(module->space->device);
	CUDA_RESOURCE_DESC resource = {0};
	CUtexref reference;
	CUresult result = driver->cuModuleGetTexRef(&reference, module->handle, name);
	int error = 0;

	if (!result && bind)
		error = texture_resource(module->space, words, &resource);
	if (!result && bind && !error)
		result = bind_resource(driver, reference, &resource, words);
	if (!result && bind && !error)
		result = set_sampling(driver, reference, words);
	return error ? error : driver_error(result);
}

/* With space->making. */
static int set_surface(struct device_module *module, const char *name,
	const struct texture_words *words, bool bind)
{
	const struct driver *driver = device_enter(module->space->device);
	CUDA_RESOURCE_DESC resource = {0};
	CUsurfref reference;
	CUresult result = driver->cuModuleGetSurfRef(&reference, module->handle, name);
	int error = 0;

	if (!result && bind)
		error = words->source == TEXTURE_OF_ARRAY
				? texture_resource(module->space, words, &resource)
				: -EINVAL;
	if (!result && bind && !error)
		result = driver->cuSurfRefSetArray(reference, resource.res.array.hArray, 0);
	return error ? error : driver_error(result);
}

int cuda_reference_set(struct device_module *module, const char *name,
	const struct texture_words *words, bool bind)
{
	struct device_space *space = module->space;
	int error;

	if (!space->device->driver->has_references)
		return -ENOTSUP;
	pthread_mutex_lock(&space->making);
	error = (words->surface ? set_surface : set_texture)(module, name, words, bind);
	pthread_mutex_unlock(&space->making);
	if (error || !bind)
		return error;
	pthread_mutex_lock(&space->lock);
	module->keeper = KEPT_BY_TEXTURES; /* bound in this context */
	pthread_mutex_unlock(&space->lock);
	__atomic_store_n(&module->bound, true, __ATOMIC_RELAXED);
	return 0;
}
