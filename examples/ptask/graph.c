/* SPDX-License-Identifier: MIT
 *
 * The work as a PTask graph: what flows where, and no copy.
 */
#include <gdev/ptask.h>

#include <string.h>

#include "ptask/work.h"

const char *graph_vgpus[8];
unsigned graph_vgpu_count, graph_schedule;

static struct gdev_graph *graph;
static struct gdev_ptask *ptasks[ARRAYS_MAX];
static unsigned ptask_count;
static struct gdev_graph_module *module;
static struct gdev_template *array;
static struct gdev_port *makers[ARRAYS_MAX]; /* of an array; NULL: a source */
static struct gdev_channel *pushes[2 * ARRAYS_MAX], *pulls[ARRAYS_MAX];
static unsigned pushed[2 * ARRAYS_MAX], push_count; /* the source of each */

static void must(int error, const char *what)
{
	char why[GDEV_WHY_BYTES] = "";

	if (error && graph)
		gdev_graph_why(graph, why);
	require(!error, what, *why ? why : gdev_strerror(error));
}

static void feed(unsigned source, struct gdev_port *to)
{
	struct gdev_channel *channel;

	must(gdev_channel_open(graph, makers[source], to, NULL, &channel), "open a channel");
	if (makers[source])
		return;
	pushed[push_count] = source;
	pushes[push_count++] = channel;
}

static struct gdev_port *open_port(struct gdev_ptask *ptask, struct gdev_port_options options)
{
	struct gdev_port *port;

	must(gdev_port_open(ptask, &options, &port), "open a port");
	return port;
}

static void add_task(const struct work *work, const struct work_task *task)
{
	struct gdev_port_options output = {.name = "out", .kind = GDEV_PORT_OUTPUT, .tmpl = array};
	struct gdev_ptask *ptask;
	struct gdev_port *input = NULL;
	unsigned parameter = !task->in_place;
	uint64_t none = 0;

	must(gdev_ptask_open(graph, NULL, module, task->kernel, &ptask), "open a ptask");
	must(gdev_ptask_set_geometry(ptask, work->grid, work->block, 0), "set the geometry");
	ptasks[ptask_count++] = ptask;
	for (unsigned i = 0; i < task->inputs; i++) {
		input = open_port(ptask,
			(struct gdev_port_options){
				.name = i ? "b" : "a", .tmpl = array, .parameter = parameter++});
		feed(task->input[i], input);
	}
	for (unsigned i = task->inputs; i < task->pointers; i++)
		must(gdev_ptask_set_argument(ptask, parameter++, &none, sizeof none),
			"set an argument");
	if (task->in_place)
		output.in_out = input;
	makers[task->output] = open_port(ptask, output);
	for (unsigned i = 0; i < task->argument_count; i++)
		must(gdev_ptask_set_argument(
			     ptask, parameter++, &task->arguments[i], sizeof(uint32_t)),
			"set an argument");
}

static void setup(struct work *work)
{
	struct gdev_shape shape = {.stride = work->element_bytes};
	struct gdev_graph_options options = {.name = program.name};

	memcpy(shape.count, work->count, sizeof shape.count);
	options.vgpus = graph_vgpus;
	options.vgpu_count = graph_vgpu_count;
	options.schedule = (enum gdev_schedule)graph_schedule;
	/* That of the variants by hand: two sessions would take turns. */
	if (!graph_vgpu_count)
		must(gdev_session_open(NULL, &options.session),
			"open the device; run it under `gdev run`");
	must(gdev_graph_open(&options, &graph), "open a graph");
	must(gdev_graph_load(graph, kernels_ptx, strlen(kernels_ptx) + 1, NULL, 0, &module),
		"load the kernels");
	must(gdev_template_open(graph, "array", &shape, &array), "open a template");
	for (unsigned i = 0; i < work->task_count; i++)
		add_task(work, &work->tasks[i]);
	for (unsigned i = 0; i < work->result_count; i++)
		must(gdev_channel_open(graph, makers[work->results[i]], NULL, NULL, &pulls[i]),
			"open a channel");
	must(gdev_graph_run(graph), "run the graph");
}

/* A source that several tasks take is one datablock in several channels. */
static void push_source(struct work *work, unsigned source)
{
	struct gdev_datablock *block;

	must(gdev_datablock_create(graph, array, 0, &block), "create a datablock");
	must(gdev_datablock_write(block, 0, work->host[source], work->bytes), "write it");
	for (unsigned i = 0; i < push_count; i++)
		if (pushed[i] == source)
			must(gdev_push(pushes[i], block, GDEV_FOREVER), "push");
	gdev_datablock_put(block);
}

static void do_round(struct work *work)
{
	for (unsigned i = 0; i < work->sources; i++)
		push_source(work, i);
	for (unsigned i = 0; i < work->result_count; i++)
		must(gdev_pull_bytes(pulls[i], work->host[work->results[i]], work->bytes,
			     GDEV_FOREVER, NULL),
			"pull");
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
