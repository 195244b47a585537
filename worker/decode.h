/* SPDX-License-Identifier: MIT
 *
 * From bytes to a request: whether a record is well formed, by itself. What it names (a stream, a
 * function, a range of memory) is for those who execute it to look up.
 */
#ifndef GDEV_WORKER_DECODE_H
#define GDEV_WORKER_DECODE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "proto/check.h"
#include "proto/record.h"

/* Pointers are into the record that was decoded. */
struct request {
	const struct record_type *type;
	union {
		const struct record_header *header;
		const struct record_memory *memory;
		const struct record_copy *copy;
		const struct record_write *write;
		const struct record_fill *fill;
		const struct record_array *array;
		const struct record_texture *texture;
		const struct record_texture_destroy *texture_destroy;
		const struct record_module_load *load;
		const struct record_module_place *place;
		const struct record_reference *reference;
		const struct record_handle *handle;
		const struct record_lookup *lookup;
		const struct record_launch *launch;
		const struct record_tensor_map *tensor_map;
		const struct record_graph *graph;
		const struct record_graph_node *node;
		const struct record_graph_launch *graph_launch;
		const struct record_stream *stream;
		const struct record_wait *wait;
		const struct record_stamp *stamp;
		const struct record_event *event;
		const struct record_shm *shm;
		const struct record_shared *shared;
		const struct record_query *query;
		const struct record_check *check;
	};
	const void *
		tail; /* parameters of LAUNCH, bytes of WRITE, name of a lookup, what a GRAPH_NODE does */
	uint32_t cluster[3]; /* attributes of LAUNCH */
	bool cooperative;
	/* COPY, FILL: bytes from the first to behind the last that is touched; 0 when none is. */
	uint64_t destination_span, source_span;
};

/* Pure. `record` is a private copy of `length` bytes, 8-byte aligned; request keeps pointers into it.
 * Whatever it returns, request->header may be used, and request->type when it is not NULL.
 * -EINVAL: malformed; -ENOSYS: an opcode or version that we do not know; -ENOTSUP: an attribute that
 * must be known and is not; -GDEV_E_ILLEGAL_ADDRESS: a range that wraps; -GDEV_E_INVALID_LAUNCH. */
int decode_record(const void *record, size_t length, struct request *request);

#endif
