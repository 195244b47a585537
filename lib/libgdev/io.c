/* SPDX-License-Identifier: MIT
 *
 * libgdev-io.so, which `gdev run` has the program load first: system calls that read or write memory of the program.
 * The kernel does not touch pages of managed memory that the device has, it fails with EFAULT. So before such a call the
 * pages are opened, as by a touch. A program that has no such memory (gdev_io_open is NULL, which libgdev sets) pays
 * for a look at a word.
 *
 * Functions of stdio are here where they give the program's own memory to the kernel, inside of the C library. Those that a
 * program calls when it is compiled with _FORTIFY_SOURCE check sizes and end as the others do.
 */
#include <dlfcn.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#undef fread_unlocked
#undef fwrite_unlocked

#define EXPORT __attribute__((visibility("default")))

EXPORT int (*gdev_io_open)(const void *from, size_t bytes, bool write);

static void open_range(const void *from, size_t bytes, bool write)
{
	int (*open)(const void *, size_t, bool) = __atomic_load_n(&gdev_io_open, __ATOMIC_ACQUIRE);

	if (open)
		open(from, bytes, write);
}

static void open_items(const void *from, size_t size, size_t count, bool write)
{
	size_t bytes;

	if (!__builtin_mul_overflow(size, count, &bytes))
		open_range(from, bytes, write);
}

static void open_vector(const struct iovec *vector, size_t count, bool write)
{
	for (size_t i = 0; vector && i < count; i++)
		open_range(vector[i].iov_base, vector[i].iov_len, write);
}

static void open_message(const struct msghdr *message, bool write)
{
	if (message)
		open_vector(message->msg_iov, message->msg_iovlen, write);
}

/* A function of that name, which does `before` and then what it does in the next library. */
#define AROUND(result, name, parameters, arguments, before)                                        \
	EXPORT result name parameters;                                                             \
	EXPORT result name parameters                                                              \
	{                                                                                          \
		static result(*known) parameters;                                                  \
		result(*next) parameters = __atomic_load_n(&known, __ATOMIC_RELAXED);              \
		if (!next) {                                                                       \
			next = (result(*) parameters)(uintptr_t)dlsym(RTLD_NEXT, #name);           \
			__atomic_store_n(&known, next, __ATOMIC_RELAXED);                          \
		}                                                                                  \
		before;                                                                            \
		return next arguments;                                                             \
	}

/* clang-format off */
AROUND(ssize_t, read, (int fd, void *to, size_t n), (fd, to, n), open_range(to, n, true))
AROUND(ssize_t, __read_chk, (int fd, void *to, size_t n, size_t room), (fd, to, n, room), open_range(to, n, true))
AROUND(ssize_t, pread, (int fd, void *to, size_t n, off_t at), (fd, to, n, at), open_range(to, n, true))
AROUND(ssize_t, __pread_chk, (int fd, void *to, size_t n, off_t at, size_t room), (fd, to, n, at, room), open_range(to, n, true))
AROUND(ssize_t, pread64, (int fd, void *to, size_t n, off64_t at), (fd, to, n, at), open_range(to, n, true))
AROUND(ssize_t, __pread64_chk, (int fd, void *to, size_t n, off64_t at, size_t room), (fd, to, n, at, room), open_range(to, n, true))
AROUND(ssize_t, readv, (int fd, const struct iovec *to, int n), (fd, to, n), open_vector(to, (size_t)n, true))
AROUND(ssize_t, preadv, (int fd, const struct iovec *to, int n, off_t at), (fd, to, n, at), open_vector(to, (size_t)n, true))
AROUND(ssize_t, preadv64, (int fd, const struct iovec *to, int n, off64_t at), (fd, to, n, at), open_vector(to, (size_t)n, true))
AROUND(ssize_t, recv, (int fd, void *to, size_t n, int flags), (fd, to, n, flags), open_range(to, n, true))
AROUND(ssize_t, __recv_chk, (int fd, void *to, size_t n, size_t room, int flags), (fd, to, n, room, flags), open_range(to, n, true))
AROUND(ssize_t, recvfrom, (int fd, void *to, size_t n, int flags, struct sockaddr *of, socklen_t *length),
	(fd, to, n, flags, of, length), open_range(to, n, true))
AROUND(ssize_t, __recvfrom_chk, (int fd, void *to, size_t n, size_t room, int flags, struct sockaddr *of, socklen_t *length),
	(fd, to, n, room, flags, of, length), open_range(to, n, true))
AROUND(ssize_t, recvmsg, (int fd, struct msghdr *to, int flags), (fd, to, flags), open_message(to, true))
AROUND(size_t, fread, (void *to, size_t size, size_t n, FILE *file), (to, size, n, file), open_items(to, size, n, true))
AROUND(size_t, __fread_chk, (void *to, size_t room, size_t size, size_t n, FILE *file), (to, room, size, n, file),
	open_items(to, size, n, true))
AROUND(size_t, fread_unlocked, (void *to, size_t size, size_t n, FILE *file), (to, size, n, file), open_items(to, size, n, true))
AROUND(size_t, __fread_unlocked_chk, (void *to, size_t room, size_t size, size_t n, FILE *file), (to, room, size, n, file),
	open_items(to, size, n, true))

AROUND(ssize_t, write, (int fd, const void *from, size_t n), (fd, from, n), open_range(from, n, false))
AROUND(ssize_t, pwrite, (int fd, const void *from, size_t n, off_t at), (fd, from, n, at), open_range(from, n, false))
AROUND(ssize_t, pwrite64, (int fd, const void *from, size_t n, off64_t at), (fd, from, n, at), open_range(from, n, false))
AROUND(ssize_t, writev, (int fd, const struct iovec *from, int n), (fd, from, n), open_vector(from, (size_t)n, false))
AROUND(ssize_t, pwritev, (int fd, const struct iovec *from, int n, off_t at), (fd, from, n, at), open_vector(from, (size_t)n, false))
AROUND(ssize_t, pwritev64, (int fd, const struct iovec *from, int n, off64_t at), (fd, from, n, at),
	open_vector(from, (size_t)n, false))
AROUND(ssize_t, send, (int fd, const void *from, size_t n, int flags), (fd, from, n, flags), open_range(from, n, false))
AROUND(ssize_t, sendto, (int fd, const void *from, size_t n, int flags, const struct sockaddr *to, socklen_t length),
	(fd, from, n, flags, to, length), open_range(from, n, false))
AROUND(ssize_t, sendmsg, (int fd, const struct msghdr *from, int flags), (fd, from, flags), open_message(from, false))
AROUND(size_t, fwrite, (const void *from, size_t size, size_t n, FILE *file), (from, size, n, file), open_items(from, size, n, false))
AROUND(size_t, fwrite_unlocked, (const void *from, size_t size, size_t n, FILE *file), (from, size, n, file),
	open_items(from, size, n, false))
