/* SPDX-License-Identifier: MIT
 *
 * What preempt.c keeps, which says what for, and preempt_context.c, where it begins and ends.
 */
#ifndef GDEV_DEVICE_CUDA_PREEMPT_H
#define GDEV_DEVICE_CUDA_PREEMPT_H

#include "device/cuda/cuda.h"
#include "device/preempt/preempt.h"

#define PIECES_OF_ONE 2  /* of a launch */
#define COUNTER_BYTES 32 /* as much as a sector of the device's cache */

enum state {
	RUNNING,
	STOPPING, /* nothing is issued; what is with the driver comes to its end */
	QUIET,
};

struct preempt {
	pthread_mutex_t lock;
	enum state state;
	bool wanted; /* a pause is */
	bool loops;  /* kernels leave in the middle of a block; set before there are modules */
	uint32_t generation, stopped; /* of what is issued; of what was told to leave last */
	struct list queues;           /* those with tickets, struct device_queue.waiting_link */
	struct list keepers;          /* tickets that have a part of PREEMPT_KEPT */
	unsigned piece_count;         /* of slices with the driver, */
	uint64_t leaves_ns;           /* and how long these take to leave */
	unsigned wholes, tells;       /* and what else is there */
	/* The context's. A queue's counters have the number of its word. */
	CUmodule module;
	struct device_function *tell; /* of the module; without a name */
	CUdeviceptr counters, lefts, told_address;
	uint32_t *told; /* what the latter have come to; */
	struct {
		uint32_t begun; /* … the former, when all blocks that were issued have begun; */
		uint32_t left;  /* … and the latter, when they told it last */
	} counts[COMPLETION_WORDS];
	CUstream stream;
};

struct piece {
	struct device_command command; /* the issuer's */
	struct ticket *ticket;
	bool issued;
	uint64_t leaves_ns; /* of slices */
	uint8_t *params;    /* likewise */
};

/* A command of the worker's. */
struct ticket {
	struct list link; /* queue->tickets */
	struct device_command *command;
	struct device_function *second; /* NULL: it goes as it is */
	struct device_function *third;  /* NULL: it leaves between blocks only */
	struct list keeping;            /* p->keepers, if it has bytes */
	uint64_t offset, bytes;         /* its part; 0: it has none */
	uint32_t generation;            /* that its last launch had; */
	bool again;                     /* there was one */
	uint32_t blocks, next;          /* of the grid; the first that has not been issued yet */
	unsigned issued;                /* pieces that are with the driver */
	bool begun;
	int error;
	uint64_t busy_ns;
	struct piece pieces[PIECES_OF_ONE];
	_Alignas(16) uint8_t params[]; /* of each piece */
};

#endif
