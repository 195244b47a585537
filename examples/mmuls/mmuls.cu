/* SPDX-License-Identifier: MIT
 *
 * Every device runs the kernel of mmul, on its rows of C.
 */
#include "mmul/mmul.cu"
