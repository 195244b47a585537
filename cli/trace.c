/* SPDX-License-Identifier: MIT
 *
 * gdev trace: runs a program, or watches the whole daemon, and writes a timeline of what happened. gdevd hands
 * out a descriptor of each traced session's trace segment (proto/control.h, TRACE); from time to time, and when a
 * session ends, what is in it is taken out, so that it is there whatever becomes of the program.
 */
#include "cli/trace.h"

#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/fd.h"
#include "cli/cli.h"
#include "gdev/session.h"
#include "proto/check.h"

#define READ_MS 20 /* a ring holds what a client can do meanwhile */
#define OUTPUT_DEFAULT "gdev-trace.json"

struct options {
	const char *output, *vgpu;
	bool all;
	double seconds; /* 0: until a signal comes */
};

struct tracing {
	struct trace_set set;
	int connection; /* to gdevd; -1: it is gone */
	int signals;    /* signalfd */
	uint64_t token; /* 0: everything */
	pid_t child;    /* 0: none */
	int status;     /* as wait() said; valid when it is `over` */
	bool over;
	uint64_t end_ns; /* when it is over by itself */
};

/* ---- gdevd ---- */

static int subscribe(struct tracing *tracing)
{
	const struct control_trace message = {
		.header = {sizeof message, CONTROL_TRACE, CONTROL_VERSION, 1, 0},
		.token = tracing->token,
	};
	struct control_header reply;
	ssize_t length;
	int error = fd_send(tracing->connection, &message, sizeof message, NULL, 0);

	if (error)
		return error;
	length = fd_receive(tracing->connection, &reply, sizeof reply, NULL, NULL);
	if (length <= 0)
		return length ? (int)length : -ENOSYS; /* it hangs up on what it does not know */
	if (control_check(&reply, (size_t)length) || reply.type != CONTROL_TRACE_REPLY)
		return -EPROTO;
	return reply.status;
}

/* One message of gdevd's. False: there is none now, or none ever again. */
static bool receive(struct tracing *tracing)
{
	struct control_traced message;
	int fd = -1;
	size_t count = 1;
	ssize_t length;

	if (tracing->connection < 0)
		return false;
	length = fd_receive(tracing->connection, &message, sizeof message, &fd, &count);
	if (length == -EAGAIN)
		return false;
	if (length <= 0 || control_check(&message, (size_t)length)) {
		say("gdevd has gone away: programs that start from now on are not in the trace");
		close(steal_fd(&tracing->connection));
	} else if (message.header.type == CONTROL_TRACE_BEGIN && count == 1) {
		if (trace_set_add(&tracing->set, &message, steal_fd(&fd)))
			say("cannot read the trace of pid %d", (int)message.pid);
	} else if (message.header.type == CONTROL_TRACE_END) {
		trace_set_end(&tracing->set, message.session);
	}
	if (fd >= 0)
		close(fd);
	return tracing->connection >= 0;
}

/* ---- the time of the trace ---- */

static void on_signal(struct tracing *tracing)
{
	struct signalfd_siginfo info;

	if (read(tracing->signals, &info, sizeof info) != sizeof info)
		return;
	if (info.ssi_signo == SIGCHLD)
		tracing->over |= tracing->child && waitpid(tracing->child, &tracing->status,
							   WNOHANG) == tracing->child;
	else if (!tracing->child)
		tracing->over = true;
	else if (info.ssi_signo == SIGTERM) /* the terminal's own go to the program anyway */
		kill(tracing->child, SIGTERM);
}

static int wait_ms(const struct tracing *tracing)
{
	uint64_t now = clock_now_ns();
	int wait = list_empty(&tracing->set.sessions) ? -1 : READ_MS;

	if (tracing->end_ns != UINT64_MAX) {
		uint64_t left = now < tracing->end_ns ? tracing->end_ns - now : 0;
		int left_ms = (int)min_of(left / NS_PER_MS + 1, (uint64_t)INT32_MAX);
		wait = wait < 0 ? left_ms : min_of(wait, left_ms);
	}
	return wait;
}

static void record(struct tracing *tracing)
{
	while (!tracing->over && clock_now_ns() < tracing->end_ns) {
		struct pollfd fds[] = {
			{tracing->signals, POLLIN, 0}, {tracing->connection, POLLIN, 0}};

		poll(fds, array_length(fds), wait_ms(tracing));
		if (fds[0].revents)
			on_signal(tracing);
		if (fds[1].revents)
			while (receive(tracing))
				;
		trace_set_read(&tracing->set);
	}
	while (receive(tracing)) /* a program that was fast */
		;
	trace_set_end_all(&tracing->set);
}

/* ---- the end ---- */

static int write_file(struct tracing *tracing, const char *path)
{
	bool is_stdout = !strcmp(path, "-");
	FILE *file = is_stdout ? stdout : fopen(path, "we");
	unsigned programs = 0;
	struct traced *traced;
	int error;

	if (!file) {
		say("cannot write %s: %s", path, strerror(errno));
		return EXIT_FAILED;
	}
	list_for_each (traced, &tracing->set.sessions, link)
		programs++;
	error = trace_write_json(&tracing->set, file);
	if (!is_stdout && fclose(file) && !error)
		error = -errno;
	if (error) {
		say("cannot write %s: %s", path, strerror(-error));
		return EXIT_FAILED;
	}
	if (tracing->set.dropped)
		say("%" PRIu64 " events are missing: more came than there was room for",
			tracing->set.dropped);
	if (tracing->set.damaged)
		say("%" PRIu64 " events made no sense, and were left out", tracing->set.damaged);
	if (!programs)
		say("no program used a GPU");
	say("%zu events of %u sessions in %s; open it in https://ui.perfetto.dev",
		tracing->set.count, programs, path);
	return EXIT_OK;
}

static int exit_status(int status)
{
	return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

/* ---- the beginning ---- */

/* Returns when the program runs: 0, -errno, or the status of 'gdev run' when it cannot be executed. */
static int start(struct tracing *tracing, char *const *command, const sigset_t *before)
{
	char token[20];
	int failed[2]; /* what could not be executed says why; exec closes it */
	uint8_t status = 0;

	snprintf(token, sizeof token, "%016" PRIx64, tracing->token);
	setenv("GDEV_TRACE", token, 1);
	if (pipe2(failed, O_CLOEXEC))
		return -errno;
	tracing->child = fork();
	if (tracing->child == 0) {
		sigprocmask(SIG_SETMASK, before, NULL);
		status = (uint8_t)program_exec(command);
		_exit(write(failed[1], &status, 1) != 1);
	}
	close(failed[1]);
	if (tracing->child < 0)
		status = (uint8_t)EXIT_RUN_FAILED;
	else
		TEMP_FAILURE_RETRY(read(failed[0], &status, 1));
	close(failed[0]);
	return status;
}

static int open_signals(sigset_t *before)
{
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, SIGCHLD);
	sigaddset(&set, SIGINT);
	sigaddset(&set, SIGTERM);
	sigprocmask(SIG_BLOCK, &set, before);
	return signalfd(-1, &set, SFD_CLOEXEC);
}

/* Traces until it is over; else returns an exit status, and it has been said why. */
static int trace(struct tracing *tracing, const char *dir, char *const *command)
{
	sigset_t before;
	int error;

	tracing->connection = daemon_open(dir);
	error = tracing->connection < 0 ? tracing->connection : subscribe(tracing);
	if (error) {
		say(error == -ENOSYS ? "the gdevd in %s is too old to trace: restart it"
				     : "cannot trace with the gdevd in %s: %s",
			dir, strerror(-error));
		return *command ? EXIT_RUN_FAILED : EXIT_FAILED;
	}
	fcntl(tracing->connection, F_SETFL, O_NONBLOCK);
	tracing->signals = open_signals(&before);
	if (*command)
		error = start(tracing, command, &before);
	if (error > 0)
		return error;
	if (error || tracing->signals < 0) {
		say("cannot start: %s", strerror(error ? -error : errno));
		return *command ? EXIT_RUN_FAILED : EXIT_FAILED;
	}
	record(tracing);
	return EXIT_OK;
}

static int run_with(const struct options *options, char *const *command)
{
	struct tracing tracing = {.connection = -1, .signals = -1, .end_ns = UINT64_MAX};
	struct gdev_description guest;
	autoclose int hold = -1;
	char dir[PATHS_MAX];
	int status;

	if (guest_describe(&guest)) {
		say("this is a virtual machine: 'gdev trace' of its host sees what its programs do on the GPU");
		return EXIT_NO_DAEMON;
	}
	trace_set_init(&tracing.set);
	hold = *command ? program_prepare(options->vgpu, dir) : daemon_connect(dir);
	if (hold < 0) {
		if (!*command)
			say("no gdevd is running: there is nothing to trace");
		return *command ? EXIT_RUN_FAILED : EXIT_NO_DAEMON;
	}
	if (*command && getrandom(&tracing.token, sizeof tracing.token, 0) < 0)
		tracing.token = (uint64_t)getpid() << 32 | 1;
	if (options->seconds > 0)
		tracing.end_ns = clock_now_ns() + (uint64_t)(options->seconds * 1e9);
	status = trace(&tracing, dir, command);
	if (status == EXIT_OK) {
		status = write_file(&tracing, options->output);
		if (*command)
			status = status ? EXIT_RUN_FAILED : exit_status(tracing.status);
	}
	trace_set_finish(&tracing.set);
	if (tracing.connection >= 0)
		close(tracing.connection);
	if (tracing.signals >= 0)
		close(tracing.signals);
	return status;
}

static int parse(int argc, char **argv, struct options *options)
{
	static const struct option known[] = {
		{"output", required_argument, NULL, 'o'},
		{"vgpu", required_argument, NULL, 'v'},
		{"all", no_argument, NULL, 'a'},
		{"seconds", required_argument, NULL, 's'},
		{"help", no_argument, NULL, 'h'},
		{NULL},
	};
	int option;
	char *end;

	while ((option = getopt_long(argc, argv, "+o:h", known, NULL)) != -1) {
		switch (option) {
		case 'o':
			options->output = optarg;
			break;
		case 'v':
			options->vgpu = optarg;
			break;
		case 'a':
			options->all = true;
			break;
		case 's':
			options->seconds = strtod(optarg, &end);
			if (*end || !(options->seconds > 0) || options->seconds > 1e6)
				return -1 - usage(&verb_trace, "--seconds takes a number above 0");
			break;
		case 'h':
			fputs(verb_trace.help, stdout);
			return -1 - EXIT_OK;
		default:
			return -1 - usage(&verb_trace, NULL);
		}
	}
	return optind;
}

static int run(int argc, char **argv)
{
	struct options options = {.output = OUTPUT_DEFAULT};
	int first = parse(argc, argv, &options);

	if (first < 0)
		return -1 - first;
	if (options.all && first < argc)
		return usage(&verb_trace, "either --all, or a program");
	if (options.all && options.vgpu)
		return usage(&verb_trace, "--vgpu is for a program");
	if (!options.all && options.seconds > 0)
		return usage(&verb_trace, "--seconds is for --all; a program is traced to its end");
	if (!options.all && first == argc)
		return usage(&verb_trace, "which program? Or --all");
	return run_with(&options, argv + first);
}

const struct verb verb_trace = {
	.name = "trace",
	.summary = "record a timeline of what programs do on the GPU",
	.help = "Usage: gdev trace [-o FILE] [--vgpu NAME] PROGRAM [ARGUMENT]...\n"
		"       gdev trace --all [-o FILE] [--seconds N]\n"
		"Runs a program as 'gdev run' does, and writes what it and the programs that it starts\n"
		"did: calls, waits, copies and kernels on one clock. Or records all that runs (of your\n"
		"own; of everybody as root), for a time or until Ctrl-C. Open the file in\n"
		"https://ui.perfetto.dev: nothing is sent anywhere, the page reads it in the browser.\n"
		"\n"
		"  -o, --output FILE  where to write; gdev-trace.json when not given, - for standard\n"
		"                     output\n"
		"  --vgpu NAME        the virtual GPU to use, instead of $GDEV_VGPU or gdev0\n"
		"  --all              trace every program that uses gdevd now or later\n"
		"  --seconds N        so long, instead of until Ctrl-C\n"
		"\n"
		"In the timeline: a row for each thread (its calls), two for each stream (what runs, and\n"
		"what the next command waits for), a row for each resource of each virtual GPU (who holds\n"
		"it), and, where memory is short, some for what leaves the device and comes back. Arrows\n"
		"lead from a call to what it started. A program that is killed leaves a complete file.\n"
		"Calls before a program has opened a GPU (cuInit, ...) are not in it.\n"
		"\n"
		"  gdev trace ./matrix 1024\n"
		"  gdev trace -o train.json python3 train.py\n"
		"  gdev trace --all --seconds 10\n"
		"\n"
		"Exit status: the program's (128 + N when signal N killed it), 125 when gdev failed.\n"
		"With --all: 0, or as of the other commands.\n",
	.run = run,
};
