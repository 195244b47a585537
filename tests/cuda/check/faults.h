/* SPDX-License-Identifier: MIT
 *
 * What faults.cu and faults_tiles.cu are made of. Each kernel there has a fault, but for those whose names begin with right_. The
 * line that is reported says so in a comment: FAULT: and the first words of the report.
 * The .ptx files are kept; `test.py --ptx` makes them anew, with clang.
 *
 * Kernels whose names begin with block_ are launched with two blocks, with grid_ so and cooperatively, the others with one.
 * data: SIZE ints with values; fresh: SIZE ints without; freed: of memory that was freed; map: of a tensor of 8 by 8 ints at data, two
 * of which are behind its end, in boxes of 8 by 4. Blocks have 64 threads.
 */
#include "common/device.h"

#define SIZE 62
#define KERNEL extern "C" __global__ void
#define ARGUMENTS int *data, int *fresh, int *freed, void *map

#define sync __syncthreads
#define t (int)threadIdx.x

#define SHARED(p) ((unsigned)(unsigned long)(__attribute__((address_space(3))) void *)(p))
#define GLOBAL(p) ((__attribute__((address_space(1))) void *)(p))
