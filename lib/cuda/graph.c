/* SPDX-License-Identifier: MIT
 *
 * Graphs: nodes and what they depend on.
 */
#include <stdlib.h>
#include <string.h>

#include "lib/cuda/graph.h"

static _Atomic unsigned long long next_id = 1;

CUresult graph_check(CUgraph graph)
{
	TRY(initialised());
	return handle_is(HANDLE_GRAPH, graph)
		       ? CUDA_SUCCESS
		       : fail(CUDA_ERROR_INVALID_VALUE, "%p is no living graph", (void *)graph);
}

static CUresult check_node(CUgraphNode node)
{
	TRY(initialised());
	return handle_is(HANDLE_NODE, node)
		       ? CUDA_SUCCESS
		       : fail(CUDA_ERROR_INVALID_VALUE, "%p is no living node", (void *)node);
}

CUresult graph_check_node(CUgraphNode node, CUgraphNodeType type)
{
	TRY(check_node(node));
	return node->type == type
		       ? CUDA_SUCCESS
		       : fail(CUDA_ERROR_INVALID_VALUE, "the node is of type %d, and not %d",
				 (int)node->type, (int)type);
}

/* ---- life ---- */

CUresult graph_create(CUgraph *created)
{
	CUgraph graph = handle_create(HANDLE_GRAPH, sizeof *graph);

	if (!graph)
		return no_memory();
	list_init(&graph->nodes);
	list_init(&graph->objects);
	list_init(&graph->conditions);
	*created = graph;
	return CUDA_SUCCESS;
}

static void node_destroy(CUgraphNode node)
{
	node_clear(node);
	list_remove(&node->link);
	node->graph->node_count--;
	free(node->dependencies);
	handle_destroy(HANDLE_NODE, node);
}

void graph_release(CUgraph graph)
{
	CUgraphNode node, next;

	if (!graph)
		return;
	list_for_each_safe (node, next, &graph->nodes, link)
		node_destroy(node);
	graph_drop_objects(graph);
	graph_drop_conditions(graph);
	free(graph->order);
	handle_destroy(HANDLE_GRAPH, graph);
}

CUresult cuGraphCreate(CUgraph *graph, unsigned int flags)
{
	TRY(initialised());
	if (!graph || flags)
		return fail(CUDA_ERROR_INVALID_VALUE,
			"the pointer for the graph is NULL, or flags are not 0");
	return graph_create(graph);
}

CUresult cuGraphDestroy(CUgraph graph)
{
	TRY(graph_check(graph));
	if (graph->inner)
		return fail(
			CUDA_ERROR_INVALID_VALUE, "the graph is that of a node, and goes with it");
	graph_release(graph);
	return CUDA_SUCCESS;
}

/* ---- dependencies ---- */

bool node_depends(CUgraphNode node, CUgraphNode on)
{
	for (size_t i = 0; i < node->dependency_count; i++)
		if (node->dependencies[i] == on)
			return true;
	return false;
}

static CUresult depend(CUgraphNode node, CUgraphNode on)
{
	CUgraphNode *more = realloc(
		node->dependencies, (node->dependency_count + 1) * sizeof *node->dependencies);

	if (!more)
		return no_memory();
	node->dependencies = more;
	more[node->dependency_count++] = on;
	return CUDA_SUCCESS;
}

static void depend_no_more(CUgraphNode node, CUgraphNode on)
{
	for (size_t i = 0; i < node->dependency_count; i++)
		if (node->dependencies[i] == on) {
			memmove(&node->dependencies[i], &node->dependencies[i + 1],
				(--node->dependency_count - i) * sizeof *node->dependencies);
			return;
		}
}

CUresult graph_add(CUgraph graph, CUgraphNodeType type, const CUgraphNode *dependencies,
	size_t count, CUgraphNode *added)
{
	CUresult result = CUDA_SUCCESS;
	CUgraphNode node;

	if (count && !dependencies)
		return fail(
			CUDA_ERROR_INVALID_VALUE, "dependencies is NULL, and their count is not 0");
	for (size_t i = 0; i < count; i++)
		if (!handle_is(HANDLE_NODE, dependencies[i]) || dependencies[i]->graph != graph)
			return fail(CUDA_ERROR_INVALID_VALUE,
				"dependency %zu is no node of the graph", i);
	node = handle_create(HANDLE_NODE, sizeof *node);
	if (!node)
		return no_memory();
	node->graph = graph;
	node->type = type;
	node->id = atomic_fetch_add(&next_id, 1);
	list_append(&graph->nodes, &node->link);
	graph->node_count++;
	for (size_t i = 0; i < count && result == CUDA_SUCCESS; i++)
		result =
			node_depends(node, dependencies[i])
				? fail(CUDA_ERROR_INVALID_VALUE, "dependency %zu is there twice", i)
				: depend(node, dependencies[i]);
	if (result != CUDA_SUCCESS)
		node_destroy(node);
	else
		*added = node;
	return result;
}

void graph_remove(CUgraphNode node)
{
	CUgraphNode other;

	list_for_each (other, &node->graph->nodes, link)
		depend_no_more(other, node);
	node_destroy(node);
}

CUresult cuGraphDestroyNode(CUgraphNode node)
{
	TRY(check_node(node));
	if (node->graph->order) /* of an executable graph */
		return fail(CUDA_ERROR_INVALID_VALUE, "the node is one of an executable graph");
	if (graph_has_memory(node->graph))
		return fail(CUDA_ERROR_NOT_SUPPORTED,
			"as in CUDA, no node leaves a graph that has memory of its own");
	graph_remove(node);
	return CUDA_SUCCESS;
}

static CUresult check_edges(
	CUgraph graph, const CUgraphNode *from, const CUgraphNode *to, size_t count)
{
	TRY(graph_check(graph));
	if (count && (!from || !to))
		return fail(
			CUDA_ERROR_INVALID_VALUE, "the nodes are NULL, and their count is not 0");
	for (size_t i = 0; i < count; i++)
		if (!handle_is(HANDLE_NODE, from[i]) || !handle_is(HANDLE_NODE, to[i]) ||
			from[i]->graph != graph || to[i]->graph != graph || from[i] == to[i])
			return fail(CUDA_ERROR_INVALID_VALUE,
				"edge %zu is not between two nodes of the graph", i);
	return CUDA_SUCCESS;
}

/* Programmatic dependent launch is what other edges are for. */
CUresult graph_check_edges(const CUgraphEdgeData *data, size_t count)
{
	for (size_t i = 0; data && i < count; i++)
		if (data[i].from_port || data[i].to_port || data[i].type)
			return fail(CUDA_ERROR_NOT_SUPPORTED,
				"edge %zu is of another kind than the plain one (programmatic "
				"launches are not there)",
				i);
	return CUDA_SUCCESS;
}

CUresult cuGraphAddDependencies_v2(CUgraph graph, const CUgraphNode *from, const CUgraphNode *to,
	const CUgraphEdgeData *data, size_t count)
{
	TRY(check_edges(graph, from, to, count));
	TRY(graph_check_edges(data, count));
	for (size_t i = 0; i < count; i++)
		if (node_depends(to[i], from[i]))
			return fail(CUDA_ERROR_INVALID_VALUE, "edge %zu is there already", i);
	for (size_t i = 0; i < count; i++)
		TRY(depend(to[i], from[i]));
	return CUDA_SUCCESS;
}

CUresult cuGraphAddDependencies(
	CUgraph graph, const CUgraphNode *from, const CUgraphNode *to, size_t count)
{
	return cuGraphAddDependencies_v2(graph, from, to, NULL, count);
}

CUresult cuGraphRemoveDependencies_v2(CUgraph graph, const CUgraphNode *from, const CUgraphNode *to,
	const CUgraphEdgeData *data, size_t count)
{
	TRY(check_edges(graph, from, to, count));
	for (size_t i = 0; i < count; i++)
		if (!node_depends(to[i], from[i]))
			return fail(CUDA_ERROR_INVALID_VALUE, "edge %zu is not there", i);
	if (count && graph_has_memory(graph))
		return fail(CUDA_ERROR_NOT_SUPPORTED,
			"as in CUDA, no edge leaves a graph that has memory of its own");
	for (size_t i = 0; i < count; i++)
		depend_no_more(to[i], from[i]);
	return CUDA_SUCCESS;
}

CUresult cuGraphRemoveDependencies(
	CUgraph graph, const CUgraphNode *from, const CUgraphNode *to, size_t count)
{
	return cuGraphRemoveDependencies_v2(graph, from, to, NULL, count);
}

/* ---- copies ---- */

static CUresult copy_nodes(CUgraph from, CUgraph to)
{
	CUgraphNode node;

	list_for_each (node, &from->nodes, link) {
		TRY(graph_add(to, node->type, NULL, 0, &node->twin));
		node->twin->origin = node->id;
		TRY(node_set_like(node->twin, node));
	}
	list_for_each (node, &from->nodes, link)
		for (size_t i = 0; i < node->dependency_count; i++)
			TRY(depend(node->twin, node->dependencies[i]->twin));
	return CUDA_SUCCESS;
}

CUresult graph_copy_all(CUgraph graph, CUgraph *created)
{
	struct graph_object *kept;
	CUresult result;
	CUgraph copy;

	TRY(graph_create(&copy));
	result = copy_nodes(graph, copy);
	list_for_each (kept, &graph->objects, link)
		if (result == CUDA_SUCCESS)
			result = graph_keep_object(copy, kept->object, 1);
	if (result != CUDA_SUCCESS)
		graph_release(copy);
	else
		*created = copy;
	return result;
}

CUresult cuGraphClone(CUgraph *clone, CUgraph graph)
{
	TRY(graph_check(graph));
	if (!clone)
		return fail(CUDA_ERROR_INVALID_VALUE, "clone is NULL");
	return graph_has_memory(graph)
		       ? fail(CUDA_ERROR_NOT_SUPPORTED,
				 "as in CUDA, a graph that has memory of its own is not cloned")
		       : graph_copy_all(graph, clone);
}

CUresult graph_find_copy(CUgraph graph, CUgraphNode node, CUgraphNode *copy)
{
	CUgraphNode found;

	TRY(check_node(node));
	list_for_each (found, &graph->nodes, link)
		if (found->origin == node->id || found->update == node->id) {
			*copy = found;
			return CUDA_SUCCESS;
		}
	return fail(CUDA_ERROR_INVALID_VALUE, "the graph has no copy of the node");
}

CUresult cuGraphNodeFindInClone(CUgraphNode *found, CUgraphNode node, CUgraph clone)
{
	TRY(graph_check(clone));
	return found ? graph_find_copy(clone, node, found)
		     : fail(CUDA_ERROR_INVALID_VALUE, "found is NULL");
}

/* ---- questions ---- */

CUresult graph_answer(
	const CUgraphNode *nodes, size_t count, CUgraphNode *wanted, size_t *wanted_count)
{
	if (!wanted_count)
		return fail(CUDA_ERROR_INVALID_VALUE, "count is NULL");
	if (wanted) {
		for (size_t i = 0; i < *wanted_count; i++)
			wanted[i] = i < count ? nodes[i] : NULL;
		*wanted_count = min_of(*wanted_count, count);
	} else {
		*wanted_count = count;
	}
	return CUDA_SUCCESS;
}

/* The nodes for which `takes` says so, all when it is NULL. */
static CUresult answer_some(CUgraph graph, bool (*takes)(CUgraphNode node, CUgraphNode about),
	CUgraphNode about, CUgraphNode *wanted, size_t *wanted_count)
{
	autofree CUgraphNode *found = malloc((graph->node_count + 1) * sizeof *found);
	size_t count = 0;
	CUgraphNode node;

	if (!found)
		return no_memory();
	list_for_each (node, &graph->nodes, link)
		if (!takes || takes(node, about))
			found[count++] = node;
	return graph_answer(found, count, wanted, wanted_count);
}

static bool is_root(CUgraphNode node, CUgraphNode about)
{
	return !node->dependency_count;
}

CUresult cuGraphGetNodes(CUgraph graph, CUgraphNode *nodes, size_t *count)
{
	TRY(graph_check(graph));
	return answer_some(graph, NULL, NULL, nodes, count);
}

CUresult cuGraphGetRootNodes(CUgraph graph, CUgraphNode *nodes, size_t *count)
{
	TRY(graph_check(graph));
	return answer_some(graph, is_root, NULL, nodes, count);
}

/* Every edge is the plain one. */
static void clear_edge_data(CUgraphEdgeData *data, size_t count)
{
	if (data)
		memset(data, 0, count * sizeof *data);
}

CUresult cuGraphNodeGetDependentNodes_v2(
	CUgraphNode node, CUgraphNode *nodes, CUgraphEdgeData *data, size_t *count)
{
	TRY(check_node(node));
	TRY(answer_some(node->graph, node_depends, node, nodes, count));
	if (nodes)
		clear_edge_data(data, *count);
	return CUDA_SUCCESS;
}

CUresult cuGraphNodeGetDependentNodes(CUgraphNode node, CUgraphNode *nodes, size_t *count)
{
	return cuGraphNodeGetDependentNodes_v2(node, nodes, NULL, count);
}

CUresult cuGraphNodeGetDependencies_v2(
	CUgraphNode node, CUgraphNode *nodes, CUgraphEdgeData *data, size_t *count)
{
	TRY(check_node(node));
	TRY(graph_answer(node->dependencies, node->dependency_count, nodes, count));
	if (nodes)
		clear_edge_data(data, *count);
	return CUDA_SUCCESS;
}

CUresult cuGraphNodeGetDependencies(CUgraphNode node, CUgraphNode *nodes, size_t *count)
{
	return cuGraphNodeGetDependencies_v2(node, nodes, NULL, count);
}

CUresult cuGraphGetEdges_v2(
	CUgraph graph, CUgraphNode *from, CUgraphNode *to, CUgraphEdgeData *data, size_t *room)
{
	size_t count = 0;
	CUgraphNode node;

	TRY(graph_check(graph));
	if (!room || !from != !to)
		return fail(CUDA_ERROR_INVALID_VALUE,
			"count is NULL, or one of from and to is and the other not");
	list_for_each (node, &graph->nodes, link)
		for (size_t i = 0; i < node->dependency_count; i++, count++)
			if (from && count < *room) {
				from[count] = node->dependencies[i];
				to[count] = node;
			}
	*room = from ? min_of(*room, count) : count;
	if (from)
		clear_edge_data(data, *room);
	return CUDA_SUCCESS;
}

CUresult cuGraphGetEdges(CUgraph graph, CUgraphNode *from, CUgraphNode *to, size_t *room)
{
	return cuGraphGetEdges_v2(graph, from, to, NULL, room);
}

CUresult cuGraphNodeGetType(CUgraphNode node, CUgraphNodeType *type)
{
	TRY(check_node(node));
	if (!type)
		return fail(CUDA_ERROR_INVALID_VALUE, "type is NULL");
	*type = node->type;
	return CUDA_SUCCESS;
}
