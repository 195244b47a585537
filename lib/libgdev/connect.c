/* SPDX-License-Identifier: MIT
 *
 * Opening a session: finding gdevd's socket of the virtual GPU, reserving an arena at an address that is
 * free in this process, and asking for a worker. When the arena is not free in the worker, another base is
 * tried (proto/control.h).
 */
#include <dirent.h>
#include <errno.h>
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
#include "lib/libgdev/internal.h"
#include "proto/check.h"
#include "proto/control.h"

#define WELCOME_FDS 5
#define WELCOME_FDS_MAX 6 /* and the trace segment */
#define RESTART_WAIT_NS (2 * NS_PER_S)

/* ---- the virtual GPUs that this process sees ---- */

/* The index-th name of the list in $GDEV_VGPU. */
static int listed_name(const char *list, int index, char name[GDEV_NAME_MAX])
{
	for (; *list; index--) {
		size_t length = strcspn(list, ",");
		if (index == 0) {
			if (!length || length >= GDEV_NAME_MAX)
				return -EINVAL;
			memcpy(name, list, length);
			name[length] = '\0';
			return 0;
		}
		list += length + (list[length] == ',');
	}
	return -ENODEV;
}

static int socket_path(const char *directory, const char *name, char path[PATHS_SOCKET_MAX])
{
	int length = snprintf(path, PATHS_SOCKET_MAX, "%s/%s.sock", directory, name);

	return length < PATHS_SOCKET_MAX ? 0 : -ENAMETOOLONG;
}

static bool socket_exists(const char *name)
{
	char directory[PATHS_MAX], path[PATHS_SOCKET_MAX];

	for (unsigned i = 0; paths_client_dir(i, directory) == 0; i++)
		if (!socket_path(directory, name, path) && !access(path, F_OK))
			return true;
	return false;
}

int gdev_vgpu_name(int index, char name[GDEV_NAME_MAX])
{
	const char *list = getenv("GDEV_VGPU");
	char numbered[GDEV_NAME_MAX];

	if (index < 0)
		return -ENODEV;
	if (list && *list)
		return listed_name(list, index, name);
	snprintf(numbered, sizeof numbered, "gdev%d", index);
	/* The first one is worth an error message that says what is wrong with it. */
	if (index > 0 && !socket_exists(numbered))
		return -ENODEV;
	memcpy(name, numbered, sizeof numbered);
	return 0;
}

int gdev_vgpu_count(void)
{
	const char *list = getenv("GDEV_VGPU");
	char name[GDEV_NAME_MAX];
	int count = 0;

	if (!(list && *list) && !socket_exists("gdev0"))
		return 0;
	while (gdev_vgpu_name(count, name) == 0)
		count++;
	return count;
}

/* ---- the socket ---- */

static bool name_is_valid(const char *name)
{
	size_t length = strspn(name, "abcdefghijklmnopqrstuvwxyz0123456789_-");

	return length && length < CONTROL_NAME_MAX && !name[length] && name[0] >= 'a' &&
	       name[0] <= 'z';
}

static int connect_in(const char *directory, const char *name)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	char path[PATHS_SOCKET_MAX];
	int fd, error = socket_path(directory, name, path);

	if (error)
		return error;
	memcpy(address.sun_path, path, sizeof path);
	fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
	if (fd < 0)
		return -errno;
	if (connect(fd, (struct sockaddr *)&address, sizeof address)) {
		error = -errno;
		close(fd);
		return error;
	}
	return fd;
}

/* A connected socket, or why there is none. *restarting: a gdevd was killed there and has left its socket. */
static int try_vgpu(const char *name, bool *restarting)
{
	char directory[PATHS_MAX];
	int result = -GDEV_E_NO_DAEMON;

	*restarting = false;

	if (!name_is_valid(name))
		return -EINVAL;
	for (unsigned i = 0; paths_client_dir(i, directory) == 0; i++) {
		int fd = connect_in(directory, name);
		if (fd >= 0 || fd == -EACCES)
			return fd;
		if (fd == -ECONNREFUSED)
			*restarting = true;
		else if (fd != -ENOENT)
			result = fd;
		fd = connect_in(directory, "control");
		if (fd >= 0) { /* somebody is there, and has no virtual GPU of that name */
			close(fd);
			result = -ENODEV;
		}
	}
	return result;
}

/* Where a gdevd has been killed, the next one is about to start. */
static int connect_vgpu(const char *name)
{
	static const struct timespec pause = {.tv_nsec = 20 * NS_PER_MS};
	uint64_t give_up_ns = clock_now_ns() + RESTART_WAIT_NS;
	bool restarting;
	int result;

	while ((result = try_vgpu(name, &restarting)) == -GDEV_E_NO_DAEMON && restarting &&
		clock_now_ns() < give_up_ns)
		nanosleep(&pause, NULL);
	return result;
}

/* ---- the arena ---- */

/* Sizes to try: all that is wanted, and less where the process may not have that much address space. */
static const uint64_t arena_sizes[] = {
	ARENA_DEFAULT_BYTES, ARENA_DEFAULT_BYTES / 8, ARENA_DEFAULT_BYTES / 64};

static bool reserve_at(uint64_t base, uint64_t bytes)
{
	void *got = mmap((void *)base, bytes, PROT_NONE,
		MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED_NOREPLACE, -1, 0);

	if (got == (void *)base) {
		madvise(got, bytes, MADV_DONTFORK);
		return true;
	}
	if (got != MAP_FAILED) /* a kernel that does not know MAP_FIXED_NOREPLACE */
		munmap(got, bytes);
	return false;
}

/* Reserves at the attempt-th base or after it; *attempt is where to go on. */
static int reserve_arena(unsigned *attempt, uint64_t *base, uint64_t *bytes)
{
	for (; *attempt < ARENA_BASES; ++*attempt) {
		uint64_t candidate = ARENA_DEFAULT_BASE + *attempt * ARENA_DEFAULT_BYTES;
		for (size_t i = 0; i < array_length(arena_sizes); i++) {
			if (!reserve_at(candidate, arena_sizes[i]))
				continue;
			*base = candidate;
			*bytes = arena_sizes[i];
			++*attempt;
			return 0;
		}
	}
	log_error(
		"no addresses for a session can be reserved: 'gdev doctor' says what the limits are");
	return -ENOMEM;
}

/* ---- hello ---- */

/* What REFUSED says is for people: it goes to the log. */
static int refusal(const char *vgpu, const struct control_refused *refused)
{
	if (refused->header.status != -EADDRINUSE)
		log_error("virtual GPU %s: %.*s", vgpu, CONTROL_TEXT_MAX, refused->text);
	return refused->header.status < 0 ? refused->header.status : -GDEV_E_PROTOCOL;
}

static bool has_its_fds(const struct control_welcome *welcome, size_t count)
{
	return count == WELCOME_FDS + ((welcome->features & FEATURE_TRACE) != 0);
}

/* What gdev trace has given to the programs that it starts. */
static uint64_t trace_token(void)
{
	const char *token = getenv("GDEV_TRACE");

	return token ? strtoull(token, NULL, 16) : 0;
}

static int receive_welcome(
	int socket, const char *vgpu, struct control_welcome *welcome, int fds[WELCOME_FDS_MAX])
{
	union {
		struct control_header header;
		struct control_welcome welcome;
		struct control_refused refused;
	} answer;
	size_t count = WELCOME_FDS_MAX;
	ssize_t length = fd_receive(socket, &answer, sizeof answer, fds, &count);

	if (length == 0)
		return -GDEV_E_NO_DAEMON;
	if (length < 0)
		return length == -ECONNRESET ? -GDEV_E_NO_DAEMON : (int)length;
	if (control_check(&answer, (size_t)length) == 0) {
		if (answer.header.type == CONTROL_WELCOME && has_its_fds(&answer.welcome, count)) {
			*welcome = answer.welcome;
			return 0;
		}
		if (answer.header.type == CONTROL_REFUSED) {
			fd_close_all(fds, count);
			return refusal(vgpu, &answer.refused);
		}
	}
	fd_close_all(fds, count);
	return -GDEV_E_PROTOCOL;
}

static int say_hello(int socket, uint64_t base, uint64_t bytes)
{
	struct control_hello hello = {
		.header = {.length = sizeof hello, .type = CONTROL_HELLO, .serial = 1},
		.version_min = SESSION_VERSION_MIN,
		.version_max = SESSION_VERSION_MAX,
		.features = FEATURE_DEVICE_MAP | FEATURE_TUNING | FEATURE_TRACE,
		.arena_base = base,
		.arena_bytes = bytes,
		.trace = trace_token(),
	};

	return fd_send(socket, &hello, sizeof hello, NULL, 0);
}

static void describe(struct gdev_description *description, const struct control_welcome *welcome,
	uint64_t base, uint64_t bytes)
{
	*description = (struct gdev_description){
		.memory_bytes = welcome->memory_bytes,
		.session = welcome->session,
		.arena_base = base,
		.arena_bytes = bytes,
	};
	snprintf(description->vgpu, sizeof description->vgpu, "%.*s", CONTROL_NAME_MAX - 1,
		welcome->vgpu);
	snprintf(description->device_name, sizeof description->device_name, "%.63s",
		welcome->device_name);
	memcpy(description->device_uuid, welcome->device_uuid, sizeof description->device_uuid);
}

/* One attempt with one arena, which stays reserved only on success. */
static int open_with(int *socket, const char *vgpu, uint64_t base, uint64_t bytes,
	struct gdev_description *description, struct terms *terms, struct transport **transport)
{
	struct control_welcome welcome;
	struct shm_connection connection;
	int fds[WELCOME_FDS_MAX] = {-1, -1, -1, -1, -1, -1};
	int error = say_hello(*socket, base, bytes);

	if (!error)
		error = receive_welcome(*socket, vgpu, &welcome, fds);
	if (error)
		return error;
	connection =
		(struct shm_connection){steal_fd(socket), fds[0], fds[1], fds[2], fds[3], fds[4]};
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
	describe(description, &welcome, base, bytes);
	*terms = (struct terms){
		.staging_bytes = welcome.staging_bytes,
		.inline_bytes = welcome.inline_bytes,
		.chunk_bytes = welcome.chunk_bytes,
		.copy_threads = welcome.copy_threads,
		.trace_fd = fds[WELCOME_FDS],
	};
	return 0;
}

int connect_open(const char *vgpu, struct gdev_description *description, struct terms *terms,
	struct transport **transport)
{
	unsigned attempt = 0;
	uint64_t base, bytes;
	int error;

	do {
		int socket = connect_vgpu(vgpu);
		if (socket < 0)
			return socket;
		error = reserve_arena(&attempt, &base, &bytes);
		if (!error) {
			error = open_with(
				&socket, vgpu, base, bytes, description, terms, transport);
			if (error)
				munmap((void *)base, bytes);
		}
		if (socket >= 0)
			close(socket);
	} while (error == -EADDRINUSE);
	return error;
}
