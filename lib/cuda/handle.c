/* SPDX-License-Identifier: MIT
 *
 * Handles. Objects of one type live in one reserved range of addresses, all of one size, and their memory
 * is used only for that type again. So it can be said of any value whether it is a living object, without
 * a lock and without touching memory that is not ours.
 */
#include <sys/mman.h>

#include "lib/cuda/internal.h"

struct handle_region handle_regions[HANDLE_TYPES];

/* Guards making regions, and what follows. */
static pthread_mutex_t *const lock = &process_locks[LOCK_HANDLES];
static struct {
	size_t high; /* objects ever used */
	void *free;  /* the first free object; its second word points to the next */
} objects[HANDLE_TYPES];

struct free_object {
	_Atomic uint32_t word;
	struct free_object *next;
};

/* Regions are not malloc'ed: the leak checker is told of what may point to memory. */
#if defined(__SANITIZE_ADDRESS__)
void __lsan_register_root_region(const void *begin, size_t size);
#else
static void __lsan_register_root_region(const void *begin, size_t size)
{
}
#endif

static bool region_reserve(struct handle_region *region, size_t size)
{
	void *base = mmap(NULL, HANDLE_REGION_BYTES, PROT_READ | PROT_WRITE,
		MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	if (base == MAP_FAILED)
		return false;
	region->size = sizeof(struct free_object);
	while (region->size < size)
		region->size *= 2;
	atomic_store_explicit(&region->base, (uintptr_t)base, memory_order_release);
	return true;
}

void *handle_create(enum handle_type type, size_t size)
{
	struct handle_region *region = &handle_regions[type];
	struct free_object *object = NULL;

	pthread_mutex_lock(lock);
	if (!region->base && !region_reserve(region, size))
		goto out;
	object = objects[type].free;
	if (object) {
		objects[type].free = object->next;
	} else if ((objects[type].high + 1) * region->size <= HANDLE_REGION_BYTES) {
		object = (void *)(region->base + objects[type].high++ * region->size);
		__lsan_register_root_region(object, region->size);
	}
out:
	pthread_mutex_unlock(lock);
	if (!object)
		return NULL;
	__builtin_memset(object, 0, region->size);
	atomic_store_explicit(&object->word, HANDLE_ALIVE | type, memory_order_release);
	return object;
}

void handle_destroy(enum handle_type type, void *handle)
{
	struct free_object *object = handle;

	pthread_mutex_lock(lock);
	atomic_store_explicit(&object->word, 0, memory_order_release);
	object->next = objects[type].free;
	objects[type].free = object;
	pthread_mutex_unlock(lock);
}
