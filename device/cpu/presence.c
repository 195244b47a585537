/* SPDX-License-Identifier: MIT
 *
 * What the machine gives the device. Its threads are threads of this machine, which others use too: a thread
 * at a command may have no processor for a while, and one that was called may get none. That time is nobody's
 * device time. Here it is counted, a unit of the device: how long threads were at commands or were
 * wanted there, and how much of that they had no processor.
 *
 * A thread's CPU time is a system call (0.7 us), too much for a command of a few microseconds. So a thread
 * remembers when it has last asked. Before something brief it asks only when that is a while ago, and after
 * something that took long by the clock, it asks again: what it had no processor for is at least the time that
 * passed, less all CPU time since it asked before.
 */
#include "device/cpu/cpu.h"

#include "base/clock.h"

#define BRIEF_NS (50 * NS_PER_US)
#define FRESH_NS (200 * NS_PER_US) /* so old at most is what it knows before something brief */

#define WAKE_NS (100 * NS_PER_US) /* what it takes a thread to wake up is the device's own */

/* The clock, and this thread's CPU time at that moment. */
static __thread struct {
	uint64_t at_ns, cpu_ns;
} asked;

static void ask(uint64_t now_ns)
{
	asked.cpu_ns = clock_thread_cpu_ns();
	asked.at_ns = now_ns;
}

static void count(struct device *device, enum device_unit unit, uint64_t spent_ns, uint64_t lost_ns)
{
	struct cpu_presence *presence = &device->presence[unit];

	atomic_fetch_add_explicit(&presence->spent_ns, spent_ns, memory_order_relaxed);
	if (lost_ns)
		atomic_fetch_add_explicit(&presence->lost_ns, lost_ns, memory_order_relaxed);
}

void cpu_presence_begin(uint64_t now_ns, double expected_ns)
{
	if (expected_ns >= (double)BRIEF_NS || now_ns - asked.at_ns >= FRESH_NS)
		ask(now_ns);
}

uint64_t cpu_presence_end(struct device *device, enum device_unit unit, const struct cpu_stay *stay)
{
	uint64_t spent_ns = stay->to_ns - stay->from_ns, lost_ns = 0, cpu_ns;

	if (spent_ns >= BRIEF_NS) {
		cpu_ns = asked.cpu_ns;
		ask(stay->to_ns);
		if (asked.cpu_ns - cpu_ns < spent_ns)
			lost_ns = spent_ns - (asked.cpu_ns - cpu_ns);
	}
	count(device, unit, spent_ns, lost_ns);
	return lost_ns;
}

void cpu_presence_late(struct device *device, const struct cpu_stay *stay, uint64_t left_ns)
{
	if (left_ns > stay->to_ns + BRIEF_NS)
		count(device, DEVICE_UNIT_COMPUTE, left_ns - stay->to_ns, left_ns - stay->to_ns);
}

/* Lock held. */
static unsigned absent_threads(const struct device *device)
{
	const struct device_queue *queue;
	unsigned wanted = 0;

	if (device->paused || device->running >= device->threads)
		return 0;
	list_for_each (queue, &device->jobs, place) {
		unsigned at_it = queue->job.running, by_it = cpu_job_wants(&queue->job);

		wanted += by_it > at_it ? by_it : at_it;
	}
	if (wanted > device->threads)
		wanted = device->threads;
	return wanted > device->running ? wanted - device->running : 0;
}

void cpu_absence_count(struct device *device, uint64_t now_ns)
{
	struct cpu_absence *absence = &device->absence;
	uint64_t from_ns = absence->since_ns + WAKE_NS;

	if (from_ns < absence->at_ns)
		from_ns = absence->at_ns;
	if (absence->threads && now_ns > from_ns) {
		uint64_t lost_ns = absence->threads * (now_ns - from_ns);
		count(device, DEVICE_UNIT_COMPUTE, lost_ns, lost_ns);
	}
	if (!absence->threads)
		absence->since_ns = now_ns;
	absence->at_ns = now_ns;
	absence->threads = absent_threads(device);
}

void cpu_presence(struct device *device, enum device_unit unit, struct device_presence *presence)
{
	const struct cpu_presence *counted = &device->presence[unit];

	/* Lost first, and never more than spent. */
	presence->lost_ns = atomic_load_explicit(&counted->lost_ns, memory_order_relaxed);
	presence->spent_ns = atomic_load_explicit(&counted->spent_ns, memory_order_relaxed);
}
