/* SPDX-License-Identifier: MIT
 *
 * Bitonic sort (Table 5 of the PTask paper): a chain of ptasks that sort in place. The size of the graph follows from that of
 * the input.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ptask/work.h"

#define SHARED 512 /* as in sort.cu */

static uint64_t expected_sum;

static void add(struct work *work, const char *kernel, uint32_t a, uint32_t b)
{
	unsigned before = work->array_count - 1;
	size_t bytes = work->bytes[before];

	work_add(work,
		(struct work_task){.kernel = kernel,
			.grid = {(uint32_t)(bytes / sizeof(int)) / SHARED, 1, 1},
			.block = {SHARED / 2, 1, 1},
			.input = {before},
			.inputs = 1,
			.in_place = true,
			.arguments = {a, b},
			.argument_count = 2},
		bytes);
}

static bool make(struct work *work, char **arguments, int count)
{
	int log2 = count == 1 ? atoi(arguments[0]) : 0;
	unsigned n = 1u << (log2 & 31);
	int *values;

	if (log2 < 9 || log2 > 24)
		return false;
	values = work->host[work_source(work, n * sizeof(int))];
	for (unsigned i = 0; i < n; i++) {
		values[i] = (int)(i * 2654435761u >> 3);
		expected_sum += (unsigned)values[i];
	}
	add(work, "merge", 2, SHARED);
	for (uint32_t run = 2 * SHARED; run <= n; run *= 2) {
		for (uint32_t distance = run / 2; distance >= SHARED; distance /= 2)
			add(work, "compare", distance, run);
		add(work, "merge", run, run);
	}
	work_result(work, work->array_count - 1);
	return true;
}

static bool check(const struct work *work)
{
	const int *values = work->host[work->results[0]];
	uint64_t sum = (unsigned)values[0], count = work->bytes[0] / sizeof(int);

	for (uint64_t i = 1; i < count; i++) {
		if (values[i - 1] > values[i]) {
			fprintf(stderr, "sort: element %llu is out of order\n",
				(unsigned long long)i);
			return false;
		}
		sum += (unsigned)values[i];
	}
	if (sum != expected_sum)
		fprintf(stderr, "sort: other elements than before\n");
	return sum == expected_sum;
}

const struct program program = {
	"sort", "LOG2\nLOG2: of the number of integers, 9 to 24", make, check};
