/* SPDX-License-Identifier: MIT
 *
 * Statements of random kernels. <a|b> is one of several; $ and a letter a register: H, R, D of 16, 32 and 64 bits, F and G
 * floating, P predicates, U the same in all threads of a block. Capitals are written, small letters are read and may be
 * numbers. $s is a shift's amount, $w a bit's place or how many there are, $i a byte, $o a register of 16 bits where PTX takes
 * no number.
 *
 * A product without a rounding mode may be fused with the sum that it is used in: products have one. .sat stands where the
 * source has numbers that the destination has not.
 *
 * The bits of a NaN are not defined, so that floating registers reach integers through conversions and comparisons only.
 */
#ifndef GDEV_TESTS_PTX_RANDOM_ROWS_H
#define GDEV_TESTS_PTX_RANDOM_ROWS_H

#define INT_COMPARISON "<eq|ne|lt|le|gt|ge>"
#define FLOAT_COMPARISON "<eq|ne|lt|le|gt|ge|equ|neu|ltu|leu|gtu|geu|num|nan>"
/* Addresses from a number of any value: of the input, and of the thread's local array. */
#define IN(mask)                                                                                   \
	"{ .reg .b32 t; .reg .b64 a; and.b32 t, $r, " #mask                                        \
	"; cvt.u64.u32 a, t; add.s64 a, a, %in; "
#define LOCAL                                                                                      \
	"{ .reg .b32 t; .reg .b64 a, b; and.b32 t, $r, 56; cvt.u64.u32 a, t; mov.u64 b, lm; add.s64 a, a, b; "
#define OFFSET "<0|8|16|24|32|40|48|56>"

/* clang-format off */
static const char *const random_rows[] = {
	/* 16 bits */
	"<add|sub|min|max|div|rem>.<s16|u16> $H, $h, $h;",
	"mul.<lo|hi>.<s16|u16> $H, $h, $h;",
	"mul.wide.<s16|u16> $R, $h, $h;",
	"mad.<lo|hi>.<s16|u16> $H, $h, $h, $h;",
	"mad.wide.<s16|u16> $R, $h, $h, $r;",
	"<and|or|xor>.b16 $H, $h, $h;",
	"<not|cnot>.b16 $H, $h;",
	"<abs|neg>.s16 $H, $h;",
	"<shl.b16|shr.b16|shr.u16|shr.s16> $H, $h, $s;",
	"sad.<s16|u16> $H, $h, $h, $h;",
	"setp." INT_COMPARISON ".<s16|u16> $P, $h, $h;",
	"selp.b16 $H, $h, $h, $p;",
	"slct.b16.s32 $H, $h, $h, $r;",
	/* 32 bits */
	"<add|sub|min|max|div|rem>.<s32|u32> $R, $r, $r;",
	"<add|sub>.<s32|u32> $R, $r, $r;",
	"<add|sub>.sat.s32 $R, $r, $r;",
	"mul.<lo|hi>.<s32|u32> $R, $r, $r;",
	"mul.wide.<s32|u32> $D, $r, $r;",
	"mad.<lo|hi>.<s32|u32> $R, $r, $r, $r;",
	"mad.hi.sat.s32 $R, $r, $r, $r;",
	"mad.wide.<s32|u32> $D, $r, $r, $d;",
	"<mul24.lo|mul24.hi>.<s32|u32> $R, $r, $r;",
	"<mad24.lo|mad24.hi>.<s32|u32> $R, $r, $r, $r;",
	"sad.<s32|u32> $R, $r, $r, $r;",
	"<abs|neg>.s32 $R, $r;",
	"<and|or|xor>.b32 $R, $r, $r;",
	"<not|cnot>.b32 $R, $r;",
	"lop3.b32 $R, $r, $r, $r, $i;",
	"<shl.b32|shr.b32|shr.u32|shr.s32> $R, $r, $s;",
	"shf.<l|r>.<wrap|clamp>.b32 $R, $r, $r, $s;",
	"bfe.<s32|u32> $R, $r, $w, $w;",
	"bfi.b32 $R, $r, $r, $w, $w;",
	"bmsk.<clamp|wrap>.b32 $R, $s, $s;",
	"szext.<clamp|wrap>.<s32|u32> $R, $r, $s;",
	"bfind<|.shiftamt>.<s32|u32> $R, $r;",
	"<popc|clz|brev>.b32 $R, $r;",
	"prmt.b32<|.f4e|.b4e|.rc8|.ecl|.ecr|.rc16> $R, $r, $r, $r;",
	"dp4a.<s32|u32>.<s32|u32> $R, $r, $r, $r;",
	"dp2a.<lo|hi>.<s32|u32>.<s32|u32> $R, $r, $r, $r;",
	"setp." INT_COMPARISON ".<s32|u32> $P, $r, $r;",
	"setp." INT_COMPARISON ".<and|or|xor>.<s32|u32> $P|$P, $r, $r, <|!>$p;",
	"set." INT_COMPARISON ".<s32|u32>.<s32|u32> $R, $r, $r;",
	"selp.<b32|u32|s32> $R, $r, $r, $p;",
	"slct.b32.s32 $R, $r, $r, $r;",
	"add.cc.u32 $R, $r, $r; addc.cc.u32 $R, $r, $r; addc.u32 $R, $r, $r;",
	"sub.cc.u32 $R, $r, $r; subc.cc.u32 $R, $r, $r; subc.u32 $R, $r, $r;",
	"mad.lo.cc.u32 $R, $r, $r, $r; madc.hi.u32 $R, $r, $r, $r;",
	"mad.lo.cc.u32 $R, $r, $r, $r; madc.lo.cc.u32 $R, $r, $r, $r; madc.hi.u32 $R, $r, $r, $r;",
	/* a carry beyond a branch */
	"add.cc.u32 $R, $r, $r; @$p xor.b32 $R, $r, $r; addc.cc.u32 $R, $r, $r; @!$p mov.b32 $R, $r; addc.u32 $R, $r, $r;",
	"sub.cc.u32 $R, $r, $r; @$p subc.u32 $R, $r, $r; @!$p or.b32 $R, $r, $r; subc.cc.u32 $R, $r, $r; subc.u32 $R, $r, $r;",
	"<add|min|max>.<u16x2|s16x2> $R, $r, $r;",
	"vabsdiff<2|4>.u32.u32.u32 $R, $r, $r, $r;",
	"prmt.b32 $R, $r, $r, <0x3210|0x0123|0x7531|0x8888|0xfedc|0x19a4|0x4567>;",
	"mov.u32 $R, <%tid.x|%tid.y|%ctaid.x|%laneid|%lanemask_ge|%ntid.x|%lanemask_lt>;",
	"mov.u32 $R, $u;",
	/* 64 bits */
	"<add|sub|min|max|div|rem>.<s64|u64> $D, $d, $d;",
	"mul.<lo|hi>.<s64|u64> $D, $d, $d;",
	"mad.<lo|hi>.<s64|u64> $D, $d, $d, $d;",
	"sad.<s64|u64> $D, $d, $d, $d;",
	"<abs|neg>.s64 $D, $d;",
	"<and|or|xor>.b64 $D, $d, $d;",
	"<not|cnot>.b64 $D, $d;",
	"<shl.b64|shr.b64|shr.u64|shr.s64> $D, $d, $s;",
	"bfe.<s64|u64> $D, $d, $w, $w;",
	"bfi.b64 $D, $d, $d, $w, $w;",
	"bfind<|.shiftamt>.<s64|u64> $R, $d;",
	"<popc|clz>.b64 $R, $d;",
	"brev.b64 $D, $d;",
	"setp." INT_COMPARISON ".<s64|u64> $P, $d, $d;",
	"set." INT_COMPARISON ".u32.<s64|u64> $R, $d, $d;",
	"selp.b64 $D, $d, $d, $p;",
	"slct.b64.s32 $D, $d, $d, $r;",
	"add.cc.u64 $D, $d, $d; addc.u64 $D, $d, $d;",
	/* predicates */
	"<and|or|xor>.pred $P, $p, $p;",
	"not.pred $P, $p;",
	/* bits taken apart and put together */
	"mov.b32 $R, {$h, $h};",
	"mov.b32 {$H, $H}, $r;",
	"mov.b64 $D, {$r, $r};",
	"mov.b64 {$R, $R}, $d;",
	"mov.b64 {$H, $H, $H, $H}, $d;",
	/* integers to integers */
	"cvt.<s8|u8|s16|u16|s32|u32>.<s8|u8|s16|u16|s32|u32> $R, $r;",
	"cvt.<s8|u8|s16|u16|s32|u32>.<s8|u8|s16|u16|s32|u32|s64|u64> $R, $d;",
	"cvt.<s8|u8|s16|u16|s32|u32|s64|u64>.<s8|u8|s16|u16|s32|u32|s64|u64> $D, $d;",
	"cvt.<s8|u8|s16|u16|s32|u32|s64|u64>.<s8|u8|s16|u16> $D, $h;",
	"cvt.<s8|u8|s16|u16>.<s8|u8|s16|u16|s32|u32> $H, $r;",
	"cvt.sat.<s8|u8|s16|u16>.<s32|u32> <$R|$H>, $r;",
	"cvt.sat.<s8.u8|u8.s8|s8.s16|s8.u16|u8.s16|u8.u16|s16.u16|u16.s8|u16.s16> <$R, $r|$H, $r|$D, $h>;",
	"cvt.sat.<u32.s8|u32.s16|u32.s32|s32.u32> $R, $r;",
	"cvt.sat.<s8|u8|s16|u16|s32|u32>.<s64|u64> <$R|$D>, $d;",
	"cvt.sat.<u64.s8|u64.s16> $D, $h;",
	"cvt.sat.<u64.s32|u64.s64|s64.u64> $D, $d;",
	/* floating */
	"<add|sub><|.rn|.rz|.rm|.rp><|.ftz><|.sat>.f32 $F, $f, $f;",
	"mul<.rn|.rz|.rm|.rp><|.ftz><|.sat>.f32 $F, $f, $f;",
	"fma<.rn|.rz|.rm|.rp><|.ftz><|.sat>.f32 $F, $f, $f, $f;",
	"mad<.rn|.rz|.rm|.rp><|.ftz><|.sat>.f32 $F, $f, $f, $f;",
	"div<.rn|.rz|.rm|.rp><|.ftz>.f32 $F, $f, $f;",
	"<rcp|sqrt><.rn|.rz|.rm|.rp><|.ftz>.f32 $F, $f;",
	"<min|max><|.ftz>.f32 $F, $f, $f;",
	"<abs|neg><|.ftz>.f32 $F, $f;",
	"setp." FLOAT_COMPARISON "<|.ftz>.f32 $P, $f, $f;",
	"setp." FLOAT_COMPARISON ".<and|or|xor>.f32 $P|$P, $f, $f, $p;",
	"set." FLOAT_COMPARISON ".<u32|s32>.f32 $R, $f, $f;",
	"set." FLOAT_COMPARISON ".f32.f32 $F, $f, $f;",
	"selp.f32 $F, $f, $f, $p;",
	"slct.f32.<s32 $F, $f, $f, $r;|f32 $F, $f, $f, $f;>",
	"testp.<finite|infinite|number|notanumber|normal|subnormal>.f32 $P, $f;",
	"mov.f32 $F, $f;",
	"<add|sub><|.rn|.rz|.rm|.rp>.f64 $G, $g, $g;",
	"mul<.rn|.rz|.rm|.rp>.f64 $G, $g, $g;",
	"fma<.rn|.rz|.rm|.rp>.f64 $G, $g, $g, $g;",
	"div<.rn|.rz|.rm|.rp>.f64 $G, $g, $g;",
	"<rcp|sqrt><.rn|.rz|.rm|.rp>.f64 $G, $g;",
	"<min|max>.f64 $G, $g, $g;",
	"<abs|neg>.f64 $G, $g;",
	"setp." FLOAT_COMPARISON ".f64 $P, $g, $g;",
	"testp.<finite|infinite|number|notanumber|normal|subnormal>.f64 $P, $g;",
	/* conversions of floating numbers */
	"cvt<.rn|.rz|.rm|.rp><|.sat>.f32.<s8|u8|s16|u16|s32|u32> $F, $r;",
	"cvt<.rn|.rz|.rm|.rp>.f32.<s64|u64> $F, $d;",
	"cvt<.rn|.rz|.rm|.rp>.f64.<s32|u32> $G, $r;",
	"cvt<.rn|.rz|.rm|.rp>.f64.<s64|u64> $G, $d;",
	"cvt<.rni|.rzi|.rmi|.rpi><|.ftz>.<s8|u8|s16|u16|s32|u32>.f32 $R, $f;",
	"cvt<.rni|.rzi|.rmi|.rpi>.<s64|u64>.<f32 $D, $f;|f64 $D, $g;>",
	"cvt<.rni|.rzi|.rmi|.rpi>.<s32|u32>.f64 $R, $g;",
	"cvt<.rn|.rz|.rm|.rp>.f32.f64 $F, $g;",
	"cvt.f64.f32 $G, $f;",
	"cvt<.rni|.rzi|.rmi|.rpi>.<f32.f32 $F, $f;|f64.f64 $G, $g;>",
	"cvt.sat.f32.f32 $F, $f;",
	/* halves */
	"{ .reg .b16 t; <add|sub|mul|min|max>.f16 t, $o, $o; cvt.f32.f16 $F, t; }",
	"{ .reg .b16 t; fma.rn.f16 t, $o, $o, $o; cvt.f32.f16 $F, t; }",
	"{ .reg .b16 t; cvt.rn.f16.f32 t, $f; cvt.f32.f16 $F, t; }",
	"{ .reg .b16 t; fma.rn.bf16 t, $o, $o, $o; cvt.f32.bf16 $F, t; }",
	"setp." FLOAT_COMPARISON ".f16 $P, $o, $o;",
	"setp." FLOAT_COMPARISON ".<f16x2|bf16x2> $P|$P, $r, $r;",
	"{ .reg .b32 t; .reg .b16 a, b; <add|sub|mul|min|max>.f16x2 t, $r, $r; mov.b32 {a, b}, t; cvt.f32.f16 $F, a; cvt.f32.f16 $F, b; }",
	"{ .reg .b32 t; .reg .b16 a, b; fma.rn.f16x2 t, $r, $r, $r; mov.b32 {a, b}, t; cvt.f32.f16 $F, a; setp.gt.f16 $P, b, a; }",
	"{ .reg .b32 t; .reg .b16 a, b; fma.rn.bf16x2 t, $r, $r, $r; mov.b32 {a, b}, t; cvt.f32.bf16 $F, a; setp.gt.bf16 $P, b, a; }",
	/* of numbers: a NaN's sign is not said */
	"copysign.f32 $F, <0f3f800000|0f80000000>, $f;",
	"copysign.f64 $G, <0d3ff0000000000000|0d8000000000000000>, $g;",
	/* memory */
	IN(2040) "ld.global<|.nc>.<u8|s8|u16|s16|u32|s32|b32> $R, [a+<0|4>]; }",
	IN(2040) "ld.global<|.nc>.<u8|s8|u16|s16|u32|s32|u64|s64|b64> $D, [a]; }",
	IN(2040) "ld.<|volatile.>global.<u8|s8|u16|s16> $H, [a]; }",
	IN(2040) "<ld.global.f32 $F, [a+4];|ld.global.f64 $G, [a];> }",
	IN(2032) "ld.global.v2.<u32|s32> {$R, $R}, [a+8]; }",
	IN(2032) "ld.global.v4.<u32|s32|s8|u8|s16> {$R, $R, $R, $R}, [a]; }",
	IN(2032) "ld.v2.u64 {$D, $D}, [a]; }",
	LOCAL "st.local.<b8|b16|b32> [a], $r; }",
	LOCAL "st.local.b64 [a], $d; }",
	LOCAL "ld.local.<u8|s8|u16|s16|u32> $R, [a]; }",
	LOCAL "ld.local.<u64|s32> $D, [a]; }",
	"st.global.<b8|b16|b32> [%own+" OFFSET "], $r;",
	"st.global.b64 [%own+" OFFSET "], $d;",
	"ld.global.<u8|s8|u16|s16|u32> $R, [%own+" OFFSET "];",
	"ld.global.b64 $D, [%own+" OFFSET "];",
	LOCAL "cvta.local.u64 a, a; st.<b8|b16|b32> [a], $r; ld.<u8|s16|u32> $R, [a]; }",
	"st.local.v4.b32 [lm+<0|16|32|48>], {$r, $r, $r, $r};",
	"st.local.v4.b8 [lm+<4|20|60>], {$r, $r, $r, $r};",
	"ld.local.v2.b64 {$D, $D}, [lm+<0|16|32|48>];",
	"ld.local.v4.<u8|s8> {$R, $R, $R, $R}, [lm+<12|28|56>];",
	"st.global.v2.b64 [%own+<0|16|32|48>], {$d, $d};",
	"st.global.v4.b16 [%own+<8|24|40>], {$o, $o, $o, $o};",
	"ld.global.v4.<u8|s16|b32> {$R, $R, $R, $R}, [%own+<0|16|32|48>];",
	"atom.global.cas.b16 $H, [%own+<0|2|18|46>], $h, $h;",
	"atom.global.<add|min|max>.<u32|s32> $R, [%own+" OFFSET "], $r;",
	"atom.<|global.><and|or|xor|exch>.b32 $R, [%own+" OFFSET "], $r;",
	"atom.global.<inc|dec>.u32 $R, [%own+" OFFSET "], $r;",
	"atom.global.cas.b32 $R, [%own+" OFFSET "], $r, $r;",
	"atom.global.<add.u64|min.s64|max.u64|exch.b64|xor.b64> $D, [%own+" OFFSET "], $d;",
	"atom.global.cas.b64 $D, [%own+" OFFSET "], $d, $d;",
	"red.global.<add|min|max>.u32 [%own+" OFFSET "], $r;",
	/* other threads see these only at the end */
	"red.global.<add.u32 [%counters]|add.s32 [%counters+4]|xor.b32 [%counters+8]|or.b32 [%counters+12]>, $r;",
	"red.global.<max.u32 [%counters+16]|min.s32 [%counters+20]>, $r;",
	"red.shared.<add.u32 [counts]|and.b32 [counts+4]>, $r;",
	"red.shared.<or.b32 [counts+8]|xor.b32 [counts+12]|max.s32 [counts+16]|min.u32 [counts+20]>, $r;",
	"red.shared.add.u64 [counts+24], $d;",
};

/* In code that all threads of a block run together: what is the same in all of them may change. */
static const char *const random_uniform_rows[] = {
	"<add.u32|sub.s32|mul.lo.s32|and.b32|or.b32|xor.b32> $U, $u, $u;",
	"<shl|shr>.b32 $U, $u, <1|3|9|17>;",
	"<min|max|div|rem>.<u32|s32> $U, $u, $u;",
	"mov.u32 $U, <%ctaid.x|%ntid.x|%nctaid.x|7|0x80000001>;",
};
/* clang-format on */

#endif
