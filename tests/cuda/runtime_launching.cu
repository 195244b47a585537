/* SPDX-License-Identifier: MIT
 *
 * A kernel that launches a kernel: it runs, or is refused, and a program that asks for the errors of its work alone sees that.
 */
#include <stdio.h>

__global__ void child(int *p)
{
	*p = 1;
}

__global__ void parent(int *p)
{
	child<<<1, 1>>>(p);
}

int main()
{
	cudaError_t waited, launched;
	int *p, value = 0;

	if (cudaMalloc(&p, sizeof *p) || cudaMemset(p, 0, sizeof *p))
		return 1;
	parent<<<1, 1>>>(p);
	waited = cudaDeviceSynchronize();
	launched = cudaGetLastError();
	if (cudaMemcpy(&value, p, sizeof value, cudaMemcpyDeviceToHost))
		return 1;
	printf("launch: %s; wait: %s; value %d\n", cudaGetErrorName(launched),
		cudaGetErrorName(waited), value);
	if (!launched && !waited)
		return value != 1;
	return launched != cudaErrorNotSupported || waited != cudaErrorNotSupported || value;
}
