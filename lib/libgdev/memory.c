/* SPDX-License-Identifier: MIT
 *
 * Memory of a session: device memory and page-locked memory, small blocks carved from larger objects,
 * mapping into the process, and the table that says what an address is.
 *
 * memory.change is held by whoever allocates or frees, but for the time in which the worker answers: what it is asked
 * about is not found by other threads yet, or not any more. An allocation that waits for room keeps nobody from freeing.
 * memory.table is held for moments only.
 */
#include <errno.h>
#include <string.h>
#include <sys/mman.h>

#include "base/fd.h"
#include "lib/libgdev/managed.h"
#include "lib/libgdev/memory.h"

#define GRANULE 512ull               /* alignment of every allocation */
#define OBJECT_BYTES ARENA_ALIGN     /* least size of an object to carve from */
#define CARVE_MAX (OBJECT_BYTES / 2) /* larger allocations are objects of their own */
#define PAGE 4096ull

/* ---- the table of addresses ---- */

/* The index of the first block above `address`. */
static size_t blocks_above(const struct memory *memory, uint64_t address)
{
	size_t low = 0, high = memory->block_count;

	while (low < high) {
		size_t middle = (low + high) / 2;
		if (memory->blocks[middle]->base <= address)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

static struct block *block_at(const struct memory *memory, uint64_t address)
{
	size_t above = blocks_above(memory, address);
	struct block *block = above ? memory->blocks[above - 1] : NULL;

	return block && address - block->base < block->asked_bytes ? block : NULL;
}

static struct gdev_session *session_of(struct memory *memory)
{
	return container_of(memory, struct gdev_session, memory);
}

static int table_insert(struct memory *memory, struct block *block)
{
	size_t at;
	int error = check_added(session_of(memory), block->base, block->asked_bytes,
		block->object->kind != GDEV_MEMORY_DEVICE || block->object->exported);

	if (error)
		return error;
	pthread_rwlock_wrlock(&memory->table);
	if (memory->block_count == memory->block_capacity) {
		size_t capacity = memory->block_capacity ? 2 * memory->block_capacity : 64;
		struct block **more = realloc(memory->blocks, capacity * sizeof *more);
		if (more) {
			memory->blocks = more;
			memory->block_capacity = capacity;
		} else {
			error = -ENOMEM;
		}
	}
	if (!error) {
		at = blocks_above(memory, block->base);
		memmove(&memory->blocks[at + 1], &memory->blocks[at],
			(memory->block_count++ - at) * sizeof *memory->blocks);
		memory->blocks[at] = block;
		block->id = ++memory->next_id;
	}
	pthread_rwlock_unlock(&memory->table);
	if (error)
		check_removed(session_of(memory), block->base);
	return error;
}

static void table_remove(struct memory *memory, const struct block *block)
{
	size_t at;

	check_removed(session_of(memory), block->base);
	pthread_rwlock_wrlock(&memory->table);
	at = blocks_above(memory, block->base) - 1;
	memmove(&memory->blocks[at], &memory->blocks[at + 1],
		(--memory->block_count - at) * sizeof *memory->blocks);
	pthread_rwlock_unlock(&memory->table);
}

static size_t variables_above(const struct memory *memory, uint64_t address)
{
	size_t i = 0;

	while (i < memory->variable_count && memory->variables[i].base <= address)
		i++;
	return i;
}

int memory_add_variable(struct gdev_session *session, const struct gdev_module *module,
	uint64_t base, uint64_t bytes)
{
	struct memory *memory = &session->memory;
	int error = 0;
	size_t at;

	pthread_rwlock_wrlock(&memory->table);
	at = variables_above(memory, base);
	if (at && memory->variables[at - 1].base == base &&
		memory->variables[at - 1].module == module)
		goto out;
	if (memory->variable_count == memory->variable_capacity) {
		size_t capacity = memory->variable_capacity ? 2 * memory->variable_capacity : 16;
		struct variable *more = realloc(memory->variables, capacity * sizeof *more);
		if (!more) {
			error = -ENOMEM;
			goto out;
		}
		memory->variables = more;
		memory->variable_capacity = capacity;
	}
	memmove(&memory->variables[at + 1], &memory->variables[at],
		(memory->variable_count++ - at) * sizeof *memory->variables);
	memory->variables[at] = (struct variable){base, bytes, ++memory->next_id, module};
out:
	pthread_rwlock_unlock(&memory->table);
	return error;
}

void memory_remove_variables(struct gdev_session *session, const struct gdev_module *module)
{
	struct memory *memory = &session->memory;
	size_t kept = 0;

	pthread_rwlock_wrlock(&memory->table);
	for (size_t i = 0; i < memory->variable_count; i++)
		if (memory->variables[i].module != module)
			memory->variables[kept++] = memory->variables[i];
	memory->variable_count = kept;
	pthread_rwlock_unlock(&memory->table);
}

void gdev_memory_lookup(struct gdev_session *session, uint64_t address, struct gdev_range *range)
{
	struct memory *memory = &session->memory;
	const struct block *block;
	size_t above;

	*range = (struct gdev_range){.kind = GDEV_MEMORY_UNKNOWN};
	pthread_rwlock_rdlock(&memory->table);
	block = block_at(memory, address);
	above = block ? 0 : variables_above(memory, address);
	if (block) {
		*range = (struct gdev_range){block->object->kind, block->base, block->asked_bytes,
			block->object->mapped, block->id};
	} else if (above) {
		const struct variable *variable = &memory->variables[above - 1];
		if (address - variable->base < variable->bytes)
			*range = (struct gdev_range){GDEV_MEMORY_VARIABLE, variable->base,
				variable->bytes, false, variable->id};
	}
	pthread_rwlock_unlock(&memory->table);
}

bool memory_contains(struct gdev_session *session, uint64_t address, uint64_t span)
{
	struct gdev_range range;

	gdev_memory_lookup(session, address, &range);
	return range.kind != GDEV_MEMORY_UNKNOWN && span <= range.bytes - (address - range.base);
}

/* ---- objects ---- */

static int map_piece(uint64_t address, uint64_t bytes, int fd)
{
	if (mmap((void *)address, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, fd, 0) ==
		MAP_FAILED)
		return -errno;
	madvise((void *)address, bytes, MADV_DONTFORK);
	return 0;
}

static int map_device_piece(void *object, uint64_t offset, uint64_t bytes, int fd)
{
	return map_piece(((struct object *)object)->base + offset, bytes, fd);
}

/* Leaves the addresses reserved, and nothing in them. */
static void unmap_piece(uint64_t address, uint64_t bytes)
{
	mmap((void *)address, bytes, PROT_NONE,
		MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
	madvise((void *)address, bytes, MADV_DONTFORK);
}

/* Lets memory.change go meanwhile. */
static int request_memory(
	struct gdev_session *session, uint16_t opcode, const struct object *object)
{
	struct record_memory record = {.address = object->base, .bytes = object->bytes};
	int error;

	pthread_mutex_unlock(&session->memory.change);
	error = session_request(session, opcode, &record, sizeof record, NULL, 0, NULL, 0, 0);
	pthread_mutex_lock(&session->memory.change);
	return error;
}

static int request_array(
	struct gdev_session *session, const struct array_shape *shape, const struct object *object)
{
	struct record_array record = {
		.address = object->base, .bytes = object->bytes, .shape = *shape};
	int error;

	pthread_mutex_unlock(&session->memory.change);
	error = session_request(
		session, RECORD_ARRAY_CREATE, &record, sizeof record, NULL, 0, NULL, 0, 0);
	pthread_mutex_lock(&session->memory.change);
	return error;
}

/* The memory of a new page-locked object. Its descriptor is kept, as long as there are not too many, for other sessions. */
static int open_file(struct gdev_session *session, struct object *object)
{
	int *files = session->memory.files, fd;

	registry_enter();
	fd = fd_shared_memory("gdev-host", object->bytes);
	for (int i = 0; i < MEMORY_FILES && fd >= 0 && object->file < 0; i++)
		if (files[i] < 0) {
			files[i] = fd;
			object->file = i;
		}
	registry_leave();
	return fd;
}

static void close_file(struct gdev_session *session, struct object *object)
{
	if (object->file < 0)
		return;
	registry_enter();
	close(steal_fd(&session->memory.files[object->file]));
	registry_leave();
	object->file = -1;
}

void memory_forget_files(struct gdev_session *session)
{
	for (int i = 0; i < MEMORY_FILES; i++)
		if (session->memory.files[i] >= 0)
			close(steal_fd(&session->memory.files[i]));
}

/* As request_memory(). */
static int add_host_memory(struct gdev_session *session, struct object *object)
{
	struct transport *transport = session->transport;
	int fd, error;

	pthread_mutex_unlock(&session->memory.change);
	if (transport->ops->host_map) {
		error = transport->ops->host_map(transport, object->base, object->bytes);
		if (error)
			unmap_piece(object->base, object->bytes);
		goto out;
	}
	fd = open_file(session, object);
	error = fd < 0 ? fd : map_piece(object->base, object->bytes, fd);
	if (!error) {
		error = transport->ops->host_add(transport, object->base, object->bytes, fd, 0);
		if (error)
			unmap_piece(object->base, object->bytes);
	}
	if (error)
		close_file(session, object);
	if (fd >= 0 && object->file < 0)
		close(fd);
out:
	pthread_mutex_lock(&session->memory.change);
	object->mapped = !error;
	return error;
}

static struct arena *arena_of(struct gdev_session *session, enum gdev_memory_kind kind)
{
	struct memory *memory = &session->memory;

	return kind == GDEV_MEMORY_HOST && session->transport->ops->host_map ? &memory->store
									     : &memory->arena;
}

/* shape: NULL, or of an array. */
static int make_object(struct gdev_session *session, enum gdev_memory_kind kind, uint64_t bytes,
	const struct array_shape *shape, struct object **created)
{
	struct object *object = calloc(1, sizeof *object);
	int error;

	if (!object)
		return -ENOMEM;
	object->kind = kind;
	object->array = shape;
	object->file = -1;
	object->bytes = bytes;
	object->reserved_bytes = align_up(bytes, ARENA_ALIGN);
	list_init(&object->blocks);
	list_init(&object->link);
	error = arena_take(arena_of(session, kind), object->reserved_bytes, &object->base);
	if (error)
		goto err_free;
	if (kind == GDEV_MEMORY_HOST)
		error = add_host_memory(session, object);
	else if (shape)
		error = request_array(session, shape, object);
	else if (kind == GDEV_MEMORY_DEVICE || kind == GDEV_MEMORY_MANAGED)
		error = request_memory(session, RECORD_MEMORY_ALLOC, object);
	if (error)
		goto err_addresses;
	if (kind == GDEV_MEMORY_MANAGED)
		error = managed_create(session, object);
	if (error)
		goto err_worker;
	if (kind == GDEV_MEMORY_SHARED)
		session->shares = true;
	*created = object;
	return 0;

err_worker:
	unmap_piece(object->base, object->bytes);
	if (request_memory(session, RECORD_MEMORY_FREE, object)) {
		free(object);
		return error;
	}
err_addresses:
	arena_give(arena_of(session, kind), object->base, object->reserved_bytes);
err_free:
	free(object);
	return error;
}

int memory_object_create(struct gdev_session *session, enum gdev_memory_kind kind, uint64_t bytes,
	struct object **created)
{
	return make_object(session, kind, bytes, NULL, created);
}

int memory_object_create_at(
	struct gdev_session *session, uint64_t address, uint64_t bytes, struct object **created)
{
	struct object *object = calloc(1, sizeof *object);

	if (!object)
		return -ENOMEM;
	object->kind = GDEV_MEMORY_SHARED;
	object->file = -1;
	object->base = address;
	object->bytes = bytes;
	list_init(&object->blocks);
	list_init(&object->link);
	session->shares = true;
	*created = object;
	return 0;
}

int memory_leave_peers(struct gdev_session *session, struct object *object)
{
	int error;

	if (!object->has_peers)
		return 0;
	pthread_mutex_unlock(&session->memory.change);
	error = peers_leave_object(session, object->base);
	pthread_mutex_lock(&session->memory.change);
	return error;
}

/* Nobody finds the object any more. */
int memory_object_destroy(struct gdev_session *session, struct object *object)
{
	int error = memory_leave_peers(session, object), freed = 0;

	if (object->managed)
		error = managed_destroy(session, object);
	if (object->kind != GDEV_MEMORY_SHARED)
		freed = request_memory(session, RECORD_MEMORY_FREE, object);
	error = error ? error : freed;
	if (object->mapped || object->kind == GDEV_MEMORY_MANAGED)
		unmap_piece(object->base, object->bytes);
	pthread_mutex_unlock(&session->memory.change);
	close_file(session, object);
	pthread_mutex_lock(&session->memory.change);
	/* Addresses at which the worker may still have something must not be handed out again. */
	if (!error && object->reserved_bytes)
		arena_give(arena_of(session, object->kind), object->base, object->reserved_bytes);
	object_free(object);
	return error;
}

/* ---- allocations ---- */

static struct pool *pool_of(struct memory *memory, enum gdev_memory_kind kind)
{
	return kind == GDEV_MEMORY_HOST      ? &memory->host
	       : kind == GDEV_MEMORY_MANAGED ? &memory->managed
					     : &memory->device;
}

bool memory_is_carved(const struct block *block)
{
	return block->object->used_blocks;
}

/* Memory that is only kept is no reason to refuse. */
static int create_object(struct gdev_session *session, enum gdev_memory_kind kind, uint64_t bytes,
	const struct array_shape *shape, struct object **created)
{
	uint64_t left;
	int error;

	do {
		left = session->memory.kept.left;
		error = make_object(session, kind, bytes, shape, created);
	} while (error == -ENOMEM && kept_release(session, left));
	return error;
}

static int carve_block(
	struct gdev_session *session, struct pool *pool, uint64_t bytes, struct block **carved)
{
	struct object *object;
	int error;

	*carved = pool_take(pool, bytes);
	if (*carved)
		return 0;
	error = create_object(session, pool->kind, OBJECT_BYTES, NULL, &object);
	if (error)
		return error;
	error = pool_add(pool, object);
	if (error) {
		memory_object_destroy(session, object);
		return error;
	}
	*carved = pool_take(pool, bytes);
	return 0;
}

static int alloc_whole(struct gdev_session *session, enum gdev_memory_kind kind, uint64_t bytes,
	const struct array_shape *shape, struct block **created)
{
	struct object *object = NULL;
	int error = 0;

	bytes = align_up(bytes, kind == GDEV_MEMORY_HOST ? PAGE : ARENA_ALIGN);
	if (kind == GDEV_MEMORY_DEVICE && !shape)
		object = kept_take(session, bytes);
	if (!object)
		error = create_object(session, kind, bytes, shape, &object);
	if (error)
		return error;
	error = object_whole_block(object, created);
	if (error)
		memory_object_destroy(session, object);
	return error;
}

static int give_block(struct gdev_session *session, struct block *block)
{
	struct object *object = block->object;

	if (memory_is_carved(block))
		object = pool_give(pool_of(&session->memory, object->kind), block);
	else if (kept_give(session, object))
		return 0;
	return object ? memory_object_destroy(session, object) : 0;
}

/* Publishes a block that was just made as an allocation of `asked` bytes. */
int memory_publish(struct gdev_session *session, struct block *block, uint64_t asked)
{
	int error;

	block->asked_bytes = asked;
	block->refs = 1;
	error = table_insert(&session->memory, block);
	if (error)
		give_block(session, block);
	return error;
}

static int alloc_block(struct gdev_session *session, enum gdev_memory_kind kind, uint64_t bytes,
	uint64_t granule, const struct array_shape *shape, uint64_t *address)
{
	struct memory *memory = &session->memory;
	uint64_t room = bytes;
	struct block *block;
	int error;

	if (!bytes)
		return -EINVAL;
	if (bytes > session->description.arena_bytes)
		return -ENOMEM;
	error = gdev_session_error(session, NULL);
	if (error)
		return error;
	if (session->checked &&
		!shape) /* what is just behind is nobody's: an access there is found out */
		room += granule;
	pthread_mutex_lock(&memory->change);
	if (room <= CARVE_MAX && !shape)
		error = carve_block(
			session, pool_of(memory, kind), align_up(room, granule), &block);
	else
		error = alloc_whole(session, kind, room, shape, &block);
	if (!error)
		error = memory_publish(session, block, bytes);
	if (!error)
		*address = block->base;
	pthread_mutex_unlock(&memory->change);
	return error;
}

int gdev_memory_alloc(struct gdev_session *session, uint64_t bytes, uint64_t *address)
{
	return alloc_block(session, GDEV_MEMORY_DEVICE, bytes, GRANULE, NULL, address);
}

int gdev_array_create(
	struct gdev_session *session, const struct array_shape *shape, uint64_t *address)
{
	struct texture plain;
	uint64_t bytes;

	if (!array_layout(shape, 0, &plain, &bytes))
		return -EINVAL;
	return alloc_block(session, GDEV_MEMORY_DEVICE, bytes, GRANULE, shape, address);
}

int memory_alloc_managed(struct gdev_session *session, uint64_t bytes, uint64_t *address)
{
	return alloc_block(session, GDEV_MEMORY_MANAGED, bytes, GRANULE, NULL, address);
}

int gdev_host_alloc(struct gdev_session *session, uint64_t bytes, void **pointer)
{
	uint64_t address;
	int error = alloc_block(session, GDEV_MEMORY_HOST, bytes, PAGE, NULL, &address);

	if (error)
		return error;
	/* A carved block may have been used before. */
	if (bytes <= CARVE_MAX)
		memset((void *)address, 0, bytes);
	*pointer = (void *)address;
	return 0;
}

/* The allocation that starts at `address`, of a kind that this call frees; memory.change is held. */
static struct block *find_start(struct memory *memory, uint64_t address)
{
	struct block *block = block_at(memory, address);

	return block && block->base == address && !block->object->peer &&
			       block->object->kind != GDEV_MEMORY_SHARED
		       ? block
		       : NULL;
}

int gdev_memory_ref(struct gdev_session *session, uint64_t address)
{
	struct memory *memory = &session->memory;
	struct block *block;

	pthread_mutex_lock(&memory->change);
	block = find_start(memory, address);
	if (block)
		block->refs++;
	pthread_mutex_unlock(&memory->change);
	return block ? 0 : -EINVAL;
}

int memory_release(struct gdev_session *session, uint64_t address)
{
	struct memory *memory = &session->memory;
	struct block *block;
	int error = 0;

	pthread_mutex_lock(&memory->change);
	block = find_start(memory, address);
	if (!block) {
		error = -EINVAL;
	} else if (--block->refs == 0) {
		table_remove(memory, block);
		error = give_block(session, block);
	}
	pthread_mutex_unlock(&memory->change);
	return error;
}

int gdev_memory_free(struct gdev_session *session, uint64_t address)
{
	struct gdev_range range;
	int error, freed;

	if (session_lost(session))
		return transport_error(session->transport);
	gdev_memory_lookup(session, address, &range);
	if (range.base != address || range.kind == GDEV_MEMORY_UNKNOWN)
		return -EINVAL;
	error = streams_sync(session);
	freed = memory_release(session, address);
	return error ? error : freed;
}

/* Maps whole objects: what the device exports is chunks. */
int gdev_memory_map(struct gdev_session *session, uint64_t address, uint64_t bytes, void **pointer)
{
	struct transport *transport = session->transport;
	struct memory *memory = &session->memory;
	struct block *block;
	int error = 0;

	if (session_lost(session))
		return transport_error(session->transport);
	if (!transport->ops->device_map)
		return -ENOTSUP;
	pthread_mutex_lock(&memory->change);
	block = block_at(memory, address);
	if (!block || bytes > block->asked_bytes - (address - block->base)) {
		error = -EINVAL;
	} else if (block->object->peer && !block->object->mapped) {
		error = -ENOTSUP;
	} else if (!block->object->mapped) {
		struct object *object = block->object;
		error = transport->ops->device_map(
			transport, object->base, object->bytes, false, map_device_piece, object);
		if (error)
			unmap_piece(object->base, object->bytes);
		object->mapped = !error;
	}
	if (!error) /* what the host writes there is not seen */
		error = check_added(session, block->base, block->asked_bytes, true);
	pthread_mutex_unlock(&memory->change);
	if (!error)
		*pointer = (void *)address;
	return error;
}

/* ---- shared memory's part: attached segments are objects that others own ---- */

struct block *memory_block_at(struct gdev_session *session, uint64_t address)
{
	return block_at(&session->memory, address);
}

struct block *memory_take_shared(struct gdev_session *session, uint64_t address)
{
	struct memory *memory = &session->memory;
	struct block *block = block_at(memory, address);

	if (!block || block->base != address || block->object->peer ||
		block->object->kind != GDEV_MEMORY_SHARED)
		return NULL;
	table_remove(memory, block);
	return block;
}

/* ---- memory that others of the process, or of the session, have allocated ---- */

/* An allocation of its own, of all of the object that is described. memory.change is held. */
static int insert_whole(struct memory *memory, const struct object *described)
{
	struct object *object = calloc(1, sizeof *object);
	struct block *block = NULL;
	int error;

	if (!object)
		return -ENOMEM;
	*object = *described;
	object->file = -1;
	list_init(&object->blocks);
	list_init(&object->link);
	error = object_whole_block(object, &block);
	if (!error) {
		block->asked_bytes = object->bytes;
		block->refs = 1;
		error = table_insert(memory, block);
	}
	if (error)
		object_free(object);
	return error;
}

int memory_add_peer(struct gdev_session *session, const struct object *of)
{
	const struct object peer = {
		.base = of->base,
		.bytes = of->bytes,
		.kind = of->kind == GDEV_MEMORY_HOST ? GDEV_MEMORY_HOST : GDEV_MEMORY_SHARED,
		.mapped = of->mapped,
		.peer = true,
	};
	int error = insert_whole(&session->memory, &peer);

	if (!error)
		session->shares = true;
	return error;
}

int memory_adopt(struct gdev_session *session, uint64_t address, uint64_t bytes)
{
	const struct object adopted = {.base = address, .bytes = bytes, .kind = GDEV_MEMORY_DEVICE};
	int error;

	pthread_mutex_lock(&session->memory.change);
	error = insert_whole(&session->memory, &adopted);
	pthread_mutex_unlock(&session->memory.change);
	return error;
}

static bool remove_whole(struct memory *memory, uint64_t base, bool peer)
{
	struct block *block;
	bool found;

	pthread_mutex_lock(&memory->change);
	block = block_at(memory, base);
	found = block && block->base == base && block->object->peer == peer;
	if (found) {
		table_remove(memory, block);
		object_free(block->object);
	}
	pthread_mutex_unlock(&memory->change);
	return found;
}

bool memory_remove_peer(struct gdev_session *session, uint64_t base)
{
	return remove_whole(&session->memory, base, true);
}

void memory_disown(struct gdev_session *session, uint64_t address)
{
	remove_whole(&session->memory, address, false);
}

/* ---- life ---- */

int memory_init(struct gdev_session *session)
{
	struct memory *memory = &session->memory;

	memset(memory->files, -1, sizeof memory->files);
	pthread_mutex_init(&memory->change, NULL);
	pthread_rwlock_init(&memory->table, NULL);
	pool_init(&memory->device, GDEV_MEMORY_DEVICE);
	pool_init(&memory->host, GDEV_MEMORY_HOST);
	pool_init(&memory->managed, GDEV_MEMORY_MANAGED);
	list_init(&memory->kept.objects);
	pthread_cond_init(&memory->kept.settled, NULL);
	return 0;
}

static void free_objects(struct list *objects)
{
	struct object *object, *next;

	list_for_each_safe (object, next, objects, link)
		object_free(object);
}

/* The session ends: the worker gives everything back, and the arena is unmapped as a whole. */
void memory_finish(struct gdev_session *session)
{
	struct memory *memory = &session->memory;

	for (size_t i = 0; i < memory->block_count; i++)
		if (!memory_is_carved(memory->blocks[i]))
			object_free(memory->blocks[i]->object);
	free_objects(&memory->device.objects);
	free_objects(&memory->host.objects);
	free_objects(&memory->managed.objects);
	free_objects(&memory->kept.objects);
	free(memory->blocks);
	free(memory->variables);
	arena_finish(&memory->store);
	arena_finish(&memory->arena);
	pthread_cond_destroy(&memory->kept.settled);
	pthread_mutex_destroy(&memory->change);
	pthread_rwlock_destroy(&memory->table);
}
