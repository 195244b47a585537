/* SPDX-License-Identifier: MIT
 *
 * From a trace segment to JSON: what an honest writer wrote is there and in order, what was overwritten is counted,
 * and a segment full of lies gives JSON all the same.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmocka.h>
#include <jansson.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/fd.h"
#include "cli/trace.h"
#include "proto/trace_writer.h"

#define STREAM 40
#define PID 4711

struct fixture {
	struct trace_segment *segment;
	int fd;
	struct trace_writer client, worker;
	struct trace_set set;
	uint64_t start_ns;
	json_t *json;
};

static int setup(void **state)
{
	struct fixture *fixture = calloc(1, sizeof *fixture);

	fixture->start_ns = clock_now_ns();
	trace_set_init(&fixture->set);
	fixture->set.since_ns = 1; /* the tests' times are small */
	fixture->fd = fd_shared_memory("test", sizeof *fixture->segment);
	fixture->segment = mmap(
		NULL, sizeof *fixture->segment, PROT_READ | PROT_WRITE, MAP_SHARED, fixture->fd, 0);
	assert_true(fixture->segment != MAP_FAILED);
	fixture->segment->header = (struct trace_header){TRACE_MAGIC, TRACE_VERSION,
		sizeof(struct trace_event), TRACE_EVENTS, TRACE_NAMES_BYTES, 0, 1};
	trace_writer_init(&fixture->client, &fixture->segment->client);
	trace_writer_init(&fixture->worker, &fixture->segment->worker);
	*state = fixture;
	return 0;
}

static int teardown(void **state)
{
	struct fixture *fixture = *state;

	json_decref(fixture->json);
	trace_set_finish(&fixture->set);
	munmap(fixture->segment, sizeof *fixture->segment);
	close(fixture->fd);
	free(fixture);
	return 0;
}

static int add(struct fixture *fixture)
{
	const struct control_traced message = {.session = 7,
		.pid = PID,
		.uid = getuid(),
		.vgpu = "gdev0",
		.program = "test",
		.device = "cpu"};

	return trace_set_add(&fixture->set, &message, dup(fixture->fd));
}

/* All slices, by name or all of them, in the order of the file. */
static json_t *slices(struct fixture *fixture, const char *name)
{
	json_t *found = json_array(), *event;
	size_t i;

	json_array_foreach(json_object_get(fixture->json, "traceEvents"), i, event)
	{
		if (strcmp(json_string_value(json_object_get(event, "ph")), "X"))
			continue;
		if (!name || !strcmp(json_string_value(json_object_get(event, "name")), name))
			json_array_append(found, event);
	}
	return found;
}

static double number(const json_t *object, const char *key)
{
	return json_number_value(json_object_get(object, key));
}

static void finish(struct fixture *fixture)
{
	autofree char *text = NULL;
	size_t length;
	FILE *file = open_memstream(&text, &length);
	json_error_t error;

	trace_set_end_all(&fixture->set);
	assert_int_equal(trace_write_json(&fixture->set, file), 0);
	fclose(file);
	fixture->json = json_loads(text, 0, &error);
	if (!fixture->json)
		fail_msg("line %d: %s", error.line, error.text);
}

static void launch(struct fixture *fixture, uint32_t name, uint64_t value, uint64_t queued_ns,
	uint64_t begin_ns, uint64_t end_ns)
{
	const struct trace_event event = {
		.kind = TRACE_LAUNCH,
		.name = name,
		.timeline = STREAM,
		.value = value,
		.queued_ns = queued_ns,
		.begin_ns = begin_ns,
		.end_ns = end_ns,
		.amount = 3,
		.detail = 64,
	};

	trace_write(&fixture->worker, &event);
}

static void a_call_its_kernel_and_the_arrow_between(void **state)
{
	struct fixture *fixture = *state;
	const struct trace_event call = {
		.kind = TRACE_CALL,
		.name = trace_write_name(&fixture->client, "cuLaunchKernel"),
		.begin_ns = 1000,
		.end_ns = 3000,
		.detail = PID,
		.session = 7,
		.timeline = STREAM,
		.value = 1,
	};
	uint32_t name = trace_write_name(&fixture->worker, "_Z4axpyfPf");
	json_t *found, *event;
	unsigned arrows = 0;
	size_t i;

	assert_int_equal(add(fixture), 0);
	trace_write(&fixture->client, &call);
	launch(fixture, name, 1, 2000, 10000, 12000);
	finish(fixture);
	found = slices(fixture, "cuLaunchKernel");
	assert_int_equal(json_array_size(found), 1);
	assert_true(number(json_array_get(found, 0), "ts") == 1);
	assert_true(number(json_array_get(found, 0), "dur") == 2);
	json_decref(found);
	found = slices(fixture, "axpy(float, float*)");
	if (!json_array_size(found)) { /* a machine without libstdc++ */
		json_decref(found);
		found = slices(fixture, "_Z4axpyfPf");
	}
	assert_int_equal(json_array_size(found), 1);
	assert_true(number(json_array_get(found, 0), "ts") == 10);
	assert_true(number(json_object_get(json_array_get(found, 0), "args"), "blocks") == 3);
	json_decref(found);
	found = slices(fixture, "waits for the device");
	assert_int_equal(json_array_size(found), 1);
	assert_true(number(json_array_get(found, 0), "ts") == 2);
	assert_true(number(json_array_get(found, 0), "dur") == 8);
	json_decref(found);
	json_array_foreach(json_object_get(fixture->json, "traceEvents"), i, event)
	{
		const char *phase = json_string_value(json_object_get(event, "ph"));
		arrows += !strcmp(phase, "s") && number(event, "ts") == 1;
		arrows += !strcmp(phase, "f") && number(event, "ts") == 10;
	}
	assert_int_equal(arrows, 2);
}

static void slices_of_a_stream_do_not_overlap(void **state)
{
	struct fixture *fixture = *state;
	double end = 0;
	json_t *found, *slice;
	size_t i;

	assert_int_equal(add(fixture), 0);
	launch(fixture, 0, 3, 1000, 4000, 9000); /* as a device reports that looks now and then */
	launch(fixture, 0, 1, 1000, 2000, 5000);
	launch(fixture, 0, 2, 1000, 3000, 5000);
	finish(fixture);
	found = slices(fixture, "kernel");
	assert_int_equal(json_array_size(found), 3);
	json_array_foreach(found, i, slice)
	{
		assert_true(number(slice, "ts") >= end);
		end = number(slice, "ts") + number(slice, "dur");
	}
	assert_true(end == 9);
	json_decref(found);
}

static void the_oldest_are_dropped_and_counted(void **state)
{
	struct fixture *fixture = *state;
	json_t *found;

	assert_int_equal(add(fixture), 0);
	for (unsigned i = 1; i <= TRACE_EVENTS + 100; i++)
		launch(fixture, 0, i, 10 * i, 10 * i + 1, 10 * i + 2);
	finish(fixture);
	/* One more than was overwritten: its place might be written to just now. */
	assert_int_equal(fixture->set.dropped, 101);
	found = slices(fixture, "kernel");
	assert_int_equal(json_array_size(found), TRACE_EVENTS - 1);
	assert_true(number(json_array_get(found, 0), "ts") == 1.021);
	json_decref(found);
}

static void reading_again_takes_what_is_new(void **state)
{
	struct fixture *fixture = *state;

	assert_int_equal(add(fixture), 0);
	for (unsigned i = 1; i <= 3 * TRACE_EVENTS; i++) {
		launch(fixture, 0, i, 10 * i, 10 * i + 1, 10 * i + 2);
		if (i % 1000 == 0)
			trace_set_read(&fixture->set);
	}
	trace_set_end(&fixture->set, 7);
	assert_int_equal(fixture->set.count, 3 * TRACE_EVENTS);
	assert_int_equal(fixture->set.dropped, 0);
}

static void what_was_over_before_is_left_out(void **state)
{
	struct fixture *fixture = *state;

	launch(fixture, 0, 1, 1000, 2000, 3000);
	launch(fixture, 0, 2, 1000, 4000, 6000);
	fixture->set.since_ns = 5000;
	assert_int_equal(add(fixture), 0);
	trace_set_end_all(&fixture->set);
	assert_int_equal(fixture->set.count, 1);
	assert_int_equal(fixture->set.damaged, 0);
}

static void a_grant_that_is_not_given_back_lasts_to_the_end(void **state)
{
	struct fixture *fixture = *state;
	const struct trace_event events[] = {
		{.kind = TRACE_GRANT, .begin_ns = 1000},
		{.kind = TRACE_GRANT, .begin_ns = 1000, .end_ns = 4000},
		{.kind = TRACE_GRANT, .begin_ns = 5000},
		{.kind = TRACE_FILL,
			.timeline = STREAM,
			.value = 1,
			.begin_ns = 6000,
			.end_ns = 7000},
	};
	json_t *found;

	assert_int_equal(add(fixture), 0);
	for (unsigned i = 0; i < array_length(events); i++)
		trace_write(&fixture->worker, &events[i]);
	finish(fixture);
	found = slices(fixture, "test (4711)");
	assert_int_equal(json_array_size(found), 2);
	assert_true(number(json_array_get(found, 0), "dur") == 3);
	assert_true(number(json_array_get(found, 1), "ts") == 5);
	assert_true(number(json_array_get(found, 1), "dur") == 2);
	json_decref(found);
}

static void steps_of_memory_management_are_in_rows(void **state)
{
	struct fixture *fixture = *state;
	const struct trace_event steps[] = {
		{.kind = TRACE_SWAP,
			.detail = TRACE_SWAP_RELEASE,
			.begin_ns = 5000,
			.end_ns = 6000},
		{.kind = TRACE_SWAP,
			.detail = TRACE_SWAP_OUT,
			.value = 0x566000200000,
			.amount = 7,
			.queued_ns = 1000,
			.begin_ns = 1500,
			.end_ns = 4000},
		{.kind = TRACE_SWAP,
			.detail = TRACE_SWAP_UNMAP,
			.begin_ns = 4000,
			.end_ns = 5500}, /* as nobody should write it */
		{.kind = TRACE_SWAP,
			.detail = TRACE_SWAP_TO_FILE,
			.begin_ns = 1000,
			.end_ns = 2000},
		{.kind = TRACE_SWAP, .detail = TRACE_SWAPS, .begin_ns = 1, .end_ns = 2},
	};
	json_t *copy, *unmap, *release;

	assert_int_equal(add(fixture), 0);
	for (unsigned i = 0; i < array_length(steps); i++)
		trace_write(&fixture->worker, &steps[i]);
	finish(fixture);
	copy = slices(fixture, "copy to host swap");
	assert_int_equal(json_array_size(copy), 1);
	assert_true(number(json_array_get(copy, 0), "ts") == 1.5);
	assert_true(number(json_object_get(json_array_get(copy, 0), "args"), "bytes") == 7);
	assert_true(number(json_object_get(json_array_get(copy, 0), "args"), "queued_us") == 0.5);
	unmap = slices(fixture, "unmap");
	release = slices(fixture, "give back");
	assert_int_equal(json_array_size(release), 1);
	assert_true(number(json_array_get(release, 0), "ts") == 5.5);
	assert_true(number(json_array_get(release, 0), "tid") ==
		    number(json_array_get(unmap, 0), "tid"));
	assert_true(number(json_array_get(release, 0), "tid") !=
		    number(json_array_get(copy, 0), "tid"));
	json_decref(copy);
	json_decref(unmap);
	json_decref(release);
	copy = slices(fixture, "move to the swap file");
	assert_int_equal(json_array_size(copy), 1);
	json_decref(copy);
	copy = slices(fixture, NULL);
	assert_int_equal(json_array_size(copy), 4);
	json_decref(copy);
}

static void odd_names_are_escaped(void **state)
{
	struct fixture *fixture = *state;
	const struct trace_event call = {
		.kind = TRACE_CALL,
		.name = trace_write_name(&fixture->client, "a\"b\\\n\x01\xff\xc3"),
		.begin_ns = 1000,
		.end_ns = 3000,
	};
	json_t *found;

	assert_int_equal(add(fixture), 0);
	trace_write(&fixture->client, &call);
	finish(fixture);
	found = slices(fixture, "a\"b\\\n\x01\u00ff\u00c3");
	assert_int_equal(json_array_size(found), 1);
	json_decref(found);
}

static void lies_are_left_out(void **state)
{
	struct fixture *fixture = *state;
	const struct trace_event lies[] = {
		{.kind = 0, .begin_ns = 1, .end_ns = 2},
		{.kind = 99, .begin_ns = 1, .end_ns = 2},
		{.kind = TRACE_LAUNCH, .begin_ns = 5, .end_ns = 4},
		{.kind = TRACE_LAUNCH, .begin_ns = 1, .end_ns = UINT64_MAX},
		{.kind = TRACE_GRANT, .begin_ns = UINT64_MAX},
		{.kind = TRACE_LAUNCH, .begin_ns = 1, .end_ns = 2, .amount = UINT64_MAX},
		{.kind = TRACE_COPY, .begin_ns = 1, .end_ns = 2, .status = INT32_MIN},
	};
	const struct trace_event strange[] = {
		{.kind = TRACE_LAUNCH, .begin_ns = 1, .end_ns = 2, .name = UINT32_MAX},
		{.kind = TRACE_LAUNCH, .begin_ns = 1, .end_ns = 2, .name = TRACE_NAMES_BYTES - 1},
		{.kind = TRACE_COPY,
			.begin_ns = 1,
			.end_ns = 2,
			.detail = UINT32_MAX,
			.status = -INT32_MAX},
		{.kind = TRACE_GRANT, .begin_ns = 1, .end_ns = 2, .detail = UINT32_MAX},
		{.kind = TRACE_CALL,
			.begin_ns = 1,
			.end_ns = 2,
			.detail = UINT32_MAX,
			.value = 1,
			.session = 7,
			.timeline = UINT32_MAX},
		{.kind = TRACE_WAIT, .queued_ns = 9, .end_ns = 2},
	};

	assert_int_equal(add(fixture), 0);
	for (unsigned i = 0; i < array_length(lies); i++)
		trace_write(&fixture->worker, &lies[i]);
	for (unsigned i = 0; i < array_length(strange); i++) {
		trace_write(&fixture->worker, &strange[i]);
		trace_write(&fixture->client, &strange[i]);
	}
	fixture->segment->worker.names_bytes = fixture->segment->client.names_bytes = UINT32_MAX;
	memset(fixture->segment->worker.names, 'x', TRACE_NAMES_BYTES);
	finish(fixture);
	assert_int_equal(fixture->set.damaged, array_length(lies));
}

/* More events lost than JSON's integers can count. */
static void a_count_that_nobody_can_reach_is_a_lie(void **state)
{
	struct fixture *fixture = *state;

	assert_int_equal(add(fixture), 0);
	fixture->segment->client.head = UINT64_MAX;
	fixture->segment->worker.head = 1ull << 63;
	finish(fixture);
	assert_int_equal(fixture->set.dropped, 0);
}

static void random_bytes_give_json(void **state)
{
	struct fixture *fixture = *state;

	assert_int_equal(add(fixture), 0);
	srandom(1);
	for (unsigned round = 0; round < 8; round++) {
		uint8_t *bytes = (uint8_t *)&fixture->segment->client;
		size_t size = sizeof *fixture->segment - offsetof(struct trace_segment, client);

		for (size_t i = 0; i < size - 8; i += 1 + (size_t)random() % 64)
			bytes[i] = (uint8_t)random();
		fixture->segment->client.head = (uint64_t)random() << 32 | 1u << round;
		fixture->segment->worker.head = (uint64_t)random() % (2 * TRACE_EVENTS);
		trace_set_read(&fixture->set);
	}
	finish(fixture);
}

static void only_a_trace_segment_is_read(void **state)
{
	struct fixture *fixture = *state;
	const struct control_traced message = {.session = 7};
	int small = fd_shared_memory("small", 4096), plain = memfd_create("plain", 0);

	assert_int_equal(ftruncate(plain, sizeof *fixture->segment), 0);
	assert_true(trace_set_add(&fixture->set, &message, small) < 0);
	assert_true(trace_set_add(&fixture->set, &message, plain) < 0);
	fixture->segment->header.event_bytes = 32;
	assert_true(add(fixture) < 0);
	assert_true(list_empty(&fixture->set.sessions));
}

static size_t count_slices(struct fixture *fixture, const char *name)
{
	json_t *found = slices(fixture, name);
	size_t count = json_array_size(found);

	json_decref(found);
	return count;
}

/* A virtual GPU of any device has a part on each, and a device serves several. */
static void grants_are_shown_by_device_and_by_virtual_gpu(void **state)
{
	static const struct trace_event grant = {
		.kind = TRACE_GRANT, .begin_ns = 1000, .end_ns = 2000};
	static const struct control_traced other = {
		.session = 8, .pid = 8, .vgpu = "gdev0", .program = "other", .device = "cpu:1"};
	struct fixture *fixture = *state;
	char names[256] = "";
	json_t *event;
	size_t i;

	assert_int_equal(add(fixture), 0);
	assert_int_equal(trace_set_add(&fixture->set, &other, dup(fixture->fd)), 0);
	trace_write(&fixture->worker, &grant);
	finish(fixture);
	json_array_foreach(json_object_get(fixture->json, "traceEvents"), i, event)
	{
		const char *name =
			json_string_value(json_object_get(json_object_get(event, "args"), "name"));
		if (!strcmp(json_string_value(json_object_get(event, "name")), "process_name"))
			strcat(strcat(names, name), ";");
	}
	assert_string_equal(names,
		"virtual GPU gdev0 of cpu;device cpu;virtual GPU gdev0 of cpu:1;device cpu:1;"
		"test;other;");
	assert_int_equal(count_slices(fixture, "test (4711)"), 1);
	assert_int_equal(count_slices(fixture, "gdev0: test (4711)"), 1);
	assert_int_equal(count_slices(fixture, "gdev0: other (8)"), 1);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
	const struct CMUnitTest tests[] = {
		TEST(a_call_its_kernel_and_the_arrow_between),
		TEST(slices_of_a_stream_do_not_overlap),
		TEST(the_oldest_are_dropped_and_counted),
		TEST(reading_again_takes_what_is_new),
		TEST(what_was_over_before_is_left_out),
		TEST(a_grant_that_is_not_given_back_lasts_to_the_end),
		TEST(grants_are_shown_by_device_and_by_virtual_gpu),
		TEST(steps_of_memory_management_are_in_rows),
		TEST(odd_names_are_escaped),
		TEST(lies_are_left_out),
		TEST(a_count_that_nobody_can_reach_is_a_lie),
		TEST(random_bytes_give_json),
		TEST(only_a_trace_segment_is_read),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
