/* SPDX-License-Identifier: MIT
 *
 * See fd.h.
 */
#include "base/fd.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <poll.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"

#define SEALS (F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL)

int fd_send(int socket, const void *bytes, size_t length, const int *fds, size_t fd_count)
{
	union {
		struct cmsghdr align;
		char bytes[CMSG_SPACE(FD_PASS_MAX * sizeof(int))];
	} control;
	struct iovec iov = {(void *)bytes, length};
	struct msghdr message = {.msg_iov = &iov, .msg_iovlen = 1};
	ssize_t sent;

	if (fd_count > FD_PASS_MAX)
		return -EINVAL;
	if (fd_count) {
		memset(&control, 0, sizeof control);
		message.msg_control = control.bytes;
		message.msg_controllen = CMSG_SPACE(fd_count * sizeof(int));
		struct cmsghdr *header = CMSG_FIRSTHDR(&message);
		header->cmsg_level = SOL_SOCKET;
		header->cmsg_type = SCM_RIGHTS;
		header->cmsg_len = CMSG_LEN(fd_count * sizeof(int));
		memcpy(CMSG_DATA(header), fds, fd_count * sizeof(int));
	}
	do
		sent = sendmsg(socket, &message, MSG_NOSIGNAL);
	while (sent < 0 && errno == EINTR);
	if (sent < 0)
		return -errno;
	return (size_t)sent == length ? 0 : -EMSGSIZE;
}

/* Where a peer closes while messages to it are unread, the kernel says so once, before it gives what the peer sent last. */
static ssize_t receive(int socket, struct msghdr *message, int flags)
{
	bool reset = false;
	ssize_t received;

	do {
		received = recvmsg(socket, message, flags);
		if (received >= 0 || (errno == ECONNRESET && reset))
			break;
		reset |= errno == ECONNRESET;
	} while (errno == EINTR || errno == ECONNRESET);
	return received < 0 ? -errno : received;
}

ssize_t fd_receive(int socket, void *bytes, size_t size, int *fds, size_t *fd_count)
{
	union {
		struct cmsghdr align;
		char bytes[CMSG_SPACE(FD_PASS_MAX * sizeof(int))];
	} control;
	struct iovec iov = {bytes, size};
	struct msghdr message = {
		.msg_iov = &iov,
		.msg_iovlen = 1,
		.msg_control = control.bytes,
		.msg_controllen = sizeof control.bytes,
	};
	size_t capacity = fd_count ? *fd_count : 0, kept = 0;
	int error = 0;
	ssize_t received;

	received = receive(socket, &message, MSG_CMSG_CLOEXEC);
	if (received < 0)
		return received;
	for (struct cmsghdr *h = CMSG_FIRSTHDR(&message); h; h = CMSG_NXTHDR(&message, h)) {
		if (h->cmsg_level != SOL_SOCKET || h->cmsg_type != SCM_RIGHTS)
			continue;
		size_t count = (h->cmsg_len - CMSG_LEN(0)) / sizeof(int);
		for (size_t i = 0; i < count; i++) {
			int fd;
			memcpy(&fd, CMSG_DATA(h) + i * sizeof fd, sizeof fd);
			if (kept < capacity) {
				fds[kept++] = fd;
			} else {
				close(fd);
				error = -EMFILE;
			}
		}
	}
	if (message.msg_flags & MSG_CTRUNC)
		error = -EMFILE;
	if (message.msg_flags & MSG_TRUNC)
		error = -EMSGSIZE;
	if (error) {
		fd_close_all(fds, kept);
		kept = 0;
	}
	if (fd_count)
		*fd_count = kept;
	return error ? error : received;
}

/* What is in the control messages, as far as there is room. */
static size_t copies_of(struct msghdr *message, int *fds, size_t room)
{
	size_t kept = 0;

	for (struct cmsghdr *h = CMSG_FIRSTHDR(message); h; h = CMSG_NXTHDR(message, h)) {
		size_t bytes = h->cmsg_len - CMSG_LEN(0);
		if (h->cmsg_level != SOL_SOCKET || h->cmsg_type != SCM_RIGHTS ||
			bytes > (room - kept) * sizeof(int))
			continue;
		memcpy(fds + kept, CMSG_DATA(h), bytes);
		kept += bytes / sizeof(int);
	}
	return kept;
}

ssize_t fd_peek_copies(int socket, void *bytes, size_t size, int *fds, size_t *fd_count, bool *more)
{
	union {
		struct cmsghdr align;
		char bytes[CMSG_SPACE(FD_PASS_MAX * sizeof(int))];
	} control;
	struct iovec iov = {bytes, size};
	struct msghdr message = {.msg_iov = &iov, .msg_iovlen = 1};
	size_t room = fd_count ? *fd_count : 0;
	ssize_t received;

	if (room) {
		message.msg_control = control.bytes;
		message.msg_controllen = CMSG_LEN(room * sizeof(int));
	}
	if (fd_count)
		*fd_count = 0;
	received =
		receive(socket, &message, MSG_PEEK | MSG_DONTWAIT | (room ? MSG_CMSG_CLOEXEC : 0));
	if (received < 0)
		return received;
	if (room)
		*fd_count = copies_of(&message, fds, room);
	/* The sockets of gdev get no other control messages. */
	*more = message.msg_flags & MSG_CTRUNC;
	return received;
}

ssize_t fd_peek(int socket, void *bytes, size_t size, bool *descriptors)
{
	return fd_peek_copies(socket, bytes, size, NULL, NULL, descriptors);
}

int fd_holds_descriptors(int socket)
{
	int domain = AF_UNIX, fd;
	socklen_t size = sizeof domain;
	char path[40], text[1024];
	const char *count;
	ssize_t length;

	shutdown(socket, SHUT_RD);
	getsockopt(socket, SOL_SOCKET, SO_DOMAIN, &domain, &size);
	if (domain != AF_UNIX)
		return 0;
	snprintf(path, sizeof path, "/proc/self/fdinfo/%d", socket);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return -errno;
	length = read(fd, text, sizeof text - 1);
	close(fd);
	text[length > 0 ? length : 0] = '\0';
	count = strstr(text, "scm_fds:");
	return !count || strtoul(count + strlen("scm_fds:"), NULL, 10);
}

bool fd_readable_by(int fd, uint64_t deadline_ns)
{
	struct pollfd readable = {.fd = fd, .events = POLLIN};
	uint64_t left_ns;
	struct timespec left;
	int ready;

	do {
		left_ns = deadline_ns - min_of(clock_now_ns(), deadline_ns);
		left = (struct timespec){(time_t)(left_ns / NS_PER_S), (long)(left_ns % NS_PER_S)};
		ready = ppoll(&readable, 1, deadline_ns == UINT64_MAX ? NULL : &left, NULL);
	} while (ready < 0 && errno == EINTR);
	return ready > 0;
}

void fd_close_all(int *fds, size_t count)
{
	for (size_t i = 0; i < count; i++)
		if (fds[i] >= 0)
			close(steal_fd(&fds[i]));
}

int fd_shared_memory(const char *name, uint64_t size)
{
	int fd = memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING);

	if (fd < 0)
		return -errno;
	if (ftruncate(fd, (off_t)size) || fcntl(fd, F_ADD_SEALS, SEALS)) {
		int error = -errno;
		close(fd);
		return error;
	}
	return fd;
}

/* Whoever holds a lease of the file is not waited for: with O_NONBLOCK opening it fails instead. */
static int reopen(int fd, int flags)
{
	char path[32];
	int opened;

	snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
	opened = open(path, flags | O_CLOEXEC | O_NONBLOCK);
	return opened < 0 ? -errno : opened;
}

/* A process that opens the file anew needs rights to the file, whatever its descriptor allows; of a memfd everybody
 * has all. */
int fd_lend(int fd)
{
	if ((geteuid() == 0 && fchown(fd, 0, 0)) || fchmod(fd, 0400))
		return -errno;
	return reopen(fd, O_RDONLY);
}

int fd_reclaim(int fd)
{
	int opened;

	if (fchmod(fd, 0600))
		return -errno;
	opened = reopen(fd, O_RDWR);
	fchmod(fd, 0400);
	return opened;
}

/* On a file system with large pages of its own mmap() rounds a length up to them: a process would map more than it
 * was asked to by a peer. */
static bool has_large_pages(int fd)
{
	struct statfs system;

	return fstatfs(fd, &system) || system.f_type == HUGETLBFS_MAGIC;
}

static int sealed_size(int fd, int wanted, uint64_t *size)
{
	int seals = fcntl(fd, F_GET_SEALS);
	off_t end;

	if (seals < 0 || (seals & wanted) != wanted || has_large_pages(fd))
		return -EINVAL;
	/* Not fstat: a sandboxed worker may not call what libc makes of it. */
	end = lseek(fd, 0, SEEK_END);
	if (end < 0)
		return -EINVAL;
	*size = (uint64_t)end;
	return 0;
}

int fd_shared_memory_size(int fd, uint64_t *size)
{
	return sealed_size(fd, SEALS, size);
}

int fd_frozen_memory_size(int fd, uint64_t *size)
{
	int error = sealed_size(fd, SEALS | F_SEAL_WRITE, size);

	/* Reading a hole would take memory, of whoever reads it. */
	return !error && lseek(fd, 0, SEEK_HOLE) < (off_t)*size ? -EINVAL : error;
}

/* A read or a write may do less than was asked for. */
static int transfer(int fd, uint8_t *bytes, uint64_t count, uint64_t offset, bool out)
{
	while (count) {
		ssize_t part = out ? pwrite(fd, bytes, count, (off_t)offset)
				   : pread(fd, bytes, count, (off_t)offset);
		if (part < 0 && errno == EINTR)
			continue;
		if (part <= 0)
			return part ? -errno : -EIO;
		bytes += part;
		offset += (uint64_t)part;
		count -= (uint64_t)part;
	}
	return 0;
}

int fd_read_at(int fd, void *bytes, uint64_t count, uint64_t offset)
{
	return transfer(fd, bytes, count, offset, false);
}

int fd_write_at(int fd, const void *bytes, uint64_t count, uint64_t offset)
{
	return transfer(fd, (uint8_t *)(uintptr_t)bytes, count, offset, true);
}

int fd_frozen_memory(const char *name, const struct iovec *parts, size_t count, const void *last,
	uint64_t last_bytes)
{
	int fd = memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING), error = 0;
	uint64_t bytes = 0;

	if (fd < 0)
		return -errno;
	for (size_t i = 0; i < count && !error; bytes += parts[i++].iov_len)
		error = fd_write_at(fd, parts[i].iov_base, parts[i].iov_len, bytes);
	if (!error)
		error = fd_write_at(fd, last, last_bytes, bytes);
	if (!error && fcntl(fd, F_ADD_SEALS, SEALS | F_SEAL_WRITE))
		error = -errno;
	if (error)
		close(fd);
	return error ? error : fd;
}
