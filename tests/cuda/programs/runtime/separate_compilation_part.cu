/* SPDX-License-Identifier: MIT
 *
 * The other file of separate_compilation.cu.
 */
__device__ int calls;

__device__ int triple(int x)
{
	atomicAdd(&calls, 1);
	return 3 * x;
}
