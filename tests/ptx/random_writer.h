/* SPDX-License-Identifier: MIT
 *
 * How random kernels are written: random_kernel.c has the statements, random_loops.c what goes round or has several ways,
 * random_warps.c what a warp does together.
 */
#ifndef GDEV_TESTS_PTX_RANDOM_WRITER_H
#define GDEV_TESTS_PTX_RANDOM_WRITER_H

#include <stdio.h>

#include "random_kernel.h"

#define COUNT(a) (sizeof(a) / sizeof(*(a)))

enum {
	H = 6,
	R = 12,
	D = 8,
	F = RANDOM_F32,
	G = RANDOM_F64,
	P = 8,
	U = 4,
	MOST_DEPTH = 4,
	MOST_ROUNDS = 4096,
	ALL_LANES = 0,
	NO_MASK = -1
};

enum kind {
	KIND_ROW,
	KIND_UNIFORM_ROW,
	KIND_IF,
	KIND_UNIFORM_IF,
	KIND_LOOP,
	KIND_UNIFORM_LOOP,
	KIND_STRIDES,     /* a loop that threads go through side by side */
	KIND_TWO_ENTRIES, /* a loop that is entered at its top or in its middle */
	KIND_SWITCH,
	KIND_BREAK,
	KIND_EXIT,
	KIND_RETURN, /* to the kernel's end or where it is: of some threads on a side of a branch that is the same for all */
	KIND_EXCHANGE,
	KIND_DIVERGENT_BARRIER,
	KIND_MBARRIER, /* a barrier in memory */
	KIND_COLLECTIVE,
	KIND_BLOCK_REDUCTION,
	KIND_INDEX_GUARDS,
	KIND_UNROLLED, /* a loop that a compiler unrolled, behind one for what is left over */
};

struct place {         /* of a statement that is drawn or written */
	bool all;      /* all threads of the block come here together */
	bool in_loop;  /* a break may stand here */
	int mask;      /* register with the lanes that come here, or NO_MASK: nobody knows */
	int loop_mask; /* register with the lanes in the loop around */
	int loop_end;
	unsigned depth;
	unsigned rounds; /* the most that the loops around it make of it */
};

struct writer {
	const struct random_kernel *k;
	FILE *f;
	uint64_t s; /* of the statement that is written */
	unsigned labels, masks, loops;
};

uint64_t random_draw(uint64_t *state);
uint32_t random_below(uint64_t *state, uint32_t n);
struct place random_inside(unsigned kind, const struct place *p, int mask);
void write_list(struct writer *w, uint16_t first, const struct place *p);
/* What is left of the lanes of `mask` when those with the predicate have gone elsewhere. */
int write_vote(struct writer *w, int mask, const char *predicate, int into);

/* random_loops.c */
void write_loop(struct writer *w, const struct random_node *node, const struct place *p);
void write_strides(struct writer *w, const struct random_node *node, const struct place *p);
void write_unrolled(struct writer *w);
void write_two_entries(struct writer *w, const struct random_node *node, const struct place *p);
void write_switch(struct writer *w, const struct random_node *node, const struct place *p);

/* random_warps.c */
void write_collective(struct writer *w, const struct place *p);

#endif
