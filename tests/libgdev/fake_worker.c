/* SPDX-License-Identifier: MIT
 *
 * See fake_worker.h.
 */
#include "fake_worker.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/fd.h"
#include "lib/libgdev/internal.h"
#include "proto/check.h"
#include "proto/peer.h"

#define STAGING_BYTES (8ull << 20)
#define ARENA_BYTES (4ull << 30)

uint32_t fake_worker_look_us;
struct fake_worker *fake_worker;
_Atomic(const char *) fake_worker_slow;

/* ---- completion ---- */

static void complete(struct fake_worker *worker, uint32_t timeline, uint64_t value)
{
	struct session_timeline *shared = &worker->segment->timelines[timeline];
	uint64_t want;

	__atomic_store_n(&shared->completed, value, __ATOMIC_RELEASE);
	__atomic_thread_fence(__ATOMIC_SEQ_CST);
	want = __atomic_load_n(&shared->want, __ATOMIC_RELAXED);
	if (want && want <= value) {
		atomic_fetch_add(&worker->wakes, 1);
		eventfd_write(worker->wake_client, 1);
	}
}

/* ---- execution ---- */

static void copy_box(const struct record_copy *copy)
{
	for (uint64_t z = 0; z < copy->depth; z++)
		for (uint64_t y = 0; y < copy->height; y++)
			memcpy((uint8_t *)copy->destination + z * copy->destination_slice +
					y * copy->destination_pitch,
				(uint8_t *)copy->source + z * copy->source_slice +
					y * copy->source_pitch,
				copy->width);
}

static void fill_rows(const struct record_fill *fill)
{
	for (uint64_t y = 0; y < fill->height; y++)
		for (uint64_t x = 0; x < fill->width; x++)
			memcpy((uint8_t *)fill->destination + y * fill->pitch +
					x * fill->element_bytes,
				&fill->value, fill->element_bytes);
}

/* False: it has to wait. */
static bool execute_stream(struct fake_worker *worker, const void *record)
{
	const struct record_header *header = record;
	const struct record_wait *wait = record;
	const struct record_stamp *stamp = record;
	const struct record_write *write = record;
	const uint64_t *awaited;

	switch (header->opcode) {
	case RECORD_COPY:
		copy_box(record);
		break;
	case RECORD_WRITE:
		memcpy((void *)write->destination, write + 1, write->bytes);
		break;
	case RECORD_FILL:
		fill_rows(record);
		break;
	case RECORD_LAUNCH:
		atomic_fetch_add(&worker->launches, 1);
		break;
	case RECORD_STAMP:
		worker->segment->stamps[stamp->stamp] = clock_now_ns();
		break;
	case RECORD_WAIT:
		awaited = wait->awaited ? &worker->segment->timelines[wait->awaited].completed
					: &worker->segment->header.host_completed;
		return __atomic_load_n(awaited, __ATOMIC_ACQUIRE) >= wait->awaited_value;
	default:
		break;
	}
	return true;
}

static int put_memory(struct fake_worker *worker, unsigned object)
{
	uint64_t bytes = worker->objects[object].bytes;
	int fd = fd_shared_memory("fake-device", bytes);

	worker->objects[object].fd = fd;
	return mmap((void *)worker->objects[object].address, bytes, PROT_READ | PROT_WRITE,
		       MAP_SHARED | MAP_FIXED, fd, 0) == MAP_FAILED
		       ? -errno
		       : 0;
}

static unsigned find_object(const struct fake_worker *worker, uint64_t address)
{
	unsigned i = 0;

	while (i < worker->object_count && worker->objects[i].address != address)
		i++;
	return i;
}

static int serve_alloc(struct fake_worker *worker, const struct record_memory *memory)
{
	uint64_t used = memory->bytes;

	for (unsigned i = 0; i < worker->object_count; i++)
		used += worker->objects[i].bytes;
	if (worker->object_count == FAKE_OBJECTS_MAX || (worker->room && used > worker->room))
		return -ENOMEM;
	worker->objects[worker->object_count].address = memory->address;
	worker->objects[worker->object_count].bytes = memory->bytes;
	return put_memory(worker, worker->object_count++);
}

static int serve_free(struct fake_worker *worker, const struct record_memory *memory)
{
	unsigned at = find_object(worker, memory->address);

	if (at == worker->object_count) /* page-locked memory */
		return 0;
	close(worker->objects[at].fd);
	worker->objects[at] = worker->objects[--worker->object_count];
	return 0;
}

void fake_worker_move(struct fake_worker *worker, uint64_t address)
{
	unsigned at = find_object(worker, address);

	pthread_mutex_lock(&worker->move_lock);
	close(worker->objects[at].fd);
	assert_int_equal(put_memory(worker, at), 0);
	pthread_mutex_unlock(&worker->move_lock);
	atomic_fetch_add(&worker->moves, 1);
	__atomic_add_fetch(&worker->segment->header.direct_generation, 1, __ATOMIC_SEQ_CST);
}

static void execute_immediate(struct fake_worker *worker, const void *record)
{
	const struct record_header *header = record;
	struct session_reply *reply = &worker->segment->replies[header->timeline];
	const struct record_query *query = record;
	int status = 0;

	memset(reply->payload, 0, sizeof reply->payload);
	reply->length = 64;
	if (header->opcode == RECORD_MEMORY_ALLOC)
		status = serve_alloc(worker, record);
	if (header->opcode == RECORD_MEMORY_FREE)
		status = serve_free(worker, record);
	if (header->opcode == RECORD_QUERY && query->type == QUERY_PROPERTIES)
		reply->length = DEVICE_PROPERTIES * sizeof(int32_t);
	if (header->opcode == RECORD_FUNCTION_GET)
		((struct reply_function *)reply->payload)->max_threads = 1024;
	if (worker->reply_length)
		reply->length = atomic_exchange(&worker->reply_length, 0);
	reply->status = worker->reply_with ? atomic_exchange(&worker->reply_with, 0) : status;
	complete(worker, header->timeline, header->value);
}

static bool has_to_wait(struct fake_worker *worker, const struct record_header *header)
{
	return (worker->full && header->opcode == RECORD_MEMORY_ALLOC) ||
	       (worker->clings && header->opcode == RECORD_MEMORY_FREE);
}

/* Executes what can be: in order within a stream, and nothing behind a fence that waits. */
static void execute_pending(struct fake_worker *worker)
{
	bool blocked[SESSION_TIMELINES] = {false};
	unsigned kept = 0;
	bool fenced = worker->held;

	for (unsigned i = 0; i < worker->pending_count; i++) {
		const struct record_header *header = (void *)worker->pending[i];
		int error;
		if (has_to_wait(worker, header)) {
			worker->pending[kept++] = worker->pending[i];
			continue;
		}
		if (record_type_find(header->opcode)->class == RECORD_CLASS_IMMEDIATE) {
			execute_immediate(worker, worker->pending[i]);
			free(worker->pending[i]);
			continue;
		}
		if (fenced || blocked[header->timeline] ||
			!execute_stream(worker, worker->pending[i])) {
			blocked[header->timeline] = true;
			fenced = fenced || header->flags & RECORD_FENCE;
			worker->pending[kept++] = worker->pending[i];
			continue;
		}
		error = worker->fail_with ? atomic_exchange(&worker->fail_with, 0) : 0;
		if (error) {
			worker->segment->timelines[header->timeline].error = error;
			worker->segment->timelines[header->timeline].failures++;
		}
		complete(worker, header->timeline, header->value);
		free(worker->pending[i]);
	}
	worker->pending_count = kept;
}

/* ---- the ring ---- */

static void take_record(struct fake_worker *worker)
{
	const uint8_t *ring = worker->segment->ring;
	uint64_t offset = worker->head % SESSION_RING_BYTES;
	struct record_header first;
	uint8_t *record;

	memcpy(&first, ring + offset, 8);
	if (first.length < 8 || first.length % 8 || offset + first.length > SESSION_RING_BYTES)
		abort();
	if (first.opcode != RECORD_PAD) {
		record = malloc(first.length);
		memcpy(record, ring + offset, first.length);
		atomic_fetch_add(&worker->records, 1);
		if (record_type_find(first.opcode)->class == RECORD_CLASS_IMMEDIATE &&
			!has_to_wait(worker, &first)) {
			execute_immediate(worker, record);
			free(record);
		} else {
			worker->pending[worker->pending_count++] = record;
		}
	}
	worker->head += first.length;
}

/* What the test did before it wrote the record: the ring is mapped twice, and the thread sanitizer does not see that
 * order. */
static void follow_test(const struct fake_worker *worker)
{
	atomic_load(&worker->moves);
}

static bool read_ring(struct fake_worker *worker)
{
	struct session_header *header = &worker->segment->header;
	bool any = false;

	while (!worker->deaf &&
		worker->head != __atomic_load_n(&header->ring_tail, __ATOMIC_ACQUIRE) &&
		worker->pending_count < FAKE_PENDING_MAX) {
		follow_test(worker);
		take_record(worker);
		any = true;
		execute_pending(worker);
		__atomic_store_n(&header->ring_head, worker->head, __ATOMIC_SEQ_CST);
		__atomic_thread_fence(__ATOMIC_SEQ_CST);
		if (__atomic_load_n(&header->ring_want, __ATOMIC_RELAXED))
			eventfd_write(worker->wake_client, 1);
	}
	return any;
}

static void serve_peer(struct fake_worker *worker)
{
	struct peer_message message;
	size_t count = 1;
	int fd = -1;

	if (fd_receive(worker->peer, &message, sizeof message, &fd, &count) != sizeof message)
		return;
	fd_close_all(&fd, count);
	message.status = message.type == PEER_HOST_ADD || message.type == PEER_IMAGE ? 0 : -ENOTSUP;
	if (message.type == PEER_DEVICE_MAP_REVOCABLE) {
		unsigned at = find_object(worker, message.address);
		message.status = worker->lends_with;
		message.pieces = 1;
		message.piece_bytes[0] = message.bytes;
		atomic_fetch_add(&worker->lent, 1);
		pthread_mutex_lock(&worker->move_lock);
		fd_send(worker->peer, &message, sizeof message, &worker->objects[at].fd,
			!message.status);
		pthread_mutex_unlock(&worker->move_lock);
		return;
	}
	fd_send(worker->peer, &message, sizeof message, NULL, 0);
}

static void sleep_once(struct fake_worker *worker)
{
	struct session_header *header = &worker->segment->header;
	struct pollfd fds[] = {{worker->wake_worker, POLLIN, 0}, {worker->peer, POLLIN, 0}};
	eventfd_t count;

	__atomic_store_n(&header->worker_state, SESSION_WORKER_ASLEEP, __ATOMIC_SEQ_CST);
	__atomic_thread_fence(__ATOMIC_SEQ_CST);
	if (!worker->deaf && worker->head != __atomic_load_n(&header->ring_tail, __ATOMIC_ACQUIRE))
		return;
	poll(fds, 2, -1);
	if (fds[0].revents) {
		eventfd_read(worker->wake_worker, &count);
		atomic_fetch_add(&worker->kicks, 1);
	}
	if (fds[1].revents)
		serve_peer(worker);
	__atomic_store_n(&header->worker_state, SESSION_WORKER_AWAKE, __ATOMIC_SEQ_CST);
}

static void *run(void *argument)
{
	struct fake_worker *worker = argument;

	while (!worker->stop) {
		bool any = read_ring(worker);
		execute_pending(worker);
		if (!any)
			sleep_once(worker);
	}
	return NULL;
}

/* ---- life ---- */

static void init_header(struct session_header *header)
{
	*header = (struct session_header){
		.magic = SESSION_MAGIC,
		.version = SESSION_VERSION_MAX,
		.segment_bytes = sizeof(struct session_segment),
		.timeline_offset = offsetof(struct session_segment, timelines),
		.timeline_count = SESSION_TIMELINES,
		.reply_offset = offsetof(struct session_segment, replies),
		.reply_count = SESSION_REPLIES,
		.stamp_offset = offsetof(struct session_segment, stamps),
		.stamp_count = SESSION_STAMPS,
		.ring_offset = offsetof(struct session_segment, ring),
		.ring_bytes = SESSION_RING_BYTES,
		.output_offset = offsetof(struct session_segment, output),
		.output_bytes = SESSION_OUTPUT_BYTES,
		.look_us = fake_worker_look_us,
	};
}

static uint64_t reserve_arena(void)
{
	uint8_t *got = mmap(NULL, ARENA_BYTES + ARENA_ALIGN, PROT_NONE,
		MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	uint64_t base = align_up((uint64_t)got, ARENA_ALIGN);

	assert_true(got != MAP_FAILED);
	munmap(got, base - (uint64_t)got);
	return base;
}

static bool is_slow(const struct opening *opening)
{
	const char *slow = fake_worker_slow;

	return slow && !strcmp(slow, opening->vgpu);
}

int connect_open(struct opening *opening, struct gdev_description *description, struct terms *terms,
	struct transport **transport)
{
	struct fake_worker *worker = calloc(1, sizeof *worker);
	struct shm_connection connection;
	int peers[2], segment, error;

	while (is_slow(opening)) {
		registry_leave();
		usleep(1000);
		registry_enter();
	}
	segment = fd_shared_memory("fake", sizeof(struct session_segment));
	assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, peers), 0);
	worker->segment =
		mmap(NULL, sizeof *worker->segment, PROT_READ | PROT_WRITE, MAP_SHARED, segment, 0);
	assert_true(worker->segment != MAP_FAILED);
	init_header(&worker->segment->header);
	worker->arena_base = reserve_arena();
	worker->wake_worker = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	worker->wake_client = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	worker->peer = peers[1];
	pthread_mutex_init(&worker->move_lock, NULL);
	connection = (struct shm_connection){
		.control = open("/dev/null", O_RDONLY | O_CLOEXEC),
		.segment = segment,
		.staging = fd_shared_memory("fake-staging", STAGING_BYTES),
		.wake_worker = dup(worker->wake_worker),
		.wake_client = dup(worker->wake_client),
		.peer = peers[0],
	};
	error = transport_shm_create(&connection, worker->arena_base, STAGING_BYTES, transport);
	assert_int_equal(error, 0);
	*description = (struct gdev_description){
		.memory_bytes = ARENA_BYTES,
		.session = 1,
		.arena_base = worker->arena_base,
		.arena_bytes = ARENA_BYTES,
	};
	snprintf(description->vgpu, sizeof description->vgpu, "%s", opening->vgpu);
	*terms = (struct terms){.staging_bytes = STAGING_BYTES};
	/* From here on both sides use one mapping, or the thread sanitizer sees two memories. */
	munmap(worker->segment, sizeof *worker->segment);
	worker->segment = (*transport)->segment;
	assert_int_equal(pthread_create(&worker->thread, NULL, run, worker), 0);
	fake_worker = worker;
	return 0;
}

int gdev_vgpu_name(int index, char name[GDEV_NAME_MAX])
{
	snprintf(name, GDEV_NAME_MAX, "gdev%d", index);
	return 0;
}

int gdev_vgpu_count(void)
{
	return 1;
}

void fake_worker_poke(struct fake_worker *worker)
{
	eventfd_write(worker->wake_worker, 1);
}

void fake_worker_kill(struct fake_worker *worker)
{
	if (worker->peer < 0)
		return;
	worker->stop = true;
	fake_worker_poke(worker);
	pthread_join(worker->thread, NULL);
	close(worker->peer);
	worker->peer = -1;
}

void fake_worker_free(struct fake_worker *worker)
{
	for (unsigned i = 0; i < worker->pending_count; i++)
		free(worker->pending[i]);
	for (unsigned i = 0; i < worker->object_count; i++)
		close(worker->objects[i].fd);
	close(worker->wake_worker);
	close(worker->wake_client);
	pthread_mutex_destroy(&worker->move_lock);
	free(worker);
}

int connect_describe(struct opening *opening, struct gdev_description *description,
	int32_t properties[DEVICE_PROPERTIES])
{
	return -GDEV_E_NO_DAEMON; /* sessions alone are tested here */
}
