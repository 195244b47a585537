/* SPDX-License-Identifier: MIT
 *
 * Regions as loops over threads, and the code between them: see region.h for the plan.
 */
#include "device/cpu/ptx/gen.h"

#include <errno.h>
#include <string.h>

enum {
	SHORT_ROW = 256, /* threads along x */
	FEW_INSTRUCTIONS = 24,
};

LLVMBasicBlockRef gen_block(struct gen *g, const char *name)
{
	return LLVMAppendBasicBlockInContext(g->context, g->function, name);
}

struct gen_if gen_begin_if(struct gen *g, LLVMValueRef condition, const char *name)
{
	struct gen_if begun = {.from = LLVMGetInsertBlock(g->b)};
	LLVMBasicBlockRef inside = gen_block(g, name);

	begun.after = gen_block(g, "after");
	LLVMBuildCondBr(g->b, condition, inside, begun.after);
	LLVMPositionBuilderAtEnd(g->b, inside);
	return begun;
}

LLVMValueRef gen_end_if(
	struct gen *g, const struct gen_if *begun, LLVMValueRef value, LLVMValueRef otherwise)
{
	LLVMBasicBlockRef from[] = {LLVMGetInsertBlock(g->b), begun->from};
	LLVMValueRef values[] = {value, otherwise}, either;

	LLVMBuildBr(g->b, begun->after);
	LLVMPositionBuilderAtEnd(g->b, begun->after);
	if (!value)
		return NULL;
	either = LLVMBuildPhi(g->b, LLVMTypeOf(value), "");
	LLVMAddIncoming(either, values, from, 2);
	return either;
}

LLVMValueRef thread_count(struct gen *g, unsigned axis)
{
	return !axis && g->row ? g->row : LLVMConstInt(g->i32, g->work->block[axis], false);
}

/* ---- loops over threads: z and y outside, x inside, trips constant unless narrowed ---- */

void loop_begin(struct gen *g, struct thread_loop *l, LLVMBuilderRef from)
{
	LLVMBuilderRef b = g->body;
	const uint32_t n[3] = {
		work_width(g->work, 0), work_width(g->work, 1), work_width(g->work, 2)};

	LLVMBasicBlockRef previous = LLVMGetInsertBlock(from);
	l->after = NULL;
	for (int k = 2; k >= 0; k--) {
		l->looped[k] = n[k] > 1;
		l->index[k] = LLVMConstNull(g->i32);
		if (!l->looped[k])
			continue;
		l->header[k] = gen_block(g, "threads");
		l->latch[k] = gen_block(g, "next");
		LLVMPositionBuilderAtEnd(b, previous);
		LLVMBuildBr(b, l->header[k]);
		LLVMPositionBuilderAtEnd(b, l->header[k]);
		l->index[k] = LLVMBuildPhi(b, g->i32, "tid");
		LLVMValueRef first = l->range.from[k] ? l->range.from[k] : LLVMConstNull(g->i32);
		LLVMAddIncoming(l->index[k], &first, &previous, 1);
		previous = l->header[k];
	}
	LLVMPositionBuilderAtEnd(b, previous);
	LLVMValueRef t = l->index[2];
	for (int k = 1; k >= 0; k--) {
		t = LLVMBuildNUWMul(b, t, LLVMConstInt(g->i32, n[k], false), "");
		t = LLVMBuildNUWAdd(b, t, l->index[k], "");
	}
	memcpy(g->tid, l->index, sizeof(g->tid));
	g->linear = t;
	g->b = b;
	g->in_body = true;
	/* The caller's code goes to blocks after this one; `next` of the innermost loop ends it. */
	for (int k = 0; k < 3 && !l->after; k++)
		if (l->looped[k])
			l->after = l->latch[k];
	if (!l->after)
		l->after = gen_block(g, "next");
}

/* Whether a round is so little that going from one to the next counts. */
static bool little(const struct gen *g, const struct region *r)
{
	const struct work_block *b = &g->work->blocks[r->entry];

	return r->block_count == 1 && b->end - b->first <= FEW_INSTRUCTIONS;
}

/* Of the innermost loop over threads. Short ones with guards, as at the edges of a tile or in the steps of a scan, are worth
 * unrolling if they are small: where the index is a constant, guards are, and what a region has stored in shared memory the next
 * one finds in registers. */
static unsigned row_hints(const struct gen *g)
{
	const struct region *r = &g->plan->regions[g->region];
	bool guards = r->block_count > 1;

	if (!g->parallel)
		return g->tally ? LOOP_FOUR : 0;
	if (scattered(g->work, r->blocks, r->block_count, false))
		return LOOP_PARALLEL | LOOP_SCALAR | (little(g, r) ? LOOP_FOUR : 0);
	return LOOP_PARALLEL | (guards && work_width(g->work, 0) <= SHORT_ROW ? LOOP_SHORT : 0);
}

/* Ends the loop whose body branched to l->after; `to` continues behind it. */
void loop_end(struct gen *g, struct thread_loop *l, LLVMBuilderRef to)
{
	LLVMBuilderRef b = g->body;
	LLVMBasicBlockRef after = gen_block(g, "after"), at = l->after;
	bool innermost = true;

	for (int k = 0; k < 3; k++) {
		if (!l->looped[k])
			continue;
		if (at != l->latch[k]) {
			LLVMPositionBuilderAtEnd(b, at);
			LLVMBuildBr(b, l->latch[k]);
		}
		LLVMPositionBuilderAtEnd(b, l->latch[k]);
		uint32_t step = k == 0 && l->width > 1 ? l->width : 1;
		LLVMValueRef next =
			LLVMBuildNUWAdd(b, l->index[k], LLVMConstInt(g->i32, step, false), "");
		LLVMValueRef end = l->range.to[k] ? l->range.to[k] : thread_count(g, (unsigned)k);
		LLVMValueRef more = LLVMBuildICmp(b, LLVMIntNE, next, end, "");
		LLVMBasicBlockRef out = gen_block(g, "row");
		LLVMAddIncoming(l->index[k], &next, &l->latch[k], 1);
		loop_metadata(g, LLVMBuildCondBr(b, more, l->header[k], out),
			innermost && l->width <= 1 ? row_hints(g) : 0, 0);
		innermost = false;
		at = out;
	}
	LLVMPositionBuilderAtEnd(b, at);
	LLVMBuildBr(b, after);
	LLVMPositionBuilderAtEnd(to, after);
	g->b = to;
	g->in_body = false;
}

/* ---- saved values ---- */

static uint32_t slot_bytes(const struct gen *g, uint32_t reg)
{
	unsigned bits = ptx_type_bits[g->work->regs[reg].type];

	return bits < 8 ? 1 : bits / 8;
}

LLVMValueRef slot_pointer(struct gen *g, uint32_t reg, LLVMValueRef thread)
{
	struct work_reg *r = &g->work->regs[reg];
	uint32_t bytes = slot_bytes(g, reg);

	if (r->slot == PTX_NONE)
		r->slot = gen_saved(g, bytes);
	LLVMValueRef t = LLVMBuildZExt(g->b, thread, g->i64, "");
	t = LLVMBuildNUWMul(g->b, t, gen_int(g, bytes), "");
	t = LLVMBuildNUWAdd(g->b, t, gen_int(g, r->slot), "");
	return gen_gep(g, g->b, g->saved, t);
}

LLVMTypeRef slot_type(struct gen *g, uint32_t reg)
{
	return g->work->regs[reg].type == TYPE_pred ? g->i8 : reg_type(g, reg);
}

static void load_slot(struct gen *g, uint32_t reg)
{
	LLVMValueRef v =
		LLVMBuildLoad2(g->b, slot_type(g, reg), slot_pointer(g, reg, g->linear), "");

	gen_mark(g, v);
	LLVMBuildStore(g->b, emit_coerce(g, v, reg_type(g, reg)), reg_storage(g, reg));
}

static void store_slot(struct gen *g, uint32_t reg)
{
	LLVMValueRef v = emit_coerce(g, reg_read(g, reg), slot_type(g, reg));

	gen_mark(g, LLVMBuildStore(g->b, v, slot_pointer(g, reg, g->linear)));
}

/* A fresh computation of a pure register and of the pure registers it is made of. */
void rematerialise(struct gen *g, uint32_t reg, uint64_t *done)
{
	struct work *w = g->work;
	const struct work_reg *r = &w->regs[reg];
	struct inst *i = &w->insts[r->def];

	if (bits_get(done, reg))
		return;
	bits_set(done, reg);
	if (i->op == OP_bra) { /* a guard: what its branch tested */
		uint32_t p = i->guard;

		if (!w->regs[p].scalar)
			rematerialise(g, p, done);
		reg_write(g, reg, reg_read(g, p));
		return;
	}
	for (unsigned k = i->dest_count; k < i->operand_count; k++)
		if (i->operands[k].kind == OPERAND_REG && !w->regs[i->operands[k].id].scalar)
			rematerialise(g, i->operands[k].id, done);
	emit_inst(g, i);
}

static void note_used(void *data, struct operand *o)
{
	struct gen *g = data;

	bits_set(g->used, o->id);
}

static void find_used(struct gen *g, const struct region *r)
{
	struct work *w = g->work;

	memset(g->used, 0, (w->reg_count / 64 + 1) * 8);
	for (uint32_t k = 0; k < r->block_count; k++) {
		const struct work_block *b = &w->blocks[r->blocks[k]];

		for (uint32_t n = b->first; n < b->end; n++) {
			inst_uses(&w->insts[n], note_used, g);
			inst_defs(&w->insts[n], note_used, g);
		}
		for (uint32_t s = 0; s < b->succ_count; s++)
			if (bits_get(g->plan->entries, b->succ[s]))
				gate_uses(g, &g->plan->regions[w->blocks[b->succ[s]].region]);
	}
}

void load_live(struct gen *g, const struct region *r, uint64_t *done)
{
	struct work *w = g->work;
	const uint64_t *live = w->blocks[r->entry].live_in;

	for (uint32_t k = 0; k < w->global_count; k++) {
		uint32_t reg = w->globals[k];

		if (!bits_get(live, k) || w->regs[reg].scalar || !bits_get(g->used, reg))
			continue;
		if (w->regs[reg].pure)
			rematerialise(g, reg, done);
		else
			load_slot(g, reg);
	}
}

void store_live(struct gen *g, const struct region *r, const uint64_t *live)
{
	struct work *w = g->work;

	for (uint32_t k = 0; k < w->global_count; k++) {
		uint32_t reg = w->globals[k];

		if (bits_get(live, k) && bits_get(r->written, k) && !w->regs[reg].scalar &&
			!w->regs[reg].pure)
			store_slot(g, reg);
	}
}

/* ---- which threads run a region ---- */

static uint32_t guard_index(const struct gen *g, uint32_t branch)
{
	return (uint32_t)(plan_guard(g->plan, branch) - g->plan->guards);
}

static LLVMValueRef guard_value(struct gen *g, const struct context *c, uint64_t *done)
{
	const struct guard *guard = plan_guard(g->plan, c->branch);
	const struct inst *last = block_last(g->work, &g->work->blocks[c->branch]);
	LLVMValueRef p;

	if (g->work->regs[guard->reg].pure)
		rematerialise(g, guard->reg, done);
	else if (!bits_get(done, guard->reg)) {
		bits_set(done, guard->reg);
		load_slot(g, guard->reg);
	}
	p = reg_read(g, guard->reg);
	/* Side 0 is the taken one. */
	return (c->side == 0) != last->guard_negated ? p : LLVMBuildNot(g->b, p, "");
}

/* Whether no thread took the other side: LLVM makes an unmasked version of the loop for that. */
static LLVMValueRef all_passed(struct gen *g, const struct context *c)
{
	LLVMValueRef other;

	if (monotone_branch(g, c->branch))
		return LLVMBuildNot(g->scalar, monotone_any(g, c->branch, 1 - c->side), "");
	other = LLVMBuildLoad2(
		g->scalar, g->i8, g->any[2 * guard_index(g, c->branch) + 1 - c->side], "");

	return LLVMBuildICmp(g->scalar, LLVMIntEQ, other, LLVMConstNull(g->i8), "");
}

/* Starts the part of a loop's body that only the region's threads run. */
void enter_active(struct gen *g, const struct region *r, struct thread_loop *l, uint64_t *done)
{
	LLVMValueRef active = NULL, all = NULL;
	uint32_t c = g->work->blocks[r->entry].context;

	if (g->plan->scheduled) {
		LLVMValueRef pc = LLVMBuildLoad2(g->b, g->i32, thread_word(g, g->pc_slot), "");

		gen_mark(g, pc);
		active = LLVMBuildICmp(
			g->b, LLVMIntEQ, pc, LLVMConstInt(g->i32, r->code, false), "");
	}
	for (; c != PTX_NONE && !narrow_context(g, c); c = g->plan->contexts[c].parent) {
		LLVMValueRef v = guard_value(g, &g->plan->contexts[c], done);
		LLVMValueRef a = all_passed(g, &g->plan->contexts[c]);

		if (plan_guard(g->plan, g->plan->contexts[c].branch)->passed)
			v = LLVMBuildOr(g->b, a, v, ""); /* which nobody may have computed */
		active = active ? LLVMBuildAnd(g->b, active, v, "") : v;
		all = all ? LLVMBuildAnd(g->scalar, all, a, "") : a;
	}
	if (all)
		active = LLVMBuildOr(g->b, all, active, "");
	if (!active)
		return;
	LLVMBasicBlockRef inside = gen_block(g, "active");
	LLVMBuildCondBr(g->b, active, inside, l->after);
	LLVMPositionBuilderAtEnd(g->b, inside);
}

/* A loop over the region's threads around `emit`: the first half of a collective. */
void gen_over_threads(struct gen *g, struct inst *i, thread_code emit, bool parallel)
{
	struct region *r = &g->plan->regions[g->region];
	uint64_t *done = work_alloc(g->work, (g->work->reg_count / 64 + 1) * 8);
	struct thread_loop l = {0};
	bool old = g->parallel;

	if (!done)
		return;
	g->parallel = parallel;
	LLVMBasicBlockRef before = gen_block(g, "collect");
	LLVMPositionBuilderAtEnd(g->body, before);
	narrow_range(g, g->work->blocks[r->entry].context, &l.range);
	loop_begin(g, &l, g->body);
	enter_active(g, r, &l, done);
	load_live(g, r, done);
	emit(g, i);
	LLVMBuildBr(g->b, l.after);
	LLVMBuildBr(g->scalar, before);
	loop_end(g, &l, g->scalar);
	g->parallel = old;
}

/* ---- where control goes ---- */

static LLVMBasicBlockRef side_block(struct gen *g, uint32_t branch, uint32_t side);

/* From a context to a block: past the end of a guarded side comes the next side. */
static LLVMBasicBlockRef resolve(struct gen *g, uint32_t context, uint32_t block)
{
	while (context != PTX_NONE) {
		const struct context *c = &g->plan->contexts[context];

		if (g->work->blocks[c->branch].ipdom != block)
			break;
		LLVMBasicBlockRef next = side_block(g, c->branch, c->side + 1);
		if (next)
			return next;
		context = c->parent;
	}
	if (block >= g->work->block_count)
		return g->done;
	return g->pre[g->work->blocks[block].region];
}

static LLVMValueRef any_taken(struct gen *g, LLVMBuilderRef builder, uint32_t branch, uint32_t side)
{
	LLVMBuilderRef b = g->b, scalar = g->scalar;
	LLVMValueRef any;

	if (narrow_side(g, branch, side) || monotone_branch(g, branch)) {
		g->b = g->scalar = builder;
		any = narrow_side(g, branch, side) ? narrow_any(g, branch, side)
						   : monotone_any(g, branch, side);
		g->b = b;
		g->scalar = scalar;
		return any;
	}
	any = LLVMBuildLoad2(builder, g->i8, g->any[2 * guard_index(g, branch) + side], "");
	return LLVMBuildICmp(builder, LLVMIntNE, any, LLVMConstNull(g->i8), "");
}

/* Tests whether any thread took the side, and runs it; NULL when no further side has code. */
static LLVMBasicBlockRef side_block(struct gen *g, uint32_t branch, uint32_t side)
{
	const struct work_block *b = &g->work->blocks[branch];
	uint32_t index = guard_index(g, branch);

	while (side < b->succ_count && b->succ[side] == b->ipdom)
		side++;
	if (side >= b->succ_count)
		return NULL;
	if (g->sides[2 * index + side])
		return g->sides[2 * index + side];
	LLVMBasicBlockRef at = gen_block(g, "side");
	LLVMBuilderRef builder = LLVMCreateBuilderInContext(g->context);
	g->sides[2 * index + side] = at;
	LLVMBasicBlockRef next = side_block(g, branch, side + 1);
	if (!next)
		next = resolve(g, b->context, b->ipdom);
	LLVMPositionBuilderAtEnd(builder, at);
	LLVMBuildCondBr(builder, any_taken(g, builder, branch, side),
		g->pre[g->work->blocks[b->succ[side]].region], next);
	LLVMDisposeBuilder(builder);
	return at;
}

static void leave_scalar_branch(struct gen *g, const struct region *r)
{
	struct work *w = g->work;
	const struct work_block *b = &w->blocks[r->branch];
	struct inst *last = block_last(w, b);

	if (last->op == OP_brx) {
		LLVMValueRef index = emit_operand(g, &last->operands[0], g->i32);
		LLVMValueRef s = LLVMBuildSwitch(
			g->b, index, g->pre[w->blocks[b->succ[0]].region], last->target_count);

		for (uint32_t k = 0; k < last->target_count; k++)
			LLVMAddCase(s, LLVMConstInt(g->i32, k, false),
				resolve(g, b->context, target_block(w, last, k)));
		return;
	}
	LLVMValueRef p = reg_read(g, last->guard);
	LLVMBasicBlockRef taken = resolve(g, b->context, b->succ[0]);
	LLVMBasicBlockRef other = resolve(g, b->context, b->succ[1]);
	LLVMBuildCondBr(
		g->b, p, last->guard_negated ? other : taken, last->guard_negated ? taken : other);
}

/* After the loop of a structured region; the scalar builder stands behind it. */
static void leave_region(struct gen *g, const struct region *r)
{
	struct work *w = g->work;

	if (r->dead_end) {
		LLVMBuildUnreachable(g->b);
	} else if (r->branch == PTX_NONE) {
		LLVMBuildBr(g->b, resolve(g, w->blocks[r->entry].context, r->next));
	} else if (plan_guard(g->plan, r->branch)) {
		LLVMBuildBr(g->b, side_block(g, r->branch, 0));
	} else {
		leave_scalar_branch(g, r);
	}
}

/* ---- the blocks of a region ---- */

uint32_t target_block(const struct work *w, const struct inst *brx, uint32_t k)
{
	uint32_t at = w->labels[brx->targets[k].id], low = 0, high = w->block_count;

	while (high - low > 1) {
		uint32_t middle = (low + high) / 2;

		if (w->blocks[middle].first <= at)
			low = middle;
		else
			high = middle;
	}
	return low;
}

/* Structured: everything that leaves the region meets in one block. Scheduled: a block per target,
 * which notes where the thread goes on. */
static LLVMBasicBlockRef leave_to(
	struct gen *g, const struct region *r, uint32_t to, struct thread_loop *l)
{
	if (!g->plan->scheduled)
		return g->leave;
	LLVMBasicBlockRef at = gen_block(g, "leave"), old = LLVMGetInsertBlock(g->b);

	LLVMPositionBuilderAtEnd(g->b, at);
	if (to < g->work->block_count) {
		store_live(g, r, g->work->blocks[to].live_in);
		gate_arrive(g, &g->plan->regions[g->work->blocks[to].region]);
	} else {
		gen_mark(g, LLVMBuildStore(g->b, LLVMConstInt(g->i32, GATE_LEFT, false),
				    thread_word(g, g->pc_slot)));
	}
	LLVMBuildBr(g->b, l->after);
	LLVMPositionBuilderAtEnd(g->b, old);
	return at;
}

static LLVMBasicBlockRef edge(
	struct gen *g, const struct region *r, uint32_t to, struct thread_loop *l)
{
	if (to >= g->work->block_count || bits_get(g->plan->entries, to))
		return leave_to(g, r, to, l);
	return g->lanes ? lanes_edge(g, g->lanes, to) : g->blocks[to];
}

static void note_side(struct gen *g, uint32_t index, uint32_t side, LLVMValueRef p)
{
	LLVMValueRef any = LLVMBuildLoad2(g->b, g->i8, g->any[2 * index + side], "");

	p = LLVMBuildZExt(g->b, p, g->i8, "");
	LLVMBuildStore(g->b, LLVMBuildOr(g->b, any, p, ""), g->any[2 * index + side]);
}

/* The end of a split branch inside the loop: guards are kept and counted. */
static void end_split(struct gen *g, const struct inst *last, uint32_t block)
{
	struct guard *guard = plan_guard(g->plan, block);

	if (guard)
		reg_write(g, guard->reg, reg_read(g, last->guard));
	if (guard && !monotone_branch(g, block) &&
		!(narrow_side(g, block, 0) && narrow_side(g, block, 1))) {
		LLVMValueRef p = reg_read(g, last->guard), q = LLVMBuildNot(g->b, p, "");

		note_side(g, guard_index(g, block), 0, last->guard_negated ? q : p);
		note_side(g, guard_index(g, block), 1, last->guard_negated ? p : q);
	}
	LLVMBuildBr(g->b, g->leave);
}

static void end_block(struct gen *g, const struct region *r, uint32_t block, struct thread_loop *l)
{
	struct work *w = g->work;
	const struct work_block *b = &w->blocks[block];
	struct inst *last = block_last(w, b);

	if (LLVMGetBasicBlockTerminator(LLVMGetInsertBlock(g->b)))
		return; /* a trap */
	if (bits_get(g->plan->split, block)) {
		end_split(g, last, block);
	} else if (b->exits) {
		LLVMBuildBr(g->b, edge(g, r, w->block_count, l));
	} else if (b->succ_count == 1) {
		LLVMValueRef branch = LLVMBuildBr(g->b, edge(g, r, b->succ[0], l));

		if (!g->lanes && leaves_apart(g, block))
			loop_metadata(g, branch, LOOP_APART, 0);
	} else if (last->op == OP_brx && b->succ_count) {
		LLVMValueRef index = emit_operand(g, &last->operands[0], g->i32);
		LLVMValueRef s =
			LLVMBuildSwitch(g->b, index, edge(g, r, b->succ[0], l), last->target_count);

		for (uint32_t k = 0; k < last->target_count; k++)
			LLVMAddCase(s, LLVMConstInt(g->i32, k, false),
				edge(g, r, target_block(w, last, k), l));
	} else if (b->succ_count == 2) {
		LLVMValueRef p = reg_read(g, last->guard);
		LLVMBasicBlockRef taken = edge(g, r, b->succ[0], l);
		LLVMBasicBlockRef other = edge(g, r, b->succ[1], l);

		LLVMValueRef branch = LLVMBuildCondBr(g->b, p, last->guard_negated ? other : taken,
			last->guard_negated ? taken : other);
		if (!g->lanes && leaves_apart(g, block))
			loop_metadata(g, branch, LOOP_APART, 0);
	} else {
		LLVMBuildUnreachable(g->b);
	}
}

void emit_block(struct gen *g, const struct region *r, uint32_t block, struct thread_loop *l)
{
	const struct work_block *b = &g->work->blocks[block];

	LLVMPositionBuilderAtEnd(g->b, g->blocks[block]);
	for (uint32_t n = b->first; n < b->end && !g->work->error; n++)
		emit_inst(g, &g->work->insts[n]);
	if (!g->work->error)
		end_block(g, r, block, l);
}

/* Spine blocks in order, and after each what lies between it and the next. */
static void emit_blocks(struct gen *g, const struct region *r, struct thread_loop *l)
{
	struct work *w = g->work;
	uint32_t *list = work_alloc(w, (w->block_count + 1) * sizeof(*list));
	uint64_t *members = work_alloc(w, (w->block_count / 64 + 1) * 8);
	uint64_t *done = work_alloc(w, (w->block_count / 64 + 1) * 8);

	if (w->error)
		return;
	for (uint32_t k = 0; k < r->block_count; k++)
		g->blocks[r->blocks[k]] = gen_block(g, "b");
	LLVMBuildBr(g->b, g->blocks[r->entry]);
	for (uint32_t s = 0; s < r->spine_count && !w->error; s++) {
		uint32_t b = r->spine[s];

		emit_block(g, r, b, l);
		bits_set(done, b);
		if (w->blocks[b].succ_count < 2 || bits_get(g->plan->split, b) ||
			g->plan->scheduled)
			continue;
		memset(members, 0, (w->block_count / 64 + 1) * 8);
		uint32_t count = cfg_influence(w, b, PTX_NONE, list, members);
		for (uint32_t k = 0; k < count && !w->error; k++)
			if (!bits_get(done, list[k]) &&
				w->blocks[list[k]].region == w->blocks[r->entry].region) {
				emit_block(g, r, list[k], l);
				bits_set(done, list[k]);
			}
	}
	for (uint32_t k = 0; k < r->block_count && !w->error; k++)
		if (!bits_get(done, r->blocks[k]))
			emit_block(g, r, r->blocks[k], l);
}

static bool region_is_parallel(const struct gen *g, const struct region *r)
{
	struct work *w = g->work;

	for (uint32_t k = 0; k < r->block_count; k++) {
		const struct work_block *b = &w->blocks[r->blocks[k]];

		for (uint32_t n = b->first; n < b->end; n++) {
			const struct inst *i = &w->insts[n];

			if (i->op == OP_atom || i->op == OP_red || i->op == OP_call ||
				i->op == OP_sust || i->op == OP_membar || i->op == OP_fence ||
				inst_has(i, MOD_volatile) || inst_has(i, MOD_relaxed) ||
				inst_has(i, MOD_acquire) || inst_has(i, MOD_release) ||
				inst_has(i, MOD_arrive) || i->op == OP_mbarrier ||
				inst_has(i, MOD_mbarrier))
				return false;
		}
	}
	return !regrouped(w, r->blocks, r->block_count);
}

static void emit_threads(
	struct gen *g, const struct region *r, struct thread_loop *l, uint64_t *done)
{
	enter_active(g, r, l, done);
	load_live(g, r, done);
	if (!g->plan->scheduled)
		g->leave = gen_block(g, "leave");
	emit_blocks(g, r, l);
	if (g->work->error || g->plan->scheduled)
		return;
	LLVMPositionBuilderAtEnd(g->b, g->leave);
	store_live(g, r, r->live_out);
	LLVMBuildBr(g->b, l->after);
}

/* The region's loop over threads; b: in strips, or NULL. The scalar builder stands before it, and then behind it. */
static void gen_loop(
	struct gen *g, const struct region *r, struct thread_range range, struct butterfly *b)
{
	struct work *w = g->work;
	uint64_t *done = work_alloc(w, (w->reg_count / 64 + 1) * 8);
	struct thread_loop l = {.range = range}, inner;
	struct lanes *lanes = b ? NULL : lanes_find(g, r, &l.range);
	LLVMBasicBlockRef before = gen_block(g, "loop");

	if (w->error)
		return;
	LLVMPositionBuilderAtEnd(g->body, before);
	l.width = b ? butterfly_width(b) : lanes_width(lanes);
	if (lanes)
		l.range.from[0] = l.range.to[0] = NULL;
	loop_begin(g, &l, g->body);
	if (b) {
		butterfly_begin(g, b, &l, &inner);
		emit_threads(g, r, &inner, done);
		butterfly_end(g, b, &l, &inner);
	} else if (lanes) {
		lanes_emit(g, lanes, &l, done);
	} else {
		emit_threads(g, r, &l, done);
	}
	if (w->error)
		return;
	LLVMBuildBr(g->scalar, before);
	loop_end(g, &l, g->scalar);
}

static void gen_loops(struct gen *g, const struct region *r, struct thread_range range)
{
	struct butterfly *b = g->work->checked ? NULL : butterfly_find(g, r, &range);

	if (!b) {
		gen_loop(g, r, range, NULL);
		return;
	}
	LLVMBasicBlockRef strips = gen_block(g, "strips"), plain = gen_block(g, "plain"),
			  behind = gen_block(g, "behind");
	LLVMBuildCondBr(g->scalar, butterfly_fits(g, b), strips, plain);
	LLVMPositionBuilderAtEnd(g->scalar, strips);
	gen_loop(g, r, range, b);
	LLVMBuildBr(g->scalar, behind);
	LLVMPositionBuilderAtEnd(g->scalar, plain);
	gen_loop(g, r, range, NULL);
	LLVMBuildBr(g->scalar, behind);
	LLVMPositionBuilderAtEnd(g->scalar, behind);
}

/* Of a branch that is passed nobody takes a side: to those that come to one, all have. */
static void begin_guards(struct gen *g, const struct region *r)
{
	for (uint32_t k = 0; k < g->plan->guard_count; k++) {
		const struct guard *guard = &g->plan->guards[k];

		if (guard->branch != r->branch &&
			(!guard->passed || plan_within(g->plan, g->work->blocks[r->entry].context,
						   guard->branch)))
			continue;
		for (uint32_t side = 0; side < 2; side++)
			LLVMBuildStore(g->b, LLVMConstNull(g->i8), g->any[2 * k + side]);
	}
}

static void gen_region(struct gen *g, uint32_t id)
{
	struct work *w = g->work;
	struct region *r = &g->plan->regions[id];
	struct thread_range range;

	g->region = id;
	g->parallel = region_is_parallel(g, r);
	find_used(g, r);
	LLVMPositionBuilderAtEnd(g->scalar, g->pre[id]);
	g->b = g->scalar;
	begin_guards(g, r);
	if (r->collective && is_matrix(&w->insts[w->blocks[r->entry].first]))
		emit_matrix_prepare(g, &w->insts[w->blocks[r->entry].first]);
	else if (r->collective || r->border)
		emit_collective_prepare(g, &w->insts[w->blocks[r->entry].first]);
	else if (r->gate == GATE_SPIN)
		cluster_give_way(g);
	checked_region(g, &w->insts[w->blocks[r->entry].first]);
	narrow_range(g, g->work->blocks[r->entry].context, &range);
	g->tally = tally_begin(g, r);
	gen_loops(g, r, range);
	if (w->error)
		return;
	tally_end(g, g->tally);
	if (g->plan->scheduled)
		LLVMBuildBr(g->b, g->dispatch);
	else
		leave_region(g, r);
}

void gen_plan(struct gen *g, LLVMBasicBlockRef start)
{
	struct plan *p = g->plan;

	g->sides = work_alloc(g->work, (2 * p->guard_count + 1) * sizeof(*g->sides));
	for (uint32_t k = 0; k < 2 * p->guard_count; k++)
		g->any[k] = gen_alloca(g, g->i8, "any");
	for (uint32_t r = 0; r < p->region_count; r++)
		g->pre[r] = gen_block(g, "region");
	if (g->work->error)
		return;
	if (p->scheduled) {
		gen_dispatch(g, start);
	} else {
		LLVMPositionBuilderAtEnd(g->scalar, start);
		if (!g->work->checked)
			prefetch_next(g);
		LLVMBuildBr(g->scalar, g->pre[g->work->blocks[0].region]);
	}
	for (uint32_t r = 0; r < p->region_count && !g->work->error; r++)
		gen_region(g, r);
}
