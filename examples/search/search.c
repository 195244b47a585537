/* SPDX-License-Identifier: MIT
 *
 * SEARCH: looks numbers up in an index tree in device memory, in batches: the database search with which the
 * Gdev paper fills memory (FAST; its Figures 10, 12 and 13). See search.cu for the tree. The keys of the
 * table are where a formula puts them, so that the CPU knows the answers without a tree.
 */
#include "common/harness.h"

#define FANOUT 16
#define LEVELS_MAX 9
#define BATCHES 16
#define QUERIES (1u << 16) /* a batch */
#define BLOCK 256

static unsigned keys, gap, levels;  /* of the table; of the tree */
static unsigned first[LEVELS_MAX];  /* where each level begins, the root's first */
static unsigned *queries, *results; /* of all batches */
static CUdeviceptr device_tree, device_first, device_queries, device_results;

/* Strictly increasing: one key in each interval of `gap` numbers. */
static unsigned key(unsigned i)
{
	unsigned hash = (i ^ options.seed) * 0x9E3779B9u;

	return i * gap + (hash ^ hash >> 16) % gap;
}

static unsigned answer(unsigned query)
{
	unsigned i = query / gap;

	return i >= keys ? keys : i + (key(i) < query);
}

/* Words of a level of `count` keys: whole nodes. */
static unsigned padded(unsigned count)
{
	return (count + FANOUT - 1) / FANOUT * FANOUT;
}

/* Decides how many keys a tree of SIZE MiB has; returns the words that it takes. */
static size_t shape_tree(void)
{
	size_t words = (size_t)options.size << 18;
	unsigned counts[LEVELS_MAX], count, at = 0;

	keys = (unsigned)(words / FANOUT * (FANOUT - 1)) - 2 * LEVELS_MAX * FANOUT;
	gap = UINT32_MAX / keys;
	levels = 0;
	for (count = keys; count > FANOUT; count = padded(count) / FANOUT)
		counts[levels++] = count;
	counts[levels++] = count;
	for (unsigned l = 0; l < levels; l++) {
		first[l] = at;
		at += padded(counts[levels - 1 - l]);
	}
	return at;
}

static void build_tree(unsigned *tree, size_t words)
{
	unsigned *leaves = tree + first[levels - 1];

	for (size_t i = 0; i < words; i++)
		tree[i] = UINT32_MAX; /* what pads */
	for (unsigned i = 0; i < keys; i++)
		leaves[i] = key(i);
	for (unsigned l = levels - 1; l > 0; l--) {
		const unsigned *below = tree + first[l];
		size_t end = l + 1 < levels ? first[l + 1] : words;
		size_t nodes = (end - first[l]) / FANOUT;
		for (size_t node = 0; node < nodes; node++)
			tree[first[l - 1] + node] = below[node * FANOUT + FANOUT - 1];
		/* A query above all keys finds its way to the last of them. */
		tree[first[l - 1] + nodes - 1] = UINT32_MAX;
	}
}

static void setup(void)
{
	size_t words = shape_tree(), count = (size_t)BATCHES * QUERIES;
	unsigned *tree = host_alloc(words * sizeof(*tree));

	build_tree(tree, words);
	device_tree = device_alloc((size_t)options.size << 20);
	copy_to_device(device_tree, tree, words * sizeof(*tree));
	device_first = device_alloc(sizeof(first));
	copy_to_device(device_first, first, sizeof(first));
	device_queries = device_alloc(QUERIES * sizeof(*queries));
	device_results = device_alloc(QUERIES * sizeof(*results));
	queries = host_alloc(count * sizeof(*queries));
	results = host_alloc(count * sizeof(*results));
	for (size_t i = 0; i < count; i++)
		queries[i] = random_next();
}

static void compute(void)
{
	size_t bytes = QUERIES * sizeof(*queries);
	unsigned count = QUERIES;

	for (unsigned i = 0; i < BATCHES; i++) {
		copy_to_device(device_queries, queries + (size_t)i * QUERIES, bytes);
		launch(device_kernel("search"), SHAPE(QUERIES / BLOCK, 1, BLOCK, 1),
			&device_results, &device_queries, &device_tree, &device_first, &levels,
			&count);
		copy_from_device(results + (size_t)i * QUERIES, device_results, bytes);
		progress(i + 1, BATCHES);
	}
}

static void check(void)
{
	size_t count = (size_t)BATCHES * QUERIES;
	int *want = host_alloc(count * sizeof(*want));

	for (size_t i = 0; i < count; i++)
		want[i] = (int)answer(queries[i]);
	check_ints("the ranks", (const int *)results, want, count);
}

const struct program program = {
	.name = "search",
	.summary = "Looks a million numbers up in an index tree.",
	.size_means = "MiB of the tree",
	.size = 128,
	.size_max = 8192,
	.setup = setup,
	.compute = compute,
	.check = check,
};
