/* SPDX-License-Identifier: MIT
 *
 * Scheduled plans (region.h): which threads go on when every thread waits at a gate (gates.h) or has
 * left. `codes` has the word of each thread, `wants` what it waits for: the mask at GATE_MASK and
 * GATE_WARP; at GATE_BLOCK the barrier, and from bit 16 its number of threads, 0 for the whole block. `arrived` counts,
 * for each barrier, those that have come to it without waiting.
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

/* bar.arrive of one thread. Barriers to which all have come that they want begin anew. */
BUILTIN void ptx_arrive(u32 *arrived, u32 barrier, u32 wanted)
{
	u32 *n = &arrived[barrier % GATE_BARRIERS];

	*n = *n + 1 == wanted ? 0 : *n + 1;
}

/* Barriers to which all threads have come that they want: all that have not left, where they name no number. */
static u32 gate_release_barriers(u32 *codes, const u32 *wants, u32 *arrived, u32 threads, u32 n)
{
	u32 come[GATE_BARRIERS], alive = 0, released = 0;

	for (u32 k = 0; k < GATE_BARRIERS; k++)
		come[k] = arrived[k];
	for (u32 t = 0; t < threads; t++) {
		come[wants[t] % GATE_BARRIERS] += codes[t] - 2 * n < n;
		alive += codes[t] != GATE_LEFT;
	}
	for (u32 t = 0; t < threads; t++) {
		u32 barrier = wants[t] % GATE_BARRIERS, wanted = wants[t] >> 16;

		if (codes[t] - 2 * n < n && come[barrier] >= (wanted ? wanted : alive)) {
			codes[t] -= 2 * n;
			arrived[barrier] = 0;
			released = 1;
		}
	}
	return released;
}

/* False when nobody can go on: the threads wait for each other. Then `codes` says at which lines, 0
 * for those that have left. */
BUILTIN u32 ptx_release(u32 *codes, const u32 *wants, u32 *arrived, u32 threads, const u32 *table)
{
	u32 n = table[GATE_TABLE_COUNT], released = 0;

	for (u32 t = 0; t < threads; t += 32)
		released |= gate_release_warp(codes + t, wants + t,
			threads - t < 32 ? (1u << (threads - t)) - 1 : UINT32_MAX, table);
	released |= gate_release_barriers(codes, wants, arrived, threads, n);
	for (u32 t = 0; t < threads && !released; t++)
		codes[t] = codes[t] == GATE_LEFT ? 0 : table[GATE_TABLE_LINES + codes[t] % n];
	return released;
}
