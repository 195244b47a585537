/* SPDX-License-Identifier: MIT
 *
 * Checked code (docs/check.md): before each access to memory it calls the runtime, and uses the address that it
 * gets back; and it tells the runtime what orders accesses. All memory but parameters is reached by generic
 * addresses (find_escapes() of gen.c). A call that LLVM does not see into keeps it from moving accesses.
 */
#include "device/cpu/ptx/gen.h"

#include <string.h>

/* What is stored, as far as it has 8 bytes. */
static LLVMValueRef as_number(struct gen *g, LLVMValueRef v)
{
	LLVMTypeRef type = v ? LLVMTypeOf(v) : NULL;

	if (!v)
		return gen_int(g, 0);
	if (type == g->f32)
		v = LLVMBuildBitCast(g->b, v, g->i32, "");
	else if (type == g->f64)
		v = LLVMBuildBitCast(g->b, v, g->i64, "");
	return LLVMBuildIntCast2(g->b, v, g->i64, false, "");
}

/* Code before a loop is that of all threads. */
static LLVMValueRef thread_at_hand(struct gen *g)
{
	return g->in_body || g->work->callee ? g->linear : LLVMConstNull(g->i32);
}

static LLVMValueRef constant(struct gen *g, uint32_t v)
{
	return LLVMConstInt(g->i32, v, false);
}

/* The builtin that sees whether the access is plainly right; NULL: such accesses are the runtime's. */
static const char *quick_name(unsigned space, const struct ptx_access *access)
{
	if (access->bytes != 4 || access->strong)
		return NULL;
	if (access->kind == PTX_READS)
		return space == SPACE_SHARED    ? "ptx_quick_read_shared"
		       : space == SPACE_GENERIC ? "ptx_quick_read_generic"
						: "ptx_quick_read_global";
	if (access->kind == PTX_WRITES)
		return space == SPACE_SHARED    ? "ptx_quick_write_shared"
		       : space == SPACE_GENERIC ? "ptx_quick_write_generic"
						: "ptx_quick_write_global";
	return NULL;
}

/* Asks the runtime where the access goes, unless it is plainly right. */
static LLVMValueRef ask(struct gen *g, LLVMValueRef *a, const char *quick)
{
	LLVMValueRef at, right;
	struct gen_if wrong;

	if (!quick)
		return call_runtime(g, offsetof(struct ptx_runtime, access), g->i64, a, 7);
	right = emit_builtin(g, quick,
		(LLVMValueRef[]){gen_field(g, g->b, g->scratch, g->ptr,
					 offsetof(struct ptx_scratch, checking)),
			a[2], a[4], a[5]},
		4);
	if (!right)
		return a[2];
	wrong = gen_begin_if(
		g, LLVMBuildICmp(g->b, LLVMIntEQ, right, LLVMConstNull(g->i32), ""), "ask");
	at = call_runtime(g, offsetof(struct ptx_runtime, access), g->i64, a, 7);
	return gen_end_if(g, &wrong, at, a[2]);
}

LLVMValueRef checked_pointer(struct gen *g, const struct inst *i, LLVMValueRef pointer,
	unsigned space, struct ptx_access access, LLVMValueRef value)
{
	if (!g->work->checked || space == SPACE_PARAM)
		return pointer;
	access.shared = space == SPACE_SHARED;
	access.strong = access.kind == PTX_UPDATES || inst_has(i, MOD_volatile) ||
			inst_has(i, MOD_mmio) || inst_has(i, MOD_relaxed) ||
			inst_has(i, MOD_acquire) || inst_has(i, MOD_release);
	LLVMValueRef a[] = {g->launch, g->scratch, LLVMBuildPtrToInt(g->b, pointer, g->i64, ""),
		constant(g, ptx_access_pack(access)), constant(g, i->line), thread_at_hand(g),
		as_number(g, value)};

	return gen_gep(g, g->b, g->mem, ask(g, a, quick_name(space, &access)));
}

LLVMValueRef checked_address(struct gen *g, const struct inst *i, const struct operand *o,
	unsigned space, struct ptx_access access, LLVMValueRef value)
{
	return checked_pointer(g, i, emit_address(g, o, space), space, access, value);
}

LLVMValueRef checked_call(
	struct gen *g, size_t member, LLVMValueRef *arguments, unsigned count, LLVMValueRef thread)
{
	LLVMValueRef a[12] = {g->launch, g->scratch}, right;

	memcpy(a + 2, arguments, count * sizeof *a);
	a[count + 2] = constant(g, g->line);
	a[count + 3] = thread ? thread : thread_at_hand(g);
	right = call_runtime(g, member, g->i32, a, count + 4);
	return LLVMBuildICmp(g->b, LLVMIntNE, right, LLVMConstNull(g->i32), "");
}

LLVMValueRef checked_rows(struct gen *g, struct ptx_access access, unsigned space,
	LLVMValueRef address, LLVMValueRef bytes, uint32_t count, LLVMValueRef pitch,
	LLVMValueRef thread)
{
	access.shared = space == SPACE_SHARED;
	LLVMValueRef a[] = {
		address, bytes, constant(g, count), pitch, constant(g, ptx_access_pack(access))};

	return checked_call(g, offsetof(struct ptx_runtime, rows), a, 5, thread);
}

static void order(struct gen *g, enum ptx_order order, uint32_t line, LLVMValueRef value)
{
	LLVMValueRef a[] = {g->launch, g->scratch, constant(g, order), constant(g, line),
		thread_at_hand(g), as_number(g, value)};

	if (g->work->checked)
		call_runtime(g, offsetof(struct ptx_runtime, order), g->none, a, 6);
}

void checked_order(struct gen *g, enum ptx_order what, LLVMValueRef value)
{
	order(g, what, g->line, value);
}

/* How many threads must come to a barrier that names no number. */
static uint32_t expected(const struct gen *g, const struct inst *i)
{
	unsigned values = i->dest_count ? 2 : 0;

	return i->operand_count > 1 + values || inst_has(i, MOD_arrive) ? 0 : g->work->threads;
}

void checked_region(struct gen *g, struct inst *i)
{
	bool in_body = g->in_body;

	if (i->op != OP_bar && i->op != OP_barrier)
		return;
	g->in_body = false;
	order(g, inst_has(i, MOD_warp) ? PTX_WARP_BARRIER : PTX_BARRIER, i->line,
		gen_int(g, expected(g, i)));
	g->in_body = in_body;
}

void checked_matrix(struct gen *g)
{
	order(g, PTX_WARP_BARRIER, g->line, NULL);
}

void checked_block(struct gen *g, enum ptx_order what, LLVMValueRef block)
{
	g->in_body = false;
	order(g, what, g->work->entry->line, block);
}
