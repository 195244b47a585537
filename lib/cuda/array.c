/* SPDX-License-Identifier: MIT
 *
 * Arrays: plain device memory, row by row, with a description of what is in it. So they are copied, captured, swapped and
 * freed as other memory is, and a kernel finds an element by its coordinates. The levels of a mipmapped array are arrays
 * that follow each other in one allocation.
 *
 * A device may make arrays by itself. They have addresses, too, in the same order, but only for copies, and stay on the
 * device (docs/textures.md).
 */
#include "lib/cuda/array.h"
#include "lib/cuda/exports.h"

#define FLAGS_HERE                                                                                 \
	(CUDA_ARRAY3D_LAYERED | CUDA_ARRAY3D_SURFACE_LDST | CUDA_ARRAY3D_CUBEMAP |                 \
		CUDA_ARRAY3D_TEXTURE_GATHER)
#define FLAGS_KNOWN 0x1ffu

CUresult textures_check(CUcontext context, bool *made)
{
	int32_t layout = 0, makes = 0;

	*made = !gdev_session_property(context->session, PROPERTY_DRIVER_TEXTURES, &makes) &&
		makes == 1;
	if (*made || (!gdev_session_property(context->session, PROPERTY_PLAIN_TEXTURES, &layout) &&
			     (uint32_t)layout == TEXTURE_MAGIC))
		return CUDA_SUCCESS;
	return fail(CUDA_ERROR_NOT_SUPPORTED,
		"arrays and textures are not there on this device (docs/textures.md)");
}

CUresult array_check(CUarray array)
{
	if (!handle_is(HANDLE_ARRAY, array))
		return fail(
			CUDA_ERROR_INVALID_HANDLE, "%p is no array that is there", (void *)array);
	return CUDA_SUCCESS;
}

CUresult mipmapped_check(CUmipmappedArray array)
{
	if (!handle_is(HANDLE_LEVELS, array))
		return fail(CUDA_ERROR_INVALID_HANDLE, "%p is no mipmapped array that is there",
			(void *)array);
	return CUDA_SUCCESS;
}

/* ---- what a description means ---- */

CUresult array_format(struct texture *plain, CUarray_format format, unsigned channels)
{
	static const struct {
		CUarray_format cuda;
		uint8_t plain;
	} formats[] = {
		{CU_AD_FORMAT_UNSIGNED_INT8, TEXTURE_U8},
		{CU_AD_FORMAT_UNSIGNED_INT16, TEXTURE_U16},
		{CU_AD_FORMAT_UNSIGNED_INT32, TEXTURE_U32},
		{CU_AD_FORMAT_SIGNED_INT8, TEXTURE_S8},
		{CU_AD_FORMAT_SIGNED_INT16, TEXTURE_S16},
		{CU_AD_FORMAT_SIGNED_INT32, TEXTURE_S32},
		{CU_AD_FORMAT_HALF, TEXTURE_F16},
		{CU_AD_FORMAT_FLOAT, TEXTURE_F32},
	};

	for (size_t i = 0; i < array_length(formats); i++)
		if (formats[i].cuda == format) {
			if (channels != 1 && channels != 2 && channels != 4)
				return fail(CUDA_ERROR_INVALID_VALUE,
					"elements of %u channels: there are those of 1, 2 and 4",
					channels);
			plain->format = formats[i].plain;
			plain->channels = (uint8_t)channels;
			return CUDA_SUCCESS;
		}
	if (format >= CU_AD_FORMAT_UNORM_INT_101010_2 && format <= CU_AD_FORMAT_SNORM_INT16X4)
		return fail(CUDA_ERROR_NOT_SUPPORTED,
			"elements of format %#x: integers, halves and floats are there",
			(unsigned)format);
	return fail(CUDA_ERROR_INVALID_VALUE, "%#x is no format of elements", (unsigned)format);
}

/* The attributes of the device that say how large arrays of a kind may be; 0: not limited by one. */
struct limits {
	CUdevice_attribute width, height, depth;
};

static struct limits limits_of(const CUDA_ARRAY3D_DESCRIPTOR *d)
{
	bool layered = d->Flags & CUDA_ARRAY3D_LAYERED;

	if (d->Flags & CUDA_ARRAY3D_CUBEMAP)
		return layered ? (struct limits){CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURECUBEMAP_LAYERED_WIDTH,
					 0,
					 CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURECUBEMAP_LAYERED_LAYERS}
			       : (struct limits){
					 CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURECUBEMAP_WIDTH, 0, 0};
	if (layered && !d->Height)
		return (struct limits){CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE1D_LAYERED_WIDTH, 0,
			CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE1D_LAYERED_LAYERS};
	if (layered)
		return (struct limits){CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE2D_LAYERED_WIDTH,
			CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE2D_LAYERED_HEIGHT,
			CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE2D_LAYERED_LAYERS};
	if (d->Depth)
		return (struct limits){CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE3D_WIDTH,
			CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE3D_HEIGHT,
			CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE3D_DEPTH};
	if (d->Flags & CUDA_ARRAY3D_TEXTURE_GATHER)
		return (struct limits){CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE2D_GATHER_WIDTH,
			CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE2D_GATHER_HEIGHT, 0};
	if (d->Height)
		return (struct limits){CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE2D_WIDTH,
			CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE2D_HEIGHT, 0};
	return (struct limits){CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE1D_WIDTH, 0, 0};
}

static CUresult check_size(CUdevice device, CUdevice_attribute attribute, size_t size)
{
	int limit;

	if (!attribute)
		return CUDA_SUCCESS;
	TRY(device_attribute(device, attribute, &limit));
	if (size > (size_t)limit)
		return fail(CUDA_ERROR_INVALID_VALUE,
			"a size of %zu is more than the %d of the device's attribute %d", size,
			limit, (int)attribute);
	return CUDA_SUCCESS;
}

static CUresult check_shape(CUcontext context, const CUDA_ARRAY3D_DESCRIPTOR *d)
{
	struct limits limits = limits_of(d);
	bool layered = d->Flags & CUDA_ARRAY3D_LAYERED, cube = d->Flags & CUDA_ARRAY3D_CUBEMAP;

	if (d->Flags & ~FLAGS_KNOWN)
		return fail(CUDA_ERROR_INVALID_VALUE, "flags %#x have bits that mean nothing",
			d->Flags);
	if (d->Flags & ~(unsigned)FLAGS_HERE)
		return fail(CUDA_ERROR_NOT_SUPPORTED,
			"flags %#x: sparse, deferred, depth, graphics and video arrays are not there",
			d->Flags);
	if (!d->Width || (layered && !d->Depth) || (!layered && d->Depth && !d->Height))
		return fail(CUDA_ERROR_INVALID_VALUE,
			"an array of %zu x %zu x %zu elements with flags %#x", d->Width, d->Height,
			d->Depth, d->Flags);
	if (cube && (d->Width != d->Height || d->Depth % 6 || (!layered && d->Depth != 6)))
		return fail(CUDA_ERROR_INVALID_VALUE,
			"%zu x %zu x %zu elements: a cube has six square faces", d->Width,
			d->Height, d->Depth);
	if (d->Flags & CUDA_ARRAY3D_TEXTURE_GATHER && (!d->Height || (d->Depth && !layered)))
		return fail(CUDA_ERROR_INVALID_VALUE,
			"elements are gathered from arrays of two dimensions");
	TRY(check_size(context->device, limits.width, d->Width));
	TRY(check_size(context->device, limits.height, d->Height));
	return check_size(context->device, limits.depth, d->Depth);
}

/* What the description describes, and where its elements are once it has an address. levels 0: it is not mipmapped. */
static CUresult plan(CUcontext context, const CUDA_ARRAY3D_DESCRIPTOR *d, unsigned levels,
	struct array_shape *shape, struct texture *plain)
{
	uint64_t bytes;

	TRY(array_format(plain, d->Format, d->NumChannels));
	TRY(check_shape(context, d));
	*shape = (struct array_shape){.width = (uint32_t)d->Width,
		.height = (uint32_t)d->Height,
		.depth = (uint32_t)d->Depth,
		.levels = levels,
		.format = plain->format,
		.channels = d->NumChannels,
		.flags = d->Flags};
	if (d->Width > ARRAY_EDGE_MAX || d->Height > ARRAY_EDGE_MAX || d->Depth > ARRAY_EDGE_MAX ||
		!array_layout(shape, 0, plain, &bytes))
		return fail(CUDA_ERROR_INVALID_VALUE,
			"an array of %zu x %zu x %zu elements is larger than any", d->Width,
			d->Height, d->Depth);
	return CUDA_SUCCESS;
}

/* ---- arrays ---- */

/* Gives an array that has been planned its memory and address. */
static CUresult allocate(CUcontext context, const struct array_shape *shape, struct texture *plain,
	void *owner, enum allocation_kind kind)
{
	uint64_t bytes = 0, address;
	CUresult result;
	bool made;

	TRY(textures_check(context, &made));
	array_layout(shape, 0, plain, &bytes);
	TRY_GDEV(made ? gdev_array_create(context->session, shape, &address)
		      : gdev_memory_alloc(context->session, bytes, &address),
		"an array of %llu bytes cannot be had", (unsigned long long)bytes);
	result = memory_remember_object(context, address, bytes, kind, owner);
	if (result != CUDA_SUCCESS)
		gdev_memory_free(context->session, address);
	else
		plain->address = address;
	return result;
}

static CUresult create(const CUDA_ARRAY3D_DESCRIPTOR *description, CUarray *created)
{
	struct array_shape shape;
	struct texture plain;
	CUcontext context;
	CUarray array;
	CUresult result;
	bool made;

	TRY(current_context(&context));
	TRY(textures_check(context, &made));
	if (!created || !description)
		return fail(CUDA_ERROR_INVALID_VALUE,
			"the pointer for the array, or its description, is NULL");
	TRY(plan(context, description, 0, &shape, &plain));
	array = handle_create(HANDLE_ARRAY, sizeof *array);
	if (!array)
		return no_memory();
	array->description = *description;
	result = allocate(context, &shape, &array->plain, array, ALLOCATION_ARRAY);
	if (result != CUDA_SUCCESS) {
		handle_destroy(HANDLE_ARRAY, array);
		return result;
	}
	*created = array;
	return CUDA_SUCCESS;
}

CUresult cuArray3DCreate_v2(CUarray *created, const CUDA_ARRAY3D_DESCRIPTOR *description)
{
	return create(description, created);
}

CUresult cuArrayCreate_v2(CUarray *created, const CUDA_ARRAY_DESCRIPTOR *description)
{
	CUDA_ARRAY3D_DESCRIPTOR flat;

	if (!description)
		return create(NULL, created);
	flat = (CUDA_ARRAY3D_DESCRIPTOR){.Width = description->Width,
		.Height = description->Height,
		.Format = description->Format,
		.NumChannels = description->NumChannels};
	return create(&flat, created);
}

CUresult cuArray3DGetDescriptor_v2(CUDA_ARRAY3D_DESCRIPTOR *description, CUarray array)
{
	TRY(initialised());
	TRY(array_check(array));
	if (!description)
		return fail(CUDA_ERROR_INVALID_VALUE, "the pointer for the description is NULL");
	*description = array->description;
	return CUDA_SUCCESS;
}

CUresult cuArrayGetDescriptor_v2(CUDA_ARRAY_DESCRIPTOR *description, CUarray array)
{
	TRY(initialised());
	TRY(array_check(array));
	if (!description)
		return fail(CUDA_ERROR_INVALID_VALUE, "the pointer for the description is NULL");
	*description = (CUDA_ARRAY_DESCRIPTOR){array->description.Width, array->description.Height,
		array->description.Format, array->description.NumChannels};
	return CUDA_SUCCESS;
}

void array_release(CUarray array)
{
	handle_destroy(HANDLE_ARRAY, array);
}

CUresult cuArrayDestroy(CUarray array)
{
	TRY(initialised());
	TRY(array_check(array));
	if (array->is_level)
		return fail(CUDA_ERROR_INVALID_HANDLE,
			"the array is a level of a mipmapped array, with which it ends");
	return memory_free_object(array->plain.address);
}

/* ---- mipmapped arrays ---- */

static unsigned level_count(const struct texture *plain, unsigned wanted)
{
	uint32_t largest = plain->width > plain->height ? plain->width : plain->height;
	unsigned levels;

	if (!(plain->flags & TEXTURE_LAYERED) && plain->depth > largest)
		largest = plain->depth;
	levels = 32u - (unsigned)__builtin_clz(largest);
	return !wanted ? 1 : wanted < levels ? wanted : levels;
}

static size_t next_size(size_t size)
{
	return size > 1 ? size / 2 : size;
}

/* An array for each level. */
static CUresult create_levels(CUmipmappedArray array)
{
	CUDA_ARRAY3D_DESCRIPTOR description = array->description;
	struct texture level = array->plain;

	level.levels = 1;
	for (unsigned l = 0; l < array->plain.levels; l++) {
		CUarray made = handle_create(HANDLE_ARRAY, sizeof *made);

		if (!made)
			return no_memory();
		array->levels[l] = made;
		made->description = description;
		made->plain = level;
		made->is_level = true;
		texture_next(&level);
		description.Width = next_size(description.Width);
		description.Height = next_size(description.Height);
		if (!(level.flags & TEXTURE_LAYERED))
			description.Depth = next_size(description.Depth);
	}
	return CUDA_SUCCESS;
}

void mipmapped_release(CUmipmappedArray array)
{
	for (unsigned l = 0; l < TEXTURE_LEVELS && array->levels[l]; l++)
		handle_destroy(HANDLE_ARRAY, array->levels[l]);
	handle_destroy(HANDLE_LEVELS, array);
}

CUresult cuMipmappedArrayCreate(
	CUmipmappedArray *created, const CUDA_ARRAY3D_DESCRIPTOR *description, unsigned int levels)
{
	struct array_shape shape;
	CUmipmappedArray array;
	struct texture plain;
	CUcontext context;
	CUresult result;
	bool made;

	TRY(current_context(&context));
	TRY(textures_check(context, &made));
	if (!created || !description)
		return fail(CUDA_ERROR_INVALID_VALUE,
			"the pointer for the array, or its description, is NULL");
	TRY(plan(context, description, 1, &shape, &plain));
	shape.levels = level_count(&plain, levels);
	array = handle_create(HANDLE_LEVELS, sizeof *array);
	if (!array)
		return no_memory();
	array->description = *description;
	result = allocate(context, &shape, &array->plain, array, ALLOCATION_LEVELS);
	if (result != CUDA_SUCCESS) {
		handle_destroy(HANDLE_LEVELS, array);
		return result;
	}
	result = create_levels(array);
	if (result != CUDA_SUCCESS) {
		memory_free_object(array->plain.address);
		return result;
	}
	*created = array;
	return CUDA_SUCCESS;
}

CUresult cuMipmappedArrayGetLevel(CUarray *level, CUmipmappedArray array, unsigned int number)
{
	TRY(initialised());
	TRY(mipmapped_check(array));
	if (!level || number >= array->plain.levels)
		return fail(CUDA_ERROR_INVALID_VALUE,
			"the pointer for the level is NULL, or there is no level %u of %u", number,
			array->plain.levels);
	*level = array->levels[number];
	return CUDA_SUCCESS;
}

CUresult cuMipmappedArrayDestroy(CUmipmappedArray array)
{
	TRY(initialised());
	TRY(mipmapped_check(array));
	return memory_free_object(array->plain.address);
}

/* ---- what only other kinds of arrays have ---- */

/* The answer that CUDA has for an array without it. No array here has it: check_shape() refuses the flags. */
static CUresult has_not(const char *what)
{
	return fail(CUDA_ERROR_INVALID_VALUE, "the array has no %s", what);
}

CUresult cuArrayGetSparseProperties(CUDA_ARRAY_SPARSE_PROPERTIES *properties, CUarray array)
{
	TRY(initialised());
	TRY(array_check(array));
	return has_not("tiles that are mapped one by one");
}

CUresult cuMipmappedArrayGetSparseProperties(
	CUDA_ARRAY_SPARSE_PROPERTIES *properties, CUmipmappedArray array)
{
	TRY(initialised());
	TRY(mipmapped_check(array));
	return has_not("tiles that are mapped one by one");
}

CUresult cuArrayGetMemoryRequirements(
	CUDA_ARRAY_MEMORY_REQUIREMENTS *requirements, CUarray array, CUdevice device)
{
	TRY(initialised());
	TRY(array_check(array));
	return has_not("memory that is mapped later");
}

CUresult cuMipmappedArrayGetMemoryRequirements(
	CUDA_ARRAY_MEMORY_REQUIREMENTS *requirements, CUmipmappedArray array, CUdevice device)
{
	TRY(initialised());
	TRY(mipmapped_check(array));
	return has_not("memory that is mapped later");
}

CUresult cuArrayGetPlane(CUarray *plane, CUarray array, unsigned int number)
{
	TRY(initialised());
	TRY(array_check(array));
	return has_not("planes");
}

CUresult cuDeviceGetTexture1DLinearMaxWidth(
	size_t *elements, CUarray_format format, unsigned channels, CUdevice device)
{
	struct texture plain = {0};
	int limit;

	TRY(device_attribute(device, CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE1D_LINEAR_WIDTH, &limit));
	if (!elements)
		return fail(CUDA_ERROR_INVALID_VALUE, "the pointer for the number is NULL");
	TRY(array_format(&plain, format, channels));
	*elements = (size_t)limit;
	return CUDA_SUCCESS;
}
