/* SPDX-License-Identifier: MIT
 *
 * See paths.h.
 */
#include "base/paths.h"

#include <errno.h>
#include <pwd.h>
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

static int user_runtime_dir(char *path)
{
	const char *xdg = environment("XDG_RUNTIME_DIR");

	if (xdg)
		return fits(snprintf(path, PATHS_MAX, "%s/gdev", xdg));
	return fits(snprintf(path, PATHS_MAX, "/tmp/gdev-%u", (unsigned)geteuid()));
}

int paths_runtime_dir(char *path)
{
	const char *chosen = environment("GDEV_RUNTIME_DIR");

	if (chosen)
		return fits(snprintf(path, PATHS_MAX, "%s", chosen));
	if (geteuid() == 0)
		return fits(snprintf(path, PATHS_MAX, "/run/gdev"));
	return user_runtime_dir(path);
}

int paths_client_dir(unsigned index, char *path)
{
	const char *chosen = environment("GDEV_RUNTIME_DIR");
	struct stat status;

	if (index == 0)
		return fits(snprintf(path, PATHS_MAX, "%s", chosen ? chosen : "/run/gdev"));
	if (index > 1 || chosen || geteuid() == 0)
		return -ENOENT;
	/* In /tmp anybody may have made a directory of that name, or may just be about to. */
	if (user_runtime_dir(path) || lstat(path, &status) || status.st_uid != geteuid())
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
