/* SPDX-License-Identifier: MIT
 *
 * Drained devices. An administrator who wants to take a device out of service drains it: it takes no new sessions, its
 * warm workers leave, and the contexts of its idle sessions are given back (memory/retire.c). Sessions that are there go
 * on until their programs end. A device stays drained when gdevd is started again: whoever drained it is still at work
 * on it, and a session that began meanwhile would be lost.
 */
#include "gdevd/daemon.h"

#include <stdio.h>
#include <string.h>

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

int device_drain(struct device *device, bool drained, char *note)
{
	struct daemon *daemon = device->daemon;
	int error = config_drain_device(&daemon->config, device->served->name, drained);

	*note = '\0';
	if (error)
		return error;
	device->drained = drained;
	log_info("device %s %s", device->served->name,
		drained ? "is drained" : "takes new sessions again");
	if (drained)
		clients_wait_anew(device);
	workers_adjust(device);
	retire_look(device);
	error = vgpus_save_made(daemon);
	if (error)
		snprintf(note, CONFIG_ERROR_MAX,
			"this holds until gdevd is started again: %.300s cannot be written: %s",
			daemon->made_path, strerror(-error));
	return 0;
}
