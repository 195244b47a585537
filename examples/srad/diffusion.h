/* SPDX-License-Identifier: MIT
 *
 * Speckle reducing anisotropic diffusion on the CPU, for srad and srad2 to check with. An iteration
 * smooths a picture where it is speckled, as a statistic q0 of a region without detail says, and leaves
 * it alone at edges.
 */
#ifndef EXAMPLES_SRAD_DIFFUSION_H
#define EXAMPLES_SRAD_DIFFUSION_H

#define SRAD_LAMBDA 0.5f

/* Squared coefficient of variation of a region, from its sum and sum of squares. */
float diffusion_q0(double sum, double square, double count);

/* All n x n. `coefficient` is room for what the iteration computes on the way. */
void diffusion_step(float *out, const float *in, float *coefficient, int n, float q0);

#endif
