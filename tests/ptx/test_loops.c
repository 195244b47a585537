/* SPDX-License-Identifier: MIT
 *
 * Kernels rewritten to leave in the middle of a block (device/preempt), run on the software GPU, with this test in the place of the
 * scheduler: it runs block by block, each of which it tells to leave at some point; launches the grid again until none has left;
 * and compares memory with what the kernel as it was written makes of it, to the bit.
 *
 * The word that tells blocks to leave is read once a point. Here a read adds one to it, so that a block is told at the read for which
 * it was set: nothing depends on time.
 *
 * The kernels are those of examples/gloop that keep the device, written ones, and random ones. test_loops NUMBER draws other points.
 */
#include "trial.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum {
	KEPT = 4 << 20,
	READS = 5, /* a block is told to leave at one of so many */
	RANDOM_KERNELS = 12,
};

static unsigned *in_the_middle; /* so many blocks left there; of all children */

/* The text, where a read of the word advances it. */
static char *advancing(const char *text)
{
	static const char read[] = "ld.volatile.global.u32 %__gdev_word, [%__gdev_d0];";
	static const char add[] = "atom.global.add.u32 %__gdev_word, [%__gdev_d0], 1;";
	char *made = calloc(1, strlen(text) + 1), *at = made;

	_Static_assert(sizeof(add) <= sizeof(read), "it is written in its place");
	assert_non_null(made);
	strcpy(made, text);
	while ((at = strstr(at, read))) {
		memset(at, ' ', sizeof(read) - 1);
		memcpy(at, add, sizeof(add) - 1);
	}
	return made;
}

/* ---- the scheduler ---- */

static uint8_t *kept_of(struct trial *t)
{
	uint64_t offset, size;

	assert_int_equal(ptx_global_find(t->program.module, PREEMPT_KEPT, &offset, &size), 0);
	return (uint8_t *)t->program.globals + offset;
}

static void tell(struct trial *t)
{
	*(uint32_t *)&t->counter = t->generation - (uint32_t)(random_draw(&luck) % READS);
}

/* Launches the grid, and looks whether those have left that say so. */
static void launch(struct trial *t, uint64_t offset, uint32_t again)
{
	uint32_t threads = t->block[0] * t->block[1] * t->block[2], left = 0;
	struct preempt_loops_launch hidden = {.counter = (uintptr_t)&t->counter,
		.left = (uintptr_t)&t->left,
		.generation = t->generation,
		.again = again,
		.offset = offset,
		.states_bytes = preempt_states_bytes(t->blocks),
		.block_bytes = (uint32_t)preempt_block_bytes(t->made, threads, TRIAL_SHARED),
		.left_before = t->generation - 1};
	const uint32_t *states = (const uint32_t *)(kept_of(t) + offset);

	assert_true(
		offset + hidden.states_bytes + t->blocks * (uint64_t)hidden.block_bytes <= KEPT);
	t->left = 0;
	memcpy(t->params + t->made->param_offset, &hidden, sizeof(hidden));
	for (uint32_t i = 0; i < t->blocks; i++) {
		tell(t);
		trial_run(t, true, t->grid, i, 1);
		left += states[2 * i] == t->generation;
		*in_the_middle += states[2 * i] == t->generation && states[2 * i + 1];
	}
	if (t->left != left)
		_exit(4);
	t->generation++;
}

/* What is kept has anything in it before, even what looks like a block that has left. */
static void schedule(struct trial *t)
{
	uint32_t *kept = (uint32_t *)kept_of(t);

	for (size_t i = 0; i < KEPT / 4; i++)
		kept[i] = (uint32_t)random_draw(&luck) % 8;
	t->generation = (uint32_t)random_draw(&luck) % 8 + 1;
	t->left = 1;
	for (uint32_t again = 0; t->left; again++)
		launch(t, 4096, again);
}

/* ---- kernels of files ---- */

/* Arguments that make sense: a block writes what no other thread of it writes meanwhile, and other blocks do not. */
static const struct {
	const char *path, *name;
	uint32_t grid[3], block[3], number; /* what all numbers among the parameters are */
} kernels[] = {
	{EXAMPLES "/gloop-mmul.ptx", "mmul_plain", {5, 2, 1}, {16, 16, 1}, 64},
	{EXAMPLES "/gloop-throttle.ptx", "throttle_plain", {7, 1, 1}, {64, 1, 1}, 9},
	{EXAMPLES "/mmul.ptx", "mmul", {3, 3, 1}, {16, 16, 1}, 48},
	{EXAMPLES "/lud.ptx", "lud_diagonal", {1, 1, 1}, {16, 1, 1}, 64},
};

/* Every number, and the ticket, which is the last address, 0. */
static void set_numbers(struct trial *t, uint32_t number)
{
	uint8_t *at; /* parameters are not aligned here */

	for (uint32_t k = 0; k < t->kernel->param_count; k++) {
		if (t->kernel->params[k].size == 4) {
			memcpy(t->params + t->kernel->params[k].offset, &number, 4);
			continue;
		}
		memcpy(&at, t->params + t->kernel->params[k].offset, sizeof(at));
		memset(at, 0, 4);
	}
}

static void try_kernel(size_t i)
{
	struct preempt_module *module = trial_rewrite(kernels[i].path, KEPT);
	char *text = advancing(module->text);
	struct trial t;

	assert_null(preempt_kernel_find(module, kernels[i].name)->unfit_loops);
	assert_true(trial_of_file(&t, module, text, kernels[i].name, PREEMPT_LOOPS_SUFFIX,
		kernels[i].grid, kernels[i].block));
	set_numbers(&t, kernels[i].number);
	assert_true(trial_compare(&t, kernels[i].name, schedule));
	trial_of_file_end(&t);
	free(text);
	preempt_module_destroy(module);
}

static void kernels_of_files_do_the_same(void **state)
{
	for (size_t i = 0; i < sizeof(kernels) / sizeof(*kernels); i++) {
		*in_the_middle = 0;
		try_kernel(i);
		print_message("# %s: %u left in the middle\n", kernels[i].name, *in_the_middle);
		assert_true(*in_the_middle > 0);
	}
}

/* ---- written ones ---- */

#define HEAD ".version 7.0\n.target sm_70\n.address_size 64\n"
/* Own word of output: %d1; thread of the grid: %r1; of the block: %r2. */
#define ENTRY                                                                                      \
	HEAD ".visible .entry k(.param .u64 in, .param .u64 out, .param .u32 n) {\n"               \
	     ".reg .pred %p<9>; .reg .b16 %h<9>; .reg .b32 %r<20>; .reg .b64 %d<9>;\n"             \
	     ".reg .f32 %f<9>; .reg .f64 %g<9>; .reg .pred odd; .reg .b32 alone;\n"                \
	     ".shared .align 4 .b8 s[4096]; .shared .align 1 .b8 bytes[7];\n"                      \
	     ".local .align 8 .b8 own[24]; .local .align 1 .b8 small[3];\n"                        \
	     "mov.u32 %r3, %tid.x; mov.u32 %r4, %tid.y; mov.u32 %r5, %ntid.x;\n"                   \
	     "mad.lo.u32 %r2, %r4, %r5, %r3; mov.u32 %r6, %ntid.y; mul.lo.u32 %r7, %r5, %r6;\n"    \
	     "mov.u32 %r8, %ctaid.x; mad.lo.u32 %r1, %r8, %r7, %r2;\n"                             \
	     "ld.param.u64 %d1, [out]; mul.wide.u32 %d2, %r1, 64; add.u64 %d1, %d1, %d2;\n"
/* Behind a barrier: the word of the next thread in the block. */
#define EXCHANGE                                                                                   \
	"mov.u32 %r10, s; mad.lo.u32 %r11, %r2, 4, %r10; st.shared.u32 [%r11], %r9; bar.sync 0;\n" \
	"add.u32 %r12, %r2, 1; rem.u32 %r12, %r12, %r7; mad.lo.u32 %r12, %r12, 4, %r10;\n"         \
	"ld.shared.u32 %r13, [%r12]; mad.lo.u32 %r9, %r9, 77, %r13;\n"
#define NEXT_ROUND "add.u32 %r15, %r15, 1; setp.lt.u32 %p1, %r15, 9; @%p1 bra L;\n"

static const struct {
	const char *what, *text, *unfit; /* NULL: it is fit */
	const char *part;                /* how often the third kernel has points, as its labels */
} cases[] = {
	{"words that go round",
		ENTRY "mov.u32 %r9, %r1; mov.u32 %r15, 0;\n"
		      "L: bar.sync 0;\n" EXCHANGE NEXT_ROUND "st.global.u32 [%d1], %r9; ret; }",
		NULL, "back1"},
	{"registers of all widths",
		ENTRY
		"mov.u32 %r9, %r1; mov.u32 %r15, 0; cvt.u16.u32 %h1, %r1; cvt.rn.f32.u32 %f1, %r1;\n"
		"cvt.rn.f64.u32 %g1, %r1; and.b32 %r16, %r1, 1; setp.eq.u32 odd, %r16, 1;\n"
		"mov.b32 alone, 7; setp.gt.u32 %p3, %r2, 3; cvt.u64.u32 %d5, %r1;\n"
		"L: barrier.sync 0;\n" EXCHANGE
		"mad.lo.u16 %h1, %h1, 3, 1; fma.rn.f32 %f1, %f1, 0f3FC00000, %f1;\n"
		"add.f64 %g1, %g1, %g1; @odd add.u32 alone, alone, %r9; not.pred odd, odd;\n"
		"mad.lo.u64 %d5, %d5, 5, %d5; @%p3 add.u64 %d5, %d5, 1;\n" NEXT_ROUND
		"st.global.u32 [%d1], %r9; st.global.u16 [%d1+4], %h1; st.global.f32 [%d1+8], %f1;\n"
		"st.global.u32 [%d1+12], alone; st.global.f64 [%d1+16], %g1;\n"
		"selp.u32 %r16, 5, 6, odd; st.global.u32 [%d1+24], %r16; st.global.u64 [%d1+32], %d5;\n"
		"ret; }",
		NULL, "back1"},
	{"memory of threads and of the block",
		ENTRY
		"mov.u32 %r9, %r1; mov.u32 %r15, 0; setp.ne.u32 %p4, %r2, 0;\n"
		"st.local.u64 [own], %d1; st.local.u64 [own+8], %d2; st.local.u32 [own+16], %r1;\n"
		"st.local.u32 [own+20], %r2; st.local.u8 [small], %r1; st.local.u8 [small+2], %r2;\n"
		"@!%p4 st.shared.u8 [bytes+6], %r1; @!%p4 st.shared.u8 [bytes], %r8;\n"
		"L: bar.sync 1;\n" EXCHANGE
		"ld.local.u32 %r16, [own+16]; add.u32 %r16, %r16, %r9; st.local.u32 [own+16], %r16;\n"
		"ld.local.u8 %r16, [small]; add.u32 %r16, %r16, %r13; st.local.u8 [small], %r16;\n" NEXT_ROUND
		"ld.local.u64 %d5, [own]; ld.local.u64 %d6, [own+8]; ld.local.u32 %r16, [own+16];\n"
		"ld.local.u32 %r17, [own+20]; ld.local.u8 %r18, [small]; ld.local.u8 %r19, [small+2];\n"
		"st.global.u64 [%d5+8], %d6; st.global.u32 [%d5], %r9; st.global.u32 [%d5+16], %r16;\n"
		"st.global.u32 [%d5+20], %r17; st.global.u8 [%d5+24], %r18; st.global.u8 [%d5+25], %r19;\n"
		"ld.shared.u8 %r16, [bytes]; ld.shared.u8 %r17, [bytes+6]; add.u32 %r16, %r16, %r17;\n"
		"st.global.u32 [%d5+28], %r16; ret; }",
		NULL, "back1"},
	{"a loop in a loop, and one behind them",
		ENTRY "mov.u32 %r9, %r1; mov.u32 %r15, 0;\n"
		      "L: mov.u32 %r16, 0;\n"
		      "M: bar.sync 0;\n" EXCHANGE
		      "add.u32 %r16, %r16, 1; setp.lt.u32 %p2, %r16, 3; @%p2 bra M;\n"
		      "bar.sync 0; add.u32 %r9, %r9, %r15;\n" NEXT_ROUND "mov.u32 %r15, 0;\n"
		      "N: bar.sync 0;\n" EXCHANGE
		      "add.u32 %r15, %r15, 1; setp.lt.u32 %p1, %r15, 5; @%p1 bra N;\n"
		      "st.global.u32 [%d1], %r9; ret; }",
		NULL, "back2"},
	{"rounds in which threads go different ways",
		ENTRY
		"mov.u32 %r9, %r1; mov.u32 %r15, 0;\n"
		"L: bar.sync 0;\n" EXCHANGE
		"and.b32 %r16, %r9, 3; setp.eq.u32 %p2, %r16, 0; @%p2 bra A; add.u32 %r9, %r9, 5; bra B;\n"
		"A: xor.b32 %r9, %r9, 99; B:\n" NEXT_ROUND "st.global.u32 [%d1], %r9; ret; }",
		NULL, "back1"},
	{"a number of rounds that shared memory says",
		ENTRY "mov.u32 %r9, %r1; mov.u32 %r15, 0; setp.ne.u32 %p4, %r2, 0;\n"
		      "L: bar.sync 0; @!%p4 st.shared.u32 [s+4092], %r15; bar.sync 0;\n"
		      "ld.shared.u32 %r17, [s+4092]; setp.ge.u32 %p5, %r17, 11; @%p5 bra E;\n"
		      "mad.lo.u32 %r9, %r9, 3, %r17; add.u32 %r15, %r15, 1; bra L;\n"
		      "E: st.global.u32 [%d1], %r9; ret; }",
		NULL, "back1"},
	{"a label that is called as an instruction",
		ENTRY "mov.u32 %r9, %r1;\nbarrier: mov.u32 %r15, 0;\n"
		      "L: bar.sync 0;\n" EXCHANGE NEXT_ROUND "st.global.u32 [%d1], %r9; ret; }",
		NULL, "L: \n\tld.param.u32 %__gdev_r0, [__gdev_launch+16];"},
	{"no loop", ENTRY "bar.sync 0; ret; }", "no loop", NULL},
	{"a loop that threads leave one by one",
		ENTRY "mov.u32 %r15, 0;\nL: bar.sync 0; add.u32 %r15, %r15, 1;\n"
		      "setp.lt.u32 %p1, %r15, %r2; @%p1 bra L; ret; }",
		"no loop", NULL},
	{"threads that have ended before",
		ENTRY
		"mov.u32 %r15, 0; setp.gt.u32 %p2, %r2, 30; @%p2 ret;\nL: bar.sync 0;\n" NEXT_ROUND
		"ret; }",
		"no loop", NULL},
	{"barriers on two sides of a branch",
		ENTRY
		"mov.u32 %r15, 0; setp.gt.u32 %p2, %r2, 31;\nL: @%p2 bra A; bar.sync 0; bra B;\n"
		"A: bar.sync 0; B:\n" NEXT_ROUND "ret; }",
		"no loop", NULL},
	{"a barrier with a guard",
		ENTRY "mov.u32 %r15, 0; setp.gt.u32 %p2, %r8, 3;\nL: @%p2 bar.sync 0;\n" NEXT_ROUND
		      "ret; }",
		"no loop", NULL},
	{"a barrier of some threads",
		ENTRY "mov.u32 %r15, 0;\nL: bar.sync 0, 64;\n" NEXT_ROUND "ret; }", "no loop",
		NULL},
	{"a loop that ends by what others may be writing",
		ENTRY "mov.u32 %r15, 0; ld.param.u64 %d3, [in]; ld.global.u32 %r16, [%d3];\n"
		      "L: bar.sync 0; add.u32 %r15, %r15, 1; setp.lt.u32 %p1, %r15, %r16;\n"
		      "@%p1 bra L; ret; }",
		"no loop", NULL},
	{"threads that arrive and go on",
		ENTRY "mov.u32 %r15, 0;\nL: bar.sync 0; bar.arrive 1, 64;\n" NEXT_ROUND "ret; }",
		"arrive", NULL},
	{"copies that are under way",
		".version 7.1\n.target sm_80\n.address_size 64\n.visible .entry k(.param .u64 in) {\n"
		".reg .pred %p<2>; .reg .b32 %r<3>; .reg .b64 %d; .shared .align 16 .b8 s[64];\n"
		"ld.param.u64 %d, [in]; mov.u32 %r1, s; mov.u32 %r2, 0;\n"
		"L: bar.sync 0; cp.async.ca.shared.global [%r1], [%d], 4; add.u32 %r2, %r2, 1;\n"
		"setp.lt.u32 %p1, %r2, 9; @%p1 bra L; ret; }",
		"asynchronously", NULL},
	{"a generic address of shared memory that is needed",
		ENTRY "mov.u32 %r15, 0; mov.u64 %d3, s; cvta.shared.u64 %d4, %d3;\n"
		      "L: bar.sync 0; st.u32 [%d4], %r15;\n" NEXT_ROUND "ret; }",
		"no loop", NULL},
	{"… that is written to memory",
		ENTRY
		"mov.u32 %r15, 0; mov.u64 %d3, s; cvta.shared.u64 %d4, %d3; add.u64 %d4, %d4, 4;\n"
		"st.shared.u64 [s], %d4;\nL: bar.sync 0;\n" NEXT_ROUND "ret; }",
		"in memory", NULL},
	{"… that is not needed any more",
		ENTRY
		"mov.u32 %r9, %r1; mov.u32 %r15, 0; mov.u64 %d3, s; cvta.shared.u64 %d4, %d3;\n"
		"mul.wide.u32 %d5, %r2, 4; add.u64 %d4, %d4, %d5; st.u32 [%d4], %r1;\n"
		"L: bar.sync 0;\n" EXCHANGE NEXT_ROUND "st.global.u32 [%d1], %r9; ret; }",
		NULL, "back1"},
	{"two registers of one name",
		ENTRY
		"mov.u32 %r15, 0;\nL: bar.sync 0; { .reg .b32 %r15; mov.u32 %r15, 5; }\n" NEXT_ROUND
		"st.global.u32 [%d1], %r15; ret; }",
		"no loop", NULL},
	{"barriers in braces", ENTRY "mov.u32 %r15, 0;\nL: { bar.sync 0; }\n" NEXT_ROUND "ret; }",
		"braces", NULL},
	{"barriers in a function",
		HEAD ".func f() { bar.sync 0; ret; }\n.visible .entry k() { .reg .b32 %r15;\n"
		     ".reg .pred %p1; mov.u32 %r15, 0;\nL: bar.sync 0; call f;\n" NEXT_ROUND
		     "ret; }",
		"functions", NULL},
	{"a function that calls itself",
		HEAD ".func f(.param .u32 n) { .reg .pred %p; .reg .b32 %r; ld.param.u32 %r, [n];\n"
		     "setp.eq.u32 %p, %r, 0; @%p ret; bar.arrive 1, 64; sub.u32 %r, %r, 1;\n"
		     "call f, (%r); ret; }\n"
		     ".visible .entry k() { .reg .b32 %r15; .reg .pred %p1; mov.u32 %r15, 0;\n"
		     "L: bar.sync 0; call f, (%r15);\n" NEXT_ROUND "ret; }",
		"themselves", NULL},
	{"shared memory of a register's name",
		HEAD
		".shared .align 4 .b8 s[64];\n.visible .entry k() { .reg .b32 %r<20>;\n"
		".reg .pred %p1; mov.u32 %r15, 0; mov.u32 %r14, s; { .reg .b32 s; mov.u32 s, 1; }\n"
		"L: bar.sync 0; st.shared.u32 [%r14], %r15;\n" NEXT_ROUND "ret; }",
		"no name", NULL},
	{"a register of inner braces that is needed",
		ENTRY
		"mov.u32 %r15, 0;\nL: bar.sync 0; { .reg .b32 inner; st.global.u32 [%d1], inner;\n"
		"mov.u32 inner, %r15; }\n" NEXT_ROUND "ret; }",
		"a name in inner", NULL},
	{"a carry",
		ENTRY "mov.u32 %r15, 0; add.cc.u32 %r9, %r1, %r1;\n"
		      "L: bar.sync 0; addc.u32 %r9, %r9, %r15;\n" NEXT_ROUND "ret; }",
		"carry", NULL},
	{"blocks that wait",
		ENTRY "L: bar.sync 0; ld.volatile.global.u32 %r9, [%d1]; setp.eq.u32 %p1, %r9, 0;\n"
		      "@%p1 bra L; ret; }",
		"wait", NULL},
	{"… in a loop that begins where the loop around it does",
		ENTRY
		"mov.u32 %r15, 0;\nL: ld.volatile.global.u32 %r9, [%d1]; setp.eq.u32 %p2, %r9, 0;\n"
		"@%p2 bra L; bar.sync 0;\n" NEXT_ROUND "ret; }",
		"wait", NULL},
	{"registers that threads give back",
		".version 8.0\n.target sm_90a\n.address_size 64\n.visible .entry k() {\n"
		".reg .pred %p<2>; .reg .b32 %r<16>; setmaxnreg.inc.sync.aligned.u32 232;\n"
		"mov.u32 %r15, 0;\nL: bar.sync 0;\n" NEXT_ROUND "ret; }",
		"registers", NULL},
};

static void it_is_known_which_kernels_are_fit(void **state)
{
	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		struct preempt_module *module;
		const char *unfit;

		if (preempt_rewrite(cases[i].text, strlen(cases[i].text), KEPT, &module))
			fail_msg("%s: it is no PTX", cases[i].what);
		unfit = module->kernels[0].unfit_loops;
		if (cases[i].unfit ? !unfit || !strstr(unfit, cases[i].unfit) : unfit != NULL)
			fail_msg("%s: %s", cases[i].what, unfit ? unfit : "it is fit");
		if (cases[i].part && !strstr(module->text, cases[i].part))
			fail_msg("%s: there is no %s", cases[i].what, cases[i].part);
		preempt_module_destroy(module);
	}
}

/* As random kernels: their output is the second parameter. */
static void compare_text(const struct random_kernel *k, const char *text, const char *name)
{
	struct preempt_module *module;
	struct trial t;
	char *other;

	assert_int_equal(preempt_rewrite(text, strlen(text), KEPT, &module), 0);
	assert_null(module->kernels[0].unfit_loops);
	other = advancing(module->text);
	trial_of_random(&t, k, module, other, PREEMPT_LOOPS_SUFFIX);
	assert_true(trial_compare(&t, name, schedule));
	trial_of_random_end(&t);
	free(other);
	preempt_module_destroy(module);
}

static void written_kernels_do_the_same(void **state)
{
	static const uint32_t blocks[][3] = {{32, 1, 1}, {7, 5, 1}, {40, 3, 1}};

	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++)
		for (size_t b = 0; !cases[i].unfit && b < 3; b++) {
			struct random_kernel k = {.grid = 6};

			memcpy(k.block, blocks[b], sizeof(k.block));
			*in_the_middle = 0;
			compare_text(&k, cases[i].text, cases[i].what);
			assert_true(*in_the_middle > 0);
		}
}

/* ---- random kernels ---- */

/* Loops that all threads go round together, in each other and one after the other, with barriers in them; and what changes
 * registers and memory there, some threads one way and some another. */
struct drawing {
	FILE *out;
	unsigned labels, loops, statements;
};

static unsigned draw(unsigned n)
{
	return (unsigned)(random_draw(&luck) % n);
}

static void draw_list(struct drawing *x, unsigned depth);

static void draw_loop(struct drawing *x, unsigned depth)
{
	unsigned label = x->labels++, loop = x->loops++;
	bool told = draw(3) == 0; /* the end is read from shared memory */

	fprintf(x->out, "mov.u32 %%l%u, 0;\nL%u:\n", loop, label);
	if (told)
		fprintf(x->out,
			"bar.sync 0; @!%%p4 st.shared.u32 [s+%u], %%l%u; bar.sync 0;\n"
			"ld.shared.u32 %%t%u, [s+%u]; setp.ge.u32 %%q%u, %%t%u, %u; @%%q%u bra E%u;\n",
			4092 - 4 * loop, loop, loop, 4092 - 4 * loop, loop, loop, draw(4) + 1, loop,
			label);
	else
		fprintf(x->out, "setp.ge.u32 %%q%u, %%l%u, %u; @%%q%u bra E%u;\n", loop, loop,
			draw(4) + 1, loop, label);
	if (draw(2))
		fputs(EXCHANGE, x->out);
	draw_list(x, depth + 1);
	fprintf(x->out, "add.u32 %%l%u, %%l%u, 1; bra L%u;\nE%u:\n", loop, loop, label, label);
}

/* Two sides of a branch, or a loop of each thread's own. */
static void draw_apart(struct drawing *x)
{
	unsigned label = x->labels++, a = 16 + draw(4), bit = draw(5);

	if (draw(2))
		fprintf(x->out,
			"shr.u32 %%r14, %%r9, %u; and.b32 %%r14, %%r14, 1; setp.eq.u32 %%p6, %%r14, 0;\n"
			"@%%p6 bra L%u; add.u32 %%r%u, %%r%u, %%r9; bra E%u;\n"
			"L%u: xor.b32 %%r9, %%r9, %%r%u; not.pred odd, odd;\nE%u:\n",
			bit, label, a, a, label, label, a, label);
	else
		fprintf(x->out,
			"and.b32 %%r14, %%r9, 7;\n"
			"L%u: mad.lo.u32 %%r%u, %%r%u, 5, %%r14; setp.eq.u32 %%p6, %%r14, 0;\n"
			"@%%p6 bra E%u; sub.u32 %%r14, %%r14, 1; bra L%u;\nE%u:\n",
			label, a, a, label, label, label);
}

static void draw_statement(struct drawing *x, unsigned depth)
{
	static const char *const rows[] = {EXCHANGE, EXCHANGE, "bar.sync 0;\n", "barrier.sync 3;\n",
		"mad.lo.u16 %h1, %h1, 3, %h2; add.u16 %h2, %h2, 1;\n",
		"fma.rn.f32 %f1, %f1, 0f3FC00000, %f2; sub.f32 %f2, %f1, %f2;\n",
		"fma.rn.f64 %g1, %g1, 0d3FE0000000000000, %g2; add.f64 %g2, %g2, %g1;\n",
		"mad.lo.u64 %d5, %d5, 5, %d6; @odd xor.b64 %d6, %d6, %d5;\n",
		"@odd add.u32 alone, alone, %r9; not.pred odd, odd;\n",
		"setp.gt.u32 %p3, %r9, %r16; @%p3 add.u32 %r16, %r16, 99;\n",
		"ld.local.u32 %r14, [own+16]; add.u32 %r14, %r14, %r9; st.local.u32 [own+16], %r14;\n",
		"st.local.u8 [small+1], %r9; ld.local.u8 %r18, [small+2]; st.local.u8 [small+2], %r9;\n",
		"bar.sync 0; @!%p4 st.shared.u8 [bytes+5], %r16; bar.sync 0; ld.shared.u8 %r19, [bytes+5];\n",
		"add.u32 %r17, %r17, %r9; add.u32 %r9, %r9, %r19;\n"};
	unsigned kind = draw(20);

	x->statements++;
	if (kind < 4 && depth < 3 && x->loops < 60)
		draw_loop(x, depth);
	else if (kind < 7)
		draw_apart(x);
	else
		fputs(rows[draw(sizeof(rows) / sizeof(*rows))], x->out);
}

static void draw_list(struct drawing *x, unsigned depth)
{
	for (unsigned n = 1 + draw(depth ? 6 : 10); n; n--)
		draw_statement(x, depth);
}

static char *draw_kernel(void)
{
	struct drawing x = {0};
	size_t length;
	char *text;

	x.out = open_memstream(&text, &length);
	assert_non_null(x.out);
	fputs(ENTRY
		".reg .b32 %l<64>, %t<64>; .reg .pred %q<64>;\nmov.u32 %r9, %r1; setp.ne.u32 %p4, %r2, 0; mov.b32 alone, 7;\n"
		"cvt.u16.u32 %h1, %r1; mov.b16 %h2, 5; cvt.rn.f32.u32 %f1, %r1; mov.f32 %f2, %f1;\n"
		"cvt.rn.f64.u32 %g1, %r1; mov.f64 %g2, %g1; mov.b64 %d5, %d2; mov.b64 %d6, %d1;\n"
		"sub.u64 %d6, %d6, %d1; setp.gt.u32 odd, %r2, 4; mov.u32 %r16, %r1; mov.u32 %r17, 1;\n"
		"mov.u32 %r18, 2; mov.u32 %r19, 3; st.local.u32 [own+16], %r1; st.local.u8 [small+2], %r2;\n",
		x.out);
	draw_loop(&x, 0);
	draw_list(&x, 0);
	fputs("bar.sync 0; add.u32 %r9, %r9, %r17; add.u32 %r9, %r9, %r18; add.u32 %r9, %r9, %r19;\n"
	      "ld.local.u32 %r17, [own+16]; ld.local.u8 %r18, [small+2]; add.u32 %r17, %r17, %r18;\n"
	      "selp.u32 %r18, 5, 6, odd; add.u32 %r18, %r18, alone; add.u64 %d5, %d5, %d6;\n"
	      "st.global.u32 [%d1], %r9; st.global.u32 [%d1+4], %r16; st.global.u32 [%d1+8], %r17;\n"
	      "st.global.u32 [%d1+12], %r18; st.global.u64 [%d1+16], %d5; st.global.u16 [%d1+24], %h1;\n"
	      "st.global.u16 [%d1+26], %h2; st.global.f32 [%d1+28], %f1; st.global.f32 [%d1+32], %f2;\n"
	      "st.global.f64 [%d1+40], %g1; st.global.f64 [%d1+48], %g2; ret; }",
		x.out);
	fclose(x.out);
	return text;
}

static bool is_fit(const char *text)
{
	struct preempt_module *module;
	bool fit;

	assert_int_equal(preempt_rewrite(text, strlen(text), KEPT, &module), 0);
	fit = !module->kernels[0].unfit_loops;
	preempt_module_destroy(module);
	return fit;
}

static void random_kernels_do_the_same(void **state)
{
	static const uint32_t blocks[][3] = {{32, 1, 1}, {7, 5, 1}, {40, 3, 1}, {1, 1, 1}};
	unsigned compared = 0, drawn = 0, wanted = getenv("GDEV_TEST_FULL") ? 200 : RANDOM_KERNELS;

	*in_the_middle = 0;
	for (; compared < wanted && drawn < 8 * wanted; drawn++) {
		struct random_kernel k = {.grid = 1 + draw(5)};
		char name[64], *text;

		snprintf(name, sizeof(name), "random kernel of %lu", (unsigned long)luck);
		memcpy(k.block, blocks[draw(4)], sizeof(k.block));
		text = draw_kernel();
		if (is_fit(text)) {
			compare_text(&k, text, name);
			compared++;
		}
		free(text);
	}
	print_message("# %u of %u are fit; %u blocks left in the middle\n", compared, drawn,
		*in_the_middle);
	assert_int_equal(compared, wanted);
	assert_true(*in_the_middle > 0);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(it_is_known_which_kernels_are_fit),
		cmocka_unit_test(written_kernels_do_the_same),
		cmocka_unit_test(kernels_of_files_do_the_same),
		cmocka_unit_test(random_kernels_do_the_same),
	};

	luck = argc > 1 ? strtoull(argv[1], NULL, 10) : 1;
	in_the_middle = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
