/* SPDX-License-Identifier: MIT
 *
 * Memory, of one thread: where operands point, loads and stores, atomic operations, and addresses made other ones.
 */
#include <string.h>

#include "interp_thread.h"
#include "interp_values.h"

static uint8_t *within(struct thread *t, uint8_t *base, uint64_t size, uint64_t at, unsigned bytes)
{
	if (at <= size && bytes <= size - at)
		return base + at;
	thread_fails(t, INTERP_WRONG, "%u bytes at %#lx of %lu", bytes, (unsigned long)at,
		(unsigned long)size);
	return NULL;
}

static uint8_t *locate(struct thread *t, unsigned space, const struct operand *o, unsigned bytes)
{
	struct interp *in = t->block->in;
	bool narrow =
		o->kind == OPERAND_REG && ptx_type_bits[t->block->entry->regs[o->id].type] == 32;
	struct operand plain = *o;
	uint64_t at;

	plain.memory = false;
	at = thread_read(t, &plain, TYPE_b64);
	if (o->kind == OPERAND_REG)
		at += (uint64_t)o->bits;
	if (narrow)
		at = (uint32_t)at;
	if (at & (bytes - 1)) {
		thread_fails(
			t, INTERP_WRONG, "%u bytes at %#lx, not aligned", bytes, (unsigned long)at);
		return NULL;
	}
	switch (space) {
	case SPACE_SHARED:
		return within(t, t->block->shared, t->block->shared_bytes, at, bytes);
	case SPACE_LOCAL:
		return within(t, t->local, t->block->local_bytes, at, bytes);
	case SPACE_PARAM:
		return within(
			t, (uint8_t *)in->params, t->block->entry->kernel.param_bytes, at, bytes);
	case SPACE_CONST:
		return within(t, in->globals, in->module->const_bytes, at, bytes);
	}
	return (uint8_t *)(uintptr_t)at;
}

/* Whether each byte of the block's memory at `p` is written; NULL: it is the block's not. */
static bool *written(struct thread *t, const uint8_t *p)
{
	uint64_t shared = (uint64_t)(p - t->block->shared), local = (uint64_t)(p - t->local);

	return shared < t->block->shared_bytes ? t->block->shared_written + shared
	       : local < t->block->local_bytes ? t->local_written + local
					       : NULL;
}

void thread_wrote(struct thread *t, const uint8_t *p, uint64_t bytes)
{
	bool *known = p ? written(t, p) : NULL;

	if (known)
		memset(known, true, bytes);
}

uint8_t *thread_address_in(
	struct thread *t, unsigned space, const struct operand *o, unsigned bytes)
{
	uint8_t *p = locate(t, space, o, bytes);

	thread_wrote(t, p, bytes);
	return p;
}

uint8_t *thread_address(
	struct thread *t, const struct inst *i, const struct operand *o, unsigned bytes)
{
	bool reads = i->op == OP_ld || i->op == OP_ldu || i->op == OP_atom || i->op == OP_red;
	uint8_t *p = locate(t, inst_space(i), o, bytes);
	const bool *known = p ? written(t, p) : NULL;

	for (unsigned n = 0; known && reads && n < bytes; n++)
		if (!known[n])
			thread_fails(t, INTERP_WRONG, "nobody has written that memory");
	thread_wrote(t, p, bytes);
	return p;
}

static void move_memory(struct thread *t, const struct inst *i)
{
	bool load = i->op != OP_st;
	const struct operand *a = &i->operands[load], *values = &i->operands[!load];
	unsigned count = values->kind == OPERAND_VECTOR ? values->count : 1;
	unsigned type = i->types[0], bytes = ptx_type_bits[type] / 8u;
	uint8_t *p = thread_address(t, i, a, bytes * count);

	for (unsigned k = 0; t->block->outcome == INTERP_RAN && k < count; k++) {
		const struct operand *o =
			values->kind == OPERAND_VECTOR ? &values->elements[k] : values;
		uint64_t v = 0;

		if (load) {
			memcpy(&v, p + k * bytes, bytes);
			thread_write_extended(t, o, type, v);
		} else {
			v = thread_read(t, o, type);
			memcpy(p + k * bytes, &v, bytes);
		}
	}
}

/* Of f32, subnormal numbers are kept in shared memory alone. */
static uint64_t added(unsigned type, uint64_t old, uint64_t v, bool shared)
{
	if (type != TYPE_f32 || shared)
		return interp_float_add(type, old, v);
	return interp_flushed(
		type, interp_float_add(type, interp_flushed(type, old), interp_flushed(type, v)));
}

bool interp_combined(
	const struct inst *i, uint64_t old, uint64_t v, uint64_t n, bool shared, uint64_t *result)
{
	unsigned type = i->types[0], bits = ptx_type_bits[type];
	bool less = interp_is_signed(type) ? interp_signed(v, bits) < interp_signed(old, bits)
					   : v < old;

	if (inst_has(i, MOD_cas))
		*result = old == v ? n : old;
	else if (inst_has(i, MOD_exch))
		*result = v;
	else if (inst_has(i, MOD_add))
		*result = interp_is_integer(type) ? old + v : added(type, old, v, shared);
	else if (inst_has(i, MOD_and))
		*result = old & v;
	else if (inst_has(i, MOD_or))
		*result = old | v;
	else if (inst_has(i, MOD_xor))
		*result = old ^ v;
	else if (inst_has(i, MOD_min))
		*result = less ? v : old;
	else if (inst_has(i, MOD_max))
		*result = less ? old : v;
	else if (inst_has(i, MOD_inc))
		*result = old >= v ? 0 : old + 1;
	else if (inst_has(i, MOD_dec))
		*result = old == 0 || old > v ? v : old - 1;
	else
		return false;
	return true;
}

static void pairs_added(unsigned part, uint64_t old, uint64_t v, uint64_t *result)
{
	*result = 0;
	for (unsigned shift = 0; shift < 32; shift += 16)
		*result |= interp_float_add(part, old >> shift & 0xffff, v >> shift & 0xffff)
			   << shift;
}

static void atomic(struct thread *t, const struct inst *i)
{
	unsigned first = i->dest_count, type = i->types[0], bytes = ptx_type_bits[type] / 8u;
	uint8_t *p = thread_address(t, i, &i->operands[first], bytes);
	uint64_t old = 0, v, n = 0, result = 0;

	if (t->block->outcome != INTERP_RAN)
		return;
	bool shared = (uint64_t)(p - t->block->shared) < t->block->shared_bytes;
	memcpy(&old, p, bytes);
	v = thread_read(t, &i->operands[first + 1], type);
	if (inst_has(i, MOD_cas))
		n = thread_read(t, &i->operands[first + 2], type);
	if (type == TYPE_f16x2 || type == TYPE_bf16x2)
		pairs_added(type == TYPE_f16x2 ? TYPE_f16 : TYPE_bf16, old, v, &result);
	else if (!interp_combined(i, old, v, n, shared, &result))
		thread_fails(t, INTERP_UNKNOWN, "an operation");
	memcpy(p, &result, bytes);
	if (first)
		thread_write(t, &i->operands[0], type, old);
}

static uint64_t window(const struct thread *t, unsigned space)
{
	switch (space) {
	case SPACE_SHARED:
		return (uintptr_t)t->block->shared;
	case SPACE_LOCAL:
		return (uintptr_t)t->local;
	case SPACE_CONST:
		return (uintptr_t)t->block->in->globals;
	case SPACE_PARAM:
		return (uintptr_t)t->block->in->params;
	}
	return 0;
}

static void convert_address(struct thread *t, const struct inst *i)
{
	uint64_t v = thread_read(t, &i->operands[1], TYPE_b64), base = window(t, inst_space(i));

	thread_write(t, &i->operands[0], TYPE_b64, inst_has(i, MOD_to) ? v - base : v + base);
}

static void is_in_space(struct thread *t, const struct inst *i)
{
	uint64_t v = thread_read(t, &i->operands[1], TYPE_b64);
	bool shared = v - window(t, SPACE_SHARED) < t->block->shared_bytes;
	bool local = v - window(t, SPACE_LOCAL) < t->block->local_bytes;
	unsigned space = inst_space(i);
	uint64_t bytes = space == SPACE_CONST ? t->block->in->module->const_bytes
					      : t->block->entry->kernel.param_bytes;

	thread_write(t, &i->operands[0], TYPE_pred,
		space == SPACE_SHARED   ? shared
		: space == SPACE_LOCAL  ? local
		: space == SPACE_GLOBAL ? !shared && !local
					: v - window(t, space) < bytes);
}

bool interp_memory(struct thread *t, const struct inst *i)
{
	switch (i->op) {
	case OP_ld:
	case OP_ldu:
	case OP_st:
		move_memory(t, i);
		return true;
	case OP_atom:
	case OP_red:
		atomic(t, i);
		return true;
	case OP_cp:
		return interp_copy(t, i);
	case OP_mbarrier:
		return interp_mbarrier(t, i);
	case OP_mapa:
		thread_write(t, &i->operands[0], i->types[0],
			thread_read(t, &i->operands[1], i->types[0]));
		return true;
	case OP_getctarank:
		thread_write(t, &i->operands[0], TYPE_u32, 0);
		return true;
	case OP_cvta:
		convert_address(t, i);
		return true;
	case OP_isspacep:
		is_in_space(t, i);
		return true;
	}
	return false;
}
