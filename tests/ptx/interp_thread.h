/* SPDX-License-Identifier: MIT
 *
 * Threads and blocks of the interpreter: interp_thread.c executes one instruction of one thread, interp.c decides which
 * thread goes on, and what they do together.
 */
#ifndef GDEV_TESTS_PTX_INTERP_THREAD_H
#define GDEV_TESTS_PTX_INTERP_THREAD_H

#include "device/cpu/ptx/ir.h"
#include "interp.h"

enum { CLUSTER_BARRIER = 16, BARRIERS, SLICE = 1000 };

enum thread_state { THREAD_READY, THREAD_WAITS, THREAD_LEFT };

struct thread {
	struct block *block;
	uint32_t index, tid[3];
	enum thread_state state;
	uint32_t pc;
	uint64_t steps;
	uint64_t *regs;
	uint8_t *local;
	bool *reg_written, *local_written; /* of each register, and each byte */
	bool carry;
	/* While it waits: at what, the lanes that it waits for, and what it brings. */
	const struct inst *at;
	uint32_t mask;
	int barrier; /* -1: a collective of the warp */
	uint64_t value;
	bool predicate;
};

struct barrier {
	uint32_t arrived, expected; /* 0: all threads that have not left */
	/* arrived is of threads. What is expected counts whole warps: by warp the lanes that have come, and what lanes that have
	 * come again counted for before. */
	uint32_t come[32], before;
	uint32_t count, all; /* of the predicates of bar.red */
};

struct block {
	struct interp *in;
	const struct function *entry;
	uint32_t ctaid[3], threads;
	struct thread *thread;
	struct barrier barrier[BARRIERS];
	uint8_t *shared;
	bool *shared_written; /* of each byte */
	uint64_t shared_bytes, local_bytes;
	uint64_t random;
	uint32_t turn; /* without a seed: the thread to look at first */
	enum interp_outcome outcome;
};

/* interp.c: how many threads the lanes of a warp count for at a barrier. */
uint32_t barrier_count(const struct block *b, const struct barrier *barrier, uint32_t warp);
/* Executes the instruction at the thread's pc. A collective or barrier leaves the thread waiting. */
void thread_step(struct thread *t);
/* The value of an operand as `type`, and the other way. */
uint64_t thread_read(struct thread *t, const struct operand *o, unsigned type);
void thread_write(struct thread *t, const struct operand *o, unsigned type, uint64_t value);
/* As loads and cvt write: a register that is wider than a signed type gets its sign. */
void thread_write_extended(
	struct thread *t, const struct operand *o, unsigned type, uint64_t value);
/* interp_memory.c; false: no such instruction. */
bool interp_memory(struct thread *t, const struct inst *i);
/* Where the operand [base + offset] points; NULL ends the run. So does a load or an atomic operation of the block's memory
 * that nobody has written. */
uint8_t *thread_address(
	struct thread *t, const struct inst *i, const struct operand *o, unsigned bytes);
uint8_t *thread_address_in(
	struct thread *t, unsigned space, const struct operand *o, unsigned bytes);
/* Says that these bytes hold something: what thread_address() found is said already. */
void thread_wrote(struct thread *t, const uint8_t *p, uint64_t bytes);
/* What an atomic operation leaves of `old` and `v`; n: of cas. False: no such operation. */
bool interp_combined(
	const struct inst *i, uint64_t old, uint64_t v, uint64_t n, bool shared, uint64_t *result);
/* interp_tensor.c: how many bytes the box of a copy of a tensor has. */
uint32_t interp_tensor(struct thread *t, const struct inst *i);
/* interp_async.c; false: no such instruction. */
bool interp_copy(struct thread *t, const struct inst *i);
bool interp_mbarrier(struct thread *t, const struct inst *i);
/* interp_matrix.c: what all lanes of a warp do together, which wait at it. */
bool interp_is_matrix(const struct inst *i);
void interp_matrix(struct thread *warp, uint32_t lanes);
/* Ends the run; the first one counts. */
void thread_fails(struct thread *t, enum interp_outcome outcome, const char *format, ...)
	__attribute__((format(printf, 3, 4)));

#endif
