/* SPDX-License-Identifier: MIT
 *
 * What LLVM is told about loops: which become vectors, and which are unrolled.
 */
#include "device/cpu/ptx/gen.h"

#include <string.h>

#include <llvm-c/DebugInfo.h>

/* What LLVM makes of a loop that it vectorises: of few rounds, straight code. */
static LLVMMetadataRef unroll_vectors(struct gen *g)
{
	LLVMContextRef c = g->context;
	LLVMMetadataRef nodes[2], done[2];

	done[0] = LLVMMDStringInContext2(c, "llvm.loop.isvectorized", 22);
	done[1] = LLVMValueAsMetadata(LLVMConstInt(g->i32, 1, false));
	nodes[0] = LLVMMDStringInContext2(c, "llvm.loop.vectorize.followup_vectorized", 39);
	nodes[1] = LLVMMDNodeInContext2(c, done, 2);
	return LLVMMDNodeInContext2(c, nodes, 2);
}

static LLVMMetadataRef vectorize_enable(struct gen *g, bool enable)
{
	LLVMMetadataRef pair[2];

	pair[0] = LLVMMDStringInContext2(g->context, "llvm.loop.vectorize.enable", 26);
	pair[1] = LLVMValueAsMetadata(LLVMConstInt(g->i1, enable, false));
	return LLVMMDNodeInContext2(g->context, pair, 2);
}

/* How LLVM may unroll it: a loop of a thread by how many rounds it has at most, one over threads not before it is vectors, unless
 * it is to be unrolled by four. */
static LLVMMetadataRef unroll_how(struct gen *g, unsigned hints)
{
	const char *how = hints & LOOP_FOUR    ? "llvm.loop.unroll.count"
			  : hints & LOOP_APART ? "llvm.loop.unroll.runtime.disable"
					       : "llvm.loop.unroll.disable";
	LLVMMetadataRef pair[2];

	pair[0] = LLVMMDStringInContext2(g->context, how, strlen(how));
	pair[1] = LLVMValueAsMetadata(LLVMConstInt(g->i32, 4, false));
	return LLVMMDNodeInContext2(g->context, pair, hints & LOOP_FOUR ? 2 : 1);
}

/* llvm.loop metadata: distinct because it names itself. */
void loop_metadata(struct gen *g, LLVMValueRef branch, unsigned hints, uint32_t width)
{
	LLVMContextRef c = g->context;
	LLVMMetadataRef self = LLVMTemporaryMDNode(c, NULL, 0), nodes[6] = {self}, pair[2];
	unsigned count = 1;

	nodes[count++] = unroll_how(g, hints);
	if (hints & LOOP_PARALLEL) {
		pair[0] = LLVMMDStringInContext2(c, "llvm.loop.parallel_accesses", 27);
		pair[1] = g->access_group;
		nodes[count++] = LLVMMDNodeInContext2(c, pair, 2);
	}
	if (hints & LOOP_SHORT)
		nodes[count++] = unroll_vectors(g);
	if (hints & LOOP_SCALAR)
		nodes[count++] = vectorize_enable(g, false);
	if (width) {
		pair[0] = LLVMMDStringInContext2(c, "llvm.loop.vectorize.width", 25);
		pair[1] = LLVMValueAsMetadata(LLVMConstInt(g->i32, width, false));
		nodes[count++] = LLVMMDNodeInContext2(c, pair, 2);
		nodes[count++] = vectorize_enable(g, true);
	}
	LLVMMetadataRef node = LLVMMDNodeInContext2(c, nodes, count);
	LLVMMetadataReplaceAllUsesWith(self, node);
	LLVMSetMetadata(
		branch, LLVMGetMDKindIDInContext(c, "llvm.loop", 9), LLVMMetadataAsValue(c, node));
}

bool leaves_apart(const struct gen *g, uint32_t latch)
{
	const struct work *w = g->work;

	for (uint32_t l = 0; l < w->loop_count; l++) {
		const struct loop *loop = &w->loops[l];
		bool back = false;

		for (uint32_t s = 0; s < w->blocks[latch].succ_count; s++)
			back |= w->blocks[latch].succ[s] == loop->header;
		for (uint32_t k = 0; back && bits_get(loop->members, latch) && k < loop->count;
			k++) {
			const struct work_block *b = &w->blocks[loop->blocks[k]];

			for (uint32_t s = 0; branch_diverges(w, b) && s < b->succ_count; s++)
				if (!bits_get(loop->members, b->succ[s]))
					return true;
		}
	}
	return false;
}
