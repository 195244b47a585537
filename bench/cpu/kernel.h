/* SPDX-License-Identifier: MIT
 *
 * A kernel as natural C with OpenMP, for the side openmp.c of `scripts/bench cpu`:
 *
 *   KERNEL(madd)
 *   {
 *           float *c = PARAMETER(0, float *);
 *           …
 *
 * is the kernel `madd`. It does what the whole grid of the CUDA kernel does, with the same parameters.
 * Where an algorithm takes several launches on a GPU only because blocks cannot wait for each other, the
 * first does it all, and the others are NOTHING_LEFT.
 */
#ifndef BENCH_CPU_KERNEL_H
#define BENCH_CPU_KERNEL_H

#define EXPORT __attribute__((visibility("default")))

struct grid {
	int x, y, block_x;
};

typedef void (*kernel_function)(const struct grid *grid, void **parameters);

#define KERNEL(name)                                                                               \
	EXPORT void openmp_##name(const struct grid *grid, void **parameters);                     \
	void openmp_##name(const struct grid *grid, void **parameters)

#define NOTHING_LEFT(name)                                                                         \
	KERNEL(name)                                                                               \
	{                                                                                          \
	}

#define PARAMETER(i, of_type) (*(of_type *)parameters[i])

#endif
