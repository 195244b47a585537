/* SPDX-License-Identifier: MIT
 *
 * wmma: the part of builtins.c for emit_wmma.c. A matrix lies row by row in the lanes of its first register, then in those of
 * the next one; what has fewer bits than a byte lies along the depth, B by columns. Everything but the pointers is constant
 * where it is called.
 */
INSIDE u8 *wmma_element(u8 *warp, u64 stride, u32 bits, u32 n)
{
	u32 array = bits == 64 ? 256 : 128, at = n * bits / 8;

	return warp + at / array * stride + at % array;
}

/* Where element n is in memory. */
INSIDE u64 wmma_place(u32 columns, u32 turned, u64 leading, u32 n)
{
	u32 row = n / columns, column = n % columns;

	return turned ? column * leading + row : row * leading + column;
}

/* `leading`: elements from a row, or column, to the next one, as the first lane says it. */
INSIDE u64 wmma_leading(const u8 *said, u32 rows, u32 columns, u32 turned, u32 named, u32 group)
{
	return named ? LOAD(u32, said) / group : turned ? rows : columns;
}

BUILTIN void ptx_wmma_load(const u64 *addresses, u8 *warp, u64 stride, u32 rows, u32 columns,
	u32 bits, u32 registers, u32 turned, u32 named, u32 group)
{
	const u8 *from = (const u8 *)addresses[0];
	u64 leading = wmma_leading(warp, rows, columns, turned, named, group);
	u32 count = registers * (bits == 64 ? 32 : 1024 / bits);
	u8 *to = warp + (named ? stride : 0);

	for (u32 n = 0; n < count; n++)
		__builtin_memcpy(wmma_element(to, stride, bits, n),
			from + wmma_place(columns, turned, leading, n % (rows * columns)) * bits /
					8,
			bits / 8);
}

BUILTIN void ptx_wmma_store(const u64 *addresses, u8 *warp, u64 stride, u32 rows, u32 columns,
	u32 bits, u32 registers, u32 turned, u32 named, u32 group)
{
	u8 *to = (u8 *)addresses[0];
	u64 leading = wmma_leading(warp + registers * stride, rows, columns, turned, named, group);

	for (u32 n = 0; n < rows * columns; n++)
		__builtin_memcpy(to + wmma_place(columns, turned, leading, n) * bits / 8,
			wmma_element(warp, stride, bits, n), bits / 8);
}

enum { WMMA_MOST = 512 };

/* An element of A or B: the bits of a float, or an integer. */
INSIDE u32 wmma_factor(u32 type, u8 *warp, u64 stride, u32 n)
{
	float f;
	u8 byte;

	switch (type) {
	case MATRIX_F16:
		f = (float)LOAD(f16, wmma_element(warp, stride, 16, n));
		return __builtin_bit_cast(u32, f);
	case MATRIX_BF16:
		return (u32)LOAD(u16, wmma_element(warp, stride, 16, n)) << 16;
	case MATRIX_TF32:
		return LOAD(u32, wmma_element(warp, stride, 32, n)) & 0xffffe000;
	case MATRIX_S8:
		return (u32)(s32)LOAD(int8_t, wmma_element(warp, stride, 8, n));
	case MATRIX_U8:
		return LOAD(u8, wmma_element(warp, stride, 8, n));
	}
	byte = LOAD(u8, wmma_element(warp, stride, 8, n / 2)) >> n % 2 * 4 & 15;
	return type == MATRIX_S4 ? (u32)((byte ^ 8) - 8) : byte;
}

INSIDE u32 wmma_sum(u32 type, u8 *warp, u64 stride, u32 n)
{
	float f;

	if (type != MATRIX_F16)
		return LOAD(u32, wmma_element(warp, stride, 32, n));
	f = (float)LOAD(f16, wmma_element(warp, stride, 16, n));
	return __builtin_bit_cast(u32, f);
}

INSIDE void wmma_keep(u32 type, u8 *warp, u64 stride, u32 n, u32 v)
{
	if (type == MATRIX_F16)
		STORE(wmma_element(warp, stride, 16, n), (f16) __builtin_bit_cast(float, v));
	else
		STORE(wmma_element(warp, stride, 32, n), v);
}

INSIDE u32 wmma_step(u32 type, u32 a, u32 b, u32 sum)
{
	float f;

	if (type > MATRIX_E5M2)
		return a * b + sum;
	f = __builtin_fmaf(__builtin_bit_cast(float, a), __builtin_bit_cast(float, b),
		__builtin_bit_cast(float, sum));
	return __builtin_bit_cast(u32, f);
}

INSIDE u32 wmma_saturated(u32 x, u32 y)
{
	return (u32)__builtin_elementwise_add_sat((s32)x, (s32)y);
}

INSIDE void wmma_multiply(u8 *a, u8 *b, u8 *c, u8 *d, u64 stride, u32 m, u32 n, u32 k, u32 type,
	u32 type_c, u32 type_d, u32 operation)
{
	u32 left[WMMA_MOST], right[WMMA_MOST], sum[32];
	u32 by_columns = type == MATRIX_S4 || type == MATRIX_U4;

	for (u32 e = 0; e < m * k; e++)
		left[e] = wmma_factor(type, a, stride, e);
	for (u32 e = 0; e < k * n; e++)
		right[e] = wmma_factor(type, b, stride, by_columns ? e % n * k + e / n : e);
	for (u32 row = 0; row < m; row++) {
		for (u32 e = 0; e < n; e++)
			sum[e] = operation == MATRIX_SATURATE
					 ? 0
					 : wmma_sum(type_c, c, stride, row * n + e);
		for (u32 s = 0; s < k; s++)
			for (u32 e = 0; e < n; e++)
				sum[e] = wmma_step(
					type, left[row * k + s], right[s * n + e], sum[e]);
		for (u32 e = 0; e < n; e++)
			wmma_keep(type_d, d, stride, row * n + e,
				operation == MATRIX_SATURATE
					? wmma_saturated(
						  sum[e], wmma_sum(type_c, c, stride, row * n + e))
					: sum[e]);
	}
}

INSIDE void wmma_count(u8 *a, u8 *b, u8 *c, u8 *d, u64 stride, u32 operation)
{
	for (u32 e = 0; e < 64; e++) {
		u32 sum = wmma_sum(MATRIX_S32, c, stride, e);

		for (u32 k = 0; k < 4; k++) {
			u32 x = LOAD(u32, wmma_element(a, stride, 32, e / 8 * 4 + k));
			u32 y = LOAD(u32, wmma_element(b, stride, 32, e % 8 * 4 + k));

			sum += (u32)__builtin_popcount(operation == MATRIX_AND ? x & y : x ^ y);
		}
		wmma_keep(MATRIX_S32, d, stride, e, sum);
	}
}

INSIDE void wmma_double(u8 *a, u8 *b, u8 *c, u8 *d, u64 stride)
{
	for (u32 e = 0; e < 64; e++) {
		double sum = LOAD(double, wmma_element(c, stride, 64, e));

		for (u32 k = 0; k < 4; k++)
			sum = __builtin_fma(
				LOAD(double, wmma_element(a, stride, 64, e / 8 * 4 + k)),
				LOAD(double, wmma_element(b, stride, 64, k * 8 + e % 8)), sum);
		STORE(wmma_element(d, stride, 64, e), sum);
	}
}

BUILTIN void ptx_wmma(
	u8 *warp, u64 stride, u32 m, u32 n, u32 k, u32 type, u32 type_c, u32 type_d, u32 operation)
{
	u8 *b = warp + (type == MATRIX_F16 ? 8 : matrix_registers(type, m * k)) * stride;
	u8 *c = b + (type == MATRIX_F16 ? 8 : matrix_registers(type, k * n)) * stride;
	u8 *d = c + matrix_registers(type_c, m * n) * stride;

	if (type == MATRIX_F64)
		wmma_double(warp, b, c, d, stride);
	else if (type == MATRIX_B1)
		wmma_count(warp, b, c, d, stride, operation);
	else
		wmma_multiply(warp, b, c, d, stride, m, n, k, type, type_c, type_d, operation);
}
