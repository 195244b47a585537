/* SPDX-License-Identifier: MIT
 *
 * Orders: what a worker is told to give (EVICT), by what steps it gives that, and what it says when it is done; and what
 * the administrator has sessions give. Who is told is found in residency.c.
 */
#include <errno.h>
#include <string.h>

#include "base/cleanup.h"
#include "gdevd/daemon.h"
#include "gdevd/memory/residency.h"

#define COPY_BYTES_A_NS_LEAST 1 /* who needs the room pays for no slower copying than that */

bool residency_has_compute(const struct worker *worker)
{
	return worker->session &&
	       worker->session->entities[RESOURCE_COMPUTE].state == ENTITY_HOLDING;
}

uint64_t residency_objects(const struct worker *worker)
{
	uint64_t used = worker->memory.used_bytes;

	return used - min_of(used, retire_is_retired(worker) ? 0 : worker->device->overhead_bytes);
}

/* ---- steps ---- */

/* What the worker holds of that of which it was ordered to give some. */
static uint64_t held_bytes(const struct worker *worker)
{
	bool slots = worker->residency.ordered_flags & EVICT_SLOTS;

	return slots ? worker->swap[SWAP_MEMORY].used_bytes : worker->memory.used_bytes;
}

/* The order was given, or it is being carried out: its next step is awaited. Or what it said is to hold for so long. */
static void await_step(struct worker *worker)
{
	worker->residency.late = false;
	worker->residency.step_bytes = held_bytes(worker);
	deadline_set(&worker->daemon->deadlines, &worker->residency.overdue,
		clock_now_ns() + RESIDENCY_ORDER_NS);
}

/* Who gives later is not waited for any more; who gave nothing is asked again when somebody needs it. */
static void forget_answers(struct worker *worker)
{
	enum giving *says[] = {&worker->residency.says, &worker->swapping.says};

	for (size_t i = 0; i < array_length(says); i++) {
		if (*says[i] == GIVES_LATER)
			await_step(worker);
		*says[i] = *says[i] == GIVES_LATER ? GIVES_NOTHING : GIVES;
	}
}

static bool is_over_limit(const struct worker *worker)
{
	const struct memory_account *account = &worker->session->vgpu->memory;

	return account->used_bytes > account->limit_bytes;
}

static void on_overdue(struct deadline *deadline, uint64_t now_ns)
{
	struct worker *worker = container_of(deadline, struct worker, residency.overdue);

	if (worker->residency.order) {
		complain("worker %d does not give the memory that it was told to give",
			(int)worker->pid);
		worker->residency.late = true;
	} else if (residency_has_compute(worker)) {
		/* A session that never pauses is asked again for what its virtual GPU has beyond its limit. */
		if (is_over_limit(worker) && worker->residency.says == GIVES_LATER)
			residency_refreshed(worker);
		else
			await_step(worker);
	} else {
		forget_answers(worker);
	}
	residency_balance(worker->device);
}

void residency_init_orders(struct worker *worker)
{
	deadline_init(&worker->residency.overdue, on_overdue);
}

/* ---- orders ---- */

void residency_order(
	struct worker *worker, uint64_t bytes, uint64_t promised, uint32_t flags, uint64_t cause)
{
	struct control_evict message = {.bytes = bytes, .swapped = promised, .flags = flags};
	struct worker_residency *residency = &worker->residency;
	static uint32_t serial;

	/* One queue for all resources: the session that waits for room may hold it, so the victim must not wait for a
	 * grant. */
	if (worker->daemon->config.one_queue)
		message.flags |= EVICT_GRANTED;
	if (!++serial)
		serial = 1;
	control_fill(&message, CONTROL_EVICT, serial);
	if (!(flags & EVICT_RESUME)) {
		residency->order = serial;
		residency->spared = false;
		residency->ordered_bytes = flags & EVICT_SLOTS ? 0 : bytes;
		residency->ordered_flags = flags;
		residency->ordered_from_bytes = worker->memory.used_bytes;
		residency->returned_bytes = 0;
		residency->ordered_ns = clock_now_ns();
		residency->cause = cause;
		await_step(worker);
	}
	connection_send(
		worker->connection, &message, &worker->swapping.fd, (flags & EVICT_FILE) != 0);
}

/* ---- what the worker says ---- */

/* Whether the worker has made a step of its order: it holds less than after the step before. One that gave a little at a
 * time, or took again what it gave, would be waited for for ever. */
static bool has_made_step(const struct worker *worker)
{
	const struct worker_residency *residency = &worker->residency;

	return residency->order && !residency->late &&
	       held_bytes(worker) + DEVICE_CHUNK_MIN <= residency->step_bytes;
}

int residency_returned(struct worker *worker, const struct control_header *header)
{
	const struct control_return *message = (const struct control_return *)header;
	struct device *device = worker->device;

	if (memory_return(&worker->memory, message->device_bytes))
		return -EINVAL;
	for (unsigned i = 0; i < SWAP_POOLS; i++)
		if (memory_return(&worker->swap[i], message->swap_bytes[i]))
			return -EINVAL;
	if (message->header.status == -ENOMEM)
		strangers_refused(worker);
	worker->residency.returned_bytes += message->device_bytes;
	if (has_made_step(worker))
		await_step(worker);
	if (message->swap_bytes[SWAP_MEMORY] || message->swap_bytes[SWAP_FILE])
		residency_balance_all(device->daemon);
	else
		residency_balance(device);
	if (!message->device_bytes)
		return 0;
	relief_serve(device);
	workers_adjust(device);
	return 0;
}

static void resume_session(struct worker *worker)
{
	worker->residency.suspended = worker->residency.resumes = false;
	residency_refreshed(worker);
	residency_order(worker, 0, 0, EVICT_RESUME, 0);
}

/* The copying was for somebody else's sake; of those that are gone nothing can be had. */
static void charge_cause(struct worker *worker, uint64_t copied_ns)
{
	const struct worker_residency *residency = &worker->residency;
	uint64_t most_ns = min_of(clock_now_ns() - residency->ordered_ns,
		residency->returned_bytes / COPY_BYTES_A_NS_LEAST);
	struct session *cause = worker->session;

	if (residency->cause)
		cause = session_find(worker->daemon, residency->cause);
	/* The worker may say what it likes, but not have worked for longer than it took, nor for what it did not give. */
	if (cause && copied_ns)
		grants_charge(cause, RESOURCE_COPY_FROM_DEVICE, min_of(copied_ns, most_ns));
}

/* What counts is what it returned, and not what it says: a worker that lies would be asked again at once, for ever. */
static bool has_given(const struct worker *worker)
{
	const struct worker_residency *residency = &worker->residency;

	return residency->returned_bytes &&
	       residency->returned_bytes >= min_of(DEVICE_CHUNK_MIN, residency->ordered_bytes);
}

int residency_evicted(struct worker *worker, const struct control_header *header)
{
	const struct control_evicted *message = (const struct control_evicted *)header;
	struct worker_residency *residency = &worker->residency;
	enum giving without = message->rest == REST_IN_USE ? GIVES_LATER : GIVES_NOTHING;

	if (!residency->order || message->header.serial != residency->order)
		return 0; /* of a gdevd before this one */
	residency->order = 0;
	deadline_cancel(&residency->overdue);
	if (residency->ordered_flags & EVICT_SLOTS) {
		worker->swapping.says = swap_has_given(worker) ? GIVES : without;
	} else if (has_given(worker)) {
		residency_refreshed(worker);
	} else if (!(residency->ordered_flags &
			   EVICT_RETIRE)) { /* that asks for more than there may be */
		residency->says = without;
	}
	if (residency->says != GIVES || worker->swapping.says != GIVES)
		await_step(worker);
	if (residency->ordered_flags & EVICT_SLOTS) {
		residency_balance(worker->device);
		return 0;
	}
	if (message->header.status)
		complain("worker %d cannot write to swap: %s", (int)worker->pid,
			strerror(-message->header.status));
	charge_cause(worker, message->copied_ns);
	if (residency->ordered_flags & EVICT_RETIRE)
		retire_done(worker, message->retired);
	if (residency->resumes)
		resume_session(worker);
	else if (residency->suspended)
		shm_session_suspended(worker->session);
	residency_balance(worker->device);
	return 0;
}

/* ---- administration ---- */

static int suspend(struct session *session, uint32_t flags)
{
	struct worker *worker = session->worker;
	struct worker_residency *residency = &worker->residency;
	uint64_t objects = residency_objects(worker);
	enum swap_pool pool;
	int status;

	if (residency->order || session->move.state == MOVE_TOLD)
		return -EBUSY;
	status = swap_charge(worker, objects, &pool);
	if (status)
		return status == -EAGAIN ? -EBUSY : status;
	residency->suspended = true;
	residency->suspended_ns = clock_now_ns();
	residency_order(worker, worker->memory.used_bytes, objects,
		flags | (pool == SWAP_FILE ? EVICT_FILE : 0), 0);
	retire_look(worker->device);
	return 0;
}

int residency_suspend(struct session *session)
{
	return session->worker->residency.suspended ? -EALREADY : suspend(session, EVICT_SUSPEND);
}

int residency_leave(struct session *session)
{
	return suspend(session, EVICT_SUSPEND | EVICT_RETIRE);
}

int residency_retire(struct worker *worker)
{
	uint64_t objects = residency_objects(worker);
	enum swap_pool pool;
	int status = swap_charge(worker, objects, &pool);

	if (status)
		return status;
	residency_order(worker, worker->memory.used_bytes, objects,
		EVICT_RETIRE | (pool == SWAP_FILE ? EVICT_FILE : 0), 0);
	return 0;
}

int residency_resume(struct session *session)
{
	struct worker_residency *residency = &session->worker->residency;

	if (!residency->suspended || residency->resumes)
		return -EALREADY;
	if (session->move.state == MOVE_TOLD)
		return -EBUSY;
	if (residency->order) {
		residency->resumes = true;
	} else {
		resume_session(session->worker);
		/* It may be waiting for memory that it asked for before it was suspended. */
		residency_balance(session->device);
	}
	return 0;
}
