/* SPDX-License-Identifier: MIT
 *
 * See swap.h.
 */
#include "worker/memory/swap.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/sysinfo.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/log.h"
#include "gdev/error.h"

#include "worker/core.h"
#include "worker/usage.h"

#define HUGE_PAGE (2ull << 20)
#define POPULATE_BYTES (8ull << 20) /* less is one thread's */
#define POPULATE_THREADS 4u
#define KEEP_NS (10 * NS_PER_S) /* unused for so long, slots go back to the host */

void swap_init(struct core *core)
{
	struct swap *swap = &core->swap;

	list_init(&swap->free);
	list_init(&swap->filed);
	list_init(&swap->gone);
	swap->fd = -1;
}

static void free_pages(struct core *core, void *base, uint64_t bytes)
{
	if (!base)
		return;
	memory_unregister(core, (uintptr_t)base, bytes);
	munmap(base, bytes);
}

void swap_finish(struct core *core)
{
	struct swap *swap = &core->swap;
	struct swap_slot *slot, *next;

	swap_trim(core, 0);
	list_for_each_safe (slot, next, &swap->filed, by_offset)
		free(slot);
	free_pages(core, swap->out.base, DEVICE_CHUNK_MAX);
	free_pages(core, swap->in.base, DEVICE_CHUNK_MAX);
	if (swap->fd >= 0)
		close(swap->fd); /* the last one: the file is gone */
}

/* ---- the account ---- */

/* With the lock. Gives back what is charged and not needed; of the other pool first, and then of `better`. */
static void return_surplus(struct core *core, enum swap_pool better)
{
	struct swap *swap = &core->swap;
	uint64_t needed = core->memory.swap_bytes + core->residency.promised_bytes +
			  swap->free_bytes + swap->exchanged_bytes;
	uint64_t charged = swap->charged[SWAP_MEMORY] + swap->charged[SWAP_FILE];
	uint64_t surplus = charged - min_of(charged, needed);
	struct control_return back = {0};

	usage_set(&core->page->swap_kept_bytes, swap->free_bytes);
	for (unsigned i = 0; i < SWAP_POOLS; i++) {
		unsigned pool = i ? better : SWAP_POOLS - 1 - better;
		uint64_t part = min_of(surplus, swap->charged[pool] - swap->made[pool]);
		surplus -= part;
		swap->charged[pool] -= part;
		back.swap_bytes[pool] = part;
	}
	memory_return(core, back);
}

void swap_settle(struct core *core)
{
	return_surplus(core, SWAP_MEMORY);
}

/* With the lock. Room for a slot in the pool, of what we have been charged. */
static bool take_charged(struct swap *swap, enum swap_pool pool, uint64_t bytes)
{
	if (swap->made[pool] + bytes > swap->charged[pool])
		return false;
	swap->made[pool] += bytes;
	return true;
}

static void give_back(struct core *core, enum swap_pool pool, uint64_t bytes)
{
	core_lock(core);
	core->swap.made[pool] -= bytes;
	swap_settle(core);
	core_unlock(core);
}

static void give_job(struct job *job)
{
	struct swap *swap = container_of(job, struct swap, give_job);
	struct core *core = container_of(swap, struct core, swap);
	struct control_evicted answer = {
		.header = {sizeof answer, CONTROL_EVICTED, CONTROL_VERSION, 0, 0}};
	struct control_evict order;
	uint64_t kept;

	core_lock(core);
	kept = swap->free_bytes;
	order = swap->order;
	core_unlock(core);
	swap_trim(core, kept - min_of(kept, order.bytes));
	if (order.flags & EVICT_MOVE && order.bytes > kept)
		evict_to_file(core, order.bytes - kept);
	core_lock(core);
	swap->giving = false;
	/* Not the serial of `order`: a new gdevd may have sent another order meanwhile. */
	answer.header.serial = swap->order.header.serial;
	answer.rest = evict_rest(core,
		order.flags & EVICT_MOVE && (core->residency.wanted_bytes || core->streams.busy));
	control_send(core, &answer, NULL, 0);
	evict_eased(core);
	core_unlock(core);
}

void swap_give(struct core *core, const struct control_evict *order)
{
	core->swap.order = *order;
	if (core->swap.giving)
		return;
	core->swap.giving = true;
	service_job(core, LANE_ORDERS, &core->swap.give_job, give_job);
}

/* ---- slots in memory ---- */

/* Memory of large pages, if the host has some: they are there, and registered, several times as fast. */
static void *reserve_addresses(uint64_t bytes)
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

static void *touch_pages(void *argument)
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
static int populate_pages(void *base, uint64_t bytes)
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
			started[i] = !pthread_create(&threads[i], NULL, touch_pages, &parts[i]);
		if (!started[i] && parts[i].bytes)
			touch_pages(&parts[i]);
	}
	for (unsigned i = 0; i < count; i++) {
		if (started[i])
			pthread_join(threads[i], NULL);
		error = error ? error : parts[i].error;
	}
	return error;
}

/* Memory whose pages are there, and which the device can reach. */
static int make_pages(struct core *core, uint64_t bytes, void **result)
{
	void *base = reserve_addresses(bytes);
	int error = base ? populate_pages(base, bytes) : -ENOMEM;

	if (!error)
		error = memory_register(core, (uintptr_t)base, bytes);
	if (!error)
		*result = base;
	else if (base)
		munmap(base, bytes);
	return error;
}

static int make_slot(struct core *core, uint64_t bytes, struct swap_slot **result)
{
	struct swap_slot *slot = calloc(1, sizeof *slot);

	if (!slot || make_pages(core, bytes, &slot->base)) {
		free(slot);
		log_error("host swap: no memory for another %llu MiB",
			(unsigned long long)(bytes >> 20));
		return -ENOMEM;
	}
	slot->bytes = bytes;
	list_init(&slot->link);
	list_init(&slot->by_offset);
	*result = slot;
	return 0;
}

static void destroy_kept(struct core *core, struct swap_slot *slot)
{
	free_pages(core, slot->base, slot->bytes);
	give_back(core, SWAP_MEMORY, slot->bytes);
	free(slot);
}

/* ---- slots in the file ---- */

void swap_take_file(struct core *core, int *fd)
{
	if (core->swap.fd < 0)
		core->swap.fd = steal_fd(fd);
}

/* Between two others, where there is room. */
static void place_in_file(struct swap *swap, struct swap_slot *slot)
{
	struct swap_slot *other;

	list_for_each (other, &swap->filed, by_offset) {
		if (other->offset - slot->offset >= slot->bytes)
			break;
		slot->offset = other->offset + other->bytes;
	}
	list_append(&other->by_offset, &slot->by_offset); /* in front of it */
}

/* When this succeeds the slot's blocks are taken: a disk that is full says so now, and not when the slot is written. */
static int make_filed(struct core *core, uint64_t bytes, struct swap_slot **result)
{
	struct swap *swap = &core->swap;
	struct swap_slot *slot = calloc(1, sizeof *slot);
	int error = 0;

	if (!slot)
		return -ENOMEM;
	slot->pool = SWAP_FILE;
	slot->bytes = bytes;
	list_init(&slot->link);
	core_lock(core);
	place_in_file(swap, slot);
	core_unlock(core);
	if (fallocate(swap->fd, 0, (off_t)slot->offset, (off_t)bytes) && errno != EOPNOTSUPP)
		error = -errno;
	if (!error) {
		*result = slot;
		return 0;
	}
	log_error("swap file: no room for another %llu MiB: %s", (unsigned long long)(bytes >> 20),
		gdev_strerror(error));
	core_lock(core);
	list_remove(&slot->by_offset);
	core_unlock(core);
	free(slot);
	return error;
}

/* Gives the blocks back; only then others may have their place. */
static void punch_job(struct job *job)
{
	struct swap *swap = container_of(job, struct swap, punch_job);
	struct core *core = container_of(swap, struct core, swap);

	for (;;) {
		struct swap_slot *slot;
		core_lock(core);
		slot = list_first(&swap->gone, struct swap_slot, link);
		if (slot)
			list_remove(&slot->link);
		else
			swap->punching = false;
		core_unlock(core);
		if (!slot)
			return;
		fallocate(swap->fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, (off_t)slot->offset,
			(off_t)slot->bytes);
		core_lock(core);
		list_remove(&slot->by_offset);
		core_unlock(core);
		give_back(core, SWAP_FILE, slot->bytes);
		free(slot);
	}
}

int swap_read(
	struct core *core, const struct swap_slot *slot, uint64_t at, void *to, uint64_t bytes)
{
	if (slot->pool == SWAP_FILE)
		return fd_read_at(core->swap.fd, to, bytes, slot->offset + at);
	memcpy(to, (const uint8_t *)slot->base + at, bytes);
	return 0;
}

int swap_write(struct core *core, const struct swap_slot *slot, uint64_t at, const void *from,
	uint64_t bytes)
{
	if (slot->pool == SWAP_FILE)
		return fd_write_at(core->swap.fd, from, bytes, slot->offset + at);
	memcpy((uint8_t *)slot->base + at, from, bytes);
	return 0;
}

int swap_make_buffer(struct core *core, struct swap_buffer *buffer)
{
	return buffer->base ? 0 : make_pages(core, DEVICE_CHUNK_MAX, &buffer->base);
}

bool swap_lend(struct swap_buffer *buffer, struct swap_slot *slot)
{
	if (slot->pool != SWAP_FILE)
		return true;
	if (buffer->lent)
		return false;
	buffer->lent = true;
	slot->buffer = buffer;
	slot->base = buffer->base;
	return true;
}

void swap_release(struct swap_slot *slot)
{
	if (!slot || !slot->buffer)
		return;
	slot->buffer->lent = false;
	slot->buffer = NULL;
	slot->base = NULL;
}

/* ---- getting and putting ---- */

/* With the lock. One that is kept; with another size it makes room. */
static struct swap_slot *take_kept(struct swap *swap, uint64_t bytes)
{
	struct swap_slot *slot, *found = NULL;

	list_for_each (slot, &swap->free, link) {
		if (slot->bytes != bytes)
			continue;
		found = slot;
		break;
	}
	if (!found && swap->made[SWAP_MEMORY] + bytes > swap->charged[SWAP_MEMORY])
		found = list_first(&swap->free, struct swap_slot, link);
	if (found) {
		list_remove(&found->link);
		swap->free_bytes -= found->bytes;
	}
	return found;
}

static int make_slot_in(
	struct core *core, enum swap_pool pool, uint64_t bytes, struct swap_slot **result)
{
	return pool == SWAP_MEMORY ? make_slot(core, bytes, result)
				   : make_filed(core, bytes, result);
}

/* Has gdevd charge us for one slot, in one pool, and takes it. Charged bytes that are not needed any more go back. When a
 * slot in memory moves to the file, its memory stays charged until memory_exchanged(): until then its bytes are there. */
static int charge_anew(
	struct core *core, uint64_t bytes, enum slot_place place, enum swap_pool *pool)
{
	const struct control_slot message = {
		.header = {sizeof message, CONTROL_SLOT, CONTROL_VERSION, 0, 0},
		.bytes = bytes,
		.place = place,
	};
	struct control_charged reply = {0};
	struct swap *swap = &core->swap;
	autoclose int fd = -1;
	size_t fd_count = 1;
	bool taken;
	int error =
		control_call(core, &message, CONTROL_CHARGED, &reply, sizeof reply, &fd, &fd_count);

	if (error)
		return -ENOMEM;
	*pool = reply.swap_bytes[SWAP_FILE] ? SWAP_FILE : SWAP_MEMORY;
	core_lock(core);
	memory_charged(core, &reply, &fd, fd_count);
	taken = take_charged(swap, *pool, bytes);
	if (taken && place == SLOT_IN_FILE)
		swap->exchanged_bytes += bytes;
	swap_settle(core);
	core_unlock(core);
	return taken ? 0 : -ENOMEM;
}

static int get_anew(
	struct core *core, uint64_t bytes, enum slot_place place, struct swap_slot **result)
{
	enum swap_pool pool;
	int error = charge_anew(core, bytes, place, &pool);

	if (error)
		return error;
	error = make_slot_in(core, pool, bytes, result);
	if (error)
		give_back(core, pool, bytes);
	return error;
}

/* One that is kept. NULL: none is, nor any of another size whose room it would need. */
static struct swap_slot *get_kept(struct core *core, uint64_t bytes)
{
	struct swap_slot *kept;

	for (;;) {
		core_lock(core);
		kept = take_kept(&core->swap, bytes);
		core_unlock(core);
		if (!kept || kept->bytes == bytes)
			return kept;
		destroy_kept(core, kept);
	}
}

/* One that is kept, or in room that is left of what we have been charged, else for more of it. */
static int get_slot(
	struct core *core, uint64_t bytes, enum slot_place place, struct swap_slot **result)
{
	enum swap_pool pools = place == SLOT_IN_MEMORY ? SWAP_MEMORY + 1 : SWAP_POOLS;
	struct swap_slot *kept = get_kept(core, bytes);
	bool any = false;
	int error = -ENOMEM;

	if (kept) {
		*result = kept;
		return 0;
	}
	for (enum swap_pool pool = SWAP_MEMORY; error && pool < pools; pool++) {
		bool taken;
		core_lock(core);
		taken = take_charged(&core->swap, pool, bytes);
		core_unlock(core);
		if (!taken)
			continue;
		any = true;
		error = make_slot_in(core, pool, bytes, result);
		if (error)
			give_back(core, pool, bytes);
	}
	return any ? error : get_anew(core, bytes, place, result);
}

/* Room for a part of a slot in memory: of what is left, if that is for it, else for more. gdevd is not asked to have others
 * move to their files, for which it might wait for our own. */
static int take_memory(struct core *core, uint64_t bytes, bool charged)
{
	enum swap_pool pool;
	bool left;
	int error;

	core_lock(core);
	left = charged && take_charged(&core->swap, SWAP_MEMORY, bytes);
	core_unlock(core);
	if (left)
		return 0;
	error = charge_anew(core, bytes, SLOT_ANYWHERE, &pool);
	if (error || pool == SWAP_MEMORY)
		return error;
	give_back(core, pool, bytes);
	return -ENOMEM;
}

/* No buffer takes what is larger than the largest chunk: it has to be in memory. gdevd charges for a chunk's worth at a time. */
static int make_large(struct core *core, uint64_t bytes, bool charged, struct swap_slot **result)
{
	uint64_t taken = 0;
	int error = 0;

	while (taken < bytes && !error) {
		uint64_t part = min_of(bytes - taken, (uint64_t)DEVICE_CHUNK_MAX);
		error = take_memory(core, part, charged);
		taken += error ? 0 : part;
	}
	if (!error)
		error = make_slot(core, bytes, result);
	if (error)
		give_back(core, SWAP_MEMORY, taken);
	return error;
}

int swap_get(struct core *core, uint64_t bytes, struct swap_slot **result)
{
	if (bytes <= DEVICE_CHUNK_MAX)
		return get_slot(core, bytes, SLOT_ANYWHERE, result);
	*result = get_kept(core, bytes);
	return *result ? 0 : make_large(core, bytes, true, result);
}

int swap_get_anew(struct core *core, uint64_t bytes, struct swap_slot **result)
{
	*result = get_kept(core, bytes);
	if (*result)
		return 0;
	return bytes <= DEVICE_CHUNK_MAX ? get_anew(core, bytes, SLOT_ANYWHERE, result)
					 : make_large(core, bytes, false, result);
}

int swap_to_memory(struct core *core, struct swap_slot **slot)
{
	struct swap_slot *filed = *slot, *memory;
	int error = get_slot(core, filed->bytes, SLOT_IN_MEMORY, &memory);

	if (error)
		return error;
	error = swap_read(core, filed, 0, memory->base, memory->bytes);
	core_lock(core);
	swap_put(core, error ? memory : filed);
	if (!error)
		*slot = memory;
	core_unlock(core);
	return error;
}

/* The slot in the file has been made, and memory of the same size goes back; or it was not made after all (`unmade`). */
static void memory_exchanged(struct core *core, uint64_t bytes, enum swap_pool unmade)
{
	core_lock(core);
	core->swap.made[unmade] -= bytes;
	core->swap.exchanged_bytes -= bytes;
	return_surplus(core, SWAP_FILE);
	core_unlock(core);
}

uint64_t swap_charge_to_file(struct core *core, uint64_t bytes)
{
	struct swap *swap = &core->swap;
	enum swap_pool pool;

	core_lock(core);
	bytes = min_of(bytes, swap->charged[SWAP_MEMORY] - swap->made[SWAP_MEMORY]);
	core_unlock(core);
	bytes = min_of(bytes, (uint64_t)DEVICE_CHUNK_MAX);
	if (!bytes || charge_anew(core, bytes, SLOT_IN_FILE, &pool))
		return 0;
	memory_exchanged(core, bytes, SWAP_FILE);
	return bytes;
}

int swap_to_file(struct core *core, struct swap_slot **slot)
{
	struct swap_slot *memory = *slot, *filed;
	uint64_t bytes = memory->bytes;
	enum swap_pool pool;
	int error = charge_anew(core, bytes, SLOT_IN_FILE, &pool);

	if (error)
		return error;
	error = make_filed(core, bytes, &filed);
	if (error) {
		memory_exchanged(core, bytes, SWAP_FILE);
		return error;
	}
	error = swap_write(core, filed, 0, memory->base, bytes);
	if (error) {
		core_lock(core);
		swap_put(core, filed);
		core->swap.exchanged_bytes -= bytes;
		core_unlock(core);
		return error;
	}
	*slot = filed;
	free_pages(core, memory->base, bytes);
	free(memory);
	memory_exchanged(core, bytes, SWAP_MEMORY);
	return 0;
}

void swap_put(struct core *core, struct swap_slot *slot)
{
	struct swap *swap = &core->swap;

	if (slot->pool == SWAP_FILE) {
		swap_release(slot);
		list_append(&swap->gone, &slot->link);
		if (!swap->punching)
			service_job(core, LANE_CALLS, &swap->punch_job, punch_job);
		swap->punching = true;
		return;
	}
	list_insert(&swap->free, &slot->link); /* the warmest first */
	swap->free_bytes += slot->bytes;
	usage_set(&core->page->swap_kept_bytes, swap->free_bytes);
	swap->trim_at_ns = clock_now_ns() + KEEP_NS;
	service_timer(core, swap->trim_at_ns);
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
			destroy_kept(core, slot);
	} while (slot);
}

/* ---- slots that are used where they are ---- */

/* Moves the slot's pages, with what is in them. */
static int move_slot(struct core *core, struct swap_slot *slot, void *to)
{
	int error = 0;

	memory_unregister(core, (uintptr_t)slot->base, slot->bytes);
	if (mremap(slot->base, slot->bytes, slot->bytes, MREMAP_MAYMOVE | MREMAP_FIXED, to) ==
		MAP_FAILED)
		error = -errno;
	else
		slot->base = to;
	return error ? error : memory_register(core, (uintptr_t)slot->base, slot->bytes);
}

/* Not every device can be given pages of a file. */
static int map_file(struct core *core, struct swap_slot *slot, uint64_t address)
{
	int error = memory_map_host(core, address, slot->bytes, core->swap.fd, slot->offset);

	if (!error)
		slot->base = (void *)(uintptr_t)address;
	return error;
}

int swap_map(struct core *core, struct swap_slot *slot, uint64_t address)
{
	int error;
	void *back;

	if (slot->pool == SWAP_FILE)
		return map_file(core, slot, address);
	error = move_slot(core, slot, (void *)(uintptr_t)address);
	if (!error)
		return 0;
	back = reserve_addresses(slot->bytes);
	if (back && !move_slot(core, slot, back))
		memory_reserve_again(address, slot->bytes);
	return error;
}

void swap_unmap(struct core *core, struct swap_slot *slot)
{
	uint64_t address = (uintptr_t)slot->base, bytes = slot->bytes;

	memory_unmap_host(core, address, bytes); /* where its pages were */
	core_lock(core);
	if (slot->pool == SWAP_FILE) {
		slot->base = NULL;
		swap_put(core, slot);
	} else {
		core->swap.made[SWAP_MEMORY] -= bytes;
		free(slot);
	}
	core_unlock(core);
}
