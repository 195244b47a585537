/* SPDX-License-Identifier: MIT
 *
 * See scanning.h.
 */
#include "scanning.h"

#define THREADS 256u
#define LEVELS_MAX 4

static CUdeviceptr sums[LEVELS_MAX];

void scanning_setup(unsigned count)
{
	for (unsigned level = 0; level < LEVELS_MAX; level++) {
		count = (count + THREADS - 1) / THREADS;
		sums[level] = device_alloc(count * sizeof(int));
	}
}

static void scan_level(unsigned level, CUdeviceptr out, CUdeviceptr in, unsigned count)
{
	unsigned blocks = (count + THREADS - 1) / THREADS;

	launch(device_kernel("scan_blocks"), SHAPE(blocks, 1, THREADS, 1), &out, &sums[level], &in,
		&count);
	if (blocks == 1)
		return;
	scan_level(level + 1, sums[level], sums[level], blocks);
	launch(device_kernel("scan_add"), SHAPE(blocks, 1, THREADS, 1), &out, &sums[level], &count);
}

void scanning(CUdeviceptr out, CUdeviceptr in, unsigned count)
{
	scan_level(0, out, in, count);
}
