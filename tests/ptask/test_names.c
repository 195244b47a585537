/* SPDX-License-Identifier: MIT
 *
 * Graphs by name: other processes open them, push and pull, are refused, and die in the middle. This program is these
 * processes, too: with arguments it plays one of the roles of roles.c.
 */
#include "processes.h"
#include "roles.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define MEMBERS 64 /* of a graph, at most */
#define OPENERS 64 /* of a graph, of which gdevd knows */

/* ---- graphs ---- */

static struct fixture *open_named(const char *name)
{
	return fixture_open(&(struct gdev_graph_options){.name = name, .mode = 0600});
}

static struct gdev_channel *named(struct fixture *f, const char *name, struct gdev_port *from,
	struct gdev_port *to, bool keep)
{
	struct gdev_channel_options options = {.name = name, .keep = keep};
	struct gdev_channel *opened;

	good(f->graph, gdev_channel_open(f->graph, from, to, &options, &opened));
	return opened;
}

/* in -> x 2 -> x 3 -> out */
static void build_line(struct fixture *f)
{
	struct scaler a = scaler(f, 2), b = scaler(f, 3);

	named(f, "in", NULL, a.in, false);
	channel(f, a.out, b.in);
	named(f, "out", b.out, NULL, false);
	good(f->graph, gdev_graph_run(f->graph));
}

static void test_three_processes(void **state)
{
	struct process push = start("push", "line", "in", 10, 200),
		       pull = start("pull", "line", "out", 10, 200);
	struct fixture *f = open_named("line");

	build_line(f);
	assert_int_equal(finish(push), 0);
	assert_int_equal(finish(pull), 0);
	fixture_teardown((void **)&f);
}

static void test_manual(void **state)
{
	struct process push = start("push", "line", "in", 10, 50),
		       pull = start("pull", "line", "out", 10, 50);
	struct fixture *f = fixture_open(
		&(struct gdev_graph_options){.name = "line", .mode = 0600, .manual = true});
	int status;

	build_line(f);
	while (!waitpid(pull.pid, &status, WNOHANG)) {
		struct pollfd ready = {.fd = gdev_graph_descriptor(f->graph), .events = POLLIN};
		poll(&ready, 1, 100);
		good(f->graph, gdev_graph_advance(f->graph));
	}
	assert_int_equal(status, 0);
	close(pull.output);
	assert_int_equal(finish(push), 0);
	fixture_teardown((void **)&f);
}

/* Names of ports, an event loop, and datablocks that stay on the device. */
static void test_pass(void **state)
{
	struct fixture *f = open_named("pass");
	struct gdev_ptask *first, *second;
	struct gdev_port *ports[4];
	struct process pass;
	struct gdev_channel *in, *out;

	for (int i = 0; i < 2; i++) {
		struct gdev_ptask **ptask = i ? &second : &first;
		struct gdev_port_options port_in = {.name = "in", .tmpl = f->ints, .parameter = 1},
					 port_out = {.name = "out",
						 .kind = GDEV_PORT_OUTPUT,
						 .tmpl = f->ints};
		good(f->graph, gdev_ptask_open(f->graph, i ? "second" : "first", f->module, "scale",
				       ptask));
		ports[2 * i] = port(*ptask, port_in);
		ports[2 * i + 1] = port(*ptask, port_out);
		argument(*ptask, 2, i ? 3 : 2);
		argument(*ptask, 3, N);
	}
	in = channel(f, NULL, ports[0]);
	channel(f, ports[1], NULL);
	channel(f, NULL, ports[2]);
	out = channel(f, ports[3], NULL);
	good(f->graph, gdev_graph_run(f->graph));
	pass = start("pass", "pass", "-", 0, 100);
	for (int i = 0; i < 100; i++) {
		push_ints(f, in, i);
		if (i >= 4)
			pull_ints(f, out, 6 * (i - 4), 6);
	}
	good(f->graph, gdev_channel_end(in));
	for (int i = 96; i < 100; i++)
		pull_ints(f, out, 6 * i, 6);
	assert_int_equal(finish(pass), 0);
	fixture_teardown((void **)&f);
}

static int negate(void *argument, const struct gdev_view *inputs, struct gdev_view *outputs)
{
	for (uint64_t i = 0; i < inputs[0].records; i++)
		((int *)outputs[0].data)[i] = -((const int *)inputs[0].data)[i];
	return 0;
}

/* A callback reads the memory of the other process; the end of that one is the end of the stream. */
static void test_callback(void **state)
{
	struct fixture *f = open_named("callback");
	struct gdev_ptask *minus;
	struct gdev_datablock *block;
	struct gdev_channel *out;
	struct process push;

	good(f->graph, gdev_ptask_open_host(f->graph, "minus", negate, NULL, &minus));
	named(f, "in", NULL, input(minus, f->ints, 0), false);
	out = channel(f, output(minus, f->ints, 0), NULL);
	good(f->graph, gdev_graph_run(f->graph));
	push = start("push-twice", "callback", "in", 5, 300);
	for (int i = 0; i < 600; i++)
		pull_ints(f, out, -(5 + i / 2), -1);
	assert_int_equal(gdev_pull(out, in_seconds(PATIENCE_S), &block), -ENODATA);
	assert_int_equal(finish(push), 0);
	fixture_teardown((void **)&f);
}

/* ---- rights ---- */

static void test_names(void **state)
{
	struct gdev_graph_options options = {.name = "twice", .mode = 0600};
	struct fixture *f = fixture_open(&options);
	struct gdev_graph *graph;
	struct gdev_ptask *ptask;

	assert_int_equal(gdev_graph_open(&options, &graph), -EEXIST);
	assert_int_equal(gdev_graph_attach("never", 0, &graph), -ENOENT);
	assert_int_equal(
		gdev_graph_attach("never", in_seconds(0) + SECOND_NS / 20, &graph), -ETIMEDOUT);
	assert_int_equal(gdev_graph_attach("no-such-user/twice", 0, &graph), -ENOENT);
	options.name = ".hidden";
	assert_int_equal(gdev_graph_open(&options, &graph), -EINVAL);
	options.name = NULL;
	assert_int_equal(gdev_graph_open(&options, &graph), -EINVAL);
	/* By the process itself. */
	good(NULL, gdev_graph_attach("twice", 0, &graph));
	assert_int_equal(gdev_ptask_open_host(graph, "minus", negate, NULL, &ptask), -EPERM);
	assert_int_equal(gdev_graph_terminate(graph), -EPERM);
	gdev_graph_close(graph);
	fixture_teardown((void **)&f);
	options.name = "twice";
	f = fixture_open(&options);
	fixture_teardown((void **)&f);
}

/* One more is told so, and may come when one has left. */
static void test_too_many(void **state)
{
	struct fixture *f = fixture_open(&(struct gdev_graph_options){
		.name = "crowded", .mode = 0600, .member_bytes = 4096});
	struct gdev_graph *graphs[MEMBERS], *more;

	for (unsigned i = 0; i < MEMBERS; i++)
		good(NULL, gdev_graph_attach("crowded", 0, &graphs[i]));
	assert_int_equal(gdev_graph_attach("crowded", 0, &more), -EUSERS);
	gdev_graph_close(graphs[0]);
	while (gdev_graph_attach("crowded", 0, &graphs[0]) == -EUSERS)
		usleep(1000);
	for (unsigned i = 0; i < MEMBERS; i++)
		gdev_graph_close(graphs[i]);
	fixture_teardown((void **)&f);
}

/* Others reach the socket of this test's gdevd. */
static void open_directory(void)
{
	char path[512];

	snprintf(path, sizeof path, "%s/..", getenv("GDEV_RUNTIME_DIR"));
	assert_int_equal(chmod(path, 0711), 0);
}

#define STRANGER 54321
#define GROUP 23456

static int tried(int uid, int group)
{
	return WEXITSTATUS(finish(start("try", "0/rights", "-", uid, group)));
}

static void test_rights(void **state)
{
	struct gdev_graph_options options = {.name = "rights", .mode = 0640, .group = GROUP};
	struct gdev_channel_options out = {.name = "out", .mode = 0606};
	struct fixture *f;
	struct gdev_channel *ignored;

	if (geteuid())
		skip(); /* only root can be somebody else */
	open_directory();
	for (int others = 0; others < 2; others++) {
		struct scaler a;
		options.mode = others ? 0662 : 0640;
		f = fixture_open(&options);
		a = scaler(f, 2);
		named(f, "in", NULL, a.in, false);
		good(f->graph,
			gdev_channel_open(f->graph, a.out, NULL,
				others ? &out : &(struct gdev_channel_options){.name = "out"},
				&ignored));
		good(f->graph, gdev_graph_run(f->graph));
		assert_int_equal(tried(STRANGER, 1), others ? 1 | 2 : 0);
		assert_int_equal(tried(STRANGER, GROUP), others ? 1 | 2 : 1 | 4);
		assert_int_equal(tried(0, 1), 1 | 2 | 4);
		fixture_teardown((void **)&f);
	}
}

/* What it read first, it still has later. */
static int reads_the_same(void *argument, const struct gdev_view *inputs, struct gdev_view *outputs)
{
	const int *in = inputs[0].data;
	int before[N];

	memcpy(before, in, sizeof before);
	usleep(200);
	return memcmp(before, in, sizeof before) ? -EILSEQ : 0;
}

/* A callback does not read what another user's process can change meanwhile. */
static void test_stranger_changes(void **state)
{
	struct fixture *f;
	struct gdev_ptask *reader;
	struct gdev_ptask_info info = {0};

	if (geteuid())
		skip(); /* only root can be somebody else */
	open_directory();
	f = fixture_open(&(struct gdev_graph_options){.name = "changes", .mode = 0602});
	good(f->graph, gdev_ptask_open_host(f->graph, "reader", reads_the_same, NULL, &reader));
	named(f, "in", NULL, input(reader, f->ints, 0), false);
	good(f->graph, gdev_graph_run(f->graph));
	assert_int_equal(finish(start("change", "0/changes", "in", STRANGER, 100)), 0);
	while (!info.ended)
		good(f->graph, gdev_ptask_query(reader, &info));
	assert_int_equal(info.invocations, 100);
	fixture_teardown((void **)&f);
}

/* ---- looking ---- */

/* Until `gdev graph show` says so of the graph, which it does when the last invocation's end has been seen. */
static void await_shown(const char *graph, const char *wanted, char *text, size_t bytes)
{
	char command[128];
	bool found = false;

	snprintf(command, sizeof command, "graph show %s", graph);
	for (uint64_t until = in_seconds(PATIENCE_S); !found && in_seconds(0) < until;) {
		run_gdev(command, text, bytes);
		found = strstr(text, wanted);
	}
	if (!found)
		fail_msg("no %s in %s", wanted, text);
}

static void test_command(void **state)
{
	struct fixture *f = open_named("shown");
	struct gdev_channel *in;
	char text[8192];

	build_line(f);
	good(f->graph, gdev_channel_find(f->graph, "in", 0, &in));
	push_ints(f, in, 1);
	run_gdev("graph list", text, sizeof text);
	assert_non_null(strstr(text, "shown"));
	assert_non_null(strstr(text, "0600"));
	await_shown("shown", "2 ptasks, 2 invocations", text, sizeof text);
	assert_non_null(strstr(text, "scale"));
	run_gdev("graph show --dot shown", text, sizeof text);
	assert_non_null(strstr(text, "p0 -> p1"));
	assert_non_null(strstr(text, "end0in -> p0"));
	run_gdev("graph top --once --interval 0.1", text, sizeof text);
	assert_non_null(strstr(text, "(all)"));
	fixture_teardown((void **)&f);
}

/* ---- deaths ---- */

/* Until `gdev graph show` says that the ptask `name` works for that. */
static void await_proxy(const char *name, int proxy)
{
	char text[8192], wanted[64];
	bool found = false;
	const char *ptask, *said;

	snprintf(wanted, sizeof wanted, "\"proxy\": %d,", proxy);
	for (uint64_t until = in_seconds(PATIENCE_S); !found && in_seconds(0) < until;) {
		run_gdev("graph show --json urgent", text, sizeof text);
		ptask = strstr(text, name);
		said = ptask ? strstr(ptask, "\"proxy\"") : NULL;
		found = said && !strncmp(said, wanted, strlen(wanted));
	}
	if (!found)
		fail_msg("%s: no %s in %s", name, wanted, text);
}

/* Who pushed, and who waits, says how urgent a ptask is; of several the most urgent. */
static void test_for_whom(void **state)
{
	struct gdev_graph_options options = {
		.name = "urgent", .mode = 0600, .schedule = GDEV_SCHEDULE_PRIORITY};
	struct fixture *f = fixture_open(&options);
	struct gdev_ptask *sum = function(f, "add");
	struct scaler twice = scaler(f, 2);
	struct process process;
	struct gdev_channel *other, *out;

	named(f, "in", NULL, input(sum, f->ints, 1), true);
	other = named(f, "other", NULL, input(sum, f->ints, 2), true);
	argument(sum, 3, N);
	channel(f, output(sum, f->ints, 0), twice.in);
	out = named(f, "out", twice.out, NULL, true);
	good(f->graph, gdev_graph_run(f->graph));
	await_proxy("\"add\"", 0);
	process = start("nice", "urgent", "in", 5, 1);
	assert_int_equal(finish(process), 0);
	await_proxy("\"add\"", -5);
	await_proxy("\"scale\"", 0);
	process = start("nice", "urgent", "out", 2, 0);
	await_word(process);
	await_proxy("\"add\"", -2);
	await_proxy("\"scale\"", -2);
	kill_it(process);
	await_proxy("\"add\"", -5);
	good(f->graph, gdev_ptask_set_priority(sum, 0, 3));
	await_proxy("\"add\"", -2);
	good(f->graph, gdev_ptask_set_priority(sum, 0, INT_MIN));
	await_proxy("\"add\"", INT_MIN);
	push_ints(f, other, 1);
	pull_ints(f, out, 4, 4);
	fixture_teardown((void **)&f);
}

/* Until gdevd says of the one session that there is, how nice it is and by whom. */
static void await_rank(int nice, const char *by)
{
	char text[65536], wanted[80];
	bool found = false;

	snprintf(wanted, sizeof wanted, "\"own\": %d, \"from\": \"%s\"", nice, by);
	for (uint64_t until = in_seconds(PATIENCE_S); !found && in_seconds(0) < until;) {
		run_gdev("status --json | tr -s '\\n ' ' '", text, sizeof text);
		found = strstr(text, wanted);
	}
	if (!found)
		fail_msg("no %s in %s", wanted, text);
}

/* gdevd ranks the graph's session by whom it works for, though the owner's thread sends it all. Another user's process makes it more
 * patient, and never more urgent. */
static void test_rank(void **state)
{
	struct gdev_graph_options options = {.name = "ranked", .mode = 0606, .lanes = 1};
	int before = getpriority(PRIO_PROCESS, 0);
	struct process urgent;
	struct gdev_channel *in;
	struct fixture *f;
	struct scaler a;
	char name[32];

	if (geteuid())
		skip(); /* only root can be somebody else, or more urgent again */
	f = fixture_open(&options);
	a = scaler(f, 2);
	in = named(f, "in", NULL, a.in, true);
	named(f, "out", a.out, NULL, true);
	good(f->graph, gdev_graph_run(f->graph));
	snprintf(name, sizeof name, "%u/ranked", geteuid());
	assert_int_equal(setpriority(PRIO_PROCESS, 0, 10), 0);
	push_ints(f, in, 1);
	await_rank(10, "process");
	assert_int_equal(finish(start("nice", "ranked", "in", 15, 1)), 0);
	await_rank(15, "opener");
	push_ints(f, in, 1);
	await_rank(10, "process");
	assert_int_equal(finish(start("nice", name, "in", 15, 2)), 0);
	await_rank(15, "opener");
	assert_int_equal(finish(start("nice", name, "in", 5, 2)), 0);
	await_rank(10, "process");
	setpriority(PRIO_PROCESS, 0, 5);
	urgent = start("hang", "ranked", "in", 1, 0);
	setpriority(PRIO_PROCESS, 0, 10);
	await_word(urgent);
	await_rank(5, "opener");
	kill_it(urgent);
	await_rank(10, "process");
	fixture_teardown((void **)&f);
	setpriority(PRIO_PROCESS, 0, before);
}

/* gdevd knows of 64 processes that have opened a graph. More come when one has ended, and not when it has closed the graph: what it pushed
 * may be on its way. */
static void test_openers(void **state)
{
	struct fixture *f = open_named("visited");
	struct process visitors[OPENERS];
	struct gdev_graph *graph;

	build_line(f);
	for (unsigned i = 0; i < OPENERS; i++)
		visitors[i] = start("visit", "visited", "", 0, 0);
	for (unsigned i = 0; i < OPENERS; i++)
		await_word(visitors[i]);
	assert_int_equal(gdev_graph_attach("visited", 0, &graph), -EUSERS);
	kill_it(visitors[OPENERS / 2]);
	for (unsigned i = 0; i < 2; i++) { /* a process has one place, however often it comes */
		assert_int_equal(gdev_graph_attach("visited", 0, &graph), 0);
		gdev_graph_close(graph);
	}
	for (unsigned i = 0; i < OPENERS; i++)
		if (i != OPENERS / 2)
			kill_it(visitors[i]);
	fixture_teardown((void **)&f);
}

/* Nobody opens a graph for a process that has ended: for whom the owner would then work, nobody knows. */
static void test_outlived(void **state)
{
	struct fixture *f = open_named("outlived");
	struct process process;
	int status;

	build_line(f);
	process = start("outlive", "outlived", "", 0, 0);
	assert_int_equal(read(process.output, &status, sizeof status), sizeof status);
	assert_int_equal(status, -ESRCH);
	assert_int_equal(finish(process), 0);
	fixture_teardown((void **)&f);
}

static void test_killed_pusher(void **state)
{
	struct fixture *f = open_named("dies");
	struct scaler a = scaler(f, 2), b = scaler(f, 2);
	struct gdev_channel *ended, *kept, *in;
	struct gdev_datablock *block;
	struct process processes[2];

	named(f, "in", NULL, a.in, false);
	ended = channel(f, a.out, NULL);
	in = named(f, "kept", NULL, b.in, true);
	kept = channel(f, b.out, NULL);
	good(f->graph, gdev_graph_run(f->graph));
	processes[0] = start("hang", "dies", "in", 3, 0);
	processes[1] = start("hang", "dies", "kept", 3, 0);
	for (int i = 0; i < 2; i++) {
		await_word(processes[i]);
		kill_it(processes[i]);
	}
	for (int i = 0; i < 3; i++)
		pull_ints(f, ended, 0, 0);
	assert_int_equal(gdev_pull(ended, in_seconds(PATIENCE_S), &block), -ENODATA);
	for (int i = 0; i < 3; i++)
		pull_ints(f, kept, 0, 0);
	push_ints(f, in, 7);
	pull_ints(f, kept, 14, 2);
	fixture_teardown((void **)&f);
}

static void test_killed_puller(void **state)
{
	struct fixture *f = open_named("dies");
	struct scaler a = scaler(f, 2);
	struct gdev_channel *in = channel(f, NULL, a.in);
	struct process puller;
	int values[N] = {0}, error = 0;

	named(f, "out", a.out, NULL, false);
	good(f->graph, gdev_graph_run(f->graph));
	puller = start("hang", "dies", "out", 0, 2);
	for (int i = 0; i < 4; i++)
		push_ints(f, in, i);
	await_word(puller);
	kill_it(puller);
	/* What comes is dropped: nothing waits for ever. */
	for (int i = 0; i < 100 && !error; i++)
		error = gdev_push_bytes(in, values, sizeof values, in_seconds(PATIENCE_S));
	assert_int_equal(error, 0);
	fixture_teardown((void **)&f);
}

static void test_killed_owner(void **state)
{
	struct process owner = start("own", "mortal", "out", 0, 0),
		       member = start("mourn", "mortal", "out", 0, 0);

	await_word(member);
	kill_it(owner);
	assert_int_equal(finish(member), 0);
}

/* Who opens the graph of an owner that does not answer, and then dies, finds the next one of that name. */
static void test_killed_owner_before_it_answers(void **state)
{
	struct process owner = start("own", "deaf", "out", 1, 0), member, next;
	pid_t child = await_child(owner);

	kill(owner.pid, SIGSTOP);
	member = start("mourn", "deaf", "out", 0, 0);
	usleep(200000); /* it has asked by now, as a rule */
	kill_it(owner);
	next = start("own", "deaf", "out", 0, 0);
	await_word(member);
	kill_it(next);
	assert_int_equal(finish(member), 0);
	kill(child, SIGKILL);
}

/* Children that run no other program keep nobody from hearing of their parents' ends. */
static void test_forked(void **state)
{
	struct fixture *f = open_named("forked");
	struct process owner, member;
	struct gdev_datablock *block;
	struct gdev_channel *in, *out;
	struct scaler a = scaler(f, 2);
	pid_t child;

	in = named(f, "in", NULL, a.in, false);
	out = named(f, "out", a.out, NULL, true);
	good(f->graph, gdev_graph_run(f->graph));
	member = start("inherit", "forked", "out", 6, 2);
	push_ints(f, in, 3);
	assert_int_equal(finish(member), 0);
	member = start("leave", "forked", "in", 0, 0);
	child = await_child(member);
	kill_it(member);
	assert_int_equal(gdev_pull(out, in_seconds(PATIENCE_S), &block), -ENODATA);
	kill(child, SIGKILL);
	fixture_teardown((void **)&f);

	owner = start("own", "father", "out", 1, 0);
	child = await_child(owner);
	member = start("mourn", "father", "out", 0, 0);
	await_word(member);
	kill_it(owner);
	assert_int_equal(finish(member), 0);
	kill(child, SIGKILL);
}

/* A graph that fails tells its members why. */
#define COPIES_MAX 64
#define FIRST_COPY 512

/* Copies of all sockets that this process has. */
static int copy_sockets(int copies[COPIES_MAX])
{
	struct stat what;
	int count = 0;

	for (int fd = 3; fd < FIRST_COPY; fd++)
		if (!fstat(fd, &what) && S_ISSOCK(what.st_mode)) {
			assert_true(count < COPIES_MAX);
			copies[count++] = fcntl(fd, F_DUPFD_CLOEXEC, FIRST_COPY);
		}
	return count;
}

/* When a process closes a graph the owner hears of it, also while others have its socket, as gdevd may for a moment. */
static void test_closed_while_others_have_it(void **state)
{
	struct fixture *f = open_named("copied");
	struct gdev_datablock *block;
	struct gdev_channel *in, *out;
	struct gdev_graph *attached;
	struct scaler a = scaler(f, 2);
	int copies[COPIES_MAX], count;

	named(f, "in", NULL, a.in, false);
	out = channel(f, a.out, NULL);
	good(f->graph, gdev_graph_run(f->graph));
	good(NULL, gdev_graph_attach("copied", GDEV_FOREVER, &attached));
	good(attached, gdev_channel_find(attached, "in", GDEV_FOREVER, &in));
	count = copy_sockets(copies);
	gdev_graph_close(attached);
	assert_int_equal(gdev_pull(out, in_seconds(PATIENCE_S), &block), -ENODATA);
	while (count)
		close(copies[--count]);
	fixture_teardown((void **)&f);
}

static void test_failure(void **state)
{
	struct fixture *f;
	struct gdev_ptask *bad;
	struct gdev_channel *found;
	struct gdev_datablock *block;
	struct gdev_graph *graph;
	char why[GDEV_WHY_BYTES];
	int values[N] = {0};

	needs_faults();
	f = open_named("fails");
	bad = function(f, "fault");
	named(f, "in", NULL, input(bad, f->ints, 1), false);
	named(f, "out", output(bad, f->ints, 0), NULL, false);
	good(f->graph, gdev_graph_run(f->graph));
	good(NULL, gdev_graph_attach("fails", 0, &graph));
	good(graph, gdev_channel_find(graph, "in", 0, &found));
	good(graph, gdev_push_bytes(found, values, sizeof values, GDEV_FOREVER));
	good(graph, gdev_channel_find(graph, "out", 0, &found));
	assert_int_equal(gdev_pull(found, in_seconds(PATIENCE_S), &block), -GDEV_E_ILLEGAL_ADDRESS);
	gdev_graph_why(graph, why);
	assert_true(strlen(why));
	gdev_graph_close(graph);
	fixture_teardown((void **)&f);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_three_processes),
		cmocka_unit_test(test_manual),
		cmocka_unit_test(test_pass),
		cmocka_unit_test(test_callback),
		cmocka_unit_test(test_names),
		cmocka_unit_test(test_too_many),
		cmocka_unit_test(test_rights),
		cmocka_unit_test(test_stranger_changes),
		cmocka_unit_test(test_command),
		cmocka_unit_test(test_for_whom),
		cmocka_unit_test(test_rank),
		cmocka_unit_test(test_openers),
		cmocka_unit_test(test_outlived),
		cmocka_unit_test(test_killed_pusher),
		cmocka_unit_test(test_killed_puller),
		cmocka_unit_test(test_killed_owner),
		cmocka_unit_test(test_killed_owner_before_it_answers),
		cmocka_unit_test(test_forked),
		cmocka_unit_test(test_closed_while_others_have_it),
		cmocka_unit_test(test_failure),
	};

	if (argc == 6)
		return role_play(argv);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
