/* SPDX-License-Identifier: MIT
 *
 * See worker_cgroup.h.
 */
#include "gdevd/worker_cgroup.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"

#define PREFIX "gdev-worker-"
#define LEAF "gdevd" /* cgroup v2: where gdevd itself is */
#define ENTER_TRIES 8

enum file { FILE_LIMIT, FILE_SWAP_LIMIT, FILE_USE, FILE_EVENTS };

static const char *file_name(const struct worker_cgroups *cgroups, enum file file)
{
	static const char *const v2[] = {
		"memory.max", "memory.swap.max", "memory.current", "memory.events"};
	static const char *const v1[] = {"memory.limit_in_bytes", "memory.memsw.limit_in_bytes",
		"memory.usage_in_bytes", "memory.oom_control"};

	return cgroups->v1 ? v1[file] : v2[file];
}

/* ---- files ---- */

static int open_file(const char *directory, const char *name, int flags)
{
	char path[PATHS_MAX + 64];
	int fd;

	snprintf(path, sizeof path, "%s/%s", directory, name);
	fd = open(path, flags | O_CLOEXEC);
	return fd < 0 ? -errno : fd;
}

static int write_file(const char *directory, const char *name, const char *text)
{
	autoclose int fd = open_file(directory, name, O_WRONLY);

	if (fd < 0)
		return fd;
	return write(fd, text, strlen(text)) < 0 ? -errno : 0;
}

/* As much as there is room for. */
static int read_file(const char *directory, const char *name, char *text, size_t size)
{
	autoclose int fd = open_file(directory, name, O_RDONLY);
	ssize_t length = fd < 0 ? fd : read(fd, text, size - 1);

	text[max_of(length, (ssize_t)0)] = '\0';
	return fd < 0 ? fd : length < 0 ? -errno : 0;
}

static int write_number(const char *directory, const char *name, uint64_t number)
{
	char text[24];

	snprintf(text, sizeof text, "%llu", (unsigned long long)number);
	return write_file(directory, name, text);
}

static void group_path(
	const struct worker_cgroups *cgroups, pid_t worker, char path[PATHS_MAX + 32])
{
	snprintf(path, PATHS_MAX + 32, "%s/" PREFIX "%d", cgroups->path, (int)worker);
}

/* ---- where they are ---- */

/* Whether a list with blanks or commas between its words has that one. */
static bool has_word(const char *list, const char *word)
{
	size_t length = strlen(word);

	for (; *list; list += strcspn(list, " ,\n"), list += strspn(list, " ,\n"))
		if (!strncmp(list, word, length) && strcspn(list, " ,\n") == length)
			return true;
	return false;
}

/* A line of proc_pid_cgroup(5) is ID:CONTROLLERS:PATH; that of cgroup v2 has no controllers. */
static bool own_group(const char *lines, const char *controller, char path[PATHS_MAX])
{
	autofree char *copy = strdup(lines);
	char *rest = copy, *line;

	while (rest && (line = strsep(&rest, "\n"))) {
		char *controllers = strchr(line, ':'), *at;
		if (!controllers || !(at = strchr(++controllers, ':')))
			continue;
		*at++ = '\0';
		if (*controller ? !has_word(controllers, controller) : *controllers)
			continue;
		return snprintf(path, PATHS_MAX, "%s", strcmp(at, "/") ? at : "") < PATHS_MAX;
	}
	return false;
}

/* The group is this process's alone, which then is in LEAF. */
static int become_leaf(struct worker_cgroups *cgroups)
{
	char text[64], leaf[PATHS_MAX + 16];
	int error = read_file(cgroups->path, "cgroup.procs", text, sizeof text);

	if (error)
		return error;
	if (strtol(text, NULL, 10) != getpid() || strchr(text, '\n') != strrchr(text, '\n'))
		return -EBUSY;
	snprintf(leaf, sizeof leaf, "%s/" LEAF, cgroups->path);
	if (mkdir(leaf, 0755) && errno != EEXIST)
		return -errno;
	return write_file(leaf, "cgroup.procs", text);
}

static int find_v2(struct worker_cgroups *cgroups)
{
	char text[256], *last = strrchr(cgroups->path, '/');
	bool is_leaf = last && !strcmp(last, "/" LEAF);
	int error;

	if (is_leaf)
		*last = '\0';
	error = read_file(cgroups->path, "cgroup.controllers", text, sizeof text);
	if (!error && !has_word(text, "memory"))
		error = -ENODEV;
	if (!error && !is_leaf)
		error = become_leaf(cgroups);
	return error ? error : write_file(cgroups->path, "cgroup.subtree_control", "+memory");
}

static int find_v1(struct worker_cgroups *cgroups)
{
	return access(cgroups->path, W_OK | X_OK) ? -errno : 0;
}

static void say_why(struct worker_cgroups *cgroups, int error)
{
	const char *reason = error == -EBUSY ? "other processes are in gdevd's own cgroup"
			     : error == -ENODEV
				     ? "gdevd's cgroup has no memory controller (Delegate=memory)"
				     : "gdevd may not make cgroups (Delegate=memory)";

	snprintf(cgroups->why, sizeof cgroups->why, "%s: %s", reason, strerror(-error));
	*cgroups->path = '\0';
}

void worker_cgroups_find(struct worker_cgroups *cgroups, const char *mounts, const char *own)
{
	char path[PATHS_MAX], lines[4096];
	int error = read_file("", own, lines, sizeof lines);

	if (error)
		return say_why(cgroups, error);
	error = -ENODEV;
	cgroups->v1 = own_group(lines, "memory", path);
	if (cgroups->v1 || own_group(lines, "", path))
		error = snprintf(cgroups->path, PATHS_MAX, "%s%s%s", mounts,
				cgroups->v1 ? "/memory" : "", path) < PATHS_MAX
				? 0
				: -ENAMETOOLONG;
	if (!error)
		error = cgroups->v1 ? find_v1(cgroups) : find_v2(cgroups);
	if (error)
		say_why(cgroups, error);
}

/* ---- groups ---- */

static int make_group(const struct worker_cgroups *cgroups, const char *group)
{
	const char *none = cgroups->v1 ? "-1" : "max";

	if (!mkdir(group, 0755))
		return 0;
	if (errno != EEXIST)
		return -errno;
	/* Of a worker that had the same pid. */
	write_file(group, file_name(cgroups, FILE_SWAP_LIMIT), none);
	return write_file(group, file_name(cgroups, FILE_LIMIT), none);
}

int worker_cgroup_enter(const struct worker_cgroups *cgroups, pid_t worker)
{
	char group[PATHS_MAX + 32];
	int error = -ENOENT;

	if (!*cgroups->path)
		return 0;
	group_path(cgroups, worker, group);
	/* A sweep, of this gdevd or another, may take it away until the worker is in it; ENODEV: after it was opened. */
	for (unsigned tries = 0; (error == -ENOENT || error == -ENODEV) && tries < ENTER_TRIES;
		tries++) {
		error = make_group(cgroups, group);
		if (!error)
			error = write_number(group, "cgroup.procs", (uint64_t)worker);
	}
	return error == -ESRCH ? 0 : error;
}

/* None is "max", or in v1 as many pages as a number can say. */
static bool is_limit(const char *text)
{
	return strncmp(text, "max", 3) && strtoull(text, NULL, 10) < INT64_MAX / 2;
}

/* In v1 it is the sum of both. It is not there where the kernel does not count what is swapped out. */
static void limit_swap(const struct worker_cgroups *cgroups, const char *group, uint64_t bytes)
{
	write_number(group, file_name(cgroups, FILE_SWAP_LIMIT), cgroups->v1 ? 2 * bytes : bytes);
}

int worker_cgroup_limit(const struct worker_cgroups *cgroups, pid_t worker, uint64_t more_bytes)
{
	char group[PATHS_MAX + 32], text[32];
	uint64_t bytes;
	int error;

	if (!*cgroups->path)
		return 0;
	group_path(cgroups, worker, group);
	error = read_file(group, file_name(cgroups, FILE_LIMIT), text, sizeof text);
	if (!error && is_limit(text))
		return 0;
	if (!error)
		error = read_file(group, file_name(cgroups, FILE_USE), text, sizeof text);
	if (error)
		return error;
	bytes = strtoull(text, NULL, 10) + more_bytes;
	limit_swap(cgroups, group, bytes); /* in v1 never below the other: first where both grow */
	error = write_number(group, file_name(cgroups, FILE_LIMIT), bytes);
	limit_swap(cgroups, group, bytes);
	return error;
}

bool worker_cgroup_ran_out(const struct worker_cgroups *cgroups, pid_t worker)
{
	char group[PATHS_MAX + 32], text[512];
	const char *killed;

	if (!*cgroups->path)
		return false;
	group_path(cgroups, worker, group);
	if (read_file(group, file_name(cgroups, FILE_EVENTS), text, sizeof text))
		return false;
	killed = strstr(text, "oom_kill ");
	return killed && strtoull(killed + strlen("oom_kill "), NULL, 10);
}

void worker_cgroups_sweep(const struct worker_cgroups *cgroups)
{
	DIR *directory = *cgroups->path ? opendir(cgroups->path) : NULL;
	const struct dirent *entry;

	while (directory && (entry = readdir(directory)))
		if (!strncmp(entry->d_name, PREFIX, strlen(PREFIX)))
			unlinkat(dirfd(directory), entry->d_name, AT_REMOVEDIR);
	if (directory)
		closedir(directory);
}
