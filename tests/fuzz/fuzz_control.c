/* SPDX-License-Identifier: MIT
 *
 * Fuzz target: control messages, as a worker gets them from gdevd. Input: packets, each a length byte
 * (times 4) and its bytes; an even first byte of a packet gets an honest header. What passes
 * control_check() is executed by a worker's core; nothing may come of it but a lost connection.
 */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include "proto/check.h"
#include "proto/record.h"
#include "worker/core.h"
#include "worker/service.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void ended(void *owner, int reason)
{
}

static void run(struct core *core)
{
	for (int i = 0; i < 16 && service_step(core); i++)
		;
}

/* Requests of the worker's own, for answers to find. */
static void make_requests(struct core *core)
{
	struct record_memory memory = {{RECORD_MEMORY_ALLOC, 0, 0, sizeof memory, 0, 0, 1},
		0x566000000000ull + (2ull << 20), 2ull << 20};
	struct record_query query = {
		{RECORD_QUERY, 0, 0, sizeof query, 1, 0, 1}, QUERY_MEMORY, 0, 0};
	struct record_stream stream = {{RECORD_STREAM_CREATE, 0, 0, sizeof stream, 2, 0, 1}, 40, 0};
	struct record_event wait = {
		{RECORD_EVENT_WAIT, 0, 0, sizeof wait, 40, 0, 1}, 9ull << 32, 0, 0, 0};
	uint8_t *ring = core->segment->ring;

	memcpy(ring, &memory, sizeof memory);
	memcpy(ring + 40, &query, sizeof query);
	memcpy(ring + 80, &stream, sizeof stream);
	memcpy(ring + 112, &wait, sizeof wait);
	core->segment->header.ring_tail = 160;
	run(core);
}

static void send_packets(struct core *core, int fd, const uint8_t *data, size_t size)
{
	while (size > 1) {
		uint8_t packet[1024] = {0};
		size_t bytes = data[0] * 4u;
		struct control_header header;
		if (bytes > size - 1)
			bytes = size - 1;
		memcpy(packet, data + 1, bytes);
		if (!(packet[0] & 1) && bytes >= sizeof header) {
			memcpy(&header, packet, sizeof header);
			header.length = (uint32_t)bytes;
			header.version = CONTROL_VERSION;
			header.type &= 127;
			header.serial &= 7;
			memcpy(packet, &header, sizeof header);
		}
		if (send(fd, packet, bytes, MSG_DONTWAIT | MSG_NOSIGNAL) < 0)
			return;
		data += 1 + bytes;
		size -= 1 + bytes;
		run(core);
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct core_config config = {
		.ops = device_ops_find("null"),
		.device = {.memory_bytes = 64ull << 20, .threads = 1},
		.staging_bytes = 2ull << 20,
		.ended = ended,
	};
	struct control_attach attach = {
		.session = 1,
		.arena_base = 0x566000000000ull,
		.arena_bytes = 64ull << 20,
		.memory_limit_bytes = 32ull << 20,
	};
	struct core *core;
	int pair[2];

	control_check(data, size);
	if (!size || socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair))
		return 0;
	config.control_fd = pair[0];
	if (core_create(&config, &core))
		abort();
	core_lock(core);
	if (data[0] & 1 && core_attach(core, &attach, eventfd(0, EFD_NONBLOCK), -1))
		abort();
	core_unlock(core);
	if (data[0] & 1)
		make_requests(core);
	send_packets(core, pair[1], data + 1, size - 1);
	close(pair[1]);
	run(core);
	core_destroy(core);
	return 0;
}
