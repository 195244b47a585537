/* SPDX-License-Identifier: MIT
 *
 * Random kernels, compiled, against the interpreter. A kernel is a number: `test-ptx-random NUMBER` prints that one and
 * runs it, `test-ptx-random FIRST LAST` runs many. One that fails is shrunk and printed. Compiled code runs in a child,
 * which may crash or hang.
 *
 * Without arguments: kernels 1, 2, 3 … for a minute. When GDEV_TEST_FULL is set: for an hour, others each time, from the
 * number that it prints; GDEV_TEST_SEED names that number.
 */
#include "harness.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "interp.h"
#include "random_kernel.h"

enum { FEATURES = RANDOM_COLLECTIVES | RANDOM_BARRIERS | RANDOM_DIVERGENT_BARRIERS | RANDOM_EXITS };
enum {
	SECONDS = 60,
	SANITIZED_SECONDS = 15,
	FULL_SECONDS = 3600,
	MOST_KERNELS = 400,
	CHILD_SECONDS = 60 /* of a processor's time */
};

struct kernel_params {
	const void *in;
	void *out;
	uint32_t n;
};

struct trial {
	struct random_kernel kernel;
	char *text;
	struct program program;
	_Alignas(16) uint64_t input[RANDOM_INPUT / 8];
	size_t bytes;
	uint8_t *want;
	uint8_t *got; /* shared with the child, as is what it says */
	char *said;
	char why[1024];
};

static void begin(struct trial *t)
{
	t->text = random_kernel_text(&t->kernel);
	random_kernel_input(&t->kernel, t->input);
	t->bytes = random_kernel_bytes(&t->kernel);
	t->want = calloc(1, t->bytes);
	t->got = mmap(NULL, t->bytes + sizeof(t->program.log), PROT_READ | PROT_WRITE,
		MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	assert_non_null(t->want);
	assert_ptr_not_equal(t->got, MAP_FAILED);
	t->said = (char *)t->got + t->bytes;
	t->why[0] = 0;
}

static void end(struct trial *t)
{
	munmap(t->got, t->bytes + sizeof(t->program.log));
	free(t->want);
	free(t->text);
}

static bool parse(struct trial *t)
{
	struct program *p = &t->program;
	struct ptx_log log = {p->log, sizeof(p->log), 0};

	p->log[0] = 0;
	p->globals = NULL;
	if (!ptx_parse(t->text, strlen(t->text), &log, &p->module))
		return true;
	snprintf(t->why, sizeof(t->why), "is not parsed: %.800s", p->log);
	return false;
}

/* ---- the two sides ---- */

/* The interpreter runs it twice, under different orders: what differs is a fault of the generator's. */
static bool interpret(struct trial *t, uint64_t schedule, uint8_t *out)
{
	struct kernel_params params = {t->input, out, RANDOM_NUMBER};
	struct interp in = {.module = t->program.module,
		.kernel = "k",
		.grid = {t->kernel.grid, 1, 1},
		.params = &params,
		.schedule = schedule};

	memcpy(in.block, t->kernel.block, sizeof(in.block));
	if (interp_run(&in) == INTERP_RAN)
		return true;
	snprintf(t->why, sizeof(t->why), "is no kernel to compare: %s", in.why);
	return false;
}

static void say_stuck(struct trial *t, uint32_t threads)
{
	size_t size = sizeof(t->program.log), n = 0;

	for (uint32_t k = 0; k < threads && n < size; k++)
		n += (size_t)snprintf(t->said + n, size - n, " %u:%u", k, stuck.lines[k]);
}

__attribute__((noreturn)) static void child(struct trial *t)
{
	struct kernel_params params = {t->input, t->got, RANDOM_NUMBER};
	const struct ptx_kernel *k = ptx_kernel_find(t->program.module, "k");
	struct run r = {.grid = {t->kernel.grid, 1, 1}, .pool = 1, .params = &params};
	const struct rlimit limit = {CHILD_SECONDS, CHILD_SECONDS};
	const struct ptx_code *code;

	memcpy(r.block, t->kernel.block, sizeof(r.block));
	setrlimit(RLIMIT_CPU, &limit);
	scratch_seed = t->kernel.seed;
	if (compile(&t->program, k, r.block, &code)) {
		snprintf(t->said, sizeof(t->program.log), "%s", t->program.log);
		_exit(2);
	}
	enum outcome outcome = run_code(&t->program, k, code, r);
	if (outcome == STUCK)
		say_stuck(t, r.block[0] * r.block[1] * r.block[2]);
	_exit(outcome == RAN ? 0 : outcome == STUCK ? 3 : 4);
}

static bool run_compiled(struct trial *t)
{
	pid_t pid = fork();
	int status;

	assert_true(pid >= 0);
	if (!pid)
		child(t);
	while (waitpid(pid, &status, 0) < 0)
		assert_int_equal(errno, EINTR);
	if (!status)
		return true;
	if (WIFSIGNALED(status))
		snprintf(t->why, sizeof(t->why), "ends with signal %d when it is compiled",
			WTERMSIG(status));
	else
		snprintf(t->why, sizeof(t->why), "%s %.800s",
			WEXITSTATUS(status) == 2   ? "cannot be compiled:"
			: WEXITSTATUS(status) == 3 ? "is stuck when it is compiled, thread:line"
						   : "traps when it is compiled",
			t->said);
	return false;
}

static bool agree(struct trial *t, const uint8_t *a, const uint8_t *b, const char *who)
{
	long n = random_kernel_difference(&t->kernel, a, b);
	uint64_t x = 0, y = 0;

	if (n < 0)
		return true;
	memcpy(&x, a + n, 4);
	memcpy(&y, b + n, 4);
	snprintf(t->why, sizeof(t->why), "thread %ld, [%%own+%ld]: %#lx, but %#lx %s",
		n / RANDOM_OWN, n % RANDOM_OWN, (unsigned long)x, (unsigned long)y, who);
	return false;
}

static bool compared(struct trial *t)
{
	bool good = parse(t);

	if (!good)
		return false;
	good = interpret(t, 0, t->want) && interpret(t, t->kernel.seed | 1, t->got) &&
	       agree(t, t->want, t->got, "when threads run in another order: no kernel to compare");
	memset(t->got, 0, t->bytes);
	good = good && run_compiled(t) && agree(t, t->want, t->got, "when it is compiled");
	ptx_module_destroy(t->program.module);
	return good;
}

static bool passes(const struct random_kernel *k, char *why, size_t size)
{
	struct trial *t = calloc(1, sizeof(*t));

	assert_non_null(t);
	t->kernel = *k;
	begin(t);
	bool good = compared(t);
	snprintf(why, size, "%s", t->why);
	end(t);
	free(t);
	return good;
}

/* ---- a kernel that fails ---- */

/* Leaves statements out as long as it fails: outer ones first, as they are drawn before those in them. */
static void shrink(struct random_kernel *k)
{
	char why[1024];
	bool again = true;

	while (again) {
		again = false;
		for (unsigned n = 1; n < k->node_count; n++) {
			if (k->nodes[n].dropped)
				continue;
			k->nodes[n].dropped = true;
			if (!passes(k, why, sizeof(why)) && !strstr(why, "no kernel to compare"))
				again = true;
			else
				k->nodes[n].dropped = false;
		}
	}
}

static void report(struct random_kernel *k, const char *why)
{
	char last[1024];

	fprintf(stderr, "random kernel %lu: %s\n", (unsigned long)k->seed, why);
	shrink(k);
	passes(k, last, sizeof(last));
	char *text = random_kernel_text(k);
	fprintf(stderr, "%u blocks of %ux%ux%u; what is left of it: %s\n%s\n", k->grid, k->block[0],
		k->block[1], k->block[2], last, text);
	free(text);
}

static uint64_t wanted[2]; /* the kernels that the command line names */

static void print_kernel(const struct random_kernel *k)
{
	char *text = random_kernel_text(k);

	puts(text);
	free(text);
}

/* So far apart that runs a second apart have none in common. */
static uint64_t first_of_full(void)
{
	const char *seed = getenv("GDEV_TEST_SEED");

	return seed ? strtoull(seed, NULL, 0) : (uint64_t)time(NULL) << 16;
}

static void random_kernels_mean_the_same_to_compiler_and_interpreter(void **state)
{
	bool full = getenv("GDEV_TEST_FULL");
	int seconds =
		getenv("ASAN_OPTIONS") ? SANITIZED_SECONDS : SECONDS; /* the same kernels again */
	time_t end_at = time(NULL) + (full ? FULL_SECONDS : seconds);
	uint64_t first = wanted[0] ? wanted[0] : full ? first_of_full() : 1;
	uint64_t last = wanted[1] ? wanted[1] : full ? UINT64_MAX : MOST_KERNELS;
	struct random_kernel *k = calloc(1, sizeof(*k));
	unsigned bad = 0;
	char why[1024];
	uint64_t seed;

	assert_non_null(k);
	if (full)
		print_message("# GDEV_TEST_SEED=%lu\n", (unsigned long)first);
	for (seed = first; seed <= last && bad < 3 && (wanted[0] || time(NULL) < end_at); seed++) {
		random_kernel_draw(k, seed, FEATURES);
		if (first == last)
			print_kernel(k);
		if (passes(k, why, sizeof(why)))
			continue;
		report(k, why);
		bad++;
	}
	free(k);
	print_message("# %lu random kernels\n", (unsigned long)(seed - first));
	assert_int_equal(bad, 0);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(random_kernels_mean_the_same_to_compiler_and_interpreter),
	};

	wanted[0] = argc > 1 ? strtoull(argv[1], NULL, 10) : 0;
	wanted[1] = argc > 2 ? strtoull(argv[2], NULL, 10) : wanted[0];
	return cmocka_run_group_tests(tests, NULL, NULL);
}
