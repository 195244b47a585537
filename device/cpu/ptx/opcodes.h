/* SPDX-License-Identifier: MIT
 *
 * The tables of PTX's vocabulary: types, modifiers and opcodes. An opcode's row says how many
 * operands it takes, how many of them are results, what kind of instruction it is to the analyses,
 * and which modifiers it may carry: anything else is reported as not supported. How it becomes
 * code is said in emit.c (native) or builtins.c (a C function of the same name).
 */
#ifndef GDEV_DEVICE_CPU_PTX_OPCODES_H
#define GDEV_DEVICE_CPU_PTX_OPCODES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define PTX_MAX_MODIFIERS 12

/* clang-format off */
/* name, bits, class: p predicate, b bits, u, s, f */
#define PTX_TYPES(X)                                                                               \
	X(pred, 1, 'p') X(b8, 8, 'b') X(b16, 16, 'b') X(b32, 32, 'b') X(b64, 64, 'b')              \
	X(b128, 128, 'b') X(u8, 8, 'u') X(u16, 16, 'u') X(u32, 32, 'u') X(u64, 64, 'u')            \
	X(s8, 8, 's') X(s16, 16, 's') X(s32, 32, 's') X(s64, 64, 's') X(f16, 16, 'f')              \
	X(f32, 32, 'f') X(f64, 64, 'f') X(f16x2, 32, 'v') X(bf16, 16, 'h') X(bf16x2, 32, 'w')      \
	X(u16x2, 32, 'x') X(s16x2, 32, 'y') X(f32x2, 64, 'z')

enum ptx_type {
	TYPE_NONE,
#define X(name, bits, class) TYPE_##name,
	PTX_TYPES(X)
#undef X
		TYPE_COUNT
};

extern const uint8_t ptx_type_bits[TYPE_COUNT];
extern const char ptx_type_class[TYPE_COUNT];
extern const char *const ptx_type_name[TYPE_COUNT];

#define PTX_MODIFIERS(X)                                                                           \
	X(eq) X(ne) X(lt) X(le) X(gt) X(ge) X(lo) X(ls) X(hi) X(hs) X(equ) X(neu) X(ltu) X(leu)    \
	X(gtu) X(geu) X(num) X(nan) X(rn) X(rz) X(rm) X(rp) X(rna) X(rni) X(rzi) X(rmi) X(rpi)     \
	X(ftz) X(sat) X(approx) X(full) X(wide) X(cc) X(to) X(uni) X(sync) X(arrive) X(red)        \
	X(aligned) X(volatile) X(relaxed) X(acquire) X(release) X(acq_rel) X(sc) X(weak) X(mmio)   \
	X(v2) X(v4) X(v8) X(global) X(shared) X(local) X(const) X(param) X(and) X(or) X(xor)       \
	X(add) X(min) X(max) X(inc) X(dec) X(exch) X(cas) X(popc) X(up) X(down) X(bfly) X(idx)     \
	X(all) X(any) X(ballot) X(f4e) X(b4e) X(rc8) X(ecl) X(ecr) X(rc16) X(l) X(r) X(wrap)       \
	X(clamp) X(shiftamt) X(finite) X(infinite) X(number) X(notanumber) X(normal) X(subnormal)  \
	X(cta) X(gpu) X(sys) X(cluster) X(gl) X(cv) X(ca) X(cg) X(cs) X(lu) X(wb) X(wt) X(nc)      \
	X(noftz) X(xorsign) X(abs) X(L1) X(L2) X(warp) X(satfinite) X(relu) X(pack)      \
	X(load) X(store) X(mma) X(c) X(d) X(m16n16k16) X(m32n8k16) X(m8n32k16) X(m16n16k8) \
	X(init) X(inval) X(arrive_drop) X(test_wait) X(try_wait) X(expect_tx) X(complete_tx)     \
	X(pending_count) X(noComplete) X(parity) X(mbarrier) X(noinc) X(bulk) X(bulk_group) X(read) \
	X(proxy) X(mbarrier_init) X(tensor) X(tile) X(im2col) X(4d) X(5d) X(reduce) X(prefetch)                                                                  \
	X(oob) X(level) X(async) X(wait) X(commit_group) X(wait_group) X(wait_all) X(row) X(col) X(trans)  \
	X(x1) X(x2) X(x4) X(m8n8) X(m8n8k4) X(m8n8k16) X(m8n8k32) X(m8n8k128) X(m16n8k4)           \
	X(m16n8k8) X(m16n8k16) X(m16n8k32) X(m16n8k64) X(m16n8k128) X(m16n8k256) X(tf32) X(e4m3)   \
	X(e5m2) X(s4) X(u4) X(b1) X(mma_async) X(fence) X(multicast)                              \
	X(e4m3x2) X(e5m2x2)                                                                        \
	X(1d) X(2d) X(3d) X(a1d) X(a2d) X(cube) X(acube) X(base) X(grad) X(b) X(g) X(a) X(trap)    \
	X(zero) X(width) X(height) X(depth) X(channel_data_type) X(channel_order)                  \
	X(normalized_coords) X(array_size) X(num_mipmap_levels) X(num_samples)

enum ptx_modifier {
	MOD_NONE,
#define X(name) MOD_##name,
	PTX_MODIFIERS(X)
#undef X
		MOD_COUNT
};

_Static_assert(MOD_COUNT <= 256, "an instruction keeps its modifiers in bytes");

extern const char *const ptx_modifier_name[MOD_COUNT];

enum opcode_flags {
	OPF_PURE = 1,        /* result depends on operands only */
	OPF_CHEAP = 2,       /* and costs no more than a load: may be computed again */
	OPF_BORDER = 4,      /* threads wait for each other: ends a region */
	OPF_COLLECTIVE = 8,  /* reads values of other threads of the warp or block */
	OPF_TERMINATOR = 16, /* ends a basic block */
	OPF_EFFECT = 32,     /* not removable, not repeatable */
	OPF_IGNORE = 64,     /* accepted, no code */
	OPF_CARRY = 128,     /* reads or writes the carry with .cc */
};

struct opcode {
	const char *name;
	uint8_t min_operands, max_operands, dests;
	uint8_t flags;
	const char *modifiers; /* space separated; NULL: any known one */
};

/* X(id, name, min, max, dests, flags, modifiers); P, PC and E are short for flags: see opcodes.c */
#define FLOAT_MODS "rn rz rm rp ftz sat"
#define PTX_OPCODES(X)                                                                             \
	X(add, "add", 3, 3, 1, PC | OPF_CARRY, FLOAT_MODS " cc")                                   \
	X(sub, "sub", 3, 3, 1, PC | OPF_CARRY, FLOAT_MODS " cc")                                   \
	X(addc, "addc", 3, 3, 1, P | OPF_CARRY, "cc")                                              \
	X(subc, "subc", 3, 3, 1, P | OPF_CARRY, "cc")                                              \
	X(mul, "mul", 3, 3, 1, PC, FLOAT_MODS " lo hi wide")                                       \
	X(mad, "mad", 4, 4, 1, PC | OPF_CARRY, FLOAT_MODS " lo hi wide cc")                        \
	X(madc, "madc", 4, 4, 1, P | OPF_CARRY, "lo hi cc")                                        \
	X(mul24, "mul24", 3, 3, 1, PC, "lo hi")                                                    \
	X(mad24, "mad24", 4, 4, 1, PC, "lo hi sat")                                                \
	X(fma, "fma", 4, 4, 1, P, FLOAT_MODS " relu")                                              \
	X(sad, "sad", 4, 4, 1, P, "")                                                              \
	X(div, "div", 3, 3, 1, P, "rn rz rm rp ftz full approx")                                   \
	X(rem, "rem", 3, 3, 1, P, "")                                                              \
	X(abs, "abs", 2, 2, 1, PC, "ftz")                                                          \
	X(neg, "neg", 2, 2, 1, PC, "ftz")                                                          \
	X(min, "min", 3, 4, 1, PC, "ftz nan xorsign abs relu")                                     \
	X(max, "max", 3, 4, 1, PC, "ftz nan xorsign abs relu")                                     \
	X(and, "and", 3, 3, 1, PC, "")                                                             \
	X(or, "or", 3, 3, 1, PC, "")                                                               \
	X(xor, "xor", 3, 3, 1, PC, "")                                                             \
	X(not, "not", 2, 2, 1, PC, "")                                                             \
	X(cnot, "cnot", 2, 2, 1, PC, "")                                                           \
	X(lop3, "lop3", 5, 6, 1, PC, "and or")                                                     \
	X(shl, "shl", 3, 3, 1, PC, "")                                                             \
	X(shr, "shr", 3, 3, 1, PC, "")                                                             \
	X(shf, "shf", 4, 4, 1, P, "l r wrap clamp")                                                \
	X(bfe, "bfe", 4, 4, 1, P, "")                                                              \
	X(bfi, "bfi", 5, 5, 1, P, "")                                                              \
	X(bmsk, "bmsk", 3, 3, 1, P, "clamp wrap")                                                  \
	X(szext, "szext", 3, 3, 1, P, "clamp wrap")                                                \
	X(bfind, "bfind", 2, 2, 1, P, "shiftamt")                                                  \
	X(fns, "fns", 4, 4, 1, P, "")                                                              \
	X(brev, "brev", 2, 2, 1, P, "")                                                            \
	X(popc, "popc", 2, 2, 1, P, "")                                                            \
	X(clz, "clz", 2, 2, 1, P, "")                                                              \
	X(prmt, "prmt", 4, 4, 1, P, "f4e b4e rc8 ecl ecr rc16")                                    \
	X(dp4a, "dp4a", 4, 4, 1, P, "")                                                            \
	X(dp2a, "dp2a", 4, 4, 1, P, "lo hi")                                                       \
	X(vabsdiff2, "vabsdiff2", 4, 4, 1, P, "add")                                               \
	X(vabsdiff4, "vabsdiff4", 4, 4, 1, P, "add")                                               \
	X(rcp, "rcp", 2, 2, 1, P, "approx rn rz rm rp ftz")                                        \
	X(sqrt, "sqrt", 2, 2, 1, P, "approx rn rz rm rp ftz")                                      \
	X(rsqrt, "rsqrt", 2, 2, 1, P, "approx ftz")                                                \
	X(sin, "sin", 2, 2, 1, P, "approx ftz")                                                    \
	X(cos, "cos", 2, 2, 1, P, "approx ftz")                                                    \
	X(lg2, "lg2", 2, 2, 1, P, "approx ftz")                                                    \
	X(ex2, "ex2", 2, 2, 1, P, "approx ftz")                                                    \
	X(tanh, "tanh", 2, 2, 1, P, "approx")                                                      \
	X(testp, "testp", 2, 2, 1, P, "finite infinite number notanumber normal subnormal")        \
	X(copysign, "copysign", 3, 3, 1, P, "")                                                    \
	X(setp, "setp", 3, 5, 1, PC,                                                               \
		"eq ne lt le gt ge lo ls hi hs equ neu ltu leu gtu geu num nan and or xor ftz")    \
	X(set, "set", 3, 4, 1, PC,                                                                 \
		"eq ne lt le gt ge lo ls hi hs equ neu ltu leu gtu geu num nan and or xor ftz")    \
	X(selp, "selp", 4, 4, 1, PC, "")                                                           \
	X(slct, "slct", 4, 4, 1, PC, "ftz")                                                        \
	X(mov, "mov", 2, 2, 1, PC, "")                                                             \
	X(cvt, "cvt", 2, 4, 1, PC,                                                                 \
		"rn rz rm rp rna rni rzi rmi rpi ftz sat satfinite relu pack tf32 e4m3x2 e5m2x2")  \
	X(cvta, "cvta", 2, 2, 1, PC, "to global shared local const param")                         \
	X(isspacep, "isspacep", 2, 2, 1, P, "global shared local const param")                     \
	X(ld, "ld", 2, 3, 1, 0,                                                                    \
		"global shared local const param volatile relaxed acquire weak mmio cta gpu sys "  \
		"cluster v2 v4 v8 ca cg cs lu cv nc L1 L2 level")                                  \
	X(ldu, "ldu", 2, 2, 1, 0, "global v2 v4")                                                  \
	X(st, "st", 2, 3, 0, E,                                                                    \
		"global shared local param volatile relaxed release weak mmio cta gpu sys cluster "\
		"v2 v4 v8 wb cg cs wt L1 L2 level async mbarrier")                                                \
	X(atom, "atom", 3, 5, 1, E,                                                                \
		"global shared relaxed acquire release acq_rel cta gpu sys cluster and or xor add "\
		"min max inc dec exch cas noftz L2 level")                                         \
	X(red, "red", 2, 3, 0, E,                                                                  \
		"global shared relaxed acquire release acq_rel cta gpu sys cluster and or xor add "\
		"min max inc dec noftz L2 level async mbarrier")                                   \
	X(cp, "cp", 0, 7, 0, E,                                                                    \
		"async ca cg shared global L2 level commit_group wait_group wait_all mbarrier arrive "\
		"noinc bulk bulk_group read multicast tensor tile im2col 1d 2d 3d 4d 5d reduce "    \
		"prefetch add min max inc dec and or xor")                                            \
	X(mbarrier, "mbarrier", 1, 4, 0, E,                                                        \
		"init inval arrive arrive_drop test_wait try_wait expect_tx complete_tx "          \
		"pending_count noComplete parity relaxed acquire release cta cluster shared")      \
	X(createpolicy, "createpolicy", 2, 5, 1, P, NULL)                                          \
	X(mapa, "mapa", 3, 3, 1, PC, "shared")                                                     \
	X(getctarank, "getctarank", 2, 2, 1, PC, "shared")                                         \
	X(prefetch, "prefetch", 1, 1, 0, OPF_IGNORE, NULL)                                         \
	X(prefetchu, "prefetchu", 1, 1, 0, OPF_IGNORE, NULL)                                       \
	X(applypriority, "applypriority", 2, 2, 0, OPF_IGNORE, NULL)                               \
	X(discard, "discard", 2, 2, 0, OPF_IGNORE, NULL)                                           \
	X(membar, "membar", 0, 0, 0, E, "cta gl sys gpu")                                          \
	X(fence, "fence", 0, 0, 0, E,                                                              \
		"cta gpu sys cluster sc acq_rel acquire release proxy async mbarrier_init global shared")            \
	X(bar, "bar", 1, 5, 0, E | OPF_BORDER, "sync red arrive popc and or cta aligned warp")     \
	X(barrier, "barrier", 0, 5, 0, E | OPF_BORDER,                                             \
		"sync red arrive wait popc and or cta aligned cluster relaxed acquire release")                         \
	X(shfl, "shfl", 4, 5, 1, OPF_BORDER | OPF_COLLECTIVE, "sync up down bfly idx")             \
	X(vote, "vote", 2, 3, 1, OPF_BORDER | OPF_COLLECTIVE, "sync all any uni ballot")           \
	X(match, "match", 3, 4, 1, OPF_BORDER | OPF_COLLECTIVE, "sync any all")                    \
	X(redux, "redux", 3, 3, 1, OPF_BORDER | OPF_COLLECTIVE, "sync add min max and or xor")     \
	X(activemask, "activemask", 1, 1, 1, OPF_BORDER | OPF_COLLECTIVE, "")                      \
	X(elect, "elect", 2, 3, 1, OPF_BORDER | OPF_COLLECTIVE, "sync")                            \
	X(mma, "mma", 4, 4, 1, OPF_BORDER | OPF_COLLECTIVE,                                        \
		"sync aligned row col satfinite popc and xor m8n8k4 m8n8k16 m8n8k32 m8n8k128 "     \
		"m16n8k4 m16n8k8 m16n8k16 m16n8k32 m16n8k64 m16n8k128 m16n8k256 "                  \
		"tf32 e4m3 e5m2 s4 u4 b1")                                                         \
	X(wmma, "wmma", 2, 4, 1, E | OPF_BORDER | OPF_COLLECTIVE,                                  \
		"load store mma a b c d sync aligned row col satfinite popc and xor rn global "    \
		"shared m16n16k16 m32n8k16 m8n32k16 m16n16k8 m8n8k4 m8n8k32 m8n8k128 tf32 s4 u4 b1") \
	X(ldmatrix, "ldmatrix", 2, 2, 1, OPF_BORDER | OPF_COLLECTIVE,                              \
		"sync aligned shared m8n8 x1 x2 x4 trans")                                         \
	X(stmatrix, "stmatrix", 2, 2, 0, E | OPF_BORDER | OPF_COLLECTIVE,                          \
		"sync aligned shared m8n8 x1 x2 x4 trans")                                         \
	X(movmatrix, "movmatrix", 2, 2, 1, OPF_BORDER | OPF_COLLECTIVE,                            \
		"sync aligned m8n8 trans")                                                         \
	X(wgmma, "wgmma", 0, 9, 1, E | OPF_BORDER | OPF_COLLECTIVE,                                \
		"mma_async fence commit_group wait_group sync aligned satfinite popc and tf32 "    \
		"e4m3 e5m2 b1")                                                                    \
	X(tex, "tex", 3, 6, 1, 0, "1d 2d 3d a1d a2d cube acube v4 base level grad")                \
	X(tld4, "tld4", 3, 4, 1, 0, "2d a2d cube acube v4 base r g b a")                           \
	X(txq, "txq", 2, 3, 1, 0,                                                                  \
		"width height depth channel_data_type channel_order normalized_coords array_size " \
		"num_mipmap_levels num_samples level")                                             \
	X(suld, "suld", 3, 3, 1, 0,                                                                \
		"b 1d 2d 3d a1d a2d v2 v4 trap clamp zero ca cg cs cv")                            \
	X(sust, "sust", 3, 3, 0, E,                                                                \
		"b 1d 2d 3d a1d a2d v2 v4 trap clamp zero wb cg cs wt")                            \
	X(suq, "suq", 2, 2, 1, 0,                                                                  \
		"width height depth channel_data_type channel_order array_size")                   \
	X(nanosleep, "nanosleep", 1, 1, 0, E, "")                                                  \
	X(bra, "bra", 1, 1, 0, OPF_TERMINATOR, "uni")                                              \
	X(brx, "brx", 2, 2, 0, OPF_TERMINATOR, "idx uni")                                          \
	X(ret, "ret", 0, 0, 0, OPF_TERMINATOR, "uni")                                              \
	X(exit, "exit", 0, 0, 0, OPF_TERMINATOR, "")                                               \
	X(trap, "trap", 0, 0, 0, E, "")                                                            \
	X(brkpt, "brkpt", 0, 0, 0, E, "")                                                          \
	X(call, "call", 1, 3, 0, E, "uni")                                                         \
	X(pmevent, "pmevent", 1, 1, 0, OPF_IGNORE, NULL)                                           \
	X(setmaxnreg, "setmaxnreg", 1, 1, 0, OPF_IGNORE, NULL)                                     \
	X(griddepcontrol, "griddepcontrol", 0, 0, 0, OPF_IGNORE, NULL)

/* clang-format on */

enum ptx_opcode {
#define X(id, ...) OP_##id,
	PTX_OPCODES(X)
#undef X
	/* Made by the parser and by passes, never written. */
	OP_exchange, /* mov whose result other threads read: always kept in memory */
	OP_async,    /* st.async or red.async: an update of memory and of a barrier in memory */
	OP_COUNT
};

extern const struct opcode ptx_opcodes[OP_COUNT];

/* Look-ups by name of `length` bytes; -1 when unknown. */
int ptx_opcode_lookup(const char *name, size_t length);
int ptx_modifier_lookup(const char *name, size_t length);
int ptx_type_lookup(const char *name, size_t length);
bool ptx_opcode_allows(unsigned op, unsigned modifier);

#endif
