/* SPDX-License-Identifier: MIT
 *
 * See swap.h.
 */
#include "worker/swap.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/sysinfo.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/log.h"

#include "worker/core.h"

#define HUGE_PAGE (2ull << 20)
#define POPULATE_BYTES (8ull << 20) /* less is one thread's */
#define POPULATE_THREADS 4u
#define KEEP_NS (10 * NS_PER_S) /* unused for so long, slots go back to the host */

void swap_init(struct core *core)
{
	struct swap *swap = &core->swap;

	list_init(&swap->free);
}

static void destroy(struct core *core, struct swap_slot *slot)
{
	if (core->ops->host_unregister)
		core->ops->host_unregister(core->space, (uintptr_t)slot->base, slot->bytes);
	munmap(slot->base, slot->bytes);
	free(slot);
}

void swap_finish(struct core *core)
{
	swap_trim(core, 0);
}

/* Memory of large pages, if the host has some: they are there, and registered, several times as fast. */
static void *reserve(uint64_t bytes)
{
	uint8_t *base = mmap(NULL, bytes + HUGE_PAGE, PROT_READ | PROT_WRITE,
		MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	uint64_t before;

	if (base == MAP_FAILED)
		return NULL;
	before = -(uintptr_t)base % HUGE_PAGE;
	if (before)
		munmap(base, before);
	munmap(base + before + bytes, HUGE_PAGE - before);
	madvise(base + before, bytes, MADV_HUGEPAGE); /* a wish */
	return base + before;
}

struct part {
	uint8_t *base;
	uint64_t bytes;
	int error;
};

static void *touch(void *argument)
{
	struct part *part = argument;

	if (!madvise(part->base, part->bytes, MADV_POPULATE_WRITE))
		return NULL;
	part->error = errno == EINVAL ? 0 : -errno;
	for (uint64_t at = 0; !part->error && at < part->bytes; at += 4096) /* before Linux 5.14 */
		*(volatile uint8_t *)(part->base + at) = 0;
	return NULL;
}

/* The slot's pages are there when this succeeds: nothing faults, and nothing is killed, later. Most of the time
 * goes into zeroing them. */
static int populate(void *base, uint64_t bytes)
{
	unsigned count =
		bytes < POPULATE_BYTES ? 1 : min_of(POPULATE_THREADS, (unsigned)get_nprocs());
	struct part parts[POPULATE_THREADS];
	pthread_t threads[POPULATE_THREADS];
	uint64_t share = align_up(bytes / count, HUGE_PAGE), at = 0;
	bool started[POPULATE_THREADS] = {0};
	int error = 0;

	for (unsigned i = 0; i < count; i++) {
		parts[i] = (struct part){(uint8_t *)base + at, min_of(share, bytes - at), 0};
		at += parts[i].bytes;
		if (i + 1 < count)
			started[i] = !pthread_create(&threads[i], NULL, touch, &parts[i]);
		if (!started[i] && parts[i].bytes)
			touch(&parts[i]);
	}
	for (unsigned i = 0; i < count; i++) {
		if (started[i])
			pthread_join(threads[i], NULL);
		error = error ? error : parts[i].error;
	}
	return error;
}

static int make_slot(struct core *core, uint64_t bytes, struct swap_slot **result)
{
	struct swap_slot *slot = calloc(1, sizeof *slot);
	int error = -ENOMEM;

	if (!slot)
		goto err;
	slot->bytes = bytes;
	list_init(&slot->link);
	slot->base = reserve(bytes);
	if (!slot->base)
		goto err_free;
	error = populate(slot->base, bytes);
	if (!error && core->ops->host_register)
		error = core->ops->host_register(core->space, (uintptr_t)slot->base, bytes);
	if (error)
		goto err_unmap;
	*result = slot;
	return 0;
err_unmap:
	munmap(slot->base, bytes);
err_free:
	free(slot);
err:
	log_error("host swap: no memory for another %llu MiB", (unsigned long long)(bytes >> 20));
	return -ENOMEM;
}

int swap_get(struct core *core, uint64_t bytes, struct swap_slot **result)
{
	struct swap_slot *slot, *found = NULL;

	core_lock(core);
	list_for_each (slot, &core->swap.free, link) {
		if (slot->bytes == bytes) {
			found = slot;
			list_remove(&slot->link);
			core->swap.free_bytes -= bytes;
			break;
		}
	}
	core_unlock(core);
	if (!found)
		return make_slot(core, bytes, result);
	*result = found;
	return 0;
}

void swap_put(struct core *core, struct swap_slot *slot)
{
	list_insert(&core->swap.free, &slot->link); /* the warmest first */
	core->swap.free_bytes += slot->bytes;
	core->swap.trim_at_ns = clock_now_ns() + KEEP_NS;
	service_timer(core, core->swap.trim_at_ns);
}

void swap_trim(struct core *core, uint64_t limit)
{
	struct swap *swap = &core->swap;
	struct swap_slot *slot;

	do {
		core_lock(core);
		slot = swap->free_bytes > limit ? list_first(&swap->free, struct swap_slot, link)
						: NULL;
		if (slot) {
			list_remove(&slot->link);
			swap->free_bytes -= slot->bytes;
		}
		core_unlock(core);
		if (slot)
			destroy(core, slot);
	} while (slot);
}

/* Moves the slot's pages, with what is in them. */
static int move(struct core *core, struct swap_slot *slot, void *to)
{
	const struct device_ops *ops = core->ops;
	int error = 0;

	if (ops->host_unregister)
		ops->host_unregister(core->space, (uintptr_t)slot->base, slot->bytes);
	if (mremap(slot->base, slot->bytes, slot->bytes, MREMAP_MAYMOVE | MREMAP_FIXED, to) ==
		MAP_FAILED)
		error = -errno;
	else
		slot->base = to;
	if (!error && ops->host_register)
		error = ops->host_register(core->space, (uintptr_t)slot->base, slot->bytes);
	return error;
}

int swap_map(struct core *core, struct swap_slot *slot, uint64_t address)
{
	int error = move(core, slot, (void *)(uintptr_t)address);
	void *back;

	if (!error)
		return 0;
	back = reserve(slot->bytes);
	if (back && !move(core, slot, back))
		memory_reserve_again(address, slot->bytes);
	return error;
}

void swap_unmap(struct core *core, struct swap_slot *slot)
{
	uint64_t address = (uintptr_t)slot->base, bytes = slot->bytes;

	if (core->ops->host_unregister)
		core->ops->host_unregister(core->space, address, bytes);
	memory_reserve_again(address, bytes); /* where its pages were */
	free(slot);
}
