/* SPDX-License-Identifier: MIT
 *
 * What a hop between processes costs: a process pushes into a named graph of one empty ptask, and another one pulls. In a stream,
 * the time from one datablock to the next; alone, the time from a push to the pull of what comes of it. The baseline is as
 * many bytes through two pipes, with a thread of this process between. With arguments this program is one of these processes.
 */
#include <pthread.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "ptask_empty.h"

#define BATCH 500
#define BATCHES 40
#define ALONE 2000

extern char **environ;

static struct gdev_channel *find(struct gdev_graph *graph, const char *name)
{
	struct gdev_channel *channel;

	must(gdev_channel_find(graph, name, GDEV_FOREVER, &channel), "find a channel");
	return channel;
}

static void push_word(struct gdev_channel *channel, uint32_t value)
{
	must(gdev_push_bytes(channel, &value, sizeof value, GDEV_FOREVER), "push");
}

static void pull_word(struct gdev_channel *channel, uint32_t expected)
{
	uint32_t value = 0;

	must(gdev_pull_bytes(channel, &value, sizeof value, GDEV_FOREVER, NULL), "pull");
	bench_require(value != expected, "pull", "another value than was pushed");
}

/* ---- roles ---- */

static int be_pusher(struct gdev_graph *graph)
{
	struct gdev_channel *in = find(graph, "in");

	for (uint32_t i = 0; i < BATCH * BATCHES; i++)
		push_word(in, i);
	gdev_graph_close(graph);
	return 0;
}

/* Prints us a datablock, a batch a line. */
static int be_puller(struct gdev_graph *graph)
{
	struct gdev_channel *out = find(graph, "out");
	uint32_t next = 0;

	for (int batch = 0; batch < BATCHES; batch++) {
		double start = now_us();
		for (int i = 0; i < BATCH; i++)
			pull_word(out, next++);
		printf("%.3f\n", (now_us() - start) / BATCH);
	}
	gdev_graph_close(graph);
	return 0;
}

/* Prints us from a push to its pull. */
static int be_alone(struct gdev_graph *graph)
{
	struct gdev_channel *in = find(graph, "in"), *out = find(graph, "out");

	for (uint32_t i = 0; i < ALONE; i++) {
		double start = now_us();
		push_word(in, i);
		pull_word(out, i);
		printf("%.3f\n", now_us() - start);
	}
	gdev_graph_close(graph);
	return 0;
}

static int be(const char *role)
{
	struct gdev_graph *graph;

	must(gdev_graph_attach("bench-across", GDEV_FOREVER, &graph), "attach");
	return *role == 'i' ? be_pusher(graph) : *role == 'o' ? be_puller(graph) : be_alone(graph);
}

/* ---- the graph ---- */

static struct gdev_graph *open_graph(void)
{
	struct gdev_graph_options options = {.name = "bench-across", .mode = 0600};
	struct gdev_channel_options in = {.name = "in", .keep = true},
				    out = {.name = "out", .keep = true};
	struct gdev_port_options from = {.kind = GDEV_PORT_INPUT}, to = {.kind = GDEV_PORT_OUTPUT};
	struct gdev_shape shape = {.stride = 4, .count = {1}};
	const uint32_t one[3] = {1, 1, 1};
	struct gdev_graph_module *module;
	struct gdev_channel *ignored;
	struct gdev_ptask *ptask;
	struct gdev_graph *graph;
	struct gdev_port *end;

	must(gdev_graph_open(&options, &graph), "open a graph; run it under `gdev run`");
	must(gdev_graph_load(graph, empty_ptx, sizeof empty_ptx, NULL, 0, &module),
		"load the kernel");
	must(gdev_template_open(graph, "word", &shape, &from.tmpl), "open a template");
	must(gdev_ptask_open(graph, NULL, module, "empty", &ptask), "open a ptask");
	must(gdev_ptask_set_geometry(ptask, one, one, 0), "set the geometry");
	must(gdev_port_open(ptask, &from, &to.in_out), "open a port");
	must(gdev_port_open(ptask, &to, &end), "open a port");
	must(gdev_channel_open(graph, NULL, to.in_out, &in, &ignored), "open a channel");
	must(gdev_channel_open(graph, end, NULL, &out, &ignored), "open a channel");
	must(gdev_graph_run(graph), "run the graph");
	return graph;
}

static pid_t start(char *role, FILE **output)
{
	char self[] = "ptask_across", *argv[] = {self, role, NULL};
	posix_spawn_file_actions_t actions;
	int ends[2] = {-1, -1};
	pid_t pid;

	bench_require(pipe(ends), "make a pipe", "there are no descriptors left");
	posix_spawn_file_actions_init(&actions);
	posix_spawn_file_actions_adddup2(&actions, ends[1], STDOUT_FILENO);
	posix_spawn_file_actions_addclose(&actions, ends[0]);
	posix_spawn_file_actions_addclose(&actions, ends[1]);
	bench_require(posix_spawn(&pid, "/proc/self/exe", &actions, NULL, argv, environ),
		"start a process", "posix_spawn has failed");
	posix_spawn_file_actions_destroy(&actions);
	close(ends[1]);
	*output = fdopen(ends[0], "r");
	return pid;
}

static void finish(pid_t pid, FILE *output, struct samples *samples)
{
	double value;
	int status;

	while (fscanf(output, "%lf", &value) == 1)
		samples_add(samples, value);
	fclose(output);
	waitpid(pid, &status, 0);
	bench_require(status, "another process", "it has failed");
}

/* ---- the baseline ---- */

struct pipes {
	int in[2], out[2];
};

static void *relay(void *argument)
{
	const struct pipes *pipes = argument;
	uint32_t value;

	while (read(pipes->in[0], &value, sizeof value) == (ssize_t)sizeof value)
		if (write(pipes->out[1], &value, sizeof value) != (ssize_t)sizeof value)
			break;
	return NULL;
}

static void write_words(int fd, unsigned count)
{
	for (uint32_t i = 0; i < count; i++)
		if (write(fd, &i, sizeof i) != (ssize_t)sizeof i)
			_exit(1);
}

static void read_word(int fd, uint32_t expected)
{
	uint32_t value = 0;

	bench_require(read(fd, &value, sizeof value) != (ssize_t)sizeof value || value != expected,
		"read from a pipe", "another value than was written");
}

static void measure_pipes(struct samples *stream_us, struct samples *alone_us)
{
	struct pipes pipes;
	pthread_t thread;
	pid_t writer;

	bench_require(
		pipe(pipes.in) || pipe(pipes.out), "make pipes", "there are no descriptors left");
	writer = fork();
	if (!writer) {
		write_words(pipes.in[1], BATCH * BATCHES);
		_exit(0);
	}
	bench_require(pthread_create(&thread, NULL, relay, &pipes), "start a thread", "no thread");
	for (uint32_t batch = 0; batch < BATCHES; batch++) {
		double start = now_us();
		for (uint32_t i = 0; i < BATCH; i++)
			read_word(pipes.out[0], batch * BATCH + i);
		samples_add(stream_us, (now_us() - start) / BATCH);
	}
	waitpid(writer, NULL, 0);
	for (uint32_t i = 0; i < BENCH_SAMPLES_MAX; i++) {
		double start = now_us();
		if (write(pipes.in[1], &i, sizeof i) != (ssize_t)sizeof i)
			break;
		read_word(pipes.out[0], i);
		samples_add(alone_us, now_us() - start);
	}
	close(pipes.in[1]);
	pthread_join(thread, NULL);
}

int main(int argc, char **argv)
{
	static struct samples stream_us, alone_us, pipe_us, pipe_alone_us;
	char in[] = "in", out[] = "out", alone[] = "alone";
	struct gdev_graph *graph;
	FILE *outputs[2];
	pid_t pids[2];

	if (argc == 2)
		return be(argv[1]);
	measure_pipes(&pipe_us, &pipe_alone_us);
	graph = open_graph();
	pids[0] = start(in, &outputs[0]);
	pids[1] = start(out, &outputs[1]);
	finish(pids[1], outputs[1], &stream_us);
	finish(pids[0], outputs[0], &stream_us);
	pids[0] = start(alone, &outputs[0]);
	finish(pids[0], outputs[0], &alone_us);
	bench_report("ptask", "invoke_across_us", "us", &stream_us, &pipe_us);
	bench_report("ptask", "invoke_across_alone_us", "us", &alone_us, &pipe_alone_us);
	gdev_graph_close(graph);
	return 0;
}
