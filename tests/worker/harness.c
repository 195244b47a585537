/* SPDX-License-Identifier: MIT
 *
 * See harness.h.
 */
#include "harness.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/fd.h"
#include "double.h"
#include "worker/service.h"

/* ---- time ---- */

#define LOOK_NS 100 /* that a look takes, since the worker may look until a time has come */

static uint64_t stands_at_ns; /* 0: the machine's clock counts */

uint64_t __wrap_clock_now_ns(void);
uint64_t __real_clock_now_ns(void);

uint64_t __wrap_clock_now_ns(void)
{
	return stands_at_ns ? stands_at_ns += LOOK_NS : __real_clock_now_ns();
}

void fixture_pass(uint64_t ns)
{
	assert_int_not_equal(stands_at_ns, 0);
	stands_at_ns += ns;
}

static void stop_clock(struct service *service)
{
	stands_at_ns = __real_clock_now_ns();
	assert_int_equal(epoll_ctl(service->epoll_fd, EPOLL_CTL_DEL, service->timer_fd, NULL), 0);
}

/* ---- the worker ---- */

static void note_end(void *owner, int reason)
{
	struct fixture *fixture = owner;

	fixture->reason = reason;
	__atomic_add_fetch(&fixture->ended, 1, __ATOMIC_RELEASE);
}

/* As gdevd does without a client yet. */
static void start_warm(
	struct fixture *fixture, const struct device_ops *ops, bool with_gdevd, unsigned threads)
{
	struct core_config config = {
		.ops = ops,
		.device = {.memory_bytes = 4 * TEST_LIMIT, .threads = 2},
		.staging_bytes = TEST_STAGING,
		.control_fd = -1,
		.threads = threads,
		.ended = note_end,
		.owner = fixture,
	};
	int control[2] = {-1, -1};

	memset(fixture, 0, sizeof *fixture);
	fixture->peer = -1;
	snprintf(fixture->runtime_dir, sizeof fixture->runtime_dir, "/tmp/gdev-test-XXXXXX");
	assert_non_null(mkdtemp(fixture->runtime_dir));
	snprintf(fixture->socket_path, sizeof fixture->socket_path, "%s/workers.sock",
		fixture->runtime_dir);
	config.gdevd_socket = fixture->socket_path;
	if (with_gdevd)
		assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, control), 0);
	config.control_fd = control[0];
	fixture->gdevd = control[1];
	double_watch(NULL);
	assert_int_equal(core_create(&config, &fixture->core), 0);
	if (!threads) {
		stop_clock(&fixture->core->service);
		double_watch(fixture->core);
	}
	fixture->segment = mmap(NULL, sizeof *fixture->segment, PROT_READ | PROT_WRITE, MAP_SHARED,
		fixture->core->segment_fd, 0);
	assert_true(fixture->segment != MAP_FAILED);
	if (threads)
		assert_int_equal(service_start(fixture->core), 0);
}

void fixture_attach(struct fixture *fixture)
{
	const struct control_attach attach = {
		.session = 7,
		.arena_base = TEST_BASE,
		.arena_bytes = TEST_BYTES,
		.memory_limit_bytes = TEST_LIMIT,
	};
	int peer[2];

	assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, peer), 0);
	fixture->peer = peer[1];
	core_lock(fixture->core);
	assert_int_equal(core_attach(fixture->core, &attach, peer[0], -1), 0);
	core_unlock(fixture->core);
}

static void start(
	struct fixture *fixture, const struct device_ops *ops, bool with_gdevd, unsigned threads)
{
	start_warm(fixture, ops, with_gdevd, threads);
	fixture_attach(fixture);
}

void fixture_start_warm(struct fixture *fixture, unsigned threads)
{
	start_warm(fixture, device_ops_find("null"), true, threads);
}

void fixture_start(struct fixture *fixture, bool with_gdevd)
{
	start(fixture, double_ops(), with_gdevd, 0);
}

void fixture_start_ops(
	struct fixture *fixture, const struct device_ops *ops, bool with_gdevd, unsigned threads)
{
	start(fixture, ops, with_gdevd, threads);
}

void fixture_start_threads(struct fixture *fixture, bool with_gdevd, unsigned threads)
{
	start(fixture, device_ops_find("null"), with_gdevd, threads);
}

void fixture_stop(struct fixture *fixture)
{
	double_watch(NULL);
	core_destroy(fixture->core);
	stands_at_ns = 0;
	munmap(fixture->segment, sizeof *fixture->segment);
	if (fixture->gdevd >= 0)
		close(fixture->gdevd);
	if (fixture->peer >= 0)
		close(fixture->peer);
	unlink(fixture->socket_path);
	rmdir(fixture->runtime_dir);
}

void fixture_run(struct fixture *fixture)
{
	while (service_step(fixture->core))
		;
}

void fixture_tick(struct fixture *fixture)
{
	core_lock(fixture->core);
	service_tick(fixture->core);
	core_unlock(fixture->core);
	fixture_run(fixture);
}

static int setup(void **state, bool with_gdevd)
{
	struct fixture *fixture = calloc(1, sizeof *fixture);

	assert_non_null(fixture);
	fixture_start(fixture, with_gdevd);
	*state = fixture;
	return 0;
}

int setup_alone(void **state)
{
	return setup(state, false);
}

int setup_with_gdevd(void **state)
{
	return setup(state, true);
}

int teardown(void **state)
{
	struct fixture *fixture = *state;

	double_hold(false);
	double_release(double_held(), 0);
	fixture_stop(fixture);
	assert_int_equal(double_chunks, 0);
	assert_int_equal(double_modules, 0);
	free(fixture);
	return 0;
}

/* ---- the client ---- */

static void put(struct fixture *fixture, const void *bytes, size_t length)
{
	if (length)
		memcpy(fixture->segment->ring + fixture->tail % SESSION_RING_BYTES, bytes, length);
	fixture->tail += length;
}

/* So that a record of `length` bytes does not wrap. */
static void pad(struct fixture *fixture, size_t length)
{
	size_t to_end = SESSION_RING_BYTES - fixture->tail % SESSION_RING_BYTES;
	struct record_header header = {.opcode = RECORD_PAD, .length = (uint32_t)to_end};

	if (length <= to_end)
		return;
	memcpy(fixture->segment->ring + fixture->tail % SESSION_RING_BYTES, &header,
		min_of(to_end, sizeof header));
	fixture->tail += to_end;
}

void publish(struct fixture *fixture)
{
	struct session_header *header = &fixture->segment->header;
	uint64_t one = 1;

	__atomic_store_n(&header->ring_tail, fixture->tail, __ATOMIC_RELEASE);
	__atomic_thread_fence(__ATOMIC_SEQ_CST);
	if (__atomic_exchange_n(&header->worker_state, SESSION_WORKER_AWAKE, __ATOMIC_SEQ_CST) ==
		SESSION_WORKER_ASLEEP)
		assert_int_equal(write(fixture->core->wake_fd, &one, sizeof one), sizeof one);
}

uint64_t post_raw(
	struct fixture *fixture, void *record, size_t fixed, const void *extra, size_t extra_bytes)
{
	struct record_header *header = record;
	size_t length = align_up(fixed + extra_bytes, 8);
	uint8_t zero[8] = {0};

	if (!header->length)
		header->length = (uint32_t)length;
	if (!header->value && header->timeline < SESSION_TIMELINES)
		header->value = ++fixture->values[header->timeline];
	pad(fixture, length);
	put(fixture, record, fixed);
	put(fixture, extra, extra_bytes);
	put(fixture, zero, length - fixed - extra_bytes);
	publish(fixture);
	return header->value;
}

uint64_t completed(const struct fixture *fixture, uint32_t timeline)
{
	return __atomic_load_n(&fixture->segment->timelines[timeline].completed, __ATOMIC_ACQUIRE);
}

int32_t stream_error(const struct fixture *fixture, uint32_t timeline)
{
	return __atomic_load_n(&fixture->segment->timelines[timeline].error, __ATOMIC_RELAXED);
}

int32_t session_error(const struct fixture *fixture)
{
	return __atomic_load_n(&fixture->segment->header.error, __ATOMIC_ACQUIRE);
}

int ask(struct fixture *fixture, void *record, size_t fixed, const void *extra, size_t extra_bytes)
{
	uint64_t value = post_raw(fixture, record, fixed, extra, extra_bytes);

	fixture_run(fixture);
	assert_int_equal(completed(fixture, 0), value);
	return fixture->segment->replies[0].status;
}

const void *reply_payload(const struct fixture *fixture)
{
	return fixture->segment->replies[0].payload;
}

void make_stream(struct fixture *fixture, uint32_t timeline)
{
	struct record_stream record = {
		.header.opcode = RECORD_STREAM_CREATE,
		.stream = timeline,
	};

	assert_int_equal(ask_plain(fixture, &record), 0);
}

int alloc(struct fixture *fixture, uint64_t address, uint64_t bytes)
{
	struct record_memory record = {{.opcode = RECORD_MEMORY_ALLOC}, address, bytes};

	return ask_plain(fixture, &record);
}

int release(struct fixture *fixture, uint64_t address)
{
	struct record_memory record = {{.opcode = RECORD_MEMORY_FREE}, address, 0};

	return ask_plain(fixture, &record);
}

void post_module(struct fixture *fixture)
{
	struct record_module_load load = {
		.header.opcode = RECORD_MODULE_LOAD,
		.image = TEST_BASE,
		.image_bytes = 16,
	};

	post(fixture, &load);
	fixture_run(fixture);
}

uint32_t get_function(struct fixture *fixture)
{
	struct record_lookup lookup = {
		.header.opcode = RECORD_FUNCTION_GET,
		.name_bytes = 2,
		.module = ((const struct reply_module *)reply_payload(fixture))->module,
	};

	assert_int_equal(ask(fixture, &lookup, sizeof lookup, "k", 2), 0);
	return ((const struct reply_function *)reply_payload(fixture))->function;
}

uint32_t make_function(struct fixture *fixture)
{
	post_module(fixture);
	return get_function(fixture);
}

uint64_t post_launch(struct fixture *fixture, uint32_t timeline, uint32_t function, uint8_t flags)
{
	return post_launch_of(fixture, timeline, function, 1, flags);
}

uint64_t post_launch_of(struct fixture *fixture, uint32_t timeline, uint32_t function,
	uint32_t blocks, uint8_t flags)
{
	struct record_launch record = {
		.header = {.opcode = RECORD_LAUNCH, .timeline = timeline, .flags = flags},
		.function = function,
		.grid = {blocks, 1, 1},
		.block = {1, 1, 1},
		.param_bytes = 16,
	};
	uint64_t params[2] = {1, 2};

	return post_raw(fixture, &record, sizeof record, params, sizeof params);
}

uint64_t post_copy(struct fixture *fixture, uint32_t timeline, uint64_t destination,
	uint64_t source, uint64_t bytes)
{
	struct record_copy record = {
		.header = {.opcode = RECORD_COPY, .timeline = timeline},
		.destination = destination,
		.source = source,
		.width = bytes,
		.height = 1,
		.depth = 1,
	};

	return post(fixture, &record);
}

uint64_t post_write(struct fixture *fixture, uint32_t timeline, uint64_t destination,
	const void *bytes, size_t length, uint8_t flags)
{
	struct record_write record = {
		.header = {.opcode = RECORD_WRITE, .timeline = timeline, .flags = flags},
		.destination = destination,
		.bytes = length,
	};

	return post_raw(fixture, &record, sizeof record, bytes, length);
}

uint64_t post_wait(struct fixture *fixture, uint32_t timeline, uint32_t awaited, uint64_t value)
{
	struct record_wait record = {
		.header = {.opcode = RECORD_WAIT, .timeline = timeline},
		.awaited = awaited,
		.awaited_value = value,
	};

	return post(fixture, &record);
}

void trace_on(struct fixture *fixture)
{
	__atomic_store_n(&fixture->core->trace.segment->header.enabled, 1, __ATOMIC_RELAXED);
}

uint64_t traced(struct fixture *fixture, enum trace_swap step)
{
	const struct trace_side *side = &fixture->core->trace.segment->worker;
	uint64_t bytes = 0;

	core_lock(fixture->core);
	for (uint64_t i = 0; i < side->head; i++)
		if (side->events[i].kind == TRACE_SWAP && side->events[i].detail == step) {
			assert_true(side->events[i].begin_ns &&
				    side->events[i].begin_ns <= side->events[i].end_ns);
			bytes += side->events[i].amount;
		}
	core_unlock(fixture->core);
	return bytes;
}

/* ---- gdevd ---- */

void expect_message(struct fixture *fixture, uint16_t type, void *message, size_t size, int *fds,
	size_t *fd_count)
{
	union {
		struct control_header header;
		uint8_t bytes[4096];
	} received;
	struct pollfd socket = {.fd = fixture->gdevd, .events = POLLIN};
	ssize_t length;

	assert_int_equal(poll(&socket, 1, PATIENCE_MS), 1);
	length = fd_receive(fixture->gdevd, &received, sizeof received, fds, fd_count);
	assert_true(length >= (ssize_t)sizeof received.header);
	assert_int_equal(received.header.type, type);
	assert_int_equal(received.header.length, length);
	assert_int_equal(length, size);
	memcpy(message, &received, size);
}

void expect_no_message(struct fixture *fixture)
{
	struct pollfd socket = {.fd = fixture->gdevd, .events = POLLIN};

	assert_int_equal(poll(&socket, 1, 0), 0);
}

void tell(struct fixture *fixture, const void *message, const int *fds, size_t fd_count)
{
	const struct control_header *header = message;

	assert_int_equal(fd_send(fixture->gdevd, message, header->length, fds, fd_count), 0);
}

struct control_allocate expect_allocate(struct fixture *fixture, uint64_t bytes)
{
	struct control_allocate message;

	expect_message(fixture, CONTROL_ALLOCATE, &message, sizeof message, NULL, NULL);
	assert_int_equal(message.device_bytes, bytes);
	assert_int_not_equal(message.header.serial, 0);
	return message;
}

struct control_room expect_room(struct fixture *fixture, uint64_t bytes)
{
	struct control_room message;

	expect_message(fixture, CONTROL_ROOM, &message, sizeof message, NULL, NULL);
	assert_int_equal(message.bytes, bytes);
	return message;
}

void expect_return(struct fixture *fixture, uint64_t device_bytes, uint64_t swap_bytes)
{
	struct control_return message;

	expect_message(fixture, CONTROL_RETURN, &message, sizeof message, NULL, NULL);
	assert_int_equal(message.header.serial, 0);
	assert_int_equal(message.device_bytes, device_bytes);
	assert_int_equal(
		message.swap_bytes[SWAP_MEMORY] + message.swap_bytes[SWAP_FILE], swap_bytes);
}

void say_charged(struct fixture *fixture, const struct control_header *request, int status,
	uint64_t device_bytes, uint64_t swap_bytes)
{
	struct control_charged reply = {
		.header = {sizeof reply, CONTROL_CHARGED, CONTROL_VERSION, request->serial, status},
		.device_bytes = device_bytes,
		.swap_bytes = {swap_bytes},
		.limit_bytes = TEST_LIMIT,
	};

	tell(fixture, &reply, NULL, 0);
}

void answer_allocate(struct fixture *fixture, const struct control_allocate *request, int status)
{
	say_charged(fixture, &request->header, status,
		status ? 0 : request->device_bytes + request->slack_bytes, 0);
	fixture_run(fixture);
}

void answer_room(
	struct fixture *fixture, const struct control_room *request, int status, uint64_t bytes)
{
	say_charged(fixture, &request->header, status, bytes, 0);
	fixture_run(fixture);
}

void drain(struct fixture *fixture)
{
	uint8_t bytes[1024];

	while (recv(fixture->gdevd, bytes, sizeof bytes, MSG_DONTWAIT) > 0)
		;
}

void grant(struct fixture *fixture, uint32_t resource)
{
	struct control_grant message = {
		.header = {sizeof message, CONTROL_GRANT, CONTROL_VERSION, 0, 0},
		.resource = resource,
		.quantum_ns = 1000000,
	};

	tell(fixture, &message, NULL, 0);
	fixture_run(fixture);
}

void take_back(struct fixture *fixture, uint32_t resource, enum worker_revoke word)
{
	struct control_grant message = {
		.header = {sizeof message, CONTROL_REVOKE, CONTROL_VERSION, 0, 0},
		.resource = resource,
	};

	__atomic_store_n(&fixture->core->page->revoke[resource], word, __ATOMIC_RELAXED);
	tell(fixture, &message, NULL, 0);
	fixture_run(fixture);
}

static struct control_grant expect_grant(struct fixture *fixture, uint16_t type, uint32_t resource)
{
	struct control_grant message;

	expect_message(fixture, type, &message, sizeof message, NULL, NULL);
	assert_int_equal(message.resource, resource);
	return message;
}

void expect_acquire(struct fixture *fixture, uint32_t resource)
{
	expect_grant(fixture, CONTROL_ACQUIRE, resource);
}

struct control_grant expect_release(struct fixture *fixture, uint32_t resource)
{
	return expect_grant(fixture, CONTROL_RELEASE, resource);
}

void acquire(struct fixture *fixture, uint32_t resource)
{
	expect_acquire(fixture, resource);
	grant(fixture, resource);
}

uint64_t post_first_launch(struct fixture *fixture, uint32_t timeline, uint32_t function)
{
	uint64_t value = post_launch(fixture, timeline, function, 0);

	fixture_run(fixture);
	acquire(fixture, RESOURCE_COMPUTE);
	return value;
}

uint32_t get_paid_function(struct fixture *fixture)
{
	struct control_allocate wish;

	post_module(fixture);
	expect_message(fixture, CONTROL_ALLOCATE, &wish, sizeof wish, NULL, NULL);
	answer_allocate(fixture, &wish, 0);
	return get_function(fixture);
}
