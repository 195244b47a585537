/* SPDX-License-Identifier: MIT
 *
 * What does not fit together is refused when it is built, with a code and words that name both ends.
 */
#include "fixture.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static void refused(struct fixture *f, int error, int expected, const char *words)
{
	char why[GDEV_WHY_BYTES];

	gdev_graph_why(f->graph, why);
	if (error != expected)
		fail_msg("%d, not %d: %s", error, expected, why);
	if (!strstr(why, words))
		fail_msg("\"%s\" does not say \"%s\"", why, words);
}

static void refused_port(struct fixture *f, struct gdev_ptask *ptask,
	struct gdev_port_options options, int expected, const char *words)
{
	struct gdev_port *port;

	refused(f, gdev_port_open(ptask, &options, &port), expected, words);
}

static void test_templates(void **state)
{
	static const struct {
		struct gdev_shape shape;
		const char *words;
	} bad[] = {
		{{.stride = 4}, "no elements"},
		{{.stride = 0, .count = {1}}, "no elements"},
		{{.stride = 1ull << 40, .count = {1ull << 40}}, "2^47"},
		{{.stride = 1ull << 30, .count = {1ull << 30, 1ull << 30}}, "2^47"},
		{{.stride = 4, .count = {1}, .layout = GDEV_LAYOUT_OPAQUE}, "stride of opaque"},
		{{.stride = 4, .count = {1, 2}, .layout = GDEV_LAYOUT_RECORDS}, "one dimension"},
		{{.stride = 4, .count = {1}, .layout = 7}, "layout"},
	};
	struct fixture *f = *state;
	struct gdev_template *tmpl;

	for (unsigned i = 0; i < sizeof bad / sizeof *bad; i++)
		refused(f, gdev_template_open(f->graph, "t", &bad[i].shape, &tmpl), -EINVAL,
			bad[i].words);
}

static void test_ptasks(void **state)
{
	struct fixture *f = *state;
	struct gdev_ptask *ptask, *scale = function(f, "scale");
	const uint32_t flat[3] = {256}, cube[3] = {8, 8, 4};
	uint64_t wide = 0;

	refused(f, gdev_ptask_open(f->graph, "a", f->module, "missing", &ptask),
		-GDEV_E_SYMBOL_NOT_FOUND, "ptask a: the module has no function missing");
	assert_int_equal(gdev_ptask_open_host(f->graph, "a", NULL, NULL, &ptask), -EINVAL);
	refused(f, gdev_ptask_set_argument(scale, 4, &wide, 4), -EINVAL, "has 4 parameters, no 4");
	refused(f, gdev_ptask_set_argument(scale, 2, &wide, 8), -EINVAL, "has 4 bytes, and not 8");
	good(f->graph, gdev_ptask_set_argument(scale, 2, &wide, 4));
	refused(f, gdev_ptask_set_argument(scale, 2, &wide, 4), -EEXIST, "parameter 2 is bound");
	refused(f, gdev_ptask_set_geometry(scale, NULL, NULL, 0), -EINVAL, "geometry");
	refused(f, gdev_ptask_set_geometry(scale, NULL, flat, 0), -EINVAL, "at least 1");
	refused(f, gdev_ptask_set_geometry(scale, flat, cube, 0), -EINVAL, "at least 1");
}

static void test_ports(void **state)
{
	struct fixture *f = *state;
	struct gdev_ptask *scale = function(f, "scale"), *weigh = function(f, "weigh");
	struct gdev_port *in = input(scale, f->ints, 1), *counted;
	struct gdev_port_options constant = {.kind = GDEV_PORT_STICKY,
		.name = "w",
		.binding = GDEV_BIND_CONSTANT,
		.variable = "weight"};

#define O(...) ((struct gdev_port_options){.name = "p", __VA_ARGS__})
	refused_port(f, scale, O(.parameter = 1), -EEXIST,
		"ptask scale, p: parameter 1 is bound already, to input");
	refused_port(f, scale, O(.parameter = 9), -EINVAL, "no 9");
	refused_port(f, scale, O(.parameter = 2), -EINVAL, "4 bytes, and not 8");
	refused_port(f, scale, O(.kind = 5), -EINVAL, "kind");
	refused_port(f, scale, O(.binding = GDEV_BIND_SCALAR, .parameter = 2), -EINVAL,
		"fixed template");
	refused_port(f, scale, O(.binding = GDEV_BIND_SCALAR, .parameter = 2, .tmpl = f->ints),
		-EINVAL, "4 bytes, and not 4000");
	refused_port(f, scale, O(.binding = GDEV_BIND_META), -EINVAL, "uint64_t");
	refused_port(f, scale, O(.kind = GDEV_PORT_OUTPUT), -EINVAL, "has a template");
	refused_port(f, scale,
		O(.kind = GDEV_PORT_OUTPUT, .binding = GDEV_BIND_SCALAR, .tmpl = f->one), -EINVAL,
		"global memory");
	refused_port(f, weigh, O(.kind = GDEV_PORT_OUTPUT, .in_out = in), -EINVAL, "same function");
	refused_port(f, scale, O(.in_out = in), -EINVAL, "options of outputs");
	refused_port(f, scale, O(.kind = GDEV_PORT_OUTPUT, .tmpl = f->ints, .size = in), -EINVAL,
		"meta port");
	refused_port(f, scale, O(.kind = GDEV_PORT_OUTPUT, .in_out = in, .tmpl = f->one), -EINVAL,
		"keeps its template");
	port(scale, (struct gdev_port_options){.kind = GDEV_PORT_OUTPUT, .in_out = in});
	refused_port(
		f, scale, O(.kind = GDEV_PORT_OUTPUT, .in_out = in), -EINVAL, "another output");
	port(weigh, constant);
	constant.name = "v";
	refused_port(f, weigh, constant, -EEXIST, "ports w and v are both bound to weight");
	constant.variable = "missing";
	refused_port(f, weigh, constant, -GDEV_E_SYMBOL_NOT_FOUND, "no variable missing");
	constant.variable = NULL;
	refused_port(f, weigh, constant, -EINVAL, "no variable");
	counted = output(weigh, f->ints, 0);
	refused(f, gdev_port_count(counted, 0), -EEXIST, "parameter 0 is bound");
	refused(f, gdev_port_count(in, 3), 0, "");
	refused(f, gdev_port_count(in, 2), -EEXIST, "another parameter");
#undef O
}

static int open_channel(
	struct fixture *f, struct gdev_port *from, struct gdev_port *to, struct gdev_template *tmpl)
{
	struct gdev_channel_options options = {.tmpl = tmpl};
	struct gdev_channel *channel;

	return gdev_channel_open(f->graph, from, to, &options, &channel);
}

static void test_channels(void **state)
{
	struct fixture *f = *state, *other = fixture_open(NULL);
	struct scaler a = scaler(f, 2), b = scaler(f, 3), c = scaler(f, 5),
		      alien = scaler(other, 1);
	struct gdev_ptask *small = function(f, "increment"), *any = function(f, "increment");
	struct gdev_port *in = input(small, f->one, 0);

	refused(f, open_channel(f, NULL, NULL, f->ints), -EINVAL, "no port");
	refused(f, open_channel(f, a.in, b.in, NULL), -EINVAL, "from an output to an input");
	refused(f, open_channel(f, a.out, b.out, NULL), -EINVAL, "from an output to an input");
	refused(f, open_channel(f, a.out, alien.in, NULL), -EINVAL, "another graph");
	refused(f, open_channel(f, a.out, in, NULL), -EPROTOTYPE,
		"from scale.output to increment.input: the template of one is");
	refused(f, open_channel(f, NULL, in, f->ints), -EPROTOTYPE,
		"from -.the program to increment.input");
	refused(f, open_channel(f, a.out, NULL, f->one), -EPROTOTYPE,
		"from scale.output to -.the program");
	refused(f, open_channel(f, NULL, input(any, NULL, 0), NULL), -EINVAL, "neither");
	channel(f, a.out, b.in);
	refused(f, open_channel(f, NULL, b.in, NULL), -EEXIST,
		"to scale.input: the input has a channel already, from scale.output");
	refused(f, open_channel(f, a.out, a.in, NULL), -ELOOP, "from scale.output to scale.input");
	channel(f, b.out, c.in);
	refused(f, open_channel(f, c.out, a.in, NULL), -ELOOP, "cycle");
	fixture_teardown((void **)&other);
}

static void test_running(void **state)
{
	struct fixture *f = *state;
	struct scaler a = scaler(f, 2);
	struct gdev_ptask *lonely, *ptask;
	struct gdev_port *out;
	struct gdev_channel *in, *result;
	struct gdev_template *tmpl;

	refused(f, gdev_graph_run(f->graph), -EPIPE, "ptask scale, port input: no channel brings");
	in = channel(f, NULL, a.in);
	refused(f, gdev_graph_run(f->graph), -EPIPE, "ptask scale, port output: no channel takes");
	result = channel(f, a.out, NULL);
	lonely = function(f, "add");
	out = output(lonely, f->ints, 0);
	channel(f, out, NULL);
	refused(f, gdev_graph_run(f->graph), -EINVAL, "says when to run");
	channel(f, NULL, input(lonely, f->ints, 1));
	argument(lonely, 3, N);
	refused(f, gdev_graph_run(f->graph), -EINVAL, "parameter 2 of the function has no port");
	channel(f, NULL, input(lonely, f->ints, 2));
	good(f->graph, gdev_ptask_set_geometry(lonely, NULL, (uint32_t[3]){2048, 1, 1}, 0));
	refused(f, gdev_graph_run(f->graph), -GDEV_E_INVALID_LAUNCH,
		"ptask add: a block of it is more than any device holds");
	good(f->graph, gdev_ptask_set_geometry(lonely, NULL, (uint32_t[3]){32, 1, 1}, 1u << 30));
	refused(f, gdev_graph_run(f->graph), -GDEV_E_INVALID_LAUNCH, "ptask add");
	good(f->graph, gdev_ptask_set_geometry(lonely, NULL, (uint32_t[3]){32, 2, 1}, 0));
	good(f->graph, gdev_graph_run(f->graph));
	refused(f, gdev_graph_run(f->graph), -EBUSY, "runs already");
	refused(f, gdev_ptask_open(f->graph, NULL, f->module, "add", &ptask), -EBUSY, "runs");
	refused(f, open_channel(f, out, NULL, NULL), -EBUSY, "runs");
	tmpl = array_of(f, GDEV_LAYOUT_FIXED, 5); /* templates for datablocks may come */
	push_ints(f, in, 1);
	pull_ints(f, result, 2, 2);
	assert_non_null(tmpl);
}

/* A port without a template passes on what comes; the next one that has a template does not take all of it. */
static void test_template_at_run_time(void **state)
{
	struct fixture *f = *state;
	struct gdev_ptask *any = function(f, "increment");
	struct scaler a = scaler(f, 2);
	struct gdev_port *in = input(any, NULL, 0);
	struct gdev_port *out =
		port(any, (struct gdev_port_options){.kind = GDEV_PORT_OUTPUT, .in_out = in});
	struct gdev_channel_options wide = {.tmpl = f->one};
	struct gdev_channel *from, *to;
	int value = 1;

	argument(any, 1, 1);
	good(f->graph, gdev_channel_open(f->graph, NULL, in, &wide, &from));
	channel(f, out, a.in);
	to = channel(f, a.out, NULL);
	good(f->graph, gdev_graph_run(f->graph));
	refused(f, gdev_push_bytes(from, &value, sizeof value, 0), -EPROTOTYPE, "ptask scale");
	assert_int_equal(gdev_pull_bytes(to, &value, sizeof value, 0, NULL), -EPROTOTYPE);
}

static void test_pushing(void **state)
{
	struct fixture *f = *state, *other = fixture_open(NULL);
	struct scaler a = scaler(f, 2);
	struct gdev_channel *in = channel(f, NULL, a.in), *out = channel(f, a.out, NULL);
	struct gdev_datablock *block;
	int values[N] = {0};

	good(f->graph, gdev_graph_run(f->graph));
	assert_int_equal(gdev_push_bytes(in, values, 8, 0), -EPROTOTYPE);
	assert_int_equal(gdev_push_bytes(in, values, 7, 0), -EPROTOTYPE);
	assert_int_equal(gdev_push_bytes(in, NULL, 0, 0), -EPROTOTYPE);
	assert_int_equal(gdev_push_bytes(out, values, sizeof values, 0), -EINVAL);
	assert_int_equal(gdev_datablock_create(f->graph, f->ints, 5, &block), -EINVAL);
	assert_int_equal(gdev_datablock_create(f->graph, other->ints, 0, &block), -EINVAL);
	assert_int_equal(
		gdev_datablock_wrap(f->graph, f->ints, 0, NULL, NULL, NULL, &block), -EINVAL);
	good(f->graph, gdev_datablock_create(f->graph, f->one, 0, &block));
	refused(f, gdev_push(in, block, 0), -EPROTOTYPE, "push into scale.input");
	refused(f, gdev_push(out, block, 0), -EINVAL, "fills it");
	gdev_datablock_put(block);
	good(f->graph, gdev_datablock_create(other->graph, other->ints, 0, &block));
	refused(f, gdev_push(in, block, 0), -EINVAL, "another graph");
	gdev_datablock_put(block);
	refused(f, gdev_pull(in, 0, &block), -EINVAL, "empties it");
	refused(f, gdev_channel_end(out), -EINVAL, "ends it");
	assert_int_equal(gdev_graph_advance(f->graph), -EINVAL);
	gdev_datablock_put(NULL);
	gdev_graph_close(NULL);
	fixture_teardown((void **)&other);
}

#define with_graph(test) cmocka_unit_test_setup_teardown(test, fixture_setup, fixture_teardown)
/* In a graph that another process may own the same words are said, wherever its ptasks run. */
#define with_part(test, setup)                                                                     \
	{                                                                                          \
		.name = #test " " #setup, .test_func = test, .setup_func = setup,                  \
		.teardown_func = fixture_teardown                                                  \
	}

int main(void)
{
	const struct CMUnitTest tests[] = {
		with_graph(test_templates),
		with_graph(test_ptasks),
		with_graph(test_ports),
		with_graph(test_channels),
		with_graph(test_running),
		with_graph(test_template_at_run_time),
		with_graph(test_pushing),
		with_part(test_templates, fixture_setup_attached),
		with_part(test_templates, fixture_setup_own),
		with_part(test_ptasks, fixture_setup_attached),
		with_part(test_ptasks, fixture_setup_own),
		with_part(test_ports, fixture_setup_attached),
		with_part(test_ports, fixture_setup_own),
		with_part(test_channels, fixture_setup_attached),
		with_part(test_channels, fixture_setup_own),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
