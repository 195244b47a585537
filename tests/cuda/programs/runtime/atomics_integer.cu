/* SPDX-License-Identifier: MIT
 *
 * Every atomic operation on whole numbers, by many threads on one word.
 */
#include "../program.h"

struct words {
	unsigned add, sub, inc, dec, bits_and, bits_or, bits_xor, exchanged;
	int low, high;
	unsigned long long wide_add, wide_max;
	unsigned lock_taken;
};

__global__ void all(struct words *w)
{
	unsigned i = blockIdx.x * blockDim.x + threadIdx.x;

	atomicAdd(&w->add, 3);
	atomicSub(&w->sub, 1);
	atomicInc(&w->inc, 99);
	atomicDec(&w->dec, 99);
	atomicAnd(&w->bits_and, ~(1u << i % 8));
	atomicOr(&w->bits_or, 1u << i % 32);
	atomicXor(&w->bits_xor, i);
	atomicExch(&w->exchanged, 7);
	atomicMin(&w->low, -(int)i);
	atomicMax(&w->high, (int)i);
	atomicAdd(&w->wide_add, 1ull << 33);
	atomicMax(&w->wide_max, (unsigned long long)i << 40);
	if (atomicCAS(&w->lock_taken, 0, i + 1) == 0)
		atomicAdd(&w->wide_add, 1);
}

int main()
{
	const unsigned threads = 1024;
	struct words host = {}, *device;

	host.sub = threads;
	host.bits_and = 0xffff;
	CHECK(cudaMalloc(&device, sizeof host));
	CHECK(cudaMemcpy(device, &host, sizeof host, cudaMemcpyHostToDevice));
	all<<<threads / 128, 128>>>(device);
	CHECK(cudaMemcpy(&host, device, sizeof host, cudaMemcpyDeviceToHost));
	REQUIRE(host.add == 3 * threads);
	REQUIRE(host.sub == 0);
	REQUIRE(host.inc == threads % 100);
	REQUIRE(host.dec == (100 - threads % 100) % 100);
	REQUIRE(host.bits_and == 0xff00);
	REQUIRE(host.bits_or == 0xffffffff);
	REQUIRE(host.bits_xor == 0);
	REQUIRE(host.exchanged == 7);
	REQUIRE(host.low == -1023 && host.high == 1023);
	REQUIRE(host.wide_add == ((unsigned long long)threads << 33) + 1);
	REQUIRE(host.wide_max == 1023ull << 40);
	REQUIRE(host.lock_taken >= 1 && host.lock_taken <= threads);
	return passed();
}
