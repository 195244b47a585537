/* SPDX-License-Identifier: MIT
 *
 * Which image of several files is the first that is like each of many, after the image search of GPUfs. The images that are
 * looked for are shared out among the blocks. A block opens the files by their names, and reads them a page at a time until it
 * has found one; its threads compare an image each. The plain kernel polls.
 */
#include "gloop/images.h"
#include "gloop/polling.h"

using gloop::DeviceLoop;

enum { QUERIES, RESULT }; /* descriptors */

struct query {
	unsigned char *page;  /* the block's own, of page_bytes(), */
	unsigned char *image; /* that it looks for, */
	int *found;           /* and the first one that is like it, or INT_MAX */
	const name *names;
	unsigned count; /* of queries */
	int fd[DATABASES];
};

enum { NONE = 0x7fffffff };

static __device__ void compare(const query &q, int first, unsigned bytes)
{
	const unsigned char *image = gloop::global(q.image), *page = gloop::global(q.page);

	__syncthreads();
	if (threadIdx.x == 0)
		*q.found = NONE;
	__syncthreads();
	for (unsigned i = threadIdx.x; i < bytes / IMAGE_BYTES; i += blockDim.x) {
		int sum = 0;

		for (unsigned k = 0; k < IMAGE_BYTES && sum < ALIKE; k++) {
			int difference = page[i * IMAGE_BYTES + k] - image[k];

			sum += difference * difference;
		}
		if (sum < ALIKE)
			atomicMin(q.found, first + (int)i);
	}
	__syncthreads();
}

static __device__ void look_for(DeviceLoop *loop, query q, unsigned which);

/* On the page at `at` of database d, `before` images of others before it. */
static __device__ void scan(
	DeviceLoop *loop, query q, unsigned which, int d, gloop_u64 at, int before)
{
	gloop::fs::read(loop, q.fd[d], at, loop->page_bytes(), q.page,
		[=](DeviceLoop *loop, long long got) {
			int first = before + (int)(at / IMAGE_BYTES);

			if (got <= 0 && d + 1 < DATABASES) {
				scan(loop, q, which, d + 1, 0, first);
				return;
			}
			compare(q, first, got > 0 ? (unsigned)got : 0);
			if (got > 0 && *q.found == NONE) {
				scan(loop, q, which, d, at + (gloop_u64)got, before);
				return;
			}
			gloop::fs::write(loop, RESULT, which * sizeof(int), sizeof(int), q.found,
				[=](DeviceLoop *loop, long long) {
					look_for(loop, q, which + gridDim.x);
				});
		});
}

static __device__ void look_for(DeviceLoop *loop, query q, unsigned which)
{
	if (which >= q.count) {
		for (int d = 0; d < DATABASES; d++)
			gloop::fs::close(loop, q.fd[d], [](DeviceLoop *, long long) {});
		return;
	}
	gloop::fs::read(loop, QUERIES, (gloop_u64)which * IMAGE_BYTES, IMAGE_BYTES, q.image,
		[=](DeviceLoop *loop, long long) { scan(loop, q, which, 0, 0, 0); });
}

static __device__ void open_from(DeviceLoop *loop, query q, int d)
{
	if (d == DATABASES) {
		look_for(loop, q, blockIdx.x);
		return;
	}
	gloop::fs::open(loop, q.names[d].text, q.names[d].length, GLOOP_FOR_READING,
		[=](DeviceLoop *loop, long long fd) {
			query with = q;

			with.fd[d] = (int)fd;
			if (fd >= 0)
				open_from(loop, with, d + 1);
		});
}

/* memory: of each block, a page and an image. */
static __device__ query query_of(
	unsigned char *memory, gloop_u64 page_bytes, int *found, const name *names, unsigned count)
{
	unsigned char *mine = memory + blockIdx.x * (page_bytes + IMAGE_BYTES);

	return {mine, mine + page_bytes, found + blockIdx.x, names, count, {}};
}

extern "C" __global__ void images(gloop_grid grid, unsigned char *memory, int *found,
	const struct name *names, unsigned count)
{
	gloop::run(grid, [=](DeviceLoop *loop) {
		open_from(loop, query_of(memory, loop->page_bytes(), found, names, count), 0);
	});
}

extern "C" __global__ void images_plain(gloop_grid grid, unsigned char *memory, int *found,
	const struct name *names, unsigned count)
{
	Polling host(grid);
	query q = query_of(memory, grid.page_bytes, found, names, count);

	for (int d = 0; d < DATABASES; d++)
		q.fd[d] = (int)host.ask(
			GLOOP_OPEN, -1, 0, names[d].length, GLOOP_FOR_READING, names[d].text, 0);
	for (unsigned which = blockIdx.x; which < count; which += gridDim.x) {
		int before = 0;

		host.read(QUERIES, (gloop_u64)which * IMAGE_BYTES, IMAGE_BYTES, q.image);
		compare(q, 0, 0);
		for (int d = 0; d < DATABASES && *q.found == NONE; d++) {
			gloop_u64 at = 0;
			long long got;

			while (*q.found == NONE &&
				(got = host.read(q.fd[d], at, grid.page_bytes, q.page)) > 0) {
				compare(q, before + (int)(at / IMAGE_BYTES), (unsigned)got);
				at += (gloop_u64)got;
			}
			before += (int)(at / IMAGE_BYTES);
		}
		host.write(RESULT, which * sizeof(int), sizeof(int), q.found);
	}
	for (int d = 0; d < DATABASES; d++)
		host.close(q.fd[d]);
	host.end();
}
