/* SPDX-License-Identifier: MIT
 *
 * What strangers send with descriptors, on sockets where the kernel lets them: who receives those, and who closes what
 * nobody received. The argument is the real gdev-porter.
 *
 * Whether a process dropped the last reference to a file is seen by a pipe of which the stranger sent the one end: what
 * it does to the other one, and when.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fd.h"
#include "gdevd/connection.h"
#include "gdevd/users.h"

#define CHUNK (2u << 20)

static const char *porter_path;
static uv_loop_t loop;
static uv_signal_t on_child;
static struct deadlines deadlines;
static struct users users;
static struct connection *connection;
static int peer;
static unsigned messages;    /* that came, */
static uint32_t serials[64]; /* their numbers, */
static size_t fd_counts[64]; /* and what they brought */
static bool closed;
static int closed_with;

/* ---- gdevd ---- */

static int on_message(
	struct connection *from, const struct control_header *message, int *fds, size_t fd_count)
{
	assert_true(messages < 64);
	serials[messages] = message->serial;
	fd_counts[messages++] = fd_count;
	return 0;
}

static void on_closed(struct connection *which, int error)
{
	closed = true;
	closed_with = error;
	connection_destroy(which);
	connection = NULL;
}

static bool brings(
	struct connection *to, const struct control_header *begin, struct porter_limits *limits)
{
	limits->fds = 3;
	limits->memory = CHUNK;
	return begin->type == CONTROL_SHM;
}

static const struct connection_ops ops = {
	.message = on_message,
	.closed = on_closed,
	.brings = brings,
};

static void reap(uv_signal_t *handle, int signal)
{
	porters_reap(&users);
}

static struct user *stranger(void)
{
	return list_first(&users.all, struct user, link);
}

static int set_up(void **state)
{
	int pair[2];

	messages = 0;
	closed = false;
	uv_loop_init(&loop);
	uv_signal_init(&loop, &on_child);
	uv_signal_start(&on_child, reap, SIGCHLD);
	if (deadlines_init(&deadlines, &loop))
		return -1;
	memset(&users, 0, sizeof users);
	users_init(&users, &loop, &deadlines);
	if (porters_find(&users, porter_path) ||
		socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair))
		return -1;
	peer = pair[0];
	return connection_create(&loop, pair[1], &ops, NULL, &users, &connection);
}

static int tear_down(void **state)
{
	if (connection)
		connection_destroy(connection);
	connection = NULL;
	if (peer >= 0)
		close(peer);
	users_finish(&users);
	deadlines_finish(&deadlines);
	uv_close((uv_handle_t *)&on_child, NULL);
	uv_run(&loop, UV_RUN_DEFAULT);
	return uv_loop_close(&loop) == UV_EBUSY;
}

/* The loop goes on until it is so; it is, soon, on any machine. */
#define run_until(condition)                                                                       \
	do {                                                                                       \
		uint64_t end_ns = clock_now_ns() + 60 * NS_PER_S;                                  \
		while (!(condition)) {                                                             \
			assert_true(clock_now_ns() < end_ns);                                      \
			uv_run(&loop, UV_RUN_NOWAIT);                                              \
			usleep(500);                                                               \
		}                                                                                  \
	} while (0)

/* ---- strangers ---- */

static void say(uint16_t type, uint32_t serial, const int *fds, size_t fd_count)
{
	struct control_shm message;

	memset(&message, 0, sizeof message);
	message.header.length = type == CONTROL_SHM ? sizeof message : sizeof message.header;
	message.header.type = type;
	message.header.version = CONTROL_VERSION;
	message.header.serial = serial;
	assert_int_equal(fd_send(peer, &message, message.header.length, fds, fd_count), 0);
}

static int memory(uint64_t bytes)
{
	int fd = fd_shared_memory("stranger", bytes);

	assert_true(fd >= 0);
	return fd;
}

static int file_in(const char *directory)
{
	int fd = open(directory, O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);

	assert_true(fd >= 0);
	return fd;
}

static bool has_ended(int pipe_end)
{
	struct pollfd look = {.fd = pipe_end, .events = POLLIN};

	return poll(&look, 1, 0) == 1 && (look.revents & POLLHUP);
}

/* The stranger sends the writing end of a pipe, and keeps none. Returns the reading end. */
static int say_pipe(uint16_t type, uint32_t serial)
{
	int ends[2];

	assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
	say(type, serial, &ends[1], 1);
	close(ends[1]);
	return ends[0];
}

static void none_left(void)
{
	run_until(
		!stranger() || (!stranger()->porting.count && !stranger()->porting.closing_count));
}

/* ---- tests ---- */

static void looking_drops_no_reference(void **state)
{
	bool descriptors;
	char bytes[16];
	int end = say_pipe(CONTROL_SHM, 1), pair[2];

	assert_int_equal(fd_peek(connection->fd, bytes, sizeof bytes, &descriptors), sizeof bytes);
	assert_true(descriptors);
	assert_false(has_ended(end));
	close(end);
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), 0);
	assert_int_equal(fd_peek(pair[0], bytes, sizeof bytes, &descriptors), -EAGAIN);
	assert_int_equal(fd_send(pair[1], "ab", 2, NULL, 0), 0);
	assert_int_equal(fd_peek(pair[0], bytes, sizeof bytes, &descriptors), 2);
	assert_false(descriptors);
	assert_int_equal(fd_holds_descriptors(pair[0]), 0);
	assert_int_equal(fd_send(pair[0], "a", 1, pair, 1), 0);
	assert_int_equal(fd_holds_descriptors(pair[1]), 1);
	close(pair[0]);
	close(pair[1]);
}

static void memory_and_devices_come_in_order(void **state)
{
	int fds[] = {memory(CHUNK), memory(4096), open("/dev/null", O_RDWR | O_CLOEXEC)};

	say(CONTROL_BYE, 1, NULL, 0);
	say(CONTROL_SHM, 2, fds, 3);
	say(CONTROL_BYE, 3, NULL, 0);
	say(CONTROL_SHM, 4, fds, 1);
	say(CONTROL_SHM, 5, NULL, 0);
	run_until(messages == 5);
	for (unsigned i = 0; i < messages; i++)
		assert_int_equal(serials[i], i + 1);
	assert_int_equal(fd_counts[1], 3);
	assert_int_equal(fd_counts[3], 1);
	assert_int_equal(fd_counts[0] + fd_counts[2] + fd_counts[4], 0);
	none_left();
	fd_close_all(fds, 3);
}

/* The kernel lets a process without privileges send none while more than RLIMIT_NOFILE of its user's lie unread. */
static void descriptors_that_others_do_not_read_stop_no_porter(void **state)
{
	int fd = memory(1), pair[2], many[FD_PASS_MAX];
	struct rlimit before, few;

	assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
	few = (struct rlimit){FD_PASS_MAX, before.rlim_max};
	assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair), 0);
	for (size_t i = 0; i < FD_PASS_MAX; i++)
		many[i] = fd;
	for (int i = 0; i < 2; i++)
		assert_int_equal(fd_send(pair[0], "x", 1, many, FD_PASS_MAX), 0);
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &few), 0); /* the porter's, too */
	say(CONTROL_SHM, 1, &fd, 1);
	run_until(messages == 1 || closed);
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
	assert_false(closed);
	assert_int_equal(fd_counts[0], 1);
	none_left();
	close(pair[0]);
	close(pair[1]);
	close(fd);
}

static void refuses(uint16_t type, int *fds, size_t count)
{
	say(type, 1, fds, count);
	for (size_t i = 0; i < count; i++)
		if (fds[i] != peer)
			close(fds[i]);
	run_until(closed);
	assert_int_equal(closed_with, -EPROTO);
	assert_int_equal(messages, 0);
	none_left();
}

#define REFUSED(name, ...)                                                                         \
	static void name(void **state)                                                             \
	{                                                                                          \
		int fds[] = {__VA_ARGS__};                                                         \
		refuses(CONTROL_SHM, fds, sizeof fds / sizeof *fds);                               \
	}

REFUSED(too_many_descriptors_are_refused, memory(1), memory(1), memory(1), memory(1))
REFUSED(more_memory_than_said_is_refused, memory(CHUNK + 1))
REFUSED(socket_is_refused, memory(1), peer)
REFUSED(directory_is_refused, open("/tmp", O_RDONLY | O_DIRECTORY | O_CLOEXEC))
REFUSED(file_is_refused, file_in("/tmp"))
REFUSED(file_in_memory_is_refused, file_in("/dev/shm"))
REFUSED(epoll_is_refused, epoll_create1(EPOLL_CLOEXEC))
REFUSED(terminal_is_refused, open("/dev/ptmx", O_RDWR | O_NOCTTY | O_CLOEXEC))
REFUSED(path_is_refused, open("/dev/fuse", O_PATH | O_CLOEXEC))

static void message_that_brings_none_is_not_received(void **state)
{
	int end = say_pipe(CONTROL_BYE, 1);

	run_until(closed);
	assert_int_equal(closed_with, -EPROTO);
	assert_int_equal(messages, 0);
	assert_false(has_ended(end)); /* a porter has it, and has not been reaped */
	run_until(has_ended(end));
	none_left();
	close(end);
}

static void refused_descriptors_end_with_the_porter(void **state)
{
	int end = say_pipe(CONTROL_SHM, 1);

	run_until(closed);
	run_until(has_ended(end));
	none_left();
	close(end);
}

/* Also behind messages without any bytes, which look like an end of file. */
static void socket_with_unread_descriptors_is_closed_by_a_porter(void **state)
{
	int end;

	assert_int_equal(fd_send(peer, "", 0, NULL, 0), 0);
	end = say_pipe(CONTROL_BYE, 1);
	close(peer);
	peer = -1;
	connection_destroy(connection);
	connection = NULL;
	assert_false(has_ended(end));
	run_until(has_ended(end));
	none_left();
	close(end);
}

static void message_without_bytes_may_have_descriptors(void **state)
{
	int ends[2];

	assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
	assert_int_equal(fd_send(peer, "", 0, &ends[1], 1), 0);
	close(ends[1]);
	run_until(closed);
	assert_int_equal(closed_with, -EPROTO);
	run_until(has_ended(ends[0]));
	close(ends[0]);
}

/* The kernel does not pass on a socket in which sockets lie unread, in which sockets lie unread, and so on. */
static void sockets_within_sockets_are_no_way_past_a_porter(void **state)
{
	int pair[2], inner = -1;

	for (int depth = 0; depth < 8; depth++) {
		assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair), 0);
		int error = inner < 0 ? 0 : fd_send(pair[0], "x", 1, &inner, 1);
		if (inner >= 0)
			close(inner);
		close(pair[0]);
		inner = pair[1];
		if (error) { /* deep enough */
			assert_int_equal(error, -ETOOMANYREFS);
			break;
		}
	}
	struct control_header header = {sizeof header, CONTROL_BYE, CONTROL_VERSION, 1, 0};
	fd_send(peer, &header, sizeof header, &inner, 1);
	close(inner);
	close(peer);
	peer = -1;
	run_until(closed);
	none_left();
}

static void cancelled_request_leaves_nothing(void **state)
{
	int end = say_pipe(CONTROL_SHM, 1);

	run_until(porter_request_waits(&connection->porter));
	connection_destroy(connection);
	connection = NULL;
	run_until(has_ended(end));
	none_left();
	close(end);
}

static void porter_that_hangs_costs_its_user_alone(void **state)
{
	struct porter_request *request = &connection->porter;
	int fd = memory(1);

	/* It sleeps for as many seconds as its arguments are together. */
	assert_int_equal(porters_find(&users, "/bin/sleep"), 0);
	say(CONTROL_SHM, 1, &fd, 1);
	run_until(porter_request_waits(request) && request->porter);
	assert_int_equal(stranger()->porting.count, 1);
	deadline_cancel(&request->late);
	request->late.expired(&request->late, clock_now_ns());
	assert_true(closed);
	assert_int_equal(closed_with, -ETIMEDOUT);
	close(fd);
	close(peer);
	peer = -1;
	none_left(); /* it was killed */
}

static void porters_of_a_user_are_few(void **state)
{
	struct control_shm message;
	struct connection *others[8];
	int pairs[8][2], fd = memory(1);

	assert_int_equal(porters_find(&users, "/bin/sleep"), 0);
	memset(&message, 0, sizeof message);
	control_fill(&message, CONTROL_SHM, 1);
	for (int i = 0; i < 8; i++) {
		assert_int_equal(
			socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pairs[i]), 0);
		assert_int_equal(
			connection_create(&loop, pairs[i][1], &ops, NULL, &users, &others[i]), 0);
		fd_send(pairs[i][0], &message, sizeof message, &fd, 1);
	}
	for (int i = 0; i < 8; i++)
		run_until(porter_request_waits(&others[i]->porter));
	assert_int_equal(stranger()->porting.count, 4);
	for (int i = 0; i < 8; i++) {
		connection_destroy(others[i]);
		close(pairs[i][0]);
		assert_true(stranger()->porting.count <= 4);
	}
	none_left();
	close(fd);
}

static void porter_that_is_not_there_is_started_again(void **state)
{
	int fd = memory(1);

	assert_int_equal(porters_find(&users, "/nowhere/gdev-porter"), 0);
	say(CONTROL_SHM, 1, &fd, 1);
	run_until(!list_empty(&users.porters.again.link));
	assert_true(porter_request_waits(&connection->porter));
	assert_int_equal(porters_find(&users, porter_path), 0);
	run_until(messages == 1);
	none_left();
	close(fd);
}

/* Opening a file for writing breaks a lease, and waits for whoever holds it. */
static void lease_makes_nobody_wait(void **state)
{
	int fd = memory(4096), lent = fd_lend(fd), got;

	assert_true(lent >= 0);
	signal(SIGIO, SIG_IGN); /* that it is broken */
	assert_int_equal(fcntl(lent, F_SETLEASE, F_RDLCK), 0);
	assert_int_equal(fd_reclaim(lent), -EAGAIN);
	fcntl(lent, F_SETLEASE, F_UNLCK);
	got = fd_reclaim(lent);
	assert_true(got >= 0);
	close(got);
	close(lent);
	close(fd);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		TEST(looking_drops_no_reference),
		TEST(memory_and_devices_come_in_order),
		TEST(descriptors_that_others_do_not_read_stop_no_porter),
		TEST(too_many_descriptors_are_refused),
		TEST(more_memory_than_said_is_refused),
		TEST(socket_is_refused),
		TEST(directory_is_refused),
		TEST(file_is_refused),
		TEST(file_in_memory_is_refused),
		TEST(epoll_is_refused),
		TEST(terminal_is_refused),
		TEST(path_is_refused),
		TEST(message_that_brings_none_is_not_received),
		TEST(refused_descriptors_end_with_the_porter),
		TEST(socket_with_unread_descriptors_is_closed_by_a_porter),
		TEST(message_without_bytes_may_have_descriptors),
		TEST(sockets_within_sockets_are_no_way_past_a_porter),
		TEST(cancelled_request_leaves_nothing),
		TEST(porter_that_hangs_costs_its_user_alone),
		TEST(porters_of_a_user_are_few),
		TEST(porter_that_is_not_there_is_started_again),
		TEST(lease_makes_nobody_wait),
	};

	if (argc < 2)
		return 2;
	porter_path = argv[1];
	return cmocka_run_group_tests_name("porters", tests, NULL, NULL);
}
