/* SPDX-License-Identifier: MIT
 *
 * See session_device.c.
 */
#ifndef GDEV_TESTS_FUZZ_SESSION_DEVICE_H
#define GDEV_TESTS_FUZZ_SESSION_DEVICE_H

#include "device/ops.h"

/* Of one device at a time. */
const struct device_ops *session_device_ops(void);
/* When its spaces have been destroyed. */
void session_device_finish(void);

#endif
