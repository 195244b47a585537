/* SPDX-License-Identifier: MIT
 *
 * Log of the daemon, its workers and the command line: one line a message on standard error, with
 * the program's name and, when standard error is the journal, the level in its "<N>" form.
 * Libraries log nothing unless GDEV_LOG is set. Safe from any thread.
 */
#ifndef GDEV_BASE_LOG_H
#define GDEV_BASE_LOG_H

enum log_level { LOG_LEVEL_ERROR, LOG_LEVEL_WARNING, LOG_LEVEL_INFO, LOG_LEVEL_DEBUG };

/* Before any other thread logs. `program` is kept, not copied. GDEV_LOG (error, warning, info,
 * debug) overrides `level`. */
void log_init(const char *program, enum log_level level);

void log_write(enum log_level level, const char *format, ...) __attribute__((format(printf, 2, 3)));

#define log_error(...) log_write(LOG_LEVEL_ERROR, __VA_ARGS__)
#define log_warning(...) log_write(LOG_LEVEL_WARNING, __VA_ARGS__)
#define log_info(...) log_write(LOG_LEVEL_INFO, __VA_ARGS__)
#define log_debug(...) log_write(LOG_LEVEL_DEBUG, __VA_ARGS__)

#endif
