/* SPDX-License-Identifier: MIT
 *
 * Breadth-first search by persistent threads, in one launch: a ticket is a vertex of a queue; a block takes one for each of its
 * threads, and waits until there are such vertices. With event loops a block that waits leaves the device to others; the plain
 * kernel looks without end.
 */
#include "gloop/bfs.h"

#include "gloop/tickets.h"

using gloop::DeviceLoop;

struct search {
	const int *first, *edges;
	int *distance, *queue;
	int *words;
};

/* Up to where the queue may be taken, if that is behind `at`; 0: not yet; -1: never. */
static __device__ int end_behind(const search &s, int at)
{
	__shared__ int end;
	volatile int *words = s.words;

	__syncthreads();
	if (threadIdx.x == 0) {
		bool finished = words[FINISHED];

		__threadfence();
		end = words[END];
		if (end <= at)
			end = finished ? -1 : 0;
		__threadfence();
	}
	__syncthreads();
	return end;
}

/* Vertices at `at` to `end` of the queue, a thread each; behind it come those of their neighbours that have no distance yet. Who
 * does the last of a level begins the next. */
static __device__ void visit(const search &s, int at, int end)
{
	volatile int *words = s.words;
	int mine = at + threadIdx.x, count = end - at;

	if (mine < end) {
		int v = s.queue[mine], next = s.distance[v] + 1;

		for (int e = s.first[v]; e < s.first[v + 1]; e++)
			if (atomicCAS(&s.distance[s.edges[e]], -1, next) == -1)
				s.queue[atomicAdd(&s.words[TAIL], 1)] = s.edges[e];
	}
	__threadfence();
	__syncthreads();
	if (threadIdx.x == 0 && atomicAdd(&s.words[DONE], count) + count == words[END]) {
		int tail = words[TAIL];

		if (tail == words[END])
			words[FINISHED] = 1;
		__threadfence();
		words[END] = tail;
	}
}

/* The block has tickets for `at` to `stop`. */
static __device__ void work(DeviceLoop *loop, search s, int at, int stop)
{
	if (at == stop) {
		at = take_tickets(&s.words[TAKEN], blockDim.x);
		stop = at + blockDim.x;
	}
	int end = end_behind(s, at);
	if (end < 0)
		return;
	if (!end) {
		loop->timer(WAIT_NS, [=](DeviceLoop *loop) { work(loop, s, at, stop); });
		return;
	}
	end = end < stop ? end : stop;
	visit(s, at, end);
	loop->postTask([=](DeviceLoop *loop) { work(loop, s, end, stop); });
}

extern "C" __global__ void bfs(
	gloop_grid grid, const int *first, const int *edges, int *distance, int *queue, int *words)
{
	search s = {first, edges, distance, queue, words};

	gloop::run(grid, [=](DeviceLoop *loop) { work(loop, s, 0, 0); });
}

extern "C" __global__ void bfs_plain(
	const int *first, const int *edges, int *distance, int *queue, int *words)
{
	search s = {first, edges, distance, queue, words};

	for (int at = 0, stop = 0;;) {
		if (at == stop) {
			at = take_tickets(&s.words[TAKEN], blockDim.x);
			stop = at + blockDim.x;
		}
		int end = end_behind(s, at);
		if (end < 0)
			return;
		if (!end)
			continue;
		end = end < stop ? end : stop;
		visit(s, at, end);
		at = end;
	}
}
