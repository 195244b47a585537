/* SPDX-License-Identifier: MIT
 *
 * "Group by" (Table 5 of the PTask paper): a range of integers, in groups of a known number of keys, and the sum of each
 * group, by 7 ptasks.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ptask/work.h"

#define PART 4096 /* as in group.cu */
#define GROUPS_MAX 512

static int n, groups;
static unsigned source, starts, grouped, sums;

static unsigned add(
	struct work *work, uint32_t blocks, uint32_t threads, size_t numbers, struct work_task task)
{
	memcpy(task.grid, (uint32_t[3]){blocks, 1, 1}, sizeof task.grid);
	memcpy(task.block, (uint32_t[3]){threads, 1, 1}, sizeof task.block);
	return work_add(work, task, numbers * sizeof(int));
}

static void add_all(struct work *work)
{
	uint32_t parts = (uint32_t)n / PART, threads = (uint32_t)groups;
	size_t table = (size_t)parts * threads, all = (size_t)n;
	unsigned keys, counts, earlier, totals;

	keys = add(work, (uint32_t)n / 256, 256, all,
		(struct work_task){.kernel = "key",
			.input = {source},
			.inputs = 1,
			.arguments = {threads},
			.argument_count = 1});
	counts = add(work, parts, threads, table,
		(struct work_task){.kernel = "count", .input = {keys}, .inputs = 1});
	earlier = add(work, 1, threads, table,
		(struct work_task){.kernel = "before",
			.input = {counts},
			.inputs = 1,
			.arguments = {parts},
			.argument_count = 1});
	totals = add(work, 1, threads, threads,
		(struct work_task){.kernel = "total",
			.input = {counts},
			.inputs = 1,
			.arguments = {parts},
			.argument_count = 1});
	starts = add(work, 1, threads, threads,
		(struct work_task){.kernel = "start", .input = {totals}, .inputs = 1});
	grouped = add(work, parts, threads, all,
		(struct work_task){.kernel = "scatter",
			.input = {source, keys, starts, earlier},
			.inputs = 4});
	sums = add(work, 1, threads, threads,
		(struct work_task){.kernel = "sum",
			.input = {grouped, starts},
			.inputs = 2,
			.arguments = {(uint32_t)n},
			.argument_count = 1});
}

static bool make(struct work *work, char **arguments, int count)
{
	int *values;

	n = count == 2 ? atoi(arguments[0]) : 0;
	groups = count == 2 ? atoi(arguments[1]) : 0;
	if (n < PART || n > 1 << 26 || n % PART || groups < 32 || groups > GROUPS_MAX)
		return false;
	source = work_source(work, (size_t)n * sizeof(int));
	values = work->host[source];
	for (int i = 0; i < n; i++)
		values[i] = i;
	add_all(work);
	work_result(work, starts);
	work_result(work, grouped);
	work_result(work, sums);
	return true;
}

/* ---- the same on the CPU ---- */

static int key_of(int value)
{
	return (int)((unsigned)value * 2654435761u >> 8) % groups;
}

/* Each value is in its group, and once. */
static bool check_grouped(const int *begin, const int *values)
{
	unsigned char *seen = calloc((size_t)n, 1);
	bool good = seen;

	for (int group = 0; group < groups && good; group++)
		for (int i = begin[group]; i < begin[group + 1] && good; i++) {
			good = values[i] >= 0 && values[i] < n && !seen[values[i]] &&
			       key_of(values[i]) == group;
			if (good)
				seen[values[i]] = 1;
		}
	free(seen);
	return good;
}

static bool check(const struct work *work)
{
	const int *values = work->host[source];
	int begin[GROUPS_MAX + 1] = {0};
	unsigned total[GROUPS_MAX] = {0};
	bool good;

	for (int i = 0; i < n; i++) {
		begin[key_of(values[i]) + 1]++;
		total[key_of(values[i])] += (unsigned)values[i];
	}
	for (int group = 0; group < groups; group++)
		begin[group + 1] += begin[group];
	good = !memcmp(begin, work->host[starts], work->bytes[starts]) &&
	       !memcmp(total, work->host[sums], work->bytes[sums]) &&
	       check_grouped(begin, work->host[grouped]);
	if (!good)
		fprintf(stderr, "group: other groups, or other sums, than the CPU finds\n");
	return good;
}

const struct program program = {"group",
	"N GROUPS\nN: integers, a multiple of 4096 up to 2^26; GROUPS: 32 to 512", make, check};
