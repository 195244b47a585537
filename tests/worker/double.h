/* SPDX-License-Identifier: MIT */
#ifndef GDEV_TESTS_WORKER_DOUBLE_H
#define GDEV_TESTS_WORKER_DOUBLE_H

#include "device/ops.h"

/* The double's ops, with nothing held. */
const struct device_ops *double_ops(void);

#endif
