/* SPDX-License-Identifier: MIT
 *
 * See points.h. A point is a barrier of the whole block that no divergent branch decides over (uniform.c): between such a branch
 * and where its sides meet again there is none. So all threads of the block, of which none has ended before, come to the same
 * points in the same order, and nothing of theirs is at another barrier then. What could be under way all the same makes the
 * kernel unfit: arrivals at a barrier without waiting, barriers in memory, asynchronous copies.
 *
 * Of each outermost loop one barrier is taken that every round passes; of loops inside it only if it has none.
 *
 * Addresses in shared or local memory stay what they are in a later launch of the same kernel. Generic ones of these may not:
 * what is made of one must not be needed behind a point, and not be written to memory.
 */
#include "device/preempt/points.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "device/cpu/ptx/work.h"

struct find {
	struct work *w;
	struct points *found;
	uint64_t *divided; /* blocks over which a divergent branch decides */
	uint64_t *generic; /* registers that may hold a generic address of shared or local memory */
	uint32_t *
		barrier; /* block to the number of the barrier that it begins with; PTX_NONE: it is no place to leave at */
	uint64_t steps;
	bool changed, kept; /* kept: such an address goes where nobody follows it */
};

enum { MAX_STEPS = 50000000 }; /* beyond, no more points are looked for */

uint32_t points_reg_bytes(unsigned type)
{
	uint32_t bits = ptx_type_bits[type];

	return bits > 64 ? 0 : (bits + 7) / 8;
}

bool points_name(const struct reg *reg, char name[POINTS_NAME])
{
	bool row = reg->number != PTX_NONE;

	return snprintf(name, POINTS_NAME, row ? "%s%u" : "%s", reg->name, reg->number) <
	       POINTS_NAME;
}

/* ---- what is under way ---- */

static bool is_barrier(const struct inst *i)
{
	return i->op == OP_bar || i->op == OP_barrier;
}

/* Whether it leaves something under way behind a barrier. */
static const char *unfit_inst(const struct inst *i)
{
	if (is_barrier(i) && (inst_has(i, MOD_arrive) || inst_has(i, MOD_cluster)))
		return "it has barriers at which threads arrive without waiting";
	if (i->op == OP_mbarrier || i->op == OP_async)
		return "it has barriers in memory";
	if (i->op == OP_cp || i->op == OP_wgmma)
		return "it copies or multiplies asynchronously";
	if (i->op == OP_brkpt)
		return "it has breakpoints";
	if (i->op == OP_call && i->operands[i->call_results].kind == OPERAND_FUNCTION &&
		i->operands[i->call_results].function->has_body)
		return "it calls functions that call themselves";
	return NULL;
}

/* The carry of additions is in no register of the text: it must be written in the block that reads it. */
static bool carry_crosses(const struct work *w, const struct work_block *b)
{
	bool written = false;

	for (uint32_t n = b->first; n < b->end; n++) {
		const struct inst *i = &w->insts[n];

		if (inst_reads_carry(i) && !written)
			return true;
		written |= inst_writes_carry(i);
	}
	return false;
}

static const char *unfit_insts(const struct work *w)
{
	uint32_t own = 0, all = 0;

	for (uint32_t n = 0; n < w->inst_count; n++) {
		const char *unfit = unfit_inst(&w->insts[n]);

		if (unfit)
			return unfit;
		all += is_barrier(&w->insts[n]);
	}
	for (uint32_t n = 0; n < w->entry->inst_count; n++) {
		own += is_barrier(&w->entry->insts[n]);
		if (w->entry->insts[n].op == OP_setmaxnreg) /* it is not among w->insts */
			return "it changes how many registers its threads have";
	}
	if (own != all)
		return "functions that it calls have barriers";
	for (uint32_t b = 0; b < w->block_count; b++)
		if (carry_crosses(w, &w->blocks[b]))
			return "it keeps the carry of an addition";
	return NULL;
}

/* ---- variables ---- */

/* How many variables and parameters have the name. */
static unsigned count_variables(const struct work *w, const char *name)
{
	const struct variable *lists[] = {w->module->vars, w->entry->vars};
	unsigned count = 0;

	for (unsigned k = 0; k < 2; k++)
		for (const struct variable *v = lists[k]; v; v = v->next)
			count += !strcmp(v->name, name);
	for (uint32_t k = 0; k < w->entry->param_count; k++)
		count += !strcmp(w->entry->params[k]->name, name);
	return count;
}

/* %r12 is one of a row, %r<20>, or one by itself. */
static bool is_called(const struct reg *reg, const char *name)
{
	size_t stem = strlen(reg->name);
	char number[16] = "";

	if (strncmp(reg->name, name, stem))
		return false;
	if (reg->number != PTX_NONE)
		snprintf(number, sizeof(number), "%u", reg->number);
	return !strcmp(name + stem, number);
}

static unsigned count_registers(const struct function *e, const char *name)
{
	unsigned count = 0;

	for (uint32_t r = 0; r < e->reg_count; r++)
		count += is_called(&e->regs[r], name);
	return count;
}

/* Whether the name means this variable, and no other thing, wherever it is written. */
static bool is_named(const struct work *w, const struct variable *v)
{
	return (!v->owner || v->owner == w->entry) && count_variables(w, v->name) == 1 &&
	       !count_registers(w->entry, v->name);
}

static const char *unfit_variables(const struct work *w)
{
	for (uint32_t k = 0; k < w->entry->shared_count; k++)
		if (!is_named(w, w->entry->shared[k].var))
			return "it has shared memory that has no name in it";
	for (const struct variable *v = w->entry->vars; v; v = v->next)
		if (v->space == SPACE_LOCAL && !is_named(w, v))
			return "it has local memory that has no name in it";
	for (const struct variable *v = w->module->vars; v; v = v->next)
		if (v->space == SPACE_LOCAL)
			return "its module has local memory";
	return NULL;
}

static uint32_t local_bytes(const struct work *w)
{
	uint64_t bytes = 0;

	for (const struct variable *v = w->entry->vars; v; v = v->next)
		if (v->space == SPACE_LOCAL)
			bytes += (v->size + 7) & ~7ull;
	return (uint32_t)bytes;
}

/* ---- generic addresses ---- */

static bool makes_generic(const struct inst *i)
{
	return i->op == OP_cvta && !inst_has(i, MOD_to) && inst_space(i) != SPACE_GLOBAL &&
	       inst_space(i) != SPACE_CONST;
}

struct use {
	struct find *f;
	bool address, value; /* it is used as one */
};

static void note_use(void *data, struct operand *o)
{
	struct use *u = data;

	if (!bits_get(u->f->generic, o->id))
		return;
	u->address |= o->memory;
	u->value |= !o->memory;
}

static void mark_generic(void *data, struct operand *o)
{
	struct find *f = data;

	f->changed |= !bits_get(f->generic, o->id);
	bits_set(f->generic, o->id);
}

static void follow_generic(struct find *f)
{
	struct work *w = f->w;

	do {
		f->changed = false;
		for (uint32_t n = 0; n < w->inst_count; n++) {
			struct inst *i = &w->insts[n];
			struct use u = {.f = f};

			inst_uses(i, note_use, &u);
			if (makes_generic(i) || (u.value && (ptx_opcodes[i->op].flags & OPF_PURE)))
				inst_defs(i, mark_generic, f);
			else
				f->kept |= u.value && !(ptx_opcodes[i->op].flags & OPF_TERMINATOR);
		}
	} while (f->changed);
}

/* ---- where all threads come together ---- */

static void find_divided(struct find *f)
{
	struct work *w = f->w;
	uint32_t *list = work_alloc(w, (w->block_count + 1) * sizeof(*list));
	size_t bytes = (w->block_count / 64 + 1) * 8;
	uint64_t *members = work_alloc(w, bytes);

	for (uint32_t k = 0; k < w->rpo_count && !w->error; k++) {
		if (!branch_diverges(w, &w->blocks[w->rpo[k]]))
			continue;
		memset(members, 0, bytes);
		cfg_influence(w, w->rpo[k], PTX_NONE, list, members);
		for (uint32_t b = 0; b < w->block_count / 64 + 1; b++)
			f->divided[b] |= members[b];
	}
}

/* Whether it is of all threads of the block, and of them alone. */
static bool is_whole(const struct inst *i)
{
	return inst_has(i, MOD_sync) && !inst_has(i, MOD_warp) && !i->dest_count &&
	       i->operand_count == 1 && i->operands[0].kind == OPERAND_INT;
}

/* Barriers are in the text's order in the compilation, too, where each begins a block. One with a guard stays as it is. */
static void find_barriers(struct find *f)
{
	struct work *w = f->w;
	const struct inst *text = w->entry->insts;
	uint32_t number = 0, at = 0;

	for (uint32_t b = 0; b < w->block_count; b++) {
		const struct inst *i = &w->insts[w->blocks[b].first];

		f->barrier[b] = PTX_NONE;
		if (!is_barrier(i))
			continue;
		while (!is_barrier(&text[at]))
			at++;
		if (is_whole(i) && text[at].guard == PTX_NONE && !bits_get(f->divided, b))
			f->barrier[b] = number;
		number++;
		at++;
	}
}

/* ---- registers ---- */

/* Whether the text's name for it means this one, and it can be kept. */
static bool is_keepable(struct find *f, uint32_t reg)
{
	const struct function *e = f->w->entry;
	char name[POINTS_NAME];

	if (reg >= e->reg_count || bits_get(f->generic, reg) ||
		!points_reg_bytes(e->regs[reg].type) || !points_name(&e->regs[reg], name))
		return false;
	f->steps += e->reg_count;
	return f->steps < MAX_STEPS && count_registers(e, name) == 1 &&
	       !count_variables(f->w, name);
}

/* Fills the point's list. Returns how many bytes they take, or UINT32_MAX: one cannot be kept. */
static uint32_t keep_live(struct find *f, uint32_t block, struct point *point)
{
	struct work *w = f->w;
	const uint64_t *live = w->blocks[block].live_in;
	uint32_t total = 0;

	point->regs = work_alloc(w, (w->global_count + 1) * sizeof(*point->regs));
	if (!point->regs)
		return UINT32_MAX;
	for (uint32_t g = 0; g < w->global_count; g++) {
		uint32_t reg = w->globals[g];

		if (!bits_get(live, g))
			continue;
		if (!is_keepable(f, reg))
			return UINT32_MAX;
		point->regs[point->reg_count++] = reg;
		total += points_reg_bytes(w->entry->regs[reg].type);
	}
	return total;
}

/* ---- choosing ---- */

static bool is_inside(const struct loop *inner, const struct loop *outer)
{
	return inner != outer && bits_get(outer->members, inner->header);
}

/* Whether the block is in a loop inside this one. */
static bool is_deeper(struct find *f, const struct loop *l, uint32_t block)
{
	const struct work *w = f->w;

	f->steps += w->loop_count;
	for (uint32_t k = 0; k < w->loop_count; k++)
		if (is_inside(&w->loops[k], l) && bits_get(w->loops[k].members, block))
			return true;
	return false;
}

static bool take(struct find *f, uint32_t block)
{
	struct point point = {.barrier = f->barrier[block]};
	uint32_t bytes = keep_live(f, block, &point), local = local_bytes(f->w);

	if (bytes == UINT32_MAX)
		return false;
	f->found->points[f->found->count++] = point;
	if (bytes + local > f->found->thread_bytes)
		f->found->thread_bytes = bytes + local;
	return true;
}

static bool choose(struct find *f, const struct loop *l)
{
	struct work *w = f->w;

	for (unsigned deeper = 0; deeper < 2; deeper++)
		for (uint32_t k = 0; k < l->count; k++) {
			uint32_t b = l->blocks[k];

			if (f->barrier[b] != PTX_NONE && f->steps < MAX_STEPS &&
				is_deeper(f, l, b) == deeper && in_every_round(w, l, b) &&
				take(f, b))
				return true;
		}
	return false;
}

static int by_size(const void *a, const void *b)
{
	const struct loop *const *l = a, *const *m = b;

	return (*l)->count < (*m)->count ? 1 : (*l)->count > (*m)->count ? -1 : 0;
}

static int by_place(const void *a, const void *b)
{
	const struct point *p = a, *q = b;

	return p->barrier < q->barrier ? -1 : p->barrier > q->barrier;
}

static void choose_all(struct find *f)
{
	struct work *w = f->w;
	const struct loop **loops = work_alloc(w, (w->loop_count + 1) * sizeof(*loops));
	bool *has = work_alloc(w, w->loop_count + 1);

	if (w->error)
		return;
	for (uint32_t l = 0; l < w->loop_count; l++)
		loops[l] = &w->loops[l];
	qsort(loops, w->loop_count, sizeof(*loops), by_size);
	for (uint32_t l = 0; l < w->loop_count && !w->error; l++) {
		for (uint32_t k = 0; k < l; k++)
			has[l] |= has[k] && is_inside(loops[l], loops[k]);
		has[l] = has[l] || choose(f, loops[l]);
	}
	qsort(f->found->points, f->found->count, sizeof(*f->found->points), by_place);
}

/* What threads load from one address is the same for all of them unless others write there meanwhile: between barriers of its own a
 * block does not, without being wrong; other blocks may. */
static void mark_changing(void *data, struct operand *o)
{
	struct work *w = data;

	w->regs[o->id].divergent = true;
}

static void find_changing(struct work *w)
{
	for (uint32_t n = 0; n < w->inst_count; n++) {
		struct inst *i = &w->insts[n];
		unsigned space = inst_space(i);

		if (inst_is_load(i) && !inst_has(i, MOD_nc) && space != SPACE_SHARED &&
			space != SPACE_PARAM && space != SPACE_CONST)
			inst_defs(i, mark_changing, w);
	}
}

static int prepare(struct find *f)
{
	struct work *w = f->w;

	f->divided = work_alloc(w, (w->block_count / 64 + 1) * 8);
	f->generic = work_alloc(w, (w->reg_count / 64 + 1) * 8);
	f->barrier = work_alloc(w, (w->block_count + 1) * sizeof(*f->barrier));
	f->found->points = work_alloc(w, (w->loop_count + 1) * sizeof(*f->found->points));
	/* Whatever shape a launch has, threads differ along all its axes. */
	memcpy(w->block, (uint32_t[3]){2, 2, 2}, sizeof(w->block));
	w->threads = 8;
	w->fused = 1;
	find_changing(w);
	if (!w->error && !cfg_liveness(w))
		uniform_analyse(w);
	return w->error;
}

int points_find(struct work *w, struct points *points)
{
	struct find f = {.w = w, .found = points};

	*points = (struct points){.unfit = unfit_insts(w)};
	if (!points->unfit)
		points->unfit = unfit_variables(w);
	if (points->unfit)
		return 0;
	if (prepare(&f))
		return w->error == -ENOMEM ? -ENOMEM : 0;
	follow_generic(&f);
	find_divided(&f);
	find_barriers(&f);
	if (f.kept)
		points->unfit = "it keeps addresses of shared or local memory in memory";
	else
		choose_all(&f);
	if (!points->unfit && !points->count)
		points->unfit = "it has no loop with a barrier that all threads of a block, and "
				"all its rounds, come to";
	return w->error == -ENOMEM ? -ENOMEM : 0;
}
