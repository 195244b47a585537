/* SPDX-License-Identifier: MIT
 *
 * Bounded appends to the caller's log.
 */
#include "device/cpu/ptx/log.h"

#include <stdio.h>
#include <string.h>

static void append(struct ptx_log *log, const char *text)
{
	size_t length = strlen(text), room;

	if (!log || !log->text || log->size <= log->used + 1)
		return;
	room = log->size - log->used - 1;
	if (length > room)
		length = room;
	memcpy(log->text + log->used, text, length);
	log->used += length;
	log->text[log->used] = 0;
}

void ptx_log_line(struct ptx_log *log, uint32_t line, const char *format, va_list args)
{
	char head[80], text[600];

	snprintf(head, sizeof(head), "ptxas application ptx input, line %u; error   : ", line);
	vsnprintf(text, sizeof(text) - 1, format, args);
	strcat(text, "\n");
	append(log, head);
	append(log, text);
}

void ptx_log_error(struct ptx_log *log, uint32_t line, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	ptx_log_line(log, line, format, args);
	va_end(args);
}

void ptx_log_fatal(struct ptx_log *log)
{
	append(log, "ptxas fatal   : Ptx assembly aborted due to errors\n");
}
