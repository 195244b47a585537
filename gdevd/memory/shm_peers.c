/* SPDX-License-Identifier: MIT
 *
 * Device memory of one session that another session reaches: a transient segment, which may be attached from another
 * virtual GPU than its own. It stays charged where it was made, whichever session brings it in. As long as a session of
 * another device has it attached it stays on its device: that session could not bring it in there. If it is not there when
 * such a session would attach it, a session of its own device is told to bring it in (FETCH), and the other one asks again.
 *
 * Its token alone is not enough. A session of the same process must have the segment attached; or a session that has it
 * attached must have published it, for the processes of its user. Whoever made it had a right to its virtual GPU, and
 * publishing is how that one lets others in, so those need a right to their own virtual GPU alone.
 */
#include "gdevd/daemon.h"
#include "gdevd/memory/shm.h"

static bool is_foreign(const struct session *session, const struct shm_segment *segment)
{
	return session->vgpu != segment->vgpu;
}

static bool devices_reach(const struct device *device, const struct device *other)
{
	return device->peers && device->peers == other->peers;
}

bool shm_is_for(struct session *session, const struct shm_segment *segment)
{
	const struct shm_attachment *attachment;

	if (segment->published || segment->creator == session ||
		shm_had_attached(session, segment, false))
		return true;
	list_for_each (attachment, &segment->attachments, by_segment)
		if (session == attachment->session ||
			session_is_of_process_of(session, attachment->session))
			return true;
	return false;
}

bool shm_may_find(struct session *session, const struct shm_segment *segment)
{
	if (!is_foreign(session, segment))
		return true;
	/* From before a restart: what the devices are may not be known yet. */
	return segment->transient &&
	       (shm_had_attached(session, segment, false) ||
		       (devices_reach(session->device, segment->vgpu->device) &&
			       shm_is_for(session, segment)));
}

static bool is_of_other_device(const struct session *session, const struct shm_segment *segment)
{
	return session->device != segment->vgpu->device;
}

bool shm_must_wait(const struct session *session, const struct shm_segment *segment)
{
	return is_of_other_device(session, segment) &&
	       (segment->place != SHM_ON_DEVICE || !shm_is_whole(segment));
}

static struct session *peer_of(const struct shm_segment *segment)
{
	const struct shm_attachment *attachment;

	list_for_each (attachment, &segment->attachments, by_segment)
		if (is_foreign(attachment->session, segment))
			return attachment->session;
	return NULL;
}

bool shm_is_kept_by_peer(const struct shm_segment *segment)
{
	const struct shm_attachment *attachment;

	list_for_each (attachment, &segment->attachments, by_segment)
		if (is_of_other_device(attachment->session, segment))
			return true;
	return false;
}

int shm_pay(struct session *session, struct shm_segment *segment)
{
	int error;

	if (!is_foreign(session, segment))
		return 0;
	if (!shm_may_have_writable(session->worker, segment)) /* it can bring nothing in */
		return -ENOMEM;
	error = residency_charge_other(
		session->worker, segment->vgpu, &segment->paid, segment->bytes);
	segment->pays = !error;
	return error;
}

void shm_pay_back(struct shm_segment *segment)
{
	memory_return(&segment->paid, segment->paid.used_bytes);
	segment->pays = false;
}

struct session *shm_find_peer(const struct vgpu *vgpu)
{
	const struct shm_segment *segment;
	struct session *peer;

	list_for_each (segment, &vgpu->daemon->segments, link)
		if (segment->vgpu == vgpu && (peer = peer_of(segment)))
			return peer;
	return NULL;
}

void shm_fetch(const struct shm_segment *segment)
{
	const struct shm_attachment *attachment;

	if (segment->place != SHM_ON_HOST)
		return;
	list_for_each (attachment, &segment->attachments, by_segment) {
		if (is_of_other_device(attachment->session, segment) || !attachment->writes)
			continue;
		shm_order(attachment, SHM_COMMAND_FETCH);
		return;
	}
}

void shm_lose(struct session *session)
{
	const struct shm_attachment *attachment, *other;

	list_for_each (attachment, &session->shm_attachments, by_session) {
		const struct shm_segment *segment = attachment->segment;
		list_for_each (other, &segment->attachments, by_segment)
			if (!is_foreign(session, segment) && is_foreign(other->session, segment) &&
				session_is_of_process_of(session, other->session))
				shm_order(other, SHM_COMMAND_LOSE);
	}
}
