/* SPDX-License-Identifier: MIT
 *
 * The socket to the client (proto/peer.h): memory that comes as descriptors, and the news of its death.
 */
#include "worker/core.h"

#include <errno.h>
#include <sys/socket.h>

#include "base/cleanup.h"
#include "base/fd.h"
#include "gdev/error.h"
#include "proto/peer.h"
#include "worker/memory/shm.h"

#define PAGE_BYTES 4096

static int host_add(
	struct core *core, const struct peer_message *message, const int *fds, size_t fd_count)
{
	uint64_t offset = message->piece_bytes[0], size;
	struct range *range;
	int error;

	if (fd_count != 1 || message->address % PAGE_BYTES || message->bytes % PAGE_BYTES ||
		offset % PAGE_BYTES)
		return -EINVAL;
	error = fd_shared_memory_size(fds[0], &size);
	if (error || size < offset || size - offset < message->bytes)
		return -EINVAL;
	core_lock(core);
	error = memory_insert(core, RANGE_HOST, message->address, message->bytes, &range);
	core_unlock(core);
	if (error)
		return error;
	/* The range is ours alone until it is ready, so mapping needs no lock. */
	error = memory_map_host(core, range->address, range->bytes, fds[0], offset);
	core_lock(core);
	if (error)
		memory_remove(core, range);
	else
		range->ready = true;
	core_unlock(core);
	return error;
}

/* Messages come one at a time, so nobody else adds a range meanwhile. */
static int range_add(struct core *core, const struct peer_message *message)
{
	int error;

	core_lock(core);
	error = memory_check_peer(core, message->address, message->bytes);
	core_unlock(core);
	if (error)
		return error == -EEXIST ? 0 : error;
	error = core->ops->space_reserve(core->space, message->address, message->bytes);
	if (error)
		return error;
	core_lock(core);
	memory_add_peer(core, message->address, message->bytes);
	core_unlock(core);
	return 0;
}

/* Whether the client may map the range: a segment while it is here and stays; for direct copies, before which the worker can
 * take it away, only memory of its own, also where that has become a segment. -EAGAIN: not now. */
static int check_mapping(const struct range *range, bool revocable)
{
	if (range->kind == RANGE_DEVICE)
		return 0;
	if (range->kind != RANGE_SHARED || (revocable && !shared_is_export(range)))
		return -EINVAL;
	return shared_check_mapping(range->shared);
}

/* With the lock, which keeps the pieces. */
static int collect_pieces(struct core *core, const struct peer_message *request,
	struct peer_message *answer, int *fds)
{
	struct range *range = memory_find(core, request->address, request->bytes);
	bool revocable = request->type == PEER_DEVICE_MAP_REVOCABLE;
	int error = range ? check_mapping(range, revocable) : -EINVAL;
	uint64_t address;

	if (error)
		return error;
	if (!request->bytes || !range->piece_count || range->read_only)
		return -EINVAL;
	address = range->address;
	for (size_t i = 0; i < range->piece_count; i++) {
		struct piece *piece = &range->pieces[i];
		if (address >= request->address && address < request->address + request->bytes) {
			if (answer->pieces == PEER_FDS_MAX)
				break;
			if (!piece->chunk || piece->state != PIECE_RESIDENT)
				return -EAGAIN;
			error = core->ops->chunk_host_fd(piece->chunk, &fds[answer->pieces]);
			if (error)
				return error;
			answer->piece_bytes[answer->pieces++] = piece->bytes;
			answer->bytes += piece->bytes;
		}
		if (!answer->pieces && address > request->address)
			return -EINVAL; /* not where a piece begins */
		address += piece->bytes;
	}
	if (!answer->pieces)
		return -EINVAL;
	range->mapped |= !revocable;
	range->lent |= revocable;
	return 0;
}

static int device_map(struct core *core, const struct peer_message *request,
	struct peer_message *answer, int *fds)
{
	int error;

	if (!core->ops->chunk_host_fd)
		return -ENOTSUP;
	core_lock(core);
	error = collect_pieces(core, request, answer, fds);
	core_unlock(core);
	return error;
}

/* 0, or -errno when the connection is of no more use. */
static int serve_request(
	struct core *core, const struct peer_message *request, int *fds, size_t fd_count)
{
	struct peer_message answer = {
		.type = request->type,
		.serial = request->serial,
		.address = request->address,
	};
	int pieces[PEER_FDS_MAX], error;

	switch (request->type) {
	case PEER_HOST_ADD:
		answer.status = host_add(core, request, fds, fd_count);
		break;
	case PEER_IMAGE:
		answer.status = fd_count == 1
					? image_add(core, fds[0], request->bytes, &answer.address)
					: -EINVAL;
		break;
	case PEER_DEVICE_MAP:
	case PEER_DEVICE_MAP_REVOCABLE:
		answer.status = device_map(core, request, &answer, pieces);
		break;
	case PEER_RANGE_ADD:
		answer.status = fd_count ? -EINVAL : range_add(core, request);
		break;
	default:
		return -EPROTO;
	}
	error = fd_send(
		core->peer_fd, &answer, sizeof answer, pieces, answer.status ? 0 : answer.pieces);
	fd_close_all(pieces, answer.pieces);
	return error;
}

/* 1: served one; 0: none there; -errno. */
static int serve_one(struct core *core)
{
	struct peer_message message;
	int fds[1], error;
	size_t fd_count = array_length(fds);
	ssize_t length = fd_receive(core->peer_fd, &message, sizeof message, fds, &fd_count);

	if (length == -EAGAIN)
		return 0;
	if (length <= 0)
		return length == 0 || length == -ECONNRESET ? -ECONNRESET : -EPROTO;
	error = length == sizeof message ? serve_request(core, &message, fds, fd_count) : -EPROTO;
	fd_close_all(fds, fd_count);
	return error ? error : 1;
}

/* Without a context a message has to wait; that the client is gone is seen at once. */
static bool is_gone(struct core *core)
{
	char byte;

	return recv(core->peer_fd, &byte, sizeof byte, MSG_PEEK | MSG_DONTWAIT) == 0;
}

void peer_readable(struct core *core)
{
	bool gone = is_gone(core), entered;
	int status;

	core_lock(core);
	entered = context_enter_peer(core, gone);
	core_unlock(core);
	if (!entered)
		return;
	do
		status = serve_one(core);
	while (status > 0);
	core_lock(core);
	context_leave_peer(core);
	core_unlock(core);
	if (!status) {
		service_rewatch(core, core->peer_fd, false);
		return;
	}
	core_lock(core);
	core_end(core, status == -EPROTO ? -GDEV_E_PROTOCOL : 0);
	core_unlock(core);
}
