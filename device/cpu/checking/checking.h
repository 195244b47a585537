/* SPDX-License-Identifier: MIT
 *
 * Checked spaces (docs/check.md): what the software GPU keeps to say which accesses of a kernel are wrong. Inside:
 * ranges.c knows what memory there is, access.c judges an access, wide.c those of instructions that access much, order.c what orders them,
 * copies.c which asynchronous copies nobody has waited for, reports.c keeps what was found.
 *
 * A space's `struct checking` lives as long as the space. checking->lock guards its ranges and its reports; it is held for no
 * longer than a look, and no other lock is taken with it. Blocks of a checked launch run on one thread at a time, so that
 * the cells of a range have no lock; those of cooperative launches, and of launches on several streams, do run at once: cells
 * are single words, and what two threads write to one at the same moment is one of the two.
 */
#ifndef GDEV_DEVICE_CPU_CHECKING_CHECKING_H
#define GDEV_DEVICE_CPU_CHECKING_CHECKING_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "device/cpu/ptx/quick.h"
#include "device/ops.h"

struct cpu_job;
struct ptx_access;
struct ptx_launch;
struct ptx_scratch;

enum {
	CHECK_REPORTS_MAX =
		RECORD_CHECK_REPORTS, /* places; what is found at others is only counted */
	CHECK_SINK_BYTES = 64,
};

struct check_report {
	struct reply_check told;
	const void *function; /* a place is a kernel's line, */
	uint32_t line, title; /* and what is wrong there */
};

struct checking {
	uint32_t checks; /* bits of enum device_check */
	pthread_mutex_t lock;
	struct check_range *ranges; /* by base */
	size_t range_count, range_capacity;
	unsigned changes; /* of the ranges, counted; read without the lock, too */
	struct check_report *reports;
	uint32_t report_count;
	_Atomic uint64_t tick; /* counts all that orders accesses, and blocks that begin */
};

enum check_copy_kind {
	CHECK_COPY,     /* cp.async; its thread waits for a group */
	CHECK_BULK_IN,  /* a bulk copy to shared memory; somebody waits for a barrier in memory */
	CHECK_BULK_OUT, /* one from shared memory; its thread waits for a group of bulk copies */
};

/* An asynchronous copy that was not waited for. */
struct check_copy {
	enum check_copy_kind kind;
	uint32_t thread, offset, bytes, line;
	uint32_t group; /* of the thread's, counted from 0 */
	uint64_t
		barrier; /* CHECK_BULK_IN: its address, and in bit 0 the parity of the phase that the copy is of */
};

/* What a pool thread knows of the block that it runs. */
struct check_state {
	struct check_quick quick; /* the first, for compiled code */
	struct checking *checking;
	struct cpu_job *job;
	uint64_t block; /* its number in the grid */
	uint64_t tick;
	uint64_t since_warp, since_fence; /* what was before these is ordered: access.c */
	uint64_t locals, local_bytes;     /* the window; of a thread */
	uint64_t param_bytes;
	uint64_t stack; /* up to here functions that call themselves have their frames */
	uint32_t threads, slot;
	bool fenced, strong;  /* the block has had a fence, a strong access */
	size_t cell_capacity; /* of quick.cells */
	uint32_t barrier_line, arrived, expected, arrived_last; /* the barrier at hand */
	struct check_copy *copies;
	size_t copy_count, copy_capacity;
	uint32_t groups[1024], bulk_groups[1024];    /* committed, a thread */
	uint32_t bulk_out;                           /* so many of the copies are CHECK_BULK_OUT */
	_Alignas(64) uint8_t sink[CHECK_SINK_BYTES]; /* where accesses go that must not be made */
};

/* -ENOMEM, -EINVAL: unknown checks, or begun before. */
int checking_begin(struct checking **checking, uint32_t checks);
void checking_destroy(struct checking *checking); /* NULL is fine */

/* ranges.c */
/* -EINVAL when it overlaps another; -ENOMEM. The same again, defined, has values from now on. */
int checking_add(struct checking *checking, uint64_t base, uint64_t bytes, bool defined);
void checking_remove(struct checking *checking, uint64_t base);
/* Bytes that something else than a kernel has written; all or some of them in ranges. Afterwards: cells of memory that is not
 * there are not to be touched. A fault guard may be set. */
void checking_define(struct checking *checking, uint64_t address, uint64_t bytes);
/* The range that an address is in. False: none; then the nearest one, with 0 bytes when there is none at all. */
bool checking_find(struct checking *checking, uint64_t address, struct check_range *range);

/* order.c */
/* Before a pool thread runs blocks of a checked job: *state is made when it is NULL. False: out of memory. */
bool check_state_prepare(
	struct check_state **state, struct cpu_job *job, const struct ptx_scratch *scratch);
void check_state_destroy(struct check_state *state); /* NULL is fine */
/* The ranges that it knows, as others are there now. */
void check_forget(struct check_state *state, unsigned seen);
void check_order(const struct ptx_launch *launch, const struct ptx_scratch *scratch, uint32_t order,
	uint32_t line, uint32_t thread, uint64_t value);
/* A strong access. */
void check_strong(struct check_state *state);

/* copies.c */
/* All but the group is said. */
void check_copy_begins(struct check_state *state, const struct check_copy *copy);
/* All copies of the kind in the thread's groups but the last `left` ones, or all its copies, UINT32_MAX. */
void check_copies_awaited(
	struct check_state *state, enum check_copy_kind kind, uint32_t thread, uint64_t left);
/* Those that a phase of a barrier has counted: check_copy.barrier. */
void check_copies_counted(struct check_state *state, uint64_t barrier);
/* What copies read is not ordered by a barrier of the block. */
void check_copies_stay(struct check_state *state);
/* The block ends. */
void check_copies_end(struct check_state *state);
/* Whether a bulk copy that was not waited for reads some of these bytes of shared memory. */
bool check_copy_reads(const struct check_state *state, uint32_t offset, uint32_t bytes);

/* access.c */
uint64_t check_access(const struct ptx_launch *launch, const struct ptx_scratch *scratch,
	uint64_t address, uint32_t access, uint32_t line, uint32_t thread, uint64_t value);
/* An access to so many bytes; is.bytes is not looked at. defined: they need no value. False: it must not be made. */
bool check_wide(const struct ptx_launch *launch, const struct ptx_scratch *scratch,
	uint64_t address, uint32_t bytes, struct ptx_access is, bool defined, uint32_t line,
	uint32_t thread);

/* wide.c: as struct ptx_runtime has them. */
uint32_t check_rows(const struct ptx_launch *launch, const struct ptx_scratch *scratch,
	uint64_t address, uint32_t bytes, uint32_t count, uint64_t pitch, uint32_t access,
	uint32_t line, uint32_t thread);
uint32_t check_bulk(const struct ptx_launch *launch, const struct ptx_scratch *scratch, uint64_t to,
	uint64_t from, uint32_t bytes, uint64_t barrier, uint32_t line, uint32_t thread);
uint32_t check_box(const struct ptx_launch *launch, const struct ptx_scratch *scratch,
	uint32_t word, const void *map, const int32_t *numbers, uint64_t shared, uint64_t barrier,
	uint32_t *bytes, uint32_t line, uint32_t thread);

/* reports.c */
enum check_title {
	CHECK_OUT_OF_BOUNDS,
	CHECK_MISALIGNED,
	CHECK_UNDEFINED,
	CHECK_RACE,
	CHECK_BARRIER,
	CHECK_WARP_BARRIER,
	CHECK_COPY_READ,
	CHECK_COPY_WRITTEN,
	CHECK_COPY_LEFT,
};
/* `detail`: sentences, a line each. */
void check_report(struct check_state *state, enum check_title title, uint32_t line, uint32_t thread,
	const char *format, ...) __attribute__((format(printf, 5, 6)));
int checking_report(struct checking *checking, uint32_t index, struct reply_check *report);

#endif
