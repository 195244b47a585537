/* SPDX-License-Identifier: MIT
 *
 * See porters.h.
 *
 * Life of a porter: it is being started (on a thread of libuv's, as a worker is), and has copies of sockets of its own
 * by then; works; is done when gdevd has closed its line; and is forgotten when it has been reaped. As long as the line
 * is open it holds what it has, so that nothing which gdevd closes meanwhile is the last of its kind.
 */
#include "gdevd/porters.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/fd.h"
#include "gdevd/connection.h"
#include "gdevd/process.h"
#include "gdevd/users.h"

#define PORTERS_A_USER 4
/* Sockets that a porter more is started for, which takes them all: what hangs keeps so many descriptors of gdevd's at
 * most. For each one the user has a descriptor under way, of which the kernel lets it have RLIMIT_NOFILE. */
#define CLOSING_MAX 1024
#define ANSWER_TIME_NS (10 * NS_PER_S)
#define AGAIN_NS NS_PER_S

struct porter {
	struct list link;               /* porters.all */
	struct user *user;              /* NULL: gdevd ends */
	struct porter_request *request; /* NULL: nobody waits for an answer */
	uv_loop_t *loop;
	uv_work_t work;
	uv_poll_t poll;
	bool starting, polls;
	pid_t pid;   /* 0: it has been reaped, or never was */
	int line[2]; /* gdevd's end and the porter's */
	int error;
	char path[PATHS_MAX];
	char numbers[6][24]; /* its arguments */
	char *arguments[8];
	size_t count;
	int sockets[];
};

static void start_porters(struct user *user);

static void open_spare(struct porters *porters)
{
	if (porters->spare < 0)
		porters->spare = open("/dev/null", O_RDONLY | O_CLOEXEC);
}

/* ---- the end of a porter ---- */

/* Forgets it when nothing is left of it. */
static void maybe_free(struct porter *porter)
{
	struct user *user = porter->user;

	if (porter->starting || porter->polls || porter->pid || porter->line[0] >= 0)
		return;
	list_remove(&porter->link);
	free(porter);
	if (!user)
		return;
	user->porting.count--;
	start_porters(user);
	user_put(user);
}

static void on_poll_closed(uv_handle_t *handle)
{
	struct porter *porter = handle->data;

	porter->polls = false;
	maybe_free(porter);
}

/* The porter may end from now on. */
static void close_line(struct porter *porter)
{
	if (porter->starting || porter->line[0] < 0)
		return;
	if (porter->polls)
		uv_close((uv_handle_t *)&porter->poll, on_poll_closed);
	close(steal_fd(&porter->line[0]));
}

/* Nobody waits for the porter's answer any more. It may be stuck. */
static void abandon_porter(struct porter *porter)
{
	porter->request = NULL;
	if (porter->starting)
		return;
	if (porter->pid)
		kill(porter->pid, SIGKILL);
	close_line(porter);
}

static void reap_porter(struct porter *porter)
{
	if (porter->starting || !porter->pid || waitpid(porter->pid, NULL, WNOHANG) <= 0)
		return;
	/* If somebody waits for its answer, the loop hears of its end from the line. */
	porter->pid = 0;
	maybe_free(porter);
}

void porters_reap(struct users *users)
{
	struct porter *porter, *after;

	list_for_each_safe (porter, after, &users->porters.all, link)
		reap_porter(porter);
}

/* gdevd ends, and is nobody's parent any more. */
static void forget_porter(struct porter *porter)
{
	if (porter->starting)
		return;
	porter->pid = 0;
	maybe_free(porter);
}

/* ---- requests ---- */

static struct porter *let_go(struct porter_request *request)
{
	struct porter *porter = request->porter;

	deadline_cancel(&request->late);
	list_remove(&request->link);
	request->porter = NULL;
	if (porter)
		porter->request = NULL;
	return porter;
}

static void on_line(uv_poll_t *poll, int status, int events)
{
	struct porter *porter = poll->data;
	struct porter_request *request = porter->request;
	char yes;

	let_go(request);
	/* The request may be gone then. */
	request->answered(request, read(porter->line[0], &yes, sizeof yes) == 1 ? 0 : -EACCES);
	close_line(porter);
}

static void on_late(struct deadline *deadline, uint64_t now_ns)
{
	struct porter_request *request = container_of(deadline, struct porter_request, late);
	unsigned uid = (unsigned)request->user->uid;

	porter_request_cancel(request);
	complain(
		"descriptors that uid %u sent were not looked at in time: another that it sent hangs",
		uid);
	request->answered(request, -ETIMEDOUT);
}

void porter_request_init(
	struct porter_request *request, void (*answered)(struct porter_request *request, int error))
{
	list_init(&request->link);
	request->porter = NULL;
	deadline_init(&request->late, on_late);
	request->answered = answered;
}

bool porter_request_waits(const struct porter_request *request)
{
	return !list_empty(&request->late.link);
}

void porter_request_cancel(struct porter_request *request)
{
	struct porter *porter = let_go(request);

	if (porter)
		abandon_porter(porter);
}

void porters_look(struct porter_request *request, struct user *user, int socket,
	const struct porter_limits *limits)
{
	request->user = user;
	request->socket = socket;
	request->limits = *limits;
	list_append(&user->porting.requests, &request->link);
	deadline_set(user->users->deadlines, &request->late, clock_now_ns() + ANSWER_TIME_NS);
	start_porters(user);
}

/* ---- sockets that are to be closed ---- */

/* Looking takes a descriptor, and it is sockets that are closed which free some. */
static bool holds_descriptors(struct porters *porters, int socket)
{
	int holds;

	holds = fd_holds_descriptors(socket);
	if ((holds == -EMFILE || holds == -ENFILE) && porters->spare >= 0) {
		close(steal_fd(&porters->spare));
		holds = fd_holds_descriptors(socket);
		open_spare(porters);
	}
	return holds;
}

static void keep_socket(struct user *user, int socket)
{
	struct porting *porting = &user->porting;
	size_t room = 2 * porting->closing_room + 16;
	int *more;

	if (porting->closing_count == porting->closing_room) {
		more = realloc(porting->closing, room * sizeof *more);
		if (!more)
			return; /* better one descriptor less than to hang */
		porting->closing = more;
		porting->closing_room = room;
	}
	if (!porting->closing_count)
		user_ref(user);
	porting->closing[porting->closing_count++] = socket;
	user_hold_anyway(user, 1);
}

void porters_close(struct user *user, int socket)
{
	if (!holds_descriptors(&user->users->porters, socket)) {
		close(socket);
		return;
	}
	porters_let_go(user, socket);
}

void porters_let_go(struct user *user, int socket)
{
	keep_socket(user, socket);
	start_porters(user);
}

void porters_close_of_peer(struct users *users, int socket)
{
	struct ucred peer = {.uid = geteuid()};
	socklen_t length = sizeof peer;
	struct user *user;

	getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &peer, &length);
	user = user_get(users, peer.uid);
	if (user)
		porters_close(user, socket);
	user_put(user);
}

int porters_outlive(struct user *user, int socket)
{
	int copy;

	if (!holds_descriptors(&user->users->porters, socket))
		return 0;
	copy = fcntl(socket, F_DUPFD_CLOEXEC, 0);
	if (copy < 0)
		return -errno;
	porters_let_go(user, copy);
	return 0;
}

/* ---- the start of a porter ---- */

/* On the thread. */
static void start_process(uv_work_t *work)
{
	struct porter *porter = container_of(work, struct porter, work);
	posix_spawn_file_actions_t files;
	char *environment[] = {NULL};

	posix_spawn_file_actions_init(&files);
	posix_spawn_file_actions_addopen(&files, STDIN_FILENO, "/dev/null", O_RDWR, 0);
	posix_spawn_file_actions_adddup2(&files, STDIN_FILENO, STDOUT_FILENO);
	posix_spawn_file_actions_adddup2(&files, STDIN_FILENO, STDERR_FILENO);
	/* A descriptor that is put in its own place stays open in the program. */
	posix_spawn_file_actions_adddup2(&files, porter->line[1], porter->line[1]);
	for (size_t i = 0; i < porter->count; i++)
		posix_spawn_file_actions_adddup2(&files, porter->sockets[i], porter->sockets[i]);
	porter->error = process_spawn(&porter->pid, porter->arguments, environment, &files);
}

static void try_again(struct users *users, int error)
{
	complain("cannot start a porter: %s; the next try is in a second", strerror(-error));
	deadline_set(users->deadlines, &users->porters.again, clock_now_ns() + AGAIN_NS);
}

/* The porter could not be started: its request, or what it was to close, waits for another. */
static void not_started(struct porter *porter)
{
	struct user *user = porter->user;
	struct porter_request *request = porter->request;

	porter->pid = 0;
	close_line(porter);
	if (request) {
		request->porter = NULL;
		list_append(&user->porting.requests, &request->link);
	}
	for (size_t i = 0; i < porter->count; i++)
		if (user)
			keep_socket(user, porter->sockets[i]);
	if (user)
		try_again(user->users, porter->error);
}

static void on_started(uv_work_t *work, int status)
{
	struct porter *porter = container_of(work, struct porter, work);
	int error;

	porter->starting = false;
	close(steal_fd(&porter->line[1]));
	if (porter->error) {
		not_started(porter);
		maybe_free(porter);
		return;
	}
	fd_close_all(porter->sockets, porter->count); /* it has them */
	if (!porter->request && porter->arguments[2]) {
		abandon_porter(porter);
	} else if (!porter->request) {
		close_line(porter);
	} else if (!(error = uv_poll_init(porter->loop, &porter->poll, porter->line[0]))) {
		porter->polls = true;
		porter->poll.data = porter;
		uv_poll_start(&porter->poll, UV_READABLE, on_line);
	} else {
		struct porter_request *request = porter->request;
		let_go(request);
		abandon_porter(porter);
		request->answered(request, error);
	}
	if (porter->user)
		reap_porter(porter);
	else
		forget_porter(porter);
}

static void fill_arguments(struct porter *porter, const struct porter_request *request)
{
	const struct porter_limits *limits = request ? &request->limits : NULL;
	const uint64_t numbers[] = {
		(uint64_t)porter->line[1],
		(uint64_t)porter->sockets[0],
		limits ? limits->fds : 0,
		limits ? limits->memory : 0,
		limits ? limits->device : 0,
		limits ? limits->inode : 0,
	};

	porter->arguments[0] = porter->path;
	for (unsigned i = 0; i < (limits ? array_length(numbers) : 1); i++) {
		snprintf(porter->numbers[i], sizeof porter->numbers[i], "%" PRIu64, numbers[i]);
		porter->arguments[i + 1] = porter->numbers[i];
	}
}

/* Gives the porter copies of the sockets: whoever has them may close them before it is started. */
static int give_sockets(struct porter *porter, const struct porter_request *request)
{
	struct porting *porting = &porter->user->porting;

	if (request) {
		porter->sockets[0] = fcntl(request->socket, F_DUPFD_CLOEXEC, 0);
		return porter->sockets[0] < 0 ? -errno : 0;
	}
	memcpy(porter->sockets, porting->closing, porter->count * sizeof *porting->closing);
	porting->closing_count = 0;
	user_release(porter->user, porter->count);
	user_put(porter->user);
	return 0;
}

/* Starts a porter for a request, or (NULL) for the sockets that are to be closed. */
static int start_porter(struct user *user, struct porter_request *request)
{
	struct porters *porters = &user->users->porters;
	size_t count = request ? 1 : user->porting.closing_count;
	struct porter *porter = calloc(1, sizeof *porter + count * sizeof *porter->sockets);
	int error;

	if (!porter)
		return -ENOMEM;
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, porter->line)) {
		error = -errno;
		goto err_free;
	}
	porter->loop = user->users->idle.loop;
	porter->user = user_ref(user);
	porter->count = count;
	error = give_sockets(porter, request);
	if (error)
		goto err_line;
	strcpy(porter->path, porters->path);
	fill_arguments(porter, request);
	porter->request = request;
	if (request) {
		list_remove(&request->link);
		request->porter = porter;
	}
	list_append(&porters->all, &porter->link);
	user->porting.count++;
	porter->starting = true;
	uv_queue_work(porter->loop, &porter->work, start_process, on_started);
	return 0;

err_line:
	user_put(user);
	fd_close_all(porter->line, array_length(porter->line));
err_free:
	free(porter);
	return error;
}

static void start_porters(struct user *user)
{
	struct porting *porting = &user->porting;
	struct porters *porters = &user->users->porters;
	struct porter_request *request;
	int error = 0;

	if (!list_empty(&porters->again.link) || !*porters->path)
		return;
	while (!error && porting->count < PORTERS_A_USER &&
		(request = list_first(&porting->requests, struct porter_request, link)))
		error = start_porter(user, request);
	if (!error && porting->closing_count &&
		(porting->count < PORTERS_A_USER || porting->closing_count >= CLOSING_MAX))
		error = start_porter(user, NULL);
	if (error)
		try_again(user->users, error);
}

/* ---- all of them ---- */

static void on_again(struct deadline *deadline, uint64_t now_ns)
{
	struct users *users = container_of(deadline, struct users, porters.again);
	struct user *user, *after;

	list_for_each_safe (user, after, &users->all, link)
		start_porters(user);
}

void porters_init(struct users *users)
{
	list_init(&users->porters.all);
	deadline_init(&users->porters.again, on_again);
	users->porters.spare = -1;
	open_spare(&users->porters);
}

int porters_find(struct users *users, const char *path)
{
	static const char *const places[] = {
		"gdev-porter",                 /* the build tree */
		"../libexec/gdev/gdev-porter", /* installed, wherever that tree is */
		"../" GDEV_LIBEXECDIR "/gdev/gdev-porter",
		NULL,
	};
	char *found = users->porters.path;

	if (!path)
		return paths_sibling(places, found);
	return snprintf(found, PATHS_MAX, "%s", path) < PATHS_MAX ? 0 : -ENAMETOOLONG;
}

void porters_stop(struct users *users)
{
	struct porter *porter, *after;

	*users->porters.path = '\0'; /* no more are started */
	if (users->porters.spare >= 0)
		close(steal_fd(&users->porters.spare));
	list_for_each_safe (porter, after, &users->porters.all, link) {
		porter->user = NULL;
		abandon_porter(porter);
		forget_porter(porter);
	}
}
