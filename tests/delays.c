/* SPDX-License-Identifier: MIT
 *
 * Threads that are late: LD_PRELOAD puts this library before libc, and around calls at which the kernel may let others run a
 * thread sleeps now and then. A test that takes two sides to be quick, or in some order, soon fails (scripts/test delays).
 *
 * GDEV_TEST_DELAYS=N,US: of a million calls that cost nothing N sleep, for up to US microseconds; of others so many times N as
 * is said below. Without it nothing sleeps.
 */
#include <dlfcn.h>
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { LOOK = 1, LOCK = 5, MOVE = 50, WAIT = 100, PROCESS = 1000, THREAD = 100000 };

#define EXPORT __attribute__((visibility("default")))

static unsigned of_a_million, longest_us;

__attribute__((constructor)) static void begin(void)
{
	const char *delays = getenv("GDEV_TEST_DELAYS");

	if (delays && sscanf(delays, "%u,%u", &of_a_million, &longest_us) != 2)
		of_a_million = 0;
}

/* xorshift64, which begins differently in each thread. */
static uint64_t draw(void)
{
	static _Thread_local uint64_t state;
	struct timespec now;

	if (!state) {
		syscall(SYS_clock_gettime, CLOCK_MONOTONIC, &now);
		state = ((uint64_t)now.tv_nsec << 32 | (uint64_t)syscall(SYS_gettid)) + 1;
	}
	state ^= state << 13;
	state ^= state >> 7;
	state ^= state << 17;
	return state;
}

static void be_late(unsigned times)
{
	uint64_t drawn = of_a_million ? draw() : 0, us;
	struct timespec time;
	int error = errno;

	if (!of_a_million || drawn % 1000000 >= (uint64_t)of_a_million * times)
		return;
	us = (drawn >> 32) % longest_us;
	time = (struct timespec){(time_t)(us / 1000000), (long)(us % 1000000 * 1000)};
	syscall(SYS_clock_nanosleep, CLOCK_MONOTONIC, 0, &time, NULL);
	errno = error;
}

#define LATE(times, type, call, parameters, arguments)                                             \
	EXPORT type call parameters                                                                \
	{                                                                                          \
		static type(*real) parameters;                                                     \
		type result;                                                                       \
		if (!real)                                                                         \
			real = (type(*) parameters)dlsym(RTLD_NEXT, #call);                        \
		be_late(times);                                                                    \
		result = real arguments;                                                           \
		be_late(times);                                                                    \
		return result;                                                                     \
	}

LATE(LOOK, int, clock_gettime, (clockid_t clock, struct timespec *time), (clock, time))
LATE(LOCK, int, pthread_mutex_lock, (pthread_mutex_t * mutex), (mutex))
LATE(LOCK, int, pthread_mutex_unlock, (pthread_mutex_t * mutex), (mutex))
LATE(LOCK, int, pthread_cond_wait, (pthread_cond_t * condition, pthread_mutex_t *mutex),
	(condition, mutex))
LATE(MOVE, ssize_t, read, (int fd, void *bytes, size_t size), (fd, bytes, size))
LATE(MOVE, ssize_t, write, (int fd, const void *bytes, size_t size), (fd, bytes, size))
LATE(WAIT, int, poll, (struct pollfd * polled, nfds_t count, int ms), (polled, count, ms))
LATE(WAIT, int, ppoll,
	(struct pollfd * polled, nfds_t count, const struct timespec *time, const sigset_t *mask),
	(polled, count, time, mask))
LATE(WAIT, int, epoll_wait, (int fd, struct epoll_event *events, int most, int ms),
	(fd, events, most, ms))
LATE(WAIT, ssize_t, send, (int fd, const void *bytes, size_t size, int flags),
	(fd, bytes, size, flags))
LATE(WAIT, ssize_t, sendmsg, (int fd, const struct msghdr *message, int flags),
	(fd, message, flags))
LATE(WAIT, ssize_t, recv, (int fd, void *bytes, size_t size, int flags), (fd, bytes, size, flags))
LATE(WAIT, ssize_t, recvmsg, (int fd, struct msghdr *message, int flags), (fd, message, flags))
LATE(WAIT, int, connect, (int fd, const struct sockaddr *address, socklen_t size),
	(fd, address, size))
LATE(WAIT, int, accept4, (int fd, struct sockaddr *address, socklen_t *size, int flags),
	(fd, address, size, flags))
LATE(WAIT, int, eventfd_read, (int fd, eventfd_t *value), (fd, value))
LATE(WAIT, int, eventfd_write, (int fd, eventfd_t value), (fd, value))
LATE(WAIT, int, usleep, (useconds_t us), (us))
LATE(WAIT, int, nanosleep, (const struct timespec *time, struct timespec *left), (time, left))
LATE(WAIT, int, sched_yield, (void), ())
LATE(PROCESS, pid_t, fork, (void), ())
LATE(PROCESS, pid_t, waitpid, (pid_t pid, int *status, int options), (pid, status, options))

struct thread {
	void *(*run)(void *);
	void *argument;
};

static void *run_late(void *given)
{
	struct thread thread = *(struct thread *)given;

	free(given);
	be_late(THREAD);
	return thread.run(thread.argument);
}

EXPORT int pthread_create(
	pthread_t *id, const pthread_attr_t *attributes, void *(*run)(void *), void *argument)
{
	static int (*real)(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *);
	struct thread *thread = malloc(sizeof *thread);
	int error;

	if (!real)
		real = (__typeof__(real))dlsym(RTLD_NEXT, "pthread_create");
	if (!thread)
		abort();
	*thread = (struct thread){run, argument};
	error = real(id, attributes, run_late, thread);
	if (error)
		free(thread);
	be_late(THREAD);
	return error;
}
