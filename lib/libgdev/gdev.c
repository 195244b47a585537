/* SPDX-License-Identifier: MIT
 *
 * The Gdev API (gdev/gdev.h), thin over sessions: a handle is a session and one stream of it, and an id is
 * the low half of a number of that stream's timeline.
 */
#include "gdev/gdev.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "gdev/session.h"
#include "proto/properties.h"

struct gdev_handle {
	struct gdev_session *session;
	struct gdev_stream *stream;
};

/* ---- tracing ---- */

struct span {
	const char *name;
	uint64_t begin_ns; /* 0: nobody traces */
};

static inline void span_end(const struct span *span)
{
	if (span->begin_ns)
		gdev_trace_end(span->name, span->begin_ns, 0);
}

/* First in a call of the API: it is noted, to its end. */
#define TRACE_SPAN()                                                                               \
	const struct span span_ __attribute__((cleanup(span_end), unused)) = {                     \
		__func__, gdev_traced() ? gdev_trace_begin() : 0}

/* ---- devices ---- */

int gdevice_count(int *count)
{
	TRACE_SPAN();

	*count = gdev_vgpu_count();
	return 0;
}

int gopen_name(const char *vgpu, struct gdev_handle **handle)
{
	TRACE_SPAN();
	struct gdev_handle *opened = calloc(1, sizeof *opened);
	int error;

	if (!opened)
		return -ENOMEM;
	error = gdev_session_open(vgpu, &opened->session);
	if (error)
		goto err_free;
	error = gdev_stream_create(opened->session, 0, &opened->stream);
	if (error)
		goto err_close;
	*handle = opened;
	return 0;

err_close:
	gdev_session_close(opened->session);
err_free:
	free(opened);
	return error;
}

int gopen(int minor, struct gdev_handle **handle)
{
	TRACE_SPAN();
	char name[GDEV_NAME_MAX];
	int error = gdev_vgpu_name(minor, name);

	return error ? error : gopen_name(name, handle);
}

int gclose(struct gdev_handle *handle)
{
	TRACE_SPAN();
	int error;

	if (!handle)
		return 0;
	error = gdev_stream_sync(handle->stream);
	gdev_stream_destroy(handle->stream);
	gdev_session_close(handle->session);
	free(handle);
	return error;
}

/* ---- memory ---- */

int gmalloc(struct gdev_handle *handle, uint64_t size, uint64_t *address)
{
	TRACE_SPAN();

	return gdev_memory_alloc(handle->session, size, address);
}

int gfree(struct gdev_handle *handle, uint64_t address)
{
	TRACE_SPAN();

	return gdev_memory_free(handle->session, address);
}

int gmalloc_dma(struct gdev_handle *handle, uint64_t size, void **buffer)
{
	TRACE_SPAN();

	return gdev_host_alloc(handle->session, size, buffer);
}

int gfree_dma(struct gdev_handle *handle, void *buffer)
{
	TRACE_SPAN();

	return gdev_memory_free(handle->session, (uint64_t)buffer);
}

int gmap(struct gdev_handle *handle, uint64_t address, uint64_t size, void **buffer)
{
	TRACE_SPAN();

	return gdev_memory_map(handle->session, address, size, buffer);
}

int gunmap(struct gdev_handle *handle, void *buffer)
{
	TRACE_SPAN();
	struct gdev_range range;

	gdev_memory_lookup(handle->session, (uint64_t)buffer, &range);
	return range.mapped ? 0 : -EINVAL;
}

/* ---- commands ---- */

static void give_id(struct gdev_handle *handle, uint32_t *id)
{
	struct gdev_fence fence;

	if (!id)
		return;
	gdev_stream_fence(handle->stream, &fence);
	*id = (uint32_t)fence.value;
}

static int copy(struct gdev_handle *handle, uint64_t destination, enum gdev_side destination_side,
	uint64_t source, enum gdev_side source_side, uint64_t size)
{
	struct gdev_copy wanted = gdev_copy_linear(destination, source, size);

	wanted.destination_side = destination_side;
	wanted.source_side = source_side;
	return gdev_copy(handle->stream, &wanted);
}

static int copy_async(struct gdev_handle *handle, uint64_t destination,
	enum gdev_side destination_side, uint64_t source, enum gdev_side source_side, uint64_t size,
	uint32_t *id)
{
	struct gdev_copy wanted = gdev_copy_linear(destination, source, size);
	int error;

	wanted.destination_side = destination_side;
	wanted.source_side = source_side;
	error = gdev_copy_async(handle->stream, &wanted);
	if (!error)
		give_id(handle, id);
	return error;
}

int gmemcpy_to_device(
	struct gdev_handle *handle, uint64_t destination, const void *buffer, uint64_t size)
{
	TRACE_SPAN();

	return copy(handle, destination, GDEV_SIDE_DEVICE, (uint64_t)buffer, GDEV_SIDE_HOST, size);
}

int gmemcpy_to_device_async(struct gdev_handle *handle, uint64_t destination, const void *buffer,
	uint64_t size, uint32_t *id)
{
	TRACE_SPAN();

	return copy_async(
		handle, destination, GDEV_SIDE_DEVICE, (uint64_t)buffer, GDEV_SIDE_HOST, size, id);
}

int gmemcpy_from_device(struct gdev_handle *handle, void *buffer, uint64_t source, uint64_t size)
{
	TRACE_SPAN();

	return copy(handle, (uint64_t)buffer, GDEV_SIDE_HOST, source, GDEV_SIDE_DEVICE, size);
}

int gmemcpy_from_device_async(
	struct gdev_handle *handle, void *buffer, uint64_t source, uint64_t size, uint32_t *id)
{
	TRACE_SPAN();

	return copy_async(
		handle, (uint64_t)buffer, GDEV_SIDE_HOST, source, GDEV_SIDE_DEVICE, size, id);
}

int gmemcpy(struct gdev_handle *handle, uint64_t destination, uint64_t source, uint64_t size)
{
	TRACE_SPAN();

	return copy(handle, destination, GDEV_SIDE_DEVICE, source, GDEV_SIDE_DEVICE, size);
}

int gmemcpy_async(struct gdev_handle *handle, uint64_t destination, uint64_t source, uint64_t size,
	uint32_t *id)
{
	TRACE_SPAN();

	return copy_async(
		handle, destination, GDEV_SIDE_DEVICE, source, GDEV_SIDE_DEVICE, size, id);
}

int gmemset(struct gdev_handle *handle, uint64_t destination, uint8_t value, uint64_t size)
{
	TRACE_SPAN();
	struct gdev_fill fill = {
		.destination = destination,
		.width = size,
		.height = 1,
		.element_bytes = 1,
		.value = value,
	};
	int error = gdev_fill_async(handle->stream, &fill);

	return error ? error : gdev_stream_sync(handle->stream);
}

int glaunch(struct gdev_handle *handle, const struct gdev_kernel *kernel, uint32_t *id)
{
	TRACE_SPAN();
	struct gdev_launch launch = {
		.function = kernel->function,
		.grid = {kernel->grid[0], kernel->grid[1], kernel->grid[2]},
		.block = {kernel->block[0], kernel->block[1], kernel->block[2]},
		.shared_bytes = kernel->shared_bytes,
		.params = kernel->params,
		.param_bytes = kernel->param_bytes,
		.arguments = kernel->arguments,
	};
	int error;

	if (!kernel->arguments &&
		kernel->param_bytes < gdev_function_info(kernel->function)->param_bytes)
		return -EINVAL;
	error = gdev_launch_async(handle->stream, &launch);
	if (!error)
		give_id(handle, id);
	return error;
}

int gsync(struct gdev_handle *handle, uint32_t id, uint64_t timeout_ns)
{
	TRACE_SPAN();
	struct gdev_fence fence;
	uint64_t now, deadline = GDEV_FOREVER;
	int error;

	/* The newest number of the stream whose low half is `id`. */
	gdev_stream_fence(handle->stream, &fence);
	if ((uint32_t)fence.value - id > fence.value)
		return -EINVAL;
	fence.value -= (uint32_t)fence.value - id;
	if (timeout_ns != GDEV_FOREVER) {
		now = timeout_ns ? clock_now_ns() : 0;
		deadline = timeout_ns > GDEV_FOREVER - now ? GDEV_FOREVER : now + timeout_ns;
	}
	error = gdev_fence_wait_until(handle->session, &fence, deadline);
	if (!error)
		gdev_session_flush(handle->session);
	return error;
}

int gbarrier(struct gdev_handle *handle)
{
	TRACE_SPAN();

	return gdev_stream_sync(handle->stream);
}

/* ---- code ---- */

int gmodule_load(struct gdev_handle *handle, const void *image, uint64_t size, char *log,
	uint64_t log_size, struct gdev_module **module)
{
	TRACE_SPAN();

	return gdev_module_load(handle->session, image, size, log, log_size, module);
}

int gmodule_load_file(struct gdev_handle *handle, const char *path, char *log, uint64_t log_size,
	struct gdev_module **module)
{
	TRACE_SPAN();
	autoclose int fd = open(path, O_RDONLY | O_CLOEXEC);
	struct stat status;
	void *image;
	int error;

	if (fd < 0 || fstat(fd, &status))
		return -errno;
	if (status.st_size <= 0)
		return -GDEV_E_INVALID_IMAGE;
	image = mmap(NULL, (size_t)status.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
	if (image == MAP_FAILED)
		return -errno;
	error = gdev_module_load(
		handle->session, image, (size_t)status.st_size, log, log_size, module);
	munmap(image, (size_t)status.st_size);
	return error;
}

int gmodule_unload(struct gdev_handle *handle, struct gdev_module *module)
{
	TRACE_SPAN();

	gdev_module_unload(module);
	return gdev_session_error(handle->session, NULL);
}

int gmodule_function(struct gdev_handle *handle, struct gdev_module *module, const char *name,
	struct gdev_function **function)
{
	TRACE_SPAN();

	return gdev_module_function(module, name, function);
}

int gmodule_global(struct gdev_handle *handle, struct gdev_module *module, const char *name,
	uint64_t *address, uint64_t *size)
{
	TRACE_SPAN();

	return gdev_module_global(module, name, address, size);
}

/* ---- query and tune ---- */

static int query_multiprocessors(struct gdev_session *session, uint64_t *result)
{
	int32_t value;
	int error = gdev_session_property(session, PROPERTY_MULTIPROCESSORS, &value);

	if (!error)
		*result = (uint64_t)value;
	return error;
}

int gquery(struct gdev_handle *handle, enum gdev_query_type type, uint64_t *result)
{
	TRACE_SPAN();
	struct gdev_session *session = handle->session;
	uint64_t free_bytes, total_bytes;
	int error;

	switch (type) {
	case GQUERY_MEMORY_BYTES:
		*result = gdev_session_description(session)->memory_bytes;
		return 0;
	case GQUERY_MEMORY_FREE_BYTES:
		error = gdev_memory_info(session, &free_bytes, &total_bytes);
		if (!error)
			*result = free_bytes;
		return error;
	case GQUERY_MULTIPROCESSORS:
		return query_multiprocessors(session, result);
	case GQUERY_CHUNK_BYTES:
		return gdev_session_query(session, GDEV_QUERY_CHUNK_BYTES, result);
	case GQUERY_LAUNCHES:
		return gdev_session_query(session, GDEV_QUERY_LAUNCHES, result);
	case GQUERY_COMPUTE_NS:
		return gdev_session_query(session, GDEV_QUERY_COMPUTE_NS, result);
	case GQUERY_TO_DEVICE_BYTES:
		return gdev_session_query(session, GDEV_QUERY_TO_DEVICE_BYTES, result);
	case GQUERY_FROM_DEVICE_BYTES:
		return gdev_session_query(session, GDEV_QUERY_FROM_DEVICE_BYTES, result);
	}
	return -EINVAL;
}

int gtune(struct gdev_handle *handle, enum gdev_tune_type type, uint64_t value)
{
	TRACE_SPAN();

	switch (type) {
	case GTUNE_CHUNK_BYTES:
		return gdev_session_tune(handle->session, GDEV_TUNE_CHUNK_BYTES, value);
	case GTUNE_INLINE_BYTES:
		return gdev_session_tune(handle->session, GDEV_TUNE_INLINE_BYTES, value);
	case GTUNE_SPIN_NS:
		return gdev_session_tune(handle->session, GDEV_TUNE_SPIN_NS, value);
	}
	return -EINVAL;
}

/* ---- shared memory ---- */

int gshmget(struct gdev_handle *handle, int32_t key, uint64_t size, int flags, uint32_t *id)
{
	TRACE_SPAN();

	return gdev_shm_get_or_make(handle->session, key, size, flags, id);
}

int gshmat(struct gdev_handle *handle, uint32_t id, int flags, uint64_t *address)
{
	TRACE_SPAN();

	return gdev_shm_attach(handle->session, id, flags, address);
}

int gshmdt(struct gdev_handle *handle, uint64_t address)
{
	TRACE_SPAN();

	return gdev_shm_detach(handle->session, address);
}

int gshmctl(struct gdev_handle *handle, uint32_t id, int command, void *buffer)
{
	TRACE_SPAN();

	return gdev_shm_control(handle->session, id, command, buffer);
}

int gref(struct gdev_handle *owner, uint64_t address, uint64_t size, struct gdev_handle *user,
	uint64_t *user_address)
{
	TRACE_SPAN();
	struct gdev_range range;
	int error;

	if (owner->session != user->session)
		return -EXDEV;
	gdev_memory_lookup(owner->session, address, &range);
	if (range.kind == GDEV_MEMORY_UNKNOWN || range.base != address || size > range.bytes)
		return -EINVAL;
	error = gdev_memory_ref(owner->session, address);
	if (!error)
		*user_address = address;
	return error;
}

int gunref(struct gdev_handle *user, uint64_t address)
{
	TRACE_SPAN();

	return gdev_memory_free(user->session, address);
}
