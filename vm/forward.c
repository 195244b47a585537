/* SPDX-License-Identifier: MIT
 *
 * Records, from the guest's ring to the worker's. A record is copied out of the guest's memory once and the copy is looked
 * at: whether it is one that guests may send, and on a timeline that is the guest's. All else is for the worker to check, as
 * it is with any client. Nothing here waits: records stay in the guest's ring while the worker's has no room.
 */
#include <errno.h>
#include <string.h>
#include <sys/eventfd.h>

#include "lib/libgdev/memory.h"
#include "lib/libgdev/sender.h"
#include "proto/check.h"
#include "vm/proxy.h"

#define BATCH_RECORDS 64

/* For gdevd all processes of a guest are one user's: so keys and tokens are translated. Events carry one bit. */
static bool is_allowed(uint16_t opcode)
{
	switch (opcode) {
	case RECORD_MEMORY_ALLOC:
	case RECORD_MEMORY_FREE:
	case RECORD_COPY:
	case RECORD_WRITE:
	case RECORD_FILL:
	case RECORD_ARRAY_CREATE:
	case RECORD_TEXTURE_CREATE:
	case RECORD_TEXTURE_DESTROY:
	case RECORD_MODULE_LOAD:
	case RECORD_MODULE_UNLOAD:
	case RECORD_MODULE_PLACE:
	case RECORD_FUNCTION_GET:
	case RECORD_GLOBAL_GET:
	case RECORD_REFERENCE_SET:
	case RECORD_LAUNCH:
	case RECORD_CLUSTERS:
	case RECORD_TENSOR_MAP:
	case RECORD_GRAPH_BEGIN:
	case RECORD_GRAPH_NODE:
	case RECORD_GRAPH_END:
	case RECORD_GRAPH_DESTROY:
	case RECORD_GRAPH_LAUNCH:
	case RECORD_STREAM_CREATE:
	case RECORD_STREAM_DESTROY:
	case RECORD_WAIT:
	case RECORD_STAMP:
	case RECORD_EVENT_SHARE:
	case RECORD_EVENT_WAIT:
	case RECORD_SHM_GET:
	case RECORD_SHM_ATTACH:
	case RECORD_SHM_DETACH:
	case RECORD_SHM_CONTROL:
	case RECORD_SHARED_CREATE:
	case RECORD_SHARED_EXPORT:
	case RECORD_SHARED_HOLD:
	case RECORD_SHARED_DROP:
	case RECORD_SHARED_MAP:
	case RECORD_SHARED_PUBLISH:
	case RECORD_QUERY:
	case RECORD_TUNE:
		return true;
	default:
		return false;
	}
}

static bool is_guests_line(uint32_t line)
{
	return line < VM_REPLIES || (line >= SESSION_REPLIES && line < PROXY_STREAM);
}

/* ---- what a record means here ---- */

static int note_stamp(struct proxy *proxy, const struct record_stamp *record)
{
	if (record->stamp >= SESSION_STAMPS)
		return -GDEV_E_PROTOCOL;
	if (proxy->stamp_count == proxy->stamp_capacity) {
		size_t capacity = proxy->stamp_capacity ? 2 * proxy->stamp_capacity : 64;
		struct stamp *more = realloc(proxy->stamps, capacity * sizeof *more);
		if (!more)
			return -ENOMEM;
		proxy->stamps = more;
		proxy->stamp_capacity = capacity;
	}
	proxy->stamps[proxy->stamp_count++] =
		(struct stamp){record->header.timeline, record->stamp, record->header.value};
	return 0;
}

static int check_stream(uint32_t line)
{
	return is_guests_line(line) && line >= SESSION_REPLIES ? 0 : -GDEV_E_PROTOCOL;
}

/* The guest has no memory that the compiler could write its messages to: it gets some of ours, and asks for them then. */
static void lend_log(struct proxy *proxy, struct record_module_load *record)
{
	struct log *log = &proxy->log;
	struct slot *slot = record->log_bytes && !log->slot ? staging_try(proxy->session) : NULL;
	uint64_t bytes = min_of(record->log_bytes, (uint64_t)sizeof log->text);

	record->log_bytes = slot ? min_of(bytes, (uint64_t)proxy->session->staging.chunk_bytes) : 0;
	record->log = slot ? slot->address : 0;
	if (!slot)
		return;
	log->slot = slot;
	log->bytes = (uint32_t)record->log_bytes;
	memset((void *)slot->address, 0, record->log_bytes);
}

/* Memory and variables that go before the answer about them is here are not noted when it comes: they would stay for ever. */
static void drop_memory(struct proxy *proxy, uint64_t address)
{
	for (uint32_t line = 0; line < VM_REPLIES; line++) {
		struct pending *pending = &proxy->pending[line];
		if (pending->opcode != RECORD_MEMORY_FREE && pending->address == address)
			pending->gone = true;
	}
	memory_disown(proxy->session, address);
}

static void drop_variables(struct proxy *proxy, uint32_t module)
{
	for (uint32_t line = 0; line < VM_REPLIES; line++) {
		struct pending *pending = &proxy->pending[line];
		if (pending->opcode == RECORD_GLOBAL_GET && pending->module == module)
			pending->gone = true;
	}
	memory_remove_variables(proxy->session, module_key(module));
}

static bool shares_memory(uint16_t opcode)
{
	return (opcode >= RECORD_SHARED_CREATE && opcode <= RECORD_SHARED_PUBLISH) ||
	       opcode == RECORD_SHM_ATTACH;
}

/* Streams that the record names are the guest's; memory that goes is not copied to any more. The record has at least the
 * length of its fixed part. */
static int prepare(struct proxy *proxy, struct record_header *header)
{
	switch (header->opcode) {
	case RECORD_LAUNCH:
		proxy->counts.launches++;
		return 0;
	case RECORD_STREAM_CREATE:
	case RECORD_STREAM_DESTROY:
		return check_stream(((const struct record_stream *)header)->stream);
	case RECORD_WAIT: {
		uint32_t awaited = ((const struct record_wait *)header)->awaited;
		return awaited ? check_stream(awaited) : 0;
	}
	case RECORD_EVENT_SHARE:
		return check_stream(((const struct record_event *)header)->stream);
	case RECORD_SHM_DETACH:
		drop_memory(proxy, ((const struct record_shm *)header)->address);
		return 0;
	case RECORD_SHARED_HOLD:
	case RECORD_SHARED_MAP:
	case RECORD_SHARED_PUBLISH:
		proxy_translate(proxy, ((struct record_shared *)header)->token);
		return 0;
	case RECORD_STAMP:
		return note_stamp(proxy, (const struct record_stamp *)header);
	case RECORD_MEMORY_FREE:
		drop_memory(proxy, ((const struct record_memory *)header)->address);
		return 0;
	case RECORD_MODULE_LOAD:
		lend_log(proxy, (struct record_module_load *)header);
		return 0;
	case RECORD_MODULE_UNLOAD:
		drop_variables(proxy, ((const struct record_handle *)header)->handle);
		return 0;
	default:
		return 0;
	}
}

/* Of what the answer will say more. -errno: that is the answer. */
static int note_pending(struct proxy *proxy, struct record_header *header)
{
	struct pending *pending = &proxy->pending[header->timeline];

	*pending = (struct pending){.opcode = header->opcode};
	switch (header->opcode) {
	case RECORD_MEMORY_ALLOC:
	case RECORD_MEMORY_FREE:
		pending->address = ((const struct record_memory *)header)->address;
		pending->bytes = ((const struct record_memory *)header)->bytes;
		return 0;
	case RECORD_ARRAY_CREATE:
		pending->address = ((const struct record_array *)header)->address;
		pending->bytes = ((const struct record_array *)header)->bytes;
		return 0;
	case RECORD_MODULE_LOAD:
		pending->logs = ((const struct record_module_load *)header)->log_bytes;
		return 0;
	case RECORD_SHARED_MAP:
		pending->address = ((const struct record_shared *)header)->address;
		return 0;
	case RECORD_GLOBAL_GET:
		pending->module = ((const struct record_lookup *)header)->module;
		return 0;
	case RECORD_SHM_ATTACH:
		pending->address = ((const struct record_shm *)header)->address;
		/* fall through */
	case RECORD_SHM_GET:
	case RECORD_SHM_CONTROL:
		return keys_prepare(&proxy->guest->commons->keys, proxy->slot, proxy->user,
			(struct record_shm *)header, &pending->key);
	default:
		return 0;
	}
}

/* ---- to the worker ---- */

static bool has_room(const struct proxy *proxy, uint32_t length)
{
	const struct session_header *header = &proxy->worker->header;
	uint64_t tail = __atomic_load_n(&header->ring_tail, __ATOMIC_RELAXED);
	uint64_t head = __atomic_load_n(&header->ring_head, __ATOMIC_ACQUIRE);

	return tail - head + length + sender_skip(tail, length) <= SESSION_RING_BYTES;
}

static int send_record(struct proxy *proxy)
{
	struct transport *transport = proxy->session->transport;
	const struct record_header *header = (const struct record_header *)proxy->record;
	void *room;
	int error = transport->ops->begin(transport, header->length, &room);

	if (error)
		return error;
	memcpy(room, header, header->length);
	transport->ops->commit(transport);
	return 0;
}

/* A request that is not for guests, or this one, is answered here. */
static int refuse(struct proxy *proxy, const struct record_header *header, int status)
{
	struct session_reply *reply;

	if (header->timeline >= VM_REPLIES)
		return -GDEV_E_PROTOCOL;
	reply = &proxy->segment->replies[header->timeline];
	reply->length = 0;
	reply->status = status;
	mirror_complete(proxy, header->timeline, header->value);
	return 0;
}

/* proxy->record is a private copy. */
static int accept_record(struct proxy *proxy)
{
	struct record_header *header = (struct record_header *)proxy->record;
	const struct record_type *type = record_type_find(header->opcode);
	uint32_t line = header->timeline;
	int error;

	if (!type || header->length < type->fixed_bytes || !is_guests_line(line) ||
		(type->class == RECORD_CLASS_STREAM) != (line >= SESSION_REPLIES) ||
		header->value <= proxy->lines[line].posted)
		return -GDEV_E_PROTOCOL;
	/* What an answer means here is noted by its slot: one request at a time, as the library has it. */
	if (line < VM_REPLIES && proxy->lines[line].active)
		return -GDEV_E_PROTOCOL;
	if (!is_allowed(header->opcode))
		return refuse(proxy, header, -ENOTSUP);
	error = prepare(proxy, header);
	if (error)
		return error;
	if (shares_memory(header->opcode)) /* our copies are to be complete for others, too */
		proxy->session->shares = true;
	error = line < VM_REPLIES ? note_pending(proxy, header) : 0;
	if (error)
		return refuse(proxy, header, error);
	mirror_expect(proxy, line, header->value);
	proxy->counts.records++;
	return send_record(proxy);
}

static void copy_out(struct proxy *proxy, uint64_t position, void *bytes, size_t length)
{
	memcpy(bytes, proxy->segment->ring + position % SESSION_RING_BYTES, length);
}

/* The bytes that were taken; 0: the worker has no room; -errno: the guest's ring is broken. */
static int64_t take_record(struct proxy *proxy, uint64_t available)
{
	uint64_t to_end = SESSION_RING_BYTES - proxy->head % SESSION_RING_BYTES;
	const size_t word = offsetof(struct record_header, timeline);
	struct record_header first = {0};
	int error;

	copy_out(proxy, proxy->head, &first, word);
	if (first.length < word || first.length % 8 || first.length > available ||
		first.length > to_end)
		return -GDEV_E_PROTOCOL;
	if (first.opcode == RECORD_PAD)
		return first.length;
	if (first.length < sizeof first || first.length > RECORD_BYTES_MAX)
		return -GDEV_E_PROTOCOL;
	proxy->full = !has_room(proxy, first.length);
	if (proxy->full)
		return 0;
	memcpy(proxy->record, &first, word);
	copy_out(proxy, proxy->head + word, proxy->record + word, first.length - word);
	error = accept_record(proxy);
	return error ? error : (int64_t)first.length;
}

static void publish_head(struct proxy *proxy)
{
	struct session_header *header = &proxy->segment->header;

	__atomic_store_n(&header->ring_head, proxy->head, __ATOMIC_RELEASE);
	__atomic_thread_fence(__ATOMIC_SEQ_CST);
	if (__atomic_load_n(&header->ring_want, __ATOMIC_RELAXED))
		proxy_interrupt(proxy);
}

static uint64_t tail_of(const struct proxy *proxy)
{
	return __atomic_load_n(&proxy->segment->header.ring_tail, __ATOMIC_ACQUIRE);
}

bool forward_can(const struct proxy *proxy)
{
	return tail_of(proxy) != proxy->head && (!proxy->full || has_room(proxy, RECORD_BYTES_MAX));
}

bool forward_records(struct proxy *proxy)
{
	uint64_t tail = tail_of(proxy), first = proxy->head;
	int64_t taken = 1;

	if (tail == proxy->head)
		return false;
	if (tail - proxy->head > SESSION_RING_BYTES || tail % 8) {
		proxy_fail(proxy, -GDEV_E_PROTOCOL);
		return false;
	}
	for (int i = 0; i < BATCH_RECORDS && taken > 0 && tail != proxy->head; i++) {
		taken = take_record(proxy, tail - proxy->head);
		if (taken > 0)
			proxy->head += (uint64_t)taken;
	}
	if (taken < 0)
		proxy_fail(proxy, (int)taken);
	if (proxy->head != first)
		publish_head(proxy);
	return proxy->head != first;
}

bool forward_host_completed(struct proxy *proxy)
{
	uint64_t completed =
		__atomic_load_n(&proxy->segment->header.host_completed, __ATOMIC_ACQUIRE);
	struct transport *transport = proxy->session->transport;

	if (completed == proxy->host_completed)
		return false;
	proxy->host_completed = completed;
	__atomic_store_n(&proxy->worker->header.host_completed, completed, __ATOMIC_RELEASE);
	transport->ops->kick(transport);
	return true;
}
