/* SPDX-License-Identifier: MIT
 *
 * Cases of conformance: forms of isa.def as one kernel, with operands chosen for their edges, what the interpreter
 * makes of it, and what differs from that. Whoever has another way to run PTX compares it so: the compiler, or hardware.
 */
#ifndef GDEV_TESTS_PTX_CASES_H
#define GDEV_TESTS_PTX_CASES_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "device/cpu/ptx/ptx.h"
#include "isa.h"

/* IN: inputs of a form; OUT: D to D3, P and P1, the carry, memory of 32 bytes. MEMORY: bytes of a thread's own. */
enum {
	CASE_THREADS = 256,
	CASE_BATCH = 48,
	CASE_IN = 5,
	CASE_OUT = 12,
	CASE_OUT_P = 4,
	CASE_OUT_CARRY = 6,
	CASE_OUT_MEMORY = 8,
	CASE_MEMORY = 64,
	CASE_IN_BYTES = CASE_BATCH * CASE_IN * CASE_THREADS * 8,
	CASE_OUT_BYTES = CASE_BATCH * CASE_OUT * CASE_THREADS * 8,
	CASE_MEMORY_BYTES = CASE_BATCH * CASE_THREADS * CASE_MEMORY,
};

struct case_slot { /* a register of a form */
	char name[4];
	unsigned type;
	char set; /* of sources: which values: t: of the type, s: shifts, l: lanes, c: counts, b: bytes, m: small */
};

struct case_shape { /* what the operands of a form are */
	unsigned types[4], type_count;
	struct case_slot in[CASE_IN], out[CASE_OUT_MEMORY];
	unsigned ins, outs; /* bits: which there are */
	bool global, shared, local, carry_in, carry_out;
};

struct cases {
	struct isa_form *forms[CASE_BATCH];
	struct case_shape shapes[CASE_BATCH];
	unsigned count;
	/* Of the interpreter, and of the other side: CASE_OUT_BYTES, CASE_MEMORY_BYTES. */
	uint64_t *in, *out[2];
	uint8_t *memory[2];
	char *text; /* the kernel `k(in, out, memory)`, of one block of CASE_THREADS */
	struct ptx_module *module;
	void *globals;
	char log[4096];
};

void cases_begin(struct cases *c);
void cases_finish(struct cases *c);
/* Writes the kernel and interprets it, and fills the other side's memory with what it begins with. Forms that cannot be
 * compared are left out, with their verdict; `refuses` (or NULL) says which else, by a message that names the line.
 * False: none is left. The kernel stays until cases_end(). */
bool cases_prepare(struct cases *c, int (*refuses)(struct cases *c, struct ptx_log *log));
void cases_end(struct cases *c);
/* Leaves out the form on a line of the kernel; -1 when there is none on it. */
int cases_drop_line(struct cases *c, uint32_t line, enum isa_verdict verdict);
/* Says the first `most` values of form n that differ, and returns how many do. */
unsigned cases_differing(const struct cases *c, unsigned n, unsigned most, FILE *f);
/* The same of NaNs whose bits differ. */
unsigned cases_other_nans(const struct cases *c, unsigned n, unsigned most, FILE *f);

#endif
