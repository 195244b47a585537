/* SPDX-License-Identifier: MIT
 *
 * Breadth-first search, a level at a time, in two kernels so that no thread sees the next level while
 * another still makes it. edges[first[v]] .. edges[first[v + 1]] are the neighbours of v.
 */
#include "common/device.h"

/* Vertices of this level: their neighbours that have no distance yet are of the next. Threads that meet
 * at a neighbour write the same. */
extern "C" __global__ void bfs_visit(
	const int *first, const int *edges, const int *level, int *next, int *distance, int n)
{
	int v = blockIdx.x * blockDim.x + threadIdx.x;

	if (v >= n || !level[v])
		return;
	for (int e = first[v]; e < first[v + 1]; e++) {
		int neighbour = edges[e];

		if (distance[neighbour] < 0)
			next[neighbour] = 1;
	}
}

/* Makes the next level this one, and says whether there is any. */
extern "C" __global__ void bfs_advance(
	int *level, int *next, int *distance, int *more, int depth, int n)
{
	int v = blockIdx.x * blockDim.x + threadIdx.x;

	if (v >= n)
		return;
	level[v] = next[v];
	if (next[v]) {
		next[v] = 0;
		distance[v] = depth;
		*more = 1;
	}
}
