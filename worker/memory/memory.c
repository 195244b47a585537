/* SPDX-License-Identifier: MIT
 *
 * See memory.h: the map of ranges, allocation and freeing. What is paid is in charge.c, chunks are in
 * pieces.c. Making, mapping and unmapping chunks are jobs: they take system calls by the dozen.
 */
#include "worker/memory/memory.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "worker/command.h"
#include "worker/core.h"
#include "worker/memory/shm.h"

#define ADDRESSES_END (1ull << 47) /* of a process */

_Static_assert(DEVICE_RANGES_MAX == PEER_RANGES_MAX + 1, "the arena, and the others'");

void memory_init(struct core *core)
{
	list_init(&core->memory.kept);
	list_init(&core->memory.charges);
	list_init(&core->memory.holds);
	list_init(&core->memory.shared);
}

void memory_finish(struct core *core)
{
	struct memory *memory = &core->memory;

	while (memory->range_count) {
		struct range *range = memory->ranges[memory->range_count - 1];
		if (range->piece_count)
			memory_unmap_pieces(core, range, range->piece_count);
		memory_drop_pieces(core, range);
		if (range->kind == RANGE_HOST && range->ready)
			memory_unregister(core, range->address, range->bytes);
		if (range->array)
			core->ops->array_destroy(range->array);
		if (range->shared)
			shared_unmap(core, range);
		shared_destroy(range->shared);
		memory_remove(core, range);
	}
	memory_trim(core, 0);
	shared_finish(core);
	free(memory->ranges);
}

/* ---- the map ---- */

/* The index of the first range that ends behind `address`. */
static size_t first_behind(const struct memory *memory, uint64_t address)
{
	size_t low = 0, high = memory->range_count;

	while (low < high) {
		size_t middle = low + (high - low) / 2;
		const struct range *range = memory->ranges[middle];
		if (range->address + range->bytes > address)
			high = middle;
		else
			low = middle + 1;
	}
	return low;
}

struct range *memory_find(struct core *core, uint64_t address, uint64_t bytes)
{
	struct memory *memory = &core->memory;
	size_t index = first_behind(memory, address);
	struct range *range;

	if (index == memory->range_count)
		return NULL;
	range = memory->ranges[index];
	if (!range->ready || address < range->address ||
		bytes > range->bytes - (address - range->address))
		return NULL;
	return range;
}

static bool is_within(uint64_t address, uint64_t bytes, uint64_t base, uint64_t whole)
{
	return address >= base && address - base <= whole && bytes <= whole - (address - base);
}

/* In another session's arena only what it has too is mapped. */
static bool may_be_at(
	const struct core *core, enum range_kind kind, uint64_t address, uint64_t bytes)
{
	const struct memory *memory = &core->memory;

	if (is_within(address, bytes, core->session.arena_base, core->session.arena_bytes))
		return true;
	if (kind != RANGE_HOST && kind != RANGE_SHARED)
		return false;
	for (unsigned i = 0; i < memory->peer_count; i++)
		if (is_within(address, bytes, memory->peers[i].base, memory->peers[i].bytes))
			return true;
	return false;
}

static bool overlap(uint64_t base, uint64_t bytes, uint64_t other, uint64_t other_bytes)
{
	return base < other + other_bytes && other < base + bytes;
}

int memory_check_peer(struct core *core, uint64_t base, uint64_t bytes)
{
	const struct memory *memory = &core->memory;

	if (!base || !bytes || base % ARENA_ALIGN || bytes % ARENA_ALIGN ||
		bytes > PEER_RANGE_BYTES_MAX || base > ADDRESSES_END - bytes)
		return -EINVAL;
	for (unsigned i = 0; i < memory->peer_count; i++) {
		const struct peer_range *peer = &memory->peers[i];
		if (peer->base == base && peer->bytes == bytes)
			return -EEXIST;
		if (overlap(base, bytes, peer->base, peer->bytes))
			return -EINVAL;
	}
	if (overlap(base, bytes, core->session.arena_base, core->session.arena_bytes))
		return -EINVAL;
	return memory->peer_count < PEER_RANGES_MAX ? 0 : -ENOSPC;
}

void memory_add_peer(struct core *core, uint64_t base, uint64_t bytes)
{
	core->memory.peers[core->memory.peer_count++] = (struct peer_range){base, bytes};
}

static int grow_map(struct memory *memory)
{
	size_t capacity = memory->range_capacity ? 2 * memory->range_capacity : 64;
	struct range **ranges = realloc(memory->ranges, capacity * sizeof *ranges);

	if (!ranges)
		return -ENOMEM;
	memory->ranges = ranges;
	memory->range_capacity = capacity;
	return 0;
}

/* The device may pin what the client adds: no session takes all of the machine. */
static bool host_memory_is_left(const struct core *core, uint64_t bytes)
{
	const struct memory *memory = &core->memory;

	return memory->host_ranges < HOST_RANGES_MAX &&
	       bytes <= core->config.host_bytes - memory->host_bytes;
}

int memory_insert(struct core *core, enum range_kind kind, uint64_t address, uint64_t bytes,
	struct range **result)
{
	struct memory *memory = &core->memory;
	size_t index = first_behind(memory, address);
	struct range *range;
	uint64_t end;

	if (!bytes || __builtin_add_overflow(address, bytes, &end))
		return -EINVAL;
	if (kind != RANGE_VARIABLE && !may_be_at(core, kind, address, bytes))
		return -EINVAL;
	if (index < memory->range_count && memory->ranges[index]->address < end)
		return -EEXIST;
	if (kind == RANGE_HOST && !host_memory_is_left(core, bytes))
		return -ENOMEM;
	if (memory->range_count == memory->range_capacity && grow_map(memory))
		return -ENOMEM;
	range = calloc(1, sizeof *range);
	if (!range)
		return -ENOMEM;
	range->address = address;
	range->bytes = bytes;
	range->kind = kind;
	memmove(memory->ranges + index + 1, memory->ranges + index,
		(memory->range_count - index) * sizeof *memory->ranges);
	memory->ranges[index] = range;
	memory->range_count++;
	if (kind == RANGE_HOST) {
		memory->host_ranges++;
		memory->host_bytes += bytes;
	}
	*result = range;
	return 0;
}

void memory_remove(struct core *core, struct range *range)
{
	struct memory *memory = &core->memory;
	size_t index = first_behind(memory, range->address);

	memory->range_count--;
	if (range->kind == RANGE_HOST) {
		memory->host_ranges--;
		memory->host_bytes -= range->bytes;
	}
	memmove(memory->ranges + index, memory->ranges + index + 1,
		(memory->range_count - index) * sizeof *memory->ranges);
	free(range->pieces);
	free(range);
}

/* ---- allocation ---- */

static void alloc_job(struct job *job)
{
	struct command *command = container_of(job, struct command, job);
	struct core *core = command->core;
	struct range *range = command->range;
	uint64_t bytes = range->bytes;
	bool swapped = command->charge.swapped;
	int error;

	error = memory_make_pieces(core, bytes, 0, swapped, range);
	if (!error) {
		error = memory_map_pieces(core, range);
		if (error)
			memory_drop_pieces(core, range);
	}
	if (error) {
		free(range->pieces);
		range->pieces = NULL;
	}
	if (error == -ENOMEM && !swapped && memory_refused(core, &command->charge))
		return;
	core_lock(core);
	if (error) {
		memory_remove(core, range);
		if (swapped)
			memory_uncharge_swap(core, bytes);
		else
			memory_uncharge(core, bytes);
	} else {
		range->launches = core->residency.launches;
		range->copied_at = ++core->residency.copies;
		range->ready = true;
		if (swapped)
			residency_add(core, range);
	}
	command_answer(command, error, NULL, 0);
	core_unlock(core);
}

static void pay_decided(struct core *core, struct charge *charge, int status)
{
	struct command *command = container_of(charge, struct command, charge);

	if (!status) {
		service_job(core, LANE_CALLS, &command->job, command->job.run);
		return;
	}
	memory_remove(core, command->range);
	command_answer(command, status, NULL, 0);
}

void memory_pay(struct command *command, uint64_t bytes, void (*job)(struct job *job))
{
	command->job.run = job;
	command->charge.bytes = bytes;
	command->charge.decided = pay_decided;
	memory_charge(command->core, &command->charge);
}

void memory_alloc(struct command *command)
{
	const struct record_memory *record = command->request.memory;
	struct core *core = command->core;
	int error = -EINVAL;

	if (!(record->address % ARENA_ALIGN) && !(record->bytes % ARENA_ALIGN))
		error = memory_insert(
			core, RANGE_DEVICE, record->address, record->bytes, &command->range);
	if (error) {
		command_answer(command, error, NULL, 0);
		return;
	}
	command->charge.swappable = true;
	memory_pay(command, record->bytes, alloc_job);
}

/* ---- freeing ---- */

static void free_device_job(struct job *job)
{
	struct command *command = container_of(job, struct command, job);
	struct core *core = command->core;
	struct range *range = command->range;
	size_t count = range->piece_count;

	memory_unmap_pieces(core, range, count);
	memory_drop_pieces(core, range);
	if (range->array)
		core->ops->array_destroy(range->array);
	core_lock(core);
	range->piece_count = count; /* of which residency_release() needs the states alone */
	residency_release(core, range);
	memory_uncharge(core, range->array_bytes);
	memory_remove(core, range);
	command_answer(command, 0, NULL, 0);
	core_unlock(core);
}

static void free_host_job(struct job *job)
{
	struct command *command = container_of(job, struct command, job);
	struct core *core = command->core;
	struct range *range = command->range;

	memory_unmap_host(core, range->address, range->bytes);
	core_lock(core);
	memory_remove(core, range);
	command_answer(command, 0, NULL, 0);
	core_unlock(core);
}

void memory_pin(struct range *range)
{
	range->pins++;
}

void memory_unpin(struct core *core, struct range *range)
{
	if (--range->pins)
		return;
	if (range->freeing)
		service_job(core, LANE_CALLS, &range->freeing->job, range->freeing->job.run);
	else if (range->shared)
		shared_let_go(core, range->shared);
}

static void flight_over(struct barrier *barrier)
{
	struct command *command = container_of(barrier, struct command, barrier);

	if (command->range->pins)
		command->range->freeing = command;
	else
		service_job(command->core, LANE_CALLS, &command->job, command->job.run);
}

void memory_retire(struct command *command, struct range *range, void (*job)(struct job *job))
{
	range->ready = false;
	residency_forget(command->core, range);
	command->range = range;
	command->job.run = job;
	command->barrier.passed = flight_over;
	barrier_start(command->core, &command->barrier);
}

void memory_free(struct command *command)
{
	const struct record_memory *record = command->request.memory;
	struct range *range = memory_find(command->core, record->address, 1);

	if (range && range->exporting) /* at once with that: no client of ours does it */
		command_answer(command, -EAGAIN, NULL, 0);
	else if (range && range->address == record->address && shared_is_export(range))
		shared_free(command, range);
	else if (!range || range->address != record->address ||
		 (range->kind != RANGE_DEVICE && range->kind != RANGE_HOST &&
			 range->kind != RANGE_ARRAY))
		command_answer(command, -EINVAL, NULL, 0);
	else
		memory_retire(command, range,
			range->kind == RANGE_HOST ? free_host_job : free_device_job);
}
