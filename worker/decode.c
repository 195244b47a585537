/* SPDX-License-Identifier: MIT
 *
 * See decode.h. One function an opcode that has more to check than its length; the fuzz target
 * tests/fuzz/fuzz_ring.c goes through here.
 */
#include "worker/decode.h"

#include <errno.h>
#include <string.h>

#include "base/cleanup.h"
#include "gdev/error.h"
#include "proto/session.h"

static size_t padded(size_t bytes)
{
	return align_up(bytes, 8);
}

/* Bytes that width x height x depth covers: rows `pitch` apart in planes `slice` apart. */
static int span_of(uint64_t width, uint64_t height, uint64_t depth, uint64_t pitch, uint64_t slice,
	uint64_t *span)
{
	uint64_t rows, plane, planes;

	*span = 0;
	if (!width || !height || !depth)
		return 0;
	if (height > 1 && pitch < width)
		return -EINVAL;
	if (__builtin_mul_overflow(height - 1, height > 1 ? pitch : 0, &rows) ||
		__builtin_add_overflow(rows, width, &plane))
		return -GDEV_E_ILLEGAL_ADDRESS;
	if (depth > 1 && slice < plane)
		return -EINVAL;
	if (__builtin_mul_overflow(depth - 1, depth > 1 ? slice : 0, &planes) ||
		__builtin_add_overflow(plane, planes, span))
		return -GDEV_E_ILLEGAL_ADDRESS;
	return 0;
}

static int decode_copy(struct request *request, size_t length)
{
	const struct record_copy *copy = request->copy;
	int error;

	error = span_of(copy->width, copy->height, copy->depth, copy->destination_pitch,
		copy->destination_slice, &request->destination_span);
	if (!error)
		error = span_of(copy->width, copy->height, copy->depth, copy->source_pitch,
			copy->source_slice, &request->source_span);
	return error;
}

static int decode_fill(struct request *request, size_t length)
{
	const struct record_fill *fill = request->fill;
	uint64_t width;

	if (fill->element_bytes != 1 && fill->element_bytes != 2 && fill->element_bytes != 4)
		return -EINVAL;
	if ((fill->destination | (fill->height > 1 ? fill->pitch : 0)) % fill->element_bytes)
		return -EINVAL;
	if (__builtin_mul_overflow(fill->width, fill->element_bytes, &width))
		return -GDEV_E_ILLEGAL_ADDRESS;
	return span_of(width, fill->height, 1, fill->pitch, 0, &request->destination_span);
}

static int decode_write(struct request *request, size_t length)
{
	const struct record_write *write = request->write;

	if (write->bytes > RECORD_BYTES_MAX ||
		padded(sizeof *write + (size_t)write->bytes) != length)
		return -EINVAL;
	request->tail = write + 1;
	request->destination_span = write->bytes;
	return 0;
}

static int decode_array(struct request *request, size_t length)
{
	const struct record_array *array = request->array;
	struct texture plain;
	uint64_t bytes;

	return !array->address || array->address % ARENA_ALIGN ||
			       !array_layout(&array->shape, array->address, &plain, &bytes) ||
			       array->bytes != align_up(bytes, ARENA_ALIGN)
		       ? -EINVAL
		       : 0;
}

static bool words_are_sound(const struct texture_words *words)
{
	return words->surface <= 1 && words->source < TEXTURE_SOURCES &&
	       words->format < TEXTURE_FORMATS && words->has_view <= 1 && !words->reserved;
}

static int decode_texture(struct request *request, size_t length)
{
	return words_are_sound(&request->texture->words) ? 0 : -EINVAL;
}

static int decode_texture_destroy(struct request *request, size_t length)
{
	const struct record_texture_destroy *record = request->texture_destroy;

	return record->surface > 1 || record->reserved ? -EINVAL : 0;
}

/* Behind the `fixed` bytes of the record. */
static int decode_name(struct request *request, size_t fixed, uint32_t name_bytes, size_t length)
{
	const char *name = (const char *)request->header + fixed;

	if (!name_bytes || name_bytes > RECORD_NAME_MAX || padded(fixed + name_bytes) != length)
		return -EINVAL;
	if (strnlen(name, name_bytes) != name_bytes - 1)
		return -EINVAL;
	request->tail = name;
	return 0;
}

static int decode_lookup(struct request *request, size_t length)
{
	const struct record_lookup *lookup = request->lookup;

	return decode_name(request, sizeof *lookup, lookup->name_bytes, length);
}

static int decode_reference(struct request *request, size_t length)
{
	const struct record_reference *reference = request->reference;

	if (reference->bind > 1 || reference->reserved || reference->words.has_view ||
		!words_are_sound(&reference->words))
		return -EINVAL;
	return decode_name(request, sizeof *reference, reference->name_bytes, length);
}

static int decode_attribute(struct request *request, const struct record_attribute *attribute)
{
	const uint32_t *words = (const uint32_t *)(attribute + 1);

	switch (attribute->type) {
	case RECORD_ATTRIBUTE_COOPERATIVE:
		if (attribute->length != sizeof *words)
			return -EINVAL;
		request->cooperative = words[0] != 0;
		return 0;
	case RECORD_ATTRIBUTE_CLUSTER:
		if (attribute->length != 4 * sizeof *words || words[3])
			return -EINVAL;
		memcpy(request->cluster, words, sizeof request->cluster);
		return 0;
	case RECORD_ATTRIBUTE_PRIORITY: /* the stream's is used: a launch is not reordered */
		return attribute->length == sizeof *words ? 0 : -EINVAL;
	default:
		return attribute->required ? -ENOTSUP : 0;
	}
}

static int decode_launch(struct request *request, size_t length)
{
	const struct record_launch *launch = request->launch;
	size_t offset = sizeof *launch;

	if (launch->reserved || launch->param_bytes > RECORD_PARAM_BYTES_MAX ||
		padded(launch->param_bytes) > length - offset)
		return -EINVAL;
	request->tail = launch + 1;
	offset += padded(launch->param_bytes);
	while (offset < length) {
		const struct record_attribute *attribute =
			(const void *)((const char *)launch + offset);
		int error;

		/* Lengths and offsets are multiples of 8, so that a header is there. */
		if (attribute->required > 1 ||
			attribute->length > length - offset - sizeof *attribute)
			return -EINVAL;
		error = decode_attribute(request, attribute);
		if (error)
			return error;
		offset += sizeof *attribute + padded(attribute->length);
	}
	for (int i = 0; i < 3; i++)
		if (!launch->grid[i] || !launch->block[i])
			return -GDEV_E_INVALID_LAUNCH;
	return 0;
}

static int decode_tensor_map(struct request *request, size_t length)
{
	const struct record_tensor_map *map = request->tensor_map;
	bool moved = map->mode == TENSOR_MAP_MOVED;

	if (map->mode > TENSOR_MAP_MOVED || map->reserved || !map->rank != moved ||
		map->rank > RECORD_TENSOR_RANK ||
		length != sizeof *map + (moved ? TENSOR_MAP_BYTES : 0))
		return -EINVAL;
	request->tail = map + 1;
	return 0;
}

static int decode_graph(struct request *request, size_t length)
{
	return request->graph->from_device > 1 ? -EINVAL : 0;
}

static int decode_graph_launch(struct request *request, size_t length)
{
	return request->graph_launch->upload > 1 ? -EINVAL : 0;
}

/* What the node does is a record of its own. */
static int decode_node(struct request *request, size_t length)
{
	const struct record_graph_node *node = request->node;
	const struct record_header *does;
	struct request inner;
	size_t offset;

	if (node->dependencies > RECORD_BYTES_MAX / sizeof(uint32_t))
		return -EINVAL;
	offset = padded(sizeof *node + node->dependencies * sizeof(uint32_t));
	if (offset > length || length - offset < sizeof *does)
		return -EINVAL;
	does = (const void *)((const char *)node + offset);
	if ((does->opcode != RECORD_LAUNCH && does->opcode != RECORD_COPY &&
		    does->opcode != RECORD_FILL) ||
		does->flags || does->length != length - offset)
		return -EINVAL;
	request->tail = does;
	return decode_record(does, does->length, &inner);
}

static int decode_load(struct request *request, size_t length)
{
	const struct record_module_load *load = request->load;

	if (!load->image == !load->number || !load->image_bytes || !load->log != !load->log_bytes)
		return -EINVAL;
	return 0;
}

static int decode_place(struct request *request, size_t length)
{
	const struct record_module_place *place = request->place;

	return place->reserved || place->address % 4096 ? -EINVAL : 0;
}

static int decode_check(struct request *request, size_t length)
{
	const struct record_check *check = request->check;

	return check->operation < RECORD_CHECK_BEGIN || check->operation > RECORD_CHECK_REPORT ||
			       (check->operation == RECORD_CHECK_ADD && check->argument > 1)
		       ? -EINVAL
		       : 0;
}

/* For each opcode, a check or NULL, and whether bytes may follow the fixed fields. */
static const struct {
	int (*check)(struct request *request, size_t length);
	bool tail;
} decoders[RECORD_OPCODE_END] = {
	[RECORD_COPY] = {decode_copy, false},
	[RECORD_WRITE] = {decode_write, true},
	[RECORD_FILL] = {decode_fill, false},
	[RECORD_ARRAY_CREATE] = {decode_array, false},
	[RECORD_TEXTURE_CREATE] = {decode_texture, false},
	[RECORD_TEXTURE_DESTROY] = {decode_texture_destroy, false},
	[RECORD_MODULE_LOAD] = {decode_load, false},
	[RECORD_MODULE_PLACE] = {decode_place, false},
	[RECORD_REFERENCE_SET] = {decode_reference, true},
	[RECORD_FUNCTION_GET] = {decode_lookup, true},
	[RECORD_GLOBAL_GET] = {decode_lookup, true},
	[RECORD_LAUNCH] = {decode_launch, true},
	[RECORD_CLUSTERS] = {decode_launch, true},
	[RECORD_CHECK] = {decode_check, false},
	[RECORD_TENSOR_MAP] = {decode_tensor_map, true},
	[RECORD_GRAPH_BEGIN] = {decode_graph, false},
	[RECORD_GRAPH_NODE] = {decode_node, true},
	[RECORD_GRAPH_END] = {decode_graph, false},
	[RECORD_GRAPH_LAUNCH] = {decode_graph_launch, false},
};

static uint8_t known_flags(const struct request *request)
{
	if (request->type->class != RECORD_CLASS_STREAM)
		return 0;
	return request->header->opcode == RECORD_LAUNCH ? RECORD_FENCE | RECORD_MORE : RECORD_FENCE;
}

int decode_record(const void *record, size_t length, struct request *request)
{
	const struct record_header *header = record;

	memset(request, 0, sizeof *request);
	request->header = header;
	request->type = record_type_find(header->opcode);
	if (!request->type || header->version)
		return -ENOSYS;
	if (header->reserved || (header->flags & ~known_flags(request)))
		return -EINVAL;
	if (length < request->type->fixed_bytes)
		return -EINVAL;
	if (!decoders[header->opcode].tail && length != request->type->fixed_bytes)
		return -EINVAL;
	if (!decoders[header->opcode].check)
		return 0;
	return decoders[header->opcode].check(request, length);
}
