/* SPDX-License-Identifier: MIT
 *
 * Instructions against C, over operands chosen for their edges. All rows of a table become one
 * kernel; a row's text computes d from x, y and z.
 */
#include "harness.h"

#include <fenv.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef uint64_t (*reference)(uint64_t, uint64_t, uint64_t);

struct row {
	unsigned bits; /* of x, y, z, d */
	char kind;     /* i: bits equal; f: floating, any NaN equals any */
	const char *text;
	reference expect;
};

static float f32(uint64_t a)
{
	uint32_t b = (uint32_t)a;
	float f;

	memcpy(&f, &b, 4);
	return f;
}
static double f64(uint64_t a)
{
	double d;

	memcpy(&d, &a, 8);
	return d;
}
static uint64_t b32(float f)
{
	uint32_t b;

	memcpy(&b, &f, 4);
	return b;
}
static uint64_t b64(double d)
{
	uint64_t b;

	memcpy(&b, &d, 8);
	return b;
}

#define FN(name, e)                                                                                \
	static uint64_t name(uint64_t a, uint64_t b, uint64_t c)                                   \
	{                                                                                          \
		uint32_t x = (uint32_t)a, y = (uint32_t)b, z = (uint32_t)c;                        \
		int32_t sx = (int32_t)x, sy = (int32_t)y, sz = (int32_t)z;                         \
		(void)x, (void)y, (void)z, (void)sx, (void)sy, (void)sz;                           \
		return (e);                                                                        \
	}
#define FLOAT_FN(name, mode, e)                                                                    \
	static uint64_t name(uint64_t a, uint64_t b, uint64_t c)                                   \
	{                                                                                          \
		volatile float x = f32(a), y = f32(b), z = f32(c), r;                              \
		(void)x, (void)y, (void)z;                                                         \
		fesetround(mode);                                                                  \
		r = (e);                                                                           \
		fesetround(FE_TONEAREST);                                                          \
		return b32(r);                                                                     \
	}
#define DOUBLE_FN(name, mode, e)                                                                   \
	static uint64_t name(uint64_t a, uint64_t b, uint64_t c)                                   \
	{                                                                                          \
		volatile double x = f64(a), y = f64(b), z = f64(c), r;                             \
		(void)x, (void)y, (void)z;                                                         \
		fesetround(mode);                                                                  \
		r = (e);                                                                           \
		fesetround(FE_TONEAREST);                                                          \
		return b64(r);                                                                     \
	}

FN(add, x + y)
FN(sub, x - y)
FN(mul_lo, x *y)
FN(mul_hi_s, (uint32_t)((int64_t)sx *sy >> 32))
FN(mul_hi_u, (uint32_t)((uint64_t)x *y >> 32))
FN(mad_lo, x *y + z)
FN(div_s, y == 0 ? UINT32_MAX : sy == -1 ? 0 - x : (uint32_t)(sx / sy))
FN(div_u, y == 0 ? UINT32_MAX : x / y)
FN(rem_s, y == 0 ? UINT32_MAX : sy == -1 ? 0 : (uint32_t)(sx % sy))
FN(rem_u, y == 0 ? UINT32_MAX : x % y)
FN(abs_s, sx < 0 ? 0 - x : x)
FN(min_s, (uint32_t)(sx < sy ? sx : sy))
FN(max_u, x > y ? x : y)
FN(and_, x &y)
FN(cnot, !x)
FN(shl, y > 31 ? 0 : x << y)
FN(shr_u, y > 31 ? 0 : x >> y)
FN(shr_s, (uint32_t)(sx >> (y > 31 ? 31 : y)))
FN(lop3_96, x ^ y ^ z)
FN(lop3_e8, (x & y) | (y & z) | (x & z))
FN(popc, (uint64_t)__builtin_popcount(x))
FN(clz, x ? (uint64_t)__builtin_clz(x) : 32)
FN(sad_s, (sx < sy ? y - x : x - y) + z)
FN(bfe_u, (y & 255) > 31 ? 0 : (x >> (y & 255)) & ((z & 255) > 31 ? ~0u : (1u << (z & 255)) - 1))
FN(addsat, (uint32_t)((int64_t)sx + sy > INT32_MAX   ? INT32_MAX
		      : (int64_t)sx + sy < INT32_MIN ? INT32_MIN
						     : sx + sy))
FN(shf_l, (uint32_t)((((uint64_t)y << 32 | x) << (z & 31)) >> 32))
FN(shf_rc, (uint32_t)((((uint64_t)y << 32 | x)) >> (z > 32 ? 32 : z)))
FN(bfind, x ? 31 - (uint64_t)__builtin_clz(x) : UINT32_MAX)
FN(prmt_0123, (x & 0xff) << 24 | (x & 0xff00) << 8 | (x >> 8 & 0xff00) | x >> 24)
FN(cvt_s8, (uint32_t)(int8_t)x)
FN(cvt_sat_u8, sx<0 ? 0 : sx> 255 ? 255 : x)
FN(selp, x < y ? x : z)
FN(setp_pair, x < y ? 6 : 1)
FN(set_lt, sx < sy ? UINT32_MAX : 0)
FN(slct, sz >= 0 ? x : y)
static uint32_t dot(uint32_t a, uint32_t b, uint32_t c)
{
	for (int k = 0; k < 4; k++)
		c += (uint32_t)((int8_t)(a >> 8 * k) * (int8_t)(b >> 8 * k));
	return c;
}
FN(dp4a, dot(x, y, z))
FN(add64, a + b)
FN(mulhi64, (uint64_t)((unsigned __int128)a *b >> 64))
FN(carry64, a + b)
FN(div64s, !b ? UINT64_MAX : (int64_t)b == -1 ? 0 - a : (uint64_t)((int64_t)a / (int64_t)b))
FN(shl64, y > 63 ? 0 : a << y)
FN(wide_s, (uint64_t)((int64_t)sx *sy))
FN(brev64,
	__builtin_bswap64(((a >> 1 & 0x5555555555555555) | (a & 0x5555555555555555) << 1)) * 0 + ({
		uint64_t r = 0;
		for (int k = 0; k < 64; k++)
			r |= (a >> k & 1) << (63 - k);
		r;
	}))
FN(bfi64, (uint32_t)z > 63 ? b : ({
	uint64_t m = ((1ull << 20) - 1) << (z & 255);
	(b & ~m) | (a << (z & 255) & m);
}))

FLOAT_FN(add_f, FE_TONEAREST, x + y)
FLOAT_FN(fadd_rm, FE_DOWNWARD, x + y)
FLOAT_FN(fadd_rp, FE_UPWARD, x + y)
FLOAT_FN(fadd_rz, FE_TOWARDZERO, x + y)
FLOAT_FN(fmul_rz, FE_TOWARDZERO, x *y)
FLOAT_FN(fmul_rp, FE_UPWARD, x *y)
FLOAT_FN(fma_f, FE_TONEAREST, fmaf(x, y, z))
FLOAT_FN(ffma_rm, FE_DOWNWARD, fmaf(x, y, z))
FLOAT_FN(ffma_rp, FE_UPWARD, fmaf(x, y, z))
FLOAT_FN(ffma_rz, FE_TOWARDZERO, fmaf(x, y, z))
FLOAT_FN(div_f, FE_TONEAREST, x / y)
FLOAT_FN(fdiv_rz, FE_TOWARDZERO, x / y)
FLOAT_FN(fdiv_rp, FE_UPWARD, x / y)
FLOAT_FN(fsqrt_rm, FE_DOWNWARD, sqrtf(x))
FLOAT_FN(fmin_, FE_TONEAREST,
	x != x   ? y
	: y != y ? x
	: x == y ? f32(b32(x) | b32(y))
	: x < y  ? x
		 : y)
FLOAT_FN(fsat, FE_TONEAREST, x > 0 ? (x < 1 ? x : 1) : 0)
FLOAT_FN(fneg, FE_TONEAREST, -x)
DOUBLE_FN(dsqrt_rm, FE_DOWNWARD, sqrt(x))
DOUBLE_FN(dsqrt_rm_tiny, FE_DOWNWARD, sqrt(x * 0x1p-1040))
DOUBLE_FN(dadd_rm, FE_DOWNWARD, x + y)
DOUBLE_FN(dmul_rz, FE_TOWARDZERO, x *y)
DOUBLE_FN(dfma, FE_TONEAREST, fma(x, y, z))
DOUBLE_FN(dfma_rp, FE_UPWARD, fma(x, y, z))
DOUBLE_FN(dfma_rm, FE_DOWNWARD, fma(x, y, z))
DOUBLE_FN(dfma_rz, FE_TOWARDZERO, fma(x, y, z))
DOUBLE_FN(ddiv_rm, FE_DOWNWARD, x / y)
FN(setp_ltu, !(f32(a) >= f32(b)))
FN(setp_ne, f32(a) < f32(b) || f32(a) > f32(b))
FN(setp_nan, f32(a) != f32(a) || f32(b) != f32(b))
FN(rzi, ({
	float f = f32(a);
	(uint32_t)(f != f              ? 0
		   : f >= 2147483648.f ? INT32_MAX
		   : f < -2147483648.f ? INT32_MIN
				       : (int32_t)f);
}))
FN(rni, ({
	float f = rintf(f32(a));
	(uint32_t)(f != f              ? 0
		   : f >= 2147483648.f ? INT32_MAX
		   : f < -2147483648.f ? INT32_MIN
				       : (int32_t)f);
}))
FN(rmi_u, ({
	float f = floorf(f32(a));
	f != f || f < 0 ? 0 : f >= 4294967296.f ? UINT32_MAX : (uint32_t)f;
}))
FLOAT_FN(s2f, FE_TONEAREST, (float)(int32_t)b32(x))
FLOAT_FN(s2f_rz, FE_TOWARDZERO, (float)(int32_t)b32(x))
FN(f2d, b64((double)f32(a)))
FN(d2f_low, b32((float)f64(a)))
static uint64_t d2f_rm(uint64_t a, uint64_t b, uint64_t c)
{
	volatile double x = f64(a);
	volatile float r;

	fesetround(FE_DOWNWARD);
	r = (float)x;
	fesetround(FE_TONEAREST);
	return b32(r);
}

static const struct row rows[] = {
	{32, 'i', "add.s32 d, x, y;", add},
	{32, 'i', "sub.u32 d, x, y;", sub},
	{32, 'i', "mul.lo.s32 d, x, y;", mul_lo},
	{32, 'i', "mul.hi.s32 d, x, y;", mul_hi_s},
	{32, 'i', "mul.hi.u32 d, x, y;", mul_hi_u},
	{32, 'i', "mad.lo.u32 d, x, y, z;", mad_lo},
	{32, 'i', "div.s32 d, x, y;", div_s},
	{32, 'i', "div.u32 d, x, y;", div_u},
	{32, 'i', "rem.s32 d, x, y;", rem_s},
	{32, 'i', "rem.u32 d, x, y;", rem_u},
	{32, 'i', "abs.s32 d, x;", abs_s},
	{32, 'i', "min.s32 d, x, y;", min_s},
	{32, 'i', "max.u32 d, x, y;", max_u},
	{32, 'i', "and.b32 d, x, y;", and_},
	{32, 'i', "cnot.b32 d, x;", cnot},
	{32, 'i', "shl.b32 d, x, y;", shl},
	{32, 'i', "shr.u32 d, x, y;", shr_u},
	{32, 'i', "shr.s32 d, x, y;", shr_s},
	{32, 'i', "lop3.b32 d, x, y, z, 0x96;", lop3_96},
	{32, 'i', "lop3.b32 d, x, y, z, 0xe8;", lop3_e8},
	{32, 'i', "popc.b32 d, x;", popc},
	{32, 'i', "clz.b32 d, x;", clz},
	{32, 'i', "sad.s32 d, x, y, z;", sad_s},
	{32, 'i', "bfe.u32 d, x, y, z;", bfe_u},
	{32, 'i', "add.sat.s32 d, x, y;", addsat},
	{32, 'i', "shf.l.wrap.b32 d, x, y, z;", shf_l},
	{32, 'i', "shf.r.clamp.b32 d, x, y, z;", shf_rc},
	{32, 'i', "bfind.u32 d, x;", bfind},
	{32, 'i', "prmt.b32 d, x, y, 0x0123;", prmt_0123},
	{32, 'i', "cvt.s32.s8 d, x;", cvt_s8},
	{32, 'i', "cvt.sat.u8.s32 d, x;", cvt_sat_u8},
	{32, 'i', "setp.lt.u32 p, x, y; selp.b32 d, x, z, p;", selp},
	{32, 'i',
		"setp.eq.u32 q, z, z; setp.lt.xor.u32 p|q, x, y, q; selp.u32 d, 1, 2, p; @q add.u32 d, d, 4;",
		setp_pair},
	{32, 'i', "set.lt.s32.s32 d, x, y;", set_lt},
	{32, 'i', "slct.b32.s32 d, x, y, z;", slct},
	{32, 'i', "dp4a.s32.s32 d, x, y, z;", dp4a},
	{32, 'i',
		"mov.b32 d, x; @!p mov.b32 d, x; { .reg .b16 l, h; mov.b32 {l, h}, d; "
		"mov.b32 d, {l, h}; } sub.u32 d, d, y;",
		sub},
	{64, 'i', "add.s64 d, x, y;", add64},
	{64, 'i', "mul.hi.u64 d, x, y;", mulhi64},
	{64, 'i',
		"{ .reg .b32 a, b, c, e; mov.b64 {a, b}, x; mov.b64 {c, e}, y; "
		"add.cc.u32 a, a, c; addc.u32 b, b, e; mov.b64 d, {a, b}; }",
		carry64},
	{64, 'i', "div.s64 d, x, y;", div64s},
	{64, 'i', "{ .reg .b32 a; cvt.u32.u64 a, y; shl.b64 d, x, a; }", shl64},
	{64, 'i', "{ .reg .b32 a, b; cvt.u32.u64 a, x; cvt.u32.u64 b, y; mul.wide.s32 d, a, b; }",
		wide_s},
	{64, 'i', "brev.b64 d, x;", brev64},
	{64, 'i', "{ .reg .b32 a; cvt.u32.u64 a, z; bfi.b64 d, x, y, a, 20; }", bfi64},
	{32, 'f', "add.f32 d, x, y;", add_f},
	{32, 'f', "add.rm.f32 d, x, y;", fadd_rm},
	{32, 'f', "add.rp.f32 d, x, y;", fadd_rp},
	{32, 'f', "add.rz.f32 d, x, y;", fadd_rz},
	{32, 'f', "mul.rz.f32 d, x, y;", fmul_rz},
	{32, 'f', "mul.rp.f32 d, x, y;", fmul_rp},
	{32, 'f', "fma.rn.f32 d, x, y, z;", fma_f},
	{32, 'f', "fma.rm.f32 d, x, y, z;", ffma_rm},
	{32, 'f', "fma.rp.f32 d, x, y, z;", ffma_rp},
	{32, 'f', "fma.rz.f32 d, x, y, z;", ffma_rz},
	{32, 'f', "div.rn.f32 d, x, y;", div_f},
	{32, 'f', "div.rz.f32 d, x, y;", fdiv_rz},
	{32, 'f', "div.rp.f32 d, x, y;", fdiv_rp},
	{32, 'f', "sqrt.rm.f32 d, x;", fsqrt_rm},
	{32, 'f', "min.f32 d, x, y;", fmin_},
	{32, 'f', "cvt.sat.f32.f32 d, x;", fsat},
	{32, 'f', "neg.f32 d, x;", fneg},
	{64, 'f', "add.rm.f64 d, x, y;", dadd_rm},
	{64, 'f', "mul.rz.f64 d, x, y;", dmul_rz},
	{64, 'f', "fma.rn.f64 d, x, y, z;", dfma},
	{64, 'f', "fma.rp.f64 d, x, y, z;", dfma_rp},
	{64, 'f', "fma.rm.f64 d, x, y, z;", dfma_rm},
	{64, 'f', "sqrt.rm.f64 d, x;", dsqrt_rm},
	{64, 'f', "mul.rm.f64 d, x, 0d0000000400000000; sqrt.rm.f64 d, d;", dsqrt_rm_tiny},
	{64, 'f', "fma.rz.f64 d, x, y, z;", dfma_rz},
	{64, 'f', "div.rm.f64 d, x, y;", ddiv_rm},
	{32, 'i', "setp.ltu.f32 p, x, y; selp.u32 d, 1, 0, p;", setp_ltu},
	{32, 'i', "setp.ne.f32 p, x, y; selp.u32 d, 1, 0, p;", setp_ne},
	{32, 'i', "setp.nan.f32 p|q, x, y; selp.u32 d, 0, 1, q;", setp_nan},
	{32, 'i', "cvt.rzi.s32.f32 d, x;", rzi},
	{32, 'i', "cvt.rni.s32.f32 d, x;", rni},
	{32, 'i', "cvt.rmi.u32.f32 d, x;", rmi_u},
	{32, 'f', "cvt.rn.f32.s32 d, x;", s2f},
	{32, 'f', "cvt.rz.f32.s32 d, x;", s2f_rz},
	{64, 'f', "{ .reg .b32 a; cvt.u32.u64 a, x; cvt.f64.f32 d, a; }", f2d},
	{64, 'f', "{ .reg .b32 a; cvt.rn.f32.f64 a, x; cvt.u64.u32 d, a; }", d2f_low},
	{64, 'f', "{ .reg .b32 a; cvt.rm.f32.f64 a, x; cvt.u64.u32 d, a; }", d2f_rm},
};

enum { ROWS = sizeof(rows) / sizeof(*rows), INPUTS = 512 };

/* Edge values first, in all combinations a little, then pseudo-random ones. */
static uint64_t operand(unsigned n, unsigned which, unsigned bits, char kind)
{
	static const uint64_t edges[] = {0, 1, UINT64_MAX, 31, 32, 33, 0x80000000, 0x7fffffff, 5,
		0x8000000000000000, 0x7fffffffffffffff, 63, 64, 255, 0xdeadbeefcafef00d};
	static const float floats[] = {0.f, -0.f, 1.f, -1.f, 0.1f, 3e38f, -3e38f, 1e-38f, 1e-45f,
		2.5f, 3.5f, -7.75f, 16777217.f, 1e10f, INFINITY, -INFINITY, NAN, 0.33333334f};
	uint64_t h = (n * 3 + which + 1) * 0x9e3779b97f4a7c15ull;
	unsigned pick = (n / (which == 0 ? 1 : which == 1 ? 17 : 5) + which * 3);

	h = (h ^ h >> 29) * 0xbf58476d1ce4e5b9ull;
	h ^= h >> 32;
	if (kind == 'i')
		return n < 300 ? edges[pick % 15] : h;
	if (n < 350)
		return bits == 32 ? b32(floats[pick % 18]) : b64((double)floats[pick % 18] * 1.1);
	if (bits == 64 && n < 450)
		return edges[pick % 15]; /* most are denormal */
	if (bits == 32)
		return b32((float)(int32_t)h * 1.37e-5f);
	return b64((double)(int64_t)h * 1.37e-12);
}

static void write_row(FILE *f, unsigned n)
{
	const struct row *r = &rows[n];
	unsigned w = r->bits;

	fprintf(f, "{ .reg .b%u x, y, z, d; .reg .pred p, q; setp.ne.u32 p, 0, 0;\n", w);
	for (unsigned k = 0; k < 3; k++)
		fprintf(f, "ld.global.b%u %c, [%%rd1 + %u];\n", w, "xyz"[k],
			(n * 3 + k) * 8 * INPUTS);
	fprintf(f, "mov.b%u d, 0;\n%s\nst.global.b%u [%%rd2 + %u], d; }\n", w, r->text, w,
		n * 8 * INPUTS);
}

static char *table_text(void)
{
	char *text;
	size_t size;
	FILE *f = open_memstream(&text, &size);

	assert_non_null(f);
	fprintf(f,
		".version 8.7\n.target sm_90\n.address_size 64\n"
		".entry k(.param .u64 in, .param .u64 out)\n{\n.reg .b64 %%rd<5>; .reg .b32 %%r<4>;\n"
		"ld.param.u64 %%rd1, [in]; ld.param.u64 %%rd2, [out]; mov.u32 %%r1, %%tid.x;\n"
		"mul.wide.u32 %%rd3, %%r1, 8; add.u64 %%rd1, %%rd1, %%rd3; "
		"add.u64 %%rd2, %%rd2, %%rd3;\n");
	for (unsigned n = 0; n < ROWS; n++)
		write_row(f, n);
	fprintf(f, "ret;\n}\n");
	fclose(f);
	return text;
}

static bool same(const struct row *r, uint64_t got, uint64_t want)
{
	if (r->bits == 32)
		got = (uint32_t)got, want = (uint32_t)want;
	if (got == want)
		return true;
	if (r->kind != 'f')
		return false;
	return r->bits == 32 ? isnan(f32(got)) && isnan(f32(want))
			     : isnan(f64(got)) && isnan(f64(want));
}

static void instructions_compute_what_c_computes(void **state)
{
	uint64_t *in = calloc(ROWS * 3 * INPUTS, 8), *out = calloc(ROWS * INPUTS, 8);
	char *text = table_text();
	struct program p;
	void *params[2] = {in, out};
	unsigned bad = 0;

	for (unsigned n = 0; n < ROWS; n++)
		for (unsigned k = 0; k < 3; k++)
			for (unsigned i = 0; i < INPUTS; i++)
				in[(n * 3 + k) * INPUTS + i] =
					operand(i, k, rows[n].bits, rows[n].kind);
	load_text(&p, text);
	assert_int_equal(
		run(&p, (struct run){.kernel = "k", .block = {INPUTS}, .params = params}), RAN);
	for (unsigned n = 0; n < ROWS; n++)
		for (unsigned i = 0; i < INPUTS; i++) {
			const uint64_t *a = &in[n * 3 * INPUTS + i];
			uint64_t x = a[0], y = a[INPUTS], z = a[2 * INPUTS],
				 got = out[n * INPUTS + i];
			uint64_t want = rows[n].expect(x, y, z);

			if (!same(&rows[n], got, want) && bad++ < 10)
				print_error("%s x=%#lx y=%#lx z=%#lx: %#lx, not %#lx\n",
					rows[n].text, x, y, z, got, want);
		}
	unload(&p);
	free(text);
	free(in);
	free(out);
	assert_int_equal(bad, 0);
}

/* ---- approximations: within the manual's error bounds ---- */

static void approximations_are_close(void **state)
{
	static const char text[] =
		".version 8.7\n.target sm_90\n.address_size 64\n.entry k(.param .u64 io)\n{\n"
		".reg .b64 %rd<4>; .reg .b32 %r<2>; .reg .f32 %f<9>;\n"
		"ld.param.u64 %rd1, [io]; mov.u32 %r1, %tid.x; mul.wide.u32 %rd2, %r1, 32;\n"
		"add.u64 %rd1, %rd1, %rd2; ld.global.f32 %f1, [%rd1];\n"
		"ex2.approx.ftz.f32 %f2, %f1; lg2.approx.f32 %f3, %f1; sin.approx.f32 %f4, %f1;\n"
		"cos.approx.f32 %f5, %f1; tanh.approx.f32 %f6, %f1; rcp.approx.f32 %f7, %f1;\n"
		"rsqrt.approx.f32 %f8, %f1;\n"
		"st.global.v4.f32 [%rd1], {%f2, %f3, %f4, %f5}; st.global.v2.f32 [%rd1+16], {%f6, %f7};\n"
		"st.global.f32 [%rd1+24], %f8; ret; }";
	static float io[1024][8], x[1024];
	void *params[1] = {io};
	struct program p;

	for (int i = 0; i < 1024; i++)
		io[i][0] = x[i] = 1e-3f + (float)i * 0.02f;
	load_text(&p, text);
	assert_int_equal(
		run(&p, (struct run){.kernel = "k", .block = {1024}, .params = params}), RAN);
	for (int i = 0; i < 1024; i++) {
		float want[7] = {exp2f(x[i]), log2f(x[i]), sinf(x[i]), cosf(x[i]), tanhf(x[i]),
			1 / x[i], 1 / sqrtf(x[i])};

		for (int k = 0; k < 7; k++) {
			float scale = k == 1 || k == 2 || k == 3 ? fmaxf(fabsf(want[k]), 0.5f)
								 : fabsf(want[k]);
			float bound = k == 4 ? 5e-4f : 1e-6f;

			if (!(fabsf(io[i][k] - want[k]) <= bound * scale))
				fail_msg("%d of %g: %.9g, not %.9g", k, x[i], io[i][k], want[k]);
		}
	}
	unload(&p);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(instructions_compute_what_c_computes),
		cmocka_unit_test(approximations_are_close),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
