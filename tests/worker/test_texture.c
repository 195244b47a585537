/* SPDX-License-Identifier: MIT
 *
 * Arrays and textures of a device that makes them: where an array may be, what is charged for it, and that nothing is taken
 * from the device while a command may reach it.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "double.h"
#include "harness.h"

#define ARRAY_BYTES (8 * MIB) /* what the device takes for any */
#define REFUSED 77            /* a width of which it makes no array */

enum { A = 40, B, C };

struct device_array {
	uint64_t address;
};

static struct device_ops ops;
static unsigned arrays, textures; /* that the device has */
static bool leaving;              /* the memory of arrays can be taken from under them */

static uint64_t array_bytes(const struct array_shape *shape)
{
	return ARRAY_BYTES;
}

static int array_chunk(struct device_array *array, struct device_chunk **chunk)
{
	return ops.chunk_create(NULL, ARRAY_BYTES, chunk);
}

static int array_create(struct device_space *space, uint64_t address,
	const struct array_shape *shape, struct device_array **array, struct device_chunk **chunk)
{
	if (shape->width == REFUSED)
		return -ENOTSUP;
	*array = malloc(sizeof **array);
	(*array)->address = address;
	arrays++;
	if (!leaving)
		return 0;
	assert_int_equal(array_chunk(*array, chunk), 0);
	return ops.map(space, address, *chunk, false);
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

static int setup_with(void **state, bool with_gdevd)
{
	struct fixture *fixture = calloc(1, sizeof *fixture);

	arrays = textures = 0;
	leaving = with_gdevd;
	ops = *double_ops();
	ops.array_bytes = array_bytes;
	ops.array_create = array_create;
	ops.array_chunk = array_chunk;
	ops.array_destroy = array_destroy;
	ops.texture_create = texture_create;
	ops.texture_destroy = texture_destroy;
	fixture_start_ops(fixture, &ops, with_gdevd, 0);
	*state = fixture;
	return 0;
}

static int setup(void **state)
{
	return setup_with(state, false);
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

/* ---- memory that leaves ---- */

/* An array of as many bytes as its memory has; it begins with "abcdefgh". */
static int setup_leaving(void **state)
{
	struct record_array record = good_array(TEST_DEVICE);
	struct control_allocate wish;
	struct fixture *fixture;

	setup_with(state, true);
	fixture = *state;
	make_stream(fixture, A);
	record.shape.width = 512;
	record.shape.height = 1024;
	record.bytes = ARRAY_BYTES;
	post(fixture, &record);
	fixture_run(fixture);
	wish = expect_allocate(fixture, ARRAY_BYTES);
	assert_int_equal(wish.swap_bytes, 0); /* it begins on the device */
	answer_allocate(fixture, &wish, 0);
	assert_int_equal(fixture->segment->replies[0].status, 0);
	assert_int_equal(fixture->core->memory.used_bytes, ARRAY_BYTES);
	post_write(fixture, A, TEST_DEVICE, "abcdefgh", 8, 0);
	fixture_run(fixture);
	acquire(fixture, RESOURCE_COPY_TO_DEVICE);
	return 0;
}

static const struct piece *piece_of(struct fixture *fixture)
{
	return memory_piece(memory_find(fixture->core, TEST_DEVICE, 1), TEST_DEVICE);
}

static void order(struct fixture *fixture, uint32_t flags)
{
	struct control_evict message = {
		.header = {sizeof message, CONTROL_EVICT, CONTROL_VERSION, 9, 0},
		.bytes = ARRAY_BYTES + MEMORY_SLACK_BYTES,
		.swapped = ARRAY_BYTES + MEMORY_SLACK_BYTES,
		.flags = flags,
	};

	tell(fixture, &message, NULL, 0);
	fixture_run(fixture);
}

static void evict(struct fixture *fixture)
{
	order(fixture, 0);
	grant(fixture, RESOURCE_COPY_FROM_DEVICE);
	drain(fixture);
	assert_int_equal(piece_of(fixture)->state, PIECE_SWAPPED);
	assert_null(piece_of(fixture)->chunk);
	assert_int_equal(fixture->core->memory.used_bytes, 0);
	assert_int_equal(fixture->core->memory.swap_bytes, ARRAY_BYTES);
	assert_int_equal(arrays, 1);
}

/* Rules 2 and 7 of docs/memory.md. */
static void an_array_leaves_and_a_copy_from_it_reads_swap(void **state)
{
	struct fixture *fixture = *state;
	uint64_t value;

	evict(fixture);
	value = post_copy(fixture, A, TEST_BASE, TEST_DEVICE, 8);
	fixture_run(fixture);
	assert_int_equal(completed(fixture, A), value);
	assert_memory_equal((void *)TEST_BASE, "abcdefgh", 8);
	assert_int_equal(piece_of(fixture)->state, PIECE_SWAPPED);
	expect_no_message(fixture);
}

/* Rules 1, 2 and 4: a copy to it, as a launch, brings it in. */
static void an_array_comes_back_with_what_was_in_it(void **state)
{
	struct fixture *fixture = *state;
	struct control_room wish;
	uint64_t value;

	evict(fixture);
	value = post_write(fixture, A, TEST_DEVICE + 8, "ij", 2, 0);
	fixture_run(fixture);
	acquire(fixture, RESOURCE_COMPUTE);
	wish = expect_room(fixture, ARRAY_BYTES);
	assert_int_equal(
		wish.purpose, ROOM_FOR_TURN_ALONE); /* as what cannot be used from the host */
	answer_room(fixture, &wish, 0, ARRAY_BYTES);
	assert_int_equal(completed(fixture, A), value);
	assert_memory_equal((void *)TEST_DEVICE, "abcdefghij", 10);
	assert_int_equal(piece_of(fixture)->state, PIECE_RESIDENT);
	assert_int_equal(fixture->core->memory.used_bytes, ARRAY_BYTES);
	assert_int_equal(fixture->core->memory.swap_bytes, 0);
	assert_int_equal(arrays, 1);
}

/* Unlike other memory, it is not used from the host. */
static void an_array_that_has_no_room_is_an_error_and_stays_in_swap(void **state)
{
	struct fixture *fixture = *state;
	struct control_room wish;
	uint64_t value;

	evict(fixture);
	value = post_write(fixture, A, TEST_DEVICE + 8, "ij", 2, 0);
	fixture_run(fixture);
	acquire(fixture, RESOURCE_COMPUTE);
	wish = expect_room(fixture, ARRAY_BYTES);
	answer_room(fixture, &wish, -ENOMEM, 0);
	assert_int_equal(completed(fixture, A), value);
	assert_int_equal(stream_error(fixture, A), -ENOMEM);
	assert_int_equal(piece_of(fixture)->state, PIECE_SWAPPED);
	assert_int_equal(fixture->core->memory.used_bytes, 0);
	assert_int_equal(session_error(fixture), 0);
}

static void has_no_room(struct fixture *fixture)
{
	struct control_room wish = expect_room(fixture, ARRAY_BYTES);

	answer_room(fixture, &wish, -ENOMEM, 0);
}

/* Passes over what is said before the next wish for room. */
static struct control_room next_room(struct fixture *fixture)
{
	union {
		struct control_room room;
		uint8_t bytes[1024];
	} message;

	do
		assert_true(recv(fixture->gdevd, &message, sizeof message, MSG_DONTWAIT) > 0);
	while (message.room.header.type != CONTROL_ROOM);
	return message.room;
}

/* Other memory of the session is to leave for the array, and cannot yet: a copy is at it. Whoever asks again until then waits,
 * too. In the end the client frees the other memory, and there is room. */
static void ask_twice(struct fixture *fixture, bool ordered)
{
	struct control_evict half = {
		.header = {sizeof half, CONTROL_EVICT, CONTROL_VERSION, 10, 0},
		.bytes = 2 * MIB,
		.swapped = 2 * MIB,
	};
	struct record_memory other = {
		{.opcode = RECORD_MEMORY_ALLOC}, TEST_DEVICE + 2 * ARRAY_BYTES, 4 * MIB};
	struct control_allocate allocate;
	struct control_room wish;
	uint64_t values[2];

	evict(fixture);
	make_stream(fixture, B);
	make_stream(fixture, C);
	post(fixture, &other);
	fixture_run(fixture);
	allocate = expect_allocate(fixture, 4 * MIB);
	say_charged(fixture, &allocate.header, 0, 4 * MIB, 4 * MIB);
	fixture_run(fixture);
	double_hold(true);
	post_copy(fixture, B, TEST_BASE, other.address, 8);
	fixture_run(fixture);
	assert_int_equal(double_held(), 1);
	if (ordered)
		tell(fixture, &half, NULL, 0);
	values[0] = post_write(fixture, A, TEST_DEVICE, "A", 1, 0);
	fixture_run(fixture);
	acquire(fixture, RESOURCE_COMPUTE);
	has_no_room(fixture);
	assert_true(fixture->core->residency.ordered);
	values[1] = post_write(fixture, C, TEST_DEVICE + 1, "B", 1, 0);
	fixture_run(fixture);
	has_no_room(fixture);
	assert_int_equal(stream_error(fixture, A), 0);
	assert_int_equal(stream_error(fixture, C), 0);
	other.header = (struct record_header){.opcode = RECORD_MEMORY_FREE, .timeline = 1};
	post(fixture, &other);
	fixture_run(fixture);
	double_hold(false);
	double_release(1, 0);
	fixture_run(fixture);
	assert_false(fixture->core->residency.ordered);
	assert_int_equal(
		fixture->core->residency.eases, ordered); /* gdevd knows its own orders alone */
	wish = next_room(fixture);
	answer_room(fixture, &wish, 0, ARRAY_BYTES);
	assert_int_equal(completed(fixture, A), values[0]);
	assert_int_equal(completed(fixture, C), values[1]);
	assert_int_equal(stream_error(fixture, A), 0);
	assert_int_equal(stream_error(fixture, C), 0);
	assert_memory_equal((void *)TEST_DEVICE, "ABcdefgh", 8);
}

static void an_array_waits_while_other_memory_leaves_for_it(void **state)
{
	ask_twice(*state, false);
}

static void an_array_waits_until_other_memory_may_leave_for_it(void **state)
{
	ask_twice(*state, true);
}

/* Without it the session could not go on. */
static void an_array_does_not_leave_for_a_limit(void **state)
{
	struct fixture *fixture = *state;

	order(fixture, EVICT_LIMIT);
	assert_int_equal(piece_of(fixture)->state, PIECE_RESIDENT);
	assert_int_equal(fixture->core->memory.used_bytes, ARRAY_BYTES);
	assert_false(fixture->core->residency.ordered);
}

static void an_array_is_freed_where_it_is(void **state)
{
	struct fixture *fixture = *state;

	evict(fixture);
	assert_int_equal(release(fixture, TEST_DEVICE), 0);
	assert_int_equal(arrays, 0);
	assert_int_equal(fixture->core->memory.swap_bytes, 0);
	assert_int_equal(fixture->core->memory.used_bytes, 0);
	assert_int_equal(fixture->core->residency.absent_bytes, 0);
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
		cmocka_unit_test_setup_teardown(
			an_array_leaves_and_a_copy_from_it_reads_swap, setup_leaving, teardown),
		cmocka_unit_test_setup_teardown(
			an_array_comes_back_with_what_was_in_it, setup_leaving, teardown),
		cmocka_unit_test_setup_teardown(
			an_array_that_has_no_room_is_an_error_and_stays_in_swap, setup_leaving,
			teardown),
		cmocka_unit_test_setup_teardown(
			an_array_waits_while_other_memory_leaves_for_it, setup_leaving, teardown),
		cmocka_unit_test_setup_teardown(an_array_waits_until_other_memory_may_leave_for_it,
			setup_leaving, teardown),
		cmocka_unit_test_setup_teardown(
			an_array_does_not_leave_for_a_limit, setup_leaving, teardown),
		cmocka_unit_test_setup_teardown(
			an_array_is_freed_where_it_is, setup_leaving, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
