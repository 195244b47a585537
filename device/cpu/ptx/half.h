/* SPDX-License-Identifier: MIT
 *
 * Numbers of 16 bits (IEEE 754's binary16) for the runtime, which is plain C: the compilers of some machines have no such type.
 */
#ifndef GDEV_DEVICE_CPU_PTX_HALF_H
#define GDEV_DEVICE_CPU_PTX_HALF_H

#include <math.h>
#include <stdint.h>
#include <string.h>

static inline float half_value(uint16_t half)
{
	uint32_t exponent = half >> 10 & 31, fraction = half & 1023, bits;
	float value;

	if (!exponent) {
		value = (float)fraction * 0x1p-24f;
		return half & 0x8000 ? -value : value;
	}
	bits = (half & 0x8000u) << 16 | (exponent == 31 ? 255 : exponent + 112) << 23 |
	       fraction << 13;
	if (exponent == 31 && fraction)
		bits |= 1u << 22; /* NaNs are quiet */
	memcpy(&value, &bits, sizeof value);
	return value;
}

/* To the nearest, ties to even. */
static inline uint16_t half_of(float f)
{
	uint32_t word, sign;

	memcpy(&word, &f, sizeof word);
	sign = word >> 16 & 0x8000;
	word &= 0x7fffffff;
	if (word > 0x7f800000) /* not a number */
		return 0x7fff;
	if (word >= 0x477ff000) /* 65520: rounded it is beyond what there is */
		return (uint16_t)(sign | 0x7c00);
	if (word < 0x38800000) /* 2^-14: subnormal there, in steps of 2^-24 */
		return (uint16_t)(sign | (uint32_t)lrintf(fabsf(f) * 0x1p24f));
	word += 0xfff + (word >> 13 & 1);
	return (uint16_t)(sign | (word - (112u << 23)) >> 13);
}

#endif
