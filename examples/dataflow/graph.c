/* SPDX-License-Identifier: MIT
 *
 * See graph.h.
 */
#include "dataflow/graph.h"

#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TREE_TASKS 32
#define COLUMNS 6
#define LEVELS 10

static void make_tree(struct graph *graph, unsigned width)
{
	unsigned from = 0, to = graph->sources = 2 * width;

	for (; width; width /= 2)
		for (unsigned i = 0; i < width; i++, from += 2)
			graph->tasks[graph->task_count++] = (struct task){to++, {from, from + 1}};
	graph->results[graph->result_count++] = to - 1;
}

/* A task takes from the one above it and from that one's neighbour. */
static void make_rectangle(struct graph *graph, unsigned width, unsigned depth)
{
	unsigned above = 0, to = graph->sources = width;

	for (unsigned level = 0; level < depth; level++, above += width)
		for (unsigned i = 0; i < width; i++)
			graph->tasks[graph->task_count++] =
				(struct task){to++, {above + i, above + (i + 1) % width}};
	for (unsigned i = 0; i < width; i++)
		graph->results[graph->result_count++] = above + i;
}

/* ((A x B) x C) x ... beside each other. */
static void make_columns(struct graph *graph, unsigned width, unsigned depth)
{
	unsigned source = width, to = graph->sources = width * (depth + 1);

	for (unsigned level = 0; level < depth; level++)
		for (unsigned i = 0; i < width; i++, to++, source++)
			graph->tasks[graph->task_count++] =
				(struct task){to, {level ? to - width : i, source}};
	for (unsigned i = 0; i < width; i++)
		graph->results[graph->result_count++] = to - width + i;
}

/* Copy i is of copy i / 2, the first one of the source. */
static void make_fan(struct graph *graph, unsigned width)
{
	graph->sources = 1;
	for (unsigned i = 1; i < 2 * width; i++)
		graph->tasks[graph->task_count++] = (struct task){i, {i / 2, i / 2}};
	for (unsigned i = width; i < 2 * width; i++)
		graph->results[graph->result_count++] = i;
}

void graph_make_sized(struct graph *graph, enum shape shape, enum operation operation, unsigned n,
	unsigned width, unsigned depth)
{
	*graph = (struct graph){
		.operation = operation, .n = n, .inputs = operation == MCOPY ? 1 : 2};
	if (shape == SHAPE_TREE)
		make_tree(graph, width);
	else if (shape == SHAPE_COLUMNS)
		make_columns(graph, width, depth);
	else if (shape == SHAPE_FAN)
		make_fan(graph, width);
	else
		make_rectangle(graph, width, depth);
}

void graph_make(struct graph *graph, enum shape shape, enum operation operation, unsigned n)
{
	graph_make_sized(
		graph, shape, operation, n, shape == SHAPE_TREE ? TREE_TASKS : COLUMNS, LEVELS);
}

/* In [-1, 1); those of mmul so that products of many are of the same size. */
void graph_source(const struct graph *graph, unsigned source, unsigned seed, float *matrix)
{
	float scale = graph->operation == MMUL ? sqrtf(3.0f / (float)graph->n) : 1;
	uint64_t state = (uint64_t)seed << 32 | (source + 1);

	for (size_t i = 0; i < (size_t)graph->n * graph->n; i++) {
		uint64_t z = (state += 0x9E3779B97F4A7C15u);
		z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
		z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
		matrix[i] = scale * ((float)(z >> 40) * 0x1p-23f - 1);
	}
}

static void *require(void *memory)
{
	if (memory)
		return memory;
	fprintf(stderr, "dataflow: no memory; choose a smaller SIZE\n");
	exit(2);
}

/* ---- madd and mcopy: the same graph on the CPU, element by element ---- */

static const float *evaluate(
	const struct graph *graph, float **matrices, unsigned matrix, unsigned seed)
{
	size_t count = (size_t)graph->n * graph->n;
	const struct task *task;
	const float *a, *b;

	if (matrices[matrix])
		return matrices[matrix];
	matrices[matrix] = require(malloc(count * sizeof(float)));
	if (matrix < graph->sources) {
		graph_source(graph, matrix, seed, matrices[matrix]);
		return matrices[matrix];
	}
	task = &graph->tasks[matrix - graph->sources];
	a = evaluate(graph, matrices, task->input[0], seed);
	b = graph->operation == MADD ? evaluate(graph, matrices, task->input[1], seed) : NULL;
	for (size_t i = 0; i < count; i++)
		matrices[matrix][i] = b ? a[i] + b[i] : a[i];
	return matrices[matrix];
}

static bool check_elements(
	const struct graph *graph, unsigned result, unsigned seed, const float *matrix)
{
	float *matrices[MATRICES_MAX] = {NULL};
	const float *want = evaluate(graph, matrices, result, seed);
	bool same = memcmp(matrix, want, (size_t)graph->n * graph->n * sizeof(float)) == 0;

	for (unsigned i = 0; i < MATRICES_MAX; i++)
		free(matrices[i]);
	return same;
}

/* ---- mmul: both sides times a vector, which costs the CPU n^2 and not n^3 a product ---- */

static void multiply(const struct graph *graph, const float *matrix, double *vector)
{
	double *product = require(calloc(graph->n, sizeof(*product)));

	for (size_t i = 0; i < graph->n; i++)
		for (size_t j = 0; j < graph->n; j++)
			product[i] += (double)matrix[i * graph->n + j] * vector[j];
	memcpy(vector, product, graph->n * sizeof(*product));
	free(product);
}

/* A rectangle's result is a product of a thousand sources. */
static void apply(const struct graph *graph, float **sources, unsigned matrix, double *vector)
{
	const struct task *task = &graph->tasks[matrix - graph->sources];

	if (matrix < graph->sources) {
		multiply(graph, sources[matrix], vector);
		return;
	}
	apply(graph, sources, task->input[1], vector);
	apply(graph, sources, task->input[0], vector);
}

static bool check_product(
	const struct graph *graph, unsigned result, unsigned seed, const float *matrix)
{
	float *sources[MATRICES_MAX] = {NULL};
	double *got = require(malloc(graph->n * sizeof(*got)));
	double *want = require(malloc(graph->n * sizeof(*want)));
	double error = 0, vector_norm = 0, matrix_norm = 0;

	for (unsigned i = 0; i < graph->sources; i++) {
		sources[i] = require(malloc((size_t)graph->n * graph->n * sizeof(float)));
		graph_source(graph, i, seed, sources[i]);
	}
	for (unsigned i = 0; i < graph->n; i++)
		got[i] = want[i] = i % 7 - 3.0;
	for (unsigned i = 0; i < graph->n; i++)
		vector_norm += got[i] * got[i];
	for (size_t i = 0; i < (size_t)graph->n * graph->n; i++)
		matrix_norm += (double)matrix[i] * matrix[i];
	multiply(graph, matrix, got);
	apply(graph, sources, result, want);
	for (unsigned i = 0; i < graph->n; i++)
		error += (got[i] - want[i]) * (got[i] - want[i]);
	for (unsigned i = 0; i < graph->sources; i++)
		free(sources[i]);
	free(got);
	free(want);
	/* Written so that a NaN is wrong. */
	return error <= 1e-6 * matrix_norm * vector_norm;
}

bool graph_check(const struct graph *graph, unsigned index, unsigned seed, const float *matrix)
{
	unsigned result = graph->results[index];
	bool good = graph->operation == MMUL ? check_product(graph, result, seed, matrix)
					     : check_elements(graph, result, seed, matrix);

	if (!good)
		fprintf(stderr, "dataflow: WRONG: result %u is not what the CPU computes\n", index);
	return good;
}
