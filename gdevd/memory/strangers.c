/* SPDX-License-Identifier: MIT
 *
 * See strangers.h.
 */
#include "gdevd/memory/strangers.h"

#include "base/cleanup.h"
#include "base/log.h"
#include "gdevd/daemon.h"

#define ANSWER_NS (20 * NS_PER_S) /* a driver that takes longer is not waited for */

void strangers_init(struct device *device)
{
	memory_init(&device->strangers.account, &device->memory, UINT64_MAX);
}

/* A warm worker that owes no answer. */
static struct worker *find_to_ask(const struct device *device)
{
	struct worker *worker;

	list_for_each (worker, &device->workers.all, by_device)
		if (worker->state == WORKER_WARM && !worker->owes_answer)
			return worker;
	return NULL;
}

/* Whether somebody is asked now. */
static bool ask_warm_worker(struct device *device)
{
	struct worker *worker;

	if (device->strangers.asked)
		return true;
	worker = find_to_ask(device);
	if (!worker)
		return false;
	device->strangers.asked = worker;
	worker->owes_answer = true;
	connection_answer(worker->connection, CONTROL_MEMORY, 0, 0);
	deadline_set(&device->daemon->deadlines, &worker->deadline, clock_now_ns() + ANSWER_NS);
	return true;
}

/* A context that is being made is in no account yet, and may be what the driver had no room beside. The worker that was refused
 * waits until no other starts; those that were not do not. */
static bool is_settled(const struct worker *worker)
{
	return !worker->refused || !worker->device->workers.starting;
}

void strangers_refused(struct worker *worker)
{
	worker->refused = true;
	if (is_settled(worker))
		ask_warm_worker(worker->device);
}

bool strangers_wait(struct worker *worker, const struct control_allocate *message, bool lacks)
{
	struct device *device = worker->device;
	struct strangers *strangers = &device->strangers;

	if (!worker->refused && !(lacks && strangers->account.used_bytes && !strangers->known))
		return false;
	if (is_settled(worker) && !ask_warm_worker(device)) {
		worker->refused = false;
		return false;
	}
	relief_hold(worker, message);
	return true;
}

void strangers_look(struct device *device)
{
	if (device->strangers.account.used_bytes)
		ask_warm_worker(device);
	relief_serve(device);
}

/* What is free by the account is no more than what the driver has free. */
static void settle_account(struct device *device, uint64_t free_bytes)
{
	struct memory_account *account = &device->strangers.account;
	uint64_t before = account->used_bytes, room;

	memory_return(account, before);
	/* Contexts that are being made may be there already. */
	free_bytes += device->workers.starting * device->overhead_bytes;
	room = memory_room(&device->memory);
	memory_charge_held(account, room - min_of(room, free_bytes));
	if (!before && account->used_bytes)
		log_warning("others than gdev use %llu MiB of device %s",
			(unsigned long long)(account->used_bytes >> 20), device->served->name);
}

/* NULL: there is no answer. */
static void end_question(struct device *device, const uint64_t *free_bytes)
{
	struct strangers *strangers = &device->strangers;
	struct worker *other;

	deadline_cancel(&strangers->asked->deadline);
	strangers->asked = NULL;
	list_for_each (other, &device->workers.all, by_device)
		other->refused = false;
	if (free_bytes)
		settle_account(device, *free_bytes);
	strangers->known = true;
	relief_serve(device);
	strangers->known = false;
	residency_balance(device);
	workers_adjust(device);
}

int strangers_told(struct worker *worker, const struct control_header *header)
{
	const struct control_memory *message = (const struct control_memory *)header;

	worker->owes_answer = false;
	if (worker->device->strangers.asked == worker)
		end_question(worker->device, message->header.status ? NULL : &message->free_bytes);
	return 0;
}

void strangers_late(struct worker *worker)
{
	struct device *device = worker->device;

	complain(
		"worker %d has not said in time what device %s has free: nobody waits for that any longer",
		(int)worker->pid, device->served->name);
	/* Clients get others first. */
	list_remove(&worker->by_device);
	list_append(&device->workers.all, &worker->by_device);
	end_question(device, NULL);
}

void strangers_unask(struct worker *worker)
{
	struct device *device = worker->device;

	if (device->strangers.asked != worker)
		return;
	device->strangers.asked = NULL;
	relief_serve(device); /* which asks another */
}

bool strangers_forget(struct device *device)
{
	struct memory_account *account = &device->strangers.account;
	bool any = account->used_bytes != 0;

	memory_return(account, account->used_bytes);
	return any;
}
