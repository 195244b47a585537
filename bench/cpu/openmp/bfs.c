/* SPDX-License-Identifier: MIT */
#include "kernel.h"

KERNEL(bfs_visit)
{
	const int *first = PARAMETER(0, int *), *edges = PARAMETER(1, int *);
	const int *level = PARAMETER(2, int *);
	int *next = PARAMETER(3, int *);
	const int *distance = PARAMETER(4, int *);
	int n = PARAMETER(5, int);

#pragma omp parallel for
	for (int v = 0; v < n; v++)
		if (level[v])
			for (int e = first[v]; e < first[v + 1]; e++)
				if (distance[edges[e]] < 0)
					next[edges[e]] = 1;
}

KERNEL(bfs_advance)
{
	int *level = PARAMETER(0, int *), *next = PARAMETER(1, int *);
	int *distance = PARAMETER(2, int *), *more = PARAMETER(3, int *);
	int depth = PARAMETER(4, int), n = PARAMETER(5, int);

#pragma omp parallel for
	for (int v = 0; v < n; v++) {
		level[v] = next[v];
		if (next[v]) {
			next[v] = 0;
			distance[v] = depth;
			*more = 1;
		}
	}
}
