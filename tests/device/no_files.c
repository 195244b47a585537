/* SPDX-License-Identifier: MIT
 *
 * The software GPU, but it cannot be given pages of files, as NVIDIA's driver cannot those of a disk. A plugin of the same
 * name, which $GDEV_PLUGIN_DIR puts in the other's place; it finds that in the build tree.
 */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "device/ops.h"

extern struct device_ops gdev_device_backend;
__attribute__((visibility("default"))) struct device_ops gdev_device_backend;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* guards the next two */
static int maps = -1; /* opened before the worker's sandbox is there */
static char text[1 << 20];

static void read_maps(void)
{
	size_t length = 0;
	ssize_t part;

	lseek(maps, 0, SEEK_SET);
	while ((part = read(maps, text + length, sizeof text - 1 - length)) > 0)
		length += (size_t)part;
	text[length] = '\0';
}

/* Memory without a file, and memfds, are given to it as they are. */
static bool is_on_disk(uint64_t address)
{
	unsigned long from, to, inode;
	bool found = false;
	char *line, *rest = text;

	pthread_mutex_lock(&lock);
	read_maps();
	while (!found && (line = strsep(&rest, "\n")))
		found = sscanf(line, "%lx-%lx %*s %*x %*s %lu", &from, &to, &inode) == 3 &&
			address >= from && address < to && inode && !strstr(line, "/memfd:");
	pthread_mutex_unlock(&lock);
	return found;
}

static int refuse_files(struct device_space *space, uint64_t address, uint64_t bytes)
{
	return is_on_disk(address) ? -EINVAL : 0;
}

static void keep_registered(struct device_space *space, uint64_t address, uint64_t bytes)
{
}

__attribute__((constructor)) static void find_the_other(void)
{
	const struct device_ops *other;
	char path[4096];
	Dl_info self;
	char *end;
	void *handle;

	maps = open("/proc/self/maps", O_RDONLY | O_CLOEXEC);
	if (maps < 0 || !dladdr(&gdev_device_backend, &self))
		return;
	snprintf(path, sizeof path, "%s", self.dli_fname);
	end = strrchr(path, '/');
	snprintf(end, sizeof path - (size_t)(end - path), "/../../device/cpu/libgdev-cpu.so");
	handle = dlopen(path, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
	other = handle ? dlsym(handle, "gdev_device_backend") : NULL;
	if (!other)
		return; /* the registry says what is lacking */
	gdev_device_backend = *other;
	gdev_device_backend.host_register = refuse_files;
	gdev_device_backend.host_unregister = keep_registered;
}
