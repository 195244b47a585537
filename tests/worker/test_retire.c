/* SPDX-License-Identifier: MIT
 *
 * The worker with threads of its own, whose context is given back and made again all the time while a client posts and
 * waits. The device looks whether anything reaches it without one.
 */
#include <poll.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "harness.h"

#define CONTEXT (32 * MIB)
#define ROUNDS 300

enum { A = 40 };

static const struct device_ops *null_ops;
static bool away;              /* atomic: there is no context */
static unsigned strays, given; /* atomic: commands that came then; how often it was given back */
static bool ending;            /* atomic */

static uint64_t overhead_bytes(struct device *device)
{
	return CONTEXT;
}

static uint32_t keeps(struct device_space *space)
{
	return KEPT_BY_NOTHING;
}

static int retire(struct device_space *space)
{
	__atomic_store_n(&away, true, __ATOMIC_SEQ_CST);
	__atomic_add_fetch(&given, 1, __ATOMIC_RELAXED);
	usleep(200);
	return 0;
}

static int revive(struct device_space *space)
{
	usleep(200);
	__atomic_store_n(&away, false, __ATOMIC_SEQ_CST);
	return 0;
}

static void look(void)
{
	if (__atomic_load_n(&away, __ATOMIC_SEQ_CST))
		__atomic_add_fetch(&strays, 1, __ATOMIC_RELAXED);
}

static void submit(struct device_queue *queue, struct device_command *command)
{
	look();
	null_ops->submit(queue, command);
}

static int chunk_create(struct device *device, uint64_t bytes, struct device_chunk **chunk)
{
	look();
	return null_ops->chunk_create(device, bytes, chunk);
}

/* ---- gdevd ---- */

static void say(int fd, void *message, uint16_t type, size_t length, uint32_t serial)
{
	struct control_header *header = message;

	*header = (struct control_header){
		.length = (uint32_t)length,
		.type = type,
		.version = CONTROL_VERSION,
		.serial = serial,
	};
	assert_int_equal(send(fd, message, length, MSG_NOSIGNAL), length);
}

static void order_again(int fd)
{
	struct control_evict order = {
		.bytes = CONTEXT + 64 * MIB, .swapped = 64 * MIB, .flags = EVICT_RETIRE};

	usleep((unsigned)rand() % 2000);
	say(fd, &order, CONTROL_EVICT, sizeof order, 9);
}

static void answer(int fd, const struct control_header *header)
{
	const struct control_allocate *allocate = (const void *)header;
	const struct control_room *room = (const void *)header;
	struct control_charged charged = {.limit_bytes = TEST_LIMIT};
	struct control_grant grant = *(const struct control_grant *)header;

	switch (header->type) {
	case CONTROL_ALLOCATE:
	case CONTROL_ROOM:
		charged.device_bytes =
			header->type == CONTROL_ROOM ? room->bytes : allocate->device_bytes;
		say(fd, &charged, CONTROL_CHARGED, sizeof charged, header->serial);
		break;
	case CONTROL_ACQUIRE:
		grant.quantum_ns = 1000000;
		say(fd, &grant, CONTROL_GRANT, sizeof grant, 0);
		break;
	case CONTROL_EVICTED:
		order_again(fd);
		break;
	default:
		break;
	}
}

static void *gdevd(void *argument)
{
	const struct fixture *fixture = argument;
	_Alignas(8) uint8_t bytes[1024];

	order_again(fixture->gdevd);
	while (!__atomic_load_n(&ending, __ATOMIC_RELAXED)) {
		struct pollfd socket = {.fd = fixture->gdevd, .events = POLLIN};
		if (poll(&socket, 1, 10) == 1 && recv(fixture->gdevd, bytes, sizeof bytes, 0) > 0)
			answer(fixture->gdevd, (const void *)bytes);
	}
	return NULL;
}

/* ---- the client ---- */

static void wait_for(struct fixture *fixture, uint32_t timeline, uint64_t value)
{
	for (int i = 0; i < PATIENCE_MS * 10 && completed(fixture, timeline) < value; i++)
		usleep(100);
	assert_true(completed(fixture, timeline) >= value);
}

static void ask_and_wait(struct fixture *fixture, void *record, size_t size)
{
	wait_for(fixture, 0, post_raw(fixture, record, size, NULL, 0));
	assert_int_equal(fixture->segment->replies[0].status, 0);
}

/* The timeline that orders the two is mapped twice in this process, which the sanitizer cannot know. */
__attribute__((no_sanitize("thread"))) static uint64_t staged_word(void)
{
	return *(volatile uint64_t *)TEST_BASE;
}

/* A word is written, and read back after any pause; now and then memory comes and goes. */
static void one_round(struct fixture *fixture, uint64_t round)
{
	uint64_t at = TEST_DEVICE + round % 4 * 2 * MIB + 8 * (round % 1000);
	struct record_memory more = {
		{.opcode = RECORD_MEMORY_ALLOC}, TEST_DEVICE + 64 * MIB, 2 * MIB};

	post_write(fixture, A, at, &round, sizeof round, 0);
	if (round % 3) /* now and then so long that it comes to its end */
		usleep((unsigned)rand() % (round % 10 ? 3000 : 60000));
	if (round % 7 == 0) {
		ask_and_wait(fixture, &more, sizeof more);
		more = (struct record_memory){{.opcode = RECORD_MEMORY_FREE}, more.address, 0};
		ask_and_wait(fixture, &more, sizeof more);
	}
	wait_for(fixture, A, post_copy(fixture, A, TEST_BASE, at, sizeof round));
	assert_int_equal(staged_word(), round);
}

/* What the last order began is over: a core that goes does not wait for it. */
static bool is_over(struct core *core)
{
	bool over;

	core_lock(core);
	over = !core->residency.evicting && !core->grants.in_flight;
	core_unlock(core);
	return over;
}

static void nothing_reaches_a_device_without_a_context(void **state)
{
	struct record_stream stream = {{.opcode = RECORD_STREAM_CREATE}, A, 0};
	struct record_memory object = {{.opcode = RECORD_MEMORY_ALLOC}, TEST_DEVICE, 8 * MIB};
	struct fixture fixture;
	struct device_ops ops;
	pthread_t thread;

	null_ops = device_ops_find("null");
	ops = *null_ops;
	ops.overhead_bytes = overhead_bytes;
	ops.keeps = keeps;
	ops.retire = retire;
	ops.revive = revive;
	ops.submit = submit;
	ops.chunk_create = chunk_create;
	fixture_start_ops(&fixture, &ops, true, 6);
	assert_int_equal(pthread_create(&thread, NULL, gdevd, &fixture), 0);
	ask_and_wait(&fixture, &stream, sizeof stream);
	ask_and_wait(&fixture, &object, sizeof object);
	for (uint64_t round = 0; round < ROUNDS; round++)
		one_round(&fixture, round);
	/* On a busy machine no pause may have been long enough yet. */
	for (int i = 0; i < PATIENCE_MS && !__atomic_load_n(&given, __ATOMIC_RELAXED); i++)
		usleep(1000);
	one_round(&fixture, ROUNDS);
	assert_int_equal(session_error(&fixture), 0);
	assert_int_equal(__atomic_load_n(&strays, __ATOMIC_RELAXED), 0);
	assert_true(__atomic_load_n(&given, __ATOMIC_RELAXED) > 0);
	__atomic_store_n(&ending, true, __ATOMIC_RELAXED);
	pthread_join(thread, NULL);
	while (!is_over(fixture.core))
		usleep(1000);
	fixture_stop(&fixture);
}

/* ---- a suspended session ---- */

static bool inside, let_go; /* atomic */
static bool given_inside;   /* atomic: it was given back meanwhile */

static int queue_create(struct device_space *space, int priority, struct device_queue **queue)
{
	__atomic_store_n(&inside, true, __ATOMIC_SEQ_CST);
	for (int i = 0; i < PATIENCE_MS && !__atomic_load_n(&let_go, __ATOMIC_SEQ_CST); i++)
		usleep(1000);
	__atomic_store_n(&inside, false, __ATOMIC_SEQ_CST);
	return null_ops->queue_create(space, priority, queue);
}

static int retire_outside(struct device_space *space)
{
	if (__atomic_load_n(&inside, __ATOMIC_SEQ_CST))
		__atomic_store_n(&given_inside, true, __ATOMIC_SEQ_CST);
	return 0;
}

static struct control_evicted wait_evicted(struct fixture *fixture)
{
	struct control_evicted message = {0};
	_Alignas(8) uint8_t bytes[1024];

	do {
		struct pollfd socket = {.fd = fixture->gdevd, .events = POLLIN};
		assert_int_equal(poll(&socket, 1, PATIENCE_MS), 1);
		assert_true(recv(fixture->gdevd, bytes, sizeof bytes, 0) > 0);
		memcpy(&message, bytes, sizeof message);
	} while (message.header.type != CONTROL_EVICTED);
	return message;
}

/* It is suspended while the worker executes a record. */
static void a_record_that_is_executed_keeps_a_suspended_session_s_context(void **state)
{
	struct record_stream stream = {{.opcode = RECORD_STREAM_CREATE}, A, 0};
	struct control_evict order = {.bytes = CONTEXT, .flags = EVICT_SUSPEND | EVICT_RETIRE};
	struct fixture fixture;
	struct device_ops ops;
	uint64_t value;

	null_ops = device_ops_find("null");
	ops = *null_ops;
	ops.overhead_bytes = overhead_bytes;
	ops.keeps = keeps;
	ops.retire = retire_outside;
	ops.revive = revive;
	ops.queue_create = queue_create;
	fixture_start_ops(&fixture, &ops, true, 6);
	value = post(&fixture, &stream);
	for (int i = 0; i < PATIENCE_MS && !__atomic_load_n(&inside, __ATOMIC_SEQ_CST); i++)
		usleep(1000);
	say(fixture.gdevd, &order, CONTROL_EVICT, sizeof order, 9);
	assert_int_equal(wait_evicted(&fixture).retired, 0);
	assert_false(__atomic_load_n(&given_inside, __ATOMIC_SEQ_CST));
	__atomic_store_n(&let_go, true, __ATOMIC_SEQ_CST);
	wait_for(&fixture, 0, value);
	say(fixture.gdevd, &order, CONTROL_EVICT, sizeof order, 10);
	assert_int_equal(wait_evicted(&fixture).retired, 1);
	fixture_stop(&fixture);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(nothing_reaches_a_device_without_a_context),
		cmocka_unit_test(a_record_that_is_executed_keeps_a_suspended_session_s_context),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
