/* SPDX-License-Identifier: MIT
 *
 * What the kernel says of a process.
 */
#ifndef GDEV_GDEVD_PROCESS_H
#define GDEV_GDEVD_PROCESS_H

#include <spawn.h>
#include <stdint.h>
#include <sys/types.h>

#include "gdevd/ledger.h"

/* When it began, in the kernel's ticks; 0: there is none. */
uint64_t process_started(pid_t pid);
/* Whether the process that opened the connection of which `socket` is our end has ended: 1 or 0. A kernel before 6.5 does not
 * say: 0. -EAGAIN: it cannot be known now, as without a free descriptor. */
int process_peer_ended(int socket);
/* When that process began, which is `pid`. 0: it has ended, and its pid may be another's, or that cannot be known now. Where the
 * kernel does not say it is the one that has the pid. */
uint64_t process_started_of_peer(int socket, pid_t pid);
/* The supplementary groups of that process, of more than GROUPS_MAX the first. */
void process_groups_of_peer(int socket, struct groups *groups);
/* Ends the process that has this pid, if it is the one that began then. -errno: -ESRCH: it is not there any more. */
int process_kill(pid_t pid, uint64_t started);
/* Starts a program in a session of its own, so that a terminal's ^C is for gdevd alone, with signals as they are by default.
 * `files` is destroyed. -errno. */
int process_spawn(pid_t *pid, char *const arguments[], char *const environment[],
	posix_spawn_file_actions_t *files);
/* The NUMA node on which its first thread last ran; -1: nobody knows. */
int process_node(pid_t pid);

#endif
