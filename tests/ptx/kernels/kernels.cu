// SPDX-License-Identifier: MIT
// Source of nvcc.ptx: nvcc -ptx -arch=sm_90 kernels.cu -o nvcc.ptx. Tests read the PTX only.
#include <cassert>
#include <cstdio>

#define TILE 16

extern "C" __global__ void vecadd(const float *a, const float *b, float *c, int n)
{
	int i = blockIdx.x * blockDim.x + threadIdx.x;

	if (i < n)
		c[i] = a[i] + b[i];
}

extern "C" __global__ void matmul(const float *a, const float *b, float *c, int n)
{
	__shared__ float s[TILE][TILE], t[TILE][TILE];
	int tx = threadIdx.x, ty = threadIdx.y;
	int row = blockIdx.y * TILE + ty, column = blockIdx.x * TILE + tx;
	float sum = 0;

	for (int m = 0; m < n / TILE; m++) {
		s[ty][tx] = a[row * n + m * TILE + tx];
		t[ty][tx] = b[(m * TILE + ty) * n + column];
		__syncthreads();
		for (int k = 0; k < TILE; k++)
			sum += s[ty][k] * t[k][tx];
		__syncthreads();
	}
	c[row * n + column] = sum;
}

__inline__ __device__ float warp_sum(float v)
{
	for (int o = 16; o; o >>= 1)
		v += __shfl_down_sync(~0u, v, o);
	return v;
}

extern "C" __global__ void reduce(const float *a, float *out, int n)
{
	__shared__ float s[32];
	int lane = threadIdx.x & 31, warp = threadIdx.x >> 5;
	float v = 0;

	for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x)
		v += a[i];
	v = warp_sum(v);
	if (lane == 0)
		s[warp] = v;
	__syncthreads();
	v = threadIdx.x < blockDim.x / 32 ? s[lane] : 0;
	if (warp == 0)
		v = warp_sum(v);
	if (threadIdx.x == 0)
		atomicAdd(out, v);
}

extern "C" __global__ void histogram(const unsigned *d, unsigned *h, int n)
{
	__shared__ unsigned s[256];

	for (int i = threadIdx.x; i < 256; i += blockDim.x)
		s[i] = 0;
	__syncthreads();
	for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x)
		atomicAdd(&s[d[i] & 255], 1u);
	__syncthreads();
	for (int i = threadIdx.x; i < 256; i += blockDim.x)
		atomicAdd(&h[i], s[i]);
}

extern "C" __global__ void early(int *o, int n)
{
	extern __shared__ int s[];
	int t = threadIdx.x, i = blockIdx.x * blockDim.x + t;

	if (i >= n)
		return;
	s[t] = i * 2;
	__syncthreads();
	o[i] = s[t ^ 1];
}

extern "C" __global__ void rotate(int *o, const int *trips)
{
	__shared__ int s[256];
	int t = threadIdx.x, n = trips[blockIdx.x];

	s[t] = t;
	for (int k = 0; k < n; k++) {
		__syncthreads();
		int v = s[(t + 1) % blockDim.x];
		__syncthreads();
		s[t] = v;
	}
	__syncthreads();
	o[blockIdx.x * blockDim.x + t] = s[t];
}

extern "C" __global__ void votes(unsigned *o, int n)
{
	int t = threadIdx.x;
	unsigned *r = o + t * 8, other = 0;

	r[0] = __ballot_sync(~0u, t % 3 == 0);
	r[1] = __all_sync(~0u, t < n);
	r[2] = __any_sync(~0u, t == 5);
	r[3] = __activemask();
	if (t & 1)
		other = __shfl_xor_sync(0xaaaaaaaa, t * 10, 2);
	r[4] = other;
	r[5] = __syncthreads_count(t < 7);
	r[6] = __syncthreads_or(t == 100);
	r[7] = __reduce_add_sync(~0u, t);
}

// Shuffles in a loop that threads leave at different times.
extern "C" __global__ void leave(int *o)
{
	int t = threadIdx.x, v = t;

	while (v < 100) {
		v += __shfl_sync(__activemask(), 7, 0) + (t & 3);
		if (v > 50 && (t & 3) == 0)
			break;
	}
	o[t] = v;
}

// A barrier in a loop whose trip differs between warps.
extern "C" __global__ void ragged(int *o)
{
	__shared__ int s[128];
	int t = threadIdx.x;

	s[t] = t;
	for (int k = 0; k < 3 + t / 64; k++)
		__syncthreads();
	o[t] = s[127 - t];
}

extern "C" __global__ void hotspot(const float *p, const float *t, float *o, int n)
{
	__shared__ float s[TILE][TILE];
	int tx = threadIdx.x, ty = threadIdx.y;
	int x = blockIdx.x * (TILE - 2) + tx - 1, y = blockIdx.y * (TILE - 2) + ty - 1;
	bool in = x >= 0 && x < n && y >= 0 && y < n;

	if (in)
		s[ty][tx] = t[y * n + x];
	__syncthreads();
	if (in && tx > 0 && tx < TILE - 1 && ty > 0 && ty < TILE - 1 && x > 0 && x < n - 1 &&
		y > 0 && y < n - 1)
		o[y * n + x] =
			s[ty][tx] + 0.1f * (p[y * n + x] + s[ty - 1][tx] + s[ty + 1][tx] +
						   s[ty][tx - 1] + s[ty][tx + 1] - 4 * s[ty][tx]);
}

extern "C" __global__ void bfs(
	const int *row, const int *column, int *level, int *again, int now, int n)
{
	int i = blockIdx.x * blockDim.x + threadIdx.x;

	if (i < n && level[i] == now)
		for (int e = row[i]; e < row[i + 1]; e++)
			if (level[column[e]] < 0) {
				level[column[e]] = now + 1;
				*again = 1;
			}
}

// One tile of an LU decomposition, in shared memory.
extern "C" __global__ void lu(float *m)
{
	__shared__ float s[TILE][TILE];
	int t = threadIdx.x;

	for (int i = 0; i < TILE; i++)
		s[i][t] = m[i * TILE + t];
	__syncthreads();
	for (int i = 0; i < TILE - 1; i++) {
		if (t > i) {
			for (int j = 0; j < i; j++)
				s[t][i] -= s[t][j] * s[j][i];
			s[t][i] /= s[i][i];
		}
		__syncthreads();
		if (t > i)
			for (int j = 0; j < i + 1; j++)
				s[i + 1][t] -= s[i + 1][j] * s[j][t];
		__syncthreads();
	}
	for (int i = 0; i < TILE; i++)
		m[i * TILE + t] = s[i][t];
}

__device__ __noinline__ int sum(int a, int b)
{
	return a + b;
}
__device__ __noinline__ int product(int a, int b)
{
	return a * b;
}
__device__ int (*const table[2])(int, int) = {sum, product};

extern "C" __global__ void indirect(int *o, int x)
{
	o[threadIdx.x] = table[(threadIdx.x + x) & 1](threadIdx.x, x);
}

__constant__ int constants[4] = {1, 2, 3, 4};
__device__ int seven = 7;
__device__ int *pointer = &seven;
struct six {
	int a[6];
};
__device__ __noinline__ int pick(struct six s, int i)
{
	return s.a[i] + s.a[(i + 1) % 6];
}

extern "C" __global__ void variables(int *o, struct six s)
{
	o[threadIdx.x] = constants[threadIdx.x & 3] + *pointer + pick(s, threadIdx.x % 6);
}

extern "C" __global__ void speak(int x)
{
	if (threadIdx.x == 1)
		printf("value %d\n", x);
	assert(x != 3);
	if (x == 4)
		__trap();
}

extern "C" __global__ void numbers(double *d, float *f)
{
	int i = threadIdx.x;

	d[i] = sin(d[i]) + pow(d[i], 1.3) + log(d[i]) + erf(d[i]) / cbrt(d[i]);
	f[i] = expf(f[i]) + sinf(f[i] * 1e5f) + powf(f[i], 2.5f) + tanhf(f[i]);
}

extern "C" __global__ void naive(const float *a, const float *b, float *c, int n)
{
	int row = blockIdx.y * blockDim.y + threadIdx.y,
	    column = blockIdx.x * blockDim.x + threadIdx.x;

	if (row < n && column < n) {
		float sum = 0;

		for (int k = 0; k < n; k++)
			sum += a[row * n + k] * b[k * n + column];
		c[row * n + column] = sum;
	}
}
