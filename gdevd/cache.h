/* SPDX-License-Identifier: MIT
 *
 * The cache of compiled code: one directory per uid of clients, one file per key, named by the key in
 * hex. Workers have no file system. What a worker writes goes into memory of a fixed size that gdevd makes;
 * gdevd copies that into a file when it is complete, so a worker can neither write more than was admitted
 * nor change a file that others read. A uid's code is only ever given to workers that serve this uid. When a
 * uid's files take more of the disk than the limit, those unused for longest go.
 *
 * The loop's thread waits for no disk: files are touched on threads of libuv's, one request of a uid at a
 * time, in the order in which they were made.
 */
#ifndef GDEV_GDEVD_CACHE_H
#define GDEV_GDEVD_CACHE_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>
#include <uv.h>

#include "base/list.h"
#include "gdevd/users.h"
#include "proto/device.h"

struct cache {
	uv_loop_t *loop;
	int dir; /* -1: there is no cache */
	uint64_t limit_bytes;
	struct list users; /* struct cache_user */
	unsigned busy;     /* requests at work */
};

/* One GET, or one PUT and its COMMIT. */
struct cache_request {
	struct list link; /* these three are the maker's */
	void *owner;
	uint32_t serial;
	bool submitted;
	uint8_t key[CODE_KEY_BYTES];
	uint64_t bytes;
	int fd; /* what is to be stored, in memory; or what was found, to read */
	int status;

	/* cache.c */
	struct user *payer;
	uv_work_t work;
	struct list queued;
	struct cache_user *user;
	enum { CACHE_READ, CACHE_STORE, CACHE_DROP } what;
	void (*done)(struct cache_request *request);
};

/* Opens or makes STATE_DIR/cache. -errno: the cache answers -ENOENT to all. */
int cache_init(struct cache *cache, uv_loop_t *loop, const char *state_dir, uint64_t limit_bytes);
/* Nothing more is begun; what is at work is done when the loop has run to its end. */
void cache_stop(struct cache *cache);
void cache_finish(struct cache *cache);

/* Each request holds a descriptor for its payer (NULL: for nobody). -EAGAIN: who may have no more. */
/* A request to read what has this key. */
int cache_get(
	struct user *payer, const uint8_t key[CODE_KEY_BYTES], struct cache_request **request);
/* One to store so many bytes, which are to be written to its `fd`. -EDQUOT: they are too many for the cache. */
int cache_put(struct cache *cache, struct user *payer, const uint8_t key[CODE_KEY_BYTES],
	uint64_t bytes, struct cache_request **request);
/* Has it done. When it is, the loop calls `done` (NULL: nobody wants to know), and the request is gone. What is stored
 * replaces what had its key. The status: 0, -ENOENT (also: there is no cache), or what was in the way. */
void cache_submit(struct cache *cache, uid_t uid, struct cache_request *request,
	void (*done)(struct cache_request *request));
/* Instead: forgets it. */
void cache_drop(struct cache *cache, uid_t uid, struct cache_request *request);

#endif
