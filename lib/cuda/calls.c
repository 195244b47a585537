/* SPDX-License-Identifier: MIT
 *
 * The log of calls: GDEV_LOG=calls writes each call of the program with its arguments and its result to
 * standard error, GDEV_LOG=failed those that did not succeed. What a program asked for in vain, and what it was
 * told, is then seen without a debugger.
 */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "lib/cuda/exports.h"
#include "lib/cuda/internal.h"

#define TEXT_SHOWN 100

bool calls_logged;
static bool only_failed;

__attribute__((constructor)) static void calls_init(void)
{
	const char *wanted = getenv("GDEV_LOG");

	only_failed = wanted && !strcmp(wanted, "failed");
	calls_logged = only_failed || (wanted && !strcmp(wanted, "calls"));
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

void calls_say(const char *function, CUresult result, const struct call_argument *arguments)
{
	bool succeeded = result == CUDA_SUCCESS;
	const char *name = "an unknown result";
	struct line line = {.used = 0};

	if (only_failed && (succeeded || result == CUDA_ERROR_NOT_READY))
		return;
	add(&line, "libcuda[%d]: %s(", gettid(), function);
	for (; arguments->name; arguments++) {
		add_argument(&line, arguments, succeeded);
		if (arguments[1].name)
			add(&line, ", ");
	}
	cuGetErrorName(result, &name);
	add(&line, ") = %s", name);
	if (result == CUDA_ERROR_ILLEGAL_ADDRESS)
		add_fault(&line);
	line.text[line.used++] = '\n';
	if (write(STDERR_FILENO, line.text, line.used) < 0)
		return; /* nowhere left to say it */
}
