/* SPDX-License-Identifier: MIT
 *
 * See control.h.
 */
#include "lib/ptask/control.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/paths.h"
#include "gdev/error.h"
#include "proto/check.h"

#define ANSWER_NS (10 * NS_PER_S)
#define OWNER_NS                                                                                   \
	(30 * NS_PER_S) /* an OPEN waits for a graph's owner, whose thread may be in a callback */

/* -EAGAIN: so many others stand in line there that it has not been its turn. */
static int connect_in(const char *directory, uint64_t until_ns)
{
	uint64_t now_ns = clock_now_ns(), left_us = 1; /* 0 would be no limit */
	struct timeval limit;
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	autoclose int fd = -1;

	if (snprintf(address.sun_path, sizeof address.sun_path, "%s/control.sock", directory) >=
		(int)sizeof address.sun_path)
		return -ENAMETOOLONG;
	if (until_ns > now_ns)
		left_us += (until_ns - now_ns) / NS_PER_US;
	limit = (struct timeval){(time_t)(left_us / 1000000), (suseconds_t)(left_us % 1000000)};
	fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
	if (fd < 0 || setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit) ||
		connect(fd, (struct sockaddr *)&address, sizeof address) ||
		fcntl(fd, F_SETFL, O_NONBLOCK))
		return -errno;
	return steal_fd(&fd);
}

/* The answer's status, or -errno. */
static int receive(int connection, struct control_graph *answer, int *got, uint64_t until_ns)
{
	size_t count = got ? 1 : 0;
	ssize_t length;
	int fd = -1;

	if (!fd_readable_by(connection, until_ns))
		return got ? -ETIMEDOUT : -GDEV_E_NO_DAEMON;
	length = fd_receive(connection, answer, sizeof *answer, &fd, &count);
	if (length <= 0)
		return -EAGAIN; /* it is gone, and the next one may come */
	if (control_check(answer, (size_t)length) || answer->header.type != CONTROL_GRAPH_REPLY ||
		answer->header.status > 0 || count != (got && !answer->header.status)) {
		fd_close_all(&fd, count);
		return -GDEV_E_PROTOCOL;
	}
	if (got)
		*got = fd;
	return answer->header.status;
}

static int ask_in(const char *directory, const struct control_graph *request,
	struct control_graph *answer, int *got, uint64_t until_ns)
{
	autoclose int connection = connect_in(directory, until_ns);
	int error;

	if (connection < 0) /* refused: one was there, and another may come */
		return connection == -ECONNREFUSED || connection == -EAGAIN ? -EAGAIN
									    : -GDEV_E_NO_DAEMON;
	error = fd_send(connection, request, sizeof *request, NULL, 0);
	if (error)
		return -EAGAIN;
	error = receive(connection, answer, got, until_ns);
	return error < 0 ? error : steal_fd(&connection);
}

/* Of one gdevd. */
static uint64_t answer_by(bool of_owner, uint64_t deadline_ns)
{
	uint64_t latest_ns = clock_now_ns() + (of_owner ? OWNER_NS : ANSWER_NS);

	return deadline_ns ? min_of(deadline_ns, latest_ns) : latest_ns;
}

int control_request(uint16_t type, struct control_graph *request, struct control_graph *answer,
	int *got, uint64_t deadline_ns)
{
	char directory[PATHS_MAX];
	int result = -GDEV_E_NO_DAEMON;

	request->header = (struct control_header){
		.length = sizeof *request, .type = type, .version = CONTROL_VERSION, .serial = 1};
	for (unsigned i = 0; paths_client_dir(i, directory) == 0; i++) {
		int error = ask_in(directory, request, answer, got, answer_by(got, deadline_ns));
		if (error != -GDEV_E_NO_DAEMON && error != -ENOENT && error != -EAGAIN)
			return error;
		if (result == -GDEV_E_NO_DAEMON || error == -EAGAIN)
			result = error;
	}
	return result;
}
