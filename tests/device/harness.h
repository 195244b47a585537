/* SPDX-License-Identifier: MIT
 *
 * What a worker is to a device, small: threads that sleep until the device kicks and then lend
 * themselves, a space over a reserved arena, a cache, and whatever was printed.
 */
#ifndef GDEV_TESTS_DEVICE_HARNESS_H
#define GDEV_TESTS_DEVICE_HARNESS_H

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "device/ops.h"

#define HARNESS_THREADS 5
#define HARNESS_POOL 3 /* threads of the device's pool: fewer than lend themselves */
#define HARNESS_BYTES (256ull << 20)
#define HARNESS_CACHE 8

struct harness {
	const struct device_ops *ops;
	struct device_host host;
	struct device *device;
	struct device_space *space;
	uint64_t base;                  /* of the arena */
	uint8_t *locked;                /* page-locked memory at the end of the arena: 2 MiB */
	int out;                        /* standard output, which a backend may take for itself */
	struct device_queue *transfers; /* for harness_read() and harness_write() */
	pthread_t threads[HARNESS_THREADS];
	unsigned thread_count;

	pthread_mutex_t lock; /* guards the rest */
	pthread_cond_t kicked, finished;
	unsigned kicks;
	bool stopping;
	unsigned quiets; /* times that the device has come to a pause; atomic */
	char printed[8192], explained[1024];
	size_t printed_bytes;
	struct {
		uint8_t key[CODE_KEY_BYTES];
		void *bytes;
		size_t length;
	} cache[HARNESS_CACHE];
	size_t cached, cache_hits;
};

struct submitted {
	struct device_command command;
	struct harness *harness;
	unsigned done; /* times; harness->lock */
	int error;
	unsigned order; /* counts up over all commands */
};

/* An address at which `bytes` are free now, as a space needs them. */
uint64_t harness_free_range(uint64_t bytes);
void harness_start(struct harness *h, const struct device_ops *ops);
/* With at most HARNESS_THREADS threads; none: the test calls work() itself, and decides what is when. */
void harness_start_with(struct harness *h, const struct device_ops *ops, unsigned threads);
void harness_stop(struct harness *h);

/* A chunk of DEVICE_CHUNK_MIN bytes at base + index * that. */
struct device_chunk *harness_map(struct harness *h, unsigned index);
void harness_unmap(struct harness *h, unsigned index, struct device_chunk *chunk);
uint64_t harness_address(const struct harness *h, unsigned index);

/* Bytes of device memory, by copies: up to 2 MiB. */
void harness_read(struct harness *h, uint64_t address, void *bytes, size_t length);
void harness_write(struct harness *h, uint64_t address, const void *bytes, size_t length);
uint32_t harness_word(struct harness *h, uint64_t address);
void harness_set_word(struct harness *h, uint64_t address, uint32_t value);

/* Both halves of it. */
int harness_module_load(struct harness *h, const void *image, size_t length, struct device_log *log,
	struct device_module **module);

struct device_queue *harness_queue(struct harness *h);
void harness_submit(struct harness *h, struct device_queue *queue, struct submitted *s);
int harness_wait(struct harness *h, struct submitted *s);
bool harness_is_done(struct harness *h, struct submitted *s);
/* Submits, waits, and returns the error. */
int harness_run(struct harness *h, struct device_queue *queue, struct submitted *s);

/* What the driver that is made for tests has counted, by the name of its function; -1: the driver is another, or none. */
int harness_ask_driver(const char *what);
/* Which calls of that driver fail from now on, as FAKE_CUDA_FAIL names them (fake_cuda.c); NULL: none. The environment is not
 * changed for that, as the driver's threads read it. False: the driver is another. */
bool harness_let_fail(const char *calls);

#endif
