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
 *   add      (u64 at, u32 words, u32 value): adds it to each word
 *   tally    (u64 at, u32 us): each block adds one to the word of its index, and takes so long; also as device/preempt makes it
 *   rounds   (u64 at, u32 us, u32 rounds): each block adds one to the word of its index so often, and a round takes so long; also as
 *            device/preempt makes it, leaving between rounds
 *   gate     (u64 at): until the byte there is not 0
 *   trap, assert, stray: end as their names say
 *   fetch    (u64 texture, u64 at, u32 x, u32 y): stores the word or less that the element begins with
 *   put      (u64 surface, u64 unused, u32 x, u32 y, u32 value): the other way round
 *   spin     takes so many ns (the device idles)     endless  until the process ends
 *   anything else: does nothing
 * PTX that contains "wrong" does not assemble; a binary is one for this device if it says "sm_90".
 *
 * FAKE_CUDA_FAIL="CALL:RESULT@N,…" makes the Nth call of that function fail, and with "@N+" all from the
 * Nth on; CALL "work" stands for what streams execute, whose failure is sticky, as a device's is.
 * As with the vendor's, what needs a context fails where the thread has made none its own, or one that has ended
 * since; and the next context has the handle of the one before.
 * With the last context go registrations of host memory, and what was made in it is of no use any more.
 * FAKE_CUDA_DEVICES says how many devices there are, one if nothing does; a process uses one of them at a time: its memory
 * is made, and may be used, on the one whose context is there.
 * FAKE_CUDA_OUT_OF_ORDER="ORDINAL:FILE" is a device in which no context can be made while there is the file.
 * FAKE_CUDA_MEMORY is the device's size in MiB; a context takes CONTEXT_BYTES of it.
 * FAKE_CUDA_CARD=FILE: processes take that memory from each other. FILE says how many bytes each of CARD_SLOTS has, as words of
 * 64 bits; the first is what a test lets a stranger have.
 */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
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

pthread_mutex_t fake_lock = PTHREAD_MUTEX_INITIALIZER;
CUresult fake_broken;
static unsigned contexts;
static CUdevice context_device;          /* whose they are */
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
	bool imported, tiles; /* tiles: for arrays, and for no addresses */
};

/* ---- a card that processes share ---- */

#define CARD_SLOTS 64

static struct {
	int fd;
	uint64_t *taken; /* NULL: the process has a card of its own */
	unsigned slot;   /* the process's, as long as it has the lock on the byte of that number */
} card;

static bool card_lock_byte(short type, unsigned byte, bool wait)
{
	struct flock lock = {.l_type = type, .l_whence = SEEK_SET, .l_start = byte, .l_len = 1};

	return !fcntl(card.fd, wait ? F_SETLKW : F_SETLK, &lock);
}

static bool card_has_process(unsigned slot)
{
	struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = slot, .l_len = 1};

	return !fcntl(card.fd, F_GETLK, &lock) && lock.l_type != F_UNLCK;
}

__attribute__((constructor)) static void card_open(void)
{
	const char *path = getenv("FAKE_CUDA_CARD");

	if (!path)
		return;
	card.fd = open(path, O_RDWR | O_CLOEXEC);
	if (card.fd < 0)
		abort();
	card.taken = mmap(NULL, CARD_SLOTS * sizeof *card.taken, PROT_READ | PROT_WRITE, MAP_SHARED,
		card.fd, 0);
	if (card.taken == MAP_FAILED)
		abort();
	while (++card.slot < CARD_SLOTS && !card_lock_byte(F_WRLCK, card.slot, false))
		;
	if (card.slot == CARD_SLOTS)
		abort();
	card.taken[card.slot] = 0;
}

static size_t taken_here(void)
{
	return taken_bytes + contexts * CONTEXT_BYTES;
}

static size_t taken_by_others(void)
{
	size_t bytes = 0;

	for (unsigned i = 0; card.taken && i < CARD_SLOTS; i++)
		if (i != card.slot && (!i || card_has_process(i)))
			bytes += card.taken[i];
	return bytes;
}

/* With fake_lock. What the process has is that much more, by memory or by contexts, if there is room. */
static bool take(size_t bytes, unsigned more_contexts, bool anyway)
{
	size_t wanted = bytes + more_contexts * CONTEXT_BYTES;
	bool fits;

	if (card.taken)
		card_lock_byte(F_WRLCK, CARD_SLOTS, true);
	fits = anyway || taken_here() + taken_by_others() + wanted <= fake_device_bytes();
	if (fits) {
		taken_bytes += bytes;
		contexts += more_contexts;
	}
	if (card.taken) {
		card.taken[card.slot] = taken_here();
		card_lock_byte(F_UNLCK, CARD_SLOTS, true);
	}
	return fits;
}

/* ---- failing on demand ---- */

/* What FAKE_CUDA_FAIL says, or a test; NULL: no call fails. With the lock. */
static const char *wishes;
/* Calls while there are wishes; by a test's from these on. */
static struct {
	const char *name;
	unsigned calls;
} counts[128];

__attribute__((visibility("default"))) void fake_let_fail(const char *calls)
{
	pthread_mutex_lock(&fake_lock);
	memset(counts, 0, sizeof counts);
	wishes = calls;
	pthread_mutex_unlock(&fake_lock);
}

__attribute__((constructor)) static void read_wishes(void)
{
	wishes = getenv("FAKE_CUDA_FAIL");
}

CUresult fake_trip(const char *name)
{
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

/* Calls that the calling thread has made. */
static __thread unsigned calls_here;

__attribute__((visibility("default"))) unsigned fake_calls_here(void)
{
	return calls_here;
}

CUresult fake_enter(const char *name)
{
	CUresult result;

	calls_here++;
	pthread_mutex_lock(&fake_lock);
	result = fake_trip(name);
	if (!result)
		result = fake_broken;
	if (!result && needs_context(name) && (!contexts || current_number != context_number))
		result = CUDA_ERROR_INVALID_CONTEXT;
	pthread_mutex_unlock(&fake_lock);
	return result;
}

bool fake_count_contexts(int change, CUdevice device)
{
	bool fits;

	pthread_mutex_lock(&fake_lock);
	if (change > 0)
		context_device = device;
	fits = take(0, (unsigned)change, change < 0 || !card.taken);
	if (!contexts) {
		context_number++;
		for (unsigned i = 0; i < PLACES; i++)
			if (!places[i].device)
				places[i].bytes = 0;
	}
	pthread_mutex_unlock(&fake_lock);
	return fits;
}

__attribute__((visibility("default"))) unsigned fake_context_count(void)
{
	pthread_mutex_lock(&fake_lock);
	unsigned count = contexts;
	pthread_mutex_unlock(&fake_lock);
	return count;
}

unsigned fake_context_number(void)
{
	return context_number;
}

void fake_set_current(bool any)
{
	pthread_mutex_lock(&fake_lock);
	current_number = any ? context_number : 0;
	pthread_mutex_unlock(&fake_lock);
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

char *fake_bytes_at(uint64_t address, bool write, size_t *bytes)
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

char *fake_byte_at(uint64_t address, bool write)
{
	size_t one = 1;

	return fake_bytes_at(address, write, &one);
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
	pthread_mutex_lock(&fake_lock);
	place_add(address, bytes, alias, true);
	pthread_mutex_unlock(&fake_lock);
}

void fake_unplace(uint64_t address)
{
	struct place *place;

	pthread_mutex_lock(&fake_lock);
	place = place_at(address, 1);
	if (place)
		place->bytes = 0;
	pthread_mutex_unlock(&fake_lock);
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

bool fake_take_if_there(size_t bytes)
{
	pthread_mutex_lock(&fake_lock);
	bool fits = take(bytes, 0, false);
	pthread_mutex_unlock(&fake_lock);
	return fits;
}

CUresult cuMemCreate(CUmemGenericAllocationHandle *handle, size_t size,
	const CUmemAllocationProp *prop, unsigned long long flags)
{
	struct chunk *chunk;

	ENTER();
	if (!size || size % CHUNK_ALIGN || prop->location.id != context_device)
		return CUDA_ERROR_INVALID_VALUE;
	if (!fake_take_if_there(size))
		return CUDA_ERROR_OUT_OF_MEMORY;
	chunk = calloc(1, sizeof *chunk);
	chunk->bytes = size;
	chunk->tiles = prop->allocFlags.usage & CU_MEM_CREATE_USAGE_TILE_POOL;
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
	pthread_mutex_lock(&fake_lock);
	if (!chunk->imported)
		take(-chunk->bytes, 0, true);
	pthread_mutex_unlock(&fake_lock);
	close(chunk->fd);
	free(chunk);
	return CUDA_SUCCESS;
}

char *fake_tiles(CUmemGenericAllocationHandle handle, uint64_t offset, size_t bytes)
{
	const struct chunk *chunk = (const struct chunk *)(uintptr_t)handle;
	char *alias;

	if (!chunk->tiles || offset > chunk->bytes || bytes > chunk->bytes - offset)
		return NULL;
	alias = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, chunk->fd, (off_t)offset);
	return alias == MAP_FAILED ? NULL : alias;
}

CUresult cuMemMap(CUdeviceptr ptr, size_t size, size_t offset, CUmemGenericAllocationHandle handle,
	unsigned long long flags)
{
	const struct chunk *chunk = (const struct chunk *)(uintptr_t)handle;
	CUresult result = CUDA_ERROR_INVALID_VALUE;
	char *alias;

	ENTER();
	if (ptr % CHUNK_ALIGN || size < chunk->bytes || offset || chunk->tiles)
		return CUDA_ERROR_INVALID_VALUE;
	if (size > chunk->bytes) /* as seen with the vendor's */
		return CUDA_ERROR_NOT_SUPPORTED;
	alias = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, chunk->fd, 0);
	if (alias == MAP_FAILED)
		return CUDA_ERROR_OUT_OF_MEMORY;
	pthread_mutex_lock(&fake_lock);
	if (!place_at(ptr, 1) && !place_at(ptr + size - 1, 1))
		result = place_add(ptr, size, alias, true);
	pthread_mutex_unlock(&fake_lock);
	if (result)
		munmap(alias, size);
	return result;
}

CUresult cuMemUnmap(CUdeviceptr ptr, size_t size)
{
	struct place *place;

	ENTER();
	pthread_mutex_lock(&fake_lock);
	place = place_at(ptr, size);
	if (place && place->device && place->address == ptr && place->bytes == size) {
		munmap(place->alias, size);
		place->bytes = 0;
	} else {
		place = NULL;
	}
	pthread_mutex_unlock(&fake_lock);
	return place ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuMemSetAccess(CUdeviceptr ptr, size_t size, const CUmemAccessDesc *desc, size_t count)
{
	struct place *place;

	ENTER();
	pthread_mutex_lock(&fake_lock);
	place = desc->location.id == context_device ? place_at(ptr, size) : NULL;
	if (place)
		place->read_only = desc->flags == CU_MEM_ACCESS_FLAGS_PROT_READ;
	pthread_mutex_unlock(&fake_lock);
	return place ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuMemExportToShareableHandle(void *shareable, CUmemGenericAllocationHandle handle,
	CUmemAllocationHandleType type, unsigned long long flags)
{
	const struct chunk *chunk = (const struct chunk *)(uintptr_t)handle;
	int fd;

	ENTER();
	if (chunk->imported) /* as seen with the vendor's */
		return CUDA_ERROR_INVALID_VALUE;
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

/* As NVIDIA's: pages of a disk's files are none that it takes; those of a tmpfs are. */
static bool is_of_disk(const void *p)
{
	FILE *maps = fopen("/proc/self/maps", "r");
	unsigned long from, to;
	char line[512], path[256] = "";
	bool found = false;

	while (maps && !found && fgets(line, sizeof line, maps)) {
		path[0] = '\0';
		found = sscanf(line, "%lx-%lx %*s %*s %*s %*s %255s", &from, &to, path) >= 2 &&
			(uintptr_t)p >= from && (uintptr_t)p < to;
	}
	if (maps)
		fclose(maps);
	return found && path[0] == '/' && strncmp(path, "/memfd:", 7) && strncmp(path, "/dev/", 5);
}

CUresult cuMemHostRegister(void *p, size_t bytes, unsigned int flags)
{
	CUresult result;

	ENTER();
	if (is_of_disk(p))
		return CUDA_ERROR_INVALID_VALUE;
	pthread_mutex_lock(&fake_lock);
	result = place_at((uintptr_t)p, 1) ? CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED
					   : place_add((uintptr_t)p, bytes, p, false);
	pthread_mutex_unlock(&fake_lock);
	return result;
}

CUresult cuMemHostUnregister(void *p)
{
	struct place *place;

	ENTER();
	pthread_mutex_lock(&fake_lock);
	place = place_at((uintptr_t)p, 1);
	if (place)
		place->bytes = 0;
	pthread_mutex_unlock(&fake_lock);
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
	pthread_mutex_lock(&fake_lock);
	place_add((uintptr_t)*pp, bytes, *pp, false);
	pthread_mutex_unlock(&fake_lock);
	return CUDA_SUCCESS;
}

CUresult cuMemFreeHost(void *p)
{
	CUresult result = cuMemHostUnregister(p);

	if (!result)
		free(p);
	return result;
}

/* As another process would. */
void fake_take(size_t bytes)
{
	pthread_mutex_lock(&fake_lock);
	take(bytes, 0, true);
	pthread_mutex_unlock(&fake_lock);
}

static unsigned memory_questions;

__attribute__((visibility("default"))) unsigned fake_memory_questions(void)
{
	return memory_questions;
}

CUresult cuMemGetInfo(size_t *free_bytes, size_t *total)
{
	ENTER();
	pthread_mutex_lock(&fake_lock);
	*total = fake_device_bytes();
	*free_bytes = *total - taken_here();
	/* The first is what the context takes: there is no management library that says it. */
	if (memory_questions++)
		*free_bytes -= taken_by_others();
	pthread_mutex_unlock(&fake_lock);
	return CUDA_SUCCESS;
}

bool fake_is_of_one_kind(uint64_t address, uint64_t bytes)
{
	const struct place *place = place_at(address, 1);
	uint64_t end = address + bytes;

	if (place && !place->device)
		return end <= place->address + place->bytes;
	while (place && place->device && place->address + place->bytes < end)
		place = place_at(place->address + place->bytes, 1);
	return !place || place->device;
}
