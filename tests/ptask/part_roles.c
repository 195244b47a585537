/* SPDX-License-Identifier: MIT
 *
 * The roles of processes that contribute a part to the graph that is called `name`.
 */
#include "roles.h"

#include <errno.h>
#include <grp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* A ptask that multiplies, whose ports are called in and out. */
static struct scaler contribute(struct fixture *f, const char *name, int factor)
{
	struct gdev_port_options in = {.name = "in", .tmpl = f->ints, .parameter = 1},
				 out = {.name = "out", .kind = GDEV_PORT_OUTPUT, .tmpl = f->ints};
	struct scaler made;

	good(f->graph, gdev_ptask_open(f->graph, name, f->module, "scale", &made.ptask));
	good(f->graph, gdev_port_open(made.ptask, &in, &made.in));
	good(f->graph, gdev_port_open(made.ptask, &out, &made.out));
	argument(made.ptask, 2, (unsigned)factor);
	argument(made.ptask, 3, N);
	return made;
}

static struct gdev_channel *open_channel(
	struct fixture *f, const char *name, struct gdev_port *from, struct gdev_port *to)
{
	struct gdev_channel_options options = {.name = name};
	struct gdev_channel *opened;

	good(f->graph, gdev_channel_open(f->graph, from, to, &options, &opened));
	return opened;
}

static struct gdev_port *find(struct fixture *f, const char *name)
{
	struct gdev_port *found;

	good(f->graph, gdev_port_find(f->graph, name, in_seconds(20), &found));
	return found;
}

static int say(void)
{
	return write(STDOUT_FILENO, "!", 1) == 1 ? 0 : 1;
}

/* The first kernel of a line, into which it pushes. */
static int play_first(const char *name, const char *where, int factor, int count)
{
	struct fixture *f = fixture_attach(name);
	struct gdev_channel *in = open_channel(f, "in", NULL, contribute(f, "first", factor).in);

	good(f->graph, gdev_graph_run(f->graph));
	for (int i = 0; i < count; i++)
		push_ints(f, in, i);
	good(f->graph, gdev_channel_end(in));
	return 0;
}

/* The kernel behind `where`. */
static int play_middle(const char *name, const char *where, int factor, int count)
{
	struct fixture *f = fixture_attach(name);
	struct scaler made = contribute(f, "middle", factor);
	struct gdev_ptask_info info = {0};

	open_channel(f, NULL, find(f, where), made.in);
	good(f->graph, gdev_graph_run(f->graph));
	while (!info.ended) {
		usleep(1000);
		good(f->graph, gdev_ptask_query(made.ptask, &info));
	}
	return info.invocations != (uint64_t)count;
}

/* The last one, behind `where`, from which it pulls what was multiplied by 30. */
static int play_last(const char *name, const char *where, int factor, int count)
{
	struct fixture *f = fixture_attach(name);
	struct scaler made = contribute(f, "last", factor);
	struct gdev_channel *out = open_channel(f, "out", made.out, NULL);
	struct gdev_datablock *block;

	open_channel(f, NULL, find(f, where), made.in);
	good(f->graph, gdev_graph_run(f->graph));
	for (int i = 0; i < count; i++)
		pull_ints(f, out, 30 * i, 30);
	return gdev_pull(out, in_seconds(20), &block) != -ENODATA;
}

/* Waits to be killed, with a part that is complete (`complete`), or not. */
static int play_leave(const char *name, const char *where, int factor, int complete)
{
	struct fixture *f = fixture_attach(name);
	struct scaler made = contribute(f, where, factor);

	if (complete)
		good(f->graph, gdev_graph_run(f->graph));
	else
		open_channel(f, "in", NULL, made.in);
	if (say())
		return 1;
	pause();
	return 1;
}

/* Opens and opens, until it is killed. */
static int play_storm(const char *name, const char *where, int first, int count)
{
	if (say())
		return 1;
	for (;;) {
		struct fixture *f = fixture_attach(name);
		for (int i = 0; i < 8; i++) {
			struct scaler a = contribute(f, "a", 1), b = contribute(f, "b", 1);
			open_channel(f, NULL, a.out, b.in);
			open_channel(f, "storm", NULL, a.in);
		}
		gdev_graph_close(f->graph);
		free(f);
	}
}

/* As another user: the error of the first call that builds. */
static int play_stranger(const char *name, const char *where, int uid, int group)
{
	gid_t groups[] = {(gid_t)group};
	struct gdev_shape shape = {.stride = 4, .count = {1}};
	struct gdev_template *tmpl;
	struct gdev_graph *graph;
	int error;

	if (setgroups(1, groups) || setgid(12345) || setuid((uid_t)uid))
		return 100;
	error = gdev_graph_attach(name, in_seconds(20), &graph);
	if (error)
		return 101;
	return -gdev_template_open(graph, NULL, &shape, &tmpl);
}

static const struct role {
	const char *name;
	int (*play)(const char *name, const char *where, int first, int count);
} roles[] = {
	{"first", play_first},
	{"middle", play_middle},
	{"last", play_last},
	{"leave", play_leave},
	{"storm", play_storm},
	{"stranger", play_stranger},
};

int role_play(char **argv)
{
	for (size_t i = 0; i < sizeof roles / sizeof roles[0]; i++)
		if (!strcmp(roles[i].name, argv[1]))
			return roles[i].play(argv[2], argv[3], atoi(argv[4]), atoi(argv[5]));
	return 1;
}
