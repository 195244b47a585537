/* SPDX-License-Identifier: MIT
 *
 * See config_values.h.
 */
#include "gdevd/config_values.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <glob.h>
#include <grp.h>
#include <pwd.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "gdevd/config.h"
#include "gdevd/sched/sched.h"
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

/* "512M", "4G", "2 TiB", "4096": bytes; powers of two. */
static const struct unit sizes[] = {
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

/* "5ms", "100us", "10s", "10 min": nanoseconds; a bare number is in seconds. */
static const struct unit times[] = {
	{"", NS_PER_S},
	{"s", NS_PER_S},
	{"sec", NS_PER_S},
	{"min", 60 * NS_PER_S},
	{"ms", NS_PER_MS},
	{"us", NS_PER_US},
	{"ns", 1},
	{NULL, 0},
};

static const struct unit numbers[] = {{"", 1}, {NULL, 0}};
static const struct unit percents[] = {{"", 1}, {"%", 1}, {NULL, 0}};

static int parse_number(
	const char *text, const struct unit *units, uint64_t least, uint64_t most, void *field)
{
	uint64_t value;

	if (parse_units(text, units, &value) || value < least || value > most)
		return -EINVAL;
	*(uint64_t *)field = value;
	return 0;
}

/* The place of one of so many names; -EINVAL: it is none of them. */
static int parse_name(const char *text, const char *const *names, unsigned count)
{
	for (unsigned i = 0; i < count; i++)
		if (!strcmp(text, names[i]))
			return (int)i;
	return -EINVAL;
}

/* Of the user or group that has the name (NULL: none has), or a number. */
static int parse_id(const char *text, const uint32_t *known, uint32_t *id)
{
	char *end;
	unsigned long number = strtoul(text, &end, 10);

	if (!known && (!*text || *end || number >= UINT32_MAX))
		return -EINVAL;
	*id = known ? *known : (uint32_t)number;
	return 0;
}

/* ---- kinds of values ---- */

/* A comment begins with ';' behind a blank, as there would be when the text is saved. */
int config_value_text(void *field, size_t size, const char *text, const char **wanted)
{
	*wanted = "a shorter word, without ;";
	if (!*text || strlen(text) >= size || strchr(text, ';'))
		return -EINVAL;
	strcpy(field, text);
	return 0;
}

int config_value_size(void *field, size_t size, const char *text, const char **wanted)
{
	*wanted = "a size such as 512M or 4G";
	return parse_units(text, sizes, field);
}

/* How many of them there are for gdevd; the driver counts only those whose files it may open, from cuda:0 on. gdevd does
 * not open them: that would start a card, and wait for one that hangs. */
static unsigned count_nvidia(void)
{
	glob_t found;
	unsigned count = 0;

	if (!glob("/dev/nvidia[0-9]*", 0, NULL, &found)) {
		for (size_t i = 0; i < found.gl_pathc; i++)
			count += !faccessat(AT_FDCWD, found.gl_pathv[i], R_OK | W_OK, AT_EACCESS);
		globfree(&found);
	}
	/* Under WSL there is one file for all. */
	return count || access("/dev/dxg", F_OK) ? count : 1;
}

static int add_device(struct config_served *served, const char *name, const char *backend,
	unsigned part, unsigned parts)
{
	struct config_served_device *device = &served->devices[served->count];

	if (served->count == CONFIG_DEVICES_MAX || strlen(name) >= sizeof device->name ||
		strlen(backend) >= sizeof device->backend)
		return -EINVAL;
	for (unsigned i = 0; i < served->count; i++)
		if (!strcmp(served->devices[i].name, name))
			return -EEXIST;
	strcpy(device->name, name);
	strcpy(device->backend, backend);
	device->part = part;
	device->parts = parts;
	served->count++;
	return 0;
}

/* KIND:0 and so on. `parts`: each is a part of the backend KIND; else it is the backend of that name. */
static int add_several(struct config_served *served, const char *kind, unsigned count, bool parts)
{
	char name[48];
	int error = count ? 0 : -ENODEV;

	for (unsigned i = 0; i < count && !error; i++) {
		snprintf(name, sizeof name, "%.32s:%u", kind, i);
		error = parts ? add_device(served, name, kind, i, count)
			      : add_device(served, name, name, 0, 1);
	}
	return error;
}

/* One item of the list: KIND, KIND:INDEX, cuda:all, or cpu:COUNT. */
static int parse_device(struct config_served *served, char *item)
{
	char *suffix = strchr(item, ':');
	int64_t count;

	if (!strcmp(item, "cuda:all"))
		return add_several(served, "cuda", count_nvidia(), false);
	if (!suffix || (strncmp(item, "cpu:", 4) && strncmp(item, "null:", 5)))
		return *item ? add_device(served, item, item, 0, 1) : -EINVAL;
	*suffix = '\0';
	if (config_parse_integer(suffix + 1, 1, CONFIG_DEVICES_MAX, &count))
		return -EINVAL;
	return add_several(served, item, (unsigned)count, true);
}

int config_value_devices(void *field, size_t size, const char *text, const char **wanted)
{
	autofree char *copy = strdup(text);
	autofree struct config_served *served = calloc(1, sizeof *served);
	char *rest = copy, *item;
	int error = copy && served ? 0 : -ENOMEM;

	*wanted = "devices with commas between them, each once: cuda:all, cuda:0, cpu, cpu:2 "
		  "(two, half of the processors each)";
	if (!strcmp(text, "auto"))
		rest = NULL;
	while (!error && (item = strsep(&rest, ","))) {
		item += strspn(item, " \t");
		item[strcspn(item, " \t")] = '\0';
		error = parse_device(served, item);
	}
	if (error == -ENODEV)
		*wanted = "devices that there are: this machine has no /dev/nvidia0";
	if (!error)
		memcpy(field, served, sizeof *served);
	return error;
}

int config_value_shared(void *field, size_t size, const char *text, const char **wanted)
{
	*wanted = "a size such as 512M or 4G, or auto";
	if (strcmp(text, "auto"))
		return parse_units(text, sizes, field);
	*(uint64_t *)field = UINT64_MAX;
	return 0;
}

int config_value_device_memory(void *field, size_t size, const char *text, const char **wanted)
{
	uint64_t bytes;

	*wanted = "a size such as 4G, at least 2M; or 0 for the default";
	if (parse_units(text, sizes, &bytes) || (bytes && bytes < 2ull << 20))
		return -EINVAL;
	*(uint64_t *)field = bytes;
	return 0;
}

int config_value_time(void *field, size_t size, const char *text, const char **wanted)
{
	*wanted = "a time such as 5ms or 10s";
	return parse_units(text, times, field);
}

int config_value_retire(void *field, size_t size, const char *text, const char **wanted)
{
	*wanted = "a time such as 90s, or never";
	if (strcmp(text, "never"))
		return parse_units(text, times, field);
	*(uint64_t *)field = UINT64_MAX;
	return 0;
}

int config_value_count(void *field, size_t size, const char *text, const char **wanted)
{
	*wanted = "a number from 0 to 65536";
	return parse_number(text, numbers, 0, 65536, field);
}

int config_value_reserve(void *field, size_t size, const char *text, const char **wanted)
{
	*wanted = "a percentage from 0 to 50";
	return parse_number(text, percents, 0, 50, field);
}

int config_value_ms(void *field, size_t size, const char *text, const char **wanted)
{
	*wanted = "a number of milliseconds, or 0 for no limit";
	return parse_number(text, numbers, 0, UINT32_MAX, field);
}

int config_value_inline(void *field, size_t size, const char *text, const char **wanted)
{
	*wanted = "a size up to 65496";
	return parse_number(text, sizes, 0, RECORD_BYTES_MAX - sizeof(struct record_write), field);
}

int config_value_chunk(void *field, size_t size, const char *text, const char **wanted)
{
	uint64_t bytes;

	*wanted = "a multiple of 4K, up to 1G";
	if (parse_units(text, sizes, &bytes) || bytes % 4096 || bytes > 1ull << 30)
		return -EINVAL;
	*(uint64_t *)field = bytes;
	return 0;
}

int config_value_log(void *field, size_t size, const char *text, const char **wanted)
{
	static const char *const names[] = {"error", "warning", "info", "debug"};

	int level = parse_name(text, names, array_length(names));

	*wanted = "error, warning, info or debug";
	if (level < 0)
		return -EINVAL;
	*(enum log_level *)field = (enum log_level)level;
	return 0;
}

int config_parse_integer(const char *text, int64_t least, int64_t most, int64_t *value)
{
	char *end;
	long long number;

	errno = 0;
	number = strtoll(text, &end, 10);
	if (errno || end == text || *end || number < least || number > most)
		return -EINVAL;
	*value = number;
	return 0;
}

/* Of this machine only: there is no other protection. */
int config_value_address(void *field, size_t size, const char *text, const char **wanted)
{
	struct config_address address = {0};
	const char *colon = strrchr(text, ':');
	int64_t port;

	*wanted = "an address of this machine, 127.0.0.1:PORT or [::1]:PORT, or no";
	if (!strcmp(text, "no")) {
		*(struct config_address *)field = address;
		return 0;
	}
	if (!colon || config_parse_integer(colon + 1, 1, 65535, &port))
		return -EINVAL;
	address.port = (uint16_t)port;
	if (!strncmp(text, "[::1]:", 6) && colon == text + 5)
		strcpy(address.host, "::1");
	else if (!strncmp(text, "127.", 4) && colon - text < (ptrdiff_t)sizeof address.host)
		memcpy(address.host, text, (size_t)(colon - text));
	else
		return -EINVAL;
	*(struct config_address *)field = address;
	return 0;
}

int config_value_user(void *field, size_t size, const char *text, const char **wanted)
{
	const struct passwd *user = getpwnam(text);

	*wanted = "the name or number of a user that exists";
	return parse_id(text, user ? &user->pw_uid : NULL, field);
}

int config_value_group(void *field, size_t size, const char *text, const char **wanted)
{
	const struct group *group = getgrnam(text);

	*wanted = "the name or number of a group that exists";
	return parse_id(text, group ? &group->gr_gid : NULL, field);
}

int config_value_mode(void *field, size_t size, const char *text, const char **wanted)
{
	char *end;
	unsigned long mode = strtoul(text, &end, 8);

	*wanted = "an octal mode such as 0660";
	if (!*text || *end || mode > 0777)
		return -EINVAL;
	*(mode_t *)field = (mode_t)mode;
	return 0;
}

int config_value_percent(void *field, size_t size, const char *text, const char **wanted)
{
	*wanted = "a share from 1 to 100 percent, or auto";
	if (strcmp(text, "auto"))
		return parse_number(text, percents, 1, 100, field);
	*(uint64_t *)field = 0;
	return 0;
}

int config_value_priority(void *field, size_t size, const char *text, const char **wanted)
{
	*wanted = "a priority from -100 to 100, of which the higher goes first";
	return config_parse_integer(text, -100, 100, field);
}

int config_value_bool(void *field, size_t size, const char *text, const char **wanted)
{
	bool yes = !strcmp(text, "yes") || !strcmp(text, "true") || !strcmp(text, "1");

	*wanted = "yes or no";
	if (!yes && strcmp(text, "no") && strcmp(text, "false") && strcmp(text, "0"))
		return -EINVAL;
	*(bool *)field = yes;
	return 0;
}

static const char *const preempt_names[] = {[PREEMPT_ASKED] = "asked",
	[PREEMPT_OFF] = "off",
	[PREEMPT_BLOCKS] = "blocks",
	[PREEMPT_LOOPS] = "loops"};

const char *config_preempt_name(enum config_preempt preempt)
{
	return preempt_names[preempt];
}

int config_value_preempt(void *field, size_t size, const char *text, const char **wanted)
{
	int preempt = parse_name(text, preempt_names, array_length(preempt_names));

	*wanted = "off, blocks, loops or asked";
	if (preempt < 0)
		return -EINVAL;
	*(enum config_preempt *)field = (enum config_preempt)preempt;
	return 0;
}

/* Those of NVIDIA's GPUs. */
int config_value_capability(void *field, size_t size, const char *text, const char **wanted)
{
	static const uint8_t values[] = {
		50, 52, 53, 60, 61, 62, 70, 72, 75, 80, 86, 87, 89, 90, 100, 103, 110, 120, 121};
	uint64_t *capability = field;
	char name[8];

	*wanted = "that of a GPU from 5.0 to 12.1, such as 7.5 or 8.0, or device";
	for (unsigned i = 0; i < array_length(values); i++) {
		snprintf(name, sizeof name, "%u.%u", values[i] / 10u, values[i] % 10u);
		if (!strcmp(text, name)) {
			*capability = values[i];
			return 0;
		}
	}
	*capability = 0;
	return strcmp(text, "device") ? -EINVAL : 0;
}

/* A holder must be able to work, and the others must come. */
int config_value_quantum(void *field, size_t size, const char *text, const char **wanted)
{
	uint64_t ns;

	*wanted = "a time from 10us to 10s, or 0 for the device's default";
	if (parse_units(text, times, &ns) || (ns && ns < 10 * NS_PER_US) || ns > 10 * NS_PER_S)
		return -EINVAL;
	*(uint64_t *)field = ns;
	return 0;
}

int config_value_queues(void *field, size_t size, const char *text, const char **wanted)
{
	*wanted = "mrq (a queue for each resource) or sdq (one for all of them)";
	if (strcmp(text, "mrq") && strcmp(text, "sdq"))
		return -EINVAL;
	*(bool *)field = text[0] == 's';
	return 0;
}

/* Takes one of the policies that may decide there, or lists them. */
static int find_policy(
	char *field, size_t size, const char *text, bool members, const char **wanted)
{
	static char names[128];
	const struct sched_policy *policy;
	int found = -EINVAL;

	names[0] = '\0';
	for (unsigned i = 0; (policy = sched_policy_at(i)); i++) {
		if (members && (policy->everyone || policy->groups_only))
			continue;
		snprintf(names + strlen(names), sizeof names - strlen(names), "%s%s",
			*names ? ", " : "one of ", policy->name);
		if (!strcmp(policy->name, text))
			found = 0;
	}
	*wanted = names;
	if (!found)
		snprintf(field, size, "%s", text);
	return found;
}

int config_value_policy(void *field, size_t size, const char *text, const char **wanted)
{
	return find_policy(field, size, text, false, wanted);
}

int config_value_members(void *field, size_t size, const char *text, const char **wanted)
{
	if (!strcmp(text, "device")) { /* as the device's */
		*(char *)field = '\0';
		return 0;
	}
	return find_policy(field, size, text, true, wanted);
}
