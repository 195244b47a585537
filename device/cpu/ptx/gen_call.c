/* SPDX-License-Identifier: MIT
 *
 * Functions that are called, because they may come to themselves again: native code for one thread, on the stack of the
 * processor's thread. Such a function has no regions: a block of PTX is a block of LLVM's, a register a variable. Threads
 * cannot wait for each other in it: barriers and collectives are refused.
 *
 * Its local variables are on that stack, too. Their addresses in the .local window are what remains when the thread's own
 * place in the block's local memory is taken off, so that pointers mean the same on both sides of a call.
 */
#include "device/cpu/ptx/gen.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
	CALL_MEM, /* pointers: as the block function's */
	CALL_PARAMS,
	CALL_SHARED,
	CALL_GLOBALS,
	CALL_LAUNCH,
	CALL_SCRATCH,
	CALL_CTAID,
	CALL_NCTAID = CALL_CTAID + 3,
	CALL_TID = CALL_NCTAID + 3,
	CALL_LINEAR = CALL_TID + 3,
	CALL_SHARED_BASE, /* integers */
	CALL_LOCALS_BASE, /* of the thread */
	CALL_PARAMS_BASE,
	CALL_GLOBALS_BASE,
	CALL_ARGUMENTS, /* where they are, a generic address */
	CALL_COUNT
};

static void function_name(const struct function *f, char *name, size_t size)
{
	snprintf(name, size, "gdev_ptx_call_%u", f->index);
}

static LLVMValueRef declare(struct gen *g, const struct function *callee)
{
	LLVMTypeRef types[CALL_COUNT];
	char name[40];

	function_name(callee, name, sizeof(name));
	LLVMValueRef f = LLVMGetNamedFunction(g->module, name);
	if (f)
		return f;
	for (unsigned k = 0; k < CALL_COUNT; k++)
		types[k] = k == CALL_SHARED       ? g->shared_ptr
			   : k < CALL_CTAID       ? g->ptr
			   : k < CALL_SHARED_BASE ? g->i32
						  : g->i64;
	f = LLVMAddFunction(g->module, name, LLVMFunctionType(g->none, types, CALL_COUNT, false));
	gen_function_attributes(g, f);
	return f;
}

void gen_call(struct gen *g, const struct inst *i)
{
	LLVMValueRef f = declare(g, i->operands[0].function), a[CALL_COUNT];
	LLVMValueRef zero = LLVMConstNull(g->i32);

	if (g->work->clustered)
		work_error(g->work, -ENOTSUP, i->line,
			"A kernel with clusters whose functions call themselves is not supported by the software GPU");
	a[CALL_MEM] = g->mem;
	a[CALL_PARAMS] = g->params;
	a[CALL_SHARED] = g->shared;
	a[CALL_GLOBALS] = g->globals;
	a[CALL_LAUNCH] = g->launch;
	a[CALL_SCRATCH] = g->scratch;
	for (unsigned k = 0; k < 3; k++) {
		a[CALL_CTAID + k] = g->ctaid[k];
		a[CALL_NCTAID + k] = g->nctaid[k];
		a[CALL_TID + k] = g->tid[k] ? g->tid[k] : zero;
	}
	a[CALL_LINEAR] = g->linear;
	a[CALL_SHARED_BASE] = g->shared_base;
	a[CALL_LOCALS_BASE] = generic_base(g, SPACE_LOCAL);
	a[CALL_PARAMS_BASE] = g->params_base;
	a[CALL_GLOBALS_BASE] = g->globals_base;
	a[CALL_ARGUMENTS] = LLVMBuildAdd(g->b, emit_symbol(g, &i->operands[1]), g->params_base, "");
	LLVMBuildCall2(g->b, LLVMGlobalGetValueType(f), f, a, CALL_COUNT, "");
}

/* ---- its body ---- */

static void take_arguments(struct gen *g, LLVMValueRef f)
{
	g->function = f;
	g->mem = LLVMGetParam(f, CALL_MEM);
	g->params = LLVMGetParam(f, CALL_PARAMS);
	g->shared = LLVMGetParam(f, CALL_SHARED);
	g->globals = LLVMGetParam(f, CALL_GLOBALS);
	g->launch = LLVMGetParam(f, CALL_LAUNCH);
	g->scratch = LLVMGetParam(f, CALL_SCRATCH);
	for (unsigned k = 0; k < 3; k++) {
		g->ctaid[k] = LLVMGetParam(f, CALL_CTAID + k);
		g->nctaid[k] = LLVMGetParam(f, CALL_NCTAID + k);
		g->tid[k] = LLVMGetParam(f, CALL_TID + k);
	}
	g->linear = LLVMGetParam(f, CALL_LINEAR);
	g->shared_base = LLVMGetParam(f, CALL_SHARED_BASE);
	g->locals_base = LLVMGetParam(f, CALL_LOCALS_BASE);
	g->params_base = LLVMGetParam(f, CALL_PARAMS_BASE);
	g->globals_base = LLVMGetParam(f, CALL_GLOBALS_BASE);
	g->arguments = LLVMGetParam(f, CALL_ARGUMENTS);
}

/* The frame, once it is known that there is room for it: it may be larger than what the stack has behind its end. Leaves the
 * builder where the body begins. */
static void enter(struct gen *g)
{
	LLVMTypeRef type = LLVMArrayType2(g->i8, g->work->local_bytes + 1);
	LLVMBasicBlockRef full = gen_block(g, "full"), body = gen_block(g, "body");
	unsigned align = g->work->local_align > 16 ? g->work->local_align : 16;

	LLVMValueRef here = LLVMBuildPtrToInt(g->b, gen_alloca(g, g->i8, "here"), g->i64, "");
	LLVMValueRef low =
		LLVMBuildSub(g->b, here, gen_int(g, g->work->local_bytes + 1 + align), "");
	LLVMValueRef end =
		gen_field(g, g->b, g->scratch, g->i64, offsetof(struct ptx_scratch, stack_end));
	LLVMBuildCondBr(g->b, LLVMBuildICmp(g->b, LLVMIntULT, low, end, ""), full, body);
	LLVMPositionBuilderAtEnd(g->b, full);
	call_runtime(g, offsetof(struct ptx_runtime, overflow), g->none, &g->launch, 1);
	LLVMBuildUnreachable(g->b);
	LLVMPositionBuilderAtEnd(g->b, body);
	LLVMValueRef frame = LLVMBuildAlloca(g->b, type, "frame");
	LLVMSetAlignment(frame, align);
	g->frame = LLVMBuildPtrToInt(g->b, frame, g->i64, "");
}

static void refuse(struct gen *g, const struct inst *i, const char *what)
{
	work_error(g->work, -ENOTSUP, i->line,
		"%s in '%s', which may call itself, is not supported by the software GPU", what,
		g->work->callee->name);
}

static void end_block(struct gen *g, const struct work_block *b)
{
	const struct inst *last = block_last(g->work, b);

	if (LLVMGetBasicBlockTerminator(LLVMGetInsertBlock(g->b)))
		return; /* a trap */
	if (last->op == OP_exit) {
		refuse(g, last, "The end of a thread");
	} else if (b->exits) {
		LLVMBuildRetVoid(g->b);
	} else if (last->op == OP_brx) {
		LLVMValueRef index = emit_operand(g, &last->operands[0], g->i32);
		LLVMBasicBlockRef other = g->blocks[target_block(g->work, last, 0)];
		LLVMValueRef s = LLVMBuildSwitch(g->b, index, other, last->target_count);

		for (uint32_t k = 1; k < last->target_count; k++)
			LLVMAddCase(s, LLVMConstInt(g->i32, k, false),
				g->blocks[target_block(g->work, last, k)]);
	} else if (b->succ_count == 2) {
		LLVMBasicBlockRef taken = g->blocks[b->succ[0]], other = g->blocks[b->succ[1]];

		LLVMBuildCondBr(g->b, reg_read(g, last->guard), last->guard_negated ? other : taken,
			last->guard_negated ? taken : other);
	} else if (b->succ_count == 1) {
		LLVMBuildBr(g->b, g->blocks[b->succ[0]]);
	} else {
		LLVMBuildUnreachable(g->b);
	}
}

static void emit_body(struct gen *g)
{
	struct work *w = g->work;

	for (uint32_t k = 0; k < w->rpo_count; k++)
		g->blocks[w->rpo[k]] = gen_block(g, "b");
	LLVMBuildBr(g->b, g->blocks[0]);
	for (uint32_t k = 0; k < w->rpo_count && !w->error; k++) {
		const struct work_block *b = &w->blocks[w->rpo[k]];

		LLVMPositionBuilderAtEnd(g->b, g->blocks[w->rpo[k]]);
		for (uint32_t n = b->first; n < b->end && !w->error; n++) {
			struct inst *i = &w->insts[n];

			if (ptx_opcodes[i->op].flags & (OPF_BORDER | OPF_COLLECTIVE))
				refuse(g, i, "An instruction in which threads wait for each other");
			else
				emit_inst(g, i);
		}
		if (!w->error)
			end_block(g, b);
	}
}

static void define(const struct gen *kernel, struct work *w, LLVMValueRef f)
{
	struct gen g = {.work = w, .context = kernel->context, .module = kernel->module};
	LLVMBasicBlockRef entry, start;

	gen_begin(&g);
	if (w->error) {
		gen_end(&g);
		return;
	}
	w->shared_escapes = w->local_escapes = w->param_escapes = true;
	take_arguments(&g, f);
	LLVMSetLinkage(f, LLVMInternalLinkage);
	entry = gen_block(&g, "entry");
	start = gen_block(&g, "start");
	LLVMPositionBuilderAtEnd(g.entry, entry);
	LLVMPositionBuilderBefore(g.entry, LLVMBuildBr(g.entry, start));
	LLVMPositionBuilderAtEnd(g.b, start);
	enter(&g);
	emit_body(&g);
	gen_end(&g);
}

static int define_function(struct gen *g, const struct function *callee, LLVMValueRef f)
{
	struct work *kernel = g->work, *w = calloc(1, sizeof(*w));
	int error = -ENOMEM;

	if (!w)
		return error;
	w->module = kernel->module;
	w->entry = kernel->entry;
	w->callee = callee;
	w->log = kernel->log;
	w->threads = kernel->threads;
	w->checked = kernel->checked;
	w->fused = 1;
	memcpy(w->block, kernel->block, sizeof(w->block));
	error = work_build(w);
	if (!error)
		error = work_params(w);
	if (!error)
		error = cfg_build(w);
	if (!error) {
		define(g, w, f);
		error = w->error;
	}
	arena_finish(&w->arena);
	free(w);
	return error;
}

int gen_callees(struct gen *g)
{
	bool again = true;

	while (again) {
		again = false;
		for (const struct function *f = g->work->module->functions; f; f = f->next) {
			char name[40];

			if (!f->recursive)
				continue;
			function_name(f, name, sizeof(name));
			LLVMValueRef declared = LLVMGetNamedFunction(g->module, name);
			if (!declared || !LLVMIsDeclaration(declared))
				continue;
			int error = define_function(g, f, declared);
			if (error)
				return error;
			again = true;
		}
	}
	return 0;
}
