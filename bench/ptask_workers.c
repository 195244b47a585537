/* SPDX-License-Identifier: MIT
 *
 * What hops between workers cost: a datablock goes through three ptasks that do nothing, of which another process has contributed
 * the middle one. There it runs in a session of its own, and so in another worker: two hops. The baseline is the same with all three
 * in the worker of the graph. In a stream, the time from one datablock to the next, also of 4 MiB each; alone, the time from a push
 * to the pull of what comes of it. With arguments this program is the other process.
 */
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "ptask_empty.h"

#define BATCH 100
#define BATCHES 20
#define AHEAD 8
#define LARGE (4u << 20)

extern char **environ;

/* A ptask that gives on what it gets. */
struct stage {
	struct gdev_ptask *ptask;
	struct gdev_port *in, *out;
};

static struct stage open_stage(struct gdev_graph *graph, const char *name, uint64_t bytes)
{
	struct gdev_port_options in = {.name = "in", .kind = GDEV_PORT_INPUT},
				 out = {.name = "out", .kind = GDEV_PORT_OUTPUT};
	struct gdev_shape shape = {.stride = 4, .count = {bytes / 4}};
	const uint32_t one[3] = {1, 1, 1};
	struct gdev_graph_module *module;
	struct stage stage;

	must(gdev_graph_load(graph, empty_ptx, sizeof empty_ptx, NULL, 0, &module),
		"load the kernel");
	must(gdev_template_open(graph, NULL, &shape, &in.tmpl), "open a template");
	must(gdev_ptask_open(graph, name, module, "empty", &stage.ptask), "open a ptask");
	must(gdev_ptask_set_geometry(stage.ptask, one, one, 0), "set the geometry");
	must(gdev_port_open(stage.ptask, &in, &stage.in), "open a port");
	out.in_out = stage.in;
	must(gdev_port_open(stage.ptask, &out, &stage.out), "open a port");
	return stage;
}

static struct gdev_channel *connect(
	struct gdev_graph *graph, struct gdev_port *from, struct gdev_port *to)
{
	struct gdev_channel *channel;

	must(gdev_channel_open(graph, from, to, NULL, &channel), "open a channel");
	return channel;
}

/* ---- the other process ---- */

static int contribute(bool own, uint64_t bytes)
{
	struct gdev_ptask_info info = {0};
	struct gdev_graph *graph;
	struct stage stage;

	must(own ? gdev_graph_attach_own("bench-workers", NULL, GDEV_FOREVER, &graph)
		 : gdev_graph_attach("bench-workers", GDEV_FOREVER, &graph),
		"attach");
	stage = open_stage(graph, "middle", bytes);
	must(gdev_graph_run(graph), "complete the part");
	while (!info.ended && !gdev_ptask_query(stage.ptask, &info))
		usleep(10000);
	gdev_graph_close(graph);
	return 0;
}

static pid_t start(bool own, uint64_t bytes)
{
	char self[] = "ptask_workers", role[] = "own", size[32], *argv[] = {self, role, size, NULL};
	pid_t pid;

	if (!own)
		strcpy(role, "-");
	snprintf(size, sizeof size, "%llu", (unsigned long long)bytes);
	bench_require(posix_spawn(&pid, "/proc/self/exe", NULL, NULL, argv, environ),
		"start a process", "posix_spawn has failed");
	return pid;
}

/* ---- the graph ---- */

struct line {
	struct gdev_graph *graph;
	struct gdev_channel *in, *out;
	uint32_t *data;
	uint64_t bytes;
	uint32_t pushed, pulled;
	pid_t other;
};

static struct line open_line(bool own, uint64_t bytes)
{
	struct gdev_graph_options options = {.name = "bench-workers", .mode = 0600};
	struct line line = {.bytes = bytes, .data = calloc(1, bytes)};
	struct gdev_port *middle_in, *middle_out;
	struct stage first, last;

	bench_require(!line.data, "allocate memory", "there is none");
	must(gdev_graph_open(&options, &line.graph), "open a graph; run it under `gdev run`");
	line.other = start(own, bytes);
	first = open_stage(line.graph, "first", bytes);
	last = open_stage(line.graph, "last", bytes);
	must(gdev_port_find(line.graph, "middle.in", GDEV_FOREVER, &middle_in), "find a port");
	must(gdev_port_find(line.graph, "middle.out", GDEV_FOREVER, &middle_out), "find a port");
	line.in = connect(line.graph, NULL, first.in);
	connect(line.graph, first.out, middle_in);
	connect(line.graph, middle_out, last.in);
	line.out = connect(line.graph, last.out, NULL);
	must(gdev_graph_run(line.graph), "run the graph");
	return line;
}

static void close_line(struct line *line)
{
	int status;

	must(gdev_channel_end(line->in), "end the channel");
	waitpid(line->other, &status, 0);
	bench_require(status, "the other process", "it has failed");
	gdev_graph_close(line->graph);
	free(line->data);
}

static void push(struct line *line)
{
	line->data[0] = line->pushed++;
	must(gdev_push_bytes(line->in, line->data, line->bytes, GDEV_FOREVER), "push");
}

static void pull(struct line *line)
{
	must(gdev_pull_bytes(line->out, line->data, line->bytes, GDEV_FOREVER, NULL), "pull");
	bench_require(line->data[0] != line->pulled++, "pull", "another value than was pushed");
}

static void measure_stream(struct line *line, struct samples *samples, unsigned batch)
{
	for (unsigned i = 0; i < AHEAD; i++)
		push(line);
	for (unsigned i = 0; i < BATCHES; i++) {
		double begin = now_us();
		for (unsigned k = 0; k < batch; k++) {
			push(line);
			pull(line);
		}
		samples_add(samples, (now_us() - begin) / batch);
	}
	while (line->pulled != line->pushed)
		pull(line);
}

static void measure_alone(struct line *line, struct samples *samples)
{
	for (unsigned i = 0; i < BENCH_SAMPLES_MAX; i++) {
		double begin = now_us();
		push(line);
		pull(line);
		samples_add(samples, now_us() - begin);
	}
}

int main(int argc, char **argv)
{
	/* Of one worker, and of two. */
	static struct samples stream_us[2], alone_us[2], large_us[2];

	if (argc == 3)
		return contribute(!strcmp(argv[1], "own"), strtoull(argv[2], NULL, 10));
	for (unsigned own = 0; own < 2; own++) {
		struct line line = open_line(own, sizeof(uint32_t));
		measure_stream(&line, &stream_us[own], BATCH);
		measure_alone(&line, &alone_us[own]);
		close_line(&line);
		line = open_line(own, LARGE);
		measure_stream(&line, &large_us[own], 2);
		close_line(&line);
	}
	bench_report("ptask", "invoke_workers_us", "us", &stream_us[1], &stream_us[0]);
	bench_report("ptask", "invoke_workers_alone_us", "us", &alone_us[1], &alone_us[0]);
	bench_report("ptask", "invoke_workers_4m_us", "us", &large_us[1], &large_us[0]);
	return 0;
}
