/* SPDX-License-Identifier: MIT
 *
 * What checked code looks at itself before it calls the runtime: most accesses need no more. Compiled code
 * (builtins_check.h, LLVM bitcode) and device/cpu/checking share this; what the words mean is the latter's to say.
 */
#ifndef GDEV_DEVICE_CPU_PTX_QUICK_H
#define GDEV_DEVICE_CPU_PTX_QUICK_H

/* Who accessed four bytes of memory last. Two words, each:
 *   bits 28..63  when: the tick of the access; 0: before all that counts
 *        20..27  the pool thread, whose blocks run one after the other
 *        10..19  the thread of the block
 *         6..9   which of the four bytes
 *         5      strong (ptx.h)
 *         4      of a strong write, and of a read: others have accessed it, too; of another write: an asynchronous copy made it,
 *                which nobody has waited for
 *         0..3   of a write: which bytes have been written at all; of a read: which bytes others than the thread have read
 * The thread of a strong write by several is the first of them, that of a read the last. */
struct check_cell {
	unsigned long write, read;
};

enum {
	CELL_TICK = 28, /* shifts */
	CELL_SLOT = 20,
	CELL_THREAD = 10,
	CELL_MASK = 6,
	CELL_BYTES = 15,
	CELL_STRONG = 1 << 5,
	CELL_PENDING = 1 << 4, /* of a write that is not strong */
	CELL_SEVERAL = 1 << 4, /* of a read, and of a strong write */
	QUICK_RANGES =
		64, /* those that the block has used last, by the line of the access; a power of two */
};

struct check_range {
	unsigned long base, bytes;
	struct check_cell *cells; /* from base on, rounded down to 4 */
	unsigned long defined;    /* 1: its bytes have values from the beginning */
};

struct check_quick {
	unsigned long shared, shared_bytes; /* the block's shared memory, */
	struct check_cell *cells;           /* and its cells */
	unsigned long mark;                 /* of an access to four bytes by thread 0 now */
	/* Ticks: what was before them is ordered before what is done now: in shared memory; in other memory. */
	unsigned long since_barrier, launched;
	unsigned long began; /* what was written in shared memory before that is no value */
	/* The ranges are those of when *changes was `seen`; else they are none. */
	const unsigned *changes;
	unsigned seen;
	struct check_range ranges[QUICK_RANGES];
};

#endif
