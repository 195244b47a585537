/* SPDX-License-Identifier: MIT
 *
 * What it takes until a thread runs that sleeps, and is written to through an eventfd, after nobody has done anything
 * for --gap-us: what every message between a program, its worker and gdevd costs at least when they sleep. And the
 * processor time that such a thread takes to wake up, to wake another, and to sleep again. One line of JSON.
 */
#include <errno.h>
#include <getopt.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <time.h>

#include "base/clock.h"
#include "bench.h"

#define ROUNDS 200

static struct {
	int there, back; /* eventfds */
	uint64_t written_ns, us[ROUNDS];
	uint64_t used_ns; /* by the thread that answers */
} state;

static void *sleep_and_answer(void *unused)
{
	uint64_t start_ns = clock_thread_cpu_ns();
	eventfd_t count;

	for (unsigned i = 0; i < ROUNDS; i++) {
		eventfd_read(state.there, &count);
		state.us[i] = (clock_now_ns() - state.written_ns) / NS_PER_US;
		eventfd_write(state.back, 1);
	}
	state.used_ns = clock_thread_cpu_ns() - start_ns;
	return NULL;
}

static int compare(const void *a, const void *b)
{
	const uint64_t *x = a, *y = b;

	return (*x > *y) - (*x < *y);
}

int main(int argc, char **argv)
{
	static const struct option names[] = {{"gap-us", required_argument, NULL, 'g'}, {0}};
	uint64_t gap_us = 9500;
	pthread_t thread;
	eventfd_t count;
	int option;

	while ((option = getopt_long(argc, argv, "", names, NULL)) != -1) {
		if (option == '?') {
			fputs("Usage: bench_wake [--gap-us US]\n", stderr);
			return 2;
		}
		gap_us = strtoull(optarg, NULL, 0);
	}
	state.there = eventfd(0, EFD_CLOEXEC);
	state.back = eventfd(0, EFD_CLOEXEC);
	bench_require(state.there < 0 || state.back < 0, "make an eventfd", strerror(errno));
	bench_require(pthread_create(&thread, NULL, sleep_and_answer, NULL), "start a thread", "?");
	for (unsigned i = 0; i < ROUNDS; i++) {
		struct timespec gap = {(time_t)(gap_us / 1000000), (long)(gap_us % 1000000 * 1000)};

		nanosleep(&gap, NULL);
		state.written_ns = clock_now_ns();
		eventfd_write(state.there, 1);
		eventfd_read(state.back, &count);
	}
	pthread_join(thread, NULL);
	qsort(state.us, ROUNDS, sizeof *state.us, compare);
	printf("{\"p50_us\": %llu, \"p99_us\": %llu, \"cpu_us\": %.1f}\n",
		(unsigned long long)state.us[ROUNDS / 2],
		(unsigned long long)state.us[ROUNDS * 99 / 100],
		(double)state.used_ns / ROUNDS / NS_PER_US);
	return 0;
}
