/* SPDX-License-Identifier: MIT
 *
 * Administration: JSON requests on control.sock. A command is one function that returns its answer and
 * one line of the table. Times are nanoseconds, sizes bytes. Anybody may look; only root and the user that
 * gdevd runs as may change something.
 */
#include "gdevd/admin.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/log.h"

#define PIECE_BYTES (32u << 10)
#define COMMANDS_TEXT                                                                              \
	"status, devices, vgpus, top, hold, vgpu-create, vgpu-set, vgpu-delete, device-set, "      \
	"device-drain, device-undrain, suspend, resume, shm-list, shm-remove and graph-list"

const char *const resource_names[RESOURCES] = {"compute", "to_device", "from_device"};

static json_t *number(uint64_t value)
{
	return json_integer((json_int_t)min_of(value, (uint64_t)INT64_MAX));
}

/* 0 stands for what nobody has said. */
static json_t *number_if(uint64_t value)
{
	return value ? number(value) : json_null();
}

/* Nor does NULL or "" say anything. */
static json_t *string_if(const char *text)
{
	return text && *text ? json_string(text) : json_null();
}

/* The limit of an account that nobody has limited yet is unknown. */
static json_t *limit(uint64_t value)
{
	return value == UINT64_MAX ? json_null() : number(value);
}

static json_t *string_of(const char *text, size_t size)
{
	json_t *value = json_stringn(text, strnlen(text, size));

	return value ? value : json_string("?"); /* not UTF-8 */
}

static void add_usage(json_t *object, const struct worker_page *page)
{
	json_object_set_new(object, "launches", number(page->launches));
	json_object_set_new(object, "compute_ns", number(page->compute_ns));
	json_object_set_new(object, "to_device_bytes", number(page->to_device_bytes));
	json_object_set_new(object, "from_device_bytes", number(page->from_device_bytes));
	json_object_set_new(object, "swap_out_bytes", number(page->swap_out_bytes));
	json_object_set_new(object, "swap_in_bytes", number(page->swap_in_bytes));
	json_object_set_new(object, "rescued_bytes", number(page->rescued_bytes));
}

static json_t *percent(double part)
{
	return json_real((double)(int64_t)(part * 10000 + (part < 0 ? -.5 : .5)) / 100);
}

static json_t *describe_window(const struct usage_window *window)
{
	json_t *object = json_object();

	json_object_set_new(object, "over_ns", number(window->over_ns));
	json_object_set_new(object, "used_pct", percent(window->used));
	json_object_set_new(object, "expected_pct", percent(window->expected));
	json_object_set_new(object, "error_pct", percent(window->used - window->expected));
	json_object_set_new(object, "waited_pct", percent(window->waited));
	return object;
}

static json_t *describe_usage(const struct usage *usage, struct usage_counters counters)
{
	json_t *object = json_object();

	json_object_set_new(object, "used_ns", number(counters.used_ns));
	json_object_set_new(object, "waited_ns", number(counters.waited_ns));
	json_object_set_new(object, "grants", number(usage->grants));
	json_object_set_new(object, "longest_command_ns", number(usage->longest_ns));
	json_object_set_new(object, "longest_over_ns", number(usage->longest_over_ns));
	json_object_set_new(object, "overdue", number(usage->overdue));
	json_object_set_new(object, "last_1s", describe_window(&usage->windows[USAGE_SECOND]));
	json_object_set_new(
		object, "last_10s", describe_window(&usage->windows[USAGE_TEN_SECONDS]));
	return object;
}

/* Adds to a session or a virtual GPU what it has used of each resource; after measure_look(). */
static void add_resource(json_t *object, unsigned resource, const struct usage *usage,
	struct usage_counters counters, double share)
{
	json_t *resources = json_object_get(object, "resources");
	json_t *described = describe_usage(usage, counters);

	if (!resources) {
		resources = json_object();
		json_object_set_new(object, "resources", resources);
	}
	json_object_set_new(described, "share_pct", percent(share));
	json_object_set_new(resources, resource_names[resource], described);
}

static json_t *describe_rank(const struct rank *rank)
{
	static const char *const sources[] = {[RANK_OF_PROCESS] = "process",
		[RANK_OF_THREAD] = "thread",
		[RANK_OF_OPENER] = "opener",
		[RANK_LENT] = "lent"};
	enum rank_source from = rank->nice < rank->own ? RANK_LENT : rank->from;
	json_t *object = json_object();

	json_object_set_new(object, "nice", json_integer(rank->nice));
	json_object_set_new(object, "own", json_integer(rank->own));
	json_object_set_new(object, "from", json_string(sources[from]));
	return object;
}

static json_t *describe_session(const struct session *session, uint64_t now)
{
	json_t *object = json_object();
	const struct worker *worker = session->worker;

	json_object_set_new(object, "session", number(session->id));
	json_object_set_new(object, "pid", json_integer(session->pid));
	json_object_set_new(object, "uid", number(session->uid));
	json_object_set_new(object, "program", json_string(session->program));
	json_object_set_new(object, "vgpu", json_string(session->vgpu->config->name));
	json_object_set_new(object, "device", json_string(session->device->served->name));
	json_object_set_new(object, "worker_pid", json_integer(worker->pid));
	json_object_set_new(object, "wall_ns", number(now - session->started_ns));
	json_object_set_new(object, "memory_bytes", number(worker->memory.used_bytes));
	json_object_set_new(object, "peak_bytes", number(worker->memory.peak_bytes));
	json_object_set_new(object, "nice", json_integer(session->rank.nice));
	json_object_set_new(object, "rank", describe_rank(&session->rank));
	json_object_set_new(object, "swapped_bytes", number(swap_used(worker)));
	json_object_set_new(
		object, "file_swapped_bytes", number(worker->swap[SWAP_FILE].used_bytes));
	json_object_set_new(object, "swap_kept_bytes", number(swap_kept(worker)));
	json_object_set_new(object, "mapped_bytes", number(worker->page->mapped_bytes));
	json_object_set_new(object, "suspended", json_boolean(worker->residency.suspended));
	json_object_set_new(object, "moving", json_boolean(worker->residency.order));
	json_object_set_new(
		object, "changes_device", json_boolean(session->move.state != MOVE_NONE));
	json_object_set_new(object, "device_changes", number(session->move.count));
	json_object_set_new(object, "stays_because", string_if(session->move.why));
	json_object_set_new(object, "streams_busy", number(worker->page->streams_busy));
	json_object_set_new(object, "idle_ns", number(retire_idle_ns(worker)));
	json_object_set_new(object, "context", json_string(retire_state(worker)));
	json_object_set_new(object, "kept_because", string_if(retire_keeper(worker)));
	json_object_set_new(object, "retirements", number(worker->page->retirements));
	json_object_set_new(object, "reopening_ns", number(worker->page->reopening_ns));
	add_usage(object, worker->page);
	return object;
}

static json_t *describe_ended(const struct ended *ended)
{
	json_t *object = json_object();

	json_object_set_new(object, "session", number(ended->id));
	json_object_set_new(object, "pid", json_integer(ended->pid));
	json_object_set_new(object, "uid", number(ended->uid));
	json_object_set_new(object, "program", json_string(ended->program));
	json_object_set_new(object, "vgpu", json_string(ended->vgpu));
	json_object_set_new(object, "reason", json_string(ended->reason));
	json_object_set_new(object, "wall_ns", number(ended->wall_ns));
	json_object_set_new(object, "peak_bytes", number(ended->peak_bytes));
	add_usage(object, &ended->page);
	return object;
}

static json_t *list_settings(const struct sched_queue *queue)
{
	json_t *object = json_object();

	for (unsigned i = 0; i < SCHED_SETTINGS && queue->policy->settings[i].name; i++)
		json_object_set_new(
			object, queue->policy->settings[i].name, json_integer(queue->settings[i]));
	return object;
}

static const char *health_of(const struct device *device)
{
	if (device_is_failing(device))
		return device_is_gone(device) ? "gone" : "failed";
	if (device->drained)
		return "drained";
	return device->known ? "ok" : "starting";
}

/* After measure_look(). */
static json_t *describe_device(const struct device *device)
{
	const struct daemon *daemon = device->daemon;
	const struct memory_account *swap = daemon->swap.pools;
	const char *why = *device->workers.why     ? device->workers.why
			  : device_is_slow(device) ? "its worker takes long to start"
						   : NULL;
	json_t *object = json_object();
	char uuid[37];

	for (unsigned i = 0, at = 0; i < sizeof device->uuid; i++)
		at += (unsigned)snprintf(uuid + at, sizeof uuid - at,
			i == 4 || i == 6 || i == 8 || i == 10 ? "-%02x" : "%02x", device->uuid[i]);
	json_object_set_new(object, "device", json_string(device->served->name));
	json_object_set_new(object, "ready", json_boolean(device->known));
	json_object_set_new(object, "health", json_string(health_of(device)));
	json_object_set_new(object, "reason", string_if(why));
	json_object_set_new(object, "drained", json_boolean(device->drained));
	json_object_set_new(
		object, "node", device->node < 0 ? json_null() : number((uint64_t)device->node));
	json_object_set_new(object, "processors", string_if(device->processors));
	json_object_set_new(object, "multiprocessors",
		number_if((uint64_t)max_of(device->properties[PROPERTY_MULTIPROCESSORS], 0)));
	json_object_set_new(object, "sessions", number(device_count_sessions(device)));
	json_object_set_new(object, "load_1s_pct",
		percent(device->usage[RESOURCE_COMPUTE].windows[USAGE_SECOND].used));
	json_object_set_new(object, "name", string_of(device->name, sizeof device->name));
	json_object_set_new(object, "uuid", json_string(uuid));
	json_object_set_new(object, "memory_bytes", limit(device->memory.limit_bytes));
	json_object_set_new(object, "memory_used_bytes", number(device->memory.used_bytes));
	json_object_set_new(
		object, "memory_freeing_bytes", number(freeing_coming(daemon, &device->memory)));
	json_object_set_new(
		object, "memory_others_bytes", number(device->strangers.account.used_bytes));
	json_object_set_new(object, "losses", number(device->losses));
	json_object_set_new(object, "failed_starts", number(device->workers.failures));
	json_object_set_new(object, "swap_bytes", limit(swap[SWAP_MEMORY].limit_bytes));
	json_object_set_new(object, "swap_used_bytes", number(swap[SWAP_MEMORY].used_bytes));
	json_object_set_new(object, "swap_freeing_bytes",
		number(freeing_coming(daemon, &swap[SWAP_MEMORY]) +
			freeing_coming(daemon, &swap[SWAP_FILE])));
	json_object_set_new(object, "file_swap_bytes", number(swap[SWAP_FILE].limit_bytes));
	json_object_set_new(object, "file_swap_used_bytes", number(swap[SWAP_FILE].used_bytes));
	json_object_set_new(object, "reserve_bytes", number(device->residency.reserve_bytes));
	json_object_set_new(object, "policy", json_string(daemon->config.policy));
	json_object_set_new(
		object, "queues", json_string(daemon->config.one_queue ? "sdq" : "mrq"));
	json_object_set_new(
		object, "quantum_ns", number(device->sched[RESOURCE_COMPUTE].groups.quantum_ns));
	json_object_set_new(
		object, "settings", list_settings(&device->sched[RESOURCE_COMPUTE].groups));
	return object;
}

/* Null: its device is not known yet. */
static json_t *capability_of(const struct vgpu *vgpu)
{
	int32_t properties[DEVICE_PROPERTIES];
	char text[32];

	vgpu_properties(vgpu, properties);
	if (!properties[PROPERTY_COMPUTE_MAJOR])
		return json_null();
	snprintf(text, sizeof text, "%d.%d", properties[PROPERTY_COMPUTE_MAJOR],
		properties[PROPERTY_COMPUTE_MINOR]);
	return json_string(text);
}

static json_t *describe_vgpu(const struct vgpu *vgpu)
{
	json_t *object = json_object();
	char mode[8];

	snprintf(mode, sizeof mode, "%04o", (unsigned)vgpu->config->mode);
	json_object_set_new(object, "vgpu", json_string(vgpu->config->name));
	json_object_set_new(object, "device", json_string(vgpu->device->served->name));
	json_object_set_new(object, "placed", json_boolean(config_vgpu_is_any(vgpu->config)));
	json_object_set_new(object, "owner", number(vgpu->config->owner));
	json_object_set_new(object, "group", number(vgpu->config->group));
	json_object_set_new(object, "mode", json_string(mode));
	json_object_set_new(object, "memory_bytes", limit(memory_total(&vgpu->memory)));
	json_object_set_new(object, "memory_used_bytes", number(vgpu->memory.used_bytes));
	json_object_set_new(object, "swapped_bytes", number(swap_used_by(vgpu)));
	json_object_set_new(object, "file_swapped_bytes", number(vgpu->swap[SWAP_FILE].used_bytes));
	json_object_set_new(object, "time_limit_ms", number_if(vgpu->config->time_limit_ms));
	json_object_set_new(object, "compute_pct", number_if(vgpu->config->compute_pct));
	json_object_set_new(object, "copy_pct", number_if(vgpu->config->copy_pct));
	json_object_set_new(
		object, "policy", json_string(vgpu->groups[RESOURCE_COMPUTE].members.policy->name));
	json_object_set_new(object, "priority", json_integer(vgpu->config->priority));
	json_object_set_new(object, "strict", json_boolean(vgpu->config->strict));
	json_object_set_new(
		object, "preempt", json_string(config_preempt_name(vgpu->config->preempt)));
	json_object_set_new(object, "compute_capability", capability_of(vgpu));
	json_object_set_new(object, "lasts", json_boolean(!vgpu->config->from_file));
	json_object_set_new(object, "sessions", number(vgpu->sessions));
	json_object_set_new(object, "shared_segments", number(vgpu->shm.count));
	json_object_set_new(object, "shared_bytes", number(vgpu->shm.bytes));
	json_object_set_new(object, "shared_limit_bytes", limit(shm_vgpu_limit(vgpu)));
	json_object_set_new(object, "shared_evictions", number(vgpu->shm.evictions));
	return object;
}

static json_t *list_devices(struct daemon *daemon)
{
	json_t *array = json_array();
	const struct device *device;

	measure_look(daemon);
	list_for_each (device, &daemon->devices, link)
		json_array_append_new(array, describe_device(device));
	return array;
}

static json_t *list_vgpus(struct daemon *daemon)
{
	uint64_t now = clock_now_ns();
	json_t *array = json_array();
	const struct vgpu *vgpu;

	measure_look(daemon);
	list_for_each (vgpu, &daemon->vgpus, link) {
		json_t *object = describe_vgpu(vgpu);
		for (unsigned i = 0; i < RESOURCES; i++) {
			unsigned queue = grants_queue(daemon, i);
			add_resource(object, i, &vgpu->usage[i], measure_vgpu(vgpu, i, now),
				sched_fraction(&vgpu->device->sched[queue].groups,
					&vgpu->groups[queue].node));
		}
		json_array_append_new(array, object);
	}
	return array;
}

/* What an administrator should change: sentences. */
static json_t *list_warnings(const struct daemon *daemon)
{
	json_t *array = json_array();

	if (*daemon->program.warning)
		json_array_append_new(
			array, string_of(daemon->program.warning, sizeof daemon->program.warning));
	return array;
}

/* Workers that leave count: they still hold what they had of the device's memory. */
static json_t *count_workers(const struct daemon *daemon)
{
	json_int_t warm_bytes = 0, leaving = 0, total = 0, warm = 0, starting = 0, carrying = 0;
	const struct worker *worker;
	const struct device *device;

	list_for_each (worker, &daemon->workers, link)
		leaving += worker->state == WORKER_LEAVING;
	list_for_each (device, &daemon->devices, link) {
		warm_bytes += (json_int_t)relief_pool_bytes(device);
		total += device->workers.total;
		warm += device->workers.warm;
		starting += device->workers.starting;
		carrying += device->workers.carrying;
	}
	return json_pack("{s:I,s:I,s:I,s:I,s:I,s:I,s:I,s:s,s:s}", "warm_bytes", warm_bytes,
		"leaving", leaving, "total", total, "warm", warm, "starting", starting, "carrying",
		carrying, "max", (json_int_t)daemon->config.max_workers, "cgroups",
		daemon->cgroups.path, "no_cgroups", daemon->cgroups.why);
}

static json_t *command_devices(struct daemon *daemon, const json_t *request, int *status)
{
	return json_pack("{s:o,s:o,s:o}", "devices", list_devices(daemon), "warnings",
		list_warnings(daemon), "workers", count_workers(daemon));
}

static json_t *command_vgpus(struct daemon *daemon, const json_t *request, int *status)
{
	return json_pack("{s:o}", "vgpus", list_vgpus(daemon));
}

json_t *admin_list_sessions(const struct daemon *daemon, const struct device *device, bool used)
{
	const struct session *session;
	json_t *array = json_array();
	uint64_t now = clock_now_ns();

	list_for_each (session, &daemon->sessions, link) {
		json_t *object;
		if (session->worker->state != WORKER_SERVING ||
			(device && session->device != device))
			continue;
		object = describe_session(session, now);
		for (unsigned i = 0; i < RESOURCES; i++) {
			unsigned queue = grants_queue(daemon, i);
			const struct usage *usage = &session->usage[i];
			if (!used || (!usage->grants && !usage->waiting && !usage->charged.used_ns))
				continue;
			add_resource(object, i, usage, measure_session(session, i, now),
				sched_fraction(&session->vgpu->groups[queue].members,
					&session->entities[queue].node));
		}
		json_array_append_new(array, object);
	}
	return array;
}

/* Newest first. */
static json_t *list_ended(const struct daemon *daemon)
{
	uint64_t count = min_of(daemon->ended_count, (uint64_t)HISTORY_SESSIONS);
	json_t *array = json_array();

	for (uint64_t i = 1; i <= count; i++)
		json_array_append_new(array,
			describe_ended(
				&daemon->history[(daemon->ended_count - i) % HISTORY_SESSIONS]));
	return array;
}

static json_t *command_status(struct daemon *daemon, const json_t *request, int *status)
{
	json_t *answer = json_object();

	json_object_set_new(answer, "version", json_string(GDEV_VERSION));
	json_object_set_new(answer, "pid", json_integer(getpid()));
	json_object_set_new(answer, "private", json_boolean(daemon->private));
	json_object_set_new(answer, "runtime_dir", json_string(daemon->runtime_dir));
	json_object_set_new(answer, "config", json_string(daemon->config_path));
	json_object_set_new(answer, "warnings", list_warnings(daemon));
	json_object_set_new(answer, "devices", list_devices(daemon));
	json_object_set_new(answer, "vgpus", list_vgpus(daemon));
	json_object_set_new(answer, "workers", count_workers(daemon));
	json_object_set_new(answer, "sessions", admin_list_sessions(daemon, NULL, false));
	json_object_set_new(answer, "shared", admin_list_shares(daemon));
	json_object_set_new(answer, "ended", list_ended(daemon));
	json_object_set_new(answer, "ended_count", number(daemon->ended_count));
	return answer;
}

/* The device's use, with what handovers cost it. */
static json_t *list_resources(struct device *device)
{
	uint64_t now = clock_now_ns();
	json_t *resources = json_object();

	for (unsigned i = 0; i < RESOURCES; i++) {
		const struct usage *usage = &device->usage[i];
		const struct usage_window *second = &usage->windows[USAGE_SECOND];
		json_t *object = describe_usage(usage, measure_device(device, i, now));
		json_object_set_new(object, "handovers", number(usage->handovers));
		json_object_set_new(object, "lost_ns", number(usage->lost_ns));
		json_object_set_new(
			object, "lost_1s_pct", percent(max_of(second->waited - second->used, 0.0)));
		json_object_set_new(resources, resource_names[i], object);
	}
	return resources;
}

static json_t *command_top(struct daemon *daemon, const json_t *request, int *status)
{
	json_t *answer = json_object();
	json_t *devices = list_devices(daemon);
	struct device *device;
	size_t place = 0;

	json_object_set_new(answer, "vgpus", list_vgpus(daemon)); /* looks */
	list_for_each (device, &daemon->devices, link)
		json_object_set_new(
			json_array_get(devices, place++), "resources", list_resources(device));
	json_object_set_new(answer, "devices", devices);
	json_object_set_new(answer, "sessions", admin_list_sessions(daemon, NULL, true));
	return answer;
}

static bool takes_sessions(const struct device *device)
{
	return !device->drained && !device->workers.hopeless;
}

/* A virtual GPU that is not of any device, of which no session can begin. */
static json_t *list_closed(struct daemon *daemon)
{
	json_t *array = json_array();
	struct vgpu *vgpu;

	list_for_each (vgpu, &daemon->vgpus, link)
		if (vgpu == vgpu_find(daemon, vgpu->config->name) &&
			!config_vgpu_is_any(vgpu->config) &&
			!takes_sessions(vgpu_where_begins(vgpu)->device))
			json_array_append_new(
				array, json_pack("{s:s,s:s,s:s}", "vgpu", vgpu->config->name,
					       "device", vgpu->device->served->name, "health",
					       health_of(vgpu->device)));
	return array;
}

/* The connection itself is what keeps a private daemon; this says that it does. */
static json_t *command_hold(struct daemon *daemon, const json_t *request, int *status)
{
	return json_pack("{s:s,s:i,s:b,s:o}", "version", GDEV_VERSION, "pid", (int)getpid(),
		"private", daemon->private, "closed", list_closed(daemon));
}

static const struct {
	const char *name;
	bool changes;
	json_t *(*run)(struct daemon *daemon, const json_t *request, int *status);
} commands[] = {
	{"status", false, command_status},
	{"devices", false, command_devices},
	{"vgpus", false, command_vgpus},
	{"top", false, command_top},
	{"hold", false, command_hold},
	{"vgpu-create", true, command_vgpu_create},
	{"vgpu-set", true, command_vgpu_set},
	{"vgpu-delete", true, command_vgpu_delete},
	{"device-set", true, command_device_set},
	{"device-drain", true, command_device_drain},
	{"device-undrain", true, command_device_undrain},
	{"suspend", false, command_suspend},
	{"resume", false, command_resume},
	{"shm-list", false, command_shm_list},
	{"shm-remove", false, command_shm_remove},
	{"graph-list", false, command_graph_list},
};

/* Sends text in as many messages as it takes. */
static void send_text(struct connection *connection, uint32_t serial, int status, const char *text)
{
	static struct {
		struct control_header header;
		char text[PIECE_BYTES];
	} message;
	size_t left = strlen(text);

	do {
		size_t piece = min_of(left, sizeof message.text);
		message.header = (struct control_header){
			.length = (uint32_t)(sizeof message.header + piece),
			.type = CONTROL_ADMIN_REPLY,
			.version = CONTROL_VERSION,
			.serial = serial,
			.status = piece < left ? 1 : status,
		};
		memcpy(message.text, text, piece);
		connection_send(connection, &message, NULL, 0);
		text += piece;
		left -= piece;
	} while (left);
}

static bool may_change(const struct connection *connection)
{
	return connection->uid == 0 || connection->uid == geteuid();
}

static json_t *run_command(struct daemon *daemon, const struct connection *connection,
	const json_t *request, int *status)
{
	const char *name = json_string_value(json_object_get(request, "command"));

	*status = 0;
	for (size_t i = 0; name && i < array_length(commands); i++) {
		if (strcmp(commands[i].name, name))
			continue;
		if (!commands[i].changes || may_change(connection))
			return commands[i].run(daemon, request, status);
		*status = -EPERM;
		return admin_error("only root and the user that gdevd runs as (uid %u) may do that",
			(unsigned)geteuid());
	}
	*status = -EINVAL;
	return admin_error("%s",
		name ? "gdevd has no such command; it has " COMMANDS_TEXT
		     : "a request is a JSON object {\"command\": NAME}; there are " COMMANDS_TEXT);
}

json_t *admin_error(const char *format, ...)
{
	char text[CONFIG_ERROR_MAX];
	va_list args;

	va_start(args, format);
	vsnprintf(text, sizeof text, format, args);
	va_end(args);
	return json_pack("{s:o}", "error", string_of(text, sizeof text));
}

void admin_request(
	struct daemon *daemon, struct connection *connection, const struct control_header *message)
{
	json_t *request = json_loadb((const char *)(message + 1), message->length - sizeof *message,
		JSON_REJECT_DUPLICATES, NULL);
	int status;
	json_t *answer;

	if (request) /* the kernel's word, whatever the peer says */
		json_object_set_new(request, "peer_uid", json_integer(connection->uid));
	answer = run_command(daemon, connection, request, &status);
	autofree char *text = json_dumps(answer, JSON_COMPACT);
	if (text)
		send_text(connection, message->serial, status, text);
	else
		connection_drop(connection, -ENOMEM);
	json_decref(answer);
	json_decref(request);
}
