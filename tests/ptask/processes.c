/* SPDX-License-Identifier: MIT
 *
 * See processes.h.
 */
#include "processes.h"

#include <setjmp.h>
#include <signal.h>
#include <spawn.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

extern char **environ;

struct process start(const char *role, const char *name, const char *where, int first, int count)
{
	char numbers[2][16], self[] = "test",
			     *argv[] = {self, (char *)role, (char *)name, (char *)where, numbers[0],
				     numbers[1], NULL};
	posix_spawn_file_actions_t actions;
	struct process process;
	int ends[2];

	snprintf(numbers[0], sizeof numbers[0], "%d", first);
	snprintf(numbers[1], sizeof numbers[1], "%d", count);
	assert_int_equal(pipe(ends), 0);
	posix_spawn_file_actions_init(&actions);
	posix_spawn_file_actions_adddup2(&actions, ends[1], STDOUT_FILENO);
	posix_spawn_file_actions_addclose(&actions, ends[0]);
	posix_spawn_file_actions_addclose(&actions, ends[1]);
	assert_int_equal(
		posix_spawn(&process.pid, "/proc/self/exe", &actions, NULL, argv, environ), 0);
	posix_spawn_file_actions_destroy(&actions);
	close(ends[1]);
	process.output = ends[0];
	return process;
}

int finish(struct process process)
{
	int status;

	close(process.output);
	assert_int_equal(waitpid(process.pid, &status, 0), process.pid);
	return status;
}

void await_word(struct process process)
{
	char word;

	assert_int_equal(read(process.output, &word, 1), 1);
}

pid_t await_child(struct process process)
{
	pid_t child;

	assert_int_equal(read(process.output, &child, sizeof child), sizeof child);
	return child;
}

void kill_it(struct process process)
{
	kill(process.pid, SIGKILL);
	assert_true(WIFSIGNALED(finish(process)));
}

void run_gdev(const char *arguments, char *output, size_t room)
{
	char command[600];
	FILE *pipe;
	size_t length;

	snprintf(command, sizeof command, "%s/cli/gdev %s", getenv("GDEV_BUILD"), arguments);
	pipe = popen(command, "r");
	assert_non_null(pipe);
	length = fread(output, 1, room - 1, pipe);
	output[length] = '\0';
	assert_int_equal(pclose(pipe), 0);
}
