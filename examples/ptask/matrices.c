/* SPDX-License-Identifier: MIT
 *
 * Matrices in trees and rectangles (Table 5 of the PTask paper): gemm, madd and mcopy.
 */
#include <stdlib.h>
#include <string.h>

#include "dataflow/graph.h"
#include "ptask/work.h"

#define TILE 16

static struct graph graph;

static int index_of(const char *word, const char *const words[])
{
	for (int i = 0; words[i]; i++)
		if (!strcmp(word, words[i]))
			return i;
	return -1;
}

static void copy_tasks(struct work *work, const char *kernel)
{
	size_t bytes = (size_t)graph.n * graph.n * sizeof(float);

	for (unsigned i = 0; i < graph.sources; i++)
		graph_source(&graph, i, 1, work->host[work_source(work, bytes)]);
	for (unsigned i = 0; i < graph.task_count; i++) {
		const unsigned *input = graph.tasks[i].input;
		work_add(work,
			(struct work_task){.kernel = kernel,
				.grid = {graph.n / TILE, graph.n / TILE, 1},
				.block = {TILE, TILE, 1},
				.input = {input[0], input[1]},
				.inputs = graph.inputs,
				.pointers = 3,
				.arguments = {graph.n},
				.argument_count = 1},
			bytes);
	}
	for (unsigned i = 0; i < graph.result_count; i++)
		work_result(work, graph.results[i]);
}

static bool make(struct work *work, char **arguments, int count)
{
	static const char *const shapes[] = {"tree", "rectangle", "columns", NULL};
	static const char *const tasks[] = {"madd", "gemm", "mcopy", NULL};
	static const char *const kernels[] = {"madd", "mmul", "mcopy"};
	int shape = count == 5 ? index_of(arguments[0], shapes) : -1;
	int task = count == 5 ? index_of(arguments[1], tasks) : -1;
	unsigned n = count == 5 ? (unsigned)atoi(arguments[2]) : 0;
	unsigned width = count == 5 ? (unsigned)atoi(arguments[3]) : 0;
	unsigned depth = count == 5 ? (unsigned)atoi(arguments[4]) : 0;
	bool tree = shape == SHAPE_TREE;
	unsigned most = tree && task != MCOPY ? 32 : RESULTS_MAX;

	if (shape < 0 || task < 0 || !n || n % TILE || n > 8192 || !width || width > most ||
		(tree ? (width & (width - 1)) != 0 : !depth || depth > 12))
		return false;
	if (tree && task == MCOPY)
		shape = SHAPE_FAN; /* a copy takes one matrix, and not two */
	graph_make_sized(&graph, (enum shape)shape, (enum operation)task, n, width, depth);
	copy_tasks(work, kernels[task]);
	return true;
}

static bool check(const struct work *work)
{
	bool good = true;

	for (unsigned i = 0; i < work->result_count; i++)
		good &= graph_check(&graph, i, 1, work->host[work->results[i]]);
	return good;
}

const struct program program = {"matrices",
	"tree|rectangle|columns madd|gemm|mcopy N WIDTH DEPTH\n"
	"N: rows and columns of a matrix, a multiple of 16; WIDTH: tasks in the first level (a tree's: 1, 2, 4 to 32, of mcopy in\n"
	"the last level, to 8; a rectangle's: up to 8); DEPTH: levels of a rectangle, or of columns beside each other, up to 12",
	make, check};
