/* SPDX-License-Identifier: MIT
 *
 * cvt between integers and floating numbers. Directed rounding and bf16 go to builtins.c.
 */
#include "device/cpu/ptx/gen.h"

#include <string.h>

struct conversion {
	struct gen *g;
	struct inst *i;
	unsigned to, from;
	LLVMTypeRef to_type, from_type;
};

static LLVMValueRef intrinsic(
	struct gen *g, const char *name, LLVMTypeRef *types, unsigned count, LLVMValueRef v)
{
	unsigned id = LLVMLookupIntrinsicID(name, strlen(name));
	LLVMValueRef f = LLVMGetIntrinsicDeclaration(g->module, id, types, count);

	return LLVMBuildCall2(g->b, LLVMGlobalGetValueType(f), f, &v, 1, "");
}

static bool is_float(unsigned type)
{
	return ptx_type_class[type] == 'f';
}

static bool is_int(unsigned type)
{
	return ptx_type_class[type] && strchr("bus", ptx_type_class[type]);
}

static bool directed(const struct inst *i)
{
	return inst_has(i, MOD_rz) || inst_has(i, MOD_rm) || inst_has(i, MOD_rp);
}

static LLVMValueRef clamp(struct conversion *c, LLVMValueRef v)
{
	struct gen *g = c->g;
	unsigned to = ptx_type_bits[c->to];
	bool from_signed = ptx_type_class[c->from] == 's', to_signed = ptx_type_class[c->to] == 's';
	LLVMTypeRef wide = LLVMIntTypeInContext(g->context, 66);
	LLVMValueRef low = LLVMConstNull(wide), high = LLVMConstInt(wide, 1, false), x;

	x = from_signed ? LLVMBuildSExt(g->b, v, wide, "") : LLVMBuildZExt(g->b, v, wide, "");
	high = LLVMBuildShl(g->b, high, LLVMConstInt(wide, to - to_signed, false), "");
	if (to_signed)
		low = LLVMConstNeg(high);
	high = LLVMConstSub(high, LLVMConstInt(wide, 1, false));
	x = LLVMBuildSelect(g->b, LLVMBuildICmp(g->b, LLVMIntSLT, x, low, ""), low, x, "");
	x = LLVMBuildSelect(g->b, LLVMBuildICmp(g->b, LLVMIntSGT, x, high, ""), high, x, "");
	return LLVMBuildTrunc(g->b, x, c->to_type, "");
}

static LLVMValueRef int_to_int(struct conversion *c, LLVMValueRef v)
{
	unsigned from = ptx_type_bits[c->from], to = ptx_type_bits[c->to];

	if (inst_has(c->i, MOD_sat))
		return clamp(c, v);
	if (to < from)
		return LLVMBuildTrunc(c->g->b, v, c->to_type, "");
	if (to == from)
		return v;
	return ptx_type_class[c->from] == 's' ? LLVMBuildSExt(c->g->b, v, c->to_type, "")
					      : LLVMBuildZExt(c->g->b, v, c->to_type, "");
}

static LLVMValueRef round_to_int(struct conversion *c, LLVMValueRef v)
{
	const char *name = NULL;

	if (inst_has(c->i, MOD_rni) ||
		(is_float(c->to) && inst_has(c->i, MOD_rn) && c->to == c->from))
		name = "llvm.roundeven";
	else if (inst_has(c->i, MOD_rmi))
		name = "llvm.floor";
	else if (inst_has(c->i, MOD_rpi))
		name = "llvm.ceil";
	else if (inst_has(c->i, MOD_rzi))
		name = "llvm.trunc";
	return name ? intrinsic(c->g, name, &c->from_type, 1, v) : v;
}

/* Out of range clamps; a NaN gives 0, or the top bit when 64 bits are involved. */
static LLVMValueRef float_to_int(struct conversion *c, LLVMValueRef v)
{
	struct gen *g = c->g;
	bool to_signed = ptx_type_class[c->to] == 's';
	LLVMTypeRef types[2] = {c->to_type, c->from_type};
	LLVMValueRef r;

	v = round_to_int(c, v);
	r = intrinsic(g, to_signed ? "llvm.fptosi.sat" : "llvm.fptoui.sat", types, 2, v);
	if (c->from == TYPE_f64 || ptx_type_bits[c->to] == 64) {
		LLVMValueRef top =
			LLVMConstInt(c->to_type, 1ull << (ptx_type_bits[c->to] - 1), false);
		LLVMValueRef nan = LLVMBuildFCmp(g->b, LLVMRealUNO, v, v, "");

		r = LLVMBuildSelect(g->b, nan, top, r, "");
	}
	return r;
}

static LLVMValueRef float_to_float(struct conversion *c, LLVMValueRef v)
{
	struct gen *g = c->g;

	v = round_to_int(c, v);
	if (c->to == c->from)
		return v;
	if (ptx_type_bits[c->to] > ptx_type_bits[c->from])
		return LLVMBuildFPExt(g->b, v, c->to_type, "");
	if (c->from == TYPE_f64 && c->to == TYPE_f16)
		return emit_builtin(g, "ptx_cvt_f16_f64", &v, 1);
	return LLVMBuildFPTrunc(g->b, v, c->to_type, "");
}

/* .ftz and .sat of a floating result. */
static LLVMValueRef finished(struct conversion *c, LLVMValueRef v)
{
	struct gen *g = c->g;

	if (inst_has(c->i, MOD_ftz) && c->to == TYPE_f32)
		v = emit_builtin(g, "ptx_flush_f32", &v, 1);
	if (inst_has(c->i, MOD_sat))
		v = emit_builtin(g,
			c->to == TYPE_f32   ? "ptx_sat_f32"
			: c->to == TYPE_f64 ? "ptx_sat_f64"
					    : "ptx_sat_f16",
			&v, 1);
	return v;
}

/* .ftz of an operand, too. */
static LLVMValueRef flushed(struct conversion *c, LLVMValueRef v)
{
	return inst_has(c->i, MOD_ftz) && c->from == TYPE_f32
		       ? emit_builtin(c->g, "ptx_flush_f32", &v, 1)
		       : v;
}

static LLVMValueRef convert(struct conversion *c)
{
	struct gen *g = c->g;
	LLVMValueRef v = emit_operand(g, &c->i->operands[1], c->from_type);

	if (c->from == TYPE_bf16) { /* to an integer: as f32 has it */
		v = emit_builtin(g, "ptx_cvt_f32_bf16", &v, 1);
		c->from = TYPE_f32;
		c->from_type = g->f32;
	}
	if (is_int(c->to) && is_int(c->from))
		return int_to_int(c, v);
	if (is_int(c->from))
		return finished(c, ptx_type_class[c->from] == 's'
					   ? LLVMBuildSIToFP(g->b, v, c->to_type, "")
					   : LLVMBuildUIToFP(g->b, v, c->to_type, ""));
	v = flushed(c, v);
	if (is_int(c->to))
		return float_to_int(c, v);
	return finished(c, float_to_float(c, v));
}

/* ptx_cvt_<rounding>_<to>_<from>, for what is not handled above. */
static bool convert_by_name(struct conversion *c)
{
	struct gen *g = c->g;
	char name[80] = "ptx_cvt";
	LLVMValueRef arguments[2];

	for (unsigned k = 0; k < c->i->modifier_count; k++) {
		unsigned m = c->i->modifiers[k];

		if (m == MOD_ftz || m == MOD_rn || m == MOD_sat)
			continue;
		strncat(name, "_", sizeof(name) - strlen(name) - 1);
		strncat(name, ptx_modifier_name[m], sizeof(name) - strlen(name) - 1);
	}
	for (unsigned k = 0; k < 2; k++) {
		strncat(name, "_", sizeof(name) - strlen(name) - 1);
		strncat(name, ptx_type_name[c->i->types[k]], sizeof(name) - strlen(name) - 1);
	}
	LLVMValueRef f = LLVMGetNamedFunction(g->module, name);
	unsigned count = c->i->operand_count - 1u;
	if (!f || count > 2 || LLVMCountParams(f) != count)
		return false;
	if (inst_has(c->i, MOD_sat) && !is_float(c->to))
		return false;
	for (unsigned k = 0; k < count; k++)
		arguments[k] = flushed(
			c, emit_operand(g, &c->i->operands[k + 1], LLVMTypeOf(LLVMGetParam(f, k))));
	emit_result(g, &c->i->operands[0], finished(c, emit_builtin(g, name, arguments, count)));
	return true;
}

/* A register wider than the result holds it extended by its sign. */
static void result_extended(struct conversion *c, LLVMValueRef v)
{
	struct gen *g = c->g;
	const struct operand *d = &c->i->operands[0];

	if (d->kind == OPERAND_REG && ptx_type_class[c->to] == 's') {
		unsigned bits = ptx_type_bits[g->work->regs[d->id].type];

		if (bits > ptx_type_bits[c->to])
			v = LLVMBuildSExt(g->b, v, LLVMIntTypeInContext(g->context, bits), "");
	}
	emit_result(g, d, v);
}

bool emit_cvt(struct gen *g, struct inst *i)
{
	if (i->type_count != 2)
		return false;
	struct conversion c = {g, i, i->types[0], i->types[1], emit_type(g, i->types[0]),
		emit_type(g, i->types[1])};
	bool plain = (is_int(c.to) || is_float(c.to)) && (is_int(c.from) || is_float(c.from));
	bool exact = is_float(c.to) &&
		     (is_float(c.from) ? ptx_type_bits[c.to] >= ptx_type_bits[c.from]
				       : ptx_type_bits[c.to] >= 2 * ptx_type_bits[c.from]);

	if (inst_has(i, MOD_pack))
		return false;
	plain |= is_int(c.to) && c.from == TYPE_bf16;
	if (!plain || i->operand_count != 2 || (directed(i) && !exact) || inst_has(i, MOD_relu) ||
		inst_has(i, MOD_satfinite) || inst_has(i, MOD_rna))
		return convert_by_name(&c);
	LLVMValueRef v = convert(&c);
	if (!v)
		return false;
	result_extended(&c, v);
	return true;
}
