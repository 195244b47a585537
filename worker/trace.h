/* SPDX-License-Identifier: MIT
 *
 * What the worker notes for `gdev trace`, when somebody traces (proto/trace.h): its commands, when it held a
 * grant, and what it did to move memory. Off, it costs a look at one word a batch of records, and a step of such a
 * move. With the lock, unless it says otherwise.
 */
#ifndef GDEV_WORKER_TRACE_H
#define GDEV_WORKER_TRACE_H

#include <stdint.h>

#include "proto/trace_writer.h"

struct command;
struct core;
struct piece;

struct trace {
	int fd;
	struct trace_segment *segment;
	struct trace_writer writer;
	/* When the batch of records was read that is being taken in; 0: nobody traces. */
	uint64_t read_ns;
};

int trace_init(struct core *core);
void trace_finish(struct core *core);
/* A batch of records is about to be read. */
void trace_batch(struct core *core);
/* The device is done with a piece of a command. */
void trace_piece(struct command *command);
/* The command is over. */
void trace_command(struct core *core, const struct command *command);
/* Without the lock, too: the time, or 0 when nobody traces. */
uint64_t trace_time(const struct core *core);
/* A step for the piece (NULL: for none in particular) took so long; nothing if it began at 0. */
void trace_swap(struct core *core, enum trace_swap step, const struct piece *piece, uint64_t bytes,
	uint64_t begin_ns, uint64_t end_ns);
/* A copy to or from host swap is over. */
void trace_move(struct core *core, const struct command *command);
/* `resource` was given to us, or is about to be given back. */
void trace_grant_given(struct core *core, uint32_t resource);
void trace_grant_over(struct core *core, uint32_t resource);

#endif
