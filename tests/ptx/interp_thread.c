/* SPDX-License-Identifier: MIT
 *
 * One instruction of one thread: operands, arithmetic, control.
 */
#include "interp_thread.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "interp_values.h"

void thread_fails(struct thread *t, enum interp_outcome outcome, const char *format, ...)
{
	struct interp *in = t->block->in;
	va_list args;

	if (t->block->outcome != INTERP_RAN)
		return;
	t->block->outcome = outcome;
	in->line = t->block->entry->insts[t->pc].line;
	size_t n = (size_t)snprintf(in->why, sizeof(in->why),
		"block %u, thread %u, line %u (%s): ", t->block->ctaid[0], t->index,
		t->block->entry->insts[t->pc].line,
		ptx_opcodes[t->block->entry->insts[t->pc].op].name);
	va_start(args, format);
	vsnprintf(in->why + n, sizeof(in->why) - n, format, args);
	va_end(args);
}

/* ---- operands ---- */

static uint64_t special(struct thread *t, uint32_t id)
{
	struct interp *in = t->block->in;
	uint32_t lane = t->index & 31, axis = id % 4;

	if (id < SPECIAL_ZERO + 4) {
		const uint32_t *triple = id < SPECIAL_NTID     ? t->tid
					 : id < SPECIAL_CTAID  ? in->block
					 : id < SPECIAL_NCTAID ? t->block->ctaid
							       : in->grid;

		if (axis == 3)
			return 0;
		return id >= SPECIAL_ZERO ? 0 : triple[axis];
	}
	if (id >= SPECIAL_CLUSTERID && id < SPECIAL_CLUSTER_CTARANK) { /* of one block */
		axis = (id - SPECIAL_CLUSTERID) % 4;
		if (axis == 3)
			return 0;
		return id < SPECIAL_NCLUSTERID      ? t->block->ctaid[axis]
		       : id < SPECIAL_CLUSTER_CTAID ? in->grid[axis]
						    : id >= SPECIAL_CLUSTER_NCTAID;
	}
	switch (id) {
	case SPECIAL_CLUSTER_CTARANK:
	case SPECIAL_CLUSTER_EXPLICIT:
		return 0;
	case SPECIAL_CLUSTER_NCTARANK:
		return 1;
	case SPECIAL_LANEID:
		return lane;
	case SPECIAL_WARPID:
		return t->index / 32;
	case SPECIAL_NWARPID:
		return (t->block->threads + 31) / 32;
	case SPECIAL_LANEMASK_EQ:
		return 1u << lane;
	case SPECIAL_LANEMASK_LT:
		return (1u << lane) - 1;
	case SPECIAL_LANEMASK_LE:
		return (2u << lane) - 1;
	case SPECIAL_LANEMASK_GE:
		return (uint32_t)(-1u << lane);
	case SPECIAL_LANEMASK_GT:
		return (uint32_t)(-2u << lane);
	case SPECIAL_DYNAMIC_SMEM:
		return in->dynamic_shared;
	case SPECIAL_TOTAL_SMEM:
		return t->block->shared_bytes;
	case SPECIAL_WARP_SZ:
		return 32;
	}
	thread_fails(t, INTERP_UNKNOWN, "a special register");
	return 0;
}

static uint64_t literal(const struct operand *o, unsigned type)
{
	uint64_t bits = (uint64_t)o->bits;
	double d;
	float f;

	if (o->literal == 8 && ptx_type_bits[type] == 32) {
		memcpy(&d, &bits, 8);
		f = (float)d;
		bits = 0;
		memcpy(&bits, &f, 4);
	} else if (o->literal == 4 && ptx_type_bits[type] == 64) {
		memcpy(&f, &bits, 4);
		d = (double)f;
		memcpy(&bits, &d, 8);
	}
	return bits;
}

static uint64_t placed(const struct thread *t, const struct variable *v)
{
	const struct function *f = t->block->entry;
	uint64_t at = 0;

	for (uint32_t k = 0; v->space == SPACE_SHARED && k < f->shared_count; k++)
		if (f->shared[k].var == v)
			return f->shared[k].offset;
	for (const struct variable *l = f->vars; v->space == SPACE_LOCAL && l; l = l->next) {
		if (l->space != SPACE_LOCAL)
			continue;
		at = (at + l->align - 1) & ~(uint64_t)(l->align - 1);
		if (l == v)
			return at;
		at += l->size;
	}
	return v->offset;
}

/* The address of a variable in its own state space; that of .global is a process address. */
static uint64_t symbol(const struct thread *t, const struct operand *o)
{
	uint64_t at = placed(t, o->var) + (uint64_t)o->bits;

	return o->var->space == SPACE_GLOBAL ? (uintptr_t)t->block->in->globals + at : at;
}

static uint64_t register_value(struct thread *t, uint32_t id)
{
	const struct reg *r = &t->block->entry->regs[id];
	char number[12] = "";

	if (!t->reg_written[id]) {
		if (r->number != PTX_NONE)
			snprintf(number, sizeof(number), "%u", r->number);
		thread_fails(t, INTERP_WRONG, "nobody has written %s%s", r->name, number);
	}
	return t->regs[id];
}

uint64_t thread_read(struct thread *t, const struct operand *o, unsigned type)
{
	unsigned bits = ptx_type_bits[type];
	uint64_t v = 0;

	switch (o->kind) {
	case OPERAND_INT:
		v = literal(o, type);
		break;
	case OPERAND_REG:
		v = register_value(t, o->id);
		break;
	case OPERAND_SPECIAL:
		v = special(t, o->id);
		break;
	case OPERAND_SYMBOL:
		v = symbol(t, o);
		break;
	case OPERAND_VECTOR:
		for (unsigned k = 0; k < o->count; k++)
			v |= thread_read(t, &o->elements[k],
				     bits / o->count == 32   ? TYPE_b32
				     : bits / o->count == 16 ? TYPE_b16
							     : TYPE_b8)
			     << k * (bits / o->count);
		break;
	default:
		thread_fails(t, INTERP_UNKNOWN, "an operand");
	}
	return interp_low(o->negated ? ~v : v, bits);
}

void thread_write(struct thread *t, const struct operand *o, unsigned type, uint64_t value)
{
	unsigned bits = ptx_type_bits[type];

	value = interp_low(value, bits);
	if (o->kind == OPERAND_REG) {
		t->regs[o->id] =
			interp_low(value, ptx_type_bits[t->block->entry->regs[o->id].type]);
		t->reg_written[o->id] = true;
	}
	for (unsigned k = 0; o->kind == OPERAND_VECTOR && k < o->count; k++) {
		unsigned each = bits / o->count;

		thread_write(t, &o->elements[k],
			each == 32   ? TYPE_b32
			: each == 16 ? TYPE_b16
				     : TYPE_b8,
			value >> k * each);
	}
}

void thread_write_extended(struct thread *t, const struct operand *o, unsigned type, uint64_t value)
{
	if (o->kind == OPERAND_REG && interp_is_signed(type))
		thread_write(t, o, TYPE_b64, (uint64_t)interp_signed(value, ptx_type_bits[type]));
	else
		thread_write(t, o, type, value);
}

/* ---- arithmetic ---- */

/* The type as which source k (from 1) is read. */
static unsigned source_type(const struct inst *i, unsigned k)
{
	unsigned type = i->types[0];

	switch (i->op) {
	case OP_shl:
	case OP_shr:
	case OP_bmsk:
	case OP_szext:
		return k == 2 ? TYPE_b32 : type;
	case OP_shf:
	case OP_bfe:
		return k >= 2 && i->op == OP_bfe ? TYPE_b32 : type;
	case OP_bfi:
		return k >= 3 ? TYPE_b32 : type;
	case OP_mad:
		if (k != 3 || !inst_has(i, MOD_wide))
			return type;
		return ptx_type_bits[type] == 16 ? TYPE_b32 : TYPE_b64;
	case OP_selp:
		return k == 3 ? TYPE_pred : type;
	case OP_slct:
		return k == 3 ? i->types[1] : type;
	case OP_dp4a:
	case OP_dp2a:
		return TYPE_b32;
	case OP_cvt:
		return i->types[1];
	case OP_lop3:
		return k == 5 ? TYPE_pred : TYPE_b32;
	}
	return type;
}

static unsigned result_type(const struct inst *i)
{
	switch (i->op) {
	case OP_popc:
	case OP_clz:
	case OP_bfind:
		return TYPE_b32;
	case OP_testp:
		return TYPE_pred;
	case OP_mul:
	case OP_mad:
		if (inst_has(i, MOD_wide))
			return ptx_type_bits[i->types[0]] == 16 ? TYPE_b32 : TYPE_b64;
	}
	return i->types[0];
}

/* add.cc, subc and the like: one bit more than the type has. */
static void with_carry(struct thread *t, const struct inst *i)
{
	unsigned type = i->types[0], bits = ptx_type_bits[type], last = i->operand_count - 1u;
	bool minus = i->op == OP_sub || i->op == OP_subc;
	uint64_t a[3] = {0}, x, y = thread_read(t, &i->operands[last], type);
	unsigned __int128 sum;

	for (unsigned k = 1; k < last; k++)
		a[k - 1] = thread_read(t, &i->operands[k], type);
	x = a[0];
	if (i->op == OP_mad || i->op == OP_madc) {
		struct inst product = *i;

		product.op = OP_mul;
		interp_integer(&product, a, &x);
	}
	bool goes_on = i->op == OP_addc || i->op == OP_subc || i->op == OP_madc;
	bool carry = goes_on && t->carry != minus; /* behind a subtraction: nothing was borrowed */
	sum = minus ? (unsigned __int128)x - y - carry : (unsigned __int128)x + y + carry;
	if (inst_has(i, MOD_cc))
		t->carry = (bool)(sum >> bits & 1) != minus;
	thread_write(t, &i->operands[0], type, (uint64_t)sum);
}

static bool combine(struct thread *t, const struct inst *i, bool p)
{
	if (i->operand_count < 4)
		return p;
	bool c = thread_read(t, &i->operands[3], TYPE_pred);

	return inst_has(i, MOD_and) ? p && c : inst_has(i, MOD_or) ? p || c : p != c;
}

/* Halves that are compared on their own: the lower one's is the first of the results. */
static void compare_pairs(struct thread *t, const struct inst *i, const uint64_t a[2])
{
	unsigned from = i->types[i->op == OP_set], part = from == TYPE_f16x2 ? TYPE_f16 : TYPE_bf16;
	uint64_t low[2] = {a[0] & 0xffff, a[1] & 0xffff}, high[2] = {a[0] >> 16, a[1] >> 16};
	bool integer = interp_is_integer(i->types[0]);
	uint64_t yes = integer ? 0xffff : part == TYPE_f16 ? 0x3c00 : 0x3f80;
	const struct operand *d = &i->operands[0];
	bool p, q;

	if (!interp_compare(i, part, low, &p) || !interp_compare(i, part, high, &q) ||
		(i->op == OP_set && i->types[0] != from && !integer)) {
		thread_fails(t, INTERP_UNKNOWN, "a comparison of pairs");
		return;
	}
	p = combine(t, i, p);
	q = combine(t, i, q);
	if (i->op == OP_set) {
		thread_write(t, d, TYPE_b32, (p ? yes : 0) | (q ? yes << 16 : 0));
		return;
	}
	thread_write(t, &d->elements[0], TYPE_pred, p);
	thread_write(t, &d->elements[1], TYPE_pred, q);
}

static void compare(struct thread *t, const struct inst *i)
{
	unsigned to = i->types[0], from = i->types[i->op == OP_set];
	uint64_t a[2] = {
		thread_read(t, &i->operands[1], from), thread_read(t, &i->operands[2], from)};
	const struct operand *d = &i->operands[0];
	bool p;

	if (from == TYPE_f16x2 || from == TYPE_bf16x2) {
		compare_pairs(t, i, a);
	} else if (!interp_compare(i, from, a, &p)) {
		thread_fails(t, INTERP_UNKNOWN, "a comparison");
	} else if (i->op == OP_set) {
		p = combine(t, i, p);
		thread_write(t, d, to,
			!p                ? 0
			: to == TYPE_f32  ? 0x3f800000
			: to == TYPE_f16  ? 0x3c00
			: to == TYPE_bf16 ? 0x3f80
					  : UINT64_MAX);
	} else if (d->kind == OPERAND_VECTOR) {
		bool q = combine(t, i, !p);

		thread_write(t, &d->elements[0], TYPE_pred, combine(t, i, p));
		thread_write(t, &d->elements[1], TYPE_pred, q);
	} else {
		thread_write(t, d, TYPE_pred, combine(t, i, p));
	}
}

static void select_value(struct thread *t, const struct inst *i)
{
	uint64_t c = thread_read(t, &i->operands[3], source_type(i, 3));
	bool first = c;

	if (i->op == OP_slct) {
		double zero = 0;
		float f;

		memcpy(&f, &c, 4);
		first = i->types[1] == TYPE_f32 ? (double)f >= zero : interp_signed(c, 32) >= 0;
	}
	thread_write(t, &i->operands[0], i->types[0],
		thread_read(t, &i->operands[first ? 1 : 2], i->types[0]));
}

static void compute(struct thread *t, const struct inst *i)
{
	const struct operand *d = &i->operands[0];
	uint64_t a[6] = {0}, r = 0;
	bool known, dot = i->op == OP_dp4a || i->op == OP_dp2a;
	bool parts = i->op == OP_vabsdiff2 || i->op == OP_vabsdiff4;

	if (i->type_count != (parts ? 3 : dot || i->op == OP_cvt ? 2 : 1) || i->operand_count > 6) {
		thread_fails(t, INTERP_UNKNOWN, "types or operands");
		return;
	}

	for (unsigned k = 1; k < i->operand_count; k++)
		a[k - 1] = thread_read(t, &i->operands[k], source_type(i, k));
	if (i->op == OP_cvt)
		known = interp_convert(i, a, &r);
	else
		known = interp_is_integer(i->types[0]) || i->types[0] == TYPE_pred
				? interp_integer(i, a, &r)
				: interp_float(i, a, &r);
	if (!known) {
		thread_fails(t, INTERP_UNKNOWN, "an instruction");
	} else if (i->op == OP_lop3 && i->operand_count == 6) {
		bool p = interp_low(r, 32) != 0, q = a[4];

		thread_write(t, &d->elements[0], TYPE_b32, r);
		thread_write(t, &d->elements[1], TYPE_pred, inst_has(i, MOD_or) ? p || q : p && q);
	} else if (i->op == OP_cvt) {
		thread_write_extended(t, d, i->types[0], r);
	} else {
		thread_write(t, d, result_type(i), r);
	}
}

/* ---- waiting ---- */

/* The operand that holds the mask of a collective's lanes is the last one. A matrix instruction has none. */
static void wait_for_warp(struct thread *t, const struct inst *i)
{
	uint32_t mask = UINT32_MAX;

	if (!interp_is_matrix(i))
		mask = (uint32_t)thread_read(t, &i->operands[i->operand_count - 1], TYPE_b32);

	t->state = THREAD_WAITS;
	t->at = i;
	t->mask = mask;
	t->barrier = -1;
	if (!(mask >> (t->index & 31) & 1))
		thread_fails(t, INTERP_WRONG, "mask %#x without lane %u", mask, t->index & 31);
	if (interp_is_matrix(i))
		return;
	if (i->op == OP_vote)
		t->predicate = thread_read(t, &i->operands[1], TYPE_pred);
	else if (i->dest_count && i->op != OP_elect)
		t->value = thread_read(t, &i->operands[1], i->types[0]);
}

static void wait_at(struct thread *t, const struct inst *i, uint64_t id, uint64_t expected)
{
	unsigned last = i->operand_count - 1u;
	struct barrier *b = &t->block->barrier[id];
	if (b->arrived && b->expected != expected)
		thread_fails(t, INTERP_WRONG, "barrier %lu counts %u and %lu threads",
			(unsigned long)id, b->expected, (unsigned long)expected);
	if (!b->arrived++)
		b->count = b->all = 0;
	if (b->come[t->index / 32] >> t->index % 32 & 1) {
		b->before += barrier_count(t->block, b, t->index / 32);
		b->come[t->index / 32] = 0;
	}
	b->come[t->index / 32] |= 1u << t->index % 32;
	b->expected = (uint32_t)expected;
	if (i->dest_count) {
		t->predicate = thread_read(t, &i->operands[last], TYPE_pred);
		b->count += t->predicate;
		b->all++;
	}
	if (inst_has(i, MOD_arrive))
		return;
	t->state = THREAD_WAITS;
	t->at = i;
	t->barrier = (int)id;
}

/* bar.sync a{, b}; bar.arrive a, b; bar.red p, a{, b}, c */
static void wait_for_block(struct thread *t, const struct inst *i)
{
	unsigned at = i->dest_count;
	uint64_t id = thread_read(t, &i->operands[at], TYPE_b32);
	bool counted = i->dest_count ? i->operand_count == 4 : i->operand_count == 2;
	uint64_t expected = counted ? thread_read(t, &i->operands[at + 1], TYPE_b32) : 0;

	if (id >= CLUSTER_BARRIER)
		thread_fails(t, INTERP_WRONG, "barrier %lu", (unsigned long)id);
	else
		wait_at(t, i, id, expected);
}

/* ---- dispatch ---- */

static bool control(struct thread *t, const struct inst *i)
{
	const struct function *f = t->block->entry;

	switch (i->op) {
	case OP_bra:
		t->pc = f->labels[i->operands[0].id];
		return true;
	case OP_brx: {
		uint64_t n = thread_read(t, &i->operands[0], TYPE_b32);

		if (n >= i->target_count)
			thread_fails(t, INTERP_WRONG, "target %lu", (unsigned long)n);
		else
			t->pc = f->labels[i->targets[n].id];
		return true;
	}
	case OP_ret:
	case OP_exit:
		t->state = THREAD_LEFT;
		return true;
	case OP_trap:
		thread_fails(t, INTERP_TRAPPED, "trap");
		return true;
	}
	return false;
}

static bool together(struct thread *t, const struct inst *i)
{
	switch (i->op) {
	case OP_bar:
	case OP_barrier:
		if (inst_has(i, MOD_warp))
			wait_for_warp(t, i);
		else if (!inst_has(i, MOD_cluster))
			wait_for_block(t, i);
		else if (!inst_has(i, MOD_arrive))
			wait_at(t, i, CLUSTER_BARRIER, 0);
		return true;
	case OP_shfl:
	case OP_vote:
	case OP_match:
	case OP_redux:
	case OP_elect:
	case OP_mma:
	case OP_ldmatrix:
	case OP_stmatrix:
	case OP_movmatrix:
		if (!inst_has(i, MOD_sync))
			return false;
		wait_for_warp(t, i);
		return true;
	}
	return false;
}

static void execute(struct thread *t, const struct inst *i)
{
	if (i->type_count && ptx_type_bits[i->types[0]] > 64) {
		thread_fails(t, INTERP_UNKNOWN, "128 bits");
		return;
	}
	switch (i->op) {
	case OP_membar:
	case OP_fence:
	case OP_nanosleep:
	case OP_brkpt:
		return;
	case OP_mov:
		thread_write(t, &i->operands[0], i->types[0],
			thread_read(t, &i->operands[1], i->types[0]));
		return;
	case OP_setp:
	case OP_set:
		compare(t, i);
		return;
	case OP_selp:
	case OP_slct:
		select_value(t, i);
		return;
	case OP_activemask:
	case OP_call:
		thread_fails(t, INTERP_UNKNOWN, "an instruction");
		return;
	}
	if (interp_memory(t, i) || together(t, i))
		return;
	if (inst_has(i, MOD_cc) || i->op == OP_addc || i->op == OP_subc || i->op == OP_madc)
		with_carry(t, i);
	else
		compute(t, i);
}

void thread_step(struct thread *t)
{
	const struct function *f = t->block->entry;
	const struct inst *i = &f->insts[t->pc];

	if (t->pc == f->inst_count) { /* falling off the end */
		t->state = THREAD_LEFT;
		return;
	}
	bool skipped =
		i->guard != PTX_NONE && !(register_value(t, i->guard) & 1) == !i->guard_negated;
	if (skipped || (ptx_opcodes[i->op].flags & OPF_IGNORE)) {
		t->pc++;
		return;
	}
	if (control(t, i))
		return;
	execute(t, i);
	t->pc += t->block->outcome == INTERP_RAN;
}
