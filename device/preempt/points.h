/* SPDX-License-Identifier: MIT
 *
 * Where in a kernel a block may leave in the middle: barriers in loops to which all threads of the block come together. And what
 * a thread needs to go on from there.
 */
#ifndef GDEV_DEVICE_PREEMPT_POINTS_H
#define GDEV_DEVICE_PREEMPT_POINTS_H

#include <stdbool.h>
#include <stdint.h>

struct work;
struct reg;

enum { POINTS_NAME = 256 };

struct point {
	uint32_t barrier; /* which one of the kernel's text, from 0 */
	uint32_t *regs;   /* of struct function: those that are read behind it */
	uint32_t reg_count;
};

struct points {
	struct point *points; /* in the text's order; memory of the struct work */
	uint32_t count;
	uint32_t thread_bytes; /* of the registers of a point, and of local memory, at most */
	const char *unfit;     /* why there is none: "it …"; NULL: there is one */
};

/* After spin_awaits_blocks() has said no. 0 or -ENOMEM. */
int points_find(struct work *w, struct points *points);
/* How many bytes a register takes; 0: it cannot be kept. */
uint32_t points_reg_bytes(unsigned type);
/* As it is called in the text. False: that is too long. */
bool points_name(const struct reg *reg, char name[POINTS_NAME]);

#endif
