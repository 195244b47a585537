/* SPDX-License-Identifier: MIT
 *
 * Managed memory where the process cannot map the device's (NVIDIA GPUs). It is there twice: as device memory, and as
 * page-locked memory (the backing) that the process has mapped at the same addresses. At any time one side has each page
 * of 2 MiB, and the process may touch only those that it has:
 *
 *   PAGE_FRESH    both have it (zeros, nobody has used it), it is closed to the process
 *   PAGE_READ     both have it, the process may read it
 *   PAGE_WRITTEN  the process has it
 *   PAGE_DEVICE   the device has it, it is closed to the process
 *
 * A command that names pages, as a launch may name all, finds them on the device (managed_enter): what the process has
 * written is copied there, and all are closed. A touch of a closed page is a fault (fault.c), which waits until the
 * session's commands are done and copies the page back; of pages that are touched one after the other more and more at
 * once, RUN_MAX at most, and then the next ones ahead of their touch. So kernels and the process have the memory in turn, as CUDA has it for devices without
 * concurrent managed access: a page is never on both sides while somebody may write it.
 *
 * Copies go between the two mappings by records of a stream that nothing else uses, and with RECORD_FENCE to the device:
 * what is submitted later, on any stream, waits for them, and they wait for nothing.
 *
 * Locks. `lock` is the process's and guards all pages. It is held while a page is copied back, and never while commands of
 * the program are waited for. It comes after memory.change and before streams.lock. No other lock of the library may be held
 * where memory of the program is read or written: the fault would ask for it again.
 */
#include "lib/libgdev/managed.h"

#include <errno.h>
#include <sys/mman.h>

#include "base/log.h"
#include "lib/libgdev/memory.h"

#define PAGE_BYTES ARENA_ALIGN
#define NAMED_NS 20000 /* how long to wait for a command that is about to be sent */
#define RUN_MAX                                                                                    \
	16 /* pages that are copied at once, at most: the process closes or uses others meanwhile */

enum page { PAGE_FRESH, PAGE_READ, PAGE_WRITTEN, PAGE_DEVICE };

struct managed_pages {
	struct list link; /* of `all` */
	struct gdev_session *session;
	struct object *object, *backing;
	uint32_t count, here; /* pages, and those that the device has not alone */
	uint32_t next,
		run; /* where a touch would go on with the last run of pages, and how long that was */
	/* Pages of the device that are copied in case the process goes on there. It does not count any more when a command
	 * names pages of the session, which may change them. */
	struct {
		uint32_t first, count;
		struct gdev_fence copied;
	} ahead;
	struct {
		uint8_t state;
		bool populated; /* the process has page tables for it */
	} pages[];
};

static pthread_mutex_t lock =
	PTHREAD_MUTEX_INITIALIZER; /* guards what follows, and what is not atomic of struct managed */
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER; /* struct managed.touching */
static struct list all = {&all, &all};
static _Atomic uint64_t lowest = UINT64_MAX, highest; /* all are between these, and have been */

/* ---- pages; all with the lock ---- */

static uint64_t address_of(const struct managed_pages *pages, uint32_t page)
{
	return pages->object->base + page * PAGE_BYTES;
}

static struct managed_pages *pages_at(uint64_t address)
{
	struct managed_pages *pages;

	list_for_each (pages, &all, link)
		if (address - pages->object->base < pages->object->bytes)
			return pages;
	return NULL;
}

static int protect(const struct managed_pages *pages, uint32_t first, uint32_t count, int rights)
{
	return mprotect((void *)address_of(pages, first), count * PAGE_BYTES, rights) ? -errno : 0;
}

static void set_state(struct managed_pages *pages, uint32_t first, uint32_t count, enum page state)
{
	uint32_t before = pages->here;

	for (uint32_t i = first; i < first + count; i++) {
		pages->here -= pages->pages[i].state != PAGE_DEVICE;
		pages->here += state != PAGE_DEVICE;
		pages->pages[i].state = state;
	}
	pages->session->managed.here += (uint64_t)pages->here - before;
}

/* How many pages from `first` on, `most` at most, are as that one is. */
static uint32_t alike(const struct managed_pages *pages, uint32_t first, uint32_t most)
{
	uint32_t count = 1;

	while (count < most && first + count < pages->count &&
		pages->pages[first + count].state == pages->pages[first].state)
		count++;
	return count;
}

static int copy_pages(struct managed_pages *pages, uint32_t first, uint32_t count, bool to_device)
{
	uint64_t device = address_of(pages, first);
	uint64_t host = pages->backing->base + first * PAGE_BYTES;
	struct gdev_copy copy = gdev_copy_linear(
		to_device ? device : host, to_device ? host : device, count * PAGE_BYTES);

	return copy_record(pages->session->managed.stream, &copy, to_device ? RECORD_FENCE : 0);
}

/* ---- to the device; with the lock ---- */

static int give_run(struct managed_pages *pages, uint32_t first, uint32_t count)
{
	enum page state = pages->pages[first].state;
	int error = state == PAGE_FRESH ? 0 : protect(pages, first, count, PROT_NONE);

	if (!error && state == PAGE_WRITTEN) {
		error = copy_pages(pages, first, count, true);
		if (error)
			protect(pages, first, count, PROT_READ | PROT_WRITE);
	}
	if (!error)
		set_state(pages, first, count, PAGE_DEVICE);
	return error;
}

static int give_pages(struct managed_pages *pages, uint32_t first, uint32_t end)
{
	int error = 0;

	while (first < end && pages->here && !error) {
		uint32_t count = alike(pages, first, min_of(end - first, RUN_MAX));
		if (pages->pages[first].state != PAGE_DEVICE)
			error = give_run(pages, first, count);
		first += count;
	}
	return error;
}

/* 1: some of the bytes are of the pages. */
static int give_among(struct managed_pages *pages, uint64_t address, uint64_t bytes)
{
	uint64_t base = pages->object->base, end = base + pages->object->bytes;
	uint64_t from = max_of(address, base), to = min_of(address + bytes, end);
	int error;

	if (from >= to)
		return 0;
	error = give_pages(pages, (uint32_t)((from - base) / PAGE_BYTES),
		(uint32_t)((to - base + PAGE_BYTES - 1) / PAGE_BYTES));
	return error ? error : 1;
}

/* With the lock. */
static int give_named(struct gdev_session *session, uint64_t address, uint64_t bytes)
{
	struct managed_pages *pages;
	int named = 0;

	if (session->managed.here)
		faults_watch();
	list_for_each (pages, &all, link) {
		if (pages->session != session)
			continue;
		pages->ahead.count = 0;
		int given = give_among(pages, address, bytes);
		if (named >= 0 && given)
			named = given;
	}
	return named;
}

/* Whoever touches a page counts it as here before it looks at `named`, and this counts as named before it looks at `here`: one
 * of the two always sees the other. So the usual launch, of which all pages are on the device, takes no lock. */
int managed_give(struct gdev_session *session, uint64_t address, uint64_t bytes)
{
	bool all_of_it = !address && bytes == UINT64_MAX;
	int named = 1;

	atomic_fetch_add(&session->managed.named, 1);
	if (!all_of_it || atomic_load(&session->managed.here)) {
		pthread_mutex_lock(&lock);
		named = give_named(session, address, min_of(bytes, UINT64_MAX - address));
		pthread_mutex_unlock(&lock);
	}
	if (named <= 0)
		managed_release(session);
	return named;
}

void managed_release(struct gdev_session *session)
{
	atomic_fetch_sub(&session->managed.named, 1);
}

int gdev_managed_prefetch(struct gdev_session *session, uint64_t address, uint64_t bytes)
{
	int entered = managed_enter(session, address, bytes);

	managed_leave(session, entered);
	return min_of(entered, 0);
}

void managed_settle(struct gdev_session *session)
{
	int entered = managed_enter(session, 0, UINT64_MAX);
	struct gdev_fence given;

	if (entered > 0) {
		gdev_stream_fence(session->managed.stream, &given);
		gdev_fence_wait(session, &given);
	}
	managed_leave(session, entered);
}

/* ---- to the process ---- */

/* A copy that failed, either way, and nothing else did. From then on nobody knows which side has what. */
static int copies_failed(const struct gdev_session *session)
{
	const struct session_segment *segment = session->transport->segment;

	return __atomic_load_n(
		&segment->timelines[session->managed.stream->timeline].error, __ATOMIC_ACQUIRE);
}

/* Pages of the device, on their way to the process. */
static int begin_copy(
	struct managed_pages *pages, uint32_t first, uint32_t count, struct gdev_fence *copied)
{
	int error = copy_pages(pages, first, count, false);

	gdev_stream_fence(pages->session->managed.stream, copied);
	return error;
}

static bool is_ahead(const struct managed_pages *pages, uint32_t first)
{
	return pages->ahead.count && pages->ahead.first == first;
}

static void copy_ahead(struct managed_pages *pages, uint32_t first)
{
	pages->ahead.count = 0;
	if (pages->run < RUN_MAX || first == pages->count ||
		pages->pages[first].state != PAGE_DEVICE)
		return;
	uint32_t count = alike(pages, first, RUN_MAX);
	if (begin_copy(pages, first, count, &pages->ahead.copied))
		return;
	pages->ahead.first = first;
	pages->ahead.count = count;
}

/* With the lock. Of a session that has failed the process gets what it had last. */
static int bring_back(struct managed_pages *pages, uint32_t first, uint32_t count)
{
	struct gdev_session *session = pages->session;
	struct gdev_fence copied = pages->ahead.copied;
	int error = gdev_session_error(session, NULL);

	if (!error && !is_ahead(pages, first))
		error = begin_copy(pages, first, count, &copied);
	if (!error) {
		copy_ahead(pages, first + count);
		error = gdev_fence_wait(session, &copied);
	}
	if (!error)
		error = copies_failed(session);
	return error && !gdev_session_error(session, NULL) ? error : 0;
}

/* Populates what the process has never had: a call instead of 512 faults a page. Not every kernel can. */
static void populate(struct managed_pages *pages, uint32_t first, uint32_t count, bool write)
{
	if (!pages->pages[first].populated)
		madvise((void *)address_of(pages, first), count * PAGE_BYTES,
			write ? MADV_POPULATE_WRITE : MADV_POPULATE_READ);
	for (uint32_t i = first; i < first + count; i++)
		pages->pages[i].populated = true;
}

static int open_run(struct managed_pages *pages, uint32_t first, bool write)
{
	int error = 0;
	uint32_t count;

	pages->run = first == pages->next ? min_of(2 * pages->run, RUN_MAX) : 1;
	count = alike(pages, first, pages->run);
	if (pages->pages[first].state == PAGE_DEVICE)
		error = bring_back(pages, first, count);
	if (!error)
		error = protect(pages, first, count, write ? PROT_READ | PROT_WRITE : PROT_READ);
	if (error) {
		pages->ahead.count = 0;
		return error;
	}
	populate(pages, first, count, write);
	set_state(pages, first, count, write ? PAGE_WRITTEN : PAGE_READ);
	pages->next = first + count;
	return 0;
}

static bool is_open(const struct managed_pages *pages, uint32_t page, bool write)
{
	enum page state = pages->pages[page].state;

	return state == PAGE_WRITTEN || (state == PAGE_READ && !write);
}

/* How far all streams are, together. */
static uint64_t progress_of(struct gdev_session *session)
{
	const struct session_segment *segment = session->transport->segment;
	uint64_t sum = 0;

	for (unsigned i = 0; i < SESSION_TIMELINES; i++)
		sum += __atomic_load_n(&segment->timelines[i].completed, __ATOMIC_RELAXED);
	return sum;
}

/* Without the lock. */
static int wait_for_commands(struct gdev_session *session, const struct gdev_fence *busy)
{
	uint64_t before, now = progress_of(session);
	int error;

	do {
		before = now;
		error = gdev_fence_wait_until(
			session, busy, clock_now_ns() + session->managed.patience_ns);
		now = progress_of(session);
	} while (error == -GDEV_E_NOT_READY && now != before);
	return error == -GDEV_E_NOT_READY ? -EDEADLK : 0;
}

/* Waits once for what keeps pages of the device from being brought back, which other copies between the two sides do not; 0: they may have changed meanwhile. With the
 * lock, which it gives up. *waited: there was something. */
static int wait_for_device(struct gdev_session *session, uint64_t until_ns, bool *waited)
{
	struct managed *managed = &session->managed;
	bool named = atomic_load(&managed->named), busy;
	struct gdev_fence fence;
	int error = 0;

	busy = !named && !gdev_session_error(session, NULL) &&
	       streams_first_busy(session, managed->stream, &fence);
	*waited = named || busy;
	if (!*waited)
		return 0;
	managed->touching++;
	pthread_mutex_unlock(&lock);
	if (busy)
		error = wait_for_commands(session, &fence);
	else if (clock_now_ns() > until_ns)
		error = -EDEADLK;
	else
		nanosleep(&(struct timespec){.tv_nsec = NAMED_NS}, NULL);
	pthread_mutex_lock(&lock);
	if (!--managed->touching)
		pthread_cond_broadcast(&changed);
	return error;
}

/* With the lock, which it may give up meanwhile. */
static int touch_page(struct managed_pages *pages, uint32_t page, uint64_t start_ns, bool write)
{
	struct managed *managed = &pages->session->managed;
	bool waited = false;
	int error = 0;

	atomic_fetch_add(&managed->here, 1);
	if (pages->pages[page].state == PAGE_DEVICE)
		error = wait_for_device(pages->session, start_ns + managed->patience_ns, &waited);
	if (!error && !waited)
		error = open_run(pages, page, write);
	atomic_fetch_sub(&managed->here, 1);
	return error;
}

int managed_touch(uint64_t address, bool write)
{
	uint64_t start_ns = clock_now_ns();
	struct managed_pages *pages;
	int error = 0;

	/* Who touches other memory may be a handler of a signal that has interrupted whoever has the lock. */
	if (address < atomic_load(&lowest) || address >= atomic_load(&highest))
		return -EFAULT;
	pthread_mutex_lock(&lock);
	while ((pages = pages_at(address)) && !error) {
		uint32_t page = (uint32_t)((address - pages->object->base) / PAGE_BYTES);
		if (is_open(pages, page, write))
			break;
		error = touch_page(pages, page, start_ns, write);
	}
	if (!pages)
		error = -EFAULT;
	pthread_mutex_unlock(&lock);
	if (error == -EDEADLK)
		log_error("managed memory at %#llx was touched while commands ran that came to no "
			  "end: one may wait for the touch, which the device does not allow",
			(unsigned long long)address);
	return error;
}

int gdev_managed_open(const void *from, size_t bytes, bool write)
{
	uint64_t address = (uint64_t)from, end;
	int error = 0;

	if (__builtin_add_overflow(address, bytes, &end))
		return 0;
	for (; address < end && !error; address = align_up(address + 1, PAGE_BYTES))
		error = managed_touch(address, write);
	return error == -EFAULT ? 0 : error;
}

/* ---- life ---- */

/* The process's mapping of the backing, closed. */
static int map_pages(const struct object *object, const struct object *backing)
{
	void *at = (void *)object->base;

	/* Of no bytes: a second mapping of the same memory. */
	if (mremap((void *)backing->base, 0, object->bytes, MREMAP_MAYMOVE | MREMAP_FIXED, at) ==
			MAP_FAILED ||
		mprotect(at, object->bytes, PROT_NONE))
		return -errno;
	madvise(at, object->bytes, MADV_DONTFORK);
	return 0;
}

static int make_pages(struct gdev_session *session, struct object *object, struct object *backing)
{
	struct gdev_fill zeros = {.destination = object->base,
		.width = object->bytes,
		.height = 1,
		.element_bytes = 1};
	uint32_t count = (uint32_t)(object->bytes / PAGE_BYTES);
	struct managed_pages *pages = calloc(1, sizeof *pages + count * sizeof pages->pages[0]);
	int error;

	if (!pages)
		return -ENOMEM;
	error = map_pages(object, backing);
	if (!error)
		error = fill_record(session->managed.stream, &zeros, RECORD_FENCE);
	if (error) {
		free(pages);
		return error;
	}
	pages->session = session;
	pages->object = object;
	pages->backing = backing;
	pages->count = pages->here = count;
	pages->run = 1;
	object->managed = pages;
	pthread_mutex_lock(&lock);
	faults_watch();
	list_append(&all, &pages->link);
	lowest = min_of(lowest, object->base);
	highest = max_of(highest, object->base + object->bytes);
	session->managed.objects++;
	session->managed.here += count;
	pthread_mutex_unlock(&lock);
	return 0;
}

int managed_create(struct gdev_session *session, struct object *object)
{
	struct object *backing;
	int error = memory_object_create(session, GDEV_MEMORY_HOST, object->bytes, &backing);

	if (error)
		return error;
	error = make_pages(session, object, backing);
	if (error)
		memory_object_destroy(session, backing);
	return error;
}

/* With the lock. */
static void unlist(struct managed_pages *pages)
{
	list_remove(&pages->link);
	list_init(&pages->link);
	pages->session->managed.objects--;
	pages->session->managed.here -= pages->here;
}

static void forget_pages(struct managed_pages *pages)
{
	pthread_mutex_lock(&lock);
	if (!list_empty(&pages->link))
		unlist(pages);
	pthread_mutex_unlock(&lock);
}

int managed_destroy(struct gdev_session *session, struct object *object)
{
	struct managed_pages *pages = object->managed;

	object->managed = NULL;
	forget_pages(pages);
	int error = memory_object_destroy(session, pages->backing);
	free(pages);
	return error;
}

void managed_forget(struct object *object)
{
	struct managed_pages *pages = object->managed;

	if (!pages)
		return;
	forget_pages(pages);
	object_free(pages->backing);
	free(pages);
}

void managed_finish(struct gdev_session *session)
{
	struct managed_pages *pages, *next;

	pthread_mutex_lock(&lock);
	list_for_each_safe (pages, next, &all, link)
		if (pages->session == session)
			unlist(pages);
	while (session->managed.touching)
		pthread_cond_wait(&changed, &lock);
	pthread_mutex_unlock(&lock);
}

void managed_after_fork(void)
{
	pthread_mutex_init(&lock, NULL);
	pthread_cond_init(&changed, NULL);
	list_init(&all);
}

/* The stream is there before the first object, because it cannot be made where memory.change is held. */
static int prepare(struct gdev_session *session)
{
	struct gdev_stream *stream = NULL;
	int error = 0;

	pthread_mutex_lock(&lock);
	bool prepared = session->managed.stream;
	pthread_mutex_unlock(&lock);
	if (!prepared)
		error = gdev_stream_create(session, 0, &stream);
	if (error)
		return error;
	pthread_mutex_lock(&lock);
	if (!session->managed.stream) {
		session->managed.stream = stream;
		stream = NULL;
	}
	pthread_mutex_unlock(&lock);
	gdev_stream_destroy(stream);
	faults_watch_calls();
	return 0;
}

int gdev_managed_alloc(struct gdev_session *session, uint64_t bytes, uint64_t *address)
{
	int error = prepare(session);

	return error ? error : memory_alloc_managed(session, bytes, address);
}
