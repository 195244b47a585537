/* SPDX-License-Identifier: MIT
 *
 * One-time initialisation of LLVM for the host.
 */
#include "device/cpu/ptx/target.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include <llvm-c/Core.h>
#include <llvm-c/Support.h>
#include <llvm-c/Target.h>

/* What the C API has no other way to set.
 *
 * A region with guards becomes two loops: one with masks, and one without, for blocks whose threads all pass (enter_active()).
 * LLVM makes two of a loop that costs at most so much. With its own limit, 50, a stencil has only the loop with masks, and
 * masked stores are slow on processors without AVX-512.
 *
 * Indices of threads stay numbers of 32 bits, though addresses have 64: made wider, they would be compared as such, and a mask
 * of eight lanes would take two vectors of four and three instructions to make one of them. */
static const char *const options[] = {
	"gdev", "-unswitch-threshold=300", "-indvars-widen-indvars=false"};

static pthread_once_t once = PTHREAD_ONCE_INIT;
static char *cpu, *features, *triple;
static char *one_by_one; /* the features without vectors of memory that does not lie side by side */
static LLVMTargetRef target;

/* AMD's processors have the instructions for vectors of memory that does not lie side by side, but they take longer than single
 * loads and stores. LLVM counts on them wherever there is AVX-512, unless it is told. They are still faster than what LLVM makes
 * without them where only some lanes have something to load, a branch for each: code that does not mainly load so has them
 * (scatter.c). */
static const char no_gathers[] = ",+prefer-no-gather";

static bool is_amd(void)
{
	return !strncmp(cpu, "znver", 5);
}

/* They live as long as the process. */
static void find_features(void)
{
	one_by_one = features = LLVMGetHostCPUFeatures();
	if (is_amd() && asprintf(&one_by_one, "%s%s", features, no_gathers) < 0)
		one_by_one = features;
}

static void init_once(void)
{
	char *message = NULL;

	LLVMInitializeNativeTarget();
	LLVMInitializeNativeAsmPrinter();
	LLVMInitializeNativeAsmParser();
	LLVMParseCommandLineOptions(3, options, NULL);
	cpu = LLVMGetHostCPUName();
	find_features();
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

const char *target_features(bool gathers)
{
	target_init();
	return gathers ? features : one_by_one;
}

bool target_gathers(void)
{
	return target_masks() && !is_amd();
}

bool target_masks(void)
{
	return strstr(target_features(true), "+avx512f");
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
