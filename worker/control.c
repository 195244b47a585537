/* SPDX-License-Identifier: MIT
 *
 * See control.h.
 */
#include "worker/control.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/log.h"
#include "gdev/error.h"
#include "proto/check.h"
#include "worker/core.h"
#include "worker/memory/shm.h"

#define RETRY_FIRST_NS (20 * NS_PER_MS)
#define RETRY_MOST_NS NS_PER_S

struct outgoing {
	struct list link;
	size_t length, fd_count;
	int fds[FD_PASS_MAX];
	uint8_t bytes[REQUEST_BYTES_MAX];
};

void control_init(struct core *core)
{
	struct control *control = &core->control;

	list_init(&control->requests);
	list_init(&control->outgoing);
	pthread_mutex_init(&control->call_lock, NULL);
	pthread_cond_init(&control->called, NULL);
	control->retry_at_ns = UINT64_MAX;
	control->fd = core->config.control_fd;
	if (core->config.gdevd_socket)
		snprintf(control->path, sizeof control->path, "%s", core->config.gdevd_socket);
	if (control->fd < 0)
		return;
	fcntl(control->fd, F_SETFL, fcntl(control->fd, F_GETFL) | O_NONBLOCK);
	service_watch(core, control->fd);
}

static void drop_outgoing(struct control *control)
{
	struct outgoing *message, *next;

	list_for_each_safe (message, next, &control->outgoing, link) {
		fd_close_all(message->fds, message->fd_count);
		list_remove(&message->link);
		free(message);
	}
}

/* Requests that do not outlive a gdevd fail. They are answered from a list of their own: answering may
 * ask again. */
static void refuse_requests(struct core *core)
{
	struct control_request *request, *next;
	struct list gone;

	list_init(&gone);
	list_for_each_safe (request, next, &core->control.requests, link) {
		if (request->lasting)
			continue;
		list_remove(&request->link);
		list_append(&gone, &request->link);
	}
	while ((request = list_first(&gone, struct control_request, link))) {
		list_remove(&request->link);
		request->answered(core, request, -ENOTCONN, NULL, NULL, 0);
	}
}

void control_finish(struct core *core)
{
	drop_outgoing(&core->control);
	if (core->control.fd >= 0)
		close(core->control.fd);
	core->control.fd = -1;
	refuse_requests(core);
	pthread_cond_destroy(&core->control.called);
	pthread_mutex_destroy(&core->control.call_lock);
}

bool control_connected(const struct core *core)
{
	return core->control.fd >= 0;
}

/* ---- sending ---- */

/* The socket is full: gdevd is slow, or stopped. -errno: there is nothing to keep the message in. */
static int put_off(
	struct core *core, const struct control_header *header, const int *fds, size_t fd_count)
{
	struct outgoing *message = calloc(1, sizeof *message);

	if (!message)
		return -ENOMEM;
	message->length = header->length;
	memcpy(message->bytes, header, header->length);
	for (; message->fd_count < fd_count; message->fd_count++) {
		int copy = fcntl(fds[message->fd_count], F_DUPFD_CLOEXEC, 0);
		if (copy < 0) {
			int error = -errno;
			fd_close_all(message->fds, message->fd_count);
			free(message);
			return error;
		}
		message->fds[message->fd_count] = copy;
	}
	list_append(&core->control.outgoing, &message->link);
	service_rewatch(core, core->control.fd, true);
	return 0;
}

/* gdevd does not hear what the session goes on to rely on: the session ends. Where gdevd is gone the socket says so, and
 * the session goes on. */
static void check_sent(struct core *core, int error)
{
	if (error && error != -EPIPE && error != -ECONNRESET)
		core_end(core, error);
}

void control_send(struct core *core, const void *message, const int *fds, size_t fd_count)
{
	const struct control_header *header = message;
	struct control *control = &core->control;
	int error = -EAGAIN;

	if (control->fd < 0)
		return;
	if (list_empty(&control->outgoing))
		error = fd_send(control->fd, message, header->length, fds, fd_count);
	if (error == -EAGAIN)
		error = put_off(core, header, fds, fd_count);
	check_sent(core, error);
}

static void send_outgoing(struct core *core)
{
	struct control *control = &core->control;
	struct outgoing *message;

	while ((message = list_first(&control->outgoing, struct outgoing, link))) {
		int error = fd_send(control->fd, message->bytes, message->length, message->fds,
			message->fd_count);
		if (error == -EAGAIN)
			return;
		fd_close_all(message->fds, message->fd_count);
		list_remove(&message->link);
		free(message);
		check_sent(core, error);
	}
}

static uint32_t next_serial(struct control *control)
{
	if (!++control->serial)
		control->serial = 1;
	return control->serial;
}

static void ask_with(
	struct core *core, struct control_request *request, const int *fds, size_t fd_count)
{
	request->message.header.serial = next_serial(&core->control);
	list_append(&core->control.requests, &request->link);
	control_send(core, &request->message, fds, fd_count);
}

void control_ask(struct core *core, struct control_request *request)
{
	ask_with(core, request, NULL, 0);
}

void control_tell(struct core *core, const void *message, const int *fds, size_t fd_count)
{
	core_lock(core);
	control_send(core, message, fds, fd_count);
	core_unlock(core);
}

/* ---- calls of jobs ---- */

/* An owner without threads (service_step) has no other thread that would read what gdevd says: the caller reads. */
static void read_until(struct core *core, const bool *done)
{
	while (!*done) {
		struct pollfd socket = {.fd = core->control.fd, .events = POLLIN};
		poll(&socket, 1, -1);
		control_event(core, socket.fd, false);
	}
}

void control_await(struct core *core, const bool *done)
{
	struct control *control = &core->control;

	if (!core->config.threads) {
		read_until(core, done);
		return;
	}
	pthread_mutex_lock(&control->call_lock);
	while (!*done)
		pthread_cond_wait(&control->called, &control->call_lock);
	pthread_mutex_unlock(&control->call_lock);
}

void control_done(struct core *core, bool *done)
{
	pthread_mutex_lock(&core->control.call_lock);
	*done = true;
	pthread_cond_broadcast(&core->control.called);
	pthread_mutex_unlock(&core->control.call_lock);
}

struct call {
	struct control_request request;
	void *reply;
	size_t reply_bytes;
	int *fds;
	size_t fd_capacity, fd_count;
	int status;
	bool done;
};

static void call_answered(struct core *core, struct control_request *request, int status,
	const struct control_header *reply, int *fds, size_t fd_count)
{
	struct call *call = container_of(request, struct call, request);

	call->status = status;
	if (reply)
		memcpy(call->reply, reply, min_of(call->reply_bytes, (size_t)reply->length));
	for (size_t i = 0; reply && i < fd_count && i < call->fd_capacity; i++)
		call->fds[call->fd_count++] = steal_fd(&fds[i]);
	control_done(core, &call->done);
}

int control_call(struct core *core, const void *message, uint16_t expected, void *reply,
	size_t reply_bytes, int *fds, size_t *fd_count)
{
	return control_call_with(
		core, message, NULL, 0, expected, reply, reply_bytes, fds, fd_count);
}

int control_call_with(struct core *core, const void *message, const int *sent, size_t sent_count,
	uint16_t expected, void *reply, size_t reply_bytes, int *fds, size_t *fd_count)
{
	const struct control_header *header = message;
	struct call call = {
		.request = {.answered = call_answered, .expected = expected},
		.reply = reply,
		.reply_bytes = reply_bytes,
		.fds = fds,
		.fd_capacity = fd_count ? *fd_count : 0,
	};

	memcpy(&call.request.message, message, header->length);
	core_lock(core);
	if (!control_connected(core)) {
		core_unlock(core);
		return -ENOTCONN;
	}
	ask_with(core, &call.request, sent, sent_count);
	core_unlock(core);
	control_await(core, &call.done);
	if (fd_count)
		*fd_count = call.fd_count;
	return call.status;
}

/* ---- losing gdevd, and finding it again ---- */

static void control_lost(struct core *core)
{
	struct control *control = &core->control;

	close(control->fd);
	control->fd = -1;
	drop_outgoing(control);
	if (!core->attached || !control->path[0]) {
		if (!core->attached)
			core_end(core, -GDEV_E_NO_DAEMON);
	} else {
		log_warning("gdevd is gone; session %llu goes on",
			(unsigned long long)core->session.session);
		control->retry_after_ns = RETRY_FIRST_NS;
		control->retry_at_ns = clock_now_ns() + RETRY_FIRST_NS;
		service_timer(core, control->retry_at_ns);
	}
	grants_lost(core);
	events_lost(core);
	residency_lost(core);
	refuse_requests(core);
	memory_reconsider(core);
}

static int connect_again(const char *path)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

	if (fd < 0)
		return -errno;
	memcpy(address.sun_path, path, strnlen(path, sizeof address.sun_path - 1));
	if (connect(fd, (struct sockaddr *)&address, sizeof address)) {
		int error = -errno;
		close(fd);
		return error;
	}
	return fd;
}

static void register_again(struct core *core)
{
	struct control_attach message = core->session;
	struct control_request *request;
	int fds[] = {core->page_fd, core->trace.fd, core->swap.fd};
	size_t fd_count = array_length(fds) - (core->swap.fd < 0);

	message.header = (struct control_header){
		.length = sizeof message,
		.type = CONTROL_REGISTER,
		.version = CONTROL_VERSION,
	};
	message.held_bytes = core->memory.charged_bytes + context_held_bytes(core);
	memcpy(message.held_swap_bytes, core->swap.charged, sizeof message.held_swap_bytes);
	control_send(core, &message, fds, fd_count);
	list_for_each (request, &core->control.requests, link) /* those that last */
		control_send(core, &request->message, NULL, 0);
	shared_register(core);
	grants_registered(core);
	memory_reconsider(core);
}

uint64_t control_tick(struct core *core, uint64_t now_ns)
{
	struct control *control = &core->control;
	int fd;

	if (now_ns < control->retry_at_ns)
		return control->retry_at_ns;
	fd = connect_again(control->path);
	if (fd >= 0) {
		log_info("session %llu registers with a new gdevd",
			(unsigned long long)core->session.session);
		control->retry_at_ns = UINT64_MAX;
		control->fd = fd;
		service_watch(core, fd);
		register_again(core);
		return UINT64_MAX;
	}
	control->retry_after_ns = min_of(2 * control->retry_after_ns, RETRY_MOST_NS);
	control->retry_at_ns = now_ns + control->retry_after_ns;
	return control->retry_at_ns;
}

/* ---- receiving ---- */

static void attach_client(
	struct core *core, const struct control_attach *message, int *fds, size_t fd_count)
{
	struct control_header answer = {
		.length = sizeof answer,
		.type = CONTROL_ATTACHED,
		.version = CONTROL_VERSION,
		.serial = message->header.serial,
		.status = -EINVAL,
	};

	if (fd_count == 1 || fd_count == 2)
		answer.status = core_attach(core, message, fds[0], fd_count == 2 ? fds[1] : -1);
	if (!answer.status)
		steal_fd(&fds[0]);
	control_send(core, &answer, NULL, 0);
}

/* The answer to a request: 0, or -EPROTO when it answers nothing that was asked. */
static int answer_arrived(
	struct core *core, const struct control_header *reply, int *fds, size_t fd_count)
{
	struct control_request *request;

	list_for_each (request, &core->control.requests, link) {
		if (request->message.header.serial != reply->serial)
			continue;
		if (request->expected != reply->type)
			return -EPROTO;
		list_remove(&request->link);
		if (reply->status < 0) /* an error brings no descriptors */
			fd_count = 0;
		request->answered(core, request, reply->status, reply, fds, fd_count);
		return 0;
	}
	return 0; /* nobody waits for it any more */
}

static bool is_of_resource(const struct control_header *header)
{
	return header->type == CONTROL_PREPARE || header->type == CONTROL_GRANT ||
	       header->type == CONTROL_REVOKE;
}

static int dispatch_message(
	struct core *core, const struct control_header *header, int *fds, size_t fd_count)
{
	const struct control_grant *grant = (const void *)header;

	if (is_of_resource(header) && grant->resource >= RESOURCES)
		return -EPROTO;
	switch (header->type) {
	case CONTROL_ATTACH:
		attach_client(core, (const void *)header, fds, fd_count);
		return 0;
	case CONTROL_MOVE:
		move_session(core, (const void *)header, fd_count ? fds[0] : -1);
		return 0;
	case CONTROL_PREPARE:
		if (!core->service.few_processors)
			core->control.awake_until_ns =
				clock_now_ns() + min_of(grant->quantum_ns, LOOK_NS_MAX);
		turn_announced(core, grant->resource, (uint32_t)grant->turn);
		return 0;
	case CONTROL_GRANT:
		core->control.awake_until_ns = 0;
		grant_given(core, grant->resource);
		return 0;
	case CONTROL_REVOKE:
		grant_obey_word(core, grant->resource);
		return 0;
	case CONTROL_EVICT:
		if (fd_count)
			swap_take_file(core, &fds[0]);
		residency_evict(core, (const void *)header);
		return 0;
	case CONTROL_SHM:
		shared_ordered(core, (const void *)header, fds, fd_count);
		return 0;
	case CONTROL_MEMORY:
		memory_tell_free(core);
		return 0;
	case CONTROL_EVENT_WATCH:
		event_watch(core, (const void *)header);
		return 0;
	case CONTROL_BYE:
		core_end(core, 0);
		return 0;
	case CONTROL_CHARGED:
	case CONTROL_MEMORY_REPLY:
	case CONTROL_SHM_REPLY:
	case CONTROL_CACHE_REPLY:
	case CONTROL_EVENT_DONE:
		return answer_arrived(core, header, fds, fd_count);
	default:
		return -EPROTO;
	}
}

/* 1: a message was there; 0: none is; -errno: the connection is over. */
static int receive_one(struct core *core)
{
	union {
		_Alignas(8) struct control_header header;
		uint8_t bytes[1024]; /* no message to a worker is longer */
	} message;
	int fds[FD_PASS_MAX], error;
	size_t fd_count = array_length(fds);
	ssize_t length;

	length = fd_receive(core->control.fd, &message, sizeof message, fds, &fd_count);
	if (length == -EAGAIN)
		return 0;
	if (length <= 0)
		return length ? (int)length : -ECONNRESET;
	error = control_check(&message, (size_t)length);
	if (!error)
		error = dispatch_message(core, &message.header, fds, fd_count);
	fd_close_all(fds, fd_count);
	return error ? error : 1;
}

void control_event(struct core *core, int fd, bool writable)
{
	int status;

	core_lock(core);
	if (fd != core->control.fd) { /* of a gdevd that is gone */
		core_unlock(core);
		return;
	}
	if (writable)
		send_outgoing(core);
	for (;;) {
		do
			status = receive_one(core);
		while (status > 0 && !core->ended);
		if (status || core->ended || clock_now_ns() >= core->control.awake_until_ns)
			break;
		core_unlock(core); /* nobody else reads the socket: it is watched again below */
		for (int i = 0; i < 20 && !turns_are_there(core); i++)
			cpu_relax();
		core_lock(core);
		if (fd != core->control.fd)
			break;
		if (turns_take(core))
			break;
	}
	core->control.awake_until_ns = 0;
	if (status < 0)
		control_lost(core);
	else if (!core->ended && fd == core->control.fd)
		service_rewatch(core, fd, !list_empty(&core->control.outgoing));
	core_unlock(core);
}

int control_ready(struct core *core)
{
	struct control_ready message = {
		.header = {sizeof message, CONTROL_READY, CONTROL_VERSION, 0, 0},
		.staging_bytes = core->config.staging_bytes,
		.overhead_bytes = core->context.bytes,
		.memory_bytes = core->device_info.memory_bytes,
		.timing = core->ops->timing,
		.traits = (core->ops->pause && !core->ops->preempt ? DEVICE_PAUSES : 0) |
			  (core->ops->chunk_host_fd ? DEVICE_CLIENTS_COPY : 0) |
			  (core->ops->is_host_memory ? DEVICE_HOST_MEMORY : 0),
		.peers = core->device_info.peers,
	};
	int fds[] = {core->segment_fd, core->staging_fd, core->wake_fd, core->client_fd,
		core->page_fd, core->trace.fd};

	memcpy(message.device_name, core->device_info.name, sizeof message.device_name);
	memcpy(message.device_uuid, core->device_info.uuid, sizeof message.device_uuid);
	memcpy(message.properties, core->device_info.properties, sizeof message.properties);
	return fd_send(core->control.fd, &message, sizeof message, fds, array_length(fds));
}
