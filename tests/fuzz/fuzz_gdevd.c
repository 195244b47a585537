/* SPDX-License-Identifier: MIT
 *
 * gdevd's side of every control socket: a client, an administrator, a worker that starts and one that
 * registers again say what the input says, in its order, with and without descriptors. Whatever they
 * say, when they have gone nothing of them may be left: no session, no worker, no byte charged.
 *
 * Input: packets of a byte that says who speaks (low two bits) and which descriptors go with it (the next
 * two), a byte for the type, and two for the length of the bytes that follow. The header is made
 * right, so that the handlers are reached and not only control_check().
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/fd.h"
#include "base/log.h"
#include "gdevd/daemon.h"
#include "proto/session.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t length);

#define FIRST_ID 1000
#define VGPU "gdev0"

enum { CLIENT, ADMIN, STARTING, REGISTERING, SPEAKERS };

static struct daemon gdevd;
static bool ready, changed;
static int ready_fds[WORKER_FDS + 1]; /* the last is a worker page */

static void require(bool condition, const char *what)
{
	if (condition)
		return;
	fprintf(stderr, "left behind: %s\n", what);
	abort();
}

/* A process of its own removes the directory when this one has ended, however it does. */
static void make_directory(void)
{
	int ends[2];
	pid_t remover;
	char byte;

	strcpy(gdevd.runtime_dir,
		"/dev/shm/fuzz-gdevd-XXXXXX"); /* in memory: what is made is written down */
	if (!mkdtemp(gdevd.runtime_dir) || pipe2(ends, O_CLOEXEC))
		abort();
	remover = fork();
	if (remover < 0)
		abort();
	if (remover) {
		close(ends[0]); /* the other one is open as long as this process lives */
		return;
	}
	setsid();
	close(ends[1]);
	while (read(ends[0], &byte, 1) < 0 && errno == EINTR)
		;
	execlp("rm", "rm", "-rf", gdevd.runtime_dir, NULL);
	_exit(1);
}

/* Virtual GPUs and settings as at the start, whatever administrators did. */
static void restore(void)
{
	struct vgpu *vgpu, *after;
	struct config_vgpu *config;
	struct config_setting *setting, *next;
	char text[CONFIG_ERROR_MAX];

	list_for_each_safe (vgpu, after, &gdevd.vgpus, link)
		if (vgpu_delete(vgpu, true, text))
			abort();
	list_for_each_safe (setting, next, &gdevd.config.settings, link) {
		list_remove(&setting->link);
		free(setting);
	}
	config_set(&gdevd.config, "policy", "fair", text);
	config_set(&gdevd.config, "quantum", "5ms", text);
	if (config_vgpu_create(VGPU, &config, text) ||
		config_set_vgpu(config, "memory", "4G", text) || vgpu_create(&gdevd, config, text))
		abort();
	changed = false;
}

/* Nothing is started: there is nobody to retire, and nothing to try again. */
static void nothing(struct deadline *deadline, uint64_t now_ns)
{
}

static void setup(void)
{
	log_init("fuzz", LOG_LEVEL_ERROR);
	daemon_init(&gdevd);
	list_init(&gdevd.restored.link);
	deadline_init(&gdevd.workers.retire, nothing);
	deadline_init(&gdevd.workers.retry, nothing); /* 100 ms after the third input */
	config_finish_defaults(&gdevd.config);
	gdevd.config.warm_workers = 0; /* nothing is started: starting_max is 0 */
	gdevd.ids = memfd_create("ids", MFD_CLOEXEC);
	grants_init(&gdevd);
	measure_init(&gdevd);
	make_directory();
	snprintf(gdevd.made_path, sizeof gdevd.made_path, "%s/vgpus.conf", gdevd.runtime_dir);
	vgpus_init(&gdevd);
	ready_fds[WORKER_FD_SEGMENT] = fd_shared_memory("segment", sizeof(struct session_segment));
	ready_fds[WORKER_FD_STAGING] = fd_shared_memory("staging", 1 << 20);
	ready_fds[WORKER_FD_WAKE] = eventfd(0, EFD_CLOEXEC);
	ready_fds[WORKER_FD_CLIENT_WAKE] = eventfd(0, EFD_CLOEXEC);
	ready_fds[WORKER_FDS] = fd_shared_memory("page", 4096);
}

static int speaker(int kind)
{
	struct worker *worker;
	int pair[2];

	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, pair))
		abort();
	if (kind == CLIENT || kind == ADMIN) {
		client_accept(&gdevd, pair[0], kind == CLIENT ? vgpu_find(&gdevd, VGPU) : NULL);
		return pair[1];
	}
	worker_accept(&gdevd, pair[0]);
	worker = list_entry(gdevd.workers.all.prev, struct worker, link);
	worker->pid = INT_MAX; /* it is killed when it misbehaves, and is in truth this process */
	if (kind == STARTING) {
		worker->restored = false;
		gdevd.workers.starting++;
	}
	return pair[1];
}

static void drain(int socket)
{
	char bytes[CONTROL_BYTES_MAX];
	int fds[FD_PASS_MAX];
	size_t count = FD_PASS_MAX;

	while (fd_receive(socket, bytes, sizeof bytes, fds, &count) > 0) {
		fd_close_all(fds, count);
		count = FD_PASS_MAX;
	}
}

static void speak(int socket, uint8_t who, uint8_t type, const uint8_t *body, size_t length)
{
	_Alignas(8) char message[sizeof(struct control_header) + 4096];
	struct control_header header = {
		.length = (uint32_t)(sizeof header + length),
		.type = type,
		.version = type == CONTROL_HELLO ? 0 : CONTROL_VERSION,
		.serial = who,
	};
	unsigned fds = who >> 2 & 3;

	memcpy(message, &header, sizeof header);
	memcpy(message + sizeof header, body, length);
	fd_send(socket, message, header.length, fds == 1 ? &ready_fds[WORKER_FDS] : ready_fds,
		fds == 0   ? 0
		: fds == 1 ? 1
		: fds == 2 ? array_length(ready_fds)
			   : 3);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t length)
{
	int sockets[SPEAKERS];
	struct vgpu *vgpu;

	if (!ready) {
		setup();
		restore();
		ready = true;
	}
	gdevd.next_id = FIRST_ID; /* the same in each run: inputs name sessions and segments */
	gdevd.ids_end = FIRST_ID + 4096;
	for (int i = 0; i < SPEAKERS; i++)
		sockets[i] = speaker(i);
	while (length >= 4) {
		changed |= bytes[1] == CONTROL_ADMIN;
		size_t body = min_of(
			(size_t)(bytes[2] | bytes[3] << 8), min_of(length - 4, (size_t)4096));
		speak(sockets[bytes[0] & 3], bytes[0], bytes[1], bytes + 4, body);
		bytes += 4 + body;
		length -= 4 + body;
		uv_run(&gdevd.loop, UV_RUN_NOWAIT);
		for (int i = 0; i < SPEAKERS; i++)
			drain(sockets[i]);
	}
	for (int i = SPEAKERS - 1; i >= 0; i--)
		close(sockets[i]);
	for (int i = 0; i < 8; i++)
		uv_run(&gdevd.loop, UV_RUN_NOWAIT);
	list_for_each (vgpu, &gdevd.vgpus, link)
		shm_finish(&vgpu->shm);
	gdevd.workers.backing_off = false;
	require(list_empty(&gdevd.sessions), "a session");
	require(list_empty(&gdevd.clients), "a client");
	require(list_empty(&gdevd.workers.all), "a worker");
	require(gdevd.workers.starting == 0 && gdevd.workers.warm == 0 &&
			gdevd.workers.carrying == 0,
		"a count");
	require(gdevd.device.memory.used_bytes == 0, "device memory");
	require(!gdevd.device.sched[0].holder && list_empty(&gdevd.device.sched[0].groups.waiting),
		"a grant");
	if (changed)
		restore();
	return 0;
}
