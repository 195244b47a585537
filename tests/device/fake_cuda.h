/* SPDX-License-Identifier: MIT
 *
 * Between the files of the driver library that is made for tests: see fake_cuda.c.
 */
#ifndef GDEV_TESTS_DEVICE_FAKE_CUDA_H
#define GDEV_TESTS_DEVICE_FAKE_CUDA_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <gdev/cuda.h>

#define FAKE_NAMES 16

struct CUfunc_st {
	char name[64];
	struct CUmod_st *module;
};

struct CUmod_st {
	struct CUfunc_st functions[FAKE_NAMES];
	unsigned count;
	struct {
		char name[64];
		uint32_t *value;
	} variables[FAKE_NAMES];
	unsigned variable_count;
	char *kept;       /* by blocks that left in the middle; NULL: nothing yet */
	unsigned context; /* which one it is in */
	/* fake_cuda_reference.c: to a texture, to a surface. */
	struct {
		char name[64];
		unsigned long long object; /* 0: it is not bound */
	} references[2];
	CUarray_format format; /* of memory */
	unsigned channels;
};

/* One for all that is in these files. */
extern pthread_mutex_t fake_lock;
extern CUresult fake_broken; /* sticky */
/* What the call, or "work", is to answer by FAKE_CUDA_FAIL; counted by name. With the lock. */
CUresult fake_trip(const char *name);
/* FAKE_CUDA_FAIL is that from now on; NULL: nothing. For tests, which find it by name. */
void fake_let_fail(const char *calls);
/* A range may lie in several chunks that follow each other: the first of *bytes bytes at `address`, which becomes how
 * many there are in one place. With the lock. */
char *fake_bytes_at(uint64_t address, bool write, size_t *bytes);
char *fake_byte_at(uint64_t address, bool write);
/* With the lock. All on the device, or all in one registration; what is nowhere is found out when it is executed. */
bool fake_is_of_one_kind(uint64_t address, uint64_t bytes);
/* What a call of that name is to answer: an error asked for, the sticky one, or success. */
CUresult fake_enter(const char *name);
size_t fake_device_bytes(void);
/* A context of the device comes (1) or goes (-1). False: there is no room for it on a card that processes share. */
bool fake_count_contexts(int change, CUdevice device);
/* The calling thread makes the context its own, or none. */
void fake_set_current(bool any);
/* For tests, which find them by name: how many graphs have been made and launched, and how many of their kernels
 * changed; a launch that is held. */
unsigned fake_graphs_made(void);
/* By the calling thread: graphs made, and calls of the driver. */
unsigned fake_graphs_made_here(void);
unsigned fake_calls_here(void);
unsigned fake_graph_launches(void);
unsigned fake_graph_changes(void);
unsigned fake_hold_launch(void);
unsigned fake_launch_is_held(void);
unsigned fake_let_go(void);
/* The device stops, and goes on; how many words it was told to write. */
unsigned fake_stop(void);
unsigned fake_go_on(void);
unsigned fake_write_count(void);
/* fake_cuda_green.c. How many green contexts there are; of how many multiprocessors the stream of the last launch was, 0: of all. */
unsigned fake_green_count(void);
unsigned fake_launched_on(void);
CUresult fake_stream_create(CUstream *stream, unsigned multiprocessors);
/* What it has not done yet. */
unsigned fake_pending_count(void);
/* How often the driver was asked what is free. */
unsigned fake_memory_questions(void);
/* Another process takes a GiB while the next module is being loaded. */
unsigned fake_share_next_load(void);
/* Another process takes so much. */
void fake_take(size_t bytes);
/* False: there is not so much. */
bool fake_take_if_there(size_t bytes);
/* fake_cuda_array.c. With the lock. Whether a copy has its elements there; a row of them (false: the array has no memory just
 * now); the element that an object names, or NULL. */
bool fake_array_has(CUarray array, size_t x, size_t y, size_t z, const CUDA_MEMCPY3D *copy);
bool fake_array_row(
	CUarray array, size_t x, size_t y, size_t z, char *row, size_t bytes, bool write);
/* Memory for an array, in this process, to be unmapped some time. NULL: it is not for arrays, or not so much. */
char *fake_tiles(CUmemGenericAllocationHandle handle, uint64_t offset, size_t bytes);
/* An array's memory changes when the stream comes to it, which calls fake_map_now() with the lock. */
struct fake_mapping;
CUresult fake_map_later(CUstream stream, struct fake_mapping *mapping);
void fake_map_now(struct fake_mapping *mapping);
char *fake_texel(unsigned long long handle, bool surface, uint32_t x, uint32_t y, size_t *bytes);
/* How many contexts there are now; which one is or comes next. */
unsigned fake_context_count(void);
unsigned fake_context_number(void);
/* A kernel behind what the stream has; `extra` has its parameters. */
CUresult fake_launch(const CUlaunchConfig *config, CUfunction function, void **extra);
/* Device memory of a module: copies find it there. */
void fake_place(uint64_t address, size_t bytes, void *alias);
void fake_unplace(uint64_t address);

#define ENTER()                                                                                    \
	do {                                                                                       \
		CUresult entered_ = fake_enter(__func__);                                          \
		if (entered_)                                                                      \
			return entered_;                                                           \
	} while (0)

#endif
