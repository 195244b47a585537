/* SPDX-License-Identifier: MIT
 *
 * Libraries: code that belongs to no context. A library keeps its image and is loaded into a context as a
 * module when something of it is first used there. A kernel is a name in a library; what it is in a context
 * is remembered with it, so that launching it looks nothing up.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "lib/cuda/exports.h"
#include "lib/cuda/internal.h"

/* A library in a context. */
struct library_module {
	struct list link;
	CUcontext context;
	CUmodule module;
	bool retained; /* the primary context, for managed variables */
};

/* A context in which a thread is loading the library; on that thread's stack. */
struct loading {
	struct list link;
	CUcontext context;
};

/* Guards the list, and in it the lists of modules. */
static pthread_mutex_t *const libraries_lock = &process_locks[LOCK_LIBRARIES];
static struct list libraries = {&libraries, &libraries};

/* What every call on a library looks at first: that it was given sound arguments, and a library. */
static CUresult check_library(CUlibrary library, bool sound)
{
	TRY(initialised());
	if (!sound)
		return fail(CUDA_ERROR_INVALID_VALUE,
			"a pointer or name that must be given is NULL or empty");
	return handle_is(HANDLE_LIBRARY, library)
		       ? CUDA_SUCCESS
		       : fail(CUDA_ERROR_INVALID_HANDLE, "%p is no living library",
				 (void *)library);
}

/* ---- loading ---- */

static void init_locks(CUlibrary library)
{
	pthread_mutex_init(&library->lock, NULL);
	pthread_cond_init(&library->loaded, NULL);
	list_init(&library->loading);
}

static CUresult library_create(const struct image *image, bool preserved, CUlibrary *created)
{
	CUlibrary library = handle_create(HANDLE_LIBRARY, sizeof *library);
	CUresult result;

	if (!library)
		return no_memory();
	library->image = *image;
	result = image_keep(&library->image, preserved);
	if (result != CUDA_SUCCESS) {
		handle_destroy(HANDLE_LIBRARY, library);
		return result;
	}
	init_locks(library);
	list_init(&library->kernels);
	list_init(&library->modules);
	pthread_mutex_lock(libraries_lock);
	list_append(&libraries, &library->link);
	pthread_mutex_unlock(libraries_lock);
	*created = library;
	return CUDA_SUCCESS;
}

/* With the libraries' lock. */
static struct library_module *known_in(CUlibrary library, CUcontext context)
{
	struct library_module *known;

	list_for_each (known, &library->modules, link)
		if (known->context == context)
			return known;
	return NULL;
}

static CUmodule known_module(CUlibrary library, CUcontext context)
{
	struct library_module *known;
	CUmodule module;

	pthread_mutex_lock(libraries_lock);
	known = known_in(library, context);
	module = known ? known->module : NULL;
	pthread_mutex_unlock(libraries_lock);
	return module;
}

static bool has_managed(CUmodule module)
{
	uint64_t address, bytes;

	return gdev_module_managed(module->module, &address, &bytes);
}

/* A library has its managed variables once, wherever it is used; here each module has its own. So it must not be used in two
 * contexts if it has some: kernels of the one would not see what the other's have written. */
static bool add_module(CUlibrary library, struct library_module *added)
{
	bool apart;

	pthread_mutex_lock(libraries_lock);
	apart = list_empty(&library->modules) || !has_managed(added->module);
	if (apart)
		list_append(&library->modules, &added->link);
	pthread_mutex_unlock(libraries_lock);
	return apart;
}

static CUresult load_in(CUlibrary library, CUcontext context, unsigned option_count,
	CUjit_option *options, void **values, CUmodule *module)
{
	struct library_module *known = calloc(1, sizeof *known);
	CUresult result;

	if (!known)
		return no_memory();
	result = module_load(
		context, &library->image, option_count, options, values, &known->module);
	if (result != CUDA_SUCCESS) {
		free(known);
		return result;
	}
	known->context = context;
	known->module->library = library;
	if (!add_module(library, known)) {
		module_release(known->module);
		free(known);
		return fail(CUDA_ERROR_NOT_SUPPORTED,
			"the library has __managed__ variables, and is used in another context "
			"already: one context alone can have them");
	}
	*module = known->module;
	return CUDA_SUCCESS;
}

/* With the library's lock. */
static bool is_loading(CUlibrary library, CUcontext context)
{
	struct loading *loading;

	list_for_each (loading, &library->loading, link)
		if (loading->context == context)
			return true;
	return false;
}

/* The library's module in the context; loads it, which others that want it there wait for, and nobody else. */
static CUresult module_in(CUlibrary library, CUcontext context, unsigned option_count,
	CUjit_option *options, void **values, CUmodule *module)
{
	struct loading loading = {.context = context};
	CUresult result = CUDA_SUCCESS;

	pthread_mutex_lock(&library->lock);
	while (is_loading(library, context))
		pthread_cond_wait(&library->loaded, &library->lock);
	*module = known_module(library, context);
	if (!*module) {
		list_append(&library->loading, &loading.link);
		pthread_mutex_unlock(&library->lock);
		result = load_in(library, context, option_count, options, values, module);
		pthread_mutex_lock(&library->lock);
		list_remove(&loading.link);
		pthread_cond_broadcast(&library->loaded);
	}
	pthread_mutex_unlock(&library->lock);
	return result;
}

CUresult before_launch(CUcontext context, CUresult result)
{
	if (result == CUDA_ERROR_NOT_SUPPORTED)
		gdev_stream_fail(context->legacy->stream, -ENOTSUP);
	return result;
}

static CUresult module_now(CUlibrary library, CUmodule *module)
{
	CUcontext context;

	TRY(current_context(&context));
	return module_in(library, context, 0, NULL, NULL, module);
}

static bool is_preserved(const CUlibraryOption *options, void *const *values, unsigned count)
{
	for (unsigned i = 0; i < count; i++)
		if (options[i] == CU_LIBRARY_BINARY_IS_PRESERVED && values && values[i])
			return true;
	return false;
}

static CUresult library_load(CUlibrary *created, const struct image *image, bool preserved,
	CUjit_option *options, void **values, unsigned option_count)
{
	CUlibrary library;
	CUcontext context;
	CUmodule module;
	CUresult result = CUDA_SUCCESS;

	TRY(library_create(image, preserved, &library));
	/* A caller that wants the compiler's log wants it now. */
	if (option_count && current_context(&context) == CUDA_SUCCESS)
		result = module_in(library, context, option_count, options, values, &module);
	if (result != CUDA_SUCCESS)
		cuLibraryUnload(library);
	else
		*created = library;
	return result;
}

CUresult cuLibraryLoadData(CUlibrary *library, const void *code, CUjit_option *jit_options,
	void **jit_values, unsigned int jit_count, CUlibraryOption *options, void **values,
	unsigned int count)
{
	struct image image;

	TRY(initialised());
	if (!library || !code || (count && !options) ||
		(jit_count && (!jit_options || !jit_values)))
		return fail(CUDA_ERROR_INVALID_VALUE,
			"library, code, or a list whose count is not 0, is NULL");
	TRY(image_find(code, &image));
	return library_load(library, &image, is_preserved(options, values, count), jit_options,
		jit_values, jit_count);
}

CUresult cuLibraryLoadFromFile(CUlibrary *library, const char *path, CUjit_option *jit_options,
	void **jit_values, unsigned int jit_count, CUlibraryOption *options, void **values,
	unsigned int count)
{
	autofree void *contents = NULL;
	struct image image = {0};

	TRY(initialised());
	if (!library || !path)
		return fail(CUDA_ERROR_INVALID_VALUE, "library or path is NULL");
	TRY(file_read(path, &contents, &image.bytes));
	image.begin = contents;
	return library_load(library, &image, false, jit_options, jit_values, jit_count);
}

/* ---- going away ---- */

static void kernel_release(CUkernel kernel)
{
	struct binding *binding = kernel->bindings, *next;

	for (; binding; binding = next) {
		next = binding->next;
		free(binding);
	}
	free(kernel->name);
	handle_destroy(HANDLE_KERNEL, kernel);
}

/* With the libraries' lock: takes the modules of the library that are in the context, or all for NULL. */
static void take_modules(CUlibrary library, CUcontext context, struct list *taken)
{
	struct library_module *known, *next;

	list_for_each_safe (known, next, &library->modules, link)
		if (!context || known->context == context) {
			list_remove(&known->link);
			list_append(taken, &known->link);
		}
}

CUresult cuLibraryUnload(CUlibrary library)
{
	struct library_module *known, *next;
	CUkernel kernel, next_kernel;
	struct list modules;

	TRY(check_library(library, true));
	list_init(&modules);
	pthread_mutex_lock(libraries_lock);
	list_remove(&library->link);
	take_modules(library, NULL, &modules);
	pthread_mutex_unlock(libraries_lock);
	list_for_each_safe (known, next, &modules, link) {
		module_release(known->module);
		if (known->retained)
			cuDevicePrimaryCtxRelease_v2(known->context->device);
		free(known);
	}
	list_for_each_safe (kernel, next_kernel, &library->kernels, link)
		kernel_release(kernel);
	image_finish(&library->image);
	pthread_cond_destroy(&library->loaded);
	pthread_mutex_destroy(&library->lock);
	handle_destroy(HANDLE_LIBRARY, library);
	return CUDA_SUCCESS;
}

void libraries_leave_context(CUcontext context)
{
	struct library_module *known, *next;
	struct list modules;
	CUlibrary library;

	list_init(&modules);
	pthread_mutex_lock(libraries_lock);
	list_for_each (library, &libraries, link)
		take_modules(library, context, &modules);
	pthread_mutex_unlock(libraries_lock);
	list_for_each_safe (known, next, &modules, link) {
		module_release(known->module);
		free(known);
	}
}

/* The parent's libraries stay good: what they have loaded is in contexts that no call names any more. */
void libraries_forget(void)
{
	CUlibrary library;

	list_for_each (library, &libraries, link)
		init_locks(library);
}

/* ---- kernels ---- */

static CUresult kernel_create(CUlibrary library, const char *name, CUkernel *created)
{
	CUkernel kernel = handle_create(HANDLE_KERNEL, sizeof *kernel);

	if (!kernel)
		return no_memory();
	kernel->name = strdup(name);
	if (!kernel->name) {
		handle_destroy(HANDLE_KERNEL, kernel);
		return no_memory();
	}
	kernel->library = library;
	kernel->max_dynamic_shared = -1;
	list_append(&library->kernels, &kernel->link);
	*created = kernel;
	return CUDA_SUCCESS;
}

/* With the library's lock. */
static CUkernel known_kernel(CUlibrary library, const char *name)
{
	CUkernel known;

	list_for_each (known, &library->kernels, link)
		if (!strcmp(known->name, name))
			return known;
	return NULL;
}

/* Whether the kernel exists is known where there is a context to load it in. */
static CUresult kernel_check(CUlibrary library, const char *name)
{
	CUfunction function;
	CUcontext context;
	CUmodule module;

	if (current_context(&context) == CUDA_SUCCESS) {
		/* NVIDIA's runtime finds a kernel when it is launched first. */
		TRY(before_launch(context, module_in(library, context, 0, NULL, NULL, &module)));
		TRY(module_function(module, name, &function));
	}
	return CUDA_SUCCESS;
}

static CUresult kernel_find(CUlibrary library, const char *name, CUkernel *kernel)
{
	CUresult result = CUDA_SUCCESS;

	pthread_mutex_lock(&library->lock);
	*kernel = known_kernel(library, name);
	pthread_mutex_unlock(&library->lock);
	if (*kernel)
		return CUDA_SUCCESS;
	TRY(kernel_check(library, name));
	pthread_mutex_lock(&library->lock);
	*kernel = known_kernel(library, name); /* another thread's, by now */
	if (!*kernel)
		result = kernel_create(library, name, kernel);
	pthread_mutex_unlock(&library->lock);
	return result;
}

CUresult cuLibraryGetKernel(CUkernel *kernel, CUlibrary library, const char *name)
{
	CUkernel found;

	TRY(check_library(library, kernel && name && *name));
	TRY(kernel_find(library, name, &found));
	*kernel = found;
	return CUDA_SUCCESS;
}

/* Needs no lock. */
static bool is_bound(CUkernel kernel, CUcontext context, CUfunction *function)
{
	struct binding *binding = atomic_load_explicit(&kernel->bindings, memory_order_acquire);

	for (; binding; binding = binding->next)
		if (binding->context_id == context->id) {
			*function = binding->function;
			return true;
		}
	return false;
}

/* With the library's lock. */
static CUresult kernel_bind(CUkernel kernel, CUcontext context, CUfunction *function)
{
	struct binding *binding;

	if (kernel->max_dynamic_shared >= 0)
		(*function)->max_dynamic_shared = kernel->max_dynamic_shared;
	binding = malloc(sizeof *binding);
	if (!binding)
		return no_memory();
	*binding = (struct binding){kernel->bindings, context->id, *function};
	atomic_store_explicit(&kernel->bindings, binding, memory_order_release);
	return CUDA_SUCCESS;
}

CUresult kernel_function(CUkernel kernel, CUfunction *function)
{
	CUresult result = CUDA_SUCCESS;
	CUcontext context;
	CUmodule module;

	TRY(current_context(&context));
	if (is_bound(kernel, context, function))
		return CUDA_SUCCESS;
	TRY(module_in(kernel->library, context, 0, NULL, NULL, &module));
	TRY(module_function(module, kernel->name, function));
	pthread_mutex_lock(&kernel->library->lock);
	if (!is_bound(kernel, context, function)) /* by another thread meanwhile */
		result = kernel_bind(kernel, context, function);
	pthread_mutex_unlock(&kernel->library->lock);
	return result;
}

static CUresult check_kernel(CUkernel kernel)
{
	TRY(initialised());
	return handle_is(HANDLE_KERNEL, kernel)
		       ? CUDA_SUCCESS
		       : fail(CUDA_ERROR_INVALID_HANDLE, "%p is no living kernel", (void *)kernel);
}

CUresult cuKernelGetFunction(CUfunction *function, CUkernel kernel)
{
	CUcontext context;

	TRY(check_kernel(kernel));
	if (!function)
		return fail(CUDA_ERROR_INVALID_VALUE, "function is NULL");
	TRY(current_context(&context));
	return before_launch(context, kernel_function(kernel, function));
}

CUresult cuKernelGetLibrary(CUlibrary *library, CUkernel kernel)
{
	TRY(check_kernel(kernel));
	if (!library)
		return fail(CUDA_ERROR_INVALID_VALUE, "library is NULL");
	*library = kernel->library;
	return CUDA_SUCCESS;
}

CUresult cuKernelGetName(const char **name, CUkernel kernel)
{
	TRY(initialised());
	if (!kernel) /* as in CUDA */
		return fail(CUDA_ERROR_INVALID_VALUE, "kernel is NULL");
	TRY(check_kernel(kernel));
	if (!name)
		return fail(CUDA_ERROR_INVALID_VALUE, "name is NULL");
	*name = kernel->name;
	return CUDA_SUCCESS;
}

CUresult cuKernelGetAttribute(
	int *value, CUfunction_attribute attribute, CUkernel kernel, CUdevice device)
{
	struct device *found;
	CUfunction function;

	TRY(check_kernel(kernel));
	TRY(device_find(device, &found));
	if (!value)
		return fail(CUDA_ERROR_INVALID_VALUE, "value is NULL");
	TRY(kernel_function(kernel, &function));
	return function_attribute(function, attribute, value);
}

CUresult cuKernelSetAttribute(
	CUfunction_attribute attribute, int value, CUkernel kernel, CUdevice device)
{
	struct device *found;
	CUfunction function;
	CUcontext context;

	TRY(check_kernel(kernel));
	TRY(device_find(device, &found));
	if (attribute == CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES && value >= 0 &&
		current_context(&context) != CUDA_SUCCESS) {
		kernel->max_dynamic_shared = value;
		return CUDA_SUCCESS;
	}
	TRY(kernel_function(kernel, &function));
	TRY(function_set_attribute(function, attribute, value));
	if (attribute == CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES)
		kernel->max_dynamic_shared = value; /* in contexts to come, too */
	return CUDA_SUCCESS;
}

CUresult cuKernelSetCacheConfig(CUkernel kernel, CUfunc_cache config, CUdevice device)
{
	struct device *found;

	TRY(check_kernel(kernel));
	TRY(device_find(device, &found));
	return (unsigned)config <= CU_FUNC_CACHE_PREFER_EQUAL
		       ? CUDA_SUCCESS
		       : fail(CUDA_ERROR_INVALID_VALUE, "%d is no configuration of caches",
				 (int)config);
}

CUresult cuKernelGetParamInfo(CUkernel kernel, size_t index, size_t *offset, size_t *size)
{
	CUfunction function;

	TRY(initialised());
	if (!kernel) /* as in CUDA */
		return fail(CUDA_ERROR_INVALID_VALUE, "kernel is NULL");
	TRY(check_kernel(kernel));
	TRY(kernel_function(kernel, &function));
	return cuFuncGetParamInfo(function, index, offset, size);
}

/* ---- the rest of a library ---- */

CUresult cuLibraryGetModule(CUmodule *module, CUlibrary library)
{
	TRY(check_library(library, module));
	return module_now(library, module);
}

CUresult cuLibraryGetGlobal(
	CUdeviceptr *pointer, size_t *bytes, CUlibrary library, const char *name)
{
	CUmodule module;

	TRY(check_library(library, name && *name && (pointer || bytes)));
	TRY(module_now(library, &module));
	return cuModuleGetGlobal_v2(pointer, bytes, module, name);
}

/* NVIDIA's runtime wants to know its managed variables before there is a context. Then they are those of the
 * first device's primary context, which the library keeps. */
static CUresult module_of_managed(CUlibrary library, CUmodule *module)
{
	struct library_module *known;
	CUcontext context;
	CUresult result;
	bool kept;

	if (current_context(&context) == CUDA_SUCCESS)
		return module_now(library, module);
	TRY(cuDevicePrimaryCtxRetain(&context, 0));
	result = module_in(library, context, 0, NULL, NULL, module);
	pthread_mutex_lock(libraries_lock);
	known = known_in(library, context);
	kept = known && !known->retained;
	if (kept)
		known->retained = true;
	pthread_mutex_unlock(libraries_lock);
	if (!kept)
		cuDevicePrimaryCtxRelease_v2(0);
	return result;
}

CUresult cuLibraryGetManaged(
	CUdeviceptr *pointer, size_t *bytes, CUlibrary library, const char *name)
{
	CUmodule module;

	TRY(check_library(library, name && *name && (pointer || bytes)));
	TRY(module_of_managed(library, &module));
	if (!gdev_module_global_is_managed(module->module, name))
		return fail(CUDA_ERROR_NOT_FOUND, "%s is no __managed__ variable", name);
	return cuModuleGetGlobal_v2(pointer, bytes, module, name);
}

/* As the device's attribute says, there are none. */
CUresult cuLibraryGetUnifiedFunction(void **function, CUlibrary library, const char *name)
{
	TRY(check_library(library, function && name && *name));
	return fail(
		CUDA_ERROR_NOT_FOUND, "%s is no function that the host and devices share", name);
}

CUresult cuLibraryGetKernelCount(unsigned int *count, CUlibrary library)
{
	CUmodule module;

	TRY(check_library(library, count));
	TRY(module_now(library, &module));
	return module_count(module, count);
}

CUresult cuLibraryEnumerateKernels(CUkernel *kernels, unsigned int room, CUlibrary library)
{
	char name[GDEV_FUNCTION_NAME_MAX];
	CUmodule module;

	TRY(check_library(library, kernels && room));
	TRY(module_now(library, &module));
	for (unsigned i = 0; i < room; i++) {
		int error = gdev_module_function_name(module->module, i, name);
		if (error == -GDEV_E_SYMBOL_NOT_FOUND)
			break;
		TRY_GDEV(error, "the kernels cannot be named");
		TRY(cuLibraryGetKernel(&kernels[i], library, name));
	}
	return CUDA_SUCCESS;
}
