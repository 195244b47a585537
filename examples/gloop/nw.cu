/* SPDX-License-Identifier: MIT
 *
 * Needleman-Wunsch by persistent threads, in one launch: a ticket is a block of the table, which waits for the blocks above and
 * left of it. With event loops a block of threads that waits leaves the device to others; the plain kernel looks without end.
 */
#include "nw/block.h"

#include "gloop/tickets.h"

using gloop::DeviceLoop;

struct table {
	int *score;
	const int *similarity;
	int n, penalty;
	int *taken;
	volatile int *done; /* of each row of blocks: how many */
};

struct place {
	int row, column;
};

/* Tickets go by anti-diagonals. The row is -1 when there is no such block. */
static __device__ place place_of(const table &t, int ticket)
{
	int blocks = t.n / BLOCK, diagonal = 0, length = 1;

	if (ticket >= blocks * blocks)
		return {-1, 0};
	while (ticket >= length) {
		ticket -= length;
		diagonal++;
		length = diagonal < blocks ? diagonal + 1 : 2 * blocks - 1 - diagonal;
	}
	int row = (diagonal < blocks ? 0 : diagonal - blocks + 1) + ticket;
	return {row, diagonal - row};
}

static __device__ bool is_ready(const table &t, place at)
{
	__shared__ bool ready;

	__syncthreads();
	if (threadIdx.x == 0) {
		ready = t.done[at.row] == at.column && (!at.row || t.done[at.row - 1] > at.column);
		__threadfence();
	}
	__syncthreads();
	return ready;
}

static __device__ void align(const table &t, place at)
{
	__shared__ struct part part;

	align_block(&part, t.score, t.similarity, t.n, t.penalty, at.row, at.column);
	__threadfence();
	__syncthreads();
	if (threadIdx.x == 0)
		t.done[at.row] = at.column + 1;
}

static __device__ void work(DeviceLoop *loop, table t, int ticket)
{
	place at = place_of(t, ticket);

	if (at.row < 0)
		return;
	if (!is_ready(t, at)) {
		loop->timer(WAIT_NS, [=](DeviceLoop *loop) { work(loop, t, ticket); });
		return;
	}
	align(t, at);
	loop->postTask([=](DeviceLoop *loop) { work(loop, t, take_tickets(t.taken, 1)); });
}

/* words: `taken`, and behind it `done`. */
extern "C" __global__ void nw(
	gloop_grid grid, int *score, const int *similarity, int n, int penalty, int *words)
{
	table t = {score, similarity, n, penalty, words, words + 1};

	gloop::run(grid, [=](DeviceLoop *loop) { work(loop, t, take_tickets(t.taken, 1)); });
}

extern "C" __global__ void nw_plain(
	int *score, const int *similarity, int n, int penalty, int *words)
{
	table t = {score, similarity, n, penalty, words, words + 1};

	for (;;) {
		place at = place_of(t, take_tickets(t.taken, 1));

		if (at.row < 0)
			return;
		while (!is_ready(t, at))
			;
		align(t, at);
	}
}
