/* SPDX-License-Identifier: MIT
 *
 * Loops that threads leave at different times, as that over the steps of a point of the Mandelbrot set. Neighbours along
 * x, the lanes, go through such a loop together: a round is a loop over the lanes, which LLVM makes vectors of, with a
 * mask of those that are still inside; it is repeated until none is.
 *
 * A region with such a loop is a loop over strips of lanes, and in it three phases, each a loop over the lanes: what
 * comes before, the round, what comes behind. Between phases each lane has a state, which says where it goes on, and its
 * registers are in arrays with an element per lane. Those of the round are its own: when the round is vectors, an array is
 * a vector that is loaded and stored whole, and LLVM keeps it in a register.
 *
 * Only loops that compute and do not touch memory are run so: a lane that has left computes on, and nobody sees what.
 */
#include "device/cpu/ptx/gen.h"

#include <string.h>

enum phase { BEFORE, ROUND, BEHIND, ELSEWHERE };

enum { STATE_DONE, STATE_ROUND, STATE_LEAVING, STATE_TARGETS, MAX_TARGETS = 16 };

struct lanes {
	const struct region *region;
	const struct loop *loop;
	enum phase *phase_of; /* by block */
	enum phase phase;     /* that is being generated */
	uint32_t width;
	uint32_t targets[MAX_TARGETS],
		target_count;          /* blocks behind to which control goes from the others */
	uint64_t *crossing;            /* registers that a phase needs of one before */
	uint64_t *used, *defined;      /* in the loop */
	LLVMValueRef *kept, *in_round; /* arrays by register; NULL: none */
	LLVMValueRef states, round_states, state;
	LLVMValueRef base, rows; /* index of the first lane along x, and of its row */
	LLVMValueRef from,
		to; /* of the indices along x, or NULL: strips are whole, lanes outside do nothing */
	LLVMValueRef lane;
	LLVMBasicBlockRef header, bottom; /* of the loop over lanes at hand */
	LLVMBasicBlockRef going[STATE_TARGETS + MAX_TARGETS];
};

/* ---- which regions ---- */

static bool is_clock(const struct operand *o)
{
	return o->kind == OPERAND_SPECIAL && o->id >= SPECIAL_CLOCK &&
	       o->id <= SPECIAL_GLOBALTIMER_HI;
}

static bool only_computes(const struct inst *i)
{
	bool divides = i->op == OP_div || i->op == OP_rem;

	for (unsigned k = i->dest_count; k < i->operand_count; k++)
		if (is_clock(&i->operands[k]))
			return false;
	if (i->op == OP_bra)
		return true;
	if (inst_is_load(i))
		return inst_space(i) == SPACE_PARAM && i->operands[1].kind == OPERAND_SYMBOL;
	return ptx_opcodes[i->op].flags & OPF_PURE &&
	       !(divides && ptx_type_class[i->types[0]] != 'f');
}

/* The only loop of the region, if it has all of it. */
static const struct loop *only_loop(const struct work *w, const struct region *r, uint32_t id)
{
	const struct loop *found = NULL;

	for (uint32_t l = 0; l < w->loop_count; l++) {
		uint32_t inside = 0;

		for (uint32_t k = 0; k < w->loops[l].count; k++)
			inside += w->blocks[w->loops[l].blocks[k]].region == id;
		if (inside < w->loops[l].count || w->loops[l].header == r->entry)
			continue;
		if (found)
			return NULL;
		found = &w->loops[l];
	}
	return found;
}

/* Whether control goes only forwards, but for the loop, through plain instructions. */
static bool is_plain(const struct gen *g, const struct region *r, const struct loop *loop)
{
	const struct work *w = g->work;

	for (uint32_t k = 0; k < r->block_count; k++) {
		const struct work_block *b = &w->blocks[r->blocks[k]];
		bool inside = bits_get(loop->members, r->blocks[k]);

		for (uint32_t n = b->first; n < b->end; n++)
			if (inst_writes_carry(&w->insts[n]) || inst_reads_carry(&w->insts[n]) ||
				w->insts[n].op == OP_brx ||
				(inside && !only_computes(&w->insts[n])))
				return false;
		for (uint32_t s = 0; s < b->succ_count; s++)
			if (w->blocks[b->succ[s]].order <= b->order &&
				!bits_get(g->plan->entries, b->succ[s]) &&
				!(inside && b->succ[s] == loop->header))
				return false;
	}
	return true;
}

static bool in_region(const struct gen *g, const struct region *r, uint32_t block)
{
	const struct work *w = g->work;

	return block < w->block_count && !bits_get(g->plan->entries, block) &&
	       w->blocks[block].region == w->blocks[r->entry].region;
}

static bool add_target(struct lanes *l, uint32_t block)
{
	for (uint32_t k = 0; k < l->target_count; k++)
		if (l->targets[k] == block)
			return true;
	if (l->target_count == MAX_TARGETS)
		return false;
	l->targets[l->target_count++] = block;
	return true;
}

/* The region's blocks are in an order in which control goes forwards. */
static bool find_phases(const struct gen *g, const struct region *r, struct lanes *l)
{
	const struct work *w = g->work;

	for (uint32_t k = 0; k < r->block_count; k++)
		l->phase_of[r->blocks[k]] =
			bits_get(l->loop->members, r->blocks[k]) ? ROUND : BEFORE;
	for (uint32_t k = 0; k < r->block_count; k++) {
		const struct work_block *b = &w->blocks[r->blocks[k]];

		for (uint32_t s = 0; l->phase_of[r->blocks[k]] != BEFORE && s < b->succ_count; s++)
			if (in_region(g, r, b->succ[s]) && l->phase_of[b->succ[s]] == BEFORE)
				l->phase_of[b->succ[s]] = BEHIND;
	}
	for (uint32_t k = 0; k < r->block_count; k++) {
		const struct work_block *b = &w->blocks[r->blocks[k]];

		for (uint32_t s = 0; l->phase_of[r->blocks[k]] != BEHIND && s < b->succ_count; s++)
			if (in_region(g, r, b->succ[s]) && l->phase_of[b->succ[s]] == BEHIND &&
				!add_target(l, b->succ[s]))
				return false;
	}
	return true;
}

struct lanes *lanes_find(struct gen *g, const struct region *r, const struct thread_range *range)
{
	struct work *w = g->work;
	uint32_t id = w->blocks[r->entry].region;
	uint32_t width = w->block[0] % 16 == 0 ? 16 : w->block[0] % 8 == 0 ? 8 : 0;
	const struct loop *loop;
	struct lanes *l;

	if (!width || g->plan->scheduled || r->border || r->collective || r->dead_end ||
		w->inst_count >= LARGE_KERNEL)
		return NULL;
	loop = only_loop(w, r, id);
	if (!loop || !is_plain(g, r, loop) || !(l = work_alloc(w, sizeof(*l))))
		return NULL;
	l->region = r;
	l->from = range->from[0];
	l->to = range->to[0];
	l->loop = loop;
	l->width = width;
	l->phase_of = work_alloc(w, (w->block_count + 1) * sizeof(*l->phase_of));
	l->crossing = work_alloc(w, (w->reg_count / 64 + 1) * 8);
	l->used = work_alloc(w, (w->reg_count / 64 + 1) * 8);
	l->defined = work_alloc(w, (w->reg_count / 64 + 1) * 8);
	l->kept = work_alloc(w, (w->reg_count + 1) * sizeof(*l->kept));
	l->in_round = work_alloc(w, (w->reg_count + 1) * sizeof(*l->in_round));
	return !w->error && find_phases(g, r, l) ? l : NULL;
}

uint32_t lanes_width(const struct lanes *l)
{
	return l ? l->width : 1;
}

/* ---- what a lane keeps between phases ---- */

static void add_live(const struct gen *g, struct lanes *l, const uint64_t *live)
{
	const struct work *w = g->work;

	for (uint32_t k = 0; k < w->global_count; k++) {
		uint32_t reg = w->globals[k];

		if (bits_get(live, k) && !w->regs[reg].scalar && bits_get(g->used, reg))
			bits_set(l->crossing, reg);
	}
}

static void note(void *data, struct operand *o)
{
	bits_set(data, o->id);
}

static LLVMValueRef new_array(struct gen *g, const struct lanes *l, LLVMTypeRef type)
{
	LLVMValueRef a = gen_alloca(g, LLVMArrayType2(type, l->width), "lanes");

	LLVMSetAlignment(a, 64);
	return a;
}

static void find_kept(struct gen *g, struct lanes *l)
{
	struct work *w = g->work;

	for (uint32_t k = 0; k < l->loop->count; k++) {
		const struct work_block *b = &w->blocks[l->loop->blocks[k]];

		for (uint32_t n = b->first; n < b->end; n++) {
			inst_uses(&w->insts[n], note, l->used);
			inst_defs(&w->insts[n], note, l->defined);
		}
	}
	add_live(g, l, w->blocks[l->loop->header].live_in);
	for (uint32_t k = 0; k < l->target_count; k++)
		add_live(g, l, w->blocks[l->targets[k]].live_in);
	add_live(g, l, l->region->live_out);
	for (uint32_t reg = 0; reg < w->reg_count; reg++) {
		if (!bits_get(l->crossing, reg) || w->regs[reg].pure)
			continue;
		l->kept[reg] = new_array(g, l, slot_type(g, reg));
		if (bits_get(l->used, reg) || bits_get(l->defined, reg))
			l->in_round[reg] = new_array(g, l, slot_type(g, reg));
	}
	l->states = new_array(g, l, g->i8);
	l->round_states = new_array(g, l, g->i8);
	l->state = gen_alloca(g, g->i8, "state");
}

static LLVMValueRef element(
	struct gen *g, const struct lanes *l, LLVMValueRef array, LLVMTypeRef type)
{
	LLVMValueRef lane = LLVMBuildZExt(g->b, l->lane, g->i64, "");

	return LLVMBuildGEP2(g->b, type, array, &lane, 1, "");
}

static LLVMValueRef load_element(
	struct gen *g, const struct lanes *l, LLVMValueRef array, LLVMTypeRef type)
{
	LLVMValueRef v = LLVMBuildLoad2(g->b, type, element(g, l, array, type), "");

	gen_mark(g, v);
	return v;
}

static void store_element(struct gen *g, const struct lanes *l, LLVMValueRef array, LLVMValueRef v)
{
	gen_mark(g, LLVMBuildStore(g->b, v, element(g, l, array, LLVMTypeOf(v))));
}

static void load_states(struct gen *g, const struct lanes *l, LLVMValueRef states)
{
	LLVMBuildStore(g->b, load_element(g, l, states, g->i8), l->state);
}

static void store_states(struct gen *g, const struct lanes *l, LLVMValueRef states)
{
	store_element(g, l, states, LLVMBuildLoad2(g->b, g->i8, l->state, ""));
}

/* `only`: NULL: all that have an array. */
static void load_registers(struct gen *g, const struct lanes *l, LLVMValueRef *arrays)
{
	for (uint32_t reg = 0; reg < g->work->reg_count; reg++)
		if (arrays[reg])
			reg_write(g, reg, load_element(g, l, arrays[reg], slot_type(g, reg)));
}

static void store_registers(
	struct gen *g, const struct lanes *l, LLVMValueRef *arrays, const uint64_t *only)
{
	for (uint32_t reg = 0; reg < g->work->reg_count; reg++)
		if (arrays[reg] && (!only || bits_get(only, reg)))
			store_element(g, l, arrays[reg],
				emit_coerce(g, reg_read(g, reg), slot_type(g, reg)));
}

/* Registers that are computed again rather than kept; only what the loop uses in the round. */
static void compute_registers(struct gen *g, const struct lanes *l)
{
	struct work *w = g->work;
	uint64_t *done = work_alloc(w, (w->reg_count / 64 + 1) * 8);

	for (uint32_t reg = 0; reg < w->reg_count && !w->error; reg++)
		if (bits_get(l->crossing, reg) && w->regs[reg].pure &&
			(l->phase != ROUND ||
				(bits_get(l->used, reg) && !bits_get(l->defined, reg))))
			rematerialise(g, reg, done);
}

static void copy(
	struct gen *g, const struct lanes *l, LLVMTypeRef type, LLVMValueRef from, LLVMValueRef to)
{
	LLVMValueRef v = LLVMBuildLoad2(g->b, LLVMVectorType(type, l->width), from, "");

	LLVMSetAlignment(v, 64);
	LLVMSetAlignment(LLVMBuildStore(g->b, v, to), 64);
}

/* ---- phases ---- */

static void phase_begin(struct gen *g, struct lanes *l, enum phase phase)
{
	LLVMBasicBlockRef before = LLVMGetInsertBlock(g->b);
	LLVMValueRef zero = LLVMConstNull(g->i32);

	l->phase = phase;
	memset(l->going, 0, sizeof(l->going));
	l->header = gen_block(g, "lanes");
	l->bottom = gen_block(g, "lane");
	LLVMBuildBr(g->b, l->header);
	LLVMPositionBuilderAtEnd(g->b, l->header);
	l->lane = LLVMBuildPhi(g->b, g->i32, "lane");
	LLVMAddIncoming(l->lane, &zero, &before, 1);
	g->tid[0] = LLVMBuildNUWAdd(g->b, l->base, l->lane, "");
	g->linear = LLVMBuildNUWAdd(g->b, l->rows, g->tid[0], "");
}

/* The builder stands at the end of the bottom, and then behind the loop. */
static void phase_end(struct gen *g, struct lanes *l)
{
	LLVMBasicBlockRef out = gen_block(g, "strip"), at = LLVMGetInsertBlock(g->b);
	LLVMValueRef next = LLVMBuildNUWAdd(g->b, l->lane, LLVMConstInt(g->i32, 1, false), "");
	LLVMValueRef more =
		LLVMBuildICmp(g->b, LLVMIntNE, next, LLVMConstInt(g->i32, l->width, false), "");

	LLVMAddIncoming(l->lane, &next, &at, 1);
	loop_metadata(g, LLVMBuildCondBr(g->b, more, l->header, out),
		g->parallel ? LOOP_PARALLEL : 0, l->phase == ROUND ? l->width : 0);
	LLVMPositionBuilderAtEnd(g->b, out);
}

/* Where a lane goes on in a later phase, or in the next round. */
static LLVMBasicBlockRef go(struct gen *g, struct lanes *l, unsigned state)
{
	LLVMBasicBlockRef at = l->going[state], old = LLVMGetInsertBlock(g->b);

	if (at)
		return at;
	at = l->going[state] = gen_block(g, "go");
	LLVMPositionBuilderAtEnd(g->b, at);
	LLVMBuildStore(g->b, LLVMConstInt(g->i8, state, false), l->state);
	LLVMBuildBr(g->b, l->bottom);
	LLVMPositionBuilderAtEnd(g->b, old);
	return at;
}

LLVMBasicBlockRef lanes_edge(struct gen *g, struct lanes *l, uint32_t to)
{
	if (to == l->loop->header)
		return go(g, l, STATE_ROUND);
	if (l->phase_of[to] == l->phase)
		return g->blocks[to];
	for (uint32_t k = 0; k < l->target_count; k++)
		if (l->targets[k] == to)
			return go(g, l, STATE_TARGETS + k);
	return NULL; /* find_phases() knows them all */
}

static void make_blocks(struct gen *g, const struct lanes *l)
{
	for (uint32_t k = 0; k < l->region->block_count; k++)
		if (l->phase_of[l->region->blocks[k]] == l->phase)
			g->blocks[l->region->blocks[k]] = gen_block(g, "b");
}

static void emit_phase(struct gen *g, struct lanes *l, struct thread_loop *t)
{
	for (uint32_t k = 0; k < l->region->block_count && !g->work->error; k++)
		if (l->phase_of[l->region->blocks[k]] == l->phase)
			emit_block(g, l->region, l->region->blocks[k], t);
}

static void emit_leave(struct gen *g, const struct lanes *l)
{
	LLVMPositionBuilderAtEnd(g->b, g->leave);
	store_live(g, l->region, l->region->live_out);
	LLVMBuildBr(g->b, l->bottom);
}

/* Goes on with the lanes whose index is so beside the bound, if there is one. */
static void enter_range(
	struct gen *g, const struct lanes *l, LLVMValueRef bound, LLVMIntPredicate within)
{
	LLVMBasicBlockRef inside;

	if (!bound)
		return;
	inside = gen_block(g, "within");
	LLVMBuildCondBr(g->b, LLVMBuildICmp(g->b, within, g->tid[0], bound, ""), inside, l->bottom);
	LLVMPositionBuilderAtEnd(g->b, inside);
}

static void emit_before(struct gen *g, struct lanes *l, uint64_t *done)
{
	struct thread_loop t = {0};

	phase_begin(g, l, BEFORE);
	t.after = l->bottom;
	LLVMBuildStore(g->b, LLVMConstInt(g->i8, STATE_DONE, false), l->state);
	for (uint32_t reg = 0; reg < g->work->reg_count; reg++)
		if (l->kept[reg])
			reg_write(g, reg, LLVMConstNull(reg_type(g, reg)));
	enter_range(g, l, l->from, LLVMIntUGE);
	enter_range(g, l, l->to, LLVMIntULT);
	enter_active(g, l->region, &t, done);
	load_live(g, l->region, done);
	g->leave = gen_block(g, "leave");
	make_blocks(g, l);
	LLVMBuildBr(g->b, g->blocks[l->region->entry]);
	emit_phase(g, l, &t);
	emit_leave(g, l);
	LLVMPositionBuilderAtEnd(g->b, l->bottom);
	store_registers(g, l, l->kept, NULL);
	store_states(g, l, l->states);
	phase_end(g, l);
}

static LLVMValueRef is_state(struct gen *g, const struct lanes *l, unsigned state)
{
	LLVMValueRef now = LLVMBuildLoad2(g->b, g->i8, l->state, "");

	return LLVMBuildICmp(g->b, LLVMIntEQ, now, LLVMConstInt(g->i8, state, false), "");
}

static void emit_round(struct gen *g, struct lanes *l)
{
	LLVMBasicBlockRef again = gen_block(g, "round"), over = gen_block(g, "over");
	LLVMValueRef any = gen_alloca(g, g->i8, "any"), v;
	struct thread_loop t = {0};
	bool parallel = g->parallel;

	g->parallel = true; /* nothing but arrays */
	for (uint32_t reg = 0; reg < g->work->reg_count; reg++)
		if (l->in_round[reg])
			copy(g, l, slot_type(g, reg), l->kept[reg], l->in_round[reg]);
	copy(g, l, g->i8, l->states, l->round_states);
	LLVMBuildBr(g->b, again);
	LLVMPositionBuilderAtEnd(g->b, again);
	LLVMBuildStore(g->b, LLVMConstNull(g->i8), any);
	phase_begin(g, l, ROUND);
	t.after = l->bottom;
	g->leave = go(g, l, STATE_LEAVING);
	load_registers(g, l, l->in_round);
	compute_registers(g, l);
	load_states(g, l, l->round_states);
	make_blocks(g, l);
	v = is_state(g, l, STATE_ROUND);
	LLVMBuildCondBr(g->b, v, g->blocks[l->loop->header], l->bottom);
	emit_phase(g, l, &t);
	LLVMPositionBuilderAtEnd(g->b, l->bottom);
	store_registers(g, l, l->in_round, l->defined);
	store_states(g, l, l->round_states);
	v = LLVMBuildZExt(g->b, is_state(g, l, STATE_ROUND), g->i8, "");
	v = LLVMBuildOr(g->b, LLVMBuildLoad2(g->b, g->i8, any, ""), v, "");
	LLVMBuildStore(g->b, v, any);
	phase_end(g, l);
	g->parallel = parallel;
	v = LLVMBuildLoad2(g->b, g->i8, any, "");
	v = LLVMBuildICmp(g->b, LLVMIntNE, v, LLVMConstNull(g->i8), "");
	LLVMBuildCondBr(g->b, v, again, over);
	LLVMPositionBuilderAtEnd(g->b, over);
	for (uint32_t reg = 0; reg < g->work->reg_count; reg++)
		if (l->in_round[reg] && bits_get(l->defined, reg))
			copy(g, l, slot_type(g, reg), l->in_round[reg], l->kept[reg]);
	copy(g, l, g->i8, l->round_states, l->states);
}

static void emit_behind(struct gen *g, struct lanes *l)
{
	struct thread_loop t = {0};
	LLVMValueRef state, s;

	phase_begin(g, l, BEHIND);
	t.after = l->bottom;
	load_registers(g, l, l->kept);
	compute_registers(g, l);
	g->leave = gen_block(g, "leave");
	make_blocks(g, l);
	state = load_element(g, l, l->states, g->i8);
	s = LLVMBuildSwitch(g->b, state, l->bottom, l->target_count + 1);
	LLVMAddCase(s, LLVMConstInt(g->i8, STATE_LEAVING, false), g->leave);
	for (uint32_t k = 0; k < l->target_count; k++)
		LLVMAddCase(
			s, LLVMConstInt(g->i8, STATE_TARGETS + k, false), g->blocks[l->targets[k]]);
	emit_phase(g, l, &t);
	emit_leave(g, l);
	LLVMPositionBuilderAtEnd(g->b, l->bottom);
	phase_end(g, l);
}

void lanes_emit(struct gen *g, struct lanes *l, struct thread_loop *t, uint64_t *done)
{
	l->base = t->index[0];
	l->rows = LLVMBuildNUWSub(g->b, g->linear, l->base, "");
	find_kept(g, l);
	if (g->work->error)
		return;
	g->lanes = l;
	emit_before(g, l, done);
	if (!g->work->error)
		emit_round(g, l);
	if (!g->work->error)
		emit_behind(g, l);
	LLVMBuildBr(g->b, t->after);
	g->lanes = NULL;
}
