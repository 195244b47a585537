/* SPDX-License-Identifier: MIT
 *
 * BFS: how many edges each vertex of a random graph is away from the first one. Memory is read all over
 * the place, and every level ends with a small copy back that says whether there is another; or it is one launch of persistent
 * threads, see gloop/bfs.cu.
 */
#include "common/harness.h"
#ifdef PERSISTENT
#include "gloop/bfs.h"
#include "gloop/run.h"
#endif

#include <string.h>

#define BLOCK 256
#define DEGREE 6 /* on average */

static unsigned n, edge_count;
static int *first, *edges, *level, *unknown, *distance;
static CUdeviceptr device_first, device_edges, device_level, device_next, device_distance,
	device_more;

static void setup(void)
{
	n = options.size;
	first = host_alloc((n + 1) * sizeof(*first));
	for (unsigned v = 0; v < n; v++) {
		first[v] = (int)edge_count;
		edge_count += 1 + random_next() % (2 * DEGREE - 1);
	}
	first[n] = (int)edge_count;
	edges = host_alloc(edge_count * sizeof(*edges));
	for (unsigned e = 0; e < edge_count; e++)
		edges[e] = (int)(random_next() % n);

	level = host_alloc(n * sizeof(*level));
	unknown = host_alloc(n * sizeof(*unknown));
	distance = host_alloc(n * sizeof(*distance));
	memset(level, 0, n * sizeof(*level));
	memset(unknown, 0xFF, n * sizeof(*unknown)); /* -1 */
	level[0] = 1;
	unknown[0] = 0;
	device_first = device_alloc((n + 1) * sizeof(int));
	device_edges = device_alloc(edge_count * sizeof(int));
	device_level = device_alloc(n * sizeof(int));
	device_next = device_alloc(n * sizeof(int));
	device_distance = device_alloc(n * sizeof(int));
	device_more = device_alloc(8 * sizeof(int));
}

#ifdef PERSISTENT
/* The first vertex is in the queue. */
static void search(void)
{
	static const int words[8] = {[TAIL] = 1, [END] = 1};

	CHECK(cuMemsetD32(device_level, 0, 1));
	copy_to_device(device_more, words, sizeof(words));
	run_persistent("bfs", SHAPE(28, 1, 128, 1),
		(void *[]){NULL, &device_first, &device_edges, &device_distance, &device_level,
			&device_more});
}
#else
static void search(void)
{
	CUfunction visit = device_kernel("bfs_visit"), advance = device_kernel("bfs_advance");
	struct shape shape = SHAPE((n + BLOCK - 1) / BLOCK, 1, BLOCK, 1);
	int more = 1;

	copy_to_device(device_level, level, n * sizeof(int));
	CHECK(cuMemsetD32(device_next, 0, n));
	for (int depth = 1; more; depth++) {
		CHECK(cuMemsetD32(device_more, 0, 1));
		launch(visit, shape, &device_first, &device_edges, &device_level, &device_next,
			&device_distance, &n);
		launch(advance, shape, &device_level, &device_next, &device_distance, &device_more,
			&depth, &n);
		copy_from_device(&more, device_more, sizeof(more));
		progress(depth < 12 ? (unsigned)depth : 12, 12);
	}
}
#endif

static void compute(void)
{
	copy_to_device(device_first, first, (n + 1) * sizeof(int));
	copy_to_device(device_edges, edges, edge_count * sizeof(int));
	copy_to_device(device_distance, unknown, n * sizeof(int));
	search();
	copy_from_device(distance, device_distance, n * sizeof(int));
}

/* The usual queue. */
static void check(void)
{
	int *want = host_alloc(n * sizeof(*want)), *queue = host_alloc(n * sizeof(*queue));
	unsigned head = 0, tail = 0;

	memset(want, 0xFF, n * sizeof(*want));
	want[0] = 0;
	queue[tail++] = 0;
	while (head < tail) {
		int v = queue[head++];

		for (int e = first[v]; e < first[v + 1]; e++)
			if (want[edges[e]] < 0) {
				want[edges[e]] = want[v] + 1;
				queue[tail++] = edges[e];
			}
	}
	check_ints("the distances", distance, want, n);
}

const struct program program = {
	.name = "bfs",
	.summary = "Finds the distance of every vertex of a random graph, breadth first.",
	.size_means = "vertices of the graph, with six edges each on average",
	.size = 1000000,
	.size_max = 100000000,
	.setup = setup,
	.compute = compute,
	.check = check,
};
