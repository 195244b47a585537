/* SPDX-License-Identifier: MIT
 *
 * Fuzz target: a client that may do anything, between a worker's core (over the null backend, without threads) and a
 * gdevd that answers as gdevd does, and gives orders: memory that leaves and comes back, segments, grants. Input: steps,
 * each an opcode, flags, how many words follow, and the words, of two bytes: see word(). Opcodes below STEP_FIRST are
 * records; the ring is published, and the core run, by STEP_RUN and at the end.
 */
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/fd.h"
#include "gdev/error.h"
#include "proto/check.h"
#include "proto/peer.h"
#include "proto/record.h"
#include "worker/core.h"
#include "worker/service.h"
#include "session_device.h"

#define BASE 0x566000000000ull
#define STAGING (2ull << 20)
#define DEVICE_MEMORY (BASE + STAGING)
#define ARENA_BYTES (64ull << 20)
#define RUNS_MAX 24 /* an input: each may move all memory there is */
#define STREAM 40
#define SEGMENTS 4
#define CHUNKS 32 /* of a segment; more are refused */

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum step {
	STEP_FIRST = 96,
	STEP_RUN = STEP_FIRST,
	STEP_PEER,   /* type, address, bytes, offset; with a memfd by flags */
	STEP_EVICT,  /* bytes, flags; so much swap space by flags, of the file */
	STEP_ORDER,  /* command, id; with a memfd by flags */
	STEP_REVOKE, /* resource, enum worker_revoke */
	STEP_WATCH,  /* value */
	STEP_DIRECT, /* the client says that it copies */
	STEP_HOST,   /* host_completed */
	STEP_ANSWER, /* the status of the next answer; from now on swap space is in the file, by flags */
	STEP_LAUNCH,   /* of the module's function */
	STEP_GDEVD_GO, /* and does not come back */
	STEP_WAKE,     /* the client writes the worker's eventfd; and traces by flags */
	STEP_NODE, /* of a graph: graph, numbers of nodes by flags, and the words of a record, which flags say */
};

struct segment {
	uint64_t bytes, sizes[CHUNKS];
	int fds[CHUNKS], host_fd;
	uint32_t chunks;
};

/* A thread of its own, since jobs of the core wait for its answers. */
struct gdevd {
	int fd;
	pthread_t thread;
	pthread_mutex_t lock; /* guards what follows; held while a message is answered */
	struct segment segments[SEGMENTS];
	uint32_t segment_count;
	int32_t next_status;
	int swap_file;
	bool fills_file; /* what is charged for swap is of the file */
	bool over;
};

struct client {
	struct core *core;
	struct gdevd gdevd;
	int peer;
	uint64_t tail, values[SESSION_TIMELINES];
	uint32_t function;
	unsigned steps; /* other than records */
	unsigned runs;
};

static void ended(void *owner, int reason)
{
}

/* ---- gdevd ---- */

#define STEPS_AT_ONCE 16 /* what they say fits into a socket */

static void say(struct gdevd *gdevd, void *message, const int *fds, size_t fd_count)
{
	fd_send(gdevd->fd, message, ((struct control_header *)message)->length, fds, fd_count);
}

static void answer_query(struct gdevd *gdevd, const struct control_header *query)
{
	struct control_memory answer = {
		.header = {sizeof answer, CONTROL_MEMORY_REPLY, CONTROL_VERSION, query->serial, 0},
		.total_bytes = ARENA_BYTES,
	};

	say(gdevd, &answer, NULL, 0);
}

static void charge(struct gdevd *gdevd, const struct control_header *request, uint64_t device_bytes,
	uint64_t swap_bytes)
{
	struct control_charged answer = {
		.header = {sizeof answer, CONTROL_CHARGED, CONTROL_VERSION, request->serial,
			gdevd->next_status},
		.limit_bytes = ARENA_BYTES,
	};

	if (gdevd->next_status >= 0) {
		answer.device_bytes = device_bytes;
		answer.swap_bytes[gdevd->fills_file ? SWAP_FILE : SWAP_MEMORY] = swap_bytes;
	}
	gdevd->next_status = 0;
	say(gdevd, &answer, &gdevd->swap_file, answer.swap_bytes[SWAP_FILE] != 0);
}

static void answer_allocate(struct gdevd *gdevd, const struct control_allocate *message)
{
	bool swap = gdevd->fills_file && message->swap_bytes;

	charge(gdevd, &message->header, swap ? 0 : message->device_bytes + message->slack_bytes,
		swap ? message->swap_bytes : 0);
}

static struct segment *segment_of(struct gdevd *gdevd, uint32_t id)
{
	return id && id <= gdevd->segment_count ? &gdevd->segments[id - 1] : NULL;
}

static int get_segment(struct gdevd *gdevd, struct control_shm *message)
{
	if (message->key == 1 && gdevd->segment_count) {
		message->id = 1;
		message->bytes = gdevd->segments[0].bytes;
		return 0;
	}
	if (gdevd->segment_count == SEGMENTS || !message->bytes)
		return -ENOSPC;
	gdevd->segments[gdevd->segment_count++] =
		(struct segment){.bytes = message->bytes, .host_fd = -1};
	message->id = gdevd->segment_count;
	return 1;
}

static void lose_chunks(struct segment *segment)
{
	fd_close_all(segment->fds, segment->chunks);
	segment->chunks = 0;
}

/* Takes the chunks over. */
static int back_segment(
	struct segment *segment, const struct control_shm *message, int *fds, size_t fd_count)
{
	if (message->first_chunk + fd_count > CHUNKS || message->flags & CONTROL_SHM_HOST)
		return -EINVAL;
	if (!message->first_chunk)
		lose_chunks(segment);
	for (size_t i = 0; i < fd_count; i++) {
		segment->fds[segment->chunks] = steal_fd(&fds[i]);
		segment->sizes[segment->chunks++] = message->chunk_bytes;
	}
	return 0;
}

/* Those of one size from the first on; or the host copy. `away`: how it is said that there are none. */
static int find_chunks(
	struct segment *segment, struct control_shm *message, int away, int *fds, size_t *fd_count)
{
	uint32_t at = message->first_chunk;

	message->bytes = segment->bytes;
	message->chunks = segment->chunks;
	if (!segment->chunks) {
		message->flags = CONTROL_SHM_HOST;
		fds[0] = segment->host_fd;
		*fd_count = segment->host_fd >= 0;
		return away;
	}
	message->flags = 0;
	message->chunk_bytes = at < segment->chunks ? segment->sizes[at] : 0;
	for (; at < segment->chunks && segment->sizes[at] == message->chunk_bytes; at++)
		fds[(*fd_count)++] = segment->fds[at];
	return 0;
}

/* What was said back has been done. */
static void order_done(struct segment *segment, const struct control_shm *message)
{
	if (message->command == SHM_COMMAND_DROP && segment->host_fd >= 0)
		lose_chunks(segment);
}

static void answer_shm(
	struct gdevd *gdevd, struct control_shm message, int *received, size_t received_count)
{
	struct segment *segment = segment_of(gdevd, message.id);
	int fds[CHUNKS], status = 0;
	size_t fd_count = 0;

	if (!message.header.serial) {
		if (segment)
			order_done(segment, &message);
		return;
	}
	if (message.command == SHM_COMMAND_GET)
		status = get_segment(gdevd, &message);
	else if (!segment)
		status = -EINVAL;
	else if (message.command == SHM_COMMAND_BACK)
		status = back_segment(segment, &message, received, received_count);
	else if (message.command == SHM_COMMAND_ATTACH)
		status = find_chunks(segment, &message, 0, fds, &fd_count);
	else if (message.command == SHM_COMMAND_RESTORE)
		status = find_chunks(segment, &message, 1, fds, &fd_count);
	else if (message.command == SHM_COMMAND_MOVE)
		status = -ENOMEM;
	else
		message.bytes = segment->bytes;
	if (gdevd->next_status)
		status = gdevd->next_status;
	gdevd->next_status = 0;
	message.header.type = CONTROL_SHM_REPLY;
	message.header.status = status;
	say(gdevd, &message, fds, status < 0 ? 0 : fd_count);
}

static void answer(struct gdevd *gdevd, struct control_header *header, int *fds, size_t fd_count)
{
	struct control_grant *grant = (void *)header;
	struct control_cache *cache = (void *)header;

	switch (header->type) {
	case CONTROL_MEMORY:
		answer_query(gdevd, header);
		break;
	case CONTROL_ALLOCATE:
		answer_allocate(gdevd, (const struct control_allocate *)header);
		break;
	case CONTROL_ROOM:
		charge(gdevd, header, ((const struct control_room *)header)->bytes, 0);
		break;
	case CONTROL_SLOT:
		charge(gdevd, header, 0, ((const struct control_slot *)header)->bytes);
		break;
	case CONTROL_ACQUIRE:
		header->type = CONTROL_GRANT;
		grant->quantum_ns = 1000;
		say(gdevd, grant, NULL, 0);
		break;
	case CONTROL_SHM:
		answer_shm(gdevd, *(struct control_shm *)header, fds, fd_count);
		break;
	case CONTROL_CACHE_GET:
	case CONTROL_CACHE_PUT:
		header->type = CONTROL_CACHE_REPLY;
		header->status = -ENOENT;
		say(gdevd, cache, NULL, 0);
		break;
	case CONTROL_EVENT_WATCH:
		header->type = CONTROL_EVENT_DONE;
		say(gdevd, header, NULL, 0);
		break;
	default:
		break;
	}
}

/* False: the worker is gone. */
static bool answer_one(struct gdevd *gdevd)
{
	union {
		struct control_header header;
		uint64_t words[128];
	} message;
	int fds[FD_PASS_MAX];
	size_t fd_count = array_length(fds);
	ssize_t length = fd_receive(gdevd->fd, &message, sizeof message, fds, &fd_count);

	if (length == -EAGAIN)
		return true;
	if (length <= 0)
		return false;
	if (control_check(&message, (size_t)length))
		abort();
	answer(gdevd, &message.header, fds, fd_count);
	fd_close_all(fds, fd_count);
	return true;
}

static void *gdevd_main(void *argument)
{
	struct gdevd *gdevd = argument;
	bool goes_on = true;

	while (goes_on) {
		struct pollfd socket = {.fd = gdevd->fd, .events = POLLIN};
		poll(&socket, 1, -1);
		pthread_mutex_lock(&gdevd->lock);
		goes_on = answer_one(gdevd) && !gdevd->over;
		pthread_mutex_unlock(&gdevd->lock);
	}
	shutdown(gdevd->fd, SHUT_RDWR); /* whoever waits for an answer learns of it */
	return NULL;
}

static void gdevd_start(struct gdevd *gdevd, int fd)
{
	gdevd->fd = fd;
	gdevd->swap_file = memfd_create("swap", MFD_CLOEXEC);
	pthread_mutex_init(&gdevd->lock, NULL);
	if (pthread_create(&gdevd->thread, NULL, gdevd_main, gdevd))
		abort();
}

static void gdevd_go(struct gdevd *gdevd)
{
	pthread_mutex_lock(&gdevd->lock);
	gdevd->over = true;
	pthread_mutex_unlock(&gdevd->lock);
	shutdown(gdevd->fd, SHUT_RDWR);
}

static void gdevd_finish(struct gdevd *gdevd)
{
	pthread_join(gdevd->thread, NULL);
	for (uint32_t i = 0; i < gdevd->segment_count; i++) {
		lose_chunks(&gdevd->segments[i]);
		if (gdevd->segments[i].host_fd >= 0)
			close(gdevd->segments[i].host_fd);
	}
	close(gdevd->swap_file);
	close(gdevd->fd);
	pthread_mutex_destroy(&gdevd->lock);
}

/* Whether there is a message that it has not answered. */
static bool gdevd_is_busy(struct gdevd *gdevd)
{
	int bytes = 0;

	pthread_mutex_lock(&gdevd->lock);
	if (!gdevd->over)
		ioctl(gdevd->fd, FIONREAD, &bytes);
	pthread_mutex_unlock(&gdevd->lock);
	return bytes > 0;
}

/* ---- the client ---- */

static void settle(struct client *client)
{
	for (int i = 0; i < 500; i++) {
		if (gdevd_is_busy(&client->gdevd))
			sched_yield();
		else if (!service_step(client->core) && !gdevd_is_busy(&client->gdevd))
			return;
	}
}

static void run(struct client *client)
{
	/* When it has ended, a worker's process exits. */
	if (client->core->ended || client->runs++ == RUNS_MAX)
		return;
	__atomic_store_n(&client->core->segment->header.ring_tail, client->tail, __ATOMIC_RELEASE);
	settle(client);
}

/* The first byte says what kind of number, the second which. */
static uint64_t word(const struct client *client, const uint8_t *bytes)
{
	uint64_t number = bytes[1];

	switch (bytes[0] & 15) {
	case 0:
		return number;
	case 1:
		return DEVICE_MEMORY + (number & 31) * DEVICE_CHUNK_MIN;
	case 2:
		return DEVICE_MEMORY + number * 8;
	case 3:
		return BASE + number * 4096;
	case 4:
		return number * DEVICE_CHUNK_MIN;
	case 5:
		return number << 32;
	case 6:
		return (number & 15) | (number >> 4) << 32;
	case 7:
		return client->function | number << 32;
	case 8:
		return number * 4096;
	case 9:
		return UINT64_MAX - number;
	case 10:
		return DEVICE_MEMORY + number * DEVICE_CHUNK_MIN - 64;
	default:
		return 1ull << (number & 63);
	}
}

static void put(struct client *client, const void *record, size_t length)
{
	struct record_header header;

	memcpy(&header, record, sizeof header);
	header.length = (uint32_t)length;
	header.value = ++client->values[header.timeline];
	if (client->tail + length > SESSION_RING_BYTES)
		return;
	memcpy(client->core->segment->ring + client->tail, &header, sizeof header);
	memcpy(client->core->segment->ring + client->tail + sizeof header,
		(const char *)record + sizeof header, length - sizeof header);
	client->tail += length;
}

static void put_record(
	struct client *client, uint8_t opcode, uint8_t flags, const uint64_t *words, size_t count)
{
	struct {
		struct record_header header;
		uint64_t words[UINT8_MAX];
	} record = {.header.opcode = opcode};
	const struct record_type *type = record_type_find(opcode);

	if (opcode == RECORD_PAD)
		return;
	if (type && type->class == RECORD_CLASS_STREAM) {
		record.header.timeline = STREAM + (flags >> 2 & 1);
		record.header.flags = flags & 3;
	} else {
		record.header.timeline = flags & (SESSION_REPLIES - 1);
	}
	memcpy(record.words, words, count * sizeof *words);
	put(client, &record, sizeof record.header + count * sizeof *words);
}

static void put_launch(struct client *client)
{
	struct record_launch launch = {
		.header = {.opcode = RECORD_LAUNCH, .timeline = STREAM},
		.function = client->function,
		.grid = {1, 1, 1},
		.block = {1, 1, 1},
	};

	put(client, &launch, sizeof launch);
}

static void put_node(struct client *client, uint8_t flags, const uint64_t *words, size_t count)
{
	static const uint16_t opcodes[] = {RECORD_LAUNCH, RECORD_COPY, RECORD_FILL, RECORD_WRITE};
	size_t after = flags >> 2 & 3;
	struct {
		struct record_graph_node node;
		uint64_t words[UINT8_MAX];
	} record = {.node.header.opcode = RECORD_GRAPH_NODE, .node.graph = (uint32_t)words[0]};
	struct record_header *does;

	words += count != 0;
	count -= count != 0;
	after = min_of(after, count);
	record.node.dependencies = 2 * (uint32_t)after - (after && flags & 16);
	memcpy(record.words, words, after * sizeof *words);
	does = (void *)&record.words[after];
	does->opcode = opcodes[flags & 3];
	does->length = (uint32_t)(sizeof *does + (count - after) * sizeof *words) + (flags >> 5);
	memcpy(does + 1, words + after, (count - after) * sizeof *words);
	put(client, &record, sizeof record.node + sizeof *does + count * sizeof *words);
}

static int shared_memory(uint64_t bytes)
{
	return fd_shared_memory("fuzz", bytes < ARENA_BYTES ? bytes : ARENA_BYTES);
}

static void tell_peer(struct client *client, bool with_memory, const uint64_t *words)
{
	struct peer_message message = {
		.type = (uint32_t)words[0],
		.address = words[1],
		.bytes = words[2],
		.piece_bytes = {words[3]},
	};
	int fd = with_memory ? shared_memory(words[2] + words[3]) : -1, fds[PEER_FDS_MAX];
	size_t count = array_length(fds);

	fd_send(client->peer, &message, sizeof message, &fd, fd >= 0);
	if (fd >= 0)
		close(fd);
	run(client);
	if (fd_receive(client->peer, &message, sizeof message, fds, &count) == sizeof message)
		fd_close_all(fds, count);
}

/* ---- orders ---- */

static void order_eviction(struct client *client, uint8_t flags, const uint64_t *words)
{
	uint64_t bytes = words[0] % ARENA_BYTES / DEVICE_CHUNK_MIN * DEVICE_CHUNK_MIN;
	struct control_evict order = {
		.header = {sizeof order, CONTROL_EVICT, CONTROL_VERSION, 5, 0},
		.bytes = bytes,
		.swapped = flags & 1 ? bytes : 0,
		.flags = ((uint32_t)words[1] & ~EVICT_FILE) | (flags & 2 ? EVICT_FILE : 0),
	};

	say(&client->gdevd, &order, &client->gdevd.swap_file, flags & 2 ? 1 : 0);
}

static void order_segment(struct client *client, bool with_memory, const uint64_t *words)
{
	struct gdevd *gdevd = &client->gdevd;
	struct control_shm order = {
		.header = {sizeof order, CONTROL_SHM, CONTROL_VERSION, 0, 0},
		.command = (uint32_t)words[0],
		.id = (uint32_t)words[1],
	};
	struct segment *segment;

	pthread_mutex_lock(&gdevd->lock);
	segment = segment_of(gdevd, order.id);
	if (segment && with_memory && segment->host_fd < 0)
		segment->host_fd = shared_memory(segment->bytes);
	say(gdevd, &order, segment ? &segment->host_fd : NULL,
		segment && with_memory && segment->host_fd >= 0);
	pthread_mutex_unlock(&gdevd->lock);
}

static void take_grant(struct client *client, const uint64_t *words)
{
	struct control_grant message = {
		.header = {sizeof message, CONTROL_REVOKE, CONTROL_VERSION, 0, 0},
		.resource = words[0] % RESOURCES,
	};

	__atomic_store_n(&client->core->page->revoke[message.resource], (uint32_t)words[1] & 3,
		__ATOMIC_RELAXED);
	say(&client->gdevd, &message, NULL, 0);
}

static void watch(struct client *client, const uint64_t *words)
{
	struct control_event message = {
		.header = {sizeof message, CONTROL_EVENT_WATCH, CONTROL_VERSION, 7, 0},
		.session = 1,
		.value = words[0],
	};

	say(&client->gdevd, &message, NULL, 0);
}

static void step(struct client *client, uint8_t opcode, uint8_t flags, const uint64_t *words)
{
	struct session_header *header = &client->core->segment->header;

	if (++client->steps % STEPS_AT_ONCE == 0)
		run(client);
	switch (opcode) {
	case STEP_RUN:
		run(client);
		break;
	case STEP_PEER:
		tell_peer(client, flags & 1, words);
		break;
	case STEP_EVICT:
		order_eviction(client, flags, words);
		break;
	case STEP_ORDER:
		order_segment(client, flags & 1, words);
		break;
	case STEP_REVOKE:
		take_grant(client, words);
		break;
	case STEP_WATCH:
		watch(client, words);
		break;
	case STEP_DIRECT:
		header->direct_copying[flags & 1] = (uint32_t)words[0];
		header->direct_bytes[flags & 1] = words[1];
		break;
	case STEP_HOST:
		__atomic_store_n(&header->host_completed, words[0], __ATOMIC_RELEASE);
		core_lock(client->core);
		streams_host_progress(client->core);
		core_unlock(client->core);
		break;
	case STEP_ANSWER:
		pthread_mutex_lock(&client->gdevd.lock);
		client->gdevd.fills_file = flags & 2;
		client->gdevd.next_status =
			(int32_t)(flags & 1 ? words[0] & 3 : -(words[0] & 4095));
		pthread_mutex_unlock(&client->gdevd.lock);
		break;
	case STEP_LAUNCH:
		put_launch(client);
		break;
	case STEP_GDEVD_GO:
		gdevd_go(&client->gdevd);
		break;
	case STEP_WAKE:
		client->core->trace.segment->header.enabled = flags & 1;
		eventfd_write(client->core->wake_fd, 1);
		break;
	default:
		break;
	}
}

static void take_steps(struct client *client, const uint8_t *data, size_t size)
{
	while (size >= 3 && !client->core->ended && client->runs <= RUNS_MAX) {
		uint64_t words[UINT8_MAX] = {0};
		uint8_t opcode = data[0] & 127, flags = data[1];
		size_t count = min_of((size_t)data[2] & 31, (size - 3) / 2);

		for (size_t i = 0; i < count; i++)
			words[i] = word(client, data + 3 + 2 * i);
		if (opcode < STEP_FIRST)
			put_record(client, opcode, flags, words, count);
		else if (opcode == STEP_NODE)
			put_node(client, flags, words, count);
		else
			step(client, opcode, flags, words);
		data += 3 + 2 * count;
		size -= 3 + 2 * count;
	}
}

/* Kernels are checked. Streams, device memory, a module and its function: something that records can name. */
static void prepare(struct client *client)
{
	struct record_check check = {
		{.opcode = RECORD_CHECK}, RECORD_CHECK_BEGIN, (1u << DEVICE_CHECKS) - 1, 0, 0};
	struct record_stream stream = {{.opcode = RECORD_STREAM_CREATE}, STREAM, 0};
	struct record_memory memory = {
		{.opcode = RECORD_MEMORY_ALLOC}, DEVICE_MEMORY, 4 * DEVICE_CHUNK_MIN};
	struct record_module_load load = {{.opcode = RECORD_MODULE_LOAD}, BASE, 8, 0, 0, 0};
	struct {
		struct record_lookup lookup;
		char name[8];
	} function = {{{.opcode = RECORD_FUNCTION_GET}, 0, 2}, "k"};

	put(client, &check, sizeof check);
	put(client, &stream, sizeof stream);
	stream.stream++;
	put(client, &stream, sizeof stream);
	put(client, &memory, sizeof memory);
	run(client);
	put(client, &load, sizeof load);
	run(client);
	memcpy(&function.lookup.module, client->core->segment->replies[0].payload,
		sizeof(uint32_t));
	put(client, &function, sizeof function);
	run(client);
	memcpy(&client->function, client->core->segment->replies[0].payload,
		sizeof client->function);
}

static void start(struct client *client)
{
	struct core_config config = {
		.ops = session_device_ops(),
		.device = {.memory_bytes = ARENA_BYTES, .threads = 1},
		.staging_bytes = STAGING,
		.ended = ended,
	};
	struct control_attach attach = {
		.session = 1,
		.arena_base = BASE,
		.arena_bytes = ARENA_BYTES,
		.memory_limit_bytes = ARENA_BYTES,
	};
	int control[2], peer[2];

	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, control) ||
		socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, peer))
		abort();
	config.control_fd = control[0];
	if (core_create(&config, &client->core))
		abort();
	client->peer = peer[1];
	gdevd_start(&client->gdevd, control[1]);
	core_lock(client->core);
	if (core_attach(client->core, &attach, peer[0], -1))
		abort();
	core_unlock(client->core);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static struct client client;

	memset(&client, 0, sizeof client);
	start(&client);
	prepare(&client);
	take_steps(&client, data, size);
	run(&client);
	/* What still waits is let go: for host functions, for the client's copies, and for gdevd. */
	client.core->segment->header.host_completed = UINT64_MAX;
	memset(client.core->segment->header.direct_copying, 0,
		sizeof client.core->segment->header.direct_copying);
	eventfd_write(client.core->wake_fd, 1);
	gdevd_go(&client.gdevd);
	if (client.core->ended) { /* else it would not hear of that any more */
		client.core->ended = false;
		service_rewatch(client.core, client.core->control.fd, false);
	}
	settle(&client);
	core_destroy(client.core);
	session_device_finish();
	gdevd_finish(&client.gdevd);
	close(client.peer);
	return 0;
}
