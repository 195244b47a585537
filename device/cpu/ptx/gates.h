/* SPDX-License-Identifier: MIT
 *
 * What a thread of a scheduled plan (region.h) waits for before it runs a region. The code generator
 * and the builtin that lets threads go on (builtins_gates.h, LLVM bitcode) share this.
 *
 * A region has a code. A thread's word holds the code of the region that it runs next, or, while it
 * waits at that region's gate, the code plus the number of regions; plus twice that number at
 * GATE_BLOCK. A thread that has left holds GATE_LEFT.
 */
#ifndef GDEV_DEVICE_CPU_PTX_GATES_H
#define GDEV_DEVICE_CPU_PTX_GATES_H

enum gate {
	GATE_NONE,
	GATE_BLOCK, /* that as many threads as the barrier wants wait at it or have arrived, or all of the block */
	/* The codes of those from here on follow each other in this order. */
	GATE_MASK, /* the lanes of its mask at this same instruction */
	GATE_WARP, /* the lanes of its mask at any bar.warp */
	GATE_HERE, /* a collective without a mask: that its warp has nothing else to do */
	GATE_SPIN, /* a loop that waits for other threads: that all had a turn */
	GATES
};

#define GATE_LEFT 0xffffffffu

/* Barriers that threads may wait at: behind those with numbers that of the cluster, and one for each group of four warps. */
enum { GATE_CLUSTER = 16, GATE_GROUPS, GATE_BARRIERS = 32 };

/* What a thread waits for at GATE_BLOCK: the barrier's number, whether the thread's predicate holds where the barrier reduces them,
 * and from bit GATE_WANTED on how many threads the barrier wants, 0 for the whole block. A thread that went on finds there of how
 * many that waited with it the predicate holds, and from bit GATE_WANTED on how many they were. */
enum { GATE_HOLDS = 1 << 15, GATE_WANTED = 16 };

/* What ptx_release() says: some threads go on; those at the cluster's barrier do. */
enum { GATE_OPENED = 1, GATE_MET = 2 };

/* A kernel's table: the first code of each gate, the number of regions, and the line of each code. */
enum { GATE_TABLE_COUNT = GATES, GATE_TABLE_LINES };

#endif
