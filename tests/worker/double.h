/* SPDX-License-Identifier: MIT */
#ifndef GDEV_TESTS_WORKER_DOUBLE_H
#define GDEV_TESTS_WORKER_DOUBLE_H

#include "device/ops.h"

struct core;

/* The double's ops, with nothing held. */
const struct device_ops *double_ops(void);
/* Whose lock is not to be held when it is asked for something that is not brief (device/ops.h). NULL: nobody's. */
void double_watch(struct core *core);

#endif
