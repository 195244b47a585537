/* SPDX-License-Identifier: MIT
 *
 * The reference backend, see null.c. For registry.c.
 */
#ifndef GDEV_DEVICE_NULL_H
#define GDEV_DEVICE_NULL_H

#include "device/ops.h"

extern const struct device_ops null_device_ops;

#endif
