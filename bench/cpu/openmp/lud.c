/* SPDX-License-Identifier: MIT */
#include "kernel.h"

#define BLOCK 16

KERNEL(lud_diagonal)
{
	float *m = PARAMETER(0, float *);
	int n = PARAMETER(1, int), offset = PARAMETER(2, int);

	m += offset * n + offset;
	for (int k = 0; k < BLOCK - 1; k++)
		for (int i = k + 1; i < BLOCK; i++) {
			m[i * n + k] /= m[k * n + k];
			for (int j = k + 1; j < BLOCK; j++)
				m[i * n + j] -= m[i * n + k] * m[k * n + j];
		}
}

KERNEL(lud_perimeter)
{
	float *m = PARAMETER(0, float *);
	int n = PARAMETER(1, int), offset = PARAMETER(2, int);
	const float *d = m + offset * n + offset;

#pragma omp parallel for
	for (int block = 1; block <= grid->x; block++) {
		float *row = m + offset * n + offset + block * BLOCK;
		float *column = m + (offset + block * BLOCK) * n + offset;

		for (int i = 1; i < BLOCK; i++)
			for (int k = 0; k < i; k++)
				for (int j = 0; j < BLOCK; j++)
					row[i * n + j] -= d[i * n + k] * row[k * n + j];
		for (int i = 0; i < BLOCK; i++)
			for (int j = 0; j < BLOCK; j++) {
				for (int k = 0; k < j; k++)
					column[i * n + j] -= column[i * n + k] * d[k * n + j];
				column[i * n + j] /= d[j * n + j];
			}
	}
}

KERNEL(lud_inner)
{
	float *m = PARAMETER(0, float *);
	int n = PARAMETER(1, int), offset = PARAMETER(2, int);
	const float *rows = m + offset * n;

#pragma omp parallel for
	for (int i = offset + BLOCK; i < n; i++)
		for (int k = 0; k < BLOCK; k++)
			for (int j = offset + BLOCK; j < n; j++)
				m[i * n + j] -= m[i * n + offset + k] * rows[k * n + j];
}
