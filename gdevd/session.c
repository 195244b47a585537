/* SPDX-License-Identifier: MIT
 *
 * Sessions: one client process on one virtual GPU, served by one worker. Begins with HELLO and a warm
 * worker (ATTACH, ATTACHED, WELCOME), or with a worker that was there before this gdevd (REGISTER).
 */
#include "gdevd/daemon.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/fd.h"
#include "base/log.h"
#include "gdev/error.h"
#include "gdevd/process.h"
#include "gdevd/worker_limit.h"

#define ATTACH_TIMEOUT_NS (10 * NS_PER_S)
/* What a session shared is lost with a worker that is killed; one that gets no processor for seconds has done nothing wrong. */
#define LEAVE_GRACE_NS (20 * NS_PER_S)
#define ATTACH_TRIES 3
#define DESCRIPTORS 4 /* of a session: users.h */

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

/* The kernel says which process a client is; of one in another pid namespace it does not. */
bool session_is_of_process_of(const struct session *session, const struct session *other)
{
	return session->pid > 0 && session->pid == other->pid && session->process_started &&
	       session->process_started == other->process_started && session->uid == other->uid;
}

static struct session *create_session(struct daemon *daemon, struct vgpu *vgpu,
	struct worker *worker, pid_t pid, uid_t uid, gid_t gid, const struct groups *groups)
{
	struct session *session = calloc(1, sizeof *session);

	if (!session)
		return NULL;
	session->user = user_get(&daemon->users, uid);
	if (!session->user) {
		free(session);
		return NULL;
	}
	session->user->sessions++;
	connection_charge_to(worker->connection, session->user);
	session->daemon = daemon;
	session->vgpu = vgpu;
	session->device = vgpu->device;
	session->worker = worker;
	session->pid = pid;
	session->uid = uid;
	session->gid = gid;
	session->groups = *groups;
	session->started_ns = clock_now_ns();
	list_init(&session->waits_for);
	list_init(&session->waited_for);
	list_init(&session->shm_attachments);
	list_init(&session->cache_requests);
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

/* What the virtual GPU lets the worker do of what its client knows and wishes. */
static uint64_t features_of(const struct config_vgpu *vgpu, uint64_t asked)
{
	uint64_t features = asked & FEATURE_DEVICE_MAP;

	if (vgpu->preempt == PREEMPT_ASKED && (asked & FEATURE_PREEMPT))
		features |= asked & (FEATURE_PREEMPT | FEATURE_LOOPS);
	if (vgpu->preempt == PREEMPT_BLOCKS)
		features |= FEATURE_PREEMPT;
	if (vgpu->preempt == PREEMPT_LOOPS)
		features |= FEATURE_PREEMPT | FEATURE_LOOPS;
	return features;
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
		.compute_capability = (uint32_t)session->vgpu->config->compute_capability,
	};
	int pair[2], fds[2] = {-1, session->device->turning.fd};

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
	struct device *device = worker->device;
	struct connection *connection = client->connection;
	struct user *user = connection->user;
	uint64_t bytes = worker->memory.used_bytes;
	struct session *session;
	struct groups groups;

	if (residency_make_room(device, client->vgpu, bytes) == -EAGAIN)
		return;
	client_waits_no_more(client);
	if (!user_hold(user, DESCRIPTORS)) {
		client_refuse(client, -EUSERS,
			"uid %u has %zu of gdevd's descriptors, and may have no more (RLIMIT_NOFILE of gdevd)",
			(unsigned)user->uid, user->descriptors);
		return;
	}
	if (memory_reparent(&worker->memory, &client->vgpu->memory)) {
		user_release(user, DESCRIPTORS);
		client_refuse(client, -ENOMEM,
			"virtual GPU \"%s\" has no memory left for another context; 'gdev status' shows who "
			"holds it",
			client->vgpu->config->name);
		return;
	}
	process_groups_of_peer(connection->fd, &groups);
	session = create_session(daemon, client->vgpu, worker, connection->pid, connection->uid,
		connection->gid, &groups);
	if (!session) {
		user_release(user, DESCRIPTORS);
		memory_reparent(&worker->memory, &device->memory);
		client_refuse(client, -ENOMEM, "gdevd is out of memory");
		return;
	}
	session->id = daemon_new_id(daemon);
	session->process_started = client->process_started;
	grants_session_join(session);
	session->user->given = ++daemon->users.workers_given;
	session->client = client;
	client->session = session;
	session->arena_base = client->hello.arena_base;
	session->arena_bytes = client->hello.arena_bytes;
	session->features = features_of(session->vgpu->config, client->hello.features);
	session->trace = client->hello.trace;
	session->version = client->version;
	worker->state = WORKER_ATTACHING;
	worker->since_ns = clock_now_ns();
	device->workers.warm--;
	deadline_set(&daemon->deadlines, &worker->deadline, worker->since_ns + ATTACH_TIMEOUT_NS);
	deadline_cancel(&client->deadline);
	worker_limit(worker);
	strangers_unask(worker);
	if (send_attach(session, client)) {
		session->client = NULL;
		client->session = NULL;
		client_refuse(client, -EMFILE, "gdevd has no file descriptors left");
		session_end(session, "could not be attached");
	}
	workers_adjust(device);
}

/* What a worker can hold at most of an account. Until the device is known the limit is not. */
static uint64_t most_bytes(uint64_t before, uint64_t limit, uint64_t more)
{
	return limit == UINT64_MAX ? before : max_of(before, limit + more);
}

void session_write_down(struct session *session)
{
	struct daemon *daemon = session->daemon;
	const struct memory_account *swap = daemon->swap.pools;
	struct ledger *ledger = &daemon->ledgers.sessions;
	const struct ledger_session *before =
		session->ledger_place ? ledger_at(ledger, session->ledger_place) : NULL;
	struct ledger_session record = {0};
	int error;

	if (before)
		record = *before;
	else
		record.worker_started = process_started(session->worker->pid);
	record.session = session->id;
	record.worker = session->worker->pid;
	record.pid = session->pid;
	record.process_started = session->process_started;
	record.uid = session->uid;
	record.gid = session->gid;
	record.groups = session->groups;
	strcpy(record.vgpu, session->vgpu->config->name);
	strcpy(record.device, session->device->served->name);
	record.moves = session->move.count;
	/* Once it is there, its worker cannot say that it is not. */
	*record.before_vgpu = *record.before_device = '\0';
	if (session->move.from) {
		strcpy(record.before_vgpu, session->move.from->config->name);
		strcpy(record.before_device, session->move.from->device->served->name);
	}
	if (session->device->known)
		record.peers = session->device->peers;
	record.most_bytes = most_bytes(record.most_bytes, memory_total(&session->vgpu->memory),
		session->device->overhead_bytes);
	for (unsigned i = 0; i < SWAP_POOLS; i++)
		record.most_swap_bytes[i] =
			most_bytes(record.most_swap_bytes[i], swap[i].limit_bytes, 0);
	swap_write_down(session->worker, &record);
	error = ledger_put(ledger, &session->ledger_place, &record);
	if (error)
		complain("session %llu will not survive a restart of gdevd: %s",
			(unsigned long long)session->id, strerror(-error));
}

static void send_welcome(struct session *session)
{
	struct client *client = session->client;
	struct worker *worker = session->worker;
	const struct config *config = &session->daemon->config;
	const struct config_device tuned = config_device_of(config, session->device->served->name);
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
		.peers = session->device->peers,
	};
	int fds[WORKER_FDS + 2];

	control_fill(&message, CONTROL_WELCOME, client->serial);
	if (!tuning)
		message.header.length = CONTROL_WELCOME_UNTUNED_BYTES;
	strcpy(message.vgpu, session->vgpu->config->name);
	memcpy(message.device_name, worker->device_name, sizeof message.device_name);
	memcpy(message.device_uuid, session->device->uuid, sizeof message.device_uuid);
	memcpy(fds, worker->fds, sizeof worker->fds);
	fds[WORKER_FDS] = client->peer;
	fds[WORKER_FDS + 1] = worker->trace_fd;
	connection_send(client->connection, &message, fds, WORKER_FDS + 1 + (trace != 0));
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
		if (status == -EADDRINUSE)
			worker_rejoin(worker);
		else
			worker_send_away(worker);
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
	retire_look(session->device);
	session_write_down(session);
	send_welcome(session);
	log_debug("session %llu: %s (pid %d, uid %u) on %s, worker %d",
		(unsigned long long)session->id, session->program, (int)session->pid,
		(unsigned)session->uid, session->vgpu->config->name, (int)worker->pid);
}

/* Another process may have its pid by now. */
static bool is_gone(const struct ledger_session *record)
{
	return record->worker <= 0 || (kill(record->worker, 0) && errno == ESRCH) ||
	       process_started(record->worker) != record->worker_started;
}

void sessions_forget_gone(struct daemon *daemon)
{
	struct ledger *ledger = &daemon->ledgers.sessions;

	for (uint64_t place = 1; place <= ledger->count; place++) {
		const struct ledger_session *record = ledger_at(ledger, place);
		uint64_t gone = place;
		if (!record || !is_gone(record))
			continue;
		events_remember_unreached(daemon, record->session); /* nobody can say */
		ledger_remove(ledger, &gone);
	}
}

void sessions_end_unclaimed(struct daemon *daemon)
{
	struct ledger *ledger = &daemon->ledgers.sessions;

	for (uint64_t place = 1; place <= ledger->count; place++) {
		const struct ledger_session *record = ledger_at(ledger, place);
		if (!record || session_find(daemon, record->session) || is_gone(record))
			continue;
		complain("session %llu ends: killed worker %d, which did not register",
			(unsigned long long)record->session, (int)record->worker);
		if (process_kill(record->worker, record->worker_started))
			complain("worker %d cannot be killed", (int)record->worker);
	}
	sessions_forget_gone(daemon);
}

uint64_t session_place(const struct daemon *daemon, uint64_t id)
{
	const struct ledger *ledger = &daemon->ledgers.sessions;

	for (uint64_t place = 1; place <= ledger->count; place++) {
		const struct ledger_session *record = ledger_at(ledger, place);
		if (record && record->session == id)
			return place;
	}
	return 0;
}

static const struct ledger_session *record_of_worker(const struct daemon *daemon, pid_t worker)
{
	const struct ledger *ledger = &daemon->ledgers.sessions;

	for (uint64_t place = 1; place <= ledger->count; place++) {
		const struct ledger_session *record = ledger_at(ledger, place);
		if (record && record->worker == worker)
			return record;
	}
	return NULL;
}

uid_t session_uid_of_worker(const struct daemon *daemon, pid_t worker, uid_t other)
{
	const struct ledger_session *record = record_of_worker(daemon, worker);

	return record ? record->uid : other;
}

void session_file_of_worker(const struct worker *worker, struct porter_limits *limits)
{
	const struct ledger_session *record = record_of_worker(worker->daemon, worker->pid);

	if (!record)
		return;
	limits->device = record->swap_device;
	limits->inode = record->swap_inode;
}

/* A worker that has not heard of the last move is where it was before. */
static bool was_not_moved(const struct control_attach *said, const struct ledger_session *record)
{
	return said->moves + 1 == record->moves && *record->before_device;
}

/* Whether the worker was given that session, as it says. */
static bool is_as_written(const struct worker *worker, const struct control_attach *said,
	const struct ledger_session *record)
{
	const char *vgpu = was_not_moved(said, record) ? record->before_vgpu : record->vgpu;

	return record->worker == worker->pid &&
	       record->worker_started == process_started(worker->pid) && record->pid == said->pid &&
	       record->uid == said->uid && record->gid == said->gid &&
	       (said->moves == record->moves || was_not_moved(said, record)) &&
	       !strncmp(vgpu, said->vgpu, sizeof record->vgpu);
}

static struct vgpu *vgpu_of_record(struct daemon *daemon, const struct control_attach *said,
	const struct ledger_session *record)
{
	return was_not_moved(said, record)
		       ? vgpu_get_part(daemon, record->before_vgpu, record->before_device)
		       : vgpu_get_part(daemon, record->vgpu, record->device);
}

int session_restore(struct worker *worker, const struct control_attach *message, int *swap_file)
{
	struct daemon *daemon = worker->daemon;
	uint64_t place = session_place(daemon, message->session);
	const struct ledger_session *record =
		place ? ledger_at(&daemon->ledgers.sessions, place) : NULL;
	struct session *session;
	struct vgpu *vgpu;
	int error;

	if (!record || !is_as_written(worker, message, record))
		return -EPERM;
	vgpu = vgpu_of_record(daemon, message, record);
	if (!vgpu) {
		complain("worker %d serves a virtual GPU that is not there any more: %.31s",
			(int)worker->pid, message->vgpu);
		return -ENOENT;
	}
	if (session_find(daemon, message->session))
		return -EEXIST;
	worker->started = record->worker_started;
	worker_move(worker, vgpu->device);
	if (!vgpu->device->known)
		vgpu->device->peers = record->peers;
	memory_init(&worker->memory, &vgpu->memory, UINT64_MAX);
	if (memory_claim(&worker->memory, message->held_bytes, record->most_bytes))
		return -EINVAL;
	session = create_session(
		daemon, vgpu, worker, message->pid, record->uid, record->gid, &record->groups);
	if (!session)
		return -ENOMEM;
	user_hold_anyway(session->user, DESCRIPTORS);
	session->id = message->session;
	session->ledger_place = place;
	session->process_started = record->process_started;
	grants_session_join(session);
	session->arena_base = message->arena_base;
	session->arena_bytes = message->arena_bytes;
	session->features = message->features;
	session->version = message->version;
	session->move.count = message->moves;
	for (unsigned i = 0; i < SWAP_POOLS; i++)
		if (memory_claim(&worker->swap[i], message->held_swap_bytes[i],
			    record->most_swap_bytes[i]))
			return -EINVAL;
	error = swap_restore(worker, record, swap_file);
	if (error)
		return error;
	session_write_down(session); /* its limits may be higher now */
	worker_limit(worker);
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
	fd_close_all(&client->peer, 1);
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
	struct cache_request *request, *after;
	bool welcome = worker->state != WORKER_ATTACHING;

	list_remove(&session->link);
	if (!daemon->stopping) /* then the next gdevd has it */
		ledger_remove(&daemon->ledgers.sessions, &session->ledger_place);
	daemon->session_count--;
	session->vgpu->sessions--;
	events_session_finish(session);
	grants_session_finish(session);
	if (!session->left && !daemon->stopping)
		shm_lose(session);
	shm_session_finish(session);
	trace_session_finish(session);
	retire_session_finish(session);
	list_for_each_safe (request, after, &session->cache_requests, link) {
		list_remove(&request->link);
		request->owner = NULL;
		if (!request->submitted)
			cache_drop(&daemon->cache, session->uid, request);
	}
	if (welcome)
		record_end(session, reason);
	log_debug("session %llu ended: %s", (unsigned long long)session->id, reason);
	list_remove(&worker->residency.link);
	worker->session = NULL;
	worker_leave(worker);
	release_client(session, welcome);
	session->user->sessions--;
	user_release(session->user, DESCRIPTORS);
	user_put(session->user);
	free(session);
	workers_adjust(worker->device);
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
