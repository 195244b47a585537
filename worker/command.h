/* SPDX-License-Identifier: MIT
 *
 * A record on its way: the private copy of its bytes, what they mean, and where it stands. Immediate
 * records are freed by command_answer(), records of a stream by the stream when their turn to complete
 * comes. Small ones are recycled: the hot path does not see the allocator.
 */
#ifndef GDEV_WORKER_COMMAND_H
#define GDEV_WORKER_COMMAND_H

#include <stdbool.h>
#include <stdint.h>

#include "base/list.h"
#include "device/ops.h"
#include "worker/decode.h"
#include "worker/memory/memory.h"
#include "worker/service.h"
#include "worker/stream.h"

enum command_state {
	COMMAND_QUEUED,    /* in stream->queued */
	COMMAND_SUBMITTED, /* lent to the device */
	COMMAND_FOLLOWS, /* WAIT: in stream->passed; the device waits, and the worker has not seen the end of that */
	COMMAND_PASSED, /* in stream->passed and not the device's: complete when it is first there */
};

struct command {
	struct core *core;
	struct list link; /* core->recycled; stream->queued, stream->passed; the owner's */
	struct request request;
	uint32_t length;   /* of the record */
	uint32_t capacity; /* of record[] */
	uint32_t timeline;
	uint64_t value;

	/* Of a stream. */
	struct stream *stream;
	enum command_state state;
	int error;
	bool fence;
	uint64_t fence_number;   /* this fence, or: how many fences came before */
	struct list fence_link;  /* streams.fences, while it is not complete */
	bool behind;             /* STAMP: work of its stream was on the device before it */
	struct event_wait *wait; /* EVENT_WAIT: gdevd has been asked, not answered */
	bool satisfied;          /* EVENT_WAIT: it has answered */
	bool watching; /* EVENT_WAIT: for an event of this session; noted in events.watches */
	uint64_t queued_ns, begun_ns; /* when it was read and when it began; 0: nobody traces */
	uint64_t column, row, plane;  /* COPY, FILL: where its next piece begins */
	bool in_pieces;               /* COPY: more pieces follow the one on the device */
	bool served;                  /* it is being executed in host swap, not on the device */
	struct piece *piece;          /* served: where; a move: of this one */
	/* Not of a stream, but a move between a piece and its slot: called when it is done. */
	void (*moved)(struct core *core, struct command *command);
	void *owner; /* of the move */
	struct device_queue *move_queue;

	/* On the device. */
	enum device_resource resource;
	uint64_t estimate_ns;    /* how long it takes, as far as one knows, */
	uint64_t doubt_ns;       /* and by how much others of its kind were off */
	uint64_t sequence;       /* in the order of submission */
	struct list flight_link; /* streams.flight; FOLLOWS: streams.followers */
	struct command *done_next;
	struct device_command device;
	struct function *function;
	struct graph *graph; /* GRAPH_LAUNCH; GRAPH_END */

	/* Immediate. */
	struct barrier barrier;
	struct job job;
	struct charge charge;
	struct range *range, *log_range;
	struct module *module;

	_Alignas(8) uint8_t record[];
};

/* With the lock. NULL: no memory. */
struct command *command_create(struct core *core, size_t length);
void command_destroy(struct command *command);
/* With the lock; when it wants to be called again. */
uint64_t commands_tick(struct core *core, uint64_t now_ns);
void commands_finish(struct core *core);

/* Answers an immediate record, completes its reply slot, and destroys it. With the lock. */
void command_answer(struct command *command, int status, const void *payload, size_t length);
/* The place for a payload in the reply slot, for what is too large to be built elsewhere first. */
void *command_payload(struct command *command);
void command_answer_in_place(struct command *command, int status, size_t length);

/* check.c: RECORD_CHECK. With the lock. */
void check_execute(struct command *command);
/* texture.c. With the lock. */
void array_create(struct command *command);
void texture_create(struct command *command);
void texture_destroy(struct command *command);
void reference_set(struct command *command);
/* commands.c: executes an immediate record, or starts to. With the lock. */
void command_execute(struct command *command);

/* transfer.c, module.c and graph.c: fill command->device, ->resource and ->estimate_ns from the record and the
 * memory as it is now. 0; 1: there is nothing to do; or the error that the command ends with. With the
 * lock. */
int command_prepare_copy(struct command *command);
int command_prepare_write(struct command *command);
int command_prepare_fill(struct command *command);
int command_prepare_launch(struct command *command);
int command_prepare_graph(struct command *command);
/* A copy took so long, which estimates learn from. */
void copy_measured(const struct command *command);
/* COPY, FILL: the piece that was prepared is done; the next one is to be. */
void command_next_piece(struct command *command);
/* Cuts what was prepared down to what is in one piece of the object that a COPY reads, or a FILL writes. NULL:
 * that memory does not move. */
struct piece *command_clip_copy(struct command *command);
struct piece *command_clip_fill(struct command *command);

#endif
