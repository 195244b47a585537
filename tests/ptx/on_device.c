/* SPDX-License-Identifier: MIT
 *
 * What the tests here compare with the interpreter, on the device that libcuda shows: NVIDIA's, or gdev's. It needs no
 * LLVM. A child does the work, since a kernel may hang or fault; another one goes on behind what ended it.
 *
 *   on_device conformance TABLE [RECORD]    each form of isa.def; RECORD gets what the device gave
 *   on_device recorded TABLE RECORD         the same, of what was recorded
 *   on_device random FIRST LAST [SECONDS]   random kernels, some processes at a time; some that differ are shrunk
 *   on_device questions TABLE RESULT        hardware.def with the device's answers
 */
#include <errno.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cuda.h>

#include "cases.h"
#include "interp.h"
#include "questions.h"
#include "random_kernel.h"

enum { FAILED = 3, NOT_TAKEN = 4 }; /* how a child ends */
/* Seconds that a child may be silent: with one form, a question; a batch, or a random kernel. */
enum { ONE_LIMIT = 8, QUESTION_LIMIT = 4 };
static unsigned limit = 15;
/* So many times as long where the time for all has no limit: the machine may be busy with other things. */
enum { PATIENCE = 8 };
enum { MOST_SHOWN = 6, WORKERS = 12, BUFFERS = 3, ERROR_LOG = 65536 };
enum { GRACE = 5 }; /* seconds that a kernel may take when the time for random ones is over */
/* Kernels that a worker shrinks, and the seconds for each. */
enum { MOST_SHRUNK = 2, SHRINKING = 3 };
enum { OPTIMISED = 4 }; /* the driver's optimisation level, its default */

/* ---- the device ---- */

struct buffer {
	void *host;
	size_t bytes;
	bool comes_back;
};

static char error_log[ERROR_LOG];

/* A child that cannot go on ends; its parent sees to what is left. */
__attribute__((noreturn, format(printf, 1, 2))) static void give_up(const char *format, ...)
{
	va_list args;

	va_start(args, format);
	vprintf(format, args);
	va_end(args);
	fflush(stdout);
	_exit(FAILED);
}

static void must(CUresult result, const char *what)
{
	const char *name = "?";

	if (result == CUDA_SUCCESS)
		return;
	cuGetErrorName(result, &name);
	if (result ==
		CUDA_ERROR_UNSUPPORTED_PTX_VERSION) /* gdev says so where a kernel is first launched */
		_exit(NOT_TAKEN);
	give_up("# %s: %s\n", what, name);
}

static void open_device(void)
{
	CUcontext context;
	CUdevice device;

	must(cuInit(0), "cuInit");
	must(cuDeviceGet(&device, 0), "cuDeviceGet");
	must(cuDevicePrimaryCtxRetain(&context, device), "cuDevicePrimaryCtxRetain");
	must(cuCtxSetCurrent(context), "cuCtxSetCurrent");
}

static CUresult load_optimised(const char *text, unsigned level, CUmodule *module)
{
	CUjit_option options[] = {CU_JIT_ERROR_LOG_BUFFER, CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES,
		CU_JIT_OPTIMIZATION_LEVEL};
	void *values[] = {
		error_log, (void *)(uintptr_t)sizeof(error_log), (void *)(uintptr_t)level};

	error_log[0] = 0;
	return cuModuleLoadDataEx(module, text, 3, options, values);
}

static CUresult load(const char *text, CUmodule *module)
{
	return load_optimised(text, OPTIMISED, module);
}

/* Runs the module's kernel with the buffers as its first parameters, and `number` behind them. */
static void launch(CUmodule module, const char *name, uint32_t grid, const uint32_t block[3],
	struct buffer b[BUFFERS], uint32_t number)
{
	CUdeviceptr at[BUFFERS] = {0};
	void *params[BUFFERS + 1];
	CUfunction function;
	unsigned n = 0;

	must(cuModuleGetFunction(&function, module, name), "cuModuleGetFunction");
	for (; n < BUFFERS && b[n].host; n++) {
		must(cuMemAlloc(&at[n], b[n].bytes), "cuMemAlloc");
		must(cuMemcpyHtoD(at[n], b[n].host, b[n].bytes), "cuMemcpyHtoD");
		params[n] = &at[n];
	}
	params[n] = &number;
	must(cuLaunchKernel(
		     function, grid, 1, 1, block[0], block[1], block[2], 0, NULL, params, NULL),
		"cuLaunchKernel");
	must(cuCtxSynchronize(), "cuCtxSynchronize");
	for (n = 0; n < BUFFERS && at[n]; n++) {
		if (b[n].comes_back)
			must(cuMemcpyDtoH(b[n].host, at[n], b[n].bytes), "cuMemcpyDtoH");
		must(cuMemFree(at[n]), "cuMemFree");
	}
}

/* ---- children ---- */

/* Where a child is: shared with its parent. [next, end) is what it works on. */
struct progress {
	uint64_t next, end, last;
	uint64_t one_by_one; /* up to here, since something in it ended a child */
	unsigned compared, differ, refused, ended, other_nans;
	unsigned by_optimiser; /* of those that differ */
	unsigned open_ended;   /* forms that may do anything, and end the child */
};

static void *shared(size_t bytes)
{
	void *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	if (p == MAP_FAILED)
		abort();
	return p;
}

static pid_t start(void (*work)(struct progress *, void *), struct progress *p, void *data)
{
	pid_t pid;

	fflush(NULL);
	pid = fork();
	if (pid < 0)
		abort();
	if (pid)
		return pid;
	alarm(limit);
	work(p, data);
	fflush(NULL);
	_exit(0);
}

/* True: it did all that it was given. */
static bool wait_for(pid_t pid, int *status)
{
	while (waitpid(pid, status, 0) < 0)
		if (errno != EINTR)
			abort();
	return !*status;
}

static bool not_taken(int status)
{
	return WIFEXITED(status) && WEXITSTATUS(status) == NOT_TAKEN;
}

static const char *ending(int status)
{
	if (WIFSIGNALED(status))
		return WTERMSIG(status) == SIGALRM ? "does not end" : "ends its process";
	return not_taken(status) ? "refused" : "fails";
}

/* ---- conformance ---- */

struct conformance {
	struct isa isa;
	FILE *record;
	bool recorded; /* it is read, not written */
};

static uint8_t began[CASE_MEMORY_BYTES]; /* what memory held before the kernel */

/* What the device gave, after a line with the form, the results that are not 0, and whether memory was written. */
static void write_record(FILE *f, const struct cases *c, unsigned n)
{
	const uint64_t *out = c->out[1] + n * CASE_OUT * CASE_THREADS;
	const size_t row = CASE_THREADS * 8, own = CASE_THREADS * CASE_MEMORY;
	static const uint64_t zeros[CASE_THREADS];
	bool written = memcmp(began + n * own, c->memory[1] + n * own, own) != 0;
	unsigned bits = 0;

	for (unsigned k = 0; k < CASE_OUT; k++)
		bits |= (unsigned)(memcmp(out + k * CASE_THREADS, zeros, row) != 0) << k;
	fprintf(f, "%s %s\t%x %d\n", c->forms[n]->instruction, c->forms[n]->operands, bits,
		written);
	for (unsigned k = 0; k < CASE_OUT; k++)
		if (bits >> k & 1)
			fwrite(out + k * CASE_THREADS, row, 1, f);
	if (written)
		fwrite(c->memory[1] + n * own, own, 1, f);
}

/* Finds the form in the record; behind its line. */
static bool find_record(FILE *f, const struct isa_form *form, unsigned *bits, bool *written)
{
	char line[2 * ISA_TEXT + 16], want[2 * ISA_TEXT];

	snprintf(want, sizeof(want), "%s %s", form->instruction, form->operands);
	rewind(f);
	while (fgets(line, sizeof(line), f)) {
		char *tab = strchr(line, '\t'), *rest;

		if (!tab)
			return false;
		*bits = (unsigned)strtoul(tab, &rest, 16);
		*written = strtoul(rest, NULL, 10);
		*tab = 0;
		if (!strcmp(line, want))
			return true;
		fseek(f,
			__builtin_popcount(*bits) * CASE_THREADS * 8L +
				*written * CASE_THREADS * (long)CASE_MEMORY,
			SEEK_CUR);
	}
	return false;
}

static void read_record(FILE *f, struct cases *c, unsigned n)
{
	const size_t row = CASE_THREADS * 8, own = CASE_THREADS * CASE_MEMORY;
	unsigned bits = 0;
	bool written = false, good = find_record(f, c->forms[n], &bits, &written);

	for (unsigned k = 0; k < CASE_OUT; k++)
		if (bits >> k & 1)
			good &= fread(c->out[1] + (n * CASE_OUT + k) * CASE_THREADS, row, 1, f);
	if (written)
		good &= fread(c->memory[1] + n * own, own, 1, f);
	if (!good)
		give_up("# the record ends early\n");
}

static void say_form(const char *what, const struct isa_form *form, const char *why)
{
	printf("%s: %s %s: %.*s\n", what, form->instruction, form->operands,
		(int)strcspn(why, "\n"), why);
}

/* The driver names the lines that it does not take. The last ones first, so that the others keep their numbers. */
static unsigned drop_refused(struct cases *c)
{
	unsigned dropped = 0;

	for (uint32_t line = 2000; line > 0; line--) {
		char at[32];
		unsigned before = c->count;
		struct isa_form *forms[CASE_BATCH];

		snprintf(at, sizeof(at), "line %u;", line);
		const char *why = strstr(error_log, at);
		if (!why)
			continue;
		memcpy(forms, c->forms, sizeof(forms));
		if (cases_drop_line(c, line, ISA_UNSUPPORTED))
			continue;
		for (unsigned n = 0; n < before; n++)
			if (n == c->count || forms[n] != c->forms[n]) {
				say_form("refused", forms[n], why + strlen(at));
				break;
			}
		dropped++;
	}
	return dropped;
}

static void run_cases(struct cases *c, struct progress *p)
{
	const uint32_t block[3] = {CASE_THREADS, 1, 1};
	struct buffer b[BUFFERS] = {{c->in, CASE_IN_BYTES, false},
		{c->out[1], CASE_OUT_BYTES, true}, {c->memory[1], CASE_MEMORY_BYTES, true}};
	unsigned refused = 0, dropped;
	CUmodule module;

	while (cases_prepare(c, NULL)) {
		CUresult result = load(c->text, &module);

		memcpy(began, c->memory[1], sizeof(began));

		if (result == CUDA_SUCCESS) {
			launch(module, "k", 1, block, b, 0);
			must(cuModuleUnload(module), "cuModuleUnload");
			break;
		}
		cases_end(c);
		dropped = drop_refused(c);
		refused += dropped;
		if (!dropped)
			give_up("# cuModuleLoadDataEx: %d %s\n", (int)result, error_log);
	}
	p->refused += refused; /* a batch that ends the child is tried again */
}

static void compare_cases(struct cases *c, struct progress *p)
{
	for (unsigned n = 0; n < c->count; n++) {
		if (c->forms[n]->row->open)
			continue;
		unsigned values = cases_differing(c, n, MOST_SHOWN, stdout);
		p->compared++;
		p->differ += values != 0;
		if (values)
			printf("differs: %s %s: %u values\n", c->forms[n]->instruction,
				c->forms[n]->operands, values);
		else if (cases_other_nans(c, n, 0, stdout)) {
			printf("other NaN: ");
			p->other_nans++;
			cases_other_nans(c, n, 1, stdout);
		}
	}
}

static void take_forms(struct conformance *a, struct progress *p, struct cases *c)
{
	uint64_t many = p->next < p->one_by_one ? 1 : CASE_BATCH;
	unsigned bits;
	bool written;

	p->end = p->next + many < p->last ? p->next + many : p->last;
	c->count = 0;
	for (uint64_t k = p->next; k < p->end; k++) {
		struct isa_form *form = &a->isa.forms[k];

		if (*form->operands && !isa_is_elsewhere(form) &&
			(!a->recorded || find_record(a->record, form, &bits, &written)))
			c->forms[c->count++] = form;
	}
}

static void conformance_work(struct progress *p, void *data)
{
	struct conformance *a = data;
	struct cases c;

	cases_begin(&c);
	if (!a->recorded)
		open_device();
	for (; p->next < p->last; p->next = p->end) {
		alarm(p->next < p->one_by_one ? ONE_LIMIT : limit);
		take_forms(a, p, &c);
		if (!a->recorded)
			run_cases(&c, p);
		else if (cases_prepare(&c, NULL))
			for (unsigned n = 0; n < c.count; n++)
				read_record(a->record, &c, n);
		for (unsigned n = 0; a->record && !a->recorded && n < c.count; n++)
			write_record(a->record, &c, n);
		compare_cases(&c, p);
		if (c.count)
			cases_end(&c);
		fflush(NULL);
	}
	cases_finish(&c);
}

static int conformance(const char *table, const char *record, bool recorded)
{
	struct progress *p = shared(sizeof(*p));
	struct conformance a = {.recorded = recorded};
	int status;

	isa_read(&a.isa, table);
	a.record = record ? fopen(record, recorded ? "r" : "a") : NULL;
	if (record && !a.record) {
		perror(record);
		return 2;
	}
	p->last = a.isa.form_count;
	while (p->next < p->last) {
		struct isa_form *form;

		if (wait_for(start(conformance_work, p, &a), &status))
			continue;
		if (p->end <= p->next) { /* it did not come as far as a form */
			printf("# no device: it %s\n", ending(status));
			return 1;
		}
		if (p->end - p->next > 1) {
			p->one_by_one = p->end;
			p->end = p->next;
			continue;
		}
		form = &a.isa.forms[p->next++];
		printf("%s: %s %s\n", ending(status), form->instruction, form->operands);
		if (not_taken(status))
			p->refused++;
		else if (form->row->open)
			p->open_ended++;
		else
			p->ended++;
	}
	printf("%u compared, %u differ, %u refused by the driver, %u did not run, and %u whose answer is open, "
	       "%u with other bits of NaNs\n",
		p->compared, p->differ, p->refused, p->ended, p->open_ended, p->other_nans);
	isa_finish(&a.isa);
	return p->differ || p->ended;
}

/* ---- random kernels ---- */

struct random_run {
	uint64_t step;
	time_t end_at;
};

static bool interpret(const struct random_kernel *k, const char *text, uint64_t *in, uint8_t *want)
{
	struct {
		const void *in;
		void *out;
		uint32_t n;
	} params = {in, want, RANDOM_NUMBER};
	struct ptx_module *module;
	struct interp run = {.kernel = "k", .grid = {k->grid, 1, 1}, .params = &params};
	bool good;

	if (ptx_parse(text, strlen(text), NULL, &module))
		return false;
	run.module = module;
	memcpy(run.block, k->block, sizeof(run.block));
	good = interp_run(&run) == INTERP_RAN;
	ptx_module_destroy(module);
	return good;
}

/* Makes the lines that the driver does not take empty. */
static bool blank_refused(const struct random_kernel *k, char *text)
{
	bool any = false;
	uint32_t number = 1;

	for (char *line = text; *line;
		line += strcspn(line, "\n"), line += *line == '\n', number++) {
		char at[32];
		size_t length = strcspn(line, "\n");

		snprintf(at, sizeof(at), "line %u;", number);
		if (!strstr(error_log, at) || !length)
			continue;
		printf("random kernel %lu: refused: ", (unsigned long)k->seed);
		fwrite(line, 1, length, stdout);
		putchar('\n');
		memset(line, ' ', length);
		any = true;
	}
	return any;
}

struct random_outcome {
	bool refused, compared;
	long at; /* the first byte that differs, or -1 */
	uint32_t got, want;
};

static struct random_outcome run_random(const struct random_kernel *k, unsigned level)
{
	_Alignas(16) uint64_t in[RANDOM_INPUT / 8];
	size_t bytes = random_kernel_bytes(k);
	uint8_t *want = calloc(1, bytes), *got = calloc(1, bytes);
	struct buffer b[BUFFERS] = {{in, sizeof(in), false}, {got, bytes, true}};
	struct random_outcome r = {.at = -1};
	char *text = random_kernel_text(k);
	CUmodule module;

	if (!want || !got)
		abort();
	random_kernel_input(k, in);
	CUresult loaded = load_optimised(text, level, &module);
	for (unsigned tries = 0; loaded != CUDA_SUCCESS && tries < 4; tries++)
		if (blank_refused(k, text))
			loaded = load_optimised(text, level, &module);
	r.refused = loaded != CUDA_SUCCESS;
	r.compared = !r.refused && interpret(k, text, in, want);
	if (r.compared) {
		launch(module, "k", k->grid, k->block, b, RANDOM_NUMBER);
		r.at = random_kernel_difference(k, want, got);
	}
	if (r.at >= 0) {
		memcpy(&r.got, got + r.at, sizeof(r.got));
		memcpy(&r.want, want + r.at, sizeof(r.want));
	}
	if (!r.refused)
		must(cuModuleUnload(module), "cuModuleUnload");
	free(text);
	free(want);
	free(got);
	return r;
}

/* A kernel that does not end ends its child: by the limit, or when the time for all is over. */
static void limit_kernel(const struct random_run *r)
{
	time_t left = r->end_at + GRACE - time(NULL);

	alarm(left > limit ? limit : left > 1 ? (unsigned)left : 1);
}

/* Leaves statements out as long as the results differ, and prints what is left: for people, who ask why. */
static void shrink_random(struct random_kernel *k, const struct random_run *run)
{
	time_t end_at = time(NULL) + SHRINKING;
	bool again = true;

	while (again && time(NULL) < end_at) {
		again = false;
		for (unsigned n = 1; n < k->node_count && time(NULL) < end_at; n++) {
			if (k->nodes[n].dropped)
				continue;
			k->nodes[n].dropped = true;
			limit_kernel(run);
			if (run_random(k, OPTIMISED).at >= 0)
				again = true;
			else
				k->nodes[n].dropped = false;
		}
	}
	struct random_outcome r = run_random(k, OPTIMISED);
	char *text = random_kernel_text(k);
	printf("shrunk: random kernel %lu, %u blocks of %ux%ux%u, thread %ld, [%%own+%ld]: %#x, not %#x\n%s\n",
		(unsigned long)k->seed, k->grid, k->block[0], k->block[1], k->block[2],
		r.at / RANDOM_OWN, r.at % RANDOM_OWN, r.got, r.want, text);
	free(text);
}

static void compare_random(
	struct random_kernel *k, struct progress *p, const struct random_run *run)
{
	struct random_outcome r = run_random(k, OPTIMISED);

	p->compared += r.compared;
	p->refused += r.refused;
	p->differ += r.at >= 0;
	if (r.refused)
		printf("random kernel %lu: refused: %s\n", (unsigned long)k->seed, error_log);
	else if (!r.compared)
		printf("random kernel %lu: not interpreted\n", (unsigned long)k->seed);
	if (r.at < 0)
		return;
	/* What the driver's compiler makes of it without optimisation. If that is what we say, the optimiser is wrong, or
	 * the kernel has something that the manual leaves open. */
	bool plain = run_random(k, 0).at < 0;
	p->by_optimiser += plain;
	printf("random kernel %lu: thread %ld, [%%own+%ld]: %#x, not %#x%s\n",
		(unsigned long)k->seed, r.at / RANDOM_OWN, r.at % RANDOM_OWN, r.got, r.want,
		plain ? "; right without the driver's optimiser" : "");
	if (p->differ <= MOST_SHRUNK && time(NULL) < run->end_at)
		shrink_random(k, run);
}

static void random_work(struct progress *p, void *data)
{
	const struct random_run *r = data;
	struct random_kernel *k = malloc(sizeof(*k));

	open_device();
	if (!k)
		abort();
	for (; p->next <= p->last && time(NULL) < r->end_at; p->next += r->step) {
		limit_kernel(r);
		random_kernel_draw(k, p->next,
			RANDOM_COLLECTIVES | RANDOM_BARRIERS | RANDOM_DIVERGENT_BARRIERS |
				RANDOM_EXITS);
		compare_random(k, p, r);
		fflush(stdout);
	}
	free(k);
}

/* Where the device is the processors themselves, more processes at a time would not end their kernels within the limit. */
static unsigned count_workers(uint64_t kernels)
{
	long processors = sysconf(_SC_NPROCESSORS_ONLN);
	unsigned most =
		processors > 0 && processors < WORKERS / 2 ? 2 * (unsigned)processors : WORKERS;

	return kernels < most ? (unsigned)kernels : most;
}

static int random_kernels(uint64_t first, uint64_t last, unsigned seconds)
{
	struct progress *p = shared(WORKERS * sizeof(*p)), sum = {0};
	unsigned workers = count_workers(last - first + 1);
	struct random_run run = {workers, time(NULL) + seconds};
	pid_t pids[WORKERS], pid;
	int status;

	for (unsigned w = 0; w < workers; w++) {
		p[w] = (struct progress){.next = first + w, .last = last};
		pids[w] = start(random_work, &p[w], &run);
	}
	while ((pid = waitpid(-1, &status, 0)) > 0 || (pid < 0 && errno == EINTR)) {
		unsigned w = 0;

		while (w < workers && pids[w] != pid)
			w++;
		if (pid < 0 || !status || w == workers)
			continue;
		printf("random kernel %lu: %s\n", (unsigned long)p[w].next, ending(status));
		p[w].ended++;
		p[w].next += run.step;
		if ((p[w].compared || p[w].ended < 3) && time(NULL) < run.end_at)
			pids[w] = start(random_work, &p[w], &run);
	}
	for (unsigned w = 0; w < workers; w++) {
		sum.compared += p[w].compared;
		sum.differ += p[w].differ;
		sum.by_optimiser += p[w].by_optimiser;
		sum.refused += p[w].refused;
		sum.ended += p[w].ended;
	}
	printf("%u random kernels compared, %u differ (%u of them by the driver's optimiser), "
	       "%u refused by the driver, %u did not run\n",
		sum.compared, sum.differ, sum.by_optimiser, sum.refused, sum.ended);
	return !sum.compared || sum.differ > sum.by_optimiser || sum.refused || sum.ended;
}

/* ---- questions ---- */

struct answers {
	struct questions questions;
	struct {
		enum answer answer;
		uint64_t values[QUESTION_THREADS];
	} * given; /* shared */
};

static void ask(const struct question *q, CUmodule module, uint64_t values[QUESTION_THREADS])
{
	uint64_t in[QUESTION_THREADS * QUESTION_INPUTS];
	const uint32_t block[3] = {q->threads, 1, 1};
	struct buffer b[BUFFERS] = {
		{in, sizeof(in), false}, {values, QUESTION_THREADS * sizeof(*values), true}};

	question_input(q, in);
	for (unsigned t = 0; t < QUESTION_THREADS; t++)
		values[t] = QUESTION_SILENT;
	launch(module, "q", 1, block, b, 0);
}

static void questions_work(struct progress *p, void *data)
{
	struct answers *a = data;

	open_device();
	for (; p->next < p->last; p->next++) {
		const struct question *q = &a->questions.list[p->next];
		char *text = question_text(q);
		uint64_t again[QUESTION_THREADS];
		CUmodule module;

		p->end = p->next + 1;
		alarm(QUESTION_LIMIT);
		if (load(text, &module) != CUDA_SUCCESS) {
			printf("refused: %s: %s\n", q->name, error_log);
			a->given[p->next].answer = ANSWER_REFUSED;
		} else {
			ask(q, module, a->given[p->next].values);
			ask(q, module, again);
			a->given[p->next].answer =
				memcmp(a->given[p->next].values, again, q->threads * 8)
					? ANSWER_VARIES
					: ANSWER_VALUES;
			must(cuModuleUnload(module), "cuModuleUnload");
		}
		free(text);
		fflush(stdout);
	}
}

static int ask_all(const char *table, const char *result)
{
	struct progress *p = shared(sizeof(*p));
	struct answers a;
	int status;

	questions_read(&a.questions, table);
	a.given = shared(a.questions.count * sizeof(*a.given));
	p->last = a.questions.count;
	while (p->next < p->last) {
		bool done = wait_for(start(questions_work, p, &a), &status);

		if (!done && p->end <= p->next) {
			printf("# no device: it %s\n", ending(status));
			return 1;
		}
		if (!done) {
			printf("%s: %s\n", ending(status), a.questions.list[p->next].name);
			a.given[p->next++].answer = not_taken(status)     ? ANSWER_REFUSED
						    : WIFSIGNALED(status) ? ANSWER_NO_END
									  : ANSWER_FAULT;
		}
		for (unsigned n = 0; n < p->next; n++) {
			a.questions.list[n].answer = a.given[n].answer;
			memcpy(a.questions.list[n].values, a.given[n].values,
				sizeof(a.given[n].values));
		}
		if (questions_write(&a.questions, result)) {
			perror(result);
			return 1;
		}
	}
	printf("%u questions\n", a.questions.count);
	questions_finish(&a.questions);
	return 0;
}

int main(int argc, char **argv)
{
	const char *what = argc > 2 ? argv[1] : "";

	if (!strcmp(what, "conformance"))
		return conformance(argv[2], argc > 3 ? argv[3] : NULL, false);
	if (!strcmp(what, "recorded") && argc > 3)
		return conformance(argv[2], argv[3], true);
	if (!strcmp(what, "random") && argc > 3) {
		limit *= argc > 4 ? 1 : PATIENCE;
		return random_kernels(strtoull(argv[2], NULL, 10), strtoull(argv[3], NULL, 10),
			argc > 4 ? (unsigned)strtoul(argv[4], NULL, 10) : 3600);
	}
	if (!strcmp(what, "questions") && argc > 3)
		return ask_all(argv[2], argv[3]);
	fprintf(stderr,
		"usage: on_device conformance TABLE [RECORD] | recorded TABLE RECORD | random FIRST LAST [SECONDS] |\n"
		"       questions TABLE RESULT\n");
	return 2;
}
