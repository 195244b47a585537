/* SPDX-License-Identifier: MIT
 *
 * Peers: what sessions of one process have of one another.
 */
#include <errno.h>

#include "lib/libgdev/internal.h"

bool gdev_peer_can(const struct gdev_session *session, const struct gdev_session *owner)
{
	return session->description.peers && session->description.peers == owner->description.peers;
}

int gdev_peer_map(struct gdev_session *session, struct gdev_session *owner, uint64_t address)
{
	return -ENOTSUP;
}

int gdev_peer_unmap(struct gdev_session *session, struct gdev_session *owner, uint64_t address)
{
	return 0;
}

/* The owner's worker gives the fence a name, and gdevd tells the other worker when it is reached. */
int gdev_stream_wait_peer(
	struct gdev_stream *stream, struct gdev_session *owner, const struct gdev_fence *fence)
{
	uint64_t event;
	int error;

	if (stream->session == owner)
		return gdev_stream_wait(stream, fence);
	error = gdev_fence_query(owner, fence);
	if (error != -GDEV_E_NOT_READY)
		return error;
	error = fence_share(owner, fence, &event);
	return error ? error : gdev_stream_wait_shared(stream, event);
}
