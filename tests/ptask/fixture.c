/* SPDX-License-Identifier: MIT
 *
 * See fixture.h.
 */
#include "fixture.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

void must(struct gdev_graph *graph, int error, const char *call, const char *file, int line)
{
	char why[GDEV_WHY_BYTES] = "";

	if (!error)
		return;
	if (graph)
		gdev_graph_why(graph, why);
	print_error("%s: %s (%d): %s\n", call, gdev_strerror(error), error, why);
	_fail(file, line);
}

void needs_faults(void)
{
	if (getenv("GDEV_TEST_CHECKED"))
		skip();
}

uint64_t in_seconds(unsigned seconds)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return ((uint64_t)now.tv_sec + seconds) * SECOND_NS + (uint64_t)now.tv_nsec;
}

static struct gdev_template *template_of(
	struct gdev_graph *graph, enum gdev_layout layout, uint64_t stride, uint64_t count)
{
	struct gdev_shape shape = {.layout = layout, .stride = stride, .count = {count}};
	struct gdev_template *tmpl;

	good(graph, gdev_template_open(graph, "array", &shape, &tmpl));
	return tmpl;
}

static void fill(struct fixture *f)
{
	good(f->graph, gdev_graph_load(f->graph, kernels_ptx, strlen(kernels_ptx) + 1, NULL, 0,
			       &f->module));
	f->ints = template_of(f->graph, GDEV_LAYOUT_FIXED, sizeof(int), N);
	f->one = template_of(f->graph, GDEV_LAYOUT_FIXED, sizeof(int), 1);
	f->size = template_of(f->graph, GDEV_LAYOUT_FIXED, sizeof(uint64_t), 1);
}

/* With as many lanes as there can be, whatever device is there, unless GDEV_TEST_LANES says how many; 0: as the graph likes. */
struct fixture *fixture_open(const struct gdev_graph_options *wanted)
{
	struct gdev_graph_options options = wanted ? *wanted : (struct gdev_graph_options){0};
	struct fixture *f = calloc(1, sizeof *f);
	const char *lanes = getenv("GDEV_TEST_LANES");

	assert_non_null(f);
	if (!options.lanes)
		options.lanes = lanes ? (unsigned)atoi(lanes) : GDEV_GRAPH_LANES_MAX;
	good(NULL, gdev_graph_open(&options, &f->graph));
	fill(f);
	return f;
}

struct fixture *fixture_attach(const char *name)
{
	struct fixture *f = calloc(1, sizeof *f);

	assert_non_null(f);
	good(NULL, gdev_graph_attach(name, GDEV_FOREVER, &f->graph));
	fill(f);
	return f;
}

struct fixture *fixture_attach_own(const char *name)
{
	struct fixture *f = calloc(1, sizeof *f);

	assert_non_null(f);
	good(NULL, gdev_graph_attach_own(name, NULL, GDEV_FOREVER, &f->graph));
	fill(f);
	return f;
}

static int setup_attached(void **state, struct fixture *(*attach)(const char *name))
{
	struct gdev_graph_options options = {.name = "attached", .mode = 0600};
	struct gdev_graph *owner;
	struct fixture *f;

	good(NULL, gdev_graph_open(&options, &owner));
	*state = f = attach(options.name);
	f->owner = owner;
	return 0;
}

int fixture_setup_attached(void **state)
{
	return setup_attached(state, fixture_attach);
}

int fixture_setup_own(void **state)
{
	return setup_attached(state, fixture_attach_own);
}

int fixture_setup(void **state)
{
	*state = fixture_open(NULL);
	return 0;
}

int fixture_teardown(void **state)
{
	struct fixture *f = *state;

	gdev_graph_close(f->graph);
	gdev_graph_close(f->owner);
	free(f);
	return 0;
}

struct gdev_template *array_of(struct fixture *f, enum gdev_layout layout, uint64_t count)
{
	return template_of(f->graph, layout, sizeof(int), count);
}

struct gdev_ptask *function(struct fixture *f, const char *name)
{
	struct gdev_ptask *ptask;

	good(f->graph, gdev_ptask_open(f->graph, NULL, f->module, name, &ptask));
	return ptask;
}

struct gdev_port *port(struct gdev_ptask *ptask, struct gdev_port_options options)
{
	struct gdev_port *opened;

	good(NULL, gdev_port_open(ptask, &options, &opened));
	return opened;
}

struct gdev_port *input(struct gdev_ptask *ptask, struct gdev_template *tmpl, unsigned parameter)
{
	return port(ptask, (struct gdev_port_options){
				   .kind = GDEV_PORT_INPUT, .tmpl = tmpl, .parameter = parameter});
}

struct gdev_port *output(struct gdev_ptask *ptask, struct gdev_template *tmpl, unsigned parameter)
{
	return port(ptask, (struct gdev_port_options){
				   .kind = GDEV_PORT_OUTPUT, .tmpl = tmpl, .parameter = parameter});
}

struct gdev_channel *narrow_channel(
	struct fixture *f, struct gdev_port *from, struct gdev_port *to, unsigned capacity)
{
	struct gdev_channel_options options = {.capacity = capacity};
	struct gdev_channel *opened;

	good(f->graph, gdev_channel_open(f->graph, from, to, &options, &opened));
	return opened;
}

struct gdev_channel *channel(struct fixture *f, struct gdev_port *from, struct gdev_port *to)
{
	return narrow_channel(f, from, to, 0);
}

void argument(struct gdev_ptask *ptask, unsigned parameter, unsigned value)
{
	good(NULL, gdev_ptask_set_argument(ptask, parameter, &value, sizeof value));
}

void push_ints(struct fixture *f, struct gdev_channel *to, int first)
{
	int values[N];

	for (int i = 0; i < N; i++)
		values[i] = first + i;
	good(f->graph, gdev_push_bytes(to, values, sizeof values, GDEV_FOREVER));
}

void pull_ints(struct fixture *f, struct gdev_channel *from, int first, int step)
{
	int values[N];
	uint64_t bytes;

	good(f->graph, gdev_pull_bytes(from, values, sizeof values, GDEV_FOREVER, &bytes));
	assert_int_equal(bytes, sizeof values);
	for (int i = 0; i < N; i++)
		if (values[i] != first + i * step)
			fail_msg("value %d is %d, not %d", i, values[i], first + i * step);
}

struct scaler scaler_of(struct fixture *f, struct gdev_template *tmpl, int factor)
{
	struct scaler made = {.ptask = function(f, "scale")};

	made.out = output(made.ptask, tmpl, 0);
	made.in = input(made.ptask, tmpl, 1);
	argument(made.ptask, 2, (unsigned)factor);
	argument(made.ptask, 3, N);
	return made;
}

struct scaler scaler(struct fixture *f, int factor)
{
	return scaler_of(f, f->ints, factor);
}
