/* SPDX-License-Identifier: MIT
 *
 * Blocks that follow each other along x, which run as one where nothing in them can tell (fuse.c), and guards that become
 * bounds of loops (narrow.c): random kernels of places in a grid, compiled, against the interpreter. A kernel knows its
 * place by x and y, made in various ways, some of which must keep blocks apart; its guards compare them; what it does is
 * written to memory of the thread's own. Grids are cut into pieces at any block.
 *
 * `test-ptx-rows NUMBER` prints that kernel and runs it, `test-ptx-rows FIRST LAST` runs many.
 */
#include "harness.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "interp.h"
#include "random_kernel.h"

enum { KERNELS_TESTED = 40, THREADS_MAX = 1 << 15, TEXT_BYTES = 1 << 15 };

struct shape {
	uint32_t block[3], grid[3];
};

struct params {
	void *out;
	uint32_t width; /* threads along x, of the grid */
	uint32_t n, m;
};

static char text[TEXT_BYTES];
static size_t used;
static uint64_t seed;
static unsigned labels;

static uint32_t below(uint32_t n)
{
	return (uint32_t)(random_draw(&seed) % n);
}

__attribute__((format(printf, 1, 2))) static void put(const char *format, ...)
{
	va_list args;

	va_start(args, format);
	used += (size_t)vsnprintf(text + used, sizeof(text) - used, format, args);
	va_end(args);
	assert_true(used < sizeof(text));
}

/* ---- kernels ---- */

/* The place along an axis, in %x or %y. */
static void put_place(char axis, uint32_t block)
{
	unsigned form = below(5);

	put("mov.u32 %%c, %%ctaid.%c; mov.u32 %%w, %%ntid.%c; mov.u32 %%t, %%tid.%c;\n", axis, axis,
		axis);
	if (form == 0)
		put("mad.lo.s32 %%%c, %%c, %%w, %%t;\n", axis);
	else if (form == 1)
		put("mul.lo.u32 %%b, %%c, %%w; add.s32 %%%c, %%b, %%t;\n", axis);
	else if (form == 2)
		put("mul.lo.u32 %%b, %%c, %u; add.u32 %%%c, %%t, %%b;\n", block, axis);
	else if (form == 3 && !(block & (block - 1)))
		put("shl.b32 %%b, %%c, %d; add.u32 %%%c, %%b, %%t;\n", __builtin_ctz(block), axis);
	else
		put("mul.wide.u32 %%db, %%c, %%w; cvt.u64.u32 %%dt, %%t; add.s64 %%dt, %%db, %%dt;\n"
		    "cvt.u32.u64 %%%c, %%dt;\n",
			axis);
}

/* Some of these only one block has, or one thread of a block: those that read them cannot be run as others. */
static void put_own(void)
{
	static const char *const names[] = {
		"tid.x", "ctaid.x", "tid.x", "ctaid.x", "laneid", "nctaid.x", "ntid.x", "ctaid.y"};

	put("mov.u32 %%t, %%%s; st.global.b32 [%%own+4], %%t;\n", names[below(8)]);
}

static void put_value(void)
{
	static const char *const places[] = {"%x", "%y"};
	const char *place = places[below(2)];

	switch (below(8)) {
	case 0:
		put("max.%c32 %%i, %%x, %%y;\n", "su"[below(2)]);
		break;
	case 1:
		put("min.%c32 %%i, %%x, %%y;\n", "su"[below(2)]);
		break;
	case 2:
		put("add.s32 %%i, %s, %d;\n", place, (int)below(9) - 4);
		break;
	case 3:
		put("sub.s32 %%i, %s, %%m;\n", place);
		break;
	case 4:
		put("mov.u32 %%i, %%n;\n");
		break;
	case 5:
		put("mov.u32 %%i, %%tid.%c;\n", "yz"[below(2)]);
		break;
	default:
		put("mov.u32 %%i, %s;\n", place);
	}
}

/* Each register is written once, as a compiler does; so values have numbers. */
static void put_comparison(unsigned p)
{
	static const char *const orders[] = {"lt", "le", "gt", "ge", "eq", "ne"};
	char number[16];

	put("{ .reg .b32 %%i, %%j;\n");
	put_value();
	if (below(3))
		snprintf(number, sizeof(number), "%%%c", "nm"[below(2)]);
	else
		snprintf(number, sizeof(number), "%d", (int)below(24) - 3);
	put("add.s32 %%j, %s, 0;\n", number);
	put("setp.%s.%c32 %%p%u, %s; }\n", orders[below(6)], "su"[below(2)], p,
		below(3) ? "%i, %j" : "%j, %i");
}

static unsigned put_predicate(unsigned *predicates, unsigned depth)
{
	unsigned how = depth ? below(6) : 5, p, q, r;

	if (how > 3) {
		p = (*predicates)++;
		put_comparison(p);
		return p;
	}
	q = put_predicate(predicates, depth - 1);
	r = how ? put_predicate(predicates, depth - 1) : q;
	p = (*predicates)++;
	if (!how)
		put("not.pred %%p%u, %%p%u;\n", p, q);
	else
		put("%s.pred %%p%u, %%p%u, %%p%u;\n", how == 1 ? "and" : "or", p, q, r);
	return p;
}

/* Most threads stay between bounds, as those of a stencil inside of its array. */
static void put_bounds(unsigned *predicates)
{
	bool leaves =
		below(2); /* those for whom one does not hold; else those stay for whom all do */
	unsigned all = 0;

	for (unsigned k = 1 + below(4); k; k--) {
		unsigned p = (*predicates)++;
		bool lower = below(2), swapped = below(3) == 0;
		const char *order = lower != leaves ? swapped ? "lt" : "gt" : swapped ? "gt" : "lt";
		char number[16], equal = "et"[below(2)];

		put("{ .reg .b32 %%i, %%j;\n");
		if (below(4))
			put("add.s32 %%i, %%%c, %d;\n", "xy"[below(2)], (int)below(5) - 2);
		else
			put("%s.s32 %%i, %%x, %%y;\n", lower ? "min" : "max");
		snprintf(number, sizeof(number), lower ? "%u" : "%%n", below(3));
		put("add.s32 %%j, %s, %d;\n", number, lower ? 0 : -(int)below(3));
		put("setp.%c%c.%c32 %%p%u, %s; }\n", order[0], equal, below(4) ? 's' : 'u', p,
			swapped ? "%j, %i" : "%i, %j");
		if (!all) {
			all = p + 1;
			continue;
		}
		put("%s.pred %%p%u, %%p%u, %%p%u;\n", leaves ? "or" : "and", *predicates, p,
			all - 1);
		all = ++*predicates;
	}
	put("@%s%%p%u bra E0;\n", leaves ? "" : "!", all - 1);
}

static void put_effect(void)
{
	switch (below(4)) {
	case 0: /* a loop that all threads run together */
		put("mov.u32 %%k, 0;\nL%u:\nld.global.b32 %%v, [%%own]; mad.lo.u32 %%v, %%v, 3, %%x;\n"
		    "st.global.b32 [%%own], %%v; add.u32 %%k, %%k, 1; setp.lt.u32 %%g, %%k, %%h; @%%g bra L%u;\n",
			labels, labels);
		labels++;
		break;
	case 1: /* one that they leave at different times */
		put("and.b32 %%k, %%x, 7;\nL%u:\nmad.lo.u32 %%v, %%v, 7, %%k; sub.s32 %%k, %%k, 1;\n"
		    "setp.ge.s32 %%g, %%k, 0; @%%g bra L%u;\n",
			labels, labels);
		labels++;
		break;
	case 2:
		if (!below(3))
			put("red.global.add.u32 [%%own+4], 3;\n");
		else
			put("ld.global.b32 %%t, [%%own+4]; add.u32 %%t, %%t, %%y; st.global.b32 [%%own+4], %%t;\n");
		break;
	default:
		put("mad.lo.u32 %%v, %%v, 9, %%y; st.global.b32 [%%own], %%v;\n");
	}
}

static void put_guarded(unsigned *predicates, unsigned depth)
{
	unsigned p = put_predicate(predicates, 2), label = labels++;

	put("@%s%%p%u bra %s%u;\n", below(2) ? "!" : "", p, below(3) ? "E" : "L", label);
	put_effect();
	if (depth && below(2))
		put_guarded(predicates, depth - 1);
	put("L%u:\n", label);
}

static void draw(uint64_t number, struct shape *s, struct params *p)
{
	static const uint32_t blocks[][3] = {{32, 8, 1}, {16, 16, 1}, {8, 4, 2}, {64, 1, 1},
		{1, 16, 1}, {5, 3, 1}, {128, 1, 1}, {4, 1, 3}, {32, 1, 1}, {17, 2, 1}};
	unsigned predicates = 0;

	seed = number * 0x9e3779b97f4a7c15ull;
	*s = (struct shape){.grid = {1 + below(11), 1 + below(4), 1 + below(2)}};
	memcpy(s->block, blocks[below(10)], sizeof(s->block));
	p->width = s->grid[0] * s->block[0];
	p->n = below(2) ? p->width - below(p->width / 2 + 1) : below(p->width + 3);
	p->m = below(3) ? below(8) : below(2) ? UINT32_MAX - below(3) : below(60);
	if (p->m > 60 && below(2))
		p->n = INT32_MAX - below(40);
	used = 0;
	labels = 1;
	put(".version 8.7\n.target sm_90\n.address_size 64\n"
	    ".visible .entry k(.param .u64 out, .param .u32 width, .param .u32 n, .param .u32 m)\n{\n"
	    ".reg .b32 %%x, %%y, %%z, %%c, %%w, %%t, %%b, %%v, %%k, %%n, %%m, %%h; .reg .pred %%g, %%p<200>;\n"
	    ".reg .b64 %%own, %%db, %%dt;\n");
	/* The index of its memory has registers of its own, as those above are written again. */
	put("{ .reg .b32 %%c, %%w, %%t, %%x0; mov.u32 %%c, %%ctaid.x; mov.u32 %%w, %%ntid.x; mov.u32 %%t, %%tid.x;\n"
	    "mad.lo.s32 %%x0, %%c, %%w, %%t;\n"
	    "{ .reg .b32 %%c, %%w, %%t, %%y0, %%z0, %%h0; mov.u32 %%c, %%ctaid.y; mov.u32 %%w, %%ntid.y; mov.u32 %%t, %%tid.y;\n"
	    "mad.lo.s32 %%y0, %%c, %%w, %%t; mov.u32 %%z0, %%ctaid.z; mov.u32 %%h0, %%ntid.z;\n"
	    "mov.u32 %%t, %%tid.z; mad.lo.s32 %%z0, %%z0, %%h0, %%t; mov.u32 %%h0, %%nctaid.y; mul.lo.u32 %%h0, %%h0, %%w;\n"
	    "mad.lo.u32 %%z0, %%z0, %%h0, %%y0; ld.param.u32 %%w, [width]; mad.lo.u32 %%z0, %%z0, %%w, %%x0;\n"
	    "ld.param.u64 %%own, [out]; cvta.to.global.u64 %%own, %%own; mad.wide.u32 %%own, %%z0, 8, %%own; } }\n");
	put("ld.param.u32 %%n, [n]; ld.param.u32 %%m, [m]; and.b32 %%h, %%m, 7; mov.u32 %%v, 1;\n");
	put("{ .reg .b32 %%c, %%w, %%t, %%b; .reg .b64 %%db, %%dt;\n");
	put_place('x', s->block[0]);
	put("}\n{ .reg .b32 %%c, %%w, %%t, %%b; .reg .b64 %%db, %%dt;\n");
	put_place('y', s->block[1]);
	put("}\n");
	if (!below(4))
		put_own();
	if (below(3))
		put_bounds(&predicates);
	put_effect();
	for (unsigned k = below(3); k; k--)
		put_guarded(&predicates, 2);
	put("ld.global.b32 %%t, [%%own]; xor.b32 %%v, %%v, %%t; st.global.b32 [%%own], %%v;\n");
	for (unsigned k = 0; k < labels; k++)
		put("E%u:\n", k);
	put("ret;\n}\n");
}

/* ---- runs ---- */

/* The memory of a place is at its index in the whole grid, two words. */
static size_t threads_of(const struct shape *s)
{
	size_t n = 1;

	for (unsigned k = 0; k < 3; k++)
		n *= (size_t)s->block[k] * s->grid[k];
	assert_true(n <= THREADS_MAX);
	return n;
}

static void fill(uint32_t *out, size_t words)
{
	for (size_t k = 0; k < words; k++)
		out[k] = (uint32_t)k * 77;
}

static bool same(uint64_t number, bool say)
{
	static uint32_t want[2 * THREADS_MAX], got[2 * THREADS_MAX];
	static struct program program;
	struct params p;
	struct shape s;

	draw(number, &s, &p);
	if (say)
		puts(text);
	load_text(&program, text);
	size_t words = 2 * threads_of(&s);
	struct interp in = {.module = program.module, .kernel = "k", .params = &p};
	memcpy(in.grid, s.grid, sizeof(s.grid));
	memcpy(in.block, s.block, sizeof(s.block));
	fill(want, words);
	p.out = want;
	if (interp_run(&in) != INTERP_RAN)
		fail_msg("kernel %lu is no kernel to compare: %s", (unsigned long)number, in.why);
	struct run r = {.kernel = "k", .params = &p, .pool = 1 + (unsigned)(number % 4)};
	memcpy(r.grid, s.grid, sizeof(s.grid));
	memcpy(r.block, s.block, sizeof(s.block));
	fill(got, words);
	p.out = got;
	bool ran = run(&program, r) == RAN;
	unload(&program);
	for (size_t k = 0; k < words && ran; k++)
		if (want[k] != got[k]) {
			print_error(
				"kernel %lu, %ux%ux%u blocks of %ux%ux%u, n %u, m %u: word %zu is %#x, not %#x\n",
				(unsigned long)number, s.grid[0], s.grid[1], s.grid[2], s.block[0],
				s.block[1], s.block[2], p.n, p.m, k, got[k], want[k]);
			return false;
		}
	return ran;
}

static uint64_t wanted[2]; /* the kernels that the command line names */

static void places_in_a_grid_mean_the_same_however_blocks_are_run(void **state)
{
	uint64_t first = wanted[0] ? wanted[0] : 1, last = wanted[1] ? wanted[1] : KERNELS_TESTED;
	unsigned bad = 0;

	for (uint64_t k = first; k <= last && bad < 3; k++)
		bad += !same(k, first == last);
	assert_int_equal(bad, 0);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(places_in_a_grid_mean_the_same_however_blocks_are_run),
	};

	wanted[0] = argc > 1 ? strtoull(argv[1], NULL, 10) : 0;
	wanted[1] = argc > 2 ? strtoull(argv[2], NULL, 10) : wanted[0];
	return cmocka_run_group_tests(tests, NULL, NULL);
}
