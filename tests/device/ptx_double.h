/* SPDX-License-Identifier: MIT
 *
 * In the compiler's place: ptx.h over kernels that are written in C (ptx_double.c), so that the
 * engine is tested without it, with sanitizers, and with kernels no compiler would make.
 */
#ifndef GDEV_TESTS_DEVICE_PTX_DOUBLE_H
#define GDEV_TESTS_DEVICE_PTX_DOUBLE_H

#include <stdatomic.h>

#define DOUBLE_PTX ".version 8.0\n.target sm_75\n"

/* ptx_compile() calls that made an object. */
extern atomic_uint double_compiles;

#endif
