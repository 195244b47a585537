/* SPDX-License-Identifier: MIT
 *
 * Makes values computable anew. Those carried around loops that advance by the same step in all threads, such as
 * pointers:
 *
 *     v = init; loop { … use v …; v += step }
 *
 * becomes base = init; delta = 0; loop { … use base + delta …; delta += step }. The delta is one
 * number for the whole block and the base never changes, so that nothing of v is kept per thread
 * across a barrier when init can be computed again. For the same reason a uniform value that changes
 * is copied before something that depends on the thread is computed from it.
 */
#include "device/cpu/ptx/work.h"

#include <errno.h>
#include <string.h>

struct carried {
	uint32_t init, base, delta; /* init: its instruction, PTX_NONE: not a candidate */
};

enum { MAX_STEPS = 16 };

struct steps {
	const struct operand *list[MAX_STEPS];
	unsigned count;
};

struct rewriter {
	struct work *work;
	struct carried *carried; /* by register */
	uint32_t *next_def, *first_def, *block_at;
	uint64_t *divergent_loops;
	struct steps **steps; /* by instruction: of updates */
	uint32_t inst, reg_count;
};

static void note_def(void *data, struct operand *o)
{
	struct rewriter *r = data;

	r->next_def[r->inst] = r->first_def[o->id];
	r->first_def[o->id] = r->inst;
}

static void collect_defs(struct rewriter *r)
{
	struct work *w = r->work;

	for (uint32_t k = 0; k < w->reg_count; k++)
		r->first_def[k] = PTX_NONE;
	for (uint32_t n = 0; n < w->inst_count; n++) {
		r->inst = n;
		r->next_def[n] = PTX_NONE;
		/* Several results share one link: such registers are refused below. */
		if (w->insts[n].dest_count && w->insts[n].operands[0].kind == OPERAND_REG)
			inst_defs(&w->insts[n], note_def, r);
	}
	for (uint32_t k = 0; k < w->rpo_count; k++)
		for (uint32_t n = w->blocks[w->rpo[k]].first; n < w->blocks[w->rpo[k]].end; n++)
			r->block_at[n] = w->rpo[k];
}

static void find_divergent_loops(struct rewriter *r)
{
	struct work *w = r->work;

	for (uint32_t k = 0; k < w->rpo_count; k++) {
		if (!branch_diverges(w, &w->blocks[w->rpo[k]]))
			continue;
		for (uint32_t l = 0; l < w->loop_count; l++) {
			const struct loop *loop = &w->loops[l];
			bool leaves = false;
			const struct work_block *b = &w->blocks[w->rpo[k]];

			if (!bits_get(loop->members, w->rpo[k]))
				continue;
			leaves = b->ipdom >= w->block_count || !bits_get(loop->members, b->ipdom);
			for (uint32_t m = 0; leaves && m < loop->count; m++)
				bits_set(r->divergent_loops, loop->blocks[m]);
		}
	}
}

static bool plain_add(const struct inst *i)
{
	return i->op == OP_add && i->type_count == 1 && !i->modifier_count &&
	       ptx_type_class[i->types[0]] != 'f' && ptx_type_bits[i->types[0]] >= 32 &&
	       ptx_type_class[i->types[0]] != 'v';
}

/* For `add x, w, step` with a step that is the same for all threads: the step, and w in `from`. */
static const struct operand *step_of(const struct work *w, const struct inst *i, uint32_t *from)
{
	const struct operand *a = &i->operands[1], *b = &i->operands[2];

	if (!plain_add(i))
		return NULL;
	if (a->kind != OPERAND_REG || !w->regs[a->id].divergent) {
		const struct operand *t = a;

		a = b;
		b = t;
	}
	if (a->kind != OPERAND_REG || !w->regs[a->id].divergent)
		return NULL;
	*from = a->id;
	if (b->kind == OPERAND_INT && !b->literal)
		return b;
	return b->kind == OPERAND_REG && !w->regs[b->id].divergent ? b : NULL;
}

/* The steps of `v += step`, or of `w1 = v + step1; w2 = w1 + step2; …; v = wn` within one block. */
static bool find_steps(struct rewriter *r, uint32_t n, uint32_t v, struct steps *steps)
{
	const struct work *w = r->work;
	uint32_t at = n, from;

	steps->count = 0;
	while (steps->count < MAX_STEPS) {
		const struct inst *i = &w->insts[at];
		bool move = i->op == OP_mov && i->operands[1].kind == OPERAND_REG && at == n;
		const struct operand *step = move ? NULL : step_of(w, i, &from);

		if (move)
			from = i->operands[1].id;
		else if (!step || ptx_type_bits[i->types[0]] != ptx_type_bits[w->regs[v].type])
			return false;
		/* Only the last step is added at once; the others must not change until then. */
		if (step && at != n && step->kind == OPERAND_REG && !w->regs[step->id].single)
			return false;
		if (step)
			steps->list[steps->count++] = step;
		if (from == v)
			return steps->count > 0;
		uint32_t def = w->regs[from].def;
		if (!w->regs[from].single || r->block_at[def] != r->block_at[n] || def >= at)
			return false;
		at = def;
	}
	return false;
}

static void consider(struct rewriter *r, uint32_t v)
{
	struct work *w = r->work;
	struct work_reg *reg = &w->regs[v];
	uint32_t init = PTX_NONE, updates = 0;

	if (!reg->divergent || reg->def_count < 2 || reg->def_count > 16 ||
		ptx_type_bits[reg->type] < 32 || ptx_type_bits[reg->type] > 64 || reg->exchanged ||
		reg->global == PTX_NONE || bits_get(w->blocks[0].live_in, reg->global))
		return;
	uint32_t count = 0;
	for (uint32_t n = r->first_def[v]; n != PTX_NONE; n = r->next_def[n]) {
		count++;
		if (r->block_at[n] == PTX_NONE)
			return;
		struct steps found;

		if (find_steps(r, n, v, &found)) {
			r->steps[n] = work_alloc(w, sizeof(found));
			if (!r->steps[n])
				return;
			*r->steps[n] = found;
			if (bits_get(r->divergent_loops, r->block_at[n]))
				return;
			updates++;
		} else if (init == PTX_NONE) {
			init = n;
		} else {
			return;
		}
	}
	if (!updates || init == PTX_NONE || count != reg->def_count)
		return;
	r->carried[v] = (struct carried){init, work_reg(w, w->regs[v].type), 0};
	r->carried[v].delta = work_reg(w, w->regs[v].type);
}

/* ---- writing the new list ---- */

static struct inst *add_inst(
	struct work *w, uint32_t line, uint32_t d, struct operand a, struct operand b)
{
	struct inst *i = work_inst(w, OP_add, line, 3);

	if (!i)
		return NULL;
	i->types[i->type_count++] = ptx_type_bits[w->regs[d].type] == 64 ? TYPE_u64 : TYPE_u32;
	i->operands[0] = (struct operand){.kind = OPERAND_REG, .id = d};
	i->operands[1] = a;
	i->operands[2] = b;
	return i;
}

static void replace_use(void *data, struct operand *o)
{
	struct rewriter *r = data;
	struct work *w = r->work;
	struct carried *c = o->id < r->reg_count ? &r->carried[o->id] : NULL;

	if (!c || c->init == PTX_NONE || w->error)
		return;
	uint32_t sum = work_reg(w, w->regs[c->base].type);
	add_inst(w, r->inst, sum, (struct operand){.kind = OPERAND_REG, .id = c->base},
		(struct operand){.kind = OPERAND_REG, .id = c->delta});
	o->id = sum;
}

static bool wants_snapshot(const struct work *w, const struct operand *o)
{
	return o->kind == OPERAND_REG && !w->regs[o->id].divergent && !w->regs[o->id].single &&
	       w->regs[o->id].def_count > 1;
}

static bool is_recomputable(const struct work *w, const struct inst *i)
{
	return (ptx_opcodes[i->op].flags & OPF_CHEAP) && i->dest_count == 1 &&
	       !inst_has(i, MOD_cc) && i->operands[0].kind == OPERAND_REG &&
	       w->regs[i->operands[0].id].divergent && w->regs[i->operands[0].id].single;
}

/* A uniform operand that changes later is copied, so that the result can be computed again. */
static void snapshot(struct work *w, struct inst *i)
{
	for (unsigned k = i->dest_count; k < i->operand_count && !w->error; k++) {
		struct operand *o = &i->operands[k];

		if (!wants_snapshot(w, o))
			continue;
		uint32_t copy = work_reg(w, w->regs[o->id].type);
		struct inst *m = work_inst(w, OP_mov, i->line, 2);
		if (!m)
			return;
		m->types[m->type_count++] = w->regs[copy].type;
		m->operands[0] = (struct operand){.kind = OPERAND_REG, .id = copy};
		m->operands[1] = (struct operand){.kind = OPERAND_REG, .id = o->id};
		o->id = copy;
	}
}

static void copy_rewritten(struct rewriter *r, struct inst *i, uint32_t n)
{
	struct work *w = r->work;
	const struct operand *d = &i->operands[0];
	struct carried *c = NULL;
	struct inst *copy;

	if (i->dest_count == 1 && d->kind == OPERAND_REG && r->carried[d->id].init != PTX_NONE)
		c = &r->carried[d->id];
	if (c && c->init != n) {
		for (unsigned k = 0; k < r->steps[n]->count; k++)
			add_inst(w, i->line, c->delta,
				(struct operand){.kind = OPERAND_REG, .id = c->delta},
				*r->steps[n]->list[k]);
		return;
	}
	r->inst = i->line;
	if (is_recomputable(w, i) || c)
		snapshot(w, i);
	inst_uses(i, replace_use, r);
	copy = work_inst(w, i->op, i->line, 0);
	if (!copy)
		return;
	*copy = *i;
	if (!c)
		return;
	copy->operands[0].id = c->base;
	struct inst *zero = work_inst(w, OP_mov, i->line, 2);
	if (!zero)
		return;
	zero->types[zero->type_count++] =
		ptx_type_bits[w->regs[c->delta].type] == 64 ? TYPE_u64 : TYPE_u32;
	zero->operands[0] = (struct operand){.kind = OPERAND_REG, .id = c->delta};
	zero->operands[1] = (struct operand){.kind = OPERAND_INT};
}

static void rewrite(struct rewriter *r)
{
	struct work *w = r->work;
	struct inst *old = w->insts;
	uint32_t count = w->inst_count;
	uint32_t *moved = work_alloc(w, (count + 1) * sizeof(*moved));

	w->insts = NULL;
	w->inst_count = w->inst_capacity = 0;
	for (uint32_t n = 0; n < count && !w->error; n++) {
		moved[n] = w->inst_count;
		copy_rewritten(r, &old[n], n);
	}
	if (w->error)
		return;
	moved[count] = w->inst_count;
	work_move_labels(w, moved);
}

bool rewrite_deltas(struct work *w)
{
	uint32_t regs = w->reg_count, found = 0;
	struct rewriter r = {.work = w, .reg_count = regs};

	r.carried = work_alloc(w, (size_t)regs * sizeof(*r.carried) + 16);
	r.first_def = work_alloc(w, (regs + 1) * sizeof(uint32_t));
	r.next_def = work_alloc(w, (w->inst_count + 1) * sizeof(uint32_t));
	r.block_at = work_alloc(w, (w->inst_count + 1) * sizeof(uint32_t));
	r.steps = work_alloc(w, (w->inst_count + 1) * sizeof(*r.steps));
	r.divergent_loops = work_alloc(w, (w->block_count / 64 + 1) * 8);
	if (w->error)
		return false;
	for (uint32_t n = 0; n < w->inst_count; n++)
		r.block_at[n] = PTX_NONE;
	for (uint32_t k = 0; k < regs; k++)
		r.carried[k].init = PTX_NONE;
	collect_defs(&r);
	find_divergent_loops(&r);
	for (uint32_t v = 0; v < regs && !w->error; v++) {
		consider(&r, v);
		found += r.carried[v].init != PTX_NONE;
	}
	for (uint32_t n = 0; n < w->inst_count && !w->error; n++)
		for (unsigned k = 1; k < w->insts[n].operand_count; k++)
			found += is_recomputable(w, &w->insts[n]) &&
				 wants_snapshot(w, &w->insts[n].operands[k]);
	if (!found || w->error)
		return false;
	rewrite(&r);
	return true;
}

/* The conversion between whole numbers of so many bits that made a register. */
static const struct inst *conversion(
	const struct work *w, const struct operand *o, unsigned to, unsigned from)
{
	const struct inst *i;

	if (o->kind != OPERAND_REG || o->negated || !w->regs[o->id].single)
		return NULL;
	i = &w->insts[w->regs[o->id].def];
	if (i->op != OP_cvt || i->modifier_count || i->type_count != 2)
		return NULL;
	for (unsigned k = 0; k < 2; k++)
		if (ptx_type_bits[i->types[k]] != (k ? from : to) ||
			!strchr("us", ptx_type_class[i->types[k]]))
			return NULL;
	return i;
}

/* A number that was made wider and then as narrow as before is itself. Compilers write such pairs for indices, which other passes
 * then know as such. */
bool rewrite_narrowed(struct work *w)
{
	bool found = false;

	for (uint32_t r = 0; r < w->reg_count; r++) {
		const struct operand self = {.kind = OPERAND_REG, .id = r};
		const struct inst *narrow = conversion(w, &self, 32, 64);
		const struct inst *wide =
			narrow ? conversion(w, &narrow->operands[1], 64, 32) : NULL;
		const struct operand *o = wide ? &wide->operands[1] : NULL;

		if (!o || o->kind != OPERAND_REG || o->negated || !w->regs[o->id].single ||
			ptx_type_bits[w->regs[o->id].type] != 32 ||
			ptx_type_bits[w->regs[r].type] != 32)
			continue;
		struct inst *i = &w->insts[w->regs[r].def];

		i->op = OP_mov;
		i->type_count = 1;
		i->types[0] = TYPE_u32;
		i->operands[1] = *o;
		found = true;
	}
	return found;
}
