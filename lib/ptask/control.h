/* SPDX-License-Identifier: MIT
 *
 * Asking gdevd for graphs (proto/control.h, GRAPH_PUBLISH and GRAPH_OPEN).
 */
#ifndef GDEV_LIB_PTASK_CONTROL_H
#define GDEV_LIB_PTASK_CONTROL_H

#include "proto/control.h"

/* Asks each gdevd that this process sees until one has another answer than -ENOENT. The connection, or why there is none;
 * -GDEV_E_NO_DAEMON; -EAGAIN: it may be there soon; -ETIMEDOUT: the graph's owner does not answer, or not by the deadline (0: there is
 * none). `got` (may be NULL): the descriptor that comes with the answer, the caller's. The request's header is filled in here. */
int control_request(uint16_t type, struct control_graph *request, struct control_graph *answer,
	int *got, uint64_t deadline_ns);

#endif
