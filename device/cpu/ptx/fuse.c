/* SPDX-License-Identifier: MIT
 *
 * Blocks that follow each other along x, run as one: a row of threads is then as long as those of several blocks, its
 * memory accesses are one stretch, and what a loop over threads costs before its first round is paid once.
 *
 * A kernel may be run so when its threads know their place along x only by
 *
 *     ctaid.x * ntid.x + tid.x
 *
 * which is the same for thread tid.x + k * ntid.x of a block as for thread tid.x of the k-th block behind it. So nothing
 * is rewritten: %ctaid.x is that of the first of the blocks, and %tid.x goes on to the end of the last. How many there
 * are is decided when they are run (gdev_ptx_run, gen.c): what is left of the row and of the piece, `fused` at most.
 *
 * Nothing may tell that several blocks run at once on one thread, and none of them may wait for another: no shared or
 * local memory, barriers, collectives, atomics, fences, volatile or ordered accesses, or calls.
 */
#include "device/cpu/ptx/work.h"

enum { GROUP_THREADS = 4096 }; /* of the blocks that run as one, at most */

/* What a register holds that says something about x. */
enum part {
	PART_NONE,
	PART_THREAD, /* tid.x */
	PART_BLOCK,  /* ctaid.x */
	PART_FIRST,  /* ctaid.x * ntid.x */
	PART_INDEX,  /* ctaid.x * ntid.x + tid.x */
};

struct fuser {
	struct work *work;
	uint8_t *parts; /* by register */
	bool found;     /* an index */
};

static enum part part_of(const struct fuser *f, const struct operand *o)
{
	if (o->kind == OPERAND_REG)
		return f->parts[o->id];
	if (o->kind != OPERAND_SPECIAL)
		return PART_NONE;
	return o->id == SPECIAL_TID ? PART_THREAD : o->id == SPECIAL_CTAID ? PART_BLOCK : PART_NONE;
}

static bool is_width(const struct work *w, const struct operand *o)
{
	if (o->kind == OPERAND_REG && w->regs[o->id].single) {
		const struct inst *def = &w->insts[w->regs[o->id].def];

		if (def->op == OP_mov && def->operands[0].kind == OPERAND_REG &&
			def->operands[0].id == o->id)
			o = &def->operands[1];
	}
	return (o->kind == OPERAND_INT && !o->literal && o->bits == w->block[0]) ||
	       (o->kind == OPERAND_SPECIAL && o->id == SPECIAL_NTID);
}

static bool is_product(const struct fuser *f, const struct inst *i)
{
	const struct operand *a = &i->operands[1], *b = &i->operands[2];

	if (i->op == OP_shl)
		return part_of(f, a) == PART_BLOCK && b->kind == OPERAND_INT && b->bits >= 0 &&
		       b->bits < 31 && UINT32_C(1) << b->bits == f->work->block[0];
	return (part_of(f, a) == PART_BLOCK && is_width(f->work, b)) ||
	       (part_of(f, b) == PART_BLOCK && is_width(f->work, a));
}

static bool is_sum(const struct fuser *f, const struct operand *a, const struct operand *b)
{
	return (part_of(f, a) == PART_FIRST && part_of(f, b) == PART_THREAD) ||
	       (part_of(f, a) == PART_THREAD && part_of(f, b) == PART_FIRST);
}

/* What an integer instruction, of 32 bits or from 32 to 64, makes of such parts; PART_NONE: nothing that is one. */
static enum part make_part(const struct fuser *f, const struct inst *i)
{
	unsigned bits = i->type_count ? ptx_type_bits[i->types[0]] : 0;
	bool lo = i->modifier_count == 1 && inst_has(i, MOD_lo);
	bool wide = i->modifier_count == 1 && inst_has(i, MOD_wide) && bits == 32;

	if (i->type_count && ptx_type_class[i->types[0]] == 'f')
		return PART_NONE;
	switch (i->op) {
	case OP_mov:
		return bits == 32 || bits == 64 ? part_of(f, &i->operands[1]) : PART_NONE;
	case OP_cvt: /* none of them is negative */
		return i->type_count == 2 && !i->modifier_count && bits == 64 &&
				       ptx_type_bits[i->types[1]] == 32 &&
				       ptx_type_class[i->types[1]] != 'f' &&
				       part_of(f, &i->operands[1]) != PART_BLOCK
			       ? part_of(f, &i->operands[1])
			       : PART_NONE;
	case OP_shl:
		return bits == 32 && is_product(f, i) ? PART_FIRST : PART_NONE;
	case OP_mul:
		return ((lo && bits == 32) || wide) && is_product(f, i) ? PART_FIRST : PART_NONE;
	case OP_mad:
		return ((lo && bits == 32) || wide) && is_product(f, i) &&
				       part_of(f, &i->operands[3]) == PART_THREAD
			       ? PART_INDEX
			       : PART_NONE;
	case OP_add:
		return !i->modifier_count && (bits == 32 || bits == 64) &&
				       is_sum(f, &i->operands[1], &i->operands[2])
			       ? PART_INDEX
			       : PART_NONE;
	}
	return PART_NONE;
}

static bool reads_part(const struct fuser *f, const struct inst *i)
{
	for (unsigned k = i->dest_count; k < i->operand_count; k++) {
		const struct operand *o = &i->operands[k];
		enum part part = part_of(f, o);

		if (part != PART_NONE && part != PART_INDEX)
			return true;
		for (unsigned e = 0; o->kind == OPERAND_VECTOR && e < o->count; e++) {
			part = part_of(f, &o->elements[e]);
			if (part != PART_NONE && part != PART_INDEX)
				return true;
		}
	}
	return false;
}

/* Whether it is the same for the blocks of a row. */
static bool knows_no_block(const struct operand *o)
{
	return o->kind != OPERAND_SPECIAL || o->id == SPECIAL_TID || o->id == SPECIAL_CTAID ||
	       (o->id < SPECIAL_LANEID && o->id != SPECIAL_NCTAID);
}

/* The address of memory that is a block's or a thread's own. */
static bool is_own(const struct operand *o)
{
	return o->kind == OPERAND_SYMBOL &&
	       (o->var->space == SPACE_SHARED || o->var->space == SPACE_LOCAL);
}

static bool is_plain_access(const struct inst *i)
{
	unsigned space = inst_space(i);

	return (space == SPACE_GLOBAL || space == SPACE_GENERIC || space == SPACE_PARAM ||
		       space == SPACE_CONST) &&
	       !inst_has(i, MOD_volatile) && !inst_has(i, MOD_relaxed) &&
	       !inst_has(i, MOD_acquire) && !inst_has(i, MOD_release) && !inst_has(i, MOD_mmio);
}

static bool may_run_beside(const struct inst *i)
{
	unsigned flags = ptx_opcodes[i->op].flags;

	for (unsigned k = 0; k < i->operand_count; k++) {
		const struct operand *o = &i->operands[k];

		if (!knows_no_block(o) || is_own(o))
			return false;
		for (unsigned e = 0; o->kind == OPERAND_VECTOR && e < o->count; e++)
			if (!knows_no_block(&o->elements[e]) || is_own(&o->elements[e]))
				return false;
	}
	if (inst_is_load(i) || i->op == OP_st)
		return is_plain_access(i);
	if (i->op == OP_cvta)
		return inst_space(i) != SPACE_SHARED && inst_space(i) != SPACE_LOCAL;
	return i->op != OP_isspacep && (flags & (OPF_PURE | OPF_IGNORE | OPF_TERMINATOR));
}

/* Gives the instruction's result its part. Returns whether that was new. */
static bool note_part(struct fuser *f, const struct inst *i)
{
	const struct operand *d = &i->operands[0];
	enum part part;

	if (i->dest_count != 1 || d->kind != OPERAND_REG || !f->work->regs[d->id].single ||
		f->parts[d->id] != PART_NONE)
		return false;
	part = make_part(f, i);
	f->parts[d->id] = (uint8_t)part;
	f->found |= part == PART_INDEX;
	return part != PART_NONE;
}

static void find_parts(struct fuser *f)
{
	struct work *w = f->work;
	bool changed = true;

	while (changed) {
		changed = false;
		for (uint32_t k = 0; k < w->rpo_count; k++)
			for (uint32_t n = w->blocks[w->rpo[k]].first; n < w->blocks[w->rpo[k]].end;
				n++)
				changed |= note_part(f, &w->insts[n]);
	}
}

/* Whether all that is read of the parts makes the index. */
static bool is_whole(const struct fuser *f, const struct inst *i)
{
	bool makes = i->dest_count == 1 && i->operands[0].kind == OPERAND_REG &&
		     f->parts[i->operands[0].id] != PART_NONE;

	return makes || !reads_part(f, i);
}

bool fuse_find(struct work *w)
{
	struct fuser f = {.work = w};

	w->fused = 1;
	if (w->local_bytes || w->any_border)
		return false;
	f.parts = work_alloc(w, w->reg_count + 1);
	if (w->error)
		return false;
	find_parts(&f);
	for (uint32_t k = 0; k < w->rpo_count && f.found; k++)
		for (uint32_t n = w->blocks[w->rpo[k]].first; n < w->blocks[w->rpo[k]].end; n++)
			f.found &= may_run_beside(&w->insts[n]) && is_whole(&f, &w->insts[n]);
	if (!f.found)
		return false;
	w->fused = GROUP_THREADS / w->threads;
	for (uint32_t r = 0; r < w->reg_count; r++)
		w->regs[r].index = f.parts[r] == PART_INDEX;
	return true;
}
