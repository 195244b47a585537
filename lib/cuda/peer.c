/* SPDX-License-Identifier: MIT
 *
 * Memory of several devices in one call: copies and fills whose addresses are of another device than their stream, and
 * what an address is, of whatever device.
 *
 * Every device has a session of its own, with addresses of its own, so an address says whose it is. Where devices reach
 * each other's memory, the session of the stream maps what a command names, and does it as any other.
 *
 * If the devices are processors, that of the other device does half of a large copy.
 *
 * Where they do not, a copy within the other device is done on a lane there: a stream that is the library's own. A copy
 * from one device to another goes through memory of the process, in pieces, the next of which is read while one is
 * written. The call waits for its stream first, and for the copy: CUDA allows a copy that has to be staged to be
 * synchronous.
 *
 * A program that uses one device pays one look at a counter.
 */
#include <errno.h>
#include <stdlib.h>
#include <sys/shm.h>

#include "lib/cuda/internal.h"
#include "proto/properties.h"

#define PIECE_BYTES (4u << 20)
#define HALVED_FROM (4 * (uint64_t)PIECE_BYTES)
#define PAGE_LOCKED_FROM (1u << 20) /* less is staged in plain memory, which costs no message */

static pthread_mutex_t *const lock = &process_locks[LOCK_DEVICES];

/* ---- whose memory it is ---- */

struct place {
	/* Whose device memory it is, referenced; NULL: the process reads and writes it by itself, or nobody knows it. */
	struct gdev_session *session;
	struct device *device;      /* NULL: it is not another device's, of whatever kind */
	struct gdev_session *owner; /* of what is another device's, referenced */
	struct gdev_session
		*user; /* its commands can name that as long as the place is kept; NULL */
	struct gdev_range range;
};

static struct gdev_session *session_of(struct device *device)
{
	struct gdev_session *session;

	pthread_mutex_lock(lock);
	session = device->session;
	if (session)
		gdev_session_ref(session);
	pthread_mutex_unlock(lock);
	return session;
}

/* Whether it is memory of the session, which the place then keeps if it is device memory. */
static bool is_of(struct gdev_session *session, uint64_t address, struct place *place)
{
	gdev_memory_lookup(session, address, &place->range);
	if (place->range.kind == GDEV_MEMORY_UNKNOWN)
		return false;
	if (place->range.kind != GDEV_MEMORY_HOST) {
		gdev_session_ref(session);
		place->session = session;
	}
	return true;
}

static bool in_arena(struct gdev_session *session, uint64_t address)
{
	const struct gdev_description *description = gdev_session_description(session);

	return address - description->arena_base < description->arena_bytes;
}

/* The place of an address that is in some device's arena, where nobody else has anything; or of one that is in none, as
 * those of variables are. */
static bool look_elsewhere(
	uint64_t address, struct gdev_session *mine, bool in_arenas, struct place *place)
{
	struct device *device;
	bool found = false;

	for (CUdevice i = 0; i < devices_count() && !found; i++) {
		struct gdev_session *session =
			device_find(i, &device) == CUDA_SUCCESS ? session_of(device) : NULL;
		if (!session)
			continue;
		if (session != mine && in_arena(session, address) == in_arenas)
			found = is_of(session, address, place) || in_arenas;
		if (found) {
			place->device = device;
			place->owner = session;
		} else {
			gdev_session_close(session);
		}
	}
	return found;
}

/* `mine` knows what is mapped for it, too, but not as what the owner does. */
static void find_place(uint64_t address, struct gdev_session *mine, struct place *place)
{
	*place = (struct place){0};
	if (!in_arena(mine, address) && look_elsewhere(address, mine, true, place))
		return;
	if (!is_of(mine, address, place))
		look_elsewhere(address, mine, false, place);
}

unsigned peer_sessions(struct gdev_session *sessions[DEVICES_MAX])
{
	struct device *device;
	unsigned count = 0;

	for (CUdevice i = 0; i < devices_count() && device_find(i, &device) == CUDA_SUCCESS; i++) {
		sessions[count] = session_of(device);
		count += sessions[count] != NULL;
	}
	return count;
}

/* In the addresses of another device, which has nothing there (any more). */
static bool is_stray(const struct place *place)
{
	return place->device && place->range.kind == GDEV_MEMORY_UNKNOWN;
}

static void leave_place(struct place *place)
{
	if (place->user)
		gdev_peer_release(place->user, place->owner, place->range.base);
	gdev_session_close(place->session);
	gdev_session_close(place->owner);
}

bool peer_find(uint64_t address, struct gdev_session *mine, struct gdev_range *range)
{
	struct place place;

	if (devices_used() < 2)
		return false;
	find_place(address, mine, &place);
	leave_place(&place);
	if (place.range.kind == GDEV_MEMORY_UNKNOWN)
		return false;
	*range = place.range;
	return true;
}

/* ---- lanes ---- */

struct lane {
	struct gdev_stream *stream;
	const struct place *place;
};

/* A stream on the device of the place. */
static CUresult take_lane(const struct place *place, CUstream stream, struct lane *lane)
{
	struct device *device = place->device;

	lane->place = place;
	lane->stream = stream->stream;
	if (!device)
		return CUDA_SUCCESS;
	pthread_mutex_lock(lock);
	lane->stream = device->session == place->session ? steal_pointer(&device->lane) : NULL;
	pthread_mutex_unlock(lock);
	if (lane->stream)
		return CUDA_SUCCESS;
	return result_of(gdev_stream_create(place->session, 0, &lane->stream),
		"a stream on the other device cannot be made");
}

/* The device keeps one for the next call. */
static void give_lane(struct lane *lane)
{
	struct device *device = lane->place->device;

	if (!device)
		return;
	pthread_mutex_lock(lock);
	if (!device->lane && device->session == lane->place->session)
		device->lane = steal_pointer(&lane->stream);
	pthread_mutex_unlock(lock);
	gdev_stream_destroy(lane->stream);
}

/* ---- from device to device ---- */

/* What of a copy is still to be done. */
struct rest {
	const struct gdev_copy *copy;
	uint64_t plane, row, column; /* where the next piece begins */
};

static bool next_piece(struct rest *rest, struct gdev_copy *piece)
{
	const struct gdev_copy *copy = rest->copy;

	if (rest->plane == copy->depth)
		return false;
	*piece = *copy;
	piece->destination += rest->plane * copy->destination_slice +
			      rest->row * copy->destination_pitch + rest->column;
	piece->source +=
		rest->plane * copy->source_slice + rest->row * copy->source_pitch + rest->column;
	piece->width = min_of(copy->width - rest->column, PIECE_BYTES);
	piece->height = copy->width > PIECE_BYTES
				? 1
				: min_of(PIECE_BYTES / copy->width, copy->height - rest->row);
	piece->depth = 1;
	rest->column += piece->width;
	if (rest->column < copy->width)
		return true;
	rest->column = 0;
	rest->row += piece->height;
	if (rest->row < copy->height)
		return true;
	rest->row = 0;
	rest->plane++;
	return true;
}

/* Rows and planes that follow each other on both sides are one row. */
static struct gdev_copy flattened(const struct gdev_copy *copy)
{
	struct gdev_copy flat = *copy;

	if (flat.depth > 1 && flat.destination_slice == flat.height * flat.destination_pitch &&
		flat.source_slice == flat.height * flat.source_pitch) {
		flat.height *= flat.depth;
		flat.depth = 1;
	}
	if (flat.depth == 1 && flat.height > 1 && flat.destination_pitch == flat.width &&
		flat.source_pitch == flat.width) {
		flat.width *= flat.height;
		flat.height = 1;
	}
	return flat;
}

static int read_piece(const struct lane *from, const struct gdev_copy *piece, uint64_t slot)
{
	struct gdev_copy copy = *piece;

	copy.destination = slot;
	copy.destination_pitch = piece->width;
	return gdev_copy_async(from->stream, &copy);
}

static int write_piece(const struct lane *to, const struct gdev_copy *piece, uint64_t slot)
{
	struct gdev_copy copy = *piece;

	copy.source = slot;
	copy.source_pitch = piece->width;
	return gdev_copy(to->stream, &copy);
}

/* Through two slots of the process's memory at `memory`. Neither is in use afterwards. */
static int copy_pieces(const struct lane *to, const struct lane *from, const struct gdev_copy *copy,
	uint64_t memory, uint64_t slot_bytes)
{
	struct rest rest = {.copy = copy};
	struct gdev_copy piece, next;
	bool more = next_piece(&rest, &next);
	unsigned slot = 0;
	int error = read_piece(from, &next, memory);

	while (more && !error) {
		piece = next;
		error = gdev_stream_sync(from->stream);
		more = next_piece(&rest, &next);
		if (!error && more)
			error = read_piece(from, &next, memory + !slot * slot_bytes);
		if (!error)
			error = write_piece(to, &piece, memory + slot * slot_bytes);
		slot = !slot;
	}
	if (error)
		gdev_stream_sync(from->stream);
	return error;
}

static int copy_staged(const struct lane *to, const struct lane *from, const struct gdev_copy *copy)
{
	struct gdev_copy flat = flattened(copy);
	uint64_t bytes = flat.width * flat.height * flat.depth;
	uint64_t slot_bytes = min_of(PIECE_BYTES, bytes);
	void *memory;
	int error;

	if (bytes < PAGE_LOCKED_FROM) {
		autofree void *plain = malloc(2 * slot_bytes);
		return plain ? copy_pieces(to, from, &flat, (uint64_t)plain, slot_bytes) : -ENOMEM;
	}
	error = gdev_host_alloc(from->place->session, 2 * slot_bytes, &memory);
	if (error)
		return error;
	error = copy_pieces(to, from, &flat, (uint64_t)memory, slot_bytes);
	gdev_memory_free(from->place->session, (uint64_t)memory);
	return error;
}

/* ---- copies and fills ---- */

/* Whether commands of `mine` can name the memory: it is mapped for them, and no end of an access changes that before they
 * are submitted. */
static bool is_reached(struct place *place, struct gdev_session *mine, bool writes)
{
	if (!place->device || place->user)
		return true;
	if (gdev_peer_hold(mine, place->owner, place->range.base, writes ? 0 : SHM_RDONLY))
		return false;
	place->user = mine;
	return true;
}

static CUresult await_stream(CUstream stream)
{
	return result_of(
		gdev_stream_sync(stream->stream), "the stream's work before the call failed");
}

static CUresult copy_between(CUstream stream, const struct place *destination,
	const struct place *source, const struct gdev_copy *copy)
{
	struct lane to, from;
	CUresult result;

	TRY(take_lane(destination, stream, &to));
	result = take_lane(source, stream, &from);
	if (result == CUDA_SUCCESS) {
		result = copy_result(copy, copy_staged(&to, &from, copy));
		give_lane(&from);
	}
	give_lane(&to);
	return result;
}

static CUresult copy_there(CUstream stream, const struct place *place, const struct gdev_copy *copy)
{
	struct lane lane;
	int error;

	TRY(take_lane(place, stream, &lane));
	error = gdev_copy(lane.stream, copy);
	if (!error)
		error = gdev_stream_sync(lane.stream);
	give_lane(&lane);
	return copy_result(copy, error);
}

/* ---- by both devices ---- */

static struct gdev_copy part_of(const struct gdev_copy *copy, uint64_t offset, uint64_t bytes)
{
	return gdev_copy_linear(copy->destination + offset, copy->source + offset, bytes);
}

/* Only the memory of devices that are processors is directly accessible from the host. */
static bool is_of_processors(struct gdev_session *session)
{
	int32_t direct = 0;

	return !gdev_session_property(session, PROPERTY_DIRECT_MANAGED_ACCESS_FROM_HOST, &direct) &&
	       direct;
}

/* The second half, on a lane of the other device, behind what the stream has; `done` is when it is over there. */
static int send_half(CUstream stream, const struct place *there, const struct gdev_copy *half,
	struct gdev_fence *done)
{
	struct gdev_fence before;
	struct lane lane;
	int error;

	if (take_lane(there, stream, &lane) != CUDA_SUCCESS)
		return -ENOMEM;
	gdev_stream_fence(stream->stream, &before);
	error = gdev_stream_wait_peer(lane.stream, stream->context->session, &before);
	if (!error)
		error = gdev_copy_async(lane.stream, half);
	gdev_stream_fence(lane.stream, done);
	give_lane(&lane);
	return error;
}

static bool is_within(const struct place *place, uint64_t address, uint64_t bytes)
{
	uint64_t offset = address - place->range.base;

	return offset < place->range.bytes && bytes <= place->range.bytes - offset;
}

/* Where devices copy by processors of their own, one alone takes up to twice the time of both. Each does a half, under its
 * own grant. An error of the other half would stay with its lane, so a copy that leaves an allocation is not one of these.
 * *halved: it is submitted; else the stream's device has to do all of it. */
static CUresult copy_halved(CUstream stream, const struct place *to, const struct place *from,
	const struct gdev_copy *wanted, bool *halved)
{
	struct gdev_session *mine = stream->context->session;
	const struct place *there = to->device ? to : from, *here = to->device ? from : to;
	struct gdev_copy copy = flattened(wanted), first, second;
	uint64_t half = copy.width / 2 & ~(uint64_t)(PIECE_BYTES - 1);
	struct gdev_fence done;
	int error, wait_error;

	*halved = false;
	if (copy.height * copy.depth > 1 || copy.width < HALVED_FROM || here->session != mine ||
		!is_within(to, copy.destination, copy.width) ||
		!is_within(from, copy.source, copy.width) || !there->device ||
		!is_of_processors(mine) || !is_of_processors(there->session) ||
		gdev_peer_hold(there->session, mine, here->range.base, here == to ? 0 : SHM_RDONLY))
		return CUDA_SUCCESS;
	first = part_of(&copy, 0, half);
	second = part_of(&copy, half, copy.width - half);
	error = send_half(stream, there, &second, &done);
	gdev_peer_release(there->session, mine, here->range.base);
	if (error)
		return CUDA_SUCCESS;
	*halved = true;
	error = gdev_copy_async(stream->stream, &first);
	wait_error = gdev_stream_wait_peer(stream->stream, there->session, &done);
	return copy_result(wanted, error ? error : wait_error);
}

static CUresult copy_across(CUstream stream, struct place *to, struct place *from,
	const struct gdev_copy *wanted, bool sync)
{
	struct gdev_session *mine = stream->context->session;
	bool between = to->session && from->session && to->session != from->session;
	const struct place *there = to->session ? to : from;
	struct gdev_copy copy = *wanted;
	bool halved = false;

	copy.destination_side = copy.source_side = GDEV_SIDE_ANY;
	if (is_stray(to) || is_stray(from))
		return copy_result(&copy, -EINVAL);
	if ((is_reached(to, mine, true) && is_reached(from, mine, false)) ||
		(!between && (!there->session || there->session == mine))) {
		if (between)
			TRY(copy_halved(stream, to, from, &copy, &halved));
		if (halved)
			return sync ? await_stream(stream) : CUDA_SUCCESS;
		return copy_result(&copy, sync ? gdev_copy(stream->stream, &copy)
					       : gdev_copy_async(stream->stream, &copy));
	}
	TRY(await_stream(stream));
	return between ? copy_between(stream, to, from, &copy) : copy_there(stream, there, &copy);
}

CUresult peer_copy(CUstream stream, const struct gdev_copy *copy, bool sync, bool *across)
{
	struct gdev_session *mine = stream->context->session;
	CUresult result = CUDA_SUCCESS;
	struct place to, from;

	*across = false;
	if (devices_used() < 2 || !copy->width || !copy->height || !copy->depth)
		return CUDA_SUCCESS;
	find_place(copy->destination, mine, &to);
	find_place(copy->source, mine, &from);
	*across = to.device || from.device;
	if (*across)
		result = copy_across(stream, &to, &from, copy, sync);
	leave_place(&to);
	leave_place(&from);
	return result;
}

static CUresult fill_there(CUstream stream, const struct place *place, const struct gdev_fill *fill)
{
	struct lane lane;
	int error;

	TRY(await_stream(stream));
	TRY(take_lane(place, stream, &lane));
	error = gdev_fill_async(lane.stream, fill);
	if (!error)
		error = gdev_stream_sync(lane.stream);
	give_lane(&lane);
	return fill_result(fill, error);
}

/* A fill of memory that the process can read is done when the call returns. */
static CUresult fill_here(
	CUstream stream, const struct place *place, const struct gdev_fill *fill, bool sync)
{
	TRY(fill_result(fill, gdev_fill_async(stream->stream, fill)));
	return sync && place->range.mapped
		       ? result_of(gdev_stream_sync(stream->stream), "the fill failed")
		       : CUDA_SUCCESS;
}

CUresult peer_fill(CUstream stream, const struct gdev_fill *fill, bool sync, bool *across)
{
	CUresult result = CUDA_SUCCESS;
	struct place place;

	*across = false;
	if (devices_used() < 2)
		return CUDA_SUCCESS;
	find_place(fill->destination, stream->context->session, &place);
	*across = place.device;
	if (is_stray(&place))
		result = fill_result(fill, -EINVAL);
	else if (*across)
		result = is_reached(&place, stream->context->session, true)
				 ? fill_here(stream, &place, fill, sync)
				 : fill_there(stream, &place, fill);
	leave_place(&place);
	return result;
}
