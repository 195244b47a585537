/* SPDX-License-Identifier: MIT
 *
 * A graph as a file that Graphviz draws: a cluster for each graph, those of its nodes among them.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "lib/cuda/graph.h"

#define FLAGS ((CU_GRAPH_DEBUG_DOT_FLAGS_CONDITIONAL_NODE_PARAMS << 1) - 1)

struct dot {
	FILE *file;
	unsigned flags; /* what is written besides names and dependencies */
	unsigned graphs;
};

static const char *const type_names[] = {
	[CU_GRAPH_NODE_TYPE_KERNEL] = "KERNEL",
	[CU_GRAPH_NODE_TYPE_MEMCPY] = "MEMCPY",
	[CU_GRAPH_NODE_TYPE_MEMSET] = "MEMSET",
	[CU_GRAPH_NODE_TYPE_HOST] = "HOST",
	[CU_GRAPH_NODE_TYPE_GRAPH] = "GRAPH",
	[CU_GRAPH_NODE_TYPE_EMPTY] = "EMPTY",
	[CU_GRAPH_NODE_TYPE_WAIT_EVENT] = "WAIT_EVENT",
	[CU_GRAPH_NODE_TYPE_EVENT_RECORD] = "EVENT_RECORD",
	[CU_GRAPH_NODE_TYPE_MEM_ALLOC] = "MEM_ALLOC",
	[CU_GRAPH_NODE_TYPE_MEM_FREE] = "MEM_FREE",
	[CU_GRAPH_NODE_TYPE_BATCH_MEM_OP] = "BATCH_MEM_OP",
	[CU_GRAPH_NODE_TYPE_CONDITIONAL] = "CONDITIONAL",
};

/* The functions of modules that are gone have no names. */
static const char *kernel_name(CUfunction function)
{
	const char *name = NULL;
	CUresult result = handle_is(HANDLE_KERNEL, function)
				  ? cuKernelGetName(&name, (CUkernel)function)
				  : cuFuncGetName(&name, function);

	return result == CUDA_SUCCESS && name ? name : "?";
}

static const char *side_name(CUmemorytype type)
{
	switch (type) {
	case CU_MEMORYTYPE_HOST:
		return "host";
	case CU_MEMORYTYPE_DEVICE:
		return "device";
	case CU_MEMORYTYPE_ARRAY:
		return "array";
	default:
		return "any";
	}
}

static void print_kernel(const struct dot *dot, const struct graph_kernel *kernel)
{
	const CUlaunchConfig *config = &kernel->config;

	fprintf(dot->file, "\\n%s", kernel_name(kernel->function));
	if (dot->flags & CU_GRAPH_DEBUG_DOT_FLAGS_KERNEL_NODE_PARAMS)
		fprintf(dot->file, "\\ngrid %u x %u x %u, block %u x %u x %u, shared %u bytes",
			config->gridDimX, config->gridDimY, config->gridDimZ, config->blockDimX,
			config->blockDimY, config->blockDimZ, config->sharedMemBytes);
	if (dot->flags & CU_GRAPH_DEBUG_DOT_FLAGS_KERNEL_NODE_ATTRIBUTES)
		fprintf(dot->file, "\\n%u attributes", config->numAttrs);
	if (dot->flags & CU_GRAPH_DEBUG_DOT_FLAGS_HANDLES)
		fprintf(dot->file, "\\nfunction %p", (void *)kernel->function);
}

static void print_copy(const struct dot *dot, const CUDA_MEMCPY3D *copy)
{
	fprintf(dot->file, "\\n%s to %s", side_name(copy->srcMemoryType),
		side_name(copy->dstMemoryType));
	if (dot->flags & CU_GRAPH_DEBUG_DOT_FLAGS_MEMCPY_NODE_PARAMS)
		fprintf(dot->file, "\\n%zu bytes x %zu x %zu", copy->WidthInBytes, copy->Height,
			copy->Depth);
}

static void print_fill(const struct dot *dot, const CUDA_MEMSET_NODE_PARAMS *fill)
{
	if (dot->flags & CU_GRAPH_DEBUG_DOT_FLAGS_MEMSET_NODE_PARAMS)
		fprintf(dot->file, "\\n%#llx: %zu x %zu elements of %u bytes, value %#x",
			(unsigned long long)fill->dst, fill->width, fill->height, fill->elementSize,
			fill->value);
}

static void print_payload(const struct dot *dot, CUgraphNode node)
{
	switch (node->type) {
	case CU_GRAPH_NODE_TYPE_KERNEL:
		print_kernel(dot, &node->kernel);
		break;
	case CU_GRAPH_NODE_TYPE_MEMCPY:
		print_copy(dot, &node->copy.params);
		break;
	case CU_GRAPH_NODE_TYPE_MEMSET:
		print_fill(dot, &node->fill);
		break;
	case CU_GRAPH_NODE_TYPE_HOST:
		if (dot->flags & CU_GRAPH_DEBUG_DOT_FLAGS_HOST_NODE_PARAMS)
			fprintf(dot->file, "\\nfunction %p, argument %p", (void *)node->host.fn,
				node->host.userData);
		break;
	case CU_GRAPH_NODE_TYPE_WAIT_EVENT:
	case CU_GRAPH_NODE_TYPE_EVENT_RECORD:
		if (dot->flags & CU_GRAPH_DEBUG_DOT_FLAGS_EVENT_NODE_PARAMS)
			fprintf(dot->file, "\\nevent %p", (void *)node->event);
		break;
	case CU_GRAPH_NODE_TYPE_MEM_ALLOC:
		if (dot->flags & CU_GRAPH_DEBUG_DOT_FLAGS_MEM_ALLOC_NODE_PARAMS)
			fprintf(dot->file, "\\n%zu bytes at %#llx", node->alloc.params.bytesize,
				(unsigned long long)node->alloc.params.dptr);
		break;
	case CU_GRAPH_NODE_TYPE_BATCH_MEM_OP:
		if (dot->flags & CU_GRAPH_DEBUG_DOT_FLAGS_BATCH_MEM_OP_NODE_PARAMS)
			fprintf(dot->file, "\\n%u operations", node->memops.count);
		break;
	case CU_GRAPH_NODE_TYPE_CONDITIONAL:
		if (dot->flags & CU_GRAPH_DEBUG_DOT_FLAGS_CONDITIONAL_NODE_PARAMS)
			fprintf(dot->file, "\\n%s, %u graphs",
				node->conditional.type == CU_GRAPH_COND_TYPE_IF      ? "if"
				: node->conditional.type == CU_GRAPH_COND_TYPE_WHILE ? "while"
										     : "switch",
				node->conditional.size);
		break;
	default:
		break;
	}
	if (dot->flags & CU_GRAPH_DEBUG_DOT_FLAGS_HANDLES)
		fprintf(dot->file, "\\nnode %p", (void *)node);
}

static void print_node(const struct dot *dot, unsigned graph, CUgraphNode node)
{
	fprintf(dot->file, "\t\"graph_%u_node_%llu\" [shape=box label=\"%llu\\n%s", graph, node->id,
		node->id, type_names[node->type]);
	print_payload(dot, node);
	fprintf(dot->file, "\"];\n");
	for (size_t i = 0; i < node->dependency_count; i++)
		fprintf(dot->file, "\t\"graph_%u_node_%llu\" -> \"graph_%u_node_%llu\"%s;\n", graph,
			node->dependencies[i]->id, graph, node->id,
			dot->flags & CU_GRAPH_DEBUG_DOT_FLAGS_EXTRA_TOPO_INFO
				? " [label=\"0 to 0\"]"
				: "");
}

/* The graphs of its nodes have clusters behind its own, and a line to each. */
static void print_graph(struct dot *dot, CUgraph graph);

static void print_inner(struct dot *dot, unsigned graph, CUgraphNode node, CUgraph inner)
{
	fprintf(dot->file, "\"graph_%u_node_%llu\" -> \"graph_%u\" [style=dashed];\n", graph,
		node->id, dot->graphs);
	print_graph(dot, inner);
}

static void print_graph(struct dot *dot, CUgraph graph)
{
	unsigned number = dot->graphs++;
	CUgraphNode node;

	fprintf(dot->file, "subgraph \"cluster_%u\" {\n\tlabel=\"graph_%u\";\n", number, number);
	fprintf(dot->file, "\t\"graph_%u\" [shape=point];\n", number);
	list_for_each (node, &graph->nodes, link)
		print_node(dot, number, node);
	fprintf(dot->file, "}\n");
	list_for_each (node, &graph->nodes, link) {
		if (node->type == CU_GRAPH_NODE_TYPE_GRAPH)
			print_inner(dot, number, node, node->child);
		for (unsigned i = 0;
			node->type == CU_GRAPH_NODE_TYPE_CONDITIONAL && i < node->conditional.size;
			i++)
			print_inner(dot, number, node, node->conditional.bodies[i]);
	}
}

CUresult cuGraphDebugDotPrint(CUgraph graph, const char *path, unsigned int flags)
{
	struct dot dot = {.flags = flags & CU_GRAPH_DEBUG_DOT_FLAGS_VERBOSE ? FLAGS : flags};
	bool failed;

	TRY(graph_check(graph));
	if (!path || flags & ~(unsigned)FLAGS)
		return fail(CUDA_ERROR_INVALID_VALUE,
			"path is NULL, or flags %#x have bits that mean nothing", flags);
	dot.file = fopen(path, "we");
	if (!dot.file)
		return fail(CUDA_ERROR_OPERATING_SYSTEM, "%s cannot be written: %s", path,
			strerror(errno));
	fprintf(dot.file, "digraph dot {\n");
	print_graph(&dot, graph);
	fprintf(dot.file, "}\n");
	failed = ferror(dot.file);
	if (fclose(dot.file) || failed)
		return fail(CUDA_ERROR_OPERATING_SYSTEM, "%s cannot be written", path);
	return CUDA_SUCCESS;
}
