/* SPDX-License-Identifier: MIT
 *
 * Shared device memory: gdevd keeps the segments and the descriptors of their chunks, workers map them.
 * All of it is done by jobs, which talk to gdevd and wait.
 */
#ifndef GDEV_WORKER_SHM_H
#define GDEV_WORKER_SHM_H

struct command;
struct core;
struct shared;

/* Immediate records SHM_*. With the lock. */
void shm_get(struct command *command);
void shm_attach(struct command *command);
void shm_detach(struct command *command);
void shm_control(struct command *command);

/* Tells a gdevd that has been restarted which segments are attached here. With the lock. */
void shared_register(struct core *core);
void shared_destroy(struct shared *shared);

#endif
