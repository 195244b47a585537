/* SPDX-License-Identifier: MIT
 *
 * For programs of the first Gdev, which say #include "gdev_api.h": its calls as they were, whose results are handles,
 * addresses and pointers (0 or NULL: they failed), on those of <gdev/gdev.h>, which new programs use. Link with -lgdev.
 *
 * A kernel was machine code of a GPU of 2011 in a structure; none is left that takes it. glaunch() is that of gdev.h,
 * with a function of a module (gmodule_load) in its structure.
 */
#ifndef GDEV_API_H
#define GDEV_API_H

#include <errno.h>
#include <gdev/gdev.h>
#include <gdev/session.h>
#include <stddef.h>
#include <sys/ipc.h>

typedef struct gdev_handle *Ghandle;

struct gdev_time {
	uint64_t sec, usec;
	int neg;
};

enum {
	GDEV_TUNE_MEMCPY_PIPELINE_COUNT = 1,
	GDEV_TUNE_MEMCPY_CHUNK_SIZE = 2,
	GDEV_QUERY_DEVICE_MEM_SIZE = 1,
	GDEV_QUERY_DMA_MEM_SIZE = 2,
	GDEV_QUERY_CHIPSET = 3,
	GDEV_IPC_STAT = 1,
	GDEV_IPC_SET = 2,
	GDEV_IPC_RMID = 3,
};

static inline Ghandle gdev_api_open(int minor)
{
	Ghandle handle = NULL;

	return gopen(minor, &handle) ? NULL : handle;
}

static inline uint64_t gdev_api_malloc(Ghandle handle, uint64_t size)
{
	uint64_t address = 0;

	return gmalloc(handle, size, &address) ? 0 : address;
}

/* Not 0: it is free. (It was the size.) */
static inline uint64_t gdev_api_free(Ghandle handle, uint64_t address)
{
	return gfree(handle, address) ? 0 : 1;
}

static inline void *gdev_api_malloc_dma(Ghandle handle, uint64_t size)
{
	void *buffer = NULL;

	return gmalloc_dma(handle, size, &buffer) ? NULL : buffer;
}

static inline uint64_t gdev_api_free_dma(Ghandle handle, void *buffer)
{
	return gfree_dma(handle, buffer) ? 0 : 1;
}

static inline void *gdev_api_map(Ghandle handle, uint64_t address, uint64_t size)
{
	void *buffer = NULL;

	return gmap(handle, address, size, &buffer) ? NULL : buffer;
}

/* timeout NULL: however long it takes. */
static inline int gdev_api_sync(Ghandle handle, uint32_t id, const struct gdev_time *timeout)
{
	uint64_t ns = GDEV_FOREVER;

	if (timeout)
		ns = timeout->neg ? 0 : timeout->sec * 1000000000u + timeout->usec * 1000u;
	return gsync(handle, id, ns);
}

static inline int gdev_api_query(Ghandle handle, uint32_t type, uint64_t *result)
{
	return type == GDEV_QUERY_DEVICE_MEM_SIZE ? gquery(handle, GQUERY_MEMORY_BYTES, result)
						  : -ENOTSUP;
}

/* How many pieces of a copy are under way at a time is gdev's to choose. */
static inline int gdev_api_tune(Ghandle handle, uint32_t type, uint32_t value)
{
	if (type == GDEV_TUNE_MEMCPY_PIPELINE_COUNT)
		return value ? 0 : -EINVAL;
	return type == GDEV_TUNE_MEMCPY_CHUNK_SIZE ? gtune(handle, GTUNE_CHUNK_BYTES, value)
						   : -EINVAL;
}

/* The segment, or negative. */
static inline int gdev_api_shmget(Ghandle handle, int key, uint64_t size, int flags)
{
	uint32_t id = 0;
	int error = gshmget(handle, key, size, flags, &id);

	return error ? error : (int)id;
}

/* address: a wish, which is not fulfilled. */
static inline uint64_t gdev_api_shmat(Ghandle handle, int id, uint64_t address, int flags)
{
	uint64_t attached = 0;

	return gshmat(handle, (uint32_t)id, flags, &attached) ? 0 : attached;
}

static inline int gdev_api_shmctl(Ghandle handle, int id, int command, void *buffer)
{
	switch (command) {
	case GDEV_IPC_STAT:
		return gshmctl(handle, (uint32_t)id, IPC_STAT, buffer);
	case GDEV_IPC_SET:
		return gshmctl(handle, (uint32_t)id, IPC_SET, buffer);
	case GDEV_IPC_RMID:
		return gshmctl(handle, (uint32_t)id, IPC_RMID, buffer);
	default:
		return -EINVAL;
	}
}

#define gopen(minor) gdev_api_open(minor)
#define gmalloc(handle, size) gdev_api_malloc(handle, size)
#define gfree(handle, address) gdev_api_free(handle, address)
#define gmalloc_dma(handle, size) gdev_api_malloc_dma(handle, size)
#define gfree_dma(handle, buffer) gdev_api_free_dma(handle, buffer)
#define gmap(handle, address, size) gdev_api_map(handle, address, size)
#define gmemcpy_user_to_device gmemcpy_to_device
#define gmemcpy_user_to_device_async gmemcpy_to_device_async
#define gmemcpy_user_from_device gmemcpy_from_device
#define gmemcpy_user_from_device_async gmemcpy_from_device_async
#define gmemcpy_in_device gmemcpy
#define gsync(handle, id, timeout) gdev_api_sync(handle, id, timeout)
#define gquery(handle, type, result) gdev_api_query(handle, type, result)
#define gtune(handle, type, value) gdev_api_tune(handle, type, value)
#define gshmget(handle, key, size, flags) gdev_api_shmget(handle, key, size, flags)
#define gshmat(handle, id, address, flags) gdev_api_shmat(handle, id, address, flags)
#define gshmctl(handle, id, command, buffer) gdev_api_shmctl(handle, id, command, buffer)

#endif
