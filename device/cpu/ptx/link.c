/* SPDX-License-Identifier: MIT
 *
 * ptx_link(): an object becomes executable memory through a just-in-time linker of its own, so that
 * unlinking gives everything back. The few external symbols come from this process (memset) and from libm, whose
 * symbols a plugin's process does not see by itself.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <llvm-c/Core.h>
#include <llvm-c/Error.h>
#include <llvm-c/LLJIT.h>
#include <llvm-c/Orc.h>

#include "device/cpu/ptx/object.h"
#include "device/cpu/ptx/ptx.h"
#include "device/cpu/ptx/target.h"

struct linked {
	struct ptx_code code; /* first: callers hold a pointer to it */
	LLVMOrcLLJITRef jit;
};

static bool failed(LLVMErrorRef error)
{
	if (!error)
		return false;
	LLVMConsumeError(error);
	return true;
}

static void ignore_error(void *context, LLVMErrorRef error)
{
	LLVMConsumeError(error);
}

static int make_jit(LLVMOrcLLJITRef *out)
{
	LLVMOrcLLJITBuilderRef builder = LLVMOrcCreateLLJITBuilder();
	LLVMTargetMachineRef machine = target_machine();
	LLVMOrcDefinitionGeneratorRef process, libm;
	LLVMOrcLLJITRef jit;
	char prefix;

	if (machine)
		LLVMOrcLLJITBuilderSetJITTargetMachineBuilder(
			builder, LLVMOrcJITTargetMachineBuilderCreateFromTargetMachine(machine));
	if (failed(LLVMOrcCreateLLJIT(&jit, builder)))
		return -ENOMEM;
	LLVMOrcExecutionSessionSetErrorReporter(
		LLVMOrcLLJITGetExecutionSession(jit), ignore_error, NULL);
	prefix = LLVMOrcLLJITGetGlobalPrefix(jit);
	if (failed(LLVMOrcCreateDynamicLibrarySearchGeneratorForProcess(
		    &process, prefix, NULL, NULL)))
		goto err_jit;
	LLVMOrcJITDylibAddGenerator(LLVMOrcLLJITGetMainJITDylib(jit), process);
	/* LLVM itself has it loaded: no file is looked for. */
	if (failed(LLVMOrcCreateDynamicLibrarySearchGeneratorForPath(
		    &libm, "libm.so.6", prefix, NULL, NULL)))
		goto err_jit;
	LLVMOrcJITDylibAddGenerator(LLVMOrcLLJITGetMainJITDylib(jit), libm);
	*out = jit;
	return 0;

err_jit:
	failed(LLVMOrcDisposeLLJIT(jit));
	return -ENOMEM;
}

/* The bytes may lie at any address, as in a mapped cache file. */
static bool read_header(const void *object, size_t size, struct ptx_object *o)
{
	if (size < sizeof(*o))
		return false;
	memcpy(o, object, sizeof(*o));
	return o->magic == PTX_OBJECT_MAGIC && o->header_bytes == sizeof(*o) &&
	       o->size == size - sizeof(*o) &&
	       o->check == ptx_object_check(o, (const char *)object + sizeof(*o));
}

int ptx_link(const void *object, size_t size, const struct ptx_code **out)
{
	struct ptx_object header;
	struct linked *l;
	LLVMOrcExecutorAddress run;
	int error;

	if (!read_header(object, size, &header))
		return -EINVAL;
	l = calloc(1, sizeof(*l));
	if (!l)
		return -ENOMEM;
	error = make_jit(&l->jit);
	if (error)
		goto err_free;
	LLVMMemoryBufferRef buffer = LLVMCreateMemoryBufferWithMemoryRangeCopy(
		(const char *)object + sizeof(header), header.size, "kernel");
	error = -EINVAL;
	if (failed(LLVMOrcLLJITAddObjectFile(
		    l->jit, LLVMOrcLLJITGetMainJITDylib(l->jit), buffer)) ||
		failed(LLVMOrcLLJITLookup(l->jit, &run, "gdev_ptx_run")))
		goto err_jit;
	l->code = (struct ptx_code){.run = (ptx_run)(uintptr_t)run,
		.local_bytes = header.local_bytes,
		.saved_bytes = header.saved_bytes};
	*out = &l->code;
	return 0;

err_jit:
	failed(LLVMOrcDisposeLLJIT(l->jit));
err_free:
	free(l);
	return error;
}

void ptx_unlink(const struct ptx_code *code)
{
	struct linked *l = (struct linked *)(uintptr_t)code;

	if (!l)
		return;
	failed(LLVMOrcDisposeLLJIT(l->jit));
	free(l);
}
