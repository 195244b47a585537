/* SPDX-License-Identifier: MIT
 *
 * Texture and surface objects: a structure in device memory that says what to read and how (proto/texture.h). Its address
 * is the object's number, so a kernel finds it without anybody's help. Where the device makes them, what is to be made is
 * checked in the same way (texture_made.c has the rest).
 */
#include <stdlib.h>
#include <string.h>

#include "lib/cuda/array.h"
#include "lib/cuda/exports.h"

#define FLAGS                                                                                      \
	(CU_TRSF_READ_AS_INTEGER | CU_TRSF_NORMALIZED_COORDINATES | CU_TRSF_SRGB |                 \
		CU_TRSF_DISABLE_TRILINEAR_OPTIMIZATION | CU_TRSF_SEAMLESS_CUBEMAP)

/* ---- what is read ---- */

/* Where memory is that the program names: its address is known in this context, and aligned as textures must be. */
static CUresult check_memory(CUcontext context, CUdeviceptr memory)
{
	struct allocation allocation;
	struct gdev_range range;
	int align;

	TRY(device_attribute(context->device, CU_DEVICE_ATTRIBUTE_TEXTURE_ALIGNMENT, &align));
	if (!memory || !memory_find(memory, &range, &allocation))
		return fail(CUDA_ERROR_INVALID_VALUE, "%#llx is in no memory of this context",
			(unsigned long long)memory);
	if (memory % (unsigned)align)
		return fail(CUDA_ERROR_INVALID_VALUE,
			"the address %#llx is no multiple of %d, the device's alignment of textures",
			(unsigned long long)memory, align);
	return CUDA_SUCCESS;
}

static CUresult check_limit(
	CUcontext context, CUdevice_attribute attribute, size_t size, const char *what)
{
	int limit;

	TRY(device_attribute(context->device, attribute, &limit));
	if (!size || size > (size_t)limit)
		return fail(CUDA_ERROR_INVALID_VALUE, "a %s of %zu: the device has 1 to %d", what,
			size, limit);
	return CUDA_SUCCESS;
}

static CUresult from_linear(
	CUcontext context, struct texture *plain, const CUDA_RESOURCE_DESC *resource)
{
	size_t bytes = resource->res.linear.sizeInBytes;

	TRY(check_memory(context, resource->res.linear.devPtr));
	TRY(array_format(plain, resource->res.linear.format, resource->res.linear.numChannels));
	TRY(check_limit(context, CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE1D_LINEAR_WIDTH,
		bytes / texture_element_bytes(plain), "width"));
	plain->address = resource->res.linear.devPtr;
	plain->width = (uint32_t)(bytes / texture_element_bytes(plain));
	plain->height = plain->depth = 1;
	return CUDA_SUCCESS;
}

static CUresult from_rows(
	CUcontext context, struct texture *plain, const CUDA_RESOURCE_DESC *resource)
{
	size_t width = resource->res.pitch2D.width, height = resource->res.pitch2D.height;
	size_t pitch = resource->res.pitch2D.pitchInBytes;
	int align;

	TRY(check_memory(context, resource->res.pitch2D.devPtr));
	TRY(array_format(plain, resource->res.pitch2D.format, resource->res.pitch2D.numChannels));
	TRY(check_limit(
		context, CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE2D_LINEAR_WIDTH, width, "width"));
	TRY(check_limit(
		context, CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE2D_LINEAR_HEIGHT, height, "height"));
	TRY(check_limit(
		context, CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE2D_LINEAR_PITCH, pitch, "pitch"));
	TRY(device_attribute(context->device, CU_DEVICE_ATTRIBUTE_TEXTURE_PITCH_ALIGNMENT, &align));
	if (pitch % (unsigned)align || pitch < width * texture_element_bytes(plain))
		return fail(CUDA_ERROR_INVALID_VALUE,
			"a pitch of %zu bytes is no multiple of %d, or less than a row", pitch,
			align);
	plain->address = resource->res.pitch2D.devPtr;
	plain->width = (uint32_t)width;
	plain->height = (uint32_t)height;
	plain->depth = 1;
	plain->pitch = pitch;
	plain->slice = pitch * height;
	return CUDA_SUCCESS;
}

static CUresult from_resource(
	CUcontext context, struct texture *plain, const CUDA_RESOURCE_DESC *resource)
{
	*plain = (struct texture){.magic = TEXTURE_MAGIC, .levels = 1};
	if (!resource || resource->flags)
		return fail(CUDA_ERROR_INVALID_VALUE,
			"the description of the resource is NULL, or its flags are not 0");
	switch (resource->resType) {
	case CU_RESOURCE_TYPE_ARRAY:
		TRY(array_check(resource->res.array.hArray));
		*plain = resource->res.array.hArray->plain;
		return CUDA_SUCCESS;
	case CU_RESOURCE_TYPE_MIPMAPPED_ARRAY:
		TRY(mipmapped_check(resource->res.mipmap.hMipmappedArray));
		*plain = resource->res.mipmap.hMipmappedArray->plain;
		return CUDA_SUCCESS;
	case CU_RESOURCE_TYPE_LINEAR:
		return from_linear(context, plain, resource);
	case CU_RESOURCE_TYPE_PITCH2D:
		return from_rows(context, plain, resource);
	}
	return fail(CUDA_ERROR_INVALID_VALUE, "%d is no type of resources", (int)resource->resType);
}

/* ---- a part of it, or its elements as others ---- */

/* Formats of views follow each other: three numbers of channels, then the next type. */
static CUresult view_format(struct texture *plain, CUresourceViewFormat format)
{
	static const uint8_t formats[] = {TEXTURE_U8, TEXTURE_S8, TEXTURE_U16, TEXTURE_S16,
		TEXTURE_U32, TEXTURE_S32, TEXTURE_F16, TEXTURE_F32};
	unsigned bytes = texture_element_bytes(plain), number = (unsigned)format - 1;

	if (format == CU_RES_VIEW_FORMAT_NONE)
		return CUDA_SUCCESS;
	if (format >= CU_RES_VIEW_FORMAT_UNSIGNED_BC1 && format <= CU_RES_VIEW_FORMAT_UNSIGNED_BC7)
		return fail(CUDA_ERROR_NOT_SUPPORTED, "compressed elements are not there");
	if (number / 3 >= array_length(formats))
		return fail(CUDA_ERROR_INVALID_VALUE, "%d is no format of a view", (int)format);
	plain->format = formats[number / 3];
	plain->channels = (uint8_t)(1u << number % 3);
	if (texture_element_bytes(plain) != bytes)
		return fail(CUDA_ERROR_INVALID_VALUE, "elements of %u bytes are seen as ones of %u",
			bytes, texture_element_bytes(plain));
	return CUDA_SUCCESS;
}

static CUresult view_part(struct texture *plain, const CUDA_RESOURCE_VIEW_DESC *view)
{
	uint32_t levels = view->lastMipmapLevel - view->firstMipmapLevel + 1;
	uint32_t layers = view->lastLayer - view->firstLayer + 1;
	bool some = view->firstLayer || view->lastLayer;

	if (view->firstMipmapLevel > view->lastMipmapLevel ||
		view->lastMipmapLevel >= plain->levels || view->firstLayer > view->lastLayer ||
		(some && (!(plain->flags & TEXTURE_LAYERED) || view->lastLayer >= plain->depth)))
		return fail(CUDA_ERROR_INVALID_VALUE,
			"levels %u to %u and layers %u to %u are not those of the resource",
			view->firstMipmapLevel, view->lastMipmapLevel, view->firstLayer,
			view->lastLayer);
	if (some && layers != plain->depth && plain->levels > 1)
		return fail(CUDA_ERROR_NOT_SUPPORTED,
			"a view of some layers of an array with levels is not there");
	if (view->width != plain->width || (view->height ? view->height : 1) != plain->height)
		return fail(CUDA_ERROR_INVALID_VALUE,
			"the view is of %zu x %zu elements, and its resource of %u x %u",
			view->width, view->height, plain->width, plain->height);
	/* Also if it is of some layers: firstLayer and lastLayer say which. */
	if (view->depth != plain->depth && (view->depth || plain->depth > 1))
		return fail(CUDA_ERROR_INVALID_VALUE,
			"the view has a depth of %zu, and its resource of %u", view->depth,
			plain->depth);
	texture_level(plain, view->firstMipmapLevel);
	plain->levels = levels;
	if (some) {
		plain->address += view->firstLayer * plain->slice;
		plain->depth = layers;
	}
	return CUDA_SUCCESS;
}

/* ---- how it is read ---- */

static bool integers(const struct texture *plain)
{
	return plain->format == TEXTURE_U32 || plain->format == TEXTURE_S32 ||
	       (plain->flags & TEXTURE_INTEGER && plain->format < TEXTURE_F16);
}

static CUresult check_sampling(const struct texture *plain, const CUDA_RESOURCE_DESC *resource,
	const CUDA_TEXTURE_DESC *sampling)
{
	if (sampling->flags & ~(unsigned)FLAGS)
		return fail(CUDA_ERROR_INVALID_VALUE, "flags %#x have bits that mean nothing",
			sampling->flags);
	for (int d = 0; d < 3; d++)
		if ((unsigned)sampling->addressMode[d] > CU_TR_ADDRESS_MODE_BORDER)
			return fail(CUDA_ERROR_INVALID_VALUE, "%d is no mode of addresses",
				(int)sampling->addressMode[d]);
	if ((unsigned)sampling->filterMode > CU_TR_FILTER_MODE_LINEAR ||
		(unsigned)sampling->mipmapFilterMode > CU_TR_FILTER_MODE_LINEAR)
		return fail(CUDA_ERROR_INVALID_VALUE, "a mode of filtering is none");
	if (resource->resType == CU_RESOURCE_TYPE_MIPMAPPED_ARRAY &&
		!(sampling->flags & CU_TRSF_NORMALIZED_COORDINATES))
		return fail(CUDA_ERROR_INVALID_VALUE,
			"positions in a mipmapped array must be normalised");
	if (sampling->flags & CU_TRSF_SEAMLESS_CUBEMAP &&
		(!(plain->flags & TEXTURE_LAYERED) || plain->depth % 6))
		return fail(CUDA_ERROR_INVALID_VALUE, "only cubes can be filtered across edges");
	return CUDA_SUCCESS;
}

static uint8_t address_mode(
	const CUDA_RESOURCE_DESC *resource, const CUDA_TEXTURE_DESC *sampling, unsigned dimension)
{
	CUaddress_mode mode = sampling->addressMode[dimension];

	if (resource->resType == CU_RESOURCE_TYPE_LINEAR)
		return TEXTURE_BORDER; /* of zeros */
	/* As CUDA says of positions that are not normalised. */
	if (!(sampling->flags & CU_TRSF_NORMALIZED_COORDINATES) &&
		mode != CU_TR_ADDRESS_MODE_BORDER)
		return TEXTURE_CLAMP;
	return (uint8_t)mode;
}

static CUresult set_sampling(struct texture *plain, const CUDA_RESOURCE_DESC *resource,
	const CUDA_TEXTURE_DESC *sampling)
{
	static const struct {
		unsigned cuda;
		uint8_t plain;
	} flags[] = {{CU_TRSF_READ_AS_INTEGER, TEXTURE_INTEGER},
		{CU_TRSF_NORMALIZED_COORDINATES, TEXTURE_NORMALISED}, {CU_TRSF_SRGB, TEXTURE_SRGB},
		{CU_TRSF_SEAMLESS_CUBEMAP, TEXTURE_SEAMLESS}};
	bool linear = resource->resType == CU_RESOURCE_TYPE_LINEAR, border = false;

	TRY(check_sampling(plain, resource, sampling));
	for (size_t i = 0; i < array_length(flags); i++)
		if (sampling->flags & flags[i].cuda)
			plain->flags |= flags[i].plain;
	for (unsigned d = 0; d < 3; d++) {
		plain->address_mode[d] = address_mode(resource, sampling, d);
		border |= plain->address_mode[d] == TEXTURE_BORDER && !linear;
	}
	plain->filter = !linear && sampling->filterMode == CU_TR_FILTER_MODE_LINEAR;
	plain->level_filter = sampling->mipmapFilterMode == CU_TR_FILTER_MODE_LINEAR;
	plain->bias = sampling->mipmapLevelBias;
	plain->level_min = sampling->minMipmapLevelClamp;
	plain->level_max = sampling->maxMipmapLevelClamp;
	if (integers(plain) && plain->filter)
		return fail(CUDA_ERROR_INVALID_VALUE,
			"elements that are read as integers cannot be filtered");
	for (unsigned k = 0; k < 4 && !linear; k++) {
		plain->border[k] = sampling->borderColor[k];
		if (border && integers(plain) && sampling->borderColor[k] != 0)
			return fail(CUDA_ERROR_NOT_SUPPORTED,
				"a border that is not 0, of elements that are read as integers");
	}
	return CUDA_SUCCESS;
}

CUresult texture_describe(struct texture *plain, const CUDA_RESOURCE_DESC *resource,
	const CUDA_TEXTURE_DESC *sampling, const CUDA_RESOURCE_VIEW_DESC *view)
{
	CUcontext context;

	TRY(current_context(&context));
	TRY(from_resource(context, plain, resource));
	if (!sampling)
		return fail(CUDA_ERROR_INVALID_VALUE, "the description of the texture is NULL");
	if (view && resource->resType != CU_RESOURCE_TYPE_ARRAY &&
		resource->resType != CU_RESOURCE_TYPE_MIPMAPPED_ARRAY)
		return fail(CUDA_ERROR_INVALID_VALUE, "only arrays have views");
	if (view) {
		TRY(view_format(plain, view->format));
		TRY(view_part(plain, view));
	}
	plain->kind = TEXTURE_SAMPLED;
	return set_sampling(plain, resource, sampling);
}

CUresult surface_describe(struct texture *plain, const CUDA_RESOURCE_DESC *resource)
{
	CUcontext context;

	TRY(current_context(&context));
	if (!resource || resource->resType != CU_RESOURCE_TYPE_ARRAY)
		return fail(CUDA_ERROR_INVALID_VALUE, "a surface is of an array");
	TRY(from_resource(context, plain, resource));
	if (!(resource->res.array.hArray->description.Flags & CUDA_ARRAY3D_SURFACE_LDST))
		return fail(CUDA_ERROR_INVALID_VALUE,
			"the array was made without CUDA_ARRAY3D_SURFACE_LDST");
	plain->kind = TEXTURE_SURFACE;
	return CUDA_SUCCESS;
}

/* ---- objects ---- */

CUresult texture_write(CUcontext context, uint64_t address, const struct texture *plain)
{
	struct gdev_copy copy = gdev_copy_linear(address, (uintptr_t)plain, sizeof *plain);
	CUresult result = CUDA_SUCCESS;

	copy.destination_side = GDEV_SIDE_DEVICE;
	copy.source_side = GDEV_SIDE_HOST;
	pthread_mutex_lock(&context->lock);
	if (!context->writer) /* of its own: it waits for nothing, and nothing is recorded there */
		result = result_of(gdev_stream_create(context->session, 0, &context->writer),
			"a stream for textures cannot be made");
	if (result == CUDA_SUCCESS)
		result = result_of(gdev_copy(context->writer, &copy),
			"the texture's structure cannot be written");
	pthread_mutex_unlock(&context->lock);
	return result;
}

static CUresult create(CUcontext context, const struct texture *plain,
	const struct texture_object *wanted, unsigned long long *number)
{
	struct texture_object *object = malloc(sizeof *object);
	uint64_t address;
	CUresult result;

	if (!object)
		return no_memory();
	*object = *wanted;
	result = result_of(gdev_memory_alloc(context->session, sizeof *plain, &address),
		"device memory for a texture or surface object cannot be had");
	if (result == CUDA_SUCCESS)
		result = memory_remember_object(
			context, address, sizeof *plain, ALLOCATION_TEXTURE, object);
	if (result != CUDA_SUCCESS) {
		free(object);
		return result;
	}
	result = texture_write(context, address, plain);
	if (result != CUDA_SUCCESS)
		memory_free_object(address);
	else
		*number = address;
	return result;
}

static CUresult find(unsigned long long number, bool surface, struct texture_object *object)
{
	struct allocation allocation;

	TRY(initialised());
	if (texture_find_made(number, surface, object))
		return CUDA_SUCCESS;
	if (!memory_find_base(number, &allocation) || allocation.kind != ALLOCATION_TEXTURE ||
		((struct texture_object *)allocation.object)->surface != surface)
		return fail(CUDA_ERROR_INVALID_VALUE, "%#llx is no %s object that is there", number,
			surface ? "surface" : "texture");
	*object = *(struct texture_object *)allocation.object;
	return CUDA_SUCCESS;
}

static CUresult destroy(unsigned long long number, bool surface)
{
	struct texture_object object;

	TRY(find(number, surface, &object));
	return object.made ? texture_unmake(number, surface) : memory_free_object(number);
}

CUresult cuTexObjectCreate(CUtexObject *created, const CUDA_RESOURCE_DESC *resource,
	const CUDA_TEXTURE_DESC *sampling, const CUDA_RESOURCE_VIEW_DESC *view)
{
	struct texture_object object = {.has_view = view};
	struct texture plain;
	CUcontext context;
	bool made;

	TRY(current_context(&context));
	TRY(textures_check(context, &made));
	if (!created)
		return fail(CUDA_ERROR_INVALID_VALUE, "the pointer for the object is NULL");
	TRY(texture_describe(&plain, resource, sampling, view));
	object.resource = *resource;
	object.sampling = *sampling;
	if (view)
		object.view = *view;
	return made ? texture_make(context, &plain, &object, created)
		    : create(context, &plain, &object, created);
}

CUresult cuTexObjectDestroy(CUtexObject texture)
{
	return destroy(texture, false);
}

CUresult cuTexObjectGetResourceDesc(CUDA_RESOURCE_DESC *resource, CUtexObject texture)
{
	struct texture_object object;

	TRY(find(texture, false, &object));
	if (!resource)
		return fail(CUDA_ERROR_INVALID_VALUE, "the pointer for the description is NULL");
	*resource = object.resource;
	return CUDA_SUCCESS;
}

CUresult cuTexObjectGetTextureDesc(CUDA_TEXTURE_DESC *sampling, CUtexObject texture)
{
	struct texture_object object;

	TRY(find(texture, false, &object));
	if (!sampling)
		return fail(CUDA_ERROR_INVALID_VALUE, "the pointer for the description is NULL");
	*sampling = object.sampling;
	return CUDA_SUCCESS;
}

CUresult cuTexObjectGetResourceViewDesc(CUDA_RESOURCE_VIEW_DESC *view, CUtexObject texture)
{
	struct texture_object object;

	TRY(find(texture, false, &object));
	if (!view || !object.has_view)
		return fail(CUDA_ERROR_INVALID_VALUE,
			"the pointer for the description is NULL, or the object was made without a view");
	*view = object.view;
	return CUDA_SUCCESS;
}

CUresult cuSurfObjectCreate(CUsurfObject *created, const CUDA_RESOURCE_DESC *resource)
{
	struct texture_object object = {.surface = true};
	struct texture plain;
	CUcontext context;
	bool made;

	TRY(current_context(&context));
	TRY(textures_check(context, &made));
	if (!created)
		return fail(CUDA_ERROR_INVALID_VALUE, "the pointer for the object is NULL");
	TRY(surface_describe(&plain, resource));
	object.resource = *resource;
	return made ? texture_make(context, &plain, &object, created)
		    : create(context, &plain, &object, created);
}

CUresult cuSurfObjectDestroy(CUsurfObject surface)
{
	return destroy(surface, true);
}

CUresult cuSurfObjectGetResourceDesc(CUDA_RESOURCE_DESC *resource, CUsurfObject surface)
{
	struct texture_object object;

	TRY(find(surface, true, &object));
	if (!resource)
		return fail(CUDA_ERROR_INVALID_VALUE, "the pointer for the description is NULL");
	*resource = object.resource;
	return CUDA_SUCCESS;
}
