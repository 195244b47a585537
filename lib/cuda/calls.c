/* SPDX-License-Identifier: MIT
 *
 * The log of calls: GDEV_LOG=calls writes each call of the program with its arguments and its result to
 * standard error, GDEV_LOG=failed those that did not succeed, each with the reason. What a program asked for in
 * vain, and what it was told, is then seen without a debugger. GDEV_LOG=times writes when the process exits how often
 * each function was called, and how long it took in all and at most; not after _exit() or a signal.
 *
 * Where a call fails, the place notes why (fail() of internal.h), and the call's wrapper writes it. On its way out a
 * result may be turned into another, with another reason, or things may fail that were to be undone: so each thread
 * has the last few, and what is written is the newest that belongs to the result.
 */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "lib/cuda/exports.h"
#include "lib/cuda/internal.h"

#define TEXT_SHOWN 100
#define REASONS 4

#define NAMES 4096 /* that are timed: more than there are functions; a power of two */

bool calls_logged, calls_timed;
static bool only_failed;

/* By the address of the name. */
static struct timed {
	const char *_Atomic name;
	_Atomic uint64_t count, ns, most_ns;
} times[NAMES];

static _Thread_local struct {
	unsigned next;
	struct {
		CUresult result; /* CUDA_SUCCESS: there is none */
		char text[CALLS_REASON];
	} last[REASONS];
} reasons;

__attribute__((constructor)) static void calls_init(void)
{
	const char *wanted = getenv("GDEV_LOG");

	only_failed = wanted && !strcmp(wanted, "failed");
	calls_timed = wanted && !strcmp(wanted, "times");
	calls_logged = only_failed || calls_timed || (wanted && !strcmp(wanted, "calls"));
}

/* ---- times ---- */

static struct timed *timed_of(const char *name)
{
	for (size_t i = (uintptr_t)name / 8;; i++) {
		struct timed *timed = &times[i % NAMES];
		const char *there = NULL;
		if (atomic_load(&timed->name) == name ||
			atomic_compare_exchange_strong(&timed->name, &there, name) || there == name)
			return timed;
	}
}

void calls_end(const char *name, uint64_t begin_ns)
{
	struct timed *timed = timed_of(name);
	uint64_t took_ns = clock_now_ns() - begin_ns, most;

	atomic_fetch_add(&timed->count, 1);
	atomic_fetch_add(&timed->ns, took_ns);
	most = atomic_load(&timed->most_ns);
	while (took_ns > most && !atomic_compare_exchange_weak(&timed->most_ns, &most, took_ns))
		;
}

/* What is sorted: other threads may still be in calls, which count. */
struct total {
	const char *name;
	uint64_t count, ns, most_ns;
};

static int longer(const void *a, const void *b)
{
	const struct total *first = a, *second = b;

	return (first->ns < second->ns) - (first->ns > second->ns);
}

__attribute__((destructor)) static void say_times(void)
{
	static struct total totals[NAMES];
	size_t count = 0;

	if (!calls_timed)
		return;
	calls_timed = false;
	for (size_t i = 0; i < NAMES; i++)
		if (times[i].ns)
			totals[count++] = (struct total){
				times[i].name, times[i].count, times[i].ns, times[i].most_ns};
	qsort(totals, count, sizeof *totals, longer);
	for (size_t i = 0; i < count; i++)
		dprintf(STDERR_FILENO, "libcuda[%d]: %s: %llu times, %.6f s, %.6f s at most\n",
			getpid(), totals[i].name, (unsigned long long)totals[i].count,
			(double)totals[i].ns / 1e9, (double)totals[i].most_ns / 1e9);
}

/* ---- what was called ---- */

void calls_explain(CUresult result, const char *format, ...)
{
	unsigned place = reasons.next++ % REASONS;
	va_list arguments;

	va_start(arguments, format);
	vsnprintf(reasons.last[place].text, sizeof reasons.last[place].text, format, arguments);
	va_end(arguments);
	reasons.last[place].result = result;
}

/* Why the call failed, once. */
static const char *take_reason(CUresult result)
{
	const char *found = "the reason is not known";

	for (unsigned i = 0; i < REASONS; i++) {
		unsigned place = (reasons.next + i) % REASONS; /* oldest first */
		if (reasons.last[place].result == result)
			found = reasons.last[place].text;
		reasons.last[place].result = CUDA_SUCCESS;
	}
	return found;
}

/* Calls that a program makes to learn whether there is something: no is an answer, and no failure. The runtime asks
 * for tables of functions that it does without. */
static bool is_question(const char *function, CUresult result)
{
	return result == CUDA_ERROR_NOT_READY || !strcmp(function, "cuGetExportTable");
}

struct line {
	char text[1024];
	size_t used;
};

__attribute__((format(printf, 2, 3))) static void add(struct line *line, const char *format, ...)
{
	size_t room = sizeof line->text - 1 - line->used; /* the end of the line has its place */
	va_list arguments;
	int length;

	va_start(arguments, format);
	length = vsnprintf(line->text + line->used, room, format, arguments);
	va_end(arguments);
	if (length > 0)
		line->used += min_of((size_t)length, room - 1);
}

static void add_argument(struct line *line, const struct call_argument *argument, bool succeeded)
{
	const void *pointer = (const void *)argument->value;

	add(line, "%s=", argument->name);
	if (argument->kind == CALL_NUMBER)
		add(line, "%lld", (long long)argument->value);
	else if (argument->kind == CALL_TEXT && pointer)
		add(line, "\"%.*s\"", TEXT_SHOWN, (const char *)pointer);
	else
		add(line, pointer ? "%#llx" : "NULL", (unsigned long long)argument->value);
	if (!succeeded || !pointer)
		return;
	if (argument->kind == CALL_RESULT_32)
		add(line, "[%d]", *(const int *)pointer);
	else if (argument->kind == CALL_RESULT_64)
		add(line, "[%#llx]", (unsigned long long)*(const uint64_t *)pointer);
}

/* Where a kernel went wrong, if the device has said it. */
static void add_fault(struct line *line)
{
	uint64_t address = 0;
	CUcontext context;

	if (current_context(&context) == CUDA_SUCCESS &&
		gdev_session_error(context->session, &address) && address)
		add(line, ": a kernel went to %#llx", (unsigned long long)address);
}

/* Why a kernel could not be compiled or run when it was launched, if the device has said it. */
static void add_why(struct line *line)
{
	char why[GDEV_WHY_BYTES];
	CUcontext context;

	if (current_context(&context) != CUDA_SUCCESS)
		return;
	gdev_session_why(context->session, why);
	if (*why)
		add(line, ": %s", why);
}

void calls_say(const char *function, CUresult result, const struct call_argument *arguments)
{
	bool succeeded = result == CUDA_SUCCESS;
	const char *name = "an unknown result";
	struct line line = {.used = 0};

	if (calls_timed || (only_failed && (succeeded || is_question(function, result))))
		return;
	add(&line, "libcuda[%d]: %s(%s", gettid(), function, arguments ? "" : "...");
	for (; arguments && arguments->name; arguments++) {
		add_argument(&line, arguments, succeeded);
		if (arguments[1].name)
			add(&line, ", ");
	}
	cuGetErrorName(result, &name);
	add(&line, ") = %s", name);
	if (!succeeded)
		add(&line, ": %s", take_reason(result));
	if (result == CUDA_ERROR_ILLEGAL_ADDRESS)
		add_fault(&line);
	if (result == CUDA_ERROR_UNSUPPORTED_PTX_VERSION || result == CUDA_ERROR_INVALID_PTX ||
		result == CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES)
		add_why(&line);
	line.text[line.used++] = '\n';
	if (write(STDERR_FILENO, line.text, line.used) < 0)
		return; /* nowhere left to say it */
}
