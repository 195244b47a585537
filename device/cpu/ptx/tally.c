/* SPDX-License-Identifier: MIT
 *
 * Threads beside each other that count in a few words of shared memory, as those of a radix sort count digits. Where neighbours
 * count the same thing, each addition waits until the one before it is in memory. A region that does nothing else with the
 * variable therefore has four copies of it, of which neighbours take turns, and adds them to it after its loop.
 *
 * No thread can tell: it asks for no result, and only behind a barrier, which ends the region, does it know what the others
 * have added. An address outside the variable, or between two words, is that of shared memory as ever.
 */
#include "device/cpu/ptx/gen.h"

enum { COPIES = 4, MAX_WORDS = 64, MAX_DEPTH = 16, WORTH = 4 };

struct tally {
	const struct variable *variable;
	uint64_t offset; /* of the variable in shared memory */
	LLVMValueRef copies;
};

/* The variable that an address in shared memory begins at, if that can be said. */
static const struct variable *base_of(const struct work *w, const struct operand *o, unsigned depth)
{
	const struct variable *a, *b;
	const struct inst *i;

	if (o->kind == OPERAND_SYMBOL)
		return o->var;
	if (!depth || o->kind != OPERAND_REG || !w->regs[o->id].single)
		return NULL;
	i = &w->insts[w->regs[o->id].def];
	if (i->op == OP_mov && i->operand_count == 2)
		return base_of(w, &i->operands[1], depth - 1);
	if (i->op != OP_add || i->operand_count != 3)
		return NULL;
	a = base_of(w, &i->operands[1], depth - 1);
	b = base_of(w, &i->operands[2], depth - 1);
	return a && b ? NULL : a ? a : b;
}

static const struct operand *address_of(const struct inst *i)
{
	return &i->operands[i->op == OP_st ? 0 : i->dest_count];
}

struct use {
	uint32_t reg;
	bool found;
};

static void note_use(void *data, struct operand *o)
{
	struct use *u = data;

	u->found |= o->id == u->reg;
}

static bool is_read(struct work *w, const struct operand *o)
{
	struct use u = {.reg = o->id};

	for (uint32_t n = 0; n < w->inst_count && o->kind == OPERAND_REG && !u.found; n++)
		inst_uses(&w->insts[n], note_use, &u);
	return u.found;
}

static bool counts(struct work *w, const struct inst *i)
{
	return (i->op == OP_atom || i->op == OP_red) && inst_space(i) == SPACE_SHARED &&
	       inst_has(i, MOD_add) && i->type_count == 1 &&
	       (i->types[0] == TYPE_u32 || i->types[0] == TYPE_s32) &&
	       (!i->dest_count || !is_read(w, &i->operands[0]));
}

static bool is_small(const struct work *w, const struct variable *v)
{
	uint64_t words = v->size / 4;

	return v->space == SPACE_SHARED && !v->unsized && !v->is_extern && !(v->size % 16) &&
	       words && words <= MAX_WORDS && w->threads >= WORTH * words;
}

/* Whether the instruction lets the region have copies of what it counts in, which is *v, NULL: nothing so far. */
static bool admits(struct work *w, const struct inst *i, const struct variable **v)
{
	bool access = inst_is_load(i) || i->op == OP_st || i->op == OP_atom || i->op == OP_red;
	const struct variable *base;

	if (!access)
		return (ptx_opcodes[i->op].flags & (OPF_PURE | OPF_TERMINATOR | OPF_IGNORE)) ||
		       i->op == OP_bar || i->op == OP_barrier;
	if (inst_space(i) != SPACE_SHARED)
		return true;
	base = base_of(w, address_of(i), MAX_DEPTH);
	if (!base)
		return false;
	if (counts(w, i) && !*v && is_small(w, base))
		*v = base;
	return true;
}

/* Whether nothing but counting is done with the variable. */
static bool only_counts(struct work *w, const struct inst *i, const struct variable *v)
{
	bool access = inst_is_load(i) || i->op == OP_st || i->op == OP_atom || i->op == OP_red;

	return !access || inst_space(i) != SPACE_SHARED || counts(w, i) ||
	       base_of(w, address_of(i), MAX_DEPTH) != v;
}

static bool find_offset(const struct work *w, struct tally *t)
{
	for (uint32_t k = 0; k < w->entry->shared_count; k++)
		if (w->entry->shared[k].var == t->variable) {
			t->offset = w->entry->shared[k].offset;
			return true;
		}
	return false;
}

struct tally *tally_begin(struct gen *g, const struct region *r)
{
	struct work *w = g->work;
	const struct variable *v = NULL;
	struct tally *t;

	if (w->checked || g->plan->scheduled || g->parallel || r->collective || w->shared_escapes)
		return NULL;
	for (unsigned pass = 0; pass < 2; pass++)
		for (uint32_t k = 0; k < r->block_count; k++) {
			const struct work_block *b = &w->blocks[r->blocks[k]];

			for (uint32_t n = b->first; n < b->end; n++)
				if (pass ? !only_counts(w, &w->insts[n], v)
					 : !admits(w, &w->insts[n], &v))
					return NULL;
		}
	t = v ? work_alloc(w, sizeof(*t)) : NULL;
	if (!t)
		return NULL;
	t->variable = v;
	if (!find_offset(w, t))
		return NULL;
	t->copies = gen_alloca(g, LLVMArrayType2(g->i8, COPIES * v->size), "tally");
	LLVMSetAlignment(t->copies, 64);
	LLVMBuildMemSet(
		g->scalar, t->copies, LLVMConstNull(g->i8), gen_int(g, COPIES * v->size), 64);
	return t;
}

static void add_to(struct gen *g, LLVMValueRef p, LLVMValueRef v)
{
	LLVMBuildStore(g->b, LLVMBuildAdd(g->b, LLVMBuildLoad2(g->b, g->i32, p, ""), v, ""), p);
}

bool tally_add(struct gen *g, const struct inst *i)
{
	const struct tally *t = g->tally;

	if (inst_space(i) != SPACE_SHARED ||
		base_of(g->work, address_of(i), MAX_DEPTH) != t->variable)
		return false;
	LLVMValueRef address = emit_offset(g, address_of(i), SPACE_SHARED), copy;
	LLVMValueRef v = emit_operand(g, &i->operands[i->dest_count + 1], g->i32);
	LLVMBasicBlockRef own = gen_block(g, "tally"), other = gen_block(g, "shared"),
			  after = gen_block(g, "counted");
	LLVMValueRef at = LLVMBuildSub(g->b, address, gen_int(g, t->offset), "");
	LLVMValueRef odd = LLVMBuildAnd(g->b, at, gen_int(g, 3), "");
	LLVMValueRef inside = LLVMBuildAnd(g->b,
		LLVMBuildICmp(g->b, LLVMIntULT, at, gen_int(g, t->variable->size), ""),
		LLVMBuildICmp(g->b, LLVMIntEQ, odd, gen_int(g, 0), ""), "");

	copy = LLVMBuildAnd(g->b, g->linear, LLVMConstInt(g->i32, COPIES - 1, false), "");
	copy = LLVMBuildZExt(g->b, copy, g->i64, "");
	copy = LLVMBuildNUWMul(g->b, copy, gen_int(g, t->variable->size), "");
	LLVMBuildCondBr(g->b, inside, own, other);
	LLVMPositionBuilderAtEnd(g->b, own);
	add_to(g, gen_gep(g, g->b, t->copies, LLVMBuildNUWAdd(g->b, copy, at, "")), v);
	LLVMBuildBr(g->b, after);
	LLVMPositionBuilderAtEnd(g->b, other);
	add_to(g, gen_gep(g, g->b, g->shared, address), v);
	LLVMBuildBr(g->b, after);
	LLVMPositionBuilderAtEnd(g->b, after);
	return true;
}

/* As one vector, which LLVM takes apart as the processor needs it. */
static LLVMValueRef load_all(struct gen *g, const struct tally *t, LLVMValueRef p)
{
	LLVMTypeRef type = LLVMVectorType(g->i32, (unsigned)(t->variable->size / 4));
	LLVMValueRef v = LLVMBuildLoad2(g->scalar, type, p, "");

	LLVMSetAlignment(v, 4);
	return v;
}

void tally_end(struct gen *g, const struct tally *t)
{
	LLVMValueRef p, sum, store;

	if (!t)
		return;
	p = gen_gep(g, g->scalar, g->shared, gen_int(g, t->offset));
	sum = load_all(g, t, p);
	for (unsigned k = 0; k < COPIES; k++)
		sum = LLVMBuildAdd(g->scalar, sum,
			load_all(g, t,
				gen_gep(g, g->scalar, t->copies,
					gen_int(g, k * t->variable->size))),
			"");
	store = LLVMBuildStore(g->scalar, sum, p);
	LLVMSetAlignment(store, 4);
}
