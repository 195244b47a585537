/* SPDX-License-Identifier: MIT
 *
 * __device__ variables: copies to and from them, their address and size, and pointers among them.
 */
#include "../program.h"

__device__ int table[16] = {5, 4, 3};
__device__ int *where = table + 2;
__device__ struct {
	char letter;
	double number;
} pair;

__global__ void use()
{
	*where += table[0];
	pair.letter = 'g';
	pair.number = 0.25;
}

int main()
{
	int host[16], *address;
	size_t bytes;

	use<<<1, 1>>>();
	CHECK(cudaMemcpyFromSymbol(host, table, sizeof host));
	REQUIRE(host[0] == 5 && host[1] == 4 && host[2] == 8 && host[15] == 0);
	CHECK(cudaGetSymbolSize(&bytes, pair));
	REQUIRE(bytes == 16);
	CHECK(cudaGetSymbolAddress((void **)&address, table));
	CHECK(cudaMemset(address, 0, 4));
	CHECK(cudaMemcpyToSymbol(where, &address, sizeof address));
	use<<<1, 1>>>();
	CHECK(cudaMemcpyFromSymbol(host, table, sizeof host));
	REQUIRE(host[0] == 0 && host[2] == 8);
	return passed();
}
