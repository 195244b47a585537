/* SPDX-License-Identifier: MIT
 *
 * See trial.h.
 */
#include "trial.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

enum { CHILD_SECONDS = 20 };

uint64_t luck = 1;

/* ---- a kernel, twice ---- */

static size_t bytes_of_program(const struct ptx_module *module)
{
	uint64_t offset, size;
	size_t bytes, align;

	ptx_globals_layout(module, &bytes, &align);
	return ptx_global_find(module, PREEMPT_KEPT, &offset, &size) ? bytes : offset;
}

bool trial_open(
	struct trial *t, const struct preempt_module *module, const char *name, const char *suffix)
{
	char other[512];

	snprintf(other, sizeof(other), "%s%s", name, suffix);
	t->made = preempt_kernel_find(module, name);
	t->kernel = ptx_kernel_find(t->program.module, name);
	t->other = ptx_kernel_find(t->program.module, other);
	assert_non_null(t->made);
	assert_non_null(t->kernel);
	assert_non_null(t->other);
	assert_int_equal(t->other->param_count, t->kernel->param_count + 1);
	assert_int_equal(t->other->params[t->kernel->param_count].offset, t->made->param_offset);
	t->globals_bytes = bytes_of_program(t->program.module);
	t->blocks = t->grid[0] * t->grid[1] * t->grid[2];
	assert_true(t->blocks <= TRIAL_BLOCKS);
	if (compile(&t->program, t->kernel, t->block, &t->code))
		return false;
	if (compile(&t->program, t->other, t->block, &t->other_code))
		fail_msg("%s: %s", other, t->program.log);
	return true;
}

void trial_close(struct trial *t)
{
	ptx_unlink(t->code);
	ptx_unlink(t->other_code);
	unload(&t->program);
}

void trial_run(struct trial *t, bool other, const uint32_t grid[3], uint32_t first, uint32_t count)
{
	struct run r = {.pool = 1,
		.params = t->params,
		.dynamic_shared = other ? preempt_shared_bytes(TRIAL_SHARED) : TRIAL_SHARED};

	memcpy(r.grid, grid, sizeof(r.grid));
	memcpy(r.block, t->block, sizeof(r.block));
	if (run_blocks(&t->program, other ? t->other : t->kernel, other ? t->other_code : t->code,
		    r, first, first + count) != RAN)
		_exit(TRIAL_TRAPPED);
}

/* ---- comparing ---- */

static void save(struct trial *t, uint8_t *to)
{
	memcpy(to, t->memory, t->memory_bytes);
	memcpy(to + t->memory_bytes, t->program.globals, t->globals_bytes);
}

static void restore(struct trial *t)
{
	memcpy(t->memory, t->before, t->memory_bytes);
	memcpy(t->program.globals, t->before + t->memory_bytes, t->globals_bytes);
}

/* In a child. 0, or what is wrong. */
static int compare(struct trial *t, void (*schedule)(struct trial *t))
{
	save(t, t->before);
	schedule(t);
	save(t, t->after);
	restore(t);
	for (uint32_t i = 0; i < t->blocks; i++)
		trial_run(t, false, t->grid, i, 1);
	save(t, t->before);
	return memcmp(t->before, t->after, t->memory_bytes + t->globals_bytes) ? 8 : 0;
}

static int run_whole(struct trial *t, void (*schedule)(struct trial *t))
{
	trial_run(t, false, t->grid, 0, t->blocks);
	return 0;
}

/* Runs it in a child, which may crash: its status. */
static int in_child(struct trial *t, int (*run_it)(struct trial *t, void (*)(struct trial *)),
	void (*schedule)(struct trial *t))
{
	pid_t pid = fork();
	int status;

	assert_true(pid >= 0);
	if (!pid) {
		alarm(CHILD_SECONDS);
		_exit(run_it(t, schedule));
	}
	while (waitpid(pid, &status, 0) < 0)
		assert_int_equal(errno, EINTR);
	return status;
}

bool trial_compare(struct trial *t, const char *name, void (*schedule)(struct trial *t))
{
	static const char *const wrong[] = {"", "", "", "traps", "a block left unasked",
		"a block did not leave", "", "", "memory differs"};
	int status;

	t->before = malloc(t->memory_bytes + t->globals_bytes);
	t->after = malloc(t->memory_bytes + t->globals_bytes);
	assert_true(t->before && t->after);
	status = in_child(t, run_whole, NULL);
	if (status)
		goto out;
	luck = random_draw(&luck);
	status = in_child(t, compare, schedule);
	if (status)
		fail_msg("%s: %s (status %#x)", name,
			WIFEXITED(status) && WEXITSTATUS(status) < 9 ? wrong[WEXITSTATUS(status)]
								     : "crashes",
			(unsigned)status);
out:
	free(t->before);
	free(t->after);
	return !status;
}

/* ---- kernels of files ---- */

/* An address is one of memory that holds small numbers; a number is small. */
static void set_arguments(struct trial *t)
{
	uint32_t *words = (uint32_t *)t->memory;
	uint64_t state = 3, addresses = 0;

	for (size_t i = 0; i < TRIAL_MEMORY / sizeof(*words); i++)
		words[i] = (uint32_t)(random_draw(&state) % 61);
	for (uint32_t k = 0; k < t->kernel->param_count; k++) {
		const struct ptx_param *p = &t->kernel->params[k];
		uint64_t address = (uintptr_t)t->memory + TRIAL_PIECE / 2 + addresses * TRIAL_PIECE;

		if (p->size == 8 && addresses < TRIAL_MEMORY / TRIAL_PIECE) {
			memcpy(t->params + p->offset, &address, 8);
			addresses++;
		} else {
			for (uint32_t at = 0; at + 4 <= p->size; at += 4)
				memcpy(t->params + p->offset + at, &(uint32_t){7}, 4);
		}
	}
}

static void choose_shape(struct trial *t, const struct ptx_kernel *k)
{
	static const uint32_t shapes[][3] = {{64, 1, 1}, {16, 4, 1}, {32, 1, 2}};
	const uint32_t *shape = shapes[random_draw(&luck) % 3];

	memcpy(t->block, k->required_block[0] ? k->required_block : shape, sizeof(t->block));
	if (t->block[0] * t->block[1] * t->block[2] > k->max_threads)
		memcpy(t->block, (uint32_t[3]){k->max_threads, 1, 1}, sizeof(t->block));
	memcpy(t->grid, random_draw(&luck) % 2 ? (uint32_t[3]){5, 3, 2} : (uint32_t[3]){23, 1, 1},
		sizeof(t->grid));
}

bool trial_of_file(struct trial *t, const struct preempt_module *module, const char *text,
	const char *name, const char *suffix, const uint32_t grid[3], const uint32_t block[3])
{
	*t = (struct trial){.memory_bytes = TRIAL_MEMORY};
	load_text(&t->program, text);
	choose_shape(t, ptx_kernel_find(t->program.module, name));
	if (grid) {
		memcpy(t->grid, grid, sizeof(t->grid));
		memcpy(t->block, block, sizeof(t->block));
	}
	t->memory = mmap(NULL, TRIAL_MEMORY, PROT_READ | PROT_WRITE,
		MAP_PRIVATE | MAP_ANONYMOUS | MAP_32BIT, -1, 0);
	assert_ptr_not_equal(t->memory, MAP_FAILED);
	if (!trial_open(t, module, name, suffix)) {
		trial_of_file_end(t);
		return false;
	}
	set_arguments(t);
	return true;
}

void trial_of_file_end(struct trial *t)
{
	munmap(t->memory, TRIAL_MEMORY);
	trial_close(t);
}

struct preempt_module *trial_rewrite(const char *path, uint64_t kept_bytes)
{
	struct preempt_module *module;
	FILE *file = fopen(path, "r");
	char *text = calloc(1, 1 << 20);

	if (!file)
		fail_msg("no %s", path);
	assert_non_null(text);
	assert_true(fread(text, 1, (1 << 20) - 1, file) > 0);
	fclose(file);
	if (preempt_rewrite(text, strlen(text), kept_bytes, &module))
		fail_msg("%s is not rewritten", path);
	free(text);
	return module;
}

/* ---- random kernels ---- */

struct random_params {
	const void *in;
	void *out;
	uint32_t n;
};

void trial_of_random(struct trial *t, const struct random_kernel *k,
	const struct preempt_module *module, const char *text, const char *suffix)
{
	uint64_t *input = malloc(RANDOM_INPUT);

	assert_non_null(input);
	*t = (struct trial){.grid = {k->grid, 1, 1}, .memory_bytes = random_kernel_bytes(k)};
	random_kernel_input(k, input);
	load_text(&t->program, text);
	memcpy(t->block, k->block, sizeof(t->block));
	t->memory = calloc(1, t->memory_bytes);
	assert_non_null(t->memory);
	struct random_params params = {input, t->memory, RANDOM_NUMBER};
	memcpy(t->params, &params, sizeof(params));
	assert_true(trial_open(t, module, "k", suffix));
}

void trial_of_random_end(struct trial *t)
{
	struct random_params params;

	memcpy(&params, t->params, sizeof(params));
	free((void *)params.in);
	free(t->memory);
	trial_close(t);
}
