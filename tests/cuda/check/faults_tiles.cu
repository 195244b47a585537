/* SPDX-License-Identifier: MIT
 *
 * Faults in what is moved in tiles: matrices of a warp, bulk copies, and boxes of tensors; see faults.h.
 */
#include "faults.h"

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
