/* SPDX-License-Identifier: MIT
 *
 * What the files of libgdev know of each other. The public contracts are in gdev/session.h.
 *
 * Locks, in the order in which they may be taken; none is held while waiting for the worker, except that of peer.c when
 * a worker maps an object of another, and memory.change when device memory is mapped into the process, which workers do
 * at once:
 *   peers (peer.c) > registry (session.c) > memory.change > managed.c's > memory.table > streams.lock > staging.lock >
 *   calls.lock > replies.lock > the transport's sender's lock
 * The lock of trace.c is a leaf.
 */
#ifndef GDEV_LIB_INTERNAL_H
#define GDEV_LIB_INTERNAL_H

#include <pthread.h>

#include "base/cleanup.h"
#include "base/list.h"
#include "gdev/session.h"
#include "lib/libgdev/transport.h"
#include "proto/peer.h"
#include "proto/properties.h"

/* ---- arena (arena.c): ranges of addresses, 2 MiB at a time ---- */

struct extent {
	uint64_t base, bytes;
};

struct arena {
	struct extent *free; /* sorted, not adjacent */
	size_t count, capacity;
	size_t out; /* ranges that are taken */
};

int arena_init(struct arena *arena, uint64_t base, uint64_t bytes);
void arena_finish(struct arena *arena);
/* bytes: a multiple of ARENA_ALIGN. -ENOMEM. */
int arena_take(struct arena *arena, uint64_t bytes, uint64_t *base);
/* alignment: a power of two, ARENA_ALIGN or more. */
int arena_take_aligned(struct arena *arena, uint64_t bytes, uint64_t alignment, uint64_t *base);
void arena_give(struct arena *arena, uint64_t base, uint64_t bytes);

/* Reserves the addresses in this process, with nothing there. False: some are not free. */
bool arena_reserve(uint64_t base, uint64_t bytes);

/* ---- memory (memory.c, carve.c) ---- */

#define CARVE_BINS 40

/* What the worker knows: a device memory object, a page-locked memfd, an attached segment. */
struct object {
	struct list link;                     /* of its pool */
	uint64_t base, bytes, reserved_bytes; /* reserved_bytes 0: the addresses are not its own */
	enum gdev_memory_kind kind;
	bool mapped;
	bool array;                    /* it is one: not kept when it is freed (kept.c) */
	bool exported;                 /* other sessions may have it */
	bool has_peers;                /* sessions of this process may (peer.c) */
	bool peer;                     /* it is another session's of this process */
	int file;                      /* page-locked: of memory.files; -1: none is kept */
	struct gdev_shared shared;     /* attached by its token, */
	int shared_flags;              /* with these flags; shared.bytes 0: it was not */
	struct window *window;         /* direct.c */
	struct managed_pages *managed; /* managed.c */
	struct list blocks;            /* all of it, in order of addresses */
	size_t used_blocks;
};

/* A piece of an object: what the user got, or free. */
struct block {
	struct list link; /* of its object */
	struct list bin;  /* of its pool, when free */
	struct object *object;
	uint64_t base, bytes; /* what it takes */
	uint64_t asked_bytes; /* what the user asked for; 0: free */
	unsigned refs;
	uint64_t id;
};

/* Objects of one kind, from which small blocks are carved. */
struct pool {
	enum gdev_memory_kind kind;
	struct list objects;
	struct list bins[CARVE_BINS]; /* free blocks by log2 of their size */
	struct object *spare;         /* one object without used blocks is kept */
};

struct variable {
	uint64_t base, bytes, id;
	const struct gdev_module *module;
};

/* Whole objects that were freed (kept.c), oldest first. */
struct kept {
	struct list objects;
	uint64_t bytes;
	unsigned
		leaving; /* objects that the worker has been told to free, and has not answered about */
	uint64_t left;          /* how many ever left */
	pthread_cond_t settled; /* none is leaving any more */
};

#define MEMORY_FILES 128

struct memory {
	int files
		[MEMORY_FILES]; /* of page-locked objects, for other sessions; -1: free. The registry's lock */
	pthread_mutex_t change; /* guards arenas, pools and kept */
	struct arena arena,
		store; /* page-locked memory is in `store` where terms.store_bytes is not 0 */
	struct pool device, host, managed;
	struct kept kept;

	pthread_rwlock_t table; /* guards what follows */
	struct block **blocks;  /* in use, by address */
	size_t block_count, block_capacity;
	struct variable *variables; /* of modules, by address */
	size_t variable_count, variable_capacity;
	uint64_t next_id;
};

int memory_init(struct gdev_session *session);
void memory_finish(struct gdev_session *session);
/* gdev_memory_free for memory that no command under way uses: waits for none. */
int memory_release(struct gdev_session *session, uint64_t address);
/* Remembers a variable that the worker named. */
int memory_add_variable(struct gdev_session *session, const struct gdev_module *module,
	uint64_t base, uint64_t bytes);
void memory_remove_variables(struct gdev_session *session, const struct gdev_module *module);

/* Closes the files, with the registry's lock. In a forked child its copies of them. */
void memory_forget_files(struct gdev_session *session);

/* peer.c. Both wait for what other sessions have submitted. */

/* The object of `owner` at `base`, which nobody finds any more, is not named by other sessions from now on. -errno: one
 * may still have something at its addresses. */
int peers_leave_object(struct gdev_session *owner, uint64_t base);
/* The session is about to end: other sessions do not name its memory any more, nor does it name theirs. */
void peers_leave_session(struct gdev_session *session);
/* In a forked child. */
void peers_forget(void);
/* copy.c: waits until copies into device memory that have returned are complete for other sessions, too. */
int copies_complete(struct gdev_session *session);

/* kept.c; memory.change is held. An object of exactly that size, or NULL. */
struct object *kept_take(struct gdev_session *session, uint64_t bytes);
/* False: it is too large, and still the caller's. */
bool kept_give(struct gdev_session *session, struct object *object);
/* The worker had no room for what was asked of it when memory.kept.left was `left_before`. Gives all back to the worker,
 * and waits for what other threads are giving back. Returns whether there may be room now, so that it is asked again. */
bool kept_release(struct gdev_session *session, uint64_t left_before);

/* carve.c: blocks within a pool's objects; memory.change is held. */
void pool_init(struct pool *pool, enum gdev_memory_kind kind);
/* NULL: no free block is large enough. */
struct block *pool_take(struct pool *pool, uint64_t bytes);
/* All of an object as one block, which the caller may make smaller if it is not to be carved. */
int object_whole_block(struct object *object, struct block **created);
/* Makes all of a new object one free block. */
int pool_add(struct pool *pool, struct object *object);
/* Gives a block back; returns its object when nothing of it is used any more and it is not the one that
 * is kept: the object has left the pool and is the caller's. */
struct object *pool_give(struct pool *pool, struct block *block);
void object_free(struct object *object);

/* ---- streams (stream.c) ---- */

struct gdev_stream {
	struct list link;
	struct gdev_session *session;
	uint32_t timeline;
	_Atomic uint64_t last;          /* value of the last record sent */
	_Atomic uint64_t may_block;     /* value of the last one that may wait without end */
	_Atomic int unsent;             /* of gdev_stream_fail, not seen yet */
	_Atomic uint32_t failures_seen; /* of its timeline's */
};

struct streams {
	pthread_mutex_t lock;
	struct list live;
	struct list leaving; /* struct leaver: destroyed by the user, not yet by the worker */
	uint64_t used[SESSION_TIMELINES / 64];
};

int streams_init(struct gdev_session *session);
void streams_finish(struct gdev_session *session);
/* The end, which is not there yet, of a stream that is not `but`; false: of none. For a host function its own stream is idle, and
 * another one's end is before the last command that waits, which may wait for the function. */
bool streams_first_busy(
	struct gdev_session *session, const struct gdev_stream *but, struct gdev_fence *fence);
/* Waits for all that was submitted on all streams. 0, or the session's error. */
int streams_drain(struct gdev_session *session);
/* The same, and the first unseen error of a stream. */
int streams_sync(struct gdev_session *session);
/* The stream's error, once; or the session's. */
int stream_take_error(struct gdev_stream *stream);

/* event.c: a name of the fence that other sessions can wait for. */
int fence_share(struct gdev_session *session, const struct gdev_fence *fence, uint64_t *id);

/* ---- staging (staging.c) ---- */

struct slot {
	uint64_t address;
	struct gdev_fence fence; /* when draining: free once reached */
	struct list link;        /* of `free` or `draining` */
};

struct staging {
	pthread_mutex_t lock;
	pthread_cond_t changed;
	uint64_t base, bytes;
	struct slot *slots;
	unsigned count;
	struct list free, draining; /* draining: oldest first */
	uint64_t next_ticket, serving;
	_Atomic uint64_t chunk_bytes;
};

int staging_init(struct gdev_session *session, uint64_t base, uint64_t bytes);
void staging_finish(struct gdev_session *session);
/* -EBUSY while slots are in use. */
int staging_set_chunk(struct gdev_session *session, uint64_t bytes);
/* In the order in which threads ask. */
int staging_take(struct gdev_session *session, struct slot **slot);
/* NULL when none is free at once or somebody is in the queue. */
struct slot *staging_try(struct gdev_session *session);
/* The slot is free when `fence` is reached (NULL: now). */
void staging_give(struct gdev_session *session, struct slot *slot, const struct gdev_fence *fence);

/* ---- direct copies (direct.c) ---- */

struct object;

/* Rows between device memory and memory of the process. */
struct direct_piece {
	enum copy_direction direction;
	uint64_t device, device_pitch, host, host_pitch;
	uint64_t width, rows; /* at least 1; SESSION_DIRECT_BYTES together at most */
	bool streaming;
	bool last; /* of a copy so long that the worker may sleep meanwhile */
};

/* Whether the library can reach the device memory at `address` itself; `create`: asks the worker for it. */
bool direct_prepare(struct gdev_session *session, uint64_t address, bool create);
/* Copies a piece; false: the worker has to. The stream and fences have been waited for. */
bool direct_move(struct gdev_session *session, const struct direct_piece *piece);
/* The object is about to go. */
void direct_forget(struct object *object);

/* ---- threads that help to copy (movers.c) ---- */

#define MOVERS_MAX 11

struct movers {
	pthread_mutex_t lock; /* guards the rest; no other lock is taken with it */
	pthread_cond_t work, done;
	pthread_t threads[MOVERS_MAX];
	unsigned count;         /* of threads */
	_Atomic unsigned limit; /* of threads, for one copy */
	bool busy, stopping;
	unsigned wanted, running; /* threads that are to start on the part, that are at it */
	void (*part)(void *argument);
	void *argument;
};

void movers_init(struct gdev_session *session);
/* At most `threads` (at least 1) share a copy, the caller among them. */
void movers_limit(struct gdev_session *session, unsigned threads);
void movers_finish(struct gdev_session *session);
/* Calls part(argument) on the calling thread, and at the same time on as many others as a copy of `bytes`
 * is worth. Returns when all have returned. `part` takes its share of the work from what `argument` has
 * left, and returns when nothing is. */
void movers_run(
	struct gdev_session *session, uint64_t bytes, void (*part)(void *argument), void *argument);

/* ---- host functions (call.c) ---- */

struct calls {
	pthread_mutex_t lock;
	pthread_cond_t changed;
	struct list queued; /* struct call, in the order of their values */
	uint64_t next_value;
	bool started, stopping;
	atomic_bool poked; /* the thread has to look at the queue again */
	pthread_t thread;
};

void calls_init(struct gdev_session *session);
/* The timeline of whose stream the calling thread runs a host function; UINT32_MAX: it runs none of the session's. */
uint32_t calls_timeline(const struct gdev_session *session);
/* Stops the thread; what is queued is dropped. */
void calls_finish(struct gdev_session *session);

/* ---- managed memory (managed.c, whose lock guards it) ---- */

struct managed {
	/* Of its copies: there before the first object is, and as long as the session. */
	struct gdev_stream *stream;
	_Atomic unsigned objects;
	_Atomic uint64_t here;  /* pages that the device has not alone, and touches under way */
	_Atomic unsigned named; /* commands that name pages, and are about to be sent */
	unsigned touching;      /* threads that wait for the session's commands, without the lock */
	_Atomic uint64_t patience_ns; /* how long a touch waits while nothing goes on */
};

/* ---- tracing (trace.c) ---- */

struct trace_source {
	struct list link; /* of those of the process */
	int fd;           /* of the trace segment; -1: the session has none */
};

/* Takes the descriptor over; -1 is none. */
void trace_attach(struct trace_source *source, int fd);
void trace_detach(struct trace_source *source);
/* In a forked child. */
void trace_forget(void);
/* The calling thread has copied by itself, while gdev_traced(). */
void trace_copied(
	enum copy_direction direction, uint64_t bytes, uint64_t begin_ns, uint64_t end_ns);
/* A record has been begun while gdev_traced(). */
void trace_sent(const struct gdev_stream *stream, uint16_t opcode);

/* ---- checked sessions (check.c) ---- */

/* When a session is new. */
int check_begin(struct gdev_session *session);
/* Kernels may access these bytes from here on; may do so no more. */
int check_added(struct gdev_session *session, uint64_t base, uint64_t bytes, bool defined);
void check_removed(struct gdev_session *session, uint64_t base);
/* Prints what was found since the last time. */
void check_collect(struct gdev_session *session);
/* The session ends: what was found in all, and what was not freed. */
void check_finish(struct gdev_session *session);
/* The process ends: how much was found; it then exits with the status that $GDEV_CHECK_EXIT asks for. */
void check_exit(void);

/* ---- the session ---- */

struct replies {
	pthread_mutex_t lock;
	pthread_cond_t changed;
	uint32_t free; /* bit i: slot i */
};

struct gdev_session {
	struct list link; /* of the registry */
	int refs;
	bool own;    /* for one user alone: no other open finds it */
	bool forked; /* of the parent of this process; nothing of it is mapped */
	struct gdev_description description;
	struct transport *transport;
	uint64_t
		next[SESSION_TIMELINES]; /* last values sent; under the transport's sender's lock */
	struct replies replies;
	struct memory memory;
	struct streams streams;
	struct staging staging;
	struct calls calls;
	struct managed managed;
	struct movers movers;
	struct trace_source trace;

	struct extent peer_arenas[PEER_RANGES_MAX]; /* that the worker knows; peer.c's lock */
	unsigned peer_arena_count;

	pthread_mutex_t lock; /* guards what follows */
	uint64_t stamps[SESSION_STAMPS / 64];
	bool properties_known;
	int32_t properties[DEVICE_PROPERTIES];

	bool checked, leak_check;    /* constant once it is open */
	pthread_mutex_t output_lock; /* who prints; guards the next one */
	uint32_t reports_told;
	_Atomic uint64_t inline_bytes;
	_Atomic uint64_t direct_told_ns; /* when the worker last heard of direct copies */
	_Atomic uint64_t fenced;         /* copy.c: the newest record with RECORD_FENCE */
	atomic_bool shares; /* has, or had, device memory that other sessions may have too */
};

static inline bool session_lost(const struct gdev_session *session)
{
	return atomic_load_explicit(&session->transport->lost, memory_order_relaxed);
}

/* Starts a record on `timeline` and fills its header; the caller fills the rest and commits. */
static inline int record_begin(struct gdev_session *session, uint16_t opcode, uint32_t length,
	uint32_t timeline, void *record)
{
	struct transport *transport = session->transport;
	struct record_header *header;
	int error = transport->ops->begin(transport, length, (void **)&header);

	if (error)
		return error;
	*header = (struct record_header){
		.opcode = opcode,
		.length = length,
		.timeline = timeline,
		.value = ++session->next[timeline],
	};
	*(void **)record = header;
	return 0;
}

/* As record_begin, and for commit: the stream knows what its last value is. */
static inline int stream_begin(
	struct gdev_stream *stream, uint16_t opcode, uint32_t length, void *record)
{
	int error = record_begin(stream->session, opcode, length, stream->timeline, record);

	if (error)
		return error;
	atomic_store_explicit(
		&stream->last, stream->session->next[stream->timeline], memory_order_release);
	if (gdev_traced())
		trace_sent(stream, opcode);
	return 0;
}

static inline void record_commit(struct gdev_session *session)
{
	session->transport->ops->commit(session->transport);
}

/* Sends an immediate record and waits for its reply. `record` starts with a header that this fills, is
 * `fixed` bytes long, and followed by `tail` (tail_bytes; may be 0). The payload goes to `reply`, up to
 * reply_bytes; less is -GDEV_E_PROTOCOL unless it is the reply's variable part: the least that must come
 * is reply_least. Returns the reply's status. */
int session_request(struct gdev_session *session, uint16_t opcode, void *record, uint32_t fixed,
	const void *tail, uint32_t tail_bytes, void *reply, uint32_t reply_least,
	uint32_t reply_bytes);

/* What gdevd says on the way; of the others than staging_bytes 0 is the default. */
struct terms {
	uint64_t staging_bytes;
	uint64_t store_bytes; /* behind the staging memory: the addresses that host_map() takes */
	uint32_t inline_bytes, chunk_bytes, copy_threads;
	uint32_t replies; /* how many of the reply slots are the client's; 0: all */
	int trace_fd;     /* of the trace segment, the caller's; -1: none */
};

/* A conversation with gdevd before there is a session. On the stack of the thread that has it. */
struct opening {
	struct list link; /* of all of the process */
	const char *vgpu;
	bool makes_session; /* opens of the same virtual GPU wait for its end */
	bool own;           /* but not if nobody else gets the session */
	int socket;         /* to gdevd, or -1; a forked child closes it */
};

/* session.c: the registry's lock. What is opened under it, and noted before it is given up, no forked child keeps. */
void registry_enter(void);
void registry_leave(void);

/* Whether some of the bytes are addresses of another session, at which the process itself has nothing. */
bool session_others_have(const struct gdev_session *session, uint64_t address, uint64_t bytes);

/* connect.c: finds gdevd, reserves an arena, says hello. With the registry's lock, which it gives up while it waits;
 * not any more from the moment in which it has received descriptors. */
int connect_open(struct opening *opening, struct gdev_description *description, struct terms *terms,
	struct transport **transport);
/* Likewise. */
int connect_describe(struct opening *opening, struct gdev_description *description,
	int32_t properties[DEVICE_PROPERTIES]);

/* copy.c: the records, as they are. Both sides are the worker's memory. */
int copy_record(struct gdev_stream *stream, const struct gdev_copy *copy, uint8_t flags);
int fill_record(struct gdev_stream *stream, const struct gdev_fill *fill, uint8_t flags);
/* copy.c: what the address is, for a copy that touches `span` bytes from it on. */
bool memory_contains(struct gdev_session *session, uint64_t address, uint64_t span);

#endif
