/* SPDX-License-Identifier: MIT
 *
 * See paths.h.
 */
#include "base/paths.h"

#include <errno.h>
#include <glob.h>
#include <pwd.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"

static const char *environment(const char *name)
{
	const char *value = secure_getenv(name);

	return value && *value ? value : NULL;
}

static int fits(int length)
{
	return length < PATHS_MAX ? 0 : -ENAMETOOLONG;
}

/* A directory of this user that nobody else can put things into. */
static bool is_own(const char *path)
{
	struct stat status;

	return !lstat(path, &status) && S_ISDIR(status.st_mode) && status.st_uid == geteuid() &&
	       !(status.st_mode & 022);
}

/* The first by name, so that all processes find the same. */
static bool find_other(const char *prefix, char *path)
{
	char pattern[PATHS_MAX];
	glob_t found;
	size_t i;

	snprintf(pattern, sizeof pattern, "%s-*", prefix);
	if (glob(pattern, 0, NULL, &found))
		return false;
	for (i = 0; i < found.gl_pathc && !is_own(found.gl_pathv[i]); i++)
		;
	if (i < found.gl_pathc)
		snprintf(path, PATHS_MAX, "%s", found.gl_pathv[i]);
	globfree(&found);
	return i < found.gl_pathc;
}

/* In /tmp anybody may have made a directory of the name that is ours. Then there is one with a random end, which we
 * know by its owner: nobody else can make one that is ours. */
static int temporary_dir(bool make, char *path)
{
	char prefix[32];
	struct stat status;

	snprintf(prefix, sizeof prefix, "/tmp/gdev-%u", (unsigned)geteuid());
	strcpy(path, prefix);
	if (is_own(path) || find_other(prefix, path))
		return 0;
	if (!make)
		return -ENOENT;
	if (lstat(path, &status) && errno == ENOENT)
		return 0;
	strcat(path, "-XXXXXX");
	return mkdtemp(path) ? 0 : -errno;
}

static int user_runtime_dir(bool make, char *path)
{
	const char *xdg = environment("XDG_RUNTIME_DIR");

	if (xdg)
		return fits(snprintf(path, PATHS_MAX, "%s/gdev", xdg));
	return temporary_dir(make, path);
}

int paths_runtime_dir(char *path)
{
	const char *chosen = environment("GDEV_RUNTIME_DIR");

	if (chosen)
		return fits(snprintf(path, PATHS_MAX, "%s", chosen));
	if (geteuid() == 0)
		return fits(snprintf(path, PATHS_MAX, "/run/gdev"));
	return user_runtime_dir(true, path);
}

int paths_client_dir(unsigned index, char *path)
{
	const char *chosen = environment("GDEV_RUNTIME_DIR");

	if (index == 0)
		return fits(snprintf(path, PATHS_MAX, "%s", chosen ? chosen : "/run/gdev"));
	if (index > 1 || chosen || geteuid() == 0)
		return -ENOENT;
	if (user_runtime_dir(false, path) || !is_own(path))
		return -ENOENT;
	return 0;
}

int paths_state_dir(char *path)
{
	const char *xdg = environment("XDG_CACHE_HOME"), *home = environment("HOME");
	const char *chosen = environment("GDEV_STATE_DIR");
	const struct passwd *user;

	if (chosen)
		return fits(snprintf(path, PATHS_MAX, "%s", chosen));
	if (geteuid() == 0)
		return fits(snprintf(path, PATHS_MAX, "/var/cache/gdev"));
	if (xdg)
		return fits(snprintf(path, PATHS_MAX, "%s/gdev", xdg));
	if (!home && (user = getpwuid(geteuid())))
		home = user->pw_dir;
	return fits(snprintf(path, PATHS_MAX, "%s/.cache/gdev", home ? home : ""));
}

int paths_sibling(const char *const *places, char *path)
{
	char self[PATHS_MAX], joined[2 * PATHS_MAX];
	ssize_t length = readlink("/proc/self/exe", self, sizeof self - 1);

	if (length < 0)
		return -errno;
	self[length] = '\0';
	*strrchr(self, '/') = '\0';
	for (; *places; places++) {
		snprintf(joined, sizeof joined, "%s/%s", self, *places);
		autofree char *real = realpath(joined, NULL);
		if (real)
			return fits(snprintf(path, PATHS_MAX, "%s", real));
	}
	return -ENOENT;
}
