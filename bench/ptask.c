/* SPDX-License-Identifier: MIT
 *
 * What invoking an empty ptask costs the process: a chain of them, through which one datablock goes at a time; the processor
 * time of the push, which sends them all. The baseline is launching the same kernel as often with gdev_launch_async().
 */
#include <string.h>
#include <time.h>

#include "ptask_empty.h"

#define CHAIN 64
#define TURNS 200

static struct gdev_session *session;
static struct gdev_channel *in, *out;
static struct gdev_stream *stream;
static struct gdev_function *function;
static struct samples graph_us, launch_us;

static double cpu_us(void)
{
	struct timespec now;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
	return (double)now.tv_sec * 1e6 + (double)now.tv_nsec / 1e3;
}

static void build(struct gdev_graph *graph)
{
	struct gdev_shape shape = {.stride = 4, .count = {1}};
	const uint32_t one[3] = {1, 1, 1};
	struct gdev_graph_module *module;
	struct gdev_template *word;
	struct gdev_port *before = NULL;

	must(gdev_graph_load(graph, empty_ptx, sizeof empty_ptx, NULL, 0, &module),
		"load the kernel");
	must(gdev_template_open(graph, "word", &shape, &word), "open a template");
	for (int i = 0; i < CHAIN; i++) {
		struct gdev_port_options from = {.tmpl = word}, to = {.kind = GDEV_PORT_OUTPUT};
		struct gdev_ptask *ptask;
		struct gdev_channel *channel;
		must(gdev_ptask_open(graph, NULL, module, "empty", &ptask), "open a ptask");
		must(gdev_ptask_set_geometry(ptask, one, one, 0), "set the geometry");
		must(gdev_port_open(ptask, &from, &to.in_out), "open a port");
		must(gdev_channel_open(graph, before, to.in_out, NULL, &channel), "open a channel");
		if (!before)
			in = channel;
		must(gdev_port_open(ptask, &to, &before), "open a port");
	}
	must(gdev_channel_open(graph, before, NULL, NULL, &out), "open a channel");
	must(gdev_graph_run(graph), "run the graph");
}

static void invoke_all(struct gdev_graph *graph, struct gdev_template *word)
{
	uint32_t value = 1;
	struct gdev_datablock *block;
	double start;

	must(gdev_datablock_create(graph, word, 0, &block), "create a datablock");
	must(gdev_datablock_write(block, 0, &value, sizeof value), "write it");
	start = cpu_us();
	must(gdev_push(in, block, GDEV_FOREVER), "push");
	samples_add(&graph_us, (cpu_us() - start) / CHAIN);
	gdev_datablock_put(block);
	must(gdev_pull(out, GDEV_FOREVER, &block), "pull");
	gdev_datablock_put(block);
}

static void launch_all(void)
{
	uint64_t nothing = 0;
	struct gdev_launch launch = {.function = function,
		.grid = {1, 1, 1},
		.block = {1, 1, 1},
		.params = &nothing,
		.param_bytes = sizeof nothing};
	double start = cpu_us();

	for (int i = 0; i < CHAIN; i++)
		must(gdev_launch_async(stream, &launch), "launch");
	samples_add(&launch_us, (cpu_us() - start) / CHAIN);
	must(gdev_stream_sync(stream), "wait");
}

int main(void)
{
	struct gdev_shape shape = {.stride = 4, .count = {1}};
	struct gdev_graph_options options = {.name = "empty"};
	struct gdev_module *module;
	struct gdev_template *word;
	struct gdev_graph *graph;

	must(gdev_session_open(NULL, &session), "open the device; run it under `gdev run`");
	must(gdev_stream_create(session, 0, &stream), "create a stream");
	must(gdev_module_load(session, empty_ptx, sizeof empty_ptx, NULL, 0, &module),
		"load the kernel");
	must(gdev_module_function(module, "empty", &function), "find the kernel");
	options.session = session;
	must(gdev_graph_open(&options, &graph), "open a graph");
	build(graph);
	must(gdev_template_open(graph, "word", &shape, &word), "open a template");
	for (int i = 0; i < TURNS; i++) {
		invoke_all(graph, word);
		launch_all();
	}
	bench_report("ptask", "invoke_us", "us", &graph_us, &launch_us);
	gdev_graph_close(graph);
	gdev_session_close(session);
	return 0;
}
