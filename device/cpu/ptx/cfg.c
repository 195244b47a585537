/* SPDX-License-Identifier: MIT
 *
 * The control flow graph: blocks, orders, dominators and postdominators (Cooper, Harvey and
 * Kennedy), natural loops, and the registers that live across block borders.
 */
#include "device/cpu/ptx/work.h"

#include <errno.h>
#include <string.h>

enum { MAX_BLOCKS = 16000, MAX_LOOP_BLOCKS = 20000000 };

static bool is_terminator(const struct inst *i)
{
	return (ptx_opcodes[i->op].flags & OPF_TERMINATOR) || i->op == OP_trap ||
	       (i->op == OP_call &&
		       !strcmp(i->operands[i->call_results].function->name, "__assertfail"));
}

/* ---- blocks ---- */

/* Alone in its block. */
static bool is_collective(const struct inst *i)
{
	return (ptx_opcodes[i->op].flags & OPF_COLLECTIVE) ||
	       ((ptx_opcodes[i->op].flags & OPF_BORDER) && i->dest_count);
}

static uint8_t *find_leaders(struct work *w)
{
	uint8_t *leader = work_alloc(w, w->inst_count + 1);

	if (!leader)
		return NULL;
	leader[0] = 1;
	for (uint32_t l = 0; l < w->label_count; l++)
		if (w->labels[l] != PTX_NONE)
			leader[w->labels[l]] = 1;
	for (uint32_t n = 0; n < w->inst_count; n++) {
		unsigned flags = ptx_opcodes[w->insts[n].op].flags;

		if (is_terminator(&w->insts[n]) || is_collective(&w->insts[n]))
			leader[n + 1] = 1;
		if (flags & OPF_BORDER)
			leader[n] = 1;
	}
	return leader;
}

static void make_blocks(struct work *w, const uint8_t *leader)
{
	w->block_count = 0;
	for (uint32_t n = 0; n < w->inst_count; n++)
		w->block_count += leader[n];
	if (w->block_count > MAX_BLOCKS) {
		work_error(w, -ENOTSUP, w->entry->line, "Kernel is too large for the software GPU");
		return;
	}
	w->blocks = work_alloc(w, (w->block_count + 1) * sizeof(*w->blocks));
	w->rpo = work_alloc(w, (w->block_count + 1) * sizeof(*w->rpo));
	if (w->error)
		return;
	for (uint32_t n = 0, b = 0; n < w->inst_count; n++) {
		if (leader[n])
			w->blocks[b++].first = n;
		w->blocks[b - 1].end = n + 1;
	}
}

static void add_successor(
	struct work *w, struct work_block *b, const uint32_t *block_at, uint32_t at)
{
	if (at >= w->inst_count)
		return;
	for (uint32_t k = 0; k < b->succ_count; k++)
		if (b->succ[k] == block_at[at])
			return;
	b->succ[b->succ_count++] = block_at[at];
}

static void connect_block(struct work *w, struct work_block *b, const uint32_t *block_at)
{
	struct inst *last = block_last(w, b);
	const struct inst *first = &w->insts[b->first];

	b->succ = work_alloc(w, (2 + last->target_count) * sizeof(*b->succ));
	if (!b->succ)
		return;
	b->border = ptx_opcodes[first->op].flags & OPF_BORDER;
	b->collective = is_collective(first);
	w->any_border |= b->border;
	switch (last->op) {
	case OP_bra:
		if (last->operands[0].kind != OPERAND_LABEL) {
			work_error(w, -EINVAL, last->line, "Label expected");
			return;
		}
		add_successor(w, b, block_at, w->labels[last->operands[0].id]);
		if (last->guard != PTX_NONE)
			add_successor(w, b, block_at, b->end);
		break;
	case OP_brx:
		for (uint32_t k = 0; k < last->target_count; k++)
			add_successor(w, b, block_at, w->labels[last->targets[k].id]);
		break;
	case OP_ret:
	case OP_exit:
		b->exits = true;
		break;
	default:
		if (!is_terminator(last))
			add_successor(w, b, block_at, b->end);
	}
}

/* Depth first without recursion; unreachable blocks keep order PTX_NONE. */
static void order_blocks(struct work *w)
{
	uint32_t *stack = work_alloc(w, (w->block_count + 1) * sizeof(*stack));
	uint32_t *next = work_alloc(w, (w->block_count + 1) * sizeof(*next));
	uint32_t depth = 0, at = w->block_count;

	if (w->error)
		return;
	for (uint32_t b = 0; b < w->block_count; b++)
		w->blocks[b].order = PTX_NONE;
	stack[depth++] = 0;
	w->blocks[0].order = 0;
	while (depth) {
		struct work_block *b = &w->blocks[stack[depth - 1]];

		if (next[stack[depth - 1]] < b->succ_count) {
			/* Last successor first, so that fall-through code comes later. */
			uint32_t s = b->succ[next[stack[depth - 1]]++];

			if (w->blocks[s].order == PTX_NONE) {
				w->blocks[s].order = 0;
				stack[depth++] = s;
			}
		} else {
			w->rpo[--at] = stack[--depth];
		}
	}
	w->rpo_count = w->block_count - at;
	memmove(w->rpo, w->rpo + at, w->rpo_count * sizeof(*w->rpo));
	for (uint32_t k = 0; k < w->rpo_count; k++)
		w->blocks[w->rpo[k]].order = k;
}

static void fill_predecessors(struct work *w)
{
	for (uint32_t k = 0; k < w->rpo_count; k++) {
		struct work_block *b = &w->blocks[w->rpo[k]];

		for (uint32_t s = 0; s < b->succ_count; s++)
			w->blocks[b->succ[s]].pred_count++;
	}
	for (uint32_t k = 0; k < w->block_count && !w->error; k++) {
		w->blocks[k].pred = work_alloc(w, (w->blocks[k].pred_count + 1) * sizeof(uint32_t));
		w->blocks[k].pred_count = 0;
	}
	for (uint32_t k = 0; k < w->rpo_count && !w->error; k++) {
		struct work_block *b = &w->blocks[w->rpo[k]];

		for (uint32_t s = 0; s < b->succ_count; s++) {
			struct work_block *t = &w->blocks[b->succ[s]];

			t->pred[t->pred_count++] = w->rpo[k];
		}
	}
}

/* ---- dominators ---- */

/* Nearest common ancestor; both trees number nodes so that an ancestor has the smaller number. */
static uint32_t common(const uint32_t *parent, uint32_t a, uint32_t b)
{
	while (a != b) {
		while (a > b)
			a = parent[a];
		while (b > a)
			b = parent[b];
	}
	return a;
}

static void find_dominators(struct work *w)
{
	uint32_t *parent = work_alloc(w, (w->rpo_count + 1) * sizeof(*parent));
	bool changed = true;

	if (!parent)
		return;
	memset(parent, 0xff, w->rpo_count * sizeof(*parent));
	parent[0] = 0;
	while (changed) {
		changed = false;
		for (uint32_t k = 1; k < w->rpo_count; k++) {
			const struct work_block *b = &w->blocks[w->rpo[k]];
			uint32_t found = PTX_NONE;

			for (uint32_t p = 0; p < b->pred_count; p++) {
				uint32_t o = w->blocks[b->pred[p]].order;

				if (parent[o] == PTX_NONE)
					continue;
				found = found == PTX_NONE ? o : common(parent, found, o);
			}
			changed |= parent[k] != found;
			parent[k] = found;
		}
	}
	for (uint32_t k = 0; k < w->rpo_count; k++)
		w->blocks[w->rpo[k]].idom = w->rpo[parent[k]];
}

/* Numbers blocks from the virtual exit (0) backwards in reverse postorder of the reverse graph. */
static uint32_t order_backwards(struct work *w, uint32_t *number, uint32_t *order)
{
	uint32_t *stack = work_alloc(w, (w->block_count + 1) * sizeof(*stack));
	uint32_t *next = work_alloc(w, (w->block_count + 1) * sizeof(*next));
	uint32_t *post = work_alloc(w, (w->block_count + 1) * sizeof(*post));
	uint32_t depth, count = 0;

	if (w->error)
		return 0;
	for (uint32_t k = 0; k < w->rpo_count; k++) {
		if (!w->blocks[w->rpo[k]].exits || number[w->rpo[k]] != PTX_NONE)
			continue;
		depth = 0;
		stack[depth++] = w->rpo[k];
		number[w->rpo[k]] = 0;
		while (depth) {
			struct work_block *b = &w->blocks[stack[depth - 1]];

			if (next[stack[depth - 1]] < b->pred_count) {
				uint32_t p = b->pred[next[stack[depth - 1]]++];

				if (number[p] == PTX_NONE) {
					number[p] = 0;
					stack[depth++] = p;
				}
			} else {
				post[count++] = stack[--depth];
			}
		}
	}
	for (uint32_t k = 0; k < count; k++) {
		order[k + 1] = post[count - 1 - k];
		number[order[k + 1]] = k + 1;
	}
	return count + 1;
}

static void find_postdominators(struct work *w)
{
	uint32_t *number = work_alloc(w, (w->block_count + 1) * sizeof(*number));
	uint32_t *order = work_alloc(w, (w->block_count + 2) * sizeof(*order));
	uint32_t *parent = work_alloc(w, (w->block_count + 2) * sizeof(*parent));
	bool changed = true;

	if (w->error)
		return;
	memset(number, 0xff, (w->block_count + 1) * sizeof(*number));
	uint32_t count = order_backwards(w, number, order);
	if (w->error)
		return;
	memset(parent, 0xff, (w->block_count + 2) * sizeof(*parent));
	parent[0] = 0;
	while (changed) {
		changed = false;
		for (uint32_t k = 1; k < count; k++) {
			const struct work_block *b = &w->blocks[order[k]];
			uint32_t found = b->exits ? 0 : PTX_NONE;

			for (uint32_t s = 0; s < b->succ_count; s++) {
				uint32_t o = number[b->succ[s]];

				if (o == PTX_NONE || parent[o] == PTX_NONE)
					continue;
				found = found == PTX_NONE ? o : common(parent, found, o);
			}
			changed |= parent[k] != found;
			parent[k] = found;
		}
	}
	for (uint32_t b = 0; b < w->block_count; b++) {
		uint32_t o = number[b], up = o == PTX_NONE || parent[o] == PTX_NONE ? 0 : parent[o];

		w->blocks[b].ipdom = up ? order[up] : w->block_count;
	}
}

uint32_t cfg_influence(
	const struct work *w, uint32_t branch, uint32_t from, uint32_t *list, uint64_t *members)
{
	const struct work_block *b = &w->blocks[branch];
	uint32_t count = 0;

	for (uint32_t s = 0; s < b->succ_count; s++) {
		uint32_t t = b->succ[s];

		if ((from != PTX_NONE && t != from) || t == b->ipdom || bits_get(members, t))
			continue;
		bits_set(members, t);
		list[count++] = t;
	}
	for (uint32_t k = 0; k < count; k++) {
		const struct work_block *x = &w->blocks[list[k]];

		for (uint32_t s = 0; s < x->succ_count; s++) {
			uint32_t t = x->succ[s];

			if (t == b->ipdom || bits_get(members, t))
				continue;
			bits_set(members, t);
			list[count++] = t;
		}
	}
	return count;
}

/* ---- natural loops ---- */

static bool dominates(const struct work *w, uint32_t a, uint32_t b)
{
	while (w->blocks[b].order > w->blocks[a].order)
		b = w->blocks[b].idom;
	return a == b;
}

static struct loop *loop_of(struct work *w, uint32_t header)
{
	for (uint32_t k = 0; k < w->loop_count; k++)
		if (w->loops[k].header == header)
			return &w->loops[k];
	struct loop *loops =
		arena_grow(&w->arena, w->loops, w->loop_count, sizeof(*loops), &w->loop_capacity);
	if (!loops) {
		w->error = -ENOMEM;
		return NULL;
	}
	w->loops = loops;
	struct loop *l = &w->loops[w->loop_count++];
	*l = (struct loop){.header = header, .count = 1};
	l->blocks = work_alloc(w, w->block_count * sizeof(uint32_t));
	l->members = work_alloc(w, (w->block_count / 64 + 1) * 8);
	if (w->error)
		return NULL;
	l->blocks[0] = header;
	bits_set(l->members, header);
	return l;
}

static void find_loops(struct work *w)
{
	w->loops = NULL;
	w->loop_count = w->loop_capacity = 0;
	for (uint32_t k = 0; k < w->rpo_count && !w->error; k++) {
		uint32_t latch = w->rpo[k];

		for (uint32_t s = 0; s < w->blocks[latch].succ_count; s++) {
			uint32_t header = w->blocks[latch].succ[s];

			if (!dominates(w, header, latch))
				continue;
			if ((uint64_t)w->loop_count * w->block_count > MAX_LOOP_BLOCKS) {
				work_error(w, -ENOTSUP, w->entry->line, "Too many loops");
				return;
			}
			struct loop *l = loop_of(w, header);
			if (!l)
				return;
			uint32_t start = l->count;
			if (!bits_get(l->members, latch)) {
				bits_set(l->members, latch);
				l->blocks[l->count++] = latch;
			}
			for (uint32_t n = start; n < l->count; n++) {
				const struct work_block *b = &w->blocks[l->blocks[n]];

				for (uint32_t p = 0; p < b->pred_count; p++)
					if (!bits_get(l->members, b->pred[p])) {
						bits_set(l->members, b->pred[p]);
						l->blocks[l->count++] = b->pred[p];
					}
			}
		}
	}
}

bool cfg_is_reducible(const struct work *w)
{
	for (uint32_t k = 0; k < w->rpo_count; k++) {
		const struct work_block *b = &w->blocks[w->rpo[k]];

		for (uint32_t s = 0; s < b->succ_count; s++)
			if (w->blocks[b->succ[s]].order <= b->order &&
				!dominates(w, b->succ[s], w->rpo[k]))
				return false;
	}
	return true;
}

int cfg_build(struct work *w)
{
	uint8_t *leader = find_leaders(w);
	uint32_t *block_at = work_alloc(w, (w->inst_count + 1) * sizeof(*block_at));

	if (w->error)
		return w->error;
	w->any_border = false;
	make_blocks(w, leader);
	if (w->error)
		return w->error;
	for (uint32_t b = 0; b < w->block_count; b++)
		for (uint32_t n = w->blocks[b].first; n < w->blocks[b].end; n++)
			block_at[n] = b;
	for (uint32_t b = 0; b < w->block_count && !w->error; b++)
		connect_block(w, &w->blocks[b], block_at);
	if (w->error)
		return w->error;
	order_blocks(w);
	if (!w->error)
		fill_predecessors(w);
	if (!w->error)
		find_dominators(w);
	if (!w->error)
		find_postdominators(w);
	if (!w->error)
		find_loops(w);
	return w->error;
}
