/* SPDX-License-Identifier: MIT
 *
 * Properties of a device, as QUERY_PROPERTIES returns them: an array of DEVICE_PROPERTIES int32_t, 0
 * where one does not apply. Indices are part of the wire. They coincide with CUDA's device attributes,
 * so that the CUDA library passes them on; only those that gdev itself reads have names here.
 */
#ifndef GDEV_PROTO_PROPERTIES_H
#define GDEV_PROTO_PROPERTIES_H

#define DEVICE_PROPERTIES 160

enum device_property {
	PROPERTY_MAX_THREADS_PER_BLOCK = 1,
	PROPERTY_MAX_BLOCK_X = 2,
	PROPERTY_MAX_BLOCK_Y = 3,
	PROPERTY_MAX_BLOCK_Z = 4,
	PROPERTY_MAX_GRID_X = 5,
	PROPERTY_MAX_GRID_Y = 6,
	PROPERTY_MAX_GRID_Z = 7,
	PROPERTY_MAX_SHARED_BYTES_PER_BLOCK = 8,
	PROPERTY_CONSTANT_BYTES = 9,
	PROPERTY_WARP_SIZE = 10,
	PROPERTY_MAX_PITCH = 11,
	PROPERTY_MAX_REGISTERS_PER_BLOCK = 12,
	PROPERTY_CLOCK_KHZ = 13,
	PROPERTY_MULTIPROCESSORS = 16,
	PROPERTY_MEMORY_CLOCK_KHZ = 36,
	PROPERTY_MEMORY_BUS_BITS = 37,
	PROPERTY_L2_BYTES = 38,
	PROPERTY_MAX_THREADS_PER_MULTIPROCESSOR = 39,
	PROPERTY_COPY_ENGINES = 40,
	PROPERTY_COMPUTE_MAJOR = 75,
	PROPERTY_COMPUTE_MINOR = 76,
	PROPERTY_MAX_SHARED_BYTES_PER_MULTIPROCESSOR = 81,
	PROPERTY_MAX_REGISTERS_PER_MULTIPROCESSOR = 82,
	PROPERTY_MANAGED_MEMORY = 83,
	PROPERTY_HOST_NATIVE_ATOMICS = 86,
	PROPERTY_PAGEABLE_MEMORY_ACCESS = 88,
	PROPERTY_CONCURRENT_MANAGED_ACCESS = 89,
	PROPERTY_MAX_SHARED_BYTES_PER_BLOCK_OPTIN = 97,
	PROPERTY_PAGEABLE_BY_HOST_TABLES = 100,
	PROPERTY_DIRECT_MANAGED_ACCESS_FROM_HOST = 101,
	PROPERTY_MAX_BLOCKS_PER_MULTIPROCESSOR = 106,
	/* No attribute of CUDA's: a stream's launches can be kept to a part of the multiprocessors (struct record_stream), which
	 * begins at a multiple of so many, and has a multiple of as many, or all from there on. 0: to none. */
	PROPERTY_PART_STEP = 157,
	/* Nor this: 1 where arrays and textures are made by the device (RECORD_ARRAY_CREATE). */
	PROPERTY_DRIVER_TEXTURES = 158,
	/* Nor this: arrays are plain memory, and textures what proto/texture.h says; its TEXTURE_MAGIC. */
	PROPERTY_PLAIN_TEXTURES = 159,
};

#endif
