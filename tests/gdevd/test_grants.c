/* SPDX-License-Identifier: MIT
 *
 * What the arbiters learn from the pages of workers.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/clock.h"
#include "gdevd/daemon.h"

#define GRANTED_NS (100 * NS_PER_S)

static struct daemon gdevd;

static int set_up(void **state)
{
	daemon_init(&gdevd);
	strcpy(gdevd.config.device, "cpu");
	strcpy(gdevd.config.policy, "fair");
	return grants_init(&gdevd);
}

static int tear_down(void **state)
{
	deadlines_finish(&gdevd.deadlines);
	uv_close((uv_handle_t *)&gdevd.eager, NULL);
	uv_run(&gdevd.loop, UV_RUN_DEFAULT);
	return uv_loop_close(&gdevd.loop);
}

/* As the arbiter of the resource is told, of one that has held it for a second. */
static uint64_t used_ns(unsigned resource, const struct worker_page *says)
{
	struct worker_page page = *says;
	struct worker worker = {.page = &page};
	struct session session = {.daemon = &gdevd, .worker = &worker};
	struct sched *sched = &gdevd.device.sched[resource];

	session.grants[resource] = (struct session_grant){
		.held = true, .granted_ns = GRANTED_NS, .page_ns = 7 * NS_PER_MS};
	return sched->ops->used_ns(sched, &session.entities[resource], GRANTED_NS + NS_PER_S);
}

static void holder_has_used_what_its_page_says_and_what_may_be_on_the_device(void **state)
{
	struct worker_page page = {.compute_ns = 7 * NS_PER_MS};

	/* Nothing, but for a window. */
	assert_int_equal(used_ns(RESOURCE_COMPUTE, &page), NS_PER_MS);
	page.compute_ns = 27 * NS_PER_MS;
	assert_int_equal(used_ns(RESOURCE_COMPUTE, &page), 21 * NS_PER_MS);
	/* Two of its longest commands are more than a window. */
	page.longest_ns[RESOURCE_COMPUTE] = 5 * NS_PER_MS;
	assert_int_equal(used_ns(RESOURCE_COMPUTE, &page), 30 * NS_PER_MS);
}

static void page_that_lies_says_no_more_than_there_was(void **state)
{
	struct worker_page page = {.compute_ns = UINT64_MAX};

	assert_int_equal(used_ns(RESOURCE_COMPUTE, &page), NS_PER_S + NS_PER_MS);
	page.longest_ns[RESOURCE_COMPUTE] = UINT64_MAX;
	assert_int_equal(used_ns(RESOURCE_COMPUTE, &page), 3 * NS_PER_S);
	page.compute_ns = 0; /* less than when it was granted */
	assert_int_equal(used_ns(RESOURCE_COMPUTE, &page), 2 * NS_PER_S);
}

static void what_clients_copy_themselves_is_all_of_the_time(void **state)
{
	struct worker_page page = {.to_device_ns = 17 * NS_PER_MS};

	assert_true(used_ns(RESOURCE_COPY_TO_DEVICE, &page) == UINT64_MAX);
	strcpy(gdevd.config.device, "cuda:0");
	assert_int_equal(used_ns(RESOURCE_COPY_TO_DEVICE, &page), 11 * NS_PER_MS);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(
			holder_has_used_what_its_page_says_and_what_may_be_on_the_device, set_up,
			tear_down),
		cmocka_unit_test_setup_teardown(
			page_that_lies_says_no_more_than_there_was, set_up, tear_down),
		cmocka_unit_test_setup_teardown(
			what_clients_copy_themselves_is_all_of_the_time, set_up, tear_down),
	};

	return cmocka_run_group_tests_name("gdevd grants", tests, NULL, NULL);
}
