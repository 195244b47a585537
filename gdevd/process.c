/* SPDX-License-Identifier: MIT
 *
 * See process.h.
 */
#include "gdevd/process.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/cleanup.h"

#define NODES_MAX 64
#ifndef SO_PEERPIDFD
#define SO_PEERPIDFD 77
#endif

enum { FIELD_STARTED = 22, FIELD_PROCESSOR = 39 }; /* proc_pid_stat(5) */

static bool read_field(pid_t pid, unsigned wanted, uint64_t *value)
{
	char path[32], text[1024];
	autoclose int fd = -1;
	const char *at;
	ssize_t length;

	snprintf(path, sizeof path, "/proc/%d/stat", (int)pid);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	length = fd < 0 ? -1 : read(fd, text, sizeof text - 1);
	if (length <= 0)
		return false;
	text[length] = '\0';
	at = strrchr(text, ')'); /* the name, the second field, may have anything in it */
	for (unsigned field = 2; at && field < wanted; field++)
		at = strchr(at + 1, ' ');
	if (at)
		*value = strtoull(at, NULL, 10);
	return at;
}

uint64_t process_started(pid_t pid)
{
	uint64_t started;

	return read_field(pid, FIELD_STARTED, &started) ? started : 0;
}

int process_kill(pid_t pid, uint64_t started)
{
	autoclose int process = (int)syscall(SYS_pidfd_open, pid, 0);

	if (process < 0)
		return -errno;
	if (process_started(pid) != started) /* looked at while its descriptor is held */
		return -ESRCH;
	return syscall(SYS_pidfd_send_signal, process, SIGKILL, NULL, 0) ? -errno : 0;
}

static bool has_descriptor(int socket)
{
	autoclose int copy = fcntl(socket, F_DUPFD_CLOEXEC, 0);

	return copy >= 0;
}

int process_peer_ended(int socket)
{
	struct pollfd process = {.fd = -1, .events = POLLIN};
	socklen_t length = sizeof process.fd;
	int ended;

	if (getsockopt(socket, SOL_SOCKET, SO_PEERPIDFD, &process.fd, &length)) {
		if (errno == ENOPROTOOPT)
			return has_descriptor(socket) ? 0 : -EAGAIN;
		return errno == ESRCH || errno == EINVAL || errno == ENODATA ? 1 : -EAGAIN;
	}
	ended = poll(&process, 1, 0);
	close(process.fd);
	return ended < 0 ? -EAGAIN : ended;
}

uint64_t process_started_of_peer(int socket, pid_t pid)
{
	uint64_t started = process_started(pid);

	return process_peer_ended(socket) ? 0 : started; /* it had perhaps ended before we looked */
}

int process_spawn(pid_t *pid, char *const arguments[], char *const environment[],
	posix_spawn_file_actions_t *files)
{
	posix_spawnattr_t attributes;
	sigset_t signals;
	int error;

	posix_spawnattr_init(&attributes);
	posix_spawnattr_setflags(
		&attributes, POSIX_SPAWN_SETSID | POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
	sigemptyset(&signals);
	posix_spawnattr_setsigmask(&attributes, &signals);
	sigfillset(&signals);
	posix_spawnattr_setsigdefault(&attributes, &signals);
	error = -posix_spawn(pid, arguments[0], files, &attributes, arguments, environment);
	posix_spawnattr_destroy(&attributes);
	posix_spawn_file_actions_destroy(files);
	return error;
}

int process_node(pid_t pid)
{
	uint64_t processor;
	char path[64];

	if (!read_field(pid, FIELD_PROCESSOR, &processor))
		return -1;
	for (int node = 0; node < NODES_MAX; node++) {
		snprintf(path, sizeof path, "/sys/devices/system/cpu/cpu%llu/node%d",
			(unsigned long long)processor, node);
		if (!access(path, F_OK))
			return node;
	}
	return -1;
}

void process_groups_of_peer(int socket, struct groups *groups)
{
	gid_t few[GROUPS_MAX], *ids = few;
	socklen_t length = sizeof few;
	int error = getsockopt(socket, SOL_SOCKET, SO_PEERGROUPS, ids, &length);
	autofree gid_t *many = NULL;

	if (error && errno == ERANGE && (many = malloc(length))) { /* it says how many there are */
		ids = many;
		error = getsockopt(socket, SOL_SOCKET, SO_PEERGROUPS, ids, &length);
	}
	groups->count = error ? 0 : min_of((uint32_t)(length / sizeof *ids), (uint32_t)GROUPS_MAX);
	memcpy(groups->ids, ids, groups->count * sizeof *ids);
}
