/* SPDX-License-Identifier: MIT
 *
 * One-time initialisation of LLVM for the host.
 */
#include "device/cpu/ptx/target.h"

#include <pthread.h>

#include <llvm-c/Core.h>
#include <llvm-c/Target.h>

static pthread_once_t once = PTHREAD_ONCE_INIT;
static char *cpu, *features, *triple;
static LLVMTargetRef target;

static void init_once(void)
{
	char *message = NULL;

	LLVMInitializeNativeTarget();
	LLVMInitializeNativeAsmPrinter();
	LLVMInitializeNativeAsmParser();
	cpu = LLVMGetHostCPUName();
	features = LLVMGetHostCPUFeatures();
	triple = LLVMGetDefaultTargetTriple();
	if (LLVMGetTargetFromTriple(triple, &target, &message)) {
		LLVMDisposeMessage(message);
		target = NULL;
	}
}

void target_init(void)
{
	pthread_once(&once, init_once);
}

const char *target_cpu(void)
{
	target_init();
	return cpu;
}

const char *target_features(void)
{
	target_init();
	return features;
}

LLVMTargetMachineRef target_machine(void)
{
	target_init();
	if (!target)
		return NULL;
	return LLVMCreateTargetMachine(target, triple, cpu, features, LLVMCodeGenLevelAggressive,
		LLVMRelocPIC, LLVMCodeModelSmall);
}

uint64_t target_hash(void)
{
	unsigned major, minor, patch;
	uint64_t h = 0xcbf29ce484222325ull;

	target_init();
	LLVMGetVersion(&major, &minor, &patch);
	h = (h ^ (major << 16 | minor << 8 | patch)) * 0x100000001b3ull;
	for (const char *s = cpu; *s; s++)
		h = (h ^ (uint8_t)*s) * 0x100000001b3ull;
	for (const char *s = features; *s; s++)
		h = (h ^ (uint8_t)*s) * 0x100000001b3ull;
	return h;
}
