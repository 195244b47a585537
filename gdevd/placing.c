/* SPDX-License-Identifier: MIT
 *
 * Finds the device for a client of a virtual GPU of any device: looks at the devices, and asks a placement
 * (placement.h). All sessions of a process in one virtual GPU have one device, and the device that it was told of
 * (DESCRIBE) is the one that it gets. It gets another only when workers of that one cannot be started, or if it has no
 * session yet when the device is drained.
 */
#include "gdevd/daemon.h"

#include "base/cleanup.h"
#include "gdevd/placement.h"
#include "gdevd/process.h"

/* The part of the last second in which the virtual GPU computed. */
static double load_of(const struct vgpu *vgpu, uint64_t now_ns)
{
	const struct usage_clock *clock = &vgpu->daemon->measure.clock;
	uint64_t over_ns;
	struct usage_counters used = usage_since(&vgpu->usage[RESOURCE_COMPUTE], clock,
		measure_vgpu(vgpu, RESOURCE_COMPUTE, now_ns), NS_PER_S, now_ns, &over_ns);

	return over_ns ? (double)used.used_ns / (double)over_ns : 0;
}

/* part: the device's of a virtual GPU of any; NULL: of none. */
static struct placement_device look_at(const struct device *device, const struct vgpu *part)
{
	const struct memory_account *memory = part ? &part->memory : &device->memory;
	uint64_t now_ns = clock_now_ns();
	struct placement_device seen = {
		.closed = device->drained,
		.failing = device_is_failing(device) || device_is_slow(device),
		.memory_bytes = device->known ? memory_total(&device->memory) : 0,
		.free_bytes = min_of(memory_free(memory), (uint64_t)INT64_MAX) +
			      relief_pool_bytes(device),
		.context_bytes = device->overhead_bytes,
		.node = device->node,
	};
	const struct vgpu *vgpu;

	list_for_each (vgpu, &device->vgpus, by_device) {
		if (part && vgpu->config->priority < part->config->priority)
			continue;
		seen.load += load_of(vgpu, now_ns);
		seen.sessions += vgpu->sessions + client_waiting_count(device, vgpu);
	}
	return seen;
}

/* ---- where a process is already ---- */

void placing_forget(const struct vgpu *vgpu)
{
	for (size_t i = 0; i < PLACED; i++)
		if (vgpu->daemon->placed.last[i].vgpu == vgpu)
			vgpu->daemon->placed.last[i].vgpu = NULL;
}

/* A pid alone may have been that of a process that has ended. */
static bool is_of_process(const struct client *client, pid_t pid, uid_t uid, uint64_t started)
{
	return pid == client->connection->pid && uid == client->connection->uid &&
	       started == client->process_started;
}

/* The part of its virtual GPU on which the client's process has a session, or was placed lately; NULL: none. */
static struct vgpu *part_of_process(const struct client *client)
{
	const struct config_vgpu *config = client->vgpu->config;
	const struct daemon *daemon = client->daemon;
	const struct session *session;

	if (client->connection->pid <=
		0) /* it is of another pid namespace: any number of processes are */
		return NULL;
	list_for_each (session, &daemon->sessions, link)
		if (session->vgpu->config == config &&
			is_of_process(client, session->pid, session->uid, session->process_started))
			return session->vgpu;
	for (size_t i = 0; i < PLACED; i++) {
		const struct placed *placed = &daemon->placed.last[i];

		if (placed->vgpu && !placed->vgpu->device->drained &&
			placed->vgpu->config == config &&
			is_of_process(client, placed->pid, placed->uid, placed->process_started))
			return placed->vgpu;
	}
	return NULL;
}

struct device *placing_choose(
	struct device *const *devices, unsigned count, const struct config_vgpu *config, int node)
{
	const struct placement_client where = {.node = node};
	struct placement_device seen[CONFIG_DEVICES_MAX];
	int best;

	for (unsigned i = 0; i < count; i++)
		seen[i] =
			look_at(devices[i], config ? vgpu_find_part(devices[i]->daemon,
							     config->name, devices[i]->served->name)
						   : NULL);
	best = placement_choose(&placement_room, &where, seen, count);
	return best < 0 ? NULL : devices[best];
}

static struct vgpu *choose_part(const struct client *client)
{
	const struct config_vgpu *config = client->vgpu->config;
	struct device *devices[CONFIG_DEVICES_MAX], *best;
	const struct vgpu *part;
	unsigned count = 0;

	list_for_each (part, &client->daemon->vgpus, link)
		if (part->config == config)
			devices[count++] = part->device;
	best = placing_choose(devices, count, config, process_node(client->connection->pid));
	return best ? vgpu_find_part(client->daemon, config->name, best->served->name)
		    : client->vgpu;
}

void client_place(struct client *client)
{
	const struct connection *connection = client->connection;
	struct daemon *daemon = client->daemon;
	struct vgpu *part;

	if (!config_vgpu_is_any(client->vgpu->config)) {
		client->vgpu = vgpu_where_begins(client->vgpu);
		return;
	}
	part = part_of_process(client);
	if (!part || part->device->workers.hopeless) {
		part = choose_part(client);
		daemon->placed.last[daemon->placed.count++ % PLACED] = (struct placed){
			connection->pid, connection->uid, client->process_started, part};
	}
	client->vgpu = part;
}
