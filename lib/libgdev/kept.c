/* SPDX-License-Identifier: MIT
 *
 * Freed device memory that the session keeps a while: programs allocate what they have just freed, and an
 * object from here needs no word with the worker. A little of the virtual GPU's memory at most; all of it
 * goes back before an allocation is refused. Counted as free to the program.
 */
#include "lib/libgdev/internal.h"
#include "lib/libgdev/memory.h"

#define KEPT_BYTES_MAX (256ull << 20)
#define KEPT_SHARE 32 /* of the virtual GPU's memory, one part in so many */

static uint64_t limit_of(const struct gdev_session *session)
{
	return min_of(KEPT_BYTES_MAX, session->description.memory_bytes / KEPT_SHARE);
}

/* All with memory.change, which giving objects back to the worker lets go meanwhile. */

struct object *kept_take(struct gdev_session *session, uint64_t bytes)
{
	struct kept *kept = &session->memory.kept;
	struct object *object;

	list_for_each (object, &kept->objects, link) {
		if (object->bytes != bytes)
			continue;
		list_remove(&object->link);
		kept->bytes -= bytes;
		return object;
	}
	return NULL;
}

static int drop_oldest(struct gdev_session *session)
{
	struct kept *kept = &session->memory.kept;
	struct object *object = list_first(&kept->objects, struct object, link);
	int error;

	list_remove(&object->link);
	kept->bytes -= object->bytes;
	kept->leaving++;
	error = memory_object_destroy(session, object);
	kept->left++;
	if (!--kept->leaving)
		pthread_cond_broadcast(&kept->settled);
	return error;
}

bool kept_give(struct gdev_session *session, struct object *object)
{
	struct kept *kept = &session->memory.kept;
	struct block *block, *after;

	if (object->kind != GDEV_MEMORY_DEVICE || object->exported || object->array ||
		object->bytes > limit_of(session))
		return false;
	while (kept->bytes + object->bytes > limit_of(session))
		if (drop_oldest(session))
			return false;
	list_for_each_safe (block, after, &object->blocks, link)
		free(block);
	list_init(&object->blocks);
	list_append(&kept->objects, &object->link);
	kept->bytes += object->bytes;
	return true;
}

bool kept_release(struct gdev_session *session, uint64_t left_before)
{
	struct memory *memory = &session->memory;
	struct kept *kept = &memory->kept;

	while (kept->bytes)
		if (drop_oldest(session))
			return false;
	while (kept->leaving)
		pthread_cond_wait(&kept->settled, &memory->change);
	return kept->left != left_before;
}
