/* SPDX-License-Identifier: MIT
 *
 * See config.h. Whatever the file says that this table does not know is an error: a key that is
 * misspelt must not become a default silently.
 */
#include "gdevd/config.h"

#include <ctype.h>
#include <errno.h>
#include <glob.h>
#include <grp.h>
#include <ini.h>
#include <pwd.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "proto/record.h"

struct unit {
	const char *name;
	uint64_t factor;
};

/* A number, blanks, and a unit of the table ("" is the unit of a bare number). */
static int parse_units(const char *text, const struct unit *units, uint64_t *value)
{
	char *end;
	unsigned long long number;

	while (isspace((unsigned char)*text))
		text++;
	if (!isdigit((unsigned char)*text))
		return -EINVAL;
	errno = 0;
	number = strtoull(text, &end, 10);
	if (errno)
		return -ERANGE;
	while (isspace((unsigned char)*end))
		end++;
	for (; units->name; units++)
		if (!strcasecmp(end, units->name))
			break;
	if (!units->name)
		return -EINVAL;
	if (__builtin_mul_overflow((uint64_t)number, units->factor, value))
		return -ERANGE;
	return 0;
}

int config_parse_size(const char *text, uint64_t *bytes)
{
	static const struct unit units[] = {
		{"", 1},
		{"b", 1},
		{"k", 1ull << 10},
		{"kb", 1ull << 10},
		{"kib", 1ull << 10},
		{"m", 1ull << 20},
		{"mb", 1ull << 20},
		{"mib", 1ull << 20},
		{"g", 1ull << 30},
		{"gb", 1ull << 30},
		{"gib", 1ull << 30},
		{"t", 1ull << 40},
		{"tb", 1ull << 40},
		{"tib", 1ull << 40},
		{NULL, 0},
	};

	return parse_units(text, units, bytes);
}

int config_parse_time(const char *text, uint64_t *ns)
{
	static const struct unit units[] = {
		{"", NS_PER_S},
		{"s", NS_PER_S},
		{"sec", NS_PER_S},
		{"min", 60 * NS_PER_S},
		{"ms", NS_PER_MS},
		{"us", NS_PER_US},
		{"ns", 1},
		{NULL, 0},
	};

	return parse_units(text, units, ns);
}

/* ---- kinds of values: each parses `text` into `field`, or returns -errno and says what it wanted ---- */

typedef int (*value_parser)(void *field, size_t size, const char *text, const char **wanted);

static int value_text(void *field, size_t size, const char *text, const char **wanted)
{
	*wanted = "a shorter word";
	if (!*text || strlen(text) >= size)
		return -EINVAL;
	strcpy(field, text);
	return 0;
}

static int value_size(void *field, size_t size, const char *text, const char **wanted)
{
	*wanted = "a size such as 512M or 4G";
	return config_parse_size(text, field);
}

static int value_time(void *field, size_t size, const char *text, const char **wanted)
{
	*wanted = "a time such as 5ms or 10s";
	return config_parse_time(text, field);
}

static int value_count(void *field, size_t size, const char *text, const char **wanted)
{
	static const struct unit units[] = {{"", 1}, {NULL, 0}};
	uint64_t count;

	*wanted = "a number from 0 to 65536";
	if (parse_units(text, units, &count) || count > 65536)
		return -EINVAL;
	*(uint64_t *)field = count;
	return 0;
}

static int value_ms(void *field, size_t size, const char *text, const char **wanted)
{
	static const struct unit units[] = {{"", 1}, {NULL, 0}};
	uint64_t ms;

	*wanted = "a number of milliseconds, or 0 for no limit";
	if (parse_units(text, units, &ms) || ms > UINT32_MAX)
		return -EINVAL;
	*(uint64_t *)field = ms;
	return 0;
}

static int value_inline(void *field, size_t size, const char *text, const char **wanted)
{
	*wanted = "a size up to 65496";
	if (config_parse_size(text, field))
		return -EINVAL;
	return *(uint64_t *)field <= RECORD_BYTES_MAX - sizeof(struct record_write) ? 0 : -EINVAL;
}

static int value_chunk(void *field, size_t size, const char *text, const char **wanted)
{
	uint64_t bytes;

	*wanted = "a multiple of 4K, up to 1G";
	if (config_parse_size(text, &bytes) || bytes % 4096 || bytes > 1ull << 30)
		return -EINVAL;
	*(uint64_t *)field = bytes;
	return 0;
}

static int value_log(void *field, size_t size, const char *text, const char **wanted)
{
	static const char *const names[] = {"error", "warning", "info", "debug"};

	*wanted = "error, warning, info or debug";
	for (unsigned i = 0; i < array_length(names); i++) {
		if (!strcmp(text, names[i])) {
			*(enum log_level *)field = i;
			return 0;
		}
	}
	return -EINVAL;
}

static int value_user(void *field, size_t size, const char *text, const char **wanted)
{
	const struct passwd *user = getpwnam(text);
	char *end;
	unsigned long number = strtoul(text, &end, 10);

	*wanted = "the name or number of a user that exists";
	if (user)
		number = user->pw_uid;
	else if (!*text || *end || number >= UINT32_MAX)
		return -EINVAL;
	*(uid_t *)field = (uid_t)number;
	return 0;
}

static int value_group(void *field, size_t size, const char *text, const char **wanted)
{
	const struct group *group = getgrnam(text);
	char *end;
	unsigned long number = strtoul(text, &end, 10);

	*wanted = "the name or number of a group that exists";
	if (group)
		number = group->gr_gid;
	else if (!*text || *end || number >= UINT32_MAX)
		return -EINVAL;
	*(gid_t *)field = (gid_t)number;
	return 0;
}

static int value_mode(void *field, size_t size, const char *text, const char **wanted)
{
	char *end;
	unsigned long mode = strtoul(text, &end, 8);

	*wanted = "an octal mode such as 0660";
	if (!*text || *end || mode > 0777)
		return -EINVAL;
	*(mode_t *)field = (mode_t)mode;
	return 0;
}

/* ---- the keys ---- */

struct key {
	const char *name;
	value_parser parse;
	size_t offset, size;
};

#define FIELD(type, member) offsetof(struct type, member), sizeof(((struct type *)0)->member)

static const struct key daemon_keys[] = {
	{"device", value_text, FIELD(config, device)},
	{"device_memory", value_size, FIELD(config, device_memory)},
	{"host_memory", value_size, FIELD(config, host_memory)},
	{"threads", value_count, FIELD(config, threads)},
	{"warm_workers", value_count, FIELD(config, warm_workers)},
	{"max_workers", value_count, FIELD(config, max_workers)},
	{"worker_idle", value_time, FIELD(config, worker_idle_ns)},
	{"worker_user", value_text, FIELD(config, worker_user)},
	{"sessions_per_user", value_count, FIELD(config, sessions_per_uid)},
	{"cache_size", value_size, FIELD(config, cache_bytes)},
	{"quantum", value_time, FIELD(config, quantum_ns)},
	{"policy", value_text, FIELD(config, policy)},
	{"log", value_log, FIELD(config, log_level)},
	{NULL},
};

static const struct key vgpu_keys[] = {
	{"owner", value_user, FIELD(config_vgpu, owner)},
	{"group", value_group, FIELD(config_vgpu, group)},
	{"mode", value_mode, FIELD(config_vgpu, mode)},
	{"memory", value_size, FIELD(config_vgpu, memory_bytes)},
	{"time_limit_ms", value_ms, FIELD(config_vgpu, time_limit_ms)},
	{NULL},
};

static const struct key device_keys[] = {
	{"inline_bytes", value_inline, FIELD(config_device, inline_bytes)},
	{"chunk_bytes", value_chunk, FIELD(config_device, chunk_bytes)},
	{"copy_threads", value_count, FIELD(config_device, copy_threads)},
	{NULL},
};

static int set_key(const struct key *keys, void *base, const char *section, const char *name,
	const char *value, char *error)
{
	const char *wanted = NULL;

	for (; keys->name; keys++)
		if (!strcmp(keys->name, name))
			break;
	if (!keys->name) {
		snprintf(error, CONFIG_ERROR_MAX,
			"there is no key \"%.64s\" in [%.64s]; gdev.conf(5) lists them", name,
			section);
		return -EINVAL;
	}
	if (keys->parse((char *)base + keys->offset, keys->size, value, &wanted)) {
		snprintf(error, CONFIG_ERROR_MAX, "%s = %.64s: it must be %s", name, value, wanted);
		return -EINVAL;
	}
	return 0;
}

static bool vgpu_name_valid(const char *name)
{
	size_t length = strlen(name);

	if (length == 0 || length >= CONTROL_NAME_MAX || !islower((unsigned char)name[0]))
		return false;
	/* These are other sockets of the runtime directory. */
	if (!strcmp(name, "control") || !strcmp(name, "workers"))
		return false;
	return strspn(name, "abcdefghijklmnopqrstuvwxyz0123456789_-") == length;
}

static struct config_vgpu *vgpu_get(struct config *config, const char *name)
{
	struct config_vgpu *vgpu;

	list_for_each (vgpu, &config->vgpus, link)
		if (!strcmp(vgpu->name, name))
			return vgpu;
	vgpu = calloc(1, sizeof *vgpu);
	if (!vgpu)
		return NULL;
	strcpy(vgpu->name, name);
	vgpu->owner = geteuid();
	vgpu->group = getegid();
	vgpu->mode = 0666;
	list_append(&config->vgpus, &vgpu->link);
	return vgpu;
}

struct load {
	struct config *config;
	char *error;
	int result;
};

static int set_vgpu_key(struct load *load, const char *section, const char *key, const char *value)
{
	const char *name = section + strlen("vgpu");
	struct config_vgpu *vgpu;

	while (*name == ' ')
		name++;
	if (!vgpu_name_valid(name)) {
		snprintf(load->error, CONFIG_ERROR_MAX,
			"\"%.64s\" is no name for a virtual GPU: up to %d of a-z, 0-9, - and _, first a letter, "
			"not control or workers",
			name, CONTROL_NAME_MAX - 1);
		return -EINVAL;
	}
	vgpu = vgpu_get(load->config, name);
	if (!vgpu) {
		snprintf(load->error, CONFIG_ERROR_MAX, "out of memory");
		return -ENOMEM;
	}
	return set_key(vgpu_keys, vgpu, section, key, value, load->error);
}

static struct config_device *device_find(const struct config *config, const char *name)
{
	struct config_device *device;

	list_for_each (device, &config->devices, link)
		if (!strcmp(device->name, name))
			return device;
	return NULL;
}

/* A section of a device that this gdevd does not serve does no harm: the file may be for several. */
static int set_device_key(
	struct load *load, const char *section, const char *key, const char *value)
{
	const char *name = section + strlen("device");
	struct config_device *device;

	while (*name == ' ')
		name++;
	if (!*name || strlen(name) >= sizeof device->name) {
		snprintf(load->error, CONFIG_ERROR_MAX,
			"\"%.64s\" is no name of a device; 'gdev device list' shows them", name);
		return -EINVAL;
	}
	device = device_find(load->config, name);
	if (!device) {
		device = calloc(1, sizeof *device);
		if (!device) {
			snprintf(load->error, CONFIG_ERROR_MAX, "out of memory");
			return -ENOMEM;
		}
		strcpy(device->name, name);
		list_append(&load->config->devices, &device->link);
	}
	return set_key(device_keys, device, section, key, value, load->error);
}

struct config_device config_device_of(const struct config *config, const char *name)
{
	const struct config_device *device = device_find(config, name);

	return device ? *device : (struct config_device){0};
}

static int on_key(void *user, const char *section, const char *name, const char *value)
{
	struct load *load = user;

	if (load->result)
		return 1;
	if (!strncmp(section, "vgpu ", 5)) {
		load->result = set_vgpu_key(load, section, name, value);
	} else if (!strncmp(section, "device ", 7)) {
		load->result = set_device_key(load, section, name, value);
	} else if (!strcmp(section, "gdevd")) {
		load->result = config_set(load->config, name, value, load->error);
	} else {
		snprintf(load->error, CONFIG_ERROR_MAX,
			"there is no section [%.64s]; there are [gdevd], [device NAME] and [vgpu NAME]",
			section);
		load->result = -EINVAL;
	}
	return load->result == 0;
}

int config_load(struct config *config, const char *path, char *error)
{
	char reason[CONFIG_ERROR_MAX] = "this is neither a [section] nor a key = value";
	struct load load = {.config = config, .error = reason};
	FILE *file = fopen(path, "re");
	int line;

	if (!file) {
		line = -errno;
		snprintf(error, CONFIG_ERROR_MAX, "%.300s: %s", path, strerror(-line));
		return line;
	}
	line = ini_parse_file(file, on_key, &load);
	fclose(file);
	if (line == 0)
		return 0;
	if (line < 0) {
		snprintf(error, CONFIG_ERROR_MAX, "%.300s: cannot be read", path);
		return -EIO;
	}
	snprintf(error, CONFIG_ERROR_MAX, "%.160s:%d: %.300s", path, line, reason);
	return load.result ? load.result : -EINVAL;
}

int config_set(struct config *config, const char *key, const char *value, char *error)
{
	return set_key(daemon_keys, config, "gdevd", key, value, error);
}

void config_init(struct config *config)
{
	*config = (struct config){
		.device = "auto",
		.warm_workers = 2,
		.max_workers = 256,
		.worker_idle_ns = 10 * NS_PER_S,
		.sessions_per_uid = 128,
		.cache_bytes = 1ull << 30,
		.policy = "fifo",
		.worker_user = "gdev",
		.log_level = LOG_LEVEL_INFO,
	};
	list_init(&config->devices);
	list_init(&config->vgpus);
}

/* gdevd opens no device; the driver's files say whether there is one. */
static bool nvidia_is_there(void)
{
	glob_t found;
	bool any = !glob("/dev/nvidia[0-9]*", 0, NULL, &found);

	globfree(&found);
	return any || !access("/dev/dxg", F_OK);
}

int config_finish_defaults(struct config *config)
{
	if (list_empty(&config->vgpus) && !vgpu_get(config, CONFIG_DEFAULT_VGPU))
		return -ENOMEM;
	if (!strcmp(config->device, "auto"))
		strcpy(config->device, nvidia_is_there() ? "cuda:0" : "cpu");
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

	list_for_each_safe (vgpu, after, &config->vgpus, link) {
		list_remove(&vgpu->link);
		free(vgpu);
	}
	list_for_each_safe (device, next, &config->devices, link) {
		list_remove(&device->link);
		free(device);
	}
}
