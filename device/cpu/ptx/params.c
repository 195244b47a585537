/* SPDX-License-Identifier: MIT
 *
 * Parameters of device functions, after inlining. A variable that is only read and written in
 * fixed pieces becomes a register per piece; one whose address is taken, or whose pieces overlap,
 * becomes local memory. Parameters of the kernel itself are left alone.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "device/cpu/ptx/work.h"

struct piece {
	struct piece *next;
	int64_t offset;
	uint32_t bytes, reg;
};

struct param {
	struct param *next; /* in the order in which instructions mention them */
	struct variable *var;
	struct piece *pieces;
	bool memory;
};

struct params {
	struct work *work;
	/* Open addressing by the variable's address, which is another in each run: it gives no order. */
	struct param *table;
	uint32_t size;
	struct param *first, *last;
};

static bool is_kernel_param(const struct work *w, const struct variable *v)
{
	for (uint32_t k = 0; k < w->entry->param_count; k++)
		if (w->entry->params[k] == v)
			return true;
	return false;
}

static struct param *param_of(struct params *ps, struct variable *v)
{
	uint32_t at = (uint32_t)((uintptr_t)v >> 4) * 2654435761u;

	for (;; at++) {
		struct param *p = &ps->table[at & (ps->size - 1)];

		if (!p->var) {
			p->var = v;
			*(ps->last ? &ps->last->next : &ps->first) = p;
			ps->last = p;
		}
		if (p->var == v)
			return p;
	}
}

static bool call_param(const struct work *w, const struct operand *o)
{
	return o->kind == OPERAND_SYMBOL && o->var->space == SPACE_PARAM &&
	       !is_kernel_param(w, o->var);
}

/* The operand of a ld/st that names a call parameter, or NULL. */
static struct operand *param_access(struct work *w, struct inst *i)
{
	if ((i->op != OP_ld && i->op != OP_st) || !i->type_count)
		return NULL;
	struct operand *o = &i->operands[i->op == OP_ld ? 1 : 0];
	return o->memory && call_param(w, o) ? o : NULL;
}

static unsigned access_elements(const struct inst *i)
{
	const struct operand *value = &i->operands[i->op == OP_ld ? 0 : 1];

	return value->kind == OPERAND_VECTOR ? value->count : 1;
}

static void note_piece(struct params *ps, struct param *p, int64_t offset, uint32_t bytes)
{
	for (struct piece *q = p->pieces; q; q = q->next) {
		if (q->offset == offset && q->bytes == bytes)
			return;
		if (offset < q->offset + q->bytes && q->offset < offset + bytes)
			p->memory = true;
	}
	struct piece *q = work_alloc(ps->work, sizeof(*q));
	if (!q)
		return;
	static const uint8_t types[] = {
		[1] = TYPE_b8, [2] = TYPE_b16, [4] = TYPE_b32, [8] = TYPE_b64};
	*q = (struct piece){.next = p->pieces,
		.offset = offset,
		.bytes = bytes,
		.reg = bytes <= 8 ? work_reg(ps->work, types[bytes]) : 0};
	if (bytes > 8)
		p->memory = true;
	p->pieces = q;
}

static void collect(struct params *ps)
{
	struct work *w = ps->work;

	for (uint32_t n = 0; n < w->inst_count && !w->error; n++) {
		struct inst *i = &w->insts[n];
		struct operand *access = param_access(w, i);

		for (unsigned k = 0; k < i->operand_count; k++)
			if (call_param(w, &i->operands[k]) && &i->operands[k] != access)
				param_of(ps, i->operands[k].var)->memory = true;
		if (!access)
			continue;
		uint32_t bytes = ptx_type_bits[i->types[0]] / 8u;
		for (unsigned e = 0; e < access_elements(i); e++)
			note_piece(ps, param_of(ps, access->var), access->bits + e * bytes, bytes);
	}
}

static uint32_t piece_reg(const struct param *p, int64_t offset, uint32_t bytes)
{
	for (const struct piece *q = p->pieces; q; q = q->next)
		if (q->offset == offset && q->bytes == bytes)
			return q->reg;
	return 0;
}

static void place_local(struct work *w, struct variable *v)
{
	struct placement *l =
		arena_grow(&w->arena, w->locals, w->local_count, sizeof(*l), &w->local_capacity);
	uint64_t align = v->align ? v->align : 1;

	if (!l) {
		w->error = w->error ? w->error : -ENOMEM;
		return;
	}
	w->locals = l;
	if (align > w->local_align)
		w->local_align = (uint32_t)align;
	w->local_bytes = (w->local_bytes + align - 1) & ~(align - 1);
	w->locals[w->local_count++] = (struct placement){v, (uint32_t)w->local_bytes};
	w->local_bytes += v->size;
	if (w->local_bytes > 16 << 20)
		work_error(w, -ENOTSUP, w->entry->line, "Too much local memory");
}

/* One element between a piece's register and the instruction's: a conversion of width. */
static void move_piece(struct work *w, const struct inst *i, uint32_t piece, struct operand value)
{
	struct operand reg = {.kind = OPERAND_REG, .id = piece};
	bool load = i->op == OP_ld;
	unsigned piece_bits = ptx_type_bits[w->regs[piece].type];
	unsigned bits = piece_bits;

	if (value.kind == OPERAND_REG)
		bits = ptx_type_bits[w->regs[value.id].type];
	struct inst *m = work_inst(w, bits == piece_bits ? OP_mov : OP_cvt, i->line, 2);
	if (!m || value.kind == OPERAND_NONE)
		return;
	static const uint8_t plain[] = {
		[1] = TYPE_u8, [2] = TYPE_u16, [4] = TYPE_u32, [8] = TYPE_u64};
	bool is_signed = ptx_type_class[i->types[0]] == 's';
	unsigned narrow = plain[piece_bits / 8], wide = bits >= 8 ? plain[bits / 8] : narrow;

	if (is_signed)
		narrow += TYPE_s8 - TYPE_u8;
	if (is_signed && bits > piece_bits)
		wide += TYPE_s8 - TYPE_u8;
	m->types[0] = (uint8_t)(load ? wide : narrow);
	m->types[1] = (uint8_t)(load ? narrow : wide);
	m->type_count = bits == piece_bits ? 1 : 2;
	m->operands[0] = load ? value : reg;
	m->operands[1] = load ? reg : value;
}

static void rewrite(struct params *ps, struct inst *old, uint32_t count)
{
	struct work *w = ps->work;
	uint32_t *moved = work_alloc(w, (count + 1) * sizeof(*moved));

	for (uint32_t n = 0; n < count && !w->error; n++) {
		struct inst *i = &old[n];
		struct operand *access = param_access(w, i);
		struct param *p = access ? param_of(ps, access->var) : NULL;

		moved[n] = w->inst_count;
		if (p && !p->memory) {
			struct operand *value = &i->operands[i->op == OP_ld ? 0 : 1];
			uint32_t bytes = ptx_type_bits[i->types[0]] / 8u;

			for (unsigned e = 0; e < access_elements(i) && !w->error; e++)
				move_piece(w, i, piece_reg(p, access->bits + e * bytes, bytes),
					value->kind == OPERAND_VECTOR ? value->elements[e]
								      : *value);
			continue;
		}
		struct inst *copy = work_inst(w, i->op, i->line, 0);
		if (!copy)
			return;
		*copy = *i;
		for (unsigned k = 0; p && k < copy->modifier_count; k++)
			if (copy->modifiers[k] == MOD_param)
				copy->modifiers[k] = MOD_local;
	}
	if (w->error)
		return;
	moved[count] = w->inst_count;
	work_move_labels(w, moved);
}

/* Local variables that instructions mention get their place too. */
static void place_locals(struct work *w)
{
	for (uint32_t n = 0; n < w->inst_count && !w->error; n++)
		for (unsigned k = 0; k < w->insts[n].operand_count; k++) {
			struct operand *o = &w->insts[n].operands[k];
			bool known = false;

			if (o->kind != OPERAND_SYMBOL || o->var->space != SPACE_LOCAL)
				continue;
			for (uint32_t l = 0; l < w->local_count; l++)
				known |= w->locals[l].var == o->var;
			if (!known)
				place_local(w, o->var);
		}
}

static int take_params(struct work *w)
{
	struct params ps = {.work = w, .size = 64};
	uint32_t mentions = 0;

	for (uint32_t n = 0; n < w->inst_count; n++)
		for (unsigned k = 0; k < w->insts[n].operand_count; k++)
			mentions += call_param(w, &w->insts[n].operands[k]);
	while (ps.size < 2 * mentions)
		ps.size *= 2;
	ps.table = work_alloc(w, ps.size * sizeof(*ps.table));
	if (w->error)
		return w->error;
	place_locals(w);
	if (!mentions)
		return w->error;
	collect(&ps);
	if (w->error)
		return w->error;
	for (struct param *p = ps.first; p && !w->error; p = p->next)
		if (p->memory) {
			place_local(w, p->var);
			w->param_escapes = true;
		}
	struct inst *old = w->insts;
	uint32_t count = w->inst_count;
	w->insts = NULL;
	w->inst_count = w->inst_capacity = 0;
	rewrite(&ps, old, count);
	return w->error;
}

int work_params(struct work *w)
{
	int error = take_params(w);

	if (w->local_align) /* the next thread's lie right behind */
		w->local_bytes =
			(w->local_bytes + w->local_align - 1) / w->local_align * w->local_align;
	return error;
}
