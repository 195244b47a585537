/* SPDX-License-Identifier: MIT
 *
 * Memory accounts, and the rights to shared segments.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include <errno.h>

#include "base/cleanup.h"
#include "gdevd/memory/memory.h"
#include "gdevd/memory/shm.h"

/* ---- memory ---- */

static void charge_goes_to_the_whole_chain_or_to_none(void **state)
{
	struct memory_account device, vgpu, session;

	memory_init(&device, NULL, 100);
	memory_init(&vgpu, &device, 60);
	memory_init(&session, &vgpu, UINT64_MAX);
	assert_int_equal(memory_total(&session), 60);
	assert_int_equal(memory_charge(&session, 61), -ENOMEM);
	assert_int_equal(memory_charge(&session, UINT64_MAX), -ENOMEM);
	assert_int_equal(device.used_bytes, 0);
	assert_int_equal(memory_charge(&session, 60), 0);
	assert_int_equal(device.used_bytes, 60);
	assert_int_equal(memory_free(&session), 0);
	assert_int_equal(memory_return(&session, 61), -EINVAL);
	assert_int_equal(memory_return(&session, 20), 0);
	assert_int_equal(vgpu.used_bytes, 40);
	assert_int_equal(session.peak_bytes, 60);
}

static void moved_charge_leaves_what_is_above_alone(void **state)
{
	struct memory_account vgpu, session, segment;

	memory_init(&vgpu, NULL, 50);
	memory_init(&session, &vgpu, UINT64_MAX);
	memory_init(&segment, &vgpu, 30);
	memory_charge(&session, 50);
	assert_int_equal(memory_move(&session, &segment, 51), -EINVAL);
	assert_int_equal(memory_move(&session, &segment, 31), -ENOMEM);
	assert_int_equal(session.used_bytes, 50);
	assert_int_equal(memory_move(&session, &segment, 30), 0);
	assert_int_equal(session.used_bytes, 20);
	assert_int_equal(segment.used_bytes, 30);
	assert_int_equal(vgpu.used_bytes, 50);
	assert_int_equal(vgpu.peak_bytes, 50);
}

static void account_moves_to_another_parent_with_all_it_holds(void **state)
{
	struct memory_account device, small, large, worker;

	memory_init(&device, NULL, 100);
	memory_init(&small, &device, 5);
	memory_init(&large, &device, 50);
	memory_init(&worker, &device, UINT64_MAX);
	memory_charge(&worker, 10);
	assert_int_equal(memory_reparent(&worker, &small), -ENOMEM);
	assert_int_equal(device.used_bytes, 10);
	assert_int_equal(memory_reparent(&worker, &large), 0);
	assert_int_equal(large.used_bytes, 10);
	assert_int_equal(device.used_bytes, 10);
	assert_int_equal(memory_reparent(&worker, &device), 0);
	assert_int_equal(large.used_bytes, 0);
}

static void account_moves_below_what_is_over_its_limit(void **state)
{
	struct memory_account device, vgpu, worker, segment;

	memory_init(&device, NULL, 100);
	memory_init(&vgpu, &device, UINT64_MAX);
	memory_init(&segment, &vgpu, UINT64_MAX);
	memory_init(&worker, &device, UINT64_MAX);
	memory_charge_held(&device, 95); /* of one that is going */
	memory_charge_held(&worker, 10); /* it began before the other took so much */
	assert_int_equal(memory_reparent(&worker, &vgpu), 0);
	assert_int_equal(vgpu.used_bytes, 10);
	assert_int_equal(memory_move(&worker, &segment, 4), 0);
	assert_int_equal(segment.used_bytes, 4);
	assert_int_equal(vgpu.used_bytes, 10);
	assert_int_equal(device.used_bytes, 105);
}

static void nobody_claims_more_than_can_be(void **state)
{
	struct memory_account device, vgpu, worker;

	memory_init(&device, NULL, 100);
	memory_init(&vgpu, &device, UINT64_MAX);
	memory_init(&worker, &vgpu, UINT64_MAX);
	memory_charge_held(&vgpu, 90); /* of others */
	assert_int_equal(memory_claim(&worker, UINT64_MAX, 50), -EINVAL);
	assert_int_equal(memory_claim(&worker, 51, 50), -EINVAL);
	assert_int_equal(worker.used_bytes, 0);
	assert_int_equal(memory_claim(&worker, 30, 50), 0);
	assert_int_equal(memory_claim(&worker, 21, 50), -EINVAL);
	assert_int_equal(memory_claim(&worker, 20, 50), 0);
	assert_int_equal(device.used_bytes, 140);
}

static void held_memory_is_charged_beyond_a_lowered_limit(void **state)
{
	struct memory_account vgpu;

	memory_init(&vgpu, NULL, 10);
	memory_charge_held(&vgpu, 15);
	assert_int_equal(memory_free(&vgpu), 0);
	assert_int_equal(memory_charge(&vgpu, 0), 0);
	assert_int_equal(memory_charge(&vgpu, 1), -ENOMEM);
	assert_int_equal(memory_return(&vgpu, 15), 0);
}

/* ---- shared segments ---- */

static void segment_rights_are_those_of_system_v(void **state)
{
	static const struct {
		mode_t mode;
		uid_t uid;
		gid_t gid;
		unsigned access;
		bool may;
	} cases[] = {
		/* owner 1000, creator 1001, group 2000 and 2001 */
		{0600, 1000, 9, SHM_READ | SHM_WRITE, true},
		{0600, 1001, 9, SHM_READ | SHM_WRITE, true},
		{0400, 1000, 9, SHM_READ, true},
		{0400, 1000, 9, SHM_WRITE, false},
		{0600, 3000, 2000, SHM_READ, false},
		{0640, 3000, 2000, SHM_READ, true},
		{0640, 3000, 2001, SHM_READ, true},
		{0640, 3000, 2000, SHM_WRITE, false},
		{0640, 3000, 9, SHM_READ, false},
		{0644, 3000, 9, SHM_READ, true},
		{0646, 3000, 9, SHM_READ | SHM_WRITE, true},
		/* The owner's digit alone counts for the owner, as for files. */
		{0066, 1000, 2000, SHM_READ, false},
		{0606, 3000, 2000, SHM_READ, false},
		{0000, 0, 0, SHM_READ | SHM_WRITE, true},
		/* 3001 is of the group 2001 besides its own. */
		{0640, 3001, 9, SHM_READ, true},
		{0640, 3001, 9, SHM_WRITE, false},
		{0604, 3001, 9, SHM_READ, false},
	};
	static const struct groups none = {0}, some = {.count = 2, .ids = {5, 2001}};

	for (size_t i = 0; i < array_length(cases); i++) {
		struct shm_segment segment = {
			.mode = cases[i].mode,
			.uid = 1000,
			.creator_uid = 1001,
			.gid = 2000,
			.creator_gid = 2001,
		};
		if (shm_may_access(&segment, cases[i].uid, cases[i].gid,
			    cases[i].uid == 3001 ? &some : &none, cases[i].access) != cases[i].may)
			fail_msg("case %zu", i);
		assert_int_equal(shm_may_control(&segment, cases[i].uid),
			cases[i].uid == 0 || cases[i].uid == 1000 || cases[i].uid == 1001);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(charge_goes_to_the_whole_chain_or_to_none),
		cmocka_unit_test(moved_charge_leaves_what_is_above_alone),
		cmocka_unit_test(account_moves_to_another_parent_with_all_it_holds),
		cmocka_unit_test(account_moves_below_what_is_over_its_limit),
		cmocka_unit_test(nobody_claims_more_than_can_be),
		cmocka_unit_test(held_memory_is_charged_beyond_a_lowered_limit),
		cmocka_unit_test(segment_rights_are_those_of_system_v),
	};

	return cmocka_run_group_tests_name("gdevd memory", tests, NULL, NULL);
}
