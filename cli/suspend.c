/* SPDX-License-Identifier: MIT
 *
 * gdev suspend and gdev resume: what a process has on the device moves to the host, and back.
 */
#include "cli/cli.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define LOOK_NS 5000000 /* between two looks whether it is done */

static int parse_pid(const struct verb *verb, int argc, char **argv, json_int_t *pid)
{
	char *end;

	if (argc == 2 && (!strcmp(argv[1], "--help") || !strcmp(argv[1], "-h"))) {
		fputs(verb->help, stdout);
		return -1 - EXIT_OK;
	}
	if (argc != 2)
		return -1 - usage(verb, "the number of one process is wanted");
	errno = 0;
	*pid = strtol(argv[1], &end, 10);
	if (errno || *end || end == argv[1] || *pid <= 0 || *pid > INT_MAX)
		return -1 - usage(verb, "\"%s\" is no number of a process", argv[1]);
	return 0;
}

/* Whether some session of the process is still moving. -1: it has been said why that is not known. */
static int is_moving(json_int_t pid)
{
	int status, moving = 0;
	json_t *answer = daemon_query("status", &status);
	const json_t *session;
	size_t index;

	if (!answer)
		return -1;
	json_array_foreach(json_object_get(answer, "sessions"), index, session) moving |=
		field_number(session, "pid") == pid &&
		json_is_true(json_object_get(session, "moving"));
	json_decref(answer);
	return moving;
}

static int ask(const struct verb *verb, int argc, char **argv)
{
	const struct timespec pause = {.tv_nsec = LOOK_NS};
	json_int_t pid = 0;
	int moving, status = parse_pid(verb, argc, argv, &pid);
	json_t *request, *answer;

	if (status)
		return -1 - status;
	request = request_create(verb->name);
	json_object_set_new(request, "pid", json_integer(pid));
	answer = daemon_request(request, &status);
	if (!answer)
		return status;
	json_decref(answer);
	while ((moving = is_moving(pid)) > 0)
		nanosleep(&pause, NULL);
	return moving ? EXIT_FAILED : EXIT_OK;
}

static int run_suspend(int argc, char **argv)
{
	return ask(&verb_suspend, argc, argv);
}

static int run_resume(int argc, char **argv)
{
	return ask(&verb_resume, argc, argv);
}

const struct verb verb_suspend = {
	.name = "suspend",
	.summary = "move what a process has on the device to the host",
	.help = "Usage: gdev suspend PID\n"
		"Moves the objects of all sessions of the process from device memory to host swap.\n"
		"What it does with the GPU waits from then on, until 'gdev resume PID'.\n"
		"Returns when all has left. For its owner, root, and gdevd's user.\n"
		"\n"
		"  gdev suspend 1234\n",
	.run = run_suspend,
};

const struct verb verb_resume = {
	.name = "resume",
	.summary = "let a process go on that was suspended",
	.help = "Usage: gdev resume PID\n"
		"Lets a process go on that 'gdev suspend' has stopped, and brings its objects back.\n"
		"\n"
		"  gdev resume 1234\n",
	.run = run_resume,
};
