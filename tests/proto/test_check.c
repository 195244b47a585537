/* SPDX-License-Identifier: MIT
 *
 * proto/check.h: which control messages are whole, and which versions meet.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "gdev/error.h"
#include "proto/check.h"
#include "proto/control.h"
#include "proto/record.h"
#include "proto/session.h"

static int check(uint16_t type, uint16_t version, uint32_t claimed, size_t length)
{
	_Alignas(8) uint8_t bytes[CONTROL_BYTES_MAX + 8] = {0};
	struct control_header header = {.length = claimed, .type = type, .version = version};

	memcpy(bytes, &header, sizeof header);
	return control_check(bytes, length);
}

static void a_message_is_as_long_as_its_struct(void **state)
{
	static const struct {
		uint16_t type;
		size_t bytes;
		int fixed;
	} cases[] = {
#define CASE(name, value, type, fixed) {value, sizeof(type), fixed},
		CONTROLS(CASE)
#undef CASE
	};

	for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
		size_t bytes = cases[i].bytes;
		assert_int_equal(check(cases[i].type, CONTROL_VERSION, (uint32_t)bytes, bytes), 0);
		assert_int_equal(
			check(cases[i].type, CONTROL_VERSION, (uint32_t)bytes, bytes - 1), -EINVAL);
		assert_int_equal(
			check(cases[i].type, CONTROL_VERSION, (uint32_t)bytes - 1, bytes - 1),
			-EINVAL);
		assert_int_equal(
			check(cases[i].type, CONTROL_VERSION, (uint32_t)bytes + 8, bytes + 8),
			cases[i].fixed ? -EINVAL : 0);
		assert_int_equal(check(cases[i].type, CONTROL_VERSION, UINT32_MAX, bytes), -EINVAL);
		assert_int_equal(check(cases[i].type, 0, (uint32_t)bytes, bytes),
			cases[i].type == CONTROL_HELLO ? 0 : -EINVAL);
	}
}

static void nonsense_is_refused(void **state)
{
	assert_int_equal(control_check("", 0), -EINVAL);
	assert_int_equal(check(0, CONTROL_VERSION, 16, 16), -EINVAL);
	assert_int_equal(check(37, CONTROL_VERSION, 16, 16), -EINVAL);
	assert_int_equal(check(65535, CONTROL_VERSION, 16, 16), -EINVAL);
	assert_int_equal(check(CONTROL_ADMIN, CONTROL_VERSION, 15, 15), -EINVAL);
	assert_int_equal(
		check(CONTROL_ADMIN, CONTROL_VERSION, CONTROL_BYTES_MAX + 1, CONTROL_BYTES_MAX + 1),
		-EINVAL);
	for (int32_t status = CONTROL_STATUS_MIN - 1; status <= CONTROL_STATUS_MIN; status++) {
		struct control_header bye = {sizeof bye, CONTROL_BYE, CONTROL_VERSION, 0, status};
		assert_int_equal(
			control_check(&bye, sizeof bye), status < CONTROL_STATUS_MIN ? -EINVAL : 0);
	}
	assert_string_equal(control_type_name(CONTROL_HELLO), "CONTROL_HELLO");
	assert_string_equal(control_type_name(12345), "unknown");
}

static void nobody_charges_more_than_there_can_be(void **state)
{
	struct control_return message = {
		.header = {sizeof message, CONTROL_RETURN, CONTROL_VERSION, 0, 0},
		.swap_bytes = {0, CONTROL_AMOUNT_MAX},
	};

	assert_int_equal(control_check(&message, sizeof message), 0);
	message.swap_bytes[SWAP_FILE]++;
	assert_int_equal(control_check(&message, sizeof message), -EINVAL);
}

static void old_and_new_peers_find_a_version(void **state)
{
	static const struct {
		uint32_t min, max;
		int status;
		uint32_t version;
	} cases[] = {
		{1, 1, 0, 1},
		{1, 7, 0, SESSION_VERSION_MAX}, /* a newer client */
		{0, 1, 0, 1},                   /* one that knows an older one as well */
		{0, 0, -GDEV_E_PROTOCOL, 0},    /* too old */
		{SESSION_VERSION_MAX + 1, SESSION_VERSION_MAX + 2, -GDEV_E_PROTOCOL, 0},
		{2, 1, -GDEV_E_PROTOCOL, 0},
		{0, UINT32_MAX, 0, SESSION_VERSION_MAX},
	};

	for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
		uint32_t version = 0;
		assert_int_equal(session_version_choose(cases[i].min, cases[i].max, &version),
			cases[i].status);
		assert_int_equal(version, cases[i].version);
	}
}

static void every_record_has_a_type_and_nothing_else_has(void **state)
{
	unsigned known = 0;

	for (unsigned opcode = 0; opcode < 65536; opcode++) {
		const struct record_type *type = record_type_find((uint16_t)opcode);
		if (!type)
			continue;
		known++;
		assert_true(type->fixed_bytes >= sizeof(struct record_header));
		assert_int_equal(type->fixed_bytes % 8, 0);
	}
#define ONE(name, value, class, type) +1
	assert_int_equal(known, 0 RECORDS(ONE));
#undef ONE
	assert_int_equal(record_type_find(RECORD_LAUNCH)->class, RECORD_CLASS_STREAM);
	assert_int_equal(record_type_find(RECORD_QUERY)->class, RECORD_CLASS_IMMEDIATE);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_message_is_as_long_as_its_struct),
		cmocka_unit_test(nonsense_is_refused),
		cmocka_unit_test(nobody_charges_more_than_there_can_be),
		cmocka_unit_test(old_and_new_peers_find_a_version),
		cmocka_unit_test(every_record_has_a_type_and_nothing_else_has),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
