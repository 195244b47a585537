/* SPDX-License-Identifier: MIT
 *
 * AES-128, each block of 16 bytes by itself: a thread a block. A word is a column, its first byte the
 * highest. Four tables do the substitution and the mixing of a column at once; they are copied into
 * shared memory. keys are the words of the eleven round keys.
 */
#include "common/device.h"

#define THREADS 256
#define ROUNDS 10

#define MIXED(a, b, c, d) (t0[a >> 24] ^ t1[b >> 16 & 255] ^ t2[c >> 8 & 255] ^ t3[d & 255])
/* The last round does not mix; where a table has the substitution alone, it is masked out. */
#define LAST(a, b, c, d)                                                                           \
	((t2[a >> 24] & 0xFF000000) ^ (t3[b >> 16 & 255] & 0x00FF0000) ^                           \
		(t0[c >> 8 & 255] & 0x0000FF00) ^ (t1[d & 255] & 0x000000FF))

extern "C" __global__ void aes(
	unsigned *out, const unsigned *in, const unsigned *tables, const unsigned *keys, int n)
{
	__shared__ unsigned t0[256], t1[256], t2[256], t3[256];
	int thread = threadIdx.x;
	int i = blockIdx.x * THREADS + thread;

	t0[thread] = tables[thread];
	t1[thread] = tables[256 + thread];
	t2[thread] = tables[512 + thread];
	t3[thread] = tables[768 + thread];
	__syncthreads();
	if (i >= n)
		return;

	unsigned a = in[4 * i] ^ keys[0], b = in[4 * i + 1] ^ keys[1];
	unsigned c = in[4 * i + 2] ^ keys[2], d = in[4 * i + 3] ^ keys[3];

	for (int round = 1; round < ROUNDS; round++) {
		unsigned e = MIXED(a, b, c, d) ^ keys[4 * round];
		unsigned f = MIXED(b, c, d, a) ^ keys[4 * round + 1];
		unsigned g = MIXED(c, d, a, b) ^ keys[4 * round + 2];
		unsigned h = MIXED(d, a, b, c) ^ keys[4 * round + 3];

		a = e;
		b = f;
		c = g;
		d = h;
	}
	out[4 * i] = LAST(a, b, c, d) ^ keys[4 * ROUNDS];
	out[4 * i + 1] = LAST(b, c, d, a) ^ keys[4 * ROUNDS + 1];
	out[4 * i + 2] = LAST(c, d, a, b) ^ keys[4 * ROUNDS + 2];
	out[4 * i + 3] = LAST(d, a, b, c) ^ keys[4 * ROUNDS + 3];
}
