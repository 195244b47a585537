/* SPDX-License-Identifier: MIT
 *
 * Conversions that the interpreter does not know: to numbers of few bits, against a search among all of them, and packing.
 */
#include "harness.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { COUNT = 256 };

/* Numbers of 8 bits, or tf32 by its upper 19 bits. */
struct small {
	unsigned bits, mantissa;
	int bias;
	bool infinite; /* the largest exponent is that of infinity and of what is no number */
};

static const struct small e4m3 = {8, 3, 7, false}, e5m2 = {8, 2, 15, true},
			  tf32 = {19, 10, 127, true};

static double value_of(const struct small *s, uint32_t code)
{
	unsigned exponents = s->bits - 1 - s->mantissa;
	uint32_t m = code & ((1u << s->mantissa) - 1),
		 e = code >> s->mantissa & ((1u << exponents) - 1);
	double v;

	if (s->infinite ? e == (1u << exponents) - 1 : (code & 0x7f) == 0x7f)
		v = s->infinite && !m ? (double)INFINITY : (double)NAN;
	else
		v = e ? ldexp(m + (1 << s->mantissa), (int)e - s->bias - (int)s->mantissa)
		      : ldexp(m, 1 - s->bias - (int)s->mantissa);
	return code >> (s->bits - 1) & 1 ? -v : v;
}

enum way { EVEN, AWAY, ZERO };

/* The code of the finite number that is nearest, or next towards zero; beyond all of them the largest. */
static uint32_t search(const struct small *s, double d, enum way way)
{
	uint32_t best = 0, half = 1u << (s->bits - 1);
	double a = fabs(d), largest = 0;

	for (uint32_t code = 0; code < half; code++)
		if (isfinite(value_of(s, code)))
			largest = fmax(largest, value_of(s, code));
	a = fmin(a, largest);
	for (uint32_t code = 0; code < half; code++) {
		double v = value_of(s, code), w = value_of(s, best);

		if (!isfinite(v) || (way == ZERO && v > a))
			continue;
		if (fabs(v - a) < fabs(w - a) ||
			(fabs(v - a) == fabs(w - a) && (way == AWAY ? v > w : !(code & 1))))
			best = code;
	}
	return best | (signbit(d) ? half : 0);
}

static float inputs[COUNT][2];
static uint32_t outputs[COUNT];

static uint32_t drawn(uint32_t n)
{
	n = (n ^ n >> 15) * 2246822519u;
	n = (n ^ n >> 13) * 3266489917u;
	return n ^ n >> 16;
}

static void fill_inputs(void)
{
	static const float edges[] = {0, 1, 0.5f, 448, 464, 465, 480, 57344, 61440, 61441, 65504,
		1e30f, INFINITY, NAN, 0x1p-9f, 0x1p-10f, 0x1.8p-10f, 0x1p-16f, 0x1p-17f, 0x1.8p-17f,
		0x1p-140f, 0x1p-130f, 1.0625f, 1.1875f, 0x1.002p0f, 0x1.006p0f, 0x1.001p0f,
		3.4e38f};
	enum { EDGES = sizeof(edges) / sizeof(*edges) };

	for (unsigned k = 0; k < 2 * COUNT; k++) {
		uint32_t r = drawn(k);
		float f = ldexpf((float)(r & 0xffff) / 0x10000 + 1, (int)(r >> 16 & 63) - 32);

		if (k < 2 * EDGES)
			f = edges[k / 2];
		inputs[k / 2][k % 2] = (k < 2 * EDGES ? k & 1 : r >> 31) ? -f : f;
	}
}

/* `text` has the inputs in %f0 and %f1, and as whole numbers in %a0 and %a1, and leaves its result in %r. */
static void run_text(const char *text)
{
	char whole[2048];
	struct program program;
	void *params[] = {inputs, outputs};

	snprintf(whole, sizeof(whole),
		".version 8.7\n.target sm_90\n.address_size 64\n.visible .entry k(.param .u64 in, .param .u64 out)\n{\n"
		".reg .f32 %%f<2>;\n.reg .b32 %%r, %%a<3>, %%t;\n.reg .b16 %%h;\n.reg .b64 %%d<3>;\n"
		"ld.param.u64 %%d0, [in];\nld.param.u64 %%d1, [out];\nmov.u32 %%t, %%tid.x;\n"
		"mul.wide.u32 %%d2, %%t, 8;\nadd.u64 %%d0, %%d0, %%d2;\nld.global.v2.f32 {%%f0, %%f1}, [%%d0];\n"
		"ld.global.v2.b32 {%%a0, %%a1}, [%%d0];\nmul.wide.u32 %%d2, %%t, 4;\nadd.u64 %%d1, %%d1, %%d2;\n"
		"%s\nst.global.b32 [%%d1], %%r;\nret;\n}\n",
		text);
	load_text(&program, whole);
	assert_int_equal(
		run(&program, (struct run){.kernel = "k", .block = {COUNT}, .params = params}),
		RAN);
	unload(&program);
}

static void expect(const char *text, unsigned k, uint32_t got, uint32_t want)
{
	if (got != want)
		fail_msg("%s: of %a and %a: %#x, not %#x", text, (double)inputs[k][0],
			(double)inputs[k][1], got, want);
}

/* Of one number: -0 is no longer negative after .relu. */
static uint32_t eight(const struct small *s, float f, bool relu)
{
	return isnan(f) ? 0x7f : relu && f <= 0 ? 0 : search(s, (double)f, EVEN);
}

static void numbers_of_eight_bits_are_the_nearest(void **state)
{
	for (unsigned form = 0; form < 8; form++) {
		const struct small *s = form & 1 ? &e5m2 : &e4m3;
		bool relu = form & 2, halves = form & 4;
		char text[256];

		snprintf(text, sizeof(text), "%s cvt.rn.satfinite%s.%sx2.%s; cvt.u32.u16 %%r, %%h;",
			halves ? "cvt.rn.f16x2.f32 %a2, %f0, %f1;" : "", relu ? ".relu" : "",
			form & 1 ? "e5m2" : "e4m3", halves ? "f16x2 %h, %a2" : "f32 %h, %f0, %f1");
		run_text(text);
		for (unsigned k = 0; k < COUNT; k++) {
			float a = inputs[k][0], b = inputs[k][1];

			if (halves) {
				a = (float)(_Float16)a;
				b = (float)(_Float16)b;
			}
			expect(text, k, outputs[k], eight(s, a, relu) << 8 | eight(s, b, relu));
		}
	}
}

static void all_numbers_of_eight_bits_become_halves(void **state)
{
	for (unsigned form = 0; form < 4; form++) {
		const struct small *s = form & 1 ? &e5m2 : &e4m3;
		char text[256];

		snprintf(text, sizeof(text), "cvt.u16.u32 %%h, %%t; cvt.rn%s.f16x2.%sx2 %%r, %%h;",
			form & 2 ? ".relu" : "", form & 1 ? "e5m2" : "e4m3");
		run_text(text);
		for (unsigned k = 0; k < COUNT; k++) {
			double v = value_of(s, k);
			_Float16 h = (_Float16)(form & 2 && v <= 0 ? 0 : v);
			uint16_t want;

			memcpy(&want, &h, 2);
			expect(text, k, outputs[k] & 0xffff, isnan(v) ? 0x7fff : want);
			expect(text, k, outputs[k] >> 16, 0);
		}
	}
}

static void tf32_is_rounded_as_said(void **state)
{
	static const char *const forms[] = {"rna", "rna.satfinite", "rn", "rn.satfinite", "rn.relu",
		"rz", "rz.satfinite", "rz.relu"};

	for (size_t n = 0; n < sizeof(forms) / sizeof(*forms); n++) {
		enum way way = forms[n][1] == 'z' ? ZERO : forms[n][2] == 'a' ? AWAY : EVEN;
		char text[256];

		snprintf(text, sizeof(text), "cvt.%s.tf32.f32 %%r, %%f0;", forms[n]);
		run_text(text);
		for (unsigned k = 0; k < COUNT; k++) {
			float f = inputs[k][0];
			uint32_t want;

			/* The search is long: of a few that are not edges. */
			if (k > 40 && k % 16)
				continue;
			want = search(&tf32, (double)f, way) << 13;
			if (isinf(f) && !strstr(forms[n], "satfinite"))
				want = f > 0 ? 0x7f800000 : 0xff800000;
			if (f > 3e38f && !isinf(f) && !strstr(forms[n], "satfinite"))
				want = way == ZERO ? want : outputs[k] & 0xffffe000; /* either */
			if (strstr(forms[n], "relu") && f <= 0)
				want = 0;
			expect(text, k, outputs[k], isnan(f) ? 0x7fffffff : want);
		}
	}
}

static int32_t limited(int64_t v, int64_t low, int64_t high)
{
	return (int32_t)(v < low ? low : v > high ? high : v);
}

static void packed_numbers_are_the_nearest_that_fit(void **state)
{
	static const struct {
		const char *text;
		int32_t low, high;
		unsigned bits;
	} forms[] = {{"s16.s32 %r, %a0, %a1;", INT16_MIN, INT16_MAX, 16},
		{"u16.s32 %r, %a0, %a1;", 0, UINT16_MAX, 16},
		{"s8.s32.b32 %r, %a0, %a1, %t;", INT8_MIN, INT8_MAX, 8},
		{"u8.s32.b32 %r, %a0, %a1, %t;", 0, UINT8_MAX, 8}};

	for (size_t n = 0; n < sizeof(forms) / sizeof(*forms); n++) {
		/* Some are small. */
		char text[256];

		snprintf(text, sizeof(text),
			"shr.s32 %%a0, %%a0, 20; shl.b32 %%a1, %%a1, 9; shr.s32 %%a1, %%a1, 13; cvt.pack.sat.%s",
			forms[n].text);
		run_text(text);
		for (unsigned k = 0; k < COUNT; k++) {
			int32_t a, b;
			uint32_t mask = (1u << forms[n].bits) - 1, want;

			memcpy(&a, &inputs[k][0], 4);
			memcpy(&b, &inputs[k][1], 4);
			a >>= 20;
			b = (int32_t)((uint32_t)b << 9) >> 13;
			want = ((uint32_t)limited(a, forms[n].low, forms[n].high) & mask)
				       << forms[n].bits |
			       ((uint32_t)limited(b, forms[n].low, forms[n].high) & mask);
			if (forms[n].bits == 8)
				want |= k << 16;
			expect(text, k, outputs[k], want);
		}
	}
}

/* Without .ftz those that are rounded away from zero become the least number. */
static void subnormal_numbers_are_flushed_before_they_are_rounded(void **state)
{
	static const char *const forms[] = {"rm.ftz.f16", "rp.ftz.f16", "rn.ftz.bf16"};
	unsigned seen = 0;

	for (size_t n = 0; n < sizeof(forms) / sizeof(*forms); n++) {
		char text[256];

		snprintf(text, sizeof(text), "cvt.%s.f32 %%h, %%f0; cvt.u32.u16 %%r, %%h;",
			forms[n]);
		run_text(text);
		for (unsigned k = 0; k < COUNT; k++) {
			float f = inputs[k][0];

			if (fpclassify(f) != FP_SUBNORMAL)
				continue;
			expect(text, k, outputs[k], signbit(f) ? 0x8000 : 0);
			seen++;
		}
	}
	assert_int_not_equal(seen, 0);
}

/* Types in the order of another instruction, one that has no such modifier, or lacks one. */
static void what_is_no_instruction_is_refused(void **state)
{
	static const char *const forms[] = {"cvt.rn.e4m3x2.f16x2 %h, %r",
		"cvt.rn.satfinite.f16x2.e5m2x2 %r, %h", "cvt.rna.f32.tf32 %f, %r",
		"cvt.rn.sat.bf16.f32 %h, %f", "add.sat.bf16x2 %r, %r, %r",
		"mul.rn.sat.bf16 %h, %h, %h",
		"red.async.shared::cluster.mbarrier::complete_tx::bytes.add.u32 [s], %r, [s+8]",
		"st.async.relaxed.shared::cluster.mbarrier::complete_tx::bytes.u32 [s], %r, [s+8]"};

	for (size_t k = 0; k < sizeof(forms) / sizeof(*forms); k++) {
		struct program p;
		char text[512];

		snprintf(text, sizeof(text),
			".version 8.7\n.target sm_90\n.address_size 64\n.shared .b64 s[2];\n.visible .entry k()\n{\n"
			".reg .b32 %%r;\n.reg .b16 %%h;\n.reg .f32 %%f;\n%s;\nret;\n}\n",
			forms[k]);
		assert_int_equal(error_of(&p, text, "k"), -ENOTSUP);
		assert_non_null(strstr(p.log, "line 10"));
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(numbers_of_eight_bits_are_the_nearest),
		cmocka_unit_test(all_numbers_of_eight_bits_become_halves),
		cmocka_unit_test(tf32_is_rounded_as_said),
		cmocka_unit_test(packed_numbers_are_the_nearest_that_fit),
		cmocka_unit_test(subnormal_numbers_are_flushed_before_they_are_rounded),
		cmocka_unit_test(what_is_no_instruction_is_refused),
	};

	fill_inputs();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
