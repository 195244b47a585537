/* SPDX-License-Identifier: MIT
 *
 * Two devices under a policy, simulated: columns of tasks as in Figure 12 of the PTask paper, where each task takes what the
 * one above it has made. Time is counted, so that the machine that runs the test does not matter. Sending, noticing and
 * averaging are those of lib/ptask/schedule.c.
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "lib/ptask/policy.h"

#define AHEAD 4 /* as in lib/ptask/internal.h */
#define DECAY 8 /* as in lib/ptask/schedule.c */
#define NOTICE_MS 0.05
#define COLUMNS_MAX 8
#define DEPTH_MAX 6
#define TASKS_MAX (COLUMNS_MAX * DEPTH_MAX)
#define ROUNDS 40

struct load {
	unsigned columns, depth;
	double run_ms, copy_ms, varies; /* a run takes up to `varies` of run_ms more or less */
	double stalls;                  /* how many runs take 20 times as long */
	double slower;                  /* how much longer a run takes on the second device */
};

struct device {
	struct sent {
		unsigned task;
		double sent_ms, end_ms;
	} ahead[AHEAD];
	unsigned count;
	double busy_ms, ended_ms, strength;
};

struct task {
	double ready_ms, average_wait_ms, average_run_ms;
	int on; /* the device that has its input; -1: none */
};

static struct device devices[2];
static struct task tasks[TASKS_MAX];
static double average_run_ms;
static unsigned ready[TASKS_MAX], ready_count, moved, sent_count;
static uint64_t random_state;

static double random_number(void)
{
	random_state = random_state * 6364136223846793005u + 1442695040888963407u;
	return (double)(random_state >> 40) / (double)(1 << 24);
}

static void move_average(double *average, double value)
{
	*average = *average ? *average + (value - *average) / DECAY : value;
}

static double run_ms(const struct load *load, unsigned device)
{
	double ms = load->run_ms * (1 + load->varies * (2 * random_number() - 1));

	if (random_number() < load->stalls)
		ms *= 20;
	return device ? ms * load->slower : ms;
}

static void add_ready(unsigned task, int on, double now_ms)
{
	tasks[task].ready_ms = now_ms;
	tasks[task].on = on;
	ready[ready_count++] = task;
}

static void send(const struct load *load, unsigned index, unsigned device_index, double now_ms)
{
	struct device *device = &devices[device_index];
	unsigned number = ready[index];
	bool moves = tasks[number].on >= 0 && tasks[number].on != (int)device_index;
	double there_ms = now_ms + (moves ? load->copy_ms : 0);

	move_average(&tasks[number].average_wait_ms, now_ms - tasks[number].ready_ms);
	device->busy_ms = fmax(device->busy_ms, there_ms) + run_ms(load, device_index);
	device->ahead[device->count++] = (struct sent){number, now_ms, device->busy_ms};
	moved += moves;
	sent_count++;
	memmove(&ready[index], &ready[index + 1], (--ready_count - index) * sizeof *ready);
	if (number / load->columns + 1 < load->depth)
		add_ready(number + load->columns, (int)device_index, now_ms);
}

static void choose_all(
	const struct load *load, const struct policy *policy, unsigned device_count, double now_ms)
{
	struct candidate candidates[CANDIDATES_MAX];
	struct place places[2];
	struct choice choice;

	for (;;) {
		unsigned available = 0;
		for (unsigned i = 0; i < device_count; i++) {
			places[i] = (struct place){
				devices[i].count < AHEAD, devices[i].strength, devices[i].count};
			available += places[i].available;
		}
		for (unsigned i = 0; i < ready_count; i++) {
			const struct task *task = &tasks[ready[i]];
			candidates[i] = (struct candidate){.wait_ms = now_ms - task->ready_ms,
				.average_wait_ms = task->average_wait_ms,
				.average_run_ms = task->average_run_ms ? task->average_run_ms
								       : average_run_ms};
			if (task->on >= 0)
				candidates[i].bytes_on[task->on] = 1;
		}
		if (!available || !ready_count ||
			!policy->choose(candidates, ready_count, places, device_count, &choice))
			return;
		send(load, choice.candidate, choice.place, now_ms);
	}
}

/* The host hears of the next end. False: nothing is under way. */
static bool hear(unsigned device_count, double *now_ms)
{
	struct device *first = NULL;
	struct sent sent;

	for (unsigned i = 0; i < device_count; i++)
		if (devices[i].count &&
			(!first || devices[i].ahead[0].end_ms < first->ahead[0].end_ms))
			first = &devices[i];
	if (!first)
		return false;
	sent = first->ahead[0];
	*now_ms = fmax(*now_ms, sent.end_ms + NOTICE_MS);
	move_average(
		&tasks[sent.task].average_run_ms, *now_ms - fmax(sent.sent_ms, first->ended_ms));
	move_average(&average_run_ms, *now_ms - fmax(sent.sent_ms, first->ended_ms));
	first->ended_ms = *now_ms;
	memmove(&first->ahead[0], &first->ahead[1], --first->count * sizeof *first->ahead);
	return true;
}

static double simulate(const struct load *load, const struct policy *policy, unsigned device_count)
{
	double now_ms = 1;

	memset(devices, 0, sizeof devices);
	memset(tasks, 0, sizeof tasks);
	average_run_ms = ready_count = moved = sent_count = 0;
	random_state = 1;
	devices[0].strength = 1;
	devices[1].strength = 1 / load->slower;
	for (unsigned round = 0; round < ROUNDS; round++) {
		for (unsigned i = 0; i < load->columns; i++)
			add_ready(i, -1, now_ms);
		do
			choose_all(load, policy, device_count, now_ms);
		while (hear(device_count, &now_ms));
		assert_int_equal(ready_count, 0);
	}
	return now_ms - 1;
}

/* Speed on two devices over one; *moved_pct: of invocations that moved data. */
static double gain(const struct load *load, const struct policy *policy, double *moved_pct)
{
	double one_ms = simulate(load, &policy_fifo, 1), two_ms = simulate(load, policy, 2);

	*moved_pct = 100.0 * moved / sent_count;
	return one_ms / two_ms;
}

/* Over all depths of Figure 12: the geometric mean of the gain, and the most of what was moved. */
static double figure_12(double run_ms, double copy_ms, double *most_pct)
{
	double product = 1, moved_pct;

	*most_pct = 0;
	for (unsigned depth = 1; depth <= DEPTH_MAX; depth++) {
		struct load load = {.columns = 8,
			.depth = depth,
			.run_ms = run_ms,
			.copy_ms = copy_ms,
			.varies = 0.1,
			.slower = 1};
		product *= gain(&load, &policy_data_aware, &moved_pct);
		*most_pct = fmax(*most_pct, moved_pct);
	}
	return pow(product, 1.0 / DEPTH_MAX);
}

/* Data stays where it is, and both devices have work, whatever the depth. */
static void test_figure_12(void **state)
{
	double most_pct;

	assert_true(figure_12(5, 0.5, &most_pct) >= 1.8);
	assert_true(most_pct <= 0.6);
}

/* Where moving costs more than running, schedules that do not look at data lose. */
static void test_data_aware_gains(void **state)
{
	struct load load = {
		.columns = 8, .depth = 6, .run_ms = 1, .copy_ms = 5, .varies = 0.1, .slower = 1};
	double fifo_pct, priority_pct, aware_pct;
	double fifo = gain(&load, &policy_fifo, &fifo_pct),
	       priority = gain(&load, &policy_priority, &priority_pct);
	double aware = gain(&load, &policy_data_aware, &aware_pct);

	assert_true(fifo_pct > 10 && priority_pct > 10 && aware_pct <= 0.6);
	assert_true(aware > 1.1 * fifo && aware > 1.1 * priority);
}

/* Runs that take 20 times as long now and then, as on a busy machine, do not make data move. */
static void test_stalls(void **state)
{
	struct load load = {.columns = 8,
		.depth = 6,
		.run_ms = 5,
		.copy_ms = 0.5,
		.varies = 0.1,
		.stalls = 0.02,
		.slower = 1};
	double moved_pct;

	assert_true(gain(&load, &policy_data_aware, &moved_pct) >= 1.6);
	assert_true(moved_pct <= 0.6);
}

/* With a run's and a copy's times in milliseconds: what Figure 12 is by them, and nothing else. */
int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_figure_12),
		cmocka_unit_test(test_data_aware_gains),
		cmocka_unit_test(test_stalls),
	};

	if (argc == 3) {
		double most_pct, gained = figure_12(atof(argv[1]), atof(argv[2]), &most_pct);
		printf("{\"two_devices\": %.3f, \"moved_pct\": %.3f}\n", gained, most_pct);
		return 0;
	}
	return cmocka_run_group_tests(tests, NULL, NULL);
}
