// SPDX-License-Identifier: MIT
// Source of masks.ptx: clang++-19 -x cuda --cuda-device-only --cuda-gpu-arch=sm_50 -nocudainc
// -nocudalib -O3 -S masks.cu -o masks.ptx. Tests read the PTX only.
#define __global__ __attribute__((global))
#define __shared__ __attribute__((shared))
#define tidx __nvvm_read_ptx_sreg_tid_x()
#define tidy __nvvm_read_ptx_sreg_tid_y()
#define ntid __nvvm_read_ptx_sreg_ntid_x()
#define nrow __nvvm_read_ptx_sreg_ntid_y()
#define bid __nvvm_read_ptx_sreg_ctaid_x()
#define bidy __nvvm_read_ptx_sreg_ctaid_y()

// A cell and its four neighbours, those that there are.
extern "C" __global__ void neighbours(float *out, const float *in, int n)
{
	int x = bid * ntid + tidx, y = bidy * nrow + tidy, i = y * n + x;

	if (x >= n || y >= n)
		return;
	float north = y > 0 ? in[i - n] : 1, south = y < n - 1 ? in[i + n] : 2;
	float west = x > 0 ? in[i - 1] - in[i] : 3, east = x < n - 1 ? in[i + 1] * in[i] : 4;

	out[i] = in[i] + north * 2 + south * 3 + west * 5 + east * 7;
}

// What is d threads before in shared memory; indices have no sign.
extern "C" __global__ void before(int *out, const int *in, unsigned d)
{
	__shared__ int s[256];
	unsigned t = tidx;

	s[t] = in[t];
	__syncthreads();
	int sum = s[t];
	if (t >= d)
		sum += s[t - d];
	if (t >= 3)
		sum += 2 * s[t - 3];
	out[t] = sum;
}

// How long a point stays near: threads leave the loop at different times, or do not enter it.
extern "C" __global__ void escape(int *steps, float *left, int n, int limit)
{
	int column = bid * ntid + tidx, row = bidy * nrow + tidy, step = 0;
	float x0 = -2 + column * 2.5f / n, y0 = -1.25f + row * 2.5f / n, x = 0, y = 0;

	if (column >= n || row >= n)
		return;
	while (step < limit && x * x + y * y < 4) {
		float next = x * x - y * y + x0;

		y = 2 * x * y + y0;
		x = next;
		step++;
	}
	steps[row * n + column] = step;
	left[row * n + column] = x + 3 * y;
}

// Two ways out of a loop, with a branch in it; some threads go around it.
extern "C" __global__ void wander(unsigned *out, const unsigned *in, int n)
{
	int i = bid * ntid + tidx;
	unsigned v, rounds = 0, odd = 0;

	if (i >= n)
		return;
	v = in[i];
	if (v % 3) {
		for (;;) {
			if (v == 1) {
				odd += 1000;
				break;
			}
			if (v & 1) {
				v = 3 * v + 1;
				odd++;
			} else {
				v /= 2;
			}
			if (++rounds == 50) {
				odd += 2000;
				break;
			}
		}
		rounds *= 2;
	}
	out[i] = v + 16 * rounds + 65536 * odd;
}

// The threads that come to the second guard are others than those that pass it: nobody loads what they would.
extern "C" __global__ void unreached(int *out, const int *nothing, int n)
{
	int t = tidx;

	if ((t & 56) == 8) {
		out[t] = 1;
		if (t >= n)
			out[t] = *nothing;
	}
}

// Guards that grow with the index, in all ways that they are written.
extern "C" __global__ void bounds(int *out, int n, int first)
{
	int x = bid * ntid + tidx, y = bidy * nrow + tidy, i = y * 4096 + x;

	if (x < n && y < n)
		out[i] |= 1;
	if (x < first)
		out[i] |= 2;
	if (n > x)
		out[i] |= 4;
	if (x - 5 >= first)
		out[i] |= 8;
	if ((unsigned)y <= (unsigned)first)
		out[i] |= 16;
	if (3 * x + 2 * y + 7 > n)
		out[i] |= 32;
	if (first <= y)
		out[i] |= 64;
	if (x > n || y > n)
		out[i] |= 128;
}

// Each pair of threads whose indices differ in the bits of `distance` puts theirs in order.
extern "C" __global__ void order_pairs(int *v, int first, int distance, int size)
{
	int i = first + bid * ntid + tidx, j = i ^ distance;

	if (j > i) {
		int a = v[i], b = v[j];

		if (i & size ? a < b : a > b) {
			v[i] = b;
			v[j] = a;
		}
	}
}

// Eight rounds through a table, all threads together.
extern "C" __global__ void look_up(unsigned *v, const unsigned *table, unsigned n)
{
	__shared__ unsigned t[256];
	unsigned i = bid * ntid + tidx, x;

	for (unsigned k = tidx; k < 256; k += ntid)
		t[k] = table[k];
	__syncthreads();
	if (i >= n)
		return;
	x = v[i];
	for (int round = 0; round < 8; round++)
		x = (x >> 8) ^ t[x & 255] ^ table[round];
	v[i] = x;
}

// Of two words' low or high bits. A place beyond the end inserts nothing.
extern "C" __global__ void insert(unsigned *out, const unsigned *in, unsigned n)
{
	unsigned i = bid * ntid + tidx, r;

	if (i >= n)
		return;
	unsigned a = in[i], b = in[n + i], c = in[2 * n + i];

	asm("bfi.b32 %0, %1, %2, %3, 4;" : "=r"(r) : "r"(b), "r"(a), "r"(c & 128 ? 255 : 0));
	out[i] = r;
	asm("bfi.b32 %0, %1, %2, %3, 16;" : "=r"(r) : "r"(b), "r"(a), "r"(c & 64 ? 0 : 200));
	out[n + i] = r;
	asm("bfi.b32 %0, %1, %2, 8, %3;" : "=r"(r) : "r"(a), "r"(b), "r"(c & 32 ? 0 : 7));
	out[2 * n + i] = r;
}

// Threads leave early, if any are to; `some` has a bit for each place.
extern "C" __global__ void leave(int *out, const int *in, int n, int some)
{
	int i = bid * ntid + tidx;

	if (some & 1) {
		if (in[i] & 1)
			return;
	}
	__nvvm_bar_sync(0);
	out[i] += 1;
	if (some & 2) {
		out[i] += 1000;
		if (i >= n)
			return;
	}
	__nvvm_bar_sync(1);
	out[i] += 10;
	for (int round = 2; round < 6; round++) {
		if (some & 4 << round) {
			if (in[i] >> round & 1)
				return;
		}
		__nvvm_bar_sync(2);
		out[i] += 100;
	}
	if (some & 256) {
		out[i] += 1000;
		if ((int)tidx >= n)
			return;
	}
	__nvvm_bar_sync(3);
	out[i] += 10000;
}

// Threads leave on either side of what is the same for all.
extern "C" __global__ void either(int *out, const int *in, int some)
{
	int i = bid * ntid + tidx;

	if (some) {
		if (in[i] & 1)
			return;
		out[i] = 1;
	} else {
		if (in[i] & 2)
			return;
		out[i] = 2;
	}
	__nvvm_bar_sync(0);
	out[i] += 10;
}

// A block keeps its cells in shared memory; what lies beside them is in device memory, and one thread of a row loads it.
#define BESIDE(name, type)                                                                         \
	extern "C" __global__ void name(type *out, const type *in, int n)                          \
	{                                                                                          \
		__shared__ type t[1024];                                                           \
		int x = tidx, place = tidy * ntid + x, column = bid * ntid + x;                    \
		int i = (bidy * nrow + tidy) * n + column;                                         \
		type here = in[i], west, east;                                                     \
                                                                                                   \
		t[place] = here;                                                                   \
		__syncthreads();                                                                   \
		west = x > 0 ? t[place - 1] : column > 0 ? in[i - 1] : here;                       \
		east = x < ntid - 1 ? t[place + 1] : column < n - 1 ? in[i + 1] : here;            \
		out[i] = here + 2 * west + 3 * east;                                               \
	}
BESIDE(beside, float)
BESIDE(beside_double, double)
BESIDE(beside_short, short)
