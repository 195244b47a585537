// SPDX-License-Identifier: MIT
// Source of clang.ptx: clang++-19 -x cuda --cuda-device-only --cuda-gpu-arch=sm_50 -nocudainc
// -nocudalib -O3 -S clang.cu -o clang.ptx. Tests read the PTX only.
#define __global__ __attribute__((global))
#define __shared__ __attribute__((shared))
#define __device__ __attribute__((device))
#define tidx __nvvm_read_ptx_sreg_tid_x()
#define ntid __nvvm_read_ptx_sreg_ntid_x()
#define bid __nvvm_read_ptx_sreg_ctaid_x()

extern "C" __global__ void saxpy(float a, const float *x, float *y, int n)
{
	int i = bid * ntid + tidx;

	if (i < n)
		y[i] = a * x[i] + y[i];
}

extern "C" __global__ void scan(int *d)
{
	__shared__ int s[256];
	int t = tidx;

	s[t] = d[t];
	__syncthreads();
	for (int o = 1; o < (int)ntid; o *= 2) {
		int v = t >= o ? s[t - o] : 0;

		__syncthreads();
		s[t] += v;
		__syncthreads();
	}
	d[t] = s[t];
}

extern "C" __global__ void collatz(int *d)
{
	int v = d[tidx], steps = 0;

	while (v > 1) {
		v = v % 2 ? 3 * v + 1 : v / 2;
		steps++;
	}
	d[tidx] = steps;
}

struct numbers {
	int a[8];
};

static __device__ __attribute__((noinline)) int pick(struct numbers s, int i)
{
	return s.a[i];
}

// A structure by value, of which the callee takes the address.
extern "C" __global__ void picks(int *d)
{
	__shared__ int x[128];
	struct numbers s;
	int t = tidx;

	for (int k = 0; k < 8; k++)
		s.a[k] = t * 100 + k;
	x[t] = t & 7;
	__syncthreads();
	t = pick(s, x[127 - t]);
	__syncthreads();
	x[tidx] = t;
	__syncthreads();
	d[tidx] = x[tidx ^ 1] + pick(s, 3);
}
