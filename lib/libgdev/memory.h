/* SPDX-License-Identifier: MIT
 *
 * What shared.c and direct.c need of memory.c. Attached segments are objects like others. memory.change is
 * held; creating and destroying let it go while the worker answers.
 */
#ifndef GDEV_LIB_MEMORY_H
#define GDEV_LIB_MEMORY_H

#include "lib/libgdev/internal.h"

/* bytes: as the worker wants them: a multiple of ARENA_ALIGN, or of the page size for page-locked
 * memory. For GDEV_MEMORY_SHARED only the addresses are taken. */
int memory_object_create(struct gdev_session *session, enum gdev_memory_kind kind, uint64_t bytes,
	struct object **created);
/* Of kind GDEV_MEMORY_SHARED, at addresses that are reserved already, and stay so. */
int memory_object_create_at(
	struct gdev_session *session, uint64_t address, uint64_t bytes, struct object **created);
int memory_object_destroy(struct gdev_session *session, struct object *object);
/* Makes an allocation of `asked` bytes of the block; on failure the block is gone, and its object. */
int memory_publish(struct gdev_session *session, struct block *block, uint64_t asked);
/* As gdev_managed_alloc(), when there is a stream for its copies. */
int memory_alloc_managed(struct gdev_session *session, uint64_t bytes, uint64_t *address);
/* The allocation that `address` is in; NULL: in none. memory.table will do as well. */
struct block *memory_block_at(struct gdev_session *session, uint64_t address);
/* Whether it is a part of an object, and the rest may be other allocations. memory.change. */
bool memory_is_carved(const struct block *block);
/* Takes the segment attached at `address` out of the table; NULL: none is. */
struct block *memory_take_shared(struct gdev_session *session, uint64_t address);

/* What other sessions of the process have of the object, which nobody finds any more, they have no more. -errno as of
 * peers_leave_object. */
int memory_leave_peers(struct gdev_session *session, struct object *object);
/* An object of another session, which this session's worker has at the same addresses, is one of this session's. */
int memory_add_peer(struct gdev_session *session, const struct object *of);
/* False: there is none. */
bool memory_remove_peer(struct gdev_session *session, uint64_t base);

/* Device memory that the session's worker has and this library has not allocated: a virtual machine's proxy passes on
 * what its guest allocates, and copies there. Disowning what is not at its base does nothing. */
int memory_adopt(struct gdev_session *session, uint64_t address, uint64_t bytes);
void memory_disown(struct gdev_session *session, uint64_t address);

#endif
