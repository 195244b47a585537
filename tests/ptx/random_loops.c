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
	fprintf(w->f, "L%u:\nsetp.lt.u32 %%q, %%l%u, %%e%u;\n", label, loop, loop);
	if (!uniform)
		write_vote(w, lanes, "%q", lanes);
	fprintf(w->f, "@!%%q bra L%u;\nadd.u32 %%l%u, %%l%u, 1;\n", label + 1, loop, loop);
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
