/* SPDX-License-Identifier: MIT
 *
 * ptx_compile(): runs the passes over a private copy of the kernel, then LLVM's, and returns the
 * object. Every call has its own LLVM context; nothing is shared between threads.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <llvm-c/Analysis.h>
#include <llvm-c/BitReader.h>
#include <llvm-c/Core.h>
#include <llvm-c/Error.h>
#include <llvm-c/Transforms/PassBuilder.h>

#include "device/cpu/ptx/gen.h"
#include "device/cpu/ptx/log.h"
#include "device/cpu/ptx/object.h"
#include "device/cpu/ptx/target.h"

extern const unsigned char ptx_builtins[];
extern const unsigned ptx_builtins_size;

enum { CODE_VERSION = 41 }; /* of the code generator: part of every cache key */

void ptx_module_hash(const struct ptx_module *module, uint8_t hash[16])
{
	uint64_t target = target_hash() + CODE_VERSION * 0x9e3779b97f4a7c15ull;
	uint64_t mixed[2] = {
		module->text_hash[0] ^ target, module->text_hash[1] * 31 + (target ^ target >> 17)};

	memcpy(hash, mixed, 16);
}

enum { MAX_STRIDES = 16, MAX_REROLLED = 16 };

/* What LLVM remarks on and warns of says nothing to those who run a kernel. */
static void ignore_diagnostic(LLVMDiagnosticInfoRef info, void *data)
{
}

/* The builtins as a module of this context: internal, free of their compilation's target. */
static LLVMModuleRef load_builtins(LLVMContextRef context, LLVMTargetMachineRef machine)
{
	LLVMMemoryBufferRef buffer = LLVMCreateMemoryBufferWithMemoryRange(
		(const char *)ptx_builtins, ptx_builtins_size, "builtins", false);
	LLVMModuleRef module = NULL;
	LLVMAttributeIndex index = (LLVMAttributeIndex)LLVMAttributeFunctionIndex;

	if (LLVMParseBitcodeInContext2(context, buffer, &module)) {
		LLVMDisposeMemoryBuffer(buffer);
		return NULL;
	}
	LLVMDisposeMemoryBuffer(buffer);
	for (LLVMValueRef f = LLVMGetFirstFunction(module); f; f = LLVMGetNextFunction(f)) {
		LLVMRemoveStringAttributeAtIndex(f, index, "target-cpu", 10);
		LLVMRemoveStringAttributeAtIndex(f, index, "target-features", 15);
		LLVMRemoveStringAttributeAtIndex(f, index, "tune-cpu", 8);
		LLVMRemoveStringAttributeAtIndex(f, index, "no-builtins", 11);
		if (!LLVMIsDeclaration(f))
			LLVMSetLinkage(f, LLVMInternalLinkage);
	}
	LLVMTargetDataRef layout = LLVMCreateTargetDataLayout(machine);
	char *triple = LLVMGetTargetMachineTriple(machine);
	LLVMSetModuleDataLayout(module, layout);
	LLVMSetTarget(module, triple);
	LLVMDisposeMessage(triple);
	LLVMDisposeTargetData(layout);
	return module;
}

/* Most kernels use few builtins: LLVM need not look at the rest. */
static void drop_unused(LLVMModuleRef module)
{
	bool again = true;

	while (again) {
		LLVMValueRef f = LLVMGetFirstFunction(module), next;

		for (again = false; f; f = next) {
			next = LLVMGetNextFunction(f);
			if (LLVMGetFirstUse(f) || LLVMGetLinkage(f) != LLVMInternalLinkage)
				continue;
			LLVMDeleteFunction(f);
			again = true;
		}
	}
}

enum { MANY_INSTRUCTIONS = 400 };

/* What looks at accesses in line would make a large kernel many times as large: there it is called. */
static void call_quick(const struct work *w, LLVMContextRef context, LLVMModuleRef module)
{
	static const char prefix[] = "ptx_quick_";
	LLVMAttributeIndex index = (LLVMAttributeIndex)LLVMAttributeFunctionIndex;
	unsigned always = LLVMGetEnumAttributeKindForName("alwaysinline", 12);
	unsigned never = LLVMGetEnumAttributeKindForName("noinline", 8);
	size_t length;

	if (!w->checked || w->inst_count < MANY_INSTRUCTIONS)
		return;
	for (LLVMValueRef f = LLVMGetFirstFunction(module); f; f = LLVMGetNextFunction(f)) {
		if (strncmp(LLVMGetValueName2(f, &length), prefix, sizeof(prefix) - 1))
			continue;
		LLVMRemoveEnumAttributeAtIndex(f, index, always);
		LLVMAddAttributeAtIndex(f, index, LLVMCreateEnumAttribute(context, never, 0));
	}
}

/* ---- the passes over our own representation ---- */

static int analyse(struct work *w)
{
	int error = cfg_build(w);

	if (!error)
		error = cfg_liveness(w);
	for (uint32_t r = 0; r < w->reg_count; r++)
		w->regs[r].divergent = false;
	if (!error)
		error = uniform_analyse(w);
	return error;
}

/* What makes better code of a kernel. Checked code does without: it is to do what the PTX says, access by access. */
static int improve(struct work *w)
{
	int error = 0;

	if (rewrite_narrowed(w))
		error = analyse(w);
	if (!error && fuse_find(w))
		error = w->error ? w->error : analyse(w);
	if (!error && spaces_rewrite(w))
		error = w->error ? w->error : analyse(w);
	for (unsigned k = 0; k < MAX_STRIDES && !error && stride_rewrite(w); k++)
		error = w->error ? w->error : analyse(w);
	for (unsigned k = 0; k < MAX_REROLLED && !error && reroll_rewrite(w); k++)
		error = w->error ? w->error : analyse(w);
	if (!error && rewrite_deltas(w))
		error = w->error ? w->error : analyse(w);
	return error;
}

static int prepare(struct work *w, struct plan *plan)
{
	int error = work_build(w);

	if (!error)
		error = work_params(w);
	if (!error)
		error = analyse(w);
	if (!error && meet_rewrite(w))
		error = w->error ? w->error : analyse(w);
	if (!error && !w->checked)
		error = improve(w);
	if (!error)
		error = spin_find(w);
	if (!error)
		error = plan_build(w, plan);
	return error;
}

/* ---- LLVM's ---- */

/* Input that makes our own generator err must not bring LLVM down. */
static int verify(struct work *w, LLVMModuleRef module)
{
	char *message = NULL;
	bool broken = LLVMVerifyModule(module, LLVMReturnStatusAction, &message);

	if (broken)
		work_error(w, -ENOTSUP, w->entry->line,
			"Entry '%s' is not supported by the software GPU: %.300s", w->entry->name,
			message);
	LLVMDisposeMessage(message);
	return w->error;
}

/* Before O3 a thread's loop of a few rounds is unrolled by how many they are at most, as the range of its index says: the loop
 * over threads around it is then innermost when LLVM looks for loops that become vectors.
 * Behind it, regions whose loops have been unrolled hand each other in registers what they hand each other in shared memory. */
static const char passes[] = "cgscc(inline),"
			     "function(sroa,instcombine<no-verify-fixpoint>,simplifycfg,"
			     "loop-unroll<O3;no-peeling;no-runtime;no-partial;upperbound>),"
			     "default<O3>,"
			     "function(gvn,dse)";

static int optimise(const struct work *w, LLVMModuleRef module, LLVMTargetMachineRef machine)
{
	LLVMPassBuilderOptionsRef options = LLVMCreatePassBuilderOptions();
	LLVMErrorRef error;

	LLVMPassBuilderOptionsSetLoopVectorization(options, true);
	LLVMPassBuilderOptionsSetSLPVectorization(options, true);
	LLVMPassBuilderOptionsSetLoopUnrolling(options, !w->checked);
	LLVMPassBuilderOptionsSetLoopInterleaving(options, true);
	/* Compile time grows faster than the kernel: very large ones get less, and those with the code of checks. */
	error = LLVMRunPasses(module,
		w->inst_count >= LARGE_KERNEL ? "default<O1>"
		: w->checked                  ? "default<O2>"
					      : passes,
		machine, options);
	LLVMDisposePassBuilderOptions(options);
	if (error) {
		LLVMConsumeError(error);
		return -EINVAL;
	}
	lone_loads(module);
	ternary_part(module);
	return 0;
}

static int emit_object(LLVMModuleRef module, LLVMTargetMachineRef machine, const struct work *w,
	uint64_t saved_bytes, void **object, size_t *size)
{
	LLVMMemoryBufferRef buffer = NULL;
	char *message = NULL;

	if (LLVMTargetMachineEmitToMemoryBuffer(
		    machine, module, LLVMObjectFile, &message, &buffer)) {
		LLVMDisposeMessage(message);
		return -EINVAL;
	}
	size_t bytes = LLVMGetBufferSize(buffer);
	struct ptx_object *o = malloc(sizeof(*o) + bytes);
	if (o) {
		*o = (struct ptx_object){.magic = PTX_OBJECT_MAGIC,
			.header_bytes = sizeof(*o),
			.size = bytes,
			.local_bytes = w->local_bytes * w->threads,
			.saved_bytes = saved_bytes};
		memcpy(o + 1, LLVMGetBufferStart(buffer), bytes);
		o->check = ptx_object_check(o, o + 1);
		*object = o;
		*size = sizeof(*o) + bytes;
	}
	LLVMDisposeMemoryBuffer(buffer);
	return o ? 0 : -ENOMEM;
}

/* What is to be made: an object, forms to read, or nothing. */
struct product {
	void **object; /* NULL: none */
	size_t *size;
	void (*say)(void *owner, enum ptx_form form, const char *text); /* NULL: nobody reads */
	void *owner;
	bool checked;
};

static void say_ir(const struct product *product, enum ptx_form form, LLVMModuleRef module)
{
	char *text = product->say ? LLVMPrintModuleToString(module) : NULL;

	if (text)
		product->say(product->owner, form, text);
	LLVMDisposeMessage(text);
}

static int say_assembly(
	const struct product *product, LLVMModuleRef module, LLVMTargetMachineRef machine)
{
	LLVMMemoryBufferRef buffer = NULL;
	char *message = NULL;

	if (LLVMTargetMachineEmitToMemoryBuffer(
		    machine, module, LLVMAssemblyFile, &message, &buffer)) {
		LLVMDisposeMessage(message);
		return -EINVAL;
	}
	product->say(product->owner, PTX_FORM_ASSEMBLY, LLVMGetBufferStart(buffer));
	LLVMDisposeMemoryBuffer(buffer);
	return 0;
}

static int compile_module(
	struct work *w, struct plan *plan, LLVMContextRef context, const struct product *product)
{
	LLVMTargetMachineRef machine = target_machine();
	uint64_t saved_bytes = 0;
	int error = -ENOMEM;

	if (!machine)
		return error;
	LLVMModuleRef module = load_builtins(context, machine);
	if (!module)
		goto err_machine;
	error = gen_kernel(w, plan, context, module, &saved_bytes);
	drop_unused(module);
	call_quick(w, context, module);
	if (!error)
		error = verify(w, module);
	if (error || !(product->object || product->say))
		goto err_module;
	say_ir(product, PTX_FORM_IR, module);
	error = optimise(w, module, machine);
	if (error)
		goto err_module;
	say_ir(product, PTX_FORM_OPTIMISED, module);
	error = product->say ? say_assembly(product, module, machine)
			     : emit_object(module, machine, w, saved_bytes, product->object,
				       product->size);
err_module:
	LLVMDisposeModule(module);
err_machine:
	LLVMDisposeTargetMachine(machine);
	return error;
}

static const struct function *find_entry(
	const struct ptx_module *module, const struct ptx_kernel *kernel)
{
	for (size_t k = 0; k < module->entry_count; k++)
		if (&module->entries[k]->kernel == kernel)
			return module->entries[k];
	return NULL;
}

static int make(const struct ptx_module *module, const struct ptx_kernel *kernel,
	const uint32_t block[3], struct ptx_log *log, const struct product *product)
{
	struct work *w = calloc(1, sizeof(*w));
	uint64_t threads = (uint64_t)block[0] * block[1] * block[2];
	struct plan plan;
	int error = -EINVAL;

	if (!w)
		return -ENOMEM;
	w->module = module;
	w->entry = find_entry(module, kernel);
	w->log = log;
	w->checked = product->checked;
	if (!w->entry || !threads || block[0] > 1024 || block[1] > 1024 || block[2] > 64 ||
		threads > 1024)
		goto out;
	memcpy(w->block, block, sizeof(w->block));
	w->threads = (uint32_t)threads;
	w->fused = 1;
	error = prepare(w, &plan);
	if (!error) {
		LLVMContextRef context = LLVMContextCreate();

		LLVMContextSetDiagnosticHandler(context, ignore_diagnostic, NULL);
		error = compile_module(w, &plan, context, product);
		LLVMContextDispose(context);
	}
	if (error && error != -ENOMEM)
		ptx_log_fatal(log);
out:
	arena_finish(&w->arena);
	free(w);
	return error;
}

int ptx_compile(const struct ptx_module *module, const struct ptx_kernel *kernel,
	const uint32_t block[3], struct ptx_log *log, void **object, size_t *size)
{
	return make(module, kernel, block, log, &(struct product){.object = object, .size = size});
}

int ptx_compile_checked(const struct ptx_module *module, const struct ptx_kernel *kernel,
	const uint32_t block[3], struct ptx_log *log, void **object, size_t *size)
{
	return make(module, kernel, block, log,
		&(struct product){.object = object, .size = size, .checked = true});
}

int ptx_list(const struct ptx_module *module, const struct ptx_kernel *kernel,
	const uint32_t block[3], void (*say)(void *owner, enum ptx_form form, const char *text),
	void *owner)
{
	struct ptx_log none = {0};

	return make(module, kernel, block, &none, &(struct product){.say = say, .owner = owner});
}
