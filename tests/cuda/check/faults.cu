/* SPDX-License-Identifier: MIT
 *
 * Faults of threads: memory, values, races, barriers, and their own asynchronous copies; see faults.h.
 */
#include "faults.h"

struct __attribute__((aligned(16))) int4 {
	int x, y, z, w;
};

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
