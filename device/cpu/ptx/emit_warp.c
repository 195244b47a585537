/* SPDX-License-Identifier: MIT
 *
 * Special registers, and what the threads of a warp or block do together. A collective is alone in
 * its region. Before the region's loop, another loop over the same threads collects, per warp, the
 * mask of active lanes and the lanes' votes or their reduction; shuffles, matches and reductions of
 * parts of a warp read the kept values of other lanes (the `exchange` register that inline.c put before them).
 */
#include "device/cpu/ptx/gen.h"

#include <stdio.h>
#include <string.h>

static LLVMValueRef int32(struct gen *g, uint32_t v)
{
	return LLVMConstInt(g->i32, v, false);
}

static LLVMValueRef lane(struct gen *g)
{
	return LLVMBuildAnd(g->b, g->linear, int32(g, 31), "");
}

static LLVMValueRef warp(struct gen *g)
{
	return LLVMBuildLShr(g->b, g->linear, int32(g, 5), "");
}

/* ---- special registers ---- */

static LLVMValueRef lane_mask(struct gen *g, uint32_t id)
{
	LLVMValueRef bit = LLVMBuildShl(g->b, int32(g, 1), lane(g), "");
	LLVMValueRef below = LLVMBuildSub(g->b, bit, int32(g, 1), "");

	switch (id) {
	case SPECIAL_LANEMASK_EQ:
		return bit;
	case SPECIAL_LANEMASK_LT:
		return below;
	case SPECIAL_LANEMASK_LE:
		return LLVMBuildOr(g->b, below, bit, "");
	case SPECIAL_LANEMASK_GE:
		return LLVMBuildNot(g->b, below, "");
	}
	return LLVMBuildNot(g->b, LLVMBuildOr(g->b, below, bit, ""), "");
}

static LLVMValueRef launch_field(struct gen *g, LLVMTypeRef type, size_t offset)
{
	return gen_field(g, g->b, g->launch, type, offset);
}

static LLVMValueRef clock_value(struct gen *g, uint32_t id)
{
	bool timer = id == SPECIAL_GLOBALTIMER || id == SPECIAL_GLOBALTIMER_HI;
	LLVMValueRef v = emit_builtin(g, timer ? "ptx_globaltimer" : "ptx_clock", NULL, 0);

	if (id == SPECIAL_CLOCK_HI || id == SPECIAL_GLOBALTIMER_HI)
		v = LLVMBuildLShr(g->b, v, gen_int(g, 32), "");
	return v;
}

LLVMValueRef emit_special(struct gen *g, uint32_t id)
{
	uint32_t warps = (g->work->threads + 31) / 32;

	if (id < SPECIAL_ZERO + 4) {
		unsigned axis = id % 4, kind = id - axis;

		if (kind == SPECIAL_ZERO || axis == 3)
			return int32(g, 0);
		if (kind == SPECIAL_TID)
			return work_width(g->work, axis) > 1 ? g->tid[axis] : int32(g, 0);
		if (kind == SPECIAL_NTID)
			return int32(g, g->work->block[axis]);
		return kind == SPECIAL_CTAID ? g->ctaid[axis] : g->nctaid[axis];
	}
	switch (id) {
	case SPECIAL_LANEID:
		return lane(g);
	case SPECIAL_WARPID:
		return warp(g);
	case SPECIAL_NWARPID:
		return int32(g, warps);
	case SPECIAL_SMID:
		return gen_field(
			g, g->b, g->scratch, g->i32, offsetof(struct ptx_scratch, pool_thread));
	case SPECIAL_NSMID:
		return emit_builtin(g, "ptx_nsmid", NULL, 0);
	case SPECIAL_GRIDID:
		return launch_field(g, g->i64, offsetof(struct ptx_launch, grid_id));
	case SPECIAL_GRAPH:
		return launch_field(g, g->i64, offsetof(struct ptx_launch, graph));
	case SPECIAL_CLOCK:
	case SPECIAL_CLOCK_HI:
	case SPECIAL_CLOCK64:
	case SPECIAL_GLOBALTIMER:
	case SPECIAL_GLOBALTIMER_HI:
		return clock_value(g, id);
	case SPECIAL_DYNAMIC_SMEM:
		return launch_field(g, g->i32, offsetof(struct ptx_launch, dynamic_shared_bytes));
	case SPECIAL_TOTAL_SMEM:
		return launch_field(g, g->i32, offsetof(struct ptx_launch, total_shared_bytes));
	case SPECIAL_WARP_SZ:
		return int32(g, 32);
	case SPECIAL_ENVREG1:
		return launch_field(g, g->i32, offsetof(struct ptx_launch, workspace) + 4);
	case SPECIAL_ENVREG2:
		return launch_field(g, g->i32, offsetof(struct ptx_launch, workspace));
	case SPECIAL_ARGUMENTS:
		return g->arguments;
	}
	if (id >= SPECIAL_CLUSTERID)
		return cluster_special(g, id);
	return lane_mask(g, id);
}

/* ---- per-warp words in the saved area: active lanes, then the collected value ---- */

static LLVMValueRef warp_word(struct gen *g, LLVMValueRef index, unsigned which)
{
	LLVMValueRef at = LLVMBuildZExt(g->b, index, g->i64, "");

	at = LLVMBuildMul(g->b, at, gen_int(g, 8), "");
	return gen_gep(g, g->b, g->saved,
		LLVMBuildAdd(g->b, at, gen_int(g, g->warp_slot + 4 * which), ""));
}

static LLVMValueRef load_word(struct gen *g, LLVMValueRef p)
{
	return LLVMBuildLoad2(g->b, g->i32, p, "");
}

static bool is_block_reduction(const struct inst *i)
{
	return (i->op == OP_bar || i->op == OP_barrier) && i->dest_count;
}

/* In a scheduled plan the gate has counted the threads of the barrier (gates.h), which may have come by other instructions. */
static LLVMValueRef reduced_by_gate(struct gen *g, const struct inst *i)
{
	LLVMValueRef word = load_word(g, thread_word(g, g->wants_slot));
	LLVMValueRef holds = LLVMBuildAnd(g->b, word, int32(g, GATE_HOLDS - 1), "");

	gen_mark(g, word);
	if (inst_has(i, MOD_popc))
		return holds;
	if (inst_has(i, MOD_or))
		return LLVMBuildICmp(g->b, LLVMIntNE, holds, int32(g, 0), "");
	return LLVMBuildICmp(
		g->b, LLVMIntEQ, holds, LLVMBuildLShr(g->b, word, int32(g, GATE_WANTED), ""), "");
}

/* The predicate or value that a thread contributes. */
static LLVMValueRef contribution(struct gen *g, const struct inst *i)
{
	const struct operand *o = &i->operands[is_block_reduction(i) ? i->operand_count - 1 : 1];

	if (i->op == OP_redux)
		return emit_operand(g, o, g->i32);
	return LLVMBuildZExt(g->b, emit_operand(g, o, g->i1), g->i32, "");
}

static LLVMValueRef reduce(struct gen *g, const struct inst *i, LLVMValueRef a, LLVMValueRef v)
{
	LLVMBuilderRef b = g->b;
	bool is_signed = i->type_count && ptx_type_class[i->types[0]] == 's';
	bool min = inst_has(i, MOD_min), max = inst_has(i, MOD_max);

	if (inst_has(i, MOD_add) || inst_has(i, MOD_popc))
		return LLVMBuildAdd(b, a, v, "");
	if (inst_has(i, MOD_and))
		return LLVMBuildAnd(b, a, v, "");
	if (inst_has(i, MOD_xor))
		return LLVMBuildXor(b, a, v, "");
	if (min || max) {
		LLVMIntPredicate less = is_signed ? LLVMIntSLT : LLVMIntULT;
		LLVMValueRef c =
			min ? LLVMBuildICmp(b, less, v, a, "") : LLVMBuildICmp(b, less, a, v, "");

		return LLVMBuildSelect(b, c, v, a, "");
	}
	return LLVMBuildOr(b, a, v, "");
}

static uint32_t identity(const struct inst *i)
{
	bool is_signed = i->type_count && ptx_type_class[i->types[0]] == 's';

	if (inst_has(i, MOD_and))
		return UINT32_MAX;
	if (inst_has(i, MOD_min))
		return is_signed ? INT32_MAX : UINT32_MAX;
	if (inst_has(i, MOD_max))
		return is_signed ? (uint32_t)INT32_MIN : 0;
	return 0;
}

/* A reduction of whole warps is made once for all lanes. */
static bool is_of_whole_warps(const struct gen *g, const struct inst *i)
{
	const struct operand *mask = &i->operands[2];

	if (mask->kind == OPERAND_REG) {
		const struct work_reg *r = &g->work->regs[mask->id];
		const struct inst *def = r->single ? &g->work->insts[r->def] : NULL;

		if (!def || def->op != OP_mov)
			return false;
		mask = &def->operands[1];
	}
	return mask->kind == OPERAND_INT && (uint32_t)mask->bits == UINT32_MAX;
}

static void collect(struct gen *g, struct inst *i)
{
	LLVMValueRef w = is_block_reduction(i) ? int32(g, 0) : warp(g);
	LLVMValueRef active = warp_word(g, w, 0), word = warp_word(g, w, 1);
	LLVMValueRef bit = LLVMBuildShl(g->b, int32(g, 1), lane(g), "");

	LLVMBuildStore(g->b, LLVMBuildOr(g->b, load_word(g, active), bit, ""), active);
	if (i->op == OP_vote) {
		LLVMValueRef v = LLVMBuildShl(g->b, contribution(g, i), lane(g), "");

		LLVMBuildStore(g->b, LLVMBuildOr(g->b, load_word(g, word), v, ""), word);
	} else if ((i->op == OP_redux && is_of_whole_warps(g, i)) || is_block_reduction(i)) {
		LLVMBuildStore(g->b, reduce(g, i, load_word(g, word), contribution(g, i)), word);
	}
}

/* Whether some of the block's threads may be elsewhere, or have left. */
static bool may_lack_threads(const struct gen *g)
{
	const struct region *r = &g->plan->regions[g->region];

	return g->plan->scheduled || g->work->blocks[r->entry].context != PTX_NONE;
}

void emit_collective_prepare(struct gen *g, struct inst *i)
{
	uint32_t warps = (g->work->threads + 31) / 32;

	if (inst_has(i, MOD_cluster) && inst_has(i, MOD_wait))
		cluster_meet(g);
	if ((i->op == OP_shfl && !may_lack_threads(g)) ||
		((i->op == OP_bar || i->op == OP_barrier) &&
			(!i->dest_count || g->plan->scheduled)))
		return;
	if (!g->warp_slot)
		g->warp_slot = gen_saved(g, 8);
	for (uint32_t w = 0; w < warps; w++) {
		LLVMBuildStore(g->b, int32(g, 0), warp_word(g, int32(g, w), 0));
		LLVMBuildStore(g->b, int32(g, identity(i)), warp_word(g, int32(g, w), 1));
	}
	gen_over_threads(g, i, collect, false);
}

/* ---- results ---- */

/* The mask operand, or all lanes in the forms without .sync. */
static LLVMValueRef member_mask(struct gen *g, const struct inst *i, unsigned k)
{
	return k < i->operand_count ? emit_operand(g, &i->operands[k], g->i32)
				    : int32(g, UINT32_MAX);
}

static void emit_vote(struct gen *g, struct inst *i)
{
	LLVMValueRef m = LLVMBuildAnd(
		g->b, load_word(g, warp_word(g, warp(g), 0)), member_mask(g, i, 2), "");
	LLVMValueRef v = LLVMBuildAnd(g->b, load_word(g, warp_word(g, warp(g), 1)), m, "");
	LLVMValueRef all = LLVMBuildICmp(g->b, LLVMIntEQ, v, m, "");
	LLVMValueRef none = LLVMBuildICmp(g->b, LLVMIntEQ, v, int32(g, 0), "");

	if (inst_has(i, MOD_ballot))
		emit_result(g, &i->operands[0], v);
	else if (inst_has(i, MOD_all))
		emit_result(g, &i->operands[0], all);
	else if (inst_has(i, MOD_any))
		emit_result(g, &i->operands[0], LLVMBuildNot(g->b, none, ""));
	else
		emit_result(g, &i->operands[0], LLVMBuildOr(g->b, all, none, ""));
}

/* Source lane and whether it lies within the segment, as the PTX manual defines them. */
static LLVMValueRef shuffle_source(struct gen *g, struct inst *i, LLVMValueRef *valid)
{
	LLVMBuilderRef b = g->b;
	LLVMValueRef n =
		LLVMBuildAnd(b, emit_operand(g, &i->operands[2], g->i32), int32(g, 31), "");
	LLVMValueRef c = emit_operand(g, &i->operands[3], g->i32), j;
	LLVMValueRef clamp = LLVMBuildAnd(b, c, int32(g, 31), "");
	LLVMValueRef segment =
		LLVMBuildAnd(b, LLVMBuildLShr(b, c, int32(g, 8), ""), int32(g, 31), "");
	LLVMValueRef inverse = LLVMBuildNot(b, segment, "");
	LLVMValueRef least = LLVMBuildAnd(b, lane(g), segment, "");
	LLVMValueRef most = LLVMBuildOr(b, least, LLVMBuildAnd(b, clamp, inverse, ""), "");

	if (inst_has(i, MOD_up)) {
		j = LLVMBuildSub(b, lane(g), n, "");
		*valid = LLVMBuildICmp(b, LLVMIntSGE, j, most, "");
		return j;
	}
	if (inst_has(i, MOD_down))
		j = LLVMBuildAdd(b, lane(g), n, "");
	else if (inst_has(i, MOD_bfly))
		j = LLVMBuildXor(b, lane(g), n, "");
	else
		j = LLVMBuildOr(b, least, LLVMBuildAnd(b, n, inverse, ""), "");
	*valid = LLVMBuildICmp(b, LLVMIntSLE, j, most, "");
	return j;
}

/* A lane that is not there gives 0, as on hardware; the manual does not say what. */
static LLVMValueRef or_nothing(struct gen *g, LLVMValueRef v, LLVMValueRef source)
{
	LLVMBuilderRef b = g->b;
	LLVMValueRef zero = LLVMConstNull(LLVMTypeOf(v)), there;

	if (g->work->threads % 32) {
		there = LLVMBuildICmp(b, LLVMIntULT, source, int32(g, g->work->threads), "");
		v = LLVMBuildSelect(b, there, v, zero, "");
	}
	if (may_lack_threads(g)) {
		LLVMValueRef bit =
			LLVMBuildShl(b, int32(g, 1), LLVMBuildAnd(b, source, int32(g, 31), ""), "");

		bit = LLVMBuildAnd(b, load_word(g, warp_word(g, warp(g), 0)), bit, "");
		there = LLVMBuildICmp(b, LLVMIntNE, bit, int32(g, 0), "");
		v = LLVMBuildSelect(b, there, v, zero, "");
	}
	return v;
}

static bool emit_shuffle(struct gen *g, struct inst *i)
{
	const struct operand *d = &i->operands[0], *a = &i->operands[1];
	LLVMBuilderRef b = g->b;
	LLVMValueRef valid, j = shuffle_source(g, i, &valid), v;

	if (a->kind != OPERAND_REG)
		return false;
	j = LLVMBuildSelect(b, valid, j, lane(g), "");
	j = LLVMBuildAdd(b, LLVMBuildAnd(b, g->linear, int32(g, ~31u), ""), j, "");
	LLVMValueRef at = j;
	if (g->work->threads % 32) /* lanes that a partial warp does not have */
		at = LLVMBuildSelect(b,
			LLVMBuildICmp(b, LLVMIntULT, j, int32(g, g->work->threads), ""), j,
			g->linear, "");
	v = LLVMBuildLoad2(b, reg_type(g, a->id), slot_pointer(g, a->id, at), "");
	gen_mark(g, v);
	v = or_nothing(g, v, j);
	if (d->kind == OPERAND_VECTOR && d->count == 2) {
		emit_result(g, &d->elements[1], valid);
		d = &d->elements[0];
	}
	emit_result(g, d, v);
	return true;
}

/* ptx_match_b32(values of the warp, mask of lanes, value): the lanes with the same value. */
static bool emit_match(struct gen *g, struct inst *i)
{
	const struct operand *d = &i->operands[0], *a = &i->operands[1];

	if (a->kind != OPERAND_REG || !i->type_count)
		return false;
	LLVMValueRef first = LLVMBuildAnd(g->b, g->linear, int32(g, ~31u), "");
	LLVMValueRef mask = LLVMBuildAnd(
		g->b, load_word(g, warp_word(g, warp(g), 0)), member_mask(g, i, 2), "");
	LLVMValueRef arguments[3] = {
		slot_pointer(g, a->id, first), mask, emit_operand(g, a, emit_type(g, i->types[0]))};
	LLVMValueRef f = LLVMGetNamedFunction(
		g->module, ptx_type_bits[i->types[0]] == 64 ? "ptx_match_b64" : "ptx_match_b32");
	if (!f)
		return false;
	LLVMValueRef same = LLVMBuildCall2(g->b, LLVMGlobalGetValueType(f), f, arguments, 3, "");
	if (inst_has(i, MOD_all)) {
		LLVMValueRef all = LLVMBuildICmp(g->b, LLVMIntEQ, same, mask, "");

		if (d->kind == OPERAND_VECTOR && d->count == 2) {
			emit_result(g, &d->elements[1], all);
			d = &d->elements[0];
		}
		same = LLVMBuildSelect(g->b, all, mask, int32(g, 0), "");
	}
	emit_result(g, d, same);
	return true;
}

/* ptx_redux_<operation>_<type>(values of the warp, mask of lanes) */
static bool emit_redux(struct gen *g, struct inst *i)
{
	LLVMValueRef v = load_word(g, warp_word(g, warp(g), 1));
	char name[64];

	if (!is_of_whole_warps(g, i)) {
		LLVMValueRef first = LLVMBuildAnd(g->b, g->linear, int32(g, ~31u), ""),
			     arguments[2];

		snprintf(name, sizeof(name), "ptx_redux_%s_%s",
			ptx_modifier_name[i->modifiers[i->modifier_count - 1]],
			ptx_type_name[i->types[0]]);
		arguments[0] = slot_pointer(g, i->operands[1].id, first);
		arguments[1] = LLVMBuildAnd(
			g->b, load_word(g, warp_word(g, warp(g), 0)), member_mask(g, i, 2), "");
		v = emit_builtin(g, name, arguments, 2);
	}
	if (v)
		emit_result(g, &i->operands[0], v);
	return v;
}

static void emit_elect(struct gen *g, struct inst *i)
{
	const struct operand *d = &i->operands[0];
	LLVMValueRef m = LLVMBuildAnd(
		g->b, load_word(g, warp_word(g, warp(g), 0)), member_mask(g, i, 1), "");
	LLVMValueRef first = emit_builtin(g, "ptx_lowest_bit", &m, 1);

	if (d->kind == OPERAND_VECTOR && d->count == 2) {
		emit_result(g, &d->elements[1], LLVMBuildICmp(g->b, LLVMIntEQ, first, lane(g), ""));
		d = &d->elements[0];
	}
	emit_result(g, d, first);
}

/* bar.arrive: its thread is counted, and goes on. Of a cluster's barrier a block is counted where it waits, or has ended. */
static bool emit_arrival(struct gen *g, struct inst *i)
{
	LLVMValueRef arguments[6];

	if (inst_has(i, MOD_cluster))
		return true;
	if (i->operand_count != 2 || !g->gated)
		return false;
	arguments[0] = gen_gep(g, g->b, g->saved, gen_int(g, g->arrived_slot));
	arguments[1] = gen_gep(g, g->b, g->saved, gen_int(g, g->pc_slot));
	arguments[2] = LLVMConstInt(g->i32, g->work->threads, false);
	arguments[3] = g->linear;
	arguments[4] = emit_operand(g, &i->operands[0], g->i32);
	arguments[5] = emit_operand(g, &i->operands[1], g->i32);
	return emit_builtin(g, "ptx_arrive", arguments, 6) != NULL;
}

bool emit_collective(struct gen *g, struct inst *i)
{
	LLVMValueRef v;

	switch (i->op) {
	case OP_shfl:
		return emit_shuffle(g, i);
	case OP_vote:
		emit_vote(g, i);
		return true;
	case OP_match:
		return emit_match(g, i);
	case OP_elect:
		emit_elect(g, i);
		return true;
	case OP_redux:
		return emit_redux(g, i);
	case OP_activemask:
		emit_result(g, &i->operands[0], load_word(g, warp_word(g, warp(g), 0)));
		return true;
	}
	if (inst_has(i, MOD_arrive))
		return emit_arrival(g, i);
	if (inst_has(i, MOD_warp))
		checked_order(g, PTX_WARP_ARRIVED, member_mask(g, i, 0));
	else
		checked_order(g, PTX_ARRIVED, NULL);
	if (!i->dest_count)
		return true;
	v = g->plan->scheduled ? reduced_by_gate(g, i) : load_word(g, warp_word(g, int32(g, 0), 1));
	if (!g->plan->scheduled && !inst_has(i, MOD_popc))
		v = LLVMBuildICmp(
			g->b, LLVMIntNE, LLVMBuildAnd(g->b, v, int32(g, 1), ""), int32(g, 0), "");
	emit_result(g, &i->operands[0], v);
	return true;
}
