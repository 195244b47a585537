/* SPDX-License-Identifier: MIT
 *
 * Making work, and comparing what came out of it. See work.h.
 */
#include "ptask/work.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

void require(bool condition, const char *what, const char *why)
{
	if (condition)
		return;
	fprintf(stderr, "%s: cannot %s: %s\n", program.name, what, why);
	exit(2);
}

void *host_alloc(size_t bytes)
{
	void *memory = aligned_alloc(4096, (bytes + 4095) / 4096 * 4096);

	require(memory, "allocate", "no memory; choose a smaller size");
	return memory;
}

static unsigned add_array(struct work *work, size_t bytes)
{
	unsigned array = work->array_count++;

	require(array < ARRAYS_MAX, "make the work", "too many tasks");
	work->bytes[array] = bytes;
	work->host[array] = host_alloc(bytes);
	return array;
}

unsigned work_source(struct work *work, size_t bytes)
{
	work->sources++;
	return add_array(work, bytes);
}

unsigned work_add(struct work *work, struct work_task task, size_t bytes)
{
	task.output = add_array(work, bytes);
	work->tasks[work->task_count++] = task;
	return task.output;
}

void work_result(struct work *work, unsigned array)
{
	work->results[work->result_count++] = array;
}

unsigned work_pointers(const struct work_task *task)
{
	unsigned arrays = task->inputs + !task->in_place;

	return task->pointers > arrays ? task->pointers : arrays;
}

void work_fill(float *numbers, size_t count, uint64_t seed)
{
	uint64_t state = seed << 32;

	for (size_t i = 0; i < count; i++) {
		uint64_t z = (state += 0x9E3779B97F4A7C15u);
		z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
		z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
		numbers[i] = (float)(z >> 40) * 0x1p-23f - 1;
	}
}

bool work_close(const struct work *work, unsigned array, const float *want, double error)
{
	const float *got = work->host[array];
	size_t count = work->bytes[array] / sizeof(float);
	double largest = 0;

	for (size_t i = 0; i < count; i++)
		largest = fmax(largest, fabs(want[i]));
	for (size_t i = 0; i < count; i++)
		/* Written so that a NaN is wrong. */
		if (!(fabs((double)got[i] - want[i]) <= error * largest)) {
			fprintf(stderr, "%s: array %u, element %zu is %g, and not %g\n",
				program.name, array, i, (double)got[i], (double)want[i]);
			return false;
		}
	return true;
}
