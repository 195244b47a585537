/* SPDX-License-Identifier: MIT
 *
 * Loads whose address comes from one of two state spaces. Compilers make one load of two where the sides of a branch meet:
 *
 *     a: cvta.shared r, x; bra c        b: cvta.global r, y; bra c        c: ld d, [r]
 *
 * Of such a register LLVM knows neither a space nor that neighbours load what is side by side. Each side gets its load back:
 *
 *     a: ld.shared d, [x]; bra c        b: ld.global d, [y]; bra c        c:
 */
#include "device/cpu/ptx/work.h"

#include <errno.h>

struct spaces {
	struct work *work;
	uint32_t *uses;   /* by register: how often it is read */
	uint64_t *gone;   /* by instruction: is left out */
	uint32_t *joined; /* by block: the block whose first loads go to its end, or PTX_NONE */
	uint32_t *cvta;   /* of such a block: where the address comes from */
	uint32_t *loads;  /* by block: how many of its first loads go to the blocks before it */
};

static void count_use(void *data, struct operand *o)
{
	struct spaces *s = data;

	s->uses[o->id]++;
}

static bool is_generic_load(const struct inst *i)
{
	return i->op == OP_ld && inst_space(i) == SPACE_GENERIC && i->operand_count == 2 &&
	       i->operands[1].kind == OPERAND_REG && i->modifier_count < PTX_MAX_MODIFIERS &&
	       !inst_has(i, MOD_volatile) && !inst_has(i, MOD_relaxed) &&
	       !inst_has(i, MOD_acquire) && !inst_has(i, MOD_mmio);
}

/* How many loads from one address, which nothing else uses, a block begins with. */
static uint32_t first_loads(const struct spaces *s, const struct work_block *b)
{
	const struct work *w = s->work;
	uint32_t n = b->first, address;

	if (!is_generic_load(&w->insts[n]))
		return 0;
	address = w->insts[n].operands[1].id;
	while (n < b->end && is_generic_load(&w->insts[n]) && w->insts[n].operands[1].id == address)
		n++;
	return s->uses[address] == n - b->first ? n - b->first : 0;
}

/* A conversion to a generic address of what does not change. */
static bool is_source(const struct work *w, const struct inst *i, uint32_t address)
{
	unsigned space = inst_space(i);

	return i->op == OP_cvta && !inst_has(i, MOD_to) &&
	       (space == SPACE_SHARED || space == SPACE_GLOBAL) &&
	       i->operands[0].kind == OPERAND_REG && i->operands[0].id == address &&
	       i->operand_count == 2 && i->operands[1].kind == OPERAND_REG &&
	       w->regs[i->operands[1].id].single;
}

/* Where a block that goes nowhere but to the loads has the only conversion that they may see, or PTX_NONE. */
static uint32_t find_source(const struct spaces *s, const struct work_block *b, uint32_t address)
{
	const struct work *w = s->work;

	if (b->succ_count != 1 || block_last(w, b)->guard != PTX_NONE ||
		block_last(w, b)->op == OP_brx)
		return PTX_NONE;
	for (uint32_t n = b->end; n-- > b->first;)
		if (is_source(w, &w->insts[n], address))
			return n;
	return PTX_NONE;
}

static bool consider(struct spaces *s, uint32_t block)
{
	struct work *w = s->work;
	const struct work_block *b = &w->blocks[block];
	uint32_t count = b->pred_count > 1 ? first_loads(s, b) : 0, address;

	if (!count)
		return false;
	address = w->insts[b->first].operands[1].id;
	if (w->regs[address].def_count != b->pred_count)
		return false;
	for (uint32_t k = 0; k < b->pred_count; k++)
		if (find_source(s, &w->blocks[b->pred[k]], address) == PTX_NONE)
			return false;
	for (uint32_t k = 0; k < b->pred_count; k++) {
		uint32_t from = find_source(s, &w->blocks[b->pred[k]], address);

		s->joined[b->pred[k]] = block;
		s->cvta[b->pred[k]] = from;
		bits_set(s->gone, from);
	}
	for (uint32_t n = 0; n < count; n++)
		bits_set(s->gone, b->first + n);
	s->loads[block] = count;
	return true;
}

/* ---- writing the new list ---- */

static void add_loads(struct spaces *s, const struct inst *old, uint32_t block)
{
	struct work *w = s->work;
	uint32_t to = s->joined[block], first = w->blocks[to].first;
	const struct inst *from = &old[s->cvta[block]];
	unsigned space = inst_space(from) == SPACE_SHARED ? MOD_shared : MOD_global;

	for (uint32_t k = 0; k < s->loads[to] && !w->error; k++) {
		const struct inst *load = &old[first + k];
		struct inst *i = work_inst(w, OP_ld, load->line, 2);

		if (!i)
			return;
		struct operand *operands = i->operands;
		*i = *load;
		i->operands = operands;
		i->modifiers[i->modifier_count++] = (uint8_t)space;
		operands[0] = load->operands[0];
		operands[1] = load->operands[1];
		operands[1].id = from->operands[1].id;
	}
}

static void copy_inst(struct work *w, const struct inst *old)
{
	struct inst *copy = work_inst(w, old->op, old->line, 0);

	if (copy)
		*copy = *old;
}

static void rewrite(struct spaces *s)
{
	struct work *w = s->work;
	struct inst *old = w->insts;
	uint32_t count = w->inst_count;
	uint32_t *moved = work_alloc(w, (count + 1) * sizeof(*moved));

	w->insts = NULL;
	w->inst_count = w->inst_capacity = 0;
	for (uint32_t b = 0; b < w->block_count && !w->error; b++) {
		bool joined = s->joined[b] != PTX_NONE;

		for (uint32_t n = w->blocks[b].first; n < w->blocks[b].end && !w->error; n++) {
			bool jump = old[n].op == OP_bra;

			moved[n] = w->inst_count;
			if (joined && jump)
				add_loads(s, old, b);
			if (!bits_get(s->gone, n))
				copy_inst(w, &old[n]);
			if (joined && !jump && n + 1 == w->blocks[b].end)
				add_loads(s, old, b);
		}
	}
	if (w->error)
		return;
	moved[count] = w->inst_count;
	work_move_labels(w, moved);
}

bool spaces_rewrite(struct work *w)
{
	struct spaces s = {.work = w};
	bool found = false;

	s.uses = work_alloc(w, (w->reg_count + 1) * sizeof(*s.uses));
	s.gone = work_alloc(w, (w->inst_count / 64 + 1) * 8);
	s.joined = work_alloc(w, (w->block_count + 1) * sizeof(*s.joined));
	s.cvta = work_alloc(w, (w->block_count + 1) * sizeof(*s.cvta));
	s.loads = work_alloc(w, (w->block_count + 1) * sizeof(*s.loads));
	if (w->error)
		return false;
	for (uint32_t b = 0; b < w->block_count; b++)
		s.joined[b] = PTX_NONE;
	for (uint32_t n = 0; n < w->inst_count; n++)
		inst_uses(&w->insts[n], count_use, &s);
	for (uint32_t k = 0; k < w->rpo_count; k++)
		found |= consider(&s, w->rpo[k]);
	if (!found)
		return false;
	rewrite(&s);
	return true;
}
