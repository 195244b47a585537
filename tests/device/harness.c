/* SPDX-License-Identifier: MIT
 *
 * See harness.h.
 */
#include "harness.h"

#include <dlfcn.h>
#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "gdev/error.h"

#define ARENA_BASE 0x200000000000ull /* ARENA_DEFAULT_BASE of proto/session.h */

static void kick(void *owner)
{
	struct harness *h = owner;

	pthread_mutex_lock(&h->lock);
	h->kicks++;
	pthread_cond_signal(&h->kicked);
	pthread_mutex_unlock(&h->lock);
}

static void explain(void *owner, const char *sentence)
{
	struct harness *h = owner;

	snprintf(h->explained, sizeof h->explained, "%s", sentence);
}

static void print(void *owner, const char *bytes, size_t length)
{
	struct harness *h = owner;

	pthread_mutex_lock(&h->lock);
	if (length < sizeof h->printed - h->printed_bytes) {
		memcpy(h->printed + h->printed_bytes, bytes, length);
		h->printed_bytes += length;
	}
	pthread_mutex_unlock(&h->lock);
}

static int cache_load(void *owner, const uint8_t key[CODE_KEY_BYTES], void **bytes, size_t *length)
{
	struct harness *h = owner;
	int error = -ENOENT;

	pthread_mutex_lock(&h->lock);
	for (size_t i = 0; i < h->cached; i++)
		if (!memcmp(h->cache[i].key, key, 16)) {
			*bytes = malloc(h->cache[i].length);
			*length = h->cache[i].length;
			memcpy(*bytes, h->cache[i].bytes, *length);
			h->cache_hits++;
			error = 0;
			break;
		}
	pthread_mutex_unlock(&h->lock);
	return error;
}

static void cache_store(
	void *owner, const uint8_t key[CODE_KEY_BYTES], const void *bytes, size_t length)
{
	struct harness *h = owner;
	size_t i;

	pthread_mutex_lock(&h->lock);
	for (i = 0; i < h->cached; i++)
		if (!memcmp(h->cache[i].key, key, 16))
			break;
	if (i < HARNESS_CACHE) {
		if (i < h->cached)
			free(h->cache[i].bytes);
		else
			h->cached++;
		memcpy(h->cache[i].key, key, 16);
		h->cache[i].bytes = malloc(length);
		memcpy(h->cache[i].bytes, bytes, length);
		h->cache[i].length = length;
	}
	pthread_mutex_unlock(&h->lock);
}

/* For a device that must be asked. */
static void *ask(void *argument)
{
	struct harness *h = argument;
	bool stopping = false;

	while (!stopping) {
		if (!h->ops->poll(h->device))
			sched_yield();
		pthread_mutex_lock(&h->lock);
		stopping = h->stopping;
		pthread_mutex_unlock(&h->lock);
	}
	return NULL;
}

static void *serve(void *argument)
{
	struct harness *h = argument;

	pthread_mutex_lock(&h->lock);
	while (!h->stopping) {
		if (!h->kicks) {
			pthread_cond_wait(&h->kicked, &h->lock);
			continue;
		}
		h->kicks--;
		pthread_mutex_unlock(&h->lock);
		while (h->ops->work(h->device))
			;
		pthread_mutex_lock(&h->lock);
	}
	pthread_mutex_unlock(&h->lock);
	return NULL;
}

static void quiet(void *owner)
{
	struct harness *h = owner;

	__atomic_add_fetch(&h->quiets, 1, __ATOMIC_SEQ_CST);
}

/* Where the system likes: the thread sanitizer has ideas of its own about addresses. */
uint64_t harness_free_range(uint64_t bytes)
{
	void *range = mmap(NULL, bytes + DEVICE_CHUNK_MIN, PROT_NONE,
		MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	assert_ptr_not_equal(range, MAP_FAILED);
	munmap(range, bytes + DEVICE_CHUNK_MIN);
	return align_up((uint64_t)(uintptr_t)range, DEVICE_CHUNK_MIN);
}

/* What fails before a test begins must be read by somebody: standard output is the backend's by now. */
static void start_step(struct harness *h, const char *what, int error)
{
	if (!error)
		return;
	dup2(h->out, STDOUT_FILENO);
	fail_msg("%s: %s", what, gdev_strerror(error));
}

/* As the worker does it: mapped into the arena, then registered. */
static void map_host(struct harness *h)
{
	uint64_t address = h->base + HARNESS_BYTES - DEVICE_CHUNK_MIN;

	h->locked = mmap((void *)(uintptr_t)address, DEVICE_CHUNK_MIN, PROT_READ | PROT_WRITE,
		MAP_SHARED | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
	assert_ptr_equal(h->locked, (void *)(uintptr_t)address);
	if (h->ops->host_register)
		start_step(h, "register host memory",
			h->ops->host_register(h->space, address, DEVICE_CHUNK_MIN));
	start_step(h, "create a queue", h->ops->queue_create(h->space, 0, &h->transfers));
}

static void unmap_host(struct harness *h)
{
	uint64_t address = (uintptr_t)h->locked;

	h->ops->queue_destroy(h->transfers);
	if (h->ops->host_unregister)
		h->ops->host_unregister(h->space, address, DEVICE_CHUNK_MIN);
}

void harness_start(struct harness *h, const struct device_ops *ops)
{
	harness_start_with(h, ops, HARNESS_THREADS);
}

void harness_start_with(struct harness *h, const struct device_ops *ops, unsigned threads)
{
	static uint64_t starts; /* each at an address that was not another's before */
	struct device_config config = {.threads = HARNESS_POOL};

	memset(h, 0, sizeof *h);
	h->ops = ops;
	h->thread_count = threads;
	h->host = (struct device_host){h, kick, print, cache_load, cache_store, quiet, explain};
	pthread_mutex_init(&h->lock, NULL);
	pthread_cond_init(&h->kicked, NULL);
	pthread_cond_init(&h->finished, NULL);
	fflush(stdout);
	h->out = dup(STDOUT_FILENO);
	start_step(h, "open the device", ops->open(&config, &h->host, &h->device));
	/* A real driver has its own idea of the others. */
	h->base = ops->poll && !getenv("GDEV_CUDA_DRIVER")
			  ? ARENA_BASE + starts++ * HARNESS_BYTES * 16
			  : harness_free_range(HARNESS_BYTES);
	start_step(h, "create a space", ops->space_create(h->device, &h->space));
	start_step(
		h, "reserve its addresses", ops->space_reserve(h->space, h->base, HARNESS_BYTES));
	if (ops->poll)
		h->thread_count = min_of(threads, 1u);
	for (unsigned i = 0; i < h->thread_count; i++)
		assert_int_equal(
			pthread_create(&h->threads[i], NULL, ops->poll ? ask : serve, h), 0);
	map_host(h);
}

void harness_stop(struct harness *h)
{
	pthread_mutex_lock(&h->lock);
	h->stopping = true;
	pthread_cond_broadcast(&h->kicked);
	pthread_mutex_unlock(&h->lock);
	for (unsigned i = 0; i < h->thread_count; i++)
		pthread_join(h->threads[i], NULL);
	unmap_host(h);
	h->ops->space_destroy(h->space);
	h->ops->close(h->device);
	dup2(h->out, STDOUT_FILENO);
	close(h->out);
	for (size_t i = 0; i < h->cached; i++)
		free(h->cache[i].bytes);
	pthread_mutex_destroy(&h->lock);
	pthread_cond_destroy(&h->kicked);
	pthread_cond_destroy(&h->finished);
}

uint64_t harness_address(const struct harness *h, unsigned index)
{
	return h->base + index * DEVICE_CHUNK_MIN;
}

struct device_chunk *harness_map(struct harness *h, unsigned index)
{
	struct device_chunk *chunk;

	assert_int_equal(h->ops->chunk_create(h->device, DEVICE_CHUNK_MIN, &chunk), 0);
	assert_int_equal(h->ops->map(h->space, harness_address(h, index), chunk, false), 0);
	return chunk;
}

void harness_unmap(struct harness *h, unsigned index, struct device_chunk *chunk)
{
	h->ops->unmap(h->space, harness_address(h, index), chunk);
	h->ops->chunk_destroy(chunk);
}

static void transfer(
	struct harness *h, enum copy_direction direction, uint64_t to, uint64_t from, size_t length)
{
	struct submitted s = {.command = {.kind = DEVICE_COPY,
				      .copy = {.direction = direction,
					      .destination = to,
					      .source = from,
					      .width = length,
					      .height = 1,
					      .depth = 1}}};

	assert_int_equal(harness_run(h, h->transfers, &s), 0);
}

void harness_read(struct harness *h, uint64_t address, void *bytes, size_t length)
{
	transfer(h, COPY_FROM_DEVICE, (uintptr_t)h->locked, address, length);
	memcpy(bytes, h->locked, length);
}

void harness_write(struct harness *h, uint64_t address, const void *bytes, size_t length)
{
	memcpy(h->locked, bytes, length);
	transfer(h, COPY_TO_DEVICE, address, (uintptr_t)h->locked, length);
}

uint32_t harness_word(struct harness *h, uint64_t address)
{
	uint32_t word;

	harness_read(h, address, &word, sizeof word);
	return word;
}

void harness_set_word(struct harness *h, uint64_t address, uint32_t value)
{
	harness_write(h, address, &value, sizeof value);
}

int harness_module_load(struct harness *h, const void *image, size_t length, struct device_log *log,
	struct device_module **module)
{
	int error = h->ops->module_load(h->space, image, length, log, module);

	if (!error && h->ops->module_open)
		error = h->ops->module_open(*module, log);
	else
		return error;
	if (error)
		h->ops->module_unload(*module);
	return error;
}

struct device_queue *harness_queue(struct harness *h)
{
	struct device_queue *queue;

	assert_int_equal(h->ops->queue_create(h->space, 0, &queue), 0);
	return queue;
}

static void done(struct device_command *command, int error)
{
	static unsigned order;
	struct submitted *s = (struct submitted *)command;
	struct harness *h = s->harness;

	pthread_mutex_lock(&h->lock);
	s->done++;
	s->error = error;
	s->order = ++order;
	pthread_cond_broadcast(&h->finished);
	pthread_mutex_unlock(&h->lock);
}

void harness_submit(struct harness *h, struct device_queue *queue, struct submitted *s)
{
	s->harness = h;
	s->done = 0;
	if (!s->command.done)
		s->command.done = done;
	h->ops->submit(queue, &s->command);
}

int harness_wait(struct harness *h, struct submitted *s)
{
	int error;

	pthread_mutex_lock(&h->lock);
	while (!s->done)
		pthread_cond_wait(&h->finished, &h->lock);
	error = s->error;
	pthread_mutex_unlock(&h->lock);
	return error;
}

bool harness_is_done(struct harness *h, struct submitted *s)
{
	bool is;

	pthread_mutex_lock(&h->lock);
	is = s->done > 0;
	pthread_mutex_unlock(&h->lock);
	return is;
}

int harness_run(struct harness *h, struct device_queue *queue, struct submitted *s)
{
	harness_submit(h, queue, s);
	return harness_wait(h, s);
}

/* NULL: the driver has no such function, or there is none. */
static void *driver_function(const char *name)
{
	const char *path = getenv("GDEV_CUDA_DRIVER");
	void *library = path ? dlopen(path, RTLD_NOW | RTLD_NOLOAD) : NULL;
	void *function = library ? dlsym(library, name) : NULL;

	if (library)
		dlclose(library);
	return function;
}

int harness_ask_driver(const char *what)
{
	unsigned (*count)(void) = (unsigned (*)(void))driver_function(what);

	return count ? (int)count() : -1;
}

bool harness_let_fail(const char *calls)
{
	void (*let_fail)(const char *) = (void (*)(const char *))driver_function("fake_let_fail");

	if (let_fail)
		let_fail(calls);
	return let_fail;
}
