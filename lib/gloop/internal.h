/* SPDX-License-Identifier: MIT
 *
 * The host event loop of GLoop: what its files share. The thread that called gloop_run() owns all of it; threads of the
 * pool (pool.c) touch a request only between pool_push() and its return by pool_take().
 */
#ifndef GDEV_LIB_GLOOP_INTERNAL_H
#define GDEV_LIB_GLOOP_INTERNAL_H

#include <stdbool.h>
#include <stdint.h>

#include "base/list.h"
#include "gdev/gloop.h"
#include "gdev/gloop_rpc.h"

/* ---- table.c: descriptors of the run ---- */

#define TABLE_FILES 1024

enum kind { KIND_NONE, KIND_FILE, KIND_SOCKET };

/* A socket that requests wait for, in two lists. Nobody waits for a regular file, which epoll would refuse. */
enum side { SIDE_IN, SIDE_OUT, SIDES };

struct watch {
	bool is_on; /* epoll tells of it, and the lists are made */
	struct list waiters[SIDES];
};

/* Kernels name files by their index in the table, and reach no other descriptor of the process. */
struct file {
	enum kind kind; /* KIND_NONE: the index is free */
	int fd;
	struct watch watch;
	bool in_memory; /* reading and writing it waits for no disk but that of swap */
	uint32_t users; /* requests on the way */
	bool closed;    /* by the kernel, with users: the last of them closes it */
};

struct table {
	int epoll; /* tells when sockets that requests wait for become ready; the data of an event is its struct watch */
	struct file files[TABLE_FILES];
};

/* 0, or -errno. */
int table_init(struct table *table);
/* Closes all. */
void table_finish(struct table *table);
/* Takes over `fd`, and closes it on failure: its index, or -EMFILE. */
int table_add(struct table *table, int fd, enum kind kind);
/* Duplicates a descriptor of the caller's. -EINVAL: it is neither a regular file without O_APPEND nor
 * a stream socket that does not block. */
int table_add_copy(struct table *table, int fd);
/* One more user. NULL: no such file. */
struct file *table_get(struct table *table, int32_t index);
void table_put(struct table *table, struct file *file);
/* From now on table_get() does not find it. -EBADF. */
int table_close(struct table *table, int32_t index);
/* From now on the table's epoll tells of it. 0, also if it does already, or -errno. */
int table_watch(struct table *table, struct watch *watch, int fd);
/* No more; before the descriptor is closed, of which others may have duplicates. One that is not on is fine. */
void table_unwatch(struct table *table, struct watch *watch, int fd);

/* ---- request.c: what kernels ask for ---- */

/* A slot's request. `op` to `destination` are copies: the slot's memory is the kernel's, too, and is read once. */
struct request {
	struct list link;      /* waiting, or in the pool */
	struct gloop_rpc *rpc; /* where it came from, and its answer goes */
	void *page;            /* of its block's, the one that it names */
	uint32_t block;
	bool busy;       /* asked for, and not answered */
	uint64_t posted; /* number of the last one that was taken */

	uint32_t op, flags;
	int32_t index; /* of the file */
	uint64_t offset, bytes;
	uint64_t length;         /* of a map */
	CUdeviceptr destination; /* of what it brings, or 0; and of a copy */
	CUdeviceptr source;      /* of a copy; of what is written */
	bool unfilled;           /* the bytes are at the source, and not in the page */
	bool again;              /* the block has to put them there, and ask again */

	struct file *file;    /* that it uses, or NULL */
	int made;             /* descriptor that it has made, or -1 */
	struct watch watch;   /* of that */
	CUdeviceptr mapped;   /* memory that it has made, or 0 */
	uint64_t moved;       /* bytes, so far */
	uint64_t deadline_ns; /* of a timer */
	int64_t result;
	bool placed; /* what it has brought is at the destination; else in the page */
};

struct host { /* what requests need of the run */
	struct table table;
	CUcontext context;
	struct list maps;
	unsigned map_count;
	char *pages; /* page-locked: of each block, page_count */
	uint32_t page_bytes, page_count;
	bool confined;
	/* cuGdevMemRead() and so on; NULL: this libcuda is not gdev's. */
	__typeof__(cuGdevMemRead) *read, *write;
	__typeof__(cuGdevCtxGetRevoked) *get_revoked;
	__typeof__(cuGdevStreamWait) *wait;
	bool reaches; /* one of them has reached device memory: where that is possible, it is in this session's turns */
};

/* Copies the request out of the slot's memory, and checks it. 0; or -errno, which is the answer. */
int request_take(struct host *host, struct request *request);
/* Does what can be done without waiting. False: it has no result yet. */
bool request_try(struct host *host, struct request *request);
/* What is left, on any thread: it may block. For requests that request_blocks(). */
void request_complete(const struct host *host, struct request *request);
/* It has no result: its bytes must be in the page. */
bool request_needs_page(const struct request *request);
/* Another without a result waits for a thread that may block; or for its descriptor, or for its deadline. */
bool request_blocks(const struct request *request);
/* It is the copy engines'. */
bool request_copies(const struct request *request);
/* It frees device memory, which waits for the kernel's end. */
bool request_unmaps(const struct request *request);
/* It waits for its deadline, and not for a descriptor. */
bool request_is_timer(const struct request *request);
/* Has it wait for its descriptor: it is tried again when that is ready. 0 or -errno. */
int request_wait(struct host *host, struct request *request);
/* What it has made becomes the kernel's, or is given back; what it used is let go. */
void request_finish(struct host *host, struct request *request);

/* ---- map.c: files as device memory ---- */

/* The address, also in request->mapped, or -errno. On any thread: it may block. */
int64_t map_file(const struct host *host, struct request *request);
/* Takes over the memory. -ENOMEM: there are too many; it is freed. */
int map_add(struct host *host, CUdeviceptr memory);
/* -EINVAL: it is none. */
int map_remove(struct host *host, CUdeviceptr memory);
void maps_finish(struct host *host);

/* ---- area.c: page-locked memory ---- */

struct area {
	CUcontext context;
	void *memory; /* NULL: none */
	size_t bytes;
	unsigned long long number; /* CUDA's, of the allocation */
};

/* `bytes` at least, of the context, which is current; what is in it is what was. */
CUresult area_take(CUcontext context, size_t bytes, struct area *area);
/* For the next run; the one that was kept before is freed. One without memory is fine. */
void area_give(struct area *area);

/* ---- engine.c: copy engines ---- */

struct engine {
	CUcontext context;
	CUstream launches; /* the kernel's */
	CUstream beside;   /* copies while the kernel is on the device; NULL: none so far */
	bool kernel_runs;  /* launched, and not seen to have ended: set by the run */
	struct list copying;
	bool are_done, failed; /* all of `copying` */
};

void engine_init(struct engine *engine, CUcontext context, CUstream launches);
void engine_finish(struct engine *engine);
/* Has what the request has brought copied to its destination before the next launch. False: the block has to. */
bool engine_place(struct engine *engine, const struct request *request);
/* Has the page filled from the source. False: the block has to. The kernel's stream gets there when it is. */
bool engine_fetch(struct engine *engine, const struct request *request);
/* True: it has a result. Else engine_take() returns it. */
bool engine_copy(struct engine *engine, struct request *request);
bool engine_is_busy(const struct engine *engine);
/* One that is done, or NULL. */
struct request *engine_take(struct engine *engine);

/* ---- ring.c: files by io_uring ---- */

struct ring;
/* `wake`: an eventfd, written when a request comes back. -errno: there is no io_uring. */
int ring_create(int wake, struct ring **ring);
/* Waits for what is on the way. NULL is fine, here and below. */
void ring_destroy(struct ring *ring);
/* False: it is not for the ring, or there is no room; then it is the pool's. */
bool ring_push(struct ring *ring, struct request *request);
/* One that is done, or NULL. With the result -EAGAIN it is the pool's. */
struct request *ring_take(struct ring *ring);

/* ---- pool.c: threads for what blocks ---- */

struct pool;
/* `wake`: an eventfd, written when a request comes back. */
int pool_create(const struct host *host, int wake, struct pool **pool);
/* Waits for what is on the way. NULL is fine. */
void pool_destroy(struct pool *pool);
void pool_push(struct pool *pool, struct request *request);
/* One that is done, or NULL. */
struct request *pool_take(struct pool *pool);

#endif
