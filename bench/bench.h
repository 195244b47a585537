/* SPDX-License-Identifier: MIT
 *
 * What the benchmarks share. A measurement is repeated, in turn with what it is compared to (the
 * baseline), so that whatever else the machine does meets both; the medians are reported.
 */
#ifndef BENCH_BENCH_H
#define BENCH_BENCH_H

#include <stddef.h>
#include <stdint.h>

#define BENCH_SAMPLES_MAX 1000

struct samples {
	double values[BENCH_SAMPLES_MAX];
	unsigned count;
};

uint64_t bench_now_ns(void);
void samples_add(struct samples *samples, double value);
double samples_median(struct samples *samples);

/* Prints {"bench": …, "metric": …, "value": …, "unit": …, "baseline": …, "ratio": …}. */
void bench_report(const char *bench, const char *metric, const char *unit, struct samples *values,
	struct samples *baseline);

/* Ends the benchmark with a sentence unless `error` is 0. */
void bench_require(int error, const char *what, const char *why);

/* A kernel without parameters called `empty`, as PTX. */
extern const char bench_empty_ptx[];

#endif
