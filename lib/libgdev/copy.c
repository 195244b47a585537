/* SPDX-License-Identifier: MIT
 *
 * Copies and fills. Memory of the session (device memory, page-locked memory, variables) is copied by the
 * worker as it is named. Other memory of the process is copied in two stages through the staging memory:
 *   up to inline_bytes to the device, it rides in the record;
 *   more is split into chunks ("Gdev", section 4.1, split transaction), so that our memcpy of one overlaps
 *   with the worker's copy of the one before.
 * Rows of 2D and 3D copies are packed in a chunk, as many as fit.
 * Where we can reach device memory ourselves (direct.c), one memcpy is all, once the stream is there.
 * Where there is no staging memory the transport copies the process's (transport_ops.copy), also once the stream is there;
 * what fits rides in the record.
 *
 * RECORD_FENCE makes a copy that was only queued complete for its caller: everything that is submitted
 * after it, on any stream, waits for it. It is used only when nothing before the copy on its stream can
 * wait without end (stream.may_block), because until then nothing else of the session would run; if
 * something can, the copy waits for it first. A session that shares memory waits for its synchronous copies
 * instead: other sessions know nothing of its queue.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/copy.h"
#include "lib/libgdev/managed.h"
#include "lib/libgdev/tiles.h"

#define VALUE_BITS 52         /* of gdev_session.fenced: the rest is the timeline */
#define LONG_BYTES (1u << 20) /* a direct copy takes longer than the worker looks at the ring */
#define ASK_BYTES PIECE_MIN   /* a record for so much asks for our turn */
#define AHEAD_MAX 4           /* chunks from the device that one thread has under way */

/* ---- shapes ---- */

/* Bytes from the first to the last that a side touches; false: they wrap around. */
static bool span_of(const struct gdev_copy *copy, uint64_t pitch, uint64_t slice, uint64_t *span)
{
	uint64_t rows, planes;

	return !__builtin_mul_overflow(copy->height - 1, pitch, &rows) &&
	       !__builtin_mul_overflow(copy->depth - 1, slice, &planes) &&
	       !__builtin_add_overflow(rows, planes, span) &&
	       !__builtin_add_overflow(*span, copy->width, span);
}

/* Makes a copy whose rows (planes) follow each other on both sides one row. */
static void flatten_copy(struct gdev_copy *copy)
{
	if (copy->depth > 1 && copy->height > 1 &&
		copy->destination_slice == copy->height * copy->destination_pitch &&
		copy->source_slice == copy->height * copy->source_pitch) {
		copy->height *= copy->depth;
		copy->depth = 1;
	}
	if (copy->height > 1 && copy->destination_pitch == copy->width &&
		copy->source_pitch == copy->width) {
		copy->width *= copy->height;
		copy->height = 1;
	}
	if (copy->height == 1 && copy->depth > 1 && copy->destination_slice == copy->width &&
		copy->source_slice == copy->width) {
		copy->width *= copy->depth;
		copy->depth = 1;
	}
}

static void copy_rows(void *destination, uint64_t destination_pitch, const void *source,
	uint64_t source_pitch, uint64_t width, uint64_t rows)
{
	for (uint64_t i = 0; i < rows; i++)
		memcpy((uint8_t *)destination + i * destination_pitch,
			(const uint8_t *)source + i * source_pitch, width);
}

/* ---- records ---- */

/* With the record begun. A record with RECORD_FENCE waits for those before it: the newest stands for all. */
static void note_fence(struct gdev_stream *stream, uint8_t flags)
{
	if (flags & RECORD_FENCE)
		atomic_store_explicit(&stream->session->fenced,
			(uint64_t)stream->timeline << VALUE_BITS | stream->last,
			memory_order_release);
}

static struct gdev_fence newest_fence(struct gdev_session *session)
{
	uint64_t fenced = atomic_load_explicit(&session->fenced, memory_order_acquire);

	return (struct gdev_fence){.timeline = (uint32_t)(fenced >> VALUE_BITS),
		.value = fenced & ((1ull << VALUE_BITS) - 1)};
}

int copy_record(struct gdev_stream *stream, const struct gdev_copy *copy, uint8_t flags)
{
	struct record_copy *record;
	int error = stream_begin(stream, RECORD_COPY, sizeof *record, &record);

	if (error)
		return error;
	record->header.flags = flags;
	record->destination = copy->destination;
	record->source = copy->source;
	record->width = copy->width;
	record->height = copy->height;
	record->depth = copy->depth;
	record->destination_pitch = copy->destination_pitch;
	record->source_pitch = copy->source_pitch;
	record->destination_slice = copy->destination_slice;
	record->source_slice = copy->source_slice;
	note_fence(stream, flags);
	record_commit(stream->session);
	return 0;
}

static int send_write(struct gdev_stream *stream, const struct gdev_copy *copy, uint8_t flags)
{
	struct record_write *record;
	uint32_t bytes = (uint32_t)copy->width;
	int error =
		stream_begin(stream, RECORD_WRITE, align_up(sizeof *record + bytes, 8), &record);

	if (error)
		return error;
	record->header.flags = flags;
	record->destination = copy->destination;
	record->bytes = bytes;
	memcpy(record + 1, (const void *)copy->source, bytes);
	memset((uint8_t *)(record + 1) + bytes, 0, -bytes & 7);
	note_fence(stream, flags);
	record_commit(stream->session);
	return 0;
}

/* Waits until nothing on the stream can wait without end. */
static int wait_for_blockers(struct gdev_stream *stream)
{
	struct gdev_fence blocker = {.timeline = stream->timeline, .value = stream->may_block};

	return gdev_fence_wait(stream->session, &blocker);
}

/* ---- to the device ---- */

static int send_tile(struct gdev_stream *stream, const struct gdev_copy *copy,
	const struct tile *tile, uint8_t flags)
{
	struct gdev_session *session = stream->session;
	struct gdev_fence fence;
	struct slot *slot;
	int error = staging_take(session, &slot);

	if (error)
		return error;
	copy_rows((void *)slot->address, tile->width, (const void *)tile->source,
		copy->source_pitch, tile->width, tile->rows);
	struct gdev_copy second = {
		.destination = tile->destination,
		.source = slot->address,
		.width = tile->width,
		.height = tile->rows,
		.depth = 1,
		.destination_pitch = copy->destination_pitch,
		.source_pitch = tile->width,
	};
	error = copy_record(stream, &second, flags);
	gdev_stream_fence(stream, &fence);
	staging_give(session, slot, error ? NULL : &fence);
	return error;
}

static void send_tiles(void *argument)
{
	struct two_stage *whole = argument;
	struct tile tile;
	int error = 0;

	while (!error && take_tile(whole, &tile)) {
		error = send_tile(whole->stream, whole->copy, &tile, 0);
		note_error(whole, error);
	}
}

/* The last tile is sent when all others have been: its fence is behind them all. */
static int send_all(struct gdev_stream *stream, const struct gdev_copy *copy, uint8_t flags)
{
	struct two_stage whole;
	struct tile last;

	two_stage_init(&whole, stream, copy);
	take_tile(&whole, &last);
	movers_run(stream->session, copy->width * copy->height * copy->depth, send_tiles, &whole);
	two_stage_finish(&whole);
	return whole.error ? whole.error : send_tile(stream, copy, &last, flags);
}

static int copy_to_device(struct gdev_stream *stream, const struct gdev_copy *copy, bool sync)
{
	uint8_t flags = sync ? RECORD_FENCE : 0;
	int error = 0;

	/* A slot must not wait behind something without end: others need it. */
	if (sync || copy->height * copy->depth > 1 || copy->width > stream->session->inline_bytes)
		error = wait_for_blockers(stream);
	if (error)
		return error;
	if (copy->height * copy->depth == 1 && copy->width <= stream->session->inline_bytes)
		return send_write(stream, copy, flags);
	return send_all(stream, copy, flags);
}

/* ---- from the device ---- */

struct arrival {
	struct slot *slot;
	struct tile tile;
	struct gdev_fence fence;
};

static int request_tile(
	struct gdev_stream *stream, const struct gdev_copy *copy, struct arrival *arrival)
{
	const struct tile *tile = &arrival->tile;
	struct gdev_copy first = {
		.destination = arrival->slot->address,
		.source = tile->source,
		.width = tile->width,
		.height = tile->rows,
		.depth = 1,
		.destination_pitch = tile->width,
		.source_pitch = copy->source_pitch,
	};
	int error = copy_record(stream, &first, 0);

	gdev_stream_fence(stream, &arrival->fence);
	return error;
}

static int take_arrival(
	struct gdev_stream *stream, const struct gdev_copy *copy, struct arrival *arrival)
{
	const struct tile *tile = &arrival->tile;
	int error = gdev_fence_wait(stream->session, &arrival->fence);

	if (!error)
		error = stream_take_error(stream);
	if (!error)
		copy_rows((void *)tile->destination, copy->destination_pitch,
			(const void *)arrival->slot->address, tile->width, tile->width, tile->rows);
	/* After an error the worker may still write into the slot; the stream's end is after that. */
	struct gdev_fence end;
	gdev_stream_fence(stream, &end);
	staging_give(stream->session, arrival->slot, error ? &end : NULL);
	return error;
}

/* Asks for the next tile when there is a slot for it: the first one is waited for. False: not now, or
 * there is none. */
static bool request_next(struct two_stage *whole, struct arrival *next, bool first)
{
	struct gdev_session *session = whole->stream->session;
	int error = 0;

	next->slot = NULL;
	if (first)
		error = staging_take(session, &next->slot);
	else
		next->slot = staging_try(session);
	note_error(whole, error);
	if (!next->slot)
		return false;
	if (take_tile(whole, &next->tile)) {
		error = request_tile(whole->stream, whole->copy, next);
		note_error(whole, error);
		if (!error)
			return true;
	}
	staging_give(session, next->slot, NULL);
	return false;
}

static void receive_tiles(void *argument)
{
	struct two_stage *whole = argument;
	struct arrival window[AHEAD_MAX];
	unsigned first = 0, count = 0;

	for (;;) {
		while (count < AHEAD_MAX &&
			request_next(whole, &window[(first + count) % AHEAD_MAX], !count))
			count++;
		if (!count)
			return;
		note_error(whole, take_arrival(whole->stream, whole->copy, &window[first]));
		first = (first + 1) % AHEAD_MAX;
		count--;
	}
}

static int copy_from_device(struct gdev_stream *stream, const struct gdev_copy *copy)
{
	struct two_stage whole;
	int error = wait_for_blockers(stream);

	if (error)
		return error;
	two_stage_init(&whole, stream, copy);
	movers_run(
		stream->session, copy->width * copy->height * copy->depth, receive_tiles, &whole);
	two_stage_finish(&whole);
	return whole.error;
}

/* ---- within the process ---- */

static int copy_in_process(struct gdev_stream *stream, const struct gdev_copy *copy)
{
	int error = gdev_stream_sync(stream);

	if (error)
		return error;
	if (copy->height == 1 && copy->depth == 1) {
		memmove((void *)copy->destination, (const void *)copy->source, copy->width);
		return 0;
	}
	for (uint64_t plane = 0; plane < copy->depth; plane++)
		copy_rows((uint8_t *)copy->destination + plane * copy->destination_slice,
			copy->destination_pitch,
			(const uint8_t *)copy->source + plane * copy->source_slice,
			copy->source_pitch, copy->width, copy->height);
	return 0;
}

/* ---- all directions ---- */

static bool touches_arena(const struct gdev_session *session, uint64_t address, uint64_t span)
{
	const struct gdev_description *description = &session->description;

	return address + span > description->arena_base &&
	       address < description->arena_base + description->arena_bytes;
}

/* Where arenas are, memory of the process hardly ever is: most copies need not look further. */
static bool may_be_of_peer(uint64_t address, uint64_t span)
{
	return address + span > ARENA_DEFAULT_BASE &&
	       address < ARENA_DEFAULT_BASE + ARENA_BASES * ARENA_DEFAULT_BYTES;
}

/* What a copy goes from and to: memory that the worker can name, or the process's own, GDEV_MEMORY_UNKNOWN. */
struct sides {
	enum gdev_memory_kind to, from;
};

/* -EINVAL: a side had to be memory that the worker can name, and is not; in the arena there is no other memory, and in
 * another session's none but what the process itself can read and write. */
static int find_side(struct gdev_session *session, uint64_t address, uint64_t span,
	enum gdev_side side, enum gdev_memory_kind *kind, bool *managed)
{
	struct gdev_range range;

	gdev_memory_lookup(session, address, &range);
	*managed |= range.kind == GDEV_MEMORY_MANAGED;
	*kind = range.kind;
	if (range.kind != GDEV_MEMORY_UNKNOWN && span <= range.bytes - (address - range.base))
		return 0;
	*kind = GDEV_MEMORY_UNKNOWN;
	return side == GDEV_SIDE_DEVICE || touches_arena(session, address, span) ||
			       (may_be_of_peer(address, span) &&
				       session_others_have(session, address, span))
		       ? -EINVAL
		       : 0;
}

static int copy_named(
	struct gdev_stream *stream, const struct gdev_copy *copy, struct sides sides, bool sync)
{
	int error;

	if (!sync)
		return copy_record(stream, copy, 0);
	if (sides.to != GDEV_MEMORY_HOST && sides.from != GDEV_MEMORY_HOST) {
		error = wait_for_blockers(stream);
		return error ? error : copy_record(stream, copy, RECORD_FENCE);
	}
	error = copy_record(stream, copy, 0);
	return error ? error : gdev_stream_sync(stream);
}

/* ---- by ourselves ---- */

/* A copy that a record, or several, could do; and that we do, as far as we can. */
struct direct_copy {
	struct two_stage whole;
	enum copy_direction direction;
	struct sides sides;
	bool sync;
};

static int copy_by_record(
	struct gdev_stream *stream, const struct gdev_copy *copy, struct sides sides, bool sync)
{
	if (sides.to && sides.from)
		return copy_named(stream, copy, sides, sync);
	if (sides.to)
		return copy_to_device(stream, copy, sync);
	return copy_from_device(stream, copy);
}

/* Waits for what comes before a copy that we do ourselves, or only looks when it may not wait: -GDEV_E_NOT_READY. */
static int reach_turn(struct gdev_stream *stream, bool wait)
{
	struct gdev_session *session = stream->session;
	struct gdev_fence points[2] = {newest_fence(session)};
	int error = 0;

	gdev_stream_fence(stream, &points[1]);
	for (int i = 0; i < 2 && !error; i++)
		error = wait ? gdev_fence_wait(session, &points[i])
			     : gdev_fence_query(session, &points[i]);
	return error;
}

static int tile_by_record(struct direct_copy *direct, const struct tile *tile)
{
	struct gdev_copy part = *direct->whole.copy;

	part.destination = tile->destination;
	part.source = tile->source;
	part.width = tile->width;
	part.height = tile->rows;
	part.depth = 1;
	return copy_by_record(direct->whole.stream, &part, direct->sides, direct->sync);
}

static bool tile_by_ourselves(struct direct_copy *direct, const struct tile *tile)
{
	const struct gdev_copy *copy = direct->whole.copy;
	bool to_device = direct->direction == COPY_TO_DEVICE;
	struct direct_piece piece = {
		.direction = direct->direction,
		.device = to_device ? tile->destination : tile->source,
		.device_pitch = to_device ? copy->destination_pitch : copy->source_pitch,
		.host = to_device ? tile->source : tile->destination,
		.host_pitch = to_device ? copy->source_pitch : copy->destination_pitch,
		.width = tile->width,
		.rows = tile->rows,
		.streaming = copy->width >= COPY_STREAM_ROW_BYTES &&
			     copy->width * copy->height * copy->depth >= COPY_STREAM_BYTES,
	};

	piece.last = copy->width * copy->height * copy->depth >= LONG_BYTES &&
		     tile->source + tile->width ==
			     copy->source + (copy->depth - 1) * copy->source_slice +
				     (copy->height - 1) * copy->source_pitch + copy->width;
	return direct_move(direct->whole.stream->session, &piece);
}

/* When it is not our turn, a little of the copy asks for it, and the rest we do ourselves: what goes through the staging
 * memory is copied twice, and brings that into the caches instead of what the turn is for. */
static int copy_tile(struct direct_copy *direct, const struct tile *tile)
{
	struct tile first = *tile, rest = *tile;
	int error;

	if (tile_by_ourselves(direct, tile))
		return 0;
	if (!direct->sync || tile->rows > 1 || tile->width <= ASK_BYTES)
		return tile_by_record(direct, tile);
	first.width = ASK_BYTES;
	rest.destination += ASK_BYTES;
	rest.source += ASK_BYTES;
	rest.width -= ASK_BYTES;
	error = tile_by_record(direct, &first);
	if (!error)
		error = reach_turn(direct->whole.stream, true);
	if (error || tile_by_ourselves(direct, &rest))
		return error;
	return tile_by_record(direct, &rest);
}

static void move_tiles(void *argument)
{
	struct direct_copy *direct = argument;
	struct tile tile;
	int error = 0;

	while (!error && take_tile(&direct->whole, &tile)) {
		error = copy_tile(direct, &tile);
		note_error(&direct->whole, error);
	}
}

/* Whether we may do it; then the stream has come to it. An error ends the copy. */
static int direct_begin(struct gdev_stream *stream, const struct gdev_copy *copy,
	struct direct_copy *direct, bool *begun)
{
	struct gdev_session *session = stream->session;
	bool to_device = direct->direction == COPY_TO_DEVICE;
	/* Copies that the caller need not wait for. */
	bool sent = to_device && copy->height * copy->depth == 1 &&
		    copy->width <= session->inline_bytes && !direct->sides.from;
	bool wait = direct->sync && !sent;
	int error;

	*begun = false;
	if (!direct_prepare(session, to_device ? copy->destination : copy->source, !sent))
		return 0;
	error = reach_turn(stream, wait || !to_device);
	if (error == -GDEV_E_NOT_READY)
		return 0;
	if (!error && !to_device)
		error = stream_take_error(stream);
	*begun = !error;
	return error;
}

static int copy_piece(
	struct gdev_stream *stream, const struct gdev_copy *copy, struct direct_copy *direct)
{
	struct tile all = {copy->destination, copy->source, copy->width, 1};

	direct->whole.stream = stream;
	direct->whole.copy = copy;
	return copy_tile(direct, &all);
}

static int copy_pieces(
	struct gdev_stream *stream, const struct gdev_copy *copy, struct direct_copy *direct)
{
	two_stage_init(&direct->whole, stream, copy);
	direct->whole.tiles.chunk = SESSION_DIRECT_BYTES;
	movers_run(stream->session, copy->width * copy->height * copy->depth, move_tiles, direct);
	two_stage_finish(&direct->whole);
	return direct->whole.error;
}

/* *done: the copy is, or has failed. */
static int copy_directly(struct gdev_stream *stream, const struct gdev_copy *copy,
	struct direct_copy *direct, bool *done)
{
	int error = direct_begin(stream, copy, direct, done);

	if (!*done) {
		*done = error;
		return error;
	}
	if (copy->height * copy->depth == 1 && copy->width <= PIECE_MIN)
		error = copy_piece(stream, copy, direct);
	else
		error = copy_pieces(stream, copy, direct);
	if (direct->sync)
		gdev_session_flush(stream->session);
	return error;
}

/* Between device memory and the process's own, page-locked or not. The worker overlaps what is page-locked
 * and asynchronous with everything else. */
static bool may_copy_directly(struct direct_copy *direct)
{
	enum gdev_memory_kind to = direct->sides.to, from = direct->sides.from;

	if (to && from && !direct->sync)
		return false;
	direct->direction = to == GDEV_MEMORY_DEVICE ? COPY_TO_DEVICE : COPY_FROM_DEVICE;
	if (to == GDEV_MEMORY_DEVICE)
		return !from || from == GDEV_MEMORY_HOST;
	return from == GDEV_MEMORY_DEVICE && (!to || to == GDEV_MEMORY_HOST);
}

/* ---- by the transport ---- */

static int move_planes(struct gdev_session *session, const struct gdev_copy *copy, bool to_device)
{
	struct transport *transport = session->transport;
	int error = 0;

	for (uint64_t plane = 0; plane < copy->depth && !error; plane++) {
		uint64_t destination = copy->destination + plane * copy->destination_slice;
		uint64_t source = copy->source + plane * copy->source_slice;
		struct transport_rows rows = {
			.device = to_device ? destination : source,
			.host = to_device ? source : destination,
			.width = copy->width,
			.count = copy->height,
			.device_pitch = to_device ? copy->destination_pitch : copy->source_pitch,
			.host_pitch = to_device ? copy->source_pitch : copy->destination_pitch,
		};

		error = transport->ops->copy(
			transport, to_device ? COPY_TO_DEVICE : COPY_FROM_DEVICE, &rows);
	}
	return error;
}

static int copy_by_transport(
	struct gdev_stream *stream, const struct gdev_copy *copy, bool to_device, bool sync)
{
	struct gdev_session *session = stream->session;
	int error;

	if (to_device && copy->height * copy->depth == 1 && copy->width <= session->inline_bytes)
		return copy_to_device(stream, copy, sync);
	error = reach_turn(stream, true);
	if (!error)
		error = stream_take_error(stream);
	if (!error)
		error = move_planes(session, copy, to_device);
	if (sync)
		gdev_session_flush(session);
	return error;
}

/* Of sides that are found, and a copy that is not empty. */
static int copy_found(
	struct gdev_stream *stream, const struct gdev_copy *copy, struct direct_copy *direct)
{
	struct gdev_session *session = stream->session;
	struct sides sides = direct->sides;
	bool done;
	int error;

	if (!sides.to && !sides.from)
		return copy_in_process(stream, copy);
	if (session->transport->ops->copy && (!sides.to || !sides.from))
		return (sides.to ? sides.to : sides.from) == GDEV_MEMORY_HOST
			       ? copy_in_process(stream, copy)
			       : copy_by_transport(stream, copy, sides.to, direct->sync);
	if (may_copy_directly(direct)) {
		error = copy_directly(stream, copy, direct, &done);
		if (done)
			return error;
	}
	return copy_by_record(stream, copy, sides, direct->sync);
}

/* What the copy waits for may be a host function that touches managed memory, and so waits for whoever has entered it. */
static int copy_managed(struct gdev_stream *stream, const struct gdev_copy *copy,
	struct direct_copy *direct, const uint64_t spans[2])
{
	struct gdev_session *session = stream->session;
	int error = wait_for_blockers(stream), to, from = 0;

	if (error)
		return error;
	to = managed_enter(session, copy->destination, spans[0]);
	if (to >= 0)
		from = managed_enter(session, copy->source, spans[1]);
	error = min_of(min_of(to, from), 0);
	if (!error)
		error = copy_found(stream, copy, direct);
	managed_leave(session, from);
	managed_leave(session, to);
	return error;
}

static int copy_any(struct gdev_stream *stream, const struct gdev_copy *wanted, bool sync)
{
	struct gdev_session *session = stream->session;
	struct direct_copy direct = {.sync = sync};
	struct gdev_copy copy = *wanted;
	uint64_t spans[2];
	bool managed = false;
	int error = gdev_session_error(session, NULL);

	if (error)
		return error;
	if (!copy.width || !copy.height || !copy.depth)
		return 0;
	if (!span_of(&copy, copy.destination_pitch, copy.destination_slice, &spans[0]) ||
		!span_of(&copy, copy.source_pitch, copy.source_slice, &spans[1]))
		return -EINVAL;
	error = find_side(session, copy.destination, spans[0], copy.destination_side,
		&direct.sides.to, &managed);
	if (!error)
		error = find_side(session, copy.source, spans[1], copy.source_side,
			&direct.sides.from, &managed);
	if (error)
		return error;
	flatten_copy(&copy);
	return managed ? copy_managed(stream, &copy, &direct, spans)
		       : copy_found(stream, &copy, &direct);
}

/* A copy that is only queued is done for whatever this session submits next, but not for others. */
static int complete_for_others(struct gdev_stream *stream)
{
	struct gdev_fence fence;

	gdev_stream_fence(stream, &fence);
	return gdev_fence_wait(stream->session, &fence);
}

int copies_complete(struct gdev_session *session)
{
	struct gdev_fence fence = newest_fence(session);

	return gdev_fence_wait(session, &fence);
}

int gdev_copy(struct gdev_stream *stream, const struct gdev_copy *copy)
{
	int error = copy_any(stream, copy, true);

	return error || !stream->session->shares ? error : complete_for_others(stream);
}

int gdev_copy_async(struct gdev_stream *stream, const struct gdev_copy *copy)
{
	return copy_any(stream, copy, false);
}

int fill_record(struct gdev_stream *stream, const struct gdev_fill *fill, uint8_t flags)
{
	struct record_fill *record;
	int error = stream_begin(stream, RECORD_FILL, sizeof *record, &record);

	if (error)
		return error;
	record->header.flags = flags;
	record->destination = fill->destination;
	record->width = fill->width;
	record->height = fill->height;
	record->pitch = fill->pitch;
	record->element_bytes = fill->element_bytes;
	record->value = fill->value;
	note_fence(stream, flags);
	record_commit(stream->session);
	return 0;
}

int gdev_fill_async(struct gdev_stream *stream, const struct gdev_fill *fill)
{
	struct gdev_session *session = stream->session;
	struct gdev_copy shape = {
		.width = fill->width * fill->element_bytes, .height = fill->height, .depth = 1};
	uint64_t span;
	int error = gdev_session_error(session, NULL), entered;

	if (error)
		return error;
	if (fill->element_bytes != 1 && fill->element_bytes != 2 && fill->element_bytes != 4)
		return -EINVAL;
	if (!fill->width || !fill->height)
		return 0;
	if (fill->width > UINT64_MAX / 4 || !span_of(&shape, fill->pitch, 0, &span) ||
		fill->destination % fill->element_bytes ||
		!memory_contains(session, fill->destination, span))
		return -EINVAL;
	entered = managed_enter(session, fill->destination, span);
	error = entered < 0 ? entered : fill_record(stream, fill, 0);
	managed_leave(session, entered);
	return error;
}
