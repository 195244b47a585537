/* SPDX-License-Identifier: MIT
 *
 * See residency.h: making room, when gdevd asks for it. The pieces that are to leave are unlisted at once
 * (LEAVING), which keeps new commands from them; when the commands that were in flight are done they are
 * written out, several at a time, and each gives its memory back as soon as it is. Until it is unmapped, a
 * piece that is wanted back is listed again, and not a byte moves (rule 6).
 */
#include <stdlib.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "worker/command.h"
#include "worker/core.h"
#include "worker/memory/residency.h"
#include "worker/memory/shm.h"
#include "worker/usage.h"

/* Have their slots at a time; what waits can be had back for nothing. */
#define PREPARED_BYTES_MAX (256ull << 20)
/* So many bytes are with the device at a time; the next piece waits for them. A copy engine that always finds another
 * copy serves no other context before its time slice is over, a millisecond on an H200. The driver uses the engine
 * that copies from the device also to map chunks, for the session that is to have the memory. */
#define MOVING_BYTES (8ull << 20)
/* A launch that a kernel on the device may wait for is held for so long: as long as a session whose kernels wait like that
 * keeps a turn which is over (worker/grants.c). If that was in vain, it may be that no kernel waits, but that they take longer:
 * for the next order, which comes ten seconds later, it is held for twice as long, and for 1.8 s at most. */
#define HOLD_NS (110 * NS_PER_MS)
#define HOLD_DOUBLINGS 4

static void move_out(struct core *core);
static void write_job(struct job *job);
static void drop_job(struct job *job);
static void begin_order(struct core *core, const struct control_evict *order);

enum evict_rest evict_rest(struct core *core, bool kept)
{
	if (!kept)
		return REST_STAYS;
	core->residency.eases = true;
	core->residency.after = core->streams.submitted;
	return REST_IN_USE;
}

void evict_eased(struct core *core)
{
	const struct control_header message = {
		sizeof message, CONTROL_EASED, CONTROL_VERSION, 0, 0};
	const struct resource *compute = &core->grants.resources[RESOURCE_COMPUTE];
	bool uses = compute->state >= GRANT_HELD && core->streams.busy;

	if (!core->residency.eases || uses || !evict_is_drained(core, core->residency.after))
		return;
	core->residency.eases = false;
	control_send(core, &message, NULL, 0);
}

void residency_say_evicted(struct core *core, int status, bool retired)
{
	struct residency *residency = &core->residency;
	bool own = evict_is_own(&residency->order);
	const struct control_evicted answer = {
		.header = {sizeof answer, CONTROL_EVICTED, CONTROL_VERSION,
			residency->order.header.serial, status},
		.copied_ns = residency->copied_ns,
		.retired = retired,
		.rest = evict_rest(core, residency->kept && !residency->given_bytes && !own),
	};

	residency->promised_bytes = residency->waits ? residency->next.swapped : 0;
	swap_settle(core);
	trace_swap(core, TRACE_SWAP_ORDER, NULL, residency->given_bytes, residency->ordered_ns,
		trace_time(core));
	if (own)
		residency->gave_nothing = !residency->given_bytes;
	else
		control_send(core, &answer, NULL, 0);
	residency->ordered = false;
	evict_eased(core);
	if (residency->waits)
		begin_order(core, &residency->next);
}

/* Looks whether gdevd's order has been carried out. */
static void say_if_carried_out(struct core *core)
{
	struct residency *residency = &core->residency;
	bool held = evict_holds_launches(residency);

	if (!residency->begun || residency->going || residency->trim.running ||
		!list_empty(&residency->leaving) || !list_empty(&residency->prepared) ||
		!list_empty(&residency->written))
		return;
	if (!residency->ready)
		return;
	residency->evicting = residency->begun = false;
	if (residency->stopped) {
		direct_moved(core);
		direct_resume(core);
	}
	residency->stopped = false;
	if (!context_left(core, residency->failed))
		residency_say_evicted(core, residency->failed, false);
	if (held)
		residency_gone(core);
}

bool evict_rescue(struct core *core, struct piece *piece)
{
	bool filed;

	switch (piece->state) {
	case PIECE_LEAVING:
		if (piece->slot)
			core->residency.prepared_bytes -= piece->bytes;
		/* fall through */
	case PIECE_WRITTEN: /* in other states the slot is a job's */
		filed = piece->slot && piece->slot->pool == SWAP_FILE;
		if (piece->slot)
			swap_put(core, piece->slot);
		piece->slot = NULL;
		core->residency.kept = true;
		list_remove(&piece->link);
		usage_add(&core->page->rescued_bytes, piece->bytes);
		residency_arrived(core, piece, PIECE_RESIDENT);
		if (filed)
			move_out(core); /* which may have waited for the buffer */
		say_if_carried_out(core);
		return true;
	case PIECE_WRITING: /* what reads it harms nobody, and was in vain: piece_stays() */
		core->residency.kept = true;
		list_remove(&piece->link);
		usage_add(&core->page->rescued_bytes, piece->bytes);
		residency_arrived(core, piece, PIECE_RESIDENT);
		piece->copied = true;
		return true;
	default:
		return false;
	}
}

void evict_rescue_all(struct core *core)
{
	struct residency *residency = &core->residency;
	struct list *lists[] = {&residency->leaving, &residency->prepared, &residency->writing,
		&residency->written};
	struct piece *piece;

	for (size_t i = 0; i < array_length(lists); i++)
		while ((piece = list_first(lists[i], struct piece, link)))
			evict_rescue(core, piece);
}

/* ---- writing out ---- */

/* The piece was wanted back while it was being written, or could not be written: it stays on the device. */
static void piece_stays(struct core *core, struct piece *piece)
{
	struct range *range = piece->range;

	if (piece->slot)
		swap_put(core, piece->slot);
	piece->slot = NULL;
	core->residency.going--;
	if (piece->state == PIECE_WRITING)
		evict_rescue(core, piece);
	piece->copied = false;
	if (range->stays) /* the export of the object has waited for that */
		residency_wake(core);
	memory_unpin(core, range);
	say_if_carried_out(core);
}

static void to_be_dropped(struct core *core, struct piece *piece)
{
	struct range *range = piece->range;

	core->residency.going--;
	piece->state = PIECE_WRITTEN;
	list_remove(&piece->link);
	list_append(&core->residency.written, &piece->link);
	residency_start(core, &core->residency.drop, drop_job);
	memory_unpin(core, range);
}

static void moved_out(struct core *core, struct command *command)
{
	struct residency *residency = &core->residency;
	struct piece *piece = command->piece;

	residency->moving_bytes -= piece->bytes;
	if (command->error) {
		residency->failed = command->error;
		if (core_error_is_fatal(command->error))
			core_fail(core, command->error, 0);
	}
	if (command->error || piece->copied || !piece->range->ready)
		piece_stays(core, piece);
	else
		to_be_dropped(core, piece);
	move_out(core);
	if (!list_empty(&residency->leaving))
		residency_start(core, &residency->write, write_job);
}

static void begin_writing(struct core *core, struct piece *piece)
{
	list_remove(&piece->link);
	list_append(&core->residency.writing, &piece->link);
	memory_pin(piece->range);
	core->residency.going++;
	piece->state = PIECE_WRITING;
}

/* Submits what has its slot. */
static void move_out(struct core *core)
{
	struct residency *residency = &core->residency;
	struct piece *piece;

	while (residency->moving_bytes < MOVING_BYTES &&
		(piece = list_first(&residency->prepared, struct piece, link))) {
		int error;
		if (!swap_lend(&core->swap.out, piece->slot))
			return; /* until that is written */
		residency->prepared_bytes -= piece->bytes;
		begin_writing(core, piece);
		residency->moving_bytes += piece->bytes;
		error = residency_move(core, piece, true, moved_out);
		if (error) {
			residency->moving_bytes -= piece->bytes;
			residency->failed = error;
			piece_stays(core, piece);
		}
	}
}

/* The next to have a slot, or NULL: there is none, or enough have. */
static struct piece *next_leaving(struct core *core)
{
	struct residency *residency = &core->residency;
	struct piece *piece = list_first(&residency->leaving, struct piece, link);

	if (!piece || !residency->ready || residency->prepared_bytes >= PREPARED_BYTES_MAX) {
		residency->write.running = false;
		return NULL;
	}
	begin_writing(core, piece);
	return piece;
}

static void prepare_slots(struct core *core, struct piece *piece)
{
	struct residency *residency = &core->residency;
	int error = residency_queue(core, true);
	uint64_t begin_ns = trace_time(core), end_ns;

	if (!error)
		error = (piece->uncharged ? swap_get_anew : swap_get)(
			core, piece->bytes, &piece->slot);
	end_ns = trace_time(core);
	if (!error && piece->slot->pool == SWAP_FILE)
		error = swap_make_buffer(core, &core->swap.out);
	core_lock(core);
	trace_swap(core, TRACE_SWAP_SLOT, piece, piece->bytes, begin_ns, end_ns);
	if (error || piece->copied || !piece->range->ready) {
		residency->failed = error ? error : residency->failed;
		piece_stays(core, piece);
	} else {
		list_remove(&piece->link);
		list_append(&residency->prepared, &piece->link);
		residency->prepared_bytes += piece->bytes;
		residency->going--;
		piece->state = PIECE_LEAVING;
		memory_unpin(core, piece->range);
		move_out(core);
	}
	core_unlock(core);
}

static void write_job(struct job *job)
{
	struct single_job *single = container_of(job, struct single_job, job);
	struct residency *residency = container_of(single, struct residency, write);
	struct core *core = container_of(residency, struct core, residency);

	for (;;) {
		struct piece *piece;
		bool written;
		core_lock(core);
		piece = next_leaving(core);
		/* What is not charged for gets its slot, which is, also if nothing is in it. */
		written = piece && (residency_is_written(core, piece) || piece->uncharged);
		if (piece && !written)
			to_be_dropped(core, piece);
		core_unlock(core);
		if (!piece)
			return;
		if (written)
			prepare_slots(core, piece);
	}
}

/* ---- leaving ---- */

/* Writes to the file what is in its buffer. If that cannot be, it stays. */
static bool write_to_file(struct core *core, struct piece *piece)
{
	struct swap_slot *slot = piece->slot;
	int error = 0;

	if (!slot || slot->pool != SWAP_FILE)
		return true;
	error = swap_write(core, slot, 0, slot->base, slot->bytes);
	core_lock(core);
	swap_release(slot);
	if (error) {
		core->residency.failed = error;
		residency_arrived(core, piece, PIECE_RESIDENT);
		piece_stays(core, piece);
	}
	move_out(core);
	core_unlock(core);
	return !error;
}

/* Gives the chunk back to the driver, and does not keep it for reuse: others wait for it. */
static void drop_piece(struct core *core, struct piece *piece)
{
	struct residency *residency = &core->residency;
	struct range *range = piece->range;
	uint64_t begin_ns, unmapped_ns, end_ns;

	if (!write_to_file(core, piece))
		return;
	begin_ns = trace_time(core);
	core->ops->unmap(core->space, range->address + piece->offset, piece->chunk);
	unmapped_ns = trace_time(core);
	core->ops->chunk_destroy(piece->chunk);
	end_ns = trace_time(core);
	core_lock(core);
	trace_swap(core, TRACE_SWAP_UNMAP, piece, piece->bytes, begin_ns, unmapped_ns);
	trace_swap(core, TRACE_SWAP_RELEASE, piece, piece->bytes, unmapped_ns, end_ns);
	piece->chunk = NULL;
	piece->written = false;
	piece->state = piece->slot ? PIECE_SWAPPED : PIECE_FRESH;
	residency->going--;
	residency->given_bytes += piece->bytes;
	residency->promised_bytes -= min_of(piece->bytes, residency->promised_bytes);
	core->memory.swap_bytes += piece->bytes;
	usage_set(&core->page->swapped_bytes, core->memory.swap_bytes);
	memory_vacate(core, piece->bytes);
	memory_unpin(core, range);
	residency_gone(core);
	say_if_carried_out(core);
	core_unlock(core);
}

static void drop_job(struct job *job)
{
	struct single_job *single = container_of(job, struct single_job, job);
	struct residency *residency = container_of(single, struct residency, drop);
	struct core *core = container_of(residency, struct core, residency);

	for (;;) {
		struct piece *piece;
		core_lock(core);
		piece = list_first(&residency->written, struct piece, link);
		if (piece) {
			list_remove(&piece->link);
			piece->state = PIECE_GOING;
			residency->going++;
			memory_pin(piece->range);
		} else {
			single->running = false;
		}
		core_unlock(core);
		if (!piece)
			return;
		drop_piece(core, piece);
	}
}

/* ---- from memory to the file ---- */

static bool can_be_filed(const struct piece *piece)
{
	return piece->state == PIECE_SWAPPED && piece->slot->pool == SWAP_MEMORY &&
	       piece->bytes <= DEVICE_CHUNK_MAX && !piece->served && list_empty(&piece->link);
}

/* The least preferred that nobody wants or works in; it is GOING. */
static struct piece *take_from_memory(struct core *core)
{
	struct piece *found = NULL;
	size_t count;
	struct range **order = residency_order(core, &count);

	while (order && count-- && !found)
		for (size_t i = order[count]->piece_count; i-- && !found;)
			if (can_be_filed(&order[count]->pieces[i]))
				found = &order[count]->pieces[i];
	free(order);
	if (found) {
		found->state = PIECE_GOING;
		memory_pin(found->range);
	}
	return found;
}

void evict_to_file(struct core *core, uint64_t bytes)
{
	uint64_t moved = 0, part;
	int error = 0;

	while (moved < bytes && (part = swap_charge_to_file(core, bytes - moved)))
		moved += part;
	while (moved < bytes && !error) {
		struct piece *piece;
		uint64_t begin_ns, end_ns;
		core_lock(core);
		piece = take_from_memory(core);
		core_unlock(core);
		if (!piece)
			return;
		begin_ns = trace_time(core);
		error = swap_to_file(core, &piece->slot);
		end_ns = trace_time(core);
		core_lock(core);
		if (!error)
			trace_swap(core, TRACE_SWAP_TO_FILE, piece, piece->bytes, begin_ns, end_ns);
		moved += piece->bytes;
		piece->state = PIECE_SWAPPED;
		memory_unpin(core, piece->range);
		residency_gone(core);
		core_unlock(core);
	}
}

/* ---- gdevd's orders ---- */

/* Whether the command may still reach what is leaving. A launch that is paused touches nothing until it
 * goes on, and it does when everything is there again. */
static bool command_reaches(
	const struct core *core, const struct command *command, uint64_t sequence)
{
	if (command->sequence > sequence)
		return false;
	return command->device.kind == DEVICE_COPY || command->served || !grants_are_paused(core);
}

bool evict_is_drained(const struct core *core, uint64_t sequence)
{
	const struct command *command;

	list_for_each (command, &core->streams.flight, flight_link)
		if (command_reaches(core, command, sequence))
			return false;
	return true;
}

void evict_drained(struct core *core)
{
	struct residency *residency = &core->residency;

	evict_eased(core);
	if (core->memory.shared_leaving)
		shared_drained(core);
	if (!residency->draining_ns || !evict_is_drained(core, residency->sequence))
		return;
	if (evict_holds_launches(residency))
		residency->let_go = 0;
	residency->draining_ns = 0;
	residency->ready = true;
	residency_start(core, &residency->write, write_job);
	say_if_carried_out(core);
}

static void client_stopped(struct core *core, struct direct_stop *stop)
{
	core->residency.sequence = core->streams.submitted;
	core->residency.draining_ns = clock_now_ns();
	evict_drained(core);
	evict_hold_launch(core);
}

/* ---- launches that wait for a limit ---- */

static uint64_t hold_until_ns(const struct residency *residency)
{
	return residency->draining_ns +
	       (HOLD_NS << min_of(residency->let_go, (unsigned)HOLD_DOUBLINGS));
}

void evict_hold_launch(struct core *core)
{
	const struct residency *residency = &core->residency;

	if (residency->draining_ns && evict_holds_launches(residency))
		service_timer(core, hold_until_ns(residency));
}

/* Whether a launch is held of a stream that has nothing on the device: a kernel which is there may wait for it. */
static bool may_be_awaited(const struct residency *residency)
{
	const struct stream *stream;

	list_for_each (stream, &residency->waiting, link)
		if (!stream->on_device[RESOURCE_COMPUTE])
			return true;
	return false;
}

/* Lets the launches go that are held: what is to leave is wanted back, and in use. */
uint64_t evict_tick(struct core *core, uint64_t now_ns)
{
	struct residency *residency = &core->residency;
	uint64_t due_ns = hold_until_ns(residency);

	if (!residency->draining_ns || !evict_holds_launches(residency) ||
		!may_be_awaited(residency))
		return UINT64_MAX;
	if (now_ns < due_ns)
		return due_ns;
	residency->order.flags &= ~(uint32_t)EVICT_LIMIT;
	residency->let_go++;
	residency_gone(core);
	return UINT64_MAX;
}

/* ---- what is to leave ---- */

/* An array leaves as a whole, also if less is ordered: what host swap is not charged for then is charged slot by slot. It does
 * not leave for a limit, below which its session could not go on. */
static bool may_leave(const struct core *core, struct piece *piece, uint64_t chosen)
{
	const struct residency *residency = &core->residency;
	uint64_t promised = residency->promised_bytes - min_of(chosen, residency->promised_bytes);

	piece->uncharged = piece->bytes > promised;
	if (piece->range->array)
		return promised && !evict_holds_launches(residency);
	return !piece->uncharged || evict_is_own(&residency->order);
}

/* The least preferred first, until there is enough, or no swap space for more. Objects that the client has mapped for
 * good stay. */
static void choose_pieces(struct core *core, uint64_t bytes)
{
	struct residency *residency = &core->residency;
	uint64_t chosen = 0;
	size_t count;
	struct range **order = residency_order(core, &count);

	while (order && count-- && chosen < bytes) {
		struct range *range = order[count];
		for (size_t i = range->piece_count;
			i-- && !range->mapped && !range->stays && chosen < bytes;) {
			struct piece *piece = &range->pieces[i];
			if (piece->state != PIECE_RESIDENT || !may_leave(core, piece, chosen))
				continue;
			piece->state = PIECE_LEAVING;
			residency->stopped |= range->lent;
			list_append(&residency->leaving, &piece->link);
			residency->absent_bytes += piece->bytes;
			chosen += piece->bytes;
		}
	}
	free(order);
}

/* Chunks that are kept for reuse go first: no object is in them. */
static void trim_job(struct job *job)
{
	struct single_job *single = container_of(job, struct single_job, job);
	struct residency *residency = container_of(single, struct residency, trim);
	struct core *core = container_of(residency, struct core, residency);

	memory_trim(core, 0);
	core_lock(core);
	single->running = false;
	residency->given_bytes = memory_give_slack(core, residency->order.bytes);
	if (residency->given_bytes < residency->order.bytes)
		choose_pieces(core, residency->order.bytes - residency->given_bytes);
	residency->stop.stopped = client_stopped;
	if (residency->stopped)
		direct_stop(core, &residency->stop);
	else
		client_stopped(core, NULL);
	core_unlock(core);
}

void evict_begin(struct core *core)
{
	struct residency *residency = &core->residency;

	if (!residency->evicting || residency->begun || residency->loads)
		return;
	residency->begun = true;
	residency_start(core, &residency->trim, trim_job);
}

static void forget_wishes(struct residency *residency)
{
	struct piece *piece;

	while ((piece = list_first(&residency->wanted, struct piece, link)))
		list_remove(&piece->link);
	residency->wanted_bytes = 0;
}

/* A context that is needed by nobody is left for the next command to open. */
static void resume_session(struct core *core)
{
	struct residency *residency = &core->residency;

	residency->suspended = false;
	if (!context_is_closed(core)) {
		residency_want_all(core);
		residency_pump(core);
		residency_wake(core);
	} else if (core->context.wanted || !list_empty(&residency->waiting)) {
		context_want(core);
	}
	residency_say_evicted(core, 0, false);
}

static void begin_order(struct core *core, const struct control_evict *order)
{
	struct residency *residency = &core->residency;

	residency->waits = false;
	residency->ordered = true;
	residency->ordered_ns = trace_time(core);
	residency->promised_bytes = order->swapped;
	residency->order = *order;
	residency->given_bytes = residency->copied_ns = 0;
	residency->failed = 0;
	residency->ready = false;
	residency->kept = false;
	if (!order->bytes && !(order->flags & ~(uint32_t)EVICT_GRANTED)) { /* to be told EASED */
		residency->kept = true;
		residency_say_evicted(core, 0, false);
		return;
	}
	if (order->flags & EVICT_RESUME) {
		resume_session(core);
		return;
	}
	if (order->flags & EVICT_SUSPEND) {
		residency->suspended = true;
		forget_wishes(residency);
		residency->since_ns = 0;
		usage_set(&core->page->loading_since_ns, 0);
	}
	if (order->flags & EVICT_RETIRE && !context_begin_retiring(core) &&
		!(order->flags & EVICT_SUSPEND)) {
		residency_say_evicted(core, 0, false);
		return;
	}
	residency->evicting = true;
	evict_begin(core);
}

/* Another order comes in its place: those that wait for it look again. */
static void forget_own(struct core *core)
{
	struct residency *residency = &core->residency;

	if (!residency->waits || !evict_is_own(&residency->next))
		return;
	residency->waits = false;
	residency_wake(core);
}

/* gdevd has one at a time, but does not know of that of the gdevd before it. */
void residency_evict(struct core *core, const struct control_evict *order)
{
	struct residency *residency = &core->residency;
	enum swap_pool pool = order->flags & EVICT_FILE ? SWAP_FILE : SWAP_MEMORY;

	if (order->flags & EVICT_SLOTS) {
		swap_give(core, order);
		return;
	}
	core->swap.charged[pool] += order->swapped;
	if (!residency->ordered) {
		begin_order(core, order);
		return;
	}
	forget_own(core);
	residency->next = *order;
	residency->waits = true;
	residency->promised_bytes += order->swapped;
}

/* Whether something of the session is on the device that can be used from the host, too. */
static bool has_other_memory(struct core *core)
{
	const struct memory *memory = &core->memory;

	for (size_t i = 0; i < memory->range_count; i++) {
		const struct range *range = memory->ranges[i];
		if (range->kind != RANGE_DEVICE || !range->ready || range->mapped || range->stays)
			continue;
		for (size_t j = 0; j < range->piece_count; j++)
			if (range->pieces[j].state == PIECE_RESIDENT)
				return true;
	}
	return false;
}

/* Whether an order of our own is being carried out, or follows, after which those that wait ask again. */
static bool makes_room(const struct residency *residency)
{
	return (residency->waits && evict_is_own(&residency->next)) ||
	       (evict_is_own(&residency->order) && evict_holds_launches(residency));
}

bool evict_for_array(struct core *core, uint64_t bytes)
{
	struct residency *residency = &core->residency;
	const struct control_evict order = {.bytes = bytes, .flags = EVICT_LIMIT};
	bool again = !residency->gave_nothing;

	if (makes_room(residency)) { /* until then nobody asks in vain */
		forget_wishes(residency);
		return true;
	}
	residency->gave_nothing = false;
	if (!again || residency->waits || !has_other_memory(core))
		return false;
	forget_wishes(residency);
	if (residency->ordered) {
		residency->next = order;
		residency->waits = true;
	} else {
		begin_order(core, &order);
	}
	return true;
}

void residency_lost(struct core *core)
{
	struct residency *residency = &core->residency;

	forget_own(core);
	residency->waits = false;
	if (residency->suspended) {
		residency->suspended = false;
		residency_wake(core);
	}
	shared_lost(core);
}
