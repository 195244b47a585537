/* SPDX-License-Identifier: MIT
 *
 * Shared device memory: gdevd keeps the segments and the descriptors of their chunks, workers map them.
 * All of it is done by jobs, which talk to gdevd and wait.
 */
#ifndef GDEV_WORKER_SHM_H
#define GDEV_WORKER_SHM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/list.h"
#include "proto/control.h"
#include "worker/control.h"
#include "worker/direct.h"
#include "worker/memory/memory.h"
#include "worker/service.h"
#include "worker/stream.h"

struct device_command;

/* Where a segment is, as far as this session's commands are concerned (docs/memory.md, rule 12). */
enum shared_place {
	SHARED_COMING,  /* being attached or brought in */
	SHARED_HERE,    /* on the device; commands use it */
	SHARED_LEAVING, /* on the device, unlisted: commands in flight may reach it */
	SHARED_LEFT,    /* on the device, and none does */
	SHARED_AWAY,    /* not here: without chunks */
	SHARED_WANTED,  /* the same, and gdevd has been asked for it */
	SHARED_MAPPED,  /* in its host copy, and used there */
};

/* What a range of kind RANGE_SHARED is attached to. With the lock. */
struct shared {
	struct list link; /* memory.shared */
	struct core *core;
	struct range *range;            /* NULL while it is being attached */
	struct control_shm description; /* as gdevd gave it */
	struct control_request request; /* while registering again, and RESTORE */
	struct job job;
	struct charge charge;
	bool exported; /* was an object of this session's own */
	enum shared_place place;
	bool counted;      /* in residency.absent_bytes and memory.shared_away */
	uint32_t order;    /* of gdevd, not answered: enum control_shm_command; 0: none */
	uint64_t sequence; /* LEAVING: commands up to this one may reach it, */
	bool stopping;     /* and the client, which copies by itself */
	struct direct_stop stop;
	bool lost;              /* LOSE: it goes as soon as nothing is being done with it; */
	bool going;             /* and it does, */
	struct barrier barrier; /* after the commands in flight, */
	struct command *waiter; /* and this DETACH is answered then */
	int host_fd;            /* AWAY, MAPPED: the host copy, if we have it; -1 */
	bool reader;            /* RESTORE: we may only read it, and cannot bring it in */
	bool paid;   /* RESTORE: it is another virtual GPU's, which pays for what we bring in */
	bool used;   /* it is used where it is, by others at least */
	bool missed; /* the gdevd that is new does not know of it yet: it was moving; */
	bool registering; /* or is just being told */

	/* While it moves. */
	struct range moving; /* what is brought in */
	int *fds;            /* the first chunks, in answer to RESTORE */
	size_t fd_count;
	int copy_fd;             /* WRITE: where it is copied to; -1 */
	bool copy_wanted;        /* and the gdevd that ordered it is still there */
	void *copy;              /* the host copy, mapped */
	struct swap_slot *slots; /* one a piece, in `copy` */
	struct device_queue *queue;
	size_t moves;
	int error;
};

/* The segment was another session's, whose worker has died. With the lock. */
void shared_lose(struct core *core, uint32_t id);
/* Something that was being done with it is over: if it is lost, it goes. */
void shared_let_go(struct core *core, struct shared *shared);

/* Immediate records SHM_*. With the lock. */
void shm_get(struct command *command);
void shm_attach(struct command *command);
void shm_detach(struct command *command);
void shm_control(struct command *command);

/* shm_handles.c: immediate records SHARED_*. With the lock. */
void shared_create(struct command *command);
void shared_export(struct command *command);
/* What it waited for cannot be brought in. */
void shared_not_exported(struct command *command, int error);
void shared_hold(struct command *command);
void shared_drop(struct command *command);
void shared_map(struct command *command);
void shared_publish(struct command *command);
/* Whether the range is memory of this session that it has exported: MEMORY_FREE frees it, shared_free. */
bool shared_is_export(const struct range *range);
/* Whether the client may map it. -EAGAIN: not now; -EINVAL: nor later. */
int shared_check_mapping(const struct shared *shared);
void shared_free(struct command *command, struct range *range);

/* Tells a gdevd that has been restarted which segments are attached here. With the lock. */
void shared_register(struct core *core);
void shared_destroy(struct shared *shared);

/* ---- shared_swap.c: leaving the device and coming back. With the lock ---- */

/* Makes an entry for a segment, for which gdevd may give orders from now on. NULL: no memory. */
struct shared *shared_create_entry(struct core *core, uint32_t id);
/* The segment is attached, and is HERE or AWAY. */
void shared_settle(struct core *core, struct shared *shared, enum shared_place place);
/* The segment is detached, or could not be attached. Frees its entry. */
void shared_remove(struct core *core, struct shared *shared);
/* From gdevd. */
void shared_ordered(struct core *core, const struct control_shm *order, int *fds, size_t fd_count);
/* A command is done, or was paused. */
void shared_drained(struct core *core);
/* Begins to bring in what is away. Whether there was anything. */
bool shared_want_all(struct core *core);
/* Whether the copy or fill names something that is not HERE; and begins to bring that in. */
bool shared_is_away(struct core *core, const struct device_command *command);
void shared_want(struct core *core, const struct device_command *command);
/* gdevd is gone: what was leaving stays. */
void shared_lost(struct core *core);
/* With the lock. Between these files: says so to gdevd; takes the descriptor of the host copy (-1: there is none), of
 * which gdevd has said `flags`; the pieces are there, or `place` says where else it is. */
void shared_say(struct core *core, uint32_t id, enum control_shm_command command, int status);
void shared_take_copy(struct shared *shared, int fd, uint32_t flags);
/* Unlocked: a descriptor of the host copy that stays open when gdevd tells of another one, and whether it is used. */
int shared_hold_copy(struct core *core, const struct shared *shared, bool *used);
void shared_arrived(struct core *core, struct shared *shared, enum shared_place place, int error);

/* ---- shared_map.c: used from the host copy ---- */

/* There is no room for it on the device. */
void shared_map_job(struct job *job);
/* Unlocked: its host copy is not used at its address any more. */
void shared_unmap(struct core *core, struct range *range);

/* carry.c: the worker has no client, and copies a segment out (WRITE), or brings it in (CARRY). With the lock; takes the
 * descriptor of the host copy over. */
void shared_carry(struct core *core, const struct control_shm *order, int *fd);

/* shared_swap.c, for it. Unlocked: the host copy, with its pages there, so that the device can copy from and to it; and
 * (copy NULL: nothing) the end of that. */
int shared_map_copy(struct core *core, int fd, uint64_t bytes, void **copy);
void shared_unmap_copy(struct core *core, void *copy, uint64_t bytes);

/* shm.c, for these. Unlocked, from a job. */
int shared_import(struct core *core, struct control_shm *segment, struct range *range, int *fds,
	size_t count);
/* The chunks from range->piece_count on. */
int shared_fetch(struct core *core, struct control_shm *message, struct control_shm *segment,
	struct range *range, int *host_fd);
/* With the lock: a job of the segment's, which had its range pinned, is over. */
void shared_rest(struct core *core, struct shared *shared);
int shared_back(struct core *core, const struct range *range, const struct control_shm *segment);
/* `id`: of the segment; 0: it has none yet. */
struct control_shm shared_message(enum control_shm_command command, uint32_t id);
/* Whether a segment can be of that size, which is at most `most`: chunks cannot make up any other. */
bool shared_size_is_sane(const struct core *core, const struct control_shm *segment, uint64_t most);
/* gdevd's answer: its status, or -GDEV_E_NO_DAEMON. */
int shared_call(struct core *core, const struct control_shm *message, struct control_shm *reply,
	int *fds, size_t *fd_count);
/* A segment that gdevd has just made for us: there will be none. */
void shared_abandon(struct core *core, const struct control_shm *segment);
/* A segment that gdevd has just made for us, of `bytes`: it is paid for, made of zeroed chunks, and handed over. */
int shared_make(struct core *core, const struct control_shm *segment, uint64_t bytes);
/* The pieces of a segment, of new chunks. */
int shared_make_pieces(struct core *core, uint64_t bytes, struct range *range);
/* `message`: which segment, for which user, and how. `segment`: what gdevd said of it. */
int shared_attach(struct core *core, struct control_shm *message, uint64_t address,
	struct control_shm *segment);
void shared_detach(struct core *core, uint32_t id);

/* shm_handles.c. With the lock: what is held is told to a new gdevd; and is forgotten. */
void shared_register_holds(struct core *core);
void shared_finish(struct core *core);

#endif
