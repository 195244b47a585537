/* SPDX-License-Identifier: MIT
 *
 * A command as calls of the driver. Nothing is kept here.
 */
#include "device/cuda/cuda.h"

#include "base/cleanup.h"
#include "base/clock.h"

static CUresult launch(const struct driver *driver, CUstream stream, const struct device_launch *l)
{
	size_t param_bytes = l->param_bytes;
	void *extra[] = {CU_LAUNCH_PARAM_BUFFER_POINTER, (void *)l->params,
		CU_LAUNCH_PARAM_BUFFER_SIZE, &param_bytes, CU_LAUNCH_PARAM_END};
	struct launch_config config;

	if (l->shared_bytes || l->cooperative || l->cluster[0]) {
		CUresult result = cuda_launch_config(l, &config, stream);
		if (result)
			return result;
	}
	if (l->cooperative || l->cluster[0])
		return driver->cuLaunchKernelEx(&config.config, l->function->handle, NULL, extra);
	return driver->cuLaunchKernel(l->function->handle, l->grid[0], l->grid[1], l->grid[2],
		l->block[0], l->block[1], l->block[2], l->shared_bytes, stream, NULL, extra);
}

static void set_side(uint64_t address, bool device, CUmemorytype *type, CUdeviceptr *on_device,
	const void **on_host)
{
	*type = device ? CU_MEMORYTYPE_DEVICE : CU_MEMORYTYPE_HOST;
	if (device)
		*on_device = address;
	else
		*on_host = (const void *)address;
}

/* The driver counts a plane in rows, and has a largest pitch. */
static bool planes_fit(const struct device_copy *c)
{
	uint64_t source = c->height > 1 ? c->source_pitch : c->source_slice;
	uint64_t destination = c->height > 1 ? c->destination_pitch : c->destination_slice;

	return c->depth == 1 ||
	       (source && destination && source <= INT32_MAX && destination <= INT32_MAX &&
		       !(c->source_slice % source) && !(c->destination_slice % destination));
}

static CUresult copy(struct device_space *space, CUstream stream, const struct device_copy *c);

static CUresult copy_planes(
	struct device_space *space, CUstream stream, const struct device_copy *whole)
{
	struct device_copy plane = *whole;
	CUresult result = CUDA_SUCCESS;

	plane.depth = 1;
	for (uint64_t z = 0; z < whole->depth && !result; z++) {
		result = copy(space, stream, &plane);
		plane.source += whole->source_slice;
		plane.destination += whole->destination_slice;
	}
	return result;
}

static CUresult copy(struct device_space *space, CUstream stream, const struct device_copy *c)
{
	const struct driver *driver = space->device->driver;
	CUDA_MEMCPY3D copy3d = {.WidthInBytes = c->width,
		.Height = c->height,
		.Depth = c->depth,
		.srcPitch = c->source_pitch,
		.dstPitch = c->destination_pitch};
	const void *to_host = NULL;
	CUresult result;

	if (array_copy(space, stream, c, &result))
		return result;
	if (c->height == 1 && c->depth == 1)
		return driver->cuMemcpyAsync(c->destination, c->source, c->width, stream);
	if (!planes_fit(c))
		return copy_planes(space, stream, c);
	if (c->height == 1) { /* planes of one row are rows */
		copy3d.srcPitch = c->source_slice;
		copy3d.dstPitch = c->destination_slice;
		copy3d.Height = c->depth;
		copy3d.Depth = 1;
	} else if (c->depth > 1) {
		copy3d.srcHeight = c->source_slice / c->source_pitch;
		copy3d.dstHeight = c->destination_slice / c->destination_pitch;
	}
	set_side(c->source, c->direction != COPY_TO_DEVICE, &copy3d.srcMemoryType,
		&copy3d.srcDevice, &copy3d.srcHost);
	set_side(c->destination, c->direction != COPY_FROM_DEVICE, &copy3d.dstMemoryType,
		&copy3d.dstDevice, &to_host);
	copy3d.dstHost = (void *)to_host;
	return driver->cuMemcpy3DAsync(&copy3d, stream);
}

static CUresult fill(const struct driver *driver, CUstream stream, const struct device_fill *f)
{
	switch (f->element_bytes) {
	case 1:
		return driver->cuMemsetD2D8Async(f->destination, f->pitch, (unsigned char)f->value,
			f->width, f->height, stream);
	case 2:
		return driver->cuMemsetD2D16Async(f->destination, f->pitch,
			(unsigned short)f->value, f->width, f->height, stream);
	default:
		return driver->cuMemsetD2D32Async(
			f->destination, f->pitch, f->value, f->width, f->height, stream);
	}
}

/* The driver refuses a copy or fill that reaches from one registration of host memory into another, or into memory of
 * the device. All of them begin and end at multiples of DEVICE_CHUNK_MIN: what was refused is cut there. */
static uint64_t to_boundary(uint64_t address)
{
	return DEVICE_CHUNK_MIN - address % DEVICE_CHUNK_MIN;
}

static CUresult copy_row_in_parts(struct device_space *space, CUstream stream,
	const struct device_copy *c, uint64_t destination, uint64_t source)
{
	struct device_copy part = {.direction = c->direction, .height = 1, .depth = 1};
	CUresult result = CUDA_SUCCESS;

	for (uint64_t done = 0; done < c->width && !result; done += part.width) {
		part.destination = destination + done;
		part.source = source + done;
		part.width = min_of(to_boundary(part.destination), to_boundary(part.source));
		part.width = min_of(part.width, c->width - done);
		result = copy(space, stream, &part);
	}
	return result;
}

static CUresult copy_in_parts(
	struct device_space *space, CUstream stream, const struct device_copy *c)
{
	CUresult result = CUDA_SUCCESS;

	for (uint64_t z = 0; z < c->depth; z++)
		for (uint64_t y = 0; y < c->height && !result; y++)
			result = copy_row_in_parts(space, stream, c,
				c->destination + z * c->destination_slice +
					y * c->destination_pitch,
				c->source + z * c->source_slice + y * c->source_pitch);
	return result;
}

/* An element lies on one side of a boundary. */
static CUresult fill_in_parts(
	const struct driver *driver, CUstream stream, const struct device_fill *f)
{
	struct device_fill part = *f;
	CUresult result = CUDA_SUCCESS;

	part.height = 1;
	for (uint64_t y = 0; y < f->height; y++)
		for (uint64_t x = 0; x < f->width && !result; x += part.width) {
			part.destination = f->destination + y * f->pitch + x * f->element_bytes;
			part.width = min_of(
				f->width - x, to_boundary(part.destination) / f->element_bytes);
			result = fill(driver, stream, &part);
		}
	return result;
}

/* The driver may load its code then. */
static CUresult launch_first(
	const struct driver *driver, CUstream stream, const struct device_launch *l)
{
	uint64_t begin_ns = clock_now_ns();
	CUresult result = launch(driver, stream, l);

	l->function->launched = true;
	device_spent("the first launch of a function", begin_ns);
	return result;
}

bool command_issue(struct device_space *space, CUstream stream, const struct device_command *c,
	bool brief, CUresult *result)
{
	const struct driver *driver = space->device->driver;

	if (brief && c->kind == DEVICE_COPY &&
		(!planes_fit(&c->copy) || array_is_copied(space, &c->copy)))
		return false;
	*result = c->kind == DEVICE_LAUNCH && !c->launch.function->launched
			  ? launch_first(driver, stream, &c->launch)
		  : c->kind == DEVICE_LAUNCH ? launch(driver, stream, &c->launch)
		  : c->kind == DEVICE_COPY   ? copy(space, stream, &c->copy)
					     : fill(driver, stream, &c->fill);
	if (*result != CUDA_ERROR_INVALID_VALUE || c->kind == DEVICE_LAUNCH)
		return true;
	if (!brief)
		*result = c->kind == DEVICE_COPY ? copy_in_parts(space, stream, &c->copy)
						 : fill_in_parts(driver, stream, &c->fill);
	return !brief;
}
