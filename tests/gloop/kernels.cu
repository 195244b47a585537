/* SPDX-License-Identifier: MIT
 *
 * Kernels of the tests of GLoop. What they saw is in device memory, for test_gloop.c to look at.
 */
#include "common/device.h"

#include <gdev/gloop.cuh>

using gloop::DeviceLoop;

static __device__ __forceinline__ bool leads()
{
	return threadIdx.x == 0;
}

/* ---- tasks ---- */

static __device__ void step(DeviceLoop *loop, unsigned *counts, unsigned left)
{
	if (!left)
		return;
	counts[blockIdx.x * blockDim.x + threadIdx.x]++;
	loop->postTask([=](DeviceLoop *loop) { step(loop, counts, left - 1); });
}

/* Each thread counts to `steps`, a callback each. */
extern "C" __global__ void count(gloop_grid grid, unsigned *counts, unsigned steps)
{
	gloop::run(grid, [=](DeviceLoop *loop) { step(loop, counts, steps); });
}

static __device__ void step_by_address(DeviceLoop *loop, unsigned *counts, unsigned left);

/* Of the kernel's own code. */
struct own_step {
	unsigned *counts;
	unsigned left;

	__device__ void operator()(DeviceLoop *loop) const
	{
		if (!left)
			return;
		counts[blockIdx.x * blockDim.x + threadIdx.x]++;
		if (left % 3)
			loop->postTask(own_step{counts, left - 1});
		else
			step_by_address(loop, counts, left - 1);
	}
};

static __device__ void step_by_address(DeviceLoop *loop, unsigned *counts, unsigned left)
{
	loop->postTask([=](DeviceLoop *loop) { own_step{counts, left}(loop); });
}

/* As count; two of three callbacks are not called by address. */
extern "C" __global__ void count_in_own_code(gloop_grid grid, unsigned *counts, unsigned steps)
{
	gloop::run<own_step>(grid, [=](DeviceLoop *loop) { own_step{counts, steps}(loop); });
}

/* As much as a callback may capture. */
struct much {
	unsigned long long words[GLOOP_CAPTURE_BYTES / 8 - 1];
};

static __device__ void carry(DeviceLoop *loop, much m, unsigned long long *words)
{
	if (m.words[0] == 100) {
		for (unsigned i = threadIdx.x; i < sizeof(m) / 8; i += blockDim.x)
			words[i] = m.words[i];
		return;
	}
	for (unsigned i = 0; i < sizeof(m) / 8; i++)
		m.words[i] += i + 1;
	loop->postTask([=](DeviceLoop *loop) { carry(loop, m, words); });
}

/* Each callback adds 1, 2, 3 and so on to what it got, a hundred times. */
extern "C" __global__ void carry_much(gloop_grid grid, unsigned long long *words)
{
	gloop::run(grid, [=](DeviceLoop *loop) { carry(loop, {}, words); });
}

/* `chains` of callbacks at once, each adding its own number to the block's sum; the block's free slots behind them. */
static __device__ void link_of(DeviceLoop *loop, unsigned *sum, unsigned chain, unsigned left)
{
	if (leads())
		*sum += chain;
	if (left)
		loop->postTask([=](DeviceLoop *loop) { link_of(loop, sum, chain, left - 1); });
}

extern "C" __global__ void chains(gloop_grid grid, unsigned *sums, unsigned count, unsigned steps)
{
	gloop::run(grid, [=](DeviceLoop *loop) {
		unsigned *sum = sums + 2 * blockIdx.x;

		for (unsigned i = 0; i < count; i++)
			loop->postTask([=](DeviceLoop *loop) { link_of(loop, sum, i, steps - 1); });
		unsigned free = loop->free_slots();
		if (leads())
			sum[1] = free;
	});
}

extern "C" __global__ void nothing(gloop_grid)
{
}

static __device__ void turn(DeviceLoop *loop, volatile unsigned *words, unsigned rounds)
{
	__shared__ unsigned stopped;

	__syncthreads();
	if (leads()) {
		unsigned x = blockIdx.x;

#pragma unroll 1
		for (unsigned i = 0; i < rounds; i++)
			x = x * 1664525u + 1013904223u;
		words[1] += 1 + (x == 42); /* used, or there would be no loop */
		stopped = words[0];
	}
	__syncthreads();
	if (!stopped)
		loop->postTask([=](DeviceLoop *loop) { turn(loop, words, rounds); });
}

/* Callbacks without end, until words[0] is set; words[1] counts them, roughly. */
extern "C" __global__ void endless(gloop_grid grid, unsigned *words, unsigned rounds)
{
	gloop::run(grid, [=](DeviceLoop *loop) { turn(loop, words, rounds); });
}

/* ---- files ---- */

struct reading {
	int fd;
	gloop_u64 size;
	unsigned char *scratch;
	unsigned long long *sum;
};

static __device__ void read_on(DeviceLoop *loop, reading r, gloop_u64 at)
{
	if (at >= r.size) {
		gloop::fs::close(loop, r.fd, [=](DeviceLoop *, long long error) {
			if (leads())
				r.sum[1] = (unsigned long long)error;
		});
		return;
	}
	gloop::fs::read(loop, r.fd, at, loop->page_bytes(), r.scratch,
		[=](DeviceLoop *loop, long long got) {
			if (leads())
				for (long long i = 0; i < got; i++)
					r.sum[0] += r.scratch[i] * ((at + (gloop_u64)i) % 251 + 1);
			read_on(loop, r, at + loop->page_bytes() * gridDim.x);
		});
}

/* The blocks read a file in turns; the sum of its bytes, each times its place. As the paper's Figure 1. */
extern "C" __global__ void sum_file(gloop_grid grid, const char *path, unsigned length,
	unsigned char *scratch, unsigned long long *sums)
{
	gloop::run(grid, [=](DeviceLoop *loop) {
		gloop_u64 page = loop->page_bytes();
		unsigned long long *sum = sums + 2 * blockIdx.x;

		gloop::fs::open(
			loop, path, length, GLOOP_FOR_READING, [=](DeviceLoop *loop, long long fd) {
				if (fd < 0) {
					if (leads())
						sum[1] = (unsigned long long)fd;
					return;
				}
				gloop::fs::fstat(
					loop, (int)fd, [=](DeviceLoop *loop, long long size) {
						reading r = {(int)fd, (gloop_u64)size,
							scratch + blockIdx.x * page, sum};

						read_on(loop, r, blockIdx.x * page);
					});
			});
	});
}

/* A block: makes a file, writes it, cuts it, reads it back. results: of each call in turn. */
extern "C" __global__ void write_file(gloop_grid grid, const char *path, unsigned length,
	const char *text, unsigned bytes, char *back, long long *results)
{
	gloop::run(grid, [=](DeviceLoop *loop) {
		gloop::fs::open(loop, path, length,
			GLOOP_FOR_READING | GLOOP_FOR_WRITING | GLOOP_CREATE | GLOOP_EMPTY,
			[=](DeviceLoop *loop, long long fd) {
				results[0] = fd;
				gloop::fs::write(loop, (int)fd, 3, bytes, text, [=](DeviceLoop *loop, long long result) {
					results[1] = result;
					gloop::fs::ftruncate(loop, (int)fd, 3 + bytes / 2,
						[=](DeviceLoop *loop, long long result) {
							results[2] = result;
							gloop::fs::read(loop, (int)fd, 3, bytes,
								back,
								[=](DeviceLoop *loop,
									long long result) {
									results[3] = result;
									gloop::fs::fstat(loop,
										(int)fd,
										[=](DeviceLoop *,
											long long
												result) {
											results[4] =
												result;
										});
								});
						});
				});
			});
	});
}

/* A block writes `count` pieces of the text to descriptor 0 at once, and reads each back. */
extern "C" __global__ void many(
	gloop_grid grid, const char *text, char *back, unsigned count, unsigned bytes)
{
	gloop::run(grid, [=](DeviceLoop *loop) {
		for (unsigned i = 0; i < count; i++) {
			gloop_u64 at = (gloop_u64)(blockIdx.x * count + i) * bytes;

			gloop::fs::write(
				loop, 0, at, bytes, text + at, [=](DeviceLoop *loop, long long) {
					gloop::fs::read(loop, 0, at, bytes, back + at,
						[](DeviceLoop *, long long) {});
				});
		}
	});
}

/* A block writes `count` pieces of the text to descriptor 0 at once. filled: how many requests the blocks saw, at the ends of
 * writes, whose pages they had filled themselves. */
extern "C" __global__ void write_many(
	gloop_grid grid, const char *text, int *filled, unsigned count, unsigned bytes)
{
	gloop::run(grid, [=](DeviceLoop *loop) {
		volatile gloop_rpc *rpcs = grid.rpcs + blockIdx.x * GLOOP_SLOTS;

		for (unsigned i = 0; i < count; i++) {
			gloop_u64 at = (gloop_u64)(blockIdx.x * count + i) * bytes;

			gloop::fs::write(
				loop, 0, at, bytes, text + at, [=](DeviceLoop *, long long) {
					for (unsigned slot = 0; leads() && slot < count; slot++)
						if (rpcs[slot].filled)
							atomicAdd(filled, 1);
				});
		}
	});
}

static __device__ void read_again(DeviceLoop *loop, char *to, unsigned *counts, unsigned most)
{
	gloop::fs::read(loop, 0, 0, 64, to, [=](DeviceLoop *loop, long long) {
		__syncthreads();
		bool over = counts[1] || counts[0] == most;

		__syncthreads();
		if (leads())
			counts[0]++;
		if (!over)
			read_again(loop, to, counts, most);
	});
}

/* Reads again and again, until another read that was asked for beside the first has its turn. counts: of the reads of both. */
extern "C" __global__ void read_beside(
	gloop_grid grid, char *scratch, unsigned *counts, unsigned most)
{
	gloop::run(grid, [=](DeviceLoop *loop) {
		char *mine = scratch + 128 * blockIdx.x;
		unsigned *count = counts + 2 * blockIdx.x;

		read_again(loop, mine, count, most);
		gloop::fs::read(loop, 0, 0, 64, mine + 64, [=](DeviceLoop *, long long) {
			if (leads())
				count[1]++;
		});
	});
}

static __device__ void work_on(DeviceLoop *loop, volatile unsigned *words, unsigned most = ~0u)
{
	__shared__ unsigned over;

	__syncthreads();
	if (leads()) {
		words[1]++;
		over = words[0] || words[1] == most;
	}
	__syncthreads();
	if (!over)
		loop->postTask([=](DeviceLoop *loop) { work_on(loop, words, most); });
}

static __device__ void read_often(
	DeviceLoop *loop, char *to, volatile unsigned *words, unsigned left)
{
	gloop::fs::read(loop, 0, 0, 64, to, [=](DeviceLoop *loop, long long got) {
		if (left > 1)
			read_often(loop, to, words, left - 1);
		else if (leads())
			words[0] = (unsigned)got;
	});
}

/* Callbacks of the first block without end, words[1] of them, until the last one has read a page so often meanwhile. */
extern "C" __global__ void read_meanwhile(
	gloop_grid grid, char *to, unsigned *words, unsigned reads)
{
	gloop::run(grid, [=](DeviceLoop *loop) {
		if (blockIdx.x == gridDim.x - 1)
			read_often(loop, to, words, reads);
		if (blockIdx.x == 0)
			work_on(loop, words);
	});
}

static __device__ void write_often(DeviceLoop *loop, const char *from, unsigned bytes,
	const volatile gloop_line *line, volatile unsigned *words, unsigned left)
{
	gloop::fs::write(loop, 0, 0, bytes, from, [=](DeviceLoop *loop, long long written) {
		if (left > 1) {
			write_often(loop, from, bytes, line, words, left - 1);
		} else if (leads()) {
			words[2] = (unsigned)line->posted;
			words[0] = (unsigned)written;
		}
	});
}

/* Likewise, until a page has been written so often. words[2]: how often the block has asked for that. */
extern "C" __global__ void write_meanwhile(
	gloop_grid grid, const char *from, unsigned bytes, unsigned *words, unsigned writes)
{
	gloop::run(grid, [=](DeviceLoop *loop) {
		write_often(loop, from, bytes, grid.lines, words, writes);
		work_on(loop, words);
	});
}

/* The first block maps descriptor 0, from 7 on, and adds all up, a part in each thread; then what makes no sense. results: the sum;
 * whether it was mapped; and of each call that makes no sense. */
extern "C" __global__ void map_file(
	gloop_grid grid, unsigned long long bytes, unsigned long long *sum, long long *results)
{
	gloop::run(grid, [=](DeviceLoop *loop) {
		if (blockIdx.x)
			return;
		gloop::fs::map(loop, 0, 7, bytes, [=](DeviceLoop *loop, long long at) {
			const unsigned char *mapped = (const unsigned char *)at;

			results[0] = at > 0;
			for (unsigned long long i = threadIdx.x; at > 0 && i < bytes;
				i += blockDim.x)
				atomicAdd((int *)sum, mapped[i]);
			gloop::fs::unmap(loop, mapped, [=](DeviceLoop *loop, long long result) {
				results[1] = result;
				gloop::fs::unmap(loop, mapped, [=](DeviceLoop *, long long result) {
					results[2] = result;
				});
				gloop::fs::map(
					loop, 0, 1 << 30, 1, [=](DeviceLoop *, long long result) {
						results[3] = result;
					});
				gloop::fs::map(loop, 5, 0, 1, [=](DeviceLoop *, long long result) {
					results[4] = result;
				});
				gloop::fs::map(loop, 0, 0, ~0ull, /* and leaves it */
					[=](DeviceLoop *, long long result) {
						results[5] = result > 0;
					});
			});
		});
	});
}

/* ---- memory ---- */

/* A block has its `bytes` copied to `between`, and from there. results: of each copy in turn. */
extern "C" __global__ void carry(gloop_grid grid, const char *from, char *between, char *to,
	unsigned long long bytes, long long *results)
{
	gloop::run(grid, [=](DeviceLoop *loop) {
		unsigned long long at = blockIdx.x * bytes;

		gloop::memcpy(loop, between + at, from + at, bytes,
			[=](DeviceLoop *loop, long long done) {
				results[2 * blockIdx.x] = done;
				gloop::memcpy(loop, to + at, between + at, bytes,
					[=](DeviceLoop *, long long done) {
						results[2 * blockIdx.x + 1] = done;
					});
			});
	});
}

/* ---- time ---- */

static __device__ __forceinline__ unsigned long long now_ns()
{
	unsigned long long ns;

	asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(ns));
	return ns;
}

/* times: between asking for `ns` and the callback. */
extern "C" __global__ void sleep_for(
	gloop_grid grid, unsigned long long *times, unsigned long long ns)
{
	gloop::run(grid, [=](DeviceLoop *loop) {
		times[blockIdx.x] = now_ns();
		loop->timer(ns, [=](DeviceLoop *) {
			if (leads())
				times[blockIdx.x] = now_ns() - times[blockIdx.x];
		});
	});
}

static __device__ void hop(
	DeviceLoop *loop, unsigned *sums, unsigned long long ns, unsigned left, unsigned sum)
{
	sums[blockIdx.x * blockDim.x + threadIdx.x] += sum;
	if (left)
		loop->timer(
			ns, [=](DeviceLoop *loop) { hop(loop, sums, ns, left - 1, sum + left); });
}

/* Waits `hops` times. sums: of what the callbacks have handed on. */
extern "C" __global__ void hops(
	gloop_grid grid, unsigned *sums, unsigned long long ns, unsigned hops)
{
	gloop::run(grid, [=](DeviceLoop *loop) { hop(loop, sums, ns, hops, 1); });
}

/* ---- sockets ---- */

static __device__ void echo_on(DeviceLoop *loop, int fd, char *scratch, unsigned *bytes)
{
	gloop::net::receive(loop, fd, 4096, scratch, [=](DeviceLoop *loop, long long got) {
		if (got <= 0) {
			gloop::net::close(loop, fd, [](DeviceLoop *, long long) {});
			return;
		}
		if (leads())
			*bytes += (unsigned)got;
		gloop::net::send(loop, fd, (gloop_u64)got, scratch,
			[=](DeviceLoop *loop, long long) { echo_on(loop, fd, scratch, bytes); });
	});
}

static __device__ void accept_on(
	DeviceLoop *loop, int listener, char *scratch, unsigned *bytes, unsigned left)
{
	if (!left)
		return;
	gloop::net::accept(loop, listener, [=](DeviceLoop *loop, long long fd) {
		if (fd < 0)
			return;
		accept_on(loop, listener, scratch, bytes, left - 1);
		echo_on(loop, (int)fd, scratch + (left - 1) * 4096, bytes);
	});
}

/* Descriptor 0 listens. Each block serves `connections`, all at once. */
extern "C" __global__ void echo(
	gloop_grid grid, char *scratch, unsigned *bytes, unsigned connections)
{
	gloop::run(grid, [=](DeviceLoop *loop) {
		accept_on(loop, 0, scratch + blockIdx.x * connections * 4096, bytes + blockIdx.x,
			connections);
	});
}

/* Each block waits for `count` connections at once, and closes them. Descriptors 0 to 2 listen; the third is closed while it is
 * waited for. accepted: of each block. */
extern "C" __global__ void accept_many(gloop_grid grid, unsigned *accepted, unsigned count)
{
	gloop::run(grid, [=](DeviceLoop *loop) {
		for (unsigned i = 0; i < count; i++)
			gloop::net::accept(
				loop, i ? (int)(i % 2) : 2, [=](DeviceLoop *loop, long long fd) {
					if (fd < 0)
						return;
					gloop::net::close(
						loop, (int)fd, [=](DeviceLoop *, long long) {
							if (leads())
								accepted[blockIdx.x]++;
						});
				});
		if (!blockIdx.x)
			loop->timer(20 * 1000 * 1000, [](DeviceLoop *loop) {
				gloop::net::close(loop, 2, [](DeviceLoop *, long long) {});
			});
	});
}

/* Block 0 waits twice for what comes from descriptor 0, and sends four bytes that the other side waits for. results: the bytes that
 * came, and that were sent. */
extern "C" __global__ void receive_and_send(gloop_grid grid, char *scratch, long long *results)
{
	gloop::run(grid, [=](DeviceLoop *loop) {
		if (blockIdx.x)
			return;
		for (unsigned i = 0; i < 2; i++)
			gloop::net::receive(
				loop, 0, 64, scratch + 64 * i, [=](DeviceLoop *, long long got) {
					if (leads())
						results[0] += got;
				});
		gloop::net::send(loop, 0, 4, scratch + 128,
			[=](DeviceLoop *, long long sent) { results[1] = sent; });
	});
}

/* Callbacks without end, words[1] of them and `most` at most, until the block has received what it sends after `ns`; words[0] is set
 * then. What it sends to descriptor 1 comes from 0. */
extern "C" __global__ void hear_meanwhile(
	gloop_grid grid, char *scratch, unsigned *words, unsigned long long ns, unsigned most)
{
	gloop::run(grid, [=](DeviceLoop *loop) {
		gloop::net::receive(loop, 0, 4, scratch, [=](DeviceLoop *, long long got) {
			if (leads())
				words[0] = (unsigned)got;
		});
		loop->timer(ns, [=](DeviceLoop *loop) {
			gloop::net::send(loop, 1, 4, scratch + 4, [](DeviceLoop *, long long) {});
		});
		work_on(loop, words, most);
	});
}

/* Block 0 listens at `port` and answers "pong" to what comes first; block 1 asks it. results: each call's. */
extern "C" __global__ void ping(
	gloop_grid grid, unsigned short port, char *scratch, long long *results)
{
	gloop::run(grid, [=](DeviceLoop *loop) {
		char *mine = scratch + blockIdx.x * 64;

		if (blockIdx.x == 1) {
			loop->timer(20 * 1000 * 1000, [=](DeviceLoop *loop) {
				gloop::net::connect(loop, 0x7f000001, port,
					[=](DeviceLoop *loop, long long fd) {
						results[4] = fd < 0 ? fd : 0;
						gloop::net::send(loop, (int)fd, 4, mine,
							[=](DeviceLoop *loop, long long result) {
								results[5] = result;
								gloop::net::receive(loop, (int)fd,
									64, mine,
									[=](DeviceLoop *,
										long long result) {
										results[6] = result;
									});
							});
					});
			});
			return;
		}
		gloop::net::bind(loop, 0x7f000001, port, [=](DeviceLoop *loop, long long listener) {
			results[0] = listener < 0 ? listener : 0;
			gloop::net::accept(
				loop, (int)listener, [=](DeviceLoop *loop, long long fd) {
					results[1] = fd < 0 ? fd : 0;
					gloop::net::receive(loop, (int)fd, 64, mine + 32,
						[=](DeviceLoop *loop, long long result) {
							results[2] = result;
							gloop::net::send(loop, (int)fd, 4, mine,
								[=](DeviceLoop *,
									long long result) {
									results[3] = result;
								});
						});
				});
		});
	});
}

/* ---- what no honest kernel does ---- */

static __device__ void open_again(
	DeviceLoop *loop, const char *path, unsigned length, long long *counts, unsigned left)
{
	gloop::fs::open(loop, path, length, GLOOP_FOR_READING, [=](DeviceLoop *loop, long long fd) {
		__syncthreads();
		if (leads())
			counts[fd < 0] = fd < 0 ? fd : counts[0] + 1;
		if (fd >= 0 && left > 1)
			open_again(loop, path, length, counts, left - 1);
	});
}

/* Opens a file again and again, and never closes it. counts: how often it could; why it could not. */
extern "C" __global__ void open_on(
	gloop_grid grid, const char *path, unsigned length, long long *counts, unsigned most)
{
	gloop::run(grid, [=](DeviceLoop *loop) { open_again(loop, path, length, counts, most); });
}

/* Asks for 60 reads of descriptor 0, and closes it at once. counts: of reads, and of those that found it closed; what a read behind
 * that gets. */
extern "C" __global__ void close_under(gloop_grid grid, char *memory, long long *counts)
{
	gloop::run(grid, [=](DeviceLoop *loop) {
		for (unsigned i = 0; i < 60; i++)
			gloop::fs::read(loop, 0, 64 * i, 64, memory + 64 * i,
				[=](DeviceLoop *, long long got) {
					if (leads() && (got == 64 || got < 0))
						counts[got < 0]++;
				});
		gloop::fs::close(loop, 0, [=](DeviceLoop *loop, long long) {
			gloop::fs::read(loop, 0, 0, 64, memory,
				[=](DeviceLoop *, long long got) { counts[2] = got; });
		});
	});
}

/* Asks for `op` with these words, whatever they are. */
extern "C" __global__ void ask(
	gloop_grid grid, const gloop_rpc *wanted, const char *page, long long *result)
{
	gloop::run(grid, [=](DeviceLoop *loop) {
		loop->request(wanted->op, wanted->fd, wanted->offset, wanted->bytes, wanted->flags,
			page, (void *)0, [=](DeviceLoop *, long long answer) { *result = answer; });
	});
}

/* Asks for `wanted` in the last slot, past gloop::run() and its checks, and leaves as if it had ended
 * when it has an answer. */
extern "C" __global__ void forge(gloop_grid grid, const gloop_rpc *wanted)
{
	volatile gloop_rpc *rpc = &grid.rpcs[GLOOP_SLOTS - 1];
	volatile gloop_line *line = grid.lines;

	if (!leads())
		return;
	rpc->op = wanted->op;
	rpc->fd = wanted->fd;
	rpc->offset = wanted->offset;
	rpc->bytes = wanted->bytes;
	rpc->flags = wanted->flags;
	rpc->destination = wanted->destination;
	rpc->source = wanted->source;
	rpc->filled = !wanted->source;
	rpc->page = wanted->page;
	rpc->posted = 1;
	line->posted = 1;
	line->left = line->done ? GLOOP_ENDED : GLOOP_WAITS;
}

/* Fills the areas with numbers, past gloop::run(), and leaves as if it had ended: `left` of each block's line. */
extern "C" __global__ void scribble(gloop_grid grid, unsigned seed, unsigned left)
{
	gloop_u64 words = sizeof(gloop_rpc) * GLOOP_SLOTS / 8;
	volatile gloop_u64 *areas = (volatile gloop_u64 *)(grid.rpcs + blockIdx.x * GLOOP_SLOTS);
	gloop_u64 x = seed + blockIdx.x;

	for (gloop_u64 round = 0; round < 16 && leads(); round++) {
		for (gloop_u64 i = 0; i < words; i++) {
			x = x * 6364136223846793005ull + 1442695040888963407ull;
			areas[i] = x >> 33 & 1 ? x >> 60 : x;
		}
		for (gloop_u64 i = 0; i < sizeof(gloop_line) / 8; i++)
			((volatile gloop_u64 *)(grid.lines + blockIdx.x))[i] = x * i;
	}
	__syncthreads();
	if (leads())
		((volatile gloop_line *)grid.lines)[blockIdx.x].left = left;
}
