/* SPDX-License-Identifier: MIT
 *
 * The two kernels of a scan and no more.
 */
#include "scan.h"
