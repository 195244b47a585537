/* SPDX-License-Identifier: MIT
 *
 * What reroll.c and form.c share: two loops that a compiler made of one, and what their numbers are.
 */
#ifndef GDEV_DEVICE_CPU_PTX_REROLL_H
#define GDEV_DEVICE_CPU_PTX_REROLL_H

#include "device/cpu/ptx/work.h"

enum {
	MAX_TERMS = 8,
	MAX_INPUTS = 5,
	MAX_NODES = 512,
	MAX_INSTS = 200, /* of a part of the loops */
};

/* A sum of integers, which wraps as its register does: constant + by * reg + …. */
struct form {
	bool none; /* it is no such sum */
	uint8_t bits, count;
	int64_t constant;
	struct {
		uint32_t reg; /* that never changes, or FORM_REST */
		bool wide;    /* of 32 bits, made 64 */
		int64_t by;
	} terms[MAX_TERMS];
};

enum { FORM_REST = PTX_NONE - 1 }; /* how many rounds the rest has */

struct value { /* a number of both loops: what `nodes` has there, plus an offset. node 0: none */
	uint32_t node;
	int64_t offset;
};

struct node {
	const struct inst *inst; /* or NULL: what a register of the rest has before a round */
	uint32_t reg;
	struct operand in[MAX_INPUTS];
	struct value values[MAX_INPUTS]; /* of inputs that are registers */
};

struct reroll {
	struct work *work;
	uint32_t branch, rest_body, between, body, join; /* blocks, in the order of the text */
	uint32_t counter, rest, n;             /* registers; counter and rest may be one */
	uint32_t rest_update, rest_test, move; /* instructions; move: counter = rest, or PTX_NONE */
	int32_t times;                         /* rounds of the rest in one of the others */
	bool goes_on;                          /* the rounds, where what they ask for holds */
	bool is_signed;
	struct operand lo, hi;
	struct value *
		twins; /* by register that the rounds carry: one that the rest does + 1, and how much more it is */
	struct value *values,
		*rest_values; /* by register, after a round, and after as many of the rest */
	struct node *nodes;
	uint32_t node_count;
};

/* reroll.c */
/* The last instruction in [first, end) that writes the register, or PTX_NONE. */
uint32_t reroll_last_def(struct work *w, uint32_t reg, uint32_t first, uint32_t end);
/* Whether the instruction is between the rest and the rounds. */
bool reroll_is_behind(const struct reroll *r, uint32_t n);
/* Whether the rest carries it from round to round. */
bool reroll_is_carried(const struct reroll *r, uint32_t reg);

/* form.c */
/* behind: seen from behind the rest. */
struct form form_reg(struct reroll *r, uint32_t reg, bool behind);
struct form form_of(struct reroll *r, const struct operand *o, bool behind);
struct form form_inst(struct reroll *r, const struct inst *i, bool behind);
struct form form_rest(void);
/* f += by * g */
void form_add(struct form *f, const struct form *g, int64_t by);
bool form_equal(const struct form *f, const struct form *g);
/* Whether the instruction makes of one register another, or itself again, plus a number. */
bool form_is_step(const struct work *w, const struct inst *i, uint32_t *from, int64_t *by);
struct value form_wrap(struct value v, int64_t by, unsigned bits);

#endif
