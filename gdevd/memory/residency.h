/* SPDX-License-Identifier: MIT
 *
 * Who has to give device memory when somebody needs some: gdevd's half of docs/memory.md, whose rules are
 * named in the code. Every byte of an object is charged either to device memory (struct memory_account
 * worker.memory) or to host swap (worker.swap); workers move them, and tell.
 *
 * A worker that brings something in asks with CONTROL_RESIDENT, and waits in residency.waiting until there
 * is some: others have been told to EVICT, as much as is missing.
 */
#ifndef GDEV_GDEVD_RESIDENCY_H
#define GDEV_GDEVD_RESIDENCY_H

#include <stdbool.h>
#include <stdint.h>

#include "base/list.h"
#include "gdevd/deadlines.h"
#include "gdevd/memory/memory.h"
#include "proto/control.h"

struct daemon;
struct session;
struct vgpu;
struct worker;

/* Who had nothing to give is not asked again for a while; each time in a row twice as long. */
struct residency_pause {
	uint64_t until_ns, length_ns;
};

/* Of a device. */
struct residency {
	struct memory_account
		swap[2];        /* host memory and files that swap may take: enum swap_pool */
	uint64_t reserve_bytes; /* temporary swap space (rule 6); 0: none */
	struct list waiting;    /* struct worker_residency.link */
	uint64_t taker;         /* session that took from the reserve last */
	bool balancing;         /* residency_balance() does not nest */
	struct deadline again;  /* something is lacking, and somebody can be asked again */
	struct deadline files;  /* swap files are looked at then */
};

/* Of a worker. */
struct worker_residency {
	struct list link; /* residency.waiting, while it wants */
	uint64_t wanted_bytes;
	uint32_t wanted_serial;
	bool wanted_to_stay; /* not for a turn of the device */
	bool wanted_here;    /* it cannot be elsewhere */
	bool wanted_whole;   /* nor for objects: it is for a context */
	uint32_t order;      /* serial of the EVICT that it has not answered; 0: none */
	uint64_t ordered_bytes, ordered_from_bytes; /* asked for; what it held then */
	uint64_t returned_bytes;                    /* since then */
	uint32_t ordered_flags;                     /* enum evict_flags */
	uint64_t ordered_ns;                        /* when, */
	uint64_t cause;                             /* for which session; 0: for none but its own */
	bool dry; /* gave nothing the last time; has been given nothing, and had no grant, since */
	struct residency_pause
		pause;         /* dry: not asked before then. What it has may be let go without our
				       * hearing of it: a command was done, a pin is gone */
	bool suspended;        /* by the administrator, */
	uint64_t suspended_ns; /* since then, the last time */
	bool resumes;          /* as soon as its order has been carried out */
	uint64_t used_ns;      /* when it last used the device */
};

void residency_init(struct daemon *daemon);
/* The device is known. */
void residency_init_device(struct daemon *daemon);
void residency_init_worker(struct worker *worker);
/* It has a session now. */
void residency_begin_session(struct worker *worker);
/* The worker is gone; what it held is returned. */
void residency_finish_worker(struct worker *worker);

/* It gave nothing; it may have something to give. */
void residency_pause_begin(struct residency_pause *pause);
bool residency_is_paused(const struct residency_pause *pause);
/* Whom one that needs memory waits for (rule 5): those that gave nothing, when they are asked again; */
enum residency_patience {
	PATIENCE_LITTLE, /* the first two times; */
	PATIENCE_TURNS,  /* or those that use the device; */
	PATIENCE_MOST,   /* or, however often they gave nothing, all. */
};
bool residency_is_hopeful(const struct residency_pause *pause, enum residency_patience patience);
void residency_refreshed(struct worker *worker);
/* More is wanted than those have who could be asked: residency_balance() when that changes. */
void residency_ask_again(struct daemon *daemon);
/* It is to give back so much host swap that it keeps and does not use, with EVICT_MOVE also some that it uses. It has no
 * order. */
void residency_ask_slots(struct worker *worker, uint64_t bytes, uint32_t flags);
/* Whether `a` gives before `b` (rule 5). */
bool residency_gives_before(const struct worker *a, const struct worker *b);

/* What the virtual GPU may still allocate without swapping its own objects. */
uint64_t residency_free(const struct vgpu *vgpu);
/* It is using the device, or bringing in what it needs for that: it gives nothing. */
bool residency_is_protected(const struct worker *worker);
/* Device memory that may be charged without anybody leaving: not the reserve. */
bool residency_has_room(const struct worker *worker, uint64_t bytes);
/* Charges swap space for an object that has no place on the device. -ENOMEM: there would be no way left to
 * exchange what is in swap for what is on the device. Answers the worker, at once or when there is room. */
void residency_promise(struct worker *worker, uint64_t bytes, uint32_t serial);
/* The same for one slot. */
void residency_promise_slot(
	struct worker *worker, uint64_t bytes, enum swap_wish wish, uint32_t serial);
/* Makes others leave until there are `bytes` for a context: in the virtual GPU, or (NULL) on the device. 0: there
 * are; -EAGAIN: they are leaving, and workers_adjust() or client_wait() is called again; -ENOMEM: nobody can. */
int residency_make_room(struct daemon *daemon, struct vgpu *vgpu, uint64_t bytes);
/* What workers say. Negative: malformed. */
int residency_wanted(struct worker *worker, const struct control_memory *message);
int residency_evicted(struct worker *worker, const struct control_evict *message);
/* Memory was returned, or a limit was changed: serves those that wait, and sends for more. */
void residency_balance(struct daemon *daemon);

/* Sets what the virtual GPU may have of device memory, in effect at once: when it has more, some of it
 * leaves. bytes 0: what the device has. -ENOMEM: host swap could not take what has to leave. */
int residency_set_limit(struct vgpu *vgpu, uint64_t bytes);

/* All that an idle session has on the device leaves, its context too. -ENOMEM: host swap has no room. */
int residency_retire(struct worker *worker);

/* Suspending a session: all its objects leave, and its commands wait; its context leaves when others need the room, or
 * as any that is idle. -EALREADY; -EBUSY: it is just giving memory; -ENOMEM: host swap has no room for them. */
int residency_suspend(struct session *session);
int residency_resume(struct session *session);

#endif
