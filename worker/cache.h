/* SPDX-License-Identifier: MIT
 *
 * Compiled code on disk. A worker has no files: gdevd opens them and passes descriptors. Called by the
 * device from module_load, so on a thread with a job, which may block.
 */
#ifndef GDEV_WORKER_CACHE_H
#define GDEV_WORKER_CACHE_H

#include <stddef.h>
#include <stdint.h>

#include "proto/device.h"

/* device_host.cache_load, device_host.cache_store */
int cache_load(void *owner, const uint8_t key[CODE_KEY_BYTES], void **bytes, size_t *length);
void cache_store(void *owner, const uint8_t key[CODE_KEY_BYTES], const void *bytes, size_t length);

#endif
