/* SPDX-License-Identifier: MIT
 *
 * Shared device memory: keys, permissions and attachments as System V shared memory has them
 * (shmget(2), shmctl(2)), for the memory of one virtual GPU. gdevd keeps a descriptor of each chunk, and
 * so the memory, until the segment is removed and its last attachment is gone.
 *
 * A segment's charge is moved from its creator to the segment when the chunks arrive (BACK), and stays
 * with the virtual GPU while the segment lives. While it is not whole, those who attach it wait.
 *
 * A transient segment is one without a key, which lives as long as it is attached, and which only those find
 * who know its token: memory that CUDA programs pass on as handles.
 */
#ifndef GDEV_GDEVD_SHM_H
#define GDEV_GDEVD_SHM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/list.h"
#include "gdevd/memory/memory.h"
#include "gdevd/memory/residency.h"
#include "proto/control.h"

#define SHM_SEGMENTS_MAX 4096 /* per virtual GPU */
#define SHM_CHUNKS_MAX 4096   /* per segment */
#define SHM_PARKED_MAX 4096   /* requests of a session that wait */

struct daemon;
struct session;
struct vgpu;
struct worker;

struct shm {
	struct list segments;
	unsigned count;
	uint64_t evictions; /* of segments, ever */
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
	struct list link;
	struct shm *shm;
	uint32_t id;
	int32_t key; /* IPC_PRIVATE once it is removed */
	uid_t uid, creator_uid;
	gid_t gid, creator_gid;
	mode_t mode; /* nine bits */
	uint64_t bytes;
	uint32_t chunks, backed;
	int *fds;              /* `backed` of them are there */
	uint64_t *chunk_bytes; /* of each; together they are memory.used_bytes */
	struct memory_account memory;
	struct session *creator; /* until it is whole; NULL when that one is gone */
	enum shm_place place;
	int host_fd;                   /* the host copy, from LEAVING to LOADING, and MAPPED; -1 */
	struct memory_account swap[2]; /* what it is charged for that: enum swap_pool */
	int memory_fd;          /* LOADING: what `mover` copies a host copy in a file to; -1 */
	bool awaits_memory;     /* LOADING: for that; charged already in part */
	struct session *mover;  /* WRITING, LOADING */
	struct worker *carrier; /* WRITING: shm_carry.c */
	uint64_t cause;         /* the session that needs the room; 0: none */
	unsigned orders;        /* LEAVING, DROPPING: that have not been answered */
	int refused;            /* LEAVING: why it has to stay */
	struct residency_pause pause; /* it could not leave */
	bool removed, restored, transient;
	bool unpaid; /* what is being backed was here before this gdevd, and is in nobody's account */
	uint8_t token[CONTROL_TOKEN_BYTES];
	uint32_t attached;       /* attachments, of all sessions */
	struct list attachments; /* struct shm_attachment.by_segment */
	struct list parked; /* struct shm_parked: ATTACHes that wait for the rest of the chunks */
};

/* How often a session has attached a segment. */
struct shm_attachment {
	struct list by_session, by_segment;
	struct session *session;
	struct shm_segment *segment;
	uint32_t count;
	bool ordered;    /* has not answered LEAVE or DROP */
	bool has_chunks; /* it said when it answered LEAVE */
};

/* A request that waits until it is clear where the segment is. */
struct shm_parked {
	struct list link;
	struct session *session;
	struct control_shm message;
};

enum shm_access { SHM_READ = 4, SHM_WRITE = 2 };

/* Pure: whether a session of this uid and gid may do that to the segment. */
bool shm_may_access(const struct shm_segment *segment, uid_t uid, gid_t gid, unsigned access);
/* SET and REMOVE: the owner, the creator, root. */
bool shm_may_control(const struct shm_segment *segment, uid_t uid);

void shm_init(struct shm *shm);
void shm_finish(struct shm *shm);

/* Handles one message of a session. Negative: the worker is malformed. */
int shm_message(
	struct session *session, const struct control_shm *message, int *fds, size_t fd_count);
/* The session is gone: detaches all. */
void shm_session_finish(struct session *session);

/* ---- shm_swap.c: segments leave the device and come back ---- */

/* Sends segments away that `asks` (or NULL) does not need and nobody uses, up to `bytes`: of one virtual GPU, or
 * (NULL) of all; of those that nobody has attached alone, or of all. `cause`: the session that needs the room, or 0. How
 * much will come of it. */
uint64_t shm_send_for(struct daemon *daemon, const struct worker *asks, const struct vgpu *vgpu,
	uint64_t cause, uint64_t bytes, bool unattached);
/* When one that could not leave is asked again, if that is before `at_ns`; else that. */
uint64_t shm_asked_again_at(const struct daemon *daemon, uint64_t at_ns);
/* What those that are leaving will bring yet. */
uint64_t shm_coming(const struct daemon *daemon, const struct vgpu *vgpu);
/* What those have that could not leave just now, and are asked again, or that others than `asks` use the device
 * with. */
uint64_t shm_given_later(const struct daemon *daemon, const struct worker *asks,
	const struct vgpu *only, enum residency_patience patience);
/* There may be host swap for those whose host copy is to be in memory. */
void shm_serve_moves(struct daemon *daemon);
/* The session was suspended: what nobody else uses leaves. */
void shm_session_suspended(struct session *session);

/* ---- shm_carry.c: what nobody has mapped ---- */

/* Whether a segment waits for a warm worker. */
bool shm_wants_carrier(const struct daemon *daemon);
/* Gives what waits to warm workers. */
void shm_carry(struct daemon *daemon);
/* There will be no warm worker: what waits stays where it is. */
void shm_no_carrier(struct daemon *daemon);
int shm_carrier_message(struct worker *worker, const struct control_shm *message);
void shm_carrier_gone(struct worker *worker);

/* Between these files. */

/* WRITING is over. */
void shm_written(struct shm_segment *segment, int status);
/* Its carrier, if it has one, carries it no more. */
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
/* It has no host copy any more. */
void shm_drop_host_copy(struct shm_segment *segment);
/* What the session has backed so far is its own again, and its to give back. */
void shm_return_charge(struct shm_segment *segment, struct session *session);
/* LOADING: what has come is forgotten. */
void shm_load_failed(struct shm_segment *segment);
/* Answers those that wait, as far as they can be answered now. */
void shm_serve_parked(struct shm_segment *segment);
void shm_park(
	struct shm_segment *segment, struct session *session, const struct control_shm *message);
/* Waits no more; it is freed. */
void shm_unpark(struct shm_parked *parked);
bool shm_is_whole(const struct shm_segment *segment);
struct shm_segment *shm_find(struct session *session, uint32_t id);
struct shm_attachment *shm_find_attachment(
	struct session *session, const struct shm_segment *segment);
int shm_count_attachment(struct session *session, struct shm_segment *segment);
void shm_attach(
	struct session *session, const struct control_shm *message, struct shm_segment *segment);
void shm_reply(struct worker *worker, const struct control_shm *request,
	const struct shm_segment *segment, int status, const int *fds, size_t fd_count);
/* Descriptors from message->first_chunk on. */
void shm_reply_chunks(struct worker *worker, const struct control_shm *message,
	const struct shm_segment *segment);
/* Forgets the chunks. */
void shm_close_chunks(struct shm_segment *segment);

#endif
