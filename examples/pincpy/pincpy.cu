/* SPDX-License-Identifier: MIT
 *
 * Nothing is computed: pincpy only copies. The kernel is there so that the module is one.
 */
#include "common/device.h"

extern "C" __global__ void nothing(void)
{
}
