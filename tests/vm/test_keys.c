/* SPDX-License-Identifier: MIT
 *
 * The keys of a virtual machine while its processes ask for the same one: what each proxy is answered, in the orders in which
 * the answers may come.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <string.h>
#include <sys/ipc.h>

#include "proto/record.h"
#include "vm/keys.h"

#define KEY 77
#define USER 1000

static struct keys keys;

static int setup(void **state)
{
	memset(&keys, 0, sizeof keys);
	return keys_init(&keys);
}

static int get(unsigned slot, uint32_t flags, struct key *noted)
{
	struct record_shm record = {
		.header.opcode = RECORD_SHM_GET, .key = KEY, .flags = flags | 0600, .bytes = 4096};

	return keys_prepare(&keys, slot, USER, &record, noted);
}

static int control(uint32_t id, uint32_t command, struct key *noted)
{
	struct record_shm record = {
		.header.opcode = RECORD_SHM_CONTROL, .id = id, .command = command};

	return keys_prepare(&keys, 0, USER, &record, noted);
}

static int answered(uint16_t opcode, const struct key *noted, int status, uint32_t id)
{
	struct reply_shm reply = {.id = id};
	uint32_t spare;

	status = keys_answered(&keys, opcode, noted, status, &reply, &spare);
	assert_int_equal(spare, 0);
	return status;
}

/* Who asks for what is being made may be told by gdevd that it is not there yet. */
static void what_is_being_made_stays(void **state)
{
	struct key maker, other, third;

	assert_int_equal(get(0, IPC_CREAT, &maker), 0);
	assert_int_equal(get(1, 0, &other), 0);
	assert_int_equal(other.host_key, maker.host_key);
	assert_int_equal(answered(RECORD_SHM_GET, &other, -ENOENT, 0), -ENOENT);
	assert_int_equal(get(2, IPC_CREAT, &third), 0);
	assert_int_equal(third.host_key, maker.host_key);
	assert_int_equal(answered(RECORD_SHM_GET, &maker, 0, 5), 0);
	assert_int_equal(answered(RECORD_SHM_GET, &third, 0, 5), 0);
	assert_int_equal(control(5, IPC_STAT, &other), 0);
}

/* The same, and its proxy is the slower one. */
static void what_was_made_meanwhile_stays(void **state)
{
	struct key maker, other;

	assert_int_equal(get(0, IPC_CREAT, &maker), 0);
	assert_int_equal(get(1, 0, &other), 0);
	assert_int_equal(answered(RECORD_SHM_GET, &maker, 0, 5), 0);
	assert_int_equal(answered(RECORD_SHM_GET, &other, -ENOENT, 0), -ENOENT);
	assert_int_equal(control(5, IPC_STAT, &other), 0);
}

/* The key has a new segment before the proxy of who removed the old one has its answer. */
static void what_is_made_after_a_removal_stays(void **state)
{
	struct key noted, removes;

	assert_int_equal(get(0, IPC_CREAT, &noted), 0);
	assert_int_equal(answered(RECORD_SHM_GET, &noted, 0, 5), 0);
	assert_int_equal(control(5, IPC_RMID, &removes), 0);
	assert_int_equal(get(1, IPC_CREAT, &noted), 0);
	assert_int_equal(answered(RECORD_SHM_GET, &noted, 0, 6), 0);
	assert_int_equal(answered(RECORD_SHM_CONTROL, &removes, 0, 5), 0);
	assert_int_equal(control(6, IPC_STAT, &noted), 0);
	assert_int_equal(control(6, IPC_RMID, &removes), 0);
	assert_int_equal(answered(RECORD_SHM_CONTROL, &removes, 0, 6), 0);
	assert_int_equal(control(6, IPC_STAT, &noted), -EINVAL);
}

/* The host may have removed it; then the key is free. */
static void what_is_gone_is_forgotten(void **state)
{
	struct key noted;

	assert_int_equal(get(0, IPC_CREAT, &noted), 0);
	assert_int_equal(answered(RECORD_SHM_GET, &noted, 0, 5), 0);
	assert_int_equal(get(1, 0, &noted), 0);
	assert_int_equal(answered(RECORD_SHM_GET, &noted, -ENOENT, 0), -ENOENT);
	assert_int_equal(get(1, 0, &noted), -ENOENT);
	assert_int_equal(get(1, IPC_CREAT, &noted), 0);
	assert_int_equal(answered(RECORD_SHM_GET, &noted, -ENOMEM, 0), -ENOMEM);
	assert_int_equal(get(1, 0, &noted), -ENOENT);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(what_is_being_made_stays, setup),
		cmocka_unit_test_setup(what_was_made_meanwhile_stays, setup),
		cmocka_unit_test_setup(what_is_made_after_a_removal_stays, setup),
		cmocka_unit_test_setup(what_is_gone_is_forgotten, setup),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
