/* SPDX-License-Identifier: MIT
 *
 * Shared device memory. The worker has threads here, because its jobs wait for gdevd; gdevd is this
 * test's main thread, which answers what it is asked in order.
 */
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/ipc.h>
#include <sys/shm.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/fd.h"
#include "harness.h"

enum { CHUNKS = 131, A = 40 }; /* more than one message's worth, of the smallest size */

static void wait_reply(struct fixture *fixture, uint64_t value, int status)
{
	for (int i = 0; i < PATIENCE_MS && completed(fixture, 0) < value; i++)
		usleep(1000);
	assert_int_equal(completed(fixture, 0), value);
	assert_int_equal(fixture->segment->replies[0].status, status);
	/* The thread sanitizer does not know that the client's mapping of the segment and the worker's
	 * are the same memory; the lock it knows. */
	core_lock(fixture->core);
	core_unlock(fixture->core);
}

static struct control_shm expect_shm(
	struct fixture *fixture, uint32_t command, int *fds, size_t *count)
{
	struct control_shm message;
	size_t none = 0;

	expect_message(fixture, CONTROL_SHM, &message, sizeof message, fds, count ? count : &none);
	assert_int_equal(message.command, command);
	return message;
}

static void answer(struct fixture *fixture, struct control_shm *message, int status, const int *fds,
	size_t count)
{
	message->header.type = CONTROL_SHM_REPLY;
	message->header.status = status;
	tell(fixture, message, fds, count);
}

/* The client creates a segment: gdevd says so, is asked for the memory, and gets the chunks. */
static void create(struct fixture *fixture, int *chunks)
{
	struct record_shm record = {
		.header.opcode = RECORD_SHM_GET,
		.key = 5,
		.bytes = CHUNKS * 2 * MIB - 100,
		.flags = IPC_CREAT | 0600,
	};
	uint64_t value = post(fixture, &record);
	struct control_shm message = expect_shm(fixture, SHM_COMMAND_GET, NULL, NULL);
	struct control_allocate wish;
	size_t have = 0;

	assert_int_equal(message.key, 5);
	assert_int_equal(message.size, CHUNKS * 2 * MIB - 100);
	assert_int_equal(message.bytes, CHUNKS * 2 * MIB);
	message.id = 3;
	message.chunk_bytes = 2 * MIB;
	answer(fixture, &message, 1, NULL, 0);
	wish = expect_allocate(fixture, CHUNKS * 2 * MIB);
	say_charged(fixture, &wish.header, 0, wish.device_bytes + wish.slack_bytes, 0);
	while (have < CHUNKS) {
		int fds[FD_PASS_MAX];
		size_t count = array_length(fds);
		message = expect_shm(fixture, SHM_COMMAND_BACK, fds, &count);
		assert_int_equal(message.id, 3);
		assert_int_equal(message.first_chunk, have);
		assert_int_equal(message.chunks, CHUNKS);
		assert_int_equal(message.chunk_bytes, 2 * MIB);
		assert_in_range(count, 1, CHUNKS - have);
		memcpy(chunks + have, fds, count * sizeof *fds);
		have += count;
		answer(fixture, &message, 0, NULL, 0);
	}
	wait_reply(fixture, value, 0);
	assert_int_equal(((const struct reply_shm *)reply_payload(fixture))->id, 3);
}

static void attach(
	struct fixture *fixture, uint64_t address, int *chunks, uint32_t flags, int status)
{
	struct record_shm record = {
		.header.opcode = RECORD_SHM_ATTACH,
		.id = 3,
		.address = address,
		.flags = flags,
	};
	uint64_t value = post(fixture, &record);
	uint32_t sent = 0;

	while (sent < CHUNKS) {
		struct control_shm message = expect_shm(fixture, SHM_COMMAND_ATTACH, NULL, NULL);
		size_t count = min_of(CHUNKS - sent, FD_PASS_MAX);
		assert_int_equal(message.id, 3);
		assert_int_equal(message.first_chunk, sent);
		message.bytes = CHUNKS * 2 * MIB;
		message.chunk_bytes = 2 * MIB;
		message.chunks = CHUNKS;
		answer(fixture, &message, 0, chunks + sent, count);
		sent += (uint32_t)count;
	}
	if (status)
		expect_shm(fixture, SHM_COMMAND_DETACH, NULL, NULL);
	wait_reply(fixture, value, status);
}

static void segments_are_created_attached_and_detached(void **state)
{
	struct fixture fixture;
	int chunks[CHUNKS];
	struct record_shm record = {.header.opcode = RECORD_SHM_DETACH, .address = TEST_DEVICE};
	struct record_stream stream = {{.opcode = RECORD_STREAM_CREATE}, .stream = A};
	uint64_t value;

	fixture_start_threads(&fixture, true, 6);
	create(&fixture, chunks);
	attach(&fixture, TEST_DEVICE, chunks, 0, 0);
	attach(&fixture, TEST_DEVICE + 2 * MIB, chunks, 0, -EEXIST);
	attach(&fixture, TEST_DEVICE + 512 * MIB, chunks, SHM_RDONLY, 0);
	*(uint64_t *)(TEST_DEVICE + 129 * 2 * MIB) = 42;
	assert_int_equal(*(uint64_t *)(TEST_DEVICE + 512 * MIB + 129 * 2 * MIB), 42);
	value = post(&fixture, &record);
	expect_shm(&fixture, SHM_COMMAND_DETACH, NULL, NULL);
	wait_reply(&fixture, value, 0);
	/* What is attached for reading is not for writing. */
	wait_reply(&fixture, post(&fixture, &stream), 0);
	post_write(&fixture, A, TEST_DEVICE + 512 * MIB, "x", 1, 0);
	for (int i = 0; i < PATIENCE_MS && !completed(&fixture, A); i++)
		usleep(1000);
	assert_int_equal(session_error(&fixture), -GDEV_E_ILLEGAL_ADDRESS);
	fd_close_all(chunks, CHUNKS);
	fixture_stop(&fixture);
}

static void what_was_another_sessions_goes_when_gdevd_says_so(void **state)
{
	struct fixture fixture;
	int chunks[CHUNKS];
	struct control_shm lose = {
		.header = {sizeof lose, CONTROL_SHM, CONTROL_VERSION, 0, 0},
		.command = SHM_COMMAND_LOSE,
		.id = 4,
	};
	struct record_stream stream = {{.opcode = RECORD_STREAM_CREATE}, .stream = A};

	fixture_start_threads(&fixture, true, 6);
	create(&fixture, chunks);
	attach(&fixture, TEST_DEVICE, chunks, 0, 0);
	wait_reply(&fixture, post(&fixture, &stream), 0);
	tell(&fixture, &lose, NULL, 0); /* of a segment that it does not have */
	lose.id = 3;
	tell(&fixture, &lose, NULL, 0);
	expect_shm(&fixture, SHM_COMMAND_DETACH, NULL, NULL);
	expect_no_message(&fixture);
	post_write(&fixture, A, TEST_DEVICE, "x", 1, 0);
	for (int i = 0; i < PATIENCE_MS && !completed(&fixture, A); i++)
		usleep(1000);
	assert_int_equal(session_error(&fixture), -GDEV_E_ILLEGAL_ADDRESS);
	fd_close_all(chunks, CHUNKS);
	fixture_stop(&fixture);
}

/* gdevd says so before the segment has come. */
static void what_is_lost_while_it_comes_goes_when_it_has_come(void **state)
{
	struct fixture fixture;
	int chunks[CHUNKS];
	struct control_shm message;
	struct control_shm lose = {
		.header = {sizeof lose, CONTROL_SHM, CONTROL_VERSION, 0, 0},
		.command = SHM_COMMAND_LOSE,
		.id = 3,
	};
	struct record_shm record = {
		.header.opcode = RECORD_SHM_ATTACH, .id = 3, .address = TEST_DEVICE};
	uint32_t sent = 0;

	fixture_start_threads(&fixture, true, 6);
	create(&fixture, chunks);
	post(&fixture, &record);
	while (sent < CHUNKS) {
		size_t count = min_of(CHUNKS - sent, FD_PASS_MAX);
		message = expect_shm(&fixture, SHM_COMMAND_ATTACH, NULL, NULL);
		if (!sent)
			tell(&fixture, &lose, NULL, 0);
		message.bytes = CHUNKS * 2 * MIB;
		message.chunk_bytes = 2 * MIB;
		message.chunks = CHUNKS;
		answer(&fixture, &message, 0, chunks + sent, count);
		sent += (uint32_t)count;
	}
	expect_shm(&fixture, SHM_COMMAND_DETACH, NULL, NULL);
	fd_close_all(chunks, CHUNKS);
	fixture_stop(&fixture);
}

static void what_gdevd_refuses_is_refused(void **state)
{
	struct fixture fixture;
	struct record_shm get = {.header.opcode = RECORD_SHM_GET, .key = 5, .bytes = 100};
	struct record_shm stat = {
		.header.opcode = RECORD_SHM_CONTROL, .id = 3, .command = IPC_STAT};
	struct record_shm odd = {.header.opcode = RECORD_SHM_CONTROL, .id = 3, .command = 77};
	struct record_shm place = {
		.header.opcode = RECORD_SHM_ATTACH, .id = 3, .address = TEST_DEVICE + 1};
	struct record_shm attach = {
		.header.opcode = RECORD_SHM_ATTACH, .id = 3, .address = TEST_DEVICE};
	struct control_shm message;
	uint64_t value;

	fixture_start_threads(&fixture, true, 6);
	value = post(&fixture, &attach);
	message = expect_shm(&fixture, SHM_COMMAND_ATTACH, NULL, NULL);
	answer(&fixture, &message, -EACCES, NULL, 0);
	wait_reply(&fixture, value, -EACCES);
	expect_no_message(&fixture); /* DETACH would take another attachment of the session's */
	value = post(&fixture, &get);
	message = expect_shm(&fixture, SHM_COMMAND_GET, NULL, NULL);
	answer(&fixture, &message, -ENOENT, NULL, 0);
	wait_reply(&fixture, value, -ENOENT);
	value = post(&fixture, &stat);
	message = expect_shm(&fixture, SHM_COMMAND_STAT, NULL, NULL);
	message.mode = 0640;
	answer(&fixture, &message, 0, NULL, 0);
	wait_reply(&fixture, value, 0);
	assert_int_equal(((const struct reply_shm *)reply_payload(&fixture))->mode, 0640);
	wait_reply(&fixture, post(&fixture, &odd), -EINVAL);
	wait_reply(&fixture, post(&fixture, &place), -EINVAL);
	fixture_stop(&fixture);
}

static void chunks_that_make_no_sense_are_not_mapped(void **state)
{
	struct fixture fixture;
	struct record_shm record = {
		.header.opcode = RECORD_SHM_ATTACH, .id = 3, .address = TEST_DEVICE};
	struct control_shm message;
	uint64_t value;
	int fd = fd_shared_memory("small", 4096);

	fixture_start_threads(&fixture, true, 6);
	value = post(&fixture, &record);
	message = expect_shm(&fixture, SHM_COMMAND_ATTACH, NULL, NULL);
	message.bytes = message.chunk_bytes = 2 * MIB;
	message.chunks = 1;
	answer(&fixture, &message, 0, &fd, 1);
	expect_shm(&fixture, SHM_COMMAND_DETACH, NULL, NULL);
	wait_reply(&fixture, value, -EINVAL);
	close(fd);
	fixture_stop(&fixture);
}

static uint64_t post_attach(struct fixture *fixture)
{
	struct record_shm record = {
		.header.opcode = RECORD_SHM_ATTACH, .id = 3, .address = TEST_DEVICE};

	return post(fixture, &record);
}

/* The first message says how many chunks there are, and room is made for so many. */
static void chunks_do_not_become_more_while_they_come(void **state)
{
	static const uint32_t then[] = {2, 200, 1};
	int fd = fd_shared_memory("chunk", 2 * MIB), fds[FD_PASS_MAX];
	struct fixture fixture;

	for (size_t i = 0; i < array_length(fds); i++)
		fds[i] = fd;
	fixture_start_threads(&fixture, true, 6);
	for (size_t i = 0; i < array_length(then); i++) {
		uint64_t value = post_attach(&fixture);
		struct control_shm message = expect_shm(&fixture, SHM_COMMAND_ATTACH, NULL, NULL);
		message.bytes = 4 * MIB;
		message.chunk_bytes = 2 * MIB;
		message.chunks = 2;
		answer(&fixture, &message, 0, fds, 1);
		message = expect_shm(&fixture, SHM_COMMAND_ATTACH, NULL, NULL);
		message.bytes = 2 * then[i] * MIB;
		message.chunk_bytes = 2 * MIB;
		message.chunks = then[i];
		answer(&fixture, &message, 0, fds, i ? FD_PASS_MAX : 1);
		if (i)
			expect_shm(&fixture, SHM_COMMAND_DETACH, NULL, NULL);
		wait_reply(&fixture, value, i ? -GDEV_E_PROTOCOL : 0);
		if (!i) {
			struct record_shm detach = {
				.header.opcode = RECORD_SHM_DETACH, .address = TEST_DEVICE};
			value = post(&fixture, &detach);
			expect_shm(&fixture, SHM_COMMAND_DETACH, NULL, NULL);
			wait_reply(&fixture, value, 0);
		}
	}
	close(fd);
	fixture_stop(&fixture);
}

static void a_segment_is_made_as_it_was_asked_for(void **state)
{
	struct record_shm record = {.header.opcode = RECORD_SHM_GET, .bytes = 4 * MIB};
	struct fixture fixture;
	struct control_shm message;
	uint64_t value;

	fixture_start_threads(&fixture, true, 6);
	value = post(&fixture, &record);
	message = expect_shm(&fixture, SHM_COMMAND_GET, NULL, NULL);
	message.bytes -= 1;
	answer(&fixture, &message, 1, NULL, 0);
	message = expect_shm(&fixture, SHM_COMMAND_REMOVE, NULL, NULL);
	answer(&fixture, &message, 0, NULL, 0);
	wait_reply(&fixture, value, -GDEV_E_PROTOCOL);
	fixture_stop(&fixture);
}

/* Its chunks are on their way to gdevd, and it is another kind of range when they are there. */
/* The client exports an object: gdevd has been asked for a segment. */
static struct control_shm begin_export(struct fixture *fixture)
{
	struct record_memory alloc = {
		.header.opcode = RECORD_MEMORY_ALLOC, .address = TEST_DEVICE, .bytes = 8 * MIB};
	struct record_shared export = {
		.header = {.opcode = RECORD_SHARED_EXPORT, .timeline = 1}, .address = TEST_DEVICE};
	uint64_t value = post(fixture, &alloc);
	struct control_allocate wish = expect_allocate(fixture, 8 * MIB);

	say_charged(fixture, &wish.header, 0, wish.device_bytes, 0);
	wait_reply(fixture, value, 0);
	post(fixture, &export);
	return expect_shm(fixture, SHM_COMMAND_GET, NULL, NULL);
}

static void end_export(struct fixture *fixture, struct control_shm *message)
{
	int chunks[4];
	size_t count = array_length(chunks);

	message->id = 3;
	answer(fixture, message, 1, NULL, 0);
	*message = expect_shm(fixture, SHM_COMMAND_BACK, chunks, &count);
	fd_close_all(chunks, count);
	answer(fixture, message, 0, NULL, 0);
	for (int i = 0; i < PATIENCE_MS && !completed(fixture, 1); i++)
		usleep(1000);
	assert_int_equal(completed(fixture, 1), 1);
	assert_int_equal(fixture->segment->replies[1].status, 0);
}

static void what_is_being_exported_is_not_freed(void **state)
{
	struct record_memory release = {
		.header.opcode = RECORD_MEMORY_FREE, .address = TEST_DEVICE};
	struct fixture fixture;
	struct control_shm message;
	uint64_t value;

	fixture_start_threads(&fixture, true, 6);
	message = begin_export(&fixture);
	wait_reply(&fixture, post(&fixture, &release), -EAGAIN);
	end_export(&fixture, &message);
	release.header = (struct record_header){.opcode = RECORD_MEMORY_FREE};
	value = post(&fixture, &release);
	assert_int_equal(expect_shm(&fixture, SHM_COMMAND_DETACH, NULL, NULL).id, 3);
	wait_reply(&fixture, value, 0);
	fixture_stop(&fixture);
}

/* Asks for descriptors for direct copies, as a client does: how many there are, or -errno. */
static int map(struct fixture *fixture)
{
	struct peer_message message = {.type = PEER_DEVICE_MAP_REVOCABLE,
		.serial = 7,
		.address = TEST_DEVICE,
		.bytes = 8 * MIB};
	struct pollfd answered = {.fd = fixture->peer, .events = POLLIN};
	int fds[PEER_FDS_MAX];
	size_t count = PEER_FDS_MAX;

	assert_int_equal(fd_send(fixture->peer, &message, sizeof message, NULL, 0), 0);
	assert_int_equal(poll(&answered, 1, PATIENCE_MS), 1);
	assert_int_equal(
		fd_receive(fixture->peer, &message, sizeof message, fds, &count), sizeof message);
	fd_close_all(fds, count);
	return message.status ? message.status : (int)count;
}

static void order(struct fixture *fixture, uint32_t command, const int *fds, size_t count)
{
	const struct control_shm message = {
		.header = {sizeof message, CONTROL_SHM, CONTROL_VERSION, 0, 0},
		.command = command,
		.id = 3,
		.flags = CONTROL_SHM_HOST,
	};

	tell(fixture, &message, fds, count);
}

static void the_client_copies_to_what_it_has_exported_until_that_leaves(void **state)
{
	struct session_header *header;
	struct fixture fixture;
	struct control_shm message;
	uint64_t generation;

	fixture_start_threads(&fixture, true, 6);
	header = &fixture.segment->header;
	message = begin_export(&fixture);
	assert_true(map(&fixture) > 0);
	generation = __atomic_load_n(&header->direct_generation, __ATOMIC_SEQ_CST);
	end_export(&fixture, &message);
	assert_true(map(&fixture) > 0);
	assert_int_equal(__atomic_load_n(&header->direct_generation, __ATOMIC_SEQ_CST), generation);
	__atomic_store_n(&header->direct_copying[COPY_TO_DEVICE], 1, __ATOMIC_SEQ_CST);
	order(&fixture, SHM_COMMAND_LEAVE, NULL, 0);
	for (int i = 0; i < PATIENCE_MS && map(&fixture) != -EAGAIN; i++)
		usleep(1000);
	assert_int_equal(map(&fixture), -EAGAIN);
	assert_int_equal(__atomic_load_n(&header->direct_generation, __ATOMIC_SEQ_CST), generation);
	__atomic_store_n(&header->direct_copying[COPY_TO_DEVICE], 0, __ATOMIC_SEQ_CST);
	assert_int_equal(expect_shm(&fixture, SHM_COMMAND_LEAVE, NULL, NULL).header.status, 1);
	assert_int_equal(
		__atomic_load_n(&header->direct_generation, __ATOMIC_SEQ_CST), generation + 1);
	assert_int_equal(map(&fixture), -EAGAIN);
	order(&fixture, SHM_COMMAND_STAY, NULL, 0);
	for (int i = 0; i < PATIENCE_MS && map(&fixture) < 0; i++)
		usleep(1000);
	assert_true(map(&fixture) > 0);
	fixture_stop(&fixture);
}

/* As a gdevd may say that has been restarted, and has had another worker write it. */
static void what_is_being_written_is_dropped_afterwards(void **state)
{
	const struct control_grant grant = {
		.header = {sizeof grant, CONTROL_GRANT, CONTROL_VERSION, 0, 0},
		.resource = RESOURCE_COPY_FROM_DEVICE,
		.quantum_ns = 1000000000,
	};
	struct record_shm record = {
		.header.opcode = RECORD_SHM_ATTACH, .id = 3, .address = TEST_DEVICE};
	int chunk = fd_shared_memory("chunk", 2 * MIB), copy = fd_shared_memory("copy", 2 * MIB);
	struct fixture fixture;
	struct control_shm message;
	uint64_t value;
	char text[4];

	assert_int_equal(pwrite(chunk, "abcd", 4, 0), 4);
	fixture_start_threads(&fixture, true, 6);
	value = post(&fixture, &record);
	message = expect_shm(&fixture, SHM_COMMAND_ATTACH, NULL, NULL);
	message.bytes = message.chunk_bytes = 2 * MIB;
	message.chunks = 1;
	answer(&fixture, &message, 0, &chunk, 1);
	wait_reply(&fixture, value, 0);
	order(&fixture, SHM_COMMAND_LEAVE, NULL, 0);
	assert_int_equal(expect_shm(&fixture, SHM_COMMAND_LEAVE, NULL, NULL).header.status, 1);
	order(&fixture, SHM_COMMAND_WRITE, &copy, 1);
	expect_acquire(&fixture, RESOURCE_COPY_FROM_DEVICE);
	order(&fixture, SHM_COMMAND_DROP, &copy, 1);
	expect_no_message(&fixture);
	tell(&fixture, &grant, NULL, 0);
	assert_int_equal(expect_shm(&fixture, SHM_COMMAND_WRITE, NULL, NULL).header.status, 0);
	assert_int_equal(expect_shm(&fixture, SHM_COMMAND_DROP, NULL, NULL).header.status, 0);
	assert_int_equal(pread(copy, text, 4, 0), 4);
	assert_memory_equal(text, "abcd", 4);
	close(chunk);
	close(copy);
	fixture_stop(&fixture);
}

/* A carrier has the addresses that clients have; with the thread sanitizer they are nobody's. */
static void start_carrier(struct fixture *fixture)
{
#ifdef __SANITIZE_THREAD__
	printf("# the thread sanitizer keeps the addresses that a carrier needs\n");
	skip();
#endif
	fixture_start_warm(fixture, 6);
}

static void tell_to_carry(
	struct fixture *fixture, enum control_shm_command command, uint64_t bytes, int *copy)
{
	struct control_shm order = {
		.header = {sizeof order, CONTROL_SHM, CONTROL_VERSION, 0, 0},
		.command = command,
		.id = 3,
		.bytes = bytes,
	};

	*copy = fd_shared_memory("copy", 4 * MIB);
	tell(fixture, &order, copy, 1);
}

/* gdevd sends a segment of two chunks to be carried out; gives its host copy. */
static struct control_shm order_carrying(struct fixture *fixture, int *copy)
{
	tell_to_carry(fixture, SHM_COMMAND_WRITE, 4 * MIB, copy);
	return expect_shm(fixture, SHM_COMMAND_RESTORE, NULL, NULL);
}

static void answer_carrier(struct fixture *fixture, struct control_shm *message, const int *chunks)
{
	message->bytes = 4 * MIB;
	message->chunk_bytes = 2 * MIB;
	message->chunks = 2;
	answer(fixture, message, 0, chunks + message->first_chunk, 1);
}

static void a_worker_without_a_client_carries_segments_out(void **state)
{
	struct fixture fixture;
	struct control_shm message;
	int chunks[2], others[CHUNKS], copy;
	const char written[] = "abcd";
	char text[4];

	start_carrier(&fixture);
	for (unsigned i = 0; i < 2; i++) {
		chunks[i] = fd_shared_memory("chunk", 2 * MIB);
		assert_int_equal(pwrite(chunks[i], &written[2 * i], 2, 7), 2);
	}
	for (unsigned times = 0; times < 2; times++) {
		message = order_carrying(&fixture, &copy);
		assert_int_equal(message.id, 3);
		answer_carrier(&fixture, &message, chunks);
		message = expect_shm(&fixture, SHM_COMMAND_RESTORE, NULL, NULL);
		assert_int_equal(message.first_chunk, 1);
		answer_carrier(&fixture, &message, chunks);
		message = expect_shm(&fixture, SHM_COMMAND_WRITE, NULL, NULL);
		assert_int_equal(message.header.status, 0);
		assert_int_equal(message.id, 3);
		assert_int_equal(pread(copy, text, 2, 7), 2);
		assert_int_equal(pread(copy, text + 2, 2, 2 * MIB + 7), 2);
		assert_memory_equal(text, written, sizeof text);
		close(copy);
	}
	fd_close_all(chunks, 2);
	assert_null(fixture.core->space);
	/* It serves a client as if nothing had been. */
	fixture_attach(&fixture);
	create(&fixture, others);
	fd_close_all(others, CHUNKS);
	fixture_stop(&fixture);
}

static void what_no_chunks_make_up_is_not_carried(void **state)
{
	static const uint64_t sizes[] = {0, 4 * MIB + 1, 3 * MIB, 1ull << 50};
	static const enum control_shm_command orders[] = {SHM_COMMAND_WRITE, SHM_COMMAND_CARRY};
	struct fixture fixture;
	int copy;

	start_carrier(&fixture);
	for (size_t i = 0; i < array_length(sizes) * array_length(orders); i++) {
		enum control_shm_command order = orders[i % array_length(orders)];
		tell_to_carry(&fixture, order, sizes[i / array_length(orders)], &copy);
		assert_int_equal(expect_shm(&fixture, order, NULL, NULL).header.status, -ENOMEM);
		close(copy);
	}
	fixture_stop(&fixture);
}

static void what_cannot_be_carried_is_said(void **state)
{
	struct fixture fixture;
	struct control_shm message;
	int small = fd_shared_memory("small", 4096), copy;

	start_carrier(&fixture);
	message = order_carrying(&fixture, &copy);
	answer(&fixture, &message, -EIDRM, NULL, 0);
	assert_int_equal(expect_shm(&fixture, SHM_COMMAND_WRITE, NULL, NULL).header.status, -EIDRM);
	close(copy);
	message = order_carrying(&fixture, &copy);
	answer_carrier(&fixture, &message, &small);
	assert_int_equal(
		expect_shm(&fixture, SHM_COMMAND_WRITE, NULL, NULL).header.status, -EINVAL);
	close(copy);
	message = order_carrying(&fixture, &copy); /* and gdevd is gone */
	close(copy);
	close(fixture.gdevd);
	fixture.gdevd = -1;
	for (int i = 0; i < PATIENCE_MS && !__atomic_load_n(&fixture.ended, __ATOMIC_ACQUIRE); i++)
		usleep(1000);
	assert_int_equal(fixture.reason, -GDEV_E_NO_DAEMON);
	close(small);
	fixture_stop(&fixture);
}

static void without_gdevd_there_is_no_shared_memory(void **state)
{
	struct fixture fixture;
	struct record_shm record = {.header.opcode = RECORD_SHM_GET, .key = 5, .bytes = 100};

	fixture_start_threads(&fixture, true, 6);
	post(&fixture, &record);
	expect_shm(&fixture, SHM_COMMAND_GET, NULL, NULL);
	close(fixture.gdevd);
	fixture.gdevd = -1;
	wait_reply(&fixture, 1, -GDEV_E_NO_DAEMON); /* the question that was under way */
	record = (struct record_shm){.header.opcode = RECORD_SHM_GET, .key = 5, .bytes = 100};
	wait_reply(&fixture, post(&fixture, &record), -GDEV_E_NO_DAEMON);
	assert_int_equal(fixture.ended, 0);
	fixture_stop(&fixture);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(segments_are_created_attached_and_detached),
		cmocka_unit_test(what_was_another_sessions_goes_when_gdevd_says_so),
		cmocka_unit_test(what_is_lost_while_it_comes_goes_when_it_has_come),
		cmocka_unit_test(what_gdevd_refuses_is_refused),
		cmocka_unit_test(chunks_that_make_no_sense_are_not_mapped),
		cmocka_unit_test(chunks_do_not_become_more_while_they_come),
		cmocka_unit_test(a_segment_is_made_as_it_was_asked_for),
		cmocka_unit_test(what_is_being_exported_is_not_freed),
		cmocka_unit_test(the_client_copies_to_what_it_has_exported_until_that_leaves),
		cmocka_unit_test(what_is_being_written_is_dropped_afterwards),
		cmocka_unit_test(a_worker_without_a_client_carries_segments_out),
		cmocka_unit_test(what_no_chunks_make_up_is_not_carried),
		cmocka_unit_test(what_cannot_be_carried_is_said),
		cmocka_unit_test(without_gdevd_there_is_no_shared_memory),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
