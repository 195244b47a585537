/* SPDX-License-Identifier: MIT
 *
 * Multiplies matrices that come over TCP: each block accepts a connection and answers what comes there. The plain
 * kernel polls.
 */
#include "gloop/polling.h"
#include "gloop/server.h"

using gloop::DeviceLoop;

enum { LISTENER }; /* descriptors */

static __device__ void multiply(const int *in, int *out)
{
	for (unsigned at = threadIdx.x; at < MATRIX; at += blockDim.x) {
		const int *row = in + at / N * N, *column = in + MATRIX + at % N;
		int sum = 0;

		for (unsigned k = 0; k < N; k++)
			sum += row[k] * column[k * N];
		out[at] = sum;
	}
}

static __device__ void receive_from(DeviceLoop *loop, int fd, int *in, unsigned have);

static __device__ void send_from(DeviceLoop *loop, int fd, int *in, unsigned sent)
{
	const char *answer = (const char *)(in + 2 * MATRIX);

	if (sent == ANSWER_BYTES) {
		receive_from(loop, fd, in, 0);
		return;
	}
	gloop::net::send(loop, fd, ANSWER_BYTES - sent, answer + sent,
		[=](DeviceLoop *loop, long long result) {
			if (result > 0)
				send_from(loop, fd, in, sent + (unsigned)result);
		});
}

static __device__ void receive_from(DeviceLoop *loop, int fd, int *in, unsigned have)
{
	if (have == REQUEST_BYTES) {
		multiply(in, in + 2 * MATRIX);
		send_from(loop, fd, in, 0);
		return;
	}
	gloop::net::receive(loop, fd, REQUEST_BYTES - have, (char *)in + have,
		[=](DeviceLoop *loop, long long got) {
			if (got > 0)
				receive_from(loop, fd, in, have + (unsigned)got);
			else
				gloop::net::close(loop, fd, [](DeviceLoop *, long long) {});
		});
}

/* matrices: three a block. */
extern "C" __global__ void server(gloop_grid grid, int *matrices)
{
	gloop::run(grid, [=](DeviceLoop *loop) {
		gloop::net::accept(loop, LISTENER, [=](DeviceLoop *loop, long long fd) {
			if (fd >= 0)
				receive_from(loop, (int)fd, matrices + blockIdx.x * 3 * MATRIX, 0);
		});
	});
}

extern "C" __global__ void server_plain(gloop_grid grid, int *matrices)
{
	Polling host(grid);
	int *in = matrices + blockIdx.x * 3 * MATRIX;
	int fd = (int)host.accept(LISTENER);

	while (fd >= 0 && host.receive(fd, REQUEST_BYTES, (char *)in)) {
		multiply(in, in + 2 * MATRIX);
		if (!host.send(fd, ANSWER_BYTES, (const char *)(in + 2 * MATRIX)))
			break;
	}
	host.close(fd);
	host.end();
}
