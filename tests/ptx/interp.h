/* SPDX-License-Identifier: MIT
 *
 * An interpreter of PTX, slow and plain: the reference that compiled kernels are compared with. It runs a grid block by
 * block, and the threads of a block one at a time, each until it waits or its slice is over. The rules are those of
 * sm_70 and later: threads of a warp are scheduled independently; a collective goes when all lanes of its mask that have
 * not left wait at one with the same qualifiers and mask; a barrier goes when as many threads as it counts have arrived.
 *
 * It takes a module from the compiler's parser and shares nothing else with the compiler.
 */
#ifndef GDEV_TESTS_PTX_INTERP_H
#define GDEV_TESTS_PTX_INTERP_H

#include "device/cpu/ptx/ptx.h"

enum interp_outcome {
	INTERP_RAN,
	INTERP_TRAPPED,
	INTERP_DEADLOCKED, /* every thread waits or has left */
	INTERP_ENDLESS,    /* more instructions than a test can mean */
	/* What the manual leaves undefined: an address, a mask without its own lane, what a register or the block's memory
	 * holds before it is written. */
	INTERP_WRONG,
	INTERP_UNKNOWN, /* an instruction that is not known here */
};

struct interp {
	const struct ptx_module *module;
	void *globals; /* as of ptx_globals_init() */
	const char *kernel;
	uint32_t grid[3], block[3];
	uint32_t dynamic_shared;
	const void *params;
	/* 0: the lowest thread that can goes on, and the next one after a slice. Else a seed: which one and for how long is drawn, so that what differs
	 * between seeds is a race of the kernel's. */
	uint64_t schedule;
	/* What was not RAN: in words, and the line of the instruction (0: several). */
	char why[512];
	uint32_t line;
};

enum interp_outcome interp_run(struct interp *in);

#endif
