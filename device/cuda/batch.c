/* SPDX-License-Identifier: MIT
 *
 * Launches that wait together go to the driver as one: as a graph of kernels, one behind the other. A launch by
 * itself takes 3 us of the issuing thread; one of a graph that is there already, with other kernels and parameters
 * in it, 0.3 to 1.5 us; one that a graph has already as it is, next to nothing.
 *
 * Any launches. A device has a few graphs of two sizes, made with its context, of a kernel that does nothing: so no
 * program waits for them, and what they take of the device is part of what a context takes. They take turns. One is
 * changed and launched again only when what was launched by it is done: the driver would wait for that. When none is
 * free, the device has enough to do, and launches go one by one.
 *
 * Rows. Launches that a client says follow each other (a program's graph) will come again as they are. A row is given to
 * a graph that has it; else to one that is free and has the same kernels, or as many; else one is made.
 *
 * A graph knows what it has, and only what differs is changed. The driver may look at a function that a graph had before,
 * so a module takes the graphs with it that have one of its functions.
 */
#include "device/cuda/cuda.h"

#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"

#define SMALL_GRAPHS 8
#define LARGE_GRAPHS 16
#define ROW_FIRST (SMALL_GRAPHS + LARGE_GRAPHS)
#define GRAPHS (ROW_FIRST + 32)

static const char nothing_ptx[] = ".version 6.0\n"
				  ".target sm_70\n"
				  ".address_size 64\n"
				  ".visible .entry nothing() { ret; }\n";

/* A kernel of a graph. `launch` is as it was given; the parameters are a copy of ours. */
struct step {
	CUgraphNode node;
	struct device_launch launch;
	void *params;
	uint32_t room;
};

struct graph {
	CUgraph graph;
	CUgraphExec exec; /* NULL: not made */
	struct step *steps;
	unsigned count;
	/* It is free when the queue has completed so many; NULL: it is. */
	struct device_queue *queue;
	uint64_t until;
};

struct batches {
	pthread_mutex_t lock; /* of all graphs */
	CUmodule module;
	bool refused; /* the driver would not make one */
	unsigned next_small, next_large;
	struct graph graphs[GRAPHS];    /* small, large, and from ROW_FIRST on of rows */
	struct device_function nothing; /* of the module; without a name */
};

/* ---- what can go together ---- */

/* Kernels that launch kernels, and those that read by a reference what it is bound to when they are launched, go by themselves: of
 * them in graphs CUDA says little. */
static bool fits(const struct device_command *command)
{
	const struct device_launch *launch = &command->launch;
	const struct device_module *module;

	if (command->kind != DEVICE_LAUNCH || launch->cooperative || launch->cluster[0])
		return false;
	if (command->queue
			->part_count) /* a graph's kernels run where the graph was made for, whatever its stream */
		return false;
	module = launch->function->module; /* NULL: the backend's own kernel */
	return !module || !(module->launches || __atomic_load_n(&module->bound, __ATOMIC_RELAXED));
}

/* Takes no more of the batch than one of the graphs that are there is for. */
static void cut(struct batch *batch)
{
	batch->row = false;
	batch->count = batch->count >= BATCH_LARGE   ? BATCH_LARGE
		       : batch->count >= BATCH_SMALL ? BATCH_SMALL
						     : 0;
}

bool batch_gather(struct device_command *first, struct batch *batch)
{
	struct device_command *command = first;
	bool more = fits(first) && first->launch.more;

	batch->count = 0;
	batch->row = more;
	while (command && command->queue == first->queue && fits(command) &&
		batch->count < (batch->row ? BATCH_MAX : BATCH_LARGE)) {
		if ((batch->row ? !more : command->launch.more) || (batch->count && command->timed))
			break;
		__builtin_prefetch(command->next);
		more = command->launch.more;
		batch->commands[batch->count++] = command;
		command = command->next;
	}
	if (!batch->row || (more && !command && batch->count < BATCH_MAX))
		cut(batch);
	return batch->count >= BATCH_SMALL;
}

/* ---- steps ---- */

/* As the driver wants it: it points to `extra` and its size. */
struct node {
	CUDA_KERNEL_NODE_PARAMS params;
	size_t bytes;
	void *extra[5];
};

static CUresult describe(const struct device_launch *l, struct node *node)
{
	struct launch_config config;

	node->bytes = l->param_bytes;
	node->extra[0] = CU_LAUNCH_PARAM_BUFFER_POINTER;
	node->extra[1] = (void *)l->params;
	node->extra[2] = CU_LAUNCH_PARAM_BUFFER_SIZE;
	node->extra[3] = &node->bytes;
	node->extra[4] = CU_LAUNCH_PARAM_END;
	node->params = (CUDA_KERNEL_NODE_PARAMS){.func = l->function->handle,
		.gridDimX = l->grid[0],
		.gridDimY = l->grid[1],
		.gridDimZ = l->grid[2],
		.blockDimX = l->block[0],
		.blockDimY = l->block[1],
		.blockDimZ = l->block[2],
		.sharedMemBytes = l->shared_bytes,
		.extra = l->param_bytes ? node->extra : NULL};
	return l->shared_bytes ? cuda_launch_config(l, &config, NULL) : CUDA_SUCCESS;
}

static bool is_same(const struct step *step, const struct device_launch *l)
{
	const struct device_launch *has = &step->launch;

	return has->function == l->function && !memcmp(has->grid, l->grid, sizeof l->grid) &&
	       !memcmp(has->block, l->block, sizeof l->block) &&
	       has->shared_bytes == l->shared_bytes && has->param_bytes == l->param_bytes &&
	       (!l->param_bytes || !memcmp(step->params, l->params, l->param_bytes));
}

static bool keep(struct step *step, const struct device_launch *l)
{
	if (l->param_bytes > step->room) {
		void *params = realloc(step->params, l->param_bytes);
		if (!params)
			return false;
		step->params = params;
		step->room = l->param_bytes;
	}
	step->launch = *l;
	if (l->param_bytes)
		memcpy(step->params, l->params, l->param_bytes);
	return true;
}

/* ---- graphs ---- */

static void unmake(const struct driver *driver, struct graph *graph)
{
	/* What is under way is not harmed. */
	if (graph->exec)
		driver->cuGraphExecDestroy(graph->exec);
	if (graph->graph)
		driver->cuGraphDestroy(graph->graph);
	for (unsigned i = 0; i < graph->count; i++)
		free(graph->steps[i].params);
	free(graph->steps);
	*graph = (struct graph){0};
}

static CUresult add_step(const struct driver *driver, struct graph *graph, unsigned i,
	const struct device_launch *launch)
{
	struct step *step = &graph->steps[i];
	struct node node;
	CUresult result = describe(launch, &node);

	if (!result && !keep(step, launch))
		result = CUDA_ERROR_OUT_OF_MEMORY;
	if (!result)
		result = driver->cuGraphAddKernelNode(&step->node, graph->graph,
			i ? &step[-1].node : NULL, i ? 1 : 0, &node.params);
	return result;
}

/* Of these launches, or of so many of the one kernel. */
static CUresult make(const struct driver *driver, struct graph *graph,
	struct device_command *const batch[], struct device_function *kernel, unsigned count)
{
	const struct device_launch one = {
		.function = kernel, .grid = {1, 1, 1}, .block = {1, 1, 1}};
	CUresult result = driver->cuGraphCreate(&graph->graph, 0);

	if (result)
		return result;
	graph->steps = calloc(count, sizeof *graph->steps);
	graph->count = graph->steps ? count : 0;
	if (!graph->steps)
		result = CUDA_ERROR_OUT_OF_MEMORY;
	for (unsigned i = 0; i < count && !result; i++)
		result = add_step(driver, graph, i, batch ? &batch[i]->launch : &one);
	if (!result)
		result = driver->cuGraphInstantiateWithFlags(&graph->exec, graph->graph, 0);
	if (result)
		unmake(driver, graph);
	return result;
}

static CUresult change(
	const struct driver *driver, struct graph *graph, struct device_command *const batch[])
{
	struct node node;
	CUresult result = CUDA_SUCCESS;

	for (unsigned i = 0; i < graph->count && !result; i++) {
		struct step *step = &graph->steps[i];
		const struct device_launch *launch = &batch[i]->launch;
		if (is_same(step, launch))
			continue;
		result = describe(launch, &node);
		if (!result && !keep(step, launch))
			result = CUDA_ERROR_OUT_OF_MEMORY;
		if (!result)
			result = driver->cuGraphExecKernelNodeSetParams(
				graph->exec, step->node, &node.params);
	}
	return result;
}

static bool is_free(const struct graph *graph)
{
	return !graph->queue || graph->until <= atomic_load(&graph->queue->completed);
}

/* ---- which one ---- */

static struct graph *next_of(struct graph graphs[], unsigned count, unsigned *next)
{
	struct graph *graph = &graphs[*next % count];

	if (!is_free(graph))
		return NULL;
	(*next)++;
	return graph;
}

static bool has_all(const struct graph *graph, struct device_command *const batch[], unsigned count)
{
	if (!graph->exec || graph->count != count)
		return false;
	for (unsigned i = 0; i < count; i++)
		if (!is_same(&graph->steps[i], &batch[i]->launch))
			return false;
	return true;
}

static bool has_kernels(
	const struct graph *graph, struct device_command *const batch[], unsigned count)
{
	for (unsigned i = 0; i < count; i++)
		if (graph->steps[i].launch.function != batch[i]->launch.function)
			return false;
	return true;
}

/* How well a graph would do for what it does not have: 0 is not at all. */
static int rank(const struct graph *graph, struct device_command *const batch[], unsigned count)
{
	if (!graph->exec)
		return 3;
	if (!is_free(graph))
		return 0;
	if (graph->count != count)
		return 1;
	return has_kernels(graph, batch, count) ? 4 : 2;
}

static struct graph *row_for(
	struct batches *batches, struct device_command *const batch[], unsigned count)
{
	struct graph *best = NULL;
	int best_rank = 0;

	for (int i = ROW_FIRST; i < GRAPHS; i++)
		if (has_all(&batches->graphs[i], batch, count))
			return &batches->graphs[i]; /* though it is under way: it stays as it is */
	for (int i = ROW_FIRST; i < GRAPHS; i++) {
		struct graph *graph = &batches->graphs[i];
		int its_rank = rank(graph, batch, count);
		if (its_rank > best_rank) {
			best = graph;
			best_rank = its_rank;
		}
	}
	return best;
}

static struct graph *graph_for(struct batches *batches, const struct batch *batch)
{
	if (batch->row)
		return row_for(batches, batch->commands, batch->count);
	if (batch->count == BATCH_LARGE)
		return next_of(&batches->graphs[SMALL_GRAPHS], LARGE_GRAPHS, &batches->next_large);
	return next_of(batches->graphs, SMALL_GRAPHS, &batches->next_small);
}

static enum issued launch(
	struct device_queue *queue, struct batches *batches, const struct batch *batch, bool brief)
{
	const struct driver *driver = queue->space->device->driver;
	struct graph *graph = graph_for(batches, batch);
	CUresult result;

	if (!graph)
		return ISSUE_REFUSED;
	if (graph->exec && graph->count == batch->count) {
		result = change(driver, graph, batch->commands);
	} else if (brief) {
		return ISSUE_TAKES_LONG;
	} else {
		unmake(driver, graph);
		result = make(driver, graph, batch->commands, NULL, batch->count);
		batches->refused = result != CUDA_SUCCESS;
	}
	if (!result)
		result = driver->cuGraphLaunch(graph->exec, queue->stream);
	if (result) { /* nobody knows what it has now */
		unmake(driver, graph);
		return ISSUE_REFUSED;
	}
	graph->queue = queue;
	graph->until = queue->issued + batch->count;
	return ISSUE_DONE;
}

enum issued batch_launch(struct device_queue *queue, const struct batch *batch, bool brief)
{
	struct batches *batches = queue->space->device->batches;
	enum issued issued = ISSUE_REFUSED;

	if (!brief)
		pthread_mutex_lock(&batches->lock);
	else if (pthread_mutex_trylock(&batches->lock)) /* a module leaves */
		return ISSUE_TAKES_LONG;
	if (!batches->refused)
		issued = launch(queue, batches, batch, brief);
	pthread_mutex_unlock(&batches->lock);
	return issued;
}

/* ---- of a device ---- */

static CUresult load_nothing(const struct driver *driver, struct batches *batches)
{
	size_t bytes;
	void *code;
	CUresult result = jit_link(driver, &(struct jit_source){nothing_ptx}, NULL, &code, &bytes);

	if (result)
		return result;
	result = driver->cuModuleLoadDataEx(&batches->module, code, 0, NULL, NULL);
	free(code);
	if (!result)
		result = driver->cuModuleGetFunction(
			&batches->nothing.handle, batches->module, "nothing");
	return result;
}

static unsigned size_of(const struct batches *batches, const struct graph *graph)
{
	if (graph < &batches->graphs[SMALL_GRAPHS])
		return BATCH_SMALL;
	return graph < &batches->graphs[ROW_FIRST] ? BATCH_LARGE : 0;
}

void batches_open(struct device *device)
{
	struct batches *batches = calloc(1, sizeof *batches);
	CUresult result;

	if (!batches)
		return;
	pthread_mutex_init(&batches->lock, NULL);
	result = load_nothing(device->driver, batches);
	for (int i = 0; i < ROW_FIRST && !result; i++)
		result = make(device->driver, &batches->graphs[i], NULL, &batches->nothing,
			size_of(batches, &batches->graphs[i]));
	device->batches = batches;
	if (result)
		batches_close(device);
}

void batches_take_memory(struct device *device)
{
	struct batches *batches = device->batches;

	for (int i = ROW_FIRST; batches && i < GRAPHS; i++)
		make(device->driver, &batches->graphs[i], NULL, &batches->nothing, BATCH_MAX);
	for (int i = ROW_FIRST; batches && i < GRAPHS; i++)
		unmake(device->driver, &batches->graphs[i]);
}

void batches_close(struct device *device)
{
	struct batches *batches = steal_pointer(&device->batches);

	if (!batches)
		return;
	for (int i = 0; i < GRAPHS; i++)
		unmake(device->driver, &batches->graphs[i]);
	if (batches->module)
		device->driver->cuModuleUnload(batches->module);
	pthread_mutex_destroy(&batches->lock);
	free(batches);
}

void batches_leave_queue(struct device_queue *queue)
{
	struct batches *batches = queue->space->device->batches;

	if (!batches)
		return;
	pthread_mutex_lock(&batches->lock);
	for (int i = 0; i < GRAPHS; i++)
		if (batches->graphs[i].queue == queue)
			batches->graphs[i].queue = NULL;
	pthread_mutex_unlock(&batches->lock);
}

static bool has_module(const struct graph *graph, const struct device_module *module)
{
	for (unsigned i = 0; i < graph->count; i++)
		if (graph->steps[i].launch.function->module == module)
			return true;
	return false;
}

void batches_leave_module(struct device_module *module)
{
	struct device *device = module->space->device;
	struct batches *batches = device->batches;
	const struct driver *driver = device_enter(device);

	for (int i = 0; batches && i < GRAPHS; i++) {
		struct graph *graph = &batches->graphs[i];
		pthread_mutex_lock(&batches->lock); /* the issuer waits for one at most */
		if (has_module(graph, module)) {
			unmake(driver, graph);
			if (i < ROW_FIRST)
				make(driver, graph, NULL, &batches->nothing,
					size_of(batches, graph));
		}
		pthread_mutex_unlock(&batches->lock);
	}
}
