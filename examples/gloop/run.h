/* SPDX-License-Identifier: MIT
 *
 * What the host side of the programs in examples/gloop has in common.
 */
#ifndef EXAMPLES_GLOOP_RUN_H
#define EXAMPLES_GLOOP_RUN_H

#include "common/harness.h"

#include <gdev/gloop.h>

/* gloop_run() of the named kernel, with GLOOP_POLL_US and GLOOP_SLICE_US of the environment in place of those given;
 * `given` may be NULL. With PLAIN of NAME_plain, which polls. Ends the program with a sentence unless all is well. */
void run_loop(const char *kernel, struct shape shape, void **parameters,
	const struct gloop_options *given);
/* Of a kernel that asks for nothing. With PLAIN NAME_plain is launched, and stays until it has ended. */
void run_persistent(const char *kernel, struct shape shape, void **parameters);

/* A number, or what there is otherwise. */
uint32_t from_environment(const char *name, uint32_t otherwise);

/* A file without a name, of these bytes; closed when the program ends. */
int temporary_file(const void *bytes, size_t length);
/* With GLOOP_COLD of the environment the file leaves the page cache, if it is on a disk. */
void cool_file(int fd);

#endif
