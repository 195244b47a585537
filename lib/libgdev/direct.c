/* SPDX-License-Identifier: MIT
 *
 * Direct copies (proto/session.h): where the device's memory can be mapped, and while the worker lets us, we
 * copy to and from it ourselves. The one memcpy is then all that a copy costs.
 *
 * A window is the library's own mapping of an object, somewhere in the process: a pointer to device memory
 * does not become valid by it. It is made when a copy first wants it, is good for one generation, and goes
 * with its object, or with the last copy through it if that ends later. memory.table guards object->window, and is not
 * held during a copy: other threads allocate and free meanwhile.
 *
 * Order. The caller has waited for the stream, and for what RECORD_FENCE has put before every later record.
 * What follows is sent after the copy has been done, and needs nothing.
 */
#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/copy.h"
#include "base/processor.h"
#include "lib/libgdev/internal.h"
#include "lib/libgdev/memory.h"

#define TELL_NS (100 * NS_PER_MS) /* the worker hears of our copies as often as that */
#define ROUSE_BYTES (512u << 10)
/* How much the kernel maps at one page fault, if it is for reading and the pages are there: a write would map one
 * page. */
#define FAULT_AROUND_BYTES 65536ull
#define BYTES_PER_NS 10.0 /* about */

struct window {
	uint8_t *base; /* NULL: there is none to be had in this generation */
	uint64_t generation, bytes;
	atomic_uint users; /* the object, and copies under way */
};

static struct session_header *header_of(struct gdev_session *session)
{
	return &session->transport->segment->header;
}

/* ---- windows ---- */

static int map_piece(void *window, uint64_t offset, uint64_t bytes, int fd)
{
	uint8_t *base = ((struct window *)window)->base;

	return mmap(base + offset, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, fd, 0) ==
			       MAP_FAILED
		       ? -errno
		       : 0;
}

static void window_put(struct window *window)
{
	if (!window || atomic_fetch_sub(&window->users, 1) > 1)
		return;
	if (window->base)
		munmap(window->base, window->bytes);
	free(window);
}

void direct_forget(struct object *object)
{
	window_put(object->window);
	object->window = NULL;
}

/* NULL: not now. One without a base: not in this generation. */
static struct window *window_create(struct gdev_session *session, const struct object *object)
{
	struct transport *transport = session->transport;
	struct window *window = calloc(1, sizeof *window);
	int error;

	if (!window)
		return NULL;
	window->bytes = object->bytes;
	window->users = 1;
	window->generation =
		__atomic_load_n(&header_of(session)->direct_generation, __ATOMIC_SEQ_CST);
	window->base = mmap(
		NULL, object->bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (window->base == MAP_FAILED) {
		window->base = NULL;
		return window;
	}
	error = transport->ops->device_map(
		transport, object->base, object->bytes, true, map_piece, window);
	madvise(window->base, object->bytes, MADV_DONTFORK);
	if (!error)
		return window;
	munmap(window->base, object->bytes);
	window->base = NULL;
	if (error != -EAGAIN)
		return window;
	free(window);
	return NULL;
}

static bool is_current(struct gdev_session *session, const struct window *window)
{
	return window &&
	       window->generation ==
		       __atomic_load_n(&header_of(session)->direct_generation, __ATOMIC_ACQUIRE);
}

/* With memory.change. */
static void renew_window(struct gdev_session *session, struct object *object)
{
	struct memory *memory = &session->memory;
	struct window *window, *old;

	if (is_current(session, object->window))
		return;
	window = window_create(session, object);
	pthread_rwlock_wrlock(&memory->table);
	old = object->window;
	object->window = window;
	pthread_rwlock_unlock(&memory->table);
	window_put(old);
}

/* ---- the worker's leave ---- */

static enum session_leave allowed(struct gdev_session *session, enum copy_direction direction)
{
	return __atomic_load_n(&header_of(session)->direct_allowed[direction], __ATOMIC_RELAXED);
}

static void tell_worker(struct gdev_session *session, uint64_t now_ns)
{
	atomic_store_explicit(&session->direct_told_ns, now_ns, memory_order_relaxed);
	session->transport->ops->kick(session->transport);
}

static void leave_direction(
	struct gdev_session *session, enum copy_direction direction, uint64_t now_ns)
{
	struct session_header *header = header_of(session);

	__atomic_fetch_sub(&header->direct_copying[direction], 1, __ATOMIC_SEQ_CST);
	if (!allowed(session, direction) ||
		now_ns > atomic_load_explicit(&session->direct_told_ns, memory_order_relaxed) +
				 TELL_NS)
		tell_worker(session, now_ns);
}

static bool enter_direction(
	struct gdev_session *session, enum copy_direction direction, const struct window *window)
{
	struct session_header *header = header_of(session);

	if (!allowed(session, direction))
		return false;
	__atomic_fetch_add(&header->direct_copying[direction], 1, __ATOMIC_SEQ_CST);
	if (allowed(session, direction) && is_current(session, window))
		return true;
	leave_direction(session, direction, clock_now_ns());
	return false;
}

/* ---- copying ---- */

static void touch_pages(const uint8_t *bytes, uint64_t count)
{
	for (uint64_t i = 0; i < count; i += FAULT_AROUND_BYTES)
		*(const volatile uint8_t *)(bytes + i);
}

static void move_row(void *to, const void *from, uint64_t bytes, bool streaming)
{
	if (streaming)
		copy_streaming(to, from, bytes);
	else
		copy_cached(to, from, bytes);
}

/* A copy to the device is mostly followed by a launch. A worker that sleeps takes some 50 us to wake up, and then
 * looks at the ring for about as long. So it is woken when so much is left to copy. */
static void move_last_row(
	struct gdev_session *session, void *to, const void *from, uint64_t bytes, bool streaming)
{
	uint64_t first = bytes - min_of(bytes, ROUSE_BYTES);

	move_row(to, from, first, streaming);
	session->transport->ops->rouse(session->transport);
	move_row((uint8_t *)to + first, (const uint8_t *)from + first, bytes - first, streaming);
}

static void copy_rows(
	struct gdev_session *session, const struct direct_piece *piece, uint8_t *device)
{
	uint8_t *host = (uint8_t *)piece->host;

	for (uint64_t i = 0; i < piece->rows; i++) {
		if (piece->direction == COPY_TO_DEVICE) {
			touch_pages(device, piece->width);
			if (piece->last && i == piece->rows - 1)
				move_last_row(
					session, device, host, piece->width, piece->streaming);
			else
				move_row(device, host, piece->width, piece->streaming);
		} else {
			move_row(host, device, piece->width, piece->streaming);
		}
		device += piece->device_pitch;
		host += piece->host_pitch;
	}
}

/* The window through which all of a piece is reached, for window_put(); NULL: none. */
static struct window *window_get(
	struct gdev_session *session, uint64_t address, uint64_t span, uint64_t *offset)
{
	struct memory *memory = &session->memory;
	struct window *window = NULL;
	const struct block *block;

	pthread_rwlock_rdlock(&memory->table);
	block = memory_block_at(session, address);
	if (block && span <= block->asked_bytes - (address - block->base))
		window = block->object->window;
	if (window && window->base) {
		*offset = address - block->object->base;
		atomic_fetch_add(&window->users, 1);
	} else {
		window = NULL;
	}
	pthread_rwlock_unlock(&memory->table);
	return window;
}

/* A span of device memory while we reach it, from use_begin() to use_end(). */
struct use {
	enum copy_direction direction;
	struct window *window;
	uint8_t *device;
	uint64_t begin_ns;
	bool contended;
};

/* False: not now. `bytes` of the span are going to be moved. */
static bool use_begin(struct gdev_session *session, enum copy_direction direction, uint64_t address,
	uint64_t span, uint64_t bytes, struct use *use)
{
	uint64_t offset;

	if (!allowed(session, direction))
		return false;
	*use = (struct use){
		.direction = direction, .window = window_get(session, address, span, &offset)};
	if (!use->window)
		return false;
	if (!enter_direction(session, direction, use->window)) {
		window_put(use->window);
		return false;
	}
	use->device = use->window->base + offset;
	use->contended = allowed(session, direction) == SESSION_DIRECT_CONTENDED;
	use->begin_ns = clock_now_ns();
	if (use->contended)
		processor_begin(use->begin_ns, (double)bytes / BYTES_PER_NS);
	return true;
}

/* False: it took longer than the worker waits before it takes memory away, and may have reached what was there before. */
static bool use_end(struct gdev_session *session, struct use *use, uint64_t bytes)
{
	struct session_header *header = header_of(session);
	uint64_t end_ns = clock_now_ns(), lost_ns = 0;
	bool counts;

	/* Pairs with the worker's: it counts the generation up, and then looks at what is in the memory. */
	__atomic_thread_fence(__ATOMIC_SEQ_CST);
	counts = is_current(session, use->window);
	if (use->contended)
		lost_ns = processor_lost_ns(use->begin_ns, end_ns);
	__atomic_fetch_add(&header->direct_bytes[use->direction], bytes, __ATOMIC_RELAXED);
	__atomic_fetch_add(&header->direct_ns[use->direction], end_ns - use->begin_ns - lost_ns,
		__ATOMIC_RELAXED);
	leave_direction(session, use->direction, end_ns);
	if (gdev_traced())
		trace_copied(use->direction, bytes, use->begin_ns, end_ns);
	window_put(use->window);
	return counts;
}

bool direct_move(struct gdev_session *session, const struct direct_piece *piece)
{
	uint64_t span = (piece->rows - 1) * piece->device_pitch + piece->width;
	uint64_t bytes = piece->width * piece->rows;
	struct use use;

	if (!use_begin(session, piece->direction, piece->device, span, bytes, &use))
		return false;
	copy_rows(session, piece, use.device);
	return use_end(session, &use, bytes);
}

/* Whoever copies for the process reaches its pages: those that the kernel has of the file are mapped for that. */
static int64_t read_by_transport(
	struct gdev_session *session, uint64_t address, uint64_t bytes, int fd, uint64_t offset)
{
	uint64_t before = offset % (uint64_t)sysconf(_SC_PAGESIZE);
	struct transport_rows rows = {.device = address, .count = 1};
	struct gdev_range range;
	struct stat file;
	uint8_t *pages;
	int error;

	if (fstat(fd, &file))
		return -errno;
	gdev_memory_lookup(session, address, &range);
	if (!S_ISREG(file.st_mode) || range.kind != GDEV_MEMORY_DEVICE ||
		bytes > range.bytes - (address - range.base))
		return -ENOTSUP;
	if (offset >= (uint64_t)file.st_size)
		return 0;
	bytes = min_of(bytes, (uint64_t)file.st_size - offset);
	pages = mmap(NULL, before + bytes, PROT_READ, MAP_SHARED, fd, (off_t)(offset - before));
	if (pages == MAP_FAILED)
		return -ENOTSUP;
	rows.host = (uint64_t)pages + before;
	rows.width = rows.device_pitch = rows.host_pitch = bytes;
	error = session->transport->ops->copy(session->transport, COPY_TO_DEVICE, &rows);
	munmap(pages, before + bytes);
	return error ? error : (int64_t)bytes;
}

/* Between a file and device memory: reads the file, or writes it. */
static int64_t move_file(struct gdev_session *session, enum copy_direction direction,
	uint64_t address, uint64_t bytes, int fd, uint64_t offset, int flags)
{
	bool to_device = direction == COPY_TO_DEVICE;
	struct iovec part;
	struct use use;
	ssize_t moved;
	int error;

	if (offset > INT64_MAX) /* -1 is where the file is now */
		return -EINVAL;
	bytes = min_of(bytes, SESSION_DIRECT_BYTES);
	if (session->transport->ops->copy && to_device && !flags)
		return read_by_transport(session, address, bytes, fd, offset);
	if (!direct_prepare(session, address, true) ||
		!use_begin(session, direction, address, bytes, bytes, &use))
		return -ENOTSUP;
	touch_pages(use.device, bytes);
	part = (struct iovec){use.device, bytes};
	moved = to_device ? preadv2(fd, &part, 1, (off_t)offset, flags)
			  : pwritev2(fd, &part, 1, (off_t)offset, flags);
	error = errno == EOPNOTSUPP && flags ? EAGAIN : errno; /* -ENOTSUP says something else */
	if (!use_end(session, &use, moved > 0 ? (uint64_t)moved : 0) && moved > 0)
		return -ENOTSUP;
	return moved < 0 ? -error : moved;
}

int64_t gdev_memory_read(struct gdev_session *session, uint64_t address, uint64_t bytes, int fd,
	uint64_t offset, int flags)
{
	return move_file(session, COPY_TO_DEVICE, address, bytes, fd, offset, flags);
}

int64_t gdev_memory_write(struct gdev_session *session, uint64_t address, uint64_t bytes, int fd,
	uint64_t offset, int flags)
{
	return move_file(session, COPY_FROM_DEVICE, address, bytes, fd, offset, flags);
}

/* ---- whether to ---- */

static bool has_window(struct gdev_session *session, uint64_t address, bool *known)
{
	struct memory *memory = &session->memory;
	const struct block *block;
	bool has = false;

	pthread_rwlock_rdlock(&memory->table);
	block = memory_block_at(session, address);
	*known = block && is_current(session, block->object->window);
	has = *known && block->object->window->base;
	pthread_rwlock_unlock(&memory->table);
	return has;
}

bool gdev_session_copies(struct gdev_session *session)
{
	return !session->checked && /* the worker is to see what is written */
	       __atomic_load_n(&header_of(session)->direct_possible, __ATOMIC_RELAXED);
}

int gdev_session_revoked(struct gdev_session *session)
{
	if (!session->transport->ops->device_map)
		return -ENOTSUP;
	if (__atomic_load_n(&header_of(session)->revoked, __ATOMIC_RELAXED))
		return GDEV_REVOKED;
	return session->transport->sleepers ? GDEV_AWAITED : 0;
}

bool direct_prepare(struct gdev_session *session, uint64_t address, bool create)
{
	struct memory *memory = &session->memory;
	const struct block *block;
	bool known;

	if (!gdev_session_copies(session))
		return false;
	if (has_window(session, address, &known))
		return true;
	if (known || !create)
		return false;
	pthread_mutex_lock(&memory->change);
	block = memory_block_at(session, address);
	if (block && block->object->kind == GDEV_MEMORY_DEVICE)
		renew_window(session, block->object);
	pthread_mutex_unlock(&memory->change);
	return has_window(session, address, &known);
}
