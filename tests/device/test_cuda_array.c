/* SPDX-License-Identifier: MIT
 *
 * Arrays and objects of device/cuda (array.c) beyond what programs do with them (integ/driver.c): copies that are not of
 * elements, calls at once, and memory that leaves. Over the driver library that is made for tests, or on a GPU.
 */
#include "harness.h"

#include <gdev/cuda.h>

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>

#include "gdev/error.h"

static struct harness harness;

static int start(void **state)
{
	harness_start(&harness, device_ops_find("cuda"));
	return 0;
}

static int stop(void **state)
{
	harness_stop(&harness);
	return 0;
}

static const struct array_shape square = {
	.width = 16, .height = 16, .format = TEXTURE_U32, .channels = 1};

static void end_array(struct harness *h, struct device_array *array, struct device_chunk *chunk)
{
	if (chunk) {
		h->ops->unmap(h->space, harness_address(h, 2), chunk);
		h->ops->chunk_destroy(chunk);
	}
	h->ops->array_destroy(array);
}

/* The driver made for tests takes such copies, and does nothing. */
static void a_copy_of_what_an_array_does_not_have_fails(void **state)
{
	static const struct {
		uint64_t offset, width, height;
		int error;
	} cases[] = {{0, 64, 16, 0}, {8, 4, 16, 0}, {64, 960, 1, 0}, {2, 4, 1, -EINVAL},
		{0, 6, 1, -EINVAL}, {960, 128, 1, -EINVAL}, {64, 64, 16, -EINVAL},
		{1024, 4, 1, -EINVAL}};
	struct harness *h = &harness;
	struct device_queue *queue = harness_queue(h);
	struct device_array *array;
	struct device_chunk *chunk;

	assert_int_equal(
		h->ops->array_create(h->space, harness_address(h, 2), &square, &array, &chunk), 0);
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		struct submitted s = {
			.command = {.kind = DEVICE_COPY,
				.copy = {.destination = harness_address(h, 2) + cases[i].offset,
					.source = (uint64_t)h->locked,
					.width = cases[i].width,
					.height = cases[i].height,
					.depth = 1,
					.destination_pitch = 64,
					.source_pitch = 64,
					.direction = COPY_TO_DEVICE}}};
		assert_int_equal(harness_run(h, queue, &s), cases[i].error);
	}
	end_array(h, array, chunk);
	h->ops->queue_destroy(queue);
}

#define OBJECTS 300

static atomic_bool enough;

static void *make_and_end(void *argument)
{
	struct harness *h = argument;
	struct device_array *array;
	struct device_chunk *chunk;

	while (!atomic_load(&enough))
		if (!h->ops->array_create(h->space, harness_address(h, 2), &square, &array, &chunk))
			end_array(h, array, chunk);
	return NULL;
}

/* One job of a worker makes an object while another ends the array. */
static void objects_are_made_of_arrays_that_are_there(void **state)
{
	struct texture_words words = {.address = harness_address(&harness, 2)};
	struct harness *h = &harness;
	pthread_t other;
	uint64_t handle;

	pthread_create(&other, NULL, make_and_end, h);
	for (int made = 0; made < OBJECTS;) {
		int error = h->ops->texture_create(h->space, &words, &handle);
		assert_true(!error || error == -EINVAL);
		if (error)
			continue;
		assert_int_equal(h->ops->texture_destroy(h->space, handle, false), 0);
		made++;
	}
	atomic_store(&enough, true);
	pthread_join(other, NULL);
}

/* Blocks of 64 bytes x 8 to 256 rows x 1 to 32 planes; layers begin where a block of the first level may. */
static void arrays_are_charged_in_blocks(void **state)
{
	static const struct {
		struct array_shape shape;
		uint64_t mib;
	} cases[] = {{{.width = 1, .format = TEXTURE_U8, .channels = 1}, 2},
		{{.width = 1 << 20, .format = TEXTURE_F32, .channels = 4}, 16},
		{{.width = 16384, .height = 257, .format = TEXTURE_U8, .channels = 1}, 8},
		{{.width = 1024, .height = 1024, .depth = 33, .format = TEXTURE_U8, .channels = 1},
			64},
		{{.width = 32,
			 .height = 32,
			 .depth = 2048,
			 .levels = 6,
			 .format = TEXTURE_U32,
			 .channels = 1,
			 .flags = ARRAY_LAYERED},
			16}};

	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
		assert_int_equal(harness.ops->array_bytes(&cases[i].shape), cases[i].mib << 20);
}

/* ---- memory that leaves ---- */

static const struct array_shape leaving[] = {
	{.width = 16, .height = 16, .format = TEXTURE_U32, .channels = 1, .flags = ARRAY_SURFACE},
	{.width = 33, .height = 17, .format = TEXTURE_U8, .channels = 4},
	{.width = 20, .height = 6, .depth = 5, .format = TEXTURE_F32, .channels = 2},
	{.width = 12,
		.height = 7,
		.depth = 4,
		.format = TEXTURE_U16,
		.channels = 1,
		.flags = ARRAY_LAYERED},
	{.width = 50, .height = 30, .levels = 4, .format = TEXTURE_U32, .channels = 1},
	{.width = 40, .height = 12, .depth = 10, .levels = 3, .format = TEXTURE_U8, .channels = 1},
};

/* All that the array has addresses for, to or from the page-locked memory. */
static void move_whole(struct harness *h, struct device_queue *queue, bool out)
{
	uint64_t array = harness_address(h, 2), memory = (uintptr_t)h->locked;
	struct submitted s = {
		.command = {.kind = DEVICE_COPY,
			.copy = {.destination = out ? memory : array,
				.source = out ? array : memory,
				.width = DEVICE_CHUNK_MIN,
				.height = 1,
				.depth = 1,
				.direction = out ? COPY_FROM_DEVICE : COPY_TO_DEVICE}}};

	assert_int_equal(harness_run(h, queue, &s), 0);
}

static uint8_t byte_at(uint64_t offset)
{
	return (uint8_t)(offset * 2654435761u >> 13);
}

/* How many bytes of elements, which lie in the page-locked memory, are not what they were. */
static unsigned wrong_bytes(struct harness *h, const struct array_shape *shape)
{
	struct texture level;
	unsigned wrong = 0;
	uint64_t bytes;

	assert_true(array_layout(shape, 0, &level, &bytes));
	for (uint32_t l = level.levels; l--; texture_next(&level))
		for (uint64_t row = 0; row < (uint64_t)level.height * level.depth; row++)
			for (uint64_t x = 0; x < level.width * texture_element_bytes(&level); x++) {
				uint64_t at = level.address + row * level.pitch + x;
				wrong += h->locked[at] != byte_at(at);
			}
	return wrong;
}

static void leave_and_come_back(struct harness *h, const struct array_shape *shape)
{
	struct device_queue *queue = harness_queue(h);
	struct texture_words words = {
		.source = shape->levels ? TEXTURE_OF_LEVELS : TEXTURE_OF_ARRAY,
		.address = harness_address(h, 2),
		.flags = CU_TRSF_NORMALIZED_COORDINATES};
	struct device_array *array;
	struct device_chunk *chunk;
	uint64_t handle;

	assert_int_equal(
		h->ops->array_create(h->space, harness_address(h, 2), shape, &array, &chunk), 0);
	if (!chunk && harness_ask_driver("fake_context_count") < 0)
		skip(); /* this driver does not */
	assert_non_null(chunk);
	for (uint64_t i = 0; i < DEVICE_CHUNK_MIN; i++)
		h->locked[i] = byte_at(i);
	move_whole(h, queue, false);
	memset(h->locked, 0, DEVICE_CHUNK_MIN);
	move_whole(h, queue, true);
	assert_int_equal(wrong_bytes(h, shape), 0);
	h->ops->unmap(h->space, harness_address(h, 2), chunk);
	h->ops->chunk_destroy(chunk);
	assert_int_equal(h->ops->texture_create(h->space, &words, &handle), 0);
	assert_int_equal(h->ops->array_chunk(array, &chunk), 0);
	assert_int_equal(h->ops->map(h->space, harness_address(h, 2), chunk, false), 0);
	move_whole(h, queue, false);
	memset(h->locked, 0, DEVICE_CHUNK_MIN);
	move_whole(h, queue, true);
	assert_int_equal(wrong_bytes(h, shape), 0);
	assert_int_equal(h->ops->texture_destroy(h->space, handle, false), 0);
	end_array(h, array, chunk);
	h->ops->queue_destroy(queue);
}

static void memory_leaves_and_the_array_stays(void **state)
{
	for (size_t i = 0; i < sizeof leaving / sizeof *leaving; i++)
		leave_and_come_back(&harness, &leaving[i]);
}

/* These the driver does not map so, by its documentation. */
static void others_keep_their_memory(void **state)
{
	static const struct array_shape keeping[] = {
		{.width = 100, .format = TEXTURE_U8, .channels = 1},
		{.width = 100,
			.depth = 3,
			.format = TEXTURE_U8,
			.channels = 1,
			.flags = ARRAY_LAYERED},
		{.width = 8,
			.height = 8,
			.depth = 6,
			.format = TEXTURE_U8,
			.channels = 1,
			.flags = ARRAY_CUBE},
	};
	struct harness *h = &harness;
	struct device_array *array;
	struct device_chunk *chunk;

	for (size_t i = 0; i < sizeof keeping / sizeof *keeping; i++) {
		assert_int_equal(h->ops->array_create(h->space, harness_address(h, 2), &keeping[i],
					 &array, &chunk),
			0);
		assert_null(chunk);
		end_array(h, array, chunk);
	}
}

/* Whatever a driver refuses of it, there is an array; but for want of memory. */
static void what_a_driver_refuses_keeps_its_memory(void **state)
{
	static const struct {
		const char *fails;
		int error;
	} cases[] = {{"cuArray3DCreate:1@1", 0}, {"cuArrayGetMemoryRequirements:801@1", 0},
		{"cuMemCreate:801@1", 0}, {"cuMemMapArrayAsync:801@1", 0},
		{"cuMemMapArrayAsync:801@2", 0}, {"cuMemMapArrayAsync:801@3", 0},
		{"cuMemMapArrayAsync:1@1", 0}, {"cuStreamSynchronize:801@1", 0},
		{"cuArray3DCreate:2@1", -ENOMEM}, {"cuMemCreate:2@1", -ENOMEM}};
	struct harness *h = &harness;
	struct device_array *array;
	struct device_chunk *chunk;

	if (!harness_let_fail(NULL))
		skip();
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		assert_true(harness_let_fail(cases[i].fails));
		assert_int_equal(h->ops->array_create(
					 h->space, harness_address(h, 2), &square, &array, &chunk),
			cases[i].error);
		if (!cases[i].error) {
			assert_null(chunk);
			end_array(h, array, chunk);
		}
	}
	harness_let_fail(NULL);
}

/* The last one: what it does breaks the driver that is made for tests. It is what shows that the others wait for the memory. */
static void nothing_may_be_copied_meanwhile(void **state)
{
	struct harness *h = &harness;
	struct device_queue *queue = harness_queue(h);
	struct submitted s = {.command = {.kind = DEVICE_COPY,
				      .copy = {.destination = (uintptr_t)h->locked,
					      .source = harness_address(h, 2),
					      .width = 4,
					      .height = 1,
					      .depth = 1,
					      .direction = COPY_FROM_DEVICE}}};
	struct device_array *array;
	struct device_chunk *chunk;

	if (harness_ask_driver("fake_context_count") < 0)
		skip();
	assert_int_equal(
		h->ops->array_create(h->space, harness_address(h, 2), &square, &array, &chunk), 0);
	h->ops->unmap(h->space, harness_address(h, 2), chunk);
	h->ops->chunk_destroy(chunk);
	assert_int_equal(harness_run(h, queue, &s), -GDEV_E_ILLEGAL_ADDRESS);
	h->ops->array_destroy(array);
	h->ops->queue_destroy(queue);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(arrays_are_charged_in_blocks, start, stop),
		cmocka_unit_test_setup_teardown(
			a_copy_of_what_an_array_does_not_have_fails, start, stop),
		cmocka_unit_test_setup_teardown(
			objects_are_made_of_arrays_that_are_there, start, stop),
		cmocka_unit_test_setup_teardown(memory_leaves_and_the_array_stays, start, stop),
		cmocka_unit_test_setup_teardown(others_keep_their_memory, start, stop),
		cmocka_unit_test_setup_teardown(
			what_a_driver_refuses_keeps_its_memory, start, stop),
		cmocka_unit_test_setup_teardown(nothing_may_be_copied_meanwhile, start, stop),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
