/* SPDX-License-Identifier: MIT
 *
 * Search in an index tree as FAST lays it out (Kim et al., SIGMOD 2010): nodes of 16 keys, which is a cache
 * line, level after level, without pointers. The keys of a leaf are keys of the table; those of an inner
 * node are the largest keys of its 16 children, of the last one in a level the largest number. A thread a
 * query.
 */
#include "common/device.h"

#define FANOUT 16

/* How many of the 16 keys are below the query; they are sorted. */
static __device__ __forceinline__ unsigned below(const unsigned *keys, unsigned query)
{
	unsigned low = 0;

	for (unsigned step = FANOUT / 2; step; step /= 2)
		if (keys[low + step - 1] < query)
			low += step;
	return low + (keys[low] < query);
}

/* results[i]: how many keys of the table are below queries[i]. first[l] is where level l of the tree begins,
 * the root's first. */
extern "C" __global__ void search(unsigned *results, const unsigned *queries, const unsigned *tree,
	const unsigned *first, unsigned levels, unsigned count)
{
	unsigned i = blockIdx.x * blockDim.x + threadIdx.x, node = 0, child = 0;

	if (i >= count)
		return;
	for (unsigned l = 0; l < levels; l++) {
		node = node * FANOUT + child;
		child = below(tree + first[l] + (unsigned long long)node * FANOUT, queries[i]);
	}
	results[i] = node * FANOUT + child;
}
