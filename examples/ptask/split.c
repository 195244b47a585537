/* SPDX-License-Identifier: MIT
 *
 * One pipeline of three processes: each contributes its own kernel to the graph "split", and nobody has the code of another.
 * The first pushes numbers into its kernel; the second goes when its kernel is there; the last owns the graph, waits for the
 * others' kernels, runs the graph, and pulls.
 *
 *   push ─▶ scale ─▶ shift ─▶ square ─▶ pull
 *
 * usage: ptask-split                            all three, two of them as children of this process
 *        ptask-split scale | shift | square     one of them, each in a terminal of its own, in any order
 */
#include <gdev/ptask.h>

#include <errno.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

#define N 1024
#define ROUNDS 100
extern const char kernels_ptx[];
extern char **environ;

static struct gdev_graph *graph;

static void must(int error, const char *what)
{
	char why[GDEV_WHY_BYTES] = "";

	if (!error)
		return;
	if (graph)
		gdev_graph_why(graph, why);
	exit(fprintf(stderr, "split: %s: %s (%s); run it under `gdev run`\n", what,
		gdev_strerror(error), why));
}

/* A ptask with the ports `in` and `out`, of a kernel of this process's. */
struct part {
	struct gdev_ptask *ptask;
	struct gdev_port *in, *out;
};

static struct part open_part(const char *kernel, const float *number)
{
	struct gdev_shape numbers = {.stride = sizeof(float), .count = {N}};
	struct gdev_port_options in = {.name = "in", .parameter = 1},
				 out = {.name = "out", .kind = GDEV_PORT_OUTPUT};
	struct gdev_graph_module *module;
	struct part part;

	must(gdev_graph_load(graph, kernels_ptx, strlen(kernels_ptx) + 1, NULL, 0, &module),
		"load");
	must(gdev_template_open(graph, "numbers", &numbers, &in.tmpl), "template");
	out.tmpl = in.tmpl;
	must(gdev_ptask_open(graph, kernel, module, kernel, &part.ptask), "ptask");
	must(gdev_port_open(part.ptask, &in, &part.in), "port");
	must(gdev_port_open(part.ptask, &out, &part.out), "port");
	if (number)
		must(gdev_ptask_set_argument(part.ptask, 2, number, sizeof *number), "argument");
	return part;
}

/* A channel from the port of another process. */
static void follow(const char *name, struct gdev_port *in)
{
	struct gdev_channel *channel;
	struct gdev_port *out;

	must(gdev_port_find(graph, name, GDEV_FOREVER, &out), name);
	must(gdev_channel_open(graph, out, in, NULL, &channel), "channel");
}

static int play_scale(void)
{
	const float two = 2;
	struct gdev_channel *channel;
	float numbers[N];
	struct part part;

	must(gdev_graph_attach("split", GDEV_FOREVER, &graph), "attach");
	part = open_part("scale", &two);
	must(gdev_channel_open(graph, NULL, part.in, NULL, &channel), "channel");
	must(gdev_graph_run(graph), "complete");
	for (int round = 0; round < ROUNDS; round++) {
		for (int i = 0; i < N; i++)
			numbers[i] = (float)(round + i);
		must(gdev_push_bytes(channel, numbers, sizeof numbers, GDEV_FOREVER), "push");
	}
	gdev_graph_close(graph); /* the end of the stream */
	return 0;
}

/* Contributes, and goes: its kernel stays. */
static int play_shift(void)
{
	const float one = 1;
	struct part part;

	must(gdev_graph_attach("split", GDEV_FOREVER, &graph), "attach");
	part = open_part("shift", &one);
	follow("scale.out", part.in);
	must(gdev_graph_run(graph), "complete");
	gdev_graph_close(graph);
	return 0;
}

static int play_square(void)
{
	struct gdev_graph_options options = {.name = "split", .mode = 0600};
	struct gdev_channel *channel;
	struct part part;
	float numbers[N];
	int round = 0, error, wrong = 0;

	must(gdev_graph_open(&options, &graph), "open");
	part = open_part("square", NULL);
	follow("shift.out", part.in);
	must(gdev_channel_open(graph, part.out, NULL, NULL, &channel), "channel");
	must(gdev_graph_run(graph), "run");
	while (!(error = gdev_pull_bytes(channel, numbers, sizeof numbers, GDEV_FOREVER, NULL))) {
		for (int i = 0; i < N; i++) {
			float root = 2.0f * (float)(round + i) + 1;
			wrong += numbers[i] != root * root;
		}
		round++;
	}
	must(error == -ENODATA ? 0 : error, "pull");
	gdev_graph_close(graph);
	printf("%d rounds of (2 * i + 1)^2 by three processes, %d numbers wrong\n", round, wrong);
	return round != ROUNDS || wrong;
}

static int play(char *role)
{
	if (!strcmp(role, "scale"))
		return play_scale();
	return !strcmp(role, "shift") ? play_shift() : !strcmp(role, "square") ? play_square() : 2;
}

int main(int argc, char **argv)
{
	char scale[] = "scale", shift[] = "shift", *roles[] = {scale, shift};
	pid_t children[2];
	int result, status;

	if (argc == 2)
		return play(argv[1]);
	for (int i = 0; i < 2; i++) {
		char *arguments[] = {argv[0], roles[i], NULL};
		if (posix_spawn(&children[i], "/proc/self/exe", NULL, NULL, arguments, environ))
			return 1;
	}
	result = play_square();
	for (int i = 0; i < 2; i++)
		result |= waitpid(children[i], &status, 0) < 0 || status;
	return result;
}
