/* SPDX-License-Identifier: MIT */
#include "harness.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "device/cpu/ptx/tensor.h"
#include "device/cpu/ptx/texture.h"

char printed[4096];
char asserted[512];
struct stuck stuck;
uint64_t scratch_seed = 1;
static __thread sigjmp_buf *escape;

static int print(const struct ptx_launch *launch, const char *format, const void *args)
{
	size_t n = strlen(printed);
	int first;

	memcpy(&first, args, sizeof(first));
	return snprintf(printed + n, sizeof(printed) - n, format, first);
}

__attribute__((noreturn)) static void trap(const struct ptx_launch *launch)
{
	siglongjmp(*escape, TRAPPED);
}

__attribute__((noreturn)) static void assert_fail(const struct ptx_launch *launch,
	const char *message, const char *file, uint32_t line, const char *function,
	const uint32_t block[3], const uint32_t thread[3])
{
	snprintf(asserted, sizeof(asserted), "%s:%s:%u:%s:%u:%u", message, file, line, function,
		block[0], thread[0]);
	siglongjmp(*escape, ASSERTED);
}

static void *allocate(const struct ptx_launch *launch, uint64_t size)
{
	return malloc(size);
}

static void release(const struct ptx_launch *launch, void *pointer)
{
	free(pointer);
}

__attribute__((noreturn)) static void deadlock(const struct ptx_launch *launch, const char *kernel,
	const uint32_t block[3], const uint32_t *lines, uint32_t threads)
{
	snprintf(stuck.kernel, sizeof(stuck.kernel), "%s", kernel);
	memcpy(stuck.block, block, sizeof(stuck.block));
	memcpy(stuck.lines, lines, threads * sizeof(*lines));
	siglongjmp(*escape, STUCK);
}

__attribute__((noreturn)) static void unsupported(const struct ptx_launch *launch, uint32_t line)
{
	siglongjmp(*escape, UNSUPPORTED);
}

__attribute__((noreturn)) static void overflow(const struct ptx_launch *launch)
{
	siglongjmp(*escape, OVERFLOWED);
}

static void texture(const struct ptx_launch *launch, uint32_t word, uint64_t handle,
	const uint32_t *operands, uint32_t *results)
{
	if (texture_execute(word, handle, operands, results) != TEXTURE_DONE)
		trap(launch);
}

static uint32_t tensor(const struct ptx_launch *launch, uint32_t word, const void *map,
	const int32_t *numbers, void *shared, uint64_t at)
{
	uint32_t bytes;
	enum tensor_outcome outcome =
		tensor_move(word, map, numbers, shared, at, launch->total_shared_bytes, &bytes);

	if (outcome == TENSOR_UNSUPPORTED)
		unsupported(launch, 0);
	if (outcome != TENSOR_DONE)
		trap(launch);
	return bytes;
}

static const struct ptx_runtime runtime = {.print = print,
	.trap = trap,
	.assert_fail = assert_fail,
	.allocate = allocate,
	.release = release,
	.deadlock = deadlock,
	.unsupported = unsupported,
	.overflow = overflow,
	.texture = texture,
	.tensor = tensor};

static void *aligned(size_t bytes)
{
	void *p = aligned_alloc(64, (bytes + 127) & ~(size_t)63);

	assert_non_null(p);
	return p;
}

static void *scratch(size_t bytes)
{
	uint8_t *p = aligned(bytes);
	uint64_t state = scratch_seed;

	for (size_t n = 0; n < bytes; n++) {
		state = state * 6364136223846793005u + 1442695040888963407u;
		p[n] = (uint8_t)(state >> 56);
	}
	return p;
}

void load_text(struct program *p, const char *text)
{
	struct ptx_log log = {p->log, sizeof(p->log), 0};
	size_t bytes, align;

	p->log[0] = 0;
	if (ptx_parse(text, strlen(text), &log, &p->module))
		fail_msg("%s", p->log);
	ptx_globals_layout(p->module, &bytes, &align);
	p->globals = aligned(bytes);
	memset(p->globals, 0, bytes);
	ptx_globals_init(p->module, p->globals);
}

void load_file(struct program *p, const char *name)
{
	char path[512], *text;
	FILE *f;

	snprintf(path, sizeof(path), "%s/%s", KERNELS, name);
	f = fopen(path, "r");
	if (!f)
		fail_msg("no %s", path);
	text = calloc(1, 1 << 20);
	assert_non_null(text);
	assert_true(fread(text, 1, (1 << 20) - 1, f) > 0);
	fclose(f);
	load_text(p, text);
	free(text);
}

void unload(struct program *p)
{
	ptx_module_destroy(p->module);
	free(p->globals);
}

enum { STACK_BYTES = 1 << 18 }; /* for calls */

struct worker {
	const struct ptx_code *code;
	const struct ptx_launch *launch;
	struct ptx_scratch scratch;
	uint64_t first, end;
	enum outcome outcome;
	pthread_t thread;
};

static void *work(void *data)
{
	struct worker *w = data;
	sigjmp_buf jump;

	escape = &jump;
	w->scratch.stack_end = (uintptr_t)__builtin_frame_address(0) - STACK_BYTES;
	w->outcome = (enum outcome)sigsetjmp(jump, 0);
	if (w->outcome == RAN)
		w->code->run(w->launch, &w->scratch, w->first, w->end);
	return NULL;
}

enum outcome run_code(
	struct program *p, const struct ptx_kernel *k, const struct ptx_code *code, struct run r)
{
	return run_blocks(p, k, code, r, 0, (uint64_t)r.grid[0] * r.grid[1] * r.grid[2]);
}

enum outcome run_blocks(struct program *p, const struct ptx_kernel *k, const struct ptx_code *code,
	struct run r, uint64_t first, uint64_t end)
{
	struct worker workers[8] = {0};
	enum outcome outcome = RAN;
	struct ptx_launch launch = {.params = r.params,
		.globals = p->globals,
		.dynamic_shared_bytes = r.dynamic_shared,
		.total_shared_bytes = r.dynamic_shared + k->shared_bytes,
		.runtime = &runtime};
	uint64_t blocks = end - first;
	pthread_attr_t attributes;

	/* There is nothing behind the stack: what goes beyond its end is found out. */
	pthread_attr_init(&attributes);
	assert_int_equal(pthread_attr_setstacksize(&attributes, STACK_BYTES + (128 << 10)), 0);
	memcpy(launch.grid, r.grid, sizeof(r.grid));
	memcpy(launch.block, r.block, sizeof(r.block));
	for (unsigned t = 0; t < r.pool; t++) {
		workers[t] = (struct worker){.code = code,
			.launch = &launch,
			.first = first + blocks * t / r.pool,
			.end = first + blocks * (t + 1) / r.pool};
		workers[t].scratch = (struct ptx_scratch){scratch(launch.total_shared_bytes),
			scratch(code->local_bytes), scratch(code->saved_bytes), t};
		assert_int_equal(
			pthread_create(&workers[t].thread, &attributes, work, &workers[t]), 0);
	}
	pthread_attr_destroy(&attributes);
	for (unsigned t = 0; t < r.pool; t++) {
		pthread_join(workers[t].thread, NULL);
		if (workers[t].outcome != RAN)
			outcome = workers[t].outcome;
		free(workers[t].scratch.shared);
		free(workers[t].scratch.locals);
		free(workers[t].scratch.saved);
	}
	return outcome;
}

int compile(struct program *p, const struct ptx_kernel *k, const uint32_t block[3],
	const struct ptx_code **code)
{
	struct ptx_log log = {p->log, sizeof(p->log), 0};
	void *object;
	size_t size;
	int error = ptx_compile(p->module, k, block, &log, &object, &size);

	if (error)
		return error;
	error = ptx_link(object, size, code);
	free(object);
	return error;
}

enum outcome run(struct program *p, struct run r)
{
	const struct ptx_kernel *k = ptx_kernel_find(p->module, r.kernel);
	const struct ptx_code *code;

	for (unsigned i = 0; i < 3; i++) {
		r.grid[i] = r.grid[i] ? r.grid[i] : 1;
		r.block[i] = r.block[i] ? r.block[i] : 1;
	}
	r.pool = r.pool ? r.pool : 1;
	assert_non_null(k);
	printed[0] = asserted[0] = 0;
	if (compile(p, k, r.block, &code))
		fail_msg("%s", p->log);
	enum outcome outcome = run_code(p, k, code, r);
	ptx_unlink(code);
	return outcome;
}

int error_of(struct program *p, const char *text, const char *kernel)
{
	struct ptx_log log = {p->log, sizeof(p->log), 0};
	uint32_t block[3] = {128, 1, 1};
	struct ptx_module *module;
	void *object = NULL;
	size_t size;
	int error;

	p->log[0] = 0;
	error = ptx_parse(text, strlen(text), &log, &module);
	if (error)
		return error;
	if (kernel) {
		const struct ptx_kernel *k = ptx_kernel_find(module, kernel);

		assert_non_null(k);
		error = ptx_compile(module, k, block, &log, &object, &size);
		free(object);
	}
	ptx_module_destroy(module);
	return error;
}
