/* SPDX-License-Identifier: MIT
 *
 * The gdevd that the verbs talk to: finding one, starting a private one, asking it.
 */
#include "cli/cli.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/fd.h"
#include "gdev/session.h"
#include "proto/check.h"
#include "proto/control.h"

#define ANSWER_TIMEOUT_S 10
#define START_TIMEOUT_MS 20000
#define START_TRIES 3
#define LOG_BYTES_MAX (1 << 20)

int daemon_open(const char *dir)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	struct timeval timeout = {.tv_sec = ANSWER_TIMEOUT_S};
	autoclose int fd = -1;

	if (snprintf(address.sun_path, sizeof address.sun_path, "%s/control.sock", dir) >=
		(int)sizeof address.sun_path)
		return -ENAMETOOLONG;
	fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
	if (fd < 0)
		return -errno;
	/* A gdevd that hangs is an error, not a hang. */
	setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &timeout, sizeof timeout);
	setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &timeout, sizeof timeout);
	if (connect(fd, (struct sockaddr *)&address, sizeof address))
		return -errno;
	return steal_fd(&fd);
}

json_t *request_create(const char *command)
{
	return json_pack("{s:s}", "command", command);
}

static int send_request(int connection, const json_t *request)
{
	struct {
		struct control_header header;
		char text[CONTROL_ADMIN_BYTES_MAX];
	} message;
	size_t length = json_dumpb(request, message.text, sizeof message.text, JSON_COMPACT);

	if (length == 0 || length > sizeof message.text)
		return -E2BIG;
	message.header = (struct control_header){
		.length = (uint32_t)(sizeof message.header + length),
		.type = CONTROL_ADMIN,
		.version = CONTROL_VERSION,
		.serial = 1,
	};
	return fd_send(connection, &message, message.header.length, NULL, 0);
}

/* Puts the pieces of an answer together: 0, the command's own negative status, or -errno. */
static int receive_answer(int connection, char **text)
{
	static _Alignas(8) char piece[CONTROL_BYTES_MAX];
	const struct control_header *header = (const struct control_header *)piece;
	size_t length = 0;
	int status;

	*text = calloc(1, 1);
	do {
		ssize_t received = fd_receive(connection, piece, sizeof piece, NULL, NULL);
		if (received == 0)
			return -EPIPE;
		if (received < 0)
			return (int)received;
		if (control_check(piece, (size_t)received) || header->type != CONTROL_ADMIN_REPLY)
			return -EPROTO;
		size_t more = (size_t)received - sizeof *header;
		char *longer = realloc(*text, length + more + 1);
		if (!longer)
			return -ENOMEM;
		*text = longer;
		memcpy(longer + length, header + 1, more);
		length += more;
		longer[length] = '\0';
		status = header->status;
	} while (status == 1);
	return status;
}

static int ask(int connection, const json_t *request, json_t **answer)
{
	autofree char *text = NULL;
	int error = send_request(connection, request);

	if (!error)
		error = receive_answer(connection, &text);
	*answer = text ? json_loads(text, 0, NULL) : NULL;
	if (!error && !*answer)
		error = -EPROTO;
	return error;
}

json_t *daemon_ask(int connection, const json_t *request)
{
	json_t *answer;
	int error = ask(connection, request, &answer);

	if (!error)
		return answer;
	if (error == -EAGAIN)
		say("gdevd did not answer within %d seconds", ANSWER_TIMEOUT_S);
	else if (json_object_get(answer, "error"))
		say("%s", field_text(answer, "error"));
	else
		say("gdevd did not answer: %s", strerror(-error));
	json_decref(answer);
	return NULL;
}

/* Connects, and makes sure that it is not just about to leave: a gdevd that answered "hold" stays as
 * long as the connection. */
static int hold_in(const char *dir)
{
	json_t *answer, *request;
	int fd = daemon_open(dir), error;

	if (fd < 0)
		return fd;
	request = request_create("hold");
	error = ask(fd, request, &answer);
	json_decref(request);
	json_decref(answer);
	if (error)
		close(fd);
	return error ? error : fd;
}

int daemon_connect(char *dir)
{
	int fd = -ECONNREFUSED, error = -ECONNREFUSED;

	for (unsigned i = 0; !paths_client_dir(i, dir); i++) {
		fd = hold_in(dir);
		if (fd >= 0)
			return fd;
		/* Somebody else's directory, or one that is not there, is not the reason to tell. */
		if (fd == -EAGAIN || fd == -EPROTO)
			error = fd;
	}
	return error;
}

int daemon_find(void)
{
	char dir[PATHS_MAX], first[PATHS_MAX] = "", second[PATHS_MAX] = "";
	int connection = daemon_connect(dir);
	struct gdev_description guest;

	if (connection == -EAGAIN) {
		say("the gdevd in %s does not answer; see its log", dir);
	} else if (connection < 0 && guest_describe(&guest)) {
		say("this is a virtual machine, whose GPU the gdevd of its host shares out: ask there.\n"
		    "'gdev status' and 'gdev doctor' say what is known here.");
	} else if (connection < 0) {
		bool two = !paths_client_dir(0, first) && !paths_client_dir(1, second);
		say("no gdevd is running (looked in %s%s%s).\n"
		    "Start one with 'gdevd &', or let 'gdev run PROGRAM' start one for its time.",
			first, two ? " and " : "", second);
	}
	return connection;
}

json_t *daemon_request(json_t *request, int *status)
{
	autoclose int connection = daemon_find();
	json_t *answer = NULL;

	*status = EXIT_NO_DAEMON;
	if (connection >= 0) {
		answer = daemon_ask(connection, request);
		*status = answer ? EXIT_OK : EXIT_FAILED;
	}
	json_decref(request);
	return answer;
}

int daemon_change(json_t *request)
{
	int status;
	json_t *answer = daemon_request(request, &status);

	if (*field_text(answer, "note"))
		say("%s", field_text(answer, "note"));
	json_decref(answer);
	return status;
}

json_t *daemon_query(const char *command, int *status)
{
	return daemon_request(request_create(command), status);
}

/* ---- a private gdevd ---- */

static int open_log(const char *dir, char *path)
{
	struct stat status;
	int fd;

	if (mkdir(dir, geteuid() == 0 ? 0755 : 0700) && errno != EEXIST)
		return -errno;
	snprintf(path, PATHS_MAX + 16, "%s/gdevd.log", dir);
	fd = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NOFOLLOW, 0600);
	if (fd < 0)
		return -errno;
	if (!fstat(fd, &status) && status.st_size > LOG_BYTES_MAX && ftruncate(fd, 0))
		return fd; /* a long log is no reason not to start */
	return fd;
}

/* The daemon leaves the working directory, and paths in its environment are its workers' too. */
static void make_absolute(const char *name)
{
	const char *path = getenv(name);
	char absolute[2 * PATHS_MAX], here[PATHS_MAX];

	if (!path || !*path || *path == '/' || !getcwd(here, sizeof here))
		return;
	if (snprintf(absolute, sizeof absolute, "%s/%s", here, path) < (int)sizeof absolute)
		setenv(name, absolute, 1);
}

/* In the child's child: nobody's child, no terminal, no descriptors of ours. */
static _Noreturn void become_daemon(const char *program, const char *dir, int ready, int log)
{
	char number[12];
	int null = open("/dev/null", O_RDWR);

	setsid();
	dup2(null, 0);
	dup2(log, 1);
	dup2(log, 2);
	ready = fcntl(ready, F_DUPFD, 3); /* without close-on-exec */
	snprintf(number, sizeof number, "%d", ready);
	make_absolute("GDEV_CPU_DUMP");
	if (chdir("/"))
		_exit(EXIT_FAILED);
	execl(program, program, "--private", "--ready-fd", number, "--runtime-dir", dir, NULL);
	fprintf(stderr, "cannot execute %s: %s\n", program, strerror(errno));
	_exit(EXIT_FAILED);
}

/* Returns a descriptor that becomes readable when it is ready, and ends when it failed. Two forks, so
 * that the daemon is no child of the program that this process becomes. */
static int spawn_daemon(const char *program, const char *dir, int log)
{
	int pipe_fds[2];
	pid_t child;

	if (pipe2(pipe_fds, O_CLOEXEC))
		return -errno;
	child = fork();
	if (child == 0) {
		if (fork() == 0)
			become_daemon(program, dir, pipe_fds[1], log);
		_exit(0);
	}
	close(pipe_fds[1]);
	if (child > 0)
		waitpid(child, NULL, 0);
	return pipe_fds[0];
}

static void show_log_end(const char *path)
{
	char text[1025];
	autoclose int fd = open(path, O_RDONLY | O_CLOEXEC);
	off_t size = fd >= 0 ? lseek(fd, 0, SEEK_END) : 0;
	ssize_t length;

	if (fd < 0)
		return;
	length = pread(fd, text, sizeof text - 1, size > 1024 ? size - 1024 : 0);
	if (length <= 0) {
		fprintf(stderr, "%s is empty: is there no room where it lies?\n", path);
		return;
	}
	text[length] = '\0';
	fprintf(stderr, "The end of %s:\n%s", path, text);
}

/* A connection to the daemon that then has the directory. */
static int start_and_hold(const char *program, const char *dir, int log)
{
	autoclose int ready = spawn_daemon(program, dir, log);
	struct pollfd poll_fd = {.fd = ready, .events = POLLIN};
	char word;

	if (ready < 0)
		return ready;
	if (poll(&poll_fd, 1, START_TIMEOUT_MS) <= 0 || read(ready, &word, 1) < 0)
		return -ETIMEDOUT;
	return hold_in(dir);
}

int daemon_start_private(char *dir)
{
	static const char *const places[] = {
		"../gdevd/gdevd", /* the build tree */
		"../sbin/gdevd",
		"gdevd",
		NULL,
	};
	char program[PATHS_MAX], log_path[PATHS_MAX + 16];
	autoclose int log = -1;
	int fd = paths_sibling(places, program);

	if (fd || (fd = paths_runtime_dir(dir))) {
		say("cannot find gdevd: %s", strerror(-fd));
		return fd;
	}
	log = open_log(dir, log_path);
	if (log < 0) {
		say("cannot write %s: %s", log_path, strerror(-log));
		return log;
	}
	say("no gdevd is running: starting a private one in %s", dir);
	/* Another `gdev run` may be faster, so that its daemon has the directory and ours ends; and that one may leave with
	 * the other's program before we have come. */
	for (int i = 0; i < START_TRIES; i++) {
		fd = start_and_hold(program, dir, log);
		if (fd >= 0)
			return fd;
		if (fd == -ETIMEDOUT)
			break;
	}
	say("the private gdevd did not start%s", fd == -ETIMEDOUT ? " in time" : "");
	show_log_end(log_path);
	return fd;
}
