/* SPDX-License-Identifier: MIT
 *
 * The pool of workers: processes that have opened the device already, so that a session begins in a
 * millisecond although a context costs hundreds. A target number is kept warm and spawned ahead; all
 * together are bounded; those too many leave after a time; when they die at their start, the pause before
 * the next try grows.
 *
 * A worker is gone when its connection is closed and, if it is our child, when it has been reaped. Only
 * then is its memory returned: until then the device may still hold it.
 */
#include "gdevd/daemon.h"

#include <errno.h>
#include <grp.h>
#include <pwd.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/fd.h"
#include "base/log.h"

#define START_TIMEOUT_NS (60 * NS_PER_S)
#define CARRY_TIMEOUT_NS (60 * NS_PER_S)
#define REGISTER_TIMEOUT_NS (10 * NS_PER_S)
/* The kernel takes a process's device memory and contexts back before it is gone, on an H200 60 ms each and one
 * process after another; sixty that end at once are no reason to kill any. */
#define EXIT_GRACE_NS (20 * NS_PER_S)
#define FAILURES_ALLOWED 3
#define BACK_OFF_NS (100 * NS_PER_MS)
#define BACK_OFF_DOUBLINGS 9 /* 51 s */
#define HOPELESS_DOUBLINGS                                                                         \
	3 /* 0.8 s: until then clients wait, somebody may have killed the workers */
#define CONTROL_FD 3

static int on_message(struct connection *connection, const struct control_header *message, int *fds,
	size_t fd_count);
static void on_closed(struct connection *connection, int error);

static const struct connection_ops worker_connection_ops = {
	.message = on_message,
	.closed = on_closed,
};

const char *worker_state_name(enum worker_state state)
{
	static const char *const names[] = {
		"starting", "warm", "carrying", "attaching", "serving", "leaving"};

	return names[state];
}

/* ---- the end of a worker ---- */

static void free_process(uv_handle_t *handle)
{
	free(handle->data);
}

/* Frees the worker when nothing of it is left. */
static void maybe_free(struct worker *worker)
{
	struct daemon *daemon = worker->daemon;

	if (worker->connection || worker->child)
		return;
	deadline_cancel(&worker->deadline);
	residency_finish_worker(worker);
	memory_return(&worker->memory, worker->memory.used_bytes);
	list_remove(&worker->lacking);
	for (unsigned i = 0; i < WORKER_FDS; i++)
		if (worker->fds[i] >= 0)
			close(worker->fds[i]);
	if (worker->trace_fd >= 0)
		close(worker->trace_fd);
	if (worker->page)
		munmap(worker->page, sizeof *worker->page);
	list_remove(&worker->link);
	daemon->workers.total--;
	if (worker->spawned)
		uv_close((uv_handle_t *)&worker->process, free_process);
	else
		free(worker);
	residency_balance(daemon);
	relief_serve(daemon);
	workers_adjust(daemon);
	daemon_maybe_leave(daemon);
}

static void start_failed(struct daemon *daemon)
{
	struct workers *workers = &daemon->workers;
	struct client *client, *after;
	unsigned doublings;

	if (++workers->failures < FAILURES_ALLOWED)
		return;
	doublings = min_of(workers->failures - FAILURES_ALLOWED, (unsigned)BACK_OFF_DOUBLINGS);
	workers->backing_off = true;
	deadline_set(
		&daemon->deadlines, &workers->retry, clock_now_ns() + (BACK_OFF_NS << doublings));
	log_error("%u workers in a row died when they started; the next try is in %llu ms",
		workers->failures, (BACK_OFF_NS << doublings) / NS_PER_MS);
	workers->hopeless = doublings >= HOPELESS_DOUBLINGS;
	/* Each once: who waits for room beside a warm one does so on. */
	list_for_each_safe (client, after, &daemon->clients, link)
		if (workers->hopeless && client->waiting)
			client_wait(client); /* is refused, with the reason */
}

/* Out of the state it is in; what it was doing is undone. */
static void retire(struct worker *worker, const char *reason)
{
	struct workers *workers = &worker->daemon->workers;
	enum worker_state was = worker->state;

	deadline_cancel(&worker->deadline);
	if (was == WORKER_LEAVING)
		return;
	if (worker->session) {
		session_end(worker->session, reason); /* comes back through worker_leave() */
		return;
	}
	worker->state = WORKER_LEAVING;
	worker->since_ns = clock_now_ns();
	if (was == WORKER_WARM)
		workers->warm--;
	if (was == WORKER_CARRYING) {
		workers->carrying--;
		shm_carrier_gone(worker);
	}
	if (was == WORKER_STARTING && !worker->restored) {
		workers->starting--;
		if (!worker->daemon->stopping)
			start_failed(worker->daemon);
	}
}

static void send_signal_kill(struct worker *worker)
{
	/* A child that was not reaped, or the process at the other end of an open connection: its pid is
	 * nobody else's. */
	bool there = worker->child || (worker->restored && worker->connection &&
					      connection_has_peer(worker->connection));

	/* A peer of another pid namespace has pid 0, which would mean our own process group. */
	if (there && worker->pid > 1)
		kill(worker->pid, SIGKILL);
}

void worker_kill(struct worker *worker, const char *why)
{
	complain("killed worker %d: %s", (int)worker->pid, why);
	send_signal_kill(worker);
	retire(worker, "worker was killed");
	if (worker->connection) {
		connection_destroy(worker->connection);
		worker->connection = NULL;
	}
	worker->killed = true;
	if (worker->child)
		deadline_set(&worker->daemon->deadlines, &worker->deadline,
			clock_now_ns() + EXIT_GRACE_NS);
	maybe_free(worker);
}

bool worker_is_going(const struct worker *worker)
{
	return (worker->state == WORKER_SERVING || worker->state == WORKER_LEAVING) &&
	       !list_empty(&worker->deadline.link);
}

/* Those who wait for what it holds are told. */
static void give_up(struct worker *worker)
{
	struct daemon *daemon = worker->daemon;

	complain(
		"worker %d was killed and does not end: nobody waits any longer for its %llu MiB of the device",
		(int)worker->pid, (unsigned long long)(worker->memory.used_bytes >> 20));
	residency_balance(daemon);
	relief_serve(daemon);
	workers_adjust(daemon);
}

static void on_late(struct deadline *deadline, uint64_t now_ns)
{
	struct worker *worker = container_of(deadline, struct worker, deadline);

	static const char *const reasons[] = {
		[WORKER_STARTING] = "it was not ready in time",
		[WORKER_CARRYING] = "it did not copy shared memory in time",
		[WORKER_ATTACHING] = "it did not answer in time",
		[WORKER_SERVING] = "its client left, and it did not end the session",
		[WORKER_LEAVING] = "it did not leave in time",
	};

	if (worker->killed)
		give_up(worker);
	else
		worker_kill(worker, reasons[worker->state]);
}

void worker_leave(struct worker *worker)
{
	worker->state = WORKER_LEAVING;
	worker->since_ns = clock_now_ns();
	deadline_set(
		&worker->daemon->deadlines, &worker->deadline, worker->since_ns + EXIT_GRACE_NS);
}

static void on_closed(struct connection *connection, int error)
{
	struct worker *worker = connection->owner;

	if (error) {
		worker_kill(worker, strerror(-error));
		return;
	}
	retire(worker, "worker died");
	connection_destroy(worker->connection);
	worker->connection = NULL;
	if (worker->child) /* is on its way out, and is killed if it takes long */
		deadline_set(&worker->daemon->deadlines, &worker->deadline,
			clock_now_ns() + EXIT_GRACE_NS);
	maybe_free(worker);
}

static void on_exit_child(uv_process_t *process, int64_t status, int signal)
{
	struct worker *worker = process->data;
	bool expected = worker->state == WORKER_LEAVING;

	worker->child = false;
	if (signal && !(expected && signal == SIGKILL))
		log_warning("worker %d died of signal %d (%s)", (int)worker->pid, signal,
			strsignal(signal));
	else if (status && !signal)
		log_warning("worker %d exited with status %d", (int)worker->pid, (int)status);
	/* The end of file of its connection brings the rest, unless that has come. */
	maybe_free(worker);
}

static int on_message(struct connection *connection, const struct control_header *message, int *fds,
	size_t fd_count)
{
	return worker_message(connection->owner, message, fds, fd_count);
}

/* ---- the start of a worker ---- */

static struct worker *create(struct daemon *daemon)
{
	struct worker *worker = calloc(1, sizeof *worker);

	if (!worker)
		return NULL;
	worker->daemon = daemon;
	worker->state = WORKER_STARTING;
	worker->since_ns = clock_now_ns();
	memset(worker->fds, -1, sizeof worker->fds);
	worker->trace_fd = -1;
	memory_init(&worker->memory, &daemon->device.memory, UINT64_MAX);
	residency_init_worker(worker);
	list_init(&worker->lacking);
	deadline_init(&worker->deadline, on_late);
	list_append(&daemon->workers.all, &worker->link);
	daemon->workers.total++;
	return worker;
}

static int start_process(struct worker *worker, int socket)
{
	const struct daemon *daemon = worker->daemon;
	const struct workers *workers = &daemon->workers;
	char memory[24], host_memory[24], threads[24], context[24], user[24], group[24],
		path[PATHS_MAX + 16], fd[8];
	const char *arguments[] = {
		workers->path,
		"--control-fd",
		fd,
		"--device",
		daemon->config.device,
		"--device-memory",
		memory,
		"--host-memory",
		host_memory,
		"--threads",
		threads,
		"--workers-socket",
		path,
		"--context",
		context,
		geteuid() == 0 ? "--user" : NULL,
		user,
		"--group",
		group,
		NULL,
	};
	uv_stdio_container_t stdio[] = {
		{.flags = UV_IGNORE},
		{.flags = UV_IGNORE},
		{.flags = UV_INHERIT_FD, .data.fd = STDERR_FILENO},
		{.flags = UV_INHERIT_FD, .data.fd = socket},
	};
	uv_process_options_t options = {
		.exit_cb = on_exit_child,
		.file = workers->path,
		.args = (char **)arguments,
		.flags = UV_PROCESS_DETACHED, /* a terminal's ^C is for gdevd alone */
		.stdio_count = array_length(stdio),
		.stdio = stdio,
	};
	int error;

	snprintf(fd, sizeof fd, "%d", CONTROL_FD);
	snprintf(memory, sizeof memory, "%llu", (unsigned long long)daemon->config.device_memory);
	snprintf(host_memory, sizeof host_memory, "%llu",
		(unsigned long long)daemon->config.host_memory);
	snprintf(threads, sizeof threads, "%u", (unsigned)daemon->config.threads);
	snprintf(
		context, sizeof context, "%llu", (unsigned long long)daemon->config.context_memory);
	snprintf(user, sizeof user, "%u", (unsigned)workers->uid);
	snprintf(group, sizeof group, "%u", (unsigned)workers->gid);
	snprintf(path, sizeof path, "%s/workers.sock", daemon->runtime_dir);
	worker->process.data = worker;
	worker->spawned = true; /* the handle must be closed, whether this succeeds or not */
	error = uv_spawn(&worker->daemon->loop, &worker->process, &options);
	if (error)
		return error;
	worker->child = true;
	worker->pid = worker->process.pid;
	return 0;
}

/* Begins to start one. Failure counts as a death at the start. */
static void spawn(struct daemon *daemon)
{
	struct worker *worker = create(daemon);
	int pair[2], error;

	if (!worker)
		return;
	daemon->workers.starting++;
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair)) {
		log_error("cannot start a worker: %s", strerror(errno));
		goto err_free;
	}
	error = start_process(worker, pair[1]);
	close(pair[1]);
	if (error) {
		log_error("cannot start %s: %s", daemon->workers.path, strerror(-error));
		close(pair[0]);
		goto err_free;
	}
	if (connection_create(
		    &daemon->loop, pair[0], &worker_connection_ops, worker, &worker->connection)) {
		worker_kill(worker, "gdevd has no resources for another");
		return;
	}
	worker->connection->pid = worker->pid;
	deadline_set(&daemon->deadlines, &worker->deadline, worker->since_ns + START_TIMEOUT_NS);
	return;

err_free:
	retire(worker, "");
	maybe_free(worker);
}

/* A worker has one connection: with more it could keep all others from having any. */
static bool is_known(const struct worker *worker)
{
	const struct worker *other;

	list_for_each (other, &worker->daemon->workers.all, link)
		if (other != worker && other->pid == worker->pid)
			return true;
	return false;
}

void worker_accept(struct daemon *daemon, int fd)
{
	struct worker *worker = create(daemon);

	if (!worker) {
		close(fd);
		return;
	}
	worker->restored = true;
	if (connection_create(
		    &daemon->loop, fd, &worker_connection_ops, worker, &worker->connection)) {
		maybe_free(worker);
		return;
	}
	worker->pid = worker->connection->pid;
	if (is_known(worker)) {
		complain("worker %d registers again, although it is known", (int)worker->pid);
		connection_destroy(worker->connection);
		worker->connection = NULL;
		maybe_free(worker);
		return;
	}
	deadline_set(&daemon->deadlines, &worker->deadline, worker->since_ns + REGISTER_TIMEOUT_NS);
}

/* Is warm, which may be for somebody who waits. */
static void become_warm(struct worker *worker)
{
	struct daemon *daemon = worker->daemon;
	struct client *client = client_waiting(daemon);

	worker->state = WORKER_WARM;
	worker->since_ns = clock_now_ns();
	deadline_cancel(&worker->deadline);
	daemon->workers.warm++;
	if (client)
		client_wait(client);
	/* Also for a client: its virtual GPU may have no room, and a segment wait that could make some. */
	workers_adjust(daemon);
}

void worker_ready(struct worker *worker)
{
	struct workers *workers = &worker->daemon->workers;

	workers->starting--;
	workers->failures = 0;
	workers->backing_off = workers->hopeless = false;
	deadline_cancel(&workers->retry);
	become_warm(worker);
}

void worker_carry(struct worker *worker)
{
	struct workers *workers = &worker->daemon->workers;

	worker->state = WORKER_CARRYING;
	worker->since_ns = clock_now_ns();
	workers->warm--;
	workers->carrying++;
	deadline_set(
		&worker->daemon->deadlines, &worker->deadline, worker->since_ns + CARRY_TIMEOUT_NS);
}

/* ---- the pool ---- */

struct worker *workers_take_warm(struct daemon *daemon)
{
	struct worker *worker;

	list_for_each (worker, &daemon->workers.all, link)
		if (worker->state == WORKER_WARM)
			return worker;
	return NULL;
}

static void send_bye(struct worker *worker)
{
	if (!worker->connection)
		return;
	connection_answer(worker->connection, CONTROL_BYE, 0, 0);
}

void worker_send_away(struct worker *worker)
{
	send_bye(worker);
	retire(worker, "");
	worker_leave(worker);
}

void workers_device_lost(struct worker *lost)
{
	struct daemon *daemon = lost->daemon;
	struct worker *worker;

	daemon->device.losses++;
	log_error(
		"device %s failed under worker %d of process %d; the %u warm workers are replaced",
		daemon->config.device, (int)lost->pid, (int)lost->session->pid,
		daemon->workers.warm);
	while ((worker = workers_take_warm(daemon)))
		worker_send_away(worker);
}

void worker_carried(struct worker *worker)
{
	struct daemon *daemon = worker->daemon;

	daemon->workers.carrying--;
	become_warm(worker);
	/* One that was started for this alone has its context in the room that was lacking. */
	if (worker->state == WORKER_WARM && daemon->workers.warm > relief_pool_size(daemon))
		worker_send_away(worker);
}

static void on_retire(struct deadline *deadline, uint64_t now_ns)
{
	struct daemon *daemon = container_of(deadline, struct daemon, workers.retire);
	struct worker *worker = workers_take_warm(daemon);

	if (worker && daemon->workers.warm > relief_pool_size(daemon)) {
		log_debug("worker %d is not needed any more", (int)worker->pid);
		worker_send_away(worker);
	}
	workers_adjust(daemon);
}

static void on_retry(struct deadline *deadline, uint64_t now_ns)
{
	struct daemon *daemon = container_of(deadline, struct daemon, workers.retry);

	daemon->workers.backing_off = daemon->workers.hopeless = false;
	workers_adjust(daemon);
}

/* Whether there is device memory for one more context. Nobody leaves for a warm one; for that of a client that waits
 * others do, or it is told that there is none. */
static bool has_room(struct daemon *daemon)
{
	struct workers *workers = &daemon->workers;
	uint64_t bytes = (workers->starting + 1) * daemon->device.overhead_bytes;
	struct client *client;
	int status;

	if (!daemon->device.overhead_bytes || bytes <= memory_free(&daemon->device.memory))
		return true;
	if (client_waiting_count(daemon, NULL) <= workers->warm + workers->starting)
		return false;
	status = residency_make_room(daemon, NULL, bytes);
	if (status == -ENOMEM && !workers->warm && !workers->starting)
		while ((client = client_waiting(daemon)))
			client_refuse(client, -ENOMEM,
				"the device has no memory left for another context, and nobody can leave; 'gdev status' "
				"shows who holds it");
	return !status;
}

void workers_adjust(struct daemon *daemon)
{
	struct workers *workers = &daemon->workers;
	unsigned pool = relief_pool_size(daemon), wanted;
	const struct worker *oldest;

	if (daemon->stopping || workers->adjusting)
		return;
	workers->adjusting = true; /* a spawn that fails at once comes back here */
	wanted = pool + client_waiting_count(daemon, NULL);
	if (!workers->warm && !workers->carrying && shm_wants_carrier(daemon))
		wanted++;
	while (!workers->backing_off && workers->warm + workers->starting < wanted &&
		workers->starting < workers->starting_max &&
		workers->total < daemon->config.max_workers && has_room(daemon))
		spawn(daemon);
	workers->adjusting = false;
	shm_carry(daemon); /* last: making room above may have had another segment leave */
	if (!workers->warm && !workers->starting && !workers->carrying)
		shm_no_carrier(daemon);
	oldest = workers_take_warm(daemon);
	if (!oldest || workers->warm <= pool)
		deadline_cancel(&workers->retire);
	else if (list_empty(&workers->retire.link))
		deadline_set(&daemon->deadlines, &workers->retire,
			clock_now_ns() + daemon->config.worker_idle_ns);
}

static void find_worker_user(struct daemon *daemon)
{
	const struct passwd *user = getpwnam(daemon->config.worker_user);

	daemon->workers.uid = user ? user->pw_uid : 65534;
	daemon->workers.gid = user ? user->pw_gid : 65534;
	if (!user && geteuid() == 0)
		log_info("there is no user \"%s\": workers run as uid 65534",
			daemon->config.worker_user);
}

int workers_init(struct daemon *daemon, const char *path)
{
	static const char *const places[] = {
		"../worker/gdev-worker",       /* the build tree */
		"../libexec/gdev/gdev-worker", /* installed, wherever that tree is */
		"../" GDEV_LIBEXECDIR "/gdev/gdev-worker",
		"../libexec/gdev-worker",
		"gdev-worker",
		NULL,
	};
	struct workers *workers = &daemon->workers;
	long processors = sysconf(_SC_NPROCESSORS_ONLN);

	list_init(&workers->all);
	deadline_init(&workers->retire, on_retire);
	deadline_init(&workers->retry, on_retry);
	workers->starting_max = (unsigned)max_of(2L, min_of(8L, processors));
	find_worker_user(daemon);
	if (!path)
		return paths_sibling(places, workers->path);
	if (snprintf(workers->path, sizeof workers->path, "%s", path) >= (int)sizeof workers->path)
		return -ENAMETOOLONG;
	return access(path, X_OK) ? -errno : 0;
}

/* Those who serve somebody go on and register with the next gdevd; the others leave. */
void workers_stop(struct daemon *daemon)
{
	struct worker *worker, *after;

	list_for_each_safe (worker, after, &daemon->workers.all, link) {
		if (!worker->session)
			send_bye(worker);
		if (worker->state == WORKER_LEAVING)
			send_signal_kill(worker);
		if (worker->connection)
			connection_destroy(worker->connection);
		worker->connection = NULL;
	}
}

/* Frees them; their processes are nobody's children when we are gone. */
void workers_finish(struct daemon *daemon)
{
	struct worker *worker, *after;

	list_for_each_safe (worker, after, &daemon->workers.all, link) {
		worker->child = false;
		maybe_free(worker);
	}
}
