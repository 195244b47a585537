/* SPDX-License-Identifier: MIT
 *
 * Memory: addresses of the state spaces, loads, stores, atomics, fences, and calls to the runtime.
 *
 * Every address is an offset from an argument of the block function that LLVM may believe to alias
 * nothing else: `mem` (0 at run time) for generic and global addresses, and one each for shared,
 * local, constant and parameter memory. A space whose generic address the kernel takes is reached
 * through `mem` instead.
 */
#include "device/cpu/ptx/gen.h"

#include <string.h>

static LLVMValueRef add(struct gen *g, LLVMValueRef a, LLVMValueRef b)
{
	return LLVMBuildAdd(g->b, a, b, "");
}

/* Offset of the thread's local memory within that of the block. */
static LLVMValueRef local_offset(struct gen *g)
{
	LLVMValueRef t = LLVMBuildZExt(g->b, g->linear, g->i64, "");

	return LLVMBuildMul(g->b, t, gen_int(g, g->work->local_bytes), "");
}

LLVMValueRef generic_base(struct gen *g, unsigned space)
{
	switch (space) {
	case SPACE_SHARED:
		return g->shared_base;
	case SPACE_LOCAL:
		return g->frame ? g->locals_base : add(g, g->locals_base, local_offset(g));
	case SPACE_CONST:
		return g->globals_base;
	case SPACE_PARAM:
		return g->params_base;
	}
	return gen_int(g, 0);
}

/* A place among the thread's local variables as an address in its .local window. */
static LLVMValueRef local_address(struct gen *g, uint64_t at)
{
	if (!g->frame)
		return gen_int(g, at);
	return add(g, LLVMBuildSub(g->b, g->frame, g->locals_base, ""), gen_int(g, at));
}

static uint64_t placed(const struct placement *list, uint32_t count, const struct variable *v)
{
	for (uint32_t k = 0; k < count; k++)
		if (list[k].var == v)
			return list[k].offset;
	return UINT64_MAX;
}

/* The address of a variable in its own state space. */
LLVMValueRef emit_symbol(struct gen *g, const struct operand *o)
{
	const struct work *w = g->work;
	const struct variable *v = o->var;
	uint64_t offset = (uint64_t)o->bits, at;

	switch (v->space) {
	case SPACE_GLOBAL:
		return add(g, g->globals_base, gen_int(g, v->offset + offset));
	case SPACE_SHARED:
		at = placed(w->entry->shared, w->entry->shared_count, v) + offset;
		return g->shared_part ? add(g, g->shared_part, gen_int(g, at)) : gen_int(g, at);
	case SPACE_LOCAL:
		return local_address(g, placed(w->locals, w->local_count, v) + offset);
	case SPACE_PARAM:
		at = placed(w->locals, w->local_count, v);
		if (at != UINT64_MAX) /* a call parameter in local memory, seen from .param */
			return add(g,
				LLVMBuildSub(
					g->b, generic_base(g, SPACE_LOCAL), g->params_base, ""),
				local_address(g, at + offset));
	}
	return gen_int(g, v->offset + offset);
}

static const struct inst *only_def(const struct work *w, const struct operand *o)
{
	return o->kind == OPERAND_REG && w->regs[o->id].single ? &w->insts[w->regs[o->id].def]
							       : NULL;
}

static bool is_difference(const struct work *w, const struct operand *o)
{
	const struct inst *i = only_def(w, o);

	return i && i->dest_count == 1 && i->operands[0].kind == OPERAND_REG &&
	       (i->op == OP_add || i->op == OP_sub) && i->type_count == 1 &&
	       ptx_type_bits[i->types[0]] == 32 && w->regs[o->id].divergent;
}

/* Whether an address of 64 bits is a sum with the unsigned product of a sum of 32 bits, as that of s[t - 1] with an
 * unsigned t. Threads that do not get there may have wrapped: as the lower 32 bits say where in a window, LLVM is told
 * to look at them alone, and sees neighbours beside each other. */
static bool from_difference(const struct work *w, uint32_t reg)
{
	const struct inst *sum = only_def(w, &(struct operand){.kind = OPERAND_REG, .id = reg});

	if (!sum || sum->op != OP_add || sum->operand_count != 3)
		return false;
	for (unsigned k = 1; k < 3; k++) {
		const struct inst *product = only_def(w, &sum->operands[k]);

		if (product && product->op == OP_mul && inst_has(product, MOD_wide) &&
			product->types[0] == TYPE_u32 && is_difference(w, &product->operands[1]))
			return true;
	}
	return false;
}

LLVMValueRef emit_offset(struct gen *g, const struct operand *o, unsigned space)
{
	struct operand plain = *o;

	plain.memory = false;
	if (o->kind == OPERAND_SYMBOL && space == SPACE_LOCAL && o->var->space == SPACE_PARAM) {
		uint64_t at = placed(g->work->locals, g->work->local_count, o->var);

		return local_address(g, at + (uint64_t)o->bits);
	}
	if (o->kind != OPERAND_REG ||
		(!o->bits && !(space == SPACE_SHARED && from_difference(g->work, o->id))))
		return emit_operand(g, &plain, g->i64);
	LLVMValueRef offset = gen_int(g, (uint64_t)o->bits), v;
	/* A sum wraps at the register's width, and nvcc lets one of 32 bits begin below its window. As a window
	 * is smaller than 2 GiB, the sign says so, at no cost. */
	unsigned bits = ptx_type_bits[g->work->regs[o->id].type];
	bool window = space != SPACE_GLOBAL && space != SPACE_GENERIC;
	if (window && (bits == 32 || (space == SPACE_SHARED && from_difference(g->work, o->id))))
		v = LLVMBuildSExt(g->b, emit_operand(g, &plain, g->i32), g->i64, "");
	else
		v = emit_operand(g, &plain, g->i64);
	return add(g, v, offset);
}

LLVMValueRef emit_address(struct gen *g, const struct operand *o, unsigned space)
{
	LLVMValueRef a = emit_offset(g, o, space);

	switch (space) {
	case SPACE_SHARED:
		if (!g->work->shared_escapes)
			return gen_gep(g, g->b, g->shared, a);
		break;
	case SPACE_LOCAL:
		if (!g->work->local_escapes)
			return gen_gep(g, g->b, g->locals, add(g, local_offset(g), a));
		break;
	case SPACE_CONST:
		return gen_gep(g, g->b, g->globals, a);
	case SPACE_PARAM:
		if (!g->work->param_escapes)
			return gen_gep(g, g->b, g->params, a);
		break;
	}
	return gen_gep(g, g->b, g->mem, add(g, a, generic_base(g, space)));
}

static LLVMValueRef element_pointer(struct gen *g, LLVMValueRef base, unsigned k, unsigned bytes)
{
	return k ? gen_gep(g, g->b, base, gen_int(g, k * bytes)) : base;
}

/* ---- loads and stores ---- */

static void set_order(struct gen *g, const struct inst *i, LLVMValueRef access, bool load)
{
	bool strong = inst_has(i, load ? MOD_acquire : MOD_release);

	if (inst_has(i, MOD_volatile) || inst_has(i, MOD_mmio))
		LLVMSetVolatile(access, true);
	else if (strong || inst_has(i, MOD_relaxed)) {
		LLVMSetOrdering(access, !strong ? LLVMAtomicOrderingMonotonic
					: load  ? LLVMAtomicOrderingAcquire
						: LLVMAtomicOrderingRelease);
		LLVMSetVolatile(access, true);
	} else {
		gen_mark(g, access);
	}
}

static LLVMTypeRef memory_type(struct gen *g, const struct inst *i)
{
	unsigned type = i->types[0];

	if (type == TYPE_f32 || type == TYPE_f64)
		return emit_type(g, type);
	return LLVMIntTypeInContext(g->context, ptx_type_bits[type] < 8 ? 8 : ptx_type_bits[type]);
}

static void load_result(
	struct gen *g, const struct inst *i, const struct operand *d, LLVMValueRef v)
{
	if (d->kind == OPERAND_REG && ptx_type_class[i->types[0]] == 's') {
		unsigned bits = ptx_type_bits[g->work->regs[d->id].type];

		if (bits > ptx_type_bits[i->types[0]])
			v = LLVMBuildSExt(g->b, v, LLVMIntTypeInContext(g->context, bits), "");
	}
	emit_result(g, d, v);
}

static bool is_kernel_param(const struct gen *g, const struct operand *o)
{
	for (uint32_t k = 0; k < g->work->entry->param_count; k++)
		if (g->work->entry->params[k] == o->var)
			return true;
	return false;
}

/* A load that may be of a loop that waits for another block. */
static void give_way(struct gen *g, const struct inst *i)
{
	bool looks = inst_has(i, MOD_acquire) || inst_has(i, MOD_volatile);
	LLVMValueRef a[3], table;

	if (looks || inst_has(i, MOD_relaxed))
		cluster_give_way(g);
	if (!looks || inst_space(i) == SPACE_SHARED)
		return;
	table = gen_field(g, g->b, g->launch, g->ptr, offsetof(struct ptx_launch, runtime));
	a[0] = gen_field(g, g->b, g->launch, g->i64, offsetof(struct ptx_launch, workspace));
	a[1] = gen_field(g, g->b, table, g->i64, offsetof(struct ptx_runtime, give_way));
	a[2] = LLVMBuildPtrToInt(g->b, g->launch, g->i64, "");
	emit_builtin(g, "ptx_give_way", a, 3);
}

/* How many values a load or a store moves. 0: its operands are not what they must be. */
static unsigned moved_values(
	const struct inst *i, const struct operand *address, const struct operand *values)
{
	unsigned count = values->kind == OPERAND_VECTOR ? values->count : 1;
	unsigned width = inst_has(i, MOD_v8)   ? 8
			 : inst_has(i, MOD_v2) ? 2
			 : inst_has(i, MOD_v4) ? 4
					       : 1;

	return i->type_count == 1 && address->memory && count == width ? count : 0;
}

bool emit_load(struct gen *g, struct inst *i)
{
	const struct operand *d = &i->operands[0], *a = &i->operands[1];
	unsigned space = inst_space(i), count = moved_values(i, a, d), bytes;

	if (!count)
		return false;
	LLVMTypeRef type = memory_type(g, i);
	bytes = ptx_type_bits[i->types[0]] / 8u;
	bool preloaded = space == SPACE_PARAM && a->kind == OPERAND_SYMBOL &&
			 is_kernel_param(g, a) && a->bits >= 0 &&
			 (uint64_t)a->bits + (uint64_t)count * bytes <= a->var->size;
	LLVMValueRef base = preloaded ? NULL : emit_address(g, a, space);
	if (space == SPACE_GLOBAL || space == SPACE_GENERIC || space == SPACE_SHARED)
		give_way(g, i);
	for (unsigned k = 0; k < count; k++) {
		const struct operand *e = d->kind == OPERAND_VECTOR ? &d->elements[k] : d;
		LLVMValueRef v;

		if (preloaded) {
			v = gen_param(g, a->var->offset + (uint64_t)a->bits + k * bytes, type);
		} else {
			struct ptx_access access = {.bytes = (uint8_t)bytes,
				.align = (uint8_t)(k ? 1 : count * bytes),
				.kind = PTX_READS};
			LLVMValueRef p = checked_pointer(
				g, i, element_pointer(g, base, k, bytes), space, access, NULL);

			v = LLVMBuildLoad2(g->b, type, p, "");
			set_order(g, i, v, true);
		}
		load_result(g, i, e, v);
	}
	if (inst_has(i, MOD_acquire)) /* what was written before the value that it has got */
		checked_order(g, PTX_FENCE, NULL);
	return true;
}

bool emit_store(struct gen *g, struct inst *i)
{
	const struct operand *a = &i->operands[0], *s = &i->operands[1];
	unsigned space = inst_space(i), count = moved_values(i, a, s), bytes;

	if (!count)
		return false;
	LLVMTypeRef type = memory_type(g, i);
	bytes = ptx_type_bits[i->types[0]] / 8u;
	LLVMValueRef base = emit_address(g, a, space);
	if (inst_has(i, MOD_release))
		checked_order(g, PTX_FENCE, NULL);
	for (unsigned k = 0; k < count; k++) {
		const struct operand *e = s->kind == OPERAND_VECTOR ? &s->elements[k] : s;
		LLVMValueRef v = emit_operand(g, e, type);
		struct ptx_access access = {.bytes = (uint8_t)bytes,
			.align = (uint8_t)(k ? 1 : count * bytes),
			.kind = PTX_WRITES};
		LLVMValueRef p =
			checked_pointer(g, i, element_pointer(g, base, k, bytes), space, access, v);

		set_order(g, i, LLVMBuildStore(g->b, v, p), false);
	}
	return true;
}

static LLVMValueRef in_range(struct gen *g, LLVMValueRef a, LLVMValueRef base, LLVMValueRef bytes)
{
	return LLVMBuildICmp(g->b, LLVMIntULT, LLVMBuildSub(g->b, a, base, ""), bytes, "");
}

static LLVMValueRef shared_bytes(struct gen *g)
{
	LLVMValueRef total = gen_field(
		g, g->b, g->launch, g->i32, offsetof(struct ptx_launch, total_shared_bytes));

	return LLVMBuildZExt(g->b, total, g->i64, "");
}

/* Of any block of the cluster. */
static LLVMValueRef is_shared(struct gen *g, LLVMValueRef generic_address)
{
	LLVMValueRef total = shared_bytes(g);

	if (g->work->clustered)
		total = cluster_bytes(g, total);
	return in_range(g, generic_address, g->shared_base, total);
}

/* ---- atomics ---- */

static bool is_strong(const struct inst *i)
{
	return inst_has(i, MOD_acquire) || inst_has(i, MOD_release) || inst_has(i, MOD_acq_rel);
}

static LLVMAtomicOrdering atomic_order(const struct inst *i)
{
	return is_strong(i) ? LLVMAtomicOrderingSequentiallyConsistent
			    : LLVMAtomicOrderingMonotonic;
}

static int atomic_operation(const struct inst *i)
{
	unsigned class = (unsigned)ptx_type_class[i->types[0]];
	bool is_float = class == 'f';

	for (unsigned k = 0; k < i->modifier_count; k++)
		switch (i->modifiers[k]) {
		case MOD_add:
			return is_float ? LLVMAtomicRMWBinOpFAdd : LLVMAtomicRMWBinOpAdd;
		case MOD_and:
			return LLVMAtomicRMWBinOpAnd;
		case MOD_or:
			return LLVMAtomicRMWBinOpOr;
		case MOD_xor:
			return LLVMAtomicRMWBinOpXor;
		case MOD_exch:
			return LLVMAtomicRMWBinOpXchg;
		case MOD_min:
			return class == 's' ? LLVMAtomicRMWBinOpMin
			       : is_float   ? -1
					    : LLVMAtomicRMWBinOpUMin;
		case MOD_max:
			return class == 's' ? LLVMAtomicRMWBinOpMax
			       : is_float   ? -1
					    : LLVMAtomicRMWBinOpUMax;
		}
	return -1;
}

/* inc, dec, packed types and floating minimum: ptx_atom_<op>_<type>(pointer, value). */
static LLVMValueRef atomic_by_name(
	struct gen *g, const struct inst *i, LLVMValueRef p, LLVMValueRef v)
{
	char name[64] = "ptx_atom";
	LLVMValueRef f;

	for (unsigned k = 0; k < i->modifier_count; k++) {
		unsigned m = i->modifiers[k];

		if (m == MOD_inc || m == MOD_dec || m == MOD_add || m == MOD_min || m == MOD_max) {
			strcat(name, "_");
			strcat(name, ptx_modifier_name[m]);
			break;
		}
	}
	strcat(name, "_");
	strcat(name, ptx_type_name[i->types[0]]);
	f = LLVMGetNamedFunction(g->module, name);
	if (!f || LLVMCountParams(f) != 2)
		return NULL;
	return LLVMBuildCall2(g->b, LLVMGlobalGetValueType(f), f,
		(LLVMValueRef[]){emit_coerce(g, p, g->ptr),
			emit_coerce(g, v, LLVMTypeOf(LLVMGetParam(f, 1)))},
		2, "");
}

/* What memory holds after an operation of atomic_operation()'s. */
static LLVMValueRef atomic_next(struct gen *g, int operation, LLVMValueRef old, LLVMValueRef v)
{
	LLVMIntPredicate keep;

	switch (operation) {
	case LLVMAtomicRMWBinOpXchg:
		return v;
	case LLVMAtomicRMWBinOpAdd:
		return LLVMBuildAdd(g->b, old, v, "");
	case LLVMAtomicRMWBinOpFAdd:
		return LLVMBuildFAdd(g->b, old, v, "");
	case LLVMAtomicRMWBinOpAnd:
		return LLVMBuildAnd(g->b, old, v, "");
	case LLVMAtomicRMWBinOpOr:
		return LLVMBuildOr(g->b, old, v, "");
	case LLVMAtomicRMWBinOpXor:
		return LLVMBuildXor(g->b, old, v, "");
	case LLVMAtomicRMWBinOpMin:
		keep = LLVMIntSLT;
		break;
	case LLVMAtomicRMWBinOpMax:
		keep = LLVMIntSGT;
		break;
	case LLVMAtomicRMWBinOpUMin:
		keep = LLVMIntULT;
		break;
	default:
		keep = LLVMIntUGT;
	}
	return LLVMBuildSelect(g->b, LLVMBuildICmp(g->b, keep, old, v, ""), old, v, "");
}

/* A block's threads run on one processor, one at a time: in shared memory nobody comes between a load and a store.
 * Their accesses are not marked as parallel, as two threads may mean the same word (region_is_parallel()). */
static LLVMValueRef plain_update(struct gen *g, int operation, LLVMValueRef p, LLVMValueRef v)
{
	LLVMValueRef old = LLVMBuildLoad2(g->b, LLVMTypeOf(v), p, "");

	LLVMBuildStore(g->b, atomic_next(g, operation, old, v), p);
	return old;
}

/* Where the memory is decides whether subnormal numbers are flushed. */
static LLVMValueRef add_f32(struct gen *g, const struct inst *i, LLVMValueRef p, LLVMValueRef v)
{
	LLVMValueRef shared = gen_int(g, 0);

	if (inst_space(i) == SPACE_GENERIC)
		shared = is_shared(g, LLVMBuildPtrToInt(g->b, p, g->i64, ""));
	return emit_builtin(g, "ptx_atom_add_f32", (LLVMValueRef[]){p, v, shared}, 3);
}

static LLVMValueRef update(
	struct gen *g, const struct inst *i, int operation, LLVMValueRef p, LLVMValueRef v)
{
	if (inst_space(i) == SPACE_SHARED)
		return plain_update(g, operation, p, v);
	if (operation == LLVMAtomicRMWBinOpFAdd && i->types[0] == TYPE_f32)
		return add_f32(g, i, p, v);
	return LLVMBuildAtomicRMW(
		g->b, (LLVMAtomicRMWBinOp)operation, p, v, atomic_order(i), false);
}

static LLVMValueRef swap_if_equal(
	struct gen *g, const struct inst *i, LLVMValueRef p, LLVMValueRef expected, LLVMValueRef v)
{
	LLVMValueRef r;

	if (inst_space(i) == SPACE_SHARED) {
		r = LLVMBuildLoad2(g->b, LLVMTypeOf(v), p, "");
		LLVMValueRef equal = LLVMBuildICmp(g->b, LLVMIntEQ, r, expected, "");
		LLVMBuildStore(g->b, LLVMBuildSelect(g->b, equal, v, r, ""), p);
		return r;
	}
	r = LLVMBuildAtomicCmpXchg(
		g->b, p, expected, v, atomic_order(i), LLVMAtomicOrderingMonotonic, false);
	if (is_strong(i))
		LLVMSetCmpXchgFailureOrdering(r, LLVMAtomicOrderingSequentiallyConsistent);
	return LLVMBuildExtractValue(g->b, r, 0, "");
}

bool emit_atomic(struct gen *g, struct inst *i)
{
	unsigned first = i->dest_count;
	const struct operand *a = &i->operands[first];

	if (i->type_count != 1 || !a->memory || i->operand_count < first + 2)
		return false;
	unsigned bits = ptx_type_bits[i->types[0]];
	LLVMTypeRef whole = LLVMIntTypeInContext(g->context, bits), type = whole;
	if (i->types[0] == TYPE_f32 || i->types[0] == TYPE_f64)
		type = emit_type(g, i->types[0]);
	if (bits > 64 || bits < 16)
		return false;
	if (g->tally && tally_add(g, i))
		return true;
	if (inst_has(i, MOD_cas)) /* of a lock, perhaps, that another block has */
		cluster_give_way(g);
	struct ptx_access access = {
		.bytes = (uint8_t)(bits / 8), .align = (uint8_t)(bits / 8), .kind = PTX_UPDATES};
	LLVMValueRef p = checked_address(g, i, a, inst_space(i), access, NULL), r;
	LLVMValueRef v = emit_operand(g, &i->operands[first + 1], type);
	int operation = atomic_operation(i);
	if (inst_has(i, MOD_cas)) {
		if (i->operand_count < first + 3)
			return false;
		LLVMValueRef n = emit_operand(g, &i->operands[first + 2], whole);

		r = swap_if_equal(g, i, p, emit_coerce(g, v, whole), n);
	} else if (operation >= 0 && strchr("busf", ptx_type_class[i->types[0]]) &&
		   i->types[0] != TYPE_f16) {
		r = update(g, i, operation, p, v);
	} else {
		r = atomic_by_name(g, i, p, v);
	}
	if (!r)
		return false;
	if (is_strong(i))
		checked_order(g, PTX_FENCE, NULL);
	if (first)
		emit_result(g, &i->operands[0], r);
	return true;
}

/* ---- addresses between spaces ---- */

bool emit_cvta(struct gen *g, struct inst *i)
{
	unsigned space = inst_space(i);
	LLVMValueRef v = emit_operand(g, &i->operands[1], g->i64), base;

	if (space == SPACE_GENERIC)
		return false;
	if (space != SPACE_GLOBAL) {
		base = generic_base(g, space);
		v = inst_has(i, MOD_to) ? LLVMBuildSub(g->b, v, base, "") : add(g, v, base);
	}
	emit_result(g, &i->operands[0], v);
	return true;
}

bool emit_isspacep(struct gen *g, struct inst *i)
{
	LLVMValueRef a = emit_operand(g, &i->operands[1], g->i64), local, r;
	LLVMValueRef shared = is_shared(g, a);
	unsigned space = inst_space(i);

	if (g->frame && space != SPACE_SHARED && space != SPACE_CONST)
		return false; /* where the callers' frames are is not known */
	local = in_range(g, a, g->locals_base, gen_int(g, g->work->local_bytes * g->work->threads));
	switch (space) {
	case SPACE_SHARED:
		r = shared;
		if (g->shared_part && !inst_has(i, MOD_cluster))
			r = in_range(g, a, add(g, g->shared_base, g->shared_part), shared_bytes(g));
		break;
	case SPACE_LOCAL:
		r = local;
		break;
	case SPACE_CONST:
		r = in_range(g, a, g->globals_base, gen_int(g, g->work->module->const_bytes));
		break;
	case SPACE_PARAM:
		r = in_range(g, a, g->params_base, gen_int(g, g->work->entry->kernel.param_bytes));
		break;
	default:
		r = LLVMBuildNot(g->b, LLVMBuildOr(g->b, shared, local, ""), "");
	}
	emit_result(g, &i->operands[0], r);
	return true;
}

bool emit_fence(struct gen *g, struct inst *i)
{
	LLVMBuildFence(g->b, LLVMAtomicOrderingSequentiallyConsistent, false, "");
	if (i->op == OP_membar || i->op == OP_fence)
		checked_order(g, PTX_FENCE, NULL);
	return true;
}

/* ---- calls of the runtime ---- */

LLVMValueRef call_runtime(
	struct gen *g, size_t member, LLVMTypeRef result, LLVMValueRef *arguments, unsigned count)
{
	LLVMTypeRef types[12];
	LLVMValueRef table =
		gen_field(g, g->b, g->launch, g->ptr, offsetof(struct ptx_launch, runtime));
	LLVMValueRef f = gen_field(g, g->b, table, g->ptr, member);

	for (unsigned k = 0; k < count; k++)
		types[k] = LLVMTypeOf(arguments[k]);
	return LLVMBuildCall2(
		g->b, LLVMFunctionType(result, types, count, false), f, arguments, count, "");
}

/* A pointer that a function of the runtime follows. It is one of `mem`, as the pointers of loads and stores by generic
 * addresses are, so that LLVM keeps stores to that memory before the call. */
static LLVMValueRef as_pointer(struct gen *g, const struct operand *o)
{
	return gen_gep(g, g->b, g->mem, emit_operand(g, o, g->i64));
}

static LLVMValueRef triple(struct gen *g, LLVMValueRef values[3])
{
	LLVMValueRef p = gen_alloca(g, LLVMArrayType2(g->i32, 3), "");

	for (unsigned k = 0; k < 3; k++)
		LLVMBuildStore(g->b, values[k], gen_gep(g, g->b, p, gen_int(g, 4 * k)));
	return p;
}

static void assert_fail(struct gen *g, const struct operand *a)
{
	LLVMValueRef arguments[] = {g->launch, as_pointer(g, &a[0]), as_pointer(g, &a[1]),
		emit_operand(g, &a[2], g->i32), as_pointer(g, &a[3]), triple(g, g->ctaid),
		triple(g, g->tid)};

	call_runtime(g, offsetof(struct ptx_runtime, assert_fail), g->none, arguments, 7);
	LLVMBuildUnreachable(g->b);
}

static LLVMValueRef words(struct gen *g, const struct operand *o)
{
	LLVMValueRef values[3];

	for (unsigned k = 0; k < 3; k++)
		values[k] = emit_operand(g, &o[k], g->i32);
	return triple(g, values);
}

/* A call by which a kernel launches another one. */
static bool launch_call(
	struct gen *g, const char *name, const struct operand *result, const struct operand *a)
{
	LLVMValueRef arguments[5] = {g->launch}, r;

	if (strstr(name, "GetParameterBuffer")) {
		arguments[1] = emit_operand(g, &a[0], g->i64);
		arguments[2] = words(g, &a[1]);
		arguments[3] = words(g, &a[4]);
		arguments[4] = emit_operand(g, &a[7], g->i32);
		r = call_runtime(
			g, offsetof(struct ptx_runtime, launch_prepare), g->ptr, arguments, 5);
	} else if (strstr(name, "LaunchDevice")) {
		arguments[1] = as_pointer(g, &a[0]);
		arguments[2] = emit_operand(g, &a[1], g->i64);
		r = call_runtime(g, offsetof(struct ptx_runtime, launch), g->i32, arguments, 3);
	} else {
		return false;
	}
	emit_result(g, result, r);
	return true;
}

/* A call of another function of CUDA's device runtime. `mem` goes along, as what the function writes is of it. */
static bool device_call(struct gen *g, const char *name, const struct operand *result,
	const struct operand *a, unsigned count)
{
	unsigned call = work_device_call(name);
	LLVMValueRef arguments[] = {g->launch, LLVMConstInt(g->i32, call, false), NULL, g->mem}, r;

	if (!call)
		return false;
	arguments[2] = gen_alloca(g, LLVMArrayType2(g->i64, 8), "");
	for (unsigned k = 0; k < count; k++)
		LLVMBuildStore(g->b, emit_operand(g, &a[k], g->i64),
			gen_gep(g, g->b, arguments[2], gen_int(g, 8 * k)));
	r = call_runtime(g, offsetof(struct ptx_runtime, device_call), g->i32, arguments, 4);
	emit_result(g, result, r);
	return true;
}

bool emit_call(struct gen *g, struct inst *i)
{
	const struct function *callee = i->operands[i->call_results].function;
	const char *name = callee->name;
	const struct operand *a = &i->operands[i->call_results + 1];
	LLVMValueRef arguments[3] = {g->launch}, r;

	if (callee->has_body) {
		gen_call(g, i);
	} else if (!strcmp(name, "__assertfail")) {
		assert_fail(g, a);
	} else if (!strcmp(name, "vprintf")) {
		arguments[1] = as_pointer(g, &a[0]);
		arguments[2] = as_pointer(g, &a[1]);
		r = call_runtime(g, offsetof(struct ptx_runtime, print), g->i32, arguments, 3);
		emit_result(g, &i->operands[0], r);
	} else if (!strcmp(name, "cudaGraphSetConditional")) { /* the handle says where */
		r = LLVMBuildStore(g->b, emit_operand(g, &a[1], g->i32), as_pointer(g, &a[0]));
		LLVMSetVolatile(r, true);
	} else if (launch_call(g, name, &i->operands[0], a) ||
		   device_call(
			   g, name, &i->operands[0], a, i->operand_count - i->call_results - 1u)) {
		return true;
	} else if (!strcmp(name, "malloc")) {
		arguments[1] = emit_operand(g, &a[0], g->i64);
		r = call_runtime(g, offsetof(struct ptx_runtime, allocate), g->ptr, arguments, 2);
		emit_result(g, &i->operands[0], r);
	} else {
		arguments[1] = as_pointer(g, &a[0]);
		call_runtime(g, offsetof(struct ptx_runtime, release), g->none, arguments, 2);
	}
	return true;
}

bool emit_trap(struct gen *g, struct inst *i)
{
	LLVMValueRef argument = g->launch;

	call_runtime(g, offsetof(struct ptx_runtime, trap), g->none, &argument, 1);
	LLVMBuildUnreachable(g->b);
	return true;
}

void emit_deadlock(struct gen *g, LLVMValueRef lines)
{
	LLVMValueRef arguments[] = {g->launch,
		LLVMBuildGlobalStringPtr(g->b, g->work->entry->name, "gdev_ptx_name"),
		triple(g, g->ctaid), lines, LLVMConstInt(g->i32, g->work->threads, false)};

	call_runtime(g, offsetof(struct ptx_runtime, deadlock), g->none, arguments, 5);
	LLVMBuildUnreachable(g->b);
}
