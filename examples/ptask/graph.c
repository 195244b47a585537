/* SPDX-License-Identifier: MIT
 *
 * The work as a PTask graph: what flows where, and no copy.
 */
#include <gdev/ptask.h>

#include <string.h>

#include "ptask/work.h"

#define SMALL_BYTES 65536

const char *graph_vgpus[8];
unsigned graph_vgpu_count, graph_schedule, graph_lanes;

static struct gdev_graph *graph;
static struct gdev_ptask *ptasks[ARRAYS_MAX];
static unsigned ptask_count;
static struct gdev_graph_module *module;
static struct gdev_template *templates[ARRAYS_MAX]; /* of arrays */
static struct gdev_port *makers[ARRAYS_MAX];        /* of an array; NULL: a source */
static struct gdev_channel *pushes[ARRAYS_MAX], *pulls[ARRAYS_MAX];
static unsigned pushed[ARRAYS_MAX], push_count; /* the source of each */
static unsigned last_push[ARRAYS_MAX];          /* of a source */

static void must(int error, const char *what)
{
	char why[GDEV_WHY_BYTES];

	if (!error)
		return;
	*why = '\0';
	if (graph)
		gdev_graph_why(graph, why);
	require(false, what, *why ? why : gdev_strerror(error));
}

static void feed(unsigned source, struct gdev_port *to)
{
	struct gdev_channel *channel;

	must(gdev_channel_open(graph, makers[source], to, NULL, &channel), "open a channel");
	if (makers[source])
		return;
	require(push_count < ARRAYS_MAX, "make the graph", "too many channels");
	pushed[push_count] = source;
	last_push[source] = push_count;
	pushes[push_count++] = channel;
}

static struct gdev_port *open_port(struct gdev_ptask *ptask, struct gdev_port_options options)
{
	struct gdev_port *port;

	must(gdev_port_open(ptask, &options, &port), "open a port");
	return port;
}

static void set_arguments(
	struct gdev_ptask *ptask, const struct work_task *task, unsigned parameter)
{
	uint64_t none = 0;

	for (; parameter < work_pointers(task); parameter++)
		must(gdev_ptask_set_argument(ptask, parameter, &none, sizeof none),
			"set an argument");
	for (unsigned i = 0; i < task->argument_count; i++)
		must(gdev_ptask_set_argument(
			     ptask, parameter + i, &task->arguments[i], sizeof task->arguments[i]),
			"set an argument");
}

static void add_task(const struct work_task *task)
{
	struct gdev_port_options output = {
		.name = "out", .kind = GDEV_PORT_OUTPUT, .tmpl = templates[task->output]};
	struct gdev_port *inputs[INPUTS_MAX];
	struct gdev_ptask *ptask;
	unsigned parameter = !task->in_place;

	must(gdev_ptask_open(graph, NULL, module, task->kernel, &ptask), "open a ptask");
	must(gdev_ptask_set_geometry(ptask, task->grid, task->block, 0), "set the geometry");
	ptasks[ptask_count++] = ptask;
	for (unsigned i = 0; i < task->inputs; i++) {
		inputs[i] = open_port(ptask, (struct gdev_port_options){.name = "in",
						     .tmpl = templates[task->input[i]],
						     .parameter = parameter++});
		feed(task->input[i], inputs[i]);
	}
	if (task->in_place)
		output.in_out = inputs[0];
	makers[task->output] = open_port(ptask, output);
	set_arguments(ptask, task, parameter);
}

/* Arrays of one size have one template. */
static void open_template(const struct work *work, unsigned array)
{
	struct gdev_shape shape = {.stride = 4, .count = {work->bytes[array] / 4}};

	for (unsigned i = 0; i < array; i++)
		if (work->bytes[i] == work->bytes[array]) {
			templates[array] = templates[i];
			return;
		}
	must(gdev_template_open(graph, "array", &shape, &templates[array]), "open a template");
}

static void setup(struct work *work)
{
	struct gdev_graph_options options = {.name = program.name};

	options.vgpus = graph_vgpus;
	options.vgpu_count = graph_vgpu_count;
	options.schedule = (enum gdev_schedule)graph_schedule;
	options.lanes = graph_lanes;
	/* That of the variants by hand: two sessions would take turns. */
	if (!graph_vgpu_count)
		must(gdev_session_open(NULL, &options.session),
			"open the device; run it under `gdev run`");
	must(gdev_graph_open(&options, &graph), "open a graph");
	must(gdev_graph_load(graph, kernels_ptx, strlen(kernels_ptx) + 1, NULL, 0, &module),
		"load the kernels");
	for (unsigned i = 0; i < work->array_count; i++)
		open_template(work, i);
	for (unsigned i = 0; i < work->task_count; i++)
		add_task(&work->tasks[i]);
	for (unsigned i = 0; i < work->result_count; i++)
		must(gdev_channel_open(graph, makers[work->results[i]], NULL, NULL, &pulls[i]),
			"open a channel");
	must(gdev_graph_run(graph), "run the graph");
}

/* On one device a write goes straight to it. Where several may take the source, it would be copied to host memory first, and
 * from there to the device: the program's own memory is wrapped instead. */
static void open_source(struct work *work, unsigned source, struct gdev_datablock **block)
{
	struct gdev_template *tmpl = templates[source];
	void *contents = work->host[source];

	if (graph_vgpu_count) {
		must(gdev_datablock_wrap(graph, tmpl, 0, contents, NULL, NULL, block),
			"wrap a source");
		return;
	}
	must(gdev_datablock_create(graph, tmpl, 0, block), "create a datablock");
	must(gdev_datablock_write(*block, 0, contents, work->bytes[source]), "write it");
}

/* Whether what is pushed starts beside the writing of the next source. Small ones are all written first: their kernels then go to
 * the device together. */
static bool starts_at_once(const struct work *work, unsigned source)
{
	return work->bytes[source] > SMALL_BYTES;
}

/* A source that several tasks take is one datablock in several channels. */
void graph_push(struct work *work)
{
	static struct gdev_datablock *blocks[ARRAYS_MAX];
	unsigned opened = 0;

	for (unsigned i = 0; i < push_count; i++) {
		struct gdev_datablock *block;
		while (opened <= pushed[i] ||
			(opened < work->sources && !starts_at_once(work, opened))) {
			open_source(work, opened, &blocks[opened]);
			opened++;
		}
		block = blocks[pushed[i]];
		must(last_push[pushed[i]] == i ? gdev_push_give(pushes[i], block, GDEV_FOREVER)
					       : gdev_push(pushes[i], block, GDEV_FOREVER),
			"push");
	}
}

void graph_pull(struct work *work)
{
	for (unsigned i = 0; i < work->result_count; i++) {
		unsigned result = work->results[i];
		must(gdev_pull_bytes(
			     pulls[i], work->host[result], work->bytes[result], GDEV_FOREVER, NULL),
			"pull");
	}
}

static void do_round(struct work *work)
{
	graph_push(work);
	graph_pull(work);
}

double graph_moved_pct(void)
{
	uint64_t moved = 0, invocations = 0;
	struct gdev_ptask_info info;

	for (unsigned i = 0; i < ptask_count; i++) {
		must(gdev_ptask_query(ptasks[i], &info), "ask");
		moved += info.moved;
		invocations += info.invocations;
	}
	return invocations ? 100.0 * (double)moved / (double)invocations : 0;
}

const struct variant variant_graph = {"graph", setup, do_round};
