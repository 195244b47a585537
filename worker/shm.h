/* SPDX-License-Identifier: MIT
 *
 * Shared device memory: gdevd keeps the segments and the descriptors of their chunks, workers map them.
 * All of it is done by jobs, which talk to gdevd and wait.
 */
#ifndef GDEV_WORKER_SHM_H
#define GDEV_WORKER_SHM_H

#include <stdbool.h>

struct command;
struct core;
struct range;
struct shared;

/* Immediate records SHM_*. With the lock. */
void shm_get(struct command *command);
void shm_attach(struct command *command);
void shm_detach(struct command *command);
void shm_control(struct command *command);

/* Immediate records SHARED_*. With the lock. */
void shared_create(struct command *command);
void shared_export(struct command *command);
void shared_hold(struct command *command);
void shared_drop(struct command *command);
void shared_map(struct command *command);
/* Whether the range is memory of this session that it has exported: MEMORY_FREE frees it, shared_free. */
bool shared_is_export(const struct range *range);
void shared_free(struct command *command, struct range *range);

/* Tells a gdevd that has been restarted which segments are attached here. With the lock. */
void shared_register(struct core *core);
void shared_destroy(struct shared *shared);
void shared_finish(struct core *core);

#endif
