/* SPDX-License-Identifier: MIT
 *
 * What the tests of the CUDA API have in common. They use nothing but <cuda.h>, so each program also runs
 * on NVIDIA's libcuda: what they expect is what CUDA does.
 */
#ifndef TESTS_CUDA_FIXTURE_H
#define TESTS_CUDA_FIXTURE_H

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <cuda.h>

#define assert_result(call, expected) assert_int_equal((call), (expected))
#define assert_success(call) assert_result((call), CUDA_SUCCESS)

/* kernels.ptx, NUL-terminated. */
extern const char kernels_ptx[];

/* As cmocka's setup and teardown of a test: a context that is current, with kernels.ptx loaded. */
int fixture_setup(void **state);
int fixture_teardown(void **state);

extern CUdevice fixture_device;
extern CUcontext fixture_context;
extern CUmodule fixture_module;

/* What the device says of itself. */
int fixture_attribute(CUdevice_attribute attribute);
/* $GDEV_TEST_DEVICE names another device than the software GPU, or the library is NVIDIA's. */
bool fixture_is_hardware(void);
CUfunction fixture_function(const char *name);
CUcontext fixture_context_create(void);

/* Launches one block of `threads` on `stream`, parameters as cuLaunchKernel takes them. */
#define launch_on(stream, name, blocks, threads, ...)                                              \
	cuLaunchKernel(fixture_function(name), (blocks), 1, 1, (threads), 1, 1, 0, (stream),       \
		(void *[]){__VA_ARGS__}, NULL)

/* A gate holds a stream until it is opened. */
struct gate {
	volatile uint32_t *flag;
};

void gate_close(struct gate *gate, CUstream stream);
void gate_open(struct gate *gate);
void gate_free(struct gate *gate);

/* Device memory full of `value`, and a check that `count` words there are `value`. */
CUdeviceptr words_alloc(size_t count, uint32_t value);
void words_check(CUdeviceptr words, size_t count, uint32_t value);

#endif
