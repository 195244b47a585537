/* SPDX-License-Identifier: MIT
 *
 * The core of a worker: one session, executed over one device. main.c makes a process of it; tests and a
 * trusted process (direct mode) use it as a library.
 *
 * The lock. core->lock guards everything in struct core and below it but what a comment here says
 * otherwise. It is held for microseconds: never across device work, a compile, a map or an unmap, or
 * anything that may block. Code that runs without it says so ("unlocked"). Of the device's operations
 * only those are called with it that ops.h says are brief; submit() is, so that commands reach a queue in
 * order. (core_attach() asks the device for more: there is no session yet that could wait.) Who executes
 * an immediate record may let it go for a call of the device: it has the poller's role, so that no other
 * record is read meanwhile, nothing that records name goes, and the context stays (ring_read).
 *
 * Completions. The device calls done() from any thread, at any time. It must not wait for the lock:
 * it pushes the command on core->done, and the thread that holds the lock takes the list before it lets go
 * (core_unlock). So what a completion causes (timelines, the next submission) happens on the thread
 * that executed the command, or on the one that was busy in the core just then.
 *
 * Shared words (the session segment, the worker page) are read and written with __atomic builtins. A
 * word that the client writes is a hint or a request, never trusted; a word that we write is never
 * read back.
 */
#ifndef GDEV_WORKER_CORE_H
#define GDEV_WORKER_CORE_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/list.h"
#include "device/ops.h"
#include "proto/control.h"
#include "proto/session.h"
#include "worker/image.h"
#include "worker/context.h"
#include "worker/control.h"
#include "worker/direct.h"
#include "worker/event.h"
#include "worker/grants.h"
#include "worker/limit.h"
#include "worker/memory/memory.h"
#include "worker/memory/residency.h"
#include "worker/memory/swap.h"
#include "worker/service.h"
#include "worker/stream.h"
#include "worker/table.h"
#include "worker/trace.h"
#include "worker/turns.h"

#define STAGING_BYTES_DEFAULT (32ull << 20)
#define SPIN_NS_DEFAULT (60ull * 1000)
#define PENDING_BYTES_MAX (64u << 20) /* of records that wait; beyond it the ring is not read */

struct core_config {
	const struct device_ops *ops;
	struct device_config device;
	uint64_t staging_bytes;
	/* Page-locked memory and images that a client may add; 0: half of the machine's memory. */
	uint64_t host_bytes;
	int control_fd;           /* to gdevd; -1: none, nobody arbitrates. Ours. */
	const char *gdevd_socket; /* where to register again; NULL: nowhere */
	unsigned threads;         /* 0: none, the owner calls service_step() */
	/* Called once, with the lock, when the session is over (0: as it should) or cannot go on. A
	 * process exits here. */
	void (*ended)(void *owner, int reason);
	void *owner;
};

/* Of the small size, waiting to be used again. A deep burst of launches leaves thousands: those that a second
 * did without are given back. */
struct recycled_commands {
	struct list list;
	unsigned count;
	unsigned unused;     /* as many at least were here since the last look */
	uint64_t look_at_ns; /* 0: not due */
};

struct core {
	/* Constant after core_create. */
	struct core_config config;
	const struct device_ops *ops;
	struct device *device;
	struct device_host device_host;
	struct device_info device_info;
	struct session_segment *segment;
	struct worker_page *page;
	int segment_fd, staging_fd, page_fd;
	int wake_fd;   /* eventfd: the client wakes us */
	int client_fd; /* eventfd: we wake the client */

	/* Constant after core_attach. */
	bool attached;
	struct control_attach session;
	struct device_space *space;
	int peer_fd; /* -1 before */
	/* NULL: gdevd has none for us; set once, with release, after `session`. */
	struct turns *turns;

	pthread_mutex_t lock;
	struct command *done; /* atomic: a stack of what the device has finished */

	int32_t error;      /* the session's sticky error */
	bool preempts;      /* ops->preempt() has been called, before the first command */
	bool checked;       /* ops->check_begin() has been called */
	bool ended;         /* config.ended was, or is being called */
	bool ring_held;     /* atomic: too much is pending, the ring waits */
	uint64_t ring_head; /* atomic, written by the poller with the lock: bytes consumed */
	uint64_t window_ns; /* atomic */
	uint64_t copy_rates[COPY_WITHIN +
			    1]; /* bytes a us, lately, in each direction; 0: not known */

	struct recycled_commands recycled;
	uint64_t pending_bytes; /* of records that exist as commands */

	struct streams streams;
	struct memory memory;
	struct residency residency;
	struct swap swap;
	struct context context;
	struct control control;
	struct grants grants;
	struct direct direct;
	struct limit limit;
	struct events events;
	struct trace trace;
	struct service service;
	struct table modules, functions, graphs;
	struct image images[IMAGES_WAITING];
	/* Commands that load modules: the first one's module is being opened, the others wait for that. */
	struct list opening;

	pthread_mutex_t output_lock; /* guards output_tail; a leaf */
	uint64_t output_tail;
};

/* Opens the device and makes everything that does not depend on a client; no thread runs yet. On
 * success owns config->control_fd. */
int core_create(const struct core_config *config, struct core **core);
/* Reserves the arena, makes the space, takes the peer socket (on success). -EADDRINUSE: the arena is not
 * free in this process. turns_fd: gdevd's page, which stays the caller's; -1: there is none. With the lock. */
int core_attach(struct core *core, const struct control_attach *attach, int peer_fd, int turns_fd);
/* What the session's program is told of the device; gdevd is told device_info. With the lock. */
void core_properties(const struct core *core, int32_t properties[DEVICE_PROPERTIES]);
/* Stops the threads first. Everything in flight must be done or the device must be able to drop it. */
void core_destroy(struct core *core);

/* Makes memory of that size that others can map, and maps it. */
int core_map_shared(const char *name, uint64_t bytes, int *fd, void **mapping);

void core_lock(struct core *core);
/* Takes completions, dispatches what they made possible, and lets go. */
void core_unlock(struct core *core);

/* The session is over. With the lock. `reason` 0, or the first error. */
void core_end(struct core *core, int reason);
/* Breaks the session: every command from here on completes with `error`. With the lock. */
void core_fail(struct core *core, int error, uint64_t fault_address);
/* Breaks the session and ends it, because this worker can do nothing more for anybody. Whatever waits for a command
 * is released first. With the lock. */
void core_abandon(struct core *core, int error);
/* Whether an error leaves nothing in the address space to go on with. */
bool core_error_is_fatal(int error);

void core_wake_client(struct core *core);

/* ring.c: only the poller reads the ring. Takes some records, if there are any, and executes or queues them. Whether there
 * were any. A ring that makes no sense ends the session. */
bool ring_read(struct core *core);
/* Whether there are records, which ring_read may have to leave there for now (context.h). With the lock. */
bool ring_has_records(struct core *core);
/* Whether ring_read would find something. Any thread. */
bool ring_waits(struct core *core);
/* The poller goes: says so to the client. False: there is something in the ring after all, and the ring
 * is AWAKE as before. */
bool ring_sleep(struct core *core);
void ring_awake(struct core *core);

/* peer.c: the client's socket. Unlocked, by the one thread that got the event. */
void peer_readable(struct core *core);
/* output.c: device_host.print; any thread, no lock needed. */
void output_print(void *owner, const char *bytes, size_t length);
/* cache.c: device_host.cache_load, device_host.cache_store. Called by the device from module_load, so on a thread with a
 * job, which may block. */
int cache_load(void *owner, const uint8_t key[CODE_KEY_BYTES], void **bytes, size_t *length);
void cache_store(void *owner, const uint8_t key[CODE_KEY_BYTES], const void *bytes, size_t length);

#endif
