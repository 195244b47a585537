/* SPDX-License-Identifier: MIT
 *
 * Which session has to give device memory when another needs some: gdevd's half of docs/memory.md, whose rules are
 * named in the code. Every byte of an object is charged either to device memory (struct memory_account
 * worker.memory) or to host swap (worker.swap); workers move them, and tell.
 *
 * A worker that brings something in asks with CONTROL_ROOM, and waits in residency.waiting until there
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
struct device;
struct session;
struct vgpu;
struct worker;

/* What a worker said last when it was to give. It holds until the worker says otherwise (EASED), or is given memory or a
 * turn of the device; for RESIDENCY_ORDER_NS at most, but while it has the device. */
enum giving {
	GIVES,
	GIVES_LATER, /* its commands use what it has, or have the device: it says when they do not */
	GIVES_NOTHING,
};

/* So long nobody looks elsewhere for what somebody was ordered to give, and gives nothing of. */
#define RESIDENCY_ORDER_NS (10ull * 1000 * 1000 * 1000)

/* Of a device. */
struct residency {
	uint64_t reserve_bytes; /* temporary swap space (rule 6); 0: none */
	struct list waiting;    /* struct worker_residency.link */
	uint64_t taker;         /* session that took from the reserve last */
	bool balancing;         /* residency_balance() does not nest */
};

/* Of a worker. */
struct worker_residency {
	struct list link; /* residency.waiting, while it wants */
	uint64_t wanted_bytes;
	uint32_t wanted_serial;
	enum room_purpose wanted_for;
	uint32_t order;          /* serial of the EVICT that it has not answered; 0: none */
	struct deadline overdue; /* for the order's next step, or for what it said; */
	bool late;               /* that is over: nobody counts on what is to come */
	uint64_t ordered_bytes, ordered_from_bytes; /* asked for; what it held then */
	uint64_t returned_bytes;                    /* since then */
	uint64_t step_bytes;                        /* what it held after its last step */
	uint32_t ordered_flags;                     /* enum evict_flags */
	uint64_t ordered_ns;                        /* when, */
	uint64_t cause;                             /* for which session; 0: for none but its own */
	enum giving says;                           /* of device memory */
	bool spared; /* it used the device when we looked for who gives, and had no order since */
	bool suspended;        /* by the administrator, */
	uint64_t suspended_ns; /* since then, the last time */
	bool resumes;          /* as soon as its order has been carried out */
	uint64_t used_ns;      /* when it last used the device */
};

void residency_init(struct device *device);
/* The device is known. */
void residency_init_device(struct device *device);
void residency_init_worker(struct worker *worker);
/* It has a session now. */
void residency_begin_session(struct worker *worker);
/* The worker is gone; what it held is returned. */
void residency_finish_worker(struct worker *worker);

/* Orders the worker to give (EVICT), with `promised` bytes of swap that have been charged to it for that. cause: the session
 * that needs the room, and pays for the copying; 0: the worker's own. */
void residency_order(
	struct worker *worker, uint64_t bytes, uint64_t promised, uint32_t flags, uint64_t cause);
/* It has no order yet. */
void residency_init_orders(struct worker *worker);
/* What of the worker's memory goes to host swap when everything leaves, at most: by a word of the worker's, which may be
 * another the next time. */
uint64_t residency_objects(const struct worker *worker);
/* Whether its session has the device for computing. */
bool residency_has_compute(const struct worker *worker);
/* The worker may have something to give. */
void residency_refreshed(struct worker *worker);
/* EASED. */
void residency_eased(struct worker *worker);
/* Whether `a` gives before `b` (rule 5). */
bool residency_gives_before(const struct worker *a, const struct worker *b);

/* What the virtual GPU may still allocate without swapping its own objects. */
uint64_t residency_free(const struct vgpu *vgpu);
/* Whether the session uses the device, or brings in what it needs for that: then it gives nothing. */
bool residency_is_protected(struct worker *worker);
/* The same, or it did when we looked before, and is to be asked. Who was spared then is not held to have nothing now. */
bool residency_uses_device(struct worker *worker);
/* Makes others leave until there are `bytes` for a context: in the virtual GPU, or (NULL) on the device. 0: there
 * are; -EAGAIN: they are leaving, and workers_adjust() or client_wait() is called again; -ENOMEM: nobody can. */
int residency_make_room(struct device *device, struct vgpu *vgpu, uint64_t bytes);
/* Charges an account of `vgpu` for what a session of another virtual GPU of the device brings in for its turn: all of it,
 * or nothing. -EAGAIN: not now; residency_balance() comes again. -ENOMEM: nobody can give so much. */
int residency_charge_other(
	struct worker *worker, struct vgpu *vgpu, struct memory_account *account, uint64_t bytes);
/* What workers say. Requests are answered, at once or later. Negative: malformed. */
void residency_allocate(struct worker *worker, const struct control_allocate *message);
void residency_want(
	struct worker *worker, uint64_t bytes, enum room_purpose purpose, uint32_t serial);
void residency_promise_slot(
	struct worker *worker, uint64_t bytes, enum slot_place place, uint32_t serial);
int residency_returned(struct worker *worker, const struct control_header *header);
int residency_evicted(struct worker *worker, const struct control_header *header);
/* Memory was returned, or a limit was changed: serves those that wait, and sends for more. */
void residency_balance(struct device *device);
/* Swap space was returned, which is all devices'. */
void residency_balance_all(struct daemon *daemon);

/* Sets what the virtual GPU may have of device memory, in effect at once: when it has more, some of it
 * leaves. bytes 0: what the device has. -ENOMEM: host swap could not take what has to leave. */
int residency_set_limit(struct vgpu *vgpu, uint64_t bytes);

/* All that an idle session has on the device leaves, its context too. -ENOMEM: host swap has no room. */
int residency_retire(struct worker *worker);

/* Suspending a session: all its objects leave, and its commands wait; its context leaves when others need the room, or
 * as any that is idle. -EALREADY; -EBUSY: it is just giving memory, or going to another device; -ENOMEM: host swap has no room for them. */
int residency_suspend(struct session *session);
/* The same with its context, as far as that can be given back now; also of a session that is suspended. */
int residency_leave(struct session *session);
int residency_resume(struct session *session);

#endif
