/* SPDX-License-Identifier: MIT
 *
 * For programs that say #include <cuda.h>: this directory holds nothing else but gdev_api.h, so that it can be on the
 * include path without hiding the system's headers.
 */
#include "../cuda.h"
