/* SPDX-License-Identifier: MIT
 *
 * decode_record: what is a well-formed record, and what is not, as a table.
 */
#include <errno.h>
#include <string.h>

#include "base/cleanup.h"
#include "harness.h"
#include "worker/decode.h"

struct launch_bytes {
	struct record_launch launch;
	uint64_t params[2];
	struct record_attribute attribute;
	uint32_t words[4];
};

static struct launch_bytes good_launch(void)
{
	return (struct launch_bytes){
		.launch =
			{
				.header = {.opcode = RECORD_LAUNCH},
				.grid = {1, 2, 3},
				.block = {4, 5, 6},
				.param_bytes = 16,
			},
		.attribute = {RECORD_ATTRIBUTE_CLUSTER, 1, 16},
		.words = {2, 1, 1, 0},
	};
}

static int decode(const void *record, size_t length)
{
	struct request request;

	return decode_record(record, length, &request);
}

static void a_launch_gives_its_parameters_and_attributes(void **state)
{
	struct launch_bytes bytes = good_launch();
	struct request request;

	assert_int_equal(decode_record(&bytes, sizeof bytes, &request), 0);
	assert_ptr_equal(request.tail, bytes.params);
	assert_int_equal(request.cluster[0], 2);
	assert_false(request.cooperative);
	bytes.attribute = (struct record_attribute){RECORD_ATTRIBUTE_COOPERATIVE, 1, 4};
	assert_int_equal(decode_record(&bytes, sizeof bytes - 8, &request), 0);
	assert_true(request.cooperative);
	bytes.launch.header.flags = RECORD_MORE | RECORD_FENCE;
	assert_int_equal(decode_record(&bytes, sizeof bytes - 8, &request), 0);
}

static void unknown_attributes_fail_only_when_required(void **state)
{
	struct launch_bytes bytes = good_launch();

	bytes.attribute.type = 999;
	assert_int_equal(decode(&bytes, sizeof bytes), -ENOTSUP);
	bytes.attribute.required = 0;
	assert_int_equal(decode(&bytes, sizeof bytes), 0);
	bytes.attribute.required = 2;
	assert_int_equal(decode(&bytes, sizeof bytes), -EINVAL);
}

/* Each line changes one field of a good launch. */
static void malformed_launches_are_refused(void **state)
{
	static const struct {
		size_t offset;
		uint32_t value;
		int error;
	} cases[] = {
		{offsetof(struct record_header, version), 1, -ENOSYS},
		{offsetof(struct record_header, opcode), 127, -ENOSYS},
		{offsetof(struct record_header, opcode), 65535, -ENOSYS},
		{offsetof(struct record_header, reserved), 1, -EINVAL},
		{offsetof(struct record_header, flags), 4, -EINVAL},
		{offsetof(struct record_launch, reserved), 1, -EINVAL},
		{offsetof(struct record_launch, param_bytes), 1000, -EINVAL},
		{offsetof(struct record_launch, param_bytes), UINT32_MAX, -EINVAL},
		{offsetof(struct record_launch, param_bytes), UINT32_MAX - 6, -EINVAL},
		{offsetof(struct record_launch, param_bytes), RECORD_PARAM_BYTES_MAX + 1, -EINVAL},
		{offsetof(struct record_launch, grid), 0, -GDEV_E_INVALID_LAUNCH},
		{offsetof(struct record_launch, block) + 8, 0, -GDEV_E_INVALID_LAUNCH},
		{offsetof(struct launch_bytes, attribute) + 4, 17, -EINVAL},
		{offsetof(struct launch_bytes, attribute) + 4, UINT32_MAX, -EINVAL},
		{offsetof(struct launch_bytes, attribute) + 4, 8, -EINVAL},
		{offsetof(struct launch_bytes, words) + 12, 1, -EINVAL},
	};

	for (size_t i = 0; i < array_length(cases); i++) {
		struct launch_bytes bytes = good_launch();
		size_t width = cases[i].offset < 4 ? 1 : 4;
		if (cases[i].offset == 0)
			width = 2;
		memcpy((char *)&bytes + cases[i].offset, &cases[i].value, width);
		assert_int_equal(decode(&bytes, sizeof bytes), cases[i].error);
	}
}

static void fixed_records_have_exactly_their_length(void **state)
{
	static const struct {
		uint16_t opcode;
		size_t length;
	} cases[] = {
		{RECORD_MEMORY_ALLOC, sizeof(struct record_memory)},
		{RECORD_MEMORY_FREE, sizeof(struct record_memory)},
		{RECORD_COPY, sizeof(struct record_copy)},
		{RECORD_MODULE_UNLOAD, sizeof(struct record_handle)},
		{RECORD_STREAM_CREATE, sizeof(struct record_stream)},
		{RECORD_STREAM_DESTROY, sizeof(struct record_stream)},
		{RECORD_WAIT, sizeof(struct record_wait)},
		{RECORD_STAMP, sizeof(struct record_stamp)},
		{RECORD_EVENT_SHARE, sizeof(struct record_event)},
		{RECORD_EVENT_WAIT, sizeof(struct record_event)},
		{RECORD_SHM_GET, sizeof(struct record_shm)},
		{RECORD_SHM_ATTACH, sizeof(struct record_shm)},
		{RECORD_SHM_DETACH, sizeof(struct record_shm)},
		{RECORD_SHM_CONTROL, sizeof(struct record_shm)},
		{RECORD_SHARED_CREATE, sizeof(struct record_shared)},
		{RECORD_SHARED_MAP, sizeof(struct record_shared)},
		{RECORD_QUERY, sizeof(struct record_query)},
		{RECORD_TUNE, sizeof(struct record_query)},
	};

	for (size_t i = 0; i < array_length(cases); i++) {
		uint64_t words[32] = {0};
		struct record_header *header = (void *)words;
		header->opcode = cases[i].opcode;
		assert_int_equal(decode(words, cases[i].length), 0);
		assert_int_equal(decode(words, cases[i].length - 8), -EINVAL);
		assert_int_equal(decode(words, cases[i].length + 8), -EINVAL);
		header->flags = RECORD_FENCE;
		assert_int_equal(decode(words, cases[i].length),
			record_type_find(cases[i].opcode)->class == RECORD_CLASS_STREAM ? 0
											: -EINVAL);
		header->flags = RECORD_MORE;
		assert_int_equal(decode(words, cases[i].length), -EINVAL);
	}
}

static void checks_have_a_known_operation(void **state)
{
	struct record_check check = {.header.opcode = RECORD_CHECK};

	for (check.operation = 0; check.operation < 7; check.operation++)
		assert_int_equal(decode(&check, sizeof check),
			check.operation >= RECORD_CHECK_BEGIN &&
					check.operation <= RECORD_CHECK_REPORT
				? 0
				: -EINVAL);
	check.operation = RECORD_CHECK_ADD;
	check.argument = 2;
	assert_int_equal(decode(&check, sizeof check), -EINVAL);
}

static void a_map_that_moves_comes_with_its_record(void **state)
{
	struct {
		struct record_tensor_map record;
		uint8_t map[TENSOR_MAP_BYTES + 8];
	} bytes = {.record = {.header.opcode = RECORD_TENSOR_MAP, .rank = 1}};
	const size_t fixed = sizeof bytes.record, moved = fixed + TENSOR_MAP_BYTES;

	assert_int_equal(decode(&bytes, fixed), 0);
	assert_int_equal(decode(&bytes, moved), -EINVAL);
	bytes.record.mode = TENSOR_MAP_MOVED;
	assert_int_equal(decode(&bytes, moved), -EINVAL); /* it has no rank of its own */
	bytes.record.rank = 0;
	assert_int_equal(decode(&bytes, moved), 0);
	assert_int_equal(decode(&bytes, fixed), -EINVAL);
	assert_int_equal(decode(&bytes, moved + 8), -EINVAL);
	bytes.record.mode = TENSOR_MAP_TILED;
	assert_int_equal(decode(&bytes, fixed), -EINVAL);
	bytes.record.mode = TENSOR_MAP_MOVED + 1;
	assert_int_equal(decode(&bytes, moved), -EINVAL);
}

static void nodes_of_graphs_have_a_record_in_them(void **state)
{
	struct {
		struct record_graph_node record;
		uint32_t dependencies[2];
		struct record_fill fill;
	} node = {{.header.opcode = RECORD_GRAPH_NODE, .dependencies = 1},
		.fill = {.header = {.opcode = RECORD_FILL, .length = sizeof node.fill},
			.width = 1,
			.height = 1,
			.element_bytes = 4}};
	struct record_graph graph = {.header.opcode = RECORD_GRAPH_BEGIN, .from_device = 2};
	struct record_graph_launch launch = {.header.opcode = RECORD_GRAPH_LAUNCH, .upload = 2};

	assert_int_equal(decode(&node, sizeof node), 0);
	node.record.dependencies = 2;
	assert_int_equal(decode(&node, sizeof node), 0);
	node.record.dependencies = 3; /* which the record would be in */
	assert_int_equal(decode(&node, sizeof node), -EINVAL);
	node.record.dependencies = UINT32_MAX;
	assert_int_equal(decode(&node, sizeof node), -EINVAL);
	node.record.dependencies = 1;
	assert_int_equal(decode(&node, sizeof node - sizeof node.fill), -EINVAL);
	node.fill.header.length += 8;
	assert_int_equal(decode(&node, sizeof node), -EINVAL);
	node.fill.header.length -= 8;
	node.fill.header.flags = RECORD_FENCE;
	assert_int_equal(decode(&node, sizeof node), -EINVAL);
	node.fill.header.flags = 0;
	node.fill.element_bytes = 3;
	assert_int_equal(decode(&node, sizeof node), -EINVAL);
	node.fill.element_bytes = 4;
	for (unsigned opcode = 0; opcode < RECORD_OPCODE_END; opcode++) {
		node.fill.header.opcode = (uint16_t)opcode;
		if (opcode != RECORD_FILL)
			assert_int_not_equal(decode(&node, sizeof node), 0);
	}
	assert_int_equal(decode(&graph, sizeof graph), -EINVAL);
	assert_int_equal(decode(&launch, sizeof launch), -EINVAL);
}

static void spans_of_copies_do_not_wrap(void **state)
{
	static const struct {
		uint64_t width, height, depth, pitch, slice, span;
		int error;
	} cases[] = {
		{10, 1, 1, 0, 0, 10, 0},
		{10, 3, 1, 16, 0, 42, 0},
		{10, 3, 2, 16, 100, 142, 0},
		{0, 3, 2, 16, 100, 0, 0},
		{10, 0, 2, 16, 100, 0, 0},
		{10, 2, 1, 9, 0, 0, -EINVAL},
		{UINT64_MAX, 1, 1, 0, 0, UINT64_MAX, 0},
		{UINT64_MAX, 2, 1, UINT64_MAX, 0, 0, -GDEV_E_ILLEGAL_ADDRESS},
		{8, UINT64_MAX, 1, 8, 0, 0, -GDEV_E_ILLEGAL_ADDRESS},
		{8, 2, UINT64_MAX, 8, 16, 0, -GDEV_E_ILLEGAL_ADDRESS},
		{8, 2, UINT64_MAX, 8, 1, 0, -EINVAL},
		{10, 3, 2, 16, 42, 84, 0},
		{10, 3, 2, 16, 41, 0, -EINVAL},
		{8, 1, 1ull << 63, 8, 0, 0, -EINVAL},
	};

	for (size_t i = 0; i < array_length(cases); i++) {
		struct record_copy copy = {
			.header.opcode = RECORD_COPY,
			.width = cases[i].width,
			.height = cases[i].height,
			.depth = cases[i].depth,
			.destination_pitch = cases[i].pitch,
			.source_pitch = cases[i].pitch,
			.destination_slice = cases[i].slice,
			.source_slice = cases[i].slice,
		};
		struct request request;
		assert_int_equal(decode_record(&copy, sizeof copy, &request), cases[i].error);
		if (!cases[i].error)
			assert_int_equal(request.destination_span, cases[i].span);
	}
}

static void fills_have_elements_of_one_two_or_four_bytes(void **state)
{
	for (uint32_t element = 0; element < 9; element++) {
		struct record_fill fill = {
			.header.opcode = RECORD_FILL,
			.width = 8,
			.height = 1,
			.element_bytes = element,
		};
		bool good = element == 1 || element == 2 || element == 4;
		assert_int_equal(decode(&fill, sizeof fill), good ? 0 : -EINVAL);
		fill.destination = 1;
		assert_int_equal(decode(&fill, sizeof fill), element == 1 ? 0 : -EINVAL);
		fill.destination = 0;
		fill.width = UINT64_MAX;
		if (good && element > 1)
			assert_int_equal(decode(&fill, sizeof fill), -GDEV_E_ILLEGAL_ADDRESS);
	}
}

static void writes_carry_the_bytes_they_claim(void **state)
{
	struct {
		struct record_write write;
		uint8_t bytes[24];
	} record = {.write = {.header.opcode = RECORD_WRITE, .bytes = 20}};

	assert_int_equal(decode(&record, sizeof record), 0);
	record.write.bytes = 25;
	assert_int_equal(decode(&record, sizeof record), -EINVAL);
	record.write.bytes = 16;
	assert_int_equal(decode(&record, sizeof record), -EINVAL);
	record.write.bytes = UINT64_MAX - 30;
	assert_int_equal(decode(&record, sizeof record), -EINVAL);
	record.write.bytes = 0;
	assert_int_equal(decode(&record, sizeof record.write), 0);
}

static void names_end_where_they_say(void **state)
{
	struct {
		struct record_lookup lookup;
		char name[16];
	} record = {.lookup = {.header.opcode = RECORD_FUNCTION_GET, .name_bytes = 4}};

	memcpy(record.name, "abc", 4);
	assert_int_equal(decode(&record, sizeof record.lookup + 8), 0);
	record.name[3] = 'd'; /* not terminated */
	assert_int_equal(decode(&record, sizeof record.lookup + 8), -EINVAL);
	record.name[1] = 0; /* terminated too early */
	record.name[3] = 0;
	assert_int_equal(decode(&record, sizeof record.lookup + 8), -EINVAL);
	memcpy(record.name, "abc", 4);
	record.lookup.name_bytes = 0;
	assert_int_equal(decode(&record, sizeof record.lookup + 8), -EINVAL);
	record.lookup.name_bytes = 17; /* not in the record */
	assert_int_equal(decode(&record, sizeof record), -EINVAL);
	record.lookup.name_bytes = UINT32_MAX;
	assert_int_equal(decode(&record, sizeof record), -EINVAL);
}

static void module_images_are_not_empty(void **state)
{
	struct record_module_load load = {.header.opcode = RECORD_MODULE_LOAD};

	load.image = 1;
	assert_int_equal(decode(&load, sizeof load), -EINVAL);
	load.image_bytes = 1;
	assert_int_equal(decode(&load, sizeof load), 0);
	load.image = 0; /* nowhere */
	assert_int_equal(decode(&load, sizeof load), -EINVAL);
	load.image = 1;
	load.log = 1;
	assert_int_equal(decode(&load, sizeof load), -EINVAL);
	load.log_bytes = 1;
	assert_int_equal(decode(&load, sizeof load), 0);
	load.number = 1; /* in the arena, and sent */
	assert_int_equal(decode(&load, sizeof load), -EINVAL);
	load.image = 0;
	assert_int_equal(decode(&load, sizeof load), 0);
}

static void variables_are_placed_on_pages(void **state)
{
	struct record_module_place place = {.header.opcode = RECORD_MODULE_PLACE};

	place.address = 8192;
	assert_int_equal(decode(&place, sizeof place), 0);
	place.address = 8200;
	assert_int_equal(decode(&place, sizeof place), -EINVAL);
	place.address = 8192;
	place.reserved = 1;
	assert_int_equal(decode(&place, sizeof place), -EINVAL);
}

static void shapes_of_arrays_are_sound(void **state)
{
	const struct record_array good = {
		.header.opcode = RECORD_ARRAY_CREATE,
		.address = TEST_DEVICE,
		.bytes = 2 * MIB,
		.shape = {.width = 256, .height = 256, .format = TEXTURE_F32, .channels = 4},
	};
	static const struct array_shape bad[] = {
		{.height = 256, .format = TEXTURE_F32, .channels = 4},
		{.width = 256, .height = 256, .format = TEXTURE_F32, .channels = 3},
		{.width = 256, .height = 256, .format = TEXTURE_FORMATS, .channels = 4},
		{.width = 256, .height = 256, .format = TEXTURE_F32, .channels = 4, .flags = 16},
		{.width = 256, .height = 256, .format = TEXTURE_F32, .channels = 4, .levels = 33},
		{.width = 256, .height = 256, .format = TEXTURE_F32, .channels = 4, .reserved = 1},
		{.width = 256, .height = 1u << 21, .format = TEXTURE_U8, .channels = 1},
		{.width = 2, .height = 2, .depth = 65536, .format = TEXTURE_U8, .channels = 1},
		{.width = 257,
			.height = 1024,
			.format = TEXTURE_F32,
			.channels = 4}, /* too few bytes */
	};
	struct record_array array = good;

	assert_int_equal(decode(&array, sizeof array), 0);
	for (size_t i = 0; i < array_length(bad); i++) {
		array.shape = bad[i];
		assert_int_equal(decode(&array, sizeof array), -EINVAL);
	}
	array = good;
	array.bytes = 4 * MIB; /* too many */
	assert_int_equal(decode(&array, sizeof array), -EINVAL);
	array = good;
	array.address += 4096;
	assert_int_equal(decode(&array, sizeof array), -EINVAL);
	/* The largest does not wrap. */
	array = good;
	array.shape = (struct array_shape){1u << 20, 1u << 20, 65535, 21, TEXTURE_F32, 4, 0, 0};
	array.bytes = 0;
	assert_int_equal(decode(&array, sizeof array), -EINVAL);
}

static void textures_are_of_something(void **state)
{
	struct record_texture texture = {.header.opcode = RECORD_TEXTURE_CREATE};
	struct record_texture_destroy destroy = {.header.opcode = RECORD_TEXTURE_DESTROY};

	assert_int_equal(decode(&texture, sizeof texture), 0);
	texture.words.surface = 2;
	assert_int_equal(decode(&texture, sizeof texture), -EINVAL);
	texture.words = (struct texture_words){.source = TEXTURE_SOURCES};
	assert_int_equal(decode(&texture, sizeof texture), -EINVAL);
	texture.words = (struct texture_words){.format = TEXTURE_FORMATS};
	assert_int_equal(decode(&texture, sizeof texture), -EINVAL);
	texture.words = (struct texture_words){.has_view = 2};
	assert_int_equal(decode(&texture, sizeof texture), -EINVAL);
	assert_int_equal(decode(&destroy, sizeof destroy), 0);
	destroy.surface = 2;
	assert_int_equal(decode(&destroy, sizeof destroy), -EINVAL);
}

static void references_have_names(void **state)
{
	struct {
		struct record_reference record;
		char name[8];
	} reference = {{.header.opcode = RECORD_REFERENCE_SET, .name_bytes = 6}, "image"};
	const struct record_reference good = reference.record;

	assert_int_equal(decode(&reference, sizeof reference), 0);
	reference.record.bind = 2;
	assert_int_equal(decode(&reference, sizeof reference), -EINVAL);
	reference.record = good;
	reference.record.words.has_view = 1; /* references have none */
	assert_int_equal(decode(&reference, sizeof reference), -EINVAL);
	reference.record = good;
	reference.record.words.source = TEXTURE_SOURCES;
	assert_int_equal(decode(&reference, sizeof reference), -EINVAL);
	reference.record = good;
	reference.record.name_bytes = 7;
	assert_int_equal(decode(&reference, sizeof reference), -EINVAL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_launch_gives_its_parameters_and_attributes),
		cmocka_unit_test(unknown_attributes_fail_only_when_required),
		cmocka_unit_test(malformed_launches_are_refused),
		cmocka_unit_test(fixed_records_have_exactly_their_length),
		cmocka_unit_test(checks_have_a_known_operation),
		cmocka_unit_test(a_map_that_moves_comes_with_its_record),
		cmocka_unit_test(nodes_of_graphs_have_a_record_in_them),
		cmocka_unit_test(spans_of_copies_do_not_wrap),
		cmocka_unit_test(fills_have_elements_of_one_two_or_four_bytes),
		cmocka_unit_test(writes_carry_the_bytes_they_claim),
		cmocka_unit_test(names_end_where_they_say),
		cmocka_unit_test(module_images_are_not_empty),
		cmocka_unit_test(variables_are_placed_on_pages),
		cmocka_unit_test(shapes_of_arrays_are_sound),
		cmocka_unit_test(textures_are_of_something),
		cmocka_unit_test(references_have_names),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
