/* SPDX-License-Identifier: MIT
 *
 * What is on the device and what is not: the rules of docs/memory.md, with a gdevd and a device made by hand.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "harness.h"
#include "worker/memory/residency.h"

enum { A = 40, B, C };

/* An object of `mib` that gdevd gives device memory for (or only host swap). */
static void make_object(struct fixture *fixture, uint64_t address, uint64_t mib, bool swapped)
{
	struct record_memory record = {{.opcode = RECORD_MEMORY_ALLOC}, address, mib * MIB};
	struct control_allocate wish;

	post(fixture, &record);
	fixture_run(fixture);
	wish = expect_allocate(fixture, mib * MIB);
	assert_int_equal(wish.swap_bytes, mib * MIB);
	say_charged(fixture, &wish.header, 0, swapped ? 0 : mib * MIB, swapped ? mib * MIB : 0);
	fixture_run(fixture);
	assert_int_equal(fixture->segment->replies[0].status, 0);
}

static void evict(struct fixture *fixture, uint64_t bytes, uint32_t flags)
{
	struct control_evict order = {
		.header = {sizeof order, CONTROL_EVICT, CONTROL_VERSION, 9, 0},
		.bytes = bytes,
		.swapped = bytes,
		.flags = flags,
	};

	tell(fixture, &order, NULL, 0);
	fixture_run(fixture);
}

static struct control_evicted expect_evicted(struct fixture *fixture)
{
	struct control_evicted message;

	expect_message(fixture, CONTROL_EVICTED, &message, sizeof message, NULL, NULL);
	return message;
}

static void expect_eased(struct fixture *fixture)
{
	struct control_header message;

	expect_message(fixture, CONTROL_EASED, &message, sizeof message, NULL, NULL);
}

/* The next message of this type; those before it do not matter. */
static void drain_until(struct fixture *fixture, uint16_t type, void *message, size_t size)
{
	uint8_t bytes[1024];
	struct control_header *header = (struct control_header *)bytes;
	struct pollfd socket = {.fd = fixture->gdevd, .events = POLLIN};

	do {
		assert_int_equal(poll(&socket, 1, PATIENCE_MS), 1);
		assert_true(
			recv(fixture->gdevd, bytes, sizeof bytes, 0) >= (ssize_t)sizeof *header);
	} while (header->type != type);
	assert_int_equal(header->length, size);
	memcpy(message, bytes, size);
}

/* A function, whose module takes 4 KiB; 8 MiB are charged for it. */
static uint32_t make_charged_function(struct fixture *fixture)
{
	struct control_allocate wish;

	post_module(fixture);
	drain_until(fixture, CONTROL_ALLOCATE, &wish, sizeof wish);
	answer_allocate(fixture, &wish, 0);
	return get_function(fixture);
}

/* A copy to the device: the piece has to be saved when it leaves. */
static void write_letters(struct fixture *fixture, uint64_t address)
{
	post_write(fixture, A, address, "abcdefgh", 8, 0);
	fixture_run(fixture);
	acquire(fixture, RESOURCE_COPY_TO_DEVICE);
}

/* The object that every test begins with, which has "abcdefgh" at its start, is in swap. A function. */
static uint32_t evict_all(struct fixture *fixture)
{
	uint32_t function;

	write_letters(fixture, TEST_DEVICE);
	function = make_charged_function(fixture);
	evict(fixture, 64 * MIB, 0);
	grant(fixture, RESOURCE_COPY_FROM_DEVICE);
	assert_int_equal(double_chunks, 0);
	drain(fixture);
	return function;
}

static enum piece_state state_of(struct fixture *fixture, uint64_t address)
{
	return memory_piece(memory_find(fixture->core, address, 1), address)->state;
}

static int with_object(void **state)
{
	struct fixture *fixture;

	setup_with_gdevd(state);
	fixture = *state;
	make_stream(fixture, A);
	make_object(fixture, TEST_DEVICE, 8, false);
	return 0;
}

static void an_order_is_carried_out_and_memory_goes_back_piece_by_piece(void **state)
{
	struct fixture *fixture = *state;

	write_letters(fixture, TEST_DEVICE + 6 * MIB);
	evict(fixture, 4 * MIB, 0);
	acquire(fixture, RESOURCE_COPY_FROM_DEVICE);
	expect_return(fixture, 2 * MIB, 0);
	expect_return(fixture, 2 * MIB, 0);
	expect_evicted(fixture);
	/* Rule 3: of the two that left, one was never written. */
	assert_int_equal(state_of(fixture, TEST_DEVICE + 6 * MIB), PIECE_SWAPPED);
	assert_int_equal(state_of(fixture, TEST_DEVICE + 4 * MIB), PIECE_FRESH);
	assert_int_equal(state_of(fixture, TEST_DEVICE), PIECE_RESIDENT);
	assert_int_equal(fixture->core->page->swap_out_bytes, 2 * MIB);
	assert_int_equal(double_chunks, 2);
}

/* Its time is for gdevd to charge to whom the room is for. */
static void what_leaves_waits_for_the_copy_engine_and_is_not_charged_here(void **state)
{
	struct fixture *fixture = *state;
	struct control_grant released;
	struct control_evicted done;

	write_letters(fixture, TEST_DEVICE + 6 * MIB);
	double_busy_ns(2000000);
	double_hold(true);
	evict(fixture, 2 * MIB, 0);
	assert_int_equal(double_held(), 0);
	acquire(fixture, RESOURCE_COPY_FROM_DEVICE);
	assert_int_equal(double_held(), 1);
	take_back(fixture, RESOURCE_COPY_FROM_DEVICE, REVOKE_NOW);
	expect_no_message(fixture); /* it drains */
	double_hold(false);
	double_release(1, 0);
	fixture_run(fixture);
	released = expect_release(fixture, RESOURCE_COPY_FROM_DEVICE);
	assert_int_equal(released.used_ns, 0);
	assert_int_equal(released.wants, 0);
	expect_return(fixture, 2 * MIB, 0);
	done = expect_evicted(fixture);
	assert_true(done.copied_ns == 2000000);
	assert_int_equal(fixture->core->page->from_device_ns, 0);
}

/* Rule 2. */
static void a_copy_from_what_has_left_reads_swap_and_brings_nothing_in(void **state)
{
	struct fixture *fixture = *state;
	uint64_t value;

	write_letters(fixture, TEST_DEVICE + 2 * MIB - 4);
	evict(fixture, 8 * MIB, 0);
	grant(fixture, RESOURCE_COPY_FROM_DEVICE);
	assert_int_equal(double_chunks, 0);
	drain(fixture);
	value = post_copy(fixture, A, TEST_BASE, TEST_DEVICE + 2 * MIB - 4, 8);
	fixture_run(fixture);
	assert_int_equal(completed(fixture, A), value);
	assert_memory_equal((void *)TEST_BASE, "abcdefgh", 8);
	assert_int_equal(double_chunks, 0);
	expect_no_message(fixture);
}

/* Rule 3. */
static void a_fill_of_what_has_left_is_done_in_swap(void **state)
{
	struct fixture *fixture = *state;
	struct record_fill fill = {
		.header = {.opcode = RECORD_FILL, .timeline = A},
		.destination = TEST_DEVICE + MIB,
		.width = 4 * MIB,
		.height = 1,
		.pitch = 4 * MIB,
		.element_bytes = 1,
		.value = 7,
	};

	evict(fixture, 8 * MIB, 0);
	for (int i = 0; i < 4; i++)
		expect_return(fixture, 2 * MIB, 0);
	expect_evicted(fixture);
	post(fixture, &fill);
	post_copy(fixture, A, TEST_BASE, TEST_DEVICE + 5 * MIB - 8, 16);
	fixture_run(fixture);
	assert_int_equal(completed(fixture, A), 2);
	assert_memory_equal((void *)TEST_BASE, "\7\7\7\7\7\7\7\7\0\0\0\0\0\0\0\0", 16);
	assert_int_equal(double_chunks, 0);
	expect_no_message(fixture);
	assert_int_equal(session_error(fixture), 0);
}

/* Rules 1, 4 and 7. */
static void a_launch_holds_compute_and_then_everything_comes_in(void **state)
{
	struct fixture *fixture = *state;
	struct control_room wish;
	uint32_t function;
	uint64_t value;

	function = evict_all(fixture);
	value = post_first_launch(fixture, A, function);
	wish = expect_room(fixture, 8 * MIB);
	assert_true(completed(fixture, A) < value);
	answer_room(fixture, &wish, 0, 4 * MIB); /* in part: the rest is asked for again */
	assert_true(completed(fixture, A) < value);
	drain_until(fixture, CONTROL_ROOM, &wish, sizeof wish);
	assert_int_equal(wish.bytes, 4 * MIB);
	answer_room(fixture, &wish, 0, 4 * MIB);
	assert_int_equal(completed(fixture, A), value);
	assert_memory_equal((void *)TEST_DEVICE, "abcdefgh", 8);
	assert_int_equal(double_chunks, 4);
	assert_int_equal(fixture->core->memory.swap_bytes, 0);
}

/* The window is full of the program's own copies, and others wait for the engine. */
static void what_comes_in_waits_for_copies_and_no_longer(void **state)
{
	struct fixture *fixture = *state;
	uint64_t other = TEST_DEVICE + 64 * MIB, value;
	struct control_room wish;
	uint32_t function;

	function = evict_all(fixture);
	make_object(fixture, other, 8, false);
	make_stream(fixture, B);
	make_stream(fixture, C);
	fixture->core->page->revoke[RESOURCE_COPY_TO_DEVICE] = REVOKE_WHEN_IDLE;
	double_hold(true);
	post_copy(fixture, B, other, TEST_BASE, 2 * MIB);
	post_copy(fixture, C, other + 4 * MIB, TEST_BASE, 2 * MIB);
	fixture_run(fixture);
	assert_int_equal(double_held(), 2);
	value = post_first_launch(fixture, A, function);
	wish = expect_room(fixture, 8 * MIB);
	answer_room(fixture, &wish, 0, 8 * MIB);
	assert_int_equal(double_held(), 2);
	double_hold(false);
	double_release(2, 0);
	fixture_run(fixture);
	assert_int_equal(completed(fixture, A), value);
}

/* Rule 9. */
static void what_nobody_has_room_for_is_used_from_host_memory(void **state)
{
	struct fixture *fixture = *state;
	struct control_room wish;
	uint32_t function;
	uint64_t value;

	make_object(fixture, TEST_DEVICE + 64 * MIB, 8, true);
	assert_int_equal(state_of(fixture, TEST_DEVICE + 64 * MIB), PIECE_FRESH);
	function = make_charged_function(fixture);
	evict(fixture, 64 * MIB, 0); /* also what is charged and not used */
	value = post_launch(fixture, A, function, 0);
	fixture_run(fixture);
	drain(fixture);
	grant(fixture, RESOURCE_COMPUTE);
	drain_until(fixture, CONTROL_ROOM, &wish, sizeof wish);
	answer_room(fixture, &wish, -ENOMEM, 0);
	assert_int_equal(completed(fixture, A), value);
	assert_int_equal(state_of(fixture, TEST_DEVICE + 64 * MIB), PIECE_MAPPED);
	*(uint32_t *)(TEST_DEVICE + 64 * MIB) = 5; /* as a kernel would */
	expect_no_message(fixture);
}

/* Rules 5 and 6. */
static void what_is_wanted_back_before_it_was_written_has_not_moved(void **state)
{
	struct fixture *fixture = *state;
	uint32_t function = make_charged_function(fixture);
	uint64_t value;

	post_first_launch(fixture, A, function);
	double_hold(true);
	post_launch(fixture, A, function, 0);
	fixture_run(fixture);
	evict(fixture, 16 * MIB, 0); /* a kernel is running: nothing leaves yet */
	assert_int_equal(state_of(fixture, TEST_DEVICE), PIECE_LEAVING);
	assert_int_equal(double_chunks, 4);
	value = post_launch(fixture, A, function, 0);
	fixture_run(fixture);
	assert_int_equal(state_of(fixture, TEST_DEVICE), PIECE_RESIDENT);
	double_hold(false);
	fixture_run(fixture);
	assert_int_equal(completed(fixture, A), value);
	expect_return(fixture, 8 * MIB - 4096, 0);
	expect_return(fixture, 0, 16 * MIB);
	expect_evicted(fixture);
	assert_int_equal(fixture->core->page->swap_out_bytes, 0);
	assert_int_equal(fixture->core->page->swap_in_bytes, 0);
	assert_int_equal(fixture->core->page->rescued_bytes, 8 * MIB);
}

/* Rule 10: launches of a session that has the device do not want back what leaves for a limit. */
static void what_leaves_for_a_limit_is_not_wanted_back_before_it_has_left(void **state)
{
	struct fixture *fixture = *state;
	uint32_t function = make_charged_function(fixture);
	struct control_evicted done;
	struct control_room wish;
	uint64_t value;

	post_first_launch(fixture, A, function);
	double_hold(true);
	post_launch(fixture, A, function, 0);
	fixture_run(fixture);
	evict(fixture, 16 * MIB, EVICT_LIMIT); /* a kernel is running: nothing leaves yet */
	value = post_launch(fixture, A, function, 0);
	fixture_run(fixture);
	assert_int_equal(state_of(fixture, TEST_DEVICE), PIECE_LEAVING);
	double_hold(false);
	fixture_run(fixture);
	expect_return(fixture, 8 * MIB - 4096, 0);
	acquire(fixture, RESOURCE_COPY_FROM_DEVICE);
	drain_until(fixture, CONTROL_EVICTED, &done, sizeof done);
	assert_int_equal(done.rest, REST_STAYS);
	assert_int_equal(fixture->core->page->rescued_bytes, 0);
	assert_int_equal(double_chunks, 0);
	fixture_run(fixture);
	assert_true(completed(fixture, A) < value);
	drain_until(fixture, CONTROL_ROOM, &wish, sizeof wish); /* and goes on */
	answer_room(fixture, &wish, -ENOMEM, 0);
	fixture_run(fixture);
	assert_int_equal(completed(fixture, A), value);
	assert_int_equal(state_of(fixture, TEST_DEVICE), PIECE_MAPPED);
}

/* Orders the session, which has a kernel on the device, to give for a limit, and returns how long a launch of another stream
 * is held. */
static uint64_t held_ns(struct fixture *fixture, uint32_t function)
{
	struct control_evicted done;
	uint64_t since_ns = clock_now_ns(), ns, value;

	double_hold(true);
	post_launch(fixture, A, function, 0);
	fixture_run(fixture);
	evict(fixture, 16 * MIB, EVICT_LIMIT);
	value = post_launch(fixture, B, function, 0);
	for (int i = 0; i < 1000 && double_held() < 2; i++) {
		fixture_pass(10 * NS_PER_MS);
		fixture_tick(fixture);
	}
	assert_int_equal(double_held(), 2);
	assert_int_equal(state_of(fixture, TEST_DEVICE), PIECE_RESIDENT);
	ns = clock_now_ns() - since_ns;
	double_hold(false);
	fixture_run(fixture);
	drain_until(fixture, CONTROL_EVICTED, &done, sizeof done);
	assert_int_equal(completed(fixture, B), value);
	return ns;
}

/* But one that the kernel which is running may wait for is not held for ever; if that kernel is only long, an order that comes
 * later waits longer for it. */
static void a_launch_that_a_kernel_may_wait_for_is_held_for_a_moment(void **state)
{
	struct fixture *fixture = *state;
	uint32_t function = make_charged_function(fixture);

	make_stream(fixture, B);
	post_first_launch(fixture, A, function);
	held_ns(fixture, function);
	assert_int_equal(fixture->core->page->rescued_bytes, 8 * MIB);
	assert_true(held_ns(fixture, function) >= 220 * NS_PER_MS);
	assert_true(held_ns(fixture, function) >= 440 * NS_PER_MS);
}

/* And is given later, as gdevd hears. */
static void what_is_wanted_back_is_said_to_be_in_use_until_it_is_not(void **state)
{
	struct fixture *fixture = *state;

	write_letters(fixture, TEST_DEVICE + 6 * MIB);
	double_hold(true);
	post_write(fixture, A, TEST_DEVICE + 6 * MIB, "abcdefgh", 8, 0);
	fixture_run(fixture);
	evict(fixture, 2 * MIB, 0);
	assert_int_equal(state_of(fixture, TEST_DEVICE + 6 * MIB), PIECE_LEAVING);
	post_write(fixture, A, TEST_DEVICE + 6 * MIB, "abcdefgh", 8, 0);
	fixture_run(fixture);
	assert_int_equal(state_of(fixture, TEST_DEVICE + 6 * MIB), PIECE_RESIDENT);
	double_release(1, 0);
	fixture_run(fixture);
	expect_return(fixture, 0, 2 * MIB);
	assert_int_equal(expect_evicted(fixture).rest, REST_IN_USE);
	expect_no_message(fixture); /* the second is under way */
	double_release(1, 0);
	fixture_run(fixture);
	expect_eased(fixture);
	double_hold(false);
	evict(fixture, 2 * MIB, 0);
	acquire(fixture, RESOURCE_COPY_FROM_DEVICE);
	expect_return(fixture, 2 * MIB, 0);
	assert_int_equal(expect_evicted(fixture).rest, REST_STAYS);
}

/* An order of no bytes moves nothing. */
static void who_is_only_asked_says_when_it_does_not_use_the_device(void **state)
{
	struct fixture *fixture = *state;
	uint32_t function = make_charged_function(fixture);

	evict(fixture, 0, 0); /* it has nothing to do */
	assert_int_equal(expect_evicted(fixture).rest, REST_IN_USE);
	expect_eased(fixture);
	post_first_launch(fixture, A, function);
	double_hold(true);
	post_launch(fixture, A, function, 0);
	fixture_run(fixture);
	evict(fixture, 0, 0);
	assert_int_equal(expect_evicted(fixture).rest, REST_IN_USE);
	expect_no_message(fixture);
	post_launch(fixture, A, function, 0);
	fixture_run(fixture);
	double_release(1, 0);
	fixture_run(fixture);
	expect_no_message(fixture);
	double_hold(false);
	fixture_run(fixture);
	expect_eased(fixture);
	assert_int_equal(double_chunks, 4);
}

/* The last pieces of what the function has used are on their way to swap. */
static void begin_writing(struct fixture *fixture, uint32_t function)
{
	post_first_launch(fixture, A, function);
	double_hold(true);
	evict(fixture, 10 * MIB, 0);
	expect_return(fixture, 8 * MIB - 4096, 0);
	acquire(fixture, RESOURCE_COPY_FROM_DEVICE);
	assert_int_equal(state_of(fixture, TEST_DEVICE + 6 * MIB), PIECE_WRITING);
	assert_int_equal(state_of(fixture, TEST_DEVICE + 4 * MIB), PIECE_WRITING);
}

/* Rule 6. What reads it does not keep others from it. */
static void what_is_wanted_back_while_it_is_written_is_there_at_once(void **state)
{
	struct fixture *fixture = *state;
	uint32_t function = make_charged_function(fixture);
	uint64_t value;

	begin_writing(fixture, function);
	assert_int_equal(double_held(), 2);
	value = post_launch(fixture, A, function, 0);
	fixture_run(fixture);
	assert_int_equal(state_of(fixture, TEST_DEVICE + 6 * MIB), PIECE_RESIDENT);
	assert_int_equal(double_held(), 3);
	double_hold(false);
	fixture_run(fixture);
	assert_int_equal(completed(fixture, A), value);
	assert_int_equal(state_of(fixture, TEST_DEVICE + 6 * MIB), PIECE_RESIDENT);
	assert_int_equal(double_chunks, 4);
	/* But for the two slots, which are kept: and charged. */
	expect_return(fixture, 0, 6 * MIB);
	assert_int_equal(fixture->core->page->swap_kept_bytes, 4 * MIB);
	expect_evicted(fixture);
	assert_int_equal(fixture->core->page->swap_in_bytes, 0);
	evict(fixture, 4 * MIB, EVICT_SLOTS);
	expect_return(fixture, 0, 2 * MIB);
	expect_return(fixture, 0, 2 * MIB);
	expect_evicted(fixture);
	assert_int_equal(fixture->core->page->swap_kept_bytes, 0);
}

/* Else the segment's own slots would take the place of one that the write still has, and be put among those that are
 * kept. Without a gdevd an export is refused at once, when its turn comes. */
static void what_is_wanted_back_while_it_is_written_is_exported_after_that(void **state)
{
	struct fixture *fixture = *state;
	uint32_t function = make_charged_function(fixture);
	struct record_shared export = {
		.header.opcode = RECORD_SHARED_EXPORT, .address = TEST_DEVICE};
	uint64_t value;

	begin_writing(fixture, function);
	close(fixture->gdevd);
	fixture->gdevd = -1;
	fixture_run(fixture);
	value = post(fixture, &export);
	fixture_run(fixture);
	assert_int_equal(state_of(fixture, TEST_DEVICE + 6 * MIB), PIECE_RESIDENT);
	assert_true(completed(fixture, 0) < value);
	double_hold(false);
	fixture_run(fixture);
	assert_int_equal(completed(fixture, 0), value);
	assert_int_equal(fixture->segment->replies[0].status, -GDEV_E_NO_DAEMON);
}

/* An order for which the swap file is charged. */
static void evict_to(struct fixture *fixture, uint64_t bytes, int fd)
{
	struct control_evict order = {
		.header = {sizeof order, CONTROL_EVICT, CONTROL_VERSION, 9, 0},
		.bytes = bytes,
		.swapped = bytes,
		.flags = EVICT_FILE,
	};

	tell(fixture, &order, &fd, 1);
	fixture_run(fixture);
}

static void what_host_memory_has_no_room_for_goes_to_the_file_and_comes_back(void **state)
{
	struct fixture *fixture = *state;
	struct record_fill fill = {
		.header = {.opcode = RECORD_FILL, .timeline = A},
		.destination = TEST_DEVICE + 3 * MIB,
		.width = 4 * MIB,
		.height = 1,
		.pitch = 4 * MIB,
		.element_bytes = 1,
		.value = 7,
	};
	int fd = memfd_create("swap", 0);
	struct control_room wish;
	uint32_t function;
	uint64_t value;
	struct stat stat;

	write_letters(fixture, TEST_DEVICE + 2 * MIB - 4);
	function = make_charged_function(fixture);
	evict_to(fixture, 16 * MIB, fd);
	grant(fixture, RESOURCE_COPY_FROM_DEVICE);
	assert_int_equal(double_chunks, 0);
	assert_int_equal(fixture->core->page->swap_kept_bytes, 0);
	assert_int_equal(fixture->core->swap.charged[SWAP_MEMORY], 0);
	assert_int_equal(fixture->core->swap.made[SWAP_FILE], 4 * MIB); /* the others are fresh */
	assert_int_equal(fstat(fd, &stat), 0);
	assert_int_equal(stat.st_blocks * 512, 4 * MIB);
	drain(fixture);
	/* Rules 2 and 3, there. */
	post_copy(fixture, A, TEST_BASE, TEST_DEVICE + 2 * MIB - 4, 8);
	post(fixture, &fill);
	post_copy(fixture, A, TEST_BASE + 8, TEST_DEVICE + 3 * MIB - 8, 16);
	fixture_run(fixture);
	assert_int_equal(completed(fixture, A), 4);
	assert_memory_equal((void *)TEST_BASE, "abcdefgh\0\0\0\0\0\0\0\0\7\7\7\7\7\7\7\7", 24);
	assert_int_equal(double_chunks, 0);
	value = post_first_launch(fixture, A, function);
	drain_until(fixture, CONTROL_ROOM, &wish, sizeof wish);
	answer_room(fixture, &wish, 0, wish.bytes);
	assert_int_equal(completed(fixture, A), value);
	assert_memory_equal((void *)(TEST_DEVICE + 2 * MIB - 4), "abcdefgh", 8);
	assert_int_equal(*(uint8_t *)(TEST_DEVICE + 7 * MIB - 1), 7);
	assert_int_equal(*(uint8_t *)(TEST_DEVICE + 7 * MIB), 0);
	assert_int_equal(fixture->core->swap.charged[SWAP_FILE], 0);
	assert_int_equal(fstat(fd, &stat), 0);
	assert_int_equal(stat.st_blocks, 0);
	close(fd);
}

static void what_a_full_disk_does_not_take_stays_on_the_device(void **state)
{
	struct fixture *fixture = *state;
	int fd = memfd_create("swap", MFD_ALLOW_SEALING);
	struct control_evicted done;
	uint64_t value;

	assert_int_equal(fcntl(fd, F_ADD_SEALS, F_SEAL_GROW), 0);
	write_letters(fixture, TEST_DEVICE);
	evict_to(fixture, 8 * MIB, fd);
	for (int i = 0; i < 3; i++) /* which were never written */
		expect_return(fixture, 2 * MIB, 0);
	expect_return(fixture, 0, 2 * MIB);
	done = expect_evicted(fixture);
	assert_true(done.header.status < 0);
	assert_int_equal(state_of(fixture, TEST_DEVICE), PIECE_RESIDENT);
	value = post_copy(fixture, A, TEST_BASE, TEST_DEVICE, 8);
	fixture_run(fixture);
	acquire(fixture, RESOURCE_COPY_FROM_DEVICE);
	assert_int_equal(completed(fixture, A), value);
	assert_memory_equal((void *)TEST_BASE, "abcdefgh", 8);
	assert_int_equal(session_error(fixture), 0);
	close(fd);
}

/* What maps it can be a kernel. */
static void what_nobody_has_room_for_is_used_from_the_file(void **state)
{
	struct fixture *fixture = *state;
	int fd = memfd_create("swap", 0);
	struct control_room wish;
	uint32_t function;
	uint64_t value;

	function = make_charged_function(fixture);
	evict_to(fixture, 64 * MIB, fd);
	drain(fixture);
	value = post_launch(fixture, A, function, 0);
	fixture_run(fixture);
	grant(fixture, RESOURCE_COMPUTE);
	drain_until(fixture, CONTROL_ROOM, &wish, sizeof wish);
	answer_room(fixture, &wish, -ENOMEM, 0);
	assert_int_equal(completed(fixture, A), value);
	assert_int_equal(state_of(fixture, TEST_DEVICE), PIECE_MAPPED);
	*(uint32_t *)TEST_DEVICE = 5;
	assert_int_equal(release(fixture, TEST_DEVICE), 0);
	assert_int_equal(fixture->core->swap.charged[SWAP_FILE], 0);
	close(fd);
}

static void a_free_of_what_has_left_gives_host_swap_back(void **state)
{
	struct fixture *fixture = *state;

	evict(fixture, 8 * MIB, 0);
	for (int i = 0; i < 4; i++)
		expect_return(fixture, 2 * MIB, 0);
	expect_evicted(fixture);
	assert_int_equal(fixture->core->memory.swap_bytes, 8 * MIB);
	assert_int_equal(release(fixture, TEST_DEVICE), 0);
	expect_return(fixture, 0, 8 * MIB);
	assert_int_equal(fixture->core->residency.absent_bytes, 0);
}

/* What is in the slot is not what was on the device. */
static void what_could_not_be_written_stays_and_breaks_the_session(void **state)
{
	struct fixture *fixture = *state;

	write_letters(fixture, TEST_DEVICE + 6 * MIB);
	double_hold(true);
	evict(fixture, 2 * MIB, 0);
	acquire(fixture, RESOURCE_COPY_FROM_DEVICE);
	assert_int_equal(double_held(), 1);
	double_release(1, -GDEV_E_ILLEGAL_ADDRESS);
	fixture_run(fixture);
	assert_int_equal(state_of(fixture, TEST_DEVICE + 6 * MIB), PIECE_RESIDENT);
	assert_int_equal(session_error(fixture), -GDEV_E_ILLEGAL_ADDRESS);
	assert_int_equal(expect_evicted(fixture).header.status, -GDEV_E_ILLEGAL_ADDRESS);
}

static void a_suspended_session_waits(void **state)
{
	struct fixture *fixture = *state;
	uint64_t value;

	evict(fixture, 8 * MIB, EVICT_SUSPEND);
	for (int i = 0; i < 4; i++)
		expect_return(fixture, 2 * MIB, 0);
	expect_evicted(fixture);
	value = post_copy(fixture, A, TEST_BASE, TEST_DEVICE, 8);
	fixture_run(fixture);
	assert_true(completed(fixture, A) < value);
	evict(fixture, 0, EVICT_RESUME);
	fixture_run(fixture);
	assert_true(completed(fixture, A) < value || completed(fixture, A) == value);
	assert_false(fixture->core->residency.suspended);
}

/* As a gdevd sends it that does not know what the one before it has ordered. */
static void an_order_that_comes_during_another_is_carried_out_after_it(void **state)
{
	struct fixture *fixture = *state;
	struct control_evict order = {
		.header = {sizeof order, CONTROL_EVICT, CONTROL_VERSION, 10, 0},
		.bytes = 4 * MIB,
		.swapped = 4 * MIB,
	};
	struct control_evicted done;

	write_letters(fixture, TEST_DEVICE + 6 * MIB);
	evict(fixture, 2 * MIB, 0); /* waits for the copy engine */
	tell(fixture, &order, NULL, 0);
	fixture_run(fixture);
	assert_int_equal(double_chunks, 4);
	grant(fixture, RESOURCE_COPY_FROM_DEVICE);
	drain_until(fixture, CONTROL_EVICTED, &done, sizeof done);
	assert_int_equal(done.header.serial, 9);
	drain_until(fixture, CONTROL_EVICTED, &done, sizeof done);
	assert_int_equal(done.header.serial, 10);
	assert_int_equal(double_chunks, 1);
}

static void count_steps(const struct fixture *fixture, unsigned counts[TRACE_SWAPS])
{
	const struct trace_side *side = &fixture->core->trace.segment->worker;

	memset(counts, 0, TRACE_SWAPS * sizeof(counts[0]));
	for (uint64_t i = 0; i < side->head; i++) {
		const struct trace_event *event = &side->events[i];
		if (event->kind != TRACE_SWAP)
			continue;
		assert_true(event->begin_ns && event->begin_ns <= event->end_ns);
		if (event->detail != TRACE_SWAP_ORDER && event->detail != TRACE_SWAP_ROOM) {
			assert_in_range(event->value, TEST_DEVICE, TEST_DEVICE + 6 * MIB);
			assert_int_equal(event->amount, 2 * MIB);
		}
		counts[event->detail]++;
	}
}

static void what_leaves_and_comes_is_traced(void **state)
{
	struct fixture *fixture = *state;
	struct trace_segment *segment = fixture->core->trace.segment;
	unsigned counts[TRACE_SWAPS], nothing[TRACE_SWAPS] = {0};
	struct control_room wish;
	uint32_t function = evict_all(fixture);

	count_steps(fixture, counts); /* nobody traces */
	assert_memory_equal(counts, nothing, sizeof counts);
	segment->header.enabled = 1;
	post_first_launch(fixture, A, function);
	wish = expect_room(fixture, 8 * MIB);
	answer_room(fixture, &wish, 0, wish.bytes);
	take_back(fixture, RESOURCE_COMPUTE, REVOKE_NOW);
	evict(fixture, 8 * MIB, 0);
	count_steps(fixture, counts);
	/* One piece had been written before; after the launch all of them may have been. */
	assert_int_equal(counts[TRACE_SWAP_ROOM], 1);
	assert_int_equal(counts[TRACE_SWAP_MAKE], 4);
	assert_int_equal(counts[TRACE_SWAP_MAP], 4);
	assert_int_equal(counts[TRACE_SWAP_IN], 1);
	assert_int_equal(counts[TRACE_SWAP_SLOT], 4);
	assert_int_equal(counts[TRACE_SWAP_OUT], 4);
	assert_int_equal(counts[TRACE_SWAP_UNMAP], 4);
	assert_int_equal(counts[TRACE_SWAP_RELEASE], 4);
	assert_int_equal(counts[TRACE_SWAP_ORDER], 1);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, with_object, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(an_order_is_carried_out_and_memory_goes_back_piece_by_piece),
		TEST(what_leaves_waits_for_the_copy_engine_and_is_not_charged_here),
		TEST(a_copy_from_what_has_left_reads_swap_and_brings_nothing_in),
		TEST(a_fill_of_what_has_left_is_done_in_swap),
		TEST(a_launch_holds_compute_and_then_everything_comes_in),
		TEST(what_comes_in_waits_for_copies_and_no_longer),
		TEST(what_nobody_has_room_for_is_used_from_host_memory),
		TEST(what_is_wanted_back_before_it_was_written_has_not_moved),
		TEST(what_leaves_for_a_limit_is_not_wanted_back_before_it_has_left),
		TEST(a_launch_that_a_kernel_may_wait_for_is_held_for_a_moment),
		TEST(what_is_wanted_back_is_said_to_be_in_use_until_it_is_not),
		TEST(who_is_only_asked_says_when_it_does_not_use_the_device),
		TEST(what_is_wanted_back_while_it_is_written_is_there_at_once),
		TEST(what_is_wanted_back_while_it_is_written_is_exported_after_that),
		TEST(what_host_memory_has_no_room_for_goes_to_the_file_and_comes_back),
		TEST(what_a_full_disk_does_not_take_stays_on_the_device),
		TEST(what_nobody_has_room_for_is_used_from_the_file),
		TEST(an_order_that_comes_during_another_is_carried_out_after_it),
		TEST(a_free_of_what_has_left_gives_host_swap_back),
		TEST(what_could_not_be_written_stays_and_breaks_the_session),
		TEST(a_suspended_session_waits),
		TEST(what_leaves_and_comes_is_traced),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
