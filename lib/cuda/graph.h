/* SPDX-License-Identifier: MIT
 *
 * Graphs inside: what graph.c (structure), graph_node.c (what nodes do), graph_params.c (the same by one structure for
 * all), graph_memory.c (memory of graphs), graph_conditional.c (conditional nodes), graph_exec.c (executable graphs), graph_run.c (launching them),
 * graph_device.c (graphs that the device has as a whole), and capture.c (streams that write down what they are given) know of each other.
 *
 * As in CUDA a graph is not locked: threads that change one take turns. An executable graph is a copy of the
 * graph, in an order that its dependencies allow, and with its branches on lanes (graph_run.c).
 *
 * What a node does is done in a context, its home. Nodes of one graph may have different homes, also on different devices.
 */
#ifndef GDEV_CUDA_GRAPH_INTERNAL_H
#define GDEV_CUDA_GRAPH_INTERNAL_H

#include "lib/cuda/internal.h"

#define NODE_ATTRIBUTES_MAX 16

/* A context, while its id is this one. Without a context: any. */
struct home {
	CUcontext context;
	unsigned long long id;
};

struct graph_kernel {
	CUfunction function;   /* as the program names it: it may be a kernel */
	CUlaunchConfig config; /* its attributes are the array below; no stream */
	CUlaunchAttribute attributes[NODE_ATTRIBUTES_MAX];
	void *params; /* as the kernel sees them; malloc'ed */
	size_t param_bytes;
	void **arguments; /* a pointer to each, into params; malloc'ed */
};

struct graph_copy {
	struct gdev_copy copy;
	CUDA_MEMCPY3D params; /* the same, as the program said it */
};

struct graph_memops {
	CUstreamBatchMemOpParams *ops; /* malloc'ed */
	unsigned count;
	CUcontext context;
};

struct graph_alloc {
	CUDA_MEM_ALLOC_NODE_PARAMS params;
	CUmemAccessDesc access; /* the first of params.accessDescs; all are alike */
};

/* A stream of an executable graph's own, or NULL. */
struct own_lane {
	CUstream stream;
	struct home home;
};

struct graph_conditional {
	struct graph_condition *condition;
	CUgraphConditionalNodeType type;
	unsigned size;
	CUgraph *bodies;      /* malloc'ed; the node's own */
	struct own_lane lane; /* on which they run */
};

struct CUgraphNode_st {
	uint32_t handle_word;
	struct list link; /* of the graph's nodes, in the order of creation */
	CUgraph graph;
	CUgraphNodeType type;
	struct home home;      /* that of a host function, a wait, or an empty node may be any */
	unsigned long long id; /* never used again */
	unsigned long long origin; /* the id of the node that it is a copy of, or 0 */
	unsigned long long update; /* the id of the node that an update made it like, or 0 */
	CUgraphNode twin;          /* its copy, while its graph is copied */
	bool placed;               /* while its graph is brought into an order */
	CUgraphNode *dependencies; /* malloc'ed */
	size_t dependency_count;
	struct graph_memory *memory; /* that it allocates or frees, or NULL */
	/* Of an executable graph: */
	bool disabled;
	bool followed;          /* some node that depends on it is placed */
	bool crosses;           /* to another lane */
	unsigned lane;          /* where it runs */
	unsigned number;        /* in the order */
	struct gdev_fence done; /* behind it, if it crosses; of the last launch */
	union {
		struct graph_kernel kernel;
		struct graph_copy copy;
		CUDA_MEMSET_NODE_PARAMS fill;
		CUDA_HOST_NODE_PARAMS host;
		struct graph_memops memops;
		CUevent event;
		CUgraph child; /* the node's own */
		struct graph_alloc alloc;
		struct graph_conditional conditional;
	};
};

struct graph_object {
	struct list link;
	CUuserObject object;
	unsigned count;
};

/* Streams that a graph runs on at most, and how many of them in one context. */
#define GRAPH_LANES 16
#define GRAPH_LANES_EACH 8

struct CUgraph_st {
	uint32_t handle_word;
	struct list nodes;
	size_t node_count;
	struct list objects;    /* struct graph_object */
	struct list conditions; /* struct graph_condition */
	bool inner; /* a node's or an executable graph's: not destroyed by the program */
	/* Of an executable graph, or of a child in one: */
	CUgraphNode *order; /* malloc'ed */
	unsigned lanes;     /* that it runs on */
	struct home lane_homes[GRAPH_LANES];
	struct own_lane own[GRAPH_LANES]; /* with the executable graph's lock */
};

struct CUgraphExec_st {
	uint32_t handle_word;
	CUgraph graph;
	uint64_t flags;
	struct list alias;    /* of those that the device calls by another name than we: */
	CUgraphExec name;     /* what the program has */
	struct home whole_in; /* where the device has it as a whole; a context of NULL: nowhere */
	pthread_mutex_t lock; /* guards the rest */
	struct gdev_device_graph *whole;
	bool changed;                 /* since the device was given it */
	unsigned long long stream_id; /* of the last launch, or 0, */
	struct home home;             /* where that was, */
	struct gdev_fence done;       /* and its end */
};

/* ---- structure (graph.c) ---- */

CUresult graph_create(CUgraph *graph);
void graph_release(CUgraph graph);
CUresult graph_copy_all(CUgraph graph, CUgraph *copy);
/* A node that depends on these; its payload is still to be set, all zeros. */
CUresult graph_add(CUgraph graph, CUgraphNodeType type, const CUgraphNode *dependencies,
	size_t count, CUgraphNode *node);
void graph_remove(CUgraphNode node);
bool node_depends(CUgraphNode node, CUgraphNode on);
CUresult graph_check(CUgraph graph);
CUresult graph_check_node(CUgraphNode node, CUgraphNodeType type);
/* CUDA_ERROR_NOT_SUPPORTED: of another kind than the plain one. */
CUresult graph_check_edges(const CUgraphEdgeData *data, size_t count);
/* The copy of `node` in `graph`. */
CUresult graph_find_copy(CUgraph graph, CUgraphNode node, CUgraphNode *copy);
/* Hands a list of nodes over as CUDA's calls do. */
CUresult graph_answer(
	const CUgraphNode *nodes, size_t count, CUgraphNode *wanted, size_t *wanted_count);

/* ---- what nodes do (graph_node.c) ---- */

struct home home_of(CUcontext context);
/* Between these the context is the current one. */
CUresult node_enter(CUcontext context, bool *entered);
void node_leave(bool entered);
bool same_home(const struct home *a, const struct home *b);
/* CUDA_ERROR_INVALID_VALUE: the node is one of an executable graph, which stays in its context. */
CUresult node_set_home(CUgraphNode node, CUcontext context);
/* Replaces the node's payload by a copy of what is given; the node keeps its own on failure. */
CUresult node_set_kernel(CUgraphNode node, CUfunction function, const CUlaunchConfig *config,
	void **params, void **extra);
CUresult node_set_copy(CUgraphNode node, const CUDA_MEMCPY3D *params);
CUresult node_set_fill(CUgraphNode node, const CUDA_MEMSET_NODE_PARAMS *params);
CUresult node_set_memops(CUgraphNode node, CUcontext context, const CUstreamBatchMemOpParams *ops,
	unsigned count, unsigned flags);
/* The same payload as another node's, of the same type. */
CUresult node_set_like(CUgraphNode node, CUgraphNode other);
void node_clear(CUgraphNode node);
/* `more`: it is a kernel, and the next to be sent is one, on the same stream. */
CUresult node_run(CUgraphNode node, CUstream stream, bool more);

/* ---- objects of the program (user_object.c) ---- */

CUresult graph_keep_object(CUgraph graph, CUuserObject object, unsigned count);
void graph_drop_objects(CUgraph graph);

/* ---- memory of graphs (graph_memory.c) ---- */

/* New memory for the node; its address goes into the parameters. */
CUresult node_set_alloc(CUgraphNode node, CUDA_MEM_ALLOC_NODE_PARAMS *params);
CUresult node_set_free(CUgraphNode node, CUdeviceptr pointer);
/* As node_set_like. */
void node_share_memory(CUgraphNode node, CUgraphNode other);
void node_drop_memory(CUgraphNode node);
/* Such a graph is not copied, and nothing is taken out of it. */
bool graph_has_memory(CUgraph graph);
CUresult node_run_alloc(CUgraphNode node, CUstream stream);
CUresult node_run_free(CUgraphNode node, CUstream stream);
/* One executable graph may have the memory at a time. */
CUresult graph_claim_memory(CUgraph graph);
void graph_unclaim_memory(CUgraph graph);
/* Before a launch: what the last one allocated must be free, or is freed here. */
CUresult graph_settle_memory(CUgraph graph, bool free_it);

/* ---- conditional nodes (graph_conditional.c) ---- */

CUresult node_add_conditional(CUgraphNode *added, CUgraph graph, const CUgraphNode *dependencies,
	size_t count, CUDA_CONDITIONAL_NODE_PARAMS *params);
CUresult node_set_conditional_like(CUgraphNode node, CUgraphNode other);
void node_clear_conditional(CUgraphNode node);
CUresult node_run_conditional(CUgraphNode node, CUstream stream);
/* As graph_order(), of what is in the node. */
CUresult node_order_bodies(CUgraphNode node);
void graph_drop_conditions(CUgraph graph);
/* Whether it, or a child graph in it, has conditional nodes. */
bool graph_has_conditions(CUgraph graph);
/* At the begin of a launch. */
CUresult graph_assign_conditions(CUgraph graph, CUstream stream);

/* ---- graphs that the device has as a whole (graph_device.c) ---- */

/* Whether kernels of the graph may launch others, and all of it is what a device can have as a whole. */
bool graph_launches_graphs(CUgraph graph, struct home *home);
/* What may be launched by kernels. With the reason, and the node; NULL: it is none's. */
CUresult graph_check_for_device(
	CUgraph graph, struct home *home, CUgraphInstantiateResult *reason, CUgraphNode *culprit);
/* Gives it to the device. Sets exec->name. */
CUresult exec_give(CUgraphExec exec);
/* Behind its last launch. With the lock. upload: it is only to be there for kernels to launch it. */
CUresult exec_launch_whole(CUgraphExec exec, CUstream stream, bool upload);
void exec_take_back(CUgraphExec exec);

/* ---- launching (graph_run.c) ---- */

bool home_is_alive(const struct home *home);
CUresult lane_open(struct own_lane *lane, const struct home *home, CUstream like);

/* Brings an executable graph's nodes into an order, and to lanes. CUDA_ERROR_INVALID_VALUE: there is a circle. */
CUresult graph_order(CUgraph graph);
/* Launches all nodes of a child graph behind what is on the stream, which waits for them: on the one stream, however many lanes
 * it has, if its nodes are of one context. */
CUresult graph_run(CUgraph graph, CUstream stream);
CUresult graph_launch(CUgraphExec exec, CUstream stream);
/* For kernels to launch it. */
CUresult graph_upload(CUgraphExec exec, CUstream stream);
/* What the program names. */
CUresult exec_find(CUgraphExec name, CUgraphExec *exec);
/* The node of the executable graph that stands for `node`; it is about to be changed. */
CUresult exec_find_node(CUgraphExec name, CUgraphNode node, CUgraphNode *found);
void graph_close_lanes(CUgraph graph);

#endif
