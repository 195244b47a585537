/* SPDX-License-Identifier: MIT
 *
 * See ivshmem.h. Each message is a 64-bit number, little endian, and maybe a descriptor.
 */
#include "vm/ivshmem.h"

#include <endian.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/cleanup.h"

#define IVSHMEM_VERSION 0
#define IVSHMEM_MEMORY (-1)

static int tell(int connection, int64_t number, int fd)
{
	union {
		char bytes[CMSG_SPACE(sizeof(int))];
		struct cmsghdr align;
	} control = {0};
	uint64_t wire = htole64((uint64_t)number);
	struct iovec part = {&wire, sizeof wire};
	struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1};

	if (fd >= 0) {
		message.msg_control = control.bytes;
		message.msg_controllen = sizeof control.bytes;
		struct cmsghdr *header = CMSG_FIRSTHDR(&message);
		header->cmsg_level = SOL_SOCKET;
		header->cmsg_type = SCM_RIGHTS;
		header->cmsg_len = CMSG_LEN(sizeof fd);
		memcpy(CMSG_DATA(header), &fd, sizeof fd);
	}
	return sendmsg(connection, &message, MSG_NOSIGNAL) == sizeof wire ? 0 : -errno;
}

int ivshmem_greet(int connection, const struct guest *guest)
{
	int error = tell(connection, IVSHMEM_VERSION, -1);

	if (!error)
		error = tell(connection, VM_PEER_GUEST, -1);
	if (!error)
		error = tell(connection, IVSHMEM_MEMORY, guest->shared_fd);
	for (unsigned i = 0; i <= guest->sizes.slots && !error; i++)
		error = tell(connection, VM_PEER_HOST, guest->rung[i]);
	for (unsigned i = 0; i <= guest->sizes.slots && !error; i++)
		error = tell(connection, VM_PEER_GUEST, guest->rings[i]);
	return error;
}

int ivshmem_listen(const char *path)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	int fd, error = 0;
	mode_t before;

	/* Whoever sees the path can connect: it gets its name when we listen. */
	if (snprintf(address.sun_path, sizeof address.sun_path, "%s.new", path) >=
		(int)sizeof address.sun_path)
		return -ENAMETOOLONG;
	if (!access(path, F_OK))
		return -EADDRINUSE;
	unlink(address.sun_path);
	fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (fd < 0)
		return -errno;
	before = umask(0177);
	if (bind(fd, (struct sockaddr *)&address, sizeof address) || listen(fd, 1) ||
		rename(address.sun_path, path))
		error = -errno;
	umask(before);
	if (!error)
		return fd;
	close(fd);
	return error;
}
