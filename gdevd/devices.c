/* SPDX-License-Identifier: MIT
 *
 * The physical GPUs that gdevd serves.
 */
#include "gdevd/daemon.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define SLOW_NS (5 * NS_PER_S)

struct device *device_first(const struct daemon *daemon)
{
	return list_first(&daemon->devices, struct device, link);
}

struct device *device_find(const struct daemon *daemon, const char *name)
{
	struct device *device;

	list_for_each (device, &daemon->devices, link)
		if (!strcmp(device->served->name, name))
			return device;
	return NULL;
}

unsigned device_index(const struct device *device)
{
	return (unsigned)(device->served - device->daemon->config.served.devices);
}

bool device_is_failing(const struct device *device)
{
	return device->workers.failures >= FAILURES_ALLOWED;
}

bool device_is_slow(const struct device *device)
{
	uint64_t now_ns = clock_now_ns();
	const struct worker *worker;

	list_for_each (worker, &device->workers.all, by_device)
		if (worker->state == WORKER_STARTING && !worker->restored &&
			now_ns - worker->since_ns > SLOW_NS)
			return true;
	return false;
}

unsigned devices_count_workers(const struct daemon *daemon)
{
	const struct device *device;
	unsigned count = 0;

	list_for_each (device, &daemon->devices, link)
		count += device->workers.total;
	return count;
}

unsigned device_count_sessions(const struct device *device)
{
	const struct vgpu *vgpu;
	unsigned count = 0;

	list_for_each (vgpu, &device->vgpus, by_device)
		count += vgpu->sessions;
	return count;
}

static int create_device(struct daemon *daemon, const struct config_served_device *served)
{
	struct device *device = calloc(1, sizeof *device);
	int error;

	if (!device)
		return -ENOMEM;
	device->daemon = daemon;
	device->served = served;
	device->drained = config_device_of(&daemon->config, served->name).drained;
	device->node = -1;
	list_init(&device->vgpus);
	list_init(&device->lacking);
	device->turning.fd = -1;
	memory_init(&device->memory, NULL, UINT64_MAX);
	strangers_init(device);
	residency_init(device);
	retire_init(device);
	workers_init_device(device);
	error = grants_init(device);
	if (error) {
		free(device);
		return error;
	}
	list_append(&daemon->devices, &device->link);
	return 0;
}

int devices_init(struct daemon *daemon)
{
	int error = 0;

	for (unsigned i = 0; i < daemon->config.served.count && !error; i++)
		error = create_device(daemon, &daemon->config.served.devices[i]);
	return error;
}

void devices_finish(struct daemon *daemon)
{
	struct device *device, *after;

	list_for_each_safe (device, after, &daemon->devices, link) {
		turns_finish(device);
		list_remove(&device->link);
		free(device);
	}
}
