/* SPDX-License-Identifier: MIT
 *
 * Back propagation, the two parts of it that are large: a layer of n inputs and 16 hidden units.
 */
#include "common/device.h"

#define HIDDEN 16
#define INPUTS 16 /* of a block */

/* Block b weighs 16 inputs for all hidden units (threads: x the unit, y the input) and leaves their
 * sum, a unit, in partial[b]. The host adds the blocks up. */
extern "C" __global__ void bp_forward(float *partial, const float *input, const float *weights)
{
	__shared__ float products[INPUTS][HIDDEN];
	int unit = threadIdx.x, y = threadIdx.y;
	int i = blockIdx.x * INPUTS + y;

	products[y][unit] = weights[i * HIDDEN + unit] * input[i];
	__syncthreads();
	for (int half = INPUTS / 2; half > 0; half /= 2) {
		if (y < half)
			products[y][unit] += products[y + half][unit];
		__syncthreads();
	}
	if (y == 0)
		partial[blockIdx.x * HIDDEN + unit] = products[0][unit];
}

/* A weight a thread: moves it against the error (delta) of its unit, with a momentum. */
extern "C" __global__ void bp_adjust(float *weights, float *previous, const float *input,
	const float *delta, float rate, float momentum)
{
	int unit = threadIdx.x;
	int i = blockIdx.x * INPUTS + threadIdx.y;
	float change = rate * delta[unit] * input[i] + momentum * previous[i * HIDDEN + unit];

	weights[i * HIDDEN + unit] += change;
	previous[i * HIDDEN + unit] = change;
}
