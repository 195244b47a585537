/* SPDX-License-Identifier: MIT
 *
 * The writing half of trace.h, the same for client and worker. The caller has a lock that lets one thread in
 * at a time. What the writer needs to know it keeps here: nothing is read back from shared memory.
 */
#ifndef GDEV_PROTO_TRACE_WRITER_H
#define GDEV_PROTO_TRACE_WRITER_H

#include <stdbool.h>
#include <stddef.h>

#include "proto/trace.h"

struct trace_writer {
	struct trace_side *side;
	uint64_t head;
	uint32_t names_bytes;
};

void trace_writer_init(struct trace_writer *writer, struct trace_side *side);
/* The offset of a new name, cut to TRACE_NAME_MAX; 0 when there is no room for it. */
uint32_t trace_write_name(struct trace_writer *writer, const char *name);
void trace_write(struct trace_writer *writer, const struct trace_event *event);

static inline bool trace_enabled(const struct trace_segment *segment)
{
	return __atomic_load_n(&segment->header.enabled, __ATOMIC_RELAXED);
}

#endif
