/* SPDX-License-Identifier: MIT
 *
 * See bridge.c.
 */
#ifndef GDEV_LIB_PTASK_BRIDGE_H
#define GDEV_LIB_PTASK_BRIDGE_H

#include "lib/ptask/internal.h"

struct bridge;

/* A session for what this process opens in `graph`, which another process owns. Errors as gdev_graph_open(). */
int bridge_create(struct gdev_graph *graph, const char *vgpu, struct bridge **bridge);
/* Ends the thread, and the session. Without the lock. NULL is fine, here and below. */
void bridge_stop(struct bridge *bridge);
/* When no datablock of the graph is there any more. */
void bridge_free(struct bridge *bridge);
/* The graph of this process's session, in which its ptasks are. */
struct gdev_graph *bridge_graph(const struct bridge *bridge);
/* `error`, and its words are those of the process's graph from here on. */
int bridge_result(struct bridge *bridge, int error);
/* All is opened: it is checked, and runs. */
int bridge_run(struct bridge *bridge);
/* Datablocks go over it from when the owner runs its graph. */
int bridge_start(struct bridge *bridge);
/* Something has come from the owner. With the graph's lock. */
void bridge_wake(struct bridge *bridge);

#endif
