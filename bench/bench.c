/* SPDX-License-Identifier: MIT
 *
 * See bench.h.
 */
#include "bench.h"

#include <stdio.h>
#include <stdlib.h>
#include <time.h>

const char bench_empty_ptx[] = ".version 6.0\n"
			       ".target sm_70\n"
			       ".address_size 64\n"
			       ".visible .entry empty()\n"
			       "{\n"
			       "	ret;\n"
			       "}\n";

uint64_t bench_now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

void samples_add(struct samples *samples, double value)
{
	if (samples->count < BENCH_SAMPLES_MAX)
		samples->values[samples->count++] = value;
}

static int compare(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

double samples_median(struct samples *samples)
{
	qsort(samples->values, samples->count, sizeof(double), compare);
	return samples->values[samples->count / 2];
}

void bench_report(const char *bench, const char *metric, const char *unit, struct samples *values,
	struct samples *baseline)
{
	double value = samples_median(values), base = samples_median(baseline);

	printf("{\"bench\": \"%s\", \"metric\": \"%s\", \"value\": %.6g, \"unit\": \"%s\", "
	       "\"baseline\": %.6g, \"ratio\": %.4g}\n",
		bench, metric, value, unit, base, value / base);
	fflush(stdout);
}

void bench_require(int error, const char *what, const char *why)
{
	if (!error)
		return;
	fprintf(stderr, "bench: cannot %s: %s\n", what, why);
	exit(2);
}
