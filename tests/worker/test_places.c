/* SPDX-License-Identifier: MIT
 *
 * Lenders that meet on a processor part, and may run where they might before.
 */
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#include "worker/places.h"

static unsigned sum(const struct places *places)
{
	unsigned lenders = 0;

	for (int i = 0; i < PLACES_MAX; i++)
		lenders += places->lenders[i];
	return lenders;
}

/* Binds the calling thread to a processor that it may use; which one, and what it might use before. */
static int stay_on_one(cpu_set_t *before)
{
	int processor = 0;
	cpu_set_t one;

	assert_int_equal(sched_getaffinity(0, sizeof *before, before), 0);
	while (!CPU_ISSET(processor, before))
		processor++;
	CPU_ZERO(&one);
	CPU_SET(processor, &one);
	assert_int_equal(sched_setaffinity(0, sizeof one, &one), 0);
	return processor;
}

static void a_lender_leaves_the_processor_of_another(void **state)
{
	struct places places = {0};
	int place = PLACE_NONE, there;
	cpu_set_t all, now;

	there = stay_on_one(&all);
	if (CPU_COUNT(&all) < 2) {
		printf("# there is one processor\n");
		skip();
	}
	places.lenders[there] = 1;
	/* It is there, and need not be. */
	assert_int_equal(sched_setaffinity(0, sizeof all, &all), 0);
	places_take(&places, &place);
	assert_int_not_equal(place, there);
	assert_int_equal(places.lenders[place], 1);
	assert_int_equal(sched_getaffinity(0, sizeof now, &now), 0);
	assert_true(CPU_EQUAL(&all, &now));
	places_leave(&places, &place);
	assert_int_equal(place, PLACE_NONE);
	assert_int_equal(sum(&places), 1);
}

static void a_lender_that_may_go_nowhere_stays(void **state)
{
	struct places places = {0};
	int place = PLACE_NONE, there;
	cpu_set_t all;

	there = stay_on_one(&all);
	places.lenders[there] = 1;
	places_take(&places, &place);
	assert_int_equal(place, there);
	assert_int_equal(places.lenders[there], 2);
	places_leave(&places, &place);
	assert_int_equal(places.lenders[there], 1);
	assert_int_equal(sched_setaffinity(0, sizeof all, &all), 0);
}

static void a_lender_is_counted_once(void **state)
{
	struct places places = {0};
	int place = PLACE_NONE;

	for (int i = 0; i < 1000; i++)
		places_take(&places, &place);
	assert_int_equal(sum(&places), 1);
	places_leave(&places, &place);
	assert_int_equal(sum(&places), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_lender_leaves_the_processor_of_another),
		cmocka_unit_test(a_lender_that_may_go_nowhere_stays),
		cmocka_unit_test(a_lender_is_counted_once),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
