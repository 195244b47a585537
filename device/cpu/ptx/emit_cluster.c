/* SPDX-License-Identifier: MIT
 *
 * Clusters: blocks that run together and see each other's shared memory. The caller of compiled code lays the shared memory of a
 * cluster's blocks side by side, at one distance, in the order of their ranks (struct ptx_scratch). In a kernel that asks for
 * its cluster, the window of shared memory is therefore that of the whole cluster, so that an address means the same in all of
 * its blocks, and a shared variable begins where its block's part does. Such code runs without a cluster as well: then the
 * block's part is all there is.
 */
#include "device/cpu/ptx/gen.h"

static bool names_cluster(const struct inst *i)
{
	if (i->op == OP_mapa || i->op == OP_getctarank ||
		((i->op == OP_bar || i->op == OP_barrier) && inst_has(i, MOD_cluster)) ||
		inst_has(i, MOD_multicast))
		return true;
	for (unsigned k = 0; k < i->operand_count; k++)
		if (i->operands[k].kind == OPERAND_SPECIAL &&
			i->operands[k].id >= SPECIAL_CLUSTERID)
			return true;
	return false;
}

bool cluster_asked(const struct work *w)
{
	for (uint32_t n = 0; n < w->inst_count; n++)
		if (names_cluster(&w->insts[n]))
			return true;
	return false;
}

static LLVMValueRef scratch_word(struct gen *g, LLVMBuilderRef b, size_t offset)
{
	return LLVMBuildZExt(b, gen_field(g, b, g->scratch, g->i32, offset), g->i64, "");
}

LLVMValueRef cluster_part(struct gen *g, LLVMBuilderRef b)
{
	return LLVMBuildMul(b, scratch_word(g, b, offsetof(struct ptx_scratch, cluster_rank)),
		scratch_word(g, b, offsetof(struct ptx_scratch, cluster_stride)), "");
}

/* Blocks of the cluster along an axis: at least one. */
static LLVMValueRef width(struct gen *g, unsigned axis)
{
	LLVMValueRef n = gen_field(
		g, g->b, g->launch, g->i32, offsetof(struct ptx_launch, cluster) + 4 * axis);
	LLVMValueRef none = LLVMBuildICmp(g->b, LLVMIntEQ, n, LLVMConstNull(g->i32), "");

	return LLVMBuildSelect(g->b, none, LLVMConstInt(g->i32, 1, false), n, "");
}

static LLVMValueRef blocks(struct gen *g)
{
	return LLVMBuildMul(
		g->b, LLVMBuildMul(g->b, width(g, 0), width(g, 1), ""), width(g, 2), "");
}

LLVMValueRef cluster_bytes(struct gen *g, LLVMValueRef each)
{
	LLVMValueRef others = LLVMBuildSub(g->b, blocks(g), LLVMConstInt(g->i32, 1, false), "");
	LLVMValueRef stride = scratch_word(g, g->b, offsetof(struct ptx_scratch, cluster_stride));

	others = LLVMBuildZExt(g->b, others, g->i64, "");
	return LLVMBuildAdd(g->b, each, LLVMBuildMul(g->b, others, stride, ""), "");
}

LLVMValueRef cluster_special(struct gen *g, uint32_t id)
{
	unsigned axis = (id - SPECIAL_CLUSTERID) % 4;
	LLVMValueRef v;

	switch (id) {
	case SPECIAL_CLUSTER_CTARANK:
		return gen_field(
			g, g->b, g->scratch, g->i32, offsetof(struct ptx_scratch, cluster_rank));
	case SPECIAL_CLUSTER_NCTARANK:
		return blocks(g);
	case SPECIAL_CLUSTER_EXPLICIT:
		v = gen_field(g, g->b, g->launch, g->i32, offsetof(struct ptx_launch, cluster));
		return LLVMBuildICmp(g->b, LLVMIntNE, v, LLVMConstNull(g->i32), "");
	}
	if (axis == 3)
		return LLVMConstNull(g->i32);
	v = id < SPECIAL_NCLUSTERID + 4 && id >= SPECIAL_NCLUSTERID ? g->nctaid[axis]
								    : g->ctaid[axis];
	if (id < SPECIAL_CLUSTER_CTAID)
		return LLVMBuildUDiv(g->b, v, width(g, axis), "");
	if (id < SPECIAL_CLUSTER_NCTAID)
		return LLVMBuildURem(g->b, v, width(g, axis), "");
	return width(g, axis);
}

/* The place of a shared address in the window of the cluster. */
static LLVMValueRef in_window(struct gen *g, const struct inst *i, unsigned k)
{
	bool shared = inst_space(i) == SPACE_SHARED;
	LLVMValueRef a =
		emit_operand(g, &i->operands[k], i->types[0] == TYPE_u64 ? g->i64 : g->i32);

	a = LLVMBuildZExtOrBitCast(g->b, a, g->i64, "");
	return shared ? a : LLVMBuildSub(g->b, a, g->shared_base, "");
}

/* Of a launch without clusters, whose code has no distance between blocks. */
static LLVMValueRef stride(struct gen *g)
{
	LLVMValueRef s = scratch_word(g, g->b, offsetof(struct ptx_scratch, cluster_stride));
	LLVMValueRef none = LLVMBuildICmp(g->b, LLVMIntEQ, s, gen_int(g, 0), "");

	return LLVMBuildSelect(g->b, none, gen_int(g, UINT32_MAX), s, "");
}

bool emit_mapa(struct gen *g, struct inst *i)
{
	LLVMValueRef a, rank, each;

	if (i->type_count != 1 || g->frame)
		return false;
	a = in_window(g, i, 1);
	each = stride(g);
	rank = LLVMBuildZExt(g->b, emit_operand(g, &i->operands[2], g->i32), g->i64, "");
	a = LLVMBuildURem(g->b, a, each, "");
	a = LLVMBuildAdd(g->b, a, LLVMBuildMul(g->b, rank, each, ""), "");
	if (inst_space(i) != SPACE_SHARED)
		a = LLVMBuildAdd(g->b, a, g->shared_base, "");
	emit_result(g, &i->operands[0], emit_coerce(g, a, emit_type(g, i->types[0])));
	return true;
}

bool emit_getctarank(struct gen *g, struct inst *i)
{
	LLVMValueRef rank;

	if (i->type_count != 1 || g->frame)
		return false;
	rank = LLVMBuildUDiv(g->b, in_window(g, i, 1), stride(g), "");
	emit_result(g, &i->operands[0], LLVMBuildTrunc(g->b, rank, g->i32, ""));
	return true;
}

bool cluster_copy(struct gen *g, LLVMValueRef to, LLVMValueRef from, LLVMValueRef bytes,
	LLVMValueRef mask, LLVMValueRef barrier)
{
	LLVMValueRef a[] = {to, from, bytes, mask, barrier,
		gen_gep(g, g->b, g->mem, g->shared_base), stride(g), blocks(g)};

	return !g->frame && emit_builtin(g, "ptx_copy_to_cluster", a, 8);
}

LLVMValueRef cluster_first(struct gen *g, LLVMValueRef to, LLVMValueRef mask)
{
	LLVMValueRef a[] = {
		to, mask, gen_gep(g, g->b, g->mem, g->shared_base), stride(g), blocks(g)};

	return g->frame ? NULL : emit_builtin(g, "ptx_first_of_cluster", a, 5);
}

LLVMValueRef cluster_place(struct gen *g, LLVMValueRef pointer)
{
	LLVMValueRef at = LLVMBuildPtrToInt(g->b, pointer, g->i64, "");

	at = LLVMBuildSub(g->b, at, g->shared_base, "");
	return g->work->clustered ? LLVMBuildURem(g->b, at, stride(g), "") : at;
}

static LLVMValueRef has_several(struct gen *g)
{
	return LLVMBuildICmp(g->b, LLVMIntUGT, blocks(g), LLVMConstInt(g->i32, 1, false), "");
}

/* Calls a member of struct ptx_runtime if `when`. `mem` goes along as others change memory meanwhile. */
static void call_if(struct gen *g, LLVMValueRef when, size_t member)
{
	LLVMValueRef a[2] = {g->launch, g->mem};
	struct gen_if begun = gen_begin_if(g, when, "cluster");

	call_runtime(g, member, g->none, a, 2);
	gen_end_if(g, &begun, NULL, NULL);
}

void cluster_meet(struct gen *g)
{
	LLVMValueRef when = has_several(g), due;

	if (g->cluster_due) {
		due = LLVMBuildLoad2(g->b, g->i32, g->cluster_due, "");
		due = LLVMBuildICmp(g->b, LLVMIntNE, due, LLVMConstNull(g->i32), "");
		when = LLVMBuildAnd(g->b, when, due, "");
		LLVMBuildStore(g->b, LLVMConstNull(g->i32), g->cluster_due);
	}
	call_if(g, when, offsetof(struct ptx_runtime, cluster_meet));
}

void cluster_give_way(struct gen *g)
{
	if (g->work->clustered)
		call_if(g, has_several(g), offsetof(struct ptx_runtime, cluster_give_way));
}
