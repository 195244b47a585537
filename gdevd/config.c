/* SPDX-License-Identifier: MIT
 *
 * See config.h. Whatever the file says that this table does not know is an error: a key that is
 * misspelt must not become a default silently.
 */
#include "gdevd/config.h"

#include <ctype.h>
#include <errno.h>
#include <ini.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "gdevd/config_lines.h"
#include "gdevd/config_values.h"
#include "gdevd/sched/sched.h"
#include "proto/record.h"

#define SETTING_MAX 1000000000 /* of a policy */

/* ---- the keys ---- */

struct key {
	const char *name;
	config_value_parser *parse;
	size_t offset, size;
};

#define FIELD(type, member) offsetof(struct type, member), sizeof(((struct type *)0)->member)

static const struct key daemon_keys[] = {
	{"devices", config_value_devices, FIELD(config, served)},
	{"device", config_value_devices, FIELD(config, served)}, /* the same */
	{"device_memory", config_value_device_memory, FIELD(config, device_memory)},
	{"host_memory", config_value_size, FIELD(config, host_memory)},
	{"worker_memory", config_value_size, FIELD(config, worker_memory)},
	{"worker_cgroups", config_value_bool, FIELD(config, worker_cgroups)},
	{"host_swap", config_value_size, FIELD(config, host_swap)},
	{"file_swap", config_value_size, FIELD(config, file_swap)},
	{"swap_directory", config_value_text, FIELD(config, swap_directory)},
	{"swap_reserve", config_value_reserve, FIELD(config, swap_reserve_pct)},
	{"threads", config_value_count, FIELD(config, threads)},
	{"warm_workers", config_value_count, FIELD(config, warm_workers)},
	{"warm_memory", config_value_size, FIELD(config, warm_memory)},
	{"max_workers", config_value_count, FIELD(config, max_workers)},
	{"worker_idle", config_value_time, FIELD(config, worker_idle_ns)},
	{"retire_after", config_value_retire, FIELD(config, retire_after_ns)},
	{"context_memory", config_value_size, FIELD(config, context_memory)},
	{"worker_user", config_value_text, FIELD(config, worker_user)},
	{"sessions_per_user", config_value_count, FIELD(config, sessions_per_uid)},
	{"shared_per_user", config_value_shared, FIELD(config, shared_per_uid)},
	{"cache_size", config_value_size, FIELD(config, cache_bytes)},
	{"quantum", config_value_quantum, FIELD(config, quantum_ns)},
	{"policy", config_value_policy, FIELD(config, policy)},
	{"metrics_address", config_value_address, FIELD(config, metrics)},
	{"queues", config_value_queues, FIELD(config, one_queue)},
	{"log", config_value_log, FIELD(config, log_level)},
	{NULL},
};

static const struct key vgpu_keys[] = {
	{"device", config_value_text, FIELD(config_vgpu, device)},
	{"owner", config_value_user, FIELD(config_vgpu, owner)},
	{"group", config_value_group, FIELD(config_vgpu, group)},
	{"mode", config_value_mode, FIELD(config_vgpu, mode)},
	{"memory", config_value_size, FIELD(config_vgpu, memory_bytes)},
	{"shared", config_value_shared, FIELD(config_vgpu, shared_bytes)},
	{"time_limit_ms", config_value_ms, FIELD(config_vgpu, time_limit_ms)},
	{"compute", config_value_percent, FIELD(config_vgpu, compute_pct)},
	{"copy", config_value_percent, FIELD(config_vgpu, copy_pct)},
	{"policy", config_value_members, FIELD(config_vgpu, policy)},
	{"priority", config_value_priority, FIELD(config_vgpu, priority)},
	{"strict", config_value_bool, FIELD(config_vgpu, strict)},
	{"preempt", config_value_preempt, FIELD(config_vgpu, preempt)},
	{"compute_capability", config_value_capability, FIELD(config_vgpu, compute_capability)},
	{NULL},
};

static const struct key device_keys[] = {
	{"inline_bytes", config_value_inline, FIELD(config_device, inline_bytes)},
	{"chunk_bytes", config_value_chunk, FIELD(config_device, chunk_bytes)},
	{"copy_threads", config_value_count, FIELD(config_device, copy_threads)},
	{NULL},
};

static const struct key made_device_keys[] = {
	{"drained", config_value_bool, FIELD(config_device, drained)},
	{"stand_in", config_value_text, FIELD(config_device, stand_in)},
	{NULL},
};

int config_refuse(char *text, int error, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	vsnprintf(text, CONFIG_ERROR_MAX, format, args);
	va_end(args);
	return error;
}

static int set_key(const struct key *keys, void *base, const char *section, const char *name,
	const char *value, char *error)
{
	const char *wanted = NULL;

	for (; keys->name; keys++)
		if (!strcmp(keys->name, name))
			break;
	if (!keys->name)
		return config_refuse(error, -EINVAL,
			"there is no key \"%.64s\" in [%.64s]; gdev.conf(5) lists them", name,
			section);
	if (keys->parse((char *)base + keys->offset, keys->size, value, &wanted))
		return config_refuse(
			error, -EINVAL, "%s = %.64s: it must be %s", name, value, wanted);
	return 0;
}

static bool vgpu_name_valid(const char *name)
{
	size_t length = strlen(name);

	if (length == 0 || length >= CONTROL_NAME_MAX || !islower((unsigned char)name[0]))
		return false;
	/* These are other sockets of the runtime directory. */
	if (!strcmp(name, "control") || !strcmp(name, "metrics") || !strcmp(name, "workers"))
		return false;
	return strspn(name, "abcdefghijklmnopqrstuvwxyz0123456789_-") == length;
}

bool config_vgpu_is_any(const struct config_vgpu *vgpu)
{
	return !strcmp(vgpu->device, CONFIG_ANY_DEVICE);
}

const struct config_served_device *config_vgpu_device(
	const struct config *config, const struct config_vgpu *vgpu)
{
	const struct config_served *served = &config->served;
	unsigned index = 0;
	char end;

	if (!*vgpu->device) {
		if (sscanf(vgpu->name, CONFIG_DEFAULT_VGPU "%c", &index, &end) != 1 ||
			index >= served->count)
			index = 0;
		return &served->devices[index];
	}
	for (unsigned i = 0; i < served->count; i++)
		if (!strcmp(served->devices[i].name, vgpu->device))
			return &served->devices[i];
	return NULL;
}

bool config_vgpu_is_on(const struct config *config, const struct config_vgpu *vgpu,
	const struct config_served_device *device)
{
	return config_vgpu_is_any(vgpu) || config_vgpu_device(config, vgpu) == device;
}

struct config_vgpu *config_vgpu_find(const struct config *config, const char *name)
{
	struct config_vgpu *vgpu;

	list_for_each (vgpu, &config->vgpus, link)
		if (!strcmp(vgpu->name, name))
			return vgpu;
	return NULL;
}

int config_vgpu_create(const char *name, struct config_vgpu **vgpu, char *error)
{
	struct config_vgpu *created;

	if (!vgpu_name_valid(name))
		return config_refuse(error, -EINVAL,
			"\"%.64s\" is no name for a virtual GPU: up to %d of a-z, 0-9, - and _, first a letter, "
			"not control, metrics or workers",
			name, CONTROL_NAME_MAX - 1);
	created = calloc(1, sizeof *created);
	if (!created)
		return config_refuse(error, -ENOMEM, "out of memory");
	strcpy(created->name, name);
	list_init(&created->link);
	created->owner = geteuid();
	created->group = getegid();
	created->mode = 0666;
	created->shared_bytes = UINT64_MAX;
	*vgpu = created;
	return 0;
}

struct load {
	struct config *config;
	char *error;
	int result;
	bool made; /* the file of what was made at run time: [vgpu NAME], of which the other wins, and [device NAME] */
};

static const char *section_name(const char *section, const char *kind)
{
	section += strlen(kind);
	while (*section == ' ')
		section++;
	return section;
}

/* The virtual GPU is there as soon as its section is. */
static int add_vgpu(struct load *load, const char *name)
{
	struct config_vgpu *vgpu;
	int error;

	if (config_vgpu_find(load->config, name))
		return 0;
	error = config_vgpu_create(name, &vgpu, load->error);
	if (error)
		return error;
	vgpu->from_file = !load->made;
	list_append(&load->config->vgpus, &vgpu->link);
	return 0;
}

static int set_vgpu_key(struct load *load, const char *section, const char *key, const char *value)
{
	struct config_vgpu *vgpu = config_vgpu_find(load->config, section_name(section, "vgpu"));

	if (!vgpu) { /* libinih reads some section lines otherwise than config_lines.c */
		return config_refuse(load->error, -EINVAL, "[%.64s] is no section", section);
	}
	if (vgpu->from_file && load->made)
		return 0;
	return set_key(vgpu_keys, vgpu, section, key, value, load->error);
}

int config_set_vgpu(struct config_vgpu *vgpu, const char *key, const char *value, char *error)
{
	char section[CONTROL_NAME_MAX + 8];

	snprintf(section, sizeof section, "vgpu %s", vgpu->name);
	return set_key(vgpu_keys, vgpu, section, key, value, error);
}

static bool policy_has_setting(const struct sched_policy *policy, const char *name)
{
	for (unsigned i = 0; i < SCHED_SETTINGS && policy->settings[i].name; i++)
		if (!strcmp(policy->settings[i].name, name))
			return true;
	return false;
}

static struct config_setting *setting_get(
	struct config *config, const char *policy, const char *name)
{
	struct config_setting *setting;

	list_for_each (setting, &config->settings, link)
		if (!strcmp(setting->policy, policy) && !strcmp(setting->name, name))
			return setting;
	setting = calloc(1, sizeof *setting);
	if (!setting)
		return NULL;
	snprintf(setting->policy, sizeof setting->policy, "%s", policy);
	snprintf(setting->name, sizeof setting->name, "%s", name);
	list_append(&config->settings, &setting->link);
	return setting;
}

int config_set_policy(
	struct config *config, const char *policy, const char *key, const char *value, char *error)
{
	const struct sched_policy *found = sched_policy_find(policy);
	struct config_setting *setting;
	int64_t number;
	/* Times and parts cannot be negative, weights can. */
	bool weight = strlen(key) > 7 && !strcmp(key + strlen(key) - 7, "_weight");
	int64_t least = weight ? -SETTING_MAX : 0;

	if (!found || !policy_has_setting(found, key))
		return config_refuse(error, -EINVAL,
			found ? "policy %.32s has no setting \"%.32s\"; gdev.conf(5) lists them"
			      : "there is no policy \"%.32s\"; gdev.conf(5) lists them",
			policy, key);
	if (config_parse_integer(value, least, SETTING_MAX, &number))
		return config_refuse(error, -EINVAL,
			"%s = %.64s: it must be a number from %lld to %d", key, value,
			(long long)least, SETTING_MAX);
	setting = setting_get(config, policy, key);
	if (!setting)
		return config_refuse(error, -ENOMEM, "out of memory");
	setting->value = number;
	return 0;
}

static struct config_device *device_find(const struct config *config, const char *name)
{
	struct config_device *device;

	list_for_each (device, &config->devices, link)
		if (!strcmp(device->name, name))
			return device;
	return NULL;
}

/* Makes the section's device if it is not there; NULL: no memory. */
static struct config_device *device_get(struct config *config, const char *name)
{
	struct config_device *device = device_find(config, name);

	if (device)
		return device;
	device = calloc(1, sizeof *device);
	if (!device)
		return NULL;
	snprintf(device->name, sizeof device->name, "%s", name);
	list_append(&config->devices, &device->link);
	return device;
}

/* A section of a device that this gdevd does not serve does no harm: the file may be for several. */
static int set_device_key(
	struct load *load, const char *section, const char *key, const char *value)
{
	const char *name = section_name(section, "device");
	struct config_device *device;

	if (!*name || strlen(name) >= sizeof device->name)
		return config_refuse(load->error, -EINVAL,
			"\"%.64s\" is no name of a device; 'gdev device list' shows them", name);
	device = device_get(load->config, name);
	if (!device)
		return config_refuse(load->error, -ENOMEM, "out of memory");
	return set_key(load->made ? made_device_keys : device_keys, device, section, key, value,
		load->error);
}

int config_drain_device(struct config *config, const char *name, bool drained, const char *stand_in)
{
	struct config_device *device = device_get(config, name);

	if (!device)
		return -ENOMEM;
	device->drained = drained;
	snprintf(device->stand_in, sizeof device->stand_in, "%s", stand_in);
	return 0;
}

struct config_device config_device_of(const struct config *config, const char *name)
{
	const struct config_device *device = device_find(config, name);

	return device ? *device : (struct config_device){0};
}

static int on_section(void *user, const char *section)
{
	struct load *load = user;

	if (load->result)
		return 0;
	if (!strncmp(section, "vgpu ", 5))
		return load->result = add_vgpu(load, section_name(section, "vgpu"));
	if (!strncmp(section, "device ", 7))
		return 0;
	if (load->made)
		return load->result = config_refuse(load->error, -EINVAL,
			       "only [vgpu NAME] and [device NAME] may be here");
	if (!strncmp(section, "policy ", 7) || !strcmp(section, "gdevd"))
		return 0;
	return load->result = config_refuse(load->error, -EINVAL,
		       "there is no section [%.64s]; there are [gdevd], [device NAME], [policy NAME] "
		       "and [vgpu NAME]",
		       section);
}

static int on_key(void *user, const char *section, const char *name, const char *value)
{
	struct load *load = user;

	if (load->result)
		return 1;
	if (!strncmp(section, "vgpu ", 5))
		load->result = set_vgpu_key(load, section, name, value);
	else if (!strncmp(section, "policy ", 7))
		load->result = config_set_policy(
			load->config, section_name(section, "policy"), name, value, load->error);
	else if (!strncmp(section, "device ", 7))
		load->result = set_device_key(load, section, name, value);
	else if (!strcmp(section, "gdevd"))
		load->result = config_set(load->config, name, value, load->error);
	else
		load->result =
			config_refuse(load->error, -EINVAL, "a key before the first [section]");
	return load->result == 0;
}

static int load_file(struct config *config, const char *path, bool made, char *error)
{
	char reason[CONFIG_ERROR_MAX] = "this is neither a [section] nor a key = value";
	struct load load = {.config = config, .error = reason, .made = made};
	struct config_lines lines = {.section = on_section, .owner = &load};
	int line;

	lines.file = fopen(path, "re");
	if (!lines.file) {
		line = -errno;
		return config_refuse(error, line, "%.300s: %s", path, strerror(-line));
	}
	line = ini_parse_stream(config_next_line, &lines, on_key, &load);
	fclose(lines.file);
	free(lines.line);
	if (lines.error && !load.result && !lines.reason)
		return config_refuse(
			error, lines.error, "%.300s: %s", path, strerror(-lines.error));
	if (lines.error) {
		line = lines.number;
		load.result = lines.error;
	}
	if (line == 0)
		return 0;
	snprintf(error, CONFIG_ERROR_MAX, "%.160s:%d: %.300s", path, line,
		lines.reason ? lines.reason : reason);
	return load.result ? load.result : -EINVAL;
}

int config_load(struct config *config, const char *path, char *error)
{
	return load_file(config, path, false, error);
}

int config_load_made(struct config *config, const char *path, char *error)
{
	return load_file(config, path, true, error);
}

int config_set(struct config *config, const char *key, const char *value, char *error)
{
	return set_key(daemon_keys, config, "gdevd", key, value, error);
}

void config_init(struct config *config)
{
	*config = (struct config){
		.host_swap = UINT64_MAX,
		.swap_reserve_pct = 10,
		.worker_cgroups = true,
		.warm_workers = 2,
		.max_workers = 256,
		.worker_idle_ns = 60 * NS_PER_S,
		.retire_after_ns = 300 * NS_PER_S,
		.sessions_per_uid = 128,
		.shared_per_uid = UINT64_MAX,
		.cache_bytes = 1ull << 30,
		.policy = "fair",
		.worker_user = "gdev",
		.log_level = LOG_LEVEL_INFO,
	};
	list_init(&config->devices);
	list_init(&config->vgpus);
	list_init(&config->settings);
}

/* gdevd opens no device; the driver's files say whether there is one. */
static bool nvidia_is_there(void)
{
	return !access("/dev/nvidiactl", F_OK) || !access("/dev/dxg", F_OK);
}

static bool has_vgpu(const struct config *config, const struct config_served_device *device)
{
	const struct config_vgpu *vgpu;

	list_for_each (vgpu, &config->vgpus, link)
		if (config_vgpu_is_on(config, vgpu, device))
			return true;
	return false;
}

static int add_default(struct config *config, unsigned index)
{
	char name[CONTROL_NAME_MAX], error[CONFIG_ERROR_MAX];
	struct config_vgpu *vgpu;

	snprintf(name, sizeof name, CONFIG_DEFAULT_VGPU, index);
	if (config_vgpu_find(config, name) || config_vgpu_create(name, &vgpu, error))
		return -ENOMEM;
	list_append(&config->vgpus, &vgpu->link);
	return 0;
}

int config_finish_defaults(struct config *config)
{
	char error[CONFIG_ERROR_MAX];

	if (!config->served.count &&
		config_set(config, "devices", nvidia_is_there() ? "cuda:all" : "cpu", error))
		return -ENODEV;
	for (unsigned i = 0; i < config->served.count; i++)
		if (!has_vgpu(config, &config->served.devices[i]) && add_default(config, i))
			return -ENOMEM;
	if (config->max_workers == 0)
		config->max_workers = 1;
	if (config->warm_workers > config->max_workers)
		config->warm_workers = config->max_workers;
	return 0;
}

void config_finish(struct config *config)
{
	struct config_device *device, *next;
	struct config_vgpu *vgpu, *after;
	struct config_setting *setting, *next_setting;

	list_for_each_safe (vgpu, after, &config->vgpus, link) {
		list_remove(&vgpu->link);
		free(vgpu);
	}
	list_for_each_safe (setting, next_setting, &config->settings, link) {
		list_remove(&setting->link);
		free(setting);
	}
	list_for_each_safe (device, next, &config->devices, link) {
		list_remove(&device->link);
		free(device);
	}
}
