/* SPDX-License-Identifier: MIT
 *
 * What benchmarks of dataflow graphs share: a kernel that does nothing.
 */
#ifndef GDEV_BENCH_PTASK_EMPTY_H
#define GDEV_BENCH_PTASK_EMPTY_H

#include <gdev/ptask.h>

#include "bench.h"

static const char empty_ptx[] = ".version 6.0\n.target sm_70\n.address_size 64\n"
				".visible .entry empty(.param .u64 at)\n{\nret;\n}\n";

static inline void must(int error, const char *what)
{
	bench_require(error, what, gdev_strerror(error));
}

static inline double now_us(void)
{
	return (double)bench_now_ns() / 1e3;
}

#endif
