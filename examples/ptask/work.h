/* SPDX-License-Identifier: MIT
 *
 * What the dataflow programs have in common: work as a list of tasks on arrays of one size, and the five ways to do it of
 * section 6.3 of the PTask paper. A program makes a `struct work`, and main() in variants.c does the rest.
 */
#ifndef EXAMPLES_PTASK_WORK_H
#define EXAMPLES_PTASK_WORK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define ARRAYS_MAX 160
#define ARGUMENTS_MAX 3

/* kernel(output, input[0], input[1], arguments...); a task in place has one array, its output and its input:
 * kernel(output, arguments...). */
struct work_task {
	const char *kernel;
	unsigned output, input[2], inputs;
	unsigned pointers; /* parameters that are inputs; those beyond `inputs` are NULL */
	bool in_place;     /* input[0] becomes the output: nobody else takes it */
	uint32_t arguments[ARGUMENTS_MAX];
	unsigned argument_count;
};

/* Arrays have numbers: sources first, then what each task makes. Tasks are in an order in which each comes after those
 * that it takes from. */
struct work {
	size_t bytes; /* of an array */
	uint64_t element_bytes, count[3];
	uint32_t grid[3], block[3];
	unsigned sources, task_count, result_count;
	struct work_task tasks[ARRAYS_MAX];
	unsigned results[ARRAYS_MAX];
	void *host
		[ARRAYS_MAX]; /* memory of sources and results, and of all others for the modular variants */
};

/* ---- the program's ---- */

struct program {
	const char *name, *usage;
	/* Makes the work, with the sources' contents, from what is left of the command line. False: the command line is
	 * wrong. */
	bool (*make)(struct work *work, char **arguments, int count);
	/* Complains, and returns false, if a result is wrong. */
	bool (*check)(const struct work *work);
};
extern const struct program program;
extern const char kernels_ptx[];

void *host_alloc(size_t bytes);

/* ---- variants: each sets up once, and then does all of the work a round ---- */

struct variant {
	const char *name;
	void (*setup)(struct work *work);
	void (*round)(struct work *work);
};

extern const struct variant variant_single, variant_modular, variant_hand, variant_streams,
	variant_graph;

/* Of the graph, from the command line: NULL and 0 unless said. */
extern const char *graph_vgpus[8];
extern unsigned graph_vgpu_count;
extern unsigned graph_schedule; /* enum gdev_schedule */
/* How many invocations moved data between devices, in percent. */
double graph_moved_pct(void);

/* Ends the program with a sentence unless `condition` holds. */
void require(bool condition, const char *what, const char *why);

#endif
