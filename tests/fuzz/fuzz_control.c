/* SPDX-License-Identifier: MIT
 *
 * Fuzz target: control messages, as a worker gets them from gdevd. Input: a byte (bit 0: the worker has a session), then
 * packets, each a length byte (times 4) and its bytes. An even first byte of a packet gets an honest header, and descriptors
 * as its next two bytes say; length 0 is the client's turn: the next byte is which of its requests it makes. What passes
 * control_check() is executed by a worker's core; nothing may come of it but a lost connection.
 */
#include <fcntl.h>
#include <poll.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/shm.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/fd.h"
#include "proto/check.h"
#include "proto/record.h"
#include "worker/core.h"
#include "worker/service.h"

#define ARENA 0x566000000000ull
#define MIB (1ull << 20)
#define STREAM 40
#define SEGMENT 1 /* its id */
#define STEPS 16  /* at most, of the worker between two packets */

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* What is not yet said of the input, and to whom. One at a time. */
static struct {
	struct core *core;
	const uint8_t *data;
	size_t size;
	int fd;                      /* gdevd's end; -1: closed */
	uint64_t values[STREAM + 1]; /* of the client's timelines */
} input;

static void ended(void *owner, int reason)
{
}

/* ---- the client ---- */

#define OWN (ARENA + 2 * MIB)    /* memory of its own */
#define SHARED (ARENA + 8 * MIB) /* where it attaches the segment */
#define HEADER(opcode, type, timeline)                                                             \
	{                                                                                          \
		opcode, 0, 0, sizeof(struct type), timeline, 0, 0                                  \
	}

/* The first are made of every session, so that there is something to answer. */
static const union {
	struct record_header header;
	struct record_memory memory;
	struct record_query query;
	struct record_stream stream;
	struct record_event event;
	struct record_fill fill;
	struct record_shm shm;
	struct record_shared shared;
} requests[] = {
	{.memory = {HEADER(RECORD_MEMORY_ALLOC, record_memory, 0), OWN, 2 * MIB}},
	{.query = {HEADER(RECORD_QUERY, record_query, 1), QUERY_MEMORY, 0, 0}},
	{.stream = {HEADER(RECORD_STREAM_CREATE, record_stream, 2), STREAM, 0}},
	{.event = {HEADER(RECORD_EVENT_WAIT, record_event, STREAM), 9ull << 32, 0, 0, 0}},
	{.fill = {HEADER(RECORD_FILL, record_fill, STREAM), OWN, 64, 1, 64, 1, 7}},
	{.fill = {HEADER(RECORD_FILL, record_fill, STREAM), SHARED, 64, 1, 64, 1, 7}},
	{.shm = {HEADER(RECORD_SHM_ATTACH, record_shm, 3), .id = SEGMENT, .address = SHARED}},
	{.shm = {HEADER(RECORD_SHM_ATTACH, record_shm, 4), .id = SEGMENT,
		 .address = SHARED + 8 * MIB, .flags = SHM_RDONLY}},
	{.shm = {HEADER(RECORD_SHM_DETACH, record_shm, 5), .id = SEGMENT, .address = SHARED}},
	{.shm = {HEADER(RECORD_SHM_GET, record_shm, 6), .key = 5, .bytes = 4 * MIB,
		 .flags = 01600}},
	{.shared = {HEADER(RECORD_SHARED_CREATE, record_shared, 7), .bytes = 4 * MIB}},
	{.shared = {HEADER(RECORD_SHARED_EXPORT, record_shared, 8), .address = OWN}},
	{.shared = {HEADER(RECORD_SHARED_HOLD, record_shared, 9), .id = SEGMENT}},
	{.memory = {HEADER(RECORD_MEMORY_FREE, record_memory, 10), OWN, 0}},
	{.shared = {HEADER(RECORD_SHARED_PUBLISH, record_shared, 11), .id = SEGMENT}},
};
#define REQUESTS_FIRST 4

static void make_request(size_t which)
{
	struct session_header *shared = &input.core->segment->header;
	uint8_t *ring = input.core->segment->ring;
	uint64_t tail = shared->ring_tail;
	struct record_header header = requests[which].header;

	if (tail + header.length > SESSION_RING_BYTES)
		return;
	header.value = ++input.values[header.timeline];
	memcpy(ring + tail, &requests[which], header.length);
	memcpy(ring + tail, &header, sizeof header);
	shared->ring_tail = tail + header.length;
}

/* ---- gdevd ---- */

/* A chunk of device memory, a host copy, or what it should not be. */
static int open_descriptor(uint8_t kind)
{
	int fd = -1;

	if (kind & 2)
		return eventfd(0, EFD_CLOEXEC);
	if (kind & 1)
		return fd_shared_memory("fuzz", 2 * MIB);
	fd = memfd_create("fuzz", MFD_CLOEXEC);
	return fd >= 0 && ftruncate(fd, 64 * MIB) ? -1 : fd;
}

static size_t open_descriptors(const uint8_t *packet, int *fds)
{
	size_t count = packet[1] & 3;

	for (size_t i = 0; i < count; i++) {
		fds[i] = open_descriptor(packet[2]);
		if (fds[i] < 0)
			abort();
	}
	return count;
}

/* The header says what it must, and small numbers are what they may be: serials, ids, sizes. */
static void make_honest(uint8_t *packet, size_t bytes)
{
	struct control_header header;
	struct control_shm shm;

	memcpy(&header, packet, sizeof header);
	header.length = (uint32_t)bytes;
	header.version = CONTROL_VERSION;
	header.type &= 127;
	header.serial &= 15;
	memcpy(packet, &header, sizeof header);
	if (bytes != sizeof shm)
		return;
	memcpy(&shm, packet, sizeof shm);
	shm.id &= 3;
	if (shm.bytes < 16)
		shm.bytes *= 2 * MIB;
	if (shm.size < 16)
		shm.size *= 2 * MIB;
	if (shm.chunk_bytes < 16)
		shm.chunk_bytes *= 2 * MIB;
	memcpy(packet, &shm, sizeof shm);
}

static void send_packet(const uint8_t *data, size_t bytes)
{
	uint8_t packet[1024] = {0};
	size_t fd_count = 0;
	int fds[4];

	memcpy(packet, data, bytes);
	if (!(packet[0] & 1) && bytes >= sizeof(struct control_header)) {
		fd_count = open_descriptors(packet, fds);
		make_honest(packet, bytes);
	}
	fd_send(input.fd, packet, bytes, fds, fd_count);
	fd_close_all(fds, fd_count);
}

static void hang_up(void)
{
	if (input.fd >= 0)
		close(input.fd);
	input.fd = -1;
}

/* False: that was all. */
static bool say_next(void)
{
	size_t bytes;

	if (input.size < 2 || input.fd < 0)
		return false;
	bytes = min_of(input.data[0] * 4u, input.size - 1);
	if (bytes) {
		send_packet(input.data + 1, bytes);
	} else {
		make_request(input.data[1] % array_length(requests));
		bytes = 1;
	}
	input.data += 1 + bytes;
	input.size -= 1 + bytes;
	return true;
}

/* A job of the worker waits for an answer: what the input says next is it. */
int poll(struct pollfd *sockets, nfds_t count, int timeout)
{
	if (input.fd < 0)
		abort(); /* gdevd is gone, and it waits nevertheless */
	if (!say_next())
		hang_up();
	return 1;
}

static int count_descriptors(void)
{
	int count = 0;

	for (int fd = 0; fd < 128; fd++)
		count += fcntl(fd, F_GETFD) >= 0;
	return count;
}

static void run(void)
{
	for (int i = 0; i < STEPS && service_step(input.core); i++)
		;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct core_config config = {
		.ops = device_ops_find("null"),
		.device = {.memory_bytes = 64 * MIB, .threads = 1},
		.staging_bytes = 2 * MIB,
		.ended = ended,
	};
	struct control_attach attach = {
		.session = 1,
		.arena_base = ARENA,
		.arena_bytes = 64 * MIB,
		.memory_limit_bytes = 32 * MIB,
	};
	struct core *core;
	int pair[2], descriptors = count_descriptors();

	control_check(data, size);
	if (!size || socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, pair))
		return 0;
	config.control_fd = pair[0];
	if (core_create(&config, &core))
		abort();
	core_lock(core);
	if (data[0] & 1 && core_attach(core, &attach, eventfd(0, EFD_NONBLOCK), -1))
		abort();
	core_unlock(core);
	memset(&input, 0, sizeof input);
	input.core = core;
	input.data = data + 1;
	input.size = size - 1;
	input.fd = pair[1];
	for (size_t i = 0; data[0] & 1 && i < REQUESTS_FIRST; i++)
		make_request(i);
	do
		run();
	while (say_next());
	hang_up();
	run();
	core_destroy(core);
	if (count_descriptors() != descriptors)
		abort();
	return 0;
}
