/* SPDX-License-Identifier: MIT
 *
 * Functions that call themselves: structures by value, pointers into a caller's frame, calls by a table, and the end of the
 * stack.
 */
#include "harness.h"

#include <stdlib.h>

static struct program program;

static int load_program(void **state)
{
	load_file(&program, "calls.ptx");
	return 0;
}

static int unload_program(void **state)
{
	unload(&program);
	return 0;
}

static enum outcome launch(const char *kernel, const void *params)
{
	return run(&program, (struct run){.kernel = kernel, .block = {64}, .params = params});
}

static void structures_go_there_and_back(void **state)
{
	static double o[64];
	void *params[1] = {o};

	assert_int_equal(launch("parts", params), RAN);
	for (int t = 0; t < 64; t++) {
		int depth = t % 7, sum = depth * (depth + 1) / 2;

		assert_true(o[t] == (double)t / (1 << depth) + 1000.0 * (t + sum) +
					    1000000.0 * (100 - sum) + depth * 1e9);
	}
}

static int compare(const void *a, const void *b)
{
	return *(const int *)a - *(const int *)b;
}

static void a_call_reaches_its_callers_frames(void **state)
{
	static int o[64];
	void *params[1] = {o};

	assert_int_equal(launch("sorts", params), RAN);
	for (int t = 0; t < 64; t++) {
		int numbers[8], sum = 0;

		for (int i = 0; i < 8; i++)
			numbers[i] = ((t ^ 1) * 37 + i * 61) % 101;
		qsort(numbers, 8, sizeof(*numbers), compare);
		for (int i = 0; i < 8; i++)
			sum += (i + 1) * numbers[i];
		assert_int_equal(o[t], sum);
	}
}

static int half(int n, int turn);

static int down(int n, int turn)
{
	return n <= 1 ? turn : 3 + (n & 1 ? half : down)(n - 1, turn + 1);
}

static int half(int n, int turn)
{
	return n <= 1 ? -turn : 5 * (n % 3 == 0 ? half : down)(n / 2, turn + 1);
}

static void tables_lead_back(void **state)
{
	static int o[64];
	void *params[1] = {o};

	assert_int_equal(launch("table", params), RAN);
	for (int t = 0; t < 64; t++)
		assert_int_equal(o[t], (t & 1 ? half : down)(t, 0));
}

static void the_stack_has_an_end(void **state)
{
	static int o[64];
	struct {
		void *o;
		int n;
	} params = {o, 200};
	int wanted = 1;

	for (int n = 1; n <= params.n; n++)
		wanted = (int)((unsigned)wanted * 5) ^ n;
	assert_int_equal(launch("dive", &params), RAN);
	for (int t = 0; t < 64; t++)
		assert_int_equal(o[t], wanted);
	params.n = 1000000;
	assert_int_equal(launch("dive", &params), OVERFLOWED);
	params.n = 200;
	assert_int_equal(launch("dive", &params), RAN);
}

/* Frames of 200000 bytes, of which the stack of harness.c has room for one. */
static const char wide_text[] =
	".version 8.0\n.target sm_75\n.address_size 64\n"
	".visible .func (.param .b32 r) wide(.param .b32 n)\n{\n"
	"	.reg .b32 %n, %v, %w;\n	.reg .pred %q;\n	.local .b8 bytes[200000];\n"
	"	ld.param.b32 %n, [n];\n	mov.b32 %v, 0;\n"
	"	setp.eq.u32 %q, %n, 0;\n	@%q bra out;\n"
	"	st.volatile.local.b8 [bytes+100000], %n;\n	sub.u32 %v, %n, 1;\n"
	"	{\n	.param .b32 p;\n	.param .b32 s;\n	st.param.b32 [p], %v;\n"
	"	call.uni (s), wide, (p);\n	ld.param.b32 %v, [s];\n	}\n"
	"	ld.volatile.local.u8 %w, [bytes+100000];\n	add.u32 %v, %v, %w;\n"
	"out:\n	st.param.b32 [r], %v;\n	ret;\n}\n"
	".visible .entry widely(.param .b64 o, .param .b32 n)\n{\n"
	"	.reg .b64 %o;\n	.reg .b32 %n;\n"
	"	ld.param.b64 %o, [o];\n	ld.param.b32 %n, [n];\n"
	"	{\n	.param .b32 p;\n	.param .b32 s;\n	st.param.b32 [p], %n;\n"
	"	call.uni (s), wide, (p);\n	ld.param.b32 %n, [s];\n	}\n"
	"	st.b32 [%o], %n;\n	ret;\n}\n";

static void a_frame_that_has_no_room_is_not_entered(void **state)
{
	struct program wide = {0};
	static int o;
	struct {
		void *o;
		int n;
	} params = {&o, 0};
	const struct run once = {.kernel = "widely", .params = &params};

	load_text(&wide, wide_text);
	assert_int_equal(run(&wide, once), RAN);
	params.n = 1;
	assert_int_equal(run(&wide, once), OVERFLOWED);
	unload(&wide);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(structures_go_there_and_back),
		cmocka_unit_test(a_call_reaches_its_callers_frames),
		cmocka_unit_test(tables_lead_back),
		cmocka_unit_test(the_stack_has_an_end),
		cmocka_unit_test(a_frame_that_has_no_room_is_not_entered),
	};

	return cmocka_run_group_tests(tests, load_program, unload_program);
}
