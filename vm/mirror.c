/* SPDX-License-Identifier: MIT
 *
 * Completion, from the worker's segment to the guest's. Only timelines that the guest waits for are looked at. What a
 * completed value means (the reply, stamps, what kernels printed, errors) is copied before the value, which the guest
 * acquires. An interrupt is sent once for each `want` of the guest's (proto/session.h).
 */
#include <string.h>
#include <sys/ipc.h>

#include "lib/libgdev/memory.h"
#include "vm/proxy.h"

static struct session_timeline *workers(const struct proxy *proxy, uint32_t line)
{
	return &proxy->worker->timelines[line];
}

static uint64_t completed_of(const struct proxy *proxy, uint32_t line)
{
	return __atomic_load_n(&workers(proxy, line)->completed, __ATOMIC_ACQUIRE);
}

void mirror_expect(struct proxy *proxy, uint32_t line, uint64_t value)
{
	struct line *expected = &proxy->lines[line];

	expected->posted = value;
	if (!expected->active)
		proxy->active[proxy->active_count++] = (uint16_t)line;
	expected->active = true;
}

/* ---- what comes with a value ---- */

static void keep_log(struct proxy *proxy)
{
	struct log *log = &proxy->log;

	memset(log->text, 0, sizeof log->text);
	memcpy(log->text, (const void *)log->slot->address, log->bytes);
	staging_give(proxy->session, log->slot, NULL);
	log->slot = NULL;
}

/* The worker has it no more: the next allocation there is zeros, and until then it takes no memory. */
static void clear_freed(struct proxy *proxy, const struct pending *pending)
{
	uint64_t offset = pending->address - copy_store_base(proxy);
	struct vm_entry run = {VM_IN_STORE | offset, pending->bytes};

	if (offset < VM_IN_STORE && guest_run(proxy->guest, &run))
		guest_clear_store(proxy->guest, offset, pending->bytes);
}

/* Memory that is the session's from now on can be copied to. */
static void take_notice(struct proxy *proxy, uint32_t line, const struct session_reply *reply)
{
	const struct pending *pending = &proxy->pending[line];
	struct reply_global global;
	struct reply_shared shared;
	struct reply_shm attached;

	if (pending->opcode == RECORD_MODULE_LOAD && pending->logs)
		keep_log(proxy);
	if (reply->status < 0 || pending->gone)
		return;
	if (pending->opcode == RECORD_MEMORY_ALLOC || pending->opcode == RECORD_ARRAY_CREATE) {
		memory_adopt(proxy->session, pending->address, pending->bytes);
	} else if (pending->opcode == RECORD_MEMORY_FREE) {
		clear_freed(proxy, pending);
	} else if (pending->opcode == RECORD_SHARED_MAP && reply->length >= sizeof shared) {
		memcpy(&shared, reply->payload, sizeof shared);
		memory_adopt(proxy->session, pending->address, shared.bytes);
	} else if (pending->opcode == RECORD_SHM_ATTACH && reply->length >= sizeof attached) {
		memcpy(&attached, reply->payload, sizeof attached);
		memory_adopt(proxy->session, pending->address, attached.bytes);
	} else if (pending->opcode == RECORD_GLOBAL_GET && reply->length >= sizeof global) {
		memcpy(&global, reply->payload, sizeof global);
		memory_add_variable(
			proxy->session, module_key(pending->module), global.address, global.bytes);
	}
}

/* The answer is a struct reply_shared, and nothing else. */
static bool has_token(uint16_t opcode)
{
	return opcode >= RECORD_SHARED_CREATE && opcode <= RECORD_SHARED_PUBLISH &&
	       opcode != RECORD_SHARED_DROP;
}

static bool is_of_keys(uint16_t opcode)
{
	return opcode == RECORD_SHM_GET || opcode == RECORD_SHM_ATTACH ||
	       opcode == RECORD_SHM_CONTROL;
}

static int show_segment(struct proxy *proxy, uint32_t line, struct session_reply *to)
{
	const struct session_reply *from = &proxy->worker->replies[line];
	const struct pending *pending = &proxy->pending[line];
	struct reply_shm reply;
	uint32_t spare;
	int status;

	memcpy(&reply, from->payload, sizeof reply);
	status = keys_answered(&proxy->guest->commons->keys, pending->opcode, &pending->key,
		from->status, &reply, &spare);
	if (spare)
		gdev_shm_control(proxy->session, spare, IPC_RMID, NULL);
	memcpy(to->payload, &reply, sizeof reply);
	return status;
}

static void show_reply(struct proxy *proxy, uint32_t line)
{
	struct reply_shared shared;
	const struct session_reply *from = &proxy->worker->replies[line];
	struct session_reply *to = &proxy->segment->replies[line];
	uint32_t length = min_of(from->length, (uint32_t)sizeof from->payload);
	int status = from->status;

	if (is_of_keys(proxy->pending[line].opcode)) {
		status = show_segment(proxy, line, to);
	} else if (has_token(proxy->pending[line].opcode) && length >= sizeof shared) {
		memcpy(&shared, from->payload, sizeof shared);
		proxy_translate(proxy, shared.token);
		memcpy(to->payload, &shared, sizeof shared);
	} else {
		memcpy(to->payload, from->payload, length);
	}
	to->length = length;
	to->status = status;
	take_notice(proxy, line, from);
}

static void show_stamps(struct proxy *proxy, uint32_t line, uint64_t completed)
{
	size_t kept = 0;

	for (size_t i = 0; i < proxy->stamp_count; i++) {
		struct stamp *stamp = &proxy->stamps[i];
		if (stamp->line == line && stamp->value <= completed)
			proxy->segment->stamps[stamp->stamp] = __atomic_load_n(
				&proxy->worker->stamps[stamp->stamp], __ATOMIC_RELAXED);
		else
			proxy->stamps[kept++] = *stamp;
	}
	proxy->stamp_count = kept;
}

/* The guest's ring is as large as the worker's, and may be fuller: then the newest is dropped, as the worker does. */
static void show_output(struct proxy *proxy)
{
	struct session_header *from = &proxy->worker->header, *to = &proxy->segment->header;
	uint64_t tail = __atomic_load_n(&from->output_tail, __ATOMIC_ACQUIRE);
	uint64_t head = __atomic_load_n(&from->output_head, __ATOMIC_RELAXED);
	uint64_t end = to->output_tail;

	if (tail == head || tail - head > SESSION_OUTPUT_BYTES)
		return;
	if (end - __atomic_load_n(&to->output_head, __ATOMIC_ACQUIRE) + (tail - head) <=
		SESSION_OUTPUT_BYTES) {
		for (; head != tail; head++, end++)
			proxy->segment->output[end % SESSION_OUTPUT_BYTES] =
				proxy->worker->output[head % SESSION_OUTPUT_BYTES];
		__atomic_store_n(&to->output_tail, end, __ATOMIC_RELEASE);
	}
	__atomic_store_n(&from->output_head, tail, __ATOMIC_RELEASE);
}

static void show_error(struct proxy *proxy)
{
	struct session_header *from = &proxy->worker->header, *to = &proxy->segment->header;
	int error = __atomic_load_n(&from->error, __ATOMIC_ACQUIRE);

	if (from->why[0] && memcmp(to->why, from->why, sizeof to->why) != 0)
		memcpy(to->why, from->why, sizeof to->why);
	if (!error || to->error)
		return;
	to->fault_address = from->fault_address;
	__atomic_store_n(&to->error, error, __ATOMIC_RELEASE);
}

/* ---- the value ---- */

static void show_value(struct proxy *proxy, uint32_t line, uint64_t completed)
{
	struct session_timeline *timeline = &proxy->segment->timelines[line];
	uint64_t want;

	proxy->lines[line].shown = completed;
	__atomic_store_n(&timeline->completed, completed, __ATOMIC_RELEASE);
	__atomic_thread_fence(__ATOMIC_SEQ_CST);
	want = __atomic_load_n(&timeline->want, __ATOMIC_RELAXED);
	if (!want || want > completed || want == proxy->lines[line].signalled)
		return;
	proxy->lines[line].signalled = want;
	proxy->counts.waits++;
	proxy_interrupt(proxy);
}

void mirror_complete(struct proxy *proxy, uint32_t line, uint64_t value)
{
	proxy->lines[line].posted = value;
	show_value(proxy, line, value);
}

static void show(struct proxy *proxy, uint32_t line, uint64_t completed)
{
	struct session_timeline *to = &proxy->segment->timelines[line];
	const struct session_timeline *from = workers(proxy, line);

	uint32_t failures = __atomic_load_n(&from->failures, __ATOMIC_ACQUIRE);

	to->error = __atomic_load_n(&from->error, __ATOMIC_RELAXED);
	__atomic_store_n(&to->failures, failures, __ATOMIC_RELEASE);
	to->device_ns = __atomic_load_n(&from->device_ns, __ATOMIC_RELAXED);
	if (line < VM_REPLIES)
		show_reply(proxy, line);
	if (proxy->stamp_count)
		show_stamps(proxy, line, completed);
	show_output(proxy);
	show_error(proxy);
	show_value(proxy, line, completed);
}

bool mirror_completed(struct proxy *proxy)
{
	bool shown = false;
	unsigned kept = 0;

	if (__atomic_load_n(&proxy->worker->header.error, __ATOMIC_RELAXED))
		show_error(proxy);
	for (unsigned i = 0; i < proxy->active_count; i++) {
		uint32_t line = proxy->active[i];
		struct line *of = &proxy->lines[line];
		uint64_t completed = completed_of(proxy, line);

		if (completed > of->shown) {
			show(proxy, line, min_of(completed, of->posted));
			shown = true;
		}
		of->active = of->shown < of->posted;
		if (of->active)
			proxy->active[kept++] = (uint16_t)line;
	}
	proxy->active_count = kept;
	return shown;
}

bool mirror_can(const struct proxy *proxy)
{
	for (unsigned i = 0; i < proxy->active_count; i++)
		if (completed_of(proxy, proxy->active[i]) > proxy->lines[proxy->active[i]].shown)
			return true;
	return false;
}

void mirror_want(struct proxy *proxy, bool want)
{
	for (unsigned i = 0; i < proxy->active_count; i++) {
		uint32_t line = proxy->active[i];
		__atomic_store_n(&workers(proxy, line)->want,
			want ? proxy->lines[line].shown + 1 : 0, __ATOMIC_SEQ_CST);
	}
	__atomic_store_n(&proxy->worker->header.ring_want, want && proxy->full, __ATOMIC_SEQ_CST);
}
