/* SPDX-License-Identifier: MIT
 *
 * See ptx_double.h. Every module has all of the kernels below and one variable, `answer`.
 */
#include "ptx_double.h"

#include <errno.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "device/cpu/ptx/ptx.h"

#define OBJECT_MAGIC 0x4a424f44u

atomic_uint double_compiles;

struct ptx_module {
	uint8_t hash[16];
};

struct object {
	uint32_t magic, kernel, block[3];
};

static uint64_t threads_of(const struct ptx_launch *l)
{
	return (uint64_t)l->block[0] * l->block[1] * l->block[2];
}

static const uint64_t *params_of(const struct ptx_launch *l)
{
	return l->params;
}

static void empty(
	const struct ptx_launch *l, const struct ptx_scratch *s, uint64_t first, uint64_t end)
{
}

/* (uint32_t *counter): every thread of every block adds one. */
static void count(
	const struct ptx_launch *l, const struct ptx_scratch *s, uint64_t first, uint64_t end)
{
	atomic_uint *counter = (atomic_uint *)params_of(l)[0];

	for (uint64_t b = first; b < end; b++)
		for (uint64_t t = 0; t < threads_of(l); t++)
			atomic_fetch_add_explicit(counter, 1, memory_order_relaxed);
}

/* (uint32_t *blocks, uint32_t *by_thread, uint64_t ns): each block marks itself and takes a while. */
static void mark(
	const struct ptx_launch *l, const struct ptx_scratch *s, uint64_t first, uint64_t end)
{
	const uint64_t *p = params_of(l);

	for (uint64_t b = first; b < end; b++) {
		uint64_t until = clock_now_ns() + p[2];

		((uint32_t *)p[0])[b]++;
		atomic_fetch_add((atomic_uint *)p[1] + s->pool_thread, 1);
		while (clock_now_ns() < until)
			sched_yield();
	}
}

/* (uint32_t *flag): until somebody else sets it; by a copy, which no sanitizer takes for atomic. */
static __attribute__((no_sanitize_thread)) void wait_for(
	const struct ptx_launch *l, const struct ptx_scratch *s, uint64_t first, uint64_t end)
{
	while (!atomic_load((atomic_uint *)params_of(l)[0]))
		sched_yield();
}

/* (uint64_t ns): sleeps, as far as the clocks can tell like one that has no processor. */
static void doze(
	const struct ptx_launch *l, const struct ptx_scratch *s, uint64_t first, uint64_t end)
{
	nanosleep(&(struct timespec){0, (long)params_of(l)[0]}, NULL);
}

/* (uint32_t *at, uint64_t value) */
static void store(
	const struct ptx_launch *l, const struct ptx_scratch *s, uint64_t first, uint64_t end)
{
	*(volatile uint32_t *)params_of(l)[0] = (uint32_t)params_of(l)[1];
}

static void divide(
	const struct ptx_launch *l, const struct ptx_scratch *s, uint64_t first, uint64_t end)
{
	volatile int zero = 0;

#if defined(__x86_64__)
	__asm__ volatile("idivl %1" : : "a"(1), "m"(zero), "d"(0));
#endif
}

static void trap(
	const struct ptx_launch *l, const struct ptx_scratch *s, uint64_t first, uint64_t end)
{
	l->runtime->trap(l);
}

static void deadlock(
	const struct ptx_launch *l, const struct ptx_scratch *s, uint64_t first, uint64_t end)
{
	static const uint32_t block[3] = {1, 2, 3}, lines[35] = {7, 9, 7, [33] = 11};

	l->runtime->deadlock(l, "deadlock", block, lines, 35);
}

static void fail_assert(
	const struct ptx_launch *l, const struct ptx_scratch *s, uint64_t first, uint64_t end)
{
	static const uint32_t block[3] = {1, 2, 3}, thread[3] = {4, 5, 6};

	l->runtime->assert_fail(l, "x > 0", "a.cu", 12, "void f(int)", block, thread);
}

/* (const char *format, args…) */
static void print(
	const struct ptx_launch *l, const struct ptx_scratch *s, uint64_t first, uint64_t end)
{
	l->runtime->print(l, (const char *)params_of(l)[0], params_of(l) + 1);
}

/* (uint64_t *out, uint64_t size): allocates, writes, frees one and keeps another. */
static void allocate(
	const struct ptx_launch *l, const struct ptx_scratch *s, uint64_t first, uint64_t end)
{
	uint64_t *out = (uint64_t *)params_of(l)[0], size = params_of(l)[1];
	char *a = l->runtime->allocate(l, size), *b = l->runtime->allocate(l, size);

	if (a)
		memset(a, 1, size);
	l->runtime->release(l, a);
	l->runtime->release(l, NULL);
	out[0] = (uint64_t)(uintptr_t)a;
	out[1] = (uint64_t)(uintptr_t)b;
}

/* (void *pointer) */
static void release(
	const struct ptx_launch *l, const struct ptx_scratch *s, uint64_t first, uint64_t end)
{
	l->runtime->release(l, (void *)params_of(l)[0]);
}

/* (uint32_t *ok): for each block, the scratch is as promised, the variable where it should be. */
static void inspect(
	const struct ptx_launch *l, const struct ptx_scratch *s, uint64_t first, uint64_t end)
{
	uintptr_t all = (uintptr_t)s->shared | (uintptr_t)s->locals | (uintptr_t)s->saved;

	memset(s->shared, 1, l->total_shared_bytes);
	memset(s->locals, 2, 4096);
	memset(s->saved, 3, 8192);
	for (uint64_t b = first; b < end; b++)
		((uint32_t *)params_of(l)[0])[b] =
			all % 64 == 0 && (uintptr_t)l->params % 16 == 0 &&
			l->total_shared_bytes == 100 + l->dynamic_shared_bytes &&
			*(uint32_t *)l->globals == 42;
}

/* (uint64_t): eats the stack. */
static void overflow(
	const struct ptx_launch *l, const struct ptx_scratch *s, uint64_t first, uint64_t end)
{
	volatile char page[65536];

	page[0] = page[65535] = 1;
	if (first != UINT64_MAX)
		overflow(l, s, first + (uint64_t)page[0], end);
	page[1] = 1;
}

static const struct ptx_param params[] = {{0, 8, 8}, {8, 8, 8}, {16, 8, 8}};

#define KERNEL(n, count, ...)                                                                      \
	{                                                                                          \
		{.name = #n,                                                                       \
			.params = params,                                                          \
			.param_count = count,                                                      \
			.param_bytes = 8 * count,                                                  \
			.registers = 16,                                                           \
			.max_threads = 1024,                                                       \
			.ptx_version = 80,                                                         \
			.target = 75,                                                              \
			__VA_ARGS__},                                                              \
			n                                                                          \
	}

static const struct {
	struct ptx_kernel kernel;
	ptx_run run;
} kernels[] = {
	KERNEL(empty, 0),
	KERNEL(count, 1),
	KERNEL(mark, 3),
	KERNEL(wait_for, 1),
	KERNEL(doze, 1),
	KERNEL(store, 2),
	KERNEL(divide, 0),
	KERNEL(trap, 0),
	KERNEL(deadlock, 0),
	KERNEL(fail_assert, 0),
	KERNEL(print, 3),
	KERNEL(allocate, 2),
	KERNEL(release, 1),
	KERNEL(inspect, 1, .shared_bytes = 100),
	KERNEL(overflow, 1),
	{{.name = "bounded", .max_threads = 128, .required_block = {16, 2, 1}, .target = 75},
		empty},
	{{.name = "small", .max_threads = 128, .target = 75}, empty},
	{{.name = "uncompilable", .max_threads = 1024, .target = 75}, NULL},
};

int ptx_parse(const char *text, size_t length, struct ptx_log *log, struct ptx_module **out)
{
	struct ptx_module *module;

	if (length < strlen(DOUBLE_PTX) || memcmp(text, DOUBLE_PTX, strlen(DOUBLE_PTX))) {
		if (log->size)
			strncpy(log->text, "no PTX of the double's", log->size - 1);
		return -EINVAL;
	}
	module = calloc(1, sizeof *module);
	for (size_t i = 0; i < length; i++)
		module->hash[i % 16] ^= (uint8_t)text[i];
	*out = module;
	return 0;
}

void ptx_module_destroy(struct ptx_module *module)
{
	free(module);
}

void ptx_module_hash(const struct ptx_module *module, uint8_t hash[16])
{
	memcpy(hash, module->hash, 16);
}

void ptx_globals_layout(const struct ptx_module *module, size_t *bytes, size_t *align)
{
	*bytes = 16;
	*align = 16;
}

void ptx_globals_init(const struct ptx_module *module, void *block)
{
	*(uint32_t *)block = 42;
}

void ptx_globals_visit(const struct ptx_module *module,
	void (*visit)(void *owner, uint64_t offset, uint64_t size), void *owner)
{
}

const char *ptx_source_line(const struct ptx_module *module, uint32_t ptx_line, uint32_t *line)
{
	return NULL;
}

bool ptx_globals_managed(const struct ptx_module *module)
{
	return false;
}

bool ptx_global_is_managed(const struct ptx_module *module, const char *name)
{
	return false;
}

int ptx_global_find(
	const struct ptx_module *module, const char *name, uint64_t *offset, uint64_t *size)
{
	if (strcmp(name, "answer"))
		return -ENOENT;
	*offset = 0;
	*size = 4;
	return 0;
}

size_t ptx_kernel_count(const struct ptx_module *module)
{
	return array_length(kernels);
}

/* No kernel here launches another one. */
const struct ptx_kernel *ptx_kernel_at_address(const struct ptx_module *module, uint64_t address)
{
	return NULL;
}

const struct ptx_kernel *ptx_kernel_at(const struct ptx_module *module, size_t index)
{
	return index < array_length(kernels) ? &kernels[index].kernel : NULL;
}

const struct ptx_kernel *ptx_kernel_find(const struct ptx_module *module, const char *name)
{
	for (size_t i = 0; i < array_length(kernels); i++)
		if (!strcmp(kernels[i].kernel.name, name))
			return &kernels[i].kernel;
	return NULL;
}

int ptx_list(const struct ptx_module *module, const struct ptx_kernel *kernel,
	const uint32_t block[3], void (*say)(void *owner, enum ptx_form form, const char *text),
	void *owner)
{
	return -ENOTSUP;
}

int ptx_compile(const struct ptx_module *module, const struct ptx_kernel *kernel,
	const uint32_t block[3], struct ptx_log *log, void **out, size_t *size)
{
	struct object *object;
	uint32_t index = 0;

	while (&kernels[index].kernel != kernel)
		index++;
	if (!kernels[index].run)
		return -ENOTSUP;
	object = malloc(sizeof *object);
	*object = (struct object){OBJECT_MAGIC, index, {block[0], block[1], block[2]}};
	*out = object;
	*size = sizeof *object;
	atomic_fetch_add(&double_compiles, 1);
	return 0;
}

int ptx_compile_checked(const struct ptx_module *module, const struct ptx_kernel *kernel,
	const uint32_t block[3], struct ptx_log *log, void **object, size_t *size)
{
	return -ENOTSUP;
}

void ptx_prepare(void)
{
}

int ptx_link(const void *bytes, size_t size, const struct ptx_code **out)
{
	const struct object *object = bytes;
	struct ptx_code *code;

	if (size != sizeof *object || object->magic != OBJECT_MAGIC)
		return -EINVAL;
	code = malloc(sizeof *code);
	*code = (struct ptx_code){kernels[object->kernel].run, 4096, 8192};
	*out = code;
	return 0;
}

void ptx_unlink(const struct ptx_code *code)
{
	free((void *)code);
}
