/* SPDX-License-Identifier: MIT
 *
 * What workers say, by type: a table of which messages a worker may send in which state. Anything else
 * is malformed, and the worker is killed: it serves one client alone, and that one chose to break it.
 */
#include "gdevd/daemon.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/log.h"
#include "gdev/error.h"
#include "proto/check.h"
#include "proto/session.h"
#include "proto/trace.h"

#define CACHE_REQUESTS_A_SESSION 16

/* Maps the worker page that came as a descriptor. */
static int map_page(struct worker *worker, int fd)
{
	uint64_t bytes;
	void *page;

	if (fd_shared_memory_size(fd, &bytes) || bytes < sizeof(struct worker_page))
		return -EINVAL;
	page = mmap(NULL, sizeof(struct worker_page), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (page == MAP_FAILED)
		return -errno;
	worker->page = page;
	return 0;
}

/* The segment is optional, but not what it is. */
static int take_trace(struct worker *worker, int *fd)
{
	uint64_t bytes;

	if (fd_shared_memory_size(*fd, &bytes) || bytes < sizeof(struct trace_segment))
		return -EINVAL;
	worker->trace_fd = steal_fd(fd);
	return 0;
}

/* The worker has no client yet: if its timing makes no sense, that is a fault, and no attack. */
static bool timing_makes_sense(const struct device_timing *timing)
{
	uint64_t longest_ns = max_of(timing->quantum_ns, timing->window_ns);

	longest_ns = max_of(longest_ns, max_of(timing->switch_ns[0], timing->switch_ns[1]));
	return timing->quantum_ns && longest_ns <= NS_PER_S;
}

/* The first worker that is ready says what the device is. */
static void learn_device(
	struct device *device, const struct worker *worker, const struct control_ready *message)
{
	if (device->known)
		return;
	device->known = true;
	device->memory.limit_bytes = message->memory_bytes;
	device->timing = message->timing;
	device->traits = message->traits;
	device->peers = message->peers;
	grants_know_device(device);
	residency_init_device(device);
	memcpy(device->name, worker->device_name, sizeof device->name);
	memcpy(device->uuid, worker->device_uuid, sizeof device->uuid);
	device->uuid[sizeof device->uuid - 1] ^=
		(uint8_t)device->served->part; /* each has its own */
	memcpy(device->properties, message->properties, sizeof device->properties);
	device_locate(device);
	log_info("device %s: %s, %llu MiB", device->served->name, device->name,
		(unsigned long long)(message->memory_bytes >> 20));
	clients_describe(device);
}

/* Somebody may have taken the room meanwhile. If a client waits for the worker, others leave. */
static int charge_context(struct worker *worker, uint64_t bytes)
{
	struct device *device = worker->device;

	if (!memory_charge(&worker->memory, bytes))
		return 0;
	if (client_waiting_count(device, NULL) <= device->workers.warm ||
		residency_make_room(device, NULL, bytes) == -ENOMEM)
		return -ENOMEM;
	memory_charge_held(&worker->memory, bytes);
	return 0;
}

static int on_ready(
	struct worker *worker, const struct control_header *header, int *fds, size_t fd_count)
{
	const struct control_ready *message = (const struct control_ready *)header;
	uint64_t bytes;
	int error;

	if (worker->restored || !timing_makes_sense(&message->timing) ||
		fd_count < WORKER_FDS + 1 || fd_count > WORKER_FDS + 2)
		return -EPROTO;
	if (fd_shared_memory_size(fds[WORKER_FD_SEGMENT], &bytes) ||
		bytes < sizeof(struct session_segment))
		return -EINVAL;
	if (fd_shared_memory_size(fds[WORKER_FD_STAGING], &bytes) || bytes < message->staging_bytes)
		return -EINVAL;
	error = map_page(worker, fds[WORKER_FDS]);
	if (!error && fd_count == WORKER_FDS + 2)
		error = take_trace(worker, &fds[WORKER_FDS + 1]);
	if (error)
		return error;
	for (unsigned i = 0; i < WORKER_FDS; i++)
		worker->fds[i] = steal_fd(&fds[i]);
	worker->staging_bytes = message->staging_bytes;
	memcpy(worker->device_name, message->device_name, sizeof worker->device_name - 1);
	memcpy(worker->device_uuid, message->device_uuid, sizeof worker->device_uuid);
	learn_device(worker->device, worker, message);
	worker->device->overhead_bytes = message->overhead_bytes;
	if (charge_context(worker, message->overhead_bytes)) {
		complain("the device has no memory left for another warm worker");
		return -ENOMEM;
	}
	residency_balance(worker->device);
	retire_look(worker->device);
	worker->device->workers.ready_ns = clock_now_ns();
	worker_ready(worker);
	return 0;
}

static int on_attached(struct worker *worker, const struct control_header *header)
{
	session_attached(worker->session, min_of(header->status, 0));
	return 0;
}

static int on_register(
	struct worker *worker, const struct control_header *header, int *fds, size_t fd_count)
{
	int error;

	if (!worker->restored || fd_count < 1 || fd_count > 3)
		return -EPROTO;
	error = map_page(worker, fds[0]);
	if (!error && fd_count > 1)
		error = take_trace(worker, &fds[1]);
	if (!error)
		error = session_restore(worker, (const struct control_attach *)header,
			fd_count > 2 ? &fds[2] : NULL);
	if (error)
		return error;
	worker->state = WORKER_SERVING;
	worker->since_ns = clock_now_ns();
	deadline_cancel(&worker->deadline);
	trace_session_begin(worker->session);
	retire_look(worker->device);
	workers_adjust(worker->device);
	return 0;
}

static int on_bye(struct worker *worker, const struct control_header *header)
{
	const char *reason;
	uint32_t end;

	if (!worker->session) {
		worker_cannot(worker, gdev_strerror(header->status));
		return worker->restored ? -EPROTO : 0;
	}
	end = __atomic_load_n(&worker->page->end, __ATOMIC_RELAXED);
	reason = end & WORKER_END_CUT_OFF ? "killed, or by _exit" : "done";
	if (header->status == -GDEV_E_DEVICE_LOST)
		workers_device_lost(worker);
	worker->session->events_reached = !(end & WORKER_END_UNREACHED);
	worker->session->left = !header->status;
	session_end(worker->session, header->status ? gdev_strerror(header->status) : reason);
	return 0;
}

static int on_memory(struct worker *worker, const struct control_header *header)
{
	struct control_memory answer = {
		.free_bytes = residency_free(worker->session->vgpu),
		.total_bytes = memory_total(&worker->memory),
	};

	control_fill(&answer, CONTROL_MEMORY_REPLY, header->serial);
	connection_send(worker->connection, &answer, NULL, 0);
	return 0;
}

static int on_allocate(struct worker *worker, const struct control_header *header)
{
	const struct control_allocate *message = (const struct control_allocate *)header;

	if (message->purpose > ROOM_FOR_CONTEXT)
		return -EPROTO;
	residency_allocate(worker, message);
	return 0;
}

static int on_room(struct worker *worker, const struct control_header *header)
{
	const struct control_room *message = (const struct control_room *)header;

	if (message->purpose > ROOM_FOR_CONTEXT)
		return -EPROTO;
	residency_want(worker, message->bytes, (enum room_purpose)message->purpose, header->serial);
	return 0;
}

static int on_slot(struct worker *worker, const struct control_header *header)
{
	const struct control_slot *message = (const struct control_slot *)header;

	residency_promise_slot(
		worker, message->bytes, (enum slot_place)message->place, header->serial);
	return 0;
}

static int on_eased(struct worker *worker, const struct control_header *header)
{
	residency_eased(worker);
	return 0;
}

static int on_shm(
	struct worker *worker, const struct control_header *header, int *fds, size_t fd_count)
{
	const struct control_shm *message = (const struct control_shm *)header;

	if (fd_count && message->command != SHM_COMMAND_BACK)
		return -EPROTO;
	if (worker->state == WORKER_CARRYING)
		return shm_carrier_message(worker, message, fds, fd_count);
	return shm_message(worker->session, message, fds, fd_count);
}

static void answer_cache(struct session *session, const struct cache_request *request, int status)
{
	struct control_cache answer = {.bytes = request->bytes};
	bool found = !status && request->fd >= 0;

	control_fill(&answer, CONTROL_CACHE_REPLY, request->serial);
	answer.header.status = status;
	memcpy(answer.key, request->key, sizeof answer.key);
	if (request->serial)
		connection_send(session->worker->connection, &answer, &request->fd, found);
}

static void cache_done(struct cache_request *request)
{
	struct session *session = request->owner;

	if (!session) /* it has ended */
		return;
	session->cache_request_count--;
	answer_cache(session, request, request->status);
}

static int on_cache(struct worker *worker, const struct control_header *header)
{
	const struct control_cache *message = (const struct control_cache *)header;
	struct cache *cache = &worker->daemon->cache;
	struct session *session = worker->session;
	struct cache_request refused = {.serial = header->serial, .fd = -1}, *request = &refused;
	int status = -EAGAIN;

	memcpy(refused.key, message->key, sizeof refused.key);
	if (session->cache_request_count < CACHE_REQUESTS_A_SESSION)
		status = header->type == CONTROL_CACHE_GET
				 ? cache_get(session->user, message->key, &request)
				 : cache_put(cache, session->user, message->key, message->bytes,
					   &request);
	if (status) {
		answer_cache(session, request, status);
		return 0;
	}
	request->owner = session;
	request->serial = header->serial;
	list_append(&session->cache_requests, &request->link);
	session->cache_request_count++;
	if (header->type == CONTROL_CACHE_GET)
		cache_submit(cache, session->uid, request, cache_done);
	else
		answer_cache(session, request, 0);
	return 0;
}

static int on_cache_commit(struct worker *worker, const struct control_header *header)
{
	const struct control_cache *message = (const struct control_cache *)header;
	struct cache_request none = {.serial = header->serial, .fd = -1}, *request;
	struct session *session = worker->session;

	list_for_each (request, &session->cache_requests, link) {
		if (request->submitted || memcmp(request->key, message->key, sizeof request->key))
			continue;
		request->serial = header->serial;
		cache_submit(&worker->daemon->cache, session->uid, request, cache_done);
		return 0;
	}
	memcpy(none.key, message->key, sizeof none.key);
	answer_cache(session, &none, -ENOENT);
	return 0;
}

#define PAGES_BYTES_MAX (64u << 20) /* of a worker page, or a trace segment */

/* What a worker in its client's hands may send descriptors with. */
bool worker_brings(struct connection *connection, const struct control_header *begin,
	struct porter_limits *limits)
{
	const struct worker *worker = connection->owner;
	const struct control_shm *shm = (const struct control_shm *)begin;

	if (begin->type == CONTROL_REGISTER && worker->state == WORKER_STARTING) {
		*limits = (struct porter_limits){.fds = 3, .memory = PAGES_BYTES_MAX};
		session_file_of_worker(worker, limits);
		return true;
	}
	if (begin->type != CONTROL_SHM || shm->command != SHM_COMMAND_BACK)
		return false;
	limits->fds = FD_PASS_MAX;
	limits->memory =
		UINT64_MAX; /* chunks are judged when they are here, by what was paid for them */
	if (worker->session)
		shm_copy_of(worker->session, shm->id, limits);
	return true;
}

/* Whether it tells the arbiter something new. */
static bool changes_grant(const struct worker *worker, const struct control_grant *message)
{
	const struct session *session = worker->session;
	const struct session_grant *grant;

	if (!session || message->resource >= RESOURCES)
		return true; /* the worker is malformed */
	grant = &session->grants[message->resource];
	return message->header.type == CONTROL_RELEASE ? grant->held
						       : !grant->asked && !grant->again;
}

/* What others wait for does not wait: the beginning and the end of a session, and of its turns. */
bool worker_message_waits(struct connection *connection, const struct control_header *begin)
{
	switch (begin->type) {
	case CONTROL_REGISTER:
	case CONTROL_ATTACHED:
	case CONTROL_BYE:
	case CONTROL_EVICTED:
	case CONTROL_MOVED:
		return false;
	case CONTROL_ACQUIRE:
	case CONTROL_RELEASE:
		return !changes_grant(connection->owner, (const struct control_grant *)begin);
	}
	return true;
}

#define IN(state) (1u << (state))

static const struct {
	uint16_t type;
	unsigned states; /* in which it may come */
	int (*handle)(struct worker *worker, const struct control_header *header);
	/* Instead, if descriptors may come with it. */
	int (*handle_fds)(struct worker *worker, const struct control_header *header, int *fds,
		size_t fd_count);
	/* Or, if it is the session's. */
	int (*handle_session)(struct session *session, const struct control_header *header);
} handlers[] = {
	{CONTROL_READY, IN(WORKER_STARTING), NULL, on_ready},
	{CONTROL_REGISTER, IN(WORKER_STARTING), NULL, on_register},
	{CONTROL_ATTACHED, IN(WORKER_ATTACHING), on_attached, NULL},
	{CONTROL_BYE, IN(WORKER_STARTING) | IN(WORKER_SERVING), on_bye, NULL},
	{CONTROL_MOVED, IN(WORKER_SERVING), NULL, NULL, moving_answered},
	{CONTROL_MEMORY, IN(WORKER_SERVING), on_memory, NULL},
	/* Late, if a client was faster than the driver. */
	{CONTROL_MEMORY_REPLY,
		IN(WORKER_WARM) | IN(WORKER_CARRYING) | IN(WORKER_ATTACHING) | IN(WORKER_SERVING),
		strangers_told, NULL},
	{CONTROL_ALLOCATE, IN(WORKER_SERVING), on_allocate, NULL},
	{CONTROL_ROOM, IN(WORKER_SERVING), on_room, NULL},
	{CONTROL_SLOT, IN(WORKER_SERVING), on_slot, NULL},
	{CONTROL_RETURN, IN(WORKER_SERVING), residency_returned, NULL},
	{CONTROL_EVICTED, IN(WORKER_SERVING), residency_evicted, NULL},
	{CONTROL_EASED, IN(WORKER_SERVING), on_eased, NULL},
	{CONTROL_ACQUIRE, IN(WORKER_SERVING), NULL, NULL, grants_acquire},
	{CONTROL_RELEASE, IN(WORKER_SERVING), NULL, NULL, grants_release},
	{CONTROL_SHM, IN(WORKER_SERVING) | IN(WORKER_CARRYING), NULL, on_shm},
	{CONTROL_CACHE_GET, IN(WORKER_SERVING), on_cache, NULL},
	{CONTROL_CACHE_PUT, IN(WORKER_SERVING), on_cache, NULL},
	{CONTROL_CACHE_COMMIT, IN(WORKER_SERVING), on_cache_commit, NULL},
	{CONTROL_EVENT_WATCH, IN(WORKER_SERVING), NULL, NULL, events_watch},
	{CONTROL_EVENT_DONE, IN(WORKER_SERVING), NULL, NULL, events_done},
};

int worker_message(struct connection *connection, const struct control_header *message, int *fds,
	size_t fd_count)
{
	struct worker *worker = connection->owner;

	for (size_t i = 0; i < array_length(handlers); i++) {
		if (handlers[i].type != message->type)
			continue;
		if (worker->state == WORKER_LEAVING)
			return 0; /* sent before it knew; nobody is there to act for */
		if (!(handlers[i].states & IN(worker->state)))
			break;
		if (handlers[i].handle_fds)
			return handlers[i].handle_fds(worker, message, fds, fd_count);
		if (fd_count)
			break;
		if (handlers[i].handle_session)
			return handlers[i].handle_session(worker->session, message);
		return handlers[i].handle(worker, message);
	}
	log_debug("worker %d sent %s while %s", (int)worker->pid, control_type_name(message->type),
		worker_state_name(worker->state));
	return -EPROTO;
}
