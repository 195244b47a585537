/* SPDX-License-Identifier: MIT
 *
 * Graphs that the device has as a whole: what a client can say of one and what not, that one launch is one command, and
 * that neither graph nor modules go while a command may reach them.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "double.h"
#include "harness.h"

enum { A = 40 };

struct device_graph {
	uint32_t count; /* nodes */
};

static struct device_ops ops;
static unsigned graphs; /* that the device has */
static int refuses;

static int graph_set(struct device_space *space, struct device_graph **graph, bool from_device,
	const struct device_node *nodes, uint32_t count, uint64_t *handle)
{
	if (refuses)
		return refuses;
	if (!*graph) {
		*graph = calloc(1, sizeof **graph);
		graphs++;
	}
	(*graph)->count = count;
	*handle += from_device;
	return 0;
}

static void graph_destroy(struct device_graph *graph)
{
	graphs--;
	free(graph);
}

static int setup(void **state)
{
	struct fixture *fixture = calloc(1, sizeof *fixture);

	graphs = 0;
	refuses = 0;
	ops = *double_ops();
	ops.graph_set = graph_set;
	ops.graph_destroy = graph_destroy;
	fixture_start_ops(fixture, &ops, false, 0);
	*state = fixture;
	return 0;
}

static int begin(struct fixture *fixture, uint32_t *graph)
{
	struct record_graph record = {{.opcode = RECORD_GRAPH_BEGIN}, *graph, 1, 100};
	int error = ask_plain(fixture, &record);

	if (!error)
		*graph = ((const struct reply_graph *)reply_payload(fixture))->graph;
	return error;
}

static int end(struct fixture *fixture, uint32_t graph)
{
	struct record_graph record = {{.opcode = RECORD_GRAPH_END}, graph};

	return ask_plain(fixture, &record);
}

static int destroy(struct fixture *fixture, uint32_t graph)
{
	struct record_handle record = {{.opcode = RECORD_GRAPH_DESTROY}, graph};

	return ask_plain(fixture, &record);
}

/* After the node of that number, or none. */
static int add(struct fixture *fixture, uint32_t graph, int after, const void *does, size_t bytes)
{
	struct record_graph_node record = {{.opcode = RECORD_GRAPH_NODE}, graph, after >= 0};
	uint8_t tail[512] = {0};
	size_t room = after >= 0 ? 8 : 0;

	memcpy(tail, &after, sizeof after);
	memcpy(tail + room, does, bytes);
	return ask(fixture, &record, sizeof record, tail, room + bytes);
}

static int add_fill(struct fixture *fixture, uint32_t graph, int after, uint64_t at, uint64_t bytes)
{
	struct record_fill fill = {
		{.opcode = RECORD_FILL, .length = sizeof fill}, at, bytes, 1, 0, 1};

	return add(fixture, graph, after, &fill, sizeof fill);
}

static int add_copy(struct fixture *fixture, uint32_t graph, uint64_t to, uint64_t from)
{
	struct record_copy copy = {
		{.opcode = RECORD_COPY, .length = sizeof copy}, to, from, 64, 1, 1};

	return add(fixture, graph, -1, &copy, sizeof copy);
}

static int add_launch(
	struct fixture *fixture, uint32_t graph, uint32_t function, uint32_t param_bytes)
{
	struct {
		struct record_launch record;
		uint64_t params[2];
	} launch = {.record = {.header = {.opcode = RECORD_LAUNCH, .length = sizeof launch},
			    .function = function,
			    .grid = {1, 1, 1},
			    .block = {1, 1, 1},
			    .param_bytes = param_bytes}};

	return add(fixture, graph, -1, &launch, sizeof launch);
}

static uint64_t post_graph(struct fixture *fixture, uint32_t graph)
{
	struct record_graph_launch record = {
		{.opcode = RECORD_GRAPH_LAUNCH, .timeline = A}, graph, 0};

	return post(fixture, &record);
}

static void what_a_client_says(void **state)
{
	struct fixture *fixture = *state;
	uint32_t graph = 0, none = 77, function = make_function(fixture);

	assert_int_equal(alloc(fixture, TEST_DEVICE, 2 * MIB), 0);
	assert_int_equal(begin(fixture, &none), -GDEV_E_INVALID_HANDLE);
	assert_int_equal(add_fill(fixture, none, -1, TEST_DEVICE, 64), -GDEV_E_INVALID_HANDLE);
	assert_int_equal(end(fixture, none), -GDEV_E_INVALID_HANDLE);
	assert_int_equal(destroy(fixture, none), -GDEV_E_INVALID_HANDLE);
	assert_int_equal(begin(fixture, &graph), 0);
	assert_int_equal(end(fixture, graph), -EINVAL); /* nothing is in it */
	/* Not after itself, nor what comes later. */
	assert_int_equal(add_fill(fixture, graph, 0, TEST_DEVICE, 64), -EINVAL);
	assert_int_equal(add_fill(fixture, graph, -1, TEST_DEVICE, 64), 0);
	assert_int_equal(add_fill(fixture, graph, 1, TEST_DEVICE, 64), -EINVAL);
	assert_int_equal(add_fill(fixture, graph, 0, TEST_DEVICE, 64), 0);
	/* Of memory of the session, that kernels reach. */
	assert_int_equal(add_fill(fixture, graph, -1, TEST_DEVICE + 2 * MIB - 32, 64), -EINVAL);
	assert_int_equal(add_fill(fixture, graph, -1, TEST_BASE, 64), -EINVAL);
	assert_int_equal(add_fill(fixture, graph, -1, (uintptr_t)&graph, 4), -EINVAL);
	assert_int_equal(add_fill(fixture, graph, -1, TEST_DEVICE, 0), -EINVAL);
	assert_int_equal(add_copy(fixture, graph, TEST_DEVICE, TEST_DEVICE + 64), 0);
	assert_int_equal(add_copy(fixture, graph, TEST_DEVICE, (uintptr_t)&graph), -EINVAL);
	assert_int_equal(add_copy(fixture, graph, (uintptr_t)&graph, TEST_DEVICE), -EINVAL);
	assert_int_equal(add_launch(fixture, graph, function + 1, 16), -GDEV_E_INVALID_HANDLE);
	assert_int_equal(add_launch(fixture, graph, function, 16), 0);
	refuses = -ENOTSUP;
	assert_int_equal(end(fixture, graph), -ENOTSUP);
	assert_int_equal(graphs, 0);
	refuses = 0;
	assert_int_equal(end(fixture, graph), 0);
	assert_int_equal(graphs, 1);
	assert_int_equal(((const struct reply_graph *)reply_payload(fixture))->handle, 101);
	/* It is written down, until it begins anew. */
	assert_int_equal(add_fill(fixture, graph, -1, TEST_DEVICE, 64), -EINVAL);
	assert_int_equal(end(fixture, graph), -EINVAL);
	assert_int_equal(destroy(fixture, graph), 0);
	assert_int_equal(graphs, 0);
	assert_int_equal(destroy(fixture, graph), -GDEV_E_INVALID_HANDLE);
}

static void a_launch_is_one_command(void **state)
{
	struct fixture *fixture = *state;
	uint32_t graph = 0;
	uint64_t value;

	make_stream(fixture, A);
	assert_int_equal(alloc(fixture, TEST_DEVICE, 2 * MIB), 0);
	assert_int_equal(begin(fixture, &graph), 0);
	post_graph(fixture, graph); /* it has no end yet */
	fixture_run(fixture);
	assert_int_equal(stream_error(fixture, A), -EINVAL);
	for (int i = 0; i < 10; i++)
		assert_int_equal(add_fill(fixture, graph, i - 1, TEST_DEVICE, 64), 0);
	assert_int_equal(end(fixture, graph), 0);
	double_hold(true);
	value = post_graph(fixture, graph);
	fixture_run(fixture);
	assert_int_equal(double_submitted(), 1);
	assert_int_equal(double_oldest()->kind, DEVICE_LAUNCH);
	assert_int_equal(double_oldest()->launch.graph->count, 10);
	/* Its nodes stay while it is launched. */
	assert_int_equal(begin(fixture, &graph), 0);
	assert_int_equal(add_fill(fixture, graph, -1, TEST_DEVICE, 64), 0);
	assert_int_equal(end(fixture, graph), -EBUSY);
	double_release(1, 0);
	fixture_run(fixture);
	assert_int_equal(completed(fixture, A), value);
	assert_int_equal(fixture->core->page->launches, 1);
	assert_int_equal(end(fixture, graph), 0);
	post_graph(fixture, graph);
	fixture_run(fixture);
	assert_int_equal(double_oldest()->launch.graph->count, 1);
	double_release(1, 0);
	fixture_run(fixture);
}

static void what_is_in_flight_is_waited_for(void **state)
{
	struct fixture *fixture = *state;
	struct record_handle unload = {{.opcode = RECORD_MODULE_UNLOAD}};
	uint32_t graph = 0, function;
	uint64_t value;

	make_stream(fixture, A);
	post_module(fixture);
	unload.handle = ((const struct reply_module *)reply_payload(fixture))->module;
	function = get_function(fixture);
	assert_int_equal(begin(fixture, &graph), 0);
	assert_int_equal(add_launch(fixture, graph, function, 16), 0);
	assert_int_equal(end(fixture, graph), 0);
	double_hold(true);
	value = post_graph(fixture, graph);
	fixture_run(fixture);
	assert_int_equal(ask_plain(fixture, &unload), 0);
	assert_int_equal(destroy(fixture, graph), 0);
	assert_int_equal(graphs, 1);
	assert_int_equal(double_modules, 1);
	double_release(1, 0);
	fixture_run(fixture);
	assert_int_equal(completed(fixture, A), value);
	assert_int_equal(graphs, 0);
	assert_int_equal(double_modules, 0);
	post_graph(fixture, graph);
	fixture_run(fixture);
	assert_int_equal(stream_error(fixture, A), -GDEV_E_INVALID_HANDLE);
}

/* A graph that is there keeps the module of its kernel; the session's end takes both. */
static void a_graph_keeps_its_modules(void **state)
{
	struct fixture *fixture = *state;
	struct record_handle unload = {{.opcode = RECORD_MODULE_UNLOAD}};
	uint32_t graph = 0, function;

	post_module(fixture);
	unload.handle = ((const struct reply_module *)reply_payload(fixture))->module;
	function = get_function(fixture);
	assert_int_equal(begin(fixture, &graph), 0);
	assert_int_equal(add_launch(fixture, graph, function, 16), 0);
	assert_int_equal(end(fixture, graph), 0);
	assert_int_equal(ask_plain(fixture, &unload), 0);
	assert_int_equal(double_modules, 1);
	assert_int_equal(begin(fixture, &graph), 0); /* and is not finished */
}

static void a_device_may_have_none(void **state)
{
	uint32_t graph = 0;

	assert_int_equal(begin(*state, &graph), -ENOTSUP);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(what_a_client_says, setup, teardown),
		cmocka_unit_test_setup_teardown(a_launch_is_one_command, setup, teardown),
		cmocka_unit_test_setup_teardown(what_is_in_flight_is_waited_for, setup, teardown),
		cmocka_unit_test_setup_teardown(a_graph_keeps_its_modules, setup, teardown),
		cmocka_unit_test_setup_teardown(a_device_may_have_none, setup_alone, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
