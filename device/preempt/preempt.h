/* SPDX-License-Identifier: MIT
 *
 * Kernels that leave the device between blocks, made of kernels that were not written for it: PTX in, PTX out.
 *
 * Each kernel that can be is there a second time in the text that comes out, under the name NAME PREEMPT_SUFFIX, with a parameter
 * behind the program's own, struct preempt_launch. The first is as it was: queries, graphs and launches that need the
 * whole grid at once use it. The second is launched as a row of blocks, in slices of any size. A block asks a word of device
 * memory before it does anything. If the word has reached the launch's generation, the block notes that it is still to
 * be done, and leaves; otherwise it does what the first kernel's block of its index does.
 *
 * So that no word is ever taken back, generations only grow, and are of 64 bits: to stop what is on the device its
 * generation is written to the word; what is launched later has the next one.
 *
 * Pure: no state, no I/O; the text is a stranger's. Any thread may call anything.
 */
#ifndef GDEV_DEVICE_PREEMPT_H
#define GDEV_DEVICE_PREEMPT_H

#include <stddef.h>
#include <stdint.h>

#define PREEMPT_SUFFIX "__gdev_blocks"
#define PREEMPT_LISTED UINT32_MAX

/* The hidden parameter. */
struct preempt_launch {
	uint64_t
		word; /* address of 64 bits of device memory: up to which generation blocks are to leave */
	/* Address of 32 bits for each block of this launch, which is 0, or one more than the index in the whole grid of a
	 * block that is still to be done. A block that leaves writes its own, or has it there. */
	uint64_t left;
	uint64_t generation; /* more than 0 */
	/* Index of the launch's first block in the whole grid, x fastest. PREEMPT_LISTED: `left` has the index of each, plus
	 * one, and a block that stays puts 0 there. */
	uint32_t first;
	uint32_t grid[3]; /* the whole grid, of less than PREEMPT_LISTED blocks */
};

_Static_assert(sizeof(struct preempt_launch) == 40, "as the text in rewrite.c has it");

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
