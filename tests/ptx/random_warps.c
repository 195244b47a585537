/* SPDX-License-Identifier: MIT
 *
 * What the lanes of a warp do together in random kernels.
 */
#include "random_writer.h"

static const char *const votes[] = {"all", "any", "uni"};
static const char *const reductions[] = {"add.u32", "add.s32", "min.s32", "min.u32", "max.s32",
	"max.u32", "and.b32", "or.b32", "xor.b32"};

/* A shuffle's value counts only where it comes from a lane that takes part. */
static void write_shuffle(struct writer *w, int mask)
{
	static const char *const modes[] = {"up", "down", "bfly", "idx"};
	unsigned mode = random_below(&w->s, 4), from = random_below(&w->s, R),
		 to = random_below(&w->s, R);
	unsigned n = random_below(&w->s, 32), width = 1u << random_below(&w->s, 6);
	unsigned c = (32 - width) << 8 | (mode ? 31 : 0);

	fprintf(w->f, "setp.eq.u32 %%q, 0, 0; vote.sync.ballot.b32 %%t, %%q, %%m%d;\n", mask);
	fprintf(w->f, "shfl.sync.%s.b32 %%v, %%laneid_, %u, %u, %%m%d;\n", modes[mode], n, c, mask);
	fprintf(w->f, "shfl.sync.%s.b32 %%w|%%q, %%r%u, %u, %u, %%m%d;\n", modes[mode], from, n, c,
		mask);
	/* %v is the source lane's number, if that lane is there: else it is not defined, and taken from nowhere. */
	fprintf(w->f, "{ .reg .b32 a, b, e; .reg .pred g; mov.u32 a, %u;\n", n);
	if (mode == 0)
		fprintf(w->f, "sub.u32 b, %%laneid_, a;\n");
	else if (mode == 1)
		fprintf(w->f, "add.u32 b, %%laneid_, a;\n");
	else if (mode == 2)
		fprintf(w->f, "xor.b32 b, %%laneid_, a;\n");
	else
		fprintf(w->f, "and.b32 b, %%laneid_, %u; and.b32 e, a, %u; or.b32 b, b, e;\n",
			32 - width, width - 1);
	fprintf(w->f,
		"shr.u32 e, %%t, b; and.b32 e, e, 1; setp.eq.and.u32 g, e, 1, %%q;\n"
		"add.u32 %%w, %%w, %%v; selp.b32 %%r%u, %%w, b, g; }\n",
		to);
}

enum meeting {
	MEET_BALLOT,
	MEET_VOTE,
	MEET_REDUX,
	MEET_MATCH,
	MEET_SHUFFLE,
	MEET_BARRIER,
	MEETINGS
};

/* What one side of a branch brings to a collective, and takes from it. %v is the side's own number, %w the mask's first lane. */
static void write_side(struct writer *w, enum meeting what, unsigned which, int mask)
{
	unsigned to = random_below(&w->s, R), p = random_below(&w->s, P);

	fprintf(w->f, "mad.lo.u32 %%v, %%r%u, %u, %u;\n", random_below(&w->s, R),
		random_below(&w->s, 9), random_below(&w->s, 1000));
	switch (what) {
	case MEET_BALLOT:
		fprintf(w->f, "vote.sync.ballot.b32 %%r%u, %s%%p%u, %%m%d;\n", to,
			random_below(&w->s, 2) ? "!" : "", p, mask);
		break;
	case MEET_VOTE:
		fprintf(w->f, "vote.sync.%s.pred %%p%u, %%p%u, %%m%d;\n", votes[which % 3],
			random_below(&w->s, P), p, mask);
		break;
	case MEET_REDUX:
		fprintf(w->f, "redux.sync.%s %%r%u, %%v, %%m%d;\n", reductions[which % 9], to,
			mask);
		break;
	case MEET_MATCH:
		fprintf(w->f, "and.b32 %%v, %%v, 3; match.%s.sync.b32 %%r%u, %%v, %%m%d;\n",
			which % 2 ? "any" : "all", to, mask);
		break;
	case MEET_SHUFFLE:
		fprintf(w->f, "shfl.sync.idx.b32 %%r%u%s, %%v, %%w, 31, %%m%d;\n", to,
			random_below(&w->s, 2) ? "|%q" : "", mask);
		break;
	default: /* what another lane has left */
		fprintf(w->f, "bar.warp.sync %%m%d; st.shared.b32 [%%t], %%v;\n", mask);
		fprintf(w->f, "bar.warp.sync %%m%d; ld.shared.b32 %%r%u, [%%first];\n", mask, to);
	}
}

/* The sides of a branch have collectives of their own, which meet. */
static void write_meeting(struct writer *w, int mask)
{
	unsigned label = w->labels, sides = 2 + random_below(&w->s, 2),
		 rounds = 1 + random_below(&w->s, 3);
	uint64_t kinds = random_draw(&w->s);

	w->labels += 3;
	fprintf(w->f,
		"brev.b32 %%w, %%m%d; clz.b32 %%w, %%w; mov.u32 %%v, meets;\n"
		"shl.b32 %%t, %%linear, 2; add.u32 %%t, %%t, %%v; and.b32 %%first, %%linear, -32;\n"
		"add.u32 %%first, %%first, %%w; shl.b32 %%first, %%first, 2; add.u32 %%first, %%first, %%v;\n",
		mask);
	fprintf(w->f, "@%%p%u bra L%u;\n", random_below(&w->s, P), label);
	if (sides == 3)
		fprintf(w->f, "@%%p%u bra L%u;\n", random_below(&w->s, P), label + 1);
	for (unsigned side = 0; side < sides; side++) {
		if (side)
			fprintf(w->f, "bra L%u;\nL%u:\n", label + 2, label + side - 1);
		for (unsigned k = 0; k < rounds; k++)
			write_side(w, (kinds >> 8 * k & 0xff) % MEETINGS,
				kinds >> (8 * k + 4) & 0xf, mask);
	}
	fprintf(w->f, "L%u:\nbar.warp.sync %%m%d;\n", label + 2, mask);
}

void write_collective(struct writer *w, const struct place *p)
{
	unsigned how = random_below(&w->s, 10), from = random_below(&w->s, R),
		 to = random_below(&w->s, R), n = random_below(&w->s, P);

	if (how >= 8)
		write_meeting(w, p->mask);
	else if (how < 3)
		write_shuffle(w, p->mask);
	else if (how == 3)
		fprintf(w->f, "vote.sync.ballot.b32 %%r%u, %%p%u, %%m%d;\n", to, n, p->mask);
	else if (how == 4)
		fprintf(w->f, "vote.sync.%s.pred %%p%u, %%p%u, %%m%d;\n",
			votes[random_below(&w->s, 3)], random_below(&w->s, P), n, p->mask);
	else if (how == 5)
		fprintf(w->f, "redux.sync.%s %%r%u, %%r%u, %%m%d;\n",
			reductions[random_below(&w->s, 9)], to, from, p->mask);
	else if (how == 6)
		fprintf(w->f, "and.b32 %%t, %%r%u, 3; match.any.sync.b32 %%r%u, %%t, %%m%d;\n",
			from, to, p->mask);
	else
		fprintf(w->f,
			"bar.warp.sync %%m%d;\nmatch.all.sync.b64 %%r%u|%%p%u, %%d%u, %%m%d;\n",
			p->mask, to, n, random_below(&w->s, D), p->mask);
}
