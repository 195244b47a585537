/* SPDX-License-Identifier: MIT */
#include "kernel.h"

#include <math.h>
#include <string.h>

KERNEL(srad_extract)
{
	float *picture = PARAMETER(0, float *);
	int count = PARAMETER(1, int);

#pragma omp parallel for
	for (int i = 0; i < count; i++)
		picture[i] = expf(picture[i] / 255);
}

KERNEL(srad_compress)
{
	float *picture = PARAMETER(0, float *);
	int count = PARAMETER(1, int);

#pragma omp parallel for
	for (int i = 0; i < count; i++)
		picture[i] = logf(picture[i]) * 255;
}

/* The host adds the blocks' sums up: all is in the first of them. */
KERNEL(srad_sum)
{
	float *sums = PARAMETER(0, float *);
	const float *picture = PARAMETER(1, float *);
	int count = PARAMETER(2, int);
	float sum = 0, square = 0;

#pragma omp parallel for simd reduction(+ : sum, square)
	for (int i = 0; i < count; i++) {
		sum += picture[i];
		square += picture[i] * picture[i];
	}
	memset(sums, 0, 2 * (size_t)grid->x * sizeof(*sums));
	sums[0] = sum;
	sums[1] = square;
}

struct differences {
	float north, south, west, east;
};

/* To the neighbours; 0 over the edge. */
static inline struct differences differences(const float *here, int n, int row, int column)
{
	return (struct differences){
		.north = row > 0 ? here[-n] - *here : 0,
		.south = row < n - 1 ? here[n] - *here : 0,
		.west = column > 0 ? here[-1] - *here : 0,
		.east = column < n - 1 ? here[1] - *here : 0,
	};
}

KERNEL(srad_coefficient)
{
	float *coefficient = PARAMETER(0, float *);
	const float *in = PARAMETER(1, float *);
	int n = PARAMETER(2, int);
	float q0 = PARAMETER(3, float);

#pragma omp parallel for
	for (int row = 0; row < n; row++)
		for (int column = 0; column < n; column++) {
			int i = row * n + column;
			struct differences d = differences(in + i, n, row, column);
			float here = in[i];
			float gradient = (d.north * d.north + d.south * d.south + d.west * d.west +
						 d.east * d.east) /
					 (here * here);
			float laplacian = (d.north + d.south + d.west + d.east) / here;
			float numerator = 0.5f * gradient - laplacian * laplacian / 16;
			float denominator = 1 + 0.25f * laplacian;
			float q = numerator / (denominator * denominator);
			float c = 1 / (1 + (q - q0) / (q0 * (1 + q0)));

			coefficient[i] = c < 0 ? 0 : c > 1 ? 1 : c;
		}
}

KERNEL(srad_update)
{
	float *out = PARAMETER(0, float *);
	const float *in = PARAMETER(1, float *), *coefficient = PARAMETER(2, float *);
	int n = PARAMETER(3, int);
	float lambda = PARAMETER(4, float);

#pragma omp parallel for
	for (int row = 0; row < n; row++)
		for (int column = 0; column < n; column++) {
			int i = row * n + column;
			struct differences d = differences(in + i, n, row, column);
			float c = coefficient[i];
			float south = row < n - 1 ? coefficient[i + n] : c;
			float east = column < n - 1 ? coefficient[i + 1] : c;

			out[i] = in[i] + 0.25f * lambda *
						 (c * d.north + south * d.south + c * d.west +
							 east * d.east);
		}
}
