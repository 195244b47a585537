/* SPDX-License-Identifier: MIT
 *
 * Device printf, as a table of format, arguments and text.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/cleanup.h"
#include "device/cpu/print.h"

static char text[1 << 18];
static size_t used;

static void collect(void *owner, const char *bytes, size_t length)
{
	assert_true(used + length < sizeof text);
	memcpy(text + used, bytes, length);
	used += length;
	text[used] = '\0';
}

static int print(const char *format, const void *args)
{
	struct print_buffer buffer = {.out = collect};
	int count;

	used = 0;
	text[0] = '\0';
	count = print_format(&buffer, format, args);
	print_flush(&buffer);
	return count;
}

/* 32-bit arguments, one after the other. */
static void words_are_formatted(void **state)
{
	static const struct {
		const char *format;
		int32_t words[4];
		const char *expected;
		int count;
	} cases[] = {
		{"plain\n", {0}, "plain\n", 0},
		{"100%%", {0}, "100%", 0},
		{"%d %d %d", {1, -2, 3}, "1 -2 3", 3},
		{"%i", {-2147483647 - 1}, "-2147483648", 1},
		{"%u", {-1}, "4294967295", 1},
		{"%x %X %#x %o", {255, 255, 255, 8}, "ff FF 0xff 10", 4},
		{"[%5d][%-5d][%05d]", {42, 42, 42}, "[   42][42   ][00042]", 3},
		{"[%+d][% d][%.3d]", {42, 42, 7}, "[+42][ 42][007]", 3},
		{"[%*d][%-*d]", {4, 1, 4, 2}, "[   1][2   ]", 4},
		{"[%*d]", {-4, 1}, "[1   ]", 2},
		{"[%.*d]", {3, 5}, "[005]", 2},
		{"[%.*d]", {-3, 5}, "[5]", 2},
		{"%c%c%5c", {'a', 'b', 'c'}, "ab    c", 3},
		{"%hd %hhd", {70000, 300}, "70000 300", 2},
		{"%k %d", {5}, "%k 5", 1},
		{"tail %", {0}, "tail %", 0},
		{"tail %5", {0}, "tail %5", 0},
		{"%n%d", {6}, "%n6", 1},
	};

	for (size_t i = 0; i < array_length(cases); i++) {
		assert_int_equal(print(cases[i].format, cases[i].words), cases[i].count);
		assert_string_equal(text, cases[i].expected);
	}
}

static void eight_byte_arguments_are_at_their_alignment(void **state)
{
	const struct {
		int32_t a;
		double b;
		int32_t c;
		int64_t d;
		int32_t e;
		const char *f;
	} args = {1, 2.5, 3, -4000000000000, 5, "six"};

	assert_int_equal(print("%d %g %d %lld %d %s", &args), 6);
	assert_string_equal(text, "1 2.5 3 -4000000000000 5 six");
	assert_int_equal(print("%u %e %x %ld %u %.2s|", &args), 6);
	assert_string_equal(text, "1 2.500000e+00 3 -4000000000000 5 si|");
}

static void reals_and_pointers(void **state)
{
	const double values[] = {3.14159, -0.0, 1e300, 1.0 / 3};
	const uint64_t pointer = 0x2000001234;

	print("%f %.2f|%10.3e|%-8.3g|", values);
	assert_non_null(strstr(text, "3.141590 -0.00|1.000e+300|0.333   |"));
	print("%p", &pointer);
	assert_string_equal(text, "0x2000001234");
}

static void strings(void **state)
{
	const char *const args[] = {"abc", NULL, "defghi"};

	print("[%5s][%-8s][%.3s]", args);
	assert_string_equal(text, "[  abc][(null)  ][def]");
}

static void what_is_long_comes_out_in_pieces_and_whole(void **state)
{
	static char format[10001];
	int32_t width[] = {2000000000, 7};

	memset(format, 'x', sizeof format - 1);
	print(format, NULL);
	assert_string_equal(text, format);
	print("%*d", width);
	assert_int_equal(strlen(text), 1024);
	print("%999999999999d", width);
	assert_int_equal(strlen(text), 1024);
	assert_int_equal(print(NULL, NULL), -1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(words_are_formatted),
		cmocka_unit_test(eight_byte_arguments_are_at_their_alignment),
		cmocka_unit_test(reals_and_pointers),
		cmocka_unit_test(strings),
		cmocka_unit_test(what_is_long_comes_out_in_pieces_and_whole),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
