/* SPDX-License-Identifier: MIT
 *
 * Device memory, page-locked memory, what is charged for it, and freeing while the device works.
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/fd.h"
#include "harness.h"

enum { A = 40 };

static void allocations_are_checked(void **state)
{
	static const struct {
		uint64_t address, bytes;
		int status;
	} cases[] = {
		{TEST_DEVICE, 0, -EINVAL},
		{TEST_DEVICE, MIB, -EINVAL},
		{TEST_DEVICE + MIB, 2 * MIB, -EINVAL},
		{TEST_BASE - 2 * MIB, 2 * MIB, -EINVAL},
		{TEST_BASE + TEST_BYTES, 2 * MIB, -EINVAL},
		{TEST_BASE + TEST_BYTES - 2 * MIB, 4 * MIB, -EINVAL},
		{TEST_DEVICE, UINT64_MAX & ~(2 * MIB - 1), -EINVAL},
		{0, 2 * MIB, -EINVAL},
		{TEST_BASE, 2 * MIB, -EEXIST}, /* staging memory */
		{TEST_DEVICE - 2 * MIB, 4 * MIB, -EEXIST},
		{TEST_DEVICE, 4 * MIB, 0},
		{TEST_DEVICE, 2 * MIB, -EEXIST},
		{TEST_DEVICE + 2 * MIB, 4 * MIB, -EEXIST},
		{TEST_DEVICE + 4 * MIB, 2 * MIB, 0},
		{TEST_DEVICE + 8 * MIB, 512 * MIB, -ENOMEM},
	};
	struct fixture *fixture = *state;

	for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
		assert_int_equal(alloc(fixture, cases[i].address, cases[i].bytes), cases[i].status);
}

static void frees_name_whole_objects(void **state)
{
	struct fixture *fixture = *state;

	assert_int_equal(alloc(fixture, TEST_DEVICE, 4 * MIB), 0);
	assert_int_equal(release(fixture, TEST_BASE), -EINVAL);
	assert_int_equal(release(fixture, TEST_DEVICE + 2 * MIB), -EINVAL);
	assert_int_equal(release(fixture, TEST_DEVICE + 4 * MIB), -EINVAL);
	assert_int_equal(release(fixture, 0), -EINVAL);
	assert_int_equal(release(fixture, TEST_DEVICE), 0);
	assert_int_equal(release(fixture, TEST_DEVICE), -EINVAL);
	assert_int_equal(alloc(fixture, TEST_DEVICE, 4 * MIB), 0);
}

static void large_objects_are_made_of_large_chunks(void **state)
{
	struct fixture *fixture = *state;

	assert_int_equal(alloc(fixture, TEST_DEVICE, 14 * MIB), 0);
	assert_int_equal(double_chunks, 7);
	assert_int_equal(alloc(fixture, TEST_DEVICE + 64 * MIB, 20 * MIB), 0);
	assert_int_equal(double_chunks, 7 + 2); /* 16 4 */
	assert_int_equal(alloc(fixture, TEST_DEVICE + 128 * MIB, 78 * MIB), 0);
	assert_int_equal(double_chunks, 7 + 2 + 2 + 3); /* 32 32 8 4 2 */
}

static void freed_chunks_are_used_again(void **state)
{
	struct fixture *fixture = *state;

	assert_int_equal(alloc(fixture, TEST_DEVICE, 14 * MIB), 0);
	*(uint64_t *)TEST_DEVICE = 42;
	assert_int_equal(release(fixture, TEST_DEVICE), 0);
	assert_int_equal(double_chunks, 7);
	assert_int_equal(alloc(fixture, TEST_DEVICE + 32 * MIB, 14 * MIB), 0);
	assert_int_equal(double_chunks, 7);
}

static void chunks_that_are_kept_make_room_for_others(void **state)
{
	struct fixture *fixture = *state;

	/* 64 MiB in two chunks are kept; the limit allows 256 MiB in all. */
	assert_int_equal(alloc(fixture, TEST_DEVICE, 64 * MIB), 0);
	assert_int_equal(release(fixture, TEST_DEVICE), 0);
	assert_int_equal(double_chunks, 2);
	assert_int_equal(alloc(fixture, TEST_DEVICE, 14 * MIB), 0);
	assert_true(fixture->core->memory.used_bytes + fixture->core->memory.kept_bytes <=
		    fixture->core->memory.charged_bytes);
	assert_int_equal(double_chunks, 7 + 1); /* one of the two is paid for still */
}

static void a_free_waits_for_what_is_on_the_device(void **state)
{
	struct fixture *fixture = *state;
	uint32_t function = make_function(fixture);
	struct record_memory record = {{.opcode = RECORD_MEMORY_FREE}, TEST_DEVICE, 0};
	uint64_t value, other;

	make_stream(fixture, A);
	assert_int_equal(alloc(fixture, TEST_DEVICE, 2 * MIB), 0);
	double_hold(true);
	post_copy(fixture, A, TEST_DEVICE, TEST_BASE, 64);
	post_copy(fixture, A, TEST_BASE, TEST_DEVICE, 64);
	fixture_run(fixture);
	assert_int_equal(double_held(), 2);
	value = post(fixture, &record);
	other = post_launch(fixture, A, function, 0); /* after the free: no reason to wait for it */
	fixture_run(fixture);
	assert_int_equal(double_held(), 3);
	assert_true(completed(fixture, 0) < value);
	double_release(1, 0);
	fixture_run(fixture);
	assert_true(completed(fixture, 0) < value);
	double_release(1, 0);
	fixture_run(fixture);
	assert_int_equal(completed(fixture, 0), value);
	assert_true(completed(fixture, A) < other);
	double_release(1, 0);
	fixture_run(fixture);
	assert_int_equal(session_error(fixture), 0);
}

static void what_is_being_freed_is_gone_for_new_commands(void **state)
{
	struct fixture *fixture = *state;
	uint32_t function = make_function(fixture);
	struct record_memory record = {{.opcode = RECORD_MEMORY_FREE}, TEST_DEVICE, 0};
	struct record_memory again = {
		{.opcode = RECORD_MEMORY_ALLOC, .timeline = 1}, TEST_DEVICE, 2 * MIB};

	make_stream(fixture, A);
	assert_int_equal(alloc(fixture, TEST_DEVICE, 2 * MIB), 0);
	double_hold(true);
	post_launch(fixture, A, function, 0);
	fixture_run(fixture);
	post(fixture, &record);
	post(fixture, &again); /* its address is not free yet */
	post_copy(fixture, A, TEST_DEVICE, TEST_BASE, 64);
	fixture_run(fixture);
	assert_int_equal(fixture->segment->replies[1].status, -EEXIST);
	assert_int_equal(session_error(fixture), -GDEV_E_ILLEGAL_ADDRESS);
	double_release(double_held(), 0);
	fixture_run(fixture);
	assert_int_equal(completed(fixture, A), 2);
}

/* ---- gdevd's accounts ---- */

static void memory_is_paid_for_before_it_is_taken(void **state)
{
	struct fixture *fixture = *state;
	struct record_memory record = {{.opcode = RECORD_MEMORY_ALLOC}, TEST_DEVICE, 64 * MIB};
	struct control_allocate wish;
	uint64_t value = post(fixture, &record);

	fixture_run(fixture);
	assert_int_equal(completed(fixture, 0), value - 1);
	assert_int_equal(double_chunks, 0);
	wish = expect_allocate(fixture, 64 * MIB);
	answer_allocate(fixture, &wish, 0);
	assert_int_equal(completed(fixture, 0), value);
	assert_int_equal(fixture->segment->replies[0].status, 0);
	assert_int_equal(fixture->core->page->device_bytes, 64 * MIB);
}

static void slack_saves_messages_and_is_not_insisted_on(void **state)
{
	struct fixture *fixture = *state;
	struct record_memory record = {{.opcode = RECORD_MEMORY_ALLOC}, TEST_DEVICE, 2 * MIB};
	struct control_allocate wish;

	post(fixture, &record);
	fixture_run(fixture);
	wish = expect_allocate(fixture, 2 * MIB);
	assert_int_equal(wish.slack_bytes, 6 * MIB);
	wish.slack_bytes = 0; /* there are none */
	answer_allocate(fixture, &wish, 0);
	assert_int_equal(fixture->segment->replies[0].status, 0);
	assert_int_equal(completed(fixture, 0), 1);
	/* With slack, the next ones are free of messages. */
	record = (struct record_memory){
		{.opcode = RECORD_MEMORY_ALLOC}, TEST_DEVICE + 2 * MIB, 2 * MIB};
	post(fixture, &record);
	fixture_run(fixture);
	wish = expect_allocate(fixture, 2 * MIB);
	answer_allocate(fixture, &wish, 0);
	assert_int_equal(alloc(fixture, TEST_DEVICE + 4 * MIB, 6 * MIB), 0);
	expect_no_message(fixture);
	assert_int_equal(release(fixture, TEST_DEVICE), 0);
	expect_no_message(fixture);
}

/* One question, whatever the answer is. */
static void what_the_device_has_no_room_for_begins_in_swap(void **state)
{
	struct fixture *fixture = *state;
	struct record_memory record = {{.opcode = RECORD_MEMORY_ALLOC}, TEST_DEVICE, 64 * MIB};
	struct control_allocate wish;

	post(fixture, &record);
	fixture_run(fixture);
	wish = expect_allocate(fixture, 64 * MIB);
	assert_int_equal(wish.swap_bytes, 64 * MIB);
	say_charged(fixture, &wish.header, 0, 0, 64 * MIB);
	fixture_run(fixture);
	assert_int_equal(fixture->segment->replies[0].status, 0);
	assert_int_equal(double_chunks, 0);
	assert_int_equal(fixture->core->page->swapped_bytes, 64 * MIB);
	expect_no_message(fixture);
	assert_int_equal(release(fixture, TEST_DEVICE), 0);
	expect_return(fixture, 0, 64 * MIB);
}

static void memory_that_is_refused_is_not_there(void **state)
{
	struct fixture *fixture = *state;
	struct record_memory record = {{.opcode = RECORD_MEMORY_ALLOC}, TEST_DEVICE, 64 * MIB};
	struct control_allocate wish;

	post(fixture, &record);
	fixture_run(fixture);
	wish = expect_allocate(fixture, 64 * MIB);
	answer_allocate(fixture, &wish, -ENOMEM);
	expect_no_message(fixture);
	assert_int_equal(fixture->segment->replies[0].status, -ENOMEM);
	assert_int_equal(double_chunks, 0);
	assert_int_equal(release(fixture, TEST_DEVICE), -EINVAL);
}

static void much_slack_goes_back(void **state)
{
	struct fixture *fixture = *state;
	struct record_memory record = {{.opcode = RECORD_MEMORY_ALLOC}, TEST_DEVICE, 128 * MIB};
	struct control_allocate wish;

	post(fixture, &record);
	fixture_run(fixture);
	wish = expect_allocate(fixture, 128 * MIB);
	answer_allocate(fixture, &wish, 0);
	assert_int_equal(release(fixture, TEST_DEVICE), 0);
	expect_return(fixture, 64 * MIB, 0);
	/* And, when nothing happens, the rest; the clock is set forward by hand. */
	core_lock(fixture->core);
	memory_tick(fixture->core, UINT64_MAX - 1);
	core_unlock(fixture->core);
	fixture_run(fixture);
	expect_return(fixture, 64 * MIB, 0);
	assert_int_equal(double_chunks, 0);
	assert_int_equal(fixture->core->page->device_bytes, 0);
}

/* ---- the peer socket ---- */

static int peer_call(struct fixture *fixture, struct peer_message *message, const int *sent,
	size_t sent_count, int *fds, size_t *fd_count)
{
	struct peer_message answer;

	message->serial = 77;
	assert_int_equal(fd_send(fixture->peer, message, sizeof *message, sent, sent_count), 0);
	fixture_run(fixture);
	assert_int_equal(
		fd_receive(fixture->peer, &answer, sizeof answer, fds, fd_count), sizeof answer);
	assert_int_equal(answer.serial, 77);
	assert_int_equal(answer.type, message->type);
	*message = answer;
	return answer.status;
}

static void page_locked_memory_comes_as_a_sealed_memfd(void **state)
{
	struct fixture *fixture = *state;
	int fd = fd_shared_memory("test", 4 * MIB), open = memfd_create("open", 0), both[2];
	struct peer_message message = {
		.type = PEER_HOST_ADD, .address = TEST_DEVICE, .bytes = 4 * MIB};
	struct peer_message bad;
	uint64_t *ours = mmap(NULL, 4 * MIB, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);

	make_stream(fixture, A);
	assert_int_equal(ftruncate(open, 4 * MIB), 0);
	bad = message;
	assert_int_equal(peer_call(fixture, &bad, &open, 1, NULL, NULL), -EINVAL);
	bad = message;
	assert_int_equal(peer_call(fixture, &bad, NULL, 0, NULL, NULL), -EINVAL);
	bad = message;
	bad.bytes += 4096;
	assert_int_equal(peer_call(fixture, &bad, &fd, 1, NULL, NULL), -EINVAL);
	bad = message;
	bad.address += 1;
	assert_int_equal(peer_call(fixture, &bad, &fd, 1, NULL, NULL), -EINVAL);
	bad = message;
	bad.address = TEST_BASE;
	assert_int_equal(peer_call(fixture, &bad, &fd, 1, NULL, NULL), -EEXIST);
	bad = message;
	bad.address = 0x1000;
	assert_int_equal(peer_call(fixture, &bad, &fd, 1, NULL, NULL), -EINVAL);

	assert_int_equal(peer_call(fixture, &message, &fd, 1, NULL, NULL), 0);
	ours[5] = 1234;
	post_copy(fixture, A, TEST_BASE, TEST_DEVICE + 40, 8);
	fixture_run(fixture);
	assert_int_equal(*(uint64_t *)TEST_BASE, 1234);
	assert_int_equal(release(fixture, TEST_DEVICE), 0);
	post_copy(fixture, A, TEST_BASE, TEST_DEVICE + 40, 8);
	fixture_run(fixture);
	assert_int_equal(session_error(fixture), -GDEV_E_ILLEGAL_ADDRESS);
	munmap(ours, 4 * MIB);
	both[0] = fd;
	both[1] = open;
	fd_close_all(both, 2);
}

static int add_range(struct fixture *fixture, uint64_t address, uint64_t bytes)
{
	struct peer_message message = {.type = PEER_RANGE_ADD, .address = address, .bytes = bytes};

	return peer_call(fixture, &message, NULL, 0, NULL, NULL);
}

static void addresses_of_the_clients_other_sessions_can_be_added(void **state)
{
	struct fixture *fixture = *state;
	const uint64_t other = TEST_BASE + TEST_BYTES;
	int fd = fd_shared_memory("test", 4 * MIB);
	struct peer_message host = {.type = PEER_HOST_ADD, .address = other, .bytes = 4 * MIB};
	struct record_memory alloc = {
		.header.opcode = RECORD_MEMORY_ALLOC, .address = other, .bytes = 4 * MIB};
	struct peer_message again = host;
	void *taken;

	assert_int_equal(peer_call(fixture, &again, &fd, 1, NULL, NULL), -EINVAL);
	assert_int_equal(add_range(fixture, other, 0), -EINVAL);
	assert_int_equal(add_range(fixture, 0, 16 * MIB), -EINVAL);
	assert_int_equal(add_range(fixture, other + 4096, 16 * MIB), -EINVAL);
	assert_int_equal(add_range(fixture, other, 16 * MIB + 4096), -EINVAL);
	assert_int_equal(add_range(fixture, other, PEER_RANGE_BYTES_MAX + 2 * MIB), -EINVAL);
	assert_int_equal(add_range(fixture, 1ull << 47, 2 * MIB), -EINVAL);
	assert_int_equal(add_range(fixture, -(2 * MIB), 2 * MIB), -EINVAL);
	assert_int_equal(add_range(fixture, other - 2 * MIB, 4 * MIB), -EINVAL);
	assert_int_equal(add_range(fixture, TEST_BASE, TEST_BYTES), -EINVAL);
	taken = mmap((void *)other, 4096, PROT_NONE,
		MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
	assert_ptr_equal(taken, (void *)other);
	assert_int_equal(add_range(fixture, other, 16 * MIB), -EADDRINUSE);
	munmap(taken, 4096);
	assert_int_equal(add_range(fixture, other, 16 * MIB), 0);
	assert_int_equal(add_range(fixture, other, 16 * MIB), 0);
	assert_int_equal(add_range(fixture, other + 14 * MIB, 16 * MIB), -EINVAL);
	for (uint64_t i = 1; i < PEER_RANGES_MAX; i++)
		assert_int_equal(add_range(fixture, other + i * 32 * MIB, 2 * MIB), 0);
	assert_int_equal(add_range(fixture, other + PEER_RANGES_MAX * 32 * MIB, 2 * MIB), -ENOSPC);

	/* It is for what the other session has too. */
	assert_int_equal(ask_plain(fixture, &alloc), -EINVAL);
	again = host;
	assert_int_equal(peer_call(fixture, &again, &fd, 1, NULL, NULL), 0);
	again = host;
	again.address = other + 14 * MIB;
	assert_int_equal(peer_call(fixture, &again, &fd, 1, NULL, NULL), -EINVAL);
	make_stream(fixture, A);
	*(uint64_t *)(other + 40) = 1234;
	post_copy(fixture, A, TEST_BASE, other + 40, 8);
	fixture_run(fixture);
	assert_int_equal(*(uint64_t *)TEST_BASE, 1234);
	assert_int_equal(release(fixture, other), 0);
	post_copy(fixture, A, TEST_BASE, other + 40, 8);
	fixture_run(fixture);
	assert_int_equal(session_error(fixture), -GDEV_E_ILLEGAL_ADDRESS);
	close(fd);
}

/* mmap() would map a whole large page, over what follows. */
static void page_locked_memory_has_ordinary_pages(void **state)
{
	struct fixture *fixture = *state;
	int fd = memfd_create("large", MFD_ALLOW_SEALING | MFD_HUGETLB);
	struct peer_message message = {
		.type = PEER_HOST_ADD, .address = TEST_DEVICE, .bytes = 4096};

	if (fd < 0 || ftruncate(fd, 1024 * MIB)) {
		printf("# the kernel makes no files of large pages\n");
		skip();
	}
	assert_int_equal(fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL), 0);
	assert_int_equal(peer_call(fixture, &message, &fd, 1, NULL, NULL), -EINVAL);
	close(fd);
}

static int image_of(uint64_t bytes, const char *behind)
{
	static char image[64] = "anything";
	const struct iovec part = {image, bytes};
	char zeros[IMAGE_ZEROS] = "";

	strcpy(zeros, behind);
	return fd_frozen_memory("image", &part, 1, zeros, sizeof zeros);
}

static int load_number(struct fixture *fixture, uint64_t number)
{
	struct record_module_load load = {
		.header.opcode = RECORD_MODULE_LOAD, .image_bytes = 16, .number = number};

	return ask_plain(fixture, &load);
}

static void an_image_that_was_sent_is_loaded_once(void **state)
{
	struct fixture *fixture = *state;
	struct peer_message message = {.type = PEER_IMAGE, .bytes = 16};
	int fd = image_of(16, "");

	assert_int_equal(load_number(fixture, 1), -GDEV_E_INVALID_HANDLE);
	assert_int_equal(peer_call(fixture, &message, &fd, 1, NULL, NULL), 0);
	assert_int_equal(load_number(fixture, message.address), 0);
	assert_int_equal(load_number(fixture, message.address), -GDEV_E_INVALID_HANDLE);
	assert_int_equal(load_number(fixture, UINT64_MAX), -GDEV_E_INVALID_HANDLE);
	close(fd);
}

static void an_image_cannot_change_has_zeros_behind_and_few_wait(void **state)
{
	struct fixture *fixture = *state;
	struct peer_message message = {.type = PEER_IMAGE, .bytes = 16};
	int good = image_of(16, ""), unclean = image_of(16, "x");
	int writable = fd_shared_memory("image", 16 + IMAGE_ZEROS);

	assert_int_equal(peer_call(fixture, &message, &unclean, 1, NULL, NULL), -EINVAL);
	assert_int_equal(peer_call(fixture, &message, &writable, 1, NULL, NULL), -EINVAL);
	assert_int_equal(peer_call(fixture, &message, NULL, 0, NULL, NULL), -EINVAL);
	message.bytes = 15;
	assert_int_equal(peer_call(fixture, &message, &good, 1, NULL, NULL), -EINVAL);
	message.bytes = UINT64_MAX;
	assert_int_equal(peer_call(fixture, &message, &good, 1, NULL, NULL), -EINVAL);
	for (unsigned i = 0; i <= IMAGES_WAITING; i++) {
		message.bytes = 16;
		assert_int_equal(peer_call(fixture, &message, &good, 1, NULL, NULL),
			i < IMAGES_WAITING ? 0 : -EMFILE);
	}
	close(good);
	close(unclean);
	close(writable);
}

static int send_image(struct fixture *fixture, int fd, uint64_t *number)
{
	struct peer_message message = {.type = PEER_IMAGE, .bytes = 16};
	int status = peer_call(fixture, &message, &fd, 1, NULL, NULL);

	*number = message.address;
	return status;
}

static void images_take_no_memory_but_what_their_client_has_given(void **state)
{
	struct fixture *fixture = *state;
	struct peer_message message = {.type = PEER_IMAGE, .bytes = 64 * MIB - IMAGE_ZEROS};
	int fd = memfd_create("hole", MFD_CLOEXEC | MFD_ALLOW_SEALING);

	assert_int_equal(ftruncate(fd, 64 * MIB), 0);
	assert_int_equal(pwrite(fd, "anything", 8, 0), 8);
	assert_int_equal(
		fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE | F_SEAL_SEAL),
		0);
	assert_int_equal(peer_call(fixture, &message, &fd, 1, NULL, NULL), -EINVAL);
	close(fd);
}

static void images_count_as_memory_that_the_client_adds(void **state)
{
	struct record_handle unload = {.header.opcode = RECORD_MODULE_UNLOAD};
	struct fixture *fixture = *state;
	uint64_t first, second;
	int fd = image_of(16, "");

	fixture->core->config.host_bytes = 2 * (16 + IMAGE_ZEROS);
	assert_int_equal(send_image(fixture, fd, &first), 0);
	assert_int_equal(send_image(fixture, fd, &second), 0);
	assert_int_equal(load_number(fixture, first), 0);
	unload.handle = ((const struct reply_module *)reply_payload(fixture))->module;
	assert_int_equal(send_image(fixture, fd, &first), -ENOMEM);
	assert_int_equal(ask_plain(fixture, &unload), 0);
	assert_int_equal(send_image(fixture, fd, &first), 0);
	assert_int_equal(fixture->core->memory.host_bytes, 2 * (16 + IMAGE_ZEROS));
	close(fd);
}

static int add_host(struct fixture *fixture, int fd, uint64_t address, uint64_t bytes)
{
	struct peer_message message = {.type = PEER_HOST_ADD, .address = address, .bytes = bytes};

	return peer_call(fixture, &message, &fd, 1, NULL, NULL);
}

static void page_locked_memory_begins_where_the_client_says(void **state)
{
	struct fixture *fixture = *state;
	int fd = fd_shared_memory("test", 4 * MIB);
	uint64_t *ours = mmap(NULL, 4 * MIB, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	const uint64_t refused[] = {1, 2 * MIB + 4096, 4 * MIB, -(2 * MIB), UINT64_MAX};
	struct peer_message message = {
		.type = PEER_HOST_ADD, .address = TEST_DEVICE, .bytes = 2 * MIB};

	for (size_t i = 0; i < sizeof refused / sizeof *refused; i++) {
		struct peer_message bad = message;
		bad.piece_bytes[0] = refused[i];
		assert_int_equal(peer_call(fixture, &bad, &fd, 1, NULL, NULL), -EINVAL);
	}
	message.piece_bytes[0] = 2 * MIB;
	assert_int_equal(peer_call(fixture, &message, &fd, 1, NULL, NULL), 0);
	ours[2 * MIB / 8] = 1234;
	assert_int_equal(*(uint64_t *)TEST_DEVICE, 1234);
	munmap(ours, 4 * MIB);
	close(fd);
}

static void page_locked_memory_is_bounded_and_comes_back(void **state)
{
	struct fixture *fixture = *state;
	int fd = fd_shared_memory("test", 4 * MIB);

	assert_true(fixture->core->config.host_bytes >= TEST_BYTES / 16); /* half of the machine */
	fixture->core->config.host_bytes = 8 * MIB;
	assert_int_equal(add_host(fixture, fd, TEST_DEVICE, 4 * MIB), 0);
	assert_int_equal(add_host(fixture, fd, TEST_DEVICE + 8 * MIB, 4 * MIB), 0);
	assert_int_equal(add_host(fixture, fd, TEST_DEVICE + 16 * MIB, 4096), -ENOMEM);
	assert_int_equal(release(fixture, TEST_DEVICE), 0);
	assert_int_equal(add_host(fixture, fd, TEST_DEVICE + 16 * MIB, 4096), 0);
	assert_int_equal(add_host(fixture, fd, TEST_DEVICE, 4 * MIB), -ENOMEM);
	/* What was refused is not counted, and other memory is none of it. */
	assert_int_equal(add_host(fixture, fd, TEST_DEVICE + 8 * MIB, 4096), -EEXIST);
	assert_int_equal(add_host(fixture, fd, TEST_DEVICE, 4 * MIB - 4096), 0);
	assert_int_equal(alloc(fixture, TEST_DEVICE + 32 * MIB, 16 * MIB), 0);
	close(fd);
}

static void page_locked_ranges_are_bounded_and_come_back(void **state)
{
	struct fixture *fixture = *state;
	int fd = fd_shared_memory("test", 4096);

	fixture->core->memory.host_ranges = HOST_RANGES_MAX - 1; /* as if they were there */
	assert_int_equal(add_host(fixture, fd, TEST_DEVICE, 4096), 0);
	assert_int_equal(add_host(fixture, fd, TEST_DEVICE + 4096, 4096), -ENOMEM);
	assert_int_equal(release(fixture, TEST_DEVICE), 0);
	assert_int_equal(add_host(fixture, fd, TEST_DEVICE + 4096, 4096), 0);
	close(fd);
}

static void device_memory_maps_into_the_client(void **state)
{
	struct fixture *fixture = *state;
	struct peer_message message = {
		.type = PEER_DEVICE_MAP, .address = TEST_DEVICE, .bytes = 4 * MIB};
	struct peer_message bad;
	int fds[PEER_FDS_MAX];
	size_t count = PEER_FDS_MAX;
	uint64_t *ours;

	assert_int_equal(peer_call(fixture, &message, NULL, 0, NULL, NULL), -EINVAL);
	assert_int_equal(alloc(fixture, TEST_DEVICE, 4 * MIB), 0);
	bad = (struct peer_message){
		.type = PEER_DEVICE_MAP, .address = TEST_DEVICE + 4096, .bytes = MIB};
	assert_int_equal(peer_call(fixture, &bad, NULL, 0, NULL, NULL), -EINVAL);
	bad = (struct peer_message){
		.type = PEER_DEVICE_MAP, .address = TEST_DEVICE, .bytes = UINT64_MAX};
	assert_int_equal(peer_call(fixture, &bad, NULL, 0, NULL, NULL), -EINVAL);
	bad = (struct peer_message){.type = PEER_DEVICE_MAP, .address = TEST_BASE, .bytes = MIB};
	assert_int_equal(peer_call(fixture, &bad, NULL, 0, NULL, NULL), -EINVAL);

	message = (struct peer_message){
		.type = PEER_DEVICE_MAP, .address = TEST_DEVICE, .bytes = 4 * MIB};
	assert_int_equal(peer_call(fixture, &message, NULL, 0, fds, &count), 0);
	assert_int_equal(count, 2);
	assert_int_equal(message.pieces, 2);
	assert_int_equal(message.bytes, 4 * MIB);
	ours = mmap(NULL, 2 * MIB, PROT_READ | PROT_WRITE, MAP_SHARED, fds[1], 0);
	*(uint64_t *)(TEST_DEVICE + 2 * MIB) = 99;
	assert_int_equal(ours[0], 99);
	munmap(ours, 2 * MIB);
	fd_close_all(fds, count);
}

static void many_pieces_come_some_at_a_time(void **state)
{
	struct fixture *fixture = *state;
	struct peer_message message = {
		.type = PEER_DEVICE_MAP, .address = TEST_DEVICE, .bytes = 10 * MIB};
	int fds[PEER_FDS_MAX];
	size_t count = PEER_FDS_MAX;

	/* Five objects of one piece each do not make a range; one of seven does. */
	assert_int_equal(alloc(fixture, TEST_DEVICE, 14 * MIB), 0);
	message.address += 4 * MIB;
	assert_int_equal(peer_call(fixture, &message, NULL, 0, fds, &count), 0);
	assert_int_equal(count, 5);
	assert_int_equal(message.bytes, 10 * MIB);
	fd_close_all(fds, count);
}

static void the_end_of_the_peer_ends_the_session(void **state)
{
	struct fixture *fixture = *state;
	struct control_header bye;

	close(fixture->peer);
	fixture->peer = -1;
	fixture_run(fixture);
	assert_int_equal(fixture->ended, 1);
	assert_int_equal(fixture->reason, 0);
	expect_message(fixture, CONTROL_BYE, &bye, sizeof bye, NULL, NULL);
}

static void nonsense_from_the_peer_ends_the_session(void **state)
{
	struct fixture *fixture = *state;
	char nonsense[4096] = "?";

	assert_int_equal(write(fixture->peer, nonsense, sizeof nonsense), sizeof nonsense);
	fixture_run(fixture);
	assert_int_equal(fixture->ended, 1);
	assert_int_equal(fixture->reason, -GDEV_E_PROTOCOL);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup_alone, teardown)
#define TEST_GDEVD(name) cmocka_unit_test_setup_teardown(name, setup_with_gdevd, teardown)

/* Others than gdevd's workers use the device: the driver has no memory for what gdevd has charged. */
static struct control_allocate expect_refusal(struct fixture *fixture, uint64_t bytes)
{
	struct control_return message;

	expect_message(fixture, CONTROL_RETURN, &message, sizeof message, NULL, NULL);
	assert_int_equal(message.header.status, -ENOMEM);
	assert_int_equal(message.device_bytes, bytes);
	return expect_allocate(fixture, bytes);
}

static void what_the_driver_refuses_gdevd_is_asked_for_again(void **state)
{
	struct fixture *fixture = *state;
	struct record_memory record = {{.opcode = RECORD_MEMORY_ALLOC}, TEST_DEVICE, 64 * MIB};
	struct control_allocate wish;

	double_refusals = 1;
	post(fixture, &record);
	fixture_run(fixture);
	wish = expect_allocate(fixture, 64 * MIB);
	answer_allocate(fixture, &wish, 0);
	wish = expect_refusal(fixture, 64 * MIB);
	assert_int_equal(double_chunks, 0);
	answer_allocate(fixture, &wish, 0);
	assert_int_equal(fixture->segment->replies[0].status, 0);
	assert_int_equal(double_chunks, 2);
	expect_no_message(fixture);
}

static void what_the_driver_refuses_again_and_again_fails(void **state)
{
	struct fixture *fixture = *state;
	struct record_memory record = {{.opcode = RECORD_MEMORY_ALLOC}, TEST_DEVICE, 64 * MIB};
	struct control_allocate wish;

	double_refusals = UINT_MAX;
	post(fixture, &record);
	fixture_run(fixture);
	wish = expect_allocate(fixture, 64 * MIB);
	answer_allocate(fixture, &wish, 0);
	for (unsigned i = 0; i < 8; i++) {
		wish = expect_refusal(fixture, 64 * MIB);
		answer_allocate(fixture, &wish, 0);
	}
	expect_no_message(fixture);
	assert_int_equal(fixture->segment->replies[0].status, -ENOMEM);
}

static void gdevd_is_told_what_the_driver_has_free(void **state)
{
	struct fixture *fixture = *state;
	struct control_header question = {sizeof question, CONTROL_MEMORY, CONTROL_VERSION, 0, 0};
	struct control_memory answer;

	tell(fixture, &question, NULL, 0);
	fixture_run(fixture);
	expect_message(fixture, CONTROL_MEMORY_REPLY, &answer, sizeof answer, NULL, NULL);
	assert_int_equal(answer.header.status, 0);
	assert_int_equal(answer.free_bytes, DOUBLE_FREE_BYTES);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(allocations_are_checked),
		TEST(frees_name_whole_objects),
		TEST(large_objects_are_made_of_large_chunks),
		TEST(freed_chunks_are_used_again),
		TEST(chunks_that_are_kept_make_room_for_others),
		TEST(a_free_waits_for_what_is_on_the_device),
		TEST(what_is_being_freed_is_gone_for_new_commands),
		TEST_GDEVD(memory_is_paid_for_before_it_is_taken),
		TEST_GDEVD(slack_saves_messages_and_is_not_insisted_on),
		TEST_GDEVD(what_the_device_has_no_room_for_begins_in_swap),
		TEST_GDEVD(what_the_driver_refuses_gdevd_is_asked_for_again),
		TEST_GDEVD(what_the_driver_refuses_again_and_again_fails),
		TEST_GDEVD(gdevd_is_told_what_the_driver_has_free),
		TEST_GDEVD(memory_that_is_refused_is_not_there),
		TEST_GDEVD(much_slack_goes_back),
		TEST(page_locked_memory_comes_as_a_sealed_memfd),
		TEST(addresses_of_the_clients_other_sessions_can_be_added),
		TEST(page_locked_memory_has_ordinary_pages),
		TEST(an_image_that_was_sent_is_loaded_once),
		TEST(an_image_cannot_change_has_zeros_behind_and_few_wait),
		TEST(images_take_no_memory_but_what_their_client_has_given),
		TEST(images_count_as_memory_that_the_client_adds),
		TEST(page_locked_memory_begins_where_the_client_says),
		TEST(page_locked_memory_is_bounded_and_comes_back),
		TEST(page_locked_ranges_are_bounded_and_come_back),
		TEST(device_memory_maps_into_the_client),
		TEST(many_pieces_come_some_at_a_time),
		TEST_GDEVD(the_end_of_the_peer_ends_the_session),
		TEST(nonsense_from_the_peer_ends_the_session),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
