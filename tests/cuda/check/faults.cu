/* SPDX-License-Identifier: MIT
 *
 * A fault in each kernel, but for those whose names begin with right_. The line that is reported says so in a comment: FAULT:
 * and the first words of the report.
 * faults.ptx is kept; `test.py --ptx` makes it anew, with clang.
 *
 * Kernels whose names begin with block_ are launched with two blocks, with grid_ so and cooperatively, the others with one.
 * data: SIZE ints with values; fresh: SIZE ints without; freed: of memory that was freed; map: of a tensor of 8 by 8 ints at data, two
 * of which are behind its end, in boxes of 8 by 4. Blocks have 64 threads.
 */
#include "common/device.h"

#define SIZE 62
#define KERNEL extern "C" __global__ void
#define ARGUMENTS int *data, int *fresh, int *freed, void *map

struct __attribute__((aligned(16))) int4 {
	int x, y, z, w;
};

#define sync __syncthreads
#define t (int)threadIdx.x

__constant__ int table[4]; /* the program could set it */
__device__ int variable[4];
__device__ int behind_variable[64];

/* ---- no memory there ---- */

KERNEL read_behind(ARGUMENTS)
{
	if (t < SIZE - 1)
		data[t] = data[t + 2 * (t == 60)]; /* FAULT: access out of bounds */
}

KERNEL write_behind(ARGUMENTS)
{
	if (t < SIZE)
		data[t + (t == SIZE - 1)] = t; /* FAULT: access out of bounds */
}

KERNEL before_beginning(ARGUMENTS)
{
	if (!t)
		data[-1] = 1; /* FAULT: access out of bounds */
}

KERNEL from_nowhere(ARGUMENTS)
{
	if (!t)
		data[0] = *(volatile int *)16; /* FAULT: access out of bounds */
}

KERNEL behind_shared(ARGUMENTS)
{
	__shared__ int s[64];

	s[63 - t] = t;
	sync();
	if (t > 1)
		data[t - 2] = s[t + (t == 63)]; /* FAULT: access out of bounds */
}

KERNEL atomic_behind(ARGUMENTS)
{
	if (!t)
		__nvvm_atom_add_gen_i(&data[SIZE], 1); /* FAULT: access out of bounds */
}

KERNEL partly_behind(ARGUMENTS)
{
	if (!t)
		*(int4 *)data = ((int4 *)data)[15]; /* FAULT: access out of bounds */
}

KERNEL after_free(ARGUMENTS)
{
	if (!t)
		data[0] = freed[0]; /* FAULT: access out of bounds */
}

KERNEL behind_constant(ARGUMENTS)
{
	if (t < 2)
		data[t] = table[1000 * t]; /* FAULT: access out of bounds */
}

KERNEL behind_variable_of_module(ARGUMENTS)
{
	if (t < 5)
		variable[t] = t; /* FAULT: access out of bounds */
	behind_variable[t] = 1;
}

/* ---- misaligned ---- */

KERNEL misaligned_read(ARGUMENTS)
{
	if (!t)
		data[0] = *(int *)((char *)data + 2); /* FAULT: misaligned access */
}

KERNEL misaligned_vector(ARGUMENTS)
{
	if (!t)
		*(int4 *)(data + 1) = *(int4 *)data; /* FAULT: misaligned access */
}

KERNEL misaligned_shared(ARGUMENTS)
{
	__shared__ volatile int s[4];
	volatile int *odd = (volatile int *)((volatile char *)s + 1 + (data[1] & 1));

	if (!t)
		*odd = 1; /* FAULT: misaligned access */
}

/* ---- no value ---- */

KERNEL read_fresh(ARGUMENTS)
{
	if (!t)
		data[0] = fresh[7]; /* FAULT: read of memory that nothing */
}

KERNEL read_half_fresh(ARGUMENTS)
{
	((volatile short *)fresh)[2 * 20] = 5;
	sync();
	if (!t)
		data[0] = fresh[20]; /* FAULT: read of memory that nothing */
}

KERNEL read_unset_shared(ARGUMENTS)
{
	__shared__ int s[64];

	if (t < 32)
		s[t] = t;
	sync();
	if (t < SIZE)
		data[t] = s[t]; /* FAULT: read of memory that nothing */
}

KERNEL block_before_left_that(ARGUMENTS)
{
	__shared__ int s[64];

	if (blockIdx.x == 0)
		s[t] = t;
	sync();
	if (t < 31)
		data[t + 31 * blockIdx.x] = s[t]; /* FAULT: read of memory that nothing */
}

extern "C" __device__ void *malloc(unsigned long);
extern "C" __device__ void free(void *);

KERNEL read_unset_heap(ARGUMENTS)
{
	if (!t) {
		volatile int *heap = (volatile int *)malloc(64);

		data[0] = heap[3]; /* FAULT: read of memory that nothing */
		free((void *)heap);
	}
}

KERNEL heap_freed(ARGUMENTS)
{
	if (!t) {
		int *volatile heap = (int *)malloc(64);

		*(volatile int *)(heap + 3) = 1;
		for (volatile int i = 0; i < 2; i = i + 1) {
			data[i] = heap[3]; /* FAULT: access out of bounds */
			if (!i)
				free(heap);
		}
	}
}

/* ---- races ---- */

KERNEL barrier_missing(ARGUMENTS)
{
	__shared__ int s[64];

	s[t] = t + 1;
	if (t && t < SIZE)
		data[t] = s[t - 1]; /* FAULT: race */
}

KERNEL second_barrier_missing(ARGUMENTS)
{
	__shared__ int s[64];

	s[t] = t;
	sync();
	int v = s[t + (t < 63)];
	s[t] = v + 100; /* FAULT: race */
	sync();
	if (t < SIZE)
		data[t] = s[63 - t];
}

KERNEL all_write_one_word(ARGUMENTS)
{
	__shared__ int s[1];

	s[0] = t; /* FAULT: race */
	sync();
	if (!t)
		data[0] = s[0];
}

KERNEL global_within_block(ARGUMENTS)
{
	if (blockIdx.x == 0 && t < SIZE) {
		data[t] = t + 3;
		if (t)
			fresh[t] = ((volatile int *)data)[t - 1]; /* FAULT: race */
	}
}

KERNEL bytes_of_one_word(ARGUMENTS)
{
	unsigned char *bytes = (unsigned char *)data;

	bytes[t] = ~bytes[t]; /* of its own */
	sync();
	if (t < SIZE)
		fresh[t] = bytes[64 + t];
	if (t == 5)
		bytes[64 + 4] = 1; /* FAULT: race */
}

KERNEL block_writes_anothers(ARGUMENTS)
{
	if (!t)
		data[5] = 50 + blockIdx.x; /* FAULT: race */
}

KERNEL block_reads_anothers(ARGUMENTS)
{
	if (t)
		return;
	if (blockIdx.x == 0)
		data[9] = 77;
	else
		fresh[0] = data[9]; /* FAULT: race */
}

KERNEL atomic_and_plain(ARGUMENTS)
{
	__shared__ int s[1];

	if (!t)
		s[0] = 0;
	sync();
	atomicAdd(&s[0], 1);
	if (t == 63)
		data[0] = s[0]; /* FAULT: race */
}

KERNEL warp_barrier_missing(ARGUMENTS)
{
	__shared__ int s[64];

	s[t] = t;
	__nvvm_bar_warp_sync(0xffffffff);
	int v = s[t ^ 1];
	__nvvm_bar_warp_sync(0xffffffff);
	s[t] = v + 1;
	v = t & 1 ? s[t - 1] : v; /* FAULT: race */
	if (t < SIZE)
		data[t] = v;
}

KERNEL fence_is_no_barrier(ARGUMENTS)
{
	__shared__ int s[64];

	s[t] = t + 1;
	__nvvm_membar_cta();
	if (t && t < SIZE)
		data[t] = s[t - 1]; /* FAULT: race */
}

/* ---- barriers and asynchronous copies ---- */

KERNEL half_comes(ARGUMENTS)
{
	if (t < 32)
		sync(); /* FAULT: barrier that not all */
	data[t % SIZE] = 1;
}

KERNEL warps_lanes_part(ARGUMENTS)
{
	if (t % 2)
		sync(); /* FAULT: barrier that not all */
	else
		data[0] = 1;
	data[1] = 2;
}

KERNEL not_in_the_mask(ARGUMENTS)
{
	__nvvm_bar_warp_sync(0x0000ffff); /* FAULT: barrier of a warp */
	data[0] = 1;
}

#define SHARED(p) ((unsigned)(unsigned long)(__attribute__((address_space(3))) void *)(p))
#define GLOBAL(p) ((__attribute__((address_space(1))) void *)(p))

#define COPY_ASYNC(to, from)                                                                       \
	asm volatile(                                                                              \
		"cp.async.ca.shared.global [%0], [%1], 4;" ::"r"(SHARED(to)), "l"(GLOBAL(from))    \
		: "memory")

KERNEL copy_not_waited_for(ARGUMENTS)
{
	__shared__ int s[64];

	if (t < SIZE) {
		COPY_ASYNC(&s[t], &data[t]);
		asm volatile("cp.async.commit_group;" ::: "memory");
		data[t] = s[t] + 1; /* FAULT: read before an asynchronous copy */
		asm volatile("cp.async.wait_group 0;" ::: "memory");
	}
}

KERNEL copy_left(ARGUMENTS)
{
	__shared__ int s[64];

	if (t < SIZE)
		COPY_ASYNC(&s[t], &data[t]); /* FAULT: asynchronous copy that nobody */
}

/* A size of the source that a register has. */
#define COPY_FILLED(to, from, bytes)                                                               \
	asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(SHARED(to)),            \
		     "l"(GLOBAL(from)), "r"(bytes)                                                 \
		     : "memory")

KERNEL filled_copy_behind(ARGUMENTS)
{
	__shared__ __attribute__((aligned(16))) int s[64];
	int bytes = t < 15 ? 16 : 12;

	if (t < 16) {
		COPY_FILLED(s + 4 * t, data + 4 * t, bytes); /* FAULT: access out of bounds */
		asm volatile("cp.async.wait_all;" ::: "memory");
	}
	sync();
	if (t < SIZE)
		data[t] = s[t];
}

/* ---- matrices ---- */

/* Four tiles of 8 by 8 halves, which are 128 ints. */
#define LDMATRIX(r, from)                                                                          \
	asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"            \
		     : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])                              \
		     : "r"(SHARED(from))                                                           \
		     : "memory")
#define STMATRIX(to, r)                                                                            \
	asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(     \
			     SHARED(to)),                                                          \
		     "r"(r[0]), "r"(r[1]), "r"(r[2]), "r"(r[3])                                    \
		     : "memory")
/* 8 by 8 doubles, 512 bytes, from global memory and to shared; 8 by 4 of them, 256 bytes, from there. */
#define WMMA_LOAD(r, from, stride)                                                                 \
	asm volatile("wmma.load.c.sync.aligned.row.m8n8k4.global.f64 {%0, %1}, [%2], %3;"          \
		     : "=d"(r[0]), "=d"(r[1])                                                      \
		     : "l"(GLOBAL(from)), "r"(stride)                                              \
		     : "memory")
#define WMMA_STORE(to, r)                                                                          \
	asm volatile("wmma.store.d.sync.aligned.row.m8n8k4.shared.f64 [%0], {%1, %2};" ::"r"(      \
			     SHARED(to)),                                                          \
		     "d"(r[0]), "d"(r[1])                                                          \
		     : "memory")
#define WMMA_LOAD_A(r, from)                                                                       \
	asm volatile("wmma.load.a.sync.aligned.row.m8n8k4.shared.f64 {%0}, [%1];"                  \
		     : "=d"(r)                                                                     \
		     : "r"(SHARED(from))                                                           \
		     : "memory")

#define MATRIX(name) __shared__ __attribute__((aligned(128))) int name[128]

KERNEL ldmatrix_behind(ARGUMENTS)
{
	MATRIX(s);
	int r[4];

	s[t] = s[64 + t] = t;
	sync();
	LDMATRIX(r, s + 4 * (t % 32) + 4 * (t == 31)); /* FAULT: access out of bounds */
	if (!t)
		data[0] = r[0] & r[1] & r[2] & r[3];
}

KERNEL ldmatrix_misaligned(ARGUMENTS)
{
	MATRIX(s);
	int r[4];

	s[t] = s[64 + t] = t;
	sync();
	LDMATRIX(r, s + 4 * (t % 32) - 2 * (t == 7)); /* FAULT: misaligned access */
	if (!t)
		data[0] = r[0] & r[1] & r[2] & r[3];
}

KERNEL ldmatrix_unset(ARGUMENTS)
{
	MATRIX(s);
	int r[4];

	s[t] = t;
	if (t < 63)
		s[64 + t] = t;
	sync();
	LDMATRIX(r, s + 4 * (t % 32)); /* FAULT: read of memory that nothing */
	if (!t)
		data[0] = r[0] & r[1] & r[2] & r[3];
}

KERNEL ldmatrix_barrier_missing(ARGUMENTS)
{
	MATRIX(s);
	int r[4];

	s[t] = t + 1;
	s[64 + t] = t + 1;
	__nvvm_bar_warp_sync(0xffffffff);
	LDMATRIX(r, s + 4 * (t % 32)); /* FAULT: race */
	if (!t)
		data[0] = r[0] & r[1] & r[2] & r[3];
}

KERNEL stmatrix_behind(ARGUMENTS)
{
	MATRIX(s);
	int r[4] = {t, t, t, t};

	if (t < 32)
		STMATRIX(s + 4 * t + 4 * (t == 31), r); /* FAULT: access out of bounds */
	sync();
	if (t < SIZE)
		data[t] = s[t];
}

KERNEL stmatrix_by_two_warps(ARGUMENTS)
{
	MATRIX(s);
	int r[4] = {t, t, t, t};

	STMATRIX(s + 4 * (t % 32), r); /* FAULT: race */
	sync();
	if (t < SIZE)
		data[t] = s[t];
}

KERNEL wmma_load_behind(ARGUMENTS)
{
	double r[2];

	WMMA_LOAD(r, data, 4 - (t >> 10)); /* FAULT: access out of bounds */
	if (!t)
		fresh[0] = r[0] == r[1];
}

KERNEL wmma_load_misaligned(ARGUMENTS)
{
	double r[2];

	WMMA_LOAD(r, data + 1, 0); /* FAULT: misaligned access */
	if (!t)
		fresh[0] = r[0] == r[1];
}

KERNEL wmma_load_unset(ARGUMENTS)
{
	__shared__ __attribute__((aligned(128))) double s[32];
	double r;

	if (t < 31)
		s[t] = t;
	sync();
	WMMA_LOAD_A(r, s); /* FAULT: read of memory that nothing */
	if (!t)
		fresh[0] = r == 0;
}

KERNEL wmma_store_barrier_missing(ARGUMENTS)
{
	MATRIX(s);
	double r[2] = {1.0 + t, 2.0};

	if (t < 32)
		WMMA_STORE(s, r);
	if (t < SIZE)
		data[t] = s[t]; /* FAULT: race */
}

KERNEL right_matrices(ARGUMENTS)
{
	MATRIX(s);
	MATRIX(copy);
	double sums[2] = {0, 0}, a;
	int r[4];

	s[2 * t] = s[2 * t + 1] = t;
	sync();
	LDMATRIX(r, s + 4 * (t % 32));
	sync();
	if (t < 32)
		STMATRIX(s + 4 * t,
			r); /* as a warp's threads come together, this is behind what they have read */
	else
		STMATRIX(copy + 4 * (t - 32), r);
	sync();
	WMMA_LOAD(sums, data, 0);
	WMMA_LOAD_A(a, s);
	sync();
	sums[0] += a;
	if (t < 32)
		WMMA_STORE(s, sums);
	sync();
	if (t < SIZE)
		data[t] = s[t] + copy[t];
}

/* ---- bulk copies ---- */

#define BARRIER(name) __shared__ unsigned long name
#define INIT(barrier)                                                                              \
	asm volatile("mbarrier.init.shared.b64 [%0], 1;" ::"r"(SHARED(&barrier)) : "memory")
#define ARRIVE(barrier)                                                                            \
	asm volatile("mbarrier.arrive.shared.b64 _, [%0];" ::"r"(SHARED(&barrier)) : "memory")
#define EXPECT(barrier, bytes)                                                                     \
	asm volatile("mbarrier.arrive.expect_tx.shared.b64 _, [%0], %1;" ::"r"(SHARED(&barrier)),  \
		     "r"(bytes)                                                                    \
		     : "memory")
#define WAIT(barrier, parity)                                                                      \
	for (int done = 0; !done;)                                                                 \
	asm volatile("{ .reg .pred p; mbarrier.try_wait.parity.shared.b64 p, [%1], %2;"            \
		     " selp.u32 %0, 1, 0, p; }"                                                    \
		     : "=r"(done)                                                                  \
		     : "r"(SHARED(&barrier)), "r"(parity)                                          \
		     : "memory")
#define BULK_IN(to, from, bytes, barrier)                                                          \
	asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes"           \
		     " [%0], [%1], %2, [%3];" ::"r"(SHARED(to)),                                   \
		     "l"(GLOBAL(from)), "r"(bytes), "r"(SHARED(&barrier))                          \
		     : "memory")
#define BULK_OUT(to, from, bytes)                                                                  \
	asm volatile(                                                                              \
		"cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], %2;" ::"l"(GLOBAL(to)),   \
		"r"(SHARED(from)), "r"(bytes)                                                      \
		: "memory")
#define BULK_COMMIT() asm volatile("cp.async.bulk.commit_group;" ::: "memory")
#define BULK_WAIT() asm volatile("cp.async.bulk.wait_group.read 0;" ::: "memory")
#define BOX_IN(to, x, y, barrier)                                                                  \
	asm volatile(                                                                              \
		"cp.async.bulk.tensor.2d.shared::cluster.global.tile"                              \
		".mbarrier::complete_tx::bytes [%0], [%1, {%2, %3}], [%4];" ::"r"(SHARED(to)),     \
		"l"(map), "r"(x), "r"(y), "r"(SHARED(&barrier))                                    \
		: "memory")
#define BOX_OUT(x, y, from)                                                                        \
	asm volatile("cp.async.bulk.tensor.2d.global.shared::cta.tile.bulk_group"                  \
		     " [%0, {%1, %2}], [%3];" ::"l"(map),                                          \
		     "r"(x), "r"(y), "r"(SHARED(from))                                             \
		     : "memory")

KERNEL bulk_behind(ARGUMENTS)
{
	MATRIX(s);
	BARRIER(b);

	if (!t) {
		INIT(b);
		EXPECT(b, 256);
		BULK_IN(s, data, 256, b); /* FAULT: access out of bounds */
		WAIT(b, 0);
	}
}

KERNEL bulk_misaligned(ARGUMENTS)
{
	MATRIX(s);
	BARRIER(b);

	if (!t) {
		INIT(b);
		EXPECT(b, 16);
		BULK_IN(s, data + 1, 16, b); /* FAULT: misaligned access */
		WAIT(b, 0);
	}
}

KERNEL bulk_of_odd_size(ARGUMENTS)
{
	MATRIX(s);
	BARRIER(b);

	if (!t) {
		INIT(b);
		EXPECT(b, 24);
		BULK_IN(s, data, 24, b); /* FAULT: misaligned access */
		WAIT(b, 0);
	}
}

KERNEL bulk_behind_shared(ARGUMENTS)
{
	MATRIX(s);

	s[t] = t;
	sync();
	if (!t) {
		BULK_OUT(data, s + 124, 32); /* FAULT: access out of bounds */
		BULK_COMMIT();
		BULK_WAIT();
	}
}

KERNEL bulk_of_unset(ARGUMENTS)
{
	MATRIX(s);
	BARRIER(b);

	if (!t) {
		INIT(b);
		EXPECT(b, 128);
		BULK_IN(s, fresh, 128, b); /* FAULT: read of memory that nothing */
		WAIT(b, 0);
	}
}

KERNEL bulk_barrier_missing(ARGUMENTS)
{
	MATRIX(s);

	s[t] = t + 1;
	if (t == 63) {
		BULK_OUT(data, s, 128); /* FAULT: race */
		BULK_COMMIT();
		BULK_WAIT();
	}
}

KERNEL block_bulk_to_one_place(ARGUMENTS)
{
	MATRIX(s);

	s[t] = t + (int)blockIdx.x;
	sync();
	if (!t) {
		BULK_OUT(data, s, 128); /* FAULT: race */
		BULK_COMMIT();
		BULK_WAIT();
	}
}

KERNEL bulk_not_waited_for(ARGUMENTS)
{
	MATRIX(s);
	BARRIER(b);

	if (!t) {
		INIT(b);
		EXPECT(b, 128);
		BULK_IN(s, data, 128, b);
	}
	sync();
	if (t < 32)
		data[t] = s[t] + 1; /* FAULT: read before an asynchronous copy */
	WAIT(b, 0);
}

KERNEL bulk_next_phase_not_waited_for(ARGUMENTS)
{
	MATRIX(s);
	BARRIER(b);
	volatile int *from = s + t % 32;
	int sum = 0;

	if (!t)
		INIT(b);
	sync();
	for (int phase = 0; phase < 2; phase++) {
		if (!t) {
			EXPECT(b, 128);
			BULK_IN(s + 32 * phase, data + 4 * phase, 128, b);
		}
		if (!phase)
			WAIT(b, 0);
		sync();
		sum += from[32 * phase]; /* FAULT: read before an asynchronous copy */
	}
	WAIT(b, 1);
	if (t < SIZE)
		data[t] = sum;
}

KERNEL bulk_left(ARGUMENTS)
{
	MATRIX(s);
	BARRIER(b);

	if (!t) {
		INIT(b);
		EXPECT(b, 128);
		BULK_IN(s, data, 128, b); /* FAULT: asynchronous copy that nobody */
	}
}

KERNEL bulk_source_written(ARGUMENTS)
{
	MATRIX(s);

	s[t] = t;
	sync();
	if (!t) {
		BULK_OUT(data, s, 128);
		BULK_COMMIT();
	}
	sync();
	s[t] = 2 * t + 1; /* FAULT: written before an asynchronous copy */
	sync();
	if (!t)
		BULK_WAIT();
}

KERNEL barrier_unset(ARGUMENTS)
{
	BARRIER(b);

	if (!t)
		ARRIVE(b); /* FAULT: read of memory that nothing */
}

KERNEL box_behind(ARGUMENTS)
{
	MATRIX(s);
	BARRIER(b);

	if (!t) {
		INIT(b);
		EXPECT(b, 128);
		BOX_IN(s, 0, 4, b); /* FAULT: access out of bounds */
		WAIT(b, 0);
	}
}

KERNEL box_misaligned(ARGUMENTS)
{
	MATRIX(s);

	s[t] = t;
	sync();
	if (!t) {
		BOX_OUT(0, 0, s + 4); /* FAULT: misaligned access */
		BULK_COMMIT();
		BULK_WAIT();
	}
}

KERNEL box_not_waited_for(ARGUMENTS)
{
	MATRIX(s);
	BARRIER(b);

	if (!t) {
		INIT(b);
		EXPECT(b, 128);
		BOX_IN(s, 0, 0, b);
	}
	sync();
	if (t < 32)
		data[t] = s[t] + 1; /* FAULT: read before an asynchronous copy */
	WAIT(b, 0);
}

/* Two buffers, each filled while the other one is worked on; a barrier for each, of several phases; results that leave in groups, of
 * which one is under way while the next one is made. */
KERNEL right_pipeline(ARGUMENTS)
{
	__shared__ __attribute__((aligned(128))) int in[2][32], out[2][32];
	__shared__ unsigned long full[2];

	if (!t) {
		INIT(full[0]);
		INIT(full[1]);
		EXPECT(full[0], 128);
		BULK_IN(in[0], data, 128, full[0]);
	}
	sync();
	for (int n = 0; n < 6; n++) {
		if (!t && n < 5) {
			EXPECT(full[(n + 1) % 2], 128);
			BULK_IN(in[(n + 1) % 2], data + 4 * (n % 7), 128, full[(n + 1) % 2]);
		}
		WAIT(full[n % 2], n / 2 % 2);
		if (t < 32)
			out[n % 2][t] = in[n % 2][31 - t];
		sync();
		if (!t) {
			BULK_OUT(fresh + 16 * (n % 2), out[n % 2], 64);
			BULK_COMMIT();
			asm volatile("cp.async.bulk.wait_group.read 1;" ::: "memory");
		}
		sync();
	}
	if (!t)
		asm volatile("cp.async.bulk.wait_group 0;" ::: "memory");
	sync();
	if (t < 32)
		data[t] = fresh[t];
}

/* Boxes that lie partly outside of the tensor, one of which has no values there. */
KERNEL right_boxes(ARGUMENTS)
{
	MATRIX(s);
	BARRIER(b);

	if (!t) {
		INIT(b);
		EXPECT(b, 128);
		BOX_IN(s, -4, -2, b);
	}
	sync();
	WAIT(b, 0);
	if (t < 28)
		s[32 + t] = s[t];
	sync();
	if (!t) {
		BOX_OUT(4, 0, s + 32);
		BULK_COMMIT();
		BULK_WAIT();
		s[32] = 0;
	}
}

/* ---- a cooperative grid ---- */

/* Its barrier, as cooperative groups have it: what the other block has written before is there afterwards. */
static __device__ void grid_sync(void)
{
	unsigned high, low, before, now;

	asm("mov.u32 %0, %%envreg1;" : "=r"(high));
	asm("mov.u32 %0, %%envreg2;" : "=r"(low));
	sync();
	if (!t) {
		unsigned long barrier = ((unsigned long)high << 32 | low) + 4;

		asm volatile("atom.add.release.gpu.u32 %0, [%1], %2;"
			     : "=r"(before)
			     : "l"(barrier), "r"(blockIdx.x ? 1 : 0x80000000u - 1)
			     : "memory");
		do
			asm volatile("ld.acquire.gpu.u32 %0, [%1];"
				     : "=r"(now)
				     : "l"(barrier)
				     : "memory");
		while (!((before ^ now) >> 31));
	}
	sync();
}

KERNEL grid_exchange(ARGUMENTS)
{
	int block = (int)blockIdx.x;

	if (t < SIZE / 2)
		fresh[block * (SIZE / 2) + t] = t;
	grid_sync();
	if (t < SIZE / 2)
		data[block * (SIZE / 2) + t] = fresh[(1 - block) * (SIZE / 2) + t];
	if (!t)
		data[SIZE + block] = 1; /* FAULT: access out of bounds */
}
