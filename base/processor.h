/* SPDX-License-Identifier: MIT
 *
 * How long the calling thread had no processor while it was at a piece of work, because others had it.
 *
 * A thread's CPU time is a system call (0.7 us), too much for a piece of a few microseconds. So a thread
 * remembers when it has last asked. Before something brief it asks only when that is a while ago, and after
 * something that took long by the clock, it asks again: what it had no processor for is at least the time that
 * passed, less all CPU time since it asked before.
 */
#ifndef GDEV_BASE_PROCESSOR_H
#define GDEV_BASE_PROCESSOR_H

#include <stdint.h>

/* A piece begins, at `now_ns`; `expected_ns`: what it will take, about. */
void processor_begin(uint64_t now_ns, double expected_ns);
/* It has ended: of that time the thread had none for so long. */
uint64_t processor_lost_ns(uint64_t from_ns, uint64_t to_ns);

#endif
