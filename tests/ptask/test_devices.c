/* SPDX-License-Identifier: MIT
 *
 * Where ptasks queue: schedules on one device, and graphs on two (peer.py gives them).
 */
#include "fixture.h"

#include <errno.h>
#include <stdlib.h>

#define COLUMNS 6
#define DEPTH 4
#define TURNS 8
#define QUICK_NS (SECOND_NS / 4) /* a quarter of what data-aware waits for a device */

static char names[2][GDEV_NAME_MAX];
static const char *const two[] = {names[0], names[1]};

static uint64_t moved_in(struct gdev_ptask *const *ptasks, unsigned count)
{
	struct gdev_ptask_info info;
	uint64_t moved = 0;

	for (unsigned i = 0; i < count; i++) {
		good(NULL, gdev_ptask_query(ptasks[i], &info));
		moved += info.moved;
	}
	return moved;
}

/* Independent columns of scalers; how many invocations moved data in turns that were so quick that none can have waited for a device in
 * vain. The first turns compile, and other processes may hold up some. */
static uint64_t run_columns(const struct gdev_graph_options *options)
{
	struct fixture *f = fixture_open(options);
	struct gdev_channel *in[COLUMNS], *out[COLUMNS];
	struct gdev_ptask *ptasks[COLUMNS * DEPTH];
	uint64_t moved = 0, before_turn, until_ns = in_seconds(PATIENCE_S);

	for (int column = 0; column < COLUMNS; column++) {
		struct gdev_port *before = NULL;
		for (int i = 0; i < DEPTH; i++) {
			struct scaler s = scaler(f, 2);
			ptasks[column * DEPTH + i] = s.ptask;
			if (before)
				channel(f, before, s.in);
			else
				in[column] = channel(f, NULL, s.in);
			before = s.out;
		}
		out[column] = channel(f, before, NULL);
	}
	good(f->graph, gdev_graph_run(f->graph));
	for (int turn = 0, quick = 0; turn < 10 || quick < 5; turn++) {
		uint64_t began_ns = in_seconds(0);

		assert_true(began_ns < until_ns);
		before_turn = moved_in(ptasks, COLUMNS * DEPTH);
		for (int column = 0; column < COLUMNS; column++)
			push_ints(f, in[column], turn + column);
		for (int column = 0; column < COLUMNS; column++)
			pull_ints(f, out[column], 16 * (turn + column), 16);
		if (in_seconds(0) - began_ns < QUICK_NS) {
			moved += moved_in(ptasks, COLUMNS * DEPTH) - before_turn;
			quick++;
		}
	}
	fixture_teardown((void **)&f);
	return moved;
}

static void test_schedules_on_one(void **state)
{
	for (int schedule = 0; schedule <= GDEV_SCHEDULE_DATA_AWARE; schedule++)
		run_columns(&(struct gdev_graph_options){.schedule = (enum gdev_schedule)schedule});
}

static void test_schedules_on_two(void **state)
{
	for (int schedule = 0; schedule <= GDEV_SCHEDULE_DATA_AWARE; schedule++) {
		struct gdev_graph_options options = {
			.vgpus = two, .vgpu_count = 2, .schedule = (enum gdev_schedule)schedule};
		uint64_t moved = run_columns(&options);
		if (schedule == GDEV_SCHEDULE_DATA_AWARE)
			assert_int_equal(moved, 0);
	}
}

/* One datablock that both devices read and change, and sums of what both have made. */
static void test_exchange(void **state)
{
	struct fixture *f = fixture_open(&(struct gdev_graph_options){
		.vgpus = two, .vgpu_count = 2, .schedule = GDEV_SCHEDULE_FIFO});
	struct scaler a = scaler(f, 2), b = scaler(f, 3);
	struct gdev_ptask *sum = function(f, "add"), *more = function(f, "increment");
	struct gdev_port *total = output(sum, f->ints, 0), *changed = input(more, f->ints, 0);
	struct gdev_channel *in[2] = {channel(f, NULL, a.in), channel(f, NULL, b.in)}, *out, *also;
	struct gdev_ptask *ptasks[] = {a.ptask, b.ptask, sum, more};
	int values[N];

	argument(sum, 3, N);
	argument(more, 1, N);
	channel(f, a.out, input(sum, f->ints, 1));
	channel(f, b.out, input(sum, f->ints, 2));
	channel(f, total, changed);
	also = channel(f, total, NULL);
	out = channel(f,
		port(more, (struct gdev_port_options){.kind = GDEV_PORT_OUTPUT, .in_out = changed}),
		NULL);
	good(f->graph, gdev_graph_run(f->graph));
	for (int turn = 0; turn < 60; turn++) {
		struct gdev_datablock *block;
		for (int i = 0; i < N; i++)
			values[i] = turn + i;
		good(f->graph, gdev_datablock_create(f->graph, f->ints, 0, &block));
		good(f->graph, gdev_datablock_write(block, 0, values, sizeof values));
		for (int i = 0; i < 2; i++)
			good(f->graph, gdev_push(in[i], block, GDEV_FOREVER));
		gdev_datablock_put(block);
		if (turn % 3 == 2)
			for (int i = 2; i >= 0; i--) {
				pull_ints(f, out, 5 * (turn - i) + 1, 5);
				pull_ints(f, also, 5 * (turn - i), 5);
			}
	}
	assert_true(moved_in(ptasks, 4) > 0);
	fixture_teardown((void **)&f);
}

/* Each device has a variable of its own. */
static void test_variables(void **state)
{
	struct fixture *f =
		fixture_open(&(struct gdev_graph_options){.vgpus = two, .vgpu_count = 2});
	struct gdev_template *four = array_of(f, GDEV_LAYOUT_FIXED, 4);
	struct gdev_channel *in[4], *out[4], *weight[4];

	for (int i = 0; i < 4; i++) {
		struct gdev_ptask *weigh = function(f, "weigh");
		out[i] = channel(f, output(weigh, f->ints, 0), NULL);
		in[i] = channel(f, NULL, input(weigh, f->ints, 1));
		argument(weigh, 2, N);
		weight[i] = channel(f, NULL,
			port(weigh, (struct gdev_port_options){.kind = GDEV_PORT_STICKY,
					    .binding = GDEV_BIND_CONSTANT,
					    .tmpl = four,
					    .variable = "weight"}));
	}
	good(f->graph, gdev_graph_run(f->graph));
	for (int i = 0; i < 4; i++)
		good(f->graph,
			gdev_push_bytes(weight[i], (int[4]){i + 2, i + 2, i + 2, i + 2}, 16, 0));
	for (int turn = 0; turn < 30; turn++) {
		for (int i = 0; i < 4; i++)
			push_ints(f, in[i], turn);
		for (int i = 0; i < 4; i++)
			pull_ints(f, out[i], turn * (i + 2), i + 2);
	}
	fixture_teardown((void **)&f);
}

static void test_options(void **state)
{
	static const struct gdev_graph_options bad[] = {
		{.vgpu_count = 1},
		{.vgpus = two, .vgpu_count = 9},
		{.vgpus = two, .vgpu_count = 2, .vgpu = names[0]},
		{.schedule = 7},
		{.lanes = 9},
	};
	struct gdev_graph *graph;

	for (unsigned i = 0; i < sizeof bad / sizeof *bad; i++)
		assert_int_equal(gdev_graph_open(&bad[i], &graph), -EINVAL);
	assert_int_equal(
		gdev_graph_open(&(struct gdev_graph_options){.vgpu = "missing"}, &graph), -ENODEV);
}

/* A device that fails takes its graph with it, and no more. */
static void test_one_fails(void **state)
{
	struct fixture *f =
		fixture_open(&(struct gdev_graph_options){.vgpus = two, .vgpu_count = 2});
	struct gdev_ptask *fault = function(f, "fault");
	struct gdev_channel *in = channel(f, NULL, input(fault, f->ints, 1));
	struct gdev_channel *out = channel(f, output(fault, f->ints, 0), NULL);
	struct gdev_datablock *block;
	int values[N] = {0};

	good(f->graph, gdev_graph_run(f->graph));
	good(f->graph, gdev_push_bytes(in, values, sizeof values, 0));
	assert_int_equal(gdev_pull(out, GDEV_FOREVER, &block), -GDEV_E_ILLEGAL_ADDRESS);
	fixture_teardown((void **)&f);
	run_columns(&(struct gdev_graph_options){.vgpus = two, .vgpu_count = 2});
}

/* The driver that is made for tests takes no module that names this version. The software GPU does not look into comments. */
static const char for_cpu[] = "// .version 99\n.version 6.0\n.target sm_70\n.address_size 64\n"
			      ".visible .entry increment(.param .u64 at, .param .u32 n)\n{\n"
			      ".reg .b64 %a;\n.reg .b32 %i, %n, %b, %t, %v;\n.reg .pred %p;\n"
			      "mov.u32 %b, %ctaid.x;\nmov.u32 %t, %ntid.x;\nmov.u32 %i, %tid.x;\n"
			      "mad.lo.u32 %i, %b, %t, %i;\nld.param.u32 %n, [n];\n"
			      "setp.ge.u32 %p, %i, %n;\n@%p ret;\nld.param.u64 %a, [at];\n"
			      "mad.wide.u32 %a, %i, 4, %a;\nld.global.u32 %v, [%a];\n"
			      "add.u32 %v, %v, 1;\nst.global.u32 [%a], %v;\nret;\n}\n";
/* Of which that driver knows what it does: word i of n becomes three times what it was, and i. */
static const char for_cuda[] = "\177ELF sm_90 .entry step(";

/* A ptask that changes `ints` in place, behind the port. */
static struct gdev_port *change(struct fixture *f, struct gdev_graph_module *module,
	const char *name, struct gdev_port *from, struct gdev_channel **in,
	struct gdev_ptask **ptask)
{
	struct gdev_port *changed;

	good(f->graph, gdev_ptask_open(f->graph, NULL, module, name, ptask));
	changed = input(*ptask, f->ints, 0);
	argument(*ptask, 1, N);
	*in = channel(f, from, changed);
	return port(
		*ptask, (struct gdev_port_options){.kind = GDEV_PORT_OUTPUT, .in_out = changed});
}

static void run_on_unlike(const char *const vgpus[2], enum gdev_schedule schedule)
{
	struct fixture *f = fixture_open(&(struct gdev_graph_options){
		.vgpus = vgpus, .vgpu_count = 2, .schedule = schedule});
	struct gdev_graph_module *cpu, *cuda, *none;
	struct gdev_channel *in, *between, *out;
	struct gdev_ptask *ptasks[3];
	struct gdev_port *made;
	int values[N];

	assert_int_equal(
		gdev_graph_load(f->graph, "nothing", 8, NULL, 0, &none), -GDEV_E_INVALID_IMAGE);
	good(f->graph, gdev_graph_load(f->graph, for_cpu, sizeof for_cpu, NULL, 0, &cpu));
	good(f->graph, gdev_graph_load(f->graph, for_cuda, sizeof for_cuda, NULL, 0, &cuda));
	made = change(f, cpu, "increment", NULL, &in, &ptasks[0]);
	made = change(f, cuda, "step", made, &between, &ptasks[1]);
	made = change(f, cpu, "increment", made, &between, &ptasks[2]);
	out = channel(f, made, NULL);
	good(f->graph, gdev_graph_run(f->graph));
	for (int turn = 0; turn < TURNS; turn++) {
		push_ints(f, in, turn);
		good(f->graph, gdev_pull_bytes(out, values, sizeof values, GDEV_FOREVER, NULL));
		for (int i = 0; i < N; i++)
			assert_int_equal(values[i], 3 * (turn + i + 1) + i + 1);
	}
	/* Each invocation of the last two took what the other device had made. */
	assert_int_equal(moved_in(ptasks, 3), 2 * TURNS);
	fixture_teardown((void **)&f);
}

/* Each ptask goes to the device that has code for it, the first one or the second. */
static void test_unlike(void **state)
{
	const char *const turned[] = {two[1], two[0]};

	for (int schedule = 0; schedule <= GDEV_SCHEDULE_DATA_AWARE; schedule++) {
		run_on_unlike(two, (enum gdev_schedule)schedule);
		run_on_unlike(turned, (enum gdev_schedule)schedule);
	}
}

/* The first two that `gdev run` shows. */
static int find_two(void **state)
{
	return gdev_vgpu_name(0, names[0]) || gdev_vgpu_name(1, names[1]);
}

/* usage: test_ptask_devices [TEST]; test_unlike is for two that are (peer.py) */
int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_options),
		cmocka_unit_test(test_schedules_on_one),
		cmocka_unit_test(test_schedules_on_two),
		cmocka_unit_test(test_exchange),
		cmocka_unit_test(test_variables),
		cmocka_unit_test(test_one_fails),
		cmocka_unit_test(test_unlike),
	};

	if (argc > 1)
		cmocka_set_test_filter(argv[1]);
	else
		cmocka_set_skip_filter("test_unlike");
	return cmocka_run_group_tests(tests, find_two, NULL);
}
