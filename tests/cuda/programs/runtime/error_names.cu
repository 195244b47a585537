/* SPDX-License-Identifier: MIT
 *
 * Names and texts of errors.
 */
#include "../program.h"

int main()
{
	REQUIRE(!strcmp(cudaGetErrorName(cudaErrorInvalidValue), "cudaErrorInvalidValue"));
	REQUIRE(!strcmp(cudaGetErrorString(cudaErrorMemoryAllocation), "out of memory"));
	REQUIRE(!strcmp(cudaGetErrorName(cudaErrorIllegalAddress), "cudaErrorIllegalAddress"));
	REQUIRE(!strcmp(cudaGetErrorString((cudaError_t)123456), "unrecognized error code"));
	EXPECT(cudaStreamCreate(NULL), cudaErrorInvalidValue);
	EXPECT(cudaGetLastError(), cudaErrorInvalidValue);
	EXPECT(cudaMemcpy(NULL, NULL, 10, (cudaMemcpyKind)77), cudaErrorInvalidMemcpyDirection);
	return passed();
}
