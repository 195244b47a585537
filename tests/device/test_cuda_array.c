/* SPDX-License-Identifier: MIT
 *
 * Arrays and objects of device/cuda (array.c) beyond what programs do with them (integ/driver.c): copies that are not of
 * elements, and calls at once. Over the driver library that is made for tests, or on a GPU.
 */
#include "harness.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>

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

	assert_int_equal(h->ops->array_create(h->space, harness_address(h, 2), &square, &array), 0);
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
	h->ops->array_destroy(array);
	h->ops->queue_destroy(queue);
}

#define OBJECTS 300

static atomic_bool enough;

static void *make_and_end(void *argument)
{
	struct harness *h = argument;
	struct device_array *array;

	while (!atomic_load(&enough))
		if (!h->ops->array_create(h->space, harness_address(h, 2), &square, &array))
			h->ops->array_destroy(array);
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

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(arrays_are_charged_in_blocks, start, stop),
		cmocka_unit_test_setup_teardown(
			a_copy_of_what_an_array_does_not_have_fails, start, stop),
		cmocka_unit_test_setup_teardown(
			objects_are_made_of_arrays_that_are_there, start, stop),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
