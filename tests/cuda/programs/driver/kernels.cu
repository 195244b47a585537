/* SPDX-License-Identifier: MIT
 *
 * What the programs of the Driver API launch. kernels.ptx is made of it, and kept for machines without nvcc:
 *
 *   nvcc -ptx -arch=compute_75 -o kernels.ptx kernels.cu
 */
extern "C" {

__device__ int variable = 5;
__constant__ int constants[4] = {1, 2, 3, 4};

__global__ void add(int *data, int count, int value)
{
	int i = blockIdx.x * blockDim.x + threadIdx.x;

	if (i < count)
		data[i] += value;
}

__global__ void sum(const int *data, int count, int *result)
{
	int i = blockIdx.x * blockDim.x + threadIdx.x;

	if (i < count)
		atomicAdd(result, data[i]);
}

/* Ends when *flag is not 0. */
__global__ void gate(volatile int *flag)
{
	while (!*flag)
		;
}

__global__ void use_variables(int *out)
{
	*out = variable * constants[threadIdx.x];
}

struct mixed {
	char letter;
	double number;
	short3 triple;
};

__global__ void mixed(double *out, char a, short b, long long c, float d, struct mixed e)
{
	*out = a + b + c + d + e.letter + e.number + e.triple.z;
}

__global__ void reverse_in_shared(int *data)
{
	extern __shared__ int shared[];

	shared[threadIdx.x] = data[threadIdx.x];
	__syncthreads();
	data[threadIdx.x] = shared[blockDim.x - 1 - threadIdx.x];
}

__global__ void stray(int *where)
{
	*where = 1;
}

__global__ void fetch(cudaTextureObject_t texture, float *out)
{
	out[threadIdx.x] = tex1D<float>(texture, threadIdx.x * 0.5f);
}

__global__ void store(cudaSurfaceObject_t surface)
{
	surf1Dwrite(threadIdx.x * 3, surface, threadIdx.x * 4);
}
}
