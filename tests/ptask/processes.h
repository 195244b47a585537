/* SPDX-License-Identifier: MIT
 *
 * Other processes of a test: the same program, with arguments that say which role it plays.
 */
#ifndef GDEV_TESTS_PTASK_PROCESSES_H
#define GDEV_TESTS_PTASK_PROCESSES_H

#include <sys/types.h>

struct process {
	pid_t pid;
	int output; /* what it prints */
};

/* Arguments 1 to 5 of the program. */
struct process start(const char *role, const char *name, const char *where, int first, int count);
/* As waitpid() has it. */
int finish(struct process process);
/* Until it has printed a byte. */
void await_word(struct process process);
/* Until it has printed the id of a process. */
pid_t await_child(struct process process);
void kill_it(struct process process);
/* Runs gdev of the build with these arguments, and takes what it prints. */
void run_gdev(const char *arguments, char *output, size_t room);

#endif
