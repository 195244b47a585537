/* SPDX-License-Identifier: MIT
 *
 * What several of the programs here are made of: a kernel, a context, and errors that end the
 * program.
 */
#ifndef TESTS_INTEG_PROGRAM_H
#define TESTS_INTEG_PROGRAM_H

#include <cuda.h>

#include <stdint.h>

/* step(u64 at, u32 words): each of so many words becomes 3 * word + its index. */
extern const char step_ptx[];
/* spin(u64 at, u32 rounds): one thread reads a word so often. */
extern const char spin_ptx[];

/* Ends the program unless the call succeeded: exit status 2 for want of memory, else 1. */
void must(CUresult result, const char *what);
/* The device's primary context is current from now on, and has the kernel of that name. Ends the program otherwise. */
CUfunction begin_with(const char *ptx, const char *kernel);
/* Launches step over all words on the default stream. */
CUresult launch_step(CUfunction step, CUdeviceptr at, uint32_t words);

#endif
