/* SPDX-License-Identifier: MIT
 *
 * Talking to gdevd: requests and their answers, and living on when gdevd is gone.
 *
 * A request is kept until its answer arrives, and sent again to a gdevd that has been restarted. Its
 * `answered` continues whatever asked. Jobs, which may block, use control_call().
 * Messages are sent with the lock, without blocking; what the socket does not take waits in `outgoing`.
 */
#ifndef GDEV_WORKER_CONTROL_H
#define GDEV_WORKER_CONTROL_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/list.h"
#include "proto/control.h"

struct core;

#define REQUEST_BYTES_MAX 128

struct control_request {
	struct list link; /* control.requests */
	union {
		struct control_header header;
		struct control_allocate allocate;
		struct control_room room;
		struct control_shm shm;
		struct control_event event;
		uint8_t bytes[REQUEST_BYTES_MAX];
	} message;
	/* With the lock. Takes the descriptors it wants (none come with an error) by setting them to -1. `reply` has passed
	 * control_check() and is of type `expected`. -ENOTCONN with reply NULL: gdevd is gone and this
	 * request does not outlive it. */
	void (*answered)(struct core *core, struct control_request *request, int status,
		const struct control_header *reply, int *fds, size_t fd_count);
	uint16_t expected;
	bool lasting; /* to be sent again to the next gdevd */
};

struct control {
	int fd; /* -1: no gdevd */
	uint32_t serial;
	struct list requests;
	struct list outgoing;
	pthread_mutex_t call_lock; /* a leaf; guards what control_await() waits for */
	pthread_cond_t called;     /* control_done() */
	uint64_t retry_at_ns;      /* when to look for gdevd again; UINT64_MAX: not at all */
	uint64_t retry_after_ns;
	uint64_t awake_until_ns; /* until then a message is looked for without sleeping */
	char path[108];
};

void control_init(struct core *core);
void control_finish(struct core *core);

/* Says READY. Before any thread runs. */
int control_ready(struct core *core);

/* With the lock. */
void control_send(struct core *core, const void *message, const int *fds, size_t fd_count);
/* `request` stays the caller's and must live until answered. */
void control_ask(struct core *core, struct control_request *request);
/* Looks for a gdevd that has been restarted, when it is time. When to look again, or UINT64_MAX. */
uint64_t control_tick(struct core *core, uint64_t now_ns);
/* Whether there is a gdevd to arbitrate. */
bool control_connected(const struct core *core);

/* Unlocked, from a job: sends and waits. Copies the answer (of type `expected`) to `reply`, which has
 * room for the type's struct, and moves descriptors to fds. Its status, or -ENOTCONN. */
int control_call(struct core *core, const void *message, uint16_t expected, void *reply,
	size_t reply_bytes, int *fds, size_t *fd_count);
/* The same, with descriptors that go with the message. They stay the caller's. */
int control_call_with(struct core *core, const void *message, const int *sent, size_t sent_count,
	uint16_t expected, void *reply, size_t reply_bytes, int *fds, size_t *fd_count);
/* Unlocked, from a job: waits for what gdevd says to lead to control_done(), with the lock, of the same word. */
void control_await(struct core *core, const bool *done);
void control_done(struct core *core, bool *done);
/* Unlocked, by the one thread that got the event: reads what gdevd has said, goes on sending. */
void control_event(struct core *core, int fd, bool writable);
/* move.c. Answers with MOVED. turns_fd: the new device's page, which stays the caller's; -1: there is none. With the lock. */
void move_session(struct core *core, const struct control_move *message, int turns_fd);
/* As control_send, unlocked. */
void control_tell(struct core *core, const void *message, const int *fds, size_t fd_count);

#endif
