/* SPDX-License-Identifier: MIT
 *
 * See elsewhere.c. With the graph's lock.
 */
#ifndef GDEV_LIB_PTASK_ELSEWHERE_H
#define GDEV_LIB_PTASK_ELSEWHERE_H

#include "lib/ptask/internal.h"

struct elsewhere *elsewhere_create(void);
/* Whether its process has inputs of which no output is there yet. */
bool elsewhere_is_busy(const struct gdev_ptask *ptask);
/* Something of it has changed. */
void elsewhere_step(struct gdev_ptask *ptask);
/* Its process has opened, or closed, an end of a channel at one of its ports; or is gone. */
void elsewhere_open_end(struct gdev_ptask *ptask);
void elsewhere_close_end(struct gdev_ptask *ptask);
void elsewhere_leave(struct gdev_ptask *ptask);
/* Its process has pulled that datablock, by its number at the port. */
void elsewhere_took(struct gdev_ptask *ptask, uint64_t number, struct whom whom);
/* Its process has pushed one: for whom it is. `whom`: the process itself, if there was nothing that it could be made of. */
struct whom elsewhere_made(struct gdev_ptask *ptask, uint64_t number, struct whom whom);

#endif
