/* SPDX-License-Identifier: MIT
 *
 * NN: the k nearest neighbours of a point. The device computes all distances, the host chooses.
 */
#include "common/harness.h"

#include <math.h>

#define BLOCK 256
#define NEAREST 10
#define X 30.0f
#define Y 90.0f

static unsigned n;
static float *places, *distance;
static int nearest[NEAREST];
static CUdeviceptr device_places, device_distance;

static void setup(void)
{
	n = options.size;
	places = random_floats(2 * (size_t)n, 0, 180);
	distance = host_alloc(n * sizeof(*distance));
	device_places = device_alloc(2 * (size_t)n * sizeof(*places));
	device_distance = device_alloc(n * sizeof(*distance));
}

/* Keeps the NEAREST smallest, sorted; of equal ones the first. With fewer places than that, the last
 * of them stand for the missing. */
static void choose(const float *from, int *chosen)
{
	unsigned count = 0;

	for (unsigned i = 0; i < n; i++) {
		unsigned at = count;

		while (at > 0 && from[i] < from[chosen[at - 1]])
			at--;
		if (at == NEAREST)
			continue;
		if (count < NEAREST)
			count++;
		for (unsigned j = count - 1; j > at; j--)
			chosen[j] = chosen[j - 1];
		chosen[at] = (int)i;
	}
	for (; count < NEAREST; count++)
		chosen[count] = (int)n - 1;
}

static void compute(void)
{
	float x = X, y = Y;

	copy_to_device(device_places, places, 2 * (size_t)n * sizeof(*places));
	launch(device_kernel("nn_distance"), SHAPE((n + BLOCK - 1) / BLOCK, 1, BLOCK, 1),
		&device_distance, &device_places, &x, &y, &n);
	copy_from_device(distance, device_distance, n * sizeof(*distance));
	choose(distance, nearest);
}

/* Rounding may swap two neighbours that are equally far, so that distances are compared, not places. */
static void check(void)
{
	float *want = host_alloc(n * sizeof(*want)), found[NEAREST], wanted[NEAREST];
	int chosen[NEAREST];

	for (unsigned i = 0; i < n; i++)
		want[i] = hypotf(places[2 * (size_t)i] - X, places[2 * (size_t)i + 1] - Y);
	check_floats("the distances", distance, want, n, 1e-5f);
	choose(want, chosen);
	for (unsigned i = 0; i < NEAREST; i++) {
		found[i] = want[nearest[i]];
		wanted[i] = want[chosen[i]];
	}
	check_floats("the nearest", found, wanted, NEAREST, 1e-5f);
}

const struct program program = {
	.name = "nn",
	.summary = "Finds the ten places nearest to a point.",
	.size_means = "places on the map",
	.size = 1000000,
	.size_max = 500000000,
	.setup = setup,
	.compute = compute,
	.check = check,
};
