/* SPDX-License-Identifier: MIT
 *
 * Waiting, against a fake worker, which may die meanwhile.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "fake_worker.h"
#include "fixture.h"

struct waiter {
	pthread_t thread;
	struct gdev_fence fence;
	int result;
	uint64_t cpu_ns;
};

static void *wait_for(void *argument)
{
	struct waiter *waiter = argument;

	waiter->result = gdev_fence_wait(session, &waiter->fence);
	waiter->cpu_ns = clock_thread_cpu_ns();
	return NULL;
}

/* Until none of them uses a processor any more: they sleep. */
static void wait_until_still(const struct waiter *waiters, int count)
{
	uint64_t used_ns = 0, before_ns, start_ns = clock_now_ns();
	clockid_t clock;
	struct timespec time;

	do {
		assert_true(clock_now_ns() - start_ns < 100 * NS_PER_S);
		usleep(50000);
		before_ns = used_ns;
		used_ns = 0;
		for (int i = 0; i < count; i++) {
			assert_int_equal(pthread_getcpuclockid(waiters[i].thread, &clock), 0);
			assert_int_equal(clock_gettime(clock, &time), 0);
			used_ns += (uint64_t)time.tv_sec * NS_PER_S + (uint64_t)time.tv_nsec;
		}
	} while (!used_ns || used_ns != before_ns);
}

static void many_threads_wait_each_for_its_own(void **state)
{
	enum { WAITERS = 24 };
	uint64_t address = alloc(4096);
	struct waiter waiters[WAITERS];
	uint32_t word = 5;
	struct gdev_copy copy = gdev_copy_linear(address, (uint64_t)&word, 4);

	fake_worker->held = true;
	for (int i = 0; i < WAITERS; i++) {
		assert_int_equal(gdev_copy_async(stream, &copy), 0);
		gdev_stream_fence(stream, &waiters[i].fence);
		pthread_create(&waiters[i].thread, NULL, wait_for, &waiters[i]);
	}
	wait_until_still(waiters, WAITERS);
	fake_worker->held = false;
	fake_worker_poke(fake_worker);
	for (int i = 0; i < WAITERS; i++) {
		pthread_join(waiters[i].thread, NULL);
		assert_int_equal(waiters[i].result, 0);
	}
}

/* As the worker says, who knows how long waking up takes beside what is waited for; within reason. */
static void a_client_looks_for_as_long_as_its_worker_wants(void **state)
{
	static const struct {
		uint32_t look_us;
		uint64_t spin_ns;
	} cases[] = {{0, 50000}, {2000, 2000000}, {UINT32_MAX, 10000000}};

	for (unsigned i = 0; i < array_length(cases); i++) {
		fixture_teardown(state);
		fake_worker_look_us = cases[i].look_us;
		fixture_setup(state);
		fake_worker_look_us = 0;
		assert_int_equal(session->transport->spin_ns, cases[i].spin_ns);
	}
}

static void *let_go_after(void *us)
{
	usleep(*(const useconds_t *)us);
	fake_worker->held = false;
	fake_worker_poke(fake_worker);
	return NULL;
}

/* How long it waited. */
static uint64_t copy_and_wait(const struct gdev_copy *copy, useconds_t us)
{
	uint64_t start_ns, took_ns;
	pthread_t helper;

	fake_worker->held = true;
	assert_int_equal(gdev_copy_async(stream, copy), 0);
	pthread_create(&helper, NULL, let_go_after, &us);
	start_ns = clock_now_ns();
	assert_int_equal(gdev_stream_sync(stream), 0);
	took_ns = clock_now_ns() - start_ns;
	assert_false(fake_worker->held);
	pthread_join(helper, NULL);
	return took_ns;
}

/* Sooner or later one that takes as long as the two before it is looked for, and its worker need not wake anybody;
 * those that end sooner, or later, end nevertheless. */
static void a_wait_like_those_before_is_awake_at_its_end(void **state)
{
	static const useconds_t lengths[] = {5000, 5000, 1000, 5000, 5000, 9000, 5000, 5000, 0};
	uint64_t address = alloc(4096), start_ns = clock_now_ns();
	uint32_t word = 5;
	struct gdev_copy copy = gdev_copy_linear(address, (uint64_t)&word, 4);
	unsigned wakes;

	assert_int_equal(gdev_session_tune(session, GDEV_TUNE_SPIN_NS, 400000), 0);
	do {
		wakes = fake_worker->wakes;
		copy_and_wait(&copy, 5000);
		assert_true(clock_now_ns() - start_ns < 200 * NS_PER_S);
	} while (fake_worker->wakes != wakes);
	for (unsigned i = 0; i < array_length(lengths); i++)
		copy_and_wait(&copy, lengths[i]);
}

static void *die_after(void *us)
{
	usleep(*(const useconds_t *)us);
	fake_worker_kill(fake_worker);
	return NULL;
}

/* Whose worker dies long before the end that is expected sleeps until then, and no longer. */
static void a_wait_like_those_before_hears_of_a_death_at_once(void **state)
{
	uint64_t address = alloc(4096), took_ns = 0, before_ns;
	useconds_t us = 50000;
	uint32_t word = 5;
	struct gdev_copy copy = gdev_copy_linear(address, (uint64_t)&word, 4);
	struct waiter waiter;
	pthread_t killer;

	assert_int_equal(gdev_session_tune(session, GDEV_TUNE_SPIN_NS, 400000), 0);
	for (int i = 0; i < 20; i++) { /* until two are alike */
		before_ns = took_ns;
		took_ns = copy_and_wait(&copy, 6 * us);
		if (max_of(took_ns, before_ns) - min_of(took_ns, before_ns) < 100 * NS_PER_US)
			break;
	}
	fake_worker->held = true;
	assert_int_equal(gdev_copy_async(stream, &copy), 0);
	gdev_stream_fence(stream, &waiter.fence);
	pthread_create(&waiter.thread, NULL, wait_for, &waiter);
	pthread_create(&killer, NULL, die_after, &us);
	pthread_join(killer, NULL);
	pthread_join(waiter.thread, NULL);
	assert_int_equal(waiter.result, -GDEV_E_SESSION_LOST);
	assert_true(waiter.cpu_ns < 100000000);
}

static void a_wait_ends_at_its_deadline(void **state)
{
	uint64_t address = alloc(4096), start;
	uint32_t word = 5;
	struct gdev_copy copy = gdev_copy_linear(address, (uint64_t)&word, 4);
	struct gdev_fence fence;

	fake_worker->held = true;
	assert_int_equal(gdev_copy_async(stream, &copy), 0);
	gdev_stream_fence(stream, &fence);
	start = clock_now_ns();
	assert_int_equal(
		gdev_fence_wait_until(session, &fence, start + 20000000), -GDEV_E_NOT_READY);
	assert_true(clock_now_ns() - start >= 20000000);
	assert_int_equal(gdev_fence_query(session, &fence), -GDEV_E_NOT_READY);
}

static void a_worker_that_dies_loses_the_session_for_everybody(void **state)
{
	struct waiter waiters[4];
	uint64_t address = alloc(4096), other;
	uint32_t word = 5;
	struct gdev_copy copy = gdev_copy_linear(address, (uint64_t)&word, 4);
	void *pointer;

	fake_worker->held = true;
	assert_int_equal(gdev_copy_async(stream, &copy), 0);
	for (int i = 0; i < 4; i++) {
		gdev_stream_fence(stream, &waiters[i].fence);
		pthread_create(&waiters[i].thread, NULL, wait_for, &waiters[i]);
	}
	usleep(20000);
	fake_worker_kill(fake_worker);
	for (int i = 0; i < 4; i++) {
		pthread_join(waiters[i].thread, NULL);
		assert_int_equal(waiters[i].result, -GDEV_E_SESSION_LOST);
	}
	assert_int_equal(gdev_session_error(session, NULL), -GDEV_E_SESSION_LOST);
	assert_int_equal(gdev_memory_alloc(session, 16, &other), -GDEV_E_SESSION_LOST);
	assert_int_equal(gdev_memory_free(session, address), -GDEV_E_SESSION_LOST);
	assert_int_equal(gdev_host_alloc(session, 16, &pointer), -GDEV_E_SESSION_LOST);
	assert_int_equal(gdev_copy(stream, &copy), -GDEV_E_SESSION_LOST);
	assert_int_equal(gdev_stream_sync(stream), -GDEV_E_SESSION_LOST);
	assert_int_equal(gdev_session_sync(session), -GDEV_E_SESSION_LOST);
}

static void why_a_worker_gave_up_outlives_it(void **state)
{
	uint64_t address = alloc(4096), other;
	uint32_t word = 5;
	struct gdev_copy copy = gdev_copy_linear(address, (uint64_t)&word, 4);
	struct waiter waiter;
	void *pointer;

	fake_worker->held = true;
	assert_int_equal(gdev_copy_async(stream, &copy), 0);
	gdev_stream_fence(stream, &waiter.fence);
	pthread_create(&waiter.thread, NULL, wait_for, &waiter);
	__atomic_store_n(
		&fake_worker->segment->header.error, -GDEV_E_LAUNCH_TIMEOUT, __ATOMIC_RELEASE);
	fake_worker_kill(fake_worker);
	pthread_join(waiter.thread, NULL);
	assert_int_equal(waiter.result, -GDEV_E_LAUNCH_TIMEOUT);
	assert_int_equal(gdev_session_error(session, NULL), -GDEV_E_LAUNCH_TIMEOUT);
	assert_int_equal(gdev_memory_alloc(session, 8 << 20, &other), -GDEV_E_LAUNCH_TIMEOUT);
	assert_int_equal(gdev_memory_free(session, address), -GDEV_E_LAUNCH_TIMEOUT);
	assert_int_equal(gdev_host_alloc(session, 16, &pointer), -GDEV_E_LAUNCH_TIMEOUT);
	assert_int_equal(gdev_copy(stream, &copy), -GDEV_E_LAUNCH_TIMEOUT);
	assert_int_equal(gdev_session_sync(session), -GDEV_E_LAUNCH_TIMEOUT);
}

static void a_death_that_nobody_waits_for_is_found_at_the_next_wait(void **state)
{
	uint64_t address = alloc(4096), other;

	fake_worker_kill(fake_worker);
	assert_int_equal(gdev_memory_alloc(session, 8 << 20, &other), -GDEV_E_SESSION_LOST);
	assert_int_equal(gdev_memory_free(session, address), -GDEV_E_SESSION_LOST);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, fixture_setup, fixture_teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(many_threads_wait_each_for_its_own),
		TEST(a_client_looks_for_as_long_as_its_worker_wants),
		TEST(a_wait_like_those_before_is_awake_at_its_end),
		TEST(a_wait_like_those_before_hears_of_a_death_at_once),
		TEST(a_wait_ends_at_its_deadline),
		TEST(a_worker_that_dies_loses_the_session_for_everybody),
		TEST(why_a_worker_gave_up_outlives_it),
		TEST(a_death_that_nobody_waits_for_is_found_at_the_next_wait),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
