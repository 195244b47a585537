/* SPDX-License-Identifier: MIT
 *
 * The interpreter's blocks: who goes on, collectives, barriers.
 */
#include "interp_thread.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "interp_values.h"

enum { MOST_STEPS = 20000000 }; /* of one thread */

/* ---- collectives of a warp ---- */

static bool same_collective(const struct thread *a, const struct thread *b)
{
	return a->at->op == b->at->op && a->mask == b->mask &&
	       !memcmp(a->at->modifiers, b->at->modifiers, sizeof(a->at->modifiers)) &&
	       !memcmp(a->at->types, b->at->types, sizeof(a->at->types));
}

/* The lanes that take part with `t`: those of its mask that have not left. 0: not all of them wait at it yet. */
static uint32_t gathered(const struct thread *t)
{
	const struct block *b = t->block;
	uint32_t first = t->index & ~31u, lanes = 0;

	for (uint32_t k = 0; k < 32 && first + k < b->threads; k++) {
		const struct thread *o = &b->thread[first + k];

		if (!(t->mask >> k & 1) || o->state == THREAD_LEFT)
			continue;
		if (o->state != THREAD_WAITS || o->barrier >= 0 || !same_collective(t, o))
			return 0;
		lanes |= 1u << k;
	}
	return lanes;
}

static void shuffle(struct thread *t, uint32_t lanes)
{
	const struct inst *i = t->at;
	const struct operand *d = &i->operands[0];
	uint32_t lane = t->index & 31, b = (uint32_t)thread_read(t, &i->operands[2], TYPE_b32) & 31;
	uint32_t c = (uint32_t)thread_read(t, &i->operands[3], TYPE_b32), segment = c >> 8 & 31;
	uint32_t least = lane & segment, most = least | (c & 31 & ~segment);
	int j;
	bool valid;

	if (inst_has(i, MOD_up)) {
		j = (int)lane - (int)b;
		valid = j >= (int)most;
	} else {
		j = inst_has(i, MOD_down)   ? (int)(lane + b)
		    : inst_has(i, MOD_bfly) ? (int)(lane ^ b)
					    : (int)(least | (b & ~segment));
		valid = j <= (int)most;
	}
	/* The manual does not say what a lane gives that does not take part: 0. */
	uint64_t value = !valid ? t->value : lanes >> j & 1 ? (t - lane + j)->value : 0;
	if (d->kind == OPERAND_VECTOR) {
		thread_write(t, &d->elements[1], TYPE_pred, valid);
		d = &d->elements[0];
	}
	thread_write(t, d, TYPE_b32, value);
}

static uint32_t lanes_that(const struct thread *t, uint32_t lanes, bool equal_value)
{
	const struct thread *warp = t - (t->index & 31);
	uint32_t found = 0;

	for (uint32_t k = 0; k < 32; k++)
		if (lanes >> k & 1 && (equal_value ? warp[k].value == t->value : warp[k].predicate))
			found |= 1u << k;
	return found;
}

static void vote(struct thread *t, uint32_t lanes)
{
	const struct inst *i = t->at;
	uint32_t yes = lanes_that(t, lanes, false);

	if (inst_has(i, MOD_ballot))
		thread_write(t, &i->operands[0], TYPE_b32, yes);
	else
		thread_write(t, &i->operands[0], TYPE_pred,
			inst_has(i, MOD_all)   ? yes == lanes
			: inst_has(i, MOD_any) ? yes != 0
					       : yes == lanes || !yes);
}

static void match(struct thread *t, uint32_t lanes)
{
	const struct operand *d = &t->at->operands[0];
	uint32_t same = lanes_that(t, lanes, true);

	if (inst_has(t->at, MOD_all)) {
		bool all = same == lanes;

		same = all ? lanes : 0;
		if (d->kind == OPERAND_VECTOR) {
			thread_write(t, &d->elements[1], TYPE_pred, all);
			d = &d->elements[0];
		}
	}
	thread_write(t, d, TYPE_b32, same);
}

static void reduce(struct thread *t, uint32_t lanes)
{
	const struct inst *i = t->at;
	const struct thread *warp = t - (t->index & 31);
	uint64_t r = warp[__builtin_ctz(lanes)].value;

	for (uint32_t k = (uint32_t)__builtin_ctz(lanes) + 1; k < 32; k++) {
		uint64_t v;
		bool less;

		if (!(lanes >> k & 1))
			continue;
		v = warp[k].value;
		less = interp_is_signed(i->types[0]) ? (int32_t)v < (int32_t)r : v < r;
		r = inst_has(i, MOD_add)   ? r + v
		    : inst_has(i, MOD_and) ? r & v
		    : inst_has(i, MOD_or)  ? r | v
		    : inst_has(i, MOD_xor) ? r ^ v
		    : inst_has(i, MOD_min) ? (less ? v : r)
					   : (less ? r : v);
	}
	thread_write(t, &i->operands[0], TYPE_b32, r);
}

static void elect(struct thread *t, uint32_t lanes)
{
	const struct operand *d = &t->at->operands[0];
	uint32_t leader = (uint32_t)__builtin_ctz(lanes);

	thread_write(t, &d->elements[0], TYPE_b32, leader);
	thread_write(t, &d->elements[1], TYPE_pred, leader == (t->index & 31));
}

static void collect(struct thread *t, uint32_t lanes)
{
	switch (t->at->op) {
	case OP_shfl:
		shuffle(t, lanes);
		break;
	case OP_vote:
		vote(t, lanes);
		break;
	case OP_match:
		match(t, lanes);
		break;
	case OP_redux:
		reduce(t, lanes);
		break;
	case OP_elect:
		elect(t, lanes);
		break;
	}
}

static bool release_warp(struct thread *t)
{
	struct thread *warp = t - (t->index & 31);
	uint32_t lanes = gathered(t);

	if (lanes && interp_is_matrix(t->at))
		interp_matrix(warp, lanes);
	for (uint32_t k = 0; k < 32; k++)
		if (lanes >> k & 1)
			collect(&warp[k], lanes);
	for (uint32_t k = 0; k < 32; k++)
		if (lanes >> k & 1)
			warp[k].state = THREAD_READY;
	return lanes != 0;
}

/* ---- barriers of the block ---- */

static void pass_barrier(struct thread *t, const struct barrier *b)
{
	const struct inst *i = t->at;

	t->state = THREAD_READY;
	if (!i->dest_count)
		return;
	if (inst_has(i, MOD_popc))
		thread_write(t, &i->operands[0], TYPE_b32, b->count);
	else
		thread_write(t, &i->operands[0], TYPE_pred,
			inst_has(i, MOD_and) ? b->count == b->all : b->count != 0);
}

uint32_t barrier_count(const struct block *b, const struct barrier *barrier, uint32_t warp)
{
	uint32_t come = barrier->come[warp];

	for (uint32_t k = warp * 32; k < b->threads && k < warp * 32 + 32; k++)
		if (!(come >> k % 32 & 1) && b->thread[k].state != THREAD_LEFT)
			return (uint32_t)__builtin_popcount(come);
	return come ? 32 : 0;
}

static bool release_barrier(struct block *b, int id)
{
	struct barrier *barrier = &b->barrier[id];
	uint32_t expected = (barrier->expected + 31) / 32 * 32, come = barrier->before;

	for (uint32_t w = 0; w * 32 < b->threads; w++) {
		bool alive = false;

		for (uint32_t k = w * 32; k < b->threads && k < w * 32 + 32; k++)
			alive |= b->thread[k].state != THREAD_LEFT;
		expected += alive && !barrier->expected ? 32 : 0;
		come += barrier_count(b, barrier, w);
	}
	if (!barrier->arrived || come < expected)
		return false;
	barrier->arrived = barrier->before = 0;
	memset(barrier->come, 0, sizeof(barrier->come));
	for (uint32_t k = 0; k < b->threads; k++)
		if (b->thread[k].state == THREAD_WAITS && b->thread[k].barrier == id)
			pass_barrier(&b->thread[k], barrier);
	return true;
}

/* Lets go all that need wait no longer. */
static bool release(struct block *b)
{
	bool any = false;

	for (uint32_t k = 0; k < b->threads; k++)
		if (b->thread[k].state == THREAD_WAITS && b->thread[k].barrier < 0)
			any |= release_warp(&b->thread[k]);
	for (int id = 0; id < BARRIERS; id++)
		any |= release_barrier(b, id);
	return any;
}

/* ---- who goes on ---- */

static uint64_t draw(struct block *b)
{
	b->random ^= b->random << 13;
	b->random ^= b->random >> 7;
	return b->random ^= b->random << 17;
}

static struct thread *next_ready(struct block *b)
{
	uint32_t start = b->in->schedule ? (uint32_t)(draw(b) % b->threads) : b->turn;

	for (uint32_t k = 0; k < b->threads; k++) {
		struct thread *t = &b->thread[(start + k) % b->threads];

		if (t->state == THREAD_READY)
			return t;
	}
	return NULL;
}

static void say_deadlock(struct block *b)
{
	struct interp *in = b->in;
	size_t n = (size_t)snprintf(in->why, sizeof(in->why), "deadlock in block %u:", b->ctaid[0]);

	for (uint32_t k = 0; k < b->threads && n < sizeof(in->why); k++) {
		struct thread *t = &b->thread[k];

		if (t->state == THREAD_WAITS)
			n += (size_t)snprintf(in->why + n, sizeof(in->why) - n,
				" thread %u at line %u,", k, t->at->line);
	}
	b->outcome = INTERP_DEADLOCKED;
}

static void run_block(struct block *b)
{
	while (b->outcome == INTERP_RAN) {
		struct thread *t = next_ready(b);
		uint64_t slice = b->in->schedule ? draw(b) % 100 + 1 : SLICE;
		bool all_left = true;

		if (t) {
			while (slice-- && t->state == THREAD_READY && b->outcome == INTERP_RAN) {
				thread_step(t);
				if (++t->steps == MOST_STEPS)
					thread_fails(t, INTERP_ENDLESS, "no end in sight");
			}
			b->turn = t->state == THREAD_READY ? t->index + 1 : 0;
			/* Whoever waits may go as soon as it can, or only when nobody else can. */
			if (!b->in->schedule || draw(b) % 2)
				release(b);
			continue;
		}
		if (release(b))
			continue;
		for (uint32_t k = 0; k < b->threads; k++)
			all_left &= b->thread[k].state == THREAD_LEFT;
		if (!all_left)
			say_deadlock(b);
		return;
	}
}

static void begin_block(struct block *b, uint64_t number)
{
	const uint32_t *grid = b->in->grid, *shape = b->in->block;

	b->ctaid[0] = (uint32_t)(number % grid[0]);
	b->ctaid[1] = (uint32_t)(number / grid[0] % grid[1]);
	b->ctaid[2] = (uint32_t)(number / grid[0] / grid[1]);
	memset(b->barrier, 0, sizeof(b->barrier));
	memset(b->shared_written, false, b->shared_bytes);
	for (uint32_t k = 0; k < b->threads; k++) {
		struct thread *t = &b->thread[k];
		*t = (struct thread){.block = b,
			.index = k,
			.regs = t->regs,
			.local = t->local,
			.reg_written = t->reg_written,
			.local_written = t->local_written};
		t->tid[0] = k % shape[0];
		t->tid[1] = k / shape[0] % shape[1];
		t->tid[2] = k / shape[0] / shape[1];
		memset(t->reg_written, false, b->entry->reg_count);
		memset(t->local_written, false, b->local_bytes);
	}
}

static const struct function *find_entry(const struct ptx_module *m, const char *name)
{
	for (size_t k = 0; k < m->entry_count; k++)
		if (!strcmp(m->entries[k]->name, name))
			return m->entries[k];
	return NULL;
}

enum interp_outcome interp_run(struct interp *in)
{
	struct block b = {.in = in, .entry = find_entry(in->module, in->kernel)};
	uint64_t blocks = (uint64_t)in->grid[0] * in->grid[1] * in->grid[2];
	uint64_t *regs;
	uint8_t *locals;
	bool *written;

	in->why[0] = 0;
	in->line = 0;
	if (!b.entry)
		return INTERP_UNKNOWN;
	b.threads = in->block[0] * in->block[1] * in->block[2];
	b.shared_bytes = (uint64_t)b.entry->kernel.shared_bytes + in->dynamic_shared;
	b.local_bytes = (b.entry->kernel.local_bytes + 63) & ~63u;
	b.random = in->schedule;
	b.thread = calloc(b.threads, sizeof(*b.thread));
	b.shared = aligned_alloc(64, (b.shared_bytes + 127) & ~63ull);
	b.shared_written = malloc(b.shared_bytes + 1);
	regs = calloc((size_t)b.threads * b.entry->reg_count + 1, sizeof(*regs));
	locals = aligned_alloc(64, b.threads * b.local_bytes + 64);
	written = malloc(b.threads * (b.entry->reg_count + b.local_bytes) + 1);
	if (!b.thread || !b.shared || !b.shared_written || !regs || !locals || !written)
		abort();
	for (uint32_t k = 0; k < b.threads; k++) {
		b.thread[k].regs = regs + (size_t)k * b.entry->reg_count;
		b.thread[k].local = locals + k * b.local_bytes;
		b.thread[k].reg_written = written + k * (b.entry->reg_count + b.local_bytes);
		b.thread[k].local_written = b.thread[k].reg_written + b.entry->reg_count;
	}
	for (uint64_t n = 0; n < blocks && b.outcome == INTERP_RAN; n++) {
		begin_block(&b, n);
		run_block(&b);
	}
	free(written);
	free(locals);
	free(regs);
	free(b.shared_written);
	free(b.shared);
	free(b.thread);
	return b.outcome;
}
