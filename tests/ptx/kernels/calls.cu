/* SPDX-License-Identifier: MIT
 *
 * Functions that call themselves. nvcc -O3 -arch=sm_75 -ptx calls.cu -o calls.ptx
 */
struct part {
	double weight;
	short from, to;
	char kind;
};

/* By itself, with a structure by value and one returned. */
__device__ __noinline__ struct part narrow(struct part p, int depth)
{
	if (!depth)
		return p;
	p.weight *= 0.5;
	p.from += depth;
	p.kind++;
	p = narrow(p, depth - 1);
	p.to -= depth;
	return p;
}

extern "C" __global__ void parts(double *o)
{
	struct part p = {(double)threadIdx.x, (short)threadIdx.x, 100, 0};

	p = narrow(p, threadIdx.x % 7);
	o[threadIdx.x] = p.weight + 1000 * p.from + 1000000 * p.to + p.kind * 1e9;
}

/* Each call sorts in an array of its caller, through a pointer. */
__device__ __noinline__ void sort(int *from, int count)
{
	int pivot, left[8], right[8], l = 0, r = 0;

	if (count < 2)
		return;
	pivot = from[0];
	for (int i = 1; i < count; i++)
		if (from[i] < pivot)
			left[l++] = from[i];
		else
			right[r++] = from[i];
	sort(left, l);
	sort(right, r);
	for (int i = 0; i < l; i++)
		from[i] = left[i];
	from[l] = pivot;
	for (int i = 0; i < r; i++)
		from[l + 1 + i] = right[i];
}

extern "C" __global__ void sorts(int *o)
{
	__shared__ int sums[64];
	int numbers[8];

	for (int i = 0; i < 8; i++)
		numbers[i] = (threadIdx.x * 37 + i * 61) % 101;
	sort(numbers, 8);
	sums[threadIdx.x] = 0;
	for (int i = 0; i < 8; i++)
		sums[threadIdx.x] += (i + 1) * numbers[i];
	__syncthreads();
	o[threadIdx.x] = sums[threadIdx.x ^ 1];
}

/* Through a table, and back. */
typedef int (*rule)(int n, int turn);
__device__ int down(int n, int turn);
__device__ int half(int n, int turn);
__device__ rule rules[2] = {down, half};

__device__ __noinline__ int down(int n, int turn)
{
	return n <= 1 ? turn : 3 + rules[n & 1](n - 1, turn + 1);
}

__device__ __noinline__ int half(int n, int turn)
{
	return n <= 1 ? -turn : 5 * rules[n % 3 == 0](n / 2, turn + 1);
}

extern "C" __global__ void table(int *o)
{
	o[threadIdx.x] = rules[threadIdx.x & 1](threadIdx.x, 0);
}

__device__ __noinline__ int deep(int n)
{
	return n > 0 ? (deep(n - 1) * 5) ^ n : 1;
}

extern "C" __global__ void dive(int *o, int n)
{
	o[threadIdx.x] = deep(n);
}
