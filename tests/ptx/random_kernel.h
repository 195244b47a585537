/* SPDX-License-Identifier: MIT
 *
 * Random kernels that mean the same under every order in which threads run: what the interpreter and the compiler say
 * of them must agree. A kernel is a tree of statements, each drawn from a seed of its own, so that leaving one out
 * changes no other: that is how a failing kernel is shrunk.
 */
#ifndef GDEV_TESTS_PTX_RANDOM_KERNEL_H
#define GDEV_TESTS_PTX_RANDOM_KERNEL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
	RANDOM_NODES = 160,
	RANDOM_INPUT = 2048, /* bytes that all threads read */
	RANDOM_OWN =
		512, /* bytes of output a thread, of which the last RANDOM_FLOATS are floating numbers */
	RANDOM_F32 = 8,
	RANDOM_F64 = 8,
	RANDOM_FLOATS = RANDOM_F32 * 4 + RANDOM_F64 * 8,
	RANDOM_FILLER = 20000,
	RANDOM_NUMBER = 12345, /* the parameter n, where kernels are compared */
	RANDOM_COUNTERS = 8,   /* 32 bits each, behind the output of all threads */
};

enum random_features {
	RANDOM_COLLECTIVES = 1, /* votes, shuffles, reductions with the mask of who is there */
	RANDOM_BARRIERS = 2,    /* shared memory exchanged between barriers */
	RANDOM_DIVERGENT_BARRIERS = 4, /* one on either side of a divergent branch */
	RANDOM_EXITS = 8,
};

struct random_node {
	uint8_t kind;
	bool dropped;
	uint64_t seed;
	uint16_t children, first, next; /* of a list; 0: none */
};

struct random_kernel {
	uint64_t seed;
	unsigned features; /* enum random_features */
	struct random_node nodes[RANDOM_NODES];
	unsigned node_count;
	uint32_t grid, block[3];
	unsigned leaving; /* the statement with returns on sides of a uniform branch; 0: none */
	bool large;       /* so large that the compiler optimises less */
};

void random_kernel_draw(struct random_kernel *k, uint64_t seed, unsigned features);
/* The PTX text, to be freed. Its entry is `k(in, out, n)`: addresses, and a number that is the same everywhere. */
char *random_kernel_text(const struct random_kernel *k);
/* What its input holds. */
void random_kernel_input(const struct random_kernel *k, uint64_t input[RANDOM_INPUT / 8]);

/* How many bytes its output has; the offset of the first that differs between two runs, or -1. Any NaN equals any. */
size_t random_kernel_bytes(const struct random_kernel *k);
long random_kernel_difference(const struct random_kernel *k, const uint8_t *a, const uint8_t *b);

uint64_t random_draw(uint64_t *state);

#endif
