/* SPDX-License-Identifier: MIT
 *
 * Scheduled plans (region.h): which threads go on when every thread waits at a gate (gates.h) or has
 * left. `codes` has the word of each thread, `wants` what it waits for: the mask at GATE_MASK and
 * GATE_WARP; at GATE_BLOCK what gates.h says. `arrived` has, for each barrier, a number of threads that have come to it without waiting and, for each warp, which lanes have come besides.
 */
#include "gates.h"

/* Of the lanes `among`, those whose word is within [from, end). An array has whole warps. */
static inline u32 gate_lanes(const u32 *codes, u32 among, u32 from, u32 end)
{
	u32 lanes = 0;

	for (u32 l = 0; l < 32; l++)
		lanes |= (u32)(codes[l] - from < end - from) << l;
	return lanes & among;
}

/* Lanes with the same mask whose words are within [from, end) go on when they are all of it that have not
 * left. Others of it may be at the same instruction, in another round of a loop, with another mask. */
static inline u32 gate_complete(
	const u32 *codes, const u32 *wants, u32 among, u32 alive, u32 from, u32 end)
{
	u32 ready = 0;

	for (u32 rest = gate_lanes(codes, among, from, end); rest;) {
		u32 mask = wants[__builtin_ctz(rest)];
		u32 at = gate_lanes(wants, rest, mask, mask + 1);

		if (!(mask & alive & ~at))
			ready |= at;
		rest &= ~at;
	}
	return ready;
}

static inline u32 gate_release_warp(u32 *codes, const u32 *wants, u32 lanes, const u32 *table)
{
	u32 n = table[GATE_TABLE_COUNT], ready = 0;
	u32 alive = gate_lanes(codes, lanes, 0, GATE_LEFT);
	u32 rest = gate_lanes(codes, lanes, n + table[GATE_MASK], n + table[GATE_WARP]);

	while (rest) {
		u32 code = codes[__builtin_ctz(rest)];

		ready |= gate_complete(codes, wants, rest, alive, code, code + 1);
		rest &= ~gate_lanes(codes, rest, code, code + 1);
	}
	ready |= gate_complete(
		codes, wants, lanes, alive, n + table[GATE_WARP], n + table[GATE_HERE]);
	if (!ready)
		ready = gate_lanes(codes, lanes, n + table[GATE_HERE], n + table[GATE_SPIN]);
	ready |= gate_lanes(codes, lanes, n + table[GATE_SPIN], 2 * n);
	for (u32 l = 0; l < 32; l++)
		codes[l] -= ready >> l & 1 ? n : 0;
	return ready;
}

static inline u32 gate_warps(u32 threads)
{
	return (threads + 31) / 32;
}

static inline u32 *gate_words(u32 *arrived, u32 threads, u32 barrier)
{
	return arrived + barrier % GATE_BARRIERS * (gate_warps(threads) + 1);
}

/* Of a warp, the lanes that have not left. */
static inline u32 gate_alive(const u32 *codes, u32 threads, u32 warp)
{
	u32 lanes = threads - warp * 32 < 32 ? (1u << (threads - warp * 32)) - 1 : UINT32_MAX;

	return gate_lanes(codes + warp * 32, lanes, 0, GATE_LEFT);
}

/* How many threads the lanes of a warp count for: a whole warp as soon as none of them is missing but those that have left, or
 * that a block which is no whole number of warps never had. */
static inline u32 gate_count(u32 come, const u32 *codes, u32 threads, u32 warp)
{
	if (!come || come == UINT32_MAX)
		return come ? 32 : 0;
	return gate_alive(codes, threads, warp) & ~come ? (u32)__builtin_popcount(come) : 32;
}

static inline u32 gate_arrived(const u32 *barrier, const u32 *codes, u32 threads)
{
	u32 come = barrier[0];

	for (u32 w = 0; w < gate_warps(threads); w++)
		come += gate_count(barrier[1 + w], codes, threads, w);
	return come;
}

static inline void gate_begin(u32 *barrier, u32 threads)
{
	for (u32 k = 0; k <= gate_warps(threads); k++)
		barrier[k] = 0;
}

/* A barrier counts whole warps. */
static inline u32 gate_wanted(u32 threads)
{
	return (threads + 31) & ~31u;
}

/* bar.arrive of one thread. Barriers to which all have come that they want begin anew. */
BUILTIN void ptx_arrive(
	u32 *arrived, const u32 *codes, u32 threads, u32 thread, u32 barrier, u32 wanted)
{
	u32 *b = gate_words(arrived, threads, barrier), w = thread / 32, lane = 1u << thread % 32;

	if (b[1 + w] & lane) { /* again, before the others of its warp */
		b[0] += gate_count(b[1 + w], codes, threads, w);
		b[1 + w] = 0;
	}
	b[1 + w] |= lane;
	if (gate_arrived(b, codes, threads) == gate_wanted(wanted))
		gate_begin(b, threads);
}

struct gate_barrier {
	u32 come;           /* what threads that wait at it, or have arrived, count for */
	u32 waiting, holds; /* those that wait, and those of them whose predicate holds */
};

/* Adds, for each barrier, what the lanes that wait at it count for beside those of their warp that have arrived. */
static inline void gate_add_waiting(struct gate_barrier *barriers, u32 *arrived, const u32 *codes,
	const u32 *wants, u32 threads, u32 warp, u32 n)
{
	u32 rest = gate_lanes(codes + warp * 32, gate_alive(codes, threads, warp), 2 * n, 3 * n);

	while (rest) {
		u32 barrier = wants[warp * 32 + (u32)__builtin_ctz(rest)] % GATE_BARRIERS, at = 0;
		u32 before = gate_words(arrived, threads, barrier)[1 + warp];
		struct gate_barrier *b = &barriers[barrier];

		for (u32 l = 0; l < 32; l++)
			if (rest >> l & 1 && wants[warp * 32 + l] % GATE_BARRIERS == barrier) {
				at |= 1u << l;
				b->holds += (wants[warp * 32 + l] & GATE_HOLDS) != 0;
			}
		b->waiting += (u32)__builtin_popcount(at);
		b->come += before & at ? gate_count(at, codes, threads, warp)
				       : gate_count(before | at, codes, threads, warp) -
						 gate_count(before, codes, threads, warp);
		rest &= ~at;
	}
}

/* Barriers to which all threads have come that they want: all that have not left, where they name no number. Returns
 * GATE_OPENED and GATE_MET. */
static u32 gate_release_barriers(u32 *codes, u32 *wants, u32 *arrived, u32 threads, u32 n)
{
	struct gate_barrier barriers[GATE_BARRIERS];
	u32 all = 0, released = 0;

	for (u32 k = 0; k < GATE_BARRIERS; k++)
		barriers[k] = (struct gate_barrier){
			gate_arrived(gate_words(arrived, threads, k), codes, threads), 0, 0};
	for (u32 w = 0; w < gate_warps(threads); w++) {
		gate_add_waiting(barriers, arrived, codes, wants, threads, w, n);
		all += gate_alive(codes, threads, w) ? 32 : 0;
	}
	for (u32 t = 0; t < threads; t++) {
		u32 barrier = wants[t] % GATE_BARRIERS,
		    wanted = gate_wanted(wants[t] >> GATE_WANTED);
		const struct gate_barrier *b = &barriers[barrier];

		if (codes[t] - 2 * n < n && b->come >= (wanted ? wanted : all)) {
			codes[t] -= 2 * n;
			wants[t] = b->waiting << GATE_WANTED | b->holds;
			gate_begin(gate_words(arrived, threads, barrier), threads);
			released |= barrier == GATE_CLUSTER ? GATE_OPENED | GATE_MET : GATE_OPENED;
		}
	}
	return released;
}

/* Returns GATE_OPENED and GATE_MET; 0 when nobody can go on: the threads wait for each other. Then `codes` says at which lines, 0
 * for those that have left. */
BUILTIN u32 ptx_release(u32 *codes, u32 *wants, u32 *arrived, u32 threads, const u32 *table)
{
	u32 n = table[GATE_TABLE_COUNT], released = 0;

	for (u32 t = 0; t < threads; t += 32)
		if (gate_release_warp(codes + t, wants + t,
			    threads - t < 32 ? (1u << (threads - t)) - 1 : UINT32_MAX, table))
			released |= GATE_OPENED;
	released |= gate_release_barriers(codes, wants, arrived, threads, n);
	for (u32 t = 0; t < threads && !released; t++)
		codes[t] = codes[t] == GATE_LEFT ? 0 : table[GATE_TABLE_LINES + codes[t] % n];
	return released;
}
