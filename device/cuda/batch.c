/* SPDX-License-Identifier: MIT
 *
 * Launches that wait together go to the driver as one: as a graph of kernels, one behind the other. A launch by
 * itself takes 3 us of the issuing thread; one of a graph that is there already, with other kernels and parameters
 * in it, 0.3 to 1.5 us.
 *
 * A queue has a few graphs of two sizes, made when it has shown that it is worth it. One is changed and launched
 * again only when what was launched by it is done: the driver would wait for that. When none is free, the
 * device has enough to do, and launches go one by one.
 *
 * The driver may look at a function that a graph had before, so a module takes all graphs of its space with it.
 */
#include "device/cuda/cuda.h"

#include <stdlib.h>

#include "base/cleanup.h"

#define GRAPHS 8 /* of a size */

struct graph {
	CUgraph graph;
	CUgraphExec exec; /* NULL: not made */
	CUgraphNode nodes[BATCH_MAX];
	uint64_t until; /* when the queue has completed so many, it is free */
};

struct batches {
	bool refused; /* the driver would not make one */
	struct pool {
		struct graph graphs[GRAPHS];
		unsigned next; /* they take turns */
	} small, large;
};

static bool fits(const struct device_command *command)
{
	return command->kind == DEVICE_LAUNCH && !command->launch.cooperative &&
	       !command->launch.cluster[0];
}

unsigned batch_gather(struct device_command *first, struct device_command *batch[BATCH_MAX])
{
	struct device_command *command = first;
	unsigned count = 0;

	for (; command && command->queue == first->queue && fits(command);
		command = command->next) {
		__builtin_prefetch(command->next);
		batch[count++] = command;
		if (count == BATCH_MAX)
			return BATCH_MAX;
	}
	return count >= BATCH_SMALL ? BATCH_SMALL : 0;
}

/* ---- graphs ---- */

/* A launch as a node, which points to `extra` and its size. */
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

static void unmake(const struct driver *driver, struct graph *graph)
{
	/* What is under way is not harmed. */
	if (graph->exec)
		driver->cuGraphExecDestroy(steal_pointer(&graph->exec));
	if (graph->graph)
		driver->cuGraphDestroy(steal_pointer(&graph->graph));
}

static CUresult make(const struct driver *driver, struct graph *graph,
	struct device_command *const batch[], unsigned count)
{
	struct node node;
	CUresult result = driver->cuGraphCreate(&graph->graph, 0);

	for (unsigned i = 0; i < count && !result; i++) {
		result = describe(&batch[i]->launch, &node);
		if (!result)
			result = driver->cuGraphAddKernelNode(&graph->nodes[i], graph->graph,
				i ? &graph->nodes[i - 1] : NULL, i ? 1 : 0, &node.params);
	}
	if (!result)
		result = driver->cuGraphInstantiateWithFlags(&graph->exec, graph->graph, 0);
	if (result)
		unmake(driver, graph);
	return result;
}

static CUresult change(const struct driver *driver, struct graph *graph,
	struct device_command *const batch[], unsigned count)
{
	struct node node;
	CUresult result = CUDA_SUCCESS;

	for (unsigned i = 0; i < count && !result; i++) {
		result = describe(&batch[i]->launch, &node);
		if (!result)
			result = driver->cuGraphExecKernelNodeSetParams(
				graph->exec, graph->nodes[i], &node.params);
	}
	return result;
}

/* ---- of a queue ---- */

static bool launch(struct device_queue *queue, struct batches *batches,
	struct device_command *const batch[], unsigned count)
{
	const struct driver *driver = queue->space->device->driver;
	struct pool *pool = count == BATCH_MAX ? &batches->large : &batches->small;
	struct graph *graph = &pool->graphs[pool->next % GRAPHS];
	CUresult result;

	if (batches->refused || graph->until > atomic_load(&queue->completed))
		return false;
	if (graph->exec) {
		result = change(driver, graph, batch, count);
	} else {
		result = make(driver, graph, batch, count);
		batches->refused = result != CUDA_SUCCESS;
	}
	if (!result)
		result = driver->cuGraphLaunch(graph->exec, queue->stream);
	if (result)
		return false;
	pool->next++;
	graph->until = queue->issued + count;
	return true;
}

bool batch_launch(struct device_queue *queue, struct device_command *const batch[], unsigned count)
{
	bool launched = false;

	pthread_mutex_lock(&queue->space->batch_lock);
	if (!queue->batches)
		queue->batches = calloc(1, sizeof *queue->batches);
	if (queue->batches)
		launched = launch(queue, queue->batches, batch, count);
	pthread_mutex_unlock(&queue->space->batch_lock);
	return launched;
}

void batch_drop(struct device_queue *queue)
{
	const struct driver *driver;
	struct batches *batches;

	pthread_mutex_lock(&queue->space->batch_lock);
	batches = steal_pointer(&queue->batches);
	pthread_mutex_unlock(&queue->space->batch_lock);
	if (!batches)
		return;
	driver = device_enter(queue->space->device);
	for (unsigned i = 0; i < GRAPHS; i++) {
		unmake(driver, &batches->small.graphs[i]);
		unmake(driver, &batches->large.graphs[i]);
	}
	free(batches);
}
