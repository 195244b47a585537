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
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/fd.h"
#include "base/log.h"

#define DIRECTORY (O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC)
#define NAME_MAX_BYTES (2 * CODE_KEY_BYTES + 1)
#define TEMPORARY ".write-"
#define BLOCK_BYTES 4096
#define BUSY_MAX 2 /* threads of libuv's at a time: worker processes are started on them, too */

struct cache_user {
	struct list link; /* cache.users */
	uid_t uid;
	struct list requests; /* in order; the first is at work if `busy` */
	bool busy;
	bool warned;
	/* These are the thread's that is at work. */
	struct cache *cache;
	int dir;        /* -1: not opened yet */
	uint64_t bytes; /* of the disk that its files take */
};

/* A file of a user, when room has to be made. */
struct cached {
	char name[NAME_MAX_BYTES];
	uint64_t bytes;
	struct timespec used;
};

static void key_name(const uint8_t key[CODE_KEY_BYTES], char name[NAME_MAX_BYTES])
{
	for (int i = 0; i < CODE_KEY_BYTES; i++)
		snprintf(name + 2 * i, 3, "%02x", key[i]);
}

/* What a file takes of the disk: its blocks, and one more for its inode and its name. */
static uint64_t disk_bytes(const struct stat *status)
{
	return max_of((uint64_t)status->st_blocks * 512, (uint64_t)status->st_size) + BLOCK_BYTES;
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

int cache_init(struct cache *cache, uv_loop_t *loop, const char *state_dir, uint64_t limit_bytes)
{
	autoclose int parent = -1;
	int error;

	*cache = (struct cache){.loop = loop, .dir = -1, .limit_bytes = limit_bytes};
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

static void pay_no_more(struct cache_request *request)
{
	user_release(request->payer, 1);
	user_put(request->payer);
	request->payer = NULL;
}

static void destroy_request(struct cache_request *request)
{
	list_remove(&request->link);
	list_remove(&request->queued);
	if (request->fd >= 0)
		close(request->fd);
	pay_no_more(request);
	free(request);
}

void cache_stop(struct cache *cache)
{
	struct cache_request *request, *after;
	struct cache_user *user;

	list_for_each (user, &cache->users, link)
		list_for_each_safe (request, after, &user->requests, queued)
			if (!user->busy || request->queued.prev != &user->requests)
				destroy_request(request);
			else
				pay_no_more(request);
}

void cache_finish(struct cache *cache)
{
	struct cache_user *user, *after;

	list_for_each_safe (user, after, &cache->users, link) {
		list_remove(&user->link);
		if (user->dir >= 0)
			close(user->dir);
		free(user);
	}
	if (cache->dir >= 0)
		close(cache->dir);
	cache->dir = -1;
}

/* ---- on a thread, one request of a user at a time ---- */

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
		file->bytes = disk_bytes(&status);
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
static void make_room(struct cache_user *user, uint64_t bytes)
{
	autofree struct cached *files = NULL;
	uint64_t limit = user->cache->limit_bytes, goal = limit - min_of(limit, bytes);
	ssize_t count;

	if (user->bytes <= goal)
		return;
	count = list_files(user, false, &files);
	if (count < 0)
		return;
	qsort(files, (size_t)count, sizeof *files, compare_use);
	goal -= min_of(goal, limit / 10);
	user->bytes = 0;
	for (ssize_t i = 0; i < count; i++)
		user->bytes += files[i].bytes;
	for (ssize_t i = 0; i < count && user->bytes > goal; i++)
		if (!unlinkat(user->dir, files[i].name, 0))
			user->bytes -= files[i].bytes;
}

/* The first time: what an earlier daemon left is counted. */
static int open_user(struct cache_user *user)
{
	autofree struct cached *files = NULL;
	char name[16];
	ssize_t count;

	if (user->dir >= 0)
		return 0;
	if (user->cache->dir < 0)
		return -ENOENT;
	snprintf(name, sizeof name, "%u", (unsigned)user->uid);
	user->dir = open_directory(user->cache->dir, name);
	if (user->dir < 0) {
		if (!user->warned)
			log_warning("compiled code of uid %s is not cached: %s", name,
				strerror(-user->dir));
		user->warned = true;
		return -ENOENT;
	}
	count = list_files(user, true, &files);
	for (ssize_t i = 0; i < count; i++)
		user->bytes += files[i].bytes;
	return 0;
}

static int open_cached(const struct cache_user *user, struct cache_request *request)
{
	char name[NAME_MAX_BYTES];
	struct stat status;
	autoclose int fd = -1;

	key_name(request->key, name);
	fd = openat(user->dir, name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK);
	if (fd < 0 || fstat(fd, &status) || !S_ISREG(status.st_mode))
		return -ENOENT;
	futimens(fd, NULL); /* its last use */
	request->bytes = (uint64_t)status.st_size;
	request->fd = steal_fd(&fd);
	return 0;
}

static int copy_bytes(int from, int to, uint64_t bytes)
{
	off_t offset = 0;

	while ((uint64_t)offset < bytes) {
		ssize_t part = sendfile(to, from, &offset, bytes - (uint64_t)offset);
		if (part <= 0)
			return part ? -errno : -EIO;
	}
	return 0;
}

/* Readers see the file that was there, or this one whole. */
static int store_code(struct cache_user *user, const struct cache_request *request)
{
	char name[NAME_MAX_BYTES], temporary[32];
	uint64_t replaced = 0;
	autoclose int fd = -1;
	struct stat status;
	int error;

	key_name(request->key, name);
	make_room(user, align_up(request->bytes, BLOCK_BYTES) + BLOCK_BYTES);
	snprintf(temporary, sizeof temporary, TEMPORARY "%d", (int)getpid());
	fd = openat(
		user->dir, temporary, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
	if (fd < 0)
		return -errno;
	error = copy_bytes(request->fd, fd, request->bytes);
	if (!fstatat(user->dir, name, &status, AT_SYMLINK_NOFOLLOW) && S_ISREG(status.st_mode))
		replaced = disk_bytes(&status);
	if (!error && (fstat(fd, &status) || renameat(user->dir, temporary, user->dir, name)))
		error = -errno;
	if (error)
		unlinkat(user->dir, temporary, 0);
	else
		user->bytes += disk_bytes(&status) - min_of(replaced, user->bytes);
	return error;
}

static void do_work(uv_work_t *work)
{
	struct cache_request *request = container_of(work, struct cache_request, work);
	struct cache_user *user = request->user;

	request->status = open_user(user);
	if (!request->status && request->what == CACHE_READ)
		request->status = open_cached(user, request);
	if (!request->status && request->what == CACHE_STORE)
		request->status = store_code(user, request);
	/* Freeing the memory takes a while, too. */
	if (request->what != CACHE_READ)
		close(steal_fd(&request->fd));
}

/* ---- on the loop ---- */

static void on_worked(uv_work_t *work, int status);

/* Whoever waits longest of those who have nothing at work. Others use the threads too. */
static void begin_next(struct cache *cache)
{
	struct cache_user *user;

	list_for_each (user, &cache->users, link) {
		struct cache_request *request =
			list_first(&user->requests, struct cache_request, queued);

		if (cache->busy == BUSY_MAX)
			return;
		if (user->busy || !request)
			continue;
		user->busy = true;
		cache->busy++;
		uv_queue_work(cache->loop, &request->work, do_work, on_worked);
	}
}

static void on_worked(uv_work_t *work, int status)
{
	struct cache_request *request = container_of(work, struct cache_request, work);
	struct cache_user *user = request->user;
	struct cache *cache = user->cache;

	user->busy = false;
	cache->busy--;
	list_remove(&request->queued);
	list_remove(&user->link);
	list_append(&cache->users, &user->link);
	begin_next(cache);
	if (request->done)
		request->done(request);
	destroy_request(request);
}

static struct cache_user *find_user(struct cache *cache, uid_t uid)
{
	struct cache_user *user;

	list_for_each (user, &cache->users, link)
		if (user->uid == uid)
			return user;
	user = calloc(1, sizeof *user);
	if (!user)
		return NULL;
	*user = (struct cache_user){.uid = uid, .cache = cache, .dir = -1};
	list_init(&user->requests);
	list_append(&cache->users, &user->link);
	return user;
}

static int create_request(struct user *payer, const uint8_t key[CODE_KEY_BYTES], uint64_t bytes,
	struct cache_request **result)
{
	struct cache_request *request = calloc(1, sizeof *request);

	if (!request)
		return -ENOMEM;
	if (!user_hold(payer, 1)) {
		free(request);
		return -EAGAIN;
	}
	request->payer = user_ref(payer);
	memcpy(request->key, key, CODE_KEY_BYTES);
	list_init(&request->link);
	list_init(&request->queued);
	request->bytes = bytes;
	request->fd = -1;
	*result = request;
	return 0;
}

int cache_get(struct user *payer, const uint8_t key[CODE_KEY_BYTES], struct cache_request **request)
{
	return create_request(payer, key, 0, request);
}

int cache_put(struct cache *cache, struct user *payer, const uint8_t key[CODE_KEY_BYTES],
	uint64_t bytes, struct cache_request **result)
{
	struct cache_request *request;
	int error;

	if (bytes == 0 || bytes > cache->limit_bytes / 2)
		return -EDQUOT;
	error = create_request(payer, key, bytes, &request);
	if (error)
		return error;
	request->what = CACHE_STORE;
	request->fd = fd_shared_memory("gdev-code", bytes);
	if (request->fd < 0) {
		error = request->fd;
		destroy_request(request);
		return error;
	}
	*result = request;
	return 0;
}

void cache_submit(struct cache *cache, uid_t uid, struct cache_request *request,
	void (*done)(struct cache_request *request))
{
	struct cache_user *user = find_user(cache, uid);

	request->submitted = true;
	request->done = done;
	request->user = user;
	if (!user) {
		request->status = -ENOMEM;
		if (done)
			done(request);
		destroy_request(request);
		return;
	}
	list_append(&user->requests, &request->queued);
	begin_next(cache);
}

void cache_drop(struct cache *cache, uid_t uid, struct cache_request *request)
{
	request->what = CACHE_DROP;
	cache_submit(cache, uid, request, NULL);
}
