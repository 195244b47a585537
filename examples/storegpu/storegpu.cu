/* SPDX-License-Identifier: MIT
 *
 * The digest of each block of a file, one block a thread.
 */
#include "common/device.h"

#define MD5_FUNCTION static __device__ __forceinline__
#include "storegpu/md5.h"

static __constant__ unsigned constants[64] = MD5_CONSTANTS;
static __constant__ unsigned char shifts[4][4] = MD5_SHIFTS;

extern "C" __global__ void storegpu(unsigned *digests, const unsigned *data, int block_words, int n)
{
	int i = blockIdx.x * blockDim.x + threadIdx.x;
	unsigned digest[4];

	if (i >= n)
		return;
	md5_block(digest, data + (unsigned long)i * block_words, block_words, constants, shifts);
	for (int word = 0; word < 4; word++)
		digests[4 * i + word] = digest[word];
}
