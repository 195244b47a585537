/* SPDX-License-Identifier: MIT
 *
 * Virtual GPUs: those of the configuration, and those that come, change and go while programs run. What is
 * made or changed at run time is written down, so that the next gdevd has it; what the configuration file
 * has, changes at run time only until then.
 */
#include "gdevd/daemon.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/cleanup.h"
#include "base/log.h"

struct vgpu *vgpu_find(struct daemon *daemon, const char *name)
{
	struct vgpu *vgpu;

	list_for_each (vgpu, &daemon->vgpus, link)
		if (!strncmp(vgpu->config->name, name, CONTROL_NAME_MAX))
			return vgpu;
	return NULL;
}

struct vgpu *vgpu_find_part(struct daemon *daemon, const char *name, const char *device)
{
	struct vgpu *vgpu;

	list_for_each (vgpu, &daemon->vgpus, link)
		if (!strcmp(vgpu->config->name, name) &&
			!strcmp(vgpu->device->served->name, device))
			return vgpu;
	return NULL;
}

void vgpu_properties(const struct vgpu *vgpu, int32_t properties[DEVICE_PROPERTIES])
{
	int32_t capability = (int32_t)vgpu->config->compute_capability;

	memcpy(properties, vgpu->device->properties, sizeof vgpu->device->properties);
	if (!capability)
		return;
	properties[PROPERTY_COMPUTE_MAJOR] = capability / 10;
	properties[PROPERTY_COMPUTE_MINOR] = capability % 10;
}

static uint64_t memory_limit(const struct config_vgpu *config)
{
	return config->memory_bytes ? config->memory_bytes : UINT64_MAX;
}

static int create_part(struct device *device, struct config_vgpu *config)
{
	struct daemon *daemon = device->daemon;
	struct vgpu *vgpu = calloc(1, sizeof *vgpu);

	if (!vgpu)
		return -ENOMEM;
	vgpu->daemon = daemon;
	vgpu->device = device;
	vgpu->config = config;
	memory_init(&vgpu->memory, &device->memory, memory_limit(config));
	for (unsigned i = 0; i < SWAP_POOLS; i++)
		memory_init(&vgpu->swap[i], &daemon->swap.pools[i], UINT64_MAX);
	grants_vgpu_init(vgpu);
	list_append(&daemon->vgpus, &vgpu->link);
	list_append(&device->vgpus, &vgpu->by_device);
	return 0;
}

static void destroy_part(struct vgpu *vgpu)
{
	list_remove(&vgpu->link);
	list_remove(&vgpu->by_device);
	placing_forget(vgpu);
	moving_forget(vgpu);
	grants_vgpu_finish(vgpu);
	free(vgpu);
}

static void destroy_parts(struct daemon *daemon, const struct config_vgpu *config)
{
	struct vgpu *vgpu, *after;

	list_for_each_safe (vgpu, after, &daemon->vgpus, link)
		if (vgpu->config == config)
			destroy_part(vgpu);
}

static int create_parts(struct daemon *daemon, struct config_vgpu *config)
{
	struct device *device;
	int error = 0;

	list_for_each (device, &daemon->devices, link)
		if (!error && config_vgpu_is_on(&daemon->config, config, device->served))
			error = create_part(device, config);
	if (error)
		destroy_parts(daemon, config);
	return error;
}

/* Shares depend on all virtual GPUs of a device. */
static void configure_devices(struct daemon *daemon)
{
	struct device *device;

	list_for_each (device, &daemon->devices, link)
		grants_configure(device);
}

/* gdevN is the default virtual GPU of the N-th device. */
static bool is_default_name(const char *name)
{
	const char *number = name + strlen("gdev");

	return !strncmp(name, "gdev", strlen("gdev")) && *number &&
	       !number[strspn(number, "0123456789")];
}

bool vgpu_is_default(const struct vgpu *vgpu)
{
	return is_default_name(vgpu->config->name);
}

static int check_name(const struct daemon *daemon, const struct config_vgpu *config, char *error)
{
	const struct config_served *served = &daemon->config.served;
	char name[CONTROL_NAME_MAX];
	unsigned index = 0;

	if (!is_default_name(config->name))
		return 0;
	while (index < served->count) {
		snprintf(name, sizeof name, CONFIG_DEFAULT_VGPU, index);
		if (!strcmp(config->name, name))
			break;
		index++;
	}
	if (index == served->count)
		return config_refuse(error, -EINVAL,
			"\"%s\" would be the default virtual GPU of a device, and there is none of that "
			"number: give this one another name",
			config->name);
	if (config_vgpu_device(&daemon->config, config) != &served->devices[index])
		return config_refuse(error, -EINVAL,
			"\"%s\" is the default virtual GPU of %s: give one of %s another name",
			config->name, served->devices[index].name,
			config_vgpu_is_any(config) ? "any device" : config->device);
	return 0;
}

/* -EINVAL: the virtual GPU is to have another compute capability, and is on hardware, which has one of its own. */
static int check_capability(
	const struct daemon *daemon, const struct config_vgpu *config, char *error)
{
	const struct config_served *served = &daemon->config.served;

	for (unsigned i = 0; i < served->count && config->compute_capability; i++) {
		const struct config_served_device *device = &served->devices[i];

		if (!config_vgpu_is_on(&daemon->config, config, device) ||
			!strcmp(device->backend, "cpu"))
			continue;
		return config_refuse(error, -EINVAL,
			"\"compute_capability\" is a setting of the software GPU, and \"%s\" is on %s, "
			"which has one of its own",
			config->name, device->name);
	}
	return 0;
}

/* -errno: the virtual GPU's device is not served. If it was made at run time it stays written down: the device may be back
 * the next time. */
static int check_device(struct daemon *daemon, const struct config_vgpu *config, char *error)
{
	if (!config_vgpu_is_any(config) && !config_vgpu_device(&daemon->config, config))
		return config_refuse(error, -ENODEV,
			"this gdevd does not serve a device \"%s\"; 'devices' in gdev.conf(5) names those "
			"that it does, and 'gdev device list' shows them",
			config->device);
	int status = check_capability(daemon, config, error);

	return status ? status : check_name(daemon, config, error);
}

int vgpus_init(struct daemon *daemon)
{
	struct config_vgpu *config;
	char text[CONFIG_ERROR_MAX];
	int error;

	list_for_each (config, &daemon->config.vgpus, link) {
		error = check_device(daemon, config, text);
		if (error)
			log_error("virtual GPU \"%s\": %s", config->name, text);
		if (error && config->from_file)
			return error;
		if (!error && create_parts(daemon, config))
			return -ENOMEM;
	}
	configure_devices(daemon);
	return 0;
}

void vgpus_finish(struct daemon *daemon)
{
	struct vgpu *vgpu, *after;

	list_for_each_safe (vgpu, after, &daemon->vgpus, link)
		destroy_part(vgpu);
}

/* ---- what is written down ---- */

void vgpus_save_made(const struct daemon *daemon, char *note)
{
	char dir[PATHS_MAX];
	int error = 0;

	strcpy(dir, daemon->made_path);
	*strrchr(dir, '/') = '\0';
	if (mkdir(dir, 0700) && errno != EEXIST)
		error = -errno;
	if (!error)
		error = config_save_made(&daemon->config, daemon->made_path);
	if (error)
		snprintf(note, CONFIG_ERROR_MAX,
			"this holds until gdevd is started again: %.300s cannot be written: %s",
			daemon->made_path, strerror(-error));
}

static void write_down(struct daemon *daemon, const struct config_vgpu *config, char *note)
{
	*note = '\0';
	if (config->from_file)
		snprintf(note, CONFIG_ERROR_MAX,
			"this holds until gdevd is started again: %.300s names \"%s\", and says what it is then",
			daemon->config_path, config->name);
	else
		vgpus_save_made(daemon, note);
}

/* Shares that add up to more than all are weights, which may not be what was meant: a note says so. */
static void note_weight(const char *name, const char *what, uint64_t pct, uint64_t sum, char *note)
{
	size_t at = strlen(note);

	if (sum > 100)
		snprintf(note + at, CONFIG_ERROR_MAX - at,
			"%sthe shares of %s add up to %llu %%, and \"%s\" has %llu of these",
			at ? "; " : "", what, (unsigned long long)sum, name,
			(unsigned long long)pct);
}

/* What the virtual GPUs of a device have together. */
static void add_shares(const struct daemon *daemon, const struct config_served_device *device,
	uint64_t *compute, uint64_t *copy)
{
	const struct config_vgpu *vgpu;

	*compute = *copy = 0;
	list_for_each (vgpu, &daemon->config.vgpus, link) {
		if (!config_vgpu_is_on(&daemon->config, vgpu, device))
			continue;
		*compute += vgpu->compute_pct;
		*copy += vgpu->copy_pct;
	}
}

/* Of those that are new in `config`, among the virtual GPUs of its device; of any device: where they are the most. */
static void note_weights(const struct daemon *daemon, const struct config_vgpu *config,
	const struct config_vgpu *before, char *note)
{
	const struct config_served *served = &daemon->config.served;
	uint64_t compute = 0, copy = 0;

	for (unsigned i = 0; i < served->count; i++) {
		uint64_t compute_here, copy_here;

		if (!config_vgpu_is_on(&daemon->config, config, &served->devices[i]))
			continue;
		add_shares(daemon, &served->devices[i], &compute_here, &copy_here);
		compute = max_of(compute, compute_here);
		copy = max_of(copy, copy_here);
	}
	if (config->compute_pct != before->compute_pct)
		note_weight(config->name, "computing", config->compute_pct, compute, note);
	if (config->copy_pct != before->copy_pct)
		note_weight(config->name, "copying", config->copy_pct, copy, note);
}

/* ---- while programs run ---- */

int vgpu_create(struct daemon *daemon, struct config_vgpu *config, char *error)
{
	int status = check_device(daemon, config, error);

	if (status)
		return status;
	status = create_parts(daemon, config);
	if (status)
		return config_refuse(error, status, "gdevd is out of memory");
	status = server_vgpu_add(vgpu_find(daemon, config->name));
	if (status) {
		snprintf(error, CONFIG_ERROR_MAX, "cannot make its socket: %s", strerror(-status));
		destroy_parts(daemon, config);
		return status;
	}
	list_append(&daemon->config.vgpus, &config->link);
	configure_devices(daemon);
	write_down(daemon, config, error);
	note_weights(daemon, config, &(struct config_vgpu){0}, error);
	log_info("virtual GPU %s is there", config->name);
	return 0;
}

/* On each device that it has a part of. */
static int set_limit(const struct vgpu *vgpu, uint64_t bytes)
{
	struct vgpu *part;
	int status = 0;

	list_for_each (part, &vgpu->daemon->vgpus, link)
		if (!status && part->config == vgpu->config)
			status = residency_set_limit(part, bytes);
	return status;
}

static bool is_elsewhere(const struct vgpu *vgpu, const struct config_vgpu *config)
{
	const struct config *all = &vgpu->daemon->config;

	return config_vgpu_is_any(config) != config_vgpu_is_any(vgpu->config) ||
	       config_vgpu_device(all, config) != config_vgpu_device(all, vgpu->config);
}

int vgpu_change(struct vgpu *vgpu, const struct config_vgpu *config, char *error)
{
	struct config_vgpu *own = vgpu->config, before = *own;
	int status;

	if (is_elsewhere(vgpu, config))
		return config_refuse(error, -EINVAL,
			"a virtual GPU stays on its device; delete it, and make it on the other");
	status = check_capability(vgpu->daemon, config, error);
	if (status)
		return status;
	status = set_limit(vgpu, config->memory_bytes);
	if (status) {
		set_limit(vgpu, own->memory_bytes);
		return config_refuse(error, status,
			"host swap has no room for what would have to leave the device; "
			"host_swap and file_swap in gdev.conf(5) say how much it has");
	}
	status = server_vgpu_change(vgpu, config);
	if (status) {
		set_limit(vgpu, own->memory_bytes);
		return config_refuse(error, status, "cannot change who may use its socket: %s",
			strerror(-status));
	}
	*own = *config;
	own->link = before.link;
	configure_devices(vgpu->daemon);
	write_down(vgpu->daemon, own, error);
	note_weights(vgpu->daemon, own, &before, error);
	return 0;
}

/* Drops the clients that are connected to it, with a session or not yet. */
static void drop_clients(struct vgpu *vgpu)
{
	struct client *client, *after;

	list_for_each_safe (client, after, &vgpu->daemon->clients, link) {
		if (client->vgpu != vgpu)
			continue;
		if (client->session)
			client->session->client = NULL;
		else
			client_refuse(client, -ENODEV, "virtual GPU \"%s\" is deleted",
				vgpu->config->name);
		client->session = NULL;
		client_destroy(client);
	}
}

/* To their programs the context is lost. */
static void end_session(struct session *session)
{
	connection_answer(session->worker->connection, CONTROL_BYE, 0, 0);
	session_end(session, "virtual GPU was deleted");
}

/* Those that have memory of it, too. */
static void end_sessions(struct vgpu *vgpu)
{
	struct session *session, *after;

	list_for_each_safe (session, after, &vgpu->daemon->sessions, link)
		if (session->vgpu == vgpu)
			end_session(session);
	while ((session = shm_find_peer(vgpu)))
		end_session(session);
}

/* What leaving workers still hold, and what is being freed, is the device's account from now on. */
static void move_memory(struct vgpu *vgpu)
{
	struct daemon *daemon = vgpu->daemon;
	struct device *device = vgpu->device;
	struct worker *worker;

	list_for_each (worker, &device->workers.all, by_device) {
		memory_rehang(&worker->memory, &vgpu->memory, &device->memory);
		for (unsigned i = 0; i < SWAP_POOLS; i++)
			memory_rehang(&worker->swap[i], &vgpu->swap[i], &daemon->swap.pools[i]);
	}
	freeing_move(daemon, &vgpu->memory, &device->memory);
	for (unsigned i = 0; i < SWAP_POOLS; i++)
		freeing_move(daemon, &vgpu->swap[i], &daemon->swap.pools[i]);
}

static void delete_part(struct vgpu *part)
{
	drop_clients(part);
	end_sessions(part);
	shm_finish(part->daemon, part);
	move_memory(part);
	destroy_part(part);
}

int vgpu_delete(struct vgpu *vgpu, bool force, char *error)
{
	struct daemon *daemon = vgpu->daemon;
	struct config_vgpu *config = vgpu->config;
	struct vgpu *part, *after;
	unsigned sessions = 0;

	list_for_each (part, &daemon->vgpus, link)
		if (part->config == config)
			sessions += part->sessions;
	if (sessions && !force)
		return config_refuse(error, -EBUSY,
			"\"%s\" has %u session%s; wait for the end, or delete it with --force, which ends "
			"what uses it",
			config->name, sessions, sessions > 1 ? "s" : "");
	if (shm_find_peer(vgpu) && !force)
		return config_refuse(error, -EBUSY,
			"sessions of other virtual GPUs use memory of \"%s\"; wait for the end, or delete it "
			"with --force, which ends them",
			config->name);
	server_vgpu_remove(vgpu);
	list_for_each_safe (part, after, &daemon->vgpus, link)
		if (part->config == config)
			delete_part(part);
	log_info("virtual GPU %s is gone", config->name);
	configure_devices(daemon);
	list_remove(&config->link);
	write_down(daemon, config, error);
	free(config);
	return 0;
}

/* ---- on devices that stand in ---- */

struct vgpu *vgpu_get_part(struct daemon *daemon, const char *name, const char *device_name)
{
	struct vgpu *vgpu = vgpu_find(daemon, name);
	struct vgpu *part = vgpu_find_part(daemon, name, device_name);
	struct device *device;

	if (part || !vgpu || vgpu_is_default(vgpu))
		return part;
	device = device_find(daemon, device_name);
	if (!device || create_part(device, vgpu->config))
		return NULL;
	configure_devices(daemon);
	return vgpu_find_part(daemon, name, device_name);
}

/* What has shared segments stays, as keys find segments of their own part alone. */
struct vgpu *vgpu_where_begins(struct vgpu *vgpu)
{
	struct daemon *daemon = vgpu->daemon;

	while (vgpu->device->drained && !vgpu_is_default(vgpu) && !vgpu->shm.count) {
		const struct config_device device =
			config_device_of(&daemon->config, vgpu->device->served->name);
		struct vgpu *next = vgpu_get_part(daemon, vgpu->config->name, device.stand_in);
		if (!next || next == vgpu)
			break;
		vgpu = next;
	}
	return vgpu;
}

static bool is_used(const struct vgpu *part)
{
	const struct client *client;

	list_for_each (client, &part->daemon->clients, link)
		if (client->vgpu == part)
			return true;
	return part->sessions || part->shm.count;
}

void vgpus_prune(struct daemon *daemon)
{
	struct vgpu *part, *after;

	list_for_each_safe (part, after, &daemon->vgpus, link)
		if (!config_vgpu_is_on(&daemon->config, part->config, part->device->served) &&
			!is_used(part))
			delete_part(part);
	configure_devices(daemon);
}
