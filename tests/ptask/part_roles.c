/* SPDX-License-Identifier: MIT
 *
 * The roles of processes that contribute a part to the graph that is called `name`.
 */
#include "roles.h"

#include <errno.h>
#include <grp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
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

	good(f->graph, gdev_port_find(f->graph, name, in_seconds(PATIENCE_S), &found));
	return found;
}

/* Until the ptask has ended. */
static uint64_t invocations_of(struct fixture *f, struct gdev_ptask *ptask)
{
	struct gdev_ptask_info info = {0};

	while (!info.ended) {
		usleep(1000);
		good(f->graph, gdev_ptask_query(ptask, &info));
	}
	return info.invocations;
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

	open_channel(f, NULL, find(f, where), made.in);
	good(f->graph, gdev_graph_run(f->graph));
	return invocations_of(f, made.ptask) != (uint64_t)count;
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
	return gdev_pull(out, in_seconds(PATIENCE_S), &block) != -ENODATA;
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

static int become(int uid, int group)
{
	gid_t groups[] = {(gid_t)group};

	return setgroups(1, groups) || setgid(12345) || setuid((uid_t)uid);
}

/* As another user: the error of the first call that brings code. */
static int play_stranger(const char *name, const char *where, int uid, int group)
{
	struct gdev_graph_module *module;
	struct gdev_graph *graph;

	if (become(uid, group))
		return 100;
	if (gdev_graph_attach(name, in_seconds(PATIENCE_S), &graph))
		return 101;
	return -gdev_graph_load(graph, kernels_ptx, strlen(kernels_ptx) + 1, NULL, 0, &module);
}

/* As another user, in a session of its own: as middle. */
static int play_own_middle(const char *name, const char *where, int uid, int count)
{
	struct fixture *f;
	struct scaler made;

	if (uid && become(uid, 1))
		return 100;
	f = fixture_attach_own(name);
	made = contribute(f, "middle", 3);
	open_channel(f, NULL, find(f, where), made.in);
	good(f->graph, gdev_graph_run(f->graph));
	return invocations_of(f, made.ptask) != (uint64_t)count;
}

/* In a session of its own, until it is killed. */
static int play_own_leave(const char *name, const char *where, int uid, int count)
{
	struct fixture *f = fixture_attach_own(name);

	contribute(f, where, 3);
	good(f->graph, gdev_graph_run(f->graph));
	if (say())
		return 1;
	pause();
	return 1;
}

/* Closes the graph when it is told to, whatever the owner does. */
static int play_own_close(const char *name, const char *where, int first, int count)
{
	struct fixture *f;
	sigset_t told;
	int signal;

	sigemptyset(&told);
	sigaddset(&told, SIGUSR1);
	sigprocmask(SIG_BLOCK, &told, NULL);
	f = fixture_attach_own(name);
	contribute(f, where, 3);
	good(f->graph, gdev_graph_run(f->graph));
	if (say() || sigwait(&told, &signal))
		return 1;
	alarm(PATIENCE_S);
	gdev_graph_close(f->graph);
	return 0;
}

/* As another user: one ptask that is connected, and one of which a port is not. */
static int play_own_loose(const char *name, const char *where, int uid, int count)
{
	struct fixture *f;
	struct scaler loose, middle;

	if (become(uid, 1))
		return 100;
	f = fixture_attach_own(name);
	middle = contribute(f, "middle", 3);
	loose = contribute(f, "loose", 3);
	open_channel(f, NULL, middle.out, loose.in);
	good(f->graph, gdev_graph_run(f->graph));
	return invocations_of(f, middle.ptask) != (uint64_t)count || invocations_of(f, loose.ptask);
}

/* As another user who may not read the graph: the error of a channel from a port of it. */
static int play_own_reader(const char *name, const char *where, int uid, int count)
{
	struct gdev_channel *channel;
	struct fixture *f;

	if (become(uid, 1))
		return 100;
	f = fixture_attach_own(name);
	return -gdev_channel_open(
		f->graph, find(f, where), contribute(f, "spy", 1).in, NULL, &channel);
}

/* At that nice value, one push into `where`. */
static int play_nice(const char *name, const char *where, int nice, int count)
{
	struct gdev_channel *to;
	int values[N] = {0};
	struct gdev_graph *graph;

	if (setpriority(PRIO_PROCESS, 0, nice))
		return 100;
	good(NULL, gdev_graph_attach(name, in_seconds(PATIENCE_S), &graph));
	good(graph, gdev_channel_find(graph, where, in_seconds(PATIENCE_S), &to));
	good(graph, gdev_push_bytes(to, values, sizeof values, GDEV_FOREVER));
	return 0;
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
	{"nice", play_nice},
	{"own-middle", play_own_middle},
	{"own-leave", play_own_leave},
	{"own-close", play_own_close},
	{"own-loose", play_own_loose},
	{"own-reader", play_own_reader},
};

int role_play(char **argv)
{
	for (size_t i = 0; i < sizeof roles / sizeof roles[0]; i++)
		if (!strcmp(roles[i].name, argv[1]))
			return roles[i].play(argv[2], argv[3], atoi(argv[4]), atoi(argv[5]));
	return 1;
}
