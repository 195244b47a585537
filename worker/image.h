/* SPDX-License-Identifier: MIT
 *
 * Images of modules, where the client cannot change them any more: in a sealed memfd that it sent (PEER_IMAGE), or, when
 * they are small, copied out of staging memory. A module keeps its image, as the device may need it for the next context.
 * What was sent counts as memory that the client adds (memory.host_bytes) until its module is unloaded.
 */
#ifndef GDEV_WORKER_IMAGE_H
#define GDEV_WORKER_IMAGE_H

#include <stdint.h>

struct core;

struct image {
	const void *bytes; /* IMAGE_ZEROS zeros follow them */
	uint64_t length;
	uint64_t mapped_bytes; /* 0: malloc'ed */
};

/* What a client has sent and not loaded yet. Taken over by the RECORD_MODULE_LOAD that names it. */
#define IMAGES_WAITING 16

/* Without the lock; the descriptor stays the caller's. *number: how RECORD_MODULE_LOAD names it. -EINVAL: it is no memfd that
 * nobody can change, or has holes; -EMFILE: too many are waiting; -ENOMEM: that is more than a client may add. */
int image_add(struct core *core, int fd, uint64_t length, uint64_t *number);
/* With the lock. -GDEV_E_INVALID_HANDLE. */
int image_take(struct core *core, uint64_t number, struct image *image);
int image_copy(const void *bytes, uint64_t length, struct image *image);
void image_finish(struct image *image);
void images_finish(struct core *core);

#endif
