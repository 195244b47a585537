/* SPDX-License-Identifier: MIT
 *
 * NW: aligns two random sequences (Needleman-Wunsch); see nw.cu. As many launches as the table has
 * anti-diagonals of blocks, each of which needs the one before; or one of persistent threads, see gloop/nw.cu.
 */
#include "common/harness.h"
#ifdef PERSISTENT
#include "gloop/run.h"
#endif

#include <string.h>

#define BLOCK 16
#define PENALTY 10

static unsigned n;
static size_t score_bytes, similarity_bytes;
static int *start, *similarity, *result;
static CUdeviceptr device_score, device_similarity, device_words;

static void setup(void)
{
	size_t width;

	n = options.size;
	width = (size_t)n + 1;
	score_bytes = width * width * sizeof(int);
	similarity_bytes = (size_t)n * n * sizeof(int);
	start = host_alloc(score_bytes);
	similarity = host_alloc(similarity_bytes);
	result = host_alloc(score_bytes);
	memset(start, 0, score_bytes);
	for (unsigned i = 0; i <= n; i++)
		start[i] = start[i * width] = -(int)i * PENALTY;
	for (size_t i = 0; i < (size_t)n * n; i++)
		similarity[i] = (int)(random_next() % 15) - 5;
	device_score = device_alloc(score_bytes);
	device_similarity = device_alloc(similarity_bytes);
	device_words = device_alloc((1 + n / BLOCK) * sizeof(int));
}

#ifdef PERSISTENT
static void align(int penalty)
{
	CHECK(cuMemsetD32(device_words, 0, 1 + n / BLOCK));
	run_persistent("nw", SHAPE(28, 1, BLOCK, 1),
		(void *[]){NULL, &device_score, &device_similarity, &n, &penalty, &device_words});
}
#else
static void align(int penalty)
{
	CUfunction kernel = device_kernel("nw_diagonal");
	int blocks = (int)n / BLOCK;

	for (int diagonal = 0; diagonal < 2 * blocks - 1; diagonal++) {
		int first = diagonal < blocks ? 0 : diagonal - blocks + 1;
		int last = diagonal < blocks ? diagonal : blocks - 1;

		launch(kernel, SHAPE((unsigned)(last - first + 1), 1, BLOCK, 1), &device_score,
			&device_similarity, &n, &penalty, &diagonal, &first);
	}
}
#endif

static void compute(void)
{
	copy_to_device(device_score, start, score_bytes);
	copy_to_device(device_similarity, similarity, similarity_bytes);
	align(PENALTY);
	copy_from_device(result, device_score, score_bytes);
}

static void check(void)
{
	int *want = host_alloc(score_bytes);
	size_t width = (size_t)n + 1;

	memcpy(want, start, score_bytes);
	for (size_t row = 1; row < width; row++)
		for (size_t column = 1; column < width; column++) {
			int *here = want + row * width + column;
			int both = here[-(ptrdiff_t)width - 1] +
				   similarity[(row - 1) * n + column - 1];
			int up = here[-(ptrdiff_t)width], left = here[-1];
			int gap = (up > left ? up : left) - PENALTY;

			*here = both > gap ? both : gap;
		}
	check_ints("the scores", result, want, width * width);
}

const struct program program = {
	.name = "nw",
	.summary = "Aligns two random sequences (Needleman-Wunsch).",
	.size_means = "length of the sequences; a multiple of 16",
	.size = 2048,
	.size_max = 32768,
	.multiple = BLOCK,
	.setup = setup,
	.compute = compute,
	.check = check,
};
