/* SPDX-License-Identifier: MIT
 *
 * What gdevd keeps for a peer that does not read.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/fd.h"
#include "gdevd/connection.h"

static uv_loop_t loop;
static int closed_with;

static int on_message(struct connection *connection, const struct control_header *message, int *fds,
	size_t fd_count)
{
	return 0;
}

static void on_closed(struct connection *connection, int error)
{
	closed_with = error;
	connection_destroy(connection);
}

static const struct connection_ops ops = {.message = on_message, .closed = on_closed};

static int count_descriptors(void)
{
	int count = 0;

	for (int fd = 0; fd < 8192; fd++)
		count += fcntl(fd, F_GETFD) >= 0;
	return count;
}

static void deaf_peer_costs_a_bounded_number_of_descriptors(void **state)
{
	struct control_header header = {sizeof header, CONTROL_BYE, CONTROL_VERSION, 0, 0};
	struct connection *connection;
	int pair[2], fds[FD_PASS_MAX], before;

	assert_int_equal(uv_loop_init(&loop), 0);
	assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair), 0);
	assert_int_equal(connection_create(&loop, pair[0], &ops, NULL, NULL, &connection), 0);
	while (!fd_send(pair[0], &header, sizeof header, NULL, 0)) /* its buffer is full */
		;
	for (size_t i = 0; i < FD_PASS_MAX; i++)
		fds[i] = pair[1];
	before = count_descriptors();
	for (int i = 0; i < 20; i++)
		connection_send(connection, &header, fds, FD_PASS_MAX);
	assert_true(count_descriptors() > before);
	assert_true(count_descriptors() <= before + 8 * FD_PASS_MAX);
	for (int i = 0; i < 3; i++)
		uv_run(&loop, UV_RUN_NOWAIT);
	assert_int_equal(closed_with, -ENOBUFS);
	assert_int_equal(count_descriptors(), before - 1);
	close(pair[1]);
	uv_loop_close(&loop);
}

static struct deadlines deadlines;

/* A connection, whose peer does not read, to that user. */
static struct connection *connect_deaf(struct users *users, uid_t uid, int *peer)
{
	struct control_header header = {sizeof header, CONTROL_BYE, CONTROL_VERSION, 0, 0};
	struct user *user = user_get(users, uid);
	struct connection *connection;
	int pair[2];

	assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair), 0);
	assert_int_equal(connection_create(&loop, pair[0], &ops, NULL, NULL, &connection), 0);
	connection_charge_to(connection, user);
	user_put(user);
	while (!fd_send(pair[0], &header, sizeof header, NULL, 0))
		;
	*peer = pair[1];
	return connection;
}

static bool send_descriptors(struct connection *connection, int fd, size_t count)
{
	struct control_header header = {sizeof header, CONTROL_BYE, CONTROL_VERSION, 0, 0};
	int fds[FD_PASS_MAX];

	for (size_t i = 0; i < count; i++)
		fds[i] = fd;
	connection_send(connection, &header, fds, count);
	return !connection->drop_error;
}

static void descriptors_that_a_user_does_not_take_are_bounded_on_all_its_connections(void **state)
{
	struct connection *first, *second, *other, *root;
	struct users users;
	int peers[4], before;

	assert_int_equal(uv_loop_init(&loop), 0);
	assert_int_equal(deadlines_init(&deadlines, &loop), 0);
	users_init(&users, &loop, &deadlines);
	users.descriptors_max = 300; /* 100 of one user, 263 of all but root */
	before = count_descriptors();
	first = connect_deaf(&users, 4711, &peers[0]);
	second = connect_deaf(&users, 4711, &peers[1]);
	other = connect_deaf(&users, 4712, &peers[2]);
	root = connect_deaf(&users, 0, &peers[3]);
	assert_true(send_descriptors(first, peers[0], 60));
	assert_true(send_descriptors(second, peers[0], 40));
	assert_false(send_descriptors(second, peers[0], 1));
	assert_true(send_descriptors(other, peers[0], 100));
	assert_true(send_descriptors(root, peers[0], 80));
	assert_int_equal(users.descriptors, 280);
	assert_false(send_descriptors(first, peers[0], 1));
	assert_true(send_descriptors(root, peers[0], 20));
	assert_false(send_descriptors(root, peers[0], 1));
	connection_destroy(first);
	connection_destroy(second);
	connection_destroy(other);
	connection_destroy(root);
	assert_int_equal(users.descriptors, 0);
	for (int i = 0; i < 4; i++)
		close(peers[i]);
	assert_int_equal(count_descriptors(), before);
	users_finish(&users);
	deadlines_finish(&deadlines);
	uv_run(&loop, UV_RUN_DEFAULT);
	assert_int_equal(uv_loop_close(&loop), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(deaf_peer_costs_a_bounded_number_of_descriptors),
		cmocka_unit_test(
			descriptors_that_a_user_does_not_take_are_bounded_on_all_its_connections),
	};

	return cmocka_run_group_tests_name("connection", tests, NULL, NULL);
}
