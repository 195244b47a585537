/* SPDX-License-Identifier: MIT
 *
 * Kernels rewritten to leave between blocks (device/preempt), run on the software GPU, with this test in the place of the
 * scheduler: it launches slices of random sizes, runs their blocks in a random order, tells them to leave between two of them,
 * and launches what is left. Then the kernel as it was written runs its blocks one after the other: memory must be the same
 * to the bit.
 *
 * The kernels are those of tests/ptx/kernels and of examples/, with arguments that mean nothing (what faults with these is
 * left out), half of them unless GDEV_TEST_FULL is set, and random ones. test_preempt NUMBER draws other random moments.
 */
#include "trial.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { RANDOM_KERNELS = 4 };

/* ---- the scheduler ---- */

static void shuffle(uint32_t *list, uint32_t count)
{
	for (uint32_t i = 0; i < count; i++)
		list[i] = i;
	for (uint32_t i = count; i > 1; i--) {
		uint32_t other = (uint32_t)(random_draw(&luck) % i), kept = list[i - 1];

		list[i - 1] = list[other];
		list[other] = kept;
	}
}

/* Launches `count` blocks in any order, which are those of the grid that are to come next. */
static void launch(struct trial *t, uint32_t count)
{
	uint32_t begun = (uint32_t)(t->counter >> 32);
	struct preempt_launch hidden = {.counter = (uintptr_t)&t->counter,
		.left = (uintptr_t)&t->left,
		.base = begun - t->done,
		.generation = t->generation,
		.grid = {t->grid[0], t->grid[1], t->grid[2]}};
	uint32_t order[TRIAL_BLOCKS],
		stop = (uint32_t)(random_draw(&luck) % (count + count / 2 + 1));
	uint32_t grid[3] = {count, 1, 1}, left = t->left;

	memcpy(t->params + t->made->param_offset, &hidden, sizeof(hidden));
	shuffle(order, count);
	for (uint32_t i = 0; i < count; i++) {
		if (i == stop)
			memcpy(&t->counter, &t->generation, sizeof(t->generation));
		trial_run(t, true, grid, order[i], 1);
		t->done += i < stop;
		left += i >= stop;
		if (t->left != left)
			_exit(i < stop ? 4 : 5);
	}
	t->generation += stop < count;
}

static void schedule(struct trial *t)
{
	t->generation = t->left = UINT32_MAX; /* all of them wrap around */
	t->counter = (uint64_t)(UINT32_MAX - 3) << 32;
	while (t->done < t->blocks) {
		uint32_t count = 1 + (uint32_t)(random_draw(&luck) % t->blocks);

		launch(t, count < t->blocks - t->done ? count : t->blocks - t->done);
	}
}

/* ---- kernels of files ---- */

/* False: with these arguments it cannot run. */
static bool try_kernel(const struct preempt_module *module, const char *name)
{
	struct trial t;
	bool compared;

	if (!trial_of_file(&t, module, module->text, name, PREEMPT_SUFFIX, NULL, NULL))
		return false;
	compared = trial_compare(&t, name, schedule);
	trial_of_file_end(&t);
	return compared;
}

static void compare_files(const char *const *paths, unsigned least)
{
	unsigned compared = 0, fit = 0;

	for (; *paths; paths++) {
		struct preempt_module *module = trial_rewrite(*paths, 0);

		for (size_t k = 0; k < module->count; k++) {
			if (module->kernels[k].unfit) {
				print_message("# %s: %s: %s\n", strrchr(*paths, '/') + 1,
					module->kernels[k].name, module->kernels[k].unfit);
				continue;
			}
			/* Compiling takes long: half of them are enough but for --full. */
			if (++fit % 2 || getenv("GDEV_TEST_FULL"))
				compared += try_kernel(module, module->kernels[k].name);
		}
		preempt_module_destroy(module);
	}
	print_message("# %u kernels are fit, %u ran with these arguments\n", fit, compared);
	assert_true(compared >= least);
}

static void kernels_of_compilers_do_the_same(void **state)
{
	static const char *const paths[] = {KERNELS "/nvcc.ptx", NULL};

	compare_files(paths, 8);
}

static void kernels_of_examples_do_the_same(void **state)
{
	static const char *const paths[] = {EXAMPLES "/mmul.ptx", EXAMPLES "/bfs.ptx",
		EXAMPLES "/lud.ptx", EXAMPLES "/nw.ptx", EXAMPLES "/srad2.ptx",
		EXAMPLES "/../bench/cpu/scan.ptx", EXAMPLES "/../bench/cpu/radix.ptx", NULL};

	compare_files(paths, 6);
}

/* ---- random kernels ---- */

/* False: it is not fit. */
static bool compare_random(const struct random_kernel *k)
{
	char *text = random_kernel_text(k), name[64];
	struct preempt_module *module;
	struct trial t;
	bool fit;

	assert_int_equal(preempt_rewrite(text, strlen(text), 0, &module), 0);
	free(text);
	fit = !module->kernels[0].unfit;
	if (fit) {
		snprintf(name, sizeof(name), "random kernel %lu", (unsigned long)k->seed);
		trial_of_random(&t, k, module, module->text, PREEMPT_SUFFIX);
		assert_true(trial_compare(&t, name, schedule));
		trial_of_random_end(&t);
	}
	preempt_module_destroy(module);
	return fit;
}

static void random_kernels_do_the_same(void **state)
{
	struct random_kernel *k = calloc(1, sizeof(*k));
	unsigned compared = 0;

	assert_non_null(k);
	for (unsigned i = 0; compared < RANDOM_KERNELS && i < 200; i++) {
		random_kernel_draw(k, i + 1,
			RANDOM_COLLECTIVES | RANDOM_BARRIERS | RANDOM_DIVERGENT_BARRIERS |
				RANDOM_EXITS);
		if (k->grid <= TRIAL_BLOCKS && !k->large)
			compared += compare_random(k);
	}
	free(k);
	assert_int_equal(compared, RANDOM_KERNELS);
}

/* ---- what is fit, and what is not ---- */

#define HEAD ".version 7.0\n.target sm_70\n.address_size 64\n"
#define ENTRY                                                                                      \
	HEAD ".visible .entry k(.param .u64 at) {\n"                                               \
	     ".reg .pred %p<9>; .reg .b32 %r<9>; .reg .b64 %d<9>; .shared .align 4 .b8 s[64];\n"   \
	     "ld.param.u64 %d1, [at]; cvta.to.global.u64 %d2, %d1; mov.u32 %r1, %ctaid.x;\n"

static const struct {
	const char *what, *text, *unfit; /* unfit: part of it; NULL: it is fit */
} cases[] = {
	{"nothing", HEAD ".entry k { ret; }", NULL},
	{"no parameters", HEAD ".entry k() { ret; }", NULL},
	{"an old text", ".version 4.0\n.target sm_30\n.address_size 64\n.entry k() { ret; }",
		"before version 4.1"},
	{"a loop that counts",
		ENTRY "mov.u32 %r2, 0;\n"
		      "L: ld.global.u32 %r3, [%d2]; add.u32 %r2, %r2, 1; setp.lt.u32 %p1, %r2, 9;\n"
		      "@%p1 bra L; ret; }",
		NULL},
	{"the last block to come sums up",
		ENTRY "membar.gl; atom.global.inc.u32 %r2, [%d2], 77; setp.ne.u32 %p1, %r2, 77;\n"
		      "@%p1 ret; st.global.u32 [%d2+4], %r2; ret; }",
		NULL},
	{"a queue of work",
		ENTRY "L: atom.global.add.u32 %r2, [%d2], 1; setp.lt.u32 %p1, %r2, 99;\n"
		      "@%p1 bra L; ret; }",
		NULL},
	{"an addition by compare-and-swap",
		ENTRY "ld.global.u32 %r2, [%d2];\n"
		      "L: add.u32 %r3, %r2, 3; mov.u32 %r4, %r2;\n"
		      "atom.global.cas.b32 %r2, [%d2], %r4, %r3; setp.ne.u32 %p1, %r2, %r4;\n"
		      "@%p1 bra L; ret; }",
		NULL},
	{"a reduction in shared memory",
		ENTRY "mov.u32 %r2, 8; mov.u32 %r4, s;\n"
		      "L: bar.sync 0; ld.shared.u32 %r3, [%r4]; st.shared.u32 [%r4+4], %r3;\n"
		      "shr.u32 %r2, %r2, 1; setp.ne.u32 %p1, %r2, 0; @%p1 bra L; ret; }",
		NULL},
	{"a scan that looks back",
		ENTRY "L: ld.volatile.global.u32 %r2, [%d2]; setp.eq.u32 %p1, %r2, 0;\n"
		      "@%p1 bra L; ret; }",
		"wait"},
	{"a look past the first cache",
		ENTRY "L: ld.global.cg.u32 %r2, [%d2]; setp.eq.u32 %p1, %r2, 0;\n"
		      "@%p1 bra L; ret; }",
		"wait"},
	{"a flag that is copied into shared memory",
		ENTRY "mov.u32 %r4, s;\n"
		      "L: cp.async.ca.shared.global [%r4], [%d2], 4; cp.async.wait_all;\n"
		      "ld.shared.u32 %r3, [%r4]; setp.eq.u32 %p1, %r3, 0; @%p1 bra L; ret; }",
		"wait"},
	{"a flag in a surface",
		HEAD ".global .surfref f;\n.entry k() { .reg .pred %p1; .reg .b32 %r<2>;\n"
		     "mov.u32 %r1, 0;\n"
		     "L: suld.b.1d.b32.trap {%r1}, [f, {%r1}]; setp.eq.u32 %p1, %r1, 0;\n"
		     "@%p1 bra L; ret; }",
		"wait"},
	{"a barrier of the grid, by hand",
		ENTRY "atom.global.add.u32 %r2, [%d2], 1;\n"
		      "L: atom.global.add.u32 %r3, [%d2], 0; setp.lt.u32 %p1, %r3, 99;\n"
		      "@%p1 bra L; ret; }",
		"wait"},
	{"a lock",
		ENTRY "L: atom.global.cas.b32 %r2, [%d2], 0, 1; setp.ne.u32 %p1, %r2, 0;\n"
		      "@%p1 bra L; st.global.u32 [%d2], 0; ret; }",
		"wait"},
	{"a flag between barriers",
		ENTRY
		"L: bar.sync 0; ld.global.u32 %r2, [%d2]; bar.sync 0; setp.eq.u32 %p1, %r2, 0;\n"
		"@%p1 bra L; ret; }",
		"wait"},
	{"a flag that comes through shared memory",
		ENTRY
		"mov.u32 %r4, s;\n"
		"L: ld.volatile.global.u32 %r2, [%d2]; st.shared.u32 [%r4], %r2; bar.sync 0;\n"
		"ld.shared.u32 %r3, [%r4]; setp.eq.u32 %p1, %r3, 0; @%p1 bra L; ret; }",
		"wait"},
	{"a loop with two ways in",
		ENTRY "setp.eq.u32 %p2, %r1, 0; @%p2 bra M;\n"
		      "L: ld.global.u32 %r2, [%d2];\n"
		      "M: ld.volatile.global.u32 %r3, [%d2]; setp.eq.u32 %p1, %r3, 0;\n"
		      "@%p1 bra L; ret; }",
		"wait"},
	{"how much shared memory there is", ENTRY "mov.u32 %r2, %dynamic_smem_size; ret; }",
		"shared memory"},
	{"the grid's number", ENTRY "mov.u64 %d3, %gridid; ret; }", "grid's number"},
	{"a cluster", ENTRY "mov.u32 %r2, %clusterid.x; ret; }", "cluster"},
	{"a barrier of a cooperative grid", ENTRY "mov.u32 %r2, %envreg2; ret; }", "whole grid"},
	{"a grid that follows", ENTRY "griddepcontrol.wait; ret; }", "other grids"},
	{"the index as a vector", ENTRY "mov.v4.u32 {%r2, %r3, %r4, %r5}, %ctaid; ret; }", "know"},
	{"the index in a function",
		HEAD ".func f() { .reg .b32 %r<2>; mov.u32 %r1, %ctaid.x; ret; }\n"
		     ".entry k() { call f, (); ret; }",
		"calls a function"},
	{"a function that nobody has", HEAD ".extern .func f();\n.entry k() { call f, (); ret; }",
		"does not have"},
	{"a function by its address",
		HEAD ".entry k(.param .u64 at) { .reg .b64 %d1; .param .b32 a;\n"
		     "ld.param.u64 %d1, [at]; st.param.b32 [a], 1;\n"
		     "P : .callprototype _ (.param .b32 _);\ncall %d1, (a), P; ret; }",
		"by address"},
	{"a copy of a box of a tensor",
		ENTRY "cp.async.bulk.prefetch.tensor.1d.L2.global [%d2, {%r2}]; ret; }", "tensors"},
	{"our names", HEAD ".entry k() { .reg .b32 %__gdev_r1; ret; }", "names"},
};

static void it_is_known_which_kernels_are_fit(void **state)
{
	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		struct preempt_module *module = NULL;
		const char *unfit;
		int error = preempt_rewrite(cases[i].text, strlen(cases[i].text), 0, &module);

		if (error)
			fail_msg("%s: %d", cases[i].what, error);
		unfit = module->kernels[0].unfit;
		if (cases[i].unfit ? !unfit || !strstr(unfit, cases[i].unfit) : unfit != NULL)
			fail_msg("%s: %s", cases[i].what, unfit ? unfit : "it is fit");
		assert_int_equal(!module->text, cases[i].unfit != NULL);
		preempt_module_destroy(module);
	}
}

/* Where arrays in dynamic shared memory begin depends on how they are aligned: ours has to begin where the kernel's does. */
static void our_shared_memory_is_aligned_as_the_kernels(void **state)
{
#define WITH_DYNAMIC(name, array)                                                                  \
	".entry " name "() { .reg .b32 %a; .shared .b8 own[4]; mov.u32 %a, own; " array " ret; }\n"
	static const char text[] = HEAD
		".extern .shared .align 8 .b8 few[];\n.extern .shared .align 128 .b8 many[];\n" WITH_DYNAMIC(
			"none", "") WITH_DYNAMIC("of_8", "mov.u32 %a, few;")
			WITH_DYNAMIC("of_128", "mov.u32 %a, many;")
				WITH_DYNAMIC("both", "mov.u32 %a, few; mov.u32 %a, many;");
	static const char *const uses[] = {"shared16;", "shared8;", "shared128;", "shared128;"};
	struct preempt_module *module;
	const char *at;

	assert_int_equal(preempt_rewrite(text, strlen(text), 0, &module), 0);
	assert_int_equal(module->count, 4);
	assert_non_null(strstr(module->text, ".extern .shared .align 8 .b8 __gdev_shared8[]"));
	assert_non_null(strstr(module->text, ".extern .shared .align 128 .b8 __gdev_shared128[]"));
	at = module->text;
	for (size_t k = 0; k < 4; k++) {
		assert_null(module->kernels[k].unfit);
		at = strstr(at, "mov.u32 %__gdev_r4, __gdev_");
		assert_non_null(at);
		at += strlen("mov.u32 %__gdev_r4, __gdev_");
		assert_memory_equal(at, uses[k], strlen(uses[k]));
	}
	preempt_module_destroy(module);
}

static void other_texts_are_refused(void **state)
{
	static const char *const texts[] = {"", "nothing", HEAD ".entry k() {", HEAD "wrong"};
	struct preempt_module *module;

	for (size_t i = 0; i < sizeof(texts) / sizeof(*texts); i++)
		if (texts[i][0])
			assert_int_not_equal(
				preempt_rewrite(texts[i], strlen(texts[i]), 0, &module), 0);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(it_is_known_which_kernels_are_fit),
		cmocka_unit_test(our_shared_memory_is_aligned_as_the_kernels),
		cmocka_unit_test(other_texts_are_refused),
		cmocka_unit_test(kernels_of_compilers_do_the_same),
		cmocka_unit_test(kernels_of_examples_do_the_same),
		cmocka_unit_test(random_kernels_do_the_same),
	};

	luck = argc > 1 ? strtoull(argv[1], NULL, 10) : 1;
	return cmocka_run_group_tests(tests, NULL, NULL);
}
