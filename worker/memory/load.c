/* SPDX-License-Identifier: MIT
 *
 * See residency.h: bringing in. What is wanted gets its memory from gdevd, as it comes; a job makes and maps chunks, and
 * the bytes follow by the queue for that. What nobody has memory for is used from the host (rule 9).
 */
#include <errno.h>
#include <stdlib.h>

#include "base/cleanup.h"
#include "base/log.h"
#include "gdev/error.h"
#include "worker/command.h"
#include "worker/core.h"
#include "worker/memory/residency.h"
#include "worker/usage.h"

void residency_want(struct core *core, struct piece *piece)
{
	struct residency *residency = &core->residency;

	if (evict_rescue(core, piece))
		return;
	if ((piece->state != PIECE_FRESH && piece->state != PIECE_SWAPPED) ||
		!list_empty(&piece->link))
		return;
	list_append(&residency->wanted, &piece->link);
	residency->wanted_bytes += piece->bytes;
}

static int by_preference(const void *a, const void *b, void *core)
{
	const struct range *x = *(struct range *const *)a, *y = *(struct range *const *)b;
	const struct residency *residency = &((struct core *)core)->residency;

	return residency->prefers(x, y) ? -1 : residency->prefers(y, x);
}

/* The session's objects, those that should be on the device first. malloc'ed. */
struct range **residency_order(struct core *core, size_t *count)
{
	struct memory *memory = &core->memory;
	struct range **order = malloc((memory->range_count + 1) * sizeof(*order));

	*count = 0;
	for (size_t i = 0; order && i < memory->range_count; i++)
		if (range_swaps(memory->ranges[i]) && memory->ranges[i]->ready)
			order[(*count)++] = memory->ranges[i];
	if (order)
		qsort_r(order, *count, sizeof(*order), by_preference, core);
	return order;
}

void residency_want_all(struct core *core)
{
	struct range **order;
	size_t count;

	evict_rescue_all(core);
	if (!core->residency.absent_bytes)
		return;
	order = residency_order(core, &count);
	for (size_t i = 0; i < count; i++)
		for (size_t j = 0; j < order[i]->piece_count; j++)
			residency_want(core, &order[i]->pieces[j]);
	free(order);
}

static void load_job(struct job *job);

static void take_wanted(struct core *core, struct piece *piece, bool map)
{
	struct residency *residency = &core->residency;

	list_remove(&piece->link);
	residency->wanted_bytes -= piece->bytes;
	residency->loads++;
	piece->state = PIECE_LOADING;
	piece->to_be_mapped = map;
	if (!map)
		core->memory.used_bytes += piece->bytes;
	memory_pin(piece->range);
	list_append(&residency->loading, &piece->link);
	residency_start(core, &residency->load, load_job);
}

/* Nobody has memory to give: what is still wanted is used where it is (rule 9). */
static void map_wanted(struct core *core)
{
	struct residency *residency = &core->residency;
	struct piece *piece, *next;
	uint64_t arrays = 0;

	list_for_each (piece, &residency->wanted, link)
		if (piece->range->array)
			arrays += piece->bytes;
	if (arrays && evict_for_array(core, arrays))
		return;
	list_for_each_safe (piece, next, &residency->wanted, link)
		if (!piece->served)
			take_wanted(core, piece, true);
}

static void room_answered(struct core *core, struct control_request *request, int status,
	const struct control_header *reply, int *fds, size_t fd_count)
{
	struct residency *residency = &core->residency;
	const struct control_charged *charged = (const void *)reply;

	residency->asking = false;
	trace_swap(core, TRACE_SWAP_ROOM, NULL, charged ? charged->device_bytes : 0,
		residency->asked_ns, trace_time(core));
	if (charged)
		memory_charged(core, charged, fds, fd_count);
	if (status)
		map_wanted(core);
	else
		residency->gave_nothing = false;
	residency_pump(core);
	if (core->memory.behind)
		memory_reconsider(core);
}

/* Arrays are of use on the device alone. */
static bool is_unmappable(const struct core *core, const struct piece *piece)
{
	return piece->range->array ||
	       (core->swap.unmappable && piece->slot && piece->slot->pool == SWAP_FILE);
}

/* Among what is wanted is some that the device cannot be given from the host. */
static bool wants_unmappable(const struct core *core)
{
	const struct piece *piece;

	list_for_each (piece, &core->residency.wanted, link)
		if (is_unmappable(core, piece))
			return true;
	return false;
}

static void ask_for_room(struct core *core, uint64_t bytes)
{
	struct residency *residency = &core->residency;
	bool stays = list_first(&residency->wanted, struct piece, link)->range->stays;

	residency->asking = true;
	residency->patiently = wants_unmappable(core);
	residency->asked_ns = trace_time(core);
	residency->request.message.room = (struct control_room){
		.header = {sizeof(struct control_room), CONTROL_ROOM, CONTROL_VERSION, 0, 0},
		.bytes = bytes,
		/* An object that is to be shared stays on the device. */
		.purpose = stays                  ? ROOM_TO_STAY
			   : residency->patiently ? ROOM_FOR_TURN_ALONE
						  : ROOM_FOR_TURN,
	};
	residency->request.expected = CONTROL_CHARGED;
	residency->request.answered = room_answered;
	control_ask(core, &residency->request);
}

void residency_pump(struct core *core)
{
	struct residency *residency = &core->residency;
	struct memory *memory = &core->memory;
	struct piece *piece, *next;

	list_for_each_safe (piece, next, &residency->wanted, link) {
		if (memory->charged_bytes - memory->used_bytes < piece->bytes)
			break;
		if (!piece->served)
			take_wanted(core, piece, false);
	}
	piece = list_first(&residency->wanted, struct piece, link);
	if (!piece || residency->asking)
		return;
	/* gdevd has others make room for one wish at a time; its answer comes here again. */
	if (memory->asking && !memory->request.message.allocate.swap_bytes)
		return;
	if (memory->charged_bytes - memory->used_bytes >= piece->bytes)
		return; /* it is being served, after which this is called again */
	if (control_connected(core)) {
		ask_for_room(core,
			residency->wanted_bytes - (memory->charged_bytes - memory->used_bytes));
	} else {
		residency->patiently = true; /* nobody is there to wait for */
		map_wanted(core);
	}
}

static void piece_loaded(struct core *core, struct piece *piece, enum piece_state state)
{
	struct range *range = piece->range;

	core->residency.loads--;
	if (state == PIECE_RESIDENT)
		memory_uncharge_swap(core, piece->bytes);
	residency_arrived(core, piece, state);
	evict_begin(core);
	memory_unpin(core, range);
}

static void moved_in(struct core *core, struct command *command)
{
	struct piece *piece = command->piece;

	if (command->error) /* what is there is not what the program has put there */
		core_fail(core, command->error, 0);
	swap_put(core, piece->slot);
	piece->slot = NULL;
	piece->written = true;
	piece_loaded(core, piece, PIECE_RESIDENT);
	if (!list_empty(&core->residency.loading)) /* may wait for the buffer */
		residency_start(core, &core->residency.load, load_job);
}

/* The device has no chunk, although gdevd has charged us for one: somebody uses device memory whom gdevd does not
 * know. The piece is used from the host. */
static void fall_back(struct core *core, struct piece *piece, int error)
{
	core_lock(core);
	swap_release(piece->slot);
	if (error == -ENOMEM)
		memory_return_refused(core, piece->bytes);
	else
		memory_vacate(core, piece->bytes);
	piece->to_be_mapped = true;
	core_unlock(core);
}

/* The bytes of a slot of the file go through the buffer, which load_job() has lent to the slot. */
static int read_in(struct core *core, struct swap_slot *slot)
{
	int error;

	if (!slot || slot->pool != SWAP_FILE)
		return 0;
	error = swap_make_buffer(core, slot->buffer);
	slot->base = slot->buffer->base;
	return error ? error : swap_read(core, slot, 0, slot->base, slot->bytes);
}

static int bring_in(struct core *core, struct piece *piece)
{
	uint64_t address = piece->range->address + piece->offset;
	uint64_t begin_ns = trace_time(core), made_ns, map_ns, end_ns;
	int error = memory_make_chunk(core, piece);

	if (error)
		return error;
	made_ns = trace_time(core);
	error = residency_queue(core, false);
	if (!error)
		error = read_in(core, piece->slot);
	map_ns = trace_time(core);
	if (!error)
		error = core->ops->map(core->space, address, piece->chunk, false);
	end_ns = trace_time(core);
	if (error) {
		core->ops->chunk_destroy(piece->chunk);
		piece->chunk = NULL;
		return error;
	}
	core_lock(core);
	trace_swap(core, TRACE_SWAP_MAKE, piece, piece->bytes, begin_ns, made_ns);
	trace_swap(core, TRACE_SWAP_MAP, piece, piece->bytes, map_ns, end_ns);
	if (!piece->slot)
		piece_loaded(core, piece, PIECE_RESIDENT);
	else
		error = residency_move(core, piece, false, moved_in);
	core_unlock(core);
	if (error) {
		core->ops->unmap(core->space, address, piece->chunk);
		core->ops->chunk_destroy(piece->chunk);
		piece->chunk = NULL;
	}
	return error;
}

/* Pages of a file are none that every device can be given: then it has to be in memory. */
static int map_slot(struct core *core, struct piece *piece)
{
	uint64_t address = piece->range->address + piece->offset, begin_ns, end_ns;
	int error = 0;

	if (piece->range->array)
		return -ENOMEM;
	if (!piece->slot)
		error = swap_get(core, piece->bytes, &piece->slot);
	if (error)
		return error;
	if (piece->slot->pool == SWAP_MEMORY || !core->swap.unmappable)
		error = swap_map(core, piece->slot, address);
	else
		error = -EINVAL;
	if (error != -EINVAL || piece->slot->pool == SWAP_MEMORY)
		return error;
	core_lock(core);
	core->swap.unmappable = true;
	core_unlock(core);
	begin_ns = trace_time(core);
	error = swap_to_memory(core, &piece->slot);
	if (error)
		return error;
	end_ns = trace_time(core);
	core_lock(core);
	trace_swap(core, TRACE_SWAP_TO_MEMORY, piece, piece->bytes, begin_ns, end_ns);
	core_unlock(core);
	return swap_map(core, piece->slot, address);
}

/* The piece has no room on the device, and cannot be used from the host. The log says it once a session: it is the
 * same for all pieces that follow. */
static void say_why(struct core *core, const struct piece *piece, int error)
{
	unsigned long long mib = piece->bytes >> 20;

	if (core->residency.said_why)
		return;
	core->residency.said_why = true;
	if (piece->range->array)
		log_error(
			"session %llu: there is no room on the device for an array of %llu MiB, beside "
			"what of the session's stays there",
			(unsigned long long)core->session.session, mib);
	else if (piece->slot && piece->slot->pool == SWAP_FILE)
		log_error(
			"session %llu needs more than the device and host_swap have: %llu MiB are in its swap "
			"file, and this device cannot use files of that file system where they are: let "
			"swap_directory be on a tmpfs, or raise host_swap (gdev.conf)",
			(unsigned long long)core->session.session, mib);
	else
		log_error("session %llu: %llu MiB cannot be mapped from host memory: %s",
			(unsigned long long)core->session.session, mib, gdev_strerror(error));
}

/* If the piece cannot be mapped because it is in a file, and gdevd was not told of that when it was asked for room,
 * it is asked again (ROOM_FOR_TURN_ALONE): others may still make room. */
static void map_from_host(struct core *core, struct piece *piece)
{
	struct residency *residency = &core->residency;
	int error = map_slot(core, piece);

	core_lock(core);
	if (!error) {
		usage_add(&core->page->mapped_bytes, piece->bytes);
		piece_loaded(core, piece, PIECE_MAPPED);
	} else {
		if (!is_unmappable(core, piece) || residency->patiently) {
			say_why(core, piece, error);
			residency->load_error = -ENOMEM;
		}
		residency->absent_bytes += piece->bytes;
		piece_loaded(core, piece, piece->slot ? PIECE_SWAPPED : PIECE_FRESH);
	}
	core_unlock(core);
}

static void load_job(struct job *job)
{
	struct single_job *single = container_of(job, struct single_job, job);
	struct residency *residency = container_of(single, struct residency, load);
	struct core *core = container_of(residency, struct core, residency);

	for (;;) {
		struct piece *piece;
		bool mapped; /* it is to be */
		core_lock(core);
		piece = list_first(&residency->loading, struct piece, link);
		if (piece && !piece->to_be_mapped && piece->slot &&
			!swap_lend(&core->swap.in, piece->slot))
			piece = NULL; /* moved_in() goes on */
		if (piece)
			list_remove(&piece->link);
		else
			single->running = false;
		core_unlock(core);
		if (!piece)
			return;
		mapped = piece->to_be_mapped;
		if (!mapped) {
			int error = bring_in(core, piece); /* without one it may be gone already */
			if (error)
				fall_back(core, piece, error);
			mapped = error != 0;
		}
		if (mapped)
			map_from_host(core, piece);
	}
}
