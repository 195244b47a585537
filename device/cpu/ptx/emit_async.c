/* SPDX-License-Identifier: MIT
 *
 * Asynchronous copies, and the barriers in memory (mbarrier) that say when they, and threads, have come. A copy is made at
 * once: that is one of the times at which it may be, and leaves nothing to wait for. What a barrier's 64 bits mean is in
 * builtins_async.h. As a block's threads run on one processor, one at a time, plain accesses change them.
 */
#include "device/cpu/ptx/gen.h"
#include "device/cpu/ptx/tensor.h"

/* ---- barriers in memory ---- */

static LLVMValueRef pointer(struct gen *g, struct inst *i, unsigned k, unsigned space)
{
	return i->operands[k].memory ? emit_address(g, &i->operands[k], space) : NULL;
}

/* A barrier, of which checked code sees the access. */
static LLVMValueRef barrier_at(struct gen *g, struct inst *i, unsigned k, enum ptx_access_kind kind)
{
	struct ptx_access access = {.bytes = 8, .align = 8, .kind = (uint8_t)kind};
	const struct operand *o = &i->operands[k];

	/* No barrier has the value that is said to be stored. */
	return o->memory ? checked_address(g, i, o, inst_space(i), access, gen_int(g, UINT64_MAX))
			 : NULL;
}

/* Counts `arrive` threads as come, expects `drop` fewer of them from the next phase on, and `bytes` more of copies. Returns
 * the barrier as it was; NULL: no such instruction. */
static LLVMValueRef change(
	struct gen *g, LLVMValueRef barrier, LLVMValueRef arrive, bool drop, LLVMValueRef bytes)
{
	LLVMValueRef zero = LLVMConstNull(g->i32);
	LLVMValueRef a[] = {
		barrier, arrive ? arrive : zero, drop ? arrive : zero, bytes ? bytes : zero};

	return barrier ? emit_builtin(g, "ptx_mbarrier_change", a, 4) : NULL;
}

static LLVMValueRef number(struct gen *g, const struct inst *i, unsigned k)
{
	return emit_operand(g, &i->operands[k], g->i32);
}

/* The phase's parity is one bit of a number. */
static void note_passed(
	struct gen *g, LLVMValueRef barrier, LLVMValueRef phase, unsigned bit, LLVMValueRef passed)
{
	LLVMValueRef v = LLVMBuildLShr(g->b, phase, gen_int(g, bit), "");

	v = LLVMBuildAnd(g->b, v, gen_int(g, 1), "");
	v = LLVMBuildOr(g->b, v, LLVMBuildPtrToInt(g->b, barrier, g->i64, ""), "");
	checked_order(g, PTX_PASSED, LLVMBuildSelect(g->b, passed, v, gen_int(g, 0), ""));
}

static bool emit_wait(struct gen *g, struct inst *i, LLVMValueRef barrier)
{
	bool parity = inst_has(i, MOD_parity);
	LLVMValueRef a[2] = {barrier}, v, phase;

	if (!barrier || i->operand_count < 3)
		return false;
	a[1] = emit_operand(g, &i->operands[2], parity ? g->i32 : g->i64);
	phase = LLVMBuildZExt(g->b, a[1], g->i64, "");
	v = emit_builtin(g, parity ? "ptx_mbarrier_passed_parity" : "ptx_mbarrier_passed", a, 2);
	if (!v)
		return false;
	v = LLVMBuildTrunc(g->b, v, g->i1, "");
	if (g->work->checked)
		note_passed(g, barrier, phase, parity ? 0 : 63, v);
	emit_result(g, &i->operands[0], v);
	return true;
}

static bool emit_arrival(struct gen *g, struct inst *i, LLVMValueRef barrier)
{
	LLVMValueRef one = LLVMConstInt(g->i32, 1, false), old;
	bool bytes = inst_has(i, MOD_expect_tx), more = i->operand_count > 2;

	if (i->operand_count > 3 || (bytes && !more))
		return false;
	old = change(g, barrier, more && !bytes ? number(g, i, 2) : one,
		inst_has(i, MOD_arrive_drop), bytes ? number(g, i, 2) : NULL);
	if (old)
		emit_result(g, &i->operands[0], old);
	return old;
}

bool emit_mbarrier(struct gen *g, struct inst *i)
{
	unsigned first = i->dest_count, count = i->operand_count;
	LLVMValueRef barrier, a[2];
	bool plain;

	if (i->type_count != 1 && !inst_has(i, MOD_expect_tx) && !inst_has(i, MOD_complete_tx))
		return false;
	if (inst_has(i, MOD_pending_count)) {
		a[0] = count == 2 ? emit_operand(g, &i->operands[1], g->i64) : NULL;
		a[0] = a[0] ? emit_builtin(g, "ptx_mbarrier_pending", a, 1) : NULL;
		if (a[0])
			emit_result(g, &i->operands[0], a[0]);
		return a[0];
	}
	plain = inst_has(i, MOD_init) || inst_has(i, MOD_inval);
	barrier = count > first ? barrier_at(g, i, first, plain ? PTX_WRITES : PTX_UPDATES) : NULL;
	if (!barrier)
		return false;
	if (!plain) /* threads wait for each other by it */
		checked_order(g, PTX_FENCE, gen_int(g, 1));
	if (inst_has(i, MOD_test_wait) || inst_has(i, MOD_try_wait)) {
		cluster_give_way(g);
		return emit_wait(g, i, barrier);
	}
	if (inst_has(i, MOD_arrive) || inst_has(i, MOD_arrive_drop))
		return emit_arrival(g, i, barrier);
	if (inst_has(i, MOD_inval))
		return count == 1;
	if (count != 2)
		return false;
	if (inst_has(i, MOD_init)) {
		a[0] = barrier;
		a[1] = number(g, i, 1);
		return emit_builtin(g, "ptx_mbarrier_init", a, 2);
	}
	LLVMValueRef bytes = number(g, i, 1);
	if (inst_has(i, MOD_complete_tx))
		bytes = LLVMBuildNeg(g->b, bytes, "");
	else if (!inst_has(i, MOD_expect_tx))
		return false;
	return change(g, barrier, NULL, false, bytes);
}

/* ---- copies ---- */

static bool is_predicate(const struct gen *g, const struct operand *o)
{
	return o->kind == OPERAND_REG && g->work->regs[o->id].type == TYPE_pred;
}

/* A policy of the cache, which has 64 bits. */
static bool is_policy(const struct gen *g, const struct operand *o)
{
	return o->kind == OPERAND_REG && ptx_type_bits[g->work->regs[o->id].type] == 64;
}

static unsigned times(const struct inst *i, unsigned modifier)
{
	unsigned n = 0;

	for (unsigned k = 0; k < i->modifier_count; k++)
		n += i->modifiers[k] == modifier;
	return n;
}

static LLVMValueRef checked_bulk(struct gen *g, LLVMValueRef a[3], LLVMValueRef barrier)
{
	LLVMValueRef numbers[] = {LLVMBuildPtrToInt(g->b, a[0], g->i64, ""),
		LLVMBuildPtrToInt(g->b, a[1], g->i64, ""), a[2],
		barrier ? LLVMBuildPtrToInt(g->b, barrier, g->i64, "") : gen_int(g, 0)};

	return checked_call(g, offsetof(struct ptx_runtime, bulk), numbers, 4, NULL);
}

/* The bytes, or none, of an access that checked code must not make. right: NULL in other code. */
static LLVMValueRef if_right(struct gen *g, LLVMValueRef right, LLVMValueRef bytes)
{
	return right ? LLVMBuildSelect(g->b, right, bytes, LLVMConstNull(g->i32), "") : bytes;
}

/* cp.async.bulk [to], [from], bytes, [barrier]; or of a group, which has come when it is committed. Both may be in shared memory;
 * to that of several blocks: …, [barrier], mask. */
static bool emit_bulk(struct gen *g, struct inst *i)
{
	bool counted = inst_has(i, MOD_mbarrier), in = inst_space(i) == SPACE_SHARED;
	bool within = times(i, MOD_shared) == 2, many = inst_has(i, MOD_multicast);
	unsigned count = i->operand_count, fixed = 3u + counted + many;
	LLVMValueRef a[3], barrier, right, made, bytes;

	if (inst_has(i, MOD_commit_group)) {
		checked_order(g, PTX_BULK_COMMITTED, NULL);
		return count == 0;
	}
	if (inst_has(i, MOD_wait_group)) {
		if (count == 1)
			checked_order(
				g, PTX_BULK_AWAITED, emit_operand(g, &i->operands[0], g->i64));
		return count == 1;
	}
	if (inst_has(i, MOD_prefetch))
		return count >= 2 && inst_has(i, MOD_L2) && i->operands[0].memory;
	if (inst_has(i, MOD_reduce) || count < fixed || !inst_has(i, MOD_shared) ||
		inst_has(i, MOD_global) == within || counted == inst_has(i, MOD_bulk_group) ||
		counted != in || (many && (within || !in)) ||
		(count > fixed && !is_policy(g, &i->operands[fixed])))
		return false;
	a[0] = pointer(g, i, 0, in ? SPACE_SHARED : SPACE_GLOBAL);
	a[1] = pointer(g, i, 1, in && !within ? SPACE_GLOBAL : SPACE_SHARED);
	a[2] = number(g, i, 2);
	barrier = counted ? barrier_at(g, i, 3, PTX_UPDATES) : NULL;
	if (!a[0] || !a[1] || (counted && !barrier))
		return false;
	right = g->work->checked ? checked_bulk(g, a, barrier) : NULL;
	made = if_right(g, right, a[2]);
	bytes = LLVMBuildNeg(g->b, many ? LLVMBuildSub(g->b, a[2], made, "") : a[2], "");
	a[2] = made;
	if (many && !cluster_copy(g, a[0], a[1], made, number(g, i, 4), barrier))
		return false;
	if (!many && !emit_builtin(g, "ptx_copy_bulk", a, 3))
		return false;
	return !counted || (many && !right) || change(g, barrier, NULL, false, bytes);
}

/* ---- boxes of tensors ---- */

static unsigned tensor_operation_of(const struct inst *i)
{
	static const uint8_t modifiers[] = {[TENSOR_ADD] = MOD_add,
		[TENSOR_MIN] = MOD_min,
		[TENSOR_MAX] = MOD_max,
		[TENSOR_INC] = MOD_inc,
		[TENSOR_DEC] = MOD_dec,
		[TENSOR_AND] = MOD_and,
		[TENSOR_OR] = MOD_or,
		[TENSOR_XOR] = MOD_xor};
	unsigned k = TENSOR_ADD;

	if (!inst_has(i, MOD_reduce))
		return inst_has(i, MOD_mbarrier) ? TENSOR_LOAD : TENSOR_STORE;
	while (k < sizeof(modifiers) && !inst_has(i, modifiers[k]))
		k++;
	return k;
}

/* The instruction's word; 0: no such instruction. */
static uint32_t find_tensor(const struct inst *i)
{
	static const uint8_t ranks[] = {MOD_1d, MOD_2d, MOD_3d, MOD_4d, MOD_5d};
	unsigned operation = tensor_operation_of(i), rank = 0;
	bool im2col = inst_has(i, MOD_im2col);

	while (rank < sizeof(ranks) && !inst_has(i, ranks[rank]))
		rank++;
	if (rank == sizeof(ranks) || operation > TENSOR_XOR || i->type_count ||
		(im2col && (rank < 2 || inst_has(i, MOD_tile))))
		return 0;
	return tensor_word(operation, rank + 1, im2col);
}

static void put_numbers(struct gen *g, LLVMValueRef area, const struct operand *o, unsigned from)
{
	for (unsigned k = 0; k < o->count; k++)
		LLVMBuildStore(g->b, emit_operand(g, &o->elements[k], g->i32),
			gen_gep(g, g->b, area, gen_int(g, 4 * (from + k))));
}

/* Asks whether a box may be moved, and moves it then. *made: how many of its bytes have been; returns how many it has. */
static LLVMValueRef checked_box(struct gen *g, LLVMValueRef move[6], LLVMValueRef box,
	LLVMValueRef barrier, LLVMValueRef *made)
{
	LLVMValueRef bytes = gen_alloca(g, g->i32, "bytes"), all;
	LLVMValueRef a[] = {move[1], move[2], move[3], LLVMBuildPtrToInt(g->b, box, g->i64, ""),
		barrier ? LLVMBuildPtrToInt(g->b, barrier, g->i64, "") : gen_int(g, 0), bytes};

	struct gen_if right = gen_begin_if(
		g, checked_call(g, offsetof(struct ptx_runtime, box), a, 6, NULL), "move");

	all = call_runtime(g, offsetof(struct ptx_runtime, tensor), g->i32, move, 6);
	*made = gen_end_if(g, &right, all, LLVMConstNull(g->i32));
	return LLVMBuildLoad2(g->b, g->i32, bytes, "");
}

/* Moves a box from or to shared memory; returns how many bytes it has. *made: how many were moved: all, or, in checked code, none. */
static LLVMValueRef move_box(struct gen *g, const struct inst *i, uint32_t word, LLVMValueRef box,
	const struct operand *offsets, LLVMValueRef barrier, LLVMValueRef *made)
{
	const struct operand *map = &i->operands[tensor_operation(word) == TENSOR_LOAD];
	LLVMValueRef area, at = cluster_place(g, box);

	area = gen_alloca(g, LLVMArrayType2(g->i32, TENSOR_NUMBERS), "box");
	put_numbers(g, area, map + 1, 0);
	if (offsets)
		put_numbers(g, area, offsets, TENSOR_OFFSETS);
	LLVMValueRef a[] = {g->launch, LLVMConstInt(g->i32, word, false),
		gen_gep(g, g->b, g->mem, emit_operand(g, map, g->i64)), area,
		gen_gep(g, g->b, box, LLVMBuildNeg(g->b, at, "")), at};

	if (g->work->checked)
		return checked_box(g, a, box, barrier, made);
	return *made = call_runtime(g, offsetof(struct ptx_runtime, tensor), g->i32, a, 6);
}

/* cp.async.bulk.tensor [to], [map, position], [barrier], offsets of im2col, mask of a cluster's blocks, policy. */
static bool load_box(struct gen *g, struct inst *i, uint32_t word)
{
	bool many = inst_has(i, MOD_multicast), im2col = tensor_mode(word);
	unsigned next = 4 + im2col, fixed = next + many;
	const struct operand *offsets = im2col ? &i->operands[4] : NULL;
	LLVMValueRef to = pointer(g, i, 0, SPACE_SHARED), barrier, bytes, made, mask, first;

	if (i->operand_count < fixed || i->operand_count > fixed + 1 ||
		inst_space(i) != SPACE_SHARED || !inst_has(i, MOD_global) || !to ||
		(i->operand_count > fixed && !is_policy(g, &i->operands[fixed])) ||
		(im2col && (offsets->kind != OPERAND_VECTOR ||
				   offsets->count + 2u != tensor_rank(word))))
		return false;
	barrier = barrier_at(g, i, 3, PTX_UPDATES);
	if (!barrier)
		return false;
	if (!many) {
		bytes = move_box(g, i, word, to, offsets, barrier, &made);
		return change(g, barrier, NULL, false, LLVMBuildNeg(g->b, bytes, ""));
	}
	mask = number(g, i, next);
	first = cluster_first(g, to, mask);
	if (!first)
		return false;
	bytes = move_box(g, i, word, first, offsets, barrier, &made);
	return cluster_copy(g, to, first, made, mask, barrier) &&
	       (!g->work->checked ||
		       change(g, barrier, NULL, false, LLVMBuildSub(g->b, made, bytes, "")));
}

/* cp.async.bulk.tensor [map, position], [from], policy; with .reduce it changes the tensor's elements. */
static bool store_box(struct gen *g, struct inst *i, uint32_t word)
{
	unsigned count = i->operand_count;
	LLVMValueRef from = count > 2 ? pointer(g, i, 2, SPACE_SHARED) : NULL, made;

	if (!from || count > 4 || tensor_mode(word) || inst_space(i) != SPACE_GLOBAL ||
		!inst_has(i, MOD_shared) || !inst_has(i, MOD_bulk_group) ||
		(count > 3 && !is_policy(g, &i->operands[3])))
		return false;
	return move_box(g, i, word, from, NULL, NULL, &made);
}

static bool emit_tensor(struct gen *g, struct inst *i)
{
	uint32_t word = find_tensor(i);
	bool load = inst_has(i, MOD_mbarrier);
	const struct operand *map = &i->operands[load], *position = map + 1;

	if (!word || i->operand_count < (load ? 3u : 2u) || position->kind != OPERAND_VECTOR ||
		position->count != tensor_rank(word) || map->memory ||
		map->kind == OPERAND_VECTOR ||
		(map->kind == OPERAND_SYMBOL && map->var->space != SPACE_GLOBAL))
		return false;
	if (inst_has(i, MOD_prefetch))
		return !load && inst_has(i, MOD_L2) && !inst_has(i, MOD_reduce);
	if (g->frame || (load && inst_has(i, MOD_reduce)))
		return false;
	return load ? load_box(g, i, word) : store_box(g, i, word);
}

/* st.async and red.async: [to], value, [barrier]. They are made at once, too. */
bool emit_async(struct gen *g, struct inst *i)
{
	const struct operand *value = &i->operands[1];
	struct inst plain = *i;
	uint32_t bytes = i->type_count == 1 ? ptx_type_bits[i->types[0]] / 8u : 0;
	bool updates = inst_has(i, MOD_relaxed);
	LLVMValueRef barrier = barrier_at(g, i, 2, PTX_UPDATES);

	if (!inst_has(i, MOD_mbarrier) || !i->operands[0].memory || bytes < 4 || !barrier ||
		inst_has(i, MOD_global))
		return false;
	plain.op = updates ? OP_red : OP_st;
	plain.operand_count = 2;
	bytes *= value->kind == OPERAND_VECTOR ? value->count : 1;
	if (!(updates ? emit_atomic : emit_store)(g, &plain))
		return false;
	return change(g, barrier, NULL, false, LLVMConstInt(g->i32, -bytes, false));
}

/* The thread's copies have all been made: without .noinc that is one arrival more, which was not expected. */
static bool emit_copies_arrive(struct gen *g, struct inst *i)
{
	LLVMValueRef barrier = i->operand_count == 1 ? barrier_at(g, i, 0, PTX_UPDATES) : NULL;

	checked_order(
		g, PTX_AWAITED, gen_int(g, UINT32_MAX)); /* the barrier in memory has them now */
	if (!barrier || !inst_has(i, MOD_noinc))
		return barrier;
	return change(g, barrier, LLVMConstInt(g->i32, 1, false), false, NULL);
}

bool emit_copy(struct gen *g, struct inst *i)
{
	const struct operand *to = &i->operands[0], *from = &i->operands[1], *take = NULL;
	unsigned count = i->operand_count;

	if (!inst_has(i, MOD_async))
		return false;
	if (inst_has(i, MOD_tensor))
		return inst_has(i, MOD_bulk) && emit_tensor(g, i);
	if (inst_has(i, MOD_bulk))
		return emit_bulk(g, i);
	if (inst_has(i, MOD_arrive))
		return emit_copies_arrive(g, i);
	if (inst_has(i, MOD_commit_group) || inst_has(i, MOD_wait_all)) {
		checked_order(g, inst_has(i, MOD_wait_all) ? PTX_AWAITED : PTX_COMMITTED,
			gen_int(g, UINT32_MAX));
		return count == 0;
	}
	if (inst_has(i, MOD_wait_group)) {
		checked_order(
			g, PTX_AWAITED, count ? emit_operand(g, &i->operands[0], g->i64) : NULL);
		return count == 1;
	}
	if (count < 3 || !to->memory || !from->memory || !inst_has(i, MOD_shared) ||
		!inst_has(i, MOD_global) || i->operands[2].kind != OPERAND_INT)
		return false;
	int64_t bytes = i->operands[2].bits;
	if (bytes != 4 && bytes != 8 && bytes != 16)
		return false;
	if (count > 3 && !is_policy(g, &i->operands[3]))
		take = &i->operands[3];
	if (take && is_predicate(g, take))
		return false;
	struct ptx_access access = {
		.bytes = (uint8_t)bytes, .align = (uint8_t)bytes, .kind = PTX_COPIES};
	LLVMValueRef into = checked_address(g, i, to, SPACE_SHARED, access, NULL);
	access.kind = PTX_READS;
	LLVMValueRef out_of = take ? emit_address(g, from, SPACE_GLOBAL)
				   : checked_address(g, i, from, SPACE_GLOBAL, access, NULL);
	if (take) {
		LLVMValueRef n = emit_operand(g, take, g->i32), right = NULL;

		if (g->work->checked)
			right = checked_rows(g, access, SPACE_GLOBAL,
				LLVMBuildPtrToInt(g->b, out_of, g->i64, ""), n, 1, gen_int(g, 0),
				NULL);
		LLVMValueRef a[] = {
			into, out_of, gen_int(g, (uint64_t)bytes), if_right(g, right, n)};

		return emit_builtin(g, "ptx_copy_filled", a, 4) != NULL;
	}
	LLVMTypeRef type = LLVMIntTypeInContext(g->context, (unsigned)bytes * 8);
	LLVMValueRef v = LLVMBuildLoad2(g->b, type, out_of, "");
	gen_mark(g, v);
	gen_mark(g, LLVMBuildStore(g->b, v, into));
	return true;
}
