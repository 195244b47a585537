/* SPDX-License-Identifier: MIT
 *
 * The cache of compiled code: one directory per uid of clients, one file per key, named by the key in
 * hex. Workers have no file system; they get descriptors. What a worker writes is without a name until it
 * is committed whole, so a reader never sees half a file. A uid's code is only ever given to workers
 * that serve this uid. When a uid's files exceed the limit, those unused for longest go.
 */
#ifndef GDEV_GDEVD_CACHE_H
#define GDEV_GDEVD_CACHE_H

#include <stdint.h>
#include <sys/types.h>

#include "base/list.h"

#define CACHE_KEY_BYTES 16

struct cache {
	int dir; /* -1: there is no cache */
	uint64_t limit_bytes;
	struct list users; /* struct cache_user */
};

/* A file between PUT and COMMIT. */
struct cache_write {
	struct list link; /* the owner's */
	uint8_t key[CACHE_KEY_BYTES];
	uint64_t bytes;
	int fd;
	char name[48]; /* "": the file has no name yet */
	int dir;
};

/* Opens or makes STATE_DIR/cache. -errno: the cache answers -ENOENT to all. */
int cache_init(struct cache *cache, const char *state_dir, uint64_t limit_bytes);
void cache_finish(struct cache *cache);

/* A descriptor to read, the caller's, and the file's size. -ENOENT. */
int cache_get(struct cache *cache, uid_t uid, const uint8_t key[CACHE_KEY_BYTES], int *fd,
	uint64_t *bytes);
/* -EEXIST when it is there already; -EDQUOT when it is too large for the cache. */
int cache_put(struct cache *cache, uid_t uid, const uint8_t key[CACHE_KEY_BYTES], uint64_t bytes,
	struct cache_write **write);
/* Publishes what was written, if it is as long as was said (-EINVAL), and ends the write either way. */
int cache_commit(struct cache *cache, uid_t uid, struct cache_write *write);
void cache_abandon(struct cache_write *write);

#endif
