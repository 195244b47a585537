/* SPDX-License-Identifier: MIT
 *
 * Scheduled plans (region.h): what a thread remembers when it comes to a region, and the dispatcher,
 * which chooses the region that runs next and lets threads through gates (gates.h).
 */
#include "device/cpu/ptx/gen.h"

LLVMValueRef thread_word(struct gen *g, uint32_t slot)
{
	LLVMValueRef t = LLVMBuildZExt(g->b, g->linear, g->i64, "");

	t = LLVMBuildNUWMul(g->b, t, gen_int(g, 4), "");
	return gen_gep(g, g->b, g->saved, LLVMBuildNUWAdd(g->b, t, gen_int(g, slot), ""));
}

static struct inst *first_inst(const struct gen *g, const struct region *r)
{
	return &g->work->insts[g->work->blocks[r->entry].first];
}

static bool is_warpgroup(const struct gen *g, const struct region *r)
{
	return first_inst(g, r)->op == OP_wgmma;
}

/* A barrier that reduces predicates. */
static bool reduces(const struct gen *g, const struct region *r)
{
	return r->gate == GATE_BLOCK && first_inst(g, r)->dest_count && !is_warpgroup(g, r);
}

/* The operands that say what a gate waits for. */
static unsigned wanted_operands(const struct gen *g, const struct region *r, struct operand **o)
{
	struct inst *i = first_inst(g, r);

	if (is_matrix(i))
		return 0;
	switch (r->gate) {
	case GATE_MASK:
	case GATE_WARP:
		*o = &i->operands[i->operand_count - 1];
		return i->operand_count ? 1 : 0;
	case GATE_BLOCK:
		*o = &i->operands[i->dest_count];
		/* Its number, how many threads, and what is reduced. */
		return (unsigned)i->operand_count - i->dest_count;
	default:
		return 0;
	}
}

/* The barrier of the thread's four warps, for all of their threads. */
static LLVMValueRef group_wants(struct gen *g)
{
	LLVMValueRef group = LLVMBuildLShr(g->b, g->linear, LLVMConstInt(g->i32, 7, false), "");

	return LLVMBuildAdd(
		g->b, group, LLVMConstInt(g->i32, GATE_GROUPS | 128u << GATE_WANTED, false), "");
}

void gate_uses(struct gen *g, const struct region *r)
{
	struct operand *o;

	for (unsigned k = g->gated ? wanted_operands(g, r, &o) : 0; k-- > 0;)
		if (o[k].kind == OPERAND_REG)
			bits_set(g->used, o[k].id);
}

void gate_arrive(struct gen *g, const struct region *r)
{
	uint32_t count = g->plan->region_count, code = r->code;
	struct operand *o;

	if (r->gate == GATE_BLOCK)
		code += g->gated ? 2 * count : count;
	else if (r->gate != GATE_NONE)
		code += count;
	gen_mark(g, LLVMBuildStore(
			    g->b, LLVMConstInt(g->i32, code, false), thread_word(g, g->pc_slot)));
	if (!g->gated || r->gate == GATE_NONE || r->gate == GATE_SPIN)
		return;
	unsigned known = wanted_operands(g, r, &o);
	LLVMValueRef holds = NULL;
	if (reduces(g, r))
		holds = emit_operand(g, &o[--known], g->i1);
	/* A mask that is not said is that of the whole warp, a barrier without a number that of the cluster. */
	LLVMValueRef wants = r->gate == GATE_MASK    ? LLVMConstAllOnes(g->i32)
			     : r->gate == GATE_BLOCK ? LLVMConstInt(g->i32, GATE_CLUSTER, false)
						     : LLVMConstNull(g->i32);
	if (is_warpgroup(g, r))
		wants = group_wants(g);
	if (known)
		wants = emit_operand(g, &o[0], g->i32);
	if (known == 2)
		wants = LLVMBuildOr(g->b, wants,
			LLVMBuildShl(g->b, emit_operand(g, &o[1], g->i32),
				LLVMConstInt(g->i32, GATE_WANTED, false), ""),
			"");
	if (holds)
		wants = LLVMBuildOr(g->b, wants,
			LLVMBuildSelect(g->b, holds, LLVMConstInt(g->i32, GATE_HOLDS, false),
				LLVMConstNull(g->i32), ""),
			"");
	gen_mark(g, LLVMBuildStore(g->b, wants, thread_word(g, g->wants_slot)));
}

/* Regions that begin with a collective or spin come last, in the order of their gates. Fills the
 * table for ptx_release(). */
static void number_regions(struct gen *g, uint32_t *table)
{
	struct plan *p = g->plan;
	uint32_t code = 0;

	for (unsigned pass = GATE_NONE; pass < GATES; pass++) {
		table[pass] = code;
		for (uint32_t k = 0; k < p->region_count; k++) {
			struct region *r = &p->regions[k];
			unsigned order = r->gate != GATE_BLOCK ? r->gate
					 : r->collective       ? GATE_BLOCK
							       : GATE_NONE;

			if (order != pass)
				continue;
			g->gated |= r->gate > GATE_BLOCK || reduces(g, r) || is_warpgroup(g, r);
			r->code = code++;
			table[GATE_TABLE_LINES + r->code] = first_inst(g, r)->line;
		}
	}
	g->gated |= p->named;
	table[GATE_TABLE_COUNT] = code;
}

static LLVMValueRef least_code(struct gen *g, LLVMValueRef least)
{
	LLVMValueRef pc = LLVMBuildLoad2(g->b, g->i32, thread_word(g, g->pc_slot), "");
	LLVMValueRef now = LLVMBuildLoad2(g->b, g->i32, least, "");

	gen_mark(g, pc);
	now = LLVMBuildSelect(g->b, LLVMBuildICmp(g->b, LLVMIntULT, pc, now, ""), pc, now, "");
	LLVMBuildStore(g->b, now, least);
	return now;
}

/* All threads wait at barriers of the block, or have left. */
static void release_barrier(struct gen *g, LLVMBasicBlockRef at)
{
	LLVMValueRef base = LLVMConstInt(g->i32, g->plan->region_count, false);
	struct thread_loop l = {0};

	LLVMPositionBuilderAtEnd(g->scalar, at);
	if (g->cluster_due)
		LLVMBuildStore(g->scalar, LLVMConstInt(g->i32, GATE_MET, false), g->cluster_due);
	loop_begin(g, &l, g->scalar);
	LLVMValueRef pc = LLVMBuildLoad2(g->b, g->i32, thread_word(g, g->pc_slot), "");
	LLVMValueRef exited =
		LLVMBuildICmp(g->b, LLVMIntEQ, pc, LLVMConstInt(g->i32, GATE_LEFT, false), "");
	pc = LLVMBuildSelect(g->b, exited, pc, LLVMBuildSub(g->b, pc, base, ""), "");
	LLVMBuildStore(g->b, pc, thread_word(g, g->pc_slot));
	LLVMBuildBr(g->b, l.after);
	loop_end(g, &l, g->scalar);
	LLVMBuildBr(g->scalar, g->dispatch);
}

static LLVMValueRef table_global(struct gen *g, const uint32_t *table)
{
	uint32_t count = GATE_TABLE_LINES + g->plan->region_count;
	LLVMValueRef *words = work_alloc(g->work, count * sizeof(*words)), global;

	if (!words)
		return NULL;
	for (uint32_t k = 0; k < count; k++)
		words[k] = LLVMConstInt(g->i32, table[k], false);
	LLVMValueRef values = LLVMConstArray2(g->i32, words, count);
	global = LLVMAddGlobal(g->module, LLVMTypeOf(values), "gdev_ptx_gates");
	LLVMSetInitializer(global, values);
	LLVMSetGlobalConstant(global, true);
	LLVMSetLinkage(global, LLVMPrivateLinkage);
	return global;
}

/* All threads wait at gates of any kind, or have left: lets those go on that can. */
static void release_gates(struct gen *g, LLVMBasicBlockRef at, const uint32_t *table)
{
	LLVMBasicBlockRef stuck = gen_block(g, "stuck");
	LLVMValueRef lines = table_global(g, table);

	if (!lines)
		return;
	LLVMPositionBuilderAtEnd(g->scalar, at);
	LLVMValueRef arguments[] = {gen_gep(g, g->scalar, g->saved, gen_int(g, g->pc_slot)),
		gen_gep(g, g->scalar, g->saved, gen_int(g, g->wants_slot)),
		gen_gep(g, g->scalar, g->saved, gen_int(g, g->arrived_slot)),
		LLVMConstInt(g->i32, g->work->threads, false), lines};
	g->b = g->scalar;
	LLVMValueRef some = emit_builtin(g, "ptx_release", arguments, 5);
	if (some && g->cluster_due) {
		LLVMValueRef met =
			LLVMBuildAnd(g->b, some, LLVMConstInt(g->i32, GATE_MET, false), "");

		met = LLVMBuildOr(g->b, met, LLVMBuildLoad2(g->b, g->i32, g->cluster_due, ""), "");
		LLVMBuildStore(g->b, met, g->cluster_due);
	}
	some = LLVMBuildICmp(g->b, LLVMIntNE, some, LLVMConstNull(g->i32), "");
	LLVMBuildCondBr(g->b, some, g->dispatch, stuck);
	LLVMPositionBuilderAtEnd(g->b, stuck);
	emit_deadlock(g, arguments[0]);
}

void gen_dispatch(struct gen *g, LLVMBasicBlockRef start)
{
	struct plan *p = g->plan;
	struct thread_loop l = {0};
	LLVMValueRef least = gen_alloca(g, g->i32, "least");
	uint32_t *table =
		work_alloc(g->work, (GATE_TABLE_LINES + p->region_count) * sizeof(*table));

	if (!table)
		return;
	g->parallel = false;
	number_regions(g, table);
	g->pc_slot = gen_saved(g, 4);
	LLVMPositionBuilderAtEnd(g->scalar, start);
	if (g->work->clustered) {
		g->cluster_due = gen_alloca(g, g->i32, "due");
		LLVMBuildStore(g->scalar, LLVMConstNull(g->i32), g->cluster_due);
	}
	if (g->gated) {
		g->wants_slot = gen_saved(g, 4);
		/* A barrier has a word, and one a warp: two a thread suffice, as there are as many barriers as a warp has threads. */
		uint64_t words = GATE_BARRIERS * ((g->work->threads + 31u) / 32 + 1);

		g->arrived_slot = gen_saved(g, 8);
		LLVMBuildMemSet(g->scalar,
			gen_gep(g, g->scalar, g->saved, gen_int(g, g->arrived_slot)),
			LLVMConstNull(g->i8), gen_int(g, 4 * words), 64);
	}
	loop_begin(g, &l, g->scalar);
	gate_arrive(g, &p->regions[g->work->blocks[0].region]);
	LLVMBuildBr(g->b, l.after);
	loop_end(g, &l, g->scalar);
	g->dispatch = gen_block(g, "dispatch");
	LLVMBuildBr(g->scalar, g->dispatch);
	LLVMPositionBuilderAtEnd(g->scalar, g->dispatch);
	LLVMBuildStore(g->scalar, LLVMConstInt(g->i32, UINT32_MAX, false), least);
	loop_begin(g, &l, g->scalar);
	least_code(g, least);
	LLVMBuildBr(g->b, l.after);
	loop_end(g, &l, g->scalar);
	LLVMValueRef code = LLVMBuildLoad2(g->scalar, g->i32, least, "");
	LLVMBasicBlockRef release = gen_block(g, "release"), choose = gen_block(g, "choose");
	LLVMBasicBlockRef waiting = gen_block(g, "waiting");
	LLVMValueRef count = LLVMConstInt(g->i32, p->region_count, false);
	LLVMBuildCondBr(
		g->scalar, LLVMBuildICmp(g->scalar, LLVMIntULT, code, count, ""), choose, waiting);
	LLVMPositionBuilderAtEnd(g->scalar, waiting);
	LLVMValueRef all = LLVMBuildICmp(
		g->scalar, LLVMIntEQ, code, LLVMConstInt(g->i32, GATE_LEFT, false), "");
	LLVMBuildCondBr(g->scalar, all, g->done, release);
	LLVMPositionBuilderAtEnd(g->scalar, choose);
	LLVMValueRef s = LLVMBuildSwitch(g->scalar, code, g->done, p->region_count);
	for (uint32_t r = 0; r < p->region_count; r++)
		LLVMAddCase(s, LLVMConstInt(g->i32, p->regions[r].code, false), g->pre[r]);
	if (g->gated)
		release_gates(g, release, table);
	else
		release_barrier(g, release);
}
