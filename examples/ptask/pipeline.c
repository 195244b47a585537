/* SPDX-License-Identifier: MIT
 *
 * The smallest PTask program: numbers are pushed, scaled on the device, added up by a callback, and pulled.
 */
#include <gdev/ptask.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define N 1024
extern const char kernels_ptx[]; /* scale(float *out, const float *in, float factor) */

static int add_up(void *unused, const struct gdev_view *inputs, struct gdev_view *outputs)
{
	double *sum = outputs[0].data;

	for (uint64_t i = 0; i < inputs[0].records; i++)
		*sum += ((const float *)inputs[0].data)[i];
	return 0;
}

static void must(int error)
{
	if (error)
		exit(fprintf(
			stderr, "pipeline: %s; run it under `gdev run`\n", gdev_strerror(error)));
}

int main(void)
{
	struct gdev_shape numbers = {.stride = sizeof(float), .count = {N}};
	struct gdev_shape number = {.stride = sizeof(double), .count = {1}};
	struct gdev_port_options in = {.name = "in", .parameter = 1},
				 out = {.kind = GDEV_PORT_OUTPUT};
	struct gdev_graph *graph;
	struct gdev_graph_module *module;
	struct gdev_ptask *scale, *sum;
	struct gdev_port *scaled, *unscaled, *summands, *summed;
	struct gdev_channel *from, *between, *to;
	float input[N], factor = 2;
	double result;

	must(gdev_graph_open(NULL, &graph));
	must(gdev_graph_load(graph, kernels_ptx, strlen(kernels_ptx) + 1, NULL, 0, &module));
	must(gdev_template_open(graph, "numbers", &numbers, &in.tmpl));
	must(gdev_ptask_open(graph, NULL, module, "scale", &scale));
	must(gdev_ptask_set_argument(scale, 2, &factor, sizeof factor));
	must(gdev_port_open(scale, &in, &unscaled));
	out.tmpl = in.tmpl;
	must(gdev_port_open(scale, &out, &scaled));
	must(gdev_ptask_open_host(graph, "sum", add_up, NULL, &sum));
	must(gdev_port_open(sum, &in, &summands));
	must(gdev_template_open(graph, "number", &number, &out.tmpl));
	must(gdev_port_open(sum, &out, &summed));
	must(gdev_channel_open(graph, NULL, unscaled, NULL, &from));
	must(gdev_channel_open(graph, scaled, summands, NULL, &between));
	must(gdev_channel_open(graph, summed, NULL, NULL, &to));
	must(gdev_graph_run(graph));
	for (int i = 0; i < N; i++)
		input[i] = (float)i;
	must(gdev_push_bytes(from, input, sizeof input, GDEV_FOREVER));
	must(gdev_pull_bytes(to, &result, sizeof result, GDEV_FOREVER, NULL));
	printf("2 * (0 + 1 + ... + %d) = %.0f\n", N - 1, result);
	gdev_graph_close(graph);
	return result == (double)N * (N - 1) ? 0 : 1;
}
