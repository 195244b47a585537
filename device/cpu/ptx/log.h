/* SPDX-License-Identifier: MIT
 *
 * The JIT log in the words of the vendor's assembler, so that callers that read it still can.
 */
#ifndef GDEV_DEVICE_CPU_PTX_LOG_H
#define GDEV_DEVICE_CPU_PTX_LOG_H

#include <stdarg.h>

#include "device/cpu/ptx/ir.h"

/* "ptxas application ptx input, line N; error   : …" */
void ptx_log_line(struct ptx_log *log, uint32_t line, const char *format, va_list args);
void ptx_log_error(struct ptx_log *log, uint32_t line, const char *format, ...)
	__attribute__((format(printf, 3, 4)));
void ptx_log_fatal(struct ptx_log *log);

/* module.c: offsets of variables and descriptions of kernels. */
int module_layout(struct ptx_module *module, struct ptx_log *log);

#endif
