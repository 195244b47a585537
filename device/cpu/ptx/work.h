/* SPDX-License-Identifier: MIT
 *
 * A compilation's own copy of one kernel, on which the passes work in this order:
 *
 *   inline.c    calls inlined, guards turned into branches, call parameters into registers
 *   cfg.c       basic blocks, dominators, postdominators, live registers at block borders
 *   fuse.c      whether blocks that follow each other may run as one
 *   uniform.c   which registers hold the same value in all threads, which branches diverge
 *   meet.c      collectives on both sides of a branch become one
 *   spaces.c    loads from one of two state spaces become two
 *   stride.c    loops in strides become loops of the block
 *   reroll.c    loops that a compiler unrolled, and that threads leave at different times
 *   rewrite.c   pointers that advance by a uniform step become f(thread) plus a uniform delta; before fuse.c: numbers
 *               that are made wider and narrower again
 *   spin.c      which loops wait for other threads
 *   region.c    groups of blocks that become one loop over threads each; with contexts.c, guards.c
 *   gen*.c, emit*.c   LLVM
 */
#ifndef GDEV_DEVICE_CPU_PTX_WORK_H
#define GDEV_DEVICE_CPU_PTX_WORK_H

#include "device/cpu/ptx/ir.h"

static inline bool bits_get(const uint64_t *b, uint32_t i)
{
	return b[i / 64] >> (i % 64) & 1;
}

static inline void bits_set(uint64_t *b, uint32_t i)
{
	b[i / 64] |= 1ull << (i % 64);
}

struct work_reg {
	uint8_t type;   /* enum ptx_type; its width counts */
	bool is_float;  /* mostly used as a floating number: keep it as one */
	bool single;    /* one definition, which dominates every use */
	bool divergent; /* may differ between threads */
	bool scalar;    /* uniform, and computed once for the block, outside thread loops */
	bool pure;      /* may be computed anew anywhere it is live (pure function of thread
			      index, launch constants and scalars that never change) */
	bool index; /* of a kernel whose blocks are fused: ctaid.x * ntid.x + tid.x, which is below 2^31 */
	bool exchanged; /* other threads read it: always kept in memory */
	uint32_t cost;  /* of computing it anew */
	uint32_t def_count;
	uint32_t def;    /* the instruction, when def_count is 1 */
	uint32_t global; /* index among registers that live across blocks, or PTX_NONE */
	uint32_t slot;   /* offset in the saved area, or PTX_NONE */
};

struct work_block {
	uint32_t first, end; /* instructions */
	uint32_t *succ;      /* for a branch: taken first, then fall-through; duplicates removed */
	uint32_t succ_count;
	uint32_t *pred;
	uint32_t pred_count;
	uint32_t order;    /* in reverse postorder; PTX_NONE: unreachable */
	uint32_t idom;     /* in reverse postorder numbers while cfg.c works */
	uint32_t ipdom;    /* block_count stands for the virtual exit */
	uint64_t *live_in; /* over global registers */
	bool border;       /* begins with a border instruction, alone in its block if collective */
	bool exits;        /* ret or exit */
	bool collective;
	bool spins;       /* header of a loop that waits for other threads */
	uint32_t region;  /* PTX_NONE: none yet */
	uint32_t context; /* guards that it runs under; PTX_NONE: none */
};

struct loop { /* natural */
	uint32_t header, count;
	uint32_t *blocks;
	uint64_t *members;
};

struct work {
	struct arena arena;
	const struct ptx_module *module;
	const struct function *entry;
	const struct function *
		callee; /* that is compiled for one thread of the kernel `entry`; NULL: the kernel is */
	struct ptx_log *log;
	int error;
	uint32_t block[3]; /* threads */
	uint32_t threads;
	uint32_t fused; /* so many blocks along x run as one, at most; 1: each by itself */
	struct inst *insts;
	uint32_t inst_count, inst_capacity;
	struct work_reg *regs;
	uint32_t reg_count, reg_capacity;
	uint32_t carry; /* the register that has it; PTX_NONE: nothing reads or writes it */
	uint32_t *labels;
	uint32_t label_count, label_capacity;
	struct work_block *blocks;
	uint32_t block_count;
	uint32_t *rpo;
	uint32_t rpo_count;
	uint32_t global_count, *globals; /* live across blocks: index to register */
	uint32_t live_words;
	struct placement *locals;
	uint32_t local_count, local_capacity;
	uint64_t local_bytes; /* a thread, a multiple of local_align */
	uint32_t local_align; /* of its variables the greatest, or 0 */
	struct loop *loops;
	uint32_t loop_count, loop_capacity;
	bool checked; /* the code asks the runtime before it accesses memory */
	bool shared_escapes, local_escapes, param_escapes;
	bool clustered; /* the window of shared memory is that of the block's cluster */
	bool any_border, any_spin;
	struct spread *spreads; /* scatter.c; NULL: not yet */
	uint32_t spread_count;
	struct defs *defs, *all_defs; /* scatter.c: as it asks, and once they have been found */
};

/* The first error counts. */
void work_error(struct work *w, int error, uint32_t line, const char *format, ...)
	__attribute__((format(printf, 4, 5)));
/* Zeroed memory of the compilation; a tiny static block once memory is exhausted is never handed
 * out: callers stop on w->error. */
void *work_alloc(struct work *w, size_t bytes);
uint32_t work_reg(struct work *w, unsigned type);
/* A label that is nowhere yet. */
uint32_t work_label(struct work *w);
/* moved: where each instruction has gone, and the end. */
void work_move_labels(struct work *w, const uint32_t *moved);
struct inst *work_inst(struct work *w, unsigned op, uint32_t line, unsigned operands);

/* Calls `visit` for each register that the instruction reads (guard included) or writes. */
typedef void (*reg_visitor)(void *data, struct operand *o);
void inst_uses(struct inst *i, reg_visitor visit, void *data);
void inst_defs(struct inst *i, reg_visitor visit, void *data);
/* How often instructions from `first` to before `end` read, or write, the register. */
uint32_t uses_between(struct work *w, uint32_t reg, uint32_t first, uint32_t end);
uint32_t defs_between(struct work *w, uint32_t reg, uint32_t first, uint32_t end);

static inline bool inst_is_load(const struct inst *i)
{
	return i->op == OP_ld || i->op == OP_ldu;
}

static inline bool inst_writes_carry(const struct inst *i)
{
	return ptx_opcodes[i->op].flags & OPF_CARRY && inst_has(i, MOD_cc);
}

static inline bool inst_reads_carry(const struct inst *i)
{
	return i->op == OP_addc || i->op == OP_subc || i->op == OP_madc;
}

/* inline.c */
int work_build(struct work *w);
/* Where a called function's arguments and results lie in one block of memory: how many bytes that has; `at`, if not NULL,
 * becomes the place of parameter (or result) number `index`. */
uint64_t work_arguments(const struct function *f, bool result, uint32_t index, uint64_t *at);
/* enum ptx_device_call of an external function, or 0. */
unsigned work_device_call(const char *name);
/* params.c: call parameters become registers or local memory. */
int work_params(struct work *w);
/* cfg.c */
int cfg_build(struct work *w);
/* Whether every way back is that of a loop with one way in. */
bool cfg_is_reducible(const struct work *w);
int cfg_liveness(struct work *w);
/* Blocks on paths from `from` (a successor of `branch`, or PTX_NONE for all of them) to the point
 * where the sides of the branch meet, that point excluded. Fills `list` (room for all blocks) and
 * the set `members` (cleared by the caller); returns how many. */
uint32_t cfg_influence(
	const struct work *w, uint32_t branch, uint32_t from, uint32_t *list, uint64_t *members);
static inline struct inst *block_last(const struct work *w, const struct work_block *b)
{
	return &w->insts[b->end - 1];
}

/* Threads along an axis of what runs as one, at most. */
static inline uint32_t work_width(const struct work *w, unsigned axis)
{
	return axis ? w->block[axis] : w->block[0] * w->fused;
}

/* fuse.c: sets `fused`. Returns whether blocks are (then uniformity must be analysed anew). */
bool fuse_find(struct work *w);
/* uniform.c: registers marked divergent before stay so. */
int uniform_analyse(struct work *w);
bool branch_diverges(const struct work *w, const struct work_block *b);
bool operand_diverges(const struct work *w, const struct operand *o);
/* narrow.c: whether the branch compares the thread's index along an axis with a number of the block. */
bool narrow_branch(const struct work *w, uint32_t branch);
/* index.c: whether the register is a number of the block plus the thread's index along an axis, or less it. */
struct index_sum {
	unsigned axis;
	bool falls; /* less it */
};

bool index_sum(const struct work *w, uint32_t reg, struct index_sum *s);
/* scatter.c: whether vectors of neighbours are not worth it in these blocks, as their accesses would be taken apart. After the
 * passes that write instructions. pairs: what threads access at i ^ distance lies side by side (butterfly.c). */
bool scattered(struct work *w, const uint32_t *blocks, uint32_t count, bool pairs);
/* Whether some load of the blocks has neighbours at places that nothing is known of. */
bool loads_scattered(struct work *w, const uint32_t *blocks, uint32_t count);
/* Whether a load or store is, or may be, one of several that LLVM makes one access of; how many bytes further the next thread's is,
 * 0 if that is not known. */
bool scatter_step(struct work *w, const struct inst *i, int64_t *step);
/* regroup.c: whether LLVM would move accesses of these blocks over others that they depend on, if it took the threads' accesses for
 * independent. */
bool regrouped(struct work *w, const uint32_t *blocks, uint32_t count);
/* meet.c: returns whether it made one collective of several (then cfg and uniformity must be built anew). */
bool meet_rewrite(struct work *w);
/* spaces.c: returns whether it moved a load (then cfg and uniformity must be built anew). */
bool spaces_rewrite(struct work *w);
/* stride.c: returns whether it wrote a loop anew (then cfg and uniformity must be built anew). */
bool stride_rewrite(struct work *w);
/* reroll.c: returns whether it made one loop of two (then cfg and uniformity must be built anew). */
bool reroll_rewrite(struct work *w);
/* spin.c */
int spin_find(struct work *w);
/* After cfg_build() alone: whether a block may wait in a loop for what another block writes. In doubt, true. */
bool spin_awaits_blocks(struct work *w);
/* Whether every round of the loop passes the block. */
bool in_every_round(const struct work *w, const struct loop *l, uint32_t block);
/* rewrite.c: both return whether they changed anything (then cfg and uniformity must be built anew). */
bool rewrite_deltas(struct work *w);
bool rewrite_narrowed(struct work *w);

#endif
