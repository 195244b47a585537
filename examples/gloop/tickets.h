/* SPDX-License-Identifier: MIT
 *
 * Persistent threads, device code: the grid stays, and its blocks take one task after the other, by tickets. Who has a ticket
 * waits for earlier ones at most, and those who have these are at work.
 */
#ifndef EXAMPLES_GLOOP_TICKETS_H
#define EXAMPLES_GLOOP_TICKETS_H

#include "common/device.h"

#include <gdev/gloop.cuh>

#define WAIT_NS 10000 /* until a block looks again for what it needs of others */

/* The first of the next `count` tickets, the same for all threads of the block. */
static __device__ __forceinline__ int take_tickets(int *next, int count)
{
	__shared__ int ticket;

	__syncthreads();
	if (threadIdx.x == 0 && threadIdx.y == 0)
		ticket = atomicAdd(next, count);
	__syncthreads();
	return ticket;
}

#endif
