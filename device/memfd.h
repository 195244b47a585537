/* SPDX-License-Identifier: MIT
 *
 * Chunks of device memory for devices whose memory is the host's: each is one sealed memfd, zeroed by
 * nature, mapped shared at the address that the caller says. Used by null and cpu. No
 * locks: a chunk does not change after it was made.
 */
#ifndef GDEV_DEVICE_MEMFD_H
#define GDEV_DEVICE_MEMFD_H

#include <stdbool.h>
#include <stdint.h>

#include "device/ops.h"

#define MEMFD_GRAIN 4096 /* struct device_ops.grain_bytes: a page */

struct device_chunk {
	int fd;
	uint64_t bytes;
};

/* The ranges of a space. One thread at a time adds some; others map meanwhile into those that were there. */
struct memfd_ranges {
	struct {
		uint64_t base, bytes;
	} list[DEVICE_RANGES_MAX];
	_Atomic unsigned count;
};

/* As struct device_ops.space_reserve. */
int memfd_reserve(struct memfd_ranges *ranges, uint64_t base, uint64_t bytes);
void memfd_release(const struct memfd_ranges *ranges);

/* Contracts: the members of struct device_ops with these names. */
int memfd_chunk_create(uint64_t bytes, struct device_chunk **chunk);
int memfd_chunk_import(int fd, uint64_t bytes, struct device_chunk **chunk);
void memfd_chunk_destroy(struct device_chunk *chunk);
int memfd_chunk_export(struct device_chunk *chunk, int *fd);
int memfd_map(const struct memfd_ranges *ranges, uint64_t address, struct device_chunk *chunk,
	bool read_only);
void memfd_unmap(uint64_t address, struct device_chunk *chunk);

/* At most 4 GiB, and half of what the machine has. */
uint64_t memfd_default_bytes(void);

#endif
