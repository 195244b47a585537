/* SPDX-License-Identifier: MIT
 *
 * Modules and functions of the NVIDIA backend: the driver's, with their layout read once.
 */
#include "device/cuda/cuda.h"

#include <elf.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "device/fatbin.h"
#include "device/preempt/preempt.h"
#include "gdev/error.h"
#include "proto/control.h"
#include "proto/fatbin.h"

#define DEFAULT_DYNAMIC_SHARED (48u << 10)
#define PORTABLE_CLUSTER 8 /* blocks; more must be allowed */
#define CLUSTERS_CAPABILITY 90
#define MEASURED_BYTES                                                                             \
	(64u << 10) /* of variables: from so many on the driver is asked what a module takes */

static bool is_fatbin(const void *image)
{
	uint32_t magic;

	memcpy(&magic, image, sizeof magic);
	return magic == FATBIN_MAGIC;
}

static bool is_binary(const void *image)
{
	return !memcmp(image, ELFMAG, SELFMAG) || is_fatbin(image);
}

/* Has the driver load the machine code, which becomes the module's image. */
static CUresult take_code(struct device_module *module, void **code, size_t length)
{
	int error = managed_find(module, *code, length);
	CUresult result;

	if (error)
		return error == -ENOMEM ? CUDA_ERROR_OUT_OF_MEMORY : CUDA_ERROR_NOT_SUPPORTED;
	result = module->space->device->driver->cuModuleLoadDataEx(
		&module->handle, *code, 0, NULL, NULL);
	if (result)
		return result;
	free(module->unpacked);
	module->chosen = false;
	module->image = module->unpacked = steal_pointer(code);
	module->image_length = length;
	return CUDA_SUCCESS;
}

/* With the kernels that leave between blocks, where there are some. */
static bool load_rewritten(struct device_module *module, struct device_log *log)
{
	const struct jit_source source = {module->rewritten->text};
	autofree void *code = NULL;
	size_t length;

	return !jit_compile(module->space->device, &source, true, log, &code, &length) &&
	       !take_code(module, &code, length);
}

/* Machine code with managed variables is changed: a copy of it. */
static CUresult load_binary(struct device_module *module)
{
	autofree void *copy = NULL;

	if (!module->managed.any)
		return module->space->device->driver->cuModuleLoadDataEx(
			&module->handle, module->image, 0, NULL, NULL);
	copy = calloc(1, module->image_length + 1); /* a NUL behind it */
	if (!copy)
		return CUDA_ERROR_OUT_OF_MEMORY;
	memcpy(copy, module->image, module->image_length);
	return take_code(module, &copy, module->image_length);
}

/* Machine code goes to the driver as it is; PTX through our compile cache, because the driver's own lies in
 * a home folder, which workers lack. What is loaded in the end takes the place of module->image. What the driver's linker
 * refuses (PTX of version 1, for one) its loader may take: that has the last word, and its result is not cached. */
static CUresult load(struct device_module *module, struct device_log *log)
{
	struct device *device = module->space->device;
	struct jit_source source = {module->image};
	autofree void *code = NULL, *runtime = NULL;
	CUresult result;
	size_t length;

	if (module->rewritten)
		return load_rewritten(module, log) ? CUDA_SUCCESS : CUDA_ERROR_NO_BINARY_FOR_GPU;
	if (is_binary(module->image))
		return load_binary(module);
	if (module->launches && !fatbin_runtime(module->whole, module->whole_length,
					device->capability, &runtime, &source.runtime_bytes))
		source.runtime = runtime;
	for (int cached = 1; cached >= 0; cached--) { /* a damaged entry is compiled again */
		free(steal_pointer(&code));
		result = jit_compile(device, &source, cached, log, &code, &length);
		if (!result)
			result = take_code(module, &code, length);
		if (result != CUDA_ERROR_INVALID_IMAGE && result != CUDA_ERROR_NO_BINARY_FOR_GPU)
			break;
	}
	if (result && result != CUDA_ERROR_NOT_SUPPORTED && !module->managed.any)
		return jit_load(device->driver, module->image, log, &module->handle);
	return result;
}

static void module_free(struct device_module *module)
{
	variables_free(module);
	managed_forget(module);
	preempt_module_destroy(module->rewritten);
	pthread_mutex_destroy(&module->lock);
	free(module->unpacked);
	free(module);
}

/* What the driver may do better than we do. It does not know how we put units into an image. */
static bool is_for_the_driver(const struct device_module *module, int error)
{
	return (error == -ENOENT || error == -GDEV_E_NO_BINARY || error == -GDEV_E_INVALID_IMAGE) &&
	       !fatbin_has_units(module->whole, module->whole_length);
}

/* The driver tells what is free for all processes: what another took or gave back meanwhile, a context perhaps, is not
 * the module's, which has its variables at least (cuda_module_bytes). */
static uint64_t taken_by(const struct device_module *module, uint64_t before, uint64_t after)
{
	uint64_t most = module->most_bytes;

	if (most < UINT64_MAX - DEVICE_CHUNK_MIN)
		most = align_up(most, DEVICE_CHUNK_MIN); /* as the driver takes it */
	return before > after ? min_of(before - after, most) : 0;
}

/* Learns what is in an image; `unpacked`: NULL, or the image, and the module's from here on. */
static int look_at(struct device_module *module, const void *image, size_t length, void *unpacked)
{
	free(module->unpacked);
	variables_free(module);
	managed_forget(module);
	module->defines_conditions = module->chosen = false;
	module->image = image;
	module->image_length = length;
	module->unpacked = unpacked;
	return variables_list(module, image, length);
}

/* Managed variables are found in machine code that is there, and not where the driver chooses or compiles; conditions of graphs
 * are set by PTX alone, whose text is changed. So for these PTX is taken, if there is some; what the compiler was to be called
 * with counts less. In machine code alone the function is the driver's, which takes a handle of gdev's for an illegal
 * address. */
static int take_text(struct device_module *module)
{
	const char *why;
	size_t length;
	char *text;
	int error = 0;

	if ((module->conditions && is_binary(module->image)) ||
		(module->managed.any && is_fatbin(module->image))) {
		if (fatbin_ptx(module->whole, module->whole_length,
			    module->space->device->capability, &text, &length, &why))
			return 0;
		error = look_at(module, text, length, text);
	}
	if (error || !module->conditions)
		return error;
	error = conditions_define(module->image, &text, &length);
	if (!error)
		error = look_at(module, text, length, text);
	module->defines_conditions = !error;
	return error;
}

/* The driver would read on behind what there is. */
static bool is_cut(const void *image, size_t length)
{
	struct fatbin_header header = {0};

	memcpy(&header, image, min_of(length, sizeof header));
	return header.magic == FATBIN_MAGIC &&
	       (header.header_bytes > length || header.bytes > length - header.header_bytes);
}

/* Rewrites the PTX of the image, which is then what is loaded. False: there is none, or none of its kernels can be, or they launch
 * others or set conditions of graphs, or it is for older devices than the machine code: what the program has for this one may be empty in it. */
static bool choose_rewritten(
	struct device_module *module, uint64_t kept_bytes, void **chosen, size_t *length)
{
	struct device *device = module->space->device;
	const char *why;
	char *text;

	if (!device->preempt ||
		fatbin_has_newer_code(module->whole, module->whole_length, device->capability) ||
		fatbin_ptx(module->whole, module->whole_length, device->capability, &text, length,
			&why))
		return false;
	if (!fatbin_launches(text, *length) && !condition_is_set_in(text) &&
		!preempt_rewrite(text, *length, kept_bytes, &module->rewritten) &&
		module->rewritten->text) {
		*chosen = text;
		return true;
	}
	preempt_module_destroy(steal_pointer(&module->rewritten));
	free(text);
	return false;
}

/* What blocks keep that leave in the middle is a variable that the program's text does not have. */
static void add_kept(struct device_module *module)
{
	uint64_t bytes = module->rewritten ? module->rewritten->kept_bytes : 0;

	module->variable_bytes += bytes;
	if (module->most_bytes < UINT64_MAX - bytes)
		module->most_bytes += bytes;
}

/* Of a fat binary only what this device can use is unpacked, looked at and loaded. kept_bytes: of preempt_rewrite(). */
static int choose(struct device_module *module, uint64_t kept_bytes)
{
	size_t length;
	void *chosen;
	int error = choose_rewritten(module, kept_bytes, &chosen, &length)
			    ? 0
			    : fatbin_choose(module->whole, module->whole_length,
				      module->space->device->capability, &chosen, &length);

	if (!error) {
		error = look_at(module, chosen, length, chosen);
		module->chosen = !module->rewritten;
	} else if (is_for_the_driver(module, error)) {
		error = look_at(module, module->whole, module->whole_length, NULL);
	}
	if (!error)
		error = take_text(module);
	add_kept(module);
	return error;
}

int cuda_module_load(struct device_space *space, const void *image, size_t length,
	struct device_log *log, struct device_module **out)
{
	uint64_t begin_ns = clock_now_ns();
	struct device_module *module;
	int error;

	if (is_cut(image, length))
		return -GDEV_E_INVALID_IMAGE;
	module = calloc(1, sizeof *module);
	if (!module)
		return -ENOMEM;
	module->space = space;
	module->whole = image;
	module->whole_length = length;
	list_init(&module->link);
	list_init(&module->functions);
	pthread_mutex_init(&module->lock, NULL);
	error = choose(module, preempt_kept_bytes(space->device));
	device_spent("unpacking a module", begin_ns);
	if (error)
		module_free(module);
	else
		*out = module;
	return error;
}

/* Its kernels leave between blocks, and not in the middle of one. */
int cuda_module_lighten(struct device_module *module)
{
	if (!module->rewritten || !module->rewritten->kept_bytes)
		return -ENOENT;
	preempt_module_destroy(steal_pointer(&module->rewritten));
	return choose(module, 0);
}

/* Loads another image, unless it would take more than has been paid for. `error`: why not what was there. */
static int load_instead(struct device_module *module, const void *image, size_t length,
	void *unpacked, int error, struct device_log *log)
{
	uint64_t paid_bytes = module->variable_bytes;
	int looked = look_at(module, image, length, unpacked);

	if (looked)
		return looked;
	return module->variable_bytes > paid_bytes ? error : driver_error(load(module, log));
}

/* The driver does not take what was rewritten: the module is loaded as without, from machine code if it has some. */
static int load_as_it_is(struct device_module *module, struct device_log *log)
{
	size_t length;
	void *chosen;
	int error = fatbin_choose(module->whole, module->whole_length,
		module->space->device->capability, &chosen, &length);

	preempt_module_destroy(steal_pointer(&module->rewritten));
	return error ? error : load_instead(module, chosen, length, chosen, -GDEV_E_NO_BINARY, log);
}

/* Whether what a module takes is known without measuring: for each of hundreds of modules the driver would be asked twice
 * what is free. A lazy driver loads the variables with a module, and they are in the machine code. Where they are few, it
 * makes no difference that the driver takes memory in larger pieces. Text may leave open how many there are. */
static bool is_known(const struct device_module *module)
{
	return module->space->device->lazy && is_binary(module->image) &&
	       module->keeper == KEPT_BY_NOTHING && !module->prints && !module->unknown &&
	       module->variable_bytes < MEASURED_BYTES;
}

static uint64_t free_bytes(const struct driver *driver, bool asked)
{
	size_t bytes = 0, total;

	if (asked)
		driver->cuMemGetInfo(&bytes, &total);
	return bytes;
}

/* The driver has it. What can be unpacked again takes no memory meanwhile. */
static void drop_unpacked(struct device_module *module)
{
	if (!module->chosen)
		return;
	free(steal_pointer(&module->unpacked));
	module->image = NULL;
}

static int unpack_again(struct device_module *module)
{
	int error = fatbin_choose(module->whole, module->whole_length,
		module->space->device->capability, &module->unpacked, &module->image_length);

	if (!error)
		module->image = module->unpacked;
	return error;
}

int cuda_module_open(struct device_module *module, struct device_log *log)
{
	struct device_space *space = module->space;
	const struct driver *driver = device_enter(space->device);
	uint64_t begin_ns = clock_now_ns();
	bool measured = !is_known(module);
	uint64_t free_before = free_bytes(driver, measured);
	int error;

	error = driver_error(load(module, log));
	if (error && !cuda_module_lighten(module))
		error = driver_error(load(module, log));
	if (error && module->rewritten)
		error = load_as_it_is(module, log);
	/* Where our choice is not the driver's, it has all to choose from. */
	if (module->image != module->whole && is_for_the_driver(module, error))
		error = load_instead(module, module->whole, module->whole_length, NULL, error, log);
	if (error)
		return error;
	drop_unpacked(module);
	module->open = true;
	module->bytes = taken_by(module, free_before, free_bytes(driver, measured));
	if (module->prints)
		atomic_store(&space->prints, true);
	pthread_mutex_lock(&space->lock);
	list_append(&space->modules, &module->link);
	pthread_mutex_unlock(&space->lock);
	device_spent("loading a module", begin_ns);
	return 0;
}

int module_load_again(struct device_module *module)
{
	const struct driver *driver = device_enter(module->space->device);
	struct device_function *function;
	int error = module->image ? 0 : unpack_again(module);
	CUresult result;

	if (error)
		return error;
	result = driver->cuModuleLoadDataEx(&module->handle, module->image, 0, NULL, NULL);
	drop_unpacked(module);
	list_for_each (function, &module->functions, link) {
		if (result)
			break;
		result = driver->cuModuleGetFunction(
			&function->handle, module->handle, function->name);
		function->dynamic_limit = DEFAULT_DYNAMIC_SHARED;
		function->large_clusters = 0;
	}
	return driver_error(result);
}

bool cuda_module_wants_text(struct device_module *module)
{
	return module->conditions && !module->defines_conditions;
}

int cuda_module_place(struct device_module *module, uint64_t address)
{
	const struct driver *driver = device_enter(module->space->device);
	int error = -EINVAL;

	/* Nothing of it has been launched, nor is in a graph. */
	if (module->handle && list_empty(&module->functions))
		error = managed_place(module, module->unpacked, module->image_length, address);
	if (error)
		return error;
	driver->cuModuleUnload(steal_pointer(&module->handle));
	return module_load_again(module);
}

void cuda_module_unload(struct device_module *module)
{
	struct device_function *function, *next;

	pthread_mutex_lock(&module->space->lock);
	list_remove(&module->link);
	pthread_mutex_unlock(&module->space->lock);
	batches_leave_module(module);
	list_for_each_safe (function, next, &module->functions, link)
		free(function);
	if (module->handle)
		device_enter(module->space->device)->cuModuleUnload(module->handle);
	module_free(module);
}

uint64_t cuda_module_bytes(struct device_module *module)
{
	return module->open ? max_of(module->bytes, module->variable_bytes)
			    : module->variable_bytes;
}

/* With module->lock. */
static struct device_function *find_function(struct device_module *module, const char *name)
{
	struct device_function *function;

	list_for_each (function, &module->functions, link)
		if (!strcmp(function->name, name))
			return function;
	return NULL;
}

/* The driver may load the function's code now: launches of others do not wait for that. */
static int get_function(
	struct device_module *module, const char *name, struct device_function **out)
{
	const struct driver *driver = device_enter(module->space->device);
	autofree struct device_function *made = NULL;
	struct device_function *found;
	uint64_t begin_ns;
	int error;

	pthread_mutex_lock(&module->lock);
	found = find_function(module, name);
	pthread_mutex_unlock(&module->lock);
	*out = found;
	if (found)
		return 0;
	made = calloc(1, sizeof *made + strlen(name) + 1);
	if (!made)
		return -ENOMEM;
	begin_ns = clock_now_ns();
	error = driver_error(driver->cuModuleGetFunction(&made->handle, module->handle, name));
	device_spent("finding a function", begin_ns);
	if (error)
		return error;
	strcpy(made->name, name);
	made->module = module;
	made->dynamic_limit = DEFAULT_DYNAMIC_SHARED;
	pthread_mutex_lock(&module->lock);
	found = find_function(module, name);
	if (!found) {
		found = steal_pointer(&made);
		list_append(&module->functions, &found->link);
	}
	pthread_mutex_unlock(&module->lock);
	*out = found;
	return 0;
}

static uint32_t attribute(struct device_function *function, CUfunction_attribute which)
{
	int value = 0;

	device_enter(function->module->space->device)
		->cuFuncGetAttribute(&value, which, function->handle);
	return (uint32_t)value;
}

/* What is left beside its static shared memory. */
static uint32_t max_dynamic_shared(const struct device_function *function, uint32_t shared_bytes)
{
	return function->module->space->device->most_shared - shared_bytes;
}

/* One that was made of the function. NULL: there is none. */
static struct device_function *get_made(struct device_module *module,
	struct device_function *function, const struct preempt_kernel *kernel, const char *suffix)
{
	struct device_function *made;
	autofree char *name = NULL;

	if (asprintf(&name, "%s%s", function->name, suffix) < 0 ||
		get_function(module, name, &made))
		return NULL;
	made->hidden_offset = kernel->param_offset;
	made->made = kernel;
	made->max_threads = attribute(made, CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK);
	made->max_shared =
		max_dynamic_shared(made, attribute(made, CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES));
	return made;
}

/* Without, the function goes as it is. */
static void get_others(struct device_module *module, struct device_function *function)
{
	const struct preempt_kernel *kernel =
		preempt_kernel_find(module->rewritten, function->name);

	if (!kernel || kernel->unfit || __atomic_load_n(&function->second, __ATOMIC_RELAXED))
		return;
	if (!kernel->unfit_loops)
		__atomic_store_n(&function->third,
			get_made(module, function, kernel, PREEMPT_LOOPS_SUFFIX), __ATOMIC_RELEASE);
	__atomic_store_n(&function->second, get_made(module, function, kernel, PREEMPT_SUFFIX),
		__ATOMIC_RELEASE);
}

int cuda_function_get(struct device_module *module, const char *name, struct device_function **out)
{
	int error = get_function(module, name, out);

	if (!error)
		get_others(module, *out);
	return error;
}

static bool ends_in(const char *name, const char *suffix)
{
	size_t length = strlen(name), end = strlen(suffix);

	return length > end && !strcmp(name + length - end, suffix);
}

static bool is_made(const char *name)
{
	return ends_in(name, PREEMPT_SUFFIX) || ends_in(name, PREEMPT_LOOPS_SUFFIX);
}

/* The name of the index-th that the program knows of. */
static CUresult name_of(struct device_module *module, const CUfunction *functions, unsigned count,
	unsigned index, const char **name)
{
	const struct driver *driver = module->space->device->driver;
	CUresult result = CUDA_ERROR_NOT_FOUND;

	for (unsigned i = 0; i < count; i++) {
		result = driver->cuFuncGetName(name, functions[i]);
		if (result)
			return result;
		if (!(module->rewritten && is_made(*name)) && !index--)
			return CUDA_SUCCESS;
	}
	return CUDA_ERROR_NOT_FOUND;
}

int cuda_function_name(struct device_module *module, unsigned index, char *name, size_t size)
{
	const struct driver *driver = device_enter(module->space->device);
	autofree CUfunction *functions = NULL;
	const char *found;
	unsigned count;
	CUresult result = driver->cuModuleGetFunctionCount(&count, module->handle);

	if (result)
		return driver_error(result);
	if (index >= count)
		return -GDEV_E_SYMBOL_NOT_FOUND;
	functions = calloc(count, sizeof *functions);
	if (!functions)
		return -ENOMEM;
	result = driver->cuModuleEnumerateFunctions(functions, count, module->handle);
	if (!result)
		result = name_of(module, functions, count, index, &found);
	if (result)
		return driver_error(result);
	if (strlen(found) >= size)
		return -ERANGE;
	strcpy(name, found);
	return 0;
}

/* The driver's extents are all 0, or none is. */
static void ask_for_cluster(struct device_function *function, struct device_function_info *info)
{
	info->needs_cluster = attribute(function, CU_FUNC_ATTRIBUTE_CLUSTER_SIZE_MUST_BE_SET);
	info->cluster[0] = attribute(function, CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_WIDTH);
	if (!info->cluster[0])
		return;
	info->cluster[1] = attribute(function, CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_HEIGHT);
	info->cluster[2] = attribute(function, CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_DEPTH);
}

void cuda_function_info(struct device_function *function, struct device_function_info *info)
{
	const struct driver *driver = device_enter(function->module->space->device);
	size_t offset, size;

	memset(info, 0, sizeof *info);
	while (!driver->cuFuncGetParamInfo(function->handle, info->param_count, &offset, &size)) {
		info->param_count++;
		info->param_bytes = (uint32_t)(offset + size);
	}
	info->max_threads = attribute(function, CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK);
	info->shared_bytes = attribute(function, CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES);
	info->const_bytes = attribute(function, CU_FUNC_ATTRIBUTE_CONST_SIZE_BYTES);
	info->local_bytes = attribute(function, CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES);
	info->registers = attribute(function, CU_FUNC_ATTRIBUTE_NUM_REGS);
	info->ptx_version = attribute(function, CU_FUNC_ATTRIBUTE_PTX_VERSION);
	info->binary_version = attribute(function, CU_FUNC_ATTRIBUTE_BINARY_VERSION);
	info->max_dynamic_shared_bytes = max_dynamic_shared(function, info->shared_bytes);
	if (function->module->space->device->capability >= CLUSTERS_CAPABILITY)
		ask_for_cluster(function, info);
}

void cuda_function_param(
	struct device_function *function, unsigned index, uint32_t *offset, uint32_t *bytes)
{
	size_t at = 0, size = 0;

	device_enter(function->module->space->device)
		->cuFuncGetParamInfo(function->handle, index, &at, &size);
	*offset = (uint32_t)at;
	*bytes = (uint32_t)size;
}

/* What the driver lets a launch have is what it was told before that a function may have. */
static CUresult allow(struct device_function *function, CUfunction_attribute what, uint32_t value,
	uint32_t *limit)
{
	CUresult result = device_enter(function->module->space->device)
				  ->cuFuncSetAttribute(function->handle, what, (int)value);

	if (!result)
		*limit = value;
	return result;
}

static CUresult allow_launch(
	struct device_function *function, uint32_t shared_bytes, uint32_t cluster)
{
	struct device_module *module = function->module;
	CUresult result = CUDA_SUCCESS;

	pthread_mutex_lock(&module->lock);
	if (shared_bytes > function->dynamic_limit)
		result = allow(function, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES,
			shared_bytes, &function->dynamic_limit);
	if (!result && cluster > PORTABLE_CLUSTER && !function->large_clusters)
		result = allow(function, CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED, 1,
			&function->large_clusters);
	pthread_mutex_unlock(&module->lock);
	return result;
}

CUresult cuda_launch_config(
	const struct device_launch *launch, struct launch_config *config, CUstream stream)
{
	const uint32_t *cluster = launch->cluster;

	config->config = (CUlaunchConfig){.gridDimX = launch->grid[0],
		.gridDimY = launch->grid[1],
		.gridDimZ = launch->grid[2],
		.blockDimX = launch->block[0],
		.blockDimY = launch->block[1],
		.blockDimZ = launch->block[2],
		.sharedMemBytes = launch->shared_bytes,
		.hStream = stream,
		.attrs = config->attributes};
	if (launch->cooperative) {
		CUlaunchAttribute *attribute = &config->attributes[config->config.numAttrs++];
		attribute->id = CU_LAUNCH_ATTRIBUTE_COOPERATIVE;
		attribute->value.cooperative = 1;
	}
	if (cluster[0]) {
		CUlaunchAttribute *attribute = &config->attributes[config->config.numAttrs++];
		attribute->id = CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION;
		attribute->value.clusterDim.x = cluster[0];
		attribute->value.clusterDim.y = cluster[1];
		attribute->value.clusterDim.z = cluster[2];
	}
	return allow_launch(
		launch->function, launch->shared_bytes, cluster[0] * cluster[1] * cluster[2]);
}

uint32_t cuda_function_occupancy(
	struct device_function *function, uint32_t block_threads, uint32_t shared_bytes)
{
	int blocks = 0;

	if (allow_launch(function, shared_bytes, 1))
		return 0;
	device_enter(function->module->space->device)
		->cuOccupancyMaxActiveBlocksPerMultiprocessor(
			&blocks, function->handle, (int)block_threads, shared_bytes);
	return (uint32_t)blocks;
}

int cuda_function_clusters(
	struct device_function *function, const struct device_launch *launch, uint32_t *count)
{
	const struct driver *driver = device_enter(function->module->space->device);
	struct launch_config config;
	int found = 0;
	CUresult result = cuda_launch_config(launch, &config, NULL);

	if (result)
		return driver_error(result);
	if (launch->cluster[0]) {
		result = driver->cuOccupancyMaxActiveClusters(
			&found, function->handle, &config.config);
	} else {
		result = allow_launch(function, 0, PORTABLE_CLUSTER + 1);
		if (!result)
			result = driver->cuOccupancyMaxPotentialClusterSize(
				&found, function->handle, &config.config);
	}
	*count = (uint32_t)found;
	return driver_error(result);
}

int cuda_tensor_map(
	struct device *device, const struct record_tensor_map *t, uint8_t map[TENSOR_MAP_BYTES])
{
	const struct driver *driver = device_enter(device);
	void *address = (void *)t->address;
	CUtensorMap made;
	CUresult result;

	if (t->mode == TENSOR_MAP_MOVED) {
		memcpy(&made, map, sizeof made); /* aligned as the driver wants it */
		result = driver->cuTensorMapReplaceAddress(&made, address);
	} else if (t->mode == TENSOR_MAP_TILED)
		result = driver->cuTensorMapEncodeTiled(&made, t->data_type, t->rank, address,
			t->dimensions, t->strides, t->box, t->element_strides, t->interleave,
			t->swizzle, t->l2_promotion, t->fill);
	else
		result = driver->cuTensorMapEncodeIm2col(&made, t->data_type, t->rank, address,
			t->dimensions, t->strides, t->lower, t->upper, t->channels, t->pixels,
			t->element_strides, t->interleave, t->swizzle, t->l2_promotion, t->fill);
	if (!result)
		memcpy(map, &made, sizeof made);
	return driver_error(result);
}

int cuda_global_get(
	struct device_module *module, const char *name, uint64_t *address, uint64_t *bytes)
{
	CUdeviceptr pointer;
	size_t size;
	CUresult result;

	if (managed_global(module, name, address, bytes))
		return 0;
	result = device_enter(module->space->device)
			 ->cuModuleGetGlobal(&pointer, &size, module->handle, name);
	if (result)
		return driver_error(result);
	*address = pointer;
	*bytes = size;
	/* From here on the program knows it, and it might be another in the next context. */
	pthread_mutex_lock(&module->space->lock);
	module->keeper = KEPT_BY_VARIABLES;
	pthread_mutex_unlock(&module->space->lock);
	return 0;
}
