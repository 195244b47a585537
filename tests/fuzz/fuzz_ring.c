/* SPDX-License-Identifier: MIT
 *
 * Fuzz target: what a client can write into its ring, decoded and executed over the null backend, in
 * this process and without threads. The first byte chooses: the rest is the ring as it is, or it is
 * a list of bodies that get an honest header, so that the fields behind it are reached.
 */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "proto/check.h"
#include "proto/record.h"
#include "worker/core.h"
#include "worker/service.h"

#define BASE 0x566000000000ull
#define STAGING (2ull << 20)
#define DEVICE_MEMORY (BASE + STAGING)
#define STREAM 40

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void ended(void *owner, int reason)
{
}

static uint64_t values[SESSION_TIMELINES];

static void put(struct core *core, uint64_t *tail, void *record, size_t length)
{
	memcpy(core->segment->ring + *tail, record, length);
	*tail += length;
}

static void run(struct core *core, uint64_t tail)
{
	__atomic_store_n(&core->segment->header.ring_tail, tail, __ATOMIC_RELEASE);
	for (int i = 0; i < 64 && service_step(core); i++)
		;
}

/* A stream, device memory, a module and its function: something that records can name. */
static uint64_t prepare(struct core *core)
{
	struct record_stream stream = {
		{RECORD_STREAM_CREATE, 0, 0, sizeof stream, 0, 0, 1}, STREAM, 0};
	struct record_memory memory = {
		{RECORD_MEMORY_ALLOC, 0, 0, sizeof memory, 0, 0, 2}, DEVICE_MEMORY, 2ull << 20};
	struct record_module_load load = {
		{RECORD_MODULE_LOAD, 0, 0, sizeof load, 0, 0, 3}, BASE, 8, 0, 0, 0};
	struct {
		struct record_lookup lookup;
		char name[8];
	} function = {{{RECORD_FUNCTION_GET, 0, 0, sizeof function, 0, 0, 4}, 0, 2}, "k"};
	uint64_t tail = 0;

	put(core, &tail, &stream, sizeof stream);
	put(core, &tail, &memory, sizeof memory);
	put(core, &tail, &load, sizeof load);
	run(core, tail);
	memcpy(&function.lookup.module, core->segment->replies[0].payload, sizeof(uint32_t));
	put(core, &tail, &function, sizeof function);
	run(core, tail);
	values[0] = 4;
	return tail;
}

static uint64_t raw(struct core *core, uint64_t tail, const uint8_t *data, size_t size)
{
	size_t room = SESSION_RING_BYTES - tail;

	if (size > room)
		size = room;
	memcpy(core->segment->ring + tail, data, size);
	return tail + (size & ~7ull);
}

/* Bodies: opcode, flags, words of 8 bytes that follow the header, and then those words. */
static uint64_t honest(struct core *core, uint64_t tail, const uint8_t *data, size_t size)
{
	while (size >= 3) {
		size_t bytes = data[2] * 8u;
		const struct record_type *type = record_type_find(data[0] & 127);
		struct record_header header = {
			.opcode = data[0] & 127,
			.flags = data[1] & 3,
			.timeline =
				type && type->class == RECORD_CLASS_STREAM ? STREAM : data[1] >> 3,
		};
		uint32_t function;
		if (bytes > size - 3)
			bytes = (size - 3) & ~7u;
		if (header.opcode == RECORD_PAD ||
			tail + sizeof header + bytes > SESSION_RING_BYTES)
			break;
		if (header.timeline < STREAM)
			header.flags = 0;
		header.length = (uint32_t)(sizeof header + bytes);
		header.value = ++values[header.timeline];
		put(core, &tail, &header, sizeof header);
		memcpy(core->segment->ring + tail, data + 3, bytes);
		memcpy(&function, core->segment->replies[0].payload, sizeof function);
		if (header.opcode == RECORD_LAUNCH && bytes >= 4 && data[3] & 1)
			memcpy(core->segment->ring + tail, &function, sizeof function);
		tail += bytes;
		data += 3 + bytes;
		size -= 3 + bytes;
	}
	return tail;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct core_config config = {
		.ops = device_ops_find("null"),
		.device = {.memory_bytes = 64ull << 20, .threads = 1},
		.staging_bytes = STAGING,
		.control_fd = -1,
		.ended = ended,
	};
	struct control_attach attach = {
		.session = 1,
		.arena_base = BASE,
		.arena_bytes = 64ull << 20,
		.memory_limit_bytes = 32ull << 20,
	};
	struct core *core;
	uint64_t tail;

	if (!size || core_create(&config, &core))
		return 0;
	memset(values, 0, sizeof values);
	core_lock(core);
	if (core_attach(core, &attach, eventfd(0, EFD_NONBLOCK), -1))
		abort();
	core_unlock(core);
	tail = prepare(core);
	tail = data[0] & 1 ? raw(core, tail, data + 1, size - 1)
			   : honest(core, tail, data + 1, size - 1);
	run(core, tail);
	/* Host functions that were waited for: all of them. */
	core->segment->header.host_completed = UINT64_MAX;
	core_lock(core);
	streams_host_progress(core);
	core_unlock(core);
	run(core, tail);
	core_destroy(core);
	return 0;
}
