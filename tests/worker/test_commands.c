/* SPDX-License-Identifier: MIT
 *
 * Immediate records: modules, functions, variables, queries, tuning, events, and what kernels print.
 */
#include <errno.h>
#include <string.h>

#include "harness.h"
#include "worker/table.h"

enum { A = 40, B = 41 };

static int load(struct fixture *fixture, const char *image, uint64_t log, uint64_t log_bytes)
{
	struct record_module_load record = {
		.header.opcode = RECORD_MODULE_LOAD,
		.image = TEST_BASE,
		.image_bytes = strlen(image) + 1,
		.log = log,
		.log_bytes = log_bytes,
	};

	strcpy((char *)TEST_BASE, image);
	return ask_plain(fixture, &record);
}

static int look_up(struct fixture *fixture, uint16_t opcode, uint32_t module, const char *name)
{
	struct record_lookup record = {
		.header.opcode = opcode,
		.module = module,
		.name_bytes = (uint32_t)strlen(name) + 1,
	};

	return ask(fixture, &record, sizeof record, name, strlen(name) + 1);
}

static int unload(struct fixture *fixture, uint32_t module)
{
	struct record_handle record = {.header.opcode = RECORD_MODULE_UNLOAD, .handle = module};

	return ask_plain(fixture, &record);
}

static uint32_t load_good(struct fixture *fixture)
{
	assert_int_equal(load(fixture, "good", 0, 0), 0);
	return ((const struct reply_module *)reply_payload(fixture))->module;
}

static void modules_are_loaded_and_their_functions_described(void **state)
{
	struct fixture *fixture = *state;
	uint32_t module = load_good(fixture);
	const struct reply_function *function = reply_payload(fixture);

	assert_int_equal(((const struct reply_module *)reply_payload(fixture))->device_bytes, 4096);
	assert_int_equal(
		look_up(fixture, RECORD_FUNCTION_GET, module, "nothing"), -GDEV_E_SYMBOL_NOT_FOUND);
	assert_int_equal(
		look_up(fixture, RECORD_FUNCTION_GET, module + 1, "k"), -GDEV_E_INVALID_HANDLE);
	assert_int_equal(look_up(fixture, RECORD_FUNCTION_GET, module, "k"), 0);
	assert_int_not_equal(function->function, 0);
	assert_int_equal(function->param_count, 2);
	assert_int_equal(function->params[1].offset, 8);
	assert_int_equal(function->max_threads, 1024);
	assert_int_equal(unload(fixture, module), 0);
	assert_int_equal(unload(fixture, module), -GDEV_E_INVALID_HANDLE);
	assert_int_equal(
		look_up(fixture, RECORD_FUNCTION_GET, module, "k"), -GDEV_E_INVALID_HANDLE);
	assert_int_equal(double_modules, 0);
}

static void what_the_compiler_says_goes_to_the_log(void **state)
{
	struct fixture *fixture = *state;
	char *log = (char *)TEST_BASE + 4096;

	assert_int_equal(load(fixture, "bad", TEST_BASE + 4096, 100), -GDEV_E_INVALID_PTX);
	assert_string_equal(log, "line 1: bad");
	memset(log, 'x', 100);
	assert_int_equal(load(fixture, "bad", TEST_BASE + 4096, 5), -GDEV_E_INVALID_PTX);
	assert_string_equal(log, "line"); /* cut */
	assert_int_equal(log[5], 'x');
}

static void images_and_logs_lie_in_host_memory(void **state)
{
	static const struct {
		uint64_t image, image_bytes, log, log_bytes;
	} cases[] = {
		{TEST_DEVICE, 16, 0, 0},
		{TEST_DEVICE - 8, 16, 0, 0},
		{0, 16, 0, 0},
		{TEST_BASE, UINT64_MAX, 0, 0},
		{TEST_BASE, 16, TEST_DEVICE, 16},
		{TEST_BASE, 16, TEST_BASE, UINT64_MAX},
		{TEST_BASE, 16, UINT64_MAX, 16},
	};
	struct fixture *fixture = *state;

	assert_int_equal(alloc(fixture, TEST_DEVICE, 2 * MIB), 0);
	for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
		struct record_module_load record = {{.opcode = RECORD_MODULE_LOAD}, cases[i].image,
			cases[i].image_bytes, cases[i].log, cases[i].log_bytes, 0};
		assert_int_equal(ask_plain(fixture, &record), -EINVAL);
	}
}

static void variables_are_memory_for_copies_until_their_module_goes(void **state)
{
	struct fixture *fixture = *state;
	uint32_t module = load_good(fixture);
	struct reply_global variable;

	make_stream(fixture, A);
	assert_int_equal(
		look_up(fixture, RECORD_GLOBAL_GET, module, "none"), -GDEV_E_SYMBOL_NOT_FOUND);
	assert_int_equal(look_up(fixture, RECORD_GLOBAL_GET, module, "v"), 0);
	memcpy(&variable, reply_payload(fixture), sizeof variable);
	assert_int_equal(variable.bytes, 64);
	assert_int_equal(look_up(fixture, RECORD_GLOBAL_GET, module, "v"), 0); /* again */
	post_write(fixture, A, variable.address + 60, "abcd", 4, 0);
	fixture_run(fixture);
	assert_memory_equal((char *)variable.address + 60, "abcd", 4);
	assert_int_equal(unload(fixture, module), 0);
	post_write(fixture, A, variable.address, "abcd", 4, 0);
	fixture_run(fixture);
	assert_int_equal(session_error(fixture), -GDEV_E_ILLEGAL_ADDRESS);
}

static int place(struct fixture *fixture, uint32_t module, uint64_t address)
{
	struct record_module_place record = {
		.header.opcode = RECORD_MODULE_PLACE,
		.module = module,
		.address = address,
	};

	return ask_plain(fixture, &record);
}

static void managed_variables_are_placed_in_host_memory_only(void **state)
{
	struct fixture *fixture = *state;
	uint32_t module;

	assert_int_equal(alloc(fixture, TEST_DEVICE, 2 * MIB), 0);
	module = load_good(fixture);
	assert_int_equal(((const struct reply_module *)reply_payload(fixture))->variable_bytes, 64);
	assert_int_equal(place(fixture, module, TEST_DEVICE), -EINVAL);
	assert_int_equal(place(fixture, module, TEST_BASE - 4096), -EINVAL);
	assert_int_equal(place(fixture, module + 1, TEST_BASE + 4096), -GDEV_E_INVALID_HANDLE);
	assert_int_equal(place(fixture, module, TEST_BASE + 4096), 0);
	assert_memory_equal((char *)TEST_BASE + 4096 + 60, "vvvv", 4);
	assert_int_equal(unload(fixture, module), 0);
}

static void an_unloaded_module_lives_as_long_as_its_launches(void **state)
{
	struct fixture *fixture = *state;
	uint32_t module = load_good(fixture), function;

	make_stream(fixture, A);
	assert_int_equal(look_up(fixture, RECORD_FUNCTION_GET, module, "k"), 0);
	function = ((const struct reply_function *)reply_payload(fixture))->function;
	double_hold(true);
	for (int i = 0; i < 4; i++)
		post_launch(fixture, A, function, 0);
	fixture_run(fixture);
	assert_int_equal(unload(fixture, module), 0);
	assert_int_equal(double_modules, 1);
	post_launch(fixture, A, function, 0); /* after the unload: no such function */
	for (int i = 0; i < 4; i++) {
		assert_int_equal(double_modules, 1);
		double_release(1, 0);
		fixture_run(fixture);
	}
	assert_int_equal(double_modules, 0);
	assert_int_equal(completed(fixture, A), 5);
	assert_int_equal(stream_error(fixture, A), -GDEV_E_INVALID_HANDLE);
}

static void queries_are_answered(void **state)
{
	struct fixture *fixture = *state;
	uint32_t function = make_function(fixture);
	struct record_query query = {{.opcode = RECORD_QUERY}, .type = QUERY_MEMORY};
	const struct reply_memory *memory = reply_payload(fixture);
	const struct reply_usage *usage = reply_payload(fixture);

	make_stream(fixture, A);
	assert_int_equal(alloc(fixture, TEST_DEVICE, 2 * MIB), 0);
	post_launch(fixture, A, function, 0);
	post_copy(fixture, A, TEST_DEVICE, TEST_BASE, 100);
	post_copy(fixture, A, TEST_BASE, TEST_DEVICE, 50);
	assert_int_equal(ask_plain(fixture, &query), 0);
	assert_int_equal(memory->total_bytes, TEST_LIMIT);
	assert_int_equal(memory->free_bytes, TEST_LIMIT - 2 * MIB - 4096);
	query = (struct record_query){{.opcode = RECORD_QUERY}, .type = QUERY_USAGE};
	assert_int_equal(ask_plain(fixture, &query), 0);
	assert_int_equal(usage->launches, 1);
	assert_int_equal(usage->compute_ns, 100);
	assert_int_equal(usage->to_device_bytes, 100);
	assert_int_equal(usage->from_device_bytes, 50);
	query = (struct record_query){{.opcode = RECORD_QUERY}, .type = QUERY_PROPERTIES};
	assert_int_equal(ask_plain(fixture, &query), 0);
	assert_int_equal(((const int32_t *)reply_payload(fixture))[PROPERTY_WARP_SIZE], 32);
	query = (struct record_query){{.opcode = RECORD_QUERY}, .type = QUERY_OCCUPANCY,
		.argument = function | 32ull << 32};
	assert_int_equal(ask_plain(fixture, &query), 0);
	query = (struct record_query){
		{.opcode = RECORD_QUERY}, .type = QUERY_OCCUPANCY, .argument = function};
	assert_int_equal(ask_plain(fixture, &query), -EINVAL);
	query = (struct record_query){{.opcode = RECORD_QUERY}, .type = QUERY_OCCUPANCY};
	assert_int_equal(ask_plain(fixture, &query), -GDEV_E_INVALID_HANDLE);
	query = (struct record_query){{.opcode = RECORD_QUERY}, .type = 63};
	assert_int_equal(ask_plain(fixture, &query), -ENOSYS);
}

static void tuning_stays_within_reason(void **state)
{
	struct fixture *fixture = *state;
	struct record_query tune = {
		{.opcode = RECORD_TUNE}, .type = TUNE_SPIN_NS, .argument = UINT64_MAX};

	assert_int_equal(ask_plain(fixture, &tune), 0);
	assert_true(fixture->core->service.spin_ns <= 10 * 1000 * 1000);
	tune = (struct record_query){
		{.opcode = RECORD_TUNE}, .type = TUNE_WINDOW_NS, .argument = 5};
	assert_int_equal(ask_plain(fixture, &tune), 0);
	assert_int_equal(fixture->core->window_ns, 5);
	tune = (struct record_query){{.opcode = RECORD_TUNE}, .type = 1};
	assert_int_equal(ask_plain(fixture, &tune), -ENOSYS);
}

static void devices_that_cannot_check_say_so(void **state)
{
	for (uint32_t what = RECORD_CHECK_BEGIN; what <= RECORD_CHECK_REPORT; what++) {
		struct record_check check = {
			.header.opcode = RECORD_CHECK, .operation = what, .argument = 1};

		assert_int_equal(ask_plain((struct fixture *)*state, &check),
			what == RECORD_CHECK_BEGIN ? -ENOTSUP : -EINVAL);
	}
}

static void streams_are_made_on_stream_timelines(void **state)
{
	static const struct {
		uint32_t stream;
		int status;
		uint32_t multiprocessors;
	} cases[] = {
		{0, -EINVAL},
		{SESSION_REPLIES - 1, -EINVAL},
		{SESSION_TIMELINES, -EINVAL},
		{UINT32_MAX, -EINVAL},
		{SESSION_REPLIES, -ENOTSUP, 1}, /* the device has no parts */
		{SESSION_REPLIES, 0},
		{SESSION_REPLIES, -EEXIST},
		{SESSION_REPLIES, -EEXIST, 1},
		{SESSION_TIMELINES - 1, 0},
	};
	struct fixture *fixture = *state;

	for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
		struct record_stream record = {{.opcode = RECORD_STREAM_CREATE}, cases[i].stream, 0,
			0, cases[i].multiprocessors};
		assert_int_equal(ask_plain(fixture, &record), cases[i].status);
	}
	struct record_stream record = {{.opcode = RECORD_STREAM_DESTROY}, UINT32_MAX, 0};
	assert_int_equal(ask_plain(fixture, &record), -GDEV_E_INVALID_HANDLE);
}

static void a_session_waits_for_its_own_shared_events_too(void **state)
{
	struct fixture *fixture = *state;
	uint32_t function = make_function(fixture);
	struct record_event share = {{.opcode = RECORD_EVENT_SHARE}, .stream = A};
	struct record_event wait = {{.opcode = RECORD_EVENT_WAIT, .timeline = B}};

	make_stream(fixture, A);
	make_stream(fixture, B);
	double_hold(true);
	share.stream_value = post_launch(fixture, A, function, 0);
	assert_int_equal(ask_plain(fixture, &share), 0);
	wait.event = ((const struct reply_event *)reply_payload(fixture))->event;
	assert_int_equal(wait.event >> 32, 7); /* the session */
	post(fixture, &wait);
	fixture_run(fixture);
	assert_int_equal(completed(fixture, B), 0);
	double_release(1, 0);
	fixture_run(fixture);
	assert_int_equal(completed(fixture, B), 1);
	assert_int_equal(stream_error(fixture, B), 0);
	/* What nothing was posted for cannot be shared: it might never come. */
	share = (struct record_event){
		{.opcode = RECORD_EVENT_SHARE}, .stream = A, .stream_value = 100};
	assert_int_equal(ask_plain(fixture, &share), -EINVAL);
}

static void what_does_not_fit_the_output_is_dropped(void **state)
{
	struct fixture *fixture = *state;
	struct session_header *header = &fixture->segment->header;
	static char text[SESSION_OUTPUT_BYTES];

	output_print(fixture->core, "hello", 5);
	assert_int_equal(header->output_tail, 5);
	assert_memory_equal(fixture->segment->output, "hello", 5);
	memset(text, 'x', sizeof text);
	output_print(fixture->core, text, sizeof text);
	assert_int_equal(header->output_tail, 5);
	header->output_head = 5;
	output_print(fixture->core, text, sizeof text);
	assert_int_equal(header->output_tail, 5 + sizeof text);
	assert_memory_equal(fixture->segment->output, "xxxxx", 5); /* it went round */
	header->output_head = UINT64_MAX;                          /* a lie */
	output_print(fixture->core, "y", 1);
	header->output_head = 1ull << 40;
	output_print(fixture->core, "y", 1);
	assert_int_equal(header->output_tail, 5 + sizeof text);
}

static void handles_of_what_is_gone_name_nothing(void **state)
{
	struct table table = {0};
	uint32_t first, handles[100];
	int object;

	assert_int_equal(table_add(&table, &object, &first), 0);
	assert_ptr_equal(table_find(&table, first), &object);
	table_remove(&table, first);
	assert_null(table_find(&table, first));
	for (int i = 0; i < 100; i++) {
		assert_int_equal(table_add(&table, &object, &handles[i]), 0);
		assert_int_not_equal(handles[i], first);
		assert_int_not_equal(handles[i], 0);
	}
	assert_null(table_find(&table, 0));
	assert_null(table_find(&table, UINT32_MAX));
	table_finish(&table);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup_alone, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(modules_are_loaded_and_their_functions_described),
		TEST(what_the_compiler_says_goes_to_the_log),
		TEST(images_and_logs_lie_in_host_memory),
		TEST(variables_are_memory_for_copies_until_their_module_goes),
		TEST(managed_variables_are_placed_in_host_memory_only),
		TEST(an_unloaded_module_lives_as_long_as_its_launches),
		TEST(queries_are_answered),
		TEST(tuning_stays_within_reason),
		TEST(devices_that_cannot_check_say_so),
		TEST(streams_are_made_on_stream_timelines),
		TEST(a_session_waits_for_its_own_shared_events_too),
		TEST(what_does_not_fit_the_output_is_dropped),
		cmocka_unit_test(handles_of_what_is_gone_name_nothing),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
