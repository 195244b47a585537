/* SPDX-License-Identifier: MIT
 *
 * What it takes until a process runs that sleeps, and is written to through an eventfd, after nobody has done anything
 * for --gap-us: what every message between a program, its worker and gdevd costs at least when they sleep. That process
 * wakes a third one, sleeps, is woken by that one, wakes the first, and sleeps again: cpu_us is the processor time that it
 * takes for a round, as a proxy of a virtual machine does for a launch alone (vm/proxy.c). --relay and --others name the
 * processors that it and the two others have, since waking a process of another processor can take several times as long;
 * without them the kernel chooses. One line of JSON.
 */
#include <errno.h>
#include <getopt.h>
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "bench.h"

#define ROUNDS 200

/* Who is written to: the process that relays, by either of the others; the third; and the first. */
enum { CALLED, ANSWERED, ONWARD, BACK, EVENTS };

static struct {
	uint64_t written_ns, us[ROUNDS];
	uint64_t used_ns; /* by the process that relays */
} * shared;

static int events[EVENTS];
static int relays_on = -1, others_on = -1; /* processors */

static void stay_on(int processor)
{
	cpu_set_t set;

	if (processor < 0)
		return;
	CPU_ZERO(&set);
	CPU_SET(processor, &set);
	bench_require(
		sched_setaffinity(0, sizeof set, &set), "choose a processor", strerror(errno));
}

static int listen_to(int first, int second)
{
	struct epoll_event event = {.events = EPOLLIN | EPOLLET};
	int listens = epoll_create1(EPOLL_CLOEXEC);

	bench_require(listens < 0 || epoll_ctl(listens, EPOLL_CTL_ADD, first, &event) ||
			      epoll_ctl(listens, EPOLL_CTL_ADD, second, &event),
		"listen", strerror(errno));
	return listens;
}

static void sleep_until_written_to(int listens)
{
	struct epoll_event event;

	while (epoll_wait(listens, &event, 1, -1) != 1)
		;
}

static void relay(void)
{
	int listens = listen_to(events[CALLED], events[ANSWERED]);
	uint64_t start_ns;

	stay_on(relays_on);
	start_ns = clock_thread_cpu_ns();
	for (unsigned i = 0; i < ROUNDS; i++) {
		sleep_until_written_to(listens);
		shared->us[i] = (clock_now_ns() - shared->written_ns) / NS_PER_US;
		eventfd_write(events[ONWARD], 1);
		sleep_until_written_to(listens);
		eventfd_write(events[BACK], 1);
	}
	shared->used_ns = clock_thread_cpu_ns() - start_ns;
}

static void respond(void)
{
	int unused = eventfd(0, EFD_CLOEXEC), listens = listen_to(events[ONWARD], unused);

	stay_on(others_on);
	for (unsigned i = 0; i < ROUNDS; i++) {
		sleep_until_written_to(listens);
		eventfd_write(events[ANSWERED], 1);
	}
}

static void start(void (*run)(void))
{
	pid_t pid = fork();

	bench_require(pid < 0, "start a process", strerror(errno));
	if (pid)
		return;
	run();
	_exit(0);
}

static void call(uint64_t gap_us)
{
	struct timespec gap = {(time_t)(gap_us / 1000000), (long)(gap_us % 1000000 * 1000)};
	eventfd_t count;

	nanosleep(&gap, NULL);
	shared->written_ns = clock_now_ns();
	eventfd_write(events[CALLED], 1);
	eventfd_read(events[BACK], &count);
}

static int compare(const void *a, const void *b)
{
	const uint64_t *x = a, *y = b;

	return (*x > *y) - (*x < *y);
}

static void parse(int argc, char **argv, uint64_t *gap_us)
{
	static const struct option names[] = {{"gap-us", required_argument, NULL, 'g'},
		{"relay", required_argument, NULL, 'r'}, {"others", required_argument, NULL, 'o'},
		{0}};
	int option;

	while ((option = getopt_long(argc, argv, "", names, NULL)) != -1)
		switch (option) {
		case 'g':
			*gap_us = strtoull(optarg, NULL, 0);
			break;
		case 'r':
			relays_on = atoi(optarg);
			break;
		case 'o':
			others_on = atoi(optarg);
			break;
		default:
			fputs("Usage: bench_wake [--gap-us US] [--relay CPU] [--others CPU]\n",
				stderr);
			exit(2);
		}
}

int main(int argc, char **argv)
{
	uint64_t gap_us = 9500;

	parse(argc, argv, &gap_us);
	shared = mmap(
		NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	bench_require(shared == MAP_FAILED, "share memory", strerror(errno));
	for (unsigned i = 0; i < EVENTS; i++) {
		events[i] = eventfd(0, EFD_CLOEXEC);
		bench_require(events[i] < 0, "make an eventfd", strerror(errno));
	}
	start(relay);
	start(respond);
	stay_on(others_on);
	for (unsigned i = 0; i < ROUNDS; i++)
		call(gap_us);
	while (wait(NULL) > 0)
		;
	qsort(shared->us, ROUNDS, sizeof *shared->us, compare);
	printf("{\"p50_us\": %llu, \"p99_us\": %llu, \"cpu_us\": %.1f}\n",
		(unsigned long long)shared->us[ROUNDS / 2],
		(unsigned long long)shared->us[ROUNDS * 99 / 100],
		(double)shared->used_ns / ROUNDS / NS_PER_US);
	return 0;
}
