/* SPDX-License-Identifier: MIT
 *
 * Sessions: the registry of this process, opening and closing, forks, requests with replies, what the
 * device is, and what its kernels print.
 *
 * Forks. A child has nothing of its parent's sessions: the segments are not inherited, its copies of the
 * descriptors are closed at once (or the worker would outlive the parent), and the sessions are marked
 * lost, so that every call on them fails. For that every descriptor of a session is known to the registry
 * from its first moment to its last: that of an opening under way, too, and that of a session which is
 * being closed. The registry's lock is held across a fork, so that the child finds it in order. Nothing
 * that waits happens under it: an opening gives it up while it waits for gdevd.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/log.h"
#include "lib/libgdev/managed.h"

#define INLINE_BYTES_DEFAULT (32u << 10)
#define INLINE_BYTES_MAX (RECORD_BYTES_MAX - sizeof(struct record_write))

/* Guards what follows, the reference counts of sessions, and which descriptors they and openings have. Sessions that are
 * being closed are in the registry, too: their count is 0. */
static pthread_mutex_t registry_lock = PTHREAD_MUTEX_INITIALIZER;
static struct list registry = {&registry, &registry};
static struct list openings = {&openings, &openings};
static pthread_cond_t opened = PTHREAD_COND_INITIALIZER; /* an opening is over */
static pthread_once_t once = PTHREAD_ONCE_INIT;
static pid_t process; /* whose sessions they are: a child that fork() has not made has none */

void registry_enter(void)
{
	pthread_mutex_lock(&registry_lock);
}

void registry_leave(void)
{
	pthread_mutex_unlock(&registry_lock);
}

static void before_fork(void)
{
	pthread_mutex_lock(&registry_lock);
}

static void after_fork_in_parent(void)
{
	pthread_mutex_unlock(&registry_lock);
}

static void after_fork_in_child(void)
{
	struct gdev_session *session, *next;
	struct opening *opening;

	list_for_each (opening, &openings, link)
		if (opening->socket >= 0)
			close(opening->socket);
	list_init(&openings);
	pthread_cond_init(&opened, NULL);
	list_for_each_safe (session, next, &registry, link) {
		session->forked = true;
		session->transport->forgotten = true;
		atomic_store(&session->transport->lost, true);
		session->transport->ops->forget(session->transport);
		memory_forget_files(session);
		list_remove(&session->link);
	}
	process = getpid();
	peers_forget();
	managed_after_fork();
	trace_forget();
	pthread_mutex_unlock(&registry_lock);
}

/* gdevd tells sessions whose process was killed from those that ended as they should. Nothing is torn down: what the
 * program still calls on its way out goes on working. */
__attribute__((destructor)) static void say_that_we_leave(void)
{
	struct gdev_session *session;

	if (process != getpid() || pthread_mutex_trylock(&registry_lock))
		return;
	list_for_each (session, &registry, link) {
		check_finish(session);
		transport_leave(session->transport);
	}
	pthread_mutex_unlock(&registry_lock);
	check_exit();
}

/* Libraries that stand on this one register their handlers later. So theirs are called before before_fork(), and take
 * their locks before ours. */
__attribute__((constructor)) static void follow_forks(void)
{
	pthread_atfork(before_fork, after_fork_in_parent, after_fork_in_child);
}

static void prepare_process(void)
{
	process = getpid();
	if (getenv("GDEV_LOG"))
		log_init("libgdev", LOG_LEVEL_ERROR);
}

/* ---- open and close ---- */

static void replies_init(struct replies *replies, uint32_t count)
{
	pthread_mutex_init(&replies->lock, NULL);
	pthread_cond_init(&replies->changed, NULL);
	replies->free = count ? (1u << count) - 1 : UINT32_MAX;
}

static void release_transport(struct gdev_session *session)
{
	const struct gdev_description *description = &session->description;

	transport_leave(session->transport);
	session->transport->ops->destroy(session->transport);
	munmap((void *)description->arena_base, description->arena_bytes);
}

/* A value that this library cannot take is not worth failing for: the default stays. */
static void apply_terms(struct gdev_session *session, const struct terms *terms)
{
	if (terms->inline_bytes)
		gdev_session_tune(session, GDEV_TUNE_INLINE_BYTES, terms->inline_bytes);
	if (terms->chunk_bytes)
		gdev_session_tune(session, GDEV_TUNE_CHUNK_BYTES, terms->chunk_bytes);
	if (terms->copy_threads)
		movers_limit(session, terms->copy_threads);
}

/* With the registry's lock, which is given up until gdevd has answered. */
static int create_session(struct opening *opening, struct gdev_session **created)
{
	struct gdev_session *session = calloc(1, sizeof *session);
	struct terms terms;
	uint64_t base, taken;
	int error;

	if (!session)
		return -ENOMEM;
	error = connect_open(opening, &session->description, &terms, &session->transport);
	if (error)
		goto err_free;
	session->refs = 1;
	session->inline_bytes = INLINE_BYTES_DEFAULT;
	session->managed.patience_ns = TOUCH_NS_DEFAULT;
	base = session->description.arena_base;
	replies_init(&session->replies, terms.replies);
	pthread_mutex_init(&session->lock, NULL);
	pthread_mutex_init(&session->output_lock, NULL);
	calls_init(session);
	movers_init(session);
	error = staging_init(session, base, terms.staging_bytes);
	if (error)
		goto err_transport;
	error = memory_init(session);
	if (error)
		goto err_staging;
	if (terms.store_bytes)
		error = arena_init(&session->memory.store, base + terms.staging_bytes + ARENA_ALIGN,
			terms.store_bytes - ARENA_ALIGN);
	if (error)
		goto err_memory;
	taken = terms.staging_bytes + terms.store_bytes + ARENA_ALIGN;
	error = arena_init(
		&session->memory.arena, base + taken, session->description.arena_bytes - taken);
	if (error)
		goto err_memory;
	error = streams_init(session);
	if (error)
		goto err_memory;
	apply_terms(session, &terms);
	error = check_begin(session);
	if (error)
		goto err_streams;
	trace_attach(&session->trace, terms.trace_fd);
	*created = session;
	return 0;

err_streams:
	streams_finish(session);
err_memory:
	memory_finish(session);
err_staging:
	staging_finish(session);
err_transport:
	release_transport(session);
	if (terms.trace_fd >= 0)
		close(terms.trace_fd);
err_free:
	free(session);
	return error;
}

static bool is_usable(struct gdev_session *session)
{
	return gdev_session_error(session, NULL) == 0;
}

_Static_assert(GDEV_PROPERTIES == DEVICE_PROPERTIES, "the public number is the wire's");

int gdev_vgpu_describe(
	const char *vgpu, struct gdev_description *description, int32_t properties[GDEV_PROPERTIES])
{
	struct opening asking = {.socket = -1};
	char name[GDEV_NAME_MAX];
	int error = vgpu ? 0 : gdev_vgpu_name(0, name);

	pthread_once(&once, prepare_process);
	if (error)
		return error;
	asking.vgpu = vgpu ? vgpu : name;
	registry_enter();
	list_append(&openings, &asking.link);
	error = connect_describe(&asking, description, properties);
	list_remove(&asking.link);
	registry_leave();
	return error;
}

/* With the registry's lock: a session of that virtual GPU, usable; or NULL. */
static struct gdev_session *find_session(const char *vgpu)
{
	struct gdev_session *session;

	list_for_each (session, &registry, link)
		if (session->refs && !session->own && !strcmp(session->description.vgpu, vgpu) &&
			is_usable(session))
			return session;
	return NULL;
}

static bool is_being_opened(const char *vgpu)
{
	const struct opening *opening;

	list_for_each (opening, &openings, link)
		if (opening->makes_session && !opening->own && !strcmp(opening->vgpu, vgpu))
			return true;
	return false;
}

/* Opens a new session. Later opens of the virtual GPU wait for its end, unless it is for one user alone. */
static int open_session(const char *vgpu, bool own, struct gdev_session **session)
{
	struct opening opening = {.vgpu = vgpu, .makes_session = true, .own = own, .socket = -1};
	int error;

	list_append(&openings, &opening.link);
	error = create_session(&opening, session);
	list_remove(&opening.link);
	pthread_cond_broadcast(&opened);
	if (error)
		return error;
	(*session)->own = own;
	list_append(&registry, &(*session)->link);
	return 0;
}

static int open_any(const char *vgpu, bool own, struct gdev_session **session)
{
	char name[GDEV_NAME_MAX];
	struct gdev_session *found = NULL;
	int error = 0;

	pthread_once(&once, prepare_process);
	if (!vgpu) {
		error = gdev_vgpu_name(0, name);
		if (error)
			return error;
		vgpu = name;
	}
	registry_enter();
	while (!own && !(found = find_session(vgpu)) && is_being_opened(vgpu))
		pthread_cond_wait(&opened, &registry_lock);
	if (found)
		found->refs++;
	else
		error = open_session(vgpu, own, &found);
	registry_leave();
	if (!error)
		*session = found;
	return error;
}

int gdev_session_open(const char *vgpu, struct gdev_session **session)
{
	return open_any(vgpu, false, session);
}

int gdev_session_open_own(const char *vgpu, struct gdev_session **session)
{
	return open_any(vgpu, true, session);
}

void gdev_session_ref(struct gdev_session *session)
{
	registry_enter();
	session->refs++;
	registry_leave();
}

/* A session of the parent: its locks may be held by threads that do not exist here, and its memory is
 * little. Only what is the process's own is given back. */
static void close_forked(struct gdev_session *session)
{
	if (--session->refs == 0)
		free(session);
}

void gdev_session_close(struct gdev_session *session)
{
	bool last;

	if (!session)
		return;
	if (session->forked) {
		close_forked(session);
		return;
	}
	registry_enter();
	last = --session->refs == 0;
	registry_leave();
	if (!last)
		return;
	peers_leave_session(session);
	managed_finish(session);
	gdev_session_flush(session);
	check_finish(session);
	calls_finish(session);
	movers_finish(session);
	streams_finish(session);
	memory_finish(session);
	staging_finish(session);
	registry_enter();
	memory_forget_files(session);
	list_remove(&session->link);
	trace_detach(&session->trace);
	release_transport(session);
	registry_leave();
	pthread_mutex_destroy(&session->lock);
	pthread_mutex_destroy(&session->output_lock);
	pthread_mutex_destroy(&session->replies.lock);
	pthread_cond_destroy(&session->replies.changed);
	free(session);
}

static bool has_apart(struct gdev_session *session, uint64_t address)
{
	const struct gdev_description *description = &session->description;
	struct gdev_range range;

	if (address - description->arena_base >= description->arena_bytes)
		return false;
	gdev_memory_lookup(session, address, &range);
	return !range.mapped;
}

bool session_others_have(const struct gdev_session *session, uint64_t address, uint64_t bytes)
{
	struct gdev_session *other;
	bool found = false;

	registry_enter();
	list_for_each (other, &registry, link)
		if (other != session && other->refs)
			found |= has_apart(other, address) || has_apart(other, address + bytes - 1);
	registry_leave();
	return found;
}

const struct gdev_description *gdev_session_description(const struct gdev_session *session)
{
	return &session->description;
}

int gdev_session_error(struct gdev_session *session, uint64_t *fault_address)
{
	struct session_header *header;
	int error;

	if (session->forked)
		return -GDEV_E_SESSION_LOST;
	header = &session->transport->segment->header;
	error = __atomic_load_n(&header->error, __ATOMIC_ACQUIRE);
	if (error && fault_address)
		*fault_address = header->fault_address;
	if (error)
		return error;
	return session_lost(session) ? transport_error(session->transport) : 0;
}

_Static_assert(GDEV_WHY_BYTES == SESSION_WHY_BYTES, "the public number is the wire's");

void gdev_session_why(struct gdev_session *session, char why[GDEV_WHY_BYTES])
{
	why[0] = '\0';
	if (session->forked)
		return;
	memcpy(why, session->transport->segment->header.why, GDEV_WHY_BYTES - 1);
	why[GDEV_WHY_BYTES - 1] = '\0';
	for (char *at = why; *at; at++)
		*at = *at < ' ' || *at > '~' ? '?' : *at;
}

/* ---- requests ---- */

static unsigned take_reply_slot(struct replies *replies)
{
	unsigned slot;

	pthread_mutex_lock(&replies->lock);
	while (!replies->free)
		pthread_cond_wait(&replies->changed, &replies->lock);
	slot = (unsigned)__builtin_ctz(replies->free);
	replies->free &= ~(1u << slot);
	pthread_mutex_unlock(&replies->lock);
	return slot;
}

static void give_reply_slot(struct replies *replies, unsigned slot)
{
	pthread_mutex_lock(&replies->lock);
	replies->free |= 1u << slot;
	pthread_cond_signal(&replies->changed);
	pthread_mutex_unlock(&replies->lock);
}

static int send_request(struct gdev_session *session, uint16_t opcode, unsigned slot,
	const void *record, uint32_t fixed, const void *tail, uint32_t tail_bytes,
	struct gdev_fence *answered)
{
	const uint32_t header_bytes = sizeof(struct record_header);
	uint8_t *sent;
	int error = record_begin(session, opcode, align_up(fixed + tail_bytes, 8), slot, &sent);

	if (error)
		return error;
	*answered = (struct gdev_fence){.timeline = slot, .value = session->next[slot]};
	memcpy(sent + header_bytes, (const uint8_t *)record + header_bytes, fixed - header_bytes);
	if (tail_bytes) {
		memcpy(sent + fixed, tail, tail_bytes);
		memset(sent + fixed + tail_bytes, 0, -(fixed + tail_bytes) & 7);
	}
	record_commit(session);
	return 0;
}

static int read_reply(
	const struct session_reply *slot, void *reply, uint32_t reply_least, uint32_t reply_bytes)
{
	uint32_t length = __atomic_load_n(&slot->length, __ATOMIC_RELAXED);
	int status = slot->status;

	if (status < 0)
		return status;
	if (length < reply_least || length > sizeof slot->payload)
		return -GDEV_E_PROTOCOL;
	if (reply_bytes)
		memcpy(reply, slot->payload, min_of(length, reply_bytes));
	return status;
}

int session_request(struct gdev_session *session, uint16_t opcode, void *record, uint32_t fixed,
	const void *tail, uint32_t tail_bytes, void *reply, uint32_t reply_least,
	uint32_t reply_bytes)
{
	struct transport *transport = session->transport;
	struct gdev_fence answered;
	unsigned slot;
	int result;

	if (session_lost(session))
		return transport_error(session->transport);
	if (fixed + tail_bytes > RECORD_BYTES_MAX)
		return -EINVAL;
	slot = take_reply_slot(&session->replies);
	result = send_request(session, opcode, slot, record, fixed, tail, tail_bytes, &answered);
	if (!result)
		result = min_of(transport->ops->wait(transport, &answered, 1, FOREVER, NULL), 0);
	if (!result)
		result = read_reply(
			&transport->segment->replies[slot], reply, reply_least, reply_bytes);
	give_reply_slot(&session->replies, slot);
	return result;
}

static int ask_worker(struct gdev_session *session, uint16_t opcode, uint32_t type,
	uint64_t argument, void *reply, uint32_t reply_bytes)
{
	struct record_query record = {.type = type, .argument = argument};

	return session_request(
		session, opcode, &record, sizeof record, NULL, 0, reply, reply_bytes, reply_bytes);
}

int gdev_session_property(struct gdev_session *session, unsigned index, int32_t *value)
{
	int error = 0;

	if (index >= DEVICE_PROPERTIES) {
		*value = 0;
		return 0;
	}
	pthread_mutex_lock(&session->lock);
	if (!session->properties_known)
		error = ask_worker(session, RECORD_QUERY, QUERY_PROPERTIES, 0, session->properties,
			sizeof session->properties);
	if (!error) {
		session->properties_known = true;
		*value = session->properties[index];
	}
	pthread_mutex_unlock(&session->lock);
	return error;
}

int gdev_session_query(struct gdev_session *session, enum gdev_query what, uint64_t *value)
{
	struct reply_usage usage;
	int error;

	switch (what) {
	case GDEV_QUERY_CHUNK_BYTES:
		*value = session->staging.chunk_bytes;
		return 0;
	case GDEV_QUERY_INLINE_BYTES:
		*value = session->inline_bytes;
		return 0;
	case GDEV_QUERY_COPY_THREADS:
		*value = session->movers.limit + 1u;
		return 0;
	default:
		break;
	}
	error = ask_worker(session, RECORD_QUERY, QUERY_USAGE, 0, &usage, sizeof usage);
	if (error)
		return error;
	switch (what) {
	case GDEV_QUERY_LAUNCHES:
		*value = usage.launches;
		return 0;
	case GDEV_QUERY_COMPUTE_NS:
		*value = usage.compute_ns;
		return 0;
	case GDEV_QUERY_TO_DEVICE_BYTES:
		*value = usage.to_device_bytes;
		return 0;
	case GDEV_QUERY_FROM_DEVICE_BYTES:
		*value = usage.from_device_bytes;
		return 0;
	case GDEV_QUERY_DEVICE_BYTES:
		*value = usage.device_bytes;
		return 0;
	default:
		return -EINVAL;
	}
}

int gdev_session_tune(struct gdev_session *session, enum gdev_tune what, uint64_t value)
{
	if (session_lost(session))
		return transport_error(session->transport);
	switch (what) {
	case GDEV_TUNE_SPIN_NS:
		session->transport->spin_ns = value;
		return 0;
	case GDEV_TUNE_INLINE_BYTES:
		if (value > INLINE_BYTES_MAX)
			return -EINVAL;
		session->inline_bytes = value;
		return 0;
	case GDEV_TUNE_CHUNK_BYTES:
		return staging_set_chunk(session, value);
	case GDEV_TUNE_COPY_THREADS:
		if (!value || value > MOVERS_MAX + 1)
			return -EINVAL;
		movers_limit(session, (unsigned)value);
		return 0;
	case GDEV_TUNE_TOUCH_NS:
		atomic_store(&session->managed.patience_ns, value);
		return 0;
	case GDEV_TUNE_WORKER_SPIN_NS:
		return ask_worker(session, RECORD_TUNE, TUNE_SPIN_NS, value, NULL, 0);
	case GDEV_TUNE_WINDOW_NS:
		return ask_worker(session, RECORD_TUNE, TUNE_WINDOW_NS, value, NULL, 0);
	case GDEV_TUNE_STACK_BYTES:
		return ask_worker(session, RECORD_TUNE, TUNE_STACK_BYTES, value, NULL, 0);
	case GDEV_TUNE_HEAP_BYTES:
		return ask_worker(session, RECORD_TUNE, TUNE_HEAP_BYTES, value, NULL, 0);
	}
	return -EINVAL;
}

int gdev_memory_info(struct gdev_session *session, uint64_t *free_bytes, uint64_t *total_bytes)
{
	struct reply_memory reply;
	int error = ask_worker(session, RECORD_QUERY, QUERY_MEMORY, 0, &reply, sizeof reply);

	if (error)
		return error;
	pthread_mutex_lock(&session->memory.change);
	*free_bytes = reply.free_bytes + session->memory.kept.bytes;
	pthread_mutex_unlock(&session->memory.change);
	*total_bytes = reply.total_bytes;
	return 0;
}

/* ---- synchronisation and output ---- */

/* Prints [head, tail) of the output ring, which may wrap. */
static void print_output(const uint8_t *ring, uint64_t head, uint64_t tail)
{
	while (head != tail) {
		uint64_t offset = head & (SESSION_OUTPUT_BYTES - 1);
		uint64_t length = min_of(tail - head, SESSION_OUTPUT_BYTES - offset);
		fwrite(ring + offset, 1, length, stdout);
		head += length;
	}
	fflush(stdout);
}

void gdev_session_flush(struct gdev_session *session)
{
	struct session_segment *segment = session->transport->segment;
	struct session_header *header;
	uint64_t head, tail;

	if (session->forked)
		return;
	check_collect(session);
	header = &segment->header;
	if (__atomic_load_n(&header->output_tail, __ATOMIC_ACQUIRE) ==
		__atomic_load_n(&header->output_head, __ATOMIC_RELAXED))
		return;
	pthread_mutex_lock(&session->output_lock);
	tail = __atomic_load_n(&header->output_tail, __ATOMIC_ACQUIRE);
	head = __atomic_load_n(&header->output_head, __ATOMIC_RELAXED);
	if (tail - head <= SESSION_OUTPUT_BYTES)
		print_output(segment->output, head, tail);
	__atomic_store_n(&header->output_head, tail, __ATOMIC_RELEASE);
	pthread_mutex_unlock(&session->output_lock);
}

bool gdev_session_is_full(struct gdev_session *session)
{
	const struct session_header *header;

	if (session->forked ||
		atomic_load_explicit(&session->transport->lost, memory_order_relaxed))
		return false; /* the next call says so */
	header = &session->transport->segment->header;
	return __atomic_load_n(&header->ring_tail, __ATOMIC_RELAXED) -
		       __atomic_load_n(&header->ring_head, __ATOMIC_RELAXED) >
	       SESSION_RING_BYTES / 4 * 3;
}

int gdev_session_sync(struct gdev_session *session)
{
	int error = streams_sync(session);

	gdev_session_flush(session);
	return error;
}
