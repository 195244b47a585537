/* SPDX-License-Identifier: MIT
 *
 * An error of LLVM's that code must not meet: llvm-project issue 157929, mended upstream in July 2026. vpternlog of AVX-512
 * computes any function of three bits. LLVM makes one of `(x & C) | (y & ~C)`, and if that is one arm of a selection whose other
 * arm is x or y, a mask on vpternlog selects. Where C comes from memory, as constants do, the operands may then be in another
 * order than the one that the function of bits is for, and the result is wrong.
 *
 * A fence around the other arm hides from LLVM that it is x or y. It is no instruction, but the selection becomes one.
 */
#include "device/cpu/ptx/gen.h"

#include "device/cpu/ptx/target.h"

static LLVMValueRef without_casts(LLVMValueRef value)
{
	while (LLVMIsABitCastInst(value))
		value = LLVMGetOperand(value, 0);
	return value;
}

/* A fence is of floating-point numbers; of another type there is NULL. */
static LLVMTypeRef fenced_type(LLVMTypeRef type)
{
	LLVMTypeRef element = LLVMGetElementType(type);
	LLVMContextRef c = LLVMGetTypeContext(type);

	switch (LLVMGetTypeKind(element)) {
	case LLVMFloatTypeKind:
	case LLVMDoubleTypeKind:
		return type;
	case LLVMIntegerTypeKind:
		element = LLVMGetIntTypeWidth(element) == 32   ? LLVMFloatTypeInContext(c)
			  : LLVMGetIntTypeWidth(element) == 64 ? LLVMDoubleTypeInContext(c)
							       : NULL;
		return element ? LLVMVectorType(element, LLVMGetVectorSize(type)) : NULL;
	default:
		return NULL;
	}
}

static void fence(LLVMModuleRef module, LLVMBuilderRef b, LLVMValueRef select, unsigned arm)
{
	LLVMValueRef value = LLVMGetOperand(select, arm);
	LLVMTypeRef type = LLVMTypeOf(value), number = fenced_type(type);
	unsigned id = LLVMLookupIntrinsicID("llvm.arithmetic.fence", 21);

	if (!number || LLVMIsConstant(value))
		return;
	LLVMPositionBuilderBefore(b, select);
	value = LLVMBuildBitCast(b, value, number, "");
	value = LLVMBuildCall2(b,
		LLVMIntrinsicGetType(LLVMGetModuleContext(module), id, &number, 1),
		LLVMGetIntrinsicDeclaration(module, id, &number, 1), &value, 1, "");
	LLVMSetOperand(select, arm, LLVMBuildBitCast(b, value, type, ""));
}

static bool is_copysign(LLVMValueRef call)
{
	LLVMValueRef f = LLVMIsAFunction(LLVMGetCalledValue(call));

	return f && LLVMGetIntrinsicID(f) == LLVMLookupIntrinsicID("llvm.copysign", 13);
}

static bool is_logical(LLVMValueRef value)
{
	LLVMOpcode op = LLVMIsAInstruction(value) ? LLVMGetInstructionOpcode(value) : LLVMRet;

	return op == LLVMAnd || op == LLVMOr || op == LLVMXor ||
	       op == LLVMAdd; /* of bits apart, add is or */
}

/* Whether it may become one vpternlog. */
static bool is_ternary(LLVMValueRef value)
{
	if (LLVMIsACallInst(value))
		return is_copysign(value);
	return is_logical(value) && (is_logical(without_casts(LLVMGetOperand(value, 0))) ||
					    is_logical(without_casts(LLVMGetOperand(value, 1))));
}

static void part_arms(LLVMModuleRef module, LLVMBuilderRef b, LLVMValueRef select)
{
	if (LLVMGetTypeKind(LLVMTypeOf(LLVMGetOperand(select, 0))) != LLVMVectorTypeKind)
		return;
	for (unsigned arm = 1; arm <= 2; arm++)
		if (is_ternary(without_casts(LLVMGetOperand(select, 3 - arm))))
			fence(module, b, select, arm);
}

void ternary_part(LLVMModuleRef module)
{
	LLVMBuilderRef b;

	if (!target_masks())
		return;
	b = LLVMCreateBuilderInContext(LLVMGetModuleContext(module));
	for (LLVMValueRef f = LLVMGetFirstFunction(module); f; f = LLVMGetNextFunction(f))
		for (LLVMBasicBlockRef k = LLVMGetFirstBasicBlock(f); k;
			k = LLVMGetNextBasicBlock(k))
			for (LLVMValueRef i = LLVMGetFirstInstruction(k); i;
				i = LLVMGetNextInstruction(i))
				if (LLVMGetInstructionOpcode(i) == LLVMSelect)
					part_arms(module, b, i);
	LLVMDisposeBuilder(b);
}
