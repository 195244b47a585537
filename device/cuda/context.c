/* SPDX-License-Identifier: MIT
 *
 * The device's primary context, which holds half a GiB of its memory: making it, and giving it back while its session is
 * idle. The driver takes along what belongs to a context: streams, modules, registrations of host memory. They are
 * made again from what we keep. Reserved addresses are the process's, and stay; of chunks there are none.
 */
#include "device/cuda/cuda.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "proto/control.h"

/* The next context of a device may have the handle of the one before: threads remember a number. */
static atomic_uint opened;

const struct driver *device_enter(struct device *device)
{
	static _Thread_local unsigned entered;
	unsigned number = atomic_load_explicit(&device->number, memory_order_acquire);

	if (number && entered != number) {
		device->driver->cuCtxSetCurrent(device->context);
		entered = number;
	}
	return device->driver;
}

/* The poller reads them. */
static void set_words(struct device *device, _Atomic uint64_t *words)
{
	pthread_mutex_lock(&device->poll_lock);
	device->words = words;
	pthread_mutex_unlock(&device->poll_lock);
}

static int create_words(struct device *device)
{
	const struct driver *driver = device->driver;
	void *words;
	CUresult result = driver->cuMemHostAlloc(&words, COMPLETION_WORDS * sizeof(uint64_t),
		CU_MEMHOSTALLOC_PORTABLE | CU_MEMHOSTALLOC_DEVICEMAP);

	if (result)
		return driver_error(result);
	result = driver->cuMemHostGetDevicePointer(&device->words_address, words, 0);
	if (result) {
		driver->cuMemFreeHost(words);
		return driver_error(result);
	}
	/* The poller may have queues yet that have got so far. */
	memcpy(words, device->words_before, sizeof device->words_before);
	atomic_store((_Atomic uint64_t *)words + START_WORD, atomic_load(&device->starts));
	set_words(device, words);
	return 0;
}

int context_open(struct device *device)
{
	const struct driver *driver = device->driver;
	CUresult result = driver->cuDevicePrimaryCtxSetFlags(device->ordinal, CU_CTX_SCHED_YIELD);
	int error;

	if (!result)
		result = driver->cuDevicePrimaryCtxRetain(&device->context, device->ordinal);
	if (result)
		return driver_error(result);
	atomic_store_explicit(
		&device->number, atomic_fetch_add(&opened, 1) + 1, memory_order_release);
	device_enter(device);
	error = create_words(device);
	if (!error)
		error = preempt_context_open(device);
	if (error)
		context_close(device);
	else if (!device->one_by_one)
		batches_open(device);
	return error;
}

void context_close(struct device *device)
{
	const struct driver *driver = device_enter(device);

	_Atomic uint64_t *words = device->words;

	batches_close(device);
	preempt_context_close(device);
	set_words(device, NULL);
	if (words) {
		memcpy(device->words_before, (const void *)words, sizeof device->words_before);
		driver->cuMemFreeHost((void *)words);
	}
	atomic_store(&device->number, 0);
	driver->cuCtxSetCurrent(NULL);
	driver->cuDevicePrimaryCtxRelease(device->ordinal);
}

bool context_is_open(struct device *device)
{
	return atomic_load_explicit(&device->number, memory_order_acquire) != 0;
}

/* ---- giving it back ---- */

uint32_t cuda_keeps(struct device_space *space)
{
	const struct device_module *module;
	uint32_t keeper = atomic_load(&space->array_count) || atomic_load(&space->texture_count)
				  ? KEPT_BY_TEXTURES
				  : KEPT_BY_NOTHING;

	pthread_mutex_lock(&space->lock);
	list_for_each (module, &space->modules, link)
		if (!keeper)
			keeper = module->keeper;
	pthread_mutex_unlock(&space->lock);
	return keeper;
}

static int save_module(const struct driver *driver, struct device_module *module, CUstream stream)
{
	for (size_t i = 0; i < module->variable_count; i++) {
		struct variable *variable = &module->variables[i];
		CUdeviceptr address;
		CUresult result = driver->cuModuleGetGlobal(
			&address, &variable->bytes, module->handle, variable->name);
		if (result == CUDA_ERROR_NOT_FOUND) { /* of another program of the image */
			variable->bytes = 0;
			continue;
		}
		if (result)
			return driver_error(result);
		variable->saved = malloc(variable->bytes);
		if (!variable->saved)
			return -ENOMEM;
		result = driver->cuMemcpyAsync(
			(uintptr_t)variable->saved, address, variable->bytes, stream);
		if (result)
			return driver_error(result);
	}
	return 0;
}

static void forget_saved(struct device_module *module)
{
	for (size_t i = 0; i < module->variable_count; i++)
		free(steal_pointer(&module->variables[i].saved));
}

/* The variables of all modules, to or from memory of ours, by a stream that is for this alone. */
static int move_variables(struct device_space *space,
	int (*move)(const struct driver *driver, struct device_module *module, CUstream stream))
{
	const struct driver *driver = device_enter(space->device);
	struct device_module *module;
	CUstream stream;
	int error = driver_error(
		driver->cuStreamCreateWithPriority(&stream, CU_STREAM_NON_BLOCKING, 0));

	if (error)
		return error;
	list_for_each (module, &space->modules, link)
		if (!error)
			error = move(driver, module, stream);
	if (!error)
		error = driver_error(driver->cuStreamSynchronize(stream));
	driver->cuStreamDestroy(stream);
	return error;
}

/* Takes apart what there is of it. */
static void take_apart(struct device_space *space)
{
	const struct driver *driver = device_enter(space->device);
	struct registration *registration;
	struct device_module *module;
	struct device_queue *queue;

	batches_close(space->device); /* before the functions that it has */
	list_for_each (queue, &space->queues, space_link)
		queue_unlist(queue); /* its word will be another's */
	list_for_each (queue, &space->queues, space_link)
		queue_close_stream(queue);
	list_for_each (module, &space->modules, link)
		if (module->handle)
			driver->cuModuleUnload(steal_pointer(&module->handle));
	list_for_each (registration, &space->registered, link)
		if (registration->done)
			driver->cuMemHostUnregister((void *)registration->address);
	list_for_each (registration, &space->registered, link)
		registration->done = false;
	context_close(space->device);
}

int cuda_retire(struct device_space *space)
{
	struct device_module *module;
	int error;

	pthread_mutex_lock(&space->lock);
	error = move_variables(space, save_module);
	if (!error)
		take_apart(space);
	else
		list_for_each (module, &space->modules, link)
			forget_saved(module);
	pthread_mutex_unlock(&space->lock);
	return error;
}

/* ---- having it again ---- */

static int restore_module(
	const struct driver *driver, struct device_module *module, CUstream stream)
{
	for (size_t i = 0; i < module->variable_count; i++) {
		const struct variable *variable = &module->variables[i];
		CUdeviceptr address;
		size_t bytes;
		CUresult result;
		if (!variable->bytes)
			continue;
		result =
			driver->cuModuleGetGlobal(&address, &bytes, module->handle, variable->name);
		if (!result && bytes != variable->bytes)
			result = CUDA_ERROR_INVALID_IMAGE;
		if (!result)
			result = driver->cuMemcpyAsync(
				address, (uintptr_t)variable->saved, bytes, stream);
		if (result)
			return driver_error(result);
	}
	return 0;
}

static int make_modules(struct device_space *space)
{
	struct device_module *module;
	int error = 0;

	list_for_each (module, &space->modules, link)
		if (!error)
			error = module_load_again(module);
	return error ? error : move_variables(space, restore_module);
}

static int make_queues(struct device_space *space)
{
	struct device_queue *queue;
	int error = 0;

	list_for_each (queue, &space->queues, space_link) {
		if (error)
			break;
		error = queue_open_stream(queue);
		/* The device will count on from there. */
		atomic_store(&space->device->words[queue->word], queue->issued);
	}
	return error;
}

static int register_again(struct device_space *space)
{
	struct registration *registration;
	int error = 0;

	list_for_each (registration, &space->registered, link) {
		if (error)
			break;
		error = host_register(space->device, registration->address, registration->bytes);
		registration->done = !error;
	}
	return error;
}

int cuda_revive(struct device_space *space)
{
	struct device_module *module;
	int error;

	pthread_mutex_lock(&space->lock);
	error = context_open(space->device);
	if (error)
		goto out;
	error = register_again(space);
	if (!error)
		error = make_queues(space);
	if (!error)
		error = make_modules(space);
	if (error)
		take_apart(space);
	else
		list_for_each (module, &space->modules, link)
			forget_saved(module);
out:
	pthread_mutex_unlock(&space->lock);
	return error;
}

/* ---- on another device ---- */

/* All that is kept is known by addresses, which are the process's, and by machine code, which needs the same model. */
int cuda_rehome(struct device_space *space, unsigned index)
{
	struct device *device = space->device;
	const struct driver *driver = device->driver;
	CUdevice ordinal;
	int error = driver_error(driver->cuDeviceGet(&ordinal, (int)index));

	if (error)
		return error;
	if (device_capability(driver, ordinal) != device->capability)
		return -EINVAL;
	device->ordinal = ordinal;
	return 0;
}
