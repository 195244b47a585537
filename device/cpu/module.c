/* SPDX-License-Identifier: MIT
 *
 * Modules, their functions, and the compiled code of each function for the block shapes it was
 * launched with. Code comes from the host's cache when it can: an entry is the object that the compiler made.
 */
#include "device/cpu/cpu.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#include <xxhash.h>

#include "base/cleanup.h"
#include "base/fd.h"
#include "base/log.h"
#include "device/cpu/checking/checking.h"
#include "device/fatbin.h"
#include "gdev/error.h"

#define LOG_BYTES 4096

static int ptx_error(int error)
{
	switch (error) {
	case -EINVAL:
		return -GDEV_E_INVALID_PTX;
	case -ENOTSUP:
		return -GDEV_E_UNSUPPORTED_PTX;
	default:
		return error;
	}
}

static void log_sentence(struct device_log *log, const char *sentence)
{
	if (log && log->size) {
		size_t length = min_of(strlen(sentence), log->size - 1);
		memcpy(log->text, sentence, length);
		log->text[length] = '\0';
	}
}

/* Where a compute capability was asked for, PTX for a newer one is refused. Without that newer PTX may be all that a library
 * has, and its instructions all known. */
static int check_target(const struct device_space *space, const struct ptx_module *ptx,
	bool is_text, struct device_log *log)
{
	const struct ptx_kernel *kernel = ptx_kernel_at(ptx, 0);
	char sentence[128];

	if (!space->capability || !kernel || kernel->target <= space->capability)
		return 0;
	snprintf(sentence, sizeof sentence,
		"the PTX is for sm_%u, and the device is of compute capability %u.%u",
		kernel->target, space->capability / 10, space->capability % 10);
	log_sentence(log, sentence);
	log_info("module: %s", sentence);
	return is_text ? -GDEV_E_INVALID_PTX : -GDEV_E_NO_BINARY;
}

static int parse(const struct device_space *space, const void *image, size_t length,
	struct device_log *log, struct device_module *module)
{
	struct ptx_log ptx_log = {log ? log->text : NULL, log ? log->size : 0, 0};
	autofree void *copy = malloc(length + 1);
	autofree char *text = NULL;
	size_t text_length;
	const char *why;
	int error;

	if (!copy)
		return -ENOMEM;
	memcpy(copy, image, length); /* the program may be changing it */
	error = fatbin_ptx(copy, length, cpu_capability(space), &text, &text_length, &why);
	if (error) {
		log_sentence(log, why);
		log_info("module: %s", why);
		return error;
	}
	cpu_dump_module(space->device, text, text_length);
	error = ptx_error(ptx_parse(text, text_length, &ptx_log, &module->ptx));
	if (error)
		return error;
	module->launches_graphs = fatbin_launches_graphs(text, text_length);
	error = check_target(
		space, module->ptx, text_length <= length && !memcmp(copy, text, text_length), log);
	if (error)
		ptx_module_destroy(module->ptx);
	return error;
}

static void add_variable(void *owner, uint64_t offset, uint64_t size)
{
	const struct device_module *module = owner;

	checking_add(
		module->space->checking, (uint64_t)(uintptr_t)module->globals + offset, size, true);
}

static void remove_variable(void *owner, uint64_t offset, uint64_t size)
{
	const struct device_module *module = owner;

	checking_remove(module->space->checking, (uint64_t)(uintptr_t)module->globals + offset);
}

/* Kernels of a checked space may access the variables from here on, or no more. */
static void variables_known(struct device_module *module, bool known)
{
	if (module->space->checking && module->globals)
		ptx_globals_visit(module->ptx, known ? add_variable : remove_variable, module);
}

/* Module variables are ordinary memory of this process, outside the arena, until they are placed in it. */
static int globals_measure(struct device_module *module)
{
	size_t bytes, align, page = (size_t)sysconf(_SC_PAGESIZE);

	ptx_globals_layout(module->ptx, &bytes, &align);
	if (align > page)
		return -ENOTSUP;
	module->globals_bytes = align_up(bytes, page);
	return 0;
}

/* They are paid for as device memory is, and not of what a worker may have of its own: so they are shared memory. */
int cpu_module_open(struct device_module *module, struct device_log *log)
{
	autoclose int fd = -1;

	if (!module->globals_bytes)
		return 0;
	fd = fd_shared_memory("gdev-variables", module->globals_bytes);
	if (fd < 0)
		return fd;
	module->own = mmap(NULL, module->globals_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (module->own == MAP_FAILED) {
		module->own = NULL;
		return -ENOMEM;
	}
	ptx_globals_init(module->ptx, module->own);
	module->globals = module->own;
	variables_known(module, true);
	return 0;
}

static void globals_destroy(struct device_module *module)
{
	if (module->own)
		munmap(module->own, module->globals_bytes);
}

int cpu_module_load(struct device_space *space, const void *image, size_t length,
	struct device_log *log, struct device_module **out)
{
	struct device_module *module = calloc(1, sizeof *module);
	size_t count;
	int error;

	if (!module)
		return -ENOMEM;
	module->space = space;
	module->uses = 1;
	error = atomic_load(&space->device->retired) ? -ENODEV : 0;
	if (error)
		goto err_free;
	error = parse(space, image, length, log, module);
	if (error)
		goto err_free;
	error = globals_measure(module);
	if (error)
		goto err_ptx;
	count = ptx_kernel_count(module->ptx);
	module->functions = calloc(count + 1, sizeof *module->functions);
	if (!module->functions) {
		error = -ENOMEM;
		goto err_ptx;
	}
	for (size_t i = 0; i < count; i++) {
		module->functions[i].module = module;
		module->functions[i].kernel = ptx_kernel_at(module->ptx, i);
	}
	*out = module;
	return 0;

err_ptx:
	ptx_module_destroy(module->ptx);
err_free:
	free(module);
	if (error == -ENOMEM)
		log_sentence(log, CPU_NO_MEMORY);
	return error;
}

void cpu_module_unload(struct device_module *module)
{
	cpu_module_put(module);
}

void cpu_module_put(struct device_module *module)
{
	size_t count = ptx_kernel_count(module->ptx);

	if (atomic_fetch_sub(&module->uses, 1) > 1)
		return;
	for (size_t i = 0; i < count; i++) {
		struct cpu_shape *shape = module->functions[i].shapes, *next;
		for (; shape; shape = next) {
			next = shape->next;
			ptx_unlink(shape->code);
			free(shape);
		}
	}
	free(module->functions);
	variables_known(module, false);
	globals_destroy(module);
	ptx_module_destroy(module->ptx);
	free(module);
}

uint64_t cpu_module_bytes(struct device_module *module)
{
	bool placed = __atomic_load_n(&module->globals, __ATOMIC_RELAXED) != module->own;

	return placed ? 0 : module->globals_bytes;
}

uint64_t cpu_module_managed_bytes(struct device_module *module)
{
	return ptx_globals_managed(module->ptx) ? module->globals_bytes : 0;
}

int cpu_module_place(struct device_module *module, uint64_t address)
{
	void *block = (void *)(uintptr_t)address;

	memset(block, 0, module->globals_bytes);
	ptx_globals_init(module->ptx, block);
	variables_known(module, false);
	__atomic_store_n(&module->globals, block, __ATOMIC_RELEASE);
	variables_known(module, true);
	/* It is paid for no more. A launch that still uses it finds what is there at the beginning. */
	madvise(module->own, module->globals_bytes, MADV_REMOVE);
	ptx_globals_init(module->ptx, module->own);
	return 0;
}

/* Says why, where the client looks if it asks. */
static int refuse(const struct device_module *module, const struct ptx_kernel *kernel)
{
	const struct device_host *host = module->space->device->host;
	char sentence[LOG_BYTES];

	snprintf(sentence, sizeof sentence, "kernel %s, line %u of the PTX: %s", kernel->name,
		kernel->refused_line, kernel->refused);
	if (host->explain)
		host->explain(host->owner, sentence);
	return -GDEV_E_UNSUPPORTED_PTX;
}

int cpu_function_get(struct device_module *module, const char *name, struct device_function **out)
{
	const struct ptx_kernel *kernel = ptx_kernel_find(module->ptx, name);

	if (kernel && kernel->refused)
		return refuse(module, kernel);
	for (struct device_function *f = module->functions; kernel && f->kernel; f++)
		if (f->kernel == kernel) {
			*out = f;
			return 0;
		}
	return -GDEV_E_SYMBOL_NOT_FOUND;
}

void cpu_function_info(struct device_function *function, struct device_function_info *info)
{
	const struct ptx_kernel *k = function->kernel;

	*info = (struct device_function_info){
		.param_count = k->param_count,
		.param_bytes = k->param_bytes,
		.max_threads = k->max_threads,
		.shared_bytes = k->shared_bytes,
		.const_bytes = k->const_bytes,
		.local_bytes = k->local_bytes,
		.registers = k->registers,
		.max_dynamic_shared_bytes =
			SHARED_BYTES_MAX - min_of(k->shared_bytes, SHARED_BYTES_MAX),
		.ptx_version = k->target,
		.cluster = {k->cluster[0], k->cluster[1], k->cluster[2]},
		.binary_version = cpu_capability(function->module->space),
		.launches_graphs = function->module->launches_graphs,
	};
}

void cpu_function_param(
	struct device_function *function, unsigned index, uint32_t *offset, uint32_t *bytes)
{
	*offset = function->kernel->params[index].offset;
	*bytes = function->kernel->params[index].size;
}

int cpu_function_name(struct device_module *module, unsigned index, char *name, size_t size)
{
	const struct ptx_kernel *kernel = ptx_kernel_at(module->ptx, index);

	if (!kernel)
		return -GDEV_E_SYMBOL_NOT_FOUND;
	if (strlen(kernel->name) >= size)
		return -ERANGE;
	strcpy(name, kernel->name);
	return 0;
}

uint32_t cpu_function_occupancy(
	struct device_function *function, uint32_t block_threads, uint32_t shared_bytes)
{
	const struct ptx_kernel *k = function->kernel;
	uint64_t shared = (uint64_t)k->shared_bytes + shared_bytes;
	uint32_t warps = (block_threads + 31) / 32, blocks;

	if (!warps || block_threads > k->max_threads || shared > SHARED_BYTES_MAX)
		return 0;
	blocks = min_of(64u / warps, 32u); /* 2048 threads and 32 blocks a multiprocessor */
	return min_of(
		blocks, (uint32_t)((228u << 10) / (shared + 1024))); /* 1 KiB is the system's */
}

int cpu_global_get(
	struct device_module *module, const char *name, uint64_t *address, uint64_t *bytes)
{
	uint64_t offset;

	if (ptx_global_find(module->ptx, name, &offset, bytes))
		return -GDEV_E_SYMBOL_NOT_FOUND;
	*address = (uint64_t)(uintptr_t)module->globals + offset;
	return 0;
}

bool cpu_global_is_managed(struct device_module *module, const char *name)
{
	return ptx_global_is_managed(module->ptx, name);
}

struct cpu_shape *cpu_shape_get(struct device_function *function, const uint32_t block[3])
{
	struct cpu_shape *shape;

	for (shape = function->shapes; shape; shape = shape->next)
		if (!memcmp(shape->block, block, sizeof shape->block))
			return shape;
	shape = calloc(1, sizeof *shape);
	if (!shape)
		return NULL;
	memcpy(shape->block, block, sizeof shape->block);
	list_init(&shape->waiting);
	shape->next = function->shapes;
	function->shapes = shape;
	return shape;
}

/* The key says everything that the code depends on. */
static void cache_key(const struct device_function *function, const uint32_t block[3],
	uint8_t key[CODE_KEY_BYTES])
{
	const char *name = function->kernel->name;
	struct {
		uint8_t module[16];
		XXH128_hash_t name;
		uint32_t block[3], checked;
	} all = {.name = XXH3_128bits(name, strlen(name)),
		.block = {block[0], block[1], block[2]},
		.checked = function->module->space->checking != NULL};
	XXH128_hash_t hash;

	ptx_module_hash(function->module->ptx, all.module);
	hash = XXH3_128bits(&all, sizeof all);
	memcpy(key, &hash, 16);
}

static int cache_load(const struct device_host *host, const uint8_t key[CODE_KEY_BYTES],
	const struct ptx_code **code)
{
	autofree void *object = NULL;
	size_t length;
	int error =
		host->cache_load ? host->cache_load(host->owner, key, &object, &length) : -ENOENT;

	return error ? error : ptx_link(object, length, code);
}

/* The launch has returned long ago, and its module's log as well. Of the compiler's words the first line. */
static void explain(
	const struct device_function *function, const uint32_t block[3], const char *said)
{
	const struct device_host *host = function->module->space->device->host;
	char sentence[LOG_BYTES];

	snprintf(sentence, sizeof sentence, "kernel %s, block %ux%ux%u: %.*s",
		function->kernel->name, block[0], block[1], block[2], (int)strcspn(said, "\n"),
		said);
	log_warning("%s", sentence);
	if (host->explain)
		host->explain(host->owner, sentence);
}

int cpu_shape_build(
	struct device_function *function, const uint32_t block[3], const struct ptx_code **code)
{
	const struct device *device = function->module->space->device;
	const struct device_host *host = device->host;
	char text[LOG_BYTES] = "";
	struct ptx_log log = {text, sizeof text, 0};
	autofree void *object = NULL;
	uint8_t key[CODE_KEY_BYTES];
	size_t bytes;
	int error;

	cache_key(function, block, key);
	if (!cpu_dumps(device) && !cache_load(host, key, code))
		return 0;
	cpu_dump_kernel(function, block);
	error = (function->module->space->checking ? ptx_compile_checked : ptx_compile)(
		function->module->ptx, function->kernel, block, &log, &object, &bytes);
	if (!error)
		error = ptx_link(object, bytes, code);
	if (error) {
		explain(function, block, text[0] ? text : strerror(-error));
		return ptx_error(error);
	}
	if (host->cache_store)
		host->cache_store(host->owner, key, object, bytes);
	return 0;
}
