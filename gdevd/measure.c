/* SPDX-License-Identifier: MIT
 *
 * Takes samples of what is used (usage.h), and lets nice values be looked at, five times a second. Only
 * while somebody uses the device or looks: an idle daemon has no timer. A program that is alone keeps
 * its grant without a message, and goes unnoticed if it begins again after a pause; whoever looks then sees
 * its use since the last sample.
 */
#include "gdevd/daemon.h"

#define REST_NS NS_PER_S /* after so long without use, it stops */

struct usage_counters measure_session(
	const struct session *session, unsigned resource, uint64_t now_ns)
{
	return usage_now(
		&session->usage[resource], grants_running_ns(session, resource, now_ns), now_ns);
}

struct usage_counters measure_vgpu(const struct vgpu *vgpu, unsigned resource, uint64_t now_ns)
{
	const struct session *session;
	uint64_t running_ns = 0;

	list_for_each (session, &vgpu->daemon->sessions, link)
		if (session->vgpu == vgpu)
			running_ns += grants_running_ns(session, resource, now_ns);
	return usage_now(&vgpu->usage[resource], running_ns, now_ns);
}

struct usage_counters measure_device(struct daemon *daemon, unsigned resource, uint64_t now_ns)
{
	const struct session *session;
	uint64_t running_ns = 0;

	list_for_each (session, &daemon->sessions, link)
		running_ns += grants_running_ns(session, resource, now_ns);
	return usage_now(&daemon->device.usage[resource], running_ns, now_ns);
}

static void sample(struct daemon *daemon, unsigned resource, uint64_t now_ns)
{
	const struct usage_clock *clock = &daemon->measure.clock;
	struct session *session;
	struct vgpu *vgpu;

	list_for_each (session, &daemon->sessions, link)
		usage_sample(&session->usage[resource], clock,
			measure_session(session, resource, now_ns));
	list_for_each (vgpu, &daemon->vgpus, link)
		usage_sample(&vgpu->usage[resource], clock, measure_vgpu(vgpu, resource, now_ns));
	usage_sample(
		&daemon->device.usage[resource], clock, measure_device(daemon, resource, now_ns));
}

static void on_tick(struct deadline *deadline, uint64_t now_ns)
{
	struct daemon *daemon = container_of(deadline, struct daemon, measure.tick);
	struct measure *measure = &daemon->measure;
	uint64_t seen_ns = 0;

	nice_tick(daemon);
	usage_clock_tick(&measure->clock, now_ns);
	for (unsigned i = 0; i < RESOURCES; i++) {
		struct usage_counters counters = measure_device(daemon, i, now_ns);
		sample(daemon, i, now_ns);
		seen_ns += counters.used_ns + counters.waited_ns;
	}
	if (seen_ns != measure->seen_ns)
		measure->active_ns = now_ns;
	measure->seen_ns = seen_ns;
	if (now_ns < measure->active_ns + REST_NS)
		deadline_set(&daemon->deadlines, deadline, now_ns + USAGE_INTERVAL_NS);
}

void measure_init(struct daemon *daemon)
{
	deadline_init(&daemon->measure.tick, on_tick);
}

void measure_wake(struct daemon *daemon)
{
	uint64_t now_ns = clock_now_ns();

	daemon->measure.active_ns = now_ns;
	if (list_empty(&daemon->measure.tick.link))
		deadline_set(&daemon->deadlines, &daemon->measure.tick, now_ns);
}
