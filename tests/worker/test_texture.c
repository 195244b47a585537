/* SPDX-License-Identifier: MIT
 *
 * Arrays and textures of a device that makes them: where an array may be, what is charged for it, and that nothing is taken
 * from the device while a command may reach it.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "double.h"
#include "harness.h"

#define ARRAY_BYTES (8 * MIB) /* what the device takes for any */
#define REFUSED 77            /* a width of which it makes no array */

enum { A = 40 };

struct device_array {
	uint64_t address;
};

static struct device_ops ops;
static unsigned arrays, textures; /* that the device has */

static uint64_t array_bytes(const struct array_shape *shape)
{
	return ARRAY_BYTES;
}

static int array_create(struct device_space *space, uint64_t address,
	const struct array_shape *shape, struct device_array **array)
{
	if (shape->width == REFUSED)
		return -ENOTSUP;
	*array = malloc(sizeof **array);
	(*array)->address = address;
	arrays++;
	return 0;
}

static void array_destroy(struct device_array *array)
{
	arrays--;
	free(array);
}

static int texture_create(
	struct device_space *space, const struct texture_words *words, uint64_t *handle)
{
	if (words->source == TEXTURE_OF_LEVELS)
		return -EINVAL;
	*handle = words->address + ++textures;
	return 0;
}

static int texture_destroy(struct device_space *space, uint64_t handle, bool surface)
{
	if (!textures || surface)
		return -GDEV_E_INVALID_HANDLE;
	textures--;
	return 0;
}

static int setup(void **state)
{
	struct fixture *fixture = calloc(1, sizeof *fixture);

	arrays = textures = 0;
	ops = *double_ops();
	ops.array_bytes = array_bytes;
	ops.array_create = array_create;
	ops.array_destroy = array_destroy;
	ops.texture_create = texture_create;
	ops.texture_destroy = texture_destroy;
	fixture_start_ops(fixture, &ops, false, 0);
	*state = fixture;
	return 0;
}

/* Of elements of 16 bytes: 1 MiB in all. */
static struct record_array good_array(uint64_t address)
{
	return (struct record_array){
		.header = {.opcode = RECORD_ARRAY_CREATE},
		.address = address,
		.bytes = 2 * MIB,
		.shape = {.width = 256, .height = 256, .format = TEXTURE_F32, .channels = 4},
	};
}

static int create(struct fixture *fixture, uint64_t address)
{
	struct record_array record = good_array(address);

	return ask_plain(fixture, &record);
}

static void an_array_is_paid_for_as_long_as_it_lives(void **state)
{
	struct fixture *fixture = *state;
	struct record_array refused = good_array(TEST_DEVICE + 8 * MIB);

	assert_int_equal(create(fixture, TEST_DEVICE), 0);
	assert_int_equal(fixture->core->memory.used_bytes, ARRAY_BYTES);
	assert_int_equal(create(fixture, TEST_DEVICE), -EEXIST);
	assert_int_equal(create(fixture, TEST_BASE), -EEXIST); /* staging memory */
	assert_int_equal(create(fixture, TEST_BASE + TEST_BYTES), -EINVAL);
	refused.shape.width = REFUSED;
	assert_int_equal(ask_plain(fixture, &refused), -ENOTSUP);
	assert_int_equal(fixture->core->memory.used_bytes, ARRAY_BYTES);
	assert_int_equal(create(fixture, refused.address), 0);
	assert_int_equal(arrays, 2);
	assert_int_equal(release(fixture, TEST_DEVICE + 2 * MIB), -EINVAL);
	assert_int_equal(release(fixture, TEST_DEVICE), 0);
	assert_int_equal(release(fixture, TEST_DEVICE), -EINVAL);
	assert_int_equal(arrays, 1);
	assert_int_equal(fixture->core->memory.used_bytes, ARRAY_BYTES);
}

static void arrays_are_within_the_limit(void **state)
{
	struct fixture *fixture = *state;
	unsigned fit = TEST_LIMIT / ARRAY_BYTES;

	for (unsigned i = 0; i < fit; i++)
		assert_int_equal(create(fixture, TEST_DEVICE + i * 2 * MIB), 0);
	assert_int_equal(create(fixture, TEST_DEVICE + fit * 2 * MIB), -ENOMEM);
	assert_int_equal(arrays, fit);
	assert_int_equal(release(fixture, TEST_DEVICE), 0);
	assert_int_equal(create(fixture, TEST_DEVICE + fit * 2 * MIB), 0);
}

static void what_leaves_is_waited_for(void **state)
{
	struct fixture *fixture = *state;
	struct record_memory memory = {
		{.opcode = RECORD_MEMORY_FREE, .timeline = 1}, TEST_DEVICE, 0};
	struct record_texture texture = {
		{.opcode = RECORD_TEXTURE_CREATE}, {.address = TEST_DEVICE}};
	struct record_texture_destroy destroy = {{.opcode = RECORD_TEXTURE_DESTROY}};
	uint64_t freed, destroyed;

	make_stream(fixture, A);
	assert_int_equal(create(fixture, TEST_DEVICE), 0);
	assert_int_equal(ask_plain(fixture, &texture), 0);
	assert_int_equal(
		((const struct reply_texture *)reply_payload(fixture))->handle, TEST_DEVICE + 1);
	double_hold(true);
	post_copy(
		fixture, A, TEST_BASE + 64, TEST_BASE, 64); /* anything: the device may be at it */
	fixture_run(fixture);
	destroyed = post(fixture, &destroy);
	freed = post(fixture, &memory);
	fixture_run(fixture);
	assert_true(completed(fixture, 0) < destroyed);
	assert_true(completed(fixture, 1) < freed);
	assert_int_equal(arrays, 1);
	assert_int_equal(textures, 1);
	double_release(1, 0);
	fixture_run(fixture);
	assert_int_equal(completed(fixture, 0), destroyed);
	assert_int_equal(completed(fixture, 1), freed);
	assert_int_equal(arrays, 0);
	assert_int_equal(textures, 0);
	destroy.header.value = 0; /* the next one */
	assert_int_equal(ask_plain(fixture, &destroy), -GDEV_E_INVALID_HANDLE);
	double_hold(false);
	post_copy(fixture, A, TEST_DEVICE, TEST_BASE, 64);
	fixture_run(fixture);
	assert_int_equal(session_error(fixture), -GDEV_E_ILLEGAL_ADDRESS);
}

static void an_array_is_no_memory_of_a_client(void **state)
{
	struct fixture *fixture = *state;
	struct record_shared record = {
		.header = {.opcode = RECORD_SHARED_EXPORT}, .address = TEST_DEVICE};
	struct record_texture levels = {{.opcode = RECORD_TEXTURE_CREATE},
		{.source = TEXTURE_OF_LEVELS, .address = TEST_DEVICE}};
	struct record_fill fill = {{.opcode = RECORD_FILL, .timeline = A}, TEST_DEVICE, 4, 1, 4, 1};

	make_stream(fixture, A);
	assert_int_equal(create(fixture, TEST_DEVICE), 0);
	assert_int_equal(ask_plain(fixture, &record), -EINVAL);
	assert_int_equal(ask_plain(fixture, &levels), -EINVAL);
	assert_int_equal(alloc(fixture, TEST_DEVICE, 2 * MIB), -EEXIST);
	post(fixture, &fill);
	fixture_run(fixture);
	assert_int_equal(session_error(fixture), -GDEV_E_ILLEGAL_ADDRESS);
}

static void a_device_may_make_none(void **state)
{
	struct fixture *fixture = *state;
	struct record_texture texture = {
		{.opcode = RECORD_TEXTURE_CREATE}, {.address = TEST_DEVICE}};
	struct record_texture_destroy destroy = {{.opcode = RECORD_TEXTURE_DESTROY}};
	struct record_reference reference = {{.opcode = RECORD_REFERENCE_SET}, .name_bytes = 6};

	post_module(fixture);
	reference.module = ((const struct reply_module *)reply_payload(fixture))->module;
	assert_int_equal(ask(fixture, &reference, sizeof reference, "image", 6), -ENOTSUP);
	reference.module++;
	reference.header.value = 0;
	assert_int_equal(
		ask(fixture, &reference, sizeof reference, "image", 6), -GDEV_E_INVALID_HANDLE);
	assert_int_equal(create(fixture, TEST_DEVICE), -ENOTSUP);
	assert_int_equal(ask_plain(fixture, &texture), -ENOTSUP);
	assert_int_equal(ask_plain(fixture, &destroy), -ENOTSUP);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(
			an_array_is_paid_for_as_long_as_it_lives, setup, teardown),
		cmocka_unit_test_setup_teardown(arrays_are_within_the_limit, setup, teardown),
		cmocka_unit_test_setup_teardown(what_leaves_is_waited_for, setup, teardown),
		cmocka_unit_test_setup_teardown(an_array_is_no_memory_of_a_client, setup, teardown),
		cmocka_unit_test_setup_teardown(a_device_may_make_none, setup_alone, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
