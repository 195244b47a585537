/* SPDX-License-Identifier: MIT
 *
 * Draws kernels and writes them. How the threads agree whatever their order: each writes memory of its own; what is
 * written by several is added to with operations that commute, and read when all have left; shared memory is exchanged
 * between barriers in code that all threads run; a collective's mask is voted on by exactly those who will come to it.
 */
#include "random_kernel.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "random_rows.h"
#include "random_writer.h"

uint64_t random_draw(uint64_t *state)
{
	*state += 0x9e3779b97f4a7c15ull;
	uint64_t z = *state;
	z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9ull;
	z = (z ^ z >> 27) * 0x94d049bb133111ebull;
	return z ^ z >> 31;
}

uint32_t random_below(uint64_t *state, uint32_t n)
{
	return (uint32_t)(random_draw(state) % n);
}

/* ---- the tree ---- */

static unsigned pick_kind(const struct random_kernel *k, uint64_t *s, const struct place *p)
{
	bool barriers = p->all && k->features & RANDOM_BARRIERS, deeper = p->depth < MOST_DEPTH;
	unsigned n = random_below(s, 100);

	if (n < 4 && barriers)
		return KIND_EXCHANGE;
	if (n < 5 && barriers)
		return KIND_BLOCK_REDUCTION;
	if (n < 7 && p->all && k->features & RANDOM_DIVERGENT_BARRIERS)
		return n < 6 ? KIND_DIVERGENT_BARRIER : KIND_MBARRIER;
	if (n < 8 && k->features & RANDOM_EXITS)
		return KIND_EXIT;
	if (n < 14 && p->mask != NO_MASK)
		return KIND_COLLECTIVE;
	if (n < 20 && deeper)
		return KIND_IF;
	if (n < 26 && deeper)
		return KIND_LOOP;
	if (n < 30 && deeper && p->all)
		return KIND_UNIFORM_LOOP;
	if (n < 33 && deeper && p->all)
		return KIND_UNIFORM_IF;
	if (n < 34 && deeper)
		return KIND_TWO_ENTRIES;
	if (n < 35 && deeper)
		return KIND_SWITCH;
	if (n < 37 && deeper)
		return KIND_STRIDES;
	if (n < 38 && p->in_loop)
		return KIND_BREAK;
	if (n < 42 && p->all)
		return KIND_UNIFORM_ROW;
	if (n < 48 && p->all)
		return KIND_INDEX_GUARDS;
	return n < 50 ? KIND_UNROLLED : KIND_ROW;
}

/* The most times that what is in one of this kind is run. */
static unsigned most_rounds(unsigned kind)
{
	static const unsigned rounds[] = {[KIND_LOOP] = 8,
		[KIND_UNIFORM_LOOP] = 8,
		[KIND_TWO_ENTRIES] = 4,
		[KIND_STRIDES] = 128};

	return kind < COUNT(rounds) && rounds[kind] ? rounds[kind] : 1;
}

/* Where the statements inside one of this kind stand; masks are registers that the writer names. */
struct place random_inside(unsigned kind, const struct place *p, int mask)
{
	struct place in = *p;

	in.depth++;
	in.rounds *= most_rounds(kind);
	in.mask = mask;
	if (kind == KIND_UNIFORM_LOOP || kind == KIND_UNIFORM_IF)
		return in;
	in.all = false;
	in.in_loop = kind == KIND_LOOP;
	if (kind == KIND_TWO_ENTRIES || kind == KIND_SWITCH || kind == KIND_STRIDES)
		in.mask = NO_MASK;
	return in;
}

/* Returns where the number of the statement behind it goes. */
static uint16_t *add_node(struct random_kernel *k, uint64_t *s, uint16_t *link, unsigned kind)
{
	struct random_node *node = &k->nodes[k->node_count];

	*link = (uint16_t)k->node_count++;
	*node = (struct random_node){.kind = (uint8_t)kind, .seed = random_draw(s)};
	return &node->next;
}

static unsigned pick_meeting(const struct random_kernel *k, uint64_t *s, const struct place *p)
{
	unsigned n = random_below(s, 4);

	if (p->all && k->features & RANDOM_BARRIERS && (n < 3 || p->mask == NO_MASK))
		return n ? KIND_EXCHANGE : KIND_BLOCK_REDUCTION;
	return p->mask != NO_MASK ? KIND_COLLECTIVE : KIND_ROW;
}

/* A branch that is the same for all, with threads that leave on one side or both; behind it what the others do together. */
static uint16_t *draw_leaving(
	struct random_kernel *k, uint64_t *s, const struct place *p, uint16_t *link)
{
	struct place in = random_inside(KIND_UNIFORM_IF, p, p->mask);
	uint16_t *inside = &k->nodes[k->node_count].first;

	link = add_node(k, s, link, KIND_UNIFORM_IF);
	for (unsigned n = 0; n < 5; n++) { /* the third is on both sides: write_if() */
		unsigned how = random_below(s, 8);

		if (how == 0 && in.depth < MOST_DEPTH)
			inside = draw_leaving(k, s, &in, inside);
		else
			inside = add_node(k, s, inside, n == 2 || how < 3 ? KIND_RETURN : KIND_ROW);
	}
	return add_node(k, s, link, pick_meeting(k, s, p));
}

/* Draws a list of statements: returns its first, or 0. */
static uint16_t draw_list(
	struct random_kernel *k, uint64_t *s, const struct place *p, unsigned count)
{
	uint16_t first = 0, *link = &first;

	while (count-- && k->node_count < RANDOM_NODES) {
		if (k->node_count == k->leaving) {
			link = draw_leaving(k, s, p, link);
			continue;
		}
		struct random_node *node = &k->nodes[k->node_count];
		unsigned kind = pick_kind(k, s, p);

		if (p->rounds * most_rounds(kind) > MOST_ROUNDS)
			kind = KIND_ROW; /* the interpreter is slow */
		link = add_node(k, s, link, kind);
		if (node->kind >= KIND_IF && node->kind <= KIND_SWITCH) {
			struct place in = random_inside(node->kind, p, p->mask);

			node->first = draw_list(k, s, &in, 2 + random_below(s, 5));
		}
	}
	return first;
}

void random_kernel_draw(struct random_kernel *k, uint64_t seed, unsigned features)
{
	static const uint32_t shapes[][3] = {{1, 1, 1}, {7, 1, 1}, {32, 1, 1}, {33, 1, 1},
		{64, 1, 1}, {8, 4, 1}, {5, 3, 3}, {16, 2, 2}, {96, 1, 1}, {128, 1, 1}, {16, 16, 1},
		{1, 37, 1}};
	uint64_t n = seed, s = random_draw(&n); /* neighbours have nothing in common */
	struct place top = {.all = true, .mask = NO_MASK, .rounds = 1};
	bool plain = seed % 3 == 0; /* so that the compiler need not schedule its threads */

	memset(k, 0, sizeof(*k));
	k->seed = seed;
	k->features = features;
	if (plain)
		k->features &= RANDOM_BARRIERS;
	k->node_count = 1; /* 0 ends lists */
	memcpy(k->block, shapes[random_below(&s, COUNT(shapes))], sizeof(k->block));
	k->grid = 1 + random_below(&s, 3);
	k->large = seed % 50 == 0;
	if (seed % 4 == 3 && features & RANDOM_EXITS)
		k->leaving = 1 + random_below(&n, plain ? 4 : 12);
	if (k->features & RANDOM_COLLECTIVES)
		top.mask = ALL_LANES;
	k->nodes[0].first =
		draw_list(k, &s, &top, plain ? 3 + random_below(&s, 6) : 8 + random_below(&s, 24));
}

void random_kernel_input(const struct random_kernel *k, uint64_t input[RANDOM_INPUT / 8])
{
	static const uint64_t edges[] = {0, 1, UINT64_MAX, 0x80000000, 0x7fffffff,
		0x8000000000000000, 0x7fffffffffffffff, 0x7fc000007f800000, 0x3f800000bf800000,
		0x7ff0000000000000, 0x3ff0000000000000, 0x0000000180000000, 0x3c00fbff7c000001,
		0x42c8000000800000};
	uint64_t s = ~k->seed;

	for (unsigned n = 0; n < RANDOM_INPUT / 8; n++) {
		uint64_t v = random_draw(&s);

		input[n] = v % 3 ? v : v % 2 ? edges[v >> 8 & 7] ^ (v >> 60) : v >> (v >> 32 & 63);
		if (v % 7 == 0)
			input[n] = edges[(v >> 8) % COUNT(edges)];
	}
}

/* ---- writing ---- */

static void write_number(struct writer *w)
{
	static const char *const numbers[] = {"0", "1", "-1", "2", "7", "31", "32", "100", "255",
		"-128", "0x7fff", "0x8000", "0xffff", "0x7fffffff", "0x80000000", "-1000000007"};

	fputs(numbers[random_below(&w->s, COUNT(numbers))], w->f);
}

static void write_float(struct writer *w, bool wide)
{
	static const char *const numbers[][2] = {{"0f00000000", "0d0000000000000000"},
		{"0f80000000", "0d8000000000000000"}, {"0f3f800000", "0d3ff0000000000000"},
		{"0fbfc00000", "0dbff8000000000000"}, {"0f7f800000", "0d7ff0000000000000"},
		{"0f7fc00000", "0d7ff8000000000000"}, {"0f00000001", "0d0000000000000001"},
		{"0f7f7fffff", "0d7fefffffffffffff"}, {"0f4f000000", "0d41e0000000000000"},
		{"0f3eaaaaab", "0d3fd5555555555555"}};

	fputs(numbers[random_below(&w->s, COUNT(numbers))][wide], w->f);
}

/* A register of the class: those written in one row differ. */
static void write_register(struct writer *w, char class, unsigned *written)
{
	static const struct {
		char class, name[3];
		uint8_t count;
	} classes[] = {{'H', "h", H}, {'R', "r", R}, {'D', "d", D}, {'F', "f", F}, {'G', "g", G},
		{'P', "p", P}, {'U', "u", U}};
	bool read = class >= 'a';

	for (size_t c = 0; c < COUNT(classes); c++) {
		if (classes[c].class != (read ? class - 32 : class))
			continue;
		unsigned n = read ? random_below(&w->s, classes[c].count)
				  : (*written)++ % classes[c].count;

		fprintf(w->f, "%%%s%u", classes[c].name, n);
	}
}

static void write_slot(struct writer *w, char class, unsigned *written)
{
	bool number = random_below(&w->s, 5) == 0;

	/* NVIDIA's compiler computes a bit field otherwise than the instruction does where a number is beyond its end. */
	if ((class == 's' || class == 'w') && random_below(&w->s, 2))
		fprintf(w->f, "%u", random_below(&w->s, 70) % (class == 'w' ? 32 : 70));
	else if (class == 'i')
		fprintf(w->f, "%u", random_below(&w->s, 256));
	else if (number && (class == 'h' || class == 'r' || class == 'd' || class == 'u'))
		write_number(w);
	else if (class == 'o')
		write_register(w, 'h', written);
	else if (number && (class == 'f' || class == 'g'))
		write_float(w, class == 'g');
	else
		write_register(w, class == 's' || class == 'w' ? 'r' : class, written);
}

/* Copies one of <a|b> and leaves `at` behind the '>'. */
static void choose(struct writer *w, const char **at, char *out, size_t size)
{
	const char *begin = *at + 1, *end = strchr(begin, '>'), *p = begin;
	unsigned count = 1, take;

	for (const char *c = begin; c < end; c++)
		count += *c == '|';
	for (take = random_below(&w->s, count); take; take--)
		p = strchr(p, '|') + 1;
	snprintf(out, size, "%.*s", (int)strcspn(p, "|>"), p);
	*at = end + 1;
}

/* NVIDIA's compiler lets these write where their guard says no: a set takes what its destination holds for an integer, and
 * converts it. As it makes guards of branches, they stand only where all threads come. */
static bool changes_when_skipped(const char *text)
{
	return !strncmp(text, "testp", 5) ||
	       (!strncmp(text, "set.", 4) && strstr(text, ".f32.f32"));
}

static void write_row(struct writer *w, const char *row, const struct place *p, bool may_guard)
{
	char text[512];
	size_t n = 0;
	unsigned written = random_below(&w->s, 64);

	while (*row && n < sizeof(text) - 64) {
		if (*row == '<') {
			choose(w, &row, text + n, sizeof(text) - n);
			n += strlen(text + n);
		} else {
			text[n++] = *row++;
		}
	}
	text[n] = 0;
	if (changes_when_skipped(text) && p->depth)
		return;
	if (may_guard && random_below(&w->s, 6) == 0 && strchr(text, ';') == text + n - 1 &&
		!changes_when_skipped(text))
		fprintf(w->f, "@%s%%p%u ", random_below(&w->s, 2) ? "!" : "",
			random_below(&w->s, P));
	for (const char *c = text; *c; c++)
		if (*c == '$')
			write_slot(w, *++c, &written);
		else
			fputc(*c, w->f);
	fputc('\n', w->f);
}

int write_vote(struct writer *w, int mask, const char *predicate, int into)
{
	if (mask == NO_MASK)
		return NO_MASK;
	if (into == NO_MASK)
		into = (int)++w->masks;
	fprintf(w->f, "vote.sync.ballot.b32 %%m%d, %s, %%m%d;\n", into, predicate, mask);
	return into;
}

/* Opens a block with a predicate g of its own: how the thread's index along an axis compares with a number of the block. */
static void write_index_test(struct writer *w)
{
	static const char *const orders[] = {"lt", "le", "gt", "ge", "eq", "ne"};
	bool swapped = random_below(&w->s, 2);

	fprintf(w->f, "{ .reg .pred g; .reg .b32 i, n; mov.u32 i, %%tid.%c; mov.b32 n, ",
		"xxyz"[random_below(&w->s, 4)]);
	if (random_below(&w->s, 2))
		fprintf(w->f, "%%u%u", random_below(&w->s, U));
	else
		fprintf(w->f, "%d", (int)random_below(&w->s, 36) - 2);
	fprintf(w->f, "; setp.%s.%c32 g, %s; and.pred %%q, g, g;\n", orders[random_below(&w->s, 6)],
		"us"[random_below(&w->s, 2)], swapped ? "n, i" : "i, n");
}

/* One in another: each thread works on memory of its own. */
static void write_index_guards(struct writer *w)
{
	unsigned label = w->labels, r = random_below(&w->s, R);

	w->labels += 2;
	write_index_test(w);
	fprintf(w->f,
		"@!g bra L%u; }\nld.global.b32 %%v, [%%own+52]; mad.lo.u32 %%v, %%v, 3, %%r%u;\n",
		label, r);
	fprintf(w->f, "st.global.b32 [%%own+52], %%v;\n");
	write_index_test(w);
	fprintf(w->f, "@%sg bra L%u; }\n", random_below(&w->s, 2) ? "!" : "", label + 1);
	fprintf(w->f,
		"ld.global.b32 %%v, [%%own+56]; add.u32 %%v, %%v, %%u1; st.global.b32 [%%own+56], %%v;\n");
	fprintf(w->f, "L%u:\nL%u:\nld.global.b32 %%r%u, [%%own+52];\n", label + 1, label, r);
}

static void write_if(struct writer *w, const struct random_node *node, const struct place *p)
{
	bool uniform = node->kind == KIND_UNIFORM_IF, both = random_below(&w->s, 2);
	bool by_index = !uniform && random_below(&w->s, 3) == 0;
	unsigned label = w->labels, predicate = random_below(&w->s, P),
		 bound = random_below(&w->s, 40);
	const struct random_node *nodes = w->k->nodes;

	w->labels += 2;
	if (uniform)
		fprintf(w->f, "{ .reg .pred g; setp.lt.u32 g, %%u%u, %%u%u;\n", bound % U,
			bound / 10);
	else if (by_index)
		write_index_test(w);
	else
		fprintf(w->f, "and.pred %%q, %%p%u, %%p%u;\n", predicate, predicate);
	int mask = uniform ? p->mask : write_vote(w, p->mask, "%q", NO_MASK);
	struct place in = random_inside(node->kind, p, mask), other = in;
	if (mask != NO_MASK && !uniform && both) {
		other.mask = (int)++w->masks;
		fprintf(w->f, "not.b32 %%m%d, %%m%d; and.b32 %%m%d, %%m%d, %%m%d;\n", other.mask,
			mask, other.mask, other.mask, p->mask);
	}
	if (by_index)
		fprintf(w->f, "@!g bra L%u; }\nld.global.b32 %%v, [%%in];\n", label);
	else
		fprintf(w->f, uniform ? "@!g bra L%u; }\n" : "@!%%q bra L%u;\n", label);
	uint16_t second = node->first;
	for (unsigned k = 0; both && k < 2 && second; k++)
		second = nodes[second].next;
	write_list(w, node->first, &in);
	if (both)
		fprintf(w->f, "bra L%u;\nL%u:\n", label + 1, label);
	if (both)
		write_list(w, second, &other);
	fprintf(w->f, "L%u:\n", both ? label + 1 : label);
}

/* A break, or an exit: those who stay agree on who they are. */
static void write_leave(struct writer *w, const struct random_node *node, const struct place *p)
{
	unsigned predicate = random_below(&w->s, P);
	bool leaves = node->kind == KIND_EXIT;

	fprintf(w->f, "not.pred %%q, %%p%u;\n", predicate);
	write_vote(w, p->mask, "%q", p->mask == ALL_LANES ? NO_MASK : p->mask);
	if (leaves)
		fprintf(w->f, "@!%%q exit;\n");
	else
		fprintf(w->f, "@!%%q bra L%d;\n", p->loop_end);
}

/* Of a kernel all returns are written alike: structured plans fit those that have one end, or none in common. */
static void write_return(struct writer *w, const struct place *p)
{
	unsigned how = random_below(&w->s, 4);

	fprintf(w->f, "{ .reg .pred g; .reg .b32 i; ");
	if (how == 0)
		fprintf(w->f, "not.pred g, %%p%u;\n", random_below(&w->s, P));
	else if (how == 1)
		fprintf(w->f, "mov.u32 i, %%tid.x; setp.lt.u32 g, i, %u;\n",
			1 + random_below(&w->s, w->k->block[0]));
	else
		fprintf(w->f, "and.b32 i, %%linear, 7; setp.ne.u32 g, i, %u;\n",
			random_below(&w->s, 8));
	if (p->mask != ALL_LANES)
		write_vote(w, p->mask, "g", p->mask);
	fprintf(w->f, "@!g %s; }\n", w->k->leaving & 1 ? "ret" : "bra LEFT");
}

/* One load of what some threads have in shared memory, at %t, others in the input, and some not at all. */
static void write_two_spaces(struct writer *w, bool wide, unsigned to)
{
	unsigned label = w->labels;

	w->labels += 3;
	fprintf(w->f,
		"{ .reg .b64 a, b, c; .reg .pred g; setp.lt.u32 g, %%linear, %u; @g bra L%u;\n"
		"cvt.u64.u32 a, %%t; cvta.shared.u64 c, a; bra L%u;\nL%u:\n",
		random_below(&w->s, 40), label, label + 1, label);
	if (random_below(&w->s, 2))
		fprintf(w->f, "@%%p%u bra L%u;\n", random_below(&w->s, P), label + 2);
	fprintf(w->f, "mad.wide.u32 b, %%linear, 8, %%in; cvta.global.u64 c, b;\nL%u:\n",
		label + 1);
	fprintf(w->f, "ld.b%u %%%c%u, [c];\n", wide ? 64 : 32, wide ? 'd' : 'r', to);
	if (random_below(&w->s, 3) == 0)
		fprintf(w->f, "ld.u16 %%h%u, [c+2];\n", random_below(&w->s, H));
	fprintf(w->f, "L%u: }\n", label + 2);
}

static void write_exchange(struct writer *w)
{
	bool wide = random_below(&w->s, 2);
	const char *barrier = random_below(&w->s, 3) ? "bar.sync" : "barrier.sync";
	unsigned id = random_below(&w->s, 3), from = random_below(&w->s, R),
		 to = random_below(&w->s, wide ? D : R);
	unsigned value = random_below(&w->s, wide ? D : R);

	fprintf(w->f, "%s %u;\nst.shared.b%u [%%slot], %%%c%u;\n%s %u;\n", barrier, id,
		wide ? 64 : 32, wide ? 'd' : 'r', value, barrier, id);
	if (random_below(&w->s, 2)) /* any thread's, else that of the one opposite */
		fprintf(w->f, "rem.u32 %%t, %%r%u, %%threads;\n", from);
	else
		fprintf(w->f, "sub.u32 %%t, %%threads, %%linear; sub.u32 %%t, %%t, 1;\n");
	fprintf(w->f, "shl.b32 %%t, %%t, 3; mov.u32 %%v, slots; add.u32 %%t, %%t, %%v;\n");
	if (random_below(&w->s, 2))
		write_two_spaces(w, wide, to);
	else
		fprintf(w->f, "ld.shared.b%u %%%c%u, [%%t];\n", wide ? 64 : 32, wide ? 'd' : 'r',
			to);
}

static void write_block_reduction(struct writer *w, const char *barrier)
{
	unsigned how = random_below(&w->s, 3), p = random_below(&w->s, P),
		 to = random_below(&w->s, P);

	if (how == 0)
		fprintf(w->f, "%s.popc.u32 %%r%u, 1, %%p%u;\n", barrier, to, p);
	else
		fprintf(w->f, "%s.%s.pred %%p%u, 1, %%p%u;\n", barrier, how == 1 ? "and" : "or", to,
			p);
}

/* Reads what the thread opposite has left. */
static void write_opposite(struct writer *w, unsigned to)
{
	fprintf(w->f,
		"sub.u32 %%t, %%threads, %%linear; sub.u32 %%t, %%t, 1; shl.b32 %%t, %%t, 3;\n"
		"mov.u32 %%v, slots; add.u32 %%t, %%t, %%v; ld.shared.b32 %%r%u, [%%t];\n",
		to);
}

/* Whether no thread leaves before the end. */
static bool may_wait(const struct random_kernel *k)
{
	for (unsigned n = 1; n < k->node_count; n++)
		if (k->nodes[n].kind == KIND_EXIT || k->nodes[n].kind == KIND_RETURN)
			return false;
	return true;
}

/* The two sides of a branch wait at barriers of their own, with one number, which may reduce what both bring; or one side goes on when it has come: whole
 * warps, as hardware waits for ever where a part of one does. */
static void write_divergent_barrier(struct writer *w)
{
	unsigned label = w->labels, p = random_below(&w->s, P), r = random_below(&w->s, R);
	unsigned how = random_below(&w->s, 3), to = random_below(&w->s, R);
	bool reduces = random_below(&w->s, 3) == 0;
	const uint32_t *block = w->k->block;
	char barrier[24] = " 2";

	w->labels += 2;
	if (how == 2 && may_wait(w->k))
		snprintf(barrier, sizeof(barrier), " 3, %u",
			(block[0] * block[1] * block[2] + 31) / 32 * 32);
	else if (how == 2)
		how = 1;
	if (how)
		fprintf(w->f, "barrier.sync 2;\nst.shared.b32 [%%slot], %%r%u;\n", r);
	if (how == 2)
		fprintf(w->f, "and.b32 %%t, %%linear, 32; setp.ne.u32 %%p%u, %%t, 0;\n", p);
	fprintf(w->f, "@%%p%u bra L%u;\nadd.u32 %%r%u, %%r%u, 1;\n", p, label, r, r);
	if (how)
		fprintf(w->f, "st.shared.b32 [%%slot], %%r%u;\n", r);
	if (how < 2 && reduces)
		write_block_reduction(w, "barrier.red");
	else
		fprintf(w->f, "barrier.%s%s;\n", how == 2 ? "arrive" : "sync", barrier);
	if (how == 1)
		write_opposite(w, to);
	fprintf(w->f, "bra L%u;\nL%u:\nmul.lo.u32 %%r%u, %%r%u, 5;\n", label + 1, label, r, r);
	if (how == 1)
		fprintf(w->f, "st.shared.b32 [%%slot], %%r%u;\n", r);
	if (how < 2 && reduces)
		write_block_reduction(w, "barrier.red");
	else
		fprintf(w->f, "barrier.sync%s;\n", barrier);
	if (how)
		write_opposite(w, to);
	fprintf(w->f, "L%u:\n", label + 1);
}

/* All threads come, and some wait for that: those that the others leave something for. */
static void write_mbarrier(struct writer *w)
{
	static const char *const waits[] = {"test_wait.shared.b64", "try_wait.shared::cta.b64",
		"try_wait.acquire.cta.shared.b64"};
	unsigned label = w->labels, p = random_below(&w->s, P), r = random_below(&w->s, R);
	unsigned to = random_below(&w->s, R), how = random_below(&w->s, 4);

	w->labels += 2;
	fprintf(w->f,
		"barrier.sync 2;\nst.shared.b32 [%%slot], %%r%u;\n{ .reg .b64 s; .reg .pred w;\n",
		r);
	if (how == 0) /* an arrival that expects bytes, which come */
		fprintf(w->f, "mbarrier.arrive.expect_tx.shared.b64 s, [mbar], 16;\n"
			      "mbarrier.complete_tx.relaxed.cta.shared.b64 [mbar], 16;\n");
	else if (how == 1) /* some go on */
		fprintf(w->f, "mbarrier.arrive.shared.b64 s, [mbar];\n@%%p%u bra L%u;\n", p,
			label + 1);
	else
		fprintf(w->f, "mbarrier.arrive.shared.b64 s, [mbar];\n");
	fprintf(w->f, "L%u:\nmbarrier.%s w, [mbar], s;\n@!w bra L%u; }\n", label,
		waits[random_below(&w->s, 3)], label);
	write_opposite(w, to);
	fprintf(w->f, "L%u:\n", label + 1);
}

static void write_node(struct writer *w, const struct random_node *node, const struct place *p)
{
	w->s = node->seed;
	switch (node->kind) {
	case KIND_ROW:
		write_row(w, random_rows[random_below(&w->s, COUNT(random_rows))], p, true);
		break;
	case KIND_UNIFORM_ROW:
		write_row(w, random_uniform_rows[random_below(&w->s, COUNT(random_uniform_rows))],
			p, false);
		break;
	case KIND_IF:
	case KIND_UNIFORM_IF:
		write_if(w, node, p);
		break;
	case KIND_LOOP:
	case KIND_UNIFORM_LOOP:
		write_loop(w, node, p);
		break;
	case KIND_STRIDES:
		write_strides(w, node, p);
		break;
	case KIND_TWO_ENTRIES:
		write_two_entries(w, node, p);
		break;
	case KIND_SWITCH:
		write_switch(w, node, p);
		break;
	case KIND_BREAK:
	case KIND_EXIT:
		write_leave(w, node, p);
		break;
	case KIND_RETURN:
		write_return(w, p);
		break;
	case KIND_EXCHANGE:
		write_exchange(w);
		break;
	case KIND_DIVERGENT_BARRIER:
		write_divergent_barrier(w);
		break;
	case KIND_MBARRIER:
		if (may_wait(w->k))
			write_mbarrier(w);
		else
			write_divergent_barrier(w);
		break;
	case KIND_COLLECTIVE:
		write_collective(w, p);
		break;
	case KIND_BLOCK_REDUCTION:
		write_block_reduction(w, "bar.red");
		break;
	case KIND_INDEX_GUARDS:
		write_index_guards(w);
		break;
	case KIND_UNROLLED:
		write_unrolled(w);
		break;
	}
}

void write_list(struct writer *w, uint16_t first, const struct place *p)
{
	for (uint16_t n = first; n; n = w->k->nodes[n].next)
		if (!w->k->nodes[n].dropped)
			write_node(w, &w->k->nodes[n], p);
}

static void write_head(FILE *f, const struct random_kernel *k)
{
	uint32_t threads = k->block[0] * k->block[1] * k->block[2];

	fprintf(f,
		".version 8.7\n.target sm_90\n.address_size 64\n"
		".visible .entry k(.param .u64 in, .param .u64 out, .param .u32 n)\n{\n"
		".reg .b16 %%h<%u>; .reg .b32 %%r<%u>; .reg .b64 %%d<%u>; .reg .f32 %%f<%u>;\n"
		".reg .f64 %%g<%u>; .reg .pred %%p<%u>; .reg .b32 %%u<%u>; .reg .b64 %%in, %%out, %%own, %%counters;\n"
		".reg .b32 %%t, %%v, %%w, %%linear, %%threads, %%slot, %%laneid_, %%first; .reg .pred %%q;\n"
		".reg .b32 %%m<400>, %%l<200>, %%e<200>, %%s<200>, %%x<200>, %%y<200>, %%z<200>, %%c<200>, %%n<200>, %%i<200>, %%o<200>;\n"
		".reg .b64 %%ly<200>, %%ey<200>, %%zy<200>; .reg .pred %%a<200>, %%b<200>;\n"
		".local .align 16 .b8 lm[64]; .shared .align 8 .b8 slots[%u]; .shared .align 16 .b32 counts[8]; .shared .b64 mbar;\n"
		".shared .b32 meets[%u];\n",
		H, R, D, F, G, P, U, threads * 8, threads);
	fprintf(f,
		"ld.param.u64 %%in, [in]; ld.param.u64 %%out, [out]; ld.param.u32 %%u0, [n];\n"
		"mov.u32 %%laneid_, %%laneid; mov.u32 %%t, %%tid.y; mov.u32 %%v, %%tid.z; mov.u32 %%w, %%ntid.y;\n"
		"mad.lo.u32 %%t, %%v, %%w, %%t; mov.u32 %%v, %%ntid.x; mov.u32 %%w, %%tid.x;\n"
		"mad.lo.u32 %%linear, %%t, %%v, %%w; mov.u32 %%threads, %u; shl.b32 %%t, %%linear, 3;\n"
		"mov.u32 %%slot, slots; add.u32 %%slot, %%slot, %%t; mov.u32 %%m0, -1;\n"
		"mov.u32 %%t, %%ctaid.x; mad.lo.u32 %%t, %%t, %%threads, %%linear;\n"
		"mad.wide.u32 %%own, %%t, %u, %%out; mov.u32 %%v, %%nctaid.x; mul.lo.u32 %%v, %%v, %%threads;\n"
		"mad.wide.u32 %%counters, %%v, %u, %%out;\n",
		threads, RANDOM_OWN, RANDOM_OWN);
	fprintf(f,
		"mov.u32 %%u1, %%ctaid.x; mov.u32 %%u2, 5; mov.u32 %%u3, %%ntid.x;\n"
		"st.shared.b64 [%%slot], 0; setp.eq.u32 %%q, %%linear, 0;\n"
		"shl.b32 %%t, %%linear, 2; mov.u32 %%v, meets; add.u32 %%t, %%t, %%v; st.shared.b32 [%%t], 0;\n"
		"mov.b32 %%v, 0; mov.b32 %%w, -1; @%%q st.shared.v4.b32 [counts], {%%v, %%w, %%v, %%v};\n"
		"@%%q st.shared.v4.b32 [counts+16], {%%v, %%w, %%v, %%v};\n"
		"@%%q mbarrier.init.shared.b64 [mbar], %%threads;\nbar.sync 0;\n");
}

/* Registers begin with input that each thread picks elsewhere; some with what follows from its number alone. */
static void write_first_values(FILE *f)
{
	fprintf(f, "{ .reg .b32 t; .reg .b64 a;\n");
	for (unsigned n = 0; n < D; n++)
		fprintf(f,
			"mad.lo.u32 t, %%linear, %u, %u; and.b32 t, t, 2040; cvt.u64.u32 a, t; add.s64 a, a, %%in;\n"
			"ld.global.b64 %%d%u, [a]; ld.global.b32 %%r%u, [a+4]; ld.global.f32 %%f%u, [a];\n",
			8 * (2 * n + 1), 312 * n, n, n, n);
	for (unsigned n = 0; n < G; n++)
		fprintf(f,
			"cvt.rn.f64.s32 %%g%u, %%r%u; mul.rn.f64 %%g%u, %%g%u, 0d3fb99999a0000000;\n",
			n, n, n, n);
	for (unsigned n = 0; n < F / 2; n++)
		fprintf(f, "cvt.rn.f32.s32 %%f%u, %%r%u;\n", n, n + 1);
	for (unsigned n = D; n < R; n++)
		fprintf(f, "mad.lo.u32 %%r%u, %%linear, %u, %u;\n", n, n - D, n);
	for (unsigned n = 0; n < H; n++)
		fprintf(f, "cvt.u16.u32 %%h%u, %%r%u;\n", n, n);
	for (unsigned n = 0; n < P; n++)
		fprintf(f, "and.b32 t, %%r%u, %u; setp.ne.u32 %%p%u, t, 0;\n", n + 2, 1u << n, n);
	for (unsigned n = 0; n < 64; n += 8)
		fprintf(f, "st.local.b64 [lm+%u], %%d%u;\n", n, n / 8);
	fprintf(f, "}\n");
}

/* Instructions that are never reached. */
static void write_filler(FILE *f)
{
	fprintf(f, "setp.ne.u32 %%q, %%u0, 1;\n@%%q bra FILLED;\n");
	for (unsigned n = 0; n < RANDOM_FILLER; n++)
		fprintf(f, "xor.b32 %%r%u, %%r%u, %u;\n", n % R, (n + 1) % R, n);
	fprintf(f, "FILLED:\n");
}

static void write_last_values(FILE *f, bool leaving)
{
	unsigned at = 64;

	fprintf(f, "bar.sync 0;\n");
	for (unsigned n = 0; n < D; n++, at += 8)
		fprintf(f, "st.global.b64 [%%own+%u], %%d%u;\n", at, n);
	for (unsigned n = 0; n < R; n++, at += 4)
		fprintf(f, "st.global.b32 [%%own+%u], %%r%u;\n", at, n);
	for (unsigned n = 0; n < H; n++, at += 2)
		fprintf(f, "st.global.b16 [%%own+%u], %%h%u;\n", at, n);
	for (unsigned n = 0; n < P; n++, at += 4)
		fprintf(f, "selp.u32 %%t, 1, 2, %%p%u; st.global.b32 [%%own+%u], %%t;\n", n, at);
	for (unsigned n = 0; n < U; n++, at += 4)
		fprintf(f, "st.global.b32 [%%own+%u], %%u%u;\n", at, n);
	at = (at + 7) & ~7u;
	for (unsigned n = 0; n < 32; n += 8)
		fprintf(f, "ld.shared.b64 %%d0, [counts+%u]; st.global.b64 [%%own+%u], %%d0;\n", n,
			at + n);
	at = RANDOM_OWN - RANDOM_FLOATS;
	for (unsigned n = 0; n < F; n++, at += 4)
		fprintf(f, "st.global.f32 [%%own+%u], %%f%u;\n", at, n);
	for (unsigned n = 0; n < G; n++, at += 8)
		fprintf(f, "st.global.f64 [%%own+%u], %%g%u;\n", at, n);
	fprintf(f, "%sret;\n}\n", leaving ? "LEFT:\n" : "");
}

char *random_kernel_text(const struct random_kernel *k)
{
	struct writer w = {.k = k};
	struct place top = {
		.all = true, .mask = k->features & RANDOM_COLLECTIVES ? ALL_LANES : NO_MASK};
	char *text = NULL;
	size_t size;

	w.f = open_memstream(&text, &size);
	if (!w.f)
		abort();
	write_head(w.f, k);
	write_first_values(w.f);
	if (k->large)
		write_filler(w.f);
	write_list(&w, k->nodes[0].first, &top);
	write_last_values(w.f, k->leaving);
	fclose(w.f);
	return text;
}

/* ---- what it writes ---- */

size_t random_kernel_bytes(const struct random_kernel *k)
{
	return (size_t)k->grid * k->block[0] * k->block[1] * k->block[2] * RANDOM_OWN +
	       RANDOM_COUNTERS * 4;
}

static bool equal_float(const uint8_t *a, const uint8_t *b, bool wide)
{
	double x, y;
	float s, u;

	if (!memcmp(a, b, wide ? 8 : 4))
		return true;
	memcpy(&x, a, wide ? 8 : 4);
	memcpy(&y, b, wide ? 8 : 4);
	memcpy(&s, a, 4);
	memcpy(&u, b, 4);
	return wide ? isnan(x) && isnan(y) : isnan(s) && isnan(u);
}

long random_kernel_difference(const struct random_kernel *k, const uint8_t *a, const uint8_t *b)
{
	size_t bytes = random_kernel_bytes(k);

	for (size_t n = 0; n < bytes; n += 4) {
		size_t at = n % RANDOM_OWN, floats = RANDOM_OWN - RANDOM_FLOATS;
		bool own = n < bytes - RANDOM_COUNTERS * 4;
		bool wide = own && at >= floats + RANDOM_F32 * 4;

		if (own && at >= floats ? !equal_float(a + n, b + n, wide)
					: memcmp(a + n, b + n, 4) != 0)
			return (long)n;
		n += wide ? 4 : 0;
	}
	return -1;
}
