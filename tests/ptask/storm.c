/* SPDX-License-Identifier: MIT
 *
 * The processes of test_storm.py:
 *   storm own GRAPHS NAMED   owns so many graphs of 36 ptasks each in one session, of which the first have names, which it
 *                            prints, and the next one is everybody's, and printed behind a `!`; until it is killed
 *   storm use NAME           pushes into that graph and pulls from it, until its owner is gone: then 0
 *   storm spoil NAME SEED    the same as another user, while a thread writes anything into the memory that both map; however
 *                            it ends
 */
#include <errno.h>
#include <grp.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <gdev/ptask.h>

#define PTASKS 36

static const char increment_ptx[] = ".version 6.0\n.target sm_70\n.address_size 64\n"
				    ".visible .entry increment(.param .u64 at)\n{\n"
				    ".reg .b64 %a;\n.reg .b32 %v;\n"
				    "ld.param.u64 %a, [at];\nld.global.u32 %v, [%a];\n"
				    "add.u32 %v, %v, 1;\nst.global.u32 [%a], %v;\nret;\n}\n";

static void must(int error, const char *what)
{
	if (!error)
		return;
	fprintf(stderr, "storm: %s: %s\n", what, gdev_strerror(error));
	_exit(1);
}

static void build(struct gdev_graph *graph)
{
	struct gdev_channel_options in = {.name = "in", .keep = true},
				    out = {.name = "out", .keep = true};
	struct gdev_shape shape = {.stride = 4, .count = {1}};
	const uint32_t one[3] = {1, 1, 1};
	struct gdev_graph_module *module;
	struct gdev_port *before = NULL;
	struct gdev_channel *channel;
	struct gdev_template *word;
	struct gdev_ptask *ptask;

	must(gdev_graph_load(graph, increment_ptx, sizeof increment_ptx, NULL, 0, &module), "load");
	must(gdev_template_open(graph, "word", &shape, &word), "template");
	for (int i = 0; i < PTASKS; i++) {
		struct gdev_port_options from = {.tmpl = word}, to = {.kind = GDEV_PORT_OUTPUT};
		must(gdev_ptask_open(graph, NULL, module, "increment", &ptask), "ptask");
		must(gdev_ptask_set_geometry(ptask, one, one, 0), "geometry");
		must(gdev_port_open(ptask, &from, &to.in_out), "port");
		must(gdev_channel_open(graph, before, to.in_out, before ? NULL : &in, &channel),
			"channel");
		must(gdev_port_open(ptask, &to, &before), "port");
	}
	must(gdev_channel_open(graph, before, NULL, &out, &channel), "channel");
	must(gdev_graph_run(graph), "run");
}

static void own(int graphs, int named)
{
	struct gdev_session *session;
	char name[48];

	must(gdev_session_open(NULL, &session), "open a session");
	for (int i = 0; i < graphs; i++) {
		struct gdev_graph_options options = {.name = name, .session = session};
		struct gdev_graph *graph;
		snprintf(name, sizeof name, "storm-%d-%d", (int)getpid(), i);
		if (i <= named)
			options.mode = i < named ? 0600 : 0666;
		must(gdev_graph_open(&options, &graph), "open a graph");
		build(graph);
		if (i <= named)
			printf("%s%s\n", i < named ? "" : "!", name);
	}
	puts(".");
	fflush(stdout);
	for (;;)
		pause();
}

static uint64_t in_a_while(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return ((uint64_t)now.tv_sec + 3) * 1000000000u + (uint64_t)now.tv_nsec;
}

/* Others use the graph, too: what comes out is any that went in. */
static int use(const char *name)
{
	struct gdev_channel *in, *out;
	struct gdev_graph *graph;
	uint32_t value = 7;
	int error = gdev_graph_attach(name, in_a_while(), &graph);

	if (error == -ETIMEDOUT || error == -GDEV_E_SESSION_LOST)
		return 0; /* its owner is gone, or just going */
	must(error, "attach");
	error = gdev_channel_find(graph, "in", GDEV_FOREVER, &in);
	if (!error)
		error = gdev_channel_find(graph, "out", GDEV_FOREVER, &out);
	while (!error) {
		value = 7;
		error = gdev_push_bytes(in, &value, sizeof value, GDEV_FOREVER);
		if (!error)
			error = gdev_pull_bytes(out, &value, sizeof value, GDEV_FOREVER, NULL);
		if (!error && value != 7 + PTASKS) {
			fprintf(stderr, "storm: %u and not %u\n", value, 7 + PTASKS);
			return 1;
		}
	}
	if (error != -GDEV_E_SESSION_LOST)
		must(error, "push and pull");
	return 0;
}

/* ---- spoiling ---- */

#define MAPS_MAX 16
#define RARELY 4096 /* so that requests come through before the words between them are spoilt */

struct map {
	char *from;
	size_t bytes;
};

/* What of this process is named so in /proc/self/maps, and can be written. */
static int find_maps(const char *name, struct map maps[MAPS_MAX])
{
	FILE *file = fopen("/proc/self/maps", "r");
	char line[256], how[8];
	unsigned long from, to;
	int count = 0;

	while (file && count < MAPS_MAX && fgets(line, sizeof line, file))
		if (strstr(line, name) && sscanf(line, "%lx-%lx %7s", &from, &to, how) == 3 &&
			how[1] == 'w')
			maps[count++] = (struct map){(char *)from, to - from};
	if (file)
		fclose(file);
	return count;
}

/* A word, of any value or a small one, in the first part of a mapping: there is what is used. */
static void *scribble(void *seed)
{
	unsigned state = *(unsigned *)seed;
	struct map maps[MAPS_MAX];
	int count = find_maps("gdev-graph", maps);

	while (count) {
		struct map *map = &maps[rand_r(&state) % (unsigned)count];
		size_t most = map->bytes < 1 << 16 ? map->bytes : 1 << 16,
		       at = (unsigned)rand_r(&state) % most & ~3ul;
		unsigned value = (unsigned)rand_r(&state);
		/* The first words of a segment are heads and tails. */
		if (at < 1152 && value % RARELY)
			continue;
		__atomic_store_n((unsigned *)(map->from + at), value & 1 ? value >> 1 & 7 : value,
			__ATOMIC_RELAXED);
	}
	return NULL;
}

static int spoil(const char *name, unsigned seed)
{
	struct gdev_channel *in, *out;
	struct gdev_graph *graph;
	uint32_t value;
	pthread_t thread;

	if (!geteuid() && (setgroups(0, NULL) || setgid(12345) || setuid(54321)))
		return 1;
	if (gdev_graph_attach(name, in_a_while(), &graph) ||
		gdev_channel_find(graph, "in", in_a_while(), &in) ||
		gdev_channel_find(graph, "out", in_a_while(), &out) ||
		pthread_create(&thread, NULL, scribble, &seed))
		return 1;
	for (int error = 0; !error || error == -ETIMEDOUT;) {
		error = gdev_push_bytes(in, &seed, sizeof seed, in_a_while());
		if (!error)
			error = gdev_pull_bytes(out, &value, sizeof value, in_a_while(), NULL);
	}
	return 1;
}

int main(int argc, char **argv)
{
	if (argc == 4 && !strcmp(argv[1], "own"))
		own(atoi(argv[2]), atoi(argv[3]));
	if (argc == 4 && !strcmp(argv[1], "spoil"))
		return spoil(argv[2], (unsigned)atoi(argv[3]));
	return argc == 3 && !strcmp(argv[1], "use") ? use(argv[2]) : 2;
}
