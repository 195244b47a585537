/* SPDX-License-Identifier: MIT
 *
 * Copies that the library does itself, against a fake worker: when it does, in what order, and what becomes
 * of them when the worker wants its memory back.
 */
#include <errno.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/clock.h"
#include "fake_worker.h"
#include "lib/libgdev/internal.h"

#define BYTES (20u << 20)

static struct gdev_session *session;
static struct gdev_stream *stream;
static uint8_t *from, *to;
static uint64_t memory;

static struct session_header *header(void)
{
	return &fake_worker->segment->header;
}

static void allow(enum session_leave allowed)
{
	for (int i = 0; i < SESSION_DIRECTIONS; i++)
		__atomic_store_n(&header()->direct_allowed[i], allowed, __ATOMIC_SEQ_CST);
}

static int setup(void **state)
{
	assert_int_equal(gdev_session_open(NULL, &session), 0);
	assert_int_equal(gdev_stream_create(session, 0, &stream), 0);
	assert_int_equal(gdev_memory_alloc(session, BYTES, &memory), 0);
	from = malloc(BYTES);
	to = calloc(1, BYTES);
	for (size_t i = 0; i < BYTES; i++)
		from[i] = (uint8_t)(i * 13 + (i >> 9));
	header()->direct_possible = 1;
	allow(SESSION_DIRECT);
	return 0;
}

static int teardown(void **state)
{
	fake_worker->held = fake_worker->deaf = false;
	fake_worker_poke(fake_worker);
	for (int i = 0; i < SESSION_DIRECTIONS; i++)
		assert_int_equal(header()->direct_copying[i], 0);
	gdev_stream_destroy(stream);
	fake_worker_kill(fake_worker);
	gdev_session_close(session);
	fake_worker_free(fake_worker);
	free(from);
	free(to);
	return 0;
}

static int copy(struct gdev_stream *on, uint64_t destination, const void *source, size_t bytes)
{
	struct gdev_copy wanted = gdev_copy_linear(destination, (uint64_t)source, bytes);

	return gdev_copy(on, &wanted);
}

/* How many records a round trip of so many bytes has cost; the data is right. */
static unsigned round_trip(size_t bytes)
{
	unsigned before = fake_worker->records;

	memset(to, 0, bytes);
	assert_int_equal(copy(stream, memory, from, bytes), 0);
	assert_int_equal(copy(stream, (uint64_t)to, (void *)memory, bytes), 0);
	assert_memory_equal(from, to, bytes);
	assert_memory_equal(from, (void *)memory, bytes);
	return fake_worker->records - before;
}

/* ---- when ---- */

static void copies_that_are_allowed_send_nothing(void **state)
{
	assert_int_equal(round_trip(100000), 0);
	assert_int_equal(round_trip(BYTES), 0);
	assert_int_equal(round_trip(1), 0);
	assert_int_equal(fake_worker->lent, 1);
	assert_int_equal(header()->direct_bytes[COPY_TO_DEVICE], 100000 + BYTES + 1);
	assert_int_equal(header()->direct_bytes[COPY_FROM_DEVICE], 100000 + BYTES + 1);
	assert_true(header()->direct_ns[COPY_TO_DEVICE] > 0);
}

static void copies_that_are_not_allowed_go_by_record(void **state)
{
	allow(SESSION_BY_RECORD);
	assert_true(round_trip(BYTES) > 2);
	assert_int_equal(header()->direct_bytes[COPY_TO_DEVICE], 0);
	allow(SESSION_DIRECT);
	assert_int_equal(round_trip(BYTES), 0);
	allow(SESSION_DIRECT_CONTENDED);
	assert_int_equal(round_trip(BYTES), 0);
}

static void where_nothing_can_be_mapped_nobody_asks_for_it(void **state)
{
	header()->direct_possible = 0;
	assert_true(round_trip(BYTES) > 2);
	assert_int_equal(fake_worker->lent, 0);
}

static void a_worker_that_lends_nothing_is_not_asked_again(void **state)
{
	fake_worker->lends_with = -EINVAL;
	assert_true(round_trip(BYTES) > 2);
	assert_true(round_trip(BYTES) > 2);
	assert_int_equal(fake_worker->lent, 1);
}

static void memory_that_is_elsewhere_is_asked_for_again(void **state)
{
	fake_worker->lends_with = -EAGAIN;
	assert_true(round_trip(BYTES) > 2);
	fake_worker->lends_with = 0;
	assert_int_equal(round_trip(BYTES), 0);
}

static void a_small_copy_to_new_memory_rides_in_a_record(void **state)
{
	assert_int_equal(copy(stream, memory, from, 16), 0);
	assert_int_equal(gdev_stream_sync(stream), 0);
	assert_int_equal(fake_worker->lent, 0);
	assert_int_equal(round_trip(16), 1); /* the way there; the way back makes the window */
	assert_int_equal(round_trip(16), 0);
}

static void page_locked_memory_is_copied_directly_as_well(void **state)
{
	unsigned before;
	uint8_t *pinned;

	assert_int_equal(gdev_host_alloc(session, 1 << 20, (void **)&pinned), 0);
	memcpy(pinned, from, 1 << 20);
	before = fake_worker->records;
	assert_int_equal(copy(stream, memory, pinned, 1 << 20), 0);
	memset(pinned, 0, 1 << 20);
	assert_int_equal(copy(stream, (uint64_t)pinned, (void *)memory, 1 << 20), 0);
	assert_int_equal(fake_worker->records, before);
	assert_memory_equal(pinned, from, 1 << 20);
}

static void rows_arrive_where_they_belong(void **state)
{
	struct gdev_copy rows = {
		.destination = memory + 5,
		.source = (uint64_t)from,
		.width = 3001,
		.height = 70,
		.depth = 40,
		.destination_pitch = 4000,
		.source_pitch = 3001,
		.destination_slice = 4000 * 70 + 64,
		.source_slice = 3001 * 70,
	};
	unsigned before = fake_worker->records;

	assert_int_equal(gdev_copy(stream, &rows), 0);
	assert_int_equal(fake_worker->records, before);
	for (size_t z = 0; z < 40; z++)
		for (size_t y = 0; y < 70; y++)
			assert_memory_equal(
				(uint8_t *)memory + 5 + z * rows.destination_slice + y * 4000,
				from + z * rows.source_slice + y * 3001, 3001);
	assert_int_equal(*((uint8_t *)memory + 5 + 3001), 0); /* between them nothing is written */
}

static void bounds_are_those_of_the_allocation(void **state)
{
	uint64_t small;

	assert_int_equal(round_trip(BYTES), 0);
	assert_int_equal(copy(stream, memory + BYTES - 8, from, 16), -EINVAL);
	assert_int_equal(gdev_memory_alloc(session, 4096, &small), 0);
	assert_int_equal(copy(stream, small, from, 4096), 0);
	assert_int_equal(copy(stream, (uint64_t)to, (void *)small, 4096), 0);
	assert_int_equal(copy(stream, small + 4000, from, 100), -EINVAL);
	assert_int_equal(gdev_memory_free(session, small), 0);
	assert_int_equal(copy(stream, small, from, 4096), -EINVAL);
}

/* ---- order ---- */

struct attempt {
	struct gdev_stream *stream;
	uint64_t destination;
	const void *source;
	size_t bytes;
	int error;
	atomic_bool over;
};

static void *attempt_main(void *argument)
{
	struct attempt *attempt = argument;

	attempt->error =
		copy(attempt->stream, attempt->destination, attempt->source, attempt->bytes);
	attempt->over = true;
	return NULL;
}

/* The copy is not over before the worker goes on. */
static void must_wait(struct attempt *attempt)
{
	pthread_t thread;

	assert_int_equal(pthread_create(&thread, NULL, attempt_main, attempt), 0);
	usleep(20000);
	assert_false(attempt->over);
	fake_worker->held = false;
	fake_worker_poke(fake_worker);
	pthread_join(thread, NULL);
	assert_int_equal(attempt->error, 0);
}

static void a_copy_waits_for_what_is_before_it_on_its_stream(void **state)
{
	struct attempt attempt = {stream, (uint64_t)to, (void *)memory, 4096, 0, false};
	struct gdev_fill fill = {memory, 4096, 1, 0, 1, 0x5a};

	round_trip(4096);
	fake_worker->held = true;
	assert_int_equal(gdev_fill_async(stream, &fill), 0);
	must_wait(&attempt);
	for (int i = 0; i < 4096; i++)
		assert_int_equal(to[i], 0x5a);
}

static void a_copy_waits_for_those_that_only_seem_complete(void **state)
{
	struct gdev_stream *other;
	struct attempt attempt;

	assert_int_equal(gdev_stream_create(session, 0, &other), 0);
	round_trip(64);
	attempt = (struct attempt){other, (uint64_t)to, (void *)memory, 64, 0, false};
	memset(from, 0x77, 64);
	fake_worker->held = true;
	assert_int_equal(
		gdev_fill_async(stream, &(struct gdev_fill){memory + 64, 64, 1, 0, 1, 1}), 0);
	assert_int_equal(copy(stream, memory, from, 64), 0); /* rides in a record, and is done */
	must_wait(&attempt);
	assert_memory_equal(to, from, 64);
	gdev_stream_destroy(other);
}

static void an_asynchronous_copy_to_a_busy_stream_does_not_wait(void **state)
{
	struct gdev_copy wanted = gdev_copy_linear(memory, (uint64_t)from, 100000);
	struct gdev_fill fill = {memory, 4096, 1, 0, 1, 0x5a};

	round_trip(4096);
	fake_worker->held = true;
	assert_int_equal(gdev_fill_async(stream, &fill), 0);
	assert_int_equal(gdev_copy_async(stream, &wanted), 0);
	fake_worker->held = false;
	fake_worker_poke(fake_worker);
	assert_int_equal(gdev_stream_sync(stream), 0);
	assert_memory_equal((void *)memory, from, 100000);
}

static void the_streams_error_ends_a_copy_from_the_device(void **state)
{
	struct gdev_fill fill = {memory, 4096, 1, 0, 1, 0x5a};

	round_trip(4096);
	fake_worker->fail_with = -EINVAL;
	assert_int_equal(gdev_fill_async(stream, &fill), 0);
	assert_int_equal(copy(stream, (uint64_t)to, (void *)memory, 4096), -EINVAL);
	assert_int_equal(copy(stream, (uint64_t)to, (void *)memory, 4096), 0);
}

/* The first of it asks for a turn; while that lasts, the rest needs no record. */
static void a_copy_that_has_asked_for_its_turn_goes_on_by_itself(void **state)
{
	struct attempt attempt = {stream, memory, from, 4 << 20, 0, false};
	unsigned before;
	pthread_t thread;

	round_trip(4096);
	allow(SESSION_BY_RECORD);
	fake_worker->held = true;
	before = fake_worker->records;
	header()->direct_bytes[COPY_TO_DEVICE] = 0;
	assert_int_equal(pthread_create(&thread, NULL, attempt_main, &attempt), 0);
	while (fake_worker->records == before)
		usleep(100);
	allow(SESSION_DIRECT_CONTENDED);
	fake_worker->held = false;
	fake_worker_poke(fake_worker);
	pthread_join(thread, NULL);
	assert_int_equal(attempt.error, 0);
	assert_int_equal(fake_worker->records, before + 1);
	assert_int_equal(header()->direct_bytes[COPY_TO_DEVICE], (4 << 20) - (64 << 10));
	assert_memory_equal(from, (void *)memory, 4 << 20);
}

/* ---- rousing the worker ---- */

/* How often these copies, each of which finds the worker asleep, have woken it. */
static unsigned wakes_of(unsigned copies)
{
	unsigned before = 0;

	for (unsigned i = 0; i < copies; i++) {
		while (__atomic_load_n(&header()->worker_state, __ATOMIC_SEQ_CST) !=
			SESSION_WORKER_ASLEEP)
			usleep(100);
		if (!i)
			before = fake_worker->kicks;
		/* It need not hear of them yet, however late this process is. */
		session->direct_told_ns = clock_now_ns() + 3600 * NS_PER_S;
		assert_int_equal(copy(stream, memory, from, 2 << 20), 0);
	}
	while (__atomic_load_n(&header()->worker_state, __ATOMIC_SEQ_CST) != SESSION_WORKER_ASLEEP)
		usleep(100);
	return fake_worker->kicks - before;
}

static void the_worker_is_not_woken_again_and_again_for_nothing(void **state)
{
	struct gdev_fill fill = {memory, 4096, 1, 0, 1, 0x5a};

	round_trip(2 << 20);
	assert_int_equal(gdev_fill_async(stream, &fill), 0);
	assert_int_equal(gdev_stream_sync(stream), 0);
	assert_int_equal(wakes_of(4), 4);
	assert_int_equal(wakes_of(20), 0);
	assert_int_equal(gdev_fill_async(stream, &fill), 0);
	assert_int_equal(gdev_stream_sync(stream), 0);
	assert_int_equal(wakes_of(1), 1);
}

/* ---- the worker wants it back ---- */

static void memory_that_was_moved_is_found_where_it_is(void **state)
{
	assert_int_equal(round_trip(BYTES), 0);
	fake_worker_move(fake_worker, memory);
	assert_int_equal(copy(stream, (uint64_t)to, (void *)memory, BYTES), 0);
	for (size_t i = 0; i < BYTES; i++)
		assert_int_equal(to[i], 0);
	assert_int_equal(round_trip(BYTES), 0);
	assert_int_equal(fake_worker->lent, 2);
}

static void *copy_on_and_on(void *stop)
{
	while (!*(atomic_bool *)stop)
		assert_int_equal(copy(stream, memory, from, BYTES), 0);
	return NULL;
}

/* What the worker does when it evicts: nobody is in when it has said stop and has waited. */
static void who_is_told_to_stop_stops(void **state)
{
	uint32_t *copying = &header()->direct_copying[COPY_TO_DEVICE];
	atomic_bool stop = false;
	pthread_t threads[2];

	for (int i = 0; i < 2; i++)
		pthread_create(&threads[i], NULL, copy_on_and_on, &stop);
	for (int i = 0; i < 20; i++) {
		unsigned kicks = fake_worker->kicks;
		uint64_t bytes;

		usleep(3000);
		allow(SESSION_BY_RECORD);
		while (__atomic_load_n(copying, __ATOMIC_SEQ_CST))
			usleep(100);
		bytes = header()->direct_bytes[COPY_TO_DEVICE];
		usleep(1000);
		assert_int_equal(header()->direct_bytes[COPY_TO_DEVICE], bytes);
		assert_true(fake_worker->kicks >= kicks);
		fake_worker_move(fake_worker, memory);
		allow(SESSION_DIRECT);
	}
	stop = true;
	fake_worker_poke(fake_worker);
	for (int i = 0; i < 2; i++)
		pthread_join(threads[i], NULL);
	round_trip(BYTES);
}

static void freed_memory_is_not_reached_through_an_old_window(void **state)
{
	uint64_t again;

	/* As large as is not kept for reuse, so that the worker gets it back. */
	for (int i = 0; i < 10; i++) {
		assert_int_equal(gdev_memory_alloc(session, 200 << 20, &again), 0);
		assert_int_equal(copy(stream, again, from, 1 << 20), 0);
		assert_int_equal(copy(stream, (uint64_t)to, (void *)again, 1 << 20), 0);
		assert_memory_equal(to, from, 1 << 20);
		assert_int_equal(gdev_memory_free(session, again), 0);
		assert_int_equal(copy(stream, (uint64_t)to, (void *)again, 1 << 20), -EINVAL);
	}
	assert_int_equal(fake_worker->object_count, 1);
}

/* ---- a copy that takes long ---- */

static uint8_t *slow; /* memory that is not there before somebody lets it be */
static atomic_bool reached, may_go_on;

static void on_fault(int number, siginfo_t *info, void *context)
{
	uint8_t *at = info->si_addr;

	if (at < slow || at >= slow + BYTES)
		abort();
	reached = true;
	while (!may_go_on)
		usleep(1000);
	mprotect(slow, BYTES, PROT_READ | PROT_WRITE);
}

static void *copy_slowly(void *nothing)
{
	assert_int_equal(copy(stream, memory, slow, 1 << 20), 0);
	return NULL;
}

static void *alloc_and_free(void *done)
{
	uint64_t other;

	assert_int_equal(gdev_memory_alloc(session, 200 << 20, &other), 0);
	assert_int_equal(gdev_memory_free(session, other), 0);
	*(atomic_bool *)done = true;
	return NULL;
}

static void nobody_waits_for_a_copy_to_allocate_or_free(void **state)
{
	struct sigaction action = {.sa_sigaction = on_fault, .sa_flags = SA_SIGINFO}, before;
	atomic_bool done = false;
	pthread_t threads[2];

	assert_int_equal(round_trip(BYTES), 0);
	reached = may_go_on = false;
	slow = mmap(NULL, BYTES, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	assert_true(slow != MAP_FAILED);
	sigaction(SIGSEGV, &action, &before);
	pthread_create(&threads[0], NULL, copy_slowly, NULL);
	while (!reached)
		usleep(1000);
	pthread_create(&threads[1], NULL, alloc_and_free, &done);
	for (int i = 0; i < 120000 && !done; i++)
		usleep(1000);
	assert_true(done);
	may_go_on = true;
	for (int i = 0; i < 2; i++)
		pthread_join(threads[i], NULL);
	sigaction(SIGSEGV, &before, NULL);
	munmap(slow, BYTES);
}

/* As long as somebody copies through its window that is there. */
static void a_copy_outlives_the_memory_that_it_is_of(void **state)
{
	struct sigaction action = {.sa_sigaction = on_fault, .sa_flags = SA_SIGINFO}, before;
	pthread_t thread;

	assert_int_equal(round_trip(BYTES), 0);
	reached = may_go_on = false;
	slow = mmap(NULL, BYTES, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	assert_true(slow != MAP_FAILED);
	sigaction(SIGSEGV, &action, &before);
	pthread_create(&thread, NULL, copy_slowly, NULL);
	while (!reached)
		usleep(1000);
	assert_int_equal(gdev_memory_free(session, memory), 0);
	may_go_on = true;
	pthread_join(thread, NULL);
	sigaction(SIGSEGV, &before, NULL);
	munmap(slow, BYTES);
}

/* The worker has waited for it, and moved the memory meanwhile. */
static void what_was_copied_too_late_is_copied_again(void **state)
{
	struct sigaction action = {.sa_sigaction = on_fault, .sa_flags = SA_SIGINFO}, before;
	pthread_t thread;

	assert_int_equal(round_trip(BYTES), 0);
	reached = may_go_on = false;
	slow = mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	assert_true(slow != MAP_FAILED);
	memset(slow, 0x3c, BYTES);
	mprotect(slow, BYTES, PROT_NONE);
	sigaction(SIGSEGV, &action, &before);
	pthread_create(&thread, NULL, copy_slowly, NULL);
	while (!reached)
		usleep(1000);
	fake_worker_move(fake_worker, memory);
	may_go_on = true;
	pthread_join(thread, NULL);
	sigaction(SIGSEGV, &before, NULL);
	assert_int_equal(copy(stream, (uint64_t)to, (void *)memory, 1 << 20), 0);
	assert_memory_equal(to, slow, 1 << 20);
	munmap(slow, BYTES);
}

/* To preadv2(2) it would be where the file is now. */
static void a_file_is_not_read_at_minus_one(void **state)
{
	int fd = memfd_create("file", MFD_CLOEXEC);

	assert_int_equal(round_trip(BYTES), 0);
	assert_int_equal(ftruncate(fd, 4096), 0);
	assert_int_equal(gdev_memory_read(session, memory, 8, fd, UINT64_MAX, 0), -EINVAL);
	assert_int_equal(gdev_memory_read(session, memory, 8, fd, 4092, 0), 4);
	assert_int_equal(gdev_memory_write(session, memory, 8, fd, UINT64_MAX, 0), -EINVAL);
	assert_int_equal(gdev_memory_write(session, memory, 8, fd, 4092, 0), 8);
	close(fd);
}

static void a_lost_worker_is_found_and_nothing_breaks(void **state)
{
	int error;

	assert_int_equal(round_trip(BYTES), 0);
	fake_worker_kill(fake_worker);
	/* It is complete, and found out later; or the loss is known already. */
	error = copy(stream, memory, from, BYTES);
	assert_true(error == 0 || error == -GDEV_E_SESSION_LOST);
	error = gdev_fill_async(stream, &(struct gdev_fill){memory, 4096, 1, 0, 1, 1});
	if (!error)
		error = gdev_stream_sync(stream);
	assert_int_equal(error, -GDEV_E_SESSION_LOST);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(copies_that_are_allowed_send_nothing),
		TEST(copies_that_are_not_allowed_go_by_record),
		TEST(where_nothing_can_be_mapped_nobody_asks_for_it),
		TEST(a_worker_that_lends_nothing_is_not_asked_again),
		TEST(memory_that_is_elsewhere_is_asked_for_again),
		TEST(a_small_copy_to_new_memory_rides_in_a_record),
		TEST(page_locked_memory_is_copied_directly_as_well),
		TEST(rows_arrive_where_they_belong),
		TEST(bounds_are_those_of_the_allocation),
		TEST(a_copy_waits_for_what_is_before_it_on_its_stream),
		TEST(a_copy_waits_for_those_that_only_seem_complete),
		TEST(an_asynchronous_copy_to_a_busy_stream_does_not_wait),
		TEST(the_streams_error_ends_a_copy_from_the_device),
		TEST(a_copy_that_has_asked_for_its_turn_goes_on_by_itself),
		TEST(the_worker_is_not_woken_again_and_again_for_nothing),
		TEST(memory_that_was_moved_is_found_where_it_is),
		TEST(who_is_told_to_stop_stops),
		TEST(freed_memory_is_not_reached_through_an_old_window),
		TEST(nobody_waits_for_a_copy_to_allocate_or_free),
		TEST(a_copy_outlives_the_memory_that_it_is_of),
		TEST(what_was_copied_too_late_is_copied_again),
		TEST(a_file_is_not_read_at_minus_one),
		TEST(a_lost_worker_is_found_and_nothing_breaks),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
