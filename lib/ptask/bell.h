/* SPDX-License-Identifier: MIT
 *
 * How the owner of a named graph and a member of it wake each other: by a pipe, which each side opens for itself. O_NONBLOCK
 * belongs to an open file and not to a descriptor: of one that both had, an eventfd, either could take it away, fill it, and have
 * the other wait for ever.
 */
#ifndef GDEV_LIB_PTASK_BELL_H
#define GDEV_LIB_PTASK_BELL_H

#include <stdbool.h>

/* *theirs: for the other side. This side's descriptor, or a negative code. */
int bell_create(int *theirs);
/* This side's descriptor of what the other one has sent. -GDEV_E_PROTOCOL: it is no pipe. */
int bell_open(int theirs);
/* None waits. */
void bell_ring(int bell);
/* Whether it has rung since. */
bool bell_heard(int bell);

#endif
