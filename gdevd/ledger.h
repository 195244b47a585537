/* SPDX-License-Identifier: MIT
 *
 * What the next gdevd has to know, written down in files of the runtime directory, which only gdevd may write to: which
 * worker serves whom, whose segments of shared memory there are, and which session has attached which. Workers run what
 * clients send: on its own word a worker could be any user's, and have any segment.
 *
 * A ledger is a file of records of one size behind a header. The first eight bytes of a record are not 0; in a free one
 * they are. A place is the number of a record, from 1 on; 0 is none. A gdevd that is killed, or a full file system, may
 * leave a record half written: each has a checksum behind it, and one whose checksum is wrong is free.
 */
#ifndef GDEV_GDEVD_LEDGER_H
#define GDEV_GDEVD_LEDGER_H

#include <stddef.h>
#include <stdint.h>

#include "proto/control.h"

#define GROUPS_MAX 64 /* supplementary groups of a user that count */

/* As in the files. */
struct groups {
	uint32_t count;
	uint32_t ids[GROUPS_MAX];
};

struct ledger_session {
	uint64_t session;
	int32_t worker, pid;
	uint32_t uid, gid;
	char vgpu[CONTROL_NAME_MAX], device[CONTROL_NAME_MAX];
	/* Where it was before it was moved the last time: a worker that has not heard of that says that it was moved once
	 * less than `moves`. */
	char before_vgpu[CONTROL_NAME_MAX], before_device[CONTROL_NAME_MAX];
	/* As the kernel has it: the worker's pid may be another process's later. */
	uint64_t worker_started;
	uint64_t process_started;                         /* the client's; 0: not known */
	uint64_t most_bytes, most_swap_bytes[SWAP_POOLS]; /* that it can hold */
	uint64_t swap_device, swap_inode;                 /* of its swap file; 0: it has none */
	struct groups groups;
	uint32_t peers; /* the device's, which no worker of the next gdevd may have opened yet */
	uint32_t moves, reserved;
};

enum ledger_segment_flags {
	LEDGER_TRANSIENT = 1,
	LEDGER_REMOVED = 2,
	LEDGER_ON_DEVICE = 4, /* some session has its chunks, */
	LEDGER_MEMFDS = 8,    /* which are known by `chunks` */
	LEDGER_MAPPED = 16,   /* its host copy is used where it is */
	LEDGER_PUBLISHED = 32,
};

/* `point` and `chunks`: shm_restore.c. A host copy is known by its device and inode; 0: there is none that is valid. */
struct ledger_segment {
	uint64_t id, size, bytes, point, chunks, copy_device, copy_inode;
	int32_t key;
	uint32_t uid, gid, creator_uid, creator_gid, mode, flags, reserved;
	uint8_t token[CONTROL_TOKEN_BYTES];
	char vgpu[CONTROL_NAME_MAX], device[CONTROL_NAME_MAX];
};

struct ledger_attachment {
	uint32_t segment, session, segment_place, writes;
};

_Static_assert(sizeof(struct ledger_session) == 480, "the next gdevd's");
_Static_assert(sizeof(struct ledger_segment) == 168, "the next gdevd's");
_Static_assert(sizeof(struct ledger_attachment) == 16, "the next gdevd's");

struct ledger {
	int fd;              /* -1: not open */
	size_t record_bytes; /* without the checksum */
	uint8_t *records;
	uint64_t count,
		free; /* `free`: a place; behind the eight bytes of a free record is the next free place */
};

/* Takes the descriptor over, and reads what is there; records of another size are another gdevd's, and forgotten. */
int ledger_init(struct ledger *ledger, int fd, size_t record_bytes);
void ledger_finish(struct ledger *ledger);
/* At *place, or, if that is 0, at a free one, which goes there. -errno: it is not known after a restart. */
int ledger_put(struct ledger *ledger, uint64_t *place, const void *record);
/* Leaves 0 in *place. */
void ledger_remove(struct ledger *ledger, uint64_t *place);
/* NULL: the record is free. Places go from 1 to ledger->count. */
const void *ledger_at(const struct ledger *ledger, uint64_t place);

#endif
