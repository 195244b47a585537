/* SPDX-License-Identifier: MIT
 *
 * How soon this process runs when it wakes up, on a machine whose processors are busy.
 */
#ifndef GDEV_BASE_SLICE_H
#define GDEV_BASE_SLICE_H

#include <stdint.h>

/* Asks the kernel to run the calling thread, and those that it starts, for turns of so long (0.1 to 100 ms)
 * when others want the processor: shorter and sooner than others, but no more in all. Nothing on kernels before
 * Linux 6.12, which cannot do so, and for a thread that is not scheduled as usual. */
void slice_set(uint64_t slice_ns);

#endif
