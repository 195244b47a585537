/* SPDX-License-Identifier: MIT
 *
 * C = A B by persistent threads: a ticket is a tile of C. With event loops a callback does one tile; the plain kernel keeps
 * the device until there is none left.
 */
#include "mmul/tiles.h"

#include "gloop/tickets.h"

using gloop::DeviceLoop;

struct product {
	float *c;
	const float *a, *b;
	int n;
	int *taken;
};

/* False: there are no more tiles. */
static __device__ bool do_a_tile(const product &p)
{
	__shared__ struct tiles tiles;
	int wide = p.n / TILE, tile = take_tickets(p.taken, 1);

	if (tile >= wide * wide)
		return false;
	multiply_tile(&tiles, p.c, p.a, p.b, p.n, p.n, tile % wide, tile / wide);
	return true;
}

static __device__ void work(DeviceLoop *loop, product p)
{
	if (do_a_tile(p))
		loop->postTask([=](DeviceLoop *loop) { work(loop, p); });
}

extern "C" __global__ void mmul(
	gloop_grid grid, float *c, const float *a, const float *b, int n, int *taken)
{
	product p = {c, a, b, n, taken};

	gloop::run(grid, [=](DeviceLoop *loop) { work(loop, p); });
}

extern "C" __global__ void mmul_plain(float *c, const float *a, const float *b, int n, int *taken)
{
	product p = {c, a, b, n, taken};

	while (do_a_tile(p))
		;
}
