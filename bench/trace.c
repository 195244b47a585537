/* SPDX-License-Identifier: MIT
 *
 * What it costs to be traced: launches of an empty kernel while somebody traces this process; the baseline is the
 * same while nobody does, in turns.
 *   async_us    the caller's time, when it does not wait
 *   wait_us     launch, and wait until it is done
 *   per_second  launches one after another, until the last is done
 *   off_ns      the look that a call takes when nobody traces; the baseline is such a launch's async time
 */
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "device.h"
#include "gdev/session.h"
#include "proto/control.h"

#define REPETITIONS 41
#define LOOKS 1000000

/* Sessions are traced for as long as this connection is open. */
static int trace_on(void)
{
	const struct control_trace message = {
		.header = {sizeof(message), CONTROL_TRACE, CONTROL_VERSION, 1, 0}};
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);

	snprintf(address.sun_path, sizeof(address.sun_path), "%s/control.sock",
		getenv("GDEV_RUNTIME_DIR"));
	bench_require(connect(fd, (struct sockaddr *)&address, sizeof(address)) ||
			      send(fd, &message, sizeof(message), 0) != sizeof(message),
		"trace", "no gdevd in $GDEV_RUNTIME_DIR");
	while (!gdev_traced())
		usleep(100);
	return fd;
}

static void trace_off(int fd)
{
	close(fd);
	while (gdev_traced())
		usleep(100);
}

static double look_ns(void)
{
	uint64_t start = bench_now_ns();
	unsigned seen = 0;

	for (int i = 0; i < LOOKS; i++) {
		seen += gdev_traced();
		__asm__ volatile("" ::: "memory");
	}
	bench_require(seen != 0, "measure", "somebody else traces");
	return (double)(bench_now_ns() - start) / LOOKS;
}

int main(void)
{
	static struct samples async[2], wait[2], rate[2], look, launch_ns;
	CUfunction empty = open_device();

	wait_us(empty); /* the first launch compiles */
	for (int i = 0; i < 2 * REPETITIONS; i++) {
		int traced = i % 2, fd = traced ? trace_on() : -1;

		samples_add(&async[traced], async_us(empty));
		samples_add(&wait[traced], wait_us(empty));
		samples_add(&rate[traced], per_second(empty));
		if (traced) {
			trace_off(fd);
		} else {
			samples_add(&look, look_ns());
			samples_add(&launch_ns, async[0].values[async[0].count - 1] * 1e3);
		}
	}
	bench_report("trace", "async_us", "us", &async[1], &async[0]);
	bench_report("trace", "wait_us", "us", &wait[1], &wait[0]);
	bench_report("trace", "per_second", "1/s", &rate[1], &rate[0]);
	bench_report("trace", "off_ns", "ns", &look, &launch_ns);
	return 0;
}
