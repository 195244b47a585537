/* SPDX-License-Identifier: MIT
 *
 * CUB: sums, scans, histograms and choices over a whole array.
 * nvcc -arch=compute_75
 */
#include <algorithm>
#include <cub/cub.cuh>
#include <numeric>
#include <vector>

#include "../program.h"

static const int COUNT = 100000, BINS = 10, MOST = 5000;

/* Asks how much memory it takes, and runs with that. */
template <class T> static void run(T call)
{
	void *room = NULL;
	size_t bytes = 0;

	CHECK(call(room, bytes));
	CHECK(cudaMalloc(&room, bytes));
	CHECK(call(room, bytes));
	CHECK(cudaFree(room));
}

static std::vector<int> download(const int *data, size_t count)
{
	std::vector<int> host(count);

	CHECK(cudaMemcpy(host.data(), data, count * sizeof(int), cudaMemcpyDeviceToHost));
	return host;
}

int main()
{
	std::vector<int> host(COUNT), sums(COUNT), bins(BINS), runs;
	int *in, *out, *few;

	for (int i = 0; i < COUNT; i++) {
		host[i] = (int)(i / 3 * 2654435761u >> 8) % MOST; /* runs of three */
		bins[host[i] / (MOST / BINS)]++;
	}
	runs = host;
	std::partial_sum(host.begin(), host.end(), sums.begin());
	CHECK(cudaMalloc(&in, COUNT * sizeof *in));
	CHECK(cudaMalloc(&out, COUNT * sizeof *out));
	CHECK(cudaMalloc(&few, BINS * sizeof *few));
	CHECK(cudaMemcpy(in, host.data(), COUNT * sizeof *in, cudaMemcpyHostToDevice));
	run([&](void *room, size_t &bytes) {
		return cub::DeviceReduce::Sum(room, bytes, in, out, COUNT);
	});
	REQUIRE(download(out, 1)[0] == sums[COUNT - 1]);
	run([&](void *room, size_t &bytes) {
		return cub::DeviceScan::InclusiveSum(room, bytes, in, out, COUNT);
	});
	REQUIRE(download(out, COUNT) == sums);
	run([&](void *room, size_t &bytes) {
		return cub::DeviceHistogram::HistogramEven(
			room, bytes, in, few, BINS + 1, 0, MOST, COUNT);
	});
	REQUIRE(download(few, BINS) == bins);
	run([&](void *room, size_t &bytes) {
		return cub::DeviceSelect::Unique(room, bytes, in, out, few, COUNT);
	});
	runs.erase(std::unique(runs.begin(), runs.end()), runs.end());
	REQUIRE(download(few, 1)[0] == (int)runs.size());
	REQUIRE(download(out, runs.size()) == runs);
	return passed();
}
