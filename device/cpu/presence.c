/* SPDX-License-Identifier: MIT
 *
 * What the machine gives the device. Its threads are threads of this machine, which others use too: a thread
 * at a command may have no processor for a while, and one that was called may get none. That time is nobody's
 * device time. Here it is counted, a unit of the device: how long threads were at commands or were
 * wanted there, and how much of that they had no processor. Both are times of the device, of which each thread
 * has a part as long as others are there too: the last one at a launch that has no processor stops all of it.
 */
#include "device/cpu/cpu.h"

#include "base/cleanup.h"
#include "base/clock.h"

#define BRIEF_NS (50 * NS_PER_US)  /* to get a lock */
#define GRACE_NS (100 * NS_PER_US) /* what it takes a thread to wake up is the device's own */

static void count(
	struct device *device, enum device_resource unit, uint64_t spent_ns, uint64_t lost_ns)
{
	struct cpu_presence *presence = &device->presence[unit];

	atomic_fetch_add_explicit(&presence->spent_ns, spent_ns, memory_order_relaxed);
	if (lost_ns)
		atomic_fetch_add_explicit(&presence->lost_ns, lost_ns, memory_order_relaxed);
}

void cpu_presence_late(struct cpu_stay *stay, uint64_t left_ns)
{
	if (left_ns <= stay->to_ns + BRIEF_NS)
		return;
	stay->lost_ns += left_ns - stay->to_ns;
	stay->to_ns = left_ns;
}

void cpu_presence_count(
	struct device *device, enum device_resource unit, const struct cpu_stay *stay)
{
	uint64_t lost_ns = 0;

	if (stay->lost_ns)
		lost_ns = (uint64_t)((double)stay->part_ns * (double)stay->lost_ns /
				     (double)(stay->to_ns - stay->from_ns));
	count(device, unit, stay->part_ns, min_of(lost_ns, stay->part_ns));
}

/* Lock held. */
static unsigned absent_threads(const struct device *device)
{
	const struct device_queue *queue;
	unsigned wanted = 0;

	/* While the last blocks before a pause end, the others could go on but for it. */
	if (device->running >= device->threads || (device->paused && !device->running))
		return 0;
	list_for_each (queue, &device->jobs, place) {
		unsigned at_it = queue->job.running;
		unsigned by_it = min_of(cpu_job_wants(&queue->job), queue->slot_count);

		wanted += by_it > at_it ? by_it : at_it;
	}
	if (wanted > device->threads)
		wanted = device->threads;
	return wanted > device->running ? wanted - device->running : 0;
}

/* For so long `absent` threads were missed beside those that were there. */
static void pass(struct device *device, unsigned absent, uint64_t ns)
{
	struct cpu_absence *absence = &device->absence;
	unsigned wanted = absence->there + absent;

	if (!wanted)
		return;
	if (wanted > 1)
		ns /= wanted;
	absence->part_ns += ns;
	if (absent)
		count(device, RESOURCE_COMPUTE, absent * ns, absent * ns);
}

void cpu_absence_count(struct device *device, uint64_t now_ns)
{
	struct cpu_absence *absence = &device->absence;
	uint64_t missed_ns = max_of(absence->since_ns + absence->grace_ns, absence->at_ns);

	now_ns = max_of(now_ns, absence->at_ns);
	if (!absence->threads || missed_ns > now_ns)
		missed_ns = now_ns;
	pass(device, 0, missed_ns - absence->at_ns);
	pass(device, absence->threads, now_ns - missed_ns);
	if (!absence->threads)
		absence->since_ns = now_ns;
	absence->at_ns = now_ns;
	absence->there = device->running;
	absence->threads = absent_threads(device);
	/* Threads that a pause has stopped are woken by nobody; and where no thread is, a launch that is resumed is
	 * not at work. */
	absence->grace_ns = device->paused || !device->running ? 0 : GRACE_NS;
}

void cpu_presence(
	struct device *device, enum device_resource unit, struct device_presence *presence)
{
	const struct cpu_presence *counted = &device->presence[unit];

	/* Lost first, and never more than spent. */
	presence->lost_ns = atomic_load_explicit(&counted->lost_ns, memory_order_relaxed);
	presence->spent_ns = atomic_load_explicit(&counted->spent_ns, memory_order_relaxed);
}
