/* SPDX-License-Identifier: MIT
 *
 * Arrays, textures and surfaces, which the driver makes. How an array lies in its memory the driver tells nobody: copies
 * name the elements by addresses at which nothing is (device/ops.h), and become copies of the driver that name them by
 * their coordinates.
 *
 * The handles that kernels have are this context's: while there is one, the context is not given back. An array's memory
 * can leave and come back under its handles, where the driver maps it by cuMemMapArrayAsync().
 */
#include "device/cuda/cuda.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/log.h"
#include "gdev/error.h"

#define OBJECTS_MAX 65536 /* textures and surfaces: each costs this process some bytes */

struct level {
	CUarray handle;
	struct texture plain; /* where its elements are named */
};

struct device_array {
	struct list link; /* space->arrays */
	struct device_space *space;
	uint64_t address, bytes;
	CUmipmappedArray mipmapped; /* NULL: `levels` is one array by itself */
	uint64_t chunk_bytes;       /* of memory that can leave; 0: it cannot */
	unsigned count;
	struct level levels[];
};

struct texture_object {
	struct list link; /* space->textures */
	uint64_t handle;
	bool surface;
};

/* ---- arrays ---- */

static const CUarray_format formats[TEXTURE_FORMATS] = {
	[TEXTURE_U8] = CU_AD_FORMAT_UNSIGNED_INT8,
	[TEXTURE_U16] = CU_AD_FORMAT_UNSIGNED_INT16,
	[TEXTURE_U32] = CU_AD_FORMAT_UNSIGNED_INT32,
	[TEXTURE_S8] = CU_AD_FORMAT_SIGNED_INT8,
	[TEXTURE_S16] = CU_AD_FORMAT_SIGNED_INT16,
	[TEXTURE_S32] = CU_AD_FORMAT_SIGNED_INT32,
	[TEXTURE_F16] = CU_AD_FORMAT_HALF,
	[TEXTURE_F32] = CU_AD_FORMAT_FLOAT,
};

/* The least power of two from `least` to `most` that `size` fits in, or `most`. */
static uint64_t block_of(uint64_t size, uint64_t least, uint64_t most)
{
	uint64_t block = least;

	while (block < size && block < most)
		block *= 2;
	return block;
}

/* Arrays of several dimensions lie in blocks of 64 bytes x 8 to 256 rows x 1 to 32 planes, layers begin at multiples of the
 * first level's, and the driver takes whole pages of 2 MiB. */
uint64_t cuda_array_bytes(const struct array_shape *shape)
{
	uint64_t layout, block = 0, bytes = 0;
	struct texture level;
	uint32_t layers;

	array_layout(shape, 0, &level, &layout);
	layers = level.flags & TEXTURE_LAYERED ? level.depth : 1;
	for (uint32_t levels = level.levels; levels--; texture_next(&level)) {
		uint64_t row = align_up((uint64_t)level.width * texture_element_bytes(&level), 64);
		uint64_t rows = shape->height ? block_of(level.height, 8, 256) : 1;
		uint64_t planes = layers > 1 ? 1 : block_of(level.depth, 1, 32);
		if (!block)
			block = 64 * rows * planes;
		bytes +=
			row * align_up(level.height, rows) * align_up(level.depth / layers, planes);
	}
	return align_up(align_up(bytes, block) * layers, DEVICE_CHUNK_MIN);
}

static CUDA_ARRAY3D_DESCRIPTOR describe(const struct array_shape *shape, unsigned more_flags)
{
	return (CUDA_ARRAY3D_DESCRIPTOR){.Width = shape->width,
		.Height = shape->height,
		.Depth = shape->depth,
		.Format = formats[shape->format],
		.NumChannels = shape->channels,
		.Flags = shape->flags | more_flags};
}

static void unmake(struct device_array *array)
{
	const struct driver *driver = device_enter(array->space->device);

	if (array->mipmapped)
		driver->cuMipmappedArrayDestroy(array->mipmapped);
	else if (array->levels[0].handle)
		driver->cuArrayDestroy(array->levels[0].handle);
	array->mipmapped = NULL;
	array->levels[0].handle = NULL;
}

static void release(struct device_array *array)
{
	unmake(array);
	free(array);
}

static CUresult make(
	struct device_array *array, const struct array_shape *shape, unsigned more_flags)
{
	const struct driver *driver = device_enter(array->space->device);
	CUDA_ARRAY3D_DESCRIPTOR description = describe(shape, more_flags);
	CUresult result;

	if (!shape->levels)
		return driver->cuArray3DCreate(&array->levels[0].handle, &description);
	result = driver->cuMipmappedArrayCreate(&array->mipmapped, &description, shape->levels);
	for (unsigned l = 0; l < array->count && !result; l++)
		result = driver->cuMipmappedArrayGetLevel(
			&array->levels[l].handle, array->mipmapped, l);
	return result;
}

/* ---- memory that can leave ---- */

/* On a stream of its own, which is waited for. Handle 0: nothing is mapped any more. */
static CUresult map_whole(struct device_array *array, CUmemGenericAllocationHandle handle)
{
	const struct driver *driver = device_enter(array->space->device);
	CUarrayMapInfo info = {
		.resourceType = array->mipmapped ? CU_RESOURCE_TYPE_MIPMAPPED_ARRAY
						 : CU_RESOURCE_TYPE_ARRAY,
		.memOperationType =
			handle ? CU_MEM_OPERATION_TYPE_MAP : CU_MEM_OPERATION_TYPE_UNMAP,
		.memHandleType = CU_MEM_HANDLE_TYPE_GENERIC,
		.memHandle.memHandle = handle,
		.deviceBitMask = 1u << array->space->device->ordinal,
	};
	CUstream stream;
	CUresult result = driver->cuStreamCreateWithPriority(&stream, CU_STREAM_NON_BLOCKING, 0);

	if (result)
		return result;
	if (array->mipmapped)
		info.resource.mipmap = array->mipmapped;
	else
		info.resource.array = array->levels[0].handle;
	result = driver->cuMemMapArrayAsync(&info, 1, stream);
	if (!result)
		result = driver->cuStreamSynchronize(stream);
	driver->cuStreamDestroy(stream);
	return result;
}

int array_map(struct device_chunk *chunk)
{
	return driver_error(map_whole(chunk->array, chunk->handle));
}

void array_unmap(struct device_chunk *chunk)
{
	CUresult result = map_whole(chunk->array, 0);

	if (result)
		log_warning("an array's memory cannot be unmapped: error %d", (int)result);
}

int cuda_array_chunk(struct device_array *array, struct device_chunk **chunk)
{
	return chunk_create(array->space->device, array->chunk_bytes, array, chunk);
}

bool arrays_are_pinned(const struct driver *driver, CUdevice ordinal)
{
	const char *wish = secure_getenv("GDEV_CUDA_DEFERRED");
	int supported = 0;

	return (wish && !strcmp(wish, "0")) || !driver->has_deferred ||
	       driver->cuDeviceGetAttribute(&supported,
		       CU_DEVICE_ATTRIBUTE_DEFERRED_MAPPING_CUDA_ARRAY_SUPPORTED, ordinal) ||
	       !supported;
}

/* By CUDA's documentation these are not mapped so: arrays of one dimension, and cubes. */
static bool may_be_deferred(const struct device *device, const struct array_shape *shape)
{
	return !device->pins_arrays && shape->height && !(shape->flags & ARRAY_CUBE);
}

/* Whether an array that has been made so lies in the chunk that is charged for it. */
static CUresult check_requirements(struct device_array *array)
{
	const struct driver *driver = array->space->device->driver;
	CUDA_ARRAY_MEMORY_REQUIREMENTS needed = {0};
	CUdevice ordinal = array->space->device->ordinal;
	CUresult result = array->mipmapped ? driver->cuMipmappedArrayGetMemoryRequirements(
						     &needed, array->mipmapped, ordinal)
					   : driver->cuArrayGetMemoryRequirements(
						     &needed, array->levels[0].handle, ordinal);

	if (!result && (!needed.size || needed.size > array->chunk_bytes))
		result = CUDA_ERROR_NOT_SUPPORTED;
	return result;
}

/* The first array of a device shows whether its memory can be taken from under it. */
static CUresult map_first(struct device_array *array, CUmemGenericAllocationHandle handle)
{
	struct device *device = array->space->device;
	CUresult result = map_whole(array, handle);

	if (result || atomic_load(&device->remaps))
		return result;
	result = map_whole(array, 0);
	if (!result)
		result = map_whole(array, handle);
	if (!result)
		atomic_store(&device->remaps, true);
	return result;
}

/* Makes it with its memory apart. After an error nothing is left of it. */
static CUresult make_deferred(
	struct device_array *array, const struct array_shape *shape, struct device_chunk **chunk)
{
	CUresult result;

	array->chunk_bytes = cuda_array_bytes(shape);
	result = make(array, shape, CUDA_ARRAY3D_DEFERRED_MAPPING);
	if (!result)
		result = check_requirements(array);
	if (!result) {
		int error = cuda_array_chunk(array, chunk);
		if (error)
			result = error == -ENOMEM ? CUDA_ERROR_OUT_OF_MEMORY
						  : CUDA_ERROR_NOT_SUPPORTED;
	}
	if (!result)
		result = map_first(array, (*chunk)->handle);
	if (result) {
		unmake(array); /* before its memory, which may be mapped */
		array->chunk_bytes = 0;
		if (*chunk)
			cuda_chunk_destroy(steal_pointer(chunk));
	}
	return result;
}

/* What the driver will not have so keeps its memory. Memory that there is not enough of is not there for that, either. */
static CUresult make_either(
	struct device_array *array, const struct array_shape *shape, struct device_chunk **chunk)
{
	CUresult result = CUDA_ERROR_NOT_SUPPORTED;

	if (may_be_deferred(array->space->device, shape)) {
		result = make_deferred(array, shape, chunk);
		if (result && result != CUDA_ERROR_OUT_OF_MEMORY)
			log_info(
				"an array of %u x %u x %u elements stays on the device: the driver does not "
				"map its memory (error %d)",
				shape->width, shape->height, shape->depth, (int)result);
	}
	if (result && result != CUDA_ERROR_OUT_OF_MEMORY)
		result = make(array, shape, 0);
	return result;
}

int cuda_array_create(struct device_space *space, uint64_t address, const struct array_shape *shape,
	struct device_array **out, struct device_chunk **chunk)
{
	struct device_array *array;
	struct texture level;
	CUresult result;
	uint64_t bytes = 0;

	array_layout(shape, address, &level, &bytes);
	array = calloc(1, sizeof *array + level.levels * sizeof *array->levels);
	if (!array)
		return -ENOMEM;
	array->space = space;
	array->address = address;
	array->bytes = align_up(bytes, DEVICE_CHUNK_MIN); /* nothing else is there */
	array->count = level.levels;
	for (unsigned l = 0; l < array->count; l++, texture_next(&level))
		array->levels[l].plain = level;
	*chunk = NULL;
	result = make_either(array, shape, chunk);
	if (result) {
		release(array);
		return driver_error(result);
	}
	pthread_mutex_lock(&space->lock);
	list_append(&space->arrays, &array->link);
	pthread_mutex_unlock(&space->lock);
	atomic_fetch_add(&space->array_count, 1);
	*out = array;
	return 0;
}

void cuda_array_destroy(struct device_array *array)
{
	struct device_space *space = array->space;

	pthread_mutex_lock(&space->making);
	pthread_mutex_lock(&space->lock);
	list_remove(&array->link);
	pthread_mutex_unlock(&space->lock);
	release(array);
	pthread_mutex_unlock(&space->making);
	atomic_fetch_sub(&space->array_count, 1);
}

static struct device_array *find_array(struct device_space *space, uint64_t address)
{
	struct device_array *array, *found = NULL;

	pthread_mutex_lock(&space->lock);
	list_for_each (array, &space->arrays, link)
		if (address - array->address < array->bytes)
			found = array;
	pthread_mutex_unlock(&space->lock);
	return found;
}

/* Behind the last level there is nothing, but it is that one's. */
static const struct level *find_level(struct device_space *space, uint64_t address)
{
	const struct device_array *array = find_array(space, address);
	const struct level *level = NULL;

	for (unsigned l = 0; array && l < array->count; l++)
		if (array->levels[l].plain.address <= address)
			level = &array->levels[l];
	return level;
}

/* ---- copies ---- */

/* One side of a copy: an address, and how rows and planes follow each other there. */
struct side {
	const struct level *level; /* NULL: memory */
	uint64_t address, pitch, slice;
	uint64_t x, y, z; /* of the level: byte, row, and plane or layer */
};

struct box {
	struct side to, from;
	uint64_t width, height, depth;
	enum copy_direction direction;
};

static uint64_t row_bytes(const struct texture *plain)
{
	return (uint64_t)plain->width * texture_element_bytes(plain);
}

static void move(struct side *side, uint64_t address)
{
	const struct texture *plain = side->level ? &side->level->plain : NULL;
	uint64_t offset;

	side->address = address;
	if (!plain)
		return;
	offset = address - plain->address;
	side->x = offset % plain->pitch;
	side->y = offset / plain->pitch % plain->height;
	side->z = offset / plain->slice;
}

static struct side side_at(
	struct device_space *space, uint64_t address, uint64_t pitch, uint64_t slice)
{
	struct side side = {.level = find_level(space, address), .pitch = pitch, .slice = slice};

	move(&side, address);
	return side;
}

/* How many of `width` bytes are in the row. 0: it begins between rows. */
static uint64_t bytes_in_row(const struct side *side, uint64_t width)
{
	uint64_t row = side->level ? row_bytes(&side->level->plain) : UINT64_MAX;

	return min_of(width, row - min_of(row, side->x));
}

/* How many of `height` rows follow each other as those of the level do. */
static uint64_t rows_in_plane(const struct side *side, uint64_t height)
{
	if (!side->level)
		return height;
	if (side->pitch != side->level->plain.pitch)
		return 1;
	return min_of(height, side->level->plain.height - side->y);
}

/* The driver counts a plane of memory in rows, and has a largest pitch. A plane of one row is a row. */
static uint64_t memory_pitch(const struct side *side, const struct box *box)
{
	return box->height > 1 ? side->pitch : box->depth > 1 ? side->slice : box->width;
}

static bool planes_follow(const struct side *side, const struct box *box)
{
	uint64_t pitch = memory_pitch(side, box);

	if (box->depth == 1)
		return true;
	if (!side->level)
		return pitch && pitch <= INT32_MAX && !(side->slice % pitch);
	return side->slice == side->level->plain.slice &&
	       rows_in_plane(side, box->height) == box->height &&
	       box->depth <= side->level->plain.depth - side->z;
}

/* What the driver does with elements that an array does not have, its documentation does not say. */
static bool has_elements(const struct side *side, const struct box *box)
{
	const struct texture *plain = side->level ? &side->level->plain : NULL;
	uint32_t element = plain ? texture_element_bytes(plain) : 1;

	return !plain || (!(side->x % element) && !(box->width % element) &&
				 bytes_in_row(side, box->width) == box->width &&
				 side->y + box->height <= plain->height &&
				 side->z + box->depth <= plain->depth);
}

static CUresult copy_box(const struct driver *driver, CUstream stream, const struct box *box)
{
	const struct side *to = &box->to, *from = &box->from;
	CUDA_MEMCPY3D copy = {
		.WidthInBytes = box->width, .Height = box->height, .Depth = box->depth};

	if (!has_elements(to, box) || !has_elements(from, box))
		return CUDA_ERROR_INVALID_VALUE;
	if (from->level) {
		copy.srcMemoryType = CU_MEMORYTYPE_ARRAY;
		copy.srcArray = from->level->handle;
		copy.srcXInBytes = from->x;
		copy.srcY = from->y;
		copy.srcZ = from->z;
	} else {
		copy.srcMemoryType = box->direction == COPY_TO_DEVICE ? CU_MEMORYTYPE_HOST
								      : CU_MEMORYTYPE_DEVICE;
		copy.srcHost = (const void *)from->address;
		copy.srcDevice = from->address;
		copy.srcPitch = memory_pitch(from, box);
		copy.srcHeight = box->depth > 1 ? from->slice / copy.srcPitch : 0;
	}
	if (to->level) {
		copy.dstMemoryType = CU_MEMORYTYPE_ARRAY;
		copy.dstArray = to->level->handle;
		copy.dstXInBytes = to->x;
		copy.dstY = to->y;
		copy.dstZ = to->z;
	} else {
		copy.dstMemoryType = box->direction == COPY_FROM_DEVICE ? CU_MEMORYTYPE_HOST
									: CU_MEMORYTYPE_DEVICE;
		copy.dstHost = (void *)to->address;
		copy.dstDevice = to->address;
		copy.dstPitch = memory_pitch(to, box);
		copy.dstHeight = box->depth > 1 ? to->slice / copy.dstPitch : 0;
	}
	return driver->cuMemcpy3DAsync(&copy, stream);
}

/* Bytes that follow each other may be several rows of an array, if nothing is between these. Cuts the box, of one row, down
 * to what one copy takes; how many bytes that is. 0: they are not all elements. */
static uint64_t cut_row(struct box *box)
{
	uint64_t width = bytes_in_row(&box->to, bytes_in_row(&box->from, box->width)), rows = 1;
	uint64_t rest = box->width - (width ? width : 1);
	struct side *sides[] = {&box->to, &box->from};

	for (int i = 0; i < 2; i++) {
		const struct side *side = sides[i];
		const struct texture *plain = side->level ? &side->level->plain : NULL;
		if (bytes_in_row(side, box->width) < box->width && plain->pitch != row_bytes(plain))
			return 0;
	}
	if (width && rest >= width) { /* whole rows of each array */
		rows = box->width / width;
		for (int i = 0; i < 2; i++) {
			struct side *side = sides[i];
			side->pitch = width;
			if (side->level && (side->x || width != side->level->plain.pitch))
				rows = 1;
			rows = min_of(rows, rows_in_plane(side, rows));
		}
	}
	box->width = width;
	box->height = rows;
	return width * rows;
}

static CUresult copy_row(const struct driver *driver, CUstream stream, const struct box *whole)
{
	struct box part = *whole;
	CUresult result = CUDA_SUCCESS;

	for (uint64_t done = 0, bytes; done < whole->width && !result; done += bytes) {
		part.width = whole->width - done;
		move(&part.to, whole->to.address + done);
		move(&part.from, whole->from.address + done);
		bytes = cut_row(&part);
		if (!bytes)
			return CUDA_ERROR_INVALID_VALUE;
		result = copy_box(driver, stream, &part);
	}
	return result;
}

static CUresult copy_plane(const struct driver *driver, CUstream stream, const struct box *whole)
{
	bool whole_rows = bytes_in_row(&whole->to, whole->width) == whole->width &&
			  bytes_in_row(&whole->from, whole->width) == whole->width;
	struct box part = *whole;
	CUresult result = CUDA_SUCCESS;

	for (uint64_t y = 0; y < whole->height && !result; y += part.height) {
		move(&part.to, whole->to.address + y * whole->to.pitch);
		move(&part.from, whole->from.address + y * whole->from.pitch);
		part.height = 1;
		if (whole_rows)
			part.height = rows_in_plane(
				&part.to, rows_in_plane(&part.from, whole->height - y));
		result = part.height > 1 ? copy_box(driver, stream, &part)
					 : copy_row(driver, stream, &part);
	}
	return result;
}

/* One row of all that an array has addresses for, which is how its contents leave and come back: each level as it lies. */
static const struct device_array *find_whole(
	struct device_space *space, uint64_t address, const struct box *box)
{
	const struct device_array *array = NULL;

	if (box->height == 1 && box->depth == 1)
		array = find_array(space, address);
	return array && array->address == address && array->bytes == box->width ? array : NULL;
}

static CUresult copy_whole(const struct driver *driver, CUstream stream,
	const struct device_array *array, uint64_t memory, enum copy_direction direction)
{
	CUresult result = CUDA_SUCCESS;

	for (unsigned l = 0; l < array->count && !result; l++) {
		const struct texture *plain = &array->levels[l].plain;
		struct side elements = {.level = &array->levels[l]};
		struct side there = {.address = memory + plain->address - array->address,
			.pitch = plain->pitch,
			.slice = plain->slice};
		bool out = direction == COPY_FROM_DEVICE;
		struct box box = {.to = out ? there : elements,
			.from = out ? elements : there,
			.width = row_bytes(plain),
			.height = plain->height,
			.depth = plain->depth,
			.direction = direction};
		result = copy_box(driver, stream, &box);
	}
	return result;
}

bool array_copy(
	struct device_space *space, CUstream stream, const struct device_copy *c, CUresult *result)
{
	struct box box = {.width = c->width,
		.height = c->height,
		.depth = c->depth,
		.direction = c->direction};
	const struct driver *driver = space->device->driver;
	bool out = c->direction == COPY_FROM_DEVICE;
	const struct device_array *whole = NULL;
	struct box plane;

	if (!atomic_load(&space->array_count))
		return false;
	box.to = side_at(space, c->destination, c->destination_pitch, c->destination_slice);
	box.from = side_at(space, c->source, c->source_pitch, c->source_slice);
	if (!box.to.level && !box.from.level)
		return false;
	if (c->direction != COPY_WITHIN)
		whole = find_whole(space, out ? c->source : c->destination, &box);
	if (whole) {
		*result = copy_whole(
			driver, stream, whole, out ? c->destination : c->source, c->direction);
		return true;
	}
	plane = box;
	plane.depth = 1;
	*result = CUDA_SUCCESS;
	if (box.depth > 1 && planes_follow(&box.to, &box) && planes_follow(&box.from, &box) &&
		bytes_in_row(&box.to, box.width) == box.width &&
		bytes_in_row(&box.from, box.width) == box.width)
		*result = copy_box(driver, stream, &box);
	else
		for (uint64_t z = 0; z < box.depth && !*result; z++) {
			move(&plane.to, box.to.address + z * box.to.slice);
			move(&plane.from, box.from.address + z * box.from.slice);
			*result = copy_plane(driver, stream, &plane);
		}
	return true;
}

bool array_is_copied(struct device_space *space, const struct device_copy *c)
{
	return atomic_load(&space->array_count) &&
	       (find_array(space, c->destination) || find_array(space, c->source));
}

/* ---- textures and surfaces ---- */

int texture_resource(
	struct device_space *space, const struct texture_words *words, CUDA_RESOURCE_DESC *resource)
{
	const struct level *level = find_level(space, words->address);
	const struct device_array *array = find_array(space, words->address);

	switch (words->source) {
	case TEXTURE_OF_ARRAY:
		resource->resType = CU_RESOURCE_TYPE_ARRAY;
		if (!level || level->plain.address != words->address)
			return -EINVAL;
		resource->res.array.hArray = level->handle;
		return 0;
	case TEXTURE_OF_LEVELS:
		resource->resType = CU_RESOURCE_TYPE_MIPMAPPED_ARRAY;
		if (!array || array->address != words->address || !array->mipmapped)
			return -EINVAL;
		resource->res.mipmap.hMipmappedArray = array->mipmapped;
		return 0;
	case TEXTURE_OF_LINEAR:
		resource->resType = CU_RESOURCE_TYPE_LINEAR;
		resource->res.linear.devPtr = words->address;
		resource->res.linear.format = formats[words->format];
		resource->res.linear.numChannels = words->channels;
		resource->res.linear.sizeInBytes = words->bytes;
		return 0;
	default:
		resource->resType = CU_RESOURCE_TYPE_PITCH2D;
		resource->res.pitch2D.devPtr = words->address;
		resource->res.pitch2D.format = formats[words->format];
		resource->res.pitch2D.numChannels = words->channels;
		resource->res.pitch2D.width = words->width;
		resource->res.pitch2D.height = words->height;
		resource->res.pitch2D.pitchInBytes = words->pitch;
		return 0;
	}
}

static CUresult make_texture(const struct driver *driver, const CUDA_RESOURCE_DESC *resource,
	const struct texture_words *words, CUtexObject *handle)
{
	CUDA_TEXTURE_DESC sampling = {
		.addressMode = {(CUaddress_mode)words->address_mode[0],
			(CUaddress_mode)words->address_mode[1],
			(CUaddress_mode)words->address_mode[2]},
		.filterMode = (CUfilter_mode)words->filter,
		.flags = words->flags,
		.maxAnisotropy = words->anisotropy,
		.mipmapFilterMode = (CUfilter_mode)words->level_filter,
		.mipmapLevelBias = words->bias,
		.minMipmapLevelClamp = words->level_min,
		.maxMipmapLevelClamp = words->level_max,
		.borderColor = {words->border[0], words->border[1], words->border[2],
			words->border[3]},
	};
	CUDA_RESOURCE_VIEW_DESC view = {
		.format = (CUresourceViewFormat)words->view_format,
		.width = words->view_width,
		.height = words->view_height,
		.depth = words->view_depth,
		.firstMipmapLevel = words->first_level,
		.lastMipmapLevel = words->last_level,
		.firstLayer = words->first_layer,
		.lastLayer = words->last_layer,
	};

	return driver->cuTexObjectCreate(
		handle, resource, &sampling, words->has_view ? &view : NULL);
}

static CUresult destroy_object(const struct driver *driver, const struct texture_object *object)
{
	return object->surface ? driver->cuSurfObjectDestroy(object->handle)
			       : driver->cuTexObjectDestroy(object->handle);
}

static int make_object(
	struct device_space *space, const struct texture_words *words, uint64_t *handle)
{
	const struct driver *driver = device_enter(space->device);
	CUDA_RESOURCE_DESC resource = {0};
	struct texture_object *object;
	unsigned long long made;
	CUresult result;
	int error = texture_resource(space, words, &resource);

	if (error)
		return error;
	if (atomic_load(&space->texture_count) >= OBJECTS_MAX)
		return -ENOMEM;
	object = malloc(sizeof *object);
	if (!object)
		return -ENOMEM;
	result = words->surface ? driver->cuSurfObjectCreate(&made, &resource)
				: make_texture(driver, &resource, words, &made);
	if (result) {
		free(object);
		return driver_error(result);
	}
	object->handle = made;
	object->surface = words->surface;
	pthread_mutex_lock(&space->lock);
	list_append(&space->textures, &object->link);
	pthread_mutex_unlock(&space->lock);
	atomic_fetch_add(&space->texture_count, 1);
	*handle = made;
	return 0;
}

int cuda_texture_create(
	struct device_space *space, const struct texture_words *words, uint64_t *handle)
{
	int error;

	pthread_mutex_lock(&space->making);
	error = make_object(space, words, handle);
	pthread_mutex_unlock(&space->making);
	return error;
}

int cuda_texture_destroy(struct device_space *space, uint64_t handle, bool surface)
{
	struct texture_object *object, *found = NULL;
	CUresult result;

	pthread_mutex_lock(&space->lock);
	list_for_each (object, &space->textures, link)
		if (object->handle == handle && object->surface == surface)
			found = object;
	if (found)
		list_remove(&found->link);
	pthread_mutex_unlock(&space->lock);
	if (!found)
		return -GDEV_E_INVALID_HANDLE;
	atomic_fetch_sub(&space->texture_count, 1);
	result = destroy_object(device_enter(space->device), found);
	free(found);
	return driver_error(result);
}

void textures_finish(struct device_space *space)
{
	struct texture_object *object, *next;

	list_for_each_safe (object, next, &space->textures, link) {
		destroy_object(device_enter(space->device), object);
		free(object);
	}
}
