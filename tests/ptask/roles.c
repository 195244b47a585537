/* SPDX-License-Identifier: MIT
 *
 * The roles of processes that open a graph by its name.
 */
#include "roles.h"

#include <errno.h>
#include <grp.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "proto/control.h"

static void check(int error, const char *what)
{
	if (!error)
		return;
	fprintf(stderr, "%s: %s (%d)\n", what, gdev_strerror(error), error);
	_exit(error < 0 && error > -125 ? -error : 126);
}

static struct gdev_channel *open_channel(const char *name, const char *where)
{
	struct gdev_channel *found;
	struct gdev_graph *graph;

	check(gdev_graph_attach(name, in_seconds(PATIENCE_S), &graph), "attach");
	check(gdev_channel_find(graph, where, in_seconds(PATIENCE_S), &found), where);
	return found;
}

/* `count` arrays that begin with `first`, first + 1, … */
static int play_push(const char *name, const char *where, int first, int count)
{
	struct gdev_channel *to = open_channel(name, where);
	int values[N];

	for (int turn = 0; turn < count; turn++) {
		for (int i = 0; i < N; i++)
			values[i] = first + turn + i;
		check(gdev_push_bytes(to, values, sizeof values, GDEV_FOREVER), "push");
	}
	check(gdev_channel_end(to), "end");
	return 0;
}

/* The same in memory that both map, and the datablock goes into the channel twice. */
static int play_push_twice(const char *name, const char *where, int first, int count)
{
	struct gdev_channel *to;
	struct gdev_graph *graph;
	struct gdev_datablock *block;
	int *values;

	check(gdev_graph_attach(name, in_seconds(PATIENCE_S), &graph), "attach");
	check(gdev_channel_find(graph, where, in_seconds(PATIENCE_S), &to), where);
	for (int turn = 0; turn < count; turn++) {
		check(gdev_datablock_create(graph, gdev_channel_template(to), 0, &block), "create");
		check(gdev_datablock_map(block, true, (void **)&values), "map");
		for (int i = 0; i < N; i++)
			values[i] = first + turn + i;
		check(gdev_push(to, block, GDEV_FOREVER), "push");
		check(gdev_push(to, block, GDEV_FOREVER), "push again");
		if (gdev_datablock_map(block, true, (void **)&values) != -EPERM)
			return 1;
		gdev_datablock_put(block);
	}
	gdev_graph_close(graph);
	return 0;
}

static int check_values(const int *values, int first, int step)
{
	for (int i = 0; i < N; i++)
		if (values[i] != first + i * step) {
			fprintf(stderr, "value %d is %d, not %d\n", i, values[i], first + i * step);
			return 1;
		}
	return 0;
}

/* Until the end: arrays that were multiplied by 6. */
static int play_pull(const char *name, const char *where, int first, int count)
{
	struct gdev_channel *from = open_channel(name, where);
	int values[N], turn = 0, error;
	uint64_t bytes;

	while (!(error = gdev_pull_bytes(from, values, sizeof values, GDEV_FOREVER, &bytes)))
		if (bytes != sizeof values || check_values(values, 6 * (first + turn++), 6))
			return 1;
	if (error != -ENODATA)
		check(error, "pull");
	return turn != count;
}

/* What comes out of one channel goes into the other, and nobody looks. By its own event loop. */
static int play_pass(const char *name, const char *where, int first, int count)
{
	struct gdev_channel *from, *to;
	struct gdev_datablock *block;
	struct gdev_graph *graph;
	int error, turn = 0;

	check(gdev_graph_attach(name, in_seconds(PATIENCE_S), &graph), "attach");
	check(gdev_channel_find(graph, "first.out", in_seconds(PATIENCE_S), &from), "first.out");
	check(gdev_channel_find(graph, "second.in", in_seconds(PATIENCE_S), &to), "second.in");
	while ((error = gdev_pull(from, 0, &block)) != -ENODATA) {
		struct pollfd ready = {.fd = gdev_graph_descriptor(graph), .events = POLLIN};
		if (error == -EAGAIN) {
			if (poll(&ready, 1, PATIENCE_MS) != 1)
				return 1;
			continue;
		}
		check(error, "pull");
		while ((error = gdev_push(to, block, 0)) == -EAGAIN)
			if (poll(&ready, 1, PATIENCE_MS) != 1)
				return 1;
		check(error, "push");
		gdev_datablock_put(block);
		turn++;
	}
	gdev_graph_close(graph);
	return turn != count;
}

/* Says so, and waits to be killed. */
static int play_hang(const char *name, const char *where, int first, int count)
{
	struct gdev_channel *found = open_channel(name, where);
	struct gdev_datablock *block;
	int values[N] = {0};

	for (int i = 0; i < first; i++)
		check(gdev_push_bytes(found, values, sizeof values, GDEV_FOREVER), "push");
	for (int i = 0; i < count; i++)
		check(gdev_pull(found, GDEV_FOREVER, &block), "pull");
	if (write(STDOUT_FILENO, "!", 1) != 1)
		return 1;
	pause();
	return 1;
}

/* Leaves one behind that runs no other program and closes nothing, and says which. */
static void leave_child(void)
{
	pid_t child = fork();

	if (!child) {
		for (int fd = 0; fd < 3; fd++)
			close(fd); /* the test's runner waits for their ends */
		alarm(PATIENCE_S); /* if the test fails, and does not end it */
		for (;;)
			pause();
	}
	check(write(STDOUT_FILENO, &child, sizeof child) == sizeof child ? 0 : -EIO, "write");
}

/* Has an end of a channel open, and a child, and waits to be killed. */
static int play_leave(const char *name, const char *where, int first, int count)
{
	open_channel(name, where);
	leave_child();
	pause();
	return 1;
}

/* A child puts what its parent has pulled, and harms neither. */
static int play_inherit(const char *name, const char *where, int first, int count)
{
	struct gdev_channel *from = open_channel(name, where);
	struct gdev_datablock *block;
	int values[N], status = 1;
	pid_t child;

	check(gdev_pull(from, in_seconds(PATIENCE_S), &block), "pull");
	child = fork();
	if (!child) {
		alarm(PATIENCE_S);
		gdev_datablock_put(block);
		_exit(0);
	}
	waitpid(child, &status, 0);
	check(gdev_datablock_read(block, 0, values, sizeof values), "read");
	gdev_datablock_put(block);
	return status || check_values(values, first, count);
}

/* Waits for what the owner never gives, until the owner is gone. */
static int play_mourn(const char *name, const char *where, int first, int count)
{
	struct gdev_channel *found = open_channel(name, where);
	struct gdev_datablock *block;

	if (write(STDOUT_FILENO, "!", 1) != 1)
		return 1;
	return gdev_pull(found, GDEV_FOREVER, &block) != -GDEV_E_SESSION_LOST;
}

/* At that nice value: pushes one (2: as another user), or waits to pull one and says so. */
static int play_nice(const char *name, const char *where, int nice, int push)
{
	if (setpriority(PRIO_PROCESS, 0, nice))
		return 1;
	if (push == 2 && (setgid(12345) || setuid(12345)))
		return 1;
	return push ? play_push(name, where, 1, 1) : play_mourn(name, where, 0, 0);
}

/* Owns a graph, until it is killed; `first`: and leaves a child. */
static int play_own(const char *name, const char *where, int first, int count)
{
	struct fixture *f = fixture_open(&(struct gdev_graph_options){.name = name, .mode = 0600});
	struct scaler a = scaler(f, 2);
	struct gdev_channel_options options = {.name = where};
	struct gdev_channel *ignored;

	channel(f, NULL, a.in);
	check(gdev_channel_open(f->graph, a.out, NULL, &options, &ignored), "channel");
	check(gdev_graph_run(f->graph), "run");
	if (first)
		leave_child();
	pause();
	return 1;
}

/* As another user, with a supplementary group: 1: it may attach; 2: and push; 4: and pull. */
static int play_try(const char *name, const char *where, int uid, int group)
{
	gid_t groups[] = {(gid_t)group};
	struct gdev_channel *found;
	struct gdev_graph *graph;
	int error, may = 0;

	if (setgroups(1, groups) || setgid(12345) || setuid((uid_t)uid))
		return 100;
	error = gdev_graph_attach(name, in_seconds(PATIENCE_S), &graph);
	if (error)
		return error == -EACCES ? 0 : 101;
	for (int pull = 0; pull < 2; pull++) {
		error = gdev_channel_find(
			graph, pull ? "out" : "in", in_seconds(PATIENCE_S), &found);
		if (error && error != -EACCES)
			return 102;
		may |= error ? 0 : 2 << pull;
	}
	gdev_graph_close(graph);
	return may | 1;
}

/* As another user: pushes into a callback, and changes the memory again and again after that. */
static int play_change(const char *name, const char *where, int uid, int count)
{
	struct gdev_channel *to;
	struct gdev_graph *graph;
	struct gdev_datablock *block;
	int *values;

	if (setgroups(0, NULL) || setgid(12345) || setuid((uid_t)uid))
		return 100;
	check(gdev_graph_attach(name, in_seconds(PATIENCE_S), &graph), "attach");
	check(gdev_channel_find(graph, where, in_seconds(PATIENCE_S), &to), where);
	for (int turn = 0; turn < count; turn++) {
		check(gdev_datablock_create(graph, gdev_channel_template(to), 0, &block), "create");
		check(gdev_datablock_map(block, true, (void **)&values), "map");
		for (int i = 0; i < N; i++)
			values[i] = turn;
		check(gdev_push(to, block, GDEV_FOREVER), "push");
		for (volatile int change = 0; change < 2000; change++)
			for (int i = 0; i < N; i++)
				values[i] = change;
		gdev_datablock_put(block);
	}
	gdev_graph_close(graph);
	return 0;
}

/* Opens the graph, closes it, says so, and waits to be killed. */
static int play_visit(const char *name, const char *where, int first, int count)
{
	struct gdev_graph *graph;

	check(gdev_graph_attach(name, in_seconds(PATIENCE_S), &graph), "attach");
	gdev_graph_close(graph);
	if (write(STDOUT_FILENO, "!", 1) != 1)
		return 1;
	pause();
	return 1;
}

/* Connects to gdevd, and ends; a child asks for the graph, and says what the answer was. */
static int play_outlive(const char *name, const char *where, int first, int count)
{
	struct control_graph request = {.header = {.length = sizeof request,
						.type = CONTROL_GRAPH_OPEN,
						.version = CONTROL_VERSION,
						.serial = 1},
		.uid = geteuid()};
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	int connection = socket(AF_UNIX, SOCK_SEQPACKET, 0);
	pid_t parent = getpid();

	snprintf(address.sun_path, sizeof address.sun_path, "%s/control.sock",
		getenv("GDEV_RUNTIME_DIR"));
	check(connect(connection, (struct sockaddr *)&address, sizeof address), "connect");
	if (fork())
		return 0;
	alarm(PATIENCE_S);
	while (getppid() == parent)
		usleep(1000);
	snprintf(request.name, sizeof request.name, "%s", name);
	check(send(connection, &request, sizeof request, 0) == sizeof request ? 0 : -EIO, "send");
	check(recv(connection, &request, sizeof request, 0) == sizeof request ? 0 : -EIO, "recv");
	check(write(STDOUT_FILENO, &request.header.status, sizeof(int)) == sizeof(int) ? 0 : -EIO,
		"write");
	return 0;
}

static const struct role {
	const char *name;
	int (*play)(const char *name, const char *where, int first, int count);
} roles[] = {
	{"push", play_push},
	{"push-twice", play_push_twice},
	{"pull", play_pull},
	{"pass", play_pass},
	{"hang", play_hang},
	{"inherit", play_inherit},
	{"leave", play_leave},
	{"nice", play_nice},
	{"mourn", play_mourn},
	{"own", play_own},
	{"try", play_try},
	{"change", play_change},
	{"visit", play_visit},
	{"outlive", play_outlive},
};

int role_play(char **argv)
{
	for (size_t i = 0; i < sizeof roles / sizeof roles[0]; i++)
		if (!strcmp(roles[i].name, argv[1]))
			return roles[i].play(argv[2], argv[3], atoi(argv[4]), atoi(argv[5]));
	return 1;
}
