/* SPDX-License-Identifier: MIT
 * The smallest PTask program: numbers are pushed, scaled on the device, added up by a callback, and pulled. */
#include <gdev/ptask.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#define must(call) (error = call) ? exit(fprintf(stderr, "%s\n", gdev_strerror(error))) : (void)0
extern const char kernels_ptx[]; /* scale(float *out, const float *in, float factor) */

static int add_up(void *argument, const struct gdev_view *inputs, struct gdev_view *outputs)
{
	float *sum = memset(outputs->data, 0, sizeof *sum);
	for (uint64_t i = 0; i < inputs->records; i++)
		*sum += ((const float *)inputs->data)[i];
	return 0;
}

int main(void)
{
	struct gdev_shape many = {.stride = 4, .count = {256}}, one = {.stride = 4, .count = {1}};
	struct gdev_port_options in = {.parameter = 1}, out = {.kind = GDEV_PORT_OUTPUT};
	float input[256] = {1, 2, 3, 4}, factor = 2, result;
	struct gdev_graph *graph;
	struct gdev_graph_module *module;
	struct gdev_ptask *scale, *sum;
	struct gdev_port *unscaled, *scaled, *summands, *summed;
	struct gdev_channel *first, *between, *last;
	int error;

	must(gdev_graph_open(NULL, &graph));
	must(gdev_graph_load(graph, kernels_ptx, strlen(kernels_ptx) + 1, NULL, 0, &module));
	must(gdev_template_open(graph, "many", &many, &in.tmpl));
	out.tmpl = in.tmpl;
	must(gdev_ptask_open(graph, "scale", module, "scale", &scale));
	must(gdev_ptask_set_argument(scale, 2, &factor, sizeof factor));
	must(gdev_port_open(scale, &in, &unscaled));
	must(gdev_port_open(scale, &out, &scaled));
	must(gdev_ptask_open_host(graph, "sum", add_up, NULL, &sum));
	must(gdev_port_open(sum, &in, &summands));
	must(gdev_template_open(graph, "one", &one, &out.tmpl));
	must(gdev_port_open(sum, &out, &summed));
	must(gdev_channel_open(graph, NULL, unscaled, NULL, &first));
	must(gdev_channel_open(graph, scaled, summands, NULL, &between));
	must(gdev_channel_open(graph, summed, NULL, NULL, &last));
	must(gdev_graph_run(graph));
	must(gdev_push_bytes(first, input, sizeof input, GDEV_FOREVER));
	must(gdev_pull_bytes(last, &result, sizeof result, GDEV_FOREVER, NULL));
	gdev_graph_close(graph);
	return printf("2 * (1 + 2 + 3 + 4) = %g\n", result) < 0 || result != 20;
}
