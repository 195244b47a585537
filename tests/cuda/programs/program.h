/* SPDX-License-Identifier: MIT
 *
 * What every program of the suite has: it checks itself. The first thing that is not as it should be is printed and ends
 * the program with 1. A program that gets to its end returns passed(). One that asks for what the device says it has not
 * ends with skipped().
 */
#ifndef PROGRAMS_PROGRAM_H
#define PROGRAMS_PROGRAM_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#ifdef __CUDACC__
#define error_text(error) cudaGetErrorName((cudaError_t)(error))
#else
#include <cuda.h>
static inline const char *error_text(int error)
{
	const char *name = "an error without a name";

	cuGetErrorName((CUresult)error, &name);
	return name;
}
#endif

/* A call that has to succeed. */
#define CHECK(call) EXPECT(call, 0)

/* A call that has to give this error. */
#define EXPECT(call, wanted)                                                                       \
	do {                                                                                       \
		int error_ = (int)(call), wanted_ = (int)(wanted);                                 \
		if (error_ != wanted_) {                                                           \
			printf("%s:%d: %s: %s\n", strrchr("/" __FILE__, '/') + 1, __LINE__, #call, \
				error_text(error_));                                               \
			exit(1);                                                                   \
		}                                                                                  \
	} while (0)

#define REQUIRE(condition)                                                                         \
	do {                                                                                       \
		if (!(condition)) {                                                                \
			printf("%s:%d: not %s\n", strrchr("/" __FILE__, '/') + 1, __LINE__,        \
				#condition);                                                       \
			exit(1);                                                                   \
		}                                                                                  \
	} while (0)

static inline int passed(void)
{
	printf("passed\n");
	return 0;
}

static inline int skipped(const char *why)
{
	printf("skipped: %s\n", why);
	return 77;
}

#endif
