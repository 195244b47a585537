/* SPDX-License-Identifier: MIT
 *
 * Copies a file: each block moves pages from the one to the other, several at once.
 */
#include "common/device.h"

#include <gdev/gloop.cuh>

#include "gloop/copy.h"

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

/* With PLAIN the host copies, through the device; nothing is computed there. */
extern "C" __global__ void nothing()
{
}
