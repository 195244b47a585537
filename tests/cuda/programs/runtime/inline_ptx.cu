/* SPDX-License-Identifier: MIT
 *
 * PTX in CUDA C: predicates, special registers, vectors, and memory with a cache hint.
 */
#include "../program.h"

__global__ void compute(const int *in, int *out)
{
	int i = threadIdx.x, lane, chosen;
	unsigned low, high, x, y;

	asm("mov.u32 %0, %%laneid;" : "=r"(lane));
	asm("{\n\t.reg .pred p;\n\tsetp.gt.s32 p, %1, 20;\n\tselp.s32 %0, %2, %3, p;\n\t}"
		: "=r"(chosen)
		: "r"(i), "r"(1000), "r"(2000));
	asm("{\n\t.reg .u64 wide;\n\tmul.wide.u32 wide, %2, %3;\n\tmov.b64 {%0, %1}, wide;\n\t}"
		: "=r"(low), "=r"(high)
		: "r"(0x10000001u * i), "r"(16));
	asm volatile("ld.global.cs.v2.u32 {%0, %1}, [%2];"
		     : "=r"(x), "=r"(y)
		     : "l"(in + i / 2 * 2));
	out[i] = lane + chosen + (int)(low + 16 * high) + (int)(i % 2 ? y : x);
}

int main()
{
	int host[64], *in, *out;

	for (int i = 0; i < 64; i++)
		host[i] = i * 5;
	CHECK(cudaMalloc(&in, sizeof host));
	CHECK(cudaMalloc(&out, sizeof host));
	CHECK(cudaMemcpy(in, host, sizeof host, cudaMemcpyHostToDevice));
	compute<<<1, 64>>>(in, out);
	CHECK(cudaMemcpy(host, out, sizeof host, cudaMemcpyDeviceToHost));
	for (int i = 0; i < 64; i++) {
		unsigned long long wide = (unsigned long long)(0x10000001u * i) * 16;
		int product = (int)((unsigned)wide + 16 * (unsigned)(wide >> 32));
		REQUIRE(host[i] == i % 32 + (i > 20 ? 1000 : 2000) + product + i * 5);
	}
	return passed();
}
