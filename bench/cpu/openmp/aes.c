/* SPDX-License-Identifier: MIT */
#include "kernel.h"

#define ROUNDS 10

static inline unsigned mixed(const unsigned *t, unsigned a, unsigned b, unsigned c, unsigned d)
{
	return t[a >> 24] ^ t[256 + (b >> 16 & 255)] ^ t[512 + (c >> 8 & 255)] ^ t[768 + (d & 255)];
}

/* The last round does not mix; where a table has the substitution alone, it is masked out. */
static inline unsigned last(const unsigned *t, unsigned a, unsigned b, unsigned c, unsigned d)
{
	return (t[512 + (a >> 24)] & 0xFF000000) ^ (t[768 + (b >> 16 & 255)] & 0x00FF0000) ^
	       (t[c >> 8 & 255] & 0x0000FF00) ^ (t[256 + (d & 255)] & 0x000000FF);
}

KERNEL(aes)
{
	unsigned *out = PARAMETER(0, unsigned *);
	const unsigned *in = PARAMETER(1, unsigned *), *t = PARAMETER(2, unsigned *);
	const unsigned *keys = PARAMETER(3, unsigned *);
	int n = PARAMETER(4, int);

#pragma omp parallel for
	for (int i = 0; i < n; i++) {
		unsigned a = in[4 * i] ^ keys[0], b = in[4 * i + 1] ^ keys[1];
		unsigned c = in[4 * i + 2] ^ keys[2], d = in[4 * i + 3] ^ keys[3];

		for (int round = 1; round < ROUNDS; round++) {
			unsigned e = mixed(t, a, b, c, d) ^ keys[4 * round];
			unsigned f = mixed(t, b, c, d, a) ^ keys[4 * round + 1];
			unsigned g = mixed(t, c, d, a, b) ^ keys[4 * round + 2];
			unsigned h = mixed(t, d, a, b, c) ^ keys[4 * round + 3];

			a = e;
			b = f;
			c = g;
			d = h;
		}
		out[4 * i] = last(t, a, b, c, d) ^ keys[4 * ROUNDS];
		out[4 * i + 1] = last(t, b, c, d, a) ^ keys[4 * ROUNDS + 1];
		out[4 * i + 2] = last(t, c, d, a, b) ^ keys[4 * ROUNDS + 2];
		out[4 * i + 3] = last(t, d, a, b, c) ^ keys[4 * ROUNDS + 3];
	}
}
