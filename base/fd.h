/* SPDX-License-Identifier: MIT
 *
 * Descriptors: messages with descriptors over SOCK_SEQPACKET sockets, sealed shared memory, parts of files.
 * All calls return 0 or a count, or -errno.
 */
#ifndef GDEV_BASE_FD_H
#define GDEV_BASE_FD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include <sys/uio.h>

#define FD_PASS_MAX 128 /* descriptors in one message */

/* Sends one message whole. `fds` stay the caller's. -EAGAIN when a non-blocking socket is full. */
int fd_send(int socket, const void *bytes, size_t length, const int *fds, size_t fd_count);

/* Receives one message: its length; 0 at end of file, which comes behind all that the peer sent. -EMSGSIZE when it is longer
 * than `size` (it is lost). Received descriptors are close-on-exec and the caller's; *fd_count is capacity in, count
 * out. Descriptors beyond the capacity are closed and the message fails with -EMFILE. */
ssize_t fd_receive(int socket, void *bytes, size_t size, int *fds, size_t *fd_count);

/* Looks at the next message, or at the first bytes of a stream, and leaves it where it is. *descriptors: whether it
 * carries any; none is installed here. Returns how many bytes are in `bytes`; 0 is an end of file, or an empty message.
 * Never blocks: -EAGAIN. */
ssize_t fd_peek(int socket, void *bytes, size_t size, bool *descriptors);
/* The same, with copies of the descriptors that the message carries, up to *fd_count, which is how many there are then: they are
 * close-on-exec and the caller's. *more: it carries others. */
ssize_t fd_peek_copies(
	int socket, void *bytes, size_t size, int *fds, size_t *fd_count, bool *more);

/* Whether descriptors lie unread in a socket, or in a connection that waits in its backlog: 1, 0, or -errno. When it is
 * closed they are released in the context of who closes it, which may take as long as whoever sent them likes. From
 * this call on nothing more comes in. 1 also where the kernel does not say (before Linux 5.6). */
int fd_holds_descriptors(int socket);

/* Whether there is something to read, or the end, by then; UINT64_MAX: however long it takes. */
bool fd_readable_by(int fd, uint64_t deadline_ns);

/* Those that are there, and they are -1 then. */
void fd_close_all(int *fds, size_t count);

/* A memfd of `size` bytes that can neither shrink nor grow nor be unsealed: a process that maps it is safe from
 * SIGBUS whatever the other side does. Returns the descriptor. */
int fd_shared_memory(const char *name, uint64_t size);

/* Another description of a memfd, or of a file that we have made, which can only be read; from it nobody but root and
 * our own user can open the file for writing, through /proc/self/fd or otherwise. -errno. */
int fd_lend(int fd);
/* One that can be written, of what was lent. -EAGAIN: somebody holds a lease of the file, for which nobody waits. */
int fd_reclaim(int fd);

/* Checks that a received descriptor is such a memfd, of ordinary pages, and gives its size. -EINVAL when it is not. */
int fd_shared_memory_size(int fd, uint64_t *size);

/* A memfd with the parts one behind the other, and `last`, and nobody can change it any more. Returns the descriptor. */
int fd_frozen_memory(const char *name, const struct iovec *parts, size_t count, const void *last,
	uint64_t last_bytes);
/* Checks that a received descriptor is such a memfd, without holes, and gives its size. -EINVAL when it is not. */
int fd_frozen_memory_size(int fd, uint64_t *size);

/* All of it, at an offset of a file. -EIO: the file ends before. */
int fd_read_at(int fd, void *bytes, uint64_t count, uint64_t offset);
int fd_write_at(int fd, const void *bytes, uint64_t count, uint64_t offset);

#endif
