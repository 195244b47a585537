/* SPDX-License-Identifier: MIT
 *
 * See fake_cuda.c: graphs of kernels, one behind the other. Launching one launches its kernels. As the vendor's may,
 * it looks at the function that a node had before, so that one whose module is gone is found out.
 */
#include <stdlib.h>
#include <string.h>

#include "fake_cuda.h"

#define NODES 64

static _Atomic unsigned made, launches, changes;
static __thread unsigned made_here; /* by the calling thread */

struct CUgraphNode_st {
	struct CUgraph_st *graph;
	unsigned number;
};

struct kernel {
	CUfunction function;
	CUlaunchConfig config;
	size_t bytes;
	char params[256];
};

struct CUgraph_st {
	struct CUgraphNode_st nodes[NODES];
	struct kernel kernels[NODES];
	unsigned count;
};

struct CUgraphExec_st {
	struct CUgraph_st *graph; /* nodes are named by those of the graph, which has to be there */
	struct kernel kernels[NODES];
	unsigned context;
};

CUresult cuGraphCreate(CUgraph *graph, unsigned int flags)
{
	ENTER();
	*graph = calloc(1, sizeof **graph);
	return CUDA_SUCCESS;
}

CUresult cuGraphDestroy(CUgraph graph)
{
	ENTER();
	free(graph);
	return CUDA_SUCCESS;
}

static CUresult take(struct kernel *kernel, const CUDA_KERNEL_NODE_PARAMS *params)
{
	if (params->func->module->context != fake_context_number())
		return CUDA_ERROR_INVALID_HANDLE;
	if (params->blockDimX * params->blockDimY * params->blockDimZ > 1024)
		return CUDA_ERROR_INVALID_VALUE;
	*kernel = (struct kernel){.function = params->func,
		.config = {.gridDimX = params->gridDimX,
			.gridDimY = params->gridDimY,
			.gridDimZ = params->gridDimZ,
			.blockDimX = params->blockDimX,
			.blockDimY = params->blockDimY,
			.blockDimZ = params->blockDimZ,
			.sharedMemBytes = params->sharedMemBytes}};
	if (!params->extra)
		return CUDA_SUCCESS;
	kernel->bytes = *(size_t *)params->extra[3];
	if (kernel->bytes > sizeof kernel->params)
		return CUDA_ERROR_INVALID_VALUE;
	memcpy(kernel->params, params->extra[1], kernel->bytes);
	return CUDA_SUCCESS;
}

CUresult cuGraphAddKernelNode(CUgraphNode *node, CUgraph graph, const CUgraphNode *before,
	size_t count, const CUDA_KERNEL_NODE_PARAMS *params)
{
	struct CUgraphNode_st *last = graph->count ? &graph->nodes[graph->count - 1] : NULL;
	CUresult result;

	ENTER();
	if (graph->count == NODES || count != (last != NULL) || (last && *before != last))
		return CUDA_ERROR_NOT_SUPPORTED;
	result = take(&graph->kernels[graph->count], params);
	if (result)
		return result;
	*node = &graph->nodes[graph->count];
	**node = (struct CUgraphNode_st){graph, graph->count++};
	return CUDA_SUCCESS;
}

CUresult cuGraphInstantiateWithFlags(CUgraphExec *exec, CUgraph graph, unsigned long long flags)
{
	ENTER();
	made++;
	made_here++;
	*exec = calloc(1, sizeof **exec);
	(*exec)->graph = graph;
	(*exec)->context = fake_context_number();
	memcpy((*exec)->kernels, graph->kernels, sizeof graph->kernels);
	return CUDA_SUCCESS;
}

CUresult cuGraphExecDestroy(CUgraphExec exec)
{
	ENTER();
	free(exec);
	return CUDA_SUCCESS;
}

CUresult cuGraphExecKernelNodeSetParams(
	CUgraphExec exec, CUgraphNode node, const CUDA_KERNEL_NODE_PARAMS *params)
{
	ENTER();
	if (node->graph != exec->graph || exec->context != fake_context_number() ||
		exec->kernels[node->number].function->module->context != exec->context)
		return CUDA_ERROR_INVALID_HANDLE;
	changes++;
	return take(&exec->kernels[node->number], params);
}

__attribute__((visibility("default"))) unsigned fake_graph_changes(void)
{
	return changes;
}

__attribute__((visibility("default"))) unsigned fake_graphs_made(void)
{
	return made;
}

__attribute__((visibility("default"))) unsigned fake_graphs_made_here(void)
{
	return made_here;
}

__attribute__((visibility("default"))) unsigned fake_graph_launches(void)
{
	return launches;
}

CUresult cuGraphLaunch(CUgraphExec exec, CUstream stream)
{
	CUresult result = fake_enter(__func__);

	launches++;
	for (unsigned i = 0; i < exec->graph->count && !result; i++) {
		struct kernel *kernel = &exec->kernels[i];
		void *extra[] = {CU_LAUNCH_PARAM_BUFFER_POINTER, kernel->params,
			CU_LAUNCH_PARAM_BUFFER_SIZE, &kernel->bytes, CU_LAUNCH_PARAM_END};
		kernel->config.hStream = stream;
		result = fake_launch(&kernel->config, kernel->function, extra);
	}
	return result;
}
