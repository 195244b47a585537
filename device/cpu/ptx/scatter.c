/* SPDX-License-Identifier: MIT
 *
 * Whether threads beside each other access memory that does not lie side by side, as by an index that was loaded or by the
 * column of a matrix. Where the processor has no fast instructions for that, a vector of such accesses is taken apart, lane
 * by lane, and put together again. LLVM thinks that cheaper than it is: a loop that does little else runs thread by thread.
 */
#include <string.h>

#include "device/cpu/ptx/target.h"
#include "device/cpu/ptx/work.h"

enum { MAX_DEPTH = 48, MAX_BRANCH_DEPTH = 6, LANES = 8 };

/* What an access costs beyond a plain one, for each lane: its address leaves the vector, and its value joins or leaves it. */
enum { TAKEN_APART = 3, WAIT = 3 };

/* What a branch by a number that was loaded costs a thread that goes alone, as no processor foresees it. A vector has a mask. */
enum { NOT_FORESEEN = 6 };

enum { NOT_YET, UNKNOWN, EVEN, WILD };

struct spread { /* of a value over neighbours */
	uint8_t kind;
	bool pair;    /* EVEN where the distance of i ^ distance lets it be, WILD elsewhere */
	int64_t step; /* EVEN: from one thread to the next; 0: the same */
};

static struct spread even(int64_t step)
{
	return (struct spread){.kind = EVEN, .step = step};
}

struct defs {
	uint32_t *first, *next; /* by register, by instruction */
	struct spread *spreads;
};

static struct spread spread_of(struct work *w, const struct operand *o, unsigned depth);

/* Of a sum, `sign` before the second. */
static struct spread sum(struct spread a, struct spread b, int sign)
{
	if (a.kind == WILD || b.kind == WILD)
		return (struct spread){.kind = WILD};
	if (a.kind != EVEN || b.kind != EVEN)
		return (struct spread){.kind = UNKNOWN};
	a.step = (int64_t)((uint64_t)a.step + (uint64_t)b.step * (uint64_t)(int64_t)sign);
	a.pair |= b.pair;
	return a;
}

/* A number of the block that is no constant makes rows of neighbours. */
static struct spread product(
	struct spread a, const struct operand *x, struct spread b, const struct operand *y)
{
	if (b.kind != EVEN || b.step) {
		struct spread s = a;
		const struct operand *o = x;

		a = b;
		b = s;
		x = y;
		y = o;
	}
	if (a.kind == EVEN && !a.step && b.kind == EVEN && !b.step)
		return even(0);
	if (b.kind != EVEN || b.step || a.kind == WILD)
		return (struct spread){.kind = WILD};
	if (a.kind != EVEN)
		return a;
	if (y->kind != OPERAND_INT)
		return (struct spread){.kind = WILD};
	a.step = (int64_t)((uint64_t)a.step * (uint64_t)y->bits);
	return a;
}

/* Of what is no sum: wild, unless all of its operands are the same for neighbours. */
static struct spread any_function(struct work *w, const struct inst *i, unsigned depth)
{
	for (unsigned k = i->dest_count; k < i->operand_count; k++) {
		struct spread s = spread_of(w, &i->operands[k], depth);

		if (s.kind != EVEN || s.step)
			return (struct spread){.kind = WILD};
	}
	return even(0);
}

static struct spread inst_spread(struct work *w, const struct inst *i, unsigned depth)
{
	const struct operand *o = i->operands;
	struct spread a, b;

	if (i->op == OP_bra || i->dest_count != 1 || i->operand_count < 2)
		return (struct spread){.kind = WILD};
	a = spread_of(w, &o[1], depth);
	switch (i->op) {
	case OP_mov:
	case OP_cvt:
	case OP_cvta:
		return a;
	case OP_neg:
		return sum(even(0), a, -1);
	case OP_add:
		return sum(a, spread_of(w, &o[2], depth), 1);
	case OP_sub:
		return sum(a, spread_of(w, &o[2], depth), -1);
	case OP_mul:
	case OP_mad:
		if (inst_has(i, MOD_hi))
			break;
		b = product(a, &o[1], spread_of(w, &o[2], depth), &o[2]);
		return i->op == OP_mul ? b : sum(b, spread_of(w, &o[3], depth), 1);
	case OP_shl:
		if (o[2].kind != OPERAND_INT || o[2].bits < 0 || o[2].bits > 31)
			break;
		return product(a, &o[1], even(0),
			&(struct operand){.kind = OPERAND_INT, .bits = INT64_C(1) << o[2].bits});
	case OP_xor:
		b = spread_of(w, &o[2], depth);
		if (a.kind == EVEN && b.kind == EVEN && (!a.step || !b.step)) {
			a.pair = a.step || b.step;
			a.step += b.step;
			return a;
		}
		break;
	case OP_or: /* of what has no bit in common */
		return o[2].kind == OPERAND_INT ? a : any_function(w, i, depth);
	}
	return any_function(w, i, depth);
}

/* Of a register that has several definitions, as one on either side of a branch. */
static struct spread joined_spread(struct work *w, uint32_t reg, unsigned depth)
{
	struct spread s = {0}, other;
	uint32_t count = 0;

	for (uint32_t n = w->defs->first[reg]; n != PTX_NONE; n = w->defs->next[n], count++) {
		other = inst_spread(w, &w->insts[n], depth);
		if (count && (other.kind != s.kind || other.step != s.step))
			return (struct spread){.kind = UNKNOWN};
		other.pair |= count && s.pair;
		s = other;
	}
	return count && count == w->regs[reg].def_count ? s : (struct spread){.kind = UNKNOWN};
}

static unsigned innermost_axis(const struct work *w)
{
	return work_width(w, 0) > 1 ? 0 : w->block[1] > 1 ? 1 : 2;
}

static struct spread spread_of(struct work *w, const struct operand *o, unsigned depth)
{
	struct spread *known, s;

	if (o->kind == OPERAND_SPECIAL && o->id < SPECIAL_TID + 3)
		return even(o->id - SPECIAL_TID == innermost_axis(w));
	if (o->kind == OPERAND_SPECIAL)
		return o->id == SPECIAL_LANEID ? even(1) : even(0);
	if (o->kind != OPERAND_REG || !w->regs[o->id].divergent)
		return even(0);
	if (!depth || (!w->regs[o->id].single && !w->defs) || o->id >= w->spread_count)
		return (struct spread){.kind = UNKNOWN};
	known = &w->spreads[o->id];
	if (known->kind == NOT_YET) {
		*known = (struct spread){.kind = UNKNOWN}; /* until it is known */
		s = w->regs[o->id].single ? inst_spread(w, &w->insts[w->regs[o->id].def], depth - 1)
					  : joined_spread(w, o->id, depth - 1);
		*known = s;
	}
	return *known;
}

static unsigned values_of(const struct inst *i)
{
	unsigned values = 1;

	for (unsigned k = 0; k < i->operand_count; k++)
		if (i->operands[k].kind == OPERAND_VECTOR)
			values = i->operands[k].count;
	return values;
}

static bool is_scattered(struct work *w, const struct inst *i, bool pairs)
{
	const struct operand *address = &i->operands[i->op == OP_st ? 0 : 1];
	unsigned bytes = ptx_type_bits[i->types[0]] / 8u * values_of(i);
	struct spread s = spread_of(w, address, MAX_DEPTH);

	/* LLVM shuffles what is a few elements apart. */
	return s.kind == WILD || (s.pair && !pairs) ||
	       (s.kind == EVEN && (s.step > 4 * (int64_t)bytes || s.step < -4 * (int64_t)bytes));
}

static bool make_room(struct work *w)
{
	if (w->spreads)
		return true;
	w->spread_count = w->reg_count;
	w->spreads = work_alloc(w, (w->reg_count + 1) * sizeof(*w->spreads));
	return w->spreads;
}

/* The instructions that give each register its value, where that is all they do. */
static struct defs *find_defs(struct work *w)
{
	struct defs *d = work_alloc(w, sizeof(*d));

	if (d) {
		d->first = work_alloc(w, (w->reg_count + 1) * sizeof(*d->first));
		d->next = work_alloc(w, (w->inst_count + 1) * sizeof(*d->next));
		d->spreads = work_alloc(w, (w->reg_count + 1) * sizeof(*d->spreads));
	}
	if (w->error)
		return NULL;
	memset(d->first, 0xff, w->reg_count * sizeof(*d->first));
	for (uint32_t n = 0; n < w->inst_count; n++) {
		const struct inst *i = &w->insts[n];

		if (i->dest_count != 1 || i->operands[0].kind != OPERAND_REG)
			continue;
		d->next[n] = d->first[i->operands[0].id];
		d->first[i->operands[0].id] = n;
	}
	return d;
}

/* What scattered() asks knows registers with one definition: its weights were measured so. */
static struct spread known_spread(struct work *w, const struct operand *o)
{
	struct spread *others = w->spreads, s;

	w->all_defs = w->all_defs ? w->all_defs : find_defs(w);
	if (!w->all_defs)
		return (struct spread){.kind = UNKNOWN};
	w->defs = w->all_defs;
	w->spreads = w->defs->spreads;
	s = spread_of(w, o, MAX_DEPTH);
	w->spreads = others;
	w->defs = NULL;
	return s;
}

bool scatter_step(struct work *w, const struct inst *i, int64_t *step)
{
	enum { FARTHEST = 8 }; /* elements, where LLVM makes one access of several */
	int64_t bytes = ptx_type_bits[i->types[0]] / 8, distance;
	unsigned space = inst_space(i);

	*step = 0;
	if (!make_room(w))
		return true;
	struct spread s = known_spread(w, &i->operands[i->op == OP_st ? 0 : 1]);
	if (s.kind == WILD)
		return false;
	if (s.kind != EVEN || s.pair || (space == SPACE_GENERIC && w->local_bytes))
		return true;
	/* Threads' local memories lie side by side. */
	*step = s.step + (space == SPACE_LOCAL ? (int64_t)w->local_bytes : 0);
	distance = *step < 0 ? -*step : *step;
	return distance >= 2 * bytes && distance <= FARTHEST * bytes;
}

static bool is_loaded(const struct work *w, const struct operand *o, unsigned depth)
{
	const struct inst *i;

	if (o->kind != OPERAND_REG || !w->regs[o->id].single || !w->regs[o->id].divergent || !depth)
		return false;
	i = &w->insts[w->regs[o->id].def];
	if (inst_is_load(i))
		return inst_space(i) != SPACE_PARAM;
	for (unsigned k = i->dest_count; k < i->operand_count; k++)
		if (is_loaded(w, &i->operands[k], depth - 1))
			return true;
	return false;
}

/* How many simple instructions a vector saves, for each lane. Those of floating point count for more: a thread that goes alone
 * waits for the result of each. What computes addresses is part of the access. */
static unsigned saved_by_vectors(const struct work *w, const struct inst *i)
{
	unsigned class = i->type_count ? (unsigned)ptx_type_class[i->types[0]] : 0;

	switch (i->op) {
	case OP_bra:
		return target_masks() && i->guard != PTX_NONE &&
				       is_loaded(w,
					       &(struct operand){
						       .kind = OPERAND_REG, .id = i->guard},
					       MAX_BRANCH_DEPTH)
			       ? NOT_FORESEEN
			       : 0;
	case OP_mov:
	case OP_cvta:
		return 0;
	case OP_sin:
	case OP_cos:
	case OP_lg2:
	case OP_ex2:
	case OP_tanh:
		return 8 * WAIT;
	case OP_div:
	case OP_sqrt:
	case OP_rcp:
	case OP_rsqrt:
		return class == 'f' ? 4 * WAIT : 1;
	}
	if (i->dest_count && i->operands[0].kind == OPERAND_REG) {
		const struct work_reg *r = &w->regs[i->operands[0].id];

		if (!r->divergent)
			return 0;
		return class == 'f' ? WAIT : ptx_type_bits[r->type] < 64;
	}
	return i->op == OP_st;
}

bool loads_scattered(struct work *w, const uint32_t *blocks, uint32_t count)
{
	for (uint32_t k = 0; k < count && make_room(w); k++)
		for (uint32_t n = w->blocks[blocks[k]].first; n < w->blocks[blocks[k]].end; n++) {
			const struct inst *i = &w->insts[n];

			if (inst_is_load(i) && inst_space(i) != SPACE_PARAM &&
				spread_of(w, &i->operands[1], MAX_DEPTH).kind == WILD)
				return true;
		}
	return false;
}

bool scattered(struct work *w, const uint32_t *blocks, uint32_t count, bool pairs)
{
	unsigned long apart = 0, saved = 0;

	if (target_gathers() || !make_room(w))
		return false;
	for (uint32_t k = 0; k < count; k++)
		for (uint32_t n = w->blocks[blocks[k]].first; n < w->blocks[blocks[k]].end; n++) {
			const struct inst *i = &w->insts[n];
			bool access = inst_is_load(i) || i->op == OP_st;

			if (access && inst_space(i) != SPACE_PARAM && i->type_count &&
				is_scattered(w, i, pairs))
				apart += values_of(i);
			else
				saved += saved_by_vectors(w, i);
		}
	return apart * TAKEN_APART * LANES > saved * (LANES - 1);
}
