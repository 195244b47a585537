/* SPDX-License-Identifier: MIT
 *
 * Opening a session with a gdevd of this machine: finding its socket of the virtual GPU, reserving an arena at an address
 * that is free in this process, and asking for a worker. When the arena is not free in the worker, another base is
 * tried (proto/control.h).
 */
#include <dirent.h>
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>

#include "base/clock.h"
#include "base/fd.h"
#include "base/log.h"
#include "base/paths.h"
#include "lib/libgdev/connect.h"
#include "lib/libgdev/internal.h"
#include "proto/check.h"
#include "proto/control.h"

#define WELCOME_FDS 5
#define WELCOME_FDS_MAX 6 /* and the trace segment */
#define RESTART_WAIT_NS (2 * NS_PER_S)
#define RESTART_PAUSE_NS (20 * NS_PER_MS)

/* ---- the socket ---- */

static int socket_path(const char *directory, const char *name, char path[PATHS_SOCKET_MAX])
{
	int length = snprintf(path, PATHS_SOCKET_MAX, "%s/%s.sock", directory, name);

	return length < PATHS_SOCKET_MAX ? 0 : -ENAMETOOLONG;
}

static bool shm_serves(const char *name)
{
	char directory[PATHS_MAX], path[PATHS_SOCKET_MAX];

	for (unsigned i = 0; paths_client_dir(i, directory) == 0; i++)
		if (!socket_path(directory, name, path) && !access(path, F_OK))
			return true;
	return false;
}

static void hang_up(struct opening *opening)
{
	if (opening->socket >= 0)
		close(steal_fd(&opening->socket));
}

/* 0: opening->socket is connected. */
static int connect_in(struct opening *opening, const char *directory, const char *name)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	char path[PATHS_SOCKET_MAX];
	int error = socket_path(directory, name, path);

	if (error)
		return error;
	memcpy(address.sun_path, path, sizeof path);
	opening->socket = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
	if (opening->socket < 0)
		return -errno;
	registry_leave();
	error = connect(opening->socket, (struct sockaddr *)&address, sizeof address) ? -errno : 0;
	registry_enter();
	if (error)
		hang_up(opening);
	return error;
}

/* 0, or why there is no connection. *restarting: a gdevd was killed there and has left its socket. */
static int try_vgpu(struct opening *opening, bool *restarting)
{
	char directory[PATHS_MAX];
	int result = -GDEV_E_NO_DAEMON;

	for (unsigned i = 0; paths_client_dir(i, directory) == 0; i++) {
		int error = connect_in(opening, directory, opening->vgpu);

		if ((error == -ENOENT || error == -ECONNREFUSED) &&
			!connect_in(opening, directory, "control")) {
			hang_up(opening);
			/* gdevd makes this socket last: the other may have come meanwhile. */
			error = connect_in(opening, directory, opening->vgpu);
			result = -ENODEV;
		}
		if (!error || error == -EACCES)
			return error;
		*restarting |= error == -ECONNREFUSED;
		if (error != -ECONNREFUSED && error != -ENOENT)
			result = error;
	}
	return result;
}

/* How long an open waits for the next gdevd where one was killed or stopped, in all. */
struct patience {
	bool restarting;
	unsigned pauses;
};

static bool wait_for_restart(struct patience *patience)
{
	static const struct timespec pause = {.tv_nsec = RESTART_PAUSE_NS};

	if (!patience->restarting || patience->pauses++ >= RESTART_WAIT_NS / RESTART_PAUSE_NS)
		return false;
	registry_leave();
	nanosleep(&pause, NULL);
	registry_enter();
	return true;
}

static int connect_vgpu(struct opening *opening, struct patience *patience)
{
	int result;

	do
		result = try_vgpu(opening, &patience->restarting);
	while ((result == -GDEV_E_NO_DAEMON || result == -ENODEV) && wait_for_restart(patience));
	return result;
}

/* ---- the arena ---- */

/* Sizes to try: all that is wanted, and less where the process may not have that much address space. */
static const uint64_t arena_sizes[] = {
	ARENA_DEFAULT_BYTES, ARENA_DEFAULT_BYTES / 8, ARENA_DEFAULT_BYTES / 64};

/* Reserves at the attempt-th base or after it; *attempt is where to go on. */
static int reserve_arena(unsigned *attempt, uint64_t *base, uint64_t *bytes)
{
	for (; *attempt < ARENA_BASES; ++*attempt) {
		uint64_t candidate = ARENA_DEFAULT_BASE + *attempt * ARENA_DEFAULT_BYTES;
		for (size_t i = 0; i < array_length(arena_sizes); i++) {
			if (!arena_reserve(candidate, arena_sizes[i]))
				continue;
			*base = candidate;
			*bytes = arena_sizes[i];
			++*attempt;
			return 0;
		}
	}
	registry_leave(); /* writing may wait */
	log_error(
		"no addresses for a session can be reserved: 'gdev doctor' says what the limits are");
	registry_enter();
	return -ENOMEM;
}

/* ---- hello ---- */

/* What REFUSED says is for people: it goes to the log. */
static int refusal(const char *vgpu, const struct control_refused *refused)
{
	if (refused->header.status == -ESHUTDOWN) /* the next gdevd may take it */
		return -GDEV_E_NO_DAEMON;
	if (refused->header.status != -EADDRINUSE) {
		registry_leave(); /* writing may wait */
		log_error("virtual GPU %s: %.*s", vgpu, CONTROL_TEXT_MAX, refused->text);
		registry_enter();
	}
	return refused->header.status < 0 ? refused->header.status : -GDEV_E_PROTOCOL;
}

static bool has_its_fds(const struct control_welcome *welcome, size_t count)
{
	return count == WELCOME_FDS + ((welcome->features & FEATURE_TRACE) != 0);
}

/* The token that gdev trace has given to the programs that it starts. */
static uint64_t trace_token(void)
{
	const char *token = getenv("GDEV_TRACE");

	return token ? strtoull(token, NULL, 16) : 0;
}

union answer {
	struct control_header header;
	struct control_welcome welcome;
	struct control_description description;
	struct control_refused refused;
};

static int await_readable(int socket)
{
	struct pollfd poll_fd = {.fd = socket, .events = POLLIN};
	int ready;

	do
		ready = poll(&poll_fd, 1, -1);
	while (ready < 0 && errno == EINTR);
	return ready < 0 ? -errno : 0;
}

/* Sends a request and waits until there is an answer, or the end of the connection. -GDEV_E_NO_DAEMON: gdevd is gone. */
static int send_request(struct opening *opening, const void *request, size_t length)
{
	int error;

	registry_leave();
	error = fd_send(opening->socket, request, length, NULL, 0);
	if (!error)
		error = await_readable(opening->socket);
	registry_enter();
	return error == -EPIPE || error == -ECONNRESET ? -GDEV_E_NO_DAEMON : error;
}

/* Receives an answer of that type, which is there, or why there is none. *count: capacity in, how many descriptors
 * came out. */
static int receive_answer(
	struct opening *opening, uint16_t type, union answer *answer, int *fds, size_t *count)
{
	ssize_t length = fd_receive(opening->socket, answer, sizeof *answer, fds, count);
	bool refused = false;

	if (length == 0 || length == -ECONNRESET)
		return -GDEV_E_NO_DAEMON;
	if (length < 0)
		return (int)length;
	if (control_check(answer, (size_t)length) == 0) {
		if (answer->header.type == type)
			return 0;
		refused = answer->header.type == CONTROL_REFUSED;
	}
	fd_close_all(fds, *count);
	return refused ? refusal(opening->vgpu, &answer->refused) : -GDEV_E_PROTOCOL;
}

static int receive_welcome(
	struct opening *opening, struct control_welcome *welcome, int fds[WELCOME_FDS_MAX])
{
	union answer answer;
	size_t count = WELCOME_FDS_MAX;
	int error = receive_answer(opening, CONTROL_WELCOME, &answer, fds, &count);

	if (error)
		return error;
	if (has_its_fds(&answer.welcome, count)) {
		*welcome = answer.welcome;
		return 0;
	}
	fd_close_all(fds, count);
	return -GDEV_E_PROTOCOL;
}

/* What `gdev run --preempt` has said. */
static uint64_t preempt_feature(void)
{
	const char *mode = getenv("GDEV_PREEMPT");

	if (mode && !strcmp(mode, "loops"))
		return FEATURE_PREEMPT | FEATURE_LOOPS;
	return mode && !strcmp(mode, "blocks") ? FEATURE_PREEMPT : 0;
}

static int say_hello(struct opening *opening, uint64_t base, uint64_t bytes)
{
	struct control_hello hello = {
		.header = {.length = sizeof hello, .type = CONTROL_HELLO, .serial = 1},
		.version_min = SESSION_VERSION_MIN,
		.version_max = SESSION_VERSION_MAX,
		.features = FEATURE_DEVICE_MAP | FEATURE_TUNING | FEATURE_TRACE | preempt_feature(),
		.arena_base = base,
		.arena_bytes = bytes,
		.trace = trace_token(),
	};

	return send_request(opening, &hello, sizeof hello);
}

static void copy_names(struct gdev_description *description, const char vgpu[CONTROL_NAME_MAX],
	const char device[64], const uint8_t uuid[16])
{
	snprintf(description->vgpu, sizeof description->vgpu, "%.*s", CONTROL_NAME_MAX - 1, vgpu);
	snprintf(description->device_name, sizeof description->device_name, "%.63s", device);
	memcpy(description->device_uuid, uuid, sizeof description->device_uuid);
}

/* One attempt with one arena, which stays reserved only on success. */
static int open_with(struct opening *opening, uint64_t base, uint64_t bytes,
	struct gdev_description *description, struct terms *terms, struct transport **transport)
{
	struct control_welcome welcome;
	struct shm_connection connection;
	int fds[WELCOME_FDS_MAX] = {-1, -1, -1, -1, -1, -1};
	int error = say_hello(opening, base, bytes);

	if (!error)
		error = receive_welcome(opening, &welcome, fds);
	if (error)
		return error;
	connection = (struct shm_connection){
		steal_fd(&opening->socket), fds[0], fds[1], fds[2], fds[3], fds[4]};
	if (welcome.version > SESSION_VERSION_MAX || !welcome.staging_bytes ||
		welcome.staging_bytes % ARENA_ALIGN || welcome.staging_bytes >= bytes)
		error = -GDEV_E_PROTOCOL;
	else
		error = transport_shm_create(&connection, base, welcome.staging_bytes, transport);
	if (error) {
		fd_close_all(&connection.control, 1);
		fd_close_all(fds, WELCOME_FDS_MAX);
		return error;
	}
	*description = (struct gdev_description){
		.memory_bytes = welcome.memory_bytes,
		.session = welcome.session,
		.arena_base = base,
		.arena_bytes = bytes,
		.peers = welcome.peers,
	};
	copy_names(description, welcome.vgpu, welcome.device_name, welcome.device_uuid);
	*terms = (struct terms){
		.staging_bytes = welcome.staging_bytes,
		.inline_bytes = welcome.inline_bytes,
		.chunk_bytes = welcome.chunk_bytes,
		.copy_threads = welcome.copy_threads,
		.trace_fd = fds[WELCOME_FDS],
	};
	return 0;
}

static int shm_open_session(struct opening *opening, struct gdev_description *description,
	struct terms *terms, struct transport **transport)
{
	struct patience patience = {0};
	unsigned attempt = 0;
	uint64_t base, bytes;
	int error;

	do {
		error = connect_vgpu(opening, &patience);
		if (error)
			return error;
		error = reserve_arena(&attempt, &base, &bytes);
		if (!error) {
			error = open_with(opening, base, bytes, description, terms, transport);
			if (error)
				munmap((void *)base, bytes);
		}
		hang_up(opening);
		/* gdevd was there, and is gone: what it tried is as good in the next one's workers. */
		patience.restarting = error == -GDEV_E_NO_DAEMON;
		if (patience.restarting)
			attempt = 0;
	} while (error == -EADDRINUSE ||
		 (error == -GDEV_E_NO_DAEMON && wait_for_restart(&patience)));
	return error;
}

static int describe_with(struct opening *opening, struct control_description *description)
{
	const struct control_header request = {
		sizeof request, CONTROL_DESCRIBE, CONTROL_VERSION, 1, 0};
	union answer answer;
	size_t none = 0;
	int error = send_request(opening, &request, sizeof request);

	if (!error)
		error = receive_answer(opening, CONTROL_DESCRIPTION, &answer, NULL, &none);
	if (!error)
		*description = answer.description;
	return error;
}

static int shm_describe(struct opening *opening, struct gdev_description *description,
	int32_t properties[DEVICE_PROPERTIES])
{
	struct control_description got;
	struct patience patience = {0};
	int error;

	do {
		error = connect_vgpu(opening, &patience);
		if (error)
			return error;
		error = describe_with(opening, &got);
		hang_up(opening);
		patience.restarting = error == -GDEV_E_NO_DAEMON;
	} while (patience.restarting && wait_for_restart(&patience));
	if (error)
		return error;
	*description =
		(struct gdev_description){.memory_bytes = got.memory_bytes, .peers = got.peers};
	copy_names(description, got.vgpu, got.device_name, got.device_uuid);
	memcpy(properties, got.properties, sizeof got.properties);
	return 0;
}

const struct connector connector_shm = {
	.name = "shm",
	.serves = shm_serves,
	.open = shm_open_session,
	.describe = shm_describe,
};
