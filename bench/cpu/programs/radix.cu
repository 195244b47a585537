/* SPDX-License-Identifier: MIT
 *
 * A pass of a radix sort, by four bits (a digit), that keeps equal ones in order. A block sorts its 256
 * numbers by the digit, bit by bit, and counts how many it has of each; the counts are scanned (scan.h);
 * then each number knows its place.
 */
#include "scan.h"

#define DIGITS 16
#define BITS 4

/* Leaves counts[digit * blocks + block]. */
extern "C" __global__ void radix_block(unsigned *out, int *counts, const unsigned *in, int shift)
{
	__shared__ unsigned keys[THREADS];
	__shared__ int t[2][THREADS], count[DIGITS];
	int thread = threadIdx.x;
	int i = blockIdx.x * THREADS + thread;

	keys[thread] = in[i];
	if (thread < DIGITS)
		count[thread] = 0;
	__syncthreads();
	for (int bit = shift; bit < shift + BITS; bit++) {
		unsigned key = keys[thread];
		int one = key >> bit & 1, from = 0;

		/* The sum of the zeros up to each. */
		t[0][thread] = 1 - one;
		__syncthreads();
		for (int distance = 1; distance < THREADS; distance *= 2) {
			int sum = t[from][thread];

			if (thread >= distance)
				sum += t[from][thread - distance];
			from = 1 - from;
			t[from][thread] = sum;
			__syncthreads();
		}
		int zeros = t[from][THREADS - 1], before = t[from][thread];

		keys[one ? zeros + thread - before : before - 1] = key;
		__syncthreads();
	}
	out[i] = keys[thread];
	atomicAdd(&count[keys[thread] >> shift & (DIGITS - 1)], 1);
	__syncthreads();
	if (thread < DIGITS)
		counts[thread * gridDim.x + blockIdx.x] = count[thread];
}

/* ends are the scanned counts. */
extern "C" __global__ void radix_scatter(
	unsigned *out, const unsigned *in, const int *counts, const int *ends, int shift)
{
	__shared__ int digits[THREADS], first[DIGITS];
	int thread = threadIdx.x;
	unsigned key = in[blockIdx.x * THREADS + thread];
	int digit = key >> shift & (DIGITS - 1);
	int at = digit * gridDim.x + blockIdx.x;

	digits[thread] = digit;
	__syncthreads();
	if (thread == 0 || digits[thread - 1] != digit)
		first[digit] = thread;
	__syncthreads();
	out[ends[at] - counts[at] + thread - first[digit]] = key;
}
