/* SPDX-License-Identifier: MIT
 *
 * The host's part of scan.h, for scan and radix.
 */
#ifndef BENCH_CPU_SCANNING_H
#define BENCH_CPU_SCANNING_H

#include "common/harness.h"

/* Makes room for the sums of scans of up to `count`; before scanning(). */
void scanning_setup(unsigned count);
/* Launches what leaves in out[i] the sum of in[0] .. in[i]; `out` may be `in`. */
void scanning(CUdeviceptr out, CUdeviceptr in, unsigned count);

#endif
