/* SPDX-License-Identifier: MIT
 *
 * See swap.h.
 */
#include "worker/swap.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/log.h"

#include "worker/core.h"

#define KEEP_NS (10 * NS_PER_S) /* unused for so long, slots go back to the host */

void swap_init(struct core *core)
{
	struct swap *swap = &core->swap;

	list_init(&swap->free);
	pthread_mutex_init(&swap->grow_lock, NULL);
	swap->fd = -1;
}

static void destroy(struct core *core, struct swap_slot *slot)
{
	if (core->ops->host_unregister)
		core->ops->host_unregister(core->space, (uintptr_t)slot->base, slot->bytes);
	munmap(slot->base, slot->bytes);
	fallocate(core->swap.fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, (off_t)slot->offset,
		(off_t)slot->bytes);
	free(slot);
}

void swap_finish(struct core *core)
{
	swap_trim(core, 0);
	if (core->swap.fd >= 0)
		close(core->swap.fd);
	pthread_mutex_destroy(&core->swap.grow_lock);
}

/* Its pages are there when this succeeds: nothing faults, and nothing is killed, later. */
static int take_space(struct swap *swap, uint64_t bytes, uint64_t *offset)
{
	int error = 0;

	pthread_mutex_lock(&swap->grow_lock);
	if (swap->fd < 0)
		swap->fd = memfd_create("gdev-swap", MFD_CLOEXEC);
	if (swap->fd < 0 || fallocate(swap->fd, 0, (off_t)swap->end, (off_t)bytes))
		error = -errno;
	*offset = swap->end;
	swap->end += error ? 0 : bytes;
	pthread_mutex_unlock(&swap->grow_lock);
	return error;
}

static int make_slot(struct core *core, uint64_t bytes, struct swap_slot **result)
{
	struct swap_slot *slot = calloc(1, sizeof *slot);
	int error = slot ? take_space(&core->swap, bytes, &slot->offset) : -ENOMEM;

	if (error)
		goto err_free;
	slot->bytes = bytes;
	list_init(&slot->link);
	slot->base = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE,
		core->swap.fd, (off_t)slot->offset);
	if (slot->base == MAP_FAILED) {
		error = -errno;
		goto err_free;
	}
	if (core->ops->host_register)
		error = core->ops->host_register(core->space, (uintptr_t)slot->base, bytes);
	if (error) {
		munmap(slot->base, bytes);
		goto err_free;
	}
	*result = slot;
	return 0;
err_free:
	log_error("host swap: no memory for another %llu MiB", (unsigned long long)(bytes >> 20));
	free(slot);
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

int swap_map(struct core *core, struct swap_slot *slot, uint64_t address)
{
	void *base = (void *)(uintptr_t)address;
	int error = 0;

	if (mmap(base, slot->bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED | MAP_POPULATE,
		    core->swap.fd, (off_t)slot->offset) == MAP_FAILED)
		return -errno;
	if (core->ops->host_register)
		error = core->ops->host_register(core->space, address, slot->bytes);
	if (error)
		memory_reserve_again(address, slot->bytes);
	return error;
}

void swap_unmap(struct core *core, struct swap_slot *slot, uint64_t address)
{
	if (core->ops->host_unregister)
		core->ops->host_unregister(core->space, address, slot->bytes);
	memory_reserve_again(address, slot->bytes);
}
