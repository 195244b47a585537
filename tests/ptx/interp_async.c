/* SPDX-License-Identifier: MIT
 *
 * Asynchronous copies and barriers in memory, of one thread. Copies are made at once.
 */
#include <string.h>

#include "interp_thread.h"
#include "interp_values.h"

/* A barrier's 64 bits, whose meaning the manual leaves open. Counts below 2^20. */
struct phase {
	uint64_t passed, expected, pending;
	int64_t bytes;
};

static struct phase unpack(uint64_t word)
{
	return (struct phase){.passed = word & 1,
		.pending = word >> 1 & 0xfffff,
		.expected = word >> 21 & 0xfffff,
		.bytes = (int64_t)word >> 41};
}

static uint64_t pack(const struct phase *p)
{
	return p->passed | p->pending << 1 | p->expected << 21 | (uint64_t)p->bytes << 41;
}

static void change(struct thread *t, uint8_t *at, uint64_t arrive, uint64_t drop, int64_t bytes)
{
	uint64_t word;
	struct phase p;

	if (!at)
		return;
	memcpy(&word, at, 8);
	p = unpack(word);
	if (arrive > p.pending)
		thread_fails(t, INTERP_WRONG, "%lu arrivals where %lu are missing",
			(unsigned long)arrive, (unsigned long)p.pending);
	p.pending -= arrive;
	p.expected -= drop;
	p.bytes += bytes;
	if (!p.pending && !p.bytes) {
		p.passed ^= 1;
		p.pending = p.expected;
	}
	word = pack(&p);
	memcpy(at, &word, 8);
}

static void arrive(struct thread *t, const struct inst *i, uint8_t *at)
{
	bool bytes = inst_has(i, MOD_expect_tx), counted = i->operand_count > 2 && !bytes;
	uint64_t n = counted ? thread_read(t, &i->operands[2], TYPE_b32) : 1, old;

	memcpy(&old, at, 8);
	change(t, at, n, inst_has(i, MOD_arrive_drop) ? n : 0,
		bytes ? (int64_t)thread_read(t, &i->operands[2], TYPE_b32) : 0);
	thread_write(t, &i->operands[0], TYPE_b64, old);
}

static void wait(struct thread *t, const struct inst *i, const uint8_t *at)
{
	uint64_t word, last = thread_read(
			       t, &i->operands[2], inst_has(i, MOD_parity) ? TYPE_b32 : TYPE_b64);

	memcpy(&word, at, 8);
	thread_write(t, &i->operands[0], TYPE_pred, (word ^ last) & 1);
}

bool interp_mbarrier(struct thread *t, const struct inst *i)
{
	unsigned first = i->dest_count;
	uint64_t n = 0, word;

	if (inst_has(i, MOD_pending_count)) {
		struct phase p = unpack(thread_read(t, &i->operands[1], TYPE_b64));

		thread_write(t, &i->operands[0], TYPE_b32, p.pending);
		return true;
	}
	uint8_t *at = thread_address(t, i, &i->operands[first], 8);
	if (!at || inst_has(i, MOD_inval))
		return true;
	if (first) {
		if (inst_has(i, MOD_test_wait) || inst_has(i, MOD_try_wait))
			wait(t, i, at);
		else
			arrive(t, i, at);
		return true;
	}
	n = thread_read(t, &i->operands[1], TYPE_b32);
	if (inst_has(i, MOD_init)) {
		word = pack(&(struct phase){.expected = n, .pending = n});
		memcpy(at, &word, 8);
	} else {
		change(t, at, 0, 0, inst_has(i, MOD_complete_tx) ? -(int64_t)n : (int64_t)n);
	}
	return true;
}

/* ---- copies ---- */

static bool copy_bulk(struct thread *t, const struct inst *i)
{
	const struct operand *o = i->operands;
	bool in = inst_space(i) == SPACE_SHARED;

	if (inst_has(i, MOD_commit_group) || inst_has(i, MOD_wait_group) ||
		inst_has(i, MOD_prefetch))
		return true;
	if (inst_has(i, MOD_tensor)) {
		uint32_t copied = interp_tensor(t, i);

		if (inst_has(i, MOD_mbarrier))
			change(t, thread_address_in(t, SPACE_SHARED, &o[3], 8), 0, 0,
				-(int64_t)copied);
		return true;
	}
	unsigned bytes = (unsigned)thread_read(t, &o[2], TYPE_b32);
	uint8_t *to = thread_address_in(t, in ? SPACE_SHARED : SPACE_GLOBAL, &o[0], 16);
	uint8_t *from = thread_address_in(t, in ? SPACE_GLOBAL : SPACE_SHARED, &o[1], 16);

	if (bytes % 16)
		thread_fails(t, INTERP_WRONG, "%u bytes", bytes);
	for (unsigned k = 0; t->block->outcome == INTERP_RAN && k < bytes; k++)
		to[k] = from[k];
	thread_wrote(t, to, bytes);
	if (inst_has(i, MOD_mbarrier))
		change(t, thread_address_in(t, SPACE_SHARED, &o[3], 8), 0, 0, -(int64_t)bytes);
	return true;
}

/* Without .noinc the arrival is one more than was expected. */
static bool copies_arrive(struct thread *t, const struct inst *i)
{
	uint8_t *at = thread_address(t, i, &i->operands[0], 8);

	if (inst_has(i, MOD_noinc))
		change(t, at, 1, 0, 0);
	return true;
}

bool interp_copy(struct thread *t, const struct inst *i)
{
	const struct operand *o = i->operands;

	if (inst_has(i, MOD_bulk))
		return copy_bulk(t, i);
	if (inst_has(i, MOD_arrive))
		return copies_arrive(t, i);
	if (i->operand_count < 3)
		return inst_has(i, MOD_commit_group) || inst_has(i, MOD_wait_all) ||
		       inst_has(i, MOD_wait_group);
	unsigned bytes = (unsigned)o[2].bits;
	uint64_t take = i->operand_count > 3 ? thread_read(t, &o[3], TYPE_u32) : bytes;
	uint8_t *to = thread_address_in(t, SPACE_SHARED, &o[0], bytes);
	uint8_t *from = thread_address_in(t, SPACE_GLOBAL, &o[1], bytes);

	for (unsigned k = 0; t->block->outcome == INTERP_RAN && k < bytes; k++)
		to[k] = k < take ? from[k] : 0;
	return true;
}
