// SPDX-License-Identifier: MIT OR GPL-2.0
/*
 * Mailboxes: requests of the guest's kernel to the proxy, and whose slot is whose (proto/vm.h). What the host writes is
 * believed as far as it concerns a session; it never says where the kernel reads or writes.
 */
#include <linux/io.h>
#include <linux/jiffies.h>
#include <linux/ktime.h>
#include <linux/log2.h>
#include <linux/moduleparam.h>
#include <linux/sched/signal.h>

#include "gdev.h"

#define LOOK_NS 30000           /* about what an interrupt and waking up take */
#define FREE_SLOT_WAIT (2 * HZ) /* for a session that ends in a moment */
/* For one that has ended: after 10 s the host keeps the slot. Suspending waits for 20 s. */
#define LEAVING_SLOT_WAIT (15 * HZ)

static int look_us = -1;
module_param(look_us, int, 0644);
MODULE_PARM_DESC(look_us,
	"how long a thread looks for the host's answer before it sleeps; -1: by how long answers took");

void gdev_ring(struct gdev_device *device, u32 vector)
{
	if (!READ_ONCE(device->gone))
		iowrite32(VM_PEER_HOST << 16 | vector, device->registers + VM_PCI_DOORBELL);
}

static u32 slot_state(const struct gdev_slot *slot)
{
	return smp_load_acquire(&slot->box->state);
}

bool gdev_slot_dead(const struct gdev_slot *slot)
{
	return READ_ONCE(slot->device->gone) || (slot->vector && slot_state(slot) == VM_SLOT_DEAD);
}

static bool answered(const struct gdev_slot *slot)
{
	return smp_load_acquire(&slot->box->answered) == slot->posted;
}

/* Requests that change who has a slot are the host's first process's, which sleeps; those of a session find out whether
 * somebody looks. */
static void ring_for(struct gdev_slot *slot, u32 operation)
{
	if (operation < VM_COPY)
		gdev_ring(slot->device, 0);
	else if (READ_ONCE(slot->box->host_state) == VM_HOST_ASLEEP &&
		 xchg(&slot->box->host_state, VM_HOST_AWAKE) == VM_HOST_ASLEEP)
		gdev_ring(slot->device, slot->vector);
}

/* What the host took for the last request that was about as large as this one. */
static u32 *took_of(struct gdev_slot *slot, const struct vm_request *request)
{
	return &slot->took_ns[ilog2(request->bytes | 1)];
}

/* The thread looks for the answer where that is expected before it would have slept and woken up, and else sleeps at once. */
static u64 patience_ns(struct gdev_slot *slot, const struct vm_request *request)
{
	int us = READ_ONCE(look_us);

	if (us >= 0)
		return (u64)us * NSEC_PER_USEC;
	return *took_of(slot, request) <= LOOK_NS ? LOOK_NS : 0;
}

static int await_answer(struct gdev_slot *slot, u64 look_ns)
{
	u64 until = ktime_get_ns() + look_ns;
	int error;

	while (!answered(slot) && ktime_get_ns() < until && !gdev_slot_dead(slot) &&
		!fatal_signal_pending(current)) {
		cpu_relax();
		cond_resched();
	}
	if (answered(slot))
		return 0;
	WRITE_ONCE(slot->box->guest_waits, 1);
	smp_mb(); /* the host stores `answered` before it looks at this */
	error = wait_event_killable(slot->wait, answered(slot) || gdev_slot_dead(slot));
	WRITE_ONCE(slot->box->guest_waits, 0);
	if (answered(slot))
		return 0;
	return error ? -EINTR : -EIO;
}

void gdev_say_nice(struct gdev_slot *slot)
{
	WRITE_ONCE(slot->box->nice, task_nice(current));
}

int gdev_ask(struct gdev_slot *slot, const struct vm_request *request, struct vm_answer *answer)
{
	struct vm_mailbox *box = slot->box;
	u64 before_ns = READ_ONCE(box->counts.request_ns);
	int error;

	lockdep_assert_held(&slot->lock);
	if (slot->stuck || gdev_slot_dead(slot))
		return -EIO;
	gdev_say_nice(slot);
	memcpy(&box->request, request, sizeof(*request));
	smp_store_release(&box->posted, ++slot->posted);
	smp_mb(); /* pairs with the host's, between ASLEEP and its look at `posted` */
	ring_for(slot, request->operation);
	error = await_answer(slot, patience_ns(slot, request));
	if (error) {
		slot->stuck = true;
		return error;
	}
	*took_of(slot, request) =
		min_t(u64, READ_ONCE(box->counts.request_ns) - before_ns, U32_MAX);
	memcpy(answer, &box->answer, sizeof(*answer));
	return answer->status < -MAX_ERRNO || answer->status > 0 ? -EPROTO : answer->status;
}

void gdev_unpin(struct gdev_slot *slot)
{
	if (slot->pinned)
		unpin_user_pages_dirty_lock(slot->pages, slot->pinned, slot->dirty);
	slot->pinned = 0;
}

static bool is_free(const struct gdev_slot *slot)
{
	return !READ_ONCE(slot->taken) && slot_state(slot) == VM_SLOT_FREE;
}

static bool any_free(const struct gdev_device *device)
{
	u32 i;

	for (i = 1; i < device->slot_count; i++)
		if (is_free(&device->slots[i]))
			return true;
	return READ_ONCE(device->gone);
}

/* Its session has ended here, and not yet at the host. */
static bool any_leaves(const struct gdev_device *device)
{
	u32 i;

	for (i = 1; i < device->slot_count; i++)
		if (!READ_ONCE(device->slots[i].taken))
			return true;
	return false;
}

/* A slot that the host has made free again, or NULL. */
static struct gdev_slot *take_free(struct gdev_device *device)
{
	struct gdev_slot *found = NULL;
	u32 i;

	mutex_lock(&device->lock);
	for (i = 1; i < device->slot_count && !found; i++)
		if (is_free(&device->slots[i]))
			found = &device->slots[i];
	if (found)
		WRITE_ONCE(found->taken, true);
	mutex_unlock(&device->lock);
	return found;
}

int gdev_slot_take(struct gdev_device *device, struct gdev_slot **taken)
{
	struct gdev_slot *slot;
	unsigned long start = jiffies;

	while (!(slot = take_free(device))) {
		unsigned long limit = any_leaves(device) ? LEAVING_SLOT_WAIT : FREE_SLOT_WAIT;

		if (READ_ONCE(device->gone))
			return -ENODEV;
		if (time_after_eq(jiffies, start + limit))
			return -EUSERS;
		if (wait_event_killable_timeout(
			    device->slots[0].wait, any_free(device), FREE_SLOT_WAIT) < 0)
			return -EINTR;
	}
	mutex_lock(&slot->lock);
	gdev_unpin(slot); /* of a process that was killed: the host is done with them */
	slot->posted = 0;
	slot->stuck = false;
	memset(slot->took_ns, 0, sizeof(slot->took_ns));
	mutex_unlock(&slot->lock);
	atomic64_set(&slot->events, 0);
	*taken = slot;
	return 0;
}

/* Nobody else is in the slot. Pages of a request that is not answered stay pinned until the host has freed the slot. */
void gdev_slot_give(struct gdev_slot *slot)
{
	struct gdev_device *device = slot->device;

	if (!READ_ONCE(device->gone)) {
		/* Until it has ended the session, the host does not call the slot free. */
		smp_store_release(&slot->box->state, VM_SLOT_RESETTING);
		smp_store_release(&slot->box->closing, 1);
		gdev_ring(device, 0);
	}
	mutex_lock(&device->lock);
	WRITE_ONCE(slot->taken, false);
	mutex_unlock(&device->lock);
}
