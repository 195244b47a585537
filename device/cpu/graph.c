/* SPDX-License-Identifier: MIT
 *
 * Graphs that are launched as a whole, by a command or by kernels. All that comes of one launch is part of its command.
 *
 * A run is one execution of a graph, with what kernels of it launch: CUDA's execution environment. It is complete when all
 * nodes and all runs in it are; then the first of its tail launches takes its place. A run takes turns with the others, a node
 * at a time, in the order in which the nodes came: so one that launches itself for ever keeps no other waiting.
 *
 * Of each graph one run can be waiting or going on, which kernels have launched, and one more that it has launched itself for
 * its tail. So memory for runs is bounded by the number of graphs.
 *
 * space->heap_lock guards the space's graphs and what nodes they have. Runs belong to the thread that ends a node, and while
 * kernels run, to heap_lock. No launch by a command begins while its graph gets other nodes (device/ops.h).
 */
#include "device/cpu/cpu.h"

#include <errno.h>
#include <search.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "device/cpu/checking/checking.h"
#include "device/cpu/fault.h"
#include "gdev/error.h"

/* As in CUDA. */
#define CHILDREN_MAX 120u /* of a run, together */
#define TAILS_MAX 255u    /* of a run */
#define STREAM_TAIL 0x0100000000000000u
#define STREAM_CHILD 0x0200000000000000u
#define STREAM_SIBLING 0x0300000000000000u
enum { CUDA_SUCCESS = 0, CUDA_INVALID_VALUE = 1, CUDA_MEMORY_ALLOCATION = 2 };

struct contents {
	_Atomic unsigned uses;
	struct device_space *space;
	uint32_t count;
	struct cpu_child *nodes[];
};

struct device_graph {
	uint64_t handle; /* first, for compare() */
	struct device_space *space;
	_Atomic unsigned uses; /* it is not destroyed; runs */
	_Atomic unsigned busy; /* runs that are not complete */
	atomic_bool uploaded;
	bool from_device;
	struct contents *contents;
};

struct graph_run {
	struct list place; /* in job->runs, while it has nodes to go; or in a list of tails */
	struct list all;   /* job->runs_all */
	struct device_graph *graph;
	struct contents *contents;
	struct graph_run *parent; /* NULL: the command */
	uint32_t next;            /* node */
	unsigned open; /* runs in it that are not complete; and itself, while it has nodes */
	unsigned children, tail_count;
	struct list tails; /* that its kernels have launched, */
	struct list later; /* and what was to follow the run whose place it took */
};

/* ---- graphs ---- */

static int compare(const void *a, const void *b)
{
	const struct device_graph *x = a, *y = b;

	return (x->handle > y->handle) - (x->handle < y->handle);
}

static void contents_put(struct contents *contents)
{
	if (!contents || atomic_fetch_sub(&contents->uses, 1) > 1)
		return;
	for (uint32_t i = 0; i < contents->count; i++) {
		struct cpu_child *child = contents->nodes[i];

		if (child->kind == DEVICE_LAUNCH) {
			if (contents->space->checking)
				checking_remove(contents->space->checking,
					(uint64_t)(uintptr_t)child->params);
			cpu_module_put(child->launch.function->module);
		}
		free(child);
	}
	free(contents);
}

static void graph_put(struct device_graph *graph)
{
	if (atomic_fetch_sub(&graph->uses, 1) > 1)
		return;
	contents_put(graph->contents);
	free(graph);
}

static struct cpu_child *make_node(struct device_space *space, const struct device_node *node)
{
	bool launches = node->kind == DEVICE_LAUNCH;
	uint32_t bytes = launches ? node->launch.param_bytes : 0;
	struct cpu_child *child = cpu_child_alloc(bytes);

	if (!child)
		return NULL;
	child->kept = true;
	child->kind = node->kind;
	if (node->kind == DEVICE_COPY)
		child->copy = node->copy;
	else if (node->kind == DEVICE_FILL)
		child->fill = node->fill;
	if (!launches)
		return child;
	child->launch = node->launch;
	child->launch.params = child->params;
	memcpy(child->params, node->launch.params, bytes);
	atomic_fetch_add(&child->launch.function->module->uses, 1);
	if (space->checking && bytes)
		checking_add(space->checking, (uint64_t)(uintptr_t)child->params, bytes, true);
	return child;
}

static int make_contents(struct device_space *space, const struct device_node *nodes,
	uint32_t count, struct contents **made)
{
	struct contents *contents = calloc(1, sizeof *contents + count * sizeof *contents->nodes);
	int error = contents ? 0 : -ENOMEM;

	if (error)
		return error;
	contents->uses = 1;
	contents->space = space;
	for (uint32_t i = 0; i < count && !error; i++) {
		if (nodes[i].kind == DEVICE_LAUNCH)
			error = cpu_launch_check(&nodes[i].launch, space->device->threads);
		if (!error)
			contents->nodes[i] = make_node(space, &nodes[i]);
		if (!error && !contents->nodes[i])
			error = -ENOMEM;
		contents->count += !error;
	}
	if (error)
		contents_put(contents);
	else
		*made = contents;
	return error;
}

/* Kernels find it from here on. -EEXIST: they find another one by its handle. */
static int register_graph(struct device_graph *graph)
{
	struct device_graph **found;
	int error = 0;

	pthread_mutex_lock(&graph->space->heap_lock);
	found = tsearch(graph, &graph->space->graphs, compare);
	if (!found)
		error = -ENOMEM;
	else if (*found != graph)
		error = -EEXIST;
	pthread_mutex_unlock(&graph->space->heap_lock);
	return error;
}

static int create_graph(struct device_space *space, bool from_device, uint64_t handle,
	struct device_graph **created)
{
	struct device_graph *graph = calloc(1, sizeof *graph);
	int error;

	if (!graph)
		return -ENOMEM;
	graph->space = space;
	graph->uses = 1;
	graph->from_device = from_device;
	graph->handle = handle;
	error = from_device ? register_graph(graph) : 0;
	if (error)
		free(graph);
	else
		*created = graph;
	return error;
}

int cpu_graph_set(struct device_space *space, struct device_graph **graph, bool from_device,
	const struct device_node *nodes, uint32_t count, uint64_t *handle)
{
	struct contents *contents = NULL, *before;
	int error = make_contents(space, nodes, count, &contents);

	if (!error && !*graph)
		error = create_graph(space, from_device, *handle, graph);
	if (error) {
		contents_put(contents);
		return error;
	}
	pthread_mutex_lock(&space->heap_lock);
	before = (*graph)->contents;
	(*graph)->contents = contents;
	pthread_mutex_unlock(&space->heap_lock);
	contents_put(before);
	return 0;
}

void cpu_graph_destroy(struct device_graph *graph)
{
	if (graph->from_device) {
		pthread_mutex_lock(&graph->space->heap_lock);
		tdelete(graph, &graph->space->graphs, compare);
		pthread_mutex_unlock(&graph->space->heap_lock);
	}
	graph_put(graph);
}

/* ---- runs ---- */

static struct graph_run *run_create(
	struct cpu_job *job, struct device_graph *graph, struct graph_run *parent)
{
	struct graph_run *run = calloc(1, sizeof *run);

	if (!run)
		return NULL;
	run->graph = graph;
	run->contents = graph->contents;
	run->parent = parent;
	run->open = 1;
	atomic_fetch_add(&graph->uses, 1);
	atomic_fetch_add(&run->contents->uses, 1);
	list_init(&run->place);
	list_init(&run->tails);
	list_init(&run->later);
	list_append(&job->runs_all, &run->all);
	return run;
}

static void run_destroy(struct graph_run *run)
{
	list_remove(&run->place);
	list_remove(&run->all);
	atomic_fetch_sub(&run->graph->busy, 1);
	contents_put(run->contents);
	graph_put(run->graph);
	free(run);
}

static void append_all(struct list *to, struct list *from)
{
	struct graph_run *run;

	while ((run = list_first(from, struct graph_run, place))) {
		list_remove(&run->place);
		list_append(to, &run->place);
	}
}

/* Something in the run has ended. What is complete goes, and leaves its place to what is to follow. */
static void run_close(struct cpu_job *job, struct graph_run *run)
{
	while (run && !--run->open) {
		struct graph_run *parent = run->parent, *next;

		append_all(&run->tails, &run->later);
		next = list_first(&run->tails, struct graph_run, place);
		if (next) {
			list_remove(&next->place);
			append_all(&next->later, &run->tails);
			next->parent = parent;
			list_append(&job->runs, &next->place);
		}
		run_destroy(run);
		run = next ? NULL : parent;
	}
}

/* The next node is the job's child. */
static void take_node(struct cpu_job *job)
{
	struct graph_run *run = list_first(&job->runs, struct graph_run, place);

	job->run_of = run;
	if (run)
		job->child = run->contents->nodes[run->next++];
}

int cpu_graph_begin(struct cpu_job *job, struct device_command *command)
{
	struct device_graph *graph = command->launch.graph;
	struct graph_run *run;

	cpu_job_empty(job, command);
	atomic_store(&graph->uploaded, true);
	if (command->launch.upload)
		return 0;
	run = run_create(job, graph, NULL);
	if (!run)
		return -ENOMEM;
	atomic_fetch_add(&graph->busy, 1);
	list_append(&job->runs, &run->place);
	take_node(job);
	return 0;
}

bool cpu_graph_next(struct cpu_job *job)
{
	struct graph_run *run = job->run_of;

	if (!run)
		return false;
	list_remove(&run->place);
	if (run->next < run->contents->count)
		list_append(&job->runs, &run->place);
	else
		run_close(job, run);
	take_node(job);
	return job->run_of;
}

void cpu_graph_finish(struct cpu_job *job)
{
	struct graph_run *run;

	list_for_each (run, &job->runs_all, all) /* not one after the other: lists are in them */
		list_init(&run->place);
	list_init(&job->runs);
	while ((run = list_first(&job->runs_all, struct graph_run, all)))
		run_destroy(run);
	job->run_of = NULL;
}

uint64_t cpu_graph_current(const struct cpu_job *job)
{
	return job->run_of && job->run_of->graph->from_device ? job->run_of->graph->handle : 0;
}

/* ---- launches by kernels ---- */

/* One at a time, and another one of itself behind it. */
static bool claim(struct device_graph *graph, const struct graph_run *by, bool tail)
{
	unsigned free = 0;

	if (atomic_compare_exchange_strong(&graph->busy, &free, 1))
		return true;
	free = 1;
	return tail && by->graph == graph && atomic_compare_exchange_strong(&graph->busy, &free, 2);
}

/* Lock held. */
static uint32_t launch_graph(struct cpu_job *job, uint64_t handle, uint64_t stream)
{
	const struct device_graph key = {.handle = handle};
	struct device_graph **found = tfind(&key, &job->space->graphs, compare);
	struct graph_run *by = job->run_of, *parent = NULL, *run;
	bool tail = stream == STREAM_TAIL;

	if (!by || !found || !atomic_load(&(*found)->uploaded))
		return CUDA_INVALID_VALUE;
	if (stream == STREAM_CHILD)
		parent = by;
	else if (stream == STREAM_SIBLING)
		parent = by->parent;
	else if (!tail)
		return CUDA_INVALID_VALUE;
	if (tail ? by->tail_count == TAILS_MAX : parent && parent->children == CHILDREN_MAX)
		return CUDA_INVALID_VALUE;
	if (!claim(*found, by, tail))
		return CUDA_INVALID_VALUE;
	run = run_create(job, *found, parent);
	if (!run) {
		atomic_fetch_sub(&(*found)->busy, 1);
		return CUDA_MEMORY_ALLOCATION;
	}
	list_append(tail ? &by->tails : &job->runs, &run->place);
	by->tail_count += tail;
	if (parent) {
		parent->children++;
		parent->open++;
	}
	return CUDA_SUCCESS;
}

uint32_t cpu_graph_launch(const struct ptx_launch *launch, uint64_t handle, uint64_t stream)
{
	struct cpu_job *job = launch->owner;
	struct fault_guard *guard = fault_suspend();
	uint32_t result;

	pthread_mutex_lock(&job->space->heap_lock);
	result = launch_graph(job, handle, stream);
	pthread_mutex_unlock(&job->space->heap_lock);
	fault_resume(guard);
	return result;
}
