/* SPDX-License-Identifier: MIT
 *
 * Sessions against a fake worker: the wire from the client's side, errors, copies, memory.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "fake_worker.h"
#include "fixture.h"

static atomic_bool copied;

/* ---- the ring ---- */

static void records_of_all_lengths_pass_the_end_of_the_ring(void **state)
{
	uint64_t address = alloc(65536);
	uint8_t bytes[8192];

	for (size_t i = 0; i < sizeof bytes; i++)
		bytes[i] = (uint8_t)(i * 7);
	for (unsigned i = 0; i < 3000; i++) {
		size_t length = 1 + i * 37 % sizeof bytes;
		struct gdev_copy copy = gdev_copy_linear(address, (uint64_t)bytes, length);
		memset((void *)address, 0, length);
		assert_int_equal(gdev_copy_async(stream, &copy), 0);
		assert_int_equal(gdev_stream_sync(stream), 0);
		assert_memory_equal((void *)address, bytes, length);
	}
	assert_true(fake_worker->segment->header.ring_tail > 4 * SESSION_RING_BYTES);
}

static void *let_go(void *argument)
{
	const struct timespec pause = {0, 50000000};

	nanosleep(&pause, NULL);
	fake_worker->deaf = false;
	fake_worker_poke(fake_worker);
	return NULL;
}

static void a_full_ring_holds_the_sender_until_there_is_room(void **state)
{
	uint64_t address = alloc(65536);
	uint8_t bytes[30000] = {1};
	struct gdev_copy copy = gdev_copy_linear(address, (uint64_t)bytes, sizeof bytes);
	pthread_t helper;

	assert_int_equal(gdev_stream_sync(stream), 0);
	fake_worker->deaf = true;
	pthread_create(&helper, NULL, let_go, NULL);
	for (int i = 0; i < 200; i++)
		assert_int_equal(gdev_copy_async(stream, &copy), 0);
	assert_false(fake_worker->deaf);
	pthread_join(helper, NULL);
	assert_int_equal(gdev_stream_sync(stream), 0);
}

/* ---- errors ---- */

static void a_streams_errors_are_told_once_each(void **state)
{
	uint64_t address = alloc(4096);
	uint32_t word = 5;
	struct gdev_copy copy = gdev_copy_linear(address, (uint64_t)&word, 4);

	fake_worker->fail_with = -ENOMEM;
	assert_int_equal(gdev_copy_async(stream, &copy), 0);
	assert_int_equal(gdev_stream_sync(stream), -ENOMEM);
	assert_int_equal(gdev_stream_sync(stream), 0);
	fake_worker->fail_with = -EINVAL;
	assert_int_equal(gdev_copy_async(stream, &copy), 0);
	assert_int_equal(gdev_stream_sync(stream), -EINVAL);
	assert_int_equal(gdev_stream_sync(stream), 0);
}

static void a_sessions_error_is_told_always(void **state)
{
	uint64_t address = alloc(4096), other, fault;
	uint32_t word = 5;
	struct gdev_copy copy = gdev_copy_linear(address, (uint64_t)&word, 4);
	struct gdev_session *again;

	fake_worker->segment->header.fault_address = 0x123;
	fake_worker->segment->header.error = -GDEV_E_ILLEGAL_ADDRESS;
	for (int i = 0; i < 2; i++) {
		assert_int_equal(gdev_session_error(session, &fault), -GDEV_E_ILLEGAL_ADDRESS);
		assert_int_equal(fault, 0x123);
		assert_int_equal(gdev_copy_async(stream, &copy), -GDEV_E_ILLEGAL_ADDRESS);
		assert_int_equal(gdev_stream_sync(stream), -GDEV_E_ILLEGAL_ADDRESS);
		assert_int_equal(gdev_memory_alloc(session, 4, &other), -GDEV_E_ILLEGAL_ADDRESS);
	}
	/* A session that is broken is not the one that the next open gets. */
	struct fake_worker *broken = fake_worker;
	assert_int_equal(gdev_session_open(NULL, &again), 0);
	assert_ptr_not_equal(again, session);
	fake_worker_kill(fake_worker);
	gdev_session_close(again);
	fake_worker_free(fake_worker);
	fake_worker = broken;
}

static void replies_that_are_too_short_or_too_long_are_not_believed(void **state)
{
	uint64_t available, total;

	fake_worker->reply_length = 3;
	assert_int_equal(gdev_memory_info(session, &available, &total), -GDEV_E_PROTOCOL);
	fake_worker->reply_length = UINT32_MAX;
	assert_int_equal(gdev_memory_info(session, &available, &total), -GDEV_E_PROTOCOL);
	fake_worker->reply_with = -ENOMEM;
	assert_int_equal(gdev_memory_info(session, &available, &total), -ENOMEM);
	assert_int_equal(gdev_memory_info(session, &available, &total), 0);
}

/* ---- sessions ---- */

static void opening_again_gives_the_same_session(void **state)
{
	struct gdev_session *again;

	assert_int_equal(gdev_session_open("gdev0", &again), 0);
	assert_ptr_equal(again, session);
	gdev_session_close(again);
	alloc(16);
}

static int use_in_child(void)
{
	struct gdev_session *mine;
	struct gdev_stream *other;
	uint64_t address;

	if (gdev_session_error(session, NULL) != -GDEV_E_SESSION_LOST)
		return 1;
	if (gdev_memory_alloc(session, 16, &address) != -GDEV_E_SESSION_LOST)
		return 2;
	if (gdev_stream_sync(stream) != -GDEV_E_SESSION_LOST)
		return 3;
	if (gdev_stream_create(session, 0, &other) != -GDEV_E_SESSION_LOST)
		return 4;
	gdev_stream_destroy(stream);
	gdev_session_close(session);
	if (gdev_session_open(NULL, &mine) || gdev_memory_alloc(mine, 16, &address) ||
		gdev_memory_free(mine, address))
		return 5;
	fake_worker_kill(fake_worker);
	gdev_session_close(mine);
	return 0;
}

static void a_forked_child_has_lost_the_session_and_can_open_its_own(void **state)
{
#ifdef __SANITIZE_THREAD__
	printf("# the thread sanitizer cannot follow threads into a child\n");
	skip();
#endif
	uint64_t address = alloc(4096);
	int status;
	pid_t pid = fork();

	if (pid == 0)
		_exit(use_in_child());
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFEXITED(status));
	assert_int_equal(WEXITSTATUS(status), 0);
	assert_int_equal(gdev_memory_free(session, address), 0);
}

/* ---- openings that wait ---- */

#define LARGE (256ull << 20) /* is not kept for reuse */
#define SLOW "slow"
#define PATIENCE_MS 120000

static atomic_bool is_late, is_over;

/* Ends the slow opening when it has held up the test for too long. */
static void *lose_patience(void *argument)
{
	for (int i = 0; i < PATIENCE_MS && !is_over; i++)
		usleep(1000);
	is_late = !is_over;
	fake_worker_slow = NULL;
	return NULL;
}

static void *open_slow(void *opened)
{
	assert_int_equal(gdev_session_open(SLOW, opened), 0);
	return NULL;
}

/* The worker of `other` has just been made, and answers first: a thread that begins allocates, and the address sanitizer's
 * allocator, if a thread has it at a fork, has no end in the child. */
static void fork_meanwhile(struct gdev_session *other)
{
#ifndef __SANITIZE_THREAD__ /* which cannot follow threads into a child */
	uint64_t address;
	int status;
	pid_t pid;

	assert_int_equal(gdev_memory_alloc(other, LARGE, &address), 0);
	assert_int_equal(gdev_memory_free(other, address), 0);
	usleep(20000);
	pid = fork();
	if (pid == 0)
		_exit(use_in_child());
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
#endif
}

static void an_opening_that_waits_keeps_nobody_from_other_virtual_gpus_nor_from_fork(void **state)
{
	struct fake_worker *own = fake_worker, *others, *slow;
	struct gdev_session *other, *opened[2], *again;
	pthread_t openers[2], watcher;

	is_late = is_over = false;
	fake_worker_slow = SLOW;
	pthread_create(&watcher, NULL, lose_patience, NULL);
	for (int i = 0; i < 2; i++)
		pthread_create(&openers[i], NULL, open_slow, &opened[i]);
	usleep(20000); /* they are at it; if not, less is tested */
	assert_int_equal(gdev_session_open("other", &other), 0);
	others = fake_worker;
	assert_int_equal(gdev_session_open(NULL, &again), 0);
	assert_ptr_equal(again, session);
	gdev_session_close(again);
	fork_meanwhile(other);
	is_over = true;
	pthread_join(watcher, NULL);
	for (int i = 0; i < 2; i++)
		pthread_join(openers[i], NULL);
	assert_false(is_late);
	assert_ptr_equal(opened[0], opened[1]);
	slow = fake_worker;
	fake_worker_kill(slow);
	gdev_session_close(opened[0]);
	gdev_session_close(opened[1]);
	fake_worker_free(slow);
	fake_worker_kill(others);
	gdev_session_close(other);
	fake_worker_free(others);
	fake_worker = own;
}

/* ---- a worker that has no room ---- */

static atomic_uint done;

static void *alloc_large(void *address)
{
	*(uint64_t *)address = alloc(LARGE);
	atomic_fetch_add(&done, 1);
	return NULL;
}

static void *free_large(void *address)
{
	assert_int_equal(gdev_memory_free(session, *(uint64_t *)address), 0);
	alloc(4096);
	atomic_fetch_add(&done, 1);
	return NULL;
}

static void wait_done(unsigned count)
{
	for (int i = 0; i < PATIENCE_MS && done < count; i++)
		usleep(1000);
	assert_int_equal(done, count);
}

/* It may be what the other waits for. */
static void an_allocation_that_waits_keeps_no_other_thread_from_freeing(void **state)
{
	uint64_t first = alloc(LARGE), second = 0;
	pthread_t threads[2];
	unsigned records;

	done = 0;
	alloc(4096);
	records = fake_worker->records;
	fake_worker->full = true;
	pthread_create(&threads[0], NULL, alloc_large, &second);
	while (fake_worker->records == records)
		usleep(1000);
	pthread_create(&threads[1], NULL, free_large, &first);
	wait_done(1);
	assert_int_equal(second, 0);
	fake_worker->full = false;
	fake_worker_poke(fake_worker);
	wait_done(2);
	for (int i = 0; i < 2; i++)
		pthread_join(threads[i], NULL);
	assert_int_equal(gdev_memory_free(session, second), 0);
}

#define KEPT (128ull << 20) /* as much as is kept for reuse */

/* What is asked for, and the answer. */
struct part {
	uint64_t bytes, address;
	int error;
};

static void *alloc_part(void *argument)
{
	struct part *part = argument;

	part->error = gdev_memory_alloc(session, part->bytes, &part->address);
	atomic_fetch_add(&done, 1);
	return NULL;
}

static void wait_records(unsigned count)
{
	for (int i = 0; i < PATIENCE_MS && fake_worker->records < count; i++)
		usleep(1000);
	assert_true(fake_worker->records >= count);
}

static void memory_that_is_just_coming_back_is_no_reason_to_refuse(void **state)
{
	struct part parts[] = {{.bytes = KEPT / 4 * 3}, {.bytes = KEPT / 4}};
	pthread_t threads[2];
	unsigned records;

	done = 0;
	fake_worker->room = KEPT;
	assert_int_equal(gdev_memory_free(session, alloc(KEPT)), 0);
	records = fake_worker->records;
	fake_worker->clings = true;
	pthread_create(&threads[0], NULL, alloc_part, &parts[0]);
	wait_records(records + 2); /* refused, and what was kept is on its way back */
	pthread_create(&threads[1], NULL, alloc_part, &parts[1]);
	wait_records(records + 3); /* refused, and nothing is kept */
	fake_worker->clings = false;
	fake_worker_poke(fake_worker);
	wait_done(2);
	for (int i = 0; i < 2; i++) {
		pthread_join(threads[i], NULL);
		assert_int_equal(parts[i].error, 0);
	}
}

/* ---- modules ---- */

static void a_log_is_as_long_as_there_is_room_in_its_slot(void **state)
{
	static const char image[] = "an image";
	uint8_t *staging = (uint8_t *)session->staging.base;
	char log[64 << 10];
	struct gdev_module *module;

	assert_int_equal(gdev_session_tune(session, GDEV_TUNE_CHUNK_BYTES, 4096), 0);
	memset(staging, 'x', session->staging.bytes);
	assert_int_equal(
		gdev_module_load(session, image, sizeof image, log, sizeof log, &module), 0);
	for (size_t i = 4096; i < sizeof log; i++)
		assert_int_equal(staging[i], 'x');
	gdev_module_unload(module);
}

/* ---- streams ---- */

static void a_timeline_that_is_used_again_goes_on_counting(void **state)
{
	uint64_t address = alloc(4096);
	uint32_t word = 5;
	struct gdev_copy copy = gdev_copy_linear(address, (uint64_t)&word, 4);
	struct gdev_fence before, after;
	struct gdev_stream *other;

	assert_int_equal(gdev_stream_create(session, 0, &other), 0);
	assert_int_equal(gdev_copy_async(other, &copy), 0);
	gdev_stream_fence(other, &before);
	assert_int_equal(gdev_stream_sync(other), 0);
	gdev_stream_destroy(other);
	assert_int_equal(gdev_stream_create(session, 0, &other), 0);
	assert_int_equal(gdev_copy_async(other, &copy), 0);
	gdev_stream_fence(other, &after);
	assert_int_equal(before.timeline, after.timeline);
	assert_true(after.value > before.value);
	assert_int_equal(gdev_stream_sync(other), 0);
	gdev_stream_destroy(other);
}

static void there_are_streams_until_there_are_none(void **state)
{
	struct gdev_stream *streams[SESSION_TIMELINES];
	unsigned count = 0;

	while (gdev_stream_create(session, 0, &streams[count]) == 0)
		count++;
	assert_int_equal(count, SESSION_TIMELINES - SESSION_REPLIES - 1);
	while (count)
		gdev_stream_destroy(streams[--count]);
	assert_int_equal(gdev_stream_create(session, 0, &streams[0]), 0);
	gdev_stream_destroy(streams[0]);
}

static void a_wait_for_what_has_happened_sends_nothing(void **state)
{
	struct gdev_fence fence;
	struct gdev_stream *other;
	unsigned before;

	assert_int_equal(gdev_stream_create(session, 0, &other), 0);
	gdev_stream_fence(stream, &fence);
	before = fake_worker->records;
	assert_int_equal(gdev_stream_wait(other, &fence), 0);
	assert_int_equal(fake_worker->records, before);
	gdev_stream_destroy(other);
}

/* ---- host functions ---- */

static atomic_int calls;
static atomic_int order[3];

static void note(void *argument, int error)
{
	order[(intptr_t)argument] = calls + 1;
	calls++;
	if (!argument)
		usleep(1000);
}

static void host_functions_run_when_their_stream_is_there(void **state)
{
	uint64_t address = alloc(4096);
	uint32_t word = 5;
	struct gdev_copy copy = gdev_copy_linear(address, (uint64_t)&word, 4);
	struct gdev_stream *other;

	calls = 0;
	assert_int_equal(gdev_stream_create(session, 0, &other), 0);
	assert_int_equal(gdev_stream_sync(other), 0);
	fake_worker->held = true;
	assert_int_equal(gdev_copy_async(stream, &copy), 0);
	assert_int_equal(gdev_stream_call(stream, note, (void *)0), 0);
	assert_int_equal(gdev_stream_call(other, note, (void *)1), 0);
	assert_int_equal(gdev_stream_call(stream, note, (void *)2), 0);
	for (int i = 0; i < PATIENCE_MS && calls < 1; i++)
		usleep(1000);
	assert_int_equal(calls, 1); /* other's: nothing is before it */
	assert_int_equal(order[1], 1);
	fake_worker->held = false;
	fake_worker_poke(fake_worker);
	assert_int_equal(gdev_session_sync(session), 0);
	assert_int_equal(calls, 3);
	assert_true(order[0] < order[2]);
	gdev_stream_destroy(other);
}

static void note_error(void *argument, int error)
{
	*(int *)argument = error;
	calls++; /* what was written before is seen by who sees this */
}

static void host_functions_of_a_lost_session_are_told(void **state)
{
	int error = 1;

	calls = 0;
	fake_worker->held = true;
	uint64_t address = alloc(4096);
	uint32_t word = 5;
	struct gdev_copy copy = gdev_copy_linear(address, (uint64_t)&word, 4);
	assert_int_equal(gdev_copy_async(stream, &copy), 0);
	assert_int_equal(gdev_stream_call(stream, note_error, &error), 0);
	fake_worker_kill(fake_worker);
	for (int i = 0; i < PATIENCE_MS && !calls; i++)
		usleep(1000);
	assert_int_equal(calls, 1);
	assert_int_equal(error, -GDEV_E_SESSION_LOST);
}

/* ---- copies ---- */

static void check_round_trip(size_t bytes, unsigned seed)
{
	uint8_t *from = malloc(bytes), *to = malloc(bytes);
	uint64_t address = alloc(bytes);
	struct gdev_copy in = gdev_copy_linear(address, (uint64_t)from, bytes);
	struct gdev_copy out = gdev_copy_linear((uint64_t)to, address, bytes);

	for (size_t i = 0; i < bytes; i++)
		from[i] = (uint8_t)(i * 13 + (i >> 9) + seed);
	memset(to, 0, bytes);
	assert_int_equal(gdev_copy(stream, &in), 0);
	assert_int_equal(gdev_copy(stream, &out), 0);
	assert_memory_equal(from, to, bytes);
	assert_int_equal(gdev_memory_free(session, address), 0);
	free(from);
	free(to);
}

static void copies_of_all_sizes_arrive_with_every_chunk_size(void **state)
{
	static const uint64_t chunks[] = {4096, 65536, 2 << 20};
	static const size_t sizes[] = {1, 4095, 32768, 32769, 65537, 262147, 1 << 20, 20000003};

	for (size_t c = 0; c < array_length(chunks); c++) {
		assert_int_equal(gdev_session_tune(session, GDEV_TUNE_CHUNK_BYTES, chunks[c]), 0);
		for (size_t i = 0; i < array_length(sizes); i++)
			check_round_trip(sizes[i], (unsigned)(c + i));
	}
	assert_int_equal(gdev_session_tune(session, GDEV_TUNE_CHUNK_BYTES, 1000), -EINVAL);
	assert_int_equal(gdev_session_tune(session, GDEV_TUNE_CHUNK_BYTES, 1ull << 40), -EINVAL);
	assert_int_equal(gdev_session_tune(session, GDEV_TUNE_COPY_THREADS, 0), -EINVAL);
	assert_int_equal(gdev_session_tune(session, GDEV_TUNE_COPY_THREADS, 13), -EINVAL);
	assert_int_equal(gdev_session_tune(session, GDEV_TUNE_INLINE_BYTES, 0), 0);
	check_round_trip(100, 9);
}

static void *copy_often(void *argument)
{
	for (unsigned i = 0; i < 20; i++)
		check_round_trip((size_t)(uintptr_t)argument, i);
	return NULL;
}

static void long_copies_do_not_keep_short_ones_out(void **state)
{
	static const size_t sizes[] = {9 << 20, 9 << 20, 100000, 100000, 40000, 40000};
	pthread_t threads[array_length(sizes)];

	for (size_t i = 0; i < array_length(sizes); i++)
		pthread_create(&threads[i], NULL, copy_often, (void *)sizes[i]);
	for (size_t i = 0; i < array_length(sizes); i++)
		pthread_join(threads[i], NULL);
}

static void copies_out_of_bounds_are_refused(void **state)
{
	uint64_t address = alloc(4096);
	uint8_t bytes[64];
	struct gdev_copy copy = gdev_copy_linear(address + 4090, (uint64_t)bytes, 64);

	copy.destination_side = GDEV_SIDE_DEVICE;
	assert_int_equal(gdev_copy(stream, &copy), -EINVAL);
	copy.destination_side = GDEV_SIDE_ANY;
	assert_int_equal(gdev_copy(stream, &copy), -EINVAL);
	copy = gdev_copy_linear(address, (uint64_t)bytes, 16);
	copy.height = UINT64_MAX / 2;
	copy.destination_pitch = 4096;
	assert_int_equal(gdev_copy(stream, &copy), -EINVAL);
	assert_int_equal(gdev_memory_free(session, address), 0);
	copy = gdev_copy_linear(address, (uint64_t)bytes, 16);
	assert_int_equal(gdev_copy(stream, &copy), -EINVAL);
}

/* ---- memory ---- */

static void blocks_are_carved_and_join_again(void **state)
{
	enum { COUNT = 1000 };
	static uint64_t addresses[COUNT];
	struct gdev_range range;
	unsigned before;

	alloc(64);
	before = fake_worker->records;
	for (unsigned i = 0; i < COUNT; i++)
		addresses[i] = alloc(1000);
	assert_true(fake_worker->records - before <= 2);
	for (unsigned i = 0; i < COUNT; i += 2)
		assert_int_equal(gdev_memory_free(session, addresses[i]), 0);
	gdev_memory_lookup(session, addresses[1] + 999, &range);
	assert_int_equal(range.kind, GDEV_MEMORY_DEVICE);
	assert_int_equal(range.base, addresses[1]);
	assert_int_equal(range.bytes, 1000);
	gdev_memory_lookup(session, addresses[1] + 1000, &range);
	assert_int_equal(range.kind, GDEV_MEMORY_UNKNOWN);
	for (unsigned i = 1; i < COUNT; i += 2)
		assert_int_equal(gdev_memory_free(session, addresses[i]), 0);
	/* All in one piece again. */
	addresses[0] = alloc(900 << 10);
	assert_int_equal(gdev_memory_free(session, addresses[0]), 0);
}

static void addresses_are_used_again(void **state)
{
	for (int i = 0; i < 300; i++) {
		uint64_t address = alloc(1ull << 30);
		assert_int_equal(gdev_memory_free(session, address), 0);
	}
}

static void a_reference_keeps_memory(void **state)
{
	uint64_t address = alloc(4096);

	assert_int_equal(gdev_memory_ref(session, address), 0);
	assert_int_equal(gdev_memory_free(session, address), 0);
	check_round_trip(100, 1);
	memset((void *)address, 1, 4096);
	assert_int_equal(gdev_memory_free(session, address), 0);
	assert_int_equal(gdev_memory_free(session, address), -EINVAL);
	assert_int_equal(gdev_memory_ref(session, address), -EINVAL);
}

static void page_locked_memory_is_zero_and_known(void **state)
{
	struct gdev_range range;
	uint8_t *small, *large;

	assert_int_equal(gdev_host_alloc(session, 100, (void **)&small), 0);
	assert_int_equal(gdev_host_alloc(session, 5 << 20, (void **)&large), 0);
	for (int i = 0; i < 100; i++)
		assert_int_equal(small[i], 0);
	large[(5 << 20) - 1] = 1;
	gdev_memory_lookup(session, (uint64_t)large + 5, &range);
	assert_int_equal(range.kind, GDEV_MEMORY_HOST);
	assert_true(range.mapped);
	memset(small, 7, 100);
	assert_int_equal(gdev_memory_free(session, (uint64_t)small), 0);
	assert_int_equal(gdev_host_alloc(session, 100, (void **)&small), 0);
	assert_int_equal(small[0], 0);
	assert_int_equal(gdev_memory_free(session, (uint64_t)large), 0);
}

/* ---- shared memory ---- */

static void *copy_a_word(void *address)
{
	static const uint32_t word = 5;
	struct gdev_copy copy = gdev_copy_linear((uint64_t)address, (uint64_t)&word, sizeof word);

	assert_int_equal(gdev_copy(stream, &copy), 0);
	atomic_store(&copied, true);
	return NULL;
}

/* Another session would not wait for this one's queue. */
static void a_copy_returns_when_it_is_done_if_others_may_see_it(void **state)
{
	uint64_t address = alloc(4 << 20), offset;
	struct gdev_shared shared;
	pthread_t thread;

	fake_worker->held = true;
	copy_a_word((void *)address); /* queued: that is enough */
	assert_int_equal(gdev_shared_export(session, address, &shared, &offset), 0);
	atomic_store(&copied, false);
	assert_int_equal(pthread_create(&thread, NULL, copy_a_word, (void *)address), 0);
	usleep(20 * 1000);
	assert_false(atomic_load(&copied));
	fake_worker->held = false;
	fake_worker_poke(fake_worker);
	assert_int_equal(pthread_join(thread, NULL), 0);
	assert_int_equal(*(uint32_t *)address, 5);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, fixture_setup, fixture_teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(records_of_all_lengths_pass_the_end_of_the_ring),
		TEST(a_full_ring_holds_the_sender_until_there_is_room),
		TEST(a_streams_errors_are_told_once_each),
		TEST(a_sessions_error_is_told_always),
		TEST(replies_that_are_too_short_or_too_long_are_not_believed),
		TEST(opening_again_gives_the_same_session),
		TEST(a_forked_child_has_lost_the_session_and_can_open_its_own),
		TEST(an_opening_that_waits_keeps_nobody_from_other_virtual_gpus_nor_from_fork),
		TEST(an_allocation_that_waits_keeps_no_other_thread_from_freeing),
		TEST(memory_that_is_just_coming_back_is_no_reason_to_refuse),
		TEST(a_log_is_as_long_as_there_is_room_in_its_slot),
		TEST(a_timeline_that_is_used_again_goes_on_counting),
		TEST(there_are_streams_until_there_are_none),
		TEST(a_wait_for_what_has_happened_sends_nothing),
		TEST(host_functions_run_when_their_stream_is_there),
		TEST(host_functions_of_a_lost_session_are_told),
		TEST(copies_of_all_sizes_arrive_with_every_chunk_size),
		TEST(long_copies_do_not_keep_short_ones_out),
		TEST(copies_out_of_bounds_are_refused),
		TEST(blocks_are_carved_and_join_again),
		TEST(addresses_are_used_again),
		TEST(a_reference_keeps_memory),
		TEST(page_locked_memory_is_zero_and_known),
		TEST(a_copy_returns_when_it_is_done_if_others_may_see_it),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
