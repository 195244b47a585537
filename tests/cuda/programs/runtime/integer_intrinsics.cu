/* SPDX-License-Identifier: MIT
 *
 * Intrinsics of whole numbers: bits that are counted, found, reversed and moved, products of bytes, SIMD within a word.
 */
#include "../program.h"

__global__ void compute(unsigned x, unsigned y, unsigned *out)
{
	out[0] = __popc(x);
	out[1] = __clz(x);
	out[2] = __ffs(x);
	out[3] = __brev(x);
	out[4] = __byte_perm(x, y, 0x7310);
	out[5] = __umulhi(x, y);
	out[6] = __funnelshift_l(x, y, 8);
	out[7] = __sad(-5, 7, 1);
	out[8] = __vadd4(x, y);
	out[9] = __vmaxu2(x, y);
	out[10] = __dp4a(0x01020304, 0x01010102, 100);
	out[11] = (unsigned)(__popcll(0x8000000000000001ull) + __clzll(1));
	out[12] = __uhadd(x, y);
}

int main()
{
	const unsigned x = 0x00ff1234, y = 0x89abcdef;
	const unsigned expected[13] = {13, 8, 3, 0x2c48ff00, 0x89001234, 0x0089327f, 0xabcdef00, 13,
		0x89aadf23, 0x89abcdef, 114, 65, 0x45556fee + 0x23 - 0};
	unsigned host[13], *device;

	CHECK(cudaMalloc(&device, sizeof host));
	compute<<<1, 1>>>(x, y, device);
	CHECK(cudaMemcpy(host, device, sizeof host, cudaMemcpyDeviceToHost));
	for (int i = 0; i < 12; i++)
		if (i != 5 && host[i] != expected[i]) {
			printf("number %d is %#x, not %#x\n", i, host[i], expected[i]);
			return 1;
		}
	REQUIRE(host[5] == (unsigned)((unsigned long long)x * y >> 32));
	REQUIRE(host[12] == (unsigned)(((unsigned long long)x + y) >> 1));
	return passed();
}
