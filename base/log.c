/* SPDX-License-Identifier: MIT
 *
 * See log.h. A message is formatted into one buffer and written with one write(), so that lines
 * of several processes do not mix.
 */
#include "base/log.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char *const level_names[] = {"error", "warning", "info", "debug"};
static const char journal_levels[] = {'3', '4', '6', '7'};

static const char *program_name = "gdev";
static int threshold = -1;
static int to_journal;

void log_init(const char *program, enum log_level level)
{
	const char *wanted = getenv("GDEV_LOG");

	program_name = program;
	threshold = level;
	to_journal = getenv("JOURNAL_STREAM") != NULL;
	for (int i = 0; wanted && i < 4; i++)
		if (!strcmp(wanted, level_names[i]))
			threshold = i;
}

void log_write(enum log_level level, const char *format, ...)
{
	char line[1024];
	va_list args;
	int length = 0;

	if ((int)level > threshold)
		return;
	if (to_journal)
		length += snprintf(line, sizeof line, "<%c>", journal_levels[level]);
	length += snprintf(line + length, sizeof line - (size_t)length, "%s: %s", program_name,
		level <= LOG_LEVEL_WARNING ? level_names[level] : "");
	if (level <= LOG_LEVEL_WARNING)
		length += snprintf(line + length, sizeof line - (size_t)length, ": ");
	va_start(args, format);
	length += vsnprintf(line + length, sizeof line - (size_t)length, format, args);
	va_end(args);
	if (length > (int)sizeof line - 2)
		length = (int)sizeof line - 2;
	line[length++] = '\n';
	if (write(STDERR_FILENO, line, (size_t)length) < 0)
		return; /* nowhere left to say it */
}
