/* SPDX-License-Identifier: MIT
 *
 * A cooperative launch: all blocks of the grid wait for each other.
 */
#include <cooperative_groups.h>

#include "../program.h"

namespace cg = cooperative_groups;

__global__ void relax(float *a, float *b, int count, int rounds)
{
	cg::grid_group grid = cg::this_grid();

	for (int round = 0; round < rounds; round++) {
		for (int i = grid.thread_rank(); i < count; i += grid.size())
			b[i] = (a[i ? i - 1 : 0] + a[i < count - 1 ? i + 1 : i]) / 2;
		grid.sync();
		float *other = a;
		a = b;
		b = other;
	}
}

int main()
{
	enum { COUNT = 1000, ROUNDS = 20 };
	static float host[2][COUNT], result[COUNT];
	float *a, *b;
	int count = COUNT, rounds = ROUNDS, cooperative, blocks, processors;
	void *arguments[] = {&a, &b, &count, &rounds};

	CHECK(cudaDeviceGetAttribute(&cooperative, cudaDevAttrCooperativeLaunch, 0));
	REQUIRE(cooperative);
	CHECK(cudaDeviceGetAttribute(&processors, cudaDevAttrMultiProcessorCount, 0));
	CHECK(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, relax, 64, 0));
	for (int i = 0; i < COUNT; i++)
		host[0][i] = i * 7 % 100;
	CHECK(cudaMalloc(&a, sizeof result));
	CHECK(cudaMalloc(&b, sizeof result));
	CHECK(cudaMemcpy(a, host[0], sizeof result, cudaMemcpyHostToDevice));
	CHECK(cudaLaunchCooperativeKernel(relax, 4, 64, arguments, 0, 0));
	CHECK(cudaMemcpy(result, a, sizeof result, cudaMemcpyDeviceToHost));
	for (int round = 0; round < ROUNDS; round++)
		for (int i = 0; i < COUNT; i++)
			host[1 - round % 2][i] =
				(host[round % 2][i ? i - 1 : 0] +
					host[round % 2][i < COUNT - 1 ? i + 1 : i]) /
				2;
	for (int i = 0; i < COUNT; i++)
		REQUIRE(result[i] == host[0][i]);
	EXPECT(cudaLaunchCooperativeKernel(relax, blocks * processors + 1, 64, arguments, 0, 0),
		cudaErrorCooperativeLaunchTooLarge);
	return passed();
}
