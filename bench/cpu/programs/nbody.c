/* SPDX-License-Identifier: MIT
 *
 * Bodies that attract each other; see nbody.cu.
 */
#include "common/harness.h"

#include <math.h>

#define THREADS 256
#define SOFTENING 0.01f

static unsigned n;
static size_t bytes;
static float *bodies, *accelerations; /* x, y, z, and mass or 0 */
static CUdeviceptr device_bodies, device_accelerations;

static void setup(void)
{
	n = options.size;
	bytes = 4 * n * sizeof(*bodies);
	bodies = random_floats(4 * n, 0, 1);
	accelerations = host_alloc(bytes);
	device_bodies = device_alloc(bytes);
	device_accelerations = device_alloc(bytes);
}

static void compute(void)
{
	copy_to_device(device_bodies, bodies, bytes);
	launch(device_kernel("nbody"), SHAPE(n / THREADS, 1, THREADS, 1), &device_accelerations,
		&device_bodies, &n);
	copy_from_device(accelerations, device_accelerations, bytes);
}

static void check(void)
{
	float *want = host_alloc(bytes);

	for (unsigned i = 0; i < n; i++) {
		float *sum = want + 4 * i;

		sum[0] = sum[1] = sum[2] = sum[3] = 0;
		for (unsigned j = 0; j < n; j++) {
			float d[3], square = SOFTENING;

			for (unsigned k = 0; k < 3; k++) {
				d[k] = bodies[4 * j + k] - bodies[4 * i + k];
				square += d[k] * d[k];
			}
			for (unsigned k = 0; k < 3; k++)
				sum[k] += d[k] * bodies[4 * j + 3] / (square * sqrtf(square));
		}
	}
	check_floats("the accelerations", accelerations, want, 4 * n, 1e-3f);
}

const struct program program = {
	.name = "nbody",
	.summary = "Computes how bodies attract each other.",
	.size_means = "how many bodies; a multiple of 256",
	.size = 4096,
	.size_max = 1u << 20,
	.multiple = THREADS,
	.setup = setup,
	.compute = compute,
	.check = check,
};
