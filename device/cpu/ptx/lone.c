/* SPDX-License-Identifier: MIT
 *
 * Vectors of which one lane is loaded. A kernel that keeps a tile in shared memory loads what lies beside the tile from device
 * memory, and only the first and the last thread of a row do. Where such a row is unrolled, LLVM makes a load with a mask of
 * that, of which all lanes but one are known to be off. The processor still goes to all memory of the vector, which lies across
 * two lines of the cache here. One number is loaded instead, from where it is, or, if its lane is off, from a place of the
 * stack that is always there.
 */
#include "device/cpu/ptx/gen.h"

#include <llvm-c/Target.h>

enum { MOST_LANES = 64, MOST_DEPTH = 8 };

static uint64_t all_lanes(LLVMValueRef mask)
{
	unsigned lanes = LLVMGetVectorSize(LLVMTypeOf(mask));

	return lanes < MOST_LANES ? (UINT64_C(1) << lanes) - 1 : UINT64_MAX;
}

static uint64_t lanes_of(LLVMValueRef mask, unsigned depth);

static uint64_t lanes_of_constant(LLVMValueRef mask)
{
	uint64_t on = all_lanes(mask);

	for (unsigned k = 0; k < MOST_LANES && on >> k; k++) {
		LLVMValueRef lane = LLVMGetAggregateElement(mask, k);

		if (lane && LLVMIsAConstantInt(lane) && !LLVMConstIntGetZExtValue(lane))
			on &= ~(UINT64_C(1) << k);
	}
	return on;
}

static uint64_t lanes_of_shuffle(LLVMValueRef mask, unsigned depth)
{
	unsigned from = LLVMGetVectorSize(LLVMTypeOf(LLVMGetOperand(mask, 0)));
	uint64_t on = all_lanes(mask), first, second;

	if (from > MOST_LANES)
		return on;
	first = lanes_of(LLVMGetOperand(mask, 0), depth);
	second = lanes_of(LLVMGetOperand(mask, 1), depth);
	for (unsigned k = 0; k < LLVMGetNumMaskElements(mask); k++) {
		int lane = LLVMGetMaskValue(mask, k);

		if (lane >= 0 && !((unsigned)lane < from ? first >> lane & 1
							 : second >> ((unsigned)lane - from) & 1))
			on &= ~(UINT64_C(1) << k);
	}
	return on;
}

/* Lanes that may be on. */
static uint64_t lanes_of(LLVMValueRef mask, unsigned depth)
{
	if (LLVMIsConstant(mask))
		return lanes_of_constant(mask);
	if (!LLVMIsAInstruction(mask) || !depth--)
		return all_lanes(mask);
	switch (LLVMGetInstructionOpcode(mask)) {
	case LLVMShuffleVector:
		return lanes_of_shuffle(mask, depth);
	case LLVMAnd:
		return lanes_of(LLVMGetOperand(mask, 0), depth) &
		       lanes_of(LLVMGetOperand(mask, 1), depth);
	case LLVMOr:
		return lanes_of(LLVMGetOperand(mask, 0), depth) |
		       lanes_of(LLVMGetOperand(mask, 1), depth);
	case LLVMSelect:
		return lanes_of(LLVMGetOperand(mask, 1), depth) |
		       lanes_of(LLVMGetOperand(mask, 2), depth);
	default:
		return all_lanes(mask);
	}
}

/* llvm.masked.load(address, alignment, mask, what lanes are that are off) */
enum { LOAD_ADDRESS, LOAD_ALIGNMENT, LOAD_MASK, LOAD_OTHERS };

/* Of vectors in device memory: shared memory is in the first cache anyway. */
static bool is_masked_load(LLVMValueRef i)
{
	LLVMValueRef f = LLVMIsACallInst(i) ? LLVMIsAFunction(LLVMGetCalledValue(i)) : NULL;

	return f && LLVMGetIntrinsicID(f) == LLVMLookupIntrinsicID("llvm.masked.load", 16) &&
	       LLVMGetTypeKind(LLVMTypeOf(i)) == LLVMVectorTypeKind &&
	       LLVMGetVectorSize(LLVMTypeOf(i)) > 1 &&
	       LLVMGetVectorSize(LLVMTypeOf(i)) <= MOST_LANES &&
	       !LLVMGetPointerAddressSpace(LLVMTypeOf(LLVMGetOperand(i, LOAD_ADDRESS)));
}

/* Of a load with a mask; -1: more lanes than one may be on, or none. */
static int lone_lane(LLVMValueRef load)
{
	uint64_t on = lanes_of(LLVMGetOperand(load, LOAD_MASK), MOST_DEPTH);

	return on && !(on & (on - 1)) ? __builtin_ctzll(on) : -1;
}

/* Where the mask is made, so that a loop that does not change it need not ask again. */
static LLVMValueRef is_on(LLVMBuilderRef b, LLVMValueRef load, LLVMValueRef lane)
{
	LLVMValueRef mask = LLVMGetOperand(load, LOAD_MASK);

	LLVMPositionBuilderBefore(
		b, LLVMIsAInstruction(mask) ? LLVMGetNextInstruction(mask) : load);
	return LLVMBuildExtractElement(b, mask, lane, "");
}

/* What the loads of a function need. */
struct loads {
	LLVMBuilderRef b;
	LLVMTargetDataRef layout;
	LLVMValueRef function;
	LLVMValueRef place; /* on the stack, for the largest of numbers; NULL: not yet */
};

static LLVMValueRef place_of(struct loads *l)
{
	LLVMBasicBlockRef entry = LLVMGetEntryBasicBlock(l->function);
	LLVMContextRef c = LLVMGetTypeContext(LLVMTypeOf(l->function));

	if (!l->place) {
		LLVMPositionBuilderBefore(l->b, LLVMGetFirstInstruction(entry));
		l->place =
			LLVMBuildAlloca(l->b, LLVMVectorType(LLVMInt64TypeInContext(c), 2), "off");
	}
	return l->place;
}

static void load_one(struct loads *l, LLVMValueRef load, unsigned number)
{
	LLVMContextRef c = LLVMGetTypeContext(LLVMTypeOf(load));
	LLVMTypeRef element = LLVMGetElementType(LLVMTypeOf(load));
	LLVMValueRef lane = LLVMConstInt(LLVMInt64TypeInContext(c), number, false);
	LLVMValueRef others = LLVMGetOperand(load, LOAD_OTHERS), place = place_of(l);
	LLVMValueRef on = is_on(l->b, load, lane), address, value;
	unsigned group = LLVMGetMDKindIDInContext(c, "llvm.access.group", 17);
	uint64_t bytes = LLVMStoreSizeOfType(l->layout, element);
	uint64_t alignment = LLVMConstIntGetZExtValue(LLVMGetOperand(load, LOAD_ALIGNMENT));

	LLVMPositionBuilderBefore(l->b, load);
	address = LLVMBuildGEP2(l->b, element, LLVMGetOperand(load, LOAD_ADDRESS), &lane, 1, "");
	value = LLVMBuildLoad2(l->b, element, LLVMBuildSelect(l->b, on, address, place, ""), "");
	LLVMSetAlignment(value, (unsigned)(alignment < bytes ? alignment : bytes));
	LLVMSetMetadata(value, group, LLVMGetMetadata(load, group));
	if (!LLVMIsPoison(others))
		value = LLVMBuildSelect(
			l->b, on, value, LLVMBuildExtractElement(l->b, others, lane, ""), "");
	LLVMReplaceAllUsesWith(load, LLVMBuildInsertElement(l->b, others, value, lane, ""));
	LLVMInstructionEraseFromParent(load);
}

static void load_alone(struct loads *l)
{
	for (LLVMBasicBlockRef k = LLVMGetFirstBasicBlock(l->function); k;
		k = LLVMGetNextBasicBlock(k))
		for (LLVMValueRef i = LLVMGetFirstInstruction(k), next; i; i = next) {
			int lane = is_masked_load(i) ? lone_lane(i) : -1;

			next = LLVMGetNextInstruction(i);
			if (lane >= 0)
				load_one(l, i, (unsigned)lane);
		}
}

void lone_loads(LLVMModuleRef module)
{
	struct loads l = {.b = LLVMCreateBuilderInContext(LLVMGetModuleContext(module)),
		.layout = LLVMGetModuleDataLayout(module)};

	for (l.function = LLVMGetFirstFunction(module); l.function;
		l.function = LLVMGetNextFunction(l.function)) {
		l.place = NULL;
		load_alone(&l);
	}
	LLVMDisposeBuilder(l.b);
}
