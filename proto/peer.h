/* SPDX-License-Identifier: MIT
 *
 * Messages between a client and its worker that carry descriptors: memory that one of the two has
 * and the other wants to map. One request, one answer with the same serial, over a SOCK_SEQPACKET
 * pair that gdevd makes; its end of file is also how each learns of the other's death.
 */
#ifndef GDEV_PROTO_PEER_H
#define GDEV_PROTO_PEER_H

#include <stdint.h>

#define PEER_FDS_MAX 64
#define IMAGE_ZEROS 64 /* behind an image: a reader may look beyond its end */

enum peer_type {
	/* Client to worker, one descriptor: a sealed memfd, of which the client has mapped `bytes` bytes from piece_bytes[0] on at
	 * `address` of the arena and that copies may name from now on (page-locked memory, and staging for
	 * large images). RECORD_MEMORY_FREE ends it. Answer: status. -ENOMEM: the session has as
	 * much, or as many ranges, as it may. */
	PEER_HOST_ADD = 1,
	/* Client to worker: descriptors of the device memory of [address, address + bytes), to be mapped
	 * at the same place. Answer: status, and at most PEER_FDS_MAX pieces with a descriptor each; `bytes`
	 * is what they cover, and the client asks again for the rest. -ENOTSUP where the device's memory
	 * cannot be mapped. */
	PEER_DEVICE_MAP = 2,
	/* As PEER_DEVICE_MAP, mapped wherever the client likes, for direct copies (session.h): the worker may
	 * take the memory away when it has stopped them. -EAGAIN: it is not on the device now. */
	PEER_DEVICE_MAP_REVOCABLE = 3,
	/* Client to worker, one descriptor: a memfd sealed against every change, of an image of `bytes` bytes and IMAGE_ZEROS
	 * zeros. Answer: status, and in `address` the number by which one RECORD_MODULE_LOAD names the image, which is the
	 * worker's from then on. -EMFILE: too many are waiting to be loaded. */
	PEER_IMAGE = 4,
	/* Client to worker: [address, address + bytes), whole pages of ARENA_ALIGN and at most PEER_RANGE_BYTES_MAX of them, is
	 * the arena of another session of the client. RECORD_SHARED_MAP and PEER_HOST_ADD may name addresses in it from now on,
	 * until the session ends. Answer: status. The same range again: 0. -EADDRINUSE: some of it is not free in the worker or
	 * on its device; -ENOSPC: there are PEER_RANGES_MAX; -EINVAL: it is no such range, or overlaps another. */
	PEER_RANGE_ADD = 5,
};

#define PEER_RANGES_MAX 16
#define PEER_RANGE_BYTES_MAX (1ull << 40)

struct peer_message {
	uint32_t type, serial;
	int32_t status; /* answers: 0 or negative */
	uint32_t pieces;
	uint64_t address, bytes;
	uint64_t
		piece_bytes[PEER_FDS_MAX]; /* in the order of the descriptors; each from offset 0 */
};

_Static_assert(sizeof(struct peer_message) == 544, "ABI");

#endif
