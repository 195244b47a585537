/* SPDX-License-Identifier: MIT
 *
 * Where things are: the runtime directory with gdevd's sockets, the state directory, and the other
 * parts of gdev, installed or in a build tree. Results are NUL-terminated in the caller's buffer of
 * PATHS_MAX bytes; -ENAMETOOLONG when they do not fit, so that a socket address always does.
 */
#ifndef GDEV_BASE_PATHS_H
#define GDEV_BASE_PATHS_H

#define PATHS_MAX 512
#define PATHS_SOCKET_MAX 108 /* sizeof sun_path */

/* The directory that a gdevd of this user uses: $GDEV_RUNTIME_DIR, else /run/gdev for root, else
 * $XDG_RUNTIME_DIR/gdev, else /tmp/gdev-UID. If another user has made that, it is /tmp/gdev-UID-XXXXXX, which this
 * call makes: it is for gdevds, and not for programs that look for one. */
int paths_runtime_dir(char *path);

/* The directories in which a client looks for a gdevd, best first, by index from 0: the one that
 * $GDEV_RUNTIME_DIR names, or else /run/gdev and then the user's own. -ENOENT past the last. */
int paths_client_dir(unsigned index, char *path);

/* $GDEV_STATE_DIR, else /var/cache/gdev for root, else $XDG_CACHE_HOME/gdev, else ~/.cache/gdev. */
int paths_state_dir(char *path);

/* Another part of gdev, relative to the directory of the running program: tries `places` (relative
 * paths of the file, NULL-terminated) in turn. -ENOENT when it is in none of them. */
int paths_sibling(const char *const *places, char *path);

#endif
