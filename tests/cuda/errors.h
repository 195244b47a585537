/* SPDX-License-Identifier: MIT
 *
 * What every function answers to what is wrong. A row is a call and the result that CUDA's documentation names:
 *
 *	INVALID_VALUE(cuMemAlloc(NULL, 16));
 *
 * Rows do not end a test, so that one run shows all that is wrong. errors.py finds the functions that work
 * and have no row.
 *
 * With TEST_VENDOR set NVIDIA's library is asked, whose answers decide. It follows handles of what was never there,
 * or is not any more, without a look: those rows are for ours alone. So are rows in which it crashes: CRASHES(). One of
 * which that is not known yet fails, and ends the process: the test begins again in another, without it. DIFFERS() is
 * for what ours answers otherwise on purpose, and says why. With TEST_ANSWERS set each row is added to that file,
 * tab-separated: its place; what became of it (same, on purpose, differs, crashes, hangs, known to crash, not asked);
 * ours; NVIDIA's; why they are not the same; the call. scripts/lib/answers.py makes a report of it.
 */
#ifndef TESTS_CUDA_ERRORS_H
#define TESTS_CUDA_ERRORS_H

#include "fixture.h"

#include <stdbool.h>

#define REFUSED(expected, call) DIFFERS(expected, ERRORS_SAME, "", call)
#define DIFFERS(ours, nvidias, why, call)                                                          \
	do {                                                                                       \
		if (errors_may_ask(__FILE__, __LINE__, #call, ours))                               \
			errors_row(call, nvidias, why);                                            \
	} while (0)
#define CRASHES(ours, call)                                                                        \
	do {                                                                                       \
		if (!errors_crashes(__FILE__, __LINE__, #call, ours))                              \
			errors_row(call, ERRORS_SAME, "");                                         \
	} while (0)
#define INVALID_VALUE(call) REFUSED(CUDA_ERROR_INVALID_VALUE, call)
#define INVALID_HANDLE(call) REFUSED(CUDA_ERROR_INVALID_HANDLE, call)
#define INVALID_CONTEXT(call) REFUSED(CUDA_ERROR_INVALID_CONTEXT, call)
#define INVALID_DEVICE(call) REFUSED(CUDA_ERROR_INVALID_DEVICE, call)
#define NOT_FOUND(call) REFUSED(CUDA_ERROR_NOT_FOUND, call)

#define OURS(statement)                                                                            \
	do {                                                                                       \
		if (!errors_of_vendor())                                                           \
			statement;                                                                 \
	} while (0)

bool errors_of_vendor(void);
bool errors_may_ask(const char *file, int line, const char *call, CUresult ours);
bool errors_crashes(const char *file, int line, const char *call, CUresult ours);
/* The answer of the row that was asked about last, and what is expected of NVIDIA's library. */
void errors_row(CUresult result, CUresult nvidias, const char *why);
#define ERRORS_SAME ((CUresult)-1) /* as of ours */
/* From here on NVIDIA's library may find first what is wrong with an argument. */
void errors_arguments_may_be_first(void);
/* How many rows of this test failed. */
int errors_wrong(void);

/* A valid address that is no object of CUDA's. */
extern char garbage[256];
#define GARBAGE(type) ((type)(void *)garbage)
#define NO_DEVICE 99

/* One object of each kind. */
struct objects {
	CUcontext context;
	CUstream stream;
	CUevent event;
	CUmodule module;
	CUfunction function;
	CUlibrary library;
	CUkernel kernel;
	CUlinkState link;
	CUdeviceptr memory; /* OBJECT_BYTES of it */
	void *host;         /* as many */
	CUmemoryPool pool;
	CUgraph graph;
	CUgraphNode node; /* an empty one */
	CUgraphExec exec;
	CUuserObject object;
};

#define OBJECT_BYTES 4096

/* Those of the current context, and those that were destroyed. Zero until the setup. */
extern struct objects alive, gone;

/* The groups of tests: each a topic in a file of its own. */
int errors_of_state(void); /* the first, since it begins before cuInit */
int errors_of_contexts(void);
int errors_of_memory(void);
int errors_of_pools(void);
int errors_of_streams(void);
int errors_of_code(void);
int errors_of_graphs(void);
int errors_of_arrays(void);
int errors_of_textures(void);
int errors_of_greens(void);

/* Calls that need neither a context nor sound arguments to find that cuInit was not called (errors_early.c). */
void errors_of_the_rest(CUresult expected);

int errors_setup(void **state);
int errors_teardown(void **state); /* fails if a row did */

#define ERRORS_TEST(name) cmocka_unit_test_setup_teardown(name, errors_setup, errors_teardown)

/* Runs the tests of a group: how many failed. */
#define ERRORS_RUN(tests) errors_run(tests, sizeof(tests) / sizeof *(tests))
int errors_run(const struct CMUnitTest *tests, size_t count);

#endif
