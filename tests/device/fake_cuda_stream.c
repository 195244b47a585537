/* SPDX-License-Identifier: MIT
 *
 * The driver library that is made for tests (fake_cuda.c): streams, and what they execute.
 */
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "device/preempt/preempt.h"
#include "fake_cuda.h"

/* A stream has got on, or has got more. */
static pthread_cond_t moved = PTHREAD_COND_INITIALIZER;
static bool stopped; /* fake_stop() */
static atomic_uint writes, pending, launched_on;

enum work_kind { WORK_COPY, WORK_FILL, WORK_LAUNCH, WORK_WRITE, WORK_WAIT, WORK_MAP };

struct work {
	struct work *next;
	enum work_kind kind;
	CUDA_MEMCPY3D copy;
	uint64_t address, pitch, width, height, value;
	unsigned element;
	const struct CUfunc_st *function;
	uint32_t grid[3];
	char params[64];
};

struct CUstream_st {
	unsigned context, multiprocessors;
	pthread_t thread;
	struct work *first, **last;
	bool busy, stopping;
};

/* Host memory needs no registration to be copied: the driver would stage it. */
static char *bytes_of(uint64_t address, bool write, size_t *bytes)
{
	char *byte = fake_bytes_at(address, write, bytes);
	bool arena = address >= 1ull << 44 && address < 1ull << 46;

	return byte || arena ? byte : (char *)(uintptr_t)address;
}

static CUresult copy_row(uint64_t to, uint64_t from, size_t width)
{
	while (width) {
		size_t bytes = width;
		char *source = bytes_of(from, false, &bytes);
		char *target = bytes_of(to, true, &bytes);

		if (!source || !target)
			return CUDA_ERROR_ILLEGAL_ADDRESS;
		memmove(target, source, bytes);
		from += bytes;
		to += bytes;
		width -= bytes;
	}
	return CUDA_SUCCESS;
}

/* Each row by way of memory, at least one side of it from or to an array. */
static CUresult copy_array_rows(const CUDA_MEMCPY3D *c)
{
	char *row = malloc(c->WidthInBytes);
	CUresult result = CUDA_SUCCESS;
	size_t bytes = c->WidthInBytes;

	for (size_t z = 0; z < c->Depth && !result; z++)
		for (size_t y = 0; y < c->Height && !result; y++) {
			uint64_t from =
				(c->srcMemoryType == CU_MEMORYTYPE_DEVICE ? c->srcDevice
									  : (uintptr_t)c->srcHost) +
				(z * c->srcHeight + y) * c->srcPitch;
			uint64_t to =
				(c->dstMemoryType == CU_MEMORYTYPE_DEVICE ? c->dstDevice
									  : (uintptr_t)c->dstHost) +
				(z * c->dstHeight + y) * c->dstPitch;
			bool there = true;
			if (c->srcMemoryType == CU_MEMORYTYPE_ARRAY)
				there = fake_array_row(c->srcArray, c->srcXInBytes, c->srcY + y,
					c->srcZ + z, row, bytes, false);
			else
				result = copy_row((uintptr_t)row, from, bytes);
			if (c->dstMemoryType == CU_MEMORYTYPE_ARRAY)
				there &= fake_array_row(c->dstArray, c->dstXInBytes, c->dstY + y,
					c->dstZ + z, row, bytes, true);
			else if (!result)
				result = copy_row(to, (uintptr_t)row, bytes);
			if (!there)
				result = CUDA_ERROR_ILLEGAL_ADDRESS;
		}
	free(row);
	return result;
}

static CUresult execute_copy(const CUDA_MEMCPY3D *c)
{
	if (c->srcMemoryType == CU_MEMORYTYPE_ARRAY || c->dstMemoryType == CU_MEMORYTYPE_ARRAY)
		return copy_array_rows(c);
	uint64_t from =
		c->srcMemoryType == CU_MEMORYTYPE_DEVICE ? c->srcDevice : (uintptr_t)c->srcHost;
	uint64_t to =
		c->dstMemoryType == CU_MEMORYTYPE_DEVICE ? c->dstDevice : (uintptr_t)c->dstHost;

	CUresult result = CUDA_SUCCESS;

	for (size_t z = 0; z < c->Depth && !result; z++)
		for (size_t y = 0; y < c->Height && !result; y++)
			result = copy_row(to + (z * c->dstHeight + y) * c->dstPitch,
				from + (z * c->srcHeight + y) * c->srcPitch, c->WidthInBytes);
	return result;
}

static CUresult execute_fill(const struct work *w)
{
	for (uint64_t y = 0; y < w->height; y++)
		for (uint64_t x = 0; x < w->width * w->element; x++) {
			char *target = fake_byte_at(w->address + y * w->pitch + x, true);
			if (!target)
				return CUDA_ERROR_ILLEGAL_ADDRESS;
			*target = ((const char *)&w->value)[x % w->element];
		}
	return CUDA_SUCCESS;
}

static CUresult store(uint64_t address, const void *value, size_t bytes)
{
	for (size_t i = 0; i < bytes; i++)
		if (!fake_byte_at(address + i, true))
			return CUDA_ERROR_ILLEGAL_ADDRESS;
	if (bytes == sizeof(uint64_t)) /* somebody looks at it meanwhile */
		__atomic_store_n((uint64_t *)fake_byte_at(address, true), *(const uint64_t *)value,
			__ATOMIC_RELEASE);
	else
		memcpy(fake_byte_at(address, true), value, bytes);
	return CUDA_SUCCESS;
}

/* As the kernel of tests/integ/swap.c. */
static CUresult step(uint64_t at, const char *param)
{
	uint32_t words, value;

	memcpy(&words, param, sizeof words);
	for (uint32_t i = 0; i < words; i++) {
		char *word = fake_byte_at(at + i * sizeof value, true);
		if (!word)
			return CUDA_ERROR_ILLEGAL_ADDRESS;
		memcpy(&value, word, sizeof value);
		value = value * 3 + i;
		memcpy(word, &value, sizeof value);
	}
	return CUDA_SUCCESS;
}

/* As that of tests/cuda/kernels.ptx. */
static CUresult add(uint64_t at, const char *params)
{
	uint32_t words, more, value;

	memcpy(&words, params, sizeof words);
	memcpy(&more, params + sizeof words, sizeof more);
	for (uint32_t i = 0; i < words; i++) {
		char *word = fake_byte_at(at + i * sizeof value, true);
		if (!word)
			return CUDA_ERROR_ILLEGAL_ADDRESS;
		memcpy(&value, word, sizeof value);
		value += more;
		memcpy(word, &value, sizeof value);
	}
	return CUDA_SUCCESS;
}

static CUresult count(struct CUmod_st *module)
{
	for (unsigned i = 0; i < module->variable_count; i++)
		(*module->variables[i].value)++;
	return CUDA_SUCCESS;
}

/* The kernel takes so long. With fake_lock. */
static CUresult spin(uint64_t ns)
{
	struct timespec time = {(time_t)(ns / 1000000000u), (long)(ns % 1000000000u)};

	pthread_mutex_unlock(&fake_lock);
	nanosleep(&time, NULL);
	pthread_mutex_lock(&fake_lock);
	return CUDA_SUCCESS;
}

/* Waits until the program opens it. With fake_lock. */
static CUresult gate(uint64_t at)
{
	const char *flag;

	while ((flag = fake_byte_at(at, false)) && !__atomic_load_n(flag, __ATOMIC_ACQUIRE))
		spin(100000);
	return flag ? CUDA_SUCCESS : CUDA_ERROR_ILLEGAL_ADDRESS;
}

#define KEPT_BYTES (32u << 20) /* as preempt_context.c has them made */

/* The blocks of `tally` or `rounds`, one after the other; of the kernel that device/preempt makes of it, those that are not to
 * leave. With fake_lock. */
static CUresult tally(const struct work *w, bool rewritten, bool in_rounds)
{
	uint32_t blocks = w->grid[0] * w->grid[1] * w->grid[2], us, times = 1;
	struct preempt_launch hidden;
	uint64_t at;

	memcpy(&at, w->params, sizeof at);
	memcpy(&us, w->params + sizeof at, sizeof us);
	if (in_rounds)
		memcpy(&times, w->params + 12, sizeof times);
	memcpy(&hidden, w->params + 16, sizeof hidden);
	for (uint32_t b = 0, index = 0; b < blocks; b++, index = b) {
		size_t bytes = sizeof(uint64_t);
		uint32_t *count, *left;
		uint64_t *counter;
		if (rewritten) {
			counter = (uint64_t *)bytes_of(hidden.counter, true, &bytes);
			bytes = sizeof *left;
			left = (uint32_t *)bytes_of(hidden.left, true, &bytes);
			if (!counter || !left)
				return CUDA_ERROR_ILLEGAL_ADDRESS;
			index = (uint32_t)(*counter >> 32) - hidden.base;
			*counter += 1ull << 32;
			if ((uint32_t)*counter == hidden.generation) {
				++*left;
				continue;
			}
			if (index >= hidden.grid[0] * hidden.grid[1] * hidden.grid[2])
				return CUDA_ERROR_ILLEGAL_ADDRESS;
		}
		bytes = sizeof *count;
		count = (uint32_t *)bytes_of(at + index * sizeof *count, true, &bytes);
		if (!count)
			return CUDA_ERROR_ILLEGAL_ADDRESS;
		*count += times;
		if (us)
			spin(us * 1000ull * times);
		if (fake_broken)
			return fake_broken;
	}
	return CUDA_SUCCESS;
}

static uint32_t *word_at(uint64_t address)
{
	size_t bytes = sizeof(uint32_t);

	return (uint32_t *)bytes_of(address, true, &bytes);
}

/* What a block has of the module's: its state, and what it keeps. NULL: it is not in there. */
static uint32_t *state_of(const struct work *w, const struct preempt_loops_launch *hidden,
	uint32_t block, uint32_t **kept)
{
	struct CUmod_st *module = w->function->module;
	uint64_t state = hidden->offset + 8ull * block;
	uint64_t at = hidden->offset + hidden->states_bytes + (uint64_t)block * hidden->block_bytes;

	if (!module->kept)
		module->kept = calloc(1, KEPT_BYTES);
	if (!module->kept || state + 8 > hidden->offset + hidden->states_bytes ||
		at + hidden->block_bytes > KEPT_BYTES || hidden->block_bytes < sizeof(uint32_t))
		return NULL;
	*kept = (uint32_t *)(module->kept + at);
	return (uint32_t *)(module->kept + state);
}

/* One block of `rounds`, as device/preempt makes it: false: something is not where it should be. With fake_lock. */
static bool go_round(const struct work *w, const struct preempt_loops_launch *hidden,
	uint32_t block, uint32_t *count, uint32_t us, uint32_t rounds)
{
	uint32_t *kept = NULL, *state = state_of(w, hidden, block, &kept), point = 0, round = 0;
	volatile uint32_t *word = word_at(hidden->counter);
	uint32_t *left = word_at(hidden->left);

	if (!state || !kept || !word || !left)
		return false;
	if (hidden->again && state[0] != hidden->left_before)
		return true;
	if (hidden->again)
		point = state[1];
	if (point)
		round = *kept;
	for (; round < rounds && *word != hidden->generation && !fake_broken; round++, point = 1) {
		++*count;
		spin(us * 1000ull);
	}
	state[0] = ~hidden->generation;
	if (round == rounds)
		return true;
	*kept = round;
	state[0] = hidden->generation;
	state[1] = point;
	++*left;
	return true;
}

/* As device/preempt makes it. */
static CUresult rounds(const struct work *w)
{
	uint32_t blocks = w->grid[0] * w->grid[1] * w->grid[2], us, rounds;
	struct preempt_loops_launch hidden;
	uint64_t at;

	memcpy(&at, w->params, sizeof at);
	memcpy(&us, w->params + 8, sizeof us);
	memcpy(&rounds, w->params + 12, sizeof rounds);
	memcpy(&hidden, w->params + 16, sizeof hidden);
	for (uint32_t b = 0; b < blocks; b++) {
		uint32_t *count = word_at(at + b * sizeof *count);

		if (!count)
			return CUDA_ERROR_ILLEGAL_ADDRESS;
		if (!go_round(w, &hidden, b, count, us, rounds))
			return CUDA_ERROR_ILLEGAL_ADDRESS;
		if (fake_broken)
			return fake_broken;
	}
	return CUDA_SUCCESS;
}

/* Copies 32 bits to the address in the parameters. With fake_lock. */
static CUresult tell(uint64_t from, const char *params)
{
	size_t bytes = sizeof(uint32_t);
	const char *value = bytes_of(from, false, &bytes);
	uint64_t to;

	memcpy(&to, params, sizeof to);
	return value ? store(to, value, bytes) : CUDA_ERROR_ILLEGAL_ADDRESS;
}

/* `fetch` and `put`. */
static CUresult texel(const struct CUmod_st *module, const char *params, bool surface)
{
	uint64_t handle, at;
	uint32_t x, y, value = 0;
	size_t bytes = 0;
	char *texel;

	memcpy(&handle, params, sizeof handle);
	memcpy(&at, params + 8, sizeof at);
	memcpy(&x, params + 16, sizeof x);
	memcpy(&y, params + 20, sizeof y);
	if (!handle)
		handle = module->references[surface].object;
	texel = fake_texel(handle, surface, x, y, &bytes);
	if (!texel)
		return CUDA_ERROR_ILLEGAL_ADDRESS;
	bytes = bytes < sizeof value ? bytes : sizeof value;
	if (surface) {
		memcpy(texel, params + 24, bytes);
		return CUDA_SUCCESS;
	}
	memcpy(&value, texel, bytes);
	return store(at, &value, sizeof value);
}

static CUresult execute_launch(const struct work *w)
{
	const char *name = w->function->name;
	uint64_t at;

	memcpy(&at, w->params, sizeof at);
	if (!strcmp(name, "step"))
		return step(at, w->params + sizeof at);
	if (!strcmp(name, "set"))
		return store(at, w->params + sizeof at, sizeof(uint32_t));
	if (!strcmp(name, "tally") || !strcmp(name, "tally" PREEMPT_SUFFIX))
		return tally(w, strcmp(name, "tally"), false);
	if (!strcmp(name, "rounds") || !strcmp(name, "rounds" PREEMPT_SUFFIX))
		return tally(w, strcmp(name, "rounds"), true);
	if (!strcmp(name, "rounds" PREEMPT_LOOPS_SUFFIX))
		return rounds(w);
	if (!strcmp(name, "gdev_tell")) /* preempt.c's */
		return tell(at, w->params + sizeof at);
	if (!strcmp(name, "spin"))
		return spin(at);
	if (!strcmp(name, "add"))
		return add(at, w->params + sizeof at);
	if (!strcmp(name, "fetch") || !strcmp(name, "put"))
		return texel(w->function->module, w->params, !strcmp(name, "put"));
	if (!strcmp(name, "gate"))
		return gate(at);
	if (!strcmp(name, "count"))
		return count(w->function->module);
	if (!strcmp(name, "trap") || !strcmp(name, "trap" PREEMPT_SUFFIX))
		return CUDA_ERROR_ILLEGAL_INSTRUCTION;
	if (!strcmp(name, "assert"))
		return CUDA_ERROR_ASSERT;
	if (!strcmp(name, "stray"))
		return CUDA_ERROR_ILLEGAL_ADDRESS;
	return CUDA_SUCCESS;
}

static CUresult execute(const struct work *w)
{
	switch (w->kind) {
	case WORK_COPY:
		return execute_copy(&w->copy);
	case WORK_FILL:
		return execute_fill(w);
	case WORK_LAUNCH:
		return execute_launch(w);
	case WORK_WAIT:
		return CUDA_SUCCESS;
	case WORK_MAP:
		fake_map_now((struct fake_mapping *)(uintptr_t)w->address);
		return CUDA_SUCCESS;
	default:
		return store(w->address, &w->value, w->element);
	}
}

/* With fake_lock. Whether it is not its time yet. */
static bool must_wait(const struct work *work)
{
	if (work->kind == WORK_LAUNCH)
		return !strcmp(work->function->name, "endless");
	return work->kind == WORK_WAIT &&
	       __atomic_load_n((uint64_t *)fake_byte_at(work->address, false), __ATOMIC_ACQUIRE) <
		       work->value;
}

static void *stream_main(void *argument)
{
	struct CUstream_st *stream = argument;

	pthread_mutex_lock(&fake_lock);
	while (!stream->stopping) {
		struct work *work = stream->first;
		if (!work || fake_broken || stopped || must_wait(work)) {
			pthread_cond_wait(&moved, &fake_lock);
			continue;
		}
		CUresult result = work->kind >= WORK_WRITE ? CUDA_SUCCESS : fake_trip("work");
		if (!result)
			result = execute(work);
		if (result) {
			fake_broken = result;
		} else {
			stream->first = work->next;
			pending--;
			if (!stream->first)
				stream->last = &stream->first;
			free(work);
		}
		pthread_cond_broadcast(&moved);
	}
	pthread_mutex_unlock(&fake_lock);
	return NULL;
}

static bool side_is_of_one_kind(const CUDA_MEMCPY3D *c, uint64_t device, const void *host,
	CUmemorytype type, size_t pitch, size_t rows)
{
	uint64_t last = ((c->Depth - 1) * rows + c->Height - 1) * pitch;

	if (type == CU_MEMORYTYPE_ARRAY)
		return true; /* elements, which misses_elements() looks at */
	return fake_is_of_one_kind(
		type == CU_MEMORYTYPE_DEVICE ? device : (uintptr_t)host, last + c->WidthInBytes);
}

/* CUDA's documentation does not say what becomes of such a copy. Here nothing does, without an error. */
static bool misses_elements(const struct work *w)
{
	const CUDA_MEMCPY3D *c = &w->copy;
	bool misses;

	if (w->kind != WORK_COPY)
		return false;
	pthread_mutex_lock(&fake_lock);
	misses = (c->srcMemoryType == CU_MEMORYTYPE_ARRAY &&
			 !fake_array_has(c->srcArray, c->srcXInBytes, c->srcY, c->srcZ, c)) ||
		 (c->dstMemoryType == CU_MEMORYTYPE_ARRAY &&
			 !fake_array_has(c->dstArray, c->dstXInBytes, c->dstY, c->dstZ, c));
	pthread_mutex_unlock(&fake_lock);
	return misses;
}

/* The vendor's driver refuses what reaches from one kind of memory into another. */
static bool reaches_over(const struct work *w)
{
	const CUDA_MEMCPY3D *c = &w->copy;
	bool one = true;

	pthread_mutex_lock(&fake_lock);
	if (w->kind == WORK_FILL && w->width && w->height)
		one = fake_is_of_one_kind(
			w->address, (w->height - 1) * w->pitch + w->width * w->element);
	if (w->kind == WORK_COPY && c->WidthInBytes && c->Height && c->Depth)
		one = side_is_of_one_kind(c, c->srcDevice, c->srcHost, c->srcMemoryType,
			      c->srcPitch, c->srcHeight) &&
		      side_is_of_one_kind(c, c->dstDevice, c->dstHost, c->dstMemoryType,
			      c->dstPitch, c->dstHeight);
	pthread_mutex_unlock(&fake_lock);
	return !one;
}

static CUresult enqueue(struct CUstream_st *stream, const struct work *wanted)
{
	struct work *work;

	if (stream->context != fake_context_number())
		return CUDA_ERROR_INVALID_HANDLE;
	if (reaches_over(wanted))
		return CUDA_ERROR_INVALID_VALUE;
	if (misses_elements(wanted))
		return CUDA_SUCCESS;
	work = malloc(sizeof *work);
	*work = *wanted;
	work->next = NULL;
	pthread_mutex_lock(&fake_lock);
	pending++;
	*stream->last = work;
	stream->last = &work->next;
	pthread_cond_broadcast(&moved);
	pthread_mutex_unlock(&fake_lock);
	return CUDA_SUCCESS;
}

CUresult fake_stream_create(CUstream *out, unsigned multiprocessors)
{
	struct CUstream_st *stream = calloc(1, sizeof *stream);

	stream->multiprocessors = multiprocessors;
	stream->context = fake_context_number();
	stream->last = &stream->first;
	if (pthread_create(&stream->thread, NULL, stream_main, stream)) {
		free(stream);
		return CUDA_ERROR_OUT_OF_MEMORY;
	}
	*out = stream;
	return CUDA_SUCCESS;
}

CUresult cuStreamCreateWithPriority(CUstream *out, unsigned int flags, int priority)
{
	ENTER();
	return fake_stream_create(out, 0);
}

CUresult cuStreamDestroy(CUstream stream)
{
	struct work *work;

	pthread_mutex_lock(&fake_lock);
	while (stream->first && !fake_broken)
		pthread_cond_wait(&moved, &fake_lock);
	stream->stopping = true;
	pthread_cond_broadcast(&moved);
	pthread_mutex_unlock(&fake_lock);
	pthread_join(stream->thread, NULL);
	while ((work = stream->first)) {
		stream->first = work->next;
		free(work);
	}
	free(stream);
	return fake_enter(__func__);
}

CUresult cuStreamQuery(CUstream stream)
{
	CUresult result;

	ENTER();
	pthread_mutex_lock(&fake_lock);
	result = stream->first ? CUDA_ERROR_NOT_READY : CUDA_SUCCESS;
	pthread_mutex_unlock(&fake_lock);
	return result;
}

CUresult cuStreamSynchronize(CUstream stream)
{
	ENTER();
	pthread_mutex_lock(&fake_lock);
	while (stream->first && !fake_broken)
		pthread_cond_wait(&moved, &fake_lock);
	pthread_mutex_unlock(&fake_lock);
	return fake_broken;
}

CUresult cuStreamWriteValue64(CUstream stream, CUdeviceptr addr, uint64_t value, unsigned int flags)
{
	ENTER();
	writes++;
	return enqueue(stream, &(struct work){.kind = WORK_WRITE,
				       .address = addr,
				       .value = value,
				       .element = sizeof value});
}

CUresult cuStreamWaitValue64(CUstream stream, CUdeviceptr addr, uint64_t value, unsigned int flags)
{
	ENTER();
	if (flags != CU_STREAM_WAIT_VALUE_GEQ)
		return CUDA_ERROR_NOT_SUPPORTED;
	return enqueue(stream, &(struct work){.kind = WORK_WAIT, .address = addr, .value = value});
}

CUresult cuStreamWriteValue32(CUstream stream, CUdeviceptr addr, uint32_t value, unsigned int flags)
{
	ENTER();
	return enqueue(stream, &(struct work){.kind = WORK_WRITE,
				       .address = addr,
				       .value = value,
				       .element = sizeof value});
}

CUresult cuMemcpyAsync(CUdeviceptr dst, CUdeviceptr src, size_t bytes, CUstream stream)
{
	ENTER();
	return enqueue(stream, &(struct work){.kind = WORK_COPY,
				       .copy = {.srcMemoryType = CU_MEMORYTYPE_DEVICE,
					       .dstMemoryType = CU_MEMORYTYPE_DEVICE,
					       .srcDevice = src,
					       .dstDevice = dst,
					       .WidthInBytes = bytes,
					       .Height = 1,
					       .Depth = 1}});
}

CUresult cuMemcpy3DAsync(const CUDA_MEMCPY3D *copy, CUstream stream)
{
	ENTER();
	return enqueue(stream, &(struct work){.kind = WORK_COPY, .copy = *copy});
}

CUresult fake_map_later(CUstream stream, struct fake_mapping *mapping)
{
	return enqueue(stream, &(struct work){.kind = WORK_MAP, .address = (uintptr_t)mapping});
}

static CUresult fill(CUstream stream, CUdeviceptr at, size_t pitch, uint64_t value,
	unsigned element, size_t width, size_t height)
{
	return enqueue(stream, &(struct work){.kind = WORK_FILL,
				       .address = at,
				       .pitch = pitch,
				       .value = value,
				       .element = element,
				       .width = width,
				       .height = height});
}

CUresult cuMemsetD2D8Async(CUdeviceptr at, size_t pitch, unsigned char value, size_t width,
	size_t height, CUstream stream)
{
	ENTER();
	return fill(stream, at, pitch, value, 1, width, height);
}

CUresult cuMemsetD2D16Async(CUdeviceptr at, size_t pitch, unsigned short value, size_t width,
	size_t height, CUstream stream)
{
	ENTER();
	return fill(stream, at, pitch, value, 2, width, height);
}

CUresult cuMemsetD2D32Async(CUdeviceptr at, size_t pitch, unsigned int value, size_t width,
	size_t height, CUstream stream)
{
	ENTER();
	return fill(stream, at, pitch, value, 4, width, height);
}

CUresult fake_launch(const CUlaunchConfig *config, CUfunction function, void **extra)
{
	struct work work = {.kind = WORK_LAUNCH,
		.function = function,
		.grid = {config->gridDimX, config->gridDimY, config->gridDimZ}};
	size_t bytes = *(size_t *)extra[3];

	if (function->module->context != fake_context_number())
		return CUDA_ERROR_INVALID_HANDLE;
	if (config->gridDimX > INT32_MAX || config->gridDimY > 0xffff ||
		config->gridDimZ > 0xffff ||
		config->blockDimX * config->blockDimY * config->blockDimZ > 1024)
		return CUDA_ERROR_INVALID_VALUE;
	launched_on = config->hStream->multiprocessors;
	if (bytes)
		memcpy(work.params, extra[1],
			bytes < sizeof work.params ? bytes : sizeof work.params);
	return enqueue(config->hStream, &work);
}

CUresult cuLaunchKernelEx(
	const CUlaunchConfig *config, CUfunction function, void **params, void **extra)
{
	ENTER();
	return fake_launch(config, function, extra);
}

__attribute__((visibility("default"))) unsigned fake_write_count(void)
{
	return writes;
}

__attribute__((visibility("default"))) unsigned fake_launched_on(void)
{
	return launched_on;
}

__attribute__((visibility("default"))) unsigned fake_pending_count(void)
{
	return pending;
}

static void set_stopped(bool stop)
{
	pthread_mutex_lock(&fake_lock);
	stopped = stop;
	pthread_cond_broadcast(&moved);
	pthread_mutex_unlock(&fake_lock);
}

__attribute__((visibility("default"))) unsigned fake_stop(void)
{
	set_stopped(true);
	return 1;
}

__attribute__((visibility("default"))) unsigned fake_go_on(void)
{
	set_stopped(false);
	return 1;
}

static atomic_bool hold, held;

/* The next launch stays in the call until it is let go. */
__attribute__((visibility("default"))) unsigned fake_hold_launch(void)
{
	held = false;
	hold = true;
	return 1;
}

__attribute__((visibility("default"))) unsigned fake_launch_is_held(void)
{
	return held;
}

__attribute__((visibility("default"))) unsigned fake_let_go(void)
{
	hold = false;
	return 1;
}

CUresult cuLaunchKernel(CUfunction function, unsigned int gx, unsigned int gy, unsigned int gz,
	unsigned int bx, unsigned int by, unsigned int bz, unsigned int shared, CUstream stream,
	void **params, void **extra)
{
	CUlaunchConfig config = {gx, gy, gz, bx, by, bz, shared, stream, NULL, 0};

	ENTER();
	while (hold) {
		held = true;
		usleep(100);
	}
	return fake_launch(&config, function, extra);
}
