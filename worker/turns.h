/* SPDX-License-Identifier: MIT
 *
 * From holder to holder without a message: struct turns of proto/control.h.
 *
 * A holder that was told to leave hands over when its window has drained; or a moment before, when it knows
 * well enough how long what is left of the window takes (compute only, where the device does not pause). The
 * other's first command is then on the device before it is idle, and the device changes context by itself.
 * It is charged from its grant on all the same.
 */
#ifndef GDEV_WORKER_TURNS_H
#define GDEV_WORKER_TURNS_H

#include <stdbool.h>
#include <stdint.h>

struct core;

/* This session wants compute: if it is the preferred one, the holder is to see it before gdevd does. */
void turn_herald(struct core *core);
/* How long the poller of a session that is about to be, or is, the preferred one looks before it sleeps; 0: it is not. Unlocked. */
uint64_t turn_patience_ns(struct core *core);
/* Whether nothing is to be begun, as the preferred session has come and gdevd is about to say so. */
bool turn_yields(struct core *core);
/* PREPARE: our turn, when it comes, is number `turn` (0: it comes as a message). With the lock. */
void turn_announced(struct core *core, uint32_t which, uint32_t turn);
/* Whether turns_take() would find one. Unlocked. */
bool turns_are_there(struct core *core);
/* Takes those that are there; false: none. With the lock. */
bool turns_take(struct core *core);

/* Hands over to the session that is named as the next. Harmless at any time. With the lock. */
void turn_hand_over(struct core *core, uint32_t which);
/* The window drains, and something of it is on the device: hands over when its end is near. With the lock. */
void turn_plan(struct core *core, uint32_t which);
/* The poller's. Does what we have been told since it looked last, and what was planned, if it is time. Unlocked. */
void turns_look(struct core *core);
/* The same with the lock. Returns when to look again, or UINT64_MAX. */
uint64_t turns_tick(struct core *core, uint64_t now_ns);

#endif
