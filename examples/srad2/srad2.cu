/* SPDX-License-Identifier: MIT
 *
 * srad2 needs the two kernels of an iteration and no more.
 */
#include "srad/kernels.h"
