/* SPDX-License-Identifier: MIT
 *
 * The sockets that gdevd listens on, in its runtime directory, and the directory itself. A lock on a
 * file there says that this gdevd owns the directory: whatever sockets it finds are left from one that
 * died.
 */
#include "gdevd/daemon.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/log.h"

/* A peer that connects faster waits in the socket's queue, and pays for it itself. */
#define ACCEPTS_A_MS 8
#define LEAVE_TIME_NS (10 * NS_PER_S) /* for a gdevd that leaves, or is killed if it does not */
#define LOCK_LOOK_NS (2 * NS_PER_MS)
#define BACKLOG 128
#ifndef SO_PASSRIGHTS
#define SO_PASSRIGHTS 83
#endif

struct listener {
	uv_poll_t poll;
	struct daemon *daemon;
	int fd;
	void (*accepted)(struct listener *listener, int fd);
	struct vgpu *vgpu; /* NULL: not one of a virtual GPU */
	char path[PATHS_SOCKET_MAX];
	struct list link;
	unsigned count; /* of those that were accepted since then: */
	uint64_t since_ns;
	struct deadline rest; /* until more may be */
};

static struct list listeners = {&listeners, &listeners};

/* Given up when there are no descriptors left, so that a connection can be accepted and closed: it would
 * be ready for ever otherwise, and the loop would spin. */
static int spare_fd = -1;

static int accept_one(const struct listener *listener)
{
	int fd = accept4(listener->fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);

	if (fd >= 0)
		return fd;
	if ((errno == EMFILE || errno == ENFILE) && spare_fd >= 0) {
		close(spare_fd);
		fd = accept4(listener->fd, NULL, NULL, SOCK_CLOEXEC);
		if (fd >= 0)
			porters_close_of_peer(&listener->daemon->users, fd);
		spare_fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
		complain("no file descriptors left: a connection was refused");
		return -EMFILE;
	}
	return -errno;
}

static void on_poll(uv_poll_t *poll, int status, int events)
{
	struct listener *listener = poll->data;
	uint64_t now_ns = clock_now_ns();

	if (now_ns >= listener->since_ns + NS_PER_MS) {
		listener->since_ns = now_ns;
		listener->count = 0;
	}
	for (; listener->count < ACCEPTS_A_MS; listener->count++) {
		int fd = accept_one(listener);
		if (fd < 0)
			return;
		listener->accepted(listener, fd);
		if (listener->daemon->stopping)
			return;
	}
	uv_poll_stop(poll);
	deadline_set(&listener->daemon->deadlines, &listener->rest, listener->since_ns + NS_PER_MS);
}

static void on_rested(struct deadline *deadline, uint64_t now_ns)
{
	struct listener *listener = container_of(deadline, struct listener, rest);

	uv_poll_start(&listener->poll, UV_READABLE, on_poll);
}

static void accepted_client(struct listener *listener, int fd)
{
	client_accept(listener->daemon, fd, listener->vgpu);
}

static void accepted_worker(struct listener *listener, int fd)
{
	worker_accept(listener->daemon, fd);
}

static void accepted_scrape(struct listener *listener, int fd)
{
	metrics_accept(listener->daemon, fd);
}

/* Binds a socket that gets its name when it has its owner and mode, and listens. Until then the name is that of the
 * gdevd before, and a client that connects waits (lib/libgdev/connect.c). Where no descriptors are `taken`, the kernel
 * refuses to send any, if it can (Linux 6.16). */
static int bind_socket(const struct daemon *daemon, int type, const char *path, uid_t owner,
	gid_t group, mode_t mode, bool taken)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	const char *unnamed = address.sun_path;
	mode_t mask;
	int fd, error = 0, no = 0;

	/* Shorter than any `path`, which fits. */
	snprintf(address.sun_path, sizeof address.sun_path, "%.*s/.new", PATHS_SOCKET_MAX - 6,
		daemon->runtime_dir);
	fd = socket(AF_UNIX, type | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd < 0)
		return -errno;
	if (!taken)
		setsockopt(fd, SOL_SOCKET, SO_PASSRIGHTS, &no, sizeof no);
	unlink(unnamed);
	mask = umask(0777);
	if (bind(fd, (struct sockaddr *)&address, sizeof address))
		error = -errno;
	umask(mask);
	if (!error && (owner != geteuid() || group != getegid()) && chown(unnamed, owner, group))
		error = -errno;
	if (!error && (listen(fd, BACKLOG) || chmod(unnamed, mode) || rename(unnamed, path)))
		error = -errno;
	if (error) {
		unlink(unnamed);
		close(fd);
		return error;
	}
	return fd;
}

/* A socket over TCP, of this machine alone. */
static int bind_address(const struct config_address *address)
{
	struct sockaddr_in6 six = {.sin6_family = AF_INET6, .sin6_port = htons(address->port)};
	struct sockaddr_in four = {.sin_family = AF_INET, .sin_port = htons(address->port)};
	bool is_six = inet_pton(AF_INET6, address->host, &six.sin6_addr) == 1;
	int fd, yes = 1, error;

	if (!is_six && inet_pton(AF_INET, address->host, &four.sin_addr) != 1)
		return -EINVAL;
	fd = socket(is_six ? AF_INET6 : AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd < 0)
		return -errno;
	setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
	if (!bind(fd, is_six ? (struct sockaddr *)&six : (struct sockaddr *)&four,
		    is_six ? sizeof six : sizeof four) &&
		!listen(fd, BACKLOG))
		return fd;
	error = -errno;
	close(fd);
	return error;
}

/* Takes the descriptor over. `path` NULL: nothing to be removed at the end. */
static int listen_on(struct daemon *daemon, int fd, const char *path,
	void (*accepted)(struct listener *listener, int fd), struct vgpu *vgpu)
{
	struct listener *listener = calloc(1, sizeof *listener);
	int error = listener ? 0 : -ENOMEM;

	if (!error) {
		listener->daemon = daemon;
		listener->accepted = accepted;
		listener->vgpu = vgpu;
		listener->poll.data = listener;
		listener->fd = fd;
		deadline_init(&listener->rest, on_rested);
		snprintf(listener->path, sizeof listener->path, "%s", path ? path : "");
		error = uv_poll_init(&daemon->loop, &listener->poll, fd);
	}
	if (error) {
		close(fd);
		if (path)
			unlink(path);
		free(listener);
		return error;
	}
	uv_poll_start(&listener->poll, UV_READABLE, on_poll);
	list_append(&listeners, &listener->link);
	return 0;
}

static int add_listener(struct daemon *daemon, int type, const char *name, uid_t owner, gid_t group,
	mode_t mode, void (*accepted)(struct listener *listener, int fd), struct vgpu *vgpu)
{
	char path[PATHS_SOCKET_MAX];
	int error = -ENAMETOOLONG;

	if (snprintf(path, sizeof path, "%s/%s.sock", daemon->runtime_dir, name) < (int)sizeof path)
		error = bind_socket(
			daemon, type, path, owner, group, mode, accepted == accepted_worker);
	if (error >= 0)
		error = listen_on(daemon, error, path, accepted, vgpu);
	if (error)
		log_error("cannot listen on %s/%s.sock: %s", daemon->runtime_dir, name,
			strerror(-error));
	return error;
}

/* Metrics are worth a warning, and no reason not to start. */
static void add_metrics_address(struct daemon *daemon)
{
	const struct config_address *address = &daemon->config.metrics;
	int error;

	if (!address->port)
		return;
	error = bind_address(address);
	if (error >= 0)
		error = listen_on(daemon, error, NULL, accepted_scrape, NULL);
	if (error)
		log_warning("no metrics on %s port %u: %s", address->host, address->port,
			strerror(-error));
}

/* The directory must be ours, and nobody else may put things there. */
static int make_runtime_dir(const struct daemon *daemon)
{
	const char *path = daemon->runtime_dir;
	mode_t mode = geteuid() == 0 ? 0755 : 0700;
	struct stat status;

	if (mkdir(path, mode) && errno != EEXIST) {
		int error = -errno;
		log_error("cannot make the runtime directory %s: %s", path, strerror(-error));
		return error;
	}
	if (lstat(path, &status) || !S_ISDIR(status.st_mode) || status.st_uid != geteuid() ||
		(status.st_mode & 022)) {
		log_error(
			"the runtime directory %s must be a directory of uid %u that nobody else can write "
			"to; remove it, or name another with --runtime-dir",
			path, (unsigned)geteuid());
		return -EPERM;
	}
	return 0;
}

static int open_in(const char *dir, const char *name)
{
	char path[PATHS_MAX + 16];
	int fd;

	snprintf(path, sizeof path, "%s/%s", dir, name);
	fd = open(path, O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);
	return fd < 0 ? -errno : fd;
}

static bool somebody_listens(const struct daemon *daemon)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	autoclose int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	int length = snprintf(
		address.sun_path, sizeof address.sun_path, "%s/control.sock", daemon->runtime_dir);

	return fd >= 0 && length < (int)sizeof address.sun_path &&
	       (!connect(fd, (struct sockaddr *)&address, sizeof address) || errno == EAGAIN);
}

/* Another gdevd has the lock. If it does not listen it is about to begin, or to leave, as a private one does with its
 * last client: that is waited for. False: it listens, or takes too long. */
static bool wait_for_lock(struct daemon *daemon, struct flock *lock)
{
	uint64_t end_ns = clock_now_ns() + LEAVE_TIME_NS;

	while (fcntl(daemon->lock, F_SETLK, lock)) {
		if (somebody_listens(daemon) || clock_now_ns() > end_ns)
			return false;
		nanosleep(&(struct timespec){.tv_nsec = LOCK_LOOK_NS}, NULL);
	}
	return true;
}

/* One gdevd a directory; the file holds its pid for those who come second. */
static int take_lock(struct daemon *daemon)
{
	struct flock all = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
	char text[16] = "";

	daemon->lock = open_in(daemon->runtime_dir, "gdevd.lock");
	if (daemon->lock < 0) {
		log_error("cannot open %s/gdevd.lock: %s", daemon->runtime_dir,
			strerror(-daemon->lock));
		return daemon->lock;
	}
	/* Not flock(): a worker that is just being forked would hold that beyond our end. */
	if (!wait_for_lock(daemon, &all)) {
		if (pread(daemon->lock, text, sizeof text - 1, 0) <= 0)
			strcpy(text, "?");
		log_error(
			"a gdevd (pid %d) already runs in %s; stop it, or name another directory with "
			"--runtime-dir",
			atoi(text), daemon->runtime_dir);
		return -EBUSY;
	}
	snprintf(text, sizeof text, "%d\n", (int)getpid());
	if (ftruncate(daemon->lock, 0) || pwrite(daemon->lock, text, strlen(text), 0) < 0) {
		int error = -errno;
		log_error("cannot write %s/gdevd.lock: %s", daemon->runtime_dir, strerror(-error));
		return error;
	}
	return 0;
}

static int open_ledger(
	struct daemon *daemon, const char *name, struct ledger *ledger, size_t record_bytes)
{
	int fd = open_in(daemon->runtime_dir, name);

	return fd < 0 ? fd : ledger_init(ledger, fd, record_bytes);
}

/* What the next gdevd has to know. */
static int open_records(struct daemon *daemon)
{
	struct ledgers *ledgers = &daemon->ledgers;
	int error =
		open_ledger(daemon, "sessions", &ledgers->sessions, sizeof(struct ledger_session));

	if (!error)
		error = open_ledger(
			daemon, "segments", &ledgers->segments, sizeof(struct ledger_segment));
	if (!error)
		error = open_ledger(daemon, "attachments", &ledgers->attachments,
			sizeof(struct ledger_attachment));
	daemon->ids = error ? -1 : open_in(daemon->runtime_dir, "ids");
	error = error ? error : min_of(daemon->ids, 0);
	if (error)
		log_error("cannot open ids, sessions, segments and attachments in %s: %s",
			daemon->runtime_dir, strerror(-error));
	return error;
}

int server_vgpu_add(struct vgpu *vgpu)
{
	const struct config_vgpu *config = vgpu->config;

	return add_listener(vgpu->daemon, SOCK_SEQPACKET, config->name, config->owner,
		config->group, config->mode, accepted_client, vgpu);
}

static struct listener *find_listener(const struct vgpu *vgpu)
{
	struct listener *listener;

	list_for_each (listener, &listeners, link)
		if (listener->vgpu == vgpu)
			return listener;
	return NULL;
}

int server_vgpu_change(const struct vgpu *vgpu, const struct config_vgpu *config)
{
	const struct listener *listener = find_listener(vgpu);
	bool owner = config->owner != vgpu->config->owner || config->group != vgpu->config->group;

	/* Nobody may come in between with the rights of the one and of the other. */
	if (!listener || (!owner && config->mode == vgpu->config->mode))
		return 0;
	if (owner && chmod(listener->path, 0))
		return -errno;
	if (owner && chown(listener->path, config->owner, config->group)) {
		int error = -errno;
		chmod(listener->path, vgpu->config->mode);
		return error;
	}
	return chmod(listener->path, config->mode) ? -errno : 0;
}

static void free_listener(uv_handle_t *handle)
{
	free(handle->data);
}

static void remove_listener(struct listener *listener)
{
	list_remove(&listener->link);
	deadline_cancel(&listener->rest);
	if (*listener->path)
		unlink(listener->path);
	uv_close((uv_handle_t *)&listener->poll, free_listener);
	/* Who is in its backlog may have sent something. */
	porters_close_of_peer(&listener->daemon->users, listener->fd);
}

void server_vgpu_remove(const struct vgpu *vgpu)
{
	struct listener *listener = find_listener(vgpu);

	if (listener)
		remove_listener(listener);
}

int server_start(struct daemon *daemon)
{
	bool root = geteuid() == 0;
	struct vgpu *vgpu;
	int error = make_runtime_dir(daemon);

	if (!error)
		error = take_lock(daemon);
	if (!error)
		error = open_records(daemon);
	if (error)
		return error;
	spare_fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
	error = add_listener(daemon, SOCK_SEQPACKET, "workers",
		root ? daemon->program.uid : geteuid(), root ? daemon->program.gid : getegid(),
		0600, accepted_worker, NULL);
	list_for_each (vgpu, &daemon->vgpus, link) {
		if (error)
			break;
		if (vgpu == vgpu_find(daemon, vgpu->config->name))
			error = server_vgpu_add(vgpu);
	}
	if (!error)
		error = add_listener(daemon, SOCK_STREAM, "metrics", geteuid(), getegid(),
			root ? 0666 : 0600, accepted_scrape, NULL);
	if (!error)
		add_metrics_address(daemon);
	/* The last: where it answers, the others do. */
	if (!error)
		error = add_listener(daemon, SOCK_SEQPACKET, "control", geteuid(), getegid(),
			root ? 0666 : 0600, accepted_client, NULL);
	return error;
}

void server_stop(void)
{
	struct listener *listener, *after;

	list_for_each_safe (listener, after, &listeners, link)
		remove_listener(listener);
	metrics_stop();
	if (spare_fd >= 0)
		close(spare_fd);
	spare_fd = -1;
}
