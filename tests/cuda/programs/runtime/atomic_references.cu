/* SPDX-License-Identifier: MIT
 *
 * cuda::atomic_ref: orders of memory, operations on float and double, and a lock.
 */
#include <cuda/atomic>

#include "../program.h"

struct shared_state {
	int lock, guarded, flag, data;
	float sum;
	int highest;
};

__global__ void use(struct shared_state *s)
{
	cuda::atomic_ref<float, cuda::thread_scope_device> sum(s->sum);
	cuda::atomic_ref<int, cuda::thread_scope_device> lock(s->lock), highest(s->highest),
		flag(s->flag);

	sum.fetch_add(0.25f, cuda::memory_order_relaxed);
	highest.fetch_max(blockIdx.x * 100 + threadIdx.x);
	if (threadIdx.x == 0) {
		int none = 0;
		while (!lock.compare_exchange_weak(none, 1, cuda::memory_order_acquire))
			none = 0;
		s->guarded += 3;
		lock.store(0, cuda::memory_order_release);
	}
	if (blockIdx.x == 0 && threadIdx.x == 0) {
		s->data = 99;
		flag.store(1, cuda::memory_order_release);
	} else if (blockIdx.x == 1 && threadIdx.x == 0) {
		if (flag.load(cuda::memory_order_acquire) && s->data != 99)
			highest.store(1 << 20);
	}
}

int main()
{
	struct shared_state host = {}, *device;

	CHECK(cudaMalloc(&device, sizeof host));
	CHECK(cudaMemset(device, 0, sizeof host));
	use<<<16, 32>>>(device);
	CHECK(cudaMemcpy(&host, device, sizeof host, cudaMemcpyDeviceToHost));
	REQUIRE(host.sum == 128 && host.guarded == 48 && host.highest == 1531 && host.lock == 0);
	return passed();
}
