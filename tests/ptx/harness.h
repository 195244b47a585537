/* SPDX-License-Identifier: MIT
 *
 * Compiles PTX and runs it on a few threads, as the software GPU would.
 */
#ifndef GDEV_TESTS_PTX_HARNESS_H
#define GDEV_TESTS_PTX_HARNESS_H

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "device/cpu/ptx/ptx.h"

struct program {
	struct ptx_module *module;
	void *globals;
	char log[4096];
};

enum outcome { RAN, TRAPPED, ASSERTED, STUCK, OVERFLOWED, UNSUPPORTED };

struct run {
	const char *kernel;
	uint32_t grid[3], block[3]; /* zeros mean 1 */
	uint32_t dynamic_shared;
	unsigned pool; /* threads of the pool, 0 means 1 */
	const void *params;
};

/* What shared, local and saved memory holds before a kernel runs is drawn from this number. */
extern uint64_t scratch_seed;

/* What the last run's callbacks saw. */
extern char printed[4096];
extern char asserted[512];
extern struct stuck {
	char kernel[64];
	uint32_t block[3], lines[1024]; /* where each thread waits */
} stuck;

void load_text(struct program *p, const char *text);
void load_file(struct program *p, const char *name);
void unload(struct program *p);
/* Compiles and links: 0, or the error of ptx_compile or ptx_link; the log in p->log. */
int compile(struct program *p, const struct ptx_kernel *k, const uint32_t block[3],
	const struct ptx_code **code);
/* Runs what is compiled; no number of r may be 0. */
enum outcome run_code(
	struct program *p, const struct ptx_kernel *k, const struct ptx_code *code, struct run r);
/* The same of the blocks [first, end) alone, in the grid's linear order. */
enum outcome run_blocks(struct program *p, const struct ptx_kernel *k, const struct ptx_code *code,
	struct run r, uint64_t first, uint64_t end);
/* Compiles, links, runs, unlinks. Fails the test when it does not compile. */
enum outcome run(struct program *p, struct run r);
/* The error of ptx_parse or, when a kernel is named, of ptx_compile; the log in p->log. */
int error_of(struct program *p, const char *text, const char *kernel);

#endif
