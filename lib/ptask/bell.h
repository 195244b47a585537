/* SPDX-License-Identifier: MIT
 *
 * How the owner of a named graph and a member of it wake each other: by a pair of stream sockets, of which each has one. Neither can
 * make the other wait. O_NONBLOCK belongs to an open file: of one that both had, an eventfd, either could take it away and fill
 * it. Whoever writes to a pipe has its lock while the kernel reads the writer's memory, and that may be a file whose file system
 * does not answer.
 */
#ifndef GDEV_LIB_PTASK_BELL_H
#define GDEV_LIB_PTASK_BELL_H

#include <stdbool.h>

/* This side's socket, or a negative errno. *theirs: the other side's. */
int bell_create(int *theirs);
/* Does not wait. */
void bell_ring(int bell);
/* 1: it has rung since; 0: it has not; -EPROTO: nothing more is to be heard, as the other side has closed its socket or sent
 * descriptors, which lie there unread. Does not wait. */
int bell_heard(int bell);

#endif
