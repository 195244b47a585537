/* SPDX-License-Identifier: MIT
 *
 * What workers say, by type: a table of which messages a worker may send in which state. Anything else
 * is malformed, and the worker is killed: it serves one client alone, and that one chose to break it.
 */
#include "gdevd/daemon.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/fd.h"
#include "base/log.h"
#include "gdev/error.h"
#include "proto/check.h"
#include "proto/session.h"
#include "proto/trace.h"

#define CACHE_WRITES_A_SESSION 16

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

/* The first worker that is ready says what the device is. */
static void learn_device(struct daemon *daemon, const struct worker *worker, uint64_t memory_bytes)
{
	struct device *device = &daemon->device;

	if (device->known)
		return;
	device->known = true;
	device->memory.limit_bytes = memory_bytes;
	residency_init_device(daemon);
	memcpy(device->name, worker->device_name, sizeof device->name);
	memcpy(device->uuid, worker->device_uuid, sizeof device->uuid);
	log_info("device %s: %s, %llu MiB", daemon->config.device, device->name,
		(unsigned long long)(memory_bytes >> 20));
}

/* Somebody may have taken the room meanwhile. If a client waits for the worker, others leave. */
static int charge_context(struct worker *worker, uint64_t bytes)
{
	struct daemon *daemon = worker->daemon;

	if (!memory_charge(&worker->memory, bytes))
		return 0;
	if (client_waiting_count(daemon, NULL) <= daemon->workers.warm ||
		residency_make_room(daemon, NULL, bytes) == -ENOMEM)
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

	if (worker->restored || fd_count < WORKER_FDS + 1 || fd_count > WORKER_FDS + 2)
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
	learn_device(worker->daemon, worker, message->memory_bytes);
	worker->daemon->device.overhead_bytes = message->overhead_bytes;
	if (charge_context(worker, message->overhead_bytes)) {
		complain("the device has no memory left for another warm worker");
		return -ENOMEM;
	}
	residency_balance(worker->daemon);
	retire_look(worker->daemon);
	worker_ready(worker);
	return 0;
}

static int on_attached(
	struct worker *worker, const struct control_header *header, int *fds, size_t fd_count)
{
	session_attached(worker->session, min_of(header->status, 0));
	return 0;
}

static int on_register(
	struct worker *worker, const struct control_header *header, int *fds, size_t fd_count)
{
	int error;

	if (!worker->restored || fd_count < 1 || fd_count > 2)
		return -EPROTO;
	error = map_page(worker, fds[0]);
	if (!error && fd_count == 2)
		error = take_trace(worker, &fds[1]);
	if (!error)
		error = session_restore(worker, (const struct control_attach *)header);
	if (error)
		return error;
	worker->state = WORKER_SERVING;
	worker->since_ns = clock_now_ns();
	deadline_cancel(&worker->deadline);
	trace_session_begin(worker->session);
	retire_look(worker->daemon);
	workers_adjust(worker->daemon);
	return 0;
}

static int on_bye(
	struct worker *worker, const struct control_header *header, int *fds, size_t fd_count)
{
	if (header->status == -GDEV_E_DEVICE_LOST)
		workers_device_lost(worker);
	session_end(worker->session, header->status ? gdev_strerror(header->status) : "done");
	return 0;
}

static void answer_memory(struct worker *worker, const struct control_memory *request, int status)
{
	struct control_memory answer = {
		.bytes = request->bytes,
		.free_bytes = residency_free(worker->session->vgpu),
		.total_bytes = memory_total(&worker->memory),
	};

	control_fill(&answer, CONTROL_MEMORY_REPLY, request->header.serial);
	answer.header.status = status;
	connection_send(worker->connection, &answer, NULL, 0);
}

void worker_wants_memory(struct worker *worker, const struct control_memory *message)
{
	uint64_t bytes = (uint64_t)message->bytes;
	int status = 0;

	if (bytes && !residency_has_room(worker, bytes))
		status = -ENOMEM;
	else
		status = memory_charge(&worker->memory, bytes);
	if (status && relief_wait(worker, message))
		return;
	if (bytes && !status)
		residency_refreshed(worker);
	answer_memory(worker, message, status);
}

static int on_memory(
	struct worker *worker, const struct control_header *header, int *fds, size_t fd_count)
{
	const struct control_memory *message = (const struct control_memory *)header;

	if (message->bytes < 0) {
		if (memory_return(&worker->memory, -(uint64_t)message->bytes))
			return -EINVAL;
		worker->residency.returned_bytes += -(uint64_t)message->bytes;
		residency_balance(worker->daemon);
		relief_serve(worker->daemon);
		workers_adjust(worker->daemon);
		return 0;
	}
	worker_wants_memory(worker, message);
	return 0;
}

static int on_resident(
	struct worker *worker, const struct control_header *header, int *fds, size_t fd_count)
{
	return residency_wanted(worker, (const struct control_memory *)header);
}

static int on_swap(
	struct worker *worker, const struct control_header *header, int *fds, size_t fd_count)
{
	const struct control_memory *message = (const struct control_memory *)header;

	if (message->free_bytes >= SWAP_POOLS)
		return -EPROTO;
	if (message->bytes < 0) {
		if (memory_return(&worker->swap[message->free_bytes], -(uint64_t)message->bytes))
			return -EINVAL;
		residency_balance(worker->daemon);
		return 0;
	}
	if (!header->serial) {
		if (!worker->restored)
			return -EPROTO;
		return memory_claim(&worker->swap[message->free_bytes], (uint64_t)message->bytes);
	}
	if (message->total_bytes == SWAP_WISH_OBJECT)
		residency_promise(worker, (uint64_t)message->bytes, header->serial);
	else
		residency_promise_slot(worker, (uint64_t)message->bytes,
			(enum swap_wish)message->total_bytes, header->serial);
	return 0;
}

static int on_evicted(
	struct worker *worker, const struct control_header *header, int *fds, size_t fd_count)
{
	return residency_evicted(worker, (const struct control_evict *)header);
}

static int on_acquire(
	struct worker *worker, const struct control_header *header, int *fds, size_t fd_count)
{
	return grants_acquire(worker->session, (const struct control_grant *)header);
}

static int on_release(
	struct worker *worker, const struct control_header *header, int *fds, size_t fd_count)
{
	return grants_release(worker->session, (const struct control_grant *)header);
}

static int on_shm(
	struct worker *worker, const struct control_header *header, int *fds, size_t fd_count)
{
	const struct control_shm *message = (const struct control_shm *)header;

	if (fd_count && message->command != SHM_COMMAND_BACK)
		return -EPROTO;
	if (worker->state == WORKER_CARRYING)
		return shm_carrier_message(worker, message);
	return shm_message(worker->session, message, fds, fd_count);
}

static void answer_cache(struct worker *worker, const struct control_cache *request, int status,
	uint64_t bytes, int fd)
{
	struct control_cache answer = *request;

	control_fill(&answer, CONTROL_CACHE_REPLY, request->header.serial);
	answer.header.status = status;
	answer.bytes = bytes;
	connection_send(worker->connection, &answer, &fd, fd >= 0);
}

static int on_cache_get(
	struct worker *worker, const struct control_header *header, int *fds, size_t fd_count)
{
	const struct control_cache *message = (const struct control_cache *)header;
	autoclose int fd = -1;
	uint64_t bytes = 0;
	int status =
		cache_get(&worker->daemon->cache, worker->session->uid, message->key, &fd, &bytes);

	answer_cache(worker, message, status, bytes, fd);
	return 0;
}

static int on_cache_put(
	struct worker *worker, const struct control_header *header, int *fds, size_t fd_count)
{
	const struct control_cache *message = (const struct control_cache *)header;
	struct session *session = worker->session;
	struct cache_write *write = NULL;
	int status = -EAGAIN;

	if (session->cache_write_count < CACHE_WRITES_A_SESSION)
		status = cache_put(
			&worker->daemon->cache, session->uid, message->key, message->bytes, &write);
	if (!status) {
		list_append(&session->cache_writes, &write->link);
		session->cache_write_count++;
	}
	answer_cache(worker, message, status, message->bytes, write ? write->fd : -1);
	return 0;
}

static int on_cache_commit(
	struct worker *worker, const struct control_header *header, int *fds, size_t fd_count)
{
	const struct control_cache *message = (const struct control_cache *)header;
	struct session *session = worker->session;
	struct cache_write *write, *after;
	int status = -ENOENT;

	list_for_each_safe (write, after, &session->cache_writes, link) {
		if (memcmp(write->key, message->key, sizeof write->key))
			continue;
		session->cache_write_count--;
		status = cache_commit(&worker->daemon->cache, session->uid, write);
		break;
	}
	if (message->header.serial)
		answer_cache(worker, message, status, message->bytes, -1);
	return 0;
}

static int on_event_watch(
	struct worker *worker, const struct control_header *header, int *fds, size_t fd_count)
{
	return events_watch(worker->session, (const struct control_event *)header);
}

static int on_event_done(
	struct worker *worker, const struct control_header *header, int *fds, size_t fd_count)
{
	return events_done(worker->session, (const struct control_event *)header);
}

#define IN(state) (1u << (state))

static const struct {
	uint16_t type;
	unsigned states; /* in which it may come */
	bool fds;        /* descriptors may come with it */
	int (*handle)(struct worker *worker, const struct control_header *header, int *fds,
		size_t fd_count);
} handlers[] = {
	{CONTROL_READY, IN(WORKER_STARTING), true, on_ready},
	{CONTROL_REGISTER, IN(WORKER_STARTING), true, on_register},
	{CONTROL_ATTACHED, IN(WORKER_ATTACHING), false, on_attached},
	{CONTROL_BYE, IN(WORKER_SERVING), false, on_bye},
	{CONTROL_MEMORY, IN(WORKER_SERVING), false, on_memory},
	{CONTROL_RESIDENT, IN(WORKER_SERVING), false, on_resident},
	{CONTROL_SWAP, IN(WORKER_SERVING), false, on_swap},
	{CONTROL_EVICTED, IN(WORKER_SERVING), false, on_evicted},
	{CONTROL_ACQUIRE, IN(WORKER_SERVING), false, on_acquire},
	{CONTROL_RELEASE, IN(WORKER_SERVING), false, on_release},
	{CONTROL_SHM, IN(WORKER_SERVING) | IN(WORKER_CARRYING), true, on_shm},
	{CONTROL_CACHE_GET, IN(WORKER_SERVING), false, on_cache_get},
	{CONTROL_CACHE_PUT, IN(WORKER_SERVING), false, on_cache_put},
	{CONTROL_CACHE_COMMIT, IN(WORKER_SERVING), false, on_cache_commit},
	{CONTROL_EVENT_WATCH, IN(WORKER_SERVING), false, on_event_watch},
	{CONTROL_EVENT_DONE, IN(WORKER_SERVING), false, on_event_done},
};

int worker_message(
	struct worker *worker, const struct control_header *message, int *fds, size_t fd_count)
{
	for (size_t i = 0; i < array_length(handlers); i++) {
		if (handlers[i].type != message->type)
			continue;
		if (worker->state == WORKER_LEAVING)
			return 0; /* sent before it knew; nobody is there to act for */
		if (!(handlers[i].states & IN(worker->state)) || (fd_count && !handlers[i].fds))
			break;
		return handlers[i].handle(worker, message, fds, fd_count);
	}
	log_debug("worker %d sent %s while %s", (int)worker->pid, control_type_name(message->type),
		worker_state_name(worker->state));
	return -EPROTO;
}
