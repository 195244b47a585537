/* SPDX-License-Identifier: MIT
 *
 * What instructions do, in C. The build compiles this file to LLVM bitcode that every kernel's
 * module starts from; LLVM inlines what the kernel uses and drops the rest. The instruction
 * bfe.u32 is ptx_bfe_u32(a, b, c): its opcode, modifiers (except .ftz, .rn, .approx, .full, and
 * .sat of floating types, which the code generator handles: see in_name()) and types, joined by '_'.
 *
 * Freestanding: no headers' functions, only compiler builtins that become LLVM intrinsics.
 */
#include <stdint.h>

#define BUILTIN __attribute__((always_inline))
typedef _Float16 f16;
typedef uint8_t u8;
typedef uint16_t u16;
typedef uint32_t u32;
typedef uint64_t u64;
typedef int16_t s16;
typedef int32_t s32;
typedef int64_t s64;

static inline u32 bits32(float x)
{
	return __builtin_bit_cast(u32, x);
}

static inline float float32(u32 x)
{
	return __builtin_bit_cast(float, x);
}

static inline u64 bits64(double x)
{
	return __builtin_bit_cast(u64, x);
}

static inline double float64(u64 x)
{
	return __builtin_bit_cast(double, x);
}

/* ---- integers ---- */

#define INTEGER(T, bits, U)                                                                        \
	BUILTIN T ptx_min_##T(T a, T b)                                                            \
	{                                                                                          \
		return a < b ? a : b;                                                              \
	}                                                                                          \
	BUILTIN T ptx_max_##T(T a, T b)                                                            \
	{                                                                                          \
		return a > b ? a : b;                                                              \
	}                                                                                          \
	BUILTIN T ptx_div_##T(T a, T b)                                                            \
	{                                                                                          \
		if (!b)                                                                            \
			return (T)-1;                                                              \
		if (b == (T)-1 && (T)-1 < 0)                                                       \
			return (T)(0 - (U)a);                                                      \
		return (T)(a / b);                                                                 \
	}                                                                                          \
	BUILTIN T ptx_rem_##T(T a, T b)                                                            \
	{                                                                                          \
		if (!b)                                                                            \
			return (T)-1;                                                              \
		if (b == (T)-1 && (T)-1 < 0)                                                       \
			return 0;                                                                  \
		return (T)(a % b);                                                                 \
	}                                                                                          \
	BUILTIN T ptx_sad_##T(T a, T b, T c)                                                       \
	{                                                                                          \
		return (T)((U)c + (a < b ? (U)b - (U)a : (U)a - (U)b));                            \
	}
BUILTIN s32 ptx_min_relu_s32(s32 a, s32 b)
{
	return a < b ? (a < 0 ? 0 : a) : (b < 0 ? 0 : b);
}

BUILTIN s32 ptx_max_relu_s32(s32 a, s32 b)
{
	return a > b ? (a < 0 ? 0 : a) : (b < 0 ? 0 : b);
}

INTEGER(u16, 16, u16)
INTEGER(u32, 32, u32)
INTEGER(u64, 64, u64)
INTEGER(s16, 16, u16)
INTEGER(s32, 32, u32)
INTEGER(s64, 64, u64)

#define SIGNED(T, U)                                                                               \
	BUILTIN T ptx_abs_##T(T a)                                                                 \
	{                                                                                          \
		return a < 0 ? (T)(0 - (U)a) : a;                                                  \
	}
SIGNED(s16, u16)
SIGNED(s32, u32)
SIGNED(s64, u64)

BUILTIN s32 ptx_add_sat_s32(s32 a, s32 b)
{
	return __builtin_elementwise_add_sat(a, b);
}
BUILTIN s32 ptx_sub_sat_s32(s32 a, s32 b)
{
	return __builtin_elementwise_sub_sat(a, b);
}
BUILTIN s32 ptx_mad_hi_sat_s32(s32 a, s32 b, s32 c)
{
	return __builtin_elementwise_add_sat((s32)((s64)a * b >> 32), c);
}

static inline s32 low24s(s32 a)
{
	return (s32)((u32)a << 8) >> 8;
}
BUILTIN s32 ptx_mul24_lo_s32(s32 a, s32 b)
{
	return (s32)((s64)low24s(a) * low24s(b));
}
BUILTIN s32 ptx_mul24_hi_s32(s32 a, s32 b)
{
	return (s32)((s64)low24s(a) * low24s(b) >> 16);
}
BUILTIN u32 ptx_mul24_lo_u32(u32 a, u32 b)
{
	return (a & 0xffffff) * (b & 0xffffff);
}
BUILTIN u32 ptx_mul24_hi_u32(u32 a, u32 b)
{
	return (u32)((u64)(a & 0xffffff) * (b & 0xffffff) >> 16);
}
BUILTIN s32 ptx_mad24_lo_s32(s32 a, s32 b, s32 c)
{
	return (s32)((u32)ptx_mul24_lo_s32(a, b) + (u32)c);
}
BUILTIN s32 ptx_mad24_hi_s32(s32 a, s32 b, s32 c)
{
	return (s32)((u32)ptx_mul24_hi_s32(a, b) + (u32)c);
}
BUILTIN s32 ptx_mad24_hi_sat_s32(s32 a, s32 b, s32 c)
{
	return __builtin_elementwise_add_sat(ptx_mul24_hi_s32(a, b), c);
}
BUILTIN u32 ptx_mad24_lo_u32(u32 a, u32 b, u32 c)
{
	return ptx_mul24_lo_u32(a, b) + c;
}
BUILTIN u32 ptx_mad24_hi_u32(u32 a, u32 b, u32 c)
{
	return ptx_mul24_hi_u32(a, b) + c;
}

/* ---- bits ---- */

BUILTIN u16 ptx_cnot_b16(u16 a)
{
	return !a;
}
BUILTIN u32 ptx_cnot_b32(u32 a)
{
	return !a;
}
BUILTIN u64 ptx_cnot_b64(u64 a)
{
	return !a;
}
BUILTIN u32 ptx_popc_b32(u32 a)
{
	return (u32)__builtin_popcount(a);
}
BUILTIN u32 ptx_popc_b64(u64 a)
{
	return (u32)__builtin_popcountll(a);
}
BUILTIN u32 ptx_clz_b32(u32 a)
{
	return a ? (u32)__builtin_clz(a) : 32;
}
BUILTIN u32 ptx_clz_b64(u64 a)
{
	return a ? (u32)__builtin_clzll(a) : 64;
}
BUILTIN u32 ptx_brev_b32(u32 a)
{
	return __builtin_bitreverse32(a);
}
BUILTIN u64 ptx_brev_b64(u64 a)
{
	return __builtin_bitreverse64(a);
}
BUILTIN u32 ptx_bfind_u32(u32 a)
{
	return a ? 31 - (u32)__builtin_clz(a) : UINT32_MAX;
}
BUILTIN u32 ptx_bfind_s32(s32 a)
{
	return ptx_bfind_u32((u32)(a < 0 ? ~a : a));
}
BUILTIN u32 ptx_bfind_u64(u64 a)
{
	return a ? 63 - (u32)__builtin_clzll(a) : UINT32_MAX;
}
BUILTIN u32 ptx_bfind_s64(s64 a)
{
	return ptx_bfind_u64((u64)(a < 0 ? ~a : a));
}
BUILTIN u32 ptx_bfind_shiftamt_u32(u32 a)
{
	return a ? (u32)__builtin_clz(a) : UINT32_MAX;
}
BUILTIN u32 ptx_bfind_shiftamt_s32(s32 a)
{
	return ptx_bfind_shiftamt_u32((u32)(a < 0 ? ~a : a));
}
BUILTIN u32 ptx_bfind_shiftamt_u64(u64 a)
{
	return a ? (u32)__builtin_clzll(a) : UINT32_MAX;
}
BUILTIN u32 ptx_bfind_shiftamt_s64(s64 a)
{
	return ptx_bfind_shiftamt_u64((u64)(a < 0 ? ~a : a));
}
BUILTIN u32 ptx_lowest_bit(u32 a)
{
	return a ? (u32)__builtin_ctz(a) : 32;
}

/* Of position and length 32-bit fields take a byte, 64-bit ones all: what is beyond the end is none. */
static inline u32 place_31(u32 v)
{
	return v & 255;
}
static inline u32 place_63(u32 v)
{
	return v > 255 ? 255 : v;
}

#define EXTRACT(U, S, top)                                                                         \
	BUILTIN U ptx_bfe_##U(U a, u32 b, u32 c)                                                   \
	{                                                                                          \
		u32 pos = place_##top(b), len = place_##top(c);                                    \
		U v = pos > top ? 0 : a >> (pos & top);                                            \
		return len > top ? v : v & (((U)1 << (len & top)) - 1);                            \
	}                                                                                          \
	BUILTIN S ptx_bfe_##S(S a, u32 b, u32 c)                                                   \
	{                                                                                          \
		u32 pos = place_##top(b), len = place_##top(c), last = pos + len - 1;              \
		if (!len)                                                                          \
			return 0;                                                                  \
		U sign = (U)a >> (last > top ? top : last) & 1;                                    \
		U v = ptx_bfe_##U((U)a, b, c);                                                     \
		u32 have = pos > top ? 0 : top + 1 - pos;                                          \
		if (have > len)                                                                    \
			have = len;                                                                \
		if (sign && have <= top)                                                           \
			v |= ~(U)0 << have;                                                        \
		return (S)v;                                                                       \
	}                                                                                          \
	static inline U insert_##U(U a, U b, u32 c, u32 d)                                         \
	{                                                                                          \
		u32 pos = place_##top(c), len = place_##top(d);                                    \
		if (!len || pos > top)                                                             \
			return b;                                                                  \
		U mask = len > top ? ~(U)0 : ((U)1 << len) - 1;                                    \
		mask <<= pos;                                                                      \
		return (b & ~mask) | (a << pos & mask);                                            \
	}
EXTRACT(u32, s32, 31)
EXTRACT(u64, s64, 63)
BUILTIN u32 ptx_bfi_b32(u32 a, u32 b, u32 c, u32 d)
{
	return insert_u32(a, b, c, d);
}
BUILTIN u64 ptx_bfi_b64(u64 a, u64 b, u32 c, u32 d)
{
	return insert_u64(a, b, c, d);
}
BUILTIN u32 ptx_bmsk_clamp_b32(u32 a, u32 b)
{
	u32 mask = a > 31 ? 0 : ~0u << a;

	return b > 31 || a + b > 31 ? mask : b ? mask & ((1u << (a + b)) - 1) : 0;
}
BUILTIN u32 ptx_bmsk_wrap_b32(u32 a, u32 b)
{
	return ptx_bmsk_clamp_b32(a & 31, b & 31);
}
BUILTIN u32 ptx_szext_wrap_u32(u32 a, u32 b)
{
	return a & ((1u << (b & 31)) - 1);
}
BUILTIN u32 ptx_szext_clamp_u32(u32 a, u32 b)
{
	return b > 31 ? a : ptx_szext_wrap_u32(a, b);
}
BUILTIN s32 ptx_szext_wrap_s32(s32 a, u32 b)
{
	b &= 31;
	return b ? (s32)((u32)a << (32 - b)) >> (32 - b) : 0;
}
BUILTIN s32 ptx_szext_clamp_s32(s32 a, u32 b)
{
	return b > 31 ? a : ptx_szext_wrap_s32(a, b);
}
BUILTIN u32 ptx_shf_l_wrap_b32(u32 a, u32 b, u32 c)
{
	return (u32)(((u64)b << 32 | a) << (c & 31) >> 32);
}
BUILTIN u32 ptx_shf_l_clamp_b32(u32 a, u32 b, u32 c)
{
	return (u32)(((u64)b << 32 | a) << (c > 32 ? 32 : c) >> 32);
}
BUILTIN u32 ptx_shf_r_wrap_b32(u32 a, u32 b, u32 c)
{
	return (u32)(((u64)b << 32 | a) >> (c & 31));
}
BUILTIN u32 ptx_shf_r_clamp_b32(u32 a, u32 b, u32 c)
{
	return (u32)(((u64)b << 32 | a) >> (c > 32 ? 32 : c));
}

/* The n-th set bit from `base`, upwards for n > 0, downwards for n < 0; all ones: none. */
BUILTIN u32 ptx_fns_b32(u32 mask, u32 base, s32 n)
{
	s32 at = (s32)base, step = n < 0 ? -1 : 1, left = n < 0 ? -n : n;

	if (base > 31)
		return UINT32_MAX;
	if (!n)
		return mask >> at & 1 ? (u32)at : UINT32_MAX;
	for (; at >= 0 && at < 32; at += step)
		if (mask >> at & 1 && !--left)
			return (u32)at;
	return UINT32_MAX;
}

static inline u32 pick(u64 all, u32 selector)
{
	u32 byte = (u32)(all >> 8 * (selector & 7)) & 255;

	return selector & 8 ? (byte & 128 ? 255 : 0) : byte;
}
BUILTIN u32 ptx_prmt_b32(u32 a, u32 b, u32 c)
{
	u64 all = (u64)b << 32 | a;

	return pick(all, c) | pick(all, c >> 4) << 8 | pick(all, c >> 8) << 16 |
	       pick(all, c >> 12) << 24;
}
#define PERMUTE(name, s0, s1, s2, s3)                                                              \
	BUILTIN u32 ptx_prmt_##name##_b32(u32 a, u32 b, u32 c)                                     \
	{                                                                                          \
		u64 all = (u64)b << 32 | a;                                                        \
		u32 n = c & 3;                                                                     \
		return pick(all, (s0)&7) | pick(all, (s1)&7) << 8 | pick(all, (s2)&7) << 16 |      \
		       pick(all, (s3)&7) << 24;                                                    \
	}
static inline u32 at_least(u32 a, u32 b)
{
	return a > b ? a : b;
}
static inline u32 at_most(u32 a, u32 b)
{
	return a < b ? a : b;
}
PERMUTE(f4e, n, n + 1, n + 2, n + 3)
PERMUTE(b4e, n, n + 7, n + 6, n + 5)
PERMUTE(rc8, n, n, n, n)
PERMUTE(ecl, n, at_least(n, 1), at_least(n, 2), 3)
PERMUTE(ecr, 0, at_most(n, 1), at_most(n, 2), n)
PERMUTE(rc16, (n & 1) * 2, (n & 1) * 2 + 1, (n & 1) * 2, (n & 1) * 2 + 1)

#define DOT4(ta, tb, A, B, R)                                                                      \
	BUILTIN R ptx_dp4a_##ta##_##tb(u32 a, u32 b, R c)                                          \
	{                                                                                          \
		u32 sum = (u32)c;                                                                  \
		for (int k = 0; k < 4; k++)                                                        \
			sum += (u32)((s32)(A)(a >> 8 * k) * (s32)(B)(b >> 8 * k));                 \
		return (R)sum;                                                                     \
	}                                                                                          \
	BUILTIN R ptx_dp2a_lo_##ta##_##tb(u32 a, u32 b, R c)                                       \
	{                                                                                          \
		return (R)((u32)c + (u32)((s32)(A##2)a * (s32)(B)b) +                              \
			   (u32)((s32)(A##2)(a >> 16) * (s32)(B)(b >> 8)));                        \
	}                                                                                          \
	BUILTIN R ptx_dp2a_hi_##ta##_##tb(u32 a, u32 b, R c)                                       \
	{                                                                                          \
		return ptx_dp2a_lo_##ta##_##tb(a, b >> 16, c);                                     \
	}
typedef uint8_t ub;
typedef uint16_t ub2;
typedef int8_t sb;
typedef int16_t sb2;
DOT4(u32, u32, ub, ub, u32)
DOT4(u32, s32, ub, sb, s32)
DOT4(s32, u32, sb, ub, s32)
DOT4(s32, s32, sb, sb, s32)

/* How far apart the parts are; c counts only where their sum is asked for. */
#define APART(parts, bits)                                                                         \
	BUILTIN u32 ptx_vabsdiff##parts##_u32_u32_u32(u32 a, u32 b, u32 c)                         \
	{                                                                                          \
		u32 all = 0;                                                                       \
		for (int k = 0; k < 32; k += bits) {                                               \
			u32 x = (uint##bits##_t)(a >> k), y = (uint##bits##_t)(b >> k);            \
			all |= (at_least(x, y) - at_most(x, y)) << k;                              \
		}                                                                                  \
		return all;                                                                        \
	}                                                                                          \
	BUILTIN u32 ptx_vabsdiff##parts##_add_u32_u32_u32(u32 a, u32 b, u32 c)                     \
	{                                                                                          \
		u32 all = ptx_vabsdiff##parts##_u32_u32_u32(a, b, c);                              \
		for (int k = 0; k < 32; k += bits)                                                 \
			c += (uint##bits##_t)(all >> k);                                           \
		return c;                                                                          \
	}
APART(2, 16)
APART(4, 8)

#include "builtins_async.h"
#include "builtins_check.h"
#include "builtins_directed.h"
#include "builtins_float.h"
#include "builtins_gates.h"
#include "builtins_half.h"
#include "builtins_convert.h"
#include "builtins_matrix.h"
#include "builtins_wgmma.h"
#include "builtins_wmma.h"

/* ---- memory ---- */

#define ATOMIC_LOOP(name, T, expression)                                                           \
	BUILTIN T ptx_atom_##name(T *p, T v)                                                       \
	{                                                                                          \
		T old = __atomic_load_n(p, __ATOMIC_RELAXED), next;                                \
		do                                                                                 \
			next = (expression);                                                       \
		while (!__atomic_compare_exchange_n(                                               \
			p, &old, next, 0, __ATOMIC_SEQ_CST, __ATOMIC_RELAXED));                    \
		return old;                                                                        \
	}
ATOMIC_LOOP(inc_u32, u32, old >= v ? 0 : old + 1)
ATOMIC_LOOP(dec_u32, u32, old == 0 || old > v ? v : old - 1)
ATOMIC_LOOP(add_f16x2, u32, ptx_add_f16x2(old, v))
ATOMIC_LOOP(add_bf16x2, u32, ptx_add_bf16x2(old, v))
ATOMIC_LOOP(add_bf16, u16, ptx_add_bf16(old, v))
ATOMIC_LOOP(add_f16, u16,
	__builtin_bit_cast(
		u16, ptx_add_f16(__builtin_bit_cast(f16, old), __builtin_bit_cast(f16, v))))

/* Atomic add.f32 keeps subnormal numbers in shared memory alone. */
static inline float kept(float a, _Bool shared)
{
	return shared ? a : ptx_flush_f32(a);
}
BUILTIN u32 ptx_atom_add_f32(u32 *p, float v, _Bool shared)
{
	u32 old = __atomic_load_n(p, __ATOMIC_RELAXED), next;

	do
		next = bits32(kept(kept(float32(old), shared) + kept(v, shared), shared));
	while (!__atomic_compare_exchange_n(p, &old, next, 0, __ATOMIC_SEQ_CST, __ATOMIC_RELAXED));
	return old;
}

BUILTIN u32 ptx_match_b32(const u32 *values, u32 mask, u32 v)
{
	u32 same = 0;

	for (u32 k = 0; k < 32; k++)
		if (mask >> k & 1 && values[k] == v)
			same |= 1u << k;
	return same;
}
BUILTIN u32 ptx_match_b64(const u64 *values, u32 mask, u64 v)
{
	u32 same = 0;

	for (u32 k = 0; k < 32; k++)
		if (mask >> k & 1 && values[k] == v)
			same |= 1u << k;
	return same;
}

/* The reduction of the lanes in `mask` of a warp's values. */
#define REDUX(name, T, identity, expression)                                                       \
	BUILTIN T ptx_redux_##name(const T *values, u32 mask)                                      \
	{                                                                                          \
		T a = identity;                                                                    \
		for (u32 k = 0; k < 32; k++) {                                                     \
			T v = values[k];                                                           \
			if (mask >> k & 1)                                                         \
				a = expression;                                                    \
		}                                                                                  \
		return a;                                                                          \
	}
REDUX(add_u32, u32, 0, a + v)
REDUX(add_s32, u32, 0, a + v)
REDUX(min_u32, u32, UINT32_MAX, v < a ? v : a)
REDUX(max_u32, u32, 0, v > a ? v : a)
REDUX(min_s32, s32, INT32_MAX, v < a ? v : a)
REDUX(max_s32, s32, INT32_MIN, v > a ? v : a)
REDUX(and_b32, u32, UINT32_MAX, a &v)
REDUX(or_b32, u32, 0, a | v)
REDUX(xor_b32, u32, 0, a ^ v)

/* ---- the machine ---- */

BUILTIN u64 ptx_clock(void)
{
	return __builtin_readcyclecounter();
}
struct ptx_time {
	s64 seconds, nanoseconds;
};
extern int clock_gettime(int clock, struct ptx_time *time);
extern int get_nprocs(void);
BUILTIN u64 ptx_globaltimer(void)
{
	struct ptx_time t;

	clock_gettime(0, &t);
	return (u64)t.seconds * 1000000000u + (u64)t.nanoseconds;
}
/* What waits for another block of a cooperative launch lets it run. */
BUILTIN u32 ptx_give_way(u64 workspace, u64 function, u64 launch)
{
	if (workspace)
		((void (*)(const void *))function)((const void *)launch);
	return 0;
}
BUILTIN u32 ptx_nsmid(void)
{
	return (u32)get_nprocs();
}
