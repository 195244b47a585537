/* SPDX-License-Identifier: MIT
 *
 * A driver library in the vendor's place (GDEV_CUDA_DRIVER names it), so that device/cuda and all above it
 * can be tested where there is no NVIDIA GPU, and its failures everywhere.
 *
 * Device memory is in memfds, which this process sees only through cuMemMap's own mapping: to the program
 * the range stays unreadable, as the real one is. A stream is a thread that executes in order. Kernels are
 * PTX text whose entries are known by name:
 *   set      (u64 at, u32 value): stores it
 *   step     (u64 at, u32 words): makes each word three times what it was, and its number
 *   count    (): adds one to each variable of its module
 *   trap, assert, stray: end as their names say
 *   endless  until the process ends                  anything else: does nothing
 * PTX that contains "wrong" does not assemble; a binary is one for this device if it says "sm_90".
 *
 * FAKE_CUDA_FAIL="CALL:RESULT@N,…" makes the Nth call of that function fail, and with "@N+" all from the
 * Nth on; CALL "work" stands for what streams execute, whose failure is sticky, as a device's is.
 * As with the vendor's, what needs a context fails where the thread has made none its own, or one that has ended
 * since; and the next context has the handle of the one before.
 * With the last context go registrations of host memory, and what was made in it is of no use any more.
 * FAKE_CUDA_MEMORY is the device's size in MiB; a context takes CONTEXT_BYTES of it.
 */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "fake_cuda.h"

#define CONTEXT_BYTES ((size_t)512 << 20)
#define CHUNK_ALIGN ((size_t)2 << 20)
#define PLACES 4096

/* One lock for all that is here; `moved` says that a stream has got on, or has got more. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t moved = PTHREAD_COND_INITIALIZER;
static CUresult broken; /* sticky */
static unsigned contexts;
static unsigned context_number = 1;      /* of the context that is there, or comes next */
static __thread unsigned current_number; /* which one the thread has made its own; 0: none */
static size_t taken_bytes;

/* Where commands may go: device memory, whose bytes are at `alias`, and registered host memory. */
static struct place {
	uint64_t address;
	size_t bytes;
	char *alias;
	bool device, read_only;
} places[PLACES];

struct chunk {
	int fd;
	size_t bytes;
	bool imported;
};

enum work_kind { WORK_COPY, WORK_FILL, WORK_LAUNCH, WORK_WRITE };

struct work {
	struct work *next;
	enum work_kind kind;
	CUDA_MEMCPY3D copy;
	uint64_t address, pitch, width, height, value;
	unsigned element;
	const struct CUfunc_st *function;
	char params[64];
};

struct CUstream_st {
	unsigned context;
	pthread_t thread;
	struct work *first, **last;
	bool busy, stopping;
};

/* ---- failing on demand ---- */

/* What this call is to answer, by FAKE_CUDA_FAIL; counted by name. With the lock. */
static CUresult trip(const char *name)
{
	static struct {
		const char *name;
		unsigned calls;
	} counts[128];
	const char *wishes = getenv("FAKE_CUDA_FAIL");
	const char *version = strstr(name, "_v");
	size_t length = version ? (size_t)(version - name) : strlen(name), i = 0;

	if (!wishes)
		return CUDA_SUCCESS;
	while (counts[i].name && strcmp(counts[i].name, name))
		i++;
	counts[i].name = name;
	counts[i].calls++;
	for (const char *wish = wishes; wish;
		wish = strchr(wish, ',') ? strchr(wish, ',') + 1 : NULL) {
		int result = 0;
		unsigned which = 1;
		char more = 0;
		if (strncmp(wish, name, length) || wish[length] != ':')
			continue;
		sscanf(wish + length + 1, "%d@%u%c", &result, &which, &more);
		if (counts[i].calls == which || (more == '+' && counts[i].calls > which))
			return (CUresult)result;
	}
	return CUDA_SUCCESS;
}

static bool needs_context(const char *name)
{
	return strncmp(name, "cuInit", 6) && strncmp(name, "cuDevice", 8) &&
	       strncmp(name, "cuMemAddress", 12);
}

CUresult fake_enter(const char *name)
{
	CUresult result;

	pthread_mutex_lock(&lock);
	result = trip(name);
	if (!result)
		result = broken;
	if (!result && needs_context(name) && (!contexts || current_number != context_number))
		result = CUDA_ERROR_INVALID_CONTEXT;
	pthread_mutex_unlock(&lock);
	return result;
}

void fake_count_contexts(int change)
{
	pthread_mutex_lock(&lock);
	contexts += (unsigned)change;
	if (!contexts) {
		context_number++;
		for (unsigned i = 0; i < PLACES; i++)
			if (!places[i].device)
				places[i].bytes = 0;
	}
	pthread_mutex_unlock(&lock);
}

__attribute__((visibility("default"))) unsigned fake_context_count(void)
{
	pthread_mutex_lock(&lock);
	unsigned count = contexts;
	pthread_mutex_unlock(&lock);
	return count;
}

unsigned fake_context_number(void)
{
	return context_number;
}

void fake_set_current(bool any)
{
	pthread_mutex_lock(&lock);
	current_number = any ? context_number : 0;
	pthread_mutex_unlock(&lock);
}

/* ---- memory ---- */

size_t fake_device_bytes(void)
{
	const char *mib = getenv("FAKE_CUDA_MEMORY");

	return (mib ? strtoull(mib, NULL, 10) : 16384) << 20;
}

static struct place *place_at(uint64_t address, size_t bytes)
{
	for (unsigned i = 0; i < PLACES; i++)
		if (places[i].bytes && address >= places[i].address &&
			address - places[i].address < places[i].bytes &&
			bytes <= places[i].bytes - (address - places[i].address))
			return &places[i];
	return NULL;
}

/* A range may lie in several chunks that follow each other: the first of *bytes bytes at `address`, which becomes how
 * many there are in one place. */
static char *bytes_at(uint64_t address, bool write, size_t *bytes)
{
	static __thread struct place *last;

	if (!last || address - last->address >= last->bytes)
		last = place_at(address, 1);
	if (!last || (write && last->read_only))
		return NULL;
	if (*bytes > last->bytes - (address - last->address))
		*bytes = last->bytes - (address - last->address);
	return last->alias + (address - last->address);
}

static char *byte_at(uint64_t address, bool write)
{
	size_t one = 1;

	return bytes_at(address, write, &one);
}

static CUresult place_add(uint64_t address, size_t bytes, char *alias, bool device)
{
	for (unsigned i = 0; i < PLACES; i++) {
		if (places[i].bytes)
			continue;
		places[i] = (struct place){address, bytes, alias, device, false};
		return CUDA_SUCCESS;
	}
	return CUDA_ERROR_OUT_OF_MEMORY;
}

void fake_place(uint64_t address, size_t bytes, void *alias)
{
	pthread_mutex_lock(&lock);
	place_add(address, bytes, alias, true);
	pthread_mutex_unlock(&lock);
}

void fake_unplace(uint64_t address)
{
	struct place *place;

	pthread_mutex_lock(&lock);
	place = place_at(address, 1);
	if (place)
		place->bytes = 0;
	pthread_mutex_unlock(&lock);
}

CUresult cuMemAddressReserve(
	CUdeviceptr *ptr, size_t size, size_t alignment, CUdeviceptr addr, unsigned long long flags)
{
	void *range;

	ENTER();
	range = mmap((void *)(uintptr_t)addr, size, PROT_NONE,
		MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0); /* a hint, as the vendor's */
	if (range == MAP_FAILED)
		return CUDA_ERROR_OUT_OF_MEMORY;
	*ptr = (uintptr_t)range;
	return CUDA_SUCCESS;
}

CUresult cuMemAddressFree(CUdeviceptr ptr, size_t size)
{
	ENTER();
	return munmap((void *)(uintptr_t)ptr, size) ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
}

CUresult cuMemCreate(CUmemGenericAllocationHandle *handle, size_t size,
	const CUmemAllocationProp *prop, unsigned long long flags)
{
	struct chunk *chunk;

	ENTER();
	if (!size || size % CHUNK_ALIGN)
		return CUDA_ERROR_INVALID_VALUE;
	pthread_mutex_lock(&lock);
	bool fits = taken_bytes + size + contexts * CONTEXT_BYTES <= fake_device_bytes();
	if (fits)
		taken_bytes += size;
	pthread_mutex_unlock(&lock);
	if (!fits)
		return CUDA_ERROR_OUT_OF_MEMORY;
	chunk = calloc(1, sizeof *chunk);
	chunk->bytes = size;
	chunk->fd = memfd_create("fake-cuda", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	if (chunk->fd < 0 || ftruncate(chunk->fd, (off_t)size))
		abort();
	/* What was there before is not scrubbed here: whoever relies on that is found out. */
	*handle = (uintptr_t)chunk;
	return CUDA_SUCCESS;
}

CUresult cuMemRelease(CUmemGenericAllocationHandle handle)
{
	struct chunk *chunk = (struct chunk *)(uintptr_t)handle;

	ENTER();
	pthread_mutex_lock(&lock);
	if (!chunk->imported)
		taken_bytes -= chunk->bytes;
	pthread_mutex_unlock(&lock);
	close(chunk->fd);
	free(chunk);
	return CUDA_SUCCESS;
}

CUresult cuMemMap(CUdeviceptr ptr, size_t size, size_t offset, CUmemGenericAllocationHandle handle,
	unsigned long long flags)
{
	const struct chunk *chunk = (const struct chunk *)(uintptr_t)handle;
	CUresult result = CUDA_ERROR_INVALID_VALUE;
	char *alias;

	ENTER();
	if (ptr % CHUNK_ALIGN || size < chunk->bytes || offset)
		return CUDA_ERROR_INVALID_VALUE;
	if (size > chunk->bytes) /* as seen with the vendor's */
		return CUDA_ERROR_NOT_SUPPORTED;
	alias = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, chunk->fd, 0);
	if (alias == MAP_FAILED)
		return CUDA_ERROR_OUT_OF_MEMORY;
	pthread_mutex_lock(&lock);
	if (!place_at(ptr, 1) && !place_at(ptr + size - 1, 1))
		result = place_add(ptr, size, alias, true);
	pthread_mutex_unlock(&lock);
	if (result)
		munmap(alias, size);
	return result;
}

CUresult cuMemUnmap(CUdeviceptr ptr, size_t size)
{
	struct place *place;

	ENTER();
	pthread_mutex_lock(&lock);
	place = place_at(ptr, size);
	if (place && place->device && place->address == ptr && place->bytes == size) {
		munmap(place->alias, size);
		place->bytes = 0;
	} else {
		place = NULL;
	}
	pthread_mutex_unlock(&lock);
	return place ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuMemSetAccess(CUdeviceptr ptr, size_t size, const CUmemAccessDesc *desc, size_t count)
{
	struct place *place;

	ENTER();
	pthread_mutex_lock(&lock);
	place = place_at(ptr, size);
	if (place)
		place->read_only = desc->flags == CU_MEM_ACCESS_FLAGS_PROT_READ;
	pthread_mutex_unlock(&lock);
	return place ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuMemExportToShareableHandle(void *shareable, CUmemGenericAllocationHandle handle,
	CUmemAllocationHandleType type, unsigned long long flags)
{
	const struct chunk *chunk = (const struct chunk *)(uintptr_t)handle;
	int fd;

	ENTER();
	fcntl(chunk->fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL);
	fd = fcntl(chunk->fd, F_DUPFD_CLOEXEC, 0);
	if (fd < 0)
		return CUDA_ERROR_OPERATING_SYSTEM;
	*(int *)shareable = fd;
	return CUDA_SUCCESS;
}

CUresult cuMemImportFromShareableHandle(
	CUmemGenericAllocationHandle *handle, void *shareable, CUmemAllocationHandleType type)
{
	struct chunk *chunk;
	struct stat stat;
	int fd = (int)(intptr_t)shareable;

	ENTER();
	if (fcntl(fd, F_GET_SEALS) != (F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) ||
		fstat(fd, &stat))
		return CUDA_ERROR_INVALID_VALUE;
	chunk = calloc(1, sizeof *chunk);
	*chunk = (struct chunk){fcntl(fd, F_DUPFD_CLOEXEC, 0), (size_t)stat.st_size, true};
	*handle = (uintptr_t)chunk;
	return CUDA_SUCCESS;
}

CUresult cuMemHostRegister(void *p, size_t bytes, unsigned int flags)
{
	CUresult result;

	ENTER();
	pthread_mutex_lock(&lock);
	result = place_at((uintptr_t)p, 1) ? CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED
					   : place_add((uintptr_t)p, bytes, p, false);
	pthread_mutex_unlock(&lock);
	return result;
}

CUresult cuMemHostUnregister(void *p)
{
	struct place *place;

	ENTER();
	pthread_mutex_lock(&lock);
	place = place_at((uintptr_t)p, 1);
	if (place)
		place->bytes = 0;
	pthread_mutex_unlock(&lock);
	return place ? CUDA_SUCCESS : CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED;
}

CUresult cuMemHostGetDevicePointer(CUdeviceptr *pointer, void *p, unsigned int flags)
{
	ENTER();
	*pointer = (uintptr_t)p;
	return CUDA_SUCCESS;
}

CUresult cuMemHostAlloc(void **pp, size_t bytes, unsigned int flags)
{
	ENTER();
	*pp = aligned_alloc(4096, (bytes + 4095) & ~(size_t)4095);
	if (!*pp)
		return CUDA_ERROR_OUT_OF_MEMORY;
	pthread_mutex_lock(&lock);
	place_add((uintptr_t)*pp, bytes, *pp, false);
	pthread_mutex_unlock(&lock);
	return CUDA_SUCCESS;
}

CUresult cuMemFreeHost(void *p)
{
	CUresult result = cuMemHostUnregister(p);

	if (!result)
		free(p);
	return result;
}

CUresult cuMemGetInfo(size_t *free_bytes, size_t *total)
{
	ENTER();
	pthread_mutex_lock(&lock);
	*total = fake_device_bytes();
	*free_bytes = *total - contexts * CONTEXT_BYTES - taken_bytes;
	pthread_mutex_unlock(&lock);
	return CUDA_SUCCESS;
}

/* ---- streams ---- */

/* Host memory needs no registration to be copied: the driver would stage it. */
static char *bytes_of(uint64_t address, bool write, size_t *bytes)
{
	char *byte = bytes_at(address, write, bytes);
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

static CUresult execute_copy(const CUDA_MEMCPY3D *c)
{
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
			char *target = byte_at(w->address + y * w->pitch + x, true);
			if (!target)
				return CUDA_ERROR_ILLEGAL_ADDRESS;
			*target = ((const char *)&w->value)[x % w->element];
		}
	return CUDA_SUCCESS;
}

static CUresult store(uint64_t address, const void *value, size_t bytes)
{
	for (size_t i = 0; i < bytes; i++)
		if (!byte_at(address + i, true))
			return CUDA_ERROR_ILLEGAL_ADDRESS;
	if (bytes == sizeof(uint64_t)) /* somebody looks at it meanwhile */
		__atomic_store_n((uint64_t *)byte_at(address, true), *(const uint64_t *)value,
			__ATOMIC_RELEASE);
	else
		memcpy(byte_at(address, true), value, bytes);
	return CUDA_SUCCESS;
}

/* As the kernel of tests/integ/swap.c. */
static CUresult step(uint64_t at, const char *param)
{
	uint32_t words, value;

	memcpy(&words, param, sizeof words);
	for (uint32_t i = 0; i < words; i++) {
		char *word = byte_at(at + i * sizeof value, true);
		if (!word)
			return CUDA_ERROR_ILLEGAL_ADDRESS;
		memcpy(&value, word, sizeof value);
		value = value * 3 + i;
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

static CUresult execute_launch(const struct work *w)
{
	const char *name = w->function->name;
	uint64_t at;

	memcpy(&at, w->params, sizeof at);
	if (!strcmp(name, "step"))
		return step(at, w->params + sizeof at);
	if (!strcmp(name, "set"))
		return store(at, w->params + sizeof at, sizeof(uint32_t));
	if (!strcmp(name, "count"))
		return count(w->function->module);
	if (!strcmp(name, "trap"))
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
	default:
		return store(w->address, &w->value, sizeof w->value);
	}
}

static void *stream_main(void *argument)
{
	struct CUstream_st *stream = argument;

	pthread_mutex_lock(&lock);
	while (!stream->stopping) {
		struct work *work = stream->first;
		if (!work || broken ||
			(work->kind == WORK_LAUNCH && !strcmp(work->function->name, "endless"))) {
			pthread_cond_wait(&moved, &lock);
			continue;
		}
		CUresult result = work->kind == WORK_WRITE ? CUDA_SUCCESS : trip("work");
		if (!result)
			result = execute(work);
		if (result) {
			broken = result;
		} else {
			stream->first = work->next;
			if (!stream->first)
				stream->last = &stream->first;
			free(work);
		}
		pthread_cond_broadcast(&moved);
	}
	pthread_mutex_unlock(&lock);
	return NULL;
}

/* With the lock. All on the device, or all in one registration; what is nowhere is found out when it is executed. */
static bool is_of_one_kind(uint64_t address, uint64_t bytes)
{
	const struct place *place = place_at(address, 1);
	uint64_t end = address + bytes;

	if (place && !place->device)
		return end <= place->address + place->bytes;
	while (place && place->device && place->address + place->bytes < end)
		place = place_at(place->address + place->bytes, 1);
	return !place || place->device;
}

static bool side_is_of_one_kind(const CUDA_MEMCPY3D *c, uint64_t device, const void *host,
	CUmemorytype type, size_t pitch, size_t rows)
{
	uint64_t last = ((c->Depth - 1) * rows + c->Height - 1) * pitch;

	return is_of_one_kind(
		type == CU_MEMORYTYPE_DEVICE ? device : (uintptr_t)host, last + c->WidthInBytes);
}

/* The vendor's driver refuses what reaches from one kind of memory into another. */
static bool reaches_over(const struct work *w)
{
	const CUDA_MEMCPY3D *c = &w->copy;
	bool one = true;

	pthread_mutex_lock(&lock);
	if (w->kind == WORK_FILL && w->width && w->height)
		one = is_of_one_kind(
			w->address, (w->height - 1) * w->pitch + w->width * w->element);
	if (w->kind == WORK_COPY && c->WidthInBytes && c->Height && c->Depth)
		one = side_is_of_one_kind(c, c->srcDevice, c->srcHost, c->srcMemoryType,
			      c->srcPitch, c->srcHeight) &&
		      side_is_of_one_kind(c, c->dstDevice, c->dstHost, c->dstMemoryType,
			      c->dstPitch, c->dstHeight);
	pthread_mutex_unlock(&lock);
	return !one;
}

static CUresult enqueue(struct CUstream_st *stream, const struct work *wanted)
{
	struct work *work;

	if (stream->context != context_number)
		return CUDA_ERROR_INVALID_HANDLE;
	if (reaches_over(wanted))
		return CUDA_ERROR_INVALID_VALUE;
	work = malloc(sizeof *work);
	*work = *wanted;
	work->next = NULL;
	pthread_mutex_lock(&lock);
	*stream->last = work;
	stream->last = &work->next;
	pthread_cond_broadcast(&moved);
	pthread_mutex_unlock(&lock);
	return CUDA_SUCCESS;
}

CUresult cuStreamCreateWithPriority(CUstream *out, unsigned int flags, int priority)
{
	struct CUstream_st *stream;

	ENTER();
	stream = calloc(1, sizeof *stream);
	stream->context = context_number;
	stream->last = &stream->first;
	if (pthread_create(&stream->thread, NULL, stream_main, stream)) {
		free(stream);
		return CUDA_ERROR_OUT_OF_MEMORY;
	}
	*out = stream;
	return CUDA_SUCCESS;
}

CUresult cuStreamDestroy(CUstream stream)
{
	struct work *work;

	pthread_mutex_lock(&lock);
	while (stream->first && !broken)
		pthread_cond_wait(&moved, &lock);
	stream->stopping = true;
	pthread_cond_broadcast(&moved);
	pthread_mutex_unlock(&lock);
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
	pthread_mutex_lock(&lock);
	result = stream->first ? CUDA_ERROR_NOT_READY : CUDA_SUCCESS;
	pthread_mutex_unlock(&lock);
	return result;
}

CUresult cuStreamSynchronize(CUstream stream)
{
	ENTER();
	pthread_mutex_lock(&lock);
	while (stream->first && !broken)
		pthread_cond_wait(&moved, &lock);
	pthread_mutex_unlock(&lock);
	return broken;
}

CUresult cuStreamWriteValue64(CUstream stream, CUdeviceptr addr, uint64_t value, unsigned int flags)
{
	ENTER();
	return enqueue(stream, &(struct work){.kind = WORK_WRITE, .address = addr, .value = value});
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
	struct work work = {.kind = WORK_LAUNCH, .function = function};
	size_t bytes = *(size_t *)extra[3];

	if (function->module->context != context_number)
		return CUDA_ERROR_INVALID_HANDLE;
	if (config->blockDimX * config->blockDimY * config->blockDimZ > 1024)
		return CUDA_ERROR_INVALID_VALUE;
	memcpy(work.params, extra[1], bytes < sizeof work.params ? bytes : sizeof work.params);
	return enqueue(config->hStream, &work);
}

CUresult cuLaunchKernelEx(
	const CUlaunchConfig *config, CUfunction function, void **params, void **extra)
{
	ENTER();
	return fake_launch(config, function, extra);
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
