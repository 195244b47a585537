/* SPDX-License-Identifier: MIT
 *
 * Modules: loading with JIT options and logs, functions, variables.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

#include "base/clock.h"
#include "lib/cuda/exports.h"
#include "lib/cuda/internal.h"

/* ---- JIT options ---- */

/* Where the program wants the compiler's messages. Sizes are in and out. */
struct jit_logs {
	char *info, *error;
	size_t info_bytes, error_bytes;
	void **info_size, **error_size, **wall_time;
};

static CUresult read_options(
	unsigned count, const CUjit_option *options, void **values, struct jit_logs *logs)
{
	*logs = (struct jit_logs){0};
	if (count && (!options || !values))
		return fail(CUDA_ERROR_INVALID_VALUE,
			"options or their values are NULL, and their count is not 0");
	for (unsigned i = 0; i < count; i++) {
		switch (options[i]) {
		case CU_JIT_INFO_LOG_BUFFER:
			logs->info = values[i];
			break;
		case CU_JIT_INFO_LOG_BUFFER_SIZE_BYTES:
			logs->info_bytes = (unsigned)(uintptr_t)values[i];
			logs->info_size = &values[i];
			break;
		case CU_JIT_ERROR_LOG_BUFFER:
			logs->error = values[i];
			break;
		case CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES:
			logs->error_bytes = (unsigned)(uintptr_t)values[i];
			logs->error_size = &values[i];
			break;
		case CU_JIT_WALL_TIME:
			logs->wall_time = &values[i];
			break;
		default: /* how to compile is the device's business */
			if ((unsigned)options[i] >= CU_JIT_NUM_OPTIONS)
				return fail(CUDA_ERROR_INVALID_VALUE, "%d is no option",
					(int)options[i]);
		}
	}
	return CUDA_SUCCESS;
}

/* Sets a log that nothing was written to. */
static void clear_log(char *log, size_t bytes, void **size)
{
	if (log && bytes)
		log[0] = '\0';
	if (size)
		*size = 0;
}

static void set_size(void **size, const char *log, size_t bytes)
{
	if (size && log && bytes)
		*size = (void *)strnlen(log, bytes);
}

/* The log's first line is said also if the caller asked for no log. */
static CUresult refused(int error, const char *log)
{
	char why[CALLS_REASON];

	if (!*log)
		return result_of(error, "the module cannot be loaded");
	snprintf(why, sizeof why, "%.*s", (int)strcspn(log, "\n"), log);
	logs_say(CU_LOG_LEVEL_ERROR, "cuModuleLoadData", why);
	return fail(cuda_result(error), "%s", why);
}

static int load_units(struct gdev_session *session, const struct image *image, char *log,
	size_t log_bytes, struct gdev_module **loaded)
{
	autofree void *memory = NULL;
	struct image units;

	if (image_of_units(image, &units, &memory) != CUDA_SUCCESS)
		return -ENOMEM;
	return gdev_module_load(session, units.begin, units.bytes, log, log_bytes, loaded);
}

/* Either what is linked in the image is for other devices, or nothing is linked: the device links the units, if they have
 * PTX for it. It does that also if what is linked is machine code, and is to be PTX. */
static int load(struct gdev_session *session, const struct image *image, char *log,
	size_t log_bytes, struct gdev_module **loaded)
{
	struct gdev_module *of_units;
	int error = image->kept
			    ? gdev_module_load_image(session, image->kept, log, log_bytes, loaded)
			    : gdev_module_load(
				      session, image->begin, image->bytes, log, log_bytes, loaded);

	if (!image->units)
		return error;
	if (!error && gdev_module_wants_text(*loaded) &&
		!load_units(session, image, log, log_bytes, &of_units)) {
		gdev_module_unload(*loaded);
		*loaded = of_units;
	}
	if (error != -GDEV_E_NO_BINARY && error != -GDEV_E_INVALID_IMAGE)
		return error;
	error = load_units(session, image, log, log_bytes, loaded);
	return error == -GDEV_E_NO_BINARY ? -ENOTSUP
					  : error; /* the other is how an empty image ends */
}

CUresult module_load(CUcontext context, const struct image *image, unsigned option_count,
	CUjit_option *options, void **values, CUmodule *created)
{
	struct gdev_module *loaded;
	struct jit_logs logs;
	uint64_t start = clock_now_ns();
	uint64_t address, managed_bytes;
	CUmodule module;
	int error;

	TRY(read_options(option_count, options, values, &logs));
	/* If loading fails, the compiler's words go to the error log if there is one. */
	char *log = logs.error ? logs.error : logs.info, own[1024] = "";
	size_t log_bytes = logs.error ? logs.error_bytes : logs.info_bytes;
	if (!log || !log_bytes) {
		log = own;
		log_bytes = sizeof own;
	}
	clear_log(logs.info, logs.info_bytes, logs.info_size);
	clear_log(logs.error, logs.error_bytes, logs.error_size);
	error = load(context->session, image, log, log_bytes, &loaded);
	if (calls_timed)
		calls_end("(of these, loading a module)", start);
	if (log != own)
		set_size(logs.error ? logs.error_size : logs.info_size, log, log_bytes);
	if (logs.wall_time) {
		float ms = (float)(clock_now_ns() - start) / 1e6f;
		memcpy(logs.wall_time, &ms, sizeof ms);
	}
	if (error)
		return refused(error, log);
	module = handle_create(HANDLE_MODULE, sizeof *module);
	if (!module) {
		gdev_module_unload(loaded);
		return no_memory();
	}
	module->context = context;
	module->module = loaded;
	pthread_mutex_init(&module->lock, NULL);
	list_init(&module->functions);
	list_init(&module->references);
	if (gdev_module_managed(loaded, &address, &managed_bytes))
		memory_remember(context, address, managed_bytes, ALLOCATION_VARIABLES, 0);
	pthread_mutex_lock(&context->lock);
	list_append(&context->modules, &module->link);
	pthread_mutex_unlock(&context->lock);
	*created = module;
	return CUDA_SUCCESS;
}

void module_release(CUmodule module)
{
	struct CUfunc_st *function, *next;
	CUcontext context = module->context;
	struct allocation variables;
	uint64_t address, bytes;

	pthread_mutex_lock(&context->lock);
	list_remove(&module->link);
	pthread_mutex_unlock(&context->lock);
	list_for_each_safe (function, next, &module->functions, link) {
		free(function->legacy);
		handle_destroy(HANDLE_FUNCTION, function);
	}
	references_release(module);
	if (gdev_module_managed(module->module, &address, &bytes))
		memory_forget(address, &variables);
	gdev_module_unload(module->module);
	pthread_mutex_destroy(&module->lock);
	handle_destroy(HANDLE_MODULE, module);
}

/* ---- loading ---- */

CUresult cuModuleLoadDataEx(CUmodule *module, const void *given, unsigned int option_count,
	CUjit_option *options, void **values)
{
	struct image image;
	CUcontext context;
	CUresult result;

	TRY(current_context(&context));
	if (!module || !given)
		return fail(CUDA_ERROR_INVALID_VALUE, "module or image is NULL");
	TRY(image_find(given, &image));
	TRY(image_keep(&image, true));
	result = module_load(context, &image, option_count, options, values, module);
	image_finish(&image);
	return result;
}

CUresult cuModuleLoadData(CUmodule *module, const void *image)
{
	return cuModuleLoadDataEx(module, image, 0, NULL, NULL);
}

CUresult cuModuleLoadFatBinary(CUmodule *module, const void *image)
{
	return cuModuleLoadDataEx(module, image, 0, NULL, NULL);
}

CUresult file_read(const char *path, void **contents, size_t *bytes)
{
	autoclose int fd = open(path, O_RDONLY | O_CLOEXEC);
	struct stat status;
	char *buffer;
	size_t done = 0;

	if (fd < 0 || fstat(fd, &status) || !S_ISREG(status.st_mode))
		return fail(CUDA_ERROR_FILE_NOT_FOUND, "%s cannot be opened, or is no file", path);
	buffer = malloc((size_t)status.st_size + 1);
	if (!buffer)
		return no_memory();
	while (done < (size_t)status.st_size) {
		ssize_t got = read(fd, buffer + done, (size_t)status.st_size - done);
		if (got <= 0)
			break;
		done += (size_t)got;
	}
	buffer[done] = '\0'; /* PTX in a file has no NUL at its end */
	*contents = buffer;
	*bytes = done + 1;
	return CUDA_SUCCESS;
}

CUresult cuModuleLoad(CUmodule *module, const char *path)
{
	autofree void *contents = NULL;
	struct image image = {0};
	CUcontext context;

	TRY(current_context(&context));
	if (!module || !path)
		return fail(CUDA_ERROR_INVALID_VALUE, "module or path is NULL");
	TRY(file_read(path, &contents, &image.bytes));
	image.begin = contents;
	return module_load(context, &image, 0, NULL, NULL, module);
}

CUresult cuModuleUnload(CUmodule module)
{
	TRY(initialised());
	if (!handle_is(HANDLE_MODULE, module) || module->library)
		return fail(CUDA_ERROR_INVALID_HANDLE,
			"%p is no living module, or a library's, which goes with that",
			(void *)module);
	module_release(module);
	return CUDA_SUCCESS;
}

CUresult cuModuleGetLoadingMode(CUmoduleLoadingMode *mode)
{
	if (!mode)
		return fail(CUDA_ERROR_INVALID_VALUE, "mode is NULL");
	*mode = CU_MODULE_LAZY_LOADING;
	return CUDA_SUCCESS;
}

/* ---- what is in a module ---- */

CUresult module_function(CUmodule module, const char *name, CUfunction *found)
{
	struct gdev_function *function;
	CUfunction handle;
	CUresult result = CUDA_SUCCESS;

	uint64_t begin_ns = calls_begin();
	int error = gdev_module_function(module->module, name, &function);

	if (begin_ns)
		calls_end("(of these, finding a function)", begin_ns);
	if (error == -GDEV_E_UNSUPPORTED_PTX)
		return fail(cuda_result(error), "the kernel %s cannot be compiled", name);
	TRY_GDEV(error, "there is no kernel %s", name);
	pthread_mutex_lock(&module->lock);
	list_for_each (handle, &module->functions, link)
		if (handle->function == function)
			goto out;
	handle = handle_create(HANDLE_FUNCTION, sizeof *handle);
	if (!handle) {
		result = no_memory();
		goto out;
	}
	handle->module = module;
	handle->function = function;
	handle->max_dynamic_shared = -1;
	handle->carveout = CU_SHAREDMEM_CARVEOUT_DEFAULT;
	list_append(&module->functions, &handle->link);
out:
	pthread_mutex_unlock(&module->lock);
	if (result == CUDA_SUCCESS)
		*found = handle;
	return result;
}

CUresult cuModuleGetFunction(CUfunction *function, CUmodule module, const char *name)
{
	TRY(initialised());
	if (!function || !name || !*name)
		return fail(
			CUDA_ERROR_INVALID_VALUE, "function is NULL, or the name NULL or empty");
	if (!handle_is(HANDLE_MODULE, module))
		return fail(CUDA_ERROR_INVALID_HANDLE, "%p is no living module", (void *)module);
	return module_function(module, name, function);
}

CUresult module_count(CUmodule module, unsigned *count)
{
	char name[GDEV_FUNCTION_NAME_MAX];
	int error;

	for (*count = 0; !(error = gdev_module_function_name(module->module, *count, name));
		(*count)++)
		;
	return error == -GDEV_E_SYMBOL_NOT_FOUND
		       ? CUDA_SUCCESS
		       : result_of(error, "the functions cannot be counted");
}

CUresult cuModuleGetFunctionCount(unsigned int *count, CUmodule module)
{
	TRY(initialised());
	if (!count)
		return fail(CUDA_ERROR_INVALID_VALUE, "count is NULL");
	if (!handle_is(HANDLE_MODULE, module))
		return fail(CUDA_ERROR_INVALID_HANDLE, "%p is no living module", (void *)module);
	return module_count(module, count);
}

CUresult cuModuleEnumerateFunctions(CUfunction *functions, unsigned int room, CUmodule module)
{
	char name[GDEV_FUNCTION_NAME_MAX];

	TRY(initialised());
	if (!functions || !room)
		return fail(CUDA_ERROR_INVALID_VALUE, "functions is NULL, or has no room");
	if (!handle_is(HANDLE_MODULE, module))
		return fail(CUDA_ERROR_INVALID_HANDLE, "%p is no living module", (void *)module);
	for (unsigned i = 0; i < room; i++) {
		int error = gdev_module_function_name(module->module, i, name);
		if (error == -GDEV_E_SYMBOL_NOT_FOUND)
			break;
		TRY_GDEV(error, "the functions cannot be named");
		TRY(module_function(module, name, &functions[i]));
	}
	return CUDA_SUCCESS;
}

CUresult cuModuleGetGlobal_v2(
	CUdeviceptr *pointer, size_t *bytes, CUmodule module, const char *name)
{
	uint64_t address, length;

	TRY(initialised());
	if (!name || !*name)
		return fail(CUDA_ERROR_INVALID_VALUE, "the name is NULL or empty");
	if (!handle_is(HANDLE_MODULE, module))
		return fail(CUDA_ERROR_INVALID_HANDLE, "%p is no living module", (void *)module);
	TRY_GDEV(gdev_module_global(module->module, name, &address, &length),
		"there is no variable %s", name);
	if (pointer)
		*pointer = address;
	if (bytes)
		*bytes = length;
	return CUDA_SUCCESS;
}
