/* SPDX-License-Identifier: MIT */
#include "kernel.h"

#include <omp.h>
#include <string.h>

#define BLOCK 256
#define BITS 4
#define DIGITS (1 << BITS)
#define PARTS_MAX 256

/* A pass: each thread counts its part, learns where the digits of its part begin, and moves it. */
static void pass(unsigned *out, const unsigned *in, int n, int shift)
{
	static int count[PARTS_MAX][DIGITS];

#pragma omp parallel num_threads(                                                                  \
	omp_get_max_threads() < PARTS_MAX ? omp_get_max_threads() : PARTS_MAX)
	{
		int parts = omp_get_num_threads(), part = omp_get_thread_num(), at[DIGITS];
		int begin = (int)((long)n * part / parts),
		    end = (int)((long)n * (part + 1) / parts);
		int before = 0;

		memset(at, 0, sizeof(at));
		for (int i = begin; i < end; i++)
			at[in[i] >> shift & (DIGITS - 1)]++;
		memcpy(count[part], at, sizeof(at));
#pragma omp barrier
		for (int digit = 0; digit < DIGITS; digit++)
			for (int of = 0; of < parts; of++) {
				if (of == part)
					at[digit] = before;
				before += count[of][digit];
			}
		for (int i = begin; i < end; i++)
			out[at[in[i] >> shift & (DIGITS - 1)]++] = in[i];
	}
}

/* The two arrays take turns: the last of the passes, of which there are an even number, ends in the right one. */
KERNEL(radix_block)
{
	unsigned *a = PARAMETER(0, unsigned *), *b = PARAMETER(2, unsigned *);
	int shift = PARAMETER(3, int), odd = shift / BITS % 2;

	pass(odd ? b : a, odd ? a : b, grid->x * BLOCK, shift);
}

NOTHING_LEFT(radix_scatter)
