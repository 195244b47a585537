/* SPDX-License-Identifier: MIT
 *
 * What both sides of the matrix server know. A request is two matrices, the answer is their product.
 */
#ifndef EXAMPLES_GLOOP_SERVER_H
#define EXAMPLES_GLOOP_SERVER_H

#define N 48
#define MATRIX (N * N) /* ints */
#define REQUEST_BYTES (2u * MATRIX * 4u)
#define ANSWER_BYTES (MATRIX * 4u)

#endif
