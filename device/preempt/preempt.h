/* SPDX-License-Identifier: MIT
 *
 * Kernels that leave the device between blocks, made of kernels that were not written for it: PTX in, PTX out.
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
 * Pure: no state, no I/O; the text is a stranger's. Any thread may call anything.
 */
#ifndef GDEV_DEVICE_PREEMPT_H
#define GDEV_DEVICE_PREEMPT_H

#include <stddef.h>
#include <stdint.h>

#define PREEMPT_SUFFIX "__gdev_blocks"
#define PREEMPT_SHARED                                                                             \
	16 /* bytes behind the program's dynamic shared memory, for the block's number */

/* The hidden parameter. */
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

/* Dynamic shared memory of a launch of the second kernel. */
static inline uint32_t preempt_shared_bytes(uint32_t bytes)
{
	return (bytes + PREEMPT_SHARED - 1) / PREEMPT_SHARED * PREEMPT_SHARED + PREEMPT_SHARED;
}

struct preempt_kernel {
	char *name;
	uint32_t param_offset; /* of the hidden parameter */
	const char *
		unfit; /* why there is no second one: a sentence's end, "it …"; NULL: there is one */
};

struct preempt_module {
	char *text; /* NUL-terminated; NULL: no kernel is fit */
	size_t length;
	struct preempt_kernel *kernels;
	size_t count;
};

/* The module is the caller's, to be destroyed. -EINVAL, -ENOTSUP: the text is not such as ptx_parse() takes; -ENOMEM. */
int preempt_rewrite(const char *text, size_t length, struct preempt_module **out);
void preempt_module_destroy(struct preempt_module *module); /* NULL is fine */
/* NULL: there is none of that name. */
const struct preempt_kernel *preempt_kernel_find(
	const struct preempt_module *module, const char *name);

#endif
