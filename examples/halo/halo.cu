/* SPDX-License-Identifier: MIT
 *
 * One step of heat that spreads, in a band of rows. The rows above and below the band are where another device has
 * them, or a copy of them; a band at the border of the plate has its own outermost row there.
 */
#include "common/device.h"

extern "C" __global__ void halo(
	float *out, const float *in, const float *above, const float *below, int rows, int columns)
{
	int column = blockIdx.x * blockDim.x + threadIdx.x;
	int row = blockIdx.y * blockDim.y + threadIdx.y;

	if (row >= rows || column >= columns)
		return;
	const float *here = in + row * columns;
	float north = row > 0 ? here[column - columns] : above[column];
	float south = row < rows - 1 ? here[column + columns] : below[column];
	float west = here[column > 0 ? column - 1 : column];
	float east = here[column < columns - 1 ? column + 1 : column];

	out[row * columns + column] =
		here[column] + 0.2f * (north + south + west + east - 4 * here[column]);
}
