/* SPDX-License-Identifier: MIT
 *
 * What all layers say of a device: its units, which way a copy goes, and how large chunks are.
 */
#ifndef GDEV_PROTO_DEVICE_H
#define GDEV_PROTO_DEVICE_H

/* The units of a device, which work at the same time. Each is arbitrated, and accounted, by itself. */
enum device_resource {
	RESOURCE_COMPUTE, /* launches, fills, copies within the device */
	RESOURCE_COPY_TO_DEVICE,
	RESOURCE_COPY_FROM_DEVICE,
	RESOURCES,
};

enum copy_direction {
	COPY_TO_DEVICE, /* from the host */
	COPY_FROM_DEVICE,
	COPY_WITHIN, /* device to device, host to host */
};

static inline enum device_resource copy_resource(enum copy_direction direction)
{
	return direction == COPY_WITHIN      ? RESOURCE_COMPUTE
	       : direction == COPY_TO_DEVICE ? RESOURCE_COPY_TO_DEVICE
					     : RESOURCE_COPY_FROM_DEVICE;
}

/* The direction of a copy resource. */
static inline enum copy_direction copy_direction_of(enum device_resource resource)
{
	return resource == RESOURCE_COPY_TO_DEVICE ? COPY_TO_DEVICE : COPY_FROM_DEVICE;
}

/* Device memory comes in chunks of one of these sizes, powers of two from _MIN to _MAX. */
#define DEVICE_CHUNK_MIN (2ull << 20)
#define DEVICE_CHUNK_MAX (32ull << 20)

/* What names compiled code in the cache on disk. */
#define CODE_KEY_BYTES 16

/* What is looked for in checked kernels (docs/check.md). */
enum device_check {
	DEVICE_CHECK_MEMORY, /* accesses out of bounds, and misaligned ones */
	DEVICE_CHECK_INIT,   /* reads of what nothing has been written to */
	DEVICE_CHECK_RACE,
	DEVICE_CHECK_SYNC, /* barriers, asynchronous copies */
	DEVICE_CHECKS
};

#endif
