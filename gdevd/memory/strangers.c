/* SPDX-License-Identifier: MIT
 *
 * See strangers.h.
 */
#include "gdevd/memory/strangers.h"

#include "base/cleanup.h"
#include "base/log.h"
#include "gdevd/daemon.h"

#define ANSWER_NS (20 * NS_PER_S) /* a driver that takes longer is taken to hang */

void strangers_init(struct device *device)
{
	memory_init(&device->strangers.account, &device->memory, UINT64_MAX);
}

/* Whether somebody is asked now. */
static bool ask_warm_worker(struct device *device)
{
	struct worker *worker = workers_take_warm(device);

	if (device->strangers.asked)
		return true;
	if (!worker)
		return false;
	device->strangers.asked = worker;
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

void strangers_told(struct worker *worker, const struct control_memory *message)
{
	struct device *device = worker->device;
	struct strangers *strangers = &device->strangers;
	struct worker *other;

	if (strangers->asked != worker)
		return;
	strangers->asked = NULL;
	deadline_cancel(&worker->deadline);
	list_for_each (other, &device->workers.all, by_device)
		other->refused = false;
	if (!message->header.status)
		settle_account(device, message->free_bytes);
	strangers->known = true;
	relief_serve(device);
	strangers->known = false;
	residency_balance(device);
	workers_adjust(device);
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
