/* SPDX-License-Identifier: MIT
 *
 * The descriptors of a run: see internal.h.
 */
#include "lib/gloop/internal.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

void table_init(struct table *table)
{
	memset(table, 0, sizeof(*table));
}

static void file_close(struct file *file)
{
	close(file->fd);
	*file = (struct file){0};
}

void table_finish(struct table *table)
{
	for (int i = 0; i < TABLE_FILES; i++)
		if (table->files[i].kind != KIND_NONE)
			file_close(&table->files[i]);
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

void table_put(struct file *file)
{
	if (!--file->users && file->closed)
		file_close(file);
}

int table_close(struct table *table, int32_t index)
{
	struct file *file = find(table, index);

	if (!file)
		return -EBADF;
	file->closed = true;
	if (!file->users)
		file_close(file);
	return 0;
}
