/* SPDX-License-Identifier: MIT
 *
 * See trace_writer.h.
 */
#include "proto/trace_writer.h"

#include <string.h>

void trace_writer_init(struct trace_writer *writer, struct trace_side *side)
{
	*writer = (struct trace_writer){.side = side, .names_bytes = 1};
}

uint32_t trace_write_name(struct trace_writer *writer, const char *name)
{
	uint32_t offset = writer->names_bytes;
	size_t length = strnlen(name, TRACE_NAME_MAX - 1);

	if (length + 1 > TRACE_NAMES_BYTES - offset)
		return 0;
	memcpy(writer->side->names + offset, name, length); /* zeros follow: nothing was there */
	writer->names_bytes += (uint32_t)length + 1;
	__atomic_store_n(&writer->side->names_bytes, writer->names_bytes, __ATOMIC_RELEASE);
	return offset;
}

void trace_write(struct trace_writer *writer, const struct trace_event *event)
{
	/* Who sees bytes of this event sees the head that says that the old one is gone. */
	__atomic_thread_fence(__ATOMIC_RELEASE);
	writer->side->events[writer->head % TRACE_EVENTS] = *event;
	__atomic_store_n(&writer->side->head, ++writer->head, __ATOMIC_RELEASE);
}
