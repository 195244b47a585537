/* SPDX-License-Identifier: MIT
 *
 * A kernel's code is the same in each process, wherever its memory lies: the compiler must not go by addresses. The test runs
 * itself a few times. Each of these processes takes memory of other sizes before it compiles anything, so that what comes
 * behind lies elsewhere, also where the system does not move the heap.
 */
#include "harness.h"

#include <glob.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <unistd.h>

enum { PROCESSES = 3, MOVES = 200, LISTING_BYTES = 1 << 16, MIN_KERNELS = 80, SANITIZED_STEP = 6 };

static const uint32_t block[3] = {32, 2, 1};

/* ---- what such a process does ---- */

static void *kept[MOVES];

/* Which of the files are compiled: with a sanitizer, which makes that slow, each sixth. */
static size_t step(void)
{
	return getenv("ASAN_OPTIONS") ? SANITIZED_STEP : 1;
}

static void move_memory(unsigned seed)
{
	srand(seed);
	for (unsigned k = 0; k < MOVES; k++) {
		char *volatile hole;

		kept[k] = malloc(1 + (size_t)rand() % 5000);
		hole = malloc(1 + (size_t)rand() % 5000);
		free(hole);
	}
}

static void free_memory(void)
{
	for (unsigned k = 0; k < MOVES; k++)
		free(kept[k]);
}

static void list_kernel(const struct ptx_module *module, const struct ptx_kernel *k)
{
	struct ptx_log log = {0};
	uint64_t hash = 0xcbf29ce484222325ull;
	void *object = NULL;
	size_t size = 0;
	int error = ptx_compile(module, k, block, &log, &object, &size);

	for (size_t n = 0; n < size && !error; n++)
		hash = (hash ^ ((uint8_t *)object)[n]) * 0x100000001b3ull;
	printf("%s: %d, %zu bytes, %016llx\n", k->name, error, size, (unsigned long long)hash);
	free(object);
}

static int list(unsigned seed)
{
	glob_t files;

	move_memory(seed);
	if (glob(KERNELS "/*.ptx", 0, NULL, &files))
		return 1;
	for (size_t f = 0; f < files.gl_pathc; f += step()) {
		struct program p;

		load_file(&p, strrchr(files.gl_pathv[f], '/') + 1);
		for (size_t k = 0; k < ptx_kernel_count(p.module); k++)
			list_kernel(p.module, ptx_kernel_at(p.module, k));
		unload(&p);
	}
	globfree(&files);
	free_memory();
	return 0;
}

/* ---- the test ---- */

static void read_listing(FILE *from, char *text)
{
	size_t bytes = fread(text, 1, LISTING_BYTES, from);

	assert_true(bytes < LISTING_BYTES);
	text[bytes] = 0;
	assert_int_equal(pclose(from), 0);
}

static unsigned count_lines(const char *text)
{
	unsigned lines = 0;

	while ((text = strchr(text, '\n')))
		text++, lines++;
	return lines;
}

static void compare_lines(char *a, char *b)
{
	char *rest_of_a = NULL, *rest_of_b = NULL;

	a = strtok_r(a, "\n", &rest_of_a);
	b = strtok_r(b, "\n", &rest_of_b);
	while (a && b && !strcmp(a, b)) {
		a = strtok_r(NULL, "\n", &rest_of_a);
		b = strtok_r(NULL, "\n", &rest_of_b);
	}
	if (a || b)
		fail_msg("one process made %s\nanother %s", a ? a : "nothing", b ? b : "nothing");
}

static void code_does_not_depend_on_addresses(void **state)
{
	static char listings[PROCESSES][LISTING_BYTES];
	FILE *runs[PROCESSES];

	for (unsigned k = 0; k < PROCESSES; k++) {
		char command[40];

		snprintf(command, sizeof(command), "exec /proc/%d/exe %u", (int)getpid(), k + 1);
		runs[k] = popen(command, "r");
		assert_non_null(runs[k]);
	}
	for (unsigned k = 0; k < PROCESSES; k++)
		read_listing(runs[k], listings[k]);
	assert_true(count_lines(listings[0]) >= MIN_KERNELS / (step() * step()));
	for (unsigned k = 1; k < PROCESSES; k++) {
		char first[LISTING_BYTES];

		memcpy(first, listings[0], LISTING_BYTES);
		compare_lines(first, listings[k]);
	}
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(code_does_not_depend_on_addresses),
	};

	if (argc == 2)
		return list((unsigned)strtoul(argv[1], NULL, 10));
	return cmocka_run_group_tests(tests, NULL, NULL);
}
