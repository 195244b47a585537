/* SPDX-License-Identifier: MIT
 *
 * Threads that work with others whose index differs in some bits, as those of a bitonic sort or of a Fourier transform:
 * values[i ^ distance]. Where the distance has none of the lowest bits, neighbours work with neighbours, and what they access
 * lies side by side. As LLVM does not see that, a region with such indices is written twice: as a loop over strips of
 * neighbours, in which i ^ distance is a number of the strip plus the lane, and as the plain loop, for other distances.
 */
#include "device/cpu/ptx/gen.h"
#include "device/cpu/ptx/target.h"

enum { MAX_PAIRS = 8 };

struct pair { /* an instruction that makes i ^ distance */
	const struct inst *inst;
	const struct operand *index, *distance;
	LLVMValueRef own,
		other; /* of the strip at hand: the index of its first lane, and what that works with */
};

struct butterfly {
	struct pair pairs[MAX_PAIRS];
	unsigned count;
	uint32_t width; /* lanes of a strip */
	LLVMValueRef lane;
};

/* Whether the operand can be computed before the region's code: from nothing that the region computes for the block. */
static bool at_hand(const struct work *w, const struct region *r, const struct operand *o)
{
	const struct inst *def;

	if (o->kind != OPERAND_REG)
		return true;
	for (uint32_t k = 0; w->regs[o->id].scalar && k < r->block_count; k++)
		if (w->regs[o->id].def >= w->blocks[r->blocks[k]].first &&
			w->regs[o->id].def < w->blocks[r->blocks[k]].end)
			return false;
	if (w->regs[o->id].scalar)
		return w->regs[o->id].single;
	def = &w->insts[w->regs[o->id].def];
	for (unsigned k = def->dest_count; k < def->operand_count; k++)
		if (!at_hand(w, r, &def->operands[k]))
			return false;
	return true;
}

static bool find_pair(
	const struct gen *g, const struct region *r, const struct inst *i, struct pair *p)
{
	const struct work *w = g->work;
	struct index_sum s;

	if (i->op != OP_xor || i->type_count != 1 || ptx_type_bits[i->types[0]] != 32 ||
		i->operands[0].kind != OPERAND_REG || !w->regs[i->operands[0].id].single)
		return false;
	for (unsigned k = 1; k < 3; k++) {
		const struct operand *a = &i->operands[k], *b = &i->operands[3 - k];

		if (a->kind != OPERAND_REG || !w->regs[a->id].pure || !index_sum(w, a->id, &s) ||
			s.axis || s.falls || a->negated || b->negated)
			continue;
		if (b->kind != OPERAND_INT && (b->kind != OPERAND_REG || !w->regs[b->id].scalar))
			continue;
		if (!at_hand(w, r, a) || !at_hand(w, r, b))
			continue;
		*p = (struct pair){.inst = i, .index = a, .distance = b};
		return true;
	}
	return false;
}

struct butterfly *butterfly_find(
	struct gen *g, const struct region *r, const struct thread_range *range)
{
	struct work *w = g->work;
	struct butterfly found = {.width = target_gathers() ? 16 : 8}, *b;
	struct pair p;

	if (g->plan->scheduled || !g->parallel || r->border || r->collective || range->from[0] ||
		range->to[0] || w->block[0] % found.width || w->inst_count >= LARGE_KERNEL)
		return NULL;
	for (uint32_t n = 0; n < w->inst_count; n++) {
		if (!find_pair(g, r, &w->insts[n], &p) ||
			!bits_get(g->used, p.inst->operands[0].id))
			continue;
		if (found.count == MAX_PAIRS)
			return NULL;
		found.pairs[found.count++] = p;
	}
	if (!found.count || scattered(w, r->blocks, r->block_count, true))
		return NULL;
	b = work_alloc(w, sizeof(*b));
	if (b)
		*b = found;
	return b;
}

LLVMValueRef butterfly_fits(struct gen *g, const struct butterfly *b)
{
	LLVMValueRef low = LLVMConstNull(g->i32);

	for (unsigned k = 0; k < b->count; k++) {
		low = LLVMBuildOr(
			g->scalar, low, monotone_value(g, b->pairs[k].index->id, false), "");
		low = LLVMBuildOr(
			g->scalar, low, emit_operand(g, b->pairs[k].distance, g->i32), "");
	}
	low = LLVMBuildAnd(g->scalar, low, LLVMConstInt(g->i32, b->width - 1, false), "");
	return LLVMBuildICmp(g->scalar, LLVMIntEQ, low, LLVMConstNull(g->i32), "");
}

uint32_t butterfly_width(const struct butterfly *b)
{
	return b->width;
}

/* The builder stands in the body of the loop over strips; it will stand in that over lanes. */
void butterfly_begin(
	struct gen *g, struct butterfly *b, struct thread_loop *strip, struct thread_loop *lanes)
{
	uint64_t *done = work_alloc(g->work, (g->work->reg_count / 64 + 1) * 8);
	LLVMBasicBlockRef before = LLVMGetInsertBlock(g->b);
	LLVMValueRef zero = LLVMConstNull(g->i32), rows;

	if (!done)
		return;
	for (unsigned k = 0; k < b->count; k++) {
		rematerialise(g, b->pairs[k].index->id, done);
		b->pairs[k].own = reg_read(g, b->pairs[k].index->id);
		b->pairs[k].other = LLVMBuildXor(
			g->b, b->pairs[k].own, emit_operand(g, b->pairs[k].distance, g->i32), "");
	}
	rows = LLVMBuildNUWSub(g->b, g->linear, strip->index[0], "");
	*lanes = (struct thread_loop){.after = gen_block(g, "lane")};
	lanes->header[0] = gen_block(g, "lanes");
	LLVMBuildBr(g->b, lanes->header[0]);
	LLVMPositionBuilderAtEnd(g->b, lanes->header[0]);
	b->lane = LLVMBuildPhi(g->b, g->i32, "lane");
	LLVMAddIncoming(b->lane, &zero, &before, 1);
	g->tid[0] = LLVMBuildNUWAdd(g->b, strip->index[0], b->lane, "");
	g->linear = LLVMBuildNUWAdd(g->b, rows, g->tid[0], "");
	g->butterfly = b;
}

void butterfly_end(
	struct gen *g, struct butterfly *b, struct thread_loop *strip, struct thread_loop *lanes)
{
	LLVMValueRef next, more;

	g->butterfly = NULL;
	LLVMPositionBuilderAtEnd(g->b, lanes->after);
	next = LLVMBuildNUWAdd(g->b, b->lane, LLVMConstInt(g->i32, 1, false), "");
	more = LLVMBuildICmp(g->b, LLVMIntNE, next, LLVMConstInt(g->i32, b->width, false), "");
	LLVMAddIncoming(b->lane, &next, &lanes->after, 1);
	loop_metadata(g, LLVMBuildCondBr(g->b, more, lanes->header[0], strip->after),
		LOOP_PARALLEL | LOOP_SHORT, b->width);
}

/* Both are told as sums with the lane: of two of them LLVM sees that all lanes say the same of which is larger. */
bool butterfly_emit(struct gen *g, const struct inst *i)
{
	const struct butterfly *b = g->butterfly;

	for (unsigned k = 0; b && k < b->count; k++) {
		const struct pair *p = &b->pairs[k];
		bool own = i == &g->work->insts[g->work->regs[p->index->id].def];

		if (i != p->inst && !own)
			continue;
		/* The lowest bits of the first are 0: nothing carries. */
		LLVMValueRef v = LLVMBuildNUWAdd(g->b, own ? p->own : p->other, b->lane, "");

		LLVMSetNSW(v, true);
		emit_result(g, &i->operands[0], v);
		return true;
	}
	return false;
}
