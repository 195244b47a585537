/* SPDX-License-Identifier: MIT
 *
 * See module.h. Loading is two jobs, as nothing is taken that has not been paid for: one copies the image out of shared
 * memory (so that what is compiled cannot change meanwhile) and learns how large its variables are; gdevd is asked; the
 * other takes their memory, of one module at a time. What that has taken beyond what was asked for is paid for, or given
 * back, then.
 */
#include "worker/module.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "gdev/error.h"
#include "worker/command.h"
#include "worker/core.h"

#define LOG_BYTES_MAX (1u << 20)
#define ROW_LAUNCH_NS (50 * NS_PER_US) /* a longer one does not wait for those that follow */

/* ---- unloading ---- */

static void destroy_module(struct module *module)
{
	struct function *function, *next;

	if (module->device)
		module->core->ops->module_unload(module->device);
	list_for_each_safe (function, next, &module->functions, link)
		free(function);
	image_finish(&module->image);
	free(module->variables);
	free(module);
}

static void unload_job(struct job *job)
{
	struct module *module = container_of(job, struct module, job);
	struct core *core = module->core;
	uint64_t bytes = module->bytes, image_bytes = module->image.mapped_bytes;

	destroy_module(module);
	core_lock(core);
	core->memory.host_bytes -= image_bytes;
	memory_uncharge(core, bytes);
	core_unlock(core);
}

void module_put(struct module *module)
{
	if (!--module->uses && module->unloading)
		service_job(module->core, LANE_LONG, &module->job, unload_job);
}

static void flight_over(struct barrier *barrier)
{
	module_put(container_of(barrier, struct module, flight));
}

/* With the lock. Nothing finds it or its parts from here on. */
static void start_unload(struct module *module)
{
	struct core *core = module->core;
	struct function *function;

	table_remove(&core->modules, module->handle);
	list_for_each (function, &module->functions, link)
		table_remove(&core->functions, function->handle);
	for (size_t i = 0; i < module->variable_count; i++)
		memory_remove(core, module->variables[i]);
	module->unloading = true;
	module->uses++;
	module->flight.passed = flight_over;
	barrier_start(core, &module->flight);
}

void module_unload(struct command *command)
{
	struct module *module =
		table_find(&command->core->modules, command->request.handle->handle);

	if (module)
		start_unload(module);
	command_answer(command, module ? 0 : -GDEV_E_INVALID_HANDLE, NULL, 0);
}

void modules_finish(struct core *core)
{
	for (uint32_t i = 0; i < core->modules.count; i++) {
		struct module *module = core->modules.slots[i].object;
		if (module)
			destroy_module(module);
	}
	table_finish(&core->modules);
	table_finish(&core->functions);
}

/* ---- loading ---- */

/* The bytes that the device gets cannot change any more. */
static int begin_loading(struct command *command, struct device_log *log)
{
	const struct record_module_load *load = command->request.load;
	struct module *module = command->module;
	struct core *core = command->core;
	struct image *image = &module->image;
	int error = 0;

	if (command->range)
		error = image_copy((const void *)(uintptr_t)load->image, load->image_bytes, image);
	if (!error)
		error = core->ops->module_load(
			core->space, image->bytes, image->length, log, &module->device);
	return error;
}

static int open_module(struct command *command, struct device_log *log)
{
	return command->core->ops->module_open(command->module->device, log);
}

/* Does it with a log for what the device says, which the client gets. */
static int do_logged(
	struct command *command, int (*step)(struct command *command, struct device_log *log))
{
	const struct record_module_load *load = command->request.load;
	struct device_log log = {.size = min_of(load->log_bytes, LOG_BYTES_MAX)};
	int error;

	if (log.size)
		log.text = calloc(1, log.size);
	if (!log.text)
		log.size = 0;
	error = step(command, &log);
	if (log.size && *log.text) /* else the words of the step before stay */
		memcpy((void *)(uintptr_t)load->log, log.text, strnlen(log.text, log.size - 1) + 1);
	free(log.text);
	return error;
}

/* With the lock. The module is there, or goes. */
static void end_loading(struct command *command, int error)
{
	struct module *module = command->module;
	struct core *core = command->core;
	struct reply_module reply = {.device_bytes = module->bytes};

	if (command->log_range)
		memory_unpin(core, command->log_range);
	if (!error)
		error = table_add(&core->modules, module, &module->handle);
	if (error) {
		module->unloading = true;
		service_job(core, LANE_LONG, &module->job, unload_job);
		command_answer(command, error, NULL, 0);
		return;
	}
	reply.module = module->handle;
	if (core->ops->module_managed_bytes)
		reply.variable_bytes = core->ops->module_managed_bytes(module->device);
	if (core->ops->module_wants_text)
		reply.wants_text = core->ops->module_wants_text(module->device);
	command_answer(command, 0, &reply, sizeof reply);
}

/* With the lock: pays for what the module's variables take beyond what has been paid for. */
static void pay_for_module(struct command *command,
	void (*decided)(struct core *core, struct charge *charge, int status))
{
	struct module *module = command->module;
	struct core *core = command->core;
	uint64_t bytes = core->ops->module_bytes(module->device);

	if (bytes < module->bytes) {
		memory_uncharge(core, module->bytes - bytes);
		module->bytes = bytes;
	}
	command->charge.bytes = bytes - module->bytes;
	command->charge.decided = decided;
	memory_charge(core, &command->charge);
}

static void open_job(struct job *job);

/* With the lock. One module at a time is opened: what the one before has taken is paid for then. */
static void begin_opening(struct command *command)
{
	struct core *core = command->core;
	bool alone = list_empty(&core->opening);

	list_append(&core->opening, &command->link);
	if (alone)
		service_job(core, LANE_LONG, &command->job, open_job);
}

static void end_opening(struct command *command, int error)
{
	struct core *core = command->core;
	struct command *next;

	list_remove(&command->link);
	end_loading(command, error);
	next = list_first(&core->opening, struct command, link);
	if (next)
		service_job(core, LANE_LONG, &next->job, open_job);
}

static void module_opened(struct core *core, struct charge *charge, int status)
{
	struct command *command = container_of(charge, struct command, charge);

	if (!status)
		command->module->bytes += charge->bytes;
	end_opening(command, status);
}

static void open_job(struct job *job)
{
	struct command *command = container_of(job, struct command, job);
	int error = do_logged(command, open_module);

	core_lock(command->core);
	if (error)
		end_opening(command, error);
	else
		pay_for_module(command, module_opened);
	core_unlock(command->core);
}

static void lighten_job(struct job *job);

static void module_paid(struct core *core, struct charge *charge, int status)
{
	struct command *command = container_of(charge, struct command, charge);

	if (!status)
		command->module->bytes = charge->bytes;
	if (status == -ENOMEM && core->ops->module_lighten)
		service_job(core, LANE_LONG, &command->job, lighten_job);
	else if (status || !core->ops->module_open)
		end_loading(command, status);
	else
		begin_opening(command);
}

/* There is no room for all that the module would take. */
static void lighten_job(struct job *job)
{
	struct command *command = container_of(job, struct command, job);
	struct core *core = command->core;
	int error = core->ops->module_lighten(command->module->device);

	core_lock(core);
	if (error)
		end_loading(command, error == -ENOENT ? -ENOMEM : error);
	else
		pay_for_module(command, module_paid);
	core_unlock(core);
}

static void load_job(struct job *job)
{
	struct command *command = container_of(job, struct command, job);
	int error = do_logged(command, begin_loading);

	core_lock(command->core);
	if (command->range) /* has been copied */
		memory_unpin(command->core, steal_pointer(&command->range));
	if (error)
		end_loading(command, error);
	else
		pay_for_module(command, module_paid);
	core_unlock(command->core);
}

static struct range *find_host(struct core *core, uint64_t address, uint64_t bytes)
{
	struct range *range = memory_find(core, address, bytes);

	return range && (range->kind == RANGE_HOST || range->kind == RANGE_STAGING) ? range : NULL;
}

/* Finds what the record names: memory that stays until the job is done, or an image that is the module's from here on. */
static int find_parts(struct command *command, struct image *image)
{
	const struct record_module_load *load = command->request.load;
	struct core *core = command->core;

	command->range = load->image ? find_host(core, load->image, load->image_bytes) : NULL;
	command->log_range = load->log_bytes ? find_host(core, load->log, load->log_bytes) : NULL;
	if ((load->image && !command->range) || (load->log_bytes && !command->log_range))
		return -EINVAL;
	return load->number ? image_take(core, load->number, image) : 0;
}

void module_load(struct command *command)
{
	struct module *module = calloc(1, sizeof *module);
	int error = module ? find_parts(command, &module->image) : -ENOMEM;

	if (error) {
		free(module);
		command_answer(command, error, NULL, 0);
		return;
	}
	module->core = command->core;
	list_init(&module->functions);
	command->module = module;
	if (command->range)
		memory_pin(command->range);
	if (command->log_range)
		memory_pin(command->log_range);
	service_job(command->core, LANE_LONG, &command->job, load_job);
}

/* The device memory that the variables took is given back where they were moved from it. It takes as long as loading the
 * code once more, in which no record is read: one might unload the module. */
void module_place(struct command *command)
{
	const struct record_module_place *place = command->request.place;
	struct core *core = command->core;
	struct module *module = table_find(&core->modules, place->module);
	int error = module ? -EINVAL : -GDEV_E_INVALID_HANDLE;
	struct range *range = NULL;
	uint64_t bytes = 0;

	if (module && core->ops->module_managed_bytes)
		bytes = core->ops->module_managed_bytes(module->device);
	if (bytes)
		range = find_host(core, place->address, bytes);
	if (range) {
		memory_pin(range);
		core_unlock(core);
		error = core->ops->module_place(module->device, place->address);
		core_lock(core);
		memory_unpin(core, range);
		bytes = min_of(core->ops->module_bytes(module->device), module->bytes);
		memory_uncharge(core, module->bytes - bytes);
		module->bytes = bytes;
	}
	command_answer(command, error, NULL, 0);
}

/* ---- what is in a module ---- */

/* The device is asked without the lock (core.h). The module stays: records alone unload it, and none is read meanwhile. */

static int add_function(struct module *module, struct device_function *device, const char *name,
	const struct device_function_info *info, struct function **result)
{
	struct core *core = module->core;
	struct function *function;
	int error;

	list_for_each (function, &module->functions, link) {
		if (function->device == device) {
			*result = function;
			return 0;
		}
	}
	function = calloc(1, sizeof *function + strlen(name) + 1);
	if (!function)
		return -ENOMEM;
	strcpy(function->name, name);
	error = table_add(&core->functions, function, &function->handle);
	if (error) {
		free(function);
		return error;
	}
	function->module = module;
	function->device = device;
	function->info = *info;
	list_append(&module->functions, &function->link);
	*result = function;
	return 0;
}

/* Unlocked. Also the parameters, where the answer will be. */
static int look_up(struct command *command, struct module *module, struct device_function **device,
	struct device_function_info *info)
{
	const struct device_ops *ops = command->core->ops;
	struct reply_function *reply = command_payload(command);
	int error = ops->function_get(module->device, command->request.tail, device);

	if (error)
		return error;
	ops->function_info(*device, info);
	for (uint32_t i = 0; i < min_of(info->param_count, REPLY_PARAMS_MAX); i++) {
		struct reply_param param;
		ops->function_param(*device, i, &param.offset, &param.size);
		reply->params[i] = param;
	}
	return 0;
}

static void answer_function(struct command *command, const struct function *function)
{
	const struct device_function_info *info = &function->info;
	struct reply_function *reply = command_payload(command);
	uint32_t count = min_of(info->param_count, REPLY_PARAMS_MAX);

	*reply = (struct reply_function){
		.function = function->handle,
		.param_count = count,
		.param_bytes = info->param_bytes,
		.max_threads = info->max_threads,
		.shared_bytes = info->shared_bytes,
		.const_bytes = info->const_bytes,
		.local_bytes = info->local_bytes,
		.registers = info->registers,
		.ptx_version = info->ptx_version,
		.binary_version = info->binary_version,
		.max_dynamic_shared_bytes = info->max_dynamic_shared_bytes,
		.cluster = {(uint8_t)info->cluster[0], (uint8_t)info->cluster[1],
			(uint8_t)info->cluster[2]},
		.flags = (uint8_t)((info->needs_cluster ? REPLY_FUNCTION_NEEDS_CLUSTER : 0) |
				   (info->launches_graphs ? REPLY_FUNCTION_LAUNCHES_GRAPHS : 0)),
	};
	command_answer_in_place(command, 0, sizeof *reply + count * sizeof reply->params[0]);
}

void module_function(struct command *command)
{
	struct core *core = command->core;
	struct module *module = table_find(&core->modules, command->request.lookup->module);
	struct device_function_info info;
	struct device_function *device;
	struct function *function;
	int error = -GDEV_E_INVALID_HANDLE;

	if (module) {
		core_unlock(core);
		error = look_up(command, module, &device, &info);
		core_lock(core);
	}
	if (!error)
		error = add_function(module, device, command->request.tail, &info, &function);
	if (error)
		command_answer(command, error, NULL, 0);
	else
		answer_function(command, function);
}

void module_function_name(struct command *command)
{
	const struct record_query *query = command->request.query;
	struct core *core = command->core;
	struct module *module = table_find(&core->modules, (uint32_t)query->argument);
	char name[RECORD_NAME_MAX];
	int error = -GDEV_E_INVALID_HANDLE;

	if (module && !core->ops->function_name)
		error = -ENOTSUP;
	else if (module) {
		core_unlock(core);
		error = core->ops->function_name(
			module->device, (uint32_t)(query->argument >> 32), name, sizeof name);
		core_lock(core);
	}
	command_answer(command, error, name, error ? 0 : (uint32_t)strlen(name) + 1);
}

/* The variable's memory becomes a range that copies may name. */
static int add_variable(struct module *module, uint64_t address, uint64_t bytes)
{
	struct range **variables, *range = memory_find(module->core, address, bytes);
	int error;

	if (range || !bytes)
		return 0;
	variables = realloc(module->variables, (module->variable_count + 1) * sizeof *variables);
	if (!variables)
		return -ENOMEM;
	module->variables = variables;
	error = memory_insert(module->core, RANGE_VARIABLE, address, bytes, &range);
	if (error)
		return error;
	range->ready = true;
	variables[module->variable_count++] = range;
	return 0;
}

void module_global(struct command *command)
{
	struct core *core = command->core;
	struct module *module = table_find(&core->modules, command->request.lookup->module);
	struct reply_global reply = {0};
	int error = -GDEV_E_INVALID_HANDLE;

	if (module) {
		core_unlock(core);
		error = core->ops->global_get(
			module->device, command->request.tail, &reply.address, &reply.bytes);
		if (!error && core->ops->global_is_managed)
			reply.managed =
				core->ops->global_is_managed(module->device, command->request.tail);
		core_lock(core);
	}
	if (!error)
		error = add_variable(module, reply.address, reply.bytes);
	command_answer(command, error, &reply, error ? 0 : sizeof reply);
}

void module_clusters(struct command *command)
{
	const struct record_launch *record = command->request.launch;
	struct core *core = command->core;
	struct function *function = table_find(&core->functions, record->function);
	struct reply_clusters reply = {0};
	struct device_launch launch = {
		.shared_bytes = record->shared_bytes,
		.cooperative = command->request.cooperative,
	};
	int error = -GDEV_E_INVALID_HANDLE;

	memcpy(launch.grid, record->grid, sizeof launch.grid);
	memcpy(launch.block, record->block, sizeof launch.block);
	memcpy(launch.cluster, command->request.cluster, sizeof launch.cluster);
	if (function && !core->ops->function_clusters)
		error = -ENOTSUP;
	else if (function) {
		launch.function = function->device;
		core_unlock(core);
		error = core->ops->function_clusters(function->device, &launch, &reply.count);
		core_lock(core);
	}
	command_answer(command, error, &reply, error ? 0 : sizeof reply);
}

void module_tensor_map(struct command *command)
{
	struct core *core = command->core;
	uint8_t map[TENSOR_MAP_BYTES];
	int error = -ENOTSUP;

	if (command->request.tensor_map->mode == TENSOR_MAP_MOVED)
		memcpy(map, command->request.tail, sizeof map);
	if (core->ops->tensor_map) {
		core_unlock(core);
		error = core->ops->tensor_map(core->device, command->request.tensor_map, map);
		core_lock(core);
	}
	command_answer(command, error, map, error ? 0 : sizeof map);
}

/* ---- functions ---- */

struct function *function_find(struct core *core, uint32_t handle)
{
	return table_find(&core->functions, handle);
}

int function_take(struct core *core, const struct record_launch *launch, struct function **taken)
{
	struct function *function = function_find(core, launch->function);

	if (!function)
		return -GDEV_E_INVALID_HANDLE;
	if (launch->param_bytes < function->info.param_bytes)
		return -GDEV_E_INVALID_LAUNCH;
	*taken = function;
	function->module->uses++;
	return 0;
}

static unsigned log2_of(uint32_t count)
{
	return 31 - (unsigned)__builtin_clz(count | 1);
}

/* What is known of launches of the function with about as many threads. */
static struct launch_time *time_of(const struct command *command)
{
	const struct device_launch *launch = &command->device.launch;
	unsigned size = 0;

	for (int i = 0; i < 3; i++)
		size += log2_of(launch->grid[i]) + log2_of(launch->block[i]);
	return &command->function->times[min_of(size, FUNCTION_SIZES - 1u)];
}

void launch_measured(const struct command *command, struct launch_time *time)
{
	uint64_t busy_ns = command->device.busy_ns, before_ns = time->measured_ns;
	uint64_t off_ns = busy_ns > before_ns ? busy_ns - before_ns : before_ns - busy_ns;

	time->differs_ns = (3 * time->differs_ns + off_ns) / 4;
	time->measured_ns = busy_ns ? busy_ns : 1;
}

void function_measured(const struct command *command)
{
	launch_measured(command, time_of(command));
}

void launch_from_record(const struct request *request, const struct function *function,
	struct device_launch *launch)
{
	const struct record_launch *record = request->launch;

	launch->function = function->device;
	memcpy(launch->grid, record->grid, sizeof launch->grid);
	memcpy(launch->block, record->block, sizeof launch->block);
	memcpy(launch->cluster, request->cluster, sizeof launch->cluster);
	launch->shared_bytes = record->shared_bytes;
	launch->cooperative = request->cooperative;
	launch->params = request->tail;
	launch->param_bytes = record->param_bytes;
}

void launch_estimate(struct command *command, const struct launch_time *time)
{
	command->resource = RESOURCE_COMPUTE;
	/* One that has never run may take any time. */
	command->estimate_ns =
		time->measured_ns ? time->measured_ns
				  : __atomic_load_n(&command->core->window_ns, __ATOMIC_RELAXED);
	command->doubt_ns = time->measured_ns ? time->differs_ns : command->estimate_ns;
}

int command_prepare_launch(struct command *command)
{
	const struct record_launch *record = command->request.launch;
	struct device_launch *launch = &command->device.launch;

	command->device.kind = DEVICE_LAUNCH;
	launch_from_record(&command->request, command->function, launch);
	launch_estimate(command, time_of(command));
	/* Launches of a row are reported together, when all of them are done: while others wait for the device there
	 * are no rows. A long launch does not need one. */
	launch->more = record->header.flags & RECORD_MORE &&
		       command->estimate_ns <= ROW_LAUNCH_NS &&
		       !grant_is_contended(command->core, RESOURCE_COMPUTE);
	return 0;
}
