/* SPDX-License-Identifier: MIT
 *
 * The graphs of the dataflow programs: which task takes what from whom, and what comes out on the CPU. A
 * matrix is a source, or what a task makes; all have numbers, sources first. Tasks are in an order in which
 * each comes after those that it takes from.
 */
#ifndef EXAMPLES_DATAFLOW_GRAPH_H
#define EXAMPLES_DATAFLOW_GRAPH_H

#include <stdbool.h>
#include <stddef.h>

#define MATRICES_MAX 160
#define RESULTS_MAX 8

enum shape { SHAPE_TREE, SHAPE_RECTANGLE, SHAPE_COLUMNS, SHAPE_FAN };
enum operation { MADD, MMUL, MCOPY };

struct task {
	unsigned output;   /* a matrix's number */
	unsigned input[2]; /* mcopy takes the first alone */
};

struct graph {
	enum operation operation;
	unsigned n; /* rows and columns of a matrix */
	unsigned sources, task_count, inputs;
	unsigned results[RESULTS_MAX]; /* matrices that nobody takes: what comes out */
	unsigned result_count;
	struct task tasks[MATRICES_MAX];
};

/* A tree of 6 levels with 32 tasks in the first, or 10 levels of 6 tasks each. */
void graph_make(struct graph *graph, enum shape shape, enum operation operation, unsigned n);

/* The same with `width` tasks in the first level, a power of two for a tree; at most RESULTS_MAX for a rectangle, and for columns,
 * which take nothing from each other and a source a task. Both have `depth` levels. A fan is a tree the other way round: its one source is
 * copied, each copy is copied twice, and the last `width` copies are the results. */
void graph_make_sized(struct graph *graph, enum shape shape, enum operation operation, unsigned n,
	unsigned width, unsigned depth);

/* Source number `source`, which the seed decides. */
void graph_source(const struct graph *graph, unsigned source, unsigned seed, float *matrix);

/* Whether `matrix` is what result number `index` of the graph has to be. Complains if not. */
bool graph_check(const struct graph *graph, unsigned index, unsigned seed, const float *matrix);

#endif
