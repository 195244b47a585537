/* SPDX-License-Identifier: MIT
 *
 * What gdevd learns of the process at the other end of a connection.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include <errno.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "gdevd/process.h"

#ifndef SO_PEERPIDFD
#define SO_PEERPIDFD 77
#endif

static int ends[2]; /* of which this process is the peer */

static int set_up(void **state)
{
	return socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends);
}

static int tear_down(void **state)
{
	close(ends[0]);
	return close(ends[1]);
}

static void need_a_kernel_that_says(void)
{
	int process = -1;
	socklen_t length = sizeof process;

	if (!getsockopt(ends[0], SOL_SOCKET, SO_PEERPIDFD, &process, &length))
		close(process);
	else if (errno == ENOPROTOOPT)
		skip();
}

static void one_that_lives_has_not_ended(void **state)
{
	assert_int_equal(process_peer_ended(ends[0]), 0);
	assert_int_equal(process_started_of_peer(ends[0], getpid()), process_started(getpid()));
}

/* Its socket outlives it. */
static void one_that_is_gone_has_ended(void **state)
{
	int carrier[2], given = -1;
	char bytes[CMSG_SPACE(sizeof given)] = {0}, nothing = 0;
	struct iovec part = {&nothing, 1};
	struct msghdr message = {.msg_iov = &part,
		.msg_iovlen = 1,
		.msg_control = bytes,
		.msg_controllen = sizeof bytes};
	pid_t child;

	need_a_kernel_that_says();
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, carrier), 0);
	child = fork();
	if (!child) {
		int pair[2];

		if (socketpair(AF_UNIX, SOCK_STREAM, 0, pair))
			_exit(1);
		*CMSG_FIRSTHDR(&message) =
			(struct cmsghdr){CMSG_LEN(sizeof *pair), SOL_SOCKET, SCM_RIGHTS};
		*(int *)CMSG_DATA(CMSG_FIRSTHDR(&message)) = pair[0];
		_exit(sendmsg(carrier[1], &message, 0) != 1);
	}
	assert_int_equal(recvmsg(carrier[0], &message, 0), 1);
	given = *(int *)CMSG_DATA(CMSG_FIRSTHDR(&message));
	assert_int_equal(waitpid(child, NULL, 0), child);
	assert_int_equal(process_peer_ended(given), 1);
	assert_int_equal(process_started_of_peer(given, getpid()), 0);
	close(given);
	close(carrier[0]);
	close(carrier[1]);
}

static void without_a_free_descriptor_nobody_knows(void **state)
{
	struct rlimit before, none = {0, 0};
	int ended;

	need_a_kernel_that_says();
	assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
	none.rlim_max = before.rlim_max;
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &none), 0);
	ended = process_peer_ended(ends[0]);
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
	assert_int_equal(ended, -EAGAIN);
	assert_int_equal(process_peer_ended(ends[0]), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(one_that_lives_has_not_ended),
		cmocka_unit_test(one_that_is_gone_has_ended),
		cmocka_unit_test(without_a_free_descriptor_nobody_knows),
	};

	return cmocka_run_group_tests(tests, set_up, tear_down);
}
