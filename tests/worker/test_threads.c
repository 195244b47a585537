/* SPDX-License-Identifier: MIT
 *
 * The worker with threads of its own: many commands from a client that does not wait, one that waits
 * each time, several that post at once, and one that writes garbage everywhere while it runs.
 */
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "harness.h"

enum { A = 40, STREAMS = 4 };

static void wait_for(struct fixture *fixture, uint32_t timeline, uint64_t value)
{
	struct session_timeline *shared = &fixture->segment->timelines[timeline];

	for (int i = 0; i < 200; i++) {
		if (completed(fixture, timeline) >= value)
			return;
		cpu_relax();
	}
	__atomic_store_n(&shared->want, value, __ATOMIC_RELAXED);
	__atomic_thread_fence(__ATOMIC_SEQ_CST);
	while (completed(fixture, timeline) < value) {
		struct pollfd wake = {.fd = fixture->core->client_fd, .events = POLLIN};
		uint64_t count;
		assert_int_equal(poll(&wake, 1, PATIENCE_MS), 1); /* a lost wake would end here */
		if (read(fixture->core->client_fd, &count, sizeof count) < 0)
			continue;
	}
	__atomic_store_n(&shared->want, 0, __ATOMIC_RELAXED);
}

static void ask_and_wait(
	struct fixture *fixture, void *record, size_t fixed, const void *extra, size_t extra_bytes)
{
	wait_for(fixture, 0, post_raw(fixture, record, fixed, extra, extra_bytes));
	assert_int_equal(fixture->segment->replies[0].status, 0);
}

static uint32_t prepare(struct fixture *fixture)
{
	struct record_module_load load = {
		.header.opcode = RECORD_MODULE_LOAD,
		.image = TEST_BASE,
		.image_bytes = 16,
	};
	struct record_lookup lookup = {.header.opcode = RECORD_FUNCTION_GET, .name_bytes = 2};

	for (uint32_t i = 0; i < STREAMS; i++) {
		struct record_stream record = {{.opcode = RECORD_STREAM_CREATE}, A + i, 0};
		ask_and_wait(fixture, &record, sizeof record, NULL, 0);
	}
	ask_and_wait(fixture, &load, sizeof load, NULL, 0);
	lookup.module = ((const struct reply_module *)reply_payload(fixture))->module;
	ask_and_wait(fixture, &lookup, sizeof lookup, "k", 2);
	return ((const struct reply_function *)reply_payload(fixture))->function;
}

static void room(struct fixture *fixture)
{
	while (fixture->tail -
			__atomic_load_n(&fixture->segment->header.ring_head, __ATOMIC_ACQUIRE) >
		SESSION_RING_BYTES / 2)
		usleep(100);
}

static void a_client_that_waits_each_time_is_always_woken(void **state)
{
	struct fixture fixture;
	uint32_t function;

	fixture_start_threads(&fixture, false, 6);
	function = prepare(&fixture);
	for (int i = 0; i < 3000; i++) {
		wait_for(&fixture, A, post_launch(&fixture, A, function, 0));
		if (i % 100 == 0)
			usleep(300); /* let the poller sleep */
	}
	fixture_stop(&fixture);
}

static void a_client_that_never_waits_loses_nothing(void **state)
{
	struct fixture fixture;
	uint32_t function;

	fixture_start_threads(&fixture, false, 6);
	function = prepare(&fixture);
	for (int i = 0; i < 20000; i++) {
		uint32_t stream = A + (uint32_t)rand() % STREAMS;
		room(&fixture);
		if (i % 7 == 0)
			post_wait(&fixture, stream, A + (uint32_t)i % STREAMS,
				fixture.values[A + (uint32_t)i % STREAMS]);
		else
			post_launch(&fixture, stream, function, i % 11 == 0 ? RECORD_FENCE : 0);
	}
	for (uint32_t i = 0; i < STREAMS; i++)
		wait_for(&fixture, A + i, fixture.values[A + i]);
	assert_int_equal(session_error(&fixture), 0);
	fixture_stop(&fixture);
}

static void objects_come_and_go_while_kernels_run(void **state)
{
	struct fixture fixture;
	uint32_t function;

	fixture_start_threads(&fixture, false, 6);
	function = prepare(&fixture);
	for (int i = 0; i < 200; i++) {
		struct record_memory make = {{.opcode = RECORD_MEMORY_ALLOC}, TEST_DEVICE, 4 * MIB};
		struct record_memory drop = {{.opcode = RECORD_MEMORY_FREE}, TEST_DEVICE, 0};
		ask_and_wait(&fixture, &make, sizeof make, NULL, 0);
		for (int j = 0; j < 10; j++)
			post_launch(&fixture, A, function, 0);
		wait_for(&fixture, A + 1, post_copy(&fixture, A + 1, TEST_DEVICE, TEST_BASE, MIB));
		ask_and_wait(&fixture, &drop, sizeof drop, NULL, 0);
	}
	wait_for(&fixture, A, fixture.values[A]);
	assert_int_equal(session_error(&fixture), 0);
	fixture_stop(&fixture);
}

/* What a client may do to all that it shares, while the worker works. Relaxed atomic stores, so that
 * the thread sanitizer looks at the worker's accesses only. */
static void scribble(struct fixture *fixture, unsigned seed, int times)
{
	uint64_t *words = (uint64_t *)fixture->segment;
	size_t count = sizeof *fixture->segment / sizeof *words;
	uint64_t one = 1;

	for (int i = 0; i < times; i++) {
		uint64_t value = (uint64_t)rand_r(&seed) << 32 | (unsigned)rand_r(&seed);
		size_t at = (size_t)rand_r(&seed) % count;
		if (i % 3 == 0)
			at = 8 + (size_t)rand_r(&seed) % 50; /* the header */
		if (i % 5 == 0)
			value &= 0xffff;
		__atomic_store_n(&words[at], value, __ATOMIC_RELAXED);
		if (i % 64 == 0 && write(fixture->core->wake_fd, &one, sizeof one) < 0)
			return;
	}
}

static void garbage_in_every_shared_page_ends_at_most_this_session(void **state)
{
	for (unsigned round = 0; round < 20; round++) {
		struct fixture fixture;
		uint32_t function;
		fixture_start_threads(&fixture, false, 5);
		function = prepare(&fixture);
		for (int i = 0; i < 50; i++)
			post_launch(&fixture, A, function, 0);
		scribble(&fixture, round, 20000);
		fixture_stop(&fixture); /* it can be: no thread is stuck */
		assert_true(fixture.ended <= 1);
	}
}

static void expect_count(const unsigned *word, unsigned count)
{
	for (int i = 0; i < PATIENCE_MS && __atomic_load_n(word, __ATOMIC_ACQUIRE) < count; i++)
		usleep(1000);
	assert_true(__atomic_load_n(word, __ATOMIC_ACQUIRE) >= count);
}

/* ---- a kernel that is longer than it was ---- */

static const struct device_ops *null_ops;
static bool stalling;    /* atomic: ops->work() does not return */
static unsigned stalled; /* atomic: threads that are in there */

static bool stalling_work(struct device *device)
{
	__atomic_add_fetch(&stalled, 1, __ATOMIC_RELAXED);
	while (__atomic_load_n(&stalling, __ATOMIC_RELAXED))
		usleep(1000);
	__atomic_sub_fetch(&stalled, 1, __ATOMIC_RELAXED);
	return null_ops->work(device);
}

static void a_short_kernel_that_turns_out_long_does_not_stop_the_ring(void **state)
{
	struct device_ops ops;
	struct fixture fixture;
	uint32_t function;

	null_ops = device_ops_find("null");
	ops = *null_ops;
	ops.work = stalling_work;
	fixture_start_ops(&fixture, &ops, false, 6);
	function = prepare(&fixture);
	for (int round = 0; round < 5; round++) {
		for (int i = 0; i < 10; i++)
			wait_for(&fixture, A, post_launch(&fixture, A, function, 0));
		__atomic_store_n(&stalling, true, __ATOMIC_RELAXED);
		post_launch(&fixture, A, function, 0);
		expect_count(&stalled, 1);
		struct record_query query = {{.opcode = RECORD_QUERY}, .type = QUERY_USAGE};
		ask_and_wait(&fixture, &query, sizeof query, NULL, 0);
		__atomic_store_n(&stalling, false, __ATOMIC_RELAXED);
		wait_for(&fixture, A, fixture.values[A]);
	}
	fixture_stop(&fixture);
}

/* ---- a short kernel that waits for another one ---- */

enum { THREADS = 6 };
static enum { ALONE = 1, TOGETHER } manner; /* atomic */
static struct service *service;             /* atomic */
static unsigned copying,
	came; /* atomic: threads that came while it was ALONE; since it is TOGETHER */

static void expect_sleepers(unsigned count)
{
	const struct service *sleeping = __atomic_load_n(&service, __ATOMIC_ACQUIRE);

	for (int i = 0;
		i < PATIENCE_MS && __atomic_load_n(&sleeping->sleepers, __ATOMIC_RELAXED) < count;
		i++)
		usleep(1000);
	usleep(20000); /* deadlines from before have passed */
}

/* Who executes the copy is the only one that is up, and those who execute kernels behind it wait for each other. */
static bool meeting_work(struct device *device)
{
	int now = __atomic_load_n(&manner, __ATOMIC_RELAXED);

	if (now == TOGETHER)
		__atomic_add_fetch(&came, 1, __ATOMIC_RELAXED);
	for (int i = 0; now == TOGETHER && i < PATIENCE_MS; i++)
		if (__atomic_load_n(&came, __ATOMIC_RELAXED) < 2)
			usleep(1000);
	if (now != ALONE)
		return null_ops->work(device);
	if (__atomic_fetch_add(&copying, 1, __ATOMIC_RELAXED))
		return false;
	expect_sleepers(THREADS - 1);
	/* Before the copy is done: whoever is woken for the kernels behind it comes for them. */
	__atomic_store_n(&manner, TOGETHER, __ATOMIC_RELAXED);
	return null_ops->work(device);
}

static void short_kernels_that_wait_for_each_other_both_begin(void)
{
	struct record_memory make = {{.opcode = RECORD_MEMORY_ALLOC}, TEST_DEVICE, 16 * MIB};
	struct device_ops ops;
	struct fixture fixture;
	uint32_t function;

	null_ops = device_ops_find("null");
	ops = *null_ops;
	ops.work = meeting_work;
	fixture_start_ops(&fixture, &ops, false, THREADS);
	__atomic_store_n(&service, &fixture.core->service, __ATOMIC_RELEASE);
	function = prepare(&fixture);
	ask_and_wait(&fixture, &make, sizeof make, NULL, 0);
	for (int i = 0; i < 10; i++) /* it is known to be short */
		wait_for(&fixture, A, post_launch(&fixture, A, function, 0));
	expect_sleepers(THREADS);
	__atomic_store_n(&copying, 0, __ATOMIC_RELAXED);
	__atomic_store_n(&came, 0, __ATOMIC_RELAXED);
	__atomic_store_n(&manner, ALONE, __ATOMIC_RELAXED);
	post_copy(&fixture, A, TEST_DEVICE, TEST_DEVICE + 8 * MIB, 8 * MIB);
	post_wait(&fixture, A + 1, A, fixture.values[A]);
	post_launch(&fixture, A, function, 0);
	post_launch(&fixture, A + 1, function, 0);
	expect_count(&came, 2);
	__atomic_store_n(&manner, 0, __ATOMIC_RELAXED);
	wait_for(&fixture, A, fixture.values[A]);
	wait_for(&fixture, A + 1, fixture.values[A + 1]);
	fixture_stop(&fixture);
}

static void short_kernels_behind_long_work_may_wait_for_each_other(void **state)
{
	for (int round = 0; round < 4; round++)
		short_kernels_that_wait_for_each_other_both_begin();
}

/* ---- a client that never pauses ---- */

static struct session_segment
	*fed;       /* atomic: the one who reads its ring finds one record more each time */
static bool worked; /* atomic */

static bool feeding_poll(struct device *device)
{
	struct session_segment *segment = __atomic_load_n(&fed, __ATOMIC_ACQUIRE);
	uint64_t tail;

	if (!segment || __atomic_load_n(&worked, __ATOMIC_RELAXED))
		return false;
	tail = __atomic_load_n(&segment->header.ring_tail, __ATOMIC_RELAXED);
	memcpy(segment->ring + tail % SESSION_RING_BYTES,
		&(struct record_header){.length = 8, .opcode = RECORD_PAD}, 8);
	__atomic_store_n(&segment->header.ring_tail, tail + 8, __ATOMIC_RELEASE);
	return false;
}

static bool noting_work(struct device *device)
{
	__atomic_store_n(&worked, true, __ATOMIC_RELAXED);
	return null_ops->work(device);
}

/* Whether the ring was looked at in the next milliseconds. */
static bool looked_at(struct fixture *fixture)
{
	uint64_t end_ns = clock_now_ns() + 3 * NS_PER_MS;
	bool awake = false;

	while (clock_now_ns() < end_ns)
		awake |= __atomic_load_n(&fixture->segment->header.worker_state,
				 __ATOMIC_SEQ_CST) == SESSION_WORKER_AWAKE;
	return awake;
}

static void a_deadline_is_no_reason_to_look_at_the_ring(void **state)
{
	struct fixture fixture;
	unsigned looks = 0;

	fixture_start_threads(&fixture, false, 2);
	prepare(&fixture);
	usleep(20000);
	for (int i = 0; i < 1000 && looked_at(&fixture); i++)
		; /* who was woken for the last record may come late */
	for (int i = 0; i < 20; i++) {
		usleep(1000);
		core_lock(fixture.core);
		service_timer(fixture.core, clock_now_ns() + NS_PER_MS / 2);
		core_unlock(fixture.core);
		looks += looked_at(&fixture);
	}
	assert_true(looks < 5);
	fixture_stop(&fixture);
}

static void long_work_begins_although_records_keep_coming(void **state)
{
	struct record_memory make = {{.opcode = RECORD_MEMORY_ALLOC}, TEST_DEVICE, 16 * MIB};
	struct device_ops ops;
	struct fixture fixture;
	uint64_t value;

	null_ops = device_ops_find("null");
	ops = *null_ops;
	ops.work = noting_work;
	ops.poll = feeding_poll;
	fixture_start_ops(&fixture, &ops, false, 6);
	prepare(&fixture);
	ask_and_wait(&fixture, &make, sizeof make, NULL, 0);
	__atomic_store_n(&worked, false, __ATOMIC_RELAXED);
	__atomic_store_n(&fed, fixture.segment, __ATOMIC_RELEASE);
	value = post_copy(&fixture, A, TEST_DEVICE, TEST_DEVICE + 8 * MIB, 8 * MIB);
	for (int i = 0; i < PATIENCE_MS && !__atomic_load_n(&worked, __ATOMIC_RELAXED); i++)
		usleep(1000);
	assert_true(__atomic_load_n(&worked, __ATOMIC_RELAXED));
	wait_for(&fixture, A, value);
	__atomic_store_n(&fed, NULL, __ATOMIC_RELEASE);
	fixture_stop(&fixture);
}

/* ---- jobs that wait ---- */

/* gdevd on a thread of its own. Nobody makes room for what is too large. */
static unsigned waiting,
	evicted; /* atomic: how many wait for room; how many orders were carried out */

static void *gdevd_thread(void *argument)
{
	struct fixture *fixture = argument;
	uint32_t segments = 0;
	union {
		struct control_header header;
		struct control_allocate allocate;
		struct control_shm shm;
		uint8_t bytes[1024];
	} message;
	struct control_charged charged = {
		.header = {sizeof charged, CONTROL_CHARGED, CONTROL_VERSION, 0, 0},
		.limit_bytes = TEST_LIMIT,
	};

	while (recv(fixture->gdevd, &message, sizeof message, 0) > 0) {
		switch (message.header.type) {
		case CONTROL_SHM:
			message.header.type = CONTROL_SHM_REPLY;
			message.header.status = 1;
			message.shm.id = ++segments;
			tell(fixture, &message, NULL, 0);
			break;
		case CONTROL_ALLOCATE:
			if (message.allocate.device_bytes > 64 * MIB) {
				__atomic_add_fetch(&waiting, 1, __ATOMIC_RELEASE);
				break;
			}
			charged.header.serial = message.header.serial;
			charged.device_bytes = message.allocate.device_bytes;
			tell(fixture, &charged, NULL, 0);
			break;
		case CONTROL_EVICTED:
			__atomic_add_fetch(&evicted, 1, __ATOMIC_RELEASE);
			break;
		default:
			break;
		}
	}
	return NULL;
}

static void start_with_gdevd(
	struct fixture *fixture, const struct device_ops *ops, pthread_t *gdevd)
{
	__atomic_store_n(&waiting, 0, __ATOMIC_RELAXED);
	__atomic_store_n(&evicted, 0, __ATOMIC_RELAXED);
	fixture_start_ops(fixture, ops, true, SERVICE_JOBS + 2);
	assert_int_equal(pthread_create(gdevd, NULL, gdevd_thread, fixture), 0);
}

/* Whoever waits for gdevd is told that it is gone. */
static void end_gdevd(struct fixture *fixture, pthread_t gdevd)
{
	shutdown(fixture->gdevd, SHUT_RDWR);
	assert_int_equal(pthread_join(gdevd, NULL), 0);
}

static void alloc_object(struct fixture *fixture)
{
	struct record_memory make = {{.opcode = RECORD_MEMORY_ALLOC}, TEST_DEVICE, 4 * MIB};

	ask_and_wait(fixture, &make, sizeof make, NULL, 0);
}

/* gdevd has something leave. */
static void expect_eviction(struct fixture *fixture)
{
	const struct control_evict order = {
		.header = {sizeof order, CONTROL_EVICT, CONTROL_VERSION, 1, 0},
		.bytes = MIB,
		.swapped = 4 * MIB,
	};

	tell(fixture, &order, NULL, 0);
	expect_count(&evicted, 1);
}

static void what_gdevd_orders_does_not_wait_for_those_who_wait_for_room(void **state)
{
	uint64_t values[LANE_JOBS + 2];
	struct fixture fixture;
	pthread_t gdevd;

	start_with_gdevd(&fixture, device_ops_find("null"), &gdevd);
	alloc_object(&fixture);
	for (uint32_t i = 1; i < LANE_JOBS + 2; i++) { /* one more than there is a place for */
		struct record_shared create = {
			.header = {.opcode = RECORD_SHARED_CREATE, .timeline = i},
			.bytes = 100 * MIB,
		};
		values[i] = post(&fixture, &create);
	}
	expect_count(&waiting, 1);
	expect_eviction(&fixture);
	end_gdevd(&fixture, gdevd);
	for (uint32_t i = 1; i < LANE_JOBS + 2; i++)
		wait_for(&fixture, i, values[i]);
	fixture_stop(&fixture);
}

static bool compiling; /* atomic: ops->module_load() does not return */

static int slow_load(struct device_space *space, const void *image, size_t length,
	struct device_log *log, struct device_module **module)
{
	__atomic_add_fetch(&stalled, 1, __ATOMIC_RELAXED);
	while (__atomic_load_n(&compiling, __ATOMIC_RELAXED))
		usleep(1000);
	__atomic_sub_fetch(&stalled, 1, __ATOMIC_RELAXED);
	return null_ops->module_load(space, image, length, log, module);
}

static void memory_does_not_wait_for_code_that_is_being_compiled(void **state)
{
	uint64_t values[LANE_JOBS + 2];
	struct device_ops ops;
	struct fixture fixture;
	pthread_t gdevd;

	null_ops = device_ops_find("null");
	ops = *null_ops;
	ops.module_load = slow_load;
	__atomic_store_n(&compiling, true, __ATOMIC_RELAXED);
	start_with_gdevd(&fixture, &ops, &gdevd);
	for (uint32_t i = 1; i < LANE_JOBS + 2; i++) {
		struct record_module_load load = {
			.header = {.opcode = RECORD_MODULE_LOAD, .timeline = i},
			.image = TEST_BASE,
			.image_bytes = 16,
		};
		values[i] = post(&fixture, &load);
	}
	expect_count(&stalled, LANE_JOBS);
	alloc_object(&fixture);
	expect_eviction(&fixture);
	__atomic_store_n(&compiling, false, __ATOMIC_RELAXED);
	for (uint32_t i = 1; i < LANE_JOBS + 2; i++)
		wait_for(&fixture, i, values[i]);
	end_gdevd(&fixture, gdevd);
	fixture_stop(&fixture);
}

static void a_device_that_executes_by_itself_borrows_no_threads(void **state)
{
	const struct device_config config = {.threads = 100};
	struct device_ops ops = *device_ops_find("null");

	assert_int_equal(service_threads_wanted(&ops, &config), 100 + SERVICE_JOBS + 2);
	ops.work = NULL;
	assert_int_equal(service_threads_wanted(&ops, &config), SERVICE_JOBS + 2);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_client_that_waits_each_time_is_always_woken),
		cmocka_unit_test(a_client_that_never_waits_loses_nothing),
		cmocka_unit_test(objects_come_and_go_while_kernels_run),
		cmocka_unit_test(a_short_kernel_that_turns_out_long_does_not_stop_the_ring),
		cmocka_unit_test(short_kernels_behind_long_work_may_wait_for_each_other),
		cmocka_unit_test(a_deadline_is_no_reason_to_look_at_the_ring),
		cmocka_unit_test(long_work_begins_although_records_keep_coming),
		cmocka_unit_test(what_gdevd_orders_does_not_wait_for_those_who_wait_for_room),
		cmocka_unit_test(memory_does_not_wait_for_code_that_is_being_compiled),
		cmocka_unit_test(a_device_that_executes_by_itself_borrows_no_threads),
		cmocka_unit_test(garbage_in_every_shared_page_ends_at_most_this_session),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
