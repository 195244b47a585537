/* SPDX-License-Identifier: MIT
 *
 * The session goes to another device of the same model (MOVE of proto/control.h). What makes that short: a suspended
 * session whose context was given back has nothing on its device, and what it needs again is kept by addresses of this
 * process and by the backend (docs/memory.md, Moving to another device).
 */
#ifndef GDEV_WORKER_MOVE_H
#define GDEV_WORKER_MOVE_H

#include "proto/control.h"

struct core;

/* Answers with MOVED. turns_fd: the new device's page, which stays the caller's; -1: there is none. With the lock. */
void move_session(struct core *core, const struct control_move *message, int turns_fd);

#endif
