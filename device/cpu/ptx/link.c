/* SPDX-License-Identifier: MIT
 *
 * ptx_link(): an object becomes executable memory through LLVM's just-in-time linker, in a library of its own, which
 * unlinking empties. The few external symbols come from this process (memset) and from libm, whose
 * symbols a plugin's process does not see by itself.
 */
#include <errno.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <llvm-c/Core.h>
#include <llvm-c/Error.h>
#include <llvm-c/LLJIT.h>
#include <llvm-c/Orc.h>

#include "device/cpu/ptx/object.h"
#include "device/cpu/ptx/ptx.h"
#include "device/cpu/ptx/target.h"

/* Code that is linked, in a library of its own. */
struct linked {
	struct ptx_code code; /* first: callers hold a pointer to it */
	LLVMOrcJITDylibRef library;
	struct linked *next; /* that is free */
};

/* The process's linker, made with the first code and never ended: making one takes longer than linking a kernel. Its
 * libraries cannot be taken away; they are emptied and used again. */
static struct {
	pthread_mutex_t lock; /* of all below; linking itself needs none */
	LLVMOrcLLJITRef jit;
	struct linked *free;
	unsigned count;
} linker = {.lock = PTHREAD_MUTEX_INITIALIZER};

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

static int make_jit(void)
{
	LLVMOrcLLJITBuilderRef builder = LLVMOrcCreateLLJITBuilder();
	LLVMTargetMachineRef machine = target_machine();

	if (machine)
		LLVMOrcLLJITBuilderSetJITTargetMachineBuilder(
			builder, LLVMOrcJITTargetMachineBuilderCreateFromTargetMachine(machine));
	if (failed(LLVMOrcCreateLLJIT(&linker.jit, builder))) {
		linker.jit = NULL;
		return -ENOMEM;
	}
	LLVMOrcExecutionSessionSetErrorReporter(
		LLVMOrcLLJITGetExecutionSession(linker.jit), ignore_error, NULL);
	return 0;
}

void ptx_prepare(void)
{
	pthread_mutex_lock(&linker.lock);
	if (!linker.jit)
		make_jit();
	pthread_mutex_unlock(&linker.lock);
}

static int make_library(LLVMOrcJITDylibRef *out)
{
	LLVMOrcExecutionSessionRef session = LLVMOrcLLJITGetExecutionSession(linker.jit);
	char prefix = LLVMOrcLLJITGetGlobalPrefix(linker.jit), name[32];
	LLVMOrcDefinitionGeneratorRef process, libm;

	if (failed(LLVMOrcCreateDynamicLibrarySearchGeneratorForProcess(
		    &process, prefix, NULL, NULL)))
		return -ENOMEM;
	/* LLVM itself has it loaded: no file is looked for. */
	if (failed(LLVMOrcCreateDynamicLibrarySearchGeneratorForPath(
		    &libm, "libm.so.6", prefix, NULL, NULL))) {
		LLVMOrcDisposeDefinitionGenerator(process);
		return -ENOMEM;
	}
	snprintf(name, sizeof(name), "kernel %u", linker.count++);
	*out = LLVMOrcExecutionSessionCreateBareJITDylib(session, name);
	LLVMOrcJITDylibAddGenerator(*out, process);
	LLVMOrcJITDylibAddGenerator(*out, libm);
	return 0;
}

/* An empty library: one that is free, or a new one. */
static int take_library(struct linked **out)
{
	struct linked *l;
	int error = 0;

	pthread_mutex_lock(&linker.lock);
	l = linker.free;
	if (l) {
		linker.free = l->next;
	} else {
		l = calloc(1, sizeof(*l));
		error = !l ? -ENOMEM : linker.jit ? 0 : make_jit();
		if (!error)
			error = make_library(&l->library);
		if (error) {
			free(l);
			l = NULL;
		}
	}
	pthread_mutex_unlock(&linker.lock);
	*out = l;
	return error;
}

static void give_library_back(struct linked *l)
{
	failed(LLVMOrcJITDylibClear(l->library));
	pthread_mutex_lock(&linker.lock);
	l->next = linker.free;
	linker.free = l;
	pthread_mutex_unlock(&linker.lock);
}

struct found {
	LLVMOrcExecutorAddress address; /* 0: it is not there */
	sem_t done;
};

static void note_found(
	LLVMErrorRef error, LLVMOrcCSymbolMapPairs pairs, size_t count, void *context)
{
	struct found *found = context;

	if (!failed(error) && count == 1)
		found->address = pairs[0].Sym.Address;
	sem_post(&found->done);
}

static LLVMOrcExecutorAddress find_run(const struct linked *l)
{
	LLVMOrcCJITDylibSearchOrderElement order = {
		l->library, LLVMOrcJITDylibLookupFlagsMatchExportedSymbolsOnly};
	LLVMOrcCLookupSetElement symbol = {LLVMOrcLLJITMangleAndIntern(linker.jit, "gdev_ptx_run"),
		LLVMOrcSymbolLookupFlagsRequiredSymbol};
	struct found found = {0};

	sem_init(&found.done, 0, 0);
	LLVMOrcExecutionSessionLookup(LLVMOrcLLJITGetExecutionSession(linker.jit),
		LLVMOrcLookupKindStatic, &order, 1, &symbol, 1, note_found, &found);
	while (sem_wait(&found.done)) /* only where the linker has threads of its own */
		;
	sem_destroy(&found.done);
	return found.address;
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
	LLVMOrcExecutorAddress run = 0;
	struct linked *l;
	int error;

	if (!read_header(object, size, &header))
		return -EINVAL;
	error = take_library(&l);
	if (error)
		return error;
	LLVMMemoryBufferRef buffer = LLVMCreateMemoryBufferWithMemoryRangeCopy(
		(const char *)object + sizeof(header), header.size, "kernel");
	if (!failed(LLVMOrcLLJITAddObjectFile(linker.jit, l->library, buffer)))
		run = find_run(l);
	if (!run) {
		give_library_back(l);
		return -EINVAL;
	}
	l->code = (struct ptx_code){.run = (ptx_run)(uintptr_t)run,
		.local_bytes = header.local_bytes,
		.saved_bytes = header.saved_bytes};
	*out = &l->code;
	return 0;
}

void ptx_unlink(const struct ptx_code *code)
{
	struct linked *l = (struct linked *)(uintptr_t)code;

	if (l)
		give_library_back(l);
}
