/* SPDX-License-Identifier: MIT
 *
 * Streams with priorities, and what is within the range that the device has.
 */
#include "../program.h"

int main()
{
	int least, greatest, priority;
	unsigned flags;
	cudaStream_t stream;

	CHECK(cudaDeviceGetStreamPriorityRange(&least, &greatest));
	REQUIRE(least >= greatest); /* lower numbers go first */
	CHECK(cudaStreamCreateWithPriority(&stream, cudaStreamNonBlocking, greatest - 5));
	CHECK(cudaStreamGetPriority(stream, &priority));
	REQUIRE(priority == greatest);
	CHECK(cudaStreamGetFlags(stream, &flags));
	REQUIRE(flags == cudaStreamNonBlocking);
	CHECK(cudaStreamDestroy(stream));
	CHECK(cudaStreamCreate(&stream));
	CHECK(cudaStreamGetPriority(stream, &priority));
	REQUIRE(priority == 0);
	return passed();
}
