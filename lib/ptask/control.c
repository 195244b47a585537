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

static int connect_in(const char *directory)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	autoclose int fd = -1;

	if (snprintf(address.sun_path, sizeof address.sun_path, "%s/control.sock", directory) >=
		(int)sizeof address.sun_path)
		return -ENAMETOOLONG;
	fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
	if (fd < 0 || connect(fd, (struct sockaddr *)&address, sizeof address) ||
		fcntl(fd, F_SETFL, O_NONBLOCK))
		return -errno;
	return steal_fd(&fd);
}

/* The answer's status, or -errno. */
static int receive(int connection, struct control_graph *answer, int *got, uint64_t deadline_ns)
{
	uint64_t until_ns = clock_now_ns() + (got ? OWNER_NS : ANSWER_NS);
	size_t count = got ? 1 : 0;
	ssize_t length;
	int fd = -1;

	if (deadline_ns)
		until_ns = min_of(until_ns, deadline_ns);
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
	struct control_graph *answer, int *got, uint64_t deadline_ns)
{
	autoclose int connection = connect_in(directory);
	int error;

	if (connection < 0) /* refused: one was there, and another may come */
		return connection == -ECONNREFUSED ? -EAGAIN : -GDEV_E_NO_DAEMON;
	error = fd_send(connection, request, sizeof *request, NULL, 0);
	if (error)
		return -EAGAIN;
	error = receive(connection, answer, got, deadline_ns);
	return error < 0 ? error : steal_fd(&connection);
}

int control_request(uint16_t type, struct control_graph *request, struct control_graph *answer,
	int *got, uint64_t deadline_ns)
{
	char directory[PATHS_MAX];
	int result = -GDEV_E_NO_DAEMON;

	request->header = (struct control_header){
		.length = sizeof *request, .type = type, .version = CONTROL_VERSION, .serial = 1};
	for (unsigned i = 0; paths_client_dir(i, directory) == 0; i++) {
		int error = ask_in(directory, request, answer, got, deadline_ns);
		if (error != -GDEV_E_NO_DAEMON && error != -ENOENT && error != -EAGAIN)
			return error;
		if (result == -GDEV_E_NO_DAEMON || error == -EAGAIN)
			result = error;
	}
	return result;
}
