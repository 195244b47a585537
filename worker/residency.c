/* SPDX-License-Identifier: MIT
 *
 * See residency.h: what may pass, and bringing in. evict.c makes room; serve.c works in host swap.
 */
#include "worker/residency.h"

#include <errno.h>
#include <stdlib.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/log.h"
#include "gdev/error.h"
#include "worker/command.h"
#include "worker/core.h"
#include "worker/shm.h"
#include "worker/usage.h"

#define SMALL_BYTES (64ull << 20) /* objects of less are small */
#define MOVE_BYTES_PER_US 4096    /* a guess, low, as for copies */

/* Small ones first, then those that a copy has named last. */
static bool prefers_small_and_recent(const struct range *a, const struct range *b)
{
	bool small = a->bytes < SMALL_BYTES;

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

/* Those that wait for a grant. */
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
	service_job(core, &single->job, run);
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
	command->device.kind = DEVICE_COPY;
	command->device.copy = (struct device_copy){
		.direction = out ? DEVICE_FROM_DEVICE : DEVICE_TO_DEVICE,
		.destination = out ? slot : address,
		.source = out ? address : slot,
		.width = piece->bytes,
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

bool residency_moves_wait(const struct residency *residency, uint32_t which)
{
	return which != RESOURCE_COMPUTE &&
	       !list_empty(which == RESOURCE_COPY_TO_DEVICE ? &residency->moves_in
							    : &residency->moves_out);
}

/* The window is for those who contend. */
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
	if (!command->moved || command->resource != RESOURCE_COPY_FROM_DEVICE)
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
	if (residency->suspended)
		return;
	note_waiting(core, true);
	shared_want_all(core);
	residency_want_all(core);
	residency_pump(core);
	if (!residency->absent_bytes)
		residency_wake(core);
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
		shared_export(command);
	}
}

static bool loads_rest(const struct residency *residency)
{
	return list_empty(&residency->wanted) && !residency->loads;
}

void residency_arrived(struct core *core, struct piece *piece, enum piece_state state)
{
	struct residency *residency = &core->residency;

	piece->state = state;
	piece->wanted = false;
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

	for (size_t i = 0; range->kind == RANGE_DEVICE && i < range->piece_count; i++) {
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
		struct range *range = spans[i] ? memory_find(core, addresses[i], spans[i]) : NULL;
		struct piece *piece;
		if (!range || range->kind != RANGE_DEVICE)
			continue;
		range->copied_at = ++residency->copies;
		for (piece = memory_piece(range, addresses[i]);
			!i && piece < range->pieces + range->piece_count &&
			range->address + piece->offset < addresses[i] + spans[i];
			piece++)
			piece->written = true;
	}
}

bool residency_keep(struct core *core, struct range *range)
{
	bool there = true;

	range->stays = true;
	for (size_t i = 0; i < range->piece_count; i++) {
		residency_want(core, &range->pieces[i]);
		there &= range->pieces[i].state == PIECE_RESIDENT ||
			 range->pieces[i].state == PIECE_MAPPED; /* which cannot be exported */
	}
	if (!there)
		residency_pump(core);
	return there;
}

/* ---- bringing in ---- */

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
		if (memory->ranges[i]->kind == RANGE_DEVICE && memory->ranges[i]->ready)
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
	piece->wanted = map; /* LOADING: it is to be mapped */
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

	list_for_each_safe (piece, next, &residency->wanted, link)
		if (!piece->served)
			take_wanted(core, piece, true);
}

static void room_answered(struct core *core, struct control_request *request, int status,
	const struct control_header *reply, int *fds, size_t fd_count)
{
	struct residency *residency = &core->residency;

	residency->asking = false;
	if (!status)
		core->memory.charged_bytes +=
			(uint64_t)((const struct control_memory *)reply)->bytes;
	usage_set(&core->page->device_bytes, core->memory.charged_bytes);
	if (status)
		map_wanted(core);
	residency_pump(core);
	if (core->memory.behind)
		memory_reconsider(core);
}

static void ask(struct core *core, uint64_t bytes)
{
	struct residency *residency = &core->residency;

	residency->asking = true;
	residency->request.message.memory = (struct control_memory){
		.header = {sizeof(struct control_memory), CONTROL_RESIDENT, CONTROL_VERSION, 0, 0},
		.bytes = (int64_t)bytes,
		/* What is to be shared stays, and needs no turn of the device. */
		.free_bytes = list_first(&residency->wanted, struct piece, link)->range->stays,
	};
	residency->request.expected = CONTROL_MEMORY_REPLY;
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
	/* gdevd takes one such wish at a time; its answer comes here again. */
	if (memory->asking && memory->request.message.header.type == CONTROL_RESIDENT)
		return;
	if (memory->charged_bytes - memory->used_bytes >= piece->bytes)
		return; /* it is being served: who does calls again */
	if (control_connected(core))
		ask(core, residency->wanted_bytes - (memory->charged_bytes - memory->used_bytes));
	else
		map_wanted(core);
}

static void loaded(struct core *core, struct piece *piece, enum piece_state state)
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
	loaded(core, piece, PIECE_RESIDENT);
	if (!list_empty(&core->residency.loading)) /* may wait for the buffer */
		residency_start(core, &core->residency.load, load_job);
}

/* The device has no chunk for what we have been charged: somebody else uses it, whom we do not know. */
static void fall_back(struct core *core, struct piece *piece)
{
	core_lock(core);
	swap_release(piece->slot);
	memory_vacate(core, piece->bytes);
	piece->wanted = true;
	core_unlock(core);
}

/* What is in the file goes through the buffer, which load_job() has lent. */
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
	int error = memory_make_chunk(core, piece->bytes, &piece->chunk);

	if (error)
		return error;
	error = residency_queue(core, false);
	if (!error)
		error = read_in(core, piece->slot);
	if (!error)
		error = core->ops->map(core->space, address, piece->chunk, false);
	if (error) {
		core->ops->chunk_destroy(piece->chunk);
		piece->chunk = NULL;
		return error;
	}
	core_lock(core);
	if (!piece->slot)
		loaded(core, piece, PIECE_RESIDENT);
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

static void map_from_host(struct core *core, struct piece *piece)
{
	int error = piece->slot ? 0 : swap_get(core, piece->bytes, &piece->slot);

	if (!error)
		error = swap_map(core, piece->slot, piece->range->address + piece->offset);
	core_lock(core);
	if (error) {
		log_error("session %llu: %llu MiB cannot be mapped from host memory: %s",
			(unsigned long long)core->session.session,
			(unsigned long long)(piece->bytes >> 20), gdev_strerror(error));
		core->residency.load_error = -ENOMEM;
		core->residency.absent_bytes += piece->bytes;
		loaded(core, piece, piece->slot ? PIECE_SWAPPED : PIECE_FRESH);
	} else {
		usage_add(&core->page->mapped_bytes, piece->bytes);
		loaded(core, piece, PIECE_MAPPED);
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
		core_lock(core);
		piece = list_first(&residency->loading, struct piece, link);
		if (piece && !piece->wanted && piece->slot &&
			!swap_lend(&core->swap.in, piece->slot))
			piece = NULL; /* moved_in() goes on */
		if (piece)
			list_remove(&piece->link);
		else
			single->running = false;
		core_unlock(core);
		if (!piece)
			return;
		if (!piece->wanted && bring_in(core, piece))
			fall_back(core, piece);
		if (piece->wanted)
			map_from_host(core, piece);
	}
}

/* ---- passing ---- */

/* What could not be brought in is the error of the first command that needs it. */
static bool load_failed(struct core *core, struct stream *stream, struct command *command)
{
	if (!core->residency.load_error)
		return false;
	command->error = core->residency.load_error;
	core->residency.load_error = 0;
	stream_ready(core, stream);
	return true;
}

/* A launch can reach everything (rule 1). Who brings anything in holds the compute unit (rule 4). */
static bool launch_admitted(struct core *core, struct stream *stream, struct command *command)
{
	struct list *blocked = &core->grants.resources[RESOURCE_COMPUTE].blocked;

	if (!grant_admits(core, RESOURCE_COMPUTE, stream, command->estimate_ns))
		return stream_wait_in(blocked, stream);
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

/* What is shared is not served from its host copy, which others may be about to leave: it is brought in. */
static bool shared_admitted(struct core *core, struct stream *stream, struct command *command)
{
	struct list *blocked = &core->grants.resources[RESOURCE_COMPUTE].blocked;

	if (!core->memory.shared_away || !shared_is_away(core, &command->device))
		return true;
	if (!grant_admits(core, RESOURCE_COMPUTE, stream, 0))
		return stream_wait_in(blocked, stream);
	if (load_failed(core, stream, command))
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

/* The pieces of [address, address + span), which lies in one range; NULL: all are there, or the range has
 * none. */
static struct piece *first_absent(struct core *core, uint64_t address, uint64_t span)
{
	struct range *range = span ? memory_find(core, address, span) : NULL;
	struct piece *piece, *end;

	if (!range || range->kind != RANGE_DEVICE)
		return NULL;
	end = range->pieces + range->piece_count;
	for (piece = memory_piece(range, address);
		piece < end && range->address + piece->offset < address + span; piece++)
		if (!is_there(core, piece))
			return piece;
	return NULL;
}

static void want_span(struct core *core, uint64_t address, uint64_t span)
{
	struct range *range = span ? memory_find(core, address, span) : NULL;
	struct piece *piece;

	if (!range || range->kind != RANGE_DEVICE)
		return;
	for (piece = memory_piece(range, address); piece < range->pieces + range->piece_count &&
						   range->address + piece->offset < address + span;
		piece++)
		residency_want(core, piece);
}

/* A copy into, or within, absent pieces: they are brought in, those of its range alone (rule 2). */
static bool copy_admitted(struct core *core, struct stream *stream, struct command *command)
{
	struct list *blocked = &core->grants.resources[RESOURCE_COMPUTE].blocked;
	struct device_copy *copy = &command->device.copy;
	uint64_t to, from;

	device_copy_spans(copy, &to, &from);
	if (!first_absent(core, copy->destination, to) && !first_absent(core, copy->source, from))
		return true;
	if (!grant_admits(core, RESOURCE_COMPUTE, stream, 0))
		return stream_wait_in(blocked, stream);
	if (load_failed(core, stream, command))
		return false;
	want_span(core, copy->destination, to);
	want_span(core, copy->source, from);
	residency_pump(core);
	return wait_here(core, stream);
}

/* What is to be done in one piece is done where that piece is (rules 2 and 3). */
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
	if (command->device.copy.direction == DEVICE_FROM_DEVICE) {
		piece = command_clip_copy(command);
		return in_place_admitted(core, stream, command, piece);
	}
	return copy_admitted(core, stream, command);
}
