/* SPDX-License-Identifier: MIT
 *
 * Kernels that leave the device between blocks, or in the middle of one, made of kernels that were not written for it: PTX in, PTX
 * out.
 *
 * Each kernel that can be is there a second time in the text that comes out, under the name NAME PREEMPT_SUFFIX, with a parameter
 * behind the program's own, struct preempt_launch. The first is as it was: queries, graphs and launches that need the
 * whole grid at once use it. The second is launched as a row of blocks, in slices of any size, one behind the other. A block
 * begins with an atomic addition to a counter in device memory. If the counter's low half is the launch's generation, the block
 * counts itself among those that have left, elsewhere, and leaves. Otherwise it does what the first kernel's block of that number
 * does.
 *
 * So the blocks that are done or running are the first ones of the grid at any time, whatever the order in which the device
 * begins them; and when none runs any more, the number of those that have left says how many are still to be done.
 *
 * A kernel with barriers in loops is there a third time, if that is asked for: under the name NAME PREEMPT_LOOPS_SUFFIX, with a struct
 * preempt_loops_launch. It is launched with the program's own grid, of which all blocks can be on the device at once. Its blocks
 * look at such a barrier whether the low half of the counter is the launch's generation, and when they begin. Then they keep what
 * they need to go on, in a variable of the text, PREEMPT_KEPT; count themselves among those that have left; and leave. The grid is
 * launched again as often as blocks have left: those go on, the others end at once.
 *
 * Pure: no state, no I/O; the text is a stranger's. Any thread may call anything.
 */
#ifndef GDEV_DEVICE_PREEMPT_H
#define GDEV_DEVICE_PREEMPT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define PREEMPT_SUFFIX "__gdev_blocks"
#define PREEMPT_SHARED                                                                             \
	16 /* bytes behind the program's dynamic shared memory, for the block's number */

#define PREEMPT_LOOPS_SUFFIX "__gdev_loops"
#define PREEMPT_KEPT "__gdev_kept"

/* The hidden parameter of the second kernel. */
struct preempt_launch {
	/* Address of 64 bits of device memory. The low half is the generation whose blocks are to leave; it may be written at any
	 * time. The high half counts blocks, and wraps around. */
	uint64_t counter;
	/* Address of 32 bits, which count those that have left, and wrap around. It should be far from the counter: a part of the
	 * device's cache adds to one place after the other, which takes 1.2 ns. */
	uint64_t left;
	uint32_t
		base; /* what the high half was, or would have been, before the grid's first block */
	uint32_t generation;
	uint32_t grid[3]; /* the whole grid, of fewer than 2^32 - 1 blocks */
	uint32_t reserved;
};

_Static_assert(sizeof(struct preempt_launch) == 40, "as the text in rewrite.c has it");

/* That of the third. */
struct preempt_loops_launch {
	uint64_t counter, left; /* as above; nothing is counted in the high half */
	uint32_t generation;
	uint32_t again; /* 0: all blocks begin */
	uint64_t
		offset; /* in PREEMPT_KEPT, of the launch's part: states_bytes, and block_bytes a block */
	uint64_t states_bytes; /* the blocks' states come first; what they keep is behind these */
	uint32_t block_bytes;  /* that a block keeps */
	uint32_t left_before;  /* again: the generation that the launch had when they left */
};

_Static_assert(sizeof(struct preempt_loops_launch) == 48, "as the text in loops.c has it");

/* Dynamic shared memory of a launch of the second kernel, or the third. */
static inline uint32_t preempt_shared_bytes(uint32_t bytes)
{
	return (bytes + PREEMPT_SHARED - 1) / PREEMPT_SHARED * PREEMPT_SHARED + PREEMPT_SHARED;
}

struct preempt_kernel {
	char *name;
	uint32_t param_offset; /* of the hidden parameter */
	const char *
		unfit; /* why there is no second one: a sentence's end, "it …"; NULL: there is one */
	const char *unfit_loops; /* … no third one, if they were asked for */
	bool loops;              /* the first has loops, if that is known */
	uint32_t thread_bytes,
		shared_bytes; /* that a block of the third keeps for each thread, and of variables */
};

/* What a block of the third kernel keeps. Every launch has the same dynamic shared memory. */
static inline uint64_t preempt_block_bytes(
	const struct preempt_kernel *kernel, uint32_t threads, uint32_t dynamic_shared)
{
	return ((uint64_t)threads * kernel->thread_bytes + kernel->shared_bytes +
		       preempt_shared_bytes(dynamic_shared) + 15) /
	       16 * 16;
}

/* States of so many blocks. */
static inline uint64_t preempt_states_bytes(uint64_t blocks)
{
	return (blocks * 8 + 15) / 16 * 16;
}

struct preempt_module {
	char *text; /* NUL-terminated; NULL: no kernel is fit */
	size_t length;
	struct preempt_kernel *kernels;
	size_t count;
	uint64_t kept_bytes; /* of PREEMPT_KEPT; 0: it is not in the text */
};

/* kept_bytes: the size of PREEMPT_KEPT, which the text then has if any kernel is there a third time; 0: none is. The module is the
 * caller's, to be destroyed. -EINVAL, -ENOTSUP: the text is not such as ptx_parse() takes; -ENOMEM. */
int preempt_rewrite(
	const char *text, size_t length, uint64_t kept_bytes, struct preempt_module **out);
void preempt_module_destroy(struct preempt_module *module); /* NULL is fine */
/* NULL: there is none of that name. */
const struct preempt_kernel *preempt_kernel_find(
	const struct preempt_module *module, const char *name);

#endif
