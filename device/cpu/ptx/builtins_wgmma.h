/* SPDX-License-Identifier: MIT
 *
 * wgmma: the part of builtins.c for products whose factors lie in shared memory. A descriptor says where, and how: in tiles
 * of 8 rows by 16 bytes, whose rows are 16 bytes apart, or 32, 64 or 128 where a swizzle exchanges pieces of 16 bytes. A warp
 * computes 16 rows of the product. For that a tile is copied to where a register of a warp would have it (builtins_matrix.h).
 */
enum { WGMMA_LEADING = 16, WGMMA_STRIDE = 32, WGMMA_BASE = 49, WGMMA_SWIZZLE = 62 };

INSIDE u64 wgmma_bytes(u64 descriptor, u32 bit)
{
	return (descriptor >> bit & 0x3fff) << 4;
}

/* Pieces of 16 bytes from a row to the next one. */
INSIDE u64 wgmma_width(u64 descriptor)
{
	u32 swizzle = (u32)(descriptor >> WGMMA_SWIZZLE);

	return swizzle ? 16 >> swizzle : 1;
}

/* The swizzle takes bits 4 to 6 of an address, as many as it has, from where they are to those and bits 7 to 9. */
INSIDE const u8 *wgmma_address(const u8 *shared, u64 descriptor, u64 offset)
{
	u64 at = wgmma_bytes(descriptor, 0) + offset;

	return shared + (at ^ (at >> 7 & (wgmma_width(descriptor) - 1)) << 4);
}

/* The `piece`-th 16 bytes along the depth of 8 rows of A, or columns of B, from `row` on. */
INSIDE void wgmma_tile(const u8 *shared, u64 descriptor, u32 row, u32 piece, u32 turned, u8 *to)
{
	u64 leading = wgmma_bytes(descriptor, WGMMA_LEADING), width = wgmma_width(descriptor);
	u64 stride = wgmma_bytes(descriptor, WGMMA_STRIDE), at, k = row / 8;

	if (turned && width > 1)
		at = k % width * 16 + k / width * leading + piece * stride;
	else if (turned)
		at = k * stride + piece * leading;
	else
		at = k * stride + piece * (width > 1 ? 16 : leading);
	for (u32 n = 0; n < 8; n++) {
		const u8 *from = wgmma_address(shared, descriptor, at + n * 16 * width);

		for (u32 r = 0; r < 8 && turned; r++)
			STORE(to + r * 16 + n * 2, LOAD(u16, from + r * 2));
		if (!turned)
			__builtin_memcpy(to + n * 16, from, 16);
	}
}

INSIDE void wgmma_negate(u32 type, u8 *tile)
{
	u32 signs = type == MATRIX_TF32                         ? 0x80000000
		    : type == MATRIX_F16 || type == MATRIX_BF16 ? 0x80008000
								: 0x80808080;

	for (u32 k = 0; k < 128; k += 4)
		STORE(tile + k, LOAD(u32, tile + k) ^ signs);
}

INSIDE void wgmma_multiply(
	u8 *a, u8 *b, u8 *c, u8 *d, u32 type_a, u32 type_b, u32 type_d, u32 flags)
{
	const u32 depth = 256 / matrix_bits(type_a);

	if (type_a == MATRIX_B1)
		matrix_count(a, b, c, d, 128, 16, depth, MATRIX_AND);
	else
		matrix_multiply(a, b, c, d, 128, 16, depth, type_a, type_b, type_d, type_d,
			flags & WGMMA_SATURATES ? MATRIX_SATURATE : MATRIX_MULTIPLY);
}

/* Whether a descriptor begins within the pattern of its swizzle, by more than its address says. */
BUILTIN u32 ptx_wgmma_refuses(const u64 *descriptors, u64 stride, u32 count)
{
	u64 all = 0;

	for (u32 k = 0; k < count; k++)
		all |= descriptors[k * stride / 4];
	return all >> WGMMA_BASE & 7;
}

/* Of a warp, the rank of which in its group is `rank`. `count` arrays of descriptors; from `values` on, behind the first of
 * these, A if it has no descriptor, whether there is something to add to, and that, which becomes the sum. */
BUILTIN void ptx_wgmma(const u64 *descriptors, u8 *values, const u8 *shared, u32 rank, u64 stride,
	u32 count, u32 columns, u32 type_a, u32 type_b, u32 type_d, u32 flags)
{
	const u32 registers = type_d == MATRIX_F16 ? 2 : 4;
	u64 second = descriptors[(count - 1) * stride / 4];
	u8 a[512], b[256], c[512], d[512];

	values += (count - 1) * 2 * stride;
	for (u32 r = 0; r < 4; r++) {
		if (count == 2)
			wgmma_tile(shared, descriptors[0], rank * 16 + r % 2 * 8, r / 2,
				flags & WGMMA_A_TURNED, a + r * 128);
		else
			__builtin_memcpy(a + r * 128, values + r * stride, 128);
		if (flags & WGMMA_NEGATED)
			wgmma_negate(type_a, a + r * 128);
	}
	values += count == 2 ? 0 : 4 * stride;
	const u32 adds = LOAD(u32, values) & 1;
	values += stride;
	for (u32 n = 0; n < columns; n += 8) {
		for (u32 piece = 0; piece < 2; piece++)
			wgmma_tile(
				shared, second, n, piece, flags & WGMMA_B_TURNED, b + piece * 128);
		for (u32 r = 0; r < registers; r++)
			if (adds)
				__builtin_memcpy(c + r * 128, values + r * stride, 128);
			else
				__builtin_memset(c + r * 128, 0, 128);
		wgmma_multiply(a, b, c, d, type_a, type_b, type_d, flags);
		for (u32 r = 0; r < registers; r++)
			__builtin_memcpy(values + r * stride, d + r * 128, 128);
		values += registers * stride;
	}
}
