/* SPDX-License-Identifier: MIT
 *
 * Drained devices. An administrator who wants to take a device out of service drains it: it takes no new sessions, its
 * warm workers leave, and the contexts of its idle sessions are given back (memory/retire.c). Sessions that are there go
 * on until their programs end, or go to other devices (moving.c). Then another device stands in for it: virtual GPUs with
 * names of their own begin sessions there. A device stays drained when gdevd is started again: whoever drained it is still at work
 * on it, and a session that began meanwhile would be lost.
 */
#include "gdevd/daemon.h"

#include <errno.h>

#include "base/log.h"
#include "gdev/error.h"

void device_refuse_drained(struct client *client)
{
	const struct vgpu *vgpu = client->vgpu;

	client_refuse(client, -GDEV_E_DRAINED,
		"device \"%s\" is drained and takes no new sessions: use a virtual GPU of another device, "
		"or have its administrator say 'gdev device undrain %s'",
		vgpu->device->served->name, vgpu->device->served->name);
}

/* A device that gdevd has not opened since it began keeps the stand-in that it had, if no session is to go there. */
static const struct device *find_stand_in(const struct device *device)
{
	const struct config_device before =
		config_device_of(&device->daemon->config, device->served->name);

	if (device->known)
		return moving_find_stand_in(device);
	return device_count_sessions(device) ? NULL : device_find(device->daemon, before.stand_in);
}

/* A device whose first worker is not ready may be the one that is looked for. */
static bool are_known(const struct daemon *daemon)
{
	const struct device *device;

	list_for_each (device, &daemon->devices, link)
		if (!device->known && !device->drained && !device_is_failing(device))
			return false;
	return true;
}

int device_drain(struct device *device, enum drain how, char *note)
{
	struct daemon *daemon = device->daemon;
	const struct device *stand_in = how == DRAIN_AND_MOVE ? find_stand_in(device) : NULL;
	bool drained = how != DRAIN_NOT;
	int error;

	*note = '\0';
	if (how == DRAIN_AND_MOVE && !stand_in)
		return device->known && are_known(daemon) ? -ENODEV : -EAGAIN;
	error = config_drain_device(&daemon->config, device->served->name, drained,
		stand_in ? stand_in->served->name : "");
	if (error)
		return error;
	device->drained = drained;
	log_info("device %s %s", device->served->name,
		drained ? "is drained" : "takes new sessions again");
	if (how == DRAIN_AND_MOVE)
		moving_begin(device);
	if (drained)
		clients_wait_anew(device);
	vgpus_prune(daemon);
	workers_adjust(device);
	retire_look(device);
	vgpus_save_made(daemon, note);
	return 0;
}
