/* SPDX-License-Identifier: MIT
 *
 * Loops of random kernels, and switches.
 */
#include "random_writer.h"

/* for (l = 0; l < bound; l++), with a bound of each thread's own or one for the block. */
void write_loop(struct writer *w, const struct random_node *node, const struct place *p)
{
	bool uniform = node->kind == KIND_UNIFORM_LOOP;
	unsigned label = w->labels, loop = w->loops++, most = random_below(&w->s, 2) ? 3 : 7;
	int lanes = p->mask;

	w->labels += 2;
	fprintf(w->f, "and.b32 %%e%u, %%%c%u, %u; mov.u32 %%l%u, 0;\n", loop, uniform ? 'u' : 'r',
		random_below(&w->s, uniform ? U : R), most, loop);
	if (!uniform && lanes != NO_MASK) {
		lanes = (int)++w->masks;
		fprintf(w->f, "mov.b32 %%m%d, %%m%d;\n", lanes, p->mask);
	}
	struct place in = random_inside(node->kind, p, lanes);
	in.loop_mask = lanes;
	in.loop_end = (int)label + 1;
	in.in_loop = !uniform;
	fprintf(w->f, "L%u:\n{ .reg .pred g; setp.lt.u32 g, %%l%u, %%e%u;\n", label, loop, loop);
	if (!uniform)
		write_vote(w, lanes, "g", lanes);
	fprintf(w->f, "@!g bra L%u; }\nadd.u32 %%l%u, %%l%u, 1;\n", label + 1, loop, loop);
	if (random_below(&w->s, 2))
		fprintf(w->f, "mov.b32 %%r%u, %%l%u;\n", random_below(&w->s, R), loop);
	write_list(w, node->first, &in);
	fprintf(w->f, "bra L%u;\nL%u:\n", label, label + 1);
}

/* for (l = start + tid.x; l < bound; l += step), with numbers of the block, also such as are nearly too large to add. */
void write_strides(struct writer *w, const struct random_node *node, const struct place *p)
{
	static const struct {
		const char *type, *add;
		uint32_t least;
	} forms[] = {{"u32", "u32", 0}, {"s32", "s32", 0}, {"s32", "u32", 0x3fffffc0},
		{"u32", "s32", 0x3ffffff0}, {"s32", "s32", 0x7ffff000}, {"u32", "u32", 0xfffff000},
		{"s32", "u32", 0xffffffc0}};
	unsigned label = w->labels++, loop = w->loops++, end = w->labels++;
	unsigned form =
		random_below(&w->s, random_below(&w->s, 3) ? 2 : COUNT(forms)); /* mostly small */
	bool asks = random_below(&w->s, 4);
	struct place in = random_inside(node->kind, p, NO_MASK);

	fprintf(w->f,
		"mov.u32 %%s%u, %%tid.x; and.b32 %%x%u, %%u%u, 31; and.b32 %%i%u, %%u%u, 127;\n"
		"add.u32 %%y%u, %%x%u, %u; add.u32 %%e%u, %%i%u, %u; and.b32 %%o%u, %%u%u, 31;\n"
		"add.u32 %%z%u, %%o%u, %u;\n",
		loop, loop, random_below(&w->s, U), loop, random_below(&w->s, U), loop, loop,
		forms[form].least, loop, loop, forms[form].least, loop, random_below(&w->s, U),
		loop, loop, random_below(&w->s, 40) + 1);
	fprintf(w->f, "add.%s %%l%u, %%y%u, %%s%u;\n", forms[form].add, loop, loop, loop);
	if (random_below(&w->s, 2))
		fprintf(w->f, "mov.u32 %%c%u, %%linear;\n", loop);
	else
		fprintf(w->f, "mad.lo.u32 %%c%u, %%l%u, %u, %%o%u;\n", loop, loop,
			random_below(&w->s, 9), loop);
	if (random_below(&w->s, 3) == 0) { /* of 64 bits */
		fprintf(w->f,
			"cvt.%s64.%s %%ly%u, %%l%u; cvt.%s64.%s %%ey%u, %%e%u; cvt.u64.u32 %%zy%u, %%z%u;\n",
			forms[form].type[0] == 's' ? "s" : "u", forms[form].type, loop, loop,
			forms[form].type[0] == 's' ? "s" : "u", forms[form].type, loop, loop, loop,
			loop);
		if (asks)
			fprintf(w->f, "setp.ge.s64 %%a%u, %%ly%u, %%ey%u; @%%a%u bra L%u;\n", loop,
				loop, loop, loop, end);
		fprintf(w->f, "L%u:\ncvt.u32.u64 %%v, %%ly%u; xor.b32 %%r%u, %%v, %%r%u;\n", label,
			loop, random_below(&w->s, R), random_below(&w->s, R));
		write_list(w, node->first, &in);
		fprintf(w->f,
			"add.s64 %%ly%u, %%ly%u, %%zy%u; setp.lt.s64 %%b%u, %%ly%u, %%ey%u; @%%b%u bra L%u;\n",
			loop, loop, loop, loop, loop, loop, loop, label);
	} else {
		if (asks)
			fprintf(w->f, "setp.ge.%s %%a%u, %%l%u, %%e%u; @%%a%u bra L%u;\n",
				forms[form].type, loop, loop, loop, loop, end);
		fprintf(w->f, "L%u:\nxor.b32 %%r%u, %%c%u, %%r%u;\n", label, random_below(&w->s, R),
			loop, random_below(&w->s, R));
		if (random_below(&w->s, 2))
			fprintf(w->f, "mov.b32 %%r%u, %%l%u;\n", random_below(&w->s, R), loop);
		write_list(w, node->first, &in);
		fprintf(w->f,
			"add.%s %%n%u, %%l%u, %%z%u; setp.lt.%s %%b%u, %%n%u, %%e%u; add.u32 %%c%u, %%c%u, 3;\n"
			"mov.b32 %%l%u, %%n%u; @%%b%u bra L%u;\n",
			forms[form].add, loop, loop, loop, forms[form].type, loop, loop, loop, loop,
			loop, loop, loop, loop, label);
	}
	fprintf(w->f, "L%u:\n", end);
}

/* Of a round: what it does with the number at [pointer + 4 at]. */
static void write_unrolled_round(struct writer *w, const char *pointer, unsigned how, int at)
{
	fprintf(w->f, "ld.global.b32 v, [%s+%d]; mad.lo.u32 acc, acc, %u, v;\n", pointer, 4 * at,
		3 + (how & 1));
	if (how & 2)
		fprintf(w->f, "{ .reg .b64 a; mul.wide.s32 a, v, 5; xor.b64 wide, wide, a; }\n");
	if (how & 4)
		fprintf(w->f,
			"{ .reg .f32 t; cvt.rn.f32.s32 t, v; fma.rn.f32 f, f, 0f3f000000, t; }\n");
	if (how & 8) /* at a place that was loaded */
		fprintf(w->f,
			"{ .reg .b32 t; .reg .b64 a; and.b32 t, v, 2040; cvt.u64.u32 a, t; add.s64 a, a, %%in;\n"
			"ld.global.s16 t, [a+2]; sub.s32 acc, t, acc; }\n");
}

/* What is wrong with what looks like an unrolled loop. */
enum wrong {
	RIGHT,
	WRONG_PLACE, /* of a number in a round */
	WRONG_OPERATION,
	WRONG_BEGIN, /* of the pointer of the rounds */
	WRONG_REST,
	WRONG_STEP,
	WRONG_GUARD, /* around the rounds */
	WRONG_BOUND, /* none before the loops */
	WRONG_ORDER, /* a bound that is asked for as for another type */
	WRONG_FIRST, /* value, where there is a rest */
	READS_INDEX,
	EARLY_PLACE, /* the pointer of the rounds is made of the index before the rest */
	SEES_COUNT,  /* something else begins with how many are left over */
	WRONGS
};

static void write_rounds(
	struct writer *w, unsigned label, unsigned how, bool counts, char type, enum wrong wrong)
{
	int odd = (int)random_below(&w->s, 4), step = wrong == WRONG_STEP ? 3 : 4;

	if (counts)
		fprintf(w->f,
			"sub.s32 less, lo, hi; setp.gt.u32 pd, less, %d; @pd bra L%u;\nsub.s32 left, hi, i;\n",
			wrong == WRONG_GUARD ? -5 : -4, label + 2);
	else
		fprintf(w->f,
			"not.b32 e, lo; add.s32 less, most, e; setp.lt.u32 pd, less, %d; @pd bra L%u;\n",
			wrong == WRONG_GUARD ? 4 : 3, label + 2);
	if (wrong != EARLY_PLACE)
		fprintf(w->f, "mul.wide.%c32 b, i, 4;\n", type);
	fprintf(w->f, "add.s64 c, b, %d; add.s64 s, base, c;\nL%u:\n",
		wrong == WRONG_BEGIN ? 12 : 8, label + 1);
	for (int k = 0; k < 4; k++)
		write_unrolled_round(w, "s", wrong == WRONG_OPERATION && k == odd ? how ^ 1 : how,
			k - 2 + (wrong == WRONG_PLACE && k == odd));
	fprintf(w->f, "add.s64 s, s, %d;\n", 4 * step);
	if (counts)
		fprintf(w->f,
			"add.s32 left, left, -4; setp.eq.s32 pe, left, 0; @pe bra L%u; bra.uni L%u;\n",
			label + 2, label + 1);
	else
		fprintf(w->f, "add.s32 i, i, %d; setp.lt.%c32 pe, i, hi; @pe bra L%u;\n", step,
			type, label + 1);
}

/* for (i = lo; i < hi; i++) as compilers unroll it: a loop for the up to three that are left over, and rounds of four, which end
 * by a count, as clang has them, or by the index, as nvcc does. Or something that only looks so. */
void write_unrolled(struct writer *w)
{
	static const uint32_t bases[2][3] = {{0, 0, 0x7fffffe0}, {0, 0, 0xffffffe0}};
	enum wrong wrong = random_below(&w->s, 3) ? RIGHT : random_below(&w->s, WRONGS);
	unsigned label = w->labels, how = random_below(&w->s, 16), form = random_below(&w->s, 8);
	bool counts = form & 1 && (wrong < WRONG_REST || wrong > WRONG_ORDER),
	     moves = form & 2 || wrong == SEES_COUNT;
	char type = form & 4 ? 'u' : 's', other = form & 4 ? 's' : 'u';
	bool low = wrong >= WRONG_REST && wrong <= WRONG_ORDER;
	uint32_t base = low ? 0 : bases[type == 'u'][random_below(&w->s, 3)];
	int64_t at = type == 'u' ? (int64_t)base : (int32_t)base;
	const char *counter = moves ? "count" : "rest";

	w->labels += 3;
	fprintf(w->f,
		"{ .reg .pred pa, pb, pc, pd, pe; .reg .b32 lo, hi, n, rest, count, i, left, acc, v, t, d, e, most, less;\n"
		".reg .b64 base, p, s, a, b, c, wide; .reg .f32 f; mov.b64 wide, 0; mov.f32 f, 0f00000000;\n"
		"and.b32 t, %%r%u, 31; add.u32 lo, t, %d; and.b32 t, %%r%u, 15; add.u32 hi, lo, t;\n"
		"sub.s64 base, %%in, %lld; mov.u32 acc, 5;\n",
		random_below(&w->s, R), (int32_t)base, random_below(&w->s, R), (long long)(4 * at));
	if (wrong == READS_INDEX)
		fprintf(w->f, "mov.u32 i, lo;\n");
	if (wrong != WRONG_BOUND)
		fprintf(w->f, "setp.ge.%c32 pa, lo, hi; @pa bra L%u;\n",
			wrong == WRONG_ORDER ? other : type, label + 2);
	if (counts)
		fprintf(w->f, "sub.s32 n, hi, lo;\n");
	else
		fprintf(w->f, "add.s32 d, lo, 1; max.%c32 most, hi, d; sub.s32 n, most, lo;\n",
			type);
	fprintf(w->f,
		"and.b32 rest, n, %d; setp.eq.s32 pb, rest, 0; mov.u32 i, lo; mov.u32 acc, 5;\n",
		wrong == WRONG_REST ? 1 : 3);
	if (wrong == SEES_COUNT)
		fprintf(w->f, "mov.u32 count, rest; add.u32 acc, count, 5;\n");
	if (wrong == EARLY_PLACE)
		fprintf(w->f, "mul.wide.%c32 b, i, 4;\n", type);
	fprintf(w->f, "@pb bra L%u;\nmul.wide.%c32 a, lo, 4; add.s64 p, base, a; mov.u32 i, lo;\n",
		w->labels, type);
	if (wrong != SEES_COUNT)
		fprintf(w->f, "mov.u32 acc, %d;\n", wrong == WRONG_FIRST ? 6 : 5);
	if (moves && wrong != SEES_COUNT)
		fprintf(w->f, "mov.u32 count, rest;\n");
	fprintf(w->f, "L%u:\n", label);
	write_unrolled_round(w, "p", how, 0);
	fprintf(w->f,
		"add.s32 i, i, 1; add.s64 p, p, 4; add.s32 %s, %s, -1; setp.ne.s32 pc, %s, 0; @pc bra L%u;\nL%u:\n",
		counter, counter, counter, label, w->labels);
	w->labels++;
	write_rounds(w, label, how, counts, type, wrong);
	fprintf(w->f,
		"L%u:\nxor.b32 %%r%u, %%r%u, acc; xor.b64 %%d%u, %%d%u, wide; mov.f32 %%f%u, f;\n",
		label + 2, random_below(&w->s, R), random_below(&w->s, R), random_below(&w->s, D),
		random_below(&w->s, D), random_below(&w->s, F));
	if (wrong == READS_INDEX)
		fprintf(w->f, "sub.u32 i, i, lo; xor.b32 %%r%u, %%r%u, i;\n",
			random_below(&w->s, R), random_below(&w->s, R));
	fprintf(w->f, "}\n");
}

void write_two_entries(struct writer *w, const struct random_node *node, const struct place *p)
{
	unsigned label = w->labels, loop = w->loops++;
	struct place in = random_inside(node->kind, p, NO_MASK);
	uint16_t second = node->first ? w->k->nodes[node->first].next : 0;

	w->labels += 2;
	fprintf(w->f, "and.b32 %%e%u, %%r%u, 3; mov.u32 %%l%u, 0;\n@%%p%u bra L%u;\nL%u:\n", loop,
		random_below(&w->s, R), loop, random_below(&w->s, P), label + 1, label);
	write_list(w, node->first, &in);
	fprintf(w->f, "L%u:\n", label + 1);
	write_list(w, second, &in);
	fprintf(w->f, "add.u32 %%l%u, %%l%u, 1; setp.lt.u32 %%q, %%l%u, %%e%u;\n@%%q bra L%u;\n",
		loop, loop, loop, loop, label);
}

/* Each case falls through to the next. */
void write_switch(struct writer *w, const struct random_node *node, const struct place *p)
{
	unsigned label = w->labels;
	struct place in = random_inside(node->kind, p, NO_MASK);
	uint16_t n = node->first;

	w->labels += 5;
	fprintf(w->f,
		"{ .reg .b32 t; and.b32 t, %%r%u, 3;\nT%u: .branchtargets L%u, L%u, L%u, L%u;\n",
		random_below(&w->s, R), label, label, label + 1, label + 2, label + 3);
	fprintf(w->f, "brx.idx t, T%u; }\n", label);
	for (unsigned k = 0; k < 4; k++) {
		fprintf(w->f, "L%u:\n", label + k);
		write_list(w, n, &in);
		n = n ? w->k->nodes[n].next : 0;
		if (random_below(&w->s, 2))
			fprintf(w->f, "bra L%u;\n", label + 4);
	}
	fprintf(w->f, "L%u:\n", label + 4);
}
