/* SPDX-License-Identifier: MIT
 *
 * Shared memory and the restart of gdevd. The ledgers (ledger.h) have each segment that is whole: whose it is, who may
 * use it, and how its contents are known again; and each session that has attached it, and whether it may write to it.
 * The next gdevd makes the segments of these before it listens, so that keys, owners and rights are what they were
 * whatever a worker says. The contents are with the workers. Those that had attached a segment attach it again, and the
 * first that has what is valid is told to give it back (BACK): the chunks, or the host copy.
 *
 * A worker is in its client's hands, and could give back anything; of a session that may only read, that would be
 * writing. The kernel gives no two memfds the same inode number: chunks that are memfds must have the numbers that they had,
 * in that order, and a host copy, which is a file of ours, its own. Chunks that are a driver's handles cannot be known
 * again: they are taken from sessions that may write into the segment anyway.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

#include "base/cleanup.h"
#include "base/fd.h"
#include "gdevd/daemon.h"
#include "gdevd/memory/shm.h"
#include "proto/session.h"

/* ---- what is known ---- */

/* The numbers of the chunks are the coefficients of a polynomial modulo this prime, and what is kept is its value at a
 * point that only gdevd knows: nobody can make other chunks with the same value. */
#define PRIME ((1ull << 61) - 1)

static uint64_t choose_point(void)
{
	uint64_t point;

	if (getrandom(&point, sizeof point, 0) != sizeof point)
		return 0;
	return point % (PRIME - 1) + 1;
}

/* Asks no file system, which might not answer. */
static int identify_file(int fd, struct statx *status)
{
	return statx(fd, "", AT_EMPTY_PATH | AT_STATX_DONT_SYNC, STATX_TYPE | STATX_INO, status)
		       ? -errno
		       : 0;
}

static uint64_t device_of(const struct statx *status)
{
	return makedev(status->stx_dev_major, status->stx_dev_minor);
}

static bool can_only_be_read(int fd)
{
	return (fcntl(fd, F_GETFL) & O_ACCMODE) == O_RDONLY;
}

bool shm_may_be_chunk(const struct shm_segment *segment, int fd, uint64_t bytes)
{
	bool known_again = segment->expects && segment->known.memfds;
	struct statx status;
	uint64_t has;

	/* One that can only be read is what a session was given that may only read. */
	if (!fd_shared_memory_size(fd, &has))
		return has == bytes && (known_again || !can_only_be_read(fd));
	/* A driver's handle is a descriptor of its device, or of no file, and of whole pages of the device. */
	return bytes % ARENA_ALIGN == 0 && !identify_file(fd, &status) &&
	       (S_ISCHR(status.stx_mode) || !(status.stx_mode & S_IFMT));
}

/* What is known to be ours can be written again, whoever brought it. */
static int reclaim_fd(int *fd)
{
	int writable;

	if (!can_only_be_read(*fd))
		return 0;
	writable = fd_reclaim(*fd);
	if (writable < 0)
		return writable;
	closer_close(NULL, fd, 1);
	*fd = writable;
	return 0;
}

/* The chunks are those that there were before the restart: each can be written again. */
static int reclaim_chunks(struct shm_segment *segment)
{
	int error = 0;

	for (uint32_t i = 0; i < segment->backed && !error; i++)
		error = reclaim_fd(&segment->fds[i]);
	return error;
}

void shm_note_chunk(struct shm_segment *segment, int fd)
{
	struct shm_identity *arriving = &segment->arriving;
	struct statx status;
	uint64_t bytes;

	if (!segment->known.point)
		segment->known.point = choose_point();
	if (!segment->backed)
		*arriving = (struct shm_identity){.memfds = segment->known.point != 0};
	if (fd_shared_memory_size(fd, &bytes) || identify_file(fd, &status))
		arriving->memfds = false;
	else
		arriving->chunks =
			(uint64_t)(((unsigned __int128)arriving->chunks * segment->known.point +
					   status.stx_ino) %
				   PRIME);
}

int shm_know_chunks(struct shm_segment *segment)
{
	struct shm_identity *known = &segment->known;
	const struct shm_identity *arriving = &segment->arriving;
	int error = 0;

	if (segment->expects && known->memfds)
		error = arriving->memfds && arriving->chunks == known->chunks
				? reclaim_chunks(segment)
				: -EINVAL;
	if (error)
		return error;
	known->on_device = true;
	known->memfds = arriving->memfds;
	known->chunks = arriving->chunks;
	segment->expects = false;
	return 0;
}

void shm_know_copy(struct shm_segment *segment)
{
	struct statx status;

	if (identify_file(segment->host_fd, &status))
		return;
	segment->known.copy_device = device_of(&status);
	segment->known.copy_inode = status.stx_ino;
}

/* ---- writing it down ---- */

static uint32_t flags_of(const struct shm_segment *segment)
{
	return (segment->transient ? LEDGER_TRANSIENT : 0) |
	       (segment->removed ? LEDGER_REMOVED : 0) |
	       (segment->known.on_device ? LEDGER_ON_DEVICE : 0) |
	       (segment->known.memfds ? LEDGER_MEMFDS : 0) |
	       (segment->known.mapped ? LEDGER_MAPPED : 0) |
	       (segment->published ? LEDGER_PUBLISHED : 0);
}

void shm_write_down(struct shm_segment *segment)
{
	const struct vgpu *vgpu = segment->vgpu;
	struct ledger_segment record = {
		.id = segment->id,
		.size = segment->size,
		.bytes = segment->bytes,
		.point = segment->known.point,
		.chunks = segment->known.chunks,
		.copy_device = segment->known.copy_device,
		.copy_inode = segment->known.copy_inode,
		.key = segment->key,
		.uid = segment->uid,
		.gid = segment->gid,
		.creator_uid = segment->creator_uid,
		.creator_gid = segment->creator_gid,
		.mode = segment->mode,
		.flags = flags_of(segment),
	};
	bool first = !segment->ledger_place;
	struct shm_attachment *attachment;

	/* One that is not whole yet goes with gdevd. */
	if (vgpu->daemon->stopping || (first && segment->creator))
		return;
	memcpy(record.token, segment->token, sizeof record.token);
	strcpy(record.vgpu, vgpu->config->name);
	strcpy(record.device, vgpu->device->served->name);
	if (ledger_put(&vgpu->daemon->ledgers.segments, &segment->ledger_place, &record))
		complain("shared memory %u will not survive a restart of gdevd", segment->id);
	list_for_each (attachment, &segment->attachments, by_segment)
		if (first)
			shm_write_attachment(attachment);
}

void shm_write_attachment(struct shm_attachment *attachment)
{
	const struct shm_segment *segment = attachment->segment;
	const struct ledger_attachment record = {
		.segment = segment->id,
		.session = (uint32_t)attachment->session->id,
		.segment_place = (uint32_t)segment->ledger_place,
		.writes = attachment->writes,
	};

	if (segment->ledger_place)
		ledger_put(&segment->vgpu->daemon->ledgers.attachments, &attachment->ledger_place,
			&record);
}

void shm_forget(const struct shm_segment *segment, struct ledger *ledger, uint64_t *place)
{
	if (!segment->vgpu->daemon->stopping)
		ledger_remove(ledger, place);
}

/* ---- after a restart ---- */

static struct shm_segment *restore_segment(struct daemon *daemon, uint64_t place)
{
	const struct ledger_segment *record = ledger_at(&daemon->ledgers.segments, place);
	struct vgpu *vgpu = record ? vgpu_find_part(daemon, record->vgpu, record->device) : NULL;
	struct shm_segment *segment;

	if (!vgpu || shm_create(vgpu, (uint32_t)record->id, record->creator_uid, record->bytes,
			     record->flags & LEDGER_TRANSIENT, &segment))
		return NULL;
	segment->restored = true;
	segment->ledger_place = place;
	segment->key = record->key;
	segment->size = record->size;
	segment->uid = record->uid;
	segment->gid = record->gid;
	segment->creator_gid = record->creator_gid;
	segment->mode = record->mode;
	segment->removed = record->flags & LEDGER_REMOVED;
	segment->published = record->flags & LEDGER_PUBLISHED;
	memcpy(segment->token, record->token, sizeof segment->token);
	segment->known = (struct shm_identity){
		.on_device = record->flags & LEDGER_ON_DEVICE,
		.memfds = record->flags & LEDGER_MEMFDS,
		.chunks = record->chunks,
		.copy_device = record->copy_device,
		.copy_inode = record->copy_inode,
		.mapped = record->flags & LEDGER_MAPPED,
		.point = record->point,
	};
	return segment;
}

static bool restore_claim(
	struct daemon *daemon, uint64_t place, struct shm_segment **segments, uint64_t count)
{
	const struct ledger_attachment *record = ledger_at(&daemon->ledgers.attachments, place);
	struct shm_segment *segment;
	struct shm_claim *claim;

	if (!record || !record->segment_place || record->segment_place > count)
		return false;
	segment = segments[record->segment_place - 1];
	if (!segment || segment->id != record->segment || !session_place(daemon, record->session))
		return false;
	claim = malloc(sizeof *claim);
	if (!claim)
		return false;
	*claim = (struct shm_claim){
		.session = record->session, .writes = record->writes, .ledger_place = place};
	list_append(&segment->claims, &claim->link);
	return true;
}

void shm_restore_all(struct daemon *daemon)
{
	struct ledgers *ledgers = &daemon->ledgers;
	uint64_t count = ledgers->segments.count, place;
	autofree struct shm_segment **segments = calloc(count + 1, sizeof(struct shm_segment *));

	for (uint64_t i = 0; i < count; i++) {
		place = i + 1;
		if (!segments || !(segments[i] = restore_segment(daemon, place)))
			ledger_remove(&ledgers->segments, &place);
	}
	for (uint64_t i = 1; i <= ledgers->attachments.count; i++) {
		place = i;
		if (!segments || !restore_claim(daemon, place, segments, count))
			ledger_remove(&ledgers->attachments, &place);
	}
	for (uint64_t i = 0; segments && i < count; i++)
		if (segments[i])
			shm_maybe_destroy(segments[i]);
}

static void drop_claim(struct shm_segment *segment, struct shm_claim *claim)
{
	shm_forget(segment, &segment->vgpu->daemon->ledgers.attachments, &claim->ledger_place);
	list_remove(&claim->link);
	free(claim);
}

void shm_drop_claims(struct shm_segment *segment)
{
	struct shm_claim *claim;

	while ((claim = list_first(&segment->claims, struct shm_claim, link)))
		drop_claim(segment, claim);
}

/* The claims of sessions that are there stay: they will want the segment. */
static void give_up(struct shm_segment *segment)
{
	struct daemon *daemon = segment->vgpu->daemon;
	struct shm_claim *claim, *after;

	segment->given_up = true;
	list_for_each_safe (claim, after, &segment->claims, link)
		if (!session_find(daemon, claim->session))
			drop_claim(segment, claim);
	if (segment->place == SHM_ON_HOST) {
		segment->known.on_device = false;
		shm_write_down(segment);
	}
	if (!shm_is_there(segment) && !segment->creator)
		shm_await_contents(segment); /* of sessions that came back late */
	shm_serve_parked(segment);
	shm_maybe_destroy(segment);
}

void shm_give_up_unclaimed(struct daemon *daemon)
{
	struct shm_segment *segment, *after;

	list_for_each_safe (segment, after, &daemon->segments, link)
		if (segment->restored)
			give_up(segment);
}

static struct shm_claim *find_claim(
	const struct session *session, const struct shm_segment *segment)
{
	struct shm_claim *claim;

	list_for_each (claim, &segment->claims, link)
		if (claim->session == session->id)
			return claim;
	return NULL;
}

bool shm_had_attached(struct session *session, const struct shm_segment *segment, bool writing)
{
	const struct shm_attachment *attachment;
	const struct shm_claim *claim;

	if (!session->worker->restored)
		return false;
	attachment = shm_find_attachment(session, segment);
	if (attachment)
		return !writing || attachment->writes;
	claim = find_claim(session, segment);
	return claim && (!writing || claim->writes);
}

void shm_take_claim(struct shm_attachment *attachment)
{
	struct shm_claim *claim = find_claim(attachment->session, attachment->segment);

	if (!claim)
		return;
	attachment->writes = claim->writes;
	attachment->ledger_place = claim->ledger_place;
	list_remove(&claim->link);
	free(claim);
}

void shm_drop_claim(struct shm_segment *segment, const struct session *session)
{
	struct shm_claim *claim = find_claim(session, segment);

	if (!claim)
		return;
	drop_claim(segment, claim);
	if (list_empty(&segment->claims))
		shm_serve_parked(segment);
	shm_maybe_destroy(segment);
}

bool shm_may_be_newer(const struct shm_segment *segment)
{
	return segment->place == SHM_ON_HOST && segment->known.on_device && !segment->given_up &&
	       !list_empty(&segment->claims);
}

/* Whether the worker says that it has what is valid. One that attaches anew says nothing of what it has. */
static bool can_give_back(struct session *session, const struct shm_segment *segment,
	const struct control_shm *message)
{
	const struct shm_identity *known = &segment->known;

	if (!segment->restored || !message->bytes)
		return false;
	if (message->flags & CONTROL_SHM_HOST)
		return known->copy_inode;
	return known->on_device && (known->memfds || shm_find_attachment(session, segment)->writes);
}

void shm_attach_again(
	struct session *session, const struct control_shm *message, struct shm_segment *segment)
{
	bool host = message->flags & CONTROL_SHM_HOST, valid;

	if (message->first_chunk) {
		shm_answer_attach(session, message, segment);
		return;
	}
	valid = can_give_back(session, segment, message);
	if (!shm_is_there(segment) && valid && !segment->creator) {
		segment->creator = session;
	} else if (segment->place == SHM_ON_HOST && valid && !host) {
		/* These chunks may have been changed since the host copy was made. */
		segment->place = SHM_LOADING;
		segment->mover = session;
	} else if (!shm_is_there(segment)) {
		shm_park(segment, session, message, true);
		return;
	} else {
		shm_answer_attach(session, message, segment);
		return;
	}
	segment->unpaid = true;
	segment->expects = !host;
	shm_await_contents(segment);
	shm_reply(session->worker, message, segment, 1, NULL, 0);
}

void shm_copy_of(struct session *session, uint32_t id, struct porter_limits *limits)
{
	const struct shm_segment *segment = shm_find(session, id);

	if (!segment)
		return;
	limits->device = segment->known.copy_device;
	limits->inode = segment->known.copy_inode;
}

int shm_take_host_copy(
	struct session *session, struct shm_segment *segment, int *fds, size_t fd_count)
{
	enum swap_pool pool;
	struct statx status;
	uint64_t bytes;
	int error;

	if (!segment || !segment->restored || segment->creator != session || fd_count != 1 ||
		segment->expects || identify_file(fds[0], &status))
		return -EINVAL;
	if (!status.stx_ino || device_of(&status) != segment->known.copy_device ||
		status.stx_ino != segment->known.copy_inode)
		return -EINVAL;
	error = reclaim_fd(&fds[0]);
	if (error)
		return error;
	pool = fd_shared_memory_size(fds[0], &bytes) ? SWAP_FILE : SWAP_MEMORY;
	memory_charge_held(&segment->swap[pool], segment->bytes);
	segment->host_fd = steal_fd(&fds[0]);
	segment->place = segment->known.mapped ? SHM_MAPPED : SHM_ON_HOST;
	return 0;
}

/* Others that have the contents come before it. */
static void put_last(struct shm_segment *segment, const struct session *session)
{
	struct shm_parked *parked, *after;
	struct list last;

	list_init(&last);
	list_for_each_safe (parked, after, &segment->parked, link)
		if (parked->session == session) {
			list_remove(&parked->link);
			list_append(&last, &parked->link);
		}
	while ((parked = list_first(&last, struct shm_parked, link))) {
		list_remove(&parked->link);
		list_append(&segment->parked, &parked->link);
	}
}

void shm_abandon_backing(struct shm_segment *segment)
{
	put_last(segment, segment->creator);
	segment->creator = NULL;
	segment->unpaid = segment->expects = false;
	shm_free_chunks(segment);
	shm_await_contents(segment); /* if nobody else gives them back */
	shm_serve_parked(segment);
	shm_maybe_destroy(segment);
}
