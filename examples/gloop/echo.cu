/* SPDX-License-Identifier: MIT
 *
 * Sends back what comes over TCP: each block accepts a connection. The plain kernel polls.
 */
#include "gloop/echo.h"
#include "gloop/polling.h"

using gloop::DeviceLoop;

enum { LISTENER }; /* descriptors */

static __device__ void echo_on(DeviceLoop *loop, int fd, char *message)
{
	gloop::net::receive(loop, fd, MESSAGE_MAX, message, [=](DeviceLoop *loop, long long got) {
		if (got <= 0) {
			gloop::net::close(loop, fd, [](DeviceLoop *, long long) {});
			return;
		}
		gloop::net::send(loop, fd, (gloop_u64)got, message,
			[=](DeviceLoop *loop, long long) { echo_on(loop, fd, message); });
	});
}

/* messages: one a block. */
extern "C" __global__ void echo(gloop_grid grid, char *messages)
{
	gloop::run(grid, [=](DeviceLoop *loop) {
		gloop::net::accept(loop, LISTENER, [=](DeviceLoop *loop, long long fd) {
			if (fd >= 0)
				echo_on(loop, (int)fd, messages + blockIdx.x * MESSAGE_MAX);
		});
	});
}

extern "C" __global__ void echo_plain(gloop_grid grid, char *messages)
{
	Polling host(grid);
	char *message = messages + blockIdx.x * MESSAGE_MAX;
	int fd = (int)host.accept(LISTENER);
	long long got;

	while (fd >= 0 && (got = host.ask(GLOOP_RECEIVE, fd, 0, MESSAGE_MAX, 0, 0, message)) > 0)
		if (!host.send(fd, (unsigned)got, message))
			break;
	host.close(fd);
	host.end();
}
