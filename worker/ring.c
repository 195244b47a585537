/* SPDX-License-Identifier: MIT
 *
 * The ring, from the worker's side. A record is copied out once: its first word, which has the length, by itself, and
 * the rest after it. So what is validated is what is executed, whatever the client writes meanwhile.
 */
#include "worker/core.h"

#include <errno.h>
#include <string.h>

#include "base/clock.h"
#include "gdev/error.h"
#include "worker/command.h"
#include "worker/usage.h"

/* Records that are taken while the lock is held once. */
#define BATCH_RECORDS 32
#define BATCH_BYTES (128u << 10)

static bool takes(const struct core *core)
{
	return !__atomic_load_n(&core->ring_held, __ATOMIC_RELAXED) &&
	       __atomic_load_n(&core->attached, __ATOMIC_ACQUIRE);
}

bool ring_has_records(struct core *core)
{
	struct session_header *header = &core->segment->header;

	return takes(core) && __atomic_load_n(&header->ring_tail, __ATOMIC_ACQUIRE) !=
				      __atomic_load_n(&core->ring_head, __ATOMIC_RELAXED);
}

bool ring_waits(struct core *core)
{
	return ring_has_records(core) && !context_is_closed(core);
}

/* There are records, but no context: it is made again. */
static void want_context(struct core *core)
{
	if (!context_may_be_wanted(core) || !ring_has_records(core))
		return;
	core_lock(core);
	if (ring_has_records(core))
		context_use(core);
	core_unlock(core);
}

void ring_awake(struct core *core)
{
	__atomic_store_n(
		&core->segment->header.worker_state, SESSION_WORKER_AWAKE, __ATOMIC_RELAXED);
}

bool ring_sleep(struct core *core)
{
	__atomic_store_n(
		&core->segment->header.worker_state, SESSION_WORKER_ASLEEP, __ATOMIC_RELAXED);
	/* Pairs with the client's fence between publishing the tail and looking at the state. */
	__atomic_thread_fence(__ATOMIC_SEQ_CST);
	if (ring_waits(core)) {
		ring_awake(core);
		return false;
	}
	want_context(core);
	return true;
}

/* A record whose place in its timeline can be trusted: what is left is to execute it. */
static void accept_record(struct core *core, struct command *command)
{
	const struct record_header *header = command->request.header;
	int error = decode_record(command->record, command->length, &command->request);
	bool stream = command->request.type && command->request.type->class == RECORD_CLASS_STREAM;

	command->timeline = header->timeline;
	command->value = header->value;
	if (!command->request.type) /* which class it would be, only its timeline tells */
		stream = header->timeline >= SESSION_REPLIES;
	if (header->timeline >= SESSION_TIMELINES ||
		stream != (header->timeline >= SESSION_REPLIES) ||
		header->value <= core->streams.posted[header->timeline]) {
		/* There is no place where its sender would look for an error. */
		core_fail(core, -GDEV_E_PROTOCOL, 0);
		command_destroy(command);
		return;
	}
	core->streams.posted[header->timeline] = header->value;
	if (stream)
		stream_push(core, command, error);
	else if (error)
		command_answer(command, error == -ENOSYS ? -ENOSYS : -EINVAL, NULL, 0);
	else
		command_execute(command);
}

/* Copies `length` bytes at ring position `position`; they do not wrap. */
static void copy_out(struct core *core, uint64_t position, void *bytes, size_t length)
{
	memcpy(bytes, core->segment->ring + position % SESSION_RING_BYTES, length);
}

/* Takes one record of at most `available` bytes. The bytes it took, or -EPROTO: the ring is broken. */
static int64_t take_record(struct core *core, uint64_t available)
{
	uint64_t to_end = SESSION_RING_BYTES - core->ring_head % SESSION_RING_BYTES;
	struct record_header first = {0};
	const size_t word = offsetof(struct record_header, timeline);
	struct command *command;

	copy_out(core, core->ring_head, &first, word);
	if (first.length < word || first.length % 8 || first.length > available ||
		first.length > to_end)
		return -EPROTO;
	if (first.opcode == RECORD_PAD)
		return first.length;
	if (first.length < sizeof first || first.length > RECORD_BYTES_MAX)
		return -EPROTO;
	command = command_create(core, first.length);
	if (!command)
		return -ENOMEM;
	memcpy(command->record, &first, word);
	copy_out(core, core->ring_head + word, command->record + word, first.length - word);
	command->request.header = (const void *)command->record;
	accept_record(core, command);
	return first.length;
}

/* Tells a client that waits for room. */
static void publish_head(struct core *core)
{
	struct session_header *header = &core->segment->header;

	__atomic_store_n(&header->ring_head, core->ring_head, __ATOMIC_RELEASE);
	__atomic_thread_fence(__ATOMIC_SEQ_CST);
	if (__atomic_load_n(&header->ring_want, __ATOMIC_RELAXED))
		core_wake_client(core);
}

bool ring_read(struct core *core)
{
	uint64_t tail, first;
	int64_t taken = 0;

	if (!ring_waits(core)) {
		want_context(core);
		return false;
	}
	core_lock(core);
	if (core->ended || !service_polls(core) || !context_use(core)) {
		core_unlock(core);
		return false;
	}
	core->context.users++; /* executors let the lock go, also of a session that is suspended */
	usage_set(&core->page->active_ns, clock_coarse_ns());
	tail = __atomic_load_n(&core->segment->header.ring_tail, __ATOMIC_ACQUIRE);
	usage_thread(core->page, __atomic_load_n(&core->segment->header.thread, __ATOMIC_RELAXED));
	if (tail - core->ring_head > SESSION_RING_BYTES || tail % 8)
		taken = -EPROTO;
	first = core->ring_head;
	trace_batch(core);
	for (int i = 0; i < BATCH_RECORDS && taken >= 0 && tail != core->ring_head; i++) {
		if (core->ring_head - first > BATCH_BYTES)
			break;
		if (core->pending_bytes > PENDING_BYTES_MAX) {
			__atomic_store_n(&core->ring_held, true, __ATOMIC_RELAXED);
			break;
		}
		taken = take_record(core, tail - core->ring_head);
		if (taken > 0)
			__atomic_store_n(&core->ring_head, core->ring_head + (uint64_t)taken,
				__ATOMIC_RELAXED);
	}
	if (taken < 0)
		core_end(core, taken == -EPROTO ? -GDEV_E_PROTOCOL : (int)taken);
	publish_head(core);
	core->context.users--;
	core_unlock(core);
	return true;
}
