/* SPDX-License-Identifier: MIT
 *
 * See trace.h. A command is noted once, when it is over, with all its times: one event of 64 bytes, one
 * reading of the clock a batch.
 */
#include "worker/trace.h"

#include <sys/mman.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "worker/command.h"
#include "worker/core.h"
#include "worker/module.h"

int trace_init(struct core *core)
{
	struct trace *trace = &core->trace;
	int error = core_map_shared(
		"gdev-trace", sizeof *trace->segment, &trace->fd, (void **)&trace->segment);

	if (error)
		return error;
	trace->segment->header = (struct trace_header){
		.magic = TRACE_MAGIC,
		.version = TRACE_VERSION,
		.event_bytes = sizeof(struct trace_event),
		.event_count = TRACE_EVENTS,
		.name_bytes = TRACE_NAMES_BYTES,
	};
	trace_writer_init(&trace->writer, &trace->segment->worker);
	return 0;
}

void trace_finish(struct core *core)
{
	if (core->trace.segment)
		munmap(core->trace.segment, sizeof *core->trace.segment);
	if (core->trace.fd >= 0)
		close(core->trace.fd);
}

void trace_batch(struct core *core)
{
	core->trace.read_ns = trace_enabled(core->trace.segment) ? clock_now_ns() : 0;
}

void trace_piece(struct command *command)
{
	if (!command->begun_ns)
		command->begun_ns = command->device.started_ns;
}

/* A name is written when the first event needs it. */
static uint32_t name_of(struct core *core, struct function *function)
{
	if (!function)
		return 0;
	if (!function->trace_name)
		function->trace_name = trace_write_name(&core->trace.writer, function->name);
	return function->trace_name;
}

static void describe_launch(
	struct core *core, const struct command *command, struct trace_event *event)
{
	const struct record_launch *launch = command->request.launch;

	event->kind = TRACE_LAUNCH;
	event->name = name_of(core, command->function);
	event->amount = (uint64_t)launch->grid[0] * launch->grid[1] * launch->grid[2];
	event->detail = launch->block[0] * launch->block[1] * launch->block[2];
}

/* What the record says, valid or not; false: it is nothing that is shown. */
static bool describe_command(
	struct core *core, const struct command *command, struct trace_event *event)
{
	const struct request *request = &command->request;

	switch (request->header->opcode) {
	case RECORD_LAUNCH:
		describe_launch(core, command, event);
		return true;
	case RECORD_GRAPH_LAUNCH:
		if (request->graph_launch->upload)
			return false;
		event->kind = TRACE_LAUNCH;
		return true;
	case RECORD_COPY:
		event->kind = TRACE_COPY;
		event->amount = request->copy->width * request->copy->height * request->copy->depth;
		event->detail = command->device.copy.direction;
		return true;
	case RECORD_WRITE:
		event->kind = TRACE_COPY;
		event->amount = request->write->bytes;
		event->detail = command->device.copy.direction;
		return true;
	case RECORD_FILL:
		event->kind = TRACE_FILL;
		event->amount =
			request->fill->width * request->fill->height * request->fill->element_bytes;
		return true;
	case RECORD_WAIT:
	case RECORD_EVENT_WAIT:
		event->kind = TRACE_WAIT;
		event->end_ns = clock_now_ns();
		return true;
	default:
		return false;
	}
}

/* A grant that was there before anybody traced is shown from its real beginning. */
static void note_grant(struct core *core, uint32_t which)
{
	struct resource *resource = &core->grants.resources[which];

	if (resource->state == GRANT_HELD && !resource->noted)
		trace_grant_given(core, which);
}

void trace_command(struct core *core, const struct command *command)
{
	struct trace_event event = {
		.queued_ns = command->queued_ns,
		.begin_ns = command->begun_ns,
		.value = command->value,
		.timeline = command->timeline,
		.status = command->error,
	};

	if (command->begun_ns) {
		event.end_ns = command->device.finished_ns;
		note_grant(core, command->resource);
	}
	if (describe_command(core, command, &event))
		trace_write(&core->trace.writer, &event);
}

uint64_t trace_time(const struct core *core)
{
	return trace_enabled(core->trace.segment) ? clock_now_ns() : 0;
}

void trace_swap(struct core *core, enum trace_swap step, const struct piece *piece, uint64_t bytes,
	uint64_t begin_ns, uint64_t end_ns)
{
	struct trace_event event = {
		.kind = TRACE_SWAP,
		.detail = step,
		.value = piece ? piece->range->address + piece->offset : 0,
		.amount = bytes,
		.begin_ns = begin_ns,
		.end_ns = max_of(begin_ns, end_ns), /* it was turned off meanwhile */
	};

	if (begin_ns)
		trace_write(&core->trace.writer, &event);
}

void trace_move(struct core *core, const struct command *command)
{
	const struct piece *piece = command->piece;
	struct trace_event event = {
		.kind = TRACE_SWAP,
		.detail = command->resource == RESOURCE_COPY_TO_DEVICE ? TRACE_SWAP_IN
								       : TRACE_SWAP_OUT,
		.value = piece->range->address + piece->offset,
		.amount = piece->bytes,
		.queued_ns = command->queued_ns,
		.begin_ns = command->device.started_ns,
		.end_ns = command->device.finished_ns,
		.status = command->error,
	};

	if (command->queued_ns && event.begin_ns)
		trace_write(&core->trace.writer, &event);
}

static void write_grant(struct core *core, uint32_t which, uint64_t end_ns)
{
	struct trace_event event = {
		.kind = TRACE_GRANT,
		.detail = which,
		.begin_ns = core->grants.resources[which].held_since_ns,
		.end_ns = end_ns,
	};

	trace_write(&core->trace.writer, &event);
}

void trace_grant_given(struct core *core, uint32_t which)
{
	core->grants.resources[which].noted = trace_enabled(core->trace.segment);
	if (core->grants.resources[which].noted)
		write_grant(core, which, 0);
}

void trace_grant_over(struct core *core, uint32_t which)
{
	if (core->grants.resources[which].noted)
		write_grant(core, which, clock_now_ns());
	core->grants.resources[which].noted = false;
}
