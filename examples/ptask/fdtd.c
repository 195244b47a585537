/* SPDX-License-Identifier: MIT
 *
 * Electromagnetic waves in a cavity with conducting walls (Table 5 of the PTask paper): six ptasks a step, one for each
 * component of the electric and of the magnetic field, and a stream of currents, one a step.
 */
#include <stdlib.h>
#include <string.h>

#include "ptask/work.h"

#define COMPONENTS 3
#define STEPS_MAX 10
#define HALF 0.5f /* as in fdtd.cu */

static int n, steps;
static unsigned electric[COMPONENTS], magnetic[COMPONENTS], currents[STEPS_MAX]; /* sources */
static unsigned electric_end[COMPONENTS], magnetic_end[COMPONENTS];

static unsigned add(struct work *work, const char *kernel, unsigned changed, const unsigned *others,
	const unsigned *current, unsigned axis)
{
	struct work_task task = {.kernel = kernel,
		.grid = {(uint32_t)n / 16, (uint32_t)n / 4, (uint32_t)n / 4},
		.block = {16, 4, 4},
		.input = {changed, others[(axis + 1) % 3], others[(axis + 2) % 3]},
		.inputs = 3,
		.pointers = others == magnetic_end ? 4 : 3,
		.in_place = true,
		.arguments = {(uint32_t)n, axis},
		.argument_count = 2};

	if (current)
		task.input[task.inputs++] = *current;
	return work_add(work, task, work->bytes[changed]);
}

static bool make(struct work *work, char **arguments, int count)
{
	n = count == 2 ? atoi(arguments[0]) : 0;
	steps = count == 2 ? atoi(arguments[1]) : 0;
	if (n < 16 || n > 256 || n % 16 || steps < 1 || steps > STEPS_MAX)
		return false;
	size_t cells = (size_t)n * n * n;
	for (unsigned i = 0; i < COMPONENTS; i++) {
		electric_end[i] = electric[i] = work_source(work, cells * sizeof(float));
		magnetic_end[i] = magnetic[i] = work_source(work, cells * sizeof(float));
		work_fill(work->host[electric[i]], cells, 2 * i);
		work_fill(work->host[magnetic[i]], cells, 2 * i + 1);
	}
	for (int step = 0; step < steps; step++) {
		currents[step] = work_source(work, (size_t)n * sizeof(float));
		work_fill(work->host[currents[step]], (size_t)n, 100 + (uint64_t)step);
	}
	for (int step = 0; step < steps; step++) {
		for (unsigned i = 0; i < COMPONENTS; i++)
			electric_end[i] = add(work, "electric", electric_end[i], magnetic_end,
				i == 2 ? &currents[step] : NULL, i);
		for (unsigned i = 0; i < COMPONENTS; i++)
			magnetic_end[i] =
				add(work, "magnetic", magnetic_end[i], electric_end, NULL, i);
	}
	for (unsigned i = 0; i < COMPONENTS; i++) {
		work_result(work, electric_end[i]);
		work_result(work, magnetic_end[i]);
	}
	return true;
}

/* ---- the same on the CPU ---- */

static const int *strides(void)
{
	static int of[COMPONENTS];

	of[0] = 1;
	of[1] = n;
	of[2] = n * n;
	return of;
}

/* One component of a field, from the other field: `back`, E from H, which is half a cell behind. */
static void update(float *field, float *const others[COMPONENTS], unsigned axis, bool back)
{
	unsigned next = (axis + 1) % 3, last = (axis + 2) % 3;
	int along_next = strides()[next], along_last = strides()[last];

	for (int i = 0; i < n * n * n; i++) {
		int at_next = i / along_next % n, at_last = i / along_last % n;
		const float *a = &others[last][i], *b = &others[next][i];
		if (back && at_next && at_last)
			field[i] += HALF * ((a[0] - a[-along_next]) - (b[0] - b[-along_last]));
		if (!back && at_next < n - 1 && at_last < n - 1)
			field[i] -= HALF * ((a[along_next] - a[0]) - (b[along_last] - b[0]));
	}
}

static void add_current(float *e, const float *current)
{
	for (int z = 0; z < n; z++)
		e[(z * n + n / 2) * n + n / 2] -= current[z];
}

static float *copy_of(const struct work *work, unsigned array)
{
	float *copy = host_alloc(work->bytes[array]);

	memcpy(copy, work->host[array], work->bytes[array]);
	return copy;
}

static bool check(const struct work *work)
{
	float *e[COMPONENTS], *h[COMPONENTS];
	bool good = true;

	for (unsigned i = 0; i < COMPONENTS; i++) {
		e[i] = copy_of(work, electric[i]);
		h[i] = copy_of(work, magnetic[i]);
	}
	for (int step = 0; step < steps; step++) {
		for (unsigned i = 0; i < COMPONENTS; i++)
			update(e[i], h, i, true);
		add_current(e[2], work->host[currents[step]]);
		for (unsigned i = 0; i < COMPONENTS; i++)
			update(h[i], e, i, false);
	}
	for (unsigned i = 0; i < COMPONENTS; i++) {
		good = good && work_close(work, electric_end[i], e[i], 1e-5) &&
		       work_close(work, magnetic_end[i], h[i], 1e-5);
		free(e[i]);
		free(h[i]);
	}
	return good;
}

const struct program program = {"fdtd",
	"N STEPS\nN: cells along a side of the cavity, a multiple of 16 up to 256; STEPS: up to 10, of 6 ptasks each",
	make, check};
