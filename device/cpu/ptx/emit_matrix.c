/* SPDX-License-Identifier: MIT
 *
 * Matrix instructions: collectives of whole warps over the registers of all their lanes. Before the region's
 * loop, another loop over its threads copies the operands to an area of the saved memory, an array per register;
 * then a builtin (builtins_matrix.h) works on the arrays of one warp after the other, and the region's loop
 * takes the results.
 */
#include "device/cpu/ptx/emit_matrix.h"

#include <errno.h>
#include <stdio.h>

/* ---- the area ---- */

static unsigned element_bytes(const struct inst *i)
{
	return i->type_count && i->types[0] == TYPE_f64 ? 8 : 4;
}

/* Bytes of an array: one element per thread, whole warps. */
static uint64_t array_bytes(const struct gen *g, unsigned element)
{
	return ((uint64_t)g->work->threads + 31) / 32 * 32 * element;
}

/* Makes room for so many bytes of each thread. */
static void need_area(struct gen *g, uint32_t bytes)
{
	if (g->matrix_bytes >= bytes)
		return;
	g->matrix_slot = gen_saved(g, bytes);
	g->matrix_bytes = bytes;
}

static LLVMValueRef area(struct gen *g, uint64_t array, LLVMValueRef thread, unsigned element)
{
	LLVMValueRef t = LLVMBuildZExt(g->b, thread, g->i64, "");

	t = LLVMBuildNUWMul(g->b, t, gen_int(g, element), "");
	t = LLVMBuildNUWAdd(g->b, t, gen_int(g, g->matrix_slot + array), "");
	return gen_gep(g, g->b, g->saved, t);
}

unsigned matrix_operands(const struct operand *o)
{
	return o->kind == OPERAND_VECTOR ? o->count : 1;
}

static const struct operand *element_of(const struct operand *o, unsigned k)
{
	return o->kind == OPERAND_VECTOR ? &o->elements[k] : o;
}

/* Whether a warp takes part: where only some may. */
static LLVMValueRef presence(struct gen *g, LLVMValueRef warp)
{
	LLVMValueRef at = LLVMBuildZExt(g->b, warp, g->i64, "");

	return gen_gep(
		g, g->b, g->saved, LLVMBuildNUWAdd(g->b, at, gen_int(g, g->matrix_presence), ""));
}

static bool all_take_part(const struct gen *g)
{
	const struct region *r = &g->plan->regions[g->region];

	return !g->plan->scheduled && g->work->blocks[r->entry].context == PTX_NONE;
}

static void note_presence(struct gen *g)
{
	LLVMValueRef warp = LLVMBuildLShr(g->b, g->linear, LLVMConstInt(g->i32, 5, false), "");

	if (!all_take_part(g))
		LLVMBuildStore(g->b, LLVMConstInt(g->i8, 1, false), presence(g, warp));
}

/* ---- sources ---- */

static bool is_address(const struct inst *i, unsigned k)
{
	return i->operands[k].memory || wgmma_is_descriptor(i, k);
}

static LLVMValueRef address(struct gen *g, const struct inst *i, unsigned k)
{
	if (wgmma_is_descriptor(i, k))
		return wgmma_descriptor(g, i, k);
	return LLVMBuildPtrToInt(g->b, emit_address(g, &i->operands[k], inst_space(i)), g->i64, "");
}

/* Of ldmatrix and stmatrix: the row of a lane, of as many as there are. */
static LLVMValueRef checked_row(struct gen *g, const struct inst *i, LLVMValueRef at)
{
	struct ptx_access access = {
		.bytes = 16, .align = 16, .kind = i->op == OP_ldmatrix ? PTX_READS : PTX_WRITES};
	unsigned rows = 8 * matrix_operands(&i->operands[i->op == OP_stmatrix]);
	LLVMValueRef lane, looked;
	struct gen_if has_row;

	lane = LLVMBuildAnd(g->b, g->linear, LLVMConstInt(g->i32, 31, false), "");
	lane = LLVMBuildICmp(g->b, LLVMIntULT, lane, LLVMConstInt(g->i32, rows, false), "");
	has_row = gen_begin_if(g, lane, "look");
	looked = checked_pointer(g, i, gen_gep(g, g->b, g->mem, at), inst_space(i), access, NULL);
	looked = LLVMBuildPtrToInt(g->b, looked, g->i64, "");
	return gen_end_if(g, &has_row, looked, at);
}

/* A thread's operands, in order, but addresses first. */
static void gather(struct gen *g, struct inst *i)
{
	unsigned element = element_bytes(i);
	LLVMTypeRef type = element == 8 ? g->i64 : g->i32;
	uint64_t at = 0;

	note_presence(g);
	for (unsigned k = i->dest_count; k < i->operand_count; k++)
		if (is_address(i, k)) {
			LLVMValueRef v = address(g, i, k);

			if (g->work->checked && (i->op == OP_ldmatrix || i->op == OP_stmatrix))
				v = checked_row(g, i, v);
			gen_mark(g, LLVMBuildStore(g->b, v, area(g, at, g->linear, 8)));
			at += array_bytes(g, 8);
		}
	for (unsigned k = i->dest_count; k < i->operand_count; k++) {
		const struct operand *o = &i->operands[k];

		if (is_address(i, k) || wgmma_is_number(i, k))
			continue;
		for (unsigned e = 0; e < matrix_operands(o); e++) {
			LLVMValueRef v = emit_operand(g, element_of(o, e), type);

			gen_mark(g, LLVMBuildStore(g->b, v, area(g, at, g->linear, element)));
			at += array_bytes(g, element);
		}
	}
}

/* ---- what is done for a warp ---- */

/* Once for all instructions of a kind: void name(pointers, …). */
static LLVMValueRef warp_function(struct gen *g, const struct warp_call *c)
{
	LLVMValueRef inner = LLVMGetNamedFunction(g->module, c->builtin), arguments[12];
	LLVMTypeRef types[4] = {g->ptr, g->ptr, g->ptr, g->i32};
	unsigned count = c->shared ? 4 : c->addresses ? 2 : 1;
	LLVMBuilderRef old = g->b;
	char name[120];
	size_t n = (size_t)snprintf(name, sizeof(name), "gdev_%s", c->builtin);

	for (unsigned k = 0; k < c->count; k++)
		n += (size_t)snprintf(name + n, sizeof(name) - n, "_%u", (unsigned)c->numbers[k]);
	LLVMValueRef f = LLVMGetNamedFunction(g->module, name);
	if (f || !inner)
		return f;
	f = LLVMAddFunction(g->module, name, LLVMFunctionType(g->none, types, count, false));
	LLVMSetLinkage(f, LLVMInternalLinkage);
	LLVMAddAttributeAtIndex(f, (LLVMAttributeIndex)LLVMAttributeFunctionIndex,
		LLVMCreateEnumAttribute(
			g->context, LLVMGetEnumAttributeKindForName("noinline", 8), 0));
	g->b = LLVMCreateBuilderInContext(g->context);
	LLVMPositionBuilderAtEnd(g->b, LLVMAppendBasicBlockInContext(g->context, f, ""));
	for (unsigned k = 0; k < count; k++)
		arguments[k] = LLVMGetParam(f, k);
	arguments[count++] = gen_int(g, array_bytes(g, c->element));
	for (unsigned k = 0; k < c->count; k++)
		arguments[count++] = gen_int(g, c->numbers[k]);
	LLVMValueRef done = emit_builtin(g, c->builtin, arguments, count);
	LLVMBuildRetVoid(g->b);
	LLVMDisposeBuilder(g->b);
	g->b = old;
	return done ? f : NULL;
}

/* A loop over the warps that take part, after the scalar code so far. */
static bool for_each_warp(struct gen *g, const struct inst *i, const struct warp_call *c)
{
	uint32_t warps = (g->work->threads + 31) / 32;
	LLVMBuilderRef b = g->scalar, old = g->b;
	LLVMValueRef f = warp_function(g, c), arguments[4], zero = LLVMConstNull(g->i32);

	if (!f)
		return false;
	LLVMBasicBlockRef before = LLVMGetInsertBlock(b), header = gen_block(g, "warps");
	LLVMBasicBlockRef work = gen_block(g, "warp"), next = gen_block(g, "next");
	LLVMBasicBlockRef after = gen_block(g, "after");
	g->b = b;
	LLVMBuildBr(b, header);
	LLVMPositionBuilderAtEnd(b, header);
	LLVMValueRef w = LLVMBuildPhi(b, g->i32, "warp");
	if (all_take_part(g)) {
		LLVMBuildBr(b, work);
	} else {
		LLVMValueRef there = LLVMBuildLoad2(b, g->i8, presence(g, w), "");

		LLVMBuildCondBr(b, LLVMBuildICmp(b, LLVMIntNE, there, LLVMConstNull(g->i8), ""),
			work, next);
	}
	LLVMPositionBuilderAtEnd(b, work);
	LLVMValueRef thread = LLVMBuildShl(b, w, LLVMConstInt(g->i32, 5, false), "");
	arguments[0] = area(g, 0, thread, c->addresses ? 8 : c->element);
	if (c->addresses)
		arguments[1] = area(g, array_bytes(g, 8), thread, c->element);
	if (c->shared) {
		wgmma_check(g, g->line, arguments[0], gen_int(g, array_bytes(g, c->element)),
			c->numbers[0]);
		arguments[2] = wgmma_shared(g);
		arguments[3] = LLVMBuildAnd(b, w, LLVMConstInt(g->i32, 3, false), "");
	}
	if (g->work->checked && i->op == OP_wmma && c->addresses) {
		LLVMBasicBlockRef move = gen_block(g, "move");

		LLVMBuildCondBr(b, wmma_check(g, i, c, arguments, thread), move, next);
		LLVMPositionBuilderAtEnd(b, move);
	}
	LLVMBuildCall2(b, LLVMGlobalGetValueType(f), f, arguments, LLVMCountParams(f), "");
	LLVMBuildBr(b, next);
	LLVMPositionBuilderAtEnd(b, next);
	LLVMValueRef more = LLVMBuildNUWAdd(b, w, LLVMConstInt(g->i32, 1, false), "");
	LLVMAddIncoming(w, &zero, &before, 1);
	LLVMAddIncoming(w, &more, &next, 1);
	LLVMBuildCondBr(b,
		LLVMBuildICmp(b, LLVMIntNE, more, LLVMConstInt(g->i32, warps, false), ""), header,
		after);
	LLVMPositionBuilderAtEnd(b, after);
	g->b = old;
	return true;
}

/* ---- mma ---- */

unsigned matrix_type(unsigned type)
{
	switch (type) {
	case TYPE_f16:
		return MATRIX_F16;
	case TYPE_bf16:
		return MATRIX_BF16;
	case TYPE_s8:
		return MATRIX_S8;
	case TYPE_u8:
		return MATRIX_U8;
	case TYPE_f64:
		return MATRIX_F64;
	case TYPE_f32:
		return MATRIX_F32;
	case TYPE_s32:
		return MATRIX_S32;
	}
	return 0;
}

/* Types that only matrices have are modifiers to the parser. */
unsigned matrix_only_type(unsigned modifier)
{
	switch (modifier) {
	case MOD_tf32:
		return MATRIX_TF32;
	case MOD_e4m3:
		return MATRIX_E4M3;
	case MOD_e5m2:
		return MATRIX_E5M2;
	case MOD_s4:
		return MATRIX_S4;
	case MOD_u4:
		return MATRIX_U4;
	case MOD_b1:
		return MATRIX_B1;
	}
	return 0;
}

#define ANY(type) (1u << MATRIX_##type)
#define FP8 (ANY(E4M3) | ANY(E5M2))
#define INT8 (ANY(S8) | ANY(U8))
#define INT4 (ANY(S4) | ANY(U4))

/* The shapes, and the types of A and B that have them. */
static const struct shape {
	uint8_t modifier, rows;
	uint16_t depth;
	uint32_t types;
} shapes[] = {
	{MOD_m8n8k4, 8, 4, ANY(F64)},
	{MOD_m8n8k16, 8, 16, INT8},
	{MOD_m8n8k32, 8, 32, INT4},
	{MOD_m8n8k128, 8, 128, ANY(B1)},
	{MOD_m16n8k4, 16, 4, ANY(TF32) | ANY(F64)},
	{MOD_m16n8k8, 16, 8, ANY(F16) | ANY(BF16) | ANY(TF32) | ANY(F64)},
	{MOD_m16n8k16, 16, 16, ANY(F16) | ANY(BF16) | INT8 | FP8 | ANY(F64)},
	{MOD_m16n8k32, 16, 32, INT8 | INT4 | FP8},
	{MOD_m16n8k64, 16, 64, INT4},
	{MOD_m16n8k128, 16, 128, ANY(B1)},
	{MOD_m16n8k256, 16, 256, ANY(B1)},
};

uint32_t matrix_sums(unsigned type)
{
	switch (type) {
	case MATRIX_F16:
	case MATRIX_E4M3:
	case MATRIX_E5M2:
		return ANY(F16) | ANY(F32);
	case MATRIX_BF16:
	case MATRIX_TF32:
		return ANY(F32);
	case MATRIX_F64:
		return ANY(F64);
	}
	return ANY(S32);
}

static unsigned type_bits(unsigned type)
{
	switch (type) {
	case MATRIX_F16:
	case MATRIX_BF16:
		return 16;
	case MATRIX_S4:
	case MATRIX_U4:
		return 4;
	case MATRIX_B1:
		return 1;
	case MATRIX_TF32:
	case MATRIX_F32:
	case MATRIX_S32:
	case MATRIX_F64: /* a register holds one */
		return 32;
	}
	return 8;
}

struct multiplication {
	const struct shape *shape;
	unsigned types[4]; /* D, A, B, C */
	unsigned operation;
};

bool matrix_types(const struct inst *i, unsigned types[4])
{
	unsigned own = 0;

	if (i->type_count != 4 && i->type_count != 2)
		return false;
	for (unsigned k = 0; k < i->type_count; k++)
		types[i->type_count == 4 ? k : k * 3] = matrix_type(i->types[k]);
	for (unsigned k = 0; k < i->modifier_count; k++) {
		unsigned type = matrix_only_type(i->modifiers[k]);

		if (type && (i->type_count == 4 || own == 2))
			return false;
		if (type)
			types[1 + own++] = type;
	}
	return i->type_count == 4 || own == 2;
}

bool matrix_operation(const struct inst *i, unsigned type, unsigned *operation)
{
	bool bits = type == MATRIX_B1, whole = matrix_sums(type) == ANY(S32) && !bits;
	bool and = inst_has(i, MOD_and), xor = inst_has(i, MOD_xor);

	*operation = inst_has(i, MOD_satfinite) ? MATRIX_SATURATE
		     : and                      ? MATRIX_AND
		     : xor                      ? MATRIX_XOR
						: MATRIX_MULTIPLY;
	return inst_has(i, MOD_popc) == bits && and+xor == bits &&
	       (!inst_has(i, MOD_satfinite) || whole);
}

static bool has_counts(const struct inst *i, const struct multiplication *m)
{
	unsigned rows = m->shape->rows, depth = m->shape->depth;
	unsigned elements[4] = {rows * 8, rows * depth, depth * 8, rows * 8};

	for (unsigned k = 0; k < 4; k++)
		if (matrix_operands(&i->operands[k]) !=
			elements[k] * type_bits(m->types[k]) / 1024u)
			return false;
	return true;
}

static bool find_multiplication(const struct inst *i, struct multiplication *m)
{
	*m = (struct multiplication){0};
	for (size_t k = 0; k < sizeof(shapes) / sizeof(*shapes); k++)
		if (inst_has(i, shapes[k].modifier))
			m->shape = &shapes[k];
	if (!m->shape || !inst_has(i, MOD_sync) || !inst_has(i, MOD_row) || !inst_has(i, MOD_col) ||
		!matrix_types(i, m->types))
		return false;
	uint32_t sums = matrix_sums(m->types[1]);
	bool integers = sums == ANY(S32),
	     fp8 = ANY(E4M3) & 1u << m->types[1] || ANY(E5M2) & 1u << m->types[1];
	return m->shape->types >> m->types[1] & 1 && m->shape->types >> m->types[2] & 1 &&
	       type_bits(m->types[1]) == type_bits(m->types[2]) &&
	       (m->types[1] == m->types[2] || integers || fp8) && sums >> m->types[0] & 1 &&
	       sums >> m->types[3] & 1 && matrix_operation(i, m->types[1], &m->operation) &&
	       has_counts(i, m);
}

/* ---- the instructions ---- */

static bool find_call(const struct inst *i, struct warp_call *c)
{
	struct multiplication m;
	unsigned tiles = inst_has(i, MOD_x4) ? 4 : inst_has(i, MOD_x2) ? 2 : 1;
	bool moves = i->type_count == 1 && i->types[0] == TYPE_b16 && inst_has(i, MOD_sync) &&
		     inst_has(i, MOD_m8n8);

	*c = (struct warp_call){.element = element_bytes(i)};
	switch (i->op) {
	case OP_wmma:
		return wmma_call(i, c);
	case OP_wgmma:
		return wgmma_call(i, c);
	case OP_mma:
		if (!find_multiplication(i, &m))
			return false;
		c->builtin = "ptx_mma";
		c->count = 7;
		c->numbers[0] = m.shape->rows;
		c->numbers[1] = m.shape->depth;
		c->numbers[2] = m.types[1];
		c->numbers[3] = m.types[2];
		c->numbers[4] = m.types[3];
		c->numbers[5] = m.types[0];
		c->numbers[6] = m.operation;
		return true;
	case OP_movmatrix:
		c->builtin = "ptx_movmatrix";
		return moves && inst_has(i, MOD_trans) && matrix_operands(&i->operands[0]) == 1 &&
		       matrix_operands(&i->operands[1]) == 1;
	}
	const struct operand *values = &i->operands[i->op == OP_stmatrix];
	const struct operand *address = &i->operands[i->op != OP_stmatrix];
	c->builtin = i->op == OP_ldmatrix ? "ptx_ldmatrix" : "ptx_stmatrix";
	c->addresses = true;
	c->count = 2;
	c->numbers[0] = tiles;
	c->numbers[1] = inst_has(i, MOD_trans);
	return moves && address->memory && !values->memory && matrix_operands(values) == tiles;
}

/* The arrays of the sources, in bytes. */
static uint64_t source_bytes(const struct gen *g, const struct inst *i)
{
	uint64_t bytes = 0;

	for (unsigned k = i->dest_count; k < i->operand_count; k++)
		if (!wgmma_is_number(i, k))
			bytes += is_address(i, k) ? array_bytes(g, 8)
						  : matrix_operands(&i->operands[k]) *
							    array_bytes(g, element_bytes(i));
	return bytes;
}

static uint64_t result_bytes(const struct gen *g, const struct inst *i)
{
	return i->dest_count ? matrix_operands(&i->operands[0]) * array_bytes(g, element_bytes(i))
			     : 0;
}

bool is_matrix(const struct inst *i)
{
	return i->op == OP_mma || i->op == OP_ldmatrix || i->op == OP_stmatrix ||
	       i->op == OP_movmatrix || i->op == OP_wmma || i->op == OP_wgmma;
}

void emit_matrix_prepare(struct gen *g, struct inst *i)
{
	uint32_t warps = (g->work->threads + 31) / 32;
	struct warp_call c;

	if (!find_call(i, &c)) {
		gen_unsupported(g, i);
		return;
	}
	if (g->work->threads % (c.shared ? 128 : 32)) {
		work_error(g->work, -ENOTSUP, i->line,
			"'%s' of blocks of %u threads is not supported by the software GPU: %s must be whole",
			ptx_opcodes[i->op].name, g->work->threads,
			c.shared ? "groups of four warps" : "warps");
		return;
	}
	need_area(g, (uint32_t)((source_bytes(g, i) + result_bytes(g, i)) / array_bytes(g, 1)));
	g->line = i->line;
	if (!g->matrix_presence)
		g->matrix_presence = gen_saved(g, 1);
	for (uint32_t w = 0; w < warps && !all_take_part(g); w++)
		LLVMBuildStore(
			g->b, LLVMConstNull(g->i8), presence(g, LLVMConstInt(g->i32, w, false)));
	if (c.addresses && !c.shared)
		checked_matrix(g);
	gen_over_threads(g, i, gather, all_take_part(g));
	if (!for_each_warp(g, i, &c))
		gen_unsupported(g, i);
}

bool emit_matrix(struct gen *g, struct inst *i)
{
	unsigned element = element_bytes(i);
	LLVMTypeRef type = element == 8 ? g->i64 : g->i32;
	uint64_t at = source_bytes(g, i);

	if (i->op == OP_wgmma) /* the last of the sources has become the result */
		at -= result_bytes(g, i);
	for (unsigned k = 0; i->dest_count && k < matrix_operands(&i->operands[0]); k++) {
		LLVMValueRef v = LLVMBuildLoad2(g->b, type,
			area(g, at + k * array_bytes(g, element), g->linear, element), "");

		gen_mark(g, v);
		emit_result(g, element_of(&i->operands[0], k), v);
	}
	return true;
}
