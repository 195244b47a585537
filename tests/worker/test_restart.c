/* SPDX-License-Identifier: MIT
 *
 * gdevd's death and return, and its mistakes.
 */
#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/fd.h"
#include "double.h"
#include "harness.h"

enum { A = 40 };

static int listen_again(struct fixture *fixture)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);

	memcpy(address.sun_path, fixture->socket_path, strlen(fixture->socket_path));
	assert_int_equal(bind(fd, (struct sockaddr *)&address, sizeof address), 0);
	assert_int_equal(listen(fd, 5), 0);
	return fd;
}

static void lose_gdevd(struct fixture *fixture)
{
	close(fixture->gdevd);
	fixture->gdevd = -1;
	fixture_run(fixture);
}

static bool fds_are_of_one_file(int one, int other)
{
	struct stat first, second;

	return !fstat(one, &first) && !fstat(other, &second) && first.st_ino == second.st_ino;
}

static void find_gdevd(struct fixture *fixture, int listener)
{
	struct control_attach message;
	bool has_file = fixture->core->swap.fd >= 0;
	size_t count = 3;
	int fds[3];

	core_lock(fixture->core);
	control_tick(fixture->core, UINT64_MAX - 1);
	core_unlock(fixture->core);
	fixture->gdevd = accept(listener, NULL, NULL);
	assert_true(fixture->gdevd >= 0);
	close(listener);
	fixture_run(fixture);
	expect_message(fixture, CONTROL_REGISTER, &message, sizeof message, fds, &count);
	assert_int_equal(count, 2 + has_file);
	if (has_file)
		assert_true(fds_are_of_one_file(fds[2], fixture->core->swap.fd));
	fd_close_all(fds, count);
	assert_int_equal(message.session, 7);
	assert_int_equal(message.arena_base, TEST_BASE);
	assert_int_equal(message.held_bytes, fixture->core->memory.charged_bytes);
}

static void a_session_goes_on_without_gdevd(void **state)
{
	struct fixture *fixture = *state;
	uint32_t function;

	make_stream(fixture, A);
	function = get_paid_function(fixture);
	post_launch(fixture, A, function, 0);
	fixture_run(fixture);
	assert_int_equal(completed(fixture, A), 0); /* no grant yet */
	expect_acquire(fixture, RESOURCE_COMPUTE);
	lose_gdevd(fixture);
	assert_int_equal(completed(fixture, A), 1); /* nobody arbitrates */
	assert_int_equal(alloc(fixture, TEST_DEVICE, 64 * MIB), 0);
	assert_int_equal(alloc(fixture, TEST_DEVICE + 64 * MIB, 256 * MIB), -ENOMEM);
	assert_int_equal(fixture->ended, 0);
	find_gdevd(fixture, listen_again(fixture));
	expect_no_message(fixture);
	post_first_launch(fixture, A, function);
	assert_int_equal(completed(fixture, A), 2);
}

static void the_swap_file_is_brought_to_the_next_gdevd(void **state)
{
	struct fixture *fixture = *state;

	fixture->core->swap.fd = memfd_create("swap file", MFD_CLOEXEC);
	assert_true(fixture->core->swap.fd >= 0);
	lose_gdevd(fixture);
	find_gdevd(fixture, listen_again(fixture));
}

static void requests_are_sent_again_to_the_next_gdevd(void **state)
{
	struct fixture *fixture = *state;
	struct record_event wait = {
		{.opcode = RECORD_EVENT_WAIT, .timeline = A}, .event = 9ull << 32 | 0x12345};
	struct control_event message, again;

	make_stream(fixture, A);
	post(fixture, &wait);
	fixture_run(fixture);
	expect_message(fixture, CONTROL_EVENT_WATCH, &message, sizeof message, NULL, NULL);
	lose_gdevd(fixture);
	assert_int_equal(completed(fixture, A), 0);
	find_gdevd(fixture, listen_again(fixture));
	expect_message(fixture, CONTROL_EVENT_WATCH, &again, sizeof again, NULL, NULL);
	assert_int_equal(again.value, message.value);
	again.header.type = CONTROL_EVENT_DONE;
	tell(fixture, &again, NULL, 0);
	fixture_run(fixture);
	assert_int_equal(completed(fixture, A), 1);
}

static void an_allocation_under_way_survives_gdevd(void **state)
{
	struct fixture *fixture = *state;
	struct record_memory record = {{.opcode = RECORD_MEMORY_ALLOC}, TEST_DEVICE, 64 * MIB};

	post(fixture, &record);
	fixture_run(fixture);
	expect_allocate(fixture, 64 * MIB);
	lose_gdevd(fixture);
	assert_int_equal(completed(fixture, 0), 1);
	assert_int_equal(fixture->segment->replies[0].status, 0);
	find_gdevd(fixture, listen_again(fixture));
}

static void nonsense_from_gdevd_is_the_end_of_that_gdevd_only(void **state)
{
	struct fixture *fixture = *state;
	struct control_header cases[] = {
		{15, CONTROL_GRANT, CONTROL_VERSION, 0, 0},
		{sizeof(struct control_header), CONTROL_GRANT, CONTROL_VERSION, 0, 0},
		{sizeof(struct control_header), 999, CONTROL_VERSION, 0, 0},
		{sizeof(struct control_header), CONTROL_BYE, CONTROL_VERSION + 1, 0, 0},
		{sizeof(struct control_header), CONTROL_ADMIN, CONTROL_VERSION, 0, 0},
	};

	for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
		assert_int_equal(
			write(fixture->gdevd, &cases[i], sizeof cases[i]), sizeof cases[i]);
		fixture_run(fixture);
		assert_false(control_connected(fixture->core));
		lose_gdevd(fixture);
		find_gdevd(fixture, listen_again(fixture));
		unlink(fixture->socket_path);
	}
	assert_int_equal(fixture->ended, 0);
	make_stream(fixture, A);
}

static void a_message_that_cannot_be_kept_ends_the_session(void **state)
{
	struct fixture *fixture = *state;
	struct control_header message = {
		.length = sizeof message, .type = CONTROL_BYE, .version = CONTROL_VERSION};
	int no_file = -1;

	while (list_empty(&fixture->core->control.outgoing)) /* gdevd reads nothing */
		control_tell(fixture->core, &message, NULL, 0);
	assert_int_equal(fixture->ended, 0);
	control_tell(fixture->core, &message, &no_file, 1);
	assert_int_equal(fixture->ended, 1);
	assert_int_equal(fixture->reason, -EBADF);
	assert_int_equal(session_error(fixture), -EBADF);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup_with_gdevd, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(a_session_goes_on_without_gdevd),
		TEST(the_swap_file_is_brought_to_the_next_gdevd),
		TEST(requests_are_sent_again_to_the_next_gdevd),
		TEST(an_allocation_under_way_survives_gdevd),
		TEST(nonsense_from_gdevd_is_the_end_of_that_gdevd_only),
		TEST(a_message_that_cannot_be_kept_ends_the_session),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
