/* SPDX-License-Identifier: MIT
 *
 * Definitions, and which registers live across block borders. Only registers that are read in a
 * block before that block writes them take part in the data flow.
 */
#include "device/cpu/ptx/work.h"

#include <errno.h>
#include <string.h>

enum { MAX_LIVE_BYTES = 128 << 20 };

struct scan {
	struct work *work;
	uint32_t *written; /* register to the last block (+1) that wrote it */
	uint32_t block, inst;
	uint64_t *use, *def;
};

static void count_def(void *data, struct operand *o)
{
	struct scan *s = data;
	struct work_reg *r = &s->work->regs[o->id];

	r->def = r->def_count++ ? PTX_NONE : s->inst;
	s->written[o->id] = s->block + 1;
}

static void find_exposed(void *data, struct operand *o)
{
	struct scan *s = data;
	struct work_reg *r = &s->work->regs[o->id];

	if (s->written[o->id] == s->block + 1 || r->global != PTX_NONE)
		return;
	r->global = s->work->global_count++;
}

static void note_use(void *data, struct operand *o)
{
	struct scan *s = data;
	uint32_t g = s->work->regs[o->id].global;

	if (g != PTX_NONE && !bits_get(s->def, g))
		bits_set(s->use, g);
}

static void note_def(void *data, struct operand *o)
{
	struct scan *s = data;
	uint32_t g = s->work->regs[o->id].global;

	if (g != PTX_NONE)
		bits_set(s->def, g);
}

static void scan_block(struct scan *s, uint32_t b, reg_visitor use, reg_visitor def)
{
	struct work *w = s->work;

	s->block = b;
	for (uint32_t n = w->blocks[b].first; n < w->blocks[b].end; n++) {
		s->inst = n;
		inst_uses(&w->insts[n], use, s);
		inst_defs(&w->insts[n], def, s);
	}
}

static void solve(struct work *w, uint64_t *use, uint64_t *def, uint32_t words)
{
	bool changed = true;

	while (changed) {
		changed = false;
		for (uint32_t k = w->rpo_count; k-- > 0;) {
			struct work_block *b = &w->blocks[w->rpo[k]];
			const uint64_t *u = use + (size_t)w->rpo[k] * words;
			const uint64_t *d = def + (size_t)w->rpo[k] * words;

			for (uint32_t i = 0; i < words; i++) {
				uint64_t in = 0;

				for (uint32_t s = 0; s < b->succ_count; s++)
					in |= w->blocks[b->succ[s]].live_in[i];
				in = u[i] | (in & ~d[i]);
				changed |= in != b->live_in[i];
				b->live_in[i] = in;
			}
		}
	}
}

/* A register with one definition that is not live at the entry is defined before every use. */
static void find_singles(struct work *w)
{
	for (uint32_t r = 0; r < w->reg_count; r++) {
		struct work_reg *reg = &w->regs[r];

		reg->single =
			reg->def_count == 1 &&
			(reg->global == PTX_NONE || !bits_get(w->blocks[0].live_in, reg->global));
	}
}

int cfg_liveness(struct work *w)
{
	struct scan s = {.work = w};
	uint32_t guards = 0;

	s.written = work_alloc(w, (w->reg_count + 1) * sizeof(*s.written));
	if (!s.written)
		return w->error;
	w->global_count = 0;
	for (uint32_t r = 0; r < w->reg_count; r++) {
		w->regs[r].global = w->regs[r].slot = w->regs[r].def = PTX_NONE;
		w->regs[r].def_count = 0;
	}
	for (uint32_t k = 0; k < w->rpo_count; k++) {
		scan_block(&s, w->rpo[k], find_exposed, count_def);
		guards += w->blocks[w->rpo[k]].succ_count > 1;
	}
	/* Room for the guards that guards.c adds. */
	uint32_t words = (w->global_count + guards) / 64 + 1;
	size_t bytes = (size_t)words * 8 * (w->block_count + 1);
	if (bytes > MAX_LIVE_BYTES) {
		work_error(w, -ENOTSUP, w->entry->line, "Kernel is too large for the software GPU");
		return w->error;
	}
	uint64_t *live = work_alloc(w, bytes), *use = work_alloc(w, bytes);
	uint64_t *def = work_alloc(w, bytes);
	w->globals = work_alloc(w, (w->global_count + guards + 1) * sizeof(*w->globals));
	if (w->error)
		return w->error;
	w->live_words = words;
	for (uint32_t b = 0; b < w->block_count; b++)
		w->blocks[b].live_in = live + (size_t)b * words;
	for (uint32_t k = 0; k < w->rpo_count; k++) {
		s.use = use + (size_t)w->rpo[k] * words;
		s.def = def + (size_t)w->rpo[k] * words;
		scan_block(&s, w->rpo[k], note_use, note_def);
	}
	for (uint32_t r = 0; r < w->reg_count; r++)
		if (w->regs[r].global != PTX_NONE)
			w->globals[w->regs[r].global] = r;
	solve(w, use, def, words);
	find_singles(w);
	return 0;
}
