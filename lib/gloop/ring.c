/* SPDX-License-Identifier: MIT
 *
 * Reads and writes of files that would block, by io_uring: as many at once as fit into the ring, and no thread for each.
 * Where the kernel has no io_uring, or a sandbox forbids it, the pool does them (pool.c). A ring belongs to its run's
 * thread.
 */
#include "lib/gloop/internal.h"

#include <errno.h>
#include <liburing.h>
#include <stdlib.h>

#define ENTRIES 64

struct ring {
	struct io_uring uring;
	unsigned in_flight; /* ENTRIES at most, so that completions have room */
};

static bool knows_operations(struct io_uring *uring)
{
	struct io_uring_probe *probe = io_uring_get_probe_ring(uring);
	bool knows = probe && io_uring_opcode_supported(probe, IORING_OP_READ) &&
		     io_uring_opcode_supported(probe, IORING_OP_WRITE);

	io_uring_free_probe(probe);
	return knows;
}

int ring_create(int wake, struct ring **created)
{
	struct ring *ring = calloc(1, sizeof(*ring));
	int error;

	if (!ring)
		return -ENOMEM;
	error = io_uring_queue_init(ENTRIES, &ring->uring, 0);
	if (error)
		goto err_free;
	error = knows_operations(&ring->uring) ? io_uring_register_eventfd(&ring->uring, wake)
					       : -ENOSYS;
	if (error)
		goto err_exit;
	*created = ring;
	return 0;
err_exit:
	io_uring_queue_exit(&ring->uring);
err_free:
	free(ring);
	return error;
}

/* What is left of it. False: there is no room. */
static bool submit(struct ring *ring, struct request *r)
{
	struct io_uring_sqe *entry = io_uring_get_sqe(&ring->uring);
	char *page = (char *)r->page + r->moved;
	unsigned bytes = (unsigned)(r->bytes - r->moved);

	if (!entry)
		return false;
	if (r->op == GLOOP_READ)
		io_uring_prep_read(entry, r->file->fd, page, bytes, r->offset + r->moved);
	else
		io_uring_prep_write(entry, r->file->fd, page, bytes, r->offset + r->moved);
	io_uring_sqe_set_data(entry, r);
	ring->in_flight++;
	io_uring_submit(&ring->uring); /* what the kernel does not take now: see ring_take() */
	return true;
}

bool ring_push(struct ring *ring, struct request *r)
{
	if (!ring || ring->in_flight == ENTRIES || (r->op != GLOOP_READ && r->op != GLOOP_WRITE))
		return false;
	return submit(ring, r);
}

/* Whether nothing is left to do for the ring. -EAGAIN: it has no other way for this file than one that blocks. */
static bool is_done(struct request *r, int moved)
{
	if (moved == -EINTR)
		return false;
	r->result = -EAGAIN;
	if (moved == -EAGAIN)
		return true;
	if (moved > 0)
		r->moved += (unsigned)moved;
	r->result = moved < 0 && !r->moved ? moved : (int64_t)r->moved;
	return moved <= 0 || r->moved >= r->bytes;
}

struct request *ring_take(struct ring *ring)
{
	struct io_uring_cqe *entry;

	if (ring && io_uring_sq_ready(&ring->uring))
		io_uring_submit(&ring->uring);
	while (ring && ring->in_flight && !io_uring_peek_cqe(&ring->uring, &entry)) {
		struct request *r = io_uring_cqe_get_data(entry);
		int moved = entry->res;

		io_uring_cqe_seen(&ring->uring, entry);
		ring->in_flight--;
		if (is_done(r, moved) || !submit(ring, r))
			return r;
	}
	return NULL;
}

void ring_destroy(struct ring *ring)
{
	struct io_uring_cqe *entry;
	int error = 0;

	if (!ring)
		return;
	ring->in_flight -= io_uring_sq_ready(&ring->uring); /* the kernel never had them */
	while (ring->in_flight && (!error || error == -EINTR)) {
		error = io_uring_wait_cqe(&ring->uring, &entry);
		if (error)
			continue;
		io_uring_cqe_seen(&ring->uring, entry);
		ring->in_flight--;
	}
	io_uring_queue_exit(&ring->uring);
	free(ring);
}
