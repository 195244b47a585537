/* SPDX-License-Identifier: MIT
 *
 * What memory there is, byte by byte: what the client has allocated, variables of modules, what kernels have allocated.
 */
#include "device/cpu/checking/checking.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "base/cleanup.h"
#include "base/fd.h"
#include "device/cpu/fault.h"

#define WORD 4            /* bytes of a cell */
#define SMALL_BYTES 65536 /* of cells, which then come from malloc */

static size_t cells_bytes(uint64_t base, uint64_t bytes)
{
	return (size_t)((base % WORD + bytes + WORD - 1) / WORD) * sizeof(struct check_cell);
}

/* A file in memory, because pages of it that nobody touches count for nothing. */
static struct check_cell *cells_create(uint64_t base, uint64_t bytes)
{
	size_t size = cells_bytes(base, bytes);
	autoclose int fd = -1;
	void *cells;

	if (size <= SMALL_BYTES)
		return calloc(1, size);
	fd = fd_shared_memory("gdev-check", size);
	if (fd < 0)
		return NULL;
	cells = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	return cells == MAP_FAILED ? NULL : cells;
}

static void cells_destroy(const struct check_range *range)
{
	size_t size = cells_bytes(range->base, range->bytes);

	if (size <= SMALL_BYTES)
		free(range->cells);
	else
		munmap(range->cells, size);
}

int checking_begin(struct checking **out, uint32_t checks)
{
	struct checking *checking;

	if (*out || !checks || checks >> DEVICE_CHECKS)
		return -EINVAL;
	checking = calloc(1, sizeof *checking);
	if (!checking)
		return -ENOMEM;
	checking->reports = calloc(CHECK_REPORTS_MAX, sizeof *checking->reports);
	if (!checking->reports) {
		free(checking);
		return -ENOMEM;
	}
	checking->checks = checks;
	pthread_mutex_init(&checking->lock, NULL);
	*out = checking;
	return 0;
}

void checking_destroy(struct checking *checking)
{
	if (!checking)
		return;
	for (size_t i = 0; i < checking->range_count; i++)
		cells_destroy(&checking->ranges[i]);
	free(checking->ranges);
	free(checking->reports);
	pthread_mutex_destroy(&checking->lock);
	free(checking);
}

/* The index of the first range above the address. Lock held. */
static size_t ranges_above(const struct checking *checking, uint64_t address)
{
	size_t low = 0, high = checking->range_count;

	while (low < high) {
		size_t middle = (low + high) / 2;

		if (checking->ranges[middle].base <= address)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

static int make_room(struct checking *checking)
{
	size_t capacity = checking->range_capacity ? 2 * checking->range_capacity : 64;
	struct check_range *more;

	if (checking->range_count < checking->range_capacity)
		return 0;
	more = realloc(checking->ranges, capacity * sizeof *more);
	if (!more)
		return -ENOMEM;
	checking->ranges = more;
	checking->range_capacity = capacity;
	return 0;
}

static int insert(struct checking *checking, const struct check_range *range)
{
	size_t at = ranges_above(checking, range->base);
	const struct check_range *below = at ? &checking->ranges[at - 1] : NULL;

	if ((below && range->base - below->base < below->bytes) ||
		(at < checking->range_count &&
			checking->ranges[at].base - range->base < range->bytes))
		return -EINVAL;
	if (make_room(checking))
		return -ENOMEM;
	memmove(&checking->ranges[at + 1], &checking->ranges[at],
		(checking->range_count++ - at) * sizeof *checking->ranges);
	checking->ranges[at] = *range;
	__atomic_fetch_add(&checking->changes, 1, __ATOMIC_RELAXED);
	return 0;
}

static bool become_defined(struct checking *checking, uint64_t base, uint64_t bytes)
{
	struct check_range *range;
	bool known;
	size_t above;

	pthread_mutex_lock(&checking->lock);
	above = ranges_above(checking, base);
	range = above ? &checking->ranges[above - 1] : NULL;
	known = range && range->base == base && range->bytes == bytes;
	if (known) {
		range->defined = 1;
		__atomic_fetch_add(&checking->changes, 1, __ATOMIC_RELAXED);
	}
	pthread_mutex_unlock(&checking->lock);
	return known;
}

int checking_add(struct checking *checking, uint64_t base, uint64_t bytes, bool defined)
{
	struct check_range range = {.base = base, .bytes = bytes, .defined = defined};
	int error;

	if (!bytes || base + bytes < base || bytes > UINT64_MAX / sizeof(struct check_cell))
		return -EINVAL;
	if (defined && become_defined(checking, base, bytes))
		return 0;
	range.cells = cells_create(base, bytes);
	if (!range.cells)
		return -ENOMEM;
	pthread_mutex_lock(&checking->lock);
	error = insert(checking, &range);
	pthread_mutex_unlock(&checking->lock);
	if (error)
		cells_destroy(&range);
	return error;
}

void checking_remove(struct checking *checking, uint64_t base)
{
	struct check_range range = {0};
	size_t at;

	pthread_mutex_lock(&checking->lock);
	at = ranges_above(checking, base);
	if (at && checking->ranges[at - 1].base == base) {
		range = checking->ranges[at - 1];
		memmove(&checking->ranges[at - 1], &checking->ranges[at],
			(checking->range_count-- - at) * sizeof *checking->ranges);
		__atomic_fetch_add(&checking->changes, 1, __ATOMIC_RELAXED);
	}
	pthread_mutex_unlock(&checking->lock);
	if (range.bytes)
		cells_destroy(&range);
}

bool checking_find(struct checking *checking, uint64_t address, struct check_range *range)
{
	size_t above;
	bool found;

	*range = (struct check_range){0};
	pthread_mutex_lock(&checking->lock);
	above = ranges_above(checking, address);
	if (above)
		*range = checking->ranges[above - 1];
	else if (checking->range_count)
		*range = checking->ranges[0];
	found = above && address - range->base < range->bytes;
	pthread_mutex_unlock(&checking->lock);
	return found;
}

static void define_in(const struct check_range *range, uint64_t from, uint64_t to)
{
	uint64_t origin = range->base - range->base % WORD;

	while (from < to) {
		struct check_cell *cell = &range->cells[(from - origin) / WORD];
		unsigned first = from % WORD;
		unsigned count = (unsigned)min_of(to - from, (uint64_t)(WORD - first));

		if (count == WORD)
			cell->write = 15;
		else
			cell->write |= ((1u << count) - 1) << first;
		from += count;
	}
}

void checking_define(struct checking *checking, uint64_t address, uint64_t bytes)
{
	struct fault_guard *guard = fault_suspend();
	uint64_t end = address + bytes;

	pthread_mutex_lock(&checking->lock);
	for (size_t i = ranges_above(checking, address) ? ranges_above(checking, address) - 1 : 0;
		i < checking->range_count && checking->ranges[i].base < end; i++) {
		const struct check_range *range = &checking->ranges[i];

		if (!range->defined)
			define_in(range, max_of(address, range->base),
				min_of(end, range->base + range->bytes));
	}
	pthread_mutex_unlock(&checking->lock);
	fault_resume(guard);
}
