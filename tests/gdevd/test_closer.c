/* SPDX-License-Identifier: MIT
 *
 * The closer closes on a thread: a descriptor whose closing waits for something that the loop's own thread does
 * afterwards. It is a TCP socket that lingers: closing it waits until its peer has read what was sent.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <arpa/inet.h>
#include <fcntl.h>
#include <stdbool.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "gdevd/closer.h"
#include "gdevd/deadlines.h"
#include "gdevd/users.h"

static uv_loop_t loop;
static struct deadlines deadlines;
static struct users users;
static struct user *user;
static unsigned closed;

static int set_up(void **state)
{
	uv_loop_init(&loop);
	memset(&users, 0, sizeof users);
	closed = 0;
	if (deadlines_init(&deadlines, &loop))
		return -1;
	users_init(&users, &loop, &deadlines);
	closer_init(&loop);
	user = user_get(&users, 4321);
	return user ? 0 : -1;
}

static int tear_down(void **state)
{
	closer_stop();
	users_finish(&users);
	deadlines_finish(&deadlines);
	uv_run(&loop, UV_RUN_DEFAULT);
	closer_init(NULL);
	return uv_loop_close(&loop);
}

/* Two ends of a connection, of which the first one's closing waits for the other one to be read. */
static void make_lingering(int *ends)
{
	struct sockaddr_in address = {
		.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	struct linger linger = {.l_onoff = 1, .l_linger = 60};
	socklen_t size = sizeof address;
	autoclose int listens = socket(AF_INET, SOCK_STREAM, 0);
	char bytes[65536] = {0};

	assert_return_code(bind(listens, (struct sockaddr *)&address, size), 0);
	assert_return_code(listen(listens, 1), 0);
	assert_return_code(getsockname(listens, (struct sockaddr *)&address, &size), 0);
	ends[0] = socket(AF_INET, SOCK_STREAM, 0);
	assert_return_code(connect(ends[0], (struct sockaddr *)&address, size), 0);
	ends[1] = accept(listens, NULL, NULL);
	assert_true(ends[1] >= 0);
	while (send(ends[0], bytes, sizeof bytes, MSG_DONTWAIT) > 0)
		;
	assert_return_code(setsockopt(ends[0], SOL_SOCKET, SO_LINGER, &linger, sizeof linger), 0);
}

static void read_all(int end)
{
	char bytes[65536];

	while (read(end, bytes, sizeof bytes) > 0)
		;
	close(end);
}

static void count(struct closing *closing)
{
	closed++;
}

static void run_until_closed(unsigned wanted)
{
	while (closed < wanted)
		assert_true(uv_run(&loop, UV_RUN_ONCE));
}

static void test_loop_goes_on(void **state)
{
	int ends[2], pipe_ends[2];
	char byte;

	make_lingering(ends);
	assert_return_code(pipe(pipe_ends), 0);
	struct closing first = {.user = user, .closed = count, .count = 1, .fds = &ends[0]};
	struct closing second = {.user = user, .closed = count, .count = 1, .fds = &pipe_ends[1]};
	closer_add(&first); /* a thread that waited here would for a minute */
	closer_add(&second);
	uv_run(&loop, UV_RUN_NOWAIT);
	assert_int_equal(closed, 0);
	assert_int_equal(user->descriptors, 2);
	fcntl(pipe_ends[0], F_SETFL, O_NONBLOCK);
	assert_int_equal(read(pipe_ends[0], &byte, 1), -1); /* its turn has not come */
	read_all(ends[1]);
	run_until_closed(2);
	assert_int_equal(read(pipe_ends[0], &byte, 1), 0);
	assert_int_equal(user->descriptors, 0);
	close(pipe_ends[0]);
	user_put(user);
}

static struct closing *order[8];

static void note(struct closing *closing)
{
	order[closed++] = closing;
}

/* What one user has to be closed does not keep another's from it for longer than one set takes. */
static void test_users_take_turns(void **state)
{
	struct user *other = user_get(&users, 4322);
	struct closing first[4], second[2];
	int ends[2], none = -1;

	make_lingering(ends);
	for (unsigned i = 0; i < 4; i++) {
		first[i] = (struct closing){
			.user = user, .closed = note, .count = 1, .fds = i ? &none : &ends[0]};
		closer_add(&first[i]);
	}
	for (unsigned i = 0; i < 2; i++) {
		second[i] =
			(struct closing){.user = other, .closed = note, .count = 1, .fds = &none};
		closer_add(&second[i]);
	}
	read_all(ends[1]);
	run_until_closed(6);
	assert_ptr_equal(order[0], &first[0]);
	assert_true(order[1] == &second[0] || order[2] == &second[0]);
	assert_true(order[3] == &second[1] || order[4] == &second[1]);
	assert_ptr_equal(order[5], &first[3]);
	user_put(other);
	user_put(user);
}

static int later_ends[2], later_fd;
static struct closing later;

static void close_more(struct closing *closing)
{
	closed++;
	if (closed == 1)
		closer_add(&later);
}

/* What an end brings to be closed ends when it is closed, and not before. */
static void test_end_brings_another(void **state)
{
	int none[2] = {-1, -1};
	struct closing first = {.closed = close_more, .count = 1, .fds = &none[0]};

	make_lingering(later_ends);
	later_fd = later_ends[0];
	later = (struct closing){.closed = close_more, .count = 1, .fds = &later_fd};
	closer_add(&first);
	run_until_closed(1);
	for (int i = 0; i < 20; i++) {
		uv_run(&loop, UV_RUN_NOWAIT);
		usleep(1000);
	}
	assert_int_equal(closed, 1);
	read_all(later_ends[1]);
	run_until_closed(2);
	assert_int_equal(later_fd, -1);
	user_put(user);
}

/* The user is freed before its descriptors are closed. */
static void test_end_closes_all(void **state)
{
	int ends[2], pipe_ends[2], set[3];
	char byte;

	make_lingering(ends);
	assert_return_code(pipe(pipe_ends), 0);
	set[0] = ends[0];
	set[1] = -1;
	set[2] = pipe_ends[1];
	closer_close(user, set, 3);
	for (unsigned i = 0; i < 3; i++)
		assert_int_equal(set[i], -1);
	closer_stop();
	users_finish(&users);
	deadlines_finish(&deadlines);
	read_all(ends[1]);
	uv_run(&loop, UV_RUN_DEFAULT);
	assert_int_equal(read(pipe_ends[0], &byte, 1), 0);
	close(pipe_ends[0]);
	closer_init(NULL);
	assert_int_equal(uv_loop_close(&loop), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_loop_goes_on, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_users_take_turns, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_end_brings_another, set_up, tear_down),
		cmocka_unit_test_setup(test_end_closes_all, set_up),
	};

	return cmocka_run_group_tests_name("closer", tests, NULL, NULL);
}
