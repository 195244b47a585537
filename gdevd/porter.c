/* SPDX-License-Identifier: MIT
 *
 * gdev-porter: a process that gdevd starts for one message of a stranger, or for the end of some sockets (porters.h).
 *
 *   gdev-porter LINE SOCKET FDS MEMORY DEVICE INODE    says on LINE if the next message of SOCKET may be received
 *   gdev-porter LINE                                   only has the sockets that it was born with
 *
 * It is there until gdevd closes the other end of LINE: until then gdevd's copies of sockets and descriptors are not the
 * last ones. It may hang in any call here that touches a descriptor of a stranger, and in its end. It reads
 * nothing of the message, and does nothing with a descriptor but ask the kernel, and not the file, what it is.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "base/fd.h"

#define NVIDIA_MAJOR 195 /* of /dev/nvidiactl: a driver's handle is a descriptor of such a device */
#define MEMORY_MAJOR 1   /* of /dev/null, a handle in tests */

struct limits {
	size_t fds;
	uint64_t memory, memory_device;
	uint64_t device, inode;
};

/* It keeps the user of gdevd, so that no stranger may send it signals, and nothing else of root's. */
static void give_up_privileges(void)
{
	struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
	struct __user_cap_data_struct none[2] = {{0}};

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
	prctl(PR_SET_DUMPABLE, 0);
	syscall(SYS_capset, &header, none);
}

/* Asks no file system, which might not answer, but for the type of a device file. */
static bool identify(int fd, struct statx *status)
{
	return !statx(fd, "", AT_EMPTY_PATH | AT_STATX_DONT_SYNC,
		STATX_TYPE | STATX_INO | STATX_SIZE, status);
}

static uint64_t device_of(const struct statx *status)
{
	return makedev(status->stx_dev_major, status->stx_dev_minor);
}

/* All memfds are on one file system of the kernel's, and nobody can mount that. */
static uint64_t memory_device(void)
{
	struct statx status;
	int fd = memfd_create("porter", MFD_CLOEXEC);

	return fd >= 0 && identify(fd, &status) ? device_of(&status) : 0;
}

static bool is_harmless(int fd, const struct limits *limits)
{
	struct statx status;

	if (!identify(fd, &status))
		return false;
	if (S_ISCHR(status.stx_mode))
		return status.stx_rdev_major == NVIDIA_MAJOR ||
		       status.stx_rdev_major == MEMORY_MAJOR;
	if (!S_ISREG(status.stx_mode))
		return false;
	if (limits->inode && device_of(&status) == limits->device &&
		status.stx_ino == limits->inode)
		return true;
	return device_of(&status) == limits->memory_device && status.stx_size <= limits->memory;
}

/* Looks at the message with copies of its descriptors, and leaves it in the socket, from which nobody else receives. If it sent
 * them to gdevd, the kernel could refuse that: it counts what lies unread in all sockets of gdevd's user. */
static bool may_be_received(int socket, const struct limits *limits)
{
	int fds[FD_PASS_MAX];
	size_t count = FD_PASS_MAX;
	bool more;
	char begin;

	if (fd_peek_copies(socket, &begin, sizeof begin, fds, &count, &more) <= 0 || more ||
		!count || count > limits->fds)
		return false;
	for (size_t i = 0; i < count; i++)
		if (!is_harmless(fds[i], limits))
			return false;
	return true;
}

int main(int argc, char **argv)
{
	int line = argc > 1 ? atoi(argv[1]) : -1;
	char byte;

	give_up_privileges();
	if (argc == 7) {
		const struct limits limits = {
			.fds = strtoul(argv[3], NULL, 10),
			.memory = strtoull(argv[4], NULL, 10),
			.memory_device = memory_device(),
			.device = strtoull(argv[5], NULL, 10),
			.inode = strtoull(argv[6], NULL, 10),
		};
		if (may_be_received(atoi(argv[2]), &limits))
			fd_send(line, "y", 1, NULL, 0);
		shutdown(line, SHUT_WR); /* an answer, or none */
	}
	while (recv(line, &byte, 1, 0) < 0 && errno == EINTR)
		;
	_exit(0);
}
