/* SPDX-License-Identifier: MIT
 *
 * The commonest arithmetic, emitted directly: integer operations, the carry chain, comparisons,
 * selections, moves and conversions. What is not handled here falls back to builtins.c.
 */
#include "device/cpu/ptx/gen.h"

#include <string.h>

static LLVMValueRef value(struct gen *g, const struct inst *i, unsigned k, LLVMTypeRef type)
{
	return emit_operand(g, &i->operands[k], type);
}

static unsigned class_of(const struct inst *i)
{
	return i->type_count ? (unsigned)ptx_type_class[i->types[0]] : 0;
}

static bool is_integer(const struct inst *i)
{
	return class_of(i) && strchr("bus", (int)class_of(i));
}

static LLVMValueRef extend(struct gen *g, LLVMValueRef v, LLVMTypeRef wide, bool is_signed)
{
	return is_signed ? LLVMBuildSExt(g->b, v, wide, "") : LLVMBuildZExt(g->b, v, wide, "");
}

/* ---- the carry chain: as on hardware, the flag is 1 behind a subtraction that borrowed nothing ---- */

static LLVMValueRef product(struct gen *g, struct inst *i, LLVMTypeRef type, LLVMTypeRef wide)
{
	bool is_signed = class_of(i) == 's';
	unsigned bits = LLVMGetIntTypeWidth(type), first = i->dest_count;
	LLVMValueRef a = extend(g, value(g, i, first, type), wide, is_signed);
	LLVMValueRef b = extend(g, value(g, i, first + 1, type), wide, is_signed);
	LLVMValueRef p = LLVMBuildMul(g->b, a, b, "");

	if (inst_has(i, MOD_hi))
		p = LLVMBuildLShr(g->b, p, LLVMConstInt(wide, bits, false), "");
	return LLVMBuildZExt(g->b, LLVMBuildTrunc(g->b, p, type, ""), wide, "");
}

static bool emit_carry(struct gen *g, struct inst *i)
{
	LLVMTypeRef type = emit_type(g, i->types[0]);
	unsigned bits = LLVMGetIntTypeWidth(type);
	LLVMTypeRef wide = LLVMIntTypeInContext(g->context, bits * 2);
	bool minus = i->op == OP_sub || i->op == OP_subc;
	bool mad = i->op == OP_mad || i->op == OP_madc;
	unsigned first = i->dest_count;
	LLVMValueRef a, b, sum, out = NULL;

	if (mad) {
		a = product(g, i, type, wide);
		b = LLVMBuildZExt(g->b, value(g, i, first + 2, type), wide, "");
	} else {
		a = LLVMBuildZExt(g->b, value(g, i, first, type), wide, "");
		b = LLVMBuildZExt(g->b, value(g, i, first + 1, type), wide, "");
	}
	sum = minus ? LLVMBuildSub(g->b, a, b, "") : LLVMBuildAdd(g->b, a, b, "");
	if (inst_reads_carry(i)) {
		LLVMValueRef c = value(g, i, i->operand_count - 1u, g->i1);

		c = LLVMBuildZExt(g->b, c, wide, "");
		if (minus)
			c = LLVMBuildXor(g->b, c, LLVMConstInt(wide, 1, false), "");
		sum = minus ? LLVMBuildSub(g->b, sum, c, "") : LLVMBuildAdd(g->b, sum, c, "");
	}
	if (inst_writes_carry(i)) {
		out = LLVMBuildLShr(g->b, sum, LLVMConstInt(wide, bits, false), "");
		out = LLVMBuildTrunc(g->b, out, g->i1, "");
		if (minus)
			out = LLVMBuildNot(g->b, out, "");
	}
	emit_result(g, &i->operands[0], LLVMBuildTrunc(g->b, sum, type, ""));
	if (out)
		emit_result(g, &i->operands[1], out);
	return true;
}

/* ---- integers ---- */

static LLVMValueRef multiply(struct gen *g, struct inst *i, LLVMTypeRef *result)
{
	LLVMTypeRef type = emit_type(g, i->types[0]);
	unsigned bits = LLVMGetIntTypeWidth(type);
	LLVMTypeRef wide = LLVMIntTypeInContext(g->context, bits * 2);
	bool is_signed = class_of(i) == 's';

	*result = type;
	if (!inst_has(i, MOD_wide) && !inst_has(i, MOD_hi))
		return LLVMBuildMul(g->b, value(g, i, 1, type), value(g, i, 2, type), "");
	LLVMValueRef a = extend(g, value(g, i, 1, type), wide, is_signed);
	LLVMValueRef b = extend(g, value(g, i, 2, type), wide, is_signed);
	LLVMValueRef p =
		is_signed ? LLVMBuildNSWMul(g->b, a, b, "") : LLVMBuildNUWMul(g->b, a, b, "");
	if (inst_has(i, MOD_wide)) {
		*result = wide;
		return p;
	}
	p = LLVMBuildLShr(g->b, p, LLVMConstInt(wide, bits, false), "");
	return LLVMBuildTrunc(g->b, p, type, "");
}

/* Amounts of the width or more give 0, or copies of the sign. */
static LLVMValueRef shift(struct gen *g, struct inst *i, LLVMTypeRef type)
{
	LLVMValueRef a = value(g, i, 1, type), n = value(g, i, 2, g->i32), r;
	unsigned bits = LLVMGetIntTypeWidth(type);
	bool is_signed = class_of(i) == 's' && i->op == OP_shr;
	LLVMValueRef limit = LLVMConstInt(g->i32, bits, false);
	LLVMValueRef fits = LLVMBuildICmp(g->b, LLVMIntULT, n, limit, "");
	LLVMValueRef last = LLVMConstInt(g->i32, bits - 1, false);

	n = LLVMBuildSelect(g->b, fits, n, is_signed ? last : LLVMConstNull(g->i32), "");
	n = emit_coerce(g, n, type);
	if (is_signed)
		return LLVMBuildAShr(g->b, a, n, "");
	r = i->op == OP_shl ? LLVMBuildShl(g->b, a, n, "") : LLVMBuildLShr(g->b, a, n, "");
	return LLVMBuildSelect(g->b, fits, r, LLVMConstNull(type), "");
}

static LLVMValueRef lop3(struct gen *g, struct inst *i)
{
	LLVMValueRef in[3], r = LLVMConstNull(g->i32);
	unsigned table = (unsigned)i->operands[4].bits & 255;

	for (unsigned k = 0; k < 3; k++)
		in[k] = value(g, i, k + 1, g->i32);
	for (unsigned m = 0; m < 8; m++) {
		LLVMValueRef t = NULL;

		if (!(table >> m & 1))
			continue;
		for (unsigned k = 0; k < 3; k++) {
			bool set = m >> (2 - k) & 1;
			LLVMValueRef v = set ? in[k] : LLVMBuildNot(g->b, in[k], "");

			t = t ? LLVMBuildAnd(g->b, t, v, "") : v;
		}
		r = LLVMBuildOr(g->b, r, t, "");
	}
	return r;
}

/* lop3.and.b32 d|p, a, b, c, table, q */
static bool emit_lop3(struct gen *g, struct inst *i)
{
	LLVMValueRef r = lop3(g, i), p;
	const struct operand *d = &i->operands[0];

	if (i->operands[4].kind != OPERAND_INT)
		return false;
	if (i->operand_count == 5) {
		emit_result(g, d, r);
		return true;
	}
	p = LLVMBuildICmp(g->b, LLVMIntNE, r, LLVMConstNull(g->i32), "");
	LLVMValueRef q = value(g, i, 5, g->i1);
	p = inst_has(i, MOD_or) ? LLVMBuildOr(g->b, p, q, "") : LLVMBuildAnd(g->b, p, q, "");
	if (d->kind != OPERAND_VECTOR || d->count != 2)
		return false;
	emit_result(g, &d->elements[0], r);
	emit_result(g, &d->elements[1], p);
	return true;
}

/* Whether it makes the index of a thread along x, which is below 2^31, as are the numbers that it adds up. */
static bool is_index(const struct gen *g, const struct inst *i)
{
	return (i->op == OP_add || i->op == OP_mad) && i->operands[0].kind == OPERAND_REG &&
	       g->work->regs[i->operands[0].id].index;
}

static bool emit_integer(struct gen *g, struct inst *i)
{
	LLVMTypeRef type = emit_type(g, i->types[0]);
	LLVMValueRef r = NULL;

	if (inst_has(i, MOD_sat))
		return false;
	if (inst_writes_carry(i) || inst_reads_carry(i))
		return emit_carry(g, i);
	switch (i->op) {
	case OP_add:
		r = LLVMBuildAdd(g->b, value(g, i, 1, type), value(g, i, 2, type), "");
		break;
	case OP_sub:
		r = LLVMBuildSub(g->b, value(g, i, 1, type), value(g, i, 2, type), "");
		break;
	case OP_mul:
		r = multiply(g, i, &type);
		break;
	case OP_mad:
		r = multiply(g, i, &type);
		r = LLVMBuildAdd(g->b, r, value(g, i, 3, type), "");
		break;
	case OP_neg:
		r = LLVMBuildNeg(g->b, value(g, i, 1, type), "");
		break;
	case OP_shl:
	case OP_shr:
		r = shift(g, i, type);
		break;
	default:
		return false;
	}
	if (is_index(g, i) && LLVMIsABinaryOperator(r)) {
		LLVMSetNUW(r, true);
		LLVMSetNSW(r, true);
	}
	emit_result(g, &i->operands[0], r);
	return true;
}

static bool emit_bits(struct gen *g, struct inst *i)
{
	LLVMTypeRef type = emit_type(g, i->types[0]);
	LLVMValueRef a = value(g, i, 1, type), r;

	switch (i->op) {
	case OP_and:
		r = LLVMBuildAnd(g->b, a, value(g, i, 2, type), "");
		break;
	case OP_or:
		r = LLVMBuildOr(g->b, a, value(g, i, 2, type), "");
		break;
	case OP_xor:
		r = LLVMBuildXor(g->b, a, value(g, i, 2, type), "");
		break;
	default:
		r = LLVMBuildNot(g->b, a, "");
	}
	emit_result(g, &i->operands[0], r);
	return true;
}

/* ---- floating point, round to nearest, no ftz ---- */

static bool is_plain_float(const struct inst *i)
{
	if (i->types[0] != TYPE_f32 && i->types[0] != TYPE_f64)
		return false;
	for (unsigned k = 0; k < i->modifier_count; k++)
		if (i->modifiers[k] != MOD_rn)
			return false;
	return true;
}

static bool emit_float(struct gen *g, struct inst *i)
{
	LLVMTypeRef type = emit_type(g, i->types[0]);
	LLVMValueRef a = value(g, i, 1, type), b, r;

	if (i->op == OP_neg) {
		emit_result(g, &i->operands[0], LLVMBuildFNeg(g->b, a, ""));
		return true;
	}
	b = value(g, i, 2, type);
	switch (i->op) {
	case OP_add:
		r = LLVMBuildFAdd(g->b, a, b, "");
		break;
	case OP_sub:
		r = LLVMBuildFSub(g->b, a, b, "");
		break;
	case OP_mul:
		r = LLVMBuildFMul(g->b, a, b, "");
		break;
	default: {
		LLVMValueRef arguments[3] = {a, b, value(g, i, 3, type)};

		r = emit_builtin(
			g, i->types[0] == TYPE_f32 ? "ptx_fma_f32" : "ptx_fma_f64", arguments, 3);
	}
	}
	if (!r)
		return false;
	emit_result(g, &i->operands[0], r);
	return true;
}

/* ---- comparisons ---- */

static int int_predicate(unsigned modifier, bool is_signed)
{
	switch (modifier) {
	case MOD_eq:
		return LLVMIntEQ;
	case MOD_ne:
		return LLVMIntNE;
	case MOD_lt:
		return is_signed ? LLVMIntSLT : LLVMIntULT;
	case MOD_le:
		return is_signed ? LLVMIntSLE : LLVMIntULE;
	case MOD_gt:
		return is_signed ? LLVMIntSGT : LLVMIntUGT;
	case MOD_ge:
		return is_signed ? LLVMIntSGE : LLVMIntUGE;
	case MOD_lo:
		return LLVMIntULT;
	case MOD_ls:
		return LLVMIntULE;
	case MOD_hi:
		return LLVMIntUGT;
	case MOD_hs:
		return LLVMIntUGE;
	}
	return -1;
}

static int float_predicate(unsigned modifier)
{
	static const struct {
		uint8_t modifier, predicate;
	} rows[] = {{MOD_eq, LLVMRealOEQ}, {MOD_ne, LLVMRealONE}, {MOD_lt, LLVMRealOLT},
		{MOD_le, LLVMRealOLE}, {MOD_gt, LLVMRealOGT}, {MOD_ge, LLVMRealOGE},
		{MOD_equ, LLVMRealUEQ}, {MOD_neu, LLVMRealUNE}, {MOD_ltu, LLVMRealULT},
		{MOD_leu, LLVMRealULE}, {MOD_gtu, LLVMRealUGT}, {MOD_geu, LLVMRealUGE},
		{MOD_num, LLVMRealORD}, {MOD_nan, LLVMRealUNO}};

	for (size_t k = 0; k < sizeof(rows) / sizeof(*rows); k++)
		if (rows[k].modifier == modifier)
			return rows[k].predicate;
	return -1;
}

static LLVMValueRef compare_values(
	struct gen *g, struct inst *i, unsigned type, LLVMValueRef a, LLVMValueRef b)
{
	int predicate;

	if (ptx_type_class[type] == 'f') {
		predicate = float_predicate(i->modifiers[0]);
		if (inst_has(i, MOD_ftz) && type != TYPE_f64) {
			const char *flush = type == TYPE_f32 ? "ptx_flush_f32" : "ptx_flush_f16";

			a = emit_builtin(g, flush, &a, 1);
			b = emit_builtin(g, flush, &b, 1);
		}
		return predicate < 0 ? NULL
				     : LLVMBuildFCmp(g->b, (LLVMRealPredicate)predicate, a, b, "");
	}
	if (type == TYPE_bf16) {
		a = emit_builtin(g, "ptx_cvt_f32_bf16", &a, 1);
		b = emit_builtin(g, "ptx_cvt_f32_bf16", &b, 1);
		predicate = float_predicate(i->modifiers[0]);
		return predicate < 0 ? NULL
				     : LLVMBuildFCmp(g->b, (LLVMRealPredicate)predicate, a, b, "");
	}
	if (!strchr("bus", ptx_type_class[type]))
		return NULL;
	predicate = int_predicate(i->modifiers[0], ptx_type_class[type] == 's');
	return predicate < 0 ? NULL : LLVMBuildICmp(g->b, (LLVMIntPredicate)predicate, a, b, "");
}

static LLVMValueRef compare(struct gen *g, struct inst *i, unsigned type)
{
	LLVMTypeRef t = emit_type(g, type);

	if (!i->modifier_count)
		return NULL;
	LLVMValueRef a = value(g, i, 1, t), b = value(g, i, 2, t);

	return compare_values(g, i, type, a, b);
}

static LLVMValueRef combine(struct gen *g, struct inst *i, LLVMValueRef p)
{
	if (i->operand_count < 4)
		return p;
	LLVMValueRef c = value(g, i, 3, g->i1);

	if (inst_has(i, MOD_and))
		return LLVMBuildAnd(g->b, p, c, "");
	if (inst_has(i, MOD_or))
		return LLVMBuildOr(g->b, p, c, "");
	return LLVMBuildXor(g->b, p, c, "");
}

/* Of a pair, the lower half or the upper one. */
static LLVMValueRef half_of(struct gen *g, struct inst *i, unsigned operand, unsigned half)
{
	LLVMValueRef v = value(g, i, operand, g->i32);

	v = LLVMBuildLShr(g->b, v, LLVMConstInt(g->i32, 16 * half, false), "");
	return LLVMBuildTrunc(g->b, v, g->i16, "");
}

/* Comparisons of pairs: predicates of the lower and the upper half; or halves that are 1 and 0, of an integer all ones and 0. */
static bool compare_pairs(struct gen *g, struct inst *i, unsigned type)
{
	unsigned part = type == TYPE_f16x2 ? TYPE_f16 : TYPE_bf16;
	const struct operand *d = &i->operands[0];
	LLVMValueRef p[2], all = LLVMConstNull(g->i32);

	for (unsigned k = 0; k < 2; k++) {
		LLVMTypeRef t = emit_type(g, part);
		LLVMValueRef a = emit_coerce(g, half_of(g, i, 1, k), t);

		p[k] = i->modifier_count ? compare_values(g, i, part, a,
						   emit_coerce(g, half_of(g, i, 2, k), t))
					 : NULL;
		if (!p[k])
			return false;
		p[k] = combine(g, i, p[k]);
	}
	if (i->op == OP_setp) {
		if (d->kind != OPERAND_VECTOR || d->count != 2)
			return false;
		emit_result(g, &d->elements[0], p[0]);
		emit_result(g, &d->elements[1], p[1]);
		return true;
	}
	if (i->types[0] != type && i->types[0] != TYPE_u32 && i->types[0] != TYPE_s32)
		return false;
	for (unsigned k = 0; k < 2; k++) {
		uint64_t yes = i->types[0] != type ? 0xffff : type == TYPE_f16x2 ? 0x3c00 : 0x3f80;

		all = LLVMBuildOr(g->b, all,
			LLVMBuildSelect(g->b, p[k], LLVMConstInt(g->i32, yes << 16 * k, false),
				LLVMConstNull(g->i32), ""),
			"");
	}
	emit_result(g, d, all);
	return true;
}

static bool is_pair(unsigned type)
{
	return type == TYPE_f16x2 || type == TYPE_bf16x2;
}

static bool emit_setp(struct gen *g, struct inst *i)
{
	if (is_pair(i->types[0]))
		return compare_pairs(g, i, i->types[0]);
	const struct operand *d = &i->operands[0];
	LLVMValueRef p = compare(g, i, i->types[0]), result;

	if (!p)
		return false;
	result = combine(g, i, p);
	if (d->kind == OPERAND_VECTOR &&
		d->count == 2) { /* p|q: q from the opposite; either may be read, too */
		emit_result(g, &d->elements[1], combine(g, i, LLVMBuildNot(g->b, p, "")));
		d = &d->elements[0];
	}
	emit_result(g, d, result);
	return true;
}

static bool emit_set(struct gen *g, struct inst *i)
{
	if (i->type_count != 2)
		return false;
	if (is_pair(i->types[1]))
		return compare_pairs(g, i, i->types[1]);
	LLVMValueRef p = compare(g, i, i->types[1]);
	LLVMTypeRef type = emit_type(g, i->types[0]);

	if (!p)
		return false;
	p = combine(g, i, p);
	if (ptx_type_class[i->types[0]] == 'f')
		p = LLVMBuildUIToFP(g->b, p, type, "");
	else
		p = LLVMBuildSExt(g->b, p, type, "");
	emit_result(g, &i->operands[0], p);
	return true;
}

static bool emit_selp(struct gen *g, struct inst *i)
{
	LLVMTypeRef type = emit_type(g, i->types[0]);
	LLVMValueRef p = value(g, i, 3, g->i1);

	emit_result(g, &i->operands[0],
		LLVMBuildSelect(g->b, p, value(g, i, 1, type), value(g, i, 2, type), ""));
	return true;
}

bool emit_arith(struct gen *g, struct inst *i)
{
	if (!i->type_count)
		return false;
	switch (i->op) {
	case OP_setp:
		return emit_setp(g, i);
	case OP_set:
		return emit_set(g, i);
	case OP_selp:
		return emit_selp(g, i);
	case OP_mov:
	case OP_exchange:
		emit_result(g, &i->operands[0], value(g, i, 1, emit_type(g, i->types[0])));
		return true;
	case OP_lop3:
		return emit_lop3(g, i);
	}
	if (i->type_count != 1) /* add.f32.f16 reads a half */
		return false;
	switch (i->op) {
	case OP_and:
	case OP_or:
	case OP_xor:
	case OP_not:
		return class_of(i) == 'p' || is_integer(i) ? emit_bits(g, i) : false;
	}
	if (is_integer(i))
		return emit_integer(g, i);
	return is_plain_float(i) ? emit_float(g, i) : false;
}
