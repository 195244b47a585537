/* SPDX-License-Identifier: MIT
 *
 * The proxy of one session of a guest: a process of its own, an ordinary client of gdevd with the guest's process behind
 * it. It takes records from the guest's ring and gives them to the worker (forward.c), shows the guest what the worker
 * has completed (mirror.c), and copies between the guest's memory and the device (copy.c). One thread.
 *
 * Timelines have the same numbers and values on both sides. The proxy's own are the reply slots from VM_REPLIES on, and
 * the last timeline, a stream on which it copies.
 */
#ifndef GDEV_VM_PROXY_H
#define GDEV_VM_PROXY_H

#include <stdbool.h>

#include "lib/libgdev/internal.h"
#include "vm/guest.h"
#include "vm/keys.h"

/* What the answer to a record changes here. */
struct pending {
	uint16_t opcode;
	uint32_t module;
	uint64_t address, bytes;
	bool logs; /* the compiler writes into log.slot */
	bool gone; /* what it makes has been freed since: it is not noted */
	struct key key;
};

/* What the compiler says of a module, for VM_LOG. One module at a time can have one. */
struct log {
	struct slot *slot; /* of the staging memory, while a module is loaded */
	uint32_t bytes;
	char text[VM_LOG_BYTES_MAX];
};

/* A timeline of the guest. */
struct line {
	uint64_t posted;    /* value of the last record */
	uint64_t shown;     /* as the guest sees it */
	uint64_t signalled; /* the `want` that the guest was last interrupted for */
	bool active;        /* shown < posted */
};

struct stamp {
	uint32_t line, stamp;
	uint64_t value;
};

struct image {
	uint8_t *bytes; /* mapped; NULL: none is being sent */
	uint64_t length, filled;
};

/* How long the proxy found nothing, the last two times. */
struct pauses {
	uint64_t last_ns, before_ns;
};

struct proxy {
	struct guest *guest;
	unsigned slot;
	int control; /* to the first process: its end is ours */
	struct vm_mailbox *mailbox;
	struct session_segment *segment; /* the guest's */
	struct gdev_session *session;
	struct session_segment *worker; /* what we share with the worker */
	int wake_fd, peer_fd;           /* of the worker */
	int callers;                    /* an epoll: whoever wakes us up */
	struct gdev_stream *stream;     /* our own */
	int error;                      /* why the session ends; 0: it does not */
	uint64_t key[2];                /* see proxy_translate() */
	uint32_t user;                  /* of the guest */
	int nice, least_nice;           /* ours, and as it was when we began */

	uint64_t head; /* of the guest's ring */
	uint64_t host_completed;
	bool full; /* the worker's ring has no room for the next record */
	struct line lines[SESSION_TIMELINES];
	uint16_t active[SESSION_TIMELINES];
	unsigned active_count;
	struct pending pending[VM_REPLIES];
	struct stamp *stamps; /* under way, in order */
	size_t stamp_count, stamp_capacity;
	uint64_t answered;
	uint64_t worked_ns; /* when it last found something, */
	uint64_t burst_ns;  /* and, since when without a pause */
	uint64_t gave_ns; /* for how long others had the processor since it last found something */
	uint64_t napped_at;      /* the count of records before the last nap */
	bool napping;            /* nothing was found since */
	struct pauses pauses[2]; /* that begin when nothing is under way, or something is */
	struct image image;
	struct log log;
	struct vm_entry *list; /* of the request that is executed: VM_ENTRIES_MAX */
	struct vm_counts counts;
	_Alignas(8) uint8_t record[RECORD_BYTES_MAX];
};

/* What names a module of the guest's in the table of variables, which only compares it. */
static inline const struct gdev_module *module_key(uint32_t module)
{
	return (const struct gdev_module *)(uintptr_t)(module + 1ull);
}

/* Serves the session until one of the sides ends it, and does not return. */
_Noreturn void proxy_run(struct guest *guest, unsigned slot, int control, const char *vgpu);

/* The session ends with the error, which the guest sees. */
void proxy_fail(struct proxy *proxy, int error);
void proxy_interrupt(struct proxy *proxy);
/* Tokens of shared memory (RECORD_TOKEN_BYTES) look different to each user of each machine, so that what one has been told
 * opens nothing to another, nor to programs of the host. Makes the guest's of ours, and ours of the guest's. */
void proxy_translate(const struct proxy *proxy, void *token);

#define PROXY_STREAM (SESSION_TIMELINES - 1)

/* forward.c. Takes some records, if there are any. Whether it did anything. */
bool forward_records(struct proxy *proxy);
/* Whether there is a record that can be taken. */
bool forward_can(const struct proxy *proxy);
/* Passes on how many host functions the guest has run. */
bool forward_host_completed(struct proxy *proxy);

/* mirror.c. Shows what has been completed since; whether anything has. */
bool mirror_completed(struct proxy *proxy);
/* Has the worker wake us when there is something to show, or not any more. */
void mirror_want(struct proxy *proxy, bool want);
/* Whether there is something to show. */
bool mirror_can(const struct proxy *proxy);
/* The guest has posted a value. */
void mirror_expect(struct proxy *proxy, uint32_t line, uint64_t value);
/* Shows a value as completed which no record of the worker's stands for. */
void mirror_complete(struct proxy *proxy, uint32_t line, uint64_t value);

/* copy.c. Executes a request of the mailbox; the answer's status. */
int copy_execute(struct proxy *proxy, const struct vm_request *request, uint64_t *value);
/* The session's store begins at this address of the arena. */
uint64_t copy_store_base(const struct proxy *proxy);

#endif
