/* SPDX-License-Identifier: MIT
 *
 * A kernel that device/preempt has rewritten, to be run on the software GPU beside the kernel as it was: its memory, arguments
 * that mean nothing, and children in which it may crash.
 */
#ifndef GDEV_TESTS_PTX_TRIAL_H
#define GDEV_TESTS_PTX_TRIAL_H

#include "device/preempt/preempt.h"
#include "harness.h"
#include "random_kernel.h"

enum {
	TRIAL_MEMORY = 8 << 20,
	TRIAL_PIECE = 1 << 20, /* of it, for each address among the parameters */
	TRIAL_SHARED = 16 << 10,
	TRIAL_PARAMS = 4096,
	TRIAL_BLOCKS = 64,
	TRIAL_TRAPPED = 3, /* status of a child */
};

struct trial {
	struct program program; /* of the rewritten text */
	const struct ptx_kernel *kernel, *other;
	const struct ptx_code *code, *other_code;
	const struct preempt_kernel *made;
	uint32_t grid[3], block[3], blocks;
	uint8_t params[TRIAL_PARAMS];
	uint8_t *memory, *before, *after;
	size_t globals_bytes, memory_bytes; /* the former without what is ours */
	uint32_t done;                      /* blocks */
	uint64_t counter; /* of those that have begun, with what tells them to leave */
	uint32_t left, generation;
};

extern uint64_t luck; /* what random moments are drawn from */

/* Of the program, whose memory and shape are there; the other kernel has the suffix. False: it was not fit for this shape before. */
bool trial_open(
	struct trial *t, const struct preempt_module *module, const char *name, const char *suffix);
void trial_close(struct trial *t); /* the memory stays */

/* With memory of its own, a shape (NULL: any that it may have), and arguments. A false answer needs no end. */
bool trial_of_file(struct trial *t, const struct preempt_module *module, const char *text,
	const char *name, const char *suffix, const uint32_t grid[3], const uint32_t block[3]);
void trial_of_file_end(struct trial *t);
/* The module's kernel, drawn at random. */
void trial_of_random(struct trial *t, const struct random_kernel *k,
	const struct preempt_module *module, const char *text, const char *suffix);
void trial_of_random_end(struct trial *t);

/* Blocks of the kernel, or of the other. Ends the process if they do not come to their end. */
void trial_run(struct trial *t, bool other, const uint32_t grid[3], uint32_t first, uint32_t count);
/* Runs the blocks of the other by `schedule`, and then those of the kernel: 0, or what is wrong. False: with these
 * arguments the kernel cannot run. Fails the test when memory differs. */
bool trial_compare(struct trial *t, const char *name, void (*schedule)(struct trial *t));

struct preempt_module *trial_rewrite(const char *path, uint64_t kept_bytes);

#endif
