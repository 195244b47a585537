/* SPDX-License-Identifier: MIT
 *
 * What gdevd keeps for a peer that does not read, and in which order it hears peers.
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

static unsigned last_words;

static int on_last_words(struct connection *connection, const struct control_header *message,
	int *fds, size_t fd_count)
{
	assert_int_equal(message->type, CONTROL_BYE);
	last_words++;
	return 0;
}

/* As of a worker that is asked something while it ends. */
static void what_a_peer_said_last_is_heard_although_it_left_something_unread(void **state)
{
	static const struct connection_ops hears = {.message = on_last_words, .closed = on_closed};
	struct control_header header = {sizeof header, CONTROL_BYE, CONTROL_VERSION, 0, 0};
	struct connection *connection;
	int pair[2];

	assert_int_equal(uv_loop_init(&loop), 0);
	assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair), 0);
	assert_int_equal(connection_create(&loop, pair[0], &hears, NULL, NULL, &connection), 0);
	closed_with = 1;
	connection_send(connection, &header, NULL, 0);
	assert_int_equal(fd_send(pair[1], &header, sizeof header, NULL, 0), 0);
	assert_int_equal(fd_send(pair[1], &header, sizeof header, NULL, 0), 0);
	close(pair[1]);
	for (int i = 0; i < 8 && closed_with; i++)
		uv_run(&loop, UV_RUN_NOWAIT);
	assert_int_equal(closed_with, 0);
	assert_int_equal(last_words, 2);
	for (int i = 0; i < 3; i++)
		uv_run(&loop, UV_RUN_NOWAIT);
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

/* ---- whose turn it is ---- */

static uint32_t heard[64];
static unsigned heard_count;

static int hear(struct connection *connection, const struct control_header *message, int *fds,
	size_t fd_count)
{
	heard[heard_count++] = message->serial;
	return 0;
}

static bool all_but_byes_wait(struct connection *connection, const struct control_header *begin)
{
	return begin->type != CONTROL_BYE;
}

static const struct connection_ops worker_ops = {
	.message = hear, .closed = on_closed, .waits = all_but_byes_wait};

/* A connection to a worker of that user's; its messages are numbered from `serial` on. */
struct talker {
	struct connection *connection;
	int peer;
	uint32_t serial;
};

static struct talker connect_talker(struct users *users, uid_t uid, uint32_t serial)
{
	struct talker talker = {.serial = serial};
	struct user *user = user_get(users, uid);
	int pair[2];

	assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair), 0);
	talker.peer = pair[1];
	assert_int_equal(
		connection_create(&loop, pair[0], &worker_ops, NULL, NULL, &talker.connection), 0);
	connection_charge_to(talker.connection, user);
	user_put(user);
	return talker;
}

static void say(struct talker *talker, enum control_type type, unsigned count)
{
	struct control_header header = {
		sizeof header, (uint16_t)type, CONTROL_VERSION, talker->serial, 0};

	for (; count; count--, header.serial = ++talker->serial)
		assert_int_equal(fd_send(talker->peer, &header, sizeof header, NULL, 0), 0);
}

static unsigned place_of(uint32_t serial)
{
	for (unsigned i = 0; i < heard_count; i++)
		if (heard[i] == serial)
			return i;
	fail_msg("message %u was not heard", (unsigned)serial);
	return 0;
}

/* MEMORY stands for all that waits, BYE for what does not. */
static void what_workers_ask_waits_for_their_users_turn(void **state)
{
	struct talker greedy[3], other, giver;
	struct users users = {0};

	heard_count = 0;
	assert_int_equal(uv_loop_init(&loop), 0);
	assert_int_equal(deadlines_init(&deadlines, &loop), 0);
	users_init(&users, &loop, &deadlines);
	for (unsigned i = 0; i < 3; i++) {
		greedy[i] = connect_talker(&users, 4711, 100 * (i + 1));
		say(&greedy[i], CONTROL_MEMORY, 10);
	}
	other = connect_talker(&users, 4712, 400);
	say(&other, CONTROL_MEMORY, 3);
	giver = connect_talker(&users, 4713, 500);
	say(&giver, CONTROL_BYE, 3);
	say(&giver, CONTROL_MEMORY, 1);
	say(&giver, CONTROL_BYE, 1);
	while (heard_count < 38)
		assert_true(uv_run(&loop, UV_RUN_ONCE));
	assert_true(place_of(502) < 3);             /* before all that waits */
	assert_true(place_of(402) <= 3 + 9);        /* two more users, and one of them asks once */
	assert_true(place_of(300) < place_of(101)); /* connections of one user take turns, too */
	assert_true(place_of(503) < place_of(504)); /* on one connection nothing overtakes */
	/* What need not wait is heard of whoever has used up its part; what it asks, and all behind that, when it has paid. */
	user_pay(greedy[0].connection->payer, ERRAND_WORK, 10ull * 1000 * 1000 * 1000);
	say(&greedy[0], CONTROL_BYE, 2);
	say(&greedy[0], CONTROL_MEMORY, 1);
	say(&greedy[0], CONTROL_BYE, 1);
	say(&greedy[1], CONTROL_BYE, 1);
	while (heard_count < 41)
		assert_true(uv_run(&loop, UV_RUN_ONCE));
	for (unsigned i = 0; i < 3; i++)
		uv_run(&loop, UV_RUN_NOWAIT);
	assert_int_equal(heard_count, 41);
	assert_true(place_of(110) < place_of(111));
	assert_true(place_of(210) >= 38);
	/* What it said before it went away is heard yet. */
	close(greedy[1].peer);
	connection_drop(greedy[0].connection, -EPROTO);
	for (unsigned i = 0; i < 3; i++)
		uv_run(&loop, UV_RUN_NOWAIT);
	assert_int_equal(heard[41], 112);
	assert_int_equal(heard[42], 113);
	for (unsigned i = 2; i < 3; i++)
		connection_destroy(greedy[i].connection);
	connection_destroy(other.connection);
	connection_destroy(giver.connection);
	users_finish(&users);
	deadlines_finish(&deadlines);
	for (unsigned i = 0; i < 3; i++)
		uv_run(&loop, UV_RUN_NOWAIT);
	close(greedy[0].peer);
	close(greedy[2].peer);
	close(other.peer);
	close(giver.peer);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(deaf_peer_costs_a_bounded_number_of_descriptors),
		cmocka_unit_test(what_a_peer_said_last_is_heard_although_it_left_something_unread),
		cmocka_unit_test(
			descriptors_that_a_user_does_not_take_are_bounded_on_all_its_connections),
		cmocka_unit_test(what_workers_ask_waits_for_their_users_turn),
	};

	return cmocka_run_group_tests_name("connection", tests, NULL, NULL);
}
