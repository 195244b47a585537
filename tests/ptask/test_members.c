/* SPDX-License-Identifier: MIT
 *
 * The owner of a named graph, and a member that is another user's and means ill: what it says on its socket and in the memory
 * that both share is written by hand here. The graph is a callback between two channels, and needs no device and no gdevd.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/fd.h"
#include "lib/ptask/members.h"
#include "lib/ptask/remote.h"
#include "proto/control.h"

#define STRANGER 54321
#define MEMORY (64u << 10) /* of the member; a datablock is as large */
#define CAPACITY 4

enum { FDS = GRAPH_REGIONS + 1, IN = 0, OUT = 1 };

static struct world {
	int bell; /* the member's */
	struct gdev_graph *graph;
	struct gdev_template *tmpl;
	struct gdev_channel *in, *out;
	void *made;             /* by the callback, the last time */
	atomic_bool hold, held; /* it does not return; it is there */
	atomic_bool once;       /* it returns, for once */
	struct member *member;
	int socket;
	struct graph_segment *segment;
} world;

static int copy(void *argument, const struct gdev_view *inputs, struct gdev_view *outputs)
{
	memcpy(outputs[0].data, inputs[0].data, inputs[0].bytes);
	world.made = outputs[0].data;
	while (world.hold && !atomic_exchange(&world.once, false)) {
		world.held = true;
		usleep(1000);
	}
	return 0;
}

static void publish_by_hand(struct gdev_graph *graph, unsigned mode)
{
	struct publication *publication = calloc(1, sizeof *publication);

	assert_non_null(publication);
	publication->doors = epoll_create1(EPOLL_CLOEXEC);
	publication->gdevd = (struct door){DOOR_GDEVD, -1, NULL};
	publication->again = (struct door){DOOR_AGAIN, -1, NULL};
	publication->user = geteuid();
	publication->member_bytes = MEMORY;
	list_init(&publication->members);
	graph->publication = publication;
	graph->mode = mode;
}

static void build_graph(unsigned mode)
{
	struct gdev_graph_options options = {.name = "ill", .manual = true};
	struct gdev_shape shape = {.stride = 4, .count = {MEMORY / 4}};
	struct gdev_channel_options in = {.name = "in", .capacity = CAPACITY},
				    out = {.name = "out", .capacity = CAPACITY};
	struct gdev_port_options from = {.kind = GDEV_PORT_INPUT}, to = {.kind = GDEV_PORT_OUTPUT};
	struct gdev_port *ports[2];
	struct gdev_ptask *ptask;

	world.graph = graph_create(&options);
	assert_non_null(world.graph);
	publish_by_hand(world.graph, mode);
	assert_int_equal(gdev_template_open(world.graph, NULL, &shape, &world.tmpl), 0);
	from.tmpl = to.tmpl = world.tmpl;
	assert_int_equal(gdev_ptask_open_host(world.graph, "copy", copy, NULL, &ptask), 0);
	assert_int_equal(gdev_port_open(ptask, &from, &ports[0]), 0);
	assert_int_equal(gdev_port_open(ptask, &to, &ports[1]), 0);
	assert_int_equal(gdev_channel_open(world.graph, NULL, ports[0], &in, &world.in), 0);
	assert_int_equal(gdev_channel_open(world.graph, ports[1], NULL, &out, &world.out), 0);
}

static void open_graph(unsigned mode)
{
	build_graph(mode);
	assert_int_equal(gdev_graph_run(world.graph), 0);
}

static void advance(void)
{
	assert_int_equal(gdev_graph_advance(world.graph), 0);
}

/* The member says something, and hears the answer. */
static ssize_t talk(struct graph_message *message, int *fds, size_t *count)
{
	static union {
		struct graph_message message;
		struct graph_look look;
		struct graph_built built;
	} answer;
	ssize_t length;

	assert_int_equal(fd_send(world.socket, message, sizeof *message, NULL, 0), 0);
	advance();
	length = fd_receive(world.socket, &answer, sizeof answer, fds, count);
	*message = answer.message;
	return length;
}

static void come(uint32_t uid)
{
	int pair[2];

	assert_int_equal(
		socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, pair), 0);
	pthread_mutex_lock(&world.graph->lock);
	member_create(world.graph, pair[0], uid, 1, GRAPH_CLASS_OTHERS);
	pthread_mutex_unlock(&world.graph->lock);
	world.member = list_first(&world.graph->publication->members, struct member, link);
	world.socket = pair[1];
}

static void join_as(uint32_t uid)
{
	struct graph_message message = {.type = GRAPH_JOIN, .version = GRAPH_VERSION};
	int fds[FDS];
	size_t count = FDS;

	come(uid);
	assert_true(talk(&message, fds, &count) > 0);
	assert_int_equal(message.status, 0);
	world.segment = mmap(NULL, sizeof *world.segment, PROT_READ | PROT_WRITE, MAP_SHARED,
		fds[GRAPH_REGION_SEGMENT], 0);
	assert_ptr_not_equal(world.segment, MAP_FAILED);
	world.bell = fds[GRAPH_REGIONS];
	fd_close_all(fds, GRAPH_REGIONS);
}

static void find_end(struct graph_message message)
{
	size_t none = 0;

	message.type = GRAPH_FIND;
	assert_true(talk(&message, NULL, &none) > 0);
	assert_int_equal(message.status, 0);
}

static void join(void)
{
	join_as(STRANGER);
	find_end((struct graph_message){.find.name = "in"});
	find_end((struct graph_message){.find.name = "out"});
}

static void put_request(struct graph_request request)
{
	uint32_t tail = world.segment->requests_tail;

	world.segment->requests[tail % GRAPH_REQUESTS] = request;
	__atomic_store_n(&world.segment->requests_tail, tail + 1, __ATOMIC_RELEASE);
}

static void ask(struct graph_request request)
{
	put_request(request);
	advance();
}

static void put_give(uint32_t id)
{
	put_request((struct graph_request){
		.type = GRAPH_PUSH, .flags = GRAPH_GIVES, .end = IN, .id = id, .bytes = MEMORY});
}

static void give(uint32_t id)
{
	put_give(id);
	advance();
}

static bool is_left(void)
{
	char byte;

	return recv(world.socket, &byte, 1, 0) == 0;
}

static int teardown(void **state)
{
	if (world.socket >= 0)
		close(world.socket);
	if (world.segment)
		munmap(world.segment, sizeof *world.segment);
	if (world.bell >= 0)
		close(world.bell);
	gdev_graph_terminate(world.graph);
	publish_stop(
		world.graph); /* as gdev_graph_close() does, after which nothing may be left that keeps the graph */
	assert_true(list_empty(&world.graph->blocks));
	gdev_graph_close(world.graph);
	world = (struct world){.socket = -1, .bell = -1};
	return 0;
}

/* ---- what it says ---- */

/* The owner rings, and hears. */
static void use_bell(void)
{
	__atomic_store_n(&world.segment->waiting, 1, __ATOMIC_SEQ_CST);
	give(0); /* it has come into the channel: the member is told */
	assert_int_equal(world.segment->ends[IN].taken, 1);
	assert_false(world.member->left);
}

static void fill(int bell)
{
	static const char rings[4096];

	while (send(bell, rings, sizeof rings, MSG_DONTWAIT) > 0)
		;
	assert_int_equal(errno, EAGAIN);
}

/* The bell is full both ways, and the member's end is one that waits. */
static void test_bell_full(void **state)
{
	open_graph(0666);
	join();
	fill(world.bell);
	fill(world.member->bell.fd);
	assert_int_equal(fcntl(world.bell, F_SETFL, 0), 0);
	use_bell();
}

static void *write_slowly(void *page)
{
	assert_int_equal(write(world.bell, page, 1), 1);
	return NULL;
}

/* The member rings with memory that does not come. */
static void test_bell_rung_slowly(void **state)
{
	struct uffdio_api api = {.api = UFFD_API};
	struct uffdio_register faults = {.mode = UFFDIO_REGISTER_MODE_MISSING};
	int fd = (int)syscall(SYS_userfaultfd, O_CLOEXEC);
	struct pollfd fault = {fd, POLLIN, 0};
	size_t bytes = (size_t)getpagesize();
	pthread_t writer;
	void *page;

	open_graph(0666);
	if (fd < 0 || ioctl(fd, UFFDIO_API, &api)) /* it takes rights */
		skip();
	join();
	page = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	assert_ptr_not_equal(page, MAP_FAILED);
	faults.range = (struct uffdio_range){(uintptr_t)page, bytes};
	assert_int_equal(ioctl(fd, UFFDIO_REGISTER, &faults), 0);
	assert_int_equal(pthread_create(&writer, NULL, write_slowly, page), 0);
	assert_int_equal(poll(&fault, 1, -1), 1);
	use_bell();
	close(fd); /* the memory comes */
	pthread_join(writer, NULL);
	munmap(page, bytes);
}

static void *advance_there(void *argument)
{
	advance();
	return NULL;
}

/* One thread of the program is in a callback, for which it does not have the lock. Another one does not wait for it. */
static void test_two_threads(void **state)
{
	pthread_t other;

	open_graph(0666);
	join();
	world.hold = true;
	put_give(0);
	assert_int_equal(pthread_create(&other, NULL, advance_there, NULL), 0);
	while (!world.held)
		usleep(1000);
	ask((struct graph_request){.type = GRAPH_PUSH, .end = IN, .id = 0});
	assert_int_equal(world.segment->ends[IN].taken, 1);
	world.hold = false;
	pthread_join(other, NULL);
	assert_int_equal(world.segment->ends[IN].taken, 2);
}

static bool rang(int bell)
{
	char rings[16];

	return recv(bell, rings, sizeof rings, MSG_DONTWAIT) > 0;
}

/* Callbacks of which each takes long follow on each other: the member hears of each datablock, though it has asked for all. */
static void test_told_between_callbacks(void **state)
{
	pthread_t other;

	open_graph(0666);
	join();
	__atomic_store_n(&world.segment->waiting, 1, __ATOMIC_SEQ_CST);
	put_request((struct graph_request){.type = GRAPH_PULL, .end = OUT});
	put_request((struct graph_request){.type = GRAPH_PULL, .end = OUT});
	put_give(0);
	put_request((struct graph_request){.type = GRAPH_PUSH, .end = IN, .id = 0});
	world.hold = true;
	assert_int_equal(pthread_create(&other, NULL, advance_there, NULL), 0);
	while (!world.held)
		usleep(1000);
	rang(world.bell);
	__atomic_store_n(&world.segment->waiting, 2, __ATOMIC_SEQ_CST);
	world.once = true;
	while (world.once)
		usleep(1000);
	world.held = false; /* the first has returned; when the second is there: */
	while (!world.held)
		usleep(1000);
	assert_true(world.segment->answers_tail > 0);
	assert_true(rang(world.bell));
	world.hold = false;
	pthread_join(other, NULL);
}

/* Who has closed the bell is gone: nobody is woken by it again and again. */
static void test_bell_closed(void **state)
{
	open_graph(0606);
	join();
	close(world.bell);
	world.bell = -1;
	advance();
	assert_true(is_left());
}

/* Who may not look gets the refusal and nothing behind it, however much was asked for. */
static void test_refused_look(void **state)
{
	struct graph_message message = {.type = GRAPH_LOOK, .look.count = GRAPH_ITEMS_MAX};
	size_t none = 0;

	open_graph(0602);
	come(STRANGER);
	assert_int_equal(talk(&message, NULL, &none), offsetof(struct graph_look, items));
	assert_int_equal(message.status, -EACCES);
}

/* Its memory given again and again, of which the owner would have a copy for each time. */
static void test_gives_too_much(void **state)
{
	open_graph(0606);
	join();
	for (unsigned i = 0; i < 2 * CAPACITY + 2; i++) /* it flows until nobody pulls */
		if (!is_left())
			give(i);
	assert_true(is_left());
}

/* The owner closes no descriptor that a stranger sends: that could take as long as that likes. */
static void send_descriptor(int *socket)
{
	struct graph_message message = {.type = GRAPH_LOOK};
	int ends[2];
	char byte;

	open_graph(0606);
	join();
	assert_int_equal(pipe2(ends, O_NONBLOCK), 0);
	assert_int_equal(fd_send(*socket, &message, sizeof message, &ends[1], 1), 0);
	close(ends[1]);
	advance();
	assert_true(world.member->left);
	close(*socket);
	*socket = -1;
	advance();
	assert_int_equal(read(ends[0], &byte, 1), -1); /* it is still open */
	assert_null(world.member->theirs);             /* nothing else of it stays */
	close(ends[0]);
}

static void test_sends_descriptors(void **state)
{
	send_descriptor(&world.socket);
}

static void test_rings_with_descriptors(void **state)
{
	send_descriptor(&world.bell);
}

/* ---- what it builds ---- */

static ssize_t build(struct graph_build asked, int *status)
{
	struct graph_message message = {.type = GRAPH_BUILD, .build = asked};
	size_t none = 0;
	ssize_t length = talk(&message, NULL, &none);

	*status = message.status;
	return length;
}

/* Ids of nothing, memory that is not there, a part that nobody can open: the member is left, and the graph is as it was. */
static void test_builds_wrongly(void **state)
{
	static const struct graph_build wrong[] = {
		{.what = 0},
		{.what = 99},
		{.what = GRAPH_BUILD_MODULE, .offset = MEMORY, .bytes = 1},
		{.what = GRAPH_BUILD_MODULE, .offset = UINT64_MAX, .bytes = 2},
		{.what = GRAPH_BUILD_MODULE, .bytes = GRAPH_IMAGE_MAX + 1},
		{.what = GRAPH_BUILD_PTASK, .module = 1}, /* a template */
		{.what = GRAPH_BUILD_PTASK, .module = UINT32_MAX},
		{.what = GRAPH_BUILD_ARGUMENT, .ptask = 2}, /* a port */
		{.what = GRAPH_BUILD_GEOMETRY, .ptask = 7},
		{.what = GRAPH_BUILD_PORT, .ptask = 1},
		{.what = GRAPH_BUILD_COUNT, .port = 2}, /* the owner's */
		{.what = GRAPH_BUILD_CHANNEL, .to = 3},
		{.what = GRAPH_BUILD_CHANNEL, .to = 2, .tmpl = 2},
		{.what = GRAPH_BUILD_PRIORITY, .ptask = 2},
		{.what = GRAPH_BUILD_QUERY, .ptask = 0},
	};
	int status;

	build_graph(0606);
	for (size_t i = 0; i < array_length(wrong); i++) {
		join_as(geteuid());
		assert_true(build((struct graph_build){.what = GRAPH_BUILD_TEMPLATE,
					  .stride = 4,
					  .count = {1}},
				    &status) > 0 &&
			    !status);
		assert_true(
			build((struct graph_build){.what = GRAPH_BUILD_FIND, .name = "copy.input"},
				&status) > 0 &&
			!status);
		assert_int_equal(build(wrong[i], &status), 0);
		advance();
		assert_true(list_empty(&world.graph->publication->members));
		munmap(world.segment, sizeof *world.segment);
		close(world.socket);
	}
	world.segment = NULL;
	world.socket = -1;
	assert_int_equal(gdev_graph_run(world.graph), 0);
}

/* A member that has not joined has no memory. */
static void test_builds_before_it_joins(void **state)
{
	int status;

	build_graph(0606);
	come(geteuid());
	assert_int_equal(
		build((struct graph_build){.what = GRAPH_BUILD_MODULE, .bytes = 1}, &status), 0);
}

static void leave(void)
{
	munmap(world.segment, sizeof *world.segment);
	close(world.socket);
	advance();
	world.segment = NULL;
	world.socket = -1;
}

/* Who takes objects to the last one has them again when the member has gone. */
static void test_builds_too_much(void **state)
{
	const struct graph_build one = {.what = GRAPH_BUILD_FIND, .name = "copy.input"};
	int status;

	build_graph(0606);
	for (unsigned turn = 0; turn < 10; turn++) {
		join_as(geteuid());
		for (unsigned i = 0; i < GRAPH_OBJECTS_MAX; i++)
			assert_true(build(one, &status) > 0 && !status);
		assert_true(build(one, &status) > 0);
		assert_int_equal(status, -EDQUOT);
		leave();
		assert_int_equal(world.graph->publication->objects[BY_USER], 0);
	}
}

/* Other users' parts stay, too; all of them together leave room for those of the owner's user. */
static void test_strangers_build_too_much(void **state)
{
	const struct graph_build one = {
		.what = GRAPH_BUILD_TEMPLATE, .stride = 4, .count = {1, 1, 1}};
	unsigned opened = 0;
	int status;

	build_graph(0606);
	for (unsigned turn = 0; turn < 20; turn++) {
		join_as(STRANGER);
		while (build(one, &status) > 0 && !status)
			opened++;
		assert_int_equal(status, -EDQUOT);
		assert_true(build((struct graph_build){.what = GRAPH_BUILD_COMPLETE}, &status) > 0);
		assert_int_equal(status, 0);
		leave();
	}
	assert_int_equal(opened, 2 * GRAPH_OBJECTS_MAX);
	join_as(geteuid());
	assert_true(build(one, &status) > 0);
	assert_int_equal(status, 0);
}

static uint32_t build_id(struct graph_build asked)
{
	struct graph_message message = {.type = GRAPH_BUILD, .build = asked};
	size_t none = 0;

	assert_true(talk(&message, NULL, &none) > 0);
	assert_int_equal(message.status, 0);
	return message.build.id;
}

/* What a stranger has given comes back to it at a port of its own part, and it pushes that on to where this process reads. */
static void test_passes_on_what_it_gave(void **state)
{
	enum { FAR, BACK, ON };
	struct gdev_channel_options far = {.name = "far"};
	struct gdev_channel *channel;
	struct gdev_port *port;
	struct graph_build input = {.what = GRAPH_BUILD_PORT, .name = "input"};

	build_graph(0606);
	join_as(STRANGER);
	input.tmpl = build_id((struct graph_build){
		.what = GRAPH_BUILD_TEMPLATE, .stride = 4, .count = {MEMORY / 4, 1, 1}});
	input.ptask = build_id((struct graph_build){.what = GRAPH_BUILD_PTASK, .name = "mine"});
	input.port = build_id(input);
	build_id((struct graph_build){.what = GRAPH_BUILD_COMPLETE});
	assert_int_equal(gdev_port_find(world.graph, "mine.input", 0, &port), 0);
	assert_int_equal(gdev_channel_open(world.graph, NULL, port, &far, &channel), 0);
	assert_int_equal(gdev_graph_run(world.graph), 0);
	find_end((struct graph_message){.find.name = "far"});
	find_end((struct graph_message){.find.object = input.port});
	find_end((struct graph_message){.find.name = "in"});
	ask((struct graph_request){
		.type = GRAPH_PUSH, .flags = GRAPH_GIVES, .end = FAR, .bytes = MEMORY});
	ask((struct graph_request){.type = GRAPH_PULL, .end = BACK});
	assert_non_null(world.member->known[GRAPH_IDS].block);
	assert_true(world.member->known[GRAPH_IDS].block->wrapped);
	ask((struct graph_request){.type = GRAPH_PUSH, .end = ON, .id = GRAPH_IDS});
	assert_non_null(world.made);
	assert_false(world.member->known[GRAPH_IDS].block->wrapped);
}

/* ---- waiting ---- */

/* Room for one alone, and nothing more happens then: who waits for it is told all the same. */
static void test_room_for_one(void **state)
{
	uint32_t taken, changes;
	struct gdev_datablock *block;
	void *data;

	open_graph(0606);
	join();
	/* All that lies between the program, which does not pull, and the member is full but for the end. */
	for (int i = 0; i < 100 && world.in->count < CAPACITY; i++) {
		assert_int_equal(gdev_datablock_create(world.graph, world.tmpl, 0, &block), 0);
		assert_int_equal(gdev_datablock_map(block, true, &data), 0);
		assert_int_equal(gdev_push(world.in, block, 0), 0);
		gdev_datablock_put(block);
		advance();
	}
	give(0);
	for (unsigned i = 1; i < CAPACITY; i++)
		ask((struct graph_request){.type = GRAPH_PUSH, .end = IN});
	taken = world.segment->ends[IN].taken;
	changes = world.segment->changes;
	assert_int_equal(gdev_pull(world.out, 0, &block), 0);
	gdev_datablock_put(block);
	advance();
	assert_int_equal(world.segment->ends[IN].taken, taken + 1);
	assert_int_not_equal(world.segment->changes, changes);
}

/* What the owner has answered last. */
static struct graph_answer last_answer(uint32_t type)
{
	struct graph_answer answer;
	uint32_t tail = world.segment->answers_tail;

	do {
		assert_int_not_equal(tail, 0);
		answer = world.segment->answers[--tail % GRAPH_ANSWERS];
	} while (answer.type != type);
	return answer;
}

/* The memory has room for the contents of one datablock. */
static void test_contents_in_order(void **state)
{
	enum { FIRST = GRAPH_IDS, SECOND, THIRD };
	struct graph_request pull = {.type = GRAPH_PULL, .flags = GRAPH_WANTS, .end = OUT},
			     push = {.type = GRAPH_PUSH, .end = IN};

	open_graph(0606);
	join();
	for (int i = 0; i < 5; i++)
		put_request(pull);
	give(0);
	ask(push);
	ask(push);
	assert_int_equal(last_answer(GRAPH_PULLED).id, THIRD);
	assert_int_equal(last_answer(GRAPH_PULLED).offset, GRAPH_NOWHERE);
	ask((struct graph_request){.type = GRAPH_BRING, .id = SECOND});
	assert_int_equal(last_answer(GRAPH_BROUGHT).status, -ENOMEM);
	ask((struct graph_request){.type = GRAPH_DROP, .id = FIRST});
	ask(push); /* its contents would fit */
	assert_int_equal(last_answer(GRAPH_PULLED).id, FIRST);
	assert_int_equal(last_answer(GRAPH_PULLED).offset, GRAPH_NOWHERE);
	ask((struct graph_request){.type = GRAPH_BRING, .id = SECOND});
	assert_int_equal(last_answer(GRAPH_BROUGHT).status, 0);
	ask((struct graph_request){.type = GRAPH_DROP, .id = THIRD});
	ask((struct graph_request){.type = GRAPH_DROP, .id = FIRST});
	ask((struct graph_request){.type = GRAPH_DROP, .id = SECOND});
	ask(push);
	assert_int_equal(last_answer(GRAPH_PULLED).offset, 0); /* all before it are gone */
	assert_false(world.member->left);
}

static atomic_bool enough;

/* As fast as it can, and it reads the answers. */
static void *ask_without_end(void *argument)
{
	struct graph_segment *segment = world.segment;

	while (!enough) {
		__atomic_store_n(&segment->answers_head,
			__atomic_load_n(&segment->answers_tail, __ATOMIC_ACQUIRE),
			__ATOMIC_RELEASE);
		__atomic_store_n(&segment->requests_tail,
			__atomic_load_n(&segment->requests_head, __ATOMIC_ACQUIRE) + GRAPH_REQUESTS,
			__ATOMIC_RELEASE);
	}
	return NULL;
}

/* A member that never stops does not keep the program in a call. */
static void test_asks_without_end(void **state)
{
	pthread_t thread;
	uint32_t most = 0;

	open_graph(0606);
	join();
	give(0);
	ask((struct graph_request){.type = GRAPH_PULL, .end = OUT});
	assert_non_null(world.member->known[GRAPH_IDS].block);
	for (unsigned i = 0; i < GRAPH_REQUESTS; i++)
		world.segment->requests[i] =
			(struct graph_request){.type = GRAPH_BRING, .id = GRAPH_IDS};
	assert_int_equal(pthread_create(&thread, NULL, ask_without_end, NULL), 0);
	for (int i = 0; i < 60; i++) {
		uint32_t before = world.member->requests_head;
		while (__atomic_load_n(&world.segment->requests_tail, __ATOMIC_ACQUIRE) == before)
			sched_yield();
		advance();
		if (world.member->requests_head - before > most)
			most = world.member->requests_head - before;
	}
	enough = true;
	pthread_join(thread, NULL);
	assert_in_range(most, 1, 1024 * 64); /* turns in a row, and requests a turn */
	assert_false(world.member->left);
}

/* ---- leaving ---- */

/* Another thread of the owner leaves the member while contents are on their way to it, which the lock is not held for. */
static void on_fault(int signal)
{
	pthread_mutex_lock(&world.graph->lock);
	member_leave(world.member);
	pthread_mutex_unlock(&world.graph->lock);
	mprotect(world.made, (size_t)getpagesize(), PROT_READ | PROT_WRITE);
}

static void test_left_while_it_pulls(void **state)
{
	struct sigaction action = {.sa_handler = on_fault}, before;
	size_t page = (size_t)getpagesize();

	open_graph(0606);
	join();
	give(0);
	assert_non_null(world.made);
	world.made = (void *)(((uintptr_t)world.made + page - 1) & ~(uintptr_t)(page - 1));
	assert_int_equal(sigaction(SIGSEGV, &action, &before), 0);
	assert_int_equal(mprotect(world.made, page, PROT_NONE), 0);
	ask((struct graph_request){.type = GRAPH_PULL, .flags = GRAPH_WANTS, .end = OUT});
	sigaction(SIGSEGV, &before, NULL);
	assert_true(is_left());
	assert_true(list_empty(&world.graph->publication->members));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_teardown(test_bell_full, teardown),
		cmocka_unit_test_teardown(test_bell_rung_slowly, teardown),
		cmocka_unit_test_teardown(test_two_threads, teardown),
		cmocka_unit_test_teardown(test_told_between_callbacks, teardown),
		cmocka_unit_test_teardown(test_bell_closed, teardown),
		cmocka_unit_test_teardown(test_refused_look, teardown),
		cmocka_unit_test_teardown(test_gives_too_much, teardown),
		cmocka_unit_test_teardown(test_sends_descriptors, teardown),
		cmocka_unit_test_teardown(test_rings_with_descriptors, teardown),
		cmocka_unit_test_teardown(test_builds_wrongly, teardown),
		cmocka_unit_test_teardown(test_builds_before_it_joins, teardown),
		cmocka_unit_test_teardown(test_builds_too_much, teardown),
		cmocka_unit_test_teardown(test_strangers_build_too_much, teardown),
		cmocka_unit_test_teardown(test_passes_on_what_it_gave, teardown),
		cmocka_unit_test_teardown(test_room_for_one, teardown),
		cmocka_unit_test_teardown(test_contents_in_order, teardown),
		cmocka_unit_test_teardown(test_asks_without_end, teardown),
		cmocka_unit_test_teardown(test_left_while_it_pulls, teardown),
	};

	world.socket = world.bell = -1;
	alarm(290); /* what goes wrong may do so without end */
	return cmocka_run_group_tests(tests, NULL, NULL);
}
