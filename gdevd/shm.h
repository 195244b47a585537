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
#include "gdevd/memory.h"
#include "proto/control.h"

#define SHM_SEGMENTS_MAX 4096 /* per virtual GPU */
#define SHM_CHUNKS_MAX 4096   /* per segment */

struct session;

struct shm {
	struct list segments;
	unsigned count;
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
	bool removed, restored, transient;
	uint8_t token[CONTROL_TOKEN_BYTES];
	uint32_t attached;       /* attachments, of all sessions */
	struct list attachments; /* struct shm_attachment.by_segment */
	struct list parked; /* struct shm_parked: ATTACHes that wait for the rest of the chunks */
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

#endif
