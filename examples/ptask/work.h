/* SPDX-License-Identifier: MIT
 *
 * What the dataflow programs have in common: work as a list of tasks on arrays, and the five ways to do it of section 6.3 of
 * the PTask paper. A program makes a `struct work`, and main() in variants.c does the rest.
 */
#ifndef EXAMPLES_PTASK_WORK_H
#define EXAMPLES_PTASK_WORK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define ARRAYS_MAX 1280
#define INPUTS_MAX 4
#define ARGUMENTS_MAX 3

/* kernel(output, input[0], input[1], ..., arguments...). A task in place changes input[0], which is its output and stands
 * there alone: kernel(output, input[1], ..., arguments...). Every other task that takes input[0] is one that this one
 * needs, directly or not: so no variant has to keep the old contents. */
struct work_task {
	const char *kernel;
	uint32_t grid[3], block[3];
	unsigned output, input[INPUTS_MAX], inputs;
	unsigned
		pointers; /* parameters that are pointers; those beyond the arrays are NULL; 0: as many as arrays */
	bool in_place;
	uint32_t arguments[ARGUMENTS_MAX];
	unsigned argument_count;
};

/* Arrays have numbers: sources first, then what each task makes. Tasks are in an order in which each comes after those
 * that it takes from. */
struct work {
	unsigned array_count, sources, task_count, result_count;
	size_t bytes[ARRAYS_MAX]; /* of an array */
	void *host
		[ARRAYS_MAX]; /* its memory, which all but the modular variants use for sources and results alone */
	struct work_task tasks[ARRAYS_MAX];
	unsigned results[ARRAYS_MAX];
};

/* The number of a new source, whose contents the caller writes to host[]. Before any task. */
unsigned work_source(struct work *work, size_t bytes);
/* The number of the array that the task makes. `bytes`: as its input[0] has if it is in place. */
unsigned work_add(struct work *work, struct work_task task, size_t bytes);
/* The array comes out at the end. */
void work_result(struct work *work, unsigned array);
/* Pointers among the kernel's parameters. */
unsigned work_pointers(const struct work_task *task);

/* Reproducible numbers in [-1, 1). */
void work_fill(float *numbers, size_t count, uint64_t seed);
/* Complains, and returns false, if an array of floats is not what it should be, within `error` of the largest. */
bool work_close(const struct work *work, unsigned array, const float *want, double error);

/* ---- the program's ---- */

struct program {
	const char *name, *usage;
	/* Makes the work, with the sources' contents, from what is left of the command line. False: the command line is
	 * wrong. */
	bool (*make)(struct work *work, char **arguments, int count);
	/* Complains, and returns false, if a result is wrong. */
	bool (*check)(const struct work *work);
	const struct variant *more; /* a variant that this program alone has; NULL: none */
};
extern const struct program program;
extern const char kernels_ptx[];

void *host_alloc(size_t bytes);

/* ---- variants: each sets up once, and then does all of the work a round ---- */

struct variant {
	const char *name;
	void (*setup)(struct work *work);
	void (*round)(struct work *work);
	/* Whether the machine has what it needs; NULL: any has. */
	bool (*is_there)(void);
};

extern const struct variant variant_single, variant_modular, variant_hand, variant_streams,
	variant_graph;

/* Of the graph, from the command line: NULL and 0 unless said. */
extern const char *graph_vgpus[8];
extern unsigned graph_vgpu_count;
extern unsigned graph_schedule; /* enum gdev_schedule */
extern unsigned graph_lanes;
/* How many invocations moved data between devices, in percent. */
double graph_moved_pct(void);
/* The halves of a round. */
void graph_push(struct work *work);
void graph_pull(struct work *work);

/* Ends the program with a sentence unless `condition` holds. */
void require(bool condition, const char *what, const char *why);

#endif
