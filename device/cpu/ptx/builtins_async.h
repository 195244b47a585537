/* SPDX-License-Identifier: MIT
 *
 * Asynchronous copies and barriers in memory (mbarrier): the part of builtins.c for emit_async.c.
 *
 * A barrier: from bit 0 the arrivals that its phase waits for, from bit 20 those that each phase does, from bit 40 the bytes
 * of copies that the phase waits for, with a sign, and in bit 63 whether an odd number of phases has passed.
 */
enum { MBARRIER_COUNT = 0xfffff, MBARRIER_EXPECTED = 20, MBARRIER_BYTES = 40, MBARRIER_PHASE = 63 };

BUILTIN void ptx_mbarrier_init(u64 *barrier, u32 count)
{
	*barrier = (u64)(count & MBARRIER_COUNT) << MBARRIER_EXPECTED | (count & MBARRIER_COUNT);
}

BUILTIN u64 ptx_mbarrier_change(u64 *barrier, u32 arrive, u32 drop, u32 more)
{
	u64 old = *barrier, phase = old >> MBARRIER_PHASE;
	u64 pending = (old - arrive) & MBARRIER_COUNT;
	u64 expected = ((old >> MBARRIER_EXPECTED) - drop) & MBARRIER_COUNT;
	u64 bytes = ((old >> MBARRIER_BYTES) + more) << 41 >> 41;

	if (!pending && !bytes) {
		pending = expected;
		phase ^= 1;
	}
	*barrier = phase << MBARRIER_PHASE | bytes << MBARRIER_BYTES |
		   expected << MBARRIER_EXPECTED | pending;
	return old;
}

/* Whether the phase of an arrival has passed, or the one that made as many as `parity` says. */
BUILTIN u32 ptx_mbarrier_passed(const u64 *barrier, u64 state)
{
	return (u32)((*barrier ^ state) >> MBARRIER_PHASE);
}
BUILTIN u32 ptx_mbarrier_passed_parity(const u64 *barrier, u32 parity)
{
	return (u32)(*barrier >> MBARRIER_PHASE ^ parity) & 1;
}
BUILTIN u32 ptx_mbarrier_pending(u64 state)
{
	return (u32)state & MBARRIER_COUNT;
}

BUILTIN void ptx_copy_bulk(u8 *to, const u8 *from, u32 bytes)
{
	__builtin_memcpy(to, from, bytes);
}

/* Shared memory of a cluster's blocks is side by side in the window, `stride` bytes apart. */
BUILTIN void ptx_copy_to_cluster(u8 *to, const u8 *from, u32 bytes, u32 mask, u8 *barrier,
	u8 *window, u64 stride, u32 blocks)
{
	u64 at = (u64)(to - window) % stride, counter = (u64)(barrier - window) % stride;

	for (u32 rank = 0; rank < blocks; rank++) {
		u8 *part = window + rank * stride;

		if (!(mask >> rank & 1))
			continue;
		__builtin_memcpy(part + at, from, bytes);
		ptx_mbarrier_change((u64 *)(part + counter), 0, 0, -bytes);
	}
}

/* The same place in the first block that the mask names; of ranks that no block has, in the first block. */
BUILTIN u8 *ptx_first_of_cluster(u8 *to, u32 mask, u8 *window, u64 stride, u32 blocks)
{
	u64 rank = mask ? (u64)__builtin_ctz(mask) : 0;

	if (rank >= blocks)
		rank = 0;
	return window + rank * stride + (u64)(to - window) % stride;
}

/* cp.async with a size of its source: zeros behind that. */
BUILTIN void ptx_copy_filled(u8 *to, const u8 *from, u32 bytes, u32 take)
{
	for (u32 k = 0; k < bytes; k++)
		to[k] = k < take ? from[k] : 0;
}
