/* SPDX-License-Identifier: MIT
 *
 * See diffusion.h. kernels.h has the same computation for the device.
 */
#include "srad/diffusion.h"

#include <stddef.h>

float diffusion_q0(double sum, double square, double count)
{
	double mean = sum / count, variance = square / count - mean * mean;

	return (float)(variance / (mean * mean));
}

/* To the neighbours north, south, west and east; 0 over the edge. */
static void differences(const float *here, int n, int row, int column, float *d)
{
	d[0] = row > 0 ? here[-n] - *here : 0;
	d[1] = row < n - 1 ? here[n] - *here : 0;
	d[2] = column > 0 ? here[-1] - *here : 0;
	d[3] = column < n - 1 ? here[1] - *here : 0;
}

static float coefficient_of(float here, const float *d, float q0)
{
	float gradient = (d[0] * d[0] + d[1] * d[1] + d[2] * d[2] + d[3] * d[3]) / (here * here);
	float laplacian = (d[0] + d[1] + d[2] + d[3]) / here;
	float numerator = 0.5f * gradient - laplacian * laplacian / 16;
	float denominator = 1 + 0.25f * laplacian;
	float q = numerator / (denominator * denominator);
	float c = 1 / (1 + (q - q0) / (q0 * (1 + q0)));

	return c < 0 ? 0 : c > 1 ? 1 : c;
}

void diffusion_step(float *out, const float *in, float *coefficient, int n, float q0)
{
	float d[4];

	for (int row = 0; row < n; row++)
		for (int column = 0; column < n; column++) {
			ptrdiff_t i = (ptrdiff_t)row * n + column;

			differences(in + i, n, row, column, d);
			coefficient[i] = coefficient_of(in[i], d, q0);
		}
	for (int row = 0; row < n; row++)
		for (int column = 0; column < n; column++) {
			ptrdiff_t i = (ptrdiff_t)row * n + column;
			float c = coefficient[i];
			float south = row < n - 1 ? coefficient[i + n] : c;
			float east = column < n - 1 ? coefficient[i + 1] : c;

			differences(in + i, n, row, column, d);
			out[i] = in[i] + 0.25f * SRAD_LAMBDA *
						 (c * d[0] + south * d[1] + c * d[2] + east * d[3]);
		}
}
