/* SPDX-License-Identifier: MIT
 *
 * What the host side of the programs in examples/gloop has in common.
 */
#ifndef EXAMPLES_GLOOP_RUN_H
#define EXAMPLES_GLOOP_RUN_H

#include "common/harness.h"

#include <gdev/gloop.h>

/* gloop_run() of the named kernel, with GLOOP_POLL_US and GLOOP_SLICE_US of the environment in place of those given;
 * `given` may be NULL. Ends the program with a sentence unless all is well. */
void run_loop(const char *kernel, struct shape shape, void **parameters,
	const struct gloop_options *given);

/* A file without a name, of these bytes; closed when the program ends. */
int temporary_file(const void *bytes, size_t length);

#endif
