/* SPDX-License-Identifier: MIT
 *
 * NW: aligns two random sequences (Needleman-Wunsch); see nw.cu. As many launches as the table has
 * anti-diagonals of blocks, each of which needs the one before.
 */
#include "common/harness.h"

#include <string.h>

#define BLOCK 16
#define PENALTY 10

static unsigned n;
static size_t score_bytes, similarity_bytes;
static int *start, *similarity, *result;
static CUdeviceptr device_score, device_similarity;

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
}

static void compute(void)
{
	CUfunction kernel = device_kernel("nw_diagonal");
	int blocks = (int)n / BLOCK, penalty = PENALTY;

	copy_to_device(device_score, start, score_bytes);
	copy_to_device(device_similarity, similarity, similarity_bytes);
	for (int diagonal = 0; diagonal < 2 * blocks - 1; diagonal++) {
		int first = diagonal < blocks ? 0 : diagonal - blocks + 1;
		int last = diagonal < blocks ? diagonal : blocks - 1;

		launch(kernel, SHAPE((unsigned)(last - first + 1), 1, BLOCK, 1), &device_score,
			&device_similarity, &n, &penalty, &diagonal, &first);
	}
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
