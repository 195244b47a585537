/* SPDX-License-Identifier: MIT
 *
 * How much users and virtual GPUs may have of shared memory. A segment that has a key, or was made without one to be
 * found by its id, stays when its sessions end: its bytes count wherever they are, to whom created it on that device, and to
 * its virtual GPU, from its creation on until it is gone. A transient segment ends with sessions, whose memory is bounded. The number
 * of segments counts both.
 */
#include "base/cleanup.h"
#include "gdev/error.h"
#include "gdevd/daemon.h"
#include "gdevd/memory/shm.h"

uint64_t shm_user_limit(const struct device *device)
{
	uint64_t configured = device->daemon->config.shared_per_uid;

	return configured == UINT64_MAX ? device->memory.limit_bytes / 2 : configured;
}

uint64_t shm_vgpu_limit(const struct vgpu *vgpu)
{
	uint64_t configured = vgpu->config->shared_bytes;

	return configured == UINT64_MAX ? memory_total(&vgpu->memory) : configured;
}

static bool exceeds(uint64_t used, uint64_t more, uint64_t limit)
{
	return more > limit || used > limit - more;
}

int shm_check_limits(const struct session *session, uint64_t bytes, bool transient)
{
	const struct user *user = session->user;
	const struct vgpu *vgpu = session->vgpu;

	if (user->segments >= SHM_SEGMENTS_A_USER)
		return -GDEV_E_SHARED_LIMIT;
	if (transient)
		return 0;
	if (exceeds(user->shares[device_index(vgpu->device)].bytes, bytes,
		    shm_user_limit(vgpu->device)) ||
		exceeds(vgpu->shm.bytes, bytes, shm_vgpu_limit(vgpu)))
		return -GDEV_E_SHARED_LIMIT;
	return 0;
}

static struct user_share *share_of(const struct shm_segment *segment)
{
	return &segment->user->shares[device_index(segment->vgpu->device)];
}

void shm_count(const struct shm_segment *segment, int change)
{
	uint64_t bytes = segment->transient ? 0 : (uint64_t)change * segment->bytes;

	segment->user->segments += (unsigned)change;
	share_of(segment)->segments += (unsigned)change;
	share_of(segment)->bytes += bytes;
	segment->vgpu->shm.count += (unsigned)change;
	segment->vgpu->shm.bytes += bytes;
}
