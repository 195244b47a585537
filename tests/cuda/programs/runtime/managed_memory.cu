/* SPDX-License-Identifier: MIT
 *
 * Managed memory: host and device use it by the same pointer, in turn.
 */
#include "../program.h"

struct node {
	struct node *next;
	int value;
};

__global__ void add(struct node *list, int summand)
{
	for (struct node *node = list; node; node = node->next)
		node->value += summand;
}

int main()
{
	cudaPointerAttributes attributes;
	struct node *nodes;
	int sum = 0;

	CHECK(cudaMallocManaged(&nodes, 100 * sizeof *nodes));
	for (int i = 0; i < 100; i++) {
		nodes[i].next = i < 99 ? nodes + i + 1 : NULL;
		nodes[i].value = i;
	}
	for (int round = 0; round < 3; round++) {
		add<<<1, 1>>>(nodes, 10);
		CHECK(cudaDeviceSynchronize());
		nodes[50].value++;
	}
	for (struct node *node = nodes; node; node = node->next)
		sum += node->value;
	REQUIRE(sum == 99 * 50 + 100 * 30 + 3);
	CHECK(cudaPointerGetAttributes(&attributes, nodes + 3));
	REQUIRE(attributes.type == cudaMemoryTypeManaged);
	REQUIRE(attributes.devicePointer == nodes + 3 && attributes.hostPointer == nodes + 3);
	CHECK(cudaFree(nodes));
	return passed();
}
