/* SPDX-License-Identifier: MIT
 *
 * What kernels ask for: one row of a table each. A request is copied out of page-locked memory once and checked; it is
 * tried at once, without waiting; if that does not do, it waits for its descriptor and is tried again, or goes to a
 * thread that may block.
 */
#include "lib/gloop/internal.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"

#define BACKLOG 128
#define TRIES 16 /* to open what others make and remove; a link to nothing is there, and is not */

struct operation {
	enum kind uses; /* the descriptor that it names; KIND_NONE: it names none, or any */
	enum kind makes;
	bool page;    /* `bytes` are bytes of the page */
	bool brings;  /* its result is bytes of the page, which may go to a destination */
	bool outside; /* it reaches what the process can, by name: not for confined kernels */
	bool copies;  /* from memory to memory */
	bool maps;
	bool blocks;
	bool waits; /* for its descriptor, on this side */
	enum side side;
	/* Returns the result, or -EAGAIN, which is none, unless it may block. */
	int64_t (*perform)(struct request *request, bool may_block);
};

/* ---- files ---- */

/* Regular files alone: opening a device may do something, and a pipe may wait for ever. So the file is looked at first, by
 * a descriptor that only names it. */
static int open_there(const char *path, int flags)
{
	autoclose int named = open(path, O_PATH | O_CLOEXEC);
	char name[32];
	struct stat stat;
	int fd;

	if (named < 0 || fstat(named, &stat) < 0)
		return -errno;
	if (!S_ISREG(stat.st_mode))
		return S_ISDIR(stat.st_mode) ? -EISDIR : -EINVAL;
	snprintf(name, sizeof(name), "/proc/self/fd/%d", named);
	fd = open(name, flags);
	return fd < 0 ? -errno : fd;
}

/* Another block may make the file meanwhile. */
static int open_or_create(const char *path, int flags)
{
	for (int i = 0; i < TRIES; i++) {
		int fd = open_there(path, flags);

		if (fd != -ENOENT)
			return fd;
		fd = open(path, flags | O_CREAT | O_EXCL, 0666);
		if (fd >= 0 || errno != EEXIST)
			return fd < 0 ? -errno : fd;
	}
	return -EEXIST;
}

static int64_t perform_open(struct request *r, bool may_block)
{
	static const int access[] = {-1, O_RDONLY, O_WRONLY, O_RDWR};
	int flags = access[r->flags & 3] | O_CLOEXEC;
	char path[PATH_MAX];
	int fd;

	if (!may_block)
		return -EAGAIN;
	memcpy(path, r->page, r->bytes);
	path[r->bytes] = 0;
	if (strlen(path) != r->bytes)
		return -EINVAL;
	fd = r->flags & GLOOP_CREATE ? open_or_create(path, flags) : open_there(path, flags);
	if (fd < 0)
		return fd;
	r->made = fd; /* also to be closed after an error */
	return r->flags & GLOOP_EMPTY && ftruncate(fd, 0) < 0 ? -errno : 0;
}

/* Of preadv2(2) and pwritev2(2), for what may not wait. Files in memory do not know RWF_NOWAIT; they wait for
 * what is swapped out. */
static int no_wait(const struct request *r)
{
	return r->file->in_memory ? 0 : RWF_NOWAIT;
}

/* Goes on where it was; a result when all is moved, at the end of the file, or by an error. */
static int64_t move(struct request *r, bool may_block, bool write)
{
	while (r->moved < r->bytes) {
		struct iovec part = {(char *)r->page + r->moved, r->bytes - r->moved};
		off_t at = (off_t)(r->offset + r->moved);
		int flags = may_block ? 0 : no_wait(r);
		ssize_t n = write ? pwritev2(r->file->fd, &part, 1, at, flags)
				  : preadv2(r->file->fd, &part, 1, at, flags);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0 && !may_block &&
			(errno == EAGAIN || errno == EOPNOTSUPP || errno == ENOSYS))
			return -EAGAIN;
		if (n < 0)
			return r->moved ? (int64_t)r->moved : -errno;
		if (!n)
			break;
		r->moved += (uint64_t)n;
	}
	return (int64_t)r->moved;
}

/* Straight between the file and device memory. The result; or -EAGAIN: not without waiting; -ENOTSUP: by way of the page, from
 * the beginning. libcuda has checked that it is device memory of this context. */
static int64_t move_directly(const struct host *host, struct request *r, int flags)
{
	bool reads = r->op == GLOOP_READ && r->destination;
	CUdeviceptr memory = reads ? r->destination : r->source;
	__typeof__(cuGdevMemRead) *move_some = reads ? host->read : host->write;
	uint64_t moved = 0;

	if (!move_some || !(reads || (r->op == GLOOP_WRITE && r->unfilled)))
		return -ENOTSUP;
	while (moved < r->bytes) {
		int64_t n;

		if (move_some(memory + moved, r->bytes - moved, r->file->fd, r->offset + moved,
			    flags, &n) != CUDA_SUCCESS)
			return -ENOTSUP;
		if (n < 0 && n != -EINTR)
			return n == -EAGAIN ? n : -ENOTSUP;
		if (!n)
			break;
		moved += n > 0 ? (uint64_t)n : 0;
	}
	r->placed = reads;
	return (int64_t)moved;
}

static int64_t perform_read(struct request *r, bool may_block)
{
	return move(r, may_block, false);
}

static int64_t perform_write(struct request *r, bool may_block)
{
	return move(r, may_block, true);
}

static int64_t perform_stat(struct request *r, bool may_block)
{
	struct stat stat;

	if (!may_block)
		return -EAGAIN;
	return fstat(r->file->fd, &stat) < 0 ? -errno : (int64_t)stat.st_size;
}

static int64_t perform_truncate(struct request *r, bool may_block)
{
	if (!may_block)
		return -EAGAIN;
	return ftruncate(r->file->fd, (off_t)r->offset) < 0 ? -errno : 0;
}

/* ---- sockets ---- */

static struct sockaddr_in address_of(const struct request *r)
{
	return (struct sockaddr_in){.sin_family = AF_INET,
		.sin_port = htons((uint16_t)r->offset),
		.sin_addr.s_addr = htonl((uint32_t)(r->offset >> 16))};
}

static int open_socket(struct request *r)
{
	r->made = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	return r->made < 0 ? -errno : 0;
}

static int64_t perform_connect(struct request *r, bool may_block)
{
	struct sockaddr_in address = address_of(r);
	struct pollfd ready = {r->made, POLLOUT, 0};
	socklen_t length = sizeof(int);
	int error = 0;

	if (r->made < 0) {
		error = open_socket(r);
		if (error || !connect(r->made, (struct sockaddr *)&address, sizeof(address)))
			return error;
		return errno == EINPROGRESS ? -EAGAIN : -errno;
	}
	if (poll(&ready, 1, 0) == 0)
		return -EAGAIN;
	if (getsockopt(r->made, SOL_SOCKET, SO_ERROR, &error, &length) < 0)
		return -errno;
	return -error;
}

static int64_t perform_bind(struct request *r, bool may_block)
{
	struct sockaddr_in address = address_of(r);
	int on = 1, error = open_socket(r);

	if (error)
		return error;
	if (setsockopt(r->made, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on)) < 0 ||
		bind(r->made, (struct sockaddr *)&address, sizeof(address)) < 0 ||
		listen(r->made, BACKLOG) < 0)
		return -errno;
	return 0;
}

static int64_t perform_accept(struct request *r, bool may_block)
{
	do
		r->made = accept4(r->file->fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
	while (r->made < 0 && (errno == EINTR || errno == ECONNABORTED));
	return r->made >= 0 ? 0 : -errno;
}

static int64_t perform_receive(struct request *r, bool may_block)
{
	ssize_t n;

	do
		n = recv(r->file->fd, r->page, r->bytes, MSG_DONTWAIT);
	while (n < 0 && errno == EINTR);
	return n >= 0 ? n : -errno;
}

static int64_t perform_send(struct request *r, bool may_block)
{
	while (r->moved < r->bytes) {
		ssize_t n = send(r->file->fd, (char *)r->page + r->moved, r->bytes - r->moved,
			MSG_DONTWAIT | MSG_NOSIGNAL);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return errno == EAGAIN || !r->moved ? -errno : (int64_t)r->moved;
		r->moved += (uint64_t)n;
	}
	return (int64_t)r->moved;
}

/* ---- the rest ---- */

static int64_t perform_timer(struct request *r, bool may_block)
{
	uint64_t now_ns = clock_now_ns();

	if (!r->deadline_ns)
		r->deadline_ns = now_ns + min_of(r->offset, (uint64_t)INT64_MAX / 2);
	return now_ns >= r->deadline_ns ? 0 : -EAGAIN;
}

/* request_complete() does. */
static int64_t perform_map(struct request *r, bool may_block)
{
	return -EAGAIN;
}

static const struct operation operations[] = {
	[GLOOP_OPEN] = {.makes = KIND_FILE,
		.page = true,
		.outside = true,
		.blocks = true,
		.perform = perform_open},
	[GLOOP_READ] = {.uses = KIND_FILE,
		.page = true,
		.brings = true,
		.blocks = true,
		.perform = perform_read},
	[GLOOP_WRITE] = {.uses = KIND_FILE, .page = true, .blocks = true, .perform = perform_write},
	[GLOOP_CLOSE] = {.perform = NULL},
	[GLOOP_STAT] = {.uses = KIND_FILE, .blocks = true, .perform = perform_stat},
	[GLOOP_TRUNCATE] = {.uses = KIND_FILE, .blocks = true, .perform = perform_truncate},
	[GLOOP_CONNECT] = {.makes = KIND_SOCKET,
		.outside = true,
		.waits = true,
		.side = SIDE_OUT,
		.perform = perform_connect},
	[GLOOP_BIND] = {.makes = KIND_SOCKET, .outside = true, .perform = perform_bind},
	[GLOOP_ACCEPT] = {.uses = KIND_SOCKET,
		.makes = KIND_SOCKET,
		.waits = true,
		.side = SIDE_IN,
		.perform = perform_accept},
	[GLOOP_RECEIVE] = {.uses = KIND_SOCKET,
		.page = true,
		.brings = true,
		.waits = true,
		.side = SIDE_IN,
		.perform = perform_receive},
	[GLOOP_SEND] = {.uses = KIND_SOCKET,
		.page = true,
		.waits = true,
		.side = SIDE_OUT,
		.perform = perform_send},
	[GLOOP_TIMER] = {.perform = perform_timer},
	[GLOOP_COPY] = {.copies = true},
	[GLOOP_MAP] = {.uses = KIND_FILE, .maps = true, .blocks = true, .perform = perform_map},
	[GLOOP_UNMAP] = {.perform = NULL},
};

static const struct operation *operation_of(const struct request *r)
{
	return &operations[r->op];
}

static int check(const struct host *host, const struct request *r)
{
	const struct operation *operation = operation_of(r);

	if (operation->outside && host->confined)
		return -EPERM;
	if (operation->page && r->bytes > host->page_bytes)
		return -EINVAL;
	if (r->op != GLOOP_TIMER && r->offset > (uint64_t)INT64_MAX - host->page_bytes)
		return -EINVAL;
	if ((r->op == GLOOP_CONNECT || r->op == GLOOP_BIND) && r->offset >> 48)
		return -EINVAL;
	if (r->op == GLOOP_OPEN &&
		(!r->bytes || r->bytes >= PATH_MAX || r->flags & ~GLOOP_OPEN_FLAGS ||
			!(r->flags & (GLOOP_FOR_READING | GLOOP_FOR_WRITING))))
		return -EINVAL;
	if (r->op == GLOOP_OPEN && r->flags & GLOOP_EMPTY && !(r->flags & GLOOP_FOR_WRITING))
		return -EINVAL;
	return 0;
}

int request_take(struct host *host, struct request *r)
{
	struct gloop_rpc *rpc = r->rpc;
	uint32_t page = __atomic_load_n(&rpc->page, __ATOMIC_RELAXED);
	int error;

	r->op = __atomic_load_n(&rpc->op, __ATOMIC_RELAXED);
	r->flags = __atomic_load_n(&rpc->flags, __ATOMIC_RELAXED);
	r->index = __atomic_load_n(&rpc->fd, __ATOMIC_RELAXED);
	r->offset = __atomic_load_n(&rpc->offset, __ATOMIC_RELAXED);
	r->bytes = __atomic_load_n(&rpc->bytes, __ATOMIC_RELAXED);
	r->destination = r->source = r->mapped = r->length = 0;
	r->unfilled = r->again = false;
	r->file = NULL;
	r->made = -1;
	r->moved = r->deadline_ns = 0;
	r->placed = false;
	if (!r->op || r->op >= array_length(operations) || page >= host->page_count)
		return -EINVAL;
	r->page = host->pages + ((size_t)r->block * host->page_count + page) * host->page_bytes;
	if (operation_of(r)->maps)
		r->length = __atomic_load_n(&rpc->destination, __ATOMIC_RELAXED);
	if (operation_of(r)->brings || operation_of(r)->copies)
		r->destination = __atomic_load_n(&rpc->destination, __ATOMIC_RELAXED);
	r->unfilled = operation_of(r)->page && !operation_of(r)->brings && r->bytes &&
		      !__atomic_load_n(&rpc->filled, __ATOMIC_RELAXED);
	if (operation_of(r)->copies || r->unfilled)
		r->source = __atomic_load_n(&rpc->source, __ATOMIC_RELAXED);
	error = check(host, r);
	if (error || operation_of(r)->uses == KIND_NONE)
		return error;
	r->file = table_get(&host->table, r->index);
	if (!r->file)
		return -EBADF;
	return r->file->kind == operation_of(r)->uses ? 0 : -EINVAL;
}

bool request_try(struct host *host, struct request *r)
{
	if (r->op == GLOOP_CLOSE) {
		r->result = table_close(&host->table, r->index);
		return true;
	}
	if (r->op == GLOOP_UNMAP) {
		r->result = map_remove(host, r->offset);
		return true;
	}
	r->result =
		operation_of(r)->blocks && r->file ? move_directly(host, r, no_wait(r)) : -ENOTSUP;
	host->reaches |= r->result != -ENOTSUP;
	if (r->result < 0 && !r->unfilled)
		r->result = operation_of(r)->perform(r, false);
	return r->result != -EAGAIN && !request_needs_page(r);
}

bool request_needs_page(const struct request *r)
{
	return r->unfilled && r->result == -ENOTSUP;
}

void request_complete(const struct host *host, struct request *r)
{
	if (operation_of(r)->maps) {
		r->result = map_file(host, r);
		return;
	}
	if (!r->unfilled) {
		r->result = operation_of(r)->perform(r, true);
		return;
	}
	cuCtxSetCurrent(host->context);
	r->result = move_directly(host, r, 0);
	if (r->result == -EAGAIN)
		r->result = -ENOTSUP;
}

bool request_blocks(const struct request *r)
{
	return operation_of(r)->blocks;
}

bool request_copies(const struct request *r)
{
	return operation_of(r)->copies;
}

bool request_unmaps(const struct request *r)
{
	return r->op == GLOOP_UNMAP;
}

bool request_is_timer(const struct request *r)
{
	return !operation_of(r)->waits;
}

int request_wait(struct host *host, struct request *r)
{
	struct watch *watch = r->file ? &r->file->watch : &r->watch;
	int error = table_watch(&host->table, watch, r->file ? r->file->fd : r->made);

	if (!error)
		list_append(&watch->waiters[operation_of(r)->side], &r->link);
	return error;
}

void request_finish(struct host *host, struct request *r)
{
	table_unwatch(&host->table, &r->watch, r->made);
	if (r->made >= 0 && r->result < 0)
		close(r->made);
	else if (r->made >= 0)
		r->result = table_add(&host->table, r->made, operation_of(r)->makes);
	r->made = -1;
	if (r->mapped) {
		int error = map_add(host, r->mapped);

		r->placed = true; /* nothing of it is in the page */
		r->result = error ? error : r->result;
	}
	r->mapped = 0;
	if (r->file)
		table_put(&host->table, r->file);
	r->file = NULL;
}
