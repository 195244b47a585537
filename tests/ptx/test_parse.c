/* SPDX-License-Identifier: MIT
 *
 * What the parser refuses, what it says, and what it finds in a module.
 */
#include "harness.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define HEAD ".version 8.7\n.target sm_90\n.address_size 64\n"
#define BODY(text)                                                                                 \
	HEAD ".entry k(.param .u64 p)\n{\n.reg .b32 %r<9>;\n.reg .pred %p<3>;\n" text "\nret;\n}\n"

static const struct {
	const char *text;
	int error;
	const char *says;
} refused[] = {
	{"", -EINVAL, "line 1; error   : Missing .version"},
	{"hello", -EINVAL, "Missing .version"},
	{BODY("add.s32 %r1, %r2;"), -EINVAL, "line 8; error   : Arguments mismatch"},
	{BODY("add.s32 %r1, %r2, %r99;"), -EINVAL, "Unknown symbol '%r99'"},
	{BODY("frob.s32 %r1;") "}", -EINVAL, "line 11; error   : Parsing error near '}'"},
	{BODY("frob.s32 %r1; {"), -EINVAL, "'}' expected"},
	{BODY("bra nowhere;"), -EINVAL, "Label 'nowhere' is not defined"},
	{BODY("@%r1 bra x; x:"), -EINVAL, "Predicate expected"},
	{BODY("mov.u32 5, %r1;"), -EINVAL, "Arguments mismatch"},
	{BODY("add.s32 %r1, %r2, %r3"), -EINVAL, "';' expected"},
	{BODY(".reg .b32 %r<9>;"), -EINVAL, "Duplicate definition"},
	{BODY("{"), -EINVAL, "'}' expected"},
	{HEAD ".global .u32 x[2] = {1, 2, 3};", -EINVAL, "Too many initial values"},
	{HEAD ".global .align 3 .u32 x;", -EINVAL, "power of two"},
	{HEAD ".entry k() { .reg .b32 %r<99999999>; }", -EINVAL, "number of registers"},
	{BODY("ld.global.b32 %r1, [[%r2]];"), -EINVAL, "Parsing error near '['"},
	{BODY("setp.eq.s32 %p1|%p2|%p1, %r1, %r2;"), -EINVAL, "Bad pair of results"},
	{HEAD ".global .u32 x; .global .u8 y = 0(x);", -EINVAL, "mask expected"},
	{HEAD ".extern .global .b8 x[4] = {1, 2, 3, 4};\n.global .b8 x[4096];", -EINVAL,
		"line 4; error   : Initial value of 'x', which is declared extern"},
	{HEAD "/* open", 0, ""},
};

static void malformed_text_is_refused_with_its_line(void **state)
{
	for (size_t i = 0; i < sizeof(refused) / sizeof(*refused); i++) {
		struct program p;
		int error = error_of(&p, refused[i].text, NULL);

		if (error != refused[i].error || !strstr(p.log, refused[i].says))
			fail_msg("row %zu: %d, %s", i, error, p.log);
		if (error)
			assert_non_null(
				strstr(p.log, "fatal   : Ptx assembly aborted due to errors"));
	}
}

/* It does not go as deep as the text does: that may be longer than the stack. */
static void what_is_nested_without_end_is_refused(void **state)
{
	static const char *const repeated[] = {"[", "_|", "%p1|", "{"};
	static const char head[] = HEAD ".entry k()\n{\n.reg .pred %p<3>;\nsetp.eq.s32 ";
	enum { TIMES = 2 << 20 };
	char *text = malloc(sizeof head + 4ul * TIMES);

	assert_non_null(text);
	for (size_t i = 0; i < sizeof repeated / sizeof *repeated; i++) {
		struct program p;
		char *at = stpcpy(text, head);

		for (unsigned k = 0; k < TIMES; k++)
			at = stpcpy(at, repeated[i]);
		assert_int_equal(error_of(&p, text, NULL), -EINVAL);
	}
	free(text);
}

/* A kernel that the compiler does not know keeps nobody from the others of its module. */
static void unknown_instructions_are_of_the_kernels_that_reach_them(void **state)
{
	static const char text[] = HEAD
		".func f()\n{ .reg .b32 %r<9>; { .reg .b32 x; frob.s32 {x, %r1}, \"}\"; later: }\n}\n"
		".entry a()\n{ call f; /* } */ ret; }\n"
		".entry b()\n{ .reg .b32 %r<9>; add.s32.frob %r1, %r2, %r3; }\n"
		".entry k() { .reg .b32 %r<9>; mov.b32 %r1, 1; ret; }\n";
	static const char said[] = "Instruction 'frob.s32' is not supported by the software GPU";
	struct program p;

	assert_int_equal(error_of(&p, text, "k"), 0);
	assert_non_null(strstr(p.log, said));
	assert_int_equal(error_of(&p, text, "a"), -ENOTSUP);
	assert_non_null(strstr(p.log, "line 5; error   : Instruction 'frob.s32'"));
	assert_int_equal(error_of(&p, text, "b"), -ENOTSUP);
	load_text(&p, text);
	assert_string_equal(ptx_kernel_find(p.module, "a")->refused, said);
	assert_int_equal(ptx_kernel_find(p.module, "a")->refused_line, 5);
	assert_int_equal(ptx_kernel_find(p.module, "b")->refused_line, 10);
	assert_null(ptx_kernel_find(p.module, "k")->refused);
	unload(&p);
}

static void unknown_types_are_refused_when_compiling(void **state)
{
	struct program p;

	assert_int_equal(error_of(&p, BODY("add.b8 %r1, %r2, %r3;"), NULL), 0);
	assert_int_equal(error_of(&p, BODY("dp4a.u64.u64 %r1, %r2, %r3, %r4;"), "k"), -ENOTSUP);
	assert_non_null(
		strstr(p.log, "line 8; error   : Instruction 'dp4a.u64.u64' is not supported"));
}

/* In a function that calls itself threads go their own ways. */
static void barriers_in_recursion_are_refused(void **state)
{
	static const char text[] =
		HEAD ".func f() { call f; bar.sync 0; ret; }\n.entry k() { call f; ret; }";
	struct program p;

	assert_int_equal(error_of(&p, text, "k"), -ENOTSUP);
	assert_non_null(strstr(p.log, "threads wait for each other in 'f'"));
}

static void a_short_log_is_cut(void **state)
{
	char text[20];
	struct ptx_log log = {text, sizeof(text), 0};
	struct ptx_module *module;

	memset(text, 'x', sizeof(text));
	assert_int_equal(ptx_parse("hello", 5, &log, &module), -EINVAL);
	assert_int_equal(log.used, 19);
	assert_int_equal(text[19], 0);
}

static void kernels_and_variables_are_described(void **state)
{
	static const char text[] = HEAD
		".const .align 4 .u32 c[3] = {1, 2, 3};\n.global .u64 g;\n.shared .u32 m[4];\n"
		".visible .entry one(.param .u8 a, .param .align 16 .b8 b[32], .param .u64 .ptr .align 1 c)\n"
		".maxntid 128, 2, 1\n{ .shared .align 8 .b8 s[100]; .local .b8 l[12]; .reg .b32 %r<3>;\n"
		"mov.u32 %r1, s; mov.u32 %r2, m; mov.u32 %r2, l; ret; }\n"
		".entry two() .reqntid 8, 4 { ret; }\n";
	struct program p;
	uint64_t offset, size;
	const struct ptx_kernel *k;

	load_text(&p, text);
	assert_int_equal(ptx_kernel_count(p.module), 2);
	assert_null(ptx_kernel_at(p.module, 2));
	k = ptx_kernel_find(p.module, "one");
	assert_non_null(k);
	assert_int_equal(k->param_count, 3);
	assert_int_equal(k->params[1].offset, 16);
	assert_int_equal(k->params[2].offset, 48);
	assert_int_equal(k->param_bytes, 56);
	assert_true(k->shared_bytes >= 116);
	assert_int_equal(k->local_bytes, 12);
	assert_int_equal(k->const_bytes, 12);
	assert_int_equal(k->max_threads, 256);
	assert_int_equal(k->ptx_version, 87);
	assert_int_equal(k->target, 90);
	k = ptx_kernel_find(p.module, "two");
	assert_int_equal(k->required_block[0], 8);
	assert_int_equal(k->required_block[1], 4);
	assert_int_equal(k->required_block[2], 1);
	assert_int_equal(ptx_global_find(p.module, "c", &offset, &size), 0);
	assert_int_equal(size, 12);
	assert_int_equal(((uint32_t *)((char *)p.globals + offset))[2], 3);
	assert_int_equal(ptx_global_find(p.module, "none", &offset, &size), -ENOENT);
	unload(&p);
}

static void a_damaged_object_is_refused(void **state)
{
	struct program p;
	uint32_t block[3] = {8, 1, 1};
	const struct ptx_code *code;
	void *object;
	size_t size;

	load_text(&p, BODY(""));
	assert_int_equal(
		ptx_compile(p.module, ptx_kernel_at(p.module, 0), block, NULL, &object, &size), 0);
	assert_int_equal(ptx_link(object, size - 1, &code), -EINVAL);
	assert_int_equal(ptx_link(object, 3, &code), -EINVAL);
	((char *)object)[size / 2] ^= 1;
	assert_int_equal(ptx_link(object, size, &code), -EINVAL);
	((char *)object)[size / 2] ^= 1;
	char *odd = malloc(size + 1);
	assert_non_null(odd);
	memcpy(odd + 1, object, size);
	assert_int_equal(ptx_link(odd + 1, size, &code), 0);
	ptx_unlink(code);
	free(odd);
	for (int again = 0; again < 2; again++) { /* a cached object links as often as wanted */
		assert_int_equal(ptx_link(object, size, &code), 0);
		ptx_unlink(code);
	}
	free(object);
	unload(&p);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(malformed_text_is_refused_with_its_line),
		cmocka_unit_test(what_is_nested_without_end_is_refused),
		cmocka_unit_test(unknown_instructions_are_of_the_kernels_that_reach_them),
		cmocka_unit_test(unknown_types_are_refused_when_compiling),
		cmocka_unit_test(barriers_in_recursion_are_refused),
		cmocka_unit_test(a_short_log_is_cut),
		cmocka_unit_test(kernels_and_variables_are_described),
		cmocka_unit_test(a_damaged_object_is_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
