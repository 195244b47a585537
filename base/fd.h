/* SPDX-License-Identifier: MIT
 *
 * Descriptors: messages with descriptors over SOCK_SEQPACKET sockets, sealed shared memory, parts of files.
 * All calls return 0 or a count, or -errno.
 */
#ifndef GDEV_BASE_FD_H
#define GDEV_BASE_FD_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#define FD_PASS_MAX 128 /* descriptors in one message */

/* Sends one message whole. `fds` stay the caller's. -EAGAIN when a non-blocking socket is full. */
int fd_send(int socket, const void *bytes, size_t length, const int *fds, size_t fd_count);

/* Receives one message: its length; 0 at end of file. -EMSGSIZE when it is longer than `size` (it is
 * lost). Received descriptors are close-on-exec and the caller's; *fd_count is capacity in, count
 * out. Descriptors beyond the capacity are closed and the message fails with -EMFILE. */
ssize_t fd_receive(int socket, void *bytes, size_t size, int *fds, size_t *fd_count);

void fd_close_all(int *fds, size_t count);

/* A memfd of `size` bytes that can neither shrink nor grow nor be unsealed: whoever maps it is safe
 * from SIGBUS whatever the other side does. Returns the descriptor. */
int fd_shared_memory(const char *name, uint64_t size);

/* Checks that a received descriptor is such a memfd, of ordinary pages, and gives its size. -EINVAL when it is not. */
int fd_shared_memory_size(int fd, uint64_t *size);

/* All of it, at an offset of a file. -EIO: the file ends before. */
int fd_read_at(int fd, void *bytes, uint64_t count, uint64_t offset);
int fd_write_at(int fd, const void *bytes, uint64_t count, uint64_t offset);

#endif
