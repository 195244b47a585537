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
	assert_int_equal(connection_create(&loop, pair[0], &ops, NULL, &connection), 0);
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

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(deaf_peer_costs_a_bounded_number_of_descriptors),
	};

	return cmocka_run_group_tests_name("connection", tests, NULL, NULL);
}
