/* SPDX-License-Identifier: MIT
 *
 * malloc and free in kernels: a list that one launch makes and another one reads and frees; NULL when the heap is full.
 */
#include "../program.h"

struct node {
	struct node *next;
	int value;
};

__device__ struct node *heads[32];
__device__ int sums[32], refused;

__global__ void push(int value)
{
	struct node *node = (struct node *)malloc(sizeof *node);

	node->next = heads[threadIdx.x];
	node->value = value * (int)threadIdx.x;
	heads[threadIdx.x] = node;
}

__global__ void drain()
{
	for (struct node *node = heads[threadIdx.x], *next; node; node = next) {
		next = node->next;
		sums[threadIdx.x] += node->value;
		free(node);
	}
}

__global__ void too_much(size_t bytes)
{
	void *memory = malloc(bytes);

	refused = !memory;
	free(memory);
}

int main()
{
	int host[32];
	size_t heap;

	CHECK(cudaDeviceGetLimit(&heap, cudaLimitMallocHeapSize));
	REQUIRE(heap >= 8 << 20);
	for (int round = 1; round <= 4; round++)
		push<<<1, 32>>>(round);
	drain<<<1, 32>>>();
	CHECK(cudaMemcpyFromSymbol(host, sums, sizeof host));
	for (int i = 0; i < 32; i++)
		REQUIRE(host[i] == 10 * i);
	too_much<<<1, 1>>>(heap * 2);
	CHECK(cudaMemcpyFromSymbol(host, refused, sizeof *host));
	REQUIRE(host[0] == 1);
	return passed();
}
