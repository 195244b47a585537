/* SPDX-License-Identifier: MIT
 *
 * What variants by hand share.
 */
#ifndef EXAMPLES_PTASK_HAND_H
#define EXAMPLES_PTASK_HAND_H

#include <cuda.h>

/* The first device's primary context is current, and the program's kernels are loaded in it. */
CUmodule hand_open(void);

#endif
