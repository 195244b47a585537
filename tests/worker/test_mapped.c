/* SPDX-License-Identifier: MIT
 *
 * A segment that has no room on the device is used from its host copy; one in a file that the device cannot use moves to
 * memory first. The worker has threads, because its jobs wait for gdevd, which is this test's main thread.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/fd.h"
#include "harness.h"

enum { A = 40, ID = 3 };
#define BYTES (4 * MIB)

/* The inode whose pages the device refuses. */
static unsigned long refused;

static bool is_refused(uint64_t address)
{
	FILE *maps = fopen("/proc/self/maps", "r");
	unsigned long from, to, inode;
	char line[512];
	bool found = false;

	while (!found && fgets(line, sizeof line, maps))
		found = sscanf(line, "%lx-%lx %*s %*x %*s %lu", &from, &to, &inode) == 3 &&
			address >= from && address < to && inode == refused;
	fclose(maps);
	return found;
}

static int refuse(struct device_space *space, uint64_t address, uint64_t bytes)
{
	return is_refused(address) ? -EINVAL : 0;
}

static void keep_registered(struct device_space *space, uint64_t address, uint64_t bytes)
{
}

static unsigned long inode_of(int fd)
{
	struct stat stat;

	assert_int_equal(fstat(fd, &stat), 0);
	return stat.st_ino;
}

static void wait_done(struct fixture *fixture, uint32_t timeline, uint64_t value)
{
	for (int i = 0; i < PATIENCE_MS && completed(fixture, timeline) < value; i++)
		usleep(1000);
	assert_int_equal(completed(fixture, timeline), value);
	/* The thread sanitizer knows the lock, and not that two mappings are the same memory. */
	core_lock(fixture->core);
	core_unlock(fixture->core);
}

/* The device is free. The worker's own threads go on with what it has been told. */
static void give_turns(struct fixture *fixture)
{
	struct control_grant message = {
		.header = {sizeof message, CONTROL_GRANT, CONTROL_VERSION, 0, 0},
		.quantum_ns = 1000000000,
	};
	struct control_grant next;

	while (recv(fixture->gdevd, &next, sizeof next, MSG_PEEK) >= (ssize_t)sizeof next.header &&
		next.header.type == CONTROL_ACQUIRE) {
		message.resource = next.resource;
		expect_acquire(fixture, next.resource);
		tell(fixture, &message, NULL, 0);
	}
}

static struct control_shm expect_shm(
	struct fixture *fixture, uint32_t command, int *fds, size_t *count)
{
	struct control_shm message;
	size_t none = 0;

	give_turns(fixture);
	expect_message(fixture, CONTROL_SHM, &message, sizeof message, fds, count ? count : &none);
	assert_int_equal(message.command, command);
	assert_int_equal(message.id, ID);
	return message;
}

static void answer(struct fixture *fixture, struct control_shm message, int status, int fd)
{
	message.header.type = CONTROL_SHM_REPLY;
	message.header.status = status;
	tell(fixture, &message, &fd, fd >= 0);
}

/* The client attaches a segment whose host copy is `file`, which begins with 'f's, and which the device refuses. */
static void start(struct fixture *fixture, int *file)
{
	static struct device_ops ops;
	struct record_stream stream = {.header.opcode = RECORD_STREAM_CREATE, .stream = A};
	struct record_shm attach = {
		.header.opcode = RECORD_SHM_ATTACH, .id = ID, .address = TEST_DEVICE};
	struct control_shm message;
	uint64_t value;

	ops = *device_ops_find("null");
	ops.host_register = refuse;
	ops.host_unregister = keep_registered;
	*file = fd_shared_memory("file", BYTES);
	refused = inode_of(*file);
	assert_int_equal(pwrite(*file, "ffffffff", 8, 0), 8);
	assert_int_equal(pwrite(*file, "ffffffff", 8, BYTES - 8), 8);
	fixture_start_ops(fixture, &ops, true, 6);
	wait_done(fixture, 0, post(fixture, &stream));
	value = post(fixture, &attach);
	message = expect_shm(fixture, SHM_COMMAND_ATTACH, NULL, NULL);
	message.bytes = BYTES;
	message.flags |= CONTROL_SHM_HOST;
	answer(fixture, message, 0, *file);
	wait_done(fixture, 0, value);
	assert_int_equal(fixture->segment->replies[0].status, 0);
}

/* A fill of its first bytes, for which gdevd has the worker bring it in, and has that much room for it or says why not.
 * What the worker says then. */
static uint64_t use_with(struct fixture *fixture, int file, int status, uint64_t room,
	enum control_shm_command command, struct control_shm *message)
{
	int fds[FD_PASS_MAX];
	size_t count = array_length(fds);
	struct record_fill fill = {
		.header = {.opcode = RECORD_FILL, .timeline = A},
		.destination = TEST_DEVICE,
		.width = 4,
		.height = 1,
		.pitch = 4,
		.element_bytes = 1,
		.value = 'x',
	};
	uint64_t value = post(fixture, &fill);
	struct control_allocate wish;

	answer(fixture, expect_shm(fixture, SHM_COMMAND_RESTORE, NULL, NULL), 1, file);
	wish = expect_allocate(fixture, BYTES);
	assert_int_equal(wish.swap_bytes, 0);
	assert_int_equal(wish.purpose, ROOM_FOR_TURN);
	say_charged(fixture, &wish.header, status, room, 0);
	*message = expect_shm(fixture, command, fds, &count);
	fd_close_all(fds, count);
	return value;
}

static uint64_t use(struct fixture *fixture, int file, struct control_shm *move)
{
	return use_with(fixture, file, -ENOMEM, 0, SHM_COMMAND_MOVE, move);
}

/* With all that gdevd says then. */
static uint64_t use_from_memory(struct fixture *fixture, int file, int memory)
{
	struct control_shm move, map, drop;
	uint64_t value = use(fixture, file, &move);
	char text[8];

	answer(fixture, move, 0, memory);
	map = expect_shm(fixture, SHM_COMMAND_MAP, NULL, NULL);
	assert_int_equal(map.header.status, 0);
	assert_int_equal(pread(memory, text, 8, BYTES - 8), 8);
	assert_memory_equal(text, "ffffffff", 8);
	assert_int_equal(completed(fixture, A), 0);
	drop = (struct control_shm){
		.header = {sizeof drop, CONTROL_SHM, CONTROL_VERSION, 0, 0},
		.command = SHM_COMMAND_DROP,
		.id = ID,
		.flags = CONTROL_SHM_MAPPED,
	};
	tell(fixture, &drop, &memory, 1);
	answer(fixture, map, 0, -1);
	expect_shm(fixture, SHM_COMMAND_DROP, NULL, NULL);
	return value;
}

static void a_copy_in_a_file_moves_to_memory_and_is_used_there(void **state)
{
	struct fixture fixture = {0};
	int file, memory = fd_shared_memory("memory", BYTES);
	uint64_t value;
	char text[8];

	start(&fixture, &file);
	trace_on(&fixture);
	value = use_from_memory(&fixture, file, memory);
	wait_done(&fixture, A, value);
	assert_int_equal(traced(&fixture, TRACE_SWAP_TO_MEMORY), BYTES);
	assert_int_equal(stream_error(&fixture, A), 0);
	pread(memory, text, 8, 0);
	assert_memory_equal(text, "xxxxffff", 8);
	pread(file, text, 8, 0);
	assert_memory_equal(text, "ffffffff", 8); /* nobody needs it any more */
	close(file);
	close(memory);
	fixture_stop(&fixture);
}

static void where_memory_has_no_room_it_stays_and_the_command_fails(void **state)
{
	struct fixture fixture = {0};
	struct control_shm message;
	int file;
	uint64_t value;

	start(&fixture, &file);
	value = use(&fixture, file, &message);
	answer(&fixture, message, -ENOMEM, -1);
	assert_int_equal(expect_shm(&fixture, SHM_COMMAND_MAP, NULL, NULL).header.status, -ENOMEM);
	wait_done(&fixture, A, value);
	assert_int_equal(stream_error(&fixture, A), -ENOMEM);
	close(file);
	fixture_stop(&fixture);
}

/* The new gdevd's end; it has been told who is there. */
static void restart_gdevd(struct fixture *fixture)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	autoclose int listener = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
	struct control_attach message;
	size_t count = 3;
	int fds[3];

	memcpy(address.sun_path, fixture->socket_path, strlen(fixture->socket_path));
	assert_int_equal(bind(listener, (struct sockaddr *)&address, sizeof address), 0);
	assert_int_equal(listen(listener, 5), 0);
	close(fixture->gdevd);
	fixture->gdevd = accept(listener, NULL, NULL);
	expect_message(fixture, CONTROL_REGISTER, &message, sizeof message, fds, &count);
	fd_close_all(fds, count);
}

/* It says where the segment is, and the gdevd did not know of it. */
static void register_segment(struct fixture *fixture, uint32_t flags, int copy)
{
	struct control_shm message = expect_shm(fixture, SHM_COMMAND_ATTACH, NULL, NULL);
	size_t count = 1;
	int fd;

	assert_int_equal(message.flags, flags);
	answer(fixture, message, 1, -1);
	message = expect_shm(fixture, SHM_COMMAND_BACK, &fd, &count);
	assert_int_equal(message.flags, flags);
	assert_int_equal(inode_of(fd), inode_of(copy));
	close(fd);
	answer(fixture, message, 0, -1);
}

static void the_next_gdevd_hears_that_it_is_used_there(void **state)
{
	struct fixture fixture = {0};
	int file, memory = fd_shared_memory("memory", BYTES);

	start(&fixture, &file);
	wait_done(&fixture, A, use_from_memory(&fixture, file, memory));
	restart_gdevd(&fixture);
	register_segment(&fixture, CONTROL_SHM_HOST | CONTROL_SHM_MAPPED, memory);
	close(file);
	close(memory);
	fixture_stop(&fixture);
}

/* What waits for it asks again when the new gdevd knows of it, and not before. */
static void without_the_gdevd_that_was_asked_the_file_is_what_is_valid(void **state)
{
	struct fixture fixture = {0};
	int file, memory = fd_shared_memory("memory", BYTES);
	struct control_shm message;
	char text[8];
	uint64_t value;

	for (int told = 0; told < 2; told++) {
		memset(&fixture, 0, sizeof fixture);
		start(&fixture, &file);
		value = use(&fixture, file, &message);
		if (told) { /* it has the memory, and gdevd has not heard of the copy */
			answer(&fixture, message, 0, memory);
			expect_shm(&fixture, SHM_COMMAND_MAP, NULL, NULL);
		}
		restart_gdevd(&fixture);
		register_segment(&fixture, CONTROL_SHM_HOST, file);
		answer(&fixture, expect_shm(&fixture, SHM_COMMAND_RESTORE, NULL, NULL), 2, memory);
		wait_done(&fixture, A, value);
		assert_int_equal(stream_error(&fixture, A), 0);
		pread(memory, text, 8, 0);
		assert_memory_equal(text, "xxxx", 4);
		close(file);
		fixture_stop(&fixture);
	}
	close(memory);
}

/* It is used in `memory`, which another session has made meanwhile; the file is as it was. */
static void check_used(struct fixture *fixture, uint64_t value, int file, int memory)
{
	char text[8];

	answer(fixture, expect_shm(fixture, SHM_COMMAND_RESTORE, NULL, NULL), 2, memory);
	wait_done(fixture, A, value);
	assert_int_equal(stream_error(fixture, A), 0);
	pread(memory, text, 4, 0);
	assert_memory_equal(text, "xxxx", 4);
	pread(file, text, 4, 0);
	assert_memory_equal(text, "ffff", 4);
	close(file);
	close(memory);
	fixture_stop(fixture);
}

static void what_another_is_to_bring_in_by_now_is_not_used(void **state)
{
	struct fixture fixture = {0};
	int file, memory = fd_shared_memory("memory", BYTES);
	struct control_shm map;
	uint64_t value;

	start(&fixture, &file);
	refused = 0; /* the device could use it */
	value = use_with(&fixture, file, -ENOMEM, 0, SHM_COMMAND_MAP, &map);
	assert_int_equal(completed(&fixture, A), 0);
	answer(&fixture, map, -EAGAIN, -1);
	expect_shm(&fixture, SHM_COMMAND_MAP, NULL, NULL); /* that it could not */
	check_used(&fixture, value, file, memory);
}

static void what_another_is_to_bring_in_by_now_is_asked_for_again(void **state)
{
	struct fixture fixture = {0};
	int file, memory = fd_shared_memory("memory", BYTES);
	struct control_shm back;
	uint64_t value;

	start(&fixture, &file);
	value = use_with(&fixture, file, 0, BYTES, SHM_COMMAND_BACK, &back);
	answer(&fixture, back, -EAGAIN, -1);
	expect_shm(&fixture, SHM_COMMAND_MAP, NULL, NULL);
	check_used(&fixture, value, file, memory);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_copy_in_a_file_moves_to_memory_and_is_used_there),
		cmocka_unit_test(where_memory_has_no_room_it_stays_and_the_command_fails),
		cmocka_unit_test(the_next_gdevd_hears_that_it_is_used_there),
		cmocka_unit_test(without_the_gdevd_that_was_asked_the_file_is_what_is_valid),
		cmocka_unit_test(what_another_is_to_bring_in_by_now_is_not_used),
		cmocka_unit_test(what_another_is_to_bring_in_by_now_is_asked_for_again),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
