/* SPDX-License-Identifier: MIT
 *
 * For programs of the runtime API: what is not as it should be is printed, and ends the program.
 */
#ifndef TESTS_CUDA_RUNTIME_H
#define TESTS_CUDA_RUNTIME_H

#include <cstdio>
#include <cstdlib>

#define CHECK(call)                                                                                \
	do {                                                                                       \
		cudaError_t error_ = (call);                                                       \
		if (error_ != cudaSuccess) {                                                       \
			printf("line %d: %s: %s\n", __LINE__, #call, cudaGetErrorString(error_));  \
			exit(1);                                                                   \
		}                                                                                  \
	} while (0)
#define REQUIRE(condition)                                                                         \
	do {                                                                                       \
		if (!(condition)) {                                                                \
			printf("line %d: not %s\n", __LINE__, #condition);                         \
			exit(1);                                                                   \
		}                                                                                  \
	} while (0)

#endif
