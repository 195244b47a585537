/* SPDX-License-Identifier: MIT
 *
 * What kernels for GPUfs and GPUnet do, for comparison: a block asks the host, and keeps the device until it has the answer. It
 * is launched by gloop_run() in polling mode, and asks by the same words as an event loop (gdev/gloop_rpc.h).
 */
#ifndef EXAMPLES_GLOOP_POLLING_H
#define EXAMPLES_GLOOP_POLLING_H

#include "common/device.h"

#include <gdev/gloop.cuh>

/* All threads of the block have one, and make all calls together, with the same arguments. */
class Polling
{
      public:
	__device__ Polling(const gloop_grid &grid)
	    : rpc(grid.rpcs + blockIdx.x * GLOOP_SLOTS), line(grid.lines + blockIdx.x),
	      page(grid.pages + blockIdx.x * grid.page_count * grid.page_bytes),
	      page_bytes(grid.page_bytes), asked(0)
	{
	}

	/* As DeviceLoop::request(): the result. */
	__device__ long long ask(gloop_u32 op, int fd, gloop_u64 offset, gloop_u64 bytes,
		gloop_u32 flags, const void *source, void *destination)
	{
		__shared__ long long result;
		__shared__ bool placed;

		bytes = bytes < page_bytes ? bytes : page_bytes;
		asked++;
		__syncthreads();
		if (source) {
			gloop::detail::copy(page, source, bytes);
			gloop::detail::fence();
			__syncthreads();
		}
		if (threadIdx.x == 0) {
			rpc->op = op;
			rpc->fd = fd;
			rpc->offset = offset;
			rpc->bytes = bytes;
			rpc->flags = flags;
			rpc->page = 0;
			rpc->destination = (gloop_u64)destination;
			rpc->source = 0;
			rpc->filled = 1;
			gloop::detail::fence();
			rpc->posted = asked;
			gloop::detail::fence();
			line->posted = asked;
			while (rpc->done != asked)
				asm volatile("nanosleep.u32 500;");
			gloop::detail::fence();
			result = rpc->result;
			placed = rpc->placed == GLOOP_PLACED;
		}
		__syncthreads();
		if (destination && !placed && result > 0)
			gloop::detail::copy(destination, page, (gloop_u64)result);
		__syncthreads();
		return result;
	}

	__device__ long long read(int fd, gloop_u64 offset, gloop_u64 bytes, void *to)
	{
		return ask(GLOOP_READ, fd, offset, bytes, 0, 0, to);
	}

	__device__ long long write(int fd, gloop_u64 offset, gloop_u64 bytes, const void *from)
	{
		return ask(GLOOP_WRITE, fd, offset, bytes, 0, from, 0);
	}

	__device__ long long accept(int fd)
	{
		return ask(GLOOP_ACCEPT, fd, 0, 0, 0, 0, 0);
	}

	/* All of it. False: the other side has ended the connection. */
	__device__ bool receive(int fd, unsigned bytes, char *to)
	{
		for (unsigned have = 0; have < bytes;) {
			long long got = ask(GLOOP_RECEIVE, fd, 0, bytes - have, 0, 0, to + have);

			if (got <= 0)
				return false;
			have += (unsigned)got;
		}
		return true;
	}

	__device__ bool send(int fd, unsigned bytes, const char *from)
	{
		for (unsigned sent = 0; sent < bytes;) {
			long long got = ask(GLOOP_SEND, fd, 0, bytes - sent, 0, from + sent, 0);

			if (got <= 0)
				return false;
			sent += (unsigned)got;
		}
		return true;
	}

	__device__ void close(int fd)
	{
		ask(GLOOP_CLOSE, fd, 0, 0, 0, 0, 0);
	}

	/* The last call of a kernel. */
	__device__ void end()
	{
		__syncthreads();
		if (threadIdx.x == 0)
			line->left = GLOOP_ENDED;
	}

      private:
	volatile gloop_rpc *rpc;
	volatile gloop_line *line;
	gloop_u8 *page;
	gloop_u64 page_bytes, asked;
};

#endif
