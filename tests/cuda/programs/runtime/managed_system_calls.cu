/* SPDX-License-Identifier: MIT
 *
 * Managed memory as the buffer of read(2) and write(2), after a kernel wrote it and before one reads it.
 */
#include <unistd.h>

#include "../program.h"

__global__ void invert(unsigned char *bytes, int count)
{
	for (int i = threadIdx.x; i < count; i += blockDim.x)
		bytes[i] = ~bytes[i];
}

int main()
{
	const int count = 10000;
	char path[] = "/tmp/managed-XXXXXX";
	int file = mkstemp(path);
	unsigned char *bytes, *more;

	unlink(path);
	CHECK(cudaMallocManaged(&bytes, count));
	CHECK(cudaMallocManaged(&more, count));
	for (int i = 0; i < count; i++)
		bytes[i] = i;
	invert<<<1, 128>>>(bytes, count);
	CHECK(cudaDeviceSynchronize());
	REQUIRE(write(file, bytes, count) == count);
	invert<<<1, 128>>>(more, count); /* so that it was the device's last */
	CHECK(cudaDeviceSynchronize());
	REQUIRE(pread(file, more, count, 0) == count);
	invert<<<1, 128>>>(more, count);
	CHECK(cudaDeviceSynchronize());
	for (int i = 0; i < count; i++)
		REQUIRE(more[i] == (unsigned char)i);
	return passed();
}
