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
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/fd.h"
#include "base/log.h"
#include "gdevd/process.h"
#include "gdevd/worker_limit.h"
#include "gdevd/worker_start.h"

#define START_TIMEOUT_NS (60 * NS_PER_S)
#define CARRY_TIMEOUT_NS (60 * NS_PER_S)
#define REGISTER_TIMEOUT_NS (10 * NS_PER_S)
/* The kernel takes a process's device memory and contexts back before it is gone, on an H200 60 ms each and one
 * process after another; sixty that end at once are no reason to kill any. */
#define EXIT_GRACE_NS (20 * NS_PER_S)
/* Warm workers that are younger than that were opened after the device had failed. */
#define LOST_NS (10 * NS_PER_S)
#define BACK_OFF_NS (100 * NS_PER_MS)
#define BACK_OFF_DOUBLINGS 9 /* 51 s */
/* 0.8 s. Until then clients wait: somebody may have killed the workers. */
#define HOPELESS_DOUBLINGS 3

const char *worker_state_name(enum worker_state state)
{
	static const char *const names[] = {
		"starting", "warm", "carrying", "attaching", "serving", "leaving"};

	return names[state];
}

/* ---- the end of a worker ---- */

/* Frees the worker when nothing of it is left. A session may be left of a process that is gone: as gdevd stops, it closes
 * connections before it ends sessions. */
static void maybe_free(struct worker *worker)
{
	struct device *device = worker->device;

	if (worker->connection || worker->child || worker->session)
		return;
	deadline_cancel(&worker->deadline);
	residency_finish_worker(worker);
	memory_return(&worker->memory, worker->memory.used_bytes);
	list_remove(&worker->lacking);
	fd_close_all(worker->fds, WORKER_FDS);
	if (worker->trace_fd >= 0)
		closer_close(NULL, &worker->trace_fd, 1);
	if (worker->page)
		munmap(worker->page, sizeof *worker->page);
	list_remove(&worker->link);
	list_remove(&worker->by_device);
	device->workers.total--;
	free(worker);
	worker_limits_gone(device->daemon);
	residency_balance_all(device->daemon);
	relief_serve(device);
	workers_adjust(device);
	daemon_maybe_leave(device->daemon);
}

void worker_cannot(struct worker *worker, const char *why)
{
	snprintf(worker->why, sizeof worker->why, "%s", why);
}

static void start_failed(struct worker *worker)
{
	struct device *device = worker->device;
	struct daemon *daemon = device->daemon;
	struct workers *workers = &device->workers;
	unsigned doublings;

	snprintf(workers->why, sizeof workers->why, "%s",
		*worker->why ? worker->why : "its worker died when it started");
	if (++workers->failures < FAILURES_ALLOWED)
		return;
	doublings = min_of(workers->failures - FAILURES_ALLOWED, (unsigned)BACK_OFF_DOUBLINGS);
	workers->backing_off = true;
	deadline_set(
		&daemon->deadlines, &workers->retry, clock_now_ns() + (BACK_OFF_NS << doublings));
	log_error(
		"device %s: %u workers in a row died when they started (%s); the next try is in %llu ms",
		device->served->name, workers->failures, workers->why,
		(BACK_OFF_NS << doublings) / NS_PER_MS);
	workers->hopeless = doublings >= HOPELESS_DOUBLINGS;
	if (workers->hopeless)
		clients_wait_anew(device);
}

/* Out of the state it is in; what it was doing is undone. */
static void retire_worker(struct worker *worker, const char *reason)
{
	struct workers *workers = &worker->device->workers;
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
			start_failed(worker);
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
	else if (worker->started) /* restored, and has hung up: it may go on without us */
		process_kill(worker->pid, worker->started);
}

/* The worker has no connection any more. A child of ours is on its way out, and is killed if it takes long. The worker may
 * be gone afterwards. */
static void worker_hung_up(struct worker *worker)
{
	if (worker->connection)
		connection_destroy(worker->connection);
	worker->connection = NULL;
	if (worker->child)
		deadline_set(&worker->daemon->deadlines, &worker->deadline,
			clock_now_ns() + EXIT_GRACE_NS);
	strangers_unask(worker);
	maybe_free(worker);
}

void worker_kill(struct worker *worker, const char *why)
{
	complain("killed worker %d: %s", (int)worker->pid, why);
	worker_cannot(worker, why);
	send_signal_kill(worker);
	retire_worker(worker, "worker was killed");
	worker->killed = true;
	worker_hung_up(worker);
}

bool worker_is_going(const struct worker *worker)
{
	return (worker->state == WORKER_SERVING || worker->state == WORKER_LEAVING) &&
	       !list_empty(&worker->deadline.link);
}

/* The killed worker does not end. What waits for its memory is told not to. */
static void give_up(struct worker *worker)
{
	struct device *device = worker->device;

	complain(
		"worker %d was killed and does not end: nobody waits any longer for its %llu MiB of the device",
		(int)worker->pid, (unsigned long long)(worker->memory.used_bytes >> 20));
	residency_balance(device);
	relief_serve(device);
	workers_adjust(device);
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

	/* A device that hangs is as good as one that failed several times. */
	if (worker->state == WORKER_STARTING && !worker->restored)
		worker->device->workers.failures += FAILURES_ALLOWED - 1;
	if (worker->killed)
		give_up(worker);
	else if (worker->state == WORKER_WARM)
		strangers_late(worker);
	else
		worker_kill(worker, reasons[worker->state]);
}

void worker_leave(struct worker *worker)
{
	worker->state = WORKER_LEAVING;
	worker->since_ns = clock_now_ns();
	deadline_set(
		&worker->daemon->deadlines, &worker->deadline, worker->since_ns + EXIT_GRACE_NS);
	strangers_unask(worker);
}

static void on_closed(struct connection *connection, int error)
{
	struct worker *worker = connection->owner;

	if (error) {
		worker_kill(worker, strerror(-error));
		return;
	}
	retire_worker(worker, worker_cgroup_ran_out(&worker->daemon->cgroups, worker->pid)
				      ? "took more memory than it may"
				      : "worker died");
	/* A worker closes its connection as it ends. One that is not our child would go on with what it holds. */
	if (worker->started)
		process_kill(worker->pid, worker->started);
	worker_hung_up(worker);
}

/* Whether its process has ended; the worker may be gone then. */
static bool reap_worker(struct worker *worker)
{
	bool expected = worker->state == WORKER_LEAVING;
	int status;

	if (!worker->child || worker->start || waitpid(worker->pid, &status, WNOHANG) <= 0)
		return false;
	worker->child = false;
	if (WIFSIGNALED(status) && worker_cgroup_ran_out(&worker->daemon->cgroups, worker->pid))
		complain(
			"worker %d took more memory than it may: the kernel has ended it (worker_memory, host_memory, "
			"host_swap and device_memory in gdev.conf(5) say how much that is)",
			(int)worker->pid);
	else if (WIFSIGNALED(status) && !(expected && WTERMSIG(status) == SIGKILL))
		log_warning("worker %d died of signal %d (%s)", (int)worker->pid, WTERMSIG(status),
			strsignal(WTERMSIG(status)));
	else if (WIFEXITED(status) && WEXITSTATUS(status))
		log_warning(
			"worker %d exited with status %d", (int)worker->pid, WEXITSTATUS(status));
	/* The end of file of its connection brings the rest, unless that has come. */
	maybe_free(worker);
	return true;
}

void workers_reap(struct daemon *daemon)
{
	struct list *link = daemon->workers.next;

	while (link != &daemon->workers) /* an end may bring others */
		link = reap_worker(list_entry(link, struct worker, link)) ? daemon->workers.next
									  : link->next;
}

static const struct connection_ops worker_connection_ops = {
	.message = worker_message,
	.closed = on_closed,
	.brings = worker_brings,
	.waits = worker_message_waits,
};

/* ---- the start of a worker ---- */

static struct worker *create_worker(struct device *device)
{
	struct worker *worker = calloc(1, sizeof *worker);

	if (!worker)
		return NULL;
	worker->daemon = device->daemon;
	worker->device = device;
	worker->state = WORKER_STARTING;
	worker->since_ns = clock_now_ns();
	memset(worker->fds, -1, sizeof worker->fds);
	worker->trace_fd = -1;
	memory_init(&worker->memory, &device->memory, UINT64_MAX);
	residency_init_worker(worker);
	list_init(&worker->lacking);
	deadline_init(&worker->deadline, on_late);
	list_append(&device->daemon->workers, &worker->link);
	list_append(&device->workers.all, &worker->by_device);
	device->workers.total++;
	return worker;
}

void worker_move(struct worker *worker, struct device *device)
{
	worker->device->workers.total--;
	list_remove(&worker->by_device);
	worker->device = device;
	list_append(&device->workers.all, &worker->by_device);
	device->workers.total++;
}

static void on_started(uv_work_t *work, int status)
{
	struct worker_start *start = container_of(work, struct worker_start, work);
	struct worker *worker = start->worker;
	autoclose int socket = start->sockets[0];
	char why[80];
	int error = start->error, unbounded = start->unbounded;

	close(start->sockets[1]);
	if (worker)
		worker->pid = start->pid;
	free(start);
	if (!worker)
		return; /* the process ends when it finds its socket closed */
	worker->start = NULL;
	worker->child = !error;
	if (error) {
		log_error("cannot start %s: %s", worker->daemon->program.path, strerror(-error));
		worker_cannot(worker, strerror(-error));
		retire_worker(worker, "");
		maybe_free(worker);
	} else if (worker->killed) { /* it was killed before its pid was known */
		send_signal_kill(worker);
		reap_worker(worker);
	} else if (unbounded) {
		snprintf(why, sizeof why, "it cannot have a cgroup of its own: %s",
			strerror(-unbounded));
		worker_kill(worker, why);
	} else if (connection_create(&worker->daemon->loop, steal_fd(&socket),
			   &worker_connection_ops, worker, NULL, &worker->connection)) {
		worker_kill(worker, "gdevd has no resources for another");
	} else {
		worker->connection->pid = worker->pid;
		reap_worker(worker); /* nobody looked at it until now */
	}
}

/* Begins to start one; false: there is no memory to. Another failure counts as a death at the start. */
static bool spawn_worker(struct device *device)
{
	struct daemon *daemon = device->daemon;
	struct worker *worker = create_worker(device);
	struct worker_start *start = calloc(1, sizeof *start);

	if (!worker) {
		free(start);
		return false;
	}
	device->workers.starting++;
	if (!start || socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, start->sockets)) {
		log_error("cannot start a worker: %s", strerror(errno));
		worker_cannot(worker, strerror(errno));
		free(start);
		retire_worker(worker, "");
		maybe_free(worker);
		return true;
	}
	worker_start_fill(start, device);
	start->worker = worker;
	worker->start = start;
	worker->child = true;
	worker->pid = -1;
	deadline_set(&daemon->deadlines, &worker->deadline, worker->since_ns + START_TIMEOUT_NS);
	uv_queue_work(&daemon->loop, &start->work, worker_start_process, on_started);
	return true;
}

/* A child's pid is its own until it is reaped; that of another worker, as long as it is connected. The sandbox lets no
 * worker make a process, nor change its user. */
static bool has_pid(const struct worker *worker, pid_t pid)
{
	return worker->pid == pid &&
	       (worker->child || (worker->connection && connection_has_peer(worker->connection)));
}

bool workers_include(const struct daemon *daemon, pid_t pid, uid_t uid)
{
	const struct worker *worker;

	if (uid == daemon->program.uid)
		return true;
	list_for_each (worker, &daemon->workers, link)
		if (pid > 0 && has_pid(worker, pid)) /* 0: of another pid namespace */
			return true;
	return false;
}

/* A worker has one connection: with more it could keep all others from having any. */
static bool is_known(const struct worker *worker)
{
	const struct worker *other;

	list_for_each (other, &worker->daemon->workers, link)
		if (other != worker && other->pid == worker->pid)
			return true;
	return false;
}

/* Which device it works on is known when it has said whom it serves (session_restore()). */
void worker_accept(struct daemon *daemon, int fd)
{
	struct worker *worker = create_worker(device_first(daemon));
	struct user *user;

	if (!worker) {
		porters_close_of_peer(&daemon->users, fd);
		return;
	}
	worker->restored = true;
	if (connection_create(&daemon->loop, fd, &worker_connection_ops, worker, &daemon->users,
		    &worker->connection)) {
		maybe_free(worker);
		return;
	}
	worker->pid = worker->connection->pid;
	/* It is in the hands of the client whom it serves. */
	user = user_get(&daemon->users,
		session_uid_of_worker(daemon, worker->pid, worker->connection->uid));
	if (user)
		connection_charge_to(worker->connection, user);
	user_put(user);
	if (is_known(worker)) {
		complain("worker %d registers again, although it is known", (int)worker->pid);
		worker_hung_up(worker);
		return;
	}
	deadline_set(&daemon->deadlines, &worker->deadline, worker->since_ns + REGISTER_TIMEOUT_NS);
}

/* The worker is warm. A client may be waiting for it. */
static void become_warm(struct worker *worker)
{
	struct device *device = worker->device;
	struct client *client = client_waiting(device);

	worker->state = WORKER_WARM;
	worker->since_ns = clock_now_ns();
	deadline_cancel(&worker->deadline);
	device->workers.warm++;
	if (client)
		client_wait(client);
	/* Also if a client took it: there may be no room for it in the client's virtual GPU, and a segment that waits
	 * to be carried out could make some. */
	workers_adjust(device);
	strangers_look(device);
}

void worker_ready(struct worker *worker)
{
	struct workers *workers = &worker->device->workers;

	workers->starting--;
	if (workers->hopeless)
		log_info("device %s works again", worker->device->served->name);
	workers->failures = 0;
	workers->backing_off = workers->hopeless = false;
	*workers->why = '\0';
	deadline_cancel(&workers->retry);
	become_warm(worker);
}

void worker_rejoin(struct worker *worker)
{
	/* It has room there: the virtual GPU's memory is the device's. */
	memory_reparent(&worker->memory, &worker->device->memory);
	become_warm(worker);
}

void worker_carry(struct worker *worker)
{
	struct workers *workers = &worker->device->workers;

	worker->state = WORKER_CARRYING;
	worker->since_ns = clock_now_ns();
	workers->warm--;
	workers->carrying++;
	deadline_set(
		&worker->daemon->deadlines, &worker->deadline, worker->since_ns + CARRY_TIMEOUT_NS);
	strangers_unask(worker);
}

/* ---- the pool ---- */

struct worker *workers_take_warm(struct device *device)
{
	struct worker *worker;

	list_for_each (worker, &device->workers.all, by_device)
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
	retire_worker(worker, "");
	worker_leave(worker);
}

void workers_device_lost(struct worker *lost)
{
	struct device *device = lost->device;
	struct worker *worker;

	device->losses++;
	/* A worker in its client's hands may say so as often as it likes. */
	if (device->lost_ns && clock_now_ns() - device->lost_ns < LOST_NS)
		return;
	device->lost_ns = clock_now_ns();
	log_error(
		"device %s failed under worker %d of process %d; the %u warm workers are replaced",
		device->served->name, (int)lost->pid, (int)lost->session->pid,
		device->workers.warm);
	while ((worker = workers_take_warm(device)))
		worker_send_away(worker);
}

void worker_carried(struct worker *worker)
{
	struct device *device = worker->device;

	device->workers.carrying--;
	become_warm(worker);
	/* If the worker was started to carry alone, its context is in the room that was lacking: it goes. */
	if (worker->state == WORKER_WARM && device->workers.warm > relief_pool_size(device))
		worker_send_away(worker);
}

static void on_retire(struct deadline *deadline, uint64_t now_ns)
{
	struct device *device = container_of(deadline, struct device, workers.retire);
	struct worker *worker = workers_take_warm(device);

	if (device->workers.missed)
		device->workers.missed--;
	if (worker && device->workers.warm > relief_pool_size(device)) {
		log_debug("worker %d is not needed any more", (int)worker->pid);
		worker_send_away(worker);
	}
	workers_adjust(device);
}

static void on_retry(struct deadline *deadline, uint64_t now_ns)
{
	struct device *device = container_of(deadline, struct device, workers.retry);

	device->workers.backing_off = false;
	workers_adjust(device);
}

/* Whether there is device memory for one more context. Nobody leaves for a warm one; for that of a client that waits
 * others do, or it is told that there is none. */
static bool has_room(struct device *device)
{
	struct workers *workers = &device->workers;
	uint64_t bytes = (workers->starting + 1) * device->overhead_bytes;
	struct client *client;
	int status;

	if (!device->overhead_bytes || bytes <= memory_free(&device->memory))
		return true;
	if (client_waiting_count(device, NULL) <= workers->warm + workers->starting)
		return false;
	status = residency_make_room(device, NULL, bytes);
	if (status == -ENOMEM && !workers->warm && !workers->starting && strangers_forget(device))
		return has_room(device);
	if (status == -ENOMEM && !workers->warm && !workers->starting)
		while ((client = client_waiting(device)))
			client_refuse(client, -ENOMEM,
				"the device has no memory left for another context, and nobody can leave; 'gdev status' "
				"shows who holds it");
	return !status;
}

/* Whether a worker is to try if the device works again. While one that was killed does not end, which a driver that hangs
 * can keep it from, another would only join it. */
static bool is_to_be_tried(const struct device *device)
{
	const struct worker *worker;

	list_for_each (worker, &device->workers.all, by_device)
		if (worker->killed)
			return false;
	return device_is_failing(device) && !device->drained;
}

/* How many there should be. */
static unsigned count_wanted(
	struct device *device, unsigned waiting, unsigned lacking, unsigned pool)
{
	const struct workers *workers = &device->workers;
	unsigned tries = is_to_be_tried(device), wanted;

	if (workers->hopeless)
		return tries;
	/* The driver makes contexts one after another: those for the pool would hold up those for clients. */
	wanted = lacking ? waiting : waiting + pool;
	wanted += !workers->warm && !workers->carrying && shm_wants_carrier(device);
	return max_of(wanted, tries);
}

void workers_adjust(struct device *device)
{
	struct workers *workers = &device->workers;
	unsigned waiting = client_waiting_count(device, NULL), lacking, pool, wanted;

	if (device->daemon->stopping || workers->adjusting)
		return;
	workers->adjusting = true; /* a spawn that fails at once comes back here */
	lacking = waiting - min_of(waiting, workers->warm); /* the others wait for room */
	workers->missed = max_of(workers->missed, lacking);
	pool = relief_pool_size(device);
	wanted = count_wanted(device, waiting, lacking, pool);
	while (!workers->backing_off && workers->warm + workers->starting < wanted &&
		workers->starting < device->daemon->program.starting_max &&
		devices_count_workers(device->daemon) < device->daemon->config.max_workers &&
		has_room(device) && spawn_worker(device))
		;
	workers->adjusting = false;
	shm_carry(device); /* last: making room above may have had another segment leave */
	while (device->drained && workers->warm > pool)
		worker_send_away(workers_take_warm(device));
	if (!workers->warm && !workers->starting && !workers->carrying)
		shm_no_carrier(device);
	if (workers->warm <= pool && !workers->missed)
		deadline_cancel(&workers->retire);
	else if (list_empty(&workers->retire.link))
		deadline_set(&device->daemon->deadlines, &workers->retire,
			clock_now_ns() + device->daemon->config.worker_idle_ns);
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
	struct worker_program *program = &daemon->program;
	long processors = sysconf(_SC_NPROCESSORS_ONLN);

	program->starting_max = (unsigned)max_of(2L, min_of(8L, processors));
	if (!path)
		return paths_sibling(places, program->path);
	if (snprintf(program->path, sizeof program->path, "%s", path) >= (int)sizeof program->path)
		return -ENAMETOOLONG;
	return access(path, X_OK) ? -errno : 0;
}

void workers_init_device(struct device *device)
{
	list_init(&device->workers.all);
	deadline_init(&device->workers.retire, on_retire);
	deadline_init(&device->workers.retry, on_retry);
}

/* Workers with a session go on and register with the next gdevd; the others leave. */
void workers_stop(struct daemon *daemon)
{
	struct worker *worker, *after;

	list_for_each_safe (worker, after, &daemon->workers, link) {
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

	list_for_each_safe (worker, after, &daemon->workers, link) {
		if (worker->start)
			worker->start->worker = NULL;
		worker->child = false;
		maybe_free(worker);
	}
}
