/* SPDX-License-Identifier: MIT
 *
 * Iterative principal components analysis (Table 5 of the PTask paper; Andreut's GS-PCA): the first three components of a
 * matrix, with 10 or 54 iterations each. A component has three ptasks, and an iteration six, or eight where earlier
 * components are taken out: 229 and 1,197 ptasks.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "ptask/pca.h"

#define THREADS PCA_THREADS
#define COMPONENTS PCA_COMPONENTS

struct pca pca;

static unsigned n, iterations;
static size_t vector_bytes, matrix_bytes;
static unsigned source, rest; /* the matrix, and what is left of it */
static unsigned scores[COMPONENTS], loadings[COMPONENTS];

enum space { ONE_BLOCK, BLOCK_A_ROW, THREAD_A_NUMBER, WHOLE_MATRIX };

static unsigned add(struct work *work, enum space space, size_t bytes, struct work_task task)
{
	uint32_t whole = (n + THREADS - 1) / THREADS;
	uint32_t blocks[] = {1, n, whole, whole};

	task.grid[0] = blocks[space];
	task.grid[1] = space == WHOLE_MATRIX ? n : 1;
	task.grid[2] = 1;
	memcpy(task.block, (uint32_t[3]){THREADS, 1, 1}, sizeof task.block);
	memmove(&task.arguments[1], &task.arguments[0], sizeof task.arguments[0]);
	task.arguments[0] = n;
	task.argument_count++;
	return work_add(work, task, bytes);
}

/* Takes earlier components' vectors out of this one, and makes it a unit vector. *norm: of what it was. */
static unsigned make_unit(
	struct work *work, unsigned vector, const unsigned *earlier, unsigned count, unsigned *norm)
{
	if (count)
		vector = add(work, ONE_BLOCK, vector_bytes,
			(struct work_task){.kernel = "orthogonalise",
				.input = {vector, earlier[0], earlier[count - 1]},
				.inputs = 1 + count,
				.pointers = 3,
				.in_place = true});
	*norm = add(work, ONE_BLOCK, sizeof(float),
		(struct work_task){.kernel = "norm", .input = {vector}, .inputs = 1});
	return add(work, THREAD_A_NUMBER, vector_bytes,
		(struct work_task){.kernel = "divide",
			.input = {vector, *norm},
			.inputs = 2,
			.in_place = true});
}

static void add_component(struct work *work, unsigned k, unsigned *units)
{
	unsigned norm = 0;

	units[k] = add(work, THREAD_A_NUMBER, vector_bytes,
		(struct work_task){.kernel = "column",
			.input = {rest},
			.inputs = 1,
			.arguments = {k},
			.argument_count = 1});
	for (unsigned i = 0; i < iterations; i++) {
		loadings[k] = add(work, THREAD_A_NUMBER, vector_bytes,
			(struct work_task){.kernel = "transposed_times",
				.input = {rest, units[k]},
				.inputs = 2});
		loadings[k] = make_unit(work, loadings[k], loadings, k, &norm);
		units[k] = add(work, BLOCK_A_ROW, vector_bytes,
			(struct work_task){
				.kernel = "times", .input = {rest, loadings[k]}, .inputs = 2});
		units[k] = make_unit(work, units[k], units, k, &norm);
	}
	rest = add(work, WHOLE_MATRIX, matrix_bytes,
		(struct work_task){.kernel = "deflate",
			.input = {rest, units[k], loadings[k], norm},
			.inputs = 4,
			.in_place = true});
	scores[k] = add(work, THREAD_A_NUMBER, vector_bytes,
		(struct work_task){.kernel = "scale", .input = {units[k], norm}, .inputs = 2});
}

/* Components of 9, 3, 1 and much less: as many iterations as that find the first three. */
static void fill(float *matrix)
{
	float *rows = host_alloc(vector_bytes), *columns = host_alloc(vector_bytes);

	work_fill(matrix, (size_t)n * (size_t)n, 1);
	for (unsigned k = 0; k < COMPONENTS; k++) {
		float weight = 9.0f / powf(3, (float)k);
		work_fill(rows, (size_t)n, 2 + 2 * (uint64_t)k);
		work_fill(columns, (size_t)n, 3 + 2 * (uint64_t)k);
		for (unsigned i = 0; i < n; i++)
			for (unsigned j = 0; j < n; j++)
				matrix[i * n + j] = (k ? 1 : 0.01f) * matrix[i * n + j] +
						    weight * rows[i] * columns[j];
	}
	free(rows);
	free(columns);
}

static bool make(struct work *work, char **arguments, int count)
{
	unsigned units[COMPONENTS];

	n = count == 2 ? (unsigned)atoi(arguments[0]) : 0;
	iterations = count == 2 ? (unsigned)atoi(arguments[1]) : 0;
	if (n < 4 || n > 4096 || iterations < 1 || iterations > 54)
		return false;
	vector_bytes = (size_t)n * sizeof(float);
	matrix_bytes = vector_bytes * (size_t)n;
	source = rest = work_source(work, matrix_bytes);
	fill(work->host[source]);
	for (unsigned k = 0; k < COMPONENTS; k++)
		add_component(work, k, units);
	for (unsigned k = 0; k < COMPONENTS; k++) {
		work_result(work, scores[k]);
		work_result(work, loadings[k]);
	}
	work_result(work, rest);
	pca = (struct pca){.n = n, .iterations = iterations, .source = source, .rest = rest};
	memcpy(pca.scores, scores, sizeof scores);
	memcpy(pca.loadings, loadings, sizeof loadings);
	return true;
}

/* ---- the same on the CPU ---- */

static double *vectors_of(unsigned count)
{
	return host_alloc((size_t)count * n * sizeof(double));
}

/* Takes the `count` vectors of `earlier` out, and returns the norm of what is left, which becomes a unit vector. */
static double unit_of(double *vector, const double *earlier, unsigned count)
{
	double square = 0;

	for (unsigned k = 0; k < count; k++, earlier += n) {
		double along = 0;
		for (unsigned i = 0; i < n; i++)
			along += vector[i] * earlier[i];
		for (unsigned i = 0; i < n; i++)
			vector[i] -= along * earlier[i];
	}
	for (unsigned i = 0; i < n; i++)
		square += vector[i] * vector[i];
	for (unsigned i = 0; i < n; i++)
		vector[i] /= sqrt(square);
	return sqrt(square);
}

static double iterate(const double *matrix, double *units, double *columns, unsigned k)
{
	double *unit = units + k * n, *column = columns + k * n;

	memset(column, 0, (size_t)n * sizeof *column);
	for (unsigned i = 0; i < n; i++)
		for (unsigned j = 0; j < n; j++)
			column[j] += matrix[i * n + j] * unit[i];
	unit_of(column, columns, k);
	for (unsigned i = 0; i < n; i++) {
		unit[i] = 0;
		for (unsigned j = 0; j < n; j++)
			unit[i] += matrix[i * n + j] * column[j];
	}
	return unit_of(unit, units, k);
}

static bool check_vector(const struct work *work, unsigned array, const double *vector,
	double factor, unsigned count)
{
	float *want = host_alloc(count * sizeof *want);
	bool good;

	for (unsigned i = 0; i < count; i++)
		want[i] = (float)(factor * vector[i]);
	good = work_close(work, array, want, 1e-3);
	free(want);
	return good;
}

static bool check(const struct work *work)
{
	double *matrix = vectors_of(n), *units = vectors_of(COMPONENTS),
	       *columns = vectors_of(COMPONENTS);
	const float *numbers = work->host[source];
	bool good = true;

	for (unsigned i = 0; i < n * n; i++)
		matrix[i] = numbers[i];
	for (unsigned k = 0; k < COMPONENTS; k++) {
		double norm = 0;
		for (unsigned i = 0; i < n; i++)
			units[k * n + i] = matrix[i * n + k];
		for (unsigned i = 0; i < iterations; i++)
			norm = iterate(matrix, units, columns, k);
		for (unsigned i = 0; i < n; i++)
			for (unsigned j = 0; j < n; j++)
				matrix[i * n + j] -= norm * units[k * n + i] * columns[k * n + j];
		good = good && check_vector(work, scores[k], units + k * n, norm, n) &&
		       check_vector(work, loadings[k], columns + k * n, 1, n);
	}
	good = good && check_vector(work, rest, matrix, 1, n * n);
	free(matrix);
	free(units);
	free(columns);
	return good;
}

const struct program program = {"pca",
	"N ITERATIONS\nN: rows and columns of the matrix, 4 to 4096; ITERATIONS: for a component, up to 54",
	make, check, &variant_cublas};
