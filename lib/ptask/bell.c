/* SPDX-License-Identifier: MIT
 *
 * See bell.h.
 */
#include "lib/ptask/bell.h"

#include <errno.h>
#include <sys/socket.h>

#include "base/fd.h"

/* The other side may ring as fast as we read: what is left is heard the next time. */
#define READS_MAX 16

int bell_create(int *theirs)
{
	int pair[2];

	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair))
		return -errno;
	*theirs = pair[1];
	return pair[0];
}

void bell_ring(int bell)
{
	send(bell, "", 1, MSG_DONTWAIT | MSG_NOSIGNAL); /* a full one rings, too */
}

/* No more is received than was looked at. Less than there is room for was all that had been sent. */
int bell_heard(int bell)
{
	char rings[4096];
	ssize_t bytes = sizeof rings;
	int heard = 0;

	for (unsigned i = 0; i < READS_MAX && bytes == sizeof rings; i++) {
		bool descriptors = false;

		bytes = fd_peek(bell, rings, sizeof rings, &descriptors);
		if (bytes == -EAGAIN)
			break;
		if (bytes <= 0 || descriptors ||
			recv(bell, rings, (size_t)bytes, MSG_DONTWAIT) != bytes)
			return -EPROTO;
		heard = 1;
	}
	return heard;
}
