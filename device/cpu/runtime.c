/* SPDX-License-Identifier: MIT
 *
 * What compiled kernels call back: printing, ending with an error, and the device's malloc. All of it
 * runs on a pool thread under a fault guard, which is suspended wherever a lock may be taken.
 */
#include "device/cpu/cpu.h"

#include <errno.h>
#include <sched.h>
#include <search.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/log.h"
#include "device/cpu/checking/checking.h"
#include "device/cpu/fault.h"
#include "device/cpu/print.h"
#include "device/cpu/ptx/tensor.h"
#include "device/cpu/ptx/texture.h"
#include "gdev/error.h"

#define SENTENCE_BYTES 1024
#define STACK_RESERVE (64u << 10) /* for what code calls at the end of its stack */
#define STACK_LEAST (128u << 10)  /* what a thread has left here, if nobody says */

struct allocation {
	const void *key; /* first: what the tree compares */
	uint64_t bytes;
};

static struct device_space *space_of(const struct ptx_launch *launch)
{
	return ((struct cpu_job *)launch->owner)->space;
}

static void print_out(void *owner, const char *bytes, size_t length)
{
	const struct device_host *host = owner;
	struct fault_guard *guard = fault_suspend();

	host->print(host->owner, bytes, length);
	fault_resume(guard);
}

static void buffer_init(struct print_buffer *buffer, const struct ptx_launch *launch)
{
	buffer->out = print_out;
	buffer->owner = (void *)space_of(launch)->device->host;
	buffer->used = 0;
}

static int runtime_print(const struct ptx_launch *launch, const char *format, const void *args)
{
	struct print_buffer buffer;
	int count;

	buffer_init(&buffer, launch);
	count = print_format(&buffer, format, args);
	print_flush(&buffer);
	return count;
}

static __attribute__((noreturn)) void runtime_trap(const struct ptx_launch *launch)
{
	fault_raise(-GDEV_E_TRAP);
}

static __attribute__((noreturn)) void runtime_assert_fail(const struct ptx_launch *launch,
	const char *message, const char *file, uint32_t line, const char *function,
	const uint32_t block[3], const uint32_t thread[3])
{
	struct print_buffer buffer;

	buffer_init(&buffer, launch);
	print_assert(&buffer, message, file, line, function, block, thread);
	print_flush(&buffer);
	fault_raise(-GDEV_E_ASSERT);
}

/* The lanes of a warp that wait at the same line as lane `first`. */
static uint32_t lanes_together(const uint32_t *lines, uint32_t count, uint32_t first)
{
	uint32_t lanes = 0;

	for (uint32_t l = 0; l < count; l++)
		lanes |= (uint32_t)(lines[l] == lines[first]) << l;
	return lanes;
}

static void describe_deadlock(char *text, size_t size, const uint32_t *lines, uint32_t threads)
{
	size_t used = 0;

	for (uint32_t t = 0; t < threads && used < size; t++) {
		uint32_t warp = t & ~31u;
		uint32_t lanes =
			lanes_together(lines + warp, min_of(threads - warp, 32u), t - warp);

		if (lines[t] && !(lanes & ((1u << (t - warp)) - 1))) /* the first of these lanes */
			used += (size_t)snprintf(text + used, size - used,
				"%s lanes %08x of warp %u at line %u", used ? "," : "", lanes,
				warp / 32, lines[t]);
	}
}

static __attribute__((noreturn)) void runtime_deadlock(const struct ptx_launch *launch,
	const char *kernel, const uint32_t block[3], const uint32_t *lines, uint32_t threads)
{
	const struct device_host *host = space_of(launch)->device->host;
	struct fault_guard *guard = fault_suspend();
	char sentence[SENTENCE_BYTES], where[SENTENCE_BYTES / 2] = "";

	describe_deadlock(where, sizeof where, lines, threads);
	snprintf(sentence, sizeof sentence,
		"kernel %.200s, block (%u,%u,%u): its threads wait for each other for ever:%s",
		kernel, block[0], block[1], block[2], where);
	log_warning("%s", sentence);
	if (host->explain)
		host->explain(host->owner, sentence);
	fault_resume(guard);
	fault_raise(-GDEV_E_LAUNCH_TIMEOUT);
}

static int compare(const void *a, const void *b)
{
	uintptr_t x = (uintptr_t)((const struct allocation *)a)->key;
	uintptr_t y = (uintptr_t)((const struct allocation *)b)->key;

	return x < y ? -1 : x > y;
}

static void *heap_allocate(struct device_space *space, uint64_t size)
{
	struct allocation *allocation;
	void *memory = NULL;

	if (size > space->heap_limit)
		return NULL;
	size = align_up(max_of(size, (uint64_t)1), 16); /* nothing takes something, too */
	if (space->heap_bytes > space->heap_limit || size > space->heap_limit - space->heap_bytes)
		return NULL;
	allocation = malloc(sizeof *allocation);
	if (allocation)
		memory = aligned_alloc(16, size);
	if (!memory) {
		free(allocation);
		return NULL;
	}
	*allocation = (struct allocation){memory, size};
	if (!tsearch(allocation, &space->heap, compare)) {
		free(memory);
		free(allocation);
		return NULL;
	}
	space->heap_bytes += size;
	return memory;
}

static void *runtime_allocate(const struct ptx_launch *launch, uint64_t size)
{
	struct fault_guard *guard = fault_suspend();
	struct device_space *space = space_of(launch);
	void *memory;

	pthread_mutex_lock(&space->heap_lock);
	memory = heap_allocate(space, size);
	pthread_mutex_unlock(&space->heap_lock);
	if (memory && space->checking)
		checking_add(space->checking, (uint64_t)(uintptr_t)memory, size ? size : 1, false);
	fault_resume(guard);
	return memory;
}

/* False when a kernel frees what it has not. */
static bool heap_release(struct device_space *space, void *pointer)
{
	struct allocation key = {.key = pointer}, **found = tfind(&key, &space->heap, compare);
	struct allocation *allocation;

	if (!found)
		return false;
	allocation = *found;
	tdelete(allocation, &space->heap, compare);
	space->heap_bytes -= allocation->bytes;
	free(allocation);
	free(pointer);
	return true;
}

static void runtime_release(const struct ptx_launch *launch, void *pointer)
{
	struct fault_guard *guard = fault_suspend();
	struct device_space *space = space_of(launch);
	bool known;

	if (pointer && space->checking)
		checking_remove(space->checking, (uint64_t)(uintptr_t)pointer);
	if (pointer) {
		pthread_mutex_lock(&space->heap_lock);
		known = heap_release(space, pointer);
		pthread_mutex_unlock(&space->heap_lock);
	}
	fault_resume(guard);
	if (pointer && !known)
		fault_raise(-GDEV_E_TRAP);
}

static void allocation_free(void *node)
{
	struct allocation *allocation = node;

	free((void *)allocation->key);
	free(allocation);
}

void cpu_heap_finish(struct device_space *space)
{
	tdestroy(space->heap, allocation_free);
	space->heap = NULL;
}

/* Also where a block learns that another one has failed, for which it would wait forever. */
static void runtime_give_way(const struct ptx_launch *launch)
{
	if (atomic_load_explicit(&((struct cpu_job *)launch->owner)->error, memory_order_relaxed))
		fault_raise(-GDEV_E_SESSION_LOST);
	sched_yield();
}

void cpu_end_with(const struct ptx_launch *launch, int error, const char *sentence)
{
	const struct device_host *host = space_of(launch)->device->host;
	struct fault_guard *guard = fault_suspend();

	log_warning("%s", sentence);
	if (host->explain)
		host->explain(host->owner, sentence);
	fault_resume(guard);
	fault_raise(error);
}

static void runtime_texture(const struct ptx_launch *launch, uint32_t word, uint64_t handle,
	const uint32_t *operands, uint32_t *results)
{
	switch (texture_execute(word, handle, operands, results)) {
	case TEXTURE_DONE:
		return;
	case TEXTURE_NO_OBJECT:
		cpu_end_with(launch, -GDEV_E_ILLEGAL_ADDRESS,
			"a kernel used a handle that is none of a texture, or of a surface, as it must be");
	case TEXTURE_NOT_BOUND:
		cpu_end_with(launch, -GDEV_E_ILLEGAL_ADDRESS,
			"a kernel used a texture or surface reference that nothing is bound to");
	case TEXTURE_OUTSIDE:
		cpu_end_with(launch, -GDEV_E_TRAP,
			"a kernel used a position outside a surface, or one that is not aligned");
	}
}

static uint32_t runtime_tensor(const struct ptx_launch *launch, uint32_t word, const void *map,
	const int32_t *numbers, void *shared, uint64_t at)
{
	uint32_t bytes = 0;

	switch (tensor_move(word, map, numbers, shared, at, launch->total_shared_bytes, &bytes)) {
	case TENSOR_DONE:
		break;
	case TENSOR_NO_MAP:
		cpu_end_with(launch, -GDEV_E_ILLEGAL_ADDRESS,
			"a kernel used what is no tensor map, or one of another rank or mode, as one");
	case TENSOR_OUTSIDE:
		cpu_end_with(launch, -GDEV_E_ILLEGAL_ADDRESS,
			"a kernel copied a box of a tensor that does not fit into shared memory, or to "
			"an address that is no multiple of 128");
	case TENSOR_UNSUPPORTED:
		cpu_end_with(launch, -ENOTSUP,
			"a kernel reduced to a tensor in a way that the software GPU does not support "
			"for its type");
	}
	return bytes;
}

static __attribute__((noreturn)) void runtime_unsupported(
	const struct ptx_launch *launch, uint32_t line)
{
	const struct cpu_job *job = launch->owner;
	char sentence[SENTENCE_BYTES];

	snprintf(sentence, sizeof sentence,
		"kernel %.200s: line %u of its PTX has an operand that the software GPU does not support",
		cpu_job_launched(job, job->command)->function->kernel->name, line);
	cpu_end_with(launch, -ENOTSUP, sentence);
}

static __attribute__((noreturn)) void runtime_overflow(const struct ptx_launch *launch)
{
	const struct cpu_job *job = launch->owner;
	char sentence[SENTENCE_BYTES];

	snprintf(sentence, sizeof sentence,
		"kernel %.200s: the calls of a thread need more than its stack, %llu bytes (cudaLimitStackSize)",
		cpu_job_launched(job, job->command)->function->kernel->name,
		(unsigned long long)atomic_load(&job->space->stack_bytes));
	cpu_end_with(launch, -GDEV_E_STACK_OVERFLOW, sentence);
}

/* The lowest address of the calling thread's stack, found once; initial-exec as in fault.c. */
static __thread uint64_t stack_low __attribute__((tls_model("initial-exec")));

static void find_stack(uint64_t here)
{
	pthread_attr_t attributes;
	size_t bytes;
	void *low;

	stack_low = here - STACK_LEAST;
	if (pthread_getattr_np(pthread_self(), &attributes))
		return;
	if (!pthread_attr_getstack(&attributes, &low, &bytes))
		stack_low = (uint64_t)(uintptr_t)low + STACK_RESERVE;
	pthread_attr_destroy(&attributes);
}

uint64_t cpu_stack_end(uint64_t bytes)
{
	uint64_t here = (uint64_t)(uintptr_t)__builtin_frame_address(0);

	if (!stack_low)
		find_stack(here);
	return max_of(here - min_of(bytes, here), stack_low);
}

const struct ptx_runtime cpu_runtime = {
	.print = runtime_print,
	.trap = runtime_trap,
	.assert_fail = runtime_assert_fail,
	.allocate = runtime_allocate,
	.release = runtime_release,
	.deadlock = runtime_deadlock,
	.give_way = runtime_give_way,
	.cluster_meet = cpu_cluster_meet,
	.cluster_give_way = cpu_cluster_give_way,
	.unsupported = runtime_unsupported,
	.overflow = runtime_overflow,
	.launch_prepare = cpu_child_prepare,
	.launch = cpu_child_launch,
	.device_call = cpu_device_call,
	.texture = runtime_texture,
	.access = check_access,
	.order = check_order,
	.tensor = runtime_tensor,
	.rows = check_rows,
	.bulk = check_bulk,
	.box = check_box,
};
