/* SPDX-License-Identifier: MIT
 *
 * See cache.h. Nothing here follows a symbolic link; directories are opened once and kept.
 */
#include "gdevd/cache.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/log.h"

#define DIRECTORY (O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC)
#define NAME_MAX_BYTES (2 * CACHE_KEY_BYTES + 1)
#define TEMPORARY ".write-"

struct cache_user {
	struct list link;
	uid_t uid;
	int dir;
	uint64_t bytes;  /* of its files */
	unsigned writes; /* makes temporary names unique */
};

/* A file of a user, when room has to be made. */
struct cached {
	char name[NAME_MAX_BYTES];
	uint64_t bytes;
	struct timespec used;
};

static void key_name(const uint8_t key[CACHE_KEY_BYTES], char name[NAME_MAX_BYTES])
{
	for (int i = 0; i < CACHE_KEY_BYTES; i++)
		snprintf(name + 2 * i, 3, "%02x", key[i]);
}

/* Makes the directories on the way to `path`, which is absolute or of this process. */
static int make_parents(const char *path)
{
	char part[4096];

	if (snprintf(part, sizeof part, "%s", path) >= (int)sizeof part)
		return -ENAMETOOLONG;
	for (char *slash = part + 1; (slash = strchr(slash, '/')); slash++) {
		*slash = '\0';
		if (mkdir(part, 0755) && errno != EEXIST)
			return -errno;
		*slash = '/';
	}
	if (mkdir(part, 0755) && errno != EEXIST)
		return -errno;
	return 0;
}

static int open_directory(int parent, const char *name)
{
	struct stat status;
	int dir;

	if (mkdirat(parent, name, 0700) && errno != EEXIST)
		return -errno;
	dir = openat(parent, name, DIRECTORY);
	if (dir < 0)
		return -errno;
	if (fstat(dir, &status) || status.st_uid != geteuid()) {
		close(dir);
		return -EPERM;
	}
	return dir;
}

int cache_init(struct cache *cache, const char *state_dir, uint64_t limit_bytes)
{
	autoclose int parent = -1;
	int error;

	*cache = (struct cache){.dir = -1, .limit_bytes = limit_bytes};
	list_init(&cache->users);
	error = make_parents(state_dir);
	if (error)
		return error;
	parent = open(state_dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (parent < 0)
		return -errno;
	cache->dir = open_directory(parent, "cache");
	return cache->dir < 0 ? cache->dir : 0;
}

void cache_finish(struct cache *cache)
{
	struct cache_user *user, *after;

	list_for_each_safe (user, after, &cache->users, link) {
		list_remove(&user->link);
		close(user->dir);
		free(user);
	}
	if (cache->dir >= 0)
		close(cache->dir);
	cache->dir = -1;
}

/* Lists a user's files: their number (and the array, the caller's), or -errno. Leftovers of a daemon
 * that died while a file was written are removed on the way. */
static ssize_t list_files(struct cache_user *user, bool clean, struct cached **result)
{
	autofree struct cached *files = NULL;
	size_t count = 0, capacity = 0;
	int copy = openat(user->dir, ".", DIRECTORY);
	DIR *dir = copy >= 0 ? fdopendir(copy) : NULL;
	const struct dirent *entry;
	struct stat status;

	if (!dir) {
		int error = -errno;
		if (copy >= 0)
			close(copy);
		return error;
	}
	while ((entry = readdir(dir))) {
		if (clean && !strncmp(entry->d_name, TEMPORARY, strlen(TEMPORARY)))
			unlinkat(user->dir, entry->d_name, 0);
		if (strlen(entry->d_name) != NAME_MAX_BYTES - 1 ||
			fstatat(user->dir, entry->d_name, &status, AT_SYMLINK_NOFOLLOW) ||
			!S_ISREG(status.st_mode))
			continue;
		if (count == capacity) {
			size_t larger = capacity ? 2 * capacity : 64;
			struct cached *grown = realloc(files, larger * sizeof *files);
			if (!grown) {
				closedir(dir);
				return -ENOMEM;
			}
			files = grown;
			capacity = larger;
		}
		struct cached *file = &files[count++];
		strcpy(file->name, entry->d_name);
		file->bytes = (uint64_t)status.st_size;
		file->used = status.st_mtim;
	}
	closedir(dir);
	*result = steal_pointer(&files);
	return (ssize_t)count;
}

static int compare_use(const void *left, const void *right)
{
	const struct cached *a = left, *b = right;

	if (a->used.tv_sec != b->used.tv_sec)
		return a->used.tv_sec < b->used.tv_sec ? -1 : 1;
	if (a->used.tv_nsec != b->used.tv_nsec)
		return a->used.tv_nsec < b->used.tv_nsec ? -1 : 1;
	return 0;
}

/* Removes the least recently used files until `bytes` more fit; a tenth of the limit more, so that it
 * is not done for every file. */
static void make_room(struct cache *cache, struct cache_user *user, uint64_t bytes)
{
	autofree struct cached *files = NULL;
	uint64_t goal = cache->limit_bytes - bytes;
	ssize_t count;

	if (user->bytes <= goal)
		return;
	count = list_files(user, false, &files);
	if (count < 0)
		return;
	qsort(files, (size_t)count, sizeof *files, compare_use);
	goal -= min_of(goal, cache->limit_bytes / 10);
	user->bytes = 0;
	for (ssize_t i = 0; i < count; i++)
		user->bytes += files[i].bytes;
	for (ssize_t i = 0; i < count && user->bytes > goal; i++)
		if (!unlinkat(user->dir, files[i].name, 0))
			user->bytes -= files[i].bytes;
}

static struct cache_user *find_user(struct cache *cache, uid_t uid)
{
	autofree struct cached *files = NULL;
	struct cache_user *user;
	char name[16];
	ssize_t count;

	list_for_each (user, &cache->users, link)
		if (user->uid == uid)
			return user;
	if (cache->dir < 0)
		return NULL;
	user = calloc(1, sizeof *user);
	if (!user)
		return NULL;
	snprintf(name, sizeof name, "%u", (unsigned)uid);
	user->uid = uid;
	user->dir = open_directory(cache->dir, name);
	if (user->dir < 0) {
		log_warning("compiled code of uid %u is not cached: %s", (unsigned)uid,
			strerror(-user->dir));
		free(user);
		return NULL;
	}
	count = list_files(user, true, &files);
	for (ssize_t i = 0; i < count; i++)
		user->bytes += files[i].bytes;
	list_append(&cache->users, &user->link);
	return user;
}

int cache_get(struct cache *cache, uid_t uid, const uint8_t key[CACHE_KEY_BYTES], int *result,
	uint64_t *bytes)
{
	struct cache_user *user = find_user(cache, uid);
	char name[NAME_MAX_BYTES];
	struct stat status;
	int fd;

	if (!user)
		return -ENOENT;
	key_name(key, name);
	fd = openat(user->dir, name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK);
	if (fd < 0)
		return -ENOENT;
	if (fstat(fd, &status) || !S_ISREG(status.st_mode)) {
		close(fd);
		return -ENOENT;
	}
	futimens(fd, NULL); /* its last use */
	*bytes = (uint64_t)status.st_size;
	*result = fd;
	return 0;
}

/* A file without a name where the file system can, or else one with a name that no key has. */
static int open_nameless(struct cache_user *user, struct cache_write *write)
{
	int fd = openat(user->dir, ".", O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);

	if (fd >= 0)
		return fd;
	snprintf(write->name, sizeof write->name, TEMPORARY "%d-%u", (int)getpid(), user->writes++);
	fd = openat(
		user->dir, write->name, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
	return fd < 0 ? -errno : fd;
}

int cache_put(struct cache *cache, uid_t uid, const uint8_t key[CACHE_KEY_BYTES], uint64_t bytes,
	struct cache_write **result)
{
	struct cache_user *user = find_user(cache, uid);
	char name[NAME_MAX_BYTES];
	struct stat status;
	struct cache_write *write;

	if (!user)
		return -ENOENT;
	key_name(key, name);
	if (!fstatat(user->dir, name, &status, AT_SYMLINK_NOFOLLOW))
		return -EEXIST;
	if (bytes == 0 || bytes > cache->limit_bytes / 2)
		return -EDQUOT;
	write = calloc(1, sizeof *write);
	if (!write)
		return -ENOMEM;
	list_init(&write->link);
	memcpy(write->key, key, CACHE_KEY_BYTES);
	write->bytes = bytes;
	write->dir = user->dir;
	write->fd = open_nameless(user, write);
	if (write->fd < 0) {
		int error = write->fd;
		free(write);
		return error;
	}
	*result = write;
	return 0;
}

void cache_abandon(struct cache_write *write)
{
	list_remove(&write->link);
	if (write->name[0])
		unlinkat(write->dir, write->name, 0);
	close(write->fd);
	free(write);
}

static int publish(struct cache_user *user, struct cache_write *write, const char *name)
{
	char self[32];

	if (write->name[0]) {
		if (renameat(user->dir, write->name, user->dir, name))
			return -errno;
		write->name[0] = '\0';
		return 0;
	}
	snprintf(self, sizeof self, "/proc/self/fd/%d", write->fd);
	if (linkat(AT_FDCWD, self, user->dir, name, AT_SYMLINK_FOLLOW))
		return -errno;
	return 0;
}

int cache_commit(struct cache *cache, uid_t uid, struct cache_write *write)
{
	struct cache_user *user = find_user(cache, uid);
	char name[NAME_MAX_BYTES];
	struct stat status;
	int error;

	if (!user || fstat(write->fd, &status) || (uint64_t)status.st_size != write->bytes) {
		cache_abandon(write);
		return user ? -EINVAL : -ENOENT;
	}
	make_room(cache, user, write->bytes);
	key_name(write->key, name);
	error = publish(user, write, name);
	if (!error)
		user->bytes += write->bytes;
	if (error == -EEXIST) /* somebody else compiled the same: as good */
		error = 0;
	cache_abandon(write);
	return error;
}
