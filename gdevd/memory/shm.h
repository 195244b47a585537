/* SPDX-License-Identifier: MIT
 *
 * Shared device memory: keys, permissions and attachments as System V shared memory has them
 * (shmget(2), shmctl(2)), for the memory of one virtual GPU. gdevd keeps a descriptor of each chunk, and
 * so the memory, until the segment is removed and its last attachment is gone.
 *
 * A segment's charge is moved from its creator to the segment when the chunks arrive (BACK), and stays
 * with the virtual GPU while the segment lives. A session that attaches a segment which is not whole yet waits.
 *
 * A transient segment is one without a key. It lives as long as it is attached, and is only found by its token: memory
 * of which a program's devices reach each other's, and memory that it passes on as handles. Only what it has published is
 * found by other processes.
 */
#ifndef GDEV_GDEVD_SHM_H
#define GDEV_GDEVD_SHM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/list.h"
#include "gdevd/ledger.h"
#include "gdevd/memory/memory.h"
#include "gdevd/memory/residency.h"
#include "proto/control.h"

#define SHM_SEGMENTS_A_USER 2048
#define SHM_CHUNKS_MAX 4096   /* per segment */
#define SHM_HOST_COPIES 2     /* of a segment, while one moves: descriptors that its user holds */
#define SHM_PARKED_MAX 4096   /* requests of a session that wait */
#define SHM_ATTACHED_MAX 4096 /* attachments of a segment by a session */

struct porter_limits;

/* Of a virtual GPU. */
struct shm {
	unsigned count;     /* of segments */
	uint64_t bytes;     /* of those that are not transient */
	uint64_t evictions; /* ever */
};

/* How a segment's contents are known after a restart: shm_restore.c. */
struct shm_identity {
	bool on_device; /* some session has the chunks, */
	bool memfds;    /* which are memfds; `chunks` is of these */
	uint64_t chunks;
	uint64_t copy_device, copy_inode; /* of the host copy, when that is valid; 0 */
	bool mapped;                      /* which is used where it is */
	uint64_t point;
};

/* Where a whole segment is: shm_swap.c. */
enum shm_place {
	SHM_ON_DEVICE,
	SHM_LEAVING,  /* sessions are told to keep commands away */
	SHM_WRITING,  /* `mover` copies it to the host, or `carrier`, or waits for one */
	SHM_DROPPING, /* sessions drop their chunks */
	SHM_ON_HOST,
	SHM_LOADING, /* `mover` brings it in */
	SHM_MAPPED,  /* on the host, and used there, for good */
};

struct shm_segment {
	struct list link; /* daemon.segments */
	struct vgpu *vgpu;
	uint32_t id;
	int32_t key;       /* IPC_PRIVATE once it is removed */
	struct user *user; /* of creator_uid, to whom it counts */
	uid_t uid, creator_uid;
	gid_t gid, creator_gid;
	mode_t mode;          /* nine bits, and CONTROL_SHM_TRUST_READERS */
	uint64_t size, bytes; /* what was asked for, and what that takes */
	uint32_t chunks, backed;
	int *fds; /* `backed` of them are there */
	/* Its user holds descriptors for so many of them, as long as the segment lives. */
	uint32_t held_chunks;
	uint64_t *chunk_bytes; /* of each; together they are memory.used_bytes */
	struct memory_account memory;
	struct session *creator; /* until it is whole; NULL when that one is gone */
	enum shm_place place;
	int host_fd;                   /* the host copy, from LEAVING to LOADING, and MAPPED; -1 */
	struct memory_account swap[2]; /* what it is charged for that: enum swap_pool */
	int memory_fd;      /* LOADING: what `mover` copies a host copy in a file to; -1 */
	bool awaits_memory; /* LOADING: for that; charged already in part */
	bool awaits_room; /* ON_HOST: a parked RESTORE waits until its virtual GPU can pay for it */
	bool pays; /* LOADING: it pays itself for what is brought in, with what `paid` was charged: shm_peers.c */
	struct memory_account paid;
	struct session *mover;  /* WRITING, LOADING */
	struct worker *carrier; /* WRITING, LOADING: shm_carry.c */
	bool carried;           /* LOADING: by a carrier, for `mover` */
	uint64_t cause;         /* the session that needs the room; 0: none */
	unsigned orders; /* LEAVING, DROPPING: that have not been answered; and our own chunks */
	struct freeing *dropping; /* DROPPING: our own chunks; NULL: they are closed */
	int refused;              /* LEAVING: why it has to stay */
	struct deadline overdue;  /* for what is to come next */
	bool late;                /* that is over: nobody counts on what is to come */
	bool stays; /* it could not leave: not tried again for RESIDENCY_ORDER_NS, or until somebody else has it */
	bool removed, restored, transient;
	bool published; /* a transient one: other processes find it by its token, too */
	bool unpaid; /* what is being backed was here before this gdevd, and is in nobody's account, */
	bool expects; /* and must be what is known */
	bool given_up; /* those that had it attached before the restart have had their time to say what they have */
	struct shm_identity known;    /* of what is there */
	struct shm_identity arriving; /* of the chunks, as they are backed */
	uint64_t ledger_place;        /* 0: it has not been whole */
	struct list claims;           /* struct shm_claim */
	uint8_t token[CONTROL_TOKEN_BYTES];
	uint32_t attached;       /* attachments, of all sessions */
	struct list attachments; /* struct shm_attachment.by_segment */
	struct list parked; /* struct shm_parked: ATTACHes that wait for the rest of the chunks */
};

/* A session that had attached a segment when the gdevd before this one ended, and has not said so again. One that has
 * neither the chunks nor the host copy need not say so before it uses the segment. */
struct shm_claim {
	struct list link;
	uint32_t session;
	bool writes;
	uint64_t ledger_place;
};

/* How often a session has attached a segment. */
struct shm_attachment {
	struct list by_session, by_segment;
	struct session *session;
	struct shm_segment *segment;
	uint32_t count;
	uint64_t ledger_place;
	bool writes;     /* it may write into it */
	bool ordered;    /* has not answered LEAVE or DROP */
	bool has_chunks; /* it said when it answered LEAVE */
};

/* A request that waits until it is clear where the segment is. */
struct shm_parked {
	struct list link;
	struct session *session;
	struct control_shm message;
	bool counted; /* ATTACH: as an attachment, already */
};

enum shm_access { SHM_READ = 4, SHM_WRITE = 2 };

/* Pure: whether a user may do that to the segment; `groups`: and the supplementary ones. */
bool shm_may_access(const struct shm_segment *segment, uid_t uid, gid_t gid,
	const struct groups *groups, unsigned access);
/* SET and REMOVE: the owner, the creator, root. */
bool shm_may_control(const struct shm_segment *segment, uid_t uid);

/* Destroys the segments of a virtual GPU, or (NULL) all. */
void shm_finish(struct daemon *daemon, const struct vgpu *vgpu);

/* ---- shm_limits.c: how much users and virtual GPUs may have ---- */

/* Bytes of segments that are not transient; of a user on the device. */
uint64_t shm_user_limit(const struct device *device);
uint64_t shm_vgpu_limit(const struct vgpu *vgpu);
/* -GDEV_E_SHARED_LIMIT: the session may not make one more of that size. */
int shm_check_limits(const struct session *session, uint64_t bytes, bool transient);

/* ---- shm.c ---- */

/* NULL: there is none. */
struct shm_segment *shm_find_id(const struct daemon *daemon, uint32_t id);
/* As IPC_RMID: nobody finds it or attaches it any more, and it is gone with its last attachment. */
void shm_remove(struct shm_segment *segment);

/* Handles one message of a session. Negative: the worker is malformed. */
int shm_message(
	struct session *session, const struct control_shm *message, int *fds, size_t fd_count);
/* Whether the session has a segment, makes one, or waits for one. */
bool shm_is_used_by(struct session *session);
/* The session is gone: detaches all. */
void shm_session_finish(struct session *session);

/* ---- shm_peers.c: memory of one session, reached from another, also of another virtual GPU ---- */

/* Whether the session may find the transient segment, with its token. */
bool shm_is_for(struct session *session, const struct shm_segment *segment);
/* Whether the session may name the segment: one of its own virtual GPU, or a transient one that is for it. */
bool shm_may_find(struct session *session, const struct shm_segment *segment);
/* Whether the session is of another device, and cannot attach the segment before it is on its own. */
bool shm_must_wait(const struct session *session, const struct shm_segment *segment);
/* Has a session of the segment's device, if one has it attached, bring it in; the one that must wait asks again. */
void shm_fetch(const struct shm_segment *segment);
/* Whether a session of another device has it attached. */
bool shm_is_kept_by_peer(const struct shm_segment *segment);
/* The session is to bring the segment in. If it is of another virtual GPU, that of the segment pays, and not the session.
 * -EAGAIN: it cannot yet; -ENOMEM: nor later. */
int shm_pay(struct session *session, struct shm_segment *segment);
/* The segment is not brought in after all. */
void shm_pay_back(struct shm_segment *segment);
/* The session's worker has died: sessions of its process on other virtual GPUs lose its memory. */
void shm_lose(struct session *session);
/* A session of another virtual GPU that has a segment of this one attached; NULL: there is none. */
struct session *shm_find_peer(const struct vgpu *vgpu);

/* ---- shm_swap.c: segments leave the device and come back ---- */

/* Sends segments away that `asks` (or NULL) does not need and nobody uses, up to `bytes`: of one virtual GPU, or
 * (NULL) of all; of those that nobody has attached alone, or of all. `cause`: the session that needs the room, or 0. How
 * much will come of it. */
uint64_t shm_send_for(struct device *device, const struct worker *asks, const struct vgpu *vgpu,
	uint64_t cause, uint64_t bytes, bool unattached);
/* What those that are leaving will bring yet. */
uint64_t shm_coming(const struct device *device, const struct vgpu *vgpu);
/* What those have that others than `asks` use the device with. */
uint64_t shm_given_later(
	const struct device *device, const struct worker *asks, const struct vgpu *only);
/* There may be host swap for those whose host copy is to be in memory, or room on the device for those that a session of
 * another virtual GPU brings in. */
void shm_serve_waiting(struct device *device);
/* The session was suspended: what nobody else uses leaves. */
void shm_session_suspended(struct session *session);

/* ---- shm_carry.c: what nobody has mapped ---- */

/* Whether a segment waits for a warm worker. */
bool shm_wants_carrier(const struct device *device);
/* Gives what waits to warm workers. */
void shm_carry(struct device *device);
/* There will be no warm worker: what waits stays where it is. */
void shm_no_carrier(struct device *device);
int shm_carrier_message(
	struct worker *worker, const struct control_shm *message, int *fds, size_t fd_count);
void shm_carrier_gone(struct worker *worker);

/* ---- shm_restore.c: what the next gdevd is to know, and this one from the one before ---- */

/* Makes the segments that there were. */
void shm_restore_all(struct daemon *daemon);
/* Workers have had their time to come back. */
void shm_give_up_unclaimed(struct daemon *daemon);

/* Between these files. */

/* Writes down for the next gdevd what is known of the segment, or of an attachment. */
void shm_write_down(struct shm_segment *segment);
void shm_write_attachment(struct shm_attachment *attachment);
/* Takes it out of the ledger, unless the next gdevd is to have it. */
void shm_forget(const struct shm_segment *segment, struct ledger *ledger, uint64_t *place);
/* Not what may not be closed at once, or may be a file of a stranger's file system; nor memory that can only be read,
 * unless it will be known again; nor what takes other than `bytes`, as far as that can be known. */
bool shm_may_be_chunk(const struct shm_segment *segment, int fd, uint64_t bytes);
/* Takes note of one more of the chunks that are being backed. */
void shm_note_chunk(struct shm_segment *segment, int fd);
/* All have come, and are what they must be: they are known now, and those that were there before the restart can be
 * written again. -errno. */
int shm_know_chunks(struct shm_segment *segment);
void shm_know_copy(struct shm_segment *segment);
/* Whether the session's worker has it from before the restart. */
bool shm_had_attached(struct session *session, const struct shm_segment *segment, bool writing);
/* The attachment is the one that was claimed, if one was. */
void shm_take_claim(struct shm_attachment *attachment);
/* An ATTACH of one that it had, which is counted. */
void shm_attach_again(
	struct session *session, const struct control_shm *message, struct shm_segment *segment);
/* The file that BACK of a host copy brings, if that is known. */
void shm_copy_of(struct session *session, uint32_t id, struct porter_limits *limits);
/* BACK of a host copy. 0: it is the segment's; the descriptor is taken over. */
int shm_take_host_copy(
	struct session *session, struct shm_segment *segment, int *fds, size_t fd_count);
/* Nobody may claim the segment any more; the session may not. */
void shm_drop_claims(struct shm_segment *segment);
void shm_drop_claim(struct shm_segment *segment, const struct session *session);
/* Whether a session may come back that has chunks which were changed after the host copy was made: gdevd ended while
 * sessions dropped theirs. */
bool shm_may_be_newer(const struct shm_segment *segment);
/* The session that was giving the contents back does not any more: others may. */
void shm_abandon_backing(struct shm_segment *segment);

/* Whatever the limits are. */
int shm_create(struct vgpu *vgpu, uint32_t id, uid_t creator, uint64_t bytes, bool transient,
	struct shm_segment **result);
/* One more (1) or less (-1) of its user and its virtual GPU. */
void shm_count(const struct shm_segment *segment, int change);
/* Destroys it if nobody has it, and nobody will. */
void shm_maybe_destroy(struct shm_segment *segment);
bool shm_is_there(const struct shm_segment *segment);
void shm_answer_attach(
	struct session *session, const struct control_shm *message, struct shm_segment *segment);

/* WRITING is over. */
void shm_written(struct shm_segment *segment, int status);
/* CARRY of a session that may only read, which has been charged for it; and the answer when that is over. */
void shm_carry_in(struct session *session, const struct control_shm *message);
void shm_carried_in(
	struct session *session, const struct control_shm *message, struct shm_segment *segment);
/* The segment's carrier, if it has one, carries it no more. */
void shm_put_down(struct shm_segment *segment);

/* Answers to LEAVE, WRITE and DROP; RESTORE; MAP; MOVE. */
void shm_ordered(struct session *session, const struct control_shm *message);
void shm_restore(struct session *session, const struct control_shm *message);
void shm_map(struct session *session, const struct control_shm *message);
void shm_move(struct session *session, const struct control_shm *message);
/* LOADING: it is whole again. */
void shm_loaded(struct shm_segment *segment);
/* The attachment, or what its session does for the segment, is over. */
void shm_attachment_over(struct shm_attachment *attachment);
/* Tells the session that has attached the segment what to do with it. */
void shm_order(const struct shm_attachment *attachment, enum control_shm_command command);
/* Closes the segment's host copy, and gives its charge back. */
void shm_drop_host_copy(struct shm_segment *segment);
/* What the session has backed so far is its own again, and its to give back. */
void shm_return_charge(struct shm_segment *segment, struct session *session);
/* LOADING: what has come is forgotten. */
void shm_load_failed(struct shm_segment *segment);
/* Answers those that wait, as far as they can be answered now. */
void shm_serve_parked(struct shm_segment *segment);
void shm_overdue(struct deadline *deadline, uint64_t now_ns);
/* Sets the time for contents that are to come back after a restart. */
void shm_await_contents(struct shm_segment *segment);
/* False: it has been answered. */
bool shm_park(struct shm_segment *segment, struct session *session,
	const struct control_shm *message, bool counted);
/* Waits no more; it is freed. */
void shm_unpark(struct shm_parked *parked);
bool shm_is_whole(const struct shm_segment *segment);
struct shm_segment *shm_find(struct session *session, uint32_t id);
struct shm_attachment *shm_find_attachment(
	struct session *session, const struct shm_segment *segment);
/* BACK; `session`: who pays. */
void shm_back(struct worker *worker, struct session *session, const struct control_shm *message,
	int *fds, size_t fd_count);
int shm_count_attachment(struct session *session, struct shm_segment *segment);
/* A carrier may have any segment in its hands, a session what it may write into. */
bool shm_may_have_writable(const struct worker *worker, const struct shm_segment *segment);
void shm_attach(
	struct session *session, const struct control_shm *message, struct shm_segment *segment);
/* To a session that may only read, descriptors that can only be read, or status -errno. */
void shm_send(struct worker *worker, const struct shm_segment *segment, struct control_shm *message,
	const int *fds, size_t fd_count);
void shm_reply(struct worker *worker, const struct control_shm *request,
	const struct shm_segment *segment, int status, const int *fds, size_t fd_count);
/* Descriptors from message->first_chunk on. */
void shm_reply_chunks(struct worker *worker, const struct control_shm *message,
	const struct shm_segment *segment);
/* Forgets the chunks, whose charge stays. NULL: they are closed already. */
struct freeing *shm_close_chunks(struct shm_segment *segment);
/* Forgets the chunks, and what they were charged when they are closed. */
void shm_free_chunks(struct shm_segment *segment);
/* The chunks of a segment that leaves the device are closed. */
void shm_freed(struct daemon *daemon, uint32_t id);

#endif
