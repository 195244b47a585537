/* SPDX-License-Identifier: MIT
 *
 * Graphs that the device has as a whole: their nodes are collected, and handed over at GRAPH_END. A launch of one is one command.
 */
#ifndef GDEV_WORKER_GRAPH_H
#define GDEV_WORKER_GRAPH_H

struct command;
struct core;

/* Immediate records. With the lock. */
void graph_begin(struct command *command);
void graph_node(struct command *command);
void graph_end(struct command *command);
void graph_destroy(struct command *command);

/* Looks up the graph of a GRAPH_LAUNCH and keeps it until the command is destroyed (graph_leave). */
int graph_take(struct command *command);
void graph_leave(struct command *command);
void graph_measured(const struct command *command);
void graphs_finish(struct core *core);

#endif
