/* SPDX-License-Identifier: MIT
 *
 * Sessions: one client process on one virtual GPU, served by one worker. Begins with HELLO and a warm
 * worker (ATTACH, ATTACHED, WELCOME), or with a worker that was there before this gdevd (REGISTER).
 */
#include "gdevd/daemon.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/fd.h"
#include "base/log.h"
#include "gdev/error.h"

#define ATTACH_TIMEOUT_NS (10 * NS_PER_S)
#define LEAVE_GRACE_NS (2 * NS_PER_S)
#define ATTACH_TRIES 3

static void read_program_name(pid_t pid, char name[PROGRAM_NAME_MAX])
{
	char path[32];
	autoclose int fd = -1;
	ssize_t length;

	strcpy(name, "?");
	snprintf(path, sizeof path, "/proc/%d/comm", (int)pid);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return;
	length = read(fd, name, PROGRAM_NAME_MAX - 1);
	if (length <= 0)
		return;
	name[length] = '\0';
	for (char *c = name; *c;
		c++) /* any program chooses its name; it goes to logs and terminals */
		if (*c < ' ' || *c > '~')
			*c = *c == '\n' ? '\0' : '?';
}

static struct session *create(struct daemon *daemon, struct vgpu *vgpu, struct worker *worker,
	pid_t pid, uid_t uid, gid_t gid)
{
	struct session *session = calloc(1, sizeof *session);

	if (!session)
		return NULL;
	session->daemon = daemon;
	session->vgpu = vgpu;
	session->worker = worker;
	session->pid = pid;
	session->uid = uid;
	session->gid = gid;
	session->started_ns = clock_now_ns();
	session->wake_fd = -1;
	list_init(&session->watches);
	list_init(&session->shm_attachments);
	list_init(&session->cache_writes);
	nice_session_init(session);
	grants_session_init(session);
	read_program_name(pid, session->program);
	list_append(&daemon->sessions, &session->link);
	daemon->session_count++;
	vgpu->sessions++;
	worker->session = session;
	residency_begin_session(worker);
	return session;
}

/* Gives a warm worker its client; the client's end of the peer socket is left with the client. */
static int send_attach(struct session *session, struct client *client)
{
	struct control_attach message = {
		.session = session->id,
		.pid = session->pid,
		.uid = session->uid,
		.gid = session->gid,
		.arena_base = session->arena_base,
		.arena_bytes = session->arena_bytes,
		.features = session->features,
		.version = session->version,
		.time_limit_ms = (uint32_t)session->vgpu->config->time_limit_ms,
		.memory_limit_bytes = memory_total(&session->vgpu->memory),
	};
	int pair[2], fds[2] = {-1, session->daemon->device.turning.fd};

	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair))
		return -errno;
	control_fill(&message, CONTROL_ATTACH, 1);
	strcpy(message.vgpu, session->vgpu->config->name);
	session->turns = fds[1] >= 0;
	fds[0] = pair[1];
	connection_send(session->worker->connection, &message, fds, session->turns ? 2 : 1);
	close(fds[0]);
	client->peer = pair[0];
	return 0;
}

void session_begin(struct client *client, struct worker *worker)
{
	struct daemon *daemon = client->daemon;
	struct connection *connection = client->connection;
	uint64_t bytes = worker->memory.used_bytes;
	struct session *session;

	if (residency_make_room(daemon, client->vgpu, bytes) == -EAGAIN)
		return;
	client->waiting = false;
	if (memory_reparent(&worker->memory, &client->vgpu->memory)) {
		client_refuse(client, -ENOMEM,
			"virtual GPU \"%s\" has no memory left for another context; 'gdev status' shows who "
			"holds it",
			client->vgpu->config->name);
		return;
	}
	session = create(
		daemon, client->vgpu, worker, connection->pid, connection->uid, connection->gid);
	if (!session) {
		memory_reparent(&worker->memory, &daemon->device.memory);
		client_refuse(client, -ENOMEM, "gdevd is out of memory");
		return;
	}
	session->id = daemon_new_id(daemon);
	session->client = client;
	client->session = session;
	session->arena_base = client->hello.arena_base;
	session->arena_bytes = client->hello.arena_bytes;
	session->features = client->hello.features & FEATURE_DEVICE_MAP;
	session->trace = client->hello.trace;
	session->version = client->version;
	worker->state = WORKER_ATTACHING;
	worker->since_ns = clock_now_ns();
	daemon->workers.warm--;
	deadline_set(&daemon->deadlines, &worker->deadline, worker->since_ns + ATTACH_TIMEOUT_NS);
	deadline_cancel(&client->deadline);
	if (send_attach(session, client)) {
		session->client = NULL;
		client->session = NULL;
		client_refuse(client, -EMFILE, "gdevd has no file descriptors left");
		session_end(session, "could not be attached");
	}
	workers_adjust(daemon);
}

static struct ledger_entry ledger_entry_of(const struct worker *worker, uint64_t session, pid_t pid,
	uid_t uid, gid_t gid, const struct vgpu *vgpu)
{
	struct ledger_entry entry = {
		.session = session,
		.worker = worker->pid,
		.pid = pid,
		.uid = uid,
		.gid = gid,
	};

	strcpy(entry.vgpu, vgpu->config->name);
	return entry;
}

static void write_down(struct session *session)
{
	const struct ledger_entry entry = ledger_entry_of(session->worker, session->id,
		session->pid, session->uid, session->gid, session->vgpu);
	int error = ledger_add(&session->daemon->ledger, &entry);

	if (error)
		complain("session %llu will not survive a restart of gdevd: %s",
			(unsigned long long)session->id, strerror(-error));
}

static void send_welcome(struct session *session)
{
	struct client *client = session->client;
	struct worker *worker = session->worker;
	const struct config *config = &session->daemon->config;
	const struct config_device tuned = config_device_of(config, config->device);
	uint64_t tuning = client->hello.features & FEATURE_TUNING;
	uint64_t trace = worker->trace_fd >= 0 ? client->hello.features & FEATURE_TRACE : 0;
	struct control_welcome message = {
		.version = session->version,
		.features = session->features | tuning | trace,
		.session = session->id,
		.staging_bytes = worker->staging_bytes,
		.memory_bytes = memory_total(&session->vgpu->memory),
		.inline_bytes = (uint32_t)tuned.inline_bytes,
		.chunk_bytes = (uint32_t)tuned.chunk_bytes,
		.copy_threads = (uint32_t)tuned.copy_threads,
	};
	int fds[WORKER_FDS + 2];

	control_fill(&message, CONTROL_WELCOME, client->serial);
	if (!tuning)
		message.header.length = CONTROL_WELCOME_UNTUNED_BYTES;
	strcpy(message.vgpu, session->vgpu->config->name);
	memcpy(message.device_name, worker->device_name, sizeof message.device_name);
	memcpy(message.device_uuid, worker->device_uuid, sizeof message.device_uuid);
	memcpy(fds, worker->fds, sizeof worker->fds);
	fds[WORKER_FDS] = client->peer;
	fds[WORKER_FDS + 1] = worker->trace_fd;
	connection_send(client->connection, &message, fds, WORKER_FDS + 1 + (trace != 0));
	if (session->daemon->early.epoll_fd >= 0)
		session->wake_fd = fcntl(worker->fds[WORKER_FD_WAKE], F_DUPFD_CLOEXEC, 0);
	fd_close_all(worker->fds, WORKER_FDS);
	close(steal_fd(&client->peer));
}

void session_attached(struct session *session, int status)
{
	struct client *client = session->client;
	struct worker *worker = session->worker;

	if (status) {
		session->client = NULL;
		client->session = NULL;
		session_end(session, "could not be attached");
		client_refuse(client, status,
			status == -EADDRINUSE
				? "the arena is in use in the worker; choose another base"
				: "the worker could not take the session: %s",
			gdev_strerror(status));
		return;
	}
	worker->state = WORKER_SERVING;
	worker->since_ns = clock_now_ns();
	deadline_cancel(&worker->deadline);
	trace_session_begin(session);
	retire_look(session->daemon);
	write_down(session);
	send_welcome(session);
	log_debug("session %llu: %s (pid %d, uid %u) on %s, worker %d",
		(unsigned long long)session->id, session->program, (int)session->pid,
		(unsigned)session->uid, session->vgpu->config->name, (int)worker->pid);
}

int session_restore(struct worker *worker, const struct control_attach *message)
{
	struct daemon *daemon = worker->daemon;
	struct vgpu *vgpu = vgpu_find(daemon, message->vgpu);
	struct ledger_entry said;
	struct session *session;

	if (!vgpu) {
		complain("worker %d serves a virtual GPU that is not there any more: %.31s",
			(int)worker->pid, message->vgpu);
		return -ENOENT;
	}
	said = ledger_entry_of(
		worker, message->session, message->pid, message->uid, message->gid, vgpu);
	if (!ledger_has(&daemon->ledger, &said))
		return -EPERM; /* nobody gave it that session */
	if (session_find(daemon, message->session))
		return -EEXIST;
	memory_init(&worker->memory, &vgpu->memory, UINT64_MAX);
	if (memory_claim(&worker->memory, message->held_bytes))
		return -EINVAL;
	session = create(daemon, vgpu, worker, message->pid, message->uid, message->gid);
	if (!session)
		return -ENOMEM;
	session->id = message->session;
	session->arena_base = message->arena_base;
	session->arena_bytes = message->arena_bytes;
	session->features = message->features;
	session->version = message->version;
	log_info("session %llu is back: %s (pid %d) on %s, worker %d",
		(unsigned long long)session->id, session->program, (int)session->pid,
		vgpu->config->name, (int)worker->pid);
	events_session_restored(session);
	return 0;
}

static void record_end(const struct session *session, const char *reason)
{
	struct daemon *daemon = session->daemon;
	struct ended *ended = &daemon->history[daemon->ended_count++ % HISTORY_SESSIONS];

	*ended = (struct ended){
		.id = session->id,
		.pid = session->pid,
		.uid = session->uid,
		.wall_ns = clock_now_ns() - session->started_ns,
		.peak_bytes = session->worker->memory.peak_bytes,
	};
	strcpy(ended->program, session->program);
	strcpy(ended->vgpu, session->vgpu->config->name);
	snprintf(ended->reason, sizeof ended->reason, "%s", reason);
	memcpy(&ended->page, session->worker->page, sizeof ended->page);
}

/* What becomes of the client. One whose worker died before it was welcome waits for another. */
static void release_client(struct session *session, bool welcome)
{
	struct client *client = session->client;

	if (!client)
		return;
	session->client = NULL;
	client->session = NULL;
	if (client->peer >= 0)
		close(steal_fd(&client->peer));
	if (welcome || client->connection->dead) {
		client_destroy(client);
	} else if (++client->tries >= ATTACH_TRIES) {
		client_refuse(client, -GDEV_E_SESSION_LOST,
			"%d workers died when they were attached; the log of gdevd says why",
			ATTACH_TRIES);
	} else {
		client_wait(client);
	}
}

void session_client_left(struct session *session)
{
	session->client = NULL;
	if (session->worker->state == WORKER_ATTACHING)
		session_end(session, "client left");
	else
		deadline_set(&session->daemon->deadlines, &session->worker->deadline,
			clock_now_ns() + LEAVE_GRACE_NS);
}

void session_end(struct session *session, const char *reason)
{
	struct daemon *daemon = session->daemon;
	struct worker *worker = session->worker;
	struct cache_write *write, *after;
	bool welcome = worker->state != WORKER_ATTACHING;

	list_remove(&session->link);
	if (!daemon->stopping) /* then the next gdevd has it */
		ledger_remove(&daemon->ledger, session->id);
	daemon->session_count--;
	session->vgpu->sessions--;
	events_session_finish(session);
	grants_session_finish(session);
	shm_session_finish(session);
	trace_session_finish(session);
	retire_session_finish(session);
	early_session_finish(session);
	list_for_each_safe (write, after, &session->cache_writes, link)
		cache_abandon(write);
	if (welcome)
		record_end(session, reason);
	log_debug("session %llu ended: %s", (unsigned long long)session->id, reason);
	list_remove(&worker->residency.link);
	worker->session = NULL;
	worker_leave(worker);
	release_client(session, welcome);
	free(session);
	workers_adjust(daemon);
	daemon_maybe_leave(daemon);
}

struct session *session_find(struct daemon *daemon, uint64_t id)
{
	struct session *session;

	list_for_each (session, &daemon->sessions, link)
		if (session->id == id)
			return session;
	return NULL;
}

unsigned session_count_uid(struct daemon *daemon, uid_t uid)
{
	const struct session *session;
	const struct client *client;
	unsigned count = 0;

	list_for_each (session, &daemon->sessions, link)
		count += session->uid == uid;
	list_for_each (client, &daemon->clients, link)
		count += client->waiting && client->connection->uid == uid;
	return count;
}
