/* SPDX-License-Identifier: MIT
 *
 * The two functions of an object. gdev_ptx_run loads what is constant during a launch and loops
 * over the blocks, or over several at once (fuse.c); the block function holds the regions. It has external linkage so that LLVM
 * believes nothing about its arguments but what their attributes say.
 */
#include "device/cpu/ptx/gen.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include <llvm-c/IRReader.h>

#include "device/cpu/ptx/target.h"

void gen_unsupported(struct gen *g, const struct inst *i)
{
	char name[200];
	size_t n = (size_t)snprintf(name, sizeof(name), "%s", ptx_opcodes[i->op].name);

	for (unsigned k = 0; k < i->modifier_count && n < sizeof(name); k++)
		n += (size_t)snprintf(
			name + n, sizeof(name) - n, ".%s", ptx_modifier_name[i->modifiers[k]]);
	for (unsigned k = 0; k < i->type_count && n < sizeof(name); k++)
		n += (size_t)snprintf(
			name + n, sizeof(name) - n, ".%s", ptx_type_name[i->types[k]]);
	work_error(g->work, -ENOTSUP, i->line,
		"Instruction '%s' is not supported by the software GPU", name);
}

LLVMValueRef gen_int(struct gen *g, uint64_t value)
{
	return LLVMConstInt(g->i64, value, false);
}

LLVMValueRef gen_alloca(struct gen *g, LLVMTypeRef type, const char *name)
{
	return LLVMBuildAlloca(g->entry, type, name);
}

LLVMValueRef gen_gep(struct gen *g, LLVMBuilderRef b, LLVMValueRef base, LLVMValueRef offset)
{
	return LLVMBuildGEP2(b, g->i8, base, &offset, 1, "");
}

LLVMValueRef gen_field(
	struct gen *g, LLVMBuilderRef b, LLVMValueRef base, LLVMTypeRef type, size_t offset)
{
	return LLVMBuildLoad2(b, type, gen_gep(g, b, base, gen_int(g, offset)), "");
}

/* Loaded once, unconditionally, at the entry of the block function. */
LLVMValueRef gen_param(struct gen *g, uint64_t offset, LLVMTypeRef type)
{
	for (uint32_t k = 0; k < g->param_load_count; k++)
		if (g->param_loads[k].offset == offset && g->param_loads[k].type == type)
			return g->param_loads[k].value;
	LLVMValueRef v = LLVMBuildLoad2(
		g->entry, type, gen_gep(g, g->entry, g->params, gen_int(g, offset)), "");
	if (g->param_load_count < MAX_PARAM_LOADS)
		g->param_loads[g->param_load_count++] = (struct param_load){offset, type, v};
	return v;
}

/* An array with one element for each thread, rounded to whole warps, in the saved area. */
uint32_t gen_saved(struct gen *g, uint32_t bytes)
{
	uint64_t at = g->saved_bytes;
	uint64_t threads = (g->work->threads * g->work->fused + 31u) & ~31u;

	g->saved_bytes += (threads * bytes + 63) & ~63ull;
	if (g->saved_bytes > 1u << 30)
		work_error(
			g->work, -ENOTSUP, g->work->entry->line, "Too many values across barriers");
	return (uint32_t)at;
}

void gen_mark(struct gen *g, LLVMValueRef access)
{
	if (g->in_body && g->parallel)
		LLVMSetMetadata(access,
			LLVMGetMDKindIDInContext(g->context, "llvm.access.group", 17),
			LLVMMetadataAsValue(g->context, g->access_group));
}

static void find_types(struct gen *g)
{
	g->i1 = LLVMInt1TypeInContext(g->context);
	g->i8 = LLVMInt8TypeInContext(g->context);
	g->i16 = LLVMInt16TypeInContext(g->context);
	g->i32 = LLVMInt32TypeInContext(g->context);
	g->i64 = LLVMInt64TypeInContext(g->context);
	g->half = LLVMHalfTypeInContext(g->context);
	g->f32 = LLVMFloatTypeInContext(g->context);
	g->f64 = LLVMDoubleTypeInContext(g->context);
	g->ptr = LLVMPointerTypeInContext(g->context, 0);
	g->shared_ptr = LLVMPointerTypeInContext(g->context, 1);
	g->none = LLVMVoidTypeInContext(g->context);
}

/* ---- which registers are better kept as floating numbers ---- */

static bool float_at(const struct inst *i, unsigned k)
{
	unsigned type = i->type_count ? i->types[0] : TYPE_NONE;

	if (i->op == OP_cvt && i->type_count == 2)
		type = i->types[k ? 1 : 0];
	if (i->op == OP_setp && !k)
		return false;
	return type == TYPE_f32 || type == TYPE_f64;
}

static void find_floats(struct work *w)
{
	int32_t *votes = work_alloc(w, (w->reg_count + 1) * sizeof(*votes));

	for (uint32_t n = 0; n < w->inst_count && !w->error; n++) {
		const struct inst *i = &w->insts[n];

		if (i->op == OP_mov || i->op == OP_exchange || i->op == OP_bra)
			continue;
		for (unsigned k = 0; k < i->operand_count; k++) {
			const struct operand *o = &i->operands[k];
			unsigned count = o->kind == OPERAND_VECTOR ? o->count : 1;

			for (unsigned e = 0; e < count; e++) {
				const struct operand *x =
					o->kind == OPERAND_VECTOR ? &o->elements[e] : o;

				if (x->kind == OPERAND_REG)
					votes[x->id] += float_at(i, k) && !x->memory ? 1 : -1;
			}
		}
	}
	for (uint32_t r = 0; r < w->reg_count && !w->error; r++)
		w->regs[r].is_float =
			w->regs[r].type == TYPE_f32 || w->regs[r].type == TYPE_f64 || votes[r] > 0;
}

static void find_escapes(struct work *w)
{
	for (uint32_t n = 0; n < w->inst_count; n++) {
		const struct inst *i = &w->insts[n];

		if (i->op != OP_cvta)
			continue;
		w->shared_escapes |= inst_space(i) == SPACE_SHARED;
		w->local_escapes |= inst_space(i) == SPACE_LOCAL;
	}
	w->clustered = cluster_asked(w);
	w->shared_escapes |= w->clustered; /* which others write */
	w->local_escapes |= w->param_escapes | w->checked;
	w->shared_escapes |= w->checked; /* one way to all memory: that by a generic address */
}

/* ---- attributes and metadata ---- */

static void attribute(
	struct gen *g, LLVMValueRef f, unsigned index, const char *name, uint64_t value)
{
	unsigned kind = LLVMGetEnumAttributeKindForName(name, strlen(name));

	LLVMAddAttributeAtIndex(f, index, LLVMCreateEnumAttribute(g->context, kind, value));
}

static void string_attribute(struct gen *g, LLVMValueRef f, const char *name, const char *value)
{
	LLVMAddAttributeAtIndex(f, (LLVMAttributeIndex)LLVMAttributeFunctionIndex,
		LLVMCreateStringAttribute(
			g->context, name, (unsigned)strlen(name), value, (unsigned)strlen(value)));
}

void gen_function_attributes(struct gen *g, LLVMValueRef f)
{
	attribute(g, f, (LLVMAttributeIndex)LLVMAttributeFunctionIndex, "nounwind", 0);
	string_attribute(g, f, "target-cpu", target_cpu());
	string_attribute(g, f, "target-features", target_features(g->gathers));
	string_attribute(g, f, "prefer-vector-width", "512");
	string_attribute(g, f, "no-trapping-math", "true");
}

/* ---- the block function ---- */

enum {
	ARG_MEM,
	ARG_PARAMS,
	ARG_SHARED,
	ARG_SAVED,
	ARG_LOCALS,
	ARG_GLOBALS,
	ARG_LAUNCH,
	ARG_SCRATCH,
	ARG_POINTERS,
	ARG_CTAID = ARG_POINTERS,
	ARG_NCTAID = ARG_CTAID + 3,
	ARG_BLOCKS = ARG_NCTAID + 3, /* how many run as one, this one the first */
	ARG_BASES,                   /* integers of shared, locals, params, globals */
	ARG_COUNT = ARG_BASES + 4
};

/* At the entry of the block function. */
static void assume(struct gen *g, LLVMValueRef holds)
{
	unsigned id = LLVMLookupIntrinsicID("llvm.assume", 11);
	LLVMValueRef f = LLVMGetIntrinsicDeclaration(g->module, id, NULL, 0);

	LLVMBuildCall2(g->entry, LLVMGlobalGetValueType(f), f, &holds, 1, "");
}

static void block_arguments(struct gen *g, LLVMValueRef f)
{
	LLVMValueRef *pointers[] = {&g->mem, &g->params, &g->shared, &g->saved, &g->locals,
		&g->globals, &g->launch, &g->scratch};
	LLVMValueRef *bases[] = {
		&g->shared_base, &g->locals_base, &g->params_base, &g->globals_base};

	for (unsigned k = 0; k < ARG_POINTERS; k++) {
		*pointers[k] = LLVMGetParam(f, k);
		attribute(g, f, k + 1, "noalias", 0);
	}
	attribute(g, f, ARG_SHARED + 1, "align", 64);
	attribute(g, f, ARG_SAVED + 1, "align", 64);
	attribute(g, f, ARG_LOCALS + 1, "align", 64);
	attribute(g, f, ARG_PARAMS + 1, "align", 16);
	attribute(g, f, ARG_PARAMS + 1, "readonly", 0);
	for (unsigned k = 0; k < 3; k++) {
		g->ctaid[k] = LLVMGetParam(f, ARG_CTAID + k);
		g->nctaid[k] = LLVMGetParam(f, ARG_NCTAID + k);
	}
	for (unsigned k = 0; k < 4; k++)
		*bases[k] = LLVMGetParam(f, ARG_BASES + k);
}

/* The row of threads of the blocks that run as one. */
static void fused_row(struct gen *g, LLVMValueRef blocks)
{
	LLVMBuilderRef b = g->entry;
	LLVMValueRef one = LLVMConstInt(g->i32, 1, false);
	LLVMValueRef others = LLVMBuildSub(b, blocks, one, "");

	if (g->work->fused == 1)
		return;
	assume(g, LLVMBuildICmp(
			  b, LLVMIntULT, others, LLVMConstInt(g->i32, g->work->fused, false), ""));
	g->row = LLVMBuildNUWMul(b, blocks, LLVMConstInt(g->i32, g->work->block[0], false), "");
}

/* ctaid * ntid fits in 31 bits: gdev_ptx_run made sure. Of tid LLVM knows the loop; told so, it would write sums of what
 * is small as disjunctions, in which it sees no neighbours. */
static void assume_ranges(struct gen *g)
{
	for (unsigned k = 0; k < 3; k++) {
		uint32_t limit = (UINT32_C(1) << 31) / g->work->block[k];

		assume(g, LLVMBuildICmp(g->entry, LLVMIntULT, g->ctaid[k],
				  LLVMConstInt(g->i32, limit, false), ""));
	}
}

static LLVMValueRef block_function(struct gen *g)
{
	LLVMTypeRef types[ARG_COUNT];

	for (unsigned k = 0; k < ARG_COUNT; k++)
		types[k] = k == ARG_SHARED    ? g->shared_ptr
			   : k < ARG_POINTERS ? g->ptr
			   : k < ARG_BASES    ? g->i32
					      : g->i64;
	LLVMTypeRef type = LLVMFunctionType(g->none, types, ARG_COUNT, false);
	LLVMValueRef f = LLVMAddFunction(g->module, "gdev_ptx_block", type);
	g->function = f;
	gen_function_attributes(g, f);
	attribute(g, f, (LLVMAttributeIndex)LLVMAttributeFunctionIndex, "noinline", 0);
	attribute(g, f, (LLVMAttributeIndex)LLVMAttributeFunctionIndex, "noduplicate", 0);
	LLVMSetVisibility(f, LLVMHiddenVisibility);
	block_arguments(g, f);
	LLVMBasicBlockRef entry = LLVMAppendBasicBlockInContext(g->context, f, "entry");
	LLVMBasicBlockRef start = LLVMAppendBasicBlockInContext(g->context, f, "start");
	LLVMPositionBuilderAtEnd(g->entry, entry);
	if (g->work->clustered)
		g->shared_part = cluster_part(g, g->entry);
	assume_ranges(g);
	fused_row(g, LLVMGetParam(f, ARG_BLOCKS));
	/* Allocas and parameter loads go before this branch. */
	LLVMPositionBuilderBefore(g->entry, LLVMBuildBr(g->entry, start));
	g->done = gen_block(g, "done");
	LLVMPositionBuilderAtEnd(g->scalar, g->done);
	LLVMBuildRetVoid(g->scalar);
	gen_plan(g, start);
	return f;
}

/* ---- gdev_ptx_run ---- */

/* More than 2^31 threads along an axis would break assume_ranges(): trap instead of going wrong. */
static void refuse_huge_grid(struct gen *g, LLVMValueRef f, LLVMValueRef *nctaid,
	LLVMValueRef launch, LLVMBasicBlockRef loop)
{
	LLVMBuilderRef b = g->b;
	LLVMBasicBlockRef refuse = LLVMAppendBasicBlockInContext(g->context, f, "refuse");
	LLVMValueRef huge = LLVMConstNull(g->i1);
	LLVMTypeRef type = LLVMFunctionType(g->none, &g->ptr, 1, false);

	for (unsigned k = 0; k < 3; k++) {
		uint32_t limit = (UINT32_C(1) << 31) / g->work->block[k];
		LLVMValueRef over = LLVMBuildICmp(
			b, LLVMIntUGT, nctaid[k], LLVMConstInt(g->i32, limit, false), "");

		huge = LLVMBuildOr(b, huge, over, "");
	}
	LLVMBuildCondBr(b, huge, refuse, loop);
	LLVMBasicBlockRef from = LLVMGetInsertBlock(b);
	LLVMPositionBuilderAtEnd(b, refuse);
	LLVMValueRef table = gen_field(g, b, launch, g->ptr, offsetof(struct ptx_launch, runtime));
	LLVMValueRef trap = gen_field(g, b, table, g->ptr, offsetof(struct ptx_runtime, trap));
	LLVMBuildCall2(b, type, trap, &launch, 1, "");
	LLVMBuildUnreachable(b);
	LLVMPositionBuilderAtEnd(b, from);
}

/* Of what is left to run, and of the row: as many as may run as one. */
static LLVMValueRef blocks_at_once(struct gen *g, LLVMValueRef left, LLVMValueRef in_row)
{
	LLVMValueRef n = gen_int(g, g->work->fused);
	LLVMValueRef others[2] = {left, LLVMBuildZExt(g->b, in_row, g->i64, "")};

	for (unsigned k = 0; k < 2 && g->work->fused > 1; k++)
		n = LLVMBuildSelect(
			g->b, LLVMBuildICmp(g->b, LLVMIntULT, others[k], n, ""), others[k], n, "");
	return n;
}

static void run_function(struct gen *g, LLVMValueRef block)
{
	LLVMTypeRef types[4] = {g->ptr, g->ptr, g->i64, g->i64};
	LLVMValueRef f = LLVMAddFunction(
		g->module, "gdev_ptx_run", LLVMFunctionType(g->none, types, 4, false));
	LLVMValueRef a[ARG_COUNT], launch = LLVMGetParam(f, 0), scratch = LLVMGetParam(f, 1);
	LLVMBuilderRef b = g->b;
	LLVMBasicBlockRef entry = LLVMAppendBasicBlockInContext(g->context, f, "entry");
	LLVMBasicBlockRef loop = LLVMAppendBasicBlockInContext(g->context, f, "loop");
	LLVMBasicBlockRef body = LLVMAppendBasicBlockInContext(g->context, f, "body");
	LLVMBasicBlockRef end = LLVMAppendBasicBlockInContext(g->context, f, "end");

	gen_function_attributes(g, f);
	LLVMPositionBuilderAtEnd(b, entry);
	LLVMValueRef zero = LLVMBuildAlloca(b, g->ptr, "");
	LLVMBuildStore(b, LLVMConstNull(g->ptr), zero);
	a[ARG_MEM] = LLVMBuildLoad2(b, g->ptr, zero, "");
	LLVMSetVolatile(a[ARG_MEM], true);
	a[ARG_PARAMS] = gen_field(g, b, launch, g->ptr, offsetof(struct ptx_launch, params));
	a[ARG_GLOBALS] = gen_field(g, b, launch, g->ptr, offsetof(struct ptx_launch, globals));
	a[ARG_SHARED] =
		gen_field(g, b, scratch, g->shared_ptr, offsetof(struct ptx_scratch, shared));
	a[ARG_LOCALS] = gen_field(g, b, scratch, g->ptr, offsetof(struct ptx_scratch, locals));
	a[ARG_SAVED] = gen_field(g, b, scratch, g->ptr, offsetof(struct ptx_scratch, saved));
	a[ARG_LAUNCH] = launch;
	a[ARG_SCRATCH] = scratch;
	g->scratch = scratch;
	if (g->work->clustered)
		a[ARG_SHARED] =
			gen_gep(g, b, a[ARG_SHARED], LLVMBuildNeg(b, cluster_part(g, b), ""));
	static const uint8_t bases[] = {ARG_SHARED, ARG_LOCALS, ARG_PARAMS, ARG_GLOBALS};
	for (unsigned k = 0; k < 4; k++)
		a[ARG_BASES + k] = LLVMBuildPtrToInt(b, a[bases[k]], g->i64, "");
	for (unsigned k = 0; k < 3; k++)
		a[ARG_NCTAID + k] =
			gen_field(g, b, launch, g->i32, offsetof(struct ptx_launch, grid) + 4 * k);
	refuse_huge_grid(g, f, &a[ARG_NCTAID], launch, loop);
	entry = LLVMGetInsertBlock(b);

	LLVMPositionBuilderAtEnd(b, loop);
	LLVMValueRef at = LLVMBuildPhi(b, g->i64, "");
	LLVMBuildCondBr(b, LLVMBuildICmp(b, LLVMIntULT, at, LLVMGetParam(f, 3), ""), body, end);
	LLVMPositionBuilderAtEnd(b, body);
	LLVMValueRef rest = at;
	for (unsigned k = 0; k < 3; k++) {
		LLVMValueRef n = LLVMBuildZExt(b, a[ARG_NCTAID + k], g->i64, "");
		LLVMValueRef x = k < 2 ? LLVMBuildURem(b, rest, n, "") : rest;

		a[ARG_CTAID + k] = LLVMBuildTrunc(b, x, g->i32, "");
		rest = k < 2 ? LLVMBuildUDiv(b, rest, n, "") : rest;
	}
	LLVMValueRef blocks = blocks_at_once(g, LLVMBuildSub(b, LLVMGetParam(f, 3), at, ""),
		LLVMBuildSub(b, a[ARG_NCTAID], a[ARG_CTAID], ""));
	a[ARG_BLOCKS] = LLVMBuildTrunc(b, blocks, g->i32, "");
	g->launch = launch;
	g->scratch = scratch;
	checked_block(g, PTX_BLOCK_BEGINS, at);
	LLVMBuildCall2(b, LLVMGlobalGetValueType(block), block, a, ARG_COUNT, "");
	checked_block(g, PTX_BLOCK_ENDS, at);
	LLVMValueRef next = LLVMBuildAdd(b, at, blocks, "");
	LLVMBuildBr(b, loop);
	LLVMAddIncoming(at, (LLVMValueRef[]){LLVMGetParam(f, 2), next},
		(LLVMBasicBlockRef[]){entry, body}, 2);
	LLVMPositionBuilderAtEnd(b, end);
	LLVMBuildRetVoid(b);
}

/* C has no call that makes a distinct node without operands, so one is read from text. */
static int make_access_group(struct gen *g)
{
	static const char text[] = "!gdev.group = !{!0}\n!0 = distinct !{}\n";
	LLVMMemoryBufferRef buffer =
		LLVMCreateMemoryBufferWithMemoryRangeCopy(text, sizeof(text) - 1, "group");
	LLVMModuleRef module;
	LLVMValueRef group;
	char *message = NULL;

	if (LLVMParseIRInContext(g->context, buffer, &module, &message)) {
		LLVMDisposeMessage(message);
		return -ENOMEM;
	}
	LLVMGetNamedMetadataOperands(module, "gdev.group", &group);
	g->access_group = LLVMValueAsMetadata(group);
	LLVMDisposeModule(module);
	return 0;
}

void gen_begin(struct gen *g)
{
	struct work *w = g->work;

	find_types(g);
	find_floats(w);
	find_escapes(w);
	g->storage = work_alloc(w, (w->reg_count + 1) * sizeof(*g->storage));
	g->blocks = work_alloc(w, (w->block_count + 1) * sizeof(*g->blocks));
	g->used = work_alloc(w, (w->reg_count / 64 + 1) * 8);
	g->param_loads = work_alloc(w, MAX_PARAM_LOADS * sizeof(*g->param_loads));
	g->b = LLVMCreateBuilderInContext(g->context);
	g->scalar = LLVMCreateBuilderInContext(g->context);
	g->body = LLVMCreateBuilderInContext(g->context);
	g->entry = LLVMCreateBuilderInContext(g->context);
}

void gen_end(struct gen *g)
{
	LLVMDisposeBuilder(g->b);
	LLVMDisposeBuilder(g->scalar);
	LLVMDisposeBuilder(g->body);
	LLVMDisposeBuilder(g->entry);
}

/* Whether loads one by one are better where they are not side by side: in a region that does little else, or where all threads load
 * so. Where only some do, a branch for each of a vector would take longer than the processor's own instructions. */
static bool loads_one_by_one(const struct gen *g)
{
	struct work *w = g->work;

	for (uint32_t k = 0; k < g->plan->region_count; k++) {
		const struct region *r = &g->plan->regions[k];
		uint32_t context = w->blocks[r->entry].context;

		if (scattered(w, r->blocks, r->block_count, false) ||
			((context == PTX_NONE || narrow_context(g, context)) &&
				loads_scattered(w, r->spine, r->spine_count)))
			return true;
	}
	return false;
}

int gen_kernel(struct work *w, struct plan *p, LLVMContextRef context, LLVMModuleRef module,
	uint64_t *saved_bytes)
{
	struct gen g = {.work = w, .plan = p, .context = context, .module = module};

	g.gathers = !loads_one_by_one(&g);
	gen_begin(&g);
	g.any = work_alloc(w, (2 * p->guard_count + 1) * sizeof(*g.any));
	g.pre = work_alloc(w, (p->region_count + 1) * sizeof(*g.pre));
	if (!w->error && make_access_group(&g))
		w->error = -ENOMEM;
	if (!w->error) {
		LLVMBuilderRef own = g.b;
		LLVMValueRef block = block_function(&g);
		g.b = own;
		if (!w->error)
			run_function(&g, block);
	}
	if (!w->error)
		w->error = gen_callees(&g);
	*saved_bytes = g.saved_bytes;
	gen_end(&g);
	return w->error;
}
