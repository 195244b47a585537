/* SPDX-License-Identifier: MIT
 *
 * Copies a file: each block moves pages from the one to the other; with event loops several at once. The plain kernel polls.
 */
#include "gloop/copy.h"
#include "gloop/polling.h"

using gloop::DeviceLoop;

enum { SOURCE, DESTINATION }; /* descriptors */

static __device__ void copy_from(DeviceLoop *loop, gloop_u64 at, char *page)
{
	gloop::fs::read(
		loop, SOURCE, at, loop->page_bytes(), page, [=](DeviceLoop *loop, long long got) {
			if (got <= 0)
				return;
			gloop::fs::write(loop, DESTINATION, at, (gloop_u64)got, page,
				[=](DeviceLoop *loop, long long) {
					copy_from(loop,
						at + loop->page_bytes() * gridDim.x * AT_ONCE,
						page);
				});
		});
}

extern "C" __global__ void copy(gloop_grid grid, char *pages)
{
	gloop::run(grid, [=](DeviceLoop *loop) {
		for (unsigned i = 0; i < AT_ONCE; i++) {
			gloop_u64 page = (blockIdx.x * AT_ONCE + i) * loop->page_bytes();

			copy_from(loop, page, pages + page);
		}
	});
}

extern "C" __global__ void copy_plain(gloop_grid grid, char *pages)
{
	Polling host(grid);
	gloop_u64 bytes = grid.page_bytes, at = blockIdx.x * bytes;
	char *page = pages + at;
	long long got;

	for (; (got = host.read(SOURCE, at, bytes, page)) > 0; at += gridDim.x * bytes)
		host.write(DESTINATION, at, (gloop_u64)got, page);
	host.end();
}
