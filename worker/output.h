/* SPDX-License-Identifier: MIT
 *
 * What kernels print, on its way to the client: a byte ring in the session segment. What does not fit
 * is dropped, whole messages at a time, as on a GPU.
 */
#ifndef GDEV_WORKER_OUTPUT_H
#define GDEV_WORKER_OUTPUT_H

#include <stddef.h>

/* device_host.print; any thread, no lock needed. */
void output_print(void *owner, const char *bytes, size_t length);

#endif
