/* SPDX-License-Identifier: MIT
 *
 * cuda.h without its macros that make the current version of a call out of its plain name: this library
 * has all versions, and calls each by its own name.
 */
#ifndef GDEV_LIB_CUDA_NAMES_H
#define GDEV_LIB_CUDA_NAMES_H

#define GDEV_CUDA_WITHOUT_NAMES
#include "gdev/cuda.h"

#endif
