/* SPDX-License-Identifier: MIT
 *
 * Launches: one record, written straight into the ring, with the parameters copied in.
 */
#include <errno.h>
#include <string.h>

#include "lib/libgdev/managed.h"
#include "lib/libgdev/module.h"

#define ATTRIBUTE_ROOM 64           /* of the attributes that one launch can have */
#define BLOCK_REGISTERS (64u << 10) /* that a block can have, on all GPUs since 2012 */

static int device_limit(
	struct gdev_session *session, enum device_property property, uint32_t *value)
{
	int32_t known;
	int error = gdev_session_property(session, property, &known);

	if (!error)
		*value = known > 0 ? (uint32_t)known : UINT32_MAX;
	return error;
}

int function_limits_init(struct gdev_function *function)
{
	struct gdev_session *session = function->module->session;
	struct launch_limits *limits = &function->limits;
	uint32_t shared = 0, shared_by_choice = 0;
	int error = 0;

	for (unsigned i = 0; i < 3 && !error; i++) {
		error = device_limit(session, PROPERTY_MAX_GRID_X + i, &limits->grid[i]);
		if (!error)
			error = device_limit(session, PROPERTY_MAX_BLOCK_X + i, &limits->block[i]);
	}
	if (!error)
		error = device_limit(
			session, PROPERTY_MAX_THREADS_PER_BLOCK, &limits->block_threads);
	if (!error)
		error = device_limit(session, PROPERTY_MAX_SHARED_BYTES_PER_BLOCK, &shared);
	if (!error)
		error = device_limit(
			session, PROPERTY_MAX_SHARED_BYTES_PER_BLOCK_OPTIN, &shared_by_choice);
	if (error) {
		free(function);
		return error;
	}
	if (shared_by_choice != UINT32_MAX)
		shared = max_of(shared, shared_by_choice);
	limits->dynamic_shared_bytes = shared - min_of(shared, function->info.shared_bytes);
	return 0;
}

/* Of a block that is too large for the kernel: as CUDA has it, one that there are not enough registers for lacks
 * resources, and one beyond what the kernel was compiled for (.maxntid) is wrong. */
static int too_large(const struct gdev_function_info *info, uint64_t threads)
{
	return align_up(threads, 32) * align_up(info->registers, 8) > BLOCK_REGISTERS
		       ? -GDEV_E_OUT_OF_RESOURCES
		       : -GDEV_E_INVALID_LAUNCH;
}

static int check_launch(const struct gdev_launch *launch)
{
	const struct gdev_function *function = launch->function;
	uint64_t threads = 1;

	for (unsigned i = 0; i < 3; i++) {
		if (!launch->grid[i] || launch->grid[i] > function->limits.grid[i])
			return -GDEV_E_INVALID_LAUNCH;
		if (!launch->block[i] || launch->block[i] > function->limits.block[i])
			return -GDEV_E_INVALID_LAUNCH;
		threads *= launch->block[i];
	}
	if (threads > function->limits.block_threads ||
		launch->shared_bytes > function->limits.dynamic_shared_bytes)
		return -GDEV_E_INVALID_LAUNCH;
	if (threads > function->info.max_threads)
		return too_large(&function->info, threads);
	if (!launch->arguments && !launch->params && function->info.param_bytes)
		return -EINVAL;
	return 0;
}

static void write_params(const struct gdev_launch *launch, uint8_t *params, uint32_t room)
{
	const struct gdev_function_info *info = &launch->function->info;

	if (!room)
		return;
	if (!launch->arguments) {
		uint32_t given = min_of(launch->param_bytes, info->param_bytes);
		if (given)
			memcpy(params, launch->params, given);
		memset(params + given, 0, room - given);
		return;
	}
	memset(params, 0, room);
	for (uint32_t i = 0; i < info->param_count; i++)
		memcpy(params + info->params[i].offset, launch->arguments[i], info->params[i].size);
}

static uint8_t *write_attribute(uint8_t *at, uint16_t type, const void *payload, uint32_t length)
{
	struct record_attribute attribute = {.type = type, .required = 1, .length = length};

	memcpy(at, &attribute, sizeof attribute);
	memset(at + sizeof attribute, 0, align_up(length, 8));
	memcpy(at + sizeof attribute, payload, length);
	return at + sizeof attribute + align_up(length, 8);
}

static uint32_t write_attributes(const struct gdev_launch *launch, uint8_t *attributes)
{
	uint8_t *end = attributes;

	if (launch->cooperative) {
		uint32_t yes = 1;
		end = write_attribute(end, RECORD_ATTRIBUTE_COOPERATIVE, &yes, sizeof yes);
	}
	if (launch->cluster[0]) {
		uint32_t cluster[4] = {
			launch->cluster[0], launch->cluster[1], launch->cluster[2], 0};
		end = write_attribute(end, RECORD_ATTRIBUTE_CLUSTER, cluster, sizeof cluster);
	}
	return (uint32_t)(end - attributes);
}

/* All but the header. */
static void write_launch(struct record_launch *record, const struct gdev_launch *launch,
	const uint8_t *attributes, uint32_t attribute_bytes)
{
	const struct gdev_function *function = launch->function;
	uint32_t room = align_up(function->info.param_bytes, 8);

	record->function = function->handle;
	memcpy(record->grid, launch->grid, sizeof record->grid);
	memcpy(record->block, launch->block, sizeof record->block);
	record->shared_bytes = launch->shared_bytes;
	record->param_bytes = function->info.param_bytes;
	record->reserved = 0;
	write_params(launch, (uint8_t *)(record + 1), room);
	if (attribute_bytes)
		memcpy((uint8_t *)(record + 1) + room, attributes, attribute_bytes);
}

static int send_launch(struct gdev_stream *stream, const struct gdev_launch *launch)
{
	uint32_t room = align_up(launch->function->info.param_bytes, 8), attribute_bytes;
	uint8_t attributes[ATTRIBUTE_ROOM];
	struct record_launch *record;
	int error;

	attribute_bytes = write_attributes(launch, attributes);
	error = stream_begin(
		stream, RECORD_LAUNCH, sizeof *record + room + attribute_bytes, &record);
	if (error)
		return error;
	record->header.flags = launch->more ? RECORD_MORE : 0;
	write_launch(record, launch, attributes, attribute_bytes);
	record_commit(stream->session);
	return 0;
}

/* The kernel may use all managed memory, which its parameters may lie in: they are read before, and not under a lock. */
static int launch_managed(struct gdev_stream *stream, const struct gdev_launch *launch)
{
	struct gdev_session *session = stream->session;
	struct gdev_launch packed = *launch;
	autofree uint8_t *params = malloc(launch->function->info.param_bytes + 1);
	int entered, error;

	if (!params)
		return -ENOMEM;
	write_params(launch, params, launch->function->info.param_bytes);
	packed.arguments = NULL;
	packed.params = params;
	packed.param_bytes = launch->function->info.param_bytes;
	entered = managed_enter(session, 0, UINT64_MAX);
	error = entered < 0 ? entered : send_launch(stream, &packed);
	managed_leave(session, entered);
	return error;
}

static int check(struct gdev_session *session, const struct gdev_launch *launch)
{
	int error = gdev_session_error(session, NULL);

	if (error)
		return error;
	return launch->function->module->session == session ? check_launch(launch) : -EINVAL;
}

int launch_record(
	struct gdev_session *session, const struct gdev_launch *launch, struct record_launch **made)
{
	uint32_t room = align_up(launch->function->info.param_bytes, 8), attribute_bytes;
	uint8_t attributes[ATTRIBUTE_ROOM];
	struct record_launch *record;
	int error = check(session, launch);

	if (error)
		return error;
	attribute_bytes = write_attributes(launch, attributes);
	record = calloc(1, sizeof *record + room + attribute_bytes);
	if (!record)
		return -ENOMEM;
	record->header.opcode = RECORD_LAUNCH;
	record->header.length = (uint32_t)(sizeof *record + room + attribute_bytes);
	write_launch(record, launch, attributes, attribute_bytes);
	*made = record;
	return 0;
}

int gdev_launch_async(struct gdev_stream *stream, const struct gdev_launch *launch)
{
	struct gdev_session *session = stream->session;
	int error = check(session, launch);

	if (error)
		return error;
	return atomic_load_explicit(&session->managed.objects, memory_order_relaxed)
		       ? launch_managed(stream, launch)
		       : send_launch(stream, launch);
}

int gdev_launch_clusters(const struct gdev_launch *launch, uint32_t *count)
{
	struct gdev_session *session = launch->function->module->session;
	struct record_launch record = {
		.function = launch->function->handle,
		.shared_bytes = launch->shared_bytes,
	};
	uint8_t attributes[ATTRIBUTE_ROOM];
	struct reply_clusters reply;
	int error = gdev_session_error(session, NULL);

	memcpy(record.grid, launch->grid, sizeof record.grid);
	memcpy(record.block, launch->block, sizeof record.block);
	if (!error)
		error = session_request(session, RECORD_CLUSTERS, &record, sizeof record,
			attributes, write_attributes(launch, attributes), &reply, sizeof reply,
			sizeof reply);
	if (error)
		return error;
	*count = reply.count;
	return 0;
}

int gdev_texture_create(
	struct gdev_session *session, const struct texture_words *words, uint64_t *handle)
{
	struct record_texture record = {.words = *words};
	struct reply_texture reply;
	int error = gdev_session_error(session, NULL);

	if (!error)
		error = session_request(session, RECORD_TEXTURE_CREATE, &record, sizeof record,
			NULL, 0, &reply, sizeof reply, sizeof reply);
	if (!error)
		*handle = reply.handle;
	return error;
}

int gdev_texture_destroy(struct gdev_session *session, uint64_t handle, bool surface)
{
	struct record_texture_destroy record = {.handle = handle, .surface = surface};
	int error, destroyed;

	if (session_lost(session))
		return transport_error(session->transport);
	error = streams_sync(session);
	destroyed = session_request(
		session, RECORD_TEXTURE_DESTROY, &record, sizeof record, NULL, 0, NULL, 0, 0);
	return error ? error : destroyed;
}

int gdev_reference_set(
	struct gdev_module *module, const char *name, const struct texture_words *words, bool bind)
{
	uint32_t name_bytes = (uint32_t)min_of(strlen(name) + 1, (size_t)RECORD_NAME_MAX + 1);
	struct record_reference record = {
		.module = module->handle, .name_bytes = name_bytes, .bind = bind, .words = *words};
	int error = gdev_session_error(module->session, NULL);

	if (name_bytes > RECORD_NAME_MAX)
		return -GDEV_E_SYMBOL_NOT_FOUND;
	return error ? error
		     : session_request(module->session, RECORD_REFERENCE_SET, &record,
			       sizeof record, name, name_bytes, NULL, 0, 0);
}

int gdev_tensor_map(struct gdev_session *session, const struct gdev_tensor *tensor,
	uint8_t map[GDEV_TENSOR_MAP_BYTES])
{
	struct record_tensor_map record = {
		.mode = tensor->mode,
		.data_type = tensor->data_type,
		.rank = tensor->rank,
		.interleave = tensor->interleave,
		.swizzle = tensor->swizzle,
		.l2_promotion = tensor->l2_promotion,
		.fill = tensor->fill,
		.address = tensor->address,
		.channels = tensor->channels,
		.pixels = tensor->pixels,
	};
	int error = gdev_session_error(session, NULL);

	_Static_assert(GDEV_TENSOR_RANK == RECORD_TENSOR_RANK, "one number");
	memcpy(record.dimensions, tensor->dimensions, sizeof record.dimensions);
	memcpy(record.strides, tensor->strides, sizeof record.strides);
	memcpy(record.box, tensor->box, sizeof record.box);
	memcpy(record.element_strides, tensor->element_strides, sizeof record.element_strides);
	memcpy(record.lower, tensor->lower, sizeof record.lower);
	memcpy(record.upper, tensor->upper, sizeof record.upper);
	if (error)
		return error;
	return session_request(session, RECORD_TENSOR_MAP, &record, sizeof record, NULL, 0, map,
		TENSOR_MAP_BYTES, TENSOR_MAP_BYTES);
}

int gdev_tensor_map_move(
	struct gdev_session *session, uint64_t address, uint8_t map[GDEV_TENSOR_MAP_BYTES])
{
	struct record_tensor_map record = {.mode = TENSOR_MAP_MOVED, .address = address};
	uint8_t before[TENSOR_MAP_BYTES];
	int error = gdev_session_error(session, NULL);

	memcpy(before, map, sizeof before);
	return error ? error
		     : session_request(session, RECORD_TENSOR_MAP, &record, sizeof record, before,
			       sizeof before, map, TENSOR_MAP_BYTES, TENSOR_MAP_BYTES);
}
