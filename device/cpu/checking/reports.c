/* SPDX-License-Identifier: MIT
 *
 * What was found. A place, which is a line of a kernel and what is wrong there, is reported once and counted; there are
 * CHECK_REPORTS_MAX of them at most.
 */
#include "device/cpu/checking/checking.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "device/cpu/cpu.h"
#include "device/cpu/fault.h"

static const char *const titles[] = {
	[CHECK_OUT_OF_BOUNDS] = "access out of bounds",
	[CHECK_MISALIGNED] = "misaligned access",
	[CHECK_UNDEFINED] = "read of memory that nothing has been written to",
	[CHECK_RACE] = "race",
	[CHECK_BARRIER] = "barrier that not all threads come to",
	[CHECK_WARP_BARRIER] = "barrier of a warp by a lane that is not in its mask",
	[CHECK_COPY_READ] = "read before an asynchronous copy was waited for",
	[CHECK_COPY_WRITTEN] = "written before an asynchronous copy that reads was waited for",
	[CHECK_COPY_LEFT] = "asynchronous copy that nobody waits for",
};

struct text {
	char *at;
	size_t left;
};

static void append(struct text *text, const char *format, ...)
	__attribute__((format(printf, 2, 3)));

static void append(struct text *text, const char *format, ...)
{
	va_list arguments;
	int length;

	va_start(arguments, format);
	length = vsnprintf(text->at, text->left, format, arguments);
	va_end(arguments);
	if (length < 0)
		return;
	if ((size_t)length >= text->left)
		length = text->left ? (int)text->left - 1 : 0;
	text->at += length;
	text->left -= (size_t)length;
}

static void append_place(
	struct text *text, const struct check_state *state, uint32_t line, uint32_t thread)
{
	const struct device_function *function =
		cpu_job_launched(state->job, state->job->command)->function;
	const struct ptx_launch *l = &state->job->launch;
	uint32_t source_line = 0;
	const char *file = ptx_source_line(function->module->ptx, line, &source_line);
	uint64_t rest = state->block / l->grid[0];

	append(text, "\n  at kernel %.200s, line %u of the PTX", function->kernel->name, line);
	if (file)
		append(text, ", %.300s:%u", file, source_line);
	append(text, "\n  by thread (%u,%u,%u) of block (%u,%u,%u)", thread % l->block[0],
		thread / l->block[0] % l->block[1], thread / l->block[0] / l->block[1],
		(uint32_t)(state->block % l->grid[0]), (uint32_t)(rest % l->grid[1]),
		(uint32_t)(rest / l->grid[1]));
}

/* The place's report; *fresh: it is new. NULL: there are too many. Lock held. */
static struct check_report *place_of(struct checking *checking, const void *function,
	enum check_title title, uint32_t line, bool *fresh)
{
	struct check_report *report;

	*fresh = false;
	for (uint32_t i = 0; i < checking->report_count; i++) {
		report = &checking->reports[i];
		if (report->function == function && report->line == line && report->title == title)
			return report;
	}
	if (checking->report_count == CHECK_REPORTS_MAX)
		return NULL;
	report = &checking->reports[checking->report_count];
	*report = (struct check_report){.function = function, .line = line, .title = title};
	*fresh = true;
	return report;
}

void check_report(struct check_state *state, enum check_title title, uint32_t line, uint32_t thread,
	const char *format, ...)
{
	struct checking *checking = state->checking;
	struct fault_guard *guard = fault_suspend();
	struct check_report *report;
	bool fresh;

	pthread_mutex_lock(&checking->lock);
	report = place_of(checking, cpu_job_launched(state->job, state->job->command)->function,
		title, line, &fresh);
	if (report && fresh) {
		struct text text = {report->told.text, sizeof report->told.text};
		char detail[256];
		va_list arguments;

		va_start(arguments, format);
		vsnprintf(detail, sizeof detail, format, arguments);
		va_end(arguments);
		append(&text, "%s", titles[title]);
		append_place(&text, state, line, thread);
		append(&text, "\n  %s", detail);
		checking->report_count++;
	}
	if (report)
		report->told.count++;
	pthread_mutex_unlock(&checking->lock);
	fault_resume(guard);
}

int checking_report(struct checking *checking, uint32_t index, struct reply_check *report)
{
	int error = -ENOENT;

	pthread_mutex_lock(&checking->lock);
	if (index < checking->report_count) {
		*report = checking->reports[index].told;
		error = 0;
	}
	pthread_mutex_unlock(&checking->lock);
	return error;
}
