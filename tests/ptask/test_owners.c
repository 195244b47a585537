/* SPDX-License-Identifier: MIT
 *
 * A process that has opened a graph of another, whose owner means ill: what that says on its socket and in the memory that both
 * share is written by hand here. No device, and no gdevd.
 */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/clock.h"
#include "base/fd.h"
#include "lib/ptask/control.h"
#include "lib/ptask/remote.h"

#define MEMORY (64u << 10)

int __wrap_control_request(uint16_t type, struct control_graph *request,
	struct control_graph *answer, int *got, uint64_t deadline_ns);

int __real_control_request(uint16_t type, struct control_graph *request,
	struct control_graph *answer, int *got, uint64_t deadline_ns);

/* A member, whose owner is at the other end of the socket and writes the segment. */
static struct gdev_graph *open_remote(int *owner, int *bell)
{
	struct gdev_graph *graph = graph_create(&(struct gdev_graph_options){.name = "member"});
	struct remote *remote = calloc(1, sizeof *remote);
	int pair[2];

	assert_non_null(graph);
	assert_non_null(remote);
	assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair), 0);
	list_init(&remote->pool.free);
	pthread_mutex_init(&remote->asking, NULL);
	remote->socket = pair[0];
	*bell = bell_create(&remote->bell);
	assert_true(*bell >= 0);
	bell_ring(*bell);
	remote->poll = -1;
	remote->segment = mmap(NULL, sizeof *remote->segment, PROT_READ | PROT_WRITE,
		MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	assert_ptr_not_equal(remote->segment, MAP_FAILED);
	graph->remote = remote;
	*owner = pair[1];
	return graph;
}

/* A call with deadline 0 does not take the bell from a thread that waits. */
static void test_bell_of_another(void **state)
{
	int owner, bell;
	struct gdev_graph *graph = open_remote(&owner, &bell);
	struct remote *remote = graph->remote;

	for (int polling = 0; polling < 2; polling++) {
		pthread_mutex_lock(&graph->lock);
		bell_ring(bell);
		remote->polling = polling;
		assert_int_equal(remote_wait(graph, 0), -EAGAIN);
		assert_int_equal(bell_heard(remote->bell), polling);
		pthread_mutex_unlock(&graph->lock);
	}
	close(bell);
	close(owner);
	graph_free(graph);
}

/* The owner answers with no bytes, behind its memory, where each datablock has many: this process would read what is there. */
static void test_owner_gives_nothing(void **state)
{
	struct gdev_shape shape = {.stride = 4, .count = {MEMORY / 4}};
	int owner, bell;
	struct gdev_graph *graph = open_remote(&owner, &bell);
	struct remote *remote = graph->remote;
	struct gdev_channel *channel;

	pthread_mutex_lock(&graph->lock);
	assert_int_equal(remote_make_channel(graph, "out", &channel), 0);
	assert_int_equal(template_create(graph, NULL, &shape, &channel->tmpl), 0);
	channel->remote = calloc(1, sizeof *channel->remote);
	assert_non_null(channel->remote);
	channel->remote->wanted = remote->wanted = 1;
	remote->ends[remote->end_count++] = channel;
	remote->theirs_bytes = MEMORY;
	remote->segment->answers[0] =
		(struct graph_answer){.type = GRAPH_PULLED, .id = GRAPH_IDS, .offset = MEMORY};
	remote->segment->answers_tail = 1;
	remote_drain(graph);
	assert_int_equal(graph->error, -GDEV_E_PROTOCOL);
	assert_int_equal(channel->count, 0);
	pthread_mutex_unlock(&graph->lock);
	close(bell);
	close(owner);
	graph_free(graph);
}

/* ---- descriptors: who closes one may wait for as long as who sent it likes ---- */

#define FDS (GRAPH_REGIONS + 1)

static struct owner {
	int socket, bell;
	int given, read; /* the ends of a pipe; the first is sent */
	unsigned
		place; /* of it among the descriptors with which the process joins; FDS: behind them; more: it is not there */
	bool silent;
} owner;

/* Instead of gdevd: the owner has answered already. */
int __wrap_control_request(uint16_t type, struct control_graph *request,
	struct control_graph *answer, int *got, uint64_t deadline_ns)
{
	struct graph_message message = {.type = GRAPH_JOIN, .serial = 1};
	int pair[2], fds[FDS + 1];
	size_t count = owner.place == FDS ? FDS + 1 : FDS;

	assert_int_equal(
		socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, pair), 0);
	owner.socket = pair[0];
	*got = pair[1];
	for (unsigned i = 0; i < GRAPH_REGIONS; i++) {
		message.regions[i] = (struct graph_region){
			i, 0, 0, i == GRAPH_REGION_SEGMENT ? sizeof(struct graph_segment) : MEMORY};
		fds[i] = fd_shared_memory("test", message.regions[i].bytes);
		assert_true(fds[i] >= 0);
	}
	owner.bell = bell_create(&fds[GRAPH_REGIONS]);
	assert_true(owner.bell >= 0);
	fds[FDS] = -1;
	if (owner.place <= FDS) {
		fd_close_all(&fds[owner.place], 1);
		fds[owner.place] = dup(owner.given);
	}
	if (!owner.silent)
		assert_int_equal(fd_send(owner.socket, &message, sizeof message, fds, count), 0);
	fd_close_all(fds, FDS + 1);
	return dup(pair[1]); /* the connection to gdevd */
}

static int attach(unsigned place, struct gdev_graph **graph)
{
	int ends[2];

	assert_int_equal(pipe2(ends, O_NONBLOCK | O_CLOEXEC), 0);
	owner = (struct owner){.given = ends[1], .read = ends[0], .place = place};
	return gdev_graph_attach("ill", 0, graph);
}

static void let_go(void)
{
	close(owner.socket);
	close(owner.bell);
}

/* The process has closed what was sent, or not. */
static void require_open(bool open)
{
	char byte;

	close(owner.given);
	assert_int_equal(read(owner.read, &byte, 1), open ? -1 : 0);
	close(owner.read);
}

static void test_joins_with_files(void **state)
{
	struct gdev_graph *graph;

	for (unsigned place = 0; place <= FDS; place++) {
		assert_int_equal(attach(place, &graph), -GDEV_E_PROTOCOL);
		let_go();
		require_open(true);
	}
}

static void say(struct graph_message message, bool descriptor)
{
	assert_int_equal(
		fd_send(owner.socket, &message, sizeof message, &owner.given, descriptor), 0);
}

static void test_answers_with_descriptors(void **state)
{
	struct gdev_channel *channel;
	struct gdev_graph *graph;

	assert_int_equal(attach(FDS + 1, &graph), 0);
	say((struct graph_message){.type = GRAPH_FIND, .serial = 2, .status = -ENOENT}, true);
	assert_int_equal(gdev_channel_find(graph, "in", 0, &channel), -GDEV_E_PROTOCOL);
	gdev_graph_close(graph);
	let_go();
	require_open(true);
}

/* Descriptors that nobody has asked for. */
static void test_rings_with_descriptors(void **state)
{
	struct gdev_graph *graph;

	assert_int_equal(attach(FDS + 1, &graph), 0);
	assert_int_equal(fd_send(owner.bell, "", 1, &owner.given, 1), 0);
	gdev_graph_close(graph);
	let_go();
	require_open(true);
}

/* ---- answers ---- */

/* An answer that came before does not come again: the process would read such without end. */
static void test_answers_again(void **state)
{
	struct gdev_channel *channel;
	struct gdev_graph *graph;

	assert_int_equal(attach(FDS + 1, &graph), 0);
	say((struct graph_message){.type = GRAPH_FIND, .serial = 1}, false);
	say((struct graph_message){.type = GRAPH_FIND, .serial = 2, .status = -ENOENT}, false);
	assert_int_equal(gdev_channel_find(graph, "in", 0, &channel), -GDEV_E_PROTOCOL);
	gdev_graph_close(graph);
	let_go();
	require_open(false);
}

static void say_found_of(uint32_t serial, uint32_t end, uint32_t bytes)
{
	struct graph_message message = {.type = GRAPH_FIND, .serial = serial};

	message.find.end = end;
	message.find.capacity = 4;
	message.find.stride = bytes;
	message.find.count[0] = message.find.count[1] = message.find.count[2] = 1;
	message.find.bytes = bytes;
	say(message, false);
}

static void say_found(uint32_t serial, uint32_t end)
{
	say_found_of(serial, end, 4);
}

static void find_out(struct gdev_graph *graph, struct gdev_channel **channel)
{
	say_found(2, 0);
	assert_int_equal(gdev_channel_find(graph, "out", 0, channel), 0);
}

static void answer(struct gdev_graph *graph, struct graph_answer answer)
{
	struct graph_segment *segment = graph->remote->segment;

	segment->answers[segment->answers_tail % GRAPH_ANSWERS] = answer;
	segment->answers_tail++;
}

/* Nobody waits for ever for an owner that says nothing, also in calls that have no deadline. */
static void test_says_nothing(void **state)
{
	struct gdev_datablock *block;
	struct gdev_channel *channel;
	struct gdev_graph *graph;
	uint32_t value;

	assert_int_equal(attach(FDS + 1, &graph), 0);
	find_out(graph, &channel);
	graph->remote->answer_ns = 10000000;
	assert_int_equal(gdev_pull(channel, 0, &block), -EAGAIN);
	answer(graph, (struct graph_answer){GRAPH_PULLED, 0, GRAPH_IDS, 0, GRAPH_NOWHERE, 4});
	assert_int_equal(gdev_pull(channel, 0, &block), 0);
	assert_int_equal(gdev_datablock_read(block, 0, &value, 4), -ETIMEDOUT);
	answer(graph, (struct graph_answer){.type = GRAPH_BROUGHT, .id = GRAPH_IDS});
	assert_int_equal(gdev_datablock_read(block, 0, &value, 4), 0);
	gdev_datablock_put(block);
	graph->remote->segment->requests_head -= GRAPH_REQUESTS; /* no room */
	assert_int_equal(gdev_channel_end(channel), -ETIMEDOUT);
	gdev_graph_close(graph);
	let_go();
	require_open(false);
}

/* Who pulls one datablock after the other has asked for four times what the channel holds; of large ones for fewer. */
static void test_asks_ahead(void **state)
{
	static const struct {
		uint32_t bytes, ahead;
	} cases[] = {{4, 16}, {MEMORY / 16 / 12, 12}, {MEMORY / 2, 8}};
	struct gdev_datablock *block;
	struct gdev_channel *channel;
	struct gdev_graph *graph;

	for (unsigned i = 0; i < array_length(cases); i++) {
		assert_int_equal(attach(FDS + 1, &graph), 0);
		say_found_of(2, 0, cases[i].bytes);
		assert_int_equal(gdev_channel_find(graph, "out", 0, &channel), 0);
		assert_int_equal(gdev_pull(channel, 0, &block), -EAGAIN);
		assert_int_equal(graph->remote->segment->requests_tail, 1);
		answer(graph, (struct graph_answer){GRAPH_PULLED, 0, GRAPH_IDS, 0, GRAPH_NOWHERE,
				      cases[i].bytes});
		assert_int_equal(gdev_pull(channel, 0, &block), 0);
		assert_int_equal(graph->remote->segment->requests_tail, 1 + cases[i].ahead);
		gdev_datablock_put(block);
		gdev_graph_close(graph);
		let_go();
		require_open(false);
	}
}

/* What is asked ahead leaves something to ask for at each end that there may be. */
static void test_asks_at_each_end(void **state)
{
	struct gdev_channel *channels[GRAPH_ENDS_MAX];
	struct graph_segment *segment;
	struct gdev_datablock *block;
	struct gdev_graph *graph;

	assert_int_equal(attach(FDS + 1, &graph), 0);
	segment = graph->remote->segment;
	for (uint32_t i = 0; i < GRAPH_ENDS_MAX; i++) {
		say_found(2 + i, i);
		assert_int_equal(gdev_channel_find(graph, "out", 0, &channels[i]), 0);
		assert_int_equal(gdev_pull(channels[i], 0, &block), -EAGAIN);
		answer(graph,
			(struct graph_answer){GRAPH_PULLED, i, GRAPH_IDS, 0, GRAPH_NOWHERE, 4});
		assert_int_equal(gdev_pull(channels[i], 0, &block), 0);
		gdev_datablock_put(block);
		segment->requests_head = segment->requests_tail;
	}
	assert_in_range(graph->remote->wanted, GRAPH_IDS - GRAPH_ENDS_MAX, GRAPH_IDS);
	for (uint32_t i = 0; i < GRAPH_ENDS_MAX; i++)
		assert_int_equal(gdev_pull(channels[i], 0, &block), -EAGAIN);
	gdev_graph_close(graph);
	let_go();
	require_open(false);
}

/* ---- deadlines ---- */

static uint64_t soon(void)
{
	return clock_now_ns() + 10 * NS_PER_MS;
}

/* The deadline of a call counts, also where an owner that says nothing has longer to answer. */
static void test_keeps_deadlines(void **state)
{
	uint64_t began_ns = clock_now_ns();
	struct gdev_datablock *block;
	struct gdev_channel *channel;
	struct gdev_graph *graph;
	struct gdev_port *port;
	uint32_t value;

	assert_int_equal(attach(FDS + 1, &graph), 0);
	find_out(graph, &channel);
	assert_int_equal(gdev_pull(channel, 0, &block), -EAGAIN);
	answer(graph, (struct graph_answer){GRAPH_PULLED, 0, GRAPH_IDS, 0, GRAPH_NOWHERE, 4});
	assert_int_equal(gdev_pull_bytes(channel, &value, 4, 0, NULL), -EAGAIN);
	assert_int_equal(gdev_pull_bytes(channel, &value, 4, soon(), NULL), -ETIMEDOUT);
	answer(graph, (struct graph_answer){.type = GRAPH_BROUGHT, .id = GRAPH_IDS});
	assert_int_equal(gdev_pull_bytes(channel, &value, 4, soon(), NULL), 0);
	pthread_mutex_lock(&graph->remote->asking); /* as another thread's call that loads code */
	assert_int_equal(gdev_channel_find(graph, "in", soon(), &channel), -ETIMEDOUT);
	pthread_mutex_unlock(&graph->remote->asking);
	assert_int_equal(gdev_channel_find(graph, "in", soon(), &channel), -ETIMEDOUT);
	assert_int_equal(gdev_port_find(graph, "scale.in", soon(), &port), -ETIMEDOUT);
	gdev_graph_close(graph);
	let_go();
	require_open(false);
	owner = (struct owner){.place = FDS + 1, .silent = true};
	assert_int_equal(gdev_graph_attach("ill", soon(), &graph), -ETIMEDOUT);
	let_go();
	assert_true(clock_now_ns() - began_ns < 10 * NS_PER_S);
}

/* gdevd waits for an owner that does not take the socket. */
static void test_is_not_joined(void **state)
{
	int gdevd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0), got;
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	struct control_graph request = {.name = "ill"}, reply;
	char directory[] = "/tmp/gdev-owners-XXXXXX";
	uint64_t began_ns = clock_now_ns();

	assert_non_null(mkdtemp(directory));
	snprintf(address.sun_path, sizeof address.sun_path, "%s/control.sock", directory);
	assert_int_equal(bind(gdevd, (struct sockaddr *)&address, sizeof address), 0);
	assert_int_equal(listen(gdevd, 0), 0);
	setenv("GDEV_RUNTIME_DIR", directory, 1);
	assert_int_equal(__real_control_request(CONTROL_GRAPH_OPEN, &request, &reply, &got, soon()),
		-ETIMEDOUT);
	/* That one still stands in line, and there is no place for another. */
	assert_int_equal(__real_control_request(CONTROL_GRAPH_OPEN, &request, &reply, &got, soon()),
		-EAGAIN);
	assert_true(clock_now_ns() - began_ns < 10 * NS_PER_S);
	unlink(address.sun_path);
	rmdir(directory);
	close(gdevd);
}

/* Neither does a call wait for ever that has no deadline, and another call's answer before its own to wait for. */
static void test_waits_for_another(void **state)
{
	struct gdev_channel *channel;
	struct gdev_graph *graph;
	struct gdev_port *port;

	assert_int_equal(attach(FDS + 1, &graph), 0);
	graph->remote->answer_ns = 10 * NS_PER_MS;
	pthread_mutex_lock(&graph->remote->asking); /* as another thread's call that loads code */
	assert_int_equal(gdev_channel_find(graph, "in", 0, &channel), -ETIMEDOUT);
	assert_int_equal(gdev_port_find(graph, "scale.in", 0, &port), -ETIMEDOUT);
	pthread_mutex_unlock(&graph->remote->asking);
	gdev_graph_close(graph);
	let_go();
	require_open(false);
}

/* An end that the owner has opened for such a call, and that this process cannot have, ends all. */
static void test_answers_late_and_wrongly(void **state)
{
	struct gdev_channel *channel;
	struct gdev_graph *graph;

	assert_int_equal(attach(FDS + 1, &graph), 0);
	assert_int_equal(gdev_channel_find(graph, "out", soon(), &channel), -ETIMEDOUT);
	say_found(2, 1);
	assert_int_equal(gdev_channel_find(graph, "in", soon(), &channel), -GDEV_E_PROTOCOL);
	gdev_graph_close(graph);
	let_go();
	require_open(false);
}

/* The end that the owner opens for a call which gave up is that of the next call that asks for it. */
static void test_answers_late(void **state)
{
	struct gdev_channel *channel, *again;
	struct gdev_graph *graph;

	assert_int_equal(attach(FDS + 1, &graph), 0);
	assert_int_equal(gdev_channel_find(graph, "out", soon(), &channel), -ETIMEDOUT);
	assert_int_equal(gdev_channel_find(graph, "in", soon(), &channel), -ETIMEDOUT);
	say_found(2, 0);
	say((struct graph_message){.type = GRAPH_FIND, .serial = 3, .status = -ENOENT}, false);
	assert_int_equal(gdev_channel_find(graph, "in", 0, &channel), -ENOENT);
	assert_int_equal(gdev_channel_find(graph, "out", 0, &channel), 0);
	assert_int_equal(channel->remote->index, 0);
	say_found(4, 1);
	assert_int_equal(gdev_channel_find(graph, "out", 0, &again), 0);
	assert_ptr_not_equal(again, channel);
	assert_int_equal(again->remote->index, 1);
	assert_int_equal(gdev_channel_find(graph, "in", soon(), &channel), -ETIMEDOUT);
	say((struct graph_message){.type = GRAPH_FIND, .serial = 4, .status = -ENOENT}, false);
	assert_int_equal(gdev_channel_find(graph, "in", 0, &channel), -GDEV_E_PROTOCOL);
	gdev_graph_close(graph);
	let_go();
	require_open(false);
}

static void *read_block(void *block)
{
	uint32_t value;

	return (void *)(intptr_t)gdev_datablock_read(block, 0, &value, 4);
}

/* One of two threads that wait for a datablock's contents has found no room to ask for them until it gave up; the other asks. */
static void test_two_wait(void **state)
{
	struct gdev_channel *channel;
	struct gdev_datablock *block;
	struct graph_segment *segment;
	struct gdev_graph *graph;
	pthread_t first, second;
	uint64_t limit_ns;
	uint32_t asked;
	void *error;

	assert_int_equal(attach(FDS + 1, &graph), 0);
	segment = graph->remote->segment;
	find_out(graph, &channel);
	assert_int_equal(gdev_pull(channel, 0, &block), -EAGAIN);
	answer(graph, (struct graph_answer){GRAPH_PULLED, 0, GRAPH_IDS, 0, GRAPH_NOWHERE, 4});
	assert_int_equal(gdev_pull(channel, 0, &block), 0);
	segment->requests_head -= GRAPH_REQUESTS; /* no room */
	graph->remote->answer_ns = 200 * NS_PER_MS;
	assert_int_equal(pthread_create(&first, NULL, read_block, block), 0);
	while (!__atomic_load_n(&block->brought, __ATOMIC_RELAXED))
		sched_yield();
	graph->remote->answer_ns = 150 * NS_PER_S;
	assert_int_equal(pthread_create(&second, NULL, read_block, block), 0);
	pthread_join(first, &error);
	assert_int_equal((intptr_t)error, -ETIMEDOUT);
	asked = segment->requests_tail;
	segment->requests_head += GRAPH_REQUESTS;
	__atomic_fetch_add(&segment->changes, 1, __ATOMIC_SEQ_CST);
	bell_ring(owner.bell);
	limit_ns = clock_now_ns() + 100 * NS_PER_S;
	while (__atomic_load_n(&segment->requests_tail, __ATOMIC_ACQUIRE) == asked)
		assert_true(clock_now_ns() < limit_ns);
	answer(graph, (struct graph_answer){.type = GRAPH_BROUGHT, .id = GRAPH_IDS});
	__atomic_fetch_add(&segment->changes, 1, __ATOMIC_SEQ_CST);
	bell_ring(owner.bell);
	pthread_join(second, &error);
	assert_int_equal((intptr_t)error, 0);
	gdev_datablock_put(block);
	gdev_graph_close(graph);
	let_go();
	require_open(false);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_bell_of_another),
		cmocka_unit_test(test_owner_gives_nothing),
		cmocka_unit_test(test_joins_with_files),
		cmocka_unit_test(test_answers_with_descriptors),
		cmocka_unit_test(test_rings_with_descriptors),
		cmocka_unit_test(test_answers_again),
		cmocka_unit_test(test_says_nothing),
		cmocka_unit_test(test_asks_ahead),
		cmocka_unit_test(test_asks_at_each_end),
		cmocka_unit_test(test_keeps_deadlines),
		cmocka_unit_test(test_is_not_joined),
		cmocka_unit_test(test_waits_for_another),
		cmocka_unit_test(test_answers_late_and_wrongly),
		cmocka_unit_test(test_answers_late),
		cmocka_unit_test(test_two_wait),
	};

	alarm(290); /* what goes wrong may do so without end */
	return cmocka_run_group_tests(tests, NULL, NULL);
}
