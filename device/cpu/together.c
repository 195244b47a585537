/* SPDX-License-Identifier: MIT
 *
 * Cooperative launches: the blocks of a grid may wait for each other, so each gets a thread of its own for as
 * long as the launch lasts, and the processors go round among them. They give way wherever they look at
 * memory again and again (ld.acquire, ld.volatile); there they also learn that another block has failed. A
 * block that waits in another way for one that has failed waits until its session ends.
 */
#include <errno.h>
#include <stdlib.h>

#include "device/cpu/cpu.h"
#include "gdev/error.h"

#define STACK_BYTES (1u << 20)

/* Nobody begins before all threads are there. */
struct start {
	pthread_mutex_t lock; /* guards what follows */
	pthread_cond_t changed;
	bool go, cancel;
};

struct seat {
	struct start *start;
	struct cpu_job *job;
	struct cpu_slot slot;
	uint64_t block;
	pthread_t thread;
};

static bool wait_for_all(struct start *start)
{
	bool go;

	pthread_mutex_lock(&start->lock);
	while (!start->go && !start->cancel)
		pthread_cond_wait(&start->changed, &start->lock);
	go = start->go;
	pthread_mutex_unlock(&start->lock);
	return go;
}

static void *sit(void *argument)
{
	struct seat *seat = argument;

	if (wait_for_all(seat->start))
		cpu_job_run_blocks(seat->job, &seat->slot, seat->block, seat->block + 1);
	return NULL;
}

static void begin(struct start *start, bool go)
{
	pthread_mutex_lock(&start->lock);
	start->go = go;
	start->cancel = !go;
	pthread_cond_broadcast(&start->changed);
	pthread_mutex_unlock(&start->lock);
}

static int seat_take(struct seat *seat, const pthread_attr_t *attributes)
{
	int error = cpu_slot_prepare(&seat->slot, seat->job);

	return error ? error : -pthread_create(&seat->thread, attributes, sit, seat);
}

/* The calling thread has the first block. */
void cpu_job_together(struct cpu_job *job, struct cpu_slot *slot)
{
	struct start start = {
		.lock = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER};
	struct seat *seats = calloc(job->count, sizeof *seats);
	int error = seats ? 0 : -ENOMEM;
	pthread_attr_t attributes;
	uint64_t taken = 1;

	pthread_attr_init(&attributes);
	pthread_attr_setstacksize(&attributes, STACK_BYTES);
	for (; !error && taken < job->count; taken += !error) {
		struct seat *seat = &seats[taken];
		seat->start = &start;
		seat->job = job;
		seat->block = taken;
		seat->slot.scratch.pool_thread = (uint32_t)taken;
		error = seat_take(seat, &attributes);
		if (error)
			cpu_slot_finish(&seat->slot);
	}
	pthread_attr_destroy(&attributes);
	if (error)
		cpu_job_fail(job, -GDEV_E_OUT_OF_RESOURCES, 0);
	begin(&start, !error);
	if (!error)
		cpu_job_run_blocks(job, slot, 0, 1);
	for (uint64_t i = 1; seats && i < taken; i++) {
		pthread_join(seats[i].thread, NULL);
		cpu_slot_finish(&seats[i].slot);
	}
	free(seats);
}
