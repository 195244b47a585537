/* SPDX-License-Identifier: MIT
 *
 * Calls, noted for `gdev trace` (proto/trace.h). A process has one place for them: the trace segment of the
 * first of its sessions that is open.
 *
 * The word that says whether somebody traces is looked at by every call, at any time, also while its session
 * is being closed. So it has a page of its own that is mapped for as long as the process lives: over it lies the
 * first page of the segment, or zeros.
 */
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fd.h"
#include "lib/libgdev/internal.h"
#include "proto/trace_writer.h"

#define NAMES 2048 /* a power of two, a multiple of what there are */

static const uint32_t never;
const uint32_t *gdev_trace_word = &never;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* guards the rest */
static struct list sources = {&sources, &sources};       /* struct trace_source, oldest first */
static struct trace_segment *segment;                    /* of the first of them; or NULL */
static struct trace_writer writer;
static void *page; /* what gdev_trace_word is in */

/* Where names are in the segment, by the address of the literal. */
static struct {
	const char *name;
	uint32_t offset;
} names[NAMES];

static __thread uint32_t thread_id;
static __thread struct {
	uint32_t session, timeline;
	uint64_t value;
} sent; /* the first command of the call that the thread is in */

/* ---- where to ---- */

static void show_zeros(void)
{
	if (page)
		mmap(page, sizeof(struct trace_header), PROT_READ,
			MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
}

static bool page_make(void)
{
	void *made = page;

	if (made)
		return true;
	made = mmap(
		NULL, sizeof(struct trace_header), PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (made == MAP_FAILED)
		return false;
	page = made;
	__atomic_store_n(
		&gdev_trace_word, &((const struct trace_header *)made)->enabled, __ATOMIC_RELEASE);
	return true;
}

/* Without a place nothing is noted, and nothing is missing but that. */
static void use(const struct trace_source *source)
{
	void *mapped;

	if (!page_make())
		return;
	mapped = mmap(NULL, sizeof *segment, PROT_READ | PROT_WRITE, MAP_SHARED, source->fd, 0);
	if (mapped == MAP_FAILED)
		return;
	madvise(mapped, sizeof *segment, MADV_DONTFORK);
	segment = mapped;
	memset(names, 0, sizeof names);
	trace_writer_init(&writer, &segment->client);
	mmap(page, sizeof segment->header, PROT_READ, MAP_SHARED | MAP_FIXED, source->fd, 0);
}

void trace_attach(struct trace_source *source, int fd)
{
	uint64_t bytes;

	list_init(&source->link);
	source->fd = fd;
	if (fd < 0)
		return;
	if (fd_shared_memory_size(fd, &bytes) || bytes < sizeof *segment) {
		close(steal_fd(&source->fd));
		return;
	}
	pthread_mutex_lock(&lock);
	list_append(&sources, &source->link);
	if (!segment)
		use(source);
	pthread_mutex_unlock(&lock);
}

void trace_detach(struct trace_source *source)
{
	if (source->fd < 0)
		return;
	pthread_mutex_lock(&lock);
	if (segment && list_first(&sources, struct trace_source, link) == source) {
		show_zeros();
		munmap(segment, sizeof *segment);
		segment = NULL;
	}
	list_remove(&source->link);
	if (!segment && !list_empty(&sources))
		use(list_first(&sources, struct trace_source, link));
	pthread_mutex_unlock(&lock);
	close(steal_fd(&source->fd));
}

void trace_forget(void)
{
	struct trace_source *source, *next;

	pthread_mutex_init(&lock, NULL);
	show_zeros();
	segment = NULL;
	thread_id = 0;
	list_for_each_safe (source, next, &sources, link) {
		list_remove(&source->link);
		close(steal_fd(&source->fd));
	}
}

/* ---- what ---- */

static uint32_t name_offset(const char *name)
{
	size_t at = (uintptr_t)name * 0x9e3779b97f4a7c15u >> 32;

	for (size_t tries = 0; tries < NAMES; tries++, at++) {
		if (names[at % NAMES].name == name)
			return names[at % NAMES].offset;
		if (names[at % NAMES].name)
			continue;
		names[at % NAMES].name = name;
		names[at % NAMES].offset = trace_write_name(&writer, name);
		return names[at % NAMES].offset;
	}
	return 0;
}

static void write_event(struct trace_event *event, const char *name)
{
	if (!thread_id)
		thread_id = (uint32_t)gettid();
	event->detail = thread_id;
	pthread_mutex_lock(&lock);
	if (segment) {
		event->name = name ? name_offset(name) : 0;
		trace_write(&writer, event);
	}
	pthread_mutex_unlock(&lock);
}

uint64_t gdev_trace_begin(void)
{
	sent.value = 0;
	return clock_now_ns();
}

void gdev_trace_end(const char *name, uint64_t begin_ns, int status)
{
	struct trace_event event = {
		.kind = TRACE_CALL,
		.begin_ns = begin_ns,
		.end_ns = clock_now_ns(),
		.status = status,
	};

	if (sent.value) {
		event.session = sent.session;
		event.timeline = sent.timeline;
		event.value = sent.value;
	}
	write_event(&event, name);
}

void trace_copied(enum copy_direction direction, uint64_t bytes, uint64_t begin_ns, uint64_t end_ns)
{
	struct trace_event event = {
		.kind = TRACE_COPY,
		.begin_ns = begin_ns,
		.end_ns = end_ns,
		.amount = bytes,
		.status = (int32_t)direction,
	};

	write_event(&event, NULL);
}

void trace_sent(const struct gdev_stream *stream, uint16_t opcode)
{
	if (sent.value || opcode == RECORD_WAIT || opcode == RECORD_STAMP ||
		opcode == RECORD_EVENT_WAIT)
		return;
	sent.session = (uint32_t)stream->session->description.session;
	sent.timeline = stream->timeline;
	sent.value = stream->last;
}
