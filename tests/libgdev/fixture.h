/* SPDX-License-Identifier: MIT
 *
 * What the tests of a session have in common: one that is open, with a stream.
 */
#ifndef TESTS_LIBGDEV_FIXTURE_H
#define TESTS_LIBGDEV_FIXTURE_H

#include <stdint.h>

#include "lib/libgdev/internal.h"

extern struct gdev_session *session;
extern struct gdev_stream *stream;

int fixture_setup(void **state);
int fixture_teardown(void **state);

/* Memory of the device. */
uint64_t alloc(uint64_t bytes);

#endif
