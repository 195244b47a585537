/* SPDX-License-Identifier: MIT
 *
 * What a child of this process that runs no other program has to know, and must not keep. Any thread.
 */
#ifndef GDEV_LIB_PTASK_FORKS_H
#define GDEV_LIB_PTASK_FORKS_H

#include <stdbool.h>

/* How often this process was forked off, itself or an ancestor, since this was called first. */
unsigned forks_now(void);
/* Whether it was since forks_now() was `then`. */
bool forks_since(unsigned then);
/* Children of this process close the descriptor. -ENOMEM. */
int forks_note(int fd);
/* They do not; before it is closed here, as its number may be another's then. One that is not noted is fine. */
void forks_forget(int fd);

#endif
