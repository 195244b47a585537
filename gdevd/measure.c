/* SPDX-License-Identifier: MIT
 *
 * Takes samples of what is used (usage.h), and lets nice values be looked at, five times a second. Only
 * while somebody uses the device or looks: an idle daemon has no timer. A program that is alone keeps
 * its grant without a message, and goes unnoticed if it begins again after a pause; a look then finds its
 * use since the last sample.
 */
#include "gdevd/daemon.h"

#include <stdlib.h>

#include "base/cleanup.h"

#define REST_NS NS_PER_S /* after so long without use, it stops */

static uint64_t longest_command_ns(const struct session *session, unsigned resource)
{
	return __atomic_load_n(&session->worker->page->longest_ns[resource], __ATOMIC_RELAXED);
}

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

struct usage_counters measure_device(struct device *device, unsigned resource, uint64_t now_ns)
{
	struct usage *usage = &device->usage[resource];
	const struct session *session;
	uint64_t running_ns = 0, longest_ns = 0;

	list_for_each (session, &device->daemon->sessions, link)
		if (session->device == device) {
			running_ns += grants_running_ns(session, resource, now_ns);
			longest_ns = max_of(longest_ns, longest_command_ns(session, resource));
		}
	return usage_at_once(usage, usage_now(usage, running_ns, now_ns), longest_ns, now_ns);
}

static void take_samples(struct daemon *daemon, unsigned resource, uint64_t now_ns)
{
	const struct usage_clock *clock = &daemon->measure.clock;
	struct session *session;
	struct device *device;
	struct vgpu *vgpu;

	list_for_each (session, &daemon->sessions, link)
		usage_sample(&session->usage[resource], clock,
			measure_session(session, resource, now_ns));
	list_for_each (vgpu, &daemon->vgpus, link)
		usage_sample(&vgpu->usage[resource], clock, measure_vgpu(vgpu, resource, now_ns));
	list_for_each (device, &daemon->devices, link)
		usage_sample(
			&device->usage[resource], clock, measure_device(device, resource, now_ns));
}

static void on_tick(struct deadline *deadline, uint64_t now_ns)
{
	struct daemon *daemon = container_of(deadline, struct daemon, measure.tick);
	struct measure *measure = &daemon->measure;
	struct device *device;
	uint64_t seen_ns = 0;

	nice_tick(daemon);
	list_for_each (device, &daemon->devices, link)
		for (unsigned i = 0; i < RESOURCES; i++) {
			struct usage_counters counters = measure_device(device, i, now_ns);
			seen_ns += counters.used_ns + counters.waited_ns;
		}
	usage_clock_tick(&measure->clock, seen_ns == measure->seen_ns, now_ns);
	for (unsigned i = 0; i < RESOURCES; i++)
		take_samples(daemon, i, now_ns);
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

/* ---- looking ---- */

struct look {
	struct daemon *daemon;
	unsigned resource, window;
	uint64_t now_ns, over_ns;
	struct usage_part *parts;
	struct usage **usages; /* of the parts */
	size_t count;
};

static void look_at(struct look *look, struct usage *usage, struct usage_counters now,
	double weight, double most)
{
	static const uint64_t windows[USAGE_WINDOWS] = {NS_PER_S, 10 * NS_PER_S};

	look->usages[look->count] = usage;
	look->parts[look->count++] = (struct usage_part){
		.weight = weight,
		.most = most,
		.counters = usage_since(usage, &look->daemon->measure.clock, now,
			windows[look->window], look->now_ns, &look->over_ns),
	};
}

/* Sessions that were looked at contend with each other. */
static void judge_parts(struct look *look)
{
	double over_ns = (double)max_of(look->over_ns, (uint64_t)1);

	usage_expect(look->parts, look->count, look->over_ns);
	for (size_t i = 0; i < look->count; i++)
		look->usages[i]->windows[look->window] = (struct usage_window){
			.over_ns = look->over_ns,
			.used = (double)look->parts[i].counters.used_ns / over_ns,
			.waited = (double)look->parts[i].counters.waited_ns / over_ns,
			.expected = look->parts[i].expected,
		};
	look->count = 0;
}

/* The virtual GPUs of a device contend with each other, and the sessions of a virtual GPU. */
static void look_at_resource(struct look *look, struct device *device)
{
	struct daemon *daemon = look->daemon;
	unsigned resource = look->resource, queue = grants_queue(daemon, resource);
	struct session *session;
	struct vgpu *vgpu;

	look_at(look, &device->usage[resource], measure_device(device, resource, look->now_ns), 1,
		1);
	judge_parts(look);
	list_for_each (vgpu, &device->vgpus, by_device) {
		const struct sched_group *group = &vgpu->groups[queue];
		look_at(look, &vgpu->usage[resource], measure_vgpu(vgpu, resource, look->now_ns),
			group->node.weight,
			group->strict ? min_of(group->node.weight, 100u) / 100.0 : 1);
	}
	judge_parts(look);
	list_for_each (vgpu, &device->vgpus, by_device) {
		list_for_each (session, &daemon->sessions, link)
			if (session->vgpu == vgpu)
				look_at(look, &session->usage[resource],
					measure_session(session, resource, look->now_ns),
					session->entities[queue].node.weight, 1);
		judge_parts(look);
	}
}

/* What holds now, and is longer than all before. */
static void look_at_longest(struct session *session, unsigned resource, uint64_t now_ns)
{
	const struct session_grant *grant = &session->grants[resource];
	struct usage *usages[] = {&session->usage[resource], &session->vgpu->usage[resource],
		&session->device->usage[resource]};
	uint64_t over_ns = grant->held && grant->told_ns ? now_ns - grant->told_ns : 0;
	uint64_t longest_ns = longest_command_ns(session, resource);

	for (size_t i = 0; i < array_length(usages); i++) {
		usages[i]->longest_over_ns = max_of(usages[i]->longest_over_ns, over_ns);
		usages[i]->longest_ns = max_of(usages[i]->longest_ns, longest_ns);
	}
}

void measure_look(struct daemon *daemon)
{
	struct look look = {.daemon = daemon, .now_ns = clock_now_ns()};
	struct session *session;
	struct device *device;
	const struct vgpu *vgpu;
	size_t count = 1 + daemon->session_count;

	measure_wake(daemon);
	list_for_each (vgpu, &daemon->vgpus, link)
		count++;
	look.parts = calloc(count, sizeof *look.parts);
	look.usages = calloc(count, sizeof *look.usages);
	for (look.resource = 0; look.resource < RESOURCES; look.resource++) {
		list_for_each (session, &daemon->sessions, link)
			look_at_longest(session, look.resource, look.now_ns);
		for (look.window = 0; look.window < USAGE_WINDOWS; look.window++)
			list_for_each (device, &daemon->devices, link)
				if (look.parts && look.usages)
					look_at_resource(&look, device);
	}
	free(look.parts);
	free(look.usages);
}
