/* SPDX-License-Identifier: MIT
 *
 * See bell.h.
 */
#include "lib/ptask/bell.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "gdev/error.h"

/* The other side may ring as fast as we read: what is left is heard the next time. */
#define READS_MAX 16

int bell_open(int theirs)
{
	struct stat what;
	char path[32];
	int fd;

	if (fstat(theirs, &what) || !S_ISFIFO(what.st_mode))
		return -GDEV_E_PROTOCOL;
	snprintf(path, sizeof path, "/proc/self/fd/%d", theirs);
	/* For both: as long as this side has it, it has a reader, and ringing is no SIGPIPE. */
	fd = open(path, O_RDWR | O_NONBLOCK | O_CLOEXEC);
	if (fd < 0)
		return errno == ENOENT
			       ? -ENOSYS
			       : -errno; /* without /proc; ENOENT says of a graph that it is not there */
	return fd;
}

int bell_create(int *theirs)
{
	int ends[2], fd;

	if (pipe2(ends, O_CLOEXEC))
		return -errno;
	/* Only who is given it reaches it, and that may be another user. */
	fd = fchmod(ends[0], 0666) ? -errno : bell_open(ends[0]);
	close(ends[1]);
	if (fd < 0)
		close(ends[0]);
	else
		*theirs = ends[0];
	return fd;
}

void bell_ring(int bell)
{
	ssize_t ignored = write(bell, "", 1);

	(void)ignored; /* a full one rings, too */
}

bool bell_heard(int bell)
{
	char rings[4096];
	bool heard = false;

	for (unsigned i = 0; i < READS_MAX && read(bell, rings, sizeof rings) > 0; i++)
		heard = true;
	return heard;
}
