/* SPDX-License-Identifier: MIT
 *
 * Modules and functions. An image reaches the worker through the staging memory when it fits in a slot, with room for the
 * compiler's messages behind it, and in a memfd that nobody can change any more when it does not. Where there is no staging
 * memory the transport copies both.
 */
#include <errno.h>
#include <string.h>

#include "lib/libgdev/internal.h"
#include "lib/libgdev/module.h"

#define LOG_BYTES_MAX (64u << 10)

static int load_image(struct gdev_session *session, struct gdev_image *image, char *log,
	size_t log_bytes, struct reply_module *reply)
{
	struct record_module_load record = {.image_bytes = image->length};
	uint64_t room = align_up(image->length, 8);
	struct slot *slot = NULL;
	int error = 0;

	log_bytes = min_of(log_bytes, (size_t)session->staging.chunk_bytes);
	record.log_bytes = log_bytes;
	if (room + log_bytes > session->staging.chunk_bytes) {
		error = image_send(session, image, &record.number);
		room = 0;
	}
	if (!error && room + log_bytes)
		error = staging_take(session, &slot);
	if (error)
		return error;
	if (room) {
		record.image = slot->address;
		image_write(image, (void *)slot->address);
	}
	if (log_bytes) {
		record.log = slot->address + room;
		memset((void *)record.log, 0, log_bytes);
	}
	error = session_request(session, RECORD_MODULE_LOAD, &record, sizeof record, NULL, 0, reply,
		sizeof *reply, sizeof *reply);
	if (log_bytes) {
		memcpy(log, (const void *)record.log, log_bytes);
		log[log_bytes - 1] = '\0';
	}
	if (slot)
		staging_give(session, slot, NULL);
	return error;
}

/* The transport keeps one log: modules that want one are loaded one after the other. */
static pthread_mutex_t logging = PTHREAD_MUTEX_INITIALIZER;

/* As load_image, where there is no staging memory. */
static int copy_image(struct gdev_session *session, struct gdev_image *image, char *log,
	size_t log_bytes, struct reply_module *reply)
{
	struct record_module_load record = {.image_bytes = image->length, .log_bytes = log_bytes};
	struct transport *transport = session->transport;
	int error = image_send(session, image, &record.number), logged = 0;

	if (error)
		return error;
	if (log_bytes)
		pthread_mutex_lock(&logging);
	error = session_request(session, RECORD_MODULE_LOAD, &record, sizeof record, NULL, 0, reply,
		sizeof *reply, sizeof *reply);
	if (log_bytes) {
		logged = transport->ops->log_copy(transport, log, log_bytes);
		pthread_mutex_unlock(&logging);
		log[logged ? 0 : log_bytes - 1] = '\0';
	}
	return error;
}

/* Gives the variables memory that both sides reach. */
static int place_variables(struct gdev_module *module, uint64_t bytes)
{
	struct record_module_place record = {.module = module->handle};
	struct gdev_session *session = module->session;
	void *memory;
	int error;

	error = gdev_host_alloc(session, bytes, &memory);
	if (error)
		return error;
	record.address = (uint64_t)memory;
	error = session_request(
		session, RECORD_MODULE_PLACE, &record, sizeof record, NULL, 0, NULL, 0, 0);
	if (error) {
		memory_release(session, record.address);
		return error;
	}
	module->managed = record.address;
	module->managed_bytes = bytes;
	return 0;
}

int gdev_module_load_image(struct gdev_session *session, struct gdev_image *image, char *log,
	size_t log_bytes, struct gdev_module **created)
{
	struct gdev_module *module;
	struct reply_module reply;
	int error = gdev_session_error(session, NULL);

	if (log_bytes)
		log[0] = '\0';
	if (error)
		return error;
	if (!image->length || image->length > session->description.arena_bytes)
		return -EINVAL;
	module = calloc(1, sizeof *module);
	if (!module)
		return -ENOMEM;
	log_bytes = min_of(log_bytes, (size_t)LOG_BYTES_MAX);
	error = (session->transport->ops->image_copy ? copy_image : load_image)(
		session, image, log, log_bytes, &reply);
	if (error) {
		free(module);
		return error;
	}
	module->session = session;
	module->handle = reply.module;
	module->wants_text = reply.wants_text;
	pthread_mutex_init(&module->lock, NULL);
	list_init(&module->functions);
	if (reply.variable_bytes)
		error = place_variables(module, reply.variable_bytes);
	if (error)
		gdev_module_unload(module);
	else
		*created = module;
	return error;
}

int gdev_module_load(struct gdev_session *session, const void *image, size_t bytes, char *log,
	size_t log_bytes, struct gdev_module **module)
{
	struct iovec part = {(void *)(uintptr_t)image, bytes};
	struct gdev_image whole = {.parts = &part, .count = 1, .length = bytes, .fd = -1};

	return gdev_module_load_image(session, &whole, log, log_bytes, module);
}

void gdev_module_unload(struct gdev_module *module)
{
	struct gdev_session *session;
	struct gdev_function *function, *next;

	if (!module)
		return;
	session = module->session;
	if (!session_lost(session)) {
		struct record_handle record = {.handle = module->handle};
		streams_sync(session);
		session_request(
			session, RECORD_MODULE_UNLOAD, &record, sizeof record, NULL, 0, NULL, 0, 0);
	}
	if (!session->forked) {
		memory_remove_variables(session, module);
		if (module->managed)
			memory_release(session, module->managed);
	}
	list_for_each_safe (function, next, &module->functions, link)
		free(function);
	pthread_mutex_destroy(&module->lock);
	free(module);
}

/* ---- functions ---- */

static int look_up(struct gdev_module *module, uint16_t opcode, const char *name, void *reply,
	uint32_t reply_least, uint32_t reply_bytes)
{
	size_t name_bytes = strlen(name) + 1;
	struct record_lookup record = {
		.module = module->handle, .name_bytes = (uint32_t)name_bytes};

	if (name_bytes > RECORD_NAME_MAX)
		return -GDEV_E_SYMBOL_NOT_FOUND;
	return session_request(module->session, opcode, &record, sizeof record, name,
		(uint32_t)name_bytes, reply, reply_least, reply_bytes);
}

/* One allocation: the function, its parameters, its name. */
static int make_function(struct gdev_module *module, const char *name,
	const struct reply_function *reply, struct gdev_function **created)
{
	size_t params_bytes = reply->param_count * sizeof(struct gdev_param);
	size_t name_bytes = strlen(name) + 1;
	struct gdev_function *function = malloc(sizeof *function + params_bytes + name_bytes);
	char *name_copy;

	if (!function)
		return -ENOMEM;
	name_copy = (char *)function->params + params_bytes;
	for (uint32_t i = 0; i < reply->param_count; i++)
		function->params[i] =
			(struct gdev_param){reply->params[i].offset, reply->params[i].size};
	memcpy(name_copy, name, name_bytes);
	function->module = module;
	function->handle = reply->function;
	function->info = (struct gdev_function_info){
		.name = name_copy,
		.param_count = reply->param_count,
		.param_bytes = reply->param_bytes,
		.params = function->params,
		.max_threads = reply->max_threads,
		.shared_bytes = reply->shared_bytes,
		.const_bytes = reply->const_bytes,
		.local_bytes = reply->local_bytes,
		.registers = reply->registers,
		.ptx_version = reply->ptx_version,
		.binary_version = reply->binary_version,
		.max_dynamic_shared_bytes = reply->max_dynamic_shared_bytes,
		.cluster = {reply->cluster[0], reply->cluster[1], reply->cluster[2]},
		.needs_cluster = reply->flags & REPLY_FUNCTION_NEEDS_CLUSTER,
		.launches_graphs = reply->flags & REPLY_FUNCTION_LAUNCHES_GRAPHS,
	};
	*created = function;
	return 0;
}

static bool params_are_sound(const struct reply_function *reply)
{
	if (reply->param_count > REPLY_PARAMS_MAX || reply->param_bytes > RECORD_PARAM_BYTES_MAX)
		return false;
	for (uint32_t i = 0; i < reply->param_count; i++)
		if (reply->params[i].size > reply->param_bytes ||
			reply->params[i].offset > reply->param_bytes - reply->params[i].size)
			return false;
	return true;
}

static int ask_function(
	struct gdev_module *module, const char *name, struct gdev_function **function)
{
	autofree struct reply_function *reply = calloc(1, SESSION_REPLY_BYTES);
	int error;

	if (!reply)
		return -ENOMEM;
	error = look_up(
		module, RECORD_FUNCTION_GET, name, reply, sizeof *reply, SESSION_REPLY_BYTES - 8);
	if (error)
		return error;
	if (!params_are_sound(reply))
		return -GDEV_E_PROTOCOL;
	error = make_function(module, name, reply, function);
	return error ? error : function_limits_init(*function);
}

int gdev_module_function(
	struct gdev_module *module, const char *name, struct gdev_function **function)
{
	struct gdev_function *known;
	int error = gdev_session_error(module->session, NULL);

	if (error)
		return error;
	pthread_mutex_lock(&module->lock);
	list_for_each (known, &module->functions, link)
		if (!strcmp(known->info.name, name))
			goto found;
	error = ask_function(module, name, &known);
	if (error) {
		pthread_mutex_unlock(&module->lock);
		return error;
	}
	list_append(&module->functions, &known->link);
found:
	pthread_mutex_unlock(&module->lock);
	*function = known;
	return 0;
}

int gdev_module_function_name(
	struct gdev_module *module, uint32_t index, char name[GDEV_FUNCTION_NAME_MAX])
{
	struct record_query record = {
		.type = QUERY_FUNCTION_NAME,
		.argument = module->handle | (uint64_t)index << 32,
	};
	int error = gdev_session_error(module->session, NULL);

	memset(name, 0, GDEV_FUNCTION_NAME_MAX);
	if (!error)
		error = session_request(module->session, RECORD_QUERY, &record, sizeof record, NULL,
			0, name, 2, GDEV_FUNCTION_NAME_MAX - 1);
	return error;
}

static int ask_global(struct gdev_module *module, const char *name, struct reply_global *reply)
{
	int error = gdev_session_error(module->session, NULL);

	return error ? error
		     : look_up(module, RECORD_GLOBAL_GET, name, reply, sizeof *reply,
			       sizeof *reply);
}

int gdev_module_global(
	struct gdev_module *module, const char *name, uint64_t *address, uint64_t *bytes)
{
	struct reply_global reply;
	int error = ask_global(module, name, &reply);

	if (!error)
		error = memory_add_variable(module->session, module, reply.address, reply.bytes);
	if (error)
		return error;
	*address = reply.address;
	*bytes = reply.bytes;
	return 0;
}

bool gdev_module_wants_text(const struct gdev_module *module)
{
	return module->wants_text;
}

bool gdev_module_managed(struct gdev_module *module, uint64_t *address, uint64_t *bytes)
{
	*address = module->managed;
	*bytes = module->managed_bytes;
	return module->managed;
}

bool gdev_module_global_is_managed(struct gdev_module *module, const char *name)
{
	struct reply_global reply;

	return module->managed && !ask_global(module, name, &reply) && reply.managed;
}

const struct gdev_function_info *gdev_function_info(const struct gdev_function *function)
{
	return &function->info;
}

int gdev_function_occupancy(struct gdev_function *function, uint32_t block_threads,
	uint32_t dynamic_shared_bytes, uint32_t *blocks)
{
	struct record_query record = {
		.type = QUERY_OCCUPANCY,
		.reserved = dynamic_shared_bytes,
		.argument = function->handle | (uint64_t)block_threads << 32,
	};
	struct reply_occupancy reply;
	int error = session_request(function->module->session, RECORD_QUERY, &record, sizeof record,
		NULL, 0, &reply, sizeof reply, sizeof reply);

	if (error)
		return error;
	*blocks = reply.blocks;
	return 0;
}
