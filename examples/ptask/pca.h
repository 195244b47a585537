/* SPDX-License-Identifier: MIT
 *
 * What pca.c and pca_cublas.c share.
 */
#ifndef EXAMPLES_PTASK_PCA_H
#define EXAMPLES_PTASK_PCA_H

#include "ptask/work.h"

#define PCA_THREADS 256 /* as in pca.cu */
#define PCA_COMPONENTS 3

/* Numbers of arrays: the matrix, what is left of it, and the vectors of each component. */
struct pca {
	unsigned n, iterations;
	unsigned source, rest, scores[PCA_COMPONENTS], loadings[PCA_COMPONENTS];
};

extern struct pca pca;
extern const struct variant variant_cublas;

#endif
