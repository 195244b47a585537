/* SPDX-License-Identifier: MIT
 *
 * Registers, operands and the dispatch of instructions. An opcode without a native emitter calls
 * the C function of builtins.c that is named after it: bfe.u32 calls ptx_bfe_u32.
 */
#include "device/cpu/ptx/gen.h"

#include <stdio.h>
#include <string.h>

LLVMTypeRef emit_type(struct gen *g, unsigned type)
{
	switch (ptx_type_class[type]) {
	case 'p':
		return g->i1;
	case 'f':
		return type == TYPE_f16 ? g->half : type == TYPE_f32 ? g->f32 : g->f64;
	}
	return LLVMIntTypeInContext(g->context, type ? ptx_type_bits[type] : 32);
}

static unsigned type_bits(LLVMTypeRef type)
{
	switch (LLVMGetTypeKind(type)) {
	case LLVMHalfTypeKind:
		return 16;
	case LLVMFloatTypeKind:
		return 32;
	case LLVMDoubleTypeKind:
		return 64;
	case LLVMIntegerTypeKind:
		return LLVMGetIntTypeWidth(type);
	case LLVMPointerTypeKind:
		return 64;
	default:
		return 0;
	}
}

LLVMTypeRef reg_type(struct gen *g, uint32_t reg)
{
	const struct work_reg *r = &g->work->regs[reg];
	unsigned bits = ptx_type_bits[r->type];

	if (r->is_float && bits == 32)
		return g->f32;
	if (r->is_float && bits == 64)
		return g->f64;
	return LLVMIntTypeInContext(g->context, bits);
}

LLVMValueRef reg_storage(struct gen *g, uint32_t reg)
{
	if (!g->storage[reg])
		g->storage[reg] = gen_alloca(g, reg_type(g, reg), "");
	return g->storage[reg];
}

LLVMValueRef reg_read(struct gen *g, uint32_t reg)
{
	LLVMBuilderRef b = g->work->regs[reg].scalar ? g->scalar : g->b;

	return LLVMBuildLoad2(b, reg_type(g, reg), reg_storage(g, reg), "");
}

void reg_write(struct gen *g, uint32_t reg, LLVMValueRef value)
{
	LLVMBuildStore(g->b, emit_coerce(g, value, reg_type(g, reg)), reg_storage(g, reg));
}

LLVMValueRef emit_coerce(struct gen *g, LLVMValueRef v, LLVMTypeRef want)
{
	LLVMTypeRef have = LLVMTypeOf(v);
	unsigned from = type_bits(have), to = type_bits(want);

	if (have == want)
		return v;
	if (LLVMGetTypeKind(want) == LLVMPointerTypeKind)
		return LLVMBuildAddrSpaceCast(g->b, v, want, "");
	if (LLVMGetTypeKind(have) == LLVMPointerTypeKind)
		return emit_coerce(g, LLVMBuildPtrToInt(g->b, v, g->i64, ""), want);
	if (LLVMGetTypeKind(have) != LLVMIntegerTypeKind && from != to)
		v = LLVMBuildBitCast(g->b, v, LLVMIntTypeInContext(g->context, from), "");
	if (from > to)
		v = LLVMBuildTrunc(g->b, v, LLVMIntTypeInContext(g->context, to), "");
	else if (from < to)
		v = LLVMBuildZExt(g->b, v, LLVMIntTypeInContext(g->context, to), "");
	if (LLVMTypeOf(v) == want)
		return v;
	return LLVMBuildBitCast(g->b, v, want, "");
}

static LLVMValueRef literal(struct gen *g, const struct operand *o, LLVMTypeRef want)
{
	LLVMTypeKind kind = LLVMGetTypeKind(want);
	uint64_t bits = (uint64_t)o->bits;
	double d = 0;
	float f;

	if (kind == LLVMIntegerTypeKind) {
		if (o->literal == 8 && LLVMGetIntTypeWidth(want) == 32) {
			memcpy(&d, &bits, 8);
			f = (float)d;
			bits = 0;
			memcpy(&bits, &f, 4);
		}
		if (LLVMGetIntTypeWidth(want) > 64)
			return LLVMConstInt(want, bits, true);
		return LLVMConstInt(want, bits, false);
	}
	if (o->literal == 4) {
		memcpy(&f, &bits, 4);
		if (kind == LLVMFloatTypeKind) /* bits, so that a NaN keeps its payload */
			return LLVMConstBitCast(LLVMConstInt(g->i32, bits, false), want);
		return LLVMConstReal(want, (double)f);
	}
	if (o->literal == 8) {
		memcpy(&d, &bits, 8);
		if (kind == LLVMDoubleTypeKind)
			return LLVMConstBitCast(LLVMConstInt(g->i64, bits, false), want);
		return LLVMConstReal(want, d);
	}
	return LLVMConstBitCast(
		LLVMConstInt(LLVMIntTypeInContext(g->context, type_bits(want)), bits, false), want);
}

static LLVMValueRef vector_operand(struct gen *g, const struct operand *o, LLVMTypeRef want)
{
	unsigned bits = type_bits(want), each = o->count ? bits / o->count : bits;
	LLVMTypeRef whole = LLVMIntTypeInContext(g->context, bits);
	LLVMTypeRef part = LLVMIntTypeInContext(g->context, each ? each : 1);
	LLVMValueRef v = LLVMConstInt(whole, 0, false);

	for (unsigned k = 0; k < o->count; k++) {
		LLVMValueRef e = emit_operand(g, &o->elements[k], part);

		e = LLVMBuildZExt(g->b, e, whole, "");
		if (LLVMTypeOf(e) == whole && k)
			e = LLVMBuildShl(g->b, e, LLVMConstInt(whole, k * each, false), "");
		v = LLVMBuildOr(g->b, v, e, "");
	}
	return emit_coerce(g, v, want);
}

LLVMValueRef emit_operand(struct gen *g, const struct operand *o, LLVMTypeRef want)
{
	LLVMValueRef v;

	switch (o->kind) {
	case OPERAND_INT:
		v = literal(g, o, want);
		break;
	case OPERAND_REG:
		v = emit_coerce(g, reg_read(g, o->id), want);
		break;
	case OPERAND_SPECIAL:
		v = emit_coerce(g, emit_special(g, o->id), want);
		break;
	case OPERAND_SYMBOL:
		v = emit_coerce(g, emit_symbol(g, o), want);
		break;
	case OPERAND_FUNCTION:
		v = emit_coerce(g, LLVMConstInt(g->i64, o->function->index + 1, false), want);
		break;
	case OPERAND_VECTOR:
		v = vector_operand(g, o, want);
		break;
	default:
		v = LLVMConstNull(want);
	}
	if (o->negated && LLVMGetTypeKind(want) == LLVMIntegerTypeKind)
		v = LLVMBuildNot(g->b, v, "");
	return v;
}

void emit_result(struct gen *g, const struct operand *o, LLVMValueRef value)
{
	if (o->kind == OPERAND_REG)
		reg_write(g, o->id, value);
	if (o->kind != OPERAND_VECTOR || !o->count)
		return;
	unsigned bits = type_bits(LLVMTypeOf(value)), each = bits / o->count;
	LLVMTypeRef whole = LLVMIntTypeInContext(g->context, bits);
	if (!each)
		return;
	value = emit_coerce(g, value, whole);
	for (unsigned k = 0; k < o->count; k++) {
		LLVMValueRef e = value;

		if (k)
			e = LLVMBuildLShr(g->b, e, LLVMConstInt(whole, k * each, false), "");
		e = LLVMBuildTrunc(g->b, e, LLVMIntTypeInContext(g->context, each), "");
		emit_result(g, &o->elements[k], e);
	}
}

/* ---- builtins ---- */

LLVMValueRef emit_builtin(struct gen *g, const char *name, LLVMValueRef *arguments, unsigned count)
{
	LLVMValueRef f = LLVMGetNamedFunction(g->module, name);

	if (!f || LLVMCountParams(f) != count)
		return NULL;
	LLVMTypeRef type = LLVMGlobalGetValueType(f);
	for (unsigned k = 0; k < count; k++)
		arguments[k] = emit_coerce(g, arguments[k], LLVMTypeOf(LLVMGetParam(f, k)));
	return LLVMBuildCall2(g->b, type, f, arguments, count, "");
}

/* What saturates results of the type; NULL: nothing does, or an operation does it itself. */
static const char *saturation(const struct inst *i)
{
	switch (i->types[0]) {
	case TYPE_f32:
		return "ptx_sat_f32";
	case TYPE_f64:
		return "ptx_sat_f64";
	case TYPE_f16:
		return "ptx_sat_f16";
	case TYPE_f16x2:
		return "ptx_sat_f16x2";
	}
	return NULL;
}

static bool in_name(const struct inst *i, unsigned modifier)
{
	switch (modifier) {
	case MOD_ftz: /* an approximation of its own has it in f64 */
		return i->types[0] == TYPE_f64;
	case MOD_approx:
		return i->op == OP_div;
	case MOD_rn:
	case MOD_full:
		return false;
	case MOD_sat:
		return !saturation(i);
	}
	return true;
}

static void builtin_name(const struct inst *i, char *name, size_t size)
{
	size_t n = (size_t)snprintf(name, size, "ptx_%s", ptx_opcodes[i->op].name);

	for (unsigned k = 0; k < i->modifier_count && n < size; k++)
		if (in_name(i, i->modifiers[k]))
			n += (size_t)snprintf(
				name + n, size - n, "_%s", ptx_modifier_name[i->modifiers[k]]);
	for (unsigned k = 0; k < i->type_count && n < size; k++)
		n += (size_t)snprintf(name + n, size - n, "_%s", ptx_type_name[i->types[k]]);
}

/* ftz and sat of floating results: the same for every operation. */
static LLVMValueRef flush(struct gen *g, const struct inst *i, LLVMValueRef v)
{
	LLVMValueRef argument = v;

	if (!inst_has(i, MOD_ftz))
		return v;
	if (i->types[0] == TYPE_f16x2)
		return emit_builtin(g, "ptx_flush_f16x2", &argument, 1);
	if (LLVMTypeOf(v) == g->half)
		return emit_builtin(g, "ptx_flush_f16", &argument, 1);
	return LLVMTypeOf(v) == g->f32 ? emit_builtin(g, "ptx_flush_f32", &argument, 1) : v;
}

static LLVMValueRef saturate(struct gen *g, const struct inst *i, LLVMValueRef v)
{
	const char *name = inst_has(i, MOD_sat) ? saturation(i) : NULL;

	return name ? emit_builtin(g, name, &v, 1) : v;
}

static bool emit_by_name(struct gen *g, struct inst *i)
{
	LLVMValueRef arguments[PTX_MAX_OPERANDS];
	char name[120];
	unsigned count = i->operand_count - 1u;

	builtin_name(i, name, sizeof(name));
	LLVMValueRef f = LLVMGetNamedFunction(g->module, name);
	if (!f || LLVMCountParams(f) != count || !i->dest_count)
		return false;
	for (unsigned k = 0; k < count; k++) {
		LLVMTypeRef type = LLVMTypeOf(LLVMGetParam(f, k));

		arguments[k] = flush(g, i, emit_operand(g, &i->operands[k + 1], type));
	}
	LLVMValueRef v = emit_builtin(g, name, arguments, count);
	if (!v)
		return false;
	emit_result(g, &i->operands[0], saturate(g, i, flush(g, i, v)));
	return true;
}

/* A policy of the cache, which is for nothing here. */
static bool emit_policy(struct gen *g, struct inst *i)
{
	emit_result(g, &i->operands[0], gen_int(g, 0));
	return true;
}

/* A conversion of which more is said than two types. */
static bool cvt_by_name(const struct inst *i)
{
	return i->op == OP_cvt && (i->type_count != 2 || inst_has(i, MOD_pack));
}

/* ---- dispatch ---- */

typedef bool (*emitter)(struct gen *g, struct inst *i);

static const emitter emitters[OP_COUNT] = {
	[OP_add] = emit_arith,
	[OP_sub] = emit_arith,
	[OP_addc] = emit_arith,
	[OP_subc] = emit_arith,
	[OP_mul] = emit_arith,
	[OP_mad] = emit_arith,
	[OP_madc] = emit_arith,
	[OP_fma] = emit_arith,
	[OP_and] = emit_arith,
	[OP_or] = emit_arith,
	[OP_xor] = emit_arith,
	[OP_not] = emit_arith,
	[OP_neg] = emit_arith,
	[OP_shl] = emit_arith,
	[OP_shr] = emit_arith,
	[OP_setp] = emit_arith,
	[OP_set] = emit_arith,
	[OP_selp] = emit_arith,
	[OP_mov] = emit_arith,
	[OP_exchange] = emit_arith,
	[OP_lop3] = emit_arith,
	[OP_cvt] = emit_cvt,
	[OP_cvta] = emit_cvta,
	[OP_isspacep] = emit_isspacep,
	[OP_ld] = emit_load,
	[OP_ldu] = emit_load,
	[OP_st] = emit_store,
	[OP_cp] = emit_copy,
	[OP_mbarrier] = emit_mbarrier,
	[OP_async] = emit_async,
	[OP_createpolicy] = emit_policy,
	[OP_mapa] = emit_mapa,
	[OP_getctarank] = emit_getctarank,
	[OP_atom] = emit_atomic,
	[OP_red] = emit_atomic,
	[OP_membar] = emit_fence,
	[OP_fence] = emit_fence,
	[OP_call] = emit_call,
	[OP_trap] = emit_trap,
	[OP_brkpt] = emit_fence,
	[OP_nanosleep] = emit_fence,
	[OP_shfl] = emit_collective,
	[OP_vote] = emit_collective,
	[OP_match] = emit_collective,
	[OP_redux] = emit_collective,
	[OP_activemask] = emit_collective,
	[OP_elect] = emit_collective,
	[OP_mma] = emit_matrix,
	[OP_wmma] = emit_matrix,
	[OP_ldmatrix] = emit_matrix,
	[OP_stmatrix] = emit_matrix,
	[OP_movmatrix] = emit_matrix,
	[OP_wgmma] = emit_matrix,
	[OP_tex] = emit_texture,
	[OP_tld4] = emit_texture,
	[OP_txq] = emit_texture,
	[OP_suld] = emit_texture,
	[OP_sust] = emit_texture,
	[OP_suq] = emit_texture,
	[OP_bar] = emit_collective,
	[OP_barrier] = emit_collective,
};

static void note_scalar(void *data, struct operand *o)
{
	int *scalar = ((void **)data)[1];

	*scalar = ((struct work *)((void **)data)[0])->regs[o->id].scalar && *scalar ? 1 : 0;
}

void emit_inst(struct gen *g, struct inst *i)
{
	int scalar = 2; /* 2: no register result at all */
	void *data[2] = {g->work, &scalar};
	LLVMBuilderRef body = g->b;
	bool in_body = g->in_body;

	if ((ptx_opcodes[i->op].flags & OPF_TERMINATOR) || g->work->error)
		return;
	inst_defs(i, note_scalar, data);
	g->line = i->line;
	if (scalar == 1) {
		g->b = g->scalar;
		g->in_body = false;
	}
	bool done = butterfly_emit(g, i) ||
		    (emitters[i->op] ? emitters[i->op](g, i) : emit_by_name(g, i));
	if (!done && (emitters[i->op] == emit_arith || cvt_by_name(i)))
		done = emit_by_name(g, i);
	g->b = body;
	g->in_body = in_body;
	if (!done)
		gen_unsupported(g, i);
}
