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
#include <unistd.h>

#include "base/cleanup.h"
#include "base/log.h"

#define ACCEPTS_A_TURN 16
#define BACKLOG 128

struct listener {
	uv_poll_t poll;
	struct daemon *daemon;
	int fd;
	void (*accepted)(struct listener *listener, int fd);
	struct vgpu *vgpu; /* NULL: not one of a virtual GPU */
	char path[PATHS_SOCKET_MAX];
	struct list link;
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
			close(fd);
		spare_fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
		complain("no file descriptors left: a connection was refused");
		return -EMFILE;
	}
	return -errno;
}

static void on_poll(uv_poll_t *poll, int status, int events)
{
	struct listener *listener = poll->data;

	for (int i = 0; i < ACCEPTS_A_TURN; i++) {
		int fd = accept_one(listener);
		if (fd < 0)
			return;
		listener->accepted(listener, fd);
		if (listener->daemon->stopping)
			return;
	}
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

/* Binds a socket that nobody may use before it has its owner and mode. */
static int bind_socket(int type, const char *path, uid_t owner, gid_t group, mode_t mode)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	mode_t mask;
	int fd, error = 0;

	strcpy(address.sun_path, path);
	fd = socket(AF_UNIX, type | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd < 0)
		return -errno;
	unlink(path);
	mask = umask(0777);
	if (bind(fd, (struct sockaddr *)&address, sizeof address))
		error = -errno;
	umask(mask);
	if (!error && (owner != geteuid() || group != getegid()) && chown(path, owner, group))
		error = -errno;
	if (!error && (chmod(path, mode) || listen(fd, BACKLOG)))
		error = -errno;
	if (error) {
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
		error = bind_socket(type, path, owner, group, mode);
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
	if (fcntl(daemon->lock, F_SETLK, &all)) {
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

/* What the next gdevd has to know. */
static int open_records(struct daemon *daemon)
{
	int sessions = open_in(daemon->runtime_dir, "sessions");

	daemon->ids = open_in(daemon->runtime_dir, "ids");
	if (sessions >= 0)
		ledger_init(&daemon->ledger, sessions);
	if (daemon->ids >= 0 && sessions >= 0)
		return 0;
	log_error("cannot open ids and sessions in %s: %s", daemon->runtime_dir,
		strerror(-min_of(daemon->ids, sessions)));
	return min_of(daemon->ids, sessions);
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
	if (*listener->path)
		unlink(listener->path);
	uv_close((uv_handle_t *)&listener->poll, free_listener);
	close(listener->fd);
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
		root ? daemon->workers.uid : geteuid(), root ? daemon->workers.gid : getegid(),
		0600, accepted_worker, NULL);
	list_for_each (vgpu, &daemon->vgpus, link) {
		if (error)
			break;
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
