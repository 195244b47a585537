/* SPDX-License-Identifier: MIT
 *
 * BACK: the contents of a segment come, chunks or a host copy, from the session that made it, that brings it in, or that has
 * them from before a restart, or from a warm worker that carries it.
 */
#include <errno.h>
#include <stdlib.h>

#include "base/cleanup.h"
#include "gdev/error.h"
#include "gdevd/daemon.h"
#include "gdevd/memory/shm.h"
#include "proto/session.h"

/* The first part says how many chunks there are, and the others agree with it. A part's are of one size, and
 * all together are the segment's. */
static int check_backing(struct session *session, const struct shm_segment *segment,
	const struct control_shm *message, const int *fds, size_t fd_count)
{
	bool loads = segment && segment->place == SHM_LOADING && segment->mover == session;
	uint64_t bytes;

	if (!segment || !fd_count)
		return -EINVAL;
	if (segment->creator != session && !loads) /* or a gdevd before this one asked for it */
		return shm_find_attachment(session, segment) ||
				       shm_had_attached(session, segment, false)
			       ? -EAGAIN
			       : -EINVAL;
	if (message->first_chunk != segment->backed)
		return -EINVAL;
	if (segment->chunks && message->chunks != segment->chunks)
		return -EINVAL;
	/* Each is one of our descriptors: there are no more of them than memory was charged for, or segments. */
	if (message->chunk_bytes != segment->bytes &&
		(!message->chunk_bytes || message->chunk_bytes % ARENA_ALIGN))
		return -EINVAL;
	if (message->chunks == 0 || message->chunks > SHM_CHUNKS_MAX ||
		fd_count > message->chunks - segment->backed)
		return -EINVAL;
	if (__builtin_mul_overflow(message->chunk_bytes, fd_count, &bytes) ||
		bytes > segment->bytes - segment->memory.used_bytes)
		return -EINVAL;
	if (segment->backed + fd_count == message->chunks &&
		bytes != segment->bytes - segment->memory.used_bytes)
		return -EINVAL;
	for (size_t i = 0; i < fd_count; i++)
		if (!shm_may_be_chunk(segment, fds[i], message->chunk_bytes))
			return -EINVAL;
	return 0;
}

static int charge_backing(struct session *session, struct shm_segment *segment, uint64_t bytes)
{
	if (!segment->unpaid)
		return memory_move(segment->pays ? &segment->paid : &session->worker->memory,
			&segment->memory, bytes);
	memory_charge_held(&segment->memory, bytes);
	return 0;
}

/* The segment can always come back in as many chunks as it had. */
static bool hold_descriptors(struct shm_segment *segment, uint32_t chunks)
{
	uint32_t more = chunks - min_of(chunks, segment->held_chunks);

	if (!user_hold(segment->user, more))
		return false;
	segment->held_chunks += more;
	return true;
}

static int accept_backing(struct session *session, struct shm_segment *segment,
	const struct control_shm *message, const int *fds, size_t fd_count)
{
	int error = check_backing(session, segment, message, fds, fd_count);

	if (!error && !hold_descriptors(segment, message->chunks))
		error = -GDEV_E_SHARED_LIMIT;
	if (!error && !segment->fds) {
		segment->fds = calloc(message->chunks, sizeof *segment->fds);
		segment->chunk_bytes = calloc(message->chunks, sizeof *segment->chunk_bytes);
		error = segment->fds && segment->chunk_bytes ? 0 : -ENOMEM;
	}
	if (!error)
		error = charge_backing(session, segment, fd_count * message->chunk_bytes);
	if (error && segment && !segment->chunks) {
		free(segment->fds);
		free(segment->chunk_bytes);
		segment->fds = NULL;
		segment->chunk_bytes = NULL;
	}
	return error;
}

static void take_chunks(
	struct shm_segment *segment, const struct control_shm *message, int *fds, size_t fd_count)
{
	segment->chunks = message->chunks;
	for (size_t i = 0; i < fd_count; i++) {
		shm_note_chunk(segment, fds[i]);
		segment->chunk_bytes[segment->backed] = message->chunk_bytes;
		segment->fds[segment->backed++] = steal_fd(&fds[i]);
	}
}

/* All of it has come: chunks, or the host copy. */
static int backed_whole(struct session *session, struct shm_segment *segment, bool host)
{
	bool loads = segment->place == SHM_LOADING;
	int error = host ? 0 : shm_know_chunks(segment);

	/* Its creator is attached to a transient one from this moment on. */
	if (!error && !loads && segment->transient && !segment->restored)
		error = shm_count_attachment(session, segment);
	if (error)
		return error;
	segment->creator = NULL;
	segment->unpaid = false;
	deadline_cancel(&segment->overdue);
	if (loads)
		shm_loaded(segment);
	else
		shm_write_down(segment);
	return 0;
}

/* A session that was to give back what there was before the restart has not: others may. */
static void not_given_back(const struct session *session, struct shm_segment *segment)
{
	if (segment->restored && segment->creator == session)
		shm_abandon_backing(segment);
	else if (segment->expects && segment->mover == session)
		shm_load_failed(segment);
}

void shm_back(struct worker *worker, struct session *session, const struct control_shm *message,
	int *fds, size_t fd_count)
{
	struct shm_segment *segment = shm_find(session, message->id);
	bool loads = segment && segment->place == SHM_LOADING && !segment->expects;
	bool host = message->flags & CONTROL_SHM_HOST;
	int error;

	if (loads && !shm_may_have_writable(worker, segment))
		error = -EACCES; /* it is to CARRY */
	else if (host)
		error = shm_take_host_copy(session, segment, fds, fd_count);
	else
		error = accept_backing(session, segment, message, fds, fd_count);
	if (!error && !host)
		take_chunks(segment, message, fds, fd_count);
	if (!error && (host || shm_is_whole(segment)))
		error = backed_whole(session, segment, host);
	shm_reply(worker, message, error ? NULL : segment, error, NULL, 0);
	if (error && segment)
		not_given_back(session, segment);
	if (error || !shm_is_there(segment))
		return;
	shm_serve_parked(segment);
	shm_maybe_destroy(segment);
}
