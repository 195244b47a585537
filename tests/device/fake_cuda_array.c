/* SPDX-License-Identifier: MIT
 *
 * The driver library that is made for tests (fake_cuda.c): arrays, textures and surfaces, with the checks of arguments that
 * CUDA's documentation names. Elements lie in an array in no order that anybody else has: the last one comes first. Whatever
 * touches an array with deferred mapping whose memory is not there ends as what touches an illegal address.
 */
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "fake_cuda.h"

#define KNOWN_FLAGS                                                                                \
	(CUDA_ARRAY3D_LAYERED | CUDA_ARRAY3D_SURFACE_LDST | CUDA_ARRAY3D_CUBEMAP |                 \
		CUDA_ARRAY3D_TEXTURE_GATHER | CUDA_ARRAY3D_DEFERRED_MAPPING)
#define LEVELS 32
#define TILE 0x10000
#define OBJECTS 256
#define TEXTURE_ALIGN 512
#define PITCH_ALIGN 32

struct CUarray_st {
	struct CUarray_st *next; /* of all that are there */
	unsigned context, flags, levels;
	size_t width, height, depth, element; /* at least 1 */
	bool whole, integers;                 /* whole: it is no level */
	char *bytes;                          /* NULL: it has no memory */
	size_t taken, needed;                 /* taken: 0 if its memory is mapped, */
	char *mapped;                         /* of which this is all, of a whole array */
};

struct CUmipmappedArray_st {
	struct CUarray_st *levels[LEVELS];
	unsigned count;
	char *mapped;
};

struct fake_mapping {
	CUresourcetype type;
	CUarray array;
	CUmipmappedArray mipmapped;
	char *memory; /* NULL: it loses what it has */
};

/* With fake_lock, as the next. */
static struct CUarray_st *arrays;

static struct object {
	bool there, surface;
	unsigned context;
	CUDA_RESOURCE_DESC resource;
} objects[OBJECTS];

static size_t channel_bytes(CUarray_format format)
{
	switch ((int)format) {
	case CU_AD_FORMAT_UNSIGNED_INT8:
	case CU_AD_FORMAT_SIGNED_INT8:
		return 1;
	case CU_AD_FORMAT_UNSIGNED_INT16:
	case CU_AD_FORMAT_SIGNED_INT16:
	case CU_AD_FORMAT_HALF:
		return 2;
	case CU_AD_FORMAT_UNSIGNED_INT32:
	case CU_AD_FORMAT_SIGNED_INT32:
	case CU_AD_FORMAT_FLOAT:
		return 4;
	default:
		return 0;
	}
}

static bool is_element(CUarray_format format, unsigned channels)
{
	return channel_bytes(format) && (channels == 1 || channels == 2 || channels == 4);
}

static bool is_shape(const CUDA_ARRAY3D_DESCRIPTOR *d)
{
	bool layered = d->Flags & CUDA_ARRAY3D_LAYERED, cube = d->Flags & CUDA_ARRAY3D_CUBEMAP;

	if (d->Flags & CUDA_ARRAY3D_DEFERRED_MAPPING && (!d->Height || cube))
		return false;
	if (!d->Width || d->Flags & ~(unsigned)KNOWN_FLAGS ||
		!is_element(d->Format, d->NumChannels))
		return false;
	if (cube)
		return d->Width == d->Height &&
		       (layered ? d->Depth && !(d->Depth % 6) : d->Depth == 6);
	if (d->Flags & CUDA_ARRAY3D_TEXTURE_GATHER && (!d->Height || (d->Depth && !layered)))
		return false;
	return layered ? d->Depth : !d->Depth || d->Height;
}

static size_t at_least_1(size_t size)
{
	return size ? size : 1;
}

static CUresult make(const CUDA_ARRAY3D_DESCRIPTOR *d, bool whole, struct CUarray_st **made)
{
	struct CUarray_st *array = calloc(1, sizeof *array);
	size_t bytes;

	array->context = fake_context_number();
	array->flags = d->Flags;
	array->whole = whole;
	array->integers = d->Format != CU_AD_FORMAT_HALF && d->Format != CU_AD_FORMAT_FLOAT;
	array->width = d->Width;
	array->height = at_least_1(d->Height);
	array->depth = at_least_1(d->Depth);
	array->element = channel_bytes(d->Format) * d->NumChannels;
	bytes = array->width * array->height * array->depth * array->element;
	array->needed = (bytes + TILE - 1) / TILE * TILE;
	if (!(d->Flags & CUDA_ARRAY3D_DEFERRED_MAPPING)) {
		array->taken = array->needed;
		array->bytes = malloc(bytes); /* of what was there before */
	}
	if (!fake_take_if_there(array->taken)) {
		free(array->bytes);
		free(array);
		return CUDA_ERROR_OUT_OF_MEMORY;
	}
	pthread_mutex_lock(&fake_lock);
	array->next = arrays;
	arrays = array;
	pthread_mutex_unlock(&fake_lock);
	*made = array;
	return CUDA_SUCCESS;
}

/* With fake_lock. */
static struct CUarray_st **link_to(const struct CUarray_st *array)
{
	struct CUarray_st **at = &arrays;

	while (*at && *at != array)
		at = &(*at)->next;
	return at;
}

static bool is_there(const struct CUarray_st *array)
{
	return array && *link_to(array) && array->context == fake_context_number();
}

static CUresult end(struct CUarray_st *array, bool whole)
{
	struct CUarray_st **at;
	bool there;

	pthread_mutex_lock(&fake_lock);
	at = link_to(array);
	there = *at && array->whole == whole;
	if (there)
		*at = array->next;
	pthread_mutex_unlock(&fake_lock);
	if (!there)
		return CUDA_ERROR_INVALID_HANDLE;
	fake_take(-array->taken);
	if (array->mapped)
		munmap(array->mapped, array->needed);
	if (array->taken)
		free(array->bytes);
	free(array);
	return CUDA_SUCCESS;
}

CUresult cuArray3DCreate(CUarray *array, const CUDA_ARRAY3D_DESCRIPTOR *description)
{
	ENTER();
	return is_shape(description) ? make(description, true, array) : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuArrayDestroy(CUarray array)
{
	ENTER();
	return end(array, true);
}

static size_t half(size_t size)
{
	return size > 1 ? size / 2 : size;
}

CUresult cuMipmappedArrayCreate(
	CUmipmappedArray *created, const CUDA_ARRAY3D_DESCRIPTOR *description, unsigned int levels)
{
	CUDA_ARRAY3D_DESCRIPTOR level = *description;
	struct CUmipmappedArray_st *array;
	CUresult result = CUDA_SUCCESS;

	ENTER();
	if (!is_shape(description) || !levels || levels > LEVELS)
		return CUDA_ERROR_INVALID_VALUE;
	array = calloc(1, sizeof *array);
	for (; array->count < levels && !result; array->count++) {
		result = make(&level, false, &array->levels[array->count]);
		level.Width = half(level.Width);
		level.Height = half(level.Height);
		if (!(level.Flags & (CUDA_ARRAY3D_LAYERED | CUDA_ARRAY3D_CUBEMAP)))
			level.Depth = half(level.Depth);
	}
	if (result)
		cuMipmappedArrayDestroy(array);
	else
		array->levels[0]->levels = levels;
	*created = array;
	return result;
}

CUresult cuMipmappedArrayGetLevel(CUarray *level, CUmipmappedArray array, unsigned int number)
{
	ENTER();
	if (number >= array->count)
		return CUDA_ERROR_INVALID_VALUE;
	*level = array->levels[number];
	return CUDA_SUCCESS;
}

static size_t needed_of_levels(const struct CUmipmappedArray_st *array)
{
	size_t bytes = 0;

	for (unsigned l = 0; l < array->count; l++)
		bytes += array->levels[l]->needed;
	return bytes;
}

CUresult cuMipmappedArrayDestroy(CUmipmappedArray array)
{
	ENTER();
	if (array->mapped)
		munmap(array->mapped, needed_of_levels(array));
	for (unsigned l = 0; l < array->count; l++)
		if (array->levels[l])
			end(array->levels[l], false);
	free(array);
	return CUDA_SUCCESS;
}

/* ---- memory that is mapped later ---- */

static CUresult requirements(
	CUDA_ARRAY_MEMORY_REQUIREMENTS *needed, const struct CUarray_st *array, size_t bytes)
{
	if (!array || !(array->flags & CUDA_ARRAY3D_DEFERRED_MAPPING))
		return CUDA_ERROR_INVALID_VALUE;
	*needed = (CUDA_ARRAY_MEMORY_REQUIREMENTS){.size = bytes, .alignment = TILE};
	return CUDA_SUCCESS;
}

CUresult cuArrayGetMemoryRequirements(
	CUDA_ARRAY_MEMORY_REQUIREMENTS *needed, CUarray array, CUdevice device)
{
	ENTER();
	return requirements(needed, array, array->needed);
}

CUresult cuMipmappedArrayGetMemoryRequirements(
	CUDA_ARRAY_MEMORY_REQUIREMENTS *needed, CUmipmappedArray array, CUdevice device)
{
	ENTER();
	return requirements(needed, array->levels[0], needed_of_levels(array));
}

static CUresult check_map(const CUarrayMapInfo *info, size_t *bytes)
{
	const struct CUarray_st *array = info->resource.array;
	bool mipmapped = info->resourceType == CU_RESOURCE_TYPE_MIPMAPPED_ARRAY, good;

	if (mipmapped)
		array = info->resource.mipmap->levels[0];
	else if (info->resourceType != CU_RESOURCE_TYPE_ARRAY)
		return CUDA_ERROR_INVALID_VALUE;
	*bytes = mipmapped ? needed_of_levels(info->resource.mipmap) : array->needed;
	pthread_mutex_lock(&fake_lock);
	good = is_there(array) && array->whole != mipmapped &&
	       array->flags & CUDA_ARRAY3D_DEFERRED_MAPPING;
	pthread_mutex_unlock(&fake_lock);
	good &= info->memHandleType == CU_MEM_HANDLE_TYPE_GENERIC && !(info->offset % TILE) &&
		info->deviceBitMask && !(info->deviceBitMask & (info->deviceBitMask - 1)) &&
		!info->flags;
	if (info->memOperationType == CU_MEM_OPERATION_TYPE_UNMAP)
		good &= !info->memHandle.memHandle;
	else
		good &= info->memOperationType == CU_MEM_OPERATION_TYPE_MAP &&
			info->memHandle.memHandle;
	return good ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuMemMapArrayAsync(CUarrayMapInfo *list, unsigned int count, CUstream stream)
{
	CUresult result = CUDA_SUCCESS;

	ENTER();
	for (unsigned i = 0; i < count && !result; i++) {
		const CUarrayMapInfo *info = &list[i];
		struct fake_mapping *mapping;
		size_t bytes;
		result = check_map(info, &bytes);
		if (result)
			break;
		mapping = malloc(sizeof *mapping);
		*mapping = (struct fake_mapping){.type = info->resourceType,
			.array = info->resource.array,
			.mipmapped = info->resource.mipmap};
		if (info->memHandle.memHandle) {
			mapping->memory =
				fake_tiles(info->memHandle.memHandle, info->offset, bytes);
			result = mapping->memory ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
		}
		if (!result)
			result = fake_map_later(stream, mapping);
		if (result)
			free(mapping);
	}
	return result;
}

static char *change(char **mapped, char *memory, size_t bytes)
{
	if (*mapped)
		munmap(*mapped, bytes);
	return *mapped = memory;
}

void fake_map_now(struct fake_mapping *mapping)
{
	struct CUmipmappedArray_st *all = mapping->mipmapped;
	char *at;

	if (mapping->type == CU_RESOURCE_TYPE_ARRAY) {
		struct CUarray_st *array = mapping->array;
		array->bytes = change(&array->mapped, mapping->memory, array->needed);
	} else {
		at = change(&all->mapped, mapping->memory, needed_of_levels(all));
		for (unsigned l = 0; l < all->count; at += at ? all->levels[l]->needed : 0, l++)
			all->levels[l]->bytes = at;
	}
	free(mapping);
}

/* ---- copies ---- */

bool fake_array_has(CUarray array, size_t x, size_t y, size_t z, const CUDA_MEMCPY3D *copy)
{
	return is_there(array) && !(x % array->element) && !(copy->WidthInBytes % array->element) &&
	       x + copy->WidthInBytes <= array->width * array->element &&
	       y + copy->Height <= array->height && z + copy->Depth <= array->depth;
}

static char *element_at(const struct CUarray_st *array, size_t x, size_t y, size_t z)
{
	size_t index = (z * array->height + y) * array->width + x;

	return array->bytes +
	       (array->width * array->height * array->depth - 1 - index) * array->element;
}

bool fake_array_row(
	CUarray array, size_t x, size_t y, size_t z, char *row, size_t bytes, bool write)
{
	if (!array->bytes)
		return false;
	for (size_t done = 0; done < bytes; done += array->element) {
		char *element = element_at(array, (x + done) / array->element, y, z);
		if (write)
			memcpy(element, row + done, array->element);
		else
			memcpy(row + done, element, array->element);
	}
	return true;
}

/* ---- objects ---- */

static CUresult check_memory(
	CUdeviceptr address, size_t bytes, CUarray_format format, unsigned channels)
{
	return bytes && is_element(format, channels) && !(address % TEXTURE_ALIGN) &&
			       fake_is_of_one_kind(address, bytes)
		       ? CUDA_SUCCESS
		       : CUDA_ERROR_INVALID_VALUE;
}

/* With fake_lock. What is read; NULL for memory. */
static CUresult check_resource(const CUDA_RESOURCE_DESC *resource, const struct CUarray_st **array)
{
	const CUmipmappedArray mipmapped = resource->res.mipmap.hMipmappedArray;

	*array = NULL;
	if (resource->flags)
		return CUDA_ERROR_INVALID_VALUE;
	switch (resource->resType) {
	case CU_RESOURCE_TYPE_ARRAY:
		*array = resource->res.array.hArray;
		return is_there(*array) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
	case CU_RESOURCE_TYPE_MIPMAPPED_ARRAY:
		*array = mipmapped ? mipmapped->levels[0] : NULL;
		return is_there(*array) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
	case CU_RESOURCE_TYPE_LINEAR:
		return check_memory(resource->res.linear.devPtr, resource->res.linear.sizeInBytes,
			resource->res.linear.format, resource->res.linear.numChannels);
	case CU_RESOURCE_TYPE_PITCH2D:
		if (resource->res.pitch2D.pitchInBytes % PITCH_ALIGN)
			return CUDA_ERROR_INVALID_VALUE;
		return check_memory(resource->res.pitch2D.devPtr,
			resource->res.pitch2D.pitchInBytes * resource->res.pitch2D.height,
			resource->res.pitch2D.format, resource->res.pitch2D.numChannels);
	}
	return CUDA_ERROR_INVALID_VALUE;
}

static CUresult check_sampling(const CUDA_RESOURCE_DESC *resource, const struct CUarray_st *array,
	const CUDA_TEXTURE_DESC *sampling, const CUDA_RESOURCE_VIEW_DESC *view)
{
	const unsigned known = CU_TRSF_READ_AS_INTEGER | CU_TRSF_NORMALIZED_COORDINATES |
			       CU_TRSF_SRGB | CU_TRSF_DISABLE_TRILINEAR_OPTIMIZATION |
			       CU_TRSF_SEAMLESS_CUBEMAP;

	for (int d = 0; d < 3; d++)
		if ((unsigned)sampling->addressMode[d] > CU_TR_ADDRESS_MODE_BORDER)
			return CUDA_ERROR_INVALID_VALUE;
	if (sampling->flags & ~known || (unsigned)sampling->filterMode > CU_TR_FILTER_MODE_LINEAR ||
		(unsigned)sampling->mipmapFilterMode > CU_TR_FILTER_MODE_LINEAR)
		return CUDA_ERROR_INVALID_VALUE;
	if (resource->resType == CU_RESOURCE_TYPE_MIPMAPPED_ARRAY &&
		!(sampling->flags & CU_TRSF_NORMALIZED_COORDINATES))
		return CUDA_ERROR_INVALID_VALUE;
	if (array && array->integers && sampling->flags & CU_TRSF_READ_AS_INTEGER &&
		sampling->filterMode == CU_TR_FILTER_MODE_LINEAR)
		return CUDA_ERROR_INVALID_VALUE;
	if (view && (!array || view->width != array->width ||
			    at_least_1(view->height) != array->height ||
			    (view->lastMipmapLevel && view->lastMipmapLevel >= array->levels)))
		return CUDA_ERROR_INVALID_VALUE;
	return CUDA_SUCCESS;
}

/* With fake_lock. */
static CUresult add(const CUDA_RESOURCE_DESC *resource, bool surface, unsigned long long *handle)
{
	for (unsigned i = 0; i < OBJECTS; i++) {
		if (objects[i].there && objects[i].context == fake_context_number())
			continue;
		objects[i] = (struct object){true, surface, fake_context_number(), *resource};
		*handle = i + 1;
		return CUDA_SUCCESS;
	}
	return CUDA_ERROR_OUT_OF_MEMORY;
}

CUresult cuTexObjectCreate(CUtexObject *handle, const CUDA_RESOURCE_DESC *resource,
	const CUDA_TEXTURE_DESC *sampling, const CUDA_RESOURCE_VIEW_DESC *view)
{
	const struct CUarray_st *array;
	CUresult result;

	ENTER();
	usleep(20); /* so that what another thread ends meanwhile is gone */
	pthread_mutex_lock(&fake_lock);
	result = check_resource(resource, &array);
	if (!result)
		result = check_sampling(resource, array, sampling, view);
	if (!result)
		result = add(resource, false, handle);
	pthread_mutex_unlock(&fake_lock);
	return result;
}

CUresult cuSurfObjectCreate(CUsurfObject *handle, const CUDA_RESOURCE_DESC *resource)
{
	const struct CUarray_st *array;
	CUresult result;

	ENTER();
	pthread_mutex_lock(&fake_lock);
	result = check_resource(resource, &array);
	if (!result && (resource->resType != CU_RESOURCE_TYPE_ARRAY ||
			       !(array->flags & CUDA_ARRAY3D_SURFACE_LDST)))
		result = CUDA_ERROR_INVALID_VALUE;
	if (!result)
		result = add(resource, true, handle);
	pthread_mutex_unlock(&fake_lock);
	return result;
}

/* With fake_lock. */
static struct object *find(unsigned long long handle, bool surface)
{
	struct object *object = handle - 1 < OBJECTS ? &objects[handle - 1] : NULL;

	return object && object->there && object->surface == surface &&
			       object->context == fake_context_number()
		       ? object
		       : NULL;
}

static CUresult destroy(unsigned long long handle, bool surface)
{
	struct object *object;

	pthread_mutex_lock(&fake_lock);
	object = find(handle, surface);
	if (object)
		object->there = false;
	pthread_mutex_unlock(&fake_lock);
	return object ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuTexObjectDestroy(CUtexObject handle)
{
	ENTER();
	return destroy(handle, false);
}

CUresult cuSurfObjectDestroy(CUsurfObject handle)
{
	ENTER();
	return destroy(handle, true);
}

char *fake_texel(unsigned long long handle, bool surface, uint32_t x, uint32_t y, size_t *bytes)
{
	const struct object *object = find(handle, surface);
	const CUDA_RESOURCE_DESC *resource = object ? &object->resource : NULL;
	const struct CUarray_st *array = NULL;
	size_t element, wanted;
	uint64_t address;
	char *texel;

	if (!object || check_resource(resource, &array))
		return NULL;
	if (array) {
		*bytes = array->element;
		return array->bytes && x < array->width && y < array->height
			       ? element_at(array, x, y, 0)
			       : NULL;
	}
	if (resource->resType == CU_RESOURCE_TYPE_LINEAR) {
		element = channel_bytes(resource->res.linear.format) *
			  resource->res.linear.numChannels;
		address = resource->res.linear.devPtr + x * element;
	} else {
		element = channel_bytes(resource->res.pitch2D.format) *
			  resource->res.pitch2D.numChannels;
		address = resource->res.pitch2D.devPtr + y * resource->res.pitch2D.pitchInBytes +
			  x * element;
	}
	*bytes = wanted = element;
	texel = fake_bytes_at(address, false, &wanted);
	return wanted == element ? texel : NULL;
}
