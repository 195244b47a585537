/* SPDX-License-Identifier: MIT
 *
 * The descriptors of a run: see internal.h.
 */
#include "lib/gloop/internal.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

int table_init(struct table *table)
{
	memset(table, 0, sizeof(*table));
	table->epoll = epoll_create1(EPOLL_CLOEXEC);
	return table->epoll < 0 ? -errno : 0;
}

static void file_close(struct table *table, struct file *file)
{
	table_unwatch(table, &file->watch, file->fd);
	close(file->fd);
	*file = (struct file){0};
}

void table_finish(struct table *table)
{
	for (int i = 0; i < TABLE_FILES; i++)
		if (table->files[i].kind != KIND_NONE)
			file_close(table, &table->files[i]);
	if (table->epoll >= 0)
		close(table->epoll);
}

/* At edges: a request has been tried in vain before it waits. */
int table_watch(struct table *table, struct watch *watch, int fd)
{
	struct epoll_event event = {EPOLLIN | EPOLLOUT | EPOLLET, {.ptr = watch}};

	if (watch->is_on)
		return 0;
	if (epoll_ctl(table->epoll, EPOLL_CTL_ADD, fd, &event) < 0)
		return -errno;
	list_init(&watch->waiters[SIDE_IN]);
	list_init(&watch->waiters[SIDE_OUT]);
	watch->is_on = true;
	return 0;
}

void table_unwatch(struct table *table, struct watch *watch, int fd)
{
	if (watch->is_on)
		epoll_ctl(table->epoll, EPOLL_CTL_DEL, fd, NULL);
	watch->is_on = false;
}

static bool is_in_memory(int fd)
{
	struct statfs stat;

	return !fstatfs(fd, &stat) && stat.f_type == TMPFS_MAGIC;
}

int table_add(struct table *table, int fd, enum kind kind)
{
	for (int i = 0; i < TABLE_FILES; i++)
		if (table->files[i].kind == KIND_NONE) {
			table->files[i] = (struct file){.kind = kind,
				.fd = fd,
				.in_memory = kind == KIND_FILE && is_in_memory(fd)};
			return i;
		}
	close(fd);
	return -EMFILE;
}

static bool is_stream(int fd)
{
	socklen_t bytes = sizeof(int);
	int type;

	return !getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &bytes) && type == SOCK_STREAM;
}

/* Datagrams would be cut, and what is appended does not go to its offset. */
static enum kind kind_of(int fd, mode_t mode)
{
	int flags = fcntl(fd, F_GETFL);

	if (S_ISREG(mode) && !(flags & O_APPEND))
		return KIND_FILE;
	return S_ISSOCK(mode) && flags & O_NONBLOCK && is_stream(fd) ? KIND_SOCKET : KIND_NONE;
}

int table_add_copy(struct table *table, int fd)
{
	enum kind kind;
	struct stat stat;
	int copy;

	if (fstat(fd, &stat) < 0)
		return -EINVAL;
	kind = kind_of(fd, stat.st_mode);
	if (kind == KIND_NONE)
		return -EINVAL;
	copy = fcntl(fd, F_DUPFD_CLOEXEC, 3);
	return copy < 0 ? -errno : table_add(table, copy, kind);
}

static struct file *find(struct table *table, int32_t index)
{
	struct file *file;

	if (index < 0 || index >= TABLE_FILES)
		return NULL;
	file = &table->files[index];
	return file->kind == KIND_NONE || file->closed ? NULL : file;
}

struct file *table_get(struct table *table, int32_t index)
{
	struct file *file = find(table, index);

	if (file)
		file->users++;
	return file;
}

void table_put(struct table *table, struct file *file)
{
	if (!--file->users && file->closed)
		file_close(table, file);
}

int table_close(struct table *table, int32_t index)
{
	struct file *file = find(table, index);

	if (!file)
		return -EBADF;
	file->closed = true;
	if (!file->users)
		file_close(table, file);
	return 0;
}
