/* SPDX-License-Identifier: MIT
 *
 * See residency.h: what may pass. load.c brings in, evict.c makes room; serve.c works in host swap.
 */
#include "worker/memory/residency.h"

#include <errno.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "worker/command.h"
#include "worker/core.h"
#include "worker/memory/shm.h"
#include "worker/usage.h"

#define SMALL_BYTES (64ull << 20) /* objects of less are small */
#define MOVE_BYTES_PER_US 4096    /* a guess, low, as for copies */

/* Arrays first, which cannot be used from the host; small ones, and then those that a copy has named last. */
static bool prefers_small_and_recent(const struct range *a, const struct range *b)
{
	bool small = a->bytes < SMALL_BYTES;

	if (!a->array != !b->array)
		return a->array;
	if (small != (b->bytes < SMALL_BYTES))
		return small;
	return a->copied_at > b->copied_at;
}

void residency_init(struct core *core)
{
	struct residency *residency = &core->residency;
	struct list *lists[] = {&residency->exports, &residency->waiting, &residency->wanted,
		&residency->loading, &residency->leaving, &residency->prepared, &residency->writing,
		&residency->written, &residency->moves_out, &residency->moves_in};

	for (size_t i = 0; i < array_length(lists); i++)
		list_init(lists[i]);
	residency->prefers = prefers_small_and_recent;
}

/* The moves that wait for a grant. */
static void drop_moves(struct list *moves)
{
	struct command *command;

	while ((command = list_first(moves, struct command, link)))
		command_destroy(command);
}

void residency_finish(struct core *core)
{
	drop_moves(&core->residency.moves_out);
	drop_moves(&core->residency.moves_in);
	if (core->residency.out)
		core->ops->queue_destroy(core->residency.out);
	if (core->residency.in)
		core->ops->queue_destroy(core->residency.in);
}

/* ---- shared with evict.c ---- */

void residency_start(struct core *core, struct single_job *single, void (*run)(struct job *job))
{
	if (single->running)
		return;
	single->running = true;
	service_job(core, single == &core->residency.load ? LANE_LOADING : LANE_ORDERS,
		&single->job, run);
}

int residency_queue(struct core *core, bool out)
{
	struct device_queue **place = out ? &core->residency.out : &core->residency.in;

	/* Only one job makes each of them. */
	return *place ? 0 : core->ops->queue_create(core->space, 0, place);
}

static struct list *moves(struct residency *residency, uint32_t which)
{
	return which == RESOURCE_COPY_TO_DEVICE ? &residency->moves_in : &residency->moves_out;
}

int residency_move(struct core *core, struct piece *piece, bool out,
	void (*moved)(struct core *core, struct command *command))
{
	return residency_move_on(
		core, out ? core->residency.out : core->residency.in, piece, out, moved, NULL);
}

int residency_move_on(struct core *core, struct device_queue *queue, struct piece *piece, bool out,
	void (*moved)(struct core *core, struct command *command), void *owner)
{
	struct command *command = command_create(core, 0);
	uint64_t address = piece->range->address + piece->offset;
	uint64_t slot = (uintptr_t)piece->slot->base;

	if (!command)
		return -ENOMEM;
	command->moved = moved;
	command->piece = piece;
	command->owner = owner;
	command->move_queue = queue;
	command->queued_ns = trace_time(core);
	command->device.kind = DEVICE_COPY;
	command->device.copy = (struct device_copy){
		.direction = out ? COPY_FROM_DEVICE : COPY_TO_DEVICE,
		.destination = out ? slot : address,
		.source = out ? address : slot,
		/* Of an array, all that it has addresses for. */
		.width = min_of(piece->bytes, piece->range->bytes),
		.height = 1,
		.depth = 1,
	};
	command->resource = out ? RESOURCE_COPY_FROM_DEVICE : RESOURCE_COPY_TO_DEVICE;
	command->estimate_ns = piece->bytes * 1000 / MOVE_BYTES_PER_US;
	usage_add(out ? &core->page->swap_out_bytes : &core->page->swap_in_bytes, piece->bytes);
	list_append(moves(&core->residency, command->resource), &command->link);
	residency_submit_moves(core, command->resource);
	return 0;
}

bool residency_moves_wait(struct residency *residency, uint32_t which)
{
	return which != RESOURCE_COMPUTE && !list_empty(moves(residency, which));
}

/* The window bounds what a session has on an engine that others wait for. */
static bool move_admitted(struct core *core, const struct command *command)
{
	const struct residency *residency = &core->residency;
	bool granted = residency->evicting && residency->order.flags & EVICT_GRANTED &&
		       command->resource == RESOURCE_COPY_FROM_DEVICE;

	return granted || grant_is_uncontended(core, command->resource) ||
	       grant_admits(core, command->resource, NULL, command->estimate_ns);
}

void residency_submit_moves(struct core *core, uint32_t which)
{
	struct residency *residency = &core->residency;
	struct command *command;

	if (which == RESOURCE_COMPUTE)
		return;
	while ((command = list_first(moves(residency, which), struct command, link)) &&
		move_admitted(core, command)) {
		list_remove(&command->link);
		grant_submitted(core, command);
		stream_submit_move(core, command->move_queue, command);
	}
}

bool residency_copied(struct core *core, const struct command *command, uint64_t used_ns)
{
	if (!command->moved || command->resource != RESOURCE_COPY_FROM_DEVICE ||
		evict_is_own(&core->residency.order))
		return false;
	core->residency.copied_ns += used_ns;
	return true;
}

bool residency_is_written(const struct core *core, const struct piece *piece)
{
	return piece->written || piece->range->lent ||
	       piece->range->launches != core->residency.launches;
}

bool residency_is_quiet(struct core *core)
{
	const struct residency *residency = &core->residency;
	const struct memory *memory = &core->memory;
	bool present = false;

	for (size_t i = 0; i < memory->range_count; i++) {
		const struct range *range = memory->ranges[i];
		if (!range->ready)
			return false; /* a job makes its pieces */
		for (size_t j = 0; j < range->piece_count; j++)
			present |= range->pieces[j].chunk != NULL;
	}
	return !present && !memory->kept_bytes && !memory->asking && !residency->evicting &&
	       !residency->asking && !residency->loads && list_empty(&residency->wanted) &&
	       list_empty(&residency->exports) && list_empty(&residency->moves_out) &&
	       list_empty(&residency->moves_in);
}

bool residency_busy(const struct residency *residency)
{
	return !residency->suspended && (residency->resuming || !list_empty(&residency->waiting));
}

/* How long a session waits for memory is gdevd's to know (rule 8). */
static void note_waiting(struct core *core, bool waits)
{
	struct worker_page *page = core->page;
	struct residency *residency = &core->residency;

	if (waits && !residency->since_ns)
		residency->since_ns = clock_now_ns();
	if (!waits && residency->since_ns) {
		uint64_t waited_ns = clock_now_ns() - residency->since_ns;
		usage_add(&page->loading_ns, waited_ns);
		residency->loaded_ns += waited_ns;
		residency->since_ns = 0;
	}
	usage_set(&page->loading_since_ns, residency->since_ns);
}

/* The stream's first command waits for memory. */
static bool wait_here(struct core *core, struct stream *stream)
{
	note_waiting(core, true);
	return stream_wait_in(&core->residency.waiting, stream);
}

void residency_resume(struct core *core)
{
	struct residency *residency = &core->residency;

	residency->resuming = true;
	if (residency->suspended || evict_holds_launches(residency))
		return;
	note_waiting(core, true);
	shared_want_all(core);
	residency_want_all(core);
	residency_pump(core);
	if (!residency->absent_bytes)
		residency_wake(core);
}

/* The error of what could not be brought in, for the first command that needs it. */
static int steal_load_error(struct residency *residency)
{
	int error = residency->load_error;

	residency->load_error = 0;
	return error;
}

void residency_wake(struct core *core)
{
	struct residency *residency = &core->residency;
	struct stream *stream, *next;
	struct command *command;
	struct list exports;

	if (residency->suspended)
		return;
	note_waiting(core, false);
	list_for_each_safe (stream, next, &residency->waiting, link)
		stream_ready(core, stream);
	if (residency->resuming && !residency->absent_bytes) {
		residency->resuming = false;
		grants_resume(core);
	}
	list_init(&exports);
	while ((command = list_first(&residency->exports, struct command, link))) {
		list_remove(&command->link);
		list_append(&exports, &command->link);
	}
	while ((command = list_first(&exports, struct command, link))) {
		list_remove(&command->link);
		if (residency->load_error)
			shared_not_exported(command, steal_load_error(residency));
		else
			shared_export(command);
	}
}

void residency_gone(struct core *core)
{
	residency_wake(core);
	if (core->residency.resuming) /* it was passed over */
		residency_resume(core);
}

static bool loads_rest(const struct residency *residency)
{
	return list_empty(&residency->wanted) && !residency->loads;
}

void residency_arrived(struct core *core, struct piece *piece, enum piece_state state)
{
	struct residency *residency = &core->residency;

	piece->state = state;
	piece->to_be_mapped = false;
	residency->absent_bytes -= piece->bytes;
	if (loads_rest(residency))
		residency_wake(core);
}

/* ---- objects come and go ---- */

void residency_add(struct core *core, struct range *range)
{
	core->residency.absent_bytes += range->bytes;
}

void residency_forget(struct core *core, struct range *range)
{
	struct residency *residency = &core->residency;

	for (size_t i = 0; range_swaps(range) && i < range->piece_count; i++) {
		struct piece *piece = &range->pieces[i];
		if (piece->state == PIECE_FRESH || piece->state == PIECE_SWAPPED) {
			if (!list_empty(&piece->link))
				residency->wanted_bytes -= piece->bytes;
			list_remove(&piece->link);
		} else if (piece->state != PIECE_LOADING) {
			evict_rescue(core, piece);
		}
	}
	if (loads_rest(residency))
		residency_wake(core);
}

void residency_release(struct core *core, struct range *range)
{
	uint64_t used = 0, swapped = 0;

	for (size_t i = 0; i < range->piece_count; i++) {
		struct piece *piece = &range->pieces[i];
		if (piece->state == PIECE_RESIDENT)
			used += piece->bytes;
		else
			swapped += piece->bytes;
		if (piece->state == PIECE_MAPPED)
			usage_add(&core->page->mapped_bytes, -piece->bytes);
		else if (piece->state != PIECE_RESIDENT)
			core->residency.absent_bytes -= piece->bytes;
	}
	memory_uncharge_swap(core, swapped);
	memory_uncharge(core, used);
	residency_wake(core);
}

/* The first piece of the object in which [address, address + span) lies, and the end of those that it touches; NULL: it lies
 * in none. */
static struct piece *find_pieces(
	struct core *core, uint64_t address, uint64_t span, struct piece **end)
{
	struct range *range = span ? memory_find(core, address, span) : NULL;

	*end = NULL;
	if (!range || !range_swaps(range))
		return NULL;
	*end = memory_piece(range, address + span - 1) + 1;
	return memory_piece(range, address);
}

void residency_note(struct core *core, struct command *command)
{
	struct residency *residency = &core->residency;
	uint64_t addresses[2] = {0}, spans[2] = {0};

	switch (command->device.kind) {
	case DEVICE_LAUNCH:
		residency->launches++;
		return;
	case DEVICE_FILL:
		addresses[0] = command->device.fill.destination;
		spans[0] = device_fill_span(&command->device.fill);
		break;
	default:
		addresses[0] = command->device.copy.destination;
		addresses[1] = command->device.copy.source;
		device_copy_spans(&command->device.copy, &spans[0], &spans[1]);
	}
	for (int i = 0; i < 2; i++) {
		struct piece *end, *piece = find_pieces(core, addresses[i], spans[i], &end);
		if (!piece)
			continue;
		piece->range->copied_at = ++residency->copies;
		for (; !i && piece < end; piece++)
			piece->written = true;
	}
}

bool residency_keep(struct core *core, struct range *range)
{
	bool there = true;

	range->stays = true;
	for (size_t i = 0; i < range->piece_count; i++) {
		const struct piece *piece = &range->pieces[i];
		residency_want(core, &range->pieces[i]);
		there &= piece->state == PIECE_RESIDENT ||
			 piece->state == PIECE_MAPPED; /* which cannot be exported */
		there &= !piece->copied; /* its slot is still that of the write that was in vain */
	}
	if (!there)
		residency_pump(core);
	return there;
}

/* ---- passing ---- */

static bool load_failed(struct core *core, struct stream *stream, struct command *command)
{
	if (!core->residency.load_error)
		return false;
	command->error = steal_load_error(&core->residency);
	stream_ready(core, stream);
	return true;
}

/* A launch can reach everything (rule 1). Only the session that holds the compute unit brings anything in (rule 4). */
static bool launch_admitted(struct core *core, struct stream *stream, struct command *command)
{
	struct list *blocked = &core->grants.resources[RESOURCE_COMPUTE].blocked;

	if (!grant_admits(core, RESOURCE_COMPUTE, stream, command->estimate_ns))
		return stream_wait_in(blocked, stream);
	if (evict_holds_launches(&core->residency)) {
		evict_hold_launch(core);
		return wait_here(core, stream);
	}
	if (load_failed(core, stream, command))
		return false;
	if (shared_want_all(core)) /* what can only come as a whole comes first */
		return wait_here(core, stream);
	residency_want_all(core);
	residency_pump(core);
	if (!core->residency.absent_bytes)
		return true;
	return wait_here(core, stream);
}

/* Whether what the command needs may be brought in. If not, the stream waits, or the command has failed. */
static bool may_bring_in(struct core *core, struct stream *stream, struct command *command)
{
	if (!grant_admits(core, RESOURCE_COMPUTE, stream, 0))
		return stream_wait_in(&core->grants.resources[RESOURCE_COMPUTE].blocked, stream);
	return !load_failed(core, stream, command);
}

/* A command on a segment is not served in the host copy, which another session may be about to leave: the segment is
 * brought in. */
static bool shared_admitted(struct core *core, struct stream *stream, struct command *command)
{
	if (!core->memory.shared_away || !shared_is_away(core, &command->device))
		return true;
	if (!may_bring_in(core, stream, command))
		return false;
	shared_want(core, &command->device);
	return wait_here(core, stream);
}

/* On the device, perhaps after it was wanted back; or usable where it is. */
static bool is_there(struct core *core, struct piece *piece)
{
	return piece->state == PIECE_RESIDENT || piece->state == PIECE_MAPPED ||
	       evict_rescue(core, piece);
}

/* Whether all of [address, address + span) that is an object's is there. */
static bool are_there(struct core *core, uint64_t address, uint64_t span)
{
	struct piece *end, *piece = find_pieces(core, address, span, &end);

	for (; piece < end; piece++)
		if (!is_there(core, piece))
			return false;
	return true;
}

static void want_span(struct core *core, uint64_t address, uint64_t span)
{
	struct piece *end, *piece = find_pieces(core, address, span, &end);

	for (; piece < end; piece++)
		residency_want(core, piece);
}

/* A copy into, or within, absent pieces: they are brought in, those of its range alone (rule 2). */
static bool copy_admitted(struct core *core, struct stream *stream, struct command *command)
{
	struct device_copy *copy = &command->device.copy;
	uint64_t to, from;

	device_copy_spans(copy, &to, &from);
	if (are_there(core, copy->destination, to) && are_there(core, copy->source, from))
		return true;
	if (!may_bring_in(core, stream, command))
		return false;
	want_span(core, copy->destination, to);
	want_span(core, copy->source, from);
	residency_pump(core);
	return wait_here(core, stream);
}

/* A copy or a fill that lies in one piece is done where that piece is (rules 2 and 3). */
static bool in_place_admitted(
	struct core *core, struct stream *stream, struct command *command, struct piece *piece)
{
	if (!piece || is_there(core, piece))
		return true;
	if (piece->state != PIECE_FRESH && piece->state != PIECE_SWAPPED) {
		residency_want(core, piece); /* GOING, LOADING: settles soon */
		return wait_here(core, stream);
	}
	if (!list_empty(&piece->link)) /* wanted by another command: soon there */
		return wait_here(core, stream);
	swap_serve(core, stream, command, piece);
	return false;
}

bool residency_admits(struct core *core, struct stream *stream, struct command *command)
{
	struct piece *piece;

	if (context_is_closed(core))
		context_want(core);
	if (core->residency.suspended || context_is_closed(core)) /* that is no wait for memory */
		return stream_wait_in(&core->residency.waiting, stream);
	if (command->device.kind != DEVICE_LAUNCH && !shared_admitted(core, stream, command))
		return false;
	switch (command->device.kind) {
	case DEVICE_LAUNCH:
		return launch_admitted(core, stream, command);
	case DEVICE_FILL:
		piece = command_clip_fill(command);
		return in_place_admitted(core, stream, command, piece);
	default:
		break;
	}
	if (command->device.copy.direction == COPY_FROM_DEVICE) {
		piece = command_clip_copy(command);
		return in_place_admitted(core, stream, command, piece);
	}
	return copy_admitted(core, stream, command);
}
