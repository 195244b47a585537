/* SPDX-License-Identifier: MIT
 *
 * Who is named to follow a holder.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include <stdlib.h>

#include "gdevd/daemon.h"

/* A daemon with a holder and two who wait; its workers have a page and no socket. */
struct turning_fixture {
	struct daemon daemon;
	struct device device;
	struct worker workers[3];
	struct worker_page pages[3];
	struct session sessions[3];
};

static struct turning_fixture *make_turning(void)
{
	struct turning_fixture *fixture = calloc(1, sizeof *fixture);

	for (unsigned i = 0; i < 3; i++) {
		fixture->workers[i].page = &fixture->pages[i];
		fixture->pages[i].revoke[RESOURCE_COMPUTE] = REVOKE_NOW; /* in its last turn */
		fixture->sessions[i] = (struct session){.daemon = &fixture->daemon,
			.device = &fixture->device,
			.worker = &fixture->workers[i],
			.id = 10 + i,
			.turns = true};
	}
	assert_int_equal(turns_init(&fixture->device), 0);
	return fixture;
}

static void a_holder_is_told_who_follows_and_gdevd_sees_whether_it_handed_over(void **state)
{
	struct turning_fixture *fixture = make_turning();
	struct device *device = &fixture->device;
	struct session *holder = &fixture->sessions[0], *next = &fixture->sessions[1],
		       *other = &fixture->sessions[2];
	uint64_t *word = &device->turning.page->resources[RESOURCE_COMPUTE].next;

	assert_true(turns_name(device, RESOURCE_COMPUTE, holder, next));
	assert_int_equal(*word, TURN_NEXT(10, 1));
	assert_int_equal(fixture->pages[1].revoke[RESOURCE_COMPUTE], REVOKE_NONE);
	assert_true(turns_name(device, RESOURCE_COMPUTE, holder, other)); /* it had not */
	assert_int_equal(*word, TURN_NEXT(10, 2));
	*word = 0; /* now it has */
	assert_false(turns_name(device, RESOURCE_COMPUTE, holder, next));
	assert_int_equal(*word, 0);
	assert_true(turns_name(device, RESOURCE_COMPUTE, other, NULL)); /* the next holder's */
	assert_true(turns_name(device, RESOURCE_COMPUTE, other, next));
	assert_true(turns_name(device, RESOURCE_COMPUTE, other, NULL));
	assert_int_equal(*word, 0);
	turns_finish(device);
	free(fixture);
}

static void who_needs_a_message_is_not_named(void **state)
{
	struct turning_fixture *fixture = make_turning();
	struct device *device = &fixture->device;
	struct session *holder = &fixture->sessions[0], *next = &fixture->sessions[1];
	uint64_t *word = &device->turning.page->resources[RESOURCE_COMPUTE].next;

	*word = TURN_NEXT(10, 1); /* what a worker may have written there */
	next->turns = false;      /* it came with an earlier gdevd */
	assert_true(turns_name(device, RESOURCE_COMPUTE, holder, next));
	assert_int_equal(*word, 0);
	next->turns = true;
	fixture->daemon.config.one_queue = true;
	assert_true(turns_name(device, RESOURCE_COMPUTE, holder, next));
	assert_int_equal(*word, 0);
	fixture->daemon.config.one_queue = false;
	assert_int_equal(fixture->pages[1].revoke[RESOURCE_COMPUTE], REVOKE_NOW);
	assert_true(turns_name(device, RESOURCE_COMPUTE, holder, NULL));
	turns_finish(device);
	free(fixture);
}

static void a_session_is_preferred_until_it_comes(void **state)
{
	struct turning_fixture *fixture = make_turning();
	struct device *device = &fixture->device;
	struct session *high = &fixture->sessions[1], *other = &fixture->sessions[2];
	uint64_t *word = &device->turning.page->preferred, before;

	assert_false(turns_was_preferred(high));
	turns_prefer(device, high);
	before = *word;
	assert_int_equal(before >> 32, 11);
	assert_false(turns_was_preferred(other));
	assert_int_equal(*word, before);
	*word = TURN_NEXT(12, 99); /* what a worker may write there */
	assert_false(turns_was_preferred(other));
	assert_true(turns_was_preferred(high));
	assert_int_equal(*word, 0);
	turns_prefer(device, high);
	assert_true(*word && *word != before); /* no word counts twice */
	high->turns = false;
	turns_prefer(device, high);
	assert_int_equal(*word, 0);
	turns_finish(device);
	free(fixture);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(
			a_holder_is_told_who_follows_and_gdevd_sees_whether_it_handed_over),
		cmocka_unit_test(who_needs_a_message_is_not_named),
		cmocka_unit_test(a_session_is_preferred_until_it_comes),
	};

	return cmocka_run_group_tests_name("gdevd turns", tests, NULL, NULL);
}
