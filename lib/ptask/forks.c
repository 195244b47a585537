/* SPDX-License-Identifier: MIT
 *
 * Forks. A child that runs no other program has this process's descriptors. Of a socket whose end tells others that this
 * process is gone it must not keep one: those are noted here, and the child closes them first of all.
 */
#include "lib/ptask/forks.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/cleanup.h"

/* Every call on a graph looks at it: a system call would cost as much as a launch. Written where there is no other thread
 * yet. */
static unsigned forks;

/* Guards what follows, also while the process forks. A leaf. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static int *noted;
static size_t count, room;

static void before_fork(void)
{
	pthread_mutex_lock(&lock);
}

static void after_fork_in_parent(void)
{
	pthread_mutex_unlock(&lock);
}

static void after_fork_in_child(void)
{
	forks++;
	while (count)
		close(noted[--count]);
	pthread_mutex_unlock(&lock);
}

static void watch(void)
{
	pthread_atfork(before_fork, after_fork_in_parent, after_fork_in_child);
}

unsigned forks_now(void)
{
	static pthread_once_t watched = PTHREAD_ONCE_INIT;

	pthread_once(&watched, watch);
	return forks;
}

bool forks_since(unsigned then)
{
	return forks != then;
}

static int make_room(void)
{
	size_t more = max_of(2 * room, (size_t)16);
	int *grown = realloc(noted, more * sizeof *noted);

	if (!grown)
		return -ENOMEM;
	noted = grown;
	room = more;
	return 0;
}

int forks_note(int fd)
{
	int error = 0;

	pthread_mutex_lock(&lock);
	if (count == room)
		error = make_room();
	if (!error)
		noted[count++] = fd;
	pthread_mutex_unlock(&lock);
	return error;
}

void forks_forget(int fd)
{
	pthread_mutex_lock(&lock);
	for (size_t i = 0; i < count; i++)
		if (noted[i] == fd) {
			noted[i] = noted[--count];
			break;
		}
	pthread_mutex_unlock(&lock);
}
