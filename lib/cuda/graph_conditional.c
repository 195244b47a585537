/* SPDX-License-Identifier: MIT
 *
 * Conditional nodes: bodies that run if, or as long as, a number says so, which kernels set by cudaGraphSetConditional().
 *
 * A handle is the address of that number in device memory, which kernels store to. (Drivers have handles of their own: on
 * hardware PTX that calls that function gets another one of that name, device/cuda/condition.c.) The node is a host function of the stream: the library's thread for those
 * reads the number, sends a body to a stream of the node's own, waits, and reads again. Host functions of the session wait
 * meanwhile; bodies have none.
 *
 * A condition belongs to its graph and to all nodes that use it: what a graph's copies have is the same number.
 */
#include <errno.h>
#include <stdlib.h>

#include "lib/cuda/exports.h"
#include "lib/cuda/graph.h"

#define BODIES_MAX 4096u

struct graph_condition {
	struct list link; /* of its graph's conditions */
	_Atomic unsigned refs;
	struct home home;
	uint64_t word;
	unsigned value; /* at the begin of a launch, */
	bool assign;    /* if so */
	bool used;      /* by the one node that a program may make for it */
};

static void condition_put(struct graph_condition *condition)
{
	if (atomic_fetch_sub(&condition->refs, 1) > 1)
		return;
	if (home_is_alive(&condition->home))
		gdev_memory_free(condition->home.context->session, condition->word);
	free(condition);
}

static CUresult condition_create(CUcontext context, struct graph_condition **created)
{
	struct graph_condition *condition;
	int error;

	condition = calloc(1, sizeof *condition);
	if (!condition)
		return no_memory();
	error = gdev_memory_alloc(context->session, sizeof(uint32_t), &condition->word);
	if (error) {
		free(condition);
		return result_of(error, "there is no memory for the handle's value");
	}
	condition->refs = 1;
	condition->home = home_of(context);
	*created = condition;
	return CUDA_SUCCESS;
}

CUresult cuGraphConditionalHandleCreate(CUgraphConditionalHandle *handle, CUgraph graph,
	CUcontext given, unsigned int value, unsigned int flags)
{
	struct graph_condition *condition = NULL;
	CUcontext context;

	TRY(graph_check(graph));
	if (!handle || flags & ~CU_GRAPH_COND_ASSIGN_DEFAULT)
		return fail(CUDA_ERROR_INVALID_VALUE,
			"the pointer for the handle is NULL, or %#x are no flags", flags);
	TRY(context_or_current(given, &context));
	TRY(condition_create(context, &condition));
	condition->value = value;
	condition->assign = flags & CU_GRAPH_COND_ASSIGN_DEFAULT;
	list_append(&graph->conditions, &condition->link);
	*handle = condition->word;
	return CUDA_SUCCESS;
}

void graph_drop_conditions(CUgraph graph)
{
	struct graph_condition *condition, *next;

	list_for_each_safe (condition, next, &graph->conditions, link) {
		list_remove(&condition->link);
		condition_put(condition);
	}
}

/* ---- nodes ---- */

static struct graph_condition *find_condition(CUgraph graph, CUgraphConditionalHandle handle)
{
	struct graph_condition *condition;

	list_for_each (condition, &graph->conditions, link)
		if (condition->word == handle)
			return condition;
	return NULL;
}

static bool is_size(CUgraphConditionalNodeType type, unsigned size)
{
	return size && ((type == CU_GRAPH_COND_TYPE_WHILE && size == 1) ||
			       (type == CU_GRAPH_COND_TYPE_IF && size <= 2) ||
			       (type == CU_GRAPH_COND_TYPE_SWITCH && size <= BODIES_MAX));
}

/* The node's bodies, copies of these or, with NULL, empty. */
static CUresult set_bodies(CUgraphNode node, unsigned size, const CUgraph *like)
{
	struct graph_conditional *mine = &node->conditional;

	mine->bodies = calloc(size, sizeof *mine->bodies);
	if (!mine->bodies)
		return no_memory();
	for (mine->size = 0; mine->size < size; mine->size++) {
		CUgraph *body = &mine->bodies[mine->size];
		TRY(like ? graph_copy_all(like[mine->size], body) : graph_create(body));
		(*body)->inner = true;
	}
	return CUDA_SUCCESS;
}

CUresult node_add_conditional(CUgraphNode *added, CUgraph graph, const CUgraphNode *dependencies,
	size_t count, CUDA_CONDITIONAL_NODE_PARAMS *params)
{
	struct graph_condition *condition = find_condition(graph, params->handle);
	CUgraphNode node;
	CUresult result;

	if (!condition || condition->used)
		return fail(CUDA_ERROR_INVALID_VALUE,
			"the handle is none of this graph, or another node has it");
	if (params->ctx && params->ctx != condition->home.context)
		return fail(CUDA_ERROR_INVALID_VALUE, "the handle is of another context");
	if (!is_size(params->type, params->size))
		return fail(CUDA_ERROR_INVALID_VALUE, "a node of type %d has no %u bodies",
			(int)params->type, params->size);
	TRY(graph_add(graph, CU_GRAPH_NODE_TYPE_CONDITIONAL, dependencies, count, &node));
	node->home = condition->home;
	atomic_fetch_add(&condition->refs, 1);
	node->conditional.condition = condition;
	node->conditional.type = params->type;
	result = set_bodies(node, params->size, NULL);
	if (result != CUDA_SUCCESS) {
		graph_remove(node);
		return result;
	}
	condition->used = true;
	params->phGraph_out = node->conditional.bodies;
	*added = node;
	return CUDA_SUCCESS;
}

CUresult node_set_conditional_like(CUgraphNode node, CUgraphNode other)
{
	node->conditional.condition = other->conditional.condition;
	node->conditional.type = other->conditional.type;
	atomic_fetch_add(&node->conditional.condition->refs, 1);
	return set_bodies(node, other->conditional.size, other->conditional.bodies);
}

void node_clear_conditional(CUgraphNode node)
{
	struct graph_conditional *mine = &node->conditional;

	for (unsigned i = 0; i < mine->size; i++)
		graph_release(mine->bodies[i]);
	free(mine->bodies);
	if (mine->condition)
		condition_put(mine->condition);
	*mine = (struct graph_conditional){0};
}

static bool may_be_inside(CUgraphNodeType type)
{
	return type == CU_GRAPH_NODE_TYPE_KERNEL || type == CU_GRAPH_NODE_TYPE_EMPTY ||
	       type == CU_GRAPH_NODE_TYPE_GRAPH || type == CU_GRAPH_NODE_TYPE_MEMSET ||
	       type == CU_GRAPH_NODE_TYPE_MEMCPY || type == CU_GRAPH_NODE_TYPE_CONDITIONAL;
}

/* Of a body, and of child graphs in it. */
static CUresult check_inside(CUgraph graph, const struct home *home)
{
	CUgraphNode node;

	list_for_each (node, &graph->nodes, link) {
		if (!may_be_inside(node->type))
			return fail(CUDA_ERROR_INVALID_VALUE,
				"a node of type %d cannot be in a conditional node",
				(int)node->type);
		if (node->home.context && !same_home(&node->home, home))
			return fail(CUDA_ERROR_INVALID_VALUE,
				"what is in a conditional node is of its handle's context");
		if (node->type == CU_GRAPH_NODE_TYPE_GRAPH)
			TRY(check_inside(node->child, home));
	}
	return CUDA_SUCCESS;
}

CUresult node_order_bodies(CUgraphNode node)
{
	for (unsigned i = 0; i < node->conditional.size; i++) {
		TRY(graph_order(node->conditional.bodies[i]));
		TRY(check_inside(node->conditional.bodies[i], &node->home));
	}
	return CUDA_SUCCESS;
}

bool graph_has_conditions(CUgraph graph)
{
	CUgraphNode node;

	list_for_each (node, &graph->nodes, link)
		if (node->type == CU_GRAPH_NODE_TYPE_CONDITIONAL ||
			(node->type == CU_GRAPH_NODE_TYPE_GRAPH &&
				graph_has_conditions(node->child)))
			return true;
	return false;
}

/* ---- launching ---- */

/* Assigns the conditions of all its nodes, and of those inside. */
CUresult graph_assign_conditions(CUgraph graph, CUstream stream)
{
	CUgraphNode node;

	list_for_each (node, &graph->nodes, link) {
		const struct graph_condition *condition;

		if (node->type == CU_GRAPH_NODE_TYPE_GRAPH)
			TRY(graph_assign_conditions(node->child, stream));
		if (node->type != CU_GRAPH_NODE_TYPE_CONDITIONAL)
			continue;
		condition = node->conditional.condition;
		if (condition->assign)
			TRY(fill(condition->word, 0, condition->value, sizeof(uint32_t), 1, 1,
				stream, false));
		for (unsigned i = 0; i < node->conditional.size; i++)
			TRY(graph_assign_conditions(node->conditional.bodies[i], stream));
	}
	return CUDA_SUCCESS;
}

/* What runs next, or NULL. Waits for what is on the stream. */
static CUresult choose_body(const struct graph_conditional *node, CUstream stream, CUgraph *body)
{
	uint32_t value;
	unsigned index;
	struct gdev_copy copy =
		gdev_copy_linear((uint64_t)(uintptr_t)&value, node->condition->word, sizeof value);

	TRY_GDEV(gdev_copy_async(stream->stream, &copy), "the condition cannot be read");
	TRY_GDEV(gdev_stream_sync(stream->stream), "a body of a conditional node failed");
	index = node->type == CU_GRAPH_COND_TYPE_SWITCH ? value : !value;
	*body = index < node->size ? node->bodies[index] : NULL;
	return CUDA_SUCCESS;
}

static CUresult run_bodies(const struct graph_conditional *conditional, CUstream stream);

/* All on one stream; conditional nodes inside are waited for. */
static CUresult run_body(CUgraph graph, CUstream stream)
{
	for (size_t i = 0; i < graph->node_count; i++) {
		CUgraphNode node = graph->order[i];

		if (node->disabled)
			continue;
		if (node->type == CU_GRAPH_NODE_TYPE_CONDITIONAL)
			TRY(run_bodies(&node->conditional, stream));
		else if (node->type == CU_GRAPH_NODE_TYPE_GRAPH)
			TRY(run_body(node->child, stream));
		else
			TRY(node_run(node, stream, false));
	}
	return CUDA_SUCCESS;
}

static CUresult run_bodies(const struct graph_conditional *conditional, CUstream stream)
{
	CUgraph body;

	do {
		TRY(choose_body(conditional, stream, &body));
		if (body)
			TRY(run_body(body, stream));
	} while (body && conditional->type == CU_GRAPH_COND_TYPE_WHILE);
	TRY_GDEV(gdev_stream_sync(stream->stream), "a body of a conditional node failed");
	return CUDA_SUCCESS;
}

static void run_node(void *argument)
{
	CUgraphNode node = argument;
	CUstream stream = node->conditional.lane.stream;
	CUresult result = run_bodies(&node->conditional, stream);

	if (result != CUDA_SUCCESS) /* the program sees it where it waits */
		gdev_stream_fail(stream->context->legacy->stream,
			result == CUDA_ERROR_OUT_OF_MEMORY ? -ENOMEM : -EINVAL);
}

CUresult node_run_conditional(CUgraphNode node, CUstream stream)
{
	TRY(lane_open(&node->conditional.lane, &node->home, stream));
	return stream_call(stream, run_node, node);
}
