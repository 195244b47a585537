/* SPDX-License-Identifier: MIT
 *
 * What the tests of several devices in one program have in common (peer.py).
 */
#ifndef TESTS_CUDA_SIDES_H
#define TESTS_CUDA_SIDES_H

#include "fixture.h"

#define SIDES 2

/* What the program has on a device. */
struct side {
	CUcontext context;
	CUmodule module;
	CUfunction add;
	CUstream stream; /* does not wait for the default one */
};

extern struct side sides[SIDES];

/* Makes the side's context current. */
void use(int i);
/* As cmocka's setup and teardown of a test. Where there are fewer devices the program ends with 77. */
int sides_setup(void **state);
int sides_teardown(void **state);
/* On the side's stream. */
void launch_add(int i, CUdeviceptr words, uint32_t count, uint32_t value);

#endif
